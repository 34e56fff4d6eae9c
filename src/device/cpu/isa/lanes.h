/* SPDX-License-Identifier: Apache-2.0
 *
 * Vectors of the instruction set at hand: types, loads and stores of a part of a vector, choosing lane by lane. For sources that
 * are compiled once for each ISA and are not left to the compiler's vectorizer. */
#ifndef SAMBA_CPU_LANES_H
#define SAMBA_CPU_LANES_H

#include <stdint.h>

#if defined(__AVX2__)
#include <immintrin.h>
#elif defined(SAMBA_NEON)
#include <arm_neon.h>
#endif

/* What the compiler was told of the instruction set:
 * a vector's bytes, how many a core holds, and whether a multiply-add is one instruction. */
#if defined(__AVX512F__)
#define VECTOR_BYTES 64
#define VECTOR_REGISTERS 32
#elif defined(__AVX2__)
#define VECTOR_BYTES 32
#define VECTOR_REGISTERS 16
#elif defined(SAMBA_NEON)
#define VECTOR_BYTES 16
#define VECTOR_REGISTERS 32
#else
#define VECTOR_BYTES 16
#define VECTOR_REGISTERS 16
#endif
#if defined(__FMA__) || defined(__FP_FAST_FMAF)
#define VECTOR_FUSED 1
#else
#define VECTOR_FUSED 0
#endif
#if defined(__AVX512F__)
#define VECTOR_MASKED 1 /* a part of a vector costs what a whole one does */
#else
#define VECTOR_MASKED 0
#endif

/* Loops over registers. Clang unrolls by a count only after it has given arrays their memory: sums would lie there. */
#if defined(__clang__)
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 32")
#endif
#define INLINE static inline __attribute__((always_inline))

typedef float floats __attribute__((vector_size(VECTOR_BYTES)));
typedef double doubles __attribute__((vector_size(VECTOR_BYTES)));
typedef int32_t ints __attribute__((vector_size(VECTOR_BYTES)));
typedef int64_t longs __attribute__((vector_size(VECTOR_BYTES)));

/* a b + c, rounded once where the CPU has that: said, not left to the compiler, whose mind differs from one loop to the next */
#if defined(__AVX512F__)
INLINE floats fused_floats(floats a, floats b, floats c) { return (floats)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c); }
#elif defined(__FMA__)
INLINE floats fused_floats(floats a, floats b, floats c) { return (floats)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c); }
#elif defined(SAMBA_NEON)
INLINE floats fused_floats(floats a, floats b, floats c)
{
    return (floats)vfmaq_f32((float32x4_t)c, (float32x4_t)a, (float32x4_t)b);
}
#else
INLINE floats fused_floats(floats a, floats b, floats c) { return a * b + c; }
#endif

/* Half as many floats as a vector holds, as doubles. GCC 12 converts them in halves of their own. */
typedef float half_floats __attribute__((vector_size(VECTOR_BYTES / 2)));
#if defined(__AVX512F__)
INLINE doubles doubles_of_floats(half_floats x) { return (doubles)_mm512_cvtps_pd((__m256)x); }
#else
INLINE doubles doubles_of_floats(half_floats x) { return __builtin_convertvector(x, doubles); }
#endif

/* sum + x, but where x is not a number */
#if defined(__AVX512F__)
INLINE doubles add_number_doubles(doubles sum, doubles x)
{
    __mmask8 numbers = _mm512_cmp_pd_mask((__m512d)x, (__m512d)x, _CMP_ORD_Q);
    return (doubles)_mm512_mask_add_pd((__m512d)sum, numbers, (__m512d)sum, (__m512d)x);
}
#else
INLINE doubles add_number_doubles(doubles sum, doubles x) { return sum + (doubles)((longs)x & (x == x)); }
#endif

/* The lesser and the greater of each two: a NaN wins, and of equal ones, zeros of two signs, the second. The instructions of x86
 * give the second where either is a NaN. */
#if defined(__AVX512F__)
#define BOUND_FLOATS(name, instruction, sign)                                                                                    \
    INLINE floats name(floats x, floats y)                                                                                       \
    {                                                                                                                            \
        __m512 a = (__m512)x;                                                                                                    \
        return (floats)_mm512_mask_mov_ps(_mm512_##instruction(a, (__m512)y), _mm512_cmp_ps_mask(a, a, _CMP_UNORD_Q), a);        \
    }
#elif defined(__AVX2__)
#define BOUND_FLOATS(name, instruction, sign)                                                                                    \
    INLINE floats name(floats x, floats y)                                                                                       \
    {                                                                                                                            \
        __m256 a = (__m256)x;                                                                                                    \
        return (floats)_mm256_blendv_ps(_mm256_##instruction(a, (__m256)y), a, _mm256_cmp_ps(a, a, _CMP_UNORD_Q));               \
    }
#else
#define BOUND_FLOATS(name, instruction, sign)                                                                                    \
    INLINE floats name(floats x, floats y)                                                                                       \
    {                                                                                                                            \
        ints mask = (x sign y) | (x != x);                                                                                       \
        return (floats)(((ints)x & mask) | ((ints)y & ~mask));                                                                   \
    }
#endif
BOUND_FLOATS(lesser_floats, min_ps, <)
BOUND_FLOATS(greater_floats, max_ps, >)

/* sum + a b, in the register of the sum. Left to itself GCC adds some products in the register of a factor. Where sums take
 * nearly all registers, one of them then goes to the stack and back in each turn of a loop: with AVX2 8 % of a product's time. */
#if defined(__FMA__)
INLINE floats fused_in_place(floats sum, floats a, floats b)
{
    __asm__("vfmadd231ps %2, %1, %0" : "+v"(sum) : "v"(a), "v"(b));
    return sum;
}
#else
INLINE floats fused_in_place(floats sum, floats a, floats b) { return fused_floats(a, b, sum); }
#endif

/* A float that many vectors are multiplied by, one after the other: in all lanes, or where a product takes it from one lane, in
 * that one alone, which is loaded from any address. */
#if defined(SAMBA_NEON)
typedef float spread_float;
INLINE spread_float spread_of(float x) { return x; }
INLINE floats fused_spread(floats sum, spread_float a, floats b)
{
    __asm__("fmla %0.4s, %1.4s, %2.s[0]" : "+w"(sum) : "w"(b), "w"(a)); /* in place, as above */
    return sum;
}
#else
typedef floats spread_float;
INLINE spread_float spread_of(float x) { return x - (floats){0}; } /* minus 0 keeps -0 */
INLINE floats fused_spread(floats sum, spread_float a, floats b) { return fused_in_place(sum, a, b); }
#endif

/* The first n lanes, 1 <= n <= all; the others are 0 and their memory is not touched. */
#if defined(__AVX512F__)
INLINE floats load_part_f32(const float *p, int n) { return (floats)_mm512_maskz_loadu_ps((__mmask16)((1u << n) - 1), p); }
INLINE void store_part_f32(float *p, int n, floats v) { _mm512_mask_storeu_ps(p, (__mmask16)((1u << n) - 1), (__m512)v); }
INLINE doubles load_part_f64(const double *p, int n) { return (doubles)_mm512_maskz_loadu_pd((__mmask8)((1u << n) - 1), p); }
INLINE void store_part_f64(double *p, int n, doubles v) { _mm512_mask_storeu_pd(p, (__mmask8)((1u << n) - 1), (__m512d)v); }
#elif defined(__AVX2__)
static const int32_t lanes_on[16] = {-1, -1, -1, -1, -1, -1, -1, -1};
INLINE __m256i first_lanes(int n) { return _mm256_loadu_si256((const __m256i *)(lanes_on + 8 - n)); }
INLINE floats load_part_f32(const float *p, int n) { return (floats)_mm256_maskload_ps(p, first_lanes(n)); }
INLINE void store_part_f32(float *p, int n, floats v) { _mm256_maskstore_ps(p, first_lanes(n), (__m256)v); }
INLINE doubles load_part_f64(const double *p, int n) { return (doubles)_mm256_maskload_pd(p, first_lanes(2 * n)); }
INLINE void store_part_f64(double *p, int n, doubles v) { _mm256_maskstore_pd(p, first_lanes(2 * n), (__m256d)v); }
INLINE longs load_part_i64(const int64_t *p, int n)
{
    return (longs)_mm256_maskload_epi64((const long long *)p, first_lanes(2 * n));
}
INLINE void store_part_i64(int64_t *p, int n, longs v) { _mm256_maskstore_epi64((long long *)p, first_lanes(2 * n), (__m256i)v); }
#elif defined(SAMBA_NEON)
INLINE floats load_part_f32(const float *p, int n)
{
    float32x2_t low = n > 1 ? vld1_f32(p) : vld1_lane_f32(p, vdup_n_f32(0), 0);
    float32x2_t high = n > 3 ? vld1_f32(p + 2) : n > 2 ? vld1_lane_f32(p + 2, vdup_n_f32(0), 0) : vdup_n_f32(0);
    return (floats)vcombine_f32(low, high);
}
INLINE void store_part_f32(float *p, int n, floats v)
{
    float32x4_t all = (float32x4_t)v;
    if (n > 3) {
        vst1q_f32(p, all);
    } else if (n > 1) {
        vst1_f32(p, vget_low_f32(all));
        if (n > 2)
            vst1q_lane_f32(p + 2, all, 2);
    } else {
        vst1q_lane_f32(p, all, 0);
    }
}
INLINE doubles load_part_f64(const double *p, int n)
{
    return (doubles)(n > 1 ? vld1q_f64(p) : vcombine_f64(vld1_f64(p), vdup_n_f64(0)));
}
INLINE void store_part_f64(double *p, int n, doubles v)
{
    if (n > 1)
        vst1q_f64(p, (float64x2_t)v);
    else
        vst1_f64(p, vget_low_f64((float64x2_t)v));
}
INLINE longs load_part_i64(const int64_t *p, int n) { return (longs)load_part_f64((const double *)p, n); }
INLINE void store_part_i64(int64_t *p, int n, longs v) { store_part_f64((double *)p, n, (doubles)v); }
#else
INLINE floats load_part_f32(const float *p, int n)
{
    floats v = {0};
    for (int i = 0; i < n; i++)
        v[i] = p[i];
    return v;
}
INLINE void store_part_f32(float *p, int n, floats v)
{
    for (int i = 0; i < n; i++)
        p[i] = v[i];
}
INLINE doubles load_part_f64(const double *p, int n)
{
    doubles v = {0};
    for (int i = 0; i < n; i++)
        v[i] = p[i];
    return v;
}
INLINE void store_part_f64(double *p, int n, doubles v)
{
    for (int i = 0; i < n; i++)
        p[i] = v[i];
}
INLINE longs load_part_i64(const int64_t *p, int n)
{
    longs v = {0};
    for (int i = 0; i < n; i++)
        v[i] = p[i];
    return v;
}
INLINE void store_part_i64(int64_t *p, int n, longs v)
{
    for (int i = 0; i < n; i++)
        p[i] = v[i];
}
#endif

/* The first n lanes for any n, worked out once for many rows: none where n <= 0, whole vectors from all on. */
#if defined(__AVX512F__)
typedef __mmask16 span_f32;
typedef __mmask8 span_f64, span_i64;
INLINE span_f32 span_of_f32(int64_t n) { return (span_f32)(n >= 16 ? 0xffff : n > 0 ? (1 << n) - 1 : 0); }
INLINE span_f64 span_of_f64(int64_t n) { return (span_f64)(n >= 8 ? 0xff : n > 0 ? (1 << n) - 1 : 0); }
INLINE span_i64 span_of_i64(int64_t n) { return span_of_f64(n); }
INLINE floats load_span_f32(const float *p, span_f32 span) { return (floats)_mm512_maskz_loadu_ps(span, p); }
INLINE doubles load_span_f64(const double *p, span_f64 span) { return (doubles)_mm512_maskz_loadu_pd(span, p); }
INLINE void store_span_f32(float *p, span_f32 span, floats v)
{
    if (span)
        _mm512_mask_storeu_ps(p, span, (__m512)v);
}
INLINE void store_span_f64(double *p, span_f64 span, doubles v)
{
    if (span)
        _mm512_mask_storeu_pd(p, span, (__m512d)v);
}
INLINE longs load_span_i64(const int64_t *p, span_i64 span) { return (longs)_mm512_maskz_loadu_epi64(span, p); }
INLINE void store_span_i64(int64_t *p, span_i64 span, longs v)
{
    if (span)
        _mm512_mask_storeu_epi64(p, span, (__m512i)v);
}
#else
typedef int64_t span_f32, span_f64, span_i64;
INLINE span_f32 span_of_f32(int64_t n) { return n; }
INLINE span_f64 span_of_f64(int64_t n) { return n; }
INLINE span_i64 span_of_i64(int64_t n) { return n; }
#define SPAN(x, T, VECTOR)                                                                                                       \
    INLINE VECTOR load_span_##x(const T *p, int64_t n)                                                                           \
    {                                                                                                                            \
        VECTOR v = {0};                                                                                                          \
        if (n >= (int64_t)(sizeof v / sizeof *p))                                                                                \
            __builtin_memcpy(&v, p, sizeof v);                                                                                   \
        else if (n > 0)                                                                                                          \
            v = load_part_##x(p, (int)n);                                                                                        \
        return v;                                                                                                                \
    }                                                                                                                            \
    INLINE void store_span_##x(T *p, int64_t n, VECTOR v)                                                                        \
    {                                                                                                                            \
        if (n >= (int64_t)(sizeof v / sizeof *p))                                                                                \
            __builtin_memcpy(p, &v, sizeof v);                                                                                   \
        else if (n > 0)                                                                                                          \
            store_part_##x(p, (int)n, v);                                                                                        \
    }
SPAN(f32, float, floats)
SPAN(f64, double, doubles)
SPAN(i64, int64_t, longs)
#undef SPAN
#endif

/* if_y where y beats x, if_x elsewhere: y is greater or NaN. */
#if defined(__AVX512F__)
INLINE floats beaten_f32(floats x, floats y, floats if_x, floats if_y)
{
    __mmask16 m = _mm512_cmp_ps_mask((__m512)y, (__m512)x, _CMP_GT_OQ) | _mm512_cmp_ps_mask((__m512)y, (__m512)y, _CMP_UNORD_Q);
    return (floats)_mm512_mask_blend_ps(m, (__m512)if_x, (__m512)if_y);
}
INLINE doubles beaten_f64(doubles x, doubles y, doubles if_x, doubles if_y)
{
    __mmask8 greater = _mm512_cmp_pd_mask((__m512d)y, (__m512d)x, _CMP_GT_OQ);
    __mmask8 m = greater | _mm512_cmp_pd_mask((__m512d)y, (__m512d)y, _CMP_UNORD_Q);
    return (doubles)_mm512_mask_blend_pd(m, (__m512d)if_x, (__m512d)if_y);
}
INLINE longs beaten_i64(longs x, longs y, longs if_x, longs if_y)
{
    return (longs)_mm512_mask_blend_epi64(_mm512_cmpgt_epi64_mask((__m512i)y, (__m512i)x), (__m512i)if_x, (__m512i)if_y);
}
#else
INLINE floats beaten_f32(floats x, floats y, floats if_x, floats if_y)
{
    ints m = (y > x) | (y != y);
    return (floats)(((ints)if_y & m) | ((ints)if_x & ~m));
}
INLINE doubles beaten_f64(doubles x, doubles y, doubles if_x, doubles if_y)
{
    longs m = (y > x) | (y != y);
    return (doubles)(((longs)if_y & m) | ((longs)if_x & ~m));
}
INLINE longs beaten_i64(longs x, longs y, longs if_x, longs if_y)
{
    longs m = y > x;
    return (if_y & m) | (if_x & ~m);
}
#endif

#endif
