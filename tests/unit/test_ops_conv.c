/* SPDX-License-Identifier: Apache-2.0
 *
 * Convolution and pooling: PyTorch's values and gradients, differences, random shapes, what inference refuses, and empty batches.
 */
#include "../seed.h"
#include "torch_check.h"
#include "torch_values_conv.h"
#include "failing_allocator.h"

static void conv_and_pool_as_torch(void **state)
{
    (void)state;
    for (int i = 0; i < SAMBA_COUNT(torch_conv_cases); i++)
        torch_check(&torch_conv_cases[i], torch_conv_numbers);
}

static samba_dims two(int64_t a, int64_t b) { return (samba_dims){2, {a, b}}; }

static samba_attrs conv_attrs(int64_t stride, int64_t padding, int64_t dilation, int64_t groups)
{
    samba_attrs attrs;
    memset(&attrs, 0, sizeof attrs);
    attrs.conv = (samba_attrs_conv){two(stride, stride), two(padding, padding), two(dilation, dilation), groups, {0}, 0};
    return attrs;
}

static samba_attrs pool_attrs(int64_t kernel, int64_t stride, int64_t padding, int64_t dilation, bool ceil_mode)
{
    samba_attrs attrs;
    memset(&attrs, 0, sizeof attrs);
    attrs.pool2d = (samba_attrs_pool2d){
        two(kernel, kernel), two(stride, stride), two(padding, padding), two(dilation, dilation), ceil_mode, 1, {0}, 0, 0, 0};
    return attrs;
}

#define RANDOM(...) drawn(SHAPE(__VA_ARGS__), -1, 1)

static int64_t pick(uint64_t *state, int64_t low, int64_t high)
{
    return low + (int64_t)random_between(state, 0, (double)(high - low + 1));
}

/* Where the two greatest elements of a window are nearer than a step of the differences, these find no slope: here every element
 * is 2 / count from the next, in an order drawn anew. */
static void draw_apart(uint64_t *state, int64_t count, double *values)
{
    for (int64_t i = 0; i < count; i++) {
        int64_t at = pick(state, 0, i);
        double value = (double)(2 * i - count) / (double)count;
        values[i] = at < i ? values[at] : value;
        values[at] = value;
    }
}

static void random_shapes(void **state)
{
    (void)state;
    uint64_t seed = random_seed(), random = seed;
    print_message("seed %llu\n", (unsigned long long)seed);
    for (int round = 0; round < 12; round++) {
        int64_t groups = pick(&random, 1, 2), kernel = pick(&random, 1, 3), dilation = pick(&random, 1, 2);
        int64_t padding = pick(&random, 0, 2), size = (kernel - 1) * dilation + pick(&random, 1, 3);
        samba_attrs attrs = conv_attrs(pick(&random, 1, 3), padding, dilation, groups);
        int64_t batch = pick(&random, 1, 2), channels = groups * pick(&random, 1, 2);
        operand conv[2] = {RANDOM(batch, channels, size, size + 1), {0}};
        conv[1] = RANDOM(groups * pick(&random, 1, 2), conv[0].shape[1] / groups, kernel, kernel);
        gradient_check(SAMBA_OP_conv2d, &attrs, 2, conv, seed + (uint64_t)round);

        /* the transposed convolution from a y to an x: any size between those that give this y */
        operand transposed[2] = {conv[1], RANDOM(conv[0].shape[0], conv[1].shape[0], 0, 0)};
        attrs.conv.shape = (samba_dims){4, {conv[0].shape[0], conv[0].shape[1], size, size + 1}};
        for (int axis = 0; axis < 2; axis++)
            transposed[1].shape[2 + axis] =
                (size + axis + 2 * padding - (kernel - 1) * dilation - 1) / attrs.conv.stride.at[axis] + 1;
        gradient_check(SAMBA_OP_conv2d_input_grad, &attrs, 2, transposed, seed + (uint64_t)round);

        int64_t stride = pick(&random, 1, 3), border = pick(&random, 0, (kernel + 1) / 2), ceil_mode = pick(&random, 0, 1);
        attrs = pool_attrs(kernel + 1, stride, border, 1, ceil_mode == 1);
        attrs.pool2d.count_include_pad = pick(&random, 0, 1);
        int64_t height = kernel + pick(&random, 1, 4), width = kernel + pick(&random, 1, 4);
        operand pool = RANDOM(1, 2, height, width);
        gradient_check(SAMBA_OP_avg_pool2d, &attrs, 1, &pool, seed + (uint64_t)round);
        double apart[128];
        int64_t count = 2 * pool.shape[2] * pool.shape[3];
        assert_true(count <= SAMBA_COUNT(apart));
        draw_apart(&random, count, apart);
        pool.values = apart;
        gradient_check(SAMBA_OP_max_pool2d, &attrs, 1, &pool, seed + (uint64_t)round);
    }
}

static void max_pool_nan_and_ties(void **state)
{
    (void)state;
    samba_attrs attrs = pool_attrs(2, 2, 0, 1, false);
    operand x = RANDOM(1, 2, 4);
    x.values = VALUES(5, NAN, -INFINITY, -INFINITY, 7, 6, -INFINITY, -INFINITY);
    samba_array shape;
    double y[2];
    op_value(SAMBA_OP_max_pool2d, &attrs, 1, &x, &shape, y, 2);
    assert_int_equal(shape.numel, 2);
    assert_true(isnan(y[0]));
    assert_true(y[1] == -INFINITY);
}

/* A window whose elements all lie in the padding: dilation steps over the input. */
static void max_pool_of_padding_alone(void **state)
{
    (void)state;
    samba_attrs attrs = pool_attrs(2, 1, 1, 5, false);
    operand inputs[2] = {RANDOM(1, 4, 4), RANDOM(1, 1, 1)};
    samba_array shape;
    double y[16];
    op_value(SAMBA_OP_max_pool2d, &attrs, 1, inputs, &shape, y, 1);
    assert_true(y[0] == -INFINITY);
    attrs.pool2d.shape = (samba_dims){3, {1, 4, 4}};
    op_value(SAMBA_OP_max_pool2d_grad, &attrs, 2, inputs, &shape, y, 16);
    for (int i = 0; i < 16; i++)
        assert_true(y[i] == 0);
}

static void empty_batches(void **state)
{
    (void)state;
    samba_attrs conv = conv_attrs(1, 0, 1, 1), pool = pool_attrs(2, 2, 0, 1, false);
    operand inputs[2] = {RANDOM(0, 2, 4, 4), RANDOM(3, 2, 3, 3)};
    gradient_check(SAMBA_OP_conv2d, &conv, 2, inputs, 1);
    gradient_check(SAMBA_OP_max_pool2d, &pool, 1, inputs, 1);
    gradient_check(SAMBA_OP_avg_pool2d, &pool, 1, inputs, 1);
}

/* Products of 16-bit floats give the float32 sum. */
static void conv_of_bfloat16(void **state)
{
    (void)state;
    samba_attrs attrs = conv_attrs(1, 0, 1, 1);
    operand inputs[2] = {RANDOM(1, 1, 1, 3), RANDOM(1, 1, 1, 3)};
    inputs[0].dtype = inputs[1].dtype = SAMBA_BFLOAT16;
    inputs[0].values = VALUES(1, 1, 0.00390625);
    inputs[1].values = VALUES(1, 0.0078125, 1);
    samba_array shape;
    double y;
    op_value(SAMBA_OP_conv2d, &attrs, 2, inputs, &shape, &y, 1);
    assert_int_equal(shape.dtype, SAMBA_FLOAT32);
    assert_true(y == 1.01171875); /* bfloat16 would round it to 1.015625 */
}

typedef struct refusal {
    samba_op op;
    samba_attrs attrs;
    int count;
    operand inputs[2];
    samba_status status;
    const char *says;
} refusal;

static void expect_refusals(const refusal *refusals, int count)
{
    for (int i = 0; i < count; i++) {
        op_bench bench;
        uint64_t random = 1;
        op_bench_begin(&bench, refusals[i].op, &refusals[i].attrs, refusals[i].count, refusals[i].inputs, &random);
        const char *message = samba_error_message(bench.context);
        if (samba_graph_status(bench.graph) != refusals[i].status || !strstr(message, refusals[i].says))
            fail_msg("refusal %d: status %s, \"%s\", expected \"%s\"", i, samba_status_name(samba_graph_status(bench.graph)),
                     message, refusals[i].says);
        op_bench_end(&bench);
    }
}

static void what_conv_refuses(void **state)
{
    (void)state;
    operand x = RANDOM(1, 4, 5, 5), w = RANDOM(6, 4, 3, 3), half = w, whole = x, plane = RANDOM(4, 5, 5);
    half.dtype = SAMBA_FLOAT16;
    whole.dtype = SAMBA_BOOL;
    samba_attrs plain = conv_attrs(1, 0, 1, 1), short_list = plain, shaped = plain;
    short_list.conv.stride.count = 1;
    shaped.conv.shape = (samba_dims){4, {1, 4, 5, 5}};
    const refusal refusals[] = {
        {SAMBA_OP_conv2d, plain, 2, {x, half}, SAMBA_ERROR_DTYPE, "float16"},
        {SAMBA_OP_conv2d, plain, 2, {whole, whole}, SAMBA_ERROR_DTYPE, "bool"},
        {SAMBA_OP_conv2d, plain, 2, {plane, w}, SAMBA_ERROR_SHAPE, "(4, 5, 5)"},
        {SAMBA_OP_conv2d,
         plain,
         2,
         {x, RANDOM(6, 3, 3, 3)},
         SAMBA_ERROR_SHAPE,
         "dim 1 of the weight must be 4, the 4 channels of the input over groups 1; given 3"},
        {SAMBA_OP_conv2d, conv_attrs(1, 0, 1, 3), 2, {x, w}, SAMBA_ERROR_SHAPE, "given groups 3"},
        {SAMBA_OP_conv2d,
         conv_attrs(1, 0, 1, 4),
         2,
         {x, w},
         SAMBA_ERROR_SHAPE,
         "groups must divide the channels of the input, 4, and dim 0 of the weight, 6; given groups 4"},
        {SAMBA_OP_conv2d, conv_attrs(1, 0, 1, 0), 2, {x, w}, SAMBA_ERROR_ARGUMENT, "groups"},
        {SAMBA_OP_conv2d, conv_attrs(0, 0, 1, 1), 2, {x, w}, SAMBA_ERROR_ARGUMENT, "stride 0 and dilation 1 for the height"},
        {SAMBA_OP_conv2d, conv_attrs(1, 0, 0, 1), 2, {x, w}, SAMBA_ERROR_ARGUMENT, "stride 1 and dilation 0 for the height"},
        {SAMBA_OP_conv2d, conv_attrs(1, -1, 1, 1), 2, {x, w}, SAMBA_ERROR_ARGUMENT, "padding"},
        {SAMBA_OP_conv2d, conv_attrs(1, 0, 3, 1), 2, {x, w}, SAMBA_ERROR_SHAPE, "reaches over 7"},
        {SAMBA_OP_conv2d, conv_attrs(1, INT64_MAX, 1, 1), 2, {x, w}, SAMBA_ERROR_ARGUMENT, "too large"},
        {SAMBA_OP_conv2d, conv_attrs(1, 0, INT64_MAX, 1), 2, {x, w}, SAMBA_ERROR_ARGUMENT, "too large"},
        {SAMBA_OP_conv2d, plain, 2, {x, RANDOM(6, 4, 0, 3)}, SAMBA_ERROR_SHAPE, "a height of 0"},
        {SAMBA_OP_conv2d, short_list, 2, {x, w}, SAMBA_ERROR_ARGUMENT, "stride must have 2"},
        {SAMBA_OP_conv2d_input_grad, plain, 2, {w, RANDOM(1, 6, 3, 3)}, SAMBA_ERROR_ARGUMENT, "shape must have 4"},
        {SAMBA_OP_conv2d_input_grad, shaped, 2, {w, x}, SAMBA_ERROR_SHAPE, "(1, 6, 3, 3), given shape (1, 4, 5, 5)"},
        {SAMBA_OP_conv2d_weight_grad, shaped, 2, {x, x}, SAMBA_ERROR_SHAPE, "(1, 1, 1, 1), given shape (1, 4, 5, 5)"},
    };
    expect_refusals(refusals, SAMBA_COUNT(refusals));
}

static void what_pool_refuses(void **state)
{
    (void)state;
    operand x = RANDOM(1, 4, 5, 5), whole = x;
    whole.dtype = SAMBA_BOOL;
    samba_attrs shaped = pool_attrs(2, 2, 0, 1, false);
    shaped.pool2d.shape = (samba_dims){4, {1, 4, 5, 5}};
    const refusal refusals[] = {
        {SAMBA_OP_max_pool2d, pool_attrs(2, 2, 0, 1, false), 1, {whole}, SAMBA_ERROR_DTYPE, "bool"},
        {SAMBA_OP_max_pool2d, pool_attrs(2, 2, 0, 1, false), 1, {RANDOM(4, 4)}, SAMBA_ERROR_SHAPE, "(4, 4)"},
        {SAMBA_OP_max_pool2d, pool_attrs(0, 2, 0, 1, false), 1, {x}, SAMBA_ERROR_ARGUMENT, "kernel"},
        {SAMBA_OP_max_pool2d, pool_attrs(2, 0, 0, 1, false), 1, {x}, SAMBA_ERROR_ARGUMENT, "stride"},
        {SAMBA_OP_max_pool2d, pool_attrs(2, 2, 2, 1, false), 1, {x}, SAMBA_ERROR_ARGUMENT, "half the kernel"},
        {SAMBA_OP_max_pool2d, pool_attrs(2, 2, 0, 5, false), 1, {x}, SAMBA_ERROR_SHAPE, "reaches over 6"},
        {SAMBA_OP_max_pool2d, pool_attrs(6, 2, 0, 1, false), 1, {x}, SAMBA_ERROR_SHAPE, "height 5"},
        {SAMBA_OP_max_pool2d, pool_attrs(2, INT64_MAX, 0, 1, true), 1, {x}, SAMBA_ERROR_ARGUMENT, "too large"},
        {SAMBA_OP_avg_pool2d, pool_attrs(2, 2, 0, 2, false), 1, {x}, SAMBA_ERROR_ARGUMENT, "dilation"},
        {SAMBA_OP_avg_pool2d, pool_attrs(2, 2, 1, 1, false), 1, {RANDOM(1, 1, 0, 4)}, SAMBA_ERROR_SHAPE, "height 0"},
        {SAMBA_OP_max_pool2d_grad, shaped, 2, {x, x}, SAMBA_ERROR_SHAPE, "(1, 4, 2, 2), given shape (1, 4, 5, 5)"},
        {SAMBA_OP_max_pool2d_grad, shaped, 2, {RANDOM(1, 4, 5, 6), RANDOM(1, 4, 2, 2)}, SAMBA_ERROR_SHAPE, "(1, 4, 5, 6)"},
        {SAMBA_OP_avg_pool2d_grad, pool_attrs(2, 2, 0, 1, false), 1, {x}, SAMBA_ERROR_ARGUMENT, "shape must have 4"},
    };
    expect_refusals(refusals, SAMBA_COUNT(refusals));
}

static void gradients_of_gradients_are_refused(void **state)
{
    (void)state;
    samba_attrs attrs = pool_attrs(2, 2, 0, 1, false);
    attrs.pool2d.shape = (samba_dims){3, {1, 4, 4}};
    operand dy = RANDOM(1, 2, 2);
    op_bench bench;
    uint64_t random = 1;
    op_bench_begin(&bench, SAMBA_OP_avg_pool2d_grad, &attrs, 1, &dy, &random);
    samba_ref gradient = SAMBA_NONE;
    samba_vjp vjp = {
        bench.graph, samba_node_at(bench.graph, bench.result), bench.leaves, bench.result, bench.result, (bool[]){true},
        &gradient};
    assert_int_equal(samba_ops[SAMBA_OP_avg_pool2d_grad].vjp(&vjp), SAMBA_ERROR_UNSUPPORTED);
    assert_non_null(strstr(samba_error_message(bench.context), "avg_pool2d_grad"));
    op_bench_end(&bench);
}

static void flops(void **state)
{
    (void)state;
    samba_node x = {.rank = 4, .shape = {2, 4, 5, 5}}, w = {.rank = 4, .shape = {6, 2, 3, 3}},
               y = {.rank = 4, .shape = {2, 6, 3, 3}};
    int64_t expected = 2 * (2 * 6 * 3 * 3) * (2 * 3 * 3);
    assert_int_equal(samba_ops[SAMBA_OP_conv2d].flops(&y, (const samba_node *[]){&x, &w}), expected);
    assert_int_equal(samba_ops[SAMBA_OP_conv2d_input_grad].flops(&x, (const samba_node *[]){&w, &y}), expected);
    assert_int_equal(samba_ops[SAMBA_OP_conv2d_weight_grad].flops(&w, (const samba_node *[]){&x, &y}), expected);
    samba_attrs attrs = pool_attrs(3, 1, 0, 1, false);
    y.attrs = x.attrs = &attrs;
    x.arity = 2;
    assert_int_equal(samba_ops[SAMBA_OP_max_pool2d].flops(&y, (const samba_node *[]){&x}), 2 * 6 * 3 * 3 * 9);
    assert_int_equal(samba_ops[SAMBA_OP_max_pool2d_grad].flops(&x, (const samba_node *[]){&x, &y}), 2 * 6 * 3 * 3 * 9);
}

/* The pooling gradients keep sums in memory of their own. */
static samba_status pool_gradient(samba_context *context, void *user)
{
    samba_op op = *(const samba_op *)user;
    samba_attrs attrs = pool_attrs(2, 2, 0, 1, false);
    attrs.pool2d.shape = (samba_dims){3, {1, 2, 2}};
    double x[4] = {1, 2, 3, 4}, dy[1] = {1}, dx[4];
    samba_array large = {SAMBA_FLOAT64, 3, {1, 2, 2}, 4, x}, small = {SAMBA_FLOAT64, 3, {1, 1, 1}, 1, dy}, result = large;
    result.data = dx;
    samba_array both[2] = {large, small};
    bool average = op == SAMBA_OP_avg_pool2d_grad;
    samba_reference reference = {context, NULL, &attrs, average ? 1 : 2, average ? both + 1 : both, &result};
    return samba_ops[op].reference(&reference);
}

static void no_memory(void **state)
{
    (void)state;
    samba_op op = SAMBA_OP_max_pool2d_grad;
    fail_each_allocation(pool_gradient, &op);
    op = SAMBA_OP_avg_pool2d_grad;
    fail_each_allocation(pool_gradient, &op);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(conv_and_pool_as_torch),
        cmocka_unit_test(random_shapes),
        cmocka_unit_test(max_pool_nan_and_ties),
        cmocka_unit_test(max_pool_of_padding_alone),
        cmocka_unit_test(empty_batches),
        cmocka_unit_test(conv_of_bfloat16),
        cmocka_unit_test(what_conv_refuses),
        cmocka_unit_test(what_pool_refuses),
        cmocka_unit_test(gradients_of_gradients_are_refused),
        cmocka_unit_test(flops),
        cmocka_unit_test(no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
