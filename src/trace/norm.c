/* SPDX-License-Identifier: Apache-2.0
 *
 * Softmax and normalizations over values. */
#include "trace/trace.h"

#include <sambaflow/elementwise.h>
#include <sambaflow/norm.h>
#include <float.h>

static samba_value along(samba_op op, samba_value a, int dim)
{
    samba_graph *graph;
    int at;
    if (!samba_trace_enter(samba_op_table[op].name, 1, &a, &graph))
        return samba_trace_none(graph);
    int rank = samba_node_at(graph, a.index)->rank;
    if (!samba_trace_dim(graph, samba_op_table[op].name, rank, dim, &at))
        return samba_trace_value(graph, SAMBA_NONE);
    samba_attrs attrs = {.axis = {.dim = at}};
    samba_ref input =
        rank == 0 ? samba_emit_reshape(graph, a.index, 1, (int64_t[]){1}) : a.index; /* one element is a dim of one */
    samba_ref result = samba_emit(graph, op, 1, &input, &attrs);
    return samba_trace_value(graph, rank == 0 ? samba_emit_reshape(graph, result, 0, NULL) : result);
}

samba_value samba_softmax(samba_value a, int dim) { return along(SAMBA_OP_softmax, a, dim); }
samba_value samba_log_softmax(samba_value a, int dim) { return along(SAMBA_OP_log_softmax, a, dim); }

samba_value samba_softmin(samba_value a, int dim)
{
    samba_graph *graph;
    if (!samba_trace_enter("softmin", 1, &a, &graph))
        return samba_trace_none(graph);
    SAMBA_SPEAKS(graph, "softmin");
    return samba_softmax(samba_neg(a), dim);
}

/* ---- over the last dims ---- */

/* The last `count` dims of the input are `shape`, of which there is at least one. */
static bool need_last_dims(samba_graph *graph, const char *what, const samba_node *x, int count, const int64_t *shape)
{
    if (count >= 1 && count <= x->rank && shape && samba_shape_equal(count, shape, count, x->shape + x->rank - count))
        return true;
    bool known = shape && count >= 0 && count <= SAMBA_MAX_RANK;
    return samba_graph_refuse(graph, SAMBA_ERROR_SHAPE, what,
                              "expected an input whose last dims are %s, as normalized_shape has them, given %s",
                              known ? SAMBA_SHAPE(count, shape) : "1 to its rank", SAMBA_TYPE_OF(x));
}

samba_value samba_functional_layer_norm(samba_value input, int count, const int64_t *shape, samba_value weight, samba_value bias,
                                        double eps)
{
    samba_graph *graph;
    if (!samba_trace_enter_optional("layer_norm", 3, (samba_value[]){input, weight, bias}, &graph) ||
        !samba_trace_need_floating(input, "layer_norm"))
        return samba_trace_none(graph);
    samba_node x = samba_trace_node(input);
    if (!need_last_dims(graph, "layer_norm", &x, count, shape))
        return samba_trace_none(graph);
    if (!weight.graph)
        weight = samba_constant(graph, 1, x.dtype, count, shape);
    if (!bias.graph)
        bias = samba_constant(graph, 0, x.dtype, count, shape);
    samba_attrs attrs = {.norm = {.dims = count, .eps = eps}};
    return samba_trace_value(
        graph, samba_emit(graph, SAMBA_OP_layer_norm, 3, (samba_ref[]){input.index, weight.index, bias.index}, &attrs));
}

samba_value samba_functional_rms_norm(samba_value input, int count, const int64_t *shape, samba_value weight, double eps)
{
    samba_graph *graph;
    if (!samba_trace_enter_optional("rms_norm", 2, (samba_value[]){input, weight}, &graph) ||
        !samba_trace_need_floating(input, "rms_norm"))
        return samba_trace_none(graph);
    samba_node x = samba_trace_node(input);
    if (!need_last_dims(graph, "rms_norm", &x, count, shape))
        return samba_trace_none(graph);
    if (!weight.graph)
        weight = samba_constant(graph, 1, x.dtype, count, shape);
    samba_attrs attrs = {.norm = {.dims = count, .eps = eps < 0 ? (x.dtype == SAMBA_FLOAT64 ? DBL_EPSILON : FLT_EPSILON) : eps}};
    return samba_trace_value(graph, samba_emit(graph, SAMBA_OP_rms_norm, 2, (samba_ref[]){input.index, weight.index}, &attrs));
}

/* ---- over groups of channels ---- */

samba_value samba_functional_group_norm(samba_value input, int64_t num_groups, samba_value weight, samba_value bias, double eps)
{
    samba_graph *graph;
    if (!samba_trace_enter_optional("group_norm", 3, (samba_value[]){input, weight, bias}, &graph) ||
        !samba_trace_need_floating(input, "group_norm"))
        return samba_trace_none(graph);
    samba_node x = samba_trace_node(input);
    int64_t channels = x.rank > 1 ? x.shape[1] : 0;
    if (!weight.graph)
        weight = samba_constant(graph, 1, x.dtype, 1, &channels);
    if (!bias.graph)
        bias = samba_constant(graph, 0, x.dtype, 1, &channels);
    samba_attrs attrs = {.group_norm = {.groups = num_groups, .eps = eps}};
    return samba_trace_value(
        graph, samba_emit(graph, SAMBA_OP_group_norm, 3, (samba_ref[]){input.index, weight.index, bias.index}, &attrs));
}
