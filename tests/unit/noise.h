/* SPDX-License-Identifier: Apache-2.0
 *
 * What rounding may do to a graph's results, found by the reference: every element on the way is multiplied by a number of its
 * own that is off from 1 by a few units in the last place, and what the results move is what two correct programs may differ by.
 * Sums of many terms round more often: the root of the longest. */
#ifndef SAMBA_TEST_NOISE_H
#define SAMBA_TEST_NOISE_H

#include "../seed.h"
#include "ops/ops.h"
#include <math.h>
#include <string.h>

enum { NOISE_UNITS = 4 };

static inline double epsilon_of(samba_dtype dtype)
{
    return dtype == SAMBA_FLOAT64 ? 0x1p-52 : dtype == SAMBA_FLOAT16 ? 0x1p-10 : dtype == SAMBA_BFLOAT16 ? 0x1p-7 : 0x1p-23;
}

static inline double value_at(const samba_array *a, int64_t i)
{
    return samba_load_double(a->dtype, (const char *)a->data + (size_t)i * samba_dtype_size(a->dtype));
}

static inline int64_t node_numel(const samba_node *node)
{
    int64_t numel = 0;
    samba_shape_numel(node->rank, node->shape, &numel);
    return numel;
}

static inline double longest_sum(const samba_graph *graph)
{
    double longest = 1;
    for (int64_t i = 0; i < graph->node_count; i++) {
        const samba_node *node = &graph->nodes[i];
        const samba_node *inputs[8];
        double out = (double)node_numel(node), in = 0;
        for (int k = 0; k < node->arity && k < 8; k++) {
            inputs[k] = &graph->nodes[node->inputs[k]];
            double numel = (double)node_numel(inputs[k]);
            in = numel > in ? numel : in;
        }
        samba_op_class class_ = samba_ops[node->op].class_;
        if (class_ == SAMBA_LEAF || class_ == SAMBA_VIEW || class_ == SAMBA_MAP || class_ == SAMBA_MOVE || out == 0)
            continue;
        double length = class_ == SAMBA_CONTRACT ? (double)samba_ops[node->op].flops(node, inputs) / (2 * out) : in / out;
        if (class_ == SAMBA_COMPOSITE && inputs[0]->rank > 0)
            length = fmax(length, (double)inputs[0]->shape[inputs[0]->rank - 1]);
        longest = fmax(longest, length);
    }
    return longest;
}

/* v, each element times a number of its own near 1 */
static inline samba_ref noisy(samba_graph *graph, samba_ref v, double width, uint64_t seed)
{
    samba_node node = *samba_node_at(graph, v);
    samba_attrs attrs = {.random = {.shape.count = node.rank}};
    memcpy(attrs.random.shape.at, node.shape, sizeof node.shape);
    samba_ref key = samba_emit_constant(graph, (double)seed, SAMBA_INT64);
    samba_ref noise = samba_emit(graph, SAMBA_OP_random, 1, &key, &attrs);
    noise = samba_emit_cast(graph, noise, SAMBA_FLOAT64);
    noise = samba_emit_scalar(graph, SAMBA_OP_add, samba_emit_scalar(graph, SAMBA_OP_mul, noise, 2 * width), 1 - width);
    samba_ref wide = samba_emit_cast(graph, v, SAMBA_FLOAT64);
    return samba_emit_cast(graph, samba_emit2(graph, SAMBA_OP_mul, wide, noise), (samba_dtype)node.dtype);
}

typedef struct noise_source { /* rewriter->user */
    uint64_t *state;          /* a seed for each node, made from the one before */
    bool leaves;              /* parameters too */
    bool joins;               /* what is nearly equal counts as equal */
} noise_source;

/* Not operators that choose among their operands' elements, or are exact in floats: noise would part what is equal. */
static inline bool rounds(const samba_node *node)
{
    static const char *const exact[] = {"lu_factors", /* its last row is numbers of rows */
                                        "neg",        "abs",    "sign",    "relu",       "floor",     "ceil",
                                        "trunc",      "round",  "maximum", "minimum",    "clamp_min", "clamp_max",
                                        "where",      "amax",   "amin",    "max_pool2d", "embedding", "gather",
                                        "sort",       "cummax", "cummin",  "copysign",   "detach",    "random"};
    samba_op_class class_ = samba_ops[node->op].class_;
    for (int i = 0; i < SAMBA_COUNT(exact); i++)
        if (strcmp(samba_ops[node->op].name, exact[i]) == 0)
            return false;
    return class_ != SAMBA_VIEW && class_ != SAMBA_MOVE && (class_ != SAMBA_LEAF || node->op == SAMBA_OP_parameter);
}

static inline bool comes_rounded(const samba_graph *graph, samba_ref ref)
{
    while (samba_ops[samba_node_at(graph, ref)->op].class_ == SAMBA_VIEW)
        ref = samba_node_at(graph, ref)->inputs[0];
    const samba_node *node = samba_node_at(graph, ref);
    return rounds(node) && node->op != SAMBA_OP_parameter && samba_dtype_is_floating_point((samba_dtype)node->dtype);
}

/* Whether two values are equal, where a sum may have cancelled: noise times what is left of it makes nothing equal. So a distance
 * of a unit beside the greatest counts as none, in every second graph: in the others noise parts what is equal by chance, as the
 * slopes of hardswish at -1 and -0.5. */
static inline samba_ref nearly_equal(samba_graph *graph, samba_op op, const samba_ref *inputs)
{
    const samba_dtype dtype = (samba_dtype)samba_node_at(graph, inputs[0])->dtype;
    const int rank = samba_node_at(graph, inputs[0])->rank;
    int64_t dims[SAMBA_MAX_RANK];
    for (int d = 0; d < SAMBA_MAX_RANK; d++)
        dims[d] = d;
    samba_ref a = samba_emit_cast(graph, inputs[0], SAMBA_FLOAT64), b = samba_emit_cast(graph, inputs[1], SAMBA_FLOAT64);
    samba_ref distance = samba_emit1(graph, SAMBA_OP_abs, samba_emit2(graph, SAMBA_OP_sub, a, b));
    samba_ref nothing = samba_emit_constant(graph, 0, SAMBA_FLOAT64), same = samba_emit2(graph, SAMBA_OP_eq, a, b);
    distance = samba_emit3(graph, SAMBA_OP_where, same, nothing, distance); /* of two infinities it is NaN */
    samba_ref most = samba_emit_reduce(graph, SAMBA_OP_amax, samba_emit1(graph, SAMBA_OP_abs, a), rank, dims);
    most = samba_emit_scalar(graph, SAMBA_OP_mul, most, epsilon_of(dtype));
    samba_ref equal = samba_emit2(graph, SAMBA_OP_le, distance, most);
    return op == SAMBA_OP_eq ? equal : samba_emit1(graph, SAMBA_OP_logical_not, equal);
}

static inline bool compares_rounded(const samba_graph *graph, const samba_node *node)
{
    return (node->op == SAMBA_OP_eq || node->op == SAMBA_OP_ne) && node_numel(node) > 0 &&
           samba_dtype_is_floating_point((samba_dtype)samba_node_at(graph, node->inputs[0])->dtype) &&
           (comes_rounded(graph, node->inputs[0]) || comes_rounded(graph, node->inputs[1]));
}

static inline samba_ref add_noise(samba_rewriter *rewriter, samba_ref ref, const samba_ref *inputs)
{
    const samba_node *node = samba_node_at(rewriter->in, ref);
    const noise_source *source = rewriter->user;
    if (source->joins && compares_rounded(rewriter->in, node))
        return nearly_equal(rewriter->out, (samba_op)node->op, inputs);
    samba_ref copy = samba_rewrite_copy(rewriter, ref, inputs);
    if (!rounds(node) || (node->op == SAMBA_OP_parameter && !source->leaves) ||
        !samba_dtype_is_floating_point((samba_dtype)node->dtype))
        return copy;
    return noisy(rewriter->out, copy, NOISE_UNITS * epsilon_of((samba_dtype)node->dtype), next_seed(source->state) >> 12);
}

/* v with zeros around its dims from the third on */
static inline samba_ref padded(samba_graph *graph, samba_ref v, const int64_t *each)
{
    const int rank = samba_node_at(graph, v)->rank;
    samba_attrs attrs = {.pad = {.before.count = rank, .after.count = rank, .interior.count = rank}};
    for (int i = 2; i < rank; i++)
        attrs.pad.before.at[i] = attrs.pad.after.at[i] = each[i - 2];
    return samba_emit(graph, SAMBA_OP_pad, 1, &v, &attrs);
}

/* A convolution that multiplies the zeros around an image: the reference leaves them out, kernels do what is quicker. With
 * numbers that is the same; with an infinity or NaN beside the zero it is NaN or nothing, in PyTorch as here. Gradients to the
 * input are those of a larger one, of which the middle is taken. */
static inline samba_ref open_convolution(samba_graph *graph, const samba_node *node, const samba_ref *inputs)
{
    samba_attrs attrs = {.conv = node->attrs->conv}; /* a node has no more bytes of attributes than its kind */
    samba_attrs_conv *conv = &attrs.conv;
    samba_ref in[2] = {inputs[0], inputs[1]};
    if (samba_ops[node->op].conv != SAMBA_CONV_input_grad) {
        in[0] = padded(graph, in[0], conv->padding.at);
        memset(conv->padding.at, 0, sizeof conv->padding.at);
        return samba_emit(graph, (samba_op)node->op, 2, in, &attrs);
    }
    int64_t each[SAMBA_MAX_RANK] = {0};
    samba_attrs slice = {.slice = {.start.count = node->rank, .stop.count = node->rank, .step.count = node->rank}};
    for (int i = 0; i < node->rank; i++) {
        slice.slice.stop.at[i] = node->shape[i];
        slice.slice.step.at[i] = 1;
        if (i < 2)
            continue;
        each[i - 2] = (samba_node_at(graph, in[0])->shape[i] - 1) * conv->dilation.at[i - 2] / conv->stride.at[i - 2] + 1;
        int64_t more = each[i - 2] * conv->stride.at[i - 2];
        conv->shape.at[i] += 2 * more;
        slice.slice.start.at[i] = more;
        slice.slice.stop.at[i] += more;
    }
    in[1] = padded(graph, in[1], each);
    samba_ref whole = samba_emit(graph, (samba_op)node->op, 2, in, &attrs);
    return samba_emit(graph, SAMBA_OP_slice, 1, &whole, &slice);
}

/* Attention rounds inside: scores, and sums of values, which may cancel. So its operands round. Its gradient where no key is seen
 * is 0, or of what comes in as NaN or infinite, NaN; as kernels have it. */
static inline samba_ref open_attention(samba_rewriter *rewriter, samba_ref ref, const samba_ref *inputs)
{
    samba_graph *graph = rewriter->out;
    samba_node node = *samba_node_at(rewriter->in, ref);
    samba_ref rounded[16] = {0};
    for (int k = 0; k < node.arity && k < 16; k++)
        rounded[k] = k < 3 || (node.op == SAMBA_OP_attention_grad && k == node.arity - 1)
                         ? samba_emit_scalar(graph, SAMBA_OP_mul, inputs[k], 1)
                         : inputs[k];
    samba_ref whole = samba_rewrite_copy(rewriter, ref, rounded), dout = inputs[node.arity - 1];
    if (node.op != SAMBA_OP_attention_grad)
        return whole;
    samba_node from = *samba_node_at(graph, dout);
    int64_t dims[SAMBA_MAX_RANK], ones[SAMBA_MAX_RANK];
    for (int d = 0; d < SAMBA_MAX_RANK; d++) {
        dims[d] = d;
        ones[d] = 1;
    }
    samba_ref nothing = samba_emit_scalar(graph, SAMBA_OP_mul, samba_emit_reduce(graph, SAMBA_OP_sum, dout, from.rank, dims), 0);
    return samba_emit2(graph, SAMBA_OP_add, whole,
                       samba_emit_cast(graph, samba_emit_reshape(graph, nothing, node.rank, ones), (samba_dtype)node.dtype));
}

/* Operators as the compiler has them: what cancels inside a composite, as a row's mean does in a norm, rounds there. */
static inline samba_ref open_operator(samba_rewriter *rewriter, samba_ref ref, const samba_ref *inputs)
{
    const samba_node *node = samba_node_at(rewriter->in, ref);
    samba_ref rounded[2] = {inputs[0], node->arity > 1 ? inputs[1] : SAMBA_NONE};
    if (samba_ops[node->op].class_ == SAMBA_CONTRACT) { /* what cancels in its sums rounds there too */
        rounded[0] = samba_emit_scalar(rewriter->out, SAMBA_OP_mul, inputs[0], 1);
        inputs = rounded;
    }
    if (samba_ops[node->op].conv != SAMBA_CONV_none)
        return open_convolution(rewriter->out, node, inputs);
    if (node->op == SAMBA_OP_attention || node->op == SAMBA_OP_attention_lse || node->op == SAMBA_OP_attention_grad)
        return open_attention(rewriter, ref, inputs);
    return samba_ops[node->op].expand ? samba_ops[node->op].expand(rewriter->out, node, inputs)
                                      : samba_rewrite_copy(rewriter, ref, inputs);
}

/* The graph with noise everywhere, of parameters where `leaves` says so; freed by the caller. */
static inline samba_status noisy_graph(const samba_graph *graph, uint64_t *state, bool leaves, samba_graph **moved)
{
    static unsigned turn;
    samba_graph *open;
    noise_source source = {state, leaves, turn++ % 2};
    SAMBA_TRY(samba_graph_rewrite(graph, open_operator, NULL, &open));
    samba_status status = samba_graph_rewrite(open, add_noise, &source, moved);
    samba_graph_free(open);
    return status;
}

#endif
