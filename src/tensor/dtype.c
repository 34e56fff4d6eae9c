/* SPDX-License-Identifier: Apache-2.0
 *
 * What a dtype is: the one table of names, sizes and categories, and the conversions of single elements.
 *
 * Rounding is what PyTorch does: to bfloat16 and float16 by way of float32, to the nearest, ties to even. A float becomes an
 * integer by truncation to int64 (NaN and what int64 cannot hold become 0), then by dropping high bits. */
#include "base/null.h"
#include "tensor/tensor.h"

#include <string.h>

const samba_dtype_facts samba_dtype_table[SAMBA_DTYPE_COUNT] = {
    [SAMBA_FLOAT32] = {"float32", "f32", 4, SAMBA_CATEGORY_FLOAT},
    [SAMBA_BFLOAT16] = {"bfloat16", "bf16", 2, SAMBA_CATEGORY_FLOAT},
    [SAMBA_FLOAT16] = {"float16", "f16", 2, SAMBA_CATEGORY_FLOAT},
    [SAMBA_FLOAT64] = {"float64", "f64", 8, SAMBA_CATEGORY_FLOAT},
    [SAMBA_INT64] = {"int64", "i64", 8, SAMBA_CATEGORY_INTEGER},
    [SAMBA_INT32] = {"int32", "i32", 4, SAMBA_CATEGORY_INTEGER},
    [SAMBA_INT16] = {"int16", "i16", 2, SAMBA_CATEGORY_INTEGER},
    [SAMBA_INT8] = {"int8", "i8", 1, SAMBA_CATEGORY_INTEGER},
    [SAMBA_UINT8] = {"uint8", "u8", 1, SAMBA_CATEGORY_INTEGER},
    [SAMBA_BOOL] = {"bool", "bool", 1, SAMBA_CATEGORY_BOOL},
};

static bool is_dtype(samba_dtype dtype) { return (int)dtype >= 0 && (int)dtype < SAMBA_DTYPE_COUNT; }

const char *samba_dtype_name(samba_dtype dtype) { return is_dtype(dtype) ? samba_dtype_table[dtype].name : "?"; }

size_t samba_dtype_size(samba_dtype dtype) { return is_dtype(dtype) ? samba_dtype_table[dtype].size : 0; }

bool samba_dtype_is_floating_point(samba_dtype dtype)
{
    return is_dtype(dtype) && samba_dtype_table[dtype].category == SAMBA_CATEGORY_FLOAT;
}

samba_status samba_dtype_from_name(samba_context *context, const char *name, samba_dtype *dtype)
{
    SAMBA_NEED(NULL, context);
    char list[160] = "";
    if (!name || !dtype)
        return samba_fail(context, SAMBA_ERROR_ARGUMENT, "samba_dtype_from_name was given no %s",
                          name ? "place for the dtype" : "name");
    for (int i = 0; i < SAMBA_DTYPE_COUNT; i++) {
        if (strcmp(name, samba_dtype_table[i].name) == 0) {
            *dtype = (samba_dtype)i;
            return SAMBA_OK;
        }
        size_t used = strlen(list);
        snprintf(list + used, sizeof list - used, "%s%s", i ? ", " : "", samba_dtype_table[i].name);
    }
    return samba_fail(context, SAMBA_ERROR_DTYPE, "\"%.64s\" is no dtype; there are %s", name, list);
}

static float float_from_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static uint32_t bits_from_float(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

float samba_bfloat16_to_float(uint16_t bits) { return float_from_bits((uint32_t)bits << 16); }

uint16_t samba_float_to_bfloat16(float value)
{
    uint32_t bits = bits_from_float(value);
    if ((bits & 0x7FFFFFFF) > 0x7F800000)
        return (uint16_t)(bits >> 16 | 0x0040); /* NaN: made quiet, so that cutting its bits cannot make it infinite */
    return (uint16_t)((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

float samba_float16_to_float(uint16_t half)
{
    uint32_t sign = (uint32_t)(half & 0x8000) << 16, exponent = half >> 10 & 31, mantissa = half & 0x3FF;
    if (exponent == 31)
        return float_from_bits(sign | 0x7F800000 | mantissa << 13);
    if (exponent == 0) /* zero and subnormals: multiples of 2^-24, exact in float32 */
        return float_from_bits(sign | bits_from_float((float)mantissa * 0x1p-24f));
    return float_from_bits(sign | (exponent + 127 - 15) << 23 | mantissa << 13);
}

uint16_t samba_float_to_float16(float value)
{
    uint32_t bits = bits_from_float(value), sign = bits >> 16 & 0x8000;
    bits &= 0x7FFFFFFF;
    if (bits > 0x7F800000)
        return (uint16_t)(sign | 0x7E00 | (bits >> 13 & 0x3FF));
    if (bits >= 0x477FF000) /* 65520 and more round to infinity */
        return (uint16_t)(sign | 0x7C00);
    if (bits < 0x38800000) /* below 2^-14: adding 0.5 lets the adder round to multiples of 2^-24 */
        return (uint16_t)(sign | (bits_from_float(float_from_bits(bits) + 0.5f) - 0x3F000000));
    return (uint16_t)(sign | (bits - 0x38000000 + 0xFFF + (bits >> 13 & 1)) >> 13);
}

int64_t samba_double_to_int64(double value) { return value >= -0x1p63 && value < 0x1p63 ? (int64_t)value : 0; }

double samba_dtype_hold(samba_dtype dtype, double value)
{
    return dtype == SAMBA_BFLOAT16  ? samba_bfloat16_to_float(samba_float_to_bfloat16((float)value))
           : dtype == SAMBA_FLOAT16 ? samba_float16_to_float(samba_float_to_float16((float)value))
                                    : value;
}

double samba_load_double(samba_dtype dtype, const void *element)
{
    switch (dtype) {
    case SAMBA_FLOAT32: return *(const float *)element;
    case SAMBA_FLOAT64: return *(const double *)element;
    case SAMBA_BFLOAT16: return samba_bfloat16_to_float(*(const uint16_t *)element);
    case SAMBA_FLOAT16: return samba_float16_to_float(*(const uint16_t *)element);
    default: return (double)samba_load_int64(dtype, element);
    }
}

int64_t samba_load_int64(samba_dtype dtype, const void *element)
{
    switch (dtype) {
    case SAMBA_INT64: return *(const int64_t *)element;
    case SAMBA_INT32: return *(const int32_t *)element;
    case SAMBA_INT16: return *(const int16_t *)element;
    case SAMBA_INT8: return *(const int8_t *)element;
    case SAMBA_UINT8: return *(const uint8_t *)element;
    case SAMBA_BOOL: return *(const uint8_t *)element != 0;
    default: return samba_double_to_int64(samba_load_double(dtype, element));
    }
}

void samba_store_double(samba_dtype dtype, void *element, double value)
{
    switch (dtype) {
    case SAMBA_FLOAT32: *(float *)element = (float)value; return;
    case SAMBA_FLOAT64: *(double *)element = value; return;
    case SAMBA_BFLOAT16: *(uint16_t *)element = samba_float_to_bfloat16((float)value); return;
    case SAMBA_FLOAT16: *(uint16_t *)element = samba_float_to_float16((float)value); return;
    case SAMBA_BOOL: *(uint8_t *)element = value != 0; return;
    default: samba_store_int64(dtype, element, samba_double_to_int64(value)); return;
    }
}

void samba_store_int64(samba_dtype dtype, void *element, int64_t value)
{
    switch (dtype) {
    case SAMBA_FLOAT32: *(float *)element = (float)value; return;
    case SAMBA_FLOAT64: *(double *)element = (double)value; return;
    case SAMBA_BFLOAT16: *(uint16_t *)element = samba_float_to_bfloat16((float)value); return;
    case SAMBA_FLOAT16: *(uint16_t *)element = samba_float_to_float16((float)value); return;
    case SAMBA_INT64: *(int64_t *)element = value; return;
    case SAMBA_INT32: *(int32_t *)element = (int32_t)value; return;
    case SAMBA_INT16: *(int16_t *)element = (int16_t)value; return;
    case SAMBA_INT8: *(int8_t *)element = (int8_t)value; return;
    case SAMBA_UINT8: *(uint8_t *)element = (uint8_t)value; return;
    case SAMBA_BOOL: *(uint8_t *)element = value != 0; return;
    default: return;
    }
}
