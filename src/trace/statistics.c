/* SPDX-License-Identifier: Apache-2.0
 *
 * Reductions made of others: variances, norms, sums without NaN or over exponentials. 16-bit floats are computed in float32
 * throughout and rounded once. Where a formula's slope is infinite or undefined, gradients are what PyTorch takes there. */
#include "trace/reduction.h"

#include <math.h>
#include <sambaflow/elementwise.h>
#include <sambaflow/reduce.h>

static samba_ref scalar(samba_graph *g, samba_op op, samba_ref a, double number) { return samba_emit_scalar(g, op, a, number); }

static samba_ref constant_like(samba_graph *g, samba_ref a, double number)
{
    return samba_emit_constant(g, number, a == SAMBA_NONE ? SAMBA_FLOAT32 : (samba_dtype)samba_node_at(g, a)->dtype);
}

/* a, but `other` where the condition is true */
static samba_ref but_where(samba_graph *g, samba_ref condition, samba_ref a, double other)
{
    return samba_emit3(g, SAMBA_OP_where, condition, constant_like(g, a, other), a);
}

samba_ref samba_trace_root(samba_graph *g, samba_ref a)
{
    samba_ref none = scalar(g, SAMBA_OP_eq, a, 0);
    return but_where(g, none, samba_emit1(g, SAMBA_OP_sqrt, but_where(g, none, a, 1)), 0);
}

/* ---- variances ---- */

static samba_value variance(const char *what, bool deviation, samba_value a, int count, const int *dims, double correction,
                            bool keepdim, samba_value *mean)
{
    samba_graph *g;
    samba_reduced_dims to;
    samba_value none = {0};
    *(mean ? mean : &none) = none;
    if (!samba_reduction_enter(what, a, count, dims, keepdim, &g, &to) || !samba_trace_need_floating(a, what))
        return samba_trace_none(g);
    samba_dtype dtype = samba_value_dtype(a);
    samba_ref x = samba_trace_lift(a);
    samba_ref middle = samba_reduction_emit(g, SAMBA_OP_sum, x, &to);
    if (to.count > 0) /* divided: the mean of equal whole numbers is that number */
        middle = scalar(g, SAMBA_OP_div, middle, (double)to.numel);
    samba_ref centred = samba_emit2(g, SAMBA_OP_sub, x, middle);
    samba_ref total = samba_reduction_emit(g, SAMBA_OP_sum, samba_emit2(g, SAMBA_OP_mul, centred, centred), &to);
    samba_ref result = scalar(g, SAMBA_OP_div, total, fmax(0, (double)to.numel - correction)); /* 0/0 is NaN, as PyTorch's */
    if (deviation)
        result = samba_trace_root(g, result);
    if (mean)
        *mean = samba_reduction_leave(g, &to, samba_emit_cast(g, middle, dtype));
    return samba_reduction_leave(g, &to, samba_emit_cast(g, result, dtype));
}

samba_value samba_var(samba_value a, int count, const int *dims, double correction, bool keepdim)
{
    return variance("var", false, a, count, dims, correction, keepdim, NULL);
}

samba_value samba_std(samba_value a, int count, const int *dims, double correction, bool keepdim)
{
    return variance("std", true, a, count, dims, correction, keepdim, NULL);
}

samba_value samba_var_mean(samba_value a, int count, const int *dims, double correction, bool keepdim, samba_value *mean)
{
    return variance("var_mean", false, a, count, dims, correction, keepdim, mean);
}

samba_value samba_std_mean(samba_value a, int count, const int *dims, double correction, bool keepdim, samba_value *mean)
{
    return variance("std_mean", true, a, count, dims, correction, keepdim, mean);
}

/* ---- without NaN ---- */

static samba_ref without_nan(samba_graph *g, samba_ref a) { return but_where(g, samba_emit2(g, SAMBA_OP_ne, a, a), a, 0); }

samba_value samba_nansum(samba_value a, int count, const int *dims, bool keepdim)
{
    samba_graph *g;
    samba_reduced_dims to;
    if (!samba_reduction_enter("nansum", a, count, dims, keepdim, &g, &to))
        return samba_trace_none(g);
    if (!samba_dtype_is_floating_point(samba_value_dtype(a)))
        return samba_sum(a, count, dims, keepdim);
    return samba_reduction_leave(g, &to, samba_reduction_emit(g, SAMBA_OP_sum, without_nan(g, a.index), &to));
}

samba_value samba_nanmean(samba_value a, int count, const int *dims, bool keepdim)
{
    samba_graph *g;
    samba_reduced_dims to;
    if (!samba_reduction_enter("nanmean", a, count, dims, keepdim, &g, &to) || !samba_trace_need_floating(a, "nanmean"))
        return samba_trace_none(g);
    samba_dtype dtype = samba_value_dtype(a);
    samba_ref x = samba_trace_lift(a);
    samba_ref sum = samba_reduction_emit(g, SAMBA_OP_sum, without_nan(g, x), &to);
    samba_ref there =
        samba_emit_cast(g, samba_emit2(g, SAMBA_OP_eq, x, x), x == SAMBA_NONE ? dtype : (samba_dtype)samba_node_at(g, x)->dtype);
    samba_ref mean = samba_emit2(g, SAMBA_OP_div, sum, samba_reduction_emit(g, SAMBA_OP_sum, there, &to));
    return samba_reduction_leave(g, &to, samba_emit_cast(g, mean, dtype));
}

/* ---- norms ---- */

/* x^p of x >= 0. Where x is 0 the slope is infinite for p < 1; norms take 0 there, as PyTorch does. */
static samba_ref power(samba_graph *g, samba_ref x, double p)
{
    if (p >= 1)
        return scalar(g, SAMBA_OP_pow, x, p);
    if (p == 0.5)
        return samba_trace_root(g, x);
    samba_ref none = scalar(g, SAMBA_OP_eq, x, 0);
    return but_where(g, none, scalar(g, SAMBA_OP_pow, but_where(g, none, x, 1), p), p > 0 ? 0 : INFINITY);
}

samba_value samba_vector_norm(samba_value a, double p, int count, const int *dims, bool keepdim)
{
    samba_graph *g;
    samba_reduced_dims to;
    if (!samba_reduction_enter("vector_norm", a, count, dims, keepdim, &g, &to) || !samba_trace_need_floating(a, "vector_norm"))
        return samba_trace_none(g);
    if (isnan(p))
        return samba_trace_fail(g, SAMBA_ERROR_ARGUMENT, "vector_norm",
                                "the order p is NaN; expected a number, INFINITY or -INFINITY");
    if (to.numel == 0 && (p < 0 || p == INFINITY))
        return samba_trace_fail(g, SAMBA_ERROR_SHAPE, "vector_norm",
                                "order %g of no elements is not defined; give a dim with elements", p);
    samba_dtype dtype = samba_value_dtype(a);
    samba_ref x = samba_trace_lift(a), norm;
    if (p == 0) {
        samba_ref counted =
            samba_emit_cast(g, scalar(g, SAMBA_OP_ne, x, 0), x == SAMBA_NONE ? dtype : (samba_dtype)samba_node_at(g, x)->dtype);
        norm = samba_reduction_emit(g, SAMBA_OP_sum, counted, &to);
    } else if (isinf(p)) {
        norm = samba_reduction_emit(g, p > 0 ? SAMBA_OP_amax : SAMBA_OP_amin, samba_emit1(g, SAMBA_OP_abs, x), &to);
    } else if (p == 1) {
        norm = samba_reduction_emit(g, SAMBA_OP_sum, samba_emit1(g, SAMBA_OP_abs, x), &to);
    } else if (p == 2) {
        norm = samba_trace_root(g, samba_reduction_emit(g, SAMBA_OP_sum, samba_emit2(g, SAMBA_OP_mul, x, x), &to));
    } else {
        norm = power(g, samba_reduction_emit(g, SAMBA_OP_sum, power(g, samba_emit1(g, SAMBA_OP_abs, x), p), &to), 1 / p);
    }
    return samba_reduction_leave(g, &to, samba_emit_cast(g, norm, dtype));
}

/* ---- exponentials ---- */

/* From the greatest, through which no gradient flows: it cancels. */
samba_value samba_logsumexp(samba_value a, int count, const int *dims, bool keepdim)
{
    samba_graph *g;
    samba_reduced_dims to;
    if (!samba_reduction_enter("logsumexp", a, count, dims, keepdim, &g, &to))
        return samba_trace_none(g);
    samba_dtype dtype = samba_value_dtype(a);
    if (!samba_dtype_is_floating_point(dtype))
        a = samba_cast(a, dtype = SAMBA_FLOAT32);
    if (to.numel == 0)
        return samba_trace_value(g, samba_emit_expand(g, samba_emit_constant(g, -INFINITY, dtype), to.rank, to.shape));
    samba_ref x = samba_trace_lift(a);
    samba_ref greatest = samba_reduction_emit(g, SAMBA_OP_amax, samba_emit1(g, SAMBA_OP_detach, x), &to);
    samba_ref infinite = scalar(g, SAMBA_OP_eq, samba_emit1(g, SAMBA_OP_abs, greatest), INFINITY);
    greatest = but_where(g, infinite, greatest, 0);
    samba_ref total =
        samba_reduction_emit(g, SAMBA_OP_sum, samba_emit1(g, SAMBA_OP_exp, samba_emit2(g, SAMBA_OP_sub, x, greatest)), &to);
    samba_ref result = samba_emit2(g, SAMBA_OP_add, samba_emit1(g, SAMBA_OP_log, total), greatest);
    return samba_reduction_leave(g, &to, samba_emit_cast(g, result, dtype));
}
