/* SPDX-License-Identifier: Apache-2.0
 *
 * Convolutions, plain and transposed, over values. */
#include "trace/trace.h"

#include <sambaflow/conv.h>
#include <string.h>

static samba_dims pair(const int64_t given[2], int64_t otherwise)
{
    return (samba_dims){.count = 2, .at = {given[0] ? given[0] : otherwise, given[1] ? given[1] : otherwise}};
}

samba_value samba_functional_conv2d(samba_value input, samba_value weight, samba_value bias, const samba_conv2d_options *options)
{
    static const samba_conv2d_options defaults;
    const samba_conv2d_options *o = options ? options : &defaults;
    samba_graph *graph;
    if (!samba_trace_enter_optional("conv2d", 3, (samba_value[]){input, weight, bias}, &graph))
        return samba_trace_none(graph);
    samba_node x = samba_trace_node(input), w = samba_trace_node(weight);
    if ((x.rank != 3 && x.rank != 4) || w.rank != 4)
        return samba_trace_fail_shape(graph, "conv2d", "(N, C, H, W) or (C, H, W), and (out_channels, C / groups, kernel height, kernel width)", &x, &w);
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
            return samba_trace_fail_shape(graph, "conv2d", "a bias (out_channels)", &b, &w);
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
    if (!samba_trace_enter_optional(what, 3, (samba_value[]){input, weight, bias}, &graph))
        return samba_trace_none(graph);
    samba_node x = samba_trace_node(input), w = samba_trace_node(weight);
    int first = x.rank - 3; /* the dim of channels */
    int64_t groups = o->groups ? o->groups : 1;
    if ((x.rank != 3 && x.rank != 4) || w.rank != 4 || x.shape[first] != w.shape[0])
        return samba_trace_fail_shape(graph, what, "(N, C, H, W) or (C, H, W), and (C, out_channels / groups, kernel height, kernel width)", &x, &w);
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
            return samba_trace_fail_shape(graph, what, "a bias (out_channels)", &b, &w);
        y = samba_emit2(graph, SAMBA_OP_add, y, samba_emit_reshape(graph, bias.index, 4, (int64_t[]){1, shape[1], 1, 1}));
    }
    return samba_trace_value(graph, x.rank == 3 && y != SAMBA_NONE ? samba_emit_reshape(graph, y, 3, shape + 1) : y);
}
