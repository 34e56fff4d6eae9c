/* SPDX-License-Identifier: Apache-2.0
 *
 * Of single operators what a row of tests/unit/values cannot say: draws of dropout, what forward and backward share, costs that
 * overflow, gradients that are refused, and every allocation refused in turn. Random operators and sizes: tests/fuzz. */
#include "operator_rows.h"
#include "failing_allocator.h"

/* ---- draws ---- */

/* The value of a row, in memory of the bench. */
static samba_array value_of(op_bench *bench, samba_arena *arena)
{
    samba_array value;
    gradient_sink(bench, "y", SAMBA_FWD, bench->result);
    gradient_evaluate(bench, arena, &value);
    return value;
}

TEST(dropout_drops)
{
    const double edge = samba_philox_uniform((uint64_t)-3, 0); /* with this rate, element 0 is just kept */
    const double rates[] = {0, 0.25, edge, 0.9, 1};
    for (int r = 0; r < SAMBA_COUNT(rates); r++) {
        operator_row row = *row_of("dropout (float64[400] 2) (const float64[] 0) (int64[] -3)");
        row.operands[1].values = &rates[r];
        op_bench bench = row_bench(&row);
        samba_arena arena;
        samba_array y = value_of(&bench, &arena);
        int kept = 0;
        for (int i = 0; i < 400; i++) {
            bool keep = samba_philox_uniform((uint64_t)-3, (uint64_t)i) >= (float)rates[r];
            assert_true(array_get(&y, i) == (keep ? 2 / (1 - rates[r]) : 0));
            kept += keep;
        }
        assert_true(fabs(kept / 400.0 - (1 - rates[r])) < 0.08);
        samba_arena_free(&arena);
        op_bench_end(&bench);
        row.operands[0].shape[0] = 20;
        gradient_check(row.op, &row.attrs, row.count, row.operands, 1);
    }
}

TEST(random_is_philox)
{
    op_bench bench = row_bench(row_of("random shape=[3,5] (int64[] -3)"));
    samba_arena arena;
    samba_array y = value_of(&bench, &arena);
    assert_true(y.dtype == SAMBA_FLOAT32 && y.numel == 15);
    for (int i = 0; i < 15; i++)
        assert_true(array_get(&y, i) == (double)samba_philox_uniform((uint64_t)-3, (uint64_t)i));
    samba_arena_free(&arena);
    op_bench_end(&bench);
}

/* Attention drops as the composition of matmul, softmax, dropout and matmul does. */
static samba_ref composed(samba_graph *g, const samba_ref *in, double scale) /* with dropout in[3], in[4] */
{
    const samba_attrs softmax = {.axis = {.dim = 3}};
    samba_ref scores = samba_emit2(g, SAMBA_OP_matmul, in[0], samba_emit_transpose(g, in[1], 2, 3));
    scores = samba_emit_scalar(g, SAMBA_OP_mul, scores, scale);
    samba_ref weights = samba_emit(g, SAMBA_OP_softmax, 1, &scores, &softmax);
    return samba_emit2(g, SAMBA_OP_matmul, samba_emit3(g, SAMBA_OP_dropout, weights, in[3], in[4]), in[2]);
}

TEST(attention_drops)
{
    const operator_row *row = row_of("attention dropout=1 scale=0.3 (float64[2,3,4,5] -1..1) (float64[2,3,6,5] -1..1)"
                                     " (float64[2,3,6,2] -1..1) (float64[] 0.4) (int64[] -5)");
    op_bench bench;
    uint64_t random = 9;
    op_bench_begin(&bench, row->op, &row->attrs, row->count, row->operands, &random);
    gradient_sink(&bench, "a", SAMBA_FWD, samba_emit_permute(bench.graph, bench.result, (int64_t[]){0, 2, 1, 3}));
    gradient_sink(&bench, "b", SAMBA_FWD, composed(bench.graph, bench.leaves, 0.3));
    samba_arena arena;
    samba_array sinks[2];
    gradient_evaluate(&bench, &arena, sinks);
    for (int64_t i = 0; i < sinks[0].numel; i++)
        assert_true(fabs(array_get(&sinks[0], i) - array_get(&sinks[1], i)) <= 1e-14);
    samba_arena_free(&arena);
    op_bench_end(&bench);
}

/* ---- gradients ---- */

/* A formula of a 16-bit operator runs in float32: 1 - tanh(x)^2 would lose everything in bfloat16. */
TEST(gradients_in_16_bits)
{
    const operator_row *row = row_of("tanh (bfloat16[1] 3)");
    op_bench bench = row_bench(row);
    op_bench_leaf(&bench, 1, SAMBA_BFLOAT16, 1, row->operands[0].shape);
    array_set(&bench.arrays[1], 0, 1);
    samba_ref gradient;
    gradient_emit(&bench, SAMBA_OP_tanh, (const bool[]){true}, &gradient);
    assert_int_equal(samba_node_at(bench.graph, gradient)->dtype, SAMBA_BFLOAT16);
    gradient_sink(&bench, "dx", SAMBA_FWD, gradient);
    double y = 0.99609375; /* tanh(3) in bfloat16 */
    assert_true(fabs(gradient_loss(&bench) - (1 - y * y)) <= (1 - y * y) / 256);
    op_bench_end(&bench);
}

static void no_gradient_of(const char *text, const char *words)
{
    const operator_row *row = row_of(text);
    op_bench bench;
    uint64_t random = 1;
    const bool needed[OPERANDS_MAX] = {true, true, true};
    samba_ref found[OPERANDS_MAX];
    op_bench_begin(&bench, row->op, &row->attrs, row->count, row->operands, &random);
    samba_vjp vjp = {bench.graph, samba_node_at(bench.graph, bench.result), bench.leaves, bench.result, bench.result, needed,
                     found};
    refuse_in(bench.context, samba_ops[row->op].vjp(&vjp), SAMBA_ERROR_UNSUPPORTED, words);
    op_bench_end(&bench);
}

TEST(gradients_that_are_refused)
{
    no_gradient_of("cache_attention slots=3 scale=1 (float64[1,2,3,4]) (float64[1,2,3,4]) (float64[1,2,3,4]) (int64[1])",
                   "scaled_dot_product_attention over whole sequences");
    no_gradient_of("stored_linear (float32[2,3]) (float32[4,3])", "train with linear over weights that are widened");
}

/* Forward and backward share what they both need. */
static void shares(const char *text, samba_op shared)
{
    const operator_row *row = row_of(text);
    op_bench bench = row_bench(row);
    assert_int_not_equal(op_bench_expansion(&bench, row->op), SAMBA_NONE);
    row_weights(&bench);
    samba_ref gradients[OPERANDS_MAX];
    gradient_emit(&bench, row->op, (bool[OPERANDS_MAX]){true}, gradients);
    int count = 0;
    for (int64_t i = 0; i < bench.graph->node_count; i++)
        count += bench.graph->nodes[i].op == shared;
    assert_int_equal(count, 1);
    op_bench_end(&bench);
}

static const char layer_norm[] = "layer_norm dims=1 eps=1e-5 (float64[3,8] #8) (float64[8] #9) (float64[8] #10)";
static const char cross_entropy[] = "cross_entropy ignore_index=-100 label_smoothing=0.5 (float64[2,9] #12) (int64[2] 0 8)";

TEST(forward_and_backward_share)
{
    shares(layer_norm, SAMBA_OP_rsqrt);
    shares(cross_entropy, SAMBA_OP_exp);
    shares(cross_entropy, SAMBA_OP_eq);
}

/* ---- costs and memory ---- */

TEST(greatest_costs)
{
    const int64_t much = INT64_C(1) << 40;
    samba_node a = {.rank = 2, .shape = {much, much}}, b = {.rank = 3, .shape = {5, 4, 2}},
               c = {.rank = 3, .shape = {much, 3, 2}};
    assert_true(samba_ops[SAMBA_OP_matmul].flops(&c, (const samba_node *[]){&a, &b}) > INT64_C(1) << 62);
    samba_attrs attrs = {.attention = {.scale = 1}};
    samba_node q = {.rank = 4, .shape = {2, 3, INT64_C(1) << 31, 4}}, y = {.attrs = &attrs};
    assert_true(samba_ops[SAMBA_OP_attention].flops(&y, (const samba_node *[]){&q, &q, &q}) > INT64_C(1) << 62);
}

/* Emits an operator, its expansion and its gradients, and evaluates them. */
static samba_status train(samba_context *given, void *user)
{
    const operator_row *row = user;
    static double zeros[512];
    OWN_GRAPH *graph;
    SAMBA_TRY(samba_graph_new(given, "g", &graph));
    op_bench bench = {.context = given, .graph = graph, .count = row->count};
    samba_ref gradients[OPERANDS_MAX];
    bool needed[OPERANDS_MAX];
    for (int i = 0; i < row->count; i++) {
        const operand *from = &row->operands[i];
        samba_attrs attrs = {.leaf = {samba_graph_intern(graph, operand_names[i]), from->dtype, {from->rank, {0}}, 0}};
        memcpy(attrs.leaf.shape.at, from->shape, sizeof from->shape);
        bench.leaves[i] = samba_emit(graph, SAMBA_OP_input, 0, NULL, &attrs);
        samba_array *array = &bench.arrays[i];
        *array = (samba_array){from->dtype, from->rank, {0}, 0, zeros};
        memcpy(array->shape, from->shape, sizeof from->shape);
        assert_true(samba_shape_numel(from->rank, from->shape, &array->numel) && array->numel <= SAMBA_COUNT(zeros));
        gradients[i] = SAMBA_NONE;
        needed[i] = from->dtype == SAMBA_FLOAT64;
    }
    graph->phase = SAMBA_FWD;
    samba_ref result = samba_emit(graph, row->op, row->count, bench.leaves, &row->attrs), value = result;
    if (result != SAMBA_NONE && samba_ops[row->op].expand)
        value = samba_ops[row->op].expand(graph, samba_node_at(graph, result), bench.leaves);
    SAMBA_TRY(samba_graph_status(graph));
    samba_vjp vjp = {graph, samba_node_at(graph, result), bench.leaves, result, result, needed, gradients};
    graph->phase = SAMBA_BCKWD;
    (void)samba_ops[row->op].vjp(&vjp);
    gradient_sink(&bench, "y", SAMBA_FWD, value);
    gradient_sink(&bench, "gradient", SAMBA_BCKWD, gradients[0]);
    SAMBA_TRY(samba_graph_status(graph));
    samba_arena arena;
    samba_array sinks[2];
    samba_arena_init(&arena, given);
    samba_status status = samba_graph_evaluate(graph, row->count, operand_names, bench.arrays, &arena, sinks);
    samba_arena_free(&arena);
    return status;
}

TEST(no_memory)
{
    static const char *const rows[] = {"matmul (float64[2,3]) (float64[3,4])",
                                       "gelu (float64[3,4])",
                                       "gelu_tanh (float64[3,4])",
                                       "softplus (float64[3,4])",
                                       "softmax dim=0 (float64[2,3,4])",
                                       "log_softmax dim=0 (float64[2,3,4])",
                                       layer_norm,
                                       "embedding (float64[5,3]) (int64[2,3])",
                                       "gather (float64[5,3]) (int64[2,3])",
                                       "scatter (float64[5,3]) (int64[2,3]) (float64[2,3])",
                                       cross_entropy,
                                       "attention causal=1 scale=1 (float64[1,2,3,4]) (float64[1,2,3,4]) (float64[1,2,3,4])",
                                       "max_pool2d kernel=[2,2] stride=[2,2] (float64[1,2,2])",
                                       "avg_pool2d kernel=[2,2] stride=[2,2] (float64[1,2,2])"};
    for (int i = 0; i < SAMBA_COUNT(rows); i++) {
        operator_row row = *row_of(rows[i]);
        fail_each_allocation(train, &row);
    }
}

TEST_MAIN(dropout_drops, attention_drops, random_is_philox, gradients_in_16_bits, gradients_that_are_refused,
          forward_and_backward_share, greatest_costs, no_memory)
