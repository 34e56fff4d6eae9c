/* SPDX-License-Identifier: Apache-2.0
 *
 * solve(a, b), inv(a), det(a) and slogdet(a; part): composites over factors (matrix.c) and products. pinv(a; atol, rtol) and
 * lstsq(a, b; rcond) have kernels: singular values that count as 0 are left out, and most matrices have none.
 *
 * Gradients, g of the result: of solve db = a^-T g, da = -db x^T; of inv -y^T g y^T; of det g det(a) a^-T, for which a 0 on U's
 * diagonal counts as the dtype's epsilon, as in torch; of slogdet g a^-T; of pinv the formula of Golub and Pereyra (1973), of
 * lstsq what it is of pinv(a) b. The first four solve by the factors of the forward, which are equal nodes. */
#include "ops/matrix.h"
#include "ops/matrix_ref.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* ---- inference: solve and inv have cells that others share ---- */

static samba_status infer_of_each(samba_infer *infer) /* a number of each matrix */
{
    SAMBA_TRY(samba_infer_need_matrix(infer, 0, true));
    return samba_infer_set(infer, infer->inputs[0]->dtype, infer->inputs[0]->rank - 2, infer->inputs[0]->shape);
}

samba_status samba_infer_det(samba_infer *infer) { return infer_of_each(infer); }

samba_status samba_infer_slogdet(samba_infer *infer)
{
    if (infer->attrs->part.part != 0 && infer->attrs->part.part != 1)
        return samba_infer_fail(infer, SAMBA_ERROR_ARGUMENT, "expected part 0, the sign, or 1, the logarithm, given %lld",
                                (long long)infer->attrs->part.part);
    return infer_of_each(infer);
}

samba_status samba_infer_pinv(samba_infer *infer)
{
    SAMBA_TRY(samba_infer_need_matrix(infer, 0, false));
    const samba_attrs_cutoff *attrs = &infer->attrs->cutoff;
    if (!(attrs->atol >= 0) || !(attrs->rtol >= 0))
        return samba_infer_fail(infer, SAMBA_ERROR_ARGUMENT, "expected atol and rtol of 0 or more, given %g and %g", attrs->atol,
                                attrs->rtol);
    return samba_infer_set_matrix(infer, samba_columns_of(infer->inputs[0]), samba_rows_of(infer->inputs[0]));
}

samba_status samba_infer_lstsq(samba_infer *infer)
{
    const samba_node *a = infer->inputs[0], *b = infer->inputs[1];
    SAMBA_TRY(samba_infer_need_matrix(infer, 0, false));
    SAMBA_TRY(samba_infer_need_same_dtype(infer, 0, 1));
    if (!(infer->attrs->rcond.rcond >= 0))
        return samba_infer_fail(infer, SAMBA_ERROR_ARGUMENT, "expected rcond of 0 or more, given %g", infer->attrs->rcond.rcond);
    bool fits = a->rank == b->rank && samba_rows_of(a) == samba_rows_of(b);
    for (int i = 0; fits && i < a->rank - 2; i++)
        fits = a->shape[i] == b->shape[i];
    if (!fits)
        return samba_infer_fail(infer, SAMBA_ERROR_SHAPE,
                                "expected matrices (..., M, N) and right sides (..., M, K) of the same batch, given %s and %s",
                                SAMBA_SHAPE_OF(a), SAMBA_SHAPE_OF(b));
    return samba_infer_set_matrix(infer, samba_columns_of(a), samba_columns_of(b));
}

/* ---- solve, inv ---- */

samba_ref samba_expand_solve(samba_graph *graph, const samba_node *node, const samba_ref *inputs)
{
    (void)node;
    samba_ref a = inputs[0], b = inputs[1];
    return samba_emit_lu_solve(graph, samba_emit_lu(graph, a, false), b, false);
}

samba_status samba_vjp_solve(samba_vjp *vjp)
{
    samba_graph *graph = vjp->graph;
    samba_ref x = vjp->output, lu = samba_emit_lu(graph, vjp->inputs[0], false);
    samba_ref db = samba_emit_lu_solve(graph, lu, vjp->gradient, true);
    if (vjp->needed[1])
        samba_vjp_deliver(vjp, 1, db);
    if (!vjp->needed[0])
        return SAMBA_OK;
    samba_ref negative = samba_emit1(graph, SAMBA_OP_neg, db);
    return samba_vjp_deliver(vjp, 0, samba_emit_product(graph, negative, samba_emit_turned(graph, x)));
}

samba_ref samba_expand_inv(samba_graph *graph, const samba_node *node, const samba_ref *inputs)
{
    (void)node;
    return samba_emit1(graph, SAMBA_OP_lu_inverse, samba_emit_lu(graph, inputs[0], false));
}

samba_status samba_vjp_inv(samba_vjp *vjp)
{
    samba_graph *graph = vjp->graph;
    samba_ref turned = samba_emit_turned(graph, vjp->output);
    samba_ref left = samba_emit_product(graph, turned, samba_emit1(graph, SAMBA_OP_neg, vjp->gradient));
    return samba_vjp_deliver(vjp, 0, samba_emit_product(graph, left, turned));
}

/* ---- det, slogdet ---- */

/* The product along the last dim of v (..., 1, n), (..., 1, 1). */
static samba_ref product_of(samba_graph *graph, samba_ref v)
{
    if (v == SAMBA_NONE)
        return v;
    const samba_node node = *samba_node_at(graph, v);
    const int64_t n = samba_columns_of(&node);
    samba_attrs attrs = {.scan = {.dim = node.rank - 1}};
    return samba_emit_columns(graph, samba_emit(graph, SAMBA_OP_cumprod, 1, &v, &attrs), n - 1, n);
}

/* -1 for an odd number of exchanges of rows, else 1: (..., 1, 1). */
static samba_ref parity(samba_graph *graph, samba_ref lu, int64_t n)
{
    samba_ref pivots = samba_emit_rows(graph, lu, n, n + 1);
    if (pivots == SAMBA_NONE)
        return pivots;
    const samba_node node = *samba_node_at(graph, pivots);
    const int64_t own[2] = {1, n}, dim = node.rank - 1;
    samba_ref stays = samba_emit_cast(graph, samba_emit_iota(graph, 2, own, 1), (samba_dtype)node.dtype);
    samba_ref moved = samba_emit2(graph, SAMBA_OP_ne, pivots, stays);
    samba_ref count = samba_emit_reduce(graph, SAMBA_OP_sum, samba_emit_cast(graph, moved, (samba_dtype)node.dtype), 1, &dim);
    samba_ref odd = samba_emit_scalar(graph, SAMBA_OP_remainder, count, 2);
    return samba_emit_scalar(graph, SAMBA_OP_add, samba_emit_scalar(graph, SAMBA_OP_mul, odd, -2), 1);
}

/* A number of each matrix, or `of_none` for matrices without elements. */
static samba_ref of_each(samba_graph *graph, samba_ref number, const samba_node *node, double of_none, bool none)
{
    if (none)
        return samba_emit_expand(graph, samba_emit_constant(graph, of_none, (samba_dtype)node->dtype), node->rank, node->shape);
    return samba_emit_reshape(graph, number, node->rank, node->shape);
}

samba_ref samba_expand_det(samba_graph *graph, const samba_node *node, const samba_ref *inputs)
{
    const samba_node own = *node;
    const int64_t n = samba_columns_of(samba_node_at(graph, inputs[0]));
    if (n == 0)
        return of_each(graph, SAMBA_NONE, &own, 1, true);
    if (n == 1)
        return of_each(graph, inputs[0], &own, 1, false);
    samba_ref lu = samba_emit_lu(graph, inputs[0], true);
    samba_ref product = product_of(graph, samba_emit_diagonal(graph, samba_emit_rows(graph, lu, 0, n)));
    samba_ref sign = parity(graph, lu, n);
    return of_each(graph, samba_emit2(graph, SAMBA_OP_mul, product, sign), &own, 1, false);
}

samba_ref samba_expand_slogdet(samba_graph *graph, const samba_node *node, const samba_ref *inputs)
{
    const samba_node own = *node;
    const bool logarithm = node->attrs->part.part == 1;
    const int64_t n = samba_columns_of(samba_node_at(graph, inputs[0]));
    if (n == 0)
        return of_each(graph, SAMBA_NONE, &own, logarithm ? 0 : 1, true);
    if (n == 1) {
        samba_ref number = of_each(graph, inputs[0], &own, 0, false);
        return logarithm ? samba_emit1(graph, SAMBA_OP_log, samba_emit1(graph, SAMBA_OP_abs, number))
                         : samba_emit1(graph, SAMBA_OP_sign, number);
    }
    samba_ref lu = samba_emit_lu(graph, inputs[0], true);
    samba_ref diagonal = samba_emit_diagonal(graph, samba_emit_rows(graph, lu, 0, n));
    if (logarithm) {
        const int64_t dim = own.rank + 1;
        samba_ref logs = samba_emit1(graph, SAMBA_OP_log, samba_emit1(graph, SAMBA_OP_abs, diagonal));
        return of_each(graph, samba_emit_reduce(graph, SAMBA_OP_sum, logs, 1, &dim), &own, 0, false);
    }
    samba_ref product = product_of(graph, samba_emit1(graph, SAMBA_OP_sign, diagonal));
    samba_ref sign = parity(graph, lu, n);
    return of_each(graph, samba_emit2(graph, SAMBA_OP_mul, product, sign), &own, 1, false);
}

/* a^-T times a number of each matrix. */
static samba_ref inverse_times(samba_graph *graph, samba_ref a, samba_ref lu, samba_ref number)
{
    if (number == SAMBA_NONE)
        return number;
    const samba_node node = *samba_node_at(graph, number);
    int64_t shape[SAMBA_MAX_RANK];
    memcpy(shape, node.shape, sizeof shape);
    shape[node.rank] = shape[node.rank + 1] = 1;
    samba_ref right = samba_emit_identity(graph, a, samba_emit_reshape(graph, number, node.rank + 2, shape));
    return samba_emit_lu_solve(graph, lu, right, true);
}

samba_status samba_vjp_det(samba_vjp *vjp)
{
    samba_graph *graph = vjp->graph;
    const samba_node node = *vjp->node;
    const samba_node a = *samba_node_at(graph, vjp->inputs[0]);
    const int64_t n = samba_columns_of(&a);
    if (n == 1) /* the element, which may be 0 */
        return samba_vjp_deliver(vjp, 0, samba_emit_reshape(graph, vjp->gradient, a.rank, a.shape));
    samba_ref lu = samba_emit_lu(graph, vjp->inputs[0], true), zero = samba_emit_scalar(graph, SAMBA_OP_eq, lu, 0);
    if (lu == SAMBA_NONE || n == 0)
        return SAMBA_OK;
    samba_ref least =
        samba_emit_constant(graph, node.dtype == SAMBA_FLOAT64 ? DBL_EPSILON : (double)FLT_EPSILON, (samba_dtype)node.dtype);
    samba_ref filled = samba_emit3(graph, SAMBA_OP_where, zero, least, lu);
    samba_ref regular = samba_emit_where_rows(graph, filled, SAMBA_OP_eq, lu);
    samba_ref number = samba_emit2(graph, SAMBA_OP_mul, vjp->gradient, vjp->output);
    return samba_vjp_deliver(vjp, 0, inverse_times(graph, vjp->inputs[0], regular, number));
}

samba_status samba_vjp_slogdet(samba_vjp *vjp)
{
    samba_graph *graph = vjp->graph;
    if (vjp->node->attrs->part.part == 0)
        return SAMBA_OK;
    samba_ref lu = samba_emit_lu(graph, vjp->inputs[0], true);
    return samba_vjp_deliver(vjp, 0, inverse_times(graph, vjp->inputs[0], lu, vjp->gradient));
}

/* ---- pinv, lstsq ---- */

/* Of p the result and g the transpose of its gradient: p^T p (g - g p a) + (I - a p) g p p^T - (p g p)^T, in the order that keeps
 * the products small. */
samba_status samba_vjp_pinv(samba_vjp *vjp)
{
    samba_graph *graph = vjp->graph;
    const samba_node node = *samba_node_at(graph, vjp->inputs[0]);
    samba_ref a = vjp->inputs[0], p = vjp->output, g = samba_emit_turned(graph, vjp->gradient);
    samba_ref turned = samba_emit_turned(graph, p), first, second, third, rest;
    if (samba_rows_of(&node) <= samba_columns_of(&node)) {
        samba_ref k = samba_emit_product(graph, g, p), kp = samba_emit_product(graph, k, turned);
        first = samba_emit_turned(graph, samba_emit_product(graph, p, k));
        second = samba_emit2(graph, SAMBA_OP_sub, kp, samba_emit_product(graph, samba_emit_product(graph, a, p), kp));
        rest = samba_emit2(graph, SAMBA_OP_sub, g, samba_emit_product(graph, k, a));
        third = samba_emit_product(graph, samba_emit_product(graph, turned, p), rest);
    } else {
        samba_ref k = samba_emit_product(graph, p, g), pk = samba_emit_product(graph, turned, k);
        first = samba_emit_turned(graph, samba_emit_product(graph, k, p));
        rest = samba_emit2(graph, SAMBA_OP_sub, g, samba_emit_product(graph, a, k));
        second = samba_emit_product(graph, samba_emit_product(graph, rest, p), turned);
        third = samba_emit2(graph, SAMBA_OP_sub, pk, samba_emit_product(graph, samba_emit_product(graph, pk, p), a));
    }
    samba_ref sum = samba_emit2(graph, SAMBA_OP_add, second, third);
    return samba_vjp_deliver(vjp, 0, samba_emit2(graph, SAMBA_OP_sub, sum, first));
}

/* Of x = p b, with the gradient of p as above: h = p^T g goes to b. What multiplies da, (m, right) by (right, n) each, are h and
 * x, what a x leaves of b and p h, p^T x and what a^T h leaves of g: no product is of m x n by n x m. */
samba_status samba_vjp_lstsq(samba_vjp *vjp)
{
    samba_graph *graph = vjp->graph;
    samba_ref a = vjp->inputs[0], b = vjp->inputs[1], x = vjp->output, g = vjp->gradient;
    const samba_node node = *samba_node_at(graph, a);
    if (samba_rows_of(&node) == 0 || samba_columns_of(&node) == 0)
        return SAMBA_OK;
    samba_attrs attrs = {.cutoff = {.rtol = vjp->node->attrs->rcond.rcond}};
    samba_ref p = samba_emit(graph, SAMBA_OP_pinv, 1, &a, &attrs), turned = samba_emit_turned(graph, p);
    samba_ref h = samba_emit_product(graph, turned, g);
    if (vjp->needed[1])
        samba_vjp_deliver(vjp, 1, h);
    if (!vjp->needed[0])
        return SAMBA_OK;
    samba_ref first = samba_emit_product(graph, h, samba_emit_turned(graph, x));
    samba_ref left = samba_emit2(graph, SAMBA_OP_sub, b, samba_emit_product(graph, a, x));
    samba_ref second = samba_emit_product(graph, left, samba_emit_turned(graph, samba_emit_product(graph, p, h)));
    samba_ref rest = samba_emit2(graph, SAMBA_OP_sub, g, samba_emit_product(graph, samba_emit_turned(graph, a), h));
    samba_ref of_rows = samba_emit_product(graph, turned, x);
    samba_ref third = samba_emit_product(graph, of_rows, samba_emit_turned(graph, rest));
    samba_ref sum = samba_emit2(graph, SAMBA_OP_add, second, third);
    return samba_vjp_deliver(vjp, 0, samba_emit2(graph, SAMBA_OP_sub, sum, first));
}

/* ---- flops ---- */

int64_t samba_flops_solve(const samba_node *node, const samba_node *const *inputs)
{
    const double both = (double)samba_flops_lu_factors(node, inputs) + (double)samba_flops_lu_solve(node, inputs);
    return (int64_t)fmin(both, 9e18);
}

int64_t samba_flops_inv(const samba_node *node, const samba_node *const *inputs)
{
    return (int64_t)fmin(3 * (double)samba_flops_lu_factors(node, inputs), 9e18);
}

/* Factors, of which Q is applied to the right sides, and a triangular system. */
int64_t samba_flops_lstsq(const samba_node *node, const samba_node *const *inputs)
{
    const double m = (double)samba_rows_of(inputs[0]), n = (double)samba_columns_of(inputs[0]), k = fmin(m, n);
    double all = (2 * m * n + (4 * fmax(m, n) + k) * (double)samba_columns_of(node)) * k;
    for (int i = 0; i < node->rank - 2; i++)
        all *= (double)node->shape[i];
    return (int64_t)fmin(all, 9e18);
}

int64_t samba_flops_det(const samba_node *node, const samba_node *const *inputs)
{
    double all = 2.0 / 3 * pow((double)samba_columns_of(inputs[0]), 3);
    for (int i = 0; i < node->rank; i++)
        all *= (double)node->shape[i];
    return (int64_t)fmin(all, 9e18);
}

/* ---- reference ---- */

samba_status samba_ref_solve(const samba_reference *reference)
{
    samba_matrices s;
    samba_status status = SAMBA_OK;
    const samba_array *y = reference->output;
    const int64_t n = y->shape[y->rank - 2], right = y->shape[y->rank - 1];
    SAMBA_TRY(samba_matrices_begin(&s, reference, "solve", n * n + n + n * right));
    double *b = s.room + n * n + n;
    for (int64_t e = 0; e < s.batch && status == SAMBA_OK; e++) {
        samba_matrices_load(&s, 0, e, s.room);
        samba_matrices_load(&s, 1, e, b);
        if (!samba_matrix_lu(n, s.room, s.room + n * n))
            status = samba_matrices_fail(&s, e, "is singular");
        samba_matrix_lu_solve(n, right, s.room, b, false);
        samba_matrices_store(&s, e, n * right, 0, n * right, b);
    }
    return samba_matrices_end(&s, status);
}

samba_status samba_ref_inv(const samba_reference *reference)
{
    samba_matrices s;
    samba_status status = SAMBA_OK;
    const samba_array *y = reference->output;
    const int64_t n = y->shape[y->rank - 1], size = n * n;
    SAMBA_TRY(samba_matrices_begin(&s, reference, "inv", size + n + size));
    double *b = s.room + size + n;
    for (int64_t e = 0; e < s.batch && status == SAMBA_OK; e++) {
        samba_matrices_load(&s, 0, e, s.room);
        if (!samba_matrix_lu(n, s.room, s.room + size))
            status = samba_matrices_fail(&s, e, "is singular");
        for (int64_t i = 0; i < size; i++)
            b[i] = i / n == i % n;
        samba_matrix_lu_solve(n, n, s.room, b, false);
        samba_matrices_store(&s, e, size, 0, size, b);
    }
    return samba_matrices_end(&s, status);
}

/* Of each matrix the determinant, its sign or the logarithm of its absolute value. */
static samba_status determinants(const samba_reference *reference, const char *name, bool sign, bool logarithm)
{
    samba_matrices s;
    const samba_array *a = &reference->inputs[0];
    const int64_t n = a->shape[a->rank - 1];
    SAMBA_TRY(samba_matrices_begin(&s, reference, name, n * n + n));
    for (int64_t e = 0; e < s.batch; e++) {
        double product = 1, logs = 0;
        samba_matrices_load(&s, 0, e, s.room);
        samba_matrix_lu(n, s.room, s.room + n * n);
        for (int64_t i = 0; i < n; i++) {
            const double u = s.room[i * n + i], exchanged = s.room[n * n + i] != (double)i ? -1 : 1;
            product *= exchanged * (sign ? (double)((u > 0) - (u < 0)) : u);
            logs += log(fabs(u));
        }
        samba_matrices_store(&s, e, 1, 0, 1, logarithm ? &logs : &product);
    }
    return samba_matrices_end(&s, SAMBA_OK);
}

samba_status samba_ref_det(const samba_reference *reference) { return determinants(reference, "det", false, false); }
samba_status samba_ref_slogdet(const samba_reference *reference)
{
    return determinants(reference, "slogdet", true, reference->attrs->part.part == 1);
}

samba_status samba_ref_pinv(const samba_reference *reference)
{
    samba_matrices s;
    samba_status status = SAMBA_OK;
    const samba_array *a = &reference->inputs[0];
    const samba_attrs_cutoff *attrs = &reference->attrs->cutoff;
    const int64_t m = a->shape[a->rank - 2], n = a->shape[a->rank - 1], k = m < n ? m : n;
    SAMBA_TRY(samba_matrices_begin(&s, reference, "pinv", 2 * m * n + m * k + k + n * k));
    double *u = s.room + m * n, *values = u + m * k, *v = values + k, *result = v + n * k;
    for (int64_t e = 0; e < s.batch && status == SAMBA_OK; e++) {
        samba_matrices_load(&s, 0, e, s.room);
        if (!samba_matrix_svd(m, n, s.room, u, values, v))
            status = samba_matrices_fail(&s, e, "has NaN or infinite elements");
        for (int64_t i = 0; i < n; i++)
            for (int64_t j = 0; j < m; j++) {
                double sum = 0;
                for (int64_t c = 0; c < k; c++)
                    if (values[c] > fmax(attrs->atol, attrs->rtol * values[0]))
                        sum += v[i * k + c] * u[j * k + c] / values[c];
                result[i * m + j] = sum;
            }
        samba_matrices_store(&s, e, m * n, 0, m * n, result);
    }
    return samba_matrices_end(&s, status);
}

samba_status samba_ref_lstsq(const samba_reference *reference)
{
    samba_matrices s;
    samba_status status = SAMBA_OK;
    const samba_array *a = &reference->inputs[0], *x = reference->output;
    const int64_t m = a->shape[a->rank - 2], n = a->shape[a->rank - 1], k = m < n ? m : n, right = x->shape[x->rank - 1];
    SAMBA_TRY(samba_matrices_begin(&s, reference, "lstsq", m * n + m * k + k + n * k + m * right + n * right));
    double *u = s.room + m * n, *values = u + m * k, *v = values + k, *b = v + n * k, *result = b + m * right;
    for (int64_t e = 0; e < s.batch && status == SAMBA_OK; e++) {
        samba_matrices_load(&s, 0, e, s.room);
        samba_matrices_load(&s, 1, e, b);
        if (!samba_matrix_svd(m, n, s.room, u, values, v))
            status = samba_matrices_fail(&s, e, "has NaN or infinite elements");
        memset(result, 0, sizeof *result * (size_t)(n * right));
        for (int64_t c = 0; c < k; c++)
            for (int64_t j = 0; j < right && values[c] > reference->attrs->rcond.rcond * values[0]; j++) {
                double along = 0;
                for (int64_t i = 0; i < m; i++)
                    along += u[i * k + c] * b[i * right + j];
                for (int64_t i = 0; i < n; i++)
                    result[i * right + j] += v[i * k + c] * along / values[c];
            }
        samba_matrices_store(&s, e, n * right, 0, n * right, result);
    }
    return samba_matrices_end(&s, status);
}
