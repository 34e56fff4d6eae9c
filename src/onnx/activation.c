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
    void onnx_##name(onnx_node *node);                                                                                           \
    void onnx_##name(onnx_node *node)                                                                                            \
    {                                                                                                                            \
        samba_value a = onnx_need(node, 0);                                                                                      \
        onnx_out(node, 0, function(a));                                                                                          \
    }
UNARY(hard_swish, samba_hardswish)
UNARY(mish, samba_mish)
UNARY(relu, samba_relu)
UNARY(sigmoid, samba_sigmoid)
UNARY(softsign, samba_softsign)

void onnx_softplus(onnx_node *node);
void onnx_softplus(onnx_node *node)
{
    samba_value a = onnx_need(node, 0);
    onnx_out(node, 0, samba_softplus(a));
}

void onnx_gelu(onnx_node *node);
void onnx_gelu(onnx_node *node)
{
    static const char *const forms[] = {"none", "tanh", NULL};
    samba_value a = onnx_need(node, 0);
    int form = onnx_choice(node, "approximate", "none", forms);
    onnx_out(node, 0, form ? samba_gelu_tanh(a) : samba_gelu(a));
}

/* x sigmoid(alpha x) */
void onnx_swish(onnx_node *node);
void onnx_swish(onnx_node *node)
{
    samba_value a = onnx_need(node, 0);
    double alpha = onnx_float(node, "alpha", 1);
    if (alpha == 1) {
        onnx_out(node, 0, samba_silu(a));
        return;
    }
    samba_value factor = onnx_number(node, alpha), scaled = samba_mul(a, factor), gate = samba_sigmoid(scaled);
    onnx_out(node, 0, samba_mul(a, gate));
}

/* a sigmoid(alpha a) b */
void onnx_swiglu(onnx_node *node);
void onnx_swiglu(onnx_node *node)
{
    samba_value a = onnx_need(node, 0), b = onnx_need(node, 1);
    double alpha = onnx_float(node, "alpha", 1);
    if (node->refused)
        return;
    samba_value factor = onnx_number(node, alpha), scaled = samba_mul(a, factor), gate = samba_sigmoid(scaled);
    samba_value curve = alpha == 1 ? samba_silu(a) : samba_mul(a, gate);
    onnx_out(node, 0, samba_mul(curve, b));
}

void onnx_elu(onnx_node *node);
void onnx_elu(onnx_node *node)
{
    samba_value a = onnx_need(node, 0);
    onnx_out(node, 0, samba_elu(a, onnx_float(node, "alpha", 1)));
}

void onnx_celu(onnx_node *node);
void onnx_celu(onnx_node *node)
{
    samba_value a = onnx_need(node, 0);
    onnx_out(node, 0, samba_celu(a, onnx_float(node, "alpha", 1)));
}

/* gamma (alpha exp(x) - alpha) of what is not positive, gamma x of the rest */
void onnx_selu(onnx_node *node);
void onnx_selu(onnx_node *node)
{
    samba_value a = onnx_need(node, 0);
    double alpha = onnx_float(node, "alpha", 1.67326319217681884765625),
           gamma = onnx_float(node, "gamma", 1.05070102214813232421875);
    if (node->refused)
        return;
    samba_value factor = onnx_number(node, gamma), curve = samba_elu(a, alpha);
    onnx_out(node, 0, samba_mul(curve, factor));
}

void onnx_leaky_relu(onnx_node *node);
void onnx_leaky_relu(onnx_node *node)
{
    samba_value a = onnx_need(node, 0);
    onnx_out(node, 0, samba_leaky_relu(a, onnx_float(node, "alpha", 0.01)));
}

/* The slope broadcasts to x, which PyTorch's has one of, or one a channel. */
void onnx_prelu(onnx_node *node);
void onnx_prelu(onnx_node *node)
{
    samba_value a = onnx_need(node, 0), slope = onnx_need(node, 1);
    if (node->refused)
        return;
    samba_value zero = onnx_like(node, 0, a), scaled = samba_mul(a, slope), negative = samba_lt(a, zero);
    onnx_out(node, 0, samba_where(negative, scaled, a));
}

void onnx_thresholded_relu(onnx_node *node);
void onnx_thresholded_relu(onnx_node *node)
{
    samba_value a = onnx_need(node, 0);
    onnx_out(node, 0, samba_threshold(a, onnx_float(node, "alpha", 1), 0));
}

/* max(0, min(1, alpha x + beta)) */
void onnx_hard_sigmoid(onnx_node *node);
void onnx_hard_sigmoid(onnx_node *node)
{
    samba_value a = onnx_need(node, 0);
    double alpha = onnx_float(node, "alpha", 0.2), beta = onnx_float(node, "beta", 0.5);
    if (node->refused)
        return;
    if (beta == 0.5 && (float)alpha == 1.0f / 6) { /* PyTorch's */
        onnx_out(node, 0, samba_hardsigmoid(a));
        return;
    }
    samba_value factor = onnx_number(node, alpha), shift = onnx_number(node, beta), zero = onnx_number(node, 0),
                one = onnx_number(node, 1);
    samba_value scaled = samba_mul(a, factor), line = samba_add(scaled, shift);
    onnx_out(node, 0, samba_clamp(line, zero, one));
}

/* x + bias below -lambd, x - bias above lambd, 0 between */
void onnx_shrink(onnx_node *node);
void onnx_shrink(onnx_node *node)
{
    samba_value a = onnx_need(node, 0);
    double lambd = onnx_float(node, "lambd", 0.5), bias = onnx_float(node, "bias", 0);
    if (node->refused)
        return;
    samba_dtype dtype = samba_value_dtype(a);
    samba_value low = onnx_number(node, -lambd), high = onnx_number(node, lambd), amount = onnx_number(node, bias);
    samba_value below = samba_lt(a, low), above = samba_gt(a, high), zero = onnx_like(node, 0, a);
    samba_value up = samba_add(a, amount), down = samba_sub(a, amount);
    samba_value upper = samba_cast(up, dtype), lower = samba_cast(down, dtype), rest = samba_where(above, lower, zero);
    onnx_out(node, 0, samba_where(below, upper, rest));
}

/* ---- softmax: until version 12 over all dims from the axis on, as one ---- */

static void along_axis(onnx_node *node, samba_value (*function)(samba_value, int))
{
    samba_value a = onnx_need(node, 0);
    if (node->refused)
        return;
    bool flat = node->version < 13;
    int rank = samba_value_rank(a), axis = onnx_axis(node, "axis", flat && rank > 1 ? 1 : -1, rank ? rank : 1);
    if (axis < 0)
        return;
    if (!flat || axis == rank - 1 || rank == 0) {
        onnx_out(node, 0, function(a, axis));
        return;
    }
    int64_t shape[SAMBA_MAX_RANK];
    onnx_shape(a, shape);
    samba_value rows = samba_flatten(a, axis, rank - 1), result = function(rows, axis);
    onnx_out(node, 0, samba_reshape(result, rank, shape));
}

void onnx_softmax(onnx_node *node);
void onnx_softmax(onnx_node *node) { along_axis(node, samba_softmax); }
void onnx_log_softmax(onnx_node *node);
void onnx_log_softmax(onnx_node *node) { along_axis(node, samba_log_softmax); }

/* 1 at the first greatest element, 0 elsewhere */
static samba_value hardmax(samba_value a, int dim)
{
    int64_t classes = samba_value_size(a, dim);
    samba_value index = samba_argmax(a, dim, false), ones = samba_one_hot(index, classes);
    int source = -1, destination = dim;
    samba_value moved = samba_movedim(ones, 1, &source, &destination);
    return samba_cast(moved, samba_value_dtype(a));
}
void onnx_hardmax(onnx_node *node);
void onnx_hardmax(onnx_node *node) { along_axis(node, hardmax); }
