/* SPDX-License-Identifier: Apache-2.0
 *
 * Emitting the common operators without filling attributes by hand, for gradients, expansions and passes. Each helper passes
 * SAMBA_NONE on, and gives back its operand where the operator would do nothing. */
#include "graph/graph.h"

static bool usable(const samba_graph *g, samba_ref a) { return g->status == SAMBA_OK && a < g->node_count; }

samba_dims samba_dims_of(int count, const int64_t *numbers)
{
    samba_dims dims = {.count = count};
    for (int i = 0; i < count && i < SAMBA_MAX_RANK; i++)
        dims.at[i] = numbers[i];
    return dims;
}

samba_ref samba_emit1(samba_graph *g, samba_op op, samba_ref a) { return samba_emit(g, op, 1, &a, NULL); }

samba_ref samba_emit2(samba_graph *g, samba_op op, samba_ref a, samba_ref b)
{
    return samba_emit(g, op, 2, (samba_ref[]){a, b}, NULL);
}

samba_ref samba_emit3(samba_graph *g, samba_op op, samba_ref a, samba_ref b, samba_ref c)
{
    return samba_emit(g, op, 3, (samba_ref[]){a, b, c}, NULL);
}

samba_ref samba_emit_constant(samba_graph *g, double value, samba_dtype dtype)
{
    samba_attrs attrs = {.constant = {.dtype = dtype, .value = samba_dtype_hold(dtype, value)}};
    return samba_emit(g, SAMBA_OP_constant, 0, NULL, &attrs);
}

samba_ref samba_emit_iota(samba_graph *g, int rank, const int64_t *shape, int dim)
{
    samba_attrs attrs = {.iota = {.dtype = SAMBA_INT64, .shape = samba_dims_of(rank, shape), .dim = dim}};
    return samba_emit(g, SAMBA_OP_iota, 0, NULL, &attrs);
}

/* reshape or expand */
static samba_ref emit_shaped(samba_graph *g, samba_op op, samba_ref a, int rank, const int64_t *shape)
{
    if (usable(g, a) && samba_shape_equal(g->nodes[a].rank, g->nodes[a].shape, rank, shape))
        return a;
    samba_attrs attrs = {.shape = {.shape = samba_dims_of(rank, shape)}};
    return samba_emit(g, op, 1, &a, &attrs);
}

samba_ref samba_emit_reshape(samba_graph *g, samba_ref a, int rank, const int64_t *shape)
{
    return emit_shaped(g, SAMBA_OP_reshape, a, rank, shape);
}

samba_ref samba_emit_expand(samba_graph *g, samba_ref a, int rank, const int64_t *shape)
{
    return emit_shaped(g, SAMBA_OP_expand, a, rank, shape);
}

samba_ref samba_emit_permute(samba_graph *g, samba_ref a, const int64_t *dims)
{
    if (!usable(g, a))
        return SAMBA_NONE;
    int rank = g->nodes[a].rank, moved = 0;
    for (int i = 0; i < rank; i++)
        moved += dims[i] != i;
    if (!moved)
        return a;
    samba_attrs attrs = {.permute = {.dims = samba_dims_of(rank, dims)}};
    return samba_emit(g, SAMBA_OP_permute, 1, &a, &attrs);
}

samba_ref samba_emit_transpose(samba_graph *g, samba_ref a, int dim0, int dim1)
{
    if (!usable(g, a))
        return SAMBA_NONE;
    int rank = g->nodes[a].rank;
    dim0 += dim0 < 0 ? rank : 0;
    dim1 += dim1 < 0 ? rank : 0;
    if (dim0 < 0 || dim1 < 0 || dim0 >= rank || dim1 >= rank)
        return samba_graph_fail(g, SAMBA_ERROR_INTERNAL, "transpose: dims %d and %d of a value of rank %d", dim0, dim1, rank);
    int64_t dims[SAMBA_MAX_RANK];
    for (int i = 0; i < rank; i++)
        dims[i] = i == dim0 ? dim1 : i == dim1 ? dim0 : i;
    return samba_emit_permute(g, a, dims);
}

samba_ref samba_emit_cast(samba_graph *g, samba_ref a, samba_dtype dtype)
{
    if (usable(g, a) && g->nodes[a].dtype == dtype)
        return a;
    samba_attrs attrs = {.cast = {.dtype = dtype}};
    return samba_emit(g, SAMBA_OP_cast, 1, &a, &attrs);
}

samba_ref samba_emit_gather(samba_graph *g, samba_ref a, samba_ref index, int64_t dim, bool negative)
{
    samba_attrs attrs = {.gather = {.dim = dim, .negative = negative}};
    return samba_emit(g, SAMBA_OP_gather, 2, (samba_ref[]){a, index}, &attrs);
}

samba_ref samba_emit_scatter(samba_graph *g, samba_ref a, samba_ref index, samba_ref source, int64_t dim, samba_scatter_mode mode,
                             bool negative)
{
    samba_attrs attrs = {.scatter = {.dim = dim, .reduce = mode, .negative = negative}};
    return samba_emit(g, SAMBA_OP_scatter, 3, (samba_ref[]){a, index, source}, &attrs);
}

samba_ref samba_emit_reduce(samba_graph *g, samba_op op, samba_ref a, int count, const int64_t *dims)
{
    if (count == 0)
        return a;
    samba_attrs attrs = {.reduce = {.dims = samba_dims_of(count, dims)}};
    /* A set: ascending, so that the same reduction is the same node. */
    for (int i = 1; i < count && count <= SAMBA_MAX_RANK; i++)
        for (int k = i; k > 0 && attrs.reduce.dims.at[k - 1] > attrs.reduce.dims.at[k]; k--) {
            int64_t swap = attrs.reduce.dims.at[k];
            attrs.reduce.dims.at[k] = attrs.reduce.dims.at[k - 1];
            attrs.reduce.dims.at[k - 1] = swap;
        }
    return samba_emit(g, op, 1, &a, &attrs);
}

samba_ref samba_emit_sum_to(samba_graph *g, samba_ref a, int rank, const int64_t *shape)
{
    if (!usable(g, a))
        return SAMBA_NONE;
    const samba_node *node = samba_node_at(g, a);
    int extra = node->rank - rank, count = 0;
    int64_t dims[SAMBA_MAX_RANK];
    bool fits = extra >= 0;
    for (int i = 0; fits && i < node->rank; i++) {
        int64_t wanted = i < extra ? 1 : shape[i - extra];
        if (wanted == 1 && node->shape[i] != 1)
            dims[count++] = i;
        else
            fits = wanted == node->shape[i];
    }
    if (!fits)
        return samba_graph_fail(g, SAMBA_ERROR_INTERNAL, "%s cannot be summed down to %s", SAMBA_SHAPE_OF(node),
                                SAMBA_SHAPE(rank, shape));
    return samba_emit_reshape(g, samba_emit_reduce(g, SAMBA_OP_sum, a, count, dims), rank, shape);
}

samba_ref samba_emit_scalar(samba_graph *g, samba_op op, samba_ref a, double number)
{
    if (!usable(g, a))
        return SAMBA_NONE;
    return samba_emit2(g, op, a, samba_emit_constant(g, number, g->nodes[a].dtype));
}
