/* SPDX-License-Identifier: Apache-2.0
 *
 * GPT-2, a decoder-only transformer, on the bytes of a text (model.c), and generating with a cache of keys and values
 * (generate.c).
 *
 *   gpt2 compile && gpt2 run --pef out/gpt2/gpt2.pef
 *   gpt2 compile --n-layer 12 --n-head 12 --n-embd 768 --block-size 256 --vocab-size 50257      the published 124M
 *   gpt2 generate --weights model.safetensors --prompt 464,3290,318 --count 100        token numbers in, token numbers out */
#include "model.h"

#include <string.h>

static const char *check(const void *options)
{
    const gpt2_settings *s = options;
    return s->n_embd % s->n_head ? "--n-head must divide --n-embd: every head gets an equal part of the width" : NULL;
}

static int inputs(const void *options, int64_t batch_size, samba_app_input *input)
{
    const gpt2_settings *s = options;
    input[0] = (samba_app_input){"input", SAMBA_INT64, 2, {batch_size, s->block_size}, s->vocab_size};
    input[1] = (samba_app_input){"label", SAMBA_INT64, 2, {batch_size, s->block_size}, s->vocab_size};
    return 2;
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "generate") == 0)
        return gpt2_generate(argc - 1, argv + 1);
    gpt2_settings s = {.n_layer = 4, .n_head = 4, .n_embd = 128, .block_size = 64, .vocab_size = 256};
    const samba_app_option options[] = {
        {.name = "n-layer", .help = "Transformer blocks", .integer = &s.n_layer, .low = 1, .high = 1024},
        {.name = "n-head", .help = "Heads of an attention; must divide the width", .integer = &s.n_head, .low = 1, .high = 1024},
        {.name = "n-embd", .help = "Width: numbers a token becomes", .integer = &s.n_embd, .low = 1, .high = 1 << 20},
        {.name = "block-size", .help = "Tokens in a sample", .integer = &s.block_size, .low = 1, .high = 1 << 20},
        {.name = "vocab-size",
         .help = "Different tokens; a text's bytes are 256",
         .integer = &s.vocab_size,
         .low = 2,
         .high = 1 << 24},
        {.name = "dropout", .help = "Dropout rate", .real = &s.dropout, .low = 0, .high = 0.99},
        {.name = "logits", .help = "Make the logits an output, which keeps all of them in memory", .flag = &s.logits},
    };
    samba_app app = {
        .struct_size = sizeof app,
        .name = "gpt2",
        .description = "GPT-2 on the bytes of a text. One more command, generate, makes tokens with a cache of keys and values: "
                       "see gpt2 generate --help.",
        .model = gpt2_train,
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
