/* SPDX-License-Identifier: Apache-2.0
 *
 * Operators with a kernel of matrices, each of the last two dims; dims before are a batch. Composites over them stand in solve.c
 * and spectrum.c. One node has one result, so what has several gives them in one matrix, below each other:
 *
 *   cholesky(a)                 L, lower triangular, with L L^T = a, of which the lower triangle counts
 *   triangular_solve(a, b; upper, unit)   x with a x = b; the other triangle of a does not count, nor with `unit` its diagonal,
 *                               which is 1. A diagonal of 0 gives infinities
 *   lu_factors(a; singular)     (n + 1, n): U, and below its diagonal L, whose diagonal is 1; the last row: row i was exchanged
 *                               with row number i of it. A singular a is an error but with `singular`
 *   lu_solve(lu, b; transposed) x with a x = b or a^T x = b
 *   lu_inverse(lu)              x with a x = 1
 *   qr_factors(a)               (m + n, k), k the lesser of m and n: Q, and R transposed. Signs are those of Householder's
 *                               reflections as LAPACK has them
 *   eigh_factors(a; values)     (1 + n, n): values, ascending, then vectors in columns; `values`: these alone. The lower triangle
 *                               counts
 *   svd_factors(a; values)      (m + 1 + n, k): U, the values, descending, V; `values`: these alone
 *   matrix_exp(a)
 *
 * The first element of a vector that is more than 0.37 of its greatest, of the SVD in U, is positive. A matrix that has no
 * result, not positive definite, singular, with NaN where vectors are sought, is an error.
 *
 * Gradients, g of the result: of cholesky L^-T S L^-1 with S half of L^T g, its lower triangle mirrored (Murray 2016); of
 * triangular_solve db = a^-T g, da = -db x^T in the triangle; of matrix_exp the corner of exp of [a^T g; 0 a^T] (Al-Mohy and
 * Higham 2009). The factors' own are those of the composites. */
#include "ops/matrix.h"

#include <math.h>

/* ---- inference ---- */

samba_status samba_infer_square(samba_infer *infer)
{
    SAMBA_TRY(samba_infer_need_matrix(infer, 0, true));
    return samba_infer_set_like(infer, 0);
}

/* a of some rows more than columns, and right sides. */
static samba_status infer_solve(samba_infer *infer, int more)
{
    const samba_node *a = infer->inputs[0], *b = infer->inputs[1];
    SAMBA_TRY(samba_infer_need_matrix(infer, 0, false));
    SAMBA_TRY(samba_infer_need_same_dtype(infer, 0, 1));
    bool fits = a->rank == b->rank && samba_rows_of(a) == samba_columns_of(a) + more && samba_rows_of(b) == samba_columns_of(a);
    for (int i = 0; fits && i < a->rank - 2; i++)
        fits = a->shape[i] == b->shape[i];
    if (!fits)
        return samba_infer_fail(infer, SAMBA_ERROR_SHAPE,
                                "expected matrices (..., N%s, N) and right sides (..., N, K) of the same batch, given %s and %s",
                                more ? " + 1" : "", SAMBA_SHAPE_OF(a), SAMBA_SHAPE_OF(b));
    return samba_infer_set_like(infer, 1);
}

samba_status samba_infer_solve(samba_infer *infer) { return infer_solve(infer, 0); }
samba_status samba_infer_lu_solve(samba_infer *infer) { return infer_solve(infer, 1); }

samba_status samba_infer_lu_factors(samba_infer *infer)
{
    SAMBA_TRY(samba_infer_need_matrix(infer, 0, true));
    return samba_infer_set_matrix(infer, samba_rows_of(infer->inputs[0]) + 1, samba_columns_of(infer->inputs[0]));
}

samba_status samba_infer_lu_inverse(samba_infer *infer)
{
    const samba_node *lu = infer->inputs[0];
    SAMBA_TRY(samba_infer_need_matrix(infer, 0, false));
    if (samba_rows_of(lu) != samba_columns_of(lu) + 1)
        return samba_infer_fail(infer, SAMBA_ERROR_SHAPE, "expected factors (..., N + 1, N) as lu_factors gives them, given %s",
                                SAMBA_SHAPE_OF(lu));
    return samba_infer_set_matrix(infer, samba_columns_of(lu), samba_columns_of(lu));
}

samba_status samba_infer_qr_factors(samba_infer *infer)
{
    SAMBA_TRY(samba_infer_need_matrix(infer, 0, false));
    const int64_t m = samba_rows_of(infer->inputs[0]), n = samba_columns_of(infer->inputs[0]);
    return samba_infer_set_matrix(infer, m + n, m < n ? m : n);
}

samba_status samba_infer_eigh_factors(samba_infer *infer)
{
    SAMBA_TRY(samba_infer_need_matrix(infer, 0, true));
    const int64_t n = samba_columns_of(infer->inputs[0]);
    return samba_infer_set_matrix(infer, infer->attrs->spectrum.values ? 1 : 1 + n, n);
}

samba_status samba_infer_svd_factors(samba_infer *infer)
{
    SAMBA_TRY(samba_infer_need_matrix(infer, 0, false));
    const int64_t m = samba_rows_of(infer->inputs[0]), n = samba_columns_of(infer->inputs[0]);
    return samba_infer_set_matrix(infer, infer->attrs->spectrum.values ? 1 : m + 1 + n, m < n ? m : n);
}

/* ---- gradients ---- */

samba_status samba_vjp_cholesky(samba_vjp *vjp)
{
    samba_graph *graph = vjp->graph;
    samba_ref l = vjp->output, turned = samba_emit_turned(graph, l);
    samba_ref slopes = samba_emit_scalar(graph, SAMBA_OP_mul, samba_emit_product(graph, turned, vjp->gradient), 0.5);
    samba_ref mean = samba_emit_where_rows(graph, slopes, SAMBA_OP_ge, samba_emit_turned(graph, slopes));
    samba_ref left = samba_emit_triangular_solve(graph, turned, mean, true, false);
    samba_ref right = samba_emit_triangular_solve(graph, turned, samba_emit_turned(graph, left), true, false);
    return samba_vjp_deliver(vjp, 0, right);
}

samba_status samba_vjp_triangular_solve(samba_vjp *vjp)
{
    samba_graph *graph = vjp->graph;
    const samba_attrs_triangular attrs = vjp->node->attrs->triangular;
    const bool upper = attrs.upper != 0, unit = attrs.unit != 0;
    samba_ref x = vjp->output, turned = samba_emit_turned(graph, vjp->inputs[0]);
    samba_ref db = samba_emit_triangular_solve(graph, turned, vjp->gradient, !upper, unit);
    if (vjp->needed[1])
        samba_vjp_deliver(vjp, 1, db);
    if (!vjp->needed[0])
        return SAMBA_OK;
    samba_ref negative = samba_emit1(graph, SAMBA_OP_neg, db);
    samba_ref da = samba_emit_product(graph, negative, samba_emit_turned(graph, x));
    const samba_op relation = upper ? unit ? SAMBA_OP_lt : SAMBA_OP_le : unit ? SAMBA_OP_gt : SAMBA_OP_ge;
    return samba_vjp_deliver(vjp, 0, samba_emit_where_rows(graph, da, relation, SAMBA_NONE));
}

samba_status samba_vjp_matrix_exp(samba_vjp *vjp)
{
    samba_graph *graph = vjp->graph;
    const samba_node node = *vjp->node;
    const int64_t n = samba_columns_of(&node);
    samba_ref turned = samba_emit_turned(graph, vjp->inputs[0]), zeros = samba_emit_constant(graph, 0, (samba_dtype)node.dtype);
    zeros = samba_emit_expand(graph, zeros, node.rank, node.shape);
    samba_attrs across = {.axis = {.dim = node.rank - 1}}, below = {.axis = {.dim = node.rank - 2}};
    samba_ref halves[2];
    halves[0] = samba_emit(graph, SAMBA_OP_concat, 2, (samba_ref[]){turned, vjp->gradient}, &across);
    halves[1] = samba_emit(graph, SAMBA_OP_concat, 2, (samba_ref[]){zeros, turned}, &across);
    samba_ref block = samba_emit(graph, SAMBA_OP_concat, 2, halves, &below);
    samba_ref all = samba_emit1(graph, SAMBA_OP_matrix_exp, block);
    return samba_vjp_deliver(vjp, 0, samba_emit_columns(graph, samba_emit_rows(graph, all, 0, n), n, 2 * n));
}

/* ---- flops, as textbooks count them ---- */

static int64_t flops_of(const samba_node *node, double of_one)
{
    for (int i = 0; i < node->rank - 2; i++)
        of_one *= (double)node->shape[i];
    return (int64_t)fmin(of_one, 9e18);
}

int64_t samba_flops_cholesky(const samba_node *node, const samba_node *const *inputs)
{
    const double n = (double)samba_columns_of(inputs[0]);
    return flops_of(node, n * n * n / 3);
}

int64_t samba_flops_triangular_solve(const samba_node *node, const samba_node *const *inputs)
{
    const double n = (double)samba_columns_of(inputs[0]);
    return flops_of(node, n * n * (double)samba_columns_of(node));
}

int64_t samba_flops_lu_factors(const samba_node *node, const samba_node *const *inputs)
{
    const double n = (double)samba_columns_of(inputs[0]);
    return flops_of(node, 2 * n * n * n / 3);
}

int64_t samba_flops_lu_solve(const samba_node *node, const samba_node *const *inputs)
{
    return (int64_t)fmin(2 * (double)samba_flops_triangular_solve(node, inputs), 9e18);
}

int64_t samba_flops_lu_inverse(const samba_node *node, const samba_node *const *inputs)
{
    return (int64_t)fmin(2 * (double)samba_flops_lu_factors(node, inputs), 9e18);
}

static double product_of_sizes(const samba_node *a)
{
    const double m = (double)samba_rows_of(a), n = (double)samba_columns_of(a);
    return m * n * fmin(m, n);
}

int64_t samba_flops_qr_factors(const samba_node *node, const samba_node *const *inputs)
{
    return flops_of(node, 4 * product_of_sizes(inputs[0]));
}

int64_t samba_flops_eigh_factors(const samba_node *node, const samba_node *const *inputs)
{
    return flops_of(node, (node->attrs->spectrum.values ? 4.0 / 3 : 9) * product_of_sizes(inputs[0]));
}

int64_t samba_flops_svd_factors(const samba_node *node, const samba_node *const *inputs)
{
    return flops_of(node, (node->attrs->spectrum.values ? 8.0 / 3 : 22) * product_of_sizes(inputs[0]));
}

int64_t samba_flops_matrix_exp(const samba_node *node, const samba_node *const *inputs)
{
    return flops_of(node, 20 * product_of_sizes(inputs[0])); /* of a matrix of norm 10 or so */
}
