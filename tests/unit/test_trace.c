/* SPDX-License-Identifier: Apache-2.0
 *
 * Tracing: parameters' names, shapes and initializers, scopes, promotion, shapes where they are not plain, and what each wrong
 * call leaves in the graph. Values, and all functions beside PyTorch's: test_composed.c, tests/operators. */
#include "graph_fixture.h"
#include "failing_allocator.h"
#include "ops/ops.h"
#include <sambaflow/functional.h>
#include <sambaflow/layers.h>

#define DIMS(...)                                                                                                                \
    SAMBA_COUNT(((int[]){__VA_ARGS__})), (int[]) { __VA_ARGS__ }
/* Declared on first use; named after dtype and shape unless a name is given. */
static samba_value input_of(samba_graph *of, const char *name, samba_dtype dtype, int rank, const int64_t *shape)
{
    char generated[SAMBA_SHAPE_TEXT + 32], text[SAMBA_SHAPE_TEXT];
    snprintf(generated, sizeof generated, "%s%s", samba_dtype_name(dtype), samba_shape_format(rank, shape, text, sizeof text));
    name = name ? name : generated;
    if (samba_graph_leaf(of, name) == SAMBA_NONE) {
        OWN_TENSOR *example;
        samba_status status = samba_tensor_empty(of->context, name, dtype, rank, shape, &example);
        THEN(status, samba_graph_add_input(of, example));
        samba_graph_stick(of, status);
    }
    return samba_input(of, name);
}

#define make_input(...) input_of(g, __VA_ARGS__)
#define floats(...) input_of(g, NULL, SAMBA_FLOAT32, __VA_ARGS__)

/* `type` as it is printed: "float32(2, 3)". */
static void gives(samba_value value, const char *type)
{
    char shape[SAMBA_SHAPE_TEXT], given[SAMBA_SHAPE_TEXT + 16];
    need(samba_graph_status(value.graph));
    const samba_node *node = samba_node_at(value.graph, value.index);
    samba_shape_format(node->rank, node->shape, shape, sizeof shape);
    snprintf(given, sizeof given, "%s%s", samba_dtype_name(node->dtype), shape);
    assert_string_equal(given, type);
}

static void expect_parameter(const char *name, int rank, const int64_t *shape, samba_initializer_kind kind, double a, double b)
{
    samba_ref ref = samba_graph_leaf(g, name);
    if (ref == SAMBA_NONE)
        fail_msg("there is no %s", name);
    const samba_node *node = samba_node_at(g, ref);
    assert_int_equal(node->op, SAMBA_OP_parameter);
    assert_true(samba_shape_equal(node->rank, node->shape, rank, shape));
    assert_int_equal(node->attrs->parameter.init, kind);
    assert_float_equal(node->attrs->parameter.init_a, a, 1e-12);
    assert_float_equal(node->attrs->parameter.init_b, b, 1e-12);
}

/* ---- layers ---- */

TEST(layers_make_parameters_as_pytorch)
{
    samba_value image = floats(SIZES(2, 4, 9, 9));
    samba_scope_push(g, "features");
    samba_scope_push(g, "layers.0");
    samba_value x = samba_conv2d(image, "conv1", 6, (int64_t[]){3, 2},
                                 &(samba_conv2d_options){.stride = {2, 1}, .padding = {1, 0}, .dilation = {1, 2}, .groups = 2});
    samba_scope_pop(g);
    gives(x, "float32(2, 6, 5, 7)");
    double bound = 1 / sqrt(2 * 3 * 2);
    expect_parameter("features.layers.0.conv1.weight", SIZES(6, 2, 3, 2), SAMBA_INIT_UNIFORM, -bound, bound);
    expect_parameter("features.layers.0.conv1.bias", SIZES(6), SAMBA_INIT_UNIFORM, -bound, bound);
    samba_scope_pop(g);
    gives(samba_conv2d(image, "plain", 3, (int64_t[]){9, 9}, &(samba_conv2d_options){.no_bias = true}), "float32(2, 3, 1, 1)");
    assert_int_equal(samba_graph_leaf(g, "plain.bias"), SAMBA_NONE);
    gives(samba_conv2d(floats(SIZES(4, 9, 9)), "one", 5, (int64_t[]){2, 2}, NULL), "float32(5, 8, 8)");

    samba_value rows = floats(SIZES(2, 5, 16));
    gives(samba_linear(rows, "fc", 10), "float32(2, 5, 10)");
    expect_parameter("fc.weight", SIZES(10, 16), SAMBA_INIT_UNIFORM, -0.25, 0.25);
    expect_parameter("fc.bias", SIZES(10), SAMBA_INIT_UNIFORM, -0.25, 0.25);
    gives(samba_linear_no_bias(floats(SIZES(16)), "vector", 3), "float32(3)");
    assert_int_equal(samba_graph_leaf(g, "vector.bias"), SAMBA_NONE);
    const samba_initializer normal = {SAMBA_INIT_NORMAL, 0, 0.02}, zeros = {SAMBA_INIT_ZEROS, 0, 0};
    gives(samba_linear_with(rows, "own", 7, &(samba_linear_options){.weight = &normal, .bias = &zeros}), "float32(2, 5, 7)");
    expect_parameter("own.weight", SIZES(7, 16), SAMBA_INIT_NORMAL, 0, 0.02);
    expect_parameter("own.bias", SIZES(7), SAMBA_INIT_ZEROS, 0, 0);
    samba_linear_with(rows, "bare", 7, &(samba_linear_options){.no_bias = true, .weight = &normal});
    expect_parameter("bare.weight", SIZES(7, 16), SAMBA_INIT_NORMAL, 0, 0.02);
    assert_int_equal(samba_graph_leaf(g, "bare.bias"), SAMBA_NONE);
    samba_linear_with(rows, "default", 7, NULL);
    expect_parameter("default.bias", SIZES(7), SAMBA_INIT_UNIFORM, -0.25, 0.25);
    samba_value half = make_input("half", SAMBA_BFLOAT16, SIZES(2, 16));
    gives(samba_linear(half, "fc16", 3), "bfloat16(2, 3)");

    gives(samba_layer_norm(rows, "norm"), "float32(2, 5, 16)");
    expect_parameter("norm.weight", SIZES(16), SAMBA_INIT_CONSTANT, 1, 0);
    expect_parameter("norm.bias", SIZES(16), SAMBA_INIT_ZEROS, 0, 0);
    samba_value words = make_input("words", SAMBA_INT64, SIZES(2, 5));
    gives(samba_embedding(words, "wte", 100, 16), "float32(2, 5, 16)");
    expect_parameter("wte.weight", SIZES(100, 16), SAMBA_INIT_NORMAL, 0, 1);
    /* A table made before its layer starts as it was made, and is there for other uses. */
    samba_value table = samba_parameter(g, "tied.weight", SAMBA_FLOAT32, SIZES(100, 16), normal);
    samba_value embedded = samba_embedding(words, "tied", 100, 16);
    assert_int_equal(samba_node_at(g, embedded.index)->inputs[0], table.index);
    expect_parameter("tied.weight", SIZES(100, 16), SAMBA_INIT_NORMAL, 0, 0.02);
    assert_int_equal(g->scope, 0);
    need(samba_graph_verify(g));
}

TEST(a_second_call_shares)
{
    samba_value x = floats(SIZES(2, 4));
    samba_value once = samba_linear(x, "fc", 4), twice = samba_linear(x, "fc", 4);
    assert_int_equal(once.index, twice.index);
    samba_linear(twice, "fc", 4);
    int parameters = 0;
    for (int64_t i = 0; i < g->node_count; i++)
        parameters += g->nodes[i].op == SAMBA_OP_parameter;
    assert_int_equal(parameters, 2);
    /* Another start is no contradiction; the first use said it. */
    samba_parameter(g, "fc.weight", SAMBA_FLOAT32, SIZES(4, 4), (samba_initializer){SAMBA_INIT_ZEROS, 0, 0});
    expect_parameter("fc.weight", SIZES(4, 4), SAMBA_INIT_UNIFORM, -0.5, 0.5);
    samba_linear(x, "fc", 5);
    refuse(samba_graph_status(g), SAMBA_ERROR_NAME,
           "parameter at fc: the name \"fc.weight\" is taken: parameter float32(4, 4) was made first");
}

TEST(dropout_has_its_own_rate_and_seed)
{
    samba_value x = floats(SIZES(2, 4));
    samba_scope_push(g, "block0");
    samba_value first = samba_dropout(x, "drop", 0.25), second = samba_dropout(x, "drop", 0.25);
    samba_scope_pop(g);
    const samba_node *rate = samba_node_at(g, samba_graph_leaf(g, "block0.drop.p"));
    const samba_node *seed = samba_node_at(g, samba_graph_leaf(g, "block0.drop.seed"));
    assert_true(rate->op == SAMBA_OP_argin && rate->dtype == SAMBA_FLOAT64 && rate->attrs->argin.role == 1);
    assert_true(rate->attrs->argin.value == 0.25);
    assert_true(seed->op == SAMBA_OP_argin && seed->dtype == SAMBA_INT64 && seed->attrs->argin.role == 2);
    const samba_node *a = samba_node_at(g, first.index), *b = samba_node_at(g, second.index);
    assert_int_equal(a->inputs[1], b->inputs[1]);
    assert_int_not_equal(a->inputs[2], b->inputs[2]); /* each call its own mask */
    gives(second, "float32(2, 4)");
    samba_dropout(x, "other", 1.5);
    refuse(samba_graph_status(g), SAMBA_ERROR_ARGUMENT, "dropout at other: p must be from 0 to 1, given 1.5");
}

/* ---- promotion ---- */

#define promote(dtype, ...) promotes((dtype), LENGTH(((samba_value[]){__VA_ARGS__})), (samba_value[]){__VA_ARGS__})
static void promotes(samba_dtype dtype, int count, const samba_value *values)
{
    need(samba_graph_status(g));
    for (int i = 0; i < count; i++)
        if (samba_value_dtype(values[i]) != dtype)
            fail_msg("%s, value %d: %s", samba_dtype_name(dtype), i, samba_dtype_name(samba_value_dtype(values[i])));
}

TEST(promotion)
{
    samba_value f32 = floats(SIZES(3)), i64 = make_input("i64", SAMBA_INT64, SIZES(3)),
                i32 = make_input("i32", SAMBA_INT32, SIZES(3));
    samba_value bf16 = make_input("bf16", SAMBA_BFLOAT16, SIZES(3)), f16 = make_input("f16", SAMBA_FLOAT16, SIZES(3));
    samba_value yes = make_input("bool", SAMBA_BOOL, SIZES(3)), u8 = make_input("u8", SAMBA_UINT8, SIZES(3));
    samba_value scalar64 = make_input("scalar64", SAMBA_FLOAT64, 0, NULL);
    /* numbers promote as Python's, rank 0 does not widen */
    promote(SAMBA_FLOAT32, samba_add(f32, i64), samba_mul(bf16, f16), samba_div(i32, i64),
            samba_floor_divide(samba_number(g, 7), i32), samba_acosh(i64), samba_add_scalar(i64, 1), samba_mul_scalar(yes, 2),
            samba_pow_scalar(i64, 2), samba_exp(i64), samba_sqrt(yes), samba_sin(i32), samba_log1p(i64), samba_expm1(yes));
    promote(SAMBA_INT64, samba_add(i32, i64), samba_add(i64, samba_integer(g, 2)), samba_add(yes, samba_integer(g, 2)),
            samba_clamp(i64, samba_integer(g, 0), (samba_value){0}));
    promote(SAMBA_INT32, samba_add(u8, i32), samba_mul(yes, i32), samba_pow(i32, i32), samba_left_shift(u8, i32),
            samba_floor(i32), samba_neg(i32));
    promote(SAMBA_BOOL, samba_add(yes, yes), samba_lt(i32, f32), samba_eq(yes, u8), samba_ge(f16, scalar64),
            samba_logical_xor(f32, i64), samba_isclose(i64, i64, 0, 0, true), samba_detach(yes));
    promote(SAMBA_BFLOAT16, samba_sub(bf16, scalar64), samba_div(bf16, i64), samba_where(yes, bf16, i64),
            samba_add_scalar(bf16, 0.5), samba_atan2(bf16, i64), samba_tanhshrink(bf16), samba_softplus(bf16), samba_round(bf16),
            samba_concat(3, (samba_value[]){i32, yes, bf16}, 0));
    promote(SAMBA_FLOAT64, samba_maximum(i32, scalar64), samba_add(scalar64, samba_number(g, 1)),
            samba_sub(i64, samba_as_number(scalar64, SAMBA_FLOAT64)));
    promote(SAMBA_UINT8, samba_mul(samba_integer(g, INT64_MAX), u8), samba_bitwise_and(yes, u8), samba_sign(u8), samba_relu(u8));
    promote(SAMBA_FLOAT16, samba_mul(samba_number(g, 0.1), f16), samba_lerp(f16, f16, samba_number(g, 0.3)),
            samba_pow_scalar(f16, 3), samba_cos(f16), samba_tanh(f16));
    promote(SAMBA_INT8, samba_cast(f32, SAMBA_INT8));
    assert_int_equal(samba_cast(f32, SAMBA_FLOAT32).index, f32.index);
    assert_int_equal(samba_node_at(g, samba_pow_scalar(f32, 2).index)->op, SAMBA_OP_mul);
    need(samba_graph_verify(g));
}

/* ---- shapes ---- */

TEST(shapes)
{
    samba_value x = floats(SIZES(2, 3, 4)), scalar = floats(0, NULL), i32 = make_input("i32", SAMBA_INT32, SIZES(2, 3));
    gives(samba_sum(x, 0, NULL, true), "float32(1, 1, 1)");
    gives(samba_sum(x, DIMS(-1, 0), false), "float32(3)");
    gives(samba_sum(i32, DIMS(1), true), "int64(2, 1)");
    gives(samba_sum(make_input("one", SAMBA_BOOL, 0, NULL), DIMS(-1), false), "int64()");
    gives(samba_mean(scalar, 0, NULL, false), "float32()");
    gives(samba_argmax(scalar, 0, true), "int64()");

    gives(samba_reshape(floats(SIZES(0, 3)), SIZES(-1, 3)), "float32(0, 3)");
    gives(samba_reshape(samba_sum(x, 0, NULL, false), SIZES(1, -1)), "float32(1, 1)");
    gives(samba_permute(scalar, NULL), "float32()");
    gives(samba_transpose(scalar, 0, -1), "float32()");
    gives(samba_flatten(x, 0, 1), "float32(6, 4)");
    gives(samba_flatten(scalar, 0, -1), "float32(1)");
    gives(samba_expand(floats(SIZES(3, 1)), SIZES(2, -1, 4)), "float32(2, 3, 4)");
    gives(samba_expand(scalar, SIZES(2, 2)), "float32(2, 2)");
    gives(samba_slice(x, -1, -3, 100, 2), "float32(2, 3, 2)");
    gives(samba_slice(x, 1, 2, 1, 1), "float32(2, 0, 4)");
    gives(samba_slice(x, 0, INT64_MIN, INT64_MAX, INT64_MAX), "float32(1, 3, 4)");
    assert_int_equal(samba_slice(x, 0, -100, 100, 1).index, x.index);
    assert_int_equal(samba_concat(1, &x, 0).index, x.index);
    samba_value parts[3], v = floats(SIZES(4)), b = floats(SIZES(2, 1, 3, 4));
    samba_split(floats(SIZES(2, 7)), 3, -1, 3, parts);
    gives(parts[2], "float32(2, 1)");
    gives(samba_log_softmax(scalar, -1), "float32()");
    gives(samba_matmul(v, v), "float32()");
    gives(samba_matmul(b, v), "float32(2, 1, 3)");
    gives(samba_matmul(v, floats(SIZES(6, 4, 5))), "float32(6, 5)");
    gives(samba_avg_pool2d(floats(SIZES(2, 3, 9, 7)), (int64_t[]){3, 3},
                           &(samba_pool2d_options){.stride = {2, 2}, .padding = {1, 1}, .ceil_mode = true}),
          "float32(2, 3, 5, 4)");
    const samba_cross_entropy_options each = {-100, 0, SAMBA_NO_REDUCTION, {NULL, 0, 0}};
    gives(samba_cross_entropy(v, make_input("i16", SAMBA_INT16, 0, NULL)), "float32()"); /* one sample without a batch */
    gives(samba_cross_entropy_with(b, make_input("i64", SAMBA_INT64, SIZES(2, 3, 4)), &each), "float32(2, 3, 4)");
    assert_true(samba_value_rank(x) == 3 && samba_value_size(x, -1) == 4);
    need(samba_graph_verify(g));
}

TEST(nothing_takes_nothing)
{
    samba_value none = {0}, parts[2];
    assert_null(samba_add(none, none).graph);
    assert_int_equal(samba_linear(samba_input(NULL, "x"), "fc", 3).index, SAMBA_NONE);
    samba_constant(NULL, 1, SAMBA_FLOAT32, 0, NULL);
    samba_arange(NULL, 1, SAMBA_FLOAT32);
    samba_parameter(NULL, "w", SAMBA_FLOAT32, 0, NULL, (samba_initializer){0});
    samba_scope_push(NULL, "s");
    samba_scope_pop(NULL);
    samba_output(NULL, "y", none);
    samba_split(none, 1, 0, 2, parts);
    assert_int_equal(parts[1].index, SAMBA_NONE);
    samba_concat(0, NULL, 0);
    samba_concat(2, (samba_value[]){none, none}, 0);
    assert_int_equal(samba_value_rank(none), 0);
    assert_int_equal(samba_value_size(none, 0), 0);
    assert_int_equal(samba_value_dtype(none), SAMBA_FLOAT32);
    assert_int_equal(samba_graph_add_input(NULL, NULL), SAMBA_ERROR_ARGUMENT);
}

TEST(inputs_and_outputs)
{
    samba_value x = floats(SIZES(2, 3));
    samba_scope_push(g, "head");
    samba_output(g, "y", x); /* named in the scope, like everything made there */
    samba_scope_pop(g);
    samba_loss(g, "y", samba_sum(x, 0, NULL, false));
    assert_int_equal(g->sink_count, 2);
    assert_string_equal(samba_graph_name_at(g, g->sinks[0].name), "head.y");
    assert_int_equal(g->sinks[1].kind, SAMBA_SINK_LOSS);
    assert_int_equal(g->sinks[1].phase, SAMBA_FWD);
    OWN_TENSOR *example;
    need(samba_tensor_empty(context, "float32(2, 3)", SAMBA_FLOAT32, SIZES(2, 3), &example));
    assert_int_equal(samba_graph_add_input(g, example), SAMBA_ERROR_NAME); /* twice */
    refuse(samba_graph_status(g), SAMBA_ERROR_NAME, "the model has another input of that name already");
}

/* ---- memory ---- */

static samba_status trace_a_model(samba_context *owner, void *user)
{
    OWN_GRAPH *made;
    SAMBA_TRY(samba_graph_new(owner, "memory", &made));
    samba_value x = input_of(made, "x", SAMBA_FLOAT32, SIZES(4, 8)), label = input_of(made, "label", SAMBA_INT64, SIZES(4));
    for (int i = 0; i < 3; i++) {
        char name[32];
        snprintf(name, sizeof name, "block%d", i);
        samba_scope_push(made, name);
        x = samba_add(x, samba_dropout(samba_gelu(samba_linear(samba_layer_norm(x, "norm"), "fc", 8)), "drop", 0.1));
        samba_scope_pop(made);
    }
    samba_loss(made, "loss", samba_cross_entropy(x, label));
    samba_output(made, "mean", samba_mean(x, DIMS(1), false));
    return samba_graph_status(made);
}

TEST(refused_allocations) { fail_each_allocation(trace_a_model, NULL); }

/* ---- wrong calls: messages/trace.txt ---- */

static samba_graph *other;
static samba_value x, ints, yes, scalar, elsewhere;
static const samba_value nothing = {0};

static void two_graphs(void)
{
    other = graph_named("other");
    x = floats(SIZES(2, 3)), ints = make_input("ints", SAMBA_INT64, SIZES(2)), yes = make_input("yes", SAMBA_BOOL, SIZES(2, 3));
    scalar = floats(0, NULL), elsewhere = input_of(other, NULL, SAMBA_FLOAT32, SIZES(2, 3));
}

/* What the graph says, which stays whatever else goes wrong later. */
static samba_status stays(const samba_graph *of)
{
    char first[1024];
    samba_status status = samba_graph_status(of);
    snprintf(first, sizeof first, "%s", samba_error_message(context));
    assert_int_equal(samba_value_size(floats(SIZES(2)), 9), 0);
    assert_int_equal(samba_add(floats(SIZES(2, 3)), floats(SIZES(2))).index, SAMBA_NONE);
    refuse(samba_graph_status(of), status, first);
    samba_graph_free(other);
    return samba_graph_status(of);
}

TEST(wrong_calls)
{
    samba_cross_entropy_options smoothed = samba_cross_entropy_defaults();
    smoothed.label_smoothing = 2;
    samba_value parts[2];
    wrong(two_graphs, stays, samba_add(x, elsewhere));
    wrong(two_graphs, stays, samba_add(nothing, x));
    wrong(two_graphs, stays, samba_add(samba_relu(samba_linear(nothing, "fc1", 3)), x));
    wrong(two_graphs, stays, samba_cross_entropy(samba_mul(nothing, nothing), ints));
    wrong(two_graphs, stays, samba_output(g, "y", samba_linear(nothing, "fc2", 3)));
    wrong(two_graphs, stays, samba_add(x, samba_relu(samba_input(NULL, "x"))));
    wrong(two_graphs, stays, samba_exp((samba_value){g, 999, 0}));
    wrong(two_graphs, stays, samba_input(g, "float32(2, 2)"));
    wrong(two_graphs, stays, samba_input(g, NULL));
    wrong(two_graphs, stays, samba_linear(x, NULL, 3));
    wrong(two_graphs, stays, samba_linear(ints, "fc", 3));
    wrong(two_graphs, stays, samba_linear(scalar, "fc", 3));
    wrong(two_graphs, stays, samba_conv2d(x, "conv", 3, (int64_t[]){3, 3}, NULL));
    wrong(two_graphs, stays, samba_conv2d(floats(SIZES(1, 3, 5, 5)), "conv", 3, NULL, NULL));
    wrong(two_graphs, stays, samba_softmax(x, 2));
    wrong(two_graphs, stays, samba_sum(x, DIMS(0, -2), false));
    wrong(two_graphs, stays, samba_sum(x, 1, NULL, false));
    wrong(two_graphs, stays, samba_mean(ints, 0, NULL, false));
    wrong(two_graphs, stays, samba_sub(yes, x));
    wrong(two_graphs, stays, samba_reshape(x, SIZES(4, -1)));
    wrong(two_graphs, stays, samba_reshape(x, SIZES(-1, -1)));
    wrong(two_graphs, stays, samba_reshape(x, 9, (int64_t[]){1, 1, 1, 1, 1, 1, 1, 2, 3}));
    wrong(two_graphs, stays, samba_reshape(x, 2, NULL));
    wrong(two_graphs, stays, samba_permute(x, (int[]){0, -2}));
    wrong(two_graphs, stays, samba_permute(x, NULL));
    wrong(two_graphs, stays, samba_transpose(x, 0, 2));
    wrong(two_graphs, stays, samba_flatten(x, 1, 0));
    wrong(two_graphs, stays, samba_expand(x, SIZES(-1, 2, 3)));
    wrong(two_graphs, stays, samba_slice(x, 0, 0, 1, 0));
    wrong(two_graphs, stays, samba_slice(scalar, 0, 0, 1, 1));
    wrong(two_graphs, stays, samba_concat(2000, &x, 0));
    wrong(two_graphs, stays, samba_split(x, 2, 1, 1, parts));
    wrong(two_graphs, stays, samba_split(x, 0, 1, 2, parts));
    wrong(two_graphs, stays, samba_matmul(x, scalar));
    wrong(two_graphs, stays, samba_matmul(x, make_input("d", SAMBA_FLOAT64, SIZES(3, 2))));
    wrong(two_graphs, stays, samba_scope_pop(g));
    wrong(two_graphs, stays, samba_scope_push(g, ""));
    wrong(two_graphs, stays, samba_parameter(g, "float32(2, 3)", SAMBA_FLOAT32, SIZES(2, 3), (samba_initializer){0}));
    wrong(two_graphs, stays, samba_parameter(g, "w", SAMBA_INT64, SIZES(2), (samba_initializer){0}));
    wrong(two_graphs, stays, samba_parameter(g, "w", SAMBA_FLOAT32, SIZES(-2), (samba_initializer){0}));
    wrong(two_graphs, stays, samba_parameter(g, NULL, SAMBA_FLOAT32, 0, NULL, (samba_initializer){0}));
    wrong(two_graphs, stays, samba_cross_entropy(x, yes));
    wrong(two_graphs, stays, samba_cross_entropy(x, scalar));
    wrong(two_graphs, stays, samba_cross_entropy_with(x, ints, &smoothed));
    wrong(two_graphs, stays, samba_output(g, "y", elsewhere));
    wrong(two_graphs, stays, samba_loss(g, "y", ints));
    wrong(two_graphs, stays, samba_output(g, NULL, x));
    wrong(two_graphs, stays, samba_output(g, "y", nothing));
    wrong(two_graphs, stays, samba_value_size(x, 5));
    wrong(two_graphs, stays, samba_value_size(scalar, 0));
    wrong(two_graphs, stays, samba_max_pool2d(x, NULL, NULL));
    wrong(two_graphs, stays, samba_embedding(x, "e", 5, 2));
    wrong(two_graphs, stays, samba_cast(x, (samba_dtype)77));
    wrong(two_graphs, stays, samba_constant(g, 0, (samba_dtype)-1, 0, NULL));
    wrong(two_graphs, stays, samba_arange(g, -1, SAMBA_INT64));
    wrong(two_graphs, stays, samba_layer_norm(scalar, "n"));
    wrong(two_graphs, stays, samba_graph_add_input(g, NULL));
    wrong(two_graphs, samba_graph_status, samba_exp(samba_add(x, elsewhere)));
    refuse(samba_graph_status(other), SAMBA_ERROR_ARGUMENT, "another one to graph \"wrong\"");
    samba_graph_free(other);
}

TEST_MAIN_WITH(graph_begin, graph_end, layers_make_parameters_as_pytorch, a_second_call_shares, dropout_has_its_own_rate_and_seed,
               promotion, shapes, wrong_calls, nothing_takes_nothing, inputs_and_outputs, refused_allocations, every_message_said)
