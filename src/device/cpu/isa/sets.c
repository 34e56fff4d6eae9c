/* SPDX-License-Identifier: Apache-2.0
 *
 * The instruction sets of this build: their names and their tables of kernels. */
#include "device/cpu/isa/processor.h"

#define ISA_X86 ISA
const char *const samba_isa_names[SAMBA_ISA_COUNT] = {
#define ISA(name, libxsmm, pairs) #name,
#include "device/cpu/isa/sets.def"
#undef ISA
};

const samba_kernels *samba_kernels_for(samba_isa isa)
{
    static const samba_kernels *const tables[SAMBA_ISA_COUNT] = {
#if !defined(__x86_64__)
#undef ISA_X86
#define ISA_X86(name, libxsmm, pairs) NULL,
#endif
#define ISA(name, libxsmm, pairs) &samba_kernels_##name,
#include "device/cpu/isa/sets.def"
#undef ISA
    };
    return isa <= samba_processor_isa() ? tables[isa] : NULL;
}

samba_isa samba_isa_best(void) { return samba_processor_isa(); }
