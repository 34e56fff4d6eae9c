/* SPDX-License-Identifier: Apache-2.0
 *
 * Plain blocks of sums, for what libxsmm has no kernel for. Made once per ISA; contract.c takes the table that goes with the
 * kernels it was given. No function allocates; sums are kept in registers and written once.
 *
 * offsets: rows lie anywhere, columns contiguous by runs, at any place for each k, so a convolution reads its image without a
 * copy of its windows.
 * dot: both operands lie contiguous along k, at least by runs, so neither is packed: weight gradients, W of (out, in).
 * finish: the commonest end of a product, finish.h. */
#ifndef SAMBA_CPU_BLOCKS_H
#define SAMBA_CPU_BLOCKS_H

#include "kernels/kernel.h"

typedef struct samba_range {
    int64_t begin, end;
} samba_range;

typedef struct samba_blocks { /* indexed by SAMBA_F32, SAMBA_F64; offsets and leading dimensions count elements */
    /* c[i*ldc + j] (+)= sum over l < k of a[ao[i] + ak[l]] * b[bo[j] + bk[l]]; bo rises by 1 within runs of `run`;
     * needed[r], where given: outside this range of l run r of b is 0 */
    void (*offsets[2])(const void *a, const int64_t *ao, const int64_t *ak, const void *b, const int64_t *bo, const int64_t *bk,
                       void *c, int64_t ldc, int64_t rows, int64_t cols, int64_t run, int64_t k, const samba_range *needed,
                       bool first);
    /* c[i*ldc + j] (+)= sum over l < k of a[ao[i] + ak[l]] * b[bo[j] + bk[l]]; ak and bk rise by 1 within runs of `run` */
    void (*dot[2])(const void *a, const int64_t *ao, const int64_t *ak, const void *b, const int64_t *bo, const int64_t *bk,
                   void *c, int64_t ldc, int64_t rows, int64_t cols, int64_t k, int64_t run, bool first);
    /* result[i*pitch + j] = sums[i*ld + j] + bias[i*bias_row + j*bias_col], where there is a bias; bias_col is 0 or 1; then relu,
     * where wanted, keeping NaN */
    void (*finish)(const float *sums, int64_t ld, const float *bias, int64_t bias_row, int64_t bias_col, bool relu, float *result,
                   int64_t pitch, int64_t rows, int64_t cols);
} samba_blocks;
extern const samba_blocks samba_blocks_generic, samba_blocks_avx2, samba_blocks_avx512;

#ifdef SAMBA_ISA
#include "kernels/cpu/isa.h"
void SAMBA_ISA_NAME(samba_block_f32)(const float *a, int64_t lda, int64_t ska, const float *b, int64_t ldb, float *c, int64_t ldc,
                                     int64_t mr, int64_t nr, int64_t k, bool first);
void SAMBA_ISA_NAME(samba_block_f64)(const double *a, int64_t lda, int64_t ska, const double *b, int64_t ldb, double *c,
                                     int64_t ldc, int64_t mr, int64_t nr, int64_t k, bool first);
void SAMBA_ISA_NAME(samba_transpose4)(void *d, int64_t ldd, const void *s, int64_t lds, int64_t rows, int64_t cols);
void SAMBA_ISA_NAME(samba_transpose8)(void *d, int64_t ldd, const void *s, int64_t lds, int64_t rows, int64_t cols);
#endif

#endif
