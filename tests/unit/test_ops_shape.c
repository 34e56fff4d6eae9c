/* SPDX-License-Identifier: Apache-2.0
 *
 * Reductions, shape operators and leaves with a rule (constant, iota, random): values at points known by hand, what inference
 * refuses, and every gradient against central differences. */
#include "gradient_check.h"

#define F32 SAMBA_FLOAT32
#define F64 SAMBA_FLOAT64
#define DIMS(...) ((samba_dims){SAMBA_COUNT(((const int64_t[]){__VA_ARGS__})), {__VA_ARGS__}})
#define NO_DIMS ((samba_dims){0})

static samba_attrs blank(void)
{
    samba_attrs attrs;
    memset(&attrs, 0, sizeof attrs);
    return attrs;
}

static samba_attrs reduce_attrs(samba_dims dims)
{
    samba_attrs attrs = blank();
    attrs.reduce.dims = dims;
    return attrs;
}

static samba_attrs shape_attrs(samba_dims shape)
{
    samba_attrs attrs = blank();
    attrs.shape.shape = shape;
    return attrs;
}

static samba_attrs permute_attrs(samba_dims dims)
{
    samba_attrs attrs = blank();
    attrs.permute.dims = dims;
    return attrs;
}

static samba_attrs slice_attrs(samba_dims start, samba_dims stop, samba_dims step)
{
    samba_attrs attrs = blank();
    attrs.slice.start = start;
    attrs.slice.stop = stop;
    attrs.slice.step = step;
    return attrs;
}

static samba_attrs pad_attrs(samba_dims before, samba_dims after, samba_dims interior, double value)
{
    samba_attrs attrs = blank();
    attrs.pad.before = before;
    attrs.pad.after = after;
    attrs.pad.interior = interior;
    attrs.pad.value = value;
    return attrs;
}

static samba_attrs axis_attrs(int64_t dim)
{
    samba_attrs attrs = blank();
    attrs.axis.dim = dim;
    return attrs;
}

static void expect(samba_op op, samba_attrs attrs, operand a, operand expected) { op_expect(op, &attrs, 1, &a, expected, 0); }
static samba_status refuse(samba_op op, samba_attrs attrs, operand a) { return op_status(op, &attrs, 1, &a); }
static void check(samba_op op, samba_attrs attrs, operand a) { gradient_check(op, &attrs, 1, &a, 7); }

/* ---- reductions ---- */

static void test_sum(void **state)
{
    (void)state;
    operand a = given(F32, SHAPE(2, 3), VALUES(1, 2, 3, 4, 5, 6));
    expect(SAMBA_OP_sum, reduce_attrs(DIMS(0)), a, given(F32, SHAPE(1, 3), VALUES(5, 7, 9)));
    expect(SAMBA_OP_sum, reduce_attrs(DIMS(1)), a, given(F32, SHAPE(2, 1), VALUES(6, 15)));
    expect(SAMBA_OP_sum, reduce_attrs(DIMS(0, 1)), a, given(F32, SHAPE(1, 1), VALUES(21)));
    expect(SAMBA_OP_sum, reduce_attrs(NO_DIMS), a, a);
    operand cube = given(F64, SHAPE(2, 2, 2), VALUES(1, 2, 3, 4, 5, 6, 7, 8));
    expect(SAMBA_OP_sum, reduce_attrs(DIMS(0, 2)), cube, given(F64, SHAPE(1, 2, 1), VALUES(14, 22)));
    expect(SAMBA_OP_sum, reduce_attrs(DIMS(1)), cube, given(F64, SHAPE(2, 1, 2), VALUES(4, 6, 12, 14)));
    /* none, and in double */
    expect(SAMBA_OP_sum, reduce_attrs(DIMS(0)), given(F32, SHAPE(0, 2), VALUES(0)), given(F32, SHAPE(1, 2), VALUES(0, 0)));
    expect(SAMBA_OP_sum, reduce_attrs(DIMS(1)), given(F32, SHAPE(0, 2), VALUES(0)), given(F32, SHAPE(0, 1), VALUES(0)));
    expect(SAMBA_OP_sum, reduce_attrs(DIMS(0)), given(F32, SHAPE(4), VALUES(0x1p24, 1, 1, -0x1p24)),
           given(F32, SHAPE(1), VALUES(2)));
    expect(SAMBA_OP_sum, reduce_attrs(DIMS(0)), given(F32, SHAPE(3), VALUES(1, NAN, 2)), given(F32, SHAPE(1), VALUES(NAN)));
    expect(SAMBA_OP_sum, reduce_attrs(DIMS(0)), given(F32, SHAPE(2), VALUES(INFINITY, -INFINITY)),
           given(F32, SHAPE(1), VALUES(NAN)));
    /* integers widen */
    expect(SAMBA_OP_sum, reduce_attrs(DIMS(0)), given(SAMBA_INT8, SHAPE(2), VALUES(127, 127)),
           given(SAMBA_INT64, SHAPE(1), VALUES(254)));
    expect(SAMBA_OP_sum, reduce_attrs(DIMS(0)), given(SAMBA_BOOL, SHAPE(3), VALUES(1, 0, 1)),
           given(SAMBA_INT64, SHAPE(1), VALUES(2)));
    expect(SAMBA_OP_sum, reduce_attrs(DIMS(0)), given(SAMBA_INT64, SHAPE(2), VALUES(0x1p62, 0x1p62)),
           given(SAMBA_INT64, SHAPE(1), VALUES(-0x1p63)));
}

static void test_extrema(void **state)
{
    (void)state;
    operand a = given(F32, SHAPE(3, 3), VALUES(1, 5, 2, -INFINITY, -INFINITY, -INFINITY, 1, NAN, 3));
    expect(SAMBA_OP_amax, reduce_attrs(DIMS(1)), a, given(F32, SHAPE(3, 1), VALUES(5, -INFINITY, NAN)));
    expect(SAMBA_OP_amin, reduce_attrs(DIMS(1)), a, given(F32, SHAPE(3, 1), VALUES(1, -INFINITY, NAN)));
    expect(SAMBA_OP_argmax, reduce_attrs(DIMS(1)), a, given(SAMBA_INT64, SHAPE(3, 1), VALUES(1, 0, 1)));
    expect(SAMBA_OP_argmax, reduce_attrs(DIMS(0, 1)), a, given(SAMBA_INT64, SHAPE(1, 1), VALUES(7)));
    operand b = given(SAMBA_INT8, SHAPE(2, 2), VALUES(-128, -3, -128, -3));
    expect(SAMBA_OP_amax, reduce_attrs(DIMS(0)), b, given(SAMBA_INT8, SHAPE(1, 2), VALUES(-128, -3)));
    expect(SAMBA_OP_amin, reduce_attrs(DIMS(0, 1)), b, given(SAMBA_INT8, SHAPE(1, 1), VALUES(-128)));
    expect(SAMBA_OP_argmax, reduce_attrs(DIMS(0, 1)), b, given(SAMBA_INT64, SHAPE(1, 1), VALUES(1)));
    expect(SAMBA_OP_argmax, reduce_attrs(DIMS(0)), given(F32, SHAPE(3), VALUES(1, NAN, NAN)),
           given(SAMBA_INT64, SHAPE(1), VALUES(1)));
    expect(SAMBA_OP_argmax, reduce_attrs(NO_DIMS), given(F32, SCALAR, VALUES(9)), given(SAMBA_INT64, SCALAR, VALUES(0)));
    expect(SAMBA_OP_amax, reduce_attrs(DIMS(0)), given(SAMBA_BOOL, SHAPE(2), VALUES(0, 1)),
           given(SAMBA_BOOL, SHAPE(1), VALUES(1)));
    expect(SAMBA_OP_amax, reduce_attrs(DIMS(1)), given(F32, SHAPE(0, 3), VALUES(0)), given(F32, SHAPE(0, 1), VALUES(0)));
}

static void test_reduce_refusals(void **state)
{
    (void)state;
    operand a = given(F32, SHAPE(2, 3, 2), VALUES(1, 2, 3, 4, 5, 6, 1, 2, 3, 4, 5, 6)), none = given(F32, SHAPE(0, 2), VALUES(0));
    assert_int_equal(refuse(SAMBA_OP_sum, reduce_attrs(DIMS(3)), a), SAMBA_ERROR_ARGUMENT);
    assert_int_equal(refuse(SAMBA_OP_sum, reduce_attrs(DIMS(-1)), a), SAMBA_ERROR_ARGUMENT);
    assert_int_equal(refuse(SAMBA_OP_sum, reduce_attrs(DIMS(1, 0)), a), SAMBA_ERROR_ARGUMENT);
    assert_int_equal(refuse(SAMBA_OP_sum, reduce_attrs(DIMS(1, 1)), a), SAMBA_ERROR_ARGUMENT);
    assert_int_equal(refuse(SAMBA_OP_sum, reduce_attrs(DIMS(0, 1, 2, 3)), a), SAMBA_ERROR_ARGUMENT);
    assert_int_equal(refuse(SAMBA_OP_amax, reduce_attrs(DIMS(0)), none), SAMBA_ERROR_SHAPE);
    assert_int_equal(refuse(SAMBA_OP_amin, reduce_attrs(DIMS(0, 1)), none), SAMBA_ERROR_SHAPE);
    assert_int_equal(refuse(SAMBA_OP_argmax, reduce_attrs(DIMS(0)), none), SAMBA_ERROR_SHAPE);
    assert_int_equal(refuse(SAMBA_OP_argmax, reduce_attrs(DIMS(0, 1)), a), SAMBA_ERROR_ARGUMENT);
    assert_int_equal(refuse(SAMBA_OP_argmax, reduce_attrs(DIMS(0)), given(SAMBA_BOOL, SHAPE(1), VALUES(1))), SAMBA_ERROR_DTYPE);
}

static void test_reduce_gradients(void **state)
{
    (void)state;
    const samba_dims sets[] = {DIMS(0), DIMS(1), DIMS(0, 2), DIMS(0, 1, 2), NO_DIMS};
    for (int i = 0; i < SAMBA_COUNT(sets); i++) {
        check(SAMBA_OP_sum, reduce_attrs(sets[i]), drawn(SHAPE(2, 3, 2), -1, 1));
        check(SAMBA_OP_amax, reduce_attrs(sets[i]), drawn(SHAPE(2, 3, 2), -1, 1));
        check(SAMBA_OP_amin, reduce_attrs(sets[i]), drawn(SHAPE(2, 3, 2), -1, 1));
    }
    check(SAMBA_OP_sum, reduce_attrs(DIMS(0)), given(F64, SHAPE(0, 2), VALUES(0)));
    /* two equal ones share evenly: central differences say the same */
    operand tied = given(F64, SHAPE(2, 3), VALUES(1, 4, 4, 2, 2, 9));
    check(SAMBA_OP_amax, reduce_attrs(DIMS(1)), tied);
    check(SAMBA_OP_amin, reduce_attrs(DIMS(1)), tied);
}

/* ---- shape ---- */

static void test_reshape_permute_expand(void **state)
{
    (void)state;
    operand a = given(F32, SHAPE(2, 3), VALUES(1, 2, 3, 4, 5, 6));
    expect(SAMBA_OP_reshape, shape_attrs(DIMS(3, 1, 2)), a, given(F32, SHAPE(3, 1, 2), VALUES(1, 2, 3, 4, 5, 6)));
    expect(SAMBA_OP_reshape, shape_attrs(NO_DIMS), given(SAMBA_INT16, SHAPE(1, 1), VALUES(-7)),
           given(SAMBA_INT16, SCALAR, VALUES(-7)));
    expect(SAMBA_OP_reshape, shape_attrs(DIMS(0)), given(F32, SHAPE(2, 0), VALUES(0)), given(F32, SHAPE(0), VALUES(0)));
    expect(SAMBA_OP_permute, permute_attrs(DIMS(1, 0)), a, given(F32, SHAPE(3, 2), VALUES(1, 4, 2, 5, 3, 6)));
    operand cube = given(SAMBA_UINT8, SHAPE(2, 1, 3), VALUES(1, 2, 3, 4, 5, 6));
    expect(SAMBA_OP_permute, permute_attrs(DIMS(2, 0, 1)), cube, given(SAMBA_UINT8, SHAPE(3, 2, 1), VALUES(1, 4, 2, 5, 3, 6)));
    expect(SAMBA_OP_expand, shape_attrs(DIMS(2, 2, 3)), given(SAMBA_BOOL, SHAPE(2, 1), VALUES(1, 0)),
           given(SAMBA_BOOL, SHAPE(2, 2, 3), VALUES(1, 1, 1, 0, 0, 0, 1, 1, 1, 0, 0, 0)));
    expect(SAMBA_OP_expand, shape_attrs(DIMS(0, 2)), given(F32, SCALAR, VALUES(1)), given(F32, SHAPE(0, 2), VALUES(0)));
    assert_int_equal(refuse(SAMBA_OP_reshape, shape_attrs(DIMS(5)), a), SAMBA_ERROR_SHAPE);
    assert_int_equal(refuse(SAMBA_OP_reshape, shape_attrs(DIMS(-2, -3)), a), SAMBA_ERROR_SHAPE);
    assert_int_equal(refuse(SAMBA_OP_permute, permute_attrs(DIMS(0)), a), SAMBA_ERROR_ARGUMENT);
    assert_int_equal(refuse(SAMBA_OP_permute, permute_attrs(DIMS(0, 0)), a), SAMBA_ERROR_ARGUMENT);
    assert_int_equal(refuse(SAMBA_OP_permute, permute_attrs(DIMS(0, 2)), a), SAMBA_ERROR_ARGUMENT);
    assert_int_equal(refuse(SAMBA_OP_expand, shape_attrs(DIMS(3)), a), SAMBA_ERROR_SHAPE);
    assert_int_equal(refuse(SAMBA_OP_expand, shape_attrs(DIMS(2, 6)), a), SAMBA_ERROR_SHAPE);
    assert_int_equal(refuse(SAMBA_OP_expand, shape_attrs(DIMS(1 << 30, 1 << 30, 2, 3)), a), SAMBA_ERROR_SHAPE);
}

static void test_slice(void **state)
{
    (void)state;
    operand a = given(F32, SHAPE(3, 4), VALUES(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11));
    expect(SAMBA_OP_slice, slice_attrs(DIMS(1, 0), DIMS(3, 4), DIMS(1, 2)), a, given(F32, SHAPE(2, 2), VALUES(4, 6, 8, 10)));
    expect(SAMBA_OP_slice, slice_attrs(DIMS(0, 1), DIMS(3, 4), DIMS(2, 2)), a, given(F32, SHAPE(2, 2), VALUES(1, 3, 9, 11)));
    expect(SAMBA_OP_slice, slice_attrs(DIMS(0, 2), DIMS(3, 2), DIMS(1, 1)), a, given(F32, SHAPE(3, 0), VALUES(0)));
    expect(SAMBA_OP_slice, slice_attrs(DIMS(0, 3), DIMS(1, 4), DIMS(1, INT64_MAX)), a, given(F32, SHAPE(1, 1), VALUES(3)));
    assert_int_equal(refuse(SAMBA_OP_slice, slice_attrs(DIMS(0), DIMS(3), DIMS(1)), a), SAMBA_ERROR_ARGUMENT);
    assert_int_equal(refuse(SAMBA_OP_slice, slice_attrs(DIMS(0, 0), DIMS(3, 5), DIMS(1, 1)), a), SAMBA_ERROR_ARGUMENT);
    assert_int_equal(refuse(SAMBA_OP_slice, slice_attrs(DIMS(2, 0), DIMS(1, 4), DIMS(1, 1)), a), SAMBA_ERROR_ARGUMENT);
    assert_int_equal(refuse(SAMBA_OP_slice, slice_attrs(DIMS(-1, 0), DIMS(1, 4), DIMS(1, 1)), a), SAMBA_ERROR_ARGUMENT);
    assert_int_equal(refuse(SAMBA_OP_slice, slice_attrs(DIMS(0, 0), DIMS(3, 4), DIMS(1, 0)), a), SAMBA_ERROR_ARGUMENT);
}

static void test_pad(void **state)
{
    (void)state;
    operand a = given(F32, SHAPE(2, 2), VALUES(1, 2, 3, 4));
    expect(SAMBA_OP_pad, pad_attrs(DIMS(0, 1), DIMS(1, 0), DIMS(0, 1), -1), a,
           given(F32, SHAPE(3, 4), VALUES(-1, 1, -1, 2, -1, 3, -1, 4, -1, -1, -1, -1)));
    expect(SAMBA_OP_pad, pad_attrs(DIMS(1), DIMS(2), DIMS(3), 0), given(SAMBA_INT32, SHAPE(0), VALUES(0)),
           given(SAMBA_INT32, SHAPE(3), VALUES(0, 0, 0)));
    expect(SAMBA_OP_pad, pad_attrs(DIMS(0), DIMS(0), DIMS(INT64_MAX), 0), given(F32, SHAPE(1), VALUES(5)),
           given(F32, SHAPE(1), VALUES(5)));
    assert_int_equal(refuse(SAMBA_OP_pad, pad_attrs(DIMS(0), DIMS(1), DIMS(0), 0), a), SAMBA_ERROR_ARGUMENT);
    assert_int_equal(refuse(SAMBA_OP_pad, pad_attrs(DIMS(-1, 0), DIMS(1, 0), DIMS(0, 0), 0), a), SAMBA_ERROR_ARGUMENT);
    assert_int_equal(refuse(SAMBA_OP_pad, pad_attrs(DIMS(0, 0), DIMS(0, 0), DIMS(0, INT64_MAX), 0), a), SAMBA_ERROR_SHAPE);
    assert_int_equal(refuse(SAMBA_OP_pad, pad_attrs(DIMS(0, 0), DIMS(0, INT64_MAX - 3), DIMS(0, 0), 0), a), SAMBA_ERROR_SHAPE);
}

static void test_concat(void **state)
{
    (void)state;
    samba_attrs rows = axis_attrs(0), columns = axis_attrs(1), beyond = axis_attrs(2);
    operand parts[3] = {given(F32, SHAPE(2, 1), VALUES(1, 2)), given(F32, SHAPE(2, 0), VALUES(0)),
                        given(F32, SHAPE(2, 2), VALUES(3, 4, 5, 6))};
    op_expect(SAMBA_OP_concat, &columns, 3, parts, given(F32, SHAPE(2, 3), VALUES(1, 3, 4, 2, 5, 6)), 0);
    op_expect(SAMBA_OP_concat, &columns, 1, parts, parts[0], 0);
    operand pair[2] = {given(SAMBA_INT8, SHAPE(1, 2), VALUES(1, 2)), given(SAMBA_INT8, SHAPE(2, 2), VALUES(3, 4, 5, 6))};
    op_expect(SAMBA_OP_concat, &rows, 2, pair, given(SAMBA_INT8, SHAPE(3, 2), VALUES(1, 2, 3, 4, 5, 6)), 0);
    assert_int_equal(op_status(SAMBA_OP_concat, &rows, 3, parts), SAMBA_ERROR_SHAPE);
    assert_int_equal(op_status(SAMBA_OP_concat, &beyond, 3, parts), SAMBA_ERROR_ARGUMENT);
    operand mixed[2] = {parts[0], pair[1]}, ranks[2] = {parts[0], given(F32, SHAPE(2), VALUES(1, 2))};
    assert_int_equal(op_status(SAMBA_OP_concat, &columns, 2, mixed), SAMBA_ERROR_DTYPE);
    assert_int_equal(op_status(SAMBA_OP_concat, &columns, 2, ranks), SAMBA_ERROR_SHAPE);
}

static void test_shape_gradients(void **state)
{
    (void)state;
    operand a = drawn(SHAPE(2, 3), -1, 1);
    check(SAMBA_OP_reshape, shape_attrs(DIMS(3, 2)), a);
    check(SAMBA_OP_permute, permute_attrs(DIMS(1, 0)), a);
    check(SAMBA_OP_permute, permute_attrs(DIMS(2, 0, 1)), drawn(SHAPE(2, 3, 2), -1, 1));
    check(SAMBA_OP_expand, shape_attrs(DIMS(2, 2, 3)), a);
    check(SAMBA_OP_expand, shape_attrs(DIMS(2, 4, 3)), drawn(SHAPE(2, 1, 3), -1, 1));
    check(SAMBA_OP_expand, shape_attrs(DIMS(3)), drawn(SCALAR, -1, 1));
    check(SAMBA_OP_slice, slice_attrs(DIMS(0, 1), DIMS(2, 3), DIMS(1, 1)), a);
    check(SAMBA_OP_slice, slice_attrs(DIMS(1), DIMS(7), DIMS(2)), drawn(SHAPE(8), -1, 1));
    check(SAMBA_OP_slice, slice_attrs(DIMS(1), DIMS(6), DIMS(3)), drawn(SHAPE(8), -1, 1));
    check(SAMBA_OP_slice, slice_attrs(DIMS(2), DIMS(3), DIMS(INT64_MAX)), drawn(SHAPE(8), -1, 1));
    check(SAMBA_OP_slice, slice_attrs(DIMS(3), DIMS(3), DIMS(2)), drawn(SHAPE(8), -1, 1));
    check(SAMBA_OP_pad, pad_attrs(DIMS(1, 0), DIMS(0, 2), DIMS(0, 0), 3), a);
    check(SAMBA_OP_pad, pad_attrs(DIMS(1, 0), DIMS(0, 2), DIMS(2, 1), 0), a);
    check(SAMBA_OP_pad, pad_attrs(DIMS(1), DIMS(1), DIMS(INT64_MAX), 0), drawn(SHAPE(1), -1, 1));
    check(SAMBA_OP_pad, pad_attrs(DIMS(1), DIMS(1), DIMS(1), 0), drawn(SHAPE(0), -1, 1));
    samba_attrs columns = axis_attrs(1);
    operand parts[3] = {drawn(SHAPE(2, 1), -1, 1), drawn(SHAPE(2, 3), -1, 1), drawn(SHAPE(2, 0), -1, 1)};
    gradient_check(SAMBA_OP_concat, &columns, 3, parts, 8);
    parts[0].constant = true;
    gradient_check(SAMBA_OP_concat, &columns, 2, parts, 9);
}

/* ---- leaves with a rule ---- */

static void test_constant(void **state)
{
    (void)state;
    samba_attrs attrs = blank();
    attrs.constant.dtype = SAMBA_BFLOAT16;
    attrs.constant.shape = DIMS(2, 2);
    attrs.constant.value = 1.5;
    op_expect(SAMBA_OP_constant, &attrs, 0, NULL, given(SAMBA_BFLOAT16, SHAPE(2, 2), VALUES(1.5, 1.5, 1.5, 1.5)), 0);
    attrs.constant.shape = NO_DIMS;
    attrs.constant.dtype = SAMBA_INT64;
    attrs.constant.value = -1.5;
    op_expect(SAMBA_OP_constant, &attrs, 0, NULL, given(SAMBA_INT64, SCALAR, VALUES(-1)), 0);
    attrs.constant.shape = DIMS(-1);
    assert_int_equal(op_status(SAMBA_OP_constant, &attrs, 0, NULL), SAMBA_ERROR_SHAPE);
    attrs.constant.shape = DIMS(INT64_MAX, INT64_MAX);
    assert_int_equal(op_status(SAMBA_OP_constant, &attrs, 0, NULL), SAMBA_ERROR_SHAPE);
}

static void test_iota(void **state)
{
    (void)state;
    samba_attrs attrs = blank();
    attrs.iota.dtype = SAMBA_INT32;
    attrs.iota.shape = DIMS(2, 3);
    attrs.iota.dim = 1;
    op_expect(SAMBA_OP_iota, &attrs, 0, NULL, given(SAMBA_INT32, SHAPE(2, 3), VALUES(0, 1, 2, 0, 1, 2)), 0);
    attrs.iota.dim = 0;
    attrs.iota.dtype = F32;
    op_expect(SAMBA_OP_iota, &attrs, 0, NULL, given(F32, SHAPE(2, 3), VALUES(0, 0, 0, 1, 1, 1)), 0);
    attrs.iota.dim = 2;
    assert_int_equal(op_status(SAMBA_OP_iota, &attrs, 0, NULL), SAMBA_ERROR_ARGUMENT);
    attrs.iota.dim = 0;
    attrs.iota.dtype = SAMBA_BOOL;
    assert_int_equal(op_status(SAMBA_OP_iota, &attrs, 0, NULL), SAMBA_ERROR_DTYPE);
}

static void test_random(void **state)
{
    (void)state;
    samba_attrs attrs = blank();
    attrs.random.shape = DIMS(3, 5);
    operand seed = given(SAMBA_INT64, SCALAR, VALUES(-3));
    double expected[15];
    for (int i = 0; i < 15; i++)
        expected[i] = samba_philox_uniform((uint64_t)-3, (uint64_t)i);
    expect(SAMBA_OP_random, attrs, seed, given(F32, SHAPE(3, 5), expected));
    assert_int_equal(refuse(SAMBA_OP_random, attrs, given(SAMBA_INT32, SCALAR, VALUES(1))), SAMBA_ERROR_DTYPE);
    assert_int_equal(refuse(SAMBA_OP_random, attrs, given(SAMBA_INT64, SHAPE(1), VALUES(1))), SAMBA_ERROR_SHAPE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sum),
        cmocka_unit_test(test_extrema),
        cmocka_unit_test(test_reduce_refusals),
        cmocka_unit_test(test_reduce_gradients),
        cmocka_unit_test(test_reshape_permute_expand),
        cmocka_unit_test(test_slice),
        cmocka_unit_test(test_pad),
        cmocka_unit_test(test_concat),
        cmocka_unit_test(test_shape_gradients),
        cmocka_unit_test(test_constant),
        cmocka_unit_test(test_iota),
        cmocka_unit_test(test_random),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
