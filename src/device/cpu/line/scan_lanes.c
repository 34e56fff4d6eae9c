/* SPDX-License-Identifier: Apache-2.0
 *
 * Scans of many lines as vectors: an element of each of many lines side by side, a step of all of them at a time. Lines of
 * a dim before the last lie so in memory; lines of the last dim are transposed on the way, some of their elements at once. Each
 * line runs as it does alone (scan.c), in the same order and the same precision. */
#include "device/cpu/line/line.h"
#include <math.h>
#include <string.h>

enum {
    LANES = 512,
    BLOCK = 2048,
    FEW = 64,
    LEAST = 8
}; /* most lines at once, elements at once, lines of long ones, least lines */

typedef struct lanes {           /* lines at work */
    int64_t start, pitch, count; /* element of the first, from one to the next, how many */
} lanes;

typedef union block { /* a row of lanes for each element of the lines */
    float f32[BLOCK];
    double f64[BLOCK];
    int64_t i64[BLOCK];
} block;

typedef struct state {
    double sums[LANES];
    union {
        float f32[LANES];
        double f64[LANES];
        int64_t i64[LANES];
    } best;
    int64_t wraps[LANES], at[LANES];
} state;

static int width_of(samba_register_class class_) { return class_ == SAMBA_F32 ? 4 : 8; }

static bool is_native(samba_dtype dtype) { return dtype == SAMBA_FLOAT32 || dtype == SAMBA_FLOAT64 || dtype == SAMBA_INT64; }

/* ---- blocks ---- */
static void read_block(const samba_line_state *s, const char *memory, const lanes *l, int64_t first, int64_t columns, block *to)
{
    const samba_kernels *k = s->kernels;
    int64_t size = (int64_t)samba_dtype_size(s->dtype), step = s->line.inner;
    int width = width_of(samba_class_of(s->dtype));
    if (step == 1 && is_native(s->dtype)) {
        (size == 4 ? k->transpose4 : k->transpose8)(to, l->count, memory + (l->start + first) * size, l->pitch, l->count,
                                                    columns);
        return;
    }
    for (int64_t c = 0; c < columns; c++) {
        const char *from = memory + (l->start + (first + c) * step) * size;
        char *d = (char *)to + c * l->count * width;
        if (l->pitch == 1)
            k->load[s->dtype](d, from, l->count);
        else
            k->load_strided[s->dtype](d, from, l->pitch, l->count);
    }
}

static void write_block(const samba_line_state *s, char *memory, samba_dtype dtype, const lanes *l, int64_t first,
                        int64_t columns, const block *from)
{
    const samba_kernels *k = s->kernels;
    int64_t size = (int64_t)samba_dtype_size(dtype), step = s->line.inner;
    int width = width_of(samba_class_of(dtype));
    if (step == 1 && is_native(dtype)) {
        (size == 4 ? k->transpose4 : k->transpose8)(memory + (l->start + first) * size, l->pitch, from, l->count, columns,
                                                    l->count);
        return;
    }
    for (int64_t c = 0; c < columns; c++) {
        char *to = memory + (l->start + (first + c) * step) * size;
        const char *a = (const char *)from + c * l->count * width;
        if (l->pitch == 1)
            k->store[dtype](to, a, l->count);
        else
            k->store_strided[dtype](to, a, l->pitch, l->count);
    }
}

/* ---- a step of all lines ---- */
static void start(const samba_line_state *s, state *r)
{
    double first = s->line.function == SAMBA_LINE_CUMPROD ? 1 : s->line.function == SAMBA_LINE_LOGCUMSUMEXP ? -INFINITY : 0;
    for (int i = 0; i < LANES; i++) {
        r->sums[i] = first;
        r->wraps[i] = first == 1;
        r->at[i] = -1;
    }
}

static void add_logarithms(const samba_kernels *k, double *sums, const double *row, int64_t n)
{
    double high[LANES], low[LANES];
    k->map[SAMBA_TILE_maximum][SAMBA_F64](high, sums, row, NULL, n);
    k->map[SAMBA_TILE_minimum][SAMBA_F64](low, sums, row, NULL, n);
    k->map[SAMBA_TILE_sub][SAMBA_F64](low, low, high, NULL, n);
    k->map[SAMBA_TILE_exp][SAMBA_F64](low, low, NULL, NULL, n);
    k->map[SAMBA_TILE_log1p][SAMBA_F64](low, low, NULL, NULL, n);
    for (int64_t i = 0; i < n; i++)
        sums[i] = isinf(high[i]) ? high[i] : high[i] + low[i];
}

/* Sums and products in double, or wrapping in 64 bits; the row becomes them. */
static void run_row(const samba_line_state *s, state *r, void *row, int64_t n)
{
    const samba_kernels *k = s->kernels;
    samba_register_class class_ = samba_class_of(s->dtype), wide = class_ == SAMBA_I64 ? SAMBA_I64 : SAMBA_F64;
    double widened[LANES];
    void *sums = wide == SAMBA_I64 ? (void *)r->wraps : r->sums, *x = row;
    if (class_ == SAMBA_F32)
        k->convert[SAMBA_F32][SAMBA_F64](x = widened, row, NULL, NULL, n);
    if (s->line.function == SAMBA_LINE_LOGCUMSUMEXP)
        add_logarithms(k, r->sums, x, n);
    else
        k->map[s->line.function == SAMBA_LINE_CUMPROD ? SAMBA_TILE_mul : SAMBA_TILE_add][wide](sums, sums, x, NULL, n);
    if (class_ == SAMBA_F32)
        k->convert[SAMBA_F64][SAMBA_F32](row, sums, NULL, NULL, n);
    else
        memcpy(row, sums, (size_t)n * 8);
}

static void scan(const samba_line_state *s, const lanes *l)
{
    const samba_line *line = &s->line;
    samba_register_class class_ = samba_class_of(s->dtype);
    bool extreme = line->function == SAMBA_LINE_CUMMAX || line->function == SAMBA_LINE_CUMMIN;
    bool greatest = line->function == SAMBA_LINE_CUMMAX;
    block values, indices;
    state r;
    int64_t most = BLOCK / l->count;
    start(s, &r);
    for (int64_t done = 0, n; done < line->size; done += n) {
        n = line->size - done < most ? line->size - done : most;
        int64_t first = line->backwards ? line->size - done - n : done;
        read_block(s, s->x, l, first, n, &values);
        for (int64_t i = 0; i < n; i++) {
            int64_t c = line->backwards ? n - 1 - i : i;
            char *row = (char *)&values + c * l->count * width_of(class_);
            if (extreme)
                s->kernels->running_extremes[class_](&r.best, r.at, row, indices.i64 + c * l->count, first + c, l->count,
                                                     greatest);
            else
                run_row(s, &r, row, l->count);
        }
        if (s->values)
            write_block(s, s->values, s->dtype, l, first, n, &values);
        if (extreme && s->indices)
            write_block(s, (char *)s->indices, SAMBA_INT64, l, first, n, &indices);
    }
}

/* ---- the gradient of products: product_gradient of scan.c, of all lines ---- */
static void widen(const samba_line_state *s, block *x, int64_t n)
{
    if (samba_class_of(s->dtype) != SAMBA_F32)
        return;
    block narrow;
    memcpy(narrow.f32, x->f32, (size_t)n * sizeof(float));
    s->kernels->convert[SAMBA_F32][SAMBA_F64](x->f64, narrow.f32, NULL, NULL, n);
}

static void gradient(const samba_line_state *s, const lanes *l, double *rest)
{
    const samba_line *line = &s->line;
    double r[LANES] = {0}, after[LANES] = {0}, product[LANES];
    block x, dy;
    int64_t most = BLOCK / l->count;
    for (int i = 0; i < LANES; i++)
        product[i] = 1;
    for (int pass = 0; pass < 2; pass++) {
        bool from_end = (pass == 0) != (line->backwards != 0);
        for (int64_t done = 0, n; done < line->size; done += n) {
            n = line->size - done < most ? line->size - done : most;
            int64_t first = from_end ? line->size - done - n : done;
            read_block(s, s->x, l, first, n, &x);
            widen(s, &x, n * l->count);
            if (pass == 0) {
                read_block(s, s->dy, l, first, n, &dy);
                widen(s, &dy, n * l->count);
            }
            for (int64_t i = 0; i < n; i++) {
                int64_t c = from_end ? n - 1 - i : i;
                double *row = x.f64 + c * l->count, *kept = rest + (first + c) * l->count;
                const double *given = dy.f64 + c * l->count;
                for (int64_t j = 0; j < l->count && pass == 0; j++) {
                    kept[j] = r[j] = given[j] + (done + i > 0 ? after[j] * r[j] : 0);
                    after[j] = row[j];
                }
                for (int64_t j = 0; j < l->count && pass == 1; j++) {
                    double before = product[j];
                    product[j] *= row[j];
                    row[j] = before * kept[j];
                }
            }
            if (pass == 0)
                continue;
            if (samba_class_of(s->dtype) == SAMBA_F32) {
                memcpy(dy.f64, x.f64, (size_t)(n * l->count) * sizeof(double));
                s->kernels->convert[SAMBA_F64][SAMBA_F32](x.f32, dy.f64, NULL, NULL, n * l->count);
            }
            write_block(s, s->values, s->dtype, l, first, n, &x);
        }
    }
}

/* ---- which ---- */
/* Lines side by side: of the inner dim where it has enough, else of the outer one. */
static bool takes_inner(const samba_line *line) { return line->inner >= LEAST; }

bool samba_scan_takes_lanes(const samba_line_state *s)
{
    const samba_line *line = &s->line;
    return (takes_inner(line) || line->outer >= LEAST) &&
           (line->function != SAMBA_LINE_CUMPROD_GRAD || line->size <= s->machine->line.most_lanes_rest);
}

/* Of short lines as many as a block holds whole. */
static int64_t lanes_of(const samba_line *line)
{
    int64_t whole = BLOCK / line->size;
    return whole < FEW ? FEW : whole > LANES ? LANES : whole;
}

int64_t samba_scan_lanes_scratch(const samba_line_state *s)
{
    const samba_line *line = &s->line;
    bool keeps = line->function == SAMBA_LINE_CUMPROD_GRAD && line->size > 0;
    return keeps ? line->size * lanes_of(line) * (int64_t)sizeof(double) : 0;
}

void samba_scan_lanes(const samba_line_state *s, char *scratch, int thread, int threads)
{
    const samba_line *line = &s->line;
    bool inner = takes_inner(line);
    int64_t many = inner ? line->inner : line->outer, others = inner ? line->outer : line->inner;
    int64_t groups = (many + lanes_of(line) - 1) / lanes_of(line), all = groups * others;
    for (int64_t i = all * thread / threads, end = all * (thread + 1) / threads; i < end; i++) {
        int64_t other = i / groups, group = i % groups, begin = many * group / groups;
        lanes l = {.count = many * (group + 1) / groups - begin, .pitch = inner ? 1 : line->size * line->inner};
        l.start = (inner ? other * line->size * line->inner : other) + begin * l.pitch;
        if (line->function == SAMBA_LINE_CUMPROD_GRAD)
            gradient(s, &l, (double *)(void *)scratch);
        else
            scan(s, &l);
    }
}
