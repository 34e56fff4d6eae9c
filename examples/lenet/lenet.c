/* SPDX-License-Identifier: Apache-2.0
 *
 * LeNet-5 with ReLU and max pooling, on handwritten digits of 28 x 28 pixels.
 *
 *   lenet compile && lenet run --pef out/lenet/lenet.pef */
#include <sambaflow/sambaflow.h>

typedef struct settings {
    int64_t num_classes;
} settings;

static void model(samba_graph *g, const void *options)
{
    const settings *s = options;
    const int64_t five[] = {5, 5}, two[] = {2, 2};
    const samba_conv2d_options same = {.padding = {2, 2}};
    samba_value image = samba_input(g, "image"), label = samba_input(g, "label");
    samba_value x = samba_max_pool2d(samba_relu(samba_conv2d(image, "conv1", 6, five, &same)), two, NULL); /* (B,6,14,14) */
    x = samba_max_pool2d(samba_relu(samba_conv2d(x, "conv2", 16, five, NULL)), two, NULL);                 /* (B,16,5,5) */
    x = samba_relu(samba_linear(samba_flatten(x, 1, -1), "fc1", 120));
    x = samba_relu(samba_linear(x, "fc2", 84));
    samba_value logits = samba_linear(x, "fc3", s->num_classes);
    samba_loss(g, "loss", samba_cross_entropy(logits, label));
    samba_output(g, "logits", logits);
}

static int inputs(const void *options, int64_t batch_size, samba_app_input *input)
{
    const settings *s = options;
    input[0] = (samba_app_input){"image", SAMBA_FLOAT32, 4, {batch_size, 1, 28, 28}, 0};
    input[1] = (samba_app_input){"label", SAMBA_INT64, 1, {batch_size}, s->num_classes};
    return 2;
}

int main(int argc, char **argv)
{
    settings s = {10};
    const samba_app_option options[] = {
        {.name = "num-classes", .help = "Classes", .integer = &s.num_classes, .low = 2, .high = 1 << 20},
    };
    samba_app app = {
        .struct_size = sizeof app,
        .name = "lenet",
        .description = "LeNet-5 on handwritten digits.",
        .model = model,
        .settings = &s,
        .option_count = 1,
        .options = options,
        .inputs = inputs,
        .data = samba_app_digits,
        .batch_size = 32,
        .num_epochs = 15,
        .optimizer = samba_sgd(0.01),
    };
    app.optimizer.momentum = 0.9;
    return samba_app_main(argc, argv, &app);
}
