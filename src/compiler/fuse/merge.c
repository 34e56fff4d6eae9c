/* SPDX-License-Identifier: Apache-2.0
 *
 * A node that reads two groups of one domain makes them one, where neither needs memory that the other writes and no third group
 * stands between them. A contraction's group takes others in, never the other way. */
#include "compiler/fuse/fuse.h"

#include <stdlib.h>
#include <string.h>

/* Would input u of member m find its value in a register: its dims lie in the one domain as they lie in the other, and a row's
 * value is made of row values? */
static bool in_step(const samba_fusion *f, samba_ref m, samba_ref u)
{
    const samba_node *node = samba_node_at(f->graph, m), *source = samba_node_at(f->graph, u);
    if (f->members[m].role == SAMBA_MEMBER_ROW && samba_ops[node->op].class_ == SAMBA_MAP &&
        samba_role_of(f, u) != SAMBA_MEMBER_ROW)
        return false;
    for (int j = 0; j < source->rank; j++)
        if (source->shape[j] != 1 && f->members[u].dims[j] != f->members[m].dims[j + node->rank - source->rank])
            return false;
    return true;
}

/* Does `reader` need something of `collector` in memory: what it collects, a true view of it, what lies otherwise there, a row's
 * value that it reduces, or a contraction's operand; or the seed of numbers that it draws? */
static bool reads_memory(const samba_fusion *f, int32_t reader, int32_t collector)
{
    for (int64_t m = 0; m < f->groups[reader].member_count; m++) {
        const samba_node *node = samba_node_at(f->graph, f->groups[reader].members[m]);
        for (int i = 0; i < node->arity; i++) {
            samba_ref source = f->access[node->inputs[i]].base, read = samba_value_read(f->graph, source);
            if (read != source && f->members[f->access[read].base].group == collector)
                return true;
            const samba_member *base = &f->members[f->access[node->inputs[i]].base];
            bool operand =
                f->groups[reader].kind == SAMBA_GROUP_CONTRACT && f->groups[reader].members[m] == f->groups[reader].anchor;
            if (base->group == collector && (operand || !samba_is_member(f, collector, node->inputs[i]) ||
                                             !in_step(f, f->groups[reader].members[m], node->inputs[i]) ||
                                             samba_reduces_spread(f, &f->groups[collector], node)))
                return true;
        }
    }
    return false;
}

static bool mergeable(samba_fusion *f, int32_t into, int32_t from)
{
    const samba_group *a = &f->groups[into], *b = &f->groups[from];
    if (b->kind != SAMBA_GROUP_TILE || (a->kind != SAMBA_GROUP_TILE && a->kind != SAMBA_GROUP_CONTRACT) || a->phase != b->phase ||
        samba_node_at(f->graph, a->anchor)->part != samba_node_at(f->graph, b->anchor)->part || a->rank != b->rank ||
        memcmp(a->domain, b->domain, sizeof(int64_t) * (size_t)a->rank) != 0 ||
        memcmp(a->order, b->order, (size_t)a->rank) != 0 || a->member_count + b->member_count > SAMBA_GROUP_MEMBER_LIMIT ||
        (b->cols != 0 && b->cols != a->cols))
        return false;
    if (samba_group_between(f, into, from) || samba_group_between(f, from, into) || reads_memory(f, into, from) ||
        reads_memory(f, from, into))
        return false;
    samba_group probe = *a; /* what `from` reads and writes, under the rules of `into` */
    for (int64_t m = 0; m < b->member_count; m++) {
        const samba_node *node = samba_node_at(f->graph, b->members[m]);
        const samba_member *member = &f->members[b->members[m]];
        if (member->role == SAMBA_MEMBER_COLLECT && !samba_group_writable(&probe, a->cols, node, member->dims))
            return false;
        if (member->role == SAMBA_MEMBER_FULL && !samba_group_storable(&probe, a->cols, node, member->dims))
            return false;
        for (int i = 0; i < node->arity; i++)
            if (!samba_is_member(f, from, node->inputs[i]) && !samba_is_member(f, into, node->inputs[i]) &&
                !samba_is_constant(f, node->inputs[i]) &&
                !samba_group_readable(f, &probe, a->cols, node->inputs[i], node->rank, member->dims))
                return false;
    }
    return true;
}

static int by_index(const void *a, const void *b) { return *(const samba_ref *)a < *(const samba_ref *)b ? -1 : 1; }

/* `ref`: the last node that has a group yet. */
static samba_status merge(samba_fusion *f, int32_t into, int32_t from, samba_ref ref)
{
    samba_group *a = &f->groups[into], *b = &f->groups[from];
    SAMBA_TRY(SAMBA_GROW(f->arena.context, a->members, a->member_capacity, a->member_count + b->member_count));
    memcpy(a->members + a->member_count, b->members, sizeof(samba_ref) * (size_t)b->member_count);
    a->member_count += b->member_count;
    qsort(a->members, (size_t)a->member_count, sizeof(samba_ref), by_index);
    b->member_count = 0;
    for (int64_t i = a->members[0]; i <= ref; i++) /* views too, which no list holds */
        if (f->members[i].group == from)
            f->members[i].group = into;
    return samba_group_absorb(f, into, from);
}

/* Node `ref` has just joined a group and reads others. */
samba_status samba_merge_inputs(samba_fusion *f, samba_ref ref)
{
    const samba_node *node = samba_node_at(f->graph, ref);
    for (int i = 0; i < node->arity; i++) {
        samba_ref u = node->inputs[i];
        int32_t mine = f->members[ref].group, other = f->members[u].group;
        if (other < 0 || other == mine || !samba_is_member(f, other, u))
            continue;
        if (f->members[ref].role == SAMBA_MEMBER_ROW || !in_step(f, ref, u))
            continue;
        if (mergeable(f, mine, other))
            SAMBA_TRY(merge(f, mine, other, ref));
        else if (mergeable(f, other, mine))
            SAMBA_TRY(merge(f, other, mine, ref));
    }
    return SAMBA_OK;
}
