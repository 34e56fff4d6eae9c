/* SPDX-License-Identifier: Apache-2.0
 *
 * Host tensors and the memory under them.
 *
 * Tensors are headers: dtype, shape, strides, a first element. Storage is the memory with a count of the tensors over it; the
 * last one to go frees it, or tells the owner of foreign memory. A tensor without storage is empty: a dtype and a shape to
 * compile with.
 *
 * Every tensor that exists has sizes and strides whose farthest element lies below 2^62 bytes, so views multiply without checks.
 */
#include "base/null.h"
#include "tensor/tensor.h"

#include <string.h>

#define LARGEST_BYTES (INT64_C(1) << 62)

struct samba_storage {
    samba_context *context;
    int64_t holders;
    void *memory; /* ours to free; NULL for foreign memory */
    size_t bytes;
    void (*release)(void *owner); /* of foreign memory; may be NULL */
    void *owner;
};

static void storage_drop(struct samba_storage *storage)
{
    if (!storage || --storage->holders > 0)
        return;
    samba_free(storage->context, storage->memory, storage->bytes);
    if (storage->release)
        storage->release(storage->owner);
    samba_free(storage->context, storage, sizeof *storage);
}

/* A header without storage. `strides` NULL: C-contiguous. */
static samba_status header_new(samba_context *context, const char *name, samba_dtype dtype, int rank, const int64_t *shape,
                               const int64_t *strides, samba_tensor **tensor)
{
    samba_tensor *fresh = samba_calloc(context, sizeof *fresh);
    if (!fresh)
        return SAMBA_ERROR_MEMORY;
    fresh->context = context;
    fresh->dtype = dtype;
    fresh->rank = rank;
    fresh->holders = 1;
    if (rank > 0)
        memcpy(fresh->shape, shape, (size_t)rank * sizeof *shape);
    if (strides && rank > 0)
        memcpy(fresh->strides, strides, (size_t)rank * sizeof *strides);
    else
        samba_shape_contiguous_strides(rank, fresh->shape, fresh->strides);
    samba_status status = samba_tensor_set_name(fresh, name);
    if (status != SAMBA_OK) {
        samba_free(context, fresh, sizeof *fresh);
        return status;
    }
    *tensor = fresh;
    return SAMBA_OK;
}

/* Is this a dtype and a shape that can be? Gives the bytes of a contiguous tensor. */
static samba_status check_shape(samba_context *context, const char *name, samba_dtype dtype, int rank, const int64_t *shape,
                                int64_t *bytes)
{
    const char *label = name && *name ? name : "(unnamed)";
    if (samba_dtype_size(dtype) == 0)
        return samba_fail(context, SAMBA_ERROR_ARGUMENT, "tensor %s: %d is no dtype; give one of samba_dtype", label, (int)dtype);
    if (rank < 0 || rank > SAMBA_MAX_RANK)
        return samba_fail(context, SAMBA_ERROR_ARGUMENT, "tensor %s: rank %d; give 0 to %d", label, rank, SAMBA_MAX_RANK);
    if (rank > 0 && !shape)
        return samba_fail(context, SAMBA_ERROR_ARGUMENT, "tensor %s: rank %d without a shape", label, rank);
    for (int i = 0; i < rank; i++)
        if (shape[i] < 0)
            return samba_fail(context, SAMBA_ERROR_ARGUMENT, "tensor %s: shape %s has a negative size", label,
                              SAMBA_SHAPE(rank, shape));
    int64_t limit = LARGEST_BYTES / (int64_t)samba_dtype_size(dtype), product = 1;
    for (int i = 0; i < rank; i++)
        if (shape[i] != 0 && (!samba_mul_checked(product, shape[i], &product) || product >= limit))
            return samba_fail(context, SAMBA_ERROR_SHAPE, "tensor %s: shape %s of %s takes 2^62 bytes or more", label,
                              SAMBA_SHAPE(rank, shape), samba_dtype_name(dtype));
    int64_t numel = 0;
    samba_shape_numel(rank, shape, &numel);
    *bytes = numel * (int64_t)samba_dtype_size(dtype);
    return SAMBA_OK;
}

samba_status samba_tensor_empty(samba_context *context, const char *name, samba_dtype dtype, int rank, const int64_t *shape,
                                samba_tensor **tensor)
{
    SAMBA_NEED(NULL, context);
    SAMBA_NEED(context, tensor);
    int64_t bytes;
    *tensor = NULL;
    SAMBA_TRY(check_shape(context, name, dtype, rank, shape, &bytes));
    return header_new(context, name, dtype, rank, shape, NULL, tensor);
}

samba_status samba_tensor_new(samba_context *context, const char *name, samba_dtype dtype, int rank, const int64_t *shape,
                              samba_tensor **tensor)
{
    SAMBA_NEED(NULL, context);
    SAMBA_NEED(context, tensor);
    int64_t bytes;
    *tensor = NULL;
    SAMBA_TRY(check_shape(context, name, dtype, rank, shape, &bytes));
    struct samba_storage *storage = samba_calloc(context, sizeof *storage);
    if (!storage)
        return SAMBA_ERROR_MEMORY;
    *storage = (struct samba_storage){.context = context, .holders = 1, .bytes = (size_t)bytes};
    storage->memory = samba_calloc(context, storage->bytes);
    samba_status status = storage->memory ? header_new(context, name, dtype, rank, shape, NULL, tensor) : SAMBA_ERROR_MEMORY;
    if (status != SAMBA_OK) {
        storage_drop(storage);
        return status;
    }
    (*tensor)->storage = storage;
    (*tensor)->data = storage->memory;
    return SAMBA_OK;
}

/* Strides from outside must keep the promise in this file's head. */
static samba_status check_strides(samba_context *context, const char *name, samba_dtype dtype, int rank, const int64_t *shape,
                                  const int64_t *strides)
{
    int64_t limit = LARGEST_BYTES / (int64_t)samba_dtype_size(dtype), last = 0, reach;
    for (int i = 0; i < rank; i++) {
        if (strides[i] < 0)
            return samba_fail(context, SAMBA_ERROR_ARGUMENT, "tensor %s: strides %s; they may not be negative", name,
                              SAMBA_SHAPE(rank, strides));
        bool fits =
            samba_mul_checked(strides[i], shape[i] > 1 ? shape[i] - 1 : 0, &reach) && samba_add_checked(last, reach, &last);
        if (!fits || last >= limit || strides[i] >= limit)
            return samba_fail(context, SAMBA_ERROR_SHAPE, "tensor %s: strides %s reach 2^62 bytes or more", name,
                              SAMBA_SHAPE(rank, strides));
    }
    return SAMBA_OK;
}

static samba_status check_memory(samba_context *context, const char *label, samba_dtype dtype, bool no_elements, const void *data)
{
    if (!data && !no_elements)
        return samba_fail(context, SAMBA_ERROR_ARGUMENT,
                          "tensor %s: the memory is NULL; for a tensor without data use samba_tensor_empty", label);
    if (!no_elements && (uintptr_t)data % samba_dtype_size(dtype) != 0)
        return samba_fail(context, SAMBA_ERROR_ARGUMENT, "tensor %s: the memory at %p is not aligned to the %zu bytes of %s",
                          label, data, samba_dtype_size(dtype), samba_dtype_name(dtype));
    return SAMBA_OK;
}

samba_status samba_tensor_from_memory(samba_context *context, const char *name, samba_dtype dtype, int rank, const int64_t *shape,
                                      const int64_t *strides, void *data, void (*release)(void *owner), void *owner,
                                      samba_tensor **tensor)
{
    SAMBA_NEED(NULL, context);
    SAMBA_NEED(context, tensor);
    const char *label = name && *name ? name : "(unnamed)";
    int64_t bytes;
    *tensor = NULL;
    SAMBA_TRY(check_shape(context, name, dtype, rank, shape, &bytes));
    if (strides)
        SAMBA_TRY(check_strides(context, label, dtype, rank, shape, strides));
    SAMBA_TRY(check_memory(context, label, dtype, bytes == 0, data));
    struct samba_storage *storage = samba_calloc(context, sizeof *storage);
    if (!storage)
        return SAMBA_ERROR_MEMORY;
    *storage = (struct samba_storage){.context = context, .holders = 1}; /* no release before success is certain */
    samba_status status = header_new(context, name, dtype, rank, shape, strides, tensor);
    if (status != SAMBA_OK) {
        storage_drop(storage);
        return status;
    }
    storage->release = release;
    storage->owner = owner;
    (*tensor)->storage = storage;
    (*tensor)->data = data;
    return SAMBA_OK;
}

samba_status samba_tensor_set_memory(samba_tensor *tensor, void *data)
{
    if (!tensor)
        return SAMBA_ERROR_ARGUMENT; /* there is no context to hold a message */
    const struct samba_storage *storage = tensor->storage;
    const char *label = tensor->name ? tensor->name : "(unnamed)";
    if (!storage || storage->memory || storage->release || storage->holders > 1 || tensor->holders > 1)
        return samba_fail(tensor->context, SAMBA_ERROR_STATE, "tensor %s %s: only a tensor over the caller's memory can move",
                          label,
                          !storage           ? "is empty"
                          : storage->memory  ? "has memory of its own"
                          : storage->release ? "has an owner that waits for its release"
                                             : "is in use, by views or a graph");
    SAMBA_TRY(check_memory(tensor->context, label, tensor->dtype, samba_tensor_numel(tensor) == 0, data));
    tensor->data = data;
    return SAMBA_OK;
}

samba_status samba_tensor_view_new(samba_tensor *source, int rank, const int64_t *shape, const int64_t *strides, int64_t offset,
                                   samba_tensor **view)
{
    *view = NULL;
    SAMBA_TRY(header_new(source->context, source->name, source->dtype, rank, shape, strides, view));
    if (source->storage) {
        (*view)->storage = source->storage;
        source->storage->holders++;
    }
    if (source->data)
        (*view)->data = source->data + offset * (int64_t)samba_dtype_size(source->dtype);
    return SAMBA_OK;
}

samba_tensor *samba_tensor_hold(samba_tensor *tensor)
{
    tensor->holders++;
    return tensor;
}

void samba_tensor_free(samba_tensor *tensor)
{
    if (!tensor || --tensor->holders > 0)
        return;
    storage_drop(tensor->storage);
    samba_strfree(tensor->context, tensor->name);
    samba_free(tensor->context, tensor, sizeof *tensor);
}

samba_status samba_tensor_set_name(samba_tensor *tensor, const char *name)
{
    SAMBA_NEED(NULL, tensor);
    char *copy = NULL;
    if (name && *name && !(copy = samba_strdup(tensor->context, name)))
        return SAMBA_ERROR_MEMORY;
    samba_strfree(tensor->context, tensor->name);
    tensor->name = copy;
    return SAMBA_OK;
}

const char *samba_tensor_name(const samba_tensor *tensor) { return tensor && tensor->name ? tensor->name : ""; }
samba_dtype samba_tensor_dtype(const samba_tensor *tensor) { return tensor ? tensor->dtype : 0; }
int samba_tensor_rank(const samba_tensor *tensor) { return tensor ? tensor->rank : 0; }
const int64_t *samba_tensor_shape(const samba_tensor *tensor) { return tensor ? tensor->shape : NULL; }
const int64_t *samba_tensor_strides(const samba_tensor *tensor) { return tensor ? tensor->strides : NULL; }
bool samba_tensor_has_data(const samba_tensor *tensor) { return tensor && tensor->storage; }
void *samba_tensor_data(const samba_tensor *tensor) { return tensor ? tensor->data : NULL; }

int64_t samba_tensor_numel(const samba_tensor *tensor)
{
    if (!tensor)
        return 0;
    int64_t numel = 1;
    for (int i = 0; i < tensor->rank; i++)
        numel *= tensor->shape[i];
    return numel;
}

bool samba_tensor_is_contiguous(const samba_tensor *tensor)
{
    if (!tensor)
        return false;
    int64_t expected = 1;
    if (samba_tensor_numel(tensor) == 0)
        return true;
    for (int i = tensor->rank - 1; i >= 0; i--) {
        if (tensor->shape[i] != 1 && tensor->strides[i] != expected)
            return false;
        expected *= tensor->shape[i];
    }
    return true;
}

static samba_status check_item(const samba_tensor *tensor)
{
    if (samba_tensor_numel(tensor) != 1)
        return samba_fail(tensor->context, SAMBA_ERROR_SHAPE, "item of tensor %s: shape %s has %lld elements; it must have one",
                          samba_tensor_name(tensor), SAMBA_SHAPE_OF(tensor), (long long)samba_tensor_numel(tensor));
    if (!tensor->storage)
        return samba_fail(tensor->context, SAMBA_ERROR_STATE, "item of tensor %s: it has no data; make it with samba_tensor_new",
                          samba_tensor_name(tensor));
    return SAMBA_OK;
}

samba_status samba_tensor_item(const samba_tensor *tensor, double *value)
{
    SAMBA_NEED(NULL, tensor);
    SAMBA_TRY(check_item(tensor));
    *value = samba_load_double(tensor->dtype, tensor->data);
    return SAMBA_OK;
}

samba_status samba_tensor_item_int64(const samba_tensor *tensor, int64_t *value)
{
    SAMBA_NEED(NULL, tensor);
    SAMBA_TRY(check_item(tensor));
    if (samba_dtype_is_floating_point(tensor->dtype)) {
        double real = samba_load_double(tensor->dtype, tensor->data);
        if (!(real >= -0x1p63 && real < 0x1p63))
            return samba_fail(tensor->context, SAMBA_ERROR_ARGUMENT,
                              "item of tensor %s: %g is no number of 64 bits; samba_tensor_item gives it as it is",
                              samba_tensor_name(tensor), real);
    }
    *value = samba_load_int64(tensor->dtype, tensor->data);
    return SAMBA_OK;
}
