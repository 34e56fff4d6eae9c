/* SPDX-License-Identifier: Apache-2.0
 *
 * A U-Net: the class of every pixel. Each level of the encoder has half the pixels and twice the channels of the one above; the
 * decoder comes back up by transposed convolutions, and reads at every level what the encoder had there.
 *
 *   unet compile && unet run --pef out/unet/unet.pef       digits: each pixel of a digit's line says which digit, all others
 *   background
 *   unet compile --channels 3 --image-size 128 --depth 3 --num-classes 2 */
#include <sambaflow/sambaflow.h>
#include <math.h>
#include <stdio.h>

typedef struct settings {
    int64_t channels, image_size, depth, width, groups, num_classes;
} settings;

/* Twice: 3 x 3 convolution, group norm, relu. */
static samba_value level(samba_value x, int64_t channels, const settings *s)
{
    const samba_conv2d_options same = {.padding = {1, 1}, .no_bias = true};
    for (int i = 1; i <= 2; i++) {
        char conv[16], norm[16];
        snprintf(conv, sizeof conv, "conv%d", i);
        snprintf(norm, sizeof norm, "norm%d", i);
        x = samba_relu(samba_group_norm(samba_conv2d(x, conv, channels, (int64_t[]){3, 3}, &same), norm, s->groups, NULL));
    }
    return x;
}

/* Twice the pixels, half the channels. */
static samba_value upward(samba_value x, const char *name)
{
    samba_graph *g = x.graph;
    const int64_t channels = samba_value_size(x, 1), half = channels / 2;
    const double bound = 1 / sqrt((double)half * 4);
    const samba_initializer uniform = {SAMBA_INIT_UNIFORM, -bound, bound};
    const samba_conv_transpose2d_options two = {.stride = {2, 2}};
    samba_scope_push(g, name);
    samba_value weight = samba_parameter(g, "weight", SAMBA_FLOAT32, 4, (int64_t[]){channels, half, 2, 2}, uniform);
    samba_value bias = samba_parameter(g, "bias", SAMBA_FLOAT32, 1, &half, uniform);
    samba_scope_pop(g);
    return samba_functional_conv_transpose2d(x, weight, bias, &two);
}

static void model(samba_graph *g, const void *options)
{
    const settings *s = options;
    const int64_t one[] = {1, 1}, two[] = {2, 2};
    samba_value image = samba_input(g, "image"), label = samba_input(g, "label"), kept[16], x = image;
    char name[32];
    for (int i = 0; i <= s->depth; i++) {
        snprintf(name, sizeof name, "encoder.%d", i);
        samba_scope_push(g, name);
        kept[i] = x = level(i > 0 ? samba_max_pool2d(x, two, NULL) : x, s->width << i, s);
        samba_scope_pop(g);
    }
    for (int i = (int)s->depth - 1; i >= 0; i--) {
        snprintf(name, sizeof name, "decoder.%d", i);
        samba_scope_push(g, name);
        x = level(samba_concat(2, (samba_value[]){kept[i], upward(x, "up")}, 1), s->width << i, s);
        samba_scope_pop(g);
    }
    samba_value logits = samba_conv2d(x, "head", s->num_classes, one, NULL); /* (B, classes, H, W) */
    samba_loss(g, "loss", samba_cross_entropy(logits, label));
    samba_output(g, "logits", logits);
}

static const char *check(const void *options)
{
    const settings *s = options;
    return s->width % s->groups              ? "--groups must divide --width: a group is as many channels as another"
           : s->image_size % (1 << s->depth) ? "--image-size must be divisible by 2 for each level of --depth"
                                             : NULL;
}

static int inputs(const void *options, int64_t batch_size, samba_app_input *input)
{
    const settings *s = options;
    input[0] = (samba_app_input){"image", SAMBA_FLOAT32, 4, {batch_size, s->channels, s->image_size, s->image_size}, 0};
    input[1] = (samba_app_input){"label", SAMBA_INT64, 3, {batch_size, s->image_size, s->image_size}, s->num_classes};
    return 2;
}

/* Digits, where a pixel's class is 1 + the digit on its line, and 0 beside it. */
static samba_status lines_of_digits(samba_context *context, const char *folder, int input_count, const samba_app_input *inputs,
                                    samba_app_data *data)
{
    samba_app_input digits[2] = {inputs[0], {"label", SAMBA_INT64, 1, {inputs[1].shape[0]}, inputs[1].classes - 1}};
    samba_status status = samba_app_digits(context, folder, input_count, digits, data);
    if (status != SAMBA_OK)
        return status;
    const int64_t samples = data->train_count + data->test_count, height = inputs[1].shape[1], width = inputs[1].shape[2];
    samba_tensor *classes = data->tensors[1];
    status = samba_tensor_new(context, "label", SAMBA_INT64, 3, (int64_t[]){samples, height, width}, &data->tensors[1]);
    if (status == SAMBA_OK) {
        const float *image = samba_tensor_data(data->tensors[0]);
        const int64_t *digit = samba_tensor_data(classes);
        int64_t *label = samba_tensor_data(data->tensors[1]);
        for (int64_t i = 0; i < samples * height * width; i++)
            label[i] = image[i] > 1 ? 1 + digit[i / (height * width)] : 0;
    } else {
        data->tensor_count = 1;
        samba_app_data_free(data);
    }
    samba_tensor_free(classes);
    return status;
}

int main(int argc, char **argv)
{
    settings s = {.channels = 1, .image_size = 28, .depth = 2, .width = 16, .groups = 4, .num_classes = 11};
    const samba_app_option options[] = {
        {.name = "channels", .help = "Channels of an image", .integer = &s.channels, .low = 1, .high = 1 << 10},
        {.name = "image-size",
         .help = "Pixels in a row and a column of an image",
         .integer = &s.image_size,
         .low = 1,
         .high = 1 << 14},
        {.name = "depth", .help = "Times the encoder halves the image", .integer = &s.depth, .low = 1, .high = 10},
        {.name = "width",
         .help = "Channels of the first level; each further one has twice as many",
         .integer = &s.width,
         .low = 1,
         .high = 1 << 12},
        {.name = "groups",
         .help = "Groups of channels that are normalized together",
         .integer = &s.groups,
         .low = 1,
         .high = 1 << 12},
        {.name = "num-classes", .help = "Classes of a pixel", .integer = &s.num_classes, .low = 2, .high = 1 << 20},
    };
    samba_app app = {
        .struct_size = sizeof app,
        .name = "unet",
        .description = "A U-Net: the class of every pixel.",
        .model = model,
        .settings = &s,
        .option_count = sizeof options / sizeof *options,
        .options = options,
        .check = check,
        .inputs = inputs,
        .data = lines_of_digits,
        .batch_size = 16,
        .num_epochs = 10,
        .optimizer = samba_adamw(1e-3),
    };
    return samba_app_main(argc, argv, &app);
}
