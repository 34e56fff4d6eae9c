/* SPDX-License-Identifier: Apache-2.0
 *
 * Diagonals, triangles, windows. A diagonal is every (columns + 1)-th element of a matrix read as one line, and so a view; a
 * matrix with a given diagonal is the line with zeros between.
 * What no view expresses is looked up by numbers that the program makes as it runs, not by constants. */
#include "trace/index.h"
#include "trace/shape.h"

#include <sambaflow/shape.h>

/* ---- diagonals ---- */

static bool two_dims(samba_graph *graph, const char *what, int rank, int dim1, int dim2, int *first, int *second)
{
    if (!samba_trace_dim(graph, what, rank, dim1, first) || !samba_trace_dim(graph, what, rank, dim2, second))
        return false;
    if (rank >= 2 && *first != *second)
        return true;
    return samba_graph_refuse(graph, SAMBA_ERROR_ARGUMENT, what,
                              "expected two different dims of at least 2, given dims %d and %d of %d", dim1, dim2, rank);
}

samba_value samba_diagonal(samba_value a, int64_t offset, int dim1, int dim2)
{
    samba_graph *graph;
    int first, second;
    if (!samba_trace_enter("diagonal", 1, &a, &graph) ||
        !two_dims(graph, "diagonal", samba_node_at(graph, a.index)->rank, dim1, dim2, &first, &second))
        return samba_trace_none(graph);
    int rank = samba_node_at(graph, a.index)->rank;
    if (first > second) { /* the same elements in the same order, of dims that may be one line */
        int kept = first;
        first = second;
        second = kept;
        offset = offset > -INT64_MAX ? -offset : INT64_MAX;
    }
    a = samba_movedim(a, 2, (int[]){first, second}, (int[]){rank - 2, rank - 1});
    samba_node node = samba_trace_node(a);
    int64_t rows = node.shape[rank - 2], columns = node.shape[rank - 1];
    int64_t row = offset < 0 ? (offset < -rows ? rows : -offset) : 0,
            column = offset > 0 ? (offset > columns ? columns : offset) : 0;
    int64_t length = rows - row < columns - column ? rows - row : columns - column;
    if (second > first + 1) { /* no line: what is not of the square around the diagonal need not be copied */
        a = samba_slice(samba_slice(a, rank - 2, row, row + length, 1), rank - 1, column, column + length, 1);
        rows = columns = length;
        row = column = 0;
    }
    int64_t start = length > 0 ? row * columns + column : 0;
    node.shape[rank - 2] = rows * columns;
    a = samba_reshape(a, rank - 1, node.shape);
    return samba_slice(a, rank - 2, start, length > 0 ? start + (length - 1) * (columns + 1) + 1 : start, columns + 1);
}

samba_value samba_diag_embed(samba_value a, int64_t offset, int dim1, int dim2)
{
    samba_graph *graph;
    int first, second;
    if (!samba_trace_enter("diag_embed", 1, &a, &graph))
        return samba_trace_none(graph);
    samba_node node = samba_trace_node(a);
    if (!two_dims(graph, "diag_embed", node.rank + 1, dim1, dim2, &first, &second))
        return samba_trace_none(graph);
    if (node.rank == 0 || node.rank == SAMBA_MAX_RANK || offset > INT32_MAX || offset < -INT64_C(0x7fffffff))
        return samba_trace_fail(graph, SAMBA_ERROR_SHAPE, "diag_embed",
                                "expected a value of rank 1 to %d and an offset within its matrix, given rank %d and %lld",
                                SAMBA_MAX_RANK - 1, node.rank, (long long)offset);
    int last = node.rank - 1;
    int64_t length = node.shape[last], away = offset < 0 ? -offset : offset, size = length + away,
            start = offset < 0 ? away * size : away;
    samba_attrs attrs = {.pad = {.before.count = node.rank, .after.count = node.rank, .interior.count = node.rank}};
    attrs.pad.before.at[last] = length > 0 ? start : size * size;
    attrs.pad.after.at[last] = length > 0 ? size * size - start - (length - 1) * (size + 1) - 1 : 0;
    attrs.pad.interior.at[last] = size;
    samba_value line = samba_trace_value(graph, samba_emit(graph, SAMBA_OP_pad, 1, &a.index, &attrs));
    node.shape[last] = node.shape[last + 1] = size;
    samba_value matrix = samba_reshape(line, node.rank + 1, node.shape);
    return samba_movedim(matrix, 2, (int[]){last, last + 1}, (int[]){first, second});
}

samba_value samba_diag(samba_value a, int64_t diagonal)
{
    samba_graph *graph;
    if (!samba_trace_enter("diag", 1, &a, &graph))
        return samba_trace_none(graph);
    int rank = samba_node_at(graph, a.index)->rank;
    if (rank != 1 && rank != 2)
        return samba_trace_fail(graph, SAMBA_ERROR_SHAPE, "diag", "expected a value of rank 1 or 2, given rank %d", rank);
    return rank == 1 ? samba_diag_embed(a, diagonal, 0, 1) : samba_diagonal(a, diagonal, 0, 1);
}

/* ---- triangles ---- */

/* 0 .. n-1 along a dim of `rank`. */
static samba_ref numbers(samba_graph *graph, int rank, int dim, int64_t n)
{
    int64_t shape[SAMBA_MAX_RANK];
    for (int d = 0; d < rank; d++)
        shape[d] = d == dim ? n : 1;
    return samba_emit_iota(graph, rank, shape, dim);
}

static samba_value triangle(const char *what, samba_value a, int64_t diagonal, bool lower)
{
    samba_graph *graph;
    if (!samba_trace_enter(what, 1, &a, &graph))
        return samba_trace_none(graph);
    samba_node node = samba_trace_node(a);
    if (node.rank < 2)
        return samba_trace_fail(graph, SAMBA_ERROR_SHAPE, what, "expected a value of rank 2 or more, given rank %d", node.rank);
    samba_ref row = numbers(graph, 2, 0, node.shape[node.rank - 2]), column = numbers(graph, 2, 1, node.shape[node.rank - 1]);
    int64_t farthest = node.shape[node.rank - 2] + node.shape[node.rank - 1];
    diagonal = diagonal > farthest ? farthest : diagonal < -farthest ? -farthest : diagonal;
    samba_ref edge = samba_emit2(graph, SAMBA_OP_add, row, samba_emit_constant(graph, (double)diagonal, SAMBA_INT64));
    samba_ref kept = samba_emit2(graph, lower ? SAMBA_OP_le : SAMBA_OP_ge, column, edge);
    return samba_trace_value(graph, samba_emit3(graph, SAMBA_OP_where, kept, a.index, samba_emit_constant(graph, 0, node.dtype)));
}

samba_value samba_tril(samba_value a, int64_t diagonal) { return triangle("tril", a, diagonal, true); }
samba_value samba_triu(samba_value a, int64_t diagonal) { return triangle("triu", a, diagonal, false); }

/* ---- windows, strides ---- */

samba_value samba_windows(samba_value a, int dim, int64_t size, int64_t step)
{
    samba_graph *graph;
    int at;
    if (!samba_trace_enter("windows", 1, &a, &graph))
        return samba_trace_none(graph);
    if (samba_node_at(graph, a.index)->rank == 0)
        a = samba_reshape(a, 1, (int64_t[]){1});
    samba_node node = samba_trace_node(a);
    if (!samba_trace_dim(graph, "windows", node.rank, dim, &at))
        return samba_trace_none(graph);
    int64_t length = node.shape[at];
    if (size < 0 || size > length || step < 1 || step > INT32_MAX || node.rank == SAMBA_MAX_RANK)
        return samba_trace_fail(graph, SAMBA_ERROR_ARGUMENT, "windows",
                                "expected a size of at most %lld, the size of dim %d, a step of 1 or "
                                "more and at most %d dims, given %lld, %lld and %d",
                                (long long)length, at, SAMBA_MAX_RANK - 1, (long long)size, (long long)step, node.rank);
    int64_t count = (length - size) / step + 1, shape[SAMBA_MAX_RANK];
    int rank = node.rank + 1, order[SAMBA_MAX_RANK];
    for (int d = 0; d < rank; d++) {
        shape[d] = d < at ? node.shape[d] : d > at + 1 ? node.shape[d - 1] : d == at ? count : size;
        order[d] = d <= at ? d : d == rank - 1 ? at + 1 : d + 1;
    }
    if (count * step <= length && size <= step) { /* windows apart: parts of one line */
        shape[at + 1] = step;
        a = samba_slice(samba_reshape(samba_slice(a, at, 0, count * step, 1), rank, shape), at + 1, 0, size, 1);
    } else {
        samba_ref steps = samba_emit_constant(graph, (double)step, SAMBA_INT64);
        samba_ref first = samba_emit2(graph, SAMBA_OP_mul, numbers(graph, 2, 0, count), steps);
        int64_t n = count * size;
        samba_ref line = samba_emit_reshape(graph, samba_emit2(graph, SAMBA_OP_add, first, numbers(graph, 2, 1, size)), 1, &n);
        samba_ref index = samba_trace_along(graph, line, node.rank, node.shape, at);
        a = samba_reshape(samba_trace_value(graph, samba_emit_gather(graph, a.index, index, at, false)), rank, shape);
    }
    return a.index == SAMBA_NONE ? a : samba_permute(a, order);
}

samba_value samba_as_strided(samba_value a, int rank, const int64_t *shape, const int64_t *strides, int64_t start)
{
    samba_graph *graph;
    if (!samba_trace_enter("as_strided", 1, &a, &graph) || !samba_trace_check_shape(graph, "as_strided", rank, shape))
        return samba_trace_none(graph);
    samba_node node = samba_trace_node(a);
    int64_t numel = 0, size = 1, reach = start;
    bool fits = samba_shape_numel(node.rank, node.shape, &numel) && start >= 0 && (rank == 0 || strides);
    for (int d = 0; d < rank && fits; d++) {
        int64_t way;
        fits = shape[d] >= 0 && strides[d] >= 0 && samba_mul_checked(size, shape[d], &size) &&
               (shape[d] == 0 || (samba_mul_checked(shape[d] - 1, strides[d], &way) && samba_add_checked(reach, way, &reach)));
    }
    if (!fits || (size > 0 && reach >= numel))
        return samba_trace_fail(graph, SAMBA_ERROR_ARGUMENT, "as_strided",
                                "expected sizes, strides and a start of 0 or more that stay within "
                                "the %lld elements of the input, given ones that reach element %lld",
                                (long long)numel, (long long)reach);
    samba_ref offset = samba_emit_expand(graph, samba_emit_constant(graph, (double)start, SAMBA_INT64), rank, shape);
    for (int d = 0; d < rank; d++)
        if (shape[d] > 1 && strides[d] != 0) {
            samba_ref stride = samba_emit_constant(graph, (double)strides[d], SAMBA_INT64);
            samba_ref away = samba_emit2(graph, SAMBA_OP_mul, numbers(graph, rank, d, shape[d]), stride);
            offset = samba_emit2(graph, SAMBA_OP_add, offset, away);
        }
    samba_ref all = samba_emit_reshape(graph, a.index, 1, &numel),
              found = samba_emit_gather(graph, all, samba_emit_reshape(graph, offset, 1, &size), 0, false);
    return samba_trace_value(graph, found == SAMBA_NONE ? found : samba_emit_reshape(graph, found, rank, shape));
}

/* ---- constants ---- */

samba_value samba_eye(samba_graph *graph, int64_t rows, int64_t columns, samba_dtype dtype)
{
    if (!samba_trace_check_shape(graph, "eye", 2, (int64_t[]){rows, columns}))
        return samba_trace_none(graph);
    if (rows < 0 || columns < 0 || (int)dtype < 0 || dtype >= SAMBA_DTYPE_COUNT)
        return samba_trace_fail(graph, SAMBA_ERROR_ARGUMENT, "eye",
                                "expected sizes of 0 or more and a dtype, given (%lld, %lld) and dtype %d", (long long)rows,
                                (long long)columns, (int)dtype);
    samba_ref column = numbers(graph, 2, 1, columns), row = numbers(graph, 2, 0, rows);
    return samba_trace_value(graph, samba_emit_cast(graph, samba_emit2(graph, SAMBA_OP_eq, row, column), dtype));
}

/* From both ends, as torch does: the first half counts from the start, the second from the end. */
samba_value samba_linspace(samba_graph *graph, double start, double end, int64_t steps, samba_dtype dtype)
{
    if (!samba_trace_check_shape(graph, "linspace", 1, &steps))
        return samba_trace_none(graph);
    if (steps < 0 || (int)dtype < 0 || dtype >= SAMBA_DTYPE_COUNT || !samba_dtype_is_floating_point(dtype))
        return samba_trace_fail(graph, SAMBA_ERROR_ARGUMENT, "linspace",
                                "expected 0 steps or more and a floating-point dtype, given %lld and dtype %d", (long long)steps,
                                (int)dtype);
    double step = steps > 1 ? (end - start) / (double)(steps - 1) : 0;
    samba_ref i = numbers(graph, 1, 0, steps), x = samba_emit_cast(graph, i, SAMBA_FLOAT64);
    samba_ref from_start = samba_emit_scalar(graph, SAMBA_OP_add, samba_emit_scalar(graph, SAMBA_OP_mul, x, step), start);
    samba_ref left = samba_emit2(graph, SAMBA_OP_sub, samba_emit_constant(graph, (double)(steps - 1), SAMBA_FLOAT64), x);
    samba_ref back = samba_emit_scalar(graph, SAMBA_OP_mul, left, step);
    samba_ref from_end = samba_emit2(graph, SAMBA_OP_sub, samba_emit_constant(graph, end, SAMBA_FLOAT64), back);
    samba_ref early = samba_emit2(graph, SAMBA_OP_lt, i, samba_emit_constant(graph, (double)(steps / 2), SAMBA_INT64));
    return samba_trace_value(
        graph,
        samba_emit_cast(graph, steps == 1 ? from_start : samba_emit3(graph, SAMBA_OP_where, early, from_start, from_end), dtype));
}
