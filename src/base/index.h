/* SPDX-License-Identifier: Apache-2.0
 *
 * Finding an item of an array by its name in constant time: open addressing over item numbers. An item is any struct whose first
 * member is its name. The items stay where they are and outlive the index; the index owns only its slots. */
#ifndef SAMBA_BASE_INDEX_H
#define SAMBA_BASE_INDEX_H

#include "base/base.h"

typedef struct samba_names {
    samba_context *context;
    const char *items; /* first item */
    size_t item_size;
    int32_t *slots;     /* item number + 1; 0: free */
    int64_t slot_count; /* a power of two, at least twice the items */
} samba_names;

/* *duplicate: an item whose name an earlier one has too, or -1. */
samba_status samba_names_build(samba_names *names, samba_context *context, const void *items, size_t item_size, int32_t count,
                               int32_t *duplicate);
int32_t samba_names_find(const samba_names *names, const char *name); /* -1: not there */
void samba_names_free(samba_names *names);                            /* a zeroed one too */

#endif
