/* SPDX-License-Identifier: Apache-2.0
 *
 * Convolutions whose windows meet padding, or all of an image: what simplify makes of them and of both their gradients, and that
 * values stay those of the reference. */
#include "training.h"
#include "reference.h"

/* An image of (height, width) pixels and a kernel of (kernel_height, kernel_width). */
typedef struct window_case {
    const char *name;
    int64_t image[2], kernel[2];
    samba_conv2d_options options;
    int slices;    /* of weights, forward and backward, after simplify */
    int pads;      /* of their gradients */
    int products;  /* matmuls in place of convolutions */
    int left;      /* convolutions that remain, gradients among them */
    int around[4]; /* zeros that are put around x: left, right, above, below */
} window_case;

enum { BATCH = 3, CHANNELS = 4, RESULTS = 6 };

static void model(samba_graph *g, const void *options)
{
    const window_case *c = options;
    const int64_t groups = c->options.groups ? c->options.groups : 1;
    const samba_initializer normal_ = {SAMBA_INIT_NORMAL, 0.1, 0.7};
    samba_value x = samba_mul(samba_input(g, "x"),
                              samba_parameter(g, "scale", SAMBA_FLOAT32, 3, SHAPE(CHANNELS, c->image[0], c->image[1]), normal_));
    const int64_t results = groups == CHANNELS ? CHANNELS : RESULTS;
    samba_value w =
        samba_parameter(g, "w", SAMBA_FLOAT32, 4, SHAPE(results, CHANNELS / groups, c->kernel[0], c->kernel[1]), normal_);
    if (c->around[0] + c->around[1] + c->around[2] + c->around[3] > 0)
        x = samba_pad(x, 2, (const int64_t[]){c->around[0], c->around[1], c->around[2], c->around[3]}, SAMBA_PAD_CONSTANT, 0);
    samba_value y = samba_functional_conv2d(x, w, (samba_value){0}, &c->options);
    samba_output(g, "y", y);
    samba_loss(g, "loss", samba_sum(samba_mul(y, y), 0, NULL, false));
}

static const window_case cases[] = {
    {"one pixel", {1, 1}, {3, 3}, {.padding = {1, 1}}, 1, 1, 3, 0, {0}},
    {"one pixel of each channel", {1, 1}, {3, 3}, {.padding = {1, 1}, .groups = CHANNELS}, 1, 1, 0, 1, {0}},
    {"one pixel of groups", {1, 1}, {3, 3}, {.padding = {1, 1}, .groups = 2}, 1, 1, 0, 3, {0}},
    {"a row", {1, 7}, {3, 3}, {.padding = {1, 1}}, 1, 1, 0, 3, {0}},
    {"strided, one place", {2, 2}, {3, 3}, {.stride = {2, 2}, .padding = {1, 1}}, 1, 1, 3, 0, {0}},
    {"first layer of a small image", {2, 2}, {7, 7}, {.stride = {2, 2}, .padding = {3, 3}}, 1, 1, 3, 0, {0}},
    {"dilated", {2, 2}, {3, 3}, {.padding = {2, 2}, .dilation = {2, 2}}, 1, 1, 0, 3, {0}},
    {"all of the image", {5, 4}, {5, 4}, {.no_bias = true}, 0, 0, 3, 0, {0}},
    {"all of one axis", {5, 4}, {5, 3}, {.no_bias = true}, 0, 0, 0, 3, {0}},
    {"every tap meets something", {2, 2}, {3, 3}, {.padding = {1, 1}}, 0, 0, 0, 3, {0}},
    {"more padding than kernel", {2, 3}, {3, 3}, {.padding = {4, 4}}, 0, 0, 0, 3, {0}},
    {"a place beside the image", {1, 1}, {1, 1}, {.padding = {1, 1}}, 0, 0, 0, 3, {0}},
    {"zeros around", {6, 7}, {3, 3}, {.stride = {1, 1}}, 1, 0, 0, 3, {1, 1, 2, 2}},
    {"zeros around groups", {6, 5}, {3, 3}, {.stride = {2, 1}, .padding = {1, 0}, .groups = 2}, 1, 0, 0, 3, {2, 2, 0, 0}},
    {"zeros on one side", {6, 6}, {3, 3}, {.stride = {2, 2}}, 1, 1, 0, 3, {0, 1, 0, 1}},
    {"tap between two strides", {1, 4}, {2, 2}, {.stride = {2, 2}, .padding = {1, 1}}, 1, 1, 0, 3, {0}},
};

TEST(windows)
{
    for (int i = 0; i < LENGTH(cases); i++) {
        const window_case *c = &cases[i];
        samba_tensor *x = kept(normal("x", SAMBA_FLOAT32, 4, SHAPE(BATCH, CHANNELS, c->image[0], c->image[1]), 5));
        const reference_case compared = {c->name, model, c, 1, &x, .precision = SAMBA_FP32};
        char path[512];
        pass_texts texts = compile_case(&compared, 0, path);
        int slices = occurrences(texts.simplified, "= slice"), pads = occurrences(texts.simplified, "= pad"),
            products = occurrences(texts.simplified, "= matmul"), left = occurrences(texts.simplified, "= conv2d");
        if (slices != c->slices || pads != c->pads || products != c->products || left != c->left)
            fail_msg("%s: %d slices, %d pads, %d products, %d convolutions, expected %d, %d, %d, %d:\n%s", c->name, slices, pads,
                     products, left, c->slices, c->pads, c->products, c->left, texts.simplified);
        check_teams(&compared, path);
        free_texts(&texts);
    }
}

TEST_MAIN_WITH(NULL, drop_kept, windows)
