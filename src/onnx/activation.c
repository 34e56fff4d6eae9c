/* SPDX-License-Identifier: Apache-2.0
 *
 * Activations and softmax. */
#include "onnx/onnx.h"

#include <sambaflow/activation.h>
#include <sambaflow/elementwise.h>
#include <sambaflow/index.h>
#include <sambaflow/norm.h>
#include <sambaflow/reduce.h>
#include <sambaflow/shape.h>

#define UNARY(name, function)                                                                                                    \
    void samba_onnx_##name(samba_onnx_node *node);                                                                               \
    void samba_onnx_##name(samba_onnx_node *node)                                                                                \
    {                                                                                                                            \
        samba_value a = samba_onnx_need(node, 0);                                                                                \
        samba_onnx_out(node, 0, function(a));                                                                                    \
    }
UNARY(hard_swish, samba_hardswish)
UNARY(mish, samba_mish)
UNARY(relu, samba_relu)
UNARY(sigmoid, samba_sigmoid)
UNARY(softplus, samba_softplus)
UNARY(softsign, samba_softsign)

void samba_onnx_gelu(samba_onnx_node *node);
void samba_onnx_gelu(samba_onnx_node *node)
{
    static const char *const forms[] = {"none", "tanh", NULL};
    samba_value a = samba_onnx_need(node, 0);
    int form = samba_onnx_choice(node, "approximate", "none", forms);
    samba_onnx_out(node, 0, form ? samba_gelu_tanh(a) : samba_gelu(a));
}

/* a sigmoid(alpha a) */
static samba_value swish(samba_onnx_node *node, samba_value a, double alpha)
{
    if (alpha == 1)
        return samba_silu(a);
    samba_value factor = samba_onnx_number(node, alpha), scaled = samba_mul(a, factor), gate = samba_sigmoid(scaled);
    return samba_mul(a, gate);
}

void samba_onnx_swish(samba_onnx_node *node);
void samba_onnx_swish(samba_onnx_node *node)
{
    samba_value a = samba_onnx_need(node, 0);
    samba_onnx_out(node, 0, swish(node, a, samba_onnx_float(node, "alpha", 1)));
}

/* a sigmoid(alpha a) b */
void samba_onnx_swiglu(samba_onnx_node *node);
void samba_onnx_swiglu(samba_onnx_node *node)
{
    samba_value a = samba_onnx_need(node, 0), b = samba_onnx_need(node, 1);
    double alpha = samba_onnx_float(node, "alpha", 1);
    if (node->refused)
        return;
    samba_value curve = swish(node, a, alpha);
    samba_onnx_out(node, 0, samba_mul(curve, b));
}

void samba_onnx_elu(samba_onnx_node *node);
void samba_onnx_elu(samba_onnx_node *node)
{
    samba_value a = samba_onnx_need(node, 0);
    samba_onnx_out(node, 0, samba_elu(a, samba_onnx_float(node, "alpha", 1)));
}

void samba_onnx_celu(samba_onnx_node *node);
void samba_onnx_celu(samba_onnx_node *node)
{
    samba_value a = samba_onnx_need(node, 0);
    samba_onnx_out(node, 0, samba_celu(a, samba_onnx_float(node, "alpha", 1)));
}

/* gamma (alpha exp(x) - alpha) of what is not positive, gamma x of the rest */
void samba_onnx_selu(samba_onnx_node *node);
void samba_onnx_selu(samba_onnx_node *node)
{
    samba_value a = samba_onnx_need(node, 0);
    double alpha = samba_onnx_float(node, "alpha", 1.67326319217681884765625),
           gamma = samba_onnx_float(node, "gamma", 1.05070102214813232421875);
    if (node->refused)
        return;
    samba_value factor = samba_onnx_number(node, gamma), curve = samba_elu(a, alpha);
    samba_onnx_out(node, 0, samba_mul(curve, factor));
}

void samba_onnx_leaky_relu(samba_onnx_node *node);
void samba_onnx_leaky_relu(samba_onnx_node *node)
{
    samba_value a = samba_onnx_need(node, 0);
    samba_onnx_out(node, 0, samba_leaky_relu(a, samba_onnx_float(node, "alpha", 0.01)));
}

/* The slope broadcasts to x; until version 6 it is one number, or one a channel. */
void samba_onnx_prelu(samba_onnx_node *node);
void samba_onnx_prelu(samba_onnx_node *node)
{
    samba_value a = samba_onnx_need(node, 0), slope = samba_onnx_need(node, 1);
    if (node->refused)
        return;
    if (node->version < 7 && samba_value_rank(a) > 2 && samba_value_rank(slope) == 1) {
        int64_t shape[SAMBA_MAX_RANK] = {samba_value_size(slope, 0)};
        for (int i = 1; i < samba_value_rank(a) - 1; i++)
            shape[i] = 1;
        slope = samba_reshape(slope, samba_value_rank(a) - 1, shape);
    }
    samba_value zero = samba_onnx_like(node, 0, a), scaled = samba_mul(a, slope), negative = samba_lt(a, zero);
    samba_onnx_out(node, 0, samba_where(negative, scaled, a));
}

void samba_onnx_thresholded_relu(samba_onnx_node *node);
void samba_onnx_thresholded_relu(samba_onnx_node *node)
{
    samba_value a = samba_onnx_need(node, 0);
    samba_onnx_out(node, 0, samba_threshold(a, samba_onnx_float(node, "alpha", 1), 0));
}

/* max(0, min(1, alpha x + beta)) */
void samba_onnx_hard_sigmoid(samba_onnx_node *node);
void samba_onnx_hard_sigmoid(samba_onnx_node *node)
{
    samba_value a = samba_onnx_need(node, 0);
    double alpha = samba_onnx_float(node, "alpha", 0.2), beta = samba_onnx_float(node, "beta", 0.5);
    if (node->refused)
        return;
    if (beta == 0.5 && (float)alpha == 1.0f / 6) { /* PyTorch's */
        samba_onnx_out(node, 0, samba_hardsigmoid(a));
        return;
    }
    samba_value factor = samba_onnx_number(node, alpha), shift = samba_onnx_number(node, beta), zero = samba_onnx_number(node, 0),
                one = samba_onnx_number(node, 1);
    samba_value scaled = samba_mul(a, factor), line = samba_add(scaled, shift);
    samba_onnx_out(node, 0, samba_clamp(line, zero, one));
}

/* x + bias below -lambd, x - bias above lambd, 0 between */
void samba_onnx_shrink(samba_onnx_node *node);
void samba_onnx_shrink(samba_onnx_node *node)
{
    samba_value a = samba_onnx_need(node, 0);
    double lambd = samba_onnx_float(node, "lambd", 0.5), bias = samba_onnx_float(node, "bias", 0);
    if (node->refused)
        return;
    samba_dtype dtype = samba_value_dtype(a);
    samba_value low = samba_onnx_number(node, -lambd), high = samba_onnx_number(node, lambd),
                amount = samba_onnx_number(node, bias);
    samba_value below = samba_lt(a, low), above = samba_gt(a, high), zero = samba_onnx_like(node, 0, a);
    samba_value up = samba_add(a, amount), down = samba_sub(a, amount);
    samba_value upper = samba_cast(up, dtype), lower = samba_cast(down, dtype), rest = samba_where(above, lower, zero);
    samba_onnx_out(node, 0, samba_where(below, upper, rest));
}

/* ---- softmax: until version 12 over all dims from the axis on, as one ---- */

static void along_axis(samba_onnx_node *node, samba_value (*function)(samba_value, int))
{
    samba_value a = samba_onnx_need(node, 0);
    if (node->refused)
        return;
    bool flat = node->version < 13;
    int rank = samba_value_rank(a), axis = samba_onnx_axis(node, "axis", flat && rank > 1 ? 1 : -1, rank ? rank : 1);
    if (axis < 0)
        return;
    if (!flat || axis == rank - 1 || rank == 0) {
        samba_onnx_out(node, 0, function(a, axis));
        return;
    }
    int64_t shape[SAMBA_MAX_RANK];
    samba_onnx_shape(a, shape);
    samba_value rows = samba_flatten(a, axis, rank - 1), result = function(rows, axis);
    samba_onnx_out(node, 0, samba_reshape(result, rank, shape));
}

void samba_onnx_softmax(samba_onnx_node *node);
void samba_onnx_softmax(samba_onnx_node *node) { along_axis(node, samba_softmax); }
void samba_onnx_log_softmax(samba_onnx_node *node);
void samba_onnx_log_softmax(samba_onnx_node *node) { along_axis(node, samba_log_softmax); }

/* 1 at the first greatest element, 0 elsewhere */
static samba_value hardmax(samba_value a, int dim)
{
    int64_t classes = samba_value_size(a, dim);
    samba_value index = samba_argmax(a, dim, false), ones = samba_one_hot(index, classes);
    int source = -1, destination = dim;
    samba_value moved = samba_movedim(ones, 1, &source, &destination);
    return samba_cast(moved, samba_value_dtype(a));
}
void samba_onnx_hardmax(samba_onnx_node *node);
void samba_onnx_hardmax(samba_onnx_node *node) { along_axis(node, hardmax); }
