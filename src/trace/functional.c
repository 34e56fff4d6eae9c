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

/* One axis of the result: where the first kernel's first and the last kernel's last element lie, without the padding. */
static bool transposed_size(int64_t size, int64_t kernel, int64_t stride, int64_t padding, int64_t more, int64_t dilation, int64_t *result)
{
    int64_t moved, reach;
    return size >= 1 && kernel >= 1 && samba_mul_checked(size - 1, stride, &moved) && samba_mul_checked(kernel - 1, dilation, &reach) &&
           samba_add_checked(moved, reach, &moved) && samba_add_checked(moved, more + 1, &moved) && padding <= moved / 2 &&
           (*result = moved - 2 * padding) >= 1;
}

samba_value samba_functional_conv_transpose2d(samba_value input, samba_value weight, samba_value bias, const samba_conv_transpose2d_options *options)
{
    static const samba_conv_transpose2d_options defaults;
    static const char what[] = "conv_transpose2d";
    const samba_conv_transpose2d_options *o = options ? options : &defaults;
    samba_graph *graph;
    if (!enter(what, 3, (samba_value[]){input, weight, bias}, &graph))
        return none_of(graph);
    samba_node x = samba_trace_node(input), w = samba_trace_node(weight);
    int first = x.rank - 3; /* the dim of channels */
    int64_t groups = o->groups ? o->groups : 1;
    if ((x.rank != 3 && x.rank != 4) || w.rank != 4 || x.shape[first] != w.shape[0])
        return fail_shape(graph, what, "(N, C, H, W) or (C, H, W), and (C, out_channels / groups, kernel height, kernel width)", &x, &w);
    samba_attrs attrs;
    memset(&attrs, 0, sizeof attrs);
    attrs.conv2d.stride = pair(o->stride, 1);
    attrs.conv2d.padding = pair(o->padding, 0);
    attrs.conv2d.dilation = pair(o->dilation, 1);
    attrs.conv2d.groups = groups;
    int64_t out_channels, shape[4] = {x.rank == 4 ? x.shape[0] : 1, 0, 0, 0};
    bool fits = groups >= 1 && samba_mul_checked(w.shape[1], groups, &out_channels);
    shape[1] = fits ? out_channels : 0;
    for (int i = 0; fits && i < 2; i++) {
        int64_t stride = attrs.conv2d.stride.at[i], dilation = attrs.conv2d.dilation.at[i], padding = attrs.conv2d.padding.at[i];
        int64_t more = o->output_padding[i];
        fits = stride >= 1 && dilation >= 1 && padding >= 0 && more >= 0 && more < (stride > dilation ? stride : dilation) &&
               transposed_size(x.shape[first + 1 + i], w.shape[2 + i], stride, padding, more, dilation, &shape[2 + i]);
    }
    if (!fits) {
        char x_text[SAMBA_TYPE_TEXT], w_text[SAMBA_TYPE_TEXT];
        return samba_trace_value(
            graph, samba_graph_fail_at(graph, SAMBA_ERROR_ARGUMENT, what,
                                       "expected stride, dilation and groups of 1 or more, output_padding below stride or dilation, and a padding that leaves "
                                       "a result, given stride (%lld, %lld), padding (%lld, %lld), output_padding (%lld, %lld), dilation (%lld, %lld), groups "
                                       "%lld, an input %s and a weight %s",
                                       (long long)attrs.conv2d.stride.at[0], (long long)attrs.conv2d.stride.at[1],
                                       (long long)attrs.conv2d.padding.at[0], (long long)attrs.conv2d.padding.at[1], (long long)o->output_padding[0],
                                       (long long)o->output_padding[1], (long long)attrs.conv2d.dilation.at[0],
                                       (long long)attrs.conv2d.dilation.at[1], (long long)groups, samba_trace_format(&x, x_text),
                                       samba_trace_format(&w, w_text)));
    }
    attrs.conv2d.shape = (samba_dims){.count = 4, .at = {shape[0], shape[1], shape[2], shape[3]}};
    samba_ref batch = x.rank == 4 ? input.index : samba_emit_reshape(graph, input.index, 4, (int64_t[]){1, x.shape[0], x.shape[1], x.shape[2]});
    samba_ref y = samba_emit(graph, SAMBA_OP_conv2d_input_grad, 2, (samba_ref[]){weight.index, batch}, &attrs);
    y = samba_emit_cast(graph, y, (samba_dtype)x.dtype);
    if (bias.graph) {
        samba_node b = samba_trace_node(bias);
        if (b.rank != 1 || b.shape[0] != shape[1])
            return fail_shape(graph, what, "a bias (out_channels)", &b, &w);
        y = samba_emit2(graph, SAMBA_OP_add, y, samba_emit_reshape(graph, bias.index, 4, (int64_t[]){1, shape[1], 1, 1}));
    }
    return samba_trace_value(graph, x.rank == 3 && y != SAMBA_NONE ? samba_emit_reshape(graph, y, 3, shape + 1) : y);
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

samba_value samba_index_add(samba_value base, samba_value index, samba_value rows)
{
    samba_graph *graph;
    if (!samba_trace_enter("index_add", 3, (samba_value[]){base, index, rows}, &graph))
        return none_of(graph);
    return samba_trace_value(graph, samba_emit3(graph, SAMBA_OP_index_add, base.index, index.index, rows.index));
}
