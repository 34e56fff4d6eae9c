/* SPDX-License-Identifier: Apache-2.0
 *
 * Python's a[i, :, j]: indices for several dims at once, which are one index of these dims made one. A single index, or several
 * of neighbouring dims, need no copy of a. Where dims without one lie before or between, these get 0, 1, ... as theirs, unless
 * that names more elements than a has: then the indexed dims of a are moved to the front.
 *
 * Of several indices each is checked for itself, since one too large could name an element of the next row: what is out of range
 * becomes an index that no element has. */
#include "trace/index.h"

#include <sambaflow/index.h>
#include <sambaflow/shape.h>

#include <string.h>

typedef struct joint {
    samba_graph *graph;
    const char *what;
    samba_ref merged; /* a, its indexed dims side by side and made one, dim `at` */
    samba_ref line;   /* all indices as one, of rank 1 */
    int at, merged_rank;
    bool negative; /* the line may count from the end */
    int rank;
    bool moved;                    /* the order is another than a's */
    bool counted[SAMBA_MAX_RANK];  /* the index of a dim is 0, 1, ... of its size */
    int64_t order[SAMBA_MAX_RANK]; /* a's dims, the indexed ones side by side */
    int64_t shape[SAMBA_MAX_RANK]; /* of a in that order */
    int index_rank;
    int64_t index_shape[SAMBA_MAX_RANK];
} joint;

/* The shape that all indices broadcast to. */
static bool broadcast(joint *j, int count, const samba_value *indices)
{
    for (int i = 0; i < count; i++)
        if (indices[i].graph && samba_node_at(j->graph, indices[i].index)->rank > j->index_rank)
            j->index_rank = samba_node_at(j->graph, indices[i].index)->rank;
    for (int d = 0; d < j->index_rank; d++)
        j->index_shape[d] = 1;
    for (int i = 0; i < count; i++) {
        if (!indices[i].graph)
            continue;
        const samba_node *node = samba_node_at(j->graph, indices[i].index);
        for (int d = 1; d <= node->rank; d++) {
            int64_t *size = &j->index_shape[j->index_rank - d], mine = node->shape[node->rank - d];
            if (*size == 1) {
                *size = mine;
            } else if (mine != 1 && mine != *size)
                return samba_graph_refuse(
                    j->graph, SAMBA_ERROR_SHAPE, j->what,
                    "indices must broadcast against each other: that of dim %d is %s, and another has size %lld there", i,
                    SAMBA_TYPE_OF(node), (long long)*size);
        }
    }
    return true;
}

static samba_ref number(joint *j, double value) { return samba_emit_constant(j->graph, value, SAMBA_INT64); }

/* 0 .. size-1 of an index that may count from the end, and whether it was in range. */
static samba_ref wrapped(joint *j, samba_ref index, int64_t size, samba_ref *good)
{
    samba_graph *g = j->graph;
    samba_ref high = samba_emit2(g, SAMBA_OP_lt, index, number(j, (double)size)),
              low = samba_emit2(g, SAMBA_OP_ge, index, number(j, -(double)size));
    samba_ref fits = samba_emit3(g, SAMBA_OP_where, low, high, samba_emit_constant(g, 0, SAMBA_BOOL));
    *good = *good == SAMBA_NONE ? fits : samba_emit3(g, SAMBA_OP_where, *good, fits, samba_emit_constant(g, 0, SAMBA_BOOL));
    samba_ref behind = samba_emit2(g, SAMBA_OP_add, index, number(j, (double)size));
    return samba_emit3(g, SAMBA_OP_where, samba_emit2(g, SAMBA_OP_lt, index, number(j, 0)), behind, index);
}

static samba_ref join(joint *j, const samba_node *a, int count, const samba_value *indices)
{
    samba_ref line = SAMBA_NONE, good = SAMBA_NONE;
    for (int i = 0; i < count; i++) {
        if (!indices[i].graph)
            continue;
        samba_ref one = samba_emit_cast(j->graph, indices[i].index, SAMBA_INT64);
        one = j->counted[i] ? one : wrapped(j, one, a->shape[i], &good);
        if (line != SAMBA_NONE)
            one = samba_emit2(j->graph, SAMBA_OP_add, samba_emit2(j->graph, SAMBA_OP_mul, line, number(j, (double)a->shape[i])),
                              one);
        line = one;
        if (line == SAMBA_NONE)
            return SAMBA_NONE;
    }
    return samba_emit3(j->graph, SAMBA_OP_where, good, line, number(j, -1));
}

static bool is_index(joint *j, int i, const samba_node *node)
{
    if (node->dtype == SAMBA_INT64 || node->dtype == SAMBA_INT32)
        return true;
    return samba_graph_refuse(j->graph, SAMBA_ERROR_DTYPE, j->what,
                              "expected indices of dtype int64 or int32, given %s for dim %d%s", samba_dtype_name(node->dtype), i,
                              node->dtype == SAMBA_BOOL ? ": how many elements a mask selects depends on values" : "");
}

/* Puts the indexed dims, first to last of them, beside each other: where they stand, the order of x's dims, their sizes, and
 * merged, the sizes with the indexed dims as one. */
static void arrange(joint *j, const samba_node *x, int count, const samba_value *indices, int first, int indexed, int64_t *merged)
{
    int at = 0;
    int64_t one = 1;
    j->rank = x->rank;
    j->at = j->moved ? 0 : first;
    for (int d = 0; d < x->rank && !j->moved; d++)
        j->order[at++] = d;
    for (int pass = 0; pass < 2 && j->moved; pass++)
        for (int d = 0; d < x->rank; d++)
            if ((d < count && indices[d].graph != NULL) == (pass == 0))
                j->order[at++] = d;
    for (int d = 0; d < x->rank; d++) {
        j->shape[d] = x->shape[j->order[d]];
        bool inside = d >= j->at && d < j->at + indexed;
        one *= inside ? j->shape[d] : 1;
        if (!inside)
            merged[j->merged_rank++] = j->shape[d];
        else if (d == j->at + indexed - 1)
            merged[j->merged_rank++] = one;
    }
}

/* Indices for all dims up to the last indexed one: those that have none get 0, 1, ... behind the others' shape, as the result has
 * them. False where there would be too many dims, or more elements than a's. */
static bool count_between(joint *j, const samba_node *x, int last, const samba_value *indices, samba_value *all)
{
    int between = 0;
    int64_t shape[SAMBA_MAX_RANK];
    double named = 1, whole = 1; /* indices may name more elements than an int64 counts */
    for (int d = 0; d <= last; d++) {
        whole *= (double)x->shape[d];
        named *= indices[d].graph ? 1 : (double)x->shape[d];
        between += indices[d].graph ? 0 : 1;
    }
    for (int i = 0; i < j->index_rank; i++)
        named *= (double)j->index_shape[i];
    if (j->index_rank + between > SAMBA_MAX_RANK || named > whole)
        return false;
    const int rank = j->index_rank + between;
    for (int d = 0, at = j->index_rank; d <= last; d++) {
        for (int i = 0; i < rank; i++)
            shape[i] = 1;
        samba_ref one;
        if (indices[d].graph) {
            const samba_node *index = samba_node_at(j->graph, indices[d].index);
            memcpy(shape + (j->index_rank - index->rank), index->shape, (size_t)index->rank * sizeof *shape);
            one = samba_emit_reshape(j->graph, indices[d].index, rank, shape);
        } else {
            shape[at] = j->index_shape[at] = x->shape[d];
            one = samba_emit_iota(j->graph, rank, shape, at++);
            j->counted[d] = true;
        }
        all[d] = samba_trace_value(j->graph, one);
    }
    j->index_rank = rank;
    return true;
}

static bool enter(joint *j, const char *what, samba_value a, int count, const samba_value *indices, const samba_value *values)
{
    samba_value given[SAMBA_MAX_RANK + 2], all_indices[SAMBA_MAX_RANK];
    int used = 0, indexed = 0, first = -1, last = -1;
    *j = (joint){.what = what};
    given[used++] = a;
    if (values)
        given[used++] = *values;
    for (int i = 0; indices && i < count && i < SAMBA_MAX_RANK; i++)
        if (indices[i].graph)
            given[used++] = indices[i];
    if (!samba_trace_enter(what, used, given, &j->graph))
        return false;
    samba_node x = samba_trace_node(a);
    if (count < 1 || count > x.rank || !indices || used == (values ? 2 : 1))
        return samba_graph_refuse(j->graph, SAMBA_ERROR_ARGUMENT, what,
                                  "expected 1 to %d indices for an input of %d dims, one of them or more there, given %d", x.rank,
                                  x.rank, count);
    for (int i = 0; i < count; i++)
        if (indices[i].graph) {
            if (!is_index(j, i, samba_node_at(j->graph, indices[i].index)))
                return false;
            first = first < 0 ? i : first;
            last = i;
            indexed++;
        }
    if (!broadcast(j, count, indices))
        return false;
    j->moved = last - first + 1 != indexed;
    if (j->moved && count_between(j, &x, last, indices, all_indices)) {
        j->moved = false;
        indices = all_indices;
        count = indexed = last + 1;
        first = 0;
    }
    int64_t merged[SAMBA_MAX_RANK], numel = 1;
    arrange(j, &x, count, indices, first, indexed, merged);
    for (int d = 0; d < j->index_rank; d++)
        numel *= j->index_shape[d];
    if (j->merged_rank - 1 + j->index_rank > SAMBA_MAX_RANK)
        return samba_graph_refuse(j->graph, SAMBA_ERROR_SHAPE, what, "the result would have %d dims, more than %d",
                                  j->merged_rank - 1 + j->index_rank, SAMBA_MAX_RANK);
    samba_ref moved = j->moved ? samba_emit_permute(j->graph, a.index, j->order) : a.index;
    j->merged = samba_emit_reshape(j->graph, moved, j->merged_rank, merged);
    j->negative = indexed == 1;
    samba_ref all = indexed == 1 ? indices[first].index : join(j, &x, count, indices);
    if (all != SAMBA_NONE)
        all = samba_emit_expand(j->graph, all, j->index_rank, j->index_shape);
    j->line = all == SAMBA_NONE ? all : samba_emit_reshape(j->graph, all, 1, &numel);
    return j->line != SAMBA_NONE && j->merged != SAMBA_NONE;
}

/* The result's shape: the index's dims where the merged one was. */
static int result_shape(const joint *j, int64_t *shape)
{
    const samba_node *merged = samba_node_at(j->graph, j->merged);
    int rank = 0;
    for (int d = 0; d < merged->rank; d++) {
        for (int i = 0; d == j->at && i < j->index_rank; i++)
            shape[rank++] = j->index_shape[i];
        if (d != j->at)
            shape[rank++] = merged->shape[d];
    }
    return rank;
}

/* The line as an index of merged's rank. */
static samba_ref index_of(const joint *j)
{
    samba_node merged = *samba_node_at(j->graph, j->merged);
    return samba_trace_along(j->graph, j->line, merged.rank, merged.shape, j->at);
}

samba_value samba_index(samba_value a, int count, const samba_value *indices)
{
    joint j;
    int64_t shape[SAMBA_MAX_RANK];
    if (!enter(&j, "index", a, count, indices, NULL))
        return samba_trace_none(j.graph);
    int rank = result_shape(&j, shape);
    samba_ref found = samba_emit_gather(j.graph, j.merged, index_of(&j), j.at, j.negative);
    return samba_trace_value(j.graph, found == SAMBA_NONE ? found : samba_emit_reshape(j.graph, found, rank, shape));
}

samba_value samba_index_put(samba_value a, int count, const samba_value *indices, samba_value values, bool accumulate)
{
    joint j;
    int64_t shape[SAMBA_MAX_RANK], back[SAMBA_MAX_RANK];
    if (!enter(&j, "index_put", a, count, indices, &values))
        return samba_trace_none(j.graph);
    samba_node from = samba_trace_node(values), x = samba_trace_node(a);
    int rank = result_shape(&j, shape);
    bool fits = from.rank <= rank;
    for (int d = 1; fits && d <= from.rank; d++)
        fits = from.shape[from.rank - d] == 1 || from.shape[from.rank - d] == shape[rank - d];
    if (!fits || from.dtype != x.dtype)
        return samba_trace_fail(j.graph, SAMBA_ERROR_SHAPE, "index_put",
                                "expected values of the input's dtype %s that broadcast to %s, given %s",
                                samba_dtype_name(x.dtype), SAMBA_SHAPE(rank, shape), SAMBA_TYPE_OF(&from));
    samba_ref index = index_of(&j);
    if (index == SAMBA_NONE)
        return samba_trace_none(j.graph);
    samba_node flat = *samba_node_at(j.graph, index);
    samba_ref source = samba_emit_reshape(j.graph, samba_emit_expand(j.graph, values.index, rank, shape), flat.rank, flat.shape);
    samba_ref written =
        samba_emit_scatter(j.graph, j.merged, index, source, j.at, accumulate ? SAMBA_MODE_ADD : SAMBA_MODE_SET, j.negative);
    if (written != SAMBA_NONE)
        written = samba_emit_reshape(j.graph, written, j.rank, j.shape);
    for (int d = 0; d < j.rank; d++)
        back[j.order[d]] = d;
    return samba_trace_value(j.graph, j.moved && written != SAMBA_NONE ? samba_emit_permute(j.graph, written, back) : written);
}

/* ---- a as one line ---- */
static samba_value as_line(samba_value a) { return samba_reshape(a, 1, (int64_t[]){-1}); }

samba_value samba_take(samba_value a, samba_value index)
{
    samba_graph *graph;
    if (!samba_trace_enter("take", 2, (samba_value[]){a, index}, &graph))
        return samba_trace_none(graph);
    SAMBA_SPEAKS(graph, "take");
    samba_node x = samba_trace_node(a), at = samba_trace_node(index);
    int64_t elements = 0, elements_named = 0;
    if (samba_shape_numel(x.rank, x.shape, &elements) && samba_shape_numel(at.rank, at.shape, &elements_named) && elements == 0 &&
        elements_named > 0)
        return samba_trace_fail(graph, SAMBA_ERROR_INDEX, "take",
                                "there is nothing to take from: expected an input with elements, given %s", SAMBA_TYPE_OF(&x));
    return samba_index(samba_flatten(a, 0, -1), 1, &index);
}

samba_value samba_put(samba_value a, samba_value index, samba_value source, bool accumulate)
{
    samba_graph *graph;
    if (!samba_trace_enter("put", 3, (samba_value[]){a, index, source}, &graph))
        return samba_trace_none(graph);
    SAMBA_SPEAKS(graph, "put");
    samba_node x = samba_trace_node(a), at = samba_trace_node(index), from = samba_trace_node(source);
    int64_t elements_named = 1, values = 1;
    bool counted = samba_shape_numel(at.rank, at.shape, &elements_named) && samba_shape_numel(from.rank, from.shape, &values);
    if (!counted || elements_named != values || from.dtype != x.dtype)
        return samba_trace_fail(graph, SAMBA_ERROR_SHAPE, "put",
                                "expected as many values of the input's dtype %s as indices, given an index %s and a source %s",
                                samba_dtype_name(x.dtype), SAMBA_TYPE_OF(&at), SAMBA_TYPE_OF(&from));
    samba_value line = as_line(index), values_line = as_line(source), a_line = as_line(a);
    return samba_reshape(samba_index_put(a_line, 1, &line, values_line, accumulate), x.rank, x.shape);
}
