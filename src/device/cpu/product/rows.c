/* SPDX-License-Identifier: Apache-2.0
 *
 * A vector and the rows of a matrix that comes from memory: see rows.h. Rows are taken from two ends at once that lie far
 * apart, and each part of x is read once for both: loads of x cost the core as much as those of the matrix, and rows that lie
 * next to each other confuse the CPU's prefetching. Where x is so long that streams push it out of the nearest cache, four rows
 * share it. On a 2-core AVX-512 machine, of the bytes a second that adding all of memory up took: float32 rows of 768 one by one
 * 65 %, two far ones 99 %, four neighbours 60 %; rows of 3072 one by one 63 %, two 85 %, four 100 %. */
#include "device/cpu/product/rows.h"
#include "device/cpu/isa/isa.h"
#include "device/cpu/product/row_lanes.h"

enum { ROWS = 4, NARROW = 8, LONG = 8192 /* bytes of x: a quarter of the nearest cache */ };

/* Products of x with `count` rows that lie `apart` elements from each other, to d and what lies `step` from each other there. */
INLINE void some_dots_f32(const int count, const float *x, const float *rows, int64_t apart, int64_t k, float *d, int64_t step)
{
    floats sums[ROWS] = {{0}};
    int64_t l = 0;
    for (; l + LANES <= k; l += LANES) {
        const floats a = load_f32(x + l);
        UNROLL for (int r = 0; r < count; r++)
            sums[r] += a * load_f32(rows + r * apart + l);
    }
    if (l < k) {
        UNROLL for (int r = 0; r < count; r++)
            sums[r] += load_part_f32(x + l, (int)(k - l)) * load_part_f32(rows + r * apart + l, (int)(k - l));
    }
    UNROLL for (int r = 0; r < count; r++)
        d[r * step] = total(sums[r]);
}

/* Two elements are a word: its upper half is one as a float, shifted up the lower half is the other. */
INLINE void some_dots_bf16(const int count, const uint16_t *x, const uint16_t *rows, int64_t apart, int64_t k, float *d,
                           int64_t step)
{
    floats low[ROWS] = {{0}}, high[ROWS] = {{0}};
    int64_t l = 0;
    for (; l + 2 * LANES <= k; l += 2 * LANES) {
        words a, b;
        __builtin_memcpy(&a, x + l, sizeof a);
        UNROLL for (int r = 0; r < count; r++) {
            __builtin_memcpy(&b, rows + r * apart + l, sizeof b);
            low[r] += (floats)(a << 16) * (floats)(b << 16);
            high[r] += (floats)(a & 0xffff0000u) * (floats)(b & 0xffff0000u);
        }
    }
    if (l + LANES <= k) {
        UNROLL for (int r = 0; r < count; r++)
            low[r] += load_bf16(x + l) * load_bf16(rows + r * apart + l);
        l += LANES;
    }
    if (l < k) {
        UNROLL for (int r = 0; r < count; r++)
            high[r] += load_part_bf16(x + l, (int)(k - l)) * load_part_bf16(rows + r * apart + l, (int)(k - l));
    }
    UNROLL for (int r = 0; r < count; r++)
        d[r * step] = total(low[r] + high[r]);
}

#define ROW_DOTS(name, memory)                                                                                                   \
    INLINE int64_t far_##name(const int rows_at_once, const memory *x, const memory *rows, int64_t ld, int64_t count, int64_t k, \
                              float *d)                                                                                          \
    {                                                                                                                            \
        const int64_t part = count / rows_at_once;                                                                               \
        for (int64_t i = 0; i < part; i++)                                                                                       \
            some_##name(rows_at_once, x, rows + i * ld, part * ld, k, d + i, part);                                              \
        return part * rows_at_once;                                                                                              \
    }                                                                                                                            \
    static void name(const void *x_, const void *rows_, int64_t ld, int64_t count, int64_t k, float *d)                          \
    {                                                                                                                            \
        const memory *x = (const memory *)x_, *rows = (const memory *)rows_;                                                     \
        int64_t done = k * (int64_t)sizeof *x > LONG ? far_##name(ROWS, x, rows, ld, count, k, d)                                \
                                                     : far_##name(2, x, rows, ld, count, k, d);                                  \
        for (; done < count; done++)                                                                                             \
            some_##name(1, x, rows + done * ld, 0, k, d + done, 0);                                                              \
    }
ROW_DOTS(dots_f32, float)
ROW_DOTS(dots_bf16, uint16_t)

/* Rows of NARROW vectors, or half as many, are summed in registers, from ROWS ranges again, and rows that fill no vector in ROWS
 * sums; others a group of neighbours at a time, each part of a row into d, with what comes next asked for. */
#define ROW_SUMS(name, memory, load, load_part)                                                                                  \
    INLINE void some_##name(const int count, const float *x, const memory *rows, int64_t ld, int64_t n, float *d)                \
    {                                                                                                                            \
        floats a[ROWS];                                                                                                          \
        UNROLL for (int r = 0; r < count; r++)                                                                                   \
            a[r] = (floats){0} + x[r];                                                                                           \
        int64_t i = 0;                                                                                                           \
        for (; i + LANES <= n; i += LANES) {                                                                                     \
            floats sum = load_f32(d + i);                                                                                        \
            UNROLL for (int r = 0; r < count; r++) {                                                                             \
                __builtin_prefetch((const char *)(rows + (r + count) * ld + i), 0, 1);                                           \
                sum += a[r] * load(rows + r * ld + i);                                                                           \
            }                                                                                                                    \
            __builtin_memcpy(d + i, &sum, sizeof sum);                                                                           \
        }                                                                                                                        \
        if (i < n) {                                                                                                             \
            floats sum = load_part_f32(d + i, (int)(n - i));                                                                     \
            UNROLL for (int r = 0; r < count; r++)                                                                               \
                sum += a[r] * load_part(rows + r * ld + i, (int)(n - i));                                                        \
            store_part_f32(d + i, (int)(n - i), sum);                                                                            \
        }                                                                                                                        \
    }                                                                                                                            \
    INLINE void part_##name(const int lanes, const float *x, const memory *rows, int64_t ld, int64_t count, float *d)            \
    {                                                                                                                            \
        floats sums[ROWS] = {{0}};                                                                                               \
        int64_t i = 0;                                                                                                           \
        for (; i + ROWS <= count; i += ROWS) UNROLL                                                                              \
            for (int r = 0; r < ROWS; r++)                                                                                       \
                sums[r] += x[i + r] * load_part(rows + (i + r) * ld, lanes);                                                     \
        for (; i < count; i++)                                                                                                   \
            sums[0] += x[i] * load_part(rows + i * ld, lanes);                                                                   \
        store_part_f32(d, lanes, load_part_f32(d, lanes) + ((sums[0] + sums[1]) + (sums[2] + sums[3])));                         \
    }                                                                                                                            \
    INLINE void narrow_##name(const int vectors, const float *x, const memory *rows, int64_t ld, int64_t count, float *d)        \
    {                                                                                                                            \
        floats sums[NARROW] = {{0}};                                                                                             \
        const int64_t part = count / ROWS;                                                                                       \
        for (int64_t i = 0; i < part; i++) UNROLL                                                                                \
            for (int r = 0; r < ROWS; r++) UNROLL                                                                                \
                for (int v = 0; v < vectors; v++)                                                                                \
                    sums[v] += x[i + r * part] * load(rows + (i + r * part) * ld + v * LANES);                                   \
        for (int64_t i = part * ROWS; i < count; i++) UNROLL                                                                     \
            for (int v = 0; v < vectors; v++)                                                                                    \
                sums[v] += x[i] * load(rows + i * ld + v * LANES);                                                               \
        UNROLL for (int v = 0; v < vectors; v++) {                                                                               \
            sums[v] += load_f32(d + v * LANES);                                                                                  \
            __builtin_memcpy(d + v * LANES, &sums[v], sizeof sums[v]);                                                           \
        }                                                                                                                        \
    }                                                                                                                            \
    static void name(const float *x, const void *rows_, int64_t ld, int64_t count, int64_t n, float *d)                          \
    {                                                                                                                            \
        const memory *rows = (const memory *)rows_;                                                                              \
        if (n == NARROW * LANES)                                                                                                 \
            narrow_##name(NARROW, x, rows, ld, count, d);                                                                        \
        else if (n == NARROW / 2 * LANES)                                                                                        \
            narrow_##name(NARROW / 2, x, rows, ld, count, d);                                                                    \
        else if (n > 0 && n < LANES)                                                                                             \
            part_##name((int)n, x, rows, ld, count, d);                                                                          \
        else {                                                                                                                   \
            for (; count >= ROWS; count -= ROWS, rows += ROWS * ld, x += ROWS)                                                   \
                some_##name(ROWS, x, rows, ld, n, d);                                                                            \
            for (; count > 0; count--, rows += ld, x++)                                                                          \
                some_##name(1, x, rows, ld, n, d);                                                                               \
        }                                                                                                                        \
    }
ROW_SUMS(sums_f32, float, load_f32, load_part_f32)
ROW_SUMS(sums_bf16, uint16_t, load_bf16, load_part_bf16)

const samba_rows SAMBA_ISA_NAME(samba_rows) = {{dots_f32, dots_bf16}, {sums_f32, sums_bf16}};
