/* SPDX-License-Identifier: Apache-2.0
 *
 * One operator as nodes of ONNX: by the function of its row in write.def, or, of a composite that ONNX has no operator for, by
 * the operators that it is made of. Those stand in a graph of their own, of which each input is an operand: so they are the same
 * nodes wherever the composite is written, and whoever reads them can find out which composite they are (recognize.c). */
#include "onnx/write.h"
#include <string.h>

static bool is_expanded(const samba_onnx_writer *w, const samba_node *node)
{
    const samba_onnx_write_row *row = samba_onnx_write_rows[node->op];
    return samba_ops[node->op].expand && !row->reason && !(row->own && row->own(w, w->graph, node, node->inputs));
}

typedef struct expansion { /* a composite's operators behind inputs that stand for its operands, each once */
    samba_onnx_writer *w;
    samba_graph *graph;
    int count;
    samba_ref operands[SAMBA_MAX_ARITY], inputs[SAMBA_MAX_ARITY];
} expansion;

static samba_ref input_for(expansion *e, samba_ref operand)
{
    const samba_node *node = samba_node_at(e->w->graph, operand);
    samba_attrs attrs;
    for (int i = 0; i < e->count; i++)
        if (e->operands[i] == operand)
            return e->inputs[i];
    memset(&attrs, 0, sizeof attrs);
    attrs.leaf.name = samba_graph_intern(e->graph, samba_onnx_format(e->w, "%d", e->count));
    attrs.leaf.dtype = node->dtype;
    attrs.leaf.shape = samba_dims_of(node->rank, node->shape);
    e->operands[e->count] = operand;
    return e->inputs[e->count++] = samba_emit(e->graph, SAMBA_OP_input, 0, NULL, &attrs);
}

/* What functions look through stands there itself, as where it is read (recognize.c). */
static samba_ref operand_for(expansion *e, samba_ref operand)
{
    const samba_node *node = samba_node_at(e->w->graph, operand);
    if (!samba_onnx_is_seen_through(node))
        return input_for(e, operand);
    if (node->arity == 0)
        return samba_emit(e->graph, SAMBA_OP_constant, 0, NULL, node->attrs);
    return samba_emit_expand(e->graph, input_for(e, node->inputs[0]), node->rank, node->shape);
}

static samba_status expand(expansion *e, const samba_node *node)
{
    samba_ref inputs[SAMBA_MAX_ARITY];
    samba_node copy = *node;
    e->graph->location = samba_graph_location(e->graph, e->w->graph, node->location);
    for (int k = 0; k < node->arity; k++)
        inputs[k] = operand_for(e, node->inputs[k]);
    SAMBA_TRY(samba_graph_status(e->graph));
    samba_sink sink = {.kind = SAMBA_SINK_OUTPUT, .phase = SAMBA_FWD, .target = SAMBA_NONE};
    sink.value = samba_ops[node->op].expand(e->graph, &copy, inputs);
    SAMBA_TRY(samba_graph_status(e->graph));
    sink.name = samba_graph_intern(e->graph, "result");
    samba_graph_sink(e->graph, sink);
    return samba_graph_status(e->graph);
}

/* The writer goes on in `graph`, whose inputs are those of the expansion, in order. */
static samba_status write_inside(const expansion *e, const samba_graph *graph, const char **result)
{
    samba_onnx_writer *w = e->w;
    const char **outside = w->values;
    int inputs = 0;
    SAMBA_TRY(SAMBA_ROOM(&w->arena, w->values, graph->node_count + 1));
    SAMBA_TRY(SAMBA_ROOM(&w->arena, w->uses, graph->node_count + 1));
    w->graph = graph;
    samba_onnx_count_uses(graph, w->uses);
    for (int64_t i = 0; i < graph->node_count && w->status == SAMBA_OK; i++)
        if (graph->nodes[i].op == SAMBA_OP_input)
            w->values[i] = outside[e->operands[inputs++]];
        else if (w->uses[i])
            w->values[i] = samba_onnx_write_operator(w, &graph->nodes[i]);
    *result = w->values[graph->sinks[0].value];
    return w->status;
}

static const char *write_expanded(samba_onnx_writer *w, const samba_node *node)
{
    const samba_onnx_writer outside = *w; /* of which graph, values and uses come back */
    const char *result = "";
    expansion e = {.w = w};
    samba_graph *lowered = NULL;
    samba_status status = samba_graph_like(w->graph, &e.graph);
    if (status == SAMBA_OK)
        status = expand(&e, node);
    if (status == SAMBA_OK)
        status = samba_onnx_lower(w, e.graph, &lowered);
    if (status == SAMBA_OK)
        status = write_inside(&e, lowered, &result);
    w->graph = outside.graph;
    w->values = outside.values;
    w->uses = outside.uses;
    w->node = outside.node;
    samba_graph_free(lowered);
    samba_graph_free(e.graph);
    if (status != SAMBA_OK)
        samba_onnx_stop(w, status);
    return status == SAMBA_OK ? result : "";
}

const char *samba_onnx_write_operator(samba_onnx_writer *w, const samba_node *node)
{
    const samba_onnx_write_row *row = samba_onnx_write_rows[node->op];
    w->node = node;
    if (is_expanded(w, node))
        return write_expanded(w, node);
    if (row->write)
        return row->write(w, node);
    samba_onnx_cannot(w, node, "%s", row->reason ? row->reason : "there is no way to write it");
    return "";
}
