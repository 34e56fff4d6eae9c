/* SPDX-License-Identifier: Apache-2.0
 *
 * Fusion: every node that computes something joins a group, and a group becomes one stage. A group has a domain; each member has one
 * value for every element of it (FULL), one for every row (ROW, once a row reduction fixed what a row is), or is a reduction over anything
 * else (COLLECT), known only when the group has run. Nodes are taken in order; each tries the groups that already hold or load its
 * inputs, latest first, and begins a group of its own where none can take it. Groups never depend on each other in a circle: `before`
 * holds for each the set that must precede it.
 *
 * Needs: core operators only. Gives: groups, roles, who needs memory, an order. Breaks nothing (the graph stays). */
#include "compiler/fuse.h"

#include <string.h>

bool samba_is_inline(const samba_graph *graph, samba_ref ref)
{
    uint16_t op = samba_node_at(graph, ref)->op;
    return op == SAMBA_OP_constant || op == SAMBA_OP_iota || op == SAMBA_OP_random;
}

/* ---- dependencies ---- */
int32_t samba_maker(const samba_fusion *f, samba_ref ref) { return f->members[f->access[ref].base].group; }

void samba_group_depend(samba_fusion *f, int32_t group, const uint64_t *set)
{
    for (int64_t w = 0; w < f->words; w++)
        f->groups[group].before[w] |= set[w];
    for (int64_t k = 0; k < f->group_count && f->groups[group].awaited; k++)
        if (samba_bit(f->groups[k].before, group))
            for (int64_t w = 0; w < f->words; w++)
                f->groups[k].before[w] |= set[w];
}

/* Groups that must precede a group that would hold `ref`: makers of its external inputs, and all before those. */
void samba_gather_before(const samba_fusion *f, int32_t group, samba_ref ref, uint64_t *set)
{
    const samba_node *node = samba_node_at(f->graph, ref);
    memset(set, 0, sizeof(uint64_t) * (size_t)f->words);
    for (int i = 0; i < node->arity; i++) {
        samba_ref u = node->inputs[i];
        bool drawn = samba_node_at(f->graph, u)->op == SAMBA_OP_random;
        if (drawn)
            u = samba_node_at(f->graph, u)->inputs[0]; /* drawn where it is used: what counts is its seed, read from memory */
        int32_t from = samba_maker(f, u);
        if (from < 0 || (group >= 0 && !drawn && samba_is_member(f, group, u)))
            continue;
        set[from >> 6] |= (uint64_t)1 << (from & 63);
        f->groups[from].awaited = true;
        for (int64_t w = 0; w < f->words; w++)
            set[w] |= f->groups[from].before[w];
    }
}

bool samba_fusion_order(samba_fusion *f, int32_t before, int32_t after)
{
    if (before == after || samba_bit(f->groups[before].before, after))
        return false;
    uint64_t *set = samba_arena_alloc(&f->arena, sizeof(uint64_t) * (size_t)f->words);
    if (!set)
        return false;
    f->groups[before].awaited = true;
    memcpy(set, f->groups[before].before, sizeof(uint64_t) * (size_t)f->words);
    set[before >> 6] |= (uint64_t)1 << (before & 63);
    samba_group_depend(f, after, set);
    return true;
}

static samba_status add_member(samba_fusion *f, int32_t group, samba_ref ref, const samba_joining *how)
{
    samba_group *g = &f->groups[group];
    SAMBA_TRY(samba_grow(f->arena.context, (void **)&g->members, sizeof(samba_ref), &g->member_capacity, g->member_count + 1));
    g->members[g->member_count++] = ref;
    g->cols = how->cols;
    f->members[ref].group = group;
    f->members[ref].role = (uint8_t)how->role;
    memcpy(f->members[ref].dims, how->dims, SAMBA_MAX_RANK);
    return SAMBA_OK;
}


static samba_status new_group(samba_fusion *f, samba_group_kind kind, samba_phase phase, samba_ref anchor, int rank,
                              const int64_t *domain, int32_t *group)
{
    SAMBA_TRY(samba_grow(f->arena.context, (void **)&f->groups, sizeof(samba_group), &f->group_capacity, f->group_count + 1));
    samba_group *g = &f->groups[f->group_count];
    *g = (samba_group){.kind = kind, .phase = phase, .anchor = anchor, .rank = rank};
    g->before = samba_arena_alloc(&f->arena, sizeof(uint64_t) * (size_t)f->words);
    if (!g->before)
        return SAMBA_ERROR_MEMORY;
    memcpy(g->domain, domain, sizeof(int64_t) * (size_t)rank);
    *group = (int32_t)f->group_count++;
    return SAMBA_OK;
}

/* A node that no group takes. The domain of a reduction has what it reduces last where the operator needs whole rows (argmax). */
static samba_status begin_group(samba_fusion *f, samba_ref ref, uint64_t *before)
{
    const samba_node *node = samba_node_at(f->graph, ref);
    samba_op_class class_ = samba_ops[node->op].class_;
    samba_group_kind kind = class_ == SAMBA_CONTRACT ? SAMBA_GROUP_CONTRACT
                            : class_ == SAMBA_KERNEL ? SAMBA_GROUP_KERNEL
                            : class_ == SAMBA_MAP || class_ == SAMBA_REDUCE_CLASS ? SAMBA_GROUP_TILE
                                                                                  : SAMBA_GROUP_MOVE;
    const samba_node *domain = class_ == SAMBA_REDUCE_CLASS ? samba_node_at(f->graph, node->inputs[0]) : node;
    samba_joining how = {.role = SAMBA_MEMBER_FULL};
    int64_t sizes[SAMBA_MAX_RANK] = {0};
    for (int i = 0; i < domain->rank && i < SAMBA_MAX_RANK; i++) { /* the second bound for the compiler's sake */
        sizes[i] = domain->shape[i];
        how.dims[i] = (int8_t)i;
    }
    if (node->op == SAMBA_OP_argmax) {
        int at = 0;
        for (int last = 0; last < 2; last++)
            for (int i = 0; i < domain->rank; i++) {
                bool reduces = false;
                for (int64_t k = 0; k < node->attrs->reduce.dims.count; k++)
                    reduces = reduces || node->attrs->reduce.dims.at[k] == i;
                if (reduces == (last == 1)) {
                    sizes[at] = domain->shape[i];
                    how.dims[i] = (int8_t)at++;
                }
            }
    }
    int32_t group;
    SAMBA_TRY(new_group(f, kind, (samba_phase)node->phase, ref, domain->rank, sizes, &group));
    samba_gather_before(f, -1, ref, before);
    samba_group *g = &f->groups[group];
    if (class_ == SAMBA_CONTRACT) {
        samba_contract contract;
        SAMBA_TRY(samba_contract_describe(f->graph, f->access, ref, &contract, &g->plan_rank, g->plan_shape));
    }
    if (class_ == SAMBA_REDUCE_CLASS) {
        bool reduced[SAMBA_MAX_RANK] = {false};
        for (int64_t i = 0; i < node->attrs->reduce.dims.count; i++)
            reduced[how.dims[node->attrs->reduce.dims.at[i]]] = true;
        int cols = samba_trailing(g, reduced);
        bool few = samba_sizes_product(g->rank - cols, g->domain) < SAMBA_FEW_ROWS && samba_sizes_product(cols, g->domain + g->rank - cols) > SAMBA_LONG_ROW;
        bool rows = cols > 0 && (node->op == SAMBA_OP_argmax || (!few && samba_group_readable(f, g, cols, node->inputs[0], node->rank, how.dims)));
        how.role = rows ? SAMBA_MEMBER_ROW : SAMBA_MEMBER_COLLECT;
        how.cols = rows ? cols : 0;
    }
    samba_group_depend(f, group, before);
    return add_member(f, group, ref, &how);
}

/* A view inside a group: broadcasting and sizes of 1 cost nothing there. */
static bool alias(samba_fusion *f, samba_ref ref)
{
    const samba_node *node = samba_node_at(f->graph, ref);
    samba_ref u = node->inputs[0];
    int32_t group = f->members[u].group;
    if (group < 0 || !samba_is_member(f, group, u) || f->groups[group].phase != node->phase ||
        (f->groups[group].kind != SAMBA_GROUP_TILE && f->groups[group].kind != SAMBA_GROUP_CONTRACT))
        return false;
    samba_joining how;
    if (node->op == SAMBA_OP_reshape) {
        const samba_node *source = samba_node_at(f->graph, u);
        int64_t mine[SAMBA_MAX_RANK], theirs[SAMBA_MAX_RANK];
        int my_place[SAMBA_MAX_RANK], their_place[SAMBA_MAX_RANK];
        int count = samba_dense(node->rank, node->shape, mine, my_place);
        if (count != samba_dense(source->rank, source->shape, theirs, their_place) || memcmp(mine, theirs, sizeof(int64_t) * (size_t)count) != 0)
            return false;
        memset(how.dims, -1, sizeof how.dims);
        for (int i = 0; i < count; i++)
            how.dims[my_place[i]] = f->members[u].dims[their_place[i]];
    } else if (node->op != SAMBA_OP_expand || !samba_group_fits(&f->groups[group], f->groups[group].rank, node->rank, node->shape, how.dims) ||
               !samba_inputs_aligned(f, group, node, how.dims)) {
        return false;
    }
    f->members[ref].group = group;
    f->members[ref].role = SAMBA_MEMBER_ALIAS;
    memcpy(f->members[ref].dims, how.dims, SAMBA_MAX_RANK);
    return true;
}

/* attention and attention_lse of the same inputs are two results of one kernel. The group that holds the other; -1: none does. */
static int32_t twin_group(const samba_fusion *f, samba_ref ref)
{
    const samba_node *node = samba_node_at(f->graph, ref);
    samba_op other = node->op == SAMBA_OP_attention ? SAMBA_OP_attention_lse : SAMBA_OP_attention;
    if (node->op != SAMBA_OP_attention && node->op != SAMBA_OP_attention_lse)
        return -1;
    for (int32_t k = 0; k < f->group_count; k++) {
        const samba_node *anchor = samba_node_at(f->graph, f->groups[k].anchor);
        if (f->groups[k].kind == SAMBA_GROUP_KERNEL && anchor->op == other && anchor->phase == node->phase && anchor->arity == node->arity &&
            memcmp(anchor->inputs, node->inputs, sizeof(samba_ref) * node->arity) == 0 &&
            memcmp(&anchor->attrs->attention, &node->attrs->attention, sizeof node->attrs->attention) == 0)
            return k;
    }
    return -1;
}

/* Candidates: groups that hold an input, then groups that read one from memory; the latest first. */
static samba_status place_node(samba_fusion *f, samba_ref ref, int32_t *reader, int32_t *scalars, uint64_t *before)
{
    const samba_node *node = samba_node_at(f->graph, ref);
    samba_op_class class_ = samba_ops[node->op].class_;
    bool scalar = class_ == SAMBA_MAP && samba_sizes_product(node->rank, node->shape) == 1; /* scalars of a phase share a stage where they can */
    if (class_ == SAMBA_MAP || class_ == SAMBA_REDUCE_CLASS) {
        int64_t limit = INT64_MAX;
        for (;;) {
            int64_t best = scalar && scalars[node->phase] < limit ? scalars[node->phase] : -1;
            for (int i = 0; i < node->arity; i++) {
                samba_ref u = node->inputs[i];
                const samba_node *base = samba_node_at(f->graph, f->access[u].base);
                int32_t at = f->members[u].group, by = samba_sizes_product(base->rank, base->shape) > 1 || scalar ? reader[f->access[u].base] : -1;
                if (at >= 0 && at < limit && at > best)
                    best = at;
                if (by >= 0 && by < limit && by > best)
                    best = by;
            }
            if (best < 0)
                break;
            samba_joining how;
            if (samba_can_join(f, (int32_t)best, ref, before, &how)) {
                samba_group_depend(f, (int32_t)best, before);
                return add_member(f, (int32_t)best, ref, &how);
            }
            limit = best;
        }
    }
    int32_t twin = twin_group(f, ref);
    if (twin >= 0)
        return add_member(f, twin, ref, &(samba_joining){.role = SAMBA_MEMBER_FULL});
    SAMBA_TRY(begin_group(f, ref, before));
    if (scalar)
        scalars[node->phase] = f->members[ref].group;
    return SAMBA_OK;
}

/* Whoever is read from outside its group, or leaves through a sink, has memory. */
static samba_status mark_stored(samba_fusion *f, samba_phase last)
{
    const samba_graph *graph = f->graph;
    for (int64_t i = 0; i < graph->node_count; i++) {
        const samba_node *node = samba_node_at(graph, (samba_ref)i);
        int32_t group = f->members[i].group;
        if (node->phase > last || group < 0 || f->members[i].role == SAMBA_MEMBER_ALIAS)
            continue;
        bool tile = f->groups[group].kind == SAMBA_GROUP_TILE || (f->groups[group].kind == SAMBA_GROUP_CONTRACT && f->groups[group].anchor != i);
        for (int k = 0; k < node->arity; k++) {
            samba_ref u = node->inputs[k];
            if (tile && samba_node_at(graph, u)->op == SAMBA_OP_random)
                u = samba_node_at(graph, u)->inputs[0];
            else if (tile && (samba_is_member(f, group, u) || samba_computed_in_place(f, u)))
                continue;
            f->members[f->access[u].base].stored = 1;
        }
        if (!tile && f->groups[group].kind != SAMBA_GROUP_CONTRACT) /* a product that only its epilogue reads stays in the block */
            f->members[i].stored = 1;
    }
    for (int64_t i = 0; i < graph->sink_count; i++) {
        samba_ref base = f->access[graph->sinks[i].value].base;
        if (graph->sinks[i].phase <= last && samba_node_at(graph, base)->op != SAMBA_OP_constant) /* sinks fill in constants themselves */
            f->members[base].stored = 1;
    }
    /* inline leaves that somebody wants in memory: a group each, in the phase of the first who does */
    for (int64_t i = 0; i < graph->node_count; i++) {
        if (!f->members[i].stored || !samba_is_inline(graph, (samba_ref)i))
            continue;
        samba_phase phase = SAMBA_PHASE_COUNT;
        for (int64_t k = 0; k < graph->node_count; k++)
            for (int a = 0; a < graph->nodes[k].arity && f->members[k].group >= 0; a++)
                if (f->access[graph->nodes[k].inputs[a]].base == i && graph->nodes[k].phase < phase)
                    phase = (samba_phase)graph->nodes[k].phase;
        const samba_node *node = samba_node_at(graph, (samba_ref)i);
        for (int64_t k = 0; k < graph->sink_count; k++)
            if (f->access[graph->sinks[k].value].base == i && graph->sinks[k].phase < phase)
                phase = graph->sinks[k].phase;
        int32_t group;
        samba_joining how = {.role = SAMBA_MEMBER_FULL};
        for (int d = 0; d < node->rank; d++)
            how.dims[d] = (int8_t)d;
        SAMBA_TRY(new_group(f, SAMBA_GROUP_TILE, phase, (samba_ref)i, node->rank, node->shape, &group));
        SAMBA_TRY(add_member(f, group, (samba_ref)i, &how));
        for (int64_t k = 0; k < graph->node_count; k++)
            for (int a = 0; a < graph->nodes[k].arity && f->members[k].group >= 0; a++)
                if (f->access[graph->nodes[k].inputs[a]].base == i)
                    samba_fusion_order(f, group, f->members[k].group);
    }
    return SAMBA_OK;
}

static samba_status fuse(samba_fusion *f, samba_phase last)
{
    const samba_graph *graph = f->graph;
    size_t count = (size_t)graph->node_count + 1;
    f->words = ((int64_t)count + 63) / 64 + 1;
    f->access = samba_arena_alloc(&f->arena, sizeof(samba_access) * count);
    f->members = samba_arena_alloc(&f->arena, sizeof(samba_member) * count);
    int32_t *reader = samba_arena_alloc(&f->arena, sizeof(int32_t) * count);
    uint64_t *before = samba_arena_alloc(&f->arena, sizeof(uint64_t) * (size_t)f->words);
    int32_t scalars[SAMBA_PHASE_COUNT];
    for (int i = 0; i < SAMBA_PHASE_COUNT; i++)
        scalars[i] = -1;
    if (!f->access || !f->members || !reader || !before)
        return SAMBA_ERROR_MEMORY;
    SAMBA_TRY(samba_access_all(graph, f->access));
    /* bit sets are over groups: at most one a node that computes */
    int64_t possible = 0;
    for (int64_t i = 0; i < graph->node_count; i++) {
        f->members[i].group = -1;
        reader[i] = -1;
        samba_op_class class_ = samba_ops[graph->nodes[i].op].class_;
        possible += class_ != SAMBA_LEAF && (class_ != SAMBA_VIEW || f->access[i].base == i);
        possible += samba_is_inline(graph, (samba_ref)i);
    }
    f->words = (possible + 63) / 64 + 1;
    for (int64_t i = 0; i < graph->node_count; i++) {
        const samba_node *node = samba_node_at(graph, (samba_ref)i);
        samba_op_class class_ = samba_ops[node->op].class_;
        if (node->phase > last || class_ == SAMBA_LEAF || samba_is_inline(graph, (samba_ref)i))
            continue;
        if (class_ == SAMBA_VIEW && (alias(f, (samba_ref)i) || f->access[i].base != i))
            continue;
        SAMBA_TRY(place_node(f, (samba_ref)i, reader, scalars, before));
        if (class_ == SAMBA_MAP)
            SAMBA_TRY(samba_merge_inputs(f, (samba_ref)i));
        int32_t group = f->members[i].group;
        for (int k = 0; k < node->arity; k++)
            if (!samba_is_member(f, group, node->inputs[k]))
                reader[f->access[node->inputs[k]].base] = group;
    }
    return mark_stored(f, last);
}

samba_status samba_fuse(const samba_graph *graph, samba_phase last, samba_fusion *fusion)
{
    *fusion = (samba_fusion){.graph = graph};
    samba_arena_init(&fusion->arena, graph->context);
    samba_status status = fuse(fusion, last);
    if (status != SAMBA_OK)
        samba_fusion_free(fusion);
    return status;
}

void samba_fusion_free(samba_fusion *f)
{
    if (!f->arena.context)
        return;
    for (int64_t i = 0; i < f->group_count; i++)
        samba_free(f->arena.context, f->groups[i].members, sizeof(samba_ref) * (size_t)f->groups[i].member_capacity);
    samba_free(f->arena.context, f->groups, sizeof(samba_group) * (size_t)f->group_capacity);
    samba_arena_free(&f->arena);
    *f = (samba_fusion){0};
}

/* By phase, what is redone last, then as soon as everything before has run, lowest first member first: close to the order the model was written in. */
samba_status samba_fusion_schedule(samba_fusion *f)
{
    int64_t count = f->group_count;
    f->order = samba_arena_alloc(&f->arena, sizeof(int32_t) * (size_t)(count + 1));
    uint64_t *done = samba_arena_alloc(&f->arena, sizeof(uint64_t) * (size_t)f->words);
    int32_t *sorted = samba_arena_alloc(&f->arena, sizeof(int32_t) * (size_t)(count + 1));
    if (!f->order || !done || !sorted)
        return SAMBA_ERROR_MEMORY;
    int64_t live = 0;
    for (int64_t i = 0; i < count; i++) { /* insertion: nearly sorted already; groups merged into others are empty */
        if (f->groups[i].member_count == 0)
            continue;
        int64_t k = live++;
        for (; k > 0; k--) {
            const samba_group *a = &f->groups[sorted[k - 1]], *b = &f->groups[i];
            int by_part = a->phase != b->phase ? (a->phase < b->phase ? -1 : 1) : (int)a->redone - (int)b->redone;
            if (by_part < 0 || (by_part == 0 && a->members[0] <= b->members[0]))
                break;
            sorted[k] = sorted[k - 1];
        }
        sorted[k] = (int32_t)i;
    }
    f->order_count = live;
    int64_t placed = 0, first = 0;
    while (placed < live) {
        int64_t pick = -1;
        for (int64_t i = first; i < live && pick < 0; i++) {
            if (samba_bit(done, sorted[i]))
                continue;
            bool ready = true;
            for (int64_t w = 0; w < f->words && ready; w++)
                ready = (f->groups[sorted[i]].before[w] & ~done[w]) == 0;
            if (ready)
                pick = i;
        }
        if (pick < 0)
            return samba_fail(f->arena.context, SAMBA_ERROR_INTERNAL, "fusion: groups depend on each other in a circle");
        int32_t group = sorted[pick];
        done[group >> 6] |= (uint64_t)1 << (group & 63);
        f->order[placed++] = group;
        while (first < live && samba_bit(done, sorted[first]))
            first++;
    }
    return SAMBA_OK;
}

samba_status samba_pass_fuse(samba_compiler *compiler)
{
    SAMBA_TRY(samba_fuse(compiler->graph, SAMBA_OPT, &compiler->fusion));
    return samba_fusion_find_redone(&compiler->fusion);
}
