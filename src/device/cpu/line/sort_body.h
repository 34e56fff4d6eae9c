/* SPDX-License-Identifier: Apache-2.0
 *
 * Sorting of items, or choosing some of them: an item is an unsigned number whose upper half is a key and whose lower half is
 * where the element stood. Items are distinct, so the order is stable by itself. sort.c includes this for keys of 32 and of 64
 * bits, with SORT(name), sort_item and SORT_KEY_BITS defined. No include guard: one copy for each. */

#define SORT_DIGIT(item, pass) ((unsigned)((item) >> (SORT_KEY_BITS + SORT_DIGIT_BITS * (pass))) & (SORT_BUCKETS - 1))
#define SORT_PASSES (SORT_KEY_BITS / SORT_DIGIT_BITS)

static inline void SORT(insert)(sort_item *items, int64_t n, int64_t gap)
{
    for (int64_t i = gap; i < n; i++) {
        sort_item item = items[i];
        int64_t at = i;
        for (; at >= gap && items[at - gap] > item; at -= gap)
            items[at] = items[at - gap];
        items[at] = item;
    }
}
static void SORT(insertion)(sort_item *items, int64_t n) { SORT(insert)(items, n, 1); }

/* For few items, and for those that, against all odds, are still many. */
static void SORT(shell)(sort_item *items, int64_t n)
{
    int64_t gap = 1;
    while (gap <= n / SORT_FEW)
        gap = 3 * gap + 1;
    for (; gap > 1; gap /= 3)
        SORT(insert)(items, n, gap);
    SORT(insertion)(items, n);
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

/* The first few: an element that comes before the last of those found is put where it belongs among them. */
static sort_item *SORT(select_few)(const samba_line_state *s, const char *line, sort_item *items)
{
    const int64_t size = s->line.size, count = s->line.count;
    int64_t found = 0;
    chunk values, extremes, limit;
    for (int64_t begin = 0; begin < size; begin += SAMBA_TILE_CAPACITY) {
        int64_t n = size - begin < SAMBA_TILE_CAPACITY ? size - begin : SAMBA_TILE_CAPACITY;
        read_line(s, line, begin, n, &values);
        block_extremes(s, &values, n, &extremes);
        for (int64_t block = 0; block * SELECT_BLOCK < n; block++) {
            if (found == count && none_better(s, &extremes, block, &limit))
                continue;
            int64_t end = (block + 1) * SELECT_BLOCK < n ? (block + 1) * SELECT_BLOCK : n;
            for (int64_t i = block * SELECT_BLOCK; i < end; i++) {
                const sort_item item = SORT(item)(s, &values, i, begin + i);
                if (found == count && item > items[count - 1])
                    continue;
                int64_t at = found < count ? found++ : count - 1;
                for (; at > 0 && items[at - 1] > item; at--)
                    items[at] = items[at - 1];
                items[at] = item;
            }
            if (found == count)
                read_line(s, line, (int64_t)(items[count - 1] & (((sort_item)1 << SORT_KEY_BITS) - 1)), 1, &limit);
        }
    }
    return items;
}

/* ---- some of many, from anywhere in their order ---- */

/* Narrows items [*low, *high) to a few, or to less than twice as many as are wanted, among which are those that come to stand at
 * [first, first + count). One of a few of them divides the rest: what comes before it goes to the front, without a branch. */
static void SORT(divide)(sort_item *items, int64_t *low, int64_t *high, int64_t first, int64_t count)
{
    sort_item sample[CHOOSE_SAMPLE];
    for (int turns = 64; turns > 0 && *high - *low > CHOOSE_FEW && *high - *low > 2 * count; turns--) {
        int64_t n = *high - *low, step = n / CHOOSE_SAMPLE, end = *high - 1, to = *low;
        for (int i = 0; i < CHOOSE_SAMPLE; i++)
            sample[i] = items[*low + step / 2 + i * step];
        SORT(insertion)(sample, CHOOSE_SAMPLE);
        const int64_t place = (first + count / 2 - *low) * CHOOSE_SAMPLE / n;
        const sort_item middle = sample[place > 0 ? place : 1]; /* not the least of all, so there are fewer each turn */
        for (int64_t i = *low; i <= end; i++) {
            sort_item item = items[i];
            items[i] = items[to];
            items[to] = item;
            to += item < middle;
        }
        if (to <= first)
            *low = to;
        else if (to >= first + count)
            *high = to;
        else
            return;
    }
}

/* Items of the elements that are near the results: as many of the first digits of their keys are within theirs. `first` becomes
 * the first result's place among them. -1: the line has NaN that decides. */
static int64_t SORT(near)(const samba_line_state *s, const char *line, sort_item *items, int64_t *first)
{
    uint32_t counts[2][1 << NEAR_BITS]; /* two, as a counter that is added to at once waits for itself */
    const int64_t size = s->line.size;
    const sort_key nan = s->line.backwards ? 0 : (sort_key) ~(sort_key)0;
    const bool heed = heeds_nan(s);
    int64_t nans = 0;
    chunk values;
    sort_key keys[SAMBA_TILE_CAPACITY];
    memset(counts, 0, sizeof counts);
    for (int64_t begin = 0, n; begin < size; begin += n) {
        n = size - begin < SAMBA_TILE_CAPACITY ? size - begin : SAMBA_TILE_CAPACITY;
        read_line(s, line, begin, n, &values);
        SORT(keys)(s, &values, n, keys);
        for (int64_t i = 0; i < n; i++)
            counts[i & 1][keys[i] >> (SORT_KEY_BITS - NEAR_BITS)]++;
        for (int64_t i = 0; i < n && heed; i++)
            nans += keys[i] == nan;
    }
    if (s->line.nan && nans > 0)
        return -1;
    *first = first_of(s, size - nans);
    const int64_t last = *first + s->line.count;
    int64_t below = 0, upto = 0;
    sort_key low = 0, high = 0;
    for (int b = 0; upto < last; b++) {
        upto += (int64_t)counts[0][b] + counts[1][b];
        if (upto <= *first) {
            below = upto;
            low = (sort_key)b + 1;
        }
        high = (sort_key)b;
    }
    int64_t found = 0;
    for (int64_t begin = 0, n; begin < size; begin += n) {
        n = size - begin < SAMBA_TILE_CAPACITY ? size - begin : SAMBA_TILE_CAPACITY;
        read_line(s, line, begin, n, &values);
        SORT(keys)(s, &values, n, keys);
        for (int64_t i = 0; i < n; i++) { /* one is written beyond what is found, where `room` begins */
            items[found] = (sort_item)keys[i] << SORT_KEY_BITS | (sort_item)(begin + i);
            found += (keys[i] >> (SORT_KEY_BITS - NEAR_BITS)) - low <= high - low;
        }
    }
    *first -= below;
    return found;
}

/* The results of n items, which are `items` or stand in `room`. */
static sort_item *SORT(choose)(const samba_line_state *s, sort_item *items, sort_item *room, int64_t n, int64_t first)
{
    int64_t low = 0, high = n, count = s->line.count;
    if (s->line.nan && heeds_nan(s)) {
        const sort_key nan = s->line.backwards ? 0 : (sort_key) ~(sort_key)0;
        int64_t at = 0;
        while (at < n && (sort_key)(items[at] >> SORT_KEY_BITS) != nan)
            at++;
        if (at < n) {
            const sort_item found = items[at];
            for (int64_t i = 0; i < count; i++)
                items[i] = found;
            return items;
        }
    }
    if (2 * count <= SORT_FEW) {
        SORT(divide)(items, &low, &high, first, count);
        SORT(shell)(items + low, high - low); /* digits of keys sort only what stands in the order of the line */
        return items + first;
    }
    return SORT(radix)(items, room, n) + first;
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
    sort_key keys[SAMBA_TILE_CAPACITY];
    if (selects_few(line)) {
        SORT(write)(s, SORT(select_few)(s, s->x + start * bytes, items), start, result_start);
        return;
    }
    if (selects(line)) {
        int64_t capacity = select_capacity(line);
        SORT(write)(s, SORT(select)(s, s->x + start * bytes, items, items + capacity, capacity), start, result_start);
        return;
    }
    if (lanes == 1 && line->count < size && size >= NEAR_LEAST) {
        int64_t first, found = SORT(near)(s, s->x + start * bytes, items, &first);
        if (found >= 0) {
            SORT(write)(s, SORT(choose)(s, items, room, found, first), start, result_start);
            return;
        }
    }
    if (lanes == 1) {
        for (int64_t begin = 0; begin < size; begin += SAMBA_TILE_CAPACITY) {
            int64_t n = size - begin < SAMBA_TILE_CAPACITY ? size - begin : SAMBA_TILE_CAPACITY;
            read_line(s, s->x + start * bytes, begin, n, &values);
            SORT(keys)(s, &values, n, keys);
            for (int64_t i = 0; i < n; i++)
                items[begin + i] = (sort_item)keys[i] << SORT_KEY_BITS | (sort_item)(begin + i);
        }
    } else {
        for (int64_t i = 0; i < size; i++) {
            s->kernels->load[s->dtype](&values, s->x + (start + i * line->inner) * bytes, lanes);
            for (int64_t k = 0; k < lanes; k++)
                items[k * size + i] = SORT(item)(s, &values, k, i);
        }
    }
    for (int64_t k = 0; k < lanes; k++) {
        sort_item *of = items + k * size;
        int64_t numbers = size;
        for (int64_t i = 0; i < size && middles(s) && heeds_nan(s); i++)
            numbers -= (sort_key)(of[i] >> SORT_KEY_BITS) == (sort_key) ~(sort_key)0; /* which does not go backwards */
        SORT(write)(s, SORT(choose)(s, of, room, size, first_of(s, numbers)), start + k, result_start + k);
    }
}

#undef SORT_DIGIT
#undef SORT_PASSES
