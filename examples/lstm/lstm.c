/* SPDX-License-Identifier: Apache-2.0
 *
 * An LSTM language model on the bytes of a text, as Zaremba, Sutskever and Vinyals 2014 have it. Parameters are named and shaped
 * as PyTorch's modules have them; every sample starts from zero states.
 *
 *   lstm compile && lstm run --pef out/lstm/lstm.pef
 *   lstm compile --num-layers 2 --hidden-size 650 --block-size 35 --vocab-size 10000 --batch-size 20      their medium model */
#include <sambaflow/sambaflow.h>

typedef struct settings {
    int64_t num_layers, hidden_size, block_size, vocab_size;
    double dropout;
    bool logits;
} settings;

static const samba_initializer zeros = {SAMBA_INIT_ZEROS, 0, 0}, small = {SAMBA_INIT_UNIFORM, -0.05, 0.05};

static samba_value dropout(samba_value x, const char *name, const settings *s)
{
    return s->dropout > 0 ? samba_dropout(x, name, s->dropout) : x;
}

static void model(samba_graph *g, const void *options)
{
    const settings *s = options;
    samba_value tokens = samba_input(g, "input"), label = samba_input(g, "label"); /* (B, T) both */
    samba_parameter(g, "encoder.weight", SAMBA_FLOAT32, 2, (int64_t[]){s->vocab_size, s->hidden_size}, small);
    /* (T, B, H) from here on */
    samba_value x = samba_embedding(samba_transpose(tokens, 0, 1), "encoder", s->vocab_size, s->hidden_size);
    x = samba_lstm(dropout(x, "drop", s), "rnn", s->hidden_size,
                   &(samba_recurrent_options){.num_layers = s->num_layers, .dropout_p = s->dropout}, NULL);
    samba_value logits = samba_linear_with(dropout(x, "drop", s), "decoder", s->vocab_size,
                                           &(samba_linear_options){.weight = &small, .bias = &zeros});
    samba_value target = samba_flatten(samba_transpose(label, 0, 1), 0, 1);
    samba_loss(g, "loss", samba_cross_entropy(samba_flatten(logits, 0, 1), target));
    if (s->logits)
        samba_output(g, "logits", samba_transpose(logits, 0, 1)); /* (B, T, V) */
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
    settings s = {.num_layers = 2, .hidden_size = 128, .block_size = 64, .vocab_size = 256};
    const samba_app_option options[] = {
        {.name = "num-layers", .help = "LSTM layers", .integer = &s.num_layers, .low = 1, .high = 1024},
        {.name = "hidden-size",
         .help = "Width: numbers a token becomes, and those a layer remembers",
         .integer = &s.hidden_size,
         .low = 1,
         .high = 1 << 20},
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
        .name = "lstm",
        .description = "An LSTM language model on the bytes of a text.",
        .model = model,
        .settings = &s,
        .option_count = sizeof options / sizeof *options,
        .options = options,
        .inputs = inputs,
        .data = samba_app_text,
        .batch_size = 20,
        .num_epochs = 10,
        .optimizer = samba_adamw(2e-3),
    };
    app.optimizer.max_grad_norm = 1;
    return samba_app_main(argc, argv, &app);
}
