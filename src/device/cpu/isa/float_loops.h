/* SPDX-License-Identifier: Apache-2.0
 *
 * Loops over functions of vector_math.h: exp_floats(d, a, n) and its like. By AVX-512 they are 16 floats at a time, the last of
 * them too, by its own instructions, which take powers of two apart, put them together and choose what special numbers give; the
 * bits are vector_math.h's, but of tanh and erfc, which have tables. */
#ifndef SAMBA_CPU_FLOAT_LOOPS_H
#define SAMBA_CPU_FLOAT_LOOPS_H

#include "device/cpu/isa/isa.h"
#include "device/cpu/isa/lanes.h"
#include "device/cpu/isa/vector_erf.h"

#if defined(__AVX512F__)
#define ALL(x) _mm512_set1_ps(x)
#define STEP(q, x, c) _mm512_fmadd_ps(q, x, ALL(c))

static inline __m512 exp_rise16(__m512 r)
{
    __m512 q = ALL(1.38706563e-3f);
    q = STEP(q, r, 8.36626161e-3f);
    q = STEP(q, r, 4.16674353e-2f);
    q = STEP(q, r, 1.66665465e-1f);
    q = STEP(q, r, 4.9999997e-1f);
    return _mm512_fmadd_ps(_mm512_mul_ps(q, r), r, r);
}

/* exp(r) - 1 of x = k ln2 + r: vector_math.h's exp_reduced, with k as a float */
static inline __m512 exp_reduced16(__m512 x, __m512 *whole)
{
    const __m512 magic = ALL(12582912.0f);
    *whole = _mm512_sub_ps(_mm512_fmadd_ps(x, ALL(1.44269502f), magic), magic);
    return exp_rise16(_mm512_fmadd_ps(*whole, ALL(2.12194442e-4f), _mm512_fmadd_ps(*whole, ALL(-0.693359375f), x)));
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

/* A function of t = |x| by 32 polynomials, each for a quarter of an octave, 1/16 <= t < 16, about its middle; the first about 0
 * and for all that is less. Coefficients are interpolants' at Chebyshev's points. The first has two parts, so that values on both
 * sides of a border differ by less than floats do: `whole` and what else is added to it, which is returned. A column's number is
 * the low bits of the exponent and the first two of the fraction. */
typedef struct columns {
    float middle[32], whole[32], part[32], c1[32], c2[32], c3[32], c4[32], c5[32];
} columns;
INLINE __m512 by_columns16(const columns *of, __m512 t, __m512 *whole)
{
    __m512i at = _mm512_srli_epi32(_mm512_castps_si512(_mm512_max_ps(ALL(0.0625f), t)), 21);
#define COLUMN(c) _mm512_permutex2var_ps(_mm512_loadu_ps(of->c), at, _mm512_loadu_ps(of->c + 16))
    __m512 d = _mm512_sub_ps(t, COLUMN(middle)), q = COLUMN(c5);
    q = _mm512_fmadd_ps(q, d, COLUMN(c4));
    q = _mm512_fmadd_ps(q, d, COLUMN(c3));
    q = _mm512_fmadd_ps(q, d, COLUMN(c2));
    q = _mm512_fmadd_ps(q, d, COLUMN(c1));
    *whole = COLUMN(whole);
    return _mm512_fmadd_ps(q, d, COLUMN(part));
#undef COLUMN
}

/* Near 0, where tanh(t) = t + c3 t^3 + c5 t^5, t is the whole. */
static const columns tanh_columns = {
    .middle = {2.25f,     2.75f,     3.25f,     3.75f,     4.5f,     5.5f,       6.5f,       7.5f,
               9.0f,      11.0f,     13.0f,     15.0f,     0.0f,     0.0859375f, 0.1015625f, 0.1171875f,
               0.140625f, 0.171875f, 0.203125f, 0.234375f, 0.28125f, 0.34375f,   0.40625f,   0.46875f,
               0.5625f,   0.6875f,   0.8125f,   0.9375f,   1.125f,   1.375f,     1.625f,     1.875f},
    .whole = {0.978026092f, 0.991859734f, 0.996997654f, 0.998894453f, 0.999753177f, 0.999966621f,  0.99999547f,  0.999999404f,
              0.99999994f,  1.0f,         1.0f,         1.0f,         0.0f,         0.0857265666f, 0.101214729f, 0.116653986f,
              0.1397053f,   0.170202315f, 0.200376719f, 0.230175704f, 0.27406159f,  0.330821127f,  0.385283977f, 0.437188774f,
              0.509829998f, 0.596373558f, 0.670967102f, 0.734071493f, 0.809301078f, 0.879826725f,  0.925346255f, 0.954045236f},
    .part = {1.71712742e-08f,
             -1.36512996e-08f,
             -2.08063664e-08f,
             -1.10506644e-08f,
             2.27728183e-08f,
             -2.57300208e-08f,
             9.10290776e-09f,
             -1.57852806e-08f,
             2.90505415e-08f,
             0.0f,
             0.0f,
             0.0f,
             0.0f,
             -2.67710298e-10f,
             1.82100302e-09f,
             2.39555242e-09f,
             2.49717647e-09f,
             -6.44723119e-09f,
             -7.15992488e-10f,
             7.26814031e-09f,
             -1.47444279e-09f,
             -9.2079091e-09f,
             -1.05257438e-08f,
             1.07927667e-08f,
             -2.43505056e-08f,
             -2.586797e-09f,
             -2.78304153e-08f,
             2.64871787e-08f,
             -5.91267479e-09f,
             -2.35697879e-08f,
             -2.95007077e-08f,
             2.41461802e-08f},
    .c1 = {0.0434649177f,
           0.0162142869f,
           0.0059957155f,
           0.0022098925f,
           0.000493520463f,
           6.68049906e-05f,
           9.04133412e-06f,
           1.22361632e-06f,
           6.09461921e-08f,
           0.0f,
           0.0f,
           0.0f,
           0.0f,
           0.992650926f,
           0.989755571f,
           0.986391842f,
           0.980482399f,
           0.971031189f,
           0.959849179f,
           0.94701916f,
           0.92489022f,
           0.890557408f,
           0.851556242f,
           0.808865964f,
           0.740073383f,
           0.644338608f,
           0.549803197f,
           0.461138994f,
           0.345031768f,
           0.225904971f,
           0.143734366f,
           0.0897976384f},
    .c2 = {-0.0425082371f,
           -0.0160811003f,
           -0.00597717939f,
           -0.00220723939f,
           -0.00049261091f,
           -6.66953492e-05f,
           -9.02674219e-06f,
           -1.22164602e-06f,
           -5.92317839e-08f,
           0.0f,
           0.0f,
           0.0f,
           0.0f,
           -0.0850965604f,
           -0.100177847f,
           -0.115066543f,
           -0.136978596f,
           -0.165271744f,
           -0.192331418f,
           -0.217980802f,
           -0.253476858f,
           -0.294615149f,
           -0.328090936f,
           -0.353627086f,
           -0.377311289f,
           -0.384266406f,
           -0.368899912f,
           -0.338509142f,
           -0.279237121f,
           -0.198758736f,
           -0.133004621f,
           -0.0856711045f},
    .c3 = {0.0270876437f,
           0.01054639f,
           0.00396105787f,
           0.00146832026f,
           0.000328546972f,
           4.45015576e-05f,
           6.0233192e-06f,
           8.15180215e-07f,
           4.01417672e-08f,
           0.0f,
           0.0f,
           0.0f,
           -0.333333075f,
           -0.32358861f,
           -0.319779038f,
           -0.315374315f,
           -0.307690829f,
           -0.295547426f,
           -0.281410992f,
           -0.265499175f,
           -0.238828465f,
           -0.199387535f,
           -0.157443911f,
           -0.115020186f,
           -0.0543266311f,
           0.0143866194f,
           0.0642517731f,
           0.0947767645f,
           0.11097461f,
           0.0995709151f,
           0.0751637444f,
           0.0518016405f},
    .c4 = {-0.012390377f,
           -0.00515112933f,
           -0.0019794968f,
           -0.000739871874f,
           -0.000172545857f,
           -2.33977644e-05f,
           -3.16739033e-06f,
           -4.28675179e-07f,
           -2.47095322e-08f,
           0.0f,
           0.0f,
           0.0f,
           0.0f,
           0.0561027937f,
           0.065755628f,
           0.0751413926f,
           0.0886279121f,
           0.105372861f,
           0.120475739f,
           0.133746982f,
           0.149840876f,
           0.164061487f,
           0.169927269f,
           0.168078661f,
           0.153249413f,
           0.119441003f,
           0.0798982307f,
           0.0433629788f,
           0.00370061724f,
           -0.0210951641f,
           -0.0251212399f,
           -0.020848915f},
    .c5 = {0.00397852808f,
           0.00191317464f,
           0.000769519655f,
           0.000292235956f,
           6.79071672e-05f,
           9.22523395e-06f,
           1.24914141e-06f,
           1.69064663e-07f,
           9.35830613e-09f,
           0.0f,
           0.0f,
           0.0f,
           0.13300465f,
           0.125107616f,
           0.121927582f,
           0.118274607f,
           0.111953393f,
           0.102143951f,
           0.0909789726f,
           0.0787467733f,
           0.0590575002f,
           0.0319528244f,
           0.0059238649f,
           -0.0171651114f,
           -0.0435074829f,
           -0.0615942068f,
           -0.0626845509f,
           -0.053066019f,
           -0.0320285298f,
           -0.00949542131f,
           0.00140635262f,
           0.00460564625f}};

static inline __m512 tanh16(__m512 x)
{
    __m512 t = _mm512_min_ps(ALL(9.25f), _mm512_abs_ps(x)), whole, rest = by_columns16(&tanh_columns, t, &whole);
    whole = _mm512_mask_mov_ps(whole, _mm512_cmp_ps_mask(t, ALL(0.078125f), _CMP_LT_OQ), t);
    __m512i sign = _mm512_castps_si512(ALL(-0.0f)), size = _mm512_castps_si512(_mm512_add_ps(whole, rest));
    return _mm512_castsi512_ps(_mm512_ternarylogic_epi32(sign, _mm512_castps_si512(x), size, 0xca)); /* x's sign */
}

/* exp(t^2) erfc(t); near 0 that and t */
static const columns erfc_columns = {
    .middle = {2.25f,     2.75f,     3.25f,     3.75f,     4.5f,     5.5f,       6.5f,       7.5f,
               9.0f,      11.0f,     13.0f,     15.0f,     0.0f,     0.0859375f, 0.1015625f, 0.1171875f,
               0.140625f, 0.171875f, 0.203125f, 0.234375f, 0.28125f, 0.34375f,   0.40625f,   0.46875f,
               0.5625f,   0.6875f,   0.8125f,   0.9375f,   1.125f,   1.375f,     1.625f,     1.875f},
    .whole = {0.231087267f,  0.193662092f,  0.166335344f, 0.145589724f, 0.122484811f, 0.100962222f, 0.0858056694f, 0.0745736957f,
              0.0623077266f, 0.0510805957f, 1.0f,         1.0f,         1.0f,         0.909963667f, 0.89497596f,   0.880378425f,
              0.859185278f,  0.832176507f,  0.806510925f, 0.78210336f,  0.747680306f, 0.705498397f, 0.667106271f,  0.632069707f,
              0.584998608f,  0.530870855f,  0.484810829f, 0.44528228f,  0.395698071f, 0.343295902f, 0.302261204f,  0.269429982f},
    .part = {-5.98822192e-09f,
             5.19667553e-09f,
             4.5296229e-09f,
             -2.72018474e-09f,
             -2.20500218e-09f,
             -2.01021932e-09f,
             1.09622045e-09f,
             -2.43219067e-09f,
             6.26170449e-10f,
             -1.25392863e-10f,
             0.0f,
             0.0f,
             0.0f,
             -5.7418994e-09f,
             2.47693066e-08f,
             -1.48717607e-08f,
             2.81086852e-08f,
             2.86373609e-08f,
             -8.36027469e-10f,
             2.43217286e-08f,
             -1.81551147e-08f,
             2.25574439e-08f,
             -2.75983609e-08f,
             -1.76662649e-08f,
             1.3886563e-08f,
             1.75950863e-08f,
             -5.78808945e-10f,
             -7.29273442e-09f,
             9.61895985e-09f,
             -1.18436381e-08f,
             6.00262551e-09f,
             3.5495189e-09f},
    .c1 = {-0.0884865001f,  -0.0632376373f,  -0.047199402f,   -0.0364562571f, -0.0260159299f, -0.0177947655f, -0.0129054561f,
           -0.00977377128f, -0.00684013497f, -0.00460608257f, 0.0f,           0.0f,           -0.128379151f,  -0.971979141f,
           -0.946587145f,   -0.922040462f,   -0.886733294f,   -0.842318475f,  -0.800734103f,  -0.761768222f,  -0.707809031f,
           -0.643348992f,   -0.586355329f,   -0.535813808f,   -0.470255733f,  -0.398431718f,  -0.340561569f,  -0.293474913f,
           -0.238058493f,   -0.184315473f,   -0.146030232f,   -0.11801672f},
    .c2 = {0.0319918543f,  0.0197583027f,   0.0129371705f,   0.00887870137f, 0.00541282538f, 0.00309092528f, 0.00192017772f,
           0.00127039757f, 0.000746457081f, 0.000413673435f, 0.0f,           0.0f,           0.999997735f,   0.826434195f,
           0.798838198f,   0.772326767f,    0.734488428f,    0.687403023f,   0.64386183f,    0.603563964f,   0.548608959f,
           0.484347165f,   0.428899348f,    0.38090694f,     0.320479572f,   0.256948918f,   0.208104447f,   0.170149475f,
           0.127881601f,   0.0898617655f,   0.0649618804f,   0.048148524f},
    .c3 = {-0.0110018337f,   -0.00593426125f,  -0.00343544269f,  -0.00210727123f,  -0.001104519f, -0.000529449608f,
           -0.000282732217f, -0.000163798846f, -8.09977573e-05f, -3.70071066e-05f, 0.0f,          0.0f,
           -0.752128184f,    -0.60063833f,     -0.5769701f,      -0.554355621f,    -0.522297263f, -0.482780725f,
           -0.446633101f,    -0.413538605f,    -0.369008452f,    -0.317903101f,    -0.274743289f, -0.238175794f,
           -0.193323791f,    -0.147852764f,    -0.114317708f,    -0.0893064365f,   -0.062793687f, -0.0405032411f,
           -0.0269778445f,   -0.0184919927f},
    .c4 = {0.00365186506f,
           0.00173193938f,
           0.000891126576f,
           0.000490528299f,
           0.000224459451f,
           9.0409907e-05f,
           4.15309732e-05f,
           2.10796625e-05f,
           8.89194871e-06f,
           3.33703883e-06f,
           0.0f,
           0.0f,
           0.496889204f,
           0.387419641f,
           0.370130479f,
           0.353691667f,
           0.330557287f,
           0.302245826f,
           0.276599616f,
           0.253347307f,
           0.222504467f,
           0.18760857f,
           0.158703253f,
           0.134680748f,
           0.106015652f,
           0.0777511224f,
           0.0576804094f,
           0.0432610624f,
           0.0287358575f,
           0.0171455052f,
           0.0105942171f,
           0.00675638672f},
    .c5 = {-0.00115341251f,
           -0.000485462951f,
           -0.000223606345f,
           -0.000111080524f,
           -4.4158809e-05f,
           -1.5078962e-05f,
           -5.99305804e-06f,
           -2.67554356e-06f,
           -9.53880431e-07f,
           -2.96196561e-07f,
           0.0f,
           0.0f,
           -0.264629096f,
           -0.226943821f,
           -0.215757266f,
           -0.205168456f,
           -0.190345556f,
           -0.172351569f,
           -0.156196564f,
           -0.141679674f,
           -0.122625902f,
           -0.101410426f,
           -0.0841460824f,
           -0.0700496584f,
           -0.0535752065f,
           -0.037830811f,
           -0.0270326771f,
           -0.0195376016f,
           -0.0122835496f,
           -0.00682649342f,
           -0.0039373436f,
           -0.00234917109f}};

/* exp(-t^2) of two parts, as erfc_tail's. Beyond 10.2 the product is below half of the least float. Near 0 the whole is 1 - t,
 * and the rest has what that lost: a product as large as t would be rounded as roughly as floats follow each other. */
static inline __m512 erfc16(__m512 x)
{
    const __m512 magic = ALL(12582912.0f);
    __m512 t = _mm512_min_ps(ALL(10.2f), _mm512_abs_ps(x)), whole, rest = by_columns16(&erfc_columns, t, &whole);
    __mmask16 near = _mm512_cmp_ps_mask(t, ALL(0.078125f), _CMP_LT_OQ);
    __m512 one = whole;
    whole = _mm512_mask_sub_ps(one, near, one, t);
    rest = _mm512_mask_add_ps(rest, near, rest, _mm512_sub_ps(_mm512_sub_ps(one, whole), t));
    __m512 square = _mm512_mul_ps(t, t), square_rest = _mm512_fmsub_ps(t, t, square);
    __m512 k = _mm512_sub_ps(STEP(square, ALL(-1.44269502f), 12582912.0f), magic);
    __m512 r = _mm512_fnmsub_ps(k, ALL(0.693359375f), square);
    r = _mm512_add_ps(r, _mm512_fmsub_ps(k, ALL(2.12194442e-4f), square_rest));
    __m512 erfc = _mm512_fmadd_ps(_mm512_add_ps(whole, rest), exp_rise16(r), rest);
    erfc = _mm512_scalef_ps(_mm512_add_ps(whole, erfc), k);
    __mmask16 below = _mm512_movepi32_mask(_mm512_castps_si512(x));
    return _mm512_mask_sub_ps(erfc, below, ALL(2.0f), erfc);
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
FLOAT_LOOP(tanh, vector_tanh(x), tanh16)
FLOAT_LOOP(erfc, vector_erfc(x), erfc16)
FLOAT_LOOP(sqrt, sqrtf(x), sqrt16)

#endif
