/* SPDX-License-Identifier: Apache-2.0
 *
 * The building blocks of inference: failing with the operator's name, setting a result that is checked, and the common
 * requirements on inputs. The first requirement that is not met is reported; nothing here changes the graph. */
#include "ops/families.h"

#define BYTES_MAX ((int64_t)1 << 62)

samba_status samba_infer_fail(const samba_infer *infer, samba_status status, const char *format, ...)
{
    char message[768];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    return samba_fail(infer->graph->context, status, "%s: %s",
                      infer->graph->speaker ? infer->graph->speaker : samba_ops[infer->op].name, message);
}

samba_status samba_infer_set(samba_infer *infer, int64_t dtype, int64_t rank, const int64_t *shape)
{
    if (dtype < 0 || dtype >= SAMBA_DTYPE_COUNT)
        return samba_infer_fail(infer, SAMBA_ERROR_DTYPE, "expected a dtype, number 0 to %d, given %lld", SAMBA_DTYPE_COUNT - 1,
                                (long long)dtype);
    if (rank < 0 || rank > SAMBA_MAX_RANK)
        return samba_infer_fail(infer, SAMBA_ERROR_SHAPE, "expected a result of rank 0 to %d, given rank %lld", SAMBA_MAX_RANK,
                                (long long)rank);
    infer->dtype = (samba_dtype)dtype;
    infer->rank = (int)rank;
    for (int d = 0; d < infer->rank; d++) {
        if (shape[d] < 0)
            return samba_infer_fail(infer, SAMBA_ERROR_SHAPE, "expected sizes of 0 or more, given %lld in dim %d",
                                    (long long)shape[d], d);
        infer->shape[d] = shape[d];
    }
    int64_t numel, bytes;
    if (!samba_shape_numel(infer->rank, infer->shape, &numel) ||
        !samba_mul_checked(numel, (int64_t)samba_dtype_size(infer->dtype), &bytes) || bytes > BYTES_MAX)
        return samba_infer_fail(infer, SAMBA_ERROR_SHAPE, "a result of shape %s would have more than 2^62 bytes; make it smaller",
                                SAMBA_SHAPE_OF(infer));
    return SAMBA_OK;
}

samba_status samba_infer_set_like(samba_infer *infer, int i)
{
    const samba_node *input = infer->inputs[i];
    return samba_infer_set(infer, input->dtype, input->rank, input->shape);
}

samba_status samba_infer_need_floating(const samba_infer *infer, int i)
{
    samba_dtype dtype = infer->inputs[i]->dtype;
    if (samba_dtype_table[dtype].category != SAMBA_CATEGORY_FLOAT)
        return samba_infer_fail(infer, SAMBA_ERROR_DTYPE, "input %d must be floating-point, given %s; cast it to float32 first",
                                i, samba_dtype_name(dtype));
    return SAMBA_OK;
}

samba_status samba_infer_need_integer(const samba_infer *infer, int i)
{
    samba_dtype dtype = infer->inputs[i]->dtype;
    if (samba_dtype_table[dtype].category != SAMBA_CATEGORY_INTEGER)
        return samba_infer_fail(infer, SAMBA_ERROR_DTYPE, "input %d must be of integers, given %s; cast it to int64 first", i,
                                samba_dtype_name(dtype));
    return SAMBA_OK;
}

samba_status samba_infer_need_dtype(const samba_infer *infer, int i, samba_dtype dtype)
{
    samba_dtype given = infer->inputs[i]->dtype;
    if (given != dtype)
        return samba_infer_fail(infer, SAMBA_ERROR_DTYPE, "input %d must be %s, given %s; cast it first", i,
                                samba_dtype_name(dtype), samba_dtype_name(given));
    return SAMBA_OK;
}

samba_status samba_infer_need_rank(const samba_infer *infer, int i, int rank)
{
    const samba_node *input = infer->inputs[i];
    if (input->rank != rank)
        return samba_infer_fail(infer, SAMBA_ERROR_SHAPE, "input %d must have rank %d, given shape %s", i, rank,
                                SAMBA_SHAPE_OF(input));
    return SAMBA_OK;
}

samba_status samba_infer_need_same_dtype(const samba_infer *infer, int i, int j)
{
    samba_dtype a = infer->inputs[i]->dtype, b = infer->inputs[j]->dtype;
    if (a != b)
        return samba_infer_fail(infer, SAMBA_ERROR_DTYPE,
                                "inputs %d and %d must have one dtype, given %s and %s; cast one of them", i, j,
                                samba_dtype_name(a), samba_dtype_name(b));
    return SAMBA_OK;
}

samba_status samba_infer_need_shape(const samba_infer *infer, int i, int rank, const int64_t *shape)
{
    const samba_node *input = infer->inputs[i];
    if (!samba_shape_equal(rank, shape, input->rank, input->shape))
        return samba_infer_fail(infer, SAMBA_ERROR_SHAPE, "expected the gradient of a result of shape %s, given shape %s",
                                SAMBA_SHAPE(rank, shape), SAMBA_SHAPE_OF(input));
    return SAMBA_OK;
}

samba_status samba_infer_need_norm(const samba_infer *infer, int64_t dims, double eps)
{
    const int rank = infer->inputs[0]->rank;
    SAMBA_TRY(samba_infer_need_floating(infer, 0));
    if (dims < 1 || dims > rank)
        return samba_infer_fail(infer, SAMBA_ERROR_ARGUMENT,
                                "expected to normalize 1 to %d dims of an input of rank %d, given %lld", rank, rank,
                                (long long)dims);
    return eps >= 0 ? SAMBA_OK : samba_infer_fail(infer, SAMBA_ERROR_ARGUMENT, "eps must be 0 or more, given %g", eps);
}

samba_status samba_infer_need_count(const samba_infer *infer, const char *what, const samba_dims *dims, int64_t count)
{
    if (dims->count != count)
        return samba_infer_fail(infer, SAMBA_ERROR_ARGUMENT, "%s must have %lld entries, given %lld", what, (long long)count,
                                (long long)dims->count);
    return SAMBA_OK;
}
