/* SPDX-License-Identifier: Apache-2.0
 *
 * Elements by their index. ONNX's indices count from the end where they are negative. */
#include "onnx/lists.h"

#include <sambaflow/elementwise.h>
#include <sambaflow/index.h>
#include <sambaflow/reduce.h>
#include <sambaflow/shape.h>
#include <sambaflow/sort.h>
#include <stdlib.h>
#include <string.h>

/* Indices as they count from the front, of a dim of `size`. Known ones that are so already stay as they are. */
static samba_value from_front(samba_onnx_node *node, samba_value index, int64_t size)
{
    samba_dtype dtype = samba_value_dtype(index);
    if (dtype != SAMBA_INT64 && dtype != SAMBA_INT32)
        index = samba_cast(index, SAMBA_INT64);
    uint64_t inputs;
    const samba_array *known = samba_onnx_known(node->reader, index, &inputs);
    if (known && !inputs) {
        bool negative = false;
        for (int64_t i = 0; i < known->numel; i++)
            negative |=
                samba_load_int64(known->dtype, (const char *)known->data + i * (int64_t)samba_dtype_size(known->dtype)) < 0;
        if (!negative)
            return index;
    }
    samba_value length = samba_integer(node->graph, size), zero = samba_integer(node->graph, 0);
    samba_value later = samba_add(index, length), negative = samba_lt(index, zero);
    return samba_where(negative, later, index);
}

void samba_onnx_gather(samba_onnx_node *node);
void samba_onnx_gather(samba_onnx_node *node)
{
    samba_value a = samba_onnx_need(node, 0), index = samba_onnx_need(node, 1);
    if (node->refused)
        return;
    int rank = samba_value_rank(a), axis = samba_onnx_axis(node, "axis", 0, rank), count = samba_value_rank(index);
    if (axis < 0)
        return;
    index = from_front(node, index, samba_value_size(a, axis));
    if (axis == 0 && rank == 2 && samba_dtype_is_floating_point(samba_value_dtype(a))) { /* rows of a table */
        samba_onnx_out_same(node, samba_functional_embedding(index, a, NULL));
        return;
    }
    if (rank + count - 1 > SAMBA_MAX_RANK) {
        samba_onnx_refuse(node, "the result would have %d dims; at most %d are supported", rank + count - 1, SAMBA_MAX_RANK);
        return;
    }
    int64_t shape[SAMBA_MAX_RANK], picks[SAMBA_MAX_RANK], result[2 * SAMBA_MAX_RANK], numel = 1;
    samba_onnx_shape(a, shape);
    samba_onnx_shape(index, picks);
    int out = 0;
    for (int i = 0; i < axis; i++)
        result[out++] = shape[i];
    for (int i = 0; i < count; i++) {
        result[out++] = picks[i];
        numel *= picks[i];
    }
    for (int i = axis + 1; i < rank; i++)
        result[out++] = shape[i];
    samba_value line = samba_reshape(index, 1, &numel), picked = samba_index_select(a, axis, line);
    samba_onnx_out_same(node, count == 1 ? picked : samba_reshape(picked, out, result));
}

void samba_onnx_gather_elements(samba_onnx_node *node);
void samba_onnx_gather_elements(samba_onnx_node *node)
{
    samba_value a = samba_onnx_need(node, 0), index = samba_onnx_need(node, 1);
    if (node->refused)
        return;
    int axis = samba_onnx_axis(node, "axis", 0, samba_value_rank(a));
    if (axis < 0)
        return;
    index = from_front(node, index, samba_value_size(a, axis));
    samba_onnx_out_same(node, samba_gather(a, axis, index));
}

/* ---- several indices for one element: as one, over the dims that they count, flattened ---- */

typedef struct nd {
    int batch, depth, inner_rank;            /* dims of the batch, dims that an index counts, dims behind them */
    int64_t batch_size, count, inner, space; /* elements of each; count: indices of a batch element */
    int64_t shape[SAMBA_MAX_RANK], picks[SAMBA_MAX_RANK];
    int rank, index_rank;
    samba_value index; /* (batch_size * count): numbers of slices among batch_size * space */
} nd;

static bool nd_index(samba_onnx_node *node, samba_value a, samba_value index, int64_t batch, nd *n)
{
    n->rank = samba_value_rank(a);
    n->index_rank = samba_value_rank(index);
    samba_onnx_shape(a, n->shape);
    samba_onnx_shape(index, n->picks);
    n->batch = (int)batch;
    n->depth = n->index_rank > 0 && n->picks[n->index_rank - 1] <= n->rank ? (int)n->picks[n->index_rank - 1] : -1;
    if (batch < 0 || n->depth < 1 || batch + n->depth > n->rank || batch >= n->index_rank) {
        samba_onnx_refuse(node, "indices %s do not fit a value %s with batch_dims %lld", SAMBA_SHAPE(n->index_rank, n->picks),
                          SAMBA_SHAPE(n->rank, n->shape), (long long)batch);
        return false;
    }
    n->batch_size = n->count = n->inner = n->space = 1;
    for (int i = 0; i < n->batch; i++) {
        if (n->picks[i] != n->shape[i]) {
            samba_onnx_refuse(node, "its indices have %lld elements in dim %d of the batch, the value has %lld",
                              (long long)n->picks[i], i, (long long)n->shape[i]);
            return false;
        }
        n->batch_size *= n->shape[i];
    }
    for (int i = n->batch; i < n->index_rank - 1; i++)
        n->count *= n->picks[i];
    for (int i = 0; i < n->depth; i++)
        n->space *= n->shape[n->batch + i];
    for (int i = n->batch + n->depth; i < n->rank; i++)
        n->inner *= n->shape[i];
    n->inner_rank = n->rank - n->batch - n->depth;
    const int64_t rows[3] = {n->batch_size, n->count, n->depth}, line = n->batch_size * n->count;
    samba_value split = samba_reshape(index, 3, rows), flat = {NULL, 0, 0};
    for (int i = 0; i < n->depth; i++) {
        samba_value one = samba_select(split, 2, i), front = from_front(node, one, n->shape[n->batch + i]);
        if (i > 0) {
            samba_value size = samba_integer(node->graph, n->shape[n->batch + i]), scaled = samba_mul(flat, size);
            flat = samba_add(scaled, front);
        } else
            flat = samba_cast(front, SAMBA_INT64);
    }
    if (n->batch_size > 1) {
        samba_value which = samba_arange(node->graph, n->batch_size, SAMBA_INT64), size = samba_integer(node->graph, n->space);
        samba_value starts = samba_mul(which, size), column = samba_unsqueeze(starts, 1);
        flat = samba_add(flat, column);
    }
    n->index = samba_reshape(flat, 1, &line);
    return true;
}

void samba_onnx_gather_nd(samba_onnx_node *node);
void samba_onnx_gather_nd(samba_onnx_node *node)
{
    samba_value a = samba_onnx_need(node, 0), index = samba_onnx_need(node, 1);
    int64_t batch = samba_onnx_int(node, "batch_dims", 0), result[2 * SAMBA_MAX_RANK];
    nd n;
    if (node->refused || !nd_index(node, a, index, batch, &n))
        return;
    const int64_t slices[2] = {n.batch_size * n.space, n.inner};
    samba_value rows = samba_reshape(a, 2, slices), picked = samba_index_select(rows, 0, n.index);
    int out = 0;
    for (int i = 0; i < n.index_rank - 1; i++)
        result[out++] = n.picks[i];
    for (int i = n.batch + n.depth; i < n.rank; i++)
        result[out++] = n.shape[i];
    if (out > SAMBA_MAX_RANK)
        samba_onnx_refuse(node, "the result would have %d dims; at most %d are supported", out, SAMBA_MAX_RANK);
    else
        samba_onnx_out_same(node, samba_reshape(picked, out, result));
}

/* ---- scattering ---- */

static const char *const reductions[] = {"none", "add", "mul", "max", "min", NULL};

void samba_onnx_scatter_elements(samba_onnx_node *node);
void samba_onnx_scatter_elements(samba_onnx_node *node)
{
    samba_value a = samba_onnx_need(node, 0), index = samba_onnx_need(node, 1), source = samba_onnx_need(node, 2);
    int how = samba_onnx_choice(node, "reduction", "none", reductions);
    if (node->refused)
        return;
    int axis = samba_onnx_axis(node, "axis", 0, samba_value_rank(a));
    if (axis < 0)
        return;
    index = from_front(node, index, samba_value_size(a, axis));
    if (how == 0)
        samba_onnx_out_same(node, samba_scatter(a, axis, index, source));
    else if (how == 1)
        samba_onnx_out_same(node, samba_scatter_add(a, axis, index, source));
    else
        samba_onnx_out_same(node, samba_scatter_reduce(a, axis, index, source,
                                                       how == 2   ? SAMBA_SCATTER_PROD
                                                       : how == 3 ? SAMBA_SCATTER_AMAX
                                                                  : SAMBA_SCATTER_AMIN,
                                                       false));
}

void samba_onnx_scatter_nd(samba_onnx_node *node);
void samba_onnx_scatter_nd(samba_onnx_node *node)
{
    samba_value a = samba_onnx_need(node, 0), index = samba_onnx_need(node, 1), source = samba_onnx_need(node, 2);
    int how = samba_onnx_choice(node, "reduction", "none", reductions);
    nd n;
    if (node->refused || !nd_index(node, a, index, 0, &n))
        return;
    const int64_t slices[2] = {n.space, n.inner}, given[2] = {n.count, n.inner};
    samba_value rows = samba_reshape(a, 2, slices), values = samba_reshape(source, 2, given), result;
    if (how == 0)
        result = samba_index_copy(rows, 0, n.index, values);
    else if (how == 1)
        result = samba_index_add(rows, 0, n.index, values, 1);
    else
        result = samba_index_reduce(rows, 0, n.index, values,
                                    how == 2   ? SAMBA_SCATTER_PROD
                                    : how == 3 ? SAMBA_SCATTER_AMAX
                                               : SAMBA_SCATTER_AMIN,
                                    false);
    samba_onnx_out_same(node, samba_reshape(result, n.rank, n.shape));
}

/* Writes `update` along an axis, from the position that each element of the batch has on; circular: round the end. */
void samba_onnx_tensor_scatter(samba_onnx_node *node);
void samba_onnx_tensor_scatter(samba_onnx_node *node)
{
    static const char *const modes[] = {"linear", "circular", NULL};
    samba_value a = samba_onnx_need(node, 0), update = samba_onnx_need(node, 1), start = samba_onnx_in(node, 2);
    int circular = samba_onnx_choice(node, "mode", "linear", modes);
    if (node->refused)
        return;
    int rank = samba_value_rank(a), axis = samba_onnx_axis(node, "axis", -2, rank);
    if (axis < 0)
        return;
    if (axis == 0 || samba_value_rank(update) != rank) {
        samba_onnx_refuse(node, "an update of the cache's rank and an axis behind the batch are expected");
        return;
    }
    int64_t length = samba_value_size(update, axis), size = samba_value_size(a, axis), shape[SAMBA_MAX_RANK],
            ones[SAMBA_MAX_RANK];
    samba_value position = samba_arange(node->graph, length, SAMBA_INT64);
    samba_onnx_shape(update, shape);
    for (int i = 0; i < rank; i++)
        ones[i] = i == axis ? length : 1;
    position = samba_reshape(position, rank, ones);
    if (start.graph) {
        for (int i = 0; i < rank; i++)
            ones[i] = i == 0 ? samba_value_size(start, 0) : 1;
        samba_value begin = samba_cast(start, SAMBA_INT64), first = samba_reshape(begin, rank, ones);
        position = samba_add(position, first);
    }
    if (circular) {
        samba_value round = samba_integer(node->graph, size);
        position = samba_remainder(position, round);
    }
    samba_value index = samba_expand(position, rank, shape);
    samba_onnx_out_same(node, samba_scatter(a, axis, index, update));
}

void samba_onnx_one_hot(samba_onnx_node *node);
void samba_onnx_one_hot(samba_onnx_node *node)
{
    samba_value index = samba_onnx_need(node, 0);
    int64_t depth = samba_double_to_int64(samba_onnx_known_double(node, 1, "the depth", 0));
    samba_value values = samba_onnx_need(node, 2);
    if (node->refused)
        return;
    int rank = samba_value_rank(index), axis = samba_onnx_axis(node, "axis", -1, rank + 1);
    if (axis < 0 || !samba_onnx_within(node, "the depth", depth, 1, INT32_MAX))
        return;
    samba_value number = samba_cast(index, SAMBA_INT64), front = from_front(node, number, depth),
                hot = samba_one_hot(front, depth);
    samba_value off = samba_select(values, 0, 0), on = samba_select(values, 0, 1), is_on = samba_cast(hot, SAMBA_BOOL);
    samba_value result = samba_where(is_on, on, off);
    int source = -1;
    samba_onnx_out(node, 0, samba_movedim(result, 1, &source, &axis));
    samba_onnx_out_type(node, 0, samba_onnx_type_in(node, 2));
}

/* The first `lengths` elements of each sequence turned round. */
void samba_onnx_reverse_sequence(samba_onnx_node *node);
void samba_onnx_reverse_sequence(samba_onnx_node *node)
{
    samba_value a = samba_onnx_need(node, 0), lengths = samba_onnx_need(node, 1);
    if (node->refused)
        return;
    int rank = samba_value_rank(a), batch = samba_onnx_axis(node, "batch_axis", 1, rank),
        time = samba_onnx_axis(node, "time_axis", 0, rank);
    if (batch < 0 || time < 0)
        return;
    int64_t shape[SAMBA_MAX_RANK], ones[SAMBA_MAX_RANK], steps = samba_value_size(a, time);
    samba_onnx_shape(a, shape);
    for (int i = 0; i < rank; i++)
        ones[i] = i == time ? steps : 1;
    samba_value line = samba_arange(node->graph, steps, SAMBA_INT64), step = samba_reshape(line, rank, ones);
    for (int i = 0; i < rank; i++)
        ones[i] = i == batch ? shape[batch] : 1;
    samba_value length = samba_reshape(lengths, rank, ones), one = samba_integer(node->graph, 1), inside = samba_lt(step, length);
    samba_value last = samba_sub(length, one), turned = samba_sub(last, step), index = samba_where(inside, turned, step);
    samba_value all = samba_expand(index, rank, shape);
    samba_onnx_out_same(node, samba_gather(a, time, all));
}

void samba_onnx_top_k(samba_onnx_node *node);
void samba_onnx_top_k(samba_onnx_node *node)
{
    samba_value a = samba_onnx_need(node, 0), indices;
    int64_t k = node->version < 10 ? samba_onnx_int(node, "k", 0) : samba_onnx_known_int(node, 1, "k", 0);
    bool largest = samba_onnx_flag(node, "largest", true);
    samba_onnx_flag(node, "sorted", true); /* what is sorted is a fine answer to what need not be */
    if (node->refused)
        return;
    int axis = samba_onnx_axis(node, "axis", -1, samba_value_rank(a));
    if (axis < 0)
        return;
    samba_value values = samba_topk(a, k, axis, largest, &indices);
    samba_onnx_out_same(node, values);
    samba_onnx_out(node, 1, indices);
}

/* ---- what depends on values: only of known ones ---- */

static const void *element(const samba_array *array, int64_t i)
{
    return (const char *)array->data + i * (int64_t)samba_dtype_size(array->dtype);
}

void samba_onnx_non_zero(samba_onnx_node *node);
void samba_onnx_non_zero(samba_onnx_node *node)
{
    const samba_array *array = samba_onnx_data_in(node, 0);
    if (!array)
        return;
    int rank = array->rank;
    int64_t shape[2] = {rank, 0}, *list;
    if (SAMBA_ROOM(&node->reader->arena, list, array->numel * (rank ? rank : 1) + 1) != SAMBA_OK)
        return;
    for (int64_t i = 0; i < array->numel; i++)
        shape[1] += samba_load_double(array->dtype, element(array, i)) != 0;
    for (int64_t i = 0, at = 0; i < array->numel; i++) {
        if (samba_load_double(array->dtype, element(array, i)) == 0)
            continue;
        int64_t rest = i;
        for (int d = rank - 1; d >= 0; d--) {
            list[d * shape[1] + at] = rest % array->shape[d];
            rest /= array->shape[d];
        }
        at++;
    }
    samba_onnx_out(node, 0, samba_onnx_ints_value(node, 2, shape, list));
}

void samba_onnx_compress(samba_onnx_node *node);
void samba_onnx_compress(samba_onnx_node *node)
{
    samba_value a = samba_onnx_need(node, 0);
    const samba_array *condition = samba_onnx_known_in(node, 1, "the condition");
    if (!condition)
        samba_onnx_refuse(node, "it has no condition");
    if (node->refused)
        return;
    bool whole = !samba_onnx_attribute(node, "axis");
    int rank = samba_value_rank(a), axis = whole ? 0 : samba_onnx_axis(node, "axis", 0, rank);
    if (axis < 0)
        return;
    const int64_t all = -1;
    if (whole)
        a = samba_reshape(a, 1, &all);
    int64_t *list, count = 0;
    if (SAMBA_ROOM(&node->reader->arena, list, condition->numel + 1) != SAMBA_OK)
        return;
    for (int64_t i = 0; i < condition->numel; i++)
        if (samba_load_int64(condition->dtype, element(condition, i)))
            list[count++] = i;
    samba_value index = samba_onnx_ints_value(node, 1, &count, list);
    samba_onnx_out_same(node, samba_index_select(a, axis, index));
}

/* Slices along an axis, or elements, that differ: sorted, or in the order in which they come first. */
typedef struct slices {
    const samba_array *array;
    int64_t outer, size, inner;
} slices;

static int compare_slices(const slices *s, int64_t a, int64_t b)
{
    for (int64_t o = 0; o < s->outer; o++)
        for (int64_t i = 0; i < s->inner; i++) {
            double x = samba_load_double(s->array->dtype, element(s->array, (o * s->size + a) * s->inner + i));
            double y = samba_load_double(s->array->dtype, element(s->array, (o * s->size + b) * s->inner + i));
            if (x != y)
                return x < y ? -1 : 1;
        }
    return 0;
}

void samba_onnx_unique(samba_onnx_node *node);
void samba_onnx_unique(samba_onnx_node *node)
{
    samba_value a = samba_onnx_need(node, 0);
    const samba_array *array = samba_onnx_data_in(node, 0);
    bool sorted = samba_onnx_flag(node, "sorted", true), whole = !samba_onnx_attribute(node, "axis");
    if (!array)
        return;
    int axis = whole ? 0 : samba_onnx_axis(node, "axis", 0, array->rank);
    if (axis < 0)
        return;
    const int64_t all = -1;
    if (whole)
        a = samba_reshape(a, 1, &all);
    slices s = {array, 1, whole ? array->numel : array->shape[axis], 1};
    for (int i = 0; i < array->rank && !whole; i++) {
        s.outer *= i < axis ? array->shape[i] : 1;
        s.inner *= i > axis ? array->shape[i] : 1;
    }
    int64_t size = s.size, count = 0, *first, *inverse, *counts, *place;
    if (size > 4096) {
        samba_onnx_refuse(node, "more than 4096 values are not supported");
        return;
    }
    if (!samba_onnx_afford(node, 0, 2 * (double)size * (double)array->numel)) /* each slice is compared with those before it */
        return;
    if (SAMBA_ROOM(&node->reader->arena, first, 4 * size + 4) != SAMBA_OK)
        return;
    inverse = first + size;
    counts = inverse + size;
    place = counts + size;
    for (int64_t i = 0; i < size; i++) { /* places sorted, or as they come */
        int64_t k = 0;
        while (k < count && compare_slices(&s, first[k], i) != 0)
            k++;
        if (k == count) {
            first[count] = i;
            counts[count++] = 0;
        }
        counts[k]++;
        inverse[i] = k;
    }
    for (int64_t k = 0; k < count; k++) {
        place[k] = k;
        if (sorted) {
            place[k] = 0;
            for (int64_t j = 0; j < count; j++)
                place[k] += compare_slices(&s, first[j], first[k]) < 0;
        }
    }
    int64_t *in_order, *numbers;
    if (SAMBA_ROOM(&node->reader->arena, in_order, count + 1) != SAMBA_OK ||
        SAMBA_ROOM(&node->reader->arena, numbers, count + 1) != SAMBA_OK)
        return;
    for (int64_t k = 0; k < count; k++) {
        in_order[place[k]] = first[k];
        numbers[place[k]] = counts[k];
    }
    for (int64_t i = 0; i < size; i++)
        inverse[i] = place[inverse[i]];
    samba_value index = samba_onnx_ints_value(node, 1, &count, in_order), back = samba_onnx_ints_value(node, 1, &size, inverse);
    samba_value many = samba_onnx_ints_value(node, 1, &count, numbers);
    samba_onnx_out_same(node, samba_index_select(a, axis, index));
    samba_onnx_out(node, 1, index);
    samba_onnx_out(node, 2, back);
    samba_onnx_out(node, 3, many);
}
