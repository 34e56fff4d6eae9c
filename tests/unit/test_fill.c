/* SPDX-License-Identifier: Apache-2.0
 *
 * Random fills and shuffles: the same bits however a tensor is cut, values within their bounds, and the right distribution. */
#include "harness.h"
#include "data/data.h"
#include "tensor/fill.h"
#include "tensor/philox.h"

#include "failing_allocator.h"

static failing_allocator counter;
static samba_context *context;

static int open_context(void **state)
{
    (void)state;
    context = counting_context_new(&counter);
    return 0;
}

static int close_context(void **state)
{
    (void)state;
    counting_context_free(context, &counter);
    return 0;
}

static samba_tensor *make(samba_dtype dtype, int64_t size)
{
    samba_tensor *tensor;
    need(samba_tensor_new(context, "x", dtype, 1, &size, &tensor));
    return tensor;
}

static void assert_message(samba_status given, samba_status expected, const char *part)
{
    if (given != expected || !strstr(samba_error_message(context), part))
        fail_msg("status %s, message \"%s\"; wanted %s with \"%s\"", samba_status_name(given), samba_error_message(context),
                 samba_status_name(expected), part);
}

/* Whole, in ranges cut anywhere, and through a strided view: one result. */
TEST(test_cutting)
{
    enum { N = 2000 };
    for (int d = 0; d < SAMBA_DTYPE_COUNT; d++)
        for (int kind = samba_dtype_is_floating_point((samba_dtype)d) ? 0 : 2; kind < 3; kind++) {
            samba_dtype dtype = (samba_dtype)d;
            int64_t size = (int64_t)samba_dtype_size(dtype), high = dtype == SAMBA_BOOL ? 2 : 120;
            samba_tensor *whole = make(dtype, N), *cut = make(dtype, N), *wide = make(dtype, 2 * N), *view, *shaped;
            need(samba_tensor_slice(wide, 0, 1, 2 * N, 2, &view));
            need(samba_tensor_view(view, 3, (int64_t[]){4, 5, 100}, &shaped));
            samba_tensor *filled[] = {whole, shaped};
            for (int i = 0; i < 2; i++)
                need(kind == 0   ? samba_fill_uniform(filled[i], 99, -1, 3)
                                 : kind == 1 ? samba_fill_normal(filled[i], 99, 5, 2)
                                             : samba_fill_integers(filled[i], 99, 0, high));
            for (int64_t first = 0, n, i = 0; first < N; first += n, i++) {
                n = 1 + (int64_t)(samba_philox_word64(5, (uint64_t)i) % 300);
                if (n > N - first)
                    n = N - first;
                if (kind == 0)
                    samba_fill_uniform_range(dtype, cut->data + first * size, 99, (uint64_t)first, n, -1, 3);
                else if (kind == 1)
                    samba_fill_normal_range(dtype, cut->data + first * size, 99, (uint64_t)first, n, 5, 2);
                else
                    samba_fill_integers_range(dtype, cut->data + first * size, 99, (uint64_t)first, n, 0, high);
            }
            assert_memory_equal(whole->data, cut->data, (size_t)(N * size));
            need(samba_tensor_copy(cut, view));
            assert_memory_equal(whole->data, cut->data, (size_t)(N * size));
            for (int64_t i = 0; i < N; i++) /* the gaps of the view are untouched */
                assert_int_equal(samba_load_int64(dtype, wide->data + 2 * i * size), 0);
            samba_tensor_free(shaped);
            samba_tensor_free(view);
            samba_tensor_free(wide);
            samba_tensor_free(cut);
            samba_tensor_free(whole);
        }
}

TEST(test_uniform)
{
    static const double bounds[][2] = {{0, 1},     {-1, 1}, {-3, -2},       {0.1, 0.1000001}, {0, 1e-7},
                                       {-1e-3, 0}, {2, 2},  {1, 1.0000001}, {-1e4, 3e4}};
    for (int dtype = 0; dtype < 4; dtype++) {
        samba_tensor *tensor = make((samba_dtype)dtype, 100000);
        for (int b = 0; b < SAMBA_COUNT(bounds); b++) {
            double low = bounds[b][0], high = bounds[b][1], sum = 0;
            need(samba_fill_uniform(tensor, 7, low, high));
            char rounded[8]; /* the dtype may hold nothing in a narrow range: then it is the lower bound, rounded */
            samba_store_double((samba_dtype)dtype, rounded, low);
            double nearest = samba_load_double((samba_dtype)dtype, rounded), least = fmin(low, nearest);
            for (int64_t i = 0; i < 100000; i++) {
                double value =
                    samba_load_double((samba_dtype)dtype, tensor->data + i * (int64_t)samba_dtype_size((samba_dtype)dtype));
                if (value < least || (value >= high && value != nearest))
                    fail_msg("%s in [%g, %g): %.17g", samba_dtype_name((samba_dtype)dtype), low, high, value);
                sum += value;
            }
            if (b < 2)
                assert_true(fabs(sum / 100000 - (low + high) / 2) < 0.01);
        }
        samba_tensor_free(tensor);
    }
    samba_tensor *tensor = make(SAMBA_FLOAT32, 1000);
    need(samba_fill_uniform(tensor, 123, 0, 1));
    for (uint64_t i = 0; i < 1000; i++) /* the same numbers as the operator random(seed) */
        assert_true(((float *)tensor->data)[i] == samba_philox_uniform(123, i));
    samba_tensor_free(tensor);
}

/* Against Box and Muller's formulas with the C library's functions, and by moments. */
TEST(test_normal)
{
    enum { N = 400000 };
    samba_tensor *tensor = make(SAMBA_FLOAT64, N);
    double *values = (double *)tensor->data, sum = 0, squares = 0, fourth = 0, products = 0;
    int beyond = 0;
    need(samba_fill_normal(tensor, 42, 0, 1));
    for (int64_t i = 0; i < N; i++) {
        if (i % 2 == 0) {
            uint64_t pair = samba_philox_word64(42, (uint64_t)i / 2);
            double radius = sqrt(-2 * log(((double)(uint32_t)pair + 1) / 0x1p32));
            double angle = 2 * 3.14159265358979323846 * (double)(uint32_t)(pair >> 32) / 0x1p32;
            assert_true(fabs(values[i] - radius * cos(angle)) < 1e-12 && fabs(values[i + 1] - radius * sin(angle)) < 1e-12);
            products += values[i] * values[i + 1];
        }
        sum += values[i];
        squares += values[i] * values[i];
        fourth += values[i] * values[i] * values[i] * values[i];
        beyond += fabs(values[i]) > 1.959963985;
    }
    assert_true(fabs(sum / N) < 0.008 && fabs(squares / N - 1) < 0.012 && fabs(fourth / N - 3) < 0.08);
    assert_true(fabs(products / (N / 2)) < 0.011 && fabs((double)beyond / N - 0.05) < 0.002);
    need(samba_fill_normal(tensor, 42, 3, 0));
    assert_true(values[17] == 3);
    samba_tensor_free(tensor);
}

TEST(test_options_left_out)
{
    samba_tensor *expected = make(SAMBA_FLOAT32, 100), *filled = make(SAMBA_FLOAT32, 100);
    need(samba_fill_uniform(expected, 0, 0, 1));
    need(samba_fill(filled, NULL));
    assert_memory_equal(filled->data, expected->data, 100 * sizeof(float));
    samba_tensor_free(expected);
    samba_tensor_free(filled);
}

/* The distribution function of what a word gives is the word again. */
TEST(test_inverse)
{
    enum { N = 300000 };
    samba_tensor *tensor = make(SAMBA_FLOAT64, N);
    const double *values = (const double *)tensor->data;
    samba_fill_options options = samba_fill_defaults();
    options.distribution = SAMBA_NORMAL_INVERSE;
    options.a = 0, options.b = 1, options.seed = 17;
    need(samba_fill(tensor, &options));
    double greatest = 0, squares = 0;
    for (int64_t i = 0; i < N; i++) {
        uint64_t pair = samba_philox_word64(17, (uint64_t)i / 2);
        double p = ((double)(uint32_t)(i % 2 ? pair >> 32 : pair) + 0.5) * 0x1p-32;
        double back = 0.5 * erfc(-values[i] * sqrt(0.5)),
               slope = exp(-values[i] * values[i] / 2) / sqrt(2 * 3.14159265358979323846);
        /* erfc's rounding, and the series of ln */
        assert_true(fabs(back - p) <= 1e-15 + slope * 1e-13 * fmax(fabs(values[i]), 1));
        greatest = fmax(greatest, fabs(values[i]));
        squares += values[i] * values[i];
    }
    assert_true(greatest > 4 && greatest < 6.4 && fabs(squares / N - 1) < 0.015);
    samba_tensor_free(tensor);
}

/* The distribution function of what a word gives is the word, scaled to the bounds; also far out in either tail. */
TEST(test_truncated)
{
    enum { N = 20000 };
    static const double cases[][4] = {{0, 1, -2, 2},  {1, 0.5, 0, INFINITY},       {0, 1, 6, 9},
                                      {0, 1, -9, -6}, {0, 1, -INFINITY, INFINITY}, {3, 2, 2.9, 3.2}};
    samba_tensor *tensor = make(SAMBA_FLOAT64, N);
    const double *values = (const double *)tensor->data, root = sqrt(0.5);
    samba_fill_options options = samba_fill_defaults();
    options.distribution = SAMBA_NORMAL_TRUNCATED;
    options.seed = 31;
    for (int c = 0; c < SAMBA_COUNT(cases); c++) {
        double mean = options.a = cases[c][0], deviation = options.b = cases[c][1];
        options.low = cases[c][2], options.high = cases[c][3];
        need(samba_fill(tensor, &options));
        bool upper = options.low > mean; /* then probabilities from above */
        double sign = upper ? 1 : -1, begin = (upper ? options.high : options.low), end = upper ? options.low : options.high;
        double first = 0.5 * erfc(sign * (begin - mean) / deviation * root),
               last = 0.5 * erfc(sign * (end - mean) / deviation * root);
        for (int64_t i = 0; i < N; i++) {
            uint64_t pair = samba_philox_word64(31, (uint64_t)i / 2);
            double u = ((double)(uint32_t)(i % 2 ? pair >> 32 : pair) + 0.5) * 0x1p-32, p = first + u * (last - first);
            double back = 0.5 * erfc(sign * (values[i] - mean) / deviation * root);
            assert_true(values[i] >= options.low && values[i] <= options.high);
            if (fabs(back - p) > 1e-12 * fmin(p, 1) + 1e-15 * (p > 1e-6))
                fail_msg("case %d, value %.17g: %g is not %g", c, values[i], back, p);
        }
    }
    options.b = 0, options.low = 3.5, options.high = 4;
    need(samba_fill(tensor, &options));
    assert_true(values[5] == 3.5); /* nothing of it lies there: the nearest bound */
    options.low = 5;
    assert_message(samba_fill(tensor, &options), SAMBA_ERROR_ARGUMENT, "from 5 to 4");
    samba_tensor_free(tensor);
}

/* Any number of threads gives the bits of one; bfloat16 is float32, rounded as asked for; bits by hand. */
TEST(test_threads_and_rounding)
{
    enum { N = 50001 };
    samba_tensor *wide = make(SAMBA_FLOAT32, N), *one = make(SAMBA_FLOAT32, N), *low = make(SAMBA_BFLOAT16, N);
    for (int distribution = 0; distribution < 3; distribution++) {
        samba_fill_options options = samba_fill_defaults();
        options.distribution = (samba_distribution)distribution;
        options.a = -0.5, options.b = 1.5, options.seed = 23, options.threads = 1;
        need(samba_fill(one, &options));
        if (distribution < 2) {
            need(distribution == 0 ? samba_fill_uniform(wide, 23, -0.5, 1.5) : samba_fill_normal(wide, 23, -0.5, 1.5));
            assert_memory_equal(one->data, wide->data, N * 4);
        }
        for (int threads = 2; threads <= 5; threads += 3) {
            options.threads = threads;
            need(samba_fill(wide, &options));
            assert_memory_equal(one->data, wide->data, N * 4);
            for (int rounding = 0; rounding < 2; rounding++) {
                int up = 0;
                options.rounding = (samba_rounding)rounding;
                need(samba_fill(low, &options));
                for (int64_t i = 0; i < N; i++) {
                    uint32_t bits = ((const uint32_t *)(const void *)one->data)[i], kept = bits >> 16, cut = bits & 0xFFFF;
                    bool rises = rounding == SAMBA_NEAREST_EVEN && (cut > 0x8000 || (cut == 0x8000 && kept & 1));
                    assert_int_equal(((const uint16_t *)(const void *)low->data)[i], kept + rises);
                    up += rises;
                }
                assert_true(rounding == SAMBA_TRUNCATION ? up == 0 : up > N / 3);
            }
        }
    }
    samba_tensor_free(low);
    samba_tensor_free(one);
    samba_tensor_free(wide);
}

TEST(test_integers)
{
    samba_tensor *tensor = make(SAMBA_INT64, 60000);
    int64_t *values = (int64_t *)tensor->data, counts[6] = {0};
    need(samba_fill_integers(tensor, 1, -3, 3));
    for (int i = 0; i < 60000; i++) {
        assert_in_range(values[i] + 3, 0, 5);
        counts[values[i] + 3]++;
    }
    for (int i = 0; i < 6; i++)
        assert_in_range(counts[i], 9600, 10400);
    need(samba_fill_integers(tensor, 1, INT64_MIN, INT64_MAX));
    samba_tensor_free(tensor);
    static const struct {
        samba_dtype dtype;
        int64_t low, high;
        bool fits;
    } cases[] = {{SAMBA_UINT8, 0, 256, true},
                 {SAMBA_UINT8, 0, 257, false},
                 {SAMBA_UINT8, -1, 3, false},
                 {SAMBA_INT8, -128, 128, true},
                 {SAMBA_INT8, -129, 0, false},
                 {SAMBA_INT16, 0, 32768, true},
                 {SAMBA_INT16, 0, 32769, false},
                 {SAMBA_INT32, -(INT64_C(1) << 31), INT64_C(1) << 31, true},
                 {SAMBA_INT32, 0, (INT64_C(1) << 31) + 1, false},
                 {SAMBA_BOOL, 0, 2, true},
                 {SAMBA_BOOL, 0, 3, false},
                 {SAMBA_FLOAT16, -65504, 65505, true},
                 {SAMBA_FLOAT16, 0, 65506, false},
                 {SAMBA_FLOAT32, 5, 5, false},
                 {SAMBA_FLOAT32, 5, 4, false}};
    for (int i = 0; i < SAMBA_COUNT(cases); i++) {
        tensor = make(cases[i].dtype, 10);
        samba_status status = samba_fill_integers(tensor, 1, cases[i].low, cases[i].high);
        if (cases[i].fits)
            assert_int_equal(status, SAMBA_OK);
        else
            assert_message(status, SAMBA_ERROR_ARGUMENT, "the lower bound comes first, and");
        samba_tensor_free(tensor);
    }
}

TEST(test_filling_wrongly)
{
    samba_tensor *whole = make(SAMBA_INT32, 4), *real = make(SAMBA_FLOAT32, 1), *empty, *expanded;
    int64_t size = 4;
    assert_message(samba_fill_uniform(whole, 1, 0, 1), SAMBA_ERROR_DTYPE, "it is int32");
    assert_message(samba_fill_normal(whole, 1, 0, 1), SAMBA_ERROR_DTYPE, "it is int32");
    assert_message(samba_fill_uniform(real, 1, 1, 0), SAMBA_ERROR_ARGUMENT, "from 1 to 0");
    assert_message(samba_fill_uniform(real, 1, 0, INFINITY), SAMBA_ERROR_ARGUMENT, "finite");
    assert_message(samba_fill_uniform(real, 1, NAN, 1), SAMBA_ERROR_ARGUMENT, "finite");
    assert_message(samba_fill_normal(real, 1, 0, -1), SAMBA_ERROR_ARGUMENT, "deviation -1");
    assert_message(samba_fill_normal(real, 1, NAN, 1), SAMBA_ERROR_ARGUMENT, "finite");
    need(samba_tensor_empty(context, "hollow", SAMBA_FLOAT32, 1, &size, &empty));
    assert_message(samba_fill_uniform(empty, 1, 0, 1), SAMBA_ERROR_STATE, "hollow: it has no data");
    need(samba_tensor_expand(real, 1, &size, &expanded));
    assert_message(samba_fill_uniform(expanded, 1, 0, 1), SAMBA_ERROR_ARGUMENT, "share memory");
    samba_fill_options options = samba_fill_defaults();
    assert_message(samba_fill(whole, &options), SAMBA_ERROR_DTYPE, "it is int32");
    assert_message(samba_fill(empty, &options), SAMBA_ERROR_STATE, "hollow: it has no data");
    assert_message(samba_fill(expanded, &options), SAMBA_ERROR_ARGUMENT, "not contiguous");
    options.threads = -1;
    assert_message(samba_fill(real, &options), SAMBA_ERROR_ARGUMENT, "-1 threads");
    options.threads = 1, options.distribution = (samba_distribution)4;
    assert_message(samba_fill(real, &options), SAMBA_ERROR_ARGUMENT, "distribution 4");
    options.distribution = SAMBA_UNIFORM, options.rounding = (samba_rounding)2;
    assert_message(samba_fill(real, &options), SAMBA_ERROR_ARGUMENT, "rounding 2");
    options.rounding = SAMBA_TRUNCATION, options.a = 2;
    assert_message(samba_fill(real, &options), SAMBA_ERROR_ARGUMENT, "from 2 to 1");
    options.distribution = SAMBA_NORMAL_INVERSE, options.b = -1;
    assert_message(samba_fill(real, &options), SAMBA_ERROR_ARGUMENT, "deviation -1");
    options.struct_size = 1;
    assert_message(samba_fill(real, &options), SAMBA_ERROR_ARGUMENT, "struct_size");
    samba_tensor_free(expanded);
    samba_tensor_free(empty);
    samba_tensor_free(real);
    samba_tensor_free(whole);
    whole = make(SAMBA_FLOAT32, 0);
    need(samba_fill_uniform(whole, 1, 0, 1));
    samba_tensor_free(whole);
}

TEST(test_shuffle)
{
    int64_t order[100], again[100], counts[3][3] = {{0}};
    samba_shuffle(4, 100, order);
    samba_shuffle(4, 100, again);
    assert_memory_equal(order, again, sizeof order);
    bool seen[100] = {false};
    int fixed = 0;
    for (int i = 0; i < 100; i++) {
        assert_in_range(order[i], 0, 99);
        assert_false(seen[order[i]]);
        seen[order[i]] = true;
        fixed += order[i] == i;
    }
    assert_true(fixed < 10);
    samba_shuffle(5, 100, again);
    assert_memory_not_equal(order, again, sizeof order);
    for (uint64_t seed = 0; seed < 9000; seed++) { /* every number in every place equally often */
        samba_shuffle(seed, 3, order);
        for (int i = 0; i < 3; i++)
            counts[i][order[i]]++;
    }
    for (int i = 0; i < 9; i++)
        assert_in_range(counts[i / 3][i % 3], 2800, 3200);
    samba_shuffle(1, 1, order);
    assert_int_equal(order[0], 0);
    samba_shuffle(1, 0, NULL);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, open_context, close_context)
    const struct CMUnitTest tests[] = {TEST(test_cutting),
                                       TEST(test_uniform),
                                       TEST(test_normal),
                                       TEST(test_options_left_out),
                                       TEST(test_inverse),
                                       TEST(test_truncated),
                                       TEST(test_threads_and_rounding),
                                       TEST(test_integers),
                                       TEST(test_filling_wrongly),
                                       TEST(test_shuffle)};
    return cmocka_run_group_tests_name("fill", tests, NULL, NULL);
}
