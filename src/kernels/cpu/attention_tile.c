/* SPDX-License-Identifier: Apache-2.0
 *
 * Loops over a block of scores, once for each ISA: softmax by blocks (Milakov and Gimelshein: "Online normalizer calculation for softmax",
 * 2018) and its gradient. attention_tile_body.h is the code, once for float and once for double. */
#include "kernels/cpu/attention.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/vector_math.h"

/* float weights are powers of 2: UNIT is the log of the base. 2^x by a minimax fit of 2^f, |f| <= 1/2, to 1e-7; what is below 2^-126
 * becomes 0, so that the exponent is added as it is. x is at most 127. */
static inline float weight_f32(float x)
{
    x = x < -127.0f ? -127.0f : x;
    float magic = 12582912.0f + 127.0f, shifted = x + magic, f = x - (shifted - magic), p = 1.32646447e-3f;
    p = p * f + 9.67157632e-3f;
    p = p * f + 5.5507347e-2f;
    p = p * f + 2.40222409e-1f;
    p = p * f + 6.93147004e-1f;
    p = p * f + 1.0f;
    return p * float_of(bits_of(shifted) << 23);
}
/* Rounded to bfloat16, in the upper half. */
static inline uint32_t wide_bfloat16(float x)
{
    uint32_t bits = bits_of(x);
    return x != x ? bits | 0x400000u : bits + 0x7fffu + (bits >> 16 & 1u);
}
static inline float least_f32(float x) { return x > 127.0f ? 127.0f : x; }

#define REAL float
#define WEIGHT weight_f32
#define LEAST least_f32
#define UNIT M_LN2
#define NAME(name) name##_f32
#include "kernels/cpu/attention_tile_body.h"
#undef REAL
#undef WEIGHT
#undef LEAST
#undef UNIT
#undef NAME

#define REAL double
#define WEIGHT exp
#define LEAST(x) (x)
#define UNIT 1.0
#define NAME(name) name##_f64
#include "kernels/cpu/attention_tile_body.h"
#undef REAL
#undef WEIGHT
#undef LEAST
#undef UNIT
#undef NAME

/* Two rows as one of pairs: (2r, 2r + 1) of each lane; an odd last row's partner is 0. */
static void pair(uint32_t *restrict d, const float *restrict s, int64_t rows, int64_t lanes)
{
    for (int64_t r = 0; r < rows; r += 2, d += SAMBA_ATTENTION_BLOCK, s += 2 * SAMBA_ATTENTION_BLOCK) {
        if (r + 1 == rows) {
            SAMBA_VECTOR_LOOP
            for (int64_t i = 0; i < lanes; i++)
                d[i] = wide_bfloat16(s[i]) >> 16;
        } else {
            SAMBA_VECTOR_LOOP
            for (int64_t i = 0; i < lanes; i++)
                d[i] = wide_bfloat16(s[i]) >> 16 | (wide_bfloat16(s[SAMBA_ATTENTION_BLOCK + i]) & 0xffff0000u);
        }
    }
}

static void halve(uint16_t *restrict d, const float *restrict s, int64_t rows, int64_t lanes)
{
    for (int64_t r = 0; r < rows; r++, d += SAMBA_ATTENTION_BLOCK, s += SAMBA_ATTENTION_BLOCK) {
        SAMBA_VECTOR_LOOP
        for (int64_t i = 0; i < lanes; i++)
            d[i] = (uint16_t)(wide_bfloat16(s[i]) >> 16);
    }
}

#define BOTH(name) .name = {name##_f32, name##_f64}
const samba_attention_tiles SAMBA_ISA_NAME(samba_attention_tiles) = {
    BOTH(adjust), BOTH(weigh), BOTH(differentiate), BOTH(scale_columns), BOTH(keep), BOTH(admit), BOTH(dots), .pair = pair, .halve = halve,
};
