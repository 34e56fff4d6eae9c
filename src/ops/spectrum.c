/* SPDX-License-Identifier: Apache-2.0
 *
 * qr(a; part), eigh(a; part) and svd(a; part): composites that take a part of the factors (matrix.c). The parts have gradients of
 * their own, which are added where several are used: what nobody uses costs nothing, and a gradient of values alone is there
 * where vectors have none.
 *
 * Gradients, g of the part: of qr (g + Q C) R^-T, C the lower triangle of -g^T Q, of R that of R g^T, mirrored, for m >= n
 * (Seeger 2017); a wide a is a square one and what Q gives of the rest. Of eigh and svd as torch's (Townsend 2016; Wan and Zhang
 * 2019): equal values have infinite ones. Vectors of eigh: the symmetric part of V (V^T g / E) V^T, E = l_j - l_i. */
#include "ops/matrix.h"
#include "ops/matrix_ref.h"

#include <math.h>
#include <string.h>

enum { Q = SAMBA_PART_Q };
enum { VECTORS = SAMBA_PART_VECTORS, VALUES_ALONE = SAMBA_PART_EIGENVALUES_ALONE }; /* of eigh */
enum { SVD_U = SAMBA_PART_U, SVD_VALUES = SAMBA_PART_VALUES, SVD_V = SAMBA_PART_V, SVD_VALUES_ALONE = SAMBA_PART_VALUES_ALONE };

/* ---- inference ---- */

static samba_status need_part(const samba_infer *infer, int64_t count)
{
    const int64_t given = infer->attrs->part.part;
    return given >= 0 && given < count ? SAMBA_OK
                                       : samba_infer_fail(infer, SAMBA_ERROR_ARGUMENT, "expected a part of 0 to %lld, given %lld",
                                                          (long long)count - 1, (long long)given);
}

/* Numbers of each matrix, the last dim of the result. */
static samba_status set_values(samba_infer *infer, int64_t count)
{
    const samba_node *a = infer->inputs[0];
    int64_t shape[SAMBA_MAX_RANK];
    memcpy(shape, a->shape, sizeof shape);
    shape[a->rank - 2] = count;
    return samba_infer_set(infer, a->dtype, a->rank - 1, shape);
}

samba_status samba_infer_qr(samba_infer *infer)
{
    SAMBA_TRY(samba_infer_need_matrix(infer, 0, false));
    SAMBA_TRY(need_part(infer, 2));
    const int64_t m = samba_rows_of(infer->inputs[0]), n = samba_columns_of(infer->inputs[0]), k = m < n ? m : n;
    return infer->attrs->part.part == Q ? samba_infer_set_matrix(infer, m, k) : samba_infer_set_matrix(infer, k, n);
}

samba_status samba_infer_eigh(samba_infer *infer)
{
    SAMBA_TRY(samba_infer_need_matrix(infer, 0, true));
    SAMBA_TRY(need_part(infer, 3));
    return infer->attrs->part.part == VECTORS ? samba_infer_set_like(infer, 0)
                                              : set_values(infer, samba_columns_of(infer->inputs[0]));
}

samba_status samba_infer_svd(samba_infer *infer)
{
    SAMBA_TRY(samba_infer_need_matrix(infer, 0, false));
    SAMBA_TRY(need_part(infer, 4));
    const int64_t m = samba_rows_of(infer->inputs[0]), n = samba_columns_of(infer->inputs[0]), k = m < n ? m : n;
    switch (infer->attrs->part.part) {
    case SVD_U: return samba_infer_set_matrix(infer, m, k);
    case SVD_V: return samba_infer_set_matrix(infer, k, n);
    default: return set_values(infer, k);
    }
}

/* ---- parts of factors ---- */

static samba_ref factors_of(samba_graph *graph, samba_op op, samba_ref a, bool values)
{
    samba_attrs attrs = {0};
    if (op != SAMBA_OP_qr_factors)
        attrs.spectrum.values = values;
    return samba_emit(graph, op, 1, &a, &attrs);
}

/* A row of factors as the values, of rank one less. */
static samba_ref row_as_values(samba_graph *graph, samba_ref factors, int64_t row, const samba_node *result)
{
    return samba_emit_reshape(graph, samba_emit_rows(graph, factors, row, row + 1), result->rank, result->shape);
}

samba_ref samba_expand_qr(samba_graph *graph, const samba_node *node, const samba_ref *inputs)
{
    const bool q = node->attrs->part.part == Q;
    const samba_node a = *samba_node_at(graph, inputs[0]);
    const int64_t m = samba_rows_of(&a), n = samba_columns_of(&a);
    samba_ref factors = factors_of(graph, SAMBA_OP_qr_factors, inputs[0], false);
    return q ? samba_emit_rows(graph, factors, 0, m) : samba_emit_turned(graph, samba_emit_rows(graph, factors, m, m + n));
}

samba_ref samba_expand_eigh(samba_graph *graph, const samba_node *node, const samba_ref *inputs)
{
    const samba_node own = *node;
    const int64_t part = node->attrs->part.part, n = samba_columns_of(samba_node_at(graph, inputs[0]));
    samba_ref factors = factors_of(graph, SAMBA_OP_eigh_factors, inputs[0], part == VALUES_ALONE);
    return part == VECTORS ? samba_emit_rows(graph, factors, 1, 1 + n) : row_as_values(graph, factors, 0, &own);
}

samba_ref samba_expand_svd(samba_graph *graph, const samba_node *node, const samba_ref *inputs)
{
    const samba_node own = *node, a = *samba_node_at(graph, inputs[0]);
    const int64_t part = node->attrs->part.part, m = samba_rows_of(&a), n = samba_columns_of(&a);
    samba_ref factors = factors_of(graph, SAMBA_OP_svd_factors, inputs[0], part == SVD_VALUES_ALONE);
    switch (part) {
    case SVD_U: return samba_emit_rows(graph, factors, 0, m);
    case SVD_V: return samba_emit_turned(graph, samba_emit_rows(graph, factors, m + 1, m + 1 + n));
    case SVD_VALUES: return row_as_values(graph, factors, m, &own);
    default: return row_as_values(graph, factors, 0, &own);
    }
}

/* ---- gradients ---- */

/* (g + Q C) R^-T with C the lower triangle of m, mirrored; g may be NONE. */
static samba_ref through_reflections(samba_graph *graph, samba_ref q, samba_ref r, samba_ref g, samba_ref m)
{
    samba_ref mirrored = samba_emit_where_rows(graph, m, SAMBA_OP_ge, samba_emit_turned(graph, m));
    samba_ref sum = samba_emit_product(graph, q, mirrored);
    if (g != SAMBA_NONE)
        sum = samba_emit2(graph, SAMBA_OP_add, g, sum);
    return samba_emit_turned(graph, samba_emit_triangular_solve(graph, r, samba_emit_turned(graph, sum), true, false));
}

samba_ref samba_emit_qr_gradient(samba_graph *graph, samba_ref a, int64_t part, samba_ref g)
{
    if (a == SAMBA_NONE || g == SAMBA_NONE)
        return SAMBA_NONE;
    const bool of_q = part == Q;
    const samba_node node = *samba_node_at(graph, a);
    const int64_t m = samba_rows_of(&node), n = samba_columns_of(&node);
    samba_ref factors = factors_of(graph, SAMBA_OP_qr_factors, a, false);
    samba_ref q = samba_emit_rows(graph, factors, 0, m);
    samba_ref r = samba_emit_turned(graph, samba_emit_rows(graph, factors, m, m + n));
    if (m >= n) {
        if (of_q) {
            samba_ref turned = samba_emit_turned(graph, samba_emit1(graph, SAMBA_OP_neg, g));
            return through_reflections(graph, q, r, g, samba_emit_product(graph, turned, q));
        }
        samba_ref right = samba_emit_turned(graph, g);
        return through_reflections(graph, q, r, SAMBA_NONE, samba_emit_product(graph, r, right));
    }
    /* a = (a1, a2), r = (r1, r2): q and r1 are those of a1, and r2 = q^T a2 */
    samba_ref r1 = samba_emit_columns(graph, r, 0, m), parts[2], of_square = g;
    if (of_q) {
        samba_ref zero = samba_emit_constant(graph, 0, (samba_dtype)node.dtype);
        int64_t shape[SAMBA_MAX_RANK];
        memcpy(shape, node.shape, sizeof shape);
        shape[node.rank - 1] = n - m;
        parts[1] = samba_emit_expand(graph, zero, node.rank, shape);
    } else {
        samba_ref g2 = samba_emit_columns(graph, g, m, n), a2 = samba_emit_columns(graph, a, m, n);
        parts[1] = samba_emit_product(graph, q, g2);
        of_square = samba_emit_product(graph, a2, samba_emit_turned(graph, g2));
    }
    samba_ref turned = samba_emit_turned(graph, samba_emit1(graph, SAMBA_OP_neg, of_square));
    samba_ref slopes = samba_emit_product(graph, turned, q);
    if (!of_q) {
        samba_ref g1 = samba_emit_turned(graph, samba_emit_columns(graph, g, 0, m));
        slopes = samba_emit2(graph, SAMBA_OP_add, slopes, samba_emit_product(graph, r1, g1));
    }
    parts[0] = through_reflections(graph, q, r1, of_square, slopes);
    samba_attrs attrs = {.axis = {.dim = node.rank - 1}};
    return samba_emit(graph, SAMBA_OP_concat, 2, parts, &attrs);
}

samba_status samba_vjp_qr(samba_vjp *vjp)
{
    const samba_node *a = samba_node_at(vjp->graph, vjp->inputs[0]);
    if (samba_rows_of(a) == 0 || samba_columns_of(a) == 0)
        return SAMBA_OK;
    const int64_t part = vjp->node->attrs->part.part;
    return samba_vjp_deliver(vjp, 0, samba_emit_qr_gradient(vjp->graph, vjp->inputs[0], part, vjp->gradient));
}

/* l_j - l_i, of the squares of values with `squares`; 1 on the diagonal. l (..., 1, n) */
static samba_ref differences(samba_graph *graph, samba_ref l, bool squares, samba_dtype dtype)
{
    samba_ref column = samba_emit_turned(graph, l), apart = samba_emit2(graph, SAMBA_OP_sub, l, column);
    if (squares)
        apart = samba_emit2(graph, SAMBA_OP_mul, apart, samba_emit2(graph, SAMBA_OP_add, l, column));
    samba_ref one = samba_emit_constant(graph, 1, dtype);
    return samba_emit_where_rows(graph, apart, SAMBA_OP_ne, one);
}

/* The gradient of values, (..., k), as a row of each matrix, (..., 1, k). */
static samba_ref as_row(samba_graph *graph, samba_ref g)
{
    if (g == SAMBA_NONE)
        return g;
    const samba_node node = *samba_node_at(graph, g);
    int64_t shape[SAMBA_MAX_RANK];
    memcpy(shape, node.shape, sizeof shape);
    shape[node.rank] = node.shape[node.rank - 1];
    shape[node.rank - 1] = 1;
    return samba_emit_reshape(graph, g, node.rank + 1, shape);
}

samba_ref samba_emit_eigh_gradient(samba_graph *graph, samba_ref a, bool of_vectors, samba_ref g)
{
    if (a == SAMBA_NONE || g == SAMBA_NONE)
        return SAMBA_NONE;
    const samba_node node = *samba_node_at(graph, a);
    const int64_t n = samba_columns_of(&node);
    samba_ref factors = factors_of(graph, SAMBA_OP_eigh_factors, a, false);
    samba_ref l = samba_emit_rows(graph, factors, 0, 1), v = samba_emit_rows(graph, factors, 1, 1 + n);
    samba_ref turned = samba_emit_turned(graph, v);
    if (!of_vectors)
        return samba_emit_product(graph, samba_emit2(graph, SAMBA_OP_mul, v, g), turned);
    samba_ref slopes = samba_emit_product(graph, turned, g);
    slopes = samba_emit2(graph, SAMBA_OP_div, slopes, differences(graph, l, false, (samba_dtype)node.dtype));
    samba_ref left = samba_emit_product(graph, v, samba_emit_where_rows(graph, slopes, SAMBA_OP_ne, SAMBA_NONE));
    samba_ref result = samba_emit_product(graph, left, turned); /* half of it for each of a pair of elements, one number */
    samba_ref other = samba_emit_turned(graph, result);
    return samba_emit_scalar(graph, SAMBA_OP_mul, samba_emit2(graph, SAMBA_OP_add, result, other), 0.5);
}

samba_status samba_vjp_eigh(samba_vjp *vjp)
{
    const bool of_vectors = vjp->node->attrs->part.part == VECTORS;
    samba_ref g = of_vectors ? vjp->gradient : as_row(vjp->graph, vjp->gradient);
    return samba_vjp_deliver(vjp, 0, samba_emit_eigh_gradient(vjp->graph, vjp->inputs[0], of_vectors, g));
}

/* x - basis (basis^T x): what of x lies outside of the columns of `basis`. */
static samba_ref outside(samba_graph *graph, samba_ref basis, samba_ref x)
{
    samba_ref inside = samba_emit_product(graph, samba_emit_turned(graph, basis), x);
    return samba_emit2(graph, SAMBA_OP_sub, x, samba_emit_product(graph, basis, inside));
}

samba_ref samba_emit_svd_gradient(samba_graph *graph, samba_ref a, int64_t part, samba_ref g)
{
    if (a == SAMBA_NONE || g == SAMBA_NONE)
        return SAMBA_NONE;
    const samba_node node = *samba_node_at(graph, a);
    const int64_t m = samba_rows_of(&node), n = samba_columns_of(&node), k = m < n ? m : n;
    samba_ref factors = factors_of(graph, SAMBA_OP_svd_factors, a, false);
    samba_ref u = samba_emit_rows(graph, factors, 0, m), v = samba_emit_rows(graph, factors, m + 1, m + 1 + n);
    samba_ref s = samba_emit_rows(graph, factors, m, m + 1), turned = samba_emit_turned(graph, v);
    if (part == SVD_VALUES)
        return samba_emit_product(graph, samba_emit2(graph, SAMBA_OP_mul, u, g), turned);
    const bool of_u = part == SVD_U;
    samba_ref basis = of_u ? u : v, slope = of_u ? g : samba_emit_turned(graph, g);
    samba_ref inner = samba_emit_product(graph, samba_emit_turned(graph, basis), slope);
    inner = samba_emit2(graph, SAMBA_OP_sub, inner, samba_emit_turned(graph, inner));
    inner = samba_emit2(graph, SAMBA_OP_div, inner, differences(graph, s, true, (samba_dtype)node.dtype));
    inner = samba_emit2(graph, SAMBA_OP_mul, inner, of_u ? s : samba_emit_turned(graph, s));
    samba_ref left = samba_emit_product(graph, u, inner);
    if (of_u && m > k)
        left = samba_emit2(graph, SAMBA_OP_add, left, samba_emit2(graph, SAMBA_OP_div, outside(graph, u, g), s));
    samba_ref result = samba_emit_product(graph, left, turned);
    if (!of_u && n > k) {
        samba_ref rest = samba_emit2(graph, SAMBA_OP_div, outside(graph, v, slope), s);
        result = samba_emit2(graph, SAMBA_OP_add, result, samba_emit_product(graph, u, samba_emit_turned(graph, rest)));
    }
    return result;
}

samba_status samba_vjp_svd(samba_vjp *vjp)
{
    int64_t part = vjp->node->attrs->part.part;
    samba_ref g = vjp->gradient;
    if (part == SVD_VALUES_ALONE)
        part = SVD_VALUES;
    if (part == SVD_VALUES)
        g = as_row(vjp->graph, g);
    return samba_vjp_deliver(vjp, 0, samba_emit_svd_gradient(vjp->graph, vjp->inputs[0], part, g));
}

/* ---- reference ---- */

samba_status samba_ref_qr(const samba_reference *reference)
{
    samba_matrices s;
    const samba_array *a = &reference->inputs[0];
    const int64_t m = a->shape[a->rank - 2], n = a->shape[a->rank - 1], k = m < n ? m : n;
    SAMBA_TRY(samba_matrices_begin(&s, reference, "qr", m * n + m * k + k * n + k));
    double *q = s.room + m * n, *r = q + m * k;
    for (int64_t e = 0; e < s.batch; e++) {
        samba_matrices_load(&s, 0, e, s.room);
        samba_matrix_qr(m, n, s.room, q, r, r + k * n);
        if (reference->attrs->part.part == Q)
            samba_matrices_store(&s, e, m * k, 0, m * k, q);
        else
            samba_matrices_store(&s, e, k * n, 0, k * n, r);
    }
    return samba_matrices_end(&s, SAMBA_OK);
}

static const char no_vectors[] = "has NaN or infinite elements, or the iteration for it does not end";

samba_status samba_ref_eigh(const samba_reference *reference)
{
    samba_matrices s;
    samba_status status = SAMBA_OK;
    const samba_array *a = &reference->inputs[0];
    const int64_t n = a->shape[a->rank - 1];
    SAMBA_TRY(samba_matrices_begin(&s, reference, "eigh", 2 * n * n + n));
    double *values = s.room + n * n, *vectors = values + n;
    for (int64_t e = 0; e < s.batch && status == SAMBA_OK; e++) {
        samba_matrices_load(&s, 0, e, s.room);
        if (!samba_matrix_eigh(n, s.room, values, vectors))
            status = samba_matrices_fail(&s, e, no_vectors);
        if (reference->attrs->part.part == VECTORS)
            samba_matrices_store(&s, e, n * n, 0, n * n, vectors);
        else
            samba_matrices_store(&s, e, n, 0, n, values);
    }
    return samba_matrices_end(&s, status);
}

samba_status samba_ref_svd(const samba_reference *reference)
{
    samba_matrices s;
    samba_status status = SAMBA_OK;
    const samba_array *a = &reference->inputs[0];
    const int64_t part = reference->attrs->part.part, m = a->shape[a->rank - 2], n = a->shape[a->rank - 1], k = m < n ? m : n;
    SAMBA_TRY(samba_matrices_begin(&s, reference, "svd", m * n + m * k + k + 2 * n * k));
    double *u = s.room + m * n, *values = u + m * k, *v = values + k, *turned = v + n * k;
    for (int64_t e = 0; e < s.batch && status == SAMBA_OK; e++) {
        samba_matrices_load(&s, 0, e, s.room);
        if (!samba_matrix_svd(m, n, s.room, u, values, v))
            status = samba_matrices_fail(&s, e, no_vectors);
        for (int64_t i = 0; i < n * k; i++)
            turned[i] = v[i % n * k + i / n];
        if (part == SVD_U)
            samba_matrices_store(&s, e, m * k, 0, m * k, u);
        else if (part == SVD_V)
            samba_matrices_store(&s, e, k * n, 0, k * n, turned);
        else
            samba_matrices_store(&s, e, k, 0, k, values);
    }
    return samba_matrices_end(&s, status);
}
