/* SPDX-License-Identifier: Apache-2.0
 *
 * The instruction set's side of finish.h: sums become results, vector by vector. One loop serves all three dtypes: whatever they
 * are in memory, sums and biases are floats in registers. A result is rounded to 16 bits once more where it is stored, so a
 * program that rounds before it stores is the same.
 *
 * Compiled once more with -DSAMBA_DENSE_PAIRS, for x86 CPUs that convert two vectors to bfloat16 at once. */
#include "device/cpu/product/blocks.h"
#include "device/cpu/isa/halves.h"

enum { LANES = VECTOR_BYTES / 4 };

INLINE floats load(const samba_dtype dtype, const void *from, int64_t i)
{
    halves half;
    if (dtype == SAMBA_FLOAT32) {
        floats v;
        __builtin_memcpy(&v, (const float *)from + i, sizeof v);
        return v;
    }
    __builtin_memcpy(&half, (const uint16_t *)from + i, sizeof half);
    words bits = __builtin_convertvector(half, words);
    return dtype == SAMBA_BFLOAT16 ? (floats)(bits << 16) : float16_floats(bits);
}

INLINE void store(const samba_dtype dtype, void *to, int64_t i, floats v)
{
    if (dtype == SAMBA_FLOAT32) {
        __builtin_memcpy((float *)to + i, &v, sizeof v);
        return;
    }
    halves half = __builtin_convertvector(dtype == SAMBA_BFLOAT16 ? bfloat16_above(v) >> 16 : float16_bits(v), halves);
    __builtin_memcpy((uint16_t *)to + i, &half, sizeof half);
}

/* Two vectors, whose results fill one. */
INLINE void store_two(const samba_dtype dtype, void *to, int64_t i, floats v, floats w)
{
    if (dtype == SAMBA_BFLOAT16) {
        whole_halves both = two_bfloat16(v, w);
        __builtin_memcpy((uint16_t *)to + i, &both, sizeof both);
        return;
    }
    store(dtype, to, i, v);
    store(dtype, to, i + LANES, w);
}

INLINE floats rounded(const samba_dtype dtype, floats v)
{
    if (dtype == SAMBA_BFLOAT16)
        return (floats)(bfloat16_above(v) & 0xffff0000u);
    return dtype == SAMBA_FLOAT16 ? float16_floats(float16_bits(v)) : v;
}

/* What every element has alike, in registers. */
typedef struct alike {
    floats bias, low, high;
} alike;

INLINE floats finished(const samba_dtype dtype, const bool biased, const bool added, const samba_finish_rows *f, const alike *all,
                       floats sum, floats bias, floats more)
{
    if (biased)
        sum = (f->round_sums ? rounded(dtype, sum) : sum) + bias;
    if (added)
        sum += more;
    if (f->clamp)
        return lesser_floats(greater_floats(sum, all->low), all->high);
    return f->relu ? (floats)((ints)sum & ~(sum <= (floats){0})) : sum;
}

/* The same of the first lanes alone: no memory beyond them is touched. */
INLINE floats load_part(const samba_dtype dtype, const void *from, int64_t i, int lanes)
{
    if (dtype == SAMBA_FLOAT32)
        return load_part_f32((const float *)from + i, lanes);
    halves half = load_part_halves((const uint16_t *)from + i, lanes);
    return load(dtype, &half, 0);
}

INLINE void store_part(const samba_dtype dtype, void *to, int64_t i, int lanes, floats v)
{
    if (dtype == SAMBA_FLOAT32) {
        store_part_f32((float *)to + i, lanes, v);
        return;
    }
    halves half;
    store(dtype, &half, 0, v);
    store_part_halves((uint16_t *)to + i, lanes, half);
}

INLINE floats finished_at(const samba_dtype dtype, const bool biased, const bool added, const samba_finish_rows *f,
                          const alike *all, const float *sums, const char *bias, const float *more, int64_t j)
{
    return finished(dtype, biased, added, f, all, load(SAMBA_FLOAT32, sums, j),
                    biased && f->bias_col ? load(dtype, bias, j) : all->bias, added ? load(SAMBA_FLOAT32, more, j) : (floats){0});
}

INLINE void finish_all(const samba_dtype dtype, const bool biased, const bool added, const samba_finish_rows *all_of)
{
    const int64_t size = dtype == SAMBA_FLOAT32 ? 4 : 2;
    const samba_finish_rows copy = *all_of, *f = &copy; /* which no store changes */
    alike all = {{0}, f->low - (floats){0}, f->high - (floats){0}};
    for (int64_t i = 0; i < f->rows; i++) {
        const float *sums = f->sums + i * f->ld;
        const char *bias = biased ? (const char *)f->bias + i * f->bias_row * size : NULL;
        char *result = (char *)f->result + i * f->pitch * size;
        const float *more = added ? f->more + i * f->more_pitch : NULL;
        if (biased && !f->bias_col)
            all.bias = load_part(dtype, bias, 0, 1)[0] - (floats){0};
        int64_t j = 0;
        for (; j + 2 * LANES <= f->cols; j += 2 * LANES)
            store_two(dtype, result, j, finished_at(dtype, biased, added, f, &all, sums, bias, more, j),
                      finished_at(dtype, biased, added, f, &all, sums, bias, more, j + LANES));
        for (; j + LANES <= f->cols; j += LANES)
            store(dtype, result, j, finished_at(dtype, biased, added, f, &all, sums, bias, more, j));
        int rest = (int)(f->cols - j);
        if (rest)
            store_part(dtype, result, j, rest,
                       finished(dtype, biased, added, f, &all, load_part(SAMBA_FLOAT32, sums, j, rest),
                                biased && f->bias_col ? load_part(dtype, bias, j, rest) : all.bias,
                                added ? load_part(SAMBA_FLOAT32, more, j, rest) : (floats){0}));
    }
}

#if defined(SAMBA_DENSE_PAIRS)
#define FINISH samba_finish_pairs
#else
#define FINISH SAMBA_ISA_NAME(samba_finish)
#endif
void FINISH(const samba_finish_rows *f)
{
#define CASE(dtype)                                                                                                              \
    case dtype:                                                                                                                  \
        if (f->bias)                                                                                                             \
            finish_all(dtype, true, false, f);                                                                                   \
        else                                                                                                                     \
            finish_all(dtype, false, false, f);                                                                                  \
        return;
    if (f->more) {
        if (f->bias)
            finish_all(SAMBA_FLOAT32, true, true, f);
        else
            finish_all(SAMBA_FLOAT32, false, true, f);
        return;
    }
    switch (f->dtype) {
        CASE(SAMBA_FLOAT32)
        CASE(SAMBA_BFLOAT16)
        CASE(SAMBA_FLOAT16)
    default: return; /* finish.c lets no other through */
    }
#undef CASE
}
