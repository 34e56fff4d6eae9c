/* SPDX-License-Identifier: Apache-2.0
 *
 * A function is a session of a plan that was never a file: the compiler's plan for inference is handed to a device, and tensors
 * move by their position in the graph's signature instead of by name. What a session has for training (schedules, phases,
 * optimizer state, losses to watch) is not there: a plan of a graph without parameters has one section at most.
 *
 * Small tensors are copied into the device's memory and out of it, as a session does. Where copying would take longer than
 * preparing stages anew, they stay where the caller has them: the plan's buffers are pointed there (`in_place`), unless that
 * memory was the last run's too. What cannot be used so - views with strides, outputs over inputs - is copied beside it.
 *
 * The function owns the session and the tensors. The graph is not needed after compiling; a function by the reference
 * (reference.c) keeps a copy that it evaluates where others run their sections. */
#include "compiler/compiler.h"
#include "function/reference.h"
#include <sambaflow/function.h>

/* of inputs and outputs: to copy them takes some 20 microseconds, a stage is prepared in about 5 */
#define IN_PLACE_BYTES (256 << 10)

struct samba_function {
    samba_context *context;
    samba_session *session;
    samba_graph *reference; /* what is evaluated instead of run; NULL: compiled */
    samba_arena arena;
    int32_t input_count, output_count;
    int32_t *tensors;      /* tensors of the plan: inputs, then outputs */
    samba_tensor **hosts;  /* the same as host tensors over whatever memory samba_function_run_memory was given last */
    samba_tensor **staged; /* in place: copies of this run's tensors, where they cannot be used as they are */
    bool unbound;          /* in place: stages are not prepared for the offsets that buffers have */
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
            return samba_fail(context, SAMBA_ERROR_ARGUMENT,
                              "function '%s' has the %s \"%.128s\", and a function remembers nothing: make it an input",
                              graph->name, node->op == SAMBA_OP_parameter ? "parameter" : "buffer",
                              samba_graph_name_at(graph, node->op == SAMBA_OP_parameter ? node->attrs->parameter.name
                                                                                        : node->attrs->state.name));
    }
    for (int64_t i = 0; i < graph->sink_count; i++)
        if (graph->sinks[i].kind == SAMBA_SINK_ASSIGN)
            return samba_fail(
                context, SAMBA_ERROR_UNSUPPORTED,
                "function: graph \"%.128s\" assigns to its input \"%.128s\", which is the caller's: make it an output",
                graph->name, samba_graph_name_at(graph, samba_node_at(graph, graph->sinks[i].target)->attrs->leaf.name));
    return SAMBA_OK;
}

static samba_status find_tensor(samba_function *f, int32_t slot, const char *name)
{
    int32_t at = samba_names_find(&f->session->tensors, name);
    if (at < 0)
        return samba_fail(f->context, SAMBA_ERROR_INTERNAL, "the plan of a function has no tensor \"%.128s\"", name);
    const samba_plan_tensor *tensor = &f->session->plan.tensors[at];
    f->tensors[slot] = at;
    return samba_tensor_from_memory(f->context, name, (samba_dtype)tensor->dtype, tensor->rank, tensor->shape, NULL, f, NULL,
                                    NULL, &f->hosts[slot]);
}

/* Inputs in the order of their nodes, outputs in that of their sinks. */
static samba_status find_tensors(samba_function *f, const samba_graph *graph)
{
    for (int64_t i = 0; i < graph->node_count; i++)
        f->input_count += samba_node_at(graph, (samba_ref)i)->op == SAMBA_OP_input;
    f->output_count = (int32_t)graph->sink_count;
    size_t count = (size_t)f->input_count + (size_t)f->output_count;
    SAMBA_TRY(SAMBA_ROOM(&f->arena, f->tensors, count));
    SAMBA_TRY(SAMBA_ROOM(&f->arena, f->hosts, count));
    SAMBA_TRY(SAMBA_ROOM(&f->arena, f->staged, count));
    int32_t slot = 0;
    for (int64_t i = 0; i < graph->node_count; i++) {
        const samba_node *node = samba_node_at(graph, (samba_ref)i);
        if (node->op == SAMBA_OP_input)
            SAMBA_TRY(find_tensor(f, slot++, samba_graph_name_at(graph, node->attrs->leaf.name)));
    }
    for (int64_t i = 0; i < graph->sink_count; i++)
        SAMBA_TRY(find_tensor(f, slot++, samba_graph_name_at(graph, graph->sinks[i].name)));
    return SAMBA_OK;
}

static bool is_moved(const samba_plan *plan, int32_t buffer)
{
    for (int32_t t = 0; t < plan->tensor_count; t++)
        if (plan->tensors[t].buffer == buffer)
            return true;
    return false;
}

/* Turns the plan's memory so that its tensors, which come first, are behind all else. Returns how much is before them; all of it
 * where tensors are small, or are not alone in front. */
static int64_t turn(samba_plan *plan)
{
    int64_t front = 0, all = plan->memory_bytes;
    for (int32_t t = 0; t < plan->tensor_count; t++) {
        const samba_buffer *buffer = &plan->buffers[plan->tensors[t].buffer];
        int64_t end = (buffer->offset + buffer->bytes + SAMBA_ALIGNMENT - 1) / SAMBA_ALIGNMENT * SAMBA_ALIGNMENT;
        front = end > front ? end : front;
    }
    if (front < IN_PLACE_BYTES)
        return all;
    for (int32_t b = 0; b < plan->buffer_count; b++)
        if (!is_moved(plan, b) && plan->buffers[b].bytes > 0 && plan->buffers[b].offset < front)
            return all;
    for (int32_t b = 0; b < plan->buffer_count; b++)
        if (plan->buffers[b].bytes > 0)
            plan->buffers[b].offset += is_moved(plan, b) ? all - front : -front;
    return all - front;
}

static samba_status make(samba_function *f, const samba_graph *graph, const samba_function_options *options)
{
    samba_plan plan;
    samba_session_options session = samba_session_defaults();
    session.threads = options->threads;
    session.isa = options->isa;
    session.seed = options->seed;
    if (options->reference) {
        SAMBA_TRY(samba_graph_copy(graph, &f->reference));
        SAMBA_TRY(samba_reference_plan(f->context, f->reference, options->train, &plan));
    } else {
        SAMBA_TRY(samba_compile_plan(f->context, graph, options->train, options->unfused, &plan));
    }
    int64_t resident = options->reference ? plan.memory_bytes : turn(&plan);
    SAMBA_TRY(samba_session_of_plan(f->context, &plan, resident, "function", &session, &f->session));
    return find_tensors(f, graph);
}

samba_status samba_function_new(samba_context *context, const samba_graph *graph, const samba_function_options *given,
                                samba_function **function)
{
    SAMBA_NEED(NULL, context);
    SAMBA_NEED(context, function);
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
    samba_graph_free(function->reference);
    samba_arena_free(&function->arena);
    samba_free(function->context, function, sizeof *function);
}

/* ---- telling ---- */
int samba_function_input_count(const samba_function *function) { return function ? function->input_count : 0; }

int samba_function_output_count(const samba_function *function) { return function ? function->output_count : 0; }

static samba_status tell(const samba_function *f, const char *what, int index, int count, const int32_t *tensors,
                         samba_tensor_info *info)
{
    if (index < 0 || index >= count)
        return samba_fail(f->context, SAMBA_ERROR_ARGUMENT, "there is no %s %d: the function has %d", what, index, count);
    return samba_session_tensor_info(f->session, tensors[index], info);
}

samba_status samba_function_input(const samba_function *function, int index, samba_tensor_info *info)
{
    SAMBA_NEED(NULL, function);
    return tell(function, "input", index, function->input_count, function->tensors, info);
}

samba_status samba_function_output(const samba_function *function, int index, samba_tensor_info *info)
{
    SAMBA_NEED(NULL, function);
    return tell(function, "output", index, function->output_count, function->tensors + function->input_count, info);
}

samba_status samba_function_memory(const samba_function *function, samba_memory_info *memory)
{
    SAMBA_NEED(NULL, function);
    SAMBA_NEED(function->session->context, memory);
    SAMBA_TRY(samba_session_memory(function->session, memory));
    if (function->session->in_place) {
        memory->total -= memory->inputs_outputs;
        memory->inputs_outputs = 0;
    }
    return SAMBA_OK;
}

samba_status samba_function_set(samba_function *function, const samba_hyperparameter *hyperparameter)
{
    SAMBA_NEED(NULL, function);
    if (!hyperparameter)
        return samba_fail(function->context, SAMBA_ERROR_ARGUMENT, "samba_function_set was given no hyperparameter");
    SAMBA_TRY(samba_session_enter(function->session, "samba_function_set"));
    samba_status status = samba_check_hyper(function->session, hyperparameter);
    return samba_session_leave(function->session,
                               status == SAMBA_OK ? samba_hyper_set(function->session, hyperparameter) : status);
}

/* ---- running ---- */
static samba_status check_tensors(const samba_function *f, samba_tensor *const *inputs, samba_tensor *const *outputs)
{
    if ((f->input_count > 0 && !inputs) || (f->output_count > 0 && !outputs))
        return samba_fail(f->context, SAMBA_ERROR_ARGUMENT, "a function of %d inputs and %d outputs was run without a list of %s",
                          f->input_count, f->output_count, inputs || f->input_count == 0 ? "outputs" : "inputs");
    for (int32_t i = 0; i < f->input_count; i++) {
        if (!inputs[i])
            return samba_fail(f->context, SAMBA_ERROR_ARGUMENT, "input %d of the run is NULL", i);
        SAMBA_TRY(samba_check_host_source(f->session, f->tensors[i], inputs[i], "input"));
    }
    for (int32_t i = 0; i < f->output_count; i++) {
        if (!outputs[i])
            return samba_fail(f->context, SAMBA_ERROR_ARGUMENT, "output %d of the run is NULL", i);
        SAMBA_TRY(samba_check_host_target(f->session, f->tensors[f->input_count + i], outputs[i], "output"));
    }
    return SAMBA_OK;
}

/* Tensors in one piece are copied by the device as a part of the run.
 * Tensors of the plan are the device's alone, so no input is in place yet. */
static samba_status move(samba_function *f, samba_tensor *const *inputs, samba_tensor *const *outputs, samba_device_run *work)
{
    samba_device_copy *next = f->session->copies;
    work->in = next;
    for (int32_t i = 0; i < f->input_count; i++)
        if (samba_transfer_is_copy(f->session, f->tensors[i], inputs[i], next))
            next++;
        else
            SAMBA_TRY(samba_transfer_in(f->session, f->tensors[i], inputs[i]));
    work->in_count = (int32_t)(next - work->in);
    work->out = next;
    for (int32_t i = 0; i < f->output_count; i++)
        next += samba_transfer_is_copy(f->session, f->tensors[f->input_count + i], outputs[i], next);
    work->out_count = (int32_t)(next - work->out);
    return SAMBA_OK;
}

static samba_status run_copied(samba_function *f, samba_tensor *const *inputs, samba_tensor *const *outputs)
{
    samba_session *session = f->session;
    samba_device *device = session->device;
    samba_device_run work = {.sections = session->plan.calls, .section_count = session->plan.call_count};
    samba_device_copy done;
    SAMBA_TRY(move(f, inputs, outputs, &work));
    SAMBA_TRY(device->interface->run(device, &work));
    SAMBA_TRY(device->interface->wait(device));
    for (int32_t i = 0; i < f->output_count; i++) {
        int32_t tensor = f->tensors[f->input_count + i];
        if (!samba_transfer_is_copy(session, tensor, outputs[i], &done))
            SAMBA_TRY(samba_transfer_out(session, tensor, outputs[i]));
    }
    return SAMBA_OK;
}

static samba_status run_reference(samba_function *f, samba_tensor *const *inputs, samba_tensor *const *outputs)
{
    for (int32_t i = 0; i < f->input_count; i++)
        SAMBA_TRY(samba_transfer_in(f->session, f->tensors[i], inputs[i]));
    SAMBA_TRY(samba_reference_run(f->session, f->reference));
    for (int32_t i = 0; i < f->output_count; i++)
        SAMBA_TRY(samba_transfer_out(f->session, f->tensors[f->input_count + i], outputs[i]));
    return SAMBA_OK;
}

/* ---- in place ---- */
static size_t bytes_of(const samba_tensor *tensor)
{
    return (size_t)samba_tensor_numel(tensor) * samba_dtype_size(samba_tensor_dtype(tensor));
}

static bool overlap(const samba_tensor *a, const samba_tensor *b)
{
    uintptr_t from = (uintptr_t)samba_tensor_data(a), other = (uintptr_t)samba_tensor_data(b);
    return from < other + bytes_of(b) && other < from + bytes_of(a);
}

/* Kernels want whole tensors at multiples of a cache line, and write outputs while they still read inputs. */
static bool usable(const samba_tensor *tensor, samba_tensor *const *others, int32_t count, const samba_tensor *but)
{
    if (bytes_of(tensor) == 0)
        return true;
    if (!samba_tensor_is_contiguous(tensor) || (uintptr_t)samba_tensor_data(tensor) % SAMBA_ALIGNMENT != 0)
        return false;
    for (int32_t i = 0; i < count; i++)
        if (others[i] != but && samba_tensor_is_contiguous(others[i]) && overlap(tensor, others[i]))
            return false;
    return true;
}

/* Tensors to compute with: the caller's own, or copies, which the caller of this frees: `staged`. */
static samba_status stage(samba_function *f, samba_tensor *const *inputs, samba_tensor *const *outputs, samba_tensor **staged)
{
    for (int32_t i = 0; i < f->input_count; i++) {
        if (usable(inputs[i], NULL, 0, NULL))
            continue;
        SAMBA_TRY(samba_tensor_new(f->context, NULL, inputs[i]->dtype, inputs[i]->rank, inputs[i]->shape, &staged[i]));
        SAMBA_TRY(samba_tensor_copy(staged[i], inputs[i]));
    }
    for (int32_t i = 0; i < f->output_count; i++) {
        const samba_tensor *output = outputs[i];
        if (!usable(output, inputs, f->input_count, NULL) || !usable(output, outputs, i, NULL))
            SAMBA_TRY(
                samba_tensor_new(f->context, NULL, output->dtype, output->rank, output->shape, &staged[f->input_count + i]));
    }
    return SAMBA_OK;
}

/* Points the plan's buffers at the tensors, and prepares the stages anew if they were elsewhere. */
static samba_status bind(samba_function *f, samba_tensor *const *inputs, samba_tensor *const *outputs,
                         samba_tensor *const *staged)
{
    samba_session *session = f->session;
    samba_device *device = session->device;
    const char *base = device->interface->map(device, 0);
    bool moved = f->unbound;
    for (int32_t i = 0; i < f->input_count + f->output_count; i++) {
        const samba_tensor *tensor = staged[i] ? staged[i] : i < f->input_count ? inputs[i] : outputs[i - f->input_count];
        samba_buffer *buffer = &session->plan.buffers[session->plan.tensors[f->tensors[i]].buffer];
        int64_t offset = bytes_of(tensor) > 0 ? (int64_t)((uintptr_t)samba_tensor_data(tensor) - (uintptr_t)base) : 0;
        moved = moved || offset != buffer->offset;
        buffer->offset = offset;
    }
    f->unbound = moved;
    if (moved)
        SAMBA_TRY(device->interface->rebuild(device));
    f->unbound = false;
    return SAMBA_OK;
}

static samba_status run_staged(samba_function *f, samba_tensor *const *inputs, samba_tensor *const *outputs,
                               samba_tensor **staged)
{
    samba_session *session = f->session;
    samba_device *device = session->device;
    samba_device_run work = {.sections = session->plan.calls, .section_count = session->plan.call_count};
    SAMBA_TRY(stage(f, inputs, outputs, staged));
    SAMBA_TRY(bind(f, inputs, outputs, staged));
    SAMBA_TRY(device->interface->run(device, &work));
    SAMBA_TRY(device->interface->wait(device));
    for (int32_t i = 0; i < f->output_count; i++)
        if (staged[f->input_count + i])
            SAMBA_TRY(samba_tensor_copy(outputs[i], staged[f->input_count + i]));
    return SAMBA_OK;
}

static samba_status run_in_place(samba_function *f, samba_tensor *const *inputs, samba_tensor *const *outputs)
{
    samba_status status = run_staged(f, inputs, outputs, f->staged);
    for (int32_t i = 0; i < f->input_count + f->output_count; i++) {
        samba_tensor_free(f->staged[i]);
        f->staged[i] = NULL;
    }
    return status;
}

static samba_status run(samba_function *function, samba_tensor *const *inputs, samba_tensor *const *outputs)
{
    SAMBA_TRY(check_tensors(function, inputs, outputs));
    SAMBA_TRY(samba_hyper_draw_seeds(function->session));
    function->session->forward_runs++;
    if (function->reference)
        return run_reference(function, inputs, outputs);
    return function->session->in_place ? run_in_place(function, inputs, outputs) : run_copied(function, inputs, outputs);
}

samba_status samba_function_run(samba_function *function, samba_tensor *const *inputs, samba_tensor *const *outputs)
{
    SAMBA_NEED(NULL, function);
    SAMBA_TRY(samba_session_enter(function->session, "samba_function_run"));
    return samba_session_leave(function->session, run(function, inputs, outputs));
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

static samba_status run_memory(samba_function *function, void *const *inputs, void *const *outputs)
{
    samba_tensor **behind = function->hosts + function->input_count;
    SAMBA_TRY(point(function, "input", function->hosts, function->input_count, inputs));
    SAMBA_TRY(point(function, "output", behind, function->output_count, outputs));
    return run(function, function->hosts, behind);
}

samba_status samba_function_run_memory(samba_function *function, void *const *inputs, void *const *outputs)
{
    SAMBA_NEED(NULL, function);
    SAMBA_TRY(samba_session_enter(function->session, "samba_function_run_memory"));
    return samba_session_leave(function->session, run_memory(function, inputs, outputs));
}
