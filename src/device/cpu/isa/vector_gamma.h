/* SPDX-License-Identifier: Apache-2.0
 *
 * The logarithm of the absolute gamma function, its slope digamma and that one's slope trigamma, of double. The slopes go up to
 * 10 or more by their recurrence, for which steps are counted and none branches, then by the asymptotic series; below 0 they are
 * reflected (Abramowitz and Stegun, 6.3 and 6.4). lgamma is the C library's, one after the other. */
#ifndef SAMBA_CPU_VECTOR_GAMMA_H
#define SAMBA_CPU_VECTOR_GAMMA_H

#include "device/cpu/isa/vector_math.h"

static inline double vector_lgamma(double x)
{
    int sign; /* lgamma would write a global one */
    return lgamma_r(x, &sign);
}

static inline double vector_digamma(double x)
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

static inline double vector_trigamma(double x)
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
