/* SPDX-License-Identifier: Apache-2.0
 *
 * The logarithm of the absolute gamma function, its slope digamma and that one's slope trigamma (Abramowitz and Stegun, 6.1, 6.3
 * and 6.4). Of floats, vector_..., they are computed in double: from 2.5 on by the asymptotic formula, whose series is a
 * polynomial of 1 / x^2 there, below it by a polynomial about 2. Of doubles, double_..., the slopes go up to 10 or more by their
 * recurrence, for which steps are counted and none branches, then by the asymptotic series; lgamma is the C library's, one after
 * the other. Below 0 all are reflected. */
#ifndef SAMBA_CPU_VECTOR_GAMMA_H
#define SAMBA_CPU_VECTOR_GAMMA_H

#include "device/cpu/isa/vector_math.h"

/* The logarithm of a positive normal x = 2^e (1 + f), sqrt(1/2) <= 1 + f < sqrt(2), as 2 atanh(f / (2 + f)) */
static inline double log_of_double(double x)
{
    const uint64_t half = 0x3fe6a09e667f3bcdu, one = 0x3ff0000000000000u;
    uint64_t bits = bits_of_double(x), power = (bits - half + one) >> 52;
    double e = double_of(power | 0x4330000000000000u) - (0x1p52 + 1023.0);
    double f = double_of(bits - (power << 52) + one) - 1.0, s = f / (2.0 + f), z = s * s, q = 0.14616576421644387;
    q = fused64(q, z, 0.15331711346672997);
    q = fused64(q, z, 0.18182889433757515);
    q = fused64(q, z, 0.22222211130560726);
    q = fused64(q, z, 0.28571428626001427);
    q = fused64(q, z, 0.3999999999989945);
    q = fused64(q, z, 0.666666666666667);
    return fused64(e, 0.69314718055994531, fused64(q * z, s, 2.0 * s));
}

/* lgamma(2 + d) / d, |d| <= 1/2 */
static inline double lgamma_near_2(double d)
{
    double q = -5.72865310850801e-07;
    q = fused64(q, d, 1.2159620602745015e-06);
    q = fused64(q, d, -1.982565620739196e-06);
    q = fused64(q, d, 4.2553702843110484e-06);
    q = fused64(q, d, -9.452938473714576e-06);
    q = fused64(q, d, 2.0535581020500523e-05);
    q = fused64(q, d, -4.492443535898787e-05);
    q = fused64(q, d, 9.945371368841632e-05);
    q = fused64(q, d, -0.00022315489463809116);
    q = fused64(q, d, 0.0005096698119432116);
    q = fused64(q, d, -0.0011927539062598581);
    q = fused64(q, d, 0.0028905103192621994);
    q = fused64(q, d, -0.0073855510287714685);
    q = fused64(q, d, 0.02058080842799012);
    q = fused64(q, d, -0.06735230105319759);
    q = fused64(q, d, 0.32246703342411215);
    return fused64(q, d, 0.42278433509846713);
}

/* What Stirling's formula lacks, times x, of z = 1 / x^2 <= 0.16 */
static inline double stirling_rest(double z)
{
    double q = -0.37987984444544703;
    q = fused64(q, z, 0.43176800570710133);
    q = fused64(q, z, -0.23176632972378836);
    q = fused64(q, z, 0.08129466384510842);
    q = fused64(q, z, -0.02259356064533641);
    q = fused64(q, z, 0.006035234354689541);
    q = fused64(q, z, -0.0019031412413920232);
    q = fused64(q, z, 0.000841383662709386);
    q = fused64(q, z, -0.0005952323836025096);
    q = fused64(q, z, 0.0007936507466535246);
    q = fused64(q, z, -0.002777777777623419);
    return fused64(q, z, 0.08333333333333325);
}

/* sin(pi r) / r of z = r^2 <= 1/4 */
static inline double sine_of_turns(double z)
{
    double q = 7.697826768224191e-07;
    q = fused64(q, z, -2.1903497074626018e-05);
    q = fused64(q, z, 0.0004662998161898394);
    q = fused64(q, z, -0.007370430505916944);
    q = fused64(q, z, 0.0821458865731029);
    q = fused64(q, z, -0.5992645293189447);
    q = fused64(q, z, 2.5501640398773007);
    q = fused64(q, z, -5.167712780049969);
    return fused64(q, z, 3.141592653589793);
}

/* x - 2 after the steps up that x < 1.5 takes */
static inline double beside_2(double x) { return x < 0.5 ? x : x < 1.5 ? x - 1.0 : x - 2.0; }

/* lgamma of x > 0, a float or 1 and more: below 1.5 by lgamma(x) = lgamma(x + 1) - log(x), once or twice. Both terms near 1 have
 * all their digits. What is taken for infinity's logarithm is the 710 of the greatest doubles. */
static inline double vector_lgamma(double x)
{
    double d = beside_2(x), steps = x < 0.5 ? x * (x + 1.0) : x < 1.5 ? x : 1.0;
    double log = log_of_double(x < 2.5 ? steps : x), over = 1.0 / x;
    double stirling = fused64(x - 0.5, log - 1.0, 0.41893853320467274) + stirling_rest(over * over) * over;
    return x >= 2.5 ? stirling : fused64(d, lgamma_near_2(d), -log);
}

/* The same of any float */
static inline double vector_lgamma_reflected(double x)
{
    double value = vector_lgamma(x < 0.0 ? 1.0 - x : x), rest = x - nearbyint(x);
    double reflected = 1.1447298858494002 - log_of_double(fabs(rest) * sine_of_turns(rest * rest)) - value;
    return x > 0.0 || x != x ? value : rest != 0.0 && x > -0x1p52 ? reflected : INFINITY;
}

/* digamma(2 + d), |d| <= 1/2 */
static inline double digamma_near_2(double d)
{
    double q = 5.0912346119533245e-06;
    q = fused64(q, d, -1.0185430052735478e-05);
    q = fused64(q, d, 1.4652136672418665e-05);
    q = fused64(q, d, -2.9327822939972998e-05);
    q = fused64(q, d, 6.141163434356007e-05);
    q = fused64(q, d, -0.00012304038908524188);
    q = fused64(q, d, 0.00024606209984845043);
    q = fused64(q, d, -0.0004941396908320866);
    q = fused64(q, d, 0.0009945772640778297);
    q = fused64(q, d, -0.0020083970991551137);
    q = fused64(q, d, 0.004077356093467191);
    q = fused64(q, d, -0.008349277172941556);
    q = fused64(q, d, 0.017343061987002775);
    q = fused64(q, d, -0.036927755148477855);
    q = fused64(q, d, 0.0823232337111142);
    q = fused64(q, d, -0.2020569031595463);
    q = fused64(q, d, 0.6449340668482265);
    return fused64(q, d, 0.4227843350984671);
}

/* What log(x) - 1 / (2x) has too much, times x^2, of z = 1 / x^2 <= 0.16 */
static inline double digamma_rest(double z)
{
    double q = -6.053583597026797;
    q = fused64(q, z, 6.792878166035933);
    q = fused64(q, z, -3.572384721704518);
    q = fused64(q, z, 1.210578859855494);
    q = fused64(q, z, -0.31697978585479963);
    q = fused64(q, z, 0.0766596139822682);
    q = fused64(q, z, -0.020839949713852224);
    q = fused64(q, z, 0.007569354977755872);
    q = fused64(q, z, -0.004166567579086781);
    q = fused64(q, z, 0.003968253155506392);
    q = fused64(q, z, -0.0083333333306684);
    return fused64(q, z, 0.08333333333333186);
}

/* trigamma(2 + d), |d| <= 1/2, to 10 digits */
static inline double trigamma_near_2(double d)
{
    double q = -0.0018417198539715824;
    q = fused64(q, d, 0.0033942087133832944);
    q = fused64(q, d, -0.0048334624371542765);
    q = fused64(q, d, 0.008749250497487825);
    q = fused64(q, d, -0.016081484844162407);
    q = fused64(q, d, 0.028568208679754733);
    q = fused64(q, d, -0.05009481497404418);
    q = fused64(q, d, 0.08671372775425726);
    q = fused64(q, d, -0.14771103886654732);
    q = fused64(q, d, 0.2469697352125112);
    q = fused64(q, d, -0.40411380625560817);
    return fused64(q, d, 0.6449340667297783);
}

/* What (1 + 1 / (2x)) / x lacks, times x^3, of z = 1 / x^2 <= 0.16, to 10 digits */
static inline double trigamma_rest(double z)
{
    double q = -0.424558041583444;
    q = fused64(q, z, 0.38506605075334155);
    q = fused64(q, z, -0.18224630729495905);
    q = fused64(q, z, 0.07147818012934531);
    q = fused64(q, z, -0.03317937962893772);
    q = fused64(q, z, 0.02380665668286556);
    q = fused64(q, z, -0.033333312264899495);
    return fused64(q, z, 0.16666666664051963);
}

/* Their recurrences give 1 / x for each step up, or 1 / x^2, here as one quotient; from 2.5 on it is 1 / x, which both need. */
static inline double vector_digamma(double x)
{
    double at = x < 0.0 ? 1.0 - x : x, next = at + 1.0;
    double over = at < 0.5 ? at + next : at < 1.5 || at >= 2.5 ? 1.0 : 0.0, under = at < 0.5 ? at * next : at;
    double steps = over / under, z = steps * steps, far = log_of_double(at) - fused64(z, digamma_rest(z), 0.5 * steps);
    double value = at > 0x1p128 ? at
                   : at >= 2.5  ? far
                                : digamma_near_2(beside_2(at)) - steps,
           r = x - nearbyint(x), c = 0.5 - fabs(r);
    double reflected = value - M_PI * (c * sine_of_turns(c * c)) / (r * sine_of_turns(r * r));
    return x < 0.0 ? r == 0.0 ? NAN : reflected : value;
}

static inline double vector_trigamma(double x)
{
    double at = x < 0.0 ? 1.0 - x : x, next = at + 1.0, both = at * next;
    double over = at < 0.5 ? fused64(next, next, at * at) : at < 1.5 || at >= 2.5 ? 1.0 : 0.0;
    double steps = over / (at < 0.5 ? both * both : at < 1.5 ? at * at : at), z = steps * steps;
    double far = fused64(z * steps, trigamma_rest(z), fused64(0.5, z, steps));
    double value = at >= 2.5 ? far : trigamma_near_2(beside_2(at)) + steps, r = x - nearbyint(x);
    double sine = r * sine_of_turns(r * r);
    return x < 0.0 ? M_PI * M_PI / (sine * sine) - value : value;
}

static inline double double_lgamma(double x)
{
    int sign; /* lgamma would write a global one */
    return lgamma_r(x, &sign);
}

static inline double double_digamma(double x)
{
    double at = x < 0 ? 1 - x : x, steps = 0;
    for (int i = 0; i < 10; i++) {
        steps += at < 10 ? 1 / at : 0;
        at += at < 10 ? 1 : 0;
    }
    double z = 1 / (at * at), series = 1.0 / 12;
    series = series * z - 691.0 / 32760;
    series = series * z + 1.0 / 132;
    series = series * z - 1.0 / 240;
    series = series * z + 1.0 / 252;
    series = series * z - 1.0 / 120;
    series = series * z + 1.0 / 12;
    const double value = log(at) - 0.5 / at - series * z - steps, rest = x - nearbyint(x);
    const double reflected = value - M_PI / tan(M_PI * rest);
    return x < 0 ? rest == 0 ? NAN : reflected : value;
}

static inline double double_trigamma(double x)
{
    double at = x < 0 ? 1 - x : x, steps = 0;
    for (int i = 0; i < 10; i++) {
        steps += at < 10 ? 1 / (at * at) : 0;
        at += at < 10 ? 1 : 0;
    }
    double z = 1 / (at * at), series = 7.0 / 6;
    series = series * z - 691.0 / 2730;
    series = series * z + 5.0 / 66;
    series = series * z - 1.0 / 30;
    series = series * z + 1.0 / 42;
    series = series * z - 1.0 / 30;
    series = series * z + 1.0 / 6;
    const double value = (1 + 0.5 / at + series * z) / at + steps, sine = sin(M_PI * (x - nearbyint(x)));
    return x < 0 ? M_PI * M_PI / (sine * sine) - value : value;
}

#endif
