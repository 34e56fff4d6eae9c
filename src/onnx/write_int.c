/* SPDX-License-Identifier: Apache-2.0
 *
 * Powers, quotients and their rests, bits and shifts as nodes of ONNX. Integers divided by 0 give 0 here; a runtime may stop, so
 * nothing is divided by 0, nor by -1, where the least number has no quotient. */
#include "onnx/write.h"
#include <math.h>

static samba_dtype wide_of(const samba_node *node) { return samba_onnx_wide((samba_dtype)node->dtype); }
static const char *number(samba_onnx_writer *w, const samba_node *node, double value)
{
    return samba_onnx_number_of(w, wide_of(node), value);
}

/* ---- powers ---- */

/* a times itself, by squares. */
static const char *integer_power(samba_onnx_writer *w, const samba_node *node, const char *a, int64_t exponent)
{
    const char *result = NULL;
    for (; exponent > 0; exponent /= 2) {
        if (exponent % 2)
            result = result ? samba_onnx_put2(w, "Mul", result, a) : a;
        if (exponent > 1)
            a = samba_onnx_put2(w, "Mul", a, a);
    }
    if (result)
        return result;
    const char *zero = number(w, node, 0), *none = samba_onnx_put2(w, "Mul", a, zero), *one = number(w, node, 1);
    return samba_onnx_put2(w, "Add", none, one);
}

const char *samba_onnx_write_pow(samba_onnx_writer *w, const samba_node *node)
{
    double exponent = 0;
    const char *a = samba_onnx_given_wide(w, node, 0), *b = samba_onnx_given_wide(w, node, 1);
    if (samba_onnx_is_float((samba_dtype)node->dtype)) {
        a = samba_onnx_put2(w, "Pow", a, b);
        return samba_onnx_narrow(w, node, a);
    }
    const samba_node *by = samba_onnx_from(w, node, 1), *of = samba_onnx_from(w, node, 0);
    if (!samba_onnx_constant_in(w, node, 1, &exponent) || exponent < 0 || exponent > 0x1p53 ||
        !samba_shape_equal(node->rank, node->shape, of->rank, of->shape) || by->rank > node->rank) {
        samba_onnx_cannot(
            w, node, "of integers, by an exponent that is no constant of 0 or more: ONNX leaves open how large ones are rounded");
        return "";
    }
    a = integer_power(w, node, a, (int64_t)exponent);
    return samba_onnx_narrow(w, node, a);
}

/* ---- quotients ---- */

typedef struct division {     /* of integers */
    const char *a, *b, *by;   /* by: b, but 1 where b is 0 or -1 */
    const char *none, *minus; /* where b is 0, and -1; NULL: nowhere */
} division;

static division division_of(samba_onnx_writer *w, const samba_node *node)
{
    double value;
    division d = {.a = samba_onnx_given_wide(w, node, 0)};
    d.b = d.by = samba_onnx_given_wide(w, node, 1);
    if (samba_onnx_constant_in(w, node, 1, &value) && value != 0 && value != -1)
        return d;
    const char *zero = number(w, node, 0), *minus = number(w, node, -1), *one = number(w, node, 1);
    d.none = samba_onnx_put2(w, "Equal", d.b, zero);
    d.minus = samba_onnx_put2(w, "Equal", d.b, minus);
    const char *either = samba_onnx_put2(w, "Or", d.none, d.minus);
    d.by = samba_onnx_put_where(w, either, one, d.b);
    return d;
}

/* Where a rest is not 0 and its sign is not b's. */
static const char *leaves_other_sign(samba_onnx_writer *w, const samba_node *node, const char *rest, const char *b)
{
    const char *zero = number(w, node, 0), *some = samba_onnx_put2(w, "Equal", rest, zero);
    some = samba_onnx_put1(w, "Not", some);
    const char *a_below = samba_onnx_put2(w, "Less", rest, zero), *b_below = samba_onnx_put2(w, "Less", b, zero);
    a_below = samba_onnx_put2(w, "Xor", a_below, b_below);
    return samba_onnx_put2(w, "And", some, a_below);
}

static const char *integer_quotient(samba_onnx_writer *w, const samba_node *node)
{
    division d = division_of(w, node);
    const char *q = samba_onnx_put2(w, "Div", d.a, d.by), *zero = number(w, node, 0), *one = number(w, node, 1);
    if (node->op == SAMBA_OP_floor_divide) {
        const char *rest = samba_onnx_put2(w, "Mul", q, d.by);
        rest = samba_onnx_put2(w, "Sub", d.a, rest);
        const char *less = leaves_other_sign(w, node, rest, d.by), *down = samba_onnx_put2(w, "Sub", q, one);
        q = samba_onnx_put_where(w, less, down, q);
    }
    if (d.none) {
        const char *turned = samba_onnx_put1(w, "Neg", d.a);
        q = samba_onnx_put_where(w, d.minus, turned, q);
        q = samba_onnx_put_where(w, d.none, zero, q);
    }
    return samba_onnx_narrow(w, node, q);
}

static const char *float_rest(samba_onnx_writer *w, const char *a, const char *b)
{
    samba_onnx_attr_int(w, "fmod", 1);
    return samba_onnx_put2(w, "Mod", a, b);
}

/* Python's, as the reference has it: from the exact rest, in float64. */
static const char *float_floor_quotient(samba_onnx_writer *w, const samba_node *node)
{
    const samba_dtype dtype = SAMBA_FLOAT64;
    const char *a = samba_onnx_given(w, node, 0), *b = samba_onnx_given(w, node, 1), *zero = samba_onnx_number_of(w, dtype, 0);
    const char *one = samba_onnx_number_of(w, dtype, 1), *half = samba_onnx_number_of(w, dtype, 0.5);
    a = samba_onnx_put_cast(w, a, (samba_dtype)node->dtype, dtype);
    b = samba_onnx_put_cast(w, b, (samba_dtype)node->dtype, dtype);
    const char *rest = float_rest(w, a, b), *plain = samba_onnx_put2(w, "Div", a, b),
               *some = samba_onnx_put2(w, "Equal", rest, zero);
    some = samba_onnx_put1(w, "Not", some);
    const char *q = samba_onnx_put2(w, "Sub", a, rest), *rest_below = samba_onnx_put2(w, "Less", rest, zero),
               *b_below = samba_onnx_put2(w, "Less", b, zero);
    q = samba_onnx_put2(w, "Div", q, b);
    rest_below = samba_onnx_put2(w, "Xor", rest_below, b_below);
    some = samba_onnx_put2(w, "And", some, rest_below);
    const char *less = samba_onnx_put2(w, "Sub", q, one);
    q = samba_onnx_put_where(w, some, less, q);
    const char *below = samba_onnx_put1(w, "Floor", q), *over = samba_onnx_put2(w, "Sub", q, below),
               *above = samba_onnx_put2(w, "Add", below, one);
    over = samba_onnx_put2(w, "Greater", over, half);
    const char *result = samba_onnx_put_where(w, over, above, below);
    const char *is_zero = samba_onnx_put2(w, "Equal", q, zero), *signed_zero = samba_onnx_put2(w, "Mul", plain, zero);
    result = samba_onnx_put_where(w, is_zero, signed_zero, result);
    const char *by_zero = samba_onnx_put2(w, "Equal", b, zero);
    result = samba_onnx_put_where(w, by_zero, plain, result);
    result = samba_onnx_put_cast(w, result, dtype, wide_of(node));
    return samba_onnx_narrow(w, node, result);
}

const char *samba_onnx_write_quotient(samba_onnx_writer *w, const samba_node *node)
{
    if (!samba_onnx_is_float((samba_dtype)node->dtype))
        return integer_quotient(w, node);
    if (node->op == SAMBA_OP_floor_divide)
        return float_floor_quotient(w, node);
    const char *a = samba_onnx_given_wide(w, node, 0), *b = samba_onnx_given_wide(w, node, 1), *zero = number(w, node, 0);
    a = samba_onnx_put2(w, "Div", a, b);
    const char *below = samba_onnx_put2(w, "Less", a, zero), *up = samba_onnx_put1(w, "Ceil", a),
               *down = samba_onnx_put1(w, "Floor", a);
    a = samba_onnx_put_where(w, below, up, down);
    return samba_onnx_narrow(w, node, a);
}

const char *samba_onnx_write_rest(samba_onnx_writer *w, const samba_node *node)
{
    if (!samba_onnx_is_float((samba_dtype)node->dtype)) {
        division d = division_of(w, node);
        if (node->op == SAMBA_OP_fmod)
            samba_onnx_attr_int(w, "fmod", 1);
        d.a = samba_onnx_put2(w, "Mod", d.a, d.by); /* by 1: 0 */
        return samba_onnx_narrow(w, node, d.a);
    }
    const char *a = samba_onnx_given_wide(w, node, 0), *b = samba_onnx_given_wide(w, node, 1), *rest = float_rest(w, a, b);
    if (node->op == SAMBA_OP_remainder) {
        const char *other = leaves_other_sign(w, node, rest, b), *turned = samba_onnx_put2(w, "Add", rest, b);
        rest = samba_onnx_put_where(w, other, turned, rest);
    }
    return samba_onnx_narrow(w, node, rest);
}

/* ---- bits ---- */

/* -1 - a, in whatever holds it. */
const char *samba_onnx_write_bitwise_not(samba_onnx_writer *w, const samba_node *node)
{
    if (node->dtype == SAMBA_BOOL)
        return samba_onnx_put1(w, "Not", samba_onnx_given(w, node, 0));
    const char *a = samba_onnx_given_wide(w, node, 0), *minus = number(w, node, -1);
    a = samba_onnx_put2(w, "Sub", minus, a);
    return samba_onnx_narrow(w, node, a);
}

const char *samba_onnx_write_bits(samba_onnx_writer *w, const samba_node *node)
{
    const bool logical = node->dtype == SAMBA_BOOL;
    if (!logical && w->options.opset < 18) {
        samba_onnx_cannot(w, node, "of integers, which ONNX has from opset 18 on");
        return "";
    }
    const char *op = node->op == SAMBA_OP_bitwise_and ? "And" : node->op == SAMBA_OP_bitwise_or ? "Or" : "Xor";
    if (!logical)
        op = node->op == SAMBA_OP_bitwise_and ? "BitwiseAnd" : node->op == SAMBA_OP_bitwise_or ? "BitwiseOr" : "BitwiseXor";
    return samba_onnx_put2(w, op, samba_onnx_given(w, node, 0), samba_onnx_given(w, node, 1));
}

/* ONNX shifts unsigned numbers alone; powers of 2 come from a table, at the end of which is what shifts of less than 0 or of 64
 * and more take: those shift everything out. */
static const char *power_of_two(samba_onnx_writer *w, const samba_node *node, int64_t last, int64_t behind)
{
    const int64_t count = last + 2;
    int64_t *powers = samba_onnx_room(w, count, SAMBA_INT64);
    const char *b = samba_onnx_given(w, node, 1), *zero = samba_onnx_number_of(w, SAMBA_INT64, 0),
               *most = samba_onnx_number_of(w, SAMBA_INT64, (double)last),
               *end = samba_onnx_number_of(w, SAMBA_INT64, (double)last + 1);
    for (int i = 0; powers && i <= last; i++)
        powers[i] = (int64_t)((uint64_t)1 << i);
    if (powers)
        powers[last + 1] = behind;
    b = samba_onnx_put_cast(w, b, (samba_dtype)samba_onnx_from(w, node, 1)->dtype, SAMBA_INT64);
    const char *below = samba_onnx_put2(w, "Less", b, zero), *above = samba_onnx_put2(w, "Greater", b, most);
    below = samba_onnx_put2(w, "Or", below, above);
    b = samba_onnx_put_where(w, below, end, b);
    const char *table = samba_onnx_tensor_of(w, SAMBA_INT64, 1, &count, powers);
    return samba_onnx_put2(w, "Gather", table, b);
}

const char *samba_onnx_write_left_shift(samba_onnx_writer *w, const samba_node *node)
{
    const char *a = samba_onnx_given(w, node, 0);
    a = samba_onnx_put_cast(w, a, (samba_dtype)node->dtype, SAMBA_INT64);
    const char *by = power_of_two(w, node, 63, 0);
    a = samba_onnx_put2(w, "Mul", a, by);
    return samba_onnx_put_cast(w, a, SAMBA_INT64, (samba_dtype)node->dtype);
}

/* The quotient rounded down; of what is shifted by more than 62, the sign. */
const char *samba_onnx_write_right_shift(samba_onnx_writer *w, const samba_node *node)
{
    const samba_dtype wide = SAMBA_INT64;
    const char *a = samba_onnx_given(w, node, 0), *zero = samba_onnx_number_of(w, wide, 0),
               *one = samba_onnx_number_of(w, wide, 1);
    a = samba_onnx_put_cast(w, a, (samba_dtype)node->dtype, wide);
    const char *by = power_of_two(w, node, 62, 0), *all = samba_onnx_put2(w, "Equal", by, zero);
    by = samba_onnx_put_where(w, all, one, by);
    const char *q = samba_onnx_put2(w, "Div", a, by), *back = samba_onnx_put2(w, "Mul", q, by),
               *down = samba_onnx_put2(w, "Sub", q, one);
    back = samba_onnx_put2(w, "Less", a, back);
    q = samba_onnx_put_where(w, back, down, q);
    const char *minus = samba_onnx_number_of(w, wide, -1), *below = samba_onnx_put2(w, "Less", a, zero),
               *sign = samba_onnx_put_where(w, below, minus, zero);
    q = samba_onnx_put_where(w, all, sign, q);
    return samba_onnx_put_cast(w, q, wide, (samba_dtype)node->dtype);
}
