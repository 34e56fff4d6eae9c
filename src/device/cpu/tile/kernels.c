/* SPDX-License-Identifier: Apache-2.0
 *
 * Element-wise kernels, and the table of all kernels of one ISA. Compiled once for each ISA: plain loops that the compiler
 * turns into vector code. A row below reads: operator, class, types, expression in x, y (sources) and, for where, the
 * condition. Integers wrap. */
#include "device/cpu/isa/uncontracted.h"
#include "device/cpu/isa/unrolled.h"
#include "device/cpu/isa/float_loops.h"
#include "device/cpu/isa/lanes.h"
#include "device/cpu/isa/vector_activation.h"
#include "device/cpu/isa/vector_angle.h"
#include "device/cpu/isa/vector_erf.h"
#include "device/cpu/isa/vector_gamma.h"
#include "device/cpu/product/blocks.h"
#include "device/cpu/tile/parts.h"
#include <float.h>
#include <string.h>

static inline int64_t wrap_add(int64_t x, int64_t y) { return (int64_t)((uint64_t)x + (uint64_t)y); }
static inline int64_t wrap_sub(int64_t x, int64_t y) { return (int64_t)((uint64_t)x - (uint64_t)y); }
static inline int64_t wrap_mul(int64_t x, int64_t y) { return (int64_t)((uint64_t)x * (uint64_t)y); }

/* x^y by squaring; a negative power of anything but 1 and -1 truncates to 0 */
static inline int64_t integer_power(int64_t x, int64_t y)
{
    if (y < 0)
        return x == 1 ? 1 : x == -1 ? (y % 2 ? -1 : 1) : 0;
    int64_t result = 1;
    for (; y > 0; y >>= 1, x = wrap_mul(x, x))
        result = y & 1 ? wrap_mul(result, x) : result;
    return result;
}

/* Division by 0 gives 0, quotient and rest (ops/map_ref.c). */
static inline int64_t integer_quotient(int64_t x, int64_t y) { return y == 0 ? 0 : y == -1 ? wrap_sub(0, x) : x / y; }
static inline int64_t integer_rest(int64_t x, int64_t y) { return y == 0 || y == -1 ? 0 : x % y; }
static inline int64_t integer_remainder(int64_t x, int64_t y)
{
    int64_t rest = integer_rest(x, y);
    return rest != 0 && (rest < 0) != (y < 0) ? rest + y : rest;
}
static inline int64_t integer_floor_divide(int64_t x, int64_t y)
{
    int64_t rest = integer_rest(x, y);
    return integer_quotient(x, y) - (rest != 0 && (rest < 0) != (y < 0));
}
static inline int64_t shifted_left(int64_t x, int64_t y) { return y < 0 || y > 63 ? 0 : (int64_t)((uint64_t)x << (y & 63)); }
static inline int64_t shifted_right(int64_t x, int64_t y) { return x >> (y < 0 || y > 63 ? 63 : y); }

/* Numbers that int64 cannot hold, and NaN, become 0. */
static inline int64_t truncate_f32(float x) { return x >= -0x1p63f && x < 0x1p63f ? (int64_t)x : 0; }
static inline int64_t truncate_f64(double x) { return x >= -0x1p63 && x < 0x1p63 ? (int64_t)x : 0; }

#define HEAD(name) static void name(void *d_, const void *a_, const void *b_, const void *c_, int64_t n)

#define UNARY(name, class, result, type, expression)                                                                             \
    HEAD(name##_##class)                                                                                                         \
    {                                                                                                                            \
        result *d = d_;                                                                                                          \
        const type *a = a_;                                                                                                      \
        (void)b_, (void)c_;                                                                                                      \
        SAMBA_VECTOR_LOOP for (int64_t i = 0; i < n; i++) {                                                                      \
            type x = a[i];                                                                                                       \
            d[i] = (result)(expression);                                                                                         \
        }                                                                                                                        \
    }

#define BINARY(name, class, result, type, expression)                                                                            \
    HEAD(name##_##class)                                                                                                         \
    {                                                                                                                            \
        result *d = d_;                                                                                                          \
        const type *a = a_, *b = b_;                                                                                             \
        (void)c_;                                                                                                                \
        SAMBA_VECTOR_LOOP for (int64_t i = 0; i < n; i++) {                                                                      \
            type x = a[i], y = b[i];                                                                                             \
            d[i] = (result)(expression);                                                                                         \
        }                                                                                                                        \
    }

/* A function that float_loops.h has */
#define FLOATS_BY(name)                                                                                                          \
    HEAD(name##_f32)                                                                                                             \
    {                                                                                                                            \
        (void)b_, (void)c_;                                                                                                      \
        name##_floats(d_, a_, n);                                                                                                \
    }

/* An expression that calls functions of the C library. Their vector code and their plain code differ in last bits, so all
 * elements take the same code: so many at a time, the last of a tile filled up with ones. A value that the backward computes
 * again in another tile is then the same value, as a comparison with it needs (the gradient of amax). */
enum { CALLS = 16 };
#define CALLED(name, class, result, type, expression, second)                                                                    \
    static __attribute__((noinline)) void name##_##class##_calls(result *d, const type *a, const type *b)                        \
    {                                                                                                                            \
        (void)b;                                                                                                                 \
        SAMBA_VECTOR_LOOP for (int i = 0; i < CALLS; i++) {                                                                      \
            type x = a[i], y = b[i];                                                                                             \
            (void)y;                                                                                                             \
            d[i] = (result)(expression);                                                                                         \
        }                                                                                                                        \
    }                                                                                                                            \
    HEAD(name##_##class)                                                                                                         \
    {                                                                                                                            \
        result *d = d_, rest[CALLS];                                                                                             \
        const type *a = a_, *b = second;                                                                                         \
        type x[CALLS], y[CALLS];                                                                                                 \
        int64_t done = 0;                                                                                                        \
        (void)b_, (void)c_;                                                                                                      \
        for (; done + CALLS <= n; done += CALLS)                                                                                 \
            name##_##class##_calls(d + done, a + done, b + done);                                                                \
        if (done == n)                                                                                                           \
            return;                                                                                                              \
        for (int i = 0; i < CALLS; i++) {                                                                                        \
            x[i] = done + i < n ? a[done + i] : 1;                                                                               \
            y[i] = done + i < n ? b[done + i] : 1;                                                                               \
        }                                                                                                                        \
        name##_##class##_calls(rest, x, y);                                                                                      \
        memcpy(d + done, rest, (size_t)(n - done) * sizeof *rest);                                                               \
    }
#define CALLED1(name, class, result, type, expression) CALLED(name, class, result, type, expression, a_)
#define CALLED2(name, class, result, type, expression) CALLED(name, class, result, type, expression, b_)

#define TERNARY(name, class, type, expression)                                                                                   \
    HEAD(name##_##class)                                                                                                         \
    {                                                                                                                            \
        type *d = d_;                                                                                                            \
        const type *a = a_, *b = b_, *c = c_;                                                                                    \
        SAMBA_VECTOR_LOOP for (int64_t i = 0; i < n; i++) {                                                                      \
            type x = a[i], y = b[i], z = c[i];                                                                                   \
            d[i] = expression;                                                                                                   \
        }                                                                                                                        \
    }

#define WHERE(class, type)                                                                                                       \
    HEAD(where_##class)                                                                                                          \
    {                                                                                                                            \
        type *d = d_;                                                                                                            \
        const float *a = a_;                                                                                                     \
        const type *b = b_, *c = c_;                                                                                             \
        SAMBA_VECTOR_LOOP for (int64_t i = 0; i < n; i++) {                                                                      \
            type x = b[i], y = c[i];                                                                                             \
            d[i] = a[i] != 0.0f ? x : y;                                                                                         \
        }                                                                                                                        \
    }

/* operators whose expression is the same for all classes */
#define EACH_CLASS(class, type)                                                                                                  \
    UNARY(sign, class, type, type, (x > 0) - (x < 0))                                                                            \
    UNARY(logical_not, class, type, type, x == 0)                                                                                \
    UNARY(not_zero, class, float, type, x != 0)                                                                                  \
    BINARY(maximum, class, type, type, greater_##class(x, y))                                                                    \
    BINARY(minimum, class, type, type, lesser_##class(x, y))                                                                     \
    BINARY(eq, class, float, type, x == y)                                                                                       \
    BINARY(ne, class, float, type, x != y)                                                                                       \
    BINARY(lt, class, float, type, x < y)                                                                                        \
    BINARY(le, class, float, type, x <= y)                                                                                       \
    BINARY(gt, class, float, type, x > y)                                                                                        \
    BINARY(ge, class, float, type, x >= y)                                                                                       \
    WHERE(class, type)
EACH_CLASS(f32, float)
EACH_CLASS(f64, double)
EACH_CLASS(i64, int64_t)

#define EACH_FLOAT(class, type, one)                                                                                             \
    UNARY(neg, class, type, type, -x)                                                                                            \
    UNARY(reciprocal, class, type, type, one / x)                                                                                \
    BINARY(add, class, type, type, x + y)                                                                                        \
    BINARY(sub, class, type, type, x - y)                                                                                        \
    BINARY(mul, class, type, type, x *y)                                                                                         \
    BINARY(div, class, type, type, x / y)
EACH_FLOAT(f32, float, 1.0f)
EACH_FLOAT(f64, double, 1.0)

UNARY(abs, f32, float, float, fabsf(x))
UNARY(abs, f64, double, double, fabs(x))
FLOATS_BY(sqrt)
UNARY(sqrt, f64, double, double, sqrt(x))
UNARY(rsqrt, f32, float, float, 1.0f / sqrtf(x))
UNARY(rsqrt, f64, double, double, 1.0 / sqrt(x))
FLOATS_BY(exp)
CALLED1(exp, f64, double, double, exp(x))
FLOATS_BY(log)
CALLED1(log, f64, double, double, log(x))
UNARY(expm1, f32, float, float, vector_expm1(x))
CALLED1(expm1, f64, double, double, expm1(x))
FLOATS_BY(log10)
CALLED1(log10, f64, double, double, log10(x))
FLOATS_BY(log2)
CALLED1(log2, f64, double, double, log2(x))
UNARY(tanhshrink, f32, float, float, vector_tanhshrink(x))
CALLED1(tanhshrink, f64, double, double, vector_tanhshrink64(x))
UNARY(atanh, f32, float, float, vector_atanh(x))
CALLED1(atanh, f64, double, double, atanh(x))
UNARY(sinh, f32, float, float, vector_sinh(x))
CALLED1(sinh, f64, double, double, sinh(x))
UNARY(log1p, f32, float, float, vector_log1p(x))
CALLED1(log1p, f64, double, double, log1p(x))
UNARY(exp2, f32, float, float, vector_exp2(x))
CALLED1(exp2, f64, double, double, exp2(x))
UNARY(erf, f32, float, float, vector_erf(x))
CALLED1(erf, f64, double, double, erf(x))
FLOATS_BY(erfc)
CALLED1(erfc, f64, double, double, erfc(x))
UNARY(asin, f32, float, float, vector_asin(x))
CALLED1(asin, f64, double, double, asin(x))
UNARY(acos, f32, float, float, vector_acos(x))
CALLED1(acos, f64, double, double, acos(x))
UNARY(atan, f32, float, float, vector_atan(x))
CALLED1(atan, f64, double, double, atan(x))
/* Great angles take longer, the greatest the C library's function: those alone, so that others keep their value whoever their
 * neighbours are. */
HEAD(tan_f32)
{
    (void)b_, (void)c_;
    for (int64_t done = 0; done < n; done += CALLS) {
        float *d = (float *)d_ + done, x[CALLS], great = 0;
        int count = n - done < CALLS ? (int)(n - done) : CALLS;
        for (int i = 0; i < count; i++) {
            x[i] = ((const float *)a_)[done + i];
            great = fabsf(x[i]) >= TAN_NEAR ? 1 : great;
        }
        SAMBA_VECTOR_LOOP for (int i = 0; i < count; i++)
            d[i] = vector_tan(x[i]);
        for (int i = 0; great != 0 && i < count; i++)
            if (fabsf(x[i]) >= TAN_NEAR)
                d[i] = fabsf(x[i]) < TAN_BOUND ? vector_tan_far(x[i]) : (float)tan((double)x[i]);
    }
}
CALLED1(tan, f64, double, double, tan(x))
CALLED1(sin, f32, float, float, sinf(x))
CALLED1(sin, f64, double, double, sin(x))
CALLED1(cos, f32, float, float, cosf(x))
CALLED1(cos, f64, double, double, cos(x))
UNARY(relu, f32, float, float, chosen(x < 0, 0, x))
UNARY(relu, f64, double, double, x < 0 ? 0 : x)
UNARY(relu, i64, int64_t, int64_t, x < 0 ? 0 : x)
UNARY(floor, f32, float, float, floorf(x))
UNARY(floor, f64, double, double, floor(x))
UNARY(floor, i64, int64_t, int64_t, x)
UNARY(ceil, f32, float, float, ceilf(x))
UNARY(ceil, f64, double, double, ceil(x))
UNARY(ceil, i64, int64_t, int64_t, x)
UNARY(trunc, f32, float, float, truncf(x))
UNARY(trunc, f64, double, double, trunc(x))
UNARY(trunc, i64, int64_t, int64_t, x)
UNARY(frac, f32, float, float, x - truncf(x))
UNARY(frac, f64, double, double, x - trunc(x))
UNARY(round, f32, float, float, nearbyintf(x))
UNARY(round, f64, double, double, nearbyint(x))
UNARY(round, i64, int64_t, int64_t, x)
FLOATS_BY(tanh)
CALLED1(tanh, f64, double, double, tanh(x))
UNARY(sigmoid, f32, float, float, vector_sigmoid(x))
CALLED1(sigmoid, f64, double, double, vector_sigmoid64(x))
UNARY(gelu, f32, float, float, vector_gelu(x))
CALLED1(gelu, f64, double, double, vector_gelu64(x))
BINARY(gelu_grad, f32, float, float, y *vector_gelu_slope(x))
CALLED2(gelu_grad, f64, double, double, y *vector_gelu_slope64(x))
UNARY(gelu_tanh, f32, float, float, vector_gelu_tanh(x))
CALLED1(gelu_tanh, f64, double, double, vector_gelu_tanh64(x))
BINARY(gelu_tanh_grad, f32, float, float, y *vector_gelu_tanh_slope(x))
CALLED2(gelu_tanh_grad, f64, double, double, y *vector_gelu_tanh_slope64(x))
/* Expressions that value and slope share are computed once. */
static void gelu_tanh_both(float *grad, float *value, const float *a, const float *b, int64_t n)
{
    SAMBA_VECTOR_LOOP for (int64_t i = 0; i < n; i++) {
        float x = a[i], y = b[i], f = vector_gelu_tanh(x), g = y * vector_gelu_tanh_slope(x);
        value[i] = f;
        grad[i] = g;
    }
}

/* Functions that models seldom meet: double's, whose result is rounded once. They are right to half a unit and more, and as
 * monotone as they should be. */
#define BY_DOUBLE(name)                                                                                                          \
    CALLED1(name, f32, float, float, name((double)x))                                                                            \
    CALLED1(name, f64, double, double, name(x))
BY_DOUBLE(cosh)
BY_DOUBLE(asinh)
BY_DOUBLE(acosh)
/* Most distributions' arguments are positive. */
HEAD(lgamma_f32)
{
    float *d = d_;
    const float *a = a_;
    int positive = 1;
    (void)b_, (void)c_;
    SAMBA_VECTOR_LOOP for (int64_t i = 0; i < n; i++)
        positive &= a[i] > 0.0f;
    if (positive) SAMBA_VECTOR_LOOP
        for (int64_t i = 0; i < n; i++)
            d[i] = (float)vector_lgamma((double)a[i]);
    else SAMBA_VECTOR_LOOP
        for (int64_t i = 0; i < n; i++)
            d[i] = (float)vector_lgamma_reflected((double)a[i]);
}
CALLED1(lgamma, f64, double, double, double_lgamma(x))
UNARY(digamma, f32, float, float, vector_digamma((double)x))
CALLED1(digamma, f64, double, double, double_digamma(x))
UNARY(trigamma, f32, float, float, vector_trigamma((double)x))
CALLED1(trigamma, f64, double, double, double_trigamma(x))
BINARY(atan2, f32, float, float, vector_atan2(x, y))
CALLED2(atan2, f64, double, double, atan2(x, y))
BINARY(hypot, f32, float, float, vector_hypot(x, y))
CALLED2(hypot, f64, double, double, hypot(x, y))
BINARY(copysign, f32, float, float, copysignf(x, y))
BINARY(copysign, f64, double, double, copysign(x, y))

UNARY(silu, f32, float, float, vector_silu(x))
CALLED1(silu, f64, double, double, x *vector_sigmoid64(x))
BINARY(silu_grad, f32, float, float, y *vector_silu_slope(x))
CALLED2(silu_grad, f64, double, double, y *vector_silu_slope64(x))
UNARY(mish, f32, float, float, vector_mish(x))
CALLED1(mish, f64, double, double, vector_mish64(x))
BINARY(mish_grad, f32, float, float, y *vector_mish_slope(x))
CALLED2(mish_grad, f64, double, double, y *vector_mish_slope64(x))
UNARY(hardswish, f32, float, float, vector_hardswish(x))
UNARY(hardswish, f64, double, double, vector_hardswish64(x))
BINARY(hardswish_grad, f32, float, float, y *vector_hardswish_slope(x))
BINARY(hardswish_grad, f64, double, double, y *vector_hardswish_slope64(x))
UNARY(softsign, f32, float, float, vector_softsign(x))
UNARY(softsign, f64, double, double, x / (1 + fabs(x)))
BINARY(leaky_relu, f32, float, float, chosen(x > 0.0f, x, x *y))
BINARY(leaky_relu, f64, double, double, x > 0.0 ? x : x * y)
BINARY(hardshrink, f32, float, float, vector_hardshrink(x, y))
BINARY(hardshrink, f64, double, double, fabs(x) <= y ? 0.0 : x)
BINARY(softshrink, f32, float, float, vector_softshrink(x, y))
BINARY(softshrink, f64, double, double, vector_softshrink64(x, y))
FLOATS_BY(logit)
CALLED1(logit, f64, double, double, vector_logit64(x))
BINARY(logaddexp, f32, float, float, vector_logaddexp(x, y))
CALLED2(logaddexp, f64, double, double, vector_logaddexp64(x, y))

/* From the nearer end, so that both ends are met. */
TERNARY(lerp, f32, float, chosen(fabsf(z) < 0.5f, x + z * (y - x), y - (y - x) * (1.0f - z)))
TERNARY(lerp, f64, double, fabs(z) < 0.5 ? x + z * (y - x) : y - (y - x) * (1.0 - z))

/* The rest of a division. In double the quotient of two floats below 2^27 is truncated rightly, and the rest exact; others, and
 * what is not finite, send the tile to the C library. */
static inline bool has_plain_rest(float x, float y) { return fabsf(y) <= FLT_MAX && fabsf(x) < fabsf(y) * 0x1p27f; }
static inline double plain_quotient(double x, double y) { return trunc(x / y); }
static inline double plain_rest(double x, double y) { return copysign(x - plain_quotient(x, y) * y, x); }
static inline double remainder_of(double rest, double y) { return rest != 0 && (rest < 0) != (y < 0) ? rest + y : rest; }
static inline double floor_quotient(double x, double y, double rest, double quotient)
{
    quotient -= rest != 0 && (rest < 0) != (y < 0) ? 1 : 0;
    return quotient == 0 ? copysign(0, x / y) : quotient;
}
static inline double any_floor_quotient(double x, double y)
{
    double rest = fmod(x, y), quotient = floor_quotient(x, y, rest, (x - rest) / y), below = floor(quotient);
    return y == 0 ? x / y : quotient == 0 ? quotient : below + (quotient - below > 0.5 ? 1 : 0);
}

#define OF_REST(name, plain, any)                                                                                                \
    HEAD(name##_f32)                                                                                                             \
    {                                                                                                                            \
        float *d = d_;                                                                                                           \
        const float *a = a_, *b = b_;                                                                                            \
        int others = 0;                                                                                                          \
        (void)c_;                                                                                                                \
        for (int64_t i = 0; i < n; i++)                                                                                          \
            others |= !has_plain_rest(a[i], b[i]);                                                                               \
        if (others) {                                                                                                            \
            for (int64_t i = 0; i < n; i++) {                                                                                    \
                double x = a[i], y = b[i];                                                                                       \
                d[i] = (float)(any);                                                                                             \
            }                                                                                                                    \
            return;                                                                                                              \
        }                                                                                                                        \
        SAMBA_VECTOR_LOOP for (int64_t i = 0; i < n; i++) {                                                                      \
            double x = a[i], y = b[i], rest = plain_rest(x, y);                                                                  \
            d[i] = (float)(plain);                                                                                               \
        }                                                                                                                        \
    }                                                                                                                            \
    HEAD(name##_f64)                                                                                                             \
    {                                                                                                                            \
        double *d = d_;                                                                                                          \
        const double *a = a_, *b = b_;                                                                                           \
        (void)c_;                                                                                                                \
        for (int64_t i = 0; i < n; i++) {                                                                                        \
            double x = a[i], y = b[i];                                                                                           \
            d[i] = any;                                                                                                          \
        }                                                                                                                        \
    }
OF_REST(fmod, rest, fmod(x, y))
OF_REST(remainder, remainder_of(rest, y), remainder_of(fmod(x, y), y))
OF_REST(floor_divide, floor_quotient(x, y, rest, plain_quotient(x, y)), any_floor_quotient(x, y))
BINARY(trunc_divide, f32, float, float, truncf(x / y))
BINARY(trunc_divide, f64, double, double, trunc(x / y))

CALLED2(pow, f32, float, float, powf(x, y))
CALLED2(pow, f64, double, double, pow(x, y))
UNARY(round_bfloat16, f32, float, float, float_of_bfloat16(bfloat16_of_float(x)))
UNARY(round_float16, f32, float, float, float_of_float16(float16_of_float(x)))

UNARY(neg, i64, int64_t, int64_t, wrap_sub(0, x))
UNARY(abs, i64, int64_t, int64_t, x < 0 ? wrap_sub(0, x) : x)
BINARY(add, i64, int64_t, int64_t, wrap_add(x, y))
BINARY(sub, i64, int64_t, int64_t, wrap_sub(x, y))
BINARY(mul, i64, int64_t, int64_t, wrap_mul(x, y))
BINARY(pow, i64, int64_t, int64_t, integer_power(x, y))
BINARY(floor_divide, i64, int64_t, int64_t, integer_floor_divide(x, y))
BINARY(trunc_divide, i64, int64_t, int64_t, integer_quotient(x, y))
BINARY(remainder, i64, int64_t, int64_t, integer_remainder(x, y))
BINARY(fmod, i64, int64_t, int64_t, integer_rest(x, y))
UNARY(bitwise_not, i64, int64_t, int64_t, ~x)
BINARY(bitwise_and, i64, int64_t, int64_t, x &y)
BINARY(bitwise_or, i64, int64_t, int64_t, x | y)
BINARY(bitwise_xor, i64, int64_t, int64_t, x ^ y)
BINARY(left_shift, i64, int64_t, int64_t, shifted_left(x, y))
BINARY(right_shift, i64, int64_t, int64_t, shifted_right(x, y))
UNARY(wrap_int32, i64, int64_t, int64_t, (int32_t)x)
UNARY(wrap_int16, i64, int64_t, int64_t, (int16_t)x)
UNARY(wrap_int8, i64, int64_t, int64_t, (int8_t)x)
UNARY(wrap_uint8, i64, int64_t, int64_t, (uint8_t)x)

UNARY(f32, f32, float, float, x)
UNARY(f32, f64, double, float, x)
UNARY(f32, i64, int64_t, float, truncate_f32(x))
UNARY(f64, f32, float, double, x)
UNARY(f64, f64, double, double, x)
UNARY(f64, i64, int64_t, double, truncate_f64(x))
UNARY(i64, f32, float, int64_t, x)
UNARY(i64, f64, double, int64_t, x)
UNARY(i64, i64, int64_t, int64_t, x)

#define ALL(name) [SAMBA_TILE_##name] = {name##_f32, name##_f64, name##_i64}
#define FLOATS(name) [SAMBA_TILE_##name] = {name##_f32, name##_f64, NULL}
#define F32_ONLY(name) [SAMBA_TILE_##name] = {name##_f32, NULL, NULL}
#define I64_ONLY(name) [SAMBA_TILE_##name] = {NULL, NULL, name##_i64}
#define CLASSES(name)                                                                                                            \
    {                                                                                                                            \
        SAMBA_ISA_NAME(name##_f32), SAMBA_ISA_NAME(name##_f64), SAMBA_ISA_NAME(name##_i64)                                       \
    }

const samba_kernels SAMBA_ISA_NAME(samba_kernels) = {
    .isa = SAMBA_ISA_NUMBER,
    .lanes = VECTOR_BYTES / (int)sizeof(float),
    .vector_registers = VECTOR_REGISTERS,
    .fused = VECTOR_FUSED,
    .masked = VECTOR_MASKED,
    .blocks = &SAMBA_ISA_NAME(samba_blocks),
    .rows = &SAMBA_ISA_NAME(samba_rows),
    .stored = &SAMBA_ISA_NAME(samba_stored),
    .attention = &SAMBA_ISA_NAME(samba_attention_tiles),
    .map = {ALL(neg),
            ALL(abs),
            ALL(sign),
            ALL(relu),
            ALL(logical_not),
            ALL(not_zero),
            FLOATS(exp),
            FLOATS(log),
            FLOATS(sqrt),
            FLOATS(rsqrt),
            FLOATS(reciprocal),
            FLOATS(tanh),
            FLOATS(sigmoid),
            FLOATS(erf),
            FLOATS(log1p),
            FLOATS(expm1),
            FLOATS(sin),
            FLOATS(cos),
            ALL(floor),
            ALL(round),
            FLOATS(gelu),
            FLOATS(gelu_grad),
            FLOATS(gelu_tanh),
            FLOATS(gelu_tanh_grad),
            ALL(ceil),
            ALL(trunc),
            FLOATS(exp2),
            FLOATS(log2),
            FLOATS(log10),
            FLOATS(tan),
            FLOATS(asin),
            FLOATS(acos),
            FLOATS(atan),
            FLOATS(sinh),
            FLOATS(cosh),
            FLOATS(asinh),
            FLOATS(acosh),
            FLOATS(atanh),
            FLOATS(tanhshrink),
            FLOATS(erfc),
            FLOATS(lgamma),
            FLOATS(digamma),
            FLOATS(trigamma),
            FLOATS(atan2),
            FLOATS(hypot),
            FLOATS(copysign),
            FLOATS(silu),
            FLOATS(silu_grad),
            FLOATS(mish),
            FLOATS(mish_grad),
            FLOATS(hardswish),
            FLOATS(hardswish_grad),
            FLOATS(lerp),
            FLOATS(softsign),
            FLOATS(softshrink),
            FLOATS(leaky_relu),
            FLOATS(hardshrink),
            FLOATS(frac),
            FLOATS(logit),
            FLOATS(logaddexp),
            ALL(floor_divide),
            ALL(trunc_divide),
            ALL(remainder),
            ALL(fmod),
            I64_ONLY(bitwise_not),
            I64_ONLY(bitwise_and),
            I64_ONLY(bitwise_or),
            I64_ONLY(bitwise_xor),
            I64_ONLY(left_shift),
            I64_ONLY(right_shift),
            ALL(add),
            ALL(sub),
            ALL(mul),
            FLOATS(div),
            ALL(pow),
            ALL(maximum),
            ALL(minimum),
            ALL(eq),
            ALL(ne),
            ALL(lt),
            ALL(le),
            ALL(gt),
            ALL(ge),
            ALL(where),
            I64_ONLY(wrap_int32),
            I64_ONLY(wrap_int16),
            I64_ONLY(wrap_int8),
            I64_ONLY(wrap_uint8),
            F32_ONLY(round_bfloat16),
            F32_ONLY(round_float16)},
    .convert = {{f32_f32, f32_f64, f32_i64}, {f64_f32, f64_f64, f64_i64}, {i64_f32, i64_f64, i64_i64}},
#define DTYPE(name, memory, type) SAMBA_ISA_NAME(samba_load_##name),
    .load = {SAMBA_EACH_DTYPE(DTYPE)},
#undef DTYPE
#define DTYPE(name, memory, type) SAMBA_ISA_NAME(samba_store_##name),
    .store = {SAMBA_EACH_DTYPE(DTYPE)},
#undef DTYPE
#define DTYPE(name, memory, type) SAMBA_ISA_NAME(samba_load_strided_##name),
    .load_strided = {SAMBA_EACH_DTYPE(DTYPE)},
#undef DTYPE
#define DTYPE(name, memory, type) SAMBA_ISA_NAME(samba_store_strided_##name),
    .store_strided = {SAMBA_EACH_DTYPE(DTYPE)},
#undef DTYPE
    .fill = CLASSES(samba_fill),
    .spread = CLASSES(samba_spread),
    .reduce_sum = CLASSES(samba_sum),
    .reduce_prod = CLASSES(samba_prod),
    .reduce_amax = CLASSES(samba_amax),
    .reduce_amin = CLASSES(samba_amin),
    .reduce_argmax = CLASSES(samba_argmax),
    .standing_amax = CLASSES(samba_standing_amax),
    .standing_amin = CLASSES(samba_standing_amin),
    .standing_sum = CLASSES(samba_standing_sum),
    .standing_prod = CLASSES(samba_standing_prod),
    .standing_argmax = CLASSES(samba_standing_argmax),
    .running_extremes = CLASSES(samba_running_extremes),
    .collect_rows = CLASSES(samba_collect_rows),
    .collect_memory = {SAMBA_ISA_NAME(samba_collect_memory_f32), SAMBA_ISA_NAME(samba_collect_memory_f64),
                       SAMBA_ISA_NAME(samba_collect_memory_i64), SAMBA_ISA_NAME(samba_collect_memory_bf16)},
    .collect_numbers = {SAMBA_ISA_NAME(samba_collect_numbers_f32), NULL, NULL, SAMBA_ISA_NAME(samba_collect_numbers_bf16)},
    .collect_totals = CLASSES(samba_collect_totals),
    .total_f32 = SAMBA_ISA_NAME(samba_total_f32),
    .total_f64 = SAMBA_ISA_NAME(samba_total_f64),
    .total_i64 = SAMBA_ISA_NAME(samba_total_i64),
    .gelu_tanh_both = gelu_tanh_both,
    .combined = &SAMBA_ISA_NAME(samba_combined),
    .updates = &SAMBA_ISA_NAME(samba_updates),
    .moves = &SAMBA_ISA_NAME(samba_moves),
    .extremes = &SAMBA_ISA_NAME(samba_extremes),
    .random = SAMBA_ISA_NAME(samba_random),
    .pool_f32 = SAMBA_ISA_NAME(samba_pool_f32),
    .pool_f64 = SAMBA_ISA_NAME(samba_pool_f64),
    .pool_i64 = SAMBA_ISA_NAME(samba_pool_i64),
    .sample_f32 = SAMBA_ISA_NAME(samba_sample_f32),
    .sample_f64 = SAMBA_ISA_NAME(samba_sample_f64),
    .running_sum = SAMBA_ISA_NAME(samba_running_sum),
    .line_order = SAMBA_ISA_NAME(samba_line_order),
    .lines_order = SAMBA_ISA_NAME(samba_lines_order),
    .margin_f32 = SAMBA_ISA_NAME(samba_margin_f32),
    .margin_f64 = SAMBA_ISA_NAME(samba_margin_f64),
    .fourier_f32 = SAMBA_ISA_NAME(samba_fourier_f32),
    .fourier_f64 = SAMBA_ISA_NAME(samba_fourier_f64),
    .transform_f64 = SAMBA_ISA_NAME(samba_transform_f64),
    .lu = {SAMBA_ISA_NAME(samba_lu_f32), SAMBA_ISA_NAME(samba_lu_f64)},
    .few_svd = SAMBA_ISA_NAME(samba_few_svd),
    .few_eigh = SAMBA_ISA_NAME(samba_few_eigh),
    .triangle = {SAMBA_ISA_NAME(samba_triangle_f32), SAMBA_ISA_NAME(samba_triangle_f64)},
    .block_f32 = SAMBA_ISA_NAME(samba_block_f32),
    .block_f64 = SAMBA_ISA_NAME(samba_block_f64),
    .transpose4 = SAMBA_ISA_NAME(samba_transpose4),
    .transpose8 = SAMBA_ISA_NAME(samba_transpose8),
    .interleave2 = SAMBA_ISA_NAME(samba_interleave2),
};
