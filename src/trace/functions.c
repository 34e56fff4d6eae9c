/* SPDX-License-Identifier: Apache-2.0
 *
 * Functions of one operand, and those of two real numbers. What PyTorch computes in floating point takes integers as float32. */
#include "trace/promote.h"

#include <sambaflow/elementwise.h>
#include <math.h>
#include <stdlib.h>

/* ---- one operator ---- */

static samba_value unary(samba_op op, samba_value a)
{
    samba_graph *graph;
    if (!samba_trace_enter(samba_op_table[op].name, 1, &a, &graph))
        return samba_trace_none(graph);
    return samba_trace_value(graph, samba_emit1(graph, op, a.index));
}

/* Integers and bool become float32 first. */
static samba_value unary_floating(samba_op op, samba_value a)
{
    samba_graph *graph;
    if (!samba_trace_enter(samba_op_table[op].name, 1, &a, &graph))
        return samba_trace_none(graph);
    if (!samba_dtype_is_floating_point(samba_value_dtype(a)))
        a.index = samba_emit_cast(graph, a.index, SAMBA_FLOAT32);
    return samba_trace_value(graph, samba_emit1(graph, op, a.index));
}

samba_value samba_neg(samba_value a) { return unary(SAMBA_OP_neg, a); }
samba_value samba_abs(samba_value a) { return unary(SAMBA_OP_abs, a); }
samba_value samba_sign(samba_value a) { return unary(SAMBA_OP_sign, a); }
samba_value samba_floor(samba_value a) { return unary(SAMBA_OP_floor, a); }
samba_value samba_ceil(samba_value a) { return unary(SAMBA_OP_ceil, a); }
samba_value samba_trunc(samba_value a) { return unary(SAMBA_OP_trunc, a); }
samba_value samba_round(samba_value a) { return unary(SAMBA_OP_round, a); }
samba_value samba_detach(samba_value a) { return unary(SAMBA_OP_detach, a); }
samba_value samba_sqrt(samba_value a) { return unary_floating(SAMBA_OP_sqrt, a); }
samba_value samba_rsqrt(samba_value a) { return unary_floating(SAMBA_OP_rsqrt, a); }
samba_value samba_reciprocal(samba_value a) { return unary_floating(SAMBA_OP_reciprocal, a); }
samba_value samba_exp(samba_value a) { return unary_floating(SAMBA_OP_exp, a); }
samba_value samba_exp2(samba_value a) { return unary_floating(SAMBA_OP_exp2, a); }
samba_value samba_expm1(samba_value a) { return unary_floating(SAMBA_OP_expm1, a); }
samba_value samba_log(samba_value a) { return unary_floating(SAMBA_OP_log, a); }
samba_value samba_log2(samba_value a) { return unary_floating(SAMBA_OP_log2, a); }
samba_value samba_log10(samba_value a) { return unary_floating(SAMBA_OP_log10, a); }
samba_value samba_log1p(samba_value a) { return unary_floating(SAMBA_OP_log1p, a); }
samba_value samba_sin(samba_value a) { return unary_floating(SAMBA_OP_sin, a); }
samba_value samba_cos(samba_value a) { return unary_floating(SAMBA_OP_cos, a); }
samba_value samba_tan(samba_value a) { return unary_floating(SAMBA_OP_tan, a); }
samba_value samba_asin(samba_value a) { return unary_floating(SAMBA_OP_asin, a); }
samba_value samba_acos(samba_value a) { return unary_floating(SAMBA_OP_acos, a); }
samba_value samba_atan(samba_value a) { return unary_floating(SAMBA_OP_atan, a); }
samba_value samba_sinh(samba_value a) { return unary_floating(SAMBA_OP_sinh, a); }
samba_value samba_cosh(samba_value a) { return unary_floating(SAMBA_OP_cosh, a); }
samba_value samba_tanh(samba_value a) { return unary_floating(SAMBA_OP_tanh, a); }
samba_value samba_asinh(samba_value a) { return unary_floating(SAMBA_OP_asinh, a); }
samba_value samba_acosh(samba_value a) { return unary_floating(SAMBA_OP_acosh, a); }
samba_value samba_atanh(samba_value a) { return unary_floating(SAMBA_OP_atanh, a); }
samba_value samba_erf(samba_value a) { return unary_floating(SAMBA_OP_erf, a); }
samba_value samba_erfc(samba_value a) { return unary_floating(SAMBA_OP_erfc, a); }
samba_value samba_sigmoid(samba_value a) { return unary_floating(SAMBA_OP_sigmoid, a); }

samba_value samba_cast(samba_value a, samba_dtype dtype)
{
    samba_graph *graph;
    if (!samba_trace_enter("cast", 1, &a, &graph))
        return samba_trace_none(graph);
    return samba_trace_value(graph, samba_emit_cast(graph, a.index, dtype));
}

/* ---- formulas ---- */

samba_value samba_square(samba_value a) { return samba_pow(a, samba_integer(a.graph, 2)); }

samba_value samba_frac(samba_value a)
{
    samba_graph *graph;
    samba_ref x;
    if (!samba_trace_floating("frac", a, &graph, &x))
        return samba_trace_none(graph);
    return samba_trace_result(graph, E2(sub, x, E1(trunc, x)), samba_value_dtype(a));
}

samba_value samba_round_decimals(samba_value a, int decimals)
{
    samba_graph *graph;
    samba_ref x;
    if (decimals == 0)
        return samba_round(a);
    if (!samba_trace_floating("round", a, &graph, &x))
        return samba_trace_none(graph);
    double unit = pow(10, abs(decimals));
    samba_ref whole = E1(round, decimals > 0 ? EN(mul, x, unit) : EN(div, x, unit));
    return samba_trace_result(graph, decimals > 0 ? EN(div, whole, unit) : EN(mul, whole, unit), samba_value_dtype(a));
}

samba_value samba_logit(samba_value a, double eps)
{
    samba_graph *graph;
    samba_ref x;
    if (!samba_trace_as_floating("logit", a, &graph, &x))
        return samba_trace_none(graph);
    samba_dtype dtype = samba_dtype_is_floating_point(samba_value_dtype(a)) ? samba_value_dtype(a) : SAMBA_FLOAT32;
    if (eps >= 0)
        x = EN(clamp_max, EN(clamp_min, x, eps), 1 - eps);
    return samba_trace_result(graph, E1(logit, x), dtype);
}

/* ---- two real numbers ---- */

/* An operator of two operands, as floating-point. */
static samba_value binary_floating(samba_op op, samba_value a, samba_value b)
{
    samba_graph *graph;
    samba_dtype dtype;
    if (!samba_trace_promote_floating(samba_op_table[op].name, 2, (samba_value[]){a, b}, &graph, &dtype))
        return samba_trace_none(graph);
    return samba_trace_value(graph, samba_emit2(graph, op, samba_trace_operand(a, dtype), samba_trace_operand(b, dtype)));
}

samba_value samba_atan2(samba_value a, samba_value b) { return binary_floating(SAMBA_OP_atan2, a, b); }
samba_value samba_hypot(samba_value a, samba_value b) { return binary_floating(SAMBA_OP_hypot, a, b); }
samba_value samba_copysign(samba_value a, samba_value b) { return binary_floating(SAMBA_OP_copysign, a, b); }

/* max(a, b) + log(1 + exp(-|a - b|)); equal ones, infinite ones among them, have no distance. */
samba_value samba_logaddexp(samba_value a, samba_value b)
{
    samba_graph *graph;
    samba_dtype dtype;
    if (!samba_trace_promote_floating("logaddexp", 2, (samba_value[]){a, b}, &graph, &dtype))
        return samba_trace_none(graph);
    SAMBA_SPEAKS(graph, "logaddexp");
    samba_dtype in = samba_compute_dtype(dtype);
    samba_ref x = samba_trace_operand(a, in), y = samba_trace_operand(b, in);
    samba_ref distance = E3(where, E2(eq, x, y), CONSTANT(0, x), E2(sub, x, y));
    samba_ref rest = E1(log1p, E1(exp, E1(neg, E1(abs, distance))));
    return samba_trace_result(graph, E2(add, E2(maximum, x, y), rest), dtype);
}

samba_value samba_xlogy(samba_value a, samba_value b)
{
    samba_graph *graph;
    samba_dtype dtype;
    if (!samba_trace_promote_floating("xlogy", 2, (samba_value[]){a, b}, &graph, &dtype))
        return samba_trace_none(graph);
    SAMBA_SPEAKS(graph, "xlogy");
    samba_dtype in = samba_compute_dtype(dtype);
    samba_ref x = samba_trace_operand(a, in), y = samba_trace_operand(b, in), zero = CONSTANT(0, x);
    samba_ref finite = E2(mul, E2(gt, y, zero), EN(lt, y, INFINITY)), number = E2(eq, y, y);
    samba_ref nothing = E2(mul, E2(mul, E2(eq, x, zero), number), E1(logical_not, finite)); /* where 0 log(b) would be NaN */
    return samba_trace_result(graph, E3(where, nothing, zero, E2(mul, x, E1(log, E3(where, nothing, CONSTANT(1, x), y)))), dtype);
}
