/* SPDX-License-Identifier: Apache-2.0
 *
 * What test_ulp.c measures: every operator of one float32 operand, functions composed of several, the slopes that have a kernel
 * of their own, and functions of two operands. Each as a user gets it, traced; beside it the exact value by libm in double, whose
 * own error is nothing beside a float's, the allowed units in the last place, and where it rises and falls.
 *
 * All floats are many: libm's vector functions, good to 4 units of double, a hundred-millionth of a float's, give their exact
 * values (ALL). Where a kernel is such a function itself, another one judges it, by another way to the same value (other_...). */
#ifndef SAMBA_TEST_ULP_FUNCTIONS_H
#define SAMBA_TEST_ULP_FUNCTIONS_H

#include "tensor/tensor.h"
#include <math.h>
#include <sambaflow/activation.h>
#include <sambaflow/elementwise.h>

typedef enum shape { NONE, RISING, FALLING, VALLEY } shape; /* FALLING: on each side of 0; VALLEY: falls below 0, rises above */

typedef struct function {
    const char *name;
    samba_value (*traced)(samba_value);
    double (*exact)(double);
    void (*exact_all)(const float *x, double *exact, int n); /* may be NULL */
    double limit;                                            /* ULP; 0: exact; HALF: correctly rounded */
    shape shape;
    bool slope;           /* the gradient instead of the value */
    double near[2], term; /* about an irrational zero, where terms cancel: the unit there is the term's */
} function;

/* libm's functions of vectors, where there are any: taken in loops marked as such, and nowhere else. */
#if defined(__x86_64__) && defined(__GLIBC__) && defined(__GNUC__) && !defined(__clang__)
#if __GLIBC_PREREQ(2, 35)
#define OF_VECTORS _Pragma("omp declare simd notinbranch") extern double
OF_VECTORS exp(double);
OF_VECTORS expm1(double);
OF_VECTORS log(double);
OF_VECTORS log1p(double);
OF_VECTORS sin(double);
OF_VECTORS cos(double);
OF_VECTORS tanh(double);
OF_VECTORS cosh(double);
OF_VECTORS erfc(double);
OF_VECTORS asin(double);
OF_VECTORS atan(double);
#endif
#define FOR_EACH_ISA __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define FOR_EACH_ISA
#endif

#define HALF 0.5000001 /* the last digits are those of a double rounding */

/* ---- exact values ---- */
/* What is beyond the reach of floats is slow in functions of vectors.
 * By bits, lest the compiler take the function before the bound. */
static double within(double x, double most)
{
    uint64_t bits, bound, sign;
    memcpy(&bits, &x, sizeof bits);
    memcpy(&bound, &most, sizeof bound);
    sign = bits >> 63 << 63, bits ^= sign;
    bits = (bits < bound ? bits : bound) | sign;
    memcpy(&x, &bits, sizeof x);
    return x;
}
static double power(double x)
{
    double result = exp(within(x, 200));
    return isnan(x) ? x : result * (x >= -200);
}
static double logarithm(double x)
{
    double result = log(fabs(x));
    return x < 0 ? NAN : result;
}

static double same(double x) { return x; }
static double negative(double x) { return -x; }
static double sign(double x) { return (x > 0) - (x < 0); }
static double relu(double x) { return x < 0 ? 0 : x; }
static double rsqrt(double x) { return 1 / sqrt(x); }
static double reciprocal(double x) { return 1 / x; }
static double sigmoid(double x)
{
    double e = power(-fabs(x));
    return (x < 0 ? e : 1) / (1 + e);
}
static double is_zero(double x) { return x == 0; }
static double not_zero(double x) { return x != 0; }
static double to_bfloat16(double x) { return samba_bfloat16_to_float(samba_float_to_bfloat16((float)x)); }
static double to_float16(double x) { return samba_float16_to_float(samba_float_to_float16((float)x)); }
static double softplus(double x) { return (x > 0 ? x : 0) + log1p(power(-fabs(x))); }
static double silu(double x) { return x == -INFINITY ? NAN : x * sigmoid(x); }
static double silu_slope(double x) { return isinf(x) ? NAN : sigmoid(x) * (1 + x * sigmoid(-x)); }
static double mish(double x) { return x == -INFINITY ? NAN : x * tanh(softplus(x)); }
static double mish_slope(double x)
{
    double over = 1 / cosh(softplus(x)), slope = tanh(softplus(x)) + x * sigmoid(x) * over * over;
    return isinf(x) ? NAN : slope == 0 ? -0.0 : slope; /* it leaves double's range from below 0 */
}
static double gelu(double x) { return x * 0.5 * erfc(-x * M_SQRT1_2); }
static double gelu_slope_far(double x)
{
    double slope = 0.5 * erfc(-x * M_SQRT1_2) + x * power(-0.5 * x * x) * (M_2_SQRTPI * M_SQRT1_2 / 2);
    return isinf(x) ? NAN : x < -20 ? -0.0 : slope;
}
static double gelu_slope(double x)
{
    if (fabs(x + 0.75) < 0.01) { /* double's last digit counts at the zero */
        long double wide = x;
        return (double)(erfcl(-wide * 0.707106781186547524400844L) / 2 +
                        wide * expl(-wide * wide / 2) * 0.398942280401432677939946L);
    }
    return gelu_slope_far(x);
}
/* (1 + tanh(y / 2)) / 2 = sigmoid y */
static double bent(double x) { return 2 * M_2_SQRTPI * M_SQRT1_2 * (x + 0.044715 * x * x * x); }
static double gelu_tanh(double x) { return x * sigmoid(bent(x)); }
static double gelu_tanh_slope(double x)
{
    double s = sigmoid(bent(x)),
           slope = s + x * s * sigmoid(-bent(x)) * (2 * M_2_SQRTPI * M_SQRT1_2 * (1 + 3 * 0.044715 * x * x));
    return isinf(x) ? NAN : s == 0 ? -0.0 : s == 1 ? 1 : slope;
}
static double log_sigmoid(double x) { return -softplus(-x); }
static double softplus_2(double x) { return x > 10 ? x : softplus(2 * x) / 2; }
static double elu(double x) { return x > 0 ? x : expm1(x); }
static double celu(double x) { return x > 0 ? x : 1.5 * expm1(x / 1.5); }
static double selu(double x)
{
    return 1.0507009873554804934193349852946 * (x > 0 ? x : 1.6732632423543772848170429916717 * expm1(x));
}
static double leaky_relu(double x) { return x > 0 ? x : 0.01 * x; }
static double hardtanh(double x) { return x < -1 ? -1 : x > 1 ? 1 : x; }
static double relu6(double x) { return x <= 0 ? 0 : x > 6 ? 6 : x; }
static double hardsigmoid(double x) { return x <= -3 ? 0 : x >= 3 ? 1 : (x + 3) / 6; }
static double hardswish(double x) { return x <= -3 ? x * 0 : x >= 3 ? x : x * (x + 3) / 6; }
static double threshold(double x) { return x <= 0.5 ? 20 : x; }
static double softsign(double x) { return x / (1 + fabs(x)); }
static double hardshrink(double x) { return fabs(x) <= 0.5 ? 0 : x; }
static double softshrink(double x) { return x > 0.5 ? x - 0.5 : x < -0.5 ? x + 0.5 : x * 0; }
static double tanhshrink(double x)
{
    double z = x * x;
    return fabs(x) < 0.02 ? x * z * (1.0 / 3 - z * (2.0 / 15 - z * (17.0 / 315 - z * 62 / 2835))) : x - tanh(x);
}
static double square(double x) { return x * x; }
static double cube(double x) { return x * x * x; }
static double frac(double x) { return x - trunc(x); }
/* the product is rounded first, as in PyTorch */
static double to_tenths(double x) { return nearbyintf((float)x * 10.0f) / 10.0f; }
static double logit(double x) { return fabs(2 * x - 1) < 0.5 ? log1p((2 * x - 1) / (1 - x)) : logarithm(x / (1 - x)); }
static double logit_inside(double x) { return logit(x < (double)0.1f ? (double)0.1f : x > (double)0.9f ? (double)0.9f : x); }
static double entr(double x) { return x < 0 ? -INFINITY : x == 0 ? 0 : -x * logarithm(x); }
static double is_nan(double x) { return isnan(x); }
static double is_finite(double x) { return isfinite(x); }

/* ---- by another way, as good to 2^-40 of itself and more ---- */
static double other_log1p(double x)
{
    double u = 1 + x;
    return u == 1 || u == INFINITY ? x : logarithm(u) * (x / (u - 1));
}
static double other_exp2(double x) { return power(x * M_LN2); }
static double other_log2(double x) { return logarithm(x) * M_LOG2E; }
static double other_log10(double x) { return logarithm(x) * M_LOG10E; }
static double other_tan(double x) { return sin(x) / cos(x); }
static double other_asin(double x) { return atan(x / sqrt((1 - x) * (1 + x))); }
static double other_acos(double x) { return 2 * atan(sqrt((1 - x) / (1 + x))); }
static double other_atan(double x)
{
    double t = fabs(x), y = t > 1 ? 1 / t : t, angle = asin(y / sqrt(1 + y * y));
    return copysign(t > 1 ? M_PI_2 - angle : angle, x);
}
static double other_sinh(double x)
{
    double t = expm1(fabs(x));
    return copysign(t == INFINITY ? t : 0.5 * (t + t / (t + 1)), x);
}
static double other_cosh(double x)
{
    double t = power(fabs(x));
    return 0.5 * (t + 1 / t);
}
static double other_asinh(double x)
{
    double t = fabs(x);
    return copysign(other_log1p(t == INFINITY ? t : t + t * t / (1 + sqrt(t * t + 1))), x);
}
static double other_acosh(double x) { return x < 1 ? NAN : other_log1p(x - 1 + sqrt(fabs((x - 1) * (x + 1)))); }
static double other_atanh(double x)
{
    double t = fabs(x);
    return copysign(0.5 * other_log1p(2 * t / (1 - t)), x);
}
static double other_erf(double x)
{
    double z = x * x, near = x * M_2_SQRTPI * (1 - z / 3 + z * z / 10), far = copysign(1 - erfc(fabs(within(x, 20))), x);
    return fabs(x) < 0x1p-9 ? near : isnan(x) ? x : far;
}
static double other_softplus(double x) { return (x > 0 ? x : 0) + other_log1p(power(-fabs(x))); }
static double other_softplus_2(double x) { return x > 10 ? x : other_softplus(2 * x) / 2; }
static double other_log_sigmoid(double x) { return -other_softplus(-x); }
static double other_logit(double x)
{
    return fabs(2 * x - 1) < 0.5 ? other_log1p((2 * x - 1) / (1 - x)) : logarithm(x / (1 - x));
}
static double other_logit_inside(double x)
{
    return other_logit(x < (double)0.1f ? (double)0.1f : x > (double)0.9f ? (double)0.9f : x);
}

/* ---- of many floats at once ---- */
#define ALL_AS(name, value)                                                                                                      \
    FOR_EACH_ISA __attribute__((flatten)) static void all_##name(const float *x, double *exact, int n)                           \
    {                                                                                                                            \
        _Pragma("omp simd") for (int i = 0; i < n; i++) exact[i] = value(x[i]);                                                  \
    }
#define ALL(name) ALL_AS(name, name)
/* clang-format off */
ALL(same) ALL(negative) ALL(fabs) ALL(sign) ALL(expm1) ALL(sin) ALL(cos) ALL(floor) ALL(ceil) ALL(trunc) ALL(nearbyint)
ALL(sqrt) ALL(rsqrt) ALL(reciprocal) ALL(tanh) ALL(sigmoid) ALL(relu) ALL(is_zero) ALL(not_zero) ALL(to_bfloat16) ALL(to_float16)
ALL(gelu) ALL(gelu_tanh) ALL(gelu_tanh_slope) ALL(silu) ALL(silu_slope) ALL(mish) ALL(mish_slope) ALL(entr) ALL(elu) ALL(celu)
ALL(selu) ALL(leaky_relu) ALL(hardtanh) ALL(relu6) ALL(hardsigmoid) ALL(hardswish) ALL(threshold) ALL(softsign) ALL(tanhshrink)
ALL(hardshrink) ALL(softshrink) ALL(square) ALL(cube) ALL(frac) ALL(to_tenths) ALL(is_nan) ALL(is_finite)
ALL_AS(gelu_slope, gelu_slope_far) ALL_AS(exp, power) ALL_AS(log, logarithm)
#define OTHER(name) ALL_AS(name, other_##name)
OTHER(log1p) OTHER(exp2) OTHER(log2) OTHER(log10) OTHER(tan) OTHER(asin) OTHER(acos) OTHER(atan) OTHER(sinh) OTHER(cosh)
OTHER(asinh) OTHER(acosh) OTHER(atanh) OTHER(erf) OTHER(softplus) OTHER(softplus_2) OTHER(log_sigmoid) OTHER(logit)
OTHER(logit_inside)
    /* clang-format on */

    /* ---- as traced ---- */
    static samba_value as_float(samba_value x)
{
    return samba_cast(x, SAMBA_FLOAT32);
}
static samba_value t_not_zero(samba_value x) { return as_float(samba_cast(x, SAMBA_BOOL)); }
static samba_value t_logical_not(samba_value x) { return as_float(samba_logical_not(x)); }
static samba_value t_isnan(samba_value x) { return as_float(samba_isnan(x)); }
static samba_value t_isfinite(samba_value x) { return as_float(samba_isfinite(x)); }
static samba_value t_bfloat16(samba_value x) { return as_float(samba_cast(x, SAMBA_BFLOAT16)); }
static samba_value t_float16(samba_value x) { return as_float(samba_cast(x, SAMBA_FLOAT16)); }
static samba_value t_float64(samba_value x) { return as_float(samba_cast(x, SAMBA_FLOAT64)); }
static samba_value t_softplus(samba_value x) { return samba_softplus_beta(x, 2, 20); }
static samba_value t_elu(samba_value x) { return samba_elu(x, 1); }
static samba_value t_celu(samba_value x) { return samba_celu(x, 1.5); }
static samba_value t_leaky_relu(samba_value x) { return samba_leaky_relu(x, 0.01); }
static samba_value t_hardtanh(samba_value x) { return samba_hardtanh(x, -1, 1); }
static samba_value t_threshold(samba_value x) { return samba_threshold(x, 0.5, 20); }
static samba_value t_hardshrink(samba_value x) { return samba_hardshrink(x, 0.5); }
static samba_value t_softshrink(samba_value x) { return samba_softshrink(x, 0.5); }
static samba_value t_cube(samba_value x) { return samba_pow_scalar(x, 3); }
static samba_value t_tenths(samba_value x) { return samba_round_decimals(x, 1); }
static samba_value t_logit(samba_value x) { return samba_logit(x, -1); }
static samba_value t_logit_inside(samba_value x) { return samba_logit(x, (double)0.1f); }

#define VALUE(name, traced, exact, limit, shape)                                                                                 \
    {                                                                                                                            \
        name, traced, exact, all_##exact, limit, shape, false, {0, 0}, 0                                                         \
    }
#define SLOPE(name, traced, exact, from, to, term)                                                                               \
    {                                                                                                                            \
        name, traced, exact, all_##exact, 4, NONE, true, {from, to}, term                                                        \
    }
static const function functions[] = {
    /* operators of the graph */
    VALUE("neg", samba_neg, negative, 0, FALLING),
    VALUE("abs", samba_abs, fabs, 0, VALLEY),
    VALUE("sign", samba_sign, sign, 0, RISING),
    VALUE("exp", samba_exp, exp, 4, RISING),
    VALUE("log", samba_log, log, 4, RISING),
    VALUE("log1p", samba_log1p, log1p, 4, RISING),
    VALUE("expm1", samba_expm1, expm1, 4, RISING),
    VALUE("sin", samba_sin, sin, 4, NONE),
    VALUE("cos", samba_cos, cos, 4, NONE),
    VALUE("floor", samba_floor, floor, 0, RISING),
    VALUE("ceil", samba_ceil, ceil, 0, RISING),
    VALUE("trunc", samba_trunc, trunc, 0, RISING),
    VALUE("round", samba_round, nearbyint, 0, RISING),
    VALUE("exp2", samba_exp2, exp2, 4, RISING),
    VALUE("log2", samba_log2, log2, 4, RISING),
    VALUE("log10", samba_log10, log10, 4, RISING),
    VALUE("tan", samba_tan, tan, 4, NONE),
    VALUE("asin", samba_asin, asin, 4, RISING),
    VALUE("acos", samba_acos, acos, 4, FALLING),
    VALUE("atan", samba_atan, atan, 4, RISING),
    VALUE("sinh", samba_sinh, sinh, 4, RISING),
    VALUE("cosh", samba_cosh, cosh, 4, VALLEY),
    VALUE("asinh", samba_asinh, asinh, 4, RISING),
    VALUE("acosh", samba_acosh, acosh, 4, RISING),
    VALUE("atanh", samba_atanh, atanh, 4, RISING),
    VALUE("sqrt", samba_sqrt, sqrt, HALF, RISING),
    VALUE("rsqrt", samba_rsqrt, rsqrt, 4, FALLING),
    VALUE("reciprocal", samba_reciprocal, reciprocal, HALF, FALLING),
    VALUE("tanh", samba_tanh, tanh, 4, RISING),
    VALUE("sigmoid", samba_sigmoid, sigmoid, 4, RISING),
    VALUE("relu", samba_relu, relu, 0, RISING),
    VALUE("erf", samba_erf, erf, 4, RISING),
    {"erfc", samba_erfc, erfc, NULL, 4, FALLING, false, {0, 0}, 0},
    VALUE("logical_not", t_logical_not, is_zero, 0, NONE),
    VALUE("cast bool", t_not_zero, not_zero, 0, NONE),
    VALUE("cast bfloat16", t_bfloat16, to_bfloat16, 0, RISING),
    VALUE("cast float16", t_float16, to_float16, 0, RISING),
    VALUE("cast float64", t_float64, same, 0, RISING),
    VALUE("gelu", samba_gelu, gelu, 4, NONE),
    SLOPE("gelu_grad", samba_gelu, gelu_slope, 0, 0, 0),
    VALUE("gelu_tanh", samba_gelu_tanh, gelu_tanh, 4, NONE),
    SLOPE("gelu_tanh_grad", samba_gelu_tanh, gelu_tanh_slope, -1, -0.5, 0.1),
    VALUE("silu", samba_silu, silu, 4, NONE),
    SLOPE("silu_grad", samba_silu, silu_slope, -1.5, -1.1, 0.1),
    VALUE("mish", samba_mish, mish, 4, NONE),
    SLOPE("mish_grad", samba_mish, mish_slope, -1.4, -1, 0.1),
    VALUE("softplus", samba_softplus, softplus, 4, RISING),
    VALUE("logit", t_logit, logit, 4, RISING),
    VALUE("entr", samba_entr, entr, 4, NONE),
    /* composed of them */
    VALUE("softplus 2", t_softplus, softplus_2, 4, RISING),
    VALUE("log_sigmoid", samba_log_sigmoid, log_sigmoid, 4, RISING),
    VALUE("elu", t_elu, elu, 4, RISING),
    VALUE("celu", t_celu, celu, 4, RISING),
    VALUE("selu", samba_selu, selu, 4, RISING),
    VALUE("leaky_relu", t_leaky_relu, leaky_relu, 1, RISING), /* 0.01 is rounded too */
    VALUE("hardtanh", t_hardtanh, hardtanh, 0, RISING),
    VALUE("relu6", samba_relu6, relu6, 0, RISING),
    VALUE("hardsigmoid", samba_hardsigmoid, hardsigmoid, 4, RISING),
    VALUE("hardswish", samba_hardswish, hardswish, 4, NONE),
    VALUE("threshold", t_threshold, threshold, 0, NONE),
    VALUE("softsign", samba_softsign, softsign, 4, RISING),
    VALUE("tanhshrink", samba_tanhshrink, tanhshrink, 4, RISING),
    VALUE("hardshrink", t_hardshrink, hardshrink, 0, RISING),
    VALUE("softshrink", t_softshrink, softshrink, HALF, RISING),
    VALUE("square", samba_square, square, HALF, VALLEY),
    VALUE("pow 3", t_cube, cube, 4, RISING),
    VALUE("frac", samba_frac, frac, 0, NONE),
    VALUE("round 1", t_tenths, to_tenths, 0, RISING),
    VALUE("logit 0.1", t_logit_inside, logit_inside, 4, RISING),
    VALUE("isnan", t_isnan, is_nan, 0, NONE),
    VALUE("isfinite", t_isfinite, is_finite, 0, NONE),
};
enum { FUNCTIONS = sizeof functions / sizeof functions[0] };

/* ---- of two operands ---- */
typedef struct pair_function {
    const char *name;
    samba_value (*traced)(samba_value, samba_value);
    double (*exact)(double, double);
    double limit;
} pair_function;

static double plus(double x, double y) { return x + y; }
static double minus(double x, double y) { return x - y; }
static double times(double x, double y) { return x * y; }
static double over(double x, double y) { return x / y; }
static double rest_down(double x, double y)
{
    double rest = fmod(x, y);
    return rest != 0 && (rest < 0) != (y < 0) ? rest + y : rest;
}
static double greater(double x, double y) { return isnan(x) || x > y ? x : y; }
static double less(double x, double y) { return isnan(x) || x < y ? x : y; }
static double greater_number(double x, double y) { return x >= y || isnan(y) ? x : y; }
static double less_number(double x, double y) { return x <= y || isnan(y) ? x : y; }
static double logaddexp(double x, double y) { return x == y ? x + M_LN2 : fmax(x, y) + log1p(exp(-fabs(x - y))); }
static double xlogy(double x, double y) { return isnan(y) ? y : x == 0 ? 0 : x * log(y); }
static double truncated(double x, double y) { return truncf((float)(x / y)); } /* of the rounded quotient, as in PyTorch */

static const pair_function pair_functions[] = {
    {"add", samba_add, plus, HALF},
    {"sub", samba_sub, minus, HALF},
    {"mul", samba_mul, times, HALF},
    {"div", samba_div, over, HALF},
    {"pow", samba_pow, pow, 4},
    {"fmod", samba_fmod, fmod, 0},
    {"remainder", samba_remainder, rest_down, HALF},
    {"trunc_divide", samba_trunc_divide, truncated, 0},
    {"atan2", samba_atan2, atan2, 4},
    {"hypot", samba_hypot, hypot, 4},
    {"copysign", samba_copysign, copysign, 0},
    {"maximum", samba_maximum, greater, 0},
    {"minimum", samba_minimum, less, 0},
    {"fmax", samba_fmax, greater_number, 0},
    {"fmin", samba_fmin, less_number, 0},
    {"logaddexp", samba_logaddexp, logaddexp, 4},
    {"xlogy", samba_xlogy, xlogy, 4},
};
enum { PAIR_FUNCTIONS = sizeof pair_functions / sizeof pair_functions[0] };

#endif
