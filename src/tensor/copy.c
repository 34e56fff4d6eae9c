/* SPDX-License-Identifier: Apache-2.0
 *
 * Copying values between any strides and dtypes. The two tensors' dims are first merged where both lie in one run, so a
 * contiguous copy is one memcpy and a transposed one a short loop nest. Different dtypes meet in a small buffer: integers and
 * bools as int64, floats as double, which hold every value exactly; so there are 4 x 10 short loops and not 10 x 10. */
#include "base/null.h"
#include "tensor/tensor.h"

#include <string.h>

#define CHUNK 256

/* one loop over n elements; the dtype's C type and the conversion are all that differs */
#define EACH(statement)                                                                                                          \
    for (int64_t i = 0; i < n; i++) {                                                                                            \
        statement;                                                                                                               \
    }                                                                                                                            \
    break

static void load_integers(samba_dtype dtype, const void *source, int64_t s, int64_t n, int64_t *to)
{
    switch (dtype) {
    case SAMBA_INT64: EACH(to[i] = ((const int64_t *)source)[i * s]);
    case SAMBA_INT32: EACH(to[i] = ((const int32_t *)source)[i * s]);
    case SAMBA_INT16: EACH(to[i] = ((const int16_t *)source)[i * s]);
    case SAMBA_INT8: EACH(to[i] = ((const int8_t *)source)[i * s]);
    case SAMBA_UINT8: EACH(to[i] = ((const uint8_t *)source)[i * s]);
    default: EACH(to[i] = ((const uint8_t *)source)[i * s] != 0);
    }
}

static void load_floats(samba_dtype dtype, const void *source, int64_t s, int64_t n, double *to)
{
    switch (dtype) {
    case SAMBA_FLOAT32: EACH(to[i] = ((const float *)source)[i * s]);
    case SAMBA_FLOAT64: EACH(to[i] = ((const double *)source)[i * s]);
    case SAMBA_BFLOAT16: EACH(to[i] = samba_bfloat16_to_float(((const uint16_t *)source)[i * s]));
    default: EACH(to[i] = samba_float16_to_float(((const uint16_t *)source)[i * s]));
    }
}

static void store_integers(samba_dtype dtype, void *destination, int64_t s, int64_t n, const int64_t *from)
{
    switch (dtype) {
    case SAMBA_FLOAT32: EACH(((float *)destination)[i * s] = (float)from[i]);
    case SAMBA_FLOAT64: EACH(((double *)destination)[i * s] = (double)from[i]);
    case SAMBA_BFLOAT16: EACH(((uint16_t *)destination)[i * s] = samba_float_to_bfloat16((float)from[i]));
    case SAMBA_FLOAT16: EACH(((uint16_t *)destination)[i * s] = samba_float_to_float16((float)from[i]));
    case SAMBA_INT64: EACH(((int64_t *)destination)[i * s] = from[i]);
    case SAMBA_INT32: EACH(((int32_t *)destination)[i * s] = (int32_t)from[i]);
    case SAMBA_INT16: EACH(((int16_t *)destination)[i * s] = (int16_t)from[i]);
    case SAMBA_INT8: EACH(((int8_t *)destination)[i * s] = (int8_t)from[i]);
    case SAMBA_UINT8: EACH(((uint8_t *)destination)[i * s] = (uint8_t)from[i]);
    default: EACH(((uint8_t *)destination)[i * s] = from[i] != 0);
    }
}

static void store_floats(samba_dtype dtype, void *destination, int64_t s, int64_t n, const double *from)
{
    switch (dtype) {
    case SAMBA_FLOAT32: EACH(((float *)destination)[i * s] = (float)from[i]);
    case SAMBA_FLOAT64: EACH(((double *)destination)[i * s] = from[i]);
    case SAMBA_BFLOAT16: EACH(((uint16_t *)destination)[i * s] = samba_float_to_bfloat16((float)from[i]));
    case SAMBA_FLOAT16: EACH(((uint16_t *)destination)[i * s] = samba_float_to_float16((float)from[i]));
    case SAMBA_BOOL: EACH(((uint8_t *)destination)[i * s] = from[i] != 0);
    default: { /* the rest are integers */
        int64_t whole[CHUNK];
        for (int64_t i = 0; i < n; i++)
            whole[i] = samba_double_to_int64(from[i]);
        store_integers(dtype, destination, s, n, whole);
    }
    }
}

static void copy_same(size_t size, char *destination, int64_t ds, const char *source, int64_t ss, int64_t n)
{
    if (ds == 1 && ss == 1) {
        memmove(destination, source, (size_t)n * size); /* a tensor may be copied onto itself */
        return;
    }
    switch (size) {
    case 1: EACH(((uint8_t *)destination)[i * ds] = ((const uint8_t *)source)[i * ss]);
    case 2: EACH(((uint16_t *)destination)[i * ds] = ((const uint16_t *)source)[i * ss]);
    case 4: EACH(((uint32_t *)destination)[i * ds] = ((const uint32_t *)source)[i * ss]);
    default: EACH(((uint64_t *)destination)[i * ds] = ((const uint64_t *)source)[i * ss]);
    }
}

void samba_copy_elements(samba_dtype to, void *destination, int64_t destination_stride, samba_dtype from, const void *source,
                         int64_t source_stride, int64_t n)
{
    size_t to_size = samba_dtype_table[to].size, from_size = samba_dtype_table[from].size;
    if (n <= 0)
        return;
    if (to == from) {
        copy_same(to_size, destination, destination_stride, source, source_stride, n);
        return;
    }
    bool is_float = samba_dtype_table[from].category == SAMBA_CATEGORY_FLOAT;
    for (int64_t begin = 0; begin < n; begin += CHUNK) {
        int64_t count = n - begin < CHUNK ? n - begin : CHUNK;
        char *d = (char *)destination + begin * destination_stride * (int64_t)to_size;
        const char *s = (const char *)source + begin * source_stride * (int64_t)from_size;
        if (is_float) {
            double values[CHUNK];
            load_floats(from, s, source_stride, count, values);
            store_floats(to, d, destination_stride, count, values);
        } else {
            int64_t values[CHUNK];
            load_integers(from, s, source_stride, count, values);
            store_integers(to, d, destination_stride, count, values);
        }
    }
}

/* Drops sizes of 1 and merges a dim with the one before it where both tensors step through the two as one. Gives the new rank, at
 * least 1. */
static int merge_dims(const samba_tensor *a, const samba_tensor *b, int64_t *shape, int64_t *a_strides, int64_t *b_strides)
{
    int rank = 0;
    for (int i = 0; i < a->rank; i++) {
        int64_t size = a->shape[i];
        if (size == 1)
            continue;
        if (rank > 0 && a_strides[rank - 1] == a->strides[i] * size && b_strides[rank - 1] == b->strides[i] * size) {
            shape[rank - 1] *= size;
        } else {
            shape[rank++] = size;
        }
        a_strides[rank - 1] = a->strides[i];
        b_strides[rank - 1] = b->strides[i];
    }
    if (rank == 0) {
        shape[0] = a_strides[0] = b_strides[0] = 1;
        rank = 1;
    }
    return rank;
}

static samba_status check_copy(const samba_tensor *destination, const samba_tensor *source)
{
    samba_context *context = destination->context;
    if (!samba_shape_equal(destination->rank, destination->shape, source->rank, source->shape))
        return samba_fail(context, SAMBA_ERROR_SHAPE, "copy of tensor %s %s into %s %s: the shapes must be equal",
                          samba_tensor_name(source), SAMBA_SHAPE_OF(source), samba_tensor_name(destination),
                          SAMBA_SHAPE_OF(destination));
    if (!destination->storage || !source->storage)
        return samba_fail(context, SAMBA_ERROR_STATE, "copy of tensor %s into %s: %s has no data; make it with samba_tensor_new",
                          samba_tensor_name(source), samba_tensor_name(destination),
                          source->storage ? "the destination" : "the source");
    if (!samba_shape_is_apart(destination->rank, destination->shape, destination->strides))
        return samba_fail(
            context, SAMBA_ERROR_ARGUMENT,
            "copy into tensor %s: its elements share memory, or lie between each other: copy into a tensor with memory for "
            "each element",
            samba_tensor_name(destination));
    return SAMBA_OK;
}

samba_status samba_tensor_copy(samba_tensor *destination, const samba_tensor *source)
{
    SAMBA_NEED(NULL, destination);
    SAMBA_NEED(destination->context, source);
    int64_t shape[SAMBA_MAX_RANK], to_strides[SAMBA_MAX_RANK], from_strides[SAMBA_MAX_RANK], index[SAMBA_MAX_RANK] = {0};
    SAMBA_TRY(check_copy(destination, source));
    if (samba_tensor_numel(destination) == 0)
        return SAMBA_OK;
    int rank = merge_dims(destination, source, shape, to_strides, from_strides), outer = rank - 1;
    int64_t to_size = (int64_t)samba_dtype_size(destination->dtype), from_size = (int64_t)samba_dtype_size(source->dtype);
    do {
        int64_t to_offset = 0, from_offset = 0;
        for (int i = 0; i < outer; i++) {
            to_offset += index[i] * to_strides[i];
            from_offset += index[i] * from_strides[i];
        }
        samba_copy_elements(destination->dtype, destination->data + to_offset * to_size, to_strides[outer], source->dtype,
                            source->data + from_offset * from_size, from_strides[outer], shape[outer]);
    } while (samba_shape_next(outer, shape, index));
    return SAMBA_OK;
}
