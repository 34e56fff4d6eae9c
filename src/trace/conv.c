/* SPDX-License-Identifier: Apache-2.0
 *
 * Convolutions, plain and transposed, over values. One dim of space is two with a height of 1; a transposed convolution is the
 * gradient of a plain one to its input. 16-bit floats are rounded once, after the bias. */
#include "trace/trace.h"

#include <sambaflow/conv.h>
#include <string.h>

typedef struct layout { /* of one call; arrays have an entry for each dim of space */
    const char *what;
    int spatial;
    const int64_t *stride, *padding, *output_padding, *dilation;
    int64_t groups;
    bool same;
} layout;

/* The shapes that errors ask for, by the dims of space. */
static const char *const input_shapes[] = {"(N, C, L) or (C, L)", "(N, C, H, W) or (C, H, W)", "(N, C, D, H, W) or (C, D, H, W)"};
static const char *const weight_shapes[] = {"(out_channels, C / groups, kernel length)",
                                            "(out_channels, C / groups, kernel height, kernel width)",
                                            "(out_channels, C / groups, kernel depth, kernel height, kernel width)"};
static const char *const transposed_shapes[] = {
    "(N, C, L) or (C, L), and (C, out_channels / groups, kernel length)",
    "(N, C, H, W) or (C, H, W), and (C, out_channels / groups, kernel height, kernel width)",
    "(N, C, D, H, W) or (C, D, H, W), and (C, out_channels / groups, kernel depth, kernel height, kernel width)"};

/* Numbers for each of the operator's dims of space, 2 or 3: given, or where they are 0 the default;
 * `dull` for a height that is not there. */
static samba_dims numbers(const layout *l, const int64_t *given, int64_t otherwise, int64_t dull)
{
    samba_dims dims = {.count = l->spatial == 3 ? 3 : 2};
    int first = l->spatial == 1 ? 1 : 0;
    dims.at[0] = dull;
    for (int i = 0; i < l->spatial; i++)
        dims.at[first + i] = given[i] ? given[i] : otherwise;
    return dims;
}

static samba_attrs attributes(const layout *l)
{
    samba_attrs attrs = {.conv = {.stride = numbers(l, l->stride, 1, 1),
                                  .padding = numbers(l, l->padding, 0, 0),
                                  .dilation = numbers(l, l->dilation, 1, 1),
                                  .groups = l->groups ? l->groups : 1}};
    return attrs;
}

/* (N, C, space...) as operators take it: with a batch, and with a height where there is one dim of space. */
static samba_ref with_all_dims(samba_graph *graph, samba_ref ref, const samba_node *node, int spatial)
{
    int64_t shape[SAMBA_MAX_RANK];
    int rank = 0, before = node->rank - spatial; /* dims before space */
    if (before == 1)
        shape[rank++] = 1;
    for (int i = 0; i < before; i++)
        shape[rank++] = node->shape[i];
    if (spatial == 1)
        shape[rank++] = 1;
    for (int i = 0; i < spatial; i++)
        shape[rank++] = node->shape[before + i];
    return samba_emit_reshape(graph, ref, rank, shape);
}

/* Inputs of one dtype; messages call the only dim of space its length. */
static bool one_dtype(samba_graph *graph, const layout *l, const samba_node *x, const samba_node *w)
{
    if (x->dtype == w->dtype)
        return true;
    return samba_graph_refuse(graph, SAMBA_ERROR_DTYPE, l->what,
                              "expected an input and a weight of one dtype, given %s and %s; cast one of them",
                              samba_dtype_name(x->dtype), samba_dtype_name(w->dtype));
}

static samba_ref emit(samba_graph *graph, const layout *l, samba_op op, samba_ref a, samba_ref b, const samba_attrs *attrs)
{
    static const char *const of_rows[] = {"height", "length"};
    graph->axes = l->spatial == 1 ? of_rows : NULL;
    samba_ref result = samba_emit(graph, op, 2, (samba_ref[]){a, b}, attrs);
    graph->axes = NULL;
    return result;
}

/* Back to the dims of the input; and before that the bias, and one rounding. */
static samba_value finish(samba_graph *graph, const layout *l, samba_ref y, const samba_node *x, samba_value bias)
{
    if (y == SAMBA_NONE)
        return samba_trace_none(graph);
    samba_node result = *samba_node_at(graph, y);
    if (bias.graph) {
        samba_node b = samba_trace_node(bias);
        if (b.rank != 1 || b.shape[0] != result.shape[1])
            return samba_trace_fail(graph, SAMBA_ERROR_SHAPE, l->what,
                                    "expected a bias (%lld), a number for each channel of the result, given %s",
                                    (long long)result.shape[1], SAMBA_TYPE_OF(&b));
        if (b.dtype != x->dtype)
            return samba_trace_fail(graph, SAMBA_ERROR_DTYPE, l->what, "expected a bias of the input's dtype %s, given %s",
                                    samba_dtype_name(x->dtype), samba_dtype_name(b.dtype));
        int64_t shape[SAMBA_MAX_RANK] = {1, b.shape[0], 1, 1, 1};
        samba_ref wide = samba_emit_cast(graph, bias.index, result.dtype);
        y = samba_emit2(graph, SAMBA_OP_add, y, samba_emit_reshape(graph, wide, result.rank, shape));
    }
    y = samba_emit_cast(graph, y, x->dtype);
    int64_t shape[SAMBA_MAX_RANK];
    int rank = 0;
    for (int i = x->rank == l->spatial + 1 ? 1 : 0; i < result.rank; i++)
        if (l->spatial != 1 || i != 2)
            shape[rank++] = result.shape[i];
    return samba_trace_value(graph, samba_emit_reshape(graph, y, rank, shape));
}

static samba_ref pad_behind(samba_graph *graph, samba_ref a, const int64_t *more)
{
    samba_node node = *samba_node_at(graph, a);
    samba_attrs attrs = {.pad = {.before.count = node.rank, .after.count = node.rank, .interior.count = node.rank}};
    memcpy(attrs.pad.after.at + 2, more, (size_t)(node.rank - 2) * sizeof *more);
    return samba_emit(graph, SAMBA_OP_pad, 1, &a, &attrs);
}

/* padding='same': half of what the kernel reaches over on each side, what is odd behind. */
static bool pad_same(samba_graph *graph, const layout *l, const samba_node *w, samba_attrs *attrs, samba_ref *batch)
{
    int first = l->spatial == 1 ? 1 : 0;
    int64_t more[3] = {0};
    bool odd = false;
    for (int i = 0; i < l->spatial; i++) {
        int64_t reach;
        if (attrs->conv.stride.at[first + i] != 1 || attrs->conv.padding.at[first + i] != 0 ||
            !samba_mul_checked(attrs->conv.dilation.at[first + i], w->shape[2 + i] - 1, &reach) || reach < 0)
            return samba_graph_refuse(graph, SAMBA_ERROR_ARGUMENT, l->what,
                                      "padding 'same' needs stride 1, no padding and a dilation of 1 or more, given stride %lld, "
                                      "padding %lld and dilation %lld",
                                      (long long)attrs->conv.stride.at[first + i], (long long)attrs->conv.padding.at[first + i],
                                      (long long)attrs->conv.dilation.at[first + i]);
        attrs->conv.padding.at[first + i] = reach / 2;
        more[first + i] = reach % 2;
        odd = odd || reach % 2;
    }
    if (odd)
        *batch = pad_behind(graph, *batch, more);
    return true;
}

/* A batch of images of one channel, (N, H, W), is the most usual mistake: it reads as one image of N channels. */
static bool fitting_dims(samba_graph *graph, const layout *l, const samba_node *x, const samba_node *w)
{
    const int64_t groups = l->groups ? l->groups : 1;
    if (w->rank != l->spatial + 2)
        return samba_graph_refuse(graph, SAMBA_ERROR_SHAPE, l->what,
                                  "the weight %s has %d dim%s, expected %d, %s, for the input %s: give such a weight",
                                  SAMBA_TYPE_OF(w), w->rank, w->rank == 1 ? "" : "s", l->spatial + 2,
                                  weight_shapes[l->spatial - 1], SAMBA_TYPE_OF(x));
    if (x->rank != l->spatial + 1 && x->rank != l->spatial + 2)
        return samba_graph_refuse(graph, SAMBA_ERROR_SHAPE, l->what,
                                  "the input %s has %d dim%s, expected %s, for the weight %s: unsqueeze or reshape the input",
                                  SAMBA_TYPE_OF(x), x->rank, x->rank == 1 ? "" : "s", input_shapes[l->spatial - 1],
                                  SAMBA_TYPE_OF(w));
    if (x->rank == l->spatial + 1 && w->shape[1] == 1 && groups == 1 && x->shape[0] != 1)
        return samba_graph_refuse(graph, SAMBA_ERROR_SHAPE, l->what,
                                  "the input %s is one sample of %lld channels, and the weight %s takes 1 channel: where it is a "
                                  "batch without channels, give x.unsqueeze(1)",
                                  SAMBA_TYPE_OF(x), (long long)x->shape[0], SAMBA_TYPE_OF(w));
    return true;
}

static samba_value convolve(const layout *l, samba_value input, samba_value weight, samba_value bias)
{
    samba_graph *graph;
    if (!samba_trace_enter_optional(l->what, 3, (samba_value[]){input, weight, bias}, &graph))
        return samba_trace_none(graph);
    SAMBA_SPEAKS(graph, l->what);
    samba_node x = samba_trace_node(input), w = samba_trace_node(weight);
    if (!fitting_dims(graph, l, &x, &w))
        return samba_trace_none(graph);
    if (!one_dtype(graph, l, &x, &w))
        return samba_trace_none(graph);
    samba_attrs attrs = attributes(l);
    samba_ref batch = with_all_dims(graph, input.index, &x, l->spatial),
              kernel = with_all_dims(graph, weight.index, &w, l->spatial);
    if (l->same && !pad_same(graph, l, &w, &attrs, &batch))
        return samba_trace_none(graph);
    samba_op op = l->spatial == 3 ? SAMBA_OP_conv3d : SAMBA_OP_conv2d;
    return finish(graph, l, emit(graph, l, op, batch, kernel, &attrs), &x, bias);
}

/* One axis of the result: where the first kernel's first and the last kernel's last element lie, without the padding. */
static bool transposed_size(int64_t size, int64_t kernel, int64_t stride, int64_t padding, int64_t more, int64_t dilation,
                            int64_t *result)
{
    int64_t moved, reach;
    return size >= 1 && kernel >= 1 && samba_mul_checked(size - 1, stride, &moved) &&
           samba_mul_checked(kernel - 1, dilation, &reach) && samba_add_checked(moved, reach, &moved) &&
           samba_add_checked(moved, more + 1, &moved) && padding <= moved / 2 && (*result = moved - 2 * padding) >= 1;
}

static samba_value fail_transposed(samba_graph *graph, const layout *l, const samba_attrs *attrs, const samba_node *x,
                                   const samba_node *w)
{
    char numbers_text[4][SAMBA_SHAPE_TEXT];
    int first = l->spatial == 1 ? 1 : 0;
    const int64_t *lists[4] = {attrs->conv.stride.at + first, attrs->conv.padding.at + first, l->output_padding,
                               attrs->conv.dilation.at + first};
    for (int i = 0; i < 4; i++)
        samba_shape_format(l->spatial, lists[i], numbers_text[i], sizeof numbers_text[i]);
    return samba_trace_fail(
        graph, SAMBA_ERROR_ARGUMENT, l->what,
        "expected stride, dilation and groups of 1 or more, output_padding below stride or dilation, and a padding that leaves "
        "a result, given stride %s, padding %s, output_padding %s, dilation %s, groups %lld, an input %s and a weight %s",
        numbers_text[0], numbers_text[1], numbers_text[2], numbers_text[3], (long long)attrs->conv.groups, SAMBA_TYPE_OF(x),
        SAMBA_TYPE_OF(w));
}

static samba_value transposed(const layout *l, samba_value input, samba_value weight, samba_value bias)
{
    samba_graph *graph;
    if (!samba_trace_enter_optional(l->what, 3, (samba_value[]){input, weight, bias}, &graph))
        return samba_trace_none(graph);
    SAMBA_SPEAKS(graph, l->what);
    samba_node x = samba_trace_node(input), w = samba_trace_node(weight);
    /* the dim of channels; the first of space in attributes */
    int channels = x.rank - l->spatial - 1, first = l->spatial == 1 ? 1 : 0;
    if ((channels != 0 && channels != 1) || w.rank != l->spatial + 2 || x.shape[channels] != w.shape[0])
        return samba_trace_fail_shape(graph, l->what, transposed_shapes[l->spatial - 1], &x, &w);
    if (!one_dtype(graph, l, &x, &w))
        return samba_trace_none(graph);
    samba_attrs attrs = attributes(l);
    samba_dims *shape = &attrs.conv.shape;
    *shape = (samba_dims){.count = attrs.conv.stride.count + 2, .at = {channels == 1 ? x.shape[0] : 1, 0, 1}};
    bool fits = attrs.conv.groups >= 1 && samba_mul_checked(w.shape[1], attrs.conv.groups, &shape->at[1]);
    for (int i = 0; fits && i < l->spatial; i++) {
        int64_t stride = attrs.conv.stride.at[first + i], dilation = attrs.conv.dilation.at[first + i],
                more = l->output_padding[i];
        int64_t padding = attrs.conv.padding.at[first + i];
        fits = stride >= 1 && dilation >= 1 && padding >= 0 && more >= 0 && more < (stride > dilation ? stride : dilation) &&
               transposed_size(x.shape[channels + 1 + i], w.shape[2 + i], stride, padding, more, dilation,
                               &shape->at[2 + first + i]);
    }
    if (!fits)
        return fail_transposed(graph, l, &attrs, &x, &w);
    samba_ref batch = with_all_dims(graph, input.index, &x, l->spatial),
              kernel = with_all_dims(graph, weight.index, &w, l->spatial);
    samba_op op = l->spatial == 3 ? SAMBA_OP_conv3d_input_grad : SAMBA_OP_conv2d_input_grad;
    return finish(graph, l, emit(graph, l, op, kernel, batch, &attrs), &x, bias);
}

/* ---- the public functions: one layout each ---- */

/* `of` is how the layout reaches the options' numbers: & of one, nothing of an array. */
#define CONVOLUTION(name, spatial, of)                                                                                           \
    samba_value samba_functional_##name(samba_value input, samba_value weight, samba_value bias,                                 \
                                        const samba_##name##_options *options)                                                   \
    {                                                                                                                            \
        static const samba_##name##_options defaults;                                                                            \
        const samba_##name##_options *o = options ? options : &defaults;                                                         \
        const layout l = {#name, spatial, of o->stride, of o->padding, NULL, of o->dilation, o->groups, o->same};                \
        return convolve(&l, input, weight, bias);                                                                                \
    }
CONVOLUTION(conv1d, 1, &)
CONVOLUTION(conv2d, 2, )
CONVOLUTION(conv3d, 3, )

#define TRANSPOSED(name, spatial, of)                                                                                            \
    samba_value samba_functional_##name(samba_value input, samba_value weight, samba_value bias,                                 \
                                        const samba_##name##_options *options)                                                   \
    {                                                                                                                            \
        static const samba_##name##_options defaults;                                                                            \
        const samba_##name##_options *o = options ? options : &defaults;                                                         \
        const layout l = {#name, spatial, of o->stride, of o->padding, of o->output_padding, of o->dilation, o->groups, false};  \
        return transposed(&l, input, weight, bias);                                                                              \
    }
TRANSPOSED(conv_transpose1d, 1, &)
TRANSPOSED(conv_transpose2d, 2, )
TRANSPOSED(conv_transpose3d, 3, )
