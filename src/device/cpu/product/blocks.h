/* SPDX-License-Identifier: Apache-2.0
 *
 * Plain blocks of sums, for what libxsmm has no kernel for. Made once per ISA; roads take the table that goes with the kernels
 * they were given (kernels->blocks). No function allocates; sums are kept in registers and written once.
 *
 * offsets: rows lie anywhere, columns contiguous by runs, at any offset for each k, so a convolution reads its image without a
 * copy of its windows.
 * dot: both operands lie contiguous along k, at least by runs, so neither is packed: weight gradients, W of (out, in).
 * finish: the commonest end of a product, finish.h.
 * fold: rows of products, one for each tap of a window, added up where the window put them (fold.c).
 * filter: windows of one plane times its filter, by the same tables (depthwise.c).
 * columns: a row of a convolution's columns, gathered from its image (columns.c).
 * dense, pack_strips, pack_panels: large products by panels, dense.h; packing for them is in strips.c.
 * winograd: transforms around such products, winograd_tile.h. */
#ifndef SAMBA_CPU_BLOCKS_H
#define SAMBA_CPU_BLOCKS_H

#include "device/cpu/product/dense.h"
#include "device/cpu/product/winograd_tile.h"
#include "device/cpu/kernel.h"

typedef struct samba_range {
    int64_t begin, end;
} samba_range;

/* What is added to each row of a result: offsets[first[y]] .. offsets[first[y + 1]] are where the rows begin that reach row y,
 * one for each row of a window. A piece is up to a vector of elements of the row, `step` apart, with the addends of the window's
 * columns that reach them. */
typedef struct samba_fold_addend {
    int64_t offset; /* from one of the row's; what the first lane adds */
    uint32_t lanes; /* bit i: lane i adds */
    int32_t weight; /* filter: where it lies, from the row's */
} samba_fold_addend;
typedef struct samba_fold_piece {
    int64_t at;
    int32_t lanes, begin, end; /* addends */
} samba_fold_piece;
typedef struct samba_fold_block {
    int64_t row_begin, row_end, width, step; /* rows of the result that are reached; elements of one */
    const int64_t *first, *offsets;          /* first: from row_begin on */
    const int64_t *weights;                  /* filter: where those of an offset's row begin */
    const int8_t *alike; /* filter: how many rows from this one on have as many offsets and the same weights */
    const samba_fold_piece *pieces;
    const samba_fold_addend *addends;
    int64_t piece_count;
} samba_fold_block;

/* Lanes of a vector that lie evenly in memory: lane i at from + i * step. A vector is its pieces up to the last;
 * lanes of none are 0. */
typedef struct samba_column_piece {
    int32_t from;
    uint16_t lanes; /* bit i: lane i */
    bool more;      /* the next piece belongs to this vector, too */
} samba_column_piece;

/* result[i*pitch + j] = sums[i*ld + j] + bias[i*bias_row + j*bias_col] + more[i*more_pitch + j], where there are a bias and more;
 * then relu, or the greater of that and `low` and the lesser of that and `high`, where wanted, keeping NaN. Result and bias are
 * of one dtype: float32, bfloat16 or float16, to which a result is rounded; `more` is float32, and so is the result then. */
typedef struct samba_finish_rows {
    const float *sums;
    const void *bias;  /* NULL: none */
    const float *more; /* NULL: none; may be the result, whose elements are read before they are written */
    void *result;
    int64_t ld, pitch, rows, cols, bias_row, more_pitch;
    int bias_col; /* 0 or 1 */
    samba_dtype dtype;
    float low, high;
    bool relu, clamp, round_sums; /* to dtype, before the bias is added */
} samba_finish_rows;

void samba_finish_pairs(const samba_finish_rows *rows); /* on x86 CPUs that convert pairs to bfloat16 */

#define SAMBA_ALIKE 4 /* most rows that are filtered together */

struct samba_blocks { /* indexed by SAMBA_F32, SAMBA_F64; offsets and leading dimensions count elements */
    /* c[i*ldc + j] (+)= sum over l < k of a[ao[i] + ak[l]] * b[bo[j] + bk[l]]; bo rises by 1 within runs of `run`;
     * needed[r], where given: outside this range of l run r of b is 0 */
    void (*offsets[2])(const void *a, const int64_t *ao, const int64_t *ak, const void *b, const int64_t *bo, const int64_t *bk,
                       void *c, int64_t ldc, int64_t rows, int64_t cols, int64_t run, int64_t k, const samba_range *needed,
                       bool first);
    /* c[i*ldc + j] (+)= sum over l < k of a[ao[i] + ak[l]] * b[bo[j] + bk[l]]; ak and bk rise by 1 within runs of `run` */
    void (*dot[2])(const void *a, const int64_t *ao, const int64_t *ak, const void *b, const int64_t *bo, const int64_t *bk,
                   void *c, int64_t ldc, int64_t rows, int64_t cols, int64_t k, int64_t run, bool first);
    void (*finish)(const samba_finish_rows *rows);
    /* image[c*image_pitch + ...] += products[c*pitch + ...] */
    void (*fold)(const samba_fold_block *block, const float *products, int64_t pitch, float *image, int64_t image_pitch,
                 int64_t channels);
    /* rows begin .. end of the result = sums of weighted rows, all elements of them */
    void (*filter)(const samba_fold_block *block, int64_t begin, int64_t end, const float *image, const float *weights,
                   float *result);
    void (*dense)(const samba_dense *block, samba_fetch *fetch);
    int dense_rows, dense_cols; /* sums of dense that registers hold at once: rows of a strip, columns of a panel */
    /* Rows by steps of k to strips, one after the other, each [k][dense_rows]; row_stride or k_stride is 1. Beyond the last strip
     * 64 bytes may be written. */
    void (*pack_strips)(const float *from, int64_t row_stride, int64_t k_stride, int64_t rows, int64_t depth, float *to);
    /* Steps of k by columns to panels, one after the other, each [k][dense_cols]; columns that are missing in the last are 0 */
    void (*pack_panels)(const float *from, int64_t k_stride, int64_t depth, int64_t cols, float *to);
    /* Vectors side by side, 64 elements of which lie in each of the panels, which are `pitch` elements apart. All lanes of each
     * are stored. step: of the pieces, 1 or 2 */
    void (*columns)(const samba_column_piece *pieces, int step, const float *image, float *panels, int64_t pitch,
                    int64_t vectors);
    const samba_winograd *winograd;
};

#ifdef SAMBA_ISA
#include "device/cpu/isa/isa.h"
void SAMBA_ISA_NAME(samba_block_f32)(const float *a, int64_t lda, int64_t ska, const float *b, int64_t ldb, float *c, int64_t ldc,
                                     int64_t mr, int64_t nr, int64_t k, bool first);
void SAMBA_ISA_NAME(samba_block_f64)(const double *a, int64_t lda, int64_t ska, const double *b, int64_t ldb, double *c,
                                     int64_t ldc, int64_t mr, int64_t nr, int64_t k, bool first);
extern const samba_winograd SAMBA_ISA_NAME(samba_winograd_kernels);
void SAMBA_ISA_NAME(samba_finish)(const samba_finish_rows *rows);
void SAMBA_ISA_NAME(samba_dense_block)(const samba_dense *block, samba_fetch *fetch);
void SAMBA_ISA_NAME(samba_pack_strips)(const float *from, int64_t row_stride, int64_t k_stride, int64_t rows, int64_t depth,
                                       float *to);
void SAMBA_ISA_NAME(samba_pack_panels)(const float *from, int64_t k_stride, int64_t depth, int64_t cols, float *to);
void SAMBA_ISA_NAME(samba_transpose4)(void *d, int64_t ldd, const void *s, int64_t lds, int64_t rows, int64_t cols);
void SAMBA_ISA_NAME(samba_transpose8)(void *d, int64_t ldd, const void *s, int64_t lds, int64_t rows, int64_t cols);
#endif

#endif
