/* SPDX-License-Identifier: Apache-2.0
 *
 * Convolutions of volumes by few channels, whose input gradients are folded slice by slice (product/fold.c): values and gradients
 * are those of the reference, in float32 and in bfloat16, strided, dilated, with dims that see nothing but pixels, long ones. */
#include "training.h"
#include "reference.h"
#include <sambaflow/conv.h>
#include <sambaflow/elementwise.h>
#include <sambaflow/reduce.h>

typedef struct volume_case {
    const char *name;
    int64_t images, groups, out, in, size[3], kernel[3]; /* channels: of a group */
    samba_conv3d_options options;
} volume_case;

static void model(samba_graph *g, const void *options)
{
    const volume_case *c = options;
    samba_conv3d_options o = c->options;
    o.groups = c->groups;
    const samba_initializer near_one = {SAMBA_INIT_NORMAL, 1, 0.2}, normal_ = {SAMBA_INIT_NORMAL, 0, 0.4};
    samba_value scale = samba_parameter(g, "scale", SAMBA_FLOAT32, 4, SHAPE(c->groups * c->in, 1, 1, c->size[2]), near_one);
    samba_value w = samba_parameter(g, "w", SAMBA_FLOAT32, 5,
                                    SHAPE(c->groups * c->out, c->in, c->kernel[0], c->kernel[1], c->kernel[2]), normal_);
    samba_value y = samba_functional_conv3d(samba_mul(samba_input(g, "x"), scale), w, (samba_value){0}, &o);
    samba_output(g, "y", y);
    samba_loss(g, "loss", samba_mean(samba_mul(y, y), 0, NULL, false));
}

static const volume_case cases[] = {
    {"no depth", 1, 2, 14, 1, {7, 31, 20}, {1, 3, 2}, {.stride = {1, 1, 1}, .padding = {1, 1, 1}, .dilation = {1, 1, 1}}},
    {"dilated", 2, 2, 22, 1, {6, 23, 6}, {1, 3, 2}, {.stride = {1, 1, 1}, .padding = {2, 2, 2}, .dilation = {2, 2, 2}}},
    {"deep", 2, 1, 17, 2, {6, 9, 13}, {3, 3, 3}, {.stride = {1, 1, 1}, .padding = {1, 1, 1}, .dilation = {1, 1, 1}}},
    {"strided", 3, 1, 24, 3, {9, 8, 15}, {3, 2, 3}, {.stride = {2, 1, 2}, .padding = {1, 0, 1}, .dilation = {1, 1, 1}}},
    {"all pixels but one dim",
     1,
     3,
     8,
     1,
     {8, 5, 9},
     {2, 3, 3},
     {.stride = {1, 1, 1}, .padding = {1, 2, 0}, .dilation = {1, 1, 1}}},
    {"much padding", 1, 1, 12, 1, {4, 5, 6}, {2, 2, 2}, {.stride = {3, 2, 1}, .padding = {3, 3, 3}, .dilation = {2, 1, 3}}},
    {"long", 1, 1, 9, 1, {1, 6000, 5}, {1, 2, 2}, {.stride = {1, 1, 1}, .padding = {0, 2, 2}, .dilation = {1, 2, 2}}},
    {"wide", 1, 1, 9, 1, {2, 1, 9000}, {2, 1, 3}, {.stride = {1, 1, 3}, .padding = {0, 0, 1}, .dilation = {1, 1, 2}}},
};

TEST(volumes)
{
    for (int i = 0; i < LENGTH(cases); i++)
        for (int low = 0; low < 2; low++) {
            const volume_case *c = &cases[i];
            const int64_t *s = c->size;
            samba_tensor *x = kept(normal("x", SAMBA_FLOAT32, 5, SHAPE(c->images, c->groups * c->in, s[0], s[1], s[2]), 5));
            const reference_case compared = {c->name, model, c, 1, &x, .precision = low ? SAMBA_BF16 : SAMBA_FP32};
            char path[512];
            pass_texts texts = compile_case(&compared, 0, path);
            check_teams(&compared, path);
            free_texts(&texts);
        }
}

TEST_MAIN_WITH(NULL, drop_kept, volumes)
