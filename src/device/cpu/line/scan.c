/* SPDX-License-Identifier: Apache-2.0
 *
 * Running sums and their like. Floats run in double, integers wrap in 64 bits, whatever the dtype; results are rounded as they
 * are stored. Short lines run as they are. Lines far apart in memory but side by side (a dim before the last) run as vectors, a
 * row at a time; others several at once, since each addition waits for the one before. Extremes keep the dtype's registers.
 * Threads share the lines, and a sum of few long lines in pieces, whose totals they find first. */
#include "device/cpu/line/line.h"
#include <math.h>
#include <string.h>

#define TOGETHER 4 /* lines that run at once */

typedef union chunk { /* eight more, so that lines of one block do not lie at equal places of pages */
    double real[SAMBA_TILE_CAPACITY + 8];
    int64_t integer[SAMBA_TILE_CAPACITY + 8];
} chunk;

typedef struct running { /* one line: what it has come to */
    double real;
    int64_t integer, index;
} running;

static bool is_real(const samba_line_state *s) { return samba_class_of(s->dtype) != SAMBA_I64; }

/* n elements, `step` apart, as double or int64_t, and back */
static void read_elements(const samba_line_state *s, const char *memory, int64_t start, int64_t step, int64_t n, chunk *to)
{
    const char *source = memory + start * (int64_t)samba_dtype_size(s->dtype);
    float narrow[SAMBA_TILE_CAPACITY];
    bool converts = samba_class_of(s->dtype) == SAMBA_F32;
    void *d = converts ? (void *)narrow : to;
    if (step == 1)
        s->kernels->load[s->dtype](d, source, n);
    else
        s->kernels->load_strided[s->dtype](d, source, step, n);
    if (converts)
        s->kernels->convert[SAMBA_F32][SAMBA_F64](to, narrow, NULL, NULL, n);
}

static void write_elements(const samba_line_state *s, int64_t start, int64_t step, int64_t n, const chunk *from)
{
    char *destination = s->values + start * (int64_t)samba_dtype_size(s->dtype);
    float narrow[SAMBA_TILE_CAPACITY];
    const void *a = from;
    if (samba_class_of(s->dtype) == SAMBA_F32) {
        s->kernels->convert[SAMBA_F64][SAMBA_F32](narrow, from, NULL, NULL, n);
        a = narrow;
    }
    if (step == 1)
        s->kernels->store[s->dtype](destination, a, n);
    else
        s->kernels->store_strided[s->dtype](destination, a, step, n);
}

static int64_t wrap_add(int64_t a, int64_t b) { return (int64_t)((uint64_t)a + (uint64_t)b); }
static int64_t wrap_multiply(int64_t a, int64_t b) { return (int64_t)((uint64_t)a * (uint64_t)b); }

static double log_add(double x, double y)
{
    double high = x > y ? x : y, low = x > y ? y : x;
    if (x != x || y != y)
        return x + y;
    return isinf(high) ? high : high + log1p(exp(low - high));
}

/* ---- greatest and least so far ---- */
#define PASS 64 /* elements that are passed over at once */

typedef union registers { /* in registers of the dtype's class */
    float f32[SAMBA_TILE_CAPACITY];
    double f64[SAMBA_TILE_CAPACITY];
    int64_t i64[SAMBA_TILE_CAPACITY];
} registers;

/* n elements from number `begin` of the line on: the latest of equal ones takes its place, and NaN for good. Where the extreme of
 * PASS elements, which vectors find, takes no place, what the line has come to is only repeated: so it is nearly everywhere in
 * lines of no order. */
#define EXTREMES(name, type, kept)                                                                                               \
    static inline __attribute__((always_inline)) bool name##_takes(type x, type best, bool greatest)                             \
    {                                                                                                                            \
        return x != x || (best == best && (greatest ? x >= best : x <= best));                                                   \
    }                                                                                                                            \
    static inline __attribute__((always_inline)) void name(running *r, type *values, const type *passes, int64_t begin,          \
                                                           int64_t n, int64_t *indices, bool back, bool greatest)                \
    {                                                                                                                            \
        type best = (type)r->kept;                                                                                               \
        int64_t index = r->index;                                                                                                \
        for (int64_t k = 0, count = (n + PASS - 1) / PASS; k < count; k++) {                                                     \
            int64_t pass = back ? count - 1 - k : k, low = pass * PASS, high = low + PASS < n ? low + PASS : n;                  \
            if (index >= 0 && !name##_takes(passes[pass], best, greatest)) {                                                     \
                for (int64_t i = low; i < high; i++)                                                                             \
                    values[i] = best;                                                                                            \
                for (int64_t i = low; i < high; i++)                                                                             \
                    indices[i] = index;                                                                                          \
                continue;                                                                                                        \
            }                                                                                                                    \
            for (int64_t j = 0; j < high - low; j++) {                                                                           \
                int64_t i = back ? high - 1 - j : low + j;                                                                       \
                bool takes = name##_takes(values[i], best, greatest) || index < 0;                                               \
                best = takes ? values[i] : best;                                                                                 \
                index = takes ? begin + i : index;                                                                               \
                values[i] = best;                                                                                                \
                indices[i] = index;                                                                                              \
            }                                                                                                                    \
        }                                                                                                                        \
        r->kept = best;                                                                                                          \
        r->index = index;                                                                                                        \
    }                                                                                                                            \
    static void name##_of(const samba_line_state *s, running *r, type *values, const type *passes, int64_t begin, int64_t n,     \
                          int64_t *indices)                                                                                      \
    {                                                                                                                            \
        if (s->line.function == SAMBA_LINE_CUMMAX)                                                                               \
            s->line.backwards ? name(r, values, passes, begin, n, indices, true, true)                                           \
                              : name(r, values, passes, begin, n, indices, false, true);                                         \
        else                                                                                                                     \
            s->line.backwards ? name(r, values, passes, begin, n, indices, true, false)                                          \
                              : name(r, values, passes, begin, n, indices, false, false);                                        \
    }
EXTREMES(extremes_f32, float, real)
EXTREMES(extremes_f64, double, real)
EXTREMES(extremes_i64, int64_t, integer)

static bool finds_extremes(const samba_line_state *s)
{
    return s->line.function == SAMBA_LINE_CUMMAX || s->line.function == SAMBA_LINE_CUMMIN;
}

/* Elements [begin, end) of a line that begins at `start`. */
static void extreme_range(const samba_line_state *s, running *r, int64_t start, int64_t begin, int64_t end)
{
    const samba_kernels *k = s->kernels;
    const samba_register_class class_ = samba_class_of(s->dtype);
    const int64_t size = (int64_t)samba_dtype_size(s->dtype), step = s->line.inner, width = class_ == SAMBA_F32 ? 4 : 8;
    void (*reduce)(void *, const void *, int64_t, int64_t, bool) =
        (s->line.function == SAMBA_LINE_CUMMAX ? k->reduce_amax : k->reduce_amin)[class_];
    registers values, passes;
    int64_t room[SAMBA_TILE_CAPACITY];
    for (int64_t done = 0, n; done < end - begin; done += n) {
        n = end - begin - done < SAMBA_TILE_CAPACITY ? end - begin - done : SAMBA_TILE_CAPACITY;
        const int64_t at = s->line.backwards ? end - done - n : begin + done, first = start + at * step, whole = n / PASS;
        int64_t *indices = s->indices && step == 1 ? s->indices + first : room;
        if (step == 1)
            k->load[s->dtype](&values, s->x + first * size, n);
        else
            k->load_strided[s->dtype](&values, s->x + first * size, step, n);
        reduce(&passes, &values, whole, PASS, true);
        if (n > whole * PASS)
            reduce((char *)&passes + whole * width, (char *)&values + whole * PASS * width, 1, n - whole * PASS, true);
        if (class_ == SAMBA_F32)
            extremes_f32_of(s, r, values.f32, passes.f32, at, n, indices);
        else if (class_ == SAMBA_F64)
            extremes_f64_of(s, r, values.f64, passes.f64, at, n, indices);
        else
            extremes_i64_of(s, r, values.i64, passes.i64, at, n, indices);
        for (int64_t i = 0; i < n && s->indices && step != 1; i++)
            s->indices[first + i * step] = indices[i];
        if (s->values && step == 1)
            k->store[s->dtype](s->values + first * size, &values, n);
        else if (s->values)
            k->store_strided[s->dtype](s->values + first * size, &values, step, n);
    }
}

/* ---- a chunk of one line ---- */
static void logarithms(const samba_line_state *s, running *r, chunk *values, int64_t n)
{
    for (int64_t k = 0; k < n; k++) {
        int64_t i = s->line.backwards ? n - 1 - k : k;
        r->real = log_add(r->real, values->real[i]);
        values->real[i] = r->real;
    }
}

/* ---- a chunk of several lines: the function is a constant to the compiler ---- */
static inline __attribute__((always_inline)) void run_real(running *r, chunk *values, int64_t lines, int64_t n, bool back,
                                                           bool multiply)
{
    double sum[TOGETHER];
    for (int64_t j = 0; j < TOGETHER; j++)
        sum[j] = r[j].real;
    if (lines == TOGETHER) {
        for (int64_t k = 0; k < n; k++) {
            int64_t i = back ? n - 1 - k : k;
            for (int j = 0; j < TOGETHER; j++)
                values[j].real[i] = sum[j] = multiply ? sum[j] * values[j].real[i] : sum[j] + values[j].real[i];
        }
    } else {
        for (int64_t j = 0; j < lines; j++)
            for (int64_t k = 0; k < n; k++) {
                int64_t i = back ? n - 1 - k : k;
                values[j].real[i] = sum[j] = multiply ? sum[j] * values[j].real[i] : sum[j] + values[j].real[i];
            }
    }
    for (int64_t j = 0; j < TOGETHER; j++)
        r[j].real = sum[j];
}

static void run_integers(running *r, chunk *values, int64_t lines, int64_t n, bool back, bool multiply)
{
    for (int64_t j = 0; j < lines; j++) {
        int64_t sum = r[j].integer;
        for (int64_t k = 0; k < n; k++) {
            int64_t i = back ? n - 1 - k : k, x = values[j].integer[i];
            values[j].integer[i] = sum = multiply ? wrap_multiply(sum, x) : wrap_add(sum, x);
        }
        r[j].integer = sum;
    }
}

static void run_lines(const samba_line_state *s, running *r, chunk *values, int64_t lines, int64_t n)
{
    bool back = s->line.backwards, multiply = s->line.function == SAMBA_LINE_CUMPROD;
    if (!is_real(s))
        run_integers(r, values, lines, n, back, multiply);
    else if (multiply)
        back ? run_real(r, values, lines, n, true, true) : run_real(r, values, lines, n, false, true);
    else
        back ? run_real(r, values, lines, n, true, false) : run_real(r, values, lines, n, false, false);
}

/* ---- lines ---- */
static int64_t line_start(const samba_line *line, int64_t number)
{
    return number / line->inner * line->inner * line->size + number % line->inner;
}

static running at_start(const samba_line_state *s)
{
    running r = {.real = 0, .integer = 0, .index = -1};
    if (s->line.function == SAMBA_LINE_CUMPROD)
        r.real = (double)(r.integer = 1);
    if (s->line.function == SAMBA_LINE_LOGCUMSUMEXP)
        r.real = -INFINITY;
    return r;
}

/* Sums of floats of one line are vectors: line/sums.c. */
static bool sums_floats(const samba_line_state *s)
{
    return s->line.function == SAMBA_LINE_CUMSUM && samba_class_of(s->dtype) == SAMBA_F32;
}

static void sum_floats(const samba_line_state *s, running *r, int64_t start, int64_t begin, int64_t end)
{
    const samba_kernels *k = s->kernels;
    int64_t size = (int64_t)samba_dtype_size(s->dtype), step = s->line.inner;
    float row[SAMBA_TILE_CAPACITY];
    if (step == 1 && s->dtype == SAMBA_FLOAT32) {
        k->running_sum((float *)(void *)s->values + start + begin, (const float *)(const void *)s->x + start + begin, end - begin,
                       &r->real, s->line.backwards);
        return;
    }
    for (int64_t done = 0, n; done < end - begin; done += n) {
        n = end - begin - done < SAMBA_TILE_CAPACITY ? end - begin - done : SAMBA_TILE_CAPACITY;
        int64_t at = (start + (s->line.backwards ? end - done - n : begin + done) * step) * size;
        if (step == 1)
            k->load[s->dtype](row, s->x + at, n);
        else
            k->load_strided[s->dtype](row, s->x + at, step, n);
        k->running_sum(row, row, n, &r->real, s->line.backwards);
        if (step == 1)
            k->store[s->dtype](s->values + at, row, n);
        else
            k->store_strided[s->dtype](s->values + at, row, step, n);
    }
}

/* Elements [begin, end) of `lines` lines that begin at `starts`, from what they have come to. */
static void scan_range(const samba_line_state *s, running *r, const int64_t *starts, int64_t lines, int64_t begin, int64_t end)
{
    const samba_line *line = &s->line;
    chunk values[TOGETHER];
    int64_t step = line->inner;
    for (int64_t j = 0; j < lines && sums_floats(s); j++)
        sum_floats(s, &r[j], starts[j], begin, end);
    for (int64_t j = 0; j < lines && finds_extremes(s); j++)
        extreme_range(s, &r[j], starts[j], begin, end);
    if (sums_floats(s) || finds_extremes(s))
        return;
    for (int64_t done = 0, n; done < end - begin; done += n) {
        n = end - begin - done < SAMBA_TILE_CAPACITY ? end - begin - done : SAMBA_TILE_CAPACITY;
        int64_t at = line->backwards ? end - done - n : begin + done;
        for (int64_t j = 0; j < lines; j++)
            read_elements(s, s->x, starts[j] + at * step, step, n, &values[j]);
        if (line->function == SAMBA_LINE_LOGCUMSUMEXP) {
            for (int64_t j = 0; j < lines; j++)
                logarithms(s, &r[j], &values[j], n);
        } else {
            run_lines(s, r, values, lines, n);
        }
        for (int64_t j = 0; j < lines && s->values; j++)
            write_elements(s, starts[j] + at * step, step, n, &values[j]);
    }
}

/* dx k = (product of all before k) * r k, with r k = dy k + x k+1 * r k+1; `rest` has room for a line */
static void product_gradient(const samba_line_state *s, int64_t start, double *rest)
{
    const samba_line *line = &s->line;
    int64_t step = line->inner, size = line->size;
    chunk x, dy;
    double r = 0, after = 0, product = 1; /* after: the element behind the one at hand */
    for (int pass = 0; pass < 2; pass++) {
        bool from_end = (pass == 0) != (line->backwards != 0);
        for (int64_t done = 0, n; done < size; done += n) {
            n = size - done < SAMBA_TILE_CAPACITY ? size - done : SAMBA_TILE_CAPACITY;
            int64_t at = from_end ? size - done - n : done;
            read_elements(s, s->x, start + at * step, step, n, &x);
            if (pass == 0)
                read_elements(s, s->dy, start + at * step, step, n, &dy);
            for (int64_t k = 0; k < n; k++) {
                int64_t i = from_end ? n - 1 - k : k;
                if (pass == 0) {
                    rest[at + i] = r = dy.real[i] + (done + k > 0 ? after * r : 0);
                    after = x.real[i];
                } else {
                    double before = product;
                    product *= x.real[i];
                    x.real[i] = before * rest[at + i];
                }
            }
            if (pass == 1)
                write_elements(s, start + at * step, step, n, &x);
        }
    }
}

/* Sums or products of up to a tile of lines side by side, a row at a time. */
static void scan_columns(const samba_line_state *s, int64_t start, int64_t columns)
{
    const samba_line *line = &s->line;
    const samba_kernels *k = s->kernels;
    samba_register_class class_ = samba_class_of(s->dtype), wide = class_ == SAMBA_I64 ? SAMBA_I64 : SAMBA_F64;
    int64_t size = (int64_t)samba_dtype_size(s->dtype);
    bool multiply = line->function == SAMBA_LINE_CUMPROD;
    running first = at_start(s);
    chunk sums, row;
    float narrow[SAMBA_TILE_CAPACITY];
    void *loaded = class_ == SAMBA_F32 ? (void *)narrow : &row;
    k->fill[wide](&sums, wide == SAMBA_F64 ? (const void *)&first.real : &first.integer, columns);
    for (int64_t n = 0; n < line->size; n++) {
        int64_t at = (start + (line->backwards ? line->size - 1 - n : n) * line->inner) * size;
        k->load[s->dtype](loaded, s->x + at, columns);
        if (multiply) {
            if (class_ == SAMBA_F32)
                k->convert[SAMBA_F32][SAMBA_F64](&row, narrow, NULL, NULL, columns);
            k->map[SAMBA_TILE_mul][wide](&sums, &sums, &row, NULL, columns);
        } else {
            k->collect_rows[class_](&sums, loaded, NULL, 1, columns);
        }
        if (class_ == SAMBA_F32)
            k->convert[SAMBA_F64][SAMBA_F32](narrow, &sums, NULL, NULL, columns);
        k->store[s->dtype](s->values + at, class_ == SAMBA_F32 ? (const void *)narrow : &sums, columns);
    }
}

/* ---- few long lines, in pieces, of which a thread runs several at once ---- */
static bool in_pieces(const samba_line_state *s)
{
    const samba_line *line = &s->line;
    return line->function == SAMBA_LINE_CUMSUM && line->inner == 1 && line->outer < TOGETHER &&
           line->size >= s->machine->line.long_line && (s->threads > 1 || !sums_floats(s));
}

#define MOST_TEAMS 64 /* threads that take part */

static running total(const samba_line_state *s, int64_t start, int64_t n)
{
    running r = at_start(s);
    for (int64_t at = 0; at < n; at += SAMBA_TILE_CAPACITY) {
        int64_t count = n - at < SAMBA_TILE_CAPACITY ? n - at : SAMBA_TILE_CAPACITY;
        chunk values;
        read_elements(s, s->x, start + at, 1, count, &values);
        if (is_real(s))
            r.real += s->kernels->total_f64(values.real, count);
        else
            r.integer = wrap_add(r.integer, s->kernels->total_i64(values.integer, count));
    }
    return r;
}

/* Pieces of equal length; what is left over at the end of the line belongs to the last. */
static void scan_pieces(const samba_line_state *s, char *scratch, int phase, int thread, int threads)
{
    const samba_line *line = &s->line;
    int teams = threads < MOST_TEAMS ? threads : MOST_TEAMS, pieces = teams * TOGETHER;
    running *totals = (running *)(void *)scratch;
    int64_t length = line->size / pieces, rest = line->size - length * pieces;
    for (int64_t o = 0; o < line->outer && thread < teams; o++, totals += MOST_TEAMS * TOGETHER) {
        int64_t starts[TOGETHER];
        running r[TOGETHER];
        for (int j = 0; j < TOGETHER; j++) {
            int piece = thread * TOGETHER + j;
            starts[j] = o * line->size + piece * length;
            if (phase == 0)
                totals[piece] = total(s, starts[j], length + (piece == pieces - 1 ? rest : 0));
            r[j] = at_start(s);
            for (int p = 0; p < pieces && phase == 1; p++)
                if (line->backwards ? p > piece : p < piece) {
                    r[j].real += totals[p].real;
                    r[j].integer = wrap_add(r[j].integer, totals[p].integer);
                }
        }
        if (phase == 0)
            continue;
        bool last = thread == teams - 1;
        int64_t *tail = &starts[TOGETHER - 1];
        running *end = &r[TOGETHER - 1], one[TOGETHER] = {*end, *end, *end, *end};
        if (last && line->backwards) {
            scan_range(s, one, tail, 1, length, length + rest);
            *end = one[0];
        }
        scan_range(s, r, starts, TOGETHER, 0, length);
        one[0] = *end;
        if (last && !line->backwards)
            scan_range(s, one, tail, 1, length, length + rest);
    }
}

/* ---- short lines, one behind the other ---- */
static bool is_short(const samba_line_state *s)
{
    const samba_line *line = &s->line;
    return (line->function == SAMBA_LINE_CUMSUM || line->function == SAMBA_LINE_CUMPROD) && line->inner == 1 &&
           line->size < s->machine->line.short_line &&
           (s->dtype == SAMBA_FLOAT32 || s->dtype == SAMBA_FLOAT64 || s->dtype == SAMBA_INT64);
}

/* Lines [begin, end). Each waits for its own sums alone, so the processor has several at work. */
#define SHORT_LINES(name, type, wide)                                                                                            \
    static inline __attribute__((always_inline)) void name##_lines(const samba_line_state *s, int64_t begin, int64_t end,        \
                                                                   int64_t step, bool multiply)                                  \
    {                                                                                                                            \
        int64_t size = s->line.size, first = begin * size + (step < 0 ? size - 1 : 0);                                           \
        const type *x = (const type *)(const void *)s->x + first;                                                                \
        type *y = (type *)(void *)s->values + first;                                                                             \
        for (int64_t i = begin; i < end; i++, x += size, y += size) {                                                            \
            wide r = multiply;                                                                                                   \
            for (int64_t k = 0; k < size; k++) {                                                                                 \
                r = multiply ? r * (wide)x[k * step] : r + (wide)x[k * step];                                                    \
                y[k * step] = (type)r;                                                                                           \
            }                                                                                                                    \
        }                                                                                                                        \
    }                                                                                                                            \
    static void name(const samba_line_state *s, int64_t begin, int64_t end)                                                      \
    {                                                                                                                            \
        bool multiply = s->line.function == SAMBA_LINE_CUMPROD;                                                                  \
        if (s->line.backwards)                                                                                                   \
            multiply ? name##_lines(s, begin, end, -1, true) : name##_lines(s, begin, end, -1, false);                           \
        else                                                                                                                     \
            multiply ? name##_lines(s, begin, end, 1, true) : name##_lines(s, begin, end, 1, false);                             \
    }
SHORT_LINES(short_f32, float, double)
SHORT_LINES(short_f64, double, double)
SHORT_LINES(short_i64, uint64_t, uint64_t) /* wraps */

/* ---- the stage ---- */
/* Long sums side by side have a way of their own, and few long lines theirs. */
static bool in_lanes(const samba_line_state *s)
{
    const samba_line *line = &s->line;
    bool sums = line->function == SAMBA_LINE_CUMSUM || line->function == SAMBA_LINE_CUMPROD;
    return !(sums && line->inner >= s->machine->line.wide_inner) && !(sums_floats(s) && line->inner == 1) && !in_pieces(s) &&
           !is_short(s) && samba_scan_takes_lanes(s);
}

void samba_line_prepare_scan(samba_line_state *s)
{
    if (in_lanes(s)) {
        s->thread_scratch = samba_scan_lanes_scratch(s);
        return;
    }
    if (s->line.function == SAMBA_LINE_CUMPROD_GRAD)
        s->thread_scratch = (s->line.size * (int64_t)sizeof(double) + 63) / 64 * 64;
    if (in_pieces(s))
        s->shared_scratch = (int64_t)sizeof(running) * TOGETHER * MOST_TEAMS * TOGETHER;
}

static bool is_wide(const samba_line_state *s)
{
    return s->line.inner >= s->machine->line.wide_inner &&
           (s->line.function == SAMBA_LINE_CUMSUM || s->line.function == SAMBA_LINE_CUMPROD);
}

/* Lines side by side go in groups; narrower ones where there are few, so that each thread has some. */
static int64_t groups_of(const samba_line_state *s, int threads)
{
    int64_t inner = s->line.inner, groups = (inner + SAMBA_TILE_CAPACITY - 1) / SAMBA_TILE_CAPACITY, most = 4 * threads * groups;
    if (s->line.outer * groups >= 4 * threads)
        return groups;
    return inner / s->machine->line.wide_inner < most ? inner / s->machine->line.wide_inner : most;
}

double samba_scan_share(const samba_line_state *s, int thread, int threads)
{
    const samba_line *line = &s->line;
    int64_t lines = line->outer * line->inner, mine = 0;
    if (line->size == 0 || lines == 0)
        return 0;
    if (in_pieces(s)) {
        int teams = threads < MOST_TEAMS ? threads : MOST_TEAMS;
        return thread < teams ? 1.0 / teams : 0;
    }
    if (!is_wide(s))
        return (double)(lines * (thread + 1) / threads - lines * thread / threads) / (double)lines;
    int64_t groups = groups_of(s, threads), parts = line->outer * groups;
    for (int64_t i = parts * thread / threads; i < parts * (thread + 1) / threads; i++)
        mine += line->inner * (i % groups + 1) / groups - line->inner * (i % groups) / groups;
    return (double)mine / (double)lines;
}

void samba_run_scan(const void *state, char *scratch, int phase, int thread, int threads)
{
    const samba_line_state *s = state;
    const samba_line *line = &s->line;
    if (line->size == 0 || line->inner == 0)
        return;
    if (in_pieces(s)) {
        scan_pieces(s, scratch, phase, thread, threads);
        return;
    }
    if (is_short(s)) {
        int64_t begin = line->outer * thread / threads, end = line->outer * (thread + 1) / threads;
        (s->dtype == SAMBA_FLOAT32 ? short_f32 : s->dtype == SAMBA_FLOAT64 ? short_f64 : short_i64)(s, begin, end);
        return;
    }
    scratch += s->shared_scratch + thread * s->thread_scratch;
    if (in_lanes(s)) {
        samba_scan_lanes(s, scratch, thread, threads);
        return;
    }
    if (is_wide(s)) {
        int64_t groups = groups_of(s, threads), parts = line->outer * groups;
        for (int64_t i = parts * thread / threads, end = parts * (thread + 1) / threads; i < end; i++) {
            int64_t first = line->inner * (i % groups) / groups, last = line->inner * (i % groups + 1) / groups;
            scan_columns(s, i / groups * line->inner * line->size + first, last - first);
        }
        return;
    }
    int64_t lines = line->outer * line->inner;
    for (int64_t i = lines * thread / threads, end = lines * (thread + 1) / threads; i < end; i += TOGETHER) {
        int64_t starts[TOGETHER], count = end - i < TOGETHER ? end - i : TOGETHER;
        running r[TOGETHER];
        for (int64_t j = 0; j < TOGETHER; j++)
            r[j] = at_start(s);
        for (int64_t j = 0; j < count; j++)
            starts[j] = line_start(line, i + j);
        if (line->function == SAMBA_LINE_CUMPROD_GRAD)
            for (int64_t j = 0; j < count; j++)
                product_gradient(s, starts[j], (double *)(void *)scratch);
        else
            scan_range(s, r, starts, count, 0, line->size);
    }
}
