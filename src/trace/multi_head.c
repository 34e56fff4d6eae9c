/* SPDX-License-Identifier: Apache-2.0
 *
 * Attention of many heads (Vaswani et al. 2017), over given weights and as a layer. It works on (N, H, T, D): sequences in front
 * of batches are seen the other way round. Projections of one value are one product.
 * Where the attention's weights are not wanted no matrix of scores is made. */
#include "trace/trace.h"

#include <sambaflow/functional.h>
#include <sambaflow/layers.h>
#include <sambaflow/transformer.h>
#include <math.h>
#include <string.h>

static const char what[] = "multi_head_attention";

typedef struct sizes {
    int rank;
    samba_dtype dtype;
    int64_t batch, heads, queries, keys, width; /* width: embed_dim */
    int64_t features[3];                        /* of query, key and value */
} sizes;

/* ---- what is given ---- */

static bool check_values(samba_graph *g, const samba_value given[3], int64_t heads, bool batch_first, sizes *s)
{
    samba_node q = samba_trace_node(given[0]), k = samba_trace_node(given[1]), v = samba_trace_node(given[2]);
    if (!samba_trace_need_floating(given[0], what))
        return false;
    int rank = q.rank, batch_dim = batch_first ? 0 : 1, time_dim = rank == 2 ? 0 : 1 - batch_dim;
    if ((rank != 2 && rank != 3) || k.rank != rank || v.rank != rank || k.shape[time_dim] != v.shape[time_dim] ||
        (rank == 3 && (k.shape[batch_dim] != q.shape[batch_dim] || v.shape[batch_dim] != q.shape[batch_dim])) ||
        k.dtype != q.dtype || v.dtype != q.dtype) {
        char text[3][SAMBA_TYPE_TEXT];
        return samba_graph_refuse(
            g, SAMBA_ERROR_SHAPE, what,
            "expected query, key and value of one dtype, (T, N, E), with batch_first (N, T, E), or (T, E), key "
            "and value of as many steps, given %s, %s, %s",
            samba_trace_format(&q, text[0]), samba_trace_format(&k, text[1]), samba_trace_format(&v, text[2]));
    }
    *s = (sizes){.rank = rank,
                 .dtype = q.dtype,
                 .batch = rank == 3 ? q.shape[batch_dim] : 1,
                 .heads = heads,
                 .queries = q.shape[time_dim],
                 .keys = k.shape[time_dim],
                 .width = q.shape[rank - 1],
                 .features = {q.shape[rank - 1], k.shape[rank - 1], v.shape[rank - 1]}};
    if (heads >= 1 && s->width >= 1 && s->width % heads == 0)
        return true;
    return samba_graph_refuse(g, SAMBA_ERROR_ARGUMENT, what, "num_heads must divide the query's %lld features, given %lld",
                              (long long)s->width, (long long)heads);
}

static bool check_masks(samba_graph *g, const samba_multi_head_options *o, const sizes *s)
{
    samba_graph *same;
    for (int i = 0; i < 2; i++) {
        samba_value mask = i ? o->key_padding_mask : o->attn_mask;
        if (!mask.graph)
            continue;
        if (!samba_trace_enter(what, 2, (samba_value[]){samba_trace_value(g, 0), mask}, &same))
            return false;
        samba_node node = samba_trace_node(mask);
        int64_t flat[3] = {s->batch * s->heads, s->queries, s->keys}, padded[2] = {s->batch, s->keys};
        bool fits =
            i ? samba_shape_equal(node.rank, node.shape, s->rank - 1, s->rank == 3 ? padded : padded + 1)
              : samba_shape_equal(node.rank, node.shape, 2, flat + 1) || samba_shape_equal(node.rank, node.shape, 3, flat);
        if (!fits || (node.dtype != SAMBA_BOOL && !samba_dtype_is_floating_point(node.dtype)))
            return samba_graph_refuse(
                g, fits ? SAMBA_ERROR_DTYPE : SAMBA_ERROR_SHAPE, what,
                "expected %s, bool (true hides) or floating-point (added), for %lld queries and %lld keys in a "
                "batch of %lld with %lld heads, given %s",
                i ? "a key_padding_mask (N, Tk), or (Tk) without a batch" : "an attn_mask (Tq, Tk) or (N * num_heads, Tq, Tk)",
                (long long)s->queries, (long long)s->keys, (long long)s->batch, (long long)s->heads, SAMBA_TYPE_OF(&node));
    }
    return true;
}

typedef enum presence { OPTIONAL, NEEDED } presence;

static bool check_weight(samba_graph *g, const char *name, samba_value weight, presence wanted, const sizes *s, int rank,
                         const int64_t *shape)
{
    samba_graph *same;
    char expected[SAMBA_TYPE_TEXT], given[SAMBA_TYPE_TEXT] = "none";
    if (weight.graph && !samba_trace_enter(what, 2, (samba_value[]){samba_trace_value(g, 0), weight}, &same))
        return false;
    samba_node like = {.dtype = (uint8_t)s->dtype, .rank = (uint8_t)rank};
    memcpy(like.shape, shape, sizeof *shape * (size_t)rank);
    if (weight.graph) {
        samba_node node = samba_trace_node(weight);
        if (node.dtype == like.dtype && samba_shape_equal(node.rank, node.shape, rank, shape))
            return true;
        samba_trace_format(&node, given);
    } else if (wanted == OPTIONAL) {
        return true;
    }
    return samba_graph_refuse(g, SAMBA_ERROR_SHAPE, what, "expected %s %s for a query of %lld features, given %s", name,
                              samba_trace_format(&like, expected), (long long)s->width, given);
}

static bool check_weights(samba_graph *g, const samba_multi_head_weights *w, const sizes *s)
{
    const int64_t e = s->width, one[3] = {1, 1, e}, flat[1] = {3 * e};
    const samba_value projections[3] = {w->q_proj_weight, w->k_proj_weight, w->v_proj_weight};
    static const char *const names[3] = {"q_proj_weight", "k_proj_weight", "v_proj_weight"};
    if (w->in_proj_weight.graph && (s->features[1] != e || s->features[2] != e))
        return samba_graph_refuse(
            g, SAMBA_ERROR_SHAPE, what,
            "in_proj_weight is for a key and a value of the query's %lld features, given %lld and %lld: give "
            "q_proj_weight, k_proj_weight and v_proj_weight",
            (long long)e, (long long)s->features[1], (long long)s->features[2]);
    if (w->in_proj_weight.graph && !check_weight(g, "in_proj_weight", w->in_proj_weight, NEEDED, s, 2, (int64_t[]){3 * e, e}))
        return false;
    for (int i = 0; i < 3 && !w->in_proj_weight.graph; i++)
        if (!check_weight(g, names[i], projections[i], NEEDED, s, 2, (int64_t[]){e, s->features[i]}))
            return false;
    presence pair = w->bias_k.graph || w->bias_v.graph ? NEEDED : OPTIONAL;
    return check_weight(g, "in_proj_bias", w->in_proj_bias, OPTIONAL, s, 1, flat) &&
           check_weight(g, "bias_k", w->bias_k, pair, s, 3, one) && check_weight(g, "bias_v", w->bias_v, pair, s, 3, one) &&
           check_weight(g, "out_proj_weight", w->out_proj_weight, NEEDED, s, 2, (int64_t[]){e, e}) &&
           check_weight(g, "out_proj_bias", w->out_proj_bias, OPTIONAL, s, 1, &e);
}

/* ---- masks: of a bool one true hides ---- */

/* As what is added to scores: -inf where it hides. */
static samba_value as_added(samba_value mask, samba_dtype dtype)
{
    if (samba_value_dtype(mask) != SAMBA_BOOL)
        return samba_cast(mask, dtype);
    samba_value hidden = samba_constant(mask.graph, -INFINITY, dtype, 0, NULL),
                seen = samba_constant(mask.graph, 0, dtype, 0, NULL);
    return samba_where(mask, hidden, seen);
}

/* Both that are there in one. */
static samba_value both(samba_value a, samba_value b, samba_dtype dtype)
{
    if (!a.graph || !b.graph)
        return a.graph ? a : b;
    if (samba_value_dtype(a) == SAMBA_BOOL && samba_value_dtype(b) == SAMBA_BOOL)
        return samba_logical_or(a, b);
    b = as_added(b, dtype);
    a = as_added(a, dtype);
    return samba_add(a, b);
}

/* With `more` keys behind, which it does not hide. */
static samba_value with_more_keys(samba_value mask, int64_t more)
{
    samba_node node = samba_trace_node(mask);
    if (more == 0)
        return mask;
    node.shape[node.rank - 1] = more;
    return samba_concat(2, (samba_value[]){mask, samba_constant(mask.graph, 0, node.dtype, node.rank, node.shape)}, -1);
}

/* Of attn_mask and key_padding_mask, to broadcast to (N, H, Tq, Tk); none where both are. */
static samba_value joined_mask(const samba_multi_head_options *o, const sizes *s, int64_t more)
{
    samba_value mask = o->attn_mask, padding = o->key_padding_mask;
    if (mask.graph && samba_value_rank(mask) == 3)
        mask = samba_reshape(mask, 4, (int64_t[]){s->batch, s->heads, s->queries, s->keys});
    if (padding.graph)
        padding = samba_reshape(padding, 4, (int64_t[]){s->batch, 1, 1, s->keys});
    mask = both(mask, padding, s->dtype);
    return mask.graph ? with_more_keys(mask, more) : mask;
}

static samba_value causal_mask(samba_graph *g, int64_t queries, int64_t keys)
{
    samba_value columns = samba_arange(g, keys, SAMBA_INT64);
    samba_value rows = samba_reshape(samba_arange(g, queries, SAMBA_INT64), 2, (int64_t[]){queries, 1});
    return samba_lt(rows, columns);
}

/* ---- attention ---- */

/* (N, T, E) of whatever order of dims the caller has. */
static samba_value batched(samba_value x, bool batch_first)
{
    if (samba_value_rank(x) == 2)
        return samba_reshape(x, 3, (int64_t[]){1, samba_value_size(x, 0), samba_value_size(x, 1)});
    return batch_first ? x : samba_transpose(x, 0, 1);
}

/* (N, T, E) -> (N, H, T, D) */
static samba_value heads_of(samba_value x, int64_t heads)
{
    int64_t shape[4] = {samba_value_size(x, 0), samba_value_size(x, 1), heads, samba_value_size(x, 2) / heads};
    return samba_transpose(samba_reshape(x, 4, shape), 1, 2);
}

static samba_value rows(samba_value x, int64_t first, int64_t count)
{
    return x.graph ? samba_slice(x, 0, first, first + count, 1) : x;
}

/* query, key and value, each (N, T, E): one product for as many in a row as are the same. */
static void project(const samba_value given[3], const samba_multi_head_weights *w, bool batch_first, int64_t width,
                    samba_value part[3])
{
    const samba_value own[3] = {w->q_proj_weight, w->k_proj_weight, w->v_proj_weight};
    for (int i = 0, n; i < 3; i += n) {
        for (n = 1; w->in_proj_weight.graph && i + n < 3 && given[i + n].index == given[i].index; n++)
            ;
        samba_value weight = !w->in_proj_weight.graph ? own[i]
                             : n == 3                 ? w->in_proj_weight
                                                      : rows(w->in_proj_weight, i * width, n * width);
        samba_value bias = n == 3 ? w->in_proj_bias : rows(w->in_proj_bias, i * width, n * width);
        part[i] = samba_functional_linear(batched(given[i], batch_first), weight, bias);
        if (n > 1)
            samba_split(part[i], width, -1, n, part + i);
    }
}

/* A step of (N, 1, E) behind the others. */
static samba_value with_step(samba_value x, samba_value step)
{
    return samba_concat(
        2, (samba_value[]){x, samba_expand(step, 3, (int64_t[]){samba_value_size(x, 0), 1, samba_value_size(x, 2)})}, 1);
}

/* Written out, for the weights: (N, H, Tq, Tk), and their mean over the heads. */
static samba_value attend_with_weights(const samba_value part[3], samba_value mask, const char *dropout,
                                       const samba_multi_head_options *o, const sizes *s)
{
    samba_value keys = samba_transpose(part[1], -2, -1);
    samba_value scores = samba_matmul(samba_mul_scalar(part[0], sqrt((double)s->heads / (double)s->width)), keys);
    if (o->is_causal)
        mask = both(mask, causal_mask(scores.graph, s->queries, samba_value_size(part[1], -2)), s->dtype);
    if (mask.graph)
        scores = samba_add(scores, as_added(mask, s->dtype));
    samba_value weights = samba_softmax(scores, -1);
    if (dropout)
        weights = samba_dropout(weights, dropout, o->dropout_p);
    samba_value told = o->weights_of_heads ? weights : samba_mean(weights, 1, (int[]){1}, false);
    if (s->rank == 2) { /* no batch: its dim goes */
        samba_node node = samba_trace_node(told);
        told = samba_reshape(told, node.rank - 1, node.shape + 1);
    }
    *o->weights = told;
    return samba_matmul(weights, part[2]);
}

static samba_value attend(const samba_value part[3], samba_value mask, const char *dropout, const samba_multi_head_options *o)
{
    samba_attention_options attention = samba_attention_defaults();
    attention.is_causal = o->is_causal;
    attention.mask = mask.graph && samba_value_dtype(mask) == SAMBA_BOOL ? samba_logical_not(mask) : mask;
    attention.dropout = dropout;
    attention.dropout_p = dropout ? o->dropout_p : 0;
    return samba_scaled_dot_product_attention(part[0], part[1], part[2], &attention);
}

static samba_multi_head_options settled(const samba_multi_head_options *options)
{
    return options ? *options : (samba_multi_head_options){0};
}

static samba_value forward(samba_graph *g, const samba_value given[3], const samba_multi_head_weights *w,
                           const samba_multi_head_options *o, const sizes *s)
{
    samba_value part[3];
    project(given, w, o->batch_first, s->width, part);
    int64_t more = 0;
    if (w->bias_k.graph) {
        part[1] = with_step(part[1], w->bias_k);
        part[2] = with_step(part[2], w->bias_v);
        more++;
    }
    for (int i = 1; i < 3 && o->add_zero_attn; i++)
        part[i] = with_step(part[i], samba_constant(g, 0, s->dtype, 3, (int64_t[]){1, 1, s->width}));
    more += o->add_zero_attn;
    for (int i = 0; i < 3; i++)
        part[i] = heads_of(part[i], s->heads);
    samba_value mask = joined_mask(o, s, more);
    const char *dropout = o->dropout_p == 0 ? NULL : o->dropout ? o->dropout : "dropout";
    if (g->status != SAMBA_OK)
        return samba_trace_none(g);
    samba_value y = o->weights ? attend_with_weights(part, mask, dropout, o, s) : attend(part, mask, dropout, o);
    y = samba_functional_linear(samba_flatten(samba_transpose(y, 1, 2), 2, 3), w->out_proj_weight, w->out_proj_bias);
    return s->rank == 2 ? samba_reshape(y, 2, (int64_t[]){s->queries, s->width}) : o->batch_first ? y : samba_transpose(y, 0, 1);
}

samba_value samba_functional_multi_head_attention(samba_value query, samba_value key, samba_value value, int64_t num_heads,
                                                  const samba_multi_head_weights *weights,
                                                  const samba_multi_head_options *options)
{
    samba_multi_head_options o = settled(options);
    static const samba_multi_head_weights none;
    const samba_value given[3] = {query, key, value};
    sizes s;
    samba_graph *g;
    bool usable = samba_trace_enter(what, 3, given, &g);
    if (o.weights)
        *o.weights = samba_trace_none(g);
    if (!usable || !check_values(g, given, num_heads, o.batch_first, &s) || !check_masks(g, &o, &s) ||
        !check_weights(g, weights ? weights : &none, &s))
        return samba_trace_none(g);
    return forward(g, given, weights, &o, &s);
}

/* ---- the layer ---- */

/* xavier_uniform */
static samba_value projection(samba_graph *g, const char *name, samba_dtype dtype, int64_t rows_of, int64_t columns)
{
    double bound = sqrt(6.0 / (double)(rows_of + columns));
    return samba_parameter(g, name, dtype, 2, (int64_t[]){rows_of, columns},
                           (samba_initializer){SAMBA_INIT_UNIFORM, -bound, bound});
}

static samba_multi_head_weights parameters(samba_graph *g, const samba_multi_head_options *o, const sizes *s)
{
    static const samba_initializer zeros = {SAMBA_INIT_ZEROS, 0, 0};
    const int64_t e = s->width, one[3] = {1, 1, e};
    const double bound = 1 / sqrt((double)e);
    samba_multi_head_weights w = {0};
    if (s->features[1] == e && s->features[2] == e) {
        w.in_proj_weight = projection(g, "in_proj_weight", s->dtype, 3 * e, e);
    } else {
        w.q_proj_weight = projection(g, "q_proj_weight", s->dtype, e, e);
        w.k_proj_weight = projection(g, "k_proj_weight", s->dtype, e, s->features[1]);
        w.v_proj_weight = projection(g, "v_proj_weight", s->dtype, e, s->features[2]);
    }
    if (!o->no_bias)
        w.in_proj_bias = samba_parameter(g, "in_proj_bias", s->dtype, 1, (int64_t[]){3 * e}, zeros);
    if (o->add_bias_kv) { /* xavier_normal */
        w.bias_k = samba_parameter(g, "bias_k", s->dtype, 3, one, (samba_initializer){SAMBA_INIT_NORMAL, 0, bound});
        w.bias_v = samba_parameter(g, "bias_v", s->dtype, 3, one, (samba_initializer){SAMBA_INIT_NORMAL, 0, bound});
    }
    samba_scope_push(g, "out_proj");
    w.out_proj_weight =
        samba_parameter(g, "weight", s->dtype, 2, (int64_t[]){e, e}, (samba_initializer){SAMBA_INIT_UNIFORM, -bound, bound});
    if (!o->no_bias)
        w.out_proj_bias = samba_parameter(g, "bias", s->dtype, 1, &e, zeros);
    samba_scope_pop(g);
    return w;
}

samba_value samba_multi_head_attention(samba_value query, samba_value key, samba_value value, const char *name, int64_t num_heads,
                                       const samba_multi_head_options *options)
{
    samba_multi_head_options o = settled(options);
    const samba_value given[3] = {query, key, value};
    sizes s;
    samba_graph *g;
    bool usable = samba_trace_enter(what, 3, given, &g);
    if (o.weights)
        *o.weights = samba_trace_none(g);
    if (!usable)
        return samba_trace_none(g);
    samba_scope_push(g, name);
    if (g->status != SAMBA_OK || !check_values(g, given, num_heads, o.batch_first, &s) || !check_masks(g, &o, &s))
        return samba_trace_none(g);
    samba_multi_head_weights w = parameters(g, &o, &s);
    samba_value y = g->status == SAMBA_OK ? forward(g, given, &w, &o, &s) : samba_trace_none(g);
    samba_scope_pop(g);
    return y;
}
