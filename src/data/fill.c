/* SPDX-License-Identifier: Apache-2.0
 *
 * Filling tensors with random numbers, and shuffling. A tensor's element has its number by its place in C order, so a view is
 * filled as a contiguous tensor of its shape would be. */
#include "data/data.h"
#include "tensor/fill.h"
#include "tensor/philox.h"

#include <math.h>

#define CHUNK 256

typedef enum kind { UNIFORM, NORMAL, INTEGERS } kind;

typedef struct request {
    kind kind;
    uint64_t seed;
    double a, b;       /* low and high, mean and deviation */
    int64_t low, high; /* integers */
} request;

static void fill_range(const request *r, samba_dtype dtype, void *data, int64_t first, int64_t count)
{
    if (r->kind == UNIFORM)
        samba_fill_uniform_range(dtype, data, r->seed, (uint64_t)first, count, r->a, r->b);
    else if (r->kind == NORMAL)
        samba_fill_normal_range(dtype, data, r->seed, (uint64_t)first, count, r->a, r->b);
    else
        samba_fill_integers_range(dtype, data, r->seed, (uint64_t)first, count, r->low, r->high);
}

/* One row of a tensor whose elements are not contiguous. */
static void fill_row(const request *r, const samba_tensor *tensor, char *row, int64_t stride, int64_t first, int64_t count)
{
    _Alignas(SAMBA_ALIGNMENT) char values[CHUNK * 8];
    int64_t size = (int64_t)samba_dtype_size(tensor->dtype);
    for (int64_t done = 0; done < count; done += CHUNK) {
        int64_t n = count - done < CHUNK ? count - done : CHUNK;
        fill_range(r, tensor->dtype, values, first + done, n);
        samba_copy_elements(tensor->dtype, row + done * stride * size, stride, tensor->dtype, values, 1, n);
    }
}

static samba_status fill(samba_tensor *tensor, const request *r)
{
    int64_t numel = samba_tensor_numel(tensor), index[SAMBA_MAX_RANK] = {0};
    if (!tensor->storage)
        return samba_fail(tensor->context, SAMBA_ERROR_STATE, "fill of tensor %s: it has no data; make it with samba_tensor_new",
                          samba_tensor_name(tensor));
    for (int i = 0; i < tensor->rank; i++)
        if (tensor->strides[i] == 0 && tensor->shape[i] > 1)
            return samba_fail(tensor->context, SAMBA_ERROR_ARGUMENT,
                              "fill of tensor %s: dim %d is expanded, its elements share one place", samba_tensor_name(tensor),
                              i);
    if (numel == 0)
        return SAMBA_OK;
    if (samba_tensor_is_contiguous(tensor)) {
        fill_range(r, tensor->dtype, tensor->data, 0, numel);
        return SAMBA_OK;
    }
    int outer = tensor->rank - 1;
    int64_t length = tensor->shape[outer], first = 0;
    do {
        int64_t offset = 0;
        for (int i = 0; i < outer; i++)
            offset += index[i] * tensor->strides[i];
        fill_row(r, tensor, tensor->data + offset * (int64_t)samba_dtype_size(tensor->dtype), tensor->strides[outer], first,
                 length);
        first += length;
    } while (samba_shape_next(outer, tensor->shape, index));
    return SAMBA_OK;
}

static samba_status check_float(const samba_tensor *tensor, const char *what)
{
    if (!samba_dtype_is_floating_point(tensor->dtype))
        return samba_fail(tensor->context, SAMBA_ERROR_DTYPE,
                          "%s fill of tensor %s: it is %s; give a float tensor or use samba_fill_integers", what,
                          samba_tensor_name(tensor), samba_dtype_name(tensor->dtype));
    return SAMBA_OK;
}

samba_status samba_fill_uniform(samba_tensor *tensor, uint64_t seed, double low, double high)
{
    SAMBA_TRY(check_float(tensor, "uniform"));
    if (!(low <= high) || !isfinite(high - low))
        return samba_fail(tensor->context, SAMBA_ERROR_ARGUMENT,
                          "uniform fill of tensor %s: from %g to %g; give finite bounds, the lower first",
                          samba_tensor_name(tensor), low, high);
    return fill(tensor, &(request){.kind = UNIFORM, .seed = seed, .a = low, .b = high});
}

samba_status samba_fill_normal(samba_tensor *tensor, uint64_t seed, double mean, double deviation)
{
    SAMBA_TRY(check_float(tensor, "normal"));
    if (!isfinite(mean) || !isfinite(deviation) || deviation < 0)
        return samba_fail(tensor->context, SAMBA_ERROR_ARGUMENT,
                          "normal fill of tensor %s: mean %g, deviation %g; give finite numbers, the deviation not negative",
                          samba_tensor_name(tensor), mean, deviation);
    return fill(tensor, &(request){.kind = NORMAL, .seed = seed, .a = mean, .b = deviation});
}

/* The integers a dtype holds; float16's are those that do not round to infinity. */
static void integer_range(samba_dtype dtype, int64_t *least, int64_t *greatest)
{
    *least = INT64_MIN;
    *greatest = INT64_MAX;
    if (dtype == SAMBA_FLOAT16) {
        *least = -65504;
        *greatest = 65504;
    } else if (dtype == SAMBA_BOOL || dtype == SAMBA_UINT8) {
        *least = 0;
        *greatest = dtype == SAMBA_BOOL ? 1 : 255;
    } else if (!samba_dtype_is_floating_point(dtype) && dtype != SAMBA_INT64) {
        *greatest = (INT64_C(1) << (8 * samba_dtype_size(dtype) - 1)) - 1;
        *least = -*greatest - 1;
    }
}

samba_status samba_fill_integers(samba_tensor *tensor, uint64_t seed, int64_t low, int64_t high)
{
    int64_t least, greatest;
    integer_range(tensor->dtype, &least, &greatest);
    if (low >= high || low < least || high - 1 > greatest)
        return samba_fail(
            tensor->context, SAMBA_ERROR_ARGUMENT,
            "integer fill of tensor %s: from %lld to below %lld; the lower bound comes first, and %s holds %lld to %lld",
            samba_tensor_name(tensor), (long long)low, (long long)high, samba_dtype_name(tensor->dtype), (long long)least,
            (long long)greatest);
    return fill(tensor, &(request){.kind = INTEGERS, .seed = seed, .low = low, .high = high});
}

void samba_shuffle(uint64_t seed, int64_t n, int64_t *order)
{
    for (int64_t i = 0; i < n; i++)
        order[i] = i;
    for (int64_t i = n - 1; i > 0; i--) {
        int64_t j = (int64_t)samba_philox_below(samba_philox_word64(seed, (uint64_t)i), (uint64_t)i + 1), kept = order[i];
        order[i] = order[j];
        order[j] = kept;
    }
}
