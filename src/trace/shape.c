/* SPDX-License-Identifier: Apache-2.0
 *
 * Functions that move elements without computing. PyTorch's conveniences end here: dims counted from the end, one size of -1 and
 * Python's slice bounds become the plain numbers that operators of the graph take. */
#include "trace/trace.h"

#include <sambaflow/shape.h>
#include <string.h>

static bool check_shape(samba_graph *graph, const char *what, int rank, const int64_t *shape)
{
    if (rank >= 0 && rank <= SAMBA_MAX_RANK && (rank == 0 || shape))
        return true;
    samba_graph_fail_at(graph, SAMBA_ERROR_ARGUMENT, what, "expected a shape of 0 to %d sizes, given %s%d sizes", SAMBA_MAX_RANK,
                        shape ? "" : "NULL for ", rank);
    return false;
}

samba_value samba_reshape(samba_value a, int rank, const int64_t *shape)
{
    samba_graph *graph;
    if (!samba_trace_enter("reshape", 1, &a, &graph) || !check_shape(graph, "reshape", rank, shape))
        return samba_trace_value(graph, SAMBA_NONE);
    samba_node node = samba_trace_node(a);
    int64_t sizes[SAMBA_MAX_RANK], numel = 1, known = 1;
    int inferred = -1, open = 0;
    bool fits = samba_shape_numel(node.rank, node.shape, &numel);
    for (int d = 0; d < rank; d++) {
        sizes[d] = shape[d];
        if (shape[d] == -1) {
            inferred = d;
            open++;
        } else {
            fits = fits && samba_mul_checked(known, shape[d], &known);
        }
    }
    if (open == 1 && fits && known > 0 && numel % known == 0)
        sizes[inferred] = numel / known;
    else if (open > 0 || !fits || known != numel) {
        char from[SAMBA_SHAPE_TEXT], to[SAMBA_SHAPE_TEXT];
        return samba_trace_value(
            graph,
            samba_graph_fail_at(graph, SAMBA_ERROR_SHAPE, "reshape",
                                "%s has %lld elements and cannot become %s; at most one size may be -1, and it must be whole",
                                samba_shape_format(node.rank, node.shape, from, sizeof from), (long long)numel,
                                samba_shape_format(rank, shape, to, sizeof to)));
    }
    return samba_trace_value(graph, samba_emit_reshape(graph, a.index, rank, sizes));
}

samba_value samba_permute(samba_value a, const int *dims)
{
    samba_graph *graph;
    if (!samba_trace_enter("permute", 1, &a, &graph))
        return samba_trace_value(graph, SAMBA_NONE);
    int rank = samba_node_at(graph, a.index)->rank;
    bool taken[SAMBA_MAX_RANK] = {false};
    int64_t order[SAMBA_MAX_RANK];
    for (int i = 0; i < rank; i++) {
        int dim;
        if (!dims)
            return samba_trace_value(
                graph, samba_graph_fail_at(graph, SAMBA_ERROR_ARGUMENT, "permute", "expected %d dims, given NULL", rank));
        if (!samba_trace_dim(graph, "permute", rank, dims[i], &dim))
            return samba_trace_value(graph, SAMBA_NONE);
        if (taken[dim])
            return samba_trace_value(graph,
                                     samba_graph_fail_at(graph, SAMBA_ERROR_ARGUMENT, "permute",
                                                         "dim %d appears twice; expected each of the %d dims once", dim, rank));
        taken[dim] = true;
        order[i] = dim;
    }
    return samba_trace_value(graph, samba_emit_permute(graph, a.index, order));
}

samba_value samba_transpose(samba_value a, int dim0, int dim1)
{
    samba_graph *graph;
    int first, second;
    if (!samba_trace_enter("transpose", 1, &a, &graph))
        return samba_trace_value(graph, SAMBA_NONE);
    int rank = samba_node_at(graph, a.index)->rank;
    if (!samba_trace_dim(graph, "transpose", rank, dim0, &first) || !samba_trace_dim(graph, "transpose", rank, dim1, &second))
        return samba_trace_value(graph, SAMBA_NONE);
    return samba_trace_value(graph, rank == 0 ? a.index : samba_emit_transpose(graph, a.index, first, second));
}

samba_value samba_flatten(samba_value a, int start_dim, int end_dim)
{
    samba_graph *graph;
    int first, last;
    if (!samba_trace_enter("flatten", 1, &a, &graph))
        return samba_trace_value(graph, SAMBA_NONE);
    samba_node node = samba_trace_node(a);
    if (!samba_trace_dim(graph, "flatten", node.rank, start_dim, &first) ||
        !samba_trace_dim(graph, "flatten", node.rank, end_dim, &last))
        return samba_trace_value(graph, SAMBA_NONE);
    if (first > last)
        return samba_trace_value(graph, samba_graph_fail_at(graph, SAMBA_ERROR_ARGUMENT, "flatten",
                                                            "start_dim %d must not come after end_dim %d", start_dim, end_dim));
    int64_t shape[SAMBA_MAX_RANK], joined = 1;
    int rank = 0;
    for (int d = 0; d < first; d++)
        shape[rank++] = node.shape[d];
    for (int d = first; d <= last && d < node.rank; d++)
        joined *= node.shape[d];
    shape[rank++] = joined;
    for (int d = last + 1; d < node.rank; d++)
        shape[rank++] = node.shape[d];
    return samba_trace_value(graph, samba_emit_reshape(graph, a.index, rank, shape));
}

samba_value samba_expand(samba_value a, int rank, const int64_t *shape)
{
    samba_graph *graph;
    if (!samba_trace_enter("expand", 1, &a, &graph) || !check_shape(graph, "expand", rank, shape))
        return samba_trace_value(graph, SAMBA_NONE);
    const samba_node *node = samba_node_at(graph, a.index);
    int64_t sizes[SAMBA_MAX_RANK];
    for (int d = 0; d < rank; d++) {
        int old = d - (rank - node->rank);
        sizes[d] =
            shape[d] == -1 && old >= 0 && old < node->rank ? node->shape[old] : shape[d]; /* other -1s are refused by inference */
    }
    return samba_trace_value(graph, samba_emit_expand(graph, a.index, rank, sizes));
}

/* ---- parts and wholes ---- */

/* One dim cut to [start, stop) by step; 0 <= start <= stop <= size. */
static samba_ref slice_dim(samba_graph *graph, samba_ref a, int dim, int64_t start, int64_t stop, int64_t step)
{
    samba_node node = *samba_node_at(graph, a);
    if (start == 0 && stop == node.shape[dim] && step == 1)
        return a;
    samba_attrs attrs;
    memset(&attrs, 0, sizeof attrs);
    attrs.slice.start.count = attrs.slice.stop.count = attrs.slice.step.count = node.rank;
    for (int d = 0; d < node.rank; d++) {
        attrs.slice.start.at[d] = d == dim ? start : 0;
        attrs.slice.stop.at[d] = d == dim ? stop : node.shape[d];
        attrs.slice.step.at[d] = d == dim ? step : 1;
    }
    return samba_emit(graph, SAMBA_OP_slice, 1, &a, &attrs);
}

/* A dim to cut; a value of rank 0 has none. */
static bool cut_dim(samba_graph *graph, const char *what, int rank, int dim, int *at)
{
    if (rank > 0)
        return samba_trace_dim(graph, what, rank, dim, at);
    samba_graph_fail_at(graph, SAMBA_ERROR_SHAPE, what, "a value of rank 0 has no dims");
    return false;
}

/* Python's reading of a slice bound. */
static int64_t clamp_bound(int64_t bound, int64_t size)
{
    if (bound < 0)
        bound = bound < -size ? 0 : bound + size;
    return bound > size ? size : bound;
}

samba_value samba_slice(samba_value a, int dim, int64_t start, int64_t stop, int64_t step)
{
    samba_graph *graph;
    int at;
    if (!samba_trace_enter("slice", 1, &a, &graph))
        return samba_trace_value(graph, SAMBA_NONE);
    samba_node node = samba_trace_node(a);
    if (!cut_dim(graph, "slice", node.rank, dim, &at))
        return samba_trace_value(graph, SAMBA_NONE);
    if (step < 1)
        return samba_trace_value(graph, samba_graph_fail_at(graph, SAMBA_ERROR_ARGUMENT, "slice",
                                                            "step must be 1 or more, given %lld", (long long)step));
    start = clamp_bound(start, node.shape[at]);
    stop = clamp_bound(stop, node.shape[at]);
    return samba_trace_value(graph, slice_dim(graph, a.index, at, start, stop < start ? start : stop, step));
}

samba_value samba_concat(int count, const samba_value *values, int dim)
{
    samba_graph *graph = NULL;
    int at;
    if (count < 1 || count > SAMBA_MAX_ARITY || !values) {
        graph = count > 0 && values ? values[0].graph : NULL;
        if (graph)
            samba_graph_fail_at(graph, SAMBA_ERROR_ARGUMENT, "concat", "expected 1 to %d values, given %d", SAMBA_MAX_ARITY,
                                count);
        return samba_trace_value(graph, SAMBA_NONE);
    }
    if (!samba_trace_enter("concat", count, values, &graph))
        return samba_trace_value(graph, SAMBA_NONE);
    if (!cut_dim(graph, "concat", samba_node_at(graph, values[0].index)->rank, dim, &at))
        return samba_trace_value(graph, SAMBA_NONE);
    samba_dtype dtype = samba_value_dtype(values[0]);
    for (int i = 1; i < count; i++)
        dtype = samba_promote(dtype, SAMBA_DIMENSIONED, samba_value_dtype(values[i]), SAMBA_DIMENSIONED);
    samba_ref inputs[SAMBA_MAX_ARITY];
    for (int i = 0; i < count; i++)
        inputs[i] = samba_emit_cast(graph, values[i].index, dtype);
    samba_attrs attrs;
    memset(&attrs, 0, sizeof attrs);
    attrs.axis.dim = at;
    return samba_trace_value(graph, count == 1 ? inputs[0] : samba_emit(graph, SAMBA_OP_concat, count, inputs, &attrs));
}

void samba_split(samba_value a, int64_t split_size, int dim, int count, samba_value *values)
{
    samba_graph *graph;
    int at;
    bool usable = samba_trace_enter("split", 1, &a, &graph);
    for (int i = 0; i < count && values; i++)
        values[i] = samba_trace_value(graph, SAMBA_NONE);
    if (!usable)
        return;
    samba_node node = samba_trace_node(a);
    if (!cut_dim(graph, "split", node.rank, dim, &at))
        return;
    int64_t size = node.shape[at], chunks = split_size > 0 ? size / split_size + (size % split_size != 0) : 0;
    chunks = split_size > 0 && size == 0 ? 1 : chunks; /* one empty chunk */
    if (split_size < 1 || chunks != count || !values) {
        samba_graph_fail_at(graph, SAMBA_ERROR_ARGUMENT, "split",
                            "dim %d of size %lld in chunks of %lld makes %lld values; room for %d was given%s", at,
                            (long long)size, (long long)split_size, (long long)chunks, count,
                            split_size < 1 ? "; chunks must be 1 or larger" : "");
        return;
    }
    for (int i = 0; i < count; i++) {
        int64_t start = i * split_size, stop = i == count - 1 ? size : start + split_size;
        values[i].index = slice_dim(graph, a.index, at, start, stop, 1);
        if (values[i].index == SAMBA_NONE)
            return;
    }
}
