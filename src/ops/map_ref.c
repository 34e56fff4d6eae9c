/* SPDX-License-Identifier: Apache-2.0
 *
 * The values of elementwise operators. Floats of every width are computed in double and rounded once, on store; integers and
 * bools in int64_t, which wraps, and are reduced to their dtype on store (a bool is then 1 where not 0: add is "or", mul is
 * "and"). So each operator is at most two functions on numbers, and the loops stand here once. */
#include "ops/families.h"
#include <math.h>

typedef double real_unary(double a);
typedef int64_t int_unary(int64_t a);
typedef double real_binary(double a, double b);
typedef int64_t int_binary(int64_t a, int64_t b);

static bool is_real(const samba_array *array) { return samba_dtype_is_floating_point(array->dtype); }

samba_status samba_reference_of_one(const samba_reference *reference, double (*f)(double))
{
    for (int64_t i = 0; i < reference->output->numel; i++)
        samba_array_set_double(reference->output, i, f(samba_array_double(&reference->inputs[0], i)));
    return SAMBA_OK;
}

samba_status samba_reference_of_two(const samba_reference *reference, double (*f)(double, double))
{
    const samba_array *a = &reference->inputs[0], *b = &reference->inputs[1], *y = reference->output;
    for (int64_t i = 0; i < y->numel; i++)
        samba_array_set_double(
            y, i,
            f(samba_array_double(a, samba_broadcast_offset(a, y, i)), samba_array_double(b, samba_broadcast_offset(b, y, i))));
    return SAMBA_OK;
}

/* `on_ints` is NULL for operators that inference keeps from integers. */
static samba_status unary(const samba_reference *reference, real_unary *on_reals, int_unary *on_ints)
{
    const samba_array *a = &reference->inputs[0], *output = reference->output;
    for (int64_t i = 0; i < output->numel; i++) {
        if (is_real(a))
            samba_array_set_double(output, i, on_reals(samba_array_double(a, i)));
        else
            samba_array_set_int64(output, i, on_ints(samba_array_int64(a, i)));
    }
    return SAMBA_OK;
}

static samba_status binary(const samba_reference *reference, real_binary *on_reals, int_binary *on_ints)
{
    const samba_array *a = &reference->inputs[0], *b = &reference->inputs[1], *output = reference->output;
    for (int64_t i = 0; i < output->numel; i++) {
        int64_t ai = samba_broadcast_offset(a, output, i), bi = samba_broadcast_offset(b, output, i);
        if (is_real(a))
            samba_array_set_double(output, i, on_reals(samba_array_double(a, ai), samba_array_double(b, bi)));
        else
            samba_array_set_int64(output, i, on_ints(samba_array_int64(a, ai), samba_array_int64(b, bi)));
    }
    return SAMBA_OK;
}

/* ---- one operand ---- */

static int64_t wrap(uint64_t bits) { return (int64_t)bits; } /* signed overflow is undefined, unsigned wraps */

static double neg_real(double a) { return -a; }
static int64_t neg_int(int64_t a) { return wrap(0 - (uint64_t)a); }
samba_status samba_ref_neg(const samba_reference *reference) { return unary(reference, neg_real, neg_int); }

static int64_t abs_int(int64_t a) { return a < 0 ? neg_int(a) : a; }
samba_status samba_ref_abs(const samba_reference *reference) { return unary(reference, fabs, abs_int); }

static double sign_real(double a) { return (a > 0) - (a < 0); } /* NaN has sign 0, as in PyTorch */
static int64_t sign_int(int64_t a) { return (a > 0) - (a < 0); }
samba_status samba_ref_sign(const samba_reference *reference) { return unary(reference, sign_real, sign_int); }

samba_status samba_ref_exp(const samba_reference *reference) { return unary(reference, exp, NULL); }
samba_status samba_ref_log(const samba_reference *reference) { return unary(reference, log, NULL); }
samba_status samba_ref_log1p(const samba_reference *reference) { return unary(reference, log1p, NULL); }
samba_status samba_ref_expm1(const samba_reference *reference) { return unary(reference, expm1, NULL); }
samba_status samba_ref_sin(const samba_reference *reference) { return unary(reference, sin, NULL); }
samba_status samba_ref_cos(const samba_reference *reference) { return unary(reference, cos, NULL); }
samba_status samba_ref_sqrt(const samba_reference *reference) { return unary(reference, sqrt, NULL); }
samba_status samba_ref_tanh(const samba_reference *reference) { return unary(reference, tanh, NULL); }
samba_status samba_ref_erf(const samba_reference *reference) { return unary(reference, erf, NULL); }

static double rsqrt_real(double a) { return 1 / sqrt(a); }
samba_status samba_ref_rsqrt(const samba_reference *reference) { return unary(reference, rsqrt_real, NULL); }

static double reciprocal_real(double a) { return 1 / a; }
samba_status samba_ref_reciprocal(const samba_reference *reference) { return unary(reference, reciprocal_real, NULL); }

static double sigmoid_real(double a) { return 1 / (1 + exp(-a)); }
samba_status samba_ref_sigmoid(const samba_reference *reference) { return unary(reference, sigmoid_real, NULL); }

static double relu_real(double a) { return a < 0 ? 0 : a; } /* keeps NaN and -0 */
static int64_t relu_int(int64_t a) { return a < 0 ? 0 : a; }
samba_status samba_ref_relu(const samba_reference *reference) { return unary(reference, relu_real, relu_int); }

static int64_t whole_int(int64_t a) { return a; }
samba_status samba_ref_floor(const samba_reference *reference) { return unary(reference, floor, whole_int); }
samba_status samba_ref_ceil(const samba_reference *reference) { return unary(reference, ceil, whole_int); }
samba_status samba_ref_trunc(const samba_reference *reference) { return unary(reference, trunc, whole_int); }
samba_status samba_ref_round(const samba_reference *reference) { return unary(reference, nearbyint, whole_int); }

static int64_t not_int(int64_t a) { return a == 0; }
static int64_t bits_not(int64_t a) { return ~a; }
samba_status samba_ref_bitwise_not(const samba_reference *reference) { return unary(reference, NULL, bits_not); }
samba_status samba_ref_logical_not(const samba_reference *reference) { return unary(reference, NULL, not_int); }

/* Truncation, wrapping, rounding and "is not 0" are those of the stores. */
static double whole_real(double a) { return a; }
samba_status samba_ref_cast(const samba_reference *reference) { return unary(reference, whole_real, whole_int); }

/* ---- two operands ---- */

static double add_real(double a, double b) { return a + b; }
static int64_t add_int(int64_t a, int64_t b) { return wrap((uint64_t)a + (uint64_t)b); }
samba_status samba_ref_add(const samba_reference *reference) { return binary(reference, add_real, add_int); }

static double sub_real(double a, double b) { return a - b; }
static int64_t sub_int(int64_t a, int64_t b) { return wrap((uint64_t)a - (uint64_t)b); }
samba_status samba_ref_sub(const samba_reference *reference) { return binary(reference, sub_real, sub_int); }

static double mul_real(double a, double b) { return a * b; }
static int64_t mul_int(int64_t a, int64_t b) { return wrap((uint64_t)a * (uint64_t)b); }
samba_status samba_ref_mul(const samba_reference *reference) { return binary(reference, mul_real, mul_int); }

static double div_real(double a, double b) { return a / b; }
samba_status samba_ref_div(const samba_reference *reference) { return binary(reference, div_real, NULL); }

/* Quotients rounded down or towards 0, and what is left of a. PyTorch raises an error where an integer is divided by 0; a
 * compiled graph gives 0, as NumPy does, both as quotient and as rest.
 * The greatest negative integer by -1 wraps to itself, and leaves 0. */
static int64_t trunc_divide_int(int64_t a, int64_t b) { return b == 0 ? 0 : b == -1 ? neg_int(a) : a / b; }
static int64_t fmod_int(int64_t a, int64_t b) { return b == 0 || b == -1 ? 0 : a % b; }
static int64_t remainder_int(int64_t a, int64_t b)
{
    int64_t left = fmod_int(a, b);
    return left != 0 && (left < 0) != (b < 0) ? left + b : left;
}
static int64_t floor_divide_int(int64_t a, int64_t b)
{
    int64_t left = fmod_int(a, b);
    return trunc_divide_int(a, b) - (left != 0 && (left < 0) != (b < 0));
}

static double remainder_real(double a, double b)
{
    double left = fmod(a, b);
    return left != 0 && (left < 0) != (b < 0) ? left + b : left;
}
/* Python's: from the exact rest, since a / b may have been rounded up to the next integer. */
static double floor_divide_real(double a, double b)
{
    if (b == 0)
        return a / b;
    double left = fmod(a, b), quotient = (a - left) / b;
    if (left != 0 && (left < 0) != (b < 0))
        quotient -= 1;
    if (quotient == 0)
        return copysign(0, a / b);
    double below = floor(quotient);
    return quotient - below > 0.5 ? below + 1 : below;
}
static double trunc_divide_real(double a, double b) { return trunc(a / b); }
static double trunc_divide_float(double a, double b) { return truncf((float)(a / b)); } /* of the rounded quotient, as PyTorch */
samba_status samba_ref_floor_divide(const samba_reference *reference)
{
    return binary(reference, floor_divide_real, floor_divide_int);
}
samba_status samba_ref_trunc_divide(const samba_reference *reference)
{
    return binary(reference, reference->output->dtype == SAMBA_FLOAT64 ? trunc_divide_real : trunc_divide_float,
                  trunc_divide_int);
}
samba_status samba_ref_remainder(const samba_reference *reference) { return binary(reference, remainder_real, remainder_int); }
samba_status samba_ref_fmod(const samba_reference *reference) { return binary(reference, fmod, fmod_int); }

static int64_t and_int(int64_t a, int64_t b) { return a & b; }
static int64_t or_int(int64_t a, int64_t b) { return a | b; }
static int64_t xor_int(int64_t a, int64_t b) { return a ^ b; }
samba_status samba_ref_bitwise_and(const samba_reference *reference) { return binary(reference, NULL, and_int); }
samba_status samba_ref_bitwise_or(const samba_reference *reference) { return binary(reference, NULL, or_int); }
samba_status samba_ref_bitwise_xor(const samba_reference *reference) { return binary(reference, NULL, xor_int); }

/* Shifts by less than 0, or by the width and more, shift everything out: 0, or the sign on the right, as in PyTorch. */
static int64_t left_int(int64_t a, int64_t b) { return b < 0 || b > 63 ? 0 : wrap((uint64_t)a << b); }
static int64_t right_int(int64_t a, int64_t b) { return a >> (b < 0 || b > 63 ? 63 : b); }
samba_status samba_ref_left_shift(const samba_reference *reference) { return binary(reference, NULL, left_int); }
samba_status samba_ref_right_shift(const samba_reference *reference) { return binary(reference, NULL, right_int); }

/* A negative power of an integer is the truncated quotient: of 1 and -1 again 1 or -1, of all others 0 (of 0 too, as in PyTorch).
 */
static int64_t pow_int(int64_t a, int64_t b)
{
    if (b < 0)
        return a == 1 ? 1 : a == -1 ? (b % 2 ? -1 : 1) : 0;
    int64_t result = 1;
    for (int64_t left = b; left > 0; left /= 2, a = mul_int(a, a))
        if (left % 2)
            result = mul_int(result, a);
    return result;
}
samba_status samba_ref_pow(const samba_reference *reference) { return binary(reference, pow, pow_int); }

static double maximum_real(double a, double b) { return isnan(a) || a > b ? a : b; } /* a NaN b is neither less nor greater */
static int64_t maximum_int(int64_t a, int64_t b) { return a > b ? a : b; }
samba_status samba_ref_maximum(const samba_reference *reference) { return binary(reference, maximum_real, maximum_int); }

static double minimum_real(double a, double b) { return isnan(a) || a < b ? a : b; }
static int64_t minimum_int(int64_t a, int64_t b) { return a < b ? a : b; }
samba_status samba_ref_minimum(const samba_reference *reference) { return binary(reference, minimum_real, minimum_int); }

/* ---- comparisons: the order of a and b is one of four, a NaN has none ---- */

enum { LESS = 1, EQUAL = 2, GREATER = 4, UNORDERED = 8 };

static samba_status compare(const samba_reference *reference, int wanted)
{
    const samba_array *a = &reference->inputs[0], *b = &reference->inputs[1], *output = reference->output;
    for (int64_t i = 0; i < output->numel; i++) {
        int64_t ai = samba_broadcast_offset(a, output, i), bi = samba_broadcast_offset(b, output, i);
        int order;
        if (is_real(a)) {
            double x = samba_array_double(a, ai), y = samba_array_double(b, bi);
            order = x < y ? LESS : x == y ? EQUAL : x > y ? GREATER : UNORDERED;
        } else {
            int64_t x = samba_array_int64(a, ai), y = samba_array_int64(b, bi);
            order = x < y ? LESS : x == y ? EQUAL : GREATER;
        }
        samba_array_set_int64(output, i, (order & wanted) != 0);
    }
    return SAMBA_OK;
}

samba_status samba_ref_eq(const samba_reference *reference) { return compare(reference, EQUAL); }
samba_status samba_ref_ne(const samba_reference *reference) { return compare(reference, LESS | GREATER | UNORDERED); }
samba_status samba_ref_lt(const samba_reference *reference) { return compare(reference, LESS); }
samba_status samba_ref_le(const samba_reference *reference) { return compare(reference, LESS | EQUAL); }
samba_status samba_ref_gt(const samba_reference *reference) { return compare(reference, GREATER); }
samba_status samba_ref_ge(const samba_reference *reference) { return compare(reference, GREATER | EQUAL); }

samba_status samba_ref_where(const samba_reference *reference)
{
    const samba_array *condition = &reference->inputs[0], *output = reference->output;
    for (int64_t i = 0; i < output->numel; i++) {
        bool first = samba_array_int64(condition, samba_broadcast_offset(condition, output, i)) != 0;
        const samba_array *taken = &reference->inputs[first ? 1 : 2];
        int64_t at = samba_broadcast_offset(taken, output, i);
        if (is_real(output))
            samba_array_set_double(output, i, samba_array_double(taken, at));
        else
            samba_array_set_int64(output, i, samba_array_int64(taken, at));
    }
    return SAMBA_OK;
}

/* From the nearer end, so that both ends are met. */
static double lerp(double a, double b, double weight)
{
    return fabs(weight) < 0.5 ? a + weight * (b - a) : b - (b - a) * (1 - weight);
}

samba_status samba_ref_lerp(const samba_reference *reference)
{
    const samba_array *in = reference->inputs, *y = reference->output;
    double x[3];
    for (int64_t i = 0; i < y->numel; i++) {
        for (int k = 0; k < 3; k++)
            x[k] = samba_array_double(&in[k], samba_broadcast_offset(&in[k], y, i));
        samba_array_set_double(y, i, lerp(x[0], x[1], x[2]));
    }
    return SAMBA_OK;
}
