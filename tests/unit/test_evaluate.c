/* SPDX-License-Identifier: Apache-2.0
 *
 * Evaluating whole graphs: sections in order and assignments at their end, leaves given or by default, errors, memory. And the
 * operator table that it runs from. */
#include "harness.h"
#include "failing_allocator.h"
#include "ops/ops.h"

#define COUNT 3 /* elements of every leaf here */
#define STATE(init, a) "dtype=float64 shape=[3] init=" #init " init_a=" #a " init_b=0 kind=0 : float64[3]\n"

/* w^2 by gradient descent. Sinks of a section see its leaves as they were. */
static const char training[] = "graph \"training\"\n"
                               "%0 = parameter name=\"w\" dtype=float64 shape=[3] init=0 init_a=0 init_b=0 : float64[3]\n"
                               "%1 = state name=\"g\" dtype=float64 shape=[3] init=1 init_a=100 init_b=0 kind=0 : float64[3]\n"
                               "%2 = argin name=\"rate\" dtype=float64 value=0.25 role=0 : float64[]\n"
                               "%3 = constant dtype=float64 shape=[] value=0 : float64[]\n"
                               "%4 = expand %3 shape=[3] : float64[3] @ZEROGRAD\n"
                               "%5 = mul %0 %0 : float64[3] @FWD\n"
                               "%6 = constant dtype=float64 shape=[] value=2 : float64[]\n"
                               "%7 = mul %0 %6 : float64[3] @BCKWD\n"
                               "%8 = add %1 %7 : float64[3] @BCKWD\n"
                               "%9 = mul %2 %1 : float64[3] @OPT\n"
                               "%10 = sub %0 %9 : float64[3] @OPT\n"
                               "assign %1 %4 @ZEROGRAD\n"
                               "output \"y\" %5 @FWD\n"
                               "assign %1 %8 @BCKWD\n"
                               "assign %0 %10 @OPT\n"
                               "output \"old\" %0 @OPT\n";

static samba_array array_of(double *data)
{
    return (samba_array){.dtype = SAMBA_FLOAT64, .rank = 1, .shape = {COUNT}, .numel = COUNT, .data = data};
}

static samba_status run_training(samba_context *under, void *user)
{
    double w[COUNT] = {1, -2, 3};
    const char *names[1] = {"w"};
    samba_array given[1] = {array_of(w)}, *sinks = user;
    OWN_GRAPH *graph = NULL;
    samba_arena arena;
    SAMBA_TRY(samba_graph_parse(under, training, &graph));
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
    samba_arena arena;
    need(samba_graph_parse(
        context,
        "graph \"swap\"\n%0 = state name=\"a\" " STATE(1, 1) "%1 = state name=\"b\" " STATE(
            1, 2) "assign %0 %1 @FWD\nassign %1 %0 @FWD\noutput \"a_after\" %0 @OPT\noutput \"b_after\" %1 @OPT\n",
        &graph));
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
    need(samba_graph_parse(context,
                           "graph \"errors\"\n"
                           "%0 = parameter name=\"w\" dtype=float64 shape=[3] init=0 init_a=0 init_b=0 : float64[3]\n"
                           "%1 = state name=\"s\" " STATE(
                               2, -1) "%2 = input name=\"unused\" dtype=float64 shape=[3] : float64[3]\n" /* no sink needs it */
                                      "%3 = mul %0 %1 : float64[3] @FWD\noutput \"y\" %3 @FWD\n",
                           &graph));
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
    samba_graph_sink(graph, (samba_sink){SAMBA_SINK_OUTPUT, SAMBA_FWD, samba_graph_intern(graph, "y"), SAMBA_NONE, a});
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
        assert_true(facts->arity == samba_op_table[op].arity && facts->attrs == samba_op_table[op].attrs);
        assert_true(facts->infer && facts->flops && (facts->class_ == SAMBA_LEAF || facts->reference));
        assert_int_equal(facts->class_ == SAMBA_LEAF, samba_op_table[op].leaf);
        assert_true(facts->class_ != SAMBA_COMPOSITE || facts->expand);
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
    assert_int_equal(combined, 4);
    assert_int_equal(ranges, 5);
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
    r = samba_ops[SAMBA_OP_multilabel_margin].range(&(samba_node){0}, &source);
    assert_true(r.low == -1 && r.high == 3 && !r.has_ignore && !r.trusted);
}

TEST(test_gradient_of_gradient)
{
    samba_graph *graph;
    need(samba_graph_new(context, "second", &graph));
    samba_node node = {.op = SAMBA_OP_grid_sample_grid_grad};
    samba_vjp vjp = {.graph = graph, .node = &node};
    refuse(samba_ops[node.op].vjp(&vjp), SAMBA_ERROR_UNSUPPORTED, "grid_sample_grid_grad");
    samba_graph_free(graph);
}

TEST_MAIN(test_sections, test_swap, test_errors, test_intermediates_are_freed, test_table, test_traits, test_ranges,
          test_gradient_of_gradient)
