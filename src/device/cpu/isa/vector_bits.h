/* SPDX-License-Identifier: Apache-2.0
 *
 * Choices and bounds, and float16 from and to float32, without branches, so that a loop over them becomes vector code. Results
 * of conversions are those of samba_float_to_float16 and its sister in tensor.h, bit for bit. */
#ifndef SAMBA_CPU_VECTOR_BITS_H
#define SAMBA_CPU_VECTOR_BITS_H

#include "tensor/bits.h"

/* x where it holds, else y. GCC for ARM may turn a comparison around, into one that holds for NaN too, for which ARM needs seven
 * instructions: of a mask that does not happen. */
static inline float chosen(int holds, float x, float y)
{
#if defined(SAMBA_NEON)
    uint32_t mask = -(uint32_t)holds;
    return float_of((bits_of(x) & mask) | (bits_of(y) & ~mask));
#else
    return holds ? x : y;
#endif
}

/* The lesser and the greater of two: a NaN wins, and of equal ones, zeros of two signs, the second. In two steps, of which the
 * compiler makes x86's instruction, which gives the second where either is a NaN, and a choice. */
#define BOUNDS_OF(class, type)                                                                                                   \
    static inline type lesser_##class(type x, type y)                                                                            \
    {                                                                                                                            \
        type least = x < y ? x : y;                                                                                              \
        return x != x ? x : least;                                                                                               \
    }                                                                                                                            \
    static inline type greater_##class(type x, type y)                                                                           \
    {                                                                                                                            \
        type most = x > y ? x : y;                                                                                               \
        return x != x ? x : most;                                                                                                \
    }
BOUNDS_OF(f32, float)
BOUNDS_OF(f64, double)
BOUNDS_OF(i64, int64_t)

/* Exponent and mantissa stand in float's place but for the exponent's bias: a product with 2^112 mends that, subnormals
 * included. */
static inline float float_of_float16(uint16_t half)
{
    uint32_t low = half & 0x7fffu, sign = (uint32_t)(half & 0x8000u) << 16;
    uint32_t finite = bits_of(float_of(low << 13) * 0x1p112f), special = low << 13 | 0x7f800000u;
    return float_of(sign | (low >= 0x7c00u ? special : finite));
}

static inline uint16_t float16_of_float(float value)
{
    uint32_t all = bits_of(value), sign = all >> 16 & 0x8000u, bits = all & 0x7fffffffu;
    uint32_t normal = (bits - 0x38000000u + 0xfffu + (bits >> 13 & 1u)) >> 13;
    uint32_t small = bits_of(float_of(bits) + 0.5f) - 0x3f000000u; /* below 2^-14 the adder rounds to multiples of 2^-24 */
    uint32_t nan = 0x7e00u | (bits >> 13 & 0x3ffu);
    uint32_t result = bits < 0x38800000u ? small : normal;
    result = bits >= 0x477ff000u ? 0x7c00u : result; /* 65520 and more round to infinity */
    result = bits > 0x7f800000u ? nan : result;
    return (uint16_t)(sign | result);
}

#endif
