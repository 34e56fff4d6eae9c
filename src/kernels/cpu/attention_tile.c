/* SPDX-License-Identifier: Apache-2.0
 *
 * Loops over a block of scores, once for each ISA: softmax by blocks (Milakov and Gimelshein: "Online normalizer calculation for softmax",
 * 2018) and its gradient. attention_tile_body.h is the code, once for float and once for double. */
#include "kernels/cpu/attention.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/vector_math.h"

/* exp(x) for weights: at most 1 but for rounding. What is below exp(-86) becomes 0, so that 2^k is a normal number. */
static inline float weight_f32(float x)
{
    float bounded = x > 88.0f ? 88.0f : x, rest;
    uint32_t exponent;
    float p = exp_reduced(bounded, 127.0f, &rest, &exponent) + rest + 1.0f;
    return x < -86.0f ? 0.0f : p * float_of(exponent);
}

#define REAL float
#define WEIGHT weight_f32
#define NAME(name) name##_f32
#include "kernels/cpu/attention_tile_body.h"
#undef REAL
#undef WEIGHT
#undef NAME

#define REAL double
#define WEIGHT exp
#define NAME(name) name##_f64
#include "kernels/cpu/attention_tile_body.h"
#undef REAL
#undef WEIGHT
#undef NAME

#define BOTH(name) .name = {name##_f32, name##_f64}
const samba_attention_tiles SAMBA_ISA_NAME(samba_attention_tiles) = {
    BOTH(weigh), BOTH(differentiate), BOTH(scale), BOTH(scale_columns), BOTH(keep), BOTH(admit), BOTH(dots),
};
