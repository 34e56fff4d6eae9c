/* SPDX-License-Identifier: Apache-2.0
 *
 * ResNet-18. Parameters and buffers are named and shaped as torchvision's resnet18 has them.
 *
 *   resnet compile --width 16 && resnet run --pef out/resnet/resnet.pef                digits
 *   resnet compile --channels 3 --image-size 224 --num-classes 1000      the published model */
#include <sambaflow/sambaflow.h>
#include <math.h>
#include <stdio.h>

typedef struct settings {
    int64_t channels, image_size, num_classes, width;
    bool float64;
} settings;

/* kaiming_normal_(mode='fan_out', nonlinearity='relu'), as torchvision starts its weights */
static samba_value conv(samba_value x, const char *name, int64_t channels, int64_t kernel, int64_t stride)
{
    samba_graph *g = x.graph;
    const samba_conv2d_options options = {.stride = {stride, stride}, .padding = {kernel / 2, kernel / 2}, .no_bias = true};
    samba_scope_push(g, name);
    samba_parameter(g, "weight", samba_value_dtype(x), 4, (int64_t[]){channels, samba_value_size(x, 1), kernel, kernel},
                    (samba_initializer){SAMBA_INIT_NORMAL, 0, sqrt(2.0 / (double)(channels * kernel * kernel))});
    samba_scope_pop(g);
    return samba_conv2d(x, name, channels, (int64_t[]){kernel, kernel}, &options);
}

static samba_value block(samba_value x, const char *name, int64_t channels, int64_t stride)
{
    samba_graph *g = x.graph;
    samba_scope_push(g, name);
    samba_value y = samba_relu(samba_batch_norm(conv(x, "conv1", channels, 3, stride), "bn1", NULL));
    y = samba_batch_norm(conv(y, "conv2", channels, 3, 1), "bn2", NULL);
    if (stride != 1 || samba_value_size(x, 1) != channels)
        x = samba_batch_norm(conv(x, "downsample.0", channels, 1, stride), "downsample.1", NULL);
    samba_scope_pop(g);
    return samba_relu(samba_add(y, x));
}

static void model(samba_graph *g, const void *options)
{
    const settings *s = options;
    const int64_t three[] = {3, 3};
    const samba_pool2d_options half = {.stride = {2, 2}, .padding = {1, 1}};
    samba_value image = samba_input(g, "image"), label = samba_input(g, "label");
    samba_value x = samba_cast(image, s->float64 ? SAMBA_FLOAT64 : SAMBA_FLOAT32);
    x = samba_relu(samba_batch_norm(conv(x, "conv1", s->width, 7, 2), "bn1", NULL));
    x = samba_max_pool2d(x, three, &half);
    for (int stage = 0; stage < 4; stage++)
        for (int i = 0; i < 2; i++) {
            char name[16];
            snprintf(name, sizeof name, "layer%d.%d", stage + 1, i);
            x = block(x, name, s->width << stage, stage > 0 && i == 0 ? 2 : 1);
        }
    samba_value logits = samba_linear(samba_mean(x, 2, (int[]){2, 3}, false), "fc", s->num_classes);
    samba_loss(g, "loss", samba_cross_entropy(logits, label));
    samba_output(g, "logits", logits);
}

static int inputs(const void *options, int64_t batch_size, samba_app_input *input)
{
    const settings *s = options;
    input[0] = (samba_app_input){"image", SAMBA_FLOAT32, 4, {batch_size, s->channels, s->image_size, s->image_size}, 0};
    input[1] = (samba_app_input){"label", SAMBA_INT64, 1, {batch_size}, s->num_classes};
    return 2;
}

int main(int argc, char **argv)
{
    settings s = {.channels = 1, .image_size = 28, .num_classes = 10, .width = 64};
    const samba_app_option options[] = {
        {.name = "channels", .help = "Channels of an image", .integer = &s.channels, .low = 1, .high = 1 << 10},
        {.name = "image-size",
         .help = "Pixels in a row and a column of an image",
         .integer = &s.image_size,
         .low = 1,
         .high = 1 << 14},
        {.name = "num-classes", .help = "Classes", .integer = &s.num_classes, .low = 2, .high = 1 << 20},
        {.name = "width",
         .help = "Channels of the first stage; each further one has twice as many",
         .integer = &s.width,
         .low = 1,
         .high = 1 << 12},
        {.name = "float64", .help = "Compute in float64", .flag = &s.float64},
    };
    samba_app app = {
        .struct_size = sizeof app,
        .name = "resnet",
        .description = "ResNet-18 on images.",
        .model = model,
        .settings = &s,
        .option_count = sizeof options / sizeof *options,
        .options = options,
        .inputs = inputs,
        .data = samba_app_digits,
        .batch_size = 32,
        .num_epochs = 10,
        .optimizer = samba_sgd(0.1),
    };
    app.optimizer.momentum = 0.9;
    app.optimizer.weight_decay = 1e-4;
    return samba_app_main(argc, argv, &app);
}
