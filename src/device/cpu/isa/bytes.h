/* SPDX-License-Identifier: Apache-2.0
 *
 * Vectors of narrow elements, as many as a vector has floats, of which each becomes one. For sources that are compiled once for
 * each ISA: left to itself GCC 12 takes such conversions apart into halves of vectors. */
#ifndef SAMBA_CPU_BYTES_H
#define SAMBA_CPU_BYTES_H

#include "device/cpu/isa/halves.h"

typedef int8_t signed_bytes __attribute__((vector_size(VECTOR_BYTES / 4)));

INLINE floats load_i8(const int8_t *p)
{
    signed_bytes v;
    __builtin_memcpy(&v, p, sizeof v);
#if defined(__AVX512F__)
    return (floats)_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32((__m128i)v));
#elif defined(__AVX2__)
    return (floats)_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_set_epi64x(0, (int64_t)v)));
#elif defined(SAMBA_NEON)
    const int32_t bits = (int32_t)v;
    const int16x8_t wide = vmovl_s8(vreinterpret_s8_s32(vdup_n_s32(bits)));
    return (floats)vcvtq_f32_s32(vmovl_s16(vget_low_s16(wide)));
#else
    floats wide;
    for (int i = 0; i < VECTOR_BYTES / 4; i++)
        wide[i] = (float)v[i];
    return wide;
#endif
}

/* float16 */
#if defined(__AVX512F__)
INLINE floats floats_of_float16(halves h) { return (floats)_mm512_cvtph_ps((__m256i)h); }
#elif defined(__F16C__)
INLINE floats floats_of_float16(halves h) { return (floats)_mm256_cvtph_ps((__m128i)h); }
#else
INLINE floats floats_of_float16(halves h) { return float16_floats(__builtin_convertvector(h, words)); }
#endif

#endif
