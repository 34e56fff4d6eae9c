/* SPDX-License-Identifier: Apache-2.0
 *
 * A block of a large product: rows of A times a packed panel of B, as many sums at once as registers hold. The block begins
 * with nothing or with the sums of earlier k, and ends in scratch or where the result belongs, so that sums need not be copied
 * there. Compiled once an instruction set; blocks.h has it in its table. */
#ifndef SAMBA_CPU_DENSE_H
#define SAMBA_CPU_DENSE_H

#include "device/cpu/fetch.h"

#include <stdbool.h>

enum {
    SAMBA_PANEL_WIDTH =
        64 /* columns of a panel, which is packed as block kernels read it: whole vectors of every instruction set */
};
enum { SAMBA_DENSE_MOST_ROWS = 8 /* of a strip, of every instruction set */ };
enum { SAMBA_DENSE_ROUND = 16 /* rows of a panel are multiples of so many columns: no vector reaches beyond them */ };

/* Rows are dealt evenly to strips of at most as many as registers hold, so that no few are left over for a short and slow last
 * one. */
static inline int64_t samba_dense_strips(int64_t rows, int64_t most) { return (rows + most - 1) / most; }
static inline int64_t samba_dense_strip_row(int64_t rows, int64_t strips, int64_t strip) { return strip * rows / strips; }

typedef struct samba_dense {
    int64_t rows, cols, k;
    bool strips;    /* how a lies: see there */
    const float *a; /* a[i*lda + l*ska], and lda or ska is 1; in strips, row i of strip s: a[s*lda + l*dense_rows + i] */
    int64_t lda, ska;
    const float *b; /* b[l*ldb + j]; readable up to a multiple of SAMBA_DENSE_ROUND columns. In strips ldb is dense_cols */
    int64_t ldb;
    const float *from; /* from[i*from_ld + j]: sums so far; NULL: none */
    int64_t from_ld;
    float *c; /* c[i*ldc + j] */
    int64_t ldc;
} samba_dense;

/* The same where an element of a and of b is a pair of bfloat16, as pairs.h packs them: k, lda, ska and ldb count pairs.
 * Only for CPUs of which samba_processor_has_pairs() is true. */
void samba_dense_pairs(const samba_dense *block, samba_fetch *fetch);

#endif
