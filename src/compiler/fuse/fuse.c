/* SPDX-License-Identifier: Apache-2.0
 *
 * Fusion: every node that computes something joins a group, and a group becomes one stage. A group has a domain; each member has
 * one value for every element of it (FULL), one for every row (ROW, once a row reduction fixed what a row is), or is a reduction
 * over anything else (COLLECT), known only when the group has run. Nodes are taken in order; each tries the groups that already
 * hold or load its inputs, latest first, and begins a group of its own where none can take it. Groups never depend on each other
 * in a circle (depend.c).
 *
 * Needs: core operators only. Gives: groups, roles, who needs memory, an order. Breaks nothing (the graph stays). */
#include "compiler/fuse/fuse.h"

#include <stdlib.h>
#include <string.h>

bool samba_is_inline(const samba_graph *graph, samba_ref ref) { return samba_ops[samba_node_at(graph, ref)->op].inline_; }

samba_ref samba_value_read(const samba_graph *graph, samba_ref ref)
{
    const samba_node *node = samba_node_at(graph, ref);
    return node->arity > 0 && samba_ops[node->op].inline_ ? node->inputs[0] : ref;
}

/* ---- dependences ---- */
int32_t samba_maker(const samba_fusion *f, samba_ref ref) { return f->members[f->access[ref].base].group; }

int samba_makers(const samba_fusion *f, int32_t group, samba_ref ref, int32_t *makers)
{
    const samba_node *node = samba_node_at(f->graph, ref);
    int count = 0;
    for (int i = 0; i < node->arity; i++) {
        samba_ref u = samba_value_read(f->graph, node->inputs[i]);
        bool drawn = u != node->inputs[i];
        int32_t from = samba_maker(f, u);
        if (from >= 0 && (group < 0 || drawn || !samba_is_member(f, group, u)))
            makers[count++] = from;
    }
    return count;
}

/* Before `ref` becomes a member. */
static samba_status depend_on_makers(samba_fusion *f, int32_t group, samba_ref ref)
{
    int32_t makers[SAMBA_MAX_ARITY];
    int count = samba_makers(f, group, ref, makers);
    for (int i = 0; i < count; i++)
        SAMBA_TRY(samba_group_depend(f, group, makers[i]));
    return SAMBA_OK;
}

samba_status samba_fusion_order(samba_fusion *f, int32_t before, int32_t after, bool *done)
{
    *done = before != after && !samba_group_precedes(f, after, before);
    return *done ? samba_group_depend(f, after, before) : SAMBA_OK;
}

static samba_status add_member(samba_fusion *f, int32_t group, samba_ref ref, const samba_joining *how)
{
    samba_group *g = &f->groups[group];
    SAMBA_TRY(SAMBA_GROW(f->arena.context, g->members, g->member_capacity, g->member_count + 1));
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
    SAMBA_TRY(SAMBA_GROW(f->arena.context, f->groups, f->group_capacity, f->group_count + 1));
    samba_group *g = &f->groups[f->group_count];
    *g = (samba_group){
        .kind = kind, .phase = phase, .anchor = anchor, .rank = rank, .position = (int32_t)f->group_count, .merged_into = -1};
    memcpy(g->domain, domain, sizeof(int64_t) * (size_t)rank);
    for (int i = 0; i < rank; i++)
        g->order[i] = (int8_t)i;
    *group = (int32_t)f->group_count++;
    return SAMBA_OK;
}

/* A node that no group takes. The domain of a reduction has what it reduces last where the operator needs whole rows (argmax). */
static samba_status begin_group(samba_fusion *f, samba_ref ref)
{
    const samba_node *node = samba_node_at(f->graph, ref);
    samba_op_class class_ = samba_ops[node->op].class_;
    samba_group_kind kind = class_ == SAMBA_CONTRACT                              ? SAMBA_GROUP_CONTRACT
                            : class_ == SAMBA_KERNEL                              ? SAMBA_GROUP_KERNEL
                            : class_ == SAMBA_MAP || class_ == SAMBA_REDUCE_CLASS ? SAMBA_GROUP_TILE
                                                                                  : SAMBA_GROUP_MOVE;
    const samba_node *domain = class_ == SAMBA_REDUCE_CLASS ? samba_node_at(f->graph, node->inputs[0]) : node;
    samba_joining how = {.role = SAMBA_MEMBER_FULL};
    int64_t sizes[SAMBA_MAX_RANK] = {0};
    for (int i = 0; i < domain->rank && i < SAMBA_MAX_RANK; i++) { /* the second bound for the compiler's sake */
        sizes[i] = domain->shape[i];
        how.dims[i] = (int8_t)i;
    }
    bool reduces[SAMBA_MAX_RANK] = {false};
    for (int64_t k = 0; class_ == SAMBA_REDUCE_CLASS && k < node->attrs->reduce.dims.count; k++)
        reduces[node->attrs->reduce.dims.at[k]] = true;
    if (class_ == SAMBA_REDUCE_CLASS &&
        (!samba_is_combined(node) || samba_is_turned(f, ref, reduces, domain->rank, domain->shape))) {
        int at = 0;
        for (int last = 0; last < 2; last++)
            for (int i = 0; i < domain->rank; i++)
                if (reduces[i] == (last == 1)) {
                    sizes[at] = domain->shape[i];
                    how.dims[i] = (int8_t)at++;
                }
    }
    int32_t group;
    SAMBA_TRY(new_group(f, kind, (samba_phase)node->phase, ref, domain->rank, sizes, &group));
    SAMBA_TRY(depend_on_makers(f, group, ref));
    samba_group *g = &f->groups[group];
    for (int i = 0; i < domain->rank && i < SAMBA_MAX_RANK; i++)
        g->order[i] = how.dims[i];
    if (class_ == SAMBA_CONTRACT) {
        samba_contract contract;
        SAMBA_TRY(samba_contract_describe(f->graph, f->access, ref, &contract, &g->plan_rank, g->plan_shape));
    }
    if (class_ == SAMBA_REDUCE_CLASS) {
        bool reduced[SAMBA_MAX_RANK] = {false};
        for (int64_t i = 0; i < node->attrs->reduce.dims.count; i++)
            reduced[how.dims[node->attrs->reduce.dims.at[i]]] = true;
        int cols = samba_trailing(g, reduced);
        bool few = samba_sizes_product(g->rank - cols, g->domain) < SAMBA_FEW_ROWS &&
                   samba_sizes_product(cols, g->domain + g->rank - cols) > SAMBA_LONG_ROW;
        bool rows = cols > 0 && (!samba_is_combined(node) ||
                                 (!few && samba_group_readable(f, g, cols, node->inputs[0], node->rank, how.dims)));
        if (!rows && samba_is_combined(node)) { /* collected: as it lies */
            memcpy(g->domain, domain->shape, sizeof(int64_t) * (size_t)domain->rank);
            for (int i = 0; i < domain->rank && i < SAMBA_MAX_RANK; i++)
                g->order[i] = how.dims[i] = (int8_t)i;
        }
        how.role = rows ? SAMBA_MEMBER_ROW : SAMBA_MEMBER_COLLECT;
        how.cols = rows ? cols : 0;
    }
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
        int my_dims[SAMBA_MAX_RANK], their_dims[SAMBA_MAX_RANK];
        int count = samba_dense(node->rank, node->shape, mine, my_dims);
        if (count != samba_dense(source->rank, source->shape, theirs, their_dims) ||
            memcmp(mine, theirs, sizeof(int64_t) * (size_t)count) != 0)
            return false;
        memset(how.dims, -1, sizeof how.dims);
        for (int i = 0; i < count; i++)
            how.dims[my_dims[i]] = f->members[u].dims[their_dims[i]];
    } else if (node->op != SAMBA_OP_expand ||
               !samba_group_fits(&f->groups[group], f->groups[group].rank, node->rank, node->shape, how.dims) ||
               !samba_inputs_aligned(f, group, node, how.dims)) {
        return false;
    }
    f->members[ref].group = group;
    f->members[ref].role = SAMBA_MEMBER_ALIAS;
    memcpy(f->members[ref].dims, how.dims, SAMBA_MAX_RANK);
    return true;
}

/* Two results of one kernel, such as attention and attention_lse of the same inputs. The group that holds the other;
 * -1: none does. */
static int32_t twin_group(const samba_fusion *f, samba_ref ref)
{
    const samba_node *node = samba_node_at(f->graph, ref);
    samba_op other = samba_ops[node->op].twin;
    if (other == SAMBA_OP_input) /* no operator has it as its twin */
        return -1;
    size_t attrs = samba_attrs_table[samba_ops[node->op].attrs].size;
    for (int32_t k = 0; k < f->group_count; k++) {
        const samba_node *anchor = samba_node_at(f->graph, f->groups[k].anchor);
        if (f->groups[k].kind == SAMBA_GROUP_KERNEL && anchor->op == other && anchor->phase == node->phase &&
            anchor->arity == node->arity && memcmp(anchor->inputs, node->inputs, sizeof(samba_ref) * node->arity) == 0 &&
            memcmp(anchor->attrs, node->attrs, attrs) == 0)
            return k;
    }
    return -1;
}

/* Candidates: groups that hold an input, then groups that read one from memory; the latest first. */
static samba_status assign_group(samba_fusion *f, samba_ref ref, int32_t *reader, int32_t *scalars)
{
    const samba_node *node = samba_node_at(f->graph, ref);
    samba_op_class class_ = samba_ops[node->op].class_;
    /* scalars of a phase share a stage where they can */
    bool scalar = class_ == SAMBA_MAP && samba_sizes_product(node->rank, node->shape) == 1;
    if (class_ == SAMBA_MAP || class_ == SAMBA_REDUCE_CLASS) {
        int64_t limit = INT64_MAX;
        for (;;) {
            int64_t best = scalar && scalars[node->phase] < limit ? scalars[node->phase] : -1;
            for (int i = 0; i < node->arity; i++) {
                samba_ref u = node->inputs[i];
                const samba_node *base = samba_node_at(f->graph, f->access[u].base);
                int32_t at = f->members[u].group,
                        by = samba_sizes_product(base->rank, base->shape) > 1 || scalar ? reader[f->access[u].base] : -1;
                if (at >= 0 && at < limit && at > best)
                    best = at;
                if (by >= 0 && by < limit && by > best)
                    best = by;
            }
            if (best < 0)
                break;
            samba_joining how;
            if (samba_can_join(f, (int32_t)best, ref, &how)) {
                SAMBA_TRY(depend_on_makers(f, (int32_t)best, ref));
                return add_member(f, (int32_t)best, ref, &how);
            }
            limit = best;
        }
    }
    int32_t twin = twin_group(f, ref);
    if (twin >= 0)
        return add_member(f, twin, ref, &(samba_joining){.role = SAMBA_MEMBER_FULL});
    SAMBA_TRY(begin_group(f, ref));
    if (scalar)
        scalars[node->phase] = f->members[ref].group;
    return SAMBA_OK;
}

/* Does reading `u` read what `base` has in memory? */
static bool reads(const samba_fusion *f, samba_ref u, samba_ref base)
{
    return f->access[u].base == base || f->access[samba_value_read(f->graph, f->access[u].base)].base == base;
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
        bool tile = f->groups[group].kind == SAMBA_GROUP_TILE ||
                    (f->groups[group].kind == SAMBA_GROUP_CONTRACT && f->groups[group].anchor != i);
        for (int k = 0; k < node->arity; k++) {
            samba_ref u = tile ? samba_value_read(graph, node->inputs[k]) : node->inputs[k];
            if (tile && u == node->inputs[k] && (samba_is_member(f, group, u) || samba_computed_in_place(f, u)))
                continue;
            f->members[f->access[u].base].stored = 1;
        }
        /* a product that only its epilogue reads stays in the block */
        if (!tile && f->groups[group].kind != SAMBA_GROUP_CONTRACT)
            f->members[i].stored = 1;
    }
    for (int64_t i = 0; i < graph->sink_count; i++) {
        samba_ref base = f->access[graph->sinks[i].value].base;
        if (graph->sinks[i].phase <= last && !samba_is_constant(f, base)) /* sinks fill in constants themselves */
            f->members[base].stored = 1;
    }
    for (int64_t i = 0; i < graph->node_count; i++) { /* the seed of random numbers in memory, itself perhaps a constant */
        samba_ref read = samba_value_read(graph, (samba_ref)i);
        if (f->members[i].stored && read != (samba_ref)i)
            f->members[f->access[read].base].stored = 1;
    }
    /* inline leaves that somebody wants in memory: a group each, in the phase of the first who does */
    for (int64_t i = 0; i < graph->node_count; i++) {
        if (!f->members[i].stored || !samba_is_inline(graph, (samba_ref)i))
            continue;
        samba_phase phase = SAMBA_PHASE_COUNT;
        for (int64_t k = 0; k < graph->node_count; k++)
            for (int a = 0; a < graph->nodes[k].arity && f->members[k].group >= 0; a++)
                if (reads(f, graph->nodes[k].inputs[a], (samba_ref)i) && graph->nodes[k].phase < phase)
                    phase = (samba_phase)graph->nodes[k].phase;
        const samba_node *node = samba_node_at(graph, (samba_ref)i);
        for (int64_t k = 0; k < graph->sink_count; k++)
            if (reads(f, graph->sinks[k].value, (samba_ref)i) && graph->sinks[k].phase < phase)
                phase = graph->sinks[k].phase;
        int32_t group;
        bool done;
        samba_joining how = {.role = SAMBA_MEMBER_FULL};
        for (int d = 0; d < node->rank; d++)
            how.dims[d] = (int8_t)d;
        SAMBA_TRY(new_group(f, SAMBA_GROUP_TILE, phase, (samba_ref)i, node->rank, node->shape, &group));
        SAMBA_TRY(add_member(f, group, (samba_ref)i, &how));
        samba_ref read = samba_value_read(graph, (samba_ref)i);
        if (read != (samba_ref)i && samba_maker(f, read) >= 0) /* a seed, which may be computed */
            SAMBA_TRY(samba_group_depend(f, group, samba_maker(f, read)));
        for (int64_t k = 0; k < graph->node_count; k++)
            for (int a = 0; a < graph->nodes[k].arity && f->members[k].group >= 0; a++)
                if (reads(f, graph->nodes[k].inputs[a], (samba_ref)i))
                    SAMBA_TRY(samba_fusion_order(f, group, f->members[k].group, &done));
    }
    return SAMBA_OK;
}

static samba_status fuse(samba_fusion *f, samba_phase last)
{
    const samba_graph *graph = f->graph;
    size_t count = (size_t)graph->node_count + 1;
    SAMBA_TRY(SAMBA_ROOM(&f->arena, f->access, count));
    SAMBA_TRY(SAMBA_ROOM(&f->arena, f->members, count));
    int32_t *reader;
    SAMBA_TRY(SAMBA_ROOM(&f->arena, reader, count));
    int32_t scalars[SAMBA_PHASE_COUNT];
    for (int i = 0; i < SAMBA_PHASE_COUNT; i++)
        scalars[i] = -1;
    SAMBA_TRY(samba_access_all(graph, f->access));
    SAMBA_TRY(samba_find_read_back(f));
    int64_t possible = 0; /* groups: at most one a node that computes */
    for (int64_t i = 0; i < graph->node_count; i++) {
        f->members[i].group = -1;
        reader[i] = -1;
        samba_op_class class_ = samba_ops[graph->nodes[i].op].class_;
        possible += class_ != SAMBA_LEAF && (class_ != SAMBA_VIEW || f->access[i].base == i);
        possible += samba_is_inline(graph, (samba_ref)i);
    }
    SAMBA_TRY(samba_dependences_begin(f, possible));
    for (int64_t i = 0; i < graph->node_count; i++) {
        const samba_node *node = samba_node_at(graph, (samba_ref)i);
        samba_op_class class_ = samba_ops[node->op].class_;
        if (node->phase > last || class_ == SAMBA_LEAF || samba_is_inline(graph, (samba_ref)i))
            continue;
        if (class_ == SAMBA_VIEW && (alias(f, (samba_ref)i) || f->access[i].base != i))
            continue;
        SAMBA_TRY(assign_group(f, (samba_ref)i, reader, scalars));
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
    samba_dependences_free(f);
    for (int64_t i = 0; i < f->group_count; i++)
        samba_free(f->arena.context, f->groups[i].members, sizeof(samba_ref) * (size_t)f->groups[i].member_capacity);
    samba_free(f->arena.context, f->groups, sizeof(samba_group) * (size_t)f->group_capacity);
    samba_arena_free(&f->arena);
    *f = (samba_fusion){0};
}

/* ---- the order ---- */
typedef struct turn { /* of a group that runs */
    samba_phase phase;
    bool redone;
    samba_ref first_member;
    int32_t group;
} turn;

static int by_turn(const void *left, const void *right)
{
    const turn *a = left, *b = right;
    if (a->phase != b->phase)
        return a->phase < b->phase ? -1 : 1;
    if (a->redone != b->redone)
        return a->redone ? 1 : -1;
    return a->first_member < b->first_member ? -1 : a->first_member > b->first_member;
}

/* A heap: the least turn comes first. */
static void push(int32_t *heap, int64_t count, int32_t value)
{
    int64_t at = count;
    for (; at > 0 && heap[(at - 1) / 2] > value; at = (at - 1) / 2)
        heap[at] = heap[(at - 1) / 2];
    heap[at] = value;
}

static int32_t pop(int32_t *heap, int64_t count)
{
    int32_t least = heap[0], value = heap[count - 1];
    int64_t at = 0;
    for (int64_t next; (next = 2 * at + 1) < count - 1; at = next) {
        next += next + 1 < count - 1 && heap[next + 1] < heap[next];
        if (heap[next] >= value)
            break;
        heap[at] = heap[next];
    }
    heap[at] = value;
    return least;
}

static int64_t dependences(const samba_fusion *f, int32_t group)
{
    int64_t count = 0;
    for (int64_t i = 0; i < f->groups[group].before.count; i++)
        count += samba_group_now(f, f->groups[group].before.at[i]) != group;
    return count;
}

/* By phase, what is redone last, then as soon as everything before has run, lowest first member first:
 * close to the order the model was written in. */
samba_status samba_fusion_schedule(samba_fusion *f)
{
    size_t room = (size_t)f->group_count + 1;
    turn *turns;
    int64_t *awaits, live = 0, waiting = 0, ordered = 0; /* awaits, per group: dependences that have not run */
    int32_t *turn_of, *ready;
    SAMBA_TRY(SAMBA_ROOM(&f->arena, turns, room));
    SAMBA_TRY(SAMBA_ROOM(&f->arena, awaits, room));
    SAMBA_TRY(SAMBA_ROOM(&f->arena, turn_of, room));
    SAMBA_TRY(SAMBA_ROOM(&f->arena, ready, room));
    SAMBA_TRY(SAMBA_ROOM(&f->arena, f->order, room));
    for (int32_t i = 0; i < f->group_count; i++) /* groups merged into others are empty */
        if (f->groups[i].member_count > 0)
            turns[live++] = (turn){f->groups[i].phase, f->groups[i].redone, f->groups[i].members[0], i};
    qsort(turns, (size_t)live, sizeof *turns, by_turn);
    for (int32_t i = 0; i < live; i++) {
        turn_of[turns[i].group] = i;
        awaits[turns[i].group] = dependences(f, turns[i].group);
        if (awaits[turns[i].group] == 0)
            push(ready, waiting++, i);
    }
    while (waiting > 0) {
        int32_t group = turns[pop(ready, waiting--)].group;
        const samba_group_list *after = &f->groups[group].after;
        f->order[ordered++] = group;
        for (int64_t i = 0; i < after->count; i++) {
            int32_t next = samba_group_now(f, after->at[i]);
            if (next != group && --awaits[next] == 0)
                push(ready, waiting++, turn_of[next]);
        }
    }
    f->order_count = live;
    if (ordered != live)
        return samba_fail(f->arena.context, SAMBA_ERROR_INTERNAL, "fusion: groups depend on each other in a circle");
    for (int64_t i = 1; i < ordered; i++) { /* lowering goes by phases, and would leave out what is behind such a step */
        const samba_group *earlier = &f->groups[f->order[i - 1]], *later = &f->groups[f->order[i]];
        if (earlier->phase > later->phase || (earlier->phase == later->phase && earlier->redone && !later->redone))
            return samba_fail(f->arena.context, SAMBA_ERROR_INTERNAL,
                              "fusion: a group depends on one of a later part of the step");
    }
    return SAMBA_OK;
}

samba_status samba_pass_fuse(samba_compiler *compiler)
{
    for (int64_t i = 0; i < compiler->graph->node_count && compiler->unfused; i++)
        compiler->graph->nodes[i].part = (uint32_t)i + 1; /* nodes of two parts never share a stage */
    SAMBA_TRY(samba_fuse(compiler->graph, SAMBA_OPT, &compiler->fusion));
    if (!compiler->unfused)
        SAMBA_TRY(samba_fusion_read_narrow(&compiler->fusion));
    return samba_fusion_find_redone(&compiler->fusion);
}
