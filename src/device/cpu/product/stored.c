/* SPDX-License-Identifier: Apache-2.0
 *
 * A linear stage: y = x W with weights as they are kept, in float32, bfloat16, rows of int8 or groups of 4 bits. Nothing of them
 * is kept in another form.
 *
 * Few rows of x: each thread has one part of W and reads it once, from its beginning to its end (stored_rows.c). More rows: a
 * unit is so many columns of y as a block of registers takes; of these it widens W, some k at a time, into scratch that stays in
 * the nearest caches, for all rows of x. These are packed before, by all threads. */
#include "device/cpu/product/stored.h"
#include "device/cpu/machine.h"
#include "device/cpu/product/blocks.h"
#include "device/cpu/product/pack.h"

#include <string.h>

enum {
    FEW = 12,    /* rows of x: more are worth widening W in memory */
    DEPTH = 512, /* k of a step, of many rows: columns of a block by this are half of the second cache at most; whole groups */
    PITCH = DEPTH + 16, /* of widened rows, so that they share no sets of the nearest cache */
    BEYOND = 16         /* floats that packing strips may write behind them */
};

typedef struct linear_state {
    samba_linear_stage l;
    const samba_kernels *kernels;
    const float *x;
    const char *weights, *scales;
    float *y;
    bool many;
    int64_t width, strips, line; /* of many: columns of a unit, strips of x. Of few: columns of y that are dealt together */
    int64_t x_at, room_at, row_at;
    double all; /* ns of all units */
} linear_state;

static int64_t units_of(const linear_state *s) { return (s->l.n + s->line - 1) / s->line; }

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
    some.room = (float *)(void *)(own + s->room_at);
    if (l->transposed) {
        some.rows = s->weights + from * (row_bytes(s) / l->n);
        some.ld = l->n;
        stored->sums[l->form](&some);
        return;
    }
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

/* ---- many rows ---- */

static int64_t packed_strip(const linear_state *s, int64_t depth) { return depth * s->kernels->blocks->dense_rows; }
/* Where a step's strips begin: a step is packed by one thread, which may write a little beyond its end. */
static int64_t step_at(const linear_state *s, int64_t step) { return step * (s->strips * packed_strip(s, DEPTH) + BEYOND); }

/* Strip by strip, step after step: [step][strip][k of the step][row]. */
static void pack_x(const linear_state *s, float *to, int64_t first_step, int64_t end_step)
{
    for (int64_t step = first_step; step < end_step; step++) {
        const int64_t from = step * DEPTH, depth = at_most(DEPTH, s->l.k - from);
        s->kernels->blocks->pack_strips(s->x + from, s->l.k, 1, s->l.m, depth, to + step_at(s, step));
    }
}

/* Columns of W, `depth` of k from `first` on, as dense.h reads them. */
static void pack_columns(const linear_state *s, int64_t column, int64_t columns, int64_t first, int64_t depth, float *rows,
                         float *panel)
{
    const samba_stored *stored = s->kernels->stored;
    const samba_linear_stage *l = &s->l;
    if (columns < s->width)
        memset(panel, 0, (size_t)(depth * s->width) * sizeof(float));
    if (l->transposed) {
        for (int64_t i = 0; i < depth; i++)
            stored->widen[l->form](s->weights + (first + i) * row_bytes(s), NULL, column, columns, panel + i * s->width);
        return;
    }
    for (int64_t j = 0; j < columns; j++)
        stored->widen[l->form](s->weights + (column + j) * row_bytes(s), scales_at(s, column + j), first, depth,
                               rows + j * PITCH);
    s->kernels->transpose4(panel, s->width, rows, PITCH, columns, depth);
}

static void run_many(const linear_state *s, const float *x, char *own, int64_t unit)
{
    const samba_linear_stage *l = &s->l;
    float *panel = (float *)(void *)(own + s->room_at), *rows = (float *)(void *)(own + s->row_at);
    const int64_t column = unit * s->width, columns = at_most(s->width, l->n - column);
    for (int64_t first = 0; first < l->k; first += DEPTH) {
        const int64_t depth = at_most(DEPTH, l->k - first);
        samba_fetch fetch = {0};
        pack_columns(s, column, columns, first, depth, rows, panel);
        const samba_dense block = {.rows = l->m,
                                   .cols = columns,
                                   .k = depth,
                                   .strips = true,
                                   .a = x + step_at(s, first / DEPTH),
                                   .lda = packed_strip(s, depth),
                                   .b = panel,
                                   .ldb = s->width,
                                   .from = first > 0 ? s->y + column : NULL,
                                   .from_ld = l->n,
                                   .c = s->y + column,
                                   .ldc = l->n};
        s->kernels->blocks->dense(&block, &fetch);
    }
}

/* ---- the stage ---- */

static int64_t share(int64_t count, int thread, int threads) { return thread * count / threads; }

static void run(const void *state, char *scratch, int phase, int thread, int threads)
{
    const linear_state *s = state;
    const int64_t steps = (s->l.k + DEPTH - 1) / DEPTH, shared = s->many ? s->x_at : 0;
    char *own = scratch + shared + thread * (s->row_at + round_up(s->many ? s->width * PITCH * 4 : 0, 64));
    if (s->many && phase == 0) {
        pack_x(s, (float *)(void *)scratch, share(steps, thread, threads), share(steps, thread + 1, threads));
        return;
    }
    const int64_t from = share(units_of(s), thread, threads), end = share(units_of(s), thread + 1, threads);
    if (s->many) {
        for (int64_t unit = from; unit < end; unit++)
            run_many(s, (const float *)(const void *)scratch, own, unit);
    } else if (from < end) {
        run_few(s, own, from * s->line, at_most(end * s->line, s->l.n));
    }
}

static int64_t linear_units(const void *state, int phase, int threads, bool *free)
{
    const linear_state *s = state;
    *free = false;
    return s->many && phase == 0 ? threads : units_of(s);
}

static double linear_work(const void *state, int phase, int threads, int64_t unit)
{
    const linear_state *s = state;
    (void)unit;
    const double x = (double)(s->l.m * s->l.k) / threads; /* about a ns an element */
    return s->many && phase == 0 ? x : s->all / (double)units_of(s);
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
    *s = (linear_state){.l = *l, .kernels = kernels, .many = l->m > FEW, .width = kernels->blocks->dense_cols, .line = 1};
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
        s->strips = samba_dense_strips(l->m, kernels->blocks->dense_rows);
        s->x_at = round_up(step_at(s, (l->k + DEPTH - 1) / DEPTH) * 4, 64);
        s->row_at = round_up(s->width * at_most(DEPTH, l->k) * 4, 64);
        prepared->phases = 2;
        prepared->shared_scratch = s->x_at;
        prepared->thread_scratch = s->row_at + round_up(s->width * PITCH * 4, 64);
        return SAMBA_OK;
    }
    if (l->form == SAMBA_LINEAR_INT4) {
        s->room_at = round_up(l->m * kernels->stored->arranged(l->k) * 4, 64);
        s->row_at = s->room_at + round_up(kernels->stored->room_of(l->k) * 4, 64);
    }
    prepared->thread_scratch = s->row_at;
    return SAMBA_OK;
}
