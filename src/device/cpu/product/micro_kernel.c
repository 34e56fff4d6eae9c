/* SPDX-License-Identifier: Apache-2.0
 *
 * Micro-kernels of libxsmm: see micro_kernel.h. libxsmm counts columns first: its m is our columns, and its A our B. */
#include "device/cpu/product/micro_kernel.h"
#include "device/cpu/isa/processor.h"
#include "device/cpu/product/amx.h"
#include "device/cpu/product/blocks.h"
#include "device/cpu/product/xsmm.h"

#include <limits.h>
#include <string.h>

#if defined(__x86_64__)
static bool is_countable(int64_t n) { return n >= 1 && n <= INT_MAX / 8; }

/* A whose rows lie together is "transposed" to libxsmm.
 * Where there is one row, or one step of depth, how far apart others would be is nothing to it. */
static void make(samba_micro_kernel *k)
{
    bool turned = k->ska != 1 && k->depth > 1;
    int64_t row_ld = turned ? k->ska : k->rows == 1 ? k->depth : k->lda, col_ld = k->depth == 1 ? k->cols : k->ldb;
    if (!is_countable(k->rows) || !is_countable(k->cols) || !is_countable(k->depth) || !is_countable(row_ld) ||
        !is_countable(col_ld) || !is_countable(k->ldc) || row_ld < (turned ? k->rows : k->depth) || col_ld < k->cols ||
        (turned && k->rows > 1 && k->lda != 1))
        return;
    int lda = (int)row_ld, ldb = (int)col_ld, ldc = (int)k->ldc, rows = (int)k->rows, cols = (int)k->cols, depth = (int)k->depth;
    int flags = turned ? LIBXSMM_GEMM_FLAG_TRANS_B : 0, paired = LIBXSMM_GEMM_FLAG_VNNI_A;
    float alpha = 1, beta = k->first ? 0 : 1;
    double wide_alpha = 1, wide_beta = k->first ? 0 : 1;
    if (k->kind == SAMBA_MICRO_F32) {
        k->f32 = libxsmm_smmdispatch(cols, rows, depth, &ldb, &lda, &ldc, &alpha, &beta, &flags, NULL);
    } else if (k->kind == SAMBA_MICRO_F64) {
        k->f64 = libxsmm_dmmdispatch(cols, rows, depth, &ldb, &lda, &ldc, &wide_alpha, &wide_beta, &flags, NULL);
    } else {
        libxsmm_bsmmfunction made = libxsmm_bsmmdispatch(cols, rows, depth, &ldb, &lda, &ldc, &alpha, &beta, &paired, NULL);
        memcpy(&k->pairs, &made, sizeof made);
    }
}
#endif

void samba_micro_kernel_make(const samba_cpu_machine *machine, samba_micro_kernel *kernel)
{
    kernel->kernels = machine->kernels;
    kernel->f32 = NULL;
    kernel->f64 = NULL;
    kernel->pairs = NULL;
#if defined(__x86_64__)
    if (machine->libxsmm && samba_xsmm_is_ready())
        make(kernel);
#endif
}

samba_dense_fn *samba_dense_pairs_of(const samba_cpu_machine *machine)
{
#if defined(__x86_64__) || defined(__aarch64__)
    return machine->pairs ? samba_dense_pairs : NULL;
#else
    (void)machine;
    return NULL;
#endif
}

samba_dense_fn *samba_dense_amx_of(const samba_cpu_machine *machine)
{
#if defined(__x86_64__)
    return machine->amx && samba_processor_gives_amx() ? samba_dense_amx : NULL;
#else
    (void)machine;
    return NULL;
#endif
}

samba_finish_fn *samba_finish_fn_of(const samba_cpu_machine *machine)
{
#if defined(__x86_64__)
    if (machine->pairs)
        return samba_finish_pairs;
#endif
    return machine->kernels->blocks->finish;
}
