/* SPDX-License-Identifier: Apache-2.0
 *
 * The loops behind extreme.h, compiled once for each ISA. */
#include "device/cpu/tile/extreme.h"
#include "device/cpu/tile/parts.h"
#include <string.h>

enum { SIDE = 2048 }; /* columns that are worked on at once, while rows pass */

#define EXTREME(name, type, better)                                                                                              \
    static void row_##name(void *d_, const void *a_, int64_t n, bool first)                                                      \
    {                                                                                                                            \
        type *d = d_;                                                                                                            \
        const type *a = a_;                                                                                                      \
        int64_t half = n / 2;                                                                                                    \
        type low = first ? a[0] : d[0], high = low;                                                                              \
        SAMBA_EXTREME_LOOP_##better for (int64_t i = 0; i < half; i++)                                                           \
        {                                                                                                                        \
            low = BETTER_##better(a[i], low);                                                                                    \
            high = BETTER_##better(a[half + i], high);                                                                           \
        }                                                                                                                        \
        low = BETTER_##better(a[n - 1], low);                                                                                    \
        d[0] = BETTER_##better(high, low);                                                                                       \
    }                                                                                                                            \
    static void columns_##name(void *d_, const void *a_, int64_t stride, int64_t rows, int64_t cols, bool first)                 \
    {                                                                                                                            \
        for (int64_t c = 0; c < cols; c += SIDE) {                                                                               \
            type *d = (type *)d_ + c;                                                                                            \
            const type *a = (const type *)a_ + c;                                                                                \
            int64_t n = cols - c < SIDE ? cols - c : SIDE, r = 0;                                                                \
            if (first && rows > 1) {                                                                                             \
                SAMBA_VECTOR_LOOP for (int64_t i = 0; i < n; i++)                                                                \
                    d[i] = BETTER_##better(a[i], a[stride + i]);                                                                 \
                r = 2;                                                                                                           \
            } else if (first) {                                                                                                  \
                memcpy(d, a, (size_t)n * sizeof *d);                                                                             \
                r = 1;                                                                                                           \
            }                                                                                                                    \
            for (; r + 1 < rows; r += 2) {                                                                                       \
                const type *x = a + r * stride, *y = x + stride;                                                                 \
                SAMBA_VECTOR_LOOP for (int64_t i = 0; i < n; i++) {                                                              \
                    type best = BETTER_##better(x[i], y[i]);                                                                     \
                    d[i] = BETTER_##better(best, d[i]);                                                                          \
                }                                                                                                                \
            }                                                                                                                    \
            if (r < rows) {                                                                                                      \
                const type *x = a + r * stride;                                                                                  \
                SAMBA_VECTOR_LOOP for (int64_t i = 0; i < n; i++)                                                                \
                    d[i] = BETTER_##better(x[i], d[i]);                                                                          \
            }                                                                                                                    \
        }                                                                                                                        \
    }
#define SAMBA_EXTREME_LOOP_greatest _Pragma("omp simd reduction(max : low, high)")
#define SAMBA_EXTREME_LOOP_least _Pragma("omp simd reduction(min : low, high)")
#define BETTER_greatest(x, y) ((x) > (y) ? (x) : (y))
#define BETTER_least(x, y) ((x) < (y) ? (x) : (y))
#define EXTREMES(name, type)                                                                                                     \
    EXTREME(greatest_##name, type, greatest)                                                                                     \
    EXTREME(least_##name, type, least)
EXTREMES(int8, int8_t)
EXTREMES(uint8, uint8_t)
EXTREMES(int16, int16_t)
EXTREMES(int32, int32_t)

#define BOTH(kernel, name)                                                                                                       \
    {                                                                                                                            \
        kernel##_least_##name, kernel##_greatest_##name                                                                          \
    }
const samba_extremes SAMBA_ISA_NAME(samba_extremes) = {
    {BOTH(row, int8), BOTH(row, uint8), BOTH(row, int16), BOTH(row, int32)},
    {BOTH(columns, int8), BOTH(columns, uint8), BOTH(columns, int16), BOTH(columns, int32)},
};
