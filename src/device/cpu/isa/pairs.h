/* SPDX-License-Identifier: Apache-2.0
 *
 * Floats stored as bfloat16, two vectors at a time: for sources that are compiled once for each ISA. */
#ifndef SAMBA_CPU_PAIRS_H
#define SAMBA_CPU_PAIRS_H

#include "device/cpu/isa/halves.h"
#include "device/cpu/isa/processor.h"
#include "device/cpu/isa/vector_bits.h"

/* The same on x86 CPUs that convert two vectors to bfloat16 at once (tile/pairs.c). */
void samba_store_bfloat16_pairs(void *destination, const void *a, int64_t n);

INLINE void store_all_bfloat16(void *destination, const void *source, int64_t n)
{
    enum { LANES = VECTOR_BYTES / 4 };
    uint16_t *d = destination;
    const float *a = source;
    int64_t i = 0;
    for (; i + 2 * LANES <= n; i += 2 * LANES) {
        floats v, w;
        __builtin_memcpy(&v, a + i, sizeof v);
        __builtin_memcpy(&w, a + i + LANES, sizeof w);
        whole_halves both = two_bfloat16(v, w);
        __builtin_memcpy(d + i, &both, sizeof both);
    }
    for (; i < n; i++)
        d[i] = bfloat16_of_float(a[i]);
}

/* By whichever way this processor has. */
INLINE void store_best_bfloat16(void *d, const void *a, int64_t n)
{
#if defined(__AVX512F__)
    if (samba_processor_has_pairs()) {
        samba_store_bfloat16_pairs(d, a, n);
        return;
    }
#endif
    store_all_bfloat16(d, a, n);
}

#endif
