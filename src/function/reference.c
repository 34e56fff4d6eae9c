/* SPDX-License-Identifier: Apache-2.0
 *
 * The reference behind a function: samba_graph_evaluate in the place of stages. Its plan has the inputs, outputs and
 * hyperparameters of a compiled one and computes nothing, so that everything around a run - checks, transfers, seeds of dropout -
 * is the same code.
 *
 * Without training dropout has the rate 0, which leaves its operand as it is. */
#include "function/reference.h"
#include "ops/ops.h"

#include <string.h>

static int64_t bytes_of(const samba_node *node)
{
    int64_t numel = 0;
    samba_shape_numel(node->rank, node->shape, &numel); /* inference refused what overflows */
    return numel * (int64_t)samba_dtype_size((samba_dtype)node->dtype);
}

static int32_t add_buffer(samba_plan *plan, int64_t bytes)
{
    plan->buffers[plan->buffer_count] = (samba_buffer){plan->memory_bytes, bytes};
    plan->memory_bytes += (bytes + SAMBA_ALIGNMENT - 1) / SAMBA_ALIGNMENT * SAMBA_ALIGNMENT;
    return plan->buffer_count++;
}

static samba_status add_tensor(samba_plan *plan, samba_tensor_kind kind, const char *name, const samba_node *node)
{
    samba_plan_tensor *tensor = &plan->tensors[plan->tensor_count++];
    *tensor =
        (samba_plan_tensor){.kind = kind, .dtype = node->dtype, .rank = node->rank, .buffer = add_buffer(plan, bytes_of(node))};
    memcpy(tensor->shape, node->shape, sizeof tensor->shape);
    return samba_arena_copy(&plan->arena, name, &tensor->name);
}

static samba_status add_argin(samba_plan *plan, const samba_graph *graph, const samba_node *node)
{
    const samba_attrs_argin *attrs = &node->attrs->argin;
    samba_plan_argin *argin = &plan->argins[plan->argin_count++];
    *argin = (samba_plan_argin){
        .role = (int32_t)attrs->role, .dtype = node->dtype, .buffer = add_buffer(plan, 8), .value = attrs->value};
    return samba_arena_copy(&plan->arena, samba_graph_name_at(graph, attrs->name), &argin->name);
}

static samba_status fill(samba_plan *plan, const samba_graph *graph, bool train)
{
    int64_t inputs = 0, argins = 0;
    for (int64_t i = 0; i < graph->node_count; i++) {
        inputs += graph->nodes[i].op == SAMBA_OP_input;
        argins += train && graph->nodes[i].op == SAMBA_OP_argin;
    }
    char *text; /* of a plan in a file */
    SAMBA_TRY(samba_arena_copy(&plan->arena, graph->name, &plan->name));
    SAMBA_TRY(SAMBA_ROOM(&plan->arena, plan->graphs, 1));
    SAMBA_TRY(samba_arena_copy(&plan->arena, "", &text));
    SAMBA_TRY(SAMBA_ROOM(&plan->arena, plan->tensors, inputs + graph->sink_count));
    SAMBA_TRY(SAMBA_ROOM(&plan->arena, plan->argins, argins));
    SAMBA_TRY(SAMBA_ROOM(&plan->arena, plan->buffers, inputs + graph->sink_count + argins));
    for (int64_t i = 0; i < graph->node_count; i++) {
        const samba_node *node = &graph->nodes[i];
        if (node->op == SAMBA_OP_input)
            SAMBA_TRY(add_tensor(plan, SAMBA_KIND_INPUT, samba_graph_name_at(graph, node->attrs->leaf.name), node));
        if (node->op == SAMBA_OP_argin && train)
            SAMBA_TRY(add_argin(plan, graph, node));
    }
    for (int64_t i = 0; i < graph->sink_count; i++)
        SAMBA_TRY(add_tensor(plan, SAMBA_KIND_OUTPUT, samba_graph_name_at(graph, graph->sinks[i].name),
                             samba_node_at(graph, graph->sinks[i].value)));
    plan->memory = (samba_memory_info){.inputs_outputs = plan->memory_bytes, .total = plan->memory_bytes};
    plan->graph_count = 1;
    plan->graphs[0] = (samba_plan_graph){.name = plan->name, .text = text, .inference = 1, .grad_accumulation_steps = 1};
    return samba_plan_own_graph(plan);
}

samba_status samba_reference_plan(samba_context *context, const samba_graph *graph, bool train, samba_plan *plan)
{
    samba_plan_init(plan, context);
    samba_status status = fill(plan, graph, train);
    if (status == SAMBA_OK)
        status = samba_plan_check(context, plan);
    if (status != SAMBA_OK)
        samba_plan_free(plan);
    return status;
}

/* ---- running ---- */
static samba_array array_of(const samba_node *node, void *data)
{
    samba_array array = {.dtype = (samba_dtype)node->dtype, .rank = node->rank, .data = data};
    memcpy(array.shape, node->shape, sizeof array.shape);
    samba_shape_numel(node->rank, node->shape, &array.numel);
    return array;
}

static samba_status evaluate(samba_session *session, const samba_graph *graph, samba_arena *arena)
{
    samba_device *device = session->device;
    const samba_plan *plan = &session->plan;
    const char **names;
    samba_array *leaves, *results;
    int64_t *zero; /* also a float64 of 0 */
    SAMBA_TRY(SAMBA_ROOM(arena, names, graph->node_count));
    SAMBA_TRY(SAMBA_ROOM(arena, leaves, graph->node_count));
    SAMBA_TRY(SAMBA_ROOM(arena, results, graph->sink_count));
    SAMBA_TRY(SAMBA_ROOM(arena, zero, 1));
    int32_t count = 0, input = 0, argin = 0;
    for (int64_t i = 0; i < graph->node_count; i++) {
        const samba_node *node = &graph->nodes[i];
        char *data = NULL;
        if (node->op == SAMBA_OP_input)
            data = device->interface->map(device, samba_session_offset(session, plan->tensors[input++].buffer));
        else if (node->op == SAMBA_OP_argin)
            data = plan->argin_count > 0
                       ? device->interface->map(device, samba_session_offset(session, plan->argins[argin++].buffer))
                       : (char *)zero;
        else
            continue;
        names[count] = samba_graph_name_at(graph, node->op == SAMBA_OP_input ? node->attrs->leaf.name : node->attrs->argin.name);
        leaves[count++] = array_of(node, data);
    }
    SAMBA_TRY(samba_graph_evaluate(graph, count, names, leaves, arena, results));
    for (int64_t i = 0; i < graph->sink_count; i++) {
        int64_t offset = samba_session_offset(session, plan->tensors[input + i].buffer);
        SAMBA_TRY(device->interface->write(device, offset, results[i].data,
                                           (size_t)results[i].numel * samba_dtype_size(results[i].dtype)));
    }
    return SAMBA_OK;
}

samba_status samba_reference_run(samba_session *session, const samba_graph *graph)
{
    samba_arena arena;
    samba_arena_init(&arena, session->context);
    samba_status status = evaluate(session, graph, &arena);
    samba_arena_free(&arena);
    return status;
}
