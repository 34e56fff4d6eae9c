/* SPDX-License-Identifier: Apache-2.0
 *
 * A graph as ONNX can say it: what outputs and losses need of the forward pass, as a run computes it that does not train.
 * Hyperparameters are their defaults, `training` is 0, dropout is gone. */
#include "onnx/write.h"
#include <string.h>

typedef struct lowering {
    const samba_graph *in;
    samba_graph *out;
    samba_ref *map;
    uint8_t *needed;
} lowering;

static bool is_kept(const samba_sink *sink)
{
    return sink->phase == SAMBA_FWD && (sink->kind == SAMBA_SINK_OUTPUT || sink->kind == SAMBA_SINK_LOSS);
}

/* Inputs that its value is computed from where nothing trains. */
static int inputs_read(const samba_node *node)
{
    if (node->op == SAMBA_OP_attention && node->attrs->attention.dropout)
        return node->arity - 2;
    return samba_onnx_write_rows[node->op]->pass ? 1 : node->arity;
}

static void mark(lowering *l)
{
    for (int64_t i = 0; i < l->in->sink_count; i++)
        if (is_kept(&l->in->sinks[i]))
            l->needed[l->in->sinks[i].value] = 1;
    for (int64_t i = l->in->node_count - 1; i >= 0; i--) {
        const samba_node *node = &l->in->nodes[i];
        l->needed[i] |= node->op == SAMBA_OP_input; /* what a call gives stays, read or not */
        for (int k = 0; l->needed[i] && k < inputs_read(node); k++)
            l->needed[node->inputs[k]] = 1;
    }
}

static samba_ref hyperparameter(samba_graph *out, const samba_node *node)
{
    const samba_attrs_argin *argin = &node->attrs->argin;
    enum { DROPOUT = 1, TRAINING = 3, REPLICAS = 4 };
    const double value = argin->role == DROPOUT || argin->role == TRAINING ? 0 : argin->role == REPLICAS ? 1 : argin->value;
    return samba_emit_constant(out, value, (samba_dtype)node->dtype);
}

static samba_ref lowered(lowering *l, const samba_node *node, const samba_ref *inputs)
{
    const samba_onnx_write_row *row = samba_onnx_write_rows[node->op];
    samba_graph *out = l->out;
    samba_attrs attrs;
    if (row->pass)
        return inputs[0];
    if (node->op == SAMBA_OP_argin)
        return hyperparameter(out, node);
    samba_attrs_carry(out, l->in, node, &attrs);
    if (node->op == SAMBA_OP_attention)
        attrs.attention.dropout = 0;
    return samba_emit(out, (samba_op)node->op, inputs_read(node), inputs, &attrs);
}

static samba_status lower(lowering *l)
{
    samba_ref inputs[SAMBA_MAX_ARITY];
    mark(l);
    for (int64_t i = 0; i < l->in->node_count; i++) {
        const samba_node *node = &l->in->nodes[i];
        if (!l->needed[i])
            continue;
        for (int k = 0; k < inputs_read(node); k++)
            inputs[k] = l->map[node->inputs[k]];
        l->out->phase = SAMBA_FWD;
        l->out->location = samba_graph_location(l->out, l->in, node->location);
        l->map[i] = lowered(l, node, inputs);
        SAMBA_TRY(samba_graph_status(l->out));
    }
    for (int64_t i = 0; i < l->in->sink_count; i++) {
        samba_sink sink = l->in->sinks[i];
        if (!is_kept(&sink))
            continue;
        sink.name = samba_graph_intern(l->out, samba_graph_name_at(l->in, sink.name));
        sink.value = l->map[sink.value];
        samba_graph_sink(l->out, sink);
    }
    return samba_graph_status(l->out);
}

samba_status samba_onnx_lower(samba_onnx_writer *w, const samba_graph *graph, samba_graph **result)
{
    lowering l = {.in = graph};
    SAMBA_TRY(samba_graph_like(graph, &l.out));
    samba_status status = SAMBA_ROOM(&w->arena, l.map, graph->node_count + 1);
    if (status == SAMBA_OK)
        status = SAMBA_ROOM(&w->arena, l.needed, graph->node_count + 1);
    if (status == SAMBA_OK)
        status = lower(&l);
    if (status == SAMBA_OK)
        *result = l.out;
    else
        samba_graph_free(l.out);
    return status;
}
