/* SPDX-License-Identifier: Apache-2.0
 *
 * Counting, lane by lane, how often a comparison holds. */
#ifndef SAMBA_CPU_COUNTS_H
#define SAMBA_CPU_COUNTS_H

#include "device/cpu/isa/lanes.h"

/* counts + 1 where a < b, or where a <= b. Compilers make a vector of the mask before they add it. */
#if defined(__AVX512F__)
INLINE ints count_less(ints counts, ints a, ints b)
{
    return (ints)_mm512_mask_sub_epi32((__m512i)counts, _mm512_cmplt_epi32_mask((__m512i)a, (__m512i)b), (__m512i)counts,
                                       _mm512_set1_epi32(-1));
}
INLINE ints count_most(ints counts, ints a, ints b)
{
    return (ints)_mm512_mask_sub_epi32((__m512i)counts, _mm512_cmple_epi32_mask((__m512i)a, (__m512i)b), (__m512i)counts,
                                       _mm512_set1_epi32(-1));
}
#else
INLINE ints count_less(ints counts, ints a, ints b) { return counts - (a < b); }
INLINE ints count_most(ints counts, ints a, ints b) { return counts + 1 + (a > b); }
#endif

#endif
