/* SPDX-License-Identifier: Apache-2.0
 *
 * What operators over the last two dims of a value share: shapes, and nodes that formulas are made of (matrix_emit.c). `a` is
 * (..., rows, columns) of float32 or float64. */
#ifndef SAMBA_OPS_MATRIX_H
#define SAMBA_OPS_MATRIX_H

#include "ops/families.h"

/* Input `i` is a matrix of float32 or float64, or a batch of them; square ones where that is asked for. */
samba_status samba_infer_need_matrix(const samba_infer *infer, int i, bool square);
/* The result: the batch dims of input 0, rows x columns. */
samba_status samba_infer_set_matrix(samba_infer *infer, int64_t rows, int64_t columns);
static inline int64_t samba_rows_of(const samba_node *a) { return a->shape[a->rank - 2]; }
static inline int64_t samba_columns_of(const samba_node *a) { return a->shape[a->rank - 1]; }

samba_ref samba_emit_product(samba_graph *graph, samba_ref a, samba_ref b);
samba_ref samba_emit_turned(samba_graph *graph, samba_ref a); /* transposed */
samba_ref samba_emit_rows(samba_graph *graph, samba_ref a, int64_t begin, int64_t end);
samba_ref samba_emit_columns(samba_graph *graph, samba_ref a, int64_t begin, int64_t end);
/* a where `row relation column` holds (ge: the lower triangle, eq: the diagonal ...), else `other` of rank 0, or 0 with NONE. */
samba_ref samba_emit_where_rows(samba_graph *graph, samba_ref a, samba_op relation, samba_ref other);
/* The diagonal's elements, (..., 1, columns), of as many rows or more. */
samba_ref samba_emit_diagonal(samba_graph *graph, samba_ref a);
/* v (..., 1, n) on the diagonal of n x n matrices of zeros. */
samba_ref samba_emit_diagonal_matrix(samba_graph *graph, samba_ref v);
/* number (..., 1, 1) times the identity of a's shape, or the identity with NONE. */
samba_ref samba_emit_identity(samba_graph *graph, samba_ref a, samba_ref number);
/* x with a x = b, a triangular. */
samba_ref samba_emit_triangular_solve(samba_graph *graph, samba_ref a, samba_ref b, bool upper, bool unit);
/* (..., n + 1, n), and the x that it gives with a x = b, or the transpose of a. */
samba_ref samba_emit_lu(samba_graph *graph, samba_ref a, bool singular);
samba_ref samba_emit_lu_solve(samba_graph *graph, samba_ref lu, samba_ref b, bool transposed);

/* Parts of qr, svd and eigh, by their attribute. */
enum { SAMBA_PART_Q, SAMBA_PART_R };
enum { SAMBA_PART_U, SAMBA_PART_VALUES, SAMBA_PART_V, SAMBA_PART_VALUES_ALONE };
enum { SAMBA_PART_EIGENVALUES, SAMBA_PART_VECTORS, SAMBA_PART_EIGENVALUES_ALONE };
/* Of eigh or svd the values, by factors that have no vectors. */
static inline bool samba_is_values_alone(const samba_node *node)
{
    return (node->op == SAMBA_OP_eigh && node->attrs->part.part == SAMBA_PART_EIGENVALUES_ALONE) ||
           (node->op == SAMBA_OP_svd && node->attrs->part.part == SAMBA_PART_VALUES_ALONE);
}
/* spectrum.c: the gradient of `a`, which has elements, for that of a part of its factors: Q or R; the values, a row (..., 1, k),
 * or the vectors; U, the values as a row, or V transposed. */
samba_ref samba_emit_qr_gradient(samba_graph *graph, samba_ref a, int64_t part, samba_ref g);
samba_ref samba_emit_eigh_gradient(samba_graph *graph, samba_ref a, bool of_vectors, samba_ref g);
samba_ref samba_emit_svd_gradient(samba_graph *graph, samba_ref a, int64_t part, samba_ref g);

#endif
