/* SPDX-License-Identifier: Apache-2.0
 *
 * A vision transformer: an image's patches are the words of a sentence, and a class token before them gathers what it says.
 * Parameters are named and shaped as torchvision's VisionTransformer has them.
 *
 *   vit compile && vit run --pef out/vit/vit.pef                                         digits, in patches of 7 x 7
 *   vit compile --channels 3 --image-size 224 --patch-size 16 --num-layers 12 --num-heads 3 --hidden-dim 192
 *   --num-classes 1000      ViT-Ti/16 */
#include <sambaflow/sambaflow.h>
#include <stdio.h>

typedef struct settings {
    int64_t channels, image_size, patch_size, num_layers, num_heads, hidden_dim, num_classes;
} settings;

static const samba_initializer zeros = {SAMBA_INIT_ZEROS, 0, 0}, small = {SAMBA_INIT_NORMAL, 0, 0.02};

static samba_value linear(samba_value x, const char *name, int64_t out_features)
{
    return samba_linear_with(x, name, out_features, &(samba_linear_options){.weight = &small, .bias = &zeros});
}

static samba_value norm(samba_value x, const char *name)
{
    return samba_layer_norm_with(x, name, &(samba_norm_options){.eps = 1e-6});
}

/* (B, T, D) -> (B, H, T, D / H) */
static samba_value split_heads(samba_value x, int64_t heads)
{
    const int64_t batch = samba_value_size(x, 0), time = samba_value_size(x, 1), width = samba_value_size(x, 2);
    return samba_transpose(samba_reshape(x, 4, (int64_t[]){batch, time, heads, width / heads}), 1, 2);
}

static samba_value attention(samba_value x, const settings *s)
{
    samba_graph *g = x.graph;
    const int64_t width = s->hidden_dim, joint[] = {3 * width, width};
    samba_value qkv[3];
    samba_scope_push(g, "self_attention");
    samba_value weight = samba_parameter(g, "in_proj_weight", SAMBA_FLOAT32, 2, joint, small);
    samba_value bias = samba_parameter(g, "in_proj_bias", SAMBA_FLOAT32, 1, joint, zeros);
    samba_split(samba_functional_linear(x, weight, bias), width, -1, 3, qkv);
    for (int i = 0; i < 3; i++)
        qkv[i] = split_heads(qkv[i], s->num_heads);
    samba_value y = samba_scaled_dot_product_attention(qkv[0], qkv[1], qkv[2], NULL);
    y = linear(samba_flatten(samba_transpose(y, 1, 2), 2, 3), "out_proj", width);
    samba_scope_pop(g);
    return y;
}

static samba_value encoder(samba_value x, const settings *s)
{
    samba_graph *g = x.graph;
    samba_scope_push(g, "encoder");
    x = samba_add(
        x, samba_parameter(g, "pos_embedding", SAMBA_FLOAT32, 3, (int64_t[]){1, samba_value_size(x, 1), s->hidden_dim}, small));
    for (int64_t i = 0; i < s->num_layers; i++) {
        char name[48];
        snprintf(name, sizeof name, "layers.encoder_layer_%lld", (long long)i);
        samba_scope_push(g, name);
        x = samba_add(x, attention(norm(x, "ln_1"), s));
        x = samba_add(x, linear(samba_gelu(linear(norm(x, "ln_2"), "mlp.0", 4 * s->hidden_dim)), "mlp.3", s->hidden_dim));
        samba_scope_pop(g);
    }
    x = norm(x, "ln");
    samba_scope_pop(g);
    return x;
}

static void model(samba_graph *g, const void *options)
{
    const settings *s = options;
    const int64_t p = s->patch_size, patch[] = {p, p}, token[] = {1, 1, s->hidden_dim};
    const samba_conv2d_options side_by_side = {.stride = {p, p}};
    samba_value image = samba_input(g, "image"), label = samba_input(g, "label");
    samba_value class_token = samba_parameter(g, "class_token", SAMBA_FLOAT32, 3, token, zeros);
    samba_value patches =
        samba_transpose(samba_flatten(samba_conv2d(image, "conv_proj", s->hidden_dim, patch, &side_by_side), 2, 3), 1, 2);
    samba_value first = samba_expand(class_token, 3, (int64_t[]){samba_value_size(image, 0), 1, s->hidden_dim});
    samba_value x = encoder(samba_concat(2, (samba_value[]){first, patches}, 1), s); /* (B, 1 + patches, D) */
    x = samba_reshape(samba_slice(x, 1, 0, 1, 1), 2, (int64_t[]){samba_value_size(image, 0), s->hidden_dim});
    samba_value logits = linear(x, "heads.head", s->num_classes);
    samba_loss(g, "loss", samba_cross_entropy(logits, label));
    samba_output(g, "logits", logits);
}

static const char *check(const void *options)
{
    const settings *s = options;
    return s->hidden_dim % s->num_heads    ? "--num-heads must divide --hidden-dim: every head gets an equal part of the width"
           : s->image_size % s->patch_size ? "--patch-size must divide --image-size: patches lie side by side"
                                           : NULL;
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
    settings s = {
        .channels = 1, .image_size = 28, .patch_size = 7, .num_layers = 4, .num_heads = 4, .hidden_dim = 64, .num_classes = 10};
    const samba_app_option options[] = {
        {.name = "channels", .help = "Channels of an image", .integer = &s.channels, .low = 1, .high = 1 << 10},
        {.name = "image-size",
         .help = "Pixels in a row and a column of an image",
         .integer = &s.image_size,
         .low = 1,
         .high = 1 << 14},
        {.name = "patch-size",
         .help = "Pixels in a row and a column of a patch",
         .integer = &s.patch_size,
         .low = 1,
         .high = 1 << 14},
        {.name = "num-layers", .help = "Encoder layers", .integer = &s.num_layers, .low = 1, .high = 1024},
        {.name = "num-heads",
         .help = "Heads of an attention; must divide the width",
         .integer = &s.num_heads,
         .low = 1,
         .high = 1024},
        {.name = "hidden-dim", .help = "Width: numbers a patch becomes", .integer = &s.hidden_dim, .low = 1, .high = 1 << 20},
        {.name = "num-classes", .help = "Classes", .integer = &s.num_classes, .low = 2, .high = 1 << 20},
    };
    samba_app app = {
        .struct_size = sizeof app,
        .name = "vit",
        .description = "A vision transformer on images.",
        .model = model,
        .settings = &s,
        .option_count = sizeof options / sizeof *options,
        .options = options,
        .check = check,
        .inputs = inputs,
        .data = samba_app_digits,
        .batch_size = 32,
        .num_epochs = 15,
        .optimizer = samba_adamw(1e-3),
    };
    return samba_app_main(argc, argv, &app);
}
