/* SPDX-License-Identifier: Apache-2.0
 *
 * What every tile operator gives, by plain C and libm: of floats in double, rounded to the class where C's own operation would
 * be, of integers in int64_t, which wraps. Tests of the kernels and of whole programs compare with it. */
#ifndef SAMBA_TEST_TILE_VALUES_H
#define SAMBA_TEST_TILE_VALUES_H

#include "harness.h"
#include "device/cpu/kernel.h"

typedef union tile_value { /* f: of classes F32 and F64 */
    double f;
    int64_t i;
} tile_value;

/* An element of memory in a register of a class, and back. */
static inline tile_value load_value(samba_dtype dtype, int class_, const void *at)
{
    if (class_ == SAMBA_I64)
        return (tile_value){.i = samba_load_int64(dtype, at)};
    double x = samba_load_double(dtype, at);
    return (tile_value){.f = class_ == SAMBA_F32 ? (float)x : x};
}

static inline void store_value(samba_dtype dtype, int class_, void *at, tile_value v)
{
    if (class_ == SAMBA_I64)
        samba_store_int64(dtype, at, v.i);
    else
        samba_store_double(dtype, at, v.f);
}

/* How near a kernel must be: to the last bit; within units of the value's last place; within units of the argument's. */
typedef enum tile_nearness { EXACT, OF_VALUE, OF_ARGUMENT } tile_nearness;

static inline double rounded_to(int class_, double x) { return class_ == SAMBA_F32 ? (float)x : x; }
static inline double sigmoid_of(double x) { return x < 0 ? exp(x) / (1 + exp(x)) : 1 / (1 + exp(-x)); }
static inline double silu_of(double x) { return x * sigmoid_of(x); }
static inline double logit_of(double x) { return fabs(2 * x - 1) < 0.5 ? log1p((2 * x - 1) / (1 - x)) : log(x / (1 - x)); }
static inline double softsign_of(double x) { return x / (1 + fabs(x)); }
static inline double hardswish_of(double x) { return x * ((x <= -3 ? 0 : x >= 3 ? 6 : x + 3) / 6); }
static inline double logaddexp_of(double x, double y)
{
    return (isnan(x) || x > y ? x : y) + log1p(exp(-fabs(x == y ? 0 : x - y)));
}
static inline double mish_of(double x) { return x * tanh(x > 0 ? x + log1p(exp(-x)) : log1p(exp(x))); }

/* By the recurrence up to 30, where five terms of the series are enough; below 0 reflected. */
static inline double digamma_of(double x)
{
    if (x < 0)
        return x == floor(x) ? NAN : digamma_of(1 - x) - M_PI / tan(M_PI * (x - nearbyint(x)));
    long double at = x, sum = 0;
    for (; at < 30; at += 1)
        sum += 1 / at;
    const long double z = 1 / (at * at);
    return isinf(x) ? x
                    : (double)(logl(at) - 0.5L / at -
                               z * (1 / 12.0L - z * (1 / 120.0L - z * (1 / 252.0L - z * (1 / 240.0L - z / 132)))) - sum);
}

static inline double tanhshrink_of(double x)
{
    long double sum = 0, term = (long double)x * x * x / 6; /* x^(2k + 1) / (2k + 1)! */
    if (!(fabs(x) < 1))
        return (double)((long double)x - tanhl(x));
    for (int k = 1; k < 16; k++, term *= (long double)x * x / (2 * k * (2 * k + 1)))
        sum += 2 * k * term;
    return (double)(sum / coshl(x));
}

static inline double trigamma_of(double x)
{
    const double sine = sin(M_PI * (x - nearbyint(x)));
    if (x < 0)
        return isinf(x) ? NAN : M_PI * M_PI / (sine * sine) - trigamma_of(1 - x);
    long double at = x, sum = 0;
    for (; at < 30; at += 1)
        sum += 1 / (at * at);
    const long double z = 1 / (at * at);
    return isinf(x)
               ? 0
               : (double)((1 + 0.5L / at + z * (1 / 6.0L - z * (1 / 30.0L - z * (1 / 42.0L - z * (1 / 30.0L - z * 5 / 66))))) /
                              at +
                          sum);
}

static inline double remainder_of(double x, double y)
{
    double rest = fmod(x, y);
    return rest != 0 && (rest < 0) != (y < 0) ? rest + y : rest;
}

/* Python's: the rest is exact, the quotient of what it leaves may be a digit off. */
static inline double floor_quotient(double x, double y)
{
    double rest = fmod(x, y), quotient = (x - rest) / y - (rest != 0 && (rest < 0) != (y < 0));
    return y == 0 ? x / y : isnan(quotient) ? NAN : quotient - floor(quotient) > 0.5 ? floor(quotient) + 1 : floor(quotient);
}

static const struct {
    samba_tile op;
    double (*one)(double), (*two)(double, double);
} tile_of_libm[] = {
    {SAMBA_TILE_exp, exp, 0},
    {SAMBA_TILE_log, log, 0},
    {SAMBA_TILE_log1p, log1p, 0},
    {SAMBA_TILE_expm1, expm1, 0},
    {SAMBA_TILE_sin, sin, 0},
    {SAMBA_TILE_cos, cos, 0},
    {SAMBA_TILE_tanh, tanh, 0},
    {SAMBA_TILE_erf, erf, 0},
    {SAMBA_TILE_exp2, exp2, 0},
    {SAMBA_TILE_log2, log2, 0},
    {SAMBA_TILE_log10, log10, 0},
    {SAMBA_TILE_tan, tan, 0},
    {SAMBA_TILE_asin, asin, 0},
    {SAMBA_TILE_acos, acos, 0},
    {SAMBA_TILE_atan, atan, 0},
    {SAMBA_TILE_sinh, sinh, 0},
    {SAMBA_TILE_cosh, cosh, 0},
    {SAMBA_TILE_asinh, asinh, 0},
    {SAMBA_TILE_acosh, acosh, 0},
    {SAMBA_TILE_atanh, atanh, 0},
    {SAMBA_TILE_tanhshrink, tanhshrink_of, 0},
    {SAMBA_TILE_erfc, erfc, 0},
    {SAMBA_TILE_lgamma, lgamma, 0},
    {SAMBA_TILE_sigmoid, sigmoid_of, 0},
    {SAMBA_TILE_silu, silu_of, 0},
    {SAMBA_TILE_mish, mish_of, 0},
    {SAMBA_TILE_atan2, 0, atan2},
    {SAMBA_TILE_hypot, 0, hypot},
    {SAMBA_TILE_pow, 0, pow},
    {SAMBA_TILE_logit, logit_of, 0},
    {SAMBA_TILE_softsign, softsign_of, 0},
    {SAMBA_TILE_hardswish, hardswish_of, 0},
};

static inline tile_nearness value_of_floats(int op, int class_, double x, double y, double *value)
{
    for (int i = 0; i < LENGTH(tile_of_libm); i++)
        if ((int)tile_of_libm[i].op == op) {
            *value = tile_of_libm[i].one ? tile_of_libm[i].one(x) : tile_of_libm[i].two(x, y);
            return OF_VALUE;
        }
    double slope = M_2_SQRTPI * M_SQRT1_2, t = tanh(slope * (x + 0.044715 * x * x * x)), cdf = 0.5 * erfc(-x * M_SQRT1_2);
    double s = 1 / (1 + exp(-x)), m = tanh(fmax(x, 0) + log1p(exp(-fabs(x)))), bent = slope * (1 + 3 * 0.044715 * x * x);
    switch (op) {
    case SAMBA_TILE_gelu: *value = x * cdf; return OF_ARGUMENT;
    case SAMBA_TILE_gelu_grad: *value = y * (cdf + x * exp(-0.5 * x * x) * (slope / 2)); return OF_ARGUMENT;
    case SAMBA_TILE_gelu_tanh: *value = 0.5 * x * (1 + t); return OF_ARGUMENT;
    case SAMBA_TILE_gelu_tanh_grad: *value = y * (0.5 * (1 + t) + 0.5 * x * (1 - t * t) * bent); return OF_ARGUMENT;
    case SAMBA_TILE_silu_grad: *value = y * (s + x * s * (1 - s)); return OF_ARGUMENT;
    case SAMBA_TILE_mish_grad: *value = y * (m + x * s * (1 - m * m)); return OF_ARGUMENT;
    case SAMBA_TILE_logaddexp: *value = logaddexp_of(x, y); return OF_ARGUMENT; /* whose terms may cancel */
    case SAMBA_TILE_hardswish_grad: *value = y * (x <= -3 ? 0 : x >= 3 ? 1 : (2 * x + 3) / 6); return OF_ARGUMENT;
    case SAMBA_TILE_digamma: *value = digamma_of(x); return OF_ARGUMENT; /* near its zeros terms cancel */
    case SAMBA_TILE_trigamma: *value = trigamma_of(x); return OF_ARGUMENT;
    case SAMBA_TILE_leaky_relu: *value = x > 0 ? x : x * y; break;
    case SAMBA_TILE_hardshrink: *value = fabs(x) <= y ? 0 : x; break;
    case SAMBA_TILE_frac: *value = x - trunc(x); break;
    case SAMBA_TILE_softshrink: *value = x > y ? x - y : x < -y ? x + y : x * 0; break;
    case SAMBA_TILE_neg: *value = -x; break;
    case SAMBA_TILE_abs: *value = fabs(x); break;
    case SAMBA_TILE_sign: *value = (x > 0) - (x < 0); break;
    case SAMBA_TILE_floor: *value = floor(x); break;
    case SAMBA_TILE_ceil: *value = ceil(x); break;
    case SAMBA_TILE_trunc: *value = trunc(x); break;
    case SAMBA_TILE_round: *value = nearbyint(x); break;
    case SAMBA_TILE_sqrt: *value = sqrt(x); break;
    case SAMBA_TILE_rsqrt: *value = 1 / rounded_to(class_, sqrt(x)); break;
    case SAMBA_TILE_reciprocal: *value = 1 / x; break;
    case SAMBA_TILE_relu: *value = isnan(x) ? x : x < 0 ? 0 : x; break;
    case SAMBA_TILE_logical_not: *value = x == 0; break;
    case SAMBA_TILE_add: *value = x + y; break;
    case SAMBA_TILE_sub: *value = x - y; break;
    case SAMBA_TILE_mul: *value = x * y; break;
    case SAMBA_TILE_div: *value = x / y; break;
    case SAMBA_TILE_maximum: *value = isnan(x) ? x : isnan(y) ? y : x > y ? x : y; break;
    case SAMBA_TILE_minimum: *value = isnan(x) ? x : isnan(y) ? y : x < y ? x : y; break;
    case SAMBA_TILE_copysign: *value = copysign(x, y); break;
    case SAMBA_TILE_fmod: *value = fmod(x, y); break;
    case SAMBA_TILE_remainder: *value = remainder_of(x, y); break;
    case SAMBA_TILE_floor_divide: *value = floor_quotient(x, y); break;
    case SAMBA_TILE_trunc_divide: *value = trunc(rounded_to(class_, x / y)); break;
    case SAMBA_TILE_round_bfloat16: *value = samba_bfloat16_to_float(samba_float_to_bfloat16((float)x)); break;
    case SAMBA_TILE_round_float16: *value = samba_float16_to_float(samba_float_to_float16((float)x)); break;
    default: fail_msg("no reference for %s of floats", samba_tile_table[op].name);
    }
    *value = rounded_to(class_, *value);
    return EXACT;
}

static inline int64_t power_of(int64_t x, int64_t y)
{
    if (y < 0)
        return x == 1 ? 1 : x == -1 ? (y & 1 ? -1 : 1) : 0;
    uint64_t result = 1, base = (uint64_t)x;
    for (; y; y >>= 1, base *= base)
        if (y & 1)
            result *= base;
    return (int64_t)result;
}

static inline int64_t value_of_integers(int op, int64_t x, int64_t y)
{
    uint64_t u = (uint64_t)x, v = (uint64_t)y;
    bool apart = y != 0 && y != -1 && x % y != 0 && (x % y < 0) != (y < 0); /* the quotient is no whole number, and negative */
    switch (op) {
    case SAMBA_TILE_neg: return (int64_t)-u;
    case SAMBA_TILE_abs: return x < 0 ? (int64_t)-u : x;
    case SAMBA_TILE_sign: return (x > 0) - (x < 0);
    case SAMBA_TILE_floor:
    case SAMBA_TILE_round:
    case SAMBA_TILE_ceil:
    case SAMBA_TILE_trunc: return x;
    case SAMBA_TILE_bitwise_not: return -1 - x;
    case SAMBA_TILE_bitwise_and: return (int64_t)(u & v);
    case SAMBA_TILE_bitwise_or: return (int64_t)(u | v);
    case SAMBA_TILE_bitwise_xor: return (int64_t)(u ^ v);
    case SAMBA_TILE_left_shift: return y < 0 || y > 63 ? 0 : (int64_t)(u << v);
    case SAMBA_TILE_right_shift: return y < 0 || y > 63 ? -(x < 0) : x < 0 ? (int64_t) ~(~u >> v) : (int64_t)(u >> v);
    case SAMBA_TILE_trunc_divide: return y == 0 ? 0 : y == -1 ? (int64_t)-u : x / y;
    case SAMBA_TILE_fmod: return y == 0 || y == -1 ? 0 : x % y;
    case SAMBA_TILE_remainder: return y == 0 || y == -1 ? 0 : (int64_t)((uint64_t)(x % y) + (apart ? v : 0));
    case SAMBA_TILE_floor_divide: return y == 0 ? 0 : y == -1 ? (int64_t)-u : x / y - apart;
    case SAMBA_TILE_relu: return x < 0 ? 0 : x;
    case SAMBA_TILE_logical_not: return x == 0;
    case SAMBA_TILE_add: return (int64_t)(u + v);
    case SAMBA_TILE_sub: return (int64_t)(u - v);
    case SAMBA_TILE_mul: return (int64_t)(u * v);
    case SAMBA_TILE_pow: return power_of(x, y);
    case SAMBA_TILE_maximum: return x > y ? x : y;
    case SAMBA_TILE_minimum: return x < y ? x : y;
    case SAMBA_TILE_wrap_int32: return (int32_t)x;
    case SAMBA_TILE_wrap_int16: return (int16_t)x;
    case SAMBA_TILE_wrap_int8: return (int8_t)x;
    case SAMBA_TILE_wrap_uint8: return (uint8_t)x;
    default: fail_msg("no reference for %s of integers", samba_tile_table[op].name); return 0;
    }
}

/* Of sources of `class_`, for a register of `to`. A WHERE asks x, of class F32. */
/* each step rounded */
static inline double lerp_of(int class_, double x, double y, double weight)
{
    double way = rounded_to(class_, y - x);
    if (fabs(weight) < 0.5)
        return rounded_to(class_, x + rounded_to(class_, weight * way));
    return rounded_to(class_, y - rounded_to(class_, way * rounded_to(class_, 1 - weight)));
}

static inline tile_nearness value_of(int op, int class_, int to, tile_value x, tile_value y, tile_value z, tile_value *value)
{
    bool whole = class_ == SAMBA_I64;
    int order = whole ? (x.i > y.i) - (x.i < y.i) : isnan(x.f) || isnan(y.f) ? 2 : (x.f > y.f) - (x.f < y.f);
    *value = (tile_value){.i = 0};
    switch (op) {
    case SAMBA_TILE_eq: value->f = order == 0; return EXACT;
    case SAMBA_TILE_ne: value->f = order != 0; return EXACT;
    case SAMBA_TILE_lt: value->f = order == -1; return EXACT;
    case SAMBA_TILE_le: value->f = order == -1 || order == 0; return EXACT;
    case SAMBA_TILE_gt: value->f = order == 1; return EXACT;
    case SAMBA_TILE_ge: value->f = order == 1 || order == 0; return EXACT;
    case SAMBA_TILE_not_zero: value->f = whole ? x.i != 0 : x.f != 0; return EXACT;
    case SAMBA_TILE_lerp: value->f = lerp_of(class_, x.f, y.f, z.f); return EXACT;
    case SAMBA_TILE_where: *value = x.f != 0 ? y : z; return EXACT;
    case SAMBA_TILE_cast:
        if (to == SAMBA_I64)
            value->i = whole ? x.i : samba_load_int64(SAMBA_FLOAT64, &x.f);
        else
            value->f = rounded_to(to, whole ? (double)x.i : x.f);
        return EXACT;
    default:
        if (!whole)
            return value_of_floats(op, class_, x.f, y.f, &value->f);
        value->i = value_of_integers(op, x.i, y.i);
        return EXACT;
    }
}

/* Rows: sums and products (wrapping), the greatest, the least; of NaN and a number NaN, of equal ones the first. */
static inline tile_value fold_start(int op, int class_)
{
    if (op == SAMBA_TILE_prod)
        return class_ == SAMBA_I64 ? (tile_value){.i = 1} : (tile_value){.f = 1};
    if (class_ == SAMBA_I64)
        return (tile_value){.i = op == SAMBA_TILE_sum ? 0 : op == SAMBA_TILE_amax ? INT64_MIN : INT64_MAX};
    return (tile_value){.f = op == SAMBA_TILE_sum ? 0 : op == SAMBA_TILE_amax ? -INFINITY : INFINITY};
}

static inline tile_value fold(int op, int class_, tile_value x, tile_value y)
{
    bool most = op == SAMBA_TILE_amax, whole = class_ == SAMBA_I64;
    if (op == SAMBA_TILE_sum)
        return whole ? (tile_value){.i = (int64_t)((uint64_t)x.i + (uint64_t)y.i)} : (tile_value){.f = x.f + y.f};
    if (op == SAMBA_TILE_prod)
        return whole ? (tile_value){.i = (int64_t)((uint64_t)x.i * (uint64_t)y.i)} : (tile_value){.f = x.f * y.f};
    if (whole)
        return (most ? y.i > x.i : y.i < x.i) ? y : x;
    return isnan(x.f) || (!isnan(y.f) && (most ? x.f >= y.f : x.f <= y.f)) ? x : y;
}

#endif
