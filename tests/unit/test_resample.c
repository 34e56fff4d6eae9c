/* SPDX-License-Identifier: Apache-2.0
 *
 * Lines so long that no table says what their elements are made of (device/cpu/pool): values and gradients are those of the
 * reference, along rows, along columns and both, next to lines that have tables. */
#include "training.h"
#include "reference.h"
#include <sambaflow/elementwise.h>
#include <sambaflow/reduce.h>
#include <sambaflow/resample.h>

typedef struct line_case {
    const char *name;
    int64_t in[2], out[2];
    samba_resample_mode mode;
    bool antialias;
} line_case;

static void model(samba_graph *g, const void *options)
{
    const line_case *c = options;
    const samba_initializer normal_ = {SAMBA_INIT_NORMAL, 0.1, 0.7};
    samba_interpolate_options o = {.mode = c->mode, .antialias = c->antialias, .size = {c->out[0], c->out[1]}};
    samba_value scale = samba_parameter(g, "scale", SAMBA_FLOAT32, 1, SHAPE(c->in[1]), normal_);
    samba_value y = samba_interpolate(samba_mul(samba_input(g, "x"), scale), &o);
    samba_output(g, "y", y);
    samba_loss(g, "loss", samba_mean(samba_mul(y, y), 0, NULL, false));
}

static const line_case cases[] = {
    {"narrower, antialiased", {2, 100000}, {2, 60000}, SAMBA_RESAMPLE_LINEAR, true},
    {"much narrower", {1, 150000}, {1, 9}, SAMBA_RESAMPLE_BICUBIC, true},
    {"wider", {1, 90001}, {2, 140000}, SAMBA_RESAMPLE_BICUBIC, false},
    {"lower", {100000, 3}, {70000, 2}, SAMBA_RESAMPLE_LINEAR, true},
    {"higher, as wide", {80001, 2}, {150000, 2}, SAMBA_RESAMPLE_LINEAR, false},
    {"as long, rows of two", {1, 140000}, {2, 140000}, SAMBA_RESAMPLE_LINEAR, false},
    {"as high", {140000, 1}, {140000, 2}, SAMBA_RESAMPLE_LINEAR, false},
    {"nearest", {1, 270000}, {1, 270001}, SAMBA_RESAMPLE_NEAREST_EXACT, false},
};

TEST(long_lines)
{
    for (int i = 0; i < LENGTH(cases); i++) {
        const line_case *c = &cases[i];
        samba_tensor *x = kept(normal("x", SAMBA_FLOAT32, 4, SHAPE(1, 1, c->in[0], c->in[1]), 5));
        const reference_case compared = {c->name, model, c, 1, &x, .precision = SAMBA_FP32};
        char path[512];
        pass_texts texts = compile_case(&compared, 0, path);
        check_teams(&compared, path);
        free_texts(&texts);
    }
}

TEST_MAIN_WITH(NULL, drop_kept, long_lines)
