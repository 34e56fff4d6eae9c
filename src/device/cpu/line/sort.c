/* SPDX-License-Identifier: Apache-2.0
 *
 * Sorting of lines: elements become unsigned keys of the same order (NaN greatest, -0 equal to 0), and keys with their indices
 * are sorted by digits; values are then copied from where they stood, so they keep every bit. The first few of many are selected
 * without sorting the rest. Threads share the lines. */
#include "device/cpu/line/line.h"
#include <string.h>

#define SORT_DIGIT_BITS 8
#define SORT_BUCKETS (1 << SORT_DIGIT_BITS)
#define SORT_FEW 64     /* items that are sorted by insertion */
#define SELECT_BLOCK 64 /* elements that are passed over at once */
#define MOST_LANES 16   /* lines side by side: a cache line of float32 */

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

/* ---- the first few of many ---- */
static bool selects(const samba_line *line) { return line->count < line->size / 4 && line->count > 0; }

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
static inline uint32_t key_narrow(const samba_line_state *s, const chunk *values, int64_t i)
{
    if (samba_class_of(s->dtype) == SAMBA_I64) /* of 32 bits at most */
        return (uint32_t)values->i64[i] + (s->dtype == SAMBA_INT32   ? 0x80000000u
                                           : s->dtype == SAMBA_INT16 ? 0x8000u
                                           : s->dtype == SAMBA_INT8  ? 0x80u
                                                                     : 0);
    float x = values->f32[i] + 0.0f; /* -0 becomes 0 */
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return x != x ? UINT32_MAX : bits ^ (bits >> 31 ? UINT32_MAX : 0x80000000u);
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

/* ---- the stage ---- */
static bool is_wide(const samba_line_state *s) { return s->dtype == SAMBA_FLOAT64 || s->dtype == SAMBA_INT64; }

void samba_line_prepare_sort(samba_line_state *s)
{
    const samba_line *line = &s->line;
    int64_t lanes = line->size > 0 ? s->machine->line.side_by_side / line->size : 1, items;
    lanes = lanes > MOST_LANES ? MOST_LANES : lanes;
    s->lanes = lanes > line->inner ? line->inner : lanes;
    if (s->lanes < 1 || selects(line))
        s->lanes = 1;
    items = selects(line) ? 2 * select_capacity(line) : (s->lanes + 1) * line->size;
    s->thread_scratch = (items * (is_wide(s) ? 16 : 8) + 63) / 64 * 64;
}

static int64_t groups_of(const samba_line_state *s)
{
    const samba_line *line = &s->line;
    return line->inner > 0 && line->count > 0 ? (line->inner + s->lanes - 1) / s->lanes : 0;
}

double samba_sort_share(const samba_line_state *s, int thread, int threads)
{
    int64_t groups = groups_of(s), work = s->line.outer * groups, lanes = 0;
    for (int64_t i = work * thread / threads; i < work * (thread + 1) / threads; i++) {
        int64_t column = i % groups * s->lanes;
        lanes += s->line.inner - column < s->lanes ? s->line.inner - column : s->lanes;
    }
    return work > 0 ? (double)lanes / (double)(s->line.outer * s->line.inner) : 0;
}

void samba_run_sort(const void *state, char *scratch, int phase, int thread, int threads)
{
    const samba_line_state *s = state;
    const samba_line *line = &s->line;
    (void)phase;
    scratch += s->shared_scratch + thread * s->thread_scratch;
    int64_t groups = groups_of(s), work = line->outer * groups;
    for (int64_t i = work * thread / threads, end = work * (thread + 1) / threads; i < end; i++) {
        int64_t outer = i / groups, column = i % groups * s->lanes;
        int64_t lanes = line->inner - column < s->lanes ? line->inner - column : s->lanes;
        int64_t start = outer * line->size * line->inner + column, result = outer * line->count * line->inner + column;
        (is_wide(s) ? lines_wide : lines_narrow)(s, scratch, start, result, lanes);
    }
}
