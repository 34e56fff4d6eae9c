/* SPDX-License-Identifier: Apache-2.0
 *
 * Products of matrices. */
#include "trace/trace.h"

#include <sambaflow/elementwise.h>
#include <sambaflow/linalg.h>
#include <sambaflow/shape.h>

samba_value samba_matmul(samba_value a, samba_value b)
{
    samba_graph *graph;
    if (!samba_trace_enter("matmul", 2, (samba_value[]){a, b}, &graph))
        return samba_trace_none(graph);
    samba_node left = samba_trace_node(a), right = samba_trace_node(b);
    if (left.rank == 0 || right.rank == 0)
        return samba_trace_value(graph, samba_graph_fail_at(graph, SAMBA_ERROR_SHAPE, "matmul",
                                                            "both operands need at least one dim, given ranks %d and %d",
                                                            left.rank, right.rank));
    /* A vector is a row on the left, a column on the right, and its dim of 1 leaves the result. */
    samba_ref rows = left.rank == 1 ? samba_emit_reshape(graph, a.index, 2, (int64_t[]){1, left.shape[0]}) : a.index;
    samba_ref columns = right.rank == 1 ? samba_emit_reshape(graph, b.index, 2, (int64_t[]){right.shape[0], 1}) : b.index;
    samba_ref product = samba_emit_cast(graph, samba_emit2(graph, SAMBA_OP_matmul, rows, columns), (samba_dtype)left.dtype);
    if (product == SAMBA_NONE || (left.rank > 1 && right.rank > 1))
        return samba_trace_value(graph, product);
    const samba_node *result = samba_node_at(graph, product);
    int64_t shape[SAMBA_MAX_RANK];
    int rank = 0;
    for (int d = 0; d < result->rank; d++)
        if (!(left.rank == 1 && d == result->rank - 2) && !(right.rank == 1 && d == result->rank - 1))
            shape[rank++] = result->shape[d];
    return samba_trace_value(graph, samba_emit_reshape(graph, product, rank, shape));
}

samba_value samba_functional_linear(samba_value input, samba_value weight, samba_value bias)
{
    samba_graph *graph;
    if (!samba_trace_enter_optional("linear", 3, (samba_value[]){input, weight, bias}, &graph))
        return samba_trace_none(graph);
    samba_node x = samba_trace_node(input), w = samba_trace_node(weight);
    if (x.rank == 0 || w.rank < 1 || w.rank > 2 || x.shape[x.rank - 1] != w.shape[w.rank - 1])
        return samba_trace_fail_shape(graph, "linear", "an input (..., in_features) and a weight (out_features, in_features) or (in_features)", &x, &w);
    samba_value result = samba_matmul(input, w.rank == 2 ? samba_transpose(weight, 0, 1) : weight);
    return bias.graph ? samba_add(result, bias) : result;
}
