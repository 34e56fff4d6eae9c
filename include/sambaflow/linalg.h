/* SPDX-License-Identifier: Apache-2.0
 *
 * Products of matrices, as torch's functions of those names. Operands have one dtype; integers wrap, 16-bit floats are summed in
 * float32. Size 0 is a size: a sum of no products is 0. A bias that is a zeroed value is left out. */
#ifndef SAMBAFLOW_LINALG_H
#define SAMBAFLOW_LINALG_H

#include <sambaflow/graph.h>

#ifdef __cplusplus
extern "C" {
#endif

SAMBA_API samba_value samba_matmul(samba_value a, samba_value b); /* every case of torch.matmul */
SAMBA_API samba_value samba_mm(samba_value a, samba_value b);     /* (n, k) x (k, m) */
SAMBA_API samba_value samba_bmm(samba_value a, samba_value b);    /* (b, n, k) x (b, k, m) */
SAMBA_API samba_value samba_mv(samba_value a, samba_value b);     /* (n, k) x (k) */
SAMBA_API samba_value samba_dot(samba_value a, samba_value b);    /* (k) x (k), torch.vdot as well */
SAMBA_API samba_value samba_outer(samba_value a, samba_value b);  /* (n) x (m) -> (n, m); promotes */
SAMBA_API samba_value samba_inner(samba_value a, samba_value b);  /* over the last dims; a value without dims multiplies */
SAMBA_API samba_value samba_kron(samba_value a, samba_value b);   /* of up to 4 dims; promotes */

/* beta * input + alpha * product; the input broadcasts to the product, and with beta 0 it does not count, NaN or not. Of integers
 * the factors are cut to integers. */
SAMBA_API samba_value samba_addmm(samba_value input, samba_value a, samba_value b, double beta, double alpha);
SAMBA_API samba_value samba_addmv(samba_value input, samba_value a, samba_value b, double beta, double alpha);
SAMBA_API samba_value samba_baddbmm(samba_value input, samba_value a, samba_value b, double beta, double alpha);
/* products summed over b */
SAMBA_API samba_value samba_addbmm(samba_value input, samba_value a, samba_value b, double beta, double alpha);
/* outer product */
SAMBA_API samba_value samba_addr(samba_value input, samba_value a, samba_value b, double beta, double alpha);

/* torch.einsum: letters name dims, "..." those that have no letter; repeated letters of an operand take its diagonal, of several
 * are multiplied, and summed where the result lacks them. "->" and the result may be left out. From left to right. */
SAMBA_API samba_value samba_einsum(const char *equation, int count, const samba_value *operands);
/* Sums over pairs of dims, dims_a[i] with dims_b[i]; the result has the others of a, then of b. */
SAMBA_API samba_value samba_tensordot(samba_value a, samba_value b, int count, const int *dims_a, const int *dims_b);
/* A product of two or more matrices, in the order that takes the fewest multiplications;
 * the first and the last may be vectors. */
SAMBA_API samba_value samba_multi_dot(int count, const samba_value *matrices);

/* Input (..., in) times weight transposed, plus bias (out), of which a zeroed value is none. */
SAMBA_API samba_value samba_functional_linear(samba_value input, samba_value weight /* (out, in) */, samba_value bias);
/* The same with weights as they are kept, which are read where they lie: x (..., k), float32, gives (..., n), float32.
 *   weights float32 or bfloat16 (n, k), or (k, n) with `transposed`; scales zeroed
 *   weights int8 (n, k), scales float32 (n, 1): a row is the integers times its scale
 *   weights uint8 (n, k / 32, 16), scales float16 (n, k / 32, 1): groups as SAMBA_BASE_INT4 has them (adapter.h)
 * For few rows of x, where the time is that of reading the weights; a row's bits do not depend on how many others there are, up
 * to 12. It has no gradient. */
SAMBA_API samba_value samba_stored_linear(samba_value x, samba_value weights, samba_value scales, bool transposed);
/* input1 (..., n), input2 (..., m), weight (out, n, m), bias (out) -> (..., out) */
SAMBA_API samba_value samba_functional_bilinear(samba_value input1, samba_value input2, samba_value weight, samba_value bias);

SAMBA_API samba_value samba_trace(samba_value a); /* of a matrix: the sum of its diagonal */

/* Dense linear algebra, torch.linalg's: of each matrix of the last two dims, float32 or float64; dims before are a batch, which
 * broadcasts between two operands. A matrix that has no result (not positive definite, singular, with NaN where vectors are
 * sought) fails the run, with the stage and the matrix's number in its batch. Running needs the plugin for LAPACK
 * (docs/linear-algebra.md). Gradients are PyTorch's. */
/* L of a = L L^T, or with `upper` its transpose. Of a the lower triangle counts, with `upper` the upper one. */
SAMBA_API samba_value samba_cholesky(samba_value a, bool upper);
/* x with a x = b, or without `left` x a = b; of a (n, n) the named triangle counts, `unitriangular`: with a diagonal of 1.
 * b (n, k), or (k, n) without `left`. A 0 on the diagonal gives infinities. */
SAMBA_API samba_value samba_solve_triangular(samba_value a, samba_value b, bool upper, bool left, bool unitriangular);
/* The same of any a. b may be a vector (..., n) where it has a's batch dims, or none. */
SAMBA_API samba_value samba_solve(samba_value a, samba_value b, bool left);
SAMBA_API samba_value samba_inv(samba_value a);
SAMBA_API samba_value samba_det(samba_value a);
/* The determinant's sign, 1, -1 or 0, and the logarithm of its absolute value. */
SAMBA_API samba_value samba_slogdet(samba_value a, samba_value *logabsdet);
SAMBA_API samba_value samba_logdet(samba_value a); /* NaN of a negative determinant */
/* a (m, n) = Q R, k the lesser of m and n: Q (m, k) and R (k, n), torch's mode 'reduced'. */
SAMBA_API samba_value samba_qr(samba_value a, samba_value *r);
/* Values, ascending, and vectors in columns of a symmetric a, of which the lower or the upper triangle counts. The first element
 * of a vector that is more than 0.37 of its greatest is positive. */
SAMBA_API samba_value samba_eigh(samba_value a, bool upper, samba_value *vectors);
SAMBA_API samba_value samba_eigvalsh(samba_value a, bool upper);
/* a (m, n) = U diag(S) Vh: U (m, k), S (k), descending, and Vh (k, n), torch's full_matrices=False. Signs are as eigh's, of U. */
SAMBA_API samba_value samba_svd(samba_value a, samba_value *s, samba_value *vh);
SAMBA_API samba_value samba_svdvals(samba_value a);
/* Singular values up to max(atol, rtol times the greatest) count as 0. rtol below 0: the dtype's epsilon times the greater of m
 * and n, or 0 where atol is above 0. */
SAMBA_API samba_value samba_pinv(samba_value a, double atol, double rtol);
/* The x (n, k) of least length among those for which a x - b is least, b (m, k): pinv(a, 0, rcond) b. */
SAMBA_API samba_value samba_lstsq(samba_value a, samba_value b, double rcond);
SAMBA_API samba_value samba_matrix_power(samba_value a, int64_t n); /* below 0: of the inverse */
SAMBA_API samba_value samba_matrix_exp(samba_value a);

#ifdef __cplusplus
}
#endif
#endif
