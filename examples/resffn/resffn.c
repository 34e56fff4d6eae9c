/* SPDX-License-Identifier: Apache-2.0
 *
 * ResFFNLogReg: a feed-forward network with two activation functions, layer norms and a residual connection.
 *
 *   resffn compile --hidden-size 1024 -b 256 && resffn run --pef out/resffn/resffn.pef */
#include <sambaflow/sambaflow.h>

typedef struct settings {
    int64_t num_features, hidden_size, num_classes;
} settings;

static void model(samba_graph *g, const void *options)
{
    const settings *s = options;
    samba_value image = samba_input(g, "image"), label = samba_input(g, "label");
    samba_value residual = samba_tanh(samba_layer_norm(samba_linear(image, "gemm1", s->hidden_size), "norm1"));
    samba_value hidden = samba_layer_norm(samba_linear(residual, "gemm2", s->hidden_size), "norm2");
    samba_value logits = samba_linear(samba_sigmoid(samba_add(hidden, residual)), "gemm3", s->num_classes);
    samba_loss(g, "loss", samba_cross_entropy(logits, label));
    samba_output(g, "logits", logits);
}

static int inputs(const void *options, int64_t batch_size, samba_app_input *input)
{
    const settings *s = options;
    input[0] = (samba_app_input){"image", SAMBA_FLOAT32, 2, {batch_size, s->num_features}, 0};
    input[1] = (samba_app_input){"label", SAMBA_INT64, 1, {batch_size}, s->num_classes};
    return 2;
}

int main(int argc, char **argv)
{
    settings s = {784, 128, 10};
    const samba_app_option options[] = {
        {.name = "num-features", .help = "Values in an image", .integer = &s.num_features, .low = 1, .high = 1 << 24},
        {.name = "hidden-size", .help = "Width of the hidden layers", .integer = &s.hidden_size, .low = 1, .high = 1 << 20},
        {.name = "num-classes", .help = "Classes", .integer = &s.num_classes, .low = 2, .high = 1 << 20},
    };
    samba_app app = {
        .struct_size = sizeof app,
        .name = "resffn",
        .description = "ResFFNLogReg, a feed-forward network with a residual connection, on handwritten digits.",
        .model = model,
        .settings = &s,
        .option_count = 3,
        .options = options,
        .inputs = inputs,
        .data = samba_app_digits,
        .batch_size = 32,
        .num_epochs = 10,
        .optimizer = samba_sgd(0.05),
    };
    app.optimizer.momentum = 0.9;
    return samba_app_main(argc, argv, &app);
}
