/* SPDX-License-Identifier: Apache-2.0
 *
 * Products of one row: y = x B, as generating a token makes them, and attention of one query. Each element of B is used once, so
 * time is that of reading B: rows are read where they lie, in order, and nothing is packed.
 *
 * rows.c has the loops, once for each ISA; row.c a contraction whose A has one row; attention_row.c attention of one query. */
#ifndef SAMBA_CPU_ROWS_H
#define SAMBA_CPU_ROWS_H

#include "device/cpu/kernel.h"

enum { SAMBA_ROWS_F32 = 0, SAMBA_ROWS_BF16 = 1 }; /* of the matrix; results are float */

struct samba_rows { /* rows of a matrix lie ld elements apart, their elements together */
    /* d[i] = sum over l < k of x[l] rows[i][l], x of the matrix's dtype */
    void (*dots[2])(const void *x, const void *rows, int64_t ld, int64_t count, int64_t k, float *d);
    /* d[j] += sum over i < count of x[i] rows[i][j] */
    void (*sums[2])(const float *x, const void *rows, int64_t ld, int64_t count, int64_t n, float *d);
};

#endif
