/* SPDX-License-Identifier: Apache-2.0
 *
 * matmul, embedding, the activations, softmax, layer_norm, dropout and cross_entropy: PyTorch's values and gradients,
 * differences, 16-bit results, sharing between forward and backward, and what inference and the reference kernels refuse. */
#include "../seed.h"
#include "torch_check.h"
#include "torch_values_nn.h"
#include "failing_allocator.h"

#include <sambaflow/functional.h>
#include <sambaflow/layers.h>

static void nn_as_torch(void **state)
{
    (void)state;
    for (int i = 0; i < SAMBA_COUNT(torch_nn_cases); i++)
        torch_check(&torch_nn_cases[i], torch_nn_numbers);
}

#define RANDOM(...) drawn(SHAPE(__VA_ARGS__), -1, 1)

static samba_attrs none(void)
{
    samba_attrs attrs;
    memset(&attrs, 0, sizeof attrs);
    return attrs;
}

static samba_attrs axis(int64_t dim)
{
    samba_attrs attrs = none();
    attrs.axis.dim = dim;
    return attrs;
}

static samba_attrs norm(int64_t dims, double eps)
{
    samba_attrs attrs = none();
    attrs.norm.dims = dims;
    attrs.norm.eps = eps;
    return attrs;
}

static samba_attrs cross_entropy(int64_t ignore_index, double label_smoothing, int64_t reduction)
{
    samba_attrs attrs = none();
    attrs.cross_entropy = (samba_attrs_cross_entropy){ignore_index, label_smoothing, reduction, 0};
    return attrs;
}

static int64_t pick(uint64_t *state, int64_t low, int64_t high)
{
    return low + (int64_t)random_between(state, 0, (double)(high - low + 1));
}

static void random_values(void **state)
{
    (void)state;
    uint64_t seed = random_seed(), random = seed;
    print_message("seed %llu\n", (unsigned long long)seed);
    for (int round = 0; round < 10; round++) {
        int64_t a = pick(&random, 1, 3), b = pick(&random, 1, 4), c = pick(&random, 1, 4);
        samba_attrs attrs = none();
        operand product[2] = {RANDOM(a, b, c), RANDOM(pick(&random, 0, 1) ? 1 : a, c, 2)};
        gradient_check(SAMBA_OP_matmul, &attrs, 2, product, seed + (uint64_t)round);
        operand x = RANDOM(a, b, c);
        attrs = axis(pick(&random, 0, 2));
        gradient_check(SAMBA_OP_softmax, &attrs, 1, &x, seed + (uint64_t)round);
        gradient_check(SAMBA_OP_log_softmax, &attrs, 1, &x, seed + (uint64_t)round);
        operand normal[3] = {RANDOM(a, b, c), RANDOM(b, c), RANDOM(b, c)};
        attrs = norm(2, 0.01);
        gradient_check(SAMBA_OP_layer_norm, &attrs, 3, normal, seed + (uint64_t)round);
        double labels[4];
        for (int i = 0; i < 4; i++)
            labels[i] = (double)pick(&random, 0, c - 1);
        operand loss[2] = {RANDOM(4, c), given(SAMBA_INT64, SHAPE(4), labels)};
        attrs = cross_entropy((int64_t)labels[0] == (int64_t)labels[3] ? -100 : (int64_t)labels[0], random_between(&random, 0, 1),
                              round % 3);
        gradient_check(SAMBA_OP_cross_entropy, &attrs, 2, loss, seed + (uint64_t)round);
    }
}

static void integer_products(void **state)
{
    (void)state;
    samba_attrs attrs = none();
    operand inputs[2] = {RANDOM(1, 2), RANDOM(2, 2)};
    inputs[0].dtype = inputs[1].dtype = SAMBA_INT64;
    inputs[0].values = VALUES(3, 0x1p62);
    inputs[1].values = VALUES(5, 1, 0, 4);
    samba_array shape;
    double y[2];
    op_value(SAMBA_OP_matmul, &attrs, 2, inputs, &shape, y, 2);
    assert_int_equal(shape.dtype, SAMBA_INT64);
    assert_true(y[0] == 15 && y[1] == 3); /* 2^64 wraps */
    operand empty[2] = {RANDOM(2, 0), RANDOM(0, 1)};
    op_value(SAMBA_OP_matmul, &attrs, 2, empty, &shape, y, 2);
    assert_true(y[0] == 0 && y[1] == 0);
}

/* ---- 16-bit floats: the expansion is the reference but for the last place, and a gradient has its input's dtype ---- */

static void in_16_bits(samba_op op, samba_attrs attrs, int count, const operand *operands, samba_dtype dtype)
{
    operand narrow[OPERANDS_MAX];
    op_bench bench;
    uint64_t random = 7;
    for (int i = 0; i < count; i++) {
        narrow[i] = operands[i];
        if (i == 0 || op == SAMBA_OP_layer_norm)
            narrow[i].dtype = dtype;
    }
    op_bench_begin(&bench, op, &attrs, count, narrow, &random);
    samba_graph *graph = bench.graph;
    samba_node node = *samba_node_at(graph, bench.result);
    op_bench_leaf(&bench, count, dtype, node.rank, node.shape);
    gradient_sink(&bench, "value", SAMBA_FWD, bench.result);
    gradient_sink(&bench, "expanded", SAMBA_FWD, samba_ops[op].expand(graph, samba_node_at(graph, bench.result), bench.leaves));
    graph->phase = SAMBA_BCKWD;
    bool needed[OPERANDS_MAX];
    samba_ref gradients[OPERANDS_MAX];
    for (int i = 0; i < count; i++)
        needed[i] = narrow[i].dtype == dtype;
    gradient_emit(&bench, op, needed, gradients);
    for (int i = 0; i < count; i++)
        if (needed[i])
            assert_int_equal(samba_node_at(graph, gradients[i])->dtype, dtype);
    samba_arena arena;
    samba_array sinks[2];
    gradient_evaluate(&bench, &arena, sinks);
    assert_int_equal(sinks[1].dtype, dtype);
    double place = dtype == SAMBA_BFLOAT16 ? 0x1p-7 : 0x1p-10;
    for (int64_t i = 0; i < sinks[0].numel; i++) {
        double kernel = array_get(&sinks[0], i), expanded = array_get(&sinks[1], i);
        if (!(fabs(kernel - expanded) <= place * fmax(fabs(kernel), 1e-4)))
            fail_msg("%s of %s: element %lld is %.9g by the kernel, %.9g by the expansion", samba_ops[op].name,
                     samba_dtype_name(dtype), (long long)i, kernel, expanded);
    }
    samba_arena_free(&arena);
    op_bench_end(&bench);
}

static const double p_third = 1.0 / 3, seed_five = 5;

static void sixteen_bits(void **state)
{
    (void)state;
    operand norms[3] = {RANDOM(3, 8), RANDOM(8), RANDOM(8)};
    operand loss[2] = {RANDOM(4, 9), given(SAMBA_INT32, SHAPE(4), VALUES(0, 8, 3, -100))};
    operand drop[3] = {RANDOM(5, 6), given(SAMBA_FLOAT64, SCALAR, &p_third), given(SAMBA_INT64, SCALAR, &seed_five)};
    for (int i = 0; i < 2; i++) {
        samba_dtype dtype = i == 0 ? SAMBA_BFLOAT16 : SAMBA_FLOAT16;
        in_16_bits(SAMBA_OP_softmax, axis(1), 1, norms, dtype);
        in_16_bits(SAMBA_OP_log_softmax, axis(0), 1, norms, dtype);
        in_16_bits(SAMBA_OP_layer_norm, norm(1, 1e-5), 3, norms, dtype);
        in_16_bits(SAMBA_OP_cross_entropy, cross_entropy(-100, 0.1, SAMBA_MEAN), 2, loss, dtype);
        in_16_bits(SAMBA_OP_dropout, none(), 3, drop, dtype);
    }
}

/* ---- dropout ---- */

static void dropout_drops(void **state)
{
    (void)state;
    const double seed = -3, edge = samba_philox_uniform((uint64_t)-3, 0); /* with this rate, element 0 is just kept */
    const double rates[] = {0, 0.25, edge, 0.9, 1};
    samba_attrs attrs = none();
    double ones[400], y[400];
    for (int i = 0; i < 400; i++)
        ones[i] = 2;
    for (int r = 0; r < SAMBA_COUNT(rates); r++) {
        operand inputs[3] = {given(SAMBA_FLOAT64, SHAPE(400), ones), given(SAMBA_FLOAT64, SCALAR, &rates[r]),
                             given(SAMBA_INT64, SCALAR, &seed)};
        inputs[1].constant = true;
        samba_array shape;
        op_value(SAMBA_OP_dropout, &attrs, 3, inputs, &shape, y, 400);
        int kept = 0;
        for (int i = 0; i < 400; i++) {
            bool keep = samba_philox_uniform((uint64_t)-3, (uint64_t)i) >= (float)rates[r];
            assert_true(y[i] == (keep ? 2 / (1 - rates[r]) : 0));
            kept += keep;
        }
        assert_true(fabs(kept / 400.0 - (1 - rates[r])) < 0.08);
        inputs[0].shape[0] = 20;
        gradient_check(SAMBA_OP_dropout, &attrs, 3, inputs, 1);
    }
}

/* ---- forward and backward share what they both need ---- */

static int count_of(const samba_graph *graph, samba_op op)
{
    int count = 0;
    for (int64_t i = 0; i < graph->node_count; i++)
        count += graph->nodes[i].op == op;
    return count;
}

static void shares(samba_op op, samba_attrs attrs, int count, const operand *operands, samba_op shared)
{
    op_bench bench;
    uint64_t random = 1;
    op_bench_begin(&bench, op, &attrs, count, operands, &random);
    samba_node node = *samba_node_at(bench.graph, bench.result);
    op_bench_leaf(&bench, count, SAMBA_FLOAT64, node.rank, node.shape);
    assert_int_not_equal(samba_ops[op].expand(bench.graph, samba_node_at(bench.graph, bench.result), bench.leaves), SAMBA_NONE);
    bench.graph->phase = SAMBA_BCKWD;
    samba_ref gradients[OPERANDS_MAX];
    gradient_emit(&bench, op, (bool[]){true, false, false}, gradients);
    assert_int_equal(count_of(bench.graph, shared), 1);
    op_bench_end(&bench);
}

static void forward_and_backward_share(void **state)
{
    (void)state;
    operand norms[3] = {RANDOM(3, 8), RANDOM(8), RANDOM(8)};
    operand loss[2] = {RANDOM(2, 9), given(SAMBA_INT64, SHAPE(2), VALUES(0, 8))};
    shares(SAMBA_OP_layer_norm, norm(1, 1e-5), 3, norms, SAMBA_OP_rsqrt);
    shares(SAMBA_OP_cross_entropy, cross_entropy(-100, 0.5, SAMBA_MEAN), 2, loss, SAMBA_OP_exp);
    shares(SAMBA_OP_cross_entropy, cross_entropy(-100, 0.5, SAMBA_MEAN), 2, loss, SAMBA_OP_eq);
}

/* ---- values that only running can refuse ---- */

static void expect_evaluation_error(samba_op op, samba_attrs attrs, int count, const operand *operands, const char *says)
{
    op_bench bench;
    uint64_t random = 1;
    op_bench_begin(&bench, op, &attrs, count, operands, &random);
    assert_int_equal(samba_graph_status(bench.graph), SAMBA_OK);
    gradient_sink(&bench, "y", SAMBA_FWD, bench.result);
    samba_arena arena;
    samba_arena_init(&arena, bench.context);
    samba_array sink;
    assert_int_equal(samba_graph_evaluate(bench.graph, count, bench.name_pointers, bench.arrays, &arena, &sink),
                     SAMBA_ERROR_ARGUMENT);
    const char *message = samba_error_message(bench.context);
    if (!strstr(message, says))
        fail_msg("\"%s\" does not say \"%s\"", message, says);
    samba_arena_free(&arena);
    op_bench_end(&bench);
}

static void indices_out_of_range(void **state)
{
    (void)state;
    samba_attrs attrs = none(), behind = none();
    behind.gather.negative = 1;
    operand weight = RANDOM(5, 3), logits = RANDOM(2, 5);
    operand high = given(SAMBA_INT64, SHAPE(2), VALUES(4, 5)), low = given(SAMBA_INT32, SHAPE(2), VALUES(-1, 0));
    expect_evaluation_error(SAMBA_OP_embedding, attrs, 2, (operand[]){weight, high}, "index 5 at position 1");
    expect_evaluation_error(SAMBA_OP_embedding, attrs, 2, (operand[]){weight, low},
                            "index -1 at position 0 is out of range: expected 0 to 4");
    operand line = RANDOM(5), two = RANDOM(2), far = given(SAMBA_INT64, SHAPE(2), VALUES(-5, -6));
    expect_evaluation_error(SAMBA_OP_gather, attrs, 2, (operand[]){line, high}, "gather: index 5 at position 1");
    expect_evaluation_error(SAMBA_OP_scatter, attrs, 3, (operand[]){line, low, two},
                            "scatter: index -1 at position 0 is out of range: expected 0 to 4");
    expect_evaluation_error(SAMBA_OP_gather, behind, 2, (operand[]){line, far},
                            "gather: index -6 at position 1 is out of range: expected -5 to 4");
    expect_evaluation_error(SAMBA_OP_cross_entropy, cross_entropy(-100, 0, 0), 2, (operand[]){logits, high},
                            "label 5 of row 1 is out of range: expected 0 to 4, for 5 classes");
    expect_evaluation_error(SAMBA_OP_cross_entropy, cross_entropy(5, 0, 0), 2, (operand[]){logits, low}, "label -1 of row 0");
}

/* Compiled code cannot refuse a label; it says so by an infinite loss. */
static void expanded_label_out_of_range(void **state)
{
    (void)state;
    op_bench bench;
    uint64_t random = 1;
    samba_attrs attrs = cross_entropy(-100, 0, SAMBA_NO_REDUCTION);
    operand inputs[2] = {RANDOM(2, 3), given(SAMBA_INT64, SHAPE(2), VALUES(3, 2))};
    op_bench_begin(&bench, SAMBA_OP_cross_entropy, &attrs, 2, inputs, &random);
    samba_ref loss =
        samba_ops[SAMBA_OP_cross_entropy].expand(bench.graph, samba_node_at(bench.graph, bench.result), bench.leaves);
    gradient_sink(&bench, "loss", SAMBA_FWD, loss);
    samba_arena arena;
    samba_arena_init(&arena, bench.context);
    samba_array sink;
    assert_int_equal(samba_graph_evaluate(bench.graph, 2, bench.name_pointers, bench.arrays, &arena, &sink), SAMBA_OK);
    assert_true(array_get(&sink, 0) == INFINITY);
    assert_true(isfinite(array_get(&sink, 1)));
    samba_arena_free(&arena);
    op_bench_end(&bench);
}

/* ---- what inference refuses ---- */

typedef struct refusal {
    samba_op op;
    samba_attrs attrs;
    int count;
    operand inputs[3];
    samba_status status;
    const char *says;
} refusal;

static void what_is_refused(void **state)
{
    (void)state;
    operand m23 = RANDOM(2, 3), v3 = RANDOM(3), v2 = RANDOM(2), scalar = drawn(SCALAR, -1, 1), single = m23, whole = m23,
            flag = m23;
    operand labels = given(SAMBA_INT64, SHAPE(2), VALUES(0, 1)), bytes = labels, zero = given(SAMBA_INT64, SCALAR, &seed_five);
    operand deep = {.dtype = SAMBA_INT64, .rank = 8, .shape = {1, 1, 1, 1, 1, 1, 1, 1}};
    single.dtype = SAMBA_FLOAT32;
    whole.dtype = SAMBA_INT64;
    flag.dtype = SAMBA_BOOL;
    bytes.dtype = SAMBA_UINT8;
    samba_attrs wrong_dim = none(), wrong_reduce = none();
    wrong_dim.gather.dim = 1;
    wrong_reduce.scatter.reduce = 5;
    const samba_op matmul = SAMBA_OP_matmul, loss = SAMBA_OP_cross_entropy, layer_norm = SAMBA_OP_layer_norm;
    const refusal refusals[] = {
        {matmul, none(), 2, {m23, single}, SAMBA_ERROR_DTYPE, "float32"},
        {matmul, none(), 2, {flag, flag}, SAMBA_ERROR_DTYPE, "bool"},
        {matmul, none(), 2, {m23, v3}, SAMBA_ERROR_SHAPE, "given (2, 3) and (3)"},
        {matmul, none(), 2, {m23, m23}, SAMBA_ERROR_SHAPE, "the columns of the first, 3"},
        {matmul, none(), 2, {RANDOM(2, 2, 3), RANDOM(3, 3, 2)}, SAMBA_ERROR_SHAPE, "batch dims"},
        {SAMBA_OP_embedding, none(), 2, {m23, bytes}, SAMBA_ERROR_DTYPE, "uint8"},
        {SAMBA_OP_embedding, none(), 2, {v3, labels}, SAMBA_ERROR_SHAPE, "given shape (3)"},
        {SAMBA_OP_embedding, none(), 2, {m23, deep}, SAMBA_ERROR_SHAPE, "given rank 9"},
        {SAMBA_OP_gather, none(), 2, {m23, bytes}, SAMBA_ERROR_DTYPE, "uint8"},
        {SAMBA_OP_gather, none(), 2, {m23, labels}, SAMBA_ERROR_SHAPE, "an input (2, 3) and an index (2)"},
        {SAMBA_OP_gather, wrong_dim, 2, {v3, labels}, SAMBA_ERROR_ARGUMENT, "no dim 1"},
        {SAMBA_OP_scatter, none(), 3, {v3, bytes, v3}, SAMBA_ERROR_DTYPE, "uint8"},
        {SAMBA_OP_scatter, none(), 3, {v3, labels, labels}, SAMBA_ERROR_DTYPE, "int64"},
        {SAMBA_OP_scatter, none(), 3, {v3, labels, v3}, SAMBA_ERROR_SHAPE, "index's shape (2), given (3)"},
        {SAMBA_OP_scatter, wrong_reduce, 3, {v3, labels, v2}, SAMBA_ERROR_ARGUMENT, "no reduction 5"},
        {SAMBA_OP_scatter, wrong_dim, 3, {v3, labels, v2}, SAMBA_ERROR_ARGUMENT, "no dim 1"},
        {SAMBA_OP_softmax, axis(2), 1, {m23}, SAMBA_ERROR_ARGUMENT, "from 0 to 1 for shape (2, 3), given 2"},
        {SAMBA_OP_softmax, axis(-1), 1, {m23}, SAMBA_ERROR_ARGUMENT, "given -1"},
        {SAMBA_OP_log_softmax, axis(0), 1, {whole}, SAMBA_ERROR_DTYPE, "int64"},
        {layer_norm, norm(3, 0), 3, {m23, v3, v3}, SAMBA_ERROR_ARGUMENT, "1 to 2 dims"},
        {layer_norm, norm(1, NAN), 3, {m23, v3, v3}, SAMBA_ERROR_ARGUMENT, "eps"},
        {layer_norm,
         norm(1, 0),
         3,
         {m23, v3, m23},
         SAMBA_ERROR_SHAPE,
         "the bias must have the shape of the input's normalized dims, (3), given (2, 3)"},
        {layer_norm, norm(2, 0), 3, {m23, v3, m23}, SAMBA_ERROR_SHAPE, "the weight"},
        {layer_norm, norm(2, 0), 3, {m23, single, m23}, SAMBA_ERROR_DTYPE, "float32"},
        {SAMBA_OP_dropout, none(), 3, {m23, v3, zero}, SAMBA_ERROR_SHAPE, "given shape (3)"},
        {SAMBA_OP_dropout, none(), 3, {m23, zero, zero}, SAMBA_ERROR_DTYPE, "must be float64"},
        {SAMBA_OP_dropout, none(), 3, {m23, scalar, scalar}, SAMBA_ERROR_DTYPE, "must be int64"},
        {SAMBA_OP_dropout, none(), 3, {whole, scalar, zero}, SAMBA_ERROR_DTYPE, "floating-point"},
        {loss, cross_entropy(0, 0, 0), 2, {m23, bytes}, SAMBA_ERROR_DTYPE, "uint8"},
        {loss, cross_entropy(0, 0, 0), 2, {whole, labels}, SAMBA_ERROR_DTYPE, "int64"},
        {loss, cross_entropy(0, 0, 0), 2, {RANDOM(3, 3), labels}, SAMBA_ERROR_SHAPE, "given (3, 3) and (2)"},
        {loss, cross_entropy(0, 0, 0), 2, {RANDOM(2, 0), labels}, SAMBA_ERROR_SHAPE, "at least one class"},
        {loss, cross_entropy(0, 1.5, 0), 2, {m23, labels}, SAMBA_ERROR_ARGUMENT, "given 1.5"},
        {loss, cross_entropy(0, 0, 3), 2, {m23, labels}, SAMBA_ERROR_ARGUMENT, "given 3"},
        {loss, cross_entropy(INT64_MIN, 0, 0), 2, {m23, labels}, SAMBA_ERROR_ARGUMENT, "ignore_index"},
    };
    for (int i = 0; i < SAMBA_COUNT(refusals); i++) {
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

/* ---- flops and memory ---- */

static void flops(void **state)
{
    (void)state;
    samba_node a = {.rank = 2, .shape = {3, 4}}, b = {.rank = 3, .shape = {5, 4, 2}}, c = {.rank = 3, .shape = {5, 3, 2}};
    assert_int_equal(samba_ops[SAMBA_OP_matmul].flops(&c, (const samba_node *[]){&a, &b}), 2 * 5 * 3 * 4 * 2);
    a.shape[0] = a.shape[1] = c.shape[0] = INT64_C(1) << 40;
    assert_true(samba_ops[SAMBA_OP_matmul].flops(&c, (const samba_node *[]){&a, &b}) > INT64_C(1) << 62);
    samba_node logits = {.rank = 2, .shape = {3, 7}}, loss = {.rank = 0};
    assert_int_equal(samba_ops[SAMBA_OP_cross_entropy].flops(&loss, (const samba_node *[]){&logits, &logits}), 4 * 21);
}

/* Emits a composite, its expansion and its gradients, and evaluates them. */
static samba_status train_composite(samba_context *context, void *user)
{
    const torch_case *c = user;
    samba_graph *graph;
    SAMBA_TRY(samba_graph_new(context, "g", &graph));
    samba_ref leaves[OPERANDS_MAX], gradients[OPERANDS_MAX];
    bool needed[OPERANDS_MAX];
    double zeros[TORCH_NUMEL_MAX] = {0};
    const char *names[] = {"a", "b", "c", "d"};
    samba_array arrays[OPERANDS_MAX];
    for (int i = 0; i < c->input_count; i++) {
        samba_attrs attrs = none();
        attrs.leaf = (samba_attrs_leaf){samba_graph_intern(graph, names[i]), c->inputs[i].dtype, c->inputs[i].shape, 0};
        leaves[i] = samba_emit(graph, SAMBA_OP_input, 0, NULL, &attrs);
        arrays[i] = (samba_array){c->inputs[i].dtype, (int)c->inputs[i].shape.count, {0}, 0, zeros};
        memcpy(arrays[i].shape, c->inputs[i].shape.at, sizeof arrays[i].shape);
        samba_shape_numel(arrays[i].rank, arrays[i].shape, &arrays[i].numel);
        gradients[i] = SAMBA_NONE;
        needed[i] = c->inputs[i].dtype == SAMBA_FLOAT64;
    }
    graph->phase = SAMBA_FWD;
    samba_ref result = samba_emit(graph, c->op, c->input_count, leaves, &c->attrs);
    samba_ref value = result;
    if (result != SAMBA_NONE && samba_ops[c->op].expand)
        value = samba_ops[c->op].expand(graph, samba_node_at(graph, result), leaves);
    samba_vjp vjp = {graph, NULL, leaves, result, result, needed, gradients};
    if (samba_graph_status(graph) == SAMBA_OK) {
        vjp.node = samba_node_at(graph, result);
        graph->phase = SAMBA_BCKWD;
        (void)samba_ops[c->op].vjp(&vjp);
        samba_graph_sink(graph, (samba_sink){SAMBA_SINK_OUTPUT, SAMBA_FWD, samba_graph_intern(graph, "y"), SAMBA_NONE, value});
        samba_graph_sink(graph,
                         (samba_sink){SAMBA_SINK_OUTPUT, SAMBA_BCKWD, samba_graph_intern(graph, "da"), SAMBA_NONE, gradients[0]});
    }
    samba_status status = samba_graph_status(graph);
    samba_arena arena;
    samba_array sinks[2];
    samba_arena_init(&arena, context);
    if (status == SAMBA_OK)
        status = samba_graph_evaluate(graph, c->input_count, names, arrays, &arena, sinks);
    samba_arena_free(&arena);
    samba_graph_free(graph);
    return status;
}

static void no_memory(void **state)
{
    (void)state;
    samba_op last = SAMBA_OP_COUNT; /* the first case of each operator */
    for (int i = 0; i < SAMBA_COUNT(torch_nn_cases); i++) {
        torch_case c = torch_nn_cases[i];
        if (c.op != last)
            fail_each_allocation(train_composite, &c);
        last = c.op;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nn_as_torch),
        cmocka_unit_test(random_values),
        cmocka_unit_test(integer_products),
        cmocka_unit_test(sixteen_bits),
        cmocka_unit_test(dropout_drops),
        cmocka_unit_test(forward_and_backward_share),
        cmocka_unit_test(indices_out_of_range),
        cmocka_unit_test(expanded_label_out_of_range),
        cmocka_unit_test(what_is_refused),
        cmocka_unit_test(flops),
        cmocka_unit_test(no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
