/* SPDX-License-Identifier: Apache-2.0
 *
 * Elements at other positions, or several times: flipped, rolled, repeated, with borders. All of it is views, joined where it
 * must be; a flip alone is an operator of its own, as no view counts from the end. */
#include "trace/shape.h"

#include <sambaflow/index.h>
#include <sambaflow/shape.h>
#include <sambaflow/tensor.h>
#include <string.h>

/* ---- turned round ---- */

samba_value samba_flip(samba_value a, int count, const int *dims)
{
    samba_graph *graph;
    if (!samba_trace_enter("flip", 1, &a, &graph))
        return samba_trace_none(graph);
    samba_node node = samba_trace_node(a);
    bool named[SAMBA_MAX_RANK];
    if (!samba_trace_named_dims(graph, "flip", node.rank, count, dims, named))
        return samba_trace_none(graph);
    samba_attrs attrs = {.reduce = {.dims.count = 0}};
    for (int d = 0; d < node.rank; d++) /* in order, so that equal flips are one */
        if (named[d] && node.shape[d] > 1)
            attrs.reduce.dims.at[attrs.reduce.dims.count++] = d;
    return attrs.reduce.dims.count == 0 ? a : samba_trace_value(graph, samba_emit(graph, SAMBA_OP_flip, 1, &a.index, &attrs));
}

samba_value samba_rot90(samba_value a, int64_t k, int dim0, int dim1)
{
    samba_graph *graph;
    int first, second;
    if (!samba_trace_enter("rot90", 1, &a, &graph))
        return samba_trace_none(graph);
    int rank = samba_node_at(graph, a.index)->rank;
    if (!samba_trace_dim(graph, "rot90", rank, dim0, &first) || !samba_trace_dim(graph, "rot90", rank, dim1, &second))
        return samba_trace_none(graph);
    if (rank < 2 || first == second)
        return samba_trace_fail(graph, SAMBA_ERROR_ARGUMENT, "rot90",
                                "expected two different dims of a value of rank 2 or more, given dims %d and %d of rank %d", dim0,
                                dim1, rank);
    switch ((k % 4 + 4) % 4) {
    case 1: return samba_transpose(samba_flip(a, 1, &second), first, second);
    case 2: return samba_flip(a, 2, (int[]){first, second});
    case 3: return samba_transpose(samba_flip(a, 1, &first), first, second);
    default: return a;
    }
}

static samba_value roll_dim(samba_value a, int64_t shift, int dim)
{
    int64_t size = samba_value_size(a, dim), cut = size > 0 ? size - (shift % size + size) % size : 0;
    if (cut == size || size == 0)
        return a;
    samba_value end = samba_slice(a, dim, cut, size, 1), begin = samba_slice(a, dim, 0, cut, 1);
    return samba_concat(2, (samba_value[]){end, begin}, dim);
}

samba_value samba_roll(samba_value a, int count, const int64_t *shifts, const int *dims)
{
    samba_graph *graph;
    if (!samba_trace_enter("roll", 1, &a, &graph))
        return samba_trace_none(graph);
    samba_node node = samba_trace_node(a);
    if (count < 1 || !shifts || (!dims && count != 1))
        return samba_trace_fail(graph, SAMBA_ERROR_ARGUMENT, "roll",
                                "expected a shift for each dim, or one for all of them as a line, given %d", count);
    if (!dims)
        return samba_reshape(roll_dim(samba_reshape(a, 1, (int64_t[]){-1}), shifts[0], 0), node.rank, node.shape);
    for (int i = 0; i < count; i++) {
        int dim;
        if (!samba_trace_dim(graph, "roll", node.rank, dims[i], &dim))
            return samba_trace_none(graph);
        if (node.rank > 0)
            a = roll_dim(a, shifts[i], dim);
    }
    return a;
}

/* ---- repeated ---- */

samba_value samba_repeat(samba_value a, int rank, const int64_t *repeats)
{
    samba_graph *graph;
    if (!samba_trace_enter("repeat", 1, &a, &graph) || !samba_trace_check_shape(graph, "repeat", rank, repeats))
        return samba_trace_none(graph);
    samba_node node = samba_trace_node(a);
    int whole = rank > node.rank ? rank : node.rank;
    int64_t shape[SAMBA_MAX_RANK], times[SAMBA_MAX_RANK];
    for (int d = 0; d < whole; d++) {
        shape[d] = d < whole - node.rank ? 1 : node.shape[d - (whole - node.rank)];
        times[d] = d < whole - rank ? 1 : repeats[d - (whole - rank)];
        if (times[d] < 0)
            return samba_trace_fail(graph, SAMBA_ERROR_ARGUMENT, "repeat", "repeats must be 0 or more, given %lld",
                                    (long long)times[d]);
    }
    samba_value result = samba_reshape(a, whole, shape);
    for (int d = 0; d < whole;) { /* as many dims at a time as eight dims can show: (times, size) each */
        int64_t split[SAMBA_MAX_RANK], wide[SAMBA_MAX_RANK], joined[SAMBA_MAX_RANK], after = 1;
        int count = 0, done = d;
        int64_t before = 1;
        for (int i = 0; i < d; i++)
            before *= shape[i];
        split[count] = wide[count] = before;
        count++;
        for (; done < whole && count + 2 < SAMBA_MAX_RANK; done++) {
            bool alone = times[done] == 1 || shape[done] == 1;
            if (!alone) {
                split[count] = 1;
                wide[count++] = times[done];
            }
            split[count] = shape[done];
            wide[count++] = alone && shape[done] == 1 ? times[done] : shape[done];
        }
        for (int i = done; i < whole; i++)
            after *= shape[i];
        split[count] = wide[count] = after;
        count++;
        for (int i = d; i < done; i++)
            if (!samba_mul_checked(shape[i], times[i], &shape[i]))
                return samba_trace_fail(graph, SAMBA_ERROR_SHAPE, "repeat", "dim %d would be larger than 2^63 elements", i);
        memcpy(joined, shape, sizeof joined);
        result = samba_reshape(samba_expand(samba_reshape(result, count, split), count, wide), whole, joined);
        d = done;
    }
    return result;
}

samba_value samba_repeat_interleave(samba_value a, int64_t repeats, int dim)
{
    samba_graph *graph;
    int at;
    if (!samba_trace_enter("repeat_interleave", 1, &a, &graph))
        return samba_trace_none(graph);
    if (samba_node_at(graph, a.index)->rank == 0)
        a = samba_reshape(a, 1, (int64_t[]){1});
    samba_node node = samba_trace_node(a);
    if (!samba_trace_dim(graph, "repeat_interleave", node.rank, dim, &at))
        return samba_trace_none(graph);
    if (repeats < 0)
        return samba_trace_fail(graph, SAMBA_ERROR_ARGUMENT, "repeat_interleave", "repeats must be 0 or more, given %lld",
                                (long long)repeats);
    int64_t thin[3] = {1, 1, 1}, wide[3];
    for (int d = 0; d < node.rank; d++)
        thin[d <= at ? 0 : 2] *= node.shape[d];
    memcpy(wide, thin, sizeof wide);
    wide[1] = repeats;
    node.shape[at] *= repeats;
    return samba_reshape(samba_expand(samba_reshape(a, 3, thin), 3, wide), node.rank, node.shape);
}

samba_tensor *samba_trace_numbers_begin(samba_graph *graph, int64_t n, int64_t **numbers)
{
    samba_tensor *tensor;
    if (samba_tensor_new(graph->context, NULL, SAMBA_INT64, 1, &n, &tensor) != SAMBA_OK) {
        samba_graph_stick(graph, SAMBA_ERROR_MEMORY);
        return NULL;
    }
    *numbers = samba_tensor_data(tensor);
    return tensor;
}

samba_ref samba_trace_numbers_end(samba_graph *graph, samba_tensor *tensor)
{
    samba_ref constant = samba_constant_tensor(graph, tensor).index;
    samba_tensor_free(tensor);
    return constant;
}

samba_value samba_repeat_interleave_each(samba_value a, const int64_t *repeats, int dim)
{
    samba_graph *graph;
    int at;
    if (!samba_trace_enter("repeat_interleave", 1, &a, &graph))
        return samba_trace_none(graph);
    samba_node node = samba_trace_node(a);
    if (!samba_trace_dim(graph, "repeat_interleave", node.rank, dim, &at))
        return samba_trace_none(graph);
    int64_t size = node.rank > 0 ? node.shape[at] : 0, total = 0, *sources;
    bool fits = node.rank > 0 && (repeats || size == 0);
    int64_t i = 0;
    for (; i < size && fits; i++)
        fits = repeats[i] >= 0 && samba_add_checked(total, repeats[i], &total) && total <= INT32_MAX;
    if (!fits)
        return samba_trace_fail(graph, SAMBA_ERROR_ARGUMENT, "repeat_interleave",
                                "expected a number of repeats for each of the %lld indices of dim "
                                "%d, 0 or more and below 2^31 in all, given %lld for index %lld",
                                (long long)size, at, (long long)(i > 0 ? repeats[i - 1] : 0), (long long)(i > 0 ? i - 1 : 0));
    samba_tensor *tensor = samba_trace_numbers_begin(graph, total, &sources);
    if (!tensor)
        return samba_trace_none(graph);
    int64_t k = 0;
    for (i = 0; i < size; i++)
        for (int64_t r = 0; r < repeats[i]; r++)
            sources[k++] = i;
    return samba_index_select(a, at, samba_trace_value(graph, samba_trace_numbers_end(graph, tensor)));
}

/* ---- borders ---- */

static samba_value fail_pad(samba_graph *graph, const char *message, int64_t amount, int64_t size)
{
    return samba_trace_fail(graph, SAMBA_ERROR_ARGUMENT, "pad", "%s, given %lld for a dim of size %lld", message,
                            (long long)amount, (long long)size);
}

/* Zeros, or another number, around all dims at once. */
static samba_value pad_constant(samba_graph *graph, samba_value a, int count, const int64_t *amounts, double value)
{
    samba_node node = samba_trace_node(a);
    const int rank = node.rank;
    samba_attrs attrs = {.pad = {.before.count = rank, .after.count = rank, .interior.count = rank, .value = value}};
    bool any = false;
    for (int i = 0; i < count; i++) {
        int d = node.rank - 1 - i;
        int64_t before = amounts[2 * i], after = amounts[2 * i + 1], size = node.shape[d], first = before < 0 ? -before : 0,
                last = size + (after < 0 ? after : 0);
        if (before < -size || after < -size || last < first)
            return fail_pad(graph, "a dim cannot be cut by more than it has", before < 0 ? before : after, size);
        a = samba_slice(a, d, first, last, 1);
        attrs.pad.before.at[d] = before > 0 ? before : 0;
        attrs.pad.after.at[d] = after > 0 ? after : 0;
        any = any || before > 0 || after > 0;
    }
    return any && a.index != SAMBA_NONE ? samba_trace_value(graph, samba_emit(graph, SAMBA_OP_pad, 1, &a.index, &attrs)) : a;
}

/* A border of `amount` elements beside one end of a dim of size n. */
static samba_value border(samba_value a, int dim, int64_t amount, int64_t n, bool before, samba_pad_mode mode)
{
    int64_t shape[SAMBA_MAX_RANK];
    switch (mode) {
    case SAMBA_PAD_REFLECT:
        a = before ? samba_slice(a, dim, 1, amount + 1, 1) : samba_slice(a, dim, n - 1 - amount, n - 1, 1);
        return samba_flip(a, 1, &dim);
    case SAMBA_PAD_CIRCULAR: return before ? samba_slice(a, dim, n - amount, n, 1) : samba_slice(a, dim, 0, amount, 1);
    default:
        a = before ? samba_slice(a, dim, 0, 1, 1) : samba_slice(a, dim, n - 1, n, 1);
        for (int d = 0; d < samba_value_rank(a); d++)
            shape[d] = d == dim ? amount : -1;
        return samba_expand(a, samba_value_rank(a), shape);
    }
}

static samba_value pad_dim(samba_graph *graph, samba_value a, int dim, int64_t before, int64_t after, samba_pad_mode mode)
{
    int64_t n = samba_value_size(a, dim), first = before < 0 ? -before : 0, last = n + (after < 0 ? after : 0);
    int64_t most = before > after ? before : after;
    if (before < -n || after < -n || last < first)
        return fail_pad(graph, "a dim cannot be cut by more than it has", before < after ? before : after, n);
    if (most > 0 && most > (mode == SAMBA_PAD_REFLECT ? n - 1 : mode == SAMBA_PAD_CIRCULAR ? n : n > 0 ? INT64_MAX : 0))
        return fail_pad(graph,
                        mode == SAMBA_PAD_REFLECT    ? "reflect needs borders smaller than the dim"
                        : mode == SAMBA_PAD_CIRCULAR ? "circular needs borders no larger than the dim"
                                                     : "replicate needs something to repeat",
                        most, n);
    samba_value middle = samba_slice(a, dim, first, last, 1), whole = mode == SAMBA_PAD_CIRCULAR ? middle : a, parts[3];
    int64_t size = mode == SAMBA_PAD_CIRCULAR ? last - first : n;
    int count = 0;
    if (mode == SAMBA_PAD_CIRCULAR && most > size)
        return fail_pad(graph, "circular needs borders no larger than what is left of the dim", most, size);
    if (before > 0)
        parts[count++] = border(whole, dim, before, size, true, mode);
    parts[count++] = middle;
    if (after > 0)
        parts[count++] = border(whole, dim, after, size, false, mode);
    return samba_concat(count, parts, dim);
}

samba_value samba_pad(samba_value a, int count, const int64_t *amounts, samba_pad_mode mode, double value)
{
    samba_graph *graph;
    if (!samba_trace_enter("pad", 1, &a, &graph))
        return samba_trace_none(graph);
    int rank = samba_node_at(graph, a.index)->rank;
    if (count < 0 || count > rank || (count > 0 && !amounts))
        return samba_trace_fail(graph, SAMBA_ERROR_ARGUMENT, "pad",
                                "expected two amounts for each of at most %d dims, given amounts for %d", rank, count);
    for (int i = 0; i < 2 * count; i++)
        if (amounts[i] < -INT64_C(0x7fffffffffff) || amounts[i] > INT64_C(0x7fffffffffff))
            return fail_pad(graph, "an amount is impossible", amounts[i], samba_value_size(a, rank - 1 - i / 2));
    switch (mode) {
    case SAMBA_PAD_CONSTANT: return pad_constant(graph, a, count, amounts, value);
    case SAMBA_PAD_REFLECT:
    case SAMBA_PAD_REPLICATE:
    case SAMBA_PAD_CIRCULAR: break;
    default:
        return samba_trace_fail(graph, SAMBA_ERROR_ARGUMENT, "pad",
                                "there is no mode %d: expected constant, reflect, replicate or circular (0 to 3)", (int)mode);
    }
    for (int i = 0; i < count && a.index != SAMBA_NONE; i++)
        if (amounts[2 * i] != 0 || amounts[2 * i + 1] != 0)
            a = pad_dim(graph, a, rank - 1 - i, amounts[2 * i], amounts[2 * i + 1], mode);
    return a;
}
