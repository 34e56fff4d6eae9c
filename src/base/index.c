/* SPDX-License-Identifier: Apache-2.0
 *
 * The name index: linear probing in a table at most half full, so a search ends at a free slot. */
#include "base/index.h"

#include <string.h>

static const char *name_of(const samba_names *names, int32_t item)
{
    const char *name;
    memcpy(&name, names->items + (size_t)item * names->item_size, sizeof name);
    return name;
}

/* The slot that holds `name`, or the free one where it belongs. */
static int64_t slot_of(const samba_names *names, const char *name)
{
    int64_t mask = names->slot_count - 1, slot = (int64_t)(samba_hash(name, strlen(name), 0) & (uint64_t)mask);
    while (names->slots[slot] && strcmp(name_of(names, names->slots[slot] - 1), name) != 0)
        slot = (slot + 1) & mask;
    return slot;
}

samba_status samba_names_build(samba_names *names, samba_context *context, const void *items, size_t item_size, int32_t count,
                               int32_t *duplicate)
{
    *names = (samba_names){.context = context, .items = items, .item_size = item_size, .slot_count = 8};
    *duplicate = -1;
    while (names->slot_count < 2 * (int64_t)count)
        names->slot_count *= 2;
    names->slots = samba_calloc(context, (size_t)names->slot_count * sizeof *names->slots);
    if (!names->slots)
        return SAMBA_ERROR_MEMORY;
    for (int32_t item = 0; item < count; item++) {
        int64_t slot = slot_of(names, name_of(names, item));
        if (names->slots[slot] && *duplicate < 0)
            *duplicate = item;
        else if (!names->slots[slot])
            names->slots[slot] = item + 1;
    }
    return SAMBA_OK;
}

int32_t samba_names_find(const samba_names *names, const char *name) { return names->slots[slot_of(names, name)] - 1; }

void samba_names_free(samba_names *names)
{
    if (names->slots)
        samba_free(names->context, names->slots, (size_t)names->slot_count * sizeof *names->slots);
    names->slots = NULL;
}
