/* SPDX-License-Identifier: Apache-2.0
 *
 * Parts of values, and several joined. A part is a slice, a view;
 * what is joined is one concat, into which its producers write where they can. */
#include "trace/shape.h"

#include <sambaflow/shape.h>

samba_ref samba_trace_slice(samba_graph *graph, samba_ref a, int dim, int64_t start, int64_t stop, int64_t step)
{
    if (a == SAMBA_NONE)
        return a;
    samba_node node = *samba_node_at(graph, a);
    if (start == 0 && stop == node.shape[dim] && step == 1)
        return a;
    samba_attrs attrs = {.slice = {.start.count = node.rank, .stop.count = node.rank, .step.count = node.rank}};
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
    return samba_graph_refuse(graph, SAMBA_ERROR_SHAPE, what, "a value of rank 0 has no dims");
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
        return samba_trace_none(graph);
    samba_node node = samba_trace_node(a);
    if (!cut_dim(graph, "slice", node.rank, dim, &at))
        return samba_trace_value(graph, SAMBA_NONE);
    if (step < 1)
        return samba_trace_fail(graph, SAMBA_ERROR_ARGUMENT, "slice", "step must be 1 or more, given %lld", (long long)step);
    start = clamp_bound(start, node.shape[at]);
    stop = clamp_bound(stop, node.shape[at]);
    return samba_trace_value(graph, samba_trace_slice(graph, a.index, at, start, stop < start ? start : stop, step));
}

samba_value samba_narrow(samba_value a, int dim, int64_t start, int64_t length)
{
    samba_graph *graph;
    int at;
    if (!samba_trace_enter("narrow", 1, &a, &graph) || !cut_dim(graph, "narrow", samba_node_at(graph, a.index)->rank, dim, &at))
        return samba_trace_none(graph);
    int64_t size = samba_node_at(graph, a.index)->shape[at], first = start < 0 ? start + size : start;
    if (first < 0 || first > size || length < 0 || length > size - first)
        return samba_trace_fail(graph, SAMBA_ERROR_ARGUMENT, "narrow",
                                "%lld elements from %lld do not lie in dim %d of size %lld", (long long)length, (long long)start,
                                at, (long long)size);
    return samba_trace_value(graph, samba_trace_slice(graph, a.index, at, first, first + length, 1));
}

samba_value samba_select(samba_value a, int dim, int64_t index)
{
    samba_graph *graph;
    int at;
    if (!samba_trace_enter("select", 1, &a, &graph) || !cut_dim(graph, "select", samba_node_at(graph, a.index)->rank, dim, &at))
        return samba_trace_none(graph);
    int64_t size = samba_node_at(graph, a.index)->shape[at], position = index < 0 ? index + size : index;
    if (position < 0 || position >= size)
        return samba_trace_fail(graph, SAMBA_ERROR_INDEX, "select", "index %lld of dim %d, of size %lld: expected %lld to %lld",
                                (long long)index, at, (long long)size, (long long)-size, (long long)size - 1);
    return samba_squeeze(samba_trace_value(graph, samba_trace_slice(graph, a.index, at, position, position + 1, 1)), 1, &at);
}

/* ---- joined ---- */

static samba_graph *enter_several(const char *what, int count, const samba_value *values)
{
    samba_graph *graph = count > 0 && values ? values[0].graph : NULL;
    if (count < 1 || count > SAMBA_MAX_ARITY || !values) {
        if (graph)
            samba_graph_fail_at(graph, SAMBA_ERROR_ARGUMENT, what, "expected 1 to %d values, given %d", SAMBA_MAX_ARITY, count);
        return NULL;
    }
    return samba_trace_enter(what, count, values, &graph) ? graph : NULL;
}

static samba_value nothing(int count, const samba_value *values)
{
    return samba_trace_none(count > 0 && values ? values[0].graph : NULL);
}

/* torch.cat takes a value of shape (0) beside any others. */
static bool is_nothing(const samba_graph *graph, samba_value value)
{
    const samba_node *node = samba_node_at(graph, value.index);
    return node->rank == 1 && node->shape[0] == 0;
}

samba_value samba_concat(int count, const samba_value *values, int dim)
{
    samba_graph *graph = enter_several("concat", count, values);
    int at, used = 0, first = 0;
    if (!graph)
        return nothing(count, values);
    while (first < count - 1 && is_nothing(graph, values[first]))
        first++;
    if (!cut_dim(graph, "concat", samba_node_at(graph, values[first].index)->rank, dim, &at))
        return samba_trace_none(graph);
    samba_dtype dtype = samba_value_dtype(values[0]);
    for (int i = 1; i < count; i++)
        dtype = samba_promote(dtype, SAMBA_DIMENSIONED, samba_value_dtype(values[i]), SAMBA_DIMENSIONED);
    samba_ref inputs[SAMBA_MAX_ARITY];
    bool lines = samba_node_at(graph, values[first].index)->rank == 1;
    for (int i = 0; i < count; i++)
        if (lines || !is_nothing(graph, values[i]))
            inputs[used++] = samba_emit_cast(graph, values[i].index, dtype);
    samba_attrs attrs = {.axis = {.dim = at}};
    return samba_trace_value(graph, used == 1 ? inputs[0] : samba_emit(graph, SAMBA_OP_concat, used, inputs, &attrs));
}

samba_value samba_stack(int count, const samba_value *values, int dim)
{
    samba_graph *graph = enter_several("stack", count, values);
    int at;
    samba_value wide[SAMBA_MAX_ARITY];
    if (!graph)
        return nothing(count, values);
    samba_node first = samba_trace_node(values[0]);
    if (!samba_trace_dim(graph, "stack", first.rank + 1, dim, &at))
        return samba_trace_none(graph);
    for (int i = 0; i < count; i++) {
        const samba_node *node = samba_node_at(graph, values[i].index);
        if (!samba_shape_equal(node->rank, node->shape, first.rank, first.shape))
            return samba_trace_fail(graph, SAMBA_ERROR_SHAPE, "stack", "values must have one shape, given %s and, value %d, %s",
                                    SAMBA_SHAPE_OF(&first), i, SAMBA_SHAPE_OF(node));
        wide[i] = samba_unsqueeze(values[i], at);
    }
    return samba_concat(count, wide, at);
}

/* Each with at least so many dims: torch.atleast_1d, _2d, _3d. */
static samba_value join_at_least(const char *what, int count, const samba_value *values, int rank)
{
    samba_graph *graph = enter_several(what, count, values);
    samba_value wide[SAMBA_MAX_ARITY];
    if (!graph)
        return nothing(count, values);
    SAMBA_SPEAKS(graph, what);
    for (int i = 0; i < count; i++) {
        samba_node node = samba_trace_node(values[i]);
        int64_t shape[3] = {1, 1, 1};
        if (node.rank == 1)
            shape[rank > 1 ? 1 : 0] = node.shape[0]; /* (1, n) and (1, n, 1) */
        for (int d = 0; node.rank == 2 && d < 2; d++)
            shape[d] = node.shape[d];
        wide[i] = node.rank < rank ? samba_reshape(values[i], rank, shape) : values[i];
    }
    /* hstack joins lines along their only dim, all else along the second */
    int dim = rank == 2 ? 0 : rank == 3 ? 2 : samba_value_rank(wide[0]) == 1 ? 0 : 1;
    return samba_concat(count, wide, dim);
}

samba_value samba_hstack(int count, const samba_value *values) { return join_at_least("hstack", count, values, 1); }
samba_value samba_vstack(int count, const samba_value *values) { return join_at_least("vstack", count, values, 2); }
samba_value samba_dstack(int count, const samba_value *values) { return join_at_least("dstack", count, values, 3); }

samba_value samba_block_diag(int count, const samba_value *values)
{
    samba_graph *graph = enter_several("block_diag", count, values);
    if (!graph)
        return nothing(count, values);
    samba_value rows[SAMBA_MAX_ARITY];
    int64_t width = 0, before = 0;
    for (int i = 0; i < count; i++) {
        samba_node node = samba_trace_node(values[i]);
        if (node.rank > 2)
            return samba_trace_fail(graph, SAMBA_ERROR_SHAPE, "block_diag",
                                    "expected values of rank 0 to 2, given rank %d for value %d", node.rank, i);
        rows[i] = samba_reshape(values[i], 2,
                                (int64_t[]){node.rank == 2 ? node.shape[0] : 1, node.rank == 0 ? 1 : node.shape[node.rank - 1]});
        width += samba_value_size(rows[i], 1);
    }
    for (int i = 0; i < count; i++) {
        int64_t size = samba_value_size(rows[i], 1);
        rows[i] = samba_pad(rows[i], 1, (int64_t[]){before, width - before - size}, SAMBA_PAD_CONSTANT, 0);
        before += size;
    }
    return samba_concat(count, rows, 0);
}

void samba_meshgrid(int count, const samba_value *values, bool xy, samba_value *grids)
{
    samba_graph *graph = enter_several("meshgrid", count, values);
    for (int i = 0; i < count && grids; i++)
        grids[i] = nothing(count, values);
    if (!graph || !grids)
        return;
    int64_t shape[SAMBA_MAX_RANK];
    bool fits = count <= SAMBA_MAX_RANK;
    int rank = 0; /* of the last one seen */
    for (int i = 0; i < count && fits; i++) {
        const samba_node *node = samba_node_at(graph, values[i].index);
        rank = node->rank;
        fits = rank <= 1;
        shape[i] = node->rank == 1 ? node->shape[0] : 1;
    }
    if (!fits) {
        samba_graph_fail_at(graph, SAMBA_ERROR_SHAPE, "meshgrid",
                            "expected 1 to %d values of rank 0 or 1, given %d values, one of rank %d", SAMBA_MAX_RANK, count,
                            rank);
        return;
    }
    for (int i = 0; i < count; i++) {
        int64_t thin[SAMBA_MAX_RANK];
        for (int d = 0; d < count; d++)
            thin[d] = d == i ? shape[i] : 1;
        grids[i] = samba_expand(samba_reshape(values[i], count, thin), count, shape);
        if (xy && count > 1)
            grids[i] = samba_transpose(grids[i], 0, 1);
    }
}

/* ---- cut apart ---- */

/* Enters; values are what a failure leaves. */
static bool enter_cut(const char *what, samba_value a, int dim, int count, samba_value *values, samba_graph **graph, int *at)
{
    bool usable = samba_trace_enter(what, 1, &a, graph);
    for (int i = 0; i < count && values; i++)
        values[i] = samba_trace_none(*graph);
    return usable && cut_dim(*graph, what, samba_node_at(*graph, a.index)->rank, dim, at);
}

void samba_split(samba_value a, int64_t split_size, int dim, int count, samba_value *values)
{
    samba_graph *graph;
    int at;
    if (!enter_cut("split", a, dim, count, values, &graph, &at))
        return;
    int64_t size = samba_node_at(graph, a.index)->shape[at],
            chunks = split_size > 0 ? size / split_size + (size % split_size != 0) : 0;
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
        values[i].index = samba_trace_slice(graph, a.index, at, start, stop, 1);
        if (values[i].index == SAMBA_NONE)
            return;
    }
}

static void cut(samba_graph *graph, samba_value a, int at, int count, const int64_t *ends, samba_value *values)
{
    for (int i = 0; i < count && graph->status == SAMBA_OK; i++)
        values[i].index = samba_trace_slice(graph, a.index, at, i ? ends[i - 1] : 0, ends[i], 1);
}

void samba_split_sizes(samba_value a, int count, const int64_t *sizes, int dim, samba_value *values)
{
    samba_graph *graph;
    int at;
    if (!enter_cut("split", a, dim, count, values, &graph, &at))
        return;
    int64_t size = samba_node_at(graph, a.index)->shape[at], end = 0, ends[SAMBA_MAX_ARITY];
    bool fits = count >= 1 && count <= SAMBA_MAX_ARITY && sizes && values;
    for (int i = 0; i < count && fits; i++) {
        fits = sizes[i] >= 0 && sizes[i] <= size - end;
        ends[i] = end += fits ? sizes[i] : 0;
    }
    if (!fits || end != size)
        samba_graph_fail_at(graph, SAMBA_ERROR_ARGUMENT, "split",
                            "expected 1 to %d sizes that sum up to %lld, the size of dim %d, given %d sizes%s", SAMBA_MAX_ARITY,
                            (long long)size, at, count, fits ? " of a smaller sum" : "");
    else
        cut(graph, a, at, count, ends, values);
}

void samba_chunk(samba_value a, int64_t chunks, int dim, int count, samba_value *values)
{
    samba_graph *graph;
    int at;
    if (!enter_cut("chunk", a, dim, count, values, &graph, &at))
        return;
    int64_t size = samba_node_at(graph, a.index)->shape[at];
    int64_t ends[SAMBA_MAX_ARITY] = {0};
    if (chunks < 1)
        samba_graph_fail_at(graph, SAMBA_ERROR_ARGUMENT, "chunk", "expected 1 chunk or more, given %lld", (long long)chunks);
    else if (size > 0 || chunks != count || chunks > SAMBA_MAX_ARITY || !values)
        samba_split(a, size > 0 ? (size - 1) / chunks + 1 : 1, at, count, values);
    else
        cut(graph, a, at, count, ends, values); /* of nothing there are as many as asked for */
}

void samba_tensor_split(samba_value a, int count, int dim, samba_value *values)
{
    samba_graph *graph;
    int at;
    if (!enter_cut("tensor_split", a, dim, count, values, &graph, &at))
        return;
    int64_t size = samba_node_at(graph, a.index)->shape[at], ends[SAMBA_MAX_ARITY];
    if (count < 1 || count > SAMBA_MAX_ARITY || !values) {
        samba_graph_fail_at(graph, SAMBA_ERROR_ARGUMENT, "tensor_split", "expected 1 to %d parts, given %d", SAMBA_MAX_ARITY,
                            count);
        return;
    }
    for (int i = 0; i < count; i++)
        ends[i] = (i + 1) * (size / count) + (i + 1 < size % count ? i + 1 : size % count);
    cut(graph, a, at, count, ends, values);
}

void samba_unbind(samba_value a, int dim, int count, samba_value *values)
{
    samba_graph *graph;
    int at;
    if (!enter_cut("unbind", a, dim, count, values, &graph, &at))
        return;
    int64_t size = samba_node_at(graph, a.index)->shape[at];
    if (count != size || (count > 0 && !values)) {
        samba_graph_fail_at(graph, SAMBA_ERROR_ARGUMENT, "unbind", "dim %d of size %lld makes %lld values; room for %d was given",
                            at, (long long)size, (long long)size, count);
        return;
    }
    for (int i = 0; i < count; i++)
        values[i] = samba_select(a, at, i);
}
