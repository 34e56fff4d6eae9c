/* SPDX-License-Identifier: Apache-2.0
 *
 * Singular values of matrices that have few columns and any number of rows, and eigenvalues of small symmetric ones (few.c): all
 * in float64, whatever the matrix's type is. The first k rows stand by themselves, the others in blocks of them, each of which
 * lies by columns that are a whole number of lines of cache, zeros behind its last row. */
#ifndef SAMBA_FEW_H
#define SAMBA_FEW_H

#include "device/cpu/kernel.h"

enum {
    SAMBA_FEW = 4,        /* columns at most */
    SAMBA_FEW_ROWS = 512, /* of a block: its columns lie in the nearest cache */
};

/* What a call for singular values does: the first rows, blocks in turn, each while it lies in the nearest cache, and the rest. */
enum { SAMBA_FEW_FIRST = -1, SAMBA_FEW_REST = -2 };

struct samba_few {
    int64_t step; /* one of these, or a block's number */
    int64_t m;    /* rows, k or more */
    int k;
    bool exact;                           /* the result is float64 */
    bool values;                          /* these alone */
    bool turned;                          /* the matrix is a transpose: the signs of vectors are those of the short ones */
    bool negative[SAMBA_FEW];             /* of a long vector: it is to be negated, but for its first rows */
    double *blocks;                       /* samba_few_room elements, the blocks first */
    double first[SAMBA_FEW][SAMBA_FEW];   /* by columns: rows before the blocks, or the symmetric matrix's lower triangle */
    double spectrum[SAMBA_FEW];           /* singular values, descending, or eigenvalues, ascending */
    double vectors[SAMBA_FEW][SAMBA_FEW]; /* the short ones, one after the other; long ones take the matrix's place */
};

/* Rows of a block that has so many left, with the zeros behind them. */
static inline int64_t samba_few_pitch(int64_t left) { return left < SAMBA_FEW_ROWS ? (left + 7) / 8 * 8 : SAMBA_FEW_ROWS; }

static inline int64_t samba_few_blocks(int64_t m, int64_t k) { return (m - k + SAMBA_FEW_ROWS - 1) / SAMBA_FEW_ROWS; }

/* Doubles of all blocks. */
static inline int64_t samba_few_all(int64_t m, int64_t k)
{
    return k * ((m - k) / SAMBA_FEW_ROWS * SAMBA_FEW_ROWS + samba_few_pitch((m - k) % SAMBA_FEW_ROWS));
}

/* Doubles: the blocks, and two of each column of a block, and of the first rows, that say what its reflection is. */
static inline int64_t samba_few_room(int64_t m, int64_t k)
{
    return samba_few_all(m, k) + 2 * SAMBA_FEW * (samba_few_blocks(m, k) + 1);
}

#endif
