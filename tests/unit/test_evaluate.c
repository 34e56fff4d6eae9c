/* SPDX-License-Identifier: Apache-2.0
 *
 * Evaluating whole graphs: sections in order and assignments at their end, leaves given or by default, errors, memory. And the
 * operator table that it runs from. */
#include "harness.h"

#include "failing_allocator.h"
#include "ops/ops.h"

#define COUNT 3 /* elements of every leaf here */

static samba_ref leaf(samba_graph *graph, samba_op op, const char *name, samba_initializer_kind init, double init_a)
{
    samba_attrs attrs = {.leaf = {samba_graph_intern(graph, name), SAMBA_FLOAT64, {1, {COUNT}}, 0}};
    if (op != SAMBA_OP_input) {
        attrs.parameter.init = init; /* state begins with the same fields */
        attrs.parameter.init_a = init_a;
    }
    return samba_emit(graph, op, 0, NULL, &attrs);
}

static samba_ref argin(samba_graph *graph, const char *name, double value)
{
    samba_attrs attrs = {.argin = {samba_graph_intern(graph, name), SAMBA_FLOAT64, value, 0, 0}};
    return samba_emit(graph, SAMBA_OP_argin, 0, NULL, &attrs);
}

static void output(samba_graph *graph, samba_phase phase, const char *name, samba_ref value)
{
    samba_graph_sink(graph, (samba_sink){SAMBA_SINK_OUTPUT, phase, samba_graph_intern(graph, name), SAMBA_NONE, value});
}

static void assign(samba_graph *graph, samba_phase phase, samba_ref target, samba_ref value)
{
    samba_graph_sink(graph, (samba_sink){SAMBA_SINK_ASSIGN, phase, 0, target, value});
}

static samba_array array_of(double *data)
{
    return (samba_array){.dtype = SAMBA_FLOAT64, .rank = 1, .shape = {COUNT}, .numel = COUNT, .data = data};
}

/* w^2 by gradient descent: ZEROGRAD g = 0; FWD y = w w; BCKWD g = g + 2 w; OPT w = w - rate g. Sinks: 0 g, 1 y, 2 g, 3 w, 4
 * "old". */
static samba_graph *training(samba_context *under)
{
    samba_graph *graph = NULL;
    if (samba_graph_new(under, "training", &graph) != SAMBA_OK)
        return NULL;
    samba_ref w = leaf(graph, SAMBA_OP_parameter, "w", SAMBA_INIT_ZEROS, 0);
    samba_ref g = leaf(graph, SAMBA_OP_state, "g", SAMBA_INIT_CONSTANT, 100);
    samba_ref rate = argin(graph, "rate", 0.25);
    int64_t shape[1] = {COUNT};
    graph->phase = SAMBA_ZEROGRAD;
    assign(graph, SAMBA_ZEROGRAD, g, samba_emit_expand(graph, samba_emit_constant(graph, 0, SAMBA_FLOAT64), 1, shape));
    graph->phase = SAMBA_FWD;
    output(graph, SAMBA_FWD, "y", samba_emit2(graph, SAMBA_OP_mul, w, w));
    graph->phase = SAMBA_BCKWD;
    assign(graph, SAMBA_BCKWD, g, samba_emit2(graph, SAMBA_OP_add, g, samba_emit_scalar(graph, SAMBA_OP_mul, w, 2)));
    graph->phase = SAMBA_OPT;
    assign(graph, SAMBA_OPT, w, samba_emit2(graph, SAMBA_OP_sub, w, samba_emit2(graph, SAMBA_OP_mul, rate, g)));
    output(graph, SAMBA_OPT, "old", w); /* sinks of a section see its leaves as they were */
    return graph;
}

static samba_status run_training(samba_context *under, void *user)
{
    double w[COUNT] = {1, -2, 3};
    const char *names[1] = {"w"};
    samba_array given[1] = {array_of(w)}, *sinks = user;
    samba_graph *graph = training(under);
    if (!graph)
        return SAMBA_ERROR_MEMORY;
    samba_arena arena;
    samba_arena_init(&arena, under);
    samba_status status = samba_graph_evaluate(graph, 1, names, given, &arena, sinks);
    for (int s = 0; s < 5 && status == SAMBA_OK; s++) {
        static const double expected[5][COUNT] = {{0, 0, 0}, {1, 4, 9}, {2, -4, 6}, {0.5, -1, 1.5}, {1, -2, 3}};
        assert_int_equal(sinks[s].dtype, SAMBA_FLOAT64);
        assert_int_equal(sinks[s].numel, COUNT);
        assert_memory_equal(sinks[s].data, expected[s], sizeof expected[s]);
    }
    assert_true(w[0] == 1 && w[1] == -2 && w[2] == 3); /* the caller's values are only read */
    samba_arena_free(&arena);
    samba_graph_free(graph);
    return status;
}

TEST(test_sections)
{
    samba_array sinks[5];
    fail_each_allocation(run_training, sinks); /* the last time it gets through */
}

/* Assignments of one section all read what was there before any of them. */
TEST(test_swap)
{
    OWN_GRAPH *graph;
    need(samba_graph_new(context, "swap", &graph));
    samba_ref a = leaf(graph, SAMBA_OP_state, "a", SAMBA_INIT_CONSTANT, 1);
    samba_ref b = leaf(graph, SAMBA_OP_state, "b", SAMBA_INIT_CONSTANT, 2);
    assign(graph, SAMBA_FWD, a, b);
    assign(graph, SAMBA_FWD, b, a);
    output(graph, SAMBA_OPT, "a_after", a);
    output(graph, SAMBA_OPT, "b_after", b);
    samba_arena arena;
    samba_arena_init(&arena, context);
    samba_array sinks[4];
    need(samba_graph_evaluate(graph, 0, NULL, NULL, &arena, sinks));
    static const double expected[4] = {2, 1, 2, 1};
    for (int s = 0; s < 4; s++)
        assert_true(((double *)sinks[s].data)[COUNT - 1] == expected[s]);
    samba_arena_free(&arena);
}

TEST(test_errors)
{
    OWN_GRAPH *graph;
    need(samba_graph_new(context, "errors", &graph));
    samba_ref w = leaf(graph, SAMBA_OP_parameter, "w", SAMBA_INIT_ZEROS, 0);
    samba_ref s = leaf(graph, SAMBA_OP_state, "s", SAMBA_INIT_UNIFORM, -1);
    leaf(graph, SAMBA_OP_input, "unused", SAMBA_INIT_ZEROS, 0); /* no sink needs it, so nobody need give it */
    output(graph, SAMBA_FWD, "y", samba_emit2(graph, SAMBA_OP_mul, w, s));
    static double values[COUNT] = {1, 2, 3};
    samba_array right = array_of(values), integers = right, pair = right;
    integers.dtype = SAMBA_INT64;
    pair.shape[0] = pair.numel = 2;
    const struct {
        int count;
        const char *names[3];
        samba_array second;
        samba_status status;
        const char *words;
    } rows[] = {
        {1, {"w"}, right, SAMBA_ERROR_NAME, "state \"s\""},
        {1, {"s"}, right, SAMBA_ERROR_NAME, "parameter \"w\""},
        {3, {"w", "s", "v"}, right, SAMBA_ERROR_NAME, "no leaf \"v\""},
        {3, {"w", "s", "w"}, right, SAMBA_ERROR_NAME, "given twice"},
        {2, {"w", "s"}, integers, SAMBA_ERROR_DTYPE, "int64"},
        {2, {"w", "s"}, pair, SAMBA_ERROR_SHAPE, "\"s\" has shape"},
        {2, {"w", "s"}, right, SAMBA_OK, ""},
    };
    for (int i = 0; i < LENGTH(rows); i++) {
        const samba_array leaves[3] = {right, rows[i].second, right};
        samba_arena arena;
        samba_array sinks[2];
        samba_arena_init(&arena, context);
        refuse(samba_graph_evaluate(graph, rows[i].count, rows[i].names, leaves, &arena, sinks), rows[i].status, rows[i].words);
        samba_arena_free(&arena);
    }
}

TEST(test_intermediates_are_freed)
{
    failing_allocator counter;
    samba_context *counted = counting_context_new(&counter);
    samba_graph *graph;
    need_in(counted, samba_graph_new(counted, "chain", &graph));
    const int64_t shape[1] = {100000};
    samba_ref a = samba_emit_expand(graph, samba_emit_constant(graph, 1, SAMBA_FLOAT64), 1, shape);
    for (int i = 0; i < 20; i++)
        a = samba_emit1(graph, i % 2 ? SAMBA_OP_exp : SAMBA_OP_log, a);
    output(graph, SAMBA_FWD, "y", a);
    samba_arena arena;
    samba_arena_init(&arena, counted);
    samba_array sink;
    assert_int_equal(samba_graph_evaluate(graph, 0, NULL, NULL, &arena, &sink), SAMBA_OK);
    assert_true(((double *)sink.data)[shape[0] - 1] == 1);
    assert_true(counter.peak_bytes < 3 * 8 * shape[0]);
    samba_arena_free(&arena);
    samba_graph_free(graph);
    counting_context_free(counted, &counter);
}

TEST(test_table)
{
    for (int op = 0; op < SAMBA_OP_COUNT; op++) {
        const samba_op_facts *facts = &samba_ops[op];
        assert_string_equal(facts->name, samba_op_table[op].name);
        assert_int_equal(facts->arity, samba_op_table[op].arity);
        assert_int_equal(facts->attrs, samba_op_table[op].attrs);
        assert_int_equal(facts->class_ == SAMBA_LEAF, samba_op_table[op].leaf);
        assert_non_null(facts->infer);
        assert_non_null(facts->flops);
        assert_int_equal(facts->class_ == SAMBA_COMPOSITE, facts->expand != NULL);
        assert_true(facts->class_ == SAMBA_LEAF || facts->reference != NULL);
    }
    assert_true(samba_ops_signature() != 0 && samba_ops_signature() == samba_ops_signature());
}

/* What words of the column `traits` promise, of each row that has them. */
TEST(test_traits)
{
    int twins = 0, ranges = 0, combined = 0;
    for (int op = 0; op < SAMBA_OP_COUNT; op++) {
        const samba_op_facts *facts = &samba_ops[op], *twin = &samba_ops[facts->twin], *combine = &samba_ops[facts->combine];
        const samba_node node = {.op = (uint16_t)op};
        assert_true(!facts->tensor || (facts->class_ == SAMBA_LEAF && !facts->inline_));
        assert_true(!facts->inline_ || facts->class_ == SAMBA_LEAF || (facts->class_ == SAMBA_MAP && facts->arity == 1));
        assert_true(facts->conv == SAMBA_CONV_none || (facts->class_ == SAMBA_CONTRACT && facts->attrs == SAMBA_ATTRS_conv));
        assert_int_equal(samba_is_combined(&node), facts->combine != SAMBA_OP_input);
        if (samba_is_combined(&node)) {
            assert_int_equal(facts->class_, SAMBA_REDUCE_CLASS);
            assert_true(combine->class_ == SAMBA_MAP && combine->arity == 2);
            combined++;
        }
        if (facts->twin != SAMBA_OP_input) { /* the group of the one takes the other, whichever comes first */
            assert_int_equal(twin->twin, op);
            assert_true(facts->class_ == SAMBA_KERNEL && twin->class_ == SAMBA_KERNEL);
            assert_true(facts->arity == twin->arity && facts->attrs == twin->attrs);
            twins++;
        }
        assert_true(!facts->range || facts->arity >= 2);
        ranges += facts->range != NULL;
    }
    assert_int_equal(twins, 8);
    assert_int_equal(combined, 3);
    assert_int_equal(ranges, 4);
    assert_false(samba_is_combined(&(samba_node){.op = SAMBA_OP_argmax}));
}

TEST(test_ranges)
{
    const samba_node source = {.rank = 3, .shape = {7, 5, 3}};
    samba_attrs gather = {.gather = {.dim = 2, .negative = 1}}, scatter = {.scatter = {.dim = 1}},
                loss = {.cross_entropy = {.ignore_index = -100}};
    samba_index_range r = samba_ops[SAMBA_OP_gather].range(&(samba_node){.attrs = &gather}, &source);
    assert_true(r.low == -3 && r.high == 3 && !r.has_ignore && !r.trusted);
    r = samba_ops[SAMBA_OP_scatter].range(&(samba_node){.attrs = &scatter}, &source);
    assert_true(r.low == 0 && r.high == 5 && !r.has_ignore && !r.trusted);
    r = samba_ops[SAMBA_OP_embedding].range(&(samba_node){0}, &source);
    assert_true(r.low == 0 && r.high == 7 && !r.has_ignore && !r.trusted);
    r = samba_ops[SAMBA_OP_cross_entropy].range(&(samba_node){.attrs = &loss}, &source);
    assert_true(r.low == 0 && r.high == 5 && r.has_ignore && r.ignore == -100 && r.trusted);
}

TEST(test_gradient_of_gradient)
{
    samba_graph *graph;
    need(samba_graph_new(context, "second", &graph));
    samba_node node = {.op = SAMBA_OP_conv2d_weight_grad};
    samba_vjp vjp = {.graph = graph, .node = &node};
    refuse(samba_ops[node.op].vjp(&vjp), SAMBA_ERROR_UNSUPPORTED, "conv2d_weight_grad");
    samba_graph_free(graph);
}

TEST_MAIN(test_sections, test_swap, test_errors, test_intermediates_are_freed, test_table, test_traits, test_ranges,
          test_gradient_of_gradient)
