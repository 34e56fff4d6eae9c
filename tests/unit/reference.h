/* SPDX-License-Identifier: Apache-2.0
 *
 * What a session holds after a run, outputs, losses and gradients, against the same graph evaluated node by node by the reference
 * kernels from the session's parameters and inputs. Include after training.h. */
#ifndef SAMBA_TEST_REFERENCE_H
#define SAMBA_TEST_REFERENCE_H

#include "autodiff/autodiff.h"
#include "compiler/compiler.h"
#include "ops/ops.h"
#include "plan/plan.h"

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

/* What a sink fills: a state's name, or an output's or a loss's own. */
static inline const char *sink_name(const samba_graph *graph, const samba_sink *sink)
{
    return samba_graph_name_at(graph, sink->kind == SAMBA_SINK_ASSIGN ? samba_node_at(graph, sink->target)->attrs->state.name
                                                                      : sink->name);
}

static inline void compare_with_reference(const reference_case *c, samba_session *session)
{
    enum { LEAVES = 64 };
    OWN_GRAPH *traced, *precise, *graph;
    need(samba_graph_new(context, c->name, &traced));
    for (int i = 0; i < c->input_count; i++)
        need(samba_graph_add_input(traced, c->inputs[i]));
    c->model(traced, c->model_options);
    need(samba_graph_status(traced));
    need(samba_lower_precision(traced, c->precision, &precise));
    need(c->inference ? samba_graph_rewrite(precise, NULL, NULL, &graph) : samba_autodiff(precise, 1, NULL, &graph));
    const char *names[LEAVES];
    samba_array leaves[LEAVES], values[LEAVES];
    samba_tensor *held[LEAVES] = {NULL};
    int count = 0;
    int64_t seed = c->seed_value;
    for (int t = 0; t < samba_session_tensor_count(session); t++) {
        samba_tensor_info info;
        need(samba_session_tensor_info(session, t, &info));
        if (info.kind != SAMBA_KIND_PARAMETER && info.kind != SAMBA_KIND_INPUT)
            continue;
        assert_true(count < LEAVES - 1);
        held[count] = get(session, info.name);
        names[count] = info.name;
        leaves[count] =
            (samba_array){info.dtype, info.rank, {0}, samba_tensor_numel(held[count]), samba_tensor_data(held[count])};
        memcpy(leaves[count].shape, info.shape, sizeof info.shape);
        count++;
    }
    if (c->seed) {
        names[count] = c->seed;
        leaves[count++] = (samba_array){SAMBA_INT64, 0, {0}, 1, &seed};
    }
    samba_arena arena;
    samba_arena_init(&arena, context);
    assert_true(graph->sink_count < LEAVES);
    need(samba_graph_evaluate(graph, count, names, leaves, &arena, values));
    for (int64_t s = 0; s < graph->sink_count; s++) {
        const char *name = sink_name(graph, &graph->sinks[s]);
        OWN_TENSOR *given = get(session, name);
        reference_compare(c, name, &values[s], given);
    }
    free_each_tensor(count, held);
    samba_arena_free(&arena);
}

/* A run of a PEF on a team, on an instruction set or, NULL, the best: what it holds is what the reference has. Another run before
 * it shows that what is left in memory does not matter. The session is the caller's. */
static inline samba_session *run_against_reference(const reference_case *c, const char *path, int threads, const char *isa)
{
    samba_session_options options = samba_session_defaults();
    options.threads = threads;
    options.isa = isa;
    options.seed = 3;
    samba_session *session;
    need(samba_session_new(context, path, &options, &session));
    samba_run_options run = giving(c->input_count, c->inputs);
    run.hyperparameters = &(samba_hyperparameter){"seed", (double)c->seed_value};
    run.hyperparameter_count = c->seed != NULL;
    for (int i = 0; i < 2; i++)
        need(samba_run(session, &run));
    compare_with_reference(c, session);
    return session;
}

/* ---- what passes made: the graph's text after simplify, the plan's log after section ---- */
typedef struct pass_texts {
    char *simplified, *planned;
} pass_texts;

static inline void take_text(void *user, const char *pass, const char *text)
{
    pass_texts *texts = user;
    char **to = strcmp(pass, "simplify") == 0 ? &texts->simplified : strcmp(pass, "section") == 0 ? &texts->planned : NULL;
    if (to)
        *to = strdup(text);
}

static inline void free_texts(pass_texts *texts)
{
    free(texts->simplified);
    free(texts->planned);
}

static inline int occurrences(const char *text, const char *word)
{
    int count = 0;
    for (const char *at = strstr(text, word); at; at = strstr(at + 1, word))
        count++;
    return count;
}

static inline bool operand_form(const samba_stage *stage, int o, samba_tile_form form)
{
    for (int i = 0; i < stage->program.instruction_count; i++)
        if (stage->program.instructions[i].operand == o && samba_tile_table[stage->program.instructions[i].op].form == form)
            return true;
    return false;
}

/* Stages that store where they load. */
static inline int in_place_stages(const samba_plan *plan)
{
    int count = 0;
    for (int32_t s = 0; s < plan->stage_count; s++) {
        const samba_stage *stage = &plan->stages[s];
        bool found = false;
        for (int i = 0; i < stage->operand_count && stage->program.instruction_count > 0; i++)
            for (int j = 0; j < stage->operand_count; j++)
                found = found || (i != j && stage->operands[i].buffer == stage->operands[j].buffer &&
                                  operand_form(stage, i, SAMBA_FORM_LOAD) && operand_form(stage, j, SAMBA_FORM_STORE));
        count += found;
    }
    return count;
}

/* The case compiled; its texts are the caller's. */
static inline pass_texts compile_case(const reference_case *c, int64_t chunk_bytes, char path[512])
{
    pass_texts texts = {NULL, NULL};
    samba_compile_options options = compile_of("case", c->model, c->model_options, c->input_count, c->inputs);
    options.inference = c->inference;
    options.precision = c->precision;
    options.chunk_bytes = chunk_bytes;
    options.dump_after = "all";
    options.dump = take_text;
    options.dump_user = &texts;
    need(samba_compile(context, &options, path, 512));
    return texts;
}

/* A compiled case on teams of 1 and 2. */
static inline void check_teams(const reference_case *c, const char *path)
{
    for (int threads = 1; threads <= 2; threads++)
        samba_session_free(run_against_reference(c, path, threads, NULL));
}

#endif
