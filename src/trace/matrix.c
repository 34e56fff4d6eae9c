/* SPDX-License-Identifier: Apache-2.0
 *
 * Dense linear algebra: batch dims that broadcast, vectors as columns, transposed forms, over the operators of ops/matrix.c. */
#include "trace/trace.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include <sambaflow/elementwise.h>
#include <sambaflow/linalg.h>
#include <sambaflow/shape.h>

enum { MANY = 8 }; /* how often as many right sides lstsq has as rows or columns to be a product with pinv */

/* ---- operands ---- */

static bool check(samba_graph *graph, const char *what, const samba_node *a, bool square)
{
    if (a->dtype != SAMBA_FLOAT32 && a->dtype != SAMBA_FLOAT64)
        return samba_graph_refuse(graph, SAMBA_ERROR_DTYPE, what, "expected matrices of float32 or float64, given %s; cast them",
                                  SAMBA_TYPE_OF(a));
    if (a->rank < 2 || (square && a->shape[a->rank - 1] != a->shape[a->rank - 2]))
        return samba_graph_refuse(graph, SAMBA_ERROR_SHAPE, what, "expected %s, given %s",
                                  square ? "square matrices (..., N, N)" : "matrices (..., M, N)", SAMBA_TYPE_OF(a));
    return true;
}

static bool enter(const char *what, samba_value a, bool square, samba_graph **graph)
{
    if (!samba_trace_enter(what, 1, &a, graph))
        return false;
    samba_node node = samba_trace_node(a);
    return check(*graph, what, &node, square);
}

static samba_value turned(samba_value a)
{
    return a.index == SAMBA_NONE ? a
                                 : samba_trace_value(a.graph, samba_emit_transpose(a.graph, a.index, samba_value_rank(a) - 2,
                                                                                   samba_value_rank(a) - 1));
}

static samba_value composed(samba_value a, samba_op op, const samba_attrs *attrs)
{
    return samba_trace_value(a.graph, samba_emit(a.graph, op, 1, &a.index, attrs));
}

static samba_value part_of(samba_value a, samba_op op, int64_t part)
{
    samba_attrs attrs = {.part = {.part = part}};
    return composed(a, op, &attrs);
}

/* Both with the batch dims that both have together, `rank` of them. */
static void spread(samba_value *values[2], const samba_node *nodes[2], int rank, const int64_t *batch)
{
    int64_t shape[SAMBA_MAX_RANK];
    for (int i = 0; i < 2; i++) {
        memcpy(shape, batch, sizeof shape);
        memcpy(shape + rank, nodes[i]->shape + nodes[i]->rank - 2, 2 * sizeof *shape);
        if (!samba_shape_equal(rank + 2, shape, nodes[i]->rank, nodes[i]->shape))
            *values[i] =
                samba_trace_value(values[i]->graph, samba_emit_expand(values[i]->graph, values[i]->index, rank + 2, shape));
    }
}

/* Both with the batch dims that both have together. a is (..., n, n); b has n rows, or columns without `left`. */
static bool enter_two(const char *what, samba_value *a, samba_value *b, bool left, samba_graph **graph)
{
    if (!samba_trace_enter(what, 2, (samba_value[]){*a, *b}, graph))
        return false;
    samba_node x = samba_trace_node(*a), y = samba_trace_node(*b);
    if (!check(*graph, what, &x, true) || !check(*graph, what, &y, false))
        return false;
    if (x.dtype != y.dtype)
        return samba_graph_refuse(*graph, SAMBA_ERROR_DTYPE, what,
                                  "expected both of one dtype, given %s and %s; cast one of them", SAMBA_TYPE_OF(&x),
                                  SAMBA_TYPE_OF(&y));
    int rank;
    int64_t batch[SAMBA_MAX_RANK];
    if (y.shape[y.rank - (left ? 2 : 1)] != x.shape[x.rank - 1] ||
        !samba_shape_broadcast(x.rank - 2, x.shape, y.rank - 2, y.shape, &rank, batch))
        return samba_graph_refuse(*graph, SAMBA_ERROR_SHAPE, what,
                                  "expected matrices (..., N, N) and right sides (..., %s), whose batch dims broadcast, given %s "
                                  "and %s",
                                  left ? "N, K" : "K, N", SAMBA_TYPE_OF(&x), SAMBA_TYPE_OF(&y));
    spread((samba_value *[]){a, b}, (const samba_node *[]){&x, &y}, rank, batch);
    return true;
}

/* ---- solving ---- */

samba_value samba_cholesky(samba_value a, bool upper)
{
    samba_graph *graph;
    if (!enter("cholesky", a, true, &graph))
        return samba_trace_none(graph);
    samba_value l = composed(upper ? turned(a) : a, SAMBA_OP_cholesky, NULL);
    return upper ? turned(l) : l;
}

samba_value samba_solve_triangular(samba_value a, samba_value b, bool upper, bool left, bool unitriangular)
{
    samba_graph *graph;
    if (!enter_two("solve_triangular", &a, &b, left, &graph))
        return samba_trace_none(graph);
    SAMBA_SPEAKS(graph, "solve_triangular");
    samba_attrs attrs = {.triangular = {.upper = upper == left, .unit = unitriangular}};
    samba_value matrix = left ? a : turned(a), right = left ? b : turned(b);
    samba_ref x = samba_emit(graph, SAMBA_OP_triangular_solve, 2, (samba_ref[]){matrix.index, right.index}, &attrs);
    samba_value result = samba_trace_value(graph, x);
    return left ? result : turned(result);
}

samba_value samba_solve(samba_value a, samba_value b, bool left)
{
    samba_graph *graph;
    if (!samba_trace_enter("solve", 2, (samba_value[]){a, b}, &graph))
        return samba_trace_none(graph);
    samba_node x = samba_trace_node(a), y = samba_trace_node(b);
    const bool vector = y.rank == 1 || (y.rank == x.rank - 1 && samba_shape_equal(y.rank, y.shape, x.rank - 1, x.shape));
    if (vector && left) {
        y.shape[y.rank] = 1;
        b = samba_trace_value(graph, samba_emit_reshape(graph, b.index, y.rank + 1, y.shape));
    }
    if (!enter_two("solve", &a, &b, left, &graph))
        return samba_trace_none(graph);
    SAMBA_SPEAKS(graph, "solve");
    samba_value matrix = left ? a : turned(a), right = left ? b : turned(b);
    samba_value result = samba_trace_value(graph, samba_emit2(graph, SAMBA_OP_solve, matrix.index, right.index));
    if (!vector || !left || result.index == SAMBA_NONE)
        return left ? result : turned(result);
    samba_node node = samba_trace_node(result);
    return samba_trace_value(graph, samba_emit_reshape(graph, result.index, node.rank - 1, node.shape));
}

samba_value samba_inv(samba_value a)
{
    samba_graph *graph;
    return enter("inv", a, true, &graph) ? composed(a, SAMBA_OP_inv, NULL) : samba_trace_none(graph);
}

samba_value samba_det(samba_value a)
{
    samba_graph *graph;
    return enter("det", a, true, &graph) ? composed(a, SAMBA_OP_det, NULL) : samba_trace_none(graph);
}

samba_value samba_slogdet(samba_value a, samba_value *logabsdet)
{
    samba_graph *graph;
    if (!logabsdet)
        return samba_trace_no_result("slogdet", a, "the logarithms");
    *logabsdet = samba_trace_none(a.graph);
    if (!enter("slogdet", a, true, &graph))
        return samba_trace_none(graph);
    *logabsdet = part_of(a, SAMBA_OP_slogdet, 1);
    return part_of(a, SAMBA_OP_slogdet, 0);
}

samba_value samba_logdet(samba_value a)
{
    samba_graph *graph;
    if (!enter("logdet", a, true, &graph))
        return samba_trace_none(graph);
    samba_value logarithm = part_of(a, SAMBA_OP_slogdet, 1), sign = part_of(a, SAMBA_OP_slogdet, 0);
    samba_ref negative = samba_emit_scalar(graph, SAMBA_OP_lt, sign.index, 0);
    samba_ref none = samba_emit_constant(graph, NAN, samba_value_dtype(a));
    return samba_trace_value(graph, samba_emit3(graph, SAMBA_OP_where, negative, none, logarithm.index));
}

/* ---- factors ---- */

samba_value samba_qr(samba_value a, samba_value *r)
{
    samba_graph *graph;
    if (!r)
        return samba_trace_no_result("qr", a, "R");
    *r = samba_trace_none(a.graph);
    if (!enter("qr", a, false, &graph))
        return samba_trace_none(graph);
    samba_value q = part_of(a, SAMBA_OP_qr, 0);
    *r = part_of(a, SAMBA_OP_qr, 1);
    return q;
}

samba_value samba_eigh(samba_value a, bool upper, samba_value *vectors)
{
    samba_graph *graph;
    if (!vectors)
        return samba_trace_no_result("eigh", a, "the vectors");
    *vectors = samba_trace_none(a.graph);
    if (!enter("eigh", a, true, &graph))
        return samba_trace_none(graph);
    samba_value lower = upper ? turned(a) : a, values = part_of(lower, SAMBA_OP_eigh, 0);
    *vectors = part_of(lower, SAMBA_OP_eigh, 1);
    return values;
}

samba_value samba_eigvalsh(samba_value a, bool upper)
{
    samba_graph *graph;
    if (!enter("eigvalsh", a, true, &graph))
        return samba_trace_none(graph);
    return part_of(upper ? turned(a) : a, SAMBA_OP_eigh, 2);
}

samba_value samba_svd(samba_value a, samba_value *s, samba_value *vh)
{
    samba_graph *graph;
    if (!s || !vh)
        return samba_trace_no_result("svd", a, "the values or Vh");
    *s = *vh = samba_trace_none(a.graph);
    if (!enter("svd", a, false, &graph))
        return samba_trace_none(graph);
    samba_value u = part_of(a, SAMBA_OP_svd, 0);
    *s = part_of(a, SAMBA_OP_svd, 1);
    *vh = part_of(a, SAMBA_OP_svd, 2);
    return u;
}

samba_value samba_svdvals(samba_value a)
{
    samba_graph *graph;
    return enter("svdvals", a, false, &graph) ? part_of(a, SAMBA_OP_svd, 3) : samba_trace_none(graph);
}

/* Below which part of the greatest singular value others are rounding. */
static double rounding_of(const samba_node *a)
{
    const int64_t m = a->shape[a->rank - 2], n = a->shape[a->rank - 1];
    return (a->dtype == SAMBA_FLOAT64 ? DBL_EPSILON : (double)FLT_EPSILON) * (double)(m > n ? m : n);
}

samba_value samba_pinv(samba_value a, double atol, double rtol)
{
    samba_graph *graph;
    if (!enter("pinv", a, false, &graph))
        return samba_trace_none(graph);
    samba_node node = samba_trace_node(a);
    if (rtol < 0)
        rtol = atol > 0 ? 0 : rounding_of(&node);
    SAMBA_SPEAKS(graph, "pinv");
    samba_attrs attrs = {.cutoff = {.atol = atol, .rtol = rtol}};
    return composed(a, SAMBA_OP_pinv, &attrs);
}

samba_value samba_lstsq(samba_value a, samba_value b, double rcond)
{
    samba_graph *graph;
    if (!samba_trace_enter("lstsq", 2, (samba_value[]){a, b}, &graph))
        return samba_trace_none(graph);
    samba_node x = samba_trace_node(a), y = samba_trace_node(b);
    if (!check(graph, "lstsq", &x, false) || !check(graph, "lstsq", &y, false))
        return samba_trace_none(graph);
    int rank;
    int64_t batch[SAMBA_MAX_RANK];
    if (x.dtype != y.dtype || x.shape[x.rank - 2] != y.shape[y.rank - 2] ||
        !samba_shape_broadcast(x.rank - 2, x.shape, y.rank - 2, y.shape, &rank, batch))
        return samba_trace_fail(graph, SAMBA_ERROR_SHAPE, "lstsq",
                                "expected matrices (..., M, N) and right sides (..., M, K) of one dtype, whose batch dims "
                                "broadcast, given %s and %s",
                                SAMBA_TYPE_OF(&x), SAMBA_TYPE_OF(&y));
    SAMBA_SPEAKS(graph, "lstsq");
    spread((samba_value *[]){&a, &b}, (const samba_node *[]){&x, &y}, rank, batch);
    rcond = rcond < 0 ? rounding_of(&x) : rcond;
    const int64_t m = x.shape[x.rank - 2], n = x.shape[x.rank - 1], right = y.shape[y.rank - 1];
    if (right / MANY > (m > n ? m : n)) /* a product is then much faster than a system */
        return samba_matmul(samba_pinv(a, 0, rcond), b);
    samba_attrs attrs = {.rcond = {.rcond = rcond}};
    return samba_trace_value(graph, samba_emit(graph, SAMBA_OP_lstsq, 2, (samba_ref[]){a.index, b.index}, &attrs));
}

/* ---- functions of matrices ---- */

samba_value samba_matrix_power(samba_value a, int64_t n)
{
    samba_graph *graph;
    if (!enter("matrix_power", a, true, &graph))
        return samba_trace_none(graph);
    if (n < -(1 << 20) || n > 1 << 20)
        return samba_trace_fail(graph, SAMBA_ERROR_ARGUMENT, "matrix_power", "expected a power of at most 2^20, given %lld",
                                (long long)n);
    SAMBA_SPEAKS(graph, "matrix_power");
    samba_node node = samba_trace_node(a);
    if (n == 0) {
        samba_value one = samba_eye(graph, node.shape[node.rank - 1], node.shape[node.rank - 1], (samba_dtype)node.dtype);
        return samba_expand(one, node.rank, node.shape);
    }
    samba_value square = n < 0 ? samba_inv(a) : a, result = square;
    bool begun = false;
    for (int64_t rest = n < 0 ? -n : n; rest > 0; rest /= 2) {
        if (rest % 2)
            result = begun ? samba_matmul(result, square) : square;
        begun = begun || rest % 2;
        if (rest > 1)
            square = samba_matmul(square, square);
    }
    return result;
}

samba_value samba_matrix_exp(samba_value a)
{
    samba_graph *graph;
    if (!enter("matrix_exp", a, true, &graph))
        return samba_trace_none(graph);
    samba_node node = samba_trace_node(a);
    SAMBA_SPEAKS(graph, "matrix_exp");
    if (node.shape[node.rank - 1] == 1)
        return samba_exp(a); /* of a number, by vectors */
    return composed(a, SAMBA_OP_matrix_exp, NULL);
}
