/* SPDX-License-Identifier: Apache-2.0
 *
 * The frame of every graph-to-graph pass: a new graph is emitted node by node from the live nodes of the old one, which stays as
 * it is. A pass only decides how one node is replaced, whose inputs are already mapped. Inputs stay even when nothing uses them:
 * they are the graph's signature.
 *
 * The caller owns the new graph; the map is freed before returning. */
#include "base/null.h"
#include "graph/graph.h"

samba_ref samba_rewrite_copy(samba_rewriter *rewriter, samba_ref ref, const samba_ref *inputs)
{
    const samba_node *node = samba_node_at(rewriter->in, ref);
    samba_attrs attrs;
    samba_attrs_carry(rewriter->out, rewriter->in, node, &attrs);
    return samba_emit(rewriter->out, (samba_op)node->op, node->arity, inputs, &attrs);
}

/* live[i] is 1 for what sinks reach and, where they are kept, for inputs. */
static void mark_live(const samba_graph *graph, bool keep_inputs, uint8_t *live)
{
    for (int64_t i = 0; i < graph->sink_count; i++) {
        live[graph->sinks[i].value] = 1;
        if (graph->sinks[i].kind == SAMBA_SINK_ASSIGN)
            live[graph->sinks[i].target] = 1;
    }
    for (int64_t i = graph->node_count - 1; i >= 0; i--) {
        const samba_node *node = &graph->nodes[i];
        if (node->op == SAMBA_OP_input && keep_inputs)
            live[i] = 1;
        for (int k = 0; live[i] && k < node->arity; k++)
            live[node->inputs[k]] = 1;
    }
}

static samba_status rewrite_node(samba_rewriter *rewriter, samba_rewrite_fn *rewrite, samba_ref ref)
{
    const samba_node *node = samba_node_at(rewriter->in, ref);
    samba_graph *out = rewriter->out;
    samba_ref inputs[SAMBA_MAX_ARITY];
    for (int k = 0; k < node->arity; k++)
        inputs[k] = rewriter->map[node->inputs[k]];
    out->phase = (samba_phase)node->phase;
    out->fp32 = node->fp32;
    out->location = samba_graph_location(out, rewriter->in, node->location);
    out->part = node->part;
    samba_ref result = rewrite(rewriter, ref, inputs);
    SAMBA_TRY(samba_graph_status(out));
    if (result >= out->node_count)
        return samba_fail(out->context, SAMBA_ERROR_INTERNAL, "rewriting %s %%%u gave %s", samba_op_table[node->op].name, ref,
                          result == SAMBA_NONE ? "no node and no error" : "a node that is not in the new graph");
    rewriter->map[ref] = result;
    return SAMBA_OK;
}

static samba_status rewrite_all(samba_rewriter *rewriter, samba_rewrite_fn *rewrite, const uint8_t *live)
{
    const samba_graph *in = rewriter->in;
    samba_graph *out = rewriter->out;
    out->recompute = true;
    for (int64_t i = 0; i < in->node_count; i++) {
        rewriter->map[i] = SAMBA_NONE;
        if (live[i])
            SAMBA_TRY(rewrite_node(rewriter, rewrite, (samba_ref)i));
    }
    out->recompute = false;
    out->fp32 = false;
    out->phase = in->phase;
    out->location = (samba_location){0};
    out->part = 0;
    for (int64_t i = 0; i < in->sink_count; i++) {
        samba_sink sink = in->sinks[i];
        sink.name = sink.name ? samba_graph_intern(out, samba_graph_name_at(in, sink.name)) : 0;
        sink.value = rewriter->map[sink.value];
        sink.target = sink.kind == SAMBA_SINK_ASSIGN ? rewriter->map[sink.target] : SAMBA_NONE;
        if (sink.kind != SAMBA_SINK_ASSIGN || sink.target != sink.value) /* what a leaf holds already needs no assignment */
            samba_graph_sink(out, sink);
    }
    return samba_graph_status(out);
}

static samba_status rewrite_live(const samba_graph *in, samba_rewrite_fn *rewrite, void *user, bool keep_inputs,
                                 samba_graph **result)
{
    *result = NULL;
    SAMBA_TRY(samba_graph_status(in));
    samba_graph *out;
    SAMBA_TRY(samba_graph_like(in, &out));
    size_t count = (size_t)in->node_count;
    samba_ref *map = samba_alloc(in->context, count * sizeof(*map));
    uint8_t *live = samba_calloc(in->context, count);
    samba_status status = SAMBA_ERROR_MEMORY;
    if (map && live) {
        samba_rewriter rewriter = {.in = in, .out = out, .map = map, .user = user};
        mark_live(in, keep_inputs, live);
        status = rewrite_all(&rewriter, rewrite, live);
    }
    if (map)
        samba_free(in->context, map, count * sizeof(*map));
    if (live)
        samba_free(in->context, live, count);
    if (status == SAMBA_OK)
        *result = out;
    else
        samba_graph_free(out);
    return status;
}

samba_status samba_graph_rewrite(const samba_graph *in, samba_rewrite_fn *rewrite, void *user, samba_graph **result)
{
    return rewrite_live(in, rewrite ? rewrite : samba_rewrite_copy, user, true, result);
}

samba_status samba_graph_prune(const samba_graph *in, samba_graph **result)
{
    return rewrite_live(in, samba_rewrite_copy, NULL, false, result);
}

samba_status samba_graph_copy(const samba_graph *graph, samba_graph **copy)
{
    SAMBA_NEED(NULL, graph);
    SAMBA_NEED(graph ? graph->context : NULL, copy);
    *copy = NULL;
    return graph->status == SAMBA_OK ? samba_graph_rewrite(graph, NULL, NULL, copy) : graph->status;
}
