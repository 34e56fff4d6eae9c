/* SPDX-License-Identifier: Apache-2.0
 *
 * Loads and sums of some lanes of a vector of floats, named by a bit each or by how many they are, and shuffles of two vectors
 * side by side. For sources that are compiled once for each ISA. */
#ifndef SAMBA_CPU_SOME_LANES_H
#define SAMBA_CPU_SOME_LANES_H

#include "device/cpu/isa/lanes.h"

enum { FLOAT_LANES = VECTOR_BYTES / 4 };

/* a and b side by side: their even elements, their odd ones;
 * one of a and one of b by turns, from the lower half and the upper one. */
#if VECTOR_BYTES == 64
#define EVEN_LANES(a, b) __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30)
#define ODD_LANES(a, b) __builtin_shufflevector(a, b, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31)
#define LOW_LANES(a, b) __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23)
#define HIGH_LANES(a, b) __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31)
#elif VECTOR_BYTES == 32
#define EVEN_LANES(a, b) __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14)
#define ODD_LANES(a, b) __builtin_shufflevector(a, b, 1, 3, 5, 7, 9, 11, 13, 15)
#define LOW_LANES(a, b) __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11)
#define HIGH_LANES(a, b) __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15)
#else
#define EVEN_LANES(a, b) __builtin_shufflevector(a, b, 0, 2, 4, 6)
#define ODD_LANES(a, b) __builtin_shufflevector(a, b, 1, 3, 5, 7)
#define LOW_LANES(a, b) __builtin_shufflevector(a, b, 0, 4, 1, 5)
#define HIGH_LANES(a, b) __builtin_shufflevector(a, b, 2, 6, 3, 7)
#endif

enum { ALL_LANES = (1 << FLOAT_LANES) - 1 };

#if !defined(__AVX512F__) && !defined(SAMBA_NEON)
/* -1 in the lanes named, 0 in the others. */
INLINE ints mask_of(uint32_t lanes)
{
#if VECTOR_BYTES == 32
    const ints bits = {1, 2, 4, 8, 16, 32, 64, 128};
#else
    const ints bits = {1, 2, 4, 8};
#endif
    return (((int32_t)lanes - (ints){0}) & bits) == bits;
}
#endif

/* p's elements in the lanes named, 0 in the others, whose memory is not touched */
INLINE floats load_lanes(const float *p, uint32_t lanes)
{
#if defined(__AVX512F__)
    return (floats)_mm512_maskz_loadu_ps((__mmask16)lanes, p);
#elif defined(__AVX2__)
    return (floats)_mm256_maskload_ps(p, (__m256i)mask_of(lanes));
#elif defined(SAMBA_NEON)
    float32x4_t v = vdupq_n_f32(0);
    if (lanes == ALL_LANES)
        return (floats)vld1q_f32(p);
    v = lanes & 1 ? vld1q_lane_f32(p, v, 0) : v;
    v = lanes & 2 ? vld1q_lane_f32(p + 1, v, 1) : v;
    v = lanes & 4 ? vld1q_lane_f32(p + 2, v, 2) : v;
    return (floats)(lanes & 8 ? vld1q_lane_f32(p + 3, v, 3) : v);
#else
    floats v = {0};
    for (int i = 0; i < FLOAT_LANES; i++)
        if (lanes >> i & 1)
            v[i] = p[i];
    return v;
#endif
}

/* sum, and w * v added in the lanes named */
INLINE floats add_product(floats sum, float w, floats v, uint32_t lanes)
{
#if defined(__AVX512F__)
    return (floats)_mm512_mask3_fmadd_ps(_mm512_set1_ps(w), (__m512)v, (__m512)sum, (__mmask16)lanes);
#elif defined(SAMBA_NEON)
    static const uint32_t bits[4] = {1, 2, 4, 8};
    float32x4_t more = vfmaq_n_f32((float32x4_t)sum, (float32x4_t)v, w);
    if (lanes == ALL_LANES)
        return (floats)more;
    return (floats)vbslq_f32(vtstq_u32(vdupq_n_u32(lanes), vld1q_u32(bits)), more, (float32x4_t)sum);
#else
    floats more = sum + (w - (floats){0}) * v;
    if (lanes == ALL_LANES)
        return more;
    ints mask = mask_of(lanes);
    return (floats)(((ints)more & mask) | ((ints)sum & ~mask));
#endif
}

/* Every second element: lane i at p + 2i. */
INLINE floats load_second_lanes(const float *p, uint32_t lanes)
{
#if defined(__AVX512F__)
    const __m512i even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    uint32_t apart = lanes; /* a bit for each element that lies between the first and the last */
    apart = (apart | apart << 8) & 0x00ff00ff;
    apart = (apart | apart << 4) & 0x0f0f0f0f;
    apart = (apart | apart << 2) & 0x33333333;
    apart = (apart | apart << 1) & 0x55555555;
    __m512 low = _mm512_maskz_loadu_ps((__mmask16)apart, p), high = _mm512_maskz_loadu_ps((__mmask16)(apart >> 16), p + 16);
    return (floats)_mm512_permutex2var_ps(low, even, high);
#elif defined(SAMBA_NEON)
    float32x4_t v = vdupq_n_f32(0);
    if (lanes == ALL_LANES) { /* 0 1 2 3 and 3 4 5 6: nothing beyond the last */
        float32x4_t high = vld1q_f32(p + 3);
        return (floats)vuzp1q_f32(vld1q_f32(p), vextq_f32(high, high, 1));
    }
    v = lanes & 1 ? vld1q_lane_f32(p, v, 0) : v;
    v = lanes & 2 ? vld1q_lane_f32(p + 2, v, 1) : v;
    v = lanes & 4 ? vld1q_lane_f32(p + 4, v, 2) : v;
    return (floats)(lanes & 8 ? vld1q_lane_f32(p + 6, v, 3) : v);
#else
#if defined(__AVX2__)
    if (lanes == ALL_LANES) { /* 0 .. 7 and 7 .. 14: nothing beyond the last */
        __m256 low = _mm256_loadu_ps(p), high = _mm256_loadu_ps(p + 7);
        __m256d both = (__m256d)_mm256_shuffle_ps(low, high, _MM_SHUFFLE(3, 1, 2, 0)); /* 0 2 8 10, 4 6 12 14 */
        return (floats)_mm256_permute4x64_pd(both, _MM_SHUFFLE(3, 1, 2, 0));
    }
#endif
    floats v = {0};
    for (int i = 0; i < FLOAT_LANES; i++)
        if (lanes >> i & 1)
            v[i] = p[2 * i];
    return v;
#endif
}

/* Lane i at p + i * step, the first n of them; 0 beyond. */
INLINE floats load_apart(const float *p, int64_t step, int64_t n)
{
    floats v = {0};
#if defined(__AVX512F__)
    if (step <= INT32_MAX / FLOAT_LANES && step >= -(INT32_MAX / FLOAT_LANES)) {
        const __m512i count = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
        return (floats)_mm512_mask_i32gather_ps((__m512)v, span_of_f32(n),
                                                _mm512_mullo_epi32(count, _mm512_set1_epi32((int)step)), p, 4);
    }
#endif
#if defined(SAMBA_NEON)
    float32x4_t all = (float32x4_t)v;
    all = n > 0 ? vld1q_lane_f32(p, all, 0) : all;
    all = n > 1 ? vld1q_lane_f32(p + step, all, 1) : all;
    all = n > 2 ? vld1q_lane_f32(p + 2 * step, all, 2) : all;
    return (floats)(n > 3 ? vld1q_lane_f32(p + 3 * step, all, 3) : all);
#else
    for (int64_t i = 0; i < n && i < FLOAT_LANES; i++)
        v[i] = p[i * step];
    return v;
#endif
}

/* 0 in all lanes but the first n. */
INLINE floats first_of(floats v, int64_t n)
{
#if defined(__AVX512F__)
    return (floats)_mm512_maskz_mov_ps(span_of_f32(n), (__m512)v);
#elif defined(SAMBA_NEON)
    static const int32_t numbers[4] = {0, 1, 2, 3};
    int32_t count = n < 0 ? 0 : n < FLOAT_LANES ? (int32_t)n : FLOAT_LANES;
    return (floats)((ints)v & (ints)vcltq_s32(vld1q_s32(numbers), vdupq_n_s32(count)));
#else
    for (int64_t i = n < 0 ? 0 : n; i < FLOAT_LANES; i++)
        v[i] = 0;
    return v;
#endif
}

#endif
