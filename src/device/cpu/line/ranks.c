/* SPDX-License-Identifier: Apache-2.0
 *
 * The order of short lines: an element's place in it is how many others come before it, which vectors count without a branch.
 * Of equal elements the earlier is first. Compiled once for each ISA. */
#include "device/cpu/isa/counts.h"
#include "device/cpu/isa/isa.h"
#include "device/cpu/isa/lanes.h"
#include "device/cpu/tile/parts.h"
#include <string.h>

enum { WIDE = VECTOR_BYTES / 4, SIDE = SAMBA_RANK_LANES };

INLINE ints spread_int(int32_t x) { return x - (ints){0}; }
INLINE ints ints_at(const int32_t *x)
{
    ints v;
    memcpy(&v, x, sizeof v);
    return v;
}

/* The places of elements [at, at + WIDE), of n that are whole vectors. */
INLINE ints ranks_of(const int32_t *keys, int64_t n, int64_t at)
{
    ints mine = ints_at(keys + at), ranks = {0}, lane;
    UNROLL for (int i = 0; i < WIDE; i++)
        lane[i] = i;
    for (int64_t i = 0; i < at; i++)
        ranks = count_most(ranks, spread_int(keys[i]), mine);
    UNROLL for (int i = 0; i < WIDE; i++) /* a key of those behind it is as its own, less 1: nothing is less than the least */
    {
        ints other = spread_int(keys[at + i]);
        ranks -= (other < mine) | ((other == mine) & (lane > i));
    }
    for (int64_t i = at + WIDE; i < n; i++)
        ranks = count_less(ranks, spread_int(keys[i]), mine);
    return ranks;
}

void SAMBA_ISA_NAME(samba_line_order)(int32_t *order, int32_t *keys, int64_t n, int64_t first, int64_t count)
{
    int64_t whole = (n + WIDE - 1) / WIDE * WIDE;
    int32_t ranks[SAMBA_RANK_MOST];
    for (int64_t i = n; i < whole; i++)
        keys[i] = INT32_MAX; /* none of these comes before one of the line's */
    if (count == 1) {
        ints found = {0}, lane;
        int32_t sum = 0;
        UNROLL for (int i = 0; i < WIDE; i++)
            lane[i] = i;
        for (int64_t at = 0; at < whole; at += WIDE, lane += WIDE)
            found |= (ranks_of(keys, whole, at) == (int32_t)first) & lane;
        UNROLL for (int i = 0; i < WIDE; i++)
            sum |= found[i];
        order[0] = sum;
        return;
    }
    for (int64_t at = 0; at < whole; at += WIDE) {
        ints found = ranks_of(keys, whole, at);
        memcpy(ranks + at, &found, sizeof found);
    }
    for (int64_t i = 0; i < n; i++)
        if ((uint64_t)(ranks[i] - first) < (uint64_t)count)
            order[ranks[i] - first] = (int32_t)i;
}

void SAMBA_ISA_NAME(samba_lines_order)(int32_t *order, const int32_t *keys, int64_t n, int64_t first, int64_t count)
{
    int32_t ranks[SAMBA_RANK_MOST][SIDE];
    memset(ranks, 0, sizeof ranks[0] * (size_t)n);
    for (int64_t i = 1; i < n; i++) {
        const int32_t *mine = keys + i * SIDE;
        int32_t sum[SIDE] = {0};
        for (int64_t j = 0; j < i; j++) {
            SAMBA_VECTOR_LOOP for (int k = 0; k < SIDE; k++) {
                int32_t later = keys[j * SIDE + k] <= mine[k];
                sum[k] += later;
                ranks[j][k] += 1 - later;
            }
        }
        SAMBA_VECTOR_LOOP for (int k = 0; k < SIDE; k++)
            ranks[i][k] += sum[k];
    }
    if (count == 1) {
        int32_t found[SIDE] = {0};
        for (int64_t i = 1; i < n; i++) SAMBA_VECTOR_LOOP
            for (int k = 0; k < SIDE; k++)
                found[k] |= ranks[i][k] == (int32_t)first ? (int32_t)i : 0;
        memcpy(order, found, sizeof found);
        return;
    }
    for (int64_t i = 0; i < n; i++)
        for (int k = 0; k < SIDE; k++)
            if ((uint64_t)(ranks[i][k] - first) < (uint64_t)count)
                order[(ranks[i][k] - first) * SIDE + k] = (int32_t)i;
}
