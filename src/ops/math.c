/* SPDX-License-Identifier: Apache-2.0
 *
 * Functions of real numbers that the C library has and PyTorch too: logarithms and powers of other bases, circular and hyperbolic
 * functions and their inverses, atan2, hypot, copysign. Their values are the C library's, their gradients PyTorch's formulas.
 * What models meet more often (exp, log, tanh, erf ...) stands in map.c. */
#include "ops/families.h"
#include <math.h>

/* ---- values ---- */

samba_status samba_ref_exp2(const samba_reference *reference) { return samba_reference_of_one(reference, exp2); }
samba_status samba_ref_log2(const samba_reference *reference) { return samba_reference_of_one(reference, log2); }
samba_status samba_ref_log10(const samba_reference *reference) { return samba_reference_of_one(reference, log10); }
samba_status samba_ref_tan(const samba_reference *reference) { return samba_reference_of_one(reference, tan); }
samba_status samba_ref_asin(const samba_reference *reference) { return samba_reference_of_one(reference, asin); }
samba_status samba_ref_acos(const samba_reference *reference) { return samba_reference_of_one(reference, acos); }
samba_status samba_ref_atan(const samba_reference *reference) { return samba_reference_of_one(reference, atan); }
samba_status samba_ref_sinh(const samba_reference *reference) { return samba_reference_of_one(reference, sinh); }
samba_status samba_ref_cosh(const samba_reference *reference) { return samba_reference_of_one(reference, cosh); }
samba_status samba_ref_asinh(const samba_reference *reference) { return samba_reference_of_one(reference, asinh); }
samba_status samba_ref_acosh(const samba_reference *reference) { return samba_reference_of_one(reference, acosh); }
samba_status samba_ref_atanh(const samba_reference *reference) { return samba_reference_of_one(reference, atanh); }
samba_status samba_ref_erfc(const samba_reference *reference) { return samba_reference_of_one(reference, erfc); }
samba_status samba_ref_atan2(const samba_reference *reference) { return samba_reference_of_two(reference, atan2); }

static double lgamma_of(double x)
{
    int sign; /* lgamma would write a global one */
    return lgamma_r(x, &sign);
}

/* By the recurrence up to 24 and the asymptotic series; `way` 1: digamma, 2: trigamma. */
static double gamma_slope(long double x, int way)
{
    static const long double bernoulli[] = {1 / 6.0L,  -1 / 30.0L,     1 / 42.0L, -1 / 30.0L,
                                            5 / 66.0L, -691 / 2730.0L, 7 / 6.0L,  -3617 / 510.0L};
    const long double pi = 3.141592653589793238462643L;
    if (isinf(x))
        return x < 0 ? NAN : way == 1 ? INFINITY : 0;
    if (x < 0) {
        const long double rest = x - nearbyintl(x), sine = sinl(pi * rest);
        if (rest == 0)
            return way == 1 ? NAN : INFINITY;
        return way == 1 ? gamma_slope(1 - x, 1) - (double)(pi / tanl(pi * rest))
                        : (double)(pi * pi / (sine * sine)) - gamma_slope(1 - x, 2);
    }
    long double sum = 0;
    for (; x < 24; x += 1)
        sum += way == 1 ? -1 / x : 1 / (x * x);
    long double power = 1 / (x * x);
    sum += way == 1 ? logl(x) - 0.5L / x : 1 / x + 0.5L * power;
    for (int k = 0; k < 8; k++, power /= x * x)
        sum += way == 1 ? -bernoulli[k] / (2 * k + 2) * power : bernoulli[k] * power / x;
    return (double)sum;
}

static double digamma_of(double x) { return gamma_slope(x, 1); }
static double trigamma_of(double x) { return gamma_slope(x, 2); }
samba_status samba_ref_lgamma(const samba_reference *reference) { return samba_reference_of_one(reference, lgamma_of); }
samba_status samba_ref_digamma(const samba_reference *reference) { return samba_reference_of_one(reference, digamma_of); }
samba_status samba_ref_trigamma(const samba_reference *reference) { return samba_reference_of_one(reference, trigamma_of); }

static double frac(double x) { return x - trunc(x); }
samba_status samba_ref_frac(const samba_reference *reference) { return samba_reference_of_one(reference, frac); }
samba_status samba_ref_hypot(const samba_reference *reference) { return samba_reference_of_two(reference, hypot); }
samba_status samba_ref_copysign(const samba_reference *reference) { return samba_reference_of_two(reference, copysign); }

/* ---- gradients ---- */

static samba_ref mul(samba_vjp *vjp, samba_ref a, samba_ref b) { return samba_emit2(vjp->graph, SAMBA_OP_mul, a, b); }
static samba_ref divide(samba_vjp *vjp, samba_ref a, samba_ref b) { return samba_emit2(vjp->graph, SAMBA_OP_div, a, b); }
static samba_ref neg(samba_vjp *vjp, samba_ref a) { return samba_emit1(vjp->graph, SAMBA_OP_neg, a); }
static samba_ref scale(samba_vjp *vjp, samba_ref a, double by) { return samba_emit_scalar(vjp->graph, SAMBA_OP_mul, a, by); }
static samba_ref plus(samba_vjp *vjp, samba_ref a, double b) { return samba_emit_scalar(vjp->graph, SAMBA_OP_add, a, b); }
static samba_ref input(samba_vjp *vjp, int i) { return samba_emit_lift(vjp->graph, vjp->inputs[i]); }

/* `slope`, a value in the dtype formulas are computed in, times the result's gradient. */
static samba_status along(samba_vjp *vjp, int i, samba_ref slope)
{
    return samba_vjp_deliver(vjp, i, mul(vjp, samba_emit_lift(vjp->graph, vjp->gradient), slope));
}

/* The result's gradient over `steepness`. */
static samba_status against(samba_vjp *vjp, int i, samba_ref steepness)
{
    return samba_vjp_deliver(vjp, i, divide(vjp, samba_emit_lift(vjp->graph, vjp->gradient), steepness));
}

samba_status samba_vjp_exp2(samba_vjp *vjp) { return along(vjp, 0, scale(vjp, samba_emit_lift(vjp->graph, vjp->output), M_LN2)); }
samba_status samba_vjp_log2(samba_vjp *vjp) { return against(vjp, 0, scale(vjp, input(vjp, 0), M_LN2)); }
samba_status samba_vjp_frac(samba_vjp *vjp) { return samba_vjp_deliver(vjp, 0, vjp->gradient); }
/* as PyTorch */
samba_status samba_vjp_log10(samba_vjp *vjp) { return against(vjp, 0, scale(vjp, input(vjp, 0), 2.3025850929940456)); }

samba_status samba_vjp_tan(samba_vjp *vjp)
{
    samba_ref y = samba_emit_lift(vjp->graph, vjp->output);
    return along(vjp, 0, plus(vjp, mul(vjp, y, y), 1));
}

/* 1 / sqrt(`sign` x^2 + `constant`), times `by` */
static samba_status over_root(samba_vjp *vjp, double by, double sign, double constant)
{
    samba_ref x = input(vjp, 0), square = mul(vjp, x, x);
    samba_ref root = samba_emit1(vjp->graph, SAMBA_OP_rsqrt, plus(vjp, sign < 0 ? neg(vjp, square) : square, constant));
    return along(vjp, 0, by < 0 ? neg(vjp, root) : root);
}

samba_status samba_vjp_asin(samba_vjp *vjp) { return over_root(vjp, 1, -1, 1); }
samba_status samba_vjp_acos(samba_vjp *vjp) { return over_root(vjp, -1, -1, 1); }
samba_status samba_vjp_asinh(samba_vjp *vjp) { return over_root(vjp, 1, 1, 1); }
samba_status samba_vjp_acosh(samba_vjp *vjp) { return over_root(vjp, 1, 1, -1); }

samba_status samba_vjp_atan(samba_vjp *vjp)
{
    samba_ref x = input(vjp, 0);
    return against(vjp, 0, plus(vjp, mul(vjp, x, x), 1));
}

samba_status samba_vjp_atanh(samba_vjp *vjp)
{
    samba_ref x = input(vjp, 0);
    return against(vjp, 0, plus(vjp, neg(vjp, mul(vjp, x, x)), 1));
}

samba_status samba_vjp_lgamma(samba_vjp *vjp) { return along(vjp, 0, samba_emit1(vjp->graph, SAMBA_OP_digamma, input(vjp, 0))); }
samba_status samba_vjp_digamma(samba_vjp *vjp)
{
    return along(vjp, 0, samba_emit1(vjp->graph, SAMBA_OP_trigamma, input(vjp, 0)));
}
samba_status samba_vjp_sinh(samba_vjp *vjp) { return along(vjp, 0, samba_emit1(vjp->graph, SAMBA_OP_cosh, input(vjp, 0))); }
samba_status samba_vjp_cosh(samba_vjp *vjp) { return along(vjp, 0, samba_emit1(vjp->graph, SAMBA_OP_sinh, input(vjp, 0))); }

samba_status samba_vjp_erfc(samba_vjp *vjp)
{
    samba_ref x = input(vjp, 0), bell = samba_emit1(vjp->graph, SAMBA_OP_exp, neg(vjp, mul(vjp, x, x)));
    return along(vjp, 0, scale(vjp, bell, -M_2_SQRTPI));
}

/* d atan2(a, b) = (b da - a db) / (a^2 + b^2) */
samba_status samba_vjp_atan2(samba_vjp *vjp)
{
    samba_ref a = input(vjp, 0), b = input(vjp, 1);
    samba_ref square_b = mul(vjp, b, b), square = samba_emit2(vjp->graph, SAMBA_OP_add, mul(vjp, a, a), square_b);
    if (vjp->needed[0])
        along(vjp, 0, divide(vjp, b, square));
    if (vjp->needed[1])
        along(vjp, 1, divide(vjp, neg(vjp, a), square));
    return SAMBA_OK;
}

samba_status samba_vjp_hypot(samba_vjp *vjp)
{
    samba_ref y = samba_emit_lift(vjp->graph, vjp->output);
    for (int i = 0; i < 2; i++)
        if (vjp->needed[i])
            along(vjp, i, divide(vjp, input(vjp, i), y));
    return SAMBA_OK;
}

/* The sign that a changed by; a 0 has none. */
samba_status samba_vjp_copysign(samba_vjp *vjp)
{
    samba_graph *graph = vjp->graph;
    if (!vjp->needed[0])
        return SAMBA_OK;
    samba_ref after = samba_emit1(graph, SAMBA_OP_sign, vjp->output);
    samba_ref slope = mul(vjp, samba_emit1(graph, SAMBA_OP_sign, vjp->inputs[0]), after);
    return samba_vjp_deliver(vjp, 0, mul(vjp, vjp->gradient, slope));
}

/* ---- entr: -x log(x), 0 at 0, -infinity below ---- */

samba_ref samba_expand_entr(samba_graph *graph, const samba_node *node, const samba_ref *inputs)
{
    samba_dtype dtype = node->dtype;
    samba_ref x = samba_emit_lift(graph, inputs[0]);
    samba_ref term = samba_emit1(graph, SAMBA_OP_neg, samba_emit2(graph, SAMBA_OP_mul, x, samba_emit1(graph, SAMBA_OP_log, x)));
    samba_ref none = samba_emit_constant(graph, 0, samba_ref_dtype(graph, x));
    term = samba_emit3(graph, SAMBA_OP_where, samba_emit_scalar(graph, SAMBA_OP_eq, x, 0), none, term);
    samba_ref below = samba_emit_constant(graph, -INFINITY, samba_ref_dtype(graph, x));
    return samba_emit_cast(graph, samba_emit3(graph, SAMBA_OP_where, samba_emit_scalar(graph, SAMBA_OP_lt, x, 0), below, term),
                           dtype);
}

/* -log(x) - 1; infinite at 0, NaN below, which the logarithm is by itself */
samba_status samba_vjp_entr(samba_vjp *vjp)
{
    return along(vjp, 0, neg(vjp, plus(vjp, samba_emit1(vjp->graph, SAMBA_OP_log, input(vjp, 0)), 1)));
}

static double entr(double x) { return x < 0 ? -INFINITY : x == 0 ? 0 : -x * log(x); }
samba_status samba_ref_entr(const samba_reference *reference) { return samba_reference_of_one(reference, entr); }
