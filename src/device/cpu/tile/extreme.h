/* SPDX-License-Identifier: Apache-2.0
 *
 * Tile programs that only find the greatest or least of narrow integers. A register holds them in 64 bits, so a vector takes a
 * few of them; memory holds them as wide as they are. What is reduced is walked where it lies: as rows that come to one value
 * each, or as columns side by side. */
#ifndef SAMBA_CPU_EXTREME_H
#define SAMBA_CPU_EXTREME_H

#include "device/cpu/kernel.h"

typedef enum samba_narrow {
    SAMBA_NARROW_INT8,
    SAMBA_NARROW_UINT8,
    SAMBA_NARROW_INT16,
    SAMBA_NARROW_INT32,
    SAMBA_NARROW_COUNT
} samba_narrow;

typedef struct samba_extremes { /* extremes.c, once for each ISA; [1]: the greatest, [0]: the least; strides in elements */
    /* d[0] of n elements, at least one; unless `first`, of what it holds too */
    void (*row[SAMBA_NARROW_COUNT][2])(void *d, const void *a, int64_t n, bool first);
    /* d[c] of a[r * stride + c], for rows x cols of them */
    void (*columns[SAMBA_NARROW_COUNT][2])(void *d, const void *a, int64_t stride, int64_t rows, int64_t cols, bool first);
} samba_extremes;

/* Prepares the stage, of kind TILE, if it is such a one; else *prepared stays as it is and *extreme is false. */
samba_status samba_prepare_extreme(const samba_preparing *prepare, const samba_stage *stage, samba_prepared *prepared,
                                   bool *extreme);

#endif
