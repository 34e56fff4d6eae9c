/* SPDX-License-Identifier: Apache-2.0
 *
 * A function is a session of a plan that was never a file: the compiler's plan for inference is handed to a device, and tensors move by their
 * place in the graph's signature instead of by name. What a session has for training (schedules, phases, optimizer state, losses to watch)
 * is not there: a plan of a graph without parameters has one section at most.
 *
 * The function owns the session and the places. The graph is not needed after compiling. */
#include "compiler/compiler.h"
#include "runtime/runtime.h"
#include <sambaflow/function.h>

#include <string.h>

struct samba_function {
    samba_context *context;
    samba_session *session;
    samba_arena arena;
    int32_t input_count, output_count;
    int32_t *places;      /* tensors of the plan: inputs, then outputs */
    samba_tensor **hosts; /* the same as host tensors over whatever memory samba_function_run_memory was given last */
};

samba_function_options samba_function_defaults(void)
{
    return (samba_function_options){.struct_size = sizeof(samba_function_options)};
}

/* ---- making ---- */
static samba_status check_graph(samba_context *context, const samba_graph *graph)
{
    if (!graph)
        return samba_fail(context, SAMBA_ERROR_ARGUMENT, "samba_function_new was given no graph");
    if (graph->status != SAMBA_OK)
        return samba_fail(context, graph->status, "%s", graph->error);
    for (int64_t i = 0; i < graph->node_count; i++) {
        const samba_node *node = samba_node_at(graph, (samba_ref)i);
        if (node->op == SAMBA_OP_parameter || node->op == SAMBA_OP_state)
            return samba_fail(context, SAMBA_ERROR_ARGUMENT, "function '%s' has the %s \"%.128s\", and a function remembers nothing: make it an input",
                              graph->name, node->op == SAMBA_OP_parameter ? "parameter" : "buffer",
                              samba_graph_name_at(graph, node->op == SAMBA_OP_parameter ? node->attrs->parameter.name : node->attrs->state.name));
    }
    return SAMBA_OK;
}

static samba_status place(samba_function *f, int32_t slot, const char *name)
{
    int32_t at = samba_names_find(&f->session->tensors, name);
    if (at < 0)
        return samba_fail(f->context, SAMBA_ERROR_INTERNAL, "the plan of a function has no tensor \"%.128s\"", name);
    const samba_plan_tensor *tensor = &f->session->plan.tensors[at];
    f->places[slot] = at;
    return samba_tensor_from_memory(f->context, name, (samba_dtype)tensor->dtype, tensor->rank, tensor->shape, NULL, f, NULL, NULL, &f->hosts[slot]);
}

/* Inputs in the order of their nodes, outputs in that of their sinks. */
static samba_status place_all(samba_function *f, const samba_graph *graph)
{
    for (int64_t i = 0; i < graph->node_count; i++)
        f->input_count += samba_node_at(graph, (samba_ref)i)->op == SAMBA_OP_input;
    f->output_count = (int32_t)graph->sink_count;
    size_t count = (size_t)f->input_count + (size_t)f->output_count;
    f->places = samba_arena_alloc(&f->arena, count * sizeof *f->places);
    f->hosts = samba_arena_alloc(&f->arena, count * sizeof *f->hosts);
    if (!f->places || !f->hosts)
        return SAMBA_ERROR_MEMORY;
    int32_t slot = 0;
    for (int64_t i = 0; i < graph->node_count; i++) {
        const samba_node *node = samba_node_at(graph, (samba_ref)i);
        if (node->op == SAMBA_OP_input)
            SAMBA_TRY(place(f, slot++, samba_graph_name_at(graph, node->attrs->leaf.name)));
    }
    for (int64_t i = 0; i < graph->sink_count; i++)
        SAMBA_TRY(place(f, slot++, samba_graph_name_at(graph, graph->sinks[i].name)));
    return SAMBA_OK;
}

static samba_status make(samba_function *f, const samba_graph *graph, const samba_function_options *options)
{
    samba_plan plan;
    samba_session_options session = samba_session_defaults();
    session.threads = options->threads;
    session.isa = options->isa;
    session.seed = options->seed;
    SAMBA_TRY(samba_compile_plan(f->context, graph, options->train, &plan));
    SAMBA_TRY(samba_session_of_plan(f->context, &plan, "function", &session, &f->session));
    return place_all(f, graph);
}

samba_status samba_function_new(samba_context *context, const samba_graph *graph, const samba_function_options *given, samba_function **function)
{
    samba_function_options options = samba_function_defaults();
    *function = NULL;
    if (given)
        SAMBA_TRY(samba_options_take(context, "samba_function_new", given, sizeof options, &options));
    SAMBA_TRY(check_graph(context, graph));
    samba_function *fresh = samba_calloc(context, sizeof *fresh);
    if (!fresh)
        return SAMBA_ERROR_MEMORY;
    fresh->context = context;
    samba_arena_init(&fresh->arena, context);
    samba_status status = make(fresh, graph, &options);
    if (status == SAMBA_OK)
        *function = fresh;
    else
        samba_function_free(fresh);
    return status;
}

void samba_function_free(samba_function *function)
{
    if (!function)
        return;
    for (int32_t i = 0; function->hosts && i < function->input_count + function->output_count; i++)
        samba_tensor_free(function->hosts[i]);
    samba_session_free(function->session);
    samba_arena_free(&function->arena);
    samba_free(function->context, function, sizeof *function);
}

/* ---- telling ---- */
int samba_function_input_count(const samba_function *function) { return function->input_count; }

int samba_function_output_count(const samba_function *function) { return function->output_count; }

samba_status samba_function_input(const samba_function *function, int index, samba_tensor_info *info)
{
    if (index < 0 || index >= function->input_count)
        return samba_fail(function->context, SAMBA_ERROR_ARGUMENT, "there is no input %d: the function has %d", index, function->input_count);
    return samba_session_tensor_info(function->session, function->places[index], info);
}

samba_status samba_function_output(const samba_function *function, int index, samba_tensor_info *info)
{
    if (index < 0 || index >= function->output_count)
        return samba_fail(function->context, SAMBA_ERROR_ARGUMENT, "there is no output %d: the function has %d", index, function->output_count);
    return samba_session_tensor_info(function->session, function->places[function->input_count + index], info);
}

samba_status samba_function_memory(const samba_function *function, samba_memory_info *memory)
{
    return samba_session_memory(function->session, memory);
}

samba_status samba_function_set(samba_function *function, const samba_hyperparameter *hyperparameter)
{
    if (!hyperparameter)
        return samba_fail(function->context, SAMBA_ERROR_ARGUMENT, "samba_function_set was given no hyperparameter");
    SAMBA_TRY(samba_check_hyper(function->session, hyperparameter));
    return samba_hyper_set(function->session, hyperparameter);
}

/* ---- running ---- */
static samba_status check_tensors(const samba_function *f, samba_tensor *const *inputs, samba_tensor *const *outputs)
{
    if ((f->input_count > 0 && !inputs) || (f->output_count > 0 && !outputs))
        return samba_fail(f->context, SAMBA_ERROR_ARGUMENT, "a function of %d inputs and %d outputs was run without a list of %s", f->input_count,
                          f->output_count, inputs || f->input_count == 0 ? "outputs" : "inputs");
    for (int32_t i = 0; i < f->input_count; i++) {
        if (!inputs[i])
            return samba_fail(f->context, SAMBA_ERROR_ARGUMENT, "input %d of the run is NULL", i);
        SAMBA_TRY(samba_check_host_source(f->session, f->places[i], inputs[i], "input"));
    }
    for (int32_t i = 0; i < f->output_count; i++) {
        if (!outputs[i])
            return samba_fail(f->context, SAMBA_ERROR_ARGUMENT, "output %d of the run is NULL", i);
        SAMBA_TRY(samba_check_host_target(f->session, f->places[f->input_count + i], outputs[i], "output"));
    }
    return SAMBA_OK;
}

/* What lies in one piece the device copies as a part of the run. Tensors of the plan are the device's alone, so no input is in place yet. */
static samba_status move(samba_function *f, samba_tensor *const *inputs, samba_tensor *const *outputs, samba_device_run *work)
{
    samba_device_copy *next = f->session->copies;
    work->in = next;
    for (int32_t i = 0; i < f->input_count; i++)
        if (samba_transfer_is_copy(f->session, f->places[i], inputs[i], next))
            next++;
        else
            SAMBA_TRY(samba_transfer_in(f->session, f->places[i], inputs[i]));
    work->in_count = (int32_t)(next - work->in);
    work->out = next;
    for (int32_t i = 0; i < f->output_count; i++)
        next += samba_transfer_is_copy(f->session, f->places[f->input_count + i], outputs[i], next);
    work->out_count = (int32_t)(next - work->out);
    return SAMBA_OK;
}

samba_status samba_function_run(samba_function *function, samba_tensor *const *inputs, samba_tensor *const *outputs)
{
    samba_session *session = function->session;
    samba_device *device = session->device;
    samba_device_run work = {.sections = session->plan.calls, .section_count = session->plan.call_count};
    samba_device_copy done;
    SAMBA_TRY(check_tensors(function, inputs, outputs));
    SAMBA_TRY(samba_hyper_draw_seeds(session));
    session->forward_runs++;
    SAMBA_TRY(move(function, inputs, outputs, &work));
    SAMBA_TRY(device->interface->run(device, &work));
    SAMBA_TRY(device->interface->wait(device));
    for (int32_t i = 0; i < function->output_count; i++) {
        int32_t tensor = function->places[function->input_count + i];
        if (!samba_transfer_is_copy(session, tensor, outputs[i], &done))
            SAMBA_TRY(samba_transfer_out(session, tensor, outputs[i]));
    }
    return SAMBA_OK;
}

static samba_status point(samba_function *f, const char *what, samba_tensor **hosts, int32_t count, void *const *memory)
{
    for (int32_t i = 0; i < count; i++) {
        if (!memory || (!memory[i] && samba_tensor_numel(hosts[i]) > 0))
            return samba_fail(f->context, SAMBA_ERROR_ARGUMENT, "%s %d of the run is NULL", what, i);
        hosts[i]->data = memory[i];
    }
    return SAMBA_OK;
}

samba_status samba_function_run_memory(samba_function *function, void *const *inputs, void *const *outputs)
{
    samba_tensor **behind = function->hosts + function->input_count;
    SAMBA_TRY(point(function, "input", function->hosts, function->input_count, inputs));
    SAMBA_TRY(point(function, "output", behind, function->output_count, outputs));
    return samba_function_run(function, function->hosts, behind);
}
