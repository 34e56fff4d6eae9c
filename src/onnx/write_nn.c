/* SPDX-License-Identifier: Apache-2.0
 *
 * Contractions, norms, softmax, losses and attention as nodes of ONNX. Its norms say eps in float32, and LayerNormalization
 * computes its statistics so: float64 is expanded. */
#include "onnx/write.h"
#include <math.h>
#include <string.h>

static const char *float_in(samba_onnx_writer *w, const samba_node *node, int input)
{
    return samba_onnx_given_wide(w, node, input);
}

static bool has_elements(const samba_node *node)
{
    int64_t numel;
    return samba_shape_numel(node->rank, node->shape, &numel) && numel > 0;
}

/* ---- products ---- */

/* A weight that the graph has turned around, (out, in) -> (in, out): a product with it is Gemm's. */
static const samba_node *turned(const samba_onnx_writer *w, const samba_node *node)
{
    const samba_node *a = samba_onnx_from(w, node, 0), *b = samba_onnx_from(w, node, 1);
    const bool is_turned = b->op == SAMBA_OP_permute && b->rank == 2 && b->attrs->permute.dims.at[0] == 1;
    return is_turned && a->rank == 2 && a->dtype == SAMBA_FLOAT32 && has_elements(a) && has_elements(b) ? b : NULL;
}

const char *samba_onnx_write_matmul(samba_onnx_writer *w, const samba_node *node)
{
    const samba_node *weight = turned(w, node);
    const char *a, *b;
    if (weight) {
        samba_onnx_attr_int(w, "transB", 1);
        return samba_onnx_put2(w, "Gemm", samba_onnx_given(w, node, 0), w->values[weight->inputs[0]]);
    }
    a = float_in(w, node, 0);
    b = float_in(w, node, 1);
    a = samba_onnx_put2(w, "MatMul", a, b);
    return samba_onnx_narrow(w, node, a);
}

static void put_places(samba_onnx_writer *w, const samba_attrs_conv *c, int spatial, const int64_t *kernel);

/* The sum of a product that nothing else reads and a number a column: one Gemm or Conv; the product alone, put already, then
 * goes. */
const char *samba_onnx_product_with_bias(samba_onnx_writer *w, const samba_node *node)
{
    const samba_node *product = samba_onnx_from(w, node, 0), *bias = samba_onnx_from(w, node, 1);
    if (w->uses[node->inputs[0]] != 1 || product->dtype != SAMBA_FLOAT32 || product->arity != 2 ||
        samba_onnx_from(w, product, 1)->dtype != SAMBA_FLOAT32) /* of 16 bits: the product says so, and stays */
        return NULL;
    if (product->op == SAMBA_OP_matmul && turned(w, product) && bias->rank == 1 && bias->shape[0] == product->shape[1]) {
        samba_onnx_attr_int(w, "transB", 1);
        return samba_onnx_put3(w, "Gemm", samba_onnx_given(w, product, 0), w->values[turned(w, product)->inputs[0]],
                               samba_onnx_given(w, node, 1));
    }
    /* (1, C, 1, 1), made of (C) */
    if (product->op != SAMBA_OP_conv2d || bias->op != SAMBA_OP_reshape || bias->rank != 4 ||
        bias->shape[1] != product->shape[1] || bias->shape[0] != 1 || bias->shape[2] != 1 || bias->shape[3] != 1)
        return NULL;
    const samba_node *line = samba_node_at(w->graph, bias->inputs[0]);
    if (line->rank != 1)
        return NULL;
    const char *x = samba_onnx_given_wide(w, product, 0), *weight = samba_onnx_given_wide(w, product, 1);
    put_places(w, &product->attrs->conv, 2, samba_onnx_from(w, product, 1)->shape + 2);
    return samba_onnx_put3(w, "Conv", x, weight, w->values[bias->inputs[0]]);
}

static void put_places(samba_onnx_writer *w, const samba_attrs_conv *c, int spatial, const int64_t *kernel)
{
    int64_t pads[6];
    for (int i = 0; i < spatial; i++)
        pads[i] = pads[spatial + i] = c->padding.at[i];
    samba_onnx_attr_ints(w, "kernel_shape", spatial, kernel);
    samba_onnx_attr_ints(w, "strides", spatial, c->stride.at);
    samba_onnx_attr_ints(w, "pads", 2 * spatial, pads);
    samba_onnx_attr_ints(w, "dilations", spatial, c->dilation.at);
    samba_onnx_attr_int(w, "group", c->groups);
}

static bool is_floats(samba_onnx_writer *w, const samba_node *node)
{
    if (samba_onnx_is_float((samba_dtype)node->dtype))
        return true;
    samba_onnx_cannot(w, node, "of integers, which ONNX has of floats alone");
    return false;
}

const char *samba_onnx_write_conv(samba_onnx_writer *w, const samba_node *node)
{
    if (!is_floats(w, node))
        return "";
    const char *x = float_in(w, node, 0), *weight = float_in(w, node, 1);
    put_places(w, &node->attrs->conv, node->rank - 2, samba_onnx_from(w, node, 1)->shape + 2);
    x = samba_onnx_put2(w, "Conv", x, weight);
    return samba_onnx_narrow(w, node, x);
}

/* A transposed convolution of dy; rows and columns behind the last window are output_padding. */
const char *samba_onnx_write_transposed_conv(samba_onnx_writer *w, const samba_node *node)
{
    const samba_attrs_conv *c = &node->attrs->conv;
    const samba_node *weight_node = samba_onnx_from(w, node, 0), *dy_node = samba_onnx_from(w, node, 1);
    int64_t rest[3];
    if (!is_floats(w, node))
        return "";
    for (int i = 0; i < node->rank - 2; i++)
        rest[i] = node->shape[2 + i] - ((dy_node->shape[2 + i] - 1) * c->stride.at[i] - 2 * c->padding.at[i] +
                                        c->dilation.at[i] * (weight_node->shape[2 + i] - 1) + 1);
    const char *weight = float_in(w, node, 0), *dy = float_in(w, node, 1);
    put_places(w, c, node->rank - 2, weight_node->shape + 2);
    samba_onnx_attr_ints(w, "output_padding", node->rank - 2, rest);
    dy = samba_onnx_put2(w, "ConvTranspose", dy, weight);
    return samba_onnx_narrow(w, node, dy);
}

/* ---- softmax ---- */

bool samba_onnx_own_softplus(const samba_onnx_writer *w, const samba_graph *graph, const samba_node *node,
                             const samba_ref *inputs)
{
    (void)w, (void)graph, (void)inputs;
    return node->dtype != SAMBA_FLOAT64; /* which ONNX Runtime has not in all versions */
}

bool samba_onnx_own_softmax(const samba_onnx_writer *w, const samba_graph *graph, const samba_node *node, const samba_ref *inputs)
{
    (void)w, (void)graph, (void)inputs;
    return has_elements(node);
}

const char *samba_onnx_write_softmax(samba_onnx_writer *w, const samba_node *node)
{
    const char *x = float_in(w, node, 0);
    samba_onnx_attr_int(w, "axis", node->attrs->axis.dim);
    x = samba_onnx_put1(w, node->op == SAMBA_OP_softmax ? "Softmax" : "LogSoftmax", x);
    return samba_onnx_narrow(w, node, x);
}

/* ---- norms ---- */

bool samba_onnx_own_layer_norm(const samba_onnx_writer *w, const samba_graph *graph, const samba_node *node,
                               const samba_ref *inputs)
{
    (void)w, (void)graph, (void)inputs;
    return node->dtype != SAMBA_FLOAT64 && has_elements(node);
}

const char *samba_onnx_write_layer_norm(samba_onnx_writer *w, const samba_node *node)
{
    const char *x = float_in(w, node, 0), *weight = float_in(w, node, 1), *bias = float_in(w, node, 2);
    samba_onnx_attr_int(w, "axis", node->rank - node->attrs->norm.dims);
    samba_onnx_attr_float(w, "epsilon", node->attrs->norm.eps);
    x = samba_onnx_put3(w, "LayerNormalization", x, weight, bias);
    return samba_onnx_narrow(w, node, x);
}

bool samba_onnx_own_rms_norm(const samba_onnx_writer *w, const samba_graph *graph, const samba_node *node,
                             const samba_ref *inputs)
{
    return w->options.opset >= 23 && samba_onnx_own_layer_norm(w, graph, node, inputs);
}

const char *samba_onnx_write_rms_norm(samba_onnx_writer *w, const samba_node *node)
{
    const char *x = float_in(w, node, 0), *weight = float_in(w, node, 1);
    samba_onnx_attr_int(w, "axis", node->rank - node->attrs->norm.dims);
    samba_onnx_attr_float(w, "epsilon", node->attrs->norm.eps);
    x = samba_onnx_put2(w, "RMSNormalization", x, weight);
    return samba_onnx_narrow(w, node, x);
}

/* By running statistics; those of the batch come of the expansion. */
bool samba_onnx_own_batch_norm(const samba_onnx_writer *w, const samba_graph *graph, const samba_node *node,
                               const samba_ref *inputs)
{
    (void)w;
    const samba_node *training = samba_node_at(graph, inputs[5]);
    return node->dtype != SAMBA_FLOAT64 && has_elements(node) && training->op == SAMBA_OP_constant &&
           training->attrs->constant.value == 0;
}

const char *samba_onnx_write_batch_norm(samba_onnx_writer *w, const samba_node *node)
{
    const char *inputs[5];
    for (int i = 0; i < 5; i++)
        inputs[i] = float_in(w, node, i);
    samba_onnx_attr_float(w, "epsilon", node->attrs->batch_norm.eps);
    const char *x = samba_onnx_put(w, "BatchNormalization", 5, inputs);
    return samba_onnx_narrow(w, node, x);
}

bool samba_onnx_own_group_norm(const samba_onnx_writer *w, const samba_graph *graph, const samba_node *node,
                               const samba_ref *inputs)
{
    (void)w, (void)graph, (void)inputs;
    int64_t rows = node->shape[1] / node->attrs->group_norm.groups; /* ONNX's instances, as torch's, have more than one element */
    for (int d = 2; d < node->rank; d++)
        rows *= node->shape[d];
    return node->dtype != SAMBA_FLOAT64 && has_elements(node) && rows > 1;
}

/* Until opset 21 ONNX has no factors a channel: groups are instances of (N, groups, ...), then weight and bias. */
const char *samba_onnx_write_group_norm(samba_onnx_writer *w, const samba_node *node)
{
    const int64_t groups = node->attrs->group_norm.groups;
    const double eps = node->attrs->group_norm.eps;
    const char *x = float_in(w, node, 0), *weight = float_in(w, node, 1), *bias = float_in(w, node, 2);
    if (w->options.opset >= 21) {
        samba_onnx_attr_int(w, "num_groups", groups);
        samba_onnx_attr_float(w, "epsilon", eps);
        x = samba_onnx_put3(w, "GroupNormalization", x, weight, bias);
        return samba_onnx_narrow(w, node, x);
    }
    int64_t rows = node->shape[1] / groups, beside[SAMBA_MAX_RANK] = {1, node->shape[1], 1, 1, 1, 1, 1, 1};
    for (int d = 2; d < node->rank; d++)
        rows *= node->shape[d];
    x = samba_onnx_put_reshape(w, x, 3, (int64_t[]){node->shape[0], groups, rows});
    const char *one = samba_onnx_number_of(w, SAMBA_FLOAT32, 1), *zero = samba_onnx_number_of(w, SAMBA_FLOAT32, 0);
    one = samba_onnx_put_expand(w, one, SAMBA_FLOAT32, 1, &groups);
    zero = samba_onnx_put_expand(w, zero, SAMBA_FLOAT32, 1, &groups);
    samba_onnx_attr_float(w, "epsilon", eps);
    x = samba_onnx_put3(w, "InstanceNormalization", x, one, zero);
    x = samba_onnx_put_reshape(w, x, node->rank, node->shape);
    weight = samba_onnx_put_reshape(w, weight, node->rank, beside);
    bias = samba_onnx_put_reshape(w, bias, node->rank, beside);
    x = samba_onnx_put2(w, "Mul", x, weight);
    x = samba_onnx_put2(w, "Add", x, bias);
    return samba_onnx_narrow(w, node, x);
}

/* ---- losses ---- */

bool samba_onnx_own_cross_entropy(const samba_onnx_writer *w, const samba_graph *graph, const samba_node *node,
                                  const samba_ref *inputs)
{
    (void)w;
    return node->attrs->cross_entropy.label_smoothing == 0 && has_elements(samba_node_at(graph, inputs[0]));
}

const char *samba_onnx_write_cross_entropy(samba_onnx_writer *w, const samba_node *node)
{
    static const char *const reductions[] = {"mean", "sum", "none"};
    const char *logits = float_in(w, node, 0);
    samba_onnx_attr_text(w, "reduction", reductions[node->attrs->cross_entropy.reduction]);
    samba_onnx_attr_int(w, "ignore_index", node->attrs->cross_entropy.ignore_index);
    const char *loss = samba_onnx_put2(w, "SoftmaxCrossEntropyLoss", logits, samba_onnx_given(w, node, 1));
    return samba_onnx_narrow(w, node, loss);
}

/* Each target against each class of its row: (rows, targets, classes). Targets are the labels in front of the first negative one.
 * */
const char *samba_onnx_write_multilabel_margin(samba_onnx_writer *w, const samba_node *node)
{
    const samba_node *x_node = samba_onnx_from(w, node, 0);
    const samba_dtype dtype = (samba_dtype)node->dtype;
    const int64_t classes = x_node->shape[x_node->rank - 1];
    int64_t rows;
    if (!samba_shape_numel(node->rank, node->shape, &rows) || rows == 0 || classes == 0)
        return samba_onnx_filled(w, node, 0);
    const int64_t flat[2] = {rows, classes}, targets[3] = {rows, classes, 1}, others[3] = {rows, 1, classes};
    const char *x = samba_onnx_put_reshape(w, samba_onnx_given(w, node, 0), 2, flat),
               *labels = samba_onnx_put_reshape(w, samba_onnx_given(w, node, 1), 2, flat);
    const char *none = samba_onnx_number_of(w, SAMBA_INT64, 0), *one = samba_onnx_number_of(w, dtype, 1),
               *zero = samba_onnx_number_of(w, dtype, 0);
    const char *valid = samba_onnx_put2(w, "Less", labels, none), *dim = samba_onnx_number_of(w, SAMBA_INT64, 1);
    valid = samba_onnx_put_cast(w, valid, SAMBA_BOOL, SAMBA_INT64);
    valid = samba_onnx_put2(w, "CumSum", valid, dim);
    valid = samba_onnx_put2(w, "Equal", valid, none);
    labels = samba_onnx_put_where(w, valid, labels, none);
    samba_onnx_attr_int(w, "axis", 1);
    const char *of_targets = samba_onnx_put2(w, "GatherElements", x, labels);
    of_targets = samba_onnx_put2(w, "Sub", of_targets, one);
    of_targets = samba_onnx_put_reshape(w, of_targets, 3, targets);
    labels = samba_onnx_put_reshape(w, labels, 3, targets);
    valid = samba_onnx_put_reshape(w, valid, 3, targets);
    x = samba_onnx_put_reshape(w, x, 3, others);
    const char *apart = samba_onnx_put2(w, "Sub", x, of_targets), *all = samba_onnx_whole(w, classes, 1, 0),
               *hit = samba_onnx_put2(w, "Equal", labels, all);
    hit = samba_onnx_put2(w, "And", hit, valid);
    hit = samba_onnx_put_cast(w, hit, SAMBA_BOOL, SAMBA_INT32);
    hit = samba_onnx_put_reduce(w, "ReduceMax", hit, 1, (int64_t[]){1});
    hit = samba_onnx_put_cast(w, hit, SAMBA_INT32, SAMBA_BOOL);
    hit = samba_onnx_put1(w, "Not", hit);
    valid = samba_onnx_put2(w, "And", valid, hit);
    const char *above = samba_onnx_put2(w, "Greater", apart, zero);
    valid = samba_onnx_put2(w, "And", valid, above);
    apart = samba_onnx_put_where(w, valid, apart, zero);
    apart = samba_onnx_put_reduce(w, "ReduceSum", apart, 2, (int64_t[]){1, 2});
    return samba_onnx_put_reshape(w, apart, node->rank, node->shape);
}

/* ---- attention: softmax(q k^T scale + mask) v, then heads behind positions ---- */

/* A key or value head for each query head. */
static const char *repeated(samba_onnx_writer *w, const char *heads, samba_dtype dtype, const int64_t *shape, int64_t group)
{
    if (group <= 1)
        return heads;
    heads = samba_onnx_put_reshape(w, heads, 5, (int64_t[]){shape[0], shape[1], 1, shape[2], shape[3]});
    heads = samba_onnx_put_expand(w, heads, dtype, 5, (int64_t[]){shape[0], shape[1], group, shape[2], shape[3]});
    return samba_onnx_put_reshape(w, heads, 4, (int64_t[]){shape[0], shape[1] * group, shape[2], shape[3]});
}

static const char *masked(samba_onnx_writer *w, const samba_node *node, const char *scores, samba_dtype wide)
{
    const samba_attrs_attention *a = &node->attrs->attention;
    const char *never = samba_onnx_number_of(w, wide, -INFINITY);
    if (a->masked && samba_onnx_from(w, node, 3)->dtype == SAMBA_BOOL) {
        scores = samba_onnx_put_where(w, samba_onnx_given(w, node, 3), scores, never);
    } else if (a->masked) {
        const char *mask = float_in(w, node, 3);
        scores = samba_onnx_put2(w, "Add", scores, mask);
    }
    if (a->causal) {
        const char *key = samba_onnx_whole(w, samba_onnx_from(w, node, 1)->shape[2], 1, 0);
        const char *query = samba_onnx_whole(w, samba_onnx_from(w, node, 0)->shape[2], 2, 0);
        const char *sees = samba_onnx_put2(w, "LessOrEqual", key, query);
        scores = samba_onnx_put_where(w, sees, scores, never);
    }
    return scores;
}

const char *samba_onnx_write_attention(samba_onnx_writer *w, const samba_node *node)
{
    const samba_attrs_attention *a = &node->attrs->attention;
    const samba_node *q_node = samba_onnx_from(w, node, 0), *k_node = samba_onnx_from(w, node, 1),
                     *v_node = samba_onnx_from(w, node, 2);
    const samba_dtype wide = samba_onnx_wide((samba_dtype)node->dtype);
    if (!has_elements(node) || !has_elements(q_node) || !has_elements(k_node))
        return k_node->shape[2] == 0 || !has_elements(node) ? samba_onnx_filled(w, node, 0)
                                                            : (samba_onnx_cannot(w, node, "of heads without elements"), "");
    const int64_t group = q_node->shape[1] / k_node->shape[1];
    const char *q = float_in(w, node, 0), *k = float_in(w, node, 1), *v = float_in(w, node, 2),
               *scale = samba_onnx_number_of(w, wide, a->scale);
    k = repeated(w, k, wide, k_node->shape, group);
    v = repeated(w, v, wide, v_node->shape, group);
    k = samba_onnx_put_transpose(w, k, 4, (int64_t[]){0, 1, 3, 2});
    const char *scores = samba_onnx_put2(w, "MatMul", q, k);
    scores = samba_onnx_put2(w, "Mul", scores, scale);
    scores = masked(w, node, scores, wide);
    samba_onnx_attr_int(w, "axis", 3);
    const char *weights = samba_onnx_put1(w, "Softmax", scores);
    if (a->masked) { /* who sees nothing gets 0 */
        const char *never = samba_onnx_number_of(w, wide, -INFINITY), *zero = samba_onnx_number_of(w, wide, 0);
        const char *most = samba_onnx_put_reduce(w, "ReduceMax", scores, 1, (int64_t[]){3}),
                   *blind = samba_onnx_put2(w, "Equal", most, never);
        weights = samba_onnx_put_where(w, blind, zero, weights);
    }
    v = samba_onnx_put2(w, "MatMul", weights, v);
    v = samba_onnx_put_transpose(w, v, 4, (int64_t[]){0, 2, 1, 3});
    return samba_onnx_narrow(w, node, v);
}
