/* SPDX-License-Identifier: Apache-2.0
 *
 * logit and softplus; gelu in both of PyTorch's forms: x times the normal distribution function of x, by erf or by its tanh approximation
 * (Hendrycks and Gimpel 2016); silu; mish. The values and gradients of the last three are one operator each: out of parts gelu would take
 * ten, and a transformer spends as much time here as in a sixth of its products. The gradient operators take x and the result's gradient. */
#include "ops/families.h"
#include <math.h>

#define INVERSE_SQRT_2PI (M_2_SQRTPI * M_SQRT1_2 / 2)
#define SQRT_2_OVER_PI (M_2_SQRTPI * M_SQRT1_2)
#define CUBIC 0.044715

static samba_status of_one(const samba_reference *reference, double (*f)(double))
{
    for (int64_t i = 0; i < reference->output->numel; i++)
        samba_array_set_double(reference->output, i, f(samba_array_double(&reference->inputs[0], i)));
    return SAMBA_OK;
}

static samba_status times_gradient(const samba_reference *reference, double (*slope)(double))
{
    const samba_array *x = &reference->inputs[0], *g = &reference->inputs[1], *y = reference->output;
    for (int64_t i = 0; i < y->numel; i++)
        samba_array_set_double(y, i, slope(samba_array_double(x, samba_broadcast_offset(x, y, i))) *
                                         samba_array_double(g, samba_broadcast_offset(g, y, i)));
    return SAMBA_OK;
}

static samba_status differentiate(samba_vjp *vjp, samba_op op)
{
    samba_vjp_deliver(vjp, 0, samba_emit2(vjp->graph, op, vjp->inputs[0], vjp->gradient));
    return SAMBA_OK;
}

/* ---- gelu: x (1 + erf(x / sqrt 2)) / 2 ---- */

static double normal_cdf(double x) { return 0.5 * erfc(-x * M_SQRT1_2); }
static double gelu(double x) { return x * normal_cdf(x); }
static double gelu_slope(double x) { return normal_cdf(x) + x * exp(-0.5 * x * x) * INVERSE_SQRT_2PI; }

samba_status samba_ref_gelu(const samba_reference *reference) { return of_one(reference, gelu); }
samba_status samba_ref_gelu_grad(const samba_reference *reference) { return times_gradient(reference, gelu_slope); }
samba_status samba_vjp_gelu(samba_vjp *vjp) { return differentiate(vjp, SAMBA_OP_gelu_grad); }

/* ---- gelu_tanh: x (1 + tanh(sqrt(2/pi) (x + c x^3))) / 2 ---- */

static double bent_tanh(double x) { return tanh(SQRT_2_OVER_PI * (x + CUBIC * x * x * x)); }
static double gelu_tanh(double x) { return x / (1 + exp(-2 * SQRT_2_OVER_PI * (x + CUBIC * x * x * x))); } /* (1 + tanh y) / 2 = 1 / (1 + e^-2y) */
static double gelu_tanh_slope(double x)
{
    double t = bent_tanh(x);
    return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * SQRT_2_OVER_PI * (1 + 3 * CUBIC * x * x);
}

samba_status samba_ref_gelu_tanh(const samba_reference *reference) { return of_one(reference, gelu_tanh); }
samba_status samba_ref_gelu_tanh_grad(const samba_reference *reference) { return times_gradient(reference, gelu_tanh_slope); }
samba_status samba_vjp_gelu_tanh(samba_vjp *vjp) { return differentiate(vjp, SAMBA_OP_gelu_tanh_grad); }

/* ---- silu: x sigmoid(x) ---- */

static double sigmoid(double x) { return x < 0 ? exp(x) / (1 + exp(x)) : 1 / (1 + exp(-x)); }
static double silu(double x) { return x * sigmoid(x); }
static double silu_slope(double x) { return sigmoid(x) * (1 + x * (1 - sigmoid(x))); }

samba_status samba_ref_silu(const samba_reference *reference) { return of_one(reference, silu); }
samba_status samba_ref_silu_grad(const samba_reference *reference) { return times_gradient(reference, silu_slope); }
samba_status samba_vjp_silu(samba_vjp *vjp) { return differentiate(vjp, SAMBA_OP_silu_grad); }

/* ---- mish: x tanh(log(1 + e^x)) ---- */

static double softplus(double x) { return fmax(x, 0) + log1p(exp(-fabs(x))); }
static double mish(double x) { return x * tanh(softplus(x)); }
static double mish_slope(double x)
{
    double t = tanh(softplus(x));
    return t + x * sigmoid(x) * (1 - t * t);
}

samba_status samba_ref_mish(const samba_reference *reference) { return of_one(reference, mish); }
samba_status samba_ref_mish_grad(const samba_reference *reference) { return times_gradient(reference, mish_slope); }
samba_status samba_vjp_mish(samba_vjp *vjp) { return differentiate(vjp, SAMBA_OP_mish_grad); }

/* ---- logit: log(x / (1 - x)), and near 1/2, where it is near 0, log(1 + (2x - 1) / (1 - x)), whose numerator is exact ---- */

samba_ref samba_expand_logit(samba_graph *graph, const samba_node *node, const samba_ref *inputs)
{
    samba_dtype dtype = (samba_dtype)node->dtype;
    samba_ref x = samba_emit_lift(graph, inputs[0]);
    samba_ref other = samba_emit_scalar(graph, SAMBA_OP_add, samba_emit1(graph, SAMBA_OP_neg, x), 1);
    samba_ref over = samba_emit_scalar(graph, SAMBA_OP_add, samba_emit2(graph, SAMBA_OP_add, x, x), -1);
    samba_ref away = samba_emit1(graph, SAMBA_OP_abs, over);
    samba_ref near = samba_emit1(graph, SAMBA_OP_log1p, samba_emit2(graph, SAMBA_OP_div, over, other));
    samba_ref far = samba_emit1(graph, SAMBA_OP_log, samba_emit2(graph, SAMBA_OP_div, x, other));
    return samba_emit_cast(graph, samba_emit3(graph, SAMBA_OP_where, samba_emit_scalar(graph, SAMBA_OP_lt, away, 0.5), near, far), dtype);
}

/* 1 / (x (1 - x)); NaN outside of 0 to 1 */
samba_status samba_vjp_logit(samba_vjp *vjp)
{
    samba_graph *graph = vjp->graph;
    samba_ref g = samba_emit_lift(graph, vjp->gradient), x = samba_emit_lift(graph, vjp->inputs[0]);
    samba_ref product = samba_emit2(graph, SAMBA_OP_mul, x, samba_emit_scalar(graph, SAMBA_OP_add, samba_emit1(graph, SAMBA_OP_neg, x), 1));
    samba_ref outside = samba_emit_scalar(graph, SAMBA_OP_lt, product, 0), nan = samba_emit_constant(graph, NAN, samba_ref_dtype(graph, x));
    samba_vjp_deliver(vjp, 0, samba_emit2(graph, SAMBA_OP_div, g, samba_emit3(graph, SAMBA_OP_where, outside, nan, product)));
    return SAMBA_OK;
}

static double logit(double x) { return fabs(2 * x - 1) < 0.5 ? log1p((2 * x - 1) / (1 - x)) : log(x / (1 - x)); }
samba_status samba_ref_logit(const samba_reference *reference) { return of_one(reference, logit); }

/* ---- softplus: log(1 + e^x) = max(x, 0) + log1p(e^-|x|), which overflows nowhere ---- */

samba_ref samba_expand_softplus(samba_graph *graph, const samba_node *node, const samba_ref *inputs)
{
    samba_dtype dtype = (samba_dtype)node->dtype;
    samba_ref x = samba_emit_lift(graph, inputs[0]);
    samba_ref away = samba_emit1(graph, SAMBA_OP_neg, samba_emit1(graph, SAMBA_OP_abs, x));
    samba_ref rest = samba_emit1(graph, SAMBA_OP_log1p, samba_emit1(graph, SAMBA_OP_exp, away));
    return samba_emit_cast(graph, samba_emit2(graph, SAMBA_OP_add, samba_emit1(graph, SAMBA_OP_relu, x), rest), dtype);
}

samba_status samba_vjp_softplus(samba_vjp *vjp)
{
    samba_graph *graph = vjp->graph;
    samba_ref g = samba_emit_lift(graph, vjp->gradient), x = samba_emit_lift(graph, vjp->inputs[0]);
    samba_vjp_deliver(vjp, 0, samba_emit2(graph, SAMBA_OP_mul, g, samba_emit1(graph, SAMBA_OP_sigmoid, x)));
    return SAMBA_OK;
}

samba_status samba_ref_softplus(const samba_reference *reference) { return of_one(reference, softplus); }
