/* SPDX-License-Identifier: Apache-2.0
 *
 * Gather and scatter. The domain is walked line by line, a line being its last dim. Where a line has one index (a row of an
 * embedding), it is copied, or combined, as a row. Where each element has its own index, a block of indices is turned into
 * offsets in the table, and one loop moves or combines the elements there. What begins a line costs as much as some of its
 * elements: where lines are short, the longest dim is walked in their place, a block of it at a time, and each element has an
 * index.
 *
 * No two threads write one row of the table. They divide a dim that is not the axis, in whole cache lines where that is the last
 * one. Where no such dim is worth dividing, each thread takes some of the table's rows, and all read all indices. Either way the
 * elements of one row come in one order, whatever the number of threads. Sums of bfloat16 and float16 are rounded at each
 * addition, as only the table holds them. */
#include "device/cpu/isa/vector_bits.h"
#include "device/cpu/machine.h"
#include <math.h>
#include <string.h>

enum { BLOCK = 256, LINE = 64 }; /* indices at a time; bytes that two threads had better not share */
#define NO_OFFSET INT64_MIN      /* of an index out of range, or that another thread takes */

/* rows[k * stride] and table[at[k]], n of them, without those at NO_OFFSET */
typedef void element_fn(char *table, const int64_t *at, char *rows, int64_t stride, int64_t n);

/* What neighbours of a box of elements are apart: in the table, in the index, in the rows. */
typedef struct steps {
    int64_t table, index, row;
} steps;

/* rows[k * stride] and table[index[k * index_stride] * width + k * step] of `lines` lines of n elements, where nothing stands
 * between. Gives how many elements it came to before it met an index that is not one of the table's `count` rows, those below 0
 * counted from `behind`. */
typedef int64_t direct_fn(char *table, const int64_t *index, char *rows, int64_t width, steps line, steps element, int64_t lines,
                          int64_t n, uint64_t count, int64_t behind);

typedef struct gather_state {
    samba_gather_stage gather;
    const samba_kernels *kernels;
    samba_dtype dtype, index_dtype;
    int rank, axis, split; /* split: the dim that threads divide; -1: the table's rows */
    int64_t unit;          /* of that dim, what one thread writes alone: of columns whole lines of the cache */
    int64_t part;          /* of the last dim that is walked at a time, before anything else is */
    int64_t domain[SAMBA_MAX_RANK], table_strides[SAMBA_MAX_RANK], index_strides[SAMBA_MAX_RANK], row_strides[SAMBA_MAX_RANK];
    const char *index;
    char *table, *rows;
    element_fn *elements;
    direct_fn *direct;
    volatile int32_t *fault;
    int32_t fault_value;
    double all; /* ns, about */
} gather_state;

/* ---- elements ---- */
#define LOOP(name, memory, statement)                                                                                            \
    static void name(char *table_, const int64_t *at, char *rows_, int64_t stride, int64_t n)                                    \
    {                                                                                                                            \
        memory *table = (memory *)table_, *rows = (memory *)rows_;                                                               \
        for (int64_t k = 0; k < n; k++) {                                                                                        \
            if (at[k] == NO_OFFSET)                                                                                              \
                continue;                                                                                                        \
            memory *t = &table[at[k]], *r = &rows[k * stride];                                                                   \
            statement;                                                                                                           \
        }                                                                                                                        \
    }                                                                                                                            \
    DIRECT(name, memory, memory *t = &table[offset]; memory *r = &rows[k * stride]; statement)
/* The strides of one index an element are known where this is compiled, along the axis and across it. */
#define DIRECT(name, memory, statement)                                                                                          \
    static inline __attribute__((always_inline))                                                                                 \
    int64_t name##_each(memory *table, const int64_t *index, memory *rows, int64_t width, steps line, int64_t step,              \
                        int64_t index_stride, int64_t stride, int64_t lines, int64_t n, uint64_t count, int64_t behind)          \
    {                                                                                                                            \
        for (int64_t i = 0; i < lines; i++, table += line.table, index += line.index, rows += line.row)                          \
            for (int64_t k = 0; k < n; k++) {                                                                                    \
                int64_t row = index[k * index_stride];                                                                           \
                uint64_t at = (uint64_t)(row + (row < 0 ? behind : 0));                                                          \
                if (at >= count)                                                                                                 \
                    return i * n + k;                                                                                            \
                int64_t offset = (int64_t)at * width + k * step;                                                                 \
                statement;                                                                                                       \
            }                                                                                                                    \
        return lines * n;                                                                                                        \
    }                                                                                                                            \
    static int64_t name##_direct(char *table_, const int64_t *index, char *rows_, int64_t width, steps line, steps element,      \
                                 int64_t lines, int64_t n, uint64_t count, int64_t behind)                                       \
    {                                                                                                                            \
        memory *table = (memory *)table_, *rows = (memory *)rows_;                                                               \
        if (element.index == 1 && element.row == 1 && element.table == 0 && width == 1)                                          \
            return name##_each(table, index, rows, 1, line, 0, 1, 1, lines, n, count, behind);                                   \
        if (element.index == 1 && element.row == 1 && element.table == 1)                                                        \
            return name##_each(table, index, rows, width, line, 1, 1, 1, lines, n, count, behind);                               \
        if (width == 1)                                                                                                          \
            return name##_each(table, index, rows, 1, line, element.table, element.index, element.row, lines, n, count, behind); \
        return name##_each(table, index, rows, width, line, element.table, element.index, element.row, lines, n, count, behind); \
    }
#define GET(size)                                                                                                                \
    static void get##size(char *table_, const int64_t *at, char *rows_, int64_t stride, int64_t n)                               \
    {                                                                                                                            \
        const uint##size##_t *table = (const uint##size##_t *)table_;                                                            \
        uint##size##_t *rows = (uint##size##_t *)rows_;                                                                          \
        for (int64_t k = 0; k < n; k++)                                                                                          \
            rows[k * stride] = at[k] == NO_OFFSET ? 0 : table[at[k]];                                                            \
    }                                                                                                                            \
    DIRECT(get##size, uint##size##_t, rows[k * stride] = table[offset])                                                          \
    LOOP(set##size, uint##size##_t, *t = *r)
GET(8)
GET(16)
GET(32)
GET(64)

#define SAME(x) (x)
/* ARITHMETIC(dtype, memory, number, read, write, sum, product, greatest, least) */
#define ARITHMETIC(name, memory, number, read, write, sum, product, more, less)                                                  \
    LOOP(add_##name, memory, number a = (number)read(*t); number b = (number)read(*r); *t = (memory)write(sum))                  \
    LOOP(mul_##name, memory, number a = (number)read(*t); number b = (number)read(*r); *t = (memory)write(product))              \
    LOOP(amax_##name, memory, number a = (number)read(*t); number b = (number)read(*r); *t = more ? *t : *r)                     \
    LOOP(amin_##name, memory, number a = (number)read(*t); number b = (number)read(*r); *t = less ? *t : *r)
#define FLOATING(name, memory, number, read, write)                                                                              \
    ARITHMETIC(name, memory, number, read, write, a + b, a * b, (a != a || a > b), (a != a || a < b))
#define INTEGER(name, memory)                                                                                                    \
    ARITHMETIC(name, memory, uint64_t, SAME, SAME, a + b, a * b, ((int64_t)a > (int64_t)b), ((int64_t)a < (int64_t)b))
FLOATING(float32, float, float, SAME, SAME)
FLOATING(bfloat16, uint16_t, float, float_of_bfloat16, bfloat16_of_float)
FLOATING(float16, uint16_t, float, float_of_float16, float16_of_float)
FLOATING(float64, double, double, SAME, SAME)
INTEGER(int64, int64_t)
INTEGER(int32, int32_t)
INTEGER(int16, int16_t)
INTEGER(int8, int8_t)
INTEGER(uint8, uint8_t)
ARITHMETIC(bool, uint8_t, int, SAME, SAME, a | b, a &b, (a > b), (a < b))

#define MODES(name, size)                                                                                                        \
    {                                                                                                                            \
        get##size, set##size, add_##name, mul_##name, amax_##name, amin_##name                                                   \
    }
static element_fn *const elements_of[SAMBA_DTYPE_COUNT][SAMBA_GATHER_MODE_COUNT] = {
    [SAMBA_FLOAT32] = MODES(float32, 32), [SAMBA_BFLOAT16] = MODES(bfloat16, 16), [SAMBA_FLOAT16] = MODES(float16, 16),
    [SAMBA_FLOAT64] = MODES(float64, 64), [SAMBA_INT64] = MODES(int64, 64),       [SAMBA_INT32] = MODES(int32, 32),
    [SAMBA_INT16] = MODES(int16, 16),     [SAMBA_INT8] = MODES(int8, 8),          [SAMBA_UINT8] = MODES(uint8, 8),
    [SAMBA_BOOL] = MODES(bool, 8)};
#undef MODES
#define MODES(name, size)                                                                                                        \
    {                                                                                                                            \
        get##size##_direct, set##size##_direct, add_##name##_direct, mul_##name##_direct, amax_##name##_direct,                  \
            amin_##name##_direct                                                                                                 \
    }
static direct_fn *const direct_of[SAMBA_DTYPE_COUNT][SAMBA_GATHER_MODE_COUNT] = {
    [SAMBA_FLOAT32] = MODES(float32, 32), [SAMBA_BFLOAT16] = MODES(bfloat16, 16), [SAMBA_FLOAT16] = MODES(float16, 16),
    [SAMBA_FLOAT64] = MODES(float64, 64), [SAMBA_INT64] = MODES(int64, 64),       [SAMBA_INT32] = MODES(int32, 32),
    [SAMBA_INT16] = MODES(int16, 16),     [SAMBA_INT8] = MODES(int8, 8),          [SAMBA_UINT8] = MODES(uint8, 8),
    [SAMBA_BOOL] = MODES(bool, 8)};

/* ---- indices ---- */
typedef struct owned { /* the table's rows that a thread takes */
    int64_t begin, end;
} owned;

/* The offsets of n indices, as elements of the table: row * table_stride + k * step. */
#define ROWS_OF(name, type)                                                                                                      \
    static bool name(const gather_state *s, const char *index_, int64_t stride, int64_t n, int64_t *at)                          \
    {                                                                                                                            \
        const type *index = (const type *)index_;                                                                                \
        uint64_t rows = (uint64_t)s->gather.table_rows, bad = 0;                                                                 \
        int64_t behind = s->gather.negative ? s->gather.table_rows : 0;                                                          \
        for (int64_t k = 0; k < n; k++) {                                                                                        \
            int64_t row = index[k * stride];                                                                                     \
            row += row < 0 ? behind : 0;                                                                                         \
            bad |= (uint64_t)((uint64_t)row >= rows);                                                                            \
            at[k] = row;                                                                                                         \
        }                                                                                                                        \
        return bad == 0;                                                                                                         \
    }
ROWS_OF(rows64, int64_t)
ROWS_OF(rows32, int32_t)

static void find_offsets(const gather_state *s, int64_t index, int64_t stride, int64_t step, int64_t n, owned mine, int64_t *at)
{
    int64_t rows = s->gather.table_rows, width = s->gather.table_stride;
    bool narrow = s->index_dtype == SAMBA_INT32,
         good = (narrow ? rows32 : rows64)(s, s->index + index * (narrow ? 4 : 8), stride, n, at);
    if (!good)
        __atomic_store_n(s->fault, s->fault_value, __ATOMIC_RELAXED);
    if (good && mine.begin == 0 && mine.end == rows) {
        for (int64_t k = 0; k < n; k++)
            at[k] = at[k] * width + k * step;
        return;
    }
    for (int64_t k = 0; k < n; k++)
        at[k] = at[k] >= mine.begin && at[k] < mine.end ? at[k] * width + k * step : NO_OFFSET;
}

/* ---- lines ---- */
/* table += rows and its like, both contiguous, a tile at a time in the register class of the dtype */
static void combine_row(const gather_state *s, char *table, const char *rows, int64_t n)
{
    static const samba_tile tiles[] = {[SAMBA_GATHER_ADD] = SAMBA_TILE_add,
                                       [SAMBA_GATHER_MUL] = SAMBA_TILE_mul,
                                       [SAMBA_GATHER_AMAX] = SAMBA_TILE_maximum,
                                       [SAMBA_GATHER_AMIN] = SAMBA_TILE_minimum};
    double x[SAMBA_TILE_CAPACITY], y[SAMBA_TILE_CAPACITY];
    samba_map_fn *combine = s->kernels->map[tiles[s->gather.mode]][samba_class_of(s->dtype)];
    int64_t size = (int64_t)samba_dtype_size(s->dtype);
    if (s->dtype == SAMBA_FLOAT32 || s->dtype == SAMBA_FLOAT64 || s->dtype == SAMBA_INT64) {
        combine(table, table, rows, NULL, n);
        return;
    }
    for (int64_t c = 0; c < n; c += SAMBA_TILE_CAPACITY) {
        int64_t part = n - c < SAMBA_TILE_CAPACITY ? n - c : SAMBA_TILE_CAPACITY;
        s->kernels->load[s->dtype](x, table + c * size, part);
        s->kernels->load[s->dtype](y, rows + c * size, part);
        combine(x, x, y, NULL, part);
        s->kernels->store[s->dtype](table + c * size, x, part);
    }
}

/* n elements that have one index. */
static void whole_row(const gather_state *s, int64_t offset, int64_t table, int64_t rows, int64_t n)
{
    int64_t size = (int64_t)samba_dtype_size(s->dtype), step = s->table_strides[s->rank - 1],
            stride = s->row_strides[s->rank - 1];
    char *to = s->rows + rows * size;
    if (s->gather.mode > SAMBA_GATHER_SET && ((step == 1 && stride == 1) || n == 1)) {
        if (offset != NO_OFFSET)
            combine_row(s, s->table + (table + offset) * size, to, n);
        return;
    }
    int64_t at[BLOCK];
    for (int64_t c = 0; c < n; c += BLOCK) {
        int64_t part = n - c < BLOCK ? n - c : BLOCK;
        for (int64_t k = 0; k < part; k++)
            at[k] = offset == NO_OFFSET ? NO_OFFSET : offset + (c + k) * step;
        s->elements(s->table + table * size, at, to + c * stride * size, stride, part);
    }
}

/* Some lines of n elements, at most BLOCK, that have an index each. */
static void some_elements(const gather_state *s, int64_t table, int64_t index, int64_t rows, const steps *line, int64_t lines,
                          int64_t n, owned mine)
{
    int last = s->rank - 1;
    int64_t size = (int64_t)samba_dtype_size(s->dtype), done = 0, at[BLOCK];
    steps element = {s->table_strides[last], s->index_strides[last], s->row_strides[last]};
    if (s->index_dtype == SAMBA_INT64 && mine.begin == 0 && mine.end == s->gather.table_rows)
        done =
            s->direct(s->table + table * size, (const int64_t *)s->index + index, s->rows + rows * size, s->gather.table_stride,
                      *line, element, lines, n, (uint64_t)s->gather.table_rows, s->gather.negative ? s->gather.table_rows : 0);
    for (int64_t i = done / n, k = done % n; i < lines; i++, k = 0) { /* what is left */
        int64_t t = table + i * line->table + k * element.table, r = rows + i * line->row + k * element.row;
        find_offsets(s, index + i * line->index + k * element.index, element.index, element.table, n - k, mine, at);
        s->elements(s->table + t * size, at, s->rows + r * size, element.row, n - k);
    }
}

/* memcpy for sizes that are known when it runs only, and are small: without a call, by parts that may overlap. */
static inline __attribute__((always_inline)) void copy_bytes(char *to, const char *from, int64_t n)
{
    enum { PART = 16, HALF = 8, WORD = 4, MOST = 128 };
    if (n > MOST) {
        memcpy(to, from, (size_t)n);
    } else if (n >= PART) {
        for (int64_t i = 0; i < n - PART; i += PART)
            memcpy(to + i, from + i, PART);
        memcpy(to + n - PART, from + n - PART, PART);
    } else if (n >= HALF) {
        memcpy(to, from, HALF);
        memcpy(to + n - HALF, from + n - HALF, HALF);
    } else if (n >= WORD) {
        memcpy(to, from, WORD);
        memcpy(to + n - WORD, from + n - WORD, WORD);
    } else {
        for (int64_t i = 0; i < n; i++)
            to[i] = from[i];
    }
}

#define FILL(size)                                                                                                               \
    static void fill##size(char *to_, const char *value, int64_t n)                                                              \
    {                                                                                                                            \
        uint##size##_t *to = (uint##size##_t *)(void *)to_, x;                                                                   \
        memcpy(&x, value, sizeof x);                                                                                             \
        for (int64_t i = 0; i < n; i++)                                                                                          \
            to[i] = x;                                                                                                           \
    }
FILL(8)
FILL(16)
FILL(32)
FILL(64)

/* Lines of n elements side by side, or of one that all take, that are copied; false: they are something else. */
static bool copied_lines(const gather_state *s, const int64_t *at, int64_t table, int64_t rows, const steps *line, int64_t lines,
                         int64_t n)
{
    int64_t size = (int64_t)samba_dtype_size(s->dtype), bytes = n * size, row = line->row * size,
            stride = s->row_strides[s->rank - 1];
    bool reads = s->gather.mode == SAMBA_GATHER_READ, fills = !reads && stride == 0;
    char *to = s->rows + rows * size;
    if (s->gather.mode > SAMBA_GATHER_SET || s->table_strides[s->rank - 1] != 1 || (stride != 1 && !fills))
        return false;
    for (int64_t k = 0; k < lines; k++, table += line->table, to += row) {
        char *place = s->table + (table + (at[k] == NO_OFFSET ? 0 : at[k])) * size;
        if (at[k] == NO_OFFSET && reads)
            memset(to, 0, (size_t)bytes);
        else if (at[k] == NO_OFFSET)
            continue;
        else if (reads)
            copy_bytes(to, place, bytes);
        else if (fills)
            (size == 1 ? fill8 : size == 2 ? fill16 : size == 4 ? fill32 : fill64)(place, to, n);
        else
            copy_bytes(place, to, bytes);
    }
    return true;
}

/* Some lines of n elements that have an index a line. */
static void some_lines(const gather_state *s, int64_t table, int64_t index, int64_t rows, const steps *line, int64_t lines,
                       int64_t n, owned mine)
{
    int64_t at[BLOCK];
    for (int64_t i = 0, part; i < lines; i += part) {
        part = lines - i < BLOCK ? lines - i : BLOCK;
        find_offsets(s, index + i * line->index, line->index, 0, part, mine, at);
        if (copied_lines(s, at, table + i * line->table, rows + i * line->row, line, part, n))
            continue;
        for (int64_t k = i; k < i + part; k++)
            whole_row(s, at[k - i], table + k * line->table, rows + k * line->row, n);
    }
}

/* The part of the domain from `low` to `high`, not empty, of the rows that are `mine`: its last two dims at once, by blocks. */
static void run_box(const gather_state *s, const int64_t *low, const int64_t *high, owned mine)
{
    int last = s->rank - 1, outer = last - 1;
    int64_t c[SAMBA_MAX_RANK], table = 0, index = 0, rows = 0, n = high[last] - low[last], lines = 1;
    steps line = {0, 0, 0}, element = {s->table_strides[last], s->index_strides[last], s->row_strides[last]};
    for (int d = 0; d <= last; d++) {
        c[d] = low[d];
        table += low[d] * s->table_strides[d];
        index += low[d] * s->index_strides[d];
        rows += low[d] * s->row_strides[d];
    }
    if (outer >= 0) {
        line = (steps){s->table_strides[outer], s->index_strides[outer], s->row_strides[outer]};
        lines = high[outer] - low[outer];
    }
    bool one = s->axis != last && s->index_strides[last] == 0;
    int64_t most = n < BLOCK ? BLOCK / n : 1; /* lines of a block */
    for (int d = 0; d >= 0;) {
        if (one)
            some_lines(s, table, index, rows, &line, lines, n, mine);
        for (int64_t i = 0; i < lines && !one; i += most)
            for (int64_t k = 0; k < n; k += BLOCK)
                some_elements(s, table + i * line.table + k * element.table, index + i * line.index + k * element.index,
                              rows + i * line.row + k * element.row, &line, lines - i < most ? lines - i : most,
                              n - k < BLOCK ? n - k : BLOCK, mine);
        for (d = outer - 1; d >= 0; d--) { /* the next lines */
            table += s->table_strides[d];
            index += s->index_strides[d];
            rows += s->row_strides[d];
            if (++c[d] < high[d])
                break;
            int64_t back = high[d] - low[d];
            table -= back * s->table_strides[d];
            index -= back * s->index_strides[d];
            rows -= back * s->row_strides[d];
            c[d] = low[d];
        }
    }
}

/* All of the domain but [begin, stop) along the dim `split`, if there is one, of the rows that are `mine`. */
static void run_part(const gather_state *s, int64_t begin, int64_t stop, owned mine)
{
    int last = s->rank - 1;
    int64_t low[SAMBA_MAX_RANK] = {0}, high[SAMBA_MAX_RANK];
    memcpy(high, s->domain, sizeof high);
    if (s->split >= 0) {
        low[s->split] = begin;
        high[s->split] = stop;
    }
    for (int d = 0; d <= last; d++)
        if (low[d] >= high[d])
            return;
    for (int64_t end = high[last]; low[last] < end; low[last] = high[last]) {
        high[last] = end - low[last] < s->part ? end : low[last] + s->part;
        run_box(s, low, high, mine);
    }
}

static int64_t gather_units(const void *state, int phase, int threads, bool *free)
{
    const gather_state *s = state;
    (void)phase;
    *free = false;
    return s->split < 0 ? threads : (s->domain[s->split] + s->unit - 1) / s->unit;
}

static double gather_work(const void *state, int phase, int threads, int64_t unit)
{
    const gather_state *s = state;
    (void)phase;
    if (s->split < 0) /* each reads all indices, and moves what is its own */
        return s->all * (1.0 / threads + (double)samba_dtype_size(s->index_dtype) /
                                             (double)(samba_dtype_size(s->index_dtype) + 2 * samba_dtype_size(s->dtype)));
    int64_t size = s->domain[s->split], step = s->unit, left = size - unit * step;
    return s->all * (double)(left < step ? left : step) / (double)size;
}

static const samba_dealing gather_dealing = {gather_units, gather_work, NULL, NULL};

static void run_gather(const void *state, char *scratch, int phase, int thread, int threads)
{
    const gather_state *s = state;
    owned all = {0, s->gather.table_rows};
    (void)scratch, (void)phase;
    if (s->split < 0) {
        int64_t rows = s->gather.table_rows;
        /* a thread without rows still finds indices out of range */
        run_part(s, 0, 0, (owned){rows * thread / threads, rows * (thread + 1) / threads});
        return;
    }
    int64_t size = s->domain[s->split], unit = s->unit;
    int64_t units = (size + unit - 1) / unit, begin = units * thread / threads * unit,
            end = units * (thread + 1) / threads * unit;
    run_part(s, begin, end < size ? end : size, all);
}

/* ---- preparing ---- */
static void drop_dim(gather_state *s, int d)
{
    size_t rest = sizeof(int64_t) * (size_t)(s->rank - d - 1);
    memmove(&s->domain[d], &s->domain[d + 1], rest);
    memmove(&s->table_strides[d], &s->table_strides[d + 1], rest);
    memmove(&s->index_strides[d], &s->index_strides[d + 1], rest);
    memmove(&s->row_strides[d], &s->row_strides[d + 1], rest);
    s->axis -= s->axis > d;
    s->rank--;
}

/* Fewer dims: those of size 1 go, neighbours that all operands see as one become one. */
static void collapse(gather_state *s)
{
    for (int d = s->rank - 1; d >= 0; d--)
        if (s->domain[d] == 1 && d != s->axis)
            drop_dim(s, d);
    for (int d = s->rank - 2; d >= 0; d--) {
        int64_t n = s->domain[d + 1];
        if (d == s->axis || d + 1 == s->axis || s->table_strides[d] != n * s->table_strides[d + 1] ||
            s->index_strides[d] != n * s->index_strides[d + 1] || s->row_strides[d] != n * s->row_strides[d + 1])
            continue;
        s->domain[d + 1] *= s->domain[d];
        drop_dim(s, d);
    }
}

/* The first dim with a few pieces for each thread, else the longest of the others; a gather may divide its axis too. */
static int choose_split(const gather_state *s, int threads)
{
    int best = -1;
    for (int d = 0; d < s->rank; d++) {
        if (d == s->axis && s->gather.mode != SAMBA_GATHER_READ)
            continue;
        int64_t pieces = s->domain[d];
        if (d == s->rank - 1 && s->rank > 1)
            pieces = pieces * (int64_t)samba_dtype_size(s->dtype) / LINE;
        if (pieces >= 4 * threads)
            return d;
        if (pieces >= threads && (best < 0 || s->domain[d] > s->domain[best]))
            best = d;
    }
    if (best < 0 && s->gather.mode == SAMBA_GATHER_READ)
        return 0; /* elements would be left unwritten otherwise */
    return best;
}

/* Where lines are short, the longest dim becomes the last. An element of the table still meets what is combined there in order:
 * along the axis, which nothing else goes. */
static void lengthen_lines(gather_state *s, const samba_cpu_machine *machine)
{
    int last = s->rank - 1, longest = last;
    bool one = s->axis != last && s->index_strides[last] == 0;
    s->part = s->domain[last] > 0 ? s->domain[last] : 1;
    for (int d = 0; d < last; d++)
        if (s->domain[d] >= s->domain[longest])
            longest = d;
    int64_t copies = s->gather.mode <= SAMBA_GATHER_SET && s->table_strides[last] == 1 && s->row_strides[last] <= 1;
    int64_t least = !one ? machine->gather.short_line : copies ? machine->gather.short_copy : machine->gather.short_row;
    if (longest == last || s->domain[last] >= least)
        return;
    int64_t *lists[] = {s->domain, s->table_strides, s->index_strides, s->row_strides};
    for (int i = 0; i < 4; i++) {
        int64_t kept = lists[i][longest];
        memmove(&lists[i][longest], &lists[i][longest + 1], sizeof kept * (size_t)(last - longest));
        lists[i][last] = kept;
    }
    s->axis = s->axis == longest ? last : s->axis - (s->axis > longest);
    s->split = s->split == longest ? last : s->split - (s->split > longest);
    s->part = machine->gather.short_lines;
}

samba_status samba_prepare_gather(const samba_preparing *prepare, const samba_stage *stage, samba_prepared *prepared)
{
    gather_state *s = samba_arena_alloc(prepare->arena, sizeof *s);
    if (!s)
        return SAMBA_ERROR_MEMORY;
    bool scatter = stage->gather.mode != SAMBA_GATHER_READ;
    const samba_operand *table = &stage->operands[scatter ? 2 : 0], *index = &stage->operands[scatter ? 0 : 1],
                        *rows = &stage->operands[scatter ? 1 : 2];
    *s = (gather_state){.gather = stage->gather,
                        .kernels = prepare->machine->kernels,
                        .dtype = (samba_dtype)rows->dtype,
                        .index_dtype = (samba_dtype)index->dtype,
                        .rank = stage->rank,
                        .axis = stage->gather.axis,
                        .fault = prepare->fault,
                        .fault_value = prepare->stage_index + 1};
    if (s->index_dtype != SAMBA_INT64 && s->index_dtype != SAMBA_INT32)
        return samba_fail(prepare->context, SAMBA_ERROR_DTYPE, "stage %s has indices of %s; they are int64 or int32", stage->name,
                          samba_dtype_name(s->index_dtype));
    const samba_operand *operands[3] = {table, index, rows};
    char *memory[3];
    for (int i = 0; i < 3; i++)
        memory[i] = samba_operand_memory(prepare, operands[i]);
    s->table = memory[0];
    s->index = memory[1];
    s->rows = memory[2];
    memcpy(s->domain, stage->domain, sizeof s->domain);
    memcpy(s->table_strides, table->strides, sizeof s->table_strides);
    memcpy(s->index_strides, index->strides, sizeof s->index_strides);
    memcpy(s->row_strides, rows->strides, sizeof s->row_strides);
    collapse(s);
    s->split = choose_split(s, prepare->threads);
    s->unit = s->split >= 0 && s->split == s->rank - 1 && s->rank > 1 ? LINE / (int64_t)samba_dtype_size(s->dtype) : 1;
    lengthen_lines(s, prepare->machine);
    s->elements = elements_of[s->dtype][s->gather.mode];
    s->direct = direct_of[s->dtype][s->gather.mode];
    s->all = (double)stage->bytes / (prepare->far ? prepare->machine->share.memory : prepare->machine->share.cached) * 1e9;
    *prepared = (samba_prepared){.run = run_gather, .state = s, .phases = 1, .dealing = &gather_dealing};
    return SAMBA_OK;
}
