/* SPDX-License-Identifier: Apache-2.0
 *
 * exp, log, tanh, erf and the sigmoid of float32 without branches or calls, so that a loop over them becomes vector code on
 * every ISA. Over all floats errors stay below 1.06 units in the last place for exp, 0.96 for log, 2.7 for tanh and sigmoid, 3.2
 * for erf (test_ulp.c holds them to 4); NaN, infinities, signed zeros and subnormal numbers come out as in C. The polynomials are minimax fits of these
 * functions.
 *
 * double, and pow, sin and cos: on x86-64 glibc's libmvec (up to 4 units) through the SIMD prototypes below, elsewhere libm. */
#ifndef SAMBA_CPU_VECTOR_MATH_H
#define SAMBA_CPU_VECTOR_MATH_H

#include "kernels/cpu/vector_bits.h"
#include <math.h>

#if defined(__x86_64__) && defined(__GLIBC__)
#if __GLIBC_PREREQ(2, 35)
#pragma omp declare simd notinbranch
extern double exp(double);
#pragma omp declare simd notinbranch
extern double log(double);
#pragma omp declare simd notinbranch
extern double tanh(double);
#pragma omp declare simd notinbranch
extern double erf(double);
#pragma omp declare simd notinbranch
extern double log1p(double);
#pragma omp declare simd notinbranch
extern double expm1(double);
#pragma omp declare simd notinbranch
extern double sin(double);
#pragma omp declare simd notinbranch
extern double cos(double);
#pragma omp declare simd notinbranch
extern double exp2(double);
#pragma omp declare simd notinbranch
extern double log2(double);
#pragma omp declare simd notinbranch
extern double log10(double);
#pragma omp declare simd notinbranch
extern double tan(double);
#pragma omp declare simd notinbranch
extern double asin(double);
#pragma omp declare simd notinbranch
extern double acos(double);
#pragma omp declare simd notinbranch
extern double atan(double);
#pragma omp declare simd notinbranch
extern double sinh(double);
#pragma omp declare simd notinbranch
extern double cosh(double);
#pragma omp declare simd notinbranch
extern double asinh(double);
#pragma omp declare simd notinbranch
extern double acosh(double);
#pragma omp declare simd notinbranch
extern double atanh(double);
#pragma omp declare simd notinbranch
extern double erfc(double);
#pragma omp declare simd notinbranch
extern double atan2(double, double);
#pragma omp declare simd notinbranch
extern double hypot(double, double);
#pragma omp declare simd notinbranch
extern float sinf(float);
#pragma omp declare simd notinbranch
extern float cosf(float);
#pragma omp declare simd notinbranch
extern double pow(double, double);
#pragma omp declare simd notinbranch
extern float powf(float, float);
#endif
#endif

/* exp(r) - 1 - r, |r| <= ln2 / 2 */
static inline float exp_tail(float rest)
{
    float q = 1.38706563e-3f;
    q = q * rest + 8.36626161e-3f;
    q = q * rest + 4.16674353e-2f;
    q = q * rest + 1.66665465e-1f;
    q = q * rest + 4.9999997e-1f;
    return q * rest * rest;
}

/* x = k ln2 + r, |r| <= ln2 / 2; returns exp_tail(r) and r, whose sum is exp(r) - 1. k is exact in float as long as |x| < 2^21. The
 * first part of ln2 has 10 bits, so its product with k is exact. Adding 1.5 * 2^23 rounds to an integer, which then stands in
 * the low bits: shifted left by 23, as callers do, k + bias is an exponent. */
static inline float exp_reduced(float x, float bias, float *r, uint32_t *exponent)
{
    float magic = 12582912.0f + bias, shifted = x * 1.44269502f + magic, whole = shifted - magic;
    *exponent = bits_of(shifted) << 23;
    *r = (x - whole * 0.693359375f) + whole * 2.12194442e-4f;
    return exp_tail(*r);
}

/* 2^k is applied in two steps, as its exponent leaves float's range before the result does. */
static inline float vector_exp(float x)
{
    x = x > 89.0f ? 89.0f : x;
    x = x < -104.0f ? -104.0f : x;
    float r;
    uint32_t both; /* of two exponents */
    float p = exp_reduced(x, 254.0f, &r, &both) + r + 1.0f;
    uint32_t half = both >> 1 & 0xff800000u;
    return p * float_of(half) * float_of(both - half);
}

/* exp(x) for x <= 0: 2^(k + 64) cannot leave the range, and the last step brings it back. */
static inline float vector_exp_negative(float x)
{
    x = x < -104.0f ? -104.0f : x;
    float r;
    uint32_t exponent;
    float p = exp_reduced(x, 127.0f + 64.0f, &r, &exponent) + r + 1.0f;
    return p * float_of(exponent) * 0x1p-64f;
}

/* exp(x) - 1 where 2^k stays in range: |x| < 80 */
static inline float vector_expm1(float x)
{
    float r;
    uint32_t exponent;
    float p = exp_reduced(x, 127.0f, &r, &exponent) + r, scale = float_of(exponent);
    return scale * p + (scale - 1.0f);
}

/* tanh |x| = e / (e + 2) with e = exp(2|x|) - 1; 1 to the last bit from 9.02 on */
static inline float vector_tanh(float x)
{
    float t = fabsf(x);
    t = t > 9.1f ? 9.1f : t;
    float e = vector_expm1(2.0f * t);
    return copysignf(e / (e + 2.0f), x);
}

/* From exp(-|x|), which cannot overflow; small results keep their precision. */
static inline float vector_sigmoid(float x)
{
    float e = vector_exp_negative(-fabsf(x));
    return (x < 0.0f ? e : 1.0f) / (1.0f + e);
}

/* erf t = 1 - exp(-t P(t)) with P a fit of -log(erfc t) / t on [0, 4]; 1 to the last bit beyond. */
static inline float vector_erf(float x)
{
    float t = fabsf(x);
    t = t > 4.0f ? 4.0f : t;
    float p = 1.19331526e-6f;
    p = p * t - 2.13547573e-5f;
    p = p * t + 1.67481601e-4f;
    p = p * t - 7.40687246e-4f;
    p = p * t + 1.79935538e-3f;
    p = p * t - 2.53061997e-4f;
    p = p * t - 1.91176943e-2f;
    p = p * t + 1.02771275e-1f;
    p = p * t + 6.36619806e-1f;
    p = p * t + 1.12837923f;
    return copysignf(-vector_expm1(-t * p), x);
}

/* x = 2^e m, sqrt(1/2) <= m < sqrt(2), f = m - 1: e ln2 + log(1 + f). Subnormal numbers are scaled up first. */
static inline float vector_log(float x)
{
    float scaled = x < 1.17549435e-38f ? x * 8388608.0f : x;
    float shift = x < 1.17549435e-38f ? -23.0f : 0.0f;
    uint32_t offset = bits_of(scaled) - 0x3f3504f3u;
    float e = (float)((int32_t)offset >> 23) + shift;
    float f = float_of((offset & 0x7fffffu) + 0x3f3504f3u) - 1.0f;
    float q = -7.63442963e-2f;
    q = q * f + 1.27615497e-1f;
    q = q * f - 1.31601945e-1f;
    q = q * f + 1.42017618e-1f;
    q = q * f - 1.66233569e-1f;
    q = q * f + 2.00012267e-1f;
    q = q * f - 2.50008225e-1f;
    q = q * f + 3.33333313e-1f;
    float square = f * f, tail = (q * f - 0.5f) * square - e * 2.12194442e-4f;
    float special = x > 0.0f ? x : x == 0.0f ? -INFINITY : NAN;
    return x > 0.0f && x < INFINITY ? e * 0.693359375f + (f + tail) : special;
}

/* log(1 + x): what rounding 1 + x lost is given back by the ratio (Kahan). */
static inline float vector_log1p(float x)
{
    float u = 1.0f + x, moved = u - 1.0f;
    float result = vector_log(u) * (x / moved);
    result = moved == 0.0f ? x : result;
    return x < INFINITY ? result : x;
}

/* exp(x) - 1 for every x: below -80 it is -1, above 80 the 1 counts for nothing. */
static inline float vector_expm1_wide(float x)
{
    float near = x < -80.0f ? -80.0f : x > 80.0f ? 0.0f : x;
    float result = copysignf(vector_expm1(near), x);
    return x > 80.0f ? vector_exp(x) : result;
}

/* ---- sigmoid's and softplus's multiples (ops/activation.c) ---- */

static inline double vector_sigmoid64(double x)
{
    double e = exp(-fabs(x));
    return (x < 0 ? e : 1.0) / (1.0 + e);
}

/* x sigmoid(x). Where exp(x) is subnormal x exp(x) may not be: 2^-64 comes last. */
static inline float vector_silu(float x)
{
    float t = -fabsf(x), r;
    t = t < -112.0f ? -112.0f : t;
    uint32_t exponent;
    float p = exp_reduced(t, 127.0f + 64.0f, &r, &exponent) + r + 1.0f, e = p * float_of(exponent);
    float below = t * e / (1.0f + e * 0x1p-64f) * 0x1p-64f, above = x / (1.0f + e * 0x1p-64f);
    return x >= 0.0f ? above : x == -INFINITY ? NAN : x != x ? x : below;
}
static inline float vector_silu_slope(float x)
{
    float s = vector_sigmoid(x);
    return s * (1.0f + x * (1.0f - s));
}
static inline double vector_silu_slope64(double x)
{
    double s = vector_sigmoid64(x);
    return s * (1.0 + x * (1.0 - s));
}

/* x tanh(log(1 + n)) with n = e^x: w = n (n + 2) and w / (w + 2), which is 1 where n stops to grow. */
static inline float vector_mish(float x)
{
    float t = x > 30.0f ? 30.0f : x < -112.0f ? -112.0f : x, r;
    uint32_t exponent;
    float p = exp_reduced(t, 127.0f + 64.0f, &r, &exponent) + r + 1.0f, wide = p * float_of(exponent), n = wide * 0x1p-64f;
    float w = n * (n + 2.0f), below = t * (wide * (n + 2.0f) / (w + 2.0f)) * 0x1p-64f, above = x * (w / (w + 2.0f));
    return x >= 0.0f ? above : x == -INFINITY ? NAN : x != x ? x : below;
}
static inline float vector_mish_slope(float x)
{
    float n = vector_exp(x > 30.0f ? 30.0f : x), w = n * (n + 2.0f), over = 1.0f / (w + 2.0f);
    return w * over + x * (n / (1.0f + n)) * (4.0f * (w + 1.0f) * over * over);
}
static inline double vector_mish64(double x)
{
    double n = exp(x > 40.0 ? 40.0 : x), w = n * (n + 2.0);
    return x * (w / (w + 2.0));
}
static inline double vector_mish_slope64(double x)
{
    double n = exp(x > 40.0 ? 40.0 : x), w = n * (n + 2.0), over = 1.0 / (w + 2.0);
    return w * over + x * (n / (1.0 + n)) * (4.0 * (w + 1.0) * over * over);
}

/* In double no square of a float leaves the range. An infinity wins over a NaN. */
static inline float vector_hypot(float x, float y)
{
    double a = x, b = y;
    float root = (float)sqrt(a * a + b * b);
    return fabsf(x) == INFINITY || fabsf(y) == INFINITY ? INFINITY : root;
}

/* ---- gelu (ops/activation.c has the formulas) ---- */

static inline float vector_gelu(float x) { return x * (0.5f * (1.0f + vector_erf(x * 0.707106781f))); }

/* What rounding took from x y when it gave product. */
static inline float product_rest(float x, float y, float product)
{
#if defined(__FMA__) || defined(__FP_FAST_FMAF)
    return fmaf(x, y, -product);
#else
    return (float)((double)x * y - product);
#endif
}

/* 2^64 exp(-t^2 / 2), 0 <= t <= 15 */
static inline float vector_bell(float t)
{
    float square = t * t, rest = product_rest(t, t, square);
    float magic = 12582912.0f + 127.0f + 64.0f, shifted = square * -0.721347511f + magic, whole = shifted - magic;
    float r = (-0.5f * square - whole * 0.693359375f) + (whole * 2.12194442e-4f - 0.5f * rest);
    return (exp_tail(r) + r + 1.0f) * float_of(bits_of(shifted) << 23);
}

/* At -t it is exp(-t^2 / 2) (t0 - t) p(w) with w = 9 / (t + 4.5) - 1, at t 1 less that; p is fitted for t <= 14.8. One exponential instead
 * of two, and small results are as precise as others. An infinity meets a product with 0. */
static inline float vector_gelu_slope(float x)
{
    float t = fabsf(x);
    t = t > 14.8f ? 14.8f : t;
    float w = 9.0f / (t + 4.5f) - 1.0f;
    float p = -7.84449148e-05f;
    p = p * w - 7.99632471e-05f;
    p = p * w + 0.000811798265f;
    p = p * w + 0.00446449872f;
    p = p * w + 0.0139670195f;
    p = p * w + 0.0324811414f;
    p = p * w + 0.0609749369f;
    p = p * w + 0.0962025002f;
    p = p * w + 0.456334502f;
    float wide = vector_bell(t) * ((0.751791537f - t - 1.21144495e-08f) * p), low = wide * 0x1p-64f;
    return fabsf(x) == INFINITY ? NAN : x < 0.0f ? low : 1.0f - low;
}
static inline double vector_gelu_slope64(double x)
{
    return 0.5 * (1.0 + erf(x * M_SQRT1_2)) + x * exp(-0.5 * x * x) * (M_2_SQRTPI * M_SQRT1_2 / 2);
}

/* sqrt(2/pi) (x + c x^3). (1 + tanh y) / 2 is the sigmoid of 2y, which needs one exp and keeps small results precise. */
static inline double vector_bent64(double x) { return M_2_SQRTPI * M_SQRT1_2 * (x + 0.044715 * x * x * x); }
static inline float vector_twice_bent(float x) { return x * (1.59576912f + 0.0713548162f * x * x); }

static inline float vector_gelu_tanh(float x) { return x * vector_sigmoid(vector_twice_bent(x)); }

static inline float vector_gelu_tanh_slope(float x)
{
    float s = vector_sigmoid(vector_twice_bent(x)), inner = 1.59576912f + 0.214064449f * x * x;
    float bend = x * (s * (1.0f - s)); /* 0 long before inner overflows */
    return s + (bend == 0.0f ? 0.0f : bend * inner);
}
static inline double vector_gelu_tanh_slope64(double x)
{
    double t = tanh(vector_bent64(x));
    return 0.5 * (1.0 + t) + 0.5 * x * (1.0 - t * t) * (M_2_SQRTPI * M_SQRT1_2) * (1.0 + 3.0 * 0.044715 * x * x);
}

#endif
