/* SPDX-License-Identifier: Apache-2.0
 *
 * Vectors of 16-bit elements: as many as a vector has floats, of which each becomes one float or is made of one. For sources that
 * are compiled once for each ISA. */
#ifndef SAMBA_CPU_HALVES_H
#define SAMBA_CPU_HALVES_H

#include "device/cpu/isa/lanes.h"

typedef uint16_t halves __attribute__((vector_size(VECTOR_BYTES / 2)));
typedef uint16_t whole_halves __attribute__((vector_size(VECTOR_BYTES))); /* of two vectors of floats */
typedef uint32_t words __attribute__((vector_size(VECTOR_BYTES)));

/* The upper halves of a's lanes and of b's: every CPU that has a table keeps the lower one first. */
#if VECTOR_BYTES == 64
#define UPPER_HALVES(a, b)                                                                                                       \
    __builtin_shufflevector(a, b, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31, 33, 35, 37, 39, 41, 43, 45, 47, 49, \
                            51, 53, 55, 57, 59, 61, 63)
#elif VECTOR_BYTES == 32
#define UPPER_HALVES(a, b) __builtin_shufflevector(a, b, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31)
#else
#define UPPER_HALVES(a, b) __builtin_shufflevector(a, b, 1, 3, 5, 7, 9, 11, 13, 15)
#endif

INLINE halves load_halves(const uint16_t *p)
{
    halves h;
    __builtin_memcpy(&h, p, sizeof h);
    return h;
}

/* The first n, fewer than a vector has: no memory beyond them is touched. */
#if defined(__AVX512BW__) && defined(__AVX512VL__)
INLINE halves load_part_halves(const uint16_t *p, int n)
{
    return (halves)_mm256_maskz_loadu_epi16((__mmask16)((1u << n) - 1), p);
}

INLINE void store_part_halves(uint16_t *p, int n, halves h)
{
    _mm256_mask_storeu_epi16(p, (__mmask16)((1u << n) - 1), (__m256i)h);
}
#else
/* By two pieces that overlap: a copy of any length is a call. */
INLINE halves load_part_halves(const uint16_t *p, int n)
{
    uint64_t part[2] = {0};
    halves h;
    if (n >= 4) {
        uint64_t last;
        __builtin_memcpy(part, p, 8);
        __builtin_memcpy(&last, p + n - 4, 8);
        part[1] = n == 4 ? 0 : last >> 16 * (8 - n);
    } else if (n >= 2) {
        uint32_t first;
        __builtin_memcpy(&first, p, 4);
        part[0] = first | (uint64_t)p[n - 1] << 16 * (n - 1);
    } else if (n == 1) {
        part[0] = *p;
    }
    __builtin_memcpy(&h, part, sizeof h);
    return h;
}

INLINE void store_part_halves(uint16_t *p, int n, halves h)
{
    uint64_t part[2] = {0};
    __builtin_memcpy(part, &h, sizeof h);
    if (n >= 4) {
        uint64_t last = n == 4 ? part[0] : part[0] >> 16 * (n - 4) | part[1] << 16 * (8 - n);
        __builtin_memcpy(p, part, 8);
        __builtin_memcpy(p + n - 4, &last, 8);
    } else if (n >= 2) {
        uint32_t first = (uint32_t)part[0];
        __builtin_memcpy(p, &first, 4);
        p[n - 1] = (uint16_t)(part[0] >> 16 * (n - 1));
    } else if (n == 1) {
        *p = (uint16_t)part[0];
    }
}
#endif

/* ---- conversions, those of vector_bits.h in vectors ---- */
/* x where mask, whose lanes are 0 or -1, else y */
INLINE words select_words(ints mask, words x, words y) { return (x & (words)mask) | (y & ~(words)mask); }

/* Half as many floats as a vector holds. GCC 12 makes them in halves of their own; out of bytes that stand in both halves of a
 * register it is one instruction. */
typedef uint16_t quarter_halves __attribute__((vector_size(VECTOR_BYTES / 4)));
#if defined(__AVX512F__)
INLINE half_floats half_floats_of_bfloat16(quarter_halves x)
{
    const __m256i upper = _mm256_setr_epi8(-1, -1, 0, 1, -1, -1, 2, 3, -1, -1, 4, 5, -1, -1, 6, 7, -1, -1, 8, 9, -1, -1, 10, 11,
                                           -1, -1, 12, 13, -1, -1, 14, 15);
    return (half_floats)_mm256_shuffle_epi8(_mm256_broadcastsi128_si256((__m128i)x), upper);
}
#else
INLINE half_floats half_floats_of_bfloat16(quarter_halves x)
{
    typedef uint32_t half_words __attribute__((vector_size(VECTOR_BYTES / 2)));
    return (half_floats)(__builtin_convertvector(x, half_words) << 16);
}
#endif

/* A bfloat16 is the upper half of its lane; the lower has no meaning. */
INLINE words bfloat16_above(floats v)
{
    words bits = (words)v;
    return select_words(v != v, bits | 0x400000u, bits + 0x7fffu + (bits >> 16 & 1u));
}

/* Both of two vectors. An instruction for this takes subnormal numbers for 0: vectors that have any go the other way. */
INLINE whole_halves two_bfloat16(floats v, floats w)
{
#if defined(__AVX512BF16__)
    enum { SUBNORMAL = 0x20 };
    if (__builtin_expect(!(_mm512_fpclass_ps_mask((__m512)v, SUBNORMAL) | _mm512_fpclass_ps_mask((__m512)w, SUBNORMAL)), 1))
        return (whole_halves)_mm512_cvtne2ps_pbh((__m512)w, (__m512)v);
#endif
    return UPPER_HALVES((whole_halves)bfloat16_above(v), (whole_halves)bfloat16_above(w));
}

/* In the lower half, with zeros above it. */
INLINE words float16_bits(floats v)
{
    words all = (words)v, sign = all >> 16 & 0x8000u, bits = all & 0x7fffffffu;
    words normal = (bits - 0x38000000u + 0xfffu + (bits >> 13 & 1u)) >> 13;
    words small = (words)((floats)bits + 0.5f) - 0x3f000000u;
    words result = select_words((ints)(bits < 0x38800000u), small, normal);
    result = select_words((ints)(bits >= 0x477ff000u), (words){0} + 0x7c00u, result);
    return sign | select_words((ints)(bits > 0x7f800000u), 0x7e00u | (bits >> 13 & 0x3ffu), result);
}

INLINE floats float16_floats(words half)
{
    words low = half & 0x7fffu, sign = (half & 0x8000u) << 16;
    words finite = (words)((floats)(low << 13) * 0x1p112f), special = low << 13 | 0x7f800000u;
    return (floats)(sign | select_words((ints)(low >= 0x7c00u), special, finite));
}

#endif
