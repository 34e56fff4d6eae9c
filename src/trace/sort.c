/* SPDX-License-Identifier: Apache-2.0
 *
 * Functions along one dim: sorting and selection, running sums and their like. A value of rank 0 is one line of one element. */
#include "ops/families.h"
#include "trace/reduction.h"

#include <sambaflow/elementwise.h>
#include <sambaflow/reduce.h>
#include <sambaflow/shape.h>
#include <sambaflow/sort.h>

typedef struct lines { /* of a checked value: with at least one dim, and the dim */
    samba_graph *graph;
    samba_value a, line; /* as given; with the dim */
    int at;
} lines;

static bool enter(lines *l, const char *what, samba_value a, int dim)
{
    *l = (lines){.a = a, .line = a};
    if (!samba_trace_enter(what, 1, &a, &l->graph) || !samba_trace_dim(l->graph, what, samba_value_rank(a), dim, &l->at))
        return false;
    if (samba_value_rank(a) == 0)
        l->line = samba_reshape(a, 1, (int64_t[]){1});
    return true;
}

/* For a function whose second result goes to `indices`, which after an error are what the function returns. */
static bool enter_two(lines *l, const char *what, samba_value a, int dim, samba_value *indices, samba_value *result)
{
    if (!indices) {
        *result = samba_trace_no_result(what, a, "the indices");
        return false;
    }
    bool usable = enter(l, what, a, dim);
    *indices = *result = usable ? (samba_value){0} : samba_trace_none(l->graph);
    return usable;
}

/* Back to no dims where there were none. */
static samba_value leave(const lines *l, samba_ref result)
{
    return samba_trace_value(l->graph, samba_value_rank(l->a) > 0 ? result : samba_emit_reshape(l->graph, result, 0, NULL));
}

/* ---- sorting ---- */

/* One element alone is in order. */
static samba_ref ordered(const lines *l, samba_op op, const samba_attrs *attrs)
{
    samba_node node = *samba_node_at(l->graph, l->line.index);
    if (node.shape[l->at] != 1 || attrs->sort.count != 1)
        return samba_emit(l->graph, op, 1, &l->line.index, attrs);
    if (op == SAMBA_OP_sort)
        return l->line.index;
    return samba_emit_expand(l->graph, samba_emit_constant(l->graph, 0, SAMBA_INT64), node.rank, node.shape);
}

static samba_ref order(const lines *l, samba_op op, int64_t count, bool descending)
{
    const samba_attrs attrs = {.sort = {.dim = l->at, .count = count, .descending = descending}};
    return ordered(l, op, &attrs);
}

samba_value samba_sort(samba_value a, int dim, bool descending, samba_value *indices)
{
    lines l;
    samba_value result;
    if (!enter_two(&l, "sort", a, dim, indices, &result))
        return result;
    int64_t size = samba_value_size(l.line, l.at);
    *indices = leave(&l, order(&l, SAMBA_OP_argsort, size, descending));
    return leave(&l, order(&l, SAMBA_OP_sort, size, descending));
}

samba_value samba_argsort(samba_value a, int dim, bool descending)
{
    lines l;
    if (!enter(&l, "argsort", a, dim))
        return samba_trace_none(l.graph);
    return leave(&l, order(&l, SAMBA_OP_argsort, samba_value_size(l.line, l.at), descending));
}

samba_value samba_msort(samba_value a)
{
    samba_value indices;
    return samba_sort(a, 0, false, &indices);
}

samba_value samba_topk(samba_value a, int64_t k, int dim, bool largest, samba_value *indices)
{
    lines l;
    samba_value result;
    if (!enter_two(&l, "topk", a, dim, indices, &result))
        return result;
    int64_t size = samba_value_size(l.line, l.at);
    if (k < 0 || k > size)
        return *indices =
                   samba_trace_fail(l.graph, SAMBA_ERROR_ARGUMENT, "topk", "k must be 0 to %lld, the size of dim %d, given %lld",
                                    (long long)size, l.at, (long long)k);
    *indices = samba_trace_value(l.graph, order(&l, SAMBA_OP_argsort, k, largest));
    samba_value values = samba_trace_value(l.graph, order(&l, SAMBA_OP_sort, k, largest));
    if (samba_value_rank(a) == 0 && k == 1) {
        *indices = leave(&l, indices->index);
        values = leave(&l, values.index);
    }
    return values;
}

/* The element at `index` (or SAMBA_SORT_MIDDLE) of the sorted line, or its first NaN where `nan` says so, and where it stood. */
static samba_value chosen(const lines *l, int64_t index, bool nan, bool keepdim, samba_value *indices)
{
    const samba_attrs attrs = {.sort = {.dim = l->at, .first = index, .count = 1, .nan = nan}};
    samba_ref found = ordered(l, SAMBA_OP_argsort, &attrs);
    samba_ref value = ordered(l, SAMBA_OP_sort, &attrs);
    samba_graph *graph;
    samba_reduced_dims to;
    if (!samba_reduction_enter("kthvalue", l->a, 1, &l->at, keepdim, &graph, &to))
        return samba_trace_none(graph);
    *indices = samba_reduction_leave(graph, &to, found);
    return samba_reduction_leave(graph, &to, value);
}

samba_value samba_kthvalue(samba_value a, int64_t k, int dim, bool keepdim, samba_value *indices)
{
    lines l;
    samba_value result;
    if (!enter_two(&l, "kthvalue", a, dim, indices, &result))
        return result;
    int64_t size = samba_value_size(l.line, l.at);
    if (k < 1 || k > size)
        return *indices =
                   samba_trace_fail(l.graph, SAMBA_ERROR_ARGUMENT, "kthvalue",
                                    "k must be 1 to %lld, the size of dim %d, given %lld", (long long)size, l.at, (long long)k);
    return chosen(&l, k - 1, false, keepdim, indices);
}

static samba_value middle_of(const char *what, samba_value a, int dim, bool numbers, bool keepdim, samba_value *indices)
{
    lines l;
    samba_value result;
    if (!enter_two(&l, what, a, dim, indices, &result))
        return result;
    samba_graph *graph = l.graph;
    int64_t size = samba_value_size(l.line, l.at);
    if (size == 0 || samba_value_dtype(a) == SAMBA_BOOL)
        return *indices = samba_trace_value(
                   graph, size == 0 ? samba_graph_fail_at(graph, SAMBA_ERROR_SHAPE, what,
                                                          "dim %d has size 0: no element is in the middle", l.at)
                                    : samba_graph_fail_at(graph, SAMBA_ERROR_DTYPE, what,
                                                          "expected integers or floating-point, given bool; cast it first"));
    const bool nan = samba_dtype_is_floating_point(samba_value_dtype(a)); /* no integer is NaN */
    return chosen(&l, numbers && nan ? SAMBA_SORT_MIDDLE : (size - 1) / 2, nan && !numbers, keepdim, indices);
}

samba_value samba_median(samba_value a, int dim, bool keepdim, samba_value *indices)
{
    return middle_of("median", a, dim, false, keepdim, indices);
}

samba_value samba_nanmedian(samba_value a, int dim, bool keepdim, samba_value *indices)
{
    return middle_of("nanmedian", a, dim, true, keepdim, indices);
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
    samba_value equal = samba_eq(x, found), are_nan = samba_isnan(x), same = samba_where(samba_isnan(found), are_nan, equal);
    samba_value off = samba_sum(samba_where(same, samba_sub(from, x), zero), 0, NULL, false);
    return samba_cast(samba_sub(from, samba_div(off, samba_sum(samba_cast(same, in), 0, NULL, false))), dtype);
}

/* ---- scans ---- */

static samba_value scan(const lines *l, samba_op op)
{
    samba_attrs attrs = {.scan = {.dim = l->at}};
    return leave(l, samba_emit(l->graph, op, 1, &l->line.index, &attrs));
}

static samba_value running(samba_op op, samba_value a, int dim)
{
    lines l;
    if (!enter(&l, samba_op_table[op].name, a, dim))
        return samba_trace_none(l.graph);
    if (op != SAMBA_OP_logcumsumexp && !samba_dtype_is_floating_point(samba_value_dtype(a)))
        l.line = samba_cast(l.line, SAMBA_INT64);
    return scan(&l, op);
}

samba_value samba_cumsum(samba_value a, int dim) { return running(SAMBA_OP_cumsum, a, dim); }
samba_value samba_cumprod(samba_value a, int dim) { return running(SAMBA_OP_cumprod, a, dim); }
samba_value samba_logcumsumexp(samba_value a, int dim) { return running(SAMBA_OP_logcumsumexp, a, dim); }

static samba_value running_extremum(samba_op op, samba_op index, samba_value a, int dim, samba_value *indices)
{
    lines l;
    samba_value result;
    if (!enter_two(&l, samba_op_table[op].name, a, dim, indices, &result))
        return result;
    *indices = scan(&l, index);
    return scan(&l, op);
}

samba_value samba_cummax(samba_value a, int dim, samba_value *indices)
{
    return running_extremum(SAMBA_OP_cummax, SAMBA_OP_cummax_index, a, dim, indices);
}

samba_value samba_cummin(samba_value a, int dim, samba_value *indices)
{
    return running_extremum(SAMBA_OP_cummin, SAMBA_OP_cummin_index, a, dim, indices);
}
