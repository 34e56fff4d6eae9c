/* SPDX-License-Identifier: Apache-2.0
 *
 * What the bytes of a block mean: GGML's quantized types as float32. A block has a float16 scale or two; the K types have
 * scales of 16 or 32 elements each in it, in a few bits, which the block's scale multiplies. Products are rounded to float32 in
 * the order of ggml's, so that values are the same ones.
 *
 * Bytes are those of the file: not aligned, little-endian. */
#include "gguf/gguf.h"
#include "tensor/bits.h"

static uint16_t get16(const uint8_t *p) { return (uint16_t)(p[0] | p[1] << 8); }
static uint32_t get32(const uint8_t *p) { return get16(p) | (uint32_t)get16(p + 2) << 16; }

/* A float16: the exponent is moved by a product, which is exact, denormals too. */
static float half(const uint8_t *p)
{
    const uint32_t bits = get16(p), sign = (bits & 0x8000u) << 16, rest = bits & 0x7fffu;
    if (rest >= 0x7c00u)
        return float_of(sign | 0x7f800000u | (rest & 0x3ffu) << 13);
    return float_of(bits_of(float_of(rest << 13) * 0x1p112f) | sign);
}

/* ---- plain ---- */

static void of_F32(const uint8_t *b, float *y) { *y = float_of(get32(b)); }
static void of_F16(const uint8_t *b, float *y) { *y = half(b); }
static void of_BF16(const uint8_t *b, float *y) { *y = float_of_bfloat16(get16(b)); }

/* ---- blocks of 32: low halves of bytes are the first 16 elements ---- */

static void of_Q8_0(const uint8_t *b, float *y)
{
    const float d = half(b);
    for (int i = 0; i < 32; i++)
        y[i] = (float)(int8_t)b[2 + i] * d;
}

static void of_Q4_0(const uint8_t *b, float *y)
{
    const float d = half(b);
    for (int i = 0; i < 32; i++)
        y[i] = (float)((i < 16 ? b[2 + i] & 15 : b[2 + i - 16] >> 4) - 8) * d;
}

static void of_Q4_1(const uint8_t *b, float *y)
{
    const float d = half(b), low = half(b + 2);
    for (int i = 0; i < 32; i++)
        y[i] = (float)(i < 16 ? b[4 + i] & 15 : b[4 + i - 16] >> 4) * d + low;
}

static int fifth(const uint8_t *high, int i) { return (int)(get32(high) >> i & 1) << 4; }

static void of_Q5_0(const uint8_t *b, float *y)
{
    const float d = half(b);
    for (int i = 0; i < 32; i++)
        y[i] = (float)(((i < 16 ? b[6 + i] & 15 : b[6 + i - 16] >> 4) | fifth(b + 2, i)) - 16) * d;
}

static void of_Q5_1(const uint8_t *b, float *y)
{
    const float d = half(b), low = half(b + 2);
    for (int i = 0; i < 32; i++)
        y[i] = (float)((i < 16 ? b[8 + i] & 15 : b[8 + i - 16] >> 4) | fifth(b + 4, i)) * d + low;
}

/* ---- blocks of 256 ---- */

static void of_Q2_K(const uint8_t *b, float *y)
{
    const float d = half(b + 80), low = half(b + 82);
    for (int i = 0; i < 256; i++) {
        const int scale = b[i / 16], q = b[16 + i / 128 * 32 + i % 32] >> (i % 128 / 32 * 2) & 3;
        y[i] = d * (float)(scale & 15) * (float)q - low * (float)(scale >> 4);
    }
}

static void of_Q3_K(const uint8_t *b, float *y)
{
    const float d = half(b + 108);
    const uint8_t *scales = b + 96;
    for (int i = 0; i < 256; i++) {
        const int s = i / 16, at = i % 32;
        const int scale = (s < 8 ? scales[s] & 15 : scales[s - 8] >> 4) | (scales[8 + s % 4] >> (s / 4 * 2) & 3) << 4;
        const int q = b[32 + i / 128 * 32 + at] >> (i % 128 / 32 * 2) & 3, high = b[at] >> (i / 32) & 1;
        y[i] = d * (float)(scale - 32) * (float)(q - (high ? 0 : 4));
    }
}

/* The 6-bit scale and minimum of 32 elements. */
static void scale_and_low(const uint8_t *s, int j, int *scale, int *low)
{
    if (j < 4) {
        *scale = s[j] & 63;
        *low = s[j + 4] & 63;
        return;
    }
    *scale = (s[j + 4] & 15) | s[j - 4] >> 6 << 4;
    *low = s[j + 4] >> 4 | s[j] >> 6 << 4;
}

static void of_Q4_K(const uint8_t *b, float *y)
{
    const float d = half(b), lowest = half(b + 2);
    for (int j = 0; j < 8; j++) {
        int scale, low;
        scale_and_low(b + 4, j, &scale, &low);
        for (int i = 0; i < 32; i++) {
            const int q = b[16 + j / 2 * 32 + i] >> (j % 2 * 4) & 15;
            y[j * 32 + i] = d * (float)scale * (float)q - lowest * (float)low;
        }
    }
}

static void of_Q5_K(const uint8_t *b, float *y)
{
    const float d = half(b), lowest = half(b + 2);
    for (int j = 0; j < 8; j++) {
        int scale, low;
        scale_and_low(b + 4, j, &scale, &low);
        for (int i = 0; i < 32; i++) {
            const int q = (b[48 + j / 2 * 32 + i] >> (j % 2 * 4) & 15) | (b[16 + i] >> j & 1) << 4;
            y[j * 32 + i] = d * (float)scale * (float)q - lowest * (float)low;
        }
    }
}

static void of_Q6_K(const uint8_t *b, float *y)
{
    const float d = half(b + 208);
    for (int i = 0; i < 256; i++) {
        const int part = i / 128, quarter = i % 128 / 32, at = i % 32;
        const int low = b[part * 64 + quarter % 2 * 32 + at] >> (quarter / 2 * 4) & 15;
        const int high = b[128 + part * 32 + at] >> (quarter * 2) & 3;
        y[i] = d * (float)(int8_t)b[192 + i / 16] * (float)((low | high << 4) - 32);
    }
}

/* ---- the table ---- */

static const struct {
    samba_gguf_facts facts;
    uint32_t number;
    void (*block)(const uint8_t *block, float *values);
} types[] = {
#define GGUF_TYPE(name, number, elements, bytes) {{#name, elements, bytes}, number, of_##name},
#define GGUF_OTHER(name, number) {{#name, 0, 0}, number, NULL},
#include "gguf/types.def"
#undef GGUF_TYPE
#undef GGUF_OTHER
};

const char samba_gguf_supported[] = "F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, Q2_K, Q3_K, Q4_K, Q5_K, Q6_K";

samba_gguf_facts samba_gguf_type_facts(uint32_t type)
{
    for (int i = 0; i < SAMBA_COUNT(types); i++)
        if (types[i].number == type)
            return types[i].facts;
    return (samba_gguf_facts){0};
}

void samba_gguf_dequantize(samba_gguf_type type, const void *blocks, int64_t elements, float *values)
{
    int row = 0;
    while (types[row].number != type)
        row++;
    const samba_gguf_facts *facts = &types[row].facts;
    const uint8_t *block = blocks;
    for (int64_t i = 0; i < elements; i += facts->elements, block += facts->bytes)
        types[row].block(block, values + i);
}
