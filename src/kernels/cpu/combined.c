/* SPDX-License-Identifier: Apache-2.0
 *
 * Two or three instructions of a tile program in one pass over their elements (combine.c finds them). What bounds short loops in
 * the first-level cache is the store of each result, so one that nobody else reads is not stored. Compiled once for each ISA.
 *
 * No bit of a result differs from what the instructions give one by one: products and sums are rounded separately, and sums are
 * added in reduce.c's order. */
#pragma GCC optimize("fp-contract=off")
#include "kernels/cpu/parts.h"
#include "kernels/cpu/reduce_sum.h"
#include "kernels/cpu/vector_bits.h"

#define PAIR(name, expression)                                                                                               \
    static void name(void *d_, const void *a_, const void *b_, const void *c_, int64_t n)                                    \
    {                                                                                                                        \
        float *d = d_;                                                                                                       \
        const float *a = a_, *b = b_, *c = c_;                                                                               \
        SAMBA_VECTOR_LOOP                                                                                                    \
        for (int64_t i = 0; i < n; i++) {                                                                                    \
            float x = a[i], y = b[i], z = c[i];                                                                              \
            d[i] = expression;                                                                                               \
        }                                                                                                                    \
    }
#define PAIRS(name, first)                                                                                                   \
    PAIR(name##_add, (first) + z)                                                                                            \
    PAIR(name##_sub, (first) - z)                                                                                            \
    PAIR(name##_from, z - (first))                                                                                           \
    PAIR(name##_mul, (first) * z)
PAIRS(add, x + y)
PAIRS(sub, x - y)
PAIRS(mul, x * y)

#define ROWS(name, expression)                                                                                               \
    static void rows_##name(float *d, const float *a, const float *s, int64_t rows, int64_t cols)                            \
    {                                                                                                                        \
        for (int64_t r = 0; r < rows; r++, d += cols, a += cols) {                                                           \
            float y = s[r];                                                                                                  \
            SAMBA_VECTOR_LOOP                                                                                                \
            for (int64_t c = 0; c < cols; c++) {                                                                             \
                float x = a[c];                                                                                              \
                d[c] = expression;                                                                                           \
            }                                                                                                                \
        }                                                                                                                    \
    }
ROWS(add, x + y)
ROWS(sub, x - y)
ROWS(mul, x *y)

SAMBA_ROW_SUM(f32, float)
static void dot(float *d, const float *a, const float *b, int64_t rows, int64_t cols, bool first)
{
    for (int64_t r = 0; r < rows; r++, a += cols, b += cols)
        d[r] = samba_long_sum_f32(d[r], a, b, cols, first);
}

/* where(x compared with y, b, c) */
#define SELECT(name, comparison)                                                                                             \
    static void select_##name(float *d, const float *a, const float *b, const float *if_true, const float *if_false, int64_t n) \
    {                                                                                                                        \
        SAMBA_VECTOR_LOOP                                                                                                    \
        for (int64_t i = 0; i < n; i++) {                                                                                    \
            float x = a[i], y = b[i], yes = if_true[i], no = if_false[i];                                                    \
            d[i] = comparison ? yes : no;                                                                                    \
        }                                                                                                                    \
    }
SELECT(eq, x == y)
SELECT(ne, x != y)
SELECT(lt, x < y)
SELECT(le, x <= y)
SELECT(gt, x > y)
SELECT(ge, x >= y)

static void round_bfloat16(float *d, uint16_t *memory, const float *a, int64_t n)
{
    SAMBA_VECTOR_LOOP
    for (int64_t i = 0; i < n; i++) {
        uint16_t low = bfloat16_of_float(a[i]);
        memory[i] = low;
        d[i] = float_of_bfloat16(low);
    }
}

const samba_combined SAMBA_ISA_NAME(samba_combined) = {
    .pair = {{add_add, add_sub, add_from, add_mul}, {sub_add, sub_sub, sub_from, sub_mul}, {mul_add, mul_sub, mul_from, mul_mul}},
    .rows = {rows_add, rows_sub, rows_mul},
    .dot = dot,
    .select = {select_eq, select_ne, select_lt, select_le, select_gt, select_ge},
    .round = round_bfloat16,
};
