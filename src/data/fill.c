/* SPDX-License-Identifier: Apache-2.0
 *
 * Filling tensors with random numbers, and shuffling. The number of an element depends on its index in C order, so a view is
 * filled as a contiguous tensor of its shape would be, and threads may share the work in any way. */
#include "base/null.h"
#include "base/team.h"
#include "data/data.h"
#include "tensor/fill.h"
#include "tensor/philox.h"

#include <math.h>
#include <string.h>

#define CHUNK 256
#define BLOCK 4096 /* elements that a thread fills at a time */
#define MOST_THREADS 4096

typedef enum kind {
    UNIFORM = SAMBA_UNIFORM,
    NORMAL = SAMBA_NORMAL,
    INVERSE = SAMBA_NORMAL_INVERSE,
    TRUNCATED = SAMBA_NORMAL_TRUNCATED,
    INTEGERS
} kind;

typedef struct request {
    kind kind;
    uint64_t seed;
    double a, b;            /* low and high, mean and deviation */
    double least, greatest; /* of a truncated distribution */
    int64_t low, high;      /* integers */
} request;

static void fill_range(const request *r, samba_dtype dtype, void *data, int64_t first, int64_t count)
{
    if (r->kind == UNIFORM)
        samba_fill_uniform_range(dtype, data, r->seed, (uint64_t)first, count, r->a, r->b);
    else if (r->kind == NORMAL)
        samba_fill_normal_range(dtype, data, r->seed, (uint64_t)first, count, r->a, r->b);
    else if (r->kind == INVERSE)
        samba_fill_inverse_range(dtype, data, r->seed, (uint64_t)first, count, r->a, r->b);
    else if (r->kind == TRUNCATED)
        samba_fill_truncated_range(dtype, data, r->seed, (uint64_t)first, count, r->a, r->b, r->least, r->greatest);
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

static samba_status check_data(const samba_tensor *tensor)
{
    if (!tensor->storage)
        return samba_fail(tensor->context, SAMBA_ERROR_STATE, "fill of tensor %s: it has no data; make it with samba_tensor_new",
                          samba_tensor_name(tensor));
    return SAMBA_OK;
}

static samba_status fill(samba_tensor *tensor, const request *r)
{
    int64_t numel = samba_tensor_numel(tensor), index[SAMBA_MAX_RANK] = {0};
    SAMBA_TRY(check_data(tensor));
    if (!samba_shape_is_apart(tensor->rank, tensor->shape, tensor->strides))
        return samba_fail(
            tensor->context, SAMBA_ERROR_ARGUMENT,
            "fill of tensor %s: its elements share memory, or lie between each other: fill a tensor with memory for each element",
            samba_tensor_name(tensor));
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

static samba_status check_uniform(const samba_tensor *tensor, double low, double high)
{
    SAMBA_TRY(check_float(tensor, "uniform"));
    if (!(low <= high) || !isfinite(high - low))
        return samba_fail(tensor->context, SAMBA_ERROR_ARGUMENT,
                          "uniform fill of tensor %s: from %g to %g; give finite bounds, the lower first",
                          samba_tensor_name(tensor), low, high);
    return SAMBA_OK;
}

static samba_status check_normal(const samba_tensor *tensor, double mean, double deviation)
{
    SAMBA_TRY(check_float(tensor, "normal"));
    if (!isfinite(mean) || !isfinite(deviation) || deviation < 0)
        return samba_fail(tensor->context, SAMBA_ERROR_ARGUMENT,
                          "normal fill of tensor %s: mean %g, deviation %g; give finite numbers, the deviation not negative",
                          samba_tensor_name(tensor), mean, deviation);
    return SAMBA_OK;
}

samba_status samba_fill_uniform(samba_tensor *tensor, uint64_t seed, double low, double high)
{
    SAMBA_NEED(NULL, tensor);
    SAMBA_TRY(check_uniform(tensor, low, high));
    return fill(tensor, &(request){.kind = UNIFORM, .seed = seed, .a = low, .b = high});
}

samba_status samba_fill_normal(samba_tensor *tensor, uint64_t seed, double mean, double deviation)
{
    SAMBA_NEED(NULL, tensor);
    SAMBA_TRY(check_normal(tensor, mean, deviation));
    return fill(tensor, &(request){.kind = NORMAL, .seed = seed, .a = mean, .b = deviation});
}

/* ---- by several threads ---- */
samba_fill_options samba_fill_defaults(void) { return (samba_fill_options){.struct_size = sizeof(samba_fill_options), .b = 1}; }

static samba_status check_fill(const samba_tensor *tensor, const samba_fill_options *o)
{
    const char *name = samba_tensor_name(tensor);
    if ((int)o->distribution < SAMBA_UNIFORM || o->distribution > SAMBA_NORMAL_TRUNCATED)
        return samba_fail(tensor->context, SAMBA_ERROR_ARGUMENT,
                          "fill of tensor %s: there is no distribution %d; give SAMBA_UNIFORM or a SAMBA_NORMAL", name,
                          (int)o->distribution);
    if (o->distribution == SAMBA_NORMAL_TRUNCATED && !(o->low <= o->high))
        return samba_fail(tensor->context, SAMBA_ERROR_ARGUMENT,
                          "truncated fill of tensor %s: from %g to %g; give bounds, the lower first", name, o->low, o->high);
    if (o->rounding != SAMBA_NEAREST_EVEN && o->rounding != SAMBA_TRUNCATION)
        return samba_fail(tensor->context, SAMBA_ERROR_ARGUMENT,
                          "fill of tensor %s: there is no rounding %d; give SAMBA_NEAREST_EVEN or SAMBA_TRUNCATION", name,
                          (int)o->rounding);
    if (o->threads < 0 || o->threads > MOST_THREADS)
        return samba_fail(tensor->context, SAMBA_ERROR_ARGUMENT,
                          "fill of tensor %s: %d threads; give 1 to %d, or 0 for as many as OpenMP offers", name, o->threads,
                          MOST_THREADS);
    SAMBA_TRY(o->distribution == SAMBA_UNIFORM ? check_uniform(tensor, o->a, o->b) : check_normal(tensor, o->a, o->b));
    SAMBA_TRY(check_data(tensor));
    if (!samba_tensor_is_contiguous(tensor))
        return samba_fail(tensor->context, SAMBA_ERROR_ARGUMENT,
                          "fill of tensor %s: it is not contiguous; fill one that is, and copy", name);
    return SAMBA_OK;
}

/* bfloat16 by way of float32: nearest even adds what carries into the upper half; there are no infinities or nans here. */
static void fill_low(const request *r, samba_rounding rounding, uint16_t *to, int64_t first, int64_t count)
{
    float values[BLOCK];
    fill_range(r, SAMBA_FLOAT32, values, first, count);
    for (int64_t i = 0; i < count; i++) {
        uint32_t bits;
        memcpy(&bits, &values[i], sizeof bits);
        if (rounding == SAMBA_NEAREST_EVEN)
            bits += 0x7FFF + (bits >> 16 & 1);
        to[i] = (uint16_t)(bits >> 16);
    }
}

typedef struct fill_work {
    samba_tensor *tensor;
    const samba_fill_options *options;
    request request;
} fill_work;

static void fill_part(void *argument, int thread, int team)
{
    const fill_work *work = argument;
    samba_tensor *tensor = work->tensor;
    const int64_t numel = samba_tensor_numel(tensor), size = (int64_t)samba_dtype_size(tensor->dtype);
    int64_t begin, end;
    samba_team_share((numel + BLOCK - 1) / BLOCK, thread, team, &begin, &end);
    for (int64_t first = begin * BLOCK; first < numel && first < end * BLOCK; first += BLOCK) {
        int64_t count = numel - first < BLOCK ? numel - first : BLOCK;
        char *to = tensor->data + first * size;
        if (tensor->dtype == SAMBA_BFLOAT16)
            fill_low(&work->request, work->options->rounding, (uint16_t *)(void *)to, first, count);
        else
            fill_range(&work->request, tensor->dtype, to, first, count);
    }
}

samba_status samba_fill(samba_tensor *tensor, const samba_fill_options *given)
{
    SAMBA_NEED(NULL, tensor);
    samba_fill_options options = samba_fill_defaults();
    if (given)
        SAMBA_TRY(samba_options_take(tensor->context, "samba_fill", given, sizeof options, &options));
    SAMBA_TRY(check_fill(tensor, &options));
    fill_work work = {.tensor = tensor, .options = &options};
    work.request = (request){.kind = (kind)options.distribution,
                             .seed = options.seed,
                             .a = options.a,
                             .b = options.b,
                             .least = options.low,
                             .greatest = options.high};
    const int threads = options.threads > 0 ? options.threads : samba_team_offered();
    samba_team(samba_tensor_numel(tensor) > BLOCK ? threads : 1, fill_part, &work);
    return SAMBA_OK;
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
    SAMBA_NEED(NULL, tensor);
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
    if (!order)
        return;
    for (int64_t i = 0; i < n; i++)
        order[i] = i;
    for (int64_t i = n - 1; i > 0; i--) {
        int64_t j = (int64_t)samba_philox_below(samba_philox_word64(seed, (uint64_t)i), (uint64_t)i + 1), kept = order[i];
        order[i] = order[j];
        order[j] = kept;
    }
}
