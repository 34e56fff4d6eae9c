/* SPDX-License-Identifier: Apache-2.0
 *
 * The smooth activations of ops/activation.c and their slopes, as vector_math.h has its functions. Each takes one exponential, of
 * a number that is not positive or not negative, so that nothing overflows. What is small keeps its digits: the argument of the
 * exponential carries what rounding took from it, and a power of two is taken back at the end, as an exponential may be subnormal
 * where its product with x is not. A slope is 0 somewhere below 0 (at -0.75 of gelu's two, -1.28 of silu's, -1.19 of mish's):
 * gelu's has its digits there too, the others those of the two terms that cancel.
 *
 * An infinity meets a product with 0, as in PyTorch's formulas: every slope there is NaN, and so is every value at -infinity. */
#ifndef SAMBA_CPU_VECTOR_ACTIVATION_H
#define SAMBA_CPU_VECTOR_ACTIVATION_H

#include "device/cpu/isa/vector_math.h"

/* |x|, at most so much: of NaN that too, which x still says. As integers, whose least is one instruction; of floats the compiler
 * makes masks, by which it then chooses between all that follows for the bound and for other numbers. */
static inline float bounded_size(float x, float most)
{
    int32_t size = (int32_t)(bits_of(x) & 0x7fffffffu), bound = (int32_t)bits_of(most);
    return float_of((uint32_t)(size < bound ? size : bound));
}
static inline float nan_at_infinity(float x, float slope) { return chosen(fabsf(x) < INFINITY, slope, NAN); }

/* ---- gelu: x Phi(x) ---- */

/* 2^k and exp(more - t^2 / 2) / 2^k - 1, 0 <= t <= 15; the power times 2^64 */
static inline float bell_rise(float t, float more, float *scale)
{
    float square = t * t, rest = fused_rest(t, t, -square);
    float magic = 12582912.0f + 127.0f + 64.0f, shifted = fused(square, -0.721347511f, magic), whole = shifted - magic;
    *scale = float_of(bits_of(shifted) << 23);
    return exp_rise(fused(whole, -0.693359375f, -0.5f * square) + fused(whole, 2.12194442e-4f, fused(-0.5f, rest, more)));
}

/* Phi(-t) = exp(-t^2 / 2) v p(v - 1) with v = 5 / (t + 2.5); p is fitted for t <= 14.8. What v lost to rounding is given back by
 * the slope of the logarithm of v p(v - 1), about. */
static inline float vector_gelu(float x)
{
    float t = bounded_size(x, 14.8f), sum = t + 2.5f, v = 5.0f / sum, w = v - 1.0f, p = 3.1508167e-05f;
    p = fused(p, w, -6.22684165e-05f);
    p = fused(p, w, -0.000136877323f);
    p = fused(p, w, 0.000504739292f);
    p = fused(p, w, 0.000320175692f);
    p = fused(p, w, -0.00327722495f);
    p = fused(p, w, -0.00184717809f);
    p = fused(p, w, 0.026397394f);
    p = fused(p, w, 0.0867384002f);
    p = fused_rest(p, w, 0.14133133f); /* the last steps rounded once, whatever the CPU */
    float lost = fused(sum - 2.5f - t, v, fused_rest(-v, sum, 5.0f));
    float scale, rise = bell_rise(t, 0.34f * lost, &scale), factor = v * p, wide = fused_rest(rise, factor, factor) * scale;
    return fused(-t * wide, NARROW, x >= 0.0f ? x : x * 0.0f);
}

/* At -t it is exp(-t^2 / 2) (t0 - t) p(w) with w = 9 / (t + 4.5) - 1, at t 1 less that. */
static inline float vector_gelu_slope(float x)
{
    float t = bounded_size(x, 14.8f), sum = t + 4.5f, v = 9.0f / sum, w = v - 1.0f, p = -7.84449148e-05f;
    p = fused(p, w, -7.99632471e-05f);
    p = fused(p, w, 0.000811798265f);
    p = fused(p, w, 0.00446449872f);
    p = fused(p, w, 0.0139670195f);
    p = fused(p, w, 0.0324811414f);
    p = fused(p, w, 0.0609749369f);
    p = fused(p, w, 0.0962025002f);
    p = fused(p, w, 0.456334502f);
    float lost = fused(sum - 4.5f - t, v, fused_rest(-v, sum, 9.0f));
    float scale, rise = bell_rise(t, 0.066f * v * lost, &scale), factor = (0.751791537f - t - 1.21144495e-08f) * p;
    float low = fused(rise, factor, factor) * scale * NARROW;
    return nan_at_infinity(x, x < 0.0f ? low : 1.0f - low);
}

/* ---- x sigmoid(y), y odd in x, and its slope: from t = -|x| and 2^-40 / sigmoid(y) at t, whose inverse is in range too ---- */

#define SHARE_BIAS (127.0f - 40.0f) /* of an exponent */
#define SHARE 0x1p-40f

/* t s with s = sigmoid(y) at t; x more for x >= 0 */
static inline float sigmoid_share(float x, float t, float power)
{
    float over = 1.0f / (power + SHARE);
    return fused(t * over, SHARE, x >= 0.0f ? x : x * 0.0f);
}

/* s + s (1 - s) t dy/dx = s (1 + along (1 - s)), along + along_rest = t dy/dx at t; 1 less that for x >= 0. Its terms cancel, so
 * what sums and the quotient lose to rounding is given back; where that costs more than doubles, from the power on in these. */
static inline float sigmoid_slope(float x, float along, float along_rest, float power)
{
#if defined(__FMA__) || defined(__FP_FAST_FMAF)
    float sum = power + SHARE, over = 1.0f / sum, rest = fmaf(-over, sum, 1.0f) - (SHARE - (sum - power)) * over;
    float s = over * SHARE, other = 1.0f - s, other_rest = fmaf(-s, rest, (1.0f - other) - s);
    float factor = fmaf(other, along, 1.0f), more = fmaf(factor, rest, fmaf(other_rest, along, along_rest));
    float low = fmaf(over, factor, over * more) * SHARE;
    return nan_at_infinity(x, x < 0.0f ? low : 1.0f - low);
#else
    double wide = (double)along + along_rest, s = 1.0 / ((double)power * 0x1p40 + 1.0), low = s * ((1.0 + wide) - s * wide);
    return nan_at_infinity(x, (float)(x < 0.0f ? low : 1.0 - low));
#endif
}

/* ---- gelu_tanh: y = 2u, u = sqrt(2/pi) (x + c x^3) ---- */

/* 2^-40 exp(-y) for t >= -10.9. y log2(e) = B t (t^2 + 1 / c) is a product of numbers of two parts; the first of 1 / c has bits
 * enough to spare that what is left of t^2 + 1 / c is exact. */
static inline float vector_bent_power(float t)
{
    const float c = 22.363861083984375f, b = 0.102943242f;
    float sum = fused(t, t, c), rest = fused_rest(t, t, c - sum) - 1.081748e-06f;
    float cube = t * sum, more = fused(t, rest, fused_rest(t, sum, -cube));
    float magic = 12582912.0f + SHARE_BIAS, shifted = fused(cube, -b, magic), whole = shifted - magic;
    float r = fused_rest(cube, -b, -whole) + fused(cube, 2.01619854e-09f, more * -b);
    float q = 0.000153579182f;
    q = fused(q, r, 0.00133984373f);
    q = fused(q, r, 0.00961841829f);
    q = fused(q, r, 0.0555033386f);
    q = fused(q, r, 0.240226477f);
    q = fused(q, r, 0.693147182f);
    return fused(q, r, 1.0f) * float_of(bits_of(shifted) << 23);
}
static inline float vector_gelu_tanh(float x)
{
    float t = -bounded_size(x, 10.9f);
    return sigmoid_share(x, t, vector_bent_power(t));
}
static inline float vector_gelu_tanh_slope(float x)
{
    const float c1 = 1.59576905f, c3 = 0.214064449f; /* t dy/dx = c1 t + c3 t^3 */
    float t = -bounded_size(x, 10.9f), square = t * t, part = fused(square, c3, c1), along = t * part;
    float part_rest = fused_rest(square, c3, c1 - part) + 7.38686092e-08f; /* of c1 */
    return sigmoid_slope(x, along, fused(t, part_rest, fused_rest(t, part, -along)), vector_bent_power(t));
}

/* ---- silu: y = x ---- */

static inline float vector_share_power(float t) /* t >= -110 */
{
    uint32_t exponent;
    float p = exp_reduced(-t, SHARE_BIAS, &exponent) + 1.0f;
    return p * float_of(exponent);
}
static inline float vector_silu(float x)
{
    float t = -bounded_size(x, 110.0f);
    return sigmoid_share(x, t, vector_share_power(t));
}
static inline float vector_silu_slope(float x)
{
    float t = -bounded_size(x, 110.0f);
    return sigmoid_slope(x, t, 0.0f, vector_share_power(t));
}

/* ---- mish: x tanh(log(1 + n)), n = e^x: with w = n (n + 2) the tanh is w / (w + 2) = 1 - 2 / (w + 2) = n (1 - n (n + 1)
 * / (w + 2)) ---- */

static inline float vector_mish(float x)
{
    float t = chosen(x > 30.0f, 30.0f, chosen(x < -112.0f, -112.0f, x)); /* at 30 w stops to grow */
    float wide = wide_exp(t), n = wide * NARROW, w = n * (n + 2.0f);
    float share = 1.0f - (x >= 0.0f ? 2.0f : n * (n + 1.0f)) / (w + 2.0f);
    float y = share * (x >= 0.0f ? x : t * wide) * (x >= 0.0f ? 1.0f : NARROW);
    return x == -INFINITY ? NAN : y;
}
static inline float vector_mish_slope(float x)
{
    float t = chosen(x > 15.0f, 15.0f, chosen(x < -112.0f, -112.0f, x)); /* from 15 on it is 1 */
    float wide = wide_exp(t);
    double n = (double)wide * 0x1p-64, d = n * (n + 2.0) + 2.0;
    return nan_at_infinity(x, (float)(n * (4.0 * (1.0 + t) * (1.0 + n) + (n * (n + 4.0) + 2.0) * n) / (d * d)));
}

/* ---- simple ones ---- */

static inline float vector_hardswish(float x)
{
    float t = chosen(x <= -3.0f, -3.0f, x);
    t = chosen(t >= 3.0f, 3.0f, t);
    return x * ((t + 3.0f) * (1.0f / 6));
}
static inline float vector_hardswish_slope(float x)
{
    float slope = chosen(x >= 3.0f, 1.0f, fused(2.0f, x, 3.0f) * (1.0f / 6));
    return chosen(x <= -3.0f, 0.0f, slope);
}

static inline float vector_hardshrink(float x, float by) { return chosen(fabsf(x) <= by, 0.0f, x); }
static inline float vector_softshrink(float x, float by)
{
    float low = chosen(x < -by, x + by, x * 0.0f);
    return chosen(x > by, x - by, low);
}

/* The quotient is given back what rounding took from 1 + |x| and from itself: rounded twice it would fall where it rises slowly.
 * From 2^26 on it is 1. */
static inline float vector_softsign(float x)
{
    float t = fabsf(x), near = chosen(t > 1e9f, 1e9f, t), sum = 1.0f + near;
    float over = 1.0f / sum, y = near * over, rest = lost_of_quotient(y, near, sum, lost_of_sum(near, sum));
    return copysignf(chosen(t == INFINITY, NAN, fused(rest, over, y)), x);
}

/* ---- double ---- */

static inline double nan_at_infinity64(double x, double slope) { return fabs(x) == INFINITY ? NAN : slope; }

/* The rounding error of product = x y. */
static inline double product_rest64(double x, double y, double product)
{
#if defined(__FMA__) || defined(__FP_FAST_FMA)
    return fma(x, y, -product);
#else
    const double split = 134217729.0; /* Dekker: halves whose products are exact */
    double a = x * split, b = y * split, xh = a - (a - x), yh = b - (b - y), xl = x - xh, yl = y - yh;
    return ((xh * yh - product) + xh * yl + xl * yh) + xl * yl;
#endif
}

/* exp(-t^2 / 2) */
static inline double vector_bell64(double t)
{
    t = t > 40.0 ? 40.0 : t;
    double square = t * t;
    return exp(-0.5 * square) * (1.0 - 0.5 * product_rest64(t, t, square));
}

/* Phi(x) = erfc(z) / 2, z = -x sqrt(1/2), and what rounding took from z times erfc's slope */
static inline double vector_normal64(double x, double bell)
{
    const double root = M_SQRT1_2, more = -4.833646656726457e-17; /* their sum is sqrt(1/2) */
    double z = -x * root, rest = product_rest64(-x, root, z) - x * more;
    return 0.5 * erfc(z) - rest * (M_2_SQRTPI / 2) * bell;
}
static inline double bounded64(double x, double most) { return x > most ? most : x < -most ? -most : x; }
static inline double vector_gelu64(double x)
{
    double near = bounded64(x, 40.0);
    return x * vector_normal64(near, vector_bell64(fabs(near)));
}
static inline double vector_gelu_slope64(double x)
{
    double near = bounded64(x, 40.0), bell = vector_bell64(fabs(near));
    return nan_at_infinity64(x, vector_normal64(near, bell) + near * bell * (M_2_SQRTPI * M_SQRT1_2 / 2));
}

static inline double sigmoid_slope64(double x, double slope, double e)
{
    double d = 1.0 + e;
    return nan_at_infinity64(x, (x < 0.0 ? e * (d - slope) : d + slope * e) / (d * d));
}

/* exp(-2u), 0 <= t <= 22, as vector_bent_bell */
static inline double vector_bent_bell64(double t)
{
    const double c = 22.363860002236386, b = 0.07135481627260025;
    double square = t * t, sum = square + c, part = sum - square;
    double rest = (square - (sum - part)) + (c - part) + (product_rest64(t, t, square) + -3.7342623930140568e-17);
    double cube = t * sum, more = product_rest64(t, sum, cube) + t * rest, y = cube * b;
    return exp(-y) * (1.0 - (product_rest64(cube, b, y) + cube * -6.175149918155315e-19 + more * b));
}
static inline double vector_gelu_tanh64(double x)
{
    double e = vector_bent_bell64(fabs(bounded64(x, 22.0)));
    return x * ((x < 0.0 ? e : 1.0) / (1.0 + e));
}
static inline double vector_gelu_tanh_slope64(double x)
{
    double t = fabs(bounded64(x, 22.0));
    return sigmoid_slope64(x, t * (1.5957691216057308 + 0.21406444881780074 * t * t), vector_bent_bell64(t));
}

static inline double vector_sigmoid64(double x)
{
    double e = exp(-fabs(x));
    return (x < 0 ? e : 1.0) / (1.0 + e);
}
static inline double vector_logaddexp64(double x, double y)
{
    double distance = x == y ? 0 : x - y;
    return (x > y || x != x ? x : y) + log1p(exp(-fabs(distance)));
}
static inline double vector_hardswish64(double x) { return x * ((x <= -3 ? 0 : x >= 3 ? 6 : x + 3) * (1.0 / 6)); }
static inline double vector_hardswish_slope64(double x) { return x <= -3 ? 0 : x >= 3 ? 1 : (2 * x + 3) * (1.0 / 6); }
static inline double vector_softshrink64(double x, double by) { return x > by ? x - by : x < -by ? x + by : x * 0; }
static inline double vector_logit64(double x)
{
    double over = 2 * x - 1, other = 1 - x;
    return fabs(over) < 0.5 ? log1p(over / other) : log(x / other);
}
static inline double vector_silu_slope64(double x)
{
    double t = fabs(bounded64(x, 800.0));
    return sigmoid_slope64(x, t, exp(-t));
}
static inline double vector_mish64(double x)
{
    double n = exp(x > 40.0 ? 40.0 : x), w = n * (n + 2.0);
    return x * (w / (w + 2.0));
}
static inline double vector_mish_slope64(double x)
{
    double t = bounded64(x, x > 0.0 ? 30.0 : 800.0), n = exp(t), d = n * (n + 2.0) + 2.0;
    return nan_at_infinity64(x, n * ((4.0 * (1.0 + t) * (1.0 + n) + (n * (n + 4.0) + 2.0) * n) / (d * d)));
}

/* x - tanh(x); below 1 (x cosh(x) - sinh(x)) / cosh(x), whose numerator is the sum of x^(2k + 1) 2k / (2k + 1)! */
static inline double vector_tanhshrink64(double x)
{
    double z = x * x, sum = 3.9145882126782523e-19;
    sum = sum * z + 1.4797143443923793e-16;
    sum = sum * z + 4.498331606952833e-14;
    sum = sum * z + 1.0706029224547743e-11;
    sum = sum * z + 1.9270852604185937e-09;
    sum = sum * z + 2.505210838544172e-07;
    sum = sum * z + 2.2045855379188714e-05;
    sum = sum * z + 0.0011904761904761906;
    sum = sum * z + 0.03333333333333333;
    sum = sum * z + 0.3333333333333333;
    return fabs(x) < 1 ? x * z * sum / cosh(x) : x - tanh(x);
}

#endif
