/* SPDX-License-Identifier: Apache-2.0
 *
 * Functions that move elements without computing. PyTorch's conveniences end here: dims counted from the end, one size of -1 and
 * Python's slice bounds become the plain numbers that operators of the graph take. */
#include "trace/shape.h"

#include <sambaflow/shape.h>
#include <stdio.h>
#include <string.h>

/* `known`: the product of the sizes that are not -1, of which there are `open`; -1: too large. */
static samba_value fail_reshape(samba_graph *graph, const samba_node *node, int64_t numel, int rank, const int64_t *shape,
                                int open, int64_t known)
{
    char has[64] = "more than an int64 counts";
    if (known >= 0)
        snprintf(has, sizeof has, "%lld", (long long)known);
    if (open > 1)
        return samba_trace_fail(graph, SAMBA_ERROR_SHAPE, "reshape",
                                "%s has %lld elements, and %s has %d sizes of -1: only one may be", SAMBA_SHAPE_OF(node),
                                (long long)numel, SAMBA_SHAPE(rank, shape), open);
    if (open == 1 && known == 0)
        return samba_trace_fail(graph, SAMBA_ERROR_SHAPE, "reshape",
                                "%s has %lld elements, and in %s a size of 0 leaves the one of -1 open: give all sizes",
                                SAMBA_SHAPE_OF(node), (long long)numel, SAMBA_SHAPE(rank, shape));
    if (open == 1)
        return samba_trace_fail(graph, SAMBA_ERROR_SHAPE, "reshape",
                                "%s has %lld elements, which is not divisible by %s, the other sizes of %s: give sizes whose "
                                "product is %lld, one of which may be -1",
                                SAMBA_SHAPE_OF(node), (long long)numel, has, SAMBA_SHAPE(rank, shape), (long long)numel);
    return samba_trace_fail(graph, SAMBA_ERROR_SHAPE, "reshape",
                            "%s has %lld elements, but %s has %s: give sizes whose product is %lld; one size may be -1, which is "
                            "then computed",
                            SAMBA_SHAPE_OF(node), (long long)numel, SAMBA_SHAPE(rank, shape), has, (long long)numel);
}

samba_value samba_reshape(samba_value a, int rank, const int64_t *shape)
{
    samba_graph *graph;
    if (!samba_trace_enter("reshape", 1, &a, &graph) || !samba_trace_check_shape(graph, "reshape", rank, shape))
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
    else if (open > 0 || !fits || known != numel)
        return fail_reshape(graph, &node, numel, rank, shape, open, fits ? known : -1);
    return samba_trace_value(graph, samba_emit_reshape(graph, a.index, rank, sizes));
}

samba_value samba_permute(samba_value a, const int *dims)
{
    samba_graph *graph;
    if (!samba_trace_enter("permute", 1, &a, &graph))
        return samba_trace_none(graph);
    int rank = samba_node_at(graph, a.index)->rank;
    bool taken[SAMBA_MAX_RANK] = {false};
    int64_t order[SAMBA_MAX_RANK];
    for (int i = 0; i < rank; i++) {
        int dim;
        if (!dims)
            return samba_trace_fail(graph, SAMBA_ERROR_ARGUMENT, "permute", "expected %d dims, given NULL", rank);
        if (!samba_trace_dim(graph, "permute", rank, dims[i], &dim))
            return samba_trace_value(graph, SAMBA_NONE);
        if (taken[dim])
            return samba_trace_fail(graph, SAMBA_ERROR_ARGUMENT, "permute",
                                    "dim %d appears twice; expected each of the %d dims once", dim, rank);
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
        return samba_trace_none(graph);
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
        return samba_trace_none(graph);
    samba_node node = samba_trace_node(a);
    if (!samba_trace_dim(graph, "flatten", node.rank, start_dim, &first) ||
        !samba_trace_dim(graph, "flatten", node.rank, end_dim, &last))
        return samba_trace_value(graph, SAMBA_NONE);
    if (first > last)
        return samba_trace_fail(graph, SAMBA_ERROR_ARGUMENT, "flatten", "start_dim %d must not come after end_dim %d", start_dim,
                                end_dim);
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
    if (!samba_trace_enter("expand", 1, &a, &graph) || !samba_trace_check_shape(graph, "expand", rank, shape))
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

samba_value samba_copy_into(samba_value a, samba_value source)
{
    samba_graph *graph;
    if (!samba_trace_enter("copy", 2, (samba_value[]){a, source}, &graph))
        return samba_trace_none(graph);
    samba_node x = samba_trace_node(a), from = samba_trace_node(source);
    bool fits = from.rank <= x.rank;
    for (int d = 1; fits && d <= from.rank; d++)
        fits = from.shape[from.rank - d] == 1 || from.shape[from.rank - d] == x.shape[x.rank - d];
    if (!fits)
        return samba_trace_fail(graph, SAMBA_ERROR_SHAPE, "copy",
                                "expected a source that broadcasts to the shape written to, %s, given %s", SAMBA_SHAPE_OF(&x),
                                SAMBA_TYPE_OF(&from));
    return samba_trace_value(graph, samba_emit_cast(graph, samba_emit_expand(graph, source.index, x.rank, x.shape), x.dtype));
}

/* ---- dims of size 1 ---- */

samba_value samba_unsqueeze(samba_value a, int dim)
{
    samba_graph *graph;
    int at;
    if (!samba_trace_enter("unsqueeze", 1, &a, &graph))
        return samba_trace_none(graph);
    samba_node node = samba_trace_node(a);
    if (!samba_trace_dim(graph, "unsqueeze", node.rank + 1, dim, &at))
        return samba_trace_none(graph);
    int64_t shape[SAMBA_MAX_RANK + 1];
    for (int d = 0; d <= node.rank; d++)
        shape[d] = d == at ? 1 : node.shape[d - (d > at)];
    return samba_trace_check_shape(graph, "unsqueeze", node.rank + 1, shape) ? samba_reshape(a, node.rank + 1, shape)
                                                                             : samba_trace_none(graph);
}

bool samba_trace_named_dims(samba_graph *graph, const char *what, int rank, int count, const int *dims,
                            bool named[SAMBA_MAX_RANK])
{
    memset(named, 0, SAMBA_MAX_RANK * sizeof *named);
    for (int i = 0; i < count && dims; i++) {
        int dim;
        if (!samba_trace_dim(graph, what, rank, dims[i], &dim))
            return false;
        if (named[dim])
            return samba_graph_refuse(graph, SAMBA_ERROR_ARGUMENT, what, "dim %d appears twice", dim);
        named[dim] = true;
    }
    return true;
}

samba_value samba_squeeze(samba_value a, int count, const int *dims)
{
    samba_graph *graph;
    if (!samba_trace_enter("squeeze", 1, &a, &graph))
        return samba_trace_none(graph);
    samba_node node = samba_trace_node(a);
    bool named[SAMBA_MAX_RANK];
    if (!samba_trace_named_dims(graph, "squeeze", node.rank, count, dims, named))
        return samba_trace_none(graph);
    int64_t shape[SAMBA_MAX_RANK];
    int rank = 0;
    for (int d = 0; d < node.rank; d++)
        if (node.shape[d] != 1 || (dims && !named[d]))
            shape[rank++] = node.shape[d];
    return samba_trace_value(graph, samba_emit_reshape(graph, a.index, rank, shape));
}

samba_value samba_unflatten(samba_value a, int dim, int rank, const int64_t *sizes)
{
    samba_graph *graph;
    int at;
    if (!samba_trace_enter("unflatten", 1, &a, &graph))
        return samba_trace_none(graph);
    samba_node node = samba_trace_node(a);
    int64_t shape[2 * SAMBA_MAX_RANK], known = 1;
    if (!samba_trace_dim(graph, "unflatten", node.rank, dim, &at) || !samba_trace_check_shape(graph, "unflatten", rank, sizes))
        return samba_trace_none(graph);
    int open = -1, count = 0;
    bool fits = rank > 0 && node.rank > 0;
    for (int d = 0; d < at; d++)
        shape[count++] = node.shape[d];
    for (int d = 0; d < rank; d++) {
        fits = fits && (sizes[d] >= 0 || (sizes[d] == -1 && open < 0)) &&
               (sizes[d] == -1 || samba_mul_checked(known, sizes[d], &known));
        open = sizes[d] == -1 ? count : open;
        shape[count++] = sizes[d];
    }
    int64_t size = node.rank > 0 ? node.shape[at] : 0;
    if (fits && open >= 0 && known > 0 && size % known == 0)
        shape[open] = size / known;
    else if (!fits || open >= 0 || known != size)
        return samba_trace_fail(graph, SAMBA_ERROR_SHAPE, "unflatten",
                                "dim %d of size %lld cannot become %s; at most one size may be -1", at, (long long)size,
                                SAMBA_SHAPE(rank, sizes));
    for (int d = at + 1; d < node.rank; d++)
        shape[count++] = node.shape[d];
    return samba_trace_check_shape(graph, "unflatten", count, shape) ? samba_reshape(a, count, shape) : samba_trace_none(graph);
}

samba_value samba_movedim(samba_value a, int count, const int *source, const int *destination)
{
    samba_graph *graph;
    if (!samba_trace_enter("movedim", 1, &a, &graph))
        return samba_trace_none(graph);
    int rank = samba_node_at(graph, a.index)->rank, dims[SAMBA_MAX_RANK], rest = 0;
    bool taken[SAMBA_MAX_RANK] = {false};
    for (int d = 0; d < SAMBA_MAX_RANK; d++)
        dims[d] = -1;
    for (int i = 0; i < count; i++) {
        int from, to;
        if (!source || !destination || !samba_trace_dim(graph, "movedim", rank, source[i], &from) ||
            !samba_trace_dim(graph, "movedim", rank, destination[i], &to))
            return samba_trace_none(graph);
        if (taken[from] || dims[to] >= 0)
            return samba_trace_fail(graph, SAMBA_ERROR_ARGUMENT, "movedim", "dim %d or position %d appears twice", from, to);
        taken[from] = true;
        dims[to] = from;
    }
    if (rank == 0)
        return a;
    for (int d = 0; d < rank; d++) {
        while (dims[d] < 0 && taken[rest])
            rest++;
        if (dims[d] < 0)
            dims[d] = rest++;
    }
    return samba_permute(a, dims);
}
