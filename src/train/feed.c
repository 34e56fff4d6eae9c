/* SPDX-License-Identifier: Apache-2.0
 *
 * How a batch becomes a run: fields are given to the inputs of their names, and the outputs that are wanted get host tensors,
 * made when a graph first runs. A batch that is smaller takes the graph of its size where the PEF has one, else the whole graph
 * with rows behind it padded. */
#include "train/train.h"

#include <math.h>
#include <string.h>

/* "<what> 'x' (did you mean 'y'?); <they> 'y', 'z'". `near` may be none of the names; NULL: nothing is. */
static samba_status fail_name(const samba_session *session, const char *what, const char *name, const char *near,
                              const char *they, const char *const *names, int count)
{
    samba_text list;
    samba_text_init(&list, session->context);
    for (int i = 0; i < count; i++)
        samba_text_add(&list, "%s'%s'", i ? ", " : "", names[i]);
    samba_fail(session->context, SAMBA_ERROR_NAME, "%s '%.128s'%s%s%s; %s %.400s", what, name, near ? " (did you mean '" : "",
               near ? near : "", near ? "'?)" : "", they, list.length ? list.data : "none");
    samba_text_clear(&list);
    return SAMBA_ERROR_NAME;
}

samba_status samba_feed_graph_of(samba_session *session, const char *name, int32_t *graph)
{
    const size_t length = name ? strlen(name) : 0;
    const samba_plan *plan = &session->plan;
    for (*graph = 0; *graph < plan->graph_count; ++*graph) {
        const char *its = plan->graphs[*graph].name;
        if (!name || strcmp(its, name) == 0 || (strncmp(its, name, length) == 0 && its[length] == '@'))
            return SAMBA_OK;
    }
    samba_arena arena;
    const char **names;
    char near[128];
    samba_arena_init(&arena, session->context);
    samba_status status = SAMBA_ROOM(&arena, names, plan->graph_count);
    for (int32_t g = 0; g < plan->graph_count && status == SAMBA_OK; g++)
        names[g] = plan->graphs[g].name;
    if (status == SAMBA_OK)
        status = fail_name(session, "the PEF has no graph", name, samba_nearest_graph(session, name, near), "it has", names,
                           plan->graph_count);
    samba_arena_free(&arena);
    return status;
}

static const samba_plan_tensor *tensor_of(const samba_session *session, int32_t graph, const char *name)
{
    const int32_t tensor = samba_sizes_find(session, graph, name);
    return tensor >= 0 && samba_plan_has_tensor(&session->plan.graphs[graph], tensor) ? &session->plan.tensors[tensor] : NULL;
}

static const samba_plan_tensor *input_of(const samba_session *session, int32_t graph, const char *name)
{
    const samba_plan_tensor *tensor = tensor_of(session, graph, name);
    return tensor && tensor->kind == SAMBA_KIND_INPUT ? tensor : NULL;
}

/* There is no output of that name. */
static samba_status fail_output(const samba_session *session, int32_t graph, const char *output)
{
    samba_arena arena;
    const char **names;
    int count = 0;
    char what[160];
    samba_arena_init(&arena, session->context);
    samba_status status = SAMBA_ROOM(&arena, names, session->plan.tensor_count + 1);
    for (int32_t i = 0; i < session->plan.tensor_count && status == SAMBA_OK; i++)
        if (session->plan.tensors[i].kind == SAMBA_KIND_OUTPUT && samba_plan_has_tensor(&session->plan.graphs[graph], i))
            names[count++] = session->plan.tensors[i].name;
    const char *near = status == SAMBA_OK ? samba_nearest(output, names, count) : NULL;
    snprintf(what, sizeof what, "graph '%.128s' has no output", session->plan.graphs[graph].name);
    if (status == SAMBA_OK)
        status = fail_name(session, what, output, near, near ? "it has" : "samba_output and samba_loss make one; it has", names,
                           count);
    samba_arena_free(&arena);
    return status;
}

/* The names of a graph's tensors of a kind, to be cleared. */
static void list_tensors(samba_text *names, const samba_session *session, int32_t graph, samba_tensor_kind kind)
{
    samba_text_init(names, session->context);
    for (int32_t i = 0; i < session->plan.tensor_count; i++)
        if (session->plan.tensors[i].kind == (int32_t)kind && samba_plan_has_tensor(&session->plan.graphs[graph], i))
            samba_text_add(names, "%s'%s'", names->length ? ", " : "", session->plan.tensors[i].name);
}

samba_status samba_feed_find_loss(samba_session *session, const char *graph_name, const char **loss)
{
    int32_t graph;
    int count = 0;
    SAMBA_TRY(samba_feed_graph_of(session, graph_name, &graph));
    for (int32_t i = 0; i < session->plan.tensor_count; i++) {
        const samba_plan_tensor *tensor = &session->plan.tensors[i];
        double start;
        if (tensor->kind != SAMBA_KIND_OUTPUT || tensor->rank != 0 || !samba_plan_has_tensor(&session->plan.graphs[graph], i))
            continue;
        if (tensor->is_loss || (samba_plan_start(&session->plan, i, &start) && start == 1)) {
            *loss = tensor->name;
            count++;
        }
    }
    return count == 1
               ? SAMBA_OK
               : samba_fail(session->context, SAMBA_ERROR_NAME, "%s: `loss` of the options says which output of one number it is",
                            count ? "the PEF has several losses" : "the PEF has no loss of one number");
}

samba_status samba_feed_rows(samba_session *session, const samba_source *source, const char *graph_name, int64_t *rows)
{
    int32_t graph;
    SAMBA_TRY(samba_feed_graph_of(session, graph_name, &graph));
    for (int i = 0; i < source->o.field_count; i++) {
        const samba_plan_tensor *input = input_of(session, graph, source->o.fields[i].name);
        if (input && input->rank > 0) {
            *rows = input->shape[0];
            return SAMBA_OK;
        }
    }
    samba_text names;
    list_tensors(&names, session, graph, SAMBA_KIND_INPUT);
    samba_fail(session->context, SAMBA_ERROR_NAME,
               "no field of the source is an input of the graph, which has %.400s: the first is '%s'",
               names.data ? names.data : "none", source->o.fields[0].name);
    samba_text_clear(&names);
    return SAMBA_ERROR_NAME;
}

/* ---- opening ---- */

static samba_status check_fields(const samba_feed *feed, int32_t graph)
{
    const samba_source_options *o = &feed->source->o;
    for (int i = 0; i < o->field_count; i++) {
        const samba_field *field = &o->fields[i];
        const samba_plan_tensor *input = input_of(feed->session, graph, field->name);
        if (!input)
            continue;
        if (input->dtype != (int32_t)field->dtype)
            return samba_fail(feed->session->context, SAMBA_ERROR_DTYPE,
                              "field '%s' is %s, and the input of that name is %s: make the source of that dtype "
                              "(samba_column.field of a file)",
                              field->name, samba_dtype_name(field->dtype), samba_dtype_name((samba_dtype)input->dtype));
        if (input->rank != field->rank + 1 ||
            memcmp(input->shape + 1, field->shape, sizeof *field->shape * (size_t)field->rank) != 0)
            return samba_fail(feed->session->context, SAMBA_ERROR_SHAPE,
                              "samples of field '%s' have the shape %s, and the input of that name takes a batch of %s",
                              field->name, SAMBA_SHAPE_OF(field), SAMBA_SHAPE(input->rank - 1, input->shape + 1));
        if (input->shape[0] != feed->rows)
            return samba_fail(feed->session->context, SAMBA_ERROR_SHAPE,
                              "batch_size is %lld, and input '%s' takes %lld samples: give no batch_size, or compile with that",
                              (long long)feed->rows, field->name, (long long)input->shape[0]);
    }
    return SAMBA_OK;
}

samba_status samba_feed_open(samba_feed *feed, samba_session *session, const samba_source *source, int64_t rows, bool pads,
                             const char *graph_name, const char *loss)
{
    int32_t graph;
    int place;
    *feed = (samba_feed){.session = session, .source = source, .graph_name = graph_name, .pads = pads, .rows = rows};
    samba_arena_init(&feed->arena, session->context);
    SAMBA_TRY(SAMBA_ROOM(&feed->arena, feed->graphs, session->plan.graph_count));
    SAMBA_TRY(samba_feed_graph_of(session, graph_name, &graph));
    SAMBA_TRY(check_fields(feed, graph));
    if (!loss)
        return SAMBA_OK;
    feed->has_loss = true;
    SAMBA_TRY(samba_feed_add(feed, loss, &place));
    const samba_plan_tensor *its = tensor_of(session, graph, loss);
    return its->rank == 0 ? SAMBA_OK
                          : samba_fail(session->context, SAMBA_ERROR_SHAPE, "the loss '%s' is of shape %s and not one number",
                                       loss, SAMBA_SHAPE_OF(its));
}

samba_status samba_feed_add(samba_feed *feed, const char *output, int *place)
{
    int32_t graph;
    for (*place = 0; *place < feed->output_count; ++*place)
        if (strcmp(feed->outputs[*place], output) == 0)
            return SAMBA_OK;
    SAMBA_TRY(samba_feed_graph_of(feed->session, feed->graph_name, &graph));
    const samba_plan_tensor *tensor = tensor_of(feed->session, graph, output);
    if (!tensor || tensor->kind != SAMBA_KIND_OUTPUT)
        return fail_output(feed->session, graph, output);
    if (feed->output_count == SAMBA_FEED_OUTPUTS)
        return samba_fail(feed->session->context, SAMBA_ERROR_ARGUMENT, "metrics of more than %d outputs",
                          SAMBA_FEED_OUTPUTS - 1);
    feed->outputs[feed->output_count++] = output;
    return SAMBA_OK;
}

void samba_feed_list_fields(samba_text *names, const samba_session *session, const samba_source *source)
{
    samba_text_init(names, session->context);
    for (int i = 0; i < source->o.field_count; i++)
        samba_text_add(names, "%s'%s'", i ? ", " : "", source->o.fields[i].name);
}

samba_status samba_feed_check_inputs(samba_session *session, const samba_source *source, const char *graph_name)
{
    const samba_plan *plan = &session->plan;
    int32_t graph;
    SAMBA_TRY(samba_feed_graph_of(session, graph_name, &graph));
    for (int32_t t = 0; t < plan->tensor_count; t++) {
        bool found = session->given[t] || !samba_plan_has_tensor(&plan->graphs[graph], t);
        for (int i = 0; i < source->o.field_count && !found; i++)
            found = samba_sizes_find(session, graph, source->o.fields[i].name) == t;
        if (found)
            continue;
        const char *fields[SAMBA_MAX_FIELDS];
        for (int i = 0; i < source->o.field_count; i++)
            fields[i] = source->o.fields[i].name;
        const char *near = samba_nearest(plan->tensors[t].name, fields, source->o.field_count);
        samba_text names;
        samba_feed_list_fields(&names, session, source);
        samba_fail(session->context, SAMBA_ERROR_NAME,
                   "no field of the source gives input '%s' of graph '%s'%s%s%s; its fields are %.400s: name one of them so, or "
                   "samba_session_set gives it a value that stays",
                   plan->tensors[t].name, plan->graphs[graph].name, near ? " (is it '" : "", near ? near : "", near ? "'?)" : "",
                   names.data ? names.data : "none");
        samba_text_clear(&names);
        return SAMBA_ERROR_NAME;
    }
    return SAMBA_OK;
}

void samba_feed_close(samba_feed *feed)
{
    for (int32_t g = 0; feed->graphs && g < feed->session->plan.graph_count; g++)
        for (int i = 0; i < SAMBA_FEED_OUTPUTS; i++)
            samba_tensor_free(feed->graphs[g].outputs[i]);
    if (feed->session)
        samba_arena_free(&feed->arena);
    *feed = (samba_feed){0};
}

/* ---- runs ---- */

/* A graph of the function that takes so many samples; -1: none does. */
static int32_t graph_for(const samba_feed *feed, int64_t count)
{
    const samba_plan *plan = &feed->session->plan;
    int32_t first;
    if (samba_feed_graph_of(feed->session, feed->graph_name, &first) != SAMBA_OK)
        return -1;
    const char *name = feed->graph_name ? feed->graph_name : plan->graphs[0].name;
    const char *size = strchr(name, '@');
    const size_t length = size ? (size_t)(size - name) : strlen(name);
    for (int32_t g = first; g < plan->graph_count; g++) {
        const char *its = plan->graphs[g].name;
        bool fits = g == first || (strncmp(its, name, length) == 0 && its[length] == '@');
        for (int i = 0; fits && i < feed->source->o.field_count; i++) {
            const samba_field *field = &feed->source->o.fields[i];
            const samba_plan_tensor *input = input_of(feed->session, g, field->name);
            fits = !input || (input->rank == field->rank + 1 && input->shape[0] == count &&
                              memcmp(input->shape + 1, field->shape, sizeof *field->shape * (size_t)field->rank) == 0);
        }
        if (fits)
            return g;
    }
    return -1;
}

samba_status samba_feed_check(samba_feed *feed, int64_t count, bool drop_possible)
{
    if (count == 0 || count == feed->rows || feed->pads || !feed->has_loss || graph_for(feed, count) >= 0)
        return SAMBA_OK;
    return samba_fail(
        feed->session->context, SAMBA_ERROR_SHAPE,
        "the last batch has %lld samples of %lld: compile a size of %lld too (samba_multigraph_add_size), or say by "
        "`pads` what the loss leaves out, such as a label of -100%s",
        (long long)count, (long long)feed->rows, (long long)count, drop_possible ? ", or give drop_last" : "");
}

static samba_status make_outputs(samba_feed *feed, int32_t number, samba_feed_graph *graph)
{
    graph->made = true;
    for (int i = 0; i < feed->output_count; i++) {
        const samba_plan_tensor *output = tensor_of(feed->session, number, feed->outputs[i]);
        if (!output)
            return fail_output(feed->session, number, feed->outputs[i]);
        if (!graph->outputs[i])
            SAMBA_TRY(samba_tensor_new(feed->session->context, feed->outputs[i], (samba_dtype)output->dtype, output->rank,
                                       output->shape, &graph->outputs[i]));
    }
    return SAMBA_OK;
}

samba_status samba_feed_run(samba_feed *feed, const samba_batch *batch, samba_run_options *run, samba_feed_graph **graph)
{
    const bool whole = batch->count == feed->rows;
    int32_t number = graph_for(feed, batch->count);
    const bool padded = !whole && number < 0;
    if (padded) {
        SAMBA_TRY(samba_feed_check(feed, batch->count, run->train));
        number = graph_for(feed, feed->rows);
    }
    if (number < 0)
        return samba_fail(feed->session->context, SAMBA_ERROR_SHAPE, "the PEF has no graph for batches of %lld samples",
                          (long long)feed->rows);
    samba_feed_graph *its = &feed->graphs[number];
    if (!its->made || !its->outputs[0])
        SAMBA_TRY(make_outputs(feed, number, its));
    run->input_count = 0;
    run->inputs = feed->inputs;
    for (int i = 0; i < batch->tensor_count; i++)
        if (input_of(feed->session, number, feed->source->o.fields[i].name))
            feed->inputs[run->input_count++] = padded ? batch->padded[i] : batch->tensors[i];
    run->outputs = its->outputs;
    run->output_count = feed->output_count;
    run->graph_name = feed->session->plan.graph_count > 1 ? feed->session->plan.graphs[number].name : NULL;
    *graph = its;
    return SAMBA_OK;
}
