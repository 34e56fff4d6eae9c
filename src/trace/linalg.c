/* SPDX-License-Identifier: Apache-2.0
 *
 * Products of matrices. */
#include "trace/trace.h"

#include <math.h>
#include <sambaflow/elementwise.h>
#include <sambaflow/linalg.h>
#include <sambaflow/reduce.h>
#include <sambaflow/shape.h>

/* Enters with two values of these ranks. */
static bool enter_ranks(const char *what, samba_value a, int a_rank, samba_value b, int b_rank, samba_graph **graph)
{
    if (!samba_trace_enter(what, 2, (samba_value[]){a, b}, graph))
        return false;
    if (samba_value_rank(a) == a_rank && samba_value_rank(b) == b_rank)
        return true;
    samba_node left = samba_trace_node(a), right = samba_trace_node(b);
    return samba_graph_refuse(*graph, SAMBA_ERROR_SHAPE, what, "expected a value of %d dim%s and one of %d, given %s and %s",
                              a_rank, a_rank == 1 ? "" : "s", b_rank, SAMBA_TYPE_OF(&left), SAMBA_TYPE_OF(&right));
}

/* The same of two that are multiplied: of one dtype, which is not bool, and as many columns as rows. */
static bool enter_product(const char *what, samba_value a, int a_rank, samba_value b, int b_rank, samba_graph **graph)
{
    if (!enter_ranks(what, a, a_rank, b, b_rank, graph))
        return false;
    samba_dtype left = samba_value_dtype(a), right = samba_value_dtype(b);
    int64_t columns = samba_value_size(a, a_rank - 1), rows = samba_value_size(b, b_rank > 1 ? b_rank - 2 : 0);
    if (left == right && left != SAMBA_BOOL && columns == rows)
        return true;
    if (left != right || left == SAMBA_BOOL)
        return samba_graph_refuse(*graph, SAMBA_ERROR_DTYPE, what,
                                  "expected factors of one dtype, floats or integers, given %s and %s; cast one of them",
                                  samba_dtype_name(left), samba_dtype_name(right));
    return samba_graph_refuse(*graph, SAMBA_ERROR_SHAPE, what,
                              "expected as many %s as the second has %s, given %lld and %lld; transpose or reshape one",
                              a_rank == 1 ? "elements of the first" : "columns of the first", b_rank == 1 ? "elements" : "rows",
                              (long long)columns, (long long)rows);
}

samba_value samba_matmul(samba_value a, samba_value b)
{
    samba_graph *graph;
    if (!samba_trace_enter("matmul", 2, (samba_value[]){a, b}, &graph))
        return samba_trace_none(graph);
    samba_node left = samba_trace_node(a), right = samba_trace_node(b);
    if (left.rank == 0 || right.rank == 0)
        return samba_trace_fail(graph, SAMBA_ERROR_SHAPE, "matmul", "both operands need at least one dim, given ranks %d and %d",
                                left.rank, right.rank);
    int64_t columns_of_left = left.shape[left.rank - 1], rows_of_right = right.shape[right.rank == 1 ? 0 : right.rank - 2];
    if ((left.rank == 1 || right.rank == 1) && columns_of_left != rows_of_right) { /* in the shapes that were given */
        return samba_trace_fail(
            graph, SAMBA_ERROR_SHAPE, "matmul",
            "expected (..., M, K) or (K), and (..., K, N) or (K), given %s and %s: K is %lld in the first and %lld in the second",
            SAMBA_TYPE_OF(&left), SAMBA_TYPE_OF(&right), (long long)columns_of_left, (long long)rows_of_right);
    }
    /* A vector is a row on the left, a column on the right, and its dim of 1 leaves the result. */
    samba_ref rows = left.rank == 1 ? samba_emit_reshape(graph, a.index, 2, (int64_t[]){1, left.shape[0]}) : a.index;
    samba_ref columns = right.rank == 1 ? samba_emit_reshape(graph, b.index, 2, (int64_t[]){right.shape[0], 1}) : b.index;
    samba_ref product = samba_emit_cast(graph, samba_emit2(graph, SAMBA_OP_matmul, rows, columns), left.dtype);
    if (product == SAMBA_NONE || (left.rank > 1 && right.rank > 1))
        return samba_trace_value(graph, product);
    const samba_node *result = samba_node_at(graph, product);
    int64_t shape[SAMBA_MAX_RANK];
    int rank = 0;
    for (int d = 0; d < result->rank; d++)
        if (!(left.rank == 1 && d == result->rank - 2) && !(right.rank == 1 && d == result->rank - 1))
            shape[rank++] = result->shape[d];
    return samba_trace_value(graph, samba_emit_reshape(graph, product, rank, shape));
}

samba_value samba_mm(samba_value a, samba_value b)
{
    samba_graph *graph;
    return enter_product("mm", a, 2, b, 2, &graph) ? samba_matmul(a, b) : samba_trace_none(graph);
}

static bool enter_batched(const char *what, samba_value a, samba_value b, samba_graph **graph)
{
    if (!enter_product(what, a, 3, b, 3, graph))
        return false;
    if (samba_value_size(a, 0) == samba_value_size(b, 0))
        return true;
    return samba_graph_refuse(*graph, SAMBA_ERROR_SHAPE, what, "expected as many matrices on both sides, given %lld and %lld",
                              (long long)samba_value_size(a, 0), (long long)samba_value_size(b, 0));
}

samba_value samba_bmm(samba_value a, samba_value b)
{
    samba_graph *graph;
    return enter_batched("bmm", a, b, &graph) ? samba_matmul(a, b) : samba_trace_none(graph);
}

samba_value samba_mv(samba_value a, samba_value b)
{
    samba_graph *graph;
    return enter_product("mv", a, 2, b, 1, &graph) ? samba_matmul(a, b) : samba_trace_none(graph);
}

samba_value samba_dot(samba_value a, samba_value b)
{
    samba_graph *graph;
    return enter_product("dot", a, 1, b, 1, &graph) ? samba_matmul(a, b) : samba_trace_none(graph);
}

samba_value samba_outer(samba_value a, samba_value b)
{
    samba_graph *graph;
    if (!enter_ranks("outer", a, 1, b, 1, &graph))
        return samba_trace_none(graph);
    b = samba_reshape(b, 2, (int64_t[]){1, samba_value_size(b, 0)});
    a = samba_reshape(a, 2, (int64_t[]){samba_value_size(a, 0), 1});
    return samba_mul(a, b);
}

samba_value samba_kron(samba_value a, samba_value b)
{
    samba_graph *graph;
    if (!samba_trace_enter("kron", 2, (samba_value[]){a, b}, &graph))
        return samba_trace_none(graph);
    samba_node left = samba_trace_node(a), right = samba_trace_node(b);
    int rank = left.rank > right.rank ? left.rank : right.rank;
    if (2 * rank > SAMBA_MAX_RANK)
        return samba_trace_fail(graph, SAMBA_ERROR_SHAPE, "kron", "expected values of up to %d dims, given ranks %d and %d",
                                SAMBA_MAX_RANK / 2, left.rank, right.rank);
    int64_t spread_a[SAMBA_MAX_RANK], spread_b[SAMBA_MAX_RANK], shape[SAMBA_MAX_RANK]; /* dims of a and b by turns */
    for (int d = 0; d < rank; d++) {
        int i = d - (rank - left.rank), j = d - (rank - right.rank);
        spread_a[2 * d] = i < 0 ? 1 : left.shape[i];
        spread_b[2 * d + 1] = j < 0 ? 1 : right.shape[j];
        spread_a[2 * d + 1] = spread_b[2 * d] = 1;
        shape[d] = spread_a[2 * d] * spread_b[2 * d + 1];
    }
    b = samba_reshape(b, 2 * rank, spread_b);
    a = samba_reshape(a, 2 * rank, spread_a);
    return samba_reshape(samba_mul(a, b), rank, shape);
}

/* ---- beta * input + alpha * product ---- */

/* Rounded once: `product` is float32 for 16-bit floats. */
static samba_value added(const char *what, samba_value input, samba_ref product, samba_dtype dtype, double beta, double alpha)
{
    samba_graph *graph = input.graph;
    if (product == SAMBA_NONE)
        return samba_trace_none(graph);
    samba_node node = *samba_node_at(graph, product), of = samba_trace_node(input);
    if (!samba_dtype_is_floating_point(dtype)) {
        alpha = trunc(alpha);
        beta = trunc(beta);
    }
    bool fits = of.rank <= node.rank && of.dtype == dtype;
    for (int d = 1; d <= of.rank && fits; d++)
        fits = of.shape[of.rank - d] == 1 || of.shape[of.rank - d] == node.shape[node.rank - d];
    if (!fits)
        return samba_trace_fail(graph, of.dtype == dtype ? SAMBA_ERROR_SHAPE : SAMBA_ERROR_DTYPE, what,
                                "expected an input of %s that broadcasts to the product, %s, given %s", samba_dtype_name(dtype),
                                SAMBA_SHAPE_OF(&node), SAMBA_TYPE_OF(&of));
    samba_ref result = alpha == 1 ? product : samba_emit_scalar(graph, SAMBA_OP_mul, product, alpha);
    if (beta != 0) {
        samba_ref base = samba_emit_cast(graph, input.index, node.dtype);
        result = samba_emit2(graph, SAMBA_OP_add, beta == 1 ? base : samba_emit_scalar(graph, SAMBA_OP_mul, base, beta), result);
    }
    return samba_trace_value(graph, samba_emit_cast(graph, result, dtype));
}

samba_value samba_addmm(samba_value input, samba_value a, samba_value b, double beta, double alpha)
{
    samba_graph *graph;
    if (!samba_trace_enter("addmm", 3, (samba_value[]){input, a, b}, &graph) || !enter_product("addmm", a, 2, b, 2, &graph))
        return samba_trace_none(graph);
    return added("addmm", input, samba_emit2(graph, SAMBA_OP_matmul, a.index, b.index), samba_value_dtype(a), beta, alpha);
}

samba_value samba_addmv(samba_value input, samba_value a, samba_value b, double beta, double alpha)
{
    samba_graph *graph;
    if (!samba_trace_enter("addmv", 3, (samba_value[]){input, a, b}, &graph) || !enter_product("addmv", a, 2, b, 1, &graph))
        return samba_trace_none(graph);
    samba_ref column = samba_emit_reshape(graph, b.index, 2, (int64_t[]){samba_value_size(b, 0), 1});
    samba_ref product = samba_emit2(graph, SAMBA_OP_matmul, a.index, column);
    return added("addmv", input, samba_emit_reshape(graph, product, 1, (int64_t[]){samba_value_size(a, 0)}), samba_value_dtype(a),
                 beta, alpha);
}

samba_value samba_baddbmm(samba_value input, samba_value a, samba_value b, double beta, double alpha)
{
    samba_graph *graph;
    if (!samba_trace_enter("baddbmm", 3, (samba_value[]){input, a, b}, &graph) || !enter_batched("baddbmm", a, b, &graph))
        return samba_trace_none(graph);
    return added("baddbmm", input, samba_emit2(graph, SAMBA_OP_matmul, a.index, b.index), samba_value_dtype(a), beta, alpha);
}

/* The matrices of a side by side times those of b on top of each other: one product. */
samba_value samba_addbmm(samba_value input, samba_value a, samba_value b, double beta, double alpha)
{
    samba_graph *graph;
    if (!samba_trace_enter("addbmm", 3, (samba_value[]){input, a, b}, &graph) || !enter_batched("addbmm", a, b, &graph))
        return samba_trace_none(graph);
    int64_t count = samba_value_size(a, 0), rows = samba_value_size(a, 1), depth = samba_value_size(a, 2),
            columns = samba_value_size(b, 2);
    samba_ref wide =
        samba_emit_reshape(graph, samba_emit_permute(graph, a.index, (int64_t[]){1, 0, 2}), 2, (int64_t[]){rows, count * depth});
    samba_ref tall = samba_emit_reshape(graph, b.index, 2, (int64_t[]){count * depth, columns});
    return added("addbmm", input, samba_emit2(graph, SAMBA_OP_matmul, wide, tall), samba_value_dtype(a), beta, alpha);
}

samba_value samba_addr(samba_value input, samba_value a, samba_value b, double beta, double alpha)
{
    samba_graph *graph;
    if (!samba_trace_enter("addr", 3, (samba_value[]){input, a, b}, &graph) || !enter_ranks("addr", a, 1, b, 1, &graph))
        return samba_trace_none(graph);
    samba_ref column = samba_emit_reshape(graph, a.index, 2, (int64_t[]){samba_value_size(a, 0), 1});
    samba_ref row = samba_emit_reshape(graph, b.index, 2, (int64_t[]){1, samba_value_size(b, 0)});
    return added("addr", input, samba_emit2(graph, SAMBA_OP_matmul, column, row), samba_value_dtype(a), beta, alpha);
}

/* ---- chains ---- */

#define LONGEST_CHAIN 64

/* Matrix i is sizes[i] x sizes[i + 1]; the product of matrices first to last, cut where it costs least. */
typedef struct chain {
    const samba_value *matrices;
    double cost[LONGEST_CHAIN][LONGEST_CHAIN];
    int cut[LONGEST_CHAIN][LONGEST_CHAIN];
} chain;

static samba_value multiplied(const chain *c, int first, int last)
{
    if (first == last)
        return c->matrices[first];
    samba_value right = multiplied(c, c->cut[first][last] + 1, last), left = multiplied(c, first, c->cut[first][last]);
    return samba_matmul(left, right);
}

samba_value samba_multi_dot(int count, const samba_value *matrices)
{
    samba_graph *graph;
    chain c = {.matrices = matrices};
    double sizes[LONGEST_CHAIN + 1];
    if (count < 1 || !matrices)
        return samba_trace_none(NULL);
    if (!samba_trace_enter("multi_dot", count, matrices, &graph))
        return samba_trace_none(graph);
    if (count < 2 || count > LONGEST_CHAIN)
        return samba_trace_fail(graph, SAMBA_ERROR_ARGUMENT, "multi_dot", "expected 2 to %d matrices, given %d", LONGEST_CHAIN,
                                count);
    for (int i = 0; i < count; i++) {
        int rank = samba_value_rank(matrices[i]);
        bool end = i == 0 || i == count - 1;
        if (rank != 2 && !(end && rank == 1))
            return samba_trace_fail(graph, SAMBA_ERROR_SHAPE, "multi_dot", "expected a matrix%s at position %d, given rank %d",
                                    end ? " or a vector" : "", i, rank);
        sizes[i] = i == 0 && rank == 1 ? 1 : (double)samba_value_size(matrices[i], 0);
        sizes[i + 1] = i > 0 && rank == 1 ? 1 : (double)samba_value_size(matrices[i], rank - 1);
    }
    for (int length = 2; length <= count; length++)
        for (int first = 0, last; (last = first + length - 1) < count; first++) {
            c.cost[first][last] = INFINITY;
            for (int cut = first; cut < last; cut++) {
                double cost = c.cost[first][cut] + c.cost[cut + 1][last] + sizes[first] * sizes[cut + 1] * sizes[last + 1];
                if (cost < c.cost[first][last]) {
                    c.cost[first][last] = cost;
                    c.cut[first][last] = cut;
                }
            }
        }
    return multiplied(&c, 0, count - 1);
}

/* ---- trace ---- */

samba_value samba_trace(samba_value a)
{
    samba_graph *graph;
    if (!samba_trace_enter("trace", 1, &a, &graph))
        return samba_trace_none(graph);
    if (samba_value_rank(a) != 2)
        return samba_trace_fail(graph, SAMBA_ERROR_SHAPE, "trace", "expected a matrix, given rank %d", samba_value_rank(a));
    return samba_sum(samba_diagonal(a, 0, 0, 1), 0, NULL, false);
}

/* ---- layers ---- */

samba_value samba_functional_linear(samba_value input, samba_value weight, samba_value bias)
{
    samba_graph *graph;
    if (!samba_trace_enter_optional("linear", 3, (samba_value[]){input, weight, bias}, &graph))
        return samba_trace_none(graph);
    samba_node x = samba_trace_node(input), w = samba_trace_node(weight);
    if (x.rank > 0 && w.rank == 2 && x.shape[x.rank - 1] != w.shape[1])
        return samba_trace_fail(graph, SAMBA_ERROR_SHAPE, "linear",
                                "the last dim of the input is %lld and the weight, (out_features, in_features), takes %lld "
                                "features: given an input %s and a weight %s; give an input of %lld features, or make the layer "
                                "for %lld",
                                (long long)x.shape[x.rank - 1], (long long)w.shape[1], SAMBA_TYPE_OF(&x), SAMBA_TYPE_OF(&w),
                                (long long)w.shape[1], (long long)x.shape[x.rank - 1]);
    if (x.rank == 0 || w.rank < 1 || w.rank > 2 || x.shape[x.rank - 1] != w.shape[w.rank - 1])
        return samba_trace_fail_shape(
            graph, "linear", "an input (..., in_features) and a weight (out_features, in_features) or (in_features)", &x, &w);
    if (x.dtype != w.dtype)
        return samba_trace_fail(graph, SAMBA_ERROR_DTYPE, "linear",
                                "expected an input and a weight of one dtype, given %s and %s; cast one of them",
                                samba_dtype_name(x.dtype), samba_dtype_name(w.dtype));
    samba_value result = samba_matmul(input, w.rank == 2 ? samba_transpose(weight, 0, 1) : weight);
    return bias.graph ? samba_add(result, bias) : result;
}

/* Each output sums over all pairs of the inputs' features: one product after the pairs were made. */
samba_value samba_functional_bilinear(samba_value input1, samba_value input2, samba_value weight, samba_value bias)
{
    samba_graph *graph;
    if (!samba_trace_enter_optional("bilinear", 4, (samba_value[]){input1, input2, weight, bias}, &graph))
        return samba_trace_none(graph);
    samba_node x = samba_trace_node(input1), y = samba_trace_node(input2), w = samba_trace_node(weight);
    bool fits = x.rank > 0 && x.rank == y.rank && w.rank == 3 && x.shape[x.rank - 1] == w.shape[1] &&
                y.shape[y.rank - 1] == w.shape[2] && samba_shape_equal(x.rank - 1, x.shape, y.rank - 1, y.shape) &&
                x.rank < SAMBA_MAX_RANK;
    if (!fits)
        return samba_trace_fail(graph, SAMBA_ERROR_SHAPE, "bilinear",
                                "expected inputs (..., n) and (..., m) and a weight (out, n, m), given %s, %s and %s",
                                SAMBA_TYPE_OF(&x), SAMBA_TYPE_OF(&y), SAMBA_TYPE_OF(&w));
    int rank = x.rank;
    int64_t n = w.shape[1], m = w.shape[2];
    x.shape[rank] = 1;
    y.shape[rank] = m;
    y.shape[rank - 1] = 1;
    input2 = samba_reshape(input2, rank + 1, y.shape);
    input1 = samba_reshape(input1, rank + 1, x.shape);
    samba_value pairs = samba_mul(input1, input2);
    x.shape[rank - 1] = n * m;
    weight = samba_reshape(weight, 2, (int64_t[]){w.shape[0], n * m});
    pairs = samba_reshape(pairs, rank, x.shape);
    return samba_functional_linear(pairs, weight, bias);
}
