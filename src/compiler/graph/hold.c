/* SPDX-License-Identifier: Apache-2.0
 *
 * An assignment takes effect when its phase ends. Everything else that the phase computes and delivers is of the leaf's old
 * value, and so is BCKWD, which differentiates FWD. Three reads of a leaf come too late for that:
 *   - a sink that takes the leaf, or some of it, as it is: no operator that bufferize.c could order before the one that writes
 *   (two buffers
 *     that change places, an output that is a buffer's old value);
 *   - a node of BCKWD, which runs when FWD has written;
 *   - a node of FWD that serves only what BCKWD delivers again, which runs after all others (redone.c).
 *
 * They get a value that is computed in time, by a cast to the dtype that the leaf has.
 *
 * Needs: the final graph (simplify takes such casts away; remat decides what BCKWD reads). Gives: no read of a leaf behind the
 * phase that overwrites it, nor sinks that are one. Breaks nothing. */
#include "compiler/compiler.h"

typedef struct holding {
    samba_access *access;
    uint8_t *written; /* per leaf: a bit for each phase that overwrites it */
    uint8_t *serves;  /* of redone.c */
    uint8_t *wanted;  /* leaves, and views of them, whose old value is needed too late */
    samba_ref *held;  /* that value, in the new graph */
} holding;

static bool is_overwritten(const holding *h, samba_ref ref, samba_phase phase)
{
    return h->written[h->access[ref].base] >> phase & 1;
}

/* Whether a node reads an old value too late by this input. Views of BCKWD's own read it by theirs. */
static bool is_late(const holding *h, const samba_graph *g, samba_ref reader, samba_ref input)
{
    samba_phase phase = (samba_phase)samba_node_at(g, reader)->phase;
    bool late = phase == SAMBA_BCKWD || (phase == SAMBA_FWD && h->serves[reader] == SAMBA_SERVES_REDONE);
    return late && samba_node_at(g, input)->phase <= SAMBA_FWD && is_overwritten(h, input, SAMBA_FWD);
}

static samba_status look(samba_compiler *c, holding *h)
{
    const samba_graph *g = c->graph;
    size_t count = (size_t)g->node_count + 1;
    SAMBA_TRY(SAMBA_ROOM(&c->arena, h->access, count));
    SAMBA_TRY(SAMBA_ROOM(&c->arena, h->written, 3 * count));
    h->wanted = h->written + count;
    h->serves = h->wanted + count;
    samba_find_servants(g, h->serves);
    SAMBA_TRY(samba_access_all(g, h->access));
    for (int64_t i = 0; i < g->sink_count; i++)
        if (g->sinks[i].kind == SAMBA_SINK_ASSIGN)
            h->written[g->sinks[i].target] |= (uint8_t)(1 << g->sinks[i].phase);
    return SAMBA_OK;
}

/* Nodes come behind their inputs, so one pass from the last to the first finds all of a chain of views. */
static bool find_wanted(const samba_graph *g, holding *h)
{
    bool any = false;
    for (int64_t i = g->node_count - 1; i >= 0; i--) {
        const samba_node *node = samba_node_at(g, (samba_ref)i);
        for (int k = 0; k < node->arity; k++)
            if (is_late(h, g, (samba_ref)i, node->inputs[k]) || (h->wanted[i] && h->access[i].base != (samba_ref)i))
                h->wanted[node->inputs[k]] = any = true;
    }
    return any;
}

static samba_ref rewrite(samba_rewriter *rewriter, samba_ref ref, const samba_ref *inputs)
{
    holding *h = rewriter->user;
    const samba_node *node = samba_node_at(rewriter->in, ref);
    samba_ref changed[SAMBA_MAX_ARITY];
    for (int k = 0; k < node->arity; k++)
        changed[k] = is_late(h, rewriter->in, ref, node->inputs[k]) ? h->held[node->inputs[k]] : inputs[k];
    samba_ref result = samba_rewrite_copy(rewriter, ref, changed);
    if (!h->wanted[ref])
        return result;
    rewriter->out->phase = SAMBA_FWD;
    samba_attrs same = {.cast.dtype = node->dtype};
    h->held[ref] = h->access[ref].base == ref ? samba_emit(rewriter->out, SAMBA_OP_cast, 1, &result, &same)
                                              : samba_rewrite_copy(rewriter, ref, &h->held[node->inputs[0]]);
    return result;
}

static samba_status hold_for_late_nodes(samba_compiler *c)
{
    holding h;
    SAMBA_TRY(look(c, &h));
    if (!find_wanted(c->graph, &h))
        return SAMBA_OK;
    SAMBA_TRY(SAMBA_ROOM(&c->arena, h.held, (size_t)c->graph->node_count + 1));
    return samba_compiler_rewrite(c, rewrite, &h);
}

static samba_status hold_for_sinks(samba_compiler *c)
{
    holding h;
    SAMBA_TRY(look(c, &h));
    samba_graph *g = c->graph; /* adds to it in place: nothing else holds it */
    for (int64_t i = 0; i < g->sink_count; i++) {
        samba_sink *sink = &g->sinks[i];
        samba_ref value = sink->value, leaf = h.access[value].base;
        bool itself = sink->kind == SAMBA_SINK_ASSIGN && sink->target == leaf && samba_access_is_whole(g, h.access, value);
        bool late = sink->phase == SAMBA_BCKWD && is_overwritten(&h, value, SAMBA_FWD);
        if (itself || !(late || is_overwritten(&h, value, sink->phase)))
            continue;
        g->phase = late ? SAMBA_FWD : sink->phase;
        samba_attrs same = {.cast.dtype = samba_node_at(g, value)->dtype};
        samba_ref held = samba_emit(g, SAMBA_OP_cast, 1, &value, &same);
        SAMBA_TRY(g->status);
        g->sinks[i].value = held;
    }
    return SAMBA_OK;
}

samba_status samba_pass_hold(samba_compiler *c)
{
    SAMBA_TRY(hold_for_late_nodes(c));
    return hold_for_sinks(c);
}
