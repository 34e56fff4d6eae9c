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
#include "device/cpu/product/panel.h"
#include "device/cpu/product/pairs.h"
#include "device/cpu/product/roads.h"

#include <string.h>

/* ---- packing ---- */

static const char *operand_at(const samba_source *source, int64_t offset, int64_t own, int64_t k)
{
    return source->memory + (offset + own * source->factor.own[0] + k * source->factor.inner[0]) * source->memory_size;
}

/* Places within a packed step. */
static int64_t panel_position(const samba_panels *p, int64_t step, int64_t panel)
{
    return panel * p->width * samba_panel_packed_depth(p, samba_panel_depth_of(p, step)) * SAMBA_PANEL_ELEMENT;
}
static int64_t block_position(const samba_panels *p, int64_t block) { return block * p->a_block_bytes; }

static const char *panel_at(const samba_panels *p, int64_t batch, int64_t step, int64_t panel)
{
    return operand_at(&p->b, samba_batch_offset(&p->frame.contract, &p->b.factor, batch), panel * p->width, step * p->step);
}

/* Some panels that stand side by side: where columns lie together in memory, rows are read once for all of them. */
static void pack_panels(const samba_panels *p, char *to, int64_t batch, int64_t step, int64_t first, int64_t count)
{
    int64_t depth = samba_panel_depth_of(p, step), cols = at_most(count * p->width, p->n - first * p->width);
    const char *from = panel_at(p, batch, step, first);
    if (!p->half && p->b.native && p->b.factor.own[0] == 1) {
        p->kernels->blocks->pack_panels((const float *)from, p->b.factor.inner[0], depth, cols, (float *)to);
        return;
    }
    for (int64_t panel = first; panel < first + count; panel++, to += panel_position(p, step, 1)) {
        int64_t width = samba_panel_width_of(p, panel), pitch = samba_panel_pitch_of(p, panel);
        from = panel_at(p, batch, step, panel);
        if (p->half)
            samba_pack_pairs(p->kernels, (const uint16_t *)from, p->b.factor.inner[0], p->b.factor.own[0], depth, width,
                             (uint16_t *)to, pitch);
        else
            samba_pack(&p->b, from, &p->b.inner_axis, depth, &p->b.own_axis, width, to, pitch);
        for (int64_t l = 0; l < samba_panel_packed_depth(p, depth) && width < pitch; l++)
            memset((float *)to + l * pitch + width, 0, (size_t)(pitch - width) * sizeof(float));
    }
}

static const char *rows_at(const samba_panels *p, int64_t batch, int64_t step, int64_t block)
{
    return operand_at(&p->a, samba_batch_offset(&p->frame.contract, &p->a.factor, batch), samba_panel_row_of(p, block),
                      step * p->step);
}

/* Elements of another dtype, or far apart along both dims, by way of a strip that lies evenly. */
static void pack_strips(const samba_panels *p, const char *from, int64_t depth, int64_t rows, float *to)
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

static void pack_rows(const samba_panels *p, char *to, int64_t batch, int64_t step, int64_t block)
{
    int64_t depth = samba_panel_depth_of(p, step), rows = samba_panel_rows_of(p, block);
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

/* What a unit packs for itself at a step: its rows, which are one block, or else all its panels. */
static void fetch_own(const samba_panels *p, const samba_panels_unit *at, int64_t step, samba_fetch *fetch)
{
    if (samba_panel_owns_a(p))
        fetch_block(&p->a, rows_at(p, at->batch, step, at->i0), samba_panel_rows_of(p, at->i0), samba_panel_depth_of(p, step),
                    fetch);
    for (int64_t j = at->j0; samba_panel_owns_b(p) && j < at->j1; j++)
        fetch_block(&p->b, panel_at(p, at->batch, step, j), samba_panel_width_of(p, j), samba_panel_depth_of(p, step), fetch);
}

/* What is read after block i of a step: the next of the shared rows, or what the unit's next step, or the next unit,
 * packs for itself. */
static void fetch_next(const samba_panels *p, int64_t unit, const samba_panels_unit *at, int64_t step, int64_t i,
                       const char *block, samba_fetch *fetch)
{
    if (i + 1 < at->i1 && p->a_in_place) {
        fetch_block(&p->a, rows_at(p, at->batch, step, i + 1), samba_panel_rows_of(p, i + 1), samba_panel_depth_of(p, step),
                    fetch);
    } else if (i + 1 < at->i1) {
        samba_fetch_rows(fetch, block + p->a_block_bytes, p->a_block_bytes, 1, 0);
    } else if (step + 1 < p->steps) {
        fetch_own(p, at, step + 1, fetch);
    } else if (unit + 1 < p->frame.units) {
        samba_panels_unit next = samba_panel_unit_at(p, unit + 1);
        fetch_own(p, &next, 0, fetch);
    }
}

/* A shared panel that is multiplied next: the first rows that meet it would wait for all of it. */
static void fetch_panel(const samba_panels *p, const char *b, int64_t step, int64_t panel, samba_fetch *fetch)
{
    samba_fetch_rows(fetch, b + panel_position(p, step, panel), panel_position(p, step, 1), 1, 0);
}

/* Stores that miss the caches hold up those behind them. */
static void fetch_sums(const samba_panels *p, const samba_panels_unit *at, int64_t i, int64_t j, const float *sums,
                       samba_fetch *fetch)
{
    const float *to = sums;
    int64_t pitch = p->sums_ld;
    if (p->direct) {
        samba_finish_rows end = samba_finish_at(&p->frame.finish, at->batch * p->m + samba_panel_row_of(p, i), j * p->width);
        to = end.result;
        pitch = end.pitch;
    }
    samba_fetch_rows(fetch, to, samba_panel_width_of(p, j) * 4, samba_panel_rows_of(p, i), pitch * 4);
}

static void multiply(const samba_panels *p, const samba_panels_unit *at, const char *rows, int64_t i, const char *panel,
                     int64_t j, int64_t step, float *sums, samba_fetch *fetch)
{
    int64_t height = samba_panel_rows_of(p, i), width = samba_panel_width_of(p, j),
            depth = samba_panel_packed_depth(p, samba_panel_depth_of(p, step));
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
                         .ldb = samba_panel_pitch_of(p, j),
                         .from = step ? sums : NULL,
                         .from_ld = p->sums_ld,
                         .c = sums,
                         .ldc = p->sums_ld};
    bool ends = p->direct && step == p->steps - 1;
    samba_finish_rows end = {.sums = NULL};
    if (ends) {
        end = samba_finish_at(&p->frame.finish, at->batch * p->m + samba_panel_row_of(p, i), j * p->width);
        block.c = end.result;
        block.ldc = end.pitch;
    }
    p->multiply(&block, fetch);
    if (ends && (end.bias || end.relu || end.clamp)) {
        end.sums = block.c;
        end.ld = block.ldc;
        end.rows = height;
        end.cols = width;
        p->frame.finish.run(&end);
    }
}

/* A side that is packed whole: kept, or in shared scratch. */
static char *packed_side(const samba_panels *p, bool kept, const samba_workspace *room, int64_t batch)
{
    return kept ? room->kept + batch * p->kept_batch_bytes : room->shared + batch * p->shared_batch_bytes;
}

/* A group of blocks whose sums are whole, before the epilogue and at it. */
static void fetch_region(const samba_panels *p, int64_t row0, int64_t rows, int64_t col0, int64_t cols, samba_fetch *fetch)
{
    if (p->finishes)
        samba_frame_fetch(&p->frame, row0, rows, col0, cols, fetch);
    else
        samba_tile_fetch(p->frame.program, row0, rows, col0, cols, fetch);
}

static void end_region(const samba_panels *p, const samba_workspace *room, int64_t row0, int64_t rows, int64_t col0, int64_t cols,
                       const float *sums)
{
    if (p->finishes)
        samba_finish_region(&p->frame.finish, row0, rows, col0, cols, sums, p->sums_ld);
    else
        samba_tile_region(p->frame.program, room->own, row0, rows, col0, cols, sums, p->sums_ld);
}

static void run_unit(const samba_panels *p, const samba_workspace *room, int64_t unit)
{
    samba_panels_unit at = samba_panel_unit_at(p, unit);
    float *sums = p->apart ? (float *)(room->shared + p->all_sums_at) +
                                 (at.batch * p->m + samba_panel_row_of(p, at.i0)) * p->sums_ld + at.j0 * p->width
                           : (float *)(room->own + p->sums_at);
    char *mine = room->own + p->own_pack_at;
    const char *whole_a = packed_side(p, p->keep_a, room, at.batch), *whole_b = packed_side(p, p->keep_b, room, at.batch);
    bool own_a = samba_panel_owns_a(p) && !p->a_in_place, own_b = samba_panel_owns_b(p);
    /* from here on there is room for what is next */
    bool group = samba_panel_keeps_group(p);
    int64_t last = p->share_a || at.j1 - at.j0 < p->last_panels ? at.j0 : at.j1 - p->last_panels;
    for (int64_t step = 0; step < p->steps; step++) {
        bool last_step = step == p->steps - 1, ends = last_step && !p->direct && !p->apart;
        bool far_sums = p->apart || (p->direct && last_step); /* else scratch that is near */
        const char *a = whole_a + step * p->a_step_bytes;
        const char *b = own_b ? mine - panel_position(p, step, at.j0) : whole_b + step * p->b_step_bytes;
        if (own_b)
            pack_panels(p, mine, at.batch, step, at.j0, at.j1 - at.j0);
        for (int64_t i = at.i0; i < at.i1; i++) {
            int64_t row0 = at.batch * p->m + samba_panel_row_of(p, i);
            float *row_sums =
                sums + (samba_panel_keeps_sums(p) ? samba_panel_row_of(p, i) - samba_panel_row_of(p, at.i0) : 0) * p->sums_ld;
            const char *block = p->a_in_place ? rows_at(p, at.batch, step, i) : own_a ? mine : a + block_position(p, i);
            samba_fetch fetch = {0};
            if (own_a)
                pack_rows(p, mine, at.batch, step, i);
            for (int64_t j = at.j0, until; j < at.j1; j = until) {
                until = ends && !p->whole_rows ? at_most(j + p->hot_panels, at.j1) : at.j1;
                int64_t cols = at_most(until * p->width, p->n) - j * p->width;
                if (ends)
                    fetch_region(p, row0, samba_panel_rows_of(p, i), j * p->width, cols, &fetch);
                for (int64_t l = j; l < until; l++) {
                    float *panel_sums = row_sums + (l - (group ? j : at.j0)) * p->width;
                    if (p->asks_ahead && !own_b && (l + 1 < at.j1 || i + 1 < at.i1))
                        fetch_panel(p, b, step, l + 1 < at.j1 ? l + 1 : at.j0, &fetch);
                    if (far_sums && l + 1 < at.j1)
                        fetch_sums(p, &at, i, l + 1, panel_sums + p->width, &fetch);
                    if (l == last)
                        fetch_next(p, unit, &at, step, i, block, &fetch);
                    multiply(p, &at, block, i, b + panel_position(p, step, l), l, step, panel_sums, &fetch);
                }
                if (ends)
                    end_region(p, room, row0, samba_panel_rows_of(p, i), j * p->width, cols,
                               row_sums + (group ? 0 : j - at.j0) * p->width);
            }
        }
    }
}

/* An epilogue apart, by the few rows that one tile has, while those after them come nearer. */
static void finish_rows(const samba_frame *frame, const samba_workspace *room, int64_t row, int64_t end)
{
    const samba_panels *p = (const samba_panels *)frame;
    int64_t most = p->n < SAMBA_TILE_CAPACITY ? SAMBA_TILE_CAPACITY / p->n : 1;
    const float *sums = (const float *)(room->shared + p->all_sums_at) + row * p->sums_ld;
    for (int64_t rows; row < end; row += rows, sums += rows * p->sums_ld) {
        samba_fetch fetch = {0};
        rows = at_most(most, end - row);
        int64_t after = at_most(most, end - row - rows);
        samba_fetch_rows(&fetch, sums + rows * p->sums_ld, p->n * 4, after, p->sums_ld * 4);
        fetch_region(p, row + rows, after, 0, p->n, &fetch);
        samba_fetch_all(&fetch);
        end_region(p, room, row, rows, 0, p->n, sums);
    }
}

/* A part of a side that is packed whole: the kept one, or the shared one. */
static void pack(const samba_frame *frame, const samba_workspace *room, bool kept, int64_t part)
{
    const samba_panels *p = (const samba_panels *)frame;
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
        run_unit((const samba_panels *)frame, room, unit);
}

const samba_road samba_road_panel = {"panel", sizeof(samba_panels), samba_panel_plan, samba_panel_prepare, pack,
                                     run,     finish_rows,          samba_panel_work, samba_panel_moved,   samba_panel_held};
