/* SPDX-License-Identifier: Apache-2.0
 *
 * Questions about the processor at hand, and the families of processors that sets.def names. */
#ifndef SAMBA_CPU_PROCESSOR_H
#define SAMBA_CPU_PROCESSOR_H

#include "device/cpu/kernel.h"

/* IN_family(x, otherwise): x where the build is for that family. */
#define IN_any(x, otherwise) x
#if defined(__x86_64__)
#define IN_x86_64(x, otherwise) x
#else
#define IN_x86_64(x, otherwise) otherwise
#endif
#if defined(__aarch64__)
#define IN_aarch64(x, otherwise) x
#else
#define IN_aarch64(x, otherwise) otherwise
#endif

bool samba_processor_has(samba_isa isa);  /* all features of its row in sets.def */
bool samba_processor_has_pairs(void);     /* it multiplies pairs of bfloat16 (AVX512_BF16, ARM's BF16) */
bool samba_processor_has_byte_sums(void); /* it adds four products of bytes to a word (AVX512_VNNI) */
/* Asks the system for AMX, for this process and for good: Linux gives it to those that ask. Frames of signals are larger from
 * then on, so nobody asks who has no use for it; false where there is none, or a thread's stack for signals is too small. */
bool samba_processor_gives_amx(void);
struct samba_cpu_cache;
/* of data, level 1 the nearest; unchanged where it does not tell */
void samba_processor_cache(int level, struct samba_cpu_cache *cache);

#endif
