/* SPDX-License-Identifier: Apache-2.0
 *
 * Attention, and rotary embeddings.
 *
 * The result alone is one kernel, which stores no scores; where a node wants its scores, caps them or asks for a softmax in
 * double, it is composed. Causal masks that begin behind cached keys, windows and lengths are masks of bools. */
#include "onnx/attend.h"

#include <sambaflow/attention.h>
#include <sambaflow/elementwise.h>
#include <sambaflow/index.h>
#include <sambaflow/linalg.h>
#include <sambaflow/norm.h>
#include <sambaflow/reduce.h>
#include <sambaflow/shape.h>
#include <math.h>

#define T(name) SAMBA__ONNX__TENSOR_PROTO__DATA_TYPE__##name

samba_value samba_onnx_split_heads(samba_onnx_node *node, samba_value a, int64_t heads)
{
    if (samba_value_rank(a) != 3 || heads < 1 || samba_value_size(a, 2) % heads)
        return onnx_refused(node, "a value (N, T, features) is expected, whose features are %lld heads", (long long)heads);
    const int64_t shape[4] = {samba_value_size(a, 0), samba_value_size(a, 1), heads, samba_value_size(a, 2) / heads};
    samba_value apart = samba_reshape(a, 4, shape);
    return samba_transpose(apart, 1, 2);
}

samba_value samba_onnx_join_heads(samba_value a)
{
    const int64_t shape[3] = {samba_value_size(a, 0), samba_value_size(a, 2), samba_value_size(a, 1) * samba_value_size(a, 3)};
    samba_value turned = samba_transpose(a, 1, 2);
    return samba_reshape(turned, 3, shape);
}

samba_value samba_onnx_both(samba_value a, samba_value b)
{
    if (!a.graph || !b.graph)
        return a.graph ? a : b;
    return samba_logical_and(a, b);
}

/* ---- one form of attention for all ---- */

static samba_value causal_mask(samba_onnx_node *node, samba_value q, samba_value k)
{
    const int64_t shape[2] = {samba_value_size(q, 2), samba_value_size(k, 2)};
    samba_value ones = samba_constant(node->graph, 1, SAMBA_BOOL, 2, shape);
    return samba_tril(ones, 0);
}

static samba_value compose(samba_onnx_node *node, const samba_onnx_attention *a, samba_value *shown)
{
    int64_t heads = samba_value_size(a->q, 1), shared = samba_value_size(a->k, 1);
    samba_value q = a->q, k = a->k, v = a->v, allowed = a->allowed, dead = {NULL, 0, 0};
    samba_dtype dtype = samba_value_dtype(q), wide = dtype == SAMBA_FLOAT64 ? dtype : a->precision;
    if (shared != heads) {
        k = samba_repeat_interleave(k, heads / shared, 1);
        v = samba_repeat_interleave(v, heads / shared, 1);
    }
    double scale = a->scale != 0 ? a->scale : 1 / sqrt((double)samba_value_size(q, 3));
    samba_value turned = samba_transpose(k, 2, 3), scaled = samba_mul_scalar(q, scale), scores = samba_matmul(scaled, turned);
    if (a->shown == 0)
        *shown = scores;
    if (a->softcap > 0)
        scores = samba_mul_scalar(samba_tanh(samba_mul_scalar(scores, 1 / a->softcap)), a->softcap);
    if (a->shown == 1)
        *shown = scores;
    if (a->is_causal)
        allowed = samba_onnx_both(allowed, causal_mask(node, q, k));
    samba_value nothing = samba_onnx_number(node, -INFINITY), masks[2] = {a->bias, {NULL, 0, 0}};
    if (a->bias.graph)
        scores = samba_add(scores, samba_cast(a->bias, dtype));
    if (allowed.graph) {
        samba_value zero = samba_onnx_like(node, 0, q), never = samba_onnx_like(node, -INFINITY, q),
                    hidden = samba_logical_not(allowed);
        scores = samba_masked_fill(scores, hidden, never);
        masks[1] = samba_where(allowed, zero, never);
    }
    if (a->shown == 2)
        *shown = scores;
    for (int i = 0; i < 2; i++) /* a query that may see no key gets nothing, not the NaN of its softmax */
        if (masks[i].graph)
            dead = dead.graph ? samba_add(dead, masks[i]) : masks[i];
    samba_value weights = samba_softmax(samba_cast(scores, wide), 3);
    if (dead.graph) {
        const int last = -1;
        samba_value most = samba_amax(dead, 1, &last, true), none = samba_eq(most, nothing),
                    zero = samba_onnx_like(node, 0, weights);
        weights = samba_where(none, zero, weights);
    }
    weights = samba_cast(weights, dtype);
    if (a->shown == 3)
        *shown = weights;
    return samba_matmul(weights, v);
}

samba_value samba_onnx_attend(samba_onnx_node *node, const samba_onnx_attention *a, samba_value *shown)
{
    int64_t heads = samba_value_size(a->q, 1), shared = samba_value_size(a->k, 1);
    if (node->refused)
        return (samba_value){NULL, 0, 0};
    if (samba_value_rank(a->q) != 4 || samba_value_rank(a->k) != 4 || samba_value_rank(a->v) != 4 || shared < 1 || heads % shared)
        return onnx_refused(node, "heads of keys that %lld heads of queries share are expected, there are %lld", (long long)heads,
                            (long long)shared);
    samba_dtype dtype = samba_value_dtype(a->q);
    if (a->shown >= 0 || a->softcap > 0 || (a->precision == SAMBA_FLOAT64 && dtype != SAMBA_FLOAT64))
        return compose(node, a, shown);
    samba_attention_options options = samba_attention_defaults();
    options.mask = a->allowed;
    options.is_causal = a->is_causal;
    options.enable_gqa = shared != heads;
    options.scale = a->scale;
    if (a->bias.graph) {
        options.mask = samba_cast(a->bias, dtype);
        if (a->allowed.graph) {
            samba_value never = samba_onnx_like(node, -INFINITY, a->q);
            options.mask = samba_where(a->allowed, options.mask, never);
        }
    }
    return samba_scaled_dot_product_attention(a->q, a->k, a->v, &options);
}

/* ---- Attention ---- */

/* key - query, counted from a query's own place among the keys: (Tq, Tk), or (N, 1, Tq, Tk) where that differs by batch. */
static samba_value distance(samba_onnx_node *node, int64_t queries, int64_t keys, int64_t past, samba_value lengths)
{
    samba_value query = samba_arange(node->graph, queries, SAMBA_INT64), key = samba_arange(node->graph, keys, SAMBA_INT64);
    samba_value column = samba_unsqueeze(query, 1), shift = samba_integer(node->graph, past);
    if (lengths.graph) { /* the last query stands at the last key that counts */
        const int64_t shape[4] = {samba_value_size(lengths, 0), 1, 1, 1};
        samba_value each = samba_reshape(samba_cast(lengths, SAMBA_INT64), 4, shape), count = samba_integer(node->graph, queries);
        shift = samba_sub(each, count);
    }
    samba_value place = samba_add(column, shift);
    return samba_sub(key, place);
}

/* A mask that says nothing of the last keys hides them. */
static samba_value widen_mask(samba_value mask, int64_t keys, double hidden)
{
    int64_t size = samba_value_rank(mask) ? samba_value_size(mask, -1) : 1;
    const int64_t more[2] = {0, keys - size};
    return size < keys && size > 1 ? samba_pad(mask, 1, more, SAMBA_PAD_CONSTANT, hidden) : mask;
}

void samba_onnx_attention_23(samba_onnx_node *node);
void samba_onnx_attention_23(samba_onnx_node *node)
{
    samba_value q = samba_onnx_need(node, 0), k = samba_onnx_need(node, 1), v = samba_onnx_need(node, 2),
                mask = samba_onnx_in(node, 3);
    samba_value past_k = samba_onnx_in(node, 4), past_v = samba_onnx_in(node, 5), lengths = samba_onnx_in(node, 6),
                shown = {NULL, 0, 0}, none = {NULL, 0, 0};
    int64_t q_heads = samba_onnx_int(node, "q_num_heads", 0), kv_heads = samba_onnx_int(node, "kv_num_heads", 0), left = -1,
            right = -1;
    int64_t precision = samba_onnx_int(node, "softmax_precision", 0), mode = samba_onnx_int(node, "qk_matmul_output_mode", 0);
    samba_onnx_attention a = {
        .scale = samba_onnx_float(node, "scale", 0), .softcap = samba_onnx_float(node, "softcap", 0), .shown = -1};
    bool causal = samba_onnx_flag(node, "is_causal", false);
    a.precision = precision == T(DOUBLE) ? SAMBA_FLOAT64 : SAMBA_FLOAT32;
    if (node->version >= 25) {
        left = samba_onnx_int(node, "left_window_size", -1);
        right = samba_onnx_int(node, "right_window_size", -1);
    }
    if (node->refused)
        return;
    bool flat = samba_value_rank(q) == 3;
    if (flat) {
        q = samba_onnx_split_heads(node, q, q_heads);
        k = node->refused ? k : samba_onnx_split_heads(node, k, kv_heads);
        v = node->refused ? v : samba_onnx_split_heads(node, v, kv_heads);
    }
    if (!node->refused && (samba_value_rank(q) != 4 || samba_value_rank(k) != 4 || samba_value_rank(v) != 4))
        samba_onnx_refuse(node, "Q, K and V of rank 3, or of rank 4, are expected");
    if (!node->refused && past_k.graph && (samba_value_rank(past_k) != 4 || !past_v.graph))
        samba_onnx_refuse(node, "a past key of rank 4 and a past value are expected together");
    if (node->refused)
        return;
    int64_t past = 0;
    if (past_k.graph) {
        const samba_value keys[2] = {past_k, k}, values[2] = {past_v, v};
        past = samba_value_size(past_k, 2);
        k = samba_concat(2, keys, 2);
        v = samba_concat(2, values, 2);
    }
    int64_t queries = samba_value_size(q, 2), keys = samba_value_size(k, 2);
    a.q = q;
    a.k = k;
    a.v = v;
    if (mask.graph && samba_value_dtype(mask) == SAMBA_BOOL)
        a.allowed = widen_mask(mask, keys, 0);
    else if (mask.graph)
        a.bias = widen_mask(mask, keys, -INFINITY);
    if (causal && past == 0 && !lengths.graph && left < 0 && right < 0)
        a.is_causal = true;
    else if (causal)
        right = 0; /* no key behind its own */
    if (left >= 0 || right >= 0) {
        samba_value far = distance(node, queries, keys, past, past_k.graph ? none : lengths);
        if (right >= 0) {
            samba_value most = samba_integer(node->graph, right);
            a.allowed = samba_onnx_both(a.allowed, samba_le(far, most));
        }
        if (left >= 0) {
            samba_value least = samba_integer(node->graph, -left);
            a.allowed = samba_onnx_both(a.allowed, samba_ge(far, least));
        }
    }
    if (lengths.graph) {
        const int64_t shape[4] = {samba_value_size(lengths, 0), 1, 1, 1};
        samba_value key = samba_arange(node->graph, keys, SAMBA_INT64), each = samba_reshape(lengths, 4, shape);
        a.allowed = samba_onnx_both(a.allowed, samba_lt(key, each));
    }
    if (samba_onnx_wants(node, 3)) {
        if (mode < 0 || mode > 3) {
            samba_onnx_refuse(node, "qk_matmul_output_mode %lld is none of 0 to 3", (long long)mode);
            return;
        }
        a.shown = (int)mode;
    }
    samba_value y = samba_onnx_attend(node, &a, &shown);
    if (node->refused)
        return;
    samba_onnx_out(node, 0, flat ? samba_onnx_join_heads(y) : y);
    samba_onnx_out(node, 1, k);
    samba_onnx_out(node, 2, v);
    if (a.shown >= 0)
        samba_onnx_out(node, 3, shown);
}

/* ---- rotary embeddings ---- */

samba_value samba_onnx_rotate(samba_onnx_node *node, samba_value x, samba_value cos, samba_value sin, samba_value positions,
                              int64_t dims, bool interleaved)
{
    samba_rotary_options options = samba_rotary_defaults();
    if (positions.graph) {
        if (samba_value_rank(cos) != 2 || samba_value_rank(sin) != 2)
            return onnx_refused(node, "tables (positions, features) are expected beside positions");
        cos = samba_functional_embedding(positions, cos, NULL);
        sin = samba_functional_embedding(positions, sin, NULL);
    }
    if (samba_value_rank(cos) == 3) /* one for all heads */
        cos = samba_unsqueeze(cos, 1);
    if (samba_value_rank(sin) == 3)
        sin = samba_unsqueeze(sin, 1);
    options.interleaved = interleaved;
    options.dims = dims;
    options.cos = cos;
    options.sin = sin;
    return samba_rotary_embedding(x, &options);
}

void samba_onnx_rotary_embedding(samba_onnx_node *node);
void samba_onnx_rotary_embedding(samba_onnx_node *node)
{
    samba_value a = samba_onnx_need(node, 0), cos = samba_onnx_need(node, 1), sin = samba_onnx_need(node, 2),
                positions = samba_onnx_in(node, 3);
    bool interleaved = samba_onnx_flag(node, "interleaved", false);
    int64_t dims = samba_onnx_int(node, "rotary_embedding_dim", 0), heads = samba_onnx_int(node, "num_heads", 0);
    if (node->refused)
        return;
    bool flat = samba_value_rank(a) == 3;
    samba_value split = flat ? samba_onnx_split_heads(node, a, heads) : a;
    if (node->refused)
        return;
    samba_value turned = samba_onnx_rotate(node, split, cos, sin, positions, dims, interleaved);
    if (!node->refused)
        samba_onnx_out(node, 0, flat ? samba_onnx_join_heads(turned) : turned);
}
