/* SPDX-License-Identifier: Apache-2.0
 *
 * Operators along one dim: values at points known by hand, what inference refuses, every gradient against central differences.
 * test_random_shapes has them compiled. */
#include "gradient_check.h"

#define F32 SAMBA_FLOAT32
#define F64 SAMBA_FLOAT64

static samba_attrs sort_attrs(int64_t dim, int64_t count, bool descending)
{
    samba_attrs attrs;
    memset(&attrs, 0, sizeof attrs);
    attrs.sort = (samba_attrs_sort){.dim = dim, .count = count, .descending = descending};
    return attrs;
}

static samba_attrs scan_attrs(int64_t dim, bool reverse)
{
    samba_attrs attrs;
    memset(&attrs, 0, sizeof attrs);
    attrs.scan = (samba_attrs_scan){.dim = dim, .reverse = reverse};
    return attrs;
}

static void expect(samba_op op, samba_attrs attrs, operand a, operand expected) { op_expect(op, &attrs, 1, &a, expected, 1e-15); }
static samba_status refuse(samba_op op, samba_attrs attrs, operand a) { return op_status(op, &attrs, 1, &a); }
static void check(samba_op op, samba_attrs attrs, operand a) { gradient_check(op, &attrs, 1, &a, 7); }

static void test_order(void **state)
{
    (void)state;
    operand a = given(F32, SHAPE(6), VALUES(2, NAN, -INFINITY, 2, NAN, -1)),
            m = given(SAMBA_INT8, SHAPE(2, 3), VALUES(3, -128, 3, -1, 127, 0));
    expect(SAMBA_OP_sort, sort_attrs(0, 6, false), a, given(F32, SHAPE(6), VALUES(-INFINITY, -1, 2, 2, NAN, NAN)));
    expect(SAMBA_OP_argsort, sort_attrs(0, 6, false), a, given(SAMBA_INT64, SHAPE(6), VALUES(2, 5, 0, 3, 1, 4)));
    expect(SAMBA_OP_argsort, sort_attrs(0, 3, true), a, given(SAMBA_INT64, SHAPE(3), VALUES(1, 4, 0)));
    expect(SAMBA_OP_argsort, sort_attrs(0, 4, false), given(F64, SHAPE(4), VALUES(0, -0.0, 0, -1)),
           given(SAMBA_INT64, SHAPE(4), VALUES(3, 0, 1, 2)));
    expect(SAMBA_OP_sort, sort_attrs(1, 2, true), m, given(SAMBA_INT8, SHAPE(2, 2), VALUES(3, 3, 127, 0)));
    expect(SAMBA_OP_sort, sort_attrs(0, 1, false), m, given(SAMBA_INT8, SHAPE(1, 3), VALUES(-1, -128, 0)));
    expect(SAMBA_OP_sort, sort_attrs(1, 0, false), m, given(SAMBA_INT8, SHAPE(2, 0), VALUES(0)));
}

static void test_scans(void **state)
{
    (void)state;
    operand a = given(F64, SHAPE(4), VALUES(1, 2, 3, 4)), n = given(F64, SHAPE(5), VALUES(1, 3, 3, NAN, 4));
    operand bytes = given(SAMBA_UINT8, SHAPE(2, 2), VALUES(200, 3, 100, 4));
    expect(SAMBA_OP_cumsum, scan_attrs(0, false), a, given(F64, SHAPE(4), VALUES(1, 3, 6, 10)));
    expect(SAMBA_OP_cumsum, scan_attrs(0, true), a, given(F64, SHAPE(4), VALUES(10, 9, 7, 4)));
    expect(SAMBA_OP_cumsum, scan_attrs(0, false), bytes, given(SAMBA_UINT8, SHAPE(2, 2), VALUES(200, 3, 44, 7))); /* wraps */
    expect(SAMBA_OP_cumprod, scan_attrs(0, false), a, given(F64, SHAPE(4), VALUES(1, 2, 6, 24)));
    expect(SAMBA_OP_cumprod, scan_attrs(0, true), a, given(F64, SHAPE(4), VALUES(24, 24, 12, 4)));
    expect(SAMBA_OP_logcumsumexp, scan_attrs(0, false), given(F64, SHAPE(3), VALUES(-INFINITY, 0, 0)),
           given(F64, SHAPE(3), VALUES(-INFINITY, 0, 0.6931471805599453)));
    expect(SAMBA_OP_cummax, scan_attrs(0, false), n, given(F64, SHAPE(5), VALUES(1, 3, 3, NAN, NAN)));
    expect(SAMBA_OP_cummax_index, scan_attrs(0, false), n, given(SAMBA_INT64, SHAPE(5), VALUES(0, 1, 2, 3, 3)));
    expect(SAMBA_OP_cummin_index, scan_attrs(0, true), a, given(SAMBA_INT64, SHAPE(4), VALUES(0, 1, 2, 3)));
    expect(SAMBA_OP_cummin, scan_attrs(1, false), given(SAMBA_BOOL, SHAPE(1, 3), VALUES(1, 0, 1)),
           given(SAMBA_BOOL, SHAPE(1, 3), VALUES(1, 0, 0)));
}

static void test_refusals(void **state)
{
    (void)state;
    operand a = given(F32, SHAPE(2, 3), VALUES(1, 2, 3, 4, 5, 6)), i = given(SAMBA_INT64, SHAPE(2), VALUES(1, 2)),
            b = given(SAMBA_BOOL, SHAPE(2), VALUES(1, 0));
    assert_int_equal(refuse(SAMBA_OP_sort, sort_attrs(2, 1, false), a), SAMBA_ERROR_ARGUMENT);
    assert_int_equal(refuse(SAMBA_OP_sort, sort_attrs(-1, 1, false), a), SAMBA_ERROR_ARGUMENT);
    assert_int_equal(refuse(SAMBA_OP_sort, sort_attrs(1, 4, false), a), SAMBA_ERROR_ARGUMENT);
    assert_int_equal(refuse(SAMBA_OP_argsort, sort_attrs(1, -1, false), a), SAMBA_ERROR_ARGUMENT);
    assert_int_equal(refuse(SAMBA_OP_sort, sort_attrs(0, 1, false), given(F32, SCALAR, VALUES(1))), SAMBA_ERROR_ARGUMENT);
    assert_int_equal(refuse(SAMBA_OP_cumsum, scan_attrs(2, false), a), SAMBA_ERROR_ARGUMENT);
    assert_int_equal(refuse(SAMBA_OP_cumsum, scan_attrs(0, false), b), SAMBA_ERROR_DTYPE);
    assert_int_equal(refuse(SAMBA_OP_cummax, scan_attrs(-1, false), a), SAMBA_ERROR_ARGUMENT);
    assert_int_equal(refuse(SAMBA_OP_logcumsumexp, scan_attrs(0, false), i), SAMBA_ERROR_DTYPE);
    samba_attrs attrs = scan_attrs(0, false);
    operand pair[2] = {a, given(F32, SHAPE(3, 2), VALUES(1, 2, 3, 4, 5, 6))};
    assert_int_equal(op_status(SAMBA_OP_cumprod_grad, &attrs, 2, pair), SAMBA_ERROR_SHAPE);
}

static void test_gradients(void **state)
{
    (void)state;
    operand zeros = given(F64, SHAPE(2, 4), VALUES(1, 0, 3, 0.5, 0, -1, 0, 2));
    for (int dim = 0; dim < 3; dim++) {
        operand a = drawn(SHAPE(3, 4, 2), -1, 1);
        check(SAMBA_OP_sort, sort_attrs(dim, 2, dim == 1), a);
        for (int reverse = 0; reverse < 2; reverse++) {
            check(SAMBA_OP_cumsum, scan_attrs(dim, reverse), a);
            check(SAMBA_OP_cumprod, scan_attrs(dim, reverse), a);
            check(SAMBA_OP_logcumsumexp, scan_attrs(dim, reverse), a);
            check(SAMBA_OP_cummax, scan_attrs(dim, reverse), a);
            check(SAMBA_OP_cummin, scan_attrs(dim, reverse), a);
        }
    }
    check(SAMBA_OP_cumprod, scan_attrs(0, false), zeros);
    check(SAMBA_OP_cumprod, scan_attrs(1, true), zeros);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order),
        cmocka_unit_test(test_scans),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_gradients),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
