/* SPDX-License-Identifier: Apache-2.0
 *
 * gelu in both of PyTorch's forms: x times the normal distribution function of x, by erf or by its tanh approximation. They are
 * kept whole so that people read one operator and the gradient is one formula over x; expansion and gradient compute in float32
 * for 16-bit floats and round once. */
#include "ops/families.h"
#include <math.h>

#define INVERSE_SQRT_2PI (M_2_SQRTPI * M_SQRT1_2 / 2)
#define SQRT_2_OVER_PI (M_2_SQRTPI * M_SQRT1_2)
#define CUBIC 0.044715 /* of Hendrycks and Gimpel 2016 */

static samba_ref mul(samba_graph *graph, samba_ref a, samba_ref b) { return samba_emit2(graph, SAMBA_OP_mul, a, b); }
static samba_ref scale(samba_graph *graph, samba_ref a, double by) { return samba_emit_scalar(graph, SAMBA_OP_mul, a, by); }
static samba_ref plus(samba_graph *graph, samba_ref a, double number)
{
    return samba_emit_scalar(graph, SAMBA_OP_add, a, number);
}

/* (1 + erf(x / sqrt 2)) / 2, the normal distribution function */
static samba_ref normal_cdf(samba_graph *graph, samba_ref x)
{
    samba_ref error = samba_emit1(graph, SAMBA_OP_erf, scale(graph, x, M_SQRT1_2));
    return scale(graph, plus(graph, error, 1), 0.5);
}

/* tanh(sqrt(2/pi) (x + c x^3)) */
static samba_ref bent_tanh(samba_graph *graph, samba_ref x)
{
    samba_ref cube = mul(graph, mul(graph, x, x), x);
    samba_ref inner = samba_emit2(graph, SAMBA_OP_add, x, scale(graph, cube, CUBIC));
    return samba_emit1(graph, SAMBA_OP_tanh, scale(graph, inner, SQRT_2_OVER_PI));
}

/* ---- gelu ---- */

samba_ref samba_expand_gelu(samba_graph *graph, const samba_node *node, const samba_ref *inputs)
{
    samba_dtype dtype = (samba_dtype)node->dtype;
    samba_ref x = samba_emit_lift(graph, inputs[0]);
    return samba_emit_cast(graph, mul(graph, x, normal_cdf(graph, x)), dtype);
}

/* cdf(x) + x pdf(x) */
samba_status samba_vjp_gelu(samba_vjp *vjp)
{
    samba_graph *graph = vjp->graph;
    samba_ref g = samba_emit_lift(graph, vjp->gradient), x = samba_emit_lift(graph, vjp->inputs[0]);
    samba_ref bell = samba_emit1(graph, SAMBA_OP_exp, scale(graph, mul(graph, x, x), -0.5));
    samba_ref slope = mul(graph, x, scale(graph, bell, INVERSE_SQRT_2PI));
    samba_vjp_deliver(vjp, 0, mul(graph, g, samba_emit2(graph, SAMBA_OP_add, normal_cdf(graph, x), slope)));
    return SAMBA_OK;
}

samba_status samba_ref_gelu(const samba_reference *reference)
{
    for (int64_t i = 0; i < reference->output->numel; i++) {
        double x = samba_array_double(&reference->inputs[0], i);
        samba_array_set_double(reference->output, i, x * (0.5 * (1 + erf(x * M_SQRT1_2))));
    }
    return SAMBA_OK;
}

/* ---- gelu_tanh ---- */

samba_ref samba_expand_gelu_tanh(samba_graph *graph, const samba_node *node, const samba_ref *inputs)
{
    samba_dtype dtype = (samba_dtype)node->dtype;
    samba_ref x = samba_emit_lift(graph, inputs[0]);
    samba_ref value = mul(graph, scale(graph, x, 0.5), plus(graph, bent_tanh(graph, x), 1));
    return samba_emit_cast(graph, value, dtype);
}

/* With t the tanh: (1 + t) / 2 + x/2 (1 - t^2) sqrt(2/pi) (1 + 3c x^2) */
samba_status samba_vjp_gelu_tanh(samba_vjp *vjp)
{
    samba_graph *graph = vjp->graph;
    samba_ref g = samba_emit_lift(graph, vjp->gradient), x = samba_emit_lift(graph, vjp->inputs[0]);
    samba_ref t = bent_tanh(graph, x);
    samba_ref left = scale(graph, plus(graph, t, 1), 0.5);
    samba_ref tanh_slope = plus(graph, samba_emit1(graph, SAMBA_OP_neg, mul(graph, t, t)), 1);
    samba_ref inner_slope = plus(graph, scale(graph, mul(graph, x, x), 3 * CUBIC), 1);
    samba_ref right = mul(graph, scale(graph, x, 0.5 * SQRT_2_OVER_PI), mul(graph, tanh_slope, inner_slope));
    samba_vjp_deliver(vjp, 0, mul(graph, g, samba_emit2(graph, SAMBA_OP_add, left, right)));
    return SAMBA_OK;
}

samba_status samba_ref_gelu_tanh(const samba_reference *reference)
{
    for (int64_t i = 0; i < reference->output->numel; i++) {
        double x = samba_array_double(&reference->inputs[0], i);
        double t = tanh(SQRT_2_OVER_PI * (x + CUBIC * x * x * x));
        samba_array_set_double(reference->output, i, 0.5 * x * (1 + t));
    }
    return SAMBA_OK;
}
