/* SPDX-License-Identifier: Apache-2.0
 *
 * GPT-2, a decoder-only transformer. Parameters are named and shaped as PyTorch's modules have them. One block serves three
 * graphs: training attends within a sample; a prompt does the same, and leaves its keys and values in the cache;
 * a single token adds its own there, and attends to all of it. */
#include "model.h"

#include <math.h>
#include <stdio.h>

static const samba_initializer zeros = {SAMBA_INIT_ZEROS, 0, 0}, small = {SAMBA_INIT_NORMAL, 0, 0.02};

typedef struct context { /* what a block needs to know */
    const gpt2_settings *s;
    const gpt2_step *step;      /* NULL: training */
    samba_value position, seen; /* of one token: its place, and which places it sees; else zeroed */
} context;

static samba_value linear(samba_value x, const char *name, int64_t out_features, samba_initializer weight)
{
    return samba_linear_with(x, name, out_features, &(samba_linear_options){.weight = &weight, .bias = &zeros});
}

static samba_value dropout(samba_value x, const char *name, const context *c)
{
    return c->s->dropout > 0 && !c->step ? samba_dropout(x, name, c->s->dropout) : x;
}

/* Projections back into the residual stream start smaller, since 2 * n_layer of them add up there. */
static samba_initializer residual(const gpt2_settings *s)
{
    return (samba_initializer){SAMBA_INIT_NORMAL, 0, 0.02 / sqrt(2.0 * (double)s->n_layer)};
}

/* (B, T, C) -> (B, H, T, C / H) */
static samba_value split_heads(samba_value x, int64_t heads)
{
    const int64_t batch = samba_value_size(x, 0), time = samba_value_size(x, 1), width = samba_value_size(x, 2);
    return samba_transpose(samba_reshape(x, 4, (int64_t[]){batch, time, heads, width / heads}), 1, 2);
}

/* Keys and values of a joint projection (1, T, 3 C) into the cache, which holds those of all places afterwards. */
static samba_value remember(samba_graph *g, samba_value qkv, const context *c)
{
    const gpt2_settings *s = c->s;
    const int64_t shape[] = {2, s->n_head, s->block_size, s->n_embd / s->n_head};
    samba_value cache = samba_register_buffer(g, "cache", c->step->cache, 4, shape, zeros);
    samba_value kv =
        samba_reshape(samba_narrow(qkv, 2, s->n_embd, 2 * s->n_embd), 4, (int64_t[]){c->step->tokens, 2, s->n_head, shape[3]});
    samba_value fresh = samba_cast(samba_permute(kv, (int[]){1, 2, 0, 3}), c->step->cache); /* (2, H, T, D) */
    samba_value places = c->position.graph ? c->position : samba_arange(g, c->step->tokens, SAMBA_INT64);
    samba_value filled = samba_index_copy(cache, 2, places, fresh);
    samba_assign(cache, filled);
    return filled;
}

static samba_value attention(samba_graph *g, samba_value x, const context *c)
{
    const gpt2_settings *s = c->s;
    samba_attention_options options = {.is_causal = true};
    if (s->dropout > 0 && !c->step)
        options.dropout = "attn_dropout", options.dropout_p = s->dropout;
    samba_value qkv[3], joint, y;
    samba_scope_push(g, "attn");
    joint = linear(x, "c_attn", 3 * s->n_embd, small);
    samba_split(joint, s->n_embd, -1, 3, qkv);
    for (int i = 0; i < 3; i++)
        qkv[i] = split_heads(qkv[i], s->n_head);
    if (c->step) {
        samba_value cache = remember(g, joint, c);
        if (c->position.graph) {
            options = (samba_attention_options){.mask = c->seen};
            qkv[0] = samba_cast(qkv[0], c->step->cache);
            qkv[1] = samba_narrow(cache, 0, 0, 1);
            qkv[2] = samba_narrow(cache, 0, 1, 1);
        }
    }
    y = samba_scaled_dot_product_attention(qkv[0], qkv[1], qkv[2], &options);
    y = samba_cast(samba_flatten(samba_transpose(y, 1, 2), 2, 3), SAMBA_FLOAT32); /* (B, T, C) again */
    y = dropout(linear(y, "c_proj", s->n_embd, residual(s)), "resid_dropout", c);
    samba_scope_pop(g);
    return y;
}

static samba_value mlp(samba_graph *g, samba_value x, const context *c)
{
    samba_scope_push(g, "mlp");
    x = samba_gelu_tanh(linear(x, "c_fc", 4 * c->s->n_embd, small));
    x = dropout(linear(x, "c_proj", c->s->n_embd, residual(c->s)), "dropout", c);
    samba_scope_pop(g);
    return x;
}

static samba_value blocks(samba_graph *g, samba_value x, const context *c)
{
    x = dropout(x, "drop", c);
    for (int64_t i = 0; i < c->s->n_layer; i++) {
        char name[32];
        snprintf(name, sizeof name, "h.%lld", (long long)i);
        samba_scope_push(g, name);
        x = samba_add(x, attention(g, samba_layer_norm(x, "ln_1"), c));
        x = samba_add(x, mlp(g, samba_layer_norm(x, "ln_2"), c));
        samba_scope_pop(g);
    }
    return x;
}

/* The token table serves twice: rows of it are what a token means, and its transpose says how likely each token is next. */
static samba_value tokens_table(samba_graph *g, const gpt2_settings *s)
{
    return samba_parameter(g, "wte.weight", SAMBA_FLOAT32, 2, (int64_t[]){s->vocab_size, s->n_embd}, small);
}

static samba_value places_table(samba_graph *g, const gpt2_settings *s)
{
    return samba_parameter(g, "wpe.weight", SAMBA_FLOAT32, 2, (int64_t[]){s->block_size, s->n_embd}, small);
}

void gpt2_train(samba_graph *g, const void *settings)
{
    const gpt2_settings *s = settings;
    const context c = {.s = s};
    samba_value tokens = samba_input(g, "input"), label = samba_input(g, "label"); /* (B, T) both */
    samba_value wte = tokens_table(g, s), wpe = places_table(g, s);
    samba_value x = blocks(g, samba_add(samba_embedding(tokens, "wte", s->vocab_size, s->n_embd), wpe), &c);
    samba_value head = samba_transpose(wte, 0, 1), logits = samba_matmul(samba_layer_norm(x, "ln_f"), head); /* (B, T, V) */
    samba_value target = samba_flatten(label, 0, 1);
    samba_loss(g, "loss", samba_cross_entropy(samba_flatten(logits, 0, 1), target));
    if (s->logits)
        samba_output(g, "logits", logits);
}

/* x (1, 1, C), of one token */
static void answer(samba_graph *g, samba_value x, const gpt2_settings *s, const char *name)
{
    char output[64];
    samba_value row = samba_reshape(samba_layer_norm(x, "ln_f"), 2, (int64_t[]){1, s->n_embd});
    samba_value logits =
        samba_reshape(samba_matmul(row, samba_transpose(tokens_table(g, s), 0, 1)), 1, (int64_t[]){s->vocab_size});
    snprintf(output, sizeof output, "%s.logits", name);
    samba_output(g, output, logits);
    snprintf(output, sizeof output, "%s.next", name);
    samba_output(g, output, samba_argmax(logits, 0, true));
}

void gpt2_prefill(samba_graph *g, const void *step)
{
    const context c = {.s = ((const gpt2_step *)step)->settings, .step = step};
    samba_value tokens = samba_unsqueeze(samba_input(g, "tokens"), 0), last = samba_input(g, "last");
    samba_value wpe = samba_narrow(places_table(g, c.s), 0, 0, c.step->tokens);
    tokens_table(g, c.s);
    samba_value x = blocks(g, samba_add(samba_embedding(tokens, "wte", c.s->vocab_size, c.s->n_embd), wpe), &c);
    answer(g, samba_index_select(x, 1, last), c.s, "prefill");
}

void gpt2_decode(samba_graph *g, const void *step)
{
    context c = {.s = ((const gpt2_step *)step)->settings, .step = step};
    samba_value token = samba_unsqueeze(samba_input(g, "token"), 0);
    c.position = samba_input(g, "position");
    c.seen = samba_le(samba_arange(g, c.s->block_size, SAMBA_INT64), c.position);
    tokens_table(g, c.s);
    samba_value place = samba_functional_embedding(c.position, places_table(g, c.s), NULL);
    samba_value x = samba_add(samba_embedding(token, "wte", c.s->vocab_size, c.s->n_embd), place);
    answer(g, blocks(g, x, &c), c.s, "decode");
}
