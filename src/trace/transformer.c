/* SPDX-License-Identifier: Apache-2.0
 *
 * Transformer layers over the public functions. Attention works on (N, H, T, D); sequences in front of batches are seen the other way round, and all
 * three projections of one value are one product. */
#include "trace/trace.h"

#include <sambaflow/functional.h>
#include <sambaflow/layers.h>
#include <sambaflow/transformer.h>
#include <math.h>
#include <string.h>

static const char attention_name[] = "multi_head_attention";

/* ---- attention ---- */
static samba_value fail(samba_graph *g, const char *what, const char *expected, const samba_value *given, int count)
{
    char text[3][SAMBA_TYPE_TEXT] = {"", "", ""};
    for (int i = 0; i < count; i++) {
        samba_node node = samba_trace_node(given[i]);
        samba_trace_format(&node, text[i]);
    }
    return samba_trace_value(g, samba_graph_fail_at(g, SAMBA_ERROR_SHAPE, what, "expected %s, given %s%s%s%s%s", expected, text[0], count > 1 ? ", " : "", text[1],
                                                    count > 2 ? ", " : "", text[2]));
}

/* xavier_uniform */
static samba_value projection(samba_graph *g, const char *name, samba_dtype dtype, int64_t rows, int64_t columns)
{
    double bound = sqrt(6.0 / (double)(rows + columns));
    return samba_parameter(g, name, dtype, 2, (int64_t[]){rows, columns}, (samba_initializer){SAMBA_INIT_UNIFORM, -bound, bound});
}

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

/* A mask of either kind as what is added to scores: -inf where it hides. */
static samba_value as_added(samba_value mask, samba_dtype dtype)
{
    if (samba_value_dtype(mask) != SAMBA_BOOL)
        return samba_cast(mask, dtype);
    samba_value hidden = samba_constant(mask.graph, -INFINITY, dtype, 0, NULL), seen = samba_constant(mask.graph, 0, dtype, 0, NULL);
    return samba_where(mask, hidden, seen);
}

static samba_value inverted(samba_value mask) { return samba_trace_value(mask.graph, samba_emit1(mask.graph, SAMBA_OP_logical_not, mask.index)); }

/* Both masks as scaled_dot_product_attention takes one: bool where both are, true where a key may be seen. */
static samba_value joined_mask(const samba_multi_head_options *o, int64_t batch, int64_t heads, int64_t queries, int64_t keys, samba_dtype dtype)
{
    samba_value mask = o->attn_mask, padding = o->key_padding_mask, none = {NULL, 0, 0};
    if (mask.graph && samba_value_rank(mask) == 3)
        mask = samba_reshape(mask, 4, (int64_t[]){batch, heads, queries, keys});
    if (padding.graph)
        padding = samba_reshape(padding, 4, (int64_t[]){batch, 1, 1, keys});
    if (!mask.graph && !padding.graph)
        return none;
    bool words = (!mask.graph || samba_value_dtype(mask) == SAMBA_BOOL) && (!padding.graph || samba_value_dtype(padding) == SAMBA_BOOL);
    if (!words) {
        if (mask.graph && padding.graph)
            return samba_add(as_added(mask, dtype), as_added(padding, dtype));
        return as_added(mask.graph ? mask : padding, dtype);
    }
    if (mask.graph && padding.graph)
        return samba_mul(inverted(mask), inverted(padding));
    return inverted(mask.graph ? mask : padding);
}

static bool check_masks(samba_graph *g, const samba_multi_head_options *o, int64_t batch, bool has_batch, int64_t heads, int64_t queries, int64_t keys)
{
    samba_graph *same;
    for (int i = 0; i < 2; i++) {
        samba_value mask = i ? o->key_padding_mask : o->attn_mask;
        if (!mask.graph)
            continue;
        if (!samba_trace_enter(attention_name, 2, (samba_value[]){samba_trace_value(g, 0), mask}, &same))
            return false;
        samba_node node = samba_trace_node(mask);
        int64_t flat[3] = {batch * heads, queries, keys}, padded[2] = {batch, keys};
        bool fits = i ? samba_shape_equal(node.rank, node.shape, has_batch ? 2 : 1, has_batch ? padded : padded + 1)
                      : samba_shape_equal(node.rank, node.shape, 2, flat + 1) || samba_shape_equal(node.rank, node.shape, 3, flat);
        if (!fits || (node.dtype != SAMBA_BOOL && !samba_dtype_is_floating_point((samba_dtype)node.dtype))) {
            char text[SAMBA_TYPE_TEXT];
            samba_graph_fail_at(g, fits ? SAMBA_ERROR_DTYPE : SAMBA_ERROR_SHAPE, attention_name,
                                "expected %s, bool (true hides) or floating-point (added), for %lld queries and %lld keys in a batch of %lld with %lld heads, given %s",
                                i ? "a key_padding_mask (N, Tk), or (Tk) without a batch" : "an attn_mask (Tq, Tk) or (N * num_heads, Tq, Tk)", (long long)queries,
                                (long long)keys, (long long)batch, (long long)heads, samba_trace_format(&node, text));
            return false;
        }
    }
    return true;
}

samba_value samba_multi_head_attention(samba_value query, samba_value key, samba_value value, const char *name, int64_t num_heads,
                                       const samba_multi_head_options *options)
{
    samba_multi_head_options o;
    memset(&o, 0, sizeof o);
    if (options)
        o = *options;
    const samba_value given[3] = {query, key, value};
    samba_graph *g;
    if (!samba_trace_enter(attention_name, 3, given, &g))
        return samba_trace_none(g);
    samba_scope_push(g, name);
    if (g->status != SAMBA_OK || !samba_trace_need_floating(query, attention_name))
        return samba_trace_none(g);
    samba_node q = samba_trace_node(query), k = samba_trace_node(key), v = samba_trace_node(value);
    int rank = q.rank, batch_dim = o.batch_first ? 0 : 1, time_dim = rank == 2 ? 0 : 1 - batch_dim;
    int64_t width = rank ? q.shape[rank - 1] : 0, batch = rank == 3 ? q.shape[batch_dim] : 1;
    if ((rank != 2 && rank != 3) || k.rank != rank || v.rank != rank || k.shape[time_dim] != v.shape[time_dim] ||
        (rank == 3 && (k.shape[batch_dim] != batch || v.shape[batch_dim] != batch)) || k.dtype != q.dtype || v.dtype != q.dtype)
        return fail(g, attention_name, "query, key and value of one dtype, (T, N, E), with batch_first (N, T, E), or (T, E), key and value of as many steps", given, 3);
    if (num_heads < 1 || width < 1 || width % num_heads != 0)
        return samba_trace_value(g, samba_graph_fail_at(g, SAMBA_ERROR_ARGUMENT, attention_name, "num_heads must divide the query's %lld features, given %lld",
                                                        (long long)width, (long long)num_heads));
    int64_t queries = q.shape[time_dim], keys = k.shape[time_dim];
    if (!check_masks(g, &o, batch, rank == 3, num_heads, queries, keys))
        return samba_trace_none(g);
    samba_dtype dtype = (samba_dtype)q.dtype;
    bool packed = k.shape[rank - 1] == width && v.shape[rank - 1] == width;
    samba_value w[3], b[3] = {{NULL, 0, 0}, {NULL, 0, 0}, {NULL, 0, 0}}, part[3], weight = {NULL, 0, 0}, bias = {NULL, 0, 0};
    static const char *const names[] = {"q_proj_weight", "k_proj_weight", "v_proj_weight"};
    if (packed)
        weight = projection(g, "in_proj_weight", dtype, 3 * width, width);
    for (int i = 0; !packed && i < 3; i++)
        w[i] = projection(g, names[i], dtype, width, samba_trace_node(given[i]).shape[rank - 1]);
    if (!o.no_bias)
        bias = samba_parameter(g, "in_proj_bias", dtype, 1, (int64_t[]){3 * width}, (samba_initializer){SAMBA_INIT_ZEROS, 0, 0});
    if (packed && query.index == key.index && key.index == value.index) {
        samba_split(samba_functional_linear(batched(query, o.batch_first), weight, bias), width, -1, 3, part);
    } else {
        for (int i = 0; i < 3; i++) {
            if (packed)
                w[i] = samba_slice(weight, 0, i * width, (i + 1) * width, 1);
            if (bias.graph)
                b[i] = samba_slice(bias, 0, i * width, (i + 1) * width, 1);
            part[i] = samba_functional_linear(batched(given[i], o.batch_first), w[i], b[i]);
        }
    }
    samba_attention_options attention = samba_attention_defaults();
    attention.is_causal = o.is_causal;
    attention.mask = joined_mask(&o, batch, num_heads, queries, keys, dtype);
    if (o.dropout_p > 0)
        attention.dropout = "dropout", attention.dropout_p = o.dropout_p;
    samba_value y = samba_scaled_dot_product_attention(heads_of(part[0], num_heads), heads_of(part[1], num_heads), heads_of(part[2], num_heads), &attention);
    static const samba_initializer zeros = {SAMBA_INIT_ZEROS, 0, 0};
    y = samba_linear_with(samba_flatten(samba_transpose(y, 1, 2), 2, 3), "out_proj", width, &(samba_linear_options){.no_bias = o.no_bias, .bias = &zeros});
    y = rank == 2 ? samba_reshape(y, 2, (int64_t[]){queries, width}) : o.batch_first ? y : samba_transpose(y, 0, 1);
    samba_scope_pop(g);
    return y;
}

/* ---- layers ---- */
typedef enum place { SELF, MEMORY } place;

static samba_value drop(samba_value x, const char *name, const samba_transformer_options *o) { return o->dropout_p > 0 ? samba_dropout(x, name, o->dropout_p) : x; }

static samba_value norm(samba_value x, const char *name, const samba_transformer_options *o)
{
    return samba_layer_norm_with(x, name, &(samba_norm_options){.eps = o->layer_norm_eps, .no_bias = o->no_bias});
}

static samba_value attend(samba_value x, samba_value to, place where, int64_t heads, const samba_transformer_options *o)
{
    samba_multi_head_options m = {.no_bias = o->no_bias, .batch_first = o->batch_first, .dropout_p = o->dropout_p};
    m.is_causal = where == SELF ? o->is_causal : o->memory_is_causal;
    m.attn_mask = where == SELF ? o->mask : o->memory_mask;
    m.key_padding_mask = where == SELF ? o->key_padding_mask : o->memory_key_padding_mask;
    samba_value y = samba_multi_head_attention(x, to, to, where == SELF ? "self_attn" : "multihead_attn", heads, &m);
    return drop(y, where == SELF ? "dropout1" : "dropout2", o);
}

static samba_value feed(samba_value x, const char *dropout, const samba_transformer_options *o)
{
    int64_t width = samba_value_size(x, -1);
    samba_linear_options linear = {.no_bias = o->no_bias};
    samba_value hidden = samba_linear_with(x, "linear1", o->dim_feedforward ? o->dim_feedforward : 2048, &linear);
    hidden = drop(o->gelu ? samba_gelu(hidden) : samba_relu(hidden), "dropout", o);
    return drop(samba_linear_with(hidden, "linear2", width, &linear), dropout, o);
}

static samba_transformer_options settled(const samba_transformer_options *options)
{
    samba_transformer_options o;
    memset(&o, 0, sizeof o);
    if (options)
        o = *options;
    return o;
}

samba_value samba_transformer_encoder_layer(samba_value src, const char *name, int64_t num_heads, const samba_transformer_options *options)
{
    samba_transformer_options o = settled(options);
    samba_graph *g;
    if (!samba_trace_enter("transformer_encoder_layer", 1, &src, &g) || !samba_trace_need_floating(src, "transformer_encoder_layer"))
        return samba_trace_none(g);
    samba_scope_push(g, name);
    samba_value x = src;
    if (o.norm_first) {
        samba_value normed = norm(x, "norm1", &o);
        x = samba_add(x, attend(normed, normed, SELF, num_heads, &o));
        x = samba_add(x, feed(norm(x, "norm2", &o), "dropout2", &o));
    } else {
        x = norm(samba_add(x, attend(x, x, SELF, num_heads, &o)), "norm1", &o);
        x = norm(samba_add(x, feed(x, "dropout2", &o)), "norm2", &o);
    }
    samba_scope_pop(g);
    return x;
}

samba_value samba_transformer_decoder_layer(samba_value tgt, samba_value memory, const char *name, int64_t num_heads, const samba_transformer_options *options)
{
    samba_transformer_options o = settled(options);
    samba_graph *g;
    if (!samba_trace_enter("transformer_decoder_layer", 2, (samba_value[]){tgt, memory}, &g) || !samba_trace_need_floating(tgt, "transformer_decoder_layer"))
        return samba_trace_none(g);
    samba_scope_push(g, name);
    samba_value x = tgt;
    if (o.norm_first) {
        samba_value normed = norm(x, "norm1", &o);
        x = samba_add(x, attend(normed, normed, SELF, num_heads, &o));
        x = samba_add(x, attend(norm(x, "norm2", &o), memory, MEMORY, num_heads, &o));
        x = samba_add(x, feed(norm(x, "norm3", &o), "dropout3", &o));
    } else {
        x = norm(samba_add(x, attend(x, x, SELF, num_heads, &o)), "norm1", &o);
        x = norm(samba_add(x, attend(x, memory, MEMORY, num_heads, &o)), "norm2", &o);
        x = norm(samba_add(x, feed(x, "dropout3", &o)), "norm3", &o);
    }
    samba_scope_pop(g);
    return x;
}

/* ---- stacks ---- */
static samba_value stack(const char *what, samba_value x, samba_value memory, const char *name, int64_t num_layers, int64_t num_heads, const samba_transformer_options *options)
{
    samba_transformer_options o = settled(options);
    samba_graph *g;
    if (!samba_trace_enter_optional(what, 2, (samba_value[]){x, memory}, &g))
        return samba_trace_none(g);
    if (num_layers < 1)
        return samba_trace_value(g, samba_graph_fail_at(g, SAMBA_ERROR_ARGUMENT, what, "num_layers must be 1 or more, given %lld", (long long)num_layers));
    samba_scope_push(g, name);
    for (int64_t i = 0; i < num_layers && g->status == SAMBA_OK; i++) {
        char layer[48];
        snprintf(layer, sizeof layer, "layers.%lld", (long long)i);
        x = memory.graph ? samba_transformer_decoder_layer(x, memory, layer, num_heads, &o) : samba_transformer_encoder_layer(x, layer, num_heads, &o);
    }
    if (o.final_norm)
        x = norm(x, "norm", &o);
    samba_scope_pop(g);
    return x;
}

samba_value samba_transformer_encoder(samba_value src, const char *name, int64_t num_layers, int64_t num_heads, const samba_transformer_options *options)
{
    return stack("transformer_encoder", src, (samba_value){NULL, 0, 0}, name, num_layers, num_heads, options);
}

samba_value samba_transformer_decoder(samba_value tgt, samba_value memory, const char *name, int64_t num_layers, int64_t num_heads,
                                      const samba_transformer_options *options)
{
    samba_graph *g;
    if (!samba_trace_enter("transformer_decoder", 2, (samba_value[]){tgt, memory}, &g))
        return samba_trace_none(g);
    return stack("transformer_decoder", tgt, memory, name, num_layers, num_heads, options);
}
