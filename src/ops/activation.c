/* SPDX-License-Identifier: Apache-2.0
 *
 * logit, softplus, softsign, the shrinks, leaky_relu, logaddexp, hardswish; gelu in both of PyTorch's forms: x times the normal
 * distribution function of x, by erf or by its tanh approximation (Hendrycks and Gimpel 2016); silu; mish. What is one operator
 * here is one pass: out of parts gelu would take ten, and a transformer spends as much time here as in a sixth of its products.
 * The gradient operators take x and the result's gradient. */
#include "ops/families.h"
#include <math.h>

#define SQRT_1_2 0.707106781186547524400844362104849039L
#define INVERSE_SQRT_2PI 0.398942280401432677939946059934381868L
#define SQRT_2_OVER_PI 0.797884560802865355879892119868763737L
#define CUBIC 0.044715L

static samba_status times_gradient(const samba_reference *reference, double (*slope)(double))
{
    const samba_array *x = &reference->inputs[0], *g = &reference->inputs[1], *y = reference->output;
    for (int64_t i = 0; i < y->numel; i++)
        samba_array_set_double(y, i,
                               slope(samba_array_double(x, samba_broadcast_offset(x, y, i))) *
                                   samba_array_double(g, samba_broadcast_offset(g, y, i)));
    return SAMBA_OK;
}

static samba_status differentiate(samba_vjp *vjp, samba_op op)
{
    return samba_vjp_deliver(vjp, 0, samba_emit2(vjp->graph, op, vjp->inputs[0], vjp->gradient));
}

/* ---- gelu: x (1 + erf(x / sqrt 2)) / 2 ---- */

/* In long double: a last digit of x is x^2 of the result where that is small. */
static long double normal_cdf(long double x) { return erfcl(-x * SQRT_1_2) / 2; }
static double gelu(double x) { return (double)(x * normal_cdf(x)); }
static double gelu_slope(double x)
{
    long double wide = x;
    return (double)(normal_cdf(wide) + wide * expl(-wide * wide / 2) * INVERSE_SQRT_2PI);
}

samba_status samba_ref_gelu(const samba_reference *reference) { return samba_reference_of_one(reference, gelu); }
samba_status samba_ref_gelu_grad(const samba_reference *reference) { return times_gradient(reference, gelu_slope); }
samba_status samba_vjp_gelu(samba_vjp *vjp) { return differentiate(vjp, SAMBA_OP_gelu_grad); }

/* ---- gelu_tanh: x (1 + tanh(sqrt(2/pi) (x + c x^3))) / 2 ---- */

/* (1 + tanh y) / 2 = 1 / (1 + e^-2y); in long double, as a last digit of 2y is 700 of the result where that is least */
static long double bent_sigmoid(long double x) { return 1 / (1 + expl(-2 * SQRT_2_OVER_PI * (x + CUBIC * x * x * x))); }
static double gelu_tanh(double x) { return (double)(x * bent_sigmoid(x)); }
static double gelu_tanh_slope(double x)
{
    long double wide = x, s = bent_sigmoid(wide);
    return (double)(s + wide * s * bent_sigmoid(-wide) * 2 * SQRT_2_OVER_PI * (1 + 3 * CUBIC * wide * wide));
}

samba_status samba_ref_gelu_tanh(const samba_reference *reference) { return samba_reference_of_one(reference, gelu_tanh); }
samba_status samba_ref_gelu_tanh_grad(const samba_reference *reference) { return times_gradient(reference, gelu_tanh_slope); }
samba_status samba_vjp_gelu_tanh(samba_vjp *vjp) { return differentiate(vjp, SAMBA_OP_gelu_tanh_grad); }

/* ---- silu: x sigmoid(x) ---- */

static double sigmoid(double x) { return x < 0 ? exp(x) / (1 + exp(x)) : 1 / (1 + exp(-x)); }
static double silu(double x) { return x * sigmoid(x); }
static double silu_slope(double x) { return sigmoid(x) * (1 + x * sigmoid(-x)); }
samba_status samba_ref_silu(const samba_reference *reference) { return samba_reference_of_one(reference, silu); }
samba_status samba_ref_silu_grad(const samba_reference *reference) { return times_gradient(reference, silu_slope); }
samba_status samba_vjp_silu(samba_vjp *vjp) { return differentiate(vjp, SAMBA_OP_silu_grad); }

/* ---- mish: x tanh(log(1 + e^x)) ---- */

static double softplus(double x) { return fmax(x, 0) + log1p(exp(-fabs(x))); }
static double mish(double x) { return x * tanh(softplus(x)); }
static double mish_slope(double x)
{
    double t = tanh(softplus(x)), over = 1 / cosh(softplus(x));
    return t + x * sigmoid(x) * over * over; /* 1 - t^2 */
}

samba_status samba_ref_mish(const samba_reference *reference) { return samba_reference_of_one(reference, mish); }
samba_status samba_ref_mish_grad(const samba_reference *reference) { return times_gradient(reference, mish_slope); }
samba_status samba_vjp_mish(samba_vjp *vjp) { return differentiate(vjp, SAMBA_OP_mish_grad); }

/* ---- hardswish: x times (x + 3) / 6 of x between -3 and 3; -infinity makes NaN ---- */

static double hardswish(double x) { return x * ((x <= -3 ? 0 : x >= 3 ? 6 : x + 3) / 6); }
static double hardswish_slope(double x) { return x <= -3 ? 0 : x >= 3 ? 1 : (2 * x + 3) / 6; }
samba_status samba_ref_hardswish(const samba_reference *reference) { return samba_reference_of_one(reference, hardswish); }
samba_status samba_ref_hardswish_grad(const samba_reference *reference) { return times_gradient(reference, hardswish_slope); }
samba_status samba_vjp_hardswish(samba_vjp *vjp) { return differentiate(vjp, SAMBA_OP_hardswish_grad); }

/* ---- softsign: x / (1 + |x|) ---- */

static double softsign(double x) { return x / (1 + fabs(x)); }
samba_status samba_ref_softsign(const samba_reference *reference) { return samba_reference_of_one(reference, softsign); }
samba_status samba_vjp_softsign(samba_vjp *vjp)
{
    samba_graph *graph = vjp->graph;
    samba_ref g = samba_emit_lift(graph, vjp->gradient), x = samba_emit_lift(graph, vjp->inputs[0]);
    samba_ref sum = samba_emit_scalar(graph, SAMBA_OP_add, samba_emit1(graph, SAMBA_OP_abs, x), 1);
    return samba_vjp_deliver(vjp, 0, samba_emit2(graph, SAMBA_OP_div, g, samba_emit2(graph, SAMBA_OP_mul, sum, sum)));
}

/* ---- leaky_relu, and prelu: x, of negative ones x b ---- */

static double leaky_relu(double x, double b) { return x > 0 ? x : x * b; }
samba_status samba_ref_leaky_relu(const samba_reference *reference) { return samba_reference_of_two(reference, leaky_relu); }
samba_status samba_vjp_leaky_relu(samba_vjp *vjp)
{
    samba_graph *graph = vjp->graph;
    samba_ref above = samba_emit_scalar(graph, SAMBA_OP_gt, vjp->inputs[0], 0), g = samba_emit_lift(graph, vjp->gradient);
    for (int i = 0; i < 2; i++) {
        if (!vjp->needed[i])
            continue;
        samba_ref below = samba_emit2(graph, SAMBA_OP_mul, g, samba_emit_lift(graph, vjp->inputs[1 - i]));
        samba_ref there = i == 0 ? g : samba_emit_constant(graph, 0, samba_ref_dtype(graph, g));
        SAMBA_TRY(samba_vjp_deliver(vjp, i, samba_emit3(graph, SAMBA_OP_where, above, there, below)));
    }
    return SAMBA_OK;
}

/* ---- hardshrink and softshrink: 0 between -b and b, with no gradient; else x, or x nearer to 0 by b ---- */

static double hardshrink(double x, double b) { return fabs(x) <= b ? 0 : x; }
samba_status samba_ref_hardshrink(const samba_reference *reference) { return samba_reference_of_two(reference, hardshrink); }

static double softshrink(double x, double b) { return x > b ? x - b : x < -b ? x + b : x * 0; }
samba_status samba_ref_softshrink(const samba_reference *reference) { return samba_reference_of_two(reference, softshrink); }

/* `far`, or 0 where x is within -b to b */
static samba_ref outside(samba_vjp *vjp, samba_ref far)
{
    samba_graph *graph = vjp->graph;
    samba_ref near = samba_emit2(graph, SAMBA_OP_le, samba_emit1(graph, SAMBA_OP_abs, vjp->inputs[0]), vjp->inputs[1]);
    samba_ref none = samba_emit_constant(graph, 0, samba_ref_dtype(graph, far));
    return samba_emit3(graph, SAMBA_OP_where, near, none, far);
}

samba_status samba_vjp_hardshrink(samba_vjp *vjp)
{
    return vjp->needed[0] ? samba_vjp_deliver(vjp, 0, outside(vjp, vjp->gradient)) : SAMBA_OK;
}

samba_status samba_vjp_softshrink(samba_vjp *vjp)
{
    samba_graph *graph = vjp->graph;
    if (vjp->needed[0])
        SAMBA_TRY(samba_vjp_deliver(vjp, 0, outside(vjp, vjp->gradient)));
    if (!vjp->needed[1])
        return SAMBA_OK;
    samba_ref above = samba_emit2(graph, SAMBA_OP_gt, vjp->inputs[0], vjp->inputs[1]);
    samba_ref less = samba_emit1(graph, SAMBA_OP_neg, vjp->gradient), more = outside(vjp, vjp->gradient);
    return samba_vjp_deliver(vjp, 1, samba_emit3(graph, SAMBA_OP_where, above, less, more));
}

/* ---- logaddexp: max(a, b) + log(1 + exp(-|a - b|)); equal ones, infinite ones among them, have no distance ---- */

static double logaddexp(double a, double b)
{
    double distance = a == b ? 0 : a - b;
    return (a > b || a != a ? a : b) + log1p(exp(-fabs(distance)));
}
samba_status samba_ref_logaddexp(const samba_reference *reference) { return samba_reference_of_two(reference, logaddexp); }

/* sigmoid(a - b) and sigmoid(b - a) */
samba_status samba_vjp_logaddexp(samba_vjp *vjp)
{
    samba_graph *graph = vjp->graph;
    samba_ref g = samba_emit_lift(graph, vjp->gradient);
    samba_ref a = samba_emit_lift(graph, vjp->inputs[0]), b = samba_emit_lift(graph, vjp->inputs[1]);
    samba_ref none = samba_emit_constant(graph, 0, samba_ref_dtype(graph, a)), equal = samba_emit2(graph, SAMBA_OP_eq, a, b);
    samba_ref distance = samba_emit3(graph, SAMBA_OP_where, equal, none, samba_emit2(graph, SAMBA_OP_sub, a, b));
    for (int i = 0; i < 2; i++) {
        samba_ref along = i == 0 ? distance : samba_emit1(graph, SAMBA_OP_neg, distance);
        if (vjp->needed[i])
            SAMBA_TRY(
                samba_vjp_deliver(vjp, i, samba_emit2(graph, SAMBA_OP_mul, g, samba_emit1(graph, SAMBA_OP_sigmoid, along))));
    }
    return SAMBA_OK;
}

/* ---- tanhshrink: x - tanh(x), which have most digits in common near 0 ---- */

/* Where x is below 1, in all digits of double:
 * (x cosh(x) - sinh(x)) / cosh(x), whose numerator is the sum of x^(2k + 1) 2k / (2k + 1)!. */
static samba_ref small_tanhshrink(samba_graph *graph, samba_ref x)
{
    samba_ref square = samba_emit2(graph, SAMBA_OP_mul, x, x), sum = samba_emit_constant(graph, 0, SAMBA_FLOAT64);
    for (int k = 10; k >= 1; k--)
        sum = samba_emit_scalar(graph, SAMBA_OP_add, samba_emit2(graph, SAMBA_OP_mul, sum, square), 2 * k / tgamma(2 * k + 2));
    samba_ref cosh_x = samba_emit1(graph, SAMBA_OP_cosh, x);
    return samba_emit2(graph, SAMBA_OP_div, samba_emit2(graph, SAMBA_OP_mul, samba_emit2(graph, SAMBA_OP_mul, x, square), sum),
                       cosh_x);
}

/* Of other dtypes double has digits enough, and nearer still a series, x^3/3 - 2/15 x^5 + 17/315 x^7. */
samba_ref samba_expand_tanhshrink(samba_graph *graph, const samba_node *node, const samba_ref *inputs)
{
    bool wide = node->dtype == SAMBA_FLOAT64;
    samba_ref x = samba_emit_cast(graph, inputs[0], SAMBA_FLOAT64), none = samba_emit_constant(graph, 0, SAMBA_FLOAT64);
    samba_ref far = samba_emit2(graph, SAMBA_OP_sub, x, samba_emit1(graph, SAMBA_OP_tanh, x));
    samba_ref close = samba_emit_scalar(graph, SAMBA_OP_lt, samba_emit1(graph, SAMBA_OP_abs, x), wide ? 1 : 0.015625);
    samba_ref small = samba_emit3(graph, SAMBA_OP_where, close, x, none), square = samba_emit2(graph, SAMBA_OP_mul, small, small);
    samba_ref series;
    if (wide) {
        series = small_tanhshrink(graph, small);
    } else {
        samba_ref factor =
            samba_emit_scalar(graph, SAMBA_OP_add, samba_emit_scalar(graph, SAMBA_OP_mul, square, 17.0 / 315), -2.0 / 15);
        factor = samba_emit_scalar(graph, SAMBA_OP_add, samba_emit2(graph, SAMBA_OP_mul, square, factor), 1.0 / 3);
        series = samba_emit2(graph, SAMBA_OP_mul, samba_emit2(graph, SAMBA_OP_mul, small, square), factor);
    }
    return samba_emit_cast(graph, samba_emit3(graph, SAMBA_OP_where, close, series, far), node->dtype);
}

/* tanh(x)^2 */
samba_status samba_vjp_tanhshrink(samba_vjp *vjp)
{
    samba_graph *graph = vjp->graph;
    samba_ref g = samba_emit_lift(graph, vjp->gradient), x = samba_emit_lift(graph, vjp->inputs[0]);
    samba_ref t = samba_emit1(graph, SAMBA_OP_tanh, x);
    return samba_vjp_deliver(vjp, 0, samba_emit2(graph, SAMBA_OP_mul, g, samba_emit2(graph, SAMBA_OP_mul, t, t)));
}

static double tanhshrink(double x)
{
    double sum = 0;
    for (int k = 10; k >= 1; k--)
        sum = sum * x * x + 2 * k / tgamma(2 * k + 2);
    return fabs(x) < 1 ? x * x * x * sum / cosh(x) : x - tanh(x);
}
samba_status samba_ref_tanhshrink(const samba_reference *reference) { return samba_reference_of_one(reference, tanhshrink); }

/* ---- logit: log(x / (1 - x)), and near 1/2, where it is near 0, log(1 + (2x - 1) / (1 - x)), whose numerator is exact ---- */

/* 1 / (x (1 - x)); NaN outside of 0 to 1 */
samba_status samba_vjp_logit(samba_vjp *vjp)
{
    samba_graph *graph = vjp->graph;
    samba_ref g = samba_emit_lift(graph, vjp->gradient), x = samba_emit_lift(graph, vjp->inputs[0]);
    samba_ref product =
        samba_emit2(graph, SAMBA_OP_mul, x, samba_emit_scalar(graph, SAMBA_OP_add, samba_emit1(graph, SAMBA_OP_neg, x), 1));
    samba_ref outside = samba_emit_scalar(graph, SAMBA_OP_lt, product, 0),
              nan = samba_emit_constant(graph, NAN, samba_ref_dtype(graph, x));
    return samba_vjp_deliver(vjp, 0,
                             samba_emit2(graph, SAMBA_OP_div, g, samba_emit3(graph, SAMBA_OP_where, outside, nan, product)));
}

static double logit(double x) { return fabs(2 * x - 1) < 0.5 ? log1p((2 * x - 1) / (1 - x)) : log(x / (1 - x)); }
samba_status samba_ref_logit(const samba_reference *reference) { return samba_reference_of_one(reference, logit); }

/* ---- softplus: log(1 + e^x), which rises as its two steps do; x where e^-x is less than a digit of it ---- */

samba_ref samba_expand_softplus(samba_graph *graph, const samba_node *node, const samba_ref *inputs)
{
    samba_dtype dtype = node->dtype;
    samba_ref x = samba_emit_lift(graph, inputs[0]);
    samba_ref far = samba_emit_scalar(graph, SAMBA_OP_gt, x, samba_ref_dtype(graph, x) == SAMBA_FLOAT64 ? 40 : 20);
    samba_ref near = samba_emit1(graph, SAMBA_OP_log1p, samba_emit1(graph, SAMBA_OP_exp, x));
    return samba_emit_cast(graph, samba_emit3(graph, SAMBA_OP_where, far, x, near), dtype);
}

samba_status samba_vjp_softplus(samba_vjp *vjp)
{
    samba_graph *graph = vjp->graph;
    samba_ref g = samba_emit_lift(graph, vjp->gradient), x = samba_emit_lift(graph, vjp->inputs[0]);
    return samba_vjp_deliver(vjp, 0, samba_emit2(graph, SAMBA_OP_mul, g, samba_emit1(graph, SAMBA_OP_sigmoid, x)));
}

samba_status samba_ref_softplus(const samba_reference *reference) { return samba_reference_of_one(reference, softplus); }
