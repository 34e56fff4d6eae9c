/* SPDX-License-Identifier: Apache-2.0
 *
 * An arena: memory that is freed all at once. Small requests are cut from blocks that double in size up to a bound; a request
 * that would waste much of a block gets one of its own.
 *
 * A block begins with its header, padded to the alignment, so everything behind it is aligned. The first block of the list is the
 * one being cut. Blocks are zeroed when they are made and no byte is given out twice.
 * Blobs that the arena keeps are let go of first. */
#include "base/base.h"

#include <string.h>

#define FIRST_BLOCK ((size_t)4096)
#define LARGEST_BLOCK ((size_t)1 << 20)

struct samba_arena_block {
    _Alignas(SAMBA_ALIGNMENT) samba_arena_block *next;
    size_t size, used; /* bytes, header included */
};

struct samba_arena_kept {
    samba_arena_kept *next;
    samba_blob *blob;
};

void samba_arena_init(samba_arena *arena, samba_context *context)
{
    arena->context = context;
    arena->blocks = NULL;
    arena->kept = NULL;
    arena->given = 0;
    arena->most = 0;
    arena->refused = false;
}

void samba_arena_bound(samba_arena *arena, size_t most) { arena->most = most; }

static samba_arena_block *new_block(samba_arena *arena, size_t size)
{
    samba_arena_block *block = samba_calloc(arena->context, size);
    if (block) {
        block->size = size;
        block->used = sizeof *block;
    }
    return block;
}

void *samba_arena_alloc(samba_arena *arena, size_t size)
{
    if (size > SIZE_MAX / 2) {
        samba_fail(arena->context, SAMBA_ERROR_MEMORY, "no memory for %zu bytes: more than the machine can address", size);
        return NULL;
    }
    size_t rounded = size ? (size + SAMBA_ALIGNMENT - 1) / SAMBA_ALIGNMENT * SAMBA_ALIGNMENT : SAMBA_ALIGNMENT;
    if (arena->most > 0 && (rounded > arena->most || arena->given > arena->most - rounded)) {
        arena->refused = true;
        samba_fail(arena->context, SAMBA_ERROR_MEMORY, "no memory for %zu bytes: %zu of the %zu that may be taken are", size,
                   arena->given, arena->most);
        return NULL;
    }
    arena->given += rounded;
    samba_arena_block *block = arena->blocks;
    if (!block || block->size - block->used < rounded) {
        size_t usual = !block ? FIRST_BLOCK : block->size * 2 < LARGEST_BLOCK ? block->size * 2 : LARGEST_BLOCK;
        bool own = rounded > usual / 4;
        samba_arena_block *fresh = new_block(arena, own ? sizeof(samba_arena_block) + rounded : usual);
        if (!fresh)
            return NULL;
        if (own && block) { /* behind the first, which still has room */
            fresh->next = block->next;
            block->next = fresh;
        } else {
            fresh->next = block;
            arena->blocks = fresh;
        }
        block = fresh;
    }
    char *result = (char *)block + block->used;
    block->used += rounded;
    return result;
}

char *samba_arena_strdup(samba_arena *arena, const char *text)
{
    size_t size = strlen(text) + 1;
    char *copy = samba_arena_alloc(arena, size);
    if (copy)
        memcpy(copy, text, size);
    return copy;
}

samba_status samba_arena_room(samba_arena *arena, size_t size, void *pointer)
{
    void *block = samba_arena_alloc(arena, size);
    memcpy(pointer, &block, sizeof block);
    return block ? SAMBA_OK : SAMBA_ERROR_MEMORY;
}

samba_status samba_arena_more(samba_arena *arena, void *array, size_t each, int64_t count, int64_t *room)
{
    const int64_t more = *room ? 2 * *room : 4;
    void *old, *grown;
    if (count < *room)
        return SAMBA_OK;
    SAMBA_TRY(samba_arena_room(arena, (size_t)more * each, &grown));
    memcpy(&old, array, sizeof old);
    if (count > 0)
        memcpy(grown, old, (size_t)count * each);
    memcpy(array, &grown, sizeof grown);
    *room = more;
    return SAMBA_OK;
}

samba_status samba_arena_copy(samba_arena *arena, const char *text, char **copy)
{
    *copy = samba_arena_strdup(arena, text);
    return *copy ? SAMBA_OK : SAMBA_ERROR_MEMORY;
}

samba_status samba_arena_keep(samba_arena *arena, samba_blob *blob)
{
    samba_arena_kept *kept = samba_arena_alloc(arena, sizeof *kept);
    if (!kept)
        return SAMBA_ERROR_MEMORY;
    samba_blob_keep(blob);
    *kept = (samba_arena_kept){arena->kept, blob};
    arena->kept = kept;
    return SAMBA_OK;
}

void samba_arena_free(samba_arena *arena)
{
    for (const samba_arena_kept *kept = arena->kept; kept; kept = kept->next)
        samba_blob_drop(kept->blob);
    arena->kept = NULL;
    samba_arena_block *block = arena->blocks;
    while (block) {
        samba_arena_block *next = block->next;
        samba_free(arena->context, block, block->size);
        block = next;
    }
    arena->blocks = NULL;
    arena->given = 0;
}
