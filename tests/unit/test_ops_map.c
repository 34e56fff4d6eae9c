/* SPDX-License-Identifier: Apache-2.0
 *
 * Elementwise operators: values at points known by hand (edges, wrapping, rounding, broadcasting, size 0), what inference
 * refuses, and every gradient against central differences. */
#include "gradient_check.h"

#define F32 SAMBA_FLOAT32
#define F64 SAMBA_FLOAT64
#define TIGHT 1e-15

static void expect_unary(samba_op op, operand a, samba_dtype dtype, const double *expected, double tolerance)
{
    op_expect(op, NULL, 1, &a, given(dtype, a.rank, a.shape, expected), tolerance);
}

static void expect_binary(samba_op op, operand a, operand b, operand expected)
{
    operand operands[2] = {a, b};
    op_expect(op, NULL, 2, operands, expected, 0);
}

static void test_unary_reals(void **state)
{
    (void)state;
    operand edges = given(F32, SHAPE(6), VALUES(-INFINITY, -1.5, -0.0, 0.25, INFINITY, NAN));
    expect_unary(SAMBA_OP_neg, edges, F32, VALUES(INFINITY, 1.5, 0, -0.25, -INFINITY, NAN), 0);
    expect_unary(SAMBA_OP_abs, edges, F32, VALUES(INFINITY, 1.5, 0, 0.25, INFINITY, NAN), 0);
    expect_unary(SAMBA_OP_sign, edges, F32, VALUES(-1, -1, 0, 1, 1, 0), 0);
    expect_unary(SAMBA_OP_relu, edges, F32, VALUES(0, 0, 0, 0.25, INFINITY, NAN), 0);
    expect_unary(SAMBA_OP_floor, edges, F32, VALUES(-INFINITY, -2, 0, 0, INFINITY, NAN), 0);
    expect_unary(SAMBA_OP_round, edges, F32, VALUES(-INFINITY, -2, 0, 0, INFINITY, NAN), 0);
    expect_unary(SAMBA_OP_round, given(F32, SHAPE(4), VALUES(0.5, 1.5, 2.5, -0.7)), F32, VALUES(0, 2, 2, -1), 0);
    expect_unary(SAMBA_OP_detach, edges, F32, VALUES(-INFINITY, -1.5, 0, 0.25, INFINITY, NAN), 0);
    expect_unary(SAMBA_OP_reciprocal, edges, F32, VALUES(0, (float)(-1 / 1.5), -INFINITY, 4, 0, NAN), 0);

    operand points = given(F64, SHAPE(2, 3), VALUES(-1, 0, 1, 4, INFINITY, NAN));
    double e = 2.718281828459045;
    expect_unary(SAMBA_OP_exp, points, F64, VALUES(1 / e, 1, e, 54.598150033144236, INFINITY, NAN), TIGHT);
    expect_unary(SAMBA_OP_log, points, F64, VALUES(NAN, -INFINITY, 0, 1.3862943611198906, INFINITY, NAN), TIGHT);
    expect_unary(SAMBA_OP_log1p, points, F64, VALUES(-INFINITY, 0, 0.6931471805599453, 1.6094379124341003, INFINITY, NAN), TIGHT);
    expect_unary(SAMBA_OP_log1p, given(F64, SHAPE(1), VALUES(1e-20)), F64, VALUES(1e-20), TIGHT);
    expect_unary(SAMBA_OP_expm1, points, F64, VALUES(1 / e - 1, 0, e - 1, 53.598150033144236, INFINITY, NAN), TIGHT);
    expect_unary(SAMBA_OP_expm1, given(F64, SHAPE(1), VALUES(1e-20)), F64, VALUES(1e-20), TIGHT);
    expect_unary(SAMBA_OP_sin, points, F64, VALUES(-0.8414709848078965, 0, 0.8414709848078965, -0.7568024953079282, NAN, NAN),
                 TIGHT);
    expect_unary(SAMBA_OP_cos, points, F64, VALUES(0.5403023058681398, 1, 0.5403023058681398, -0.6536436208636119, NAN, NAN),
                 TIGHT);
    expect_unary(SAMBA_OP_softplus, points, F64,
                 VALUES(0.31326168751822286, 0.6931471805599453, 1.3132616875182228, 4.0181499279178094, INFINITY, NAN), TIGHT);
    expect_unary(SAMBA_OP_softplus, given(F64, SHAPE(2), VALUES(-40, 1000)), F64, VALUES(4.248354255291589e-18, 1000), TIGHT);
    expect_unary(SAMBA_OP_sqrt, points, F64, VALUES(NAN, 0, 1, 2, INFINITY, NAN), TIGHT);
    expect_unary(SAMBA_OP_rsqrt, points, F64, VALUES(NAN, INFINITY, 1, 0.5, 0, NAN), TIGHT);
    expect_unary(SAMBA_OP_tanh, points, F64, VALUES(-0.7615941559557649, 0, 0.7615941559557649, 0.999329299739067, 1, NAN),
                 TIGHT);
    expect_unary(SAMBA_OP_sigmoid, points, F64, VALUES(0.2689414213699951, 0.5, 0.7310585786300049, 0.9820137900379085, 1, NAN),
                 TIGHT);
    expect_unary(SAMBA_OP_erf, points, F64, VALUES(-0.8427007929497149, 0, 0.8427007929497149, 0.9999999845827421, 1, NAN),
                 TIGHT);
    expect_unary(SAMBA_OP_sigmoid, given(F32, SHAPE(2), VALUES(-200, 200)), F32, VALUES(0, 1), 0);

    operand gelu = given(F64, SHAPE(4), VALUES(-1, 0, 1, 3));
    expect_unary(SAMBA_OP_gelu, gelu, F64, VALUES(-0.15865525393145705, 0, 0.8413447460685429, 2.99595030590511), TIGHT);
    expect_unary(SAMBA_OP_gelu_tanh, gelu, F64, VALUES(-0.15880800939172324, 0, 0.8411919906082768, 2.996362607918227), TIGHT);

    expect_unary(SAMBA_OP_exp, given(F32, SHAPE(0, 3), VALUES(0)), F32, VALUES(0), 0);
    expect_unary(SAMBA_OP_exp, given(F64, SCALAR, VALUES(0)), F64, VALUES(1), 0);
}

static void test_16_bit_floats_round_once(void **state)
{
    (void)state;
    expect_unary(SAMBA_OP_exp, given(SAMBA_BFLOAT16, SHAPE(1), VALUES(1)), SAMBA_BFLOAT16, VALUES(2.71875), 0);
    expect_unary(SAMBA_OP_exp, given(SAMBA_FLOAT16, SHAPE(2), VALUES(1, 12)), SAMBA_FLOAT16, VALUES(2.71875, INFINITY), 0);
    expect_binary(SAMBA_OP_add, given(SAMBA_BFLOAT16, SHAPE(2), VALUES(256, 256)), given(SAMBA_BFLOAT16, SHAPE(2), VALUES(1, 3)),
                  given(SAMBA_BFLOAT16, SHAPE(2), VALUES(256, 260))); /* ties to even */
}

static void test_unary_integers(void **state)
{
    (void)state;
    operand small = given(SAMBA_INT8, SHAPE(4), VALUES(-128, -1, 0, 127));
    expect_unary(SAMBA_OP_neg, small, SAMBA_INT8, VALUES(-128, 1, 0, -127), 0);
    expect_unary(SAMBA_OP_abs, small, SAMBA_INT8, VALUES(-128, 1, 0, 127), 0);
    expect_unary(SAMBA_OP_sign, small, SAMBA_INT8, VALUES(-1, -1, 0, 1), 0);
    expect_unary(SAMBA_OP_relu, small, SAMBA_INT8, VALUES(0, 0, 0, 127), 0);
    expect_unary(SAMBA_OP_floor, small, SAMBA_INT8, VALUES(-128, -1, 0, 127), 0);
    expect_unary(SAMBA_OP_round, small, SAMBA_INT8, VALUES(-128, -1, 0, 127), 0);
    expect_unary(SAMBA_OP_detach, small, SAMBA_INT8, VALUES(-128, -1, 0, 127), 0);
    expect_unary(SAMBA_OP_detach, given(SAMBA_BOOL, SHAPE(2), VALUES(0, 1)), SAMBA_BOOL, VALUES(0, 1), 0);
    expect_unary(SAMBA_OP_neg, given(SAMBA_UINT8, SHAPE(2), VALUES(1, 0)), SAMBA_UINT8, VALUES(255, 0), 0);
    expect_unary(SAMBA_OP_neg, given(SAMBA_INT64, SCALAR, VALUES(-0x1p63)), SAMBA_INT64, VALUES(-0x1p63), 0);
    expect_unary(SAMBA_OP_sign, given(SAMBA_BOOL, SHAPE(2), VALUES(0, 1)), SAMBA_BOOL, VALUES(0, 1), 0);
    expect_unary(SAMBA_OP_logical_not, given(SAMBA_BOOL, SHAPE(2), VALUES(0, 1)), SAMBA_BOOL, VALUES(1, 0), 0);
}

static void test_binary_reals(void **state)
{
    (void)state;
    operand column = given(F32, SHAPE(2, 1), VALUES(1, 2)), row = given(F32, SHAPE(3), VALUES(10, 20, 30));
    expect_binary(SAMBA_OP_add, column, row, given(F32, SHAPE(2, 3), VALUES(11, 21, 31, 12, 22, 32)));
    expect_binary(SAMBA_OP_sub, column, row, given(F32, SHAPE(2, 3), VALUES(-9, -19, -29, -8, -18, -28)));
    expect_binary(SAMBA_OP_mul, row, column, given(F32, SHAPE(2, 3), VALUES(10, 20, 30, 20, 40, 60)));
    expect_binary(SAMBA_OP_div, given(F32, SHAPE(4), VALUES(1, 1, -1, 0)), given(F32, SHAPE(4), VALUES(3, 0, 0, 0)),
                  given(F32, SHAPE(4), VALUES(1.0f / 3.0f, INFINITY, -INFINITY, NAN)));
    expect_binary(SAMBA_OP_pow, given(F64, SHAPE(5), VALUES(2, -2, 0, 0, -1)), given(F64, SHAPE(5), VALUES(-1, 3, 0, -1, 0.5)),
                  given(F64, SHAPE(5), VALUES(0.5, -8, 1, INFINITY, NAN)));
    operand a = given(F64, SHAPE(4), VALUES(1, NAN, 1, -INFINITY)), b = given(F64, SHAPE(4), VALUES(2, 1, NAN, INFINITY));
    expect_binary(SAMBA_OP_maximum, a, b, given(F64, SHAPE(4), VALUES(2, NAN, NAN, INFINITY)));
    expect_binary(SAMBA_OP_minimum, a, b, given(F64, SHAPE(4), VALUES(1, NAN, NAN, -INFINITY)));
    /* broadcasting with rank 0, with more dims, with size 0 */
    expect_binary(SAMBA_OP_add, given(F32, SCALAR, VALUES(1)), row, given(F32, SHAPE(3), VALUES(11, 21, 31)));
    expect_binary(SAMBA_OP_add, given(F32, SHAPE(2, 1, 2), VALUES(1, 2, 3, 4)), given(F32, SHAPE(2, 1), VALUES(10, 20)),
                  given(F32, SHAPE(2, 2, 2), VALUES(11, 12, 21, 22, 13, 14, 23, 24)));
    expect_binary(SAMBA_OP_mul, given(F32, SHAPE(0, 1), VALUES(0)), row, given(F32, SHAPE(0, 3), VALUES(0)));
    expect_binary(SAMBA_OP_mul, given(F32, SHAPE(1), VALUES(5)), given(F32, SHAPE(0), VALUES(0)),
                  given(F32, SHAPE(0), VALUES(0)));
}

static void test_binary_integers(void **state)
{
    (void)state;
    operand a = given(SAMBA_INT8, SHAPE(3), VALUES(127, -128, 100)), b = given(SAMBA_INT8, SHAPE(3), VALUES(1, -1, 3));
    expect_binary(SAMBA_OP_add, a, b, given(SAMBA_INT8, SHAPE(3), VALUES(-128, 127, 103)));
    expect_binary(SAMBA_OP_sub, a, b, given(SAMBA_INT8, SHAPE(3), VALUES(126, -127, 97)));
    expect_binary(SAMBA_OP_mul, a, b, given(SAMBA_INT8, SHAPE(3), VALUES(127, -128, 44)));
    expect_binary(SAMBA_OP_sub, given(SAMBA_UINT8, SCALAR, VALUES(0)), given(SAMBA_UINT8, SCALAR, VALUES(1)),
                  given(SAMBA_UINT8, SCALAR, VALUES(255)));
    expect_binary(SAMBA_OP_mul, given(SAMBA_INT64, SCALAR, VALUES(0x1p62)), given(SAMBA_INT64, SCALAR, VALUES(6)),
                  given(SAMBA_INT64, SCALAR, VALUES(-0x1p63)));
    expect_binary(SAMBA_OP_pow, given(SAMBA_INT32, SHAPE(8), VALUES(3, -2, 0, 1, -1, -1, 5, 0)),
                  given(SAMBA_INT32, SHAPE(8), VALUES(4, 3, 0, -7, -3, -2, -1, -1)),
                  given(SAMBA_INT32, SHAPE(8), VALUES(81, -8, 1, 1, -1, 1, 0, 0)));
    expect_binary(SAMBA_OP_pow, given(SAMBA_UINT8, SCALAR, VALUES(3)), given(SAMBA_UINT8, SCALAR, VALUES(6)),
                  given(SAMBA_UINT8, SCALAR, VALUES(729 % 256)));
    expect_binary(SAMBA_OP_maximum, a, b, given(SAMBA_INT8, SHAPE(3), VALUES(127, -1, 100)));
    expect_binary(SAMBA_OP_minimum, a, b, given(SAMBA_INT8, SHAPE(3), VALUES(1, -128, 3)));
    operand p = given(SAMBA_BOOL, SHAPE(4), VALUES(0, 0, 1, 1)), q = given(SAMBA_BOOL, SHAPE(4), VALUES(0, 1, 0, 1));
    expect_binary(SAMBA_OP_add, p, q, given(SAMBA_BOOL, SHAPE(4), VALUES(0, 1, 1, 1)));
    expect_binary(SAMBA_OP_mul, p, q, given(SAMBA_BOOL, SHAPE(4), VALUES(0, 0, 0, 1)));
    expect_binary(SAMBA_OP_maximum, p, q, given(SAMBA_BOOL, SHAPE(4), VALUES(0, 1, 1, 1)));
    expect_binary(SAMBA_OP_minimum, p, q, given(SAMBA_BOOL, SHAPE(4), VALUES(0, 0, 0, 1)));
}

static void test_comparisons(void **state)
{
    (void)state;
    operand a = given(F32, SHAPE(5), VALUES(1, 2, 3, NAN, NAN)), b = given(F32, SHAPE(5), VALUES(2, 2, 2, 2, NAN));
    operand c = given(SAMBA_INT64, SHAPE(3), VALUES(-1, 0, 1)), zero = given(SAMBA_INT64, SCALAR, VALUES(0));
    static const struct {
        samba_op op;
        double reals[5], integers[3];
    } rows[] = {
        {SAMBA_OP_eq, {0, 1, 0, 0, 0}, {0, 1, 0}}, {SAMBA_OP_ne, {1, 0, 1, 1, 1}, {1, 0, 1}},
        {SAMBA_OP_lt, {1, 0, 0, 0, 0}, {1, 0, 0}}, {SAMBA_OP_le, {1, 1, 0, 0, 0}, {1, 1, 0}},
        {SAMBA_OP_gt, {0, 0, 1, 0, 0}, {0, 0, 1}}, {SAMBA_OP_ge, {0, 1, 1, 0, 0}, {0, 1, 1}},
    };
    for (int i = 0; i < SAMBA_COUNT(rows); i++) {
        expect_binary(rows[i].op, a, b, given(SAMBA_BOOL, SHAPE(5), rows[i].reals));
        expect_binary(rows[i].op, c, zero, given(SAMBA_BOOL, SHAPE(3), rows[i].integers));
    }
}

static void test_where(void **state)
{
    (void)state;
    operand operands[3] = {given(SAMBA_BOOL, SHAPE(2, 1), VALUES(1, 0)), given(F32, SHAPE(3), VALUES(1, NAN, 3)),
                           given(F32, SCALAR, VALUES(-1))};
    op_expect(SAMBA_OP_where, NULL, 3, operands, given(F32, SHAPE(2, 3), VALUES(1, NAN, 3, -1, -1, -1)), 0);
}

static void test_cast(void **state)
{
    (void)state;
    static const struct {
        samba_dtype from, to;
        double value, expected;
    } rows[] = {
        {F32, SAMBA_INT32, -1.75, -1},
        {F64, SAMBA_INT64, 3.99, 3},
        {F32, SAMBA_BOOL, 0.25, 1},
        {F32, SAMBA_BOOL, 0, 0},
        {F32, SAMBA_BOOL, NAN, 1},
        {SAMBA_INT64, SAMBA_UINT8, 300, 44},
        {SAMBA_INT32, SAMBA_BOOL, -5, 1},
        {SAMBA_INT32, SAMBA_INT8, 128, -128},
        {SAMBA_BOOL, F32, 1, 1},
        {SAMBA_INT64, F32, 16777217, 16777216},
        {F32, SAMBA_BFLOAT16, 1.00390625, 1},
        {F32, SAMBA_BFLOAT16, 1.01171875, 1.015625},
        {F32, SAMBA_FLOAT16, 2049, 2048},
        {F32, SAMBA_FLOAT16, 2051, 2052},
        {F32, SAMBA_FLOAT16, 65520, INFINITY},
        {SAMBA_BFLOAT16, F32, 1.5, 1.5},
        {F64, F32, 0.1, 0.1f},
        {F64, SAMBA_INT64, NAN, 0},
    };
    for (int i = 0; i < SAMBA_COUNT(rows); i++) {
        samba_attrs attrs;
        memset(&attrs, 0, sizeof attrs);
        attrs.cast.dtype = rows[i].to;
        operand a = given(rows[i].from, SHAPE(1), &rows[i].value);
        op_expect(SAMBA_OP_cast, &attrs, 1, &a, given(rows[i].to, SHAPE(1), &rows[i].expected), 0);
    }
}

static samba_status status_of(samba_op op, operand a, operand b)
{
    operand operands[2] = {a, b};
    return op_status(op, NULL, samba_ops[op].arity, operands);
}

static void test_refusals(void **state)
{
    (void)state;
    operand real = given(F32, SHAPE(2), VALUES(1, 2)), wide = given(F64, SHAPE(2), VALUES(1, 2));
    operand integer = given(SAMBA_INT64, SHAPE(2), VALUES(1, 2)), truth = given(SAMBA_BOOL, SHAPE(2), VALUES(1, 0));
    operand three = given(F32, SHAPE(3), VALUES(1, 2, 3));
    assert_int_equal(status_of(SAMBA_OP_add, real, three), SAMBA_ERROR_SHAPE);
    assert_int_equal(status_of(SAMBA_OP_add, real, wide), SAMBA_ERROR_DTYPE);
    assert_int_equal(status_of(SAMBA_OP_eq, real, integer), SAMBA_ERROR_DTYPE);
    assert_int_equal(status_of(SAMBA_OP_eq, real, three), SAMBA_ERROR_SHAPE);
    assert_int_equal(status_of(SAMBA_OP_div, integer, integer), SAMBA_ERROR_DTYPE);
    assert_int_equal(status_of(SAMBA_OP_sub, truth, truth), SAMBA_ERROR_DTYPE);
    assert_int_equal(status_of(SAMBA_OP_pow, truth, truth), SAMBA_ERROR_DTYPE);
    assert_int_equal(status_of(SAMBA_OP_logical_not, real, real), SAMBA_ERROR_DTYPE);
    static const samba_op not_bool[] = {SAMBA_OP_neg, SAMBA_OP_abs, SAMBA_OP_relu, SAMBA_OP_floor, SAMBA_OP_round};
    for (int i = 0; i < SAMBA_COUNT(not_bool); i++)
        assert_int_equal(status_of(not_bool[i], truth, truth), SAMBA_ERROR_DTYPE);
    static const samba_op floating[] = {SAMBA_OP_exp,  SAMBA_OP_log,     SAMBA_OP_sqrt,  SAMBA_OP_rsqrt, SAMBA_OP_reciprocal,
                                        SAMBA_OP_tanh, SAMBA_OP_sigmoid, SAMBA_OP_erf,   SAMBA_OP_gelu,  SAMBA_OP_gelu_tanh,
                                        SAMBA_OP_sin,  SAMBA_OP_cos,     SAMBA_OP_log1p, SAMBA_OP_expm1, SAMBA_OP_softplus};
    for (int i = 0; i < SAMBA_COUNT(floating); i++)
        assert_int_equal(status_of(floating[i], integer, integer), SAMBA_ERROR_DTYPE);
    operand operands[3] = {real, real, real};
    assert_int_equal(op_status(SAMBA_OP_where, NULL, 3, operands), SAMBA_ERROR_DTYPE);
    operands[0] = truth;
    operands[2] = wide;
    assert_int_equal(op_status(SAMBA_OP_where, NULL, 3, operands), SAMBA_ERROR_DTYPE);
    operands[2] = three;
    assert_int_equal(op_status(SAMBA_OP_where, NULL, 3, operands), SAMBA_ERROR_SHAPE);
    samba_attrs attrs;
    memset(&attrs, 0, sizeof attrs);
    attrs.cast.dtype = SAMBA_DTYPE_COUNT;
    assert_int_not_equal(op_status(SAMBA_OP_cast, &attrs, 1, &real), SAMBA_OK);
}

static void test_unary_gradients(void **state)
{
    (void)state;
    static const struct {
        samba_op op;
        double low, high;
    } rows[] = {
        {SAMBA_OP_neg, -2, 2},           {SAMBA_OP_abs, 0.1, 2},  {SAMBA_OP_abs, -2, -0.1},  {SAMBA_OP_exp, -2, 2},
        {SAMBA_OP_log, 0.5, 3},          {SAMBA_OP_sqrt, 0.5, 3}, {SAMBA_OP_rsqrt, 0.5, 3},  {SAMBA_OP_reciprocal, 0.5, 3},
        {SAMBA_OP_reciprocal, -3, -0.5}, {SAMBA_OP_tanh, -2, 2},  {SAMBA_OP_sigmoid, -3, 3}, {SAMBA_OP_relu, 0.1, 2},
        {SAMBA_OP_relu, -2, -0.1},       {SAMBA_OP_erf, -2, 2},   {SAMBA_OP_gelu, -3, 3},    {SAMBA_OP_gelu_tanh, -3, 3},
        {SAMBA_OP_log1p, -0.5, 2},       {SAMBA_OP_expm1, -2, 2}, {SAMBA_OP_sin, -4, 4},     {SAMBA_OP_cos, -4, 4},
        {SAMBA_OP_softplus, -3, 3},
    };
    for (int i = 0; i < SAMBA_COUNT(rows); i++) {
        operand a = drawn(SHAPE(2, 3), rows[i].low, rows[i].high);
        gradient_check(rows[i].op, NULL, 1, &a, (uint64_t)i + 1);
    }
}

static void test_binary_gradients(void **state)
{
    (void)state;
    static const samba_op ops[] = {SAMBA_OP_add, SAMBA_OP_sub,     SAMBA_OP_mul,    SAMBA_OP_div,
                                   SAMBA_OP_pow, SAMBA_OP_maximum, SAMBA_OP_minimum};
    for (int i = 0; i < SAMBA_COUNT(ops); i++) {
        const operand pairs[][2] = {
            {drawn(SHAPE(2, 3), 0.5, 2), drawn(SHAPE(2, 3), 0.5, 2)}, {drawn(SHAPE(2, 1), 0.5, 2), drawn(SHAPE(3), 0.5, 2)},
            {drawn(SCALAR, 0.5, 2), drawn(SHAPE(2, 2), 0.5, 2)},      {drawn(SHAPE(2, 1, 3), 0.5, 2), drawn(SHAPE(2, 1), 0.5, 2)},
            {drawn(SHAPE(0, 3), 0.5, 2), drawn(SHAPE(3), 0.5, 2)},
        };
        for (int k = 0; k < SAMBA_COUNT(pairs); k++)
            gradient_check(ops[i], NULL, 2, pairs[k], (uint64_t)(i * 16 + k + 1));
    }
}

static void test_gradients_at_edges(void **state)
{
    (void)state;
    /* equal operands share: central differences say the same */
    operand tied[2] = {given(F64, SHAPE(3), VALUES(1, 2, 3)), given(F64, SHAPE(3), VALUES(1, 5, 2))};
    gradient_check(SAMBA_OP_maximum, NULL, 2, tied, 1);
    gradient_check(SAMBA_OP_minimum, NULL, 2, tied, 2);
    operand zero = given(F64, SHAPE(1), VALUES(0));
    gradient_check(SAMBA_OP_abs, NULL, 1, &zero, 3);
    /* negative and zero bases under constant exponents; base zero under a positive exponent that varies */
    operand powers[2] = {given(F64, SHAPE(6), VALUES(-2, -1.5, 0, 0, 0, -3)), given(F64, SHAPE(6), VALUES(3, 2, 2, 1, 0, 0))};
    powers[1].constant = true;
    gradient_check(SAMBA_OP_pow, NULL, 2, powers, 4);
    operand zeros[2] = {given(F64, SHAPE(2), VALUES(0, 0)), given(F64, SHAPE(2), VALUES(2, 0.5))};
    zeros[0].constant = true;
    gradient_check(SAMBA_OP_pow, NULL, 2, zeros, 5);
}

/* The gradient of sum(y) at one float64 point, where differences cannot tell it. */
static double slope_at(samba_op op, double at)
{
    op_bench bench;
    uint64_t state = 1;
    operand x = given(F64, SHAPE(1), &at);
    op_bench_begin(&bench, op, NULL, 1, &x, &state);
    op_bench_leaf(&bench, 1, F64, 1, x.shape);
    array_set(&bench.arrays[1], 0, 1);
    bench.graph->phase = SAMBA_BCKWD;
    samba_ref gradient;
    gradient_emit(&bench, op, (const bool[]){true}, &gradient);
    gradient_sink(&bench, "dx", SAMBA_BCKWD, gradient);
    double slope = gradient_loss(&bench); /* the first sink */
    op_bench_end(&bench);
    return slope;
}

static void test_gradients_as_torch(void **state)
{
    (void)state;
    assert_true(slope_at(SAMBA_OP_relu, 0) == 0);
    assert_true(slope_at(SAMBA_OP_relu, NAN) == 1);
    assert_true(slope_at(SAMBA_OP_abs, NAN) == 0);
    assert_true(isinf(slope_at(SAMBA_OP_sqrt, 0)));
    assert_true(isinf(slope_at(SAMBA_OP_log, 0)));
    assert_true(slope_at(SAMBA_OP_tanh, INFINITY) == 0);
    assert_true(slope_at(SAMBA_OP_sigmoid, -INFINITY) == 0);
}

static void test_where_and_cast_gradients(void **state)
{
    (void)state;
    operand operands[3] = {given(SAMBA_BOOL, SHAPE(2, 1), VALUES(1, 0)), drawn(SHAPE(3), -1, 1), drawn(SHAPE(2, 3), -1, 1)};
    gradient_check(SAMBA_OP_where, NULL, 3, operands, 1);
    samba_attrs attrs;
    memset(&attrs, 0, sizeof attrs);
    attrs.cast.dtype = F64;
    operand a = drawn(SHAPE(3), -1, 1);
    gradient_check(SAMBA_OP_cast, &attrs, 1, &a, 2);
}

/* A formula of a 16-bit operator runs in float32: 1 - tanh(x)^2 would lose everything in bfloat16. */
static void test_16_bit_gradients(void **state)
{
    (void)state;
    op_bench bench;
    uint64_t random = 1;
    operand x = given(SAMBA_BFLOAT16, SHAPE(1), VALUES(3));
    op_bench_begin(&bench, SAMBA_OP_tanh, NULL, 1, &x, &random);
    op_bench_leaf(&bench, 1, SAMBA_BFLOAT16, 1, x.shape);
    array_set(&bench.arrays[1], 0, 1);
    samba_ref gradient;
    gradient_emit(&bench, SAMBA_OP_tanh, (const bool[]){true}, &gradient);
    assert_int_equal(samba_node_at(bench.graph, gradient)->dtype, SAMBA_BFLOAT16);
    gradient_sink(&bench, "dx", SAMBA_FWD, gradient);
    double y = 0.99609375; /* tanh(3) in bfloat16 */
    assert_true(fabs(gradient_loss(&bench) - (1 - y * y)) <= (1 - y * y) / 256);
    op_bench_end(&bench);
}

/* A cast from integers, or to them, gives no gradient. */
static void test_cast_of_integers(void **state)
{
    (void)state;
    op_bench bench;
    uint64_t random = 1;
    operand x = given(SAMBA_INT32, SHAPE(2), VALUES(1, 2));
    samba_attrs attrs;
    memset(&attrs, 0, sizeof attrs);
    attrs.cast.dtype = F64;
    op_bench_begin(&bench, SAMBA_OP_cast, &attrs, 1, &x, &random);
    op_bench_leaf(&bench, 1, F64, 1, x.shape);
    samba_ref gradient;
    gradient_emit(&bench, SAMBA_OP_cast, (const bool[]){true}, &gradient);
    assert_int_equal(gradient, SAMBA_NONE);
    op_bench_end(&bench);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_unary_reals),
        cmocka_unit_test(test_16_bit_floats_round_once),
        cmocka_unit_test(test_unary_integers),
        cmocka_unit_test(test_binary_reals),
        cmocka_unit_test(test_binary_integers),
        cmocka_unit_test(test_comparisons),
        cmocka_unit_test(test_where),
        cmocka_unit_test(test_cast),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_unary_gradients),
        cmocka_unit_test(test_binary_gradients),
        cmocka_unit_test(test_gradients_at_edges),
        cmocka_unit_test(test_gradients_as_torch),
        cmocka_unit_test(test_where_and_cast_gradients),
        cmocka_unit_test(test_16_bit_gradients),
        cmocka_unit_test(test_cast_of_integers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
