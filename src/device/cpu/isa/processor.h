/* SPDX-License-Identifier: Apache-2.0
 *
 * Questions about the processor at hand. */
#ifndef SAMBA_CPU_PROCESSOR_H
#define SAMBA_CPU_PROCESSOR_H

#include "device/cpu/kernel.h"

bool samba_processor_has(samba_isa isa); /* all features of its row in sets.def */
bool samba_processor_has_pairs(void);    /* it multiplies pairs of bfloat16 (AVX512_BF16) */
struct samba_cpu_cache;
/* of data, level 1 the nearest; unchanged where it does not tell */
void samba_processor_cache(int level, struct samba_cpu_cache *cache);

#endif
