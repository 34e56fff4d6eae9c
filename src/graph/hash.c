/* SPDX-License-Identifier: Apache-2.0
 *
 * The structure hash of a whole graph: nodes in order, then sinks. Names count by their text and literals by the hash of their
 * bytes, since their indices depend on the order in which they were met; the graph's name and locations do not count. */
#include "graph/graph.h"
#include <string.h>

static uint64_t hash_name(const samba_graph *graph, int64_t name, uint64_t seed)
{
    const char *text = samba_graph_name_at(graph, name);
    return samba_hash(text, strlen(text) + 1, seed);
}

static uint64_t hash_attrs(const samba_graph *graph, const samba_node *node, uint64_t hash)
{
    const samba_attrs_facts *facts = &samba_attrs_table[samba_op_table[node->op].attrs];
    const char *at = (const char *)node->attrs;
    for (int i = 0; i < facts->field_count; i++) {
        size_t size = samba_field_size(facts->fields[i].kind);
        int64_t number;
        memcpy(&number, at, sizeof(number));
        if (facts->fields[i].kind == SAMBA_FIELD_NAME)
            hash = hash_name(graph, number, hash);
        else if (facts->fields[i].kind == SAMBA_FIELD_BLOB)
            hash = samba_hash(&samba_graph_blob_at(graph, number)->hash, sizeof(uint64_t), hash);
        else
            hash = samba_hash(at, size, hash);
        at += size;
    }
    return hash;
}

uint64_t samba_graph_hash(const samba_graph *graph)
{
    uint64_t hash = 0;
    for (int64_t i = 0; i < graph->node_count; i++) {
        const samba_node *node = &graph->nodes[i];
        int64_t head[6] = {node->op, node->dtype, node->rank, node->phase, node->arity, node->fp32};
        hash = samba_hash(head, sizeof(head), hash);
        hash = samba_hash(node->shape, sizeof(node->shape), hash);
        if (node->arity > 0)
            hash = samba_hash(node->inputs, node->arity * sizeof(*node->inputs), hash);
        hash = hash_attrs(graph, node, hash);
    }
    for (int64_t i = 0; i < graph->sink_count; i++) {
        const samba_sink *sink = &graph->sinks[i];
        int64_t head[4] = {sink->kind, sink->phase, sink->target, sink->value};
        hash = samba_hash(head, sizeof(head), hash);
        hash = hash_name(graph, sink->name, hash);
    }
    return hash;
}
