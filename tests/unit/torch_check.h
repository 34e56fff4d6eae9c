/* SPDX-License-Identifier: Apache-2.0
 *
 * Cases of torch_values_FAMILY.h, each checked in all ways there are: the operator's own kernel, its expansion (for a composite)
 * and the gradients by its vjp against PyTorch's numbers, and the vjp against differences.
 *
 * Inputs come from a seed by torch_formula, or are listed (seed -1). From numbers[first] on stand: the listed inputs, the
 * output, and the gradient of each float64 input of sum(output * torch_formula(13)). */
#ifndef TORCH_CHECK_H
#define TORCH_CHECK_H

#include "gradient_check.h"

#define TORCH_TOLERANCE 1e-10
#define EXPANSION_TOLERANCE 1e-12
#define TORCH_NUMEL_MAX 512
#define TORCH_SINKS_MAX (OPERANDS_MAX + 2)

typedef struct torch_case {
    const char *name;
    samba_op op;
    bool smooth; /* differences may be taken around the inputs */
    int first, input_count;
    samba_attrs attrs;
    struct {
        samba_dtype dtype;
        samba_dims shape;
        int seed;
    } inputs[OPERANDS_MAX];
    samba_dims shape; /* of the output */
} torch_case;

static inline double torch_formula(int seed, int64_t i) { return (double)((i * 7919 + seed * 104729) % 1009) / 504.5 - 1; }

static inline int64_t dims_numel(const samba_dims *shape)
{
    int64_t numel;
    assert_true(samba_shape_numel((int)shape->count, shape->at, &numel));
    assert_in_range(numel, 0, TORCH_NUMEL_MAX);
    return numel;
}

static inline void expect_numbers(const torch_case *c, const char *what, const samba_array *found, const double *expected,
                                  double tolerance)
{
    for (int64_t i = 0; i < found->numel; i++) {
        double value = array_get(found, i), wanted = expected[i];
        bool equal =
            value == wanted || (isnan(value) && isnan(wanted)) || fabs(value - wanted) <= tolerance * fmax(fabs(wanted), 1e-3);
        if (!equal)
            fail_msg("%s, %s: element %lld of %s is %.15g, expected %.15g", samba_ops[c->op].name, c->name, (long long)i, what,
                     value, wanted);
    }
}

static inline void torch_check(const torch_case *c, const double *numbers)
{
    static double values[OPERANDS_MAX][TORCH_NUMEL_MAX];
    operand operands[OPERANDS_MAX];
    bool needed[OPERANDS_MAX];
    const double *expected = numbers + c->first;
    memset(operands, 0, sizeof operands);
    for (int i = 0; i < c->input_count; i++) {
        int64_t numel = dims_numel(&c->inputs[i].shape);
        bool is_listed = c->inputs[i].seed < 0;
        for (int64_t e = 0; e < numel; e++)
            values[i][e] = is_listed ? expected[e] : torch_formula(c->inputs[i].seed, e);
        expected += is_listed ? numel : 0;
        operands[i] = (operand){.dtype = c->inputs[i].dtype, .rank = (int)c->inputs[i].shape.count, .values = values[i]};
        memcpy(operands[i].shape, c->inputs[i].shape.at, sizeof operands[i].shape);
        needed[i] = operands[i].dtype == SAMBA_FLOAT64;
    }

    op_bench bench;
    uint64_t unused = 0;
    op_bench_begin(&bench, c->op, &c->attrs, c->input_count, operands, &unused);
    if (bench.result == SAMBA_NONE)
        fail_msg("%s, %s: %s", samba_ops[c->op].name, c->name, samba_error_message(bench.context));
    samba_node node = *samba_node_at(bench.graph, bench.result);
    if (!samba_shape_equal(node.rank, node.shape, (int)c->shape.count, c->shape.at))
        fail_msg("%s, %s: not PyTorch's shape", samba_ops[c->op].name, c->name);
    op_bench_leaf(&bench, bench.count, SAMBA_FLOAT64, node.rank, node.shape);
    for (int64_t e = 0; e < bench.arrays[bench.count].numel; e++)
        array_set(&bench.arrays[bench.count], e, torch_formula(13, e));
    gradient_sink(&bench, "value", SAMBA_FWD, bench.result);
    samba_ref expanded = bench.result;
    if (samba_ops[c->op].expand)
        expanded = samba_ops[c->op].expand(bench.graph, samba_node_at(bench.graph, bench.result), bench.leaves);
    gradient_sink(&bench, "expanded", SAMBA_FWD, expanded);
    bench.graph->phase = SAMBA_BCKWD;
    samba_ref gradients[OPERANDS_MAX];
    gradient_emit(&bench, c->op, needed, gradients);
    for (int i = 0; i < c->input_count; i++)
        if (needed[i])
            gradient_sink(&bench, (const char *[]){"d0", "d1", "d2", "d3", "d4", "d5"}[i], SAMBA_BCKWD, gradients[i]);
    assert_int_equal(samba_graph_status(bench.graph), SAMBA_OK);

    samba_arena arena;
    samba_array sinks[TORCH_SINKS_MAX], *gradient = sinks + 2;
    gradient_evaluate(&bench, &arena, sinks);
    expect_numbers(c, "the value", &sinks[0], expected, TORCH_TOLERANCE);
    double kernel[TORCH_NUMEL_MAX];
    for (int64_t e = 0; e < sinks[0].numel; e++)
        kernel[e] = array_get(&sinks[0], e);
    assert_true(samba_shape_equal(sinks[0].rank, sinks[0].shape, sinks[1].rank, sinks[1].shape));
    expect_numbers(c, "the expansion", &sinks[1], kernel, EXPANSION_TOLERANCE);
    expected += sinks[0].numel;
    for (int i = 0; i < c->input_count; i++) {
        if (!needed[i])
            continue;
        assert_true(samba_shape_equal(gradient->rank, gradient->shape, operands[i].rank, operands[i].shape));
        expect_numbers(c, "a gradient", gradient, expected, TORCH_TOLERANCE);
        expected += gradient++->numel;
    }
    samba_arena_free(&arena);
    op_bench_end(&bench);
    if (c->smooth)
        gradient_check(c->op, &c->attrs, c->input_count, operands, 1);
}

#endif
