/* SPDX-License-Identifier: Apache-2.0
 *
 * What a session holds after a run, outputs, losses and gradients, against the same graph evaluated node by node by the reference
 * kernels from the session's parameters and inputs. Include after training.h. */
#ifndef SAMBA_TEST_REFERENCE_H
#define SAMBA_TEST_REFERENCE_H

#include "autodiff/autodiff.h"
#include "compiler/compiler.h"
#include "ops/ops.h"

#include <math.h>

typedef struct reference_case {
    const char *name;
    samba_model model;
    const void *model_options;
    int input_count;
    samba_tensor *const *inputs; /* the values of the run */
    bool inference;
    double tolerance; /* of the greatest value; 0: from the dtype */
    const char *seed; /* of dropout, NULL: none */
    int64_t seed_value;
    samba_precision precision;
} reference_case;

static inline double reference_tolerance(const reference_case *c, samba_dtype dtype)
{
    if (!samba_dtype_is_floating_point(dtype))
        return 0;
    if (c->tolerance > 0)
        return c->tolerance;
    return dtype == SAMBA_FLOAT64 ? 1e-11 : dtype == SAMBA_FLOAT16 ? 2e-3 : dtype == SAMBA_BFLOAT16 ? 2e-2 : 5e-5;
}

static inline void reference_compare(const reference_case *c, const char *what, const samba_array *expected,
                                     const samba_tensor *given)
{
    double worst = 0, scale = 1e-3, tolerance = reference_tolerance(c, expected->dtype);
    const char *a = expected->data, *b = samba_tensor_data(given);
    size_t size = samba_dtype_size(expected->dtype);
    assert_int_equal(expected->dtype, samba_tensor_dtype(given));
    assert_int_equal(expected->numel, samba_tensor_numel(given));
    for (int64_t i = 0; i < expected->numel; i++) {
        double x = samba_load_double(expected->dtype, a + (size_t)i * size),
               y = samba_load_double(expected->dtype, b + (size_t)i * size);
        if (fabs(x) > scale && isfinite(x))
            scale = fabs(x);
        if (isnan(x) != isnan(y) || (isinf(x) && x != y))
            worst = INFINITY;
        else if (isfinite(x) && !(fabs(x - y) <= worst))
            worst = fabs(x - y);
    }
    if (!(worst <= tolerance * scale))
        fail_msg("%s: %s differs by %g of a greatest value of %g (tolerance %g)", c->name, what, worst, scale, tolerance);
}

static inline void compare_with_reference(const reference_case *c, samba_session *session)
{
    enum { LEAVES = 64 };
    samba_graph *traced, *precise, *graph;
    need(samba_graph_new(context, c->name, &traced));
    for (int i = 0; i < c->input_count; i++)
        need(samba_graph_add_input(traced, c->inputs[i]));
    c->model(traced, c->model_options);
    need(samba_graph_status(traced));
    need(samba_lower_precision(traced, c->precision, &precise));
    if (c->inference)
        need(samba_graph_rewrite(precise, NULL, NULL, &graph));
    else
        need(samba_autodiff(precise, 1, &graph));
    const char *names[LEAVES];
    samba_array leaves[LEAVES], values[LEAVES];
    samba_tensor *held[LEAVES];
    int leaf_count = 0;
    int64_t seed = c->seed_value;
    for (int t = 0; t < samba_session_tensor_count(session); t++) {
        samba_tensor_info info;
        need(samba_session_tensor_info(session, t, &info));
        if (info.kind != SAMBA_KIND_PARAMETER && info.kind != SAMBA_KIND_INPUT)
            continue;
        assert_true(leaf_count < LEAVES - 1);
        need(samba_session_get_by_name(session, info.name, &held[leaf_count]));
        names[leaf_count] = info.name;
        samba_array *a = &leaves[leaf_count];
        *a = (samba_array){info.dtype, info.rank, {0}, samba_tensor_numel(held[leaf_count]), samba_tensor_data(held[leaf_count])};
        memcpy(a->shape, info.shape, sizeof a->shape);
        leaf_count++;
    }
    if (c->seed) {
        names[leaf_count] = c->seed;
        held[leaf_count] = NULL;
        leaves[leaf_count++] = (samba_array){SAMBA_INT64, 0, {0}, 1, &seed};
    }
    samba_arena arena;
    samba_arena_init(&arena, context);
    assert_true(graph->sink_count < LEAVES);
    need(samba_graph_evaluate(graph, leaf_count, names, leaves, &arena, values));
    for (int64_t s = 0; s < graph->sink_count; s++) {
        const samba_sink *sink = &graph->sinks[s];
        const char *name = sink->kind == SAMBA_SINK_ASSIGN
                               ? samba_graph_name_at(graph, samba_node_at(graph, sink->target)->attrs->state.name)
                               : samba_graph_name_at(graph, sink->name);
        samba_tensor *given = get(session, name);
        reference_compare(c, name, &values[s], given);
        samba_tensor_free(given);
    }
    for (int i = 0; i < leaf_count; i++)
        samba_tensor_free(held[i]);
    samba_arena_free(&arena);
    samba_graph_free(graph);
    samba_graph_free(precise);
    samba_graph_free(traced);
}

#endif
