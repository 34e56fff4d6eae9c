/* SPDX-License-Identifier: Apache-2.0
 *
 * Counted bytes: a file is read once and its tensors lie in what was read, each holding the block. So reading a checkpoint takes
 * no more memory than the file and copies nothing, and the block goes with the last tensor. */
#include "data/data.h"

#include <string.h>

/* Takes the block. */
static samba_status hold(samba_context *context, void *data, size_t size, samba_bytes **bytes)
{
    *bytes = samba_calloc(context, sizeof **bytes);
    if (!*bytes) {
        samba_free(context, data, size);
        return SAMBA_ERROR_MEMORY;
    }
    **bytes = (samba_bytes){.context = context, .data = data, .size = size, .holders = 1};
    return SAMBA_OK;
}

samba_status samba_bytes_new(samba_context *context, size_t size, samba_bytes **bytes)
{
    *bytes = NULL;
    void *data = samba_alloc(context, size);
    return data ? hold(context, data, size, bytes) : SAMBA_ERROR_MEMORY;
}

samba_status samba_bytes_read(samba_context *context, const char *path, samba_bytes **bytes)
{
    void *data;
    size_t size;
    *bytes = NULL;
    SAMBA_TRY(samba_file_read(context, path, &data, &size));
    return hold(context, data, size, bytes);
}

void samba_bytes_drop(samba_bytes *bytes)
{
    if (!bytes || --bytes->holders > 0)
        return;
    samba_free(bytes->context, bytes->data, bytes->size);
    samba_free(bytes->context, bytes, sizeof *bytes);
}

static void drop_owner(void *owner) { samba_bytes_drop(owner); }

samba_status samba_bytes_tensor(samba_bytes *bytes, size_t offset, const char *name, samba_dtype dtype, int rank,
                                const int64_t *shape, samba_tensor **tensor)
{
    char *data = bytes->data + offset;
    bool aligned = (uintptr_t)data % samba_dtype_size(dtype) == 0;
    samba_status status =
        aligned ? samba_tensor_from_memory(bytes->context, name, dtype, rank, shape, NULL, data, drop_owner, bytes, tensor)
                : samba_tensor_new(bytes->context, name, dtype, rank, shape, tensor);
    if (status == SAMBA_ERROR_SHAPE) /* no elements, yet sizes beyond all measure: the file's fault */
        return samba_fail(bytes->context, SAMBA_ERROR_FORMAT, "%s", samba_error_message(bytes->context));
    SAMBA_TRY(status);
    if (aligned)
        bytes->holders++;
    else
        memcpy((*tensor)->data, data, (size_t)samba_tensor_numel(*tensor) * samba_dtype_size(dtype));
    return SAMBA_OK;
}

uint64_t samba_get(const char *p, size_t bytes)
{
    uint64_t value = 0;
    memcpy(&value, p, bytes);
    return value;
}
