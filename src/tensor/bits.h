/* SPDX-License-Identifier: Apache-2.0
 *
 * The bits of float32 and float64, and bfloat16 from and to float32 without branches, so that a loop over them becomes vector
 * code. Results are those of samba_float_to_bfloat16 and its sister in tensor.h, bit for bit. */
#ifndef SAMBA_BITS_H
#define SAMBA_BITS_H

#include <stdint.h>

static inline float float_of(uint32_t bits)
{
    float value;
    __builtin_memcpy(&value, &bits, sizeof value);
    return value;
}

static inline uint32_t bits_of(float value)
{
    uint32_t bits;
    __builtin_memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline double double_of(uint64_t bits)
{
    double value;
    __builtin_memcpy(&value, &bits, sizeof value);
    return value;
}

static inline uint64_t bits_of_double(double value)
{
    uint64_t bits;
    __builtin_memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline float float_of_bfloat16(uint16_t bits) { return float_of((uint32_t)bits << 16); }

static inline uint16_t bfloat16_of_float(float value)
{
    uint32_t bits = bits_of(value), rounded = (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16, quiet = bits >> 16 | 0x40u;
    return (uint16_t)(value != value ? quiet : rounded);
}

#endif
