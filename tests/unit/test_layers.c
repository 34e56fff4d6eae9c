/* SPDX-License-Identifier: Apache-2.0
 *
 * Layers in a row, and those whose parameters begin in a way of their own: numbered children, PReLU's init, the padding row of an
 * embedding, which is zeros and gets no gradient; and a convolution's padding_mode, which is a padding before it. */
#include "traced.h"
#include "training.h"

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

TEST(children_have_numbers)
{
    static const char *const names[] = {"features.0.weight", "features.0.bias", "features.2.0.weight", "features.2.0.bias"};
    const int64_t wide = 4, narrow = 2;
    trace("x float32[1,3,5,5]");
    samba_value y = samba_sequential(
        in("x"), "features", SAMBA_LAYERS({conv, &wide, NULL}, {.function = samba_relu}, {.layer = block, .options = &narrow}));
    expect_type(y, "float32[1,2,5,5]");
    for (int i = 0; i < 4; i++)
        assert_int_not_equal(samba_graph_leaf(traced, names[i]), SAMBA_NONE);
    assert_int_equal(samba_sequential(y, "nothing", 0, NULL).index, y.index);
    untrace();
}

static void table(samba_graph *g, const void *row)
{
    samba_embedding_options options = {
        .struct_size = sizeof options, .has_padding_idx = true, .padding_idx = *(const int64_t *)row};
    samba_value y = samba_prelu(samba_embedding_with(samba_input(g, "x"), "table", 5, 3, &options), "act", 3, 0.125);
    samba_output(g, "y", y);
    samba_loss(g, "loss", samba_sum(y, 0, NULL, false));
}

TEST(padding_row_is_zeros)
{
    static const int64_t at[] = {2, -1, 0};
    for (int i = 0; i < 3; i++) {
        samba_tensor *x = kept(tensor("x", SAMBA_INT64, 2, SHAPE(2, 3)));
        samba_optimizer sgd = samba_sgd(0.5);
        samba_compile_options options = training_of("table", table, &at[i], 1, &x, &sgd);
        samba_session *session = open_kept(&options, 1, 3);
        int64_t count, row = at[i] < 0 ? at[i] + 5 : at[i];
        need(samba_fill_integers(x, 1, row, row + 1)); /* nothing but the padding */
        samba_run_options run = giving(1, &x);
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
    }
}

/* The same node as a convolution behind a padding. */
TEST(padding_modes)
{
    const int64_t kernel[3] = {3, 2, 3};
    const samba_pad_mode modes[] = {SAMBA_PAD_REFLECT, SAMBA_PAD_REPLICATE, SAMBA_PAD_CIRCULAR};
    trace("x float32[1,3,5] y float32[1,3,5,4] z float32[1,3,5,4,5]");
    for (int i = 0; i < 6; i++) {
        const bool whole = i >= 3; /* padding = 'same' */
        const samba_pad_mode mode = modes[i % 3];
        const samba_conv1d_options line = {.padding = whole ? 0 : 2, .same = whole, .padding_mode = mode};
        const samba_conv2d_options plane = {.padding = {whole ? 0 : 2, whole ? 0 : 1}, .same = whole, .padding_mode = mode};
        const samba_conv3d_options space = {.padding = {1, 0, 1}, .padding_mode = mode};
        const samba_value x = samba_pad(in("x"), 1, whole ? SHAPE(1, 1) : SHAPE(2, 2), mode, 0),
                          y = samba_pad(in("y"), 2, whole ? SHAPE(0, 1, 1, 1) : SHAPE(1, 1, 2, 2), mode, 0),
                          z = samba_pad(in("z"), 3, SHAPE(1, 1, 0, 0, 1, 1), mode, 0);
        assert_int_equal(samba_conv1d(in("x"), "a", 2, kernel, &line).index, samba_conv1d(x, "a", 2, kernel, NULL).index);
        assert_int_equal(samba_conv2d(in("y"), "b", 2, kernel, &plane).index, samba_conv2d(y, "b", 2, kernel, NULL).index);
        assert_int_equal(samba_conv3d(in("z"), "c", 2, kernel, &space).index, samba_conv3d(z, "c", 2, kernel, NULL).index);
        need(samba_graph_status(traced));
    }
    untrace();
}

TEST(refusals)
{
    const samba_conv2d_options striding = {.stride = {2, 1}, .same = true, .padding_mode = SAMBA_PAD_REFLECT};
    const samba_conv2d_options broad = {.padding = {5, 0}, .padding_mode = SAMBA_PAD_REFLECT};
    trace("x float32[1,3,5,5]");
    wrong(samba_sequential(in("x"), "s", 1, NULL), "sequential at s: expected 0 layers or more, given NULL for 1");
    wrong(samba_sequential(in("x"), "s", -1, NULL), "sequential at s: expected 0 layers or more, given -1");
    wrong(samba_sequential(in("x"), "s", SAMBA_LAYERS({.function = samba_relu}, {.options = "x"})),
          "sequential at s: layer 1 must be a layer or a function, given neither");
    wrong(samba_sequential(in("x"), "s", SAMBA_LAYERS({.function = samba_relu, .layer = conv})),
          "sequential at s: layer 0 must be a layer or a function, given both");
    wrong(samba_prelu(in("x"), "p", 2, 0.25),
          "prelu at p: expected a weight of the input's dtype with one number, or one for each index of dim 1");
    wrong(samba_conv2d(in("x"), "c", 2, three, &striding), "conv2d at c: padding 'same' needs stride 1");
    wrong(samba_conv2d(in("x"), "c", 2, three, &broad), "reflect needs borders smaller than the dim");
    wrong(samba_parameter(traced, "w", SAMBA_FLOAT32, 2, SHAPE(3, 2), (samba_initializer){SAMBA_INIT_NORMAL_BUT_ROW, 3, 1}),
          "one of its rows, given rank 2 and row 3");
    assert_null(samba_sequential(none, "s", 0, NULL).graph);
    untrace();
}

TEST_MAIN_WITH(NULL, drop_kept, children_have_numbers, padding_row_is_zeros, padding_modes, refusals)
