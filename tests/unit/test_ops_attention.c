/* SPDX-License-Identifier: Apache-2.0
 *
 * What attention means: PyTorch's values and gradients, differences, dropout as the composition of matmul, softmax, dropout and
 * matmul has it, rows that see nothing, the public function's shapes, and what inference, gradient and tracing refuse. */
#include "torch_check.h"
#include "torch_values_attention.h"
#include "failing_allocator.h"

#include <sambaflow/functional.h>
#include <sambaflow/layers.h>

static void as_torch(void **state)
{
    (void)state;
    for (int i = 0; i < SAMBA_COUNT(torch_attention_cases); i++)
        torch_check(&torch_attention_cases[i], torch_attention_numbers);
}

#define RANDOM(...) drawn(SHAPE(__VA_ARGS__), -1, 1)

static samba_attrs attention(bool causal, bool masked, bool dropout, double scale)
{
    samba_attrs attrs;
    memset(&attrs, 0, sizeof attrs);
    attrs.attention = (samba_attrs_attention){causal, masked, dropout, scale, 0};
    return attrs;
}

static operand constant(operand of)
{
    of.constant = true;
    return of;
}

/* ---- gradients against differences ---- */

static void gradients(void **state)
{
    (void)state;
    operand rate = constant(given(SAMBA_FLOAT64, SCALAR, VALUES(0.3))), seed = given(SAMBA_INT64, SCALAR, VALUES(77));
    /* the second of the batch sees nothing */
    operand row_mask = given(SAMBA_BOOL, SHAPE(2, 1, 1, 4), VALUES(1, 0, 1, 1, 0, 0, 0, 0));
    const struct {
        samba_attrs attrs;
        int count;
        operand inputs[6];
    } cases[] = {
        {attention(true, false, true, 0.7), 5, {RANDOM(1, 2, 4, 3), RANDOM(1, 2, 4, 3), RANDOM(1, 2, 4, 3), rate, seed}},
        {attention(false, true, false, 0.5), 4, {RANDOM(1, 2, 3, 2), RANDOM(1, 1, 4, 2), RANDOM(1, 1, 4, 5), RANDOM(3, 4)}},
        {attention(true, true, true, 1.2),
         6,
         {RANDOM(2, 2, 4, 3), RANDOM(2, 1, 4, 3), RANDOM(2, 1, 4, 3), RANDOM(2, 1, 1, 4), rate, seed}},
        {attention(false, true, false, 1), 4, {RANDOM(2, 1, 3, 2), RANDOM(2, 1, 4, 2), RANDOM(2, 1, 4, 2), row_mask}},
    };
    for (int i = 0; i < SAMBA_COUNT(cases); i++)
        for (uint64_t random = 1; random <= 3; random++)
            gradient_check(SAMBA_OP_attention, &cases[i].attrs, cases[i].count, cases[i].inputs, random);
}

/* ---- what it is composed of ---- */

static samba_ref composed(samba_graph *g, const samba_ref *in, double scale) /* with dropout in[3], in[4] */
{
    samba_attrs softmax;
    memset(&softmax, 0, sizeof softmax);
    softmax.axis.dim = 3;
    samba_ref scores = samba_emit2(g, SAMBA_OP_matmul, in[0], samba_emit_transpose(g, in[1], 2, 3));
    scores = samba_emit_scalar(g, SAMBA_OP_mul, scores, scale);
    samba_ref weights = samba_emit(g, SAMBA_OP_softmax, 1, &scores, &softmax);
    return samba_emit2(g, SAMBA_OP_matmul, samba_emit3(g, SAMBA_OP_dropout, weights, in[3], in[4]), in[2]);
}

static void dropout_as_composed(void **state)
{
    (void)state;
    operand inputs[] = {RANDOM(2, 3, 4, 5), RANDOM(2, 3, 6, 5), RANDOM(2, 3, 6, 2), given(SAMBA_FLOAT64, SCALAR, VALUES(0.4)),
                        given(SAMBA_INT64, SCALAR, VALUES(-5))};
    samba_attrs attrs = attention(false, false, true, 0.3);
    op_bench bench;
    uint64_t random = 9;
    op_bench_begin(&bench, SAMBA_OP_attention, &attrs, SAMBA_COUNT(inputs), inputs, &random);
    gradient_sink(&bench, "a", SAMBA_FWD, samba_emit_permute(bench.graph, bench.result, (int64_t[]){0, 2, 1, 3}));
    gradient_sink(&bench, "b", SAMBA_FWD, composed(bench.graph, bench.leaves, 0.3));
    samba_arena arena;
    samba_array sinks[2];
    samba_arena_init(&arena, bench.context);
    if (samba_graph_evaluate(bench.graph, bench.count, bench.name_pointers, bench.arrays, &arena, sinks) != SAMBA_OK)
        fail_msg("%s", samba_error_message(bench.context));
    for (int64_t i = 0; i < sinks[0].numel; i++)
        assert_true(fabs(array_get(&sinks[0], i) - array_get(&sinks[1], i)) <= 1e-14);
    samba_arena_free(&arena);
    op_bench_end(&bench);
}

static void log_sum_exp(void **state)
{
    (void)state;
    const double zeros[4] = {0};
    operand q = given(SAMBA_FLOAT32, SHAPE(1, 1, 2, 1), VALUES(1, 2)),
            k = given(SAMBA_FLOAT32, SHAPE(1, 1, 3, 1), VALUES(0, 1, 1));
    operand v = given(SAMBA_FLOAT32, SHAPE(1, 1, 3, 1), zeros), mask = given(SAMBA_BOOL, SHAPE(2, 3), VALUES(0, 1, 1, 0, 0, 0));
    samba_attrs plain = attention(false, false, false, 1), masked = attention(false, true, false, 1);
    op_expect(SAMBA_OP_attention_lse, &plain, 3, (operand[]){q, k, v},
              given(SAMBA_FLOAT32, SHAPE(1, 1, 2), VALUES((float)log(1 + 2 * exp(1)), (float)log(1 + 2 * exp(2)))), 0);
    op_expect(SAMBA_OP_attention_lse, &masked, 4, (operand[]){q, k, v, mask},
              given(SAMBA_FLOAT32, SHAPE(1, 1, 2), VALUES((float)log(2 * exp(1)), -INFINITY)), 0);
    q.dtype = k.dtype = v.dtype = SAMBA_BFLOAT16; /* the sums stay in float32 */
    op_expect(SAMBA_OP_attention_lse, &plain, 3, (operand[]){q, k, v},
              given(SAMBA_FLOAT32, SHAPE(1, 1, 2), VALUES((float)log(1 + 2 * exp(1)), (float)log(1 + 2 * exp(2)))), 0);
}

static void flops(void **state)
{
    (void)state;
    samba_attrs attrs = attention(true, false, false, 1);
    samba_node q = {.rank = 4, .shape = {2, 3, 5, 4}}, k = {.rank = 4, .shape = {2, 3, 4, 4}},
               v = {.rank = 4, .shape = {2, 3, 4, 7}};
    samba_node node = {.attrs = &attrs};
    const samba_node *inputs[] = {&q, &k, &v};
    assert_int_equal(samba_ops[SAMBA_OP_attention].flops(&node, inputs), 2 * 6 * (1 + 2 + 3 + 4 + 4) * (4 + 7));
    assert_int_equal(samba_ops[SAMBA_OP_attention_lse].flops(&node, inputs), 2 * 6 * (1 + 2 + 3 + 4 + 4) * 4);
    attrs = attention(false, false, false, 1);
    assert_int_equal(samba_ops[SAMBA_OP_attention_grad].flops(&node, inputs), 2 * 6 * 5 * 4 * (3 * 4 + 2 * 7));
    q.shape[2] = k.shape[2] = v.shape[2] = INT64_C(1) << 31;
    assert_true(samba_ops[SAMBA_OP_attention].flops(&node, inputs) > INT64_C(1) << 62);
}

/* ---- the public function ---- */

typedef struct fixture {
    samba_context *context;
    samba_graph *graph;
} fixture;

static int setup(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    assert_int_equal(samba_context_new(NULL, &f->context), SAMBA_OK);
    assert_int_equal(samba_graph_new(f->context, "model", &f->graph), SAMBA_OK);
    f->graph->phase = SAMBA_FWD;
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    fixture *f = *state;
    samba_graph_free(f->graph);
    samba_context_free(f->context);
    free(f);
    return 0;
}

static samba_value zeros_of(samba_graph *g, samba_dtype dtype, int rank, const int64_t *shape)
{
    return samba_constant(g, 0, dtype, rank, shape);
}
static samba_value floats(samba_graph *g, int rank, const int64_t *shape) { return zeros_of(g, SAMBA_FLOAT32, rank, shape); }

static void expect_shape(samba_value value, int rank, const int64_t *shape)
{
    if (samba_graph_status(value.graph) != SAMBA_OK)
        fail_msg("%s", samba_error_message(value.graph->context));
    const samba_node *node = samba_node_at(value.graph, value.index);
    assert_true(samba_shape_equal(node->rank, node->shape, rank, shape));
}

static void shapes(void **state)
{
    samba_graph *g = ((fixture *)*state)->graph;
    samba_attention_options o = samba_attention_defaults();
    expect_shape(samba_scaled_dot_product_attention(floats(g, SHAPE(5, 3)), floats(g, SHAPE(4, 3)), floats(g, SHAPE(4, 2)), NULL),
                 SHAPE(5, 2));
    expect_shape(
        samba_scaled_dot_product_attention(floats(g, SHAPE(6, 5, 3)), floats(g, SHAPE(6, 4, 3)), floats(g, SHAPE(6, 4, 2)), &o),
        SHAPE(6, 5, 2));
    o.mask = zeros_of(g, SAMBA_BOOL, SHAPE(5, 4));
    samba_value y = samba_scaled_dot_product_attention(floats(g, SHAPE(2, 6, 5, 3)), floats(g, SHAPE(2, 6, 4, 3)),
                                                       floats(g, SHAPE(2, 6, 4, 2)), &o);
    expect_shape(y, SHAPE(2, 6, 5, 2));
    /* nothing else around it */
    const samba_node *permute = samba_node_at(g, y.index), *node = samba_node_at(g, permute->inputs[0]);
    assert_true(permute->op == SAMBA_OP_permute && node->op == SAMBA_OP_attention && node->attrs->attention.masked);
    assert_true(node->attrs->attention.scale == 1 / sqrt(3));
    o.mask = zeros_of(g, SAMBA_FLOAT64, SHAPE(3, 1, 5, 1));
    o.enable_gqa = true;
    o.scale = 2;
    expect_shape(samba_scaled_dot_product_attention(floats(g, SHAPE(2, 3, 6, 5, 3)), floats(g, SHAPE(2, 3, 2, 4, 3)),
                                                    floats(g, SHAPE(2, 3, 2, 4, 2)), &o),
                 SHAPE(2, 3, 6, 5, 2));
    o.mask = zeros_of(g, SAMBA_FLOAT32, SHAPE(2, 3, 6, 1, 4));
    expect_shape(samba_scaled_dot_product_attention(floats(g, SHAPE(2, 3, 6, 5, 3)), floats(g, SHAPE(2, 3, 2, 4, 3)),
                                                    floats(g, SHAPE(2, 3, 2, 4, 2)), &o),
                 SHAPE(2, 3, 6, 5, 2));
}

static void dropout_is_named(void **state)
{
    samba_graph *g = ((fixture *)*state)->graph;
    samba_value x = floats(g, SHAPE(2, 3, 4, 5));
    samba_attention_options o = samba_attention_defaults();
    o.dropout = "drop";
    o.dropout_p = 0.1;
    samba_scope_push(g, "attn");
    samba_value first = samba_scaled_dot_product_attention(x, x, x, &o), second = samba_scaled_dot_product_attention(x, x, x, &o);
    samba_scope_pop(g);
    assert_int_equal(samba_graph_status(g), SAMBA_OK);
    const samba_node *a = samba_node_at(g, samba_node_at(g, first.index)->inputs[0]);
    const samba_node *b = samba_node_at(g, samba_node_at(g, second.index)->inputs[0]);
    assert_int_equal(a->inputs[3], samba_graph_leaf(g, "attn.drop.p"));
    assert_int_equal(a->inputs[4], samba_graph_leaf(g, "attn.drop.seed"));
    assert_int_equal(b->inputs[3], a->inputs[3]);
    assert_int_not_equal(b->inputs[4], a->inputs[4]); /* each call its own mask */
}

typedef struct refusal {
    samba_dtype dtype;
    int64_t q[4], k[4], v[4], mask[4]; /* mask[0] -1: none */
    samba_dtype mask_dtype;
    bool gqa;
    double p, scale;
    samba_status status;
    const char *says;
} refusal;

static void tracing_refuses(void **state)
{
    const refusal refusals[] = {
        {SAMBA_INT64,
         {1, 2, 3, 4},
         {1, 2, 3, 4},
         {1, 2, 3, 4},
         {-1},
         0,
         false,
         0,
         0,
         SAMBA_ERROR_DTYPE,
         "one floating-point dtype"},
        {SAMBA_FLOAT32, {1, 2, 3, 4}, {1, 2, 3, 5}, {1, 2, 3, 4}, {-1}, 0, false, 0, 0, SAMBA_ERROR_SHAPE, "float32(1, 2, 3, 5)"},
        {SAMBA_FLOAT32, {1, 2, 3, 4}, {2, 2, 3, 4}, {2, 2, 3, 4}, {-1}, 0, false, 0, 0, SAMBA_ERROR_SHAPE, "equal leading dims"},
        {SAMBA_FLOAT32, {1, 2, 3, 4}, {1, 2, 3, 4}, {1, 2, 2, 4}, {-1}, 0, false, 0, 0, SAMBA_ERROR_SHAPE, "equal leading dims"},
        {SAMBA_FLOAT32, {1, 4, 3, 4}, {1, 2, 3, 4}, {1, 2, 3, 4}, {-1}, 0, false, 0, 0, SAMBA_ERROR_SHAPE, "enable_gqa is set"},
        {SAMBA_FLOAT32, {1, 4, 3, 4}, {1, 3, 3, 4}, {1, 3, 3, 4}, {-1}, 0, true, 0, 0, SAMBA_ERROR_SHAPE, "must divide"},
        {SAMBA_FLOAT32,
         {1, 2, 3, 4},
         {1, 2, 3, 4},
         {1, 2, 3, 4},
         {1, 1, 3, 2},
         SAMBA_BOOL,
         false,
         0,
         0,
         SAMBA_ERROR_SHAPE,
         "bool(1, 1, 3, 2)"},
        {SAMBA_FLOAT32,
         {1, 2, 3, 4},
         {1, 2, 3, 4},
         {1, 2, 3, 4},
         {1, 1, 3, 3},
         SAMBA_INT32,
         false,
         0,
         0,
         SAMBA_ERROR_DTYPE,
         "given int32"},
        {SAMBA_FLOAT32, {1, 2, 3, 4}, {1, 2, 3, 4}, {1, 2, 3, 4}, {-1}, 0, false, 0.5, 0, SAMBA_ERROR_ARGUMENT, "needs the name"},
        {SAMBA_FLOAT32, {1, 2, 3, 4}, {1, 2, 3, 4}, {1, 2, 3, 4}, {-1}, 0, false, 0, NAN, SAMBA_ERROR_ARGUMENT, "given NaN"},
    };
    (void)state;
    for (int i = 0; i < SAMBA_COUNT(refusals); i++) {
        void *own;
        setup(&own);
        const refusal *r = &refusals[i];
        samba_graph *g = ((fixture *)own)->graph;
        samba_attention_options o = samba_attention_defaults();
        o.enable_gqa = r->gqa;
        o.dropout_p = r->p;
        o.scale = r->scale;
        if (r->mask[0] >= 0)
            o.mask = zeros_of(g, r->mask_dtype, 4, r->mask);
        samba_scaled_dot_product_attention(zeros_of(g, r->dtype, 4, r->q), zeros_of(g, r->dtype, 4, r->k),
                                           zeros_of(g, r->dtype, 4, r->v), &o);
        const char *message = samba_error_message(g->context);
        if (samba_graph_status(g) != r->status || !strstr(message, r->says) || !strstr(message, "scaled_dot_product_attention"))
            fail_msg("refusal %d: %s, \"%s\", expected \"%s\"", i, samba_status_name(samba_graph_status(g)), message, r->says);
        teardown(&own);
    }
}

/* ---- what inference and gradient refuse ---- */

static void inference_refuses(void **state)
{
    (void)state;
    operand x = RANDOM(1, 2, 3, 4), lse = RANDOM(1, 2, 3), result = RANDOM(1, 3, 2, 4), number = RANDOM(1);
    operand integers = given(SAMBA_INT64, SHAPE(1, 2, 3, 4), (const double[24]){0});
    operand rate = given(SAMBA_FLOAT64, SCALAR, VALUES(0)), mask = RANDOM(3, 2);
    const struct {
        samba_op op;
        samba_attrs attrs;
        int count;
        operand inputs[6];
        samba_status status;
        const char *says;
    } refusals[] = {
        {SAMBA_OP_attention, attention(0, 0, 0, 1), 4, {x, x, x, x}, SAMBA_ERROR_ARGUMENT, "expected 3 inputs"},
        {SAMBA_OP_attention, attention(0, 1, 1, 1), 5, {x, x, x, mask, rate}, SAMBA_ERROR_ARGUMENT, "expected 6 inputs"},
        {SAMBA_OP_attention, attention(0, 0, 0, NAN), 3, {x, x, x}, SAMBA_ERROR_ARGUMENT, "NaN"},
        {SAMBA_OP_attention, attention(0, 0, 0, 1), 3, {integers, integers, integers}, SAMBA_ERROR_DTYPE, "floating-point"},
        {SAMBA_OP_attention, attention(0, 0, 0, 1), 3, {x, integers, x}, SAMBA_ERROR_DTYPE, "one dtype"},
        {SAMBA_OP_attention_lse, attention(0, 0, 0, 1), 3, {x, x, RANDOM(2, 3, 4)}, SAMBA_ERROR_SHAPE, "given (1, 2, 3, 4)"},
        {SAMBA_OP_attention, attention(0, 0, 0, 1), 3, {RANDOM(1, 3, 3, 4), x, x}, SAMBA_ERROR_SHAPE, "must divide"},
        {SAMBA_OP_attention, attention(0, 1, 0, 1), 4, {x, x, x, mask}, SAMBA_ERROR_SHAPE, "the mask (3, 2)"},
        {SAMBA_OP_attention, attention(0, 0, 1, 1), 5, {x, x, x, rate, rate}, SAMBA_ERROR_DTYPE, "must be int64"},
        {SAMBA_OP_attention, attention(0, 0, 1, 1), 5, {x, x, x, number, rate}, SAMBA_ERROR_SHAPE, "rank 0"},
        {SAMBA_OP_attention_grad,
         attention(0, 0, 0, 1),
         6,
         {x, x, x, x, lse, result},
         SAMBA_ERROR_SHAPE,
         "the result in shape (1, 3, 2, 4)"},
        {SAMBA_OP_attention_grad,
         attention(0, 0, 0, 1),
         6,
         {x, x, x, result, lse, x},
         SAMBA_ERROR_SHAPE,
         "the gradient of the result"},
        {SAMBA_OP_attention_grad,
         attention(0, 0, 0, 1),
         6,
         {x, x, x, result, x, result},
         SAMBA_ERROR_SHAPE,
         "log-sum-exp in shape (1, 2, 3)"},
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

static void gradient_refuses(void **state)
{
    (void)state;
    const struct {
        samba_op op;
        samba_attrs attrs;
        int count;
        operand inputs[6];
        const char *says;
    } refusals[] = {
        {SAMBA_OP_attention_lse,
         attention(0, 0, 0, 1),
         3,
         {RANDOM(1, 2, 3, 4), RANDOM(1, 2, 3, 4), RANDOM(1, 2, 3, 4)},
         "compose"},
    };
    for (int i = 0; i < SAMBA_COUNT(refusals); i++) {
        op_bench bench;
        uint64_t random = 1;
        const bool needed[6] = {true, true, true, true, true, true};
        samba_ref found[6];
        op_bench_begin(&bench, refusals[i].op, &refusals[i].attrs, refusals[i].count, refusals[i].inputs, &random);
        samba_vjp vjp = {bench.graph, samba_node_at(bench.graph, bench.result), bench.leaves, bench.result, bench.result, needed,
                         found};
        assert_int_equal(samba_ops[refusals[i].op].vjp(&vjp), SAMBA_ERROR_UNSUPPORTED);
        assert_non_null(strstr(samba_error_message(bench.context), refusals[i].says));
        op_bench_end(&bench);
    }
}

/* ---- no memory ---- */

static samba_status train(samba_context *context, void *user)
{
    (void)user;
    static const double zeros[24];
    samba_graph *g;
    SAMBA_TRY(samba_graph_new(context, "g", &g));
    samba_attrs leaf, attrs = attention(true, false, false, 1);
    memset(&leaf, 0, sizeof leaf);
    leaf.leaf = (samba_attrs_leaf){samba_graph_intern(g, "x"), SAMBA_FLOAT64, {4, {1, 2, 3, 4}}, 0};
    samba_ref x = samba_emit(g, SAMBA_OP_input, 0, NULL, &leaf), inputs[3] = {x, x, x}, found[3];
    g->phase = SAMBA_FWD;
    samba_ref y = samba_emit(g, SAMBA_OP_attention, 3, inputs, &attrs);
    g->phase = SAMBA_BCKWD;
    if (samba_graph_status(g) == SAMBA_OK) {
        samba_vjp vjp = {g, samba_node_at(g, y), inputs, y, y, (const bool[]){true, true, true}, found};
        (void)samba_ops[SAMBA_OP_attention].vjp(&vjp);
        samba_graph_sink(g, (samba_sink){SAMBA_SINK_OUTPUT, SAMBA_BCKWD, samba_graph_intern(g, "dx"), SAMBA_NONE, found[1]});
    }
    samba_status status = samba_graph_status(g);
    samba_arena arena;
    samba_arena_init(&arena, context);
    samba_array array = {SAMBA_FLOAT64, 4, {1, 2, 3, 4}, 24, (void *)(uintptr_t)zeros}, sink;
    if (status == SAMBA_OK)
        status = samba_graph_evaluate(g, 1, (const char *const[]){"x"}, &array, &arena, &sink);
    samba_arena_free(&arena);
    samba_graph_free(g);
    return status;
}

static void no_memory(void **state)
{
    (void)state;
    fail_each_allocation(train, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_torch),
        cmocka_unit_test(gradients),
        cmocka_unit_test(dropout_as_composed),
        cmocka_unit_test(log_sum_exp),
        cmocka_unit_test(flops),
        cmocka_unit_test_setup_teardown(shapes, setup, teardown),
        cmocka_unit_test_setup_teardown(dropout_is_named, setup, teardown),
        cmocka_unit_test(tracing_refuses),
        cmocka_unit_test(inference_refuses),
        cmocka_unit_test(gradient_refuses),
        cmocka_unit_test(no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
