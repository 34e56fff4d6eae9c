/* SPDX-License-Identifier: Apache-2.0
 *
 * Transformer layers and stacks of them over the public functions. */
#include "trace/trace.h"

#include <sambaflow/functional.h>
#include <sambaflow/layers.h>
#include <sambaflow/transformer.h>

/* ---- layers ---- */
typedef enum source { SELF, MEMORY } source;

static samba_value drop(samba_value x, const char *name, const samba_transformer_options *o)
{
    return o->dropout_p > 0 ? samba_dropout(x, name, o->dropout_p) : x;
}

static samba_value norm(samba_value x, const char *name, const samba_transformer_options *o)
{
    return samba_layer_norm_with(x, name, &(samba_norm_options){.eps = o->layer_norm_eps, .no_bias = o->no_bias});
}

static samba_value attend(samba_value x, samba_value to, source where, int64_t heads, const samba_transformer_options *o)
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
    return options ? *options : (samba_transformer_options){0};
}

samba_value samba_transformer_encoder_layer(samba_value src, const char *name, int64_t num_heads,
                                            const samba_transformer_options *options)
{
    samba_transformer_options o = settled(options);
    samba_graph *g;
    if (!samba_trace_enter("transformer_encoder_layer", 1, &src, &g) ||
        !samba_trace_need_floating(src, "transformer_encoder_layer"))
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

samba_value samba_transformer_decoder_layer(samba_value tgt, samba_value memory, const char *name, int64_t num_heads,
                                            const samba_transformer_options *options)
{
    samba_transformer_options o = settled(options);
    samba_graph *g;
    if (!samba_trace_enter("transformer_decoder_layer", 2, (samba_value[]){tgt, memory}, &g) ||
        !samba_trace_need_floating(tgt, "transformer_decoder_layer"))
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
static samba_value stack(const char *what, samba_value x, samba_value memory, const char *name, int64_t num_layers,
                         int64_t num_heads, const samba_transformer_options *options)
{
    samba_transformer_options o = settled(options);
    samba_graph *g;
    if (!samba_trace_enter_optional(what, 2, (samba_value[]){x, memory}, &g))
        return samba_trace_none(g);
    if (num_layers < 1)
        return samba_trace_fail(g, SAMBA_ERROR_ARGUMENT, what, "num_layers must be 1 or more, given %lld", (long long)num_layers);
    samba_scope_push(g, name);
    for (int64_t i = 0; i < num_layers && g->status == SAMBA_OK; i++) {
        char layer[48];
        snprintf(layer, sizeof layer, "layers.%lld", (long long)i);
        x = memory.graph ? samba_transformer_decoder_layer(x, memory, layer, num_heads, &o)
                         : samba_transformer_encoder_layer(x, layer, num_heads, &o);
    }
    if (o.final_norm)
        x = norm(x, "norm", &o);
    samba_scope_pop(g);
    return x;
}

samba_value samba_transformer_encoder(samba_value src, const char *name, int64_t num_layers, int64_t num_heads,
                                      const samba_transformer_options *options)
{
    return stack("transformer_encoder", src, (samba_value){NULL, 0, 0}, name, num_layers, num_heads, options);
}

samba_value samba_transformer_decoder(samba_value tgt, samba_value memory, const char *name, int64_t num_layers,
                                      int64_t num_heads, const samba_transformer_options *options)
{
    samba_graph *g;
    if (!samba_trace_enter("transformer_decoder", 2, (samba_value[]){tgt, memory}, &g))
        return samba_trace_none(g);
    return stack("transformer_decoder", tgt, memory, name, num_layers, num_heads, options);
}
