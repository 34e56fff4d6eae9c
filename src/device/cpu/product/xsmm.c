/* SPDX-License-Identifier: Apache-2.0
 *
 * libxsmm's own state, asked for in one place: see xsmm.h. */
#include "device/cpu/product/xsmm.h"

#if defined(__x86_64__)
#include <stdlib.h>

bool samba_xsmm_is_ready(void)
{
    /* as libxsmm's own state, of the process: a table that is there stays, and looking for it passes over a megabyte */
    static int ready;
    libxsmm_registry_info info;
    if (__atomic_load_n(&ready, __ATOMIC_RELAXED))
        return true;
    if (libxsmm_get_registry_info(&info) != EXIT_SUCCESS)
        return false;
    __atomic_store_n(&ready, 1, __ATOMIC_RELAXED);
    return true;
}

bool samba_xsmm_keeps_to(samba_isa isa)
{
    static const int most[SAMBA_ISA_COUNT] = {
#define ISA(name, family, kernels, flags, features, libxsmm, ...) libxsmm,
#include "device/cpu/isa/sets.def"
#undef ISA
    };
    return isa == samba_isa_best() || libxsmm_get_target_archid() <= most[isa];
}
#else
bool samba_xsmm_keeps_to(samba_isa isa)
{
    (void)isa;
    return false;
}
#endif
