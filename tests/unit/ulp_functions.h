/* SPDX-License-Identifier: Apache-2.0
 *
 * What test_ulp.c measures: every operator of one float32 operand, functions composed of several, the slopes that have a kernel
 * of their own, and functions of two operands. Each as a user gets it, traced; beside it the exact value by libm in double, whose
 * own error is nothing beside a float's, the allowed units in the last place, and where it rises and falls. */
#ifndef SAMBA_TEST_ULP_FUNCTIONS_H
#define SAMBA_TEST_ULP_FUNCTIONS_H

#include "tile_values.h"
#include <sambaflow/activation.h>
#include <sambaflow/elementwise.h>

typedef enum shape { NONE, RISING, FALLING, VALLEY } shape; /* FALLING: on each side of 0; VALLEY: falls below 0, rises above */

typedef struct function {
    const char *name;
    samba_value (*traced)(samba_value); /* NULL: `with` a number, or without that a cast */
    double (*exact)(double);
    double limit; /* ULP; 0: exact; HALF: correctly rounded */
    shape shape;
    bool slope; /* the gradient instead of the value */
    samba_value (*with)(samba_value, double);
    double number;
    samba_dtype cast;
    double near[2], term; /* about an irrational zero, where terms cancel: the unit there is the term's */
} function;

#define HALF 0.5000001 /* the last digits are those of a double rounding */

/* ---- exact values ---- */
static double same(double x) { return x; }
static double negative(double x) { return -x; }
static double sign(double x) { return (x > 0) - (x < 0); }
static double relu(double x) { return x < 0 ? 0 : x; }
static double rsqrt(double x) { return 1 / sqrt(x); }
static double reciprocal(double x) { return 1 / x; }
static double is_zero(double x) { return x == 0; }
static double not_zero(double x) { return x != 0; }
static double to_bfloat16(double x) { return samba_bfloat16_to_float(samba_float_to_bfloat16((float)x)); }
static double to_float16(double x) { return samba_float16_to_float(samba_float_to_float16((float)x)); }
static double softplus(double x) { return (x > 0 ? x : 0) + log1p(exp(-fabs(x))); }
static double silu_slope(double x) { return isinf(x) ? NAN : sigmoid_of(x) * (1 + x * sigmoid_of(-x)); }
static double mish_slope(double x)
{
    double over = 1 / cosh(softplus(x)), slope = tanh(softplus(x)) + x * sigmoid_of(x) * over * over;
    return isinf(x) ? NAN : slope == 0 ? -0.0 : slope; /* it leaves double's range from below 0 */
}
static double gelu(double x) { return x * 0.5 * erfc(-x * M_SQRT1_2); }
static double gelu_slope(double x)
{
    if (fabs(x + 0.75) < 0.01) { /* double's last digit counts at the zero */
        long double wide = x;
        return (double)(erfcl(-wide * 0.707106781186547524400844L) / 2 +
                        wide * expl(-wide * wide / 2) * 0.398942280401432677939946L);
    }
    double slope = 0.5 * erfc(-x * M_SQRT1_2) + x * exp(-0.5 * x * x) * (M_2_SQRTPI * M_SQRT1_2 / 2);
    return isinf(x) ? NAN : x < -20 ? -0.0 : slope;
}
/* (1 + tanh(y / 2)) / 2 = sigmoid y */
static double bent(double x) { return 2 * M_2_SQRTPI * M_SQRT1_2 * (x + 0.044715 * x * x * x); }
static double gelu_tanh(double x) { return x * sigmoid_of(bent(x)); }
static double gelu_tanh_slope(double x)
{
    double s = sigmoid_of(bent(x)),
           slope = s + x * s * sigmoid_of(-bent(x)) * (2 * M_2_SQRTPI * M_SQRT1_2 * (1 + 3 * 0.044715 * x * x));
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
static double hardswish_slope(double x) { return x <= -3 ? 0 : x >= 3 ? 1 : (2 * x + 3) / 6; }
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
static double logit(double x) { return fabs(2 * x - 1) < 0.5 ? log1p((2 * x - 1) / (1 - x)) : log(x / (1 - x)); }
static double logit_inside(double x) { return logit(x < (double)0.1f ? (double)0.1f : x > (double)0.9f ? (double)0.9f : x); }
static double entr(double x) { return x < 0 ? -INFINITY : x == 0 ? 0 : -x * log(x); }
static double is_nan(double x) { return isnan(x); }
static double is_finite(double x) { return isfinite(x); }

/* ---- as traced ---- */
static samba_value t_softplus(samba_value x) { return samba_softplus_beta(x, 2, 20); }
static samba_value t_hardtanh(samba_value x) { return samba_hardtanh(x, -1, 1); }
static samba_value t_threshold(samba_value x) { return samba_threshold(x, 0.5, 20); }
static samba_value t_tenths(samba_value x) { return samba_round_decimals(x, 1); }

/* Operators of the graph, then what is composed of them (leaky_relu's 0.01 is rounded too). */
static const function functions[] = {
    {"neg", samba_neg, negative, 0, .shape = FALLING},
    {"abs", samba_abs, fabs, 0, .shape = VALLEY},
    {"sign", samba_sign, sign, 0, .shape = RISING},
    {"exp", samba_exp, exp, 4, .shape = RISING},
    {"log", samba_log, log, 4, .shape = RISING},
    {"log1p", samba_log1p, log1p, 4, .shape = RISING},
    {"expm1", samba_expm1, expm1, 4, .shape = RISING},
    {"sin", samba_sin, sin, .limit = 4},
    {"cos", samba_cos, cos, .limit = 4},
    {"floor", samba_floor, floor, 0, .shape = RISING},
    {"ceil", samba_ceil, ceil, 0, .shape = RISING},
    {"trunc", samba_trunc, trunc, 0, .shape = RISING},
    {"round", samba_round, nearbyint, 0, .shape = RISING},
    {"exp2", samba_exp2, exp2, 4, .shape = RISING},
    {"log2", samba_log2, log2, 4, .shape = RISING},
    {"log10", samba_log10, log10, 4, .shape = RISING},
    {"tan", samba_tan, tan, .limit = 4},
    {"asin", samba_asin, asin, 4, .shape = RISING},
    {"acos", samba_acos, acos, 4, .shape = FALLING},
    {"atan", samba_atan, atan, 4, .shape = RISING},
    {"sinh", samba_sinh, sinh, 4, .shape = RISING},
    {"cosh", samba_cosh, cosh, 4, .shape = VALLEY},
    {"asinh", samba_asinh, asinh, 4, .shape = RISING},
    {"acosh", samba_acosh, acosh, 4, .shape = RISING},
    {"atanh", samba_atanh, atanh, 4, .shape = RISING},
    {"sqrt", samba_sqrt, sqrt, HALF, .shape = RISING},
    {"rsqrt", samba_rsqrt, rsqrt, 4, .shape = FALLING},
    {"reciprocal", samba_reciprocal, reciprocal, HALF, .shape = FALLING},
    {"tanh", samba_tanh, tanh, 4, .shape = RISING},
    {"sigmoid", samba_sigmoid, sigmoid_of, 4, .shape = RISING},
    {"relu", samba_relu, relu, 0, .shape = RISING},
    {"erf", samba_erf, erf, 4, .shape = RISING},
    {"erfc", samba_erfc, erfc, 4, .shape = FALLING},
    {"lgamma", samba_lgamma, lgamma, .limit = 4},
    {"digamma", samba_digamma, digamma_of, .limit = 2},
    {"trigamma", samba_digamma, trigamma_of, .limit = 2, .slope = true},
    {"logical_not", samba_logical_not, is_zero, .limit = 0},
    {"cast bool", NULL, not_zero, .limit = 0, .cast = SAMBA_BOOL},
    {"cast bfloat16", NULL, to_bfloat16, 0, .shape = RISING, .cast = SAMBA_BFLOAT16},
    {"cast float16", NULL, to_float16, 0, .shape = RISING, .cast = SAMBA_FLOAT16},
    {"cast float64", NULL, same, 0, .shape = RISING, .cast = SAMBA_FLOAT64},
    {"gelu", samba_gelu, gelu, .limit = 4},
    {"gelu_grad", samba_gelu, gelu_slope, .limit = 4, .slope = true},
    {"gelu_tanh", samba_gelu_tanh, gelu_tanh, .limit = 4},
    {"gelu_tanh_grad", samba_gelu_tanh, gelu_tanh_slope, 4, .slope = true, .near = {-1, -0.5}, .term = 0.1},
    {"silu", samba_silu, silu_of, .limit = 4},
    {"silu_grad", samba_silu, silu_slope, 4, .slope = true, .near = {-1.5, -1.1}, .term = 0.1},
    {"mish", samba_mish, mish_of, .limit = 4},
    {"mish_grad", samba_mish, mish_slope, 4, .slope = true, .near = {-1.4, -1}, .term = 0.1},
    {"softplus", samba_softplus, softplus, 4, .shape = RISING},
    {"logit", NULL, logit, 4, .shape = RISING, .with = samba_logit, .number = -1},
    {"entr", samba_entr, entr, .limit = 4},
    {"softplus 2", t_softplus, softplus_2, 4, .shape = RISING},
    {"log_sigmoid", samba_log_sigmoid, log_sigmoid, 4, .shape = RISING},
    {"elu", NULL, elu, 4, .shape = RISING, .with = samba_elu, .number = 1},
    {"celu", NULL, celu, 4, .shape = RISING, .with = samba_celu, .number = 1.5},
    {"selu", samba_selu, selu, 4, .shape = RISING},
    {"leaky_relu", NULL, leaky_relu, 1, .shape = RISING, .with = samba_leaky_relu, .number = 0.01},
    {"hardtanh", t_hardtanh, hardtanh, 0, .shape = RISING},
    {"relu6", samba_relu6, relu6, 0, .shape = RISING},
    {"hardsigmoid", samba_hardsigmoid, hardsigmoid, 4, .shape = RISING},
    {"hardswish", samba_hardswish, hardswish, .limit = 4},
    {"hardswish_grad", samba_hardswish, hardswish_slope, .limit = 4, .slope = true},
    {"threshold", t_threshold, threshold, .limit = 0},
    {"softsign", samba_softsign, softsign, 4, .shape = RISING},
    {"tanhshrink", samba_tanhshrink, tanhshrink, 4, .shape = RISING},
    {"hardshrink", NULL, hardshrink, 0, .shape = RISING, .with = samba_hardshrink, .number = 0.5},
    {"softshrink", NULL, softshrink, HALF, .shape = RISING, .with = samba_softshrink, .number = 0.5},
    {"square", samba_square, square, HALF, .shape = VALLEY},
    {"pow 3", NULL, cube, 4, .shape = RISING, .with = samba_pow_scalar, .number = 3},
    {"frac", samba_frac, frac, .limit = 0},
    {"round 1", t_tenths, to_tenths, 0, .shape = RISING},
    {"logit 0.1", NULL, logit_inside, 4, .shape = RISING, .with = samba_logit, .number = (double)0.1f},
    {"isnan", samba_isnan, is_nan, .limit = 0},
    {"isfinite", samba_isfinite, is_finite, .limit = 0}};
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
static double greater(double x, double y) { return isnan(x) || x > y ? x : y; }
static double less(double x, double y) { return isnan(x) || x < y ? x : y; }
static double greater_number(double x, double y) { return x >= y || isnan(y) ? x : y; }
static double less_number(double x, double y) { return x <= y || isnan(y) ? x : y; }
static double logaddexp(double x, double y) { return x == y ? x + M_LN2 : fmax(x, y) + log1p(exp(-fabs(x - y))); }
static double xlogy(double x, double y) { return isnan(y) ? y : x == 0 ? 0 : x * log(y); }
static double truncated(double x, double y) { return truncf((float)(x / y)); } /* of the rounded quotient, as in PyTorch */

static const pair_function pair_functions[] = {{"add", samba_add, plus, HALF},
                                               {"sub", samba_sub, minus, HALF},
                                               {"mul", samba_mul, times, HALF},
                                               {"div", samba_div, over, HALF},
                                               {"pow", samba_pow, pow, 4},
                                               {"fmod", samba_fmod, fmod, 0},
                                               {"remainder", samba_remainder, remainder_of, HALF},
                                               {"trunc_divide", samba_trunc_divide, truncated, 0},
                                               {"atan2", samba_atan2, atan2, 4},
                                               {"hypot", samba_hypot, hypot, 4},
                                               {"copysign", samba_copysign, copysign, 0},
                                               {"maximum", samba_maximum, greater, 0},
                                               {"minimum", samba_minimum, less, 0},
                                               {"fmax", samba_fmax, greater_number, 0},
                                               {"fmin", samba_fmin, less_number, 0},
                                               {"logaddexp", samba_logaddexp, logaddexp, 4},
                                               {"xlogy", samba_xlogy, xlogy, 4}};
enum { PAIR_FUNCTIONS = sizeof pair_functions / sizeof pair_functions[0] };

#endif
