/* SPDX-License-Identifier: Apache-2.0
 *
 * Means over replicas, in the order of ranks, and numbers that travel as bfloat16. What rounding to bfloat16 takes from a number
 * is added to the same number of the next step, so that nothing is lost for long (Karimireddy, Rebjock, Stich, Jaggi 2019, "Error
 * Feedback Fixes SignSGD and other Gradient Compression Schemes"). Plain loops, which the compiler makes vectors of. */
#include "parallel/replicas.h"
#include "tensor/bits.h"

#include <string.h>

enum { BLOCK = 1024 }; /* elements whose sums stay in the first cache */

#define MEAN(name, type)                                                                                                         \
    static void name(type *out, const char *const *sources, int size, int64_t first, int64_t n)                                  \
    {                                                                                                                            \
        type sums[BLOCK];                                                                                                        \
        const type divisor = (type)size;                                                                                         \
        memcpy(sums, (const type *)(const void *)sources[0] + first, sizeof(type) * (size_t)n);                                  \
        for (int rank = 1; rank < size; rank++) {                                                                                \
            const type *x = (const type *)(const void *)sources[rank] + first;                                                   \
            for (int64_t i = 0; i < n; i++)                                                                                      \
                sums[i] += x[i];                                                                                                 \
        }                                                                                                                        \
        for (int64_t i = 0; i < n; i++)                                                                                          \
            out[first + i] = sums[i] / divisor;                                                                                  \
    }
MEAN(mean_float32, float)
MEAN(mean_float64, double)

static void mean_half(samba_dtype dtype, char *out, const char *const *sources, int size, int64_t first, int64_t n)
{
    for (int64_t i = first; i < first + n; i++) {
        float sum = 0;
        for (int rank = 0; rank < size; rank++)
            sum += (float)samba_load_double(dtype, sources[rank] + 2 * i);
        samba_store_double(dtype, out + 2 * i, sum / (float)size);
    }
}

void samba_find_mean(samba_dtype dtype, char *out, const char *const *sources, int size, int64_t count)
{
    for (int64_t first = 0; first < count; first += BLOCK) {
        const int64_t n = count - first < BLOCK ? count - first : BLOCK;
        if (dtype == SAMBA_FLOAT32)
            mean_float32((float *)(void *)out, sources, size, first, n);
        else if (dtype == SAMBA_FLOAT64)
            mean_float64((double *)(void *)out, sources, size, first, n);
        else
            mean_half(dtype, out, sources, size, first, n);
    }
}

/* ---- bfloat16 ---- */
void samba_widen(float *out, const uint16_t *x, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        out[i] = float_of_bfloat16(x[i]);
}

/* The nearest bfloat16 of x + rest, whose difference from it is the new rest. */
static inline uint16_t round_one(float x, float *rest)
{
    const float wanted = x + *rest;
    const uint16_t rounded = bfloat16_of_float(wanted);
    const float left = wanted - float_of_bfloat16(rounded); /* exact, or not finite */
    *rest = (bits_of(left) & 0x7f800000) == 0x7f800000 ? 0 : left;
    return rounded;
}

void samba_round_with_rest(uint16_t *restrict out, const float *restrict x, float *restrict rest, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        out[i] = round_one(x[i], &rest[i]);
}

void samba_round_in_place(uint16_t *restrict out, float *restrict x, float *restrict rest, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        out[i] = round_one(x[i], &rest[i]);
        x[i] = float_of_bfloat16(out[i]);
    }
}

static void add(float *sums, const float *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        sums[i] += x[i];
}

static void add_rounded(float *sums, const uint16_t *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        sums[i] += float_of_bfloat16(x[i]);
}

void samba_find_mean_of_rounded(float *out, const char *const *sources, int own, int size, int64_t count)
{
    const float divisor = (float)size;
    for (int64_t first = 0; first < count; first += BLOCK) {
        const int64_t n = count - first < BLOCK ? count - first : BLOCK;
        float sums[BLOCK] = {0};
        for (int rank = 0; rank < size; rank++)
            if (rank == own)
                add(sums, (const float *)(const void *)sources[rank] + first, n);
            else
                add_rounded(sums, (const uint16_t *)(const void *)sources[rank] + first, n);
        for (int64_t i = 0; i < n; i++)
            out[first + i] = sums[i] / divisor;
    }
}
