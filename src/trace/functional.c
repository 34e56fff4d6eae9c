/* SPDX-License-Identifier: Apache-2.0
 *
 * Layers over values that already exist, as torch.nn.functional has them. layers.c makes the parameters and calls these. */
#include "trace/trace.h"
#include <string.h>

static samba_value none_of(samba_graph *graph) { return samba_trace_value(graph, SAMBA_NONE); }

/* Enters with as many of the values as are there: a zeroed value is one that was left out. */
static bool enter(const char *what, int count, const samba_value *values, samba_graph **graph)
{
    samba_value given[4];
    int used = 0;
    for (int i = 0; i < count; i++)
        if (values[i].graph || i == 0)
            given[used++] = values[i];
    return samba_trace_enter(what, used, given, graph);
}

static samba_value fail_shape(samba_graph *graph, const char *what, const char *expected, const samba_node *input, const samba_node *weight)
{
    char input_text[SAMBA_TYPE_TEXT], weight_text[SAMBA_TYPE_TEXT];
    return samba_trace_value(graph, samba_graph_fail_at(graph, SAMBA_ERROR_SHAPE, what, "expected %s, given an input %s and a weight %s", expected,
                                                        samba_trace_format(input, input_text), samba_trace_format(weight, weight_text)));
}

samba_value samba_functional_linear(samba_value input, samba_value weight, samba_value bias)
{
    samba_graph *graph;
    if (!enter("linear", 3, (samba_value[]){input, weight, bias}, &graph))
        return none_of(graph);
    samba_node x = samba_trace_node(input), w = samba_trace_node(weight);
    if (x.rank == 0 || w.rank < 1 || w.rank > 2 || x.shape[x.rank - 1] != w.shape[w.rank - 1])
        return fail_shape(graph, "linear", "an input (..., in_features) and a weight (out_features, in_features) or (in_features)", &x, &w);
    samba_value result = samba_matmul(input, w.rank == 2 ? samba_transpose(weight, 0, 1) : weight);
    return bias.graph ? samba_add(result, bias) : result;
}

static samba_dims pair(const int64_t given[2], int64_t otherwise)
{
    return (samba_dims){.count = 2, .at = {given[0] ? given[0] : otherwise, given[1] ? given[1] : otherwise}};
}

samba_value samba_functional_conv2d(samba_value input, samba_value weight, samba_value bias, const samba_conv2d_options *options)
{
    static const samba_conv2d_options defaults;
    const samba_conv2d_options *o = options ? options : &defaults;
    samba_graph *graph;
    if (!enter("conv2d", 3, (samba_value[]){input, weight, bias}, &graph))
        return none_of(graph);
    samba_node x = samba_trace_node(input), w = samba_trace_node(weight);
    if ((x.rank != 3 && x.rank != 4) || w.rank != 4)
        return fail_shape(graph, "conv2d", "(N, C, H, W) or (C, H, W), and (out_channels, C / groups, kernel height, kernel width)", &x, &w);
    samba_ref batch = x.rank == 4 ? input.index : samba_emit_reshape(graph, input.index, 4, (int64_t[]){1, x.shape[0], x.shape[1], x.shape[2]});
    samba_attrs attrs;
    memset(&attrs, 0, sizeof attrs);
    attrs.conv2d.stride = pair(o->stride, 1);
    attrs.conv2d.padding = pair(o->padding, 0);
    attrs.conv2d.dilation = pair(o->dilation, 1);
    attrs.conv2d.groups = o->groups ? o->groups : 1;
    samba_ref y = samba_emit_cast(graph, samba_emit(graph, SAMBA_OP_conv2d, 2, (samba_ref[]){batch, weight.index}, &attrs), (samba_dtype)x.dtype);
    if (bias.graph) {
        samba_node b = samba_trace_node(bias);
        if (b.rank != 1 || b.shape[0] != w.shape[0])
            return fail_shape(graph, "conv2d", "a bias (out_channels)", &b, &w);
        y = samba_emit2(graph, SAMBA_OP_add, y, samba_emit_reshape(graph, bias.index, 4, (int64_t[]){1, w.shape[0], 1, 1}));
    }
    if (x.rank == 3 && y != SAMBA_NONE) {
        samba_node result = *samba_node_at(graph, y);
        y = samba_emit_reshape(graph, y, 3, result.shape + 1);
    }
    return samba_trace_value(graph, y);
}

samba_value samba_functional_layer_norm(samba_value input, int count, const int64_t *shape, samba_value weight, samba_value bias, double eps)
{
    samba_graph *graph;
    if (!enter("layer_norm", 3, (samba_value[]){input, weight, bias}, &graph) || !samba_trace_need_floating(input, "layer_norm"))
        return none_of(graph);
    samba_node x = samba_trace_node(input);
    if (count < 1 || count > x.rank || !samba_shape_equal(count, shape, count, x.shape + x.rank - count)) {
        char text[SAMBA_TYPE_TEXT], wanted[SAMBA_SHAPE_TEXT];
        bool known = count >= 0 && count <= SAMBA_MAX_RANK;
        return samba_trace_value(graph, samba_graph_fail_at(graph, SAMBA_ERROR_SHAPE, "layer_norm", "expected an input whose last dims are %s, given %s",
                                                            known ? samba_shape_format(count, shape, wanted, sizeof wanted) : "1 to its rank",
                                                            samba_trace_format(&x, text)));
    }
    if (!weight.graph)
        weight = samba_constant(graph, 1, (samba_dtype)x.dtype, count, shape);
    if (!bias.graph)
        bias = samba_constant(graph, 0, (samba_dtype)x.dtype, count, shape);
    samba_attrs attrs;
    memset(&attrs, 0, sizeof attrs);
    attrs.norm.dims = count;
    attrs.norm.eps = eps;
    return samba_trace_value(graph, samba_emit(graph, SAMBA_OP_layer_norm, 3, (samba_ref[]){input.index, weight.index, bias.index}, &attrs));
}

samba_value samba_functional_embedding(samba_value index, samba_value weight)
{
    samba_graph *graph;
    if (!samba_trace_enter("embedding", 2, (samba_value[]){index, weight}, &graph))
        return none_of(graph);
    return samba_trace_value(graph, samba_emit2(graph, SAMBA_OP_embedding, weight.index, index.index));
}
