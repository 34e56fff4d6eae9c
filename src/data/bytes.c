/* SPDX-License-Identifier: Apache-2.0
 *
 * Counted bytes: a file is read once and its tensors lie in what was read, each holding the block. So reading a checkpoint takes
 * no more memory than the file and copies nothing, and the block goes with the last tensor. */
#include "data/data.h"

#include <string.h>

samba_status samba_bytes_new(samba_context *context, size_t size, samba_bytes **bytes)
{
    *bytes = NULL;
    samba_bytes *fresh = samba_calloc(context, sizeof *fresh);
    if (!fresh)
        return SAMBA_ERROR_MEMORY;
    *fresh = (samba_bytes){.context = context, .size = size, .holders = 1, .data = samba_alloc(context, size)};
    if (!fresh->data) {
        samba_free(context, fresh, sizeof *fresh);
        return SAMBA_ERROR_MEMORY;
    }
    *bytes = fresh;
    return SAMBA_OK;
}

samba_status samba_bytes_read(samba_context *context, const char *path, samba_bytes **bytes)
{
    *bytes = NULL;
    samba_bytes *fresh = samba_calloc(context, sizeof *fresh);
    if (!fresh)
        return SAMBA_ERROR_MEMORY;
    *fresh = (samba_bytes){.context = context, .holders = 1};
    void *data = NULL;
    samba_status status = samba_file_read(context, path, &data, &fresh->size);
    if (status != SAMBA_OK) {
        samba_free(context, fresh, sizeof *fresh);
        return status;
    }
    fresh->data = data;
    *bytes = fresh;
    return SAMBA_OK;
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

uint16_t samba_get16(const char *p)
{
    uint16_t value;
    memcpy(&value, p, sizeof value);
    return value;
}

uint32_t samba_get32(const char *p)
{
    uint32_t value;
    memcpy(&value, p, sizeof value);
    return value;
}

uint64_t samba_get64(const char *p)
{
    uint64_t value;
    memcpy(&value, p, sizeof value);
    return value;
}
