/* SPDX-License-Identifier: Apache-2.0
 *
 * The instruction set's side of the plain blocks: how many sums fit the registers. block_body.h is the code, once for float and
 * once for double. */
#include "device/cpu/product/blocks.h"
#include "device/cpu/product/dense_shape.h"
#include "device/cpu/isa/some_lanes.h"
#include "device/cpu/isa/shuffle.h"
#include "device/cpu/isa/square.h"

#if defined(__clang__) /* its checks of undefined behaviour take it minutes and gigabytes on loops that are unrolled this far */
#pragma clang attribute push(__attribute__((no_sanitize("undefined"))), apply_to = function)
#endif

#if VECTOR_REGISTERS >= 32
#define MAX_VECTORS 4
#define MAX_ROWS 12
/* rows of sums by vectors a row: sums, a row of b and one of a fit 32; where each row's address serves one multiply-add, the
 * addresses fit the general registers (14 of them, half of which then lie in memory, took a quarter longer) */
static const int rows_of[MAX_VECTORS + 1] = {0, 9, 12, 8, 6};
#define DOT_ROWS 6
#define DOT_COLS 10
#define DOT_SUMS 25
/* most rows and columns of sums that fit the registers with a row of b */
static const int dot_shapes[][2] = {{6, 4}, {5, 5}, {2, 10}};
#else
#define MAX_VECTORS 2
#define MAX_ROWS 8
static const int rows_of[MAX_VECTORS + 1] = {0, 8, VECTOR_FUSED ? 6 : 5}; /* a product that is added apart takes a register */
#define DOT_ROWS 4
#define DOT_COLS 2
#define DOT_SUMS 8
static const int dot_shapes[][2] = {{4, 2}};
#endif
#define FOLD_CHANNELS 4

#ifndef TOTALS /* isa/square.h */
#define TOTALS totals_f32
#endif

#define REAL float
#define VECTOR floats
#define INDICES ints
#define NAME(name) name##_f32
#define BLOCK SAMBA_ISA_NAME(samba_block_f32)
#define TRANSPOSE SAMBA_ISA_NAME(samba_transpose4)
#define SQUARE square_of_floats
#include "device/cpu/product/block_body.h"
#undef REAL
#undef VECTOR
#undef INDICES
#undef NAME
#undef BLOCK
#undef TRANSPOSE
#undef SQUARE
#undef TOTALS

#define REAL double
#define VECTOR doubles
#define INDICES longs
#define NAME(name) name##_f64
#define BLOCK SAMBA_ISA_NAME(samba_block_f64)
#define TRANSPOSE SAMBA_ISA_NAME(samba_transpose8)
#define SQUARE square_of_doubles
#define TOTALS totals_f64
#include "device/cpu/product/block_body.h"

INLINE void add_apart(float *d, int64_t step, int lanes, floats v)
{
    float part[VECTOR_BYTES / 4];
    store_f32(part, v);
    for (int i = 0; i < lanes; i++)
        d[i * step] += part[i];
}

INLINE void store_apart(float *d, int64_t step, int lanes, floats v)
{
    float part[VECTOR_BYTES / 4];
    store_f32(part, v);
    for (int i = 0; i < lanes; i++)
        d[i * step] = part[i];
}

/* Some channels at once: they share the offsets. */
INLINE void fold_channels(const int channels, const samba_fold_block *block, const float *products, int64_t pitch, float *image,
                          int64_t image_pitch)
{
    int64_t step = block->step;
    for (int64_t y = block->row_begin; y < block->row_end; y++) {
        const int64_t *offset = block->offsets + block->first[y - block->row_begin];
        const int64_t *end = block->offsets + block->first[y - block->row_begin + 1];
        for (int64_t i = 0; i < block->piece_count && offset < end; i++) {
            const samba_fold_piece *piece = &block->pieces[i];
            const samba_fold_addend *last = block->addends + piece->end;
            float *d = image + y * block->width + piece->at;
            floats sums[FOLD_CHANNELS];
            UNROLL for (int c = 0; c < channels; c++)
                sums[c] = (floats){0};
            for (const int64_t *from = offset; from < end; from++)
                for (const samba_fold_addend *a = block->addends + piece->begin; a < last; a++) {
                    UNROLL for (int c = 0; c < channels; c++)
                        sums[c] += load_lanes(products + *from + a->offset + c * pitch, a->lanes);
                }
            UNROLL for (int c = 0; c < channels; c++, d += image_pitch)
                if (step == 1)
                    store_part_f32(d, piece->lanes, load_part_f32(d, piece->lanes) + sums[c]);
                else
                    add_apart(d, step, piece->lanes, sums[c]);
        }
    }
}

static void fold(const samba_fold_block *block, const float *products, int64_t pitch, float *image, int64_t image_pitch,
                 int64_t channels)
{
    int64_t parts = (channels + FOLD_CHANNELS - 1) / FOLD_CHANNELS, c = 0;
    for (int64_t part = 1; part <= parts; part++) {
        int64_t end = part * channels / parts;
        const float *from = products + c * pitch;
        float *to = image + c * image_pitch;
        switch (end - c) {
        case 1: fold_channels(1, block, from, pitch, to, image_pitch); break;
        case 2: fold_channels(2, block, from, pitch, to, image_pitch); break;
        case 3: fold_channels(3, block, from, pitch, to, image_pitch); break;
        case 4: fold_channels(4, block, from, pitch, to, image_pitch); break;
        }
        c = end;
    }
}

/* Some rows at once: they share the weights. */
INLINE void filter_rows(const int rows, const samba_fold_block *block, int64_t y, const float *image, const float *weights,
                        float *result)
{
    const int64_t *offsets = block->offsets + block->first[y], *row_weights = block->weights + block->first[y];
    int64_t count = block->first[y + 1] - block->first[y], step = block->step;
    for (int64_t i = 0; i < block->piece_count; i++) {
        const samba_fold_piece *piece = &block->pieces[i];
        const samba_fold_addend *last = block->addends + piece->end;
        float *d = result + piece->at;
        floats sums[SAMBA_ALIKE];
        UNROLL for (int r = 0; r < rows; r++)
            sums[r] = (floats){0};
        for (int64_t j = 0; j < count; j++) {
            const float *from[SAMBA_ALIKE], *w = weights + row_weights[j];
            UNROLL for (int r = 0; r < rows; r++)
                from[r] = image + offsets[j + r * count];
            for (const samba_fold_addend *a = block->addends + piece->begin; a < last; a++) {
                if (a->lanes == ALL_LANES) {
                    const spread_float weight = spread_of(w[a->weight]);
                    UNROLL for (int r = 0; r < rows; r++)
                        sums[r] = fused_spread(sums[r], weight, load_f32(from[r] + a->offset));
                    continue;
                }
                UNROLL for (int r = 0; r < rows; r++)
                    sums[r] = add_product(sums[r], w[a->weight], load_lanes(from[r] + a->offset, a->lanes), a->lanes);
            }
        }
        UNROLL for (int r = 0; r < rows; r++, d += block->width)
            if (step == 1)
                store_part_f32(d, piece->lanes, sums[r]);
            else
                store_apart(d, step, piece->lanes, sums[r]);
    }
}

static void filter(const samba_fold_block *block, int64_t begin, int64_t end, const float *image, const float *weights,
                   float *result)
{
    for (int64_t y = begin, rows; y < end; y += rows, result += rows * block->width) {
        rows = block->alike[y] < end - y ? block->alike[y] : end - y;
        switch (rows) {
        case 1: filter_rows(1, block, y, image, weights, result); break;
        case 2: filter_rows(2, block, y, image, weights, result); break;
        case 3: filter_rows(3, block, y, image, weights, result); break;
        case 4: filter_rows(4, block, y, image, weights, result); break;
        }
    }
}

INLINE void columns_of(const bool second, const samba_column_piece *piece, const float *image, float *panels, int64_t pitch,
                       int64_t vectors)
{
    enum { LANES = VECTOR_BYTES / 4, IN_PANEL = 64 / LANES };
    for (int64_t v = 0; v < vectors; v++, piece++) {
        floats x = second ? load_second_lanes(image + piece->from, piece->lanes) : load_lanes(image + piece->from, piece->lanes);
        for (; piece->more; piece++) {
            const float *from = image + piece[1].from;
            x = (floats)((ints)x | (ints)(second ? load_second_lanes(from, piece[1].lanes) : load_lanes(from, piece[1].lanes)));
        }
        store_f32(panels + v / IN_PANEL * pitch + v % IN_PANEL * LANES, x);
    }
}

static void columns(const samba_column_piece *pieces, int step, const float *image, float *panels, int64_t pitch, int64_t vectors)
{
    if (step == 1)
        columns_of(false, pieces, image, panels, pitch, vectors);
    else
        columns_of(true, pieces, image, panels, pitch, vectors);
}

const samba_blocks SAMBA_ISA_NAME(samba_blocks) = {.offsets = {offsets_f32, offsets_f64},
                                                   .dot = {dot_f32, dot_f64},
                                                   .finish = SAMBA_ISA_NAME(samba_finish),
                                                   .fold = fold,
                                                   .filter = filter,
                                                   .dense = SAMBA_ISA_NAME(samba_dense_block),
                                                   .dense_rows = DENSE_ROWS,
                                                   .dense_cols = DENSE_COLS,
                                                   .pack_strips = SAMBA_ISA_NAME(samba_pack_strips),
                                                   .pack_panels = SAMBA_ISA_NAME(samba_pack_panels),
                                                   .columns = columns,
                                                   .winograd = &SAMBA_ISA_NAME(samba_winograd_kernels)};

#if defined(__clang__)
#pragma clang attribute pop
#endif
