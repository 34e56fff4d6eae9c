/* SPDX-License-Identifier: Apache-2.0
 *
 * Concatenation without copies: an input of a concat that one group computes and nobody else reads is computed in its part of the
 * concat's memory. Its access then names the concat as base, with the offset and strides of the part. Stores go there, and the
 * concat has nothing left to copy of it. Concats in concats are taken from the outermost in.
 *
 * A piece must be whole in the concat's operand, strides must be able to undo its views, and its group must be able to write
 * there under its domain. Anything else is copied. */
#include "compiler/fuse/fuse.h"

#include <string.h>

/* For each base the number of reads of its memory, by sinks and by groups other than its own. */
static samba_status count_readers(samba_compiler *c, int32_t **counts)
{
    const samba_graph *g = c->graph;
    const samba_fusion *f = &c->fusion;
    int32_t *readers;
    SAMBA_TRY(SAMBA_ROOM(&c->arena, readers, g->node_count + 1));
    for (int64_t i = 0; i < g->node_count; i++) {
        const samba_node *node = samba_node_at(g, (samba_ref)i);
        if (samba_ops[node->op].class_ == SAMBA_VIEW && f->access[i].base != (samba_ref)i)
            continue;
        bool tile = f->members[i].group >= 0 &&
                    (f->groups[f->members[i].group].kind == SAMBA_GROUP_TILE ||
                     (f->groups[f->members[i].group].kind == SAMBA_GROUP_CONTRACT && f->groups[f->members[i].group].anchor != i));
        for (int k = 0; k < node->arity; k++)
            if (!tile || !samba_is_member(f, f->members[i].group, node->inputs[k]))
                readers[f->access[node->inputs[k]].base]++;
    }
    for (int64_t i = 0; i < g->sink_count; i++)
        readers[f->access[g->sinks[i].value].base]++;
    *counts = readers;
    return SAMBA_OK;
}

/* An assignment's target may still be read when a piece is written: the concat itself would wait for that (bufferize.c). */
static bool target_is_read(const samba_compiler *c, samba_ref concat)
{
    const samba_graph *g = c->graph;
    for (int64_t s = 0; s < g->sink_count; s++) {
        if (g->sinks[s].kind != SAMBA_SINK_ASSIGN || c->fusion.access[g->sinks[s].value].base != concat)
            continue;
        for (int64_t i = 0; i < g->node_count; i++)
            for (int k = 0; k < g->nodes[i].arity; k++)
                if (c->fusion.access[g->nodes[i].inputs[k]].base == g->sinks[s].target)
                    return true;
    }
    return false;
}

bool samba_is_computed_in_concat(const samba_access *access, samba_ref concat, samba_ref input)
{
    return access[input].base == concat || samba_is_piece(access, access[input].base);
}

/* Strides over `view` as strides over the value it shows, the way back through reshapes and permutes. */
static bool strides_of_source(const samba_graph *g, samba_ref view, samba_ref source, int64_t *strides)
{
    while (view != source) {
        const samba_node *node = samba_node_at(g, view), *from = samba_node_at(g, node->inputs[0]);
        int64_t back[SAMBA_MAX_RANK] = {0};
        if (node->op == SAMBA_OP_permute) {
            for (int i = 0; i < node->rank; i++)
                back[node->attrs->permute.dims.at[i]] = strides[i];
        } else if (node->op != SAMBA_OP_reshape ||
                   !samba_shape_view_strides(node->rank, node->shape, strides, from->rank, from->shape, back)) {
            return false;
        }
        memcpy(strides, back, sizeof back);
        view = node->inputs[0];
    }
    return true;
}

static bool writable(const samba_fusion *f, samba_ref ref, const int64_t *strides)
{
    const samba_member *member = &f->members[ref];
    const samba_group *g = &f->groups[member->group];
    if (g->kind == SAMBA_GROUP_MOVE) {
        uint16_t op = samba_node_at(f->graph, ref)->op;
        return op == SAMBA_OP_concat || op == SAMBA_OP_flip || op == SAMBA_OP_pad;
    }
    return (g->kind == SAMBA_GROUP_TILE || g->kind == SAMBA_GROUP_CONTRACT) &&
           samba_group_writable_at(g, g->cols, samba_node_at(f->graph, ref), member->dims, strides);
}

static void try_piece(samba_compiler *c, const int32_t *readers, samba_ref concat, samba_ref input, int64_t offset)
{
    samba_fusion *f = &c->fusion;
    samba_ref base = f->access[input].base;
    const samba_node *node = samba_node_at(c->graph, base);
    int64_t strides[SAMBA_MAX_RANK];
    memcpy(strides, f->access[concat].strides, sizeof strides);
    if (f->members[base].group < 0 || readers[base] != 1 || samba_is_piece(f->access, base) ||
        node->phase != samba_node_at(c->graph, concat)->phase || !strides_of_source(c->graph, input, base, strides) ||
        !writable(f, base, strides))
        return;
    f->access[base] = (samba_access){.base = concat, .offset = offset};
    memcpy(f->access[base].strides, strides, sizeof strides);
}

samba_status samba_pieces_find(samba_compiler *c)
{
    const samba_graph *g = c->graph;
    int32_t *readers = NULL;
    for (int64_t i = g->node_count - 1; i >= 0; i--) {
        const samba_node *node = samba_node_at(g, (samba_ref)i);
        if (node->op != SAMBA_OP_concat || target_is_read(c, (samba_ref)i))
            continue;
        if (!readers)
            SAMBA_TRY(count_readers(c, &readers));
        int64_t at = c->fusion.access[i].offset, dim = node->attrs->axis.dim;
        for (int k = 0; k < node->arity; k++) {
            try_piece(c, readers, (samba_ref)i, node->inputs[k], at);
            at += samba_node_at(g, node->inputs[k])->shape[dim] * c->fusion.access[i].strides[dim];
        }
    }
    return SAMBA_OK;
}

void samba_pieces_bufferize(samba_compiler *c)
{
    const samba_access *access = c->fusion.access;
    for (int64_t i = c->graph->node_count - 1; i >= 0; i--) /* an outer concat has a higher number than those in it */
        if (samba_ops[samba_node_at(c->graph, (samba_ref)i)->op].class_ != SAMBA_VIEW && samba_is_piece(access, (samba_ref)i))
            c->placed.buffer_of[i] = c->placed.buffer_of[access[i].base];
}
