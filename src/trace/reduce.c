/* SPDX-License-Identifier: Apache-2.0
 *
 * Reductions that are operators of the graph, or one step away: sums, extrema and their indices, products, truths. Operators keep
 * reduced dims with size 1; a reshape drops them.
 * Sums of integers are int64 and 16-bit floats are computed in float32, as in PyTorch. */
#include "trace/reduction.h"
#include "ops/ops.h"

#include <sambaflow/elementwise.h>
#include <sambaflow/reduce.h>
#include <sambaflow/shape.h>

static bool plan(samba_graph *graph, const char *what, const samba_node *node, int count, const int *dims, bool keepdim,
                 samba_reduced_dims *plan)
{
    bool reduced[SAMBA_MAX_RANK + 1] = {false};
    if (count < 0 || (count > 0 && !dims))
        return samba_graph_refuse(graph, SAMBA_ERROR_ARGUMENT, what, "expected a list of dims, given %s of %d",
                                  dims ? "one" : "NULL", count);
    for (int i = 0; i < count; i++) {
        int dim;
        if (!samba_trace_dim(graph, what, node->rank, dims[i], &dim))
            return false;
        if (reduced[dim])
            return samba_graph_refuse(graph, SAMBA_ERROR_ARGUMENT, what, "dim %d appears more than once in the list of dims",
                                      dim);
        reduced[dim] = true;
    }
    *plan = (samba_reduced_dims){.numel = 1};
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

bool samba_reduction_enter(const char *what, samba_value a, int count, const int *dims, bool keepdim, samba_graph **graph,
                           samba_reduced_dims *to)
{
    if (!samba_trace_enter(what, 1, &a, graph))
        return false;
    samba_node node = samba_trace_node(a);
    return plan(*graph, what, &node, count, dims, keepdim, to);
}

samba_value samba_reduction_leave(samba_graph *graph, const samba_reduced_dims *from, samba_ref kept)
{
    return samba_trace_value(graph, samba_emit_reshape(graph, kept, from->rank, from->shape));
}

samba_ref samba_reduction_emit(samba_graph *graph, samba_op op, samba_ref a, const samba_reduced_dims *over)
{
    return samba_emit_reduce(graph, op, a, over->count, over->dims);
}

samba_ref samba_trace_lift(samba_value a)
{
    samba_dtype dtype = samba_value_dtype(a);
    bool half = dtype == SAMBA_BFLOAT16 || dtype == SAMBA_FLOAT16;
    return half ? samba_emit_cast(a.graph, a.index, SAMBA_FLOAT32) : a.index;
}

/* ---- sums, extrema ---- */

static samba_value reduce(samba_op op, samba_value a, int count, const int *dims, bool keepdim)
{
    samba_graph *graph;
    samba_reduced_dims to;
    if (!samba_reduction_enter(samba_op_table[op].name, a, count, dims, keepdim, &graph, &to))
        return samba_trace_none(graph);
    bool widens = samba_widens_integers(op) && !samba_dtype_is_floating_point(samba_value_dtype(a));
    samba_ref kept = samba_reduction_emit(graph, op, a.index, &to);
    if (widens) /* it is int64 already, but for a sum over no dims */
        kept = samba_emit_cast(graph, kept, SAMBA_INT64);
    return samba_reduction_leave(graph, &to, kept);
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

samba_value samba_aminmax(samba_value a, int count, const int *dims, bool keepdim, samba_value *max)
{
    if (!max)
        return samba_trace_no_result("aminmax", a, "the maximum");
    samba_graph *graph;
    if (!samba_trace_enter("aminmax", 1, &a, &graph)) {
        *max = samba_trace_none(graph);
        return *max;
    }
    SAMBA_SPEAKS(graph, "aminmax");
    *max = samba_amax(a, count, dims, keepdim);
    return samba_amin(a, count, dims, keepdim);
}

static samba_value of_all(const char *what, samba_op op, samba_value a)
{
    samba_graph *graph;
    if (!samba_trace_enter(what, 1, &a, &graph))
        return samba_trace_none(graph);
    SAMBA_SPEAKS(graph, what);
    return reduce(op, a, 0, NULL, false);
}

samba_value samba_max_of_all(samba_value a) { return of_all("max", SAMBA_OP_amax, a); }
samba_value samba_min_of_all(samba_value a) { return of_all("min", SAMBA_OP_amin, a); }

samba_value samba_mean(samba_value a, int count, const int *dims, bool keepdim)
{
    samba_graph *graph;
    samba_reduced_dims to;
    if (!samba_reduction_enter("mean", a, count, dims, keepdim, &graph, &to) || !samba_trace_need_floating(a, "mean"))
        return samba_trace_none(graph);
    samba_dtype dtype = samba_value_dtype(a);
    /* it and 1/n need more digits than 16 bits have */
    samba_ref sum = samba_reduction_emit(graph, SAMBA_OP_sum, samba_trace_lift(a), &to);
    samba_ref mean = to.count > 0 ? samba_emit_scalar(graph, SAMBA_OP_mul, sum, 1.0 / (double)to.numel) : sum;
    return samba_reduction_leave(graph, &to, samba_emit_cast(graph, mean, dtype));
}

samba_value samba_prod(samba_value a, int count, const int *dims, bool keepdim)
{
    samba_graph *graph;
    samba_reduced_dims to;
    if (!samba_reduction_enter("prod", a, count, dims, keepdim, &graph, &to))
        return samba_trace_none(graph);
    samba_dtype dtype = samba_dtype_is_floating_point(samba_value_dtype(a)) ? samba_value_dtype(a) : SAMBA_INT64;
    samba_ref product;
    if (to.numel == 0) {
        samba_ref one = samba_emit_constant(graph, 1, dtype);
        product = samba_emit_expand(graph, one, to.rank, to.shape);
    } else {
        product = samba_reduction_emit(graph, SAMBA_OP_prod, samba_trace_lift(a), &to);
    }
    return samba_reduction_leave(graph, &to, samba_emit_cast(graph, product, dtype));
}

/* ---- indices of extrema ---- */

/* Turns the order around, so that the least element becomes the greatest, without overflow. */
static samba_ref upside_down(samba_graph *graph, samba_value a)
{
    if (samba_dtype_is_floating_point(samba_value_dtype(a)))
        return samba_emit1(graph, SAMBA_OP_neg, a.index);
    samba_ref less_one = samba_emit_constant(graph, -1, SAMBA_INT64);
    return samba_emit2(graph, SAMBA_OP_sub, less_one, samba_emit_cast(graph, a.index, SAMBA_INT64));
}

static samba_value index_of(const char *what, bool least, samba_value a, int dim, bool keepdim)
{
    samba_graph *graph;
    samba_reduced_dims to;
    if (!samba_reduction_enter(what, a, 1, &dim, keepdim, &graph, &to))
        return samba_trace_none(graph);
    if (samba_value_dtype(a) == SAMBA_BOOL)
        return samba_trace_fail(graph, SAMBA_ERROR_DTYPE, what, "expected integers or floating-point, given bool; cast it first");
    if (to.numel == 0)
        return samba_trace_fail(graph, SAMBA_ERROR_SHAPE, what, "dim %d has size 0: there is no greatest or least of no elements",
                                dim);
    if (to.count == 0) /* of rank 0: the only element is the first */
        return samba_trace_value(graph, samba_emit_constant(graph, 0, SAMBA_INT64));
    samba_ref x = least ? upside_down(graph, a) : a.index;
    return samba_reduction_leave(graph, &to, samba_reduction_emit(graph, SAMBA_OP_argmax, x, &to));
}

samba_value samba_argmax(samba_value a, int dim, bool keepdim) { return index_of("argmax", false, a, dim, keepdim); }
samba_value samba_argmin(samba_value a, int dim, bool keepdim) { return index_of("argmin", true, a, dim, keepdim); }

/* The extremum and its index. Floats are looked up at the index, so that the gradient goes there; others have none. */
static samba_value extremum(const char *what, samba_op op, samba_value a, int dim, bool keepdim, samba_value *indices)
{
    samba_graph *graph;
    samba_reduced_dims to;
    *indices = (samba_value){0};
    if (!samba_reduction_enter(what, a, 1, &dim, keepdim, &graph, &to))
        return *indices = samba_trace_none(graph);
    samba_value x = samba_value_dtype(a) == SAMBA_BOOL ? samba_cast(a, SAMBA_UINT8) : a;
    samba_value kept = index_of(what, op == SAMBA_OP_amin, x, dim, true);
    if (to.count == 0 || kept.index == SAMBA_NONE) {
        *indices = kept;
        return kept.index == SAMBA_NONE ? kept : a;
    }
    samba_ref value = samba_dtype_is_floating_point(samba_value_dtype(a))
                          ? samba_trace_look_up(graph, a.index, kept.index, (int)to.dims[0])
                          : samba_reduction_emit(graph, op, a.index, &to);
    *indices = samba_reduction_leave(graph, &to, kept.index);
    return samba_reduction_leave(graph, &to, value);
}

samba_value samba_max(samba_value a, int dim, bool keepdim, samba_value *indices)
{
    if (!indices)
        return samba_trace_no_result("max", a, "the indices");
    return extremum("max", SAMBA_OP_amax, a, dim, keepdim, indices);
}

samba_value samba_min(samba_value a, int dim, bool keepdim, samba_value *indices)
{
    if (!indices)
        return samba_trace_no_result("min", a, "the indices");
    return extremum("min", SAMBA_OP_amin, a, dim, keepdim, indices);
}

samba_ref samba_trace_look_up(samba_graph *graph, samba_ref a, samba_ref index, int dim)
{
    if (a == SAMBA_NONE || index == SAMBA_NONE)
        return SAMBA_NONE;
    samba_node node = *samba_node_at(graph, a), result = *samba_node_at(graph, index);
    int64_t numel = 0;
    samba_shape_numel(node.rank, node.shape, &numel);
    samba_ref flat = samba_emit_flat_indices(graph, &node, index, dim);
    samba_ref table = samba_emit_reshape(graph, a, 2, (int64_t[]){numel, 1});
    return samba_emit_reshape(graph, samba_emit2(graph, SAMBA_OP_embedding, table, flat), result.rank, result.shape);
}

/* ---- truths ---- */

static samba_ref not_zero(samba_graph *graph, samba_value a)
{
    return samba_value_dtype(a) == SAMBA_BOOL ? a.index : samba_emit_scalar(graph, SAMBA_OP_ne, a.index, 0);
}

static samba_value truth(const char *what, samba_op op, bool of_none, samba_value a, int count, const int *dims, bool keepdim)
{
    samba_graph *graph;
    samba_reduced_dims to;
    if (!samba_reduction_enter(what, a, count, dims, keepdim, &graph, &to))
        return samba_trace_none(graph);
    samba_dtype dtype = samba_value_dtype(a) == SAMBA_UINT8 ? SAMBA_UINT8 : SAMBA_BOOL;
    if (to.numel == 0)
        return samba_trace_value(graph, samba_emit_expand(graph, samba_emit_constant(graph, of_none, dtype), to.rank, to.shape));
    samba_ref kept = samba_reduction_emit(graph, op, not_zero(graph, a), &to);
    return samba_reduction_leave(graph, &to, samba_emit_cast(graph, kept, dtype));
}

samba_value samba_any(samba_value a, int count, const int *dims, bool keepdim)
{
    return truth("any", SAMBA_OP_amax, false, a, count, dims, keepdim);
}

samba_value samba_all(samba_value a, int count, const int *dims, bool keepdim)
{
    return truth("all", SAMBA_OP_amin, true, a, count, dims, keepdim);
}

samba_value samba_count_nonzero(samba_value a, int count, const int *dims)
{
    samba_graph *graph;
    samba_reduced_dims to;
    if (!samba_reduction_enter("count_nonzero", a, count, dims, false, &graph, &to))
        return samba_trace_none(graph);
    samba_ref kept = samba_reduction_emit(graph, SAMBA_OP_sum, not_zero(graph, a), &to);
    /* it is already, but for a sum over no dims */
    return samba_reduction_leave(graph, &to, samba_emit_cast(graph, kept, SAMBA_INT64));
}
