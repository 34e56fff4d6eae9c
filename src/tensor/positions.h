/* SPDX-License-Identifier: Apache-2.0
 *
 * Which positions of a cache a query sees: the rule that ops/cache.c describes, for the reference and for devices. Starts come
 * with a run and may be anything; slots, window and n are checked sizes. */
#ifndef SAMBA_TENSOR_POSITIONS_H
#define SAMBA_TENSOR_POSITIONS_H

#include <stdint.h>

typedef struct samba_positions { /* from .. to - 1, none below 0; of one query never more than there are slots */
    int64_t from, to;
} samba_positions;

/* A start as the rule takes it: no sum of positions overflows, and one far below 0 is as good as any other. */
static inline int64_t samba_cache_start(int64_t start, int64_t n)
{
    const int64_t low = -n, high = INT64_MAX - 2 * n;
    return start < low ? low : start > high ? high : start;
}

/* What queries i .. i + count - 1 of n see together. */
static inline void samba_cache_sees(int64_t start, int64_t i, int64_t count, int64_t n, int64_t slots, int64_t window,
                                    samba_positions *seen)
{
    const int64_t first = samba_cache_start(start, n) + i, width = window > 0 && window < slots ? window : slots;
    seen->from = first - width + 1 > 0 ? first - width + 1 : 0;
    seen->to = first + count;
    if (seen->to < seen->from)
        seen->to = seen->from;
}

#endif
