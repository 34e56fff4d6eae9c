/* SPDX-License-Identifier: Apache-2.0
 *
 * float32 as the types that are written: plain ones rounded to the nearest, Q8_0 with the greatest magnitude as 127, Q4_0 with
 * the element of the greatest magnitude as -8, so that quantizing what was dequantized changes nothing. */
#include "gguf/gguf.h"
#include "tensor/bits.h"
#include "tensor/tensor.h"

#include <math.h>

static void put16(uint8_t *to, uint16_t bits) { to[0] = (uint8_t)bits, to[1] = (uint8_t)(bits >> 8); }

static bool is_finite16(uint16_t bits) { return (bits & 0x7c00u) != 0x7c00u; }

static bool to_Q8_0(const float *x, uint8_t *to)
{
    float most = 0;
    for (int i = 0; i < 32; i++)
        most = fmaxf(most, fabsf(x[i]));
    const float scale = most / 127, inverse = scale > 0 ? 1 / scale : 0;
    const uint16_t stored = samba_float_to_float16(scale);
    put16(to, stored);
    for (int i = 0; i < 32; i++)
        to[2 + i] = (uint8_t)(int8_t)fminf(127, fmaxf(-127, roundf(x[i] * inverse)));
    return is_finite16(stored);
}

static bool to_Q4_0(const float *x, uint8_t *to)
{
    float most = 0;
    int q[32];
    for (int i = 0; i < 32; i++)
        most = fabsf(x[i]) > fabsf(most) ? x[i] : most;
    const float scale = most / -8, inverse = scale != 0 ? 1 / scale : 0;
    const uint16_t stored = samba_float_to_float16(scale);
    put16(to, stored);
    for (int i = 0; i < 32; i++)
        q[i] = (int)fminf(15, fmaxf(0, x[i] * inverse + 8.5f));
    for (int i = 0; i < 16; i++)
        to[2 + i] = (uint8_t)(q[i] | q[i + 16] << 4);
    return is_finite16(stored);
}

bool samba_gguf_quantize(samba_gguf_type type, const float *values, int64_t elements, void *blocks)
{
    const samba_gguf_facts facts = samba_gguf_type_facts(type);
    uint8_t *to = blocks;
    bool fine = true;
    for (int64_t i = 0; i < elements; i += facts.elements, to += facts.bytes) {
        const float *x = values + i;
        if (type == SAMBA_GGUF_F32)
            memcpy(to, x, sizeof *x);
        else if (type == SAMBA_GGUF_F16 || type == SAMBA_GGUF_BF16) {
            const bool half = type == SAMBA_GGUF_F16;
            const uint16_t bits = half ? samba_float_to_float16(*x) : bfloat16_of_float(*x);
            put16(to, bits);
            fine &= !isfinite(*x) || (half ? is_finite16(bits) : isfinite(float_of_bfloat16(bits)));
        } else
            fine &= type == SAMBA_GGUF_Q8_0 ? to_Q8_0(x, to) : to_Q4_0(x, to);
    }
    return fine;
}
