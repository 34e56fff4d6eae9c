/* SPDX-License-Identifier: Apache-2.0
 *
 * Whether a PEF belongs to this command line. Its inputs must be named and typed as the application's, for the batch that was
 * asked for. The PEF decides what was not asked for: its batch, and without options of the model itself also sizes and classes.
 * With such options the model traced with them must be the graph in the PEF. */
#include "app/app.h"
#include "graph/graph.h"

#include <string.h>

const samba_plan_tensor *samba_plan_find(const samba_plan *plan, samba_tensor_kind kind, const char *name)
{
    for (int i = 0; i < plan->tensor_count; i++)
        if (plan->tensors[i].kind == (int32_t)kind && strcmp(plan->tensors[i].name, name) == 0)
            return &plan->tensors[i];
    return NULL;
}

static samba_status check_batch(const samba_app_run *run, const samba_plan *plan, int64_t batch)
{
    const samba_app_arguments *a = run->arguments;
    if (!a->batch_given && a->accumulation_given && a->accumulation != plan->graphs[0].grad_accumulation_steps &&
        !plan->graphs[0].inference)
        return samba_fail(run->context, SAMBA_ERROR_SHAPE,
                          "'%s' was compiled for %d runs in a step but --grad-accumulation-steps %d was given: leave it out, or "
                          "compile again with it",
                          a->pef, plan->graphs[0].grad_accumulation_steps, a->accumulation);
    if (!a->batch_given ||
        (a->microbatch == batch && (a->accumulation == plan->graphs[0].grad_accumulation_steps || plan->graphs[0].inference)))
        return SAMBA_OK;
    long long steps = plan->graphs[0].grad_accumulation_steps > 1 ? plan->graphs[0].grad_accumulation_steps : 1;
    return samba_fail(run->context, SAMBA_ERROR_SHAPE,
                      "'%s' was compiled for batch size %lld, microbatch size %lld, but %lld and %lld were given: leave out -b "
                      "and -mb, or compile again with them",
                      a->pef, steps * batch, (long long)batch, (long long)a->batch_size, (long long)a->microbatch);
}

/* The first line in which two texts differ. */
static void first_difference(const char *a, const char *b, char *line_a, char *line_b, size_t size)
{
    for (;;) {
        size_t na = strcspn(a, "\n"), nb = strcspn(b, "\n");
        if (na != nb || memcmp(a, b, na) != 0 || !a[na] || !b[nb]) {
            snprintf(line_a, size, "%.*s", (int)na, a);
            snprintf(line_b, size, "%.*s", (int)nb, b);
            return;
        }
        a += na + 1;
        b += nb + 1;
    }
}

samba_status samba_app_trace(const samba_app_run *run, const char *name, int count, const samba_app_input *inputs,
                             samba_graph **traced)
{
    const samba_app *app = run->arguments->app;
    samba_graph *graph;
    SAMBA_TRY(samba_graph_new(run->context, name, &graph));
    samba_status status = SAMBA_OK;
    for (int i = 0; status == SAMBA_OK && i < count; i++) {
        samba_tensor *example;
        status = samba_tensor_empty(run->context, inputs[i].name, inputs[i].dtype, inputs[i].rank, inputs[i].shape, &example);
        if (status == SAMBA_OK)
            status = samba_graph_add_input(graph, example);
        samba_tensor_free(example);
    }
    if (status == SAMBA_OK) {
        app->model(graph, app->settings);
        status = samba_graph_status(graph);
    }
    if (status == SAMBA_OK)
        *traced = graph;
    else
        samba_graph_free(graph);
    return status;
}

/* Compares text, then the literals beside it. */
static samba_status check_text(const samba_app_run *run, const samba_plan *plan, const samba_plan_graph *its,
                               const samba_graph *graph, samba_arena *arena)
{
    char *text, ours[256], theirs[256];
    int32_t count, same = 0;
    uint32_t *literals;
    SAMBA_TRY(samba_graph_print_beside(graph, arena, &text, &count, &literals));
    samba_status status = SAMBA_OK;
    while (same < count && same < its->literal_count &&
           samba_blob_equal(samba_graph_blob_at(graph, literals[same]), plan->blobs[its->literals[same]]))
        same++;
    if (strcmp(text, its->text) != 0) {
        first_difference(text, its->text, ours, theirs, sizeof ours);
        status = samba_fail(run->context, SAMBA_ERROR_SHAPE,
                            "'%s' holds another graph than these options make: it has \"%s\" where they give \"%s\"",
                            run->arguments->pef, theirs, ours);
    } else if (same < count) {
        status = samba_fail(run->context, SAMBA_ERROR_SHAPE,
                            "'%s' holds another graph than these options make: the values of its literal &%d are others",
                            run->arguments->pef, same);
    }
    samba_text_free(run->context, text);
    return status;
}

static samba_status check_graph(const samba_app_run *run, const samba_plan *plan, int32_t number, int count,
                                const samba_app_input *inputs)
{
    const samba_plan_graph *its = &plan->graphs[number];
    samba_graph *graph;
    samba_arena arena;
    SAMBA_TRY(samba_app_trace(run, plan->graph_count > 1 ? its->name : run->arguments->app->name, count, inputs, &graph));
    samba_arena_init(&arena, run->context);
    samba_status status = check_text(run, plan, its, graph, &arena);
    samba_arena_free(&arena);
    samba_graph_free(graph);
    return status;
}

static samba_status check_input(const samba_app_run *run, const samba_plan *plan, int32_t graph, samba_app_input *input)
{
    const samba_app_arguments *a = run->arguments;
    char wanted[SAMBA_SHAPE_TEXT], found[SAMBA_SHAPE_TEXT];
    const samba_plan_tensor *tensor = samba_plan_tensor_in(plan, graph, SAMBA_KIND_INPUT, input->name);
    if (!tensor)
        return samba_fail(run->context, SAMBA_ERROR_NAME, "'%s' has no input '%s': it is not a PEF of %s", a->pef, input->name,
                          a->app->name);
    if (!a->own_given && tensor->rank == input->rank) {
        memcpy(input->shape + 1, tensor->shape + 1, sizeof *input->shape * (size_t)(input->rank - 1));
        if (tensor->has_range)
            input->classes = tensor->high;
    }
    if (tensor->dtype != (int32_t)input->dtype || !samba_shape_equal(tensor->rank, tensor->shape, input->rank, input->shape))
        return samba_fail(run->context, SAMBA_ERROR_SHAPE,
                          "'%s' takes input '%s' as %s %s but %s gives %s %s: run with the options it was compiled with", a->pef,
                          tensor->name, samba_dtype_name((samba_dtype)tensor->dtype),
                          samba_shape_format(tensor->rank, tensor->shape, found, sizeof found), a->app->name,
                          samba_dtype_name(input->dtype), samba_shape_format(input->rank, input->shape, wanted, sizeof wanted));
    return SAMBA_OK;
}

/* A graph for each size of samples; or, of one size, another for the rest of the last batch. */
static samba_status check_count(const samba_app_run *run, const samba_plan *plan)
{
    const int sizes = samba_app_sizes(run->arguments->app);
    bool fine = plan->graph_count == sizes || (sizes == 1 && plan->graph_count == 2);
    for (int32_t g = 0; g < plan->graph_count && plan->graph_count > 1; g++)
        fine = fine && samba_is_size_like(plan->graphs[g].name, plan->graphs[0].name);
    if (fine)
        return SAMBA_OK;
    char count[64] = "one, or one more for the last batch";
    if (sizes > 1)
        snprintf(count, sizeof count, "%d", sizes);
    return samba_fail(run->context, SAMBA_ERROR_UNSUPPORTED,
                      "'%s' has %d graphs and this program's PEFs have %s: `sambaflow run` runs it", run->arguments->pef,
                      plan->graph_count, count);
}

/* The first input of a graph: its first dim counts the samples. */
static const samba_plan_tensor *first_input(const samba_plan *plan, int32_t graph)
{
    const samba_plan_graph *its = &plan->graphs[graph];
    for (int32_t i = 0; i < its->tensor_count; i++)
        if (plan->tensors[its->tensors[i]].kind == SAMBA_KIND_INPUT)
            return &plan->tensors[its->tensors[i]];
    return NULL;
}

samba_status samba_app_check(const samba_app_run *run, const samba_plan *plan, int32_t graph, int *count, samba_app_input *inputs)
{
    const samba_app_arguments *a = run->arguments;
    const samba_plan_tensor *first = first_input(plan, graph);
    const int sizes = samba_app_sizes(a->app);
    SAMBA_TRY(check_count(run, plan));
    if (a->mapping == SAMBA_MAPPING_SPATIAL && plan->graphs[0].mapping != SAMBA_MAPPING_SPATIAL)
        return samba_fail(run->context, SAMBA_ERROR_STATE,
                          "'%s' was compiled with mapping 'section': leave out --mapping spatial, or compile with it", a->pef);
    if (!first || first->rank == 0)
        return samba_fail(run->context, SAMBA_ERROR_NAME, "'%s' has no input with a batch: it is not a PEF of %s", a->pef,
                          a->app->name);
    if (graph < sizes)
        SAMBA_TRY(check_batch(run, plan, first->shape[0]));
    *count = samba_app_inputs(a->app, graph < sizes ? graph : 0, first->shape[0], inputs);
    for (int i = 0; i < *count; i++)
        SAMBA_TRY(check_input(run, plan, graph, &inputs[i]));
    /* train has just compiled it */
    return a->own_given && a->command != SAMBA_APP_TRAIN ? check_graph(run, plan, graph, *count, inputs) : SAMBA_OK;
}
