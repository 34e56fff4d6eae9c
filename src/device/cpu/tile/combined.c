/* SPDX-License-Identifier: Apache-2.0
 *
 * Two or three instructions of a tile program in one pass over their elements (combine.c finds them). What bounds short loops in
 * the first-level cache is the store of each result, so one that nobody else reads is not stored. Compiled once for each ISA.
 *
 * No bit of a result differs from what the instructions give one by one: products and sums are rounded separately, and sums are
 * added in reduce.c's order. */
#include "device/cpu/isa/uncontracted.h"
#include "device/cpu/isa/unrolled.h"
#include "device/cpu/isa/lanes.h"
#include "device/cpu/tile/parts.h"
#include "device/cpu/tile/reduce_sum.h"
#include "device/cpu/isa/vector_bits.h"

#include <string.h>

/* Where b or c is one number, as name_b, name_c and name_bc take it, the loop loads that much less. */
#define PAIR_OF(name, expression, B, C)                                                                                          \
    static void name(void *d_, const void *a_, const void *b_, const void *c_, int64_t n)                                        \
    {                                                                                                                            \
        float *d = d_;                                                                                                           \
        const float *a = a_, *b = b_, *c = c_, y0 = *b, z0 = *c;                                                                 \
        (void)y0, (void)z0;                                                                                                      \
        SAMBA_VECTOR_LOOP for (int64_t i = 0; i < n; i++) {                                                                      \
            float x = a[i], y = B, z = C;                                                                                        \
            (void)y, (void)z; /* relu has none */                                                                                \
            d[i] = expression;                                                                                                   \
        }                                                                                                                        \
    }
#define PAIR(name, expression)                                                                                                   \
    PAIR_OF(name, expression, b[i], c[i])                                                                                        \
    PAIR_OF(name##_b, expression, y0, c[i])                                                                                      \
    PAIR_OF(name##_c, expression, b[i], z0)                                                                                      \
    PAIR_OF(name##_bc, expression, y0, z0)
#define ARITHMETIC_PAIRS(name, first)                                                                                            \
    PAIR(name##_add, (first) + z)                                                                                                \
    PAIR(name##_sub, (first)-z)                                                                                                  \
    PAIR(name##_from, z - (first))                                                                                               \
    PAIR(name##_mul, (first)*z)
#define PAIRS(name, first)                                                                                                       \
    ARITHMETIC_PAIRS(name, first)                                                                                                \
    PAIR(name##_minimum, lesser_f32(first, z))                                                                                   \
    PAIR(name##_maximum, greater_f32(first, z))                                                                                  \
    PAIR(name##_relu, positive(first))
INLINE float positive(float x) { return chosen(x < 0, 0, x); }
PAIRS(add, x + y)
PAIRS(sub, x - y)
PAIRS(mul, x *y)
ARITHMETIC_PAIRS(minimum, lesser_f32(x, y))
ARITHMETIC_PAIRS(maximum, greater_f32(x, y))
ARITHMETIC_PAIRS(relu, positive(x))

/* Two bounds, of which a compiler makes branches when they are written as above. */
#define BOUNDS_WITH(name, FIRST, THEN, first, then, one_b, one_c)                                                                \
    static void name(void *d_, const void *a_, const void *b_, const void *c_, int64_t n)                                        \
    {                                                                                                                            \
        enum { LANES = sizeof(floats) / sizeof(float) };                                                                         \
        float *d = d_;                                                                                                           \
        const float *a = a_, *b = b_, *c = c_;                                                                                   \
        floats x, y = *b - (floats){0}, z = *c - (floats){0};                                                                    \
        int64_t i = 0;                                                                                                           \
        for (; i + LANES <= n; i += LANES) {                                                                                     \
            memcpy(&x, a + i, sizeof x);                                                                                         \
            if (!(one_b))                                                                                                        \
                memcpy(&y, b + i, sizeof y);                                                                                     \
            if (!(one_c))                                                                                                        \
                memcpy(&z, c + i, sizeof z);                                                                                     \
            x = FIRST(x, y);                                                                                                     \
            x = THEN(x, z);                                                                                                      \
            memcpy(d + i, &x, sizeof x);                                                                                         \
        }                                                                                                                        \
        for (; i < n; i++)                                                                                                       \
            d[i] = then(first(a[i], b[(one_b) ? 0 : i]), c[(one_c) ? 0 : i]);                                                    \
    }
#define BOUNDS(name, ...)                                                                                                        \
    BOUNDS_WITH(name, __VA_ARGS__, false, false)                                                                                 \
    BOUNDS_WITH(name##_b, __VA_ARGS__, true, false)                                                                              \
    BOUNDS_WITH(name##_c, __VA_ARGS__, false, true)                                                                              \
    BOUNDS_WITH(name##_bc, __VA_ARGS__, true, true)
BOUNDS(minimum_maximum, lesser_floats, greater_floats, lesser_f32, greater_f32)
BOUNDS(maximum_minimum, greater_floats, lesser_floats, greater_f32, lesser_f32)

#define ROWS(name, expression)                                                                                                   \
    static void rows_##name(float *d, const float *a, const float *s, int64_t rows, int64_t cols)                                \
    {                                                                                                                            \
        for (int64_t r = 0; r < rows; r++, d += cols, a += cols) {                                                               \
            float y = s[r];                                                                                                      \
            SAMBA_VECTOR_LOOP for (int64_t c = 0; c < cols; c++) {                                                               \
                float x = a[c];                                                                                                  \
                d[c] = expression;                                                                                               \
            }                                                                                                                    \
        }                                                                                                                        \
    }
ROWS(add, x + y)
ROWS(sub, x - y)
ROWS(mul, x *y)

SAMBA_ROW_SUM(f32, float)
static void dot(float *d, const float *a, const float *b, int64_t rows, int64_t cols, bool first)
{
    for (int64_t r = 0; r < rows; r++, a += cols, b += cols)
        d[r] = samba_long_sum_f32(d[r], a, b, cols, first, false);
}

static void nansum(void *d_, const void *a_, int64_t rows, int64_t cols, bool first)
{
    float *d = d_;
    const float *a = a_;
    for (int64_t r = 0; r < rows; r++, a += cols)
        d[r] = samba_long_sum_f32(d[r], a, NULL, cols, first, true);
}

static double total_nansum(const float *a, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i += SUM_BLOCK)
        sum += (double)samba_row_sum_f32(a + i, NULL, n - i < SUM_BLOCK ? n - i : SUM_BLOCK, true);
    return sum;
}

/* where(x compared with y, b, c); numbers_: y and b are one number each */
#define SELECT_OF(name, comparison, B, YES)                                                                                      \
    static void name(float *d, const float *a, const float *b, const float *if_true, const float *if_false, int64_t n)           \
    {                                                                                                                            \
        const float y0 = *b, yes0 = *if_true;                                                                                    \
        (void)y0, (void)yes0;                                                                                                    \
        SAMBA_VECTOR_LOOP for (int64_t i = 0; i < n; i++) {                                                                      \
            float x = a[i], y = B, yes = YES, no = if_false[i];                                                                  \
            d[i] = comparison ? yes : no;                                                                                        \
        }                                                                                                                        \
    }
#define SELECT(name, comparison)                                                                                                 \
    SELECT_OF(select_##name, comparison, b[i], if_true[i])                                                                       \
    SELECT_OF(select_numbers_##name, comparison, y0, yes0)
SELECT(eq, x == y)
SELECT(ne, x != y)
SELECT(lt, x < y)
SELECT(le, x <= y)
SELECT(gt, x > y)
SELECT(ge, x >= y)

/* Where x is below the first of the bounds or above the second it is `other`; what `lo` and `hi` point at is one value. */
#define INSIDE(name, below, above)                                                                                               \
    static void inside_##name(float *d, const float *a, const float *b, const float *lo, const float *hi, const float *other,    \
                              int64_t n)                                                                                         \
    {                                                                                                                            \
        const float low = *lo, high = *hi, no = *other;                                                                          \
        SAMBA_VECTOR_LOOP for (int64_t i = 0; i < n; i++) {                                                                      \
            float x = a[i], y = b[i];                                                                                            \
            d[i] = ((x below low) | (x above high)) ? no : y;                                                                    \
        }                                                                                                                        \
    }
INSIDE(lt_gt, <, >)
INSIDE(lt_ge, <, >=)
INSIDE(le_gt, <=, >)
INSIDE(le_ge, <=, >=)

/* Two bounds of what is a number; NaN is `other`. */
#define NUMBER(name, FIRST, THEN, first, then)                                                                                   \
    static void number_##name(float *d, const float *a, const float *b, const float *lo, const float *hi, const float *other,    \
                              int64_t n)                                                                                         \
    {                                                                                                                            \
        enum { LANES = sizeof(floats) / sizeof(float) };                                                                         \
        floats x, r, y = *lo - (floats){0}, z = *hi - (floats){0}, no = *other - (floats){0};                                    \
        int64_t i = 0;                                                                                                           \
        for (; i + LANES <= n; i += LANES) {                                                                                     \
            memcpy(&x, a + i, sizeof x);                                                                                         \
            r = FIRST(x, y);                                                                                                     \
            r = THEN(r, z);                                                                                                      \
            ints good = x == x;                                                                                                  \
            r = (floats)(((ints)r & good) | ((ints)no & ~good));                                                                 \
            memcpy(d + i, &r, sizeof r);                                                                                         \
        }                                                                                                                        \
        for (; i < n; i++)                                                                                                       \
            d[i] = b[i] != b[i] ? *other : then(first(a[i], *lo), *hi);                                                          \
    }
NUMBER(maximum_minimum, greater_floats, lesser_floats, greater_f32, lesser_f32)
NUMBER(minimum_maximum, lesser_floats, greater_floats, lesser_f32, greater_f32)

static void round_bfloat16(float *d, uint16_t *memory, const float *a, int64_t n)
{
    SAMBA_VECTOR_LOOP for (int64_t i = 0; i < n; i++) {
        uint16_t low = bfloat16_of_float(a[i]);
        memory[i] = low;
        d[i] = float_of_bfloat16(low);
    }
}

/* ---- norms ---- */

/* A map of a, b and c, and for each row the sum of what it gives, or of that times itself or c, in reduce.c's order. `map` and
 * `with` are known where this is compiled. */
enum { NONE, ITSELF, C }; /* what the second sum multiplies */

#define MAPPED(map, x, y, z)                                                                                                     \
    ((map) == SAMBA_SUMMED_ADD       ? (x) + (y)                                                                                 \
     : (map) == SAMBA_SUMMED_ADD_ADD ? ((x) + (y)) + (z)                                                                         \
     : (map) == SAMBA_SUMMED_MUL     ? (x) * (y)                                                                                 \
                                     : (x) - (y))

typedef struct row_sums {
    wide_f32 parts[4], products[4];
} row_sums;

INLINE void mapped_lanes(const int map, const bool sums, const int with, float *d, const float *a, const float *b, const float *c,
                         float center, row_sums *to, const int part)
{
    wide_f32 x, y, z;
    wide_load_f32(&x, a);
    wide_set_f32(&y, center);
    if (map != SAMBA_SUMMED_CENTER)
        wide_load_f32(&y, b);
    z = y;
    if (map == SAMBA_SUMMED_ADD_ADD || with == C)
        wide_load_f32(&z, c);
    EACH_PART(p)
    {
        x.v[p] = MAPPED(map, x.v[p], y.v[p], z.v[p]);
        if (sums)
            to->parts[part].v[p] += x.v[p];
        if (with != NONE)
            to->products[part].v[p] += x.v[p] * (with == C ? z.v[p] : x.v[p]);
    }
    wide_store_f32(d, &x);
}

INLINE float total_of(wide_f32 *parts)
{
    wide_add_f32(&parts[0], &parts[1]);
    wide_add_f32(&parts[2], &parts[3]);
    wide_add_f32(&parts[0], &parts[2]);
    return wide_total_f32(&parts[0]);
}

/* The same of the first n elements, fewer than a wide vector holds; what counts as the others is 0. */
INLINE void mapped_rest(const int map, const bool sums, const int with, float *d, const float *a, const float *b, const float *c,
                        float center, int64_t n, row_sums *to, const int part)
{
    enum { PART = VECTOR_BYTES / (int)sizeof(float) };
    float centers[PART];
    if (map == SAMBA_SUMMED_CENTER)
        for (int k = 0; k < PART; k++)
            centers[k] = center;
    EACH_PART(p)
    {
        span_f32 span = span_of_f32(n - p * PART);
        floats x = load_span_f32(a + p * PART, span);
        floats y = load_span_f32(map == SAMBA_SUMMED_CENTER ? centers : b + p * PART, span);
        floats z = map == SAMBA_SUMMED_ADD_ADD || with == C ? load_span_f32(c + p * PART, span) : y;
        x = MAPPED(map, x, y, z);
        if (sums)
            to->parts[part].v[p] += x;
        if (with != NONE)
            to->products[part].v[p] += x * (with == C ? z : x);
        store_span_f32(d + p * PART, span, x);
    }
}

INLINE void mapped_block(const int map, const bool sums, const int with, float *d, const float *a, const float *b, const float *c,
                         float center, int64_t n, float *sum, float *dot)
{
    enum { LANES = 16, PARTS = 4 };
    float total = 0, product = 0;
    int64_t i = 0;
    if (n >= SHORT_SUM) {
        row_sums to = {0};
        for (; i + PARTS * LANES <= n; i += PARTS * LANES) {
            UNROLL for (int p = 0; p < PARTS; p++)
                mapped_lanes(map, sums, with, d + i + p * LANES, a + i + p * LANES, b + i + p * LANES, c + i + p * LANES, center,
                             &to, p);
        }
        for (; i + LANES <= n; i += LANES)
            mapped_lanes(map, sums, with, d + i, a + i, b + i, c + i, center, &to, 0);
        if (i < n)
            mapped_rest(map, sums, with, d + i, a + i, b + i, c + i, center, n - i, &to, 1);
        total = total_of(to.parts);
        product = total_of(to.products);
        i = n;
    }
    for (; i < n; i++) {
        float y = map == SAMBA_SUMMED_CENTER ? center : b[i];
        d[i] = MAPPED(map, a[i], y, map == SAMBA_SUMMED_ADD_ADD ? c[i] : y);
        total += d[i];
        product += d[i] * (with == C ? c[i] : d[i]);
    }
    *sum = total;
    *dot = product;
}

#define SUMMED(name, map, sums, with)                                                                                            \
    static void summed_##name(float *d, float *sum, float *dot, const float *a, const float *b, const float *c, int64_t rows,    \
                              int64_t cols, bool first)                                                                          \
    {                                                                                                                            \
        for (int64_t r = 0; r < rows; r++) {                                                                                     \
            int64_t i = 0;                                                                                                       \
            bool start = first;                                                                                                  \
            do {                                                                                                                 \
                int64_t at = r * cols + i, n = cols - i < SUM_BLOCK ? cols - i : SUM_BLOCK;                                      \
                float part, product;                                                                                             \
                mapped_block(map, sums, with, d + at, a + at, map == SAMBA_SUMMED_CENTER ? b : b + at, c + at,                   \
                             map == SAMBA_SUMMED_CENTER ? b[r] : 0, n, &part, &product);                                         \
                if (sums)                                                                                                        \
                    sum[r] = start ? part : sum[r] + part;                                                                       \
                if (with != NONE)                                                                                                \
                    dot[r] = start ? product : dot[r] + product;                                                                 \
                start = false;                                                                                                   \
                i += SUM_BLOCK;                                                                                                  \
            } while (i < cols);                                                                                                  \
        }                                                                                                                        \
    }
SUMMED(add, SAMBA_SUMMED_ADD, true, NONE)
SUMMED(add_add, SAMBA_SUMMED_ADD_ADD, true, NONE)
SUMMED(mul, SAMBA_SUMMED_MUL, true, C)
SUMMED(center, SAMBA_SUMMED_CENTER, false, ITSELF)

/* Of elements x y z and values a row p q o */
#define NORM(name, expression)                                                                                                   \
    static void norm_##name(float *d, const float *a, const float *b, const float *c, const float *s, const float *t,            \
                            const float *u, int64_t rows, int64_t cols)                                                          \
    {                                                                                                                            \
        for (int64_t r = 0; r < rows; r++, d += cols, a += cols, b += cols, c += cols) {                                         \
            float p = s[r], q = t[r], o = u[r];                                                                                  \
            SAMBA_VECTOR_LOOP for (int64_t i = 0; i < cols; i++) {                                                               \
                float x = a[i], y = b[i], z = c[i];                                                                              \
                (void)y, (void)z, (void)q, (void)o;                                                                              \
                d[i] = expression;                                                                                               \
            }                                                                                                                    \
        }                                                                                                                        \
    }
NORM(standardize, (x - p) * q)
NORM(standardize_add, (x - p) * q + o)
NORM(affine, x *p *y + z)
NORM(slope, ((x - p) - y * q) * o)
NORM(slope_add, ((x - p) - y * q) * o + z)

#define ARITHMETIC_OF(name, of) name##_add##of, name##_sub##of, name##_from##of, name##_mul##of
#define PAIRS_OF(name, of)                                                                                                       \
    {                                                                                                                            \
        ARITHMETIC_OF(name, of), name##_minimum##of, name##_maximum##of, name##_relu##of                                         \
    }
#define ALL_PAIRS(of)                                                                                                            \
    {                                                                                                                            \
        PAIRS_OF(add, of), PAIRS_OF(sub, of), PAIRS_OF(mul, of), {ARITHMETIC_OF(minimum, of), NULL, minimum_maximum##of, NULL},  \
            {ARITHMETIC_OF(maximum, of), maximum_minimum##of, NULL, NULL}, {ARITHMETIC_OF(relu, of), NULL, NULL, NULL},          \
    }
const samba_combined SAMBA_ISA_NAME(samba_combined) = {
    .pair = {ALL_PAIRS(), ALL_PAIRS(_b), ALL_PAIRS(_c), ALL_PAIRS(_bc)},
    .rows = {rows_add, rows_sub, rows_mul},
    .dot = dot,
    .nansum = nansum,
    .total_nansum = total_nansum,
    .select = {{select_eq, select_ne, select_lt, select_le, select_gt, select_ge},
               {select_numbers_eq, select_numbers_ne, select_numbers_lt, select_numbers_le, select_numbers_gt,
                select_numbers_ge}},
    .inside = {inside_lt_gt, inside_lt_ge, inside_le_gt, inside_le_ge},
    .number = {number_maximum_minimum, number_minimum_maximum},
    .round = round_bfloat16,
    .summed = {summed_add, summed_add_add, summed_mul, summed_center},
    .norm = {norm_standardize, norm_standardize_add, norm_affine, norm_slope, norm_slope_add},
};
