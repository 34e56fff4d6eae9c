/* SPDX-License-Identifier: Apache-2.0
 *
 * Random fills and shuffles: the same bits however a tensor is cut, values within their bounds, and the right distribution. */
#include "messages.h"
#include "data/data.h"
#include "tensor/fill.h"
#include "tensor/philox.h"
#include "failing_allocator.h"

/* Whole, in ranges cut anywhere, and through a strided view: one result. */
TEST(test_cutting)
{
    enum { N = 2000 };
    for (int d = 0; d < SAMBA_DTYPE_COUNT; d++)
        for (int kind = samba_dtype_is_floating_point((samba_dtype)d) ? 0 : 2; kind < 3; kind++) {
            samba_dtype dtype = (samba_dtype)d;
            int64_t size = (int64_t)samba_dtype_size(dtype), high = dtype == SAMBA_BOOL ? 2 : 120;
            OWN_TENSOR *whole = tensor("x", dtype, SIZES(N)), *cut = tensor("x", dtype, SIZES(N)),
                       *wide = tensor("x", dtype, SIZES(2 * N)), *view, *shaped;
            need(samba_tensor_slice(wide, 0, 1, 2 * N, 2, &view));
            need(samba_tensor_view(view, 3, (int64_t[]){4, 5, 100}, &shaped));
            for (int i = 0; i < 2; i++)
                need(kind == 0   ? samba_fill_uniform(i ? shaped : whole, 99, -1, 3)
                     : kind == 1 ? samba_fill_normal(i ? shaped : whole, 99, 5, 2)
                                 : samba_fill_integers(i ? shaped : whole, 99, 0, high));
            for (int64_t first = 0, n, i = 0; first < N; first += n, i++) {
                n = 1 + (int64_t)(samba_philox_word64(5, (uint64_t)i) % 300);
                n = n > N - first ? N - first : n;
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
        }
}

TEST(test_uniform)
{
    static const double bounds[][2] = {{0, 1},     {-1, 1}, {-3, -2},       {0.1, 0.1000001}, {0, 1e-7},
                                       {-1e-3, 0}, {2, 2},  {1, 1.0000001}, {-1e4, 3e4}};
    for (int dtype = 0; dtype < 4; dtype++) {
        OWN_TENSOR *made = tensor("x", (samba_dtype)dtype, SIZES(100000));
        for (int b = 0; b < LENGTH(bounds); b++) {
            double low = bounds[b][0], high = bounds[b][1], sum = 0;
            need(samba_fill_uniform(made, 7, low, high));
            char rounded[8]; /* the dtype may hold nothing in a narrow range: then it is the lower bound, rounded */
            samba_store_double((samba_dtype)dtype, rounded, low);
            double nearest = samba_load_double((samba_dtype)dtype, rounded), least = fmin(low, nearest);
            for (int64_t i = 0; i < 100000; i++) {
                double value =
                    samba_load_double((samba_dtype)dtype, made->data + i * (int64_t)samba_dtype_size((samba_dtype)dtype));
                if (value < least || (value >= high && value != nearest))
                    fail_msg("%s in [%g, %g): %.17g", samba_dtype_name((samba_dtype)dtype), low, high, value);
                sum += value;
            }
            if (b < 2)
                assert_true(fabs(sum / 100000 - (low + high) / 2) < 0.01);
        }
    }
    OWN_TENSOR *made = tensor("x", SAMBA_FLOAT32, SIZES(1000));
    need(samba_fill_uniform(made, 123, 0, 1));
    for (uint64_t i = 0; i < 1000; i++) /* the same numbers as the operator random(seed) */
        assert_true(((float *)made->data)[i] == samba_philox_uniform(123, i));
}

/* What element i is made of: of the word of its pair the first or the second half. */
static double half_of_word(uint64_t seed, int64_t i)
{
    return (double)(uint32_t)(samba_philox_word64(seed, (uint64_t)i / 2) >> (i % 2 ? 32 : 0));
}

/* Against Box and Muller's formulas with the C library's functions. */
TEST(test_normal)
{
    enum { N = 400000 };
    OWN_TENSOR *made = tensor("x", SAMBA_FLOAT64, SIZES(N));
    const double *values = (const double *)made->data;
    need(samba_fill_normal(made, 42, 0, 1));
    for (int64_t i = 0; i < N; i += 2) {
        double radius = sqrt(-2 * log((half_of_word(42, i) + 1) / 0x1p32)), angle = 2 * M_PI * half_of_word(42, i + 1) / 0x1p32;
        assert_true(fabs(values[i] - radius * cos(angle)) < 1e-12 && fabs(values[i + 1] - radius * sin(angle)) < 1e-12);
    }
    need(samba_fill_normal(made, 42, 3, 0));
    assert_true(values[17] == 3);
}

/* The distribution function of what a word gives is the word, scaled to the bounds if there are any; also far out in
 * either tail. */
TEST(test_inverse)
{
    enum { N = 300000 };
    static const double cases[][4] = {
        {0, 1, -INFINITY, INFINITY}, {0, 1, -2, 2},   {1, 0.5, 0, INFINITY}, {0, 1, 6, 9}, {0, 1, -9, -6},
        {0, 1, -INFINITY, INFINITY}, {3, 2, 2.9, 3.2}};
    OWN_TENSOR *made = tensor("x", SAMBA_FLOAT64, SIZES(N));
    const double *values = (const double *)made->data;
    samba_fill_options options = samba_fill_defaults();
    options.seed = 31;
    for (int c = 0; c < LENGTH(cases); c++) {
        options.distribution = c == 0 ? SAMBA_NORMAL_INVERSE : SAMBA_NORMAL_TRUNCATED;
        double mean = options.a = cases[c][0], low = options.low = cases[c][2], high = options.high = cases[c][3];
        double scale =
            (low > mean ? 1 : -1) / (options.b = cases[c][1]) * sqrt(0.5); /* above the mean: probabilities from above */
        double begin = 0.5 * erfc(((low > mean ? high : low) - mean) * scale);
        double end = 0.5 * erfc(((low > mean ? low : high) - mean) * scale);
        need(samba_fill(made, &options));
        for (int64_t i = 0; i < N; i++) {
            double p = begin + (half_of_word(31, i) + 0.5) * 0x1p-32 * (end - begin);
            double back = 0.5 * erfc((values[i] - mean) * scale);
            assert_true(values[i] >= low && values[i] <= high);
            double slope = exp(-values[i] * values[i] / 2) / sqrt(2 * M_PI); /* for erfc's rounding and the series of ln */
            if (fabs(back - p) > (c == 0 ? 1e-15 + slope * 1e-13 * fmax(fabs(values[i]), 1) : 1e-12 * p + 1e-15 * (p > 1e-6)))
                fail_msg("case %d, value %.17g: %g is not %g", c, values[i], back, p);
        }
    }
    options.b = 0, options.low = 3.5, options.high = 4;
    need(samba_fill(made, &options));
    assert_true(values[5] == 3.5); /* nothing of it lies there: the nearest bound */
    options.low = 5;
    says(samba_fill(made, &options));
}

/* Any number of threads gives the bits of one; bfloat16 is float32, rounded as asked for; bits by hand. */
TEST(test_threads_and_rounding)
{
    enum { N = 50001 };
    OWN_TENSOR *wide = tensor("x", SAMBA_FLOAT32, SIZES(N)), *one = tensor("x", SAMBA_FLOAT32, SIZES(N)),
               *low = tensor("x", SAMBA_BFLOAT16, SIZES(N));
    need(samba_fill_uniform(wide, 0, 0, 1));
    need(samba_fill(one, NULL)); /* no options */
    assert_memory_equal(one->data, wide->data, N * 4);
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
}

TEST(test_integers)
{
    OWN_TENSOR *made = tensor("x", SAMBA_INT64, SIZES(60000));
    int64_t *values = (int64_t *)made->data, counts[6] = {0};
    need(samba_fill_integers(made, 1, -3, 3));
    for (int i = 0; i < 60000; i++) {
        assert_in_range(values[i] + 3, 0, 5);
        counts[values[i] + 3]++;
    }
    for (int i = 0; i < 6; i++)
        assert_in_range(counts[i], 9600, 10400);
    need(samba_fill_integers(made, 1, INT64_MIN, INT64_MAX));
    static const struct {
        samba_dtype dtype;
        int64_t low, high; /* the widest bounds */
    } cases[] = {{SAMBA_UINT8, 0, 256},        {SAMBA_INT8, -128, 128},
                 {SAMBA_INT16, -32768, 32768}, {SAMBA_INT32, -(INT64_C(1) << 31), INT64_C(1) << 31},
                 {SAMBA_BOOL, 0, 2},           {SAMBA_FLOAT16, -65504, 65505}};
    for (int i = 0; i < LENGTH(cases); i++) {
        OWN_TENSOR *few = tensor("x", cases[i].dtype, SIZES(10));
        need(samba_fill_integers(few, 1, cases[i].low, cases[i].high));
        says(samba_fill_integers(few, 1, cases[i].low - 1, 1));
        says(samba_fill_integers(few, 1, 0, cases[i].high + 1));
    }
    OWN_TENSOR *few = tensor("x", SAMBA_FLOAT32, SIZES(10));
    says(samba_fill_integers(few, 1, 5, 5));
    says(samba_fill_integers(few, 1, 5, 4));
}

TEST(test_filling_wrongly)
{
    OWN_TENSOR *whole = tensor("x", SAMBA_INT32, SIZES(4)), *real = tensor("x", SAMBA_FLOAT32, SIZES(1)), *empty, *expanded;
    int64_t size = 4;
    says(samba_fill_uniform(whole, 1, 0, 1));
    says(samba_fill_normal(whole, 1, 0, 1));
    says(samba_fill_uniform(real, 1, 1, 0));
    says(samba_fill_uniform(real, 1, 0, INFINITY));
    says(samba_fill_uniform(real, 1, NAN, 1));
    says(samba_fill_normal(real, 1, 0, -1));
    says(samba_fill_normal(real, 1, NAN, 1));
    need(samba_tensor_empty(context, "hollow", SAMBA_FLOAT32, 1, &size, &empty));
    says(samba_fill_uniform(empty, 1, 0, 1));
    need(samba_tensor_expand(real, 1, &size, &expanded));
    says(samba_fill_uniform(expanded, 1, 0, 1));
    samba_fill_options options = samba_fill_defaults();
    says(samba_fill(whole, &options));
    says(samba_fill(empty, &options));
    says(samba_fill(expanded, &options));
    options.threads = -1;
    says(samba_fill(real, &options));
    options.threads = 1, options.distribution = (samba_distribution)4;
    says(samba_fill(real, &options));
    options.distribution = SAMBA_UNIFORM, options.rounding = (samba_rounding)2;
    says(samba_fill(real, &options));
    options.rounding = SAMBA_TRUNCATION, options.a = 2;
    says(samba_fill(real, &options));
    options.distribution = SAMBA_NORMAL_INVERSE, options.b = -1;
    says(samba_fill(real, &options));
    options.struct_size = 1;
    says(samba_fill(real, &options));
    OWN_TENSOR *nothing = tensor("x", SAMBA_FLOAT32, SIZES(0));
    need(samba_fill_uniform(nothing, 1, 0, 1));
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

TEST_MAIN_WITH(counting_begin, counting_end, test_cutting, test_uniform, test_normal, test_inverse, test_threads_and_rounding,
               test_integers, test_filling_wrongly, test_shuffle, every_message_said)
