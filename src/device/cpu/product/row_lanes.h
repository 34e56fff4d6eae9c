/* SPDX-License-Identifier: Apache-2.0
 *
 * Vectors of floats out of rows in memory, and the sum of a vector: what products of few rows are made of (rows.c,
 * stored_rows.c). For sources that are compiled once for each ISA. */
#ifndef SAMBA_CPU_ROW_LANES_H
#define SAMBA_CPU_ROW_LANES_H

#include "device/cpu/isa/halves.h"
#include "device/cpu/isa/shuffle.h"

enum { LANES = VECTOR_BYTES / 4 };

INLINE floats load_f32(const float *p)
{
    floats v;
    __builtin_memcpy(&v, p, sizeof v);
    return v;
}

INLINE floats floats_of(halves h) { return (floats)(__builtin_convertvector(h, words) << 16); }
INLINE floats load_bf16(const uint16_t *p) { return floats_of(load_halves(p)); }
INLINE floats load_part_bf16(const uint16_t *p, int n) { return floats_of(load_part_halves(p, n)); }

INLINE ints lane_numbers(void)
{
    static const int32_t numbers[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    ints v;
    __builtin_memcpy(&v, numbers, sizeof v);
    return v;
}

INLINE float total(floats v)
{
    UNROLL for (int width = LANES / 2; width > 0; width /= 2)
        v += SHUFFLE1(v, lane_numbers() ^ width);
    return v[0];
}

#endif
