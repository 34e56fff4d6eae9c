/* SPDX-License-Identifier: Apache-2.0
 *
 * A queue of memory to prefetch while a product computes. Packing and epilogues wait for memory, products hardly use it: a
 * product that asks for a line of memory every few steps of k costs nothing more, and the work behind it finds its data in the
 * second cache. The queue holds regions, rows of lines each; the kernel takes lines from the front. Asking is a hint: a region
 * that does not fit the queue, or memory that is not there, changes no result. */
#ifndef SAMBA_CPU_FETCH_H
#define SAMBA_CPU_FETCH_H

#include <stdint.h>

enum { SAMBA_FETCH_REGIONS = 16, SAMBA_LINE = 64 /* bytes of a line of the caches */ };

typedef struct samba_fetch_region {
    const char *at;
    int64_t todo;      /* lines of all rows that are left */
    int64_t left, row; /* of the row at hand; of a whole row */
    int64_t skip;      /* bytes from a row's end to the next one's start */
} samba_fetch_region;

typedef struct samba_fetch {
    samba_fetch_region now;
    int first, count; /* of those that wait, around the end */
    samba_fetch_region waiting[SAMBA_FETCH_REGIONS];
} samba_fetch;

static inline void samba_fetch_rows(samba_fetch *fetch, const void *first, int64_t bytes, int64_t rows, int64_t pitch)
{
    const char *at = (const char *)first;
    int64_t before = (int64_t)((uintptr_t)at % SAMBA_LINE), lines = (before + bytes + SAMBA_LINE - 1) / SAMBA_LINE;
    if (fetch->count == SAMBA_FETCH_REGIONS || rows <= 0 || bytes <= 0)
        return;
    int slot = (fetch->first + fetch->count++) % SAMBA_FETCH_REGIONS;
    fetch->waiting[slot] = (samba_fetch_region){at, lines * rows, lines, lines, pitch - lines * SAMBA_LINE};
}

/* Called between small products: the next region once one is through. */
static inline void samba_fetch_advance(samba_fetch *fetch)
{
    if (fetch->now.todo > 0 || fetch->count == 0)
        return;
    fetch->now = fetch->waiting[fetch->first];
    fetch->first = (fetch->first + 1) % SAMBA_FETCH_REGIONS;
    fetch->count--;
}

static inline void samba_fetch_line(samba_fetch_region *region)
{
    if (region->todo == 0)
        return;
    __builtin_prefetch(region->at, 0, 2);
    region->at += SAMBA_LINE;
    region->todo--;
    if (--region->left == 0) {
        region->left = region->row;
        region->at += region->skip;
    }
}

/* Prefetches all at once, where there is no product to do it beside. */
static inline void samba_fetch_all(samba_fetch *fetch)
{
    for (samba_fetch_advance(fetch); fetch->now.todo > 0; samba_fetch_advance(fetch)) {
        const char *at = fetch->now.at;
        for (int64_t todo = fetch->now.todo; todo > 0; todo -= fetch->now.row, at += fetch->now.skip)
            for (const char *end = at + fetch->now.row * SAMBA_LINE; at < end; at += SAMBA_LINE)
                __builtin_prefetch(at, 0, 2);
        fetch->now.todo = 0;
    }
}

#endif
