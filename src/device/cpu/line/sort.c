/* SPDX-License-Identifier: Apache-2.0
 *
 * Sorting of lines: elements become unsigned keys of the same order (NaN greatest, -0 equal to 0), and keys with their indices
 * are sorted by digits; values are then copied from where they stood, so they keep every bit. The first few of many are selected
 * without sorting the rest, a few of them while lines side by side are read a row at a time; some from the middle by dividing
 * what they are among. Of short lines vectors count how many elements come before each (ranks.c). Threads share the lines. */
#include "device/cpu/line/line.h"
#include <string.h>

#define SORT_DIGIT_BITS 8
#define SORT_BUCKETS (1 << SORT_DIGIT_BITS)
#define SORT_FEW 64     /* items that are sorted by insertion */
#define SELECT_BLOCK 64 /* elements that are passed over at once */
#define SELECT_FEW 16   /* results that are kept in order while a line is read */
#define SELECT_LANES 64 /* lines side by side of which the first few are selected at once, and how many are worth it */
#define SELECT_LEAST 8
#define MOST_LANES 16   /* lines side by side: a cache line of float32 */
#define TURN_MOST 16    /* elements of lines that are turned into lines side by side */
#define NEAR_BITS 11    /* of a key's first digits, which say of a long line what is near its results */
#define NEAR_LEAST 4096 /* elements of such a line */
#define CHOOSE_FEW 24   /* items that are not divided */
#define CHOOSE_SAMPLE 9 /* items of which one divides the others */
_Static_assert(MOST_LANES == SAMBA_RANK_LANES, "lines side by side are what one call orders");

typedef union chunk { /* elements in registers of the dtype's class */
    float f32[SAMBA_TILE_CAPACITY];
    double f64[SAMBA_TILE_CAPACITY];
    int64_t i64[SAMBA_TILE_CAPACITY];
} chunk;

/* Elements [begin, begin + n) of the line whose first is at `line`. */
static void read_line(const samba_line_state *s, const char *line, int64_t begin, int64_t n, chunk *values)
{
    const char *source = line + begin * s->line.inner * (int64_t)samba_dtype_size(s->dtype);
    if (s->line.inner == 1)
        s->kernels->load[s->dtype](values, source, n);
    else
        s->kernels->load_strided[s->dtype](values, source, s->line.inner, n);
}

static void copy_element(const samba_line_state *s, int64_t to, int64_t from)
{
    switch (samba_dtype_size(s->dtype)) {
    case 1: s->values[to] = s->x[from]; return;
    case 2: memcpy(s->values + 2 * to, s->x + 2 * from, 2); return;
    case 4: memcpy(s->values + 4 * to, s->x + 4 * from, 4); return;
    default: memcpy(s->values + 8 * to, s->x + 8 * from, 8); return;
    }
}

/* ---- NaN that decides ---- */
static bool middles(const samba_line_state *s) { return s->line.first == SAMBA_LINE_MIDDLE; }
static bool heeds_nan(const samba_line_state *s)
{
    return (s->line.nan || middles(s)) && samba_dtype_is_floating_point(s->dtype);
}

/* The place in the order of the first result of a line of which so many elements are no NaN, as far as that decides. */
static int64_t first_of(const samba_line_state *s, int64_t numbers)
{
    return !middles(s) ? s->line.first : numbers > 0 ? (numbers - 1) / 2 : 0;
}

/* ---- the first few of many ---- */
static bool selects(const samba_line *line)
{
    return line->count < line->size / 4 && line->count > 0 && line->first == 0 && !line->nan;
}

static bool selects_few(const samba_line *line) { return selects(line) && line->count <= SELECT_FEW; }

/* Candidates: enough that cutting them back is rare. */
static int64_t select_capacity(const samba_line *line) { return 2 * line->count + 2 * SELECT_BLOCK; }

/* The best value of each block, NaN where there is one. */
static void block_extremes(const samba_line_state *s, const chunk *values, int64_t n, chunk *extremes)
{
    samba_register_class class_ = samba_class_of(s->dtype);
    int64_t whole = n / SELECT_BLOCK, width = class_ == SAMBA_F32 ? 4 : 8;
    void (*reduce)(void *, const void *, int64_t, int64_t, bool) =
        (s->line.backwards ? s->kernels->reduce_amax : s->kernels->reduce_amin)[class_];
    reduce(extremes, values, whole, SELECT_BLOCK, true);
    if (n > whole * SELECT_BLOCK)
        reduce((char *)extremes + whole * width, (const char *)values + whole * SELECT_BLOCK * width, 1, n - whole * SELECT_BLOCK,
               true);
}

/* Is no element of the block before the limit? NaN is for the items to compare. */
static bool none_better(const samba_line_state *s, const chunk *extremes, int64_t block, const chunk *limit)
{
    bool greatest = s->line.backwards;
    switch (samba_class_of(s->dtype)) {
    case SAMBA_F32: return greatest ? extremes->f32[block] <= limit->f32[0] : extremes->f32[block] >= limit->f32[0];
    case SAMBA_F64: return greatest ? extremes->f64[block] <= limit->f64[0] : extremes->f64[block] >= limit->f64[0];
    case SAMBA_I64: break;
    }
    return greatest ? extremes->i64[block] <= limit->i64[0] : extremes->i64[block] >= limit->i64[0];
}

/* ---- keys of 32 bits ---- */
static inline uint32_t bits_narrow(float x) /* the key of x + 0 */
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return x != x ? UINT32_MAX : bits ^ ((uint32_t)((int32_t)bits >> 31) | 0x80000000u);
}

static inline uint32_t key_narrow(const samba_line_state *s, const chunk *values, int64_t i)
{
    if (samba_class_of(s->dtype) == SAMBA_I64) /* of 32 bits at most */
        return (uint32_t)values->i64[i] + (s->dtype == SAMBA_INT32   ? 0x80000000u
                                           : s->dtype == SAMBA_INT16 ? 0x8000u
                                           : s->dtype == SAMBA_INT8  ? 0x80u
                                                                     : 0);
    return bits_narrow(values->f32[i] + 0.0f); /* -0 becomes 0 */
}

/* Keys of n elements, complemented where the greatest is first. */
static void keys_narrow(const samba_line_state *s, const chunk *values, int64_t n, uint32_t *keys)
{
    const uint32_t turn = s->line.backwards ? UINT32_MAX : 0;
    if (samba_class_of(s->dtype) == SAMBA_F32)
        for (int64_t i = 0; i < n; i++)
            keys[i] = bits_narrow(values->f32[i] + 0.0f) ^ turn;
    else
        for (int64_t i = 0; i < n; i++)
            keys[i] = key_narrow(s, values, i) ^ turn;
}

#define SORT(name) name##_narrow
#define SORT_KEY_BITS 32
#define sort_item uint64_t
#define sort_key uint32_t
#include "device/cpu/line/sort_body.h"
#undef SORT
#undef SORT_KEY_BITS
#undef sort_item
#undef sort_key

/* ---- keys of 64 bits ---- */
static inline uint64_t key_wide(const samba_line_state *s, const chunk *values, int64_t i)
{
    if (s->dtype == SAMBA_INT64)
        return (uint64_t)values->i64[i] ^ (1ull << 63);
    double x = values->f64[i] + 0.0;
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return x != x ? UINT64_MAX : bits ^ (bits >> 63 ? UINT64_MAX : 1ull << 63);
}

static void keys_wide(const samba_line_state *s, const chunk *values, int64_t n, uint64_t *keys)
{
    const uint64_t turn = s->line.backwards ? UINT64_MAX : 0;
    for (int64_t i = 0; i < n; i++)
        keys[i] = key_wide(s, values, i) ^ turn;
}

__extension__ typedef unsigned __int128 wide_item;
#define SORT(name) name##_wide
#define SORT_KEY_BITS 64
#define sort_item wide_item
#define sort_key uint64_t
#include "device/cpu/line/sort_body.h"
#undef SORT
#undef SORT_KEY_BITS
#undef sort_item
#undef sort_key

/* ---- short lines ---- */
static bool is_wide(const samba_line_state *s) { return s->dtype == SAMBA_FLOAT64 || s->dtype == SAMBA_INT64; }
static bool is_short(const samba_line_state *s) { return s->line.size <= SAMBA_RANK_MOST && !is_wide(s); }

/* Keys whose order is that of signed numbers. */
static void signed_keys(const samba_line_state *s, const chunk *values, int64_t n, int32_t *keys)
{
    uint32_t unsigned_keys[SAMBA_RANK_MOST];
    keys_narrow(s, values, n, unsigned_keys);
    for (int64_t i = 0; i < n; i++)
        keys[i] = (int32_t)(unsigned_keys[i] ^ 0x80000000u);
}

static int32_t count_nan(const samba_line_state *s, const int32_t *keys, int64_t n)
{
    const int32_t nan = s->line.backwards ? INT32_MIN : INT32_MAX;
    int32_t count = 0;
    for (int64_t i = 0; i < n; i++)
        count += keys[i] == nan;
    return count;
}

/* Result i of a line, which stood at `index` of it. */
static inline void write_one(const samba_line_state *s, int64_t start, int64_t result_start, int64_t i, int64_t index)
{
    int64_t step = s->line.inner;
    if (s->indices)
        s->indices[result_start + i * step] = index;
    if (s->values)
        copy_element(s, result_start + i * step, start + index * step);
}

/* Result i of lines side by side. The switch of write_one stands outside of the loop. */
#define WRITE(bits)                                                                                                              \
    {                                                                                                                            \
        const uint##bits##_t *from = (const uint##bits##_t *)(const void *)s->x + start;                                         \
        uint##bits##_t *to = (uint##bits##_t *)(void *)s->values + result_start;                                                 \
        for (int64_t k = 0; k < lanes; k++)                                                                                      \
            to[k * results_apart] = from[k * apart + order[k] * s->line.inner];                                                  \
        return;                                                                                                                  \
    }
static void write_lanes(const samba_line_state *s, int64_t start, int64_t apart, int64_t result_start, int64_t results_apart,
                        int64_t lanes, const int32_t *order)
{
    if (s->indices)
        for (int64_t k = 0; k < lanes; k++)
            s->indices[result_start + k * results_apart] = order[k];
    if (!s->values)
        return;
    switch (samba_dtype_size(s->dtype)) {
    case 1: WRITE(8)
    case 2: WRITE(16)
    default: WRITE(32)
    }
}

static void short_line(const samba_line_state *s, int64_t start, int64_t result_start)
{
    const samba_line *line = &s->line;
    int32_t keys[SAMBA_RANK_MOST], order[SAMBA_RANK_MOST];
    chunk values;
    read_line(s, s->x + start * (int64_t)samba_dtype_size(s->dtype), 0, line->size, &values);
    signed_keys(s, &values, line->size, keys);
    const int32_t nan = heeds_nan(s) ? count_nan(s, keys, line->size) : 0;
    if (nan > 0 && !middles(s)) {
        int32_t at = 0;
        while (count_nan(s, keys + at, 1) == 0)
            at++;
        for (int64_t i = 0; i < line->count; i++)
            order[i] = at;
    } else {
        s->kernels->line_order(order, keys, line->size, first_of(s, line->size - nan), line->count);
    }
    for (int64_t i = 0; i < line->count; i++)
        write_one(s, start, result_start, i, order[i]);
}

/* `lanes` short lines side by side: their first elements, and their first results, are so many elements apart. */
static void short_lines(const samba_line_state *s, int64_t start, int64_t result_start, int64_t lanes)
{
    const samba_line *line = &s->line;
    int64_t apart = s->turned ? line->size : 1, results_apart = s->turned ? line->count : 1;
    if (lanes == 1 || 8 * lanes < line->size) { /* too few that what is in no lane is counted too */
        for (int64_t k = 0; k < lanes; k++)
            short_line(s, start + k * apart, result_start + k * results_apart);
        return;
    }
    int32_t keys[SAMBA_RANK_MOST * MOST_LANES], order[SAMBA_RANK_MOST * MOST_LANES];
    chunk values;
    memset(&values, 0, MOST_LANES * 8);
    for (int64_t i = 0; i < line->size; i++) {
        const char *x = s->x + (start + i * line->inner) * (int64_t)samba_dtype_size(s->dtype);
        if (apart == 1)
            s->kernels->load[s->dtype](&values, x, lanes);
        else
            s->kernels->load_strided[s->dtype](&values, x, apart, lanes);
        signed_keys(s, &values, MOST_LANES, keys + i * MOST_LANES);
    }
    s->kernels->lines_order(order, keys, line->size, first_of(s, line->size), line->count);
    bool nan = heeds_nan(s) && count_nan(s, keys, line->size * MOST_LANES) > 0;
    for (int64_t i = 0; i < line->count; i++)
        write_lanes(s, start, apart, result_start + i * line->inner, results_apart, lanes, order + i * MOST_LANES);
    for (int64_t k = 0; k < lanes && nan; k++)
        short_line(s, start + k * apart, result_start + k * results_apart);
}

/* ---- the first few of long lines side by side ---- */
static bool selects_beside(const samba_line_state *s)
{
    return selects_few(&s->line) && !is_short(s) && !is_wide(s) && s->line.inner >= SELECT_LEAST;
}

/* Puts row `row` of MOST_LANES lines where it belongs among the first `kept` of each, the last of which it pushes out of `count`.
 * What stood there before stays before what is equal to it. */
static void put_row(int32_t best[][SELECT_LANES], int32_t places[][SELECT_LANES], const int32_t *keys, int32_t row, int64_t kept,
                    int64_t count)
{
    int32_t key[MOST_LANES], place[MOST_LANES], moves[MOST_LANES] = {0};
    memcpy(key, keys, sizeof key);
    for (int k = 0; k < MOST_LANES; k++)
        place[k] = row;
    for (int64_t j = 0; j < kept; j++)
        for (int k = 0; k < MOST_LANES; k++) { /* a lane whose row found its place moves all that is behind */
            int32_t b = best[j][k], p = places[j][k], move = moves[k] | -(key[k] < b);
            best[j][k] = (key[k] & move) | (b & ~move);
            places[j][k] = (place[k] & move) | (p & ~move);
            key[k] = (b & move) | (key[k] & ~move);
            place[k] = (p & move) | (place[k] & ~move);
            moves[k] = move;
        }
    if (kept < count) {
        memcpy(best[kept], key, sizeof key);
        memcpy(places[kept], place, sizeof place);
    }
}

/* Rows are read as they lie. One of which no lane comes before the last of those found, as are nearly all, costs a comparison. */
static void select_lanes(const samba_line_state *s, int64_t start, int64_t result_start, int64_t lanes)
{
    const int64_t count = s->line.count, bytes = (int64_t)samba_dtype_size(s->dtype);
    int32_t best[SELECT_FEW][SELECT_LANES], places[SELECT_FEW][SELECT_LANES], keys[SELECT_LANES] = {0};
    chunk values;
    for (int64_t i = 0; i < s->line.size; i++) {
        s->kernels->load[s->dtype](&values, s->x + (start + i * s->line.inner) * bytes, lanes);
        signed_keys(s, &values, lanes, keys);
        for (int64_t part = 0; part < lanes; part += MOST_LANES) {
            const int32_t *mine = keys + part, *last = best[count - 1] + part;
            int32_t any = i < count;
            for (int k = 0; k < MOST_LANES && i >= count; k++)
                any |= mine[k] < last[k];
            if (any)
                put_row((int32_t(*)[SELECT_LANES])(best[0] + part), (int32_t(*)[SELECT_LANES])(places[0] + part), mine,
                        (int32_t)i, i < count ? i : count, count);
        }
    }
    for (int64_t i = 0; i < count; i++)
        write_lanes(s, start, 1, result_start + i * s->line.inner, 1, lanes, places[i]);
}

/* ---- the stage ---- */
void samba_line_prepare_sort(samba_line_state *s)
{
    const samba_line *line = &s->line;
    s->turned = is_short(s) && line->inner == 1 && line->size <= TURN_MOST;
    int64_t lanes = line->size > 0 ? s->machine->line.side_by_side / line->size : 1, most = s->turned ? line->outer : line->inner;
    lanes = lanes > MOST_LANES || is_short(s) ? MOST_LANES : lanes;
    s->lanes = lanes > most ? most : lanes;
    if (s->lanes < 1 || (selects(line) && !is_short(s)))
        s->lanes = 1;
    if (selects_beside(s)) /* where there are few, each thread has some */
        s->lanes = line->outer * ((line->inner + SELECT_LANES - 1) / SELECT_LANES) < s->threads ? MOST_LANES : SELECT_LANES;
    int64_t items = is_short(s) ? 0 : selects(line) ? 2 * select_capacity(line) : (s->lanes + 1) * line->size;
    s->thread_scratch = (items * (is_wide(s) ? 16 : 8) + 63) / 64 * 64;
}

/* Lines of which some may be read at once, and how often there are so many. */
static int64_t beside(const samba_line_state *s) { return s->turned ? s->line.outer : s->line.inner; }
static int64_t blocks(const samba_line_state *s) { return s->turned ? s->line.inner : s->line.outer; }
static int64_t groups_of(const samba_line_state *s)
{
    return beside(s) > 0 && s->line.count > 0 ? (beside(s) + s->lanes - 1) / s->lanes : 0;
}

double samba_sort_share(const samba_line_state *s, int thread, int threads)
{
    int64_t groups = groups_of(s), work = blocks(s) * groups, lanes = 0;
    for (int64_t i = work * thread / threads; i < work * (thread + 1) / threads; i++) {
        int64_t column = i % groups * s->lanes;
        lanes += beside(s) - column < s->lanes ? beside(s) - column : s->lanes;
    }
    return work > 0 ? (double)lanes / (double)(s->line.outer * s->line.inner) : 0;
}

void samba_run_sort(const void *state, char *scratch, int phase, int thread, int threads)
{
    const samba_line_state *s = state;
    const samba_line *line = &s->line;
    (void)phase;
    scratch += s->shared_scratch + thread * s->thread_scratch;
    int64_t groups = groups_of(s), work = blocks(s) * groups;
    for (int64_t i = work * thread / threads, end = work * (thread + 1) / threads; i < end; i++) {
        int64_t block = i / groups, column = i % groups * s->lanes;
        int64_t lanes = beside(s) - column < s->lanes ? beside(s) - column : s->lanes;
        int64_t start = block * line->size * line->inner + column * (s->turned ? line->size : 1),
                result = block * line->count * line->inner + column * (s->turned ? line->count : 1);
        if (is_short(s))
            short_lines(s, start, result, lanes);
        else if (selects_beside(s) && lanes >= SELECT_LEAST)
            select_lanes(s, start, result, lanes);
        else if (selects_beside(s))
            for (int64_t k = 0; k < lanes; k++)
                lines_narrow(s, scratch, start + k, result + k, 1);
        else
            (is_wide(s) ? lines_wide : lines_narrow)(s, scratch, start, result, lanes);
    }
}
