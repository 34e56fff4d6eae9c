/* SPDX-License-Identifier: Apache-2.0
 *
 * The order in which a row is summed, in one place, so that all who sum rows agree to the last bit. It depends on the row's
 * length alone: four running vectors of 64 bytes, since one addition waits for the one before it, the part of a vector that is
 * left in the second of them, and one addition across them at the end. */
#ifndef SAMBA_CPU_REDUCE_SUM_H
#define SAMBA_CPU_REDUCE_SUM_H

#include "device/cpu/isa/wide.h"
#include <stdbool.h>
#include <stdint.h>

#define SHORT_SUM 16  /* columns below which a row is no work for vectors: plain additions of several rows overlap */
#define SUM_BLOCK 512 /* elements that are summed side by side */

typedef uint64_t unsigned_longs __attribute__((vector_size(VECTOR_BYTES)));
WIDE(f32, float, floats, ints)
WIDE(f64, double, doubles, longs)
WIDE(i64, uint64_t, unsigned_longs, longs)

/* samba_row_sum_<name>: the sum of a[i], or of a[i] * b[i] where b is not NULL; no_nan: without a[i] that are NaN.
 * samba_long_sum_<name>: of any number of them added to `sum`, or for itself where they are the first: by blocks, one after the
 * other, so that chunks of whole blocks may be as long as one likes. */
#define SAMBA_ROW_SUM(name, type)                                                                                                \
    INLINE __typeof__(((wide_##name *)0)->v[0]) samba_number_##name(__typeof__(((wide_##name *)0)->v[0]) x)                      \
    {                                                                                                                            \
        __typeof__(x == x) mask = x == x;                                                                                        \
        return (__typeof__(x))((__typeof__(mask))x & mask);                                                                      \
    }                                                                                                                            \
    INLINE void samba_add_lanes_##name(wide_##name *sum, const type *a, const type *b, const bool no_nan)                        \
    {                                                                                                                            \
        wide_##name x, y;                                                                                                        \
        wide_load_##name(&x, a);                                                                                                 \
        if (b) {                                                                                                                 \
            wide_load_##name(&y, b);                                                                                             \
            EACH_PART(p)                                                                                                         \
            x.v[p] *= y.v[p];                                                                                                    \
        }                                                                                                                        \
        EACH_PART(p)                                                                                                             \
        sum->v[p] += no_nan ? samba_number_##name(x.v[p]) : x.v[p];                                                              \
    }                                                                                                                            \
    /* The first n of them, fewer than a wide vector holds. */                                                                   \
    INLINE void samba_add_rest_##name(wide_##name *sum, const type *a, const type *b, int64_t n, const bool no_nan)              \
    {                                                                                                                            \
        enum { PART_ = VECTOR_BYTES / (int)sizeof(type) };                                                                       \
        EACH_PART(p)                                                                                                             \
        {                                                                                                                        \
            span_##name span = span_of_##name(n - p * PART_);                                                                    \
            __typeof__(sum->v[0]) x = (__typeof__(x))load_span_##name((const void *)(a + p * PART_), span);                      \
            if (b)                                                                                                               \
                x *= (__typeof__(x))load_span_##name((const void *)(b + p * PART_), span);                                       \
            sum->v[p] += no_nan ? samba_number_##name(x) : x;                                                                    \
        }                                                                                                                        \
    }                                                                                                                            \
    INLINE type samba_row_sum_##name(const type *a, const type *b, int64_t n, const bool no_nan)                                 \
    {                                                                                                                            \
        enum { LANES = 64 / (int)sizeof(type) };                                                                                 \
        type sum = 0;                                                                                                            \
        int64_t i = 0;                                                                                                           \
        if (n >= SHORT_SUM) {                                                                                                    \
            wide_##name part0 = {0}, part1 = part0, part2 = part0, part3 = part0;                                                \
            for (; i + 4 * LANES <= n; i += 4 * LANES) {                                                                         \
                samba_add_lanes_##name(&part0, a + i, b ? b + i : b, no_nan);                                                    \
                samba_add_lanes_##name(&part1, a + i + LANES, b ? b + i + LANES : b, no_nan);                                    \
                samba_add_lanes_##name(&part2, a + i + 2 * LANES, b ? b + i + 2 * LANES : b, no_nan);                            \
                samba_add_lanes_##name(&part3, a + i + 3 * LANES, b ? b + i + 3 * LANES : b, no_nan);                            \
            }                                                                                                                    \
            for (; i + LANES <= n; i += LANES)                                                                                   \
                samba_add_lanes_##name(&part0, a + i, b ? b + i : b, no_nan);                                                    \
            if (i < n)                                                                                                           \
                samba_add_rest_##name(&part1, a + i, b ? b + i : b, n - i, no_nan);                                              \
            wide_add_##name(&part0, &part1);                                                                                     \
            wide_add_##name(&part2, &part3);                                                                                     \
            wide_add_##name(&part0, &part2);                                                                                     \
            return wide_total_##name(&part0);                                                                                    \
        }                                                                                                                        \
        for (; i < n; i++)                                                                                                       \
            sum += no_nan && a[i] != a[i] ? 0 : b ? a[i] * b[i] : a[i];                                                          \
        return sum;                                                                                                              \
    }                                                                                                                            \
    INLINE type samba_long_sum_##name(type sum, const type *a, const type *b, int64_t n, bool first, const bool no_nan)          \
    {                                                                                                                            \
        int64_t i = 0;                                                                                                           \
        do {                                                                                                                     \
            int64_t block = n - i < SUM_BLOCK ? n - i : SUM_BLOCK;                                                               \
            type part = samba_row_sum_##name(a + i, b ? b + i : b, block, no_nan);                                               \
            sum = first ? part : sum + part;                                                                                     \
            first = false;                                                                                                       \
            i += SUM_BLOCK;                                                                                                      \
        } while (i < n);                                                                                                         \
        return sum;                                                                                                              \
    }

#endif
