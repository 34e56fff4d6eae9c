/* SPDX-License-Identifier: Apache-2.0
 *
 * Nodes that formulas over matrices are made of, and what their inference shares. */
#include "ops/matrix.h"

#include <string.h>

samba_status samba_infer_need_matrix(const samba_infer *infer, int i, bool square)
{
    const samba_node *a = infer->inputs[i];
    if (a->dtype != SAMBA_FLOAT32 && a->dtype != SAMBA_FLOAT64)
        return samba_infer_fail(infer, SAMBA_ERROR_DTYPE, "expected matrices of float32 or float64, given %s; cast them first",
                                samba_dtype_name((samba_dtype)a->dtype));
    if (a->rank < 2 || (square && samba_rows_of(a) != samba_columns_of(a)))
        return samba_infer_fail(infer, SAMBA_ERROR_SHAPE, "expected %s, given %s",
                                square ? "square matrices (..., N, N)" : "matrices (..., M, N)", SAMBA_SHAPE_OF(a));
    return SAMBA_OK;
}

samba_status samba_infer_set_matrix(samba_infer *infer, int64_t rows, int64_t columns)
{
    const samba_node *a = infer->inputs[0];
    int64_t shape[SAMBA_MAX_RANK];
    memcpy(shape, a->shape, sizeof shape);
    shape[a->rank - 2] = rows;
    shape[a->rank - 1] = columns;
    return samba_infer_set(infer, a->dtype, a->rank, shape);
}

samba_ref samba_emit_product(samba_graph *graph, samba_ref a, samba_ref b) { return samba_emit2(graph, SAMBA_OP_matmul, a, b); }

samba_ref samba_emit_turned(samba_graph *graph, samba_ref a)
{
    if (a == SAMBA_NONE)
        return a;
    const int rank = samba_node_at(graph, a)->rank;
    return samba_emit_transpose(graph, a, rank - 2, rank - 1);
}

static samba_ref part(samba_graph *graph, samba_ref a, int from_last, int64_t begin, int64_t end)
{
    if (a == SAMBA_NONE)
        return a;
    const samba_node node = *samba_node_at(graph, a);
    const int dim = node.rank - from_last;
    if (begin == 0 && end == node.shape[dim])
        return a;
    int64_t ones[SAMBA_MAX_RANK], starts[SAMBA_MAX_RANK] = {0}, stops[SAMBA_MAX_RANK];
    for (int i = 0; i < node.rank; i++) {
        ones[i] = 1;
        stops[i] = node.shape[i];
    }
    starts[dim] = begin;
    stops[dim] = end;
    samba_attrs attrs = {.slice = {.start = samba_dims_of(node.rank, starts),
                                   .stop = samba_dims_of(node.rank, stops),
                                   .step = samba_dims_of(node.rank, ones)}};
    return samba_emit(graph, SAMBA_OP_slice, 1, &a, &attrs);
}

samba_ref samba_emit_rows(samba_graph *graph, samba_ref a, int64_t begin, int64_t end) { return part(graph, a, 2, begin, end); }
samba_ref samba_emit_columns(samba_graph *graph, samba_ref a, int64_t begin, int64_t end)
{
    return part(graph, a, 1, begin, end);
}

samba_ref samba_emit_where_rows(samba_graph *graph, samba_ref a, samba_op relation, samba_ref other)
{
    if (a == SAMBA_NONE)
        return a;
    const samba_node node = *samba_node_at(graph, a);
    const int64_t tall[2] = {samba_rows_of(&node), 1}, wide[2] = {1, samba_columns_of(&node)};
    samba_ref row = samba_emit_iota(graph, 2, tall, 0), column = samba_emit_iota(graph, 2, wide, 1);
    samba_ref chosen = samba_emit2(graph, relation, row, column);
    if (other == SAMBA_NONE)
        other = samba_emit_constant(graph, 0, (samba_dtype)node.dtype);
    return samba_emit3(graph, SAMBA_OP_where, chosen, a, other);
}

samba_ref samba_emit_diagonal(samba_graph *graph, samba_ref a)
{
    if (a == SAMBA_NONE)
        return a;
    const int64_t dim = samba_node_at(graph, a)->rank - 2;
    return samba_emit_reduce(graph, SAMBA_OP_sum, samba_emit_where_rows(graph, a, SAMBA_OP_eq, SAMBA_NONE), 1, &dim);
}

samba_ref samba_emit_diagonal_matrix(samba_graph *graph, samba_ref v)
{
    if (v == SAMBA_NONE)
        return v;
    const samba_node node = *samba_node_at(graph, v);
    int64_t shape[SAMBA_MAX_RANK];
    memcpy(shape, node.shape, sizeof shape);
    shape[node.rank - 2] = shape[node.rank - 1];
    return samba_emit_where_rows(graph, samba_emit_expand(graph, v, node.rank, shape), SAMBA_OP_eq, SAMBA_NONE);
}

samba_ref samba_emit_identity(samba_graph *graph, samba_ref a, samba_ref number)
{
    if (a == SAMBA_NONE)
        return a;
    const samba_node node = *samba_node_at(graph, a);
    if (number == SAMBA_NONE)
        number = samba_emit_constant(graph, 1, (samba_dtype)node.dtype);
    samba_ref all = samba_emit_expand(graph, number, node.rank, node.shape);
    return samba_emit_where_rows(graph, all, SAMBA_OP_eq, SAMBA_NONE);
}

samba_ref samba_emit_triangular_solve(samba_graph *graph, samba_ref a, samba_ref b, bool upper, bool unit)
{
    samba_attrs attrs = {.triangular = {.upper = upper, .unit = unit}};
    return samba_emit(graph, SAMBA_OP_triangular_solve, 2, (samba_ref[]){a, b}, &attrs);
}

samba_ref samba_emit_lu(samba_graph *graph, samba_ref a, bool singular)
{
    samba_attrs attrs = {.lu = {.singular = singular}};
    return samba_emit(graph, SAMBA_OP_lu_factors, 1, &a, &attrs);
}

samba_ref samba_emit_lu_solve(samba_graph *graph, samba_ref lu, samba_ref b, bool transposed)
{
    samba_attrs attrs = {.lu_solve = {.transposed = transposed}};
    return samba_emit(graph, SAMBA_OP_lu_solve, 2, (samba_ref[]){lu, b}, &attrs);
}
