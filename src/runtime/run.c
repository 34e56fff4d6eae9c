/* SPDX-License-Identifier: Apache-2.0
 *
 * A run: check everything; then hyperparameters and inputs go to the device, sections run, outputs come back. Nothing is changed
 * before all checks have passed, and nothing is allocated. */
#include "runtime/runtime.h"
#include <sambaflow/warning.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

samba_run_options samba_run_defaults(void)
{
    return (samba_run_options){
        .struct_size = sizeof(samba_run_options), .train = true, .run_from_call_id = -1, .run_until_call_id = -1};
}

/* ---- checks ---- */
static samba_status check_lists(const samba_session *session, const samba_run_options *options)
{
    if (options->input_count < 0 || options->output_count < 0 || options->hyperparameter_count < 0 ||
        (options->input_count > 0 && !options->inputs) || (options->output_count > 0 && !options->outputs) ||
        (options->hyperparameter_count > 0 && !options->hyperparameters) || options->output_gradient_count < 0 ||
        (options->output_gradient_count > 0 && !options->output_gradients))
        return samba_fail(session->context, SAMBA_ERROR_ARGUMENT,
                          "%d inputs, %d outputs, %d gradients and %d hyperparameters: a count or its list is missing",
                          options->input_count, options->output_count, options->output_gradient_count,
                          options->hyperparameter_count);
    return SAMBA_OK;
}

/* One that the graph has. */
static samba_status check_in_graph(const samba_session *session, int32_t index, int kind, int32_t tensor)
{
    const samba_plan_graph *graph = &session->plan.graphs[index];
    if (session->plan.graph_count == 1 || samba_plan_has_tensor(graph, tensor))
        return SAMBA_OK;
    const char *what = kind == SAMBA_KIND_INPUT ? "input" : "output";
    samba_words words = {.used = 0};
    for (int32_t i = 0; i < graph->tensor_count; i++)
        if (session->plan.tensors[graph->tensors[i]].kind == kind)
            samba_words_add(&words, session->plan.tensors[graph->tensors[i]].name);
    int32_t other = 0; /* some graph has it */
    while (other + 1 < session->plan.graph_count && !samba_plan_has_tensor(&session->plan.graphs[other], tensor))
        other++;
    const char *its = session->plan.tensors[tensor].name;
    return samba_fail(session->context, SAMBA_ERROR_NAME,
                      "graph \"%.128s\" has no %s \"%.128s\": its %ss are %s; give those, or run graph \"%.128s\", which has "
                      "\"%.128s\" (in Python graph_name=)",
                      graph->name, what, its, what, samba_words_text(&words), session->plan.graphs[other].name, its);
}

/* A tensor of a list: there, named as one of the PEF of that kind, and once. Lists are short. */
static samba_status check_listed(const samba_session *session, int32_t graph, samba_tensor *const *list, int at, int kind,
                                 int32_t *tensor)
{
    const char *what = kind == SAMBA_KIND_INPUT ? "input" : "output";
    if (!list[at])
        return samba_fail(session->context, SAMBA_ERROR_ARGUMENT, "%s %d of the run is NULL", what, at);
    SAMBA_TRY(samba_session_find(session, samba_tensor_name(list[at]), kind, tensor));
    *tensor = samba_sizes_find(session, graph, samba_tensor_name(list[at]));
    SAMBA_TRY(check_in_graph(session, graph, kind, *tensor));
    for (int i = 0; i < at; i++)
        if (samba_sizes_find(session, graph, samba_tensor_name(list[i])) == *tensor)
            return samba_fail(session->context, SAMBA_ERROR_NAME, "%s \"%.128s\" was given twice", what,
                              samba_tensor_name(list[at]));
    return SAMBA_OK;
}

static bool is_output_gradient(const samba_session *session, int32_t tensor)
{
    return samba_is_of(session, &session->plan.tensors[tensor], ".grad", SAMBA_KIND_OUTPUT);
}

/* "loss" of "loss.grad"; false where the name ends otherwise. */
static bool output_of(const char *gradient, char output[128])
{
    const size_t length = strlen(gradient), end = sizeof ".grad" - 1;
    const bool has = length > end && strcmp(gradient + length - end, ".grad") == 0;
    snprintf(output, 128, "%.*s", (int)(has ? length - end : length), gradient);
    return has;
}

static samba_status fail_output_gradient(const samba_session *session, const char *name)
{
    char its[128];
    samba_words words = {.used = 0};
    for (int32_t i = 0; i < session->plan.tensor_count; i++)
        if (is_output_gradient(session, i) && output_of(session->plan.tensors[i].name, its))
            samba_words_add(&words, its);
    const int32_t output = output_of(name, its) ? samba_names_find(&session->tensors, its) : -1;
    if (output >= 0 && session->plan.tensors[output].kind == SAMBA_KIND_OUTPUT)
        return samba_fail(session->context, SAMBA_ERROR_NAME,
                          "output \"%s\" takes no gradient, because it is not one of the losses that the model was compiled with "
                          "(%s): give none for it, or compile with it among the losses (in Python loss_indices)",
                          its, samba_words_text(&words));
    return samba_fail(session->context, SAMBA_ERROR_NAME,
                      "there is no gradient \"%.128s\" of an output: give \"OUTPUT.grad\" of a loss that the model was compiled "
                      "with (%s), or compile with others (in Python loss_indices)",
                      name, samba_words_text(&words));
}

/* As check_listed; "<output>.grad" of an output that gradients start from. */
static samba_status check_output_gradient(const samba_session *session, int32_t graph, samba_tensor *const *list, int at,
                                          int32_t *tensor)
{
    if (!list[at])
        return samba_fail(session->context, SAMBA_ERROR_ARGUMENT, "gradient %d of the run is NULL", at);
    const char *name = samba_tensor_name(list[at]);
    *tensor = samba_sizes_find(session, graph, name);
    if (*tensor < 0 || !is_output_gradient(session, *tensor)) {
        return fail_output_gradient(session, name);
    }
    for (int i = 0; i < at; i++)
        if (samba_sizes_find(session, graph, samba_tensor_name(list[i])) == *tensor)
            return samba_fail(session->context, SAMBA_ERROR_NAME, "gradient \"%.128s\" was given twice", name);
    return SAMBA_OK;
}

/* Indices that were only set, such as those of dummy inputs, are checked too:
 * a run would compute nothing that anyone asked for. */
static samba_status check_set_inputs(const samba_session *session, int32_t graph, const samba_run_options *options)
{
    for (int32_t i = 0; i < session->plan.tensor_count; i++) {
        bool read =
            session->bad_inputs[i] && (session->plan.graph_count == 1 || samba_plan_has_tensor(&session->plan.graphs[graph], i));
        for (int k = 0; read && k < options->input_count; k++)
            read = samba_sizes_find(session, graph, samba_tensor_name(options->inputs[k])) != i;
        if (read)
            SAMBA_TRY(samba_check_own_input(session, i));
    }
    return SAMBA_OK;
}

static samba_status check_arguments(const samba_session *session, int32_t graph, const samba_run_options *options)
{
    int32_t tensor;
    for (int i = 0; i < options->input_count; i++) {
        SAMBA_TRY(check_listed(session, graph, options->inputs, i, SAMBA_KIND_INPUT, &tensor));
        SAMBA_TRY(samba_check_host_source(session, tensor, options->inputs[i], "input"));
    }
    for (int i = 0; i < options->output_count; i++) {
        SAMBA_TRY(check_listed(session, graph, options->outputs, i, SAMBA_KIND_OUTPUT, &tensor));
        SAMBA_TRY(samba_check_host_target(session, tensor, options->outputs[i], "output"));
    }
    for (int i = 0; i < options->output_gradient_count; i++) {
        SAMBA_TRY(check_output_gradient(session, graph, options->output_gradients, i, &tensor));
        SAMBA_TRY(samba_check_host_source(session, tensor, options->output_gradients[i], "gradient"));
    }
    for (int i = 0; i < options->hyperparameter_count; i++)
        SAMBA_TRY(samba_check_hyper(session, &options->hyperparameters[i]));
    return SAMBA_OK;
}

/* ---- the run ---- */
static int32_t find(const samba_session *session, int32_t graph, const samba_tensor *host)
{
    return samba_sizes_find(session, graph, samba_tensor_name(host));
}

/* Inputs that move in one piece are copied by the device as a part of the run;
 * other inputs move now, other outputs in move_out. */
static samba_status move_in(samba_session *session, int32_t graph, const samba_run_options *options, samba_device_run *work)
{
    samba_device_copy *next = session->copies;
    for (int i = 0; i < options->hyperparameter_count; i++)
        SAMBA_TRY(samba_hyper_set(session, &options->hyperparameters[i]));
    for (int i = 0; i < options->output_gradient_count; i++)
        SAMBA_TRY(samba_transfer_in(session, find(session, graph, options->output_gradients[i]), options->output_gradients[i]));
    work->in = next;
    for (int i = 0; i < options->input_count; i++) {
        int32_t tensor = find(session, graph, options->inputs[i]);
        samba_given_note(session, tensor, SAMBA_GIVEN_BY_RUN);
        if (samba_transfer_is_copy(session, tensor, options->inputs[i], next))
            next++;
        else
            SAMBA_TRY(samba_transfer_in(session, tensor, options->inputs[i]));
        samba_note_input(session, tensor, false); /* it was checked */
    }
    work->in_count = (int32_t)(next - work->in);
    work->out = next;
    for (int i = 0; i < options->output_count; i++)
        next += samba_transfer_is_copy(session, find(session, graph, options->outputs[i]), options->outputs[i], next);
    work->out_count = (int32_t)(next - work->out);
    return SAMBA_OK;
}

static samba_status move_out(samba_session *session, int32_t graph, const samba_run_options *options)
{
    samba_device_copy done;
    for (int i = 0; i < options->output_count; i++) {
        int32_t tensor = find(session, graph, options->outputs[i]);
        if (!samba_transfer_is_copy(session, tensor, options->outputs[i], &done))
            SAMBA_TRY(samba_transfer_out(session, tensor, options->outputs[i]));
    }
    return SAMBA_OK;
}

/* The facts that the session keeps of a run that is about to begin. */
static void count_run(samba_session *session, const samba_selection *selection)
{
    samba_graph_state *graph = &session->graphs[selection->graph];
    graph->order = selection->order;
    graph->backward_done |= selection->backward;
    graph->gradients_wait = selection->gradients_wait;
    graph->reduced = selection->reduced;
    graph->norm_known = selection->norm_known;
    graph->train = selection->train;
    graph->together = selection->together;
    session->last = selection->last;
    session->graph = selection->graph;
    session->forward_runs += selection->begins;
    session->skipped |= selection->skipped;
    session->runs++;
    if (selection->computes)
        samba_sizes_take_outputs(session, selection->graph);
    if (selection->ends_schedule)
        graph->micro_step = (graph->micro_step + 1) % session->plan.graphs[selection->graph].grad_accumulation_steps;
}

/* Activations and gradients of a run that met bad data are of no use: the next begins a step. */
static void forget_step(samba_graph_state *graph)
{
    graph->order = (samba_run_order){.spoiled = -1};
    graph->micro_step = 0;
    graph->backward_done = graph->gradients_wait = graph->norm_known = false;
    graph->reduced = 0;
}

samba_status samba_run_device(samba_session *session, const samba_device_run *work)
{
    SAMBA_TRY(session->device->interface->run(session->device, work));
    return session->device->interface->wait(session->device);
}

static samba_status run_sections(samba_session *session, const samba_selection *selection, const samba_device_run *work,
                                 const samba_replica_mode *mode)
{
    const bool train = selection->train || !selection->computes;
    if (selection->begins)
        SAMBA_TRY(samba_hyper_draw_seeds(session));
    if (!train)
        SAMBA_TRY(samba_hyper_train(session, false));
    SAMBA_TRY(samba_hyper_replicas(session, mode && train ? samba_session_size(session) : 1));
    count_run(session, selection);
    double start = samba_seconds();
    samba_status status = mode ? samba_run_replicas(session, work, *mode, train) : samba_run_device(session, work);
    session->stats.kernel_seconds += samba_seconds() - start;
    if (status != SAMBA_OK)
        forget_step(&session->graphs[selection->graph]);
    if (!train) {
        samba_status restored = samba_hyper_train(session, true);
        status = status == SAMBA_OK ? restored : status;
    }
    return status;
}

/* Notes the first run in which a loss is not finite. */
static samba_status look_at_losses(samba_session *session)
{
    for (int32_t i = 0; i < session->loss_count; i++) {
        samba_loss_state *loss = &session->losses[i];
        if (loss->warning != SAMBA_WARNING_QUIET)
            continue;
        const samba_plan_tensor *tensor = &session->plan.tensors[loss->tensor];
        char bytes[8];
        SAMBA_TRY(session->device->interface->read(session->device, samba_session_offset(session, tensor->buffer), bytes,
                                                   samba_dtype_size((samba_dtype)tensor->dtype)));
        loss->value = samba_load_double((samba_dtype)tensor->dtype, bytes);
        loss->run = session->runs;
        if (!isfinite(loss->value))
            loss->warning = SAMBA_WARNING_PENDING;
    }
    return SAMBA_OK;
}

static samba_status run(samba_session *session, const samba_run_options *options)
{
    samba_selection selection;
    int32_t graph;
    SAMBA_TRY(check_lists(session, options));
    SAMBA_TRY(samba_select_graph(session, options->graph_name, options->input_count, options->inputs, &graph));
    SAMBA_TRY(check_arguments(session, graph, options));
    samba_replica_mode mode;
    SAMBA_TRY(samba_check_replicas(session, graph, options, &mode));
    SAMBA_TRY(samba_select_sections(session, options, &selection));
    SAMBA_TRY(samba_check_shards(session, options, &selection));
    if (selection.computes && session->bad_count > 0)
        SAMBA_TRY(check_set_inputs(session, graph, options));
    SAMBA_TRY(samba_check_given(session, options, &selection));
    SAMBA_TRY(samba_check_reuse(session, options, &selection));
    if (options->data_parallel)
        SAMBA_TRY(samba_session_join(session));
    if (selection.backward)
        SAMBA_TRY(samba_look_at_launch(session, options));
    samba_device_run work = {.sections = selection.sections, .section_count = selection.count};
    SAMBA_TRY(move_in(session, graph, options, &work));
    samba_reuse_note(session, options, &selection);
    SAMBA_TRY(samba_weights_need_all(session));
    if (options->data_parallel)
        SAMBA_TRY(samba_share_weights(session));
    SAMBA_TRY(run_sections(session, &selection, &work, options->data_parallel ? &mode : NULL));
    if (!options->train && session->eval_step == SAMBA_WARNING_QUIET && selection.steps)
        session->eval_step = SAMBA_WARNING_PENDING;
    if (selection.computes) /* backward may deliver a loss that forward left out */
        SAMBA_TRY(look_at_losses(session));
    return move_out(session, graph, options);
}

samba_status samba_run(samba_session *session, const samba_run_options *given)
{
    SAMBA_NEED(NULL, session);
    double start = samba_seconds();
    samba_run_options options = samba_run_defaults();
    SAMBA_TRY(samba_session_enter(session, "samba_run"));
    samba_status status = given ? samba_options_take(session->context, "samba_run", given, sizeof options, &options) : SAMBA_OK;
    if (status == SAMBA_OK)
        status = run(session, &options);
    session->stats.runs += status == SAMBA_OK;
    session->stats.total_seconds += samba_seconds() - start;
    return samba_session_leave(session, status);
}

static const char *tell_skipped(samba_session *session)
{
    unsigned untold = session->skipped & ~session->skipped_told;
    char types[64] = "";
    for (int phase = 0; phase < 6; phase++)
        if (untold & 1u << phase)
            snprintf(types + strlen(types), sizeof types - strlen(types), "%s%s", types[0] ? ", " : "",
                     samba_section_type_names[phase]);
    session->skipped_told |= untold;
    snprintf(session->warning, sizeof session->warning,
             "the %s that ran has no section of type %s, which its model does not need: runs leave it out",
             session->plan.graph_count > 1 ? "graph" : session->source, types);
    return session->warning;
}

/* What all replicas have alike: the first tells it. */
static const char *tell_common(samba_session *session)
{
    const char *caution = session->device->caution;
    session->device->caution = NULL;
    if (caution)
        return caution;
    if (session->tuned.warning[0] && !session->untuned_told) {
        session->untuned_told = true;
        return session->tuned.warning;
    }
    if (session->skipped & ~session->skipped_told)
        return tell_skipped(session);
    if (session->unused_rate == SAMBA_WARNING_PENDING) {
        session->unused_rate = SAMBA_WARNING_TOLD;
        return "hyperparameter \"p\" has no effect: there is no dropout";
    }
    if (session->eval_step == SAMBA_WARNING_PENDING) {
        session->eval_step = SAMBA_WARNING_TOLD;
        return "a run with train false, as torch's eval(), took a step of the optimizer, as it would in torch: section_types "
               "{\"FWD\"} evaluates without one";
    }
    if (session->launch_told)
        return "";
    session->launch_told = session->launch_warning[0] != '\0';
    return session->launch_warning;
}

const char *samba_session_warning(samba_session *session)
{
    if (!session)
        return "";
    const char *common = samba_session_rank(session) == 0 ? samba_context_warning(session->context) : "";
    if (!common[0] && samba_session_rank(session) == 0)
        common = tell_common(session);
    if (common[0])
        return common;
    samba_loss_state *oldest = NULL;
    for (int32_t i = 0; i < session->loss_count; i++) {
        samba_loss_state *loss = &session->losses[i];
        if (loss->warning == SAMBA_WARNING_PENDING && (!oldest || loss->run < oldest->run))
            oldest = loss;
    }
    session->warning[0] = '\0';
    if (oldest) {
        oldest->warning = SAMBA_WARNING_TOLD;
        char replica[32] = "";
        if (samba_session_size(session) > 1)
            snprintf(replica, sizeof replica, " of replica %d", samba_session_rank(session));
        snprintf(session->warning, sizeof session->warning, "loss '%.128s'%s became %s in run %lld; training goes on",
                 session->plan.tensors[oldest->tensor].name, replica,
                 isnan(oldest->value) ? "nan"
                 : oldest->value > 0  ? "inf"
                                      : "-inf",
                 (long long)oldest->run);
    }
    return session->warning;
}

void samba_session_stats(const samba_session *session, samba_run_stats *stats)
{
    if (!session || !stats)
        return;
    *stats = session->stats;
}

void samba_session_reset_stats(samba_session *session)
{
    if (!session)
        return;
    session->stats = (samba_run_stats){.runs = 0};
    for (int32_t i = 0; i < session->exchange_count; i++)
        session->exchanges[i].runs = 0, session->exchanges[i].seconds = session->exchanges[i].waited = 0;
}
