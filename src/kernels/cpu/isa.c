/* SPDX-License-Identifier: Apache-2.0
 *
 * Which instruction sets this build has and this CPU runs. A table stands for all that its flags in meson.build allow the
 * compiler, so each of them is asked for. */
#include "kernels/cpu/blocks.h"
#include "kernels/cpu/rows.h"

#if defined(__x86_64__)
#include <cpuid.h>

static bool has_f16c(void) /* GCC 10 does not know the name */
{
    unsigned a, b, c, d;
    return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
}
#endif

const char *const samba_isa_names[SAMBA_ISA_COUNT] = {"generic", "avx2", "avx512"};

const samba_kernels *samba_kernels_for(samba_isa isa)
{
    switch (isa) {
    case SAMBA_ISA_GENERIC: return &samba_kernels_generic;
#if defined(__x86_64__)
    case SAMBA_ISA_AVX2:
        if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c())
            return &samba_kernels_avx2;
        return NULL;
    case SAMBA_ISA_AVX512:
        if (samba_kernels_for(SAMBA_ISA_AVX2) && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
            __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq"))
            return &samba_kernels_avx512;
        return NULL;
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

samba_isa samba_isa_best(void)
{
    for (int isa = SAMBA_ISA_COUNT - 1; isa > SAMBA_ISA_GENERIC; isa--)
        if (samba_kernels_for((samba_isa)isa))
            return (samba_isa)isa;
    return SAMBA_ISA_GENERIC;
}
