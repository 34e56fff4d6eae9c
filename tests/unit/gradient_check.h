/* SPDX-License-Identifier: Apache-2.0
 *
 * One operator at a time, through a real graph and the reference evaluation: gradient_check compares its gradient with
 * central differences in float64, and for a composite its expansion with its own kernel. Inputs are given or random in a range,
 * which the caller keeps away from kinks. */
#ifndef GRADIENT_CHECK_H
#define GRADIENT_CHECK_H

#include "harness.h"
#include "ops/ops.h"

#define OPERANDS_MAX 6
enum { SINKS_MAX = OPERANDS_MAX + 3 };
static const char *const gradient_names[OPERANDS_MAX] __attribute__((unused)) = {"d0", "d1", "d2", "d3", "d4", "d5"};
static const char *const operand_names[OPERANDS_MAX + 1] = {"x0", "x1", "x2", "x3", "x4", "x5", "weights"};
static char bench_place[80]; /* what messages name beside the operator */
#define STEP 1e-6
#define TOLERANCE 1e-6

typedef struct operand {
    samba_dtype dtype; /* float64 is differentiated, anything else is constant */
    int rank;
    int64_t shape[SAMBA_MAX_RANK];
    const double *values;     /* as many as value_count, again and again, none: zeros; NULL: random in [low, high) */
    int value_count, formula; /* formula: above 0, elements are those of formula() */
    double low, high;
    bool constant; /* float64, but its gradient is not asked for */
} operand;

typedef struct op_bench { /* a graph of one operator and the arrays that feed it */
    samba_context *context;
    samba_graph *graph;
    int count, leaf_count; /* operands, and with the weights of the sum behind them if there are any */
    samba_ref leaves[OPERANDS_MAX + 1], result;
    samba_array arrays[OPERANDS_MAX + 1];
} op_bench;

/* What make_values.py has for a seed: fractions in [-1, 1]; up to 1009 elements are all different. */
static inline double formula(int seed, int64_t i) { return (double)((i * 7919 + seed * 104729) % 1009) / 504.5 - 1; }

static inline double random_between(uint64_t *state, double low, double high)
{
    return low + (high - low) * ((double)(next_seed(state) >> 11) * 0x1p-53);
}

static inline void op_bench_sound(const op_bench *bench)
{
    if (samba_graph_status(bench->graph) != SAMBA_OK)
        fail_msg("%s", samba_error_message(bench->context));
}

static inline void op_bench_leaf(op_bench *bench, int i, samba_dtype dtype, int rank, const int64_t *shape)
{
    samba_attrs attrs = {.leaf = {samba_graph_intern(bench->graph, operand_names[i]), dtype, {rank, {0}}, 0}};
    if (rank > 0)
        memcpy(attrs.leaf.shape.at, shape, (size_t)rank * sizeof *shape);
    bench->leaves[i] = samba_emit(bench->graph, SAMBA_OP_input, 0, NULL, &attrs);
    bench->leaf_count = i + 1;
    op_bench_sound(bench);

    samba_array *array = &bench->arrays[i];
    *array = (samba_array){.dtype = dtype, .rank = rank};
    memcpy(array->shape, attrs.leaf.shape.at, sizeof array->shape);
    assert_true(samba_shape_numel(rank, shape, &array->numel));
    array->data = calloc((size_t)array->numel + 1, samba_dtype_size(dtype));
    assert_non_null(array->data);
}

static inline void array_set(const samba_array *array, int64_t i, double value)
{
    samba_store_double(array->dtype, (char *)array->data + (size_t)i * samba_dtype_size(array->dtype), value);
}

static inline double array_get(const samba_array *array, int64_t i)
{
    return samba_load_double(array->dtype, (const char *)array->data + (size_t)i * samba_dtype_size(array->dtype));
}

static inline double operand_value(const operand *of, int64_t e, uint64_t *state)
{
    if (of->formula > 0)
        return formula(of->formula, e);
    if (!of->values)
        return random_between(state, of->low, of->high);
    return of->value_count > 0 ? of->values[e % of->value_count] : 0;
}

static inline void op_bench_begin(op_bench *bench, samba_op op, const samba_attrs *attrs, int count, const operand *operands,
                                  uint64_t *state)
{
    assert_true(count <= OPERANDS_MAX);
    memset(bench, 0, sizeof *bench);
    bench->count = count;
    assert_int_equal(samba_context_new(NULL, &bench->context), SAMBA_OK);
    assert_int_equal(samba_graph_new(bench->context, "bench", &bench->graph), SAMBA_OK);
    bench->graph->phase = SAMBA_FWD;
    for (int i = 0; i < count; i++) {
        const operand *given = &operands[i];
        op_bench_leaf(bench, i, given->dtype, given->rank, given->shape);
        for (int64_t e = 0; e < bench->arrays[i].numel; e++)
            array_set(&bench->arrays[i], e, operand_value(given, e, state));
    }
    bench->result = samba_emit(bench->graph, op, count, bench->leaves, attrs);
}

static inline void op_bench_end(op_bench *bench)
{
    for (int i = 0; i < bench->leaf_count; i++)
        free(bench->arrays[i].data);
    samba_graph_free(bench->graph);
    samba_context_free(bench->context);
}

/* Evaluates all sinks; element 0 of `sinks` is the loss. */
static inline void gradient_evaluate(const op_bench *bench, samba_arena *arena, samba_array *sinks)
{
    samba_arena_init(arena, bench->context);
    if (samba_graph_evaluate(bench->graph, bench->leaf_count, operand_names, bench->arrays, arena, sinks) != SAMBA_OK)
        fail_msg("%s", samba_error_message(bench->context));
}

static inline double gradient_loss(const op_bench *bench)
{
    samba_arena arena;
    samba_array sinks[SINKS_MAX];
    gradient_evaluate(bench, &arena, sinks);
    double loss = array_get(&sinks[0], 0);
    samba_arena_free(&arena);
    return loss;
}

static inline void gradient_sink(op_bench *bench, const char *name, samba_phase phase, samba_ref value)
{
    samba_sink sink = {SAMBA_SINK_OUTPUT, phase, samba_graph_intern(bench->graph, name), SAMBA_NONE, value};
    samba_graph_sink(bench->graph, sink);
}

static inline samba_ref op_bench_expansion(const op_bench *bench, samba_op op)
{
    return samba_ops[op].expand(bench->graph, samba_node_at(bench->graph, bench->result), bench->leaves);
}

/* The gradients of sum(weights * op(inputs)) by the operator's vjp, for the inputs that are wanted. */
static inline void gradient_emit(const op_bench *bench, samba_op op, const bool *needed, samba_ref *gradients)
{
    for (int i = 0; i < bench->count; i++)
        gradients[i] = SAMBA_NONE;
    const samba_node *node = samba_node_at(bench->graph, bench->result); /* the real one: sanitizers see it used too late */
    samba_vjp vjp = {bench->graph, node, bench->leaves, bench->result, bench->leaves[bench->count], needed, gradients};
    assert_non_null(samba_ops[op].vjp);
    assert_int_equal(samba_ops[op].vjp(&vjp), SAMBA_OK);
    op_bench_sound(bench);
}

static inline void gradient_check(samba_op op, const samba_attrs *attrs, int count, const operand *operands, uint64_t seed)
{
    op_bench bench;
    uint64_t state = seed;
    op_bench_begin(&bench, op, attrs, count, operands, &state);
    samba_graph *graph = bench.graph;
    op_bench_sound(&bench);
    samba_node node = *samba_node_at(graph, bench.result);
    assert_int_equal(node.dtype, SAMBA_FLOAT64);
    op_bench_leaf(&bench, count, SAMBA_FLOAT64, node.rank, node.shape);
    for (int64_t e = 0; e < bench.arrays[count].numel; e++)
        array_set(&bench.arrays[count], e, random_between(&state, -1, 1));
    int64_t dims[SAMBA_MAX_RANK] = {0, 1, 2, 3, 4, 5, 6, 7};
    samba_ref weighted = samba_emit2(graph, SAMBA_OP_mul, bench.result, bench.leaves[count]);
    gradient_sink(&bench, "loss", SAMBA_FWD, samba_emit_reduce(graph, SAMBA_OP_sum, weighted, node.rank, dims));
    if (samba_ops[op].expand) {
        gradient_sink(&bench, "value", SAMBA_FWD, bench.result);
        gradient_sink(&bench, "expanded", SAMBA_FWD, op_bench_expansion(&bench, op));
    }

    int first = (int)graph->sink_count;
    graph->phase = SAMBA_BCKWD;
    bool needed[OPERANDS_MAX];
    samba_ref gradients[OPERANDS_MAX], alone[OPERANDS_MAX];
    for (int i = 0; i < count; i++)
        needed[i] = operands[i].dtype == SAMBA_FLOAT64 && !operands[i].constant;
    gradient_emit(&bench, op, needed, gradients);
    for (int i = 0; i < count; i++) {
        if (!needed[i])
            continue;
        const bool only[OPERANDS_MAX] = {i == 0, i == 1, i == 2, i == 3, i == 4, i == 5}; /* asking for one gets the same node */
        gradient_emit(&bench, op, only, alone);
        assert_int_equal(alone[i], gradients[i]);
        if (gradients[i] == SAMBA_NONE)
            continue;
        const samba_node *gradient = samba_node_at(graph, gradients[i]);
        assert_int_equal(gradient->dtype, SAMBA_FLOAT64);
        assert_true(samba_shape_equal(gradient->rank, gradient->shape, operands[i].rank, operands[i].shape));
        gradient_sink(&bench, gradient_names[i], SAMBA_BCKWD, gradients[i]);
    }
    op_bench_sound(&bench);

    samba_arena arena;
    samba_array sinks[SINKS_MAX];
    gradient_evaluate(&bench, &arena, sinks);
    if (samba_ops[op].expand) {
        assert_int_equal(sinks[1].dtype, sinks[2].dtype);
        assert_true(samba_shape_equal(sinks[1].rank, sinks[1].shape, sinks[2].rank, sinks[2].shape));
        for (int64_t e = 0; e < sinks[1].numel; e++) {
            double kernel = array_get(&sinks[1], e), expanded = array_get(&sinks[2], e);
            if (!(fabs(kernel - expanded) <= 1e-11 * fmax(1, fabs(kernel))))
                fail_msg("%s %s, seed %llu: element %lld is %.15g by the kernel, %.15g by the expansion", bench_place,
                         samba_ops[op].name, (unsigned long long)seed, (long long)e, kernel, expanded);
        }
    }
    for (int i = 0, s = first; i < count; i++) {
        if (!needed[i])
            continue;
        const samba_array *gradient = gradients[i] == SAMBA_NONE ? NULL : &sinks[s++];
        for (int64_t e = 0; e < bench.arrays[i].numel; e++) {
            double at = array_get(&bench.arrays[i], e);
            array_set(&bench.arrays[i], e, at + STEP);
            double above = gradient_loss(&bench);
            array_set(&bench.arrays[i], e, at - STEP);
            double below = gradient_loss(&bench);
            array_set(&bench.arrays[i], e, at);
            double expected = (above - below) / (2 * STEP), found = gradient ? array_get(gradient, e) : 0;
            if (!(fabs(found - expected) <= TOLERANCE * fmax(1, fabs(expected))))
                fail_msg("%s %s, seed %llu: input %d element %lld has gradient %.12g, differences give %.12g", bench_place,
                         samba_ops[op].name, (unsigned long long)seed, i, (long long)e, found, expected);
        }
    }
    samba_arena_free(&arena);
    op_bench_end(&bench);
}

#endif
