/* SPDX-License-Identifier: Apache-2.0
 *
 * Tile programs that only move elements: each value loaded is stored as it is, elsewhere and in another order. Permuted copies,
 * slices, flips and joins are such. They need no registers: a move is a copy between two views, in planes of the two dims that
 * count: the one along which the result is contiguous, and the one along which the source is.
 * Programs that only clear memory are prepared here too. */
#ifndef SAMBA_CPU_MOVE_H
#define SAMBA_CPU_MOVE_H

#include "device/cpu/kernel.h"

typedef struct samba_moves { /* moves.c, once for each ISA; by the binary logarithm of an element's bytes; strides in elements */
    /* d[c*ldd + r] = s[r*lds + c] for rows x cols */
    void (*transpose[4])(void *d, int64_t ldd, const void *s, int64_t lds, int64_t rows, int64_t cols);
    /* d[r*d_row + c*d_col] = s[r*s_row + c*s_col] */
    void (*stride[4])(void *d, int64_t d_row, int64_t d_col, const void *s, int64_t s_row, int64_t s_col, int64_t rows,
                      int64_t cols);
    void (*numbers)(int64_t *d, int64_t first, int64_t step, int64_t n); /* first, first + step ... */
} samba_moves;

/* Prepares the stage, of kind TILE, if it only moves, or clears; else *prepared stays as it is and *moves is false. */
samba_status samba_prepare_move(const samba_preparing *prepare, const samba_stage *stage, samba_prepared *prepared, bool *moves);

#endif
