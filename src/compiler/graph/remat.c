/* SPDX-License-Identifier: Apache-2.0
 *
 * Rematerialisation: which forward values the backward keeps alive, and which it computes again from these. Keeping costs a load,
 * and a store too where forward by itself would not put the value into memory (asked of fusion); computing again costs
 * arithmetic. The cheapest choice is a minimum cut (as in Zheng et al.: "min-cut rematerialization" of AOTAutograd, PyTorch 2): a
 * node of forward is two nodes of a network. Where the edge between them is cut it is kept, where the edge from the source is cut
 * it is computed again, and then its inputs must be there too. Inputs, parameters and states are there always, but cost a
 * reading, once for all that is computed from them.
 *
 *   source --(computing)--> in(v) --(keeping)--> out(v) --(never cut)--> in(w), for every w that reads v; sink, if the backward
 *   reads v source --(never cut)--> in(v) --(reading)--> out(v) --(never cut)--> in(w), where v is given
 *
 * With a memory budget kept bytes have a price of their own, contractions and reductions may be repeated, and the forward is cut
 * into segments that are computed again each by itself: values that reach over a cut are kept or not, but never computed again.
 *
 * Needs: expanded, simplified graph. Gives: copies of forward nodes in phase BCKWD. Breaks nothing (no simplify after it: equal
 * nodes of two phases would fall together again). */
#include "compiler/graph/remat.h"
#include "compiler/graph/mincut.h"

#include <stdlib.h>

/* Costs in quarters of the time that a byte takes on its way from or to memory. */
#define TRAFFIC 4.0
#define ARITHMETIC 2.0 /* an operator on one element */
#define TRANSCENDENTAL 16.0
#define POWER 32.0
#define LARGE (4 << 20) /* bytes that will not be in a cache any more when the backward comes */
#define FAR 1.5         /* what their traffic costs more */
#define FLOP 0.4        /* of a contraction */
#define EARLY                                                                                                                    \
    0.5 /* how much dearer, by share, a byte is that is made first than one made last: equal layers give way one by one,
                                and the first ones first, since memory is scarcest when the backward begins */

static double bytes_of(const samba_node *node)
{
    return (double)samba_node_numel(node) * (double)samba_dtype_size((samba_dtype)node->dtype);
}

static bool in_forward(const samba_remat *r, samba_ref ref)
{
    const samba_node *node = samba_node_at(r->graph, ref);
    return node->phase == SAMBA_FWD && samba_ops[node->op].class_ != SAMBA_LEAF && !samba_is_inline(r->graph, ref);
}

static bool is_alias(const samba_remat *r, samba_ref ref) { return r->forward.access[ref].base != ref; }

/* What is made of frozen weights: it is as cheap to make again as it was, and keeping it would take what they save. */
static void find_frozen(samba_remat *r)
{
    enum { WRITTEN = 2 };
    const samba_graph *g = r->graph;
    for (int64_t i = 0; i < g->sink_count; i++)
        if (g->sinks[i].kind == SAMBA_SINK_ASSIGN)
            r->frozen[g->sinks[i].target] = WRITTEN;
    for (int64_t i = 0; i < g->node_count; i++) {
        const samba_node *node = samba_node_at(g, (samba_ref)i);
        samba_op_class class_ = samba_ops[node->op].class_;
        if (r->frozen[i] == WRITTEN) {
            r->frozen[i] = false;
            continue;
        }
        bool frozen = node->op == SAMBA_OP_state || node->op == SAMBA_OP_constant || node->op == SAMBA_OP_literal ||
                      class_ == SAMBA_MAP || class_ == SAMBA_VIEW || node->op == SAMBA_OP_concat;
        for (int k = 0; k < node->arity && frozen; k++)
            frozen = r->frozen[node->inputs[k]];
        r->frozen[i] = frozen;
    }
}

static samba_status find_uses(samba_remat *r)
{
    const samba_graph *g = r->graph;
    size_t count = (size_t)g->node_count + 1;
    SAMBA_TRY(SAMBA_ROOM(&r->forward.arena, r->needed, count));
    SAMBA_TRY(SAMBA_ROOM(&r->forward.arena, r->in_memory, count));
    SAMBA_TRY(SAMBA_ROOM(&r->forward.arena, r->read_anyway, count));
    SAMBA_TRY(SAMBA_ROOM(&r->forward.arena, r->frozen, count));
    SAMBA_TRY(SAMBA_ROOM(&r->forward.arena, r->last_use, count));
    SAMBA_TRY(SAMBA_ROOM(&r->forward.arena, r->again, count));
    find_frozen(r);
    for (int64_t i = 0; i < g->node_count; i++) {
        const samba_node *node = samba_node_at(g, (samba_ref)i);
        samba_op_class class_ = samba_ops[node->op].class_;
        r->last_use[i] = i;
        if (node->phase == SAMBA_FWD)
            r->forward_end = i + 1;
        r->contractions += node->phase == SAMBA_FWD && class_ == SAMBA_CONTRACT;
        for (int k = 0; k < node->arity; k++) {
            samba_ref u = node->inputs[k], base = r->forward.access[u].base;
            if (node->phase == SAMBA_FWD) {
                r->last_use[base] = i;
            } else if (node->phase > SAMBA_FWD) {
                r->needed[u] |= in_forward(r, u);
                r->in_memory[base] |= class_ != SAMBA_MAP && class_ != SAMBA_REDUCE_CLASS && class_ != SAMBA_VIEW;
                r->read_anyway[base] |= node->phase == SAMBA_BCKWD && (class_ == SAMBA_MAP || class_ == SAMBA_REDUCE_CLASS);
            }
        }
    }
    return SAMBA_OK;
}

samba_status samba_remat_begin(samba_remat *r, samba_context *context, const samba_graph *graph)
{
    *r = (samba_remat){.context = context, .graph = graph};
    SAMBA_TRY(samba_fuse(graph, SAMBA_FWD, &r->forward));
    samba_status status = find_uses(r);
    if (status != SAMBA_OK)
        samba_remat_end(r);
    return status;
}

void samba_remat_end(samba_remat *r) { samba_fusion_free(&r->forward); }

/* ---- costs ---- */
static double arithmetic(const samba_node *node)
{
    static const double costs[SAMBA_COST_COUNT] = {
        [SAMBA_COST_ARITHMETIC] = ARITHMETIC, [SAMBA_COST_TRANSCENDENTAL] = TRANSCENDENTAL, [SAMBA_COST_POWER] = POWER};
    return costs[samba_tile_table[samba_tile_of((samba_op)node->op)].cost];
}

static bool is_given(const samba_node *node) { return samba_ops[node->op].tensor; }

/* Of reading once more what is given; not where the backward does it anyway,
 * as it does not with a weight in float32 whose cast it multiplies. */
static double traffic_of_given(const samba_remat *r, samba_ref ref)
{
    double bytes = bytes_of(samba_node_at(r->graph, ref));
    return r->read_anyway[ref] || r->frozen[ref] ? 0 : bytes * (bytes > LARGE ? FAR : 1) * TRAFFIC;
}

/* A mask, a number in a register and a byte in memory, is converted too on each way. */
static double traffic_of_keeping(const samba_remat *r, samba_ref ref)
{
    const samba_node *node = samba_node_at(r->graph, ref);
    double bytes = bytes_of(node), mask = node->dtype == SAMBA_BOOL ? bytes * ARITHMETIC : 0;
    return (bytes * (bytes > LARGE ? FAR : 1) * TRAFFIC + mask) * (r->forward.members[ref].stored ? 1 : 2);
}

static double cost_of_keeping(const samba_remat *r, const samba_remat_price *price, samba_ref ref)
{
    const samba_node *node = samba_node_at(r->graph, ref);
    double early = 1 + EARLY * (1 - (double)ref / (double)r->forward_end);
    return traffic_of_keeping(r, ref) + bytes_of(node) * (ref < price->border ? price->memory : price->late) * early;
}

double samba_remat_cost(const samba_remat *r, const samba_remat_price *price, samba_ref ref)
{
    const samba_node *node = samba_node_at(r->graph, ref), *inputs[SAMBA_MAX_ARITY] = {0};
    double stored = r->in_memory[ref] ? bytes_of(node) : 0; /* and read again soon: half of that in cache */
    double read = 0;
    if (r->frozen[ref])
        return 0;
    for (int k = 0; k < node->arity; k++) {
        inputs[k] = samba_node_at(r->graph, node->inputs[k]);
        read += bytes_of(inputs[k]);
    }
    samba_op_class class_ = samba_ops[node->op].class_;
    if (class_ == SAMBA_MAP)
        return (double)samba_node_numel(node) * arithmetic(node) + stored;
    if (price->memory == 0 || node->op == SAMBA_OP_replica_mean) /* an exchange costs more than any memory */
        return -1;
    /* never worth it for the traffic alone: what keeping takes comes on top, so that only the price decides */
    double work = class_ == SAMBA_REDUCE_CLASS                         ? (double)samba_node_numel(inputs[0]) * ARITHMETIC
                  : class_ == SAMBA_CONTRACT || class_ == SAMBA_KERNEL ? (double)samba_ops[node->op].flops(node, inputs) * FLOP
                                                                       : 0;
    return work + (bytes_of(node) + read) * TRAFFIC + traffic_of_keeping(r, ref);
}

/* ---- segments ---- */

/* The borders of the forward's segments: near the ends of equal shares of its contractions,
 * after the node over which the fewest bytes reach. */
static samba_status find_cuts(const samba_remat *r, int64_t segments, samba_arena *arena, uint8_t *cut)
{
    const samba_graph *g = r->graph;
    double *reach;
    SAMBA_TRY(SAMBA_ROOM(arena, reach, (size_t)g->node_count + 1));
    for (int64_t i = 0; i < g->node_count; i++)
        if (in_forward(r, (samba_ref)i) && !is_alias(r, (samba_ref)i)) {
            reach[i] += bytes_of(samba_node_at(g, (samba_ref)i));
            reach[r->last_use[i]] -= bytes_of(samba_node_at(g, (samba_ref)i));
        }
    for (int64_t i = 1; i < g->node_count; i++)
        reach[i] += reach[i - 1];
    int64_t seen = 0, best = -1, share = 0;
    for (int64_t i = 0; i < g->node_count; i++) { /* the best border in each share of contractions, its first half aside */
        const samba_node *node = samba_node_at(g, (samba_ref)i);
        if (node->phase != SAMBA_FWD || samba_ops[node->op].class_ == SAMBA_LEAF)
            continue;
        if (samba_ops[node->op].class_ == SAMBA_CONTRACT)
            seen++;
        int64_t now = seen * segments / (r->contractions + 1);
        if (now != share) {
            if (best >= 0)
                cut[best] = 1;
            best = -1;
            share = now;
        }
        if (best < 0 || reach[i] <= reach[best])
            best = i;
    }
    return SAMBA_OK;
}

static samba_status count_cuts(const samba_remat *r, const samba_remat_price *price, samba_arena *arena, int32_t *cuts_before)
{
    size_t count = (size_t)r->graph->node_count + 1;
    uint8_t *cut;
    SAMBA_TRY(SAMBA_ROOM(arena, cut, count));
    if (price->segments > 0)
        SAMBA_TRY(find_cuts(r, price->segments, arena, cut));
    cuts_before[0] = 0;
    for (size_t i = 1; i < count; i++)
        cuts_before[i] = cuts_before[i - 1] + cut[i - 1];
    return SAMBA_OK;
}

/* ---- the cut ---- */
static int64_t capacity(double cost) { return cost < 0 || cost >= (double)SAMBA_UNCUTTABLE ? SAMBA_UNCUTTABLE : (int64_t)cost; }

/* May the backward compute it again? */
static bool repeatable(const samba_remat *r, const samba_remat_price *price, const int32_t *cuts_before, samba_ref ref)
{
    if (price->memory > 0 && cuts_before[r->last_use[ref]] > cuts_before[ref])
        return false; /* it reaches over a cut. cuts_before[i]: cuts after nodes below i */
    return !price->kept || !price->kept[ref];
}

static samba_status decide(samba_remat *r, const samba_remat_price *price, samba_arena *arena)
{
    const samba_graph *g = r->graph;
    int32_t count = (int32_t)g->node_count, source = 2 * count, sink = 2 * count + 1;
    int32_t *cuts_before;
    uint8_t *sink_side;
    SAMBA_TRY(SAMBA_ROOM(arena, cuts_before, (size_t)count + 1));
    SAMBA_TRY(SAMBA_ROOM(arena, sink_side, (size_t)count * 2 + 2));
    SAMBA_TRY(count_cuts(r, price, arena, cuts_before));
    samba_network network;
    samba_network_init(&network, r->context, 2 * count + 2);
    for (int32_t i = 0; i < count; i++) {
        samba_ref ref = (samba_ref)i;
        if (is_given(samba_node_at(g, ref))) {
            samba_network_add(&network, source, 2 * i, SAMBA_UNCUTTABLE);
            samba_network_add(&network, 2 * i, 2 * i + 1, capacity(traffic_of_given(r, ref)));
        }
        if (!in_forward(r, ref))
            continue;
        bool alias = is_alias(r, ref);
        double computing = alias ? 0 : repeatable(r, price, cuts_before, ref) ? samba_remat_cost(r, price, ref) : -1;
        samba_network_add(&network, source, 2 * i, capacity(computing));
        samba_network_add(&network, 2 * i, 2 * i + 1, capacity(alias ? -1 : cost_of_keeping(r, price, ref)));
        if (r->needed[i])
            samba_network_add(&network, 2 * i + 1, sink, SAMBA_UNCUTTABLE);
        const samba_node *node = samba_node_at(g, ref);
        for (int k = 0; k < node->arity; k++)
            if (in_forward(r, node->inputs[k]) ||
                (is_given(samba_node_at(g, node->inputs[k])) && (alias || samba_ops[node->op].class_ == SAMBA_MAP)))
                samba_network_add(&network, 2 * (int32_t)node->inputs[k] + 1, 2 * i, SAMBA_UNCUTTABLE);
    }
    samba_status status = samba_network_cut(&network, source, sink, sink_side);
    for (int32_t i = 0; i < count && status == SAMBA_OK; i++) {
        bool alias = is_alias(r, (samba_ref)i);
        r->again[i] =
            in_forward(r, (samba_ref)i) && (alias ? r->again[samba_node_at(g, (samba_ref)i)->inputs[0]] : sink_side[2 * i]);
        if (r->again[i] && !alias)
            r->repeated += samba_remat_cost(r, price, (samba_ref)i);
    }
    samba_network_free(&network);
    return status;
}

/* ---- copying ---- */
typedef struct copying {
    const uint8_t *again;
    samba_ref *copy;    /* node -> its copy in BCKWD, SAMBA_NONE */
    samba_ref *pending; /* nodes to copy for one that is wanted */
} copying;

static int by_index(const void *a, const void *b) { return *(const samba_ref *)a < *(const samba_ref *)b ? -1 : 1; }

/* Copies a node, after all that it is made of. */
static samba_ref copy(samba_rewriter *rewriter, samba_ref wanted)
{
    copying *c = rewriter->user;
    const samba_graph *in = rewriter->in;
    int64_t count = 0;
    if (c->copy[wanted] != SAMBA_NONE)
        return c->copy[wanted];
    c->pending[count++] = wanted;
    c->copy[wanted] = wanted; /* for now: it is on the list */
    for (int64_t at = 0; at < count; at++) {
        const samba_node *node = samba_node_at(in, c->pending[at]);
        for (int k = 0; k < node->arity; k++)
            if (c->again[node->inputs[k]] && c->copy[node->inputs[k]] == SAMBA_NONE) {
                c->copy[node->inputs[k]] = node->inputs[k];
                c->pending[count++] = node->inputs[k];
            }
    }
    qsort(c->pending, (size_t)count, sizeof(samba_ref), by_index);
    samba_phase phase = rewriter->out->phase;
    rewriter->out->phase = SAMBA_BCKWD;
    for (int64_t i = 0; i < count; i++) {
        const samba_node *node = samba_node_at(in, c->pending[i]);
        samba_ref inputs[SAMBA_MAX_ARITY];
        for (int k = 0; k < node->arity; k++)
            inputs[k] = c->again[node->inputs[k]] ? c->copy[node->inputs[k]] : rewriter->map[node->inputs[k]];
        c->copy[c->pending[i]] = samba_rewrite_copy(rewriter, c->pending[i], inputs);
    }
    rewriter->out->phase = phase;
    return c->copy[wanted];
}

static samba_ref rewrite(samba_rewriter *rewriter, samba_ref ref, const samba_ref *inputs)
{
    copying *c = rewriter->user;
    const samba_node *node = samba_node_at(rewriter->in, ref);
    samba_ref changed[SAMBA_MAX_ARITY];
    for (int k = 0; k < node->arity; k++)
        changed[k] = node->phase > SAMBA_FWD && c->again[node->inputs[k]] ? copy(rewriter, node->inputs[k]) : inputs[k];
    return samba_rewrite_copy(rewriter, ref, changed);
}

static samba_status copy_all(samba_remat *r, samba_arena *arena, samba_graph **graph)
{
    size_t count = (size_t)r->graph->node_count + 1;
    copying c = {.again = r->again};
    SAMBA_TRY(SAMBA_ROOM(arena, c.copy, count));
    SAMBA_TRY(SAMBA_ROOM(arena, c.pending, count));
    for (size_t i = 0; i < count; i++)
        c.copy[i] = SAMBA_NONE;
    return samba_graph_rewrite(r->graph, rewrite, &c, graph);
}

samba_status samba_remat_rewrite(samba_remat *r, const samba_remat_price *price, samba_graph **graph)
{
    samba_arena arena;
    samba_arena_init(&arena, r->context);
    r->repeated = 0;
    samba_status status = decide(r, price, &arena);
    if (status == SAMBA_OK)
        status = copy_all(r, &arena, graph);
    samba_arena_free(&arena);
    return status;
}

samba_status samba_pass_remat(samba_compiler *c)
{
    samba_remat r;
    samba_graph *out = NULL;
    if (c->options->inference || c->options->memory_budget > 0) /* the pass `budget` has a price */
        return SAMBA_OK;
    SAMBA_TRY(samba_remat_begin(&r, c->context, c->graph));
    samba_status status = samba_remat_rewrite(&r, &(samba_remat_price){0}, &out);
    samba_remat_end(&r);
    if (status == SAMBA_OK)
        samba_compiler_take_graph(c, out);
    return status;
}
