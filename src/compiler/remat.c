/* SPDX-License-Identifier: Apache-2.0
 *
 * Rematerialisation: a forward value that only the backward would keep alive is computed again there when that is cheap: a few
 * arithmetic operators on values that have memory anyway (or are small, like a row's mean). A store and a load of a tensor cost more than
 * such arithmetic inside a stage. What forward alone stores is asked of fusion itself.
 *
 * Needs: expanded, simplified graph. Gives: copies of cheap forward nodes in phase BCKWD. Breaks nothing (no simplify after it: equal
 * nodes of two phases would fall together again). */
#include "compiler/fuse.h"

#include <string.h>

#define CHAIN_LIMIT 8  /* operators a recomputed value may need */
#define SMALL_SHARE 8  /* a value this many times smaller than the one it helps recompute is stored without a second thought */

typedef struct remat {
    const samba_graph *graph;
    samba_fusion forward; /* of the forward phase alone */
    int8_t *cost;         /* operators to recompute a node: 0 has memory or is free, > CHAIN_LIMIT: keep it */
    samba_ref *copy;      /* node -> its copy in BCKWD, SAMBA_NONE */
} remat;

static int64_t numel(const samba_node *node) { return samba_sizes_product(node->rank, node->shape); }

static bool cheap(const samba_node *node)
{
    switch (node->op) {
    case SAMBA_OP_exp: case SAMBA_OP_log: case SAMBA_OP_tanh: case SAMBA_OP_sigmoid: case SAMBA_OP_erf: case SAMBA_OP_pow:
    case SAMBA_OP_gelu: case SAMBA_OP_gelu_grad: case SAMBA_OP_gelu_tanh: case SAMBA_OP_gelu_tanh_grad:
        return false;
    default:
        return samba_ops[node->op].class_ == SAMBA_MAP || node->op == SAMBA_OP_expand || node->op == SAMBA_OP_reshape;
    }
}

static void find_costs(remat *r)
{
    const samba_graph *g = r->graph;
    for (int64_t i = 0; i < g->node_count; i++) {
        const samba_node *node = samba_node_at(g, (samba_ref)i);
        samba_ref base = r->forward.access[i].base;
        r->copy[i] = SAMBA_NONE;
        r->cost[i] = CHAIN_LIMIT + 1;
        if (samba_ops[node->op].class_ == SAMBA_LEAF || samba_is_inline(g, (samba_ref)i) || node->phase > SAMBA_FWD ||
            r->forward.members[base].stored || samba_ops[samba_node_at(g, base)->op].class_ == SAMBA_LEAF) {
            r->cost[i] = 0;
            continue;
        }
        if (!cheap(node))
            continue;
        int cost = 1;
        for (int k = 0; k < node->arity; k++) {
            const samba_node *input = samba_node_at(g, node->inputs[k]);
            bool small = numel(input) * SMALL_SHARE <= numel(node);
            cost += small ? 0 : r->cost[node->inputs[k]];
        }
        r->cost[i] = (int8_t)(cost > CHAIN_LIMIT ? CHAIN_LIMIT + 1 : cost);
    }
}

static bool worth(const remat *r, samba_ref ref) { return r->cost[ref] > 0 && r->cost[ref] <= CHAIN_LIMIT; }

static samba_ref copy(samba_rewriter *rewriter, samba_ref ref)
{
    remat *r = rewriter->user;
    if (r->copy[ref] != SAMBA_NONE)
        return r->copy[ref];
    const samba_node *node = samba_node_at(rewriter->in, ref);
    samba_ref inputs[3];
    if (node->arity > 3)
        return rewriter->map[ref];
    for (int i = 0; i < node->arity; i++)
        inputs[i] = worth(r, node->inputs[i]) && numel(samba_node_at(rewriter->in, node->inputs[i])) * SMALL_SHARE > numel(node)
                        ? copy(rewriter, node->inputs[i])
                        : rewriter->map[node->inputs[i]];
    rewriter->out->phase = SAMBA_BCKWD;
    rewriter->out->recompute = true;
    r->copy[ref] = samba_emit(rewriter->out, (samba_op)node->op, node->arity, inputs, node->attrs);
    return r->copy[ref];
}

static samba_ref rewrite(samba_rewriter *rewriter, samba_ref ref, const samba_ref *inputs)
{
    remat *r = rewriter->user;
    const samba_node *node = samba_node_at(rewriter->in, ref);
    bool any = false;
    for (int i = 0; i < node->arity && node->phase > SAMBA_FWD; i++)
        any = any || worth(r, node->inputs[i]);
    if (!any || node->arity > 3)
        return samba_rewrite_copy(rewriter, ref, inputs);
    samba_ref changed[3];
    samba_phase phase = rewriter->out->phase;
    for (int i = 0; i < node->arity; i++)
        changed[i] = worth(r, node->inputs[i]) ? copy(rewriter, node->inputs[i]) : inputs[i];
    rewriter->out->phase = phase;
    return samba_rewrite_copy(rewriter, ref, changed);
}

samba_status samba_pass_remat(samba_compiler *c)
{
    remat r = {.graph = c->graph};
    if (c->options->inference)
        return SAMBA_OK;
    SAMBA_TRY(samba_fuse(c->graph, SAMBA_FWD, &r.forward));
    r.cost = samba_arena_alloc(&r.forward.arena, (size_t)c->graph->node_count + 1);
    r.copy = samba_arena_alloc(&r.forward.arena, sizeof(samba_ref) * (size_t)(c->graph->node_count + 1));
    samba_graph *out = NULL;
    samba_status status = SAMBA_ERROR_MEMORY;
    if (r.cost && r.copy) {
        find_costs(&r);
        status = samba_graph_rewrite(c->graph, rewrite, &r, &out);
    }
    samba_fusion_free(&r.forward);
    if (status == SAMBA_OK)
        samba_compiler_take_graph(c, out);
    return status;
}
