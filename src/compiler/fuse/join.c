/* SPDX-License-Identifier: Apache-2.0
 *
 * Whether a node may join a group, and in which role. A map joins where its sizes and those of its inputs lie in the domain, FULL
 * or ROW. A reduction over exactly the last dims becomes a row reduction, which fixes what a row is; over anything else it is
 * collected. */
#include "compiler/fuse/fuse.h"

#include <string.h>

#define CONTRACT_ROW_LIMIT 1024 /* columns up to which a contraction's block holds whole rows for a row reduction */

/* In-group inputs lie where broadcasting against the node's own dims puts them. */
bool samba_inputs_aligned(const samba_fusion *f, int32_t group, const samba_node *node, const int8_t *dims)
{
    for (int i = 0; i < node->arity; i++) {
        samba_ref u = node->inputs[i];
        if (!samba_is_member(f, group, u))
            continue;
        const samba_node *source = samba_node_at(f->graph, u);
        for (int j = 0; j < source->rank; j++)
            if (source->shape[j] != 1 && f->members[u].dims[j] != dims[j + node->rank - source->rank])
                return false;
    }
    return true;
}

static bool join_map(const samba_fusion *f, int32_t group, const samba_node *node, samba_joining *how)
{
    const samba_group *g = &f->groups[group];
    how->cols = g->cols;
    how->role = SAMBA_MEMBER_FULL;
    if (samba_group_fits(g, g->rank, node->rank, node->shape, how->dims) && samba_inputs_aligned(f, group, node, how->dims) &&
        samba_group_storable(g, g->cols, node, how->dims))
        return true;
    how->role = SAMBA_MEMBER_ROW;
    if (g->cols == 0 || !samba_group_fits(g, g->rank - g->cols, node->rank, node->shape, how->dims) ||
        !samba_inputs_aligned(f, group, node, how->dims))
        return false;
    for (int i = 0; i < node->arity; i++) /* a ROW value is computed from ROW values */
        if (samba_is_member(f, group, node->inputs[i])) {
            samba_ref u = node->inputs[i];
            while (f->members[u].role == SAMBA_MEMBER_ALIAS)
                u = samba_node_at(f->graph, u)->inputs[0];
            if (f->members[u].role != SAMBA_MEMBER_ROW)
                return false;
        }
    return true;
}

/* The domain dims a reduction runs over are exactly the last `count` ones (sizes of 1 aside); 0 when they are not. */
int samba_trailing(const samba_group *g, const bool *reduced)
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

samba_member_role samba_role_of(const samba_fusion *f, samba_ref ref)
{
    while (f->members[ref].role == SAMBA_MEMBER_ALIAS)
        ref = samba_node_at(f->graph, ref)->inputs[0];
    return (samba_member_role)f->members[ref].role;
}

bool samba_reduces_spread(const samba_fusion *f, const samba_group *g, const samba_node *node)
{
    samba_ref u = node->inputs[0];
    const samba_node *source = samba_node_at(f->graph, u);
    int8_t dims[SAMBA_MAX_RANK];
    return samba_ops[node->op].class_ == SAMBA_REDUCE_CLASS && f->members[u].role == SAMBA_MEMBER_ALIAS &&
           samba_role_of(f, u) == SAMBA_MEMBER_ROW && samba_group_fits(g, g->rank, source->rank, source->shape, dims) &&
           samba_sizes_product(g->cols, g->domain + g->rank - g->cols) != 1;
}

/* Can a reduction of what is FULL, over these dims of the domain, be one of rows? The same of a domain turned for it, which then
 * stays so. */
static bool join_turned(samba_fusion *f, int32_t group, samba_ref ref, const bool *reduced, bool inside, samba_joining *how)
{
    const samba_group *g = &f->groups[group];
    samba_ref u = samba_node_at(f->graph, ref)->inputs[0];
    const samba_node *source = samba_node_at(f->graph, u);
    int8_t to[SAMBA_MAX_RANK], dims[SAMBA_MAX_RANK];
    bool turned[SAMBA_MAX_RANK] = {false};
    if (g->kind != SAMBA_GROUP_TILE || g->cols != 0 || !samba_is_turned(f, ref, reduced, g->rank, g->domain))
        return false;
    samba_group_turn(f, group, ref, reduced, to);
    memcpy(dims, how->dims, sizeof dims);
    for (int d = 0; d < SAMBA_MAX_RANK; d++)
        dims[d] = dims[d] < 0 ? dims[d] : to[dims[d]];
    for (int d = 0; d < g->rank; d++)
        turned[to[d]] = reduced[d];
    int cols = samba_trailing(g, turned);
    if (cols == 0 || !samba_group_in_reach(f, group, cols) ||
        (!inside && !samba_group_readable(f, g, cols, u, source->rank, dims))) {
        samba_group_turn_back(f, group, ref, to);
        return false;
    }
    memcpy(how->dims, dims, sizeof dims);
    how->role = SAMBA_MEMBER_ROW;
    how->cols = cols;
    return true;
}

static bool join_reduce(samba_fusion *f, int32_t group, samba_ref ref, samba_joining *how)
{
    const samba_node *node = samba_node_at(f->graph, ref);
    const samba_group *g = &f->groups[group];
    samba_ref u = node->inputs[0];
    const samba_node *source = samba_node_at(f->graph, u);
    bool inside = samba_is_member(f, group, u), reduced[SAMBA_MAX_RANK] = {false};
    samba_member_role from = SAMBA_MEMBER_FULL;
    if (g->kind == SAMBA_GROUP_CONTRACT && samba_sizes_product(g->rank, g->domain) == 0)
        return false; /* a contraction without elements runs nothing, and the sum of them is 0 all the same */
    if (inside) {
        memcpy(how->dims, f->members[u].dims, SAMBA_MAX_RANK);
        from = samba_role_of(f, u);
        if (samba_reduces_spread(f, g, node))
            return false;
    } else if (!samba_group_fits(g, g->rank, source->rank, source->shape, how->dims)) {
        return false;
    }
    if (!inside && (samba_computed_in_place(f, u) || !samba_group_readable(f, g, g->cols, u, source->rank, how->dims)))
        return false;
    for (int64_t i = 0; i < node->attrs->reduce.dims.count; i++) {
        int8_t d = how->dims[node->attrs->reduce.dims.at[i]];
        if (d >= 0)
            reduced[d] = true;
    }
    how->cols = g->cols;
    how->role = SAMBA_MEMBER_COLLECT;
    if (from == SAMBA_MEMBER_FULL) {
        int cols = samba_trailing(g, reduced);
        int64_t row = samba_sizes_product(cols, g->domain + g->rank - cols),
                rows = samba_sizes_product(g->rank - cols, g->domain);
        bool few = g->cols == 0 && samba_is_combined(node) && rows < SAMBA_FEW_ROWS && row > SAMBA_LONG_ROW;
        bool can = cols > 0 && (g->cols == cols || (g->cols == 0 && !few && samba_group_in_reach(f, group, cols) &&
                                                    (inside || samba_group_readable(f, g, cols, u, source->rank, how->dims))));
        if (can && g->kind == SAMBA_GROUP_CONTRACT) {
            const samba_node *anchor = samba_node_at(f->graph, g->anchor);
            int last = anchor->op == SAMBA_OP_matmul ? 1 : anchor->rank - 2; /* all of space is a row */
            can = cols == last && row <= CONTRACT_ROW_LIMIT && samba_ops[anchor->op].conv != SAMBA_CONV_weight_grad;
        }
        if (can) {
            how->role = SAMBA_MEMBER_ROW;
            how->cols = cols;
            return true;
        }
        if (cols == 0 && join_turned(f, group, ref, reduced, inside, how))
            return true;
    }
    return samba_is_combined(node) && samba_group_writable(g, g->cols, node, how->dims);
}

bool samba_can_join(samba_fusion *f, int32_t group, samba_ref ref, samba_joining *how)
{
    const samba_node *node = samba_node_at(f->graph, ref);
    const samba_group *g = &f->groups[group];
    if ((g->kind != SAMBA_GROUP_TILE && g->kind != SAMBA_GROUP_CONTRACT) || g->phase != node->phase ||
        g->member_count >= SAMBA_GROUP_MEMBER_LIMIT || g->member_count == 0 ||
        samba_node_at(f->graph, g->anchor)->part != node->part)
        return false;
    int32_t makers[SAMBA_MAX_ARITY];
    for (int i = samba_makers(f, group, ref, makers) - 1; i >= 0; i--)
        if (makers[i] == group || samba_group_precedes(f, group, makers[i]))
            return false;
    if (samba_ops[node->op].class_ == SAMBA_REDUCE_CLASS)
        return join_reduce(f, group, ref, how);
    if (!join_map(f, group, node, how))
        return false;
    for (int i = 0; i < node->arity; i++)
        if (!samba_is_member(f, group, node->inputs[i]) && !samba_is_constant(f, node->inputs[i]) &&
            !samba_group_readable(f, g, g->cols, node->inputs[i], node->rank, how->dims))
            return false;
    return true;
}
