/* SPDX-License-Identifier: Apache-2.0
 *
 * logit and softplus; gelu in both of PyTorch's forms: x times the normal distribution function of x, by erf or by its tanh
 * approximation (Hendrycks and Gimpel 2016); silu; mish. The values and gradients of the last three are one operator each: out of
 * parts gelu would take ten, and a transformer spends as much time here as in a sixth of its products.
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

/* ---- logit: log(x / (1 - x)), and near 1/2, where it is near 0, log(1 + (2x - 1) / (1 - x)), whose numerator is exact;
 * in double for all ---- */

samba_ref samba_expand_logit(samba_graph *graph, const samba_node *node, const samba_ref *inputs)
{
    samba_dtype dtype = node->dtype;
    samba_ref x = samba_emit_cast(graph, inputs[0], SAMBA_FLOAT64);
    samba_ref other = samba_emit_scalar(graph, SAMBA_OP_add, samba_emit1(graph, SAMBA_OP_neg, x), 1);
    samba_ref far = samba_emit1(graph, SAMBA_OP_log, samba_emit2(graph, SAMBA_OP_div, x, other));
    if (dtype != SAMBA_FLOAT64) /* has digits enough */
        return samba_emit_cast(graph, far, dtype);
    samba_ref over = samba_emit_scalar(graph, SAMBA_OP_add, samba_emit2(graph, SAMBA_OP_add, x, x), -1);
    samba_ref away = samba_emit1(graph, SAMBA_OP_abs, over);
    samba_ref near = samba_emit1(graph, SAMBA_OP_log1p, samba_emit2(graph, SAMBA_OP_div, over, other));
    return samba_emit3(graph, SAMBA_OP_where, samba_emit_scalar(graph, SAMBA_OP_lt, away, 0.5), near, far);
}

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
