/* SPDX-License-Identifier: Apache-2.0
 *
 * Blocks of large products of bfloat16 where an instruction multiplies squares: ARM's BFMMLA adds to the four sums of two rows
 * and two columns the products of four k each. dense.c has the same for CPUs that multiply pairs; operands are packed alike
 * (pairs.h), so two steps of k are put side by side as they are read: four k of a row are neighbours already, and those of
 * columns, or of rows that lie together, are interleaved.
 *
 * The sums of a block live in registers over all of k, as squares, and are rows only in memory. */
#include "device/cpu/product/blocks.h"
#include "device/cpu/product/dense_shape.h"

#define ROWS DENSE_ROWS
#define VECTORS DENSE_VECTORS

enum { LANES = DENSE_LANES, COLS = DENSE_COLS, SQUARES = 2 * VECTORS /* across */ };

typedef float32x4_t square_sums[ROWS / 2][SQUARES];

/* Rows i and i + 1, or the first alone, at two steps of pairs, or at one: what is missing is 0. */
INLINE bfloat16x8_t load_rows(const bool rows_lie, const bool two_rows, const bool two_steps, const float *a, int64_t lda,
                              int64_t ska)
{
    const float32x2_t none = vdup_n_f32(0);
    float32x2_t first, second = none;
    if (rows_lie) { /* first and second: steps */
        first = two_rows ? vld1_f32(a) : vld1_lane_f32(a, none, 0);
        if (two_steps)
            second = two_rows ? vld1_f32(a + ska) : vld1_lane_f32(a + ska, none, 0);
        return (bfloat16x8_t)vzip1q_f32(vcombine_f32(first, none), vcombine_f32(second, none));
    }
    first = two_steps ? vld1_f32(a) : vld1_lane_f32(a, none, 0);
    if (two_rows)
        second = two_steps ? vld1_f32(a + lda) : vld1_lane_f32(a + lda, none, 0);
    return (bfloat16x8_t)vcombine_f32(first, second);
}

INLINE void multiply_steps(const int rows, const int vectors, const bool rows_lie, const bool two_steps, const float *a,
                           int64_t lda, int64_t ska, const float *b, int64_t ldb, square_sums sums)
{
    bfloat16x8_t x[SQUARES];
    UNROLL for (int j = 0; j < vectors; j++) {
        float32x4_t first = vld1q_f32(b + j * LANES), second = two_steps ? vld1q_f32(b + ldb + j * LANES) : vdupq_n_f32(0);
        x[2 * j] = (bfloat16x8_t)vzip1q_f32(first, second);
        x[2 * j + 1] = (bfloat16x8_t)vzip2q_f32(first, second);
    }
    UNROLL for (int i = 0; i < rows; i += 2) {
        bfloat16x8_t y = load_rows(rows_lie, i + 1 < rows, two_steps, a + i * lda, lda, ska);
        UNROLL for (int j = 0; j < 2 * vectors; j++)
            sums[i / 2][j] = vbfmmlaq_f32(sums[i / 2][j], y, x[j]);
    }
}

/* Two halves of two vectors: rows of a pair of squares, or squares of a pair of rows. */
INLINE float32x4_t lower(float32x4_t x, float32x4_t y) { return (float32x4_t)vzip1q_f64((float64x2_t)x, (float64x2_t)y); }
INLINE float32x4_t upper(float32x4_t x, float32x4_t y) { return (float32x4_t)vzip2q_f64((float64x2_t)x, (float64x2_t)y); }

/* Rows from i0, which a has the first of, columns from j0 of a block; the last vector has `last` lanes. */
INLINE void squares_of(const int rows, const int vectors, const bool rows_lie, const samba_dense *d, const float *a, int64_t i0,
                       int64_t j0, int last, samba_fetch *fetch)
{
    const float *b = d->b + j0, *from = d->from ? d->from + i0 * d->from_ld + j0 : NULL;
    int64_t lda = rows_lie ? 1 : d->lda, ska = rows_lie ? d->ska : 1, ldb = d->ldb, l = 0, k = d->k;
    samba_fetch_region region = fetch->now;
    float *c = d->c + i0 * d->ldc + j0;
    square_sums sums;
    UNROLL for (int i = 0; i < rows; i += 2) {
        UNROLL for (int j = 0; j < 2 * vectors; j++)
            sums[i / 2][j] = vdupq_n_f32(0);
    }
    if (d->from) {
        UNROLL for (int i = 0; i < rows; i += 2) {
            UNROLL for (int j = 0; j < vectors; j++) {
                const float *at = from + i * d->from_ld + j * LANES;
                int lanes = j + 1 < vectors ? LANES : last;
                float32x4_t row = (float32x4_t)load_part_f32(at, lanes), next = vdupq_n_f32(0);
                if (i + 1 < rows)
                    next = (float32x4_t)load_part_f32(at + d->from_ld, lanes);
                sums[i / 2][2 * j] = lower(row, next);
                sums[i / 2][2 * j + 1] = upper(row, next);
            }
        }
    }
    for (; l + 2 <= k; l += 2, a += 2 * ska, b += 2 * ldb) {
        samba_fetch_line(&region);
        multiply_steps(rows, vectors, rows_lie, true, a, lda, ska, b, ldb, sums);
    }
    if (l < k)
        multiply_steps(rows, vectors, rows_lie, false, a, lda, ska, b, ldb, sums);
    fetch->now = region;
    UNROLL for (int i = 0; i < rows; i++) {
        UNROLL for (int j = 0; j < vectors; j++) {
            float32x4_t x = sums[i / 2][2 * j], y = sums[i / 2][2 * j + 1], row = i % 2 ? upper(x, y) : lower(x, y);
            store_part_f32(c + i * d->ldc + j * LANES, j + 1 < vectors ? LANES : last, (floats)row);
        }
    }
}

static void squares_small(int64_t rows, int vectors, const samba_dense *d, const float *a, int64_t i, int64_t j, int last,
                          samba_fetch *fetch)
{
#define PART(rows, vectors)                                                                                                      \
    case ((rows)*4 + (vectors)-1) * 2: squares_of(rows, vectors, false, d, a, i, j, last, fetch); break;                         \
    case ((rows)*4 + (vectors)-1) * 2 + 1: squares_of(rows, vectors, true, d, a, i, j, last, fetch); break;
#define CASE(rows) PART(rows, 1) PART(rows, 2) PART(rows, 3) PART(rows, 4)
    switch ((rows * 4 + vectors - 1) * 2 + (d->ska != 1)) {
        CASE(1)
        CASE(2)
        CASE(3)
        CASE(4)
        CASE(5)
        CASE(6)
    }
#undef CASE
#undef PART
}

void samba_dense_pairs(const samba_dense *block, samba_fetch *fetch)
{
    int64_t strips = samba_dense_strips(block->rows, ROWS);
    for (int64_t j = 0, width; j < block->cols; j += width) {
        int64_t left = block->cols - j;
        width = left < COLS ? left : COLS;
        int vectors = (int)((width + LANES - 1) / LANES), last = (int)(width - (vectors - 1) * LANES);
        for (int64_t s = 0; s < strips; s++) {
            int64_t i = samba_dense_strip_row(block->rows, strips, s);
            samba_fetch_advance(fetch);
            squares_small(samba_dense_strip_row(block->rows, strips, s + 1) - i, vectors, block, block->a + i * block->lda, i, j,
                          last, fetch);
        }
    }
}
