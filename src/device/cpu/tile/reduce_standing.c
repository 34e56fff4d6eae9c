/* SPDX-License-Identifier: Apache-2.0
 *
 * Row reductions over tiles that stand (standing.c): element (r, c) is a[c * rows + r], so rows lie side by side and one vector
 * holds an element of each of several rows. Compiled once for each ISA. Greatest and least values propagate NaN; sums and
 * products take one column after the other, as rows of fewer than SHORT_SUM elements are added where tiles lie. */
#include "device/cpu/isa/uncontracted.h"
#include "device/cpu/isa/lanes.h"
#include "device/cpu/tile/parts.h"
#include <math.h>
#include <string.h>

enum { SIDE = 32 }; /* rows whose results registers hold while columns pass */

#define STAND(kernel, name, type, start, step)                                                                                   \
    INLINE void kernel##_some_##name(type *d, const type *a, int64_t rows, int64_t n, int64_t cols, bool first)                  \
    {                                                                                                                            \
        type of[SIDE];                                                                                                           \
        SAMBA_VECTOR_LOOP for (int64_t k = 0; k < n; k++)                                                                        \
            of[k] = first ? (type)(start) : d[k];                                                                                \
        for (int64_t c = 0; c < cols; c++, a += rows) {                                                                          \
            SAMBA_VECTOR_LOOP for (int64_t k = 0; k < n; k++) {                                                                  \
                type x = a[k], y = of[k];                                                                                        \
                of[k] = (step);                                                                                                  \
            }                                                                                                                    \
        }                                                                                                                        \
        memcpy(d, of, (size_t)n * sizeof *d);                                                                                    \
    }                                                                                                                            \
    void SAMBA_ISA_NAME(samba_standing_##kernel##_##name)(void *d_, const void *a_, int64_t rows, int64_t cols, bool first)      \
    {                                                                                                                            \
        type *d = d_;                                                                                                            \
        const type *a = a_;                                                                                                      \
        int64_t r = 0;                                                                                                           \
        for (; r + SIDE <= rows; r += SIDE)                                                                                      \
            kernel##_some_##name(d + r, a + r, rows, SIDE, cols, first);                                                         \
        if (r < rows)                                                                                                            \
            kernel##_some_##name(d + r, a + r, rows, rows - r, cols, first);                                                     \
    }
STAND(sum, f32, float, 0, y + x)
STAND(sum, f64, double, 0, y + x)
STAND(sum, i64, uint64_t, 0, y + x) /* wraps */
STAND(prod, f32, float, 1, y *x)
STAND(prod, f64, double, 1, y *x)
STAND(prod, i64, uint64_t, 1, y *x) /* wraps */
#define STANDS(name, type, least, greatest)                                                                                      \
    STAND(amax, name, type, least, ((x > y) | (x != x)) ? x : y)                                                                 \
    STAND(amin, name, type, greatest, ((x < y) | (x != x)) ? x : y)
STANDS(f32, float, -INFINITY, INFINITY)
STANDS(f64, double, -INFINITY, INFINITY)
STANDS(i64, int64_t, INT64_MIN, INT64_MAX)

/* The greatest value first, then where it stands first; NaN counts as greatest. `at` is as wide as the values, for one mask. */
#define STANDING_ARGMAX(name, type, index)                                                                                       \
    INLINE void argmax_some_##name(int64_t *d, type *best, const type *a, int64_t rows, int64_t n, int64_t cols, int64_t col0,   \
                                   bool first)                                                                                   \
    {                                                                                                                            \
        type of[SIDE];                                                                                                           \
        index at[SIDE];                                                                                                          \
        SAMBA_VECTOR_LOOP for (int64_t k = 0; k < n; k++) {                                                                      \
            of[k] = first ? a[k] : best[k];                                                                                      \
            at[k] = first ? 0 : -1;                                                                                              \
        }                                                                                                                        \
        for (int64_t c = 0; c < cols; c++, a += rows) {                                                                          \
            SAMBA_VECTOR_LOOP for (int64_t k = 0; k < n; k++) {                                                                  \
                type x = a[k], y = of[k];                                                                                        \
                bool takes = (x > y) | ((x != x) & (y == y));                                                                    \
                of[k] = takes ? x : y;                                                                                           \
                at[k] = takes ? (index)c : at[k];                                                                                \
            }                                                                                                                    \
        }                                                                                                                        \
        for (int64_t k = 0; k < n; k++) {                                                                                        \
            best[k] = of[k];                                                                                                     \
            d[k] = at[k] < 0 ? d[k] : col0 + at[k];                                                                              \
        }                                                                                                                        \
    }                                                                                                                            \
    void SAMBA_ISA_NAME(samba_standing_argmax_##name)(int64_t * d, void *best_, const void *a_, int64_t rows, int64_t cols,      \
                                                      int64_t col0, bool first)                                                  \
    {                                                                                                                            \
        type *best = best_;                                                                                                      \
        const type *a = a_;                                                                                                      \
        int64_t r = 0;                                                                                                           \
        for (; r + SIDE <= rows; r += SIDE)                                                                                      \
            argmax_some_##name(d + r, best + r, a + r, rows, SIDE, cols, col0, first);                                           \
        if (r < rows)                                                                                                            \
            argmax_some_##name(d + r, best + r, a + r, rows, rows - r, cols, col0, first);                                       \
    }
STANDING_ARGMAX(f32, float, int32_t)
STANDING_ARGMAX(f64, double, int64_t)
STANDING_ARGMAX(i64, int64_t, int64_t)

/* ---- greatest and least so far, of lines side by side ---- */
#define RUNNING(name, type)                                                                                                      \
    void SAMBA_ISA_NAME(samba_running_extremes_##name)(void *best_, int64_t *at, void *x_, int64_t *indices, int64_t index,      \
                                                       int64_t n, bool greatest)                                                 \
    {                                                                                                                            \
        type *best = best_, *x = x_;                                                                                             \
        if (at[0] < 0)                                                                                                           \
            memcpy(best, x, (size_t)n * sizeof *x);                                                                              \
        if (greatest) {                                                                                                          \
            SAMBA_VECTOR_LOOP for (int64_t i = 0; i < n; i++) {                                                                  \
                bool takes = (x[i] != x[i]) | (x[i] >= best[i]);                                                                 \
                best[i] = x[i] = takes ? x[i] : best[i];                                                                         \
                indices[i] = at[i] = takes ? index : at[i];                                                                      \
            }                                                                                                                    \
        } else {                                                                                                                 \
            SAMBA_VECTOR_LOOP for (int64_t i = 0; i < n; i++) {                                                                  \
                bool takes = (x[i] != x[i]) | (x[i] <= best[i]);                                                                 \
                best[i] = x[i] = takes ? x[i] : best[i];                                                                         \
                indices[i] = at[i] = takes ? index : at[i];                                                                      \
            }                                                                                                                    \
        }                                                                                                                        \
    }
RUNNING(f32, float)
RUNNING(f64, double)
RUNNING(i64, int64_t)
