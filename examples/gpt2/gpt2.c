/* SPDX-License-Identifier: Apache-2.0
 *
 * GPT-2, a decoder-only transformer, on the bytes of a text. Parameters are named and shaped as PyTorch's modules have them.
 *
 *   gpt2 compile && gpt2 run --pef out/gpt2/gpt2.pef
 *   gpt2 compile --n-layer 12 --n-head 12 --n-embd 768 --block-size 256 --vocab-size 50257      the published 124M */
#include <math.h>
#include <sambaflow/sambaflow.h>
#include <stdio.h>

typedef struct settings {
    int64_t n_layer, n_head, n_embd, block_size, vocab_size;
    double dropout;
    bool logits;
} settings;

static const samba_initializer zeros = {SAMBA_INIT_ZEROS, 0, 0}, small = {SAMBA_INIT_NORMAL, 0, 0.02};

static samba_value linear(samba_value x, const char *name, int64_t out_features, samba_initializer weight)
{
    return samba_linear_with(x, name, out_features, &(samba_linear_options){.weight = &weight, .bias = &zeros});
}

static samba_value dropout(samba_value x, const char *name, const settings *s)
{
    return s->dropout > 0 ? samba_dropout(x, name, s->dropout) : x;
}

/* Projections back into the residual stream start smaller, since 2 * n_layer of them add up there. */
static samba_initializer residual(const settings *s)
{
    return (samba_initializer){SAMBA_INIT_NORMAL, 0, 0.02 / sqrt(2.0 * (double)s->n_layer)};
}

/* (B, T, C) -> (B, H, T, C / H) */
static samba_value split_heads(samba_value x, int64_t heads)
{
    const int64_t batch = samba_value_size(x, 0), time = samba_value_size(x, 1), width = samba_value_size(x, 2);
    return samba_transpose(samba_reshape(x, 4, (int64_t[]){batch, time, heads, width / heads}), 1, 2);
}

static samba_value attention(samba_graph *g, samba_value x, const settings *s)
{
    samba_attention_options causal = {.is_causal = true};
    if (s->dropout > 0)
        causal.dropout = "attn_dropout", causal.dropout_p = s->dropout;
    samba_value qkv[3];
    samba_scope_push(g, "attn");
    samba_split(linear(x, "c_attn", 3 * s->n_embd, small), s->n_embd, -1, 3, qkv);
    for (int i = 0; i < 3; i++)
        qkv[i] = split_heads(qkv[i], s->n_head);
    samba_value y = samba_scaled_dot_product_attention(qkv[0], qkv[1], qkv[2], &causal);
    y = samba_flatten(samba_transpose(y, 1, 2), 2, 3); /* (B, T, C) again */
    y = dropout(linear(y, "c_proj", s->n_embd, residual(s)), "resid_dropout", s);
    samba_scope_pop(g);
    return y;
}

static samba_value mlp(samba_graph *g, samba_value x, const settings *s)
{
    samba_scope_push(g, "mlp");
    x = samba_gelu_tanh(linear(x, "c_fc", 4 * s->n_embd, small));
    x = dropout(linear(x, "c_proj", s->n_embd, residual(s)), "dropout", s);
    samba_scope_pop(g);
    return x;
}

static void model(samba_graph *g, const void *options)
{
    const settings *s = options;
    samba_value tokens = samba_input(g, "input"), label = samba_input(g, "label"); /* (B, T) both */
    /* The token table serves twice: rows of it are what a token means, and its transpose says how likely each token is next. */
    samba_value wte = samba_parameter(g, "wte.weight", SAMBA_FLOAT32, 2, (int64_t[]){s->vocab_size, s->n_embd}, small);
    samba_value wpe = samba_parameter(g, "wpe.weight", SAMBA_FLOAT32, 2, (int64_t[]){s->block_size, s->n_embd}, small);
    samba_value x = samba_add(samba_embedding(tokens, "wte", s->vocab_size, s->n_embd), wpe); /* (B, T, C) from here on */
    x = dropout(x, "drop", s);
    for (int64_t i = 0; i < s->n_layer; i++) {
        char name[32];
        snprintf(name, sizeof name, "h.%lld", (long long)i);
        samba_scope_push(g, name);
        x = samba_add(x, attention(g, samba_layer_norm(x, "ln_1"), s));
        x = samba_add(x, mlp(g, samba_layer_norm(x, "ln_2"), s));
        samba_scope_pop(g);
    }
    samba_value logits = samba_matmul(samba_layer_norm(x, "ln_f"), samba_transpose(wte, 0, 1)); /* (B, T, V) */
    samba_loss(g, "loss", samba_cross_entropy(samba_flatten(logits, 0, 1), samba_flatten(label, 0, 1)));
    if (s->logits)
        samba_output(g, "logits", logits);
}

static const char *check(const void *options)
{
    const settings *s = options;
    return s->n_embd % s->n_head ? "--n-head must divide --n-embd: every head gets an equal part of the width" : NULL;
}

static int inputs(const void *options, int64_t batch_size, samba_app_input *input)
{
    const settings *s = options;
    input[0] = (samba_app_input){"input", SAMBA_INT64, 2, {batch_size, s->block_size}, s->vocab_size};
    input[1] = (samba_app_input){"label", SAMBA_INT64, 2, {batch_size, s->block_size}, s->vocab_size};
    return 2;
}

int main(int argc, char **argv)
{
    settings s = {.n_layer = 4, .n_head = 4, .n_embd = 128, .block_size = 64, .vocab_size = 256};
    const samba_app_option options[] = {
        {.name = "n-layer", .help = "Transformer blocks", .integer = &s.n_layer, .low = 1, .high = 1024},
        {.name = "n-head", .help = "Heads of an attention; must divide the width", .integer = &s.n_head, .low = 1, .high = 1024},
        {.name = "n-embd", .help = "Width: numbers a token becomes", .integer = &s.n_embd, .low = 1, .high = 1 << 20},
        {.name = "block-size", .help = "Tokens in a sample", .integer = &s.block_size, .low = 1, .high = 1 << 20},
        {.name = "vocab-size", .help = "Different tokens; a text's bytes are 256", .integer = &s.vocab_size, .low = 2, .high = 1 << 24},
        {.name = "dropout", .help = "Dropout rate", .real = &s.dropout, .low = 0, .high = 0.99},
        {.name = "logits", .help = "Make the logits an output, which keeps all of them in memory", .flag = &s.logits},
    };
    samba_app app = {
        .struct_size = sizeof app,
        .name = "gpt2",
        .description = "GPT-2 on the bytes of a text.",
        .model = model,
        .settings = &s,
        .option_count = sizeof options / sizeof *options,
        .options = options,
        .check = check,
        .inputs = inputs,
        .data = samba_app_text,
        .batch_size = 8,
        .num_epochs = 10,
        .optimizer = samba_adamw(1e-3),
    };
    app.optimizer.beta2 = 0.95;
    app.optimizer.weight_decay = 0.1;
    app.optimizer.max_grad_norm = 1;
    return samba_app_main(argc, argv, &app);
}
