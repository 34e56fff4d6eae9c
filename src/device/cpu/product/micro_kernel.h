/* SPDX-License-Identifier: Apache-2.0
 *
 * A micro-kernel: C (rows x cols, ldc) (+)= A (row stride lda, depth stride ska) B (row stride ldb, columns contiguous), of one
 * shape. libxsmm makes machine code for it where the machine has libxsmm and it knows the shape; else the plain blocks of the
 * instruction set do the same. Large products have blocks of any shape instead: dense.h.
 *
 * Of pairs of bfloat16: depth is even, ska 1, B [depth/2][ldb][2], C float; there are no plain blocks of these. */
#ifndef SAMBA_CPU_MICRO_KERNEL_H
#define SAMBA_CPU_MICRO_KERNEL_H

#include "device/cpu/machine.h"

typedef enum samba_micro_kernel_kind { SAMBA_MICRO_F32, SAMBA_MICRO_F64, SAMBA_MICRO_PAIRS } samba_micro_kernel_kind;

typedef struct samba_micro_kernel {
    const samba_kernels *kernels;
    int64_t rows, cols, depth, lda, ska, ldb, ldc;
    samba_micro_kernel_kind kind;
    bool first;                                                 /* C is set, not added to */
    void (*f32)(const float *b, const float *a, float *c, ...); /* libxsmm's; all NULL: plain */
    void (*f64)(const double *b, const double *a, double *c, ...);
    void (*pairs)(const uint16_t *b, const uint16_t *a, float *c, ...);
} samba_micro_kernel;

/* Has libxsmm make its own; what is made stays with libxsmm. */
void samba_micro_kernel_make(const samba_cpu_machine *machine, samba_micro_kernel *kernel);
/* Is there anything to run? Always, but for pairs that nobody makes. */
static inline bool samba_micro_kernel_exists(const samba_micro_kernel *k) { return k->kind != SAMBA_MICRO_PAIRS || k->pairs; }

static inline void samba_micro_kernel_run(const samba_micro_kernel *k, const void *a, const void *b, void *c)
{
    if (k->f32)
        k->f32((const float *)b, (const float *)a, (float *)c);
    else if (k->pairs)
        k->pairs((const uint16_t *)b, (const uint16_t *)a, (float *)c);
    else if (k->f64)
        k->f64((const double *)b, (const double *)a, (double *)c);
    else if (k->kind == SAMBA_MICRO_F64)
        k->kernels->block_f64((const double *)a, k->lda, k->ska, (const double *)b, k->ldb, (double *)c, k->ldc, k->rows, k->cols,
                              k->depth, k->first);
    else
        k->kernels->block_f32((const float *)a, k->lda, k->ska, (const float *)b, k->ldb, (float *)c, k->ldc, k->rows, k->cols,
                              k->depth, k->first);
}

struct samba_dense;
struct samba_fetch;
/* Blocks of pairs of bfloat16 of any shape, as dense.h has them of floats; NULL where the machine has no pairs. */
typedef void samba_dense_fn(const struct samba_dense *block, struct samba_fetch *fetch);
samba_dense_fn *samba_dense_pairs_of(const samba_cpu_machine *machine);
/* The same by AMX (amx.h), where the machine has it and the system gives it to this process. */
samba_dense_fn *samba_dense_amx_of(const samba_cpu_machine *machine);

struct samba_finish_rows;
/* Rows of sums to results, as blocks.h has them. */
typedef void samba_finish_fn(const struct samba_finish_rows *rows);
samba_finish_fn *samba_finish_fn_of(const samba_cpu_machine *machine);

#endif
