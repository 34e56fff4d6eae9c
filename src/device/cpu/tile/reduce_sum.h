/* SPDX-License-Identifier: Apache-2.0
 *
 * The order in which a row is summed, in one place, so that all who sum rows agree to the last bit. It depends on the row's
 * length alone: four running vectors of 64 bytes, since one addition waits for the one before it, and one addition across them at
 * the end. */
#ifndef SAMBA_CPU_REDUCE_SUM_H
#define SAMBA_CPU_REDUCE_SUM_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define SHORT_SUM 32  /* columns below which a row is no work for vectors: plain additions of several rows overlap */
#define SUM_BLOCK 512 /* elements that are summed side by side */

typedef float samba_lanes_f32 __attribute__((vector_size(64)));
typedef double samba_lanes_f64 __attribute__((vector_size(64)));
typedef uint64_t samba_lanes_i64 __attribute__((vector_size(64)));

/* Lanes are added by halves: the upper to the lower, until one is left. Vectors are handed on by pointer: how one is passed as a
 * value depends on the instruction set. */
#define HALVES(x, ...) ((x) + __builtin_shufflevector(x, x, __VA_ARGS__))
#define ACROSS(name, type)                                                                                                       \
    static inline type samba_across_##name(const samba_lanes_##name *lanes)                                                      \
    {                                                                                                                            \
        samba_lanes_##name x = *lanes;                                                                                           \
        x = HALVES(x, 4, 5, 6, 7, 0, 1, 2, 3);                                                                                   \
        x = HALVES(x, 2, 3, 4, 5, 6, 7, 0, 1);                                                                                   \
        x = HALVES(x, 1, 2, 3, 4, 5, 6, 7, 0);                                                                                   \
        return x[0];                                                                                                             \
    }
ACROSS(f64, double)
ACROSS(i64, uint64_t)
static inline float samba_across_f32(const samba_lanes_f32 *lanes)
{
    samba_lanes_f32 x = *lanes;
    x = HALVES(x, 8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7);
    x = HALVES(x, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3);
    x = HALVES(x, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 0, 1);
    x = HALVES(x, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 0);
    return x[0];
}

/* samba_row_sum_<name>: the sum of a[i], or of a[i] * b[i] where b is not NULL.
 * samba_long_sum_<name>: of any number of them added to `sum`, or for itself where they are the first: by blocks, one after the
 * other, so that chunks of whole blocks may be as long as one likes. */
#define SAMBA_ROW_SUM(name, type)                                                                                                \
    static inline void samba_add_lanes_##name(samba_lanes_##name *sum, const type *a, const type *b)                             \
    {                                                                                                                            \
        samba_lanes_##name x, y;                                                                                                 \
        memcpy(&x, a, sizeof x);                                                                                                 \
        if (b) {                                                                                                                 \
            memcpy(&y, b, sizeof y);                                                                                             \
            x *= y;                                                                                                              \
        }                                                                                                                        \
        *sum += x;                                                                                                               \
    }                                                                                                                            \
    static inline type samba_row_sum_##name(const type *a, const type *b, int64_t n)                                             \
    {                                                                                                                            \
        enum { LANES = 64 / (int)sizeof(type) };                                                                                 \
        type sum = 0;                                                                                                            \
        int64_t i = 0;                                                                                                           \
        if (n >= SHORT_SUM) {                                                                                                    \
            samba_lanes_##name part0 = {0}, part1 = part0, part2 = part0, part3 = part0;                                         \
            for (; i + 4 * LANES <= n; i += 4 * LANES) {                                                                         \
                samba_add_lanes_##name(&part0, a + i, b ? b + i : b);                                                            \
                samba_add_lanes_##name(&part1, a + i + LANES, b ? b + i + LANES : b);                                            \
                samba_add_lanes_##name(&part2, a + i + 2 * LANES, b ? b + i + 2 * LANES : b);                                    \
                samba_add_lanes_##name(&part3, a + i + 3 * LANES, b ? b + i + 3 * LANES : b);                                    \
            }                                                                                                                    \
            for (; i + LANES <= n; i += LANES)                                                                                   \
                samba_add_lanes_##name(&part0, a + i, b ? b + i : b);                                                            \
            part0 = (part0 + part1) + (part2 + part3);                                                                           \
            sum = samba_across_##name(&part0);                                                                                   \
        }                                                                                                                        \
        for (; i < n; i++)                                                                                                       \
            sum += b ? a[i] * b[i] : a[i];                                                                                       \
        return sum;                                                                                                              \
    }                                                                                                                            \
    static inline type samba_long_sum_##name(type sum, const type *a, const type *b, int64_t n, bool first)                      \
    {                                                                                                                            \
        int64_t i = 0;                                                                                                           \
        do {                                                                                                                     \
            int64_t block = n - i < SUM_BLOCK ? n - i : SUM_BLOCK;                                                               \
            type part = samba_row_sum_##name(a + i, b ? b + i : b, block);                                                       \
            sum = first ? part : sum + part;                                                                                     \
            first = false;                                                                                                       \
            i += SUM_BLOCK;                                                                                                      \
        } while (i < n);                                                                                                         \
        return sum;                                                                                                              \
    }

#endif
