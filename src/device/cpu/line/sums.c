/* SPDX-License-Identifier: Apache-2.0
 *
 * Running sums of floats that lie side by side. A vector's own sums take a step for each doubling of the distance: only the sum
 * of all before it is waited for. They are sums of doubles, which floats cannot make overflow, and are rounded as they are
 * stored. Compiled once for each ISA. */
#include "device/cpu/isa/isa.h"
#include "device/cpu/isa/lanes.h"
#include "device/cpu/isa/shuffle.h"
#include "device/cpu/isa/wide.h"
#include "device/cpu/tile/parts.h"
#include <string.h>

enum { WIDE = VECTOR_BYTES / 8 };

/* Elements [i, i + WIDE) become their sums with all before them, or `back`, behind them; *sum: that of those elements */
INLINE void sum_vector(float *d, const float *x, doubles *sum, const bool back)
{
    doubles none = {0}; /* not const: clang cannot shuffle that */
    half_floats loaded;
    memcpy(&loaded, x, sizeof loaded);
    doubles sums = doubles_of_floats(loaded);
    UNROLL for (int step = 1; step < WIDE; step *= 2) {
        longs moved; /* out of memory, as in wide.h */
        memcpy(&moved, lanes_from_longs + (back ? step : WIDE - step), sizeof moved);
        sums += back ? SHUFFLE2(sums, none, moved) : SHUFFLE2(none, sums, moved);
    }
    half_floats result = __builtin_convertvector(*sum + sums, half_floats);
    *sum += sums[back ? 0 : WIDE - 1] - (doubles){0};
    memcpy(d, &result, sizeof result);
}

INLINE double sum_single(float *d, const float *x, double sum, int64_t begin, int64_t end, const bool back)
{
    for (int64_t k = begin; k < end; k++) {
        int64_t i = back ? end - 1 - (k - begin) : k;
        d[i] = (float)(sum += (double)x[i]);
    }
    return sum;
}

/* d may be x */
void SAMBA_ISA_NAME(samba_running_sum)(float *d, const float *x, int64_t n, double *sum, bool back)
{
    int64_t rest = n % WIDE;
    doubles sums = *sum - (doubles){0};
    if (back)
        for (int64_t i = n - WIDE; i >= rest; i -= WIDE)
            sum_vector(d + i, x + i, &sums, true);
    else
        for (int64_t i = 0; i + WIDE <= n; i += WIDE)
            sum_vector(d + i, x + i, &sums, false);
    *sum = back ? sum_single(d, x, sums[0], 0, rest, true) : sum_single(d, x, sums[0], n - rest, n, false);
}
