/* SPDX-License-Identifier: Apache-2.0
 *
 * Layers in a row, and those whose parameters begin in a way of their own: Sequential numbers its children as torch's does, PReLU
 * starts at its init, the padding row of an embedding is zeros and gets no gradient,
 * and a convolution's padding_mode is a padding before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "training.h"

#include <sambaflow/functional.h>
#include <sambaflow/layers.h>

static const int64_t three[] = {3, 3};
static const samba_conv2d_options same = {.padding = {1, 1}};

static samba_value conv(samba_value x, const char *name, const void *channels)
{
    return samba_conv2d(x, name, *(const int64_t *)channels, three, &same);
}

static samba_value block(samba_value x, const char *name, const void *channels)
{
    return samba_sequential(x, name, SAMBA_LAYERS({conv, channels, NULL}, {.function = samba_relu}));
}

static void features(samba_graph *g, const void *settings)
{
    const int64_t wide = 4, narrow = 2;
    samba_value x = samba_input(g, "x");
    (void)settings;
    x = samba_sequential(x, "features",
                         SAMBA_LAYERS({conv, &wide, NULL}, {.function = samba_relu}, {.layer = block, .options = &narrow}));
    samba_output(g, "y", x);
    samba_output(g, "same", samba_sequential(x, "nothing", 0, NULL));
}

static samba_session *session_of(samba_model model, const void *settings, samba_tensor *x)
{
    samba_compile_options options = compile_of("layers", model, settings, 1, &x);
    options.inference = true;
    return compile_and_open(&options, 1, 3);
}

static void children_have_numbers(void **state)
{
    (void)state;
    samba_tensor *x = tensor("x", SAMBA_FLOAT32, 4, SHAPE(1, 3, 5, 5));
    samba_session *session = session_of(features, NULL, x);
    static const char *const names[] = {"features.0.weight", "features.0.bias", "features.2.0.weight", "features.2.0.bias"};
    for (int i = 0; i < 4; i++)
        samba_tensor_free(get(session, names[i]));
    samba_tensor *y = get(session, "y");
    assert_int_equal(samba_tensor_shape(y)[1], 2);
    samba_tensor_free(y);
    samba_session_free(session);
    samba_tensor_free(x);
}

typedef struct rows {
    int64_t padding_idx;
} rows;

static void table(samba_graph *g, const void *settings)
{
    const rows *r = settings;
    samba_embedding_options options = {.struct_size = sizeof options, .has_padding_idx = true, .padding_idx = r->padding_idx};
    samba_value y = samba_prelu(samba_embedding_with(samba_input(g, "x"), "table", 5, 3, &options), "act", 3, 0.125);
    samba_output(g, "y", y);
    samba_loss(g, "loss", samba_sum(y, 0, NULL, false));
}

static void padding_row_is_zeros(void **state)
{
    (void)state;
    static const int64_t at[] = {2, -1, 0};
    for (int i = 0; i < 3; i++) {
        samba_tensor *x = tensor("x", SAMBA_INT64, 2, SHAPE(2, 3));
        samba_compile_options options = compile_of("table", table, &(rows){at[i]}, 1, &x);
        samba_optimizer sgd = samba_sgd(0.5);
        options.optimizers = &sgd;
        options.optimizer_count = 1;
        samba_session *session = compile_and_open(&options, 1, 3);
        int64_t count, row = at[i] < 0 ? at[i] + 5 : at[i];
        need(samba_fill_integers(x, 1, row, row + 1)); /* nothing but the padding */
        samba_run_options run = samba_run_defaults();
        run.inputs = &x;
        run.input_count = 1;
        for (int round = 0; round < 2; round++) {
            double *weight = get_doubles(session, "table.weight", "", &count);
            assert_int_equal(count, 15);
            for (int64_t k = 0; k < 15; k++)
                assert_true((weight[k] == 0) == (k / 3 == row));
            free(weight);
            need(samba_run(session, &run));
        }
        double *slopes = get_doubles(session, "act.weight", "", &count);
        assert_int_equal(count, 3);
        for (int k = 0; k < 3; k++)
            assert_true(slopes[k] == 0.125); /* the slope at 0 of nothing */
        free(slopes);
        samba_session_free(session);
        samba_tensor_free(x);
    }
}

static void padded(samba_graph *g, const void *settings)
{
    const int64_t *spatial = settings, kernel[3] = {3, 2, 3};
    const samba_pad_mode modes[] = {SAMBA_PAD_REFLECT, SAMBA_PAD_REPLICATE, SAMBA_PAD_CIRCULAR};
    for (int i = 0; i < 6; i++) {
        bool whole = i >= 3; /* padding = 'same' */
        samba_pad_mode mode = modes[i % 3];
        samba_value x = samba_input(g, "x"), layer, other;
        char name[2][16];
        snprintf(name[0], sizeof name[0], "a%d", i);
        snprintf(name[1], sizeof name[1], "b%d", i);
        samba_scope_push(g, "conv"); /* the same parameters under a name both have */
        if (*spatial == 1) {
            layer = samba_conv1d(x, "c", 2, kernel,
                                 &(samba_conv1d_options){.padding = whole ? 0 : 2, .same = whole, .padding_mode = mode});
            other = samba_conv1d(samba_pad(x, 1, whole ? SHAPE(1, 1) : SHAPE(2, 2), mode, 0), "c", 2, kernel, NULL);
        } else if (*spatial == 2) {
            layer = samba_conv2d(
                x, "c", 2, kernel,
                &(samba_conv2d_options){.padding = {whole ? 0 : 2, whole ? 0 : 1}, .same = whole, .padding_mode = mode});
            other = samba_conv2d(samba_pad(x, 2, whole ? SHAPE(0, 1, 1, 1) : SHAPE(1, 1, 2, 2), mode, 0), "c", 2, kernel, NULL);
        } else {
            layer = samba_conv3d(x, "c", 2, kernel, &(samba_conv3d_options){.padding = {1, 0, 1}, .padding_mode = mode});
            other = samba_conv3d(samba_pad(x, 3, SHAPE(1, 1, 0, 0, 1, 1), mode, 0), "c", 2, kernel, NULL);
        }
        samba_scope_pop(g);
        samba_output(g, name[0], layer);
        samba_output(g, name[1], samba_add_scalar(other, 0));
        samba_output(g,
                     i == 0   ? "wrong"
                     : i == 1 ? "wrong1"
                     : i == 2 ? "wrong2"
                     : i == 3 ? "wrong3"
                     : i == 4 ? "wrong4"
                              : "wrong5",
                     samba_sum(samba_abs(samba_sub(layer, other)), 0, NULL, false));
    }
}

static void padding_modes(void **state)
{
    (void)state;
    for (int64_t spatial = 1; spatial <= 3; spatial++) {
        samba_tensor *x = normal("x", SAMBA_FLOAT32, (int)spatial + 2, SHAPE(1, 3, 5, 4, 5), 5), *wrong[6];
        samba_session *session = session_of(padded, &spatial, x);
        static const char *const names[] = {"wrong", "wrong1", "wrong2", "wrong3", "wrong4", "wrong5"};
        for (int i = 0; i < 6; i++)
            wrong[i] = tensor(names[i], SAMBA_FLOAT32, 0, NULL);
        samba_run_options run = samba_run_defaults();
        run.inputs = &x, run.input_count = 1;
        run.outputs = wrong, run.output_count = 6;
        need(samba_run(session, &run));
        for (int i = 0; i < 6; i++) {
            assert_true(*(const float *)samba_tensor_data(wrong[i]) == 0);
            samba_tensor_free(wrong[i]);
        }
        samba_session_free(session);
        samba_tensor_free(x);
    }
}

static void refusals(void **state)
{
    (void)state;
    const samba_value none = {NULL, 0, 0};
    for (int i = 0; i < 8; i++) {
        samba_graph *g;
        samba_tensor *image = tensor("x", SAMBA_FLOAT32, 4, SHAPE(1, 3, 5, 5));
        const char *part = "";
        need(samba_graph_new(context, "g", &g));
        need(samba_graph_add_input(g, image));
        samba_value x = samba_input(g, "x");
        switch (i) {
        case 0: samba_sequential(x, "s", 1, NULL), part = "sequential at s: expected 0 layers or more, given NULL for 1"; break;
        case 1: samba_sequential(x, "s", -1, NULL), part = "sequential at s: expected 0 layers or more, given -1"; break;
        case 2:
            samba_sequential(x, "s", SAMBA_LAYERS({.function = samba_relu}, {.options = "x"})),
                part = "sequential at s: layer 1 must be a layer or a function, given neither";
            break;
        case 3:
            samba_sequential(x, "s", SAMBA_LAYERS({.function = samba_relu, .layer = conv})),
                part = "sequential at s: layer 0 must be a layer or a function, given both";
            break;
        case 4:
            samba_prelu(x, "p", 2, 0.25),
                part = "prelu at p: expected a weight of the input's dtype with one number, or one for each index of dim 1";
            break;
        case 5:
            samba_conv2d(x, "c", 2, three,
                         &(samba_conv2d_options){.stride = {2, 1}, .same = true, .padding_mode = SAMBA_PAD_REFLECT}),
                part = "conv2d at c: padding 'same' needs stride 1";
            break;
        case 6:
            samba_conv2d(x, "c", 2, three, &(samba_conv2d_options){.padding = {5, 0}, .padding_mode = SAMBA_PAD_REFLECT}),
                part = "reflect needs borders smaller than the dim";
            break;
        case 7:
            samba_parameter(g, "w", SAMBA_FLOAT32, 2, SHAPE(3, 2), (samba_initializer){SAMBA_INIT_NORMAL_BUT_ROW, 3, 1}),
                part = "one of its rows, given rank 2 and row 3";
            break;
        }
        if (samba_graph_status(g) == SAMBA_OK || !strstr(samba_error_message(context), part))
            fail_msg("case %d: \"%s\", expected \"%s\"", i, samba_error_message(context), part);
        samba_graph_free(g);
        samba_tensor_free(image);
    }
    assert_null(samba_sequential(none, "s", 0, NULL).graph);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(children_have_numbers), cmocka_unit_test(padding_row_is_zeros),
                                       cmocka_unit_test(padding_modes), cmocka_unit_test(refusals)};
    return training_begin() ? training_end(cmocka_run_group_tests(tests, NULL, NULL)) : 1;
}
