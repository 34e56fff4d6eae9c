/* SPDX-License-Identifier: Apache-2.0
 *
 * Host tensors: single elements, shapes, ownership, views, copies and the random number generator under them. */
#include "messages.h"
#include "tensor/tensor.h"
#include "tensor/philox.h"
#include "failing_allocator.h"

/* Element k in C order is k. */
static samba_tensor *make_counting(samba_dtype dtype, int rank, const int64_t *shape)
{
    samba_tensor *made = tensor("x", dtype, rank, shape);
    for (int64_t k = 0; k < samba_tensor_numel(made); k++)
        samba_store_int64(dtype, made->data + k * (int64_t)samba_dtype_size(dtype), k);
    return made;
}

static char *element(const samba_tensor *made, const int64_t *index)
{
    int64_t offset = 0;
    for (int i = 0; i < made->rank; i++)
        offset += index[i] * made->strides[i];
    return made->data + offset * (int64_t)samba_dtype_size(made->dtype);
}

/* Elements in C order. */
static void assert_elements(const samba_tensor *made, int count, const int64_t *expected)
{
    int64_t index[SAMBA_MAX_RANK] = {0};
    assert_int_equal(samba_tensor_numel(made), count);
    for (int k = 0; k < count; k++) {
        assert_int_equal(samba_load_int64(made->dtype, element(made, index)), expected[k]);
        samba_shape_next(made->rank, made->shape, index);
    }
}

static void assert_shape(const samba_tensor *shown, int rank, const int64_t *shape)
{
    assert_true(samba_shape_equal(shown->rank, shown->shape, rank, shape));
}

/* What a call made of `view`: its shape and, unless there are none here, its elements in C order. */
static samba_tensor *view;
#define shows(call, shape, ...)                                                                                                  \
    (need(call), assert_shown(view, shape, LENGTH(((int64_t[]){0, __VA_ARGS__})) - 1, (const int64_t[]){0, __VA_ARGS__} + 1))
static void assert_shown(samba_tensor *shown, int rank, const int64_t *shape, int count, const int64_t *elements)
{
    assert_shape(shown, rank, shape);
    if (count > 0)
        assert_elements(shown, count, elements);
    samba_tensor_free(shown);
}

TEST(test_dtypes)
{
    static const size_t sizes[] = {4, 2, 2, 8, 8, 4, 2, 1, 1, 1};
    for (int i = 0; i < SAMBA_DTYPE_COUNT; i++) {
        samba_dtype found = SAMBA_DTYPE_COUNT;
        need(samba_dtype_from_name(context, samba_dtype_name((samba_dtype)i), &found));
        assert_int_equal(found, i);
        assert_int_equal(samba_dtype_size((samba_dtype)i), sizes[i]);
        assert_int_equal(samba_dtype_is_floating_point((samba_dtype)i), i < 4);
    }
    samba_dtype unused;
    says(samba_dtype_from_name(context, "float", &unused));
    assert_string_equal(samba_dtype_name((samba_dtype)77), "?");
    assert_string_equal(samba_dtype_name((samba_dtype)-1), "?");
    assert_int_equal(samba_dtype_size(SAMBA_DTYPE_COUNT), 0);
}

/* Every value survives the way to float and back; what lies between two becomes the nearer one, in the middle the even one, where
 * infinity is one value more. */
static void check_rounding(uint16_t (*narrow)(float), float (*widen)(uint16_t), int infinity, float nan)
{
    for (int bits = 0; bits < infinity; bits++) {
        const int next = bits + 1, lower = next < infinity ? bits : bits - 1;
        const float at = widen((uint16_t)bits), half = (widen((uint16_t)(lower + 1)) - widen((uint16_t)lower)) / 2;
        const float some = (float)(samba_philox_word64(20240901, (uint64_t)bits) % 1023 + 1) / 1024 * half, middle = at + half;
        const struct {
            float x;
            int expected;
        } cases[] = {{at, bits},
                     {at + some, bits},
                     {nextafterf(middle, 0), bits},
                     {middle, bits % 2 ? next : bits},
                     {nextafterf(middle, INFINITY), next},
                     {middle + some, next}};
        for (int i = 0; i < 2 * LENGTH(cases); i++) {
            const float x = i % 2 ? -cases[i / 2].x : cases[i / 2].x;
            if (narrow(x) != (cases[i / 2].expected | i % 2 << 15))
                fail_msg("%a became %04x", (double)x, narrow(x));
        }
    }
    assert_true(narrow(0x1p-149F) == 0 && narrow(0x1.fffffep127F) == infinity && narrow(INFINITY) == infinity);
    for (int bits = infinity + 1; bits < 0x8000; bits++) {
        const float x = widen((uint16_t)bits);
        assert_true(isnan(x) && isnan(widen(narrow(x))) && isnan(widen(narrow(-x))));
    }
    assert_true(isnan(widen(narrow(nan))));
}

TEST(test_half_precision)
{
    float nan;
    memcpy(&nan, &(uint32_t){0x7F800001}, sizeof nan); /* whose upper half would be infinity */
    check_rounding(samba_float_to_float16, samba_float16_to_float, 0x7C00, nan);
    check_rounding(samba_float_to_bfloat16, samba_bfloat16_to_float, 0x7F80, nan);
    for (int power = -140; power < 128; power += 10) /* far from float16's values */
        if (power < -26 || power > 15)
            assert_int_equal(samba_float_to_float16(ldexpf(1.5F, power)), power < 0 ? 0 : 0x7C00);
}

TEST(test_elements)
{
    _Alignas(8) char place[8];
    for (int i = 0; i < SAMBA_DTYPE_COUNT; i++) {
        samba_dtype dtype = (samba_dtype)i;
        samba_store_int64(dtype, place, 100);
        assert_int_equal(samba_load_int64(dtype, place), dtype == SAMBA_BOOL ? 1 : 100);
        samba_store_double(dtype, place, -0.5);
        double expected = samba_dtype_is_floating_point(dtype) ? -0.5 : dtype == SAMBA_BOOL ? 1 : 0;
        assert_true(samba_load_double(dtype, place) == expected);
    }
    static const struct {
        samba_dtype dtype;
        double given;
        int64_t stored;
    } cases[] = {{SAMBA_INT32, -7.9, -7}, {SAMBA_UINT8, 260.7, 4}, {SAMBA_UINT8, -1, 255},
                 {SAMBA_INT64, NAN, 0},   {SAMBA_INT64, 1e30, 0},  {SAMBA_INT64, -0x1p63, INT64_MIN}};
    for (int i = 0; i < LENGTH(cases); i++) {
        samba_store_double(cases[i].dtype, place, cases[i].given);
        assert_true(samba_load_int64(cases[i].dtype, place) == cases[i].stored);
    }
    samba_store_double(SAMBA_BOOL, place, NAN);
    assert_int_equal(place[0], 1);
    place[0] = 2; /* a bool from elsewhere */
    assert_int_equal(samba_load_int64(SAMBA_BOOL, place), 1);
    samba_store_int64(SAMBA_INT64, place, INT64_MAX);
    assert_true(samba_load_int64(SAMBA_INT64, place) == INT64_MAX);
}

TEST(test_shapes)
{
    int64_t numel, strides[SAMBA_MAX_RANK], shape[SAMBA_MAX_RANK];
    int rank;
    char text[SAMBA_SHAPE_TEXT];
    assert_true(samba_shape_numel(0, NULL, &numel));
    assert_int_equal(numel, 1);
    assert_true(samba_shape_numel(SIZES(3, 0, 5), &numel));
    assert_int_equal(numel, 0);
    assert_false(samba_shape_numel(SIZES(3, -1), &numel));
    assert_false(samba_shape_numel(SIZES(0, -1), &numel));
    assert_false(samba_shape_numel(SIZES(INT64_C(1) << 32, INT64_C(1) << 31), &numel));
    assert_false(samba_shape_numel(SIZES(0, INT64_C(1) << 32, INT64_C(1) << 31), &numel));
    samba_shape_contiguous_strides(SIZES(2, 0, 3), strides);
    assert_memory_equal(strides, ((int64_t[]){3, 3, 1}), sizeof(int64_t[3]));
    assert_true(samba_shape_broadcast(SIZES(3, 1, 5), SIZES(4, 1), &rank, shape));
    assert_true(samba_shape_equal(rank, shape, SIZES(3, 4, 5)));
    assert_true(samba_shape_broadcast(SIZES(0), SIZES(1), &rank, shape));
    assert_true(samba_shape_equal(rank, shape, SIZES(0)));
    assert_false(samba_shape_broadcast(SIZES(0), SIZES(2), &rank, shape));
    assert_false(samba_shape_broadcast(SIZES(3, 2), SIZES(2, 3), &rank, shape));
    assert_string_equal(samba_shape_format(0, NULL, text, sizeof text), "()");
    assert_string_equal(samba_shape_format(SIZES(2, 3), text, sizeof text), "(2, 3)");
    assert_string_equal(samba_shape_format(SIZES(12345, 3), text, 5), "(123");
    samba_shape_format(SIZES(INT64_MIN, INT64_MIN, INT64_MIN, INT64_MIN, INT64_MIN, INT64_MIN, INT64_MIN, INT64_MIN), text,
                       sizeof text);
    assert_int_equal(text[strlen(text) - 1], ')');
}

static int released;
static void release(void *owner)
{
    assert_ptr_equal(owner, &released);
    released++;
}

TEST(test_making)
{
    samba_tensor *made = tensor("x", SAMBA_FLOAT16, SIZES(2, 3));
    assert_int_equal(samba_tensor_dtype(made), SAMBA_FLOAT16);
    assert_true(samba_tensor_rank(made) == 2 && samba_tensor_numel(made) == 6);
    assert_true(samba_tensor_shape(made)[1] == 3 && samba_tensor_strides(made)[0] == 3);
    assert_true(samba_tensor_has_data(made) && samba_tensor_is_contiguous(made));
    assert_elements(made, 6, (int64_t[]){0, 0, 0, 0, 0, 0});
    assert_string_equal(samba_tensor_name(made), "x");
    need(samba_tensor_set_name(made, NULL));
    assert_string_equal(samba_tensor_name(made), "");
    samba_tensor_free(samba_tensor_hold(made));
    free_tensors(made, NULL);

    OWN_TENSOR *scalar, *empty, *none;
    need(samba_tensor_new(context, NULL, SAMBA_FLOAT32, 0, NULL, &scalar));
    assert_int_equal(samba_tensor_numel(scalar), 1);
    need(samba_tensor_empty(context, "e", SAMBA_INT8, SIZES(4, 0), &empty));
    assert_true(!samba_tensor_has_data(empty) && !samba_tensor_data(empty));

    float memory[12] = {0};
    need(
        samba_tensor_from_memory(context, "m", SAMBA_FLOAT32, SIZES(2, 3), (int64_t[]){6, 2}, memory, release, &released, &made));
    assert_false(samba_tensor_is_contiguous(made));
    need(samba_tensor_select(made, 0, 1, &view));
    samba_tensor_free(made);
    assert_int_equal(released, 0);
    assert_ptr_equal(samba_tensor_data(view), memory + 6);
    samba_tensor_free(view);
    assert_int_equal(released, 1);

    need(samba_tensor_from_memory(context, "m", SAMBA_FLOAT32, SIZES(0), NULL, NULL, NULL, NULL, &none));
    assert_true(samba_tensor_has_data(none));
    samba_tensor_free(none);
    need(samba_tensor_from_memory(context, "m", SAMBA_FLOAT32, SIZES(0), NULL, (char *)memory + 1, NULL, NULL, &none));
}

TEST(test_making_wrongly)
{
    samba_tensor *t = (samba_tensor *)&counted_memory;
    float memory[4];
    says(samba_tensor_new(context, "big", SAMBA_FLOAT32, 9, (int64_t[9]){0}, &t));
    assert_null(t);
    says(samba_tensor_new(context, "", SAMBA_FLOAT32, -1, NULL, &t));
    says(samba_tensor_new(context, "n", SAMBA_FLOAT32, SIZES(2, -3), &t));
    says(samba_tensor_new(context, "n", SAMBA_FLOAT32, 2, NULL, &t));
    says(samba_tensor_new(context, "n", (samba_dtype)42, SIZES(2), &t));
    says(samba_tensor_empty(context, "n", SAMBA_FLOAT32, SIZES(INT64_C(1) << 60), &t));
    says(samba_tensor_empty(context, "n", SAMBA_INT8, SIZES(INT64_MAX, INT64_MAX, 0), &t));
    need(samba_tensor_empty(context, "n", SAMBA_INT8, SIZES((INT64_C(1) << 62) - 1), &t));
    samba_tensor_free(t);
    says(samba_tensor_new(context, "n", SAMBA_INT8, SIZES(INT64_C(1) << 61), &t));

    int before = released;
    says(samba_tensor_from_memory(context, "n", SAMBA_FLOAT32, SIZES(2), NULL, NULL, release, &released, &t));
    says(samba_tensor_from_memory(context, "n", SAMBA_FLOAT32, SIZES(2), (int64_t[]){-1}, memory, release, &released, &t));
    says(samba_tensor_from_memory(context, "n", SAMBA_FLOAT32, SIZES(2, 3), (int64_t[]){INT64_MAX, INT64_MAX}, memory, release,
                                  &released, &t));
    says(samba_tensor_from_memory(context, "n", SAMBA_FLOAT32, SIZES(1), (int64_t[]){INT64_MAX}, memory, release, &released, &t));
    says(samba_tensor_from_memory(context, "n", SAMBA_FLOAT32, SIZES(1), NULL, (char *)memory + 2, release, &released, &t));
    assert_int_equal(released, before);
}

static void nobody(void *owner) {}

TEST(test_set_memory)
{
    _Alignas(8) float first[4] = {1, 2, 3, 4}, second[4] = {5, 6, 7, 8};
    const int64_t shape[] = {2, 2}, none[] = {0, 2};
    OWN_TENSOR *made, *none_of, *waits, *its_own, *empty;
    double value;
    need(samba_tensor_from_memory(context, "x", SAMBA_FLOAT32, 0, NULL, NULL, first, NULL, NULL, &made));
    need(samba_tensor_set_memory(made, second + 3));
    need(samba_tensor_item(made, &value));
    assert_true(value == 8 && samba_tensor_data(made) == second + 3);
    says(samba_tensor_set_memory(made, NULL));
    says(samba_tensor_set_memory(made, (char *)first + 1));
    assert_ptr_equal(samba_tensor_data(made), second + 3); /* a refused move changes nothing */
    need(samba_tensor_view(made, 1, (int64_t[]){1}, &view));
    says(samba_tensor_set_memory(made, first));
    samba_tensor_free(view);
    need(samba_tensor_set_memory(made, first));

    need(samba_tensor_from_memory(context, "x", SAMBA_FLOAT32, 2, none, NULL, first, NULL, NULL, &none_of));
    need(samba_tensor_set_memory(none_of, NULL)); /* no elements need no memory */
    need(samba_tensor_from_memory(context, NULL, SAMBA_FLOAT32, 2, shape, NULL, first, nobody, NULL, &waits));
    says(samba_tensor_set_memory(waits, second));
    its_own = tensor("x", SAMBA_FLOAT32, 2, shape);
    says(samba_tensor_set_memory(its_own, second));
    need(samba_tensor_empty(context, "x", SAMBA_FLOAT32, 2, shape, &empty));
    says(samba_tensor_set_memory(empty, second));
}

TEST(test_view)
{
    OWN_TENSOR *source = make_counting(SAMBA_INT32, SIZES(4, 6)), *t;
    shows(samba_tensor_view(source, SIZES(2, -1, 3), &view), SIZES(2, 4, 3));
    shows(samba_tensor_view(source, SIZES(24, 1), &view), SIZES(24, 1));
    says(samba_tensor_view(source, SIZES(5, 5), &view));
    assert_null(view);
    says(samba_tensor_view(source, SIZES(5, -1), &view));
    says(samba_tensor_view(source, SIZES(-1, -1), &view));
    says(samba_tensor_view(source, SIZES(-2, 12), &view));
    says(samba_tensor_view(source, SIZES(INT64_MAX, INT64_MAX), &view));
    says(samba_tensor_view(source, 9, (int64_t[9]){0}, &view));
    need(samba_tensor_reshape(source, SIZES(24), &view));
    assert_ptr_equal(samba_tensor_data(view), samba_tensor_data(source));
    assert_string_equal(samba_tensor_name(view), "x");
    samba_tensor_free(view);

    need(samba_tensor_permute(source, (int[]){1, 0}, &t));
    says(samba_tensor_view(t, SIZES(24), &view));
    need(samba_tensor_reshape(t, SIZES(-1), &view));
    assert_true(samba_tensor_is_contiguous(view));
    shows(SAMBA_OK, SIZES(24), 0, 6, 12, 18, 1, 7, 13, 19, 2, 8, 14, 20, 3, 9, 15, 21, 4, 10, 16, 22, 5, 11, 17, 23);

    OWN_TENSOR *nothing = tensor("x", SAMBA_INT8, SIZES(0, 3));
    says(samba_tensor_view(nothing, SIZES(0, -1), &view));
    shows(samba_tensor_view(nothing, SIZES(0, 3), &view), SIZES(0, 3));
    shows(samba_tensor_view(nothing, SIZES(3, 0), &view), SIZES(3, 0));
    shows(samba_tensor_view(nothing, SIZES(3, -1), &view), SIZES(3, 0));

    OWN_TENSOR *scalar = tensor("x", SAMBA_INT8, 0, NULL), *one, *again;
    need(samba_tensor_view(scalar, SIZES(1, 1), &one));
    need(samba_tensor_view(one, 0, NULL, &again));

    OWN_TENSOR *empty, *turned, *flat;
    need(samba_tensor_empty(context, "e", SAMBA_INT8, SIZES(2, 3), &empty));
    need(samba_tensor_permute(empty, (int[]){-1, 0}, &turned));
    need(samba_tensor_reshape(turned, SIZES(6), &flat));
    assert_false(samba_tensor_has_data(flat));
}

TEST(test_permute_slice_select)
{
    samba_tensor *source = make_counting(SAMBA_UINT8, SIZES(2, 3, 4));
    shows(samba_tensor_permute(source, (int[]){2, -3, 1}, &view), SIZES(4, 2, 3), 0, 4, 8, 12, 16, 20, 1, 5, 9, 13, 17, 21, 2, 6,
          10, 14, 18, 22, 3, 7, 11, 15, 19, 23);
    says(samba_tensor_permute(source, (int[]){0, 1, 1}, &view));
    says(samba_tensor_permute(source, (int[]){0, 1, 3}, &view));

    static const struct {
        int64_t start, stop, step, count, first;
    } slices[] = {{0, 4, 1, 4, 0},      {1, 3, 1, 2, 1},         {-3, -1, 1, 2, 1},
                  {-100, 100, 1, 4, 0}, {3, 1, 1, 0, 0},         {0, 4, 3, 2, 0},
                  {1, 100, 2, 2, 1},    {4, 9, 1, 0, 0},         {0, INT64_MAX, INT64_MAX, 1, 0},
                  {2, 4, 100, 1, 2},    {INT64_MIN, 2, 1, 2, 0}, {0, INT64_MIN, 1, 0, 0}};
    for (int i = 0; i < LENGTH(slices); i++) {
        need(samba_tensor_slice(source, -1, slices[i].start, slices[i].stop, slices[i].step, &view));
        assert_int_equal(view->shape[2], slices[i].count);
        if (slices[i].count > 0)
            assert_int_equal(*(uint8_t *)view->data, slices[i].first);
        samba_tensor_free(view);
    }
    says(samba_tensor_slice(source, 0, 0, 1, 0, &view));
    says(samba_tensor_slice(source, 3, 0, 1, 1, &view));

    need(samba_tensor_select(source, 1, -1, &view));
    assert_shape(view, SIZES(2, 4));
    samba_tensor_free(source); /* the view keeps the memory */
    assert_elements(view, 8, (int64_t[]){8, 9, 10, 11, 20, 21, 22, 23});
    says(samba_tensor_select(view, 0, 2, &source));
    says(samba_tensor_select(view, 0, -3, &source));
    says(samba_tensor_select(view, 0, INT64_MIN, &source));
    samba_tensor_free(view);
}

TEST(test_expand)
{
    OWN_TENSOR *source = make_counting(SAMBA_INT16, SIZES(3, 1)), *wide;
    need(samba_tensor_expand(source, SIZES(2, -1, 2), &wide));
    assert_shape(wide, SIZES(2, 3, 2));
    assert_elements(wide, 12, (int64_t[]){0, 0, 1, 1, 2, 2, 0, 0, 1, 1, 2, 2});
    says(samba_tensor_copy(wide, wide));
    shows(samba_tensor_reshape(wide, SIZES(12), &view), SIZES(12), 0, 0, 1, 1, 2, 2, 0, 0, 1, 1, 2, 2);
    says(samba_tensor_expand(source, SIZES(4, 2), &view));
    says(samba_tensor_expand(source, SIZES(3), &view));
    says(samba_tensor_expand(source, SIZES(-1, 3, 1), &view));
    says(samba_tensor_expand(source, SIZES(INT64_C(1) << 62, 3, 1), &view));
    shows(samba_tensor_expand(source, SIZES(3, 0), &view), SIZES(3, 0));
}

/* Where the elements of a view lie, in C order. */
static void offsets_of(int rank, const int64_t *shape, const int64_t *strides, int64_t *offsets)
{
    int64_t index[4] = {0};
    do {
        *offsets = 0;
        for (int i = 0; i < rank; i++)
            *offsets += index[i] * strides[i];
        offsets++;
    } while (samba_shape_next(rank, shape, index));
}

/* Random views of random tensors reshaped at random: whatever samba_shape_view_strides grants must show the same elements in the
 * same order, and what it refuses must be impossible. */
TEST(test_random_views)
{
    int granted = 0, refused = 0;
    seed_anew();
    for (int round = 0; round < 3000; round++) {
        int64_t shape[4], strides[4], new_shape[4], new_strides[4], offsets[256], new_offsets[256], rest = 1;
        int rank = draw_below(5), new_rank = 0, order[4] = {0, 1, 2, 3};
        for (int i = 0; i < rank; i++)
            rest *= shape[i] = 1 + draw_below(4);
        if (round % 2 && rank > 1) { /* swap two dims */
            int a = draw_below(rank);
            order[a] = order[0];
            order[0] = a;
        }
        int64_t stride = 1 + draw_below(2), numel = rest;
        for (int i = rank - 1; i >= 0; i--) {
            strides[order[i]] = draw_below(8) == 0 ? 0 : stride;
            stride *= shape[order[i]] + (draw_below(8) == 0);
        }
        while (new_rank < 3 && rest > 1) { /* a random divisor each */
            int64_t divisor = 1 + draw_below((int)rest);
            while (rest % divisor != 0)
                divisor--;
            new_shape[new_rank++] = divisor;
            rest /= divisor;
        }
        if (rest > 1)
            new_shape[new_rank++] = rest;
        offsets_of(rank, shape, strides, offsets);
        const bool possible = samba_shape_view_strides(rank, shape, strides, new_rank, new_shape, new_strides);
        int64_t step = numel; /* the only strides that could do: from the elements one step away in each dim */
        for (int i = 0; i < new_rank && !possible; i++) {
            step /= new_shape[i];
            new_strides[i] = new_shape[i] > 1 ? offsets[step] : 0;
        }
        offsets_of(new_rank, new_shape, new_strides, new_offsets);
        if ((memcmp(offsets, new_offsets, (size_t)numel * sizeof *offsets) == 0) != possible)
            fail_msg("round %d: %s", round, possible ? "a wrong view was granted" : "a possible view was refused");
        granted += possible;
        refused += !possible;
    }
    assert_true(granted > 300 && refused > 300);
}

/* Every pair of dtypes over odd strides against the single-element functions. */
TEST(test_copy_every_pair)
{
    static const int64_t shape[] = {3, 5, 130};
    for (int pair = 0; pair < SAMBA_DTYPE_COUNT * SAMBA_DTYPE_COUNT; pair++) {
        samba_dtype from = (samba_dtype)(pair / SAMBA_DTYPE_COUNT), to = (samba_dtype)(pair % SAMBA_DTYPE_COUNT);
        OWN_TENSOR *source = tensor("x", from, 3, shape), *wide = tensor("x", to, SIZES(130, 5, 6)), *half, *target;
        bool is_float = samba_dtype_is_floating_point(from);
        for (int64_t k = 0; k < 3 * 5 * 130; k++) {
            int64_t bits = (int64_t)samba_philox_word64(7, (uint64_t)k) >> (k % 60);
            char *place = source->data + k * (int64_t)samba_dtype_size(from);
            if (is_float)
                samba_store_double(from, place, (double)bits / 256);
            else
                samba_store_int64(from, place, bits);
        }
        need(samba_tensor_slice(wide, 2, 1, 6, 2, &half)); /* (130, 5, 3) */
        need(samba_tensor_permute(half, (int[]){2, 1, 0}, &target));
        need(samba_tensor_copy(target, source));
        int64_t index[3] = {0};
        do {
            _Alignas(8) char expected[8] = {0};
            if (is_float)
                samba_store_double(to, expected, samba_load_double(from, element(source, index)));
            else
                samba_store_int64(to, expected, samba_load_int64(from, element(source, index)));
            assert_memory_equal(element(target, index), expected, samba_dtype_size(to));
        } while (samba_shape_next(3, shape, index));
        for (int64_t k = 0; k < 130 * 5 * 6; k += 2) /* the gaps are untouched */
            assert_int_equal(samba_load_int64(to, wide->data + k * (int64_t)samba_dtype_size(to)), 0);
    }
}

TEST(test_copy)
{
    OWN_TENSOR *a = make_counting(SAMBA_FLOAT64, SIZES(5, 7)), *b = tensor("x", SAMBA_FLOAT64, SIZES(7, 5)), *t, *empty;
    says(samba_tensor_copy(b, a));
    need(samba_tensor_permute(a, (int[]){1, 0}, &t));
    need(samba_tensor_copy(b, t));
    for (int64_t i = 0; i < 35; i++)
        assert_true(((double *)b->data)[i] == (double)(i % 5 * 7 + i / 5));
    need(samba_tensor_copy(a, a)); /* onto itself */
    need(samba_tensor_copy(t, t));
    assert_true(((double *)a->data)[9] == 9);
    need(samba_tensor_empty(context, "hollow", SAMBA_FLOAT64, SIZES(5, 7), &empty));
    says(samba_tensor_copy(a, empty));
    says(samba_tensor_copy(empty, a));
    OWN_TENSOR *none = tensor("x", SAMBA_FLOAT32, SIZES(3, 0)), *others = tensor("x", SAMBA_INT8, SIZES(3, 0));
    need(samba_tensor_copy(none, others));
}

TEST(test_item)
{
    OWN_TENSOR *a = make_counting(SAMBA_FLOAT64, SIZES(5, 7)), *row, *one, *empty;
    double value;
    int64_t whole;
    says(samba_tensor_item(a, &value));
    need(samba_tensor_slice(a, 0, 2, 3, 1, &row));
    need(samba_tensor_slice(row, 1, 3, 4, 1, &one));
    need(samba_tensor_item(one, &value));
    need(samba_tensor_item_int64(one, &whole));
    assert_true(value == 17 && whole == 17);
    static const double beyond[] = {NAN, INFINITY, 1e30, -1e30, 0x1p63};
    for (int i = 0; i < LENGTH(beyond); i++) {
        *(double *)one->data = beyond[i];
        says(samba_tensor_item_int64(one, &whole));
        assert_int_equal(whole, 17);
    }
    assert_non_null(strstr(samba_error_message(context), "9.22337e+18 is no number"));
    *(double *)one->data = -0x1p63;
    need(samba_tensor_item_int64(one, &whole));
    assert_true(whole == INT64_MIN);
    need(samba_tensor_empty(context, "hollow", SAMBA_FLOAT64, 0, NULL, &empty));
    says(samba_tensor_item(empty, &value));
}

static samba_status ownership_scenario(samba_context *under, void *user)
{
    float memory[6] = {0};
    OWN_TENSOR *a, *b = NULL, *c = NULL, *d = NULL;
    samba_tensor *e;
    int before = released;
    SAMBA_TRY(samba_tensor_new(under, "a", SAMBA_FLOAT32, SIZES(2, 3), &a));
    SAMBA_TRY(samba_tensor_permute(a, (int[]){1, 0}, &b));
    SAMBA_TRY(samba_tensor_reshape(b, SIZES(6), &c));
    SAMBA_TRY(samba_tensor_empty(under, "d", SAMBA_FLOAT32, SIZES(1), &d));
    samba_status status = samba_tensor_from_memory(under, "e", SAMBA_FLOAT32, SIZES(6), NULL, memory, release, &released, &e);
    samba_tensor_free(e);
    assert_int_equal(released, before + (status == SAMBA_OK));
    return status;
}

TEST(test_failed_allocations) { fail_each_allocation(ownership_scenario, NULL); }

/* The known answers published with the authors' Random123 library. */
TEST(test_philox)
{
    static const struct {
        uint32_t counter[4], key[2], words[4];
    } known[] = {
        {{0, 0, 0, 0}, {0, 0}, {0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8}},
        {{UINT32_MAX, UINT32_MAX, UINT32_MAX, UINT32_MAX},
         {UINT32_MAX, UINT32_MAX},
         {0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD}},
        {{0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344},
         {0xA4093822, 0x299F31D0},
         {0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1}},
    };
    uint32_t words[4];
    for (int i = 0; i < LENGTH(known); i++) {
        samba_philox_4x32(known[i].counter, known[i].key[0], known[i].key[1], words);
        assert_memory_equal(words, known[i].words, sizeof words);
    }
    assert_true(samba_philox_uniform(0, 0) == (float)(0x6627E8D5 >> 8) * 0x1p-24f);
    assert_true(samba_philox_uniform(0, 3) == (float)(0x9B00DBD8 >> 8) * 0x1p-24f);
    assert_true(samba_philox_word64(0, 1) == UINT64_C(0x9B00DBD8BC57AC4C));
    samba_philox_block(UINT64_C(0x123456789ABCDEF0), UINT64_C(0xFEDCBA9876543210), words);
    uint32_t again[4] = {0x76543210, 0xFEDCBA98, 0, 0};
    samba_philox_4x32(again, 0x9ABCDEF0, 0x12345678, again);
    assert_memory_equal(words, again, sizeof words);
    assert_true(samba_philox_to_float(UINT32_MAX) < 1.0f);
    assert_true(samba_philox_below(UINT64_MAX, 10) == 9 && samba_philox_below(0, 10) == 0);
}

TEST_MAIN_WITH(counting_begin, counting_end, test_dtypes, test_half_precision, test_elements, test_shapes, test_making,
               test_making_wrongly, test_set_memory, test_view, test_permute_slice_select, test_expand, test_random_views,
               test_copy_every_pair, test_copy, test_item, test_failed_allocations, test_philox, every_message_said)
