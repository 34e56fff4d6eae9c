/* SPDX-License-Identifier: Apache-2.0
 *
 * Groups of FWD that a run of FWD and BCKWD can leave out: they serve only outputs that BCKWD delivers again (chunk.c). They run
 * after the rest of FWD, and become a section of their own.
 *
 * Needs: groups. Gives: group->redone. Breaks nothing. */
#include "compiler/fuse/fuse.h"

#include <string.h>

bool samba_is_delivered_again(const samba_graph *g, const samba_sink *sink)
{
    if (sink->kind != SAMBA_SINK_OUTPUT && sink->kind != SAMBA_SINK_LOSS)
        return false;
    for (int64_t i = 0; i < g->sink_count; i++)
        if (g->sinks[i].kind == SAMBA_SINK_AGAIN && g->sinks[i].name == sink->name)
            return true;
    return false;
}

void samba_find_servants(const samba_graph *g, uint8_t *serves)
{
    memset(serves, SAMBA_SERVES_NOTHING, (size_t)g->node_count);
    for (int64_t i = 0; i < g->sink_count; i++) {
        uint8_t how = samba_is_delivered_again(g, &g->sinks[i]) ? SAMBA_SERVES_REDONE : SAMBA_SERVES_KEPT,
                *value = &serves[g->sinks[i].value];
        *value = how > *value ? how : *value;
    }
    for (int64_t i = g->node_count - 1; i >= 0; i--)
        for (int k = 0; k < g->nodes[i].arity; k++) {
            uint8_t *input = &serves[g->nodes[i].inputs[k]];
            *input = serves[i] > *input ? serves[i] : *input;
        }
}

/* Operators that a hint keeps together may not be parted into the two sections. It is rare that they would be:
 * then nothing is left out. */
static samba_status keep_fusions(samba_fusion *f)
{
    const samba_graph *g = f->graph;
    enum { KEPT = 1, REDONE = 2 };
    uint8_t *seen;
    SAMBA_TRY(SAMBA_ROOM(&f->arena, seen, g->name_count));
    bool parted = false;
    for (int64_t k = 0; k < f->group_count; k++) {
        const samba_group *group = &f->groups[k];
        for (int64_t m = 0; m < group->member_count && group->phase == SAMBA_FWD; m++) {
            uint32_t fusion = samba_node_at(g, group->members[m])->location.fusion;
            seen[fusion] |= group->redone ? REDONE : KEPT;
            parted = parted || (fusion && seen[fusion] == (KEPT | REDONE));
        }
    }
    for (int64_t k = 0; parted && k < f->group_count; k++)
        f->groups[k].redone = false;
    return SAMBA_OK;
}

samba_status samba_fusion_find_redone(samba_fusion *f)
{
    const samba_graph *g = f->graph;
    bool any = false;
    for (int64_t i = 0; i < g->sink_count && !any; i++)
        any = g->sinks[i].kind == SAMBA_SINK_AGAIN;
    if (!any)
        return SAMBA_OK;
    uint8_t *serves;
    SAMBA_TRY(SAMBA_ROOM(&f->arena, serves, g->node_count + 1));
    samba_find_servants(g, serves);
    for (int64_t k = 0; k < f->group_count; k++) {
        samba_group *group = &f->groups[k];
        group->redone = group->phase == SAMBA_FWD && group->member_count > 0;
        for (int64_t m = 0; m < group->member_count; m++)
            group->redone = group->redone && serves[group->members[m]] != SAMBA_SERVES_KEPT;
    }
    /* a kept group may hold what only outputs need: what that waits for stays too */
    int64_t count = 0;
    for (int32_t k = 0; k < f->group_count; k++)
        if (f->groups[k].member_count > 0 && !f->groups[k].redone)
            f->pending[count++] = k;
    while (count > 0) {
        const samba_group_list *before = &f->groups[f->pending[--count]].before;
        for (int64_t i = 0; i < before->count; i++) {
            int32_t earlier = samba_group_now(f, before->at[i]);
            if (f->groups[earlier].redone)
                f->pending[count++] = earlier;
            f->groups[earlier].redone = false;
        }
    }
    return keep_fusions(f);
}
