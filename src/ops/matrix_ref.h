/* SPDX-License-Identifier: Apache-2.0
 *
 * Reference kernels over matrices (matrix_ref.c), as composites use them too (matrix_ref_composites.c): loading, storing,
 * failing, and the algorithms, over rows of doubles. */
#ifndef SAMBA_OPS_MATRIX_REF_H
#define SAMBA_OPS_MATRIX_REF_H

#include "ops/families.h"

typedef struct samba_matrices { /* of input 0: batch of m x n, k the lesser */
    const samba_reference *reference;
    const char *name;
    int64_t batch, m, n, k;
    double *room;
    size_t bytes;
} samba_matrices;
/* `name`: of the operator, for messages; so many doubles of zeroed room, until the end, which returns the status. */
samba_status samba_matrices_begin(samba_matrices *s, const samba_reference *reference, const char *name, int64_t doubles);
samba_status samba_matrices_end(samba_matrices *s, samba_status status);
void samba_matrices_load(const samba_matrices *s, int input, int64_t element, double *to);
/* Elements of the result of one matrix, of `size`, from `offset` on. */
void samba_matrices_store(const samba_matrices *s, int64_t element, int64_t size, int64_t offset, int64_t count,
                          const double *from);
samba_status samba_matrices_fail(const samba_matrices *s, int64_t element, const char *what);

/* In place; pivots: n. False: singular, of which there are factors all the same. */
bool samba_matrix_lu(int64_t n, double *a, double *pivots);
/* lu: n x n, then the pivots; b (n, right), in place */
void samba_matrix_lu_solve(int64_t n, int64_t right, const double *lu, double *b, bool transposed);
/* a is overwritten; factors: k */
void samba_matrix_qr(int64_t m, int64_t n, double *a, double *q, double *r, double *factors);
/* a is overwritten. False: NaN or infinities */
bool samba_matrix_eigh(int64_t n, double *a, double *values, double *vectors);
/* u (m, k), v (n, k) */
bool samba_matrix_svd(int64_t m, int64_t n, const double *a, double *u, double *values, double *v);

#endif
