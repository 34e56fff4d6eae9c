/* SPDX-License-Identifier: Apache-2.0
 *
 * erf and erfc of float32, as vector_math.h has its functions. */
#ifndef SAMBA_CPU_VECTOR_ERF_H
#define SAMBA_CPU_VECTOR_ERF_H

#include "device/cpu/isa/vector_math.h"

/* erf(t) / t - 1 of z = t^2 <= 1 */
static inline float erf_bend(float z)
{
    float q = 7.80690389e-05f;
    q = fused(q, z, -0.00079978531f);
    q = fused(q, z, 0.0051871622f);
    q = fused(q, z, -0.0268533472f);
    q = fused(q, z, 0.112835787f);
    q = fused_rest(q, z, -0.37612626f);
    return fused_rest(q, z, 0.128379166f);
}

/* From t = |x| = 1 on 1 - exp(p(t - 1)); at t = 3.95 that is 1. */
static inline float vector_erf(float x)
{
    float t = fabsf(x), near = fused_rest(erf_bend(t * t), t, t), w = chosen(t > 3.95f, 2.95f, t - 1.0f), p = 9.00118685e-05f;
    p = fused(p, w, -0.0014809072f);
    p = fused(p, w, 0.0094526168f);
    p = fused(p, w, -0.0412622057f);
    p = fused(p, w, -0.843172371f);
    p = fused(p, w, -2.63896275f);
    p = fused(p, w, -1.84960556f);
    uint32_t exponent;
    float rise = exp_reduced(p, 127.0f, &exponent), scale = float_of(exponent), far = fused(-scale, rise, 1.0f - scale);
    return copysignf(chosen(t < 1.0f, near, far), x);
}

/* exp(-t^2) v p(v - 1) with v = 5 / (t + 2.5), fitted for 3/4 <= t <= 10.2; there erfc is below half of the least float. It falls
 * by little more than a unit from a float to the next, so all that rounding takes is given back: from t^2, from v by the slope
 * of the logarithm of v p(v - 1), about, from p's last step and from the product; but from the exponential's own rise. */
static inline float erfc_tail(float t)
{
    t = chosen(t > 10.2f, 10.2f, t);
    float sum = t + 2.5f, v = 5.0f / sum, w = v - 1.0f, p = 0.00014871145f;
    p = fused(p, w, 7.41258918e-05f);
    p = fused(p, w, -0.000980898156f);
    p = fused(p, w, -0.00167408341f);
    p = fused(p, w, 0.00567745417f);
    p = fused(p, w, 0.0342497565f);
    p = fused(p, w, 0.0907823816f);
    p = fused(p, w, 0.16093038f);
    float share = fused(p, w, 0.21080637f), share_rest = fused_rest(p, w, 0.21080637f - share) - 5.72035e-9f;
    float lost = fused((2.5f - sum) + t, -v, fused_rest(-v, sum, 5.0f)); /* what v lost, times sum */
    float factor = v * share, rest = fused(v, share_rest, fused_rest(v, share, -factor)) + 0.42f * lost * factor;
    float square = t * t, square_rest = fused_rest(t, t, -square);
    float magic = 12582912.0f + 127.0f + 64.0f, shifted = fused(square, -1.44269502f, magic), whole = shifted - magic;
    float rise = exp_rise(fused(whole, -0.693359375f, -square) + fused(whole, 2.12194442e-4f, -square_rest));
    return (factor + fused(factor, rise, fused(rest, rise, rest))) * float_of(bits_of(shifted) << 23) * NARROW;
}

/* Below 3/4 as 1 - t - t erf_bend(t^2), with what 1 - t lost. */
static inline float vector_erfc(float x)
{
    float t = fabsf(x), one = 1.0f - t, near = one + fused(-t, erf_bend(t * t), (1.0f - one) - t);
    float erfc = chosen(t < 0.75f, near, erfc_tail(t));
    return chosen(x < 0.0f, 2.0f - erfc, erfc);
}

#endif
