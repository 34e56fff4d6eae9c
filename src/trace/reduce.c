/* SPDX-License-Identifier: Apache-2.0
 *
 * Reductions and the normalisations along one dim. Operators of the graph keep reduced dims with size 1; a reshape drops them.
 * Sums of integers are int64 and 16-bit means are computed in float32, as in PyTorch. */
#include "trace/trace.h"

#include <sambaflow/reduce.h>
#include <string.h>

/* A set of dims of one value, and the shape that is left without them. */
typedef struct reduction {
    int count, rank;
    int64_t dims[SAMBA_MAX_RANK], shape[SAMBA_MAX_RANK], numel; /* numel: elements behind each result */
} reduction;

static bool plan(samba_graph *graph, const char *what, const samba_node *node, int count, const int *dims, bool keepdim,
                 reduction *plan)
{
    bool reduced[SAMBA_MAX_RANK + 1] = {false};
    if (count < 0 || (count > 0 && !dims)) {
        samba_graph_fail_at(graph, SAMBA_ERROR_ARGUMENT, what, "expected a list of dims, given %s of %d", dims ? "one" : "NULL",
                            count);
        return false;
    }
    for (int i = 0; i < count; i++) {
        int dim;
        if (!samba_trace_dim(graph, what, node->rank, dims[i], &dim))
            return false;
        if (reduced[dim]) {
            samba_graph_fail_at(graph, SAMBA_ERROR_ARGUMENT, what, "dim %d appears more than once in the list of dims", dim);
            return false;
        }
        reduced[dim] = true;
    }
    *plan = (reduction){.numel = 1};
    for (int d = 0; d < node->rank; d++) {
        if (reduced[d] || count == 0) {
            plan->dims[plan->count++] = d;
            plan->numel *= node->shape[d];
            if (keepdim)
                plan->shape[plan->rank++] = 1;
        } else {
            plan->shape[plan->rank++] = node->shape[d];
        }
    }
    return true;
}

static samba_value reduce(samba_op op, samba_value a, int count, const int *dims, bool keepdim)
{
    samba_graph *graph;
    reduction to;
    if (!samba_trace_enter(samba_op_table[op].name, 1, &a, &graph))
        return samba_trace_value(graph, SAMBA_NONE);
    samba_node node = samba_trace_node(a);
    if (!plan(graph, samba_op_table[op].name, &node, count, dims, keepdim, &to))
        return samba_trace_value(graph, SAMBA_NONE);
    samba_ref kept = samba_emit_reduce(graph, op, a.index, to.count, to.dims);
    if (op == SAMBA_OP_sum && !samba_dtype_is_floating_point(node.dtype)) /* it is already, but for a sum over no dims */
        kept = samba_emit_cast(graph, kept, SAMBA_INT64);
    return samba_trace_value(graph, samba_emit_reshape(graph, kept, to.rank, to.shape));
}

samba_value samba_sum(samba_value a, int count, const int *dims, bool keepdim)
{
    return reduce(SAMBA_OP_sum, a, count, dims, keepdim);
}

samba_value samba_amax(samba_value a, int count, const int *dims, bool keepdim)
{
    return reduce(SAMBA_OP_amax, a, count, dims, keepdim);
}

samba_value samba_amin(samba_value a, int count, const int *dims, bool keepdim)
{
    return reduce(SAMBA_OP_amin, a, count, dims, keepdim);
}

samba_value samba_mean(samba_value a, int count, const int *dims, bool keepdim)
{
    samba_graph *graph;
    reduction to;
    if (!samba_trace_enter("mean", 1, &a, &graph) || !samba_trace_need_floating(a, "mean"))
        return samba_trace_value(graph, SAMBA_NONE);
    samba_node node = samba_trace_node(a);
    if (!plan(graph, "mean", &node, count, dims, keepdim, &to))
        return samba_trace_value(graph, SAMBA_NONE);
    bool half = node.dtype == SAMBA_BFLOAT16 || node.dtype == SAMBA_FLOAT16; /* its sum and 1/n need more digits */
    samba_ref wide = half ? samba_emit_cast(graph, a.index, SAMBA_FLOAT32) : a.index;
    samba_ref sum = samba_emit_reduce(graph, SAMBA_OP_sum, wide, to.count, to.dims);
    samba_ref mean = to.count > 0 ? samba_emit_scalar(graph, SAMBA_OP_mul, sum, 1.0 / (double)to.numel) : sum;
    mean = samba_emit_cast(graph, mean, node.dtype);
    return samba_trace_value(graph, samba_emit_reshape(graph, mean, to.rank, to.shape));
}

samba_value samba_argmax(samba_value a, int dim, bool keepdim)
{
    samba_graph *graph;
    reduction to;
    if (!samba_trace_enter("argmax", 1, &a, &graph))
        return samba_trace_value(graph, SAMBA_NONE);
    samba_node node = samba_trace_node(a);
    if (!plan(graph, "argmax", &node, 1, &dim, keepdim, &to))
        return samba_trace_value(graph, SAMBA_NONE);
    if (node.rank == 0) /* the only element is the first */
        return samba_trace_value(graph, samba_emit_constant(graph, 0, SAMBA_INT64));
    samba_ref kept = samba_emit_reduce(graph, SAMBA_OP_argmax, a.index, to.count, to.dims);
    return samba_trace_value(graph, samba_emit_reshape(graph, kept, to.rank, to.shape));
}
