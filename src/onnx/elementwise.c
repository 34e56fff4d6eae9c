/* SPDX-License-Identifier: Apache-2.0
 *
 * Arithmetic, comparisons, logic, casts. */
#include "onnx/lists.h"

#include <sambaflow/elementwise.h>
#include <sambaflow/reduce.h>
#include <sambaflow/shape.h>
#include <math.h>
#include <string.h>

#define T(name) SAMBA__ONNX__TENSOR_PROTO__DATA_TYPE__##name

/* Unsigned numbers that are held in wider signed ones: of 16 bits in int32, of 32 bits in int64. Arithmetic wraps as theirs. */
static samba_value wrap(samba_onnx_node *node, samba_value value, int32_t type)
{
    if (type != T(UINT16) && type != T(UINT32))
        return value;
    return samba_bitwise_and(value, samba_integer(node->graph, type == T(UINT16) ? 0xffff : 0xffffffff));
}

static void out_as_input(samba_onnx_node *node, samba_value value, int input)
{
    int32_t type = samba_onnx_type_in(node, input);
    if (value.graph && node->graph->status == SAMBA_OK)
        value = wrap(node, value, type);
    samba_onnx_out(node, 0, value);
    samba_onnx_out_type(node, 0, type);
}

/* Until version 6 the second operand broadcasts where an attribute says so, to dims of the first from axis on, or to its last. */
static samba_value broadcast_to(samba_onnx_node *node, samba_value a, samba_value b)
{
    int64_t own[SAMBA_MAX_RANK], other[SAMBA_MAX_RANK], shape[SAMBA_MAX_RANK];
    const int rank = samba_value_rank(a), count = samba_value_rank(b);
    const bool broadcasts = samba_onnx_flag(node, "broadcast", false);
    const int64_t axis = samba_onnx_int(node, "axis", rank - count), first = axis < 0 ? axis + rank : axis;
    samba_onnx_shape(a, own);
    samba_onnx_shape(b, other);
    if (node->refused)
        return b;
    if (!broadcasts && (rank != count || memcmp(own, other, (size_t)rank * sizeof *own) != 0))
        samba_onnx_refuse(node, "shapes %s and %s differ, and it does not broadcast", SAMBA_SHAPE(rank, own),
                          SAMBA_SHAPE(count, other));
    else if (first < 0 || first + count > rank)
        samba_onnx_refuse(node, "a second operand %s does not fit the first, %s, from dim %lld on", SAMBA_SHAPE(count, other),
                          SAMBA_SHAPE(rank, own), (long long)axis);
    if (node->refused || first + count == rank)
        return b;
    for (int i = 0; i < rank - first; i++)
        shape[i] = i < count ? other[i] : 1;
    return samba_reshape(b, rank - (int)first, shape);
}

static bool operands(samba_onnx_node *node, samba_value *a, samba_value *b)
{
    *a = samba_onnx_need(node, 0);
    *b = samba_onnx_need(node, 1);
    if (!node->refused && node->version < 7)
        *b = broadcast_to(node, *a, *b);
    return !node->refused;
}

#define UNARY(name)                                                                                                              \
    void samba_onnx_##name(samba_onnx_node *node);                                                                               \
    void samba_onnx_##name(samba_onnx_node *node)                                                                                \
    {                                                                                                                            \
        samba_value a = samba_onnx_need(node, 0);                                                                                \
        out_as_input(node, samba_##name(a), 0);                                                                                  \
    }
UNARY(abs)
UNARY(acos)
UNARY(acosh)
UNARY(asin)
UNARY(asinh)
UNARY(atan)
UNARY(atanh)
UNARY(bitwise_not)
UNARY(ceil)
UNARY(cos)
UNARY(cosh)
UNARY(erf)
UNARY(exp)
UNARY(floor)
UNARY(log)
UNARY(neg)
UNARY(reciprocal)
UNARY(round)
UNARY(sign)
UNARY(sin)
UNARY(sinh)
UNARY(sqrt)
UNARY(tan)
UNARY(tanh)

#define BINARY(name, function)                                                                                                   \
    void samba_onnx_##name(samba_onnx_node *node);                                                                               \
    void samba_onnx_##name(samba_onnx_node *node)                                                                                \
    {                                                                                                                            \
        samba_value a, b;                                                                                                        \
        if (operands(node, &a, &b))                                                                                              \
            out_as_input(node, function(a, b), 0);                                                                               \
    }
BINARY(add, samba_add)
BINARY(sub, samba_sub)
BINARY(mul, samba_mul)
BINARY(bitwise_and, samba_bitwise_and)
BINARY(bitwise_or, samba_bitwise_or)
BINARY(bitwise_xor, samba_bitwise_xor)

#define COMPARE(name, function)                                                                                                  \
    void samba_onnx_##name(samba_onnx_node *node);                                                                               \
    void samba_onnx_##name(samba_onnx_node *node)                                                                                \
    {                                                                                                                            \
        samba_value a, b;                                                                                                        \
        if (!operands(node, &a, &b))                                                                                             \
            return;                                                                                                              \
        if (samba_onnx_type_in(node, 0) == T(UINT64)) { /* the sign turned over, their order is that of signed ones */           \
            const int64_t least = INT64_MIN;                                                                                     \
            samba_value turn = samba_onnx_ints_value(node, 0, NULL, &least);                                                     \
            a = samba_bitwise_xor(a, turn);                                                                                      \
            b = samba_bitwise_xor(b, turn);                                                                                      \
        }                                                                                                                        \
        samba_onnx_out(node, 0, function(a, b));                                                                                 \
    }
COMPARE(equal, samba_eq)
COMPARE(greater, samba_gt)
COMPARE(greater_or_equal, samba_ge)
COMPARE(less, samba_lt)
COMPARE(less_or_equal, samba_le)
COMPARE(and, samba_logical_and)
COMPARE(or, samba_logical_or)
COMPARE(xor, samba_logical_xor)

void samba_onnx_not(samba_onnx_node *node);
void samba_onnx_not(samba_onnx_node *node)
{
    samba_value a = samba_onnx_need(node, 0);
    samba_onnx_out(node, 0, samba_logical_not(a));
}

static bool is_floating(samba_value a) { return samba_dtype_is_floating_point(samba_value_dtype(a)); }

/* Integers are divided towards 0. */
void samba_onnx_div(samba_onnx_node *node);
void samba_onnx_div(samba_onnx_node *node)
{
    samba_value a, b;
    if (!operands(node, &a, &b))
        return;
    out_as_input(node, is_floating(a) ? samba_div(a, b) : samba_trunc_divide(a, b), 0);
}

void samba_onnx_mod(samba_onnx_node *node);
void samba_onnx_mod(samba_onnx_node *node)
{
    samba_value a = samba_onnx_need(node, 0), b = samba_onnx_need(node, 1);
    bool fmod = samba_onnx_flag(node, "fmod", false);
    if (node->refused)
        return;
    out_as_input(node, fmod ? samba_fmod(a, b) : samba_remainder(a, b), 0);
}

/* The result has the base's dtype, whatever the exponent's. */
void samba_onnx_pow(samba_onnx_node *node);
void samba_onnx_pow(samba_onnx_node *node)
{
    samba_value a, b;
    if (!operands(node, &a, &b))
        return;
    samba_dtype dtype = samba_value_dtype(a);
    uint64_t inputs;
    const samba_array *known = samba_value_rank(b) == 0 ? samba_onnx_known(node->reader, b, &inputs) : NULL;
    if (known && inputs == 0 && is_floating(a)) /* squares and roots have forms of their own */
        b = samba_onnx_number(node, samba_load_double(known->dtype, known->data));
    else if (!is_floating(a) && is_floating(b))
        a = samba_cast(a, samba_value_dtype(b));
    else if (is_floating(a) && samba_value_dtype(b) != dtype)
        b = samba_cast(b, dtype);
    samba_value power = samba_pow(a, b);
    out_as_input(node, samba_cast(power, dtype), 0);
}

void samba_onnx_bit_shift(samba_onnx_node *node);
void samba_onnx_bit_shift(samba_onnx_node *node)
{
    static const char *const directions[] = {"LEFT", "RIGHT", NULL};
    samba_value a = samba_onnx_need(node, 0), b = samba_onnx_need(node, 1);
    int right = samba_onnx_choice(node, "direction", "", directions);
    if (node->refused)
        return;
    if (right && samba_onnx_type_in(node, 0) == T(UINT64)) { /* zeros come in from the left: the sign's copies are taken off */
        const int64_t all = -1;
        samba_value ones = samba_onnx_ints_value(node, 0, NULL, &all), shifted = samba_right_shift(a, b);
        samba_value one = samba_integer(node->graph, 1), last = samba_integer(node->graph, 63);
        samba_value rest = samba_sub(last, b), high = samba_left_shift(ones, rest), twice = samba_left_shift(high, one);
        samba_value none = samba_integer(node->graph, 0), kept = samba_bitwise_and(shifted, samba_bitwise_not(twice));
        samba_value unshifted = samba_eq(b, none);
        out_as_input(node, samba_where(unshifted, a, kept), 0);
        return;
    }
    out_as_input(node, right ? samba_right_shift(a, b) : samba_left_shift(a, b), 0);
}

void samba_onnx_where(samba_onnx_node *node);
void samba_onnx_where(samba_onnx_node *node)
{
    samba_value condition = samba_onnx_need(node, 0), a = samba_onnx_need(node, 1), b = samba_onnx_need(node, 2);
    if (!node->refused)
        out_as_input(node, samba_where(condition, a, b), 1);
}

void samba_onnx_identity(samba_onnx_node *node);
void samba_onnx_identity(samba_onnx_node *node)
{
    samba_onnx_item *item = samba_onnx_item_in(node, 0);
    if (item && item->is_list) {
        samba_onnx_out_list(node, 0, item->list_count, item->list);
        return;
    }
    out_as_input(node, samba_onnx_need(node, 0), 0);
}

void samba_onnx_is_nan(samba_onnx_node *node);
void samba_onnx_is_nan(samba_onnx_node *node)
{
    samba_value a = samba_onnx_need(node, 0);
    samba_onnx_out(node, 0, samba_isnan(a));
}

void samba_onnx_is_inf(samba_onnx_node *node);
void samba_onnx_is_inf(samba_onnx_node *node)
{
    samba_value a = samba_onnx_need(node, 0);
    bool negative = samba_onnx_flag(node, "detect_negative", true), positive = samba_onnx_flag(node, "detect_positive", true);
    if (node->refused)
        return;
    samba_value infinite = samba_isinf(a), zero = samba_onnx_number(node, 0);
    if (negative && positive)
        samba_onnx_out(node, 0, infinite);
    else if (negative || positive) {
        samba_value side = negative ? samba_lt(a, zero) : samba_gt(a, zero);
        samba_onnx_out(node, 0, samba_logical_and(infinite, side));
    } else
        samba_onnx_out(node, 0, samba_ne(infinite, infinite));
}

/* ---- any number of operands ---- */

static void fold_operands(samba_onnx_node *node, samba_value (*combine)(samba_value, samba_value), bool mean)
{
    samba_value result = samba_onnx_need(node, 0);
    for (int i = 1; i < node->input_count && !node->refused; i++) {
        samba_value other = samba_onnx_need(node, i);
        if (!node->refused)
            result = combine(result, other);
    }
    if (node->refused)
        return;
    if (mean) {
        samba_value count = samba_onnx_number(node, node->input_count);
        result = samba_div(result, count);
    }
    out_as_input(node, result, 0);
}

/* uint64 compares as signed numbers do after the sign is turned over. */
static void extremum(samba_onnx_node *node, samba_value (*combine)(samba_value, samba_value))
{
    if (samba_onnx_type_in(node, 0) != T(UINT64)) {
        fold_operands(node, combine, false);
        return;
    }
    const int64_t least = INT64_MIN;
    samba_value turn = samba_onnx_ints_value(node, 0, NULL, &least), first = samba_onnx_need(node, 0),
                result = samba_bitwise_xor(first, turn);
    for (int i = 1; i < node->input_count && !node->refused; i++) {
        samba_value other = samba_onnx_need(node, i), turned = samba_bitwise_xor(other, turn);
        result = combine(result, turned);
    }
    out_as_input(node, samba_bitwise_xor(result, turn), 0);
}

void samba_onnx_max(samba_onnx_node *node);
void samba_onnx_max(samba_onnx_node *node) { extremum(node, samba_maximum); }
void samba_onnx_min(samba_onnx_node *node);
void samba_onnx_min(samba_onnx_node *node) { extremum(node, samba_minimum); }
void samba_onnx_sum(samba_onnx_node *node);
void samba_onnx_sum(samba_onnx_node *node) { fold_operands(node, samba_add, false); }
void samba_onnx_mean(samba_onnx_node *node);
void samba_onnx_mean(samba_onnx_node *node) { fold_operands(node, samba_add, true); }

/* Bounds are attributes until version 10, then inputs. */
void samba_onnx_clip(samba_onnx_node *node);
void samba_onnx_clip(samba_onnx_node *node)
{
    const samba_value none = {NULL, 0, 0};
    samba_value a = samba_onnx_need(node, 0), min = none, max = none;
    if (node->version < 11) {
        double low = samba_onnx_float(node, "min", -INFINITY), high = samba_onnx_float(node, "max", INFINITY);
        if (low > -INFINITY)
            min = samba_onnx_like(node, low, a);
        if (high < INFINITY)
            max = samba_onnx_like(node, high, a);
    } else {
        min = samba_onnx_in(node, 1);
        max = samba_onnx_in(node, 2);
    }
    if (node->refused)
        return;
    out_as_input(node, min.graph || max.graph ? samba_clamp(a, min, max) : a, 0);
}

/* ---- casts ---- */

/* The lowest bits of numbers without their fractions, as ONNX casts to its integers of 4 and 2 bits, which bytes hold here. */
static samba_value keep_bits(samba_onnx_node *node, samba_value a, int bits, bool is_signed)
{
    const samba_value mask = samba_integer(node->graph, (1 << bits) - 1);
    const samba_value whole = samba_cast(a, SAMBA_INT64);
    const samba_value low = samba_bitwise_and(whole, mask);
    const samba_value sign = samba_integer(node->graph, 1 << (bits - 1));
    if (!is_signed)
        return low;
    const samba_value flipped = samba_bitwise_xor(low, sign);
    return samba_sub(flipped, sign);
}

static samba_value cast_to(samba_onnx_node *node, samba_value a, int32_t type)
{
    samba_dtype dtype = samba_onnx_dtype(type);
    if (dtype == SAMBA_DTYPE_COUNT)
        return onnx_refused(node, "%s is no dtype that SambaFlow has", samba_onnx_type_name(type));
    if (type == T(UINT16) || type == T(UINT32))
        return wrap(node, samba_cast(a, SAMBA_INT64), type);
    if (type == T(UINT4) || type == T(INT4) || type == T(UINT2) || type == T(INT2))
        a = keep_bits(node, a, type == T(UINT4) || type == T(INT4) ? 4 : 2, type == T(INT4) || type == T(INT2));
    return samba_cast(a, dtype);
}

static void cast(samba_onnx_node *node, int32_t type)
{
    static const char *const modes[] = {"up", "down", "nearest", NULL};
    samba_onnx_flag(node, "saturate", true); /* of 8-bit floats, which are refused */
    if (samba_onnx_attribute(node, "round_mode"))
        samba_onnx_choice(node, "round_mode", "up", modes); /* likewise */
    samba_value a = samba_onnx_need(node, 0);
    if (node->refused)
        return;
    samba_value result = cast_to(node, a, type);
    if (type == T(UINT16))
        result = samba_cast(result, SAMBA_INT32);
    samba_onnx_out(node, 0, result);
    samba_onnx_out_type(node, 0, type);
}

void samba_onnx_cast(samba_onnx_node *node);
void samba_onnx_cast(samba_onnx_node *node) { cast(node, (int32_t)samba_onnx_int(node, "to", 0)); }

void samba_onnx_cast_like(samba_onnx_node *node);
void samba_onnx_cast_like(samba_onnx_node *node)
{
    samba_value like = samba_onnx_need(node, 1);
    if (!node->refused)
        cast(node, samba_onnx_type_of(node, 1, like));
}
