/* SPDX-License-Identifier: Apache-2.0
 *
 * Detection of what the processor can do. Everything that the library asks about the processor, and that decides how it computes,
 * is here. A table of kernels may use all that its flags in meson.build allow the compiler, so each of these features is asked
 * for. Test programs have tests/processor.c in the place of this file, which offers nothing beyond SAMBAFLOW_ISA. */
#include "device/cpu/isa/processor.h"

#if defined(__x86_64__)
#include <cpuid.h>

static bool has_f16c(void) /* GCC 10 does not know the name */
{
    unsigned a, b, c, d;
    return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
}

samba_isa samba_processor_isa(void)
{
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") || !has_f16c())
        return SAMBA_ISA_generic;
    if (!__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512vl") || !__builtin_cpu_supports("avx512bw") ||
        !__builtin_cpu_supports("avx512dq"))
        return SAMBA_ISA_avx2;
    return SAMBA_ISA_avx512;
}

bool samba_processor_has_pairs(void) { return __builtin_cpu_supports("avx512bf16"); }

#else
samba_isa samba_processor_isa(void) { return SAMBA_ISA_generic; }
bool samba_processor_has_pairs(void) { return false; }
#endif
