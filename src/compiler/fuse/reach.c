/* SPDX-License-Identifier: Apache-2.0
 *
 * The reach of a group: sizes that make a node one of its members, and memory that it can read or write under its domain. */
#include "compiler/fuse/fuse.h"

#include <string.h>

bool samba_is_constant(const samba_fusion *f, samba_ref ref)
{
    return samba_node_at(f->graph, f->access[ref].base)->op == SAMBA_OP_constant;
}

/* A view of a constant is a constant; a view of other inline leaves needs memory. */
bool samba_computed_in_place(const samba_fusion *f, samba_ref ref)
{
    return samba_is_inline(f->graph, ref) || samba_is_constant(f, ref);
}

/* The first `rank` of a domain, in the order that nodes have them. */
static int dense_domain(const samba_group *g, int rank, int64_t *sizes, int *where)
{
    int count = 0;
    for (int i = 0; i < g->rank; i++)
        if (g->order[i] < rank && g->domain[g->order[i]] != 1) {
            sizes[count] = g->domain[g->order[i]];
            where[count++] = g->order[i];
        }
    return count;
}

int samba_dense(int rank, const int64_t *shape, int64_t *sizes, int *where)
{
    int count = 0;
    for (int i = 0; i < rank; i++)
        if (shape[i] != 1) {
            sizes[count] = shape[i];
            where[count++] = i;
        }
    return count;
}

bool samba_group_fits(const samba_group *g, int domain_rank, int rank, const int64_t *shape, int8_t *dims)
{
    int64_t mine[SAMBA_MAX_RANK], theirs[SAMBA_MAX_RANK];
    int my_dims[SAMBA_MAX_RANK], their_dims[SAMBA_MAX_RANK];
    int count = samba_dense(rank, shape, mine, my_dims);
    if (count != dense_domain(g, domain_rank, theirs, their_dims) || memcmp(mine, theirs, sizeof(int64_t) * (size_t)count) != 0)
        return false;
    memset(dims, -1, SAMBA_MAX_RANK);
    for (int i = 0; i < count; i++)
        dims[my_dims[i]] = (int8_t)their_dims[i];
    return true;
}

/* Strides of an external input over the group's domain;
 * of a coordinate those of its dim, of random numbers those of their offsets. */
static void domain_strides(const samba_fusion *f, samba_ref input, int user_rank, const int8_t *user_dims, int64_t *strides)
{
    const samba_node *node = samba_node_at(f->graph, input);
    memset(strides, 0, sizeof(int64_t) * SAMBA_MAX_RANK);
    for (int i = 0; i < node->rank; i++) {
        int8_t d = user_dims[i + user_rank - node->rank];
        if (node->shape[i] != 1 && d >= 0)
            strides[d] = node->op != SAMBA_OP_iota ? f->access[input].strides[i] : node->attrs->iota.dim == i ? 1 : 0;
    }
}

/* A contraction's stage runs over [batch..., M, N]: every operand must be a view in that shape. */
static bool in_contract_shape(const samba_group *g, const int64_t *strides)
{
    int64_t viewed[SAMBA_MAX_RANK];
    return samba_shape_view_strides(g->rank, g->domain, strides, g->plan_rank, g->plan_shape, viewed);
}

/* Its dim is one of that shape's: a coordinate cannot be put together from two, as an offset can. */
static bool coordinate_in_contract_shape(const samba_group *g, const int64_t *strides)
{
    int64_t viewed[SAMBA_MAX_RANK];
    int moving = 0;
    if (!samba_shape_view_strides(g->rank, g->domain, strides, g->plan_rank, g->plan_shape, viewed))
        return false;
    for (int i = 0; i < g->plan_rank; i++)
        moving += g->plan_shape[i] != 1 && viewed[i] != 0;
    return moving <= 1;
}

static bool cols_collapse(const samba_group *g, int cols, const int64_t *strides)
{
    int64_t from[SAMBA_MAX_RANK], to = samba_sizes_product(cols, g->domain + g->rank - cols), viewed;
    memcpy(from, strides + g->rank - cols, sizeof(int64_t) * (size_t)cols);
    /* a row of no elements would take any strides, and lose where results that are not empty lie */
    return cols <= 1 || (to != 0 && samba_shape_view_strides(cols, g->domain + g->rank - cols, from, 1, &to, &viewed));
}

bool samba_group_readable(const samba_fusion *f, const samba_group *g, int cols, samba_ref input, int user_rank,
                          const int8_t *user_dims)
{
    int64_t strides[SAMBA_MAX_RANK];
    domain_strides(f, input, user_rank, user_dims, strides);
    bool coordinate = samba_node_at(f->graph, input)->op == SAMBA_OP_iota;
    return cols_collapse(g, cols, strides) &&
           (g->kind != SAMBA_GROUP_CONTRACT ||
            (coordinate ? coordinate_in_contract_shape(g, strides) : in_contract_shape(g, strides)));
}

/* A member's strides over the domain, where `own` are those of its memory. */
static void written_strides(const samba_node *node, const int8_t *dims, const int64_t *own, int64_t *strides)
{
    memset(strides, 0, sizeof(int64_t) * SAMBA_MAX_RANK);
    for (int i = 0; i < node->rank; i++)
        if (node->shape[i] != 1 && dims[i] >= 0)
            strides[dims[i]] = own[i];
}

bool samba_group_writable_at(const samba_group *g, int cols, const samba_node *node, const int8_t *dims, const int64_t *own)
{
    int64_t strides[SAMBA_MAX_RANK];
    written_strides(node, dims, own, strides);
    return cols_collapse(g, cols, strides) && (g->kind != SAMBA_GROUP_CONTRACT || in_contract_shape(g, strides));
}

/* The same of memory it collects into: the kept dims of a reduction, in order. */
bool samba_group_writable(const samba_group *g, int cols, const samba_node *node, const int8_t *dims)
{
    int64_t own[SAMBA_MAX_RANK];
    samba_shape_contiguous_strides(node->rank, node->shape, own);
    return samba_group_writable_at(g, cols, node, dims, own);
}

bool samba_group_storable(const samba_group *g, int cols, const samba_node *node, const int8_t *dims)
{
    int64_t own[SAMBA_MAX_RANK], strides[SAMBA_MAX_RANK];
    samba_shape_contiguous_strides(node->rank, node->shape, own);
    written_strides(node, dims, own, strides);
    return cols_collapse(g, cols, strides);
}

bool samba_is_member(const samba_fusion *f, int32_t group, samba_ref ref)
{
    return f->members[ref].group == group && f->members[ref].role != SAMBA_MEMBER_COLLECT;
}

bool samba_group_in_reach(const samba_fusion *f, int32_t group, int cols)
{
    const samba_group *g = &f->groups[group];
    for (int64_t m = 0; m < g->member_count; m++) {
        const samba_node *node = samba_node_at(f->graph, g->members[m]);
        if (g->kind == SAMBA_GROUP_CONTRACT && g->members[m] == g->anchor)
            continue;
        const samba_member *member = &f->members[g->members[m]];
        if (member->role == SAMBA_MEMBER_COLLECT && !samba_group_writable(g, cols, node, member->dims))
            return false;
        if (member->role == SAMBA_MEMBER_FULL && !samba_group_storable(g, cols, node, member->dims))
            return false;
        for (int i = 0; i < node->arity; i++)
            if (!samba_is_member(f, group, node->inputs[i]) && !samba_is_constant(f, node->inputs[i]) &&
                !samba_group_readable(f, g, cols, node->inputs[i], node->rank, member->dims))
                return false;
    }
    return true;
}
