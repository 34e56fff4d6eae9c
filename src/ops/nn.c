/* SPDX-License-Identifier: Apache-2.0
 *
 * softmax, log_softmax, layer_norm, dropout and detach. They stay whole for people and for gradients, and expand to core
 * operators when compiled. 16-bit floats are computed in float32 and rounded once, at the end.
 *
 * The gradient of a layer_norm needs its mean and deviation again. It emits them through `normalize` as the expansion does:
 * then they are equal nodes, and need be computed only once. */
#include "ops/families.h"
#include "ops/norm.h"
#include <math.h>
#include <string.h>

/* ---- softmax and log_softmax over attrs.dim ---- */

samba_status samba_infer_softmax(samba_infer *infer)
{
    const samba_node *x = infer->inputs[0];
    int64_t dim = infer->attrs->axis.dim;
    SAMBA_TRY(samba_infer_need_floating(infer, 0));
    if (dim < 0 || dim >= x->rank)
        return samba_infer_fail(infer, SAMBA_ERROR_ARGUMENT, "expected a dim from 0 to %d for shape %s, given %lld", x->rank - 1,
                                SAMBA_SHAPE_OF(x), (long long)dim);
    return samba_infer_set_like(infer, 0);
}

/* x - max(x): its exponentials cannot overflow. */
static samba_ref shifted(samba_graph *graph, samba_ref x, int64_t dim)
{
    return samba_emit2(graph, SAMBA_OP_sub, x, samba_emit_reduce(graph, SAMBA_OP_amax, x, 1, &dim));
}

samba_ref samba_expand_softmax(samba_graph *graph, const samba_node *node, const samba_ref *inputs)
{
    samba_dtype dtype = node->dtype;
    int64_t dim = node->attrs->axis.dim;
    if (node->shape[dim] == 0)
        return inputs[0]; /* no elements, which have no greatest one */
    samba_ref powers = samba_emit1(graph, SAMBA_OP_exp, shifted(graph, samba_emit_lift(graph, inputs[0]), dim));
    samba_ref sum = samba_emit_reduce(graph, SAMBA_OP_sum, powers, 1, &dim);
    samba_ref result = samba_emit2(graph, SAMBA_OP_mul, powers, samba_emit1(graph, SAMBA_OP_reciprocal, sum));
    return samba_emit_cast(graph, result, dtype);
}

samba_ref samba_expand_log_softmax(samba_graph *graph, const samba_node *node, const samba_ref *inputs)
{
    samba_dtype dtype = node->dtype;
    int64_t dim = node->attrs->axis.dim;
    if (node->shape[dim] == 0)
        return inputs[0];
    samba_ref logits = shifted(graph, samba_emit_lift(graph, inputs[0]), dim);
    samba_ref sum = samba_emit_reduce(graph, SAMBA_OP_sum, samba_emit1(graph, SAMBA_OP_exp, logits), 1, &dim);
    samba_ref result = samba_emit2(graph, SAMBA_OP_sub, logits, samba_emit1(graph, SAMBA_OP_log, sum));
    return samba_emit_cast(graph, result, dtype);
}

/* dx = y * (g - sum(g*y)) */
samba_status samba_vjp_softmax(samba_vjp *vjp)
{
    samba_graph *graph = vjp->graph;
    int64_t dim = vjp->node->attrs->axis.dim;
    samba_ref y = samba_emit_lift(graph, vjp->output), g = samba_emit_lift(graph, vjp->gradient);
    samba_ref sum = samba_emit_reduce(graph, SAMBA_OP_sum, samba_emit2(graph, SAMBA_OP_mul, g, y), 1, &dim);
    return samba_vjp_deliver(vjp, 0, samba_emit2(graph, SAMBA_OP_mul, y, samba_emit2(graph, SAMBA_OP_sub, g, sum)));
}

/* dx = g - exp(y) * sum(g) */
samba_status samba_vjp_log_softmax(samba_vjp *vjp)
{
    samba_graph *graph = vjp->graph;
    int64_t dim = vjp->node->attrs->axis.dim;
    samba_ref y = samba_emit_lift(graph, vjp->output), g = samba_emit_lift(graph, vjp->gradient);
    samba_ref sum = samba_emit_reduce(graph, SAMBA_OP_sum, g, 1, &dim);
    samba_ref share = samba_emit2(graph, SAMBA_OP_mul, samba_emit1(graph, SAMBA_OP_exp, y), sum);
    return samba_vjp_deliver(vjp, 0, samba_emit2(graph, SAMBA_OP_sub, g, share));
}

static samba_status softmax_reference(const samba_reference *reference, bool log_result)
{
    const samba_array *x = &reference->inputs[0], *y = reference->output;
    int64_t dim = reference->attrs->axis.dim, size = x->shape[dim], stride = 1;
    for (int i = (int)dim + 1; i < x->rank; i++)
        stride *= x->shape[i];
    for (int64_t line = 0; size > 0 && line < x->numel / size; line++) {
        int64_t first = line / stride * stride * size + line % stride;
        double greatest = -INFINITY, sum = 0;
        for (int64_t i = 0; i < size; i++) {
            double value = samba_array_double(x, first + i * stride);
            greatest = value > greatest || isnan(value) ? value : greatest;
        }
        for (int64_t i = 0; i < size; i++)
            sum += exp(samba_array_double(x, first + i * stride) - greatest);
        for (int64_t i = 0; i < size; i++) {
            double logit = samba_array_double(x, first + i * stride) - greatest;
            samba_array_set_double(y, first + i * stride, log_result ? logit - log(sum) : exp(logit) / sum);
        }
    }
    return SAMBA_OK;
}

samba_status samba_ref_softmax(const samba_reference *reference) { return softmax_reference(reference, false); }
samba_status samba_ref_log_softmax(const samba_reference *reference) { return softmax_reference(reference, true); }

/* ---- layer_norm(x, weight, bias) over the last attrs.dims dims ---- */

samba_status samba_infer_layer_norm(samba_infer *infer)
{
    const samba_node *x = infer->inputs[0];
    const samba_attrs_norm *attrs = &infer->attrs->norm;
    SAMBA_TRY(samba_infer_need_norm(infer, attrs->dims, attrs->eps));
    const int64_t *normalized = x->shape + x->rank - attrs->dims;
    for (int i = 1; i < 3; i++) {
        const samba_node *factor = infer->inputs[i];
        SAMBA_TRY(samba_infer_need_same_dtype(infer, 0, i));
        if (!samba_shape_equal((int)attrs->dims, normalized, factor->rank, factor->shape))
            return samba_infer_fail(
                infer, SAMBA_ERROR_SHAPE, "the %s must have the shape of the input's normalized dims, %s, given %s",
                i == 1 ? "weight" : "bias", SAMBA_SHAPE((int)attrs->dims, normalized), SAMBA_SHAPE_OF(factor));
    }
    return samba_infer_set_like(infer, 0);
}

/* Returns x normalized to mean 0 and deviation 1, and its reciprocal deviation. */
static samba_ref normalize(samba_graph *graph, const samba_norm_rows *rows, double eps, samba_ref x,
                           samba_ref *reciprocal_deviation)
{
    samba_ref wide = samba_emit_lift(graph, x);
    samba_ref centered = samba_emit2(graph, SAMBA_OP_sub, wide, samba_emit_row_mean(graph, rows, wide));
    samba_ref variance = samba_emit_row_mean(graph, rows, samba_emit2(graph, SAMBA_OP_mul, centered, centered));
    *reciprocal_deviation = samba_emit1(graph, SAMBA_OP_rsqrt, samba_emit_scalar(graph, SAMBA_OP_add, variance, eps));
    return samba_emit2(graph, SAMBA_OP_mul, centered, *reciprocal_deviation);
}

samba_ref samba_expand_layer_norm(samba_graph *graph, const samba_node *node, const samba_ref *inputs)
{
    samba_dtype dtype = node->dtype;
    const double eps = node->attrs->norm.eps;
    samba_norm_rows rows = samba_norm_rows_of(node->rank, node->shape, node->attrs->norm.dims);
    samba_ref reciprocal_deviation;
    samba_ref result = normalize(graph, &rows, eps, inputs[0], &reciprocal_deviation);
    result = samba_emit2(graph, SAMBA_OP_mul, result, samba_emit_lift(graph, inputs[1]));
    result = samba_emit2(graph, SAMBA_OP_add, result, samba_emit_lift(graph, inputs[2]));
    return samba_emit_cast(graph, result, dtype);
}

/* dx = (gw - mean(gw) - xhat * mean(gw*xhat)) / deviation with gw = g*weight; dweight = sum of g*xhat; dbias = sum of g */
samba_status samba_vjp_layer_norm(samba_vjp *vjp)
{
    samba_graph *graph = vjp->graph;
    const double eps = vjp->node->attrs->norm.eps;
    samba_norm_rows rows = samba_norm_rows_of(vjp->node->rank, vjp->node->shape, vjp->node->attrs->norm.dims);
    samba_ref g = samba_emit_lift(graph, vjp->gradient), xhat = SAMBA_NONE, reciprocal_deviation = SAMBA_NONE;
    if (vjp->needed[0] || vjp->needed[1])
        xhat = normalize(graph, &rows, eps, vjp->inputs[0], &reciprocal_deviation);
    if (vjp->needed[0]) {
        samba_ref gw = samba_emit2(graph, SAMBA_OP_mul, g, samba_emit_lift(graph, vjp->inputs[1]));
        samba_ref along = samba_emit_row_mean(graph, &rows, samba_emit2(graph, SAMBA_OP_mul, gw, xhat));
        samba_ref dx = samba_emit2(graph, SAMBA_OP_sub, gw, samba_emit_row_mean(graph, &rows, gw));
        dx = samba_emit2(graph, SAMBA_OP_sub, dx, samba_emit2(graph, SAMBA_OP_mul, xhat, along));
        samba_vjp_deliver(vjp, 0, samba_emit2(graph, SAMBA_OP_mul, reciprocal_deviation, dx));
    }
    if (vjp->needed[1])
        samba_vjp_deliver(vjp, 1, samba_emit2(graph, SAMBA_OP_mul, g, xhat));
    if (vjp->needed[2])
        samba_vjp_deliver(vjp, 2, g);
    return SAMBA_OK;
}

samba_status samba_ref_layer_norm(const samba_reference *reference)
{
    const samba_array *x = &reference->inputs[0], *weight = &reference->inputs[1], *bias = &reference->inputs[2];
    int64_t size = weight->numel;
    for (int64_t first = 0; first < x->numel; first += size) {
        double total = 0, squares = 0;
        for (int64_t i = 0; i < size; i++)
            total += samba_array_double(x, first + i);
        double average = total / (double)size;
        for (int64_t i = 0; i < size; i++)
            squares += pow(samba_array_double(x, first + i) - average, 2);
        double deviation = sqrt(squares / (double)size + reference->attrs->norm.eps);
        for (int64_t i = 0; i < size; i++) {
            double xhat = (samba_array_double(x, first + i) - average) / deviation;
            samba_array_set_double(reference->output, first + i,
                                   xhat * samba_array_double(weight, i) + samba_array_double(bias, i));
        }
    }
    return SAMBA_OK;
}

/* ---- dropout(x, p, seed) ---- */

samba_status samba_infer_dropout(samba_infer *infer)
{
    SAMBA_TRY(samba_infer_need_floating(infer, 0));
    SAMBA_TRY(samba_infer_need_dtype(infer, 1, SAMBA_FLOAT64));
    SAMBA_TRY(samba_infer_need_rank(infer, 1, 0));
    SAMBA_TRY(samba_infer_need_dtype(infer, 2, SAMBA_INT64));
    SAMBA_TRY(samba_infer_need_rank(infer, 2, 0));
    return samba_infer_set_like(infer, 0);
}

/* where(random(seed) >= p, x / (1-p), 0). With p = 1 the scale is infinite and nothing is kept: the result is 0. */
samba_ref samba_expand_dropout(samba_graph *graph, const samba_node *node, const samba_ref *inputs)
{
    samba_dtype dtype = node->dtype, wide = samba_compute_dtype(dtype);
    samba_attrs attrs = {.random = {.shape = samba_dims_of(node->rank, node->shape)}};
    samba_ref uniform = samba_emit(graph, SAMBA_OP_random, 1, &inputs[2], &attrs);
    samba_ref kept = samba_emit2(graph, SAMBA_OP_ge, uniform, samba_emit_cast(graph, inputs[1], SAMBA_FLOAT32));
    samba_ref remaining = samba_emit2(graph, SAMBA_OP_sub, samba_emit_constant(graph, 1, SAMBA_FLOAT64), inputs[1]);
    samba_ref scale = samba_emit_cast(graph, samba_emit1(graph, SAMBA_OP_reciprocal, remaining), wide);
    samba_ref scaled = samba_emit2(graph, SAMBA_OP_mul, samba_emit_lift(graph, inputs[0]), scale);
    samba_ref result = samba_emit3(graph, SAMBA_OP_where, kept, scaled, samba_emit_constant(graph, 0, wide));
    return samba_emit_cast(graph, result, dtype);
}

/* Linear in x, and the same seed drops the same elements: the gradient is the dropout of the gradient. */
samba_status samba_vjp_dropout(samba_vjp *vjp)
{
    if (vjp->needed[0])
        vjp->input_gradients[0] = samba_emit3(vjp->graph, SAMBA_OP_dropout, vjp->gradient, vjp->inputs[1], vjp->inputs[2]);
    return SAMBA_OK;
}

samba_status samba_ref_dropout(const samba_reference *reference)
{
    const samba_array *x = &reference->inputs[0];
    double p = samba_array_double(&reference->inputs[1], 0);
    uint64_t seed = (uint64_t)samba_array_int64(&reference->inputs[2], 0);
    for (int64_t i = 0; i < x->numel; i++) {
        bool kept = samba_philox_uniform(seed, (uint64_t)i) >= (float)p;
        samba_array_set_double(reference->output, i, kept ? samba_array_double(x, i) / (1 - p) : 0);
    }
    return SAMBA_OK;
}

/* ---- detach(x): x for the forward pass, a constant for the backward ---- */

samba_ref samba_expand_detach(samba_graph *graph, const samba_node *node, const samba_ref *inputs)
{
    (void)graph, (void)node;
    return inputs[0];
}

samba_status samba_ref_detach(const samba_reference *reference)
{
    const samba_array *x = &reference->inputs[0];
    memcpy(reference->output->data, x->data, (size_t)x->numel * samba_dtype_table[x->dtype].size);
    return SAMBA_OK;
}
