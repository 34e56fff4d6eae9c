/* SPDX-License-Identifier: Apache-2.0
 *
 * Formulas of one operand and of two real numbers (those that are one operator: operators.c). What PyTorch computes in floating
 * point takes integers as float32. */
#include "trace/promote.h"

#include <sambaflow/elementwise.h>
#include <math.h>
#include <stdlib.h>

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
    return samba_trace_result(graph, E1(frac, x), samba_value_dtype(a));
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

samba_value samba_polygamma(samba_value a, int n)
{
    samba_graph *graph;
    samba_ref x;
    if (!samba_trace_as_floating("polygamma", a, &graph, &x))
        return samba_trace_none(graph);
    samba_dtype dtype = samba_dtype_is_floating_point(samba_value_dtype(a)) ? samba_value_dtype(a) : SAMBA_FLOAT32;
    if (n != 0 && n != 1)
        return samba_trace_fail(graph, SAMBA_ERROR_UNSUPPORTED, "polygamma", "supported are n of 0 and 1, given %d", n);
    return samba_trace_result(graph, n == 0 ? E1(digamma, x) : E1(trigamma, x), dtype);
}

/* ---- two real numbers ---- */

samba_value samba_xlogy(samba_value a, samba_value b)
{
    samba_graph *graph;
    samba_dtype dtype;
    if (!samba_trace_promote_floating("xlogy", 2, (samba_value[]){a, b}, &graph, &dtype))
        return samba_trace_none(graph);
    SAMBA_SPEAKS(graph, "xlogy");
    samba_dtype in = samba_compute_dtype(dtype);
    samba_ref x = samba_trace_operand(a, in), y = samba_trace_operand(b, in), zero = CONSTANT(0, x);
    samba_ref below = EN(lt, y, INFINITY), finite = E2(mul, E2(gt, y, zero), below), number = E2(eq, y, y);
    samba_ref not_finite = E1(logical_not, finite), is_zero = E2(eq, x, zero);
    samba_ref nothing = E2(mul, E2(mul, is_zero, number), not_finite); /* where 0 log(b) would be NaN */
    samba_ref product = E2(mul, x, E1(log, E3(where, nothing, CONSTANT(1, x), y)));
    /* 0 log(0.5) is 0, not -0, with the same slope */
    product = E3(where, is_zero, E2(add, product, E1(abs, x)), product);
    return samba_trace_result(graph, E3(where, nothing, zero, product), dtype);
}
