/* SPDX-License-Identifier: Apache-2.0
 *
 * The verifier: every invariant of a graph, checked again from nothing but the nodes and sinks. What it finds is always our own
 * mistake, as samba_emit and samba_graph_sink accept nothing else; passes are checked with it. It changes nothing. */
#include "ops/ops.h"
#include <string.h>

static samba_status broken(const samba_graph *graph, int64_t index, const char *what)
{
    const samba_node *node = &graph->nodes[index];
    return samba_fail(graph->context, SAMBA_ERROR_INTERNAL, "graph \"%.200s\": %s %%%lld %s", graph->name,
                      node->op < SAMBA_OP_COUNT ? samba_ops[node->op].name : "operator", (long long)index, what);
}

static samba_status verify_order(const samba_graph *graph, int64_t index)
{
    const samba_node *node = &graph->nodes[index];
    if (node->op >= SAMBA_OP_COUNT || node->dtype >= SAMBA_DTYPE_COUNT || node->rank > SAMBA_MAX_RANK ||
        node->phase >= SAMBA_PHASE_COUNT)
        return broken(graph, index, "has an operator, dtype, rank or phase that does not exist");
    int arity = samba_ops[node->op].arity;
    if (arity >= 0 ? node->arity != arity : node->arity < 1 || node->arity > SAMBA_MAX_ARITY)
        return broken(graph, index, "has the wrong number of inputs");
    if (samba_op_table[node->op].leaf && node->phase != SAMBA_ZEROGRAD)
        return broken(graph, index, "is a leaf of a phase other than ZEROGRAD");
    for (int i = 0; i < node->arity; i++) {
        if (node->inputs[i] >= index)
            return broken(graph, index, "has an input that does not come before it");
        if (graph->nodes[node->inputs[i]].phase > node->phase)
            return broken(graph, index, "has an input of a later phase");
    }
    if (node->location.scope >= graph->name_count || node->location.source >= graph->name_count ||
        node->location.fusion >= graph->name_count)
        return broken(graph, index, "has a location that is no name of the graph");
    return SAMBA_OK;
}

static samba_status verify_meaning(const samba_graph *graph, int64_t index)
{
    const samba_node *node = &graph->nodes[index];
    samba_attrs clean;
    SAMBA_TRY(samba_attrs_clean(graph, (samba_op)node->op, node->attrs, &clean));
    if (memcmp(&clean, node->attrs, samba_attrs_table[samba_ops[node->op].attrs].size) != 0)
        return broken(graph, index, "has attributes that are not in their normal form");
    const samba_node *inputs[SAMBA_MAX_ARITY];
    for (int i = 0; i < node->arity; i++)
        inputs[i] = samba_node_at(graph, node->inputs[i]);
    /* Inference gets a graph that it could change, for messages; it has no reason to. */
    samba_infer infer = {
        .graph = (samba_graph *)graph, .op = (samba_op)node->op, .arity = node->arity, .inputs = inputs, .attrs = &clean};
    if (samba_ops[node->op].infer(&infer) != SAMBA_OK) {
        char message[640]; /* a copy: the context's buffer is about to be written */
        snprintf(message, sizeof message, "is refused by its own inference: %.600s", samba_error_message(graph->context));
        return broken(graph, index, message);
    }
    if (infer.dtype != node->dtype || !samba_shape_equal(infer.rank, infer.shape, node->rank, node->shape))
        return broken(graph, index, "has another dtype or shape than its inference gives");
    return SAMBA_OK;
}

static samba_status verify_identity(const samba_graph *graph, int64_t index)
{
    const samba_node *node = &graph->nodes[index];
    if (samba_graph_find(graph, node) != index)
        return broken(graph, index, "is there twice, or not in the table");
    const samba_attrs_facts *facts = &samba_attrs_table[samba_ops[node->op].attrs];
    if (facts->field_count > 0 && facts->fields[0].kind == SAMBA_FIELD_NAME) {
        const char *name = samba_graph_name_at(graph, node->attrs->leaf.name);
        if (!name[0] || samba_graph_leaf(graph, name) != index)
            return broken(graph, index, "is a leaf whose name is empty or another's");
    }
    return SAMBA_OK;
}

static samba_status verify_sink(const samba_graph *graph, int64_t index)
{
    const samba_sink *sink = &graph->sinks[index];
    const char *wrong = NULL;
    if (sink->value >= graph->node_count || sink->phase >= SAMBA_PHASE_COUNT || sink->name >= graph->name_count) {
        wrong = "has no value, phase or name";
    } else if (graph->nodes[sink->value].phase > sink->phase) {
        wrong = "is delivered before its value is computed";
    } else if (sink->kind == SAMBA_SINK_ASSIGN) {
        const samba_node *value = samba_node_at(graph, sink->value);
        const samba_node *target = sink->target < graph->node_count ? samba_node_at(graph, sink->target) : NULL;
        if (!target || (target->op != SAMBA_OP_parameter && target->op != SAMBA_OP_state && target->op != SAMBA_OP_input) ||
            target->dtype != value->dtype || !samba_shape_equal(target->rank, target->shape, value->rank, value->shape))
            wrong = "assigns to something other than a parameter, state or input of its value's dtype and shape";
    } else if (sink->name == 0 || graph->leaves[sink->name].ref) {
        wrong = "has no name, or that of a leaf";
    }
    for (int64_t i = 0; !wrong && i < index; i++) {
        const samba_sink *other = &graph->sinks[i];
        bool assigns = sink->kind == SAMBA_SINK_ASSIGN;
        if (sink->kind == SAMBA_SINK_AGAIN && other->kind != SAMBA_SINK_AGAIN && other->phase < sink->phase)
            continue;
        if (assigns == (other->kind == SAMBA_SINK_ASSIGN) &&
            (assigns ? other->target == sink->target && other->phase == sink->phase : other->name == sink->name))
            wrong = "is there twice";
    }
    return wrong ? samba_fail(graph->context, SAMBA_ERROR_INTERNAL, "graph \"%.200s\": sink %lld %s", graph->name,
                              (long long)index, wrong)
                 : SAMBA_OK;
}

samba_status samba_graph_verify(const samba_graph *graph)
{
    SAMBA_TRY(samba_graph_status(graph));
    for (int64_t i = 0; i < graph->node_count; i++) {
        SAMBA_TRY(verify_order(graph, i));
        SAMBA_TRY(verify_meaning(graph, i));
        SAMBA_TRY(verify_identity(graph, i));
    }
    for (int64_t i = 0; i < graph->sink_count; i++)
        SAMBA_TRY(verify_sink(graph, i));
    return SAMBA_OK;
}
