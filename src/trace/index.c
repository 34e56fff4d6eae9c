/* SPDX-License-Identifier: Apache-2.0
 *
 * Elements by their index: all of it is the operators gather and scatter, between views. An index along a dim is seen as one of
 * the whole result's shape by an expanded view, which costs nothing. Several dims at once are in
 * index_many.c, rows of tables in embedding.c. */
#include "trace/index.h"

#include <sambaflow/index.h>
#include <math.h>
#include <sambaflow/shape.h>

/* ---- for all of the family's files ---- */
samba_ref samba_trace_along(samba_graph *graph, samba_ref line, int rank, const int64_t *shape, int dim)
{
    if (line == SAMBA_NONE)
        return SAMBA_NONE;
    int64_t thin[SAMBA_MAX_RANK], wide[SAMBA_MAX_RANK];
    for (int d = 0; d < rank; d++) {
        thin[d] = 1;
        wide[d] = shape[d];
    }
    const samba_node *node = samba_node_at(graph, line);
    thin[dim] = wide[dim] = node->shape[0];
    return samba_emit_expand(graph, samba_emit_reshape(graph, line, rank, thin), rank, wide);
}

/* ---- gather, scatter ---- */

/* A value and its index, each of at least one dim, as torch takes numbers here. */
typedef struct indexed {
    samba_graph *graph;
    samba_ref a, index;
    int rank, dim, a_rank, index_rank; /* rank: of both as they are used; the others as given */
} indexed;

static samba_ref at_least_one_dim(samba_graph *graph, samba_ref a)
{
    return samba_node_at(graph, a)->rank > 0 ? a : samba_emit_reshape(graph, a, 1, (int64_t[]){1});
}

static bool enter(const char *what, samba_value a, int dim, samba_value index, const samba_value *source, indexed *p)
{
    samba_value values[3] = {a, index, source ? *source : a};
    if (!samba_trace_enter(what, 3, values, &p->graph) ||
        !samba_trace_dim(p->graph, what, samba_node_at(p->graph, a.index)->rank, dim, &p->dim))
        return false;
    p->a_rank = samba_node_at(p->graph, a.index)->rank;
    p->index_rank = samba_node_at(p->graph, index.index)->rank;
    p->a = at_least_one_dim(p->graph, a.index);
    p->index = at_least_one_dim(p->graph, index.index);
    p->rank = samba_node_at(p->graph, p->a)->rank;
    return true;
}

/* The result with the rank it should have: a number where one was given. */
static samba_value leave(const indexed *p, samba_ref result, int rank)
{
    return samba_trace_value(p->graph,
                             rank == 0 && result != SAMBA_NONE ? samba_emit_reshape(p->graph, result, 0, NULL) : result);
}

samba_value samba_gather(samba_value a, int dim, samba_value index)
{
    indexed p;
    if (!enter("gather", a, dim, index, NULL, &p))
        return samba_trace_none(p.graph);
    return leave(&p, samba_emit_gather(p.graph, p.a, p.index, p.dim, false), p.index_rank);
}

samba_value samba_take_along_dim(samba_value a, samba_value index, int dim)
{
    indexed p;
    if (!enter("take_along_dim", a, dim, index, NULL, &p))
        return samba_trace_none(p.graph);
    SAMBA_SPEAKS(p.graph, "take_along_dim");
    samba_node x = *samba_node_at(p.graph, p.a), at = *samba_node_at(p.graph, p.index);
    bool fits = x.rank == at.rank;
    for (int d = 0; fits && d < x.rank; d++) {
        fits = d == p.dim || x.shape[d] == at.shape[d] || x.shape[d] == 1 || at.shape[d] == 1;
        if (d != p.dim && x.shape[d] == 1)
            x.shape[d] = at.shape[d];
        else if (d != p.dim)
            at.shape[d] = x.shape[d];
    }
    if (!fits)
        return samba_trace_fail(
            p.graph, SAMBA_ERROR_SHAPE, "take_along_dim",
            "expected an index that broadcasts against the input along every dim but %d, given an input %s and an index %s",
            p.dim, SAMBA_TYPE_OF(samba_node_at(p.graph, p.a)), SAMBA_TYPE_OF(samba_node_at(p.graph, p.index)));
    samba_ref wide = samba_emit_expand(p.graph, p.a, x.rank, x.shape),
              index_of = samba_emit_expand(p.graph, p.index, x.rank, at.shape);
    return leave(&p, samba_emit_gather(p.graph, wide, index_of, p.dim, true), p.index_rank);
}

/* `source` cut to the index's shape, or repeated where it is a number. */
static samba_ref source_for(const char *what, const indexed *p, samba_ref source)
{
    samba_node from = *samba_node_at(p->graph, source), index = *samba_node_at(p->graph, p->index);
    if (from.dtype != samba_node_at(p->graph, p->a)->dtype)
        return samba_graph_fail_at(
            p->graph, SAMBA_ERROR_DTYPE, what, "expected a source of the input's dtype %s, given %s; cast it first",
            samba_dtype_name((samba_dtype)samba_node_at(p->graph, p->a)->dtype), samba_dtype_name(from.dtype));
    if (from.rank == 0)
        return samba_emit_expand(p->graph, source, index.rank, index.shape);
    bool fits = from.rank == index.rank;
    for (int d = 0; fits && d < from.rank; d++)
        fits = index.shape[d] <= from.shape[d];
    if (index.rank != p->rank)
        return samba_graph_fail_at(p->graph, SAMBA_ERROR_SHAPE, what,
                                   "expected an index of as many dims as the input, %d, given %s", p->rank,
                                   SAMBA_TYPE_OF(&index));
    if (!fits) {
        return samba_graph_fail_at(
            p->graph, SAMBA_ERROR_SHAPE, what,
            "expected a source that reaches as far as the index along every dim, given an index %s and a source %s",
            SAMBA_TYPE_OF(&index), SAMBA_TYPE_OF(&from));
    }
    samba_value cut = samba_trace_value(p->graph, source);
    for (int d = 0; d < from.rank; d++)
        if (index.shape[d] != from.shape[d])
            cut = samba_slice(cut, d, 0, index.shape[d], 1);
    return cut.index;
}

static samba_value scatter(const char *what, samba_value a, int dim, samba_value index, samba_value source,
                           samba_scatter_mode mode)
{
    indexed p;
    if (!enter(what, a, dim, index, &source, &p))
        return samba_trace_none(p.graph);
    SAMBA_SPEAKS(p.graph, what);
    samba_ref rows = source_for(what, &p, source.index);
    return leave(&p, samba_emit_scatter(p.graph, p.a, p.index, rows, p.dim, mode, false), p.a_rank);
}

samba_value samba_scatter(samba_value a, int dim, samba_value index, samba_value source)
{
    return scatter("scatter", a, dim, index, source, SAMBA_MODE_SET);
}

samba_value samba_scatter_add(samba_value a, int dim, samba_value index, samba_value source)
{
    return scatter("scatter_add", a, dim, index, source, SAMBA_MODE_ADD);
}

/* The least, or the greatest, that a dtype has: one as a double. */
static double outermost(samba_dtype dtype, bool least)
{
    switch (dtype) {
    case SAMBA_BOOL: return least ? 0 : 1;
    case SAMBA_UINT8: return least ? 0 : 255;
    case SAMBA_INT8: return least ? -128 : 127;
    case SAMBA_INT16: return least ? -32768 : 32767;
    case SAMBA_INT32: return least ? -2147483648.0 : 2147483647.0;
    default: return least ? -INFINITY : INFINITY;
    }
}

static samba_ref filled(samba_graph *graph, double value, samba_dtype dtype, samba_ref like)
{
    if (like == SAMBA_NONE)
        return SAMBA_NONE;
    samba_node node = *samba_node_at(graph, like);
    return samba_emit_expand(graph, samba_emit_constant(graph, value, dtype), node.rank, node.shape);
}

/* The neutral element of a reduction; the greatest int64 is no double. */
static samba_ref neutral(samba_graph *graph, samba_scatter_reduction reduce, samba_dtype dtype)
{
    bool extreme = reduce == SAMBA_SCATTER_AMAX || reduce == SAMBA_SCATTER_AMIN, least = reduce == SAMBA_SCATTER_AMAX;
    if (!extreme)
        return samba_emit_constant(graph, reduce == SAMBA_SCATTER_PROD, dtype);
    if (dtype != SAMBA_INT64)
        return samba_emit_constant(graph, outermost(dtype, least), dtype);
    samba_ref smallest = samba_emit_constant(graph, -0x1p63, dtype);
    return least ? smallest : samba_emit2(graph, SAMBA_OP_sub, samba_emit_constant(graph, -1, dtype), smallest);
}

/* All of scatter_reduce, the source already in shape. */
static samba_ref reduced(const char *what, const indexed *p, samba_ref source, samba_scatter_reduction reduce, bool exclude_self)
{
    static const samba_scatter_mode modes[] = {SAMBA_MODE_ADD, SAMBA_MODE_ADD, SAMBA_MODE_MUL, SAMBA_MODE_AMAX, SAMBA_MODE_AMIN};
    samba_graph *g = p->graph;
    if (reduce < SAMBA_SCATTER_SUM || reduce > SAMBA_SCATTER_AMIN)
        return samba_graph_fail_at(g, SAMBA_ERROR_ARGUMENT, what,
                                   "there is no reduction %d: expected sum, mean, prod, amax or amin (0 to 4)", (int)reduce);
    if (source == SAMBA_NONE)
        return SAMBA_NONE;
    samba_dtype dtype = (samba_dtype)samba_node_at(g, p->a)->dtype;
    bool mean = reduce == SAMBA_SCATTER_MEAN;
    if (mean && dtype == SAMBA_BOOL)
        return samba_graph_fail_at(g, SAMBA_ERROR_DTYPE, what, "there is no mean of bool: cast it first");
    samba_ref base = p->a;
    if (exclude_self) {
        samba_node index = *samba_node_at(g, p->index);
        samba_ref nothing = samba_emit_expand(g, neutral(g, reduce, dtype), index.rank, index.shape);
        base = samba_emit_scatter(g, base, p->index, nothing, p->dim, SAMBA_MODE_SET, false);
    }
    samba_ref result = samba_emit_scatter(g, base, p->index, source, p->dim, modes[reduce], false);
    if (!mean || result == SAMBA_NONE)
        return result;
    /* halves count in float32: bfloat16 has no numbers between 256 and 258 */
    bool half = dtype == SAMBA_BFLOAT16 || dtype == SAMBA_FLOAT16;
    samba_dtype wide = half ? SAMBA_FLOAT32 : dtype;
    samba_ref ones = filled(g, 1, wide, p->index), start = filled(g, exclude_self ? 0 : 1, wide, p->a);
    samba_ref count = samba_emit_scatter(g, start, p->index, ones, p->dim, SAMBA_MODE_ADD, false);
    if (exclude_self)
        count = samba_emit2(g, SAMBA_OP_maximum, count, samba_emit_constant(g, 1, wide));
    if (samba_dtype_is_floating_point(dtype))
        return samba_emit_cast(g, samba_emit2(g, SAMBA_OP_div, samba_emit_cast(g, result, wide), count), dtype);
    count = samba_emit_cast(g, count, SAMBA_FLOAT64);
    result = samba_emit_cast(g, result, SAMBA_FLOAT64);
    samba_ref quotient = samba_emit2(g, SAMBA_OP_div, result, count);
    return samba_emit_cast(g, samba_emit1(g, SAMBA_OP_floor, quotient), dtype);
}

samba_value samba_scatter_reduce(samba_value a, int dim, samba_value index, samba_value source, samba_scatter_reduction reduce,
                                 bool exclude_self)
{
    indexed p;
    if (!enter("scatter_reduce", a, dim, index, &source, &p))
        return samba_trace_none(p.graph);
    SAMBA_SPEAKS(p.graph, "scatter_reduce");
    return leave(&p, reduced("scatter_reduce", &p, source_for("scatter_reduce", &p, source.index), reduce, exclude_self),
                 p.a_rank);
}

/* ---- slices of a dim ---- */

/* p->index becomes one of the shape that a has when its dim is as long as the index. */
static bool enter_slices(const char *what, samba_value a, int dim, samba_value index, const samba_value *source, indexed *p)
{
    if (!enter(what, a, dim, index, source, p))
        return false;
    samba_node x = *samba_node_at(p->graph, p->a), line = *samba_node_at(p->graph, p->index);
    if (line.rank != 1)
        return samba_graph_refuse(p->graph, SAMBA_ERROR_SHAPE, what, "expected an index of rank 1 or 0, given %s",
                                  SAMBA_TYPE_OF(&line));
    p->index = samba_trace_along(p->graph, p->index, x.rank, x.shape, p->dim);
    return p->index != SAMBA_NONE;
}

/* A source of just the index's shape; where the slices are numbers, it may be one. */
static samba_ref slices_for(const char *what, const indexed *p, samba_ref source)
{
    samba_node from = *samba_node_at(p->graph, source), index = *samba_node_at(p->graph, p->index);
    if (from.rank == 0 && index.rank == 1 && index.shape[0] == 1) {
        source = samba_emit_reshape(p->graph, source, 1, (int64_t[]){1});
        from = *samba_node_at(p->graph, source);
    }
    if (from.dtype != samba_node_at(p->graph, p->a)->dtype || !samba_shape_equal(from.rank, from.shape, index.rank, index.shape))
        return samba_graph_fail_at(p->graph, SAMBA_ERROR_SHAPE, what,
                                   "expected a source %s%s, as the input but for dim %d, which is as long as the index, given %s",
                                   samba_dtype_name((samba_dtype)samba_node_at(p->graph, p->a)->dtype), SAMBA_SHAPE_OF(&index),
                                   p->dim, SAMBA_TYPE_OF(&from));
    return source;
}

samba_value samba_index_select(samba_value a, int dim, samba_value index)
{
    indexed p;
    if (!enter_slices("index_select", a, dim, index, NULL, &p))
        return samba_trace_none(p.graph);
    SAMBA_SPEAKS(p.graph, "index_select");
    return leave(&p, samba_emit_gather(p.graph, p.a, p.index, p.dim, false), p.a_rank);
}

static samba_value write_slices(const char *what, samba_value a, int dim, samba_value index, samba_value source,
                                samba_scatter_mode mode, double alpha)
{
    indexed p;
    if (!enter_slices(what, a, dim, index, &source, &p))
        return samba_trace_none(p.graph);
    SAMBA_SPEAKS(p.graph, what);
    samba_ref rows = slices_for(what, &p, source.index);
    if (alpha != 1 && rows != SAMBA_NONE)
        rows = samba_emit_scalar(p.graph, SAMBA_OP_mul, rows, alpha);
    return leave(&p, samba_emit_scatter(p.graph, p.a, p.index, rows, p.dim, mode, false), p.a_rank);
}

samba_value samba_index_add(samba_value a, int dim, samba_value index, samba_value source, double alpha)
{
    return write_slices("index_add", a, dim, index, source, SAMBA_MODE_ADD, alpha);
}

samba_value samba_index_copy(samba_value a, int dim, samba_value index, samba_value source)
{
    return write_slices("index_copy", a, dim, index, source, SAMBA_MODE_SET, 1);
}

samba_value samba_index_fill(samba_value a, int dim, samba_value index, double value)
{
    indexed p;
    if (!enter_slices("index_fill", a, dim, index, NULL, &p))
        return samba_trace_none(p.graph);
    SAMBA_SPEAKS(p.graph, "index_fill");
    samba_ref rows = filled(p.graph, value, (samba_dtype)samba_node_at(p.graph, p.a)->dtype, p.index);
    return leave(&p, samba_emit_scatter(p.graph, p.a, p.index, rows, p.dim, SAMBA_MODE_SET, true), p.a_rank);
}

samba_value samba_index_reduce(samba_value a, int dim, samba_value index, samba_value source, samba_scatter_reduction reduce,
                               bool exclude_self)
{
    indexed p;
    if (!enter_slices("index_reduce", a, dim, index, &source, &p))
        return samba_trace_none(p.graph);
    SAMBA_SPEAKS(p.graph, "index_reduce");
    return leave(&p, reduced("index_reduce", &p, slices_for("index_reduce", &p, source.index), reduce, exclude_self), p.a_rank);
}
