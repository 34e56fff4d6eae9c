/* SPDX-License-Identifier: Apache-2.0
 *
 * Weights in fewer bits: rows of 8-bit integers with a scale each, and groups of 4-bit ones as GGML's Q4_0 has them. A scale of 0
 * is of elements that all are 0. */
#include "base/null.h"
#include "tensor/tensor.h"

#include <sambaflow/adapter.h>
#include <math.h>
#include <string.h>

enum { GROUP = 32 };

typedef struct source { /* float32 (out, in), somehow */
    const float *data;
    int64_t out, in, row, column; /* strides */
} source;

static float element(const source *s, int64_t i, int64_t k) { return s->data[i * s->row + k * s->column]; }

static samba_status new_part(samba_context *context, const samba_tensor *weight, const char *ending, samba_dtype dtype, int rank,
                             const int64_t *shape, samba_tensor **part)
{
    samba_text name;
    samba_status status = samba_text_begin(&name, context, "%s%s", samba_tensor_name(weight), ending);
    if (status == SAMBA_OK)
        status = samba_tensor_new(context, name.data, dtype, rank, shape, part);
    samba_text_clear(&name);
    return status;
}

static samba_status narrow(samba_context *context, const samba_tensor *weight, samba_tensor *parts[2])
{
    SAMBA_TRY(new_part(context, weight, "", SAMBA_BFLOAT16, samba_tensor_rank(weight), samba_tensor_shape(weight), &parts[0]));
    return samba_tensor_copy(parts[0], weight);
}

static samba_status to_int8(samba_context *context, const samba_tensor *weight, const source *s, samba_tensor *parts[2])
{
    SAMBA_TRY(new_part(context, weight, "", SAMBA_INT8, 2, (int64_t[]){s->out, s->in}, &parts[0]));
    SAMBA_TRY(new_part(context, weight, "_scale", SAMBA_FLOAT32, 2, (int64_t[]){s->out, 1}, &parts[1]));
    int8_t *integers = samba_tensor_data(parts[0]);
    float *scales = samba_tensor_data(parts[1]);
    for (int64_t i = 0; i < s->out; i++) {
        float most = 0;
        for (int64_t k = 0; k < s->in; k++)
            most = fmaxf(most, fabsf(element(s, i, k)));
        scales[i] = most / 127;
        const float inverse = scales[i] > 0 ? 1 / scales[i] : 0;
        for (int64_t k = 0; k < s->in; k++)
            integers[i * s->in + k] = (int8_t)fminf(127, fmaxf(-127, rintf(element(s, i, k) * inverse)));
    }
    return SAMBA_OK;
}

/* A group's elements as integers 0 to 15, 8 of which is 0. */
static void pack(const source *s, int64_t i, int64_t first, uint8_t *bytes, void *scale)
{
    float most = 0;
    int integers[GROUP];
    for (int k = 0; k < GROUP; k++)
        most = fabsf(element(s, i, first + k)) > fabsf(most) ? element(s, i, first + k) : most;
    samba_store_double(SAMBA_FLOAT16, scale, (double)most / -8);
    const float inverse = most != 0 ? -8 / most : 0;
    for (int k = 0; k < GROUP; k++)
        integers[k] = (int)fminf(15, fmaxf(0, floorf(element(s, i, first + k) * inverse + 8.5f)));
    for (int k = 0; k < GROUP / 2; k++)
        bytes[k] = (uint8_t)(integers[k] | integers[k + GROUP / 2] << 4);
}

static samba_status to_int4(samba_context *context, const samba_tensor *weight, const source *s, samba_tensor *parts[2])
{
    const int64_t groups = s->in / GROUP;
    if (s->in % GROUP != 0)
        return samba_fail(context, SAMBA_ERROR_SHAPE,
                          "samba_quantize: \"%.200s\" has rows of %lld, and INT4 is of groups of %d: keep it in INT8",
                          samba_tensor_name(weight), (long long)s->in, GROUP);
    SAMBA_TRY(new_part(context, weight, "_packed", SAMBA_UINT8, 3, (int64_t[]){s->out, groups, GROUP / 2}, &parts[0]));
    SAMBA_TRY(new_part(context, weight, "_scale", SAMBA_FLOAT16, 3, (int64_t[]){s->out, groups, 1}, &parts[1]));
    uint8_t *bytes = samba_tensor_data(parts[0]);
    uint16_t *scales = samba_tensor_data(parts[1]);
    for (int64_t i = 0; i < s->out; i++)
        for (int64_t g = 0; g < groups; g++)
            pack(s, i, g * GROUP, bytes + (i * groups + g) * (GROUP / 2), scales + i * groups + g);
    return SAMBA_OK;
}

float samba_quantized_at(samba_tensor *const parts[2], bool four_bits, int64_t in, int64_t i, int64_t k)
{
    if (!four_bits)
        return (float)((const int8_t *)samba_tensor_data(parts[0]))[i * in + k] * ((const float *)samba_tensor_data(parts[1]))[i];
    const int64_t group = (i * in + k) / GROUP, at = k % GROUP;
    const uint8_t byte = ((const uint8_t *)samba_tensor_data(parts[0]))[group * (GROUP / 2) + at % (GROUP / 2)];
    const uint16_t *scale = (const uint16_t *)samba_tensor_data(parts[1]) + group;
    return (float)((at < GROUP / 2 ? byte & 15 : byte >> 4) - 8) * (float)samba_load_double(SAMBA_FLOAT16, scale);
}

samba_status samba_quantize(samba_context *context, const samba_tensor *weight, samba_base base, bool transposed,
                            samba_tensor *parts[2])
{
    if (!context)
        return SAMBA_ERROR_ARGUMENT;
    SAMBA_NEED(context, parts);
    parts[0] = parts[1] = NULL;
    SAMBA_NEED(context, weight);
    const bool integers = base == SAMBA_BASE_INT8 || base == SAMBA_BASE_INT4;
    if (!integers && base != SAMBA_BASE_BFLOAT16)
        return samba_fail(context, SAMBA_ERROR_ARGUMENT, "samba_quantize: a base of fewer bits is expected, given %d", (int)base);
    if (samba_tensor_dtype(weight) != SAMBA_FLOAT32 || !samba_tensor_is_contiguous(weight) ||
        (!samba_tensor_data(weight) && samba_tensor_numel(weight) > 0))
        return samba_fail(context, SAMBA_ERROR_DTYPE,
                          "samba_quantize: a float32 tensor in one piece of memory is expected, given %s",
                          samba_dtype_name(samba_tensor_dtype(weight)));
    if (integers && samba_tensor_rank(weight) != 2)
        return samba_fail(context, SAMBA_ERROR_SHAPE, "samba_quantize: a weight of rank 2 is expected, given rank %d",
                          samba_tensor_rank(weight));
    samba_status status;
    if (!integers) {
        status = narrow(context, weight, parts);
    } else {
        const int64_t *shape = samba_tensor_shape(weight);
        const source s = {.data = samba_tensor_data(weight),
                          .out = shape[transposed],
                          .in = shape[!transposed],
                          .row = transposed ? 1 : shape[1],
                          .column = transposed ? shape[1] : 1};
        status = (base == SAMBA_BASE_INT8 ? to_int8 : to_int4)(context, weight, &s, parts);
    }
    for (int i = 0; i < 2 && status != SAMBA_OK; i++) {
        samba_tensor_free(parts[i]);
        parts[i] = NULL;
    }
    return status;
}
