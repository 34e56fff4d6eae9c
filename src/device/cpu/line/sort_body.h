/* SPDX-License-Identifier: Apache-2.0
 *
 * Sorting of items: an unsigned number whose upper half is a key and whose lower half is where the element stood. Items are
 * distinct, so the order is stable by itself. sort.c includes this for keys of 32 and of 64 bits, with SORT(name), sort_item and
 * SORT_KEY_BITS defined. No include guard: one copy for each. */

#define SORT_DIGIT(item, pass) ((unsigned)((item) >> (SORT_KEY_BITS + SORT_DIGIT_BITS * (pass))) & (SORT_BUCKETS - 1))
#define SORT_PASSES (SORT_KEY_BITS / SORT_DIGIT_BITS)

static void SORT(insertion)(sort_item *items, int64_t n)
{
    for (int64_t i = 1; i < n; i++) {
        sort_item item = items[i];
        int64_t at = i;
        for (; at > 0 && items[at - 1] > item; at--)
            items[at] = items[at - 1];
        items[at] = item;
    }
}

/* The sorted items: `items` or `room`, which has as much.
 * By digits of the key from the lowest, without those that all items share. */
static sort_item *SORT(radix)(sort_item *items, sort_item *room, int64_t n)
{
    if (n <= SORT_FEW) {
        SORT(insertion)(items, n);
        return items;
    }
    uint32_t counts[SORT_PASSES][SORT_BUCKETS];
    memset(counts, 0, sizeof counts);
    for (int64_t i = 0; i < n; i++)
        for (int pass = 0; pass < SORT_PASSES; pass++)
            counts[pass][SORT_DIGIT(items[i], pass)]++;
    for (int pass = 0; pass < SORT_PASSES; pass++) {
        uint32_t *at = counts[pass], sum = 0;
        if (at[SORT_DIGIT(items[0], pass)] == (uint64_t)n)
            continue;
        for (int b = 0; b < SORT_BUCKETS; b++) {
            uint32_t count = at[b];
            at[b] = sum;
            sum += count;
        }
        for (int64_t i = 0; i < n; i++)
            room[at[SORT_DIGIT(items[i], pass)]++] = items[i];
        sort_item *sorted = room;
        room = items;
        items = sorted;
    }
    return items;
}

/* An item of element i of registers; complemented keys sort descending. */
static inline sort_item SORT(item)(const samba_line_state *s, const chunk *values, int64_t i, int64_t index)
{
    sort_key key = SORT(key)(s, values, i);
    return (sort_item)(s->line.backwards ? (sort_key)~key : key) << SORT_KEY_BITS | (sort_item)index;
}

/* The first `count` of a line: elements are read in blocks, and a block none of which is better than the last of those found is
 * passed over. Candidates are cut back to `count` whenever there is no more room for a block. */
static sort_item *SORT(select)(const samba_line_state *s, const char *line, sort_item *items, sort_item *room, int64_t capacity)
{
    int64_t found = 0, count = s->line.count;
    sort_item last = 0;
    chunk values, extremes, limit;
    bool full = false;
    for (int64_t begin = 0; begin < s->line.size; begin += SAMBA_TILE_CAPACITY) {
        int64_t n = s->line.size - begin < SAMBA_TILE_CAPACITY ? s->line.size - begin : SAMBA_TILE_CAPACITY;
        read_line(s, line, begin, n, &values);
        if (full)
            block_extremes(s, &values, n, &extremes);
        for (int64_t block = 0; block * SELECT_BLOCK < n; block++) {
            if (full && none_better(s, &extremes, block, &limit))
                continue;
            int64_t end = (block + 1) * SELECT_BLOCK < n ? (block + 1) * SELECT_BLOCK : n;
            for (int64_t i = block * SELECT_BLOCK; i < end; i++) {
                sort_item item = SORT(item)(s, &values, i, begin + i);
                if (!full || item < last)
                    items[found++] = item;
            }
            if (found + SELECT_BLOCK > capacity) {
                sort_item *sorted = SORT(radix)(items, room, found);
                room = sorted == items ? room : items;
                items = sorted;
                found = count;
                last = items[count - 1];
                int64_t index = (int64_t)(last & (((sort_item)1 << SORT_KEY_BITS) - 1));
                read_line(s, line, index, 1, &limit);
                if (!full)
                    block_extremes(s, &values, n, &extremes);
                full = true;
            }
        }
    }
    return SORT(radix)(items, room, found);
}

static void SORT(write)(const samba_line_state *s, const sort_item *items, int64_t line_start, int64_t result_start)
{
    int64_t step = s->line.inner;
    for (int64_t i = 0; i < s->line.count; i++) {
        int64_t index = (int64_t)(items[i] & (((sort_item)1 << SORT_KEY_BITS) - 1));
        if (s->indices)
            s->indices[result_start + i * step] = index;
        if (s->values)
            copy_element(s, result_start + i * step, line_start + index * step);
    }
}

/* `lanes` lines side by side, the first of which begins at element `start`. */
static void SORT(lines)(const samba_line_state *s, char *scratch, int64_t start, int64_t result_start, int64_t lanes)
{
    const samba_line *line = &s->line;
    int64_t size = line->size, bytes = (int64_t)samba_dtype_size(s->dtype);
    sort_item *items = (sort_item *)(void *)scratch, *room = items + s->lanes * size;
    chunk values;
    if (selects(line)) {
        int64_t capacity = select_capacity(line);
        SORT(write)(s, SORT(select)(s, s->x + start * bytes, items, items + capacity, capacity), start, result_start);
        return;
    }
    if (lanes == 1) {
        for (int64_t begin = 0; begin < size; begin += SAMBA_TILE_CAPACITY) {
            int64_t n = size - begin < SAMBA_TILE_CAPACITY ? size - begin : SAMBA_TILE_CAPACITY;
            read_line(s, s->x + start * bytes, begin, n, &values);
            for (int64_t i = 0; i < n; i++)
                items[begin + i] = SORT(item)(s, &values, i, begin + i);
        }
    } else {
        for (int64_t i = 0; i < size; i++) {
            s->kernels->load[s->dtype](&values, s->x + (start + i * line->inner) * bytes, lanes);
            for (int64_t k = 0; k < lanes; k++)
                items[k * size + i] = SORT(item)(s, &values, k, i);
        }
    }
    for (int64_t k = 0; k < lanes; k++)
        SORT(write)(s, SORT(radix)(items + k * size, room, size), start + k, result_start + k);
}

#undef SORT_DIGIT
#undef SORT_PASSES
