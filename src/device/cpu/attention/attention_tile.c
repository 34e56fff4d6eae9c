/* SPDX-License-Identifier: Apache-2.0
 *
 * Loops over a block of scores, once for each ISA: softmax by blocks (Milakov and Gimelshein: "Online normalizer calculation for
 * softmax", 2018) and its gradient. attention_tile_body.h is the code, once for float and once for double. */
#include "device/cpu/isa/unrolled.h"
#include "device/cpu/attention/attention.h"
#include "device/cpu/isa/isa.h"
#include "device/cpu/isa/vector_math.h"

/* float weights are powers of 2: UNIT is the log of the base. 2^x by a minimax fit of 2^f, |f| <= 1/2, to 1e-7; what is below
 * 2^-126 becomes 0, so that the exponent is added as it is. x is at most 127. */
static inline float weight_f32(float x)
{
    x = chosen(x < -127.0f, -127.0f, x);
    float magic = 12582912.0f + 127.0f, shifted = x + magic, f = x - (shifted - magic), p = 1.32646447e-3f;
    p = p * f + 9.67157632e-3f;
    p = p * f + 5.5507347e-2f;
    p = p * f + 2.40222409e-1f;
    p = p * f + 6.93147004e-1f;
    p = p * f + 1.0f;
    return p * float_of(bits_of(shifted) << 23);
}
/* Rounded to bfloat16, in the upper half. A NaN stays one if its lower bits are 0: those of bfloat16 numbers, and of the CPU. */
static inline uint32_t wide_bfloat16(float x)
{
    uint32_t bits = bits_of(x);
    return bits + 0x7fffu + (bits >> 16 & 1u);
}
static inline uint32_t pair_of(float low, float high) { return wide_bfloat16(low) >> 16 | (wide_bfloat16(high) & 0xffff0000u); }
static inline float least_f32(float x) { return chosen(x > 127.0f, 127.0f, x); }

enum { STRIP = SAMBA_ATTENTION_STRIP, LEEWAY = 8 };

#define REAL float
#define PAIR pair_of
#define WEIGHT weight_f32
#define LEAST least_f32
#define GREATER(x, y) chosen((x) > (y), x, y)
#define UNIT M_LN2
#define NAME(name) name##_f32
#include "device/cpu/attention/attention_tile_body.h"
#undef REAL
#undef WEIGHT
#undef PAIR
#undef LEAST
#undef GREATER
#undef UNIT
#undef NAME

#define REAL double
#define PAIR(low, high) 0
#define WEIGHT exp
#define LEAST(x) (x)
#define GREATER(x, y) ((x) > (y) ? (x) : (y))
#define UNIT 1.0
#define NAME(name) name##_f64
#include "device/cpu/attention/attention_tile_body.h"
#undef REAL
#undef WEIGHT
#undef PAIR
#undef LEAST
#undef GREATER
#undef UNIT
#undef NAME

/* Two rows as one of pairs: (2r, 2r + 1) of each lane; an odd last row's partner is 0. */
static void pair(uint32_t *restrict d, const float *restrict s, int64_t rows, int64_t lanes)
{
    static const float none[SAMBA_ATTENTION_BLOCK];
    for (int64_t r = 0; r < rows; r += 2, d += SAMBA_ATTENTION_BLOCK, s += 2 * SAMBA_ATTENTION_BLOCK) {
        const float *restrict next = r + 1 < rows ? s + SAMBA_ATTENTION_BLOCK : none;
        SAMBA_VECTOR_LOOP for (int64_t i = 0; i < lanes; i++)
            d[i] = pair_of(s[i], next[i]);
    }
}

static bool weigh_pairs(float *s, uint32_t *pairs, double factor, int64_t keys, int64_t lanes, float *greatest, float *sum,
                        float *alpha)
{
    bool changed = false;
    for (int64_t l = 0; l < lanes; l += STRIP)
        changed |= weigh_strip_f32(s + l, pairs + l, (float)factor, keys, greatest + l, sum + l, alpha + l);
    return changed;
}

/* 16 keys of a query, or of two. */
static inline __attribute__((always_inline)) void slopes(const bool two, const float *restrict s, const float *restrict dp,
                                                         const float *restrict kept, const float *lse, const float *delta,
                                                         float factor, float scale, uint32_t *restrict p, uint32_t *restrict ds,
                                                         uint16_t *restrict rows)
{
    enum { LD = SAMBA_ATTENTION_BLOCK };
    SAMBA_VECTOR_LOOP for (int i = 0; i < STRIP; i++) {
        float weight = weight_f32(least_f32(s[i] * factor - lse[0])), next_weight = 0, gradient = dp[i], next_gradient = 0;
        float p0 = kept ? weight * kept[i] : weight, p1 = 0;
        gradient = weight * ((kept ? gradient * kept[i] : gradient) - delta[0]) * scale;
        if (two) {
            next_weight = weight_f32(least_f32(s[LD + i] * factor - lse[1]));
            p1 = kept ? next_weight * kept[LD + i] : next_weight;
            next_gradient = next_weight * ((kept ? dp[LD + i] * kept[LD + i] : dp[LD + i]) - delta[1]) * scale;
        }
        p[i] = pair_of(p0, p1);
        ds[i] = pair_of(gradient, next_gradient);
    }
    for (int row = 0; row < 1 + two; row++) {
        SAMBA_VECTOR_LOOP for (int i = 0; i < STRIP; i++)
            rows[row * LD + i] = (uint16_t)(ds[i] >> 16 * row);
    }
}

static inline __attribute__((always_inline)) void slopes_of(const float *s, const float *dp, const float *kept, const float *lse,
                                                            const float *delta, float factor, float scale, int64_t queries,
                                                            uint32_t *p, uint32_t *ds, uint16_t *rows)
{
    enum { LD = SAMBA_ATTENTION_BLOCK };
    int64_t r = 0;
    for (; r + 2 <= queries; r += 2)
        slopes(true, s + r * LD, dp + r * LD, kept ? kept + r * LD : NULL, lse + r, delta + r, factor, scale, p + r / 2 * LD,
               ds + r / 2 * LD, rows + r * LD);
    if (r < queries)
        slopes(false, s + r * LD, dp + r * LD, kept ? kept + r * LD : NULL, lse + r, delta + r, factor, scale, p + r / 2 * LD,
               ds + r / 2 * LD, rows + r * LD);
}

static void differentiate_pairs(const float *s, const float *dp, const float *kept, const float *lse_, const float *delta_,
                                double factor, double scale, int64_t queries, int64_t lanes, uint32_t *p, uint32_t *ds,
                                uint16_t *rows)
{
    float lse[SAMBA_ATTENTION_BLOCK], delta[SAMBA_ATTENTION_BLOCK];
    constants_f32(lse_, delta_, queries, lse, delta);
    for (int64_t l = 0; l < lanes; l += STRIP)
        if (kept)
            slopes_of(s + l, dp + l, kept + l, lse, delta, (float)factor, (float)scale, queries, p + l, ds + l, rows + l);
        else
            slopes_of(s + l, dp + l, NULL, lse, delta, (float)factor, (float)scale, queries, p + l, ds + l, rows + l);
}

#define BOTH(name) .name = {name##_f32, name##_f64}
const samba_attention_tiles SAMBA_ISA_NAME(samba_attention_tiles) = {
    BOTH(adjust), BOTH(weigh), BOTH(differentiate), BOTH(scale_columns),        BOTH(keep),
    BOTH(admit),  BOTH(dots),  .pair = pair,        .weigh_pairs = weigh_pairs, .differentiate_pairs = differentiate_pairs,
};
