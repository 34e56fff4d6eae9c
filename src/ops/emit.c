/* SPDX-License-Identifier: Apache-2.0
 *
 * samba_emit: infers dtype and shape of a node before the graph interns it. The graph stands left of the operators and cannot
 * infer, so it declares this function and adds the node that this function makes.
 *
 * After the first error nothing is added. An input SAMBA_NONE is passed on without a message,
 * since its own error stuck already. */
#include "ops/ops.h"
#include <string.h>

/* Sticks what inference said, with the scope between the operator's name and the message. */
static samba_ref stick_inference(samba_graph *graph, samba_op op, samba_status status)
{
    char message[1024]; /* a copy: the context's buffer is about to be written */
    snprintf(message, sizeof message, "%s", samba_error_message(graph->context));
    const char *name = graph->speaker ? graph->speaker : samba_ops[op].name;
    size_t length = strlen(name);
    bool named = strncmp(message, name, length) == 0 && strncmp(message + length, ": ", 2) == 0;
    return samba_graph_fail_at(graph, status, name, "%s", named ? message + length + 2 : message);
}

samba_ref samba_emit(samba_graph *graph, samba_op op, int arity, const samba_ref *inputs, const samba_attrs *attrs)
{
    if (graph->status != SAMBA_OK)
        return SAMBA_NONE;
    if ((unsigned)op >= SAMBA_OP_COUNT)
        return samba_graph_fail(graph, SAMBA_ERROR_INTERNAL, "there is no operator number %d", (int)op);
    const samba_op_facts *facts = &samba_ops[op];
    if (facts->arity >= 0 ? arity != facts->arity : arity < 1 || arity > SAMBA_MAX_ARITY)
        return samba_graph_fail_at(graph, SAMBA_ERROR_ARGUMENT, facts->name, "expected %d input%s, given %d",
                                   facts->arity >= 0 ? facts->arity : 1,
                                   facts->arity < 0    ? " or more, at most 1024"
                                   : facts->arity == 1 ? ""
                                                       : "s",
                                   arity);
    const samba_node *nodes[SAMBA_MAX_ARITY];
    for (int i = 0; i < arity; i++) {
        if (inputs[i] == SAMBA_NONE)
            return SAMBA_NONE;
        if (inputs[i] >= graph->node_count)
            return samba_graph_fail_at(graph, SAMBA_ERROR_INTERNAL, facts->name, "input %d is no node of the graph", i);
        nodes[i] = samba_node_at(graph, inputs[i]);
    }
    samba_attrs clean;
    samba_status status = samba_attrs_clean(graph, op, attrs, &clean);
    samba_infer infer = {.graph = graph, .op = op, .arity = arity, .inputs = nodes, .attrs = &clean};
    if (status == SAMBA_OK)
        status = facts->infer(&infer);
    if (status != SAMBA_OK)
        return stick_inference(graph, op, status);
    samba_node node = {.op = (uint16_t)op,
                       .dtype = (uint8_t)infer.dtype,
                       .rank = (uint8_t)infer.rank,
                       .arity = (uint16_t)arity,
                       .inputs = inputs,
                       .attrs = &clean};
    memcpy(node.shape, infer.shape, sizeof node.shape);
    return samba_graph_add(graph, &node);
}
