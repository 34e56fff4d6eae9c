/* SPDX-License-Identifier: Apache-2.0
 *
 * Angles of float32, as vector_math.h has its functions: tan, asin, acos, atan, atan2. Each is a number plus a small product of
 * it, so that it keeps its digits near 0 and rises where the angle does. */
#ifndef SAMBA_CPU_VECTOR_ANGLE_H
#define SAMBA_CPU_VECTOR_ANGLE_H

#include "device/cpu/isa/vector_math.h"

/* tan(r) / r - 1 of z = r^2, |r| <= pi/4 */
static inline float tan_bend(float z)
{
    float q = 0.00437226286f;
    q = fused(q, z, 9.89400942e-05f);
    q = fused(q, z, 0.0108270487f);
    q = fused(q, z, 0.0212863013f);
    q = fused(q, z, 0.0540589057f);
    q = fused(q, z, 0.133326754f);
    q = fused(q, z, 0.333333492f);
    return q * z;
}

/* tan(r + k pi/2), |r| <= pi/4: of an odd k -1 / tan(r) */
static inline float tan_turned(float r, int odd)
{
    float f = fused(r, tan_bend(r * r), r);
    return chosen(odd, -1.0f / f, f);
}

/* |x| < TAN_BOUND, by doubles: k has 26 bits at most, and pi/2 parts of so few that k's products with the first two are exact,
 * without FMA too. Other functions are for greater x. */
#define TAN_BOUND 0x1p26f
static inline float vector_tan_far(float x)
{
    double magic = 6755399441055744.0, wide = x, shifted = fused64(wide, 0.63661977236758134, magic), whole = shifted - magic;
    double r = fused64(whole, -0x1.921fb5p0, wide);
    r = fused64(whole, -0x1.110b46p-26, r);
    r = fused64(whole, -0x1.1a62633145c07p-54, r);
    return tan_turned((float)r, (int)(bits_of_double(shifted) & 1));
}

/* |x| < TAN_NEAR: k is small enough that x less its product with the first of three floats is exact by FMA. All three are
 * positive, so that -0 keeps its sign. */
#if defined(__FMA__) || defined(__FP_FAST_FMAF)
#define TAN_NEAR 0x1p13f
static inline float vector_tan(float x)
{
    float magic = 12582912.0f, shifted = fused(x, 0.636619747f, magic), whole = shifted - magic;
    float r = fused(whole, -5.39030295e-15f, fused(whole, -7.54978942e-08f, fused(whole, -1.57079625f, x)));
    return tan_turned(r, (int)(bits_of(shifted) & 1));
}
#else
#define TAN_NEAR TAN_BOUND
static inline float vector_tan(float x) { return vector_tan_far(x); }
#endif

/* asin(s) / s - 1 of z = s^2 <= 1/4 */
static inline float asin_bend(float z)
{
    float q = 0.0376964621f;
    q = fused(q, z, 0.0143149635f);
    q = fused(q, z, 0.0318390839f);
    q = fused(q, z, 0.0445133746f);
    q = fused(q, z, 0.0750052184f);
    q = fused(q, z, 0.166666597f);
    return q * z;
}

/* Above 1/2 by asin(t) = pi/2 - 2 asin(s) with s^2 = (1 - t) / 2; pi/4 and pi have two parts. */
static inline float vector_asin(float x)
{
    float t = fabsf(x), z = chosen(t <= 0.5f, t * t, 0.5f - 0.5f * t), s = chosen(t <= 0.5f, t, sqrtf(z)), bend = asin_bend(z);
    float near = fused(s, bend, s), half = fused(-s, bend, -2.18556941e-8f) + (0.785398185f - s);
    return copysignf(chosen(t <= 0.5f, near, 2.0f * half), x);
}
static inline float vector_acos(float x)
{
    float t = fabsf(x), z = chosen(t <= 0.5f, t * t, 0.5f - 0.5f * t), s = chosen(t <= 0.5f, x, sqrtf(z)), bend = asin_bend(z);
    float near = 1.57079637f - (fused(s, bend, 4.37113883e-8f) + s), angle = 2.0f * fused(s, bend, s);
    float far = chosen(x < 0.0f, 3.14159274f - (angle + 8.74227766e-8f), angle);
    return chosen(t <= 0.5f, near, far);
}

/* 0 <= ratio <= 1 */
static inline float atan_below_1(float ratio)
{
    float z = ratio * ratio, q = -0.0023869972210377455f;
    q = fused(q, z, 0.01350777130573988f);
    q = fused(q, z, -0.035871539264917374f);
    q = fused(q, z, 0.062501691281795502f);
    q = fused(q, z, -0.08656880259513855f);
    q = fused(q, z, 0.11033764481544495f);
    q = fused(q, z, -0.1427856832742691f);
    q = fused_rest(q, z, 0.19999739527702332f);
    q = fused_rest(q, z, -0.33333331346511841f);
    return fused_rest(q * z, ratio, ratio);
}

static inline float vector_atan(float x)
{
    float t = fabsf(x), angle = atan_below_1(chosen(t > 1.0f, 1.0f / t, t));
    return copysignf(chosen(t > 1.0f, (1.57079637f - angle) - 4.37113883e-8f, angle), x);
}

/* The angle of (y, x): of the lesser over the greater size, then turned to its eighth of the circle */
static inline float vector_atan2(float y, float x)
{
    float a = fabsf(x), b = fabsf(y), most = chosen(a > b, a, b), least = chosen(a > b, b, a);
    float angle = atan_below_1(chosen(most == 0.0f, 0.0f, chosen(least == INFINITY, 1.0f, least / most)));
    angle = chosen(b > a, (1.57079637f - angle) - 4.37113883e-8f, angle);
    angle = chosen((int32_t)bits_of(x) < 0, (3.14159274f - angle) - 8.74227766e-8f, angle);
    return chosen(x != x || y != y, x + y, copysignf(angle, y));
}

#endif
