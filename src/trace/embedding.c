/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows of tables, and bags of them. What padding_idx and scale_grad_by_freq change is the gradient alone: they are said by what a
 * result is detached from, and leave nothing behind in a program without gradients. */
#include "trace/index.h"
#include "trace/shape.h"

#include <math.h>
#include <sambaflow/index.h>
#include <string.h>

static samba_ref detached(samba_graph *g, samba_ref a) { return samba_emit1(g, SAMBA_OP_detach, a); }

/* padding_idx as 0 .. V-1; false after an error. */
static bool padding_row(samba_graph *graph, const char *what, int64_t given, int64_t rows, int64_t *row)
{
    *row = given < 0 ? given + rows : given;
    if (*row >= 0 && *row < rows)
        return true;
    return samba_graph_refuse(graph, SAMBA_ERROR_ARGUMENT, what, "padding_idx must be %lld to %lld for %lld rows, given %lld",
                              (long long)-rows, (long long)rows - 1, (long long)rows, (long long)given);
}

/* index.shape + (1): is it that row? */
static samba_ref is_row(samba_graph *g, samba_ref index, int64_t row)
{
    samba_node node = *samba_node_at(g, index);
    int64_t shape[SAMBA_MAX_RANK + 1];
    memcpy(shape, node.shape, sizeof node.shape);
    shape[node.rank] = 1;
    samba_ref same = samba_emit2(g, SAMBA_OP_eq, index, samba_emit_constant(g, (double)row, node.dtype));
    return same == SAMBA_NONE ? same : samba_emit_reshape(g, same, node.rank + 1, shape);
}

/* The same rows, whose gradients are divided by how often the index names them. y + (z - z) is y, and its gradient that of z. */
static samba_ref by_frequency(samba_graph *g, samba_ref rows, samba_ref index, int64_t count)
{
    samba_node node = *samba_node_at(g, rows), at = *samba_node_at(g, index);
    samba_dtype dtype = node.dtype == SAMBA_FLOAT64 ? SAMBA_FLOAT64 : SAMBA_FLOAT32;
    int64_t n = 1, thin[SAMBA_MAX_RANK + 1];
    for (int d = 0; d < at.rank; d++)
        n *= thin[d] = at.shape[d];
    thin[at.rank] = 1;
    samba_ref line = samba_emit_reshape(g, index, 1, &n), one = samba_emit_constant(g, 1, dtype),
              zero = samba_emit_constant(g, 0, dtype);
    samba_ref ones = samba_emit_expand(g, one, 1, &n), zeros = samba_emit_expand(g, zero, 1, &count);
    samba_ref counts = samba_emit_scatter(g, zeros, line, ones, 0, SAMBA_MODE_ADD, false);
    samba_ref times = samba_emit_reshape(g, samba_emit_gather(g, counts, line, 0, false), at.rank + 1, thin);
    samba_ref wide = samba_emit_cast(g, rows, dtype), scaled = samba_emit2(g, SAMBA_OP_div, wide, times);
    samba_ref nothing = samba_emit2(g, SAMBA_OP_sub, scaled, detached(g, scaled));
    samba_ref still = detached(g, wide), finite = samba_emit2(g, SAMBA_OP_eq, detached(g, nothing), zero);
    return samba_emit_cast(g, samba_emit3(g, SAMBA_OP_where, finite, samba_emit2(g, SAMBA_OP_add, still, nothing), still),
                           node.dtype);
}

/* Indices that datasets keep as int16, which no kernel reads: as int32. */
static samba_ref readable(samba_graph *g, samba_ref index)
{
    return samba_node_at(g, index)->dtype == SAMBA_INT16 ? samba_emit_cast(g, index, SAMBA_INT32) : index;
}

/* Options as far as both functions have them. */
static samba_ref look_up(samba_graph *g, const char *what, samba_ref index, samba_ref weight, bool padded, int64_t padding,
                         bool by_freq)
{
    index = readable(g, index);
    if (index == SAMBA_NONE)
        return index;
    samba_node table = *samba_node_at(g, weight);
    samba_ref rows = samba_emit2(g, SAMBA_OP_embedding, weight, index);
    if (rows == SAMBA_NONE)
        return rows;
    if (by_freq)
        rows = by_frequency(g, rows, index, table.shape[0]);
    int64_t row;
    if (!padded)
        return rows;
    if (!padding_row(g, what, padding, table.shape[0], &row))
        return SAMBA_NONE;
    samba_ref still = detached(g, rows), is_padding = is_row(g, index, row);
    return samba_emit3(g, SAMBA_OP_where, is_padding, still, rows);
}

/* Options of 0, of which only what follows was set, are taken as of this header. */
static bool takes_size(samba_graph *graph, const char *call, size_t given, size_t known)
{
    if (given == 0 || given == known)
        return true;
    return samba_graph_refuse(
        graph, SAMBA_ERROR_ARGUMENT, call,
        "its options say a struct_size of %zu and this library knows %zu: compile against this library's headers", given, known);
}

samba_value samba_functional_embedding(samba_value index, samba_value weight, const samba_embedding_options *options)
{
    samba_graph *graph;
    samba_embedding_options given = {0};
    if (!samba_trace_enter("embedding", 2, (samba_value[]){index, weight}, &graph))
        return samba_trace_none(graph);
    if (options && !takes_size(graph, "embedding", options->struct_size, sizeof given))
        return samba_trace_none(graph);
    if (options)
        given = *options;
    return samba_trace_value(graph, look_up(graph, "embedding", index.index, weight.index, given.has_padding_idx,
                                            given.padding_idx, given.scale_grad_by_freq));
}

/* ---- bags ---- */
typedef struct bags {
    samba_graph *graph;
    samba_ref owner;         /* (N): the bag of each row of a line; SAMBA_NONE where rows are (bags, n, D) */
    int64_t count, n, width; /* bags, rows of each */
} bags;

static samba_value refuse(samba_graph *graph, samba_status status, const char *message, int64_t given)
{
    return samba_trace_fail(graph, status, "embedding_bag", "%s, given %lld", message, (long long)given);
}

/* A constant: the bag of each of n rows. */
static samba_ref owners(samba_graph *g, int64_t n, const samba_embedding_bag_options *options, int64_t count)
{
    int64_t *owner, bag = 0;
    samba_tensor *tensor = samba_trace_numbers_begin(g, n, &owner);
    for (int64_t i = 0; tensor && i < n; i++) {
        while (bag + 1 < count && options->offsets[bag + 1] <= i)
            bag++;
        owner[i] = bag;
    }
    return tensor ? samba_trace_numbers_end(g, tensor) : SAMBA_NONE;
}

/* Values (..., W) of a row, (bags, W) in all: their sum, or the greatest beside `start`. */
static samba_ref total(const bags *b, samba_ref values, bool greatest, double start)
{
    samba_graph *g = b->graph;
    if (values == SAMBA_NONE)
        return values;
    samba_node node = *samba_node_at(g, values);
    int64_t dims[1] = {1}, shape[2] = {b->count, node.shape[node.rank - 1]};
    if (b->owner == SAMBA_NONE && b->n > 0)
        return samba_emit_reshape(g, samba_emit_reduce(g, greatest ? SAMBA_OP_amax : SAMBA_OP_sum, values, 1, dims), 2, shape);
    samba_ref base = samba_emit_expand(g, samba_emit_constant(g, start, node.dtype), 2, shape);
    if (b->owner == SAMBA_NONE || node.shape[0] == 0)
        return base;
    return samba_emit_scatter(g, base, samba_trace_along(g, b->owner, 2, node.shape, 0), values, 0,
                              greatest ? SAMBA_MODE_AMAX : SAMBA_MODE_ADD, false);
}

/* How many rows each bag has, padding left out: (bags, 1). */
static samba_ref sizes(const bags *b, samba_ref padding, const samba_node *rows, samba_dtype dtype)
{
    samba_graph *g = b->graph;
    int64_t shape[SAMBA_MAX_RANK];
    memcpy(shape, rows->shape, sizeof shape);
    shape[rows->rank - 1] = 1;
    samba_ref one = samba_emit_constant(g, 1, dtype), zero = samba_emit_constant(g, 0, dtype);
    samba_ref each = padding == SAMBA_NONE ? one : samba_emit3(g, SAMBA_OP_where, padding, zero, one);
    return total(b, samba_emit_expand(g, each, rows->rank, shape), false, 0);
}

static bool check_offsets(samba_graph *graph, const samba_node *index, const samba_embedding_bag_options *options)
{
    int64_t n = index->shape[0], last = 0;
    const char *wrong = index->rank == 1 && (!options->offsets || options->offset_count < 1)
                            ? "an index of rank 1 needs offsets, known while tracing"
                            : NULL;
    if (index->rank == 2 && options->offsets)
        wrong = "offsets are for an index of rank 1";
    for (int64_t i = 0; !wrong && index->rank == 1 && i < options->offset_count; i++) {
        if (options->offsets[i] < last || options->offsets[i] > n || (i == 0 && options->offsets[0] != 0))
            wrong = "offsets must begin with 0, never decrease, and end within the index";
        last = options->offsets[i];
    }
    if (wrong)
        samba_graph_fail_at(graph, SAMBA_ERROR_ARGUMENT, "embedding_bag", "%s", wrong);
    return !wrong;
}

samba_value samba_functional_embedding_bag(samba_value index, samba_value weight, const samba_embedding_bag_options *options)
{
    samba_graph *g;
    samba_embedding_bag_options given = {0};
    const bool sized = !options || options->struct_size == sizeof given || options->struct_size == 0;
    if (options && sized)
        given = *options;
    if (!samba_trace_enter_optional("embedding_bag", 3, (samba_value[]){index, weight, given.per_sample_weights}, &g) ||
        (!sized && !takes_size(g, "embedding_bag", options->struct_size, sizeof given)))
        return samba_trace_none(g);
    SAMBA_SPEAKS(g, "embedding_bag");
    samba_node at = samba_trace_node(index);
    if (at.rank != 1 && at.rank != 2)
        return refuse(g, SAMBA_ERROR_SHAPE, "expected an index of rank 1 or 2", at.rank);
    if (given.mode < SAMBA_BAG_MEAN || given.mode > SAMBA_BAG_MAX)
        return refuse(g, SAMBA_ERROR_ARGUMENT, "mode must be mean, sum or max (0 to 2)", given.mode);
    if (!check_offsets(g, &at, &given))
        return samba_trace_none(g);
    samba_ref rows = look_up(g, "embedding_bag", index.index, weight.index, given.has_padding_idx, given.padding_idx,
                             given.scale_grad_by_freq);
    if (rows == SAMBA_NONE)
        return samba_trace_none(g);
    samba_node node = *samba_node_at(g, rows);
    bags b = {.graph = g, .owner = SAMBA_NONE, .n = at.rank == 2 ? at.shape[1] : 0, .width = node.shape[node.rank - 1]};
    b.count = at.rank == 2 ? at.shape[0] : given.offset_count - given.include_last_offset;
    if (at.rank == 1)
        b.owner = owners(g, at.shape[0], &given, b.count);
    if (given.per_sample_weights.graph) {
        samba_node factor = samba_trace_node(given.per_sample_weights);
        if (given.mode != SAMBA_BAG_SUM || factor.dtype != node.dtype ||
            !samba_shape_equal(factor.rank, factor.shape, at.rank, at.shape))
            return samba_trace_fail(
                g, SAMBA_ERROR_SHAPE, "embedding_bag",
                "per_sample_weights are factors of a sum, of the weight's dtype and the index's shape, given %s",
                SAMBA_TYPE_OF(&factor));
        factor.shape[factor.rank] = 1;
        rows = samba_emit2(g, SAMBA_OP_mul, rows,
                           samba_emit_reshape(g, given.per_sample_weights.index, factor.rank + 1, factor.shape));
    }
    samba_dtype dtype = node.dtype, wide = dtype == SAMBA_FLOAT64 ? SAMBA_FLOAT64 : SAMBA_FLOAT32;
    samba_ref padding = SAMBA_NONE, zero = samba_emit_constant(g, 0, wide);
    int64_t row;
    rows = samba_emit_cast(g, rows, wide);
    bool greatest = given.mode == SAMBA_BAG_MAX;
    if (given.has_padding_idx &&
        padding_row(g, "embedding_bag", given.padding_idx, samba_node_at(g, weight.index)->shape[0], &row)) {
        padding = is_row(g, index.index, row);
        rows = samba_emit3(g, SAMBA_OP_where, padding, greatest ? samba_emit_constant(g, -INFINITY, wide) : zero, rows);
    }
    samba_ref result = total(&b, rows, greatest, greatest ? -INFINITY : 0);
    if (given.mode != SAMBA_BAG_SUM) {
        samba_ref count = sizes(&b, padding, &node, wide), one = samba_emit_constant(g, 1, wide);
        result = greatest ? samba_emit3(g, SAMBA_OP_where, samba_emit2(g, SAMBA_OP_gt, count, zero), result, zero)
                          : samba_emit2(g, SAMBA_OP_div, result, samba_emit2(g, SAMBA_OP_maximum, count, one));
    }
    return samba_trace_value(g, samba_emit_cast(g, result, dtype));
}

samba_value samba_one_hot(samba_value index, int64_t num_classes)
{
    samba_graph *g;
    if (!samba_trace_enter("one_hot", 1, &index, &g))
        return samba_trace_none(g);
    samba_node node = samba_trace_node(index);
    if (num_classes < 1 || node.rank == SAMBA_MAX_RANK || (node.dtype != SAMBA_INT64 && node.dtype != SAMBA_INT32))
        return samba_trace_fail(
            g, SAMBA_ERROR_ARGUMENT, "one_hot",
            "expected an index of int64 or int32 with at most %d dims and num_classes of 1 or more, given %s and %lld",
            SAMBA_MAX_RANK - 1, SAMBA_TYPE_OF(&node), (long long)num_classes);
    samba_ref classes = samba_arange(g, num_classes, node.dtype).index;
    node.shape[node.rank] = 1;
    samba_ref same = samba_emit2(g, SAMBA_OP_eq, samba_emit_reshape(g, index.index, node.rank + 1, node.shape), classes);
    return samba_trace_value(g, samba_emit_cast(g, same, SAMBA_INT64));
}
