/* SPDX-License-Identifier: Apache-2.0
 *
 * Pairs of channels: see paired.h. */
#include "device/cpu/product/paired.h"

#include <string.h>

static uint32_t pair_of(uint16_t low, uint16_t high) { return (uint32_t)low | (uint32_t)high << 16; }

void samba_pair_planes(const samba_kernels *kernels, const samba_paired *image, int64_t pair, uint32_t *to)
{
    const uint16_t *low = image->from + 2 * pair * image->channel_stride;
    int64_t rows = image->rows, width = image->width;
    if (image->row_stride == width || rows == 1) {
        width *= rows;
        rows = 1;
    }
    for (int64_t y = 0; y < rows; y++, low += image->row_stride, to += width) {
        if (2 * pair + 1 < image->channels)
            kernels->interleave2(to, low, low + image->channel_stride, width);
        else
            for (int64_t x = 0; x < width; x++)
                to[x] = pair_of(low[x], 0);
    }
}

void samba_pair_weights(const uint16_t *row, const samba_paired_walk *walk, const int64_t *index, int64_t count, uint32_t *to)
{
    const int last = walk->rank - 1;
    int64_t at[SAMBA_CONTRACT_RANK];
    memcpy(at, index, sizeof at);
    while (count > 0) { /* a run of the last dim at a time */
        const uint16_t *from = row;
        for (int i = 0; i <= last; i++)
            from += at[i] * walk->stride[i] * (i == walk->channel ? 2 : 1);
        int64_t run = walk->size[last] - at[last] < count ? walk->size[last] - at[last] : count;
        int64_t next = walk->stride[walk->channel], step = walk->stride[last] * (last == walk->channel ? 2 : 1);
        int64_t whole = run;
        if (last == walk->channel)
            whole = walk->channels / 2 - at[last] < run ? walk->channels / 2 - at[last] : run;
        else if (2 * at[walk->channel] + 1 >= walk->channels)
            whole = 0;
        for (int64_t i = 0; i < whole; i++)
            to[i] = pair_of(from[i * step], from[i * step + next]);
        for (int64_t i = whole; i < run; i++)
            to[i] = pair_of(from[i * step], 0);
        to += run;
        count -= run;
        at[last] += run;
        for (int i = last; i > 0 && at[i] == walk->size[i]; i--) {
            at[i] = 0;
            at[i - 1]++;
        }
    }
}
