/* SPDX-License-Identifier: Apache-2.0
 *
 * Gradients of the operators that are the gradient of an activation: f_grad(x, g) is g times the slope f'(x), so that the
 * gradient by g is f_grad(x, G) again and the one by x is G times g times f''(x). The second slopes are composed of other
 * operators, which have gradients of any order. */
#include "ops/families.h"

#define SQRT_2_OVER_PI 0.797884560802865355879892119868763737
#define INVERSE_SQRT_2PI 0.398942280401432677939946059934381868
#define CUBIC 0.044715

typedef samba_ref curvature(samba_graph *graph, samba_ref x); /* f''(x) */

static samba_status second(samba_vjp *vjp, curvature *bend)
{
    samba_graph *graph = vjp->graph;
    samba_op op = (samba_op)vjp->node->op;
    samba_ref x = samba_emit_lift(graph, vjp->inputs[0]), more = samba_emit_lift(graph, vjp->gradient);
    if (vjp->needed[1])
        SAMBA_TRY(samba_vjp_deliver(vjp, 1, samba_emit2(graph, op, x, more)));
    if (!vjp->needed[0])
        return SAMBA_OK;
    samba_ref g = samba_emit_lift(graph, vjp->inputs[1]), bent = bend(graph, x);
    samba_ref both = samba_emit2(graph, SAMBA_OP_mul, more, g);
    return samba_vjp_deliver(vjp, 0, samba_emit2(graph, SAMBA_OP_mul, both, bent));
}

static samba_ref times(samba_graph *g, samba_ref a, samba_ref b) { return samba_emit2(g, SAMBA_OP_mul, a, b); }
static samba_ref scaled(samba_graph *g, samba_ref a, double by) { return samba_emit_scalar(g, SAMBA_OP_mul, a, by); }
static samba_ref raised(samba_graph *g, samba_ref a, double by) { return samba_emit_scalar(g, SAMBA_OP_add, a, by); }
/* 1 - a */
static samba_ref rest(samba_graph *g, samba_ref a) { return raised(g, samba_emit1(g, SAMBA_OP_neg, a), 1); }

/* The normal density of x, times 2 - x^2. */
static samba_ref gelu_bends(samba_graph *g, samba_ref x)
{
    samba_ref square = times(g, x, x);
    samba_ref density = scaled(g, samba_emit1(g, SAMBA_OP_exp, scaled(g, square, -0.5)), INVERSE_SQRT_2PI);
    return times(g, density, raised(g, samba_emit1(g, SAMBA_OP_neg, square), 2));
}
samba_status samba_vjp_gelu_grad(samba_vjp *vjp) { return second(vjp, gelu_bends); }

/* Of x s(u), with s(u) = sigmoid(u) and u = 2 sqrt(2/pi) (x + c x^3): s' (2 u' + x (u'' + (1 - 2 s) u'^2)), s' = s (1 - s). */
static samba_ref gelu_tanh_bends(samba_graph *g, samba_ref x)
{
    samba_ref square = times(g, x, x);
    samba_ref u = scaled(g, times(g, x, raised(g, scaled(g, square, CUBIC), 1)), 2 * SQRT_2_OVER_PI);
    samba_ref slope = scaled(g, raised(g, scaled(g, square, 3 * CUBIC), 1), 2 * SQRT_2_OVER_PI);
    samba_ref bend = scaled(g, x, 12 * SQRT_2_OVER_PI * CUBIC);
    samba_ref s = samba_emit1(g, SAMBA_OP_sigmoid, u);
    samba_ref s_slope = times(g, s, rest(g, s));
    samba_ref square_slope = times(g, slope, slope), twice = scaled(g, slope, 2);
    samba_ref inner = samba_emit2(g, SAMBA_OP_add, bend, times(g, rest(g, scaled(g, s, 2)), square_slope));
    return times(g, s_slope, samba_emit2(g, SAMBA_OP_add, twice, times(g, x, inner)));
}
samba_status samba_vjp_gelu_tanh_grad(samba_vjp *vjp) { return second(vjp, gelu_tanh_bends); }

/* s (1 - s) (2 + x (1 - 2 s)) */
static samba_ref silu_bends(samba_graph *g, samba_ref x)
{
    samba_ref s = samba_emit1(g, SAMBA_OP_sigmoid, x);
    samba_ref slope = times(g, s, rest(g, s));
    return times(g, slope, raised(g, times(g, x, rest(g, scaled(g, s, 2))), 2));
}
samba_status samba_vjp_silu_grad(samba_vjp *vjp) { return second(vjp, silu_bends); }

/* With t = tanh(softplus(x)) and s = sigmoid(x): (1 - t^2) s (2 + x (1 - s - 2 t s)). */
static samba_ref mish_bends(samba_graph *g, samba_ref x)
{
    samba_ref s = samba_emit1(g, SAMBA_OP_sigmoid, x);
    samba_ref t = samba_emit1(g, SAMBA_OP_tanh, samba_emit1(g, SAMBA_OP_softplus, x));
    samba_ref over = times(g, rest(g, times(g, t, t)), s);
    samba_ref falls = rest(g, s), twice = scaled(g, times(g, t, s), 2);
    samba_ref inner = samba_emit2(g, SAMBA_OP_sub, falls, twice);
    return times(g, over, raised(g, times(g, x, inner), 2));
}
samba_status samba_vjp_mish_grad(samba_vjp *vjp) { return second(vjp, mish_bends); }

/* 1/3 between -3 and 3, else 0 */
static samba_ref hardswish_bends(samba_graph *g, samba_ref x)
{
    samba_ref inside = samba_emit_scalar(g, SAMBA_OP_lt, samba_emit1(g, SAMBA_OP_abs, x), 3);
    samba_dtype dtype = samba_ref_dtype(g, x);
    samba_ref third = samba_emit_constant(g, 1.0 / 3, dtype), none = samba_emit_constant(g, 0, dtype);
    return samba_emit3(g, SAMBA_OP_where, inside, third, none);
}
samba_status samba_vjp_hardswish_grad(samba_vjp *vjp) { return second(vjp, hardswish_bends); }
