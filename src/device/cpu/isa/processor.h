/* SPDX-License-Identifier: Apache-2.0
 *
 * Questions about the processor at hand. */
#ifndef SAMBA_CPU_PROCESSOR_H
#define SAMBA_CPU_PROCESSOR_H

#include "device/cpu/kernel.h"

samba_isa samba_processor_isa(void);  /* the best of ours that it runs; it runs those before it too */
bool samba_processor_has_pairs(void); /* it multiplies pairs of bfloat16 (AVX512_BF16) */
struct samba_cpu_cache;
/* of data, level 1 the nearest; unchanged where it does not tell */
void samba_processor_cache(int level, struct samba_cpu_cache *cache);

#endif
