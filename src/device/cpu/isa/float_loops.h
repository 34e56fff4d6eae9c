/* SPDX-License-Identifier: Apache-2.0
 *
 * Loops over functions of vector_math.h: exp_floats(d, a, n) and its like. By AVX-512 they are 16 floats at a time, the last of
 * them too, by its own instructions, which take powers of two apart, put them together and choose what special numbers give; the
 * bits are vector_math.h's. */
#ifndef SAMBA_CPU_FLOAT_LOOPS_H
#define SAMBA_CPU_FLOAT_LOOPS_H

#include "device/cpu/isa/isa.h"
#include "device/cpu/isa/lanes.h"
#include "device/cpu/isa/vector_math.h"

#if defined(__AVX512F__)
#define ALL(x) _mm512_set1_ps(x)
#define STEP(q, x, c) _mm512_fmadd_ps(q, x, ALL(c))

/* exp(r) - 1 of x = k ln2 + r: vector_math.h's exp_reduced, with k as a float */
static inline __m512 exp_reduced16(__m512 x, __m512 *whole)
{
    const __m512 magic = ALL(12582912.0f);
    *whole = _mm512_sub_ps(_mm512_fmadd_ps(x, ALL(1.44269502f), magic), magic);
    __m512 r = _mm512_fmadd_ps(*whole, ALL(2.12194442e-4f), _mm512_fmadd_ps(*whole, ALL(-0.693359375f), x));
    __m512 q = ALL(1.38706563e-3f);
    q = STEP(q, r, 8.36626161e-3f);
    q = STEP(q, r, 4.16674353e-2f);
    q = STEP(q, r, 1.66665465e-1f);
    q = STEP(q, r, 4.9999997e-1f);
    return _mm512_fmadd_ps(_mm512_mul_ps(q, r), r, r);
}

/* A NaN is the second operand, which these instructions give then. */
static inline __m512 exp16(__m512 x)
{
    __m512 whole, rise = exp_reduced16(_mm512_max_ps(ALL(-104.0f), _mm512_min_ps(ALL(89.0f), x)), &whole);
    return _mm512_scalef_ps(_mm512_add_ps(rise, ALL(1.0f)), whole);
}

/* x = 2^e (1 + f), sqrt(1/2) <= 1 + f < sqrt(2), of positive numbers, subnormal ones too */
static inline __m512 log_split16(__m512 x, __m512 *e)
{
    __m512 m = _mm512_getmant_ps(x, _MM_MANT_NORM_1_2, _MM_MANT_SIGN_nan);
    __mmask16 great = _mm512_cmp_ps_mask(m, ALL(0x1.6a09e6p0f), _CMP_GE_OQ);
    *e = _mm512_getexp_ps(x);
    *e = _mm512_mask_add_ps(*e, great, *e, ALL(1.0f));
    return _mm512_sub_ps(_mm512_mask_mul_ps(m, great, m, ALL(0.5f)), ALL(1.0f));
}

static inline __m512 log_bend16(__m512 f)
{
    __m512 q = ALL(-7.63442963e-2f);
    q = STEP(q, f, 1.27615497e-1f);
    q = STEP(q, f, -1.31601945e-1f);
    q = STEP(q, f, 1.42017618e-1f);
    q = STEP(q, f, -1.66233569e-1f);
    q = STEP(q, f, 2.00012267e-1f);
    q = STEP(q, f, -2.50008225e-1f);
    q = STEP(q, f, 3.33333313e-1f);
    return STEP(q, f, -0.5f);
}

static inline __m512 log_sum16(__m512 f, __m512 e)
{
    __m512 tail = _mm512_fmadd_ps(log_bend16(f), _mm512_mul_ps(f, f), _mm512_mul_ps(e, ALL(-2.12194442e-4f)));
    return _mm512_fmadd_ps(e, ALL(0.693359375f), _mm512_add_ps(f, tail));
}

/* y, the logarithm of x > 0; of others what C's gives. A nibble for each kind of x: quiet and signaling NaN, 0, 1, -infinity,
 * infinity, negative, positive; 0 is y, 2 x as a quiet NaN, 3 NaN, 4 -infinity, 5 infinity. */
static inline __m512 log_or_special16(__m512 x, __m512 y) { return _mm512_fixupimm_ps(y, x, _mm512_set1_epi32(0x03530422), 0); }

static inline __m512 log16(__m512 x)
{
    __m512 e, f = log_split16(x, &e);
    return log_or_special16(x, log_sum16(f, e));
}

static inline __m512 log_by16(__m512 x, float u, float u_rest, float v, float v_rest)
{
    __m512 e, f = log_split16(x, &e), main = _mm512_mul_ps(f, ALL(v));
    __m512 lost = _mm512_fmadd_ps(f, ALL(v_rest), _mm512_fmsub_ps(f, ALL(v), main));
    __m512 rest = _mm512_fmadd_ps(_mm512_mul_ps(log_bend16(f), _mm512_mul_ps(f, f)), ALL(v), lost);
    rest = _mm512_fmadd_ps(e, ALL(u_rest), rest);
    return log_or_special16(x, _mm512_fmadd_ps(e, ALL(u), _mm512_add_ps(main, rest)));
}
static inline __m512 log2_16(__m512 x) { return log_by16(x, 1.0f, 0.0f, 1.44269502f, 1.92596303e-8f); }
static inline __m512 log10_16(__m512 x) { return log_by16(x, 0.30078125f, 2.48745664e-4f, 0.434294492f, -1.0103051e-8f); }

/* vector_logit. Above 1 odds are negative, whose mantissa is NaN. */
static inline __m512 logit16(__m512 x)
{
    const __m512 one = ALL(1.0f);
    __m512 other = _mm512_sub_ps(one, x), lost = _mm512_sub_ps(_mm512_sub_ps(one, other), x), over = _mm512_div_ps(one, other);
    __m512 odds = _mm512_mul_ps(x, over), rest = _mm512_fnmadd_ps(odds, lost, _mm512_fnmadd_ps(odds, other, x));
    __m512 e, f = log_split16(odds, &e), scale = _mm512_scalef_ps(one, _mm512_sub_ps(_mm512_setzero_ps(), e));
    __mmask16 normal = _mm512_cmp_ps_mask(odds, ALL(1.17549435e-38f), _CMP_GE_OQ);
    f = _mm512_mask3_fmadd_ps(_mm512_mul_ps(rest, over), scale, f, normal);
    return _mm512_fixupimm_ps(log_sum16(f, e), x, _mm512_set1_epi32(0x03335422), 0);
}

/* sqrt by Newton's step to 1 / sqrt(x), then what is left of x: rounded as the instruction does, in half its time. Where x is so
 * small that what is left is subnormal, the instruction. */
static inline __m512 sqrt16(__m512 x)
{
    if (_mm512_cmp_ps_mask(x, ALL(0x1p-100f), _CMP_LT_OQ) != 0)
        return _mm512_sqrt_ps(x);
    __m512 over = _mm512_rsqrt14_ps(x), root = _mm512_mul_ps(x, over), half = _mm512_mul_ps(over, ALL(0.5f));
    __m512 step = _mm512_fnmadd_ps(root, half, ALL(0.5f));
    root = _mm512_fmadd_ps(root, step, root);
    half = _mm512_fmadd_ps(half, step, half);
    root = _mm512_fmadd_ps(_mm512_fnmadd_ps(root, root, x), half, root);
    return _mm512_fixupimm_ps(root, x, _mm512_set1_epi32(0x00500000), 0); /* infinity */
}

#define FLOAT_LOOP(name, expression, sixteen)                                                                                    \
    static inline void name##_floats(float *d, const float *a, int64_t n)                                                        \
    {                                                                                                                            \
        for (; n >= 16; n -= 16, d += 16, a += 16)                                                                               \
            _mm512_storeu_ps(d, sixteen(_mm512_loadu_ps(a)));                                                                    \
        __mmask16 rest = (__mmask16)((1u << n) - 1);                                                                             \
        if (n > 0)                                                                                                               \
            _mm512_mask_storeu_ps(d, rest, sixteen(_mm512_maskz_loadu_ps(rest, a)));                                             \
    }
#undef ALL
#undef STEP
#else
#define FLOAT_LOOP(name, expression, sixteen)                                                                                    \
    static inline void name##_floats(float *d, const float *a, int64_t n)                                                        \
    {                                                                                                                            \
        SAMBA_VECTOR_LOOP for (int64_t i = 0; i < n; i++) {                                                                      \
            float x = a[i];                                                                                                      \
            d[i] = expression;                                                                                                   \
        }                                                                                                                        \
    }
#endif

FLOAT_LOOP(exp, vector_exp(x), exp16)
FLOAT_LOOP(log, vector_log(x), log16)
FLOAT_LOOP(log2, vector_log2(x), log2_16)
FLOAT_LOOP(log10, vector_log10(x), log10_16)
FLOAT_LOOP(logit, vector_logit(x), logit16)
FLOAT_LOOP(sqrt, sqrtf(x), sqrt16)

#endif
