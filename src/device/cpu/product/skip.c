/* SPDX-License-Identifier: Apache-2.0
 *
 * See skip.h. Rows of k are sorted by their position in the cycle of the window's dilation, then by how far they go: those that
 * meet a row of the image follow each other. */
#include "device/cpu/product/skip.h"

/* Where the outer window of each element of a block lies, from the first: all elements of one side. */
static void fill_offsets(const samba_source *source, bool inner, int64_t count, int64_t *offset)
{
    const samba_split *split = inner ? &source->inner : &source->own;
    const int64_t *step = inner ? source->factor.windows[0].inner : source->factor.windows[0].own;
    int64_t index[SAMBA_CONTRACT_RANK] = {0};
    for (int64_t i = 0; i < count; i++) {
        offset[i] = 0;
        for (int dim = split->cut; dim < split->rank; dim++)
            offset[i] += step[dim] * index[dim];
        for (int dim = split->rank - 1; dim >= split->cut && ++index[dim] == split->size[dim] && dim > split->cut; dim--)
            index[dim] = 0;
    }
}

static int64_t cycle(int64_t x, int64_t dilation) { return (x % dilation + dilation) % dilation; }

double samba_skip_share(const samba_source *source)
{
    const samba_window *window = &source->factor.windows[0];
    const samba_split *own = &source->own;
    int64_t low = window->base, high = window->base;
    /* a narrower block has rows of its own */
    if (!source->plane_bytes || source->inner.blocks * source->inner.width != source->inner.total)
        return 1;
    for (int side = 0; side < 2; side++) {
        const samba_split *split = side ? &source->inner : own;
        const int64_t *step = side ? window->inner : window->own;
        for (int i = 0; i < split->rank; i++)
            *(step[i] < 0 ? &low : &high) += step[i] * (split->size[i] - 1);
    }
    int64_t along = 1; /* columns of one row of the image */
    for (int i = own->rank - 1; i >= own->cut && window->own[i] == 0; i--)
        along *= i == own->cut ? own->step : own->size[i];
    if (source->own_axis.run > along || 5 * window->limit >= 4 * (high - low + 1))
        return 1;
    return window->dilation > 1 ? 1.0 / (double)window->dilation
                                : source->machine->skip.padded +
                                      (1.0 - source->machine->skip.padded) * (double)window->limit / (double)(high - low + 1);
}

/* Sorts the rows of k; few, so by insertion. */
static void sort_rows(samba_skip *skip, const int64_t *offset, int64_t k)
{
    int64_t dilation = skip->source->factor.windows[0].dilation, at = 0;
    for (int64_t l = 0; l < k; l++) {
        int64_t i = 0;
        while (i < skip->rows && skip->step[i] != offset[l])
            i++;
        if (i < skip->rows)
            continue;
        for (i = skip->rows++; i > 0; i--) {
            int64_t before = skip->step[i - 1], a = cycle(before, dilation), b = cycle(offset[l], dilation);
            if (a < b || (a == b && before < offset[l]))
                break;
            skip->step[i] = before;
        }
        skip->step[i] = offset[l];
    }
    for (int64_t i = 0; i < skip->rows; i++) {
        skip->begin[i] = at;
        for (int64_t l = 0; l < k; l++)
            if (offset[l] == skip->step[i])
                skip->order[at++] = l;
    }
    skip->begin[skip->rows] = at;
}

samba_status samba_skip_new(const samba_source *source, samba_arena *arena, const samba_skip **result)
{
    const samba_factor *factor = &source->factor;
    int64_t run = source->own_axis.run, k = source->inner.width, most = 1;
    *result = NULL;
    if (samba_skip_share(source) == 1)
        return SAMBA_OK;
    for (int i = source->inner.cut; i < source->inner.rank; i++)
        if (factor->windows[0].inner[i] != 0)
            most *= source->inner.size[i];
    if (most > 64)
        return SAMBA_OK;
    samba_skip *skip = samba_arena_alloc(arena, sizeof *skip);
    int64_t *own_offsets = samba_arena_alloc(arena, (size_t)source->own.width * sizeof *own_offsets);
    int64_t *offset = samba_arena_alloc(arena, (size_t)k * sizeof *offset);
    if (!skip || !own_offsets || !offset || !(skip->order = samba_arena_alloc(arena, (size_t)k * sizeof *skip->order)) ||
        !(skip->step = samba_arena_alloc(arena, (size_t)most * sizeof *skip->step)) ||
        !(skip->begin = samba_arena_alloc(arena, (size_t)(most + 1) * sizeof *skip->begin)))
        return SAMBA_ERROR_MEMORY;
    skip->source = source;
    fill_offsets(source, false, source->own.width, own_offsets);
    fill_offsets(source, true, k, offset);
    skip->runs = (source->own.width + run - 1) / run;
    for (int64_t r = 0; r < skip->runs; r++)
        own_offsets[r] = own_offsets[r * run];
    skip->own = own_offsets;
    sort_rows(skip, offset, k);
    *result = skip;
    return SAMBA_OK;
}

void samba_skip_find(const samba_skip *skip, const samba_box *own, const samba_box *inner, samba_range *ranges)
{
    const samba_source *source = skip->source;
    const samba_window *window = &source->factor.windows[0];
    int64_t low = window->base, limit = window->limit * window->dilation;
    for (int i = 0; i <= source->own.cut; i++)
        low += window->own[i] * own->index[i];
    for (int i = 0; i <= source->inner.cut; i++)
        low += window->inner[i] * inner->index[i];
    for (int64_t r = 0; r < skip->runs; r++) {
        ranges[r] = (samba_range){0, 0};
        for (int64_t i = 0; i < skip->rows; i++) {
            int64_t x = low + skip->own[r] + skip->step[i];
            if (x < 0 || x >= limit || x % window->dilation)
                continue;
            if (ranges[r].end == 0)
                ranges[r].begin = skip->begin[i];
            ranges[r].end = skip->begin[i + 1];
        }
    }
}
