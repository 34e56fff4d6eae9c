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

/* The nearest whole numbers, halves to the even one. */
INLINE ints rounded_ints(floats v)
{
#if defined(__AVX512F__)
    return (ints)_mm512_cvtps_epi32((__m512)v);
#elif defined(__AVX2__)
    return (ints)_mm256_cvtps_epi32((__m256)v);
#elif defined(SAMBA_NEON)
    return (ints)vcvtnq_s32_f32((float32x4_t)v);
#else
    ints n;
    for (int i = 0; i < VECTOR_BYTES / 4; i++)
        n[i] = (int32_t)__builtin_rintf(v[i]);
    return n;
#endif
}

/* ---- words of 16 bytes, whatever a vector has ---- */

typedef uint32_t quarter_words __attribute__((vector_size(16)));
typedef float quarter_floats __attribute__((vector_size(16)));
typedef uint8_t quarter_bytes __attribute__((vector_size(16)));

/* The lowest bytes of four words, then their second ones, the third, the highest. */
INLINE quarter_words bytes_apart(const uint32_t *p)
{
    quarter_bytes v;
    __builtin_memcpy(&v, p, sizeof v);
    return (quarter_words)__builtin_shufflevector(v, v, 0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
}

#define LOW_PAIRS(a, b) __builtin_shufflevector(a, b, 0, 4, 1, 5) /* a0 b0 a1 b1 */
#define HIGH_PAIRS(a, b) __builtin_shufflevector(a, b, 2, 6, 3, 7)
#define FIRST_PAIR(a, b) __builtin_shufflevector(a, b, 0, 1, 4, 5)
#define SECOND_PAIR(a, b) __builtin_shufflevector(a, b, 2, 3, 6, 7)

/* The lowest bytes of 16 words, as many vectors as they take: of a, of b and of c. */
#if defined(__AVX512F__)
INLINE void store_low_bytes(const ints *a, const ints *b, const ints *c, int8_t *const to[3])
{
    const __m128i bytes[3] = {_mm512_cvtepi32_epi8((__m512i)*a), _mm512_cvtepi32_epi8((__m512i)*b),
                              _mm512_cvtepi32_epi8((__m512i)*c)};
    for (int i = 0; i < 3; i++)
        __builtin_memcpy(to[i], &bytes[i], sizeof bytes[i]);
}
#else
INLINE void store_low_bytes(const ints *a, const ints *b, const ints *c, int8_t *const to[3])
{
    enum { WORDS_AT_ONCE = VECTOR_BYTES / 4 };
    uint32_t all[16];
    quarter_words q[4];
    for (int i = 0; i < 16 / WORDS_AT_ONCE; i++) {
        const words three = ((words)a[i] & 255) | ((words)b[i] & 255) << 8 | ((words)c[i] & 255) << 16;
        __builtin_memcpy(all + i * WORDS_AT_ONCE, &three, sizeof three);
    }
    for (int i = 0; i < 4; i++)
        q[i] = bytes_apart(all + 4 * i);
    const quarter_words low[2] = {LOW_PAIRS(q[0], q[1]), LOW_PAIRS(q[2], q[3])},
                        third[2] = {HIGH_PAIRS(q[0], q[1]), HIGH_PAIRS(q[2], q[3])};
    const quarter_words bytes[3] = {FIRST_PAIR(low[0], low[1]), SECOND_PAIR(low[0], low[1]), FIRST_PAIR(third[0], third[1])};
    for (int i = 0; i < 3; i++)
        __builtin_memcpy(to[i], &bytes[i], sizeof bytes[i]);
}
#endif

/* ---- products of bytes ---- */

typedef int8_t whole_bytes __attribute__((vector_size(VECTOR_BYTES))); /* of a vector */
typedef int16_t shorts __attribute__((vector_size(VECTOR_BYTES)));

/* Sums of two products each, of q >= 0 and x, in lanes that belong to the same 16 bytes; they fit if q < 16. */
#if defined(__AVX512BW__)
INLINE shorts multiply_bytes(whole_bytes q, whole_bytes x) { return (shorts)_mm512_maddubs_epi16((__m512i)q, (__m512i)x); }
#elif defined(__AVX2__)
INLINE shorts multiply_bytes(whole_bytes q, whole_bytes x) { return (shorts)_mm256_maddubs_epi16((__m256i)q, (__m256i)x); }
#elif defined(SAMBA_NEON)
INLINE shorts multiply_bytes(whole_bytes q, whole_bytes x)
{
    const int8x16_t a = (int8x16_t)q, b = (int8x16_t)x;
    return (shorts)vmlal_s8(vmull_s8(vget_low_s8(a), vget_low_s8(b)), vget_high_s8(a), vget_high_s8(b));
}
#else
INLINE shorts multiply_bytes(whole_bytes q, whole_bytes x)
{
    const shorts even = (shorts)((whole_halves)x << 8) >> 8, odd = (shorts)x >> 8;
    return ((shorts)q & 255) * even + ((shorts)q >> 8) * odd;
}
#endif

/* Sums of two neighbours. */
#if defined(__AVX512BW__)
INLINE ints add_pairs(shorts s) { return (ints)_mm512_madd_epi16((__m512i)s, _mm512_set1_epi16(1)); }
#elif defined(__AVX2__)
INLINE ints add_pairs(shorts s) { return (ints)_mm256_madd_epi16((__m256i)s, _mm256_set1_epi16(1)); }
#elif defined(SAMBA_NEON)
INLINE ints add_pairs(shorts s) { return (ints)vpaddlq_s16((int16x8_t)s); }
#else
INLINE ints add_pairs(shorts s) { return ((ints)((words)s << 16) >> 16) + ((ints)s >> 16); }
#endif

/* sum + the products of q >= 0 and x of four neighbours, which add_pairs of multiply_bytes gives too, by one instruction. Only
 * for processors of which samba_processor_has_byte_sums() is true. Compilers are not told: these kernels are for others, too. */
#if defined(__AVX512BW__)
INLINE ints add_byte_products(ints sum, whole_bytes q, whole_bytes x)
{
    __asm__("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(q), "v"(x));
    return sum;
}
#else
INLINE ints add_byte_products(ints sum, whole_bytes q, whole_bytes x) { return sum + add_pairs(multiply_bytes(q, x)); }
#endif

/* The first `count` of as many float16 as a vector has 16 bytes, each in the four lanes of its 16 bytes; others are 0. */
INLINE floats spread_float16(const uint16_t *p, int count)
{
    uint64_t some = 0;
    if (count == VECTOR_BYTES / 16)
        __builtin_memcpy(&some, p, VECTOR_BYTES / 8);
    else /* a copy of any length is a call */
        for (int i = 0; i < count; i++)
            some |= (uint64_t)p[i] << 16 * i;
#if defined(__AVX512F__)
    const __m256i pairs =
        _mm256_setr_epi8(0, 1, 0, 1, 0, 1, 0, 1, 2, 3, 2, 3, 2, 3, 2, 3, 4, 5, 4, 5, 4, 5, 4, 5, 6, 7, 6, 7, 6, 7, 6, 7);
    return (floats)_mm512_cvtph_ps(_mm256_shuffle_epi8(_mm256_set1_epi64x((int64_t)some), pairs));
#elif defined(__F16C__)
    const __m128i pairs = _mm_setr_epi8(0, 1, 0, 1, 0, 1, 0, 1, 2, 3, 2, 3, 2, 3, 2, 3);
    return (floats)_mm256_cvtph_ps(_mm_shuffle_epi8(_mm_cvtsi32_si128((int)some), pairs));
#elif defined(SAMBA_NEON)
    return (floats)vcvt_f32_f16(vreinterpret_f16_u16(vdup_n_u16((uint16_t)some)));
#else
    return float16_floats((words){0} + (uint32_t)some);
#endif
}

#endif
