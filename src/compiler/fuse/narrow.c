/* SPDX-License-Identifier: Apache-2.0
 *
 * 16-bit floats read where they lie: a cast of them to float32 that is stored only so that other groups read it is not stored.
 * These load the 16-bit memory instead, and a load converts. Of two bytes an element two are read, where four were written and
 * read. The cast's access then names what it casts as base, and so do the accesses of its views.
 *
 * All readers must be tile programs, since kernels and products take the dtype that they are given. What is cast must lie in the
 * order of its elements, so that the readers' strides stay what fusion has found them to be, and must not be overwritten between
 * the cast and its readers. A group that has nothing else to compute becomes no stage.
 *
 * Needs: groups, and who is stored. Gives: access and stored of such casts, group->idle. Breaks: members whose access has their
 * own memory as base. */
#include "compiler/fuse/fuse.h"

typedef struct narrowing {
    samba_fusion *f;
    bool *casts;      /* per node: a cast that may be read so */
    uint8_t *written; /* per node: phases in which what lies in its memory changes, as bits */
} narrowing;

static bool is_tile(const samba_fusion *f, samba_ref ref)
{
    int32_t group = f->members[ref].group;
    return group >= 0 && (f->groups[group].kind == SAMBA_GROUP_TILE ||
                          (f->groups[group].kind == SAMBA_GROUP_CONTRACT && f->groups[group].anchor != ref));
}

static bool may_be_read_narrow(const samba_fusion *f, samba_ref ref)
{
    const samba_node *node = samba_node_at(f->graph, ref);
    if (node->op != SAMBA_OP_cast || node->dtype != SAMBA_FLOAT32 || !f->members[ref].stored || !is_tile(f, ref))
        return false;
    samba_ref from = node->inputs[0], base = f->access[from].base;
    samba_dtype dtype = (samba_dtype)samba_node_at(f->graph, from)->dtype;
    bool lies = !samba_computed_in_place(f, from) && !samba_is_inline(f->graph, base) &&
                (f->members[base].group < 0 || f->members[base].stored);
    return (dtype == SAMBA_BFLOAT16 || dtype == SAMBA_FLOAT16) && lies && samba_access_is_dense(f->graph, f->access, from);
}

/* Reads of the cast's memory by `reader`; of a phase behind one that overwrites what was cast they would find something else. */
static void note_reads(narrowing *n, samba_ref reader)
{
    const samba_fusion *f = n->f;
    const samba_node *node = samba_node_at(f->graph, reader);
    for (int k = 0; k < node->arity; k++) {
        samba_ref u = node->inputs[k], base = f->access[samba_value_read(f->graph, u)].base;
        if (!n->casts[base] || samba_is_member(f, f->members[reader].group, u))
            continue;
        int between = (1 << node->phase) - (1 << samba_node_at(f->graph, base)->phase); /* from the cast's on */
        samba_ref cast = f->access[samba_node_at(f->graph, base)->inputs[0]].base;
        if (!is_tile(f, reader) || samba_value_read(f->graph, u) != u || (n->written[cast] & between))
            n->casts[base] = false;
    }
}

static void find_casts(narrowing *n)
{
    const samba_fusion *f = n->f;
    const samba_graph *graph = f->graph;
    for (int64_t i = 0; i < graph->sink_count; i++)
        if (graph->sinks[i].kind == SAMBA_SINK_ASSIGN) { /* a value may be computed in its target's memory */
            n->written[graph->sinks[i].target] |= (uint8_t)(1 << graph->sinks[i].phase);
            n->written[f->access[graph->sinks[i].value].base] = UINT8_MAX;
        }
    for (int64_t i = 0; i < graph->node_count; i++)
        n->casts[i] = may_be_read_narrow(f, (samba_ref)i);
    for (int64_t i = 0; i < graph->sink_count; i++)
        n->casts[f->access[graph->sinks[i].value].base] = false;
    for (int64_t i = 0; i < graph->node_count; i++)
        if (f->members[i].group >= 0 && f->members[i].role != SAMBA_MEMBER_ALIAS)
            note_reads(n, (samba_ref)i);
}

samba_status samba_fusion_read_narrow(samba_fusion *f)
{
    const samba_graph *graph = f->graph;
    narrowing n = {.f = f};
    SAMBA_TRY(SAMBA_ROOM(&f->arena, n.casts, graph->node_count + 1));
    SAMBA_TRY(SAMBA_ROOM(&f->arena, n.written, graph->node_count + 1));
    find_casts(&n);
    for (int64_t i = 0; i < graph->node_count; i++) {
        samba_access *access = &f->access[i];
        if (!n.casts[access->base])
            continue;
        const samba_access *from = &f->access[samba_node_at(graph, access->base)->inputs[0]];
        f->members[access->base].stored = 0;
        access->offset += from->offset;
        access->base = from->base;
    }
    for (int32_t k = 0; k < f->group_count; k++) {
        samba_group *group = &f->groups[k];
        bool idle = group->kind == SAMBA_GROUP_TILE && group->member_count > 0;
        for (int64_t m = 0; m < group->member_count; m++)
            idle = idle && !f->members[group->members[m]].stored && n.casts[group->members[m]];
        group->idle = idle;
    }
    return SAMBA_OK;
}
