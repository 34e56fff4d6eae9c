/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernels over tiles of rows x columns: fill, spread, row reductions, column and total sums. Compiled once for each ISA. The
 * order of additions depends on the sizes alone, so results are reproducible. Greatest and least values propagate NaN. */
#include "device/cpu/tile/parts.h"
#include "device/cpu/tile/reduce_sum.h"
#include <math.h>
#include <string.h>

#define SHORT_ROW 16 /* columns below which a row is no work for vectors */

/* ---- values that are not a number, of any class ---- */
static inline bool is_nan_f32(float x) { return x != x; }
static inline bool is_nan_f64(double x) { return x != x; }
static inline bool is_nan_i64(int64_t x)
{
    (void)x;
    return false;
}
static inline float nan_f32(void) { return NAN; }
static inline double nan_f64(void) { return NAN; }
static inline int64_t nan_i64(void) { return 0; } /* never asked for */

/* ---- fill, spread ---- */
#define FILL(name, type)                                                                                                         \
    void SAMBA_ISA_NAME(samba_fill_##name)(void *d_, const void *value, int64_t n)                                               \
    {                                                                                                                            \
        type *d = d_, x = *(const type *)value;                                                                                  \
        SAMBA_VECTOR_LOOP for (int64_t i = 0; i < n; i++)                                                                        \
            d[i] = x;                                                                                                            \
    }                                                                                                                            \
    /* A short row is written SHORT_ROW wide, into what the next rows then write over, as long as that lies inside. */           \
    void SAMBA_ISA_NAME(samba_spread_##name)(void *d_, const void *a_, int64_t rows, int64_t cols)                               \
    {                                                                                                                            \
        type *d = d_;                                                                                                            \
        const type *a = a_;                                                                                                      \
        if (cols == 1) {                                                                                                         \
            memcpy(d, a, (size_t)rows * sizeof(type));                                                                           \
            return;                                                                                                              \
        }                                                                                                                        \
        int64_t r = 0, wide = cols < SHORT_ROW ? rows - (SHORT_ROW + cols - 1) / (cols > 0 ? cols : 1) : 0;                      \
        for (; r < wide; r++, d += cols)                                                                                         \
            for (int c = 0; c < SHORT_ROW; c++)                                                                                  \
                d[c] = a[r];                                                                                                     \
        for (; r < rows; r++, d += cols) {                                                                                       \
            type x = a[r];                                                                                                       \
            SAMBA_VECTOR_LOOP for (int64_t c = 0; c < cols; c++)                                                                 \
                d[c] = x;                                                                                                        \
        }                                                                                                                        \
    }
FILL(f32, float)
FILL(f64, double)
FILL(i64, int64_t)

/* ---- row reductions ---- */
SAMBA_ROW_SUM(f32, float)
SAMBA_ROW_SUM(f64, double)
SAMBA_ROW_SUM(i64, uint64_t)
#define SUM(name, type, add_type)                                                                                                \
    void SAMBA_ISA_NAME(samba_sum_##name)(void *d_, const void *a_, int64_t rows, int64_t cols, bool first)                      \
    {                                                                                                                            \
        type *d = d_;                                                                                                            \
        const add_type *a = a_;                                                                                                  \
        for (int64_t r = 0; r < rows; r++, a += cols)                                                                            \
            d[r] = (type)samba_long_sum_##name((add_type)d[r], a, NULL, cols, first);                                            \
    }
SUM(f32, float, float)
SUM(f64, double, double)
SUM(i64, int64_t, uint64_t) /* wraps */

/* Four running vectors, as of sums. */
#define EXTREME(kernel, name, type, mask_type, better, worst)                                                                    \
    static inline void kernel##_lanes_##name(samba_extreme_##name *best, samba_mask_##name *nan, const type *a)                  \
    {                                                                                                                            \
        samba_extreme_##name x;                                                                                                  \
        memcpy(&x, a, sizeof x);                                                                                                 \
        samba_mask_##name m = x better * best;                                                                                   \
        *nan |= x != x;                                                                                                          \
        *best = (samba_extreme_##name)(((samba_mask_##name)x & m) | ((samba_mask_##name) * best & ~m));                          \
    }                                                                                                                            \
    static inline type kernel##_row_##name(const type *a, int64_t n)                                                             \
    {                                                                                                                            \
        enum { LANES = 64 / (int)sizeof(type) };                                                                                 \
        type best = worst;                                                                                                       \
        mask_type nan = 0;                                                                                                       \
        int64_t i = 0;                                                                                                           \
        if (n >= SHORT_ROW) {                                                                                                    \
            samba_extreme_##name best0 = best - (samba_extreme_##name){0}, best1 = best0, best2 = best0, best3 = best0;          \
            samba_mask_##name nan0 = {0}, nan1 = nan0, nan2 = nan0, nan3 = nan0;                                                 \
            for (; i + 4 * LANES <= n; i += 4 * LANES) {                                                                         \
                kernel##_lanes_##name(&best0, &nan0, a + i);                                                                     \
                kernel##_lanes_##name(&best1, &nan1, a + i + LANES);                                                             \
                kernel##_lanes_##name(&best2, &nan2, a + i + 2 * LANES);                                                         \
                kernel##_lanes_##name(&best3, &nan3, a + i + 3 * LANES);                                                         \
            }                                                                                                                    \
            for (; i + LANES <= n; i += LANES)                                                                                   \
                kernel##_lanes_##name(&best0, &nan0, a + i);                                                                     \
            kernel##_lanes_##name(&best0, &nan0, (const type *)&best1);                                                          \
            kernel##_lanes_##name(&best0, &nan0, (const type *)&best2);                                                          \
            kernel##_lanes_##name(&best0, &nan0, (const type *)&best3);                                                          \
            nan0 |= nan1 | nan2 | nan3;                                                                                          \
            for (int k = 0; k < LANES; k++) {                                                                                    \
                best = best0[k] better best ? best0[k] : best;                                                                   \
                nan |= nan0[k];                                                                                                  \
            }                                                                                                                    \
        }                                                                                                                        \
        for (; i < n; i++) {                                                                                                     \
            nan |= is_nan_##name(a[i]);                                                                                          \
            best = a[i] better best ? a[i] : best;                                                                               \
        }                                                                                                                        \
        return nan ? nan_##name() : best;                                                                                        \
    }                                                                                                                            \
    void SAMBA_ISA_NAME(samba_##kernel##_##name)(void *d_, const void *a_, int64_t rows, int64_t cols, bool first)               \
    {                                                                                                                            \
        type *d = d_;                                                                                                            \
        const type *a = a_;                                                                                                      \
        for (int64_t r = 0; r < rows; r++) {                                                                                     \
            type best = kernel##_row_##name(a + r * cols, cols);                                                                 \
            d[r] = first || best better d[r] || is_nan_##name(best) ? best : d[r];                                               \
        }                                                                                                                        \
    }
#define EXTREMES(name, type, mask_type, least, greatest)                                                                         \
    typedef type samba_extreme_##name __attribute__((vector_size(64)));                                                          \
    typedef mask_type samba_mask_##name __attribute__((vector_size(64)));                                                        \
    EXTREME(amax, name, type, mask_type, >, least)                                                                               \
    EXTREME(amin, name, type, mask_type, <, greatest)
EXTREMES(f32, float, int32_t, -INFINITY, INFINITY)
EXTREMES(f64, double, int64_t, -INFINITY, INFINITY)
EXTREMES(i64, int64_t, int64_t, INT64_MIN, INT64_MAX)

/* The greatest value first, then where it stands first; NaN counts as greatest. */
#define ARGMAX(name, type)                                                                                                       \
    void SAMBA_ISA_NAME(samba_argmax_##name)(int64_t * d, void *best_, const void *a_, int64_t rows, int64_t cols, int64_t col0, \
                                             bool first)                                                                         \
    {                                                                                                                            \
        type *best = best_;                                                                                                      \
        const type *a = a_;                                                                                                      \
        for (int64_t r = 0; r < rows; r++, a += cols) {                                                                          \
            type value = amax_row_##name(a, cols);                                                                               \
            if (first || value > best[r] || (is_nan_##name(value) && !is_nan_##name(best[r]))) {                                 \
                int64_t c = 0;                                                                                                   \
                while (c + 1 < cols && a[c] != value && !is_nan_##name(a[c]))                                                    \
                    c++;                                                                                                         \
                best[r] = value;                                                                                                 \
                d[r] = col0 + c;                                                                                                 \
            }                                                                                                                    \
        }                                                                                                                        \
    }
ARGMAX(f32, float)
ARGMAX(f64, double)
ARGMAX(i64, int64_t)

/* ---- sums over rows and over all ---- */
/* Columns are summed by four vectors of 64 bytes, which stay in registers over all rows. LANES: what one holds. */
#define COLLECT(name, type, wide)                                                                                                \
    typedef type samba_narrow_##name __attribute__((vector_size(64 / sizeof(wide) * sizeof(type))));                             \
    typedef wide samba_wide_##name __attribute__((vector_size(64)));                                                             \
    static inline void add_narrow_##name(samba_wide_##name *sum, const type *a, const type *b)                                   \
    {                                                                                                                            \
        samba_narrow_##name x, y;                                                                                                \
        memcpy(&x, a, sizeof x);                                                                                                 \
        if (b) {                                                                                                                 \
            memcpy(&y, b, sizeof y);                                                                                             \
            x *= y;                                                                                                              \
        }                                                                                                                        \
        *sum += __builtin_convertvector(x, samba_wide_##name);                                                                   \
    }                                                                                                                            \
    static inline                                                                                                                \
        __attribute__((always_inline)) void collect_##name(wide *sums, const type *a, const type *b, int64_t rows, int64_t cols) \
    {                                                                                                                            \
        enum { LANES = 64 / (int)sizeof(wide) };                                                                                 \
        int64_t c = 0;                                                                                                           \
        for (; c + 4 * LANES <= cols; c += 4 * LANES) {                                                                          \
            samba_wide_##name s0, s1, s2, s3;                                                                                    \
            memcpy(&s0, sums + c, sizeof s0);                                                                                    \
            memcpy(&s1, sums + c + LANES, sizeof s1);                                                                            \
            memcpy(&s2, sums + c + 2 * LANES, sizeof s2);                                                                        \
            memcpy(&s3, sums + c + 3 * LANES, sizeof s3);                                                                        \
            for (int64_t r = 0; r < rows; r++) {                                                                                 \
                const type *x = a + r * cols + c, *y = b ? b + r * cols + c : NULL;                                              \
                add_narrow_##name(&s0, x, y);                                                                                    \
                add_narrow_##name(&s1, x + LANES, y ? y + LANES : NULL);                                                         \
                add_narrow_##name(&s2, x + 2 * LANES, y ? y + 2 * LANES : NULL);                                                 \
                add_narrow_##name(&s3, x + 3 * LANES, y ? y + 3 * LANES : NULL);                                                 \
            }                                                                                                                    \
            memcpy(sums + c, &s0, sizeof s0);                                                                                    \
            memcpy(sums + c + LANES, &s1, sizeof s1);                                                                            \
            memcpy(sums + c + 2 * LANES, &s2, sizeof s2);                                                                        \
            memcpy(sums + c + 3 * LANES, &s3, sizeof s3);                                                                        \
        }                                                                                                                        \
        for (int64_t r = 0; r < rows; r++) {                                                                                     \
            SAMBA_VECTOR_LOOP for (int64_t i = c; i < cols; i++) {                                                               \
                type x = b ? a[r * cols + i] * b[r * cols + i] : a[r * cols + i];                                                \
                sums[i] += (wide)x;                                                                                              \
            }                                                                                                                    \
        }                                                                                                                        \
    }                                                                                                                            \
    void SAMBA_ISA_NAME(samba_collect_rows_##name)(void *sums, const void *a, const void *b, int64_t rows, int64_t cols)         \
    {                                                                                                                            \
        if (b)                                                                                                                   \
            collect_##name(sums, a, b, rows, cols);                                                                              \
        else                                                                                                                     \
            collect_##name(sums, a, NULL, rows, cols);                                                                           \
    }
COLLECT(f32, float, double)
COLLECT(f64, double, double)
COLLECT(i64, uint64_t, uint64_t) /* wraps */

#define TOTAL(name, type, wide, sum_type)                                                                                        \
    wide SAMBA_ISA_NAME(samba_total_##name)(const type *a, int64_t n)                                                            \
    {                                                                                                                            \
        sum_type low = 0, high = 0;                                                                                              \
        int64_t half = n / 2;                                                                                                    \
        _Pragma("omp simd reduction(+ : low, high)") for (int64_t i = 0; i < half; i++)                                          \
        {                                                                                                                        \
            low += (sum_type)a[i];                                                                                               \
            high += (sum_type)a[half + i];                                                                                       \
        }                                                                                                                        \
        return (wide)(low + high + (n % 2 ? (sum_type)a[n - 1] : 0));                                                            \
    }
/* Tiles of float32 are summed as rows are, in float32, and only what they come to in double: few additions meet each element. */
double SAMBA_ISA_NAME(samba_total_f32)(const float *a, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i += SUM_BLOCK)
        sum += (double)samba_row_sum_f32(a + i, NULL, n - i < SUM_BLOCK ? n - i : SUM_BLOCK);
    return sum;
}
TOTAL(f64, double, double, double)
TOTAL(i64, int64_t, int64_t, uint64_t)
