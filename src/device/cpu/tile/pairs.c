/* SPDX-License-Identifier: Apache-2.0
 *
 * What x86 CPUs with AVX512_BF16 do in an instruction. Nothing of it is used where the processor lacks it. */
#include "device/cpu/isa/pairs.h"

void samba_store_bfloat16_pairs(void *destination, const void *a, int64_t n) { store_all_bfloat16(destination, a, n); }
