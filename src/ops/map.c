/* SPDX-License-Identifier: Apache-2.0
 *
 * Elementwise operators: what they accept and their gradients. Their values stand in map_ref.c.
 *
 * Operands of one operator have one dtype, tracing has inserted the casts of promotion, and they broadcast as in PyTorch; so each
 * gradient is summed back to its operand's shape. Gradients are PyTorch's formulas, at the edges too (ties, zeros, NaN), written
 * over the result where that saves keeping the input. A formula of several steps is computed in float32 for 16-bit floats and
 * rounded once. */
#include "ops/families.h"
#include <math.h>
#include <string.h>

/* ---- inference ---- */

static samba_status refuse_bool(const samba_infer *infer)
{
    if (infer->inputs[0]->dtype == SAMBA_BOOL)
        return samba_infer_fail(infer, SAMBA_ERROR_DTYPE, "expected integers or floating-point, given bool; cast it first");
    return SAMBA_OK;
}

/* The shape of the result from that of all inputs. */
static samba_status set_broadcast(samba_infer *infer, samba_dtype dtype)
{
    int rank = infer->inputs[0]->rank;
    int64_t shape[SAMBA_MAX_RANK], joined[SAMBA_MAX_RANK];
    memcpy(shape, infer->inputs[0]->shape, sizeof shape);
    for (int i = 1; i < infer->arity; i++) {
        const samba_node *input = infer->inputs[i];
        int joined_rank;
        if (!samba_shape_broadcast(rank, shape, input->rank, input->shape, &joined_rank, joined))
            return samba_infer_fail(infer, SAMBA_ERROR_SHAPE,
                                    "shapes %s and %s do not broadcast: counted from the last, sizes must be equal or 1",
                                    SAMBA_SHAPE(rank, shape), SAMBA_SHAPE_OF(input));
        rank = joined_rank;
        memcpy(shape, joined, sizeof shape);
    }
    return samba_infer_set(infer, dtype, rank, shape);
}

samba_status samba_infer_same(samba_infer *infer)
{
    if (infer->op != SAMBA_OP_sign) /* as PyTorch: a bool has a sign, but no negative, no absolute value, no relu */
        SAMBA_TRY(refuse_bool(infer));
    return samba_infer_set_like(infer, 0);
}

samba_status samba_infer_same_any(samba_infer *infer) { return samba_infer_set_like(infer, 0); }

samba_status samba_infer_floating(samba_infer *infer)
{
    SAMBA_TRY(samba_infer_need_floating(infer, 0));
    return samba_infer_set_like(infer, 0);
}

samba_status samba_infer_predicate(samba_infer *infer)
{
    SAMBA_TRY(samba_infer_need_dtype(infer, 0, SAMBA_BOOL));
    return samba_infer_set_like(infer, 0);
}

samba_status samba_infer_integer(samba_infer *infer)
{
    SAMBA_TRY(samba_infer_need_integer(infer, 0));
    return samba_infer_set_like(infer, 0);
}

samba_status samba_infer_cast(samba_infer *infer)
{
    return samba_infer_set(infer, infer->attrs->cast.dtype, infer->inputs[0]->rank, infer->inputs[0]->shape);
}

samba_status samba_infer_binary(samba_infer *infer)
{
    SAMBA_TRY(samba_infer_need_same_dtype(infer, 0, 1));
    if (infer->op != SAMBA_OP_add && infer->op != SAMBA_OP_mul && infer->op != SAMBA_OP_maximum && infer->op != SAMBA_OP_minimum)
        /* add and maximum are "or" of bools, mul and minimum "and" */
        SAMBA_TRY(refuse_bool(infer));
    return set_broadcast(infer, infer->inputs[0]->dtype);
}

samba_status samba_infer_binary_floating(samba_infer *infer)
{
    SAMBA_TRY(samba_infer_need_same_dtype(infer, 0, 1));
    SAMBA_TRY(samba_infer_need_floating(infer, 0));
    return set_broadcast(infer, infer->inputs[0]->dtype);
}

samba_status samba_infer_ternary_floating(samba_infer *infer)
{
    SAMBA_TRY(samba_infer_need_same_dtype(infer, 0, 1));
    SAMBA_TRY(samba_infer_need_same_dtype(infer, 0, 2));
    SAMBA_TRY(samba_infer_need_floating(infer, 0));
    return set_broadcast(infer, infer->inputs[0]->dtype);
}

samba_status samba_infer_binary_integer(samba_infer *infer)
{
    SAMBA_TRY(samba_infer_need_same_dtype(infer, 0, 1));
    SAMBA_TRY(samba_infer_need_integer(infer, 0));
    return set_broadcast(infer, infer->inputs[0]->dtype);
}

samba_status samba_infer_compare(samba_infer *infer)
{
    SAMBA_TRY(samba_infer_need_same_dtype(infer, 0, 1));
    return set_broadcast(infer, SAMBA_BOOL);
}

samba_status samba_infer_where(samba_infer *infer)
{
    SAMBA_TRY(samba_infer_need_dtype(infer, 0, SAMBA_BOOL));
    SAMBA_TRY(samba_infer_need_same_dtype(infer, 1, 2));
    return set_broadcast(infer, infer->inputs[1]->dtype);
}

/* ---- gradients ---- */

samba_status samba_vjp_deliver(samba_vjp *vjp, int i, samba_ref gradient)
{
    if (gradient == SAMBA_NONE)
        return SAMBA_OK;
    const samba_node *input = samba_node_at(vjp->graph, vjp->inputs[i]);
    samba_dtype dtype = input->dtype;
    int rank = input->rank;
    int64_t shape[SAMBA_MAX_RANK];
    memcpy(shape, input->shape, sizeof shape); /* emitting may move the nodes */
    gradient = samba_emit_sum_to(vjp->graph, gradient, rank, shape);
    vjp->input_gradients[i] = samba_emit_cast(vjp->graph, gradient, dtype);
    return SAMBA_OK;
}

/* The operand of a formula, in the dtype in which it is computed. */
static samba_ref gradient_of(samba_vjp *vjp) { return samba_emit_lift(vjp->graph, vjp->gradient); }
static samba_ref input_of(samba_vjp *vjp, int i) { return samba_emit_lift(vjp->graph, vjp->inputs[i]); }
static samba_ref output_of(samba_vjp *vjp) { return samba_emit_lift(vjp->graph, vjp->output); }

/* Short names, so that a formula is read as one. */
static samba_ref mul(samba_vjp *vjp, samba_ref a, samba_ref b) { return samba_emit2(vjp->graph, SAMBA_OP_mul, a, b); }
static samba_ref divide(samba_vjp *vjp, samba_ref a, samba_ref b) { return samba_emit2(vjp->graph, SAMBA_OP_div, a, b); }
static samba_ref neg(samba_vjp *vjp, samba_ref a) { return samba_emit1(vjp->graph, SAMBA_OP_neg, a); }
static samba_ref scale(samba_vjp *vjp, samba_ref a, double by) { return samba_emit_scalar(vjp->graph, SAMBA_OP_mul, a, by); }
static samba_ref one_minus(samba_vjp *vjp, samba_ref a)
{
    samba_ref one = samba_emit_constant(vjp->graph, 1, (samba_dtype)samba_node_at(vjp->graph, a)->dtype);
    return samba_emit2(vjp->graph, SAMBA_OP_sub, one, a);
}
static samba_ref zero_like(samba_vjp *vjp, samba_ref a)
{
    return samba_emit_constant(vjp->graph, 0, samba_ref_dtype(vjp->graph, a));
}
static samba_ref where(samba_vjp *vjp, samba_ref condition, samba_ref a, samba_ref b)
{
    return samba_emit3(vjp->graph, SAMBA_OP_where, condition, a, b);
}

samba_status samba_vjp_neg(samba_vjp *vjp) { return samba_vjp_deliver(vjp, 0, neg(vjp, vjp->gradient)); }

samba_status samba_vjp_abs(samba_vjp *vjp)
{
    return samba_vjp_deliver(vjp, 0, mul(vjp, vjp->gradient, samba_emit1(vjp->graph, SAMBA_OP_sign, vjp->inputs[0])));
}

samba_status samba_vjp_exp(samba_vjp *vjp) { return samba_vjp_deliver(vjp, 0, mul(vjp, vjp->gradient, vjp->output)); }

samba_status samba_vjp_log(samba_vjp *vjp) { return samba_vjp_deliver(vjp, 0, divide(vjp, vjp->gradient, vjp->inputs[0])); }

samba_status samba_vjp_log1p(samba_vjp *vjp)
{
    samba_ref g = gradient_of(vjp), x = input_of(vjp, 0);
    return samba_vjp_deliver(vjp, 0, divide(vjp, g, samba_emit_scalar(vjp->graph, SAMBA_OP_add, x, 1)));
}

samba_status samba_vjp_expm1(samba_vjp *vjp)
{
    samba_ref g = gradient_of(vjp), x = input_of(vjp, 0); /* not y + 1, which has lost its digits where y is near -1 */
    return samba_vjp_deliver(vjp, 0, mul(vjp, g, samba_emit1(vjp->graph, SAMBA_OP_exp, x)));
}

samba_status samba_vjp_sin(samba_vjp *vjp)
{
    samba_ref g = gradient_of(vjp), x = input_of(vjp, 0);
    return samba_vjp_deliver(vjp, 0, mul(vjp, g, samba_emit1(vjp->graph, SAMBA_OP_cos, x)));
}

samba_status samba_vjp_cos(samba_vjp *vjp)
{
    samba_ref g = gradient_of(vjp), x = input_of(vjp, 0);
    return samba_vjp_deliver(vjp, 0, mul(vjp, g, neg(vjp, samba_emit1(vjp->graph, SAMBA_OP_sin, x))));
}

samba_status samba_vjp_sqrt(samba_vjp *vjp)
{
    samba_ref g = gradient_of(vjp), y = output_of(vjp);
    return samba_vjp_deliver(vjp, 0, divide(vjp, g, scale(vjp, y, 2)));
}

samba_status samba_vjp_rsqrt(samba_vjp *vjp)
{
    samba_ref g = gradient_of(vjp), y = output_of(vjp);
    samba_ref cube = mul(vjp, mul(vjp, y, y), y);
    return samba_vjp_deliver(vjp, 0, mul(vjp, scale(vjp, g, -0.5), cube));
}

samba_status samba_vjp_reciprocal(samba_vjp *vjp)
{
    samba_ref g = gradient_of(vjp), y = output_of(vjp);
    samba_ref square = mul(vjp, y, y);
    return samba_vjp_deliver(vjp, 0, mul(vjp, neg(vjp, g), square));
}

samba_status samba_vjp_tanh(samba_vjp *vjp)
{
    samba_ref g = gradient_of(vjp), y = output_of(vjp);
    return samba_vjp_deliver(vjp, 0, mul(vjp, g, one_minus(vjp, mul(vjp, y, y))));
}

samba_status samba_vjp_sigmoid(samba_vjp *vjp)
{
    samba_ref g = gradient_of(vjp), y = output_of(vjp);
    return samba_vjp_deliver(vjp, 0, mul(vjp, g, mul(vjp, one_minus(vjp, y), y)));
}

samba_status samba_vjp_relu(samba_vjp *vjp)
{
    samba_ref zero = zero_like(vjp, vjp->gradient);
    samba_ref closed = samba_emit2(vjp->graph, SAMBA_OP_le, vjp->output, zero); /* not y > 0: a NaN lets the gradient through */
    return samba_vjp_deliver(vjp, 0, where(vjp, closed, zero, vjp->gradient));
}

samba_status samba_vjp_erf(samba_vjp *vjp)
{
    samba_ref g = gradient_of(vjp), x = input_of(vjp, 0);
    samba_ref bell = samba_emit1(vjp->graph, SAMBA_OP_exp, neg(vjp, mul(vjp, x, x)));
    return samba_vjp_deliver(vjp, 0, mul(vjp, scale(vjp, bell, M_2_SQRTPI), g));
}

/* `ref` as it was before it was rounded from `dtype`, or `ref`: a view of a cast becomes the same view of what was cast. */
static samba_ref unrounded(samba_graph *graph, samba_ref ref, samba_dtype dtype)
{
    samba_node node = *samba_node_at(graph, ref);
    if (node.op == SAMBA_OP_cast)
        return samba_ref_dtype(graph, node.inputs[0]) == dtype ? node.inputs[0] : ref;
    if (samba_ops[node.op].class_ != SAMBA_VIEW)
        return ref;
    samba_ref source = unrounded(graph, node.inputs[0], dtype);
    return source == node.inputs[0] ? ref : samba_emit(graph, (samba_op)node.op, 1, &source, node.attrs);
}

samba_status samba_vjp_cast(samba_vjp *vjp)
{
    samba_node input = *samba_node_at(vjp->graph, vjp->inputs[0]);
    /* nothing flows through integers */
    if (!samba_dtype_is_floating_point(input.dtype) || !samba_dtype_is_floating_point(samba_ref_dtype(vjp->graph, vjp->gradient)))
        return SAMBA_OK;
    /* A parameter that is used rounded is trained as it is: the sum that its gradient was rounded from is the better gradient. */
    samba_ref g = input.op == SAMBA_OP_parameter ? unrounded(vjp->graph, vjp->gradient, input.dtype) : vjp->gradient;
    return samba_vjp_deliver(vjp, 0, g);
}

samba_status samba_vjp_add(samba_vjp *vjp)
{
    for (int i = 0; i < 2; i++)
        if (vjp->needed[i])
            samba_vjp_deliver(vjp, i, vjp->gradient);
    return SAMBA_OK;
}

samba_status samba_vjp_sub(samba_vjp *vjp)
{
    if (vjp->needed[0])
        samba_vjp_deliver(vjp, 0, vjp->gradient);
    if (vjp->needed[1])
        samba_vjp_deliver(vjp, 1, neg(vjp, vjp->gradient));
    return SAMBA_OK;
}

samba_status samba_vjp_mul(samba_vjp *vjp)
{
    for (int i = 0; i < 2; i++)
        if (vjp->needed[i])
            samba_vjp_deliver(vjp, i, mul(vjp, vjp->gradient, vjp->inputs[1 - i]));
    return SAMBA_OK;
}

samba_status samba_vjp_div(samba_vjp *vjp)
{
    if (vjp->needed[0])
        samba_vjp_deliver(vjp, 0, divide(vjp, vjp->gradient, vjp->inputs[1]));
    if (vjp->needed[1]) {
        samba_ref g = gradient_of(vjp), y = output_of(vjp), b = input_of(vjp, 1);
        samba_ref share = divide(vjp, y, b);
        samba_vjp_deliver(vjp, 1, mul(vjp, neg(vjp, g), share));
    }
    return SAMBA_OK;
}

/* d(a^b)/da = b a^(b-1), and 0 where b is 0, also at a = 0 where the formula would be 0 * inf.
 * d(a^b)/db = a^b log(a), and 0 where a is 0 and b not negative, where it would be 0 * -inf. */
samba_status samba_vjp_pow(samba_vjp *vjp)
{
    samba_graph *graph = vjp->graph;
    samba_ref g = gradient_of(vjp), a = input_of(vjp, 0), b = input_of(vjp, 1), zero = zero_like(vjp, a);
    if (vjp->needed[0]) {
        samba_ref lower = samba_emit2(graph, SAMBA_OP_pow, a, samba_emit_scalar(graph, SAMBA_OP_sub, b, 1));
        samba_ref slope = mul(vjp, g, mul(vjp, b, lower));
        samba_vjp_deliver(vjp, 0, where(vjp, samba_emit2(graph, SAMBA_OP_eq, b, zero), zero, slope));
    }
    if (vjp->needed[1]) {
        samba_ref rises = samba_emit2(graph, SAMBA_OP_ge, b, zero);
        samba_ref flat = mul(vjp, samba_emit2(graph, SAMBA_OP_eq, a, zero), rises),
                  exponent = samba_emit1(graph, SAMBA_OP_log, a);
        samba_ref slope = mul(vjp, output_of(vjp), exponent);
        samba_vjp_deliver(vjp, 1, mul(vjp, g, where(vjp, flat, zero, slope)));
    }
    return SAMBA_OK;
}

/* The operand that `loses` gets nothing; equal ones share; a NaN is neither less nor equal, and both get all, as in PyTorch. */
static samba_status extremum_of_two(samba_vjp *vjp, const samba_op loses[2])
{
    samba_ref zero = zero_like(vjp, vjp->gradient);
    for (int i = 0; i < 2; i++) {
        if (!vjp->needed[i])
            continue;
        samba_ref lost = samba_emit2(vjp->graph, loses[i], vjp->inputs[0], vjp->inputs[1]);
        samba_ref tied = samba_emit2(vjp->graph, SAMBA_OP_eq, vjp->inputs[0], vjp->inputs[1]);
        samba_ref share = where(vjp, tied, scale(vjp, vjp->gradient, 0.5), vjp->gradient);
        samba_vjp_deliver(vjp, i, where(vjp, lost, zero, share));
    }
    return SAMBA_OK;
}

samba_status samba_vjp_maximum(samba_vjp *vjp) { return extremum_of_two(vjp, (const samba_op[2]){SAMBA_OP_lt, SAMBA_OP_gt}); }
samba_status samba_vjp_minimum(samba_vjp *vjp) { return extremum_of_two(vjp, (const samba_op[2]){SAMBA_OP_gt, SAMBA_OP_lt}); }

/* A bound that wins has the gradient; at the border the value has it, as in PyTorch's clamp. */
static samba_status bounded(samba_vjp *vjp, samba_op beyond)
{
    samba_ref zero = zero_like(vjp, vjp->gradient), out = samba_emit2(vjp->graph, beyond, vjp->inputs[0], vjp->inputs[1]);
    if (vjp->needed[0])
        samba_vjp_deliver(vjp, 0, where(vjp, out, zero, vjp->gradient));
    if (vjp->needed[1])
        samba_vjp_deliver(vjp, 1, where(vjp, out, vjp->gradient, zero));
    return SAMBA_OK;
}

samba_status samba_vjp_clamp_min(samba_vjp *vjp) { return bounded(vjp, SAMBA_OP_lt); }
samba_status samba_vjp_clamp_max(samba_vjp *vjp) { return bounded(vjp, SAMBA_OP_gt); }

/* a - b q, where q is the rounded quotient, which stands still. */
static samba_status rest(samba_vjp *vjp, samba_op quotient)
{
    if (vjp->needed[0])
        samba_vjp_deliver(vjp, 0, vjp->gradient);
    if (vjp->needed[1]) {
        samba_ref g = gradient_of(vjp), a = input_of(vjp, 0), b = input_of(vjp, 1);
        samba_vjp_deliver(vjp, 1, neg(vjp, mul(vjp, g, samba_emit2(vjp->graph, quotient, a, b))));
    }
    return SAMBA_OK;
}

samba_status samba_vjp_remainder(samba_vjp *vjp) { return rest(vjp, SAMBA_OP_floor_divide); }
samba_status samba_vjp_fmod(samba_vjp *vjp) { return rest(vjp, SAMBA_OP_trunc_divide); }

samba_status samba_vjp_where(samba_vjp *vjp)
{
    samba_ref condition = vjp->inputs[0], zero = zero_like(vjp, vjp->gradient);
    if (vjp->needed[1])
        samba_vjp_deliver(vjp, 1, where(vjp, condition, vjp->gradient, zero));
    if (vjp->needed[2])
        samba_vjp_deliver(vjp, 2, where(vjp, condition, zero, vjp->gradient));
    return SAMBA_OK;
}

samba_status samba_vjp_lerp(samba_vjp *vjp)
{
    samba_ref g = gradient_of(vjp), weight = input_of(vjp, 2);
    if (vjp->needed[0])
        samba_vjp_deliver(vjp, 0,
                          mul(vjp, g,
                              samba_emit2(vjp->graph, SAMBA_OP_sub,
                                          samba_emit_constant(vjp->graph, 1, samba_ref_dtype(vjp->graph, weight)), weight)));
    if (vjp->needed[1])
        samba_vjp_deliver(vjp, 1, mul(vjp, g, weight));
    if (vjp->needed[2]) {
        samba_ref a = input_of(vjp, 0), b = input_of(vjp, 1);
        samba_vjp_deliver(vjp, 2, mul(vjp, g, samba_emit2(vjp->graph, SAMBA_OP_sub, b, a)));
    }
    return SAMBA_OK;
}
