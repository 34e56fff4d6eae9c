/* SPDX-License-Identifier: Apache-2.0
 *
 * Tracing: parameters' names, shapes and initializers, scopes, promotion, shapes of every function as in PyTorch, values of the
 * composites against plain loops (through the reference evaluation), and what each wrong call leaves in the graph. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "failing_allocator.h"
#include "graph_fixture.h"
#include "ops/ops.h"

#include <sambaflow/functional.h>
#include <sambaflow/layers.h>
#include <math.h>

#define DIMS(...)                                                                                                                \
    SAMBA_COUNT(((int[]){__VA_ARGS__})), (int[]) { __VA_ARGS__ }
#define SHAPE(...)                                                                                                               \
    SAMBA_COUNT(((int64_t[]){__VA_ARGS__})), (int64_t[]) { __VA_ARGS__ }

/* Declared on first use; named after dtype and shape unless a name is given. */
static samba_value make_input(samba_graph *g, const char *name, samba_dtype dtype, int rank, const int64_t *shape)
{
    char generated[SAMBA_SHAPE_TEXT + 32], text[SAMBA_SHAPE_TEXT];
    snprintf(generated, sizeof generated, "%s%s", samba_dtype_name(dtype), samba_shape_format(rank, shape, text, sizeof text));
    name = name ? name : generated;
    if (samba_graph_leaf(g, name) == SAMBA_NONE) {
        samba_tensor *example;
        samba_status status = samba_tensor_empty(g->context, name, dtype, rank, shape, &example);
        if (status != SAMBA_OK) {
            samba_graph_stick(g, status);
        } else {
            samba_graph_add_input(g, example);
            samba_tensor_free(example);
        }
    }
    return samba_input(g, name);
}

static samba_value floats(samba_graph *g, int rank, const int64_t *shape)
{
    return make_input(g, NULL, SAMBA_FLOAT32, rank, shape);
}

static void expect_type(samba_value value, samba_dtype dtype, int rank, const int64_t *shape)
{
    if (samba_graph_status(value.graph) != SAMBA_OK)
        fail_msg("%s", samba_error_message(value.graph->context));
    const samba_node *node = samba_node_at(value.graph, value.index);
    char a[SAMBA_SHAPE_TEXT], b[SAMBA_SHAPE_TEXT];
    if ((samba_dtype)node->dtype != dtype || !samba_shape_equal(node->rank, node->shape, rank, shape))
        fail_msg("%s%s instead of %s%s", samba_dtype_name(node->dtype), samba_shape_format(node->rank, node->shape, a, sizeof a),
                 samba_dtype_name(dtype), samba_shape_format(rank, shape, b, sizeof b));
}

static void expect_failure(samba_graph *graph, samba_status status, const char *words)
{
    if (samba_graph_status(graph) != status || !strstr(samba_error_message(graph->context), words))
        fail_msg("status %s, message \"%s\"; expected %s, \"%s\"", samba_status_name(samba_graph_status(graph)),
                 samba_error_message(graph->context), samba_status_name(status), words);
}

static void expect_parameter(samba_graph *g, const char *name, int rank, const int64_t *shape, samba_initializer_kind kind,
                             double a, double b)
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

static void layers_make_parameters_as_pytorch(void **state)
{
    samba_graph *g = ((fixture *)*state)->graph;
    samba_value image = floats(g, SHAPE(2, 4, 9, 9));
    samba_scope_push(g, "features");
    samba_scope_push(g, "layers.0");
    samba_value x = samba_conv2d(image, "conv1", 6, (int64_t[]){3, 2},
                                 &(samba_conv2d_options){.stride = {2, 1}, .padding = {1, 0}, .dilation = {1, 2}, .groups = 2});
    samba_scope_pop(g);
    expect_type(x, SAMBA_FLOAT32, SHAPE(2, 6, 5, 7));
    double bound = 1 / sqrt(2 * 3 * 2);
    expect_parameter(g, "features.layers.0.conv1.weight", SHAPE(6, 2, 3, 2), SAMBA_INIT_UNIFORM, -bound, bound);
    expect_parameter(g, "features.layers.0.conv1.bias", SHAPE(6), SAMBA_INIT_UNIFORM, -bound, bound);
    samba_scope_pop(g);
    expect_type(samba_conv2d(image, "plain", 3, (int64_t[]){9, 9}, &(samba_conv2d_options){.no_bias = true}), SAMBA_FLOAT32,
                SHAPE(2, 3, 1, 1));
    assert_int_equal(samba_graph_leaf(g, "plain.bias"), SAMBA_NONE);
    expect_type(samba_conv2d(floats(g, SHAPE(4, 9, 9)), "one", 5, (int64_t[]){2, 2}, NULL), SAMBA_FLOAT32, SHAPE(5, 8, 8));

    samba_value rows = floats(g, SHAPE(2, 5, 16));
    expect_type(samba_linear(rows, "fc", 10), SAMBA_FLOAT32, SHAPE(2, 5, 10));
    expect_parameter(g, "fc.weight", SHAPE(10, 16), SAMBA_INIT_UNIFORM, -0.25, 0.25);
    expect_parameter(g, "fc.bias", SHAPE(10), SAMBA_INIT_UNIFORM, -0.25, 0.25);
    expect_type(samba_linear_no_bias(floats(g, SHAPE(16)), "vector", 3), SAMBA_FLOAT32, SHAPE(3));
    assert_int_equal(samba_graph_leaf(g, "vector.bias"), SAMBA_NONE);
    const samba_initializer normal = {SAMBA_INIT_NORMAL, 0, 0.02}, zeros = {SAMBA_INIT_ZEROS, 0, 0};
    expect_type(samba_linear_with(rows, "own", 7, &(samba_linear_options){.weight = &normal, .bias = &zeros}), SAMBA_FLOAT32,
                SHAPE(2, 5, 7));
    expect_parameter(g, "own.weight", SHAPE(7, 16), SAMBA_INIT_NORMAL, 0, 0.02);
    expect_parameter(g, "own.bias", SHAPE(7), SAMBA_INIT_ZEROS, 0, 0);
    samba_linear_with(rows, "bare", 7, &(samba_linear_options){.no_bias = true, .weight = &normal});
    expect_parameter(g, "bare.weight", SHAPE(7, 16), SAMBA_INIT_NORMAL, 0, 0.02);
    assert_int_equal(samba_graph_leaf(g, "bare.bias"), SAMBA_NONE);
    samba_linear_with(rows, "default", 7, NULL);
    expect_parameter(g, "default.bias", SHAPE(7), SAMBA_INIT_UNIFORM, -0.25, 0.25);
    samba_value half = make_input(g, "half", SAMBA_BFLOAT16, SHAPE(2, 16));
    expect_type(samba_linear(half, "fc16", 3), SAMBA_BFLOAT16, SHAPE(2, 3));

    expect_type(samba_layer_norm(rows, "norm"), SAMBA_FLOAT32, SHAPE(2, 5, 16));
    expect_parameter(g, "norm.weight", SHAPE(16), SAMBA_INIT_CONSTANT, 1, 0);
    expect_parameter(g, "norm.bias", SHAPE(16), SAMBA_INIT_ZEROS, 0, 0);
    samba_value words = make_input(g, "words", SAMBA_INT64, SHAPE(2, 5));
    expect_type(samba_embedding(words, "wte", 100, 16), SAMBA_FLOAT32, SHAPE(2, 5, 16));
    expect_parameter(g, "wte.weight", SHAPE(100, 16), SAMBA_INIT_NORMAL, 0, 1);
    /* A table made before its layer starts as it was made, and is there for other uses. */
    samba_value table = samba_parameter(g, "tied.weight", SAMBA_FLOAT32, SHAPE(100, 16), normal);
    samba_value embedded = samba_embedding(words, "tied", 100, 16);
    assert_int_equal(samba_node_at(g, embedded.index)->inputs[0], table.index);
    expect_parameter(g, "tied.weight", SHAPE(100, 16), SAMBA_INIT_NORMAL, 0, 0.02);
    assert_int_equal(g->scope, 0);
    assert_int_equal(samba_graph_verify(g), SAMBA_OK);
}

static void a_second_call_shares(void **state)
{
    samba_graph *g = ((fixture *)*state)->graph;
    samba_value x = floats(g, SHAPE(2, 4));
    samba_value once = samba_linear(x, "fc", 4), twice = samba_linear(x, "fc", 4);
    assert_int_equal(once.index, twice.index);
    samba_linear(twice, "fc", 4);
    int parameters = 0;
    for (int64_t i = 0; i < g->node_count; i++)
        parameters += g->nodes[i].op == SAMBA_OP_parameter;
    assert_int_equal(parameters, 2);
    /* Another start is no contradiction; the first use said it. */
    samba_parameter(g, "fc.weight", SAMBA_FLOAT32, SHAPE(4, 4), (samba_initializer){SAMBA_INIT_ZEROS, 0, 0});
    expect_parameter(g, "fc.weight", SHAPE(4, 4), SAMBA_INIT_UNIFORM, -0.5, 0.5);
    samba_linear(x, "fc", 5);
    expect_failure(g, SAMBA_ERROR_NAME,
                   "parameter at fc: the name \"fc.weight\" is taken: parameter float32(4, 4) was made first");
}

static void dropout_has_its_own_rate_and_seed(void **state)
{
    samba_graph *g = ((fixture *)*state)->graph;
    samba_value x = floats(g, SHAPE(2, 4));
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
    expect_type(second, SAMBA_FLOAT32, SHAPE(2, 4));
    samba_dropout(x, "other", 1.5);
    expect_failure(g, SAMBA_ERROR_ARGUMENT, "dropout at other: p must be from 0 to 1, given 1.5");
}

/* ---- promotion ---- */

static void promotion(void **state)
{
    samba_graph *g = ((fixture *)*state)->graph;
    samba_value f32 = floats(g, SHAPE(3)), i64 = make_input(g, "i64", SAMBA_INT64, SHAPE(3)),
                i32 = make_input(g, "i32", SAMBA_INT32, SHAPE(3));
    samba_value bf16 = make_input(g, "bf16", SAMBA_BFLOAT16, SHAPE(3)), f16 = make_input(g, "f16", SAMBA_FLOAT16, SHAPE(3));
    samba_value yes = make_input(g, "bool", SAMBA_BOOL, SHAPE(3)), u8 = make_input(g, "u8", SAMBA_UINT8, SHAPE(3));
    samba_value scalar64 = make_input(g, "scalar64", SAMBA_FLOAT64, 0, NULL);
    const struct {
        samba_value value;
        samba_dtype dtype;
    } cases[] = {
        {samba_add(f32, i64), SAMBA_FLOAT32},
        {samba_mul(bf16, f16), SAMBA_FLOAT32},
        {samba_add(i32, i64), SAMBA_INT64},
        {samba_add(u8, i32), SAMBA_INT32},
        {samba_mul(yes, i32), SAMBA_INT32},
        {samba_add(yes, yes), SAMBA_BOOL},
        {samba_sub(bf16, scalar64), SAMBA_BFLOAT16}, /* rank 0 does not widen */
        {samba_maximum(i32, scalar64), SAMBA_FLOAT64},
        {samba_div(i32, i64), SAMBA_FLOAT32},
        {samba_div(bf16, i64), SAMBA_BFLOAT16},
        {samba_pow(i32, i32), SAMBA_INT32},
        {samba_lt(i32, f32), SAMBA_BOOL},
        {samba_eq(yes, u8), SAMBA_BOOL},
        {samba_ge(f16, scalar64), SAMBA_BOOL},
        {samba_where(yes, bf16, i64), SAMBA_BFLOAT16},
        {samba_add_scalar(bf16, 0.5), SAMBA_BFLOAT16},
        {samba_add(i64, samba_integer(g, 2)), SAMBA_INT64}, /* numbers promote as Python's */
        {samba_mul(samba_integer(g, INT64_MAX), u8), SAMBA_UINT8},
        {samba_add(yes, samba_integer(g, 2)), SAMBA_INT64},
        {samba_mul(samba_number(g, 0.1), f16), SAMBA_FLOAT16},
        {samba_floor_divide(samba_number(g, 7), i32), SAMBA_FLOAT32},
        {samba_add(scalar64, samba_number(g, 1)), SAMBA_FLOAT64},
        {samba_sub(i64, samba_as_number(scalar64, SAMBA_FLOAT64)), SAMBA_FLOAT64},
        {samba_clamp(i64, samba_integer(g, 0), (samba_value){0}), SAMBA_INT64},
        {samba_bitwise_and(yes, u8), SAMBA_UINT8},
        {samba_left_shift(u8, i32), SAMBA_INT32},
        {samba_logical_xor(f32, i64), SAMBA_BOOL},
        {samba_isclose(i64, i64, 0, 0, true), SAMBA_BOOL},
        {samba_acosh(i64), SAMBA_FLOAT32},
        {samba_atan2(bf16, i64), SAMBA_BFLOAT16},
        {samba_tanhshrink(bf16), SAMBA_BFLOAT16},
        {samba_lerp(f16, f16, samba_number(g, 0.3)), SAMBA_FLOAT16},
        {samba_add_scalar(i64, 1), SAMBA_FLOAT32},
        {samba_mul_scalar(yes, 2), SAMBA_FLOAT32},
        {samba_pow_scalar(i64, 2), SAMBA_FLOAT32},
        {samba_pow_scalar(f16, 3), SAMBA_FLOAT16},
        {samba_exp(i64), SAMBA_FLOAT32},
        {samba_sqrt(yes), SAMBA_FLOAT32},
        {samba_sin(i32), SAMBA_FLOAT32},
        {samba_cos(f16), SAMBA_FLOAT16},
        {samba_log1p(i64), SAMBA_FLOAT32},
        {samba_expm1(yes), SAMBA_FLOAT32},
        {samba_softplus(bf16), SAMBA_BFLOAT16},
        {samba_floor(i32), SAMBA_INT32},
        {samba_round(bf16), SAMBA_BFLOAT16},
        {samba_sign(u8), SAMBA_UINT8},
        {samba_detach(yes), SAMBA_BOOL},
        {samba_tanh(f16), SAMBA_FLOAT16},
        {samba_neg(i32), SAMBA_INT32},
        {samba_relu(u8), SAMBA_UINT8},
        {samba_cast(f32, SAMBA_INT8), SAMBA_INT8},
        {samba_concat(3, (samba_value[]){i32, yes, bf16}, 0), SAMBA_BFLOAT16},
    };
    for (int i = 0; i < SAMBA_COUNT(cases); i++) {
        if (samba_graph_status(g) != SAMBA_OK)
            fail_msg("%s", samba_error_message(g->context));
        if (samba_value_dtype(cases[i].value) != cases[i].dtype)
            fail_msg("case %d gives %s", i, samba_dtype_name(samba_value_dtype(cases[i].value)));
    }
    assert_int_equal(samba_cast(f32, SAMBA_FLOAT32).index, f32.index);
    assert_int_equal(samba_node_at(g, samba_pow_scalar(f32, 2).index)->op, SAMBA_OP_mul);
    assert_int_equal(samba_graph_verify(g), SAMBA_OK);
}

/* ---- shapes ---- */

static void shapes(void **state)
{
    samba_graph *g = ((fixture *)*state)->graph;
    samba_value x = floats(g, SHAPE(2, 3, 4)), scalar = floats(g, 0, NULL);
    samba_value i32 = make_input(g, "i32", SAMBA_INT32, SHAPE(2, 3)), half = make_input(g, "half", SAMBA_FLOAT16, SHAPE(2, 3));
    expect_type(samba_sum(x, 0, NULL, false), SAMBA_FLOAT32, 0, NULL);
    expect_type(samba_sum(x, 0, NULL, true), SAMBA_FLOAT32, SHAPE(1, 1, 1));
    expect_type(samba_sum(x, DIMS(-1, 0), false), SAMBA_FLOAT32, SHAPE(3));
    expect_type(samba_sum(i32, DIMS(1), true), SAMBA_INT64, SHAPE(2, 1));
    expect_type(samba_sum(make_input(g, "one", SAMBA_BOOL, 0, NULL), DIMS(-1), false), SAMBA_INT64, 0, NULL);
    expect_type(samba_mean(half, DIMS(0), false), SAMBA_FLOAT16, SHAPE(3));
    expect_type(samba_mean(scalar, 0, NULL, false), SAMBA_FLOAT32, 0, NULL);
    expect_type(samba_amax(i32, DIMS(-2), false), SAMBA_INT32, SHAPE(3));
    expect_type(samba_amin(x, DIMS(0, 1, 2), true), SAMBA_FLOAT32, SHAPE(1, 1, 1));
    expect_type(samba_argmax(x, -1, false), SAMBA_INT64, SHAPE(2, 3));
    expect_type(samba_argmax(x, 0, true), SAMBA_INT64, SHAPE(1, 3, 4));
    expect_type(samba_argmax(scalar, 0, true), SAMBA_INT64, 0, NULL);

    expect_type(samba_reshape(x, SHAPE(-1, 6)), SAMBA_FLOAT32, SHAPE(4, 6));
    expect_type(samba_reshape(floats(g, SHAPE(0, 3)), SHAPE(5, 0)), SAMBA_FLOAT32, SHAPE(5, 0));
    expect_type(samba_reshape(floats(g, SHAPE(0, 3)), SHAPE(-1, 3)), SAMBA_FLOAT32, SHAPE(0, 3));
    expect_type(samba_reshape(samba_sum(x, 0, NULL, false), SHAPE(1, -1)), SAMBA_FLOAT32, SHAPE(1, 1));
    expect_type(samba_permute(x, (int[]){-1, 0, 1}), SAMBA_FLOAT32, SHAPE(4, 2, 3));
    expect_type(samba_permute(scalar, NULL), SAMBA_FLOAT32, 0, NULL);
    expect_type(samba_transpose(x, 0, -1), SAMBA_FLOAT32, SHAPE(4, 3, 2));
    expect_type(samba_transpose(scalar, 0, -1), SAMBA_FLOAT32, 0, NULL);
    expect_type(samba_flatten(x, 1, -1), SAMBA_FLOAT32, SHAPE(2, 12));
    expect_type(samba_flatten(x, 0, 1), SAMBA_FLOAT32, SHAPE(6, 4));
    expect_type(samba_flatten(scalar, 0, -1), SAMBA_FLOAT32, SHAPE(1));
    expect_type(samba_expand(floats(g, SHAPE(3, 1)), SHAPE(2, -1, 4)), SAMBA_FLOAT32, SHAPE(2, 3, 4));
    expect_type(samba_expand(scalar, SHAPE(2, 2)), SAMBA_FLOAT32, SHAPE(2, 2));
    expect_type(samba_slice(x, -1, -3, 100, 2), SAMBA_FLOAT32, SHAPE(2, 3, 2));
    expect_type(samba_slice(x, 1, 2, 1, 1), SAMBA_FLOAT32, SHAPE(2, 0, 4));
    expect_type(samba_slice(x, 0, INT64_MIN, INT64_MAX, INT64_MAX), SAMBA_FLOAT32, SHAPE(1, 3, 4));
    assert_int_equal(samba_slice(x, 0, -100, 100, 1).index, x.index);
    expect_type(samba_concat(3, (samba_value[]){x, x, x}, -2), SAMBA_FLOAT32, SHAPE(2, 9, 4));
    assert_int_equal(samba_concat(1, &x, 0).index, x.index);
    samba_value parts[3];
    samba_split(floats(g, SHAPE(2, 7)), 3, -1, 3, parts);
    expect_type(parts[0], SAMBA_FLOAT32, SHAPE(2, 3));
    expect_type(parts[2], SAMBA_FLOAT32, SHAPE(2, 1));

    expect_type(samba_softmax(x, 0), SAMBA_FLOAT32, SHAPE(2, 3, 4));
    expect_type(samba_log_softmax(scalar, -1), SAMBA_FLOAT32, 0, NULL);
    samba_value image = floats(g, SHAPE(2, 3, 9, 7));
    expect_type(samba_max_pool2d(image, (int64_t[]){2, 3}, NULL), SAMBA_FLOAT32, SHAPE(2, 3, 4, 2));
    expect_type(samba_avg_pool2d(image, (int64_t[]){3, 3},
                                 &(samba_pool2d_options){.stride = {2, 2}, .padding = {1, 1}, .ceil_mode = true}),
                SAMBA_FLOAT32, SHAPE(2, 3, 5, 4));
    expect_type(samba_constant(g, 2, SAMBA_INT32, SHAPE(2, 0)), SAMBA_INT32, SHAPE(2, 0));
    expect_type(samba_arange(g, 5, SAMBA_INT64), SAMBA_INT64, SHAPE(5));
    assert_int_equal(samba_value_rank(x), 3);
    assert_int_equal(samba_value_size(x, -1), 4);
    assert_int_equal(samba_graph_verify(g), SAMBA_OK);
}

static void matmul_shapes(void **state)
{
    samba_graph *g = ((fixture *)*state)->graph;
    samba_value v = floats(g, SHAPE(4)), m = floats(g, SHAPE(3, 4)), n = floats(g, SHAPE(4, 5)), b = floats(g, SHAPE(2, 1, 3, 4));
    samba_value c = floats(g, SHAPE(6, 4, 5));
    expect_type(samba_matmul(v, v), SAMBA_FLOAT32, 0, NULL);
    expect_type(samba_matmul(m, v), SAMBA_FLOAT32, SHAPE(3));
    expect_type(samba_matmul(v, n), SAMBA_FLOAT32, SHAPE(5));
    expect_type(samba_matmul(m, n), SAMBA_FLOAT32, SHAPE(3, 5));
    expect_type(samba_matmul(b, v), SAMBA_FLOAT32, SHAPE(2, 1, 3));
    expect_type(samba_matmul(v, c), SAMBA_FLOAT32, SHAPE(6, 5));
    expect_type(samba_matmul(b, n), SAMBA_FLOAT32, SHAPE(2, 1, 3, 5));
    expect_type(samba_matmul(b, c), SAMBA_FLOAT32, SHAPE(2, 6, 3, 5));
}

/* ---- values ---- */

/* The value of the graph's only output for input "x" (and "label"), as doubles. */
static void evaluate(samba_graph *g, const double *x, const int64_t *label, int64_t count, const double *expected)
{
    samba_arena arena;
    samba_arena_init(&arena, g->context);
    const char *names[2] = {"x", "label"};
    samba_array leaves[2], result;
    for (int i = 0; i < (label ? 2 : 1); i++) {
        const samba_node *node = samba_node_at(g, samba_graph_leaf(g, names[i]));
        leaves[i] = (samba_array){.dtype = node->dtype, .rank = node->rank};
        memcpy(leaves[i].shape, node->shape, sizeof node->shape);
        assert_true(samba_shape_numel(node->rank, node->shape, &leaves[i].numel));
        leaves[i].data = samba_arena_alloc(&arena, (size_t)leaves[i].numel * 8);
        for (int64_t k = 0; k < leaves[i].numel; k++) {
            char *at = (char *)leaves[i].data + (size_t)k * samba_dtype_size(leaves[i].dtype);
            if (i == 0)
                samba_store_double(leaves[i].dtype, at, x[k]);
            else
                samba_store_int64(leaves[i].dtype, at, label[k]);
        }
    }
    if (samba_graph_evaluate(g, label ? 2 : 1, names, leaves, &arena, &result) != SAMBA_OK)
        fail_msg("%s", samba_error_message(g->context));
    assert_int_equal(result.numel, count);
    for (int64_t k = 0; k < count; k++)
        assert_float_equal(samba_load_double(result.dtype, (char *)result.data + (size_t)k * samba_dtype_size(result.dtype)),
                           expected[k], 1e-9);
    samba_arena_free(&arena);
}

static samba_graph *value_graph(samba_context *context, int rank, const int64_t *shape, samba_value *x)
{
    samba_graph *g;
    assert_int_equal(samba_graph_new(context, "values", &g), SAMBA_OK);
    *x = make_input(g, "x", SAMBA_FLOAT64, rank, shape);
    return g;
}

static void expect_result(samba_graph *g, samba_value value, const double *x, const int64_t *label, int64_t count,
                          const double *expected)
{
    samba_output(g, "result", value);
    if (samba_graph_status(g) != SAMBA_OK)
        fail_msg("%s", samba_error_message(g->context));
    evaluate(g, x, label, count, expected);
    samba_graph_free(g);
}

static void values(void **state)
{
    samba_context *context = ((fixture *)*state)->context;
    const double six[6] = {1, 2, 3, 4, 5, 6};
    samba_value x;
    samba_graph *g = value_graph(context, SHAPE(2, 3), &x);
    expect_result(g, samba_mean(x, DIMS(1), false), six, NULL, 2, (double[]){2, 5});
    g = value_graph(context, SHAPE(2, 3), &x);
    expect_result(g, samba_matmul(x, samba_cast(samba_arange(g, 3, SAMBA_INT32), SAMBA_FLOAT64)), six, NULL, 2,
                  (double[]){8, 17});
    g = value_graph(context, SHAPE(2, 3), &x);
    expect_result(g, samba_matmul(samba_cast(samba_arange(g, 2, SAMBA_INT32), SAMBA_FLOAT64), x), six, NULL, 3,
                  (double[]){4, 5, 6});
    g = value_graph(context, SHAPE(2, 3), &x);
    expect_result(g, samba_slice(x, -1, -1, -4, 1), six, NULL, 0, six);
    g = value_graph(context, SHAPE(2, 3), &x);
    expect_result(g, samba_slice(x, 1, -3, 100, 2), six, NULL, 4, (double[]){1, 3, 4, 6});
    g = value_graph(context, SHAPE(6), &x);
    samba_value parts[3];
    samba_split(x, 2, 0, 3, parts);
    expect_result(g, samba_concat(2, (samba_value[]){parts[2], parts[0]}, 0), six, NULL, 4, (double[]){5, 6, 1, 2});
    g = value_graph(context, SHAPE(2, 3), &x);
    expect_result(g, samba_pow_scalar(samba_add_scalar(x, 1), 2), six, NULL, 6, (double[]){4, 9, 16, 25, 36, 49});
}

/* -log softmax of one class */
static double nll(const double *logits, int64_t stride, int classes, int label)
{
    double sum = 0;
    for (int c = 0; c < classes; c++)
        sum += exp(logits[c * stride]);
    return log(sum) - logits[label * stride];
}

static void cross_entropy_shapes(void **state)
{
    samba_context *context = ((fixture *)*state)->context;
    double logits[24], expected[8], sum = 0;
    for (int i = 0; i < 24; i++)
        logits[i] = sin(i);
    const int64_t label[8] = {0, 2, 1, 1, 2, 0, -100, 1};
    for (int n = 0; n < 2; n++)
        for (int d = 0; d < 4; d++) { /* (2, 3, 2, 2): classes in dim 1 */
            int at = n * 4 + d;
            expected[at] = label[at] < 0 ? 0 : nll(logits + n * 12 + d, 4, 3, (int)label[at]);
            sum += expected[at];
        }
    samba_value x, t;
    samba_cross_entropy_options options = samba_cross_entropy_defaults();
    for (samba_reduction reduction = SAMBA_MEAN; reduction <= SAMBA_NO_REDUCTION; reduction++) {
        samba_graph *g = value_graph(context, SHAPE(2, 3, 2, 2), &x);
        t = make_input(g, "label", reduction == SAMBA_SUM ? SAMBA_INT16 : SAMBA_INT64, SHAPE(2, 2, 2));
        options.reduction = reduction;
        samba_value loss = samba_cross_entropy_with(x, t, &options);
        assert_int_equal(samba_value_rank(loss), reduction == SAMBA_NO_REDUCTION ? 3 : 0);
        double total = reduction == SAMBA_MEAN ? sum / 7 : sum;
        if (reduction == SAMBA_NO_REDUCTION)
            expect_result(g, loss, logits, label, 8, expected);
        else
            expect_result(g, loss, logits, label, 1, &total);
    }
    samba_graph *g = value_graph(context, SHAPE(3), &x); /* one sample without a batch */
    t = make_input(g, "label", SAMBA_INT64, 0, NULL);
    double one = nll(logits, 1, 3, 2);
    expect_result(g, samba_cross_entropy_with(x, t, &options), logits, label + 1, 1, &one);
    g = value_graph(context, SHAPE(8, 3), &x);
    t = make_input(g, "label", SAMBA_INT32, SHAPE(8));
    sum = 0;
    for (int n = 0; n < 8; n++)
        sum += label[n] < 0 ? 0 : nll(logits + 3 * n, 1, 3, (int)label[n]) / 7;
    expect_result(g, samba_cross_entropy(x, t), logits, label, 1, &sum);
}

/* ---- errors ---- */

static void wrong_call(samba_graph *g, samba_graph *other, int which)
{
    samba_value x = floats(g, SHAPE(2, 3)), ints = make_input(g, "ints", SAMBA_INT64, SHAPE(2)),
                yes = make_input(g, "yes", SAMBA_BOOL, SHAPE(2, 3));
    samba_value elsewhere = floats(other, SHAPE(2, 3)), nothing = {0}, scalar = floats(g, 0, NULL), parts[2];
    samba_cross_entropy_options options = samba_cross_entropy_defaults();
    options.label_smoothing = 2;
    /* clang-format off */
    switch (which) {
    case 0: samba_add(x, elsewhere); break;
    case 1: samba_add(nothing, x); break;
    case 2: samba_exp((samba_value){g, 999, 0}); break;
    case 3: samba_input(g, "float32(2, 2)"); break;
    case 4: samba_input(g, NULL); break;
    case 5: samba_linear(x, NULL, 3); break;
    case 6: samba_linear(ints, "fc", 3); break;
    case 7: samba_linear(scalar, "fc", 3); break;
    case 8: samba_conv2d(x, "conv", 3, (int64_t[]){3, 3}, NULL); break;
    case 9: samba_conv2d(floats(g, SHAPE(1, 3, 5, 5)), "conv", 3, NULL, NULL); break;
    case 10: samba_softmax(x, 2); break;
    case 11: samba_sum(x, DIMS(0, -2), false); break;
    case 12: samba_sum(x, 1, NULL, false); break;
    case 13: samba_mean(ints, 0, NULL, false); break;
    case 14: samba_sub(yes, x); break;
    case 15: samba_reshape(x, SHAPE(4, -1)); break;
    case 16: samba_reshape(x, SHAPE(-1, -1)); break;
    case 17: samba_reshape(x, 9, (int64_t[]){1, 1, 1, 1, 1, 1, 1, 2, 3}); break;
    case 18: samba_reshape(x, 2, NULL); break;
    case 19: samba_permute(x, (int[]){0, -2}); break;
    case 20: samba_permute(x, NULL); break;
    case 21: samba_transpose(x, 0, 2); break;
    case 22: samba_flatten(x, 1, 0); break;
    case 23: samba_expand(x, SHAPE(2, 4)); break;
    case 24: samba_expand(x, SHAPE(-1, 2, 3)); break;
    case 25: samba_slice(x, 0, 0, 1, 0); break;
    case 26: samba_slice(scalar, 0, 0, 1, 1); break;
    case 27: samba_concat(2000, &x, 0); break;
    case 28: samba_concat(2, (samba_value[]){x, floats(g, SHAPE(2, 4))}, 0); break;
    case 29: samba_split(x, 2, 1, 1, parts); break;
    case 30: samba_split(x, 0, 1, 2, parts); break;
    case 31: samba_matmul(x, scalar); break;
    case 32: samba_matmul(x, x); break;
    case 33: samba_matmul(x, make_input(g, "d", SAMBA_FLOAT64, SHAPE(3, 2))); break;
    case 34: samba_scope_pop(g); break;
    case 35: samba_scope_push(g, ""); break;
    case 36: samba_parameter(g, "float32(2, 3)", SAMBA_FLOAT32, SHAPE(2, 3), (samba_initializer){0}); break;
    case 37: samba_parameter(g, "w", SAMBA_INT64, SHAPE(2), (samba_initializer){0}); break;
    case 38: samba_parameter(g, "w", SAMBA_FLOAT32, SHAPE(-2), (samba_initializer){0}); break;
    case 39: samba_parameter(g, NULL, SAMBA_FLOAT32, 0, NULL, (samba_initializer){0}); break;
    case 40: samba_cross_entropy(x, yes); break;
    case 41: samba_cross_entropy(x, scalar); break;
    case 42: samba_cross_entropy_with(x, ints, &options); break;
    case 43: samba_output(g, "y", elsewhere); break;
    case 44: samba_loss(g, "y", ints); break;
    case 45: samba_output(g, NULL, x); break;
    case 46: samba_output(g, "y", nothing); break;
    case 47: samba_value_size(x, 5); break;
    case 48: samba_value_size(scalar, 0); break;
    case 49: samba_where(x, x, x); break;
    case 50: samba_max_pool2d(x, NULL, NULL); break;
    case 51: samba_embedding(x, "e", 5, 2); break;
    case 52: samba_cast(x, (samba_dtype)77); break;
    case 53: samba_constant(g, 0, (samba_dtype)-1, 0, NULL); break;
    case 54: samba_arange(g, -1, SAMBA_INT64); break;
    case 55: samba_layer_norm(scalar, "n"); break;
    case 56: samba_graph_add_input(g, NULL); break;
    case 57: samba_gelu(ints); break;
    case 58: samba_amax(floats(g, SHAPE(0, 2)), DIMS(0), false); break;
    default: fail();
    }
    /* clang-format on */
}

static const struct {
    samba_status status;
    const char *words;
} wrong_calls[] = {
    [0] = {SAMBA_ERROR_ARGUMENT, "add: operand 1 belongs to graph \"other\", another one to graph \"one\""},
    [1] = {SAMBA_ERROR_ARGUMENT, "add: operand 0 is a value of no graph"},
    [2] = {SAMBA_ERROR_ARGUMENT, "exp: operand 0 is no value of graph"},
    [3] = {SAMBA_ERROR_NAME, "did you mean \"float32(2, 3)\"; the inputs are: \"float32(2, 3)\", \"ints\""},
    [4] = {SAMBA_ERROR_ARGUMENT, "input: a name is needed"},
    [5] = {SAMBA_ERROR_NAME, "given NULL"},
    [6] = {SAMBA_ERROR_DTYPE, "linear at fc: expected a floating-point value, given int64"},
    [7] = {SAMBA_ERROR_SHAPE, "linear at fc: expected an input of rank 1 or more"},
    [8] = {SAMBA_ERROR_SHAPE, "conv2d at conv: expected an input (N, C, ...) or (C, ...) with 2 dims of space"},
    [9] = {SAMBA_ERROR_SHAPE, "a kernel NULL"},
    [10] = {SAMBA_ERROR_INDEX, "softmax: dim 2 is out of range for a value of rank 2: expected -2 to 1"},
    [11] = {SAMBA_ERROR_ARGUMENT, "sum: dim 0 appears more than once"},
    [12] = {SAMBA_ERROR_ARGUMENT, "sum: expected a list of dims, given NULL"},
    [13] = {SAMBA_ERROR_DTYPE, "mean: expected a floating-point value, given int64"},
    [14] = {SAMBA_ERROR_DTYPE, "sub: bool values cannot be subtracted"},
    [15] = {SAMBA_ERROR_SHAPE, "reshape: (2, 3) has 6 elements and cannot become (4, -1)"},
    [16] = {SAMBA_ERROR_SHAPE, "cannot become (-1, -1)"},
    [17] = {SAMBA_ERROR_ARGUMENT, "given 9 sizes"},
    [18] = {SAMBA_ERROR_ARGUMENT, "given NULL for 2 sizes"},
    [19] = {SAMBA_ERROR_ARGUMENT, "permute: dim 0 appears twice"},
    [20] = {SAMBA_ERROR_ARGUMENT, "given NULL"},
    [21] = {SAMBA_ERROR_INDEX, "transpose: dim 2 is out of range"},
    [22] = {SAMBA_ERROR_ARGUMENT, "flatten: start_dim 1 must not come after end_dim 0"},
    [23] = {SAMBA_ERROR_SHAPE, "expand: "},
    [24] = {SAMBA_ERROR_SHAPE, "expand: "},
    [25] = {SAMBA_ERROR_ARGUMENT, "slice: step must be 1 or more"},
    [26] = {SAMBA_ERROR_SHAPE, "slice: a value of rank 0 has no dims"},
    [27] = {SAMBA_ERROR_ARGUMENT, "concat: expected 1 to 1024 values, given 2000"},
    [28] = {SAMBA_ERROR_SHAPE, "concat: "},
    [29] = {SAMBA_ERROR_ARGUMENT, "split: dim 1 of size 3 in chunks of 2 makes 2 values; room for 1 was given"},
    [30] = {SAMBA_ERROR_ARGUMENT, "chunks must be 1 or larger"},
    [31] = {SAMBA_ERROR_SHAPE, "matmul: both operands need at least one dim"},
    [32] = {SAMBA_ERROR_SHAPE, "matmul: "},
    [33] = {SAMBA_ERROR_DTYPE, "matmul: "},
    [34] = {SAMBA_ERROR_STATE, "samba_scope_pop was called more often"},
    [35] = {SAMBA_ERROR_NAME, "scope: a name that is not empty is needed"},
    [36] = {SAMBA_ERROR_NAME, "the name \"float32(2, 3)\" is taken: input float32(2, 3) was made first"},
    [37] = {SAMBA_ERROR_DTYPE, "parameter: expected a floating-point dtype"},
    [38] = {SAMBA_ERROR_SHAPE, "parameter: "},
    [39] = {SAMBA_ERROR_NAME, "parameter: a name that is not empty"},
    [40] = {SAMBA_ERROR_SHAPE, "cross_entropy: expected logits (N, C)"},
    [41] = {SAMBA_ERROR_SHAPE, "given float32(2, 3) and float32()"},
    [42] = {SAMBA_ERROR_ARGUMENT, "label_smoothing must be from 0 to 1"},
    [43] = {SAMBA_ERROR_ARGUMENT, "output: the value of \"y\" belongs to another graph"},
    [44] = {SAMBA_ERROR_DTYPE, "loss: expected a floating-point value"},
    [45] = {SAMBA_ERROR_NAME, "output: a name"},
    [46] = {SAMBA_ERROR_ARGUMENT, "belongs to no graph"},
    [47] = {SAMBA_ERROR_INDEX, "size: dim 5 is out of range"},
    [48] = {SAMBA_ERROR_INDEX, "size: a value of rank 0 has no dims"},
    [49] = {SAMBA_ERROR_DTYPE, "where: "},
    [50] = {SAMBA_ERROR_ARGUMENT, "max_pool2d: a kernel of 2 sizes is needed"},
    [51] = {SAMBA_ERROR_DTYPE, "embedding at e: "},
    [52] = {SAMBA_ERROR_ARGUMENT, "is no dtype"},
    [53] = {SAMBA_ERROR_ARGUMENT, "constant: -1 is no dtype"},
    [54] = {SAMBA_ERROR_SHAPE, "iota: "},
    [55] = {SAMBA_ERROR_SHAPE, "layer_norm at n: "},
    [56] = {SAMBA_ERROR_ARGUMENT, "given NULL"},
    [57] = {SAMBA_ERROR_DTYPE, "gelu: "},
    [58] = {SAMBA_ERROR_SHAPE, "amax: "},
};

static void wrong_calls_stick(void **state)
{
    samba_context *context = ((fixture *)*state)->context;
    for (int which = 0; which < SAMBA_COUNT(wrong_calls); which++) {
        samba_graph *one, *other;
        assert_int_equal(samba_graph_new(context, "one", &one), SAMBA_OK);
        assert_int_equal(samba_graph_new(context, "other", &other), SAMBA_OK);
        wrong_call(one, other, which);
        expect_failure(one, wrong_calls[which].status, wrong_calls[which].words);
        if (which == 0)
            expect_failure(other, wrong_calls[0].status, wrong_calls[0].words);
        assert_int_equal(samba_value_size(floats(one, SHAPE(2)), 9), 0); /* wrong again, but later */
        assert_int_equal(samba_add(floats(one, SHAPE(2, 3)), floats(one, SHAPE(2))).index, SAMBA_NONE);
        expect_failure(one, wrong_calls[which].status, wrong_calls[which].words);
        samba_graph_free(one);
        samba_graph_free(other);
    }
}

static void nothing_takes_nothing(void **state)
{
    (void)state;
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

static void inputs_and_outputs(void **state)
{
    fixture *f = *state;
    samba_graph *g = f->graph;
    samba_value x = floats(g, SHAPE(2, 3));
    samba_scope_push(g, "head");
    samba_output(g, "y", x); /* named in the scope, like everything made there */
    samba_scope_pop(g);
    samba_loss(g, "y", samba_sum(x, 0, NULL, false));
    assert_int_equal(g->sink_count, 2);
    assert_string_equal(samba_graph_name_at(g, g->sinks[0].name), "head.y");
    assert_int_equal(g->sinks[1].kind, SAMBA_SINK_LOSS);
    assert_int_equal(g->sinks[1].phase, SAMBA_FWD);
    samba_tensor *example;
    assert_int_equal(samba_tensor_empty(f->context, "float32(2, 3)", SAMBA_FLOAT32, SHAPE(2, 3), &example), SAMBA_OK);
    assert_int_equal(samba_graph_add_input(g, example), SAMBA_ERROR_NAME); /* twice */
    samba_tensor_free(example);
    expect_failure(g, SAMBA_ERROR_NAME, "cannot be added");
}

/* ---- memory ---- */

static samba_status trace_a_model(samba_context *context, void *user)
{
    (void)user;
    samba_graph *g;
    SAMBA_TRY(samba_graph_new(context, "memory", &g));
    samba_value x = floats(g, SHAPE(4, 8)), label = make_input(g, "label", SAMBA_INT64, SHAPE(4));
    for (int i = 0; i < 3; i++) {
        char name[32];
        snprintf(name, sizeof name, "block%d", i);
        samba_scope_push(g, name);
        x = samba_add(x, samba_dropout(samba_gelu(samba_linear(samba_layer_norm(x, "norm"), "fc", 8)), "drop", 0.1));
        samba_scope_pop(g);
    }
    samba_loss(g, "loss", samba_cross_entropy(x, label));
    samba_output(g, "mean", samba_mean(x, DIMS(1), false));
    samba_status status = samba_graph_status(g);
    samba_graph_free(g);
    return status;
}

static void refused_allocations(void **state)
{
    (void)state;
    fail_each_allocation(trace_a_model, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(layers_make_parameters_as_pytorch, setup, teardown),
        cmocka_unit_test_setup_teardown(a_second_call_shares, setup, teardown),
        cmocka_unit_test_setup_teardown(dropout_has_its_own_rate_and_seed, setup, teardown),
        cmocka_unit_test_setup_teardown(promotion, setup, teardown),
        cmocka_unit_test_setup_teardown(shapes, setup, teardown),
        cmocka_unit_test_setup_teardown(matmul_shapes, setup, teardown),
        cmocka_unit_test_setup_teardown(values, setup, teardown),
        cmocka_unit_test_setup_teardown(cross_entropy_shapes, setup, teardown),
        cmocka_unit_test_setup_teardown(wrong_calls_stick, setup, teardown),
        cmocka_unit_test(nothing_takes_nothing),
        cmocka_unit_test_setup_teardown(inputs_and_outputs, setup, teardown),
        cmocka_unit_test(refused_allocations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
