/* SPDX-License-Identifier: Apache-2.0
 *
 * Packing pairs: see pairs.h. Pairs are 4-byte elements once their halves are neighbours. Where k lies together in memory they
 * are already, and packing transposes pairs; where it does not, two rows are interleaved first. Anything else is gathered into a
 * tile where k lies together. */
#include "device/cpu/product/pairs.h"
#include <string.h>

enum {
    TILE = 64, /* elements a side of what is moved by way of a tile */
    /* rows of memory that are asked for before they are needed: no prefetcher follows short pieces of rows far apart */
    AHEAD = 32,
    LINE = 32 /* elements of a cache line */
};

static int64_t at_most(int64_t n, int64_t most) { return n < most ? n : most; }

/* to[i*ld + k] for rows of any strides, with the zero that an odd last k needs. */
static void copy_rows(const uint16_t *from, int64_t k_stride, int64_t i_stride, int64_t depth, int64_t rows, uint16_t *to,
                      int64_t ld)
{
    for (int64_t i = 0; i < rows; i++) {
        if (k_stride == 1)
            memcpy(to + i * ld, from + i * i_stride, (size_t)depth * sizeof *to);
        else
            for (int64_t k = 0; k < depth; k++)
                to[i * ld + k] = from[i * i_stride + k * k_stride];
        if (depth & 1)
            to[i * ld + depth] = 0;
    }
}

static void interleave(const samba_kernels *kernels, const uint16_t *from, int64_t k_stride, int64_t depth, int64_t width,
                       uint16_t *to, int64_t ld)
{
    static const uint16_t zeros[TILE];
    for (int64_t k = 0; k < depth; k += 2) {
        for (int64_t j = 0; j < 2 * width; j += LINE)
            __builtin_prefetch(from + (k + AHEAD) * k_stride + (j < width ? j : k_stride + j - width));
        for (int64_t j = 0; j < width; j += TILE)
            kernels->interleave2(to + k * ld + 2 * j, from + k * k_stride + j,
                                 k + 1 < depth ? from + (k + 1) * k_stride + j : zeros, at_most(width - j, TILE));
    }
}

void samba_pack_pairs(const samba_kernels *kernels, const uint16_t *from, int64_t k_stride, int64_t j_stride, int64_t depth,
                      int64_t width, uint16_t *to, int64_t ld)
{
    uint16_t tile[TILE * TILE] __attribute__((aligned(64)));
    int64_t whole = k_stride == 1 && j_stride % 2 == 0 ? depth / 2 * 2 : 0;
    if (j_stride == 1 && k_stride != 1) {
        interleave(kernels, from, k_stride, depth, width, to, ld);
        return;
    }
    if (whole) /* transposing reads [width][whole/2] pairs */
        kernels->transpose4(to, ld, from, j_stride / 2, width, whole / 2);
    for (int64_t k = whole; k < depth; k += TILE)
        for (int64_t j = 0; j < width; j += TILE) {
            int64_t deep = at_most(depth - k, TILE), wide = at_most(width - j, TILE);
            copy_rows(from + k * k_stride + j * j_stride, k_stride, j_stride, deep, wide, tile, TILE);
            kernels->transpose4(to + k * ld + 2 * j, ld, tile, TILE / 2, wide, (deep + 1) / 2);
        }
}

void samba_pack_rows_of_pairs(const samba_kernels *kernels, const uint16_t *from, int64_t k_stride, int64_t i_stride,
                              int64_t depth, int64_t rows, uint16_t *to, int64_t ld)
{
    uint16_t tile[TILE * TILE] __attribute__((aligned(64)));
    if (k_stride == 1 || i_stride != 1) {
        copy_rows(from, k_stride, i_stride, depth, rows, to, ld);
        return;
    }
    for (int64_t k = 0; k < depth; k += TILE)
        for (int64_t i = 0; i < rows; i += TILE) {
            int64_t deep = at_most(depth - k, TILE), wide = at_most(rows - i, TILE);
            interleave(kernels, from + k * k_stride + i, k_stride, deep, wide, tile, TILE);
            kernels->transpose4(to + i * ld + k, ld / 2, tile, TILE, (deep + 1) / 2, wide);
        }
}
