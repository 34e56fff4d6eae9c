/* SPDX-License-Identifier: Apache-2.0
 *
 * Operators that ONNX Runtime adds (com.microsoft), as its optimizer and exporters write them into models of transformers. */
#include "onnx/attend.h"
#include "onnx/lists.h"

#include <sambaflow/activation.h>
#include <sambaflow/elementwise.h>
#include <sambaflow/index.h>
#include <sambaflow/linalg.h>
#include <sambaflow/norm.h>
#include <sambaflow/reduce.h>
#include <sambaflow/shape.h>
#include <math.h>

/* ---- activations ---- */

void samba_onnx_microsoft_gelu(samba_onnx_node *node);
void samba_onnx_microsoft_gelu(samba_onnx_node *node)
{
    samba_value a = samba_onnx_need(node, 0);
    samba_onnx_out(node, 0, samba_gelu(a));
}

void samba_onnx_bias_gelu(samba_onnx_node *node);
void samba_onnx_bias_gelu(samba_onnx_node *node)
{
    samba_value a = samba_onnx_need(node, 0), bias = samba_onnx_need(node, 1);
    if (!node->refused)
        samba_onnx_out(node, 0, samba_gelu(samba_add(a, bias)));
}

void samba_onnx_fast_gelu(samba_onnx_node *node);
void samba_onnx_fast_gelu(samba_onnx_node *node)
{
    samba_value a = samba_onnx_need(node, 0), bias = samba_onnx_in(node, 1);
    if (!node->refused)
        samba_onnx_out(node, 0, samba_gelu_tanh(bias.graph ? samba_add(a, bias) : a));
}

/* x sigmoid(alpha x) */
void samba_onnx_quick_gelu(samba_onnx_node *node);
void samba_onnx_quick_gelu(samba_onnx_node *node)
{
    samba_value a = samba_onnx_need(node, 0);
    double alpha = samba_onnx_float(node, "alpha", 1.702);
    if (node->refused)
        return;
    samba_value gate = samba_sigmoid(samba_mul_scalar(a, alpha));
    samba_onnx_out(node, 0, samba_mul(a, gate));
}

/* ---- products ---- */

/* transBatch: the first dim of the matrix stands before the dims of the batch. */
static samba_value turn(samba_value a, bool transpose, bool from_front)
{
    int rank = samba_value_rank(a), source = 0, destination = -2;
    if (from_front && rank > 2)
        a = samba_movedim(a, 1, &source, &destination);
    return transpose && rank > 1 ? samba_transpose(a, -1, -2) : a;
}

void samba_onnx_fused_matmul(samba_onnx_node *node);
void samba_onnx_fused_matmul(samba_onnx_node *node)
{
    samba_value a = samba_onnx_need(node, 0), b = samba_onnx_need(node, 1);
    double alpha = samba_onnx_float(node, "alpha", 1);
    bool turn_a = samba_onnx_flag(node, "transA", false), turn_b = samba_onnx_flag(node, "transB", false);
    bool batch_a = samba_onnx_flag(node, "transBatchA", false), batch_b = samba_onnx_flag(node, "transBatchB", false);
    if (node->refused)
        return;
    samba_value left = turn(a, turn_a, batch_a), right = turn(b, turn_b, batch_b), product = samba_matmul(left, right);
    samba_onnx_out(node, 0, alpha == 1 ? product : samba_mul_scalar(product, alpha));
}

/* ---- normalizations ---- */

/* Over the dims from `axis` on: by the mean of squares, or with `centred` by mean and variance. Outputs `at` and `at + 1` are the
 * mean and 1 / the root. */
static void normalize(samba_onnx_node *node, samba_value a, int axis, samba_value weight, samba_value bias, double eps,
                      bool centred, int at)
{
    int rank = samba_value_rank(a), count = rank - axis, dims[SAMBA_MAX_RANK];
    int64_t shape[SAMBA_MAX_RANK];
    samba_onnx_shape(a, shape);
    if (centred)
        samba_onnx_out(node, 0, samba_functional_layer_norm(a, count, shape + axis, weight, bias, eps));
    else
        samba_onnx_out(node, 0, samba_functional_rms_norm(a, count, shape + axis, weight, eps));
    if (!samba_onnx_wants(node, at) && !samba_onnx_wants(node, at + 1))
        return;
    for (int i = 0; i < count; i++)
        dims[i] = axis + i;
    samba_value wide = samba_value_dtype(a) == SAMBA_FLOAT64 ? a : samba_cast(a, SAMBA_FLOAT32), mean = {NULL, 0, 0}, square;
    if (centred)
        square = samba_var_mean(wide, count, dims, 0, true, &mean);
    else
        square = samba_mean(samba_square(wide), count, dims, true);
    if (centred)
        samba_onnx_out(node, at, mean);
    samba_onnx_out(node, at + 1, samba_rsqrt(samba_add_scalar(square, eps)));
}

void samba_onnx_simplified_layer_normalization(samba_onnx_node *node);
void samba_onnx_simplified_layer_normalization(samba_onnx_node *node)
{
    samba_value a = samba_onnx_need(node, 0), weight = samba_onnx_need(node, 1), none = {NULL, 0, 0};
    double eps = samba_onnx_float(node, "epsilon", 1e-5);
    samba_onnx_int(node, "stash_type", 1);
    if (node->refused)
        return;
    int axis = samba_onnx_axis(node, "axis", -1, samba_value_rank(a));
    if (axis >= 0)
        normalize(node, a, axis, weight, none, eps, false, 0);
}

/* Of input and skip (and bias) added, which is output 3. The skip may be one for all of the batch. */
static void skip_normalize(samba_onnx_node *node, bool centred)
{
    samba_value a = samba_onnx_need(node, 0), skip = samba_onnx_need(node, 1), weight = samba_onnx_need(node, 2),
                shift = {NULL, 0, 0};
    if (centred)
        shift = samba_onnx_in(node, 3);
    samba_value bias = samba_onnx_in(node, centred ? 4 : 3);
    double eps = samba_onnx_float(node, "epsilon", 1e-12);
    if (node->refused)
        return;
    if (samba_value_rank(a) < 1) {
        samba_onnx_refuse(node, "a value of at least one dim is expected");
        return;
    }
    samba_value sum = samba_add(a, skip);
    if (bias.graph)
        sum = samba_add(sum, bias);
    if (node->graph->status != SAMBA_OK)
        return;
    normalize(node, sum, samba_value_rank(sum) - 1, weight, shift, eps, centred, 1);
    samba_onnx_out(node, 3, sum);
}

void samba_onnx_skip_layer_normalization(samba_onnx_node *node);
void samba_onnx_skip_layer_normalization(samba_onnx_node *node) { skip_normalize(node, true); }
void samba_onnx_skip_simplified_layer_normalization(samba_onnx_node *node);
void samba_onnx_skip_simplified_layer_normalization(samba_onnx_node *node) { skip_normalize(node, false); }

/* Rows of words, positions and segments added and normalized; and how many words of the mask count. */
void samba_onnx_embed_layer_normalization(samba_onnx_node *node);
void samba_onnx_embed_layer_normalization(samba_onnx_node *node)
{
    samba_value ids = samba_onnx_need(node, 0), segments = samba_onnx_in(node, 1), words = samba_onnx_need(node, 2),
                places = samba_onnx_need(node, 3);
    samba_value kinds = samba_onnx_in(node, 4), weight = samba_onnx_need(node, 5), shift = samba_onnx_need(node, 6),
                mask = samba_onnx_in(node, 7);
    samba_value positions = samba_onnx_in(node, 8);
    double eps = samba_onnx_float(node, "epsilon", 1e-12);
    bool counts = samba_onnx_int(node, "mask_index_type", 0) == 0;
    if (node->refused)
        return;
    if (samba_value_rank(ids) != 2 || samba_value_rank(words) != 2 || samba_value_rank(places) != 2 ||
        (segments.graph && !kinds.graph)) {
        samba_onnx_refuse(node, "ids (N, T) and tables of rank 2 are expected");
        return;
    }
    samba_value sum = samba_functional_embedding(ids, words, NULL); /* (N, T, features) */
    samba_value place = positions.graph ? samba_functional_embedding(positions, places, NULL)
                                        : samba_narrow(places, 0, 0, samba_value_size(ids, 1));
    sum = samba_add(sum, place);
    if (segments.graph) {
        samba_value kind = samba_functional_embedding(segments, kinds, NULL);
        sum = samba_add(sum, kind);
    }
    if (samba_value_rank(sum) != 3) {
        samba_onnx_refuse(node, "its tables and indices give no value (N, T, features)");
        return;
    }
    normalize(node, sum, 2, weight, shift, eps, true, 99);
    samba_onnx_out(node, 2, sum);
    if (!samba_onnx_wants(node, 1))
        return;
    const int64_t batch = samba_value_size(ids, 0);
    const int last = -1;
    if (mask.graph && !counts)
        samba_onnx_refuse(node, "mask_index_type is not 0, which its output 1 would need");
    else if (mask.graph)
        samba_onnx_out(node, 1, samba_cast(samba_sum(mask, 1, &last, false), SAMBA_INT32));
    else
        samba_onnx_out(node, 1, samba_constant(node->graph, 0, SAMBA_INT32, 1, &batch));
}

/* ---- attention ---- */

/* What is added to the scores of hidden keys, from a mask (N, Tk) or (N, Tq, Tk), not 0 where one may be seen, or from how many
 * keys of each of the batch may be. It is a number, not minus infinity: a query that sees no key sees all of them alike. */
static samba_value hide_keys(samba_onnx_node *node, samba_value mask, int64_t batch, int64_t keys, double hidden)
{
    int64_t shape[4] = {batch, 1, 1, keys};
    int rank = samba_value_rank(mask);
    samba_value seen;
    if (rank == 1 && samba_value_size(mask, 0) == batch) {
        samba_value key = samba_arange(node->graph, keys, SAMBA_INT64), each;
        shape[3] = 1;
        each = samba_reshape(samba_cast(mask, SAMBA_INT64), 4, shape);
        seen = samba_lt(key, each);
    } else if (rank == 2 && samba_value_size(mask, 1) == keys) {
        shape[0] = samba_value_size(mask, 0);
        seen = samba_cast(samba_reshape(mask, 4, shape), SAMBA_BOOL);
    } else if (rank == 3 && samba_value_size(mask, 2) == keys)
        seen = samba_cast(samba_unsqueeze(mask, 1), SAMBA_BOOL);
    else
        return onnx_refused(node, "a mask of this shape is not supported: (N), (N, keys) or (N, queries, keys) is expected");
    samba_value zero = samba_constant(node->graph, 0, SAMBA_FLOAT32, 0, NULL);
    samba_value least = samba_constant(node->graph, hidden, SAMBA_FLOAT32, 0, NULL);
    return samba_where(seen, zero, least);
}

typedef struct heads {
    samba_value mask, bias, past_k, past_v; /* zeroed: none; the past (N, heads, P, D) */
    bool unidirectional;
    double hidden;
} heads;

/* Attention of a->q, k, v (N, heads, T, D), k and v behind those of the past; the result (N, T, heads * D). */
static samba_value attend(samba_onnx_node *node, samba_onnx_attention *a, const heads *h)
{
    int64_t past = 0;
    samba_value none = {NULL, 0, 0};
    if (h->past_k.graph && h->past_v.graph) {
        const samba_value keys[2] = {h->past_k, a->k}, values[2] = {h->past_v, a->v};
        past = samba_value_size(h->past_k, 2);
        a->k = samba_concat(2, keys, 2);
        a->v = samba_concat(2, values, 2);
    }
    int64_t queries = samba_value_size(a->q, 2), keys = samba_value_size(a->k, 2);
    a->bias = h->bias;
    if (h->mask.graph) {
        samba_value hidden = hide_keys(node, h->mask, samba_value_size(a->q, 0), keys, h->hidden);
        a->bias = a->bias.graph && !node->refused ? samba_add(a->bias, hidden) : hidden;
    }
    if (node->refused)
        return none;
    a->is_causal = h->unidirectional && past == 0;
    if (h->unidirectional && past > 0) {
        const int64_t shape[2] = {queries, keys};
        a->allowed = samba_tril(samba_constant(node->graph, 1, SAMBA_BOOL, 2, shape), past);
    }
    a->precision = SAMBA_FLOAT32;
    a->shown = -1;
    samba_value y = samba_onnx_attend(node, a, NULL);
    return node->refused ? none : samba_onnx_join_heads(y);
}

void samba_onnx_microsoft_attention(samba_onnx_node *node);
void samba_onnx_microsoft_attention(samba_onnx_node *node)
{
    samba_value input = samba_onnx_need(node, 0), weight = samba_onnx_need(node, 1), bias = samba_onnx_in(node, 2),
                mask = samba_onnx_in(node, 3);
    samba_value past = samba_onnx_in(node, 4), more = samba_onnx_in(node, 5), parts[3];
    heads h = {.mask = mask, .bias = more, .unidirectional = samba_onnx_flag(node, "unidirectional", false)};
    h.hidden = samba_onnx_float(node, "mask_filter_value", -10000);
    samba_onnx_attention a = {.scale = samba_onnx_float(node, "scale", 0)};
    int64_t number = samba_onnx_int(node, "num_heads", 0), sizes[3],
            total = samba_value_rank(weight) == 2 ? samba_value_size(weight, 1) : 0;
    int said = samba_onnx_ints(node, "qkv_hidden_sizes", 3, sizes);
    if (samba_onnx_flag(node, "do_rotary", false) || samba_onnx_flag(node, "past_present_share_buffer", false))
        samba_onnx_refuse(node, "do_rotary and past_present_share_buffer are not supported");
    samba_onnx_int(node, "rotary_embedding_dim", 0);
    if (node->refused)
        return;
    if (said != 3)
        sizes[0] = sizes[1] = sizes[2] = total / 3;
    if (sizes[0] < 1 || sizes[0] > total || sizes[1] != sizes[0] || sizes[2] < 1 || sizes[2] > total ||
        sizes[0] + sizes[1] + sizes[2] != total) {
        samba_onnx_refuse(node, "a weight (features, %lld) is no queries, keys and values", (long long)total);
        return;
    }
    samba_value joint = samba_matmul(input, weight);
    if (bias.graph)
        joint = samba_add(joint, bias);
    samba_split_sizes(joint, 3, sizes, 2, parts);
    for (int i = 0; i < 3 && !node->refused; i++)
        parts[i] = samba_onnx_split_heads(node, parts[i], number);
    if (node->refused)
        return;
    a.q = parts[0];
    a.k = parts[1];
    a.v = parts[2];
    if (past.graph) {
        h.past_k = samba_select(past, 0, 0);
        h.past_v = samba_select(past, 0, 1);
    }
    samba_value y = attend(node, &a, &h);
    samba_onnx_out(node, 0, y);
    if (samba_onnx_wants(node, 1)) {
        const samba_value present[2] = {a.k, a.v};
        samba_onnx_out(node, 1, samba_stack(2, present, 0));
    }
}

/* Heads of (N, T, features), or of rank 4 as they are. */
static samba_value heads_of(samba_onnx_node *node, samba_value a, int64_t number)
{
    return node->refused || samba_value_rank(a) == 4 ? a : samba_onnx_split_heads(node, a, number);
}

/* Queries, keys and values apart; or packed, as (N, T, heads, 3, D), or keys and values as (N, T, heads, 2, D). */
void samba_onnx_multi_head_attention(samba_onnx_node *node);
void samba_onnx_multi_head_attention(samba_onnx_node *node)
{
    samba_value q = samba_onnx_need(node, 0), k = samba_onnx_in(node, 1), v = samba_onnx_in(node, 2),
                bias = samba_onnx_in(node, 3);
    heads h = {.mask = samba_onnx_in(node, 4)};
    h.bias = samba_onnx_in(node, 5);
    h.past_k = samba_onnx_in(node, 6);
    h.past_v = samba_onnx_in(node, 7);
    h.unidirectional = samba_onnx_flag(node, "unidirectional", false);
    h.hidden = samba_onnx_float(node, "mask_filter_value", -10000);
    samba_onnx_attention a = {.scale = samba_onnx_float(node, "scale", 0)};
    int64_t number = samba_onnx_int(node, "num_heads", 0);
    if (node->refused)
        return;
    samba_value *packed = k.graph ? &k : &q;
    if (samba_value_rank(*packed) == 5 && !v.graph) {
        int64_t parts = samba_value_size(*packed, 3);
        samba_value all = *packed, line[3];
        if (parts != (k.graph ? 2 : 3)) {
            samba_onnx_refuse(node, "%lld packed parts are not what is expected", (long long)parts);
            return;
        }
        for (int i = 0; i < parts; i++) {
            samba_value part = samba_select(all, 3, i);
            line[i] = samba_flatten(part, 2, 3);
        }
        if (!k.graph)
            q = line[0];
        k = line[parts - 2];
        v = line[parts - 1];
    }
    if (!k.graph || !v.graph || samba_value_rank(q) != 3) {
        samba_onnx_refuse(node, "queries of rank 3, keys and values are expected");
        return;
    }
    if (bias.graph) {
        samba_value *list[3] = {&q, &k, &v};
        int64_t sizes[3] = {samba_value_size(q, 2)}, size = samba_value_rank(bias) == 1 ? samba_value_size(bias, 0) : 0, at = 0;
        sizes[1] = sizes[0];
        sizes[2] = size - 2 * sizes[0];
        for (int i = 0; i < 3; at += sizes[i], i++) {
            if (samba_value_rank(*list[i]) != 3) /* keys that are heads already had theirs */
                continue;
            samba_value part = samba_narrow(bias, 0, at, sizes[i]);
            *list[i] = samba_add(*list[i], part);
        }
    }
    a.q = heads_of(node, q, number);
    a.k = heads_of(node, k, number);
    a.v = heads_of(node, v, number);
    if (node->refused)
        return;
    samba_value y = attend(node, &a, &h);
    samba_onnx_out(node, 0, y);
    samba_onnx_out(node, 1, a.k);
    samba_onnx_out(node, 2, a.v);
}

/* Positions (N, T), or one that the sequence begins at. */
void samba_onnx_microsoft_rotary_embedding(samba_onnx_node *node);
void samba_onnx_microsoft_rotary_embedding(samba_onnx_node *node)
{
    samba_value a = samba_onnx_need(node, 0), positions = samba_onnx_need(node, 1), cos = samba_onnx_need(node, 2),
                sin = samba_onnx_need(node, 3);
    bool interleaved = samba_onnx_flag(node, "interleaved", false);
    int64_t dims = samba_onnx_int(node, "rotary_embedding_dim", 0), number = samba_onnx_int(node, "num_heads", 0);
    double scale = samba_onnx_float(node, "scale", 1);
    if (samba_onnx_flag(node, "is_packed_batching", false) || scale != 1)
        samba_onnx_refuse(node, "is_packed_batching and a scale are not supported");
    if (node->refused)
        return;
    bool flat = samba_value_rank(a) == 3;
    int64_t head = 2 * samba_value_size(cos, -1);
    if (flat && number == 0 && head > 0)
        number = samba_value_size(a, 2) / head;
    samba_value split = heads_of(node, a, number);
    if (node->refused)
        return;
    if (samba_value_rank(positions) == 1) {
        samba_value step = samba_arange(node->graph, samba_value_size(split, 2), SAMBA_INT64), each = samba_add(step, positions);
        positions = samba_unsqueeze(each, 0);
    }
    samba_value turned = samba_onnx_rotate(node, split, cos, sin, positions, dims, interleaved);
    if (!node->refused)
        samba_onnx_out(node, 0, flat ? samba_onnx_join_heads(turned) : turned);
}
