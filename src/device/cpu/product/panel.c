/* SPDX-License-Identifier: Apache-2.0
 *
 * The road of large products, by panels: C[m,n] = sum over k of A[m,k] B[k,n], for each batch element.
 *
 *   packed B   [step of k][panel][k of the step][columns of a panel], as many as the registers take at once
 *   packed A   [step of k][block of rows][strip][k of the step][rows of a strip], as many as the registers take at once
 *   sums       [rows of a unit][columns of a unit], float
 *
 * One side is packed whole, by all threads, into shared scratch: the smaller one, or B where the epilogue needs whole rows of
 * many. A unit is a part of the other side, packed step by step into a thread's own scratch, times all of the shared side (or a
 * large range of it, to bound the sums).
 *
 * A is read in place where its k lies together and few columns would pay for packing it, or sharing it would take much memory.
 *
 * A constant side is packed at refresh, into memory that the stage keeps. Where it is the shared one, a run has nothing to pack
 * before it multiplies.
 *
 * In bfloat16 (both operands are, and the CPU multiplies pairs) two neighbouring k stand together, and packed elements are such
 * pairs: B is [k/2][columns][2], its last panel as narrow as what is left; an odd last k is padded with zero. A is packed as
 * [rows][k], or [k][rows] where rows are what lies together in memory. Sums are float all the same.
 *
 * Where A has few rows, B is as large as the work, and packing it into memory to share it costs as much as it saves; a large B
 * would be read from far away for each block of rows. Then A is shared, and each part of B is packed by who multiplies it. An
 * epilogue of whole rows then waits until all sums are there.
 *
 * The last step of k runs by small groups of blocks, and the epilogue takes each while it is hot.
 *
 * Threads take units as they come free, so that one held up by another program delays no one; what a unit computes does not
 * depend on who does. Only an epilogue that collects is dealt in fixed parts, as its partial results are the threads'. */
#include "device/cpu/product/blocks.h"
#include "device/cpu/product/micro_kernel.h"
#include "device/cpu/product/pairs.h"
#include "device/cpu/product/roads.h"
#include <limits.h>
#include <math.h>
#include <string.h>

typedef struct panels {
    samba_frame frame;
    const samba_kernels *kernels;
    void (*multiply)(const samba_dense *block, samba_fetch *fetch);
    bool half;     /* bfloat16 pairs */
    bool strips;   /* packed A is */
    bool rows_lie; /* packed A is [k][rows] */
    bool a_in_place;
    bool whole_rows;
    bool direct; /* sums end where the result belongs */
    bool apart;  /* sums of all units lie together in shared scratch, for an epilogue of whole rows in a phase of its own */
    int64_t batches, m, n, k, width;                    /* width: columns of a panel */
    bool share_a;                                       /* A is packed whole, B by units; else the other way */
    bool keep_a, keep_b;                                /* packed whole, at refresh */
    int64_t rows, row_blocks, step, steps, panel_count; /* of a block, the most; of all */
    int64_t unit_blocks, unit_panels, row_units, column_units, hot_panels, last_panels;
    int64_t own_panels, own_panels_few_rows; /* of a unit, at most, where B is its own */
    int64_t pack_panels, panel_packs;        /* panels of B that are packed together, and how many times */
    samba_source a, b;                       /* as samba_pack wants them; their axes are even */
    int64_t row_ld;                          /* of A as block kernels see it */
    int64_t a_block_bytes, a_step_bytes, b_step_bytes, shared_batch_bytes, kept_batch_bytes; /* packed, of full steps */
    int64_t all_sums_at, sums_at, own_pack_at, sums_ld; /* all_sums_at: in shared scratch; the next two: in a thread's own */
} panels;

enum { ELEMENT = 4 /* bytes: a float or a pair */ };

/* Elements of k as packed. */
static int64_t packed_depth(const panels *p, int64_t depth) { return p->half ? (depth + 1) / 2 : depth; }

static int64_t depth_of(const panels *p, int64_t step) { return at_most(p->step, p->k - step * p->step); }
/* Rows are dealt evenly, so that any run of blocks, a thread's share, is nearly as large as another of as many. */
static int64_t row_of(const panels *p, int64_t block) { return p->m * block / p->row_blocks; }
static int64_t rows_of(const panels *p, int64_t block) { return row_of(p, block + 1) - row_of(p, block); }
static int64_t width_of(const panels *p, int64_t panel) { return at_most(p->width, p->n - panel * p->width); }

/* Columns of a panel as packed: vectors may read beyond the last. */
static int64_t pitch_of(const panels *p, int64_t panel)
{
    return p->half ? round_up(width_of(p, panel), SAMBA_DENSE_ROUND) : p->width;
}

/* ---- packing ---- */

static const char *operand_at(const samba_source *source, int64_t offset, int64_t own, int64_t k)
{
    return source->memory + (offset + own * source->factor.own[0] + k * source->factor.inner[0]) * source->memory_size;
}

/* Places within a packed step. */
static int64_t panel_position(const panels *p, int64_t step, int64_t panel)
{
    return panel * p->width * packed_depth(p, depth_of(p, step)) * ELEMENT;
}
static int64_t block_position(const panels *p, int64_t block) { return block * p->a_block_bytes; }

static const char *panel_at(const panels *p, int64_t batch, int64_t step, int64_t panel)
{
    return operand_at(&p->b, samba_batch_offset(&p->frame.contract, &p->b.factor, batch), panel * p->width, step * p->step);
}

/* Some panels that stand side by side: where columns lie together in memory, rows are read once for all of them. */
static void pack_panels(const panels *p, char *to, int64_t batch, int64_t step, int64_t first, int64_t count)
{
    int64_t depth = depth_of(p, step), cols = at_most(count * p->width, p->n - first * p->width);
    const char *from = panel_at(p, batch, step, first);
    if (!p->half && p->b.native && p->b.factor.own[0] == 1) {
        p->kernels->blocks->pack_panels((const float *)from, p->b.factor.inner[0], depth, cols, (float *)to);
        return;
    }
    for (int64_t panel = first; panel < first + count; panel++, to += panel_position(p, step, 1)) {
        int64_t width = width_of(p, panel), pitch = pitch_of(p, panel);
        from = panel_at(p, batch, step, panel);
        if (p->half)
            samba_pack_pairs(p->kernels, (const uint16_t *)from, p->b.factor.inner[0], p->b.factor.own[0], depth, width,
                             (uint16_t *)to, pitch);
        else
            samba_pack(&p->b, from, &p->b.inner_axis, depth, &p->b.own_axis, width, to, pitch);
        for (int64_t l = 0; l < packed_depth(p, depth) && width < pitch; l++)
            memset((float *)to + l * pitch + width, 0, (size_t)(pitch - width) * sizeof(float));
    }
}

static const char *rows_at(const panels *p, int64_t batch, int64_t step, int64_t block)
{
    return operand_at(&p->a, samba_batch_offset(&p->frame.contract, &p->a.factor, batch), row_of(p, block), step * p->step);
}

/* Elements of another dtype, or far apart along both dims, by way of a strip that lies evenly. */
static void pack_strips(const panels *p, const char *from, int64_t depth, int64_t rows, float *to)
{
    enum { NEAR = 128 };
    const samba_blocks *blocks = p->kernels->blocks;
    float near[SAMBA_DENSE_MOST_ROWS * NEAR];
    int64_t own = p->a.factor.own[0], inner = p->a.factor.inner[0], most = blocks->dense_rows,
            strips = samba_dense_strips(rows, most);
    if (p->a.native && (inner == 1 || own == 1)) {
        blocks->pack_strips((const float *)from, own, inner, rows, depth, to);
        return;
    }
    for (int64_t s = 0; s < strips; s++, to += depth * most) {
        int64_t first = samba_dense_strip_row(rows, strips, s), count = samba_dense_strip_row(rows, strips, s + 1) - first;
        for (int64_t l = 0; l < depth; l += NEAR) {
            int64_t some = at_most(NEAR, depth - l);
            samba_pack(&p->a, from + (first * own + l * inner) * p->a.memory_size, &p->a.own_axis, count, &p->a.inner_axis, some,
                       (char *)near, NEAR);
            blocks->pack_strips(near, NEAR, 1, count, some, to + l * most);
        }
    }
}

static void pack_rows(const panels *p, char *to, int64_t batch, int64_t step, int64_t block)
{
    int64_t depth = depth_of(p, step), rows = rows_of(p, block);
    const char *from = rows_at(p, batch, step, block);
    if (p->half && p->rows_lie)
        samba_pack_pairs(p->kernels, (const uint16_t *)from, p->a.factor.inner[0], p->a.factor.own[0], depth, rows,
                         (uint16_t *)to, p->row_ld);
    else if (p->half)
        samba_pack_rows_of_pairs(p->kernels, (const uint16_t *)from, p->a.factor.inner[0], p->a.factor.own[0], depth, rows,
                                 (uint16_t *)to, 2 * p->row_ld);
    else
        pack_strips(p, from, depth, rows, (float *)to);
}

/* ---- bringing nearer what comes next ---- */

/* A block of an operand, as memory has it. */
static void fetch_block(const samba_source *source, const char *at, int64_t own, int64_t depth, samba_fetch *fetch)
{
    int64_t size = source->memory_size, own_stride = source->factor.own[0], k_stride = source->factor.inner[0];
    if (k_stride == 1)
        samba_fetch_rows(fetch, at, depth * size, own, own_stride * size);
    else if (own_stride == 1)
        samba_fetch_rows(fetch, at, own * size, depth, k_stride * size);
}

/* ---- multiplying ---- */

typedef struct panels_unit {
    int64_t batch, i0, i1, j0, j1; /* blocks of rows, panels */
} panels_unit;

static panels_unit unit_at(const panels *p, int64_t unit)
{
    int64_t columns = unit % p->column_units, rows = unit / p->column_units % p->row_units;
    return (panels_unit){.batch = unit / p->column_units / p->row_units,
                         .i0 = rows * p->row_blocks / p->row_units,
                         .i1 = (rows + 1) * p->row_blocks / p->row_units,
                         .j0 = columns * p->panel_count / p->column_units,
                         .j1 = (columns + 1) * p->panel_count / p->column_units};
}

/* The side that units take apart and pack, or read in place, themselves. */
static bool owns_a(const panels *p) { return !p->share_a && !p->keep_a; }
static bool owns_b(const panels *p) { return p->share_a && !p->keep_b; }

/* What a unit packs for itself at a step: its rows, which are one block, or else all its panels. */
static void fetch_own(const panels *p, const panels_unit *at, int64_t step, samba_fetch *fetch)
{
    if (owns_a(p))
        fetch_block(&p->a, rows_at(p, at->batch, step, at->i0), rows_of(p, at->i0), depth_of(p, step), fetch);
    for (int64_t j = at->j0; owns_b(p) && j < at->j1; j++)
        fetch_block(&p->b, panel_at(p, at->batch, step, j), width_of(p, j), depth_of(p, step), fetch);
}

/* What is read after block i of a step: the next of the shared rows, or what the unit's next step, or the next unit,
 * packs for itself. */
static void fetch_next(const panels *p, int64_t unit, const panels_unit *at, int64_t step, int64_t i, const char *block,
                       samba_fetch *fetch)
{
    if (i + 1 < at->i1 && p->a_in_place) {
        fetch_block(&p->a, rows_at(p, at->batch, step, i + 1), rows_of(p, i + 1), depth_of(p, step), fetch);
    } else if (i + 1 < at->i1) {
        samba_fetch_rows(fetch, block + p->a_block_bytes, p->a_block_bytes, 1, 0);
    } else if (step + 1 < p->steps) {
        fetch_own(p, at, step + 1, fetch);
    } else if (unit + 1 < p->frame.units) {
        panels_unit next = unit_at(p, unit + 1);
        fetch_own(p, &next, 0, fetch);
    }
}

/* Stores that miss the caches hold up those behind them. */
static void fetch_sums(const panels *p, const panels_unit *at, int64_t i, int64_t j, const float *sums, samba_fetch *fetch)
{
    float *to = (float *)sums;
    const float *bias;
    int64_t pitch = p->sums_ld;
    if (p->direct) {
        samba_finish_at(&p->frame.finish, at->batch * p->m + row_of(p, i), j * p->width, &to, &bias);
        pitch = p->frame.finish.result_strides[p->frame.finish.rank - 2];
    }
    samba_fetch_rows(fetch, to, width_of(p, j) * 4, rows_of(p, i), pitch * 4);
}

static void multiply(const panels *p, const panels_unit *at, const char *rows, int64_t i, const char *panel, int64_t j,
                     int64_t step, float *sums, samba_fetch *fetch)
{
    int64_t height = rows_of(p, i), width = width_of(p, j), depth = packed_depth(p, depth_of(p, step));
    samba_dense block = {.rows = height,
                         .cols = width,
                         .k = depth,
                         .strips = p->strips,
                         .a = (const float *)rows,
                         .b = (const float *)panel,
                         .lda = p->strips     ? depth * p->kernels->blocks->dense_rows
                                : p->rows_lie ? 1
                                              : p->row_ld,
                         .ska = p->rows_lie ? p->row_ld : 1,
                         .ldb = pitch_of(p, j),
                         .from = step ? sums : NULL,
                         .from_ld = p->sums_ld,
                         .c = sums,
                         .ldc = p->sums_ld};
    const float *bias = NULL;
    bool ends = p->direct && step == p->steps - 1;
    int last = p->frame.finish.rank - 1;
    if (ends) {
        samba_finish_at(&p->frame.finish, at->batch * p->m + row_of(p, i), j * p->width, &block.c, &bias);
        block.ldc = p->frame.finish.result_strides[last - 1];
    }
    p->multiply(&block, fetch);
    if (ends && (bias || p->frame.finish.relu))
        p->frame.finish.run(block.c, block.ldc, bias, p->frame.finish.bias_strides[last - 1], p->frame.finish.bias_strides[last],
                            p->frame.finish.relu, block.c, block.ldc, height, width);
}

/* Sums of all rows of a unit stay until its last step, or until an epilogue apart; else each block's are taken at once. */
static bool keeps_sums(const panels *p) { return p->apart || p->steps > 1; }

static bool keeps_shared(const panels *p) { return p->share_a ? p->keep_a : p->keep_b; }

/* A side that is packed whole: kept, or in shared scratch. */
static char *packed_side(const panels *p, bool kept, const samba_workspace *room, int64_t batch)
{
    return kept ? room->kept + batch * p->kept_batch_bytes : room->shared + batch * p->shared_batch_bytes;
}

static void run_unit(const panels *p, const samba_workspace *room, int64_t unit)
{
    panels_unit at = unit_at(p, unit);
    float *sums =
        p->apart ? (float *)(room->shared + p->all_sums_at) + (at.batch * p->m + row_of(p, at.i0)) * p->sums_ld + at.j0 * p->width
                 : (float *)(room->own + p->sums_at);
    char *mine = room->own + p->own_pack_at;
    const char *whole_a = packed_side(p, p->keep_a, room, at.batch), *whole_b = packed_side(p, p->keep_b, room, at.batch);
    bool own_a = owns_a(p) && !p->a_in_place, own_b = owns_b(p);
    /* from here on there is room for what is next */
    int64_t last = p->share_a || at.j1 - at.j0 < p->last_panels ? at.j0 : at.j1 - p->last_panels;
    for (int64_t step = 0; step < p->steps; step++) {
        bool last_step = step == p->steps - 1, ends = last_step && !p->direct && !p->apart;
        bool far_sums = p->apart || (p->direct && last_step); /* else scratch that is near */
        const char *a = whole_a + step * p->a_step_bytes;
        const char *b = own_b ? mine - panel_position(p, step, at.j0) : whole_b + step * p->b_step_bytes;
        if (own_b)
            pack_panels(p, mine, at.batch, step, at.j0, at.j1 - at.j0);
        for (int64_t i = at.i0; i < at.i1; i++) {
            int64_t row0 = at.batch * p->m + row_of(p, i);
            float *row_sums = sums + (keeps_sums(p) ? row_of(p, i) - row_of(p, at.i0) : 0) * p->sums_ld;
            const char *block = p->a_in_place ? rows_at(p, at.batch, step, i) : own_a ? mine : a + block_position(p, i);
            samba_fetch fetch = {0};
            if (own_a)
                pack_rows(p, mine, at.batch, step, i);
            for (int64_t j = at.j0, until; j < at.j1; j = until) {
                until = ends && !p->whole_rows ? at_most(j + p->hot_panels, at.j1) : at.j1;
                int64_t cols = at_most(until * p->width, p->n) - j * p->width;
                if (ends)
                    samba_tile_fetch(p->frame.program, row0, rows_of(p, i), j * p->width, cols, &fetch);
                for (int64_t l = j; l < until; l++) {
                    float *panel_sums = row_sums + (l - at.j0) * p->width;
                    if (far_sums && l + 1 < at.j1)
                        fetch_sums(p, &at, i, l + 1, panel_sums + p->width, &fetch);
                    if (l == last)
                        fetch_next(p, unit, &at, step, i, block, &fetch);
                    multiply(p, &at, block, i, b + panel_position(p, step, l), l, step, panel_sums, &fetch);
                }
                if (ends)
                    samba_tile_region(p->frame.program, room->own, row0, rows_of(p, i), j * p->width, cols,
                                      row_sums + (j - at.j0) * p->width, p->sums_ld);
            }
        }
    }
}

/* An epilogue apart, by the few rows that one tile has, while those after them come nearer. */
static void finish_rows(const samba_frame *frame, const samba_workspace *room, int64_t row, int64_t end)
{
    const panels *p = (const panels *)frame;
    int64_t most = p->n < SAMBA_TILE_CAPACITY ? SAMBA_TILE_CAPACITY / p->n : 1;
    const float *sums = (const float *)(room->shared + p->all_sums_at) + row * p->sums_ld;
    for (int64_t rows; row < end; row += rows, sums += rows * p->sums_ld) {
        samba_fetch fetch = {0};
        rows = at_most(most, end - row);
        int64_t after = at_most(most, end - row - rows);
        samba_fetch_rows(&fetch, sums + rows * p->sums_ld, p->n * 4, after, p->sums_ld * 4);
        samba_tile_fetch(frame->program, row + rows, after, 0, p->n, &fetch);
        samba_fetch_all(&fetch);
        samba_tile_region(frame->program, room->own, row, rows, 0, p->n, sums, p->sums_ld);
    }
}

/* A part of a side that is packed whole: the kept one, or the shared one. */
static void pack(const samba_frame *frame, const samba_workspace *room, bool kept, int64_t part)
{
    const panels *p = (const panels *)frame;
    bool side_a = kept ? p->keep_a : p->share_a;
    int64_t pieces = side_a ? p->row_blocks : p->panel_packs;
    int64_t piece = part % pieces, step = part / pieces % p->steps, batch = part / pieces / p->steps;
    char *to = packed_side(p, kept, room, batch);
    if (side_a)
        pack_rows(p, to + step * p->a_step_bytes + block_position(p, piece), batch, step, piece);
    else
        pack_panels(p, to + step * p->b_step_bytes + panel_position(p, step, piece * p->pack_panels), batch, step,
                    piece * p->pack_panels, at_most(p->pack_panels, p->panel_count - piece * p->pack_panels));
}

static void run(const samba_frame *frame, const samba_workspace *room, int64_t unit, int64_t end)
{
    for (; unit < end; unit++)
        run_unit((const panels *)frame, room, unit);
}

/* ---- how it is dealt ---- */

/* Columns that vectors take as long for: the last of a panel may have lanes to spare. */
static double lanes_of(const panels *p, const panels_unit *at)
{
    return (double)(round_up(at_most(at->j1 * p->width, p->n), p->kernels->lanes) - at->j0 * p->width);
}

static double work(const samba_frame *frame, samba_frame_phase phase, int64_t unit)
{
    const panels *p = (const panels *)frame;
    double pack_time = frame->machine->pack.copy, element = frame->element;
    if (phase == SAMBA_FRAME_APART)
        return (double)p->n * element;
    if (phase != SAMBA_FRAME_UNITS) {
        bool side_a = phase == SAMBA_FRAME_KEPT ? p->keep_a : p->share_a;
        int64_t pieces = side_a ? p->row_blocks : p->panel_packs, piece = unit % pieces, step = unit / pieces % p->steps;
        int64_t panels_of = at_most(p->pack_panels, p->panel_count - piece * p->pack_panels);
        return (double)(side_a ? rows_of(p, piece) : panels_of * p->width) * (double)depth_of(p, step) * pack_time;
    }
    panels_unit at = unit_at(p, unit);
    double rows = (double)(row_of(p, at.i1) - row_of(p, at.i0)), cols = lanes_of(p, &at), k = (double)p->k;
    double own = owns_a(p) && !p->a_in_place ? rows : owns_b(p) ? cols : 0;
    return rows * cols * k * frame->multiply * (p->half ? 0.5 : 1) + own * k * pack_time + (p->apart ? 0 : rows * cols * element);
}

/* The shared side is read once to be packed, and then by each unit, the other by who multiplies it. */
static void moved(const samba_frame *frame, int threads, samba_moved *moved)
{
    const panels *p = (const panels *)frame;
    double a = (double)(p->batches * p->m * p->k) * (double)p->a.memory_size,
           b = (double)(p->batches * p->n * p->k) * (double)p->b.memory_size, others = 1 - 1.0 / threads;
    double shared_a = (double)(p->batches * p->steps * p->a_step_bytes),
           shared_b = (double)(p->batches * p->steps * p->b_step_bytes);
    double row_readers = (double)at_most(p->column_units, threads), column_readers = (double)at_most(p->row_units, threads);
    moved->reads[0] = p->keep_a ? 0 : p->share_a && !p->a_in_place ? a : a * row_readers;
    moved->reads[1] = p->keep_b ? 0 : p->share_a ? b * column_readers : b;
    moved->shared = (p->share_a && !p->a_in_place ? shared_a * row_readers : 0) + (p->share_a ? 0 : shared_b * column_readers);
    moved->shared *= keeps_shared(p) ? 0 : others;
    moved->shared += p->apart ? (double)(p->batches * p->m * p->sums_ld * 4) * others : 0;
    moved->in_order = p->apart;
}

/* A strip of A stays in the first cache while it meets the columns of a panel; a panel of B in the second while the rows of a
 * block pass; of what is shared, all threads hold what one unit reads in a step. */
static int held(const samba_frame *frame, samba_held held[SAMBA_HELD])
{
    const panels *p = (const panels *)frame;
    int64_t depth = packed_depth(p, p->step) * ELEMENT, range = p->unit_panels * p->width;
    held[0] = (samba_held){"panel: a strip of A", 1, p->kernels->blocks->dense_rows * depth};
    held[1] = p->share_a ? (samba_held){"panel: a unit's panels of B", 2, range * depth}
                         : (samba_held){"panel: a block of A and a panel of B", 2, (p->rows + p->width) * depth};
    held[2] = p->share_a ? (samba_held){"panel: blocks of A that a unit reads in a step", 3, p->unit_blocks * p->rows * depth}
                         : (samba_held){"panel: panels of B that a unit reads in a step", 3, range * depth};
    return 3;
}

/* ---- preparing ---- */

static bool is_pairs(const samba_contract_problem *problem)
{
    return problem->contract.a.dtype == SAMBA_BFLOAT16 && problem->contract.b.dtype == SAMBA_BFLOAT16 && problem->machine->pairs;
}

static bool suits(const samba_contract_problem *problem)
{
    const samba_contract *c = &problem->contract;
    if (c->class_ != SAMBA_F32 || c->m_rank != 1 || c->n_rank != 1 || c->k_rank != 1 || c->a.window_count || c->b.window_count ||
        problem->k == 0)
        return false;
    int64_t shared = problem->contract.whole_rows ? problem->n : at_most(problem->m, problem->n);
    return (double)problem->batches * (double)shared * (double)problem->k * (is_pairs(problem) ? 2 : 4) <=
           (double)problem->machine->panel.most_packed;
}

/* Axes of a side that is one evenly spaced dim; every offset is index * stride. */
static samba_status describe(panels *p, const samba_contract_problem *problem, bool second, int64_t own_width, samba_arena *arena)
{
    samba_source *source = second ? &p->b : &p->a;
    const samba_factor *factor = second ? &problem->contract.b : &problem->contract.a;
    *source = (samba_source){.machine = problem->machine, .class_ = problem->contract.class_, .factor = *factor};
    source->memory = problem->memory + problem->buffers[factor->buffer].offset +
                     factor->offset * (int64_t)samba_dtype_table[factor->dtype].size;
    int64_t own = second ? problem->n : problem->m;
    samba_split_init(&source->own, 1, &own, own_width, 1);
    samba_split_init(&source->inner, 1, &problem->k, p->step, 1);
    source->own.width = own_width;
    source->inner.width = p->step;
    source->own.step = own_width;
    source->inner.step = p->step;
    samba_source_describe(source, true);
    return samba_source_tables(source, arena);
}

/* How many parts of at most `most` make `total`, dealt evenly; a multiple of `threads` where that many are to be dealt.
 * And the largest. */
static int64_t deal(int64_t total, int64_t most, int64_t threads, int64_t *size)
{
    most = most < 1 ? 1 : most;
    int64_t parts = at_most(round_up((total + most - 1) / most, threads), total);
    *size = (total + parts - 1) / parts;
    return parts;
}

/* Which side is packed whole. Few rows serve a part of B too rarely to write it to memory first; packing pairs costs as much as
 * floats, but the products take half as long. */
static bool choose_side(panels *p, int64_t a_bytes, int64_t b_bytes)
{
    bool few = !p->keep_b && p->m < p->n && p->m <= p->frame.machine->panel.few_rows;
    if (p->half)
        few = few && p->m <= p->frame.machine->panel.few_rows / 2 && a_bytes <= p->frame.machine->panel.near;
    p->apart = p->whole_rows && few && p->m <= p->n / 2 && p->batches * p->m * p->n * 4 <= p->frame.machine->panel.shared;
    p->share_a = p->apart || (!p->whole_rows && (few || (p->m < p->n && b_bytes > (p->keep_b ? p->frame.machine->panel.shared
                                                                                             : p->frame.machine->panel.near))));
    return few;
}

/* A is read where it is if packing it costs more: few columns would pay, or all of it would be shared and is large. */
static bool reads_a(const panels *p, const samba_factor *a)
{
    const samba_cpu_machine *machine = p->frame.machine;
    int64_t stride = a->own[0], size = samba_dtype_table[a->dtype].size;
    bool costly = p->n < machine->panel.few_columns ||
                  (p->share_a && p->batches * p->m * packed_depth(p, p->k) * ELEMENT > machine->panel.shared);
    return costly && a->inner[0] == 1 && stride >= p->k && stride <= INT_MAX / 8 && stride * size % machine->product.page &&
           (p->half ? p->k % 2 == 0 && stride % 2 == 0 : a->dtype == SAMBA_FLOAT32);
}

/* k of a step and rows of a block, after Low et al., Analytical Modeling Is Enough for High-Performance BLIS (TOMS 2016): where
 * registers are few a panel is narrow and a good step of it stays in the first cache;
 * a wide panel is read from the second, beside a block of rows high enough to be worth its passing. */
static void choose_sizes(panels *p)
{
    const samba_cpu_machine *machine = p->frame.machine;
    int64_t strip = p->kernels->blocks->dense_rows, line = p->width * ELEMENT, least = machine->panel.least_step;
    int64_t depth = at_most(machine->panel.hot / line, machine->product.step);
    if (depth < least) {
        depth = machine->product.step;
        while (depth > least && machine->panel.block / (depth * ELEMENT) - p->width < machine->panel.few_block_rows)
            depth -= at_most(SAMBA_DENSE_ROUND, depth - least);
    }
    depth = depth < SAMBA_DENSE_ROUND ? SAMBA_DENSE_ROUND : depth / SAMBA_DENSE_ROUND * SAMBA_DENSE_ROUND;
    int64_t rows = at_most(machine->panel.block / (depth * ELEMENT) - p->width, machine->panel.rows) / strip * strip;
    p->step = p->half ? 2 * depth : depth;
    p->rows = rows < strip ? strip : rows;
    p->own_panels = machine->panel.own / (depth * line);
    p->own_panels_few_rows = machine->panel.own_few_rows / (depth * line);
}

/* ns that the slowest of the threads takes, about, where a unit has rows / by_rows and panels / by_columns. */
static double dealt_time(const panels *p, int64_t by_rows, int64_t by_columns, int threads)
{
    const samba_cpu_machine *machine = p->frame.machine;
    double rows = (double)divide_up(p->m, by_rows), cols = (double)(divide_up(p->panel_count, by_columns) * p->width);
    double own = p->share_a ? (p->keep_b ? 0 : cols) : p->keep_a ? 0 : rows;
    double unit = (rows * cols * p->frame.multiply + own * machine->pack.copy) * (double)p->k + machine->block.unit_start;
    return unit * (double)divide_up(p->batches * by_rows * by_columns, threads);
}

/* Most rows of a block, and panels of a unit, that the caches hold as held() says; at least what registers take. */
static void find_room(const panels *p, int threads, int64_t *rows, int64_t *panel_count)
{
    const samba_cpu_machine *machine = p->frame.machine;
    int64_t depth = packed_depth(p, p->step) * ELEMENT, least = p->kernels->blocks->dense_rows;
    int64_t second = samba_cpu_room(machine, 2, threads, INT64_MAX) / depth,
            third = samba_cpu_room(machine, 3, threads, INT64_MAX) / depth;
    *rows = p->share_a ? third : at_most(second - p->width, p->rows);
    *rows = *rows < least ? least : *rows;
    *panel_count = (p->share_a ? second : third) / p->width;
    *panel_count = *panel_count < 1 ? 1 : *panel_count;
}

/* Many threads: rows by columns, so many that none has much more than another, and so small that they fit the caches. What a unit
 * packs for itself is packed again for each range of the other side, so units are no smaller than they need be. */
static void deal_units(panels *p, int threads)
{
    enum { TURNS = 8 }; /* units of a thread, at most */
    const double worth = 0.97;
    if (threads <= SAMBA_FEW_THREADS)
        return;
    int64_t most_rows, most_panels, best_rows = 0, best_columns = 0;
    find_room(p, threads, &most_rows, &most_panels);
    int64_t columns = p->whole_rows && !p->apart ? 1 : p->panel_count, rows_now = p->share_a ? p->row_units : p->row_blocks;
    int64_t first = at_most(divide_up(p->panel_count, most_panels), columns), fewest = divide_up(p->m, most_rows);
    bool fits = rows_now >= fewest && p->column_units >= first;
    double least = fits ? worth * dealt_time(p, rows_now, p->column_units, threads) : INFINITY;
    int64_t end = at_most(first > TURNS * threads ? first : (int64_t)TURNS * threads, columns);
    for (int64_t c = first; c <= end; c++)
        for (int64_t turn = 1; turn <= TURNS; turn++) {
            int64_t r = at_most(turn * threads / (c * p->batches), divide_up(p->m, p->kernels->blocks->dense_rows));
            r = r < fewest ? fewest : r;
            double time = dealt_time(p, r, c, threads);
            if (time >= least)
                continue;
            least = time;
            best_rows = r;
            best_columns = c;
        }
    if (best_rows == 0)
        return;
    p->column_units = best_columns;
    p->unit_panels = divide_up(p->panel_count, best_columns);
    p->row_units = best_rows;
    p->unit_blocks = divide_up(divide_up(p->m, best_rows), p->rows); /* no block is larger than it was */
    p->row_blocks = best_rows * p->unit_blocks;
    if (p->row_blocks > p->m) {
        p->unit_blocks = 1;
        p->row_blocks = best_rows;
    }
    p->rows = divide_up(p->m, p->row_blocks);
    p->unit_blocks = p->share_a ? p->unit_blocks : 1;
    p->row_units = p->share_a ? p->row_units : p->row_blocks;
}

static void choose_blocks(panels *p, const samba_contract_problem *problem)
{
    int64_t deals = p->batches % problem->threads ? problem->threads : 1; /* batch elements are dealt first */
    int64_t depth_bytes = packed_depth(p, p->k) * ELEMENT, b_bytes = p->batches * p->n * depth_bytes;
    bool few = choose_side(p, p->batches * p->m * depth_bytes, b_bytes);
    /* sums would be made over such a bias */
    p->direct = p->frame.finish.used && samba_finish_is_even(&p->frame.finish) && p->frame.finish.bias != p->frame.finish.result;
    /* the sums need room, and panels are read from near */
    bool low = !p->direct && !p->share_a && b_bytes <= p->frame.machine->panel.near;
    choose_sizes(p);
    int64_t most_rows = p->rows;
    p->steps = deal(p->k, p->step, 1, &p->step);
    if (p->steps > 1) {
        p->step = round_up(p->step, 16);
        p->steps = (p->k + p->step - 1) / p->step;
    }
    p->row_blocks = deal(p->m, low ? most_rows / 2 : most_rows, p->share_a ? 1 : deals, &p->rows);
    p->panel_count = (p->n + p->width - 1) / p->width;
    p->pack_panels = p->frame.machine->panel.pack_columns > p->width ? p->frame.machine->panel.pack_columns / p->width : 1;
    p->panel_packs = (p->panel_count + p->pack_panels - 1) / p->pack_panels;
    if (p->share_a) {
        p->column_units = deal(p->panel_count, few ? p->own_panels_few_rows : p->own_panels, deals, &p->unit_panels);
        p->row_units = deal(p->row_blocks, p->frame.machine->panel.range / most_rows, 1, &p->unit_blocks);
    } else {
        p->column_units =
            deal(p->panel_count, p->whole_rows ? p->panel_count : p->frame.machine->panel.range / p->width, 1, &p->unit_panels);
        p->row_units = p->row_blocks;
        p->unit_blocks = 1;
    }
    deal_units(p, problem->threads);
    /* alike in width, so that none leaves tiles half empty */
    deal(p->unit_panels, p->frame.machine->panel.hot_columns / p->width, 1, &p->hot_panels);
    p->last_panels = (p->frame.machine->panel.last_columns + p->width - 1) / p->width;
    p->frame.units = p->batches * p->row_units * p->column_units;
    p->a_in_place = reads_a(p, &problem->contract.a);
    p->sums_ld = at_most(p->unit_panels * p->width, p->n);
    if (p->apart) {
        p->sums_ld = round_up(p->n, SAMBA_DENSE_ROUND);
        p->sums_ld += p->sums_ld * 4 % p->frame.machine->product.page ? 0 : SAMBA_DENSE_ROUND;
    }
}

static void lay_out(panels *p)
{
    int64_t depth = packed_depth(p, p->step), a_bytes, b_bytes, own;
    p->rows_lie = p->a.factor.inner[0] != 1 && p->a.factor.own[0] == 1;
    int64_t stride = p->a.factor.own[0];
    p->strips = !p->half && !p->a_in_place;
    p->row_ld = round_up(p->rows_lie ? p->rows : depth, 16);
    if (p->row_ld * ELEMENT % p->frame.machine->product.page == 0)
        p->row_ld += 16;
    if (p->a_in_place)
        p->row_ld = p->half ? stride / 2 : stride;
    int64_t most = p->kernels->blocks->dense_rows,
            block = p->strips ? samba_dense_strips(p->rows, most) * most * depth * ELEMENT + SAMBA_LINE
                              : (p->rows_lie ? depth : p->rows) * p->row_ld * ELEMENT;
    p->a_block_bytes = p->a_in_place ? 0 : round_up(block, 64);
    p->a_step_bytes = p->row_blocks * p->a_block_bytes;
    p->b_step_bytes = round_up(depth * ((p->panel_count - 1) * p->width + pitch_of(p, p->panel_count - 1)) * ELEMENT, 64);
    a_bytes = p->steps * p->a_step_bytes;
    b_bytes = p->steps * p->b_step_bytes;
    p->shared_batch_bytes = p->share_a ? a_bytes : b_bytes;
    p->all_sums_at = keeps_shared(p) ? 0 : round_up(p->batches * p->shared_batch_bytes, 64);
    p->frame.shared_bytes = p->all_sums_at + (p->apart ? p->batches * p->m * p->sums_ld * 4 : 0);
    own = p->share_a ? round_up(depth * p->unit_panels * p->width * ELEMENT, 64) : p->a_block_bytes;
    own = (p->share_a ? p->keep_b : p->keep_a) ? 0 : own;
    bool sums = !p->apart && (!p->direct || p->steps > 1);
    p->sums_at =
        samba_frame_room(&p->frame, sums ? at_most((keeps_sums(p) ? p->unit_blocks : 1) * p->rows, p->m) * p->sums_ld * 4 : 0);
    p->own_pack_at = samba_frame_room(&p->frame, own);
}

/* The side that is packed at refresh, if one is; batch elements that share it have one pack.
 * And the shared side, where it is another. */
static void count_parts(panels *p)
{
    const samba_factor *factor = p->keep_a ? &p->a.factor : &p->b.factor;
    int64_t bytes = p->steps * (p->keep_a ? p->a_step_bytes : p->b_step_bytes), a_parts = p->steps * p->row_blocks,
            b_parts = p->steps * p->panel_packs;
    p->kept_batch_bytes = 0;
    if (p->keep_a || p->keep_b) {
        for (int i = 0; i < p->frame.contract.batch_rank; i++)
            p->kept_batch_bytes = factor->batch[i] ? bytes : p->kept_batch_bytes;
        int64_t batches = p->kept_batch_bytes ? p->batches : 1;
        p->frame.kept_bytes = batches * bytes;
        p->frame.kept_parts = batches * (p->keep_a ? a_parts : b_parts);
    }
    bool packs = !keeps_shared(p) && !(p->share_a && p->a_in_place);
    p->frame.parts = packs ? p->batches * (p->share_a ? a_parts : b_parts) : 0;
}

/* ---- what it takes ---- */

/* Vectors that the sums of a row have in all panels. */
static double vectors_of(const panels *p, int64_t lanes)
{
    int64_t whole = p->n / p->width, rest = p->n - whole * p->width;
    return (double)(whole * (p->width / lanes) + (rest + lanes - 1) / lanes);
}

/* ns of all multiply-adds on one core. A strip begins anew in each panel and step of k; where its sums are few they wait for each
 * other (dense.c takes two strips of one vector together). */
static double multiply_time(const panels *p)
{
    const samba_cpu_machine *machine = p->frame.machine;
    int64_t lanes = p->kernels->lanes, vectors = (at_most(p->n, p->width) + lanes - 1) / lanes;
    double pairs = p->half ? 2 : 1,
           strips = (double)(p->row_blocks * samba_dense_strips(p->rows, p->kernels->blocks->dense_rows));
    double chains = (double)(p->m * vectors) / strips * (vectors == 1 && strips > 1 ? 2 : 1);
    double waits = chains < machine->panel.chains ? machine->panel.chains / chains : 1;
    double steps = (double)p->m * vectors_of(p, lanes) * (double)p->k / pairs;
    return steps / machine->product.rate * machine->panel.multiply * waits +
           (double)(p->steps * p->panel_count) * strips * machine->panel.strip_start;
}

/* ns of packing on one core, and of what threads read that others packed. */
static double pack_time(const panels *p, int threads)
{
    const samba_cpu_machine *machine = p->frame.machine;
    double a = (double)p->m * (double)p->k, b = (double)p->n * (double)p->k, time = 0;
    if (!p->keep_a)
        time += a * (p->a_in_place ? machine->panel.read_a : machine->panel.pack_a) * (p->share_a ? 1 : (double)p->column_units);
    if (!p->keep_b)
        time += b * machine->panel.pack_b * (p->share_a ? (double)p->row_units : 1);
    double shared = p->share_a ? (p->a_in_place || p->keep_a ? 0 : a) : (p->keep_b ? 0 : b);
    return time + (threads > 1 ? shared * ELEMENT * machine->block.crossing * (1 - 1.0 / threads) : 0);
}

static double time_of(const panels *p, const samba_contract_problem *problem)
{
    const samba_cpu_machine *machine = problem->machine;
    double results = (double)p->m * (double)p->n, threads = problem->threads, units = (double)p->frame.units;
    double sums = p->direct && p->steps == 1 ? machine->panel.sum_direct : machine->panel.sum * (double)p->steps;
    double one = multiply_time(p) + pack_time(p, problem->threads) + results * (sums + problem->finish_cost);
    double all = (double)p->batches * one + units * machine->block.unit_start;
    double turns = (double)((p->frame.units + problem->threads - 1) / problem->threads);
    double barriers = (threads > 1 && !(p->share_a ? p->a_in_place : p->keep_b)) + (threads > 1 && p->apart);
    double time = all / units * turns + barriers * machine->block.barrier;
    return machine->libxsmm && machine->masked ? time * machine->panel.masked : time;
}

/* Where sizes are large nothing else was faster by more than the noise, and a model that tells such costs apart is not worth its
 * own. */
static bool leads(const samba_contract_problem *problem)
{
    const samba_contract *c = &problem->contract;
    const samba_cpu_machine *machine = problem->machine;
    bool in_place = samba_finish_is_copy(problem->finish) && c->a.dtype == SAMBA_FLOAT32 && c->b.dtype == SAMBA_FLOAT32;
    bool masked = machine->libxsmm && machine->masked;
    return problem->m >= machine->panel.least_m && problem->n >= (masked ? machine->panel.masked_n : machine->panel.least_n) &&
           problem->k >= machine->panel.least_k &&
           2.0 * (double)problem->m * (double)problem->n * (double)problem->k >=
               (masked ? machine->panel.masked_flops : machine->panel.least_flops) &&
           !(in_place && problem->k <= machine->panel.short_k);
}

static double plan(const samba_contract_problem *problem, samba_frame *frame)
{
    panels *p = (panels *)frame;
    if (!suits(problem))
        return -1;
    p->kernels = problem->machine->kernels;
    p->half = is_pairs(problem);
    p->multiply = p->half ? samba_dense_pairs_of(problem->machine) : p->kernels->blocks->dense;
    p->whole_rows = problem->contract.whole_rows;
    p->batches = problem->batches;
    p->m = problem->m;
    p->n = problem->n;
    p->k = problem->k;
    p->width = p->kernels->blocks->dense_cols;
    p->keep_b = problem->constant_b;
    choose_blocks(p, problem);
    p->keep_a = problem->constant_a && !p->keep_b && !p->a_in_place;
    return p->half || leads(problem) ? 0 : time_of(p, problem); /* nobody else multiplies pairs */
}

static samba_status prepare(const samba_prepare *to, const samba_contract_problem *problem, samba_frame *frame)
{
    panels *p = (panels *)frame;
    SAMBA_TRY(describe(p, problem, false, p->rows, to->arena));
    SAMBA_TRY(describe(p, problem, true, at_most(p->width, p->n), to->arena));
    lay_out(p);
    count_parts(p);
    frame->apart = p->apart ? p->batches * p->m : 0;
    return SAMBA_OK;
}

const samba_road samba_road_panel = {"panel", sizeof(panels), plan, prepare, pack, run, finish_rows, work, moved, held};
