/* SPDX-License-Identifier: Apache-2.0
 *
 * Packing both sides of a large product as the blocks of dense.h read them: one element after the other, at distances that the
 * compiler knows. A is packed in strips of as many rows as registers hold, B in panels of as many columns. */
#include "device/cpu/product/blocks.h"
#include "device/cpu/product/dense_shape.h"
#include "device/cpu/isa/square.h"

enum { ROWS = DENSE_ROWS, COLS = DENSE_COLS, LANES = DENSE_LANES };
enum {
    DEPTH = 32, /* steps of k that all strips take together: their rows of memory are near meanwhile */
    AHEAD = 8   /* rows of memory that are asked for before they are needed */
};

/* k lies together: squares of rows by k are transposed. Whole vectors are stored, so that each k writes over what the one before
 * had too much; after the last strip there is room for that. */
static void transpose_strip(const float *from, int64_t pitch, int64_t rows, int64_t depth, float *to)
{
    int64_t l = 0;
    for (; l + LANES <= depth; l += LANES, to += LANES * ROWS) {
        floats v[(ROWS + LANES - 1) / LANES][LANES];
        UNROLL for (int i = 0; i < (ROWS + LANES - 1) / LANES * LANES; i++) {
            v[i / LANES][i % LANES] = (floats){0};
            if (i < ROWS && i < rows)
                __builtin_memcpy(&v[i / LANES][i % LANES], from + i * pitch + l, sizeof(floats));
        }
        UNROLL for (int part = 0; part < (ROWS + LANES - 1) / LANES; part++)
            square_of_floats(v[part]);
        UNROLL for (int u = 0; u < LANES; u++) {
            UNROLL for (int part = 0; part < (ROWS + LANES - 1) / LANES; part++)
                __builtin_memcpy(to + u * ROWS + part * LANES, &v[part][u], sizeof(floats));
        }
    }
    for (; l < depth; l++, to += ROWS)
        for (int64_t i = 0; i < rows; i++)
            to[i] = from[i * pitch + l];
}

/* Rows lie together. */
static void copy_strips(const float *from, int64_t pitch, int64_t rows, int64_t depth, float *to)
{
    int64_t strips = samba_dense_strips(rows, ROWS);
    for (int64_t l0 = 0; l0 < depth; l0 += DEPTH) {
        int64_t l1 = l0 + DEPTH < depth ? l0 + DEPTH : depth;
        for (int64_t s = 0; s < strips; s++) {
            int64_t first = samba_dense_strip_row(rows, strips, s), count = samba_dense_strip_row(rows, strips, s + 1) - first;
            float *d = to + (s * depth + l0) * ROWS;
            for (int64_t l = l0; l < l1; l++, d += ROWS) {
                const float *row = from + l * pitch + first;
                __builtin_prefetch(row + DEPTH * pitch);
                if (count == ROWS)
                    __builtin_memcpy(d, row, ROWS * sizeof *d);
                else
                    for (int64_t i = 0; i < count; i++)
                        d[i] = row[i];
            }
        }
    }
}

void SAMBA_ISA_NAME(samba_pack_strips)(const float *from, int64_t row_stride, int64_t k_stride, int64_t rows, int64_t depth,
                                       float *to)
{
    if (k_stride != 1) {
        copy_strips(from, k_stride, rows, depth, to);
        return;
    }
    int64_t strips = samba_dense_strips(rows, ROWS);
    for (int64_t s = 0; s < strips; s++) {
        int64_t first = samba_dense_strip_row(rows, strips, s), count = samba_dense_strip_row(rows, strips, s + 1) - first;
        if (count == ROWS) /* the count, a constant, saves asking */
            transpose_strip(from + first * row_stride, row_stride, ROWS, depth, to + s * depth * ROWS);
        else
            transpose_strip(from + first * row_stride, row_stride, count, depth, to + s * depth * ROWS);
    }
}

void SAMBA_ISA_NAME(samba_pack_panels)(const float *from, int64_t k_stride, int64_t depth, int64_t cols, float *to)
{
    int64_t whole = cols / COLS * COLS;
    for (int64_t l = 0; l < depth; l++) {
        const float *row = from + l * k_stride;
        float *d = to + l * COLS;
        for (int64_t j = 0; j < cols; j += 16)
            __builtin_prefetch(row + AHEAD * k_stride + j);
        for (int64_t j = 0; j < whole; j += COLS, d += depth * COLS)
            __builtin_memcpy(d, row + j, COLS * sizeof *d);
        for (int64_t j = whole; whole < cols && j < whole + COLS; j++)
            d[j - whole] = j < cols ? row[j] : 0;
    }
}
