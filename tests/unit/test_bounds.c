/* SPDX-License-Identifier: Apache-2.0
 *
 * Bounds that are written as choices, x <= low ? low : x: simplify makes them maximum and minimum, and values, at the bounds and
 * beyond them, and gradients stay those of the reference. */
#include "training.h"
#include "reference.h"
#include <sambaflow/activation.h>
#include <sambaflow/elementwise.h>

typedef struct bound_case {
    const char *name;
    samba_value (*bent)(samba_value x);
    int bounds; /* maximum and minimum after simplify */
} bound_case;

static samba_value hardtanh(samba_value x) { return samba_hardtanh(x, -1, 2); }

static samba_value limit(samba_value x, double value)
{
    samba_value zeros = samba_mul_scalar(x, 0);
    return samba_add_scalar(zeros, value);
}

static samba_value nan_to_num(samba_value x) { return samba_nan_to_num(x, 1, NULL, NULL); }

/* -0 stays what it is: no bound. */
static samba_value strict(samba_value x)
{
    samba_value below = samba_lt(x, limit(x, 0));
    return samba_where(below, limit(x, 0), x);
}

/* Below 0 it is 1: no bound. */
static samba_value jump(samba_value x)
{
    samba_value below = samba_le(x, limit(x, 0));
    return samba_where(below, limit(x, 1), x);
}

static void model(samba_graph *g, const void *options)
{
    const bound_case *c = options;
    const samba_initializer normal_ = {SAMBA_INIT_NORMAL, 0.1, 0.7};
    samba_value scale = samba_parameter(g, "scale", SAMBA_FLOAT32, 1, SHAPE(37), normal_);
    samba_value x = samba_input(g, "x"), y = c->bent(samba_mul(x, scale)), z = c->bent(x);
    samba_output(g, "y", y);
    samba_output(g, "z", z);
    samba_loss(g, "loss", samba_sum(samba_mul(y, samba_add(y, z)), 0, NULL, false));
}

static const bound_case cases[] = {
    {"relu6", samba_relu6, 4},         {"hardtanh", hardtanh, 4}, {"hardsigmoid", samba_hardsigmoid, 4},
    {"hardswish", samba_hardswish, 0}, {"a jump", jump, 0},       {"nan_to_num", nan_to_num, 4},
    {"strict zeros", strict, 0},
};

TEST(bounds)
{
    const float places[] = {0, -0.0F, 6, 7, -1, 2, 3, -3, 2.9999998F, -3.0000002F};
    samba_tensor *x = kept(normal("x", SAMBA_FLOAT32, 2, SHAPE(29, 37), 5));
    float *at = samba_tensor_data(x);
    for (int i = 0; i < 29 * 37; i++)
        at[i] = i % 3 ? 4 * at[i] : places[i / 3 % LENGTH(places)];
    for (int i = 0; i < LENGTH(cases); i++) {
        const bound_case *c = &cases[i];
        const reference_case compared = {c->name, model, c, 1, &x, .precision = SAMBA_FP32};
        char path[512];
        pass_texts texts = compile_case(&compared, 0, path);
        int bounds = occurrences(texts.simplified, "= maximum") + occurrences(texts.simplified, "= minimum");
        if (bounds != c->bounds)
            fail_msg("%s: %d bounds, expected %d:\n%s", c->name, bounds, c->bounds, texts.simplified);
        check_teams(&compared, path);
        free_texts(&texts);
    }
}

TEST_MAIN_WITH(NULL, drop_kept, bounds)
