/* SPDX-License-Identifier: Apache-2.0
 *
 * Detection of what the processor can do. Everything that the library asks about the processor, and that decides how it computes,
 * is here. Test programs have tests/processor.c in the place of this file, which offers nothing beyond SAMBAFLOW_ISA. */
#include "device/cpu/isa/processor.h"
#include "device/cpu/machine.h"

#if defined(__x86_64__)
#include <cpuid.h>
#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

/* A feature that sets.def names. */
#define FEATURE(name)                                                                                                            \
    static bool has_##name(void) { return __builtin_cpu_supports(#name); }
FEATURE(avx2)
FEATURE(fma)
FEATURE(avx512f)
FEATURE(avx512vl)
FEATURE(avx512bw)
FEATURE(avx512dq)

static bool has_f16c(void) /* GCC 10 does not know the name */
{
    unsigned a, b, c, d;
    return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
}

bool samba_processor_has_pairs(void) { return __builtin_cpu_supports("avx512bf16"); }
bool samba_processor_has_byte_sums(void) { return __builtin_cpu_supports("avx512vnni"); }

/* Products of bfloat16 by matrices in registers, which the system must save where threads change. */
static bool has_amx(void)
{
    enum { OSXSAVE = 1 << 27, AMX = 1 << 22 | 1 << 24, SAVED = 3 << 17 };
    unsigned a, b, c, d, low, high;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & OSXSAVE) || !__get_cpuid_count(7, 0, &a, &b, &c, &d) || (d & AMX) != AMX)
        return false;
    __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (low & SAVED) == SAVED && samba_processor_has_pairs();
}

bool samba_processor_gives_amx(void)
{
#if defined(__linux__)
    enum { REQUEST_PERMISSION = 0x1023, TILE_DATA = 18 };
    return has_amx() && syscall(SYS_arch_prctl, REQUEST_PERMISSION, TILE_DATA) == 0;
#else
    return false;
#endif
}

/* Intel describes its caches in leaf 4, AMD the same way in leaf 0x8000001D: one cache a subleaf, until one of type 0. */
void samba_processor_cache(int level, samba_cpu_cache *cache)
{
    enum { NONE, DATA, INSTRUCTIONS, TYPES = 31, SUBLEAVES = 16 };
    static const unsigned leaves[2] = {4, 0x8000001D};
    for (int i = 0; i < 2; i++)
        for (unsigned k = 0; k < SUBLEAVES; k++) {
            unsigned a, b, c, d;
            if (!__get_cpuid_count(leaves[i], k, &a, &b, &c, &d) || (a & TYPES) == NONE)
                break;
            if ((int)(a >> 5 & 7) != level || (a & TYPES) == INSTRUCTIONS)
                continue;
            cache->line = (int32_t)(b & 0xfff) + 1;
            cache->ways = (int32_t)(b >> 22) + 1;
            cache->sharers = (int32_t)(a >> 14 & 0xfff) + 1;
            cache->bytes = (int64_t)cache->ways * ((b >> 12 & 0x3ff) + 1) * cache->line * ((int64_t)c + 1);
            return;
        }
}

#else
bool samba_processor_gives_amx(void) { return false; }
bool samba_processor_has_byte_sums(void) { return false; }

#if defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>

enum { ASIMD = 1 << 1, BF16 = 1 << 14 }; /* bits of two words that Linux gives every program */

static bool has_asimd(void) { return getauxval(AT_HWCAP) & ASIMD; }
bool samba_processor_has_pairs(void) { return getauxval(AT_HWCAP2) & BF16; }
#else
#if defined(__aarch64__)
static bool has_asimd(void) { return true; } /* a processor without it runs no system of this kind */
#endif
bool samba_processor_has_pairs(void) { return false; }
#endif

/* ARM tells a program how long lines are, and keeps the rest for the system. */
void samba_processor_cache(int level, samba_cpu_cache *cache)
{
    (void)level;
#if defined(__aarch64__)
    uint64_t type;
    __asm__("mrs %0, ctr_el0" : "=r"(type));
    cache->line = 4 << (type >> 16 & 15);
#else
    (void)cache;
#endif
}
#endif

bool samba_processor_has(samba_isa isa)
{
    switch (isa) {
#define HAS(feature) &&has_##feature()
#define ISA(name, family, kernels, flags, features, ...)                                                                         \
    case SAMBA_ISA_##name: return IN_##family(true features, false);
#include "device/cpu/isa/sets.def"
#undef ISA
    default: return false;
    }
}
