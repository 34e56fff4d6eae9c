/* SPDX-License-Identifier: Apache-2.0
 *
 * Arithmetic, comparisons, logic and choice. Operators of the graph take one dtype, so promotion happens here (promote.h):
 * operands are cast to what torch.result_type says, then the operator broadcasts them. */
#include "trace/promote.h"

#include <sambaflow/elementwise.h>
#include <math.h>

/* `expected`, and what was given */
static samba_value fail(samba_graph *graph, const char *what, const char *expected, samba_dtype given)
{
    return samba_trace_fail(graph, SAMBA_ERROR_DTYPE, what, "expected %s, given %s; cast it first", expected,
                            samba_dtype_name(given));
}

/* ---- arithmetic ---- */

/* The dtype in which arithmetic on operands that meet in `dtype` computes. A number beside 16-bit floats, or a value of rank 0
 * with more digits, is not rounded first: the sum is, once. */
static samba_dtype arithmetic_dtype(int count, const samba_value *values, samba_dtype dtype)
{
    for (int i = 0; i < count; i++)
        if (values[i].number || samba_value_dtype(values[i]) != dtype)
            return samba_compute_dtype(dtype);
    return dtype;
}

/* As PyTorch; the cast would hide a bool from inference. */
static bool refuse_bool(samba_graph *graph, samba_value a, samba_value b)
{
    if (samba_value_dtype(a) != SAMBA_BOOL && samba_value_dtype(b) != SAMBA_BOOL)
        return false;
    samba_graph_fail_at(graph, SAMBA_ERROR_DTYPE, "sub", "bool values cannot be subtracted, given %s and %s; cast them first",
                        samba_dtype_name(samba_value_dtype(a)), samba_dtype_name(samba_value_dtype(b)));
    return true;
}

static samba_value arithmetic(samba_op op, samba_value a, samba_value b)
{
    const samba_value values[] = {a, b};
    samba_graph *graph;
    samba_dtype dtype;
    bool meet = (op == SAMBA_OP_div ? samba_trace_promote_floating : samba_trace_promote)(samba_op_table[op].name, 2, values,
                                                                                          &graph, &dtype);
    if (!meet || (op == SAMBA_OP_sub && refuse_bool(graph, a, b)))
        return samba_trace_none(graph);
    samba_dtype in = arithmetic_dtype(2, values, dtype);
    samba_ref y = samba_trace_operand(b, in), x = samba_trace_operand(a, in);
    return samba_trace_result(graph, samba_emit2(graph, op, x, y), dtype);
}

samba_value samba_add(samba_value a, samba_value b) { return arithmetic(SAMBA_OP_add, a, b); }
samba_value samba_sub(samba_value a, samba_value b) { return arithmetic(SAMBA_OP_sub, a, b); }
samba_value samba_mul(samba_value a, samba_value b) { return arithmetic(SAMBA_OP_mul, a, b); }
samba_value samba_div(samba_value a, samba_value b) { return arithmetic(SAMBA_OP_div, a, b); }

static bool is_floating(samba_value a) { return samba_dtype_is_floating_point(samba_value_dtype(a)); }

/* A factor beside integers must be one. */
static bool check_factor(samba_graph *graph, const char *what, const char *name, samba_value factor, samba_dtype dtype)
{
    if (samba_dtype_is_floating_point(dtype) || !is_floating(factor))
        return true;
    return samba_graph_refuse(graph, SAMBA_ERROR_DTYPE, what, "%s must be an integer beside %s values, given %s", name,
                              samba_dtype_name(dtype), samba_dtype_name(samba_value_dtype(factor)));
}

static samba_value with_alpha(samba_op op, samba_value a, samba_value b, samba_value alpha)
{
    const char *what = samba_op_table[op].name;
    samba_graph *graph;
    samba_dtype dtype;
    if (!samba_trace_enter(what, 3, (samba_value[]){a, b, alpha}, &graph) ||
        !samba_trace_promote(what, 2, (samba_value[]){a, b}, &graph, &dtype) ||
        (op == SAMBA_OP_sub && refuse_bool(graph, a, b)) || !check_factor(graph, what, "alpha", alpha, dtype))
        return samba_trace_none(graph);
    samba_dtype in = samba_compute_dtype(dtype);
    samba_ref factor = samba_trace_operand(alpha, in), y = samba_trace_operand(b, in), scaled = E2(mul, y, factor);
    return samba_trace_result(graph, samba_emit2(graph, op, samba_trace_operand(a, in), scaled), dtype);
}

samba_value samba_add_alpha(samba_value a, samba_value b, samba_value alpha) { return with_alpha(SAMBA_OP_add, a, b, alpha); }
samba_value samba_sub_alpha(samba_value a, samba_value b, samba_value alpha) { return with_alpha(SAMBA_OP_sub, a, b, alpha); }

static samba_value quotient(samba_op op, samba_value a, samba_value b)
{
    samba_graph *graph;
    samba_dtype dtype;
    double divisor;
    if (!samba_trace_promote(samba_op_table[op].name, 2, (samba_value[]){a, b}, &graph, &dtype))
        return samba_trace_none(graph);
    if (!samba_dtype_is_floating_point(dtype) && samba_trace_known(b, &divisor) && samba_trace_held(divisor, dtype) == 0)
        return samba_trace_fail(graph, SAMBA_ERROR_ARGUMENT, samba_op_table[op].name,
                                "an integer cannot be divided by 0, given %s by %g", samba_dtype_name(dtype), divisor);
    return samba_trace_promoted(op, a, b);
}

samba_value samba_floor_divide(samba_value a, samba_value b) { return quotient(SAMBA_OP_floor_divide, a, b); }
samba_value samba_trunc_divide(samba_value a, samba_value b) { return quotient(SAMBA_OP_trunc_divide, a, b); }
samba_value samba_remainder(samba_value a, samba_value b) { return quotient(SAMBA_OP_remainder, a, b); }
samba_value samba_fmod(samba_value a, samba_value b) { return quotient(SAMBA_OP_fmod, a, b); }

/* Powers that a product or a root gives, with the digits and gradients that PyTorch's have; SAMBA_NONE for others. */
static samba_ref simple_power(samba_graph *graph, samba_ref x, double exponent, bool floating)
{
    samba_ref square = SAMBA_NONE;
    if (exponent == 2 || exponent == 3 || exponent == -2)
        square = E2(mul, x, x);
    if (exponent == 1)
        return x;
    if (exponent == 2)
        return square;
    if (exponent == 3)
        return E2(mul, square, x);
    if (!floating)
        return SAMBA_NONE;
    return exponent == 0.5    ? E1(sqrt, x)
           : exponent == -0.5 ? E1(rsqrt, x)
           : exponent == -1   ? E1(reciprocal, x)
           : exponent == -2   ? E1(reciprocal, square)
                              : SAMBA_NONE;
}

samba_value samba_pow(samba_value a, samba_value b)
{
    samba_graph *graph;
    samba_dtype dtype;
    double exponent;
    if (!samba_trace_promote("pow", 2, (samba_value[]){a, b}, &graph, &dtype))
        return samba_trace_none(graph);
    if (!samba_trace_known(b, &exponent))
        return arithmetic(SAMBA_OP_pow, a, b);
    bool floating = samba_dtype_is_floating_point(dtype);
    if (!floating && exponent < 0)
        return samba_trace_fail(graph, SAMBA_ERROR_ARGUMENT, "pow",
                                "integers have no negative powers, given %s to the %g; cast them to a floating-point dtype",
                                samba_dtype_name(dtype), exponent);
    if (dtype != SAMBA_BOOL) {
        samba_ref power = simple_power(graph, samba_trace_operand(a, samba_compute_dtype(dtype)), exponent, floating);
        if (power != SAMBA_NONE)
            return samba_trace_result(graph, power, dtype);
    }
    return arithmetic(SAMBA_OP_pow, a, b);
}

samba_value samba_add_scalar(samba_value a, double b) { return samba_add(a, samba_number(a.graph, b)); }
samba_value samba_mul_scalar(samba_value a, double b) { return samba_mul(a, samba_number(a.graph, b)); }
samba_value samba_pow_scalar(samba_value a, double b) { return samba_pow(a, samba_number(a.graph, b)); }

samba_value samba_addcmul(samba_value a, samba_value b, samba_value c, samba_value value)
{
    samba_graph *graph;
    samba_dtype dtype;
    if (!samba_trace_enter("addcmul", 4, (samba_value[]){a, b, c, value}, &graph) ||
        !samba_trace_promote("addcmul", 3, (samba_value[]){a, b, c}, &graph, &dtype) ||
        !check_factor(graph, "addcmul", "value", value, dtype))
        return samba_trace_none(graph);
    SAMBA_SPEAKS(graph, "addcmul");
    samba_dtype in = samba_compute_dtype(dtype);
    samba_ref y = samba_trace_operand(b, in), factor = samba_trace_operand(value, in), scaled = E2(mul, factor, y);
    samba_ref product = E2(mul, scaled, samba_trace_operand(c, in)), x = samba_trace_operand(a, in);
    return samba_trace_result(graph, E2(add, x, product), dtype);
}

samba_value samba_addcdiv(samba_value a, samba_value b, samba_value c, samba_value value)
{
    samba_graph *graph;
    samba_dtype dtype;
    if (!samba_trace_enter("addcdiv", 4, (samba_value[]){a, b, c, value}, &graph) ||
        !samba_trace_promote("addcdiv", 3, (samba_value[]){a, b, c}, &graph, &dtype))
        return samba_trace_none(graph);
    SAMBA_SPEAKS(graph, "addcdiv");
    if (!samba_dtype_is_floating_point(dtype))
        return fail(graph, "addcdiv", "floating-point values", dtype);
    samba_dtype in = samba_compute_dtype(dtype);
    samba_ref y = samba_trace_operand(b, in), factor = samba_trace_operand(value, in), scaled = E2(mul, factor, y);
    samba_ref quotient = E2(div, scaled, samba_trace_operand(c, in)), x = samba_trace_operand(a, in);
    return samba_trace_result(graph, E2(add, x, quotient), dtype);
}

samba_value samba_lerp(samba_value a, samba_value b, samba_value weight)
{
    samba_graph *graph;
    samba_dtype dtype;
    if (!samba_trace_promote("lerp", 3, (samba_value[]){a, b, weight}, &graph, &dtype))
        return samba_trace_none(graph);
    SAMBA_SPEAKS(graph, "lerp");
    if (!is_floating(a) || !is_floating(b))
        return fail(graph, "lerp", "floating-point values", samba_value_dtype(is_floating(a) ? b : a));
    samba_dtype in = samba_compute_dtype(dtype);
    samba_ref x = samba_trace_operand(a, in), y = samba_trace_operand(b, in), w = samba_trace_operand(weight, in);
    return samba_trace_result(graph, E3(lerp, x, y, w), dtype);
}

/* ---- comparisons ---- */

samba_value samba_isnan(samba_value a)
{
    samba_graph *graph;
    if (!samba_trace_enter("isnan", 1, &a, &graph))
        return samba_trace_none(graph);
    return samba_trace_value(graph, E2(ne, a.index, a.index));
}

/* Compared with infinity in the dtype of the value; integers and bool are finite. */
static samba_value against_infinity(const char *what, samba_op op, samba_op of_integers, samba_value a)
{
    samba_graph *graph;
    if (!samba_trace_enter(what, 1, &a, &graph))
        return samba_trace_none(graph);
    if (!is_floating(a))
        return samba_trace_value(graph, samba_emit2(graph, of_integers, a.index, a.index));
    return samba_trace_value(graph, samba_emit_scalar(graph, op, E1(abs, a.index), INFINITY));
}

samba_value samba_isinf(samba_value a) { return against_infinity("isinf", SAMBA_OP_eq, SAMBA_OP_ne, a); }
samba_value samba_isfinite(samba_value a) { return against_infinity("isfinite", SAMBA_OP_lt, SAMBA_OP_eq, a); }

samba_value samba_isclose(samba_value a, samba_value b, double rtol, double atol, bool equal_nan)
{
    samba_graph *graph;
    if (!samba_trace_enter("isclose", 2, (samba_value[]){a, b}, &graph))
        return samba_trace_none(graph);
    SAMBA_SPEAKS(graph, "isclose");
    samba_dtype dtype = samba_value_dtype(a), other = samba_value_dtype(b);
    if (dtype != other || !(rtol >= 0) || !(atol >= 0))
        return samba_trace_fail(graph, SAMBA_ERROR_ARGUMENT, "isclose",
                                "expected values of one dtype and tolerances of 0 or more, given %s and %s, rtol %g, atol %g",
                                samba_dtype_name(dtype), samba_dtype_name(other), rtol, atol);
    samba_dtype in = samba_dtype_is_floating_point(dtype) ? samba_compute_dtype(dtype) : SAMBA_FLOAT64;
    samba_ref x = samba_emit_cast(graph, a.index, in), y = samba_emit_cast(graph, b.index, in);
    samba_ref distance = E1(abs, E2(sub, x, y)), allowed = EN(add, E1(abs, EN(mul, y, rtol)), atol);
    samba_ref within = E2(le, distance, allowed), finite = EN(lt, distance, INFINITY);
    samba_ref near = E2(mul, finite, within); /* of bools: and; add: or */
    samba_ref close = E2(add, E2(eq, a.index, b.index), near);
    if (equal_nan) {
        samba_ref other_nan = E2(ne, y, y), nan = E2(ne, x, x);
        close = E2(add, close, E2(mul, nan, other_nan));
    }
    return samba_trace_value(graph, close);
}

/* ---- logic and bits: of bools, add is "or" and mul "and" ---- */

static samba_value logical(const char *what, samba_op op, samba_value a, samba_value b)
{
    samba_graph *graph;
    if (!samba_trace_enter(what, 2, (samba_value[]){a, b}, &graph))
        return samba_trace_none(graph);
    SAMBA_SPEAKS(graph, what);
    samba_ref y = samba_emit_cast(graph, b.index, SAMBA_BOOL), x = samba_emit_cast(graph, a.index, SAMBA_BOOL);
    return samba_trace_value(graph, samba_emit2(graph, op, x, y));
}

samba_value samba_logical_and(samba_value a, samba_value b) { return logical("logical_and", SAMBA_OP_mul, a, b); }
samba_value samba_logical_or(samba_value a, samba_value b) { return logical("logical_or", SAMBA_OP_add, a, b); }
samba_value samba_logical_xor(samba_value a, samba_value b) { return logical("logical_xor", SAMBA_OP_ne, a, b); }

samba_value samba_logical_not(samba_value a)
{
    samba_graph *graph;
    if (!samba_trace_enter("logical_not", 1, &a, &graph))
        return samba_trace_none(graph);
    return samba_trace_value(graph, E1(logical_not, samba_emit_cast(graph, a.index, SAMBA_BOOL)));
}

static samba_value bits(samba_op op, samba_op of_bools, samba_value a, samba_value b)
{
    samba_graph *graph;
    samba_dtype dtype;
    if (!samba_trace_promote(samba_op_table[op].name, 2, (samba_value[]){a, b}, &graph, &dtype))
        return samba_trace_none(graph);
    return dtype == SAMBA_BOOL ? samba_trace_promoted(of_bools, a, b) : samba_trace_promoted(op, a, b);
}

samba_value samba_bitwise_and(samba_value a, samba_value b) { return bits(SAMBA_OP_bitwise_and, SAMBA_OP_mul, a, b); }
samba_value samba_bitwise_or(samba_value a, samba_value b) { return bits(SAMBA_OP_bitwise_or, SAMBA_OP_add, a, b); }
samba_value samba_bitwise_xor(samba_value a, samba_value b) { return bits(SAMBA_OP_bitwise_xor, SAMBA_OP_ne, a, b); }

samba_value samba_bitwise_not(samba_value a)
{
    samba_graph *graph;
    if (!samba_trace_enter("bitwise_not", 1, &a, &graph))
        return samba_trace_none(graph);
    return samba_trace_value(graph, samba_value_dtype(a) == SAMBA_BOOL ? E1(logical_not, a.index) : E1(bitwise_not, a.index));
}

/* ---- choice ---- */

static bool need_bool(const char *what, const char *argument, samba_value value)
{
    samba_dtype dtype = samba_value_dtype(value);
    if (dtype != SAMBA_BOOL)
        samba_graph_fail_at(value.graph, SAMBA_ERROR_DTYPE, what,
                            "the %s must be bool, given %s; compare it with a number, or cast it", argument,
                            samba_dtype_name(dtype));
    return dtype == SAMBA_BOOL;
}

samba_value samba_where(samba_value condition, samba_value a, samba_value b)
{
    samba_graph *graph;
    samba_dtype dtype;
    if (!samba_trace_enter("where", 3, (samba_value[]){condition, a, b}, &graph) || !need_bool("where", "condition", condition) ||
        !samba_trace_promote("where", 2, (samba_value[]){a, b}, &graph, &dtype))
        return samba_trace_none(graph);
    samba_ref y = samba_trace_operand(b, dtype), x = samba_trace_operand(a, dtype);
    return samba_trace_value(graph, E3(where, condition.index, x, y));
}

samba_value samba_masked_fill(samba_value a, samba_value mask, samba_value value)
{
    samba_graph *graph;
    if (!samba_trace_enter("masked_fill", 3, (samba_value[]){a, mask, value}, &graph))
        return samba_trace_none(graph);
    SAMBA_SPEAKS(graph, "masked_fill");
    const samba_node *node = samba_node_at(graph, value.index);
    if (node->rank != 0)
        return samba_trace_fail(graph, SAMBA_ERROR_SHAPE, "masked_fill", "expected a value of rank 0, given %s",
                                SAMBA_TYPE_OF(node));
    if (!need_bool("masked_fill", "mask", mask))
        return samba_trace_none(graph);
    return samba_trace_value(graph, E3(where, mask.index, samba_trace_operand(value, samba_value_dtype(a)), a.index));
}

/* Whether `wins` says so, or b is NaN: a; else b. */
static samba_value without_nan(const char *what, samba_op wins, samba_value a, samba_value b)
{
    samba_graph *graph;
    samba_dtype dtype;
    if (!samba_trace_promote(what, 2, (samba_value[]){a, b}, &graph, &dtype))
        return samba_trace_none(graph);
    SAMBA_SPEAKS(graph, what);
    samba_ref x = samba_trace_operand(a, dtype), y = samba_trace_operand(b, dtype);
    samba_ref other_nan = E2(ne, y, y), won = samba_emit2(graph, wins, x, y);
    return samba_trace_value(graph, E3(where, E2(add, won, other_nan), x, y));
}

samba_value samba_fmax(samba_value a, samba_value b) { return without_nan("fmax", SAMBA_OP_ge, a, b); }
samba_value samba_fmin(samba_value a, samba_value b) { return without_nan("fmin", SAMBA_OP_le, a, b); }

/* A bound that an integer dtype cannot hold would wrap to another one. */
static bool check_bound(samba_graph *graph, const char *name, samba_value bound, samba_dtype dtype)
{
    double number;
    if (!bound.graph || samba_dtype_is_floating_point(dtype) || !samba_trace_known(bound, &number) ||
        samba_trace_held(number, dtype) == number)
        return true;
    return samba_graph_refuse(graph, SAMBA_ERROR_ARGUMENT, "clamp", "%s %g is no value of %s, the dtype of the result", name,
                              number, samba_dtype_name(dtype));
}

samba_value samba_clamp(samba_value a, samba_value min, samba_value max)
{
    samba_graph *graph;
    if (!samba_trace_enter_optional("clamp", 3, (samba_value[]){a, min, max}, &graph))
        return samba_trace_none(graph);
    SAMBA_SPEAKS(graph, "clamp");
    samba_dtype dtype = samba_trace_result_type(3, (samba_value[]){a, min, max});
    if (!min.graph && !max.graph)
        return samba_trace_fail(graph, SAMBA_ERROR_ARGUMENT, "clamp", "a least or a greatest value is needed, given neither");
    if (dtype == SAMBA_BOOL)
        return fail(graph, "clamp", "integers or floating-point", dtype);
    if (!check_bound(graph, "min", min, dtype) || !check_bound(graph, "max", max, dtype))
        return samba_trace_none(graph);
    samba_ref x = samba_trace_operand(a, dtype);
    if (min.graph)
        x = E2(clamp_min, x, samba_trace_operand(min, dtype));
    if (max.graph)
        x = E2(clamp_max, x, samba_trace_operand(max, dtype));
    return samba_trace_value(graph, x);
}

static double greatest(samba_dtype dtype)
{
    return dtype == SAMBA_FLOAT16    ? 65504.0
           : dtype == SAMBA_BFLOAT16 ? 0x1.FEp127
           : dtype == SAMBA_FLOAT32  ? 0x1.FFFFFEp127
                                     : 0x1.FFFFFFFFFFFFFp1023;
}

samba_value samba_nan_to_num(samba_value a, double nan, const double *posinf, const double *neginf)
{
    samba_graph *graph;
    if (!samba_trace_enter("nan_to_num", 1, &a, &graph) || !is_floating(a))
        return a;
    samba_ref x = a.index;
    double most = greatest(samba_value_dtype(a));
    samba_ref high = CONSTANT(posinf ? *posinf : most, x), low = CONSTANT(neginf ? *neginf : -most, x);
    samba_ref above = posinf ? EN(eq, x, INFINITY) : E2(gt, x, high), finite = E3(where, above, high, x);
    samba_ref below = neginf ? EN(eq, x, -INFINITY) : E2(lt, x, low);
    finite = E3(where, below, low, finite);
    samba_ref number = CONSTANT(nan, x), is_nan = E2(ne, x, x);
    return samba_trace_value(graph, E3(where, is_nan, number, finite));
}

samba_value samba_heaviside(samba_value a, samba_value values)
{
    samba_graph *graph;
    samba_dtype dtype;
    if (!samba_trace_promote("heaviside", 2, (samba_value[]){a, values}, &graph, &dtype))
        return samba_trace_none(graph);
    SAMBA_SPEAKS(graph, "heaviside");
    samba_ref x = samba_trace_operand(a, dtype), step = samba_emit_cast(graph, E2(gt, x, CONSTANT(0, x)), dtype);
    samba_ref at_zero = samba_trace_operand(values, dtype), is_zero = E2(eq, x, CONSTANT(0, x));
    return samba_trace_value(graph, E3(where, is_zero, at_zero, step));
}
