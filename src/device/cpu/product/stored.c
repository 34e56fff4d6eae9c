/* SPDX-License-Identifier: Apache-2.0
 *
 * A linear stage: y = x W with weights as they are kept, in float32, bfloat16, rows of int8 or groups of 4 bits. Nothing of them
 * is kept in another form.
 *
 * Few rows of x: each thread has one part of W and reads it once, from its beginning to its end (stored_rows.c). Where W is
 * (k, n) that is a part of k, and what the parts give is added up in a second phase. There are as many with any number of
 * threads, and of rows of x, so that sums are the same. More rows: a unit is so many columns of y as a block of registers takes;
 * of these it widens W, some k at a time, into scratch that stays in the nearest caches, for all rows of x. These are packed
 * before, by all threads. Threads take units as they come free: a core that is slower holds nobody up. Those that are too few for
 * another turn of all threads are taken in parts, each some rows of x. Sums so far lie together in scratch, and go to y, whose
 * rows are far apart, once; what of W comes next is asked for while products compute. */
#include "device/cpu/product/stored.h"
#include "device/cpu/machine.h"
#include "device/cpu/product/blocks.h"
#include "device/cpu/product/pack.h"

#include <string.h>

enum {
    COUNTER_BYTES = 64, /* of the units of many rows, which threads take as they come free: a cache line of its own */
    APART = 16,         /* floats more between widened rows, so that they share no sets of the nearest cache */
    BEYOND = 16         /* floats that packing strips may write behind them */
};

typedef struct linear_state {
    samba_linear_stage l;
    const samba_kernels *kernels;
    const float *x;
    const char *weights, *scales;
    float *y;
    bool many;
    int64_t parts;               /* of k, of few rows where W is (k, n): their sums lie one after the other; 1: y has them */
    int64_t depth;               /* of many: k of a step, whole groups */
    bool together;               /* of many: sums lie in scratch until they are whole */
    int64_t width, strips, line; /* of many: columns of a unit, strips of a part of x. Of few: columns of y dealt together */
    int64_t row_parts, whole;    /* of many: parts of x; lines before those that are taken in parts */
    int64_t x_at, room_at, row_at, sum_at, own; /* bytes of scratch: of all; of a thread, rows, sums; a thread's */
    double all;                                 /* ns of all units */
} linear_state;

static int64_t lines_of(const linear_state *s) { return (s->l.n + s->line - 1) / s->line; }
static int64_t share(int64_t count, int64_t i, int64_t of) { return i * count / of; }

/* Bytes of a row of weights, and of its scales. */
static int64_t row_bytes(const linear_state *s)
{
    static const int eighths[SAMBA_LINEAR_FORM_COUNT] = {32, 16, 8, 4};
    return (s->l.transposed ? s->l.n : s->l.k) * eighths[s->l.form] / 8;
}

static const char *scales_at(const linear_state *s, int64_t row)
{
    const int64_t size = s->l.form == SAMBA_LINEAR_INT4 ? s->l.k / SAMBA_STORED_GROUP * 2 : 4;
    return s->scales ? s->scales + row * size : NULL;
}

/* ---- few rows ---- */

/* Columns [from, until) of y. */
static void run_few(const linear_state *s, char *own, int64_t from, int64_t until)
{
    const samba_stored *stored = s->kernels->stored;
    const samba_linear_stage *l = &s->l;
    samba_stored_rows some = {
        .x = s->x, .x_ld = l->k, .m = l->m, .count = until - from, .k = l->k, .y = s->y + from, .y_ld = l->n};
    if (l->form == SAMBA_LINEAR_INT4) {
        float *x = (float *)(void *)(own + s->x_at);
        some.x = x;
        some.x_ld = stored->arranged(l->k);
        for (int64_t i = 0; i < l->m; i++)
            stored->arrange(s->x + i * l->k, l->k, x + i * some.x_ld);
    }
    some.rows = s->weights + from * row_bytes(s);
    some.scales = scales_at(s, from);
    some.ld = l->form == SAMBA_LINEAR_INT4 ? l->k / 2 : l->k;
    stored->dots[l->form](&some);
}

/* Of one part of k what it adds to columns [from, until). */
static void run_part(const linear_state *s, float *sums, int64_t part, int64_t from, int64_t until)
{
    const samba_linear_stage *l = &s->l;
    const int64_t first = share(l->k, part, s->parts), k = share(l->k, part + 1, s->parts) - first;
    float *y = s->parts > 1 ? sums + part * l->m * l->n : s->y;
    const samba_stored_rows some = {.x = s->x + first,
                                    .x_ld = l->k,
                                    .m = l->m,
                                    .rows = s->weights + first * row_bytes(s) + from * (row_bytes(s) / l->n),
                                    .ld = l->n,
                                    .count = until - from,
                                    .k = k,
                                    .y = y + from,
                                    .y_ld = l->n};
    s->kernels->stored->sums[l->form](&some);
}

/* Units [from, end), each some columns of a part. */
static void run_parts(const linear_state *s, float *sums, int64_t from, int64_t end)
{
    const int64_t lines = lines_of(s);
    while (from < end) {
        const int64_t part = from / lines, until = at_most(end, (part + 1) * lines);
        run_part(s, sums, part, (from - part * lines) * s->line, at_most((until - part * lines) * s->line, s->l.n));
        from = until;
    }
}

static void add_parts(const linear_state *s, const float *sums, int64_t from, int64_t until)
{
    const int64_t all = s->l.m * s->l.n;
    for (int64_t i = 0; i < s->l.m; i++) {
        float *y = s->y + i * s->l.n;
        for (int64_t part = 0; part < s->parts; part++) {
            const float *some = sums + part * all + i * s->l.n;
            for (int64_t j = from; j < until; j++)
                y[j] = part == 0 ? some[j] : y[j] + some[j];
        }
    }
}

/* ---- many rows ---- */

/* From strip to strip of a step: packing may write a little beyond one, and the next may be another thread's. */
static int64_t packed_strip(const linear_state *s) { return s->depth * s->kernels->blocks->dense_rows + BEYOND; }
static int64_t strip_at(const linear_state *s, int64_t step, int64_t part)
{
    return (step * s->row_parts + part) * s->strips * packed_strip(s);
}
static int64_t part_row(const linear_state *s, int64_t part) { return share(s->l.m, part, s->row_parts); }
static int64_t tickets_of(const linear_state *s) { return s->whole + (lines_of(s) - s->whole) * s->row_parts; }
static int64_t line_of(const linear_state *s, int64_t ticket)
{
    return ticket < s->whole ? ticket : s->whole + (ticket - s->whole) / s->row_parts;
}

/* Threads that would have nothing to do beside the last lines take parts of these. */
static void part_rows(linear_state *s, int threads)
{
    enum { LEAST = 64 /* rows for which a panel of W is packed anew */ };
    const int64_t rest = lines_of(s) % threads;
    s->row_parts = rest > 0 ? at_most(threads / rest, s->l.m / LEAST) : 1;
    s->row_parts = s->row_parts > 1 ? s->row_parts : 1;
    s->whole = s->row_parts > 1 ? lines_of(s) - rest : lines_of(s);
    s->strips = samba_dense_strips(divide_up(s->l.m, s->row_parts), s->kernels->blocks->dense_rows);
}

static int64_t steps_of(const linear_state *s) { return divide_up(s->l.k, s->depth); }
static int64_t pitch_of(const linear_state *s) { return s->depth + APART; }
/* So that a panel and the rows that it is turned from take their share of the second cache; steps are alike. */
static int64_t depth_of(const linear_state *s, const samba_cpu_machine *machine)
{
    const int64_t most = at_most(machine->stored.step, machine->stored.panel / (2 * 4 * s->width));
    const int64_t steps = divide_up(s->l.k, most < SAMBA_STORED_GROUP ? SAMBA_STORED_GROUP : most);
    return round_up(divide_up(s->l.k, steps), SAMBA_STORED_GROUP);
}

/* Strip by strip of each part, step after step: [step][part][strip][k of the step][row]. A part may have fewer than others. */
static void pack_x(const linear_state *s, float *to, int64_t strip, int64_t end)
{
    for (; strip < end; strip++) {
        const int64_t part = strip / s->strips, at = strip % s->strips, first = part_row(s, part);
        const int64_t all = part_row(s, part + 1) - first, strips = samba_dense_strips(all, s->kernels->blocks->dense_rows);
        if (at >= strips)
            continue;
        const int64_t row = first + samba_dense_strip_row(all, strips, at),
                      rows = first + samba_dense_strip_row(all, strips, at + 1) - row;
        for (int64_t step = 0; step < steps_of(s); step++) {
            const int64_t from = step * s->depth, depth = at_most(s->depth, s->l.k - from);
            s->kernels->blocks->pack_strips(s->x + row * s->l.k + from, s->l.k, 1, rows, depth,
                                            to + strip_at(s, step, part) + at * packed_strip(s));
        }
    }
}

/* Columns of W, `depth` of k from `first` on, as dense.h reads them. */
static void pack_columns(const linear_state *s, int64_t column, int64_t columns, int64_t first, int64_t depth, float *rows,
                         float *panel)
{
    const samba_stored *stored = s->kernels->stored;
    const samba_linear_stage *l = &s->l;
    const float *w = (const float *)(const void *)s->weights;
    if (l->form == SAMBA_LINEAR_FLOAT32 && l->transposed) {
        s->kernels->blocks->pack_panels(w + first * l->n + column, l->n, depth, columns, panel);
        return;
    }
    if (columns < s->width)
        memset(panel, 0, (size_t)(depth * s->width) * sizeof(float));
    if (l->transposed) {
        for (int64_t i = 0; i < depth; i++)
            stored->widen[l->form](s->weights + (first + i) * row_bytes(s), NULL, column, columns, panel + i * s->width);
        return;
    }
    if (l->form == SAMBA_LINEAR_FLOAT32) { /* as wide as it is */
        s->kernels->transpose4(panel, s->width, w + column * l->k + first, l->k, columns, depth);
        return;
    }
    for (int64_t j = 0; j < columns; j++)
        stored->widen[l->form](s->weights + (column + j) * row_bytes(s), scales_at(s, column + j), first, depth,
                               rows + j * pitch_of(s));
    s->kernels->transpose4(panel, s->width, rows, pitch_of(s), columns, depth);
}

/* The part of W that is packed behind this one: of the next step, or of the first one of the unit that the thread takes next if
 * all are as fast as each other. */
static void fetch_next(const linear_state *s, samba_fetch *fetch, int64_t ticket, int64_t first, int threads)
{
    const samba_linear_stage *l = &s->l;
    const int64_t bytes = row_bytes(s), next = first + s->depth < l->k ? first + s->depth : 0;
    const int64_t to = line_of(s, next ? ticket : ticket + threads);
    const int64_t column = to * s->width, columns = at_most(s->width, l->n - column), depth = at_most(s->depth, l->k - next);
    if (to >= lines_of(s))
        return;
    if (l->transposed)
        samba_fetch_rows(fetch, s->weights + next * bytes + column * bytes / l->n, columns * bytes / l->n, depth, bytes);
    else
        samba_fetch_rows(fetch, s->weights + column * bytes + next * bytes / l->k, depth * bytes / l->k, columns, bytes);
}

/* One step of one part of x with a panel of W. */
static void multiply_part(const linear_state *s, const float *x, const float *panel, float *sums, int64_t part, int64_t column,
                          int64_t first, samba_fetch *fetch)
{
    const samba_linear_stage *l = &s->l;
    const int64_t depth = at_most(s->depth, l->k - first), row = part_row(s, part);
    const bool last = first + depth == l->k, kept = s->together && !last;
    float *y = s->y + row * l->n + column;
    sums += row * s->width;
    const samba_dense block = {.rows = part_row(s, part + 1) - row,
                               .cols = at_most(s->width, l->n - column),
                               .k = depth,
                               .strips = true,
                               .a = x + strip_at(s, first / s->depth, part),
                               .lda = packed_strip(s),
                               .b = panel,
                               .ldb = s->width,
                               .from = first == 0    ? NULL
                                       : s->together ? sums
                                                     : y,
                               .from_ld = s->together ? s->width : l->n,
                               .c = kept ? sums : y,
                               .ldc = kept ? s->width : l->n};
    s->kernels->blocks->dense(&block, fetch);
}

static void run_many(const linear_state *s, const float *x, char *own, int64_t ticket, int threads)
{
    float *panel = (float *)(void *)(own + s->room_at), *rows = (float *)(void *)(own + s->row_at),
          *sums = (float *)(void *)(own + s->sum_at);
    const bool whole = ticket < s->whole;
    const int64_t column = line_of(s, ticket) * s->width, columns = at_most(s->width, s->l.n - column);
    const int64_t from = whole ? 0 : (ticket - s->whole) % s->row_parts, end = whole ? s->row_parts : from + 1;
    for (int64_t first = 0; first < s->l.k; first += s->depth) {
        samba_fetch fetch = {0};
        pack_columns(s, column, columns, first, at_most(s->depth, s->l.k - first), rows, panel);
        fetch_next(s, &fetch, ticket, first, threads);
        for (int64_t part = from; part < end; part++)
            multiply_part(s, x, panel, sums, part, column, first, &fetch);
    }
}

/* ---- the stage ---- */

static int64_t units_of(const linear_state *s, int phase)
{
    if (s->many)
        return phase == 1 ? tickets_of(s) : s->strips * s->row_parts;
    return phase == 1 ? lines_of(s) : lines_of(s) * s->parts;
}

static void run(const void *state, char *scratch, int phase, int thread, int threads)
{
    const linear_state *s = state;
    const int64_t shared = s->many ? COUNTER_BYTES + s->x_at : 0;
    const int64_t from = share(units_of(s, phase), thread, threads), end = share(units_of(s, phase), thread + 1, threads);
    char *own = scratch + shared + thread * s->own;
    float *all = (float *)(void *)(scratch + (s->many ? COUNTER_BYTES : 0));
    int64_t *next = (int64_t *)(void *)scratch;
    if (s->many && phase == 0) {
        if (thread == 0)
            __atomic_store_n(next, 0, __ATOMIC_RELAXED);
        pack_x(s, all, from, end);
    } else if (s->many)
        for (int64_t unit; (unit = __atomic_fetch_add(next, 1, __ATOMIC_RELAXED)) < tickets_of(s);)
            run_many(s, all, own, unit, threads);
    else if (phase == 1)
        add_parts(s, all, from * s->line, at_most(end * s->line, s->l.n));
    else if (s->l.transposed)
        run_parts(s, all, from, end);
    else if (from < end)
        run_few(s, own, from * s->line, at_most(end * s->line, s->l.n));
}

static int64_t linear_units(const void *state, int phase, int threads, bool *free)
{
    const linear_state *s = state;
    *free = s->many && phase == 1 && threads > 1;
    return units_of(s, phase);
}

static double linear_work(const void *state, int phase, int threads, int64_t unit)
{
    const linear_state *s = state;
    (void)threads;
    if (s->many && phase == 0)
        return (double)(s->l.m * s->l.k) / (double)units_of(s, phase); /* about a ns an element */
    if (!s->many && phase == 1)
        return (double)(s->l.m * s->parts * s->line) / 8; /* some elements a ns */
    if (!s->many)
        return s->all / (double)units_of(s, phase);
    return s->all / (double)lines_of(s) / (double)(unit < s->whole ? 1 : s->row_parts);
}

static const samba_dealing linear_dealing = {linear_units, linear_work, NULL, NULL};

static void run_nothing(const void *state, char *scratch, int phase, int thread, int threads)
{
    const linear_state *s = state;
    (void)scratch, (void)phase, (void)threads;
    if (thread == 0 && s->l.m * s->l.n > 0) /* sums of nothing */
        memset(s->y, 0, (size_t)(s->l.m * s->l.n) * sizeof(float));
}

samba_status samba_prepare_linear(const samba_preparing *prepare, const samba_stage *stage, samba_prepared *prepared)
{
    linear_state *s = samba_arena_alloc(prepare->arena, sizeof *s);
    if (!s)
        return SAMBA_ERROR_MEMORY;
    const samba_kernels *kernels = prepare->machine->kernels;
    const samba_linear_stage *l = &stage->linear;
    *s = (linear_state){.l = *l, .kernels = kernels, .width = kernels->blocks->dense_cols, .line = 1, .parts = 1};
    s->many = l->m > prepare->machine->stored.few_rows;
    s->x = (const float *)(const void *)samba_operand_memory(prepare, &stage->operands[0]);
    s->weights = samba_operand_memory(prepare, &stage->operands[1]);
    s->scales = stage->operand_count == 4 ? samba_operand_memory(prepare, &stage->operands[2]) : NULL;
    s->y = (float *)(void *)samba_operand_memory(prepare, &stage->operands[stage->operand_count - 1]);
    *prepared = (samba_prepared){.run = run_nothing, .state = s, .phases = 1, .dealing = &linear_dealing};
    if (l->m == 0 || l->n == 0 || l->k == 0)
        return SAMBA_OK;
    const double bytes = (double)row_bytes(s) * (double)(l->transposed ? l->k : l->n) / prepare->machine->share.memory * 1e9,
                 flops = (double)stage->flops / prepare->machine->share.contract * 1e9;
    s->all = bytes > flops ? bytes : flops;
    s->line = s->many ? s->width : l->n < 16 * prepare->threads ? 1 : 16;
    prepared->run = run;
    if (s->many) {
        s->depth = depth_of(s, prepare->machine);
        part_rows(s, prepare->threads);
        s->x_at = round_up(strip_at(s, steps_of(s), 0) * 4, 64);
        s->row_at = round_up(s->width * at_most(s->depth, l->k) * 4, 64);
        const bool turns = !l->transposed && l->form != SAMBA_LINEAR_FLOAT32; /* rows that are widened before they are turned */
        s->sum_at = s->row_at + (turns ? round_up(s->width * pitch_of(s) * 4, 64) : 0);
        s->together = steps_of(s) > 1 && l->m * s->width * 4 <= prepare->machine->stored.sums;
        s->own = s->sum_at + (s->together ? round_up(l->m * s->width * 4, 64) : 0);
        prepared->phases = 2;
        prepared->shared_scratch = COUNTER_BYTES + s->x_at;
        prepared->thread_scratch = s->own;
        return SAMBA_OK;
    }
    if (l->form == SAMBA_LINEAR_INT4)
        s->row_at = round_up(l->m * kernels->stored->arranged(l->k) * 4, 64);
    if (l->transposed) {
        s->parts = at_most(prepare->machine->stored.parts, l->k);
        prepared->phases = s->parts > 1 ? 2 : 1;
        prepared->shared_scratch = s->parts > 1 ? round_up(s->parts * l->m * l->n * 4, 64) : 0;
    }
    prepared->thread_scratch = s->own = s->row_at;
    return SAMBA_OK;
}
