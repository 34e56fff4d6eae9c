/* SPDX-License-Identifier: Apache-2.0
 *
 * Bytes that several owners share: a graph's literals, which its copies, the plan made of it and the file's reader all point to.
 * A blob is filled by whoever made it, sealed, and never changes after; it goes when its last owner lets go of it. Owners are
 * arenas (samba_arena_keep) or callers.
 *
 * The header lies before the bytes in one block of the context's memory, or alone, where they are somebody else's. */
#include "base/base.h"

#include <string.h>

#define HEADER ((size_t)SAMBA_ALIGNMENT)
_Static_assert(sizeof(samba_blob) <= SAMBA_ALIGNMENT, "a blob's header has room before its bytes");

samba_blob *samba_blob_new(samba_context *context, int64_t size)
{
    if (size < 0 || (uint64_t)size > SIZE_MAX / 2) {
        samba_fail(context, SAMBA_ERROR_MEMORY, "no memory for %lld bytes: more than the machine can address", (long long)size);
        return NULL;
    }
    samba_blob *blob = samba_alloc(context, HEADER + (size_t)size);
    if (!blob)
        return NULL;
    *blob = (samba_blob){.context = context, .data = (char *)blob + HEADER, .size = size, .owners = 1};
    return blob;
}

void samba_blob_seal(samba_blob *blob) { blob->hash = samba_hash(blob->data, (size_t)blob->size, 0); }

samba_blob *samba_blob_copy(samba_context *context, const void *data, int64_t size)
{
    samba_blob *blob = samba_blob_new(context, size);
    if (!blob)
        return NULL;
    if (size > 0)
        memcpy(blob->data, data, (size_t)size);
    samba_blob_seal(blob);
    return blob;
}

samba_blob *samba_blob_over(samba_context *context, const void *data, int64_t size, void (*release)(void *owner), void *owner)
{
    samba_blob *blob = samba_blob_new(context, 0);
    if (!blob)
        return NULL;
    blob->data = (char *)(uintptr_t)data;
    blob->size = size;
    blob->release = release;
    blob->owner = owner;
    samba_blob_seal(blob);
    return blob;
}

void samba_blob_keep(samba_blob *blob) { blob->owners++; }

void samba_blob_drop(samba_blob *blob)
{
    if (!blob || --blob->owners > 0)
        return;
    if (blob->release)
        blob->release(blob->owner);
    samba_free(blob->context, blob, HEADER + (blob->release ? 0 : (size_t)blob->size));
}

bool samba_blob_equal(const samba_blob *a, const samba_blob *b)
{
    return a == b || (a->hash == b->hash && a->size == b->size && memcmp(a->data, b->data, (size_t)a->size) == 0);
}
