/* SPDX-License-Identifier: Apache-2.0
 *
 * Which instruction sets this build has and this processor runs, and which of them libxsmm keeps to. */
#include "device/cpu/product/blocks.h"
#include "device/cpu/product/pairs.h"
#include "device/cpu/isa/processor.h"
#include "device/cpu/product/rows.h"
#include "device/cpu/product/xsmm.h"
#include <stdlib.h>

const char *const samba_isa_names[SAMBA_ISA_COUNT] = {"generic", "avx2", "avx512"};

const samba_kernels *samba_kernels_for(samba_isa isa)
{
    if (isa > samba_processor_isa())
        return NULL;
    switch (isa) {
    case SAMBA_ISA_GENERIC: return &samba_kernels_generic;
#if defined(__x86_64__)
    case SAMBA_ISA_AVX2: return &samba_kernels_avx2;
    case SAMBA_ISA_AVX512: return &samba_kernels_avx512;
#endif
    default: return NULL;
    }
}

const samba_blocks *samba_blocks_for(samba_isa isa)
{
    switch (isa) {
#if defined(__x86_64__)
    case SAMBA_ISA_AVX2: return &samba_blocks_avx2;
    case SAMBA_ISA_AVX512: return &samba_blocks_avx512;
#endif
    default: return &samba_blocks_generic;
    }
}

const samba_rows *samba_rows_for(samba_isa isa)
{
    switch (isa) {
#if defined(__x86_64__)
    case SAMBA_ISA_AVX2: return &samba_rows_avx2;
    case SAMBA_ISA_AVX512: return &samba_rows_avx512;
#endif
    default: return &samba_rows_generic;
    }
}

samba_isa samba_isa_best(void) { return samba_processor_isa(); }

bool samba_pairs_are_fast(samba_isa isa) { return isa == SAMBA_ISA_AVX512 && samba_processor_has_pairs(); }

#if defined(__x86_64__)
bool samba_xsmm_is_ready(void)
{
    static int ready; /* as libxsmm's own state, of the process: a table that is there stays, and looking for it passes over a megabyte */
    libxsmm_registry_info info;
    if (__atomic_load_n(&ready, __ATOMIC_RELAXED))
        return true;
    if (libxsmm_get_registry_info(&info) != EXIT_SUCCESS)
        return false;
    __atomic_store_n(&ready, 1, __ATOMIC_RELAXED);
    return true;
}
#endif

bool samba_isa_has_libxsmm(samba_isa isa)
{
    if (isa == samba_isa_best())
        return true;
#if defined(__x86_64__)
    static const int most[SAMBA_ISA_COUNT] = {LIBXSMM_X86_GENERIC, LIBXSMM_X86_AVX2, LIBXSMM_X86_ALLFEAT};
    return libxsmm_get_target_archid() <= most[isa];
#else
    return false;
#endif
}
