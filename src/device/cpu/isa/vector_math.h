/* SPDX-License-Identifier: Apache-2.0
 *
 * exp, exp2, log, log1p, expm1, sinh, tanh and the sigmoid of float32 without branches or calls, so that a loop over them becomes
 * vector code on every ISA. docs/accuracy.md shows their errors over all floats (at most 4 units in the last place, test_ulp.c);
 * they never fall where the function rises; NaN, infinities, signed zeros and subnormal numbers come out as in C. The polynomials
 * are minimax fits, sinh's is Taylor's.
 *
 * Products that are to be contracted say so (fused), and the compiler contracts no others: a function gives the same bits
 * wherever it stands.
 *
 * double, and pow, sin and cos: on x86-64 glibc's libmvec (up to 4 units) through the SIMD prototypes below, elsewhere libm. */
#ifndef SAMBA_CPU_VECTOR_MATH_H
#define SAMBA_CPU_VECTOR_MATH_H

#include "device/cpu/isa/vector_bits.h"
#include <math.h>
#include <stdbool.h>

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

/* a b + c: rounded once where the CPU does that as fast as a product, else twice */
static inline float fused(float a, float b, float c)
{
#if defined(__FMA__) || defined(__FP_FAST_FMAF)
    return fmaf(a, b, c);
#else
    return a * b + c;
#endif
}

/* a b + c where c takes most of the product away: what is left has all its digits */
static inline float fused_rest(float a, float b, float c)
{
#if defined(__FMA__) || defined(__FP_FAST_FMAF)
    return fmaf(a, b, c);
#else
    return (float)((double)a * b + c);
#endif
}

/* exp(r) - 1, |r| <= ln2 / 2 */
static inline float exp_rise(float rest)
{
    float q = 1.38706563e-3f;
    q = fused(q, rest, 8.36626161e-3f);
    q = fused(q, rest, 4.16674353e-2f);
    q = fused(q, rest, 1.66665465e-1f);
    q = fused(q, rest, 4.9999997e-1f);
    return fused(q * rest, rest, rest);
}

/* x = k ln2 + r, |r| <= ln2 / 2; returns exp(r) - 1. k is exact in float as long as |x| < 2^21. The first part of ln2 has 10
 * bits, so its product with k is exact. Adding 1.5 * 2^23 rounds to an integer, which then stands in the low bits: shifted left
 * by 23 k + bias is an exponent. */
static inline float exp_reduced(float x, float bias, uint32_t *exponent)
{
    float magic = 12582912.0f + bias, shifted = fused(x, 1.44269502f, magic), whole = shifted - magic;
    *exponent = bits_of(shifted) << 23;
    return exp_rise(fused(whole, 2.12194442e-4f, fused(whole, -0.693359375f, x)));
}

/* p 2^k in two steps, as k's exponent leaves float's range before the result does. both: k + 254, an exponent of two */
static inline float times_power(float p, uint32_t both)
{
    uint32_t half = both >> 1 & 0xff800000u;
    return p * float_of(half) * float_of(both - half);
}

static inline float vector_exp(float x)
{
    x = chosen(x > 89.0f, 89.0f, x);
    x = chosen(x < -104.0f, -104.0f, x);
    uint32_t both;
    float p = exp_reduced(x, 254.0f, &both) + 1.0f;
    return times_power(p, both);
}

/* 2^64 exp(x), -112 <= x <= 43: results that are subnormal keep their digits until the last step. */
#define NARROW 0x1p-64f
static inline float wide_exp(float x)
{
    uint32_t exponent;
    float p = exp_reduced(x, 127.0f + 64.0f, &exponent) + 1.0f;
    return p * float_of(exponent);
}

/* exp(x) - 1: below -80 it is -1; above 80 the 1 counts for nothing */
static inline float vector_expm1(float x)
{
    float near = chosen(x < -80.0f, -80.0f, chosen(x > 80.0f, 0.0f, x));
    uint32_t exponent;
    float p = exp_reduced(near, 127.0f, &exponent), scale = float_of(exponent);
    float result = copysignf(fused(scale, p, scale - 1.0f), x);
    return x > 80.0f ? vector_exp(x) : result;
}

/* 1 / (1 + exp(-x)), a chain of steps that never fall, all by 2^-64 or 2^64 */
static inline float vector_sigmoid(float x)
{
    float t = -x;
    t = chosen(t > 105.0f, 105.0f, t);
    t = chosen(t < -40.0f, -40.0f, t);
    uint32_t exponent;
    float p = exp_reduced(t, 127.0f - 64.0f, &exponent) + 1.0f;
    return NARROW / (p * float_of(exponent) + NARROW);
}

/* 1 - 2 / (exp(2t) + 1), t = |x|, a chain of steps too; below 0.6 a polynomial keeps what this would lose. */
static inline float vector_tanh(float x)
{
    float t = fabsf(x), z = t * t, q = -0.00595366023f;
    t = chosen(t > 10.0f, 10.0f, t);
    q = fused(q, z, 0.0208495725f);
    q = fused(q, z, -0.0538010262f);
    q = fused(q, z, 0.133321479f);
    q = fused(q, z, -0.333333075f);
    uint32_t exponent;
    float p = exp_reduced(2.0f * t, 127.0f, &exponent) + 1.0f, e = p * float_of(exponent);
    float low = fused(q * z, t, t), high = 1.0f - 2.0f / (e + 1.0f);
    return copysignf(t < 0.6f ? low : high, x);
}

/* x - tanh(x): t^3 p(t^2), from t = |x| = 1.2 on t - 1 + 2 / (exp(2t) + 1). What the cube and p lose to rounding is given back:
 * it is more than what the function rises by from a float to the next. */
static inline float vector_tanhshrink(float x)
{
    float t = fabsf(x), z = t * t, q = 2.68350577e-05f, w = chosen(t > 15.0f, 15.0f, t);
    q = fused(q, z, -0.000240104026f);
    q = fused(q, z, 0.00106193917f);
    q = fused(q, z, -0.00330383144f);
    q = fused(q, z, 0.00873197615f);
    q = fused(q, z, -0.0218347702f);
    q = fused(q, z, 0.0539635494f);
    q = fused(q, z, -0.133333087f);
    uint32_t exponent;
    float p = exp_reduced(2.0f * w, 127.0f, &exponent) + 1.0f, e = p * float_of(exponent);
    float third = fused(q, z, 0.333333343f), third_rest = fused_rest(q, z, 0.333333343f - third) - 9.934108e-09f;
    float cube = t * z, cube_rest = fused(t, fused_rest(t, t, -z), fused_rest(t, z, -cube));
    float low = fused_rest(cube, third, fused(cube, third_rest, cube_rest * third)), high = (t - 1.0f) + 2.0f / (e + 1.0f);
    return copysignf(chosen(t < 1.2f, low, high), x);
}

/* 2^x: x = k + r, |r| <= 1/2, both exact */
static inline float vector_exp2(float x)
{
    x = chosen(x > 129.0f, 129.0f, x);
    x = chosen(x < -151.0f, -151.0f, x);
    float magic = 12582912.0f + 254.0f, shifted = x + magic, rest = (x - (shifted - magic)) * 0.693147182f;
    return times_power(exp_rise(rest) + 1.0f, bits_of(shifted) << 23);
}

/* (exp(x) - exp(-x)) / 2, t = |x|: from 1 on of e = exp(t) / 2, below a polynomial keeps what this would lose. */
static inline float vector_sinh(float x)
{
    float t = fabsf(x), z = t * t, q = 2.75573192e-06f;
    t = chosen(t > 91.0f, 91.0f, t);
    q = fused(q, z, 1.98412698e-04f);
    q = fused(q, z, 8.33333333e-03f);
    q = fused(q, z, 1.66666667e-01f);
    uint32_t both;
    float p = exp_reduced(t, 253.0f, &both) + 1.0f, e = times_power(p, both);
    float low = fused(q * z, t, t), high = e - 0.25f / e;
    return copysignf(t < 1.0f ? low : high, x);
}

/* ---- logarithms: of 2^e (1 + f), sqrt(1/2) <= 1 + f < sqrt(2) ---- */

typedef struct log_parts {
    float e, f, scale; /* 2^-e, of a number that is not subnormal */
} log_parts;

static inline log_parts log_split(float x)
{
    uint32_t offset = bits_of(x) - 0x3f3504f3u, power = offset & 0xff800000u;
    return (log_parts){.e = (float)((int32_t)offset >> 23),
                       .f = float_of(offset - power + 0x3f3504f3u) - 1.0f,
                       .scale = float_of(0x3f800000u - power)};
}

/* Subnormal numbers are scaled up first. */
static inline log_parts log_split_any(float x)
{
    bool small = x < 1.17549435e-38f;
    log_parts parts = log_split(small ? x * 8388608.0f : x);
    parts.e += small ? -23.0f : 0.0f;
    return parts;
}

/* log(1 + f) = f + f^2 bend */
static inline float log_bend(float f)
{
    float q = -7.63442963e-2f;
    q = fused(q, f, 1.27615497e-1f);
    q = fused(q, f, -1.31601945e-1f);
    q = fused(q, f, 1.42017618e-1f);
    q = fused(q, f, -1.66233569e-1f);
    q = fused(q, f, 2.00012267e-1f);
    q = fused(q, f, -2.50008225e-1f);
    q = fused(q, f, 3.33333313e-1f);
    return fused(q, f, -0.5f);
}

/* log(1 + f) + e ln2 */
static inline float log_sum(float f, float e)
{
    float tail = fused(log_bend(f), f * f, e * -2.12194442e-4f);
    return fused(e, 0.693359375f, f + tail);
}

static inline float log_or_special(float x, float y)
{
    float special = x > 0.0f ? x : x == 0.0f ? -INFINITY : NAN;
    return x > 0.0f && x < INFINITY ? y : special;
}

/* log(1 + f) v + e u, u and v of two parts, u's first of so few bits that its product with e is exact */
static inline float log_by(float x, float u, float u_rest, float v, float v_rest)
{
    log_parts parts = log_split_any(x);
    float f = parts.f, e = parts.e, main = f * v;
    float rest = fused(e, u_rest, fused(log_bend(f) * (f * f), v, fused(f, v_rest, fused_rest(f, v, -main))));
    return log_or_special(x, fused(e, u, main + rest));
}
static inline float vector_log2(float x) { return log_by(x, 1.0f, 0.0f, 1.44269502f, 1.92596303e-8f); }
static inline float vector_log10(float x) { return log_by(x, 0.30078125f, 2.48745664e-4f, 0.434294492f, -1.0103051e-8f); }

static inline float vector_log(float x)
{
    log_parts parts = log_split_any(x);
    return log_or_special(x, log_sum(parts.f, parts.e));
}

/* What rounding took from `sum`, 1 + x of x > -1. */
static inline float lost_of_sum(float x, float sum) { return x >= 1.0f ? 1.0f - (sum - x) : x - (sum - 1.0f); }

/* What rounding took from `quotient` = x / (by + lost), times by; lost: what it took from `by` before */
static inline float lost_of_quotient(float quotient, float x, float by, float lost)
{
    return fused_rest(-quotient, by, x) - quotient * lost;
}

/* log(1 + x + more) of x > -1 and a small rest; f is given back what rounding took from 1 + x, where it can tell. */
static inline float log1p_of(float x, float more)
{
    float sum = 1.0f + x, rest = lost_of_sum(x, sum) + more;
    log_parts parts = log_split(sum);
    return log_sum(chosen(x > 1e8f, parts.f, fused(rest, parts.scale, parts.f)), parts.e);
}
static inline float vector_log1p(float x)
{
    float special = x == INFINITY ? x : x == -1.0f ? -INFINITY : NAN;
    return x > -1.0f && x < INFINITY ? copysignf(log1p_of(x, 0.0f), x) : special;
}

/* log((1 + t) / (1 - t)) / 2, t = |x|: of 1 + 2t / (1 - t), a quotient that is given back what rounding took */
static inline float vector_atanh(float x)
{
    float t = fabsf(x), other = 1.0f - t, lost = (1.0f - other) - t, over = 1.0f / other, above = 2.0f * t * over;
    float rest = lost_of_quotient(above, 2.0f * t, other, lost);
    float special = t == 1.0f ? INFINITY : NAN;
    return copysignf(t < 1.0f ? 0.5f * log1p_of(above, rest * over) : special, x);
}

/* log(x / (1 - x)), in the same way */
static inline float vector_logit(float x)
{
    float other = 1.0f - x, lost = (1.0f - other) - x, over = 1.0f / other, odds = x * over;
    float rest = lost_of_quotient(odds, x, other, lost);
    log_parts parts = log_split_any(odds);
    float f = chosen(odds < 1.17549435e-38f, parts.f, fused(rest * over, parts.scale, parts.f));
    float special = x == 0.0f ? -INFINITY : x == 1.0f ? INFINITY : NAN;
    return x > 0.0f && x < 1.0f ? log_sum(f, parts.e) : special;
}

/* a b + c of doubles, rounded once where the CPU does that as fast as a product */
static inline double fused64(double a, double b, double c)
{
#if defined(__FMA__) || defined(__FP_FAST_FMA)
    return fma(a, b, c);
#else
    return a * b + c;
#endif
}

/* max(x, y) + log(1 + exp(-|x - y|)). The two terms may cancel: the second has 43 bits, of doubles by polynomials as long as that
 * takes. exp is as vector_exp; log(1 + e) = 2 atanh(e / (2 + e)). Equal ones, infinite ones among them, have no distance. */
static inline float vector_logaddexp(float x, float y)
{
    double t = x == y ? 0.0 : -fabs((double)x - (double)y);
    t = t < -700.0 ? -700.0 : t;
    double magic = 6755399441055744.0 + 1023.0, shifted = fused64(t, 1.4426950408889634, magic), whole = shifted - magic;
    double r = fused64(whole, -0.69314718055994531, t);
    double p = 2.7622044485358547e-06;
    p = fused64(p, r, 2.4867938037929139e-05);
    p = fused64(p, r, 0.00019841214309083486);
    p = fused64(p, r, 0.0013888838995000559);
    p = fused64(p, r, 0.0083333333513157873);
    p = fused64(p, r, 0.041666666786816867);
    p = fused64(p, r, 0.16666666666648836);
    p = fused64(p, r, 0.49999999999954431);
    double e = fused64(p * r, r, r + 1.0) * double_of(bits_of_double(shifted) << 52), s = e / (2.0 + e), z = s * s;
    double q = 0.093947472895610881;
    q = fused64(q, z, 0.058653087756070262);
    q = fused64(q, z, 0.077866795142425685);
    q = fused64(q, z, 0.090845402330576516);
    q = fused64(q, z, 0.11111361530968061);
    q = fused64(q, z, 0.14285708780145742);
    q = fused64(q, z, 0.20000000060466616);
    q = fused64(q, z, 0.33333333333077514);
    q = fused64(q, z, 1.0000000000000024);
    return (float)((double)(x != x ? x : x > y ? x : y) + 2.0 * s * q);
}

/* In double no square of a float leaves the range. An infinity wins over a NaN. */
static inline float vector_hypot(float x, float y)
{
    double a = x, b = y;
    float root = (float)sqrt(a * a + b * b);
    return fabsf(x) == INFINITY || fabsf(y) == INFINITY ? INFINITY : root;
}

#endif
