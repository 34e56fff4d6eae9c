/* SPDX-License-Identifier: Apache-2.0
 *
 * Fourier transforms of lines side by side: fourier.c prepares a stage, lines.c runs it, once for each ISA.
 *
 * A transform of n complex elements is passes of small ones, of radix 2 to 13 (Stockham's order: each pass writes where the next
 * reads in order). Where n has a larger prime factor, it is a convolution, which two transforms of a length with small factors
 * make (Bluestein). A real line of even size is a complex one of half as many. All lengths are transformed forward; inverse is
 * the same with real and imaginary parts exchanged. */
#ifndef SAMBA_CPU_FOURIER_H
#define SAMBA_CPU_FOURIER_H

#include "device/cpu/kernel.h"

enum { SAMBA_TRANSFORM_PASSES = 48, SAMBA_TRANSFORM_RADIX = 13, SAMBA_FOURIER_LANES = 16 /* most lines side by side */ };

typedef struct
    samba_transform { /* complex, forward; elements of the lines at work lie side by side, real and imaginary parts apart */
    int64_t length;
    int passes;
    int8_t radix[SAMBA_TRANSFORM_PASSES];
    const void *turns; /* pairs, cos and -sin of 2 pi k / length, for k below length */
} samba_transform;

struct samba_fourier_plan {
    samba_fourier stage;
    bool folded;         /* a real line as one of half as many complex elements */
    bool convolved;      /* by `transform` of another length */
    int64_t lanes;       /* lines at once */
    int64_t count, room; /* complex elements of a line, and of a working array of one */
    samba_transform transform;
    const void *chirp;    /* convolved: pairs, exp(-pi i k^2 / count) */
    const void *spectrum; /* convolved: of the conjugate of chirp around 0, divided by the length */
    const void *turns;    /* folded: pairs, exp(-2 pi i k / size), k to size / 2 */
    const void *x;
    void *y;
};

#endif
