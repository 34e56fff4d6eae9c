/* SPDX-License-Identifier: Apache-2.0
 *
 * The instruction sets that this build has and this processor runs, and those of them that libxsmm keeps to. */
#include "device/cpu/isa/processor.h"
#include "device/cpu/product/pairs.h"
#include "device/cpu/product/xsmm.h"
#include <stdlib.h>

#define ISA_X86 ISA
const char *const samba_isa_names[SAMBA_ISA_COUNT] = {
#define ISA(name, libxsmm) #name,
#include "device/cpu/isa/sets.def"
#undef ISA
};

const samba_kernels *samba_kernels_for(samba_isa isa)
{
    static const samba_kernels *const tables[SAMBA_ISA_COUNT] = {
#if !defined(__x86_64__)
#undef ISA_X86
#define ISA_X86(name, libxsmm) NULL,
#endif
#define ISA(name, libxsmm) &samba_kernels_##name,
#include "device/cpu/isa/sets.def"
#undef ISA
    };
    return isa <= samba_processor_isa() ? tables[isa] : NULL;
}

samba_isa samba_isa_best(void) { return samba_processor_isa(); }

bool samba_pairs_are_fast(samba_isa isa) { return isa == SAMBA_ISA_avx512 && samba_processor_has_pairs(); }

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
    static const int most[SAMBA_ISA_COUNT] = {
#define ISA(name, libxsmm) libxsmm,
#include "device/cpu/isa/sets.def"
#undef ISA
    };
    return libxsmm_get_target_archid() <= most[isa];
#else
    return false;
#endif
}
