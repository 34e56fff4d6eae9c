/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernels over tiles of rows x columns: fill, spread, row reductions, column and total sums. Compiled once for each ISA. The
 * order of additions depends on the sizes alone, so results are reproducible. Greatest and least values propagate NaN. */
#include "device/cpu/isa/uncontracted.h"
#include "device/cpu/isa/halves.h"
#include "device/cpu/isa/lanes.h"
#include "device/cpu/isa/shuffle.h"
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
/* Rows of 2, 4 or 8 columns, as many as whole vectors of their values go on for: a vector of the result is the same shuffle of
 * them each time. Says how many. */
static inline int64_t even_rows_f32(float *d, const float *a, int64_t rows, int64_t cols)
{
    enum { LANES = VECTOR_BYTES / 4 };
    int64_t r = 0;
    ints mask;
    if (LANES < 8 || (cols != 2 && cols != 4 && cols != 8))
        return 0;
    for (int i = 0; i < LANES; i++)
        mask[i] = i / (int)cols;
    for (; r + LANES <= rows; r += LANES / cols) {
        floats v;
        memcpy(&v, a + r, sizeof v);
        v = SHUFFLE1(v, mask);
        memcpy(d + r * cols, &v, sizeof v);
    }
    return r;
}
static inline int64_t even_rows_f64(double *d, const double *a, int64_t rows, int64_t cols)
{
    (void)d, (void)a, (void)rows, (void)cols;
    return 0;
}
static inline int64_t even_rows_i64(int64_t *d, const int64_t *a, int64_t rows, int64_t cols)
{
    (void)d, (void)a, (void)rows, (void)cols;
    return 0;
}

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
        int64_t r = even_rows_##name(d, a, rows, cols),                                                                          \
                wide = cols < SHORT_ROW ? rows - (SHORT_ROW + cols - 1) / (cols > 0 ? cols : 1) : 0;                             \
        d += r * cols;                                                                                                           \
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
    /* Rows of few columns, several at once, summed as any others. */                                                            \
    INLINE void few_##name(type *d, const add_type *a, int64_t rows, const int cols, bool first)                                 \
    {                                                                                                                            \
        SAMBA_VECTOR_LOOP for (int64_t r = 0; r < rows; r++) {                                                                   \
            add_type sum = 0;                                                                                                    \
            UNROLL for (int c = 0; c < cols; c++)                                                                                \
                sum += a[r * cols + c];                                                                                          \
            d[r] = (type)(first ? sum : (add_type)d[r] + sum);                                                                   \
        }                                                                                                                        \
    }                                                                                                                            \
    void SAMBA_ISA_NAME(samba_sum_##name)(void *d_, const void *a_, int64_t rows, int64_t cols, bool first)                      \
    {                                                                                                                            \
        type *d = d_;                                                                                                            \
        const add_type *a = a_;                                                                                                  \
        if (cols == 2 || cols == 3 || cols == 4) {                                                                               \
            if (cols == 2)                                                                                                       \
                few_##name(d, a, rows, 2, first);                                                                                \
            else if (cols == 3)                                                                                                  \
                few_##name(d, a, rows, 3, first);                                                                                \
            else                                                                                                                 \
                few_##name(d, a, rows, 4, first);                                                                                \
            return;                                                                                                              \
        }                                                                                                                        \
        for (int64_t r = 0; r < rows; r++, a += cols)                                                                            \
            d[r] = (type)samba_long_sum_##name((add_type)d[r], a, NULL, cols, first, false);                                     \
    }
SUM(f32, float, float)
SUM(f64, double, double)
SUM(i64, int64_t, uint64_t) /* wraps */

/* Products are made in the order of sums, those of short rows one factor after the other. */
#define PRODUCT(name, type, VECTOR, MASK)                                                                                        \
    static inline type prod_block_##name(const type *a, int64_t n)                                                               \
    {                                                                                                                            \
        enum { LANES = sizeof(VECTOR) / sizeof(type), PARTS = 4 * WIDE_PARTS };                                                  \
        type product = 1;                                                                                                        \
        int64_t i = 0;                                                                                                           \
        if (n >= SHORT_SUM) {                                                                                                    \
            VECTOR x, of[PARTS];                                                                                                 \
            UNROLL for (int p = 0; p < PARTS; p++)                                                                               \
                of[p] = 1 - (VECTOR){0};                                                                                         \
            for (; i + PARTS * LANES <= n; i += PARTS * LANES) {                                                                 \
                UNROLL for (int p = 0; p < PARTS; p++) {                                                                         \
                    __builtin_memcpy(&x, a + i + p * LANES, sizeof x);                                                           \
                    of[p] *= x;                                                                                                  \
                }                                                                                                                \
            }                                                                                                                    \
            for (; i + WIDE_PARTS * LANES <= n; i += WIDE_PARTS * LANES) {                                                       \
                UNROLL for (int p = 0; p < WIDE_PARTS; p++) {                                                                    \
                    __builtin_memcpy(&x, a + i + p * LANES, sizeof x);                                                           \
                    of[p] *= x;                                                                                                  \
                }                                                                                                                \
            }                                                                                                                    \
            UNROLL for (int half = PARTS / 2; half > 0; half /= 2) {                                                             \
                UNROLL for (int p = 0; p < half; p++)                                                                            \
                    of[p] *= of[p + half];                                                                                       \
            }                                                                                                                    \
            UNROLL for (int half = LANES / 2; half > 0; half /= 2) {                                                             \
                MASK other;                                                                                                      \
                __builtin_memcpy(&other, lanes_from_##MASK + half, sizeof other);                                                \
                of[0] *= SHUFFLE1(of[0], other);                                                                                 \
            }                                                                                                                    \
            product = of[0][0];                                                                                                  \
        }                                                                                                                        \
        for (; i < n; i++)                                                                                                       \
            product *= a[i];                                                                                                     \
        return product;                                                                                                          \
    }                                                                                                                            \
    /* Rows of few columns, several at once. */                                                                                  \
    INLINE void few_products_##name(type *d, const type *a, int64_t rows, const int cols, bool first)                            \
    {                                                                                                                            \
        SAMBA_VECTOR_LOOP for (int64_t r = 0; r < rows; r++) {                                                                   \
            type product = a[r * cols];                                                                                          \
            UNROLL for (int c = 1; c < cols; c++)                                                                                \
                product *= a[r * cols + c];                                                                                      \
            d[r] = first ? product : d[r] * product;                                                                             \
        }                                                                                                                        \
    }                                                                                                                            \
    void SAMBA_ISA_NAME(samba_prod_##name)(void *d_, const void *a_, int64_t rows, int64_t cols, bool first)                     \
    {                                                                                                                            \
        type *d = d_;                                                                                                            \
        const type *a = a_;                                                                                                      \
        switch (cols) {                                                                                                          \
        case 2: few_products_##name(d, a, rows, 2, first); return;                                                               \
        case 3: few_products_##name(d, a, rows, 3, first); return;                                                               \
        case 4: few_products_##name(d, a, rows, 4, first); return;                                                               \
        }                                                                                                                        \
        for (int64_t r = 0; r < rows; r++, a += cols) {                                                                          \
            type product = first ? 1 : d[r];                                                                                     \
            for (int64_t i = 0; i < cols; i += SUM_BLOCK)                                                                        \
                product *= prod_block_##name(a + i, cols - i < SUM_BLOCK ? cols - i : SUM_BLOCK);                                \
            d[r] = product;                                                                                                      \
        }                                                                                                                        \
    }
PRODUCT(f32, float, floats, ints)
PRODUCT(f64, double, doubles, longs)
PRODUCT(i64, uint64_t, unsigned_longs, longs) /* wraps */

/* What is better of two wherever they stand side by side; what is not a number is, and stays. */
#define CHOSEN(kernel, name, VECTOR, MASK, better)                                                                               \
    INLINE VECTOR kernel##_of_##name(VECTOR x, VECTOR best)                                                                      \
    {                                                                                                                            \
        MASK m = (x better best) | (x != x);                                                                                     \
        return (VECTOR)(((MASK)x & m) | ((MASK)best & ~m));                                                                      \
    }
CHOSEN(amax, f64, doubles, longs, >)
CHOSEN(amin, f64, doubles, longs, <)
CHOSEN(amax, i64, longs, longs, >)
CHOSEN(amin, i64, longs, longs, <)
INLINE floats amax_of_f32(floats x, floats best) { return greater_floats(x, best); }
INLINE floats amin_of_f32(floats x, floats best) { return lesser_floats(x, best); }

/* Four wide vectors at once, as of sums, then across them, by halves. The last elements of a row may be met twice, which changes
 * nothing. */
#define EXTREME(kernel, name, type, VECTOR, MASK, better, worst)                                                                 \
    static inline type kernel##_row_##name(const type *a, int64_t n)                                                             \
    {                                                                                                                            \
        enum { LANES = sizeof(VECTOR) / sizeof(type), PARTS = 4 * WIDE_PARTS };                                                  \
        type best = worst;                                                                                                       \
        int64_t i = 0;                                                                                                           \
        if (n >= SHORT_ROW) {                                                                                                    \
            VECTOR x, of[PARTS];                                                                                                 \
            UNROLL for (int p = 0; p < PARTS; p++)                                                                               \
                of[p] = best - (VECTOR){0};                                                                                      \
            for (; i + PARTS * LANES <= n; i += PARTS * LANES) {                                                                 \
                UNROLL for (int p = 0; p < PARTS; p++) {                                                                         \
                    __builtin_memcpy(&x, a + i + p * LANES, sizeof x);                                                           \
                    of[p] = kernel##_of_##name(x, of[p]);                                                                        \
                }                                                                                                                \
            }                                                                                                                    \
            for (; i + LANES <= n; i += LANES) {                                                                                 \
                __builtin_memcpy(&x, a + i, sizeof x);                                                                           \
                of[0] = kernel##_of_##name(x, of[0]);                                                                            \
            }                                                                                                                    \
            __builtin_memcpy(&x, a + n - LANES, sizeof x);                                                                       \
            of[1] = kernel##_of_##name(x, of[1]);                                                                                \
            UNROLL for (int half = PARTS / 2; half > 0; half /= 2) {                                                             \
                UNROLL for (int p = 0; p < half; p++)                                                                            \
                    of[p] = kernel##_of_##name(of[p + half], of[p]);                                                             \
            }                                                                                                                    \
            UNROLL for (int half = LANES / 2; half > 0; half /= 2) {                                                             \
                MASK other;                                                                                                      \
                __builtin_memcpy(&other, lanes_from_##MASK + half, sizeof other);                                                \
                of[0] = kernel##_of_##name(SHUFFLE1(of[0], other), of[0]);                                                       \
            }                                                                                                                    \
            best = of[0][0];                                                                                                     \
            i = n;                                                                                                               \
        }                                                                                                                        \
        for (; i < n; i++)                                                                                                       \
            best = a[i] better best || is_nan_##name(a[i]) ? a[i] : best;                                                        \
        return is_nan_##name(best) ? nan_##name() : best;                                                                        \
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
#define EXTREMES(name, type, VECTOR, MASK, least, greatest)                                                                      \
    EXTREME(amax, name, type, VECTOR, MASK, >, least)                                                                            \
    EXTREME(amin, name, type, VECTOR, MASK, <, greatest)
EXTREMES(f32, float, floats, ints, -INFINITY, INFINITY)
EXTREMES(f64, double, doubles, longs, -INFINITY, INFINITY)
EXTREMES(i64, int64_t, longs, longs, INT64_MIN, INT64_MAX)

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
#define add_numbers_f64 add_number_doubles
INLINE unsigned_longs add_numbers_i64(unsigned_longs sum, unsigned_longs v) { return sum + v; }

/* Columns are summed by as many wide vectors as registers hold over all rows. LANES: elements of one. Rows lie `pitch` apart.
 * What is `ahead` elements further is asked for; 0: nothing is. */
#define WIDE_OF_f32(x) doubles_of_floats(x)
#define WIDE_OF_f64(x) (x)
#define WIDE_OF_i64(x) (x)
#define WIDE_OF_bf16(x) doubles_of_floats(half_floats_of_bfloat16(x))
#define COLLECT(name, type, wide, sums_name)                                                                                     \
    typedef type narrow_##name __attribute__((vector_size(VECTOR_BYTES / sizeof(wide) * sizeof(type))));                         \
    INLINE void collect_lanes_##name(wide_##sums_name *sum, const type *a, const type *b, const bool no_nan)                     \
    {                                                                                                                            \
        EACH_PART(p)                                                                                                             \
        {                                                                                                                        \
            narrow_##name x, y;                                                                                                  \
            __builtin_memcpy(&x, a + p * (int)(VECTOR_BYTES / sizeof(wide)), sizeof x);                                          \
            if (b) {                                                                                                             \
                __builtin_memcpy(&y, b + p * (int)(VECTOR_BYTES / sizeof(wide)), sizeof y);                                      \
                x *= y;                                                                                                          \
            }                                                                                                                    \
            __typeof__(sum->v[0]) v = WIDE_OF_##name(x);                                                                         \
            sum->v[p] = no_nan ? add_numbers_##sums_name(sum->v[p], v) : sum->v[p] + v;                                          \
        }                                                                                                                        \
    }                                                                                                                            \
    /* Columns by whole vectors; what the last one reads beyond is of the next row, and dropped. */                              \
    INLINE void collect_vectors_##name(wide *sums, const type *a, const type *b, int64_t pitch, int64_t rows, const int vectors, \
                                       int64_t ahead, const bool no_nan)                                                         \
    {                                                                                                                            \
        enum { LANES = 64 / (int)sizeof(wide), LINE = 64 / (int)sizeof(type) };                                                  \
        wide_##sums_name part[8];                                                                                                \
        UNROLL for (int q = 0; q < vectors; q++)                                                                                 \
            wide_load_##sums_name(&part[q], sums + q * LANES);                                                                   \
        for (int64_t r = 0; r < rows; r++) {                                                                                     \
            const type *x = a + r * pitch, *y = b ? b + r * pitch : NULL;                                                        \
            if (ahead) {                                                                                                         \
                UNROLL for (int q = 0; q < vectors * LANES; q += LINE)                                                           \
                    __builtin_prefetch((const char *)x + (ahead + q) * (int64_t)sizeof(type));                                   \
            }                                                                                                                    \
            UNROLL for (int q = 0; q < vectors; q++)                                                                             \
                collect_lanes_##name(&part[q], x + q * LANES, y ? y + q * LANES : NULL, no_nan);                                 \
        }                                                                                                                        \
        UNROLL for (int q = 0; q < vectors; q++)                                                                                 \
            wide_store_##sums_name(sums + q * LANES, &part[q]);                                                                  \
    }                                                                                                                            \
    INLINE void collect_some_##name(wide *sums, const type *a, const type *b, int64_t pitch, int64_t rows, int vectors,          \
                                    const bool no_nan)                                                                           \
    {                                                                                                                            \
        if (vectors == 1)                                                                                                        \
            collect_vectors_##name(sums, a, b, pitch, rows, 1, 0, no_nan);                                                       \
        else if (vectors == 2)                                                                                                   \
            collect_vectors_##name(sums, a, b, pitch, rows, 2, 0, no_nan);                                                       \
        else if (vectors == 3)                                                                                                   \
            collect_vectors_##name(sums, a, b, pitch, rows, 3, 0, no_nan);                                                       \
        else                                                                                                                     \
            collect_vectors_##name(sums, a, b, pitch, rows, 4, 0, no_nan);                                                       \
    }                                                                                                                            \
    INLINE void collect_rest_##name(wide *sums, const type *a, const type *b, int64_t pitch, int64_t rows, int64_t n,            \
                                    const bool no_nan)                                                                           \
    {                                                                                                                            \
        enum { LANES = 64 / (int)sizeof(wide) };                                                                                 \
        const int vectors = (int)((n + LANES - 1) / LANES);                                                                      \
        int64_t beyond = vectors * LANES - n, whole = rows - (beyond + pitch - 1) / pitch;                                       \
        wide kept[4 * LANES] = {0};                                                                                              \
        __builtin_memcpy(kept, sums, (size_t)n * sizeof *sums);                                                                  \
        if (whole > 0)                                                                                                           \
            collect_some_##name(kept, a, b, pitch, whole, vectors, no_nan);                                                      \
        for (int64_t r = whole > 0 ? whole : 0; r < rows; r++) { /* by the same code, which rounds alike */                      \
            type x[4 * LANES] = {0}, y[4 * LANES] = {0};                                                                         \
            __builtin_memcpy(x, a + r * pitch, (size_t)n * sizeof *a);                                                           \
            if (b)                                                                                                               \
                __builtin_memcpy(y, b + r * pitch, (size_t)n * sizeof *b);                                                       \
            collect_some_##name(kept, x, b ? y : NULL, pitch, 1, vectors, no_nan);                                               \
        }                                                                                                                        \
        __builtin_memcpy(sums, kept, (size_t)n * sizeof *sums);                                                                  \
    }                                                                                                                            \
    INLINE void collect_##name(wide *sums, const type *a, const type *b, int64_t pitch, int64_t rows, int64_t cols,              \
                               const bool no_nan)                                                                                \
    {                                                                                                                            \
        enum { LANES = 64 / (int)sizeof(wide), MANY = WIDE_PARTS > 2 ? 2 : 4 };                                                  \
        int64_t c = 0;                                                                                                           \
        for (; c + MANY * LANES <= cols; c += MANY * LANES)                                                                      \
            collect_vectors_##name(sums + c, a + c, b ? b + c : NULL, pitch, rows, MANY, 0, no_nan);                             \
        if (c < cols)                                                                                                            \
            collect_rest_##name(sums + c, a + c, b ? b + c : NULL, pitch, rows, cols - c, no_nan);                               \
    }
#define COLLECT_ROWS(name, type)                                                                                                 \
    void SAMBA_ISA_NAME(samba_collect_rows_##name)(void *sums, const void *a, const void *b, int64_t rows, int64_t cols)         \
    {                                                                                                                            \
        if (b)                                                                                                                   \
            collect_##name(sums, a, b, cols, rows, cols, false);                                                                 \
        else                                                                                                                     \
            collect_##name(sums, a, NULL, cols, rows, cols, false);                                                              \
    }
#define COLLECT_MEMORY(kernel, name, type, wide, no_nan)                                                                         \
    void SAMBA_ISA_NAME(samba_##kernel##_##name)(void *sums_, const void *a_, int64_t pitch, int64_t rows, int64_t cols,         \
                                                 int64_t ahead)                                                                  \
    {                                                                                                                            \
        enum { LANES = 64 / (int)sizeof(wide), MANY = 8 / WIDE_PARTS };                                                          \
        wide *sums = sums_;                                                                                                      \
        const type *a = a_;                                                                                                      \
        int64_t c = 0;                                                                                                           \
        for (; c + MANY * LANES <= cols; c += MANY * LANES)                                                                      \
            collect_vectors_##name(sums + c, a + c, NULL, pitch, rows, MANY, ahead, no_nan);                                     \
        collect_##name(sums + c, a + c, NULL, pitch, rows, cols - c, no_nan);                                                    \
    }
COLLECT(f32, float, double, f64)
COLLECT(f64, double, double, f64)
COLLECT(i64, uint64_t, uint64_t, i64) /* wraps */
COLLECT(bf16, uint16_t, double, f64)
COLLECT_ROWS(f32, float)
COLLECT_ROWS(f64, double)
COLLECT_ROWS(i64, uint64_t)
COLLECT_MEMORY(collect_memory, f32, float, double, false)
COLLECT_MEMORY(collect_memory, f64, double, double, false)
COLLECT_MEMORY(collect_memory, i64, uint64_t, uint64_t, false)
COLLECT_MEMORY(collect_memory, bf16, uint16_t, double, false)
COLLECT_MEMORY(collect_numbers, f32, float, double, true)
COLLECT_MEMORY(collect_numbers, bf16, uint16_t, double, true)

/* Summed as rows are; tiles of float32 in float32, and only what blocks come to in double: few additions meet each element. */
#define TOTAL(name, type, wide, sum_type, block)                                                                                 \
    INLINE wide total_##name(const type *a, int64_t n)                                                                           \
    {                                                                                                                            \
        sum_type sum = 0;                                                                                                        \
        for (int64_t i = 0; i < n; i += (block))                                                                                 \
            sum += (sum_type)samba_row_sum_##name((const void *)(a + i), NULL, n - i < (block) ? n - i : (block), false);        \
        return (wide)sum;                                                                                                        \
    }                                                                                                                            \
    wide SAMBA_ISA_NAME(samba_total_##name)(const type *a, int64_t n) { return total_##name(a, n); }                             \
    void SAMBA_ISA_NAME(samba_collect_totals_##name)(void *sums_, int64_t stride, const void *a_, int64_t rows, int64_t cols)    \
    {                                                                                                                            \
        sum_type *sums = sums_;                                                                                                  \
        const type *a = a_;                                                                                                      \
        for (int64_t r = 0; r < rows; r++, sums += stride, a += cols)                                                            \
            *sums += (sum_type)total_##name(a, cols);                                                                            \
    }
TOTAL(f32, float, double, double, SUM_BLOCK)
TOTAL(f64, double, double, double, n)
TOTAL(i64, int64_t, int64_t, uint64_t, n) /* wraps */
