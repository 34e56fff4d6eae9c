/* SPDX-License-Identifier: Apache-2.0
 *
 * Functions along one dim: sorting and selection, running sums and their like. A value of rank 0 is one line of one element. */
#include "ops/families.h"
#include "trace/reduction.h"

#include <sambaflow/elementwise.h>
#include <sambaflow/reduce.h>
#include <sambaflow/shape.h>
#include <sambaflow/sort.h>

/* A checked value with at least one dim, and the dim. */
static bool enter(const char *what, samba_value a, int dim, samba_graph **graph, samba_value *line, int *at)
{
    if (!samba_trace_enter(what, 1, &a, graph))
        return false;
    int rank = samba_value_rank(a);
    if (!samba_trace_dim(*graph, what, rank, dim, at))
        return false;
    *line = rank > 0 ? a : samba_reshape(a, 1, (int64_t[]){1});
    return true;
}

/* Back to no dims where there were none. */
static samba_value leave(samba_value a, samba_value of, samba_ref result)
{
    return samba_trace_value(a.graph, samba_value_rank(of) > 0 ? result : samba_emit_reshape(a.graph, result, 0, NULL));
}

/* ---- sorting ---- */

static samba_ref order(samba_graph *graph, samba_op op, samba_ref a, int dim, int64_t count, bool descending)
{
    samba_attrs attrs = {.sort = {.dim = dim, .count = count, .descending = descending}};
    return samba_emit(graph, op, 1, &a, &attrs);
}

samba_value samba_sort(samba_value a, int dim, bool descending, samba_value *indices)
{
    if (!indices)
        return samba_trace_no_result("sort", a, "the indices");
    samba_graph *graph;
    samba_value line;
    int at;
    *indices = (samba_value){0};
    if (!enter("sort", a, dim, &graph, &line, &at))
        return *indices = samba_trace_none(graph);
    int64_t size = samba_value_size(line, at);
    *indices = leave(line, a, order(graph, SAMBA_OP_argsort, line.index, at, size, descending));
    return leave(line, a, order(graph, SAMBA_OP_sort, line.index, at, size, descending));
}

samba_value samba_argsort(samba_value a, int dim, bool descending)
{
    samba_graph *graph;
    samba_value line;
    int at;
    if (!enter("argsort", a, dim, &graph, &line, &at))
        return samba_trace_none(graph);
    return leave(line, a, order(graph, SAMBA_OP_argsort, line.index, at, samba_value_size(line, at), descending));
}

samba_value samba_msort(samba_value a)
{
    samba_value indices;
    return samba_sort(a, 0, false, &indices);
}

samba_value samba_topk(samba_value a, int64_t k, int dim, bool largest, samba_value *indices)
{
    if (!indices)
        return samba_trace_no_result("topk", a, "the indices");
    samba_graph *graph;
    samba_value line;
    int at;
    *indices = (samba_value){0};
    if (!enter("topk", a, dim, &graph, &line, &at))
        return *indices = samba_trace_none(graph);
    int64_t size = samba_value_size(line, at);
    if (k < 0 || k > size)
        return *indices =
                   samba_trace_fail(graph, SAMBA_ERROR_ARGUMENT, "topk", "k must be 0 to %lld, the size of dim %d, given %lld",
                                    (long long)size, at, (long long)k);
    *indices = samba_trace_value(graph, order(graph, SAMBA_OP_argsort, line.index, at, k, largest));
    samba_value values = samba_trace_value(graph, order(graph, SAMBA_OP_sort, line.index, at, k, largest));
    if (samba_value_rank(a) == 0 && k == 1) {
        *indices = leave(line, a, indices->index);
        values = leave(line, a, values.index);
    }
    return values;
}

/* The element at `index` of the sorted line, and where it stood. */
static samba_value chosen(samba_graph *graph, samba_value a, samba_value line, int dim, int64_t index, bool keepdim,
                          samba_value *indices)
{
    int64_t count = index + 1;
    samba_value found = samba_trace_value(graph, order(graph, SAMBA_OP_argsort, line.index, dim, count, false));
    samba_value values = samba_trace_value(graph, order(graph, SAMBA_OP_sort, line.index, dim, count, false));
    samba_reduced_dims to;
    if (!samba_reduction_enter("kthvalue", a, 1, &dim, keepdim, &graph, &to))
        return samba_trace_none(graph);
    *indices = samba_reduction_leave(graph, &to, samba_slice(found, dim, index, count, 1).index);
    return samba_reduction_leave(graph, &to, samba_slice(values, dim, index, count, 1).index);
}

samba_value samba_kthvalue(samba_value a, int64_t k, int dim, bool keepdim, samba_value *indices)
{
    if (!indices)
        return samba_trace_no_result("kthvalue", a, "the indices");
    samba_graph *graph;
    samba_value line;
    int at;
    *indices = (samba_value){0};
    if (!enter("kthvalue", a, dim, &graph, &line, &at))
        return *indices = samba_trace_none(graph);
    int64_t size = samba_value_size(line, at);
    if (k < 1 || k > size)
        return *indices =
                   samba_trace_fail(graph, SAMBA_ERROR_ARGUMENT, "kthvalue",
                                    "k must be 1 to %lld, the size of dim %d, given %lld", (long long)size, at, (long long)k);
    return chosen(graph, a, line, at, k - 1, keepdim, indices);
}

samba_value samba_median(samba_value a, int dim, bool keepdim, samba_value *indices)
{
    if (!indices)
        return samba_trace_no_result("median", a, "the indices");
    samba_graph *graph;
    samba_value line;
    int at;
    *indices = (samba_value){0};
    if (!enter("median", a, dim, &graph, &line, &at))
        return *indices = samba_trace_none(graph);
    int64_t size = samba_value_size(line, at);
    if (size == 0 || samba_value_dtype(a) == SAMBA_BOOL)
        return *indices = samba_trace_value(
                   graph, size == 0 ? samba_graph_fail_at(graph, SAMBA_ERROR_SHAPE, "median",
                                                          "dim %d has size 0: no element is in the middle", at)
                                    : samba_graph_fail_at(graph, SAMBA_ERROR_DTYPE, "median",
                                                          "expected integers or floating-point, given bool; cast it first"));
    if (!samba_dtype_is_floating_point(samba_value_dtype(a)) || samba_value_rank(a) == 0)
        return chosen(graph, a, line, at, (size - 1) / 2, keepdim, indices);
    samba_reduced_dims to; /* NaN is greatest, so where there is one it is the maximum, and the index of that is wanted */
    samba_value first, middle, greatest = samba_max(samba_detach(a), at, true, &first);
    chosen(graph, a, line, at, (size - 1) / 2, true, &middle);
    samba_value kept = samba_where(samba_ne(greatest, greatest), first, middle);
    if (!samba_reduction_enter("median", a, 1, &dim, keepdim, &graph, &to))
        return *indices = samba_trace_none(graph);
    *indices = samba_reduction_leave(graph, &to, kept.index);
    return samba_reduction_leave(graph, &to, samba_trace_look_up(graph, a.index, kept.index, at));
}

/* The median, of which indices that hold it share the gradient: it less the mean of what they are off by, which is 0. An infinity
 * or NaN is off by itself, from 0. */
samba_value samba_median_of_all(samba_value a)
{
    samba_value index, line = samba_reshape(a, 1, (int64_t[]){-1}), value = samba_median(line, 0, false, &index);
    samba_dtype dtype = samba_value_dtype(a), in = samba_compute_dtype(dtype);
    if (value.index == SAMBA_NONE || !samba_dtype_is_floating_point(dtype))
        return value;
    samba_value x = samba_cast(line, in), found = samba_cast(samba_detach(value), in),
                zero = samba_constant(a.graph, 0, in, 0, NULL);
    samba_value from = samba_where(samba_isfinite(found), found, zero);
    samba_value same = samba_where(samba_isnan(found), samba_isnan(x), samba_eq(x, found));
    samba_value off = samba_sum(samba_where(same, samba_sub(from, x), zero), 0, NULL, false);
    return samba_cast(samba_sub(from, samba_div(off, samba_sum(samba_cast(same, in), 0, NULL, false))), dtype);
}

/* ---- scans ---- */

static samba_ref scan(samba_graph *graph, samba_op op, samba_ref a, int dim)
{
    samba_attrs attrs = {.scan = {.dim = dim}};
    return samba_emit(graph, op, 1, &a, &attrs);
}

static samba_value running(samba_op op, samba_value a, int dim)
{
    samba_graph *graph;
    samba_value line;
    int at;
    if (!enter(samba_op_table[op].name, a, dim, &graph, &line, &at))
        return samba_trace_none(graph);
    if (op != SAMBA_OP_logcumsumexp && !samba_dtype_is_floating_point(samba_value_dtype(a)))
        line = samba_cast(line, SAMBA_INT64);
    return leave(line, a, scan(graph, op, line.index, at));
}

samba_value samba_cumsum(samba_value a, int dim) { return running(SAMBA_OP_cumsum, a, dim); }
samba_value samba_cumprod(samba_value a, int dim) { return running(SAMBA_OP_cumprod, a, dim); }
samba_value samba_logcumsumexp(samba_value a, int dim) { return running(SAMBA_OP_logcumsumexp, a, dim); }

static samba_value running_extremum(samba_op op, samba_op index, samba_value a, int dim, samba_value *indices)
{
    samba_graph *graph;
    samba_value line;
    int at;
    *indices = (samba_value){0};
    if (!enter(samba_op_table[op].name, a, dim, &graph, &line, &at))
        return *indices = samba_trace_none(graph);
    *indices = leave(line, a, scan(graph, index, line.index, at));
    return leave(line, a, scan(graph, op, line.index, at));
}

samba_value samba_cummax(samba_value a, int dim, samba_value *indices)
{
    if (!indices)
        return samba_trace_no_result("cummax", a, "the indices");
    return running_extremum(SAMBA_OP_cummax, SAMBA_OP_cummax_index, a, dim, indices);
}

samba_value samba_cummin(samba_value a, int dim, samba_value *indices)
{
    if (!indices)
        return samba_trace_no_result("cummin", a, "the indices");
    return running_extremum(SAMBA_OP_cummin, SAMBA_OP_cummin_index, a, dim, indices);
}
