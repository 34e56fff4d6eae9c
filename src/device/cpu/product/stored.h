/* SPDX-License-Identifier: Apache-2.0
 *
 * Products with weights as they lie in memory: y = x W of few rows x, where time is that of reading W. stored_rows.c has the
 * loops, once for each ISA; stored.c the stage. A sum's order is that of k, in lanes of its own, whatever else is computed
 * beside it: a row gives the same bits alone and among others. */
#ifndef SAMBA_CPU_STORED_H
#define SAMBA_CPU_STORED_H

#include "device/cpu/kernel.h"

enum { SAMBA_STORED_GROUP = 32, SAMBA_STORED_ROWS = 4 /* of x that one pass takes, at most */ };

typedef struct samba_stored_rows {
    const void *x; /* float rows, x_ld elements apart; of 4-bit groups as `arrange` has made them */
    int64_t x_ld, m;
    const void *rows;   /* of the weights, `ld` elements apart: bytes of 4-bit groups */
    const void *scales; /* one float a row; float16, k / SAMBA_STORED_GROUP a row */
    int64_t ld, count, k;
    float *y; /* y[i * y_ld + r] */
    int64_t y_ld;
} samba_stored_rows;

struct samba_stored { /* by samba_linear_form */
    /* y of `count` rows of the weights, for m rows of x */
    void (*dots[SAMBA_LINEAR_FORM_COUNT])(const samba_stored_rows *some);
    /* y[i][j] = sum over l < k of x[i][l] rows[l][j], j < count: weights (k, count) */
    void (*sums[2])(const samba_stored_rows *some);
    /* n elements of a row from the first on as floats; n and first are multiples of a group */
    void (*widen[SAMBA_LINEAR_FORM_COUNT])(const void *row, const void *scales, int64_t first, int64_t n, float *to);
    /* A row of x as the integers that groups of 4 bits are multiplied with */
    void (*arrange)(const float *x, int64_t k, float *to);
    int64_t (*arranged)(int64_t k); /* floats of such a row */
};

#endif
