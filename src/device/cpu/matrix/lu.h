/* SPDX-License-Identifier: Apache-2.0
 *
 * LU of a matrix, in place (lu.c): L below the diagonal, of which it has 1, and U. Step i exchanged row i with row
 * pivots[i] >= i. A column of zeros from the diagonal on is left as it is; then the result of the function is false. NaN and
 * infinities spread. */
#ifndef SAMBA_LU_H
#define SAMBA_LU_H

#include "device/cpu/kernel.h"
#include "device/cpu/matrix/triangle.h"

struct samba_lu {
    void *a; /* n x n, by rows that lie `pitch` elements apart: what lies beyond n is spoilt */
    int64_t n, pitch;
    int32_t *pivots;
    void *room; /* samba_lu_room elements */
};

/* Elements between two rows: whole lines of cache, and not so many that rows meet in few sets of it. */
static inline int64_t samba_lu_pitch(int64_t n, int64_t size)
{
    const int64_t line = 64 / size, lines = (n + line - 1) / line;
    return (lines % 32 == 0 ? lines + 1 : lines) * line;
}

/* Columns of a line of cache turned around, and one more. */
static inline int64_t samba_lu_room(int64_t n, int64_t size) { return (64 / size + 1) * ((n + 15) / 16 * 16); }

#endif
