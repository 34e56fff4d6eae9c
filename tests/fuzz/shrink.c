/* SPDX-License-Identifier: Apache-2.0
 *
 * A wrong graph made small. Each step rewrites the graph into one that is a little simpler; where that is wrong too it takes its
 * place. First outputs are left out, then nodes are cut off, from the first: a new input stands for one, and what it was made of
 * goes. Then nodes give way to an input of theirs that has their type. Until nothing helps. */
#include "fuzz.h"

typedef struct change {
    samba_ref at;
    int input;        /* stands for the node; -1: a new leaf does */
    const char *kind; /* what the new leaf's name begins with */
} change;

static samba_ref changed(samba_rewriter *rewriter, samba_ref ref, const samba_ref *inputs)
{
    const change *c = rewriter->user;
    if (ref != c->at)
        return samba_rewrite_copy(rewriter, ref, inputs);
    if (c->input >= 0)
        return inputs[c->input];
    const samba_node *node = samba_node_at(rewriter->in, ref);
    samba_attrs attrs;
    char name[40];
    memset(&attrs, 0, sizeof attrs);
    snprintf(name, sizeof name, "%scut%u", c->kind, (unsigned)ref);
    attrs.leaf.name = samba_graph_intern(rewriter->out, name);
    attrs.leaf.dtype = node->dtype;
    attrs.leaf.shape.count = node->rank;
    memcpy(attrs.leaf.shape.at, node->shape, sizeof node->shape);
    return samba_emit(rewriter->out, SAMBA_OP_input, 0, NULL, &attrs);
}

/* Without the inputs that nothing needs. */
static samba_graph *pruned(samba_graph *graph)
{
    samba_graph *small = NULL;
    bool done = graph && samba_graph_prune(graph, &small) == SAMBA_OK;
    samba_graph_free(graph);
    return done ? small : NULL;
}

/* `next` if it is wrong too, which frees `graph`; else `graph`. */
static bool better(samba_graph **graph, samba_graph *next, fuzz_checker *check, fuzz_report *report)
{
    fuzz_report other;
    if (next && check(next, &other) == FUZZ_WRONG) {
        samba_graph_free(*graph);
        *graph = next;
        *report = other;
        return true;
    }
    samba_graph_free(next);
    return false;
}

static samba_graph *without_sink(const samba_graph *graph, int64_t sink)
{
    samba_graph *copy;
    if (samba_graph_rewrite(graph, NULL, NULL, &copy) != SAMBA_OK)
        return NULL;
    copy->sinks[sink] = copy->sinks[--copy->sink_count];
    return pruned(copy);
}

static samba_graph *with(const samba_graph *graph, change c)
{
    samba_graph *copy;
    return samba_graph_rewrite(graph, changed, &c, &copy) == SAMBA_OK ? pruned(copy) : NULL;
}

static bool same_type(const samba_node *a, const samba_node *b)
{
    return a->dtype == b->dtype && a->rank == b->rank && memcmp(a->shape, b->shape, sizeof(int64_t) * a->rank) == 0;
}

static bool step(samba_graph **graph, fuzz_checker *check, fuzz_report *report)
{
    static const char *const kinds[] = {"x", "p", "i1_"};
    for (int64_t i = (*graph)->node_count - 1; i >= 0; i--) {
        const samba_node *node = samba_node_at(*graph, (samba_ref)i);
        if (samba_ops[node->op].class_ == SAMBA_LEAF)
            continue;
        for (int k = 0; k < 3; k++)
            if ((k < 2 || !samba_dtype_is_floating_point((samba_dtype)node->dtype)) &&
                better(graph, with(*graph, (change){(samba_ref)i, -1, kinds[k]}), check, report))
                return true;
        for (int k = 0; k < node->arity; k++)
            if (same_type(node, samba_node_at(*graph, node->inputs[k])) &&
                better(graph, with(*graph, (change){(samba_ref)i, k, NULL}), check, report))
                return true;
    }
    return false;
}

samba_graph *fuzz_shrink(samba_graph *graph, fuzz_checker *check, fuzz_report *report)
{
    for (int64_t s = graph->sink_count - 1; s >= 0; s--)
        if (graph->sink_count > 1)
            better(&graph, without_sink(graph, s), check, report);
    for (int round = 0; round < 500 && step(&graph, check, report); round++)
        ;
    return graph;
}
