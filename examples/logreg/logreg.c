/* SPDX-License-Identifier: Apache-2.0
 *
 * Logistic regression: one linear layer and cross entropy. The smallest whole application.
 *
 *   logreg compile && logreg run --pef out/logreg/logreg.pef */
#include <sambaflow/sambaflow.h>

typedef struct settings {
    int64_t num_features, num_classes;
} settings;

static void model(samba_graph *g, const void *options)
{
    const settings *s = options;
    samba_value image = samba_input(g, "image"), label = samba_input(g, "label");
    samba_value logits = samba_linear(image, "lin_layer", s->num_classes);
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
    settings s = {784, 10};
    const samba_app_option options[] = {
        {.name = "num-features", .help = "Values in an image", .integer = &s.num_features, .low = 1, .high = 1 << 24},
        {.name = "num-classes", .help = "Classes", .integer = &s.num_classes, .low = 2, .high = 1 << 20},
    };
    samba_app app = {
        .struct_size = sizeof app,
        .name = "logreg",
        .description = "Logistic regression on handwritten digits.",
        .model = model,
        .settings = &s,
        .option_count = 2,
        .options = options,
        .inputs = inputs,
        .data = samba_app_digits,
        .batch_size = 32,
        .num_epochs = 10,
        .optimizer = samba_sgd(0.01),
    };
    return samba_app_main(argc, argv, &app);
}
