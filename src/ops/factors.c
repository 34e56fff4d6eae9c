/* SPDX-License-Identifier: Apache-2.0
 *
 * Gradients of factors (matrix.c). Factors come into a graph where a gradient of a composite over them is formed, so these are
 * what second derivatives of solve, inv, det, qr, eigh, svd and pinv go through.
 *
 * Of lu_factors, for a = P L U and g in the layout of the factors: P L^-T M U^-T, M the strictly lower triangle of L^T g_L and
 * the upper one of g_U U^T (Walter and Lehmann 2010). Of lu_solve, with x = a^-1 b: db = a^-T g and da = -db x^T, of which the
 * factors have L^T P^T da in U and P^T da U^T below; of lu_inverse the same with b the identity. Of the others the sum of what
 * their parts have (spectrum.c). */
#include "ops/matrix.h"

static samba_ref zeros_like(samba_graph *graph, samba_ref a)
{
    if (a == SAMBA_NONE)
        return a;
    const samba_node node = *samba_node_at(graph, a);
    samba_ref zero = samba_emit_constant(graph, 0, (samba_dtype)node.dtype);
    return samba_emit_expand(graph, zero, node.rank, node.shape);
}

static samba_ref below_each_other(samba_graph *graph, samba_ref above, samba_ref below)
{
    if (above == SAMBA_NONE || below == SAMBA_NONE)
        return SAMBA_NONE;
    const samba_attrs attrs = {.axis = {.dim = samba_node_at(graph, above)->rank - 2}};
    return samba_emit(graph, SAMBA_OP_concat, 2, (samba_ref[]){above, below}, &attrs);
}

/* The pivots of lu (..., n + 1, n) with an identity for factors: lu_solve then exchanges rows and does nothing else. */
static samba_ref exchanges(samba_graph *graph, samba_ref lu, int64_t n)
{
    samba_ref identity = samba_emit_identity(graph, samba_emit_rows(graph, lu, 0, n), SAMBA_NONE);
    return below_each_other(graph, identity, samba_emit_rows(graph, lu, n, n + 1));
}

/* `lower` below the diagonal and `upper` from it on. */
static samba_ref triangles(samba_graph *graph, samba_ref lower, samba_ref upper)
{
    samba_ref below = samba_emit_where_rows(graph, lower, SAMBA_OP_gt, SAMBA_NONE);
    samba_ref above = samba_emit_where_rows(graph, upper, SAMBA_OP_le, SAMBA_NONE);
    return samba_emit2(graph, SAMBA_OP_add, below, above);
}

/* L of the factors, with its diagonal, or U. */
static samba_ref lower_of(samba_graph *graph, samba_ref factors)
{
    samba_ref below = samba_emit_where_rows(graph, factors, SAMBA_OP_gt, SAMBA_NONE);
    if (below == SAMBA_NONE)
        return below;
    samba_ref one = samba_emit_constant(graph, 1, (samba_dtype)samba_node_at(graph, below)->dtype);
    return samba_emit_where_rows(graph, below, SAMBA_OP_ne, one);
}

static samba_ref upper_of(samba_graph *graph, samba_ref factors)
{
    return samba_emit_where_rows(graph, factors, SAMBA_OP_le, SAMBA_NONE);
}

samba_status samba_vjp_lu_factors(samba_vjp *vjp)
{
    samba_graph *graph = vjp->graph;
    const int64_t n = samba_columns_of(vjp->node);
    if (n == 0)
        return SAMBA_OK;
    samba_ref lu = vjp->output, factors = samba_emit_rows(graph, lu, 0, n), g = samba_emit_rows(graph, vjp->gradient, 0, n);
    samba_ref l = samba_emit_turned(graph, lower_of(graph, factors)), u = upper_of(graph, factors);
    samba_ref g_l = samba_emit_where_rows(graph, g, SAMBA_OP_gt, SAMBA_NONE);
    samba_ref g_u = samba_emit_where_rows(graph, g, SAMBA_OP_le, SAMBA_NONE);
    samba_ref of_l = samba_emit_product(graph, l, g_l);
    samba_ref of_u = samba_emit_product(graph, g_u, samba_emit_turned(graph, u));
    samba_ref left = samba_emit_triangular_solve(graph, l, triangles(graph, of_l, of_u), true, true);
    samba_ref right = samba_emit_triangular_solve(graph, u, samba_emit_turned(graph, left), true, false);
    samba_ref whole = samba_emit_turned(graph, right);
    return samba_vjp_deliver(vjp, 0, samba_emit_lu_solve(graph, exchanges(graph, lu, n), whole, true));
}

/* The gradient of lu, for that of the matrix that it was made from. */
static samba_status deliver_factors(samba_vjp *vjp, samba_ref da)
{
    samba_graph *graph = vjp->graph;
    samba_ref lu = vjp->inputs[0];
    const int64_t n = samba_columns_of(samba_node_at(graph, lu));
    samba_ref sorted = samba_emit_lu_solve(graph, exchanges(graph, lu, n), da, false);
    samba_ref factors = samba_emit_rows(graph, lu, 0, n);
    samba_ref l = samba_emit_turned(graph, lower_of(graph, factors)), u = samba_emit_turned(graph, upper_of(graph, factors));
    samba_ref of_l = samba_emit_product(graph, sorted, u), of_u = samba_emit_product(graph, l, sorted);
    samba_ref both = triangles(graph, of_l, of_u);
    return samba_vjp_deliver(vjp, 0, below_each_other(graph, both, zeros_like(graph, samba_emit_rows(graph, lu, n, n + 1))));
}

samba_status samba_vjp_lu_inverse(samba_vjp *vjp)
{
    samba_graph *graph = vjp->graph;
    if (samba_columns_of(vjp->node) == 0)
        return SAMBA_OK;
    samba_ref turned = samba_emit_turned(graph, vjp->output);
    samba_ref left = samba_emit_product(graph, turned, samba_emit1(graph, SAMBA_OP_neg, vjp->gradient));
    return deliver_factors(vjp, samba_emit_product(graph, left, turned));
}

samba_status samba_vjp_lu_solve(samba_vjp *vjp)
{
    samba_graph *graph = vjp->graph;
    const bool transposed = vjp->node->attrs->lu_solve.transposed != 0;
    samba_ref lu = vjp->inputs[0], x = vjp->output;
    const int64_t n = samba_columns_of(samba_node_at(graph, lu));
    samba_ref db = samba_emit_lu_solve(graph, lu, vjp->gradient, !transposed);
    if (vjp->needed[1])
        samba_vjp_deliver(vjp, 1, db);
    if (!vjp->needed[0] || n == 0)
        return SAMBA_OK;
    samba_ref negative = samba_emit1(graph, SAMBA_OP_neg, transposed ? x : db);
    return deliver_factors(vjp, samba_emit_product(graph, negative, samba_emit_turned(graph, transposed ? db : x)));
}

samba_status samba_vjp_qr_factors(samba_vjp *vjp)
{
    samba_graph *graph = vjp->graph;
    const samba_node a = *samba_node_at(graph, vjp->inputs[0]);
    const int64_t m = samba_rows_of(&a), n = samba_columns_of(&a);
    if (m == 0 || n == 0)
        return SAMBA_OK;
    samba_ref g_q = samba_emit_rows(graph, vjp->gradient, 0, m), g_r = samba_emit_rows(graph, vjp->gradient, m, m + n);
    samba_ref of_q = samba_emit_qr_gradient(graph, vjp->inputs[0], SAMBA_PART_Q, g_q);
    samba_ref of_r = samba_emit_qr_gradient(graph, vjp->inputs[0], SAMBA_PART_R, samba_emit_turned(graph, g_r));
    return samba_vjp_deliver(vjp, 0, samba_emit2(graph, SAMBA_OP_add, of_q, of_r));
}

samba_status samba_vjp_eigh_factors(samba_vjp *vjp)
{
    samba_graph *graph = vjp->graph;
    const int64_t n = samba_columns_of(vjp->node);
    const bool values_alone = vjp->node->attrs->spectrum.values != 0;
    if (n == 0)
        return SAMBA_OK;
    samba_ref a = vjp->inputs[0], g = vjp->gradient;
    samba_ref result = samba_emit_eigh_gradient(graph, a, false, samba_emit_rows(graph, g, 0, 1));
    if (!values_alone) {
        samba_ref of_vectors = samba_emit_eigh_gradient(graph, a, true, samba_emit_rows(graph, g, 1, 1 + n));
        result = samba_emit2(graph, SAMBA_OP_add, result, of_vectors);
    }
    return samba_vjp_deliver(vjp, 0, result);
}

samba_status samba_vjp_svd_factors(samba_vjp *vjp)
{
    samba_graph *graph = vjp->graph;
    const samba_node node = *samba_node_at(graph, vjp->inputs[0]);
    const int64_t m = samba_rows_of(&node), n = samba_columns_of(&node);
    if (m == 0 || n == 0)
        return SAMBA_OK;
    samba_ref a = vjp->inputs[0], g = vjp->gradient;
    if (vjp->node->attrs->spectrum.values)
        return samba_vjp_deliver(vjp, 0, samba_emit_svd_gradient(graph, a, SAMBA_PART_VALUES, g));
    samba_ref of_u = samba_emit_svd_gradient(graph, a, SAMBA_PART_U, samba_emit_rows(graph, g, 0, m));
    samba_ref of_values = samba_emit_svd_gradient(graph, a, SAMBA_PART_VALUES, samba_emit_rows(graph, g, m, m + 1));
    samba_ref turned = samba_emit_turned(graph, samba_emit_rows(graph, g, m + 1, m + 1 + n));
    samba_ref of_v = samba_emit_svd_gradient(graph, a, SAMBA_PART_V, turned);
    samba_ref of_vectors = samba_emit2(graph, SAMBA_OP_add, of_u, of_v);
    return samba_vjp_deliver(vjp, 0, samba_emit2(graph, SAMBA_OP_add, of_vectors, of_values));
}
