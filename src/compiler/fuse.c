/* SPDX-License-Identifier: Apache-2.0
 *
 * Fusion: every node that computes something joins a group, and a group becomes one stage. A group has a domain; each member has one
 * value for every element of it (FULL), one for every row (ROW, once a row reduction fixed what a row is), or is a reduction over anything
 * else (COLLECT), known only when the group has run. Nodes are taken in order; each tries the groups that already hold or load its
 * inputs, latest first, and begins a group of its own where none can take it. Groups never depend on each other in a circle: `before`
 * holds for each the set that must precede it.
 *
 * Needs: core operators only. Gives: groups, roles, who needs memory, an order. Breaks nothing (the graph stays). */
#include "compiler/compiler.h"

#include <stdlib.h>
#include <string.h>

#define MEMBER_LIMIT 96      /* members a group may have: bounds registers and operands of its program */
#define CONTRACT_ROW_LIMIT 256 /* columns up to which a contraction's block holds whole rows for a row reduction */
#define FEW_ROWS 4           /* with fewer rows than this, long reductions are collected by all threads instead */
#define LONG_ROW 4096

static bool has(const uint64_t *set, int64_t i) { return (set[i >> 6] >> (i & 63)) & 1; }

bool samba_is_inline(const samba_graph *graph, samba_ref ref)
{
    uint16_t op = samba_node_at(graph, ref)->op;
    return op == SAMBA_OP_constant || op == SAMBA_OP_iota || op == SAMBA_OP_random;
}

/* A view of a constant is a constant; a view of other inline leaves needs memory. */
static bool computed_in_place(const samba_fusion *f, samba_ref ref)
{
    return samba_is_inline(f->graph, ref) || samba_node_at(f->graph, f->access[ref].base)->op == SAMBA_OP_constant;
}

/* ---- sizes ---- */
static int dense(int rank, const int64_t *shape, int64_t *sizes, int *where)
{
    int count = 0;
    for (int i = 0; i < rank; i++)
        if (shape[i] != 1) {
            sizes[count] = shape[i];
            where[count++] = i;
        }
    return count;
}

static bool fits(const samba_group *g, int domain_rank, int rank, const int64_t *shape, int8_t *dims)
{
    int64_t mine[SAMBA_MAX_RANK], theirs[SAMBA_MAX_RANK];
    int my_place[SAMBA_MAX_RANK], their_place[SAMBA_MAX_RANK];
    int count = dense(rank, shape, mine, my_place);
    if (count != dense(domain_rank, g->domain, theirs, their_place) || memcmp(mine, theirs, sizeof(int64_t) * (size_t)count) != 0)
        return false;
    memset(dims, -1, SAMBA_MAX_RANK);
    for (int i = 0; i < count; i++)
        dims[my_place[i]] = (int8_t)their_place[i];
    return true;
}

static int64_t product(int count, const int64_t *sizes)
{
    int64_t result = 1;
    for (int i = 0; i < count; i++)
        result *= sizes[i];
    return result;
}

/* ---- what a group demands of memory it reads ---- */

/* Strides of an external input over the group's domain. */
static void domain_strides(const samba_fusion *f, samba_ref input, int user_rank, const int8_t *user_dims, int64_t *strides)
{
    const samba_node *node = samba_node_at(f->graph, input);
    memset(strides, 0, sizeof(int64_t) * SAMBA_MAX_RANK);
    for (int i = 0; i < node->rank; i++) {
        int8_t d = user_dims[i + user_rank - node->rank];
        if (node->shape[i] != 1 && d >= 0)
            strides[d] = f->access[input].strides[i];
    }
}

/* A contraction's stage runs over [batch..., M, N]: every operand must be a view in that shape. */
static bool in_contract_shape(const samba_group *g, const int64_t *strides)
{
    int64_t viewed[SAMBA_MAX_RANK];
    return samba_shape_view_strides(g->rank, g->domain, strides, g->plan_rank, g->plan_shape, viewed);
}

static bool cols_collapse(const samba_group *g, int cols, const int64_t *strides)
{
    int64_t from[SAMBA_MAX_RANK], to = product(cols, g->domain + g->rank - cols), viewed;
    memcpy(from, strides + g->rank - cols, sizeof(int64_t) * (size_t)cols);
    return cols <= 1 || samba_shape_view_strides(cols, g->domain + g->rank - cols, from, 1, &to, &viewed);
}

static bool readable(const samba_fusion *f, const samba_group *g, int cols, samba_ref input, int user_rank, const int8_t *user_dims)
{
    int64_t strides[SAMBA_MAX_RANK];
    domain_strides(f, input, user_rank, user_dims, strides);
    return cols_collapse(g, cols, strides) && (g->kind != SAMBA_GROUP_CONTRACT || in_contract_shape(g, strides));
}

/* The same of memory it collects into: the kept dims of a reduction, in order. */
static bool writable(const samba_group *g, int cols, const samba_node *node, const int8_t *dims)
{
    int64_t own[SAMBA_MAX_RANK], strides[SAMBA_MAX_RANK] = {0};
    samba_shape_contiguous_strides(node->rank, node->shape, own);
    for (int i = 0; i < node->rank; i++)
        if (node->shape[i] != 1 && dims[i] >= 0)
            strides[dims[i]] = own[i];
    return cols_collapse(g, cols, strides) && (g->kind != SAMBA_GROUP_CONTRACT || in_contract_shape(g, strides));
}

static bool is_member(const samba_fusion *f, int32_t group, samba_ref ref)
{
    return f->members[ref].group == group && f->members[ref].role != SAMBA_MEMBER_COLLECT;
}

static bool all_in_reach(const samba_fusion *f, int32_t group, int cols)
{
    const samba_group *g = &f->groups[group];
    for (int64_t m = 0; m < g->member_count; m++) {
        const samba_node *node = samba_node_at(f->graph, g->members[m]);
        if (g->kind == SAMBA_GROUP_CONTRACT && g->members[m] == g->anchor)
            continue;
        const samba_member *member = &f->members[g->members[m]];
        if (member->role == SAMBA_MEMBER_COLLECT && !writable(g, cols, node, member->dims))
            return false;
        for (int i = 0; i < node->arity; i++)
            if (!is_member(f, group, node->inputs[i]) && !computed_in_place(f, node->inputs[i]) &&
                !readable(f, g, cols, node->inputs[i], node->rank, member->dims))
                return false;
    }
    return true;
}

/* ---- dependencies ---- */
static int32_t maker(const samba_fusion *f, samba_ref ref) { return f->members[f->access[ref].base].group; }

static void depend(samba_fusion *f, int32_t group, const uint64_t *set)
{
    for (int64_t w = 0; w < f->words; w++)
        f->groups[group].before[w] |= set[w];
    for (int64_t k = 0; k < f->group_count; k++)
        if (has(f->groups[k].before, group))
            for (int64_t w = 0; w < f->words; w++)
                f->groups[k].before[w] |= set[w];
}

/* Groups that must precede a group that would hold `ref`: makers of its external inputs, and all before those. */
static void gather_before(const samba_fusion *f, int32_t group, samba_ref ref, uint64_t *set)
{
    const samba_node *node = samba_node_at(f->graph, ref);
    memset(set, 0, sizeof(uint64_t) * (size_t)f->words);
    for (int i = 0; i < node->arity; i++) {
        samba_ref u = node->inputs[i];
        bool drawn = samba_node_at(f->graph, u)->op == SAMBA_OP_random;
        if (drawn)
            u = samba_node_at(f->graph, u)->inputs[0]; /* drawn where it is used: what counts is its seed, read from memory */
        int32_t from = maker(f, u);
        if (from < 0 || (group >= 0 && !drawn && is_member(f, group, u)))
            continue;
        set[from >> 6] |= (uint64_t)1 << (from & 63);
        for (int64_t w = 0; w < f->words; w++)
            set[w] |= f->groups[from].before[w];
    }
}

bool samba_fusion_order(samba_fusion *f, int32_t before, int32_t after)
{
    if (before == after || has(f->groups[before].before, after))
        return false;
    uint64_t *set = samba_arena_alloc(&f->arena, sizeof(uint64_t) * (size_t)f->words);
    if (!set)
        return false;
    memcpy(set, f->groups[before].before, sizeof(uint64_t) * (size_t)f->words);
    set[before >> 6] |= (uint64_t)1 << (before & 63);
    depend(f, after, set);
    return true;
}

/* ---- joining ---- */
typedef struct joining { /* how a node would be a member of a group */
    samba_member_role role;
    int8_t dims[SAMBA_MAX_RANK];
    int cols; /* what the group's cols become */
} joining;

/* In-group inputs lie where broadcasting against the node's own dims puts them. */
static bool aligned(const samba_fusion *f, int32_t group, const samba_node *node, const int8_t *dims)
{
    for (int i = 0; i < node->arity; i++) {
        samba_ref u = node->inputs[i];
        if (!is_member(f, group, u))
            continue;
        const samba_node *source = samba_node_at(f->graph, u);
        for (int j = 0; j < source->rank; j++)
            if (source->shape[j] != 1 && f->members[u].dims[j] != dims[j + node->rank - source->rank])
                return false;
    }
    return true;
}

static bool join_map(const samba_fusion *f, int32_t group, const samba_node *node, joining *how)
{
    const samba_group *g = &f->groups[group];
    how->cols = g->cols;
    how->role = SAMBA_MEMBER_FULL;
    if (fits(g, g->rank, node->rank, node->shape, how->dims) && aligned(f, group, node, how->dims))
        return true;
    how->role = SAMBA_MEMBER_ROW;
    if (g->cols == 0 || !fits(g, g->rank - g->cols, node->rank, node->shape, how->dims) || !aligned(f, group, node, how->dims))
        return false;
    for (int i = 0; i < node->arity; i++) /* a ROW value is computed from ROW values */
        if (is_member(f, group, node->inputs[i])) {
            samba_ref u = node->inputs[i];
            while (f->members[u].role == SAMBA_MEMBER_ALIAS)
                u = samba_node_at(f->graph, u)->inputs[0];
            if (f->members[u].role != SAMBA_MEMBER_ROW)
                return false;
        }
    return true;
}

/* The domain dims a reduction runs over are exactly the last `count` ones (sizes of 1 aside); 0 when they are not. */
static int trailing(const samba_group *g, const bool *reduced)
{
    int first = g->rank;
    for (int d = g->rank - 1; d >= 0 && (reduced[d] || g->domain[d] == 1); d--)
        first = d;
    for (int d = 0; d < first; d++)
        if (reduced[d])
            return 0;
    while (first < g->rank && g->domain[first] == 1 && !reduced[first])
        first++;
    return g->rank - first;
}

static bool join_reduce(const samba_fusion *f, int32_t group, const samba_node *node, joining *how)
{
    const samba_group *g = &f->groups[group];
    samba_ref u = node->inputs[0];
    const samba_node *source = samba_node_at(f->graph, u);
    bool inside = is_member(f, group, u), reduced[SAMBA_MAX_RANK] = {false};
    samba_member_role from = SAMBA_MEMBER_FULL;
    if (inside) {
        memcpy(how->dims, f->members[u].dims, SAMBA_MAX_RANK);
        if (f->members[u].role == SAMBA_MEMBER_ALIAS) {
            samba_ref root = u;
            while (f->members[root].role == SAMBA_MEMBER_ALIAS)
                root = samba_node_at(f->graph, root)->inputs[0];
            int8_t dims[SAMBA_MAX_RANK];
            from = (samba_member_role)f->members[root].role;
            if (from == SAMBA_MEMBER_ROW && fits(g, g->rank, source->rank, source->shape, dims) && product(g->cols, g->domain + g->rank - g->cols) != 1)
                return false; /* a row value broadcast, then reduced: rare, and better from memory */
        } else {
            from = (samba_member_role)f->members[u].role;
        }
    } else if (!fits(g, g->rank, source->rank, source->shape, how->dims)) {
        return false;
    }
    if (!inside && (computed_in_place(f, u) || !readable(f, g, g->cols, u, source->rank, how->dims)))
        return false;
    for (int64_t i = 0; i < node->attrs->reduce.dims.count; i++) {
        int8_t d = how->dims[node->attrs->reduce.dims.at[i]];
        if (d >= 0)
            reduced[d] = true;
    }
    how->cols = g->cols;
    how->role = SAMBA_MEMBER_COLLECT;
    if (from == SAMBA_MEMBER_FULL) {
        int cols = trailing(g, reduced);
        int64_t row = product(cols, g->domain + g->rank - cols), rows = product(g->rank - cols, g->domain);
        bool few = g->cols == 0 && node->op != SAMBA_OP_argmax && rows < FEW_ROWS && row > LONG_ROW;
        bool can = cols > 0 && (g->cols == cols || (g->cols == 0 && !few && all_in_reach(f, group, cols) &&
                                                    (inside || readable(f, g, cols, u, source->rank, how->dims))));
        if (can && g->kind == SAMBA_GROUP_CONTRACT) {
            int last = samba_node_at(f->graph, g->anchor)->op == SAMBA_OP_matmul ? 1 : 2;
            can = cols == last && row <= CONTRACT_ROW_LIMIT && samba_node_at(f->graph, g->anchor)->op != SAMBA_OP_conv2d_weight_grad;
        }
        if (can) {
            how->role = SAMBA_MEMBER_ROW;
            how->cols = cols;
            return true;
        }
    }
    return node->op != SAMBA_OP_argmax && writable(g, g->cols, node, how->dims);
}

static bool can_join(samba_fusion *f, int32_t group, samba_ref ref, uint64_t *before, joining *how)
{
    const samba_node *node = samba_node_at(f->graph, ref);
    const samba_group *g = &f->groups[group];
    if ((g->kind != SAMBA_GROUP_TILE && g->kind != SAMBA_GROUP_CONTRACT) || g->phase != node->phase || g->member_count >= MEMBER_LIMIT ||
        g->member_count == 0)
        return false;
    gather_before(f, group, ref, before);
    if (has(before, group))
        return false;
    if (samba_ops[node->op].class_ == SAMBA_REDUCE_CLASS)
        return join_reduce(f, group, node, how);
    if (!join_map(f, group, node, how))
        return false;
    for (int i = 0; i < node->arity; i++)
        if (!is_member(f, group, node->inputs[i]) && !computed_in_place(f, node->inputs[i]) &&
            !readable(f, g, g->cols, node->inputs[i], node->rank, how->dims))
            return false;
    return true;
}

static samba_status add_member(samba_fusion *f, int32_t group, samba_ref ref, const joining *how)
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

/* ---- merging: a node that reads two groups of one domain makes them one ---- */

/* Does `reader` need something of `collector` in memory: what it collects, a true view of it, or a contraction's operand? */
static bool reads_memory(const samba_fusion *f, int32_t reader, int32_t collector)
{
    for (int64_t m = 0; m < f->groups[reader].member_count; m++) {
        const samba_node *node = samba_node_at(f->graph, f->groups[reader].members[m]);
        for (int i = 0; i < node->arity; i++) {
            const samba_member *base = &f->members[f->access[node->inputs[i]].base];
            bool operand = f->groups[reader].kind == SAMBA_GROUP_CONTRACT && f->groups[reader].members[m] == f->groups[reader].anchor;
            if (base->group == collector && (operand || !is_member(f, collector, node->inputs[i])))
                return true;
        }
    }
    return false;
}

static bool another_between(const samba_fusion *f, int32_t first, int32_t second)
{
    for (int32_t k = 0; k < f->group_count; k++)
        if (k != first && k != second && f->groups[k].member_count > 0 && has(f->groups[k].before, first) && has(f->groups[second].before, k))
            return true;
    return false;
}

static bool mergeable(const samba_fusion *f, int32_t into, int32_t from)
{
    const samba_group *a = &f->groups[into], *b = &f->groups[from];
    if (b->kind != SAMBA_GROUP_TILE || (a->kind != SAMBA_GROUP_TILE && a->kind != SAMBA_GROUP_CONTRACT) || a->phase != b->phase ||
        a->rank != b->rank || memcmp(a->domain, b->domain, sizeof(int64_t) * (size_t)a->rank) != 0 ||
        a->member_count + b->member_count > MEMBER_LIMIT || (b->cols != 0 && b->cols != a->cols))
        return false;
    if (another_between(f, into, from) || another_between(f, from, into) || reads_memory(f, into, from) || reads_memory(f, from, into))
        return false;
    samba_group probe = *a; /* what `from` reads and writes, under the rules of `into` */
    for (int64_t m = 0; m < b->member_count; m++) {
        const samba_node *node = samba_node_at(f->graph, b->members[m]);
        const samba_member *member = &f->members[b->members[m]];
        if (member->role == SAMBA_MEMBER_COLLECT && !writable(&probe, a->cols, node, member->dims))
            return false;
        for (int i = 0; i < node->arity; i++)
            if (!is_member(f, from, node->inputs[i]) && !is_member(f, into, node->inputs[i]) && !computed_in_place(f, node->inputs[i]) &&
                !readable(f, &probe, a->cols, node->inputs[i], node->rank, member->dims))
                return false;
    }
    return true;
}

static int by_index(const void *a, const void *b) { return *(const samba_ref *)a < *(const samba_ref *)b ? -1 : 1; }

static samba_status merge(samba_fusion *f, int32_t into, int32_t from)
{
    samba_group *a = &f->groups[into], *b = &f->groups[from];
    SAMBA_TRY(samba_grow(f->arena.context, (void **)&a->members, sizeof(samba_ref), &a->member_capacity, a->member_count + b->member_count));
    memcpy(a->members + a->member_count, b->members, sizeof(samba_ref) * (size_t)b->member_count);
    a->member_count += b->member_count;
    qsort(a->members, (size_t)a->member_count, sizeof(samba_ref), by_index);
    b->member_count = 0;
    for (int64_t i = 0; i < f->graph->node_count; i++)
        if (f->members[i].group == from)
            f->members[i].group = into;
    for (int64_t k = 0; k < f->group_count; k++)
        if (has(f->groups[k].before, from)) {
            f->groups[k].before[from >> 6] &= ~((uint64_t)1 << (from & 63));
            f->groups[k].before[into >> 6] |= (uint64_t)1 << (into & 63);
        }
    for (int64_t w = 0; w < f->words; w++)
        a->before[w] |= b->before[w];
    memset(b->before, 0, sizeof(uint64_t) * (size_t)f->words);
    a->before[into >> 6] &= ~((uint64_t)1 << (into & 63));
    for (int64_t k = 0; k < f->group_count; k++) /* whoever waits for the merged group waits for all that it waits for */
        if (has(f->groups[k].before, into))
            for (int64_t w = 0; w < f->words; w++)
                f->groups[k].before[w] |= a->before[w];
    return SAMBA_OK;
}

/* Node `ref` has just joined a group and reads others. A value of another group keeps its place only if its dims lie in the one domain as
 * they lie in the other, and a row's value is made of row values. */
static samba_status merge_inputs(samba_fusion *f, samba_ref ref)
{
    const samba_node *node = samba_node_at(f->graph, ref);
    for (int i = 0; i < node->arity; i++) {
        samba_ref u = node->inputs[i];
        int32_t mine = f->members[ref].group, other = f->members[u].group;
        if (other < 0 || other == mine || !is_member(f, other, u))
            continue;
        const samba_node *source = samba_node_at(f->graph, u);
        bool fits_here = f->members[ref].role != SAMBA_MEMBER_ROW;
        for (int j = 0; j < source->rank && fits_here; j++)
            fits_here = source->shape[j] == 1 || f->members[u].dims[j] == f->members[ref].dims[j + node->rank - source->rank];
        if (!fits_here)
            continue;
        if (mergeable(f, mine, other))
            SAMBA_TRY(merge(f, mine, other));
        else if (mergeable(f, other, mine))
            SAMBA_TRY(merge(f, other, mine));
    }
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
    joining how = {.role = SAMBA_MEMBER_FULL};
    int64_t sizes[SAMBA_MAX_RANK] = {0};
    for (int i = 0; i < domain->rank; i++) {
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
    gather_before(f, -1, ref, before);
    samba_group *g = &f->groups[group];
    if (class_ == SAMBA_CONTRACT) {
        samba_contract contract;
        SAMBA_TRY(samba_contract_describe(f->graph, f->access, ref, &contract, &g->plan_rank, g->plan_shape));
    }
    if (class_ == SAMBA_REDUCE_CLASS) {
        bool reduced[SAMBA_MAX_RANK] = {false};
        for (int64_t i = 0; i < node->attrs->reduce.dims.count; i++)
            reduced[how.dims[node->attrs->reduce.dims.at[i]]] = true;
        int cols = trailing(g, reduced);
        bool few = product(g->rank - cols, g->domain) < FEW_ROWS && product(cols, g->domain + g->rank - cols) > LONG_ROW;
        bool rows = cols > 0 && (node->op == SAMBA_OP_argmax || (!few && readable(f, g, cols, node->inputs[0], node->rank, how.dims)));
        how.role = rows ? SAMBA_MEMBER_ROW : SAMBA_MEMBER_COLLECT;
        how.cols = rows ? cols : 0;
    }
    depend(f, group, before);
    return add_member(f, group, ref, &how);
}

/* A view inside a group: broadcasting and sizes of 1 cost nothing there. */
static bool alias(samba_fusion *f, samba_ref ref)
{
    const samba_node *node = samba_node_at(f->graph, ref);
    samba_ref u = node->inputs[0];
    int32_t group = f->members[u].group;
    if (group < 0 || !is_member(f, group, u) || f->groups[group].phase != node->phase ||
        (f->groups[group].kind != SAMBA_GROUP_TILE && f->groups[group].kind != SAMBA_GROUP_CONTRACT))
        return false;
    joining how;
    if (node->op == SAMBA_OP_reshape) {
        const samba_node *source = samba_node_at(f->graph, u);
        int64_t mine[SAMBA_MAX_RANK], theirs[SAMBA_MAX_RANK];
        int my_place[SAMBA_MAX_RANK], their_place[SAMBA_MAX_RANK];
        int count = dense(node->rank, node->shape, mine, my_place);
        if (count != dense(source->rank, source->shape, theirs, their_place) || memcmp(mine, theirs, sizeof(int64_t) * (size_t)count) != 0)
            return false;
        memset(how.dims, -1, sizeof how.dims);
        for (int i = 0; i < count; i++)
            how.dims[my_place[i]] = f->members[u].dims[their_place[i]];
    } else if (node->op != SAMBA_OP_expand || !fits(&f->groups[group], f->groups[group].rank, node->rank, node->shape, how.dims) ||
               !aligned(f, group, node, how.dims)) {
        return false;
    }
    f->members[ref].group = group;
    f->members[ref].role = SAMBA_MEMBER_ALIAS;
    memcpy(f->members[ref].dims, how.dims, SAMBA_MAX_RANK);
    return true;
}

/* Candidates: groups that hold an input, then groups that read one from memory; the latest first. */
static samba_status place_node(samba_fusion *f, samba_ref ref, int32_t *reader, int32_t *scalars, uint64_t *before)
{
    const samba_node *node = samba_node_at(f->graph, ref);
    samba_op_class class_ = samba_ops[node->op].class_;
    bool scalar = class_ == SAMBA_MAP && product(node->rank, node->shape) == 1; /* scalars of a phase share a stage where they can */
    if (class_ == SAMBA_MAP || class_ == SAMBA_REDUCE_CLASS) {
        int64_t limit = INT64_MAX;
        for (;;) {
            int64_t best = scalar && scalars[node->phase] < limit ? scalars[node->phase] : -1;
            for (int i = 0; i < node->arity; i++) {
                samba_ref u = node->inputs[i];
                const samba_node *base = samba_node_at(f->graph, f->access[u].base);
                int32_t at = f->members[u].group, by = product(base->rank, base->shape) > 1 || scalar ? reader[f->access[u].base] : -1;
                if (at >= 0 && at < limit && at > best)
                    best = at;
                if (by >= 0 && by < limit && by > best)
                    best = by;
            }
            if (best < 0)
                break;
            joining how;
            if (can_join(f, (int32_t)best, ref, before, &how)) {
                depend(f, (int32_t)best, before);
                return add_member(f, (int32_t)best, ref, &how);
            }
            limit = best;
        }
    }
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
            else if (tile && (is_member(f, group, u) || computed_in_place(f, u)))
                continue;
            f->members[f->access[u].base].stored = 1;
        }
        if (!tile)
            f->members[i].stored = 1;
    }
    for (int64_t i = 0; i < graph->sink_count; i++)
        if (graph->sinks[i].phase <= last)
            f->members[f->access[graph->sinks[i].value].base].stored = 1;
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
        if (phase == SAMBA_PHASE_COUNT && node->op == SAMBA_OP_constant) { /* only sinks, which copy constants themselves */
            f->members[i].stored = 0;
            continue;
        }
        for (int64_t k = 0; k < graph->sink_count; k++)
            if (f->access[graph->sinks[k].value].base == i && graph->sinks[k].phase < phase)
                phase = graph->sinks[k].phase;
        int32_t group;
        joining how = {.role = SAMBA_MEMBER_FULL};
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
            SAMBA_TRY(merge_inputs(f, (samba_ref)i));
        int32_t group = f->members[i].group;
        for (int k = 0; k < node->arity; k++)
            if (!is_member(f, group, node->inputs[k]))
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

/* By phase, then as soon as everything before has run, lowest first member first: close to the order the model was written in. */
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
            if (a->phase < b->phase || (a->phase == b->phase && a->members[0] <= b->members[0]))
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
            if (has(done, sorted[i]))
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
        while (first < live && has(done, sorted[first]))
            first++;
    }
    return SAMBA_OK;
}

samba_status samba_pass_fuse(samba_compiler *compiler)
{
    return samba_fuse(compiler->graph, SAMBA_OPT, &compiler->fusion);
}
