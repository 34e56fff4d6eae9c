/* SPDX-License-Identifier: Apache-2.0
 *
 * Convolution layers, plain and transposed: weight and bias by name around the functions of conv.h, which check the rest.
 * The initial distribution is that of torch.nn's _ConvNd: uniform within 1 / sqrt(fan_in), where the fan_in of a transposed
 * weight counts its own second dim. */
#include "trace/trace.h"

#include <sambaflow/conv.h>
#include <sambaflow/layers.h>
#include <math.h>

typedef struct parameters {
    samba_graph *graph;
    samba_value weight, bias;
} parameters;

/* Opens the layer's scope and makes its parameters; false after an error. */
static bool begin(parameters *p, const char *what, samba_value input, const char *name, int space, int64_t out_channels,
                  const int64_t *kernel, int64_t groups, bool no_bias, bool transposed)
{
    if (!samba_trace_enter_layer(what, &input, name, true, &p->graph))
        return false;
    samba_graph *g = p->graph;
    samba_node x = samba_trace_node(input);
    int64_t channels = x.rank > space ? x.shape[x.rank - space - 1] : 0, shape[5], fan_in;
    groups = groups ? groups : 1;
    bool fits = (x.rank == space + 1 || x.rank == space + 2) && kernel && groups >= 1 && out_channels >= 1 &&
                channels % groups == 0 && out_channels % groups == 0;
    for (int i = 0; fits && i < space; i++)
        fits = kernel[i] >= 1;
    if (!fits)
        return samba_graph_refuse(
            g, SAMBA_ERROR_SHAPE, what,
            "expected an input (N, C, ...) or (C, ...) with %d dims of space, kernel sizes of 1 or more, and "
            "groups that divide both channel counts; given %s, a kernel %s, %lld output channels, %lld groups",
            space, SAMBA_TYPE_OF(&x), kernel ? SAMBA_SHAPE(space, kernel) : "NULL", (long long)out_channels, (long long)groups);
    shape[0] = transposed ? channels : out_channels;
    fan_in = shape[1] = (transposed ? out_channels : channels) / groups;
    for (int i = 0; i < space; i++)
        fan_in *= shape[2 + i] = kernel[i];
    double bound = fan_in > 0 ? 1 / sqrt((double)fan_in) : 0;
    samba_initializer initializer = {SAMBA_INIT_UNIFORM, -bound, bound};
    p->weight = samba_parameter(g, "weight", x.dtype, space + 2, shape, initializer);
    p->bias = no_bias ? (samba_value){NULL, 0, 0} : samba_parameter(g, "bias", x.dtype, 1, &out_channels, initializer);
    return g->status == SAMBA_OK;
}

/* padding_mode: what stands in the padding is put around the input, and nothing is padded any more.
 * padding='same' puts what is odd behind. */
static samba_value pad_input(const parameters *p, const char *what, samba_value input, int space, samba_pad_mode mode,
                             int64_t *padding, bool *same, const int64_t *dilation, const int64_t *stride)
{
    if (mode == SAMBA_PAD_CONSTANT || p->graph->status != SAMBA_OK)
        return input;
    int64_t amounts[6], reach;
    for (int i = 0; i < space; i++) {
        int64_t before = padding[i], after = padding[i];
        if (*same) {
            if ((stride[i] ? stride[i] : 1) != 1 || padding[i] != 0 ||
                !samba_mul_checked(dilation[i] ? dilation[i] : 1, samba_value_size(p->weight, 2 + i) - 1, &reach) || reach < 0)
                return samba_trace_fail(
                    p->graph, SAMBA_ERROR_ARGUMENT, what,
                    "padding 'same' needs stride 1, no padding and a dilation of 1 or more, given stride %lld, "
                    "padding %lld and dilation %lld",
                    (long long)stride[i], (long long)padding[i], (long long)dilation[i]);
            before = reach / 2;
            after = reach - before;
        }
        amounts[2 * (space - 1 - i)] = before;
        amounts[2 * (space - 1 - i) + 1] = after;
        padding[i] = 0;
    }
    *same = false;
    return samba_pad(input, space, amounts, mode, 0);
}

#define LAYER(layer, functional, options_type, space, transposed, padded)                                                        \
    samba_value layer(samba_value input, const char *name, int64_t out_channels, const int64_t kernel[space],                    \
                      const options_type *options)                                                                               \
    {                                                                                                                            \
        options_type o = {0};                                                                                                    \
        parameters p;                                                                                                            \
        if (options)                                                                                                             \
            o = *options;                                                                                                        \
        if (!begin(&p, &#layer[6], input, name, space, out_channels, kernel, o.groups, o.no_bias, transposed))                   \
            return samba_trace_none(p.graph);                                                                                    \
        samba_value y = functional(padded, p.weight, p.bias, &o);                                                                \
        samba_scope_pop(p.graph);                                                                                                \
        return y;                                                                                                                \
    }
#define PADDED(what, space) pad_input(&p, what, input, space, o.padding_mode, o.padding, &o.same, o.dilation, o.stride)

LAYER(samba_conv1d, samba_functional_conv1d, samba_conv1d_options, 1, false,
      pad_input(&p, "conv1d", input, 1, o.padding_mode, &o.padding, &o.same, &o.dilation, &o.stride))
LAYER(samba_conv2d, samba_functional_conv2d, samba_conv2d_options, 2, false, PADDED("conv2d", 2))
LAYER(samba_conv3d, samba_functional_conv3d, samba_conv3d_options, 3, false, PADDED("conv3d", 3))
LAYER(samba_conv_transpose1d, samba_functional_conv_transpose1d, samba_conv_transpose1d_options, 1, true, input)
LAYER(samba_conv_transpose2d, samba_functional_conv_transpose2d, samba_conv_transpose2d_options, 2, true, input)
LAYER(samba_conv_transpose3d, samba_functional_conv_transpose3d, samba_conv_transpose3d_options, 3, true, input)
