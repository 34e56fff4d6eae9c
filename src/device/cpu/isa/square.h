/* SPDX-License-Identifier: Apache-2.0
 *
 * Squares of vectors: square_of_floats(v) and square_of_doubles(v) turn rows of v[lanes] to columns. Where the instruction set
 * has them that is done by shuffles that are better than those the compiler finds. TOTALS(v) is one vector of the sums of each
 * one's lanes; not defined where the compiler does as well. */
#ifndef SAMBA_CPU_SQUARE_H
#define SAMBA_CPU_SQUARE_H

#include "device/cpu/isa/lanes.h"
#include "device/cpu/isa/shuffle.h"

/* In log2 steps: at step s, vectors i and i+s exchange lanes. */
#define SQUARE_OF(VECTOR, INDICES)                                                                                               \
    INLINE void square_of_##VECTOR(VECTOR *v)                                                                                    \
    {                                                                                                                            \
        enum { LANES_ = sizeof *v / sizeof v[0][0] };                                                                            \
        UNROLL for (int s = 1; s < LANES_; s *= 2) {                                                                             \
            INDICES low, high;                                                                                                   \
            UNROLL for (int i = 0; i < LANES_; i++) {                                                                            \
                low[i] = i & s ? LANES_ + i - s : i;                                                                             \
                high[i] = i & s ? LANES_ + i : i + s;                                                                            \
            }                                                                                                                    \
            UNROLL for (int i = 0; i < LANES_; i++)                                                                              \
                if (!(i & s)) {                                                                                                  \
                    VECTOR x = v[i], y = v[i + s];                                                                               \
                    v[i] = SHUFFLE2(x, y, low);                                                                                  \
                    v[i + s] = SHUFFLE2(x, y, high);                                                                             \
                }                                                                                                                \
        }                                                                                                                        \
    }

#if defined(__AVX512F__)
/* 16 x 16 by shuffles within 128 bits, then of 128 bits:
 * each takes one instruction, where choosing from two vectors takes two. */
INLINE void square_of_floats(floats *v)
{
    __m512 *r = (__m512 *)v, t[16];
    UNROLL for (int i = 0; i < 16; i += 2) {
        t[i] = _mm512_unpacklo_ps(r[i], r[i + 1]);
        t[i + 1] = _mm512_unpackhi_ps(r[i], r[i + 1]);
    }
    UNROLL for (int i = 0; i < 16; i += 4) { /* r[i + c]: columns c, c + 4, c + 8, c + 12 of rows i to i + 3 */
        r[i] = (__m512)_mm512_unpacklo_pd((__m512d)t[i], (__m512d)t[i + 2]);
        r[i + 1] = (__m512)_mm512_unpackhi_pd((__m512d)t[i], (__m512d)t[i + 2]);
        r[i + 2] = (__m512)_mm512_unpacklo_pd((__m512d)t[i + 1], (__m512d)t[i + 3]);
        r[i + 3] = (__m512)_mm512_unpackhi_pd((__m512d)t[i + 1], (__m512d)t[i + 3]);
    }
    UNROLL for (int c = 0; c < 4; c++) {
        t[c] = _mm512_shuffle_f32x4(r[c], r[c + 4], 0x88); /* columns c and c + 8 of rows 0 to 7 */
        t[c + 4] = _mm512_shuffle_f32x4(r[c], r[c + 4], 0xdd);
        t[c + 8] = _mm512_shuffle_f32x4(r[c + 8], r[c + 12], 0x88);
        t[c + 12] = _mm512_shuffle_f32x4(r[c + 8], r[c + 12], 0xdd);
    }
    UNROLL for (int c = 0; c < 4; c++) {
        r[c] = _mm512_shuffle_f32x4(t[c], t[c + 8], 0x88);
        r[c + 8] = _mm512_shuffle_f32x4(t[c], t[c + 8], 0xdd);
        r[c + 4] = _mm512_shuffle_f32x4(t[c + 4], t[c + 12], 0x88);
        r[c + 12] = _mm512_shuffle_f32x4(t[c + 4], t[c + 12], 0xdd);
    }
}

/* Within 128 bits first: one instruction a shuffle. */
INLINE floats totals_of_floats(floats *v)
{
    __m512 *r = (__m512 *)v, t[8];
    UNROLL for (int i = 0; i < 8; i++)
        t[i] = _mm512_add_ps(_mm512_unpacklo_ps(r[2 * i], r[2 * i + 1]), _mm512_unpackhi_ps(r[2 * i], r[2 * i + 1]));
    UNROLL for (int i = 0; i < 4; i++)
        t[i] = _mm512_add_ps((__m512)_mm512_unpacklo_pd((__m512d)t[2 * i], (__m512d)t[2 * i + 1]),
                             (__m512)_mm512_unpackhi_pd((__m512d)t[2 * i], (__m512d)t[2 * i + 1]));
    for (int count = 2; count > 0; count--) {
        UNROLL for (int i = 0; i < count; i++)
            t[i] = _mm512_add_ps(_mm512_shuffle_f32x4(t[2 * i], t[2 * i + 1], 0x88),
                                 _mm512_shuffle_f32x4(t[2 * i], t[2 * i + 1], 0xdd));
    }
    return (floats)t[0];
}
#define TOTALS totals_of_floats
#elif defined(__AVX2__)
INLINE void square_of_floats(floats *v)
{
    __m256 *r = (__m256 *)v, t[8];
    UNROLL for (int i = 0; i < 8; i += 2) {
        t[i] = _mm256_unpacklo_ps(r[i], r[i + 1]);
        t[i + 1] = _mm256_unpackhi_ps(r[i], r[i + 1]);
    }
    UNROLL for (int i = 0; i < 8; i += 4) { /* r[i + c]: columns c and c + 4 of rows i to i + 3 */
        r[i] = (__m256)_mm256_unpacklo_pd((__m256d)t[i], (__m256d)t[i + 2]);
        r[i + 1] = (__m256)_mm256_unpackhi_pd((__m256d)t[i], (__m256d)t[i + 2]);
        r[i + 2] = (__m256)_mm256_unpacklo_pd((__m256d)t[i + 1], (__m256d)t[i + 3]);
        r[i + 3] = (__m256)_mm256_unpackhi_pd((__m256d)t[i + 1], (__m256d)t[i + 3]);
    }
    UNROLL for (int c = 0; c < 4; c++) {
        __m256 low = r[c], high = r[c + 4];
        r[c] = _mm256_permute2f128_ps(low, high, 0x20);
        r[c + 4] = _mm256_permute2f128_ps(low, high, 0x31);
    }
}
#elif defined(SAMBA_NEON)
INLINE void square_of_floats(floats *v)
{
    float32x4_t *r = (float32x4_t *)v, t[4];
    UNROLL for (int i = 0; i < 4; i += 2) { /* t[i + c]: columns c and c + 2 of rows i and i + 1 */
        t[i] = vtrn1q_f32(r[i], r[i + 1]);
        t[i + 1] = vtrn2q_f32(r[i], r[i + 1]);
    }
    UNROLL for (int c = 0; c < 2; c++) {
        r[c] = (float32x4_t)vtrn1q_f64((float64x2_t)t[c], (float64x2_t)t[c + 2]);
        r[c + 2] = (float32x4_t)vtrn2q_f64((float64x2_t)t[c], (float64x2_t)t[c + 2]);
    }
}

INLINE floats totals_of_floats(floats *v)
{
    float32x4_t *r = (float32x4_t *)v;
    return (floats)vpaddq_f32(vpaddq_f32(r[0], r[1]), vpaddq_f32(r[2], r[3]));
}
#define TOTALS totals_of_floats
#else
SQUARE_OF(floats, ints)
#endif
SQUARE_OF(doubles, longs)

#endif
