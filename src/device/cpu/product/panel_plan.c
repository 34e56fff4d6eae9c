/* SPDX-License-Identifier: Apache-2.0
 *
 * How a product by panels is cut, packed and dealt, and what it takes: panel.c runs it. Sizes come from the caches; which side is
 * shared follows from how often each would be packed. */
#include "device/cpu/product/micro_kernel.h"
#include "device/cpu/product/pairs.h"
#include "device/cpu/product/panel.h"

#include <limits.h>
#include <math.h>

/* ---- how it is dealt ---- */

/* Columns that vectors take as long for: the last of a panel may have lanes to spare. */
static double lanes_of(const samba_panels *p, const samba_panels_unit *at)
{
    return (double)(round_up(at_most(at->j1 * p->width, p->n), p->kernels->lanes) - at->j0 * p->width);
}

double samba_panel_work(const samba_frame *frame, samba_frame_phase phase, int64_t unit)
{
    const samba_panels *p = (const samba_panels *)frame;
    double pack_time = frame->machine->pack.copy, element = frame->element;
    if (phase == SAMBA_FRAME_APART)
        return (double)p->n * element;
    if (phase != SAMBA_FRAME_UNITS) {
        bool side_a = phase == SAMBA_FRAME_KEPT ? p->keep_a : p->share_a;
        int64_t pieces = side_a ? p->row_blocks : p->panel_packs, piece = unit % pieces, step = unit / pieces % p->steps;
        int64_t panels_of = at_most(p->pack_panels, p->panel_count - piece * p->pack_panels);
        return (double)(side_a ? samba_panel_rows_of(p, piece) : panels_of * p->width) * (double)samba_panel_depth_of(p, step) *
               pack_time;
    }
    samba_panels_unit at = samba_panel_unit_at(p, unit);
    double rows = (double)(samba_panel_row_of(p, at.i1) - samba_panel_row_of(p, at.i0)), cols = lanes_of(p, &at),
           k = (double)p->k;
    double own = samba_panel_owns_a(p) && !p->a_in_place ? rows : samba_panel_owns_b(p) ? cols : 0;
    double multiply = p->amx ? frame->machine->panel.amx : p->half ? 0.5 : 1;
    return rows * cols * k * frame->multiply * multiply + own * k * pack_time + (p->apart ? 0 : rows * cols * element);
}

/* The shared side is read once to be packed, and then by each unit, the other by who multiplies it. */
void samba_panel_moved(const samba_frame *frame, int threads, samba_moved *moved)
{
    const samba_panels *p = (const samba_panels *)frame;
    double a = (double)(p->batches * p->m * p->k) * (double)p->a.memory_size,
           b = (double)(p->batches * p->n * p->k) * (double)p->b.memory_size, others = 1 - 1.0 / threads;
    double shared_a = (double)(p->batches * p->steps * p->a_step_bytes),
           shared_b = (double)(p->batches * p->steps * p->b_step_bytes);
    double row_readers = (double)at_most(p->column_units, threads), column_readers = (double)at_most(p->row_units, threads);
    moved->reads[0] = p->keep_a ? 0 : p->share_a && !p->a_in_place ? a : a * row_readers;
    moved->reads[1] = p->keep_b ? 0 : p->share_a ? b * column_readers : b;
    moved->shared = (p->share_a && !p->a_in_place ? shared_a * row_readers : 0) + (p->share_a ? 0 : shared_b * column_readers);
    moved->shared *= samba_panel_keeps_shared(p) ? 0 : others;
    moved->shared += p->apart ? (double)(p->batches * p->m * p->sums_ld * 4) * others : 0;
    moved->in_order = p->apart;
}

/* A strip of A stays in the first cache while it meets the columns of a panel; a panel of B in the second while the rows of a
 * block pass; of what is shared, all threads hold what one unit reads in a step. */
int samba_panel_held(const samba_frame *frame, samba_held held[SAMBA_HELD])
{
    const samba_panels *p = (const samba_panels *)frame;
    int64_t depth = samba_panel_packed_depth(p, p->step) * SAMBA_PANEL_ELEMENT, range = p->unit_panels * p->width;
    held[0] = p->amx ? (samba_held){"panel: columns of B that AMX takes at once", 1, SAMBA_AMX_COLS * depth}
                     : (samba_held){"panel: a strip of A", 1, p->strip * depth};
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
static samba_status describe(samba_panels *p, const samba_contract_problem *problem, bool second, int64_t own_width,
                             samba_arena *arena)
{
    samba_source *source = second ? &p->b : &p->a;
    const samba_factor *factor = second ? &problem->contract.b : &problem->contract.a;
    *source = (samba_source){.machine = problem->machine, .class_ = problem->contract.class_, .factor = *factor};
    source->memory = samba_factor_bytes(problem, factor);
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
static bool choose_side(samba_panels *p, int64_t a_bytes, int64_t b_bytes)
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
static bool reads_a(const samba_panels *p, const samba_factor *a)
{
    const samba_cpu_machine *machine = p->frame.machine;
    int64_t stride = a->own[0], size = samba_dtype_table[a->dtype].size;
    bool costly =
        p->n < machine->panel.few_columns ||
        (p->share_a && p->batches * p->m * samba_panel_packed_depth(p, p->k) * SAMBA_PANEL_ELEMENT > machine->panel.shared);
    return costly && a->inner[0] == 1 && stride >= p->k && stride <= INT_MAX / 8 && stride * size % machine->product.page &&
           (p->half ? p->k % 2 == 0 && stride % 2 == 0 : a->dtype == SAMBA_FLOAT32);
}

/* k of a step and rows of a block, after Low et al., Analytical Modeling Is Enough for High-Performance BLIS (TOMS 2016): where
 * registers are few a panel is narrow and a good step of it stays in the first cache;
 * a wide panel is read from the second, beside a block of rows high enough to be worth its passing. */
static void choose_sizes(samba_panels *p)
{
    const samba_cpu_machine *machine = p->frame.machine;
    int64_t line = (p->amx ? SAMBA_AMX_COLS : p->width) * SAMBA_PANEL_ELEMENT, least = machine->panel.least_step;
    int64_t depth = at_most(machine->panel.hot / line, machine->product.step);
    if (depth < least) {
        depth = machine->product.step;
        while (depth > least && machine->panel.block / (depth * SAMBA_PANEL_ELEMENT) - p->width < machine->panel.few_block_rows)
            depth -= at_most(SAMBA_DENSE_ROUND, depth - least);
    }
    depth = depth < SAMBA_DENSE_ROUND ? SAMBA_DENSE_ROUND : depth / SAMBA_DENSE_ROUND * SAMBA_DENSE_ROUND;
    int64_t rows = at_most(machine->panel.block / (depth * SAMBA_PANEL_ELEMENT) - p->width,
                           p->amx ? machine->panel.rows_amx : machine->panel.rows) /
                   p->strip * p->strip;
    p->step = p->half ? 2 * depth : depth;
    p->rows = rows < p->strip ? p->strip : rows;
    p->own_panels = machine->panel.own / (depth * line);
    p->own_panels_few_rows = machine->panel.own_few_rows / (depth * line);
}

/* ns that the slowest of the threads takes, about, where a unit has rows / by_rows and panels / by_columns. */
static double dealt_time(const samba_panels *p, int64_t by_rows, int64_t by_columns, int threads)
{
    const samba_cpu_machine *machine = p->frame.machine;
    double rows = (double)divide_up(p->m, by_rows), cols = (double)(divide_up(p->panel_count, by_columns) * p->width);
    double own = p->share_a ? (p->keep_b ? 0 : cols) : p->keep_a ? 0 : rows;
    double unit = (rows * cols * p->frame.multiply + own * machine->pack.copy) * (double)p->k + machine->block.unit_start;
    return unit * (double)divide_up(p->batches * by_rows * by_columns, threads);
}

/* Most rows of a block, and panels of a unit, that the caches hold as held() says; at least what registers take. */
static void find_room(const samba_panels *p, int threads, int64_t *rows, int64_t *panel_count)
{
    const samba_cpu_machine *machine = p->frame.machine;
    int64_t depth = samba_panel_packed_depth(p, p->step) * SAMBA_PANEL_ELEMENT, least = p->strip;
    int64_t second = samba_cpu_room(machine, 2, threads, INT64_MAX) / depth,
            third = samba_cpu_room(machine, 3, threads, INT64_MAX) / depth;
    *rows = p->share_a ? third : at_most(second - p->width, p->rows);
    *rows = *rows < least ? least : *rows;
    *panel_count = (p->share_a ? second : third) / p->width;
    *panel_count = *panel_count < 1 ? 1 : *panel_count;
}

/* Many threads: rows by columns, so many that none has much more than another, and so small that they fit the caches. What a unit
 * packs for itself is packed again for each range of the other side, so units are no smaller than they need be. */
static void deal_units(samba_panels *p, int threads)
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
            int64_t r = at_most(turn * threads / (c * p->batches), divide_up(p->m, p->strip));
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
    if (p->row_blocks > p->row_pieces) {
        p->unit_blocks = 1;
        p->row_blocks = best_rows;
    }
    p->rows = divide_up(p->row_pieces, p->row_blocks) * p->row_piece;
    p->unit_blocks = p->share_a ? p->unit_blocks : 1;
    p->row_units = p->share_a ? p->row_units : p->row_blocks;
}

/* Bytes of a block of rows, and of the panels that meet it now and next. */
static int64_t held_together(const samba_panels *p)
{
    return (p->rows + 2 * p->width) * samba_panel_packed_depth(p, p->step) * SAMBA_PANEL_ELEMENT;
}

static void choose_blocks(samba_panels *p, const samba_contract_problem *problem)
{
    int64_t deals = p->batches % problem->threads ? problem->threads : 1; /* batch elements are dealt first */
    int64_t depth_bytes = samba_panel_packed_depth(p, p->k) * SAMBA_PANEL_ELEMENT, b_bytes = p->batches * p->n * depth_bytes;
    bool few = choose_side(p, p->batches * p->m * depth_bytes, b_bytes);
    /* sums would be made over such a bias */
    p->direct = samba_finish_takes_sums(&p->frame.finish) && samba_finish_is_even(&p->frame.finish) &&
                p->frame.finish.bias != p->frame.finish.result;
    p->finishes = p->frame.finish.used && samba_finish_is_even(&p->frame.finish);
    choose_sizes(p);
    int64_t most_rows = p->rows, sums = p->whole_rows ? p->n : at_most(p->n, p->frame.machine->panel.hot_columns);
    /* the sums need room, and panels are read from near */
    bool low = !p->direct && !p->share_a && b_bytes <= p->frame.machine->panel.near &&
               held_together(p) + most_rows * sums * (int64_t)sizeof(float) > p->frame.machine->panel.ahead;
    p->steps = deal(p->k, p->step, 1, &p->step);
    if (p->steps > 1) {
        p->step = round_up(p->step, 16);
        p->steps = (p->k + p->step - 1) / p->step;
    }
    p->row_blocks = deal(p->row_pieces, (low ? most_rows / 2 : most_rows) / p->row_piece, p->share_a ? 1 : deals, &p->rows);
    p->rows *= p->row_piece;
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
    p->asks_ahead = held_together(p) <= p->frame.machine->panel.ahead;
    p->frame.units = p->batches * p->row_units * p->column_units;
    p->a_in_place = reads_a(p, &problem->contract.a);
    p->sums_ld = samba_panel_keeps_group(p) ? p->hot_panels * p->width + SAMBA_DENSE_ROUND /* no rows share a set of the cache */
                                            : at_most(p->unit_panels * p->width, p->n);
    if (p->apart) {
        p->sums_ld = round_up(p->n, SAMBA_DENSE_ROUND);
        p->sums_ld += p->sums_ld * 4 % p->frame.machine->product.page ? 0 : SAMBA_DENSE_ROUND;
    }
}

static void lay_out(samba_panels *p)
{
    int64_t depth = samba_panel_packed_depth(p, p->step), a_bytes, b_bytes, own;
    p->rows_lie = !p->amx && p->a.factor.inner[0] != 1 && p->a.factor.own[0] == 1;
    int64_t stride = p->a.factor.own[0];
    p->strips = !p->half && !p->a_in_place;
    p->row_ld = round_up(p->rows_lie ? p->rows : depth, 16);
    if (p->row_ld * SAMBA_PANEL_ELEMENT % p->frame.machine->product.page == 0)
        p->row_ld += 16;
    if (p->a_in_place)
        p->row_ld = p->half ? stride / 2 : stride;
    int64_t most = p->kernels->blocks->dense_rows,
            block = p->strips ? samba_dense_strips(p->rows, most) * most * depth * SAMBA_PANEL_ELEMENT + SAMBA_LINE
                              : (p->rows_lie ? depth : p->rows) * p->row_ld * SAMBA_PANEL_ELEMENT;
    p->a_block_bytes = p->a_in_place ? 0 : round_up(block, 64);
    p->a_step_bytes = p->row_blocks * p->a_block_bytes;
    p->b_step_bytes = round_up(
        depth * ((p->panel_count - 1) * p->width + samba_panel_pitch_of(p, p->panel_count - 1)) * SAMBA_PANEL_ELEMENT, 64);
    a_bytes = p->steps * p->a_step_bytes;
    b_bytes = p->steps * p->b_step_bytes;
    p->shared_batch_bytes = p->share_a ? a_bytes : b_bytes;
    p->all_sums_at = samba_panel_keeps_shared(p) ? 0 : round_up(p->batches * p->shared_batch_bytes, 64);
    p->frame.shared_bytes = p->all_sums_at + (p->apart ? p->batches * p->m * p->sums_ld * 4 : 0);
    own = p->share_a ? round_up(depth * p->unit_panels * p->width * SAMBA_PANEL_ELEMENT, 64) : p->a_block_bytes;
    own = (p->share_a ? p->keep_b : p->keep_a) ? 0 : own;
    bool sums = !p->apart && (!p->direct || p->steps > 1);
    p->sums_at = samba_frame_room(
        &p->frame, sums ? at_most((samba_panel_keeps_sums(p) ? p->unit_blocks : 1) * p->rows, p->m) * p->sums_ld * 4 : 0);
    p->own_pack_at = samba_frame_room(&p->frame, own);
}

/* The side that is packed at refresh, if one is; batch elements that share it have one pack.
 * And the shared side, where it is another. */
static void count_parts(samba_panels *p)
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
    bool packs = !samba_panel_keeps_shared(p) && !(p->share_a && p->a_in_place);
    p->frame.parts = packs ? p->batches * (p->share_a ? a_parts : b_parts) : 0;
}

/* ---- what it takes ---- */

/* Vectors that the sums of a row have in all panels. */
static double vectors_of(const samba_panels *p, int64_t lanes)
{
    int64_t whole = p->n / p->width, rest = p->n - whole * p->width;
    return (double)(whole * (p->width / lanes) + (rest + lanes - 1) / lanes);
}

/* ns of all multiply-adds on one core. A strip begins anew in each panel and step of k; where its sums are few they wait for each
 * other (dense.c takes two strips of one vector together). */
static double multiply_time(const samba_panels *p)
{
    const samba_cpu_machine *machine = p->frame.machine;
    int64_t lanes = p->kernels->lanes, vectors = (at_most(p->n, p->width) + lanes - 1) / lanes;
    double pairs = p->half ? 2 : 1, strips = (double)(p->row_blocks * samba_dense_strips(p->rows, p->strip));
    double chains = (double)(p->m * vectors) / strips * (vectors == 1 && strips > 1 ? 2 : 1);
    double waits = chains < machine->panel.chains ? machine->panel.chains / chains : 1;
    double steps = (double)p->m * vectors_of(p, lanes) * (double)p->k / pairs;
    return steps / machine->product.rate * machine->panel.multiply * waits +
           (double)(p->steps * p->panel_count) * strips * machine->panel.strip_start;
}

/* ns of packing on one core, and of what threads read that others packed. */
static double pack_time(const samba_panels *p, int threads)
{
    const samba_cpu_machine *machine = p->frame.machine;
    double a = (double)p->m * (double)p->k, b = (double)p->n * (double)p->k, time = 0;
    if (!p->keep_a)
        time += a * (p->a_in_place ? machine->panel.read_a : machine->panel.pack_a) * (p->share_a ? 1 : (double)p->column_units);
    if (!p->keep_b)
        time += b * machine->panel.pack_b * (p->share_a ? (double)p->row_units : 1);
    double shared = p->share_a ? (p->a_in_place || p->keep_a ? 0 : a) : (p->keep_b ? 0 : b);
    return time + (threads > 1 ? shared * SAMBA_PANEL_ELEMENT * machine->block.crossing * (1 - 1.0 / threads) : 0);
}

/* libxsmm's blocks waste nothing on a last vector: they are what panels have to be faster than. */
static bool blocks_are_masked(const samba_cpu_machine *machine) { return machine->libxsmm && machine->masked; }

static double time_of(const samba_panels *p, const samba_contract_problem *problem)
{
    const samba_cpu_machine *machine = problem->machine;
    double results = (double)p->m * (double)p->n, threads = problem->threads, units = (double)p->frame.units;
    double sums = p->direct && p->steps == 1 ? machine->panel.sum_direct : machine->panel.sum * (double)p->steps;
    double one = multiply_time(p) + pack_time(p, problem->threads) + results * (sums + problem->finish_cost);
    double all = (double)p->batches * one + units * machine->block.unit_start;
    double turns = (double)((p->frame.units + problem->threads - 1) / problem->threads);
    double barriers = (threads > 1 && !(p->share_a ? p->a_in_place : p->keep_b)) + (threads > 1 && p->apart);
    double time = all / units * turns + barriers * machine->block.barrier;
    return blocks_are_masked(machine) ? time * machine->panel.masked : time;
}

/* Where sizes are large nothing else was faster by more than the noise, and a model that tells such costs apart is not worth its
 * own. */
static bool leads(const samba_contract_problem *problem)
{
    const samba_contract *c = &problem->contract;
    const samba_cpu_machine *machine = problem->machine;
    bool in_place = samba_finish_is_copy(problem->finish) && c->a.dtype == SAMBA_FLOAT32 && c->b.dtype == SAMBA_FLOAT32;
    bool masked = blocks_are_masked(machine);
    return problem->m >= machine->panel.least_m && problem->n >= (masked ? machine->panel.masked_n : machine->panel.least_n) &&
           problem->k >= machine->panel.least_k &&
           2.0 * (double)problem->m * (double)problem->n * (double)problem->k >=
               (masked ? machine->panel.masked_flops : machine->panel.least_flops) &&
           !(in_place && problem->k <= machine->panel.short_k);
}

double samba_panel_plan(const samba_contract_problem *problem, samba_frame *frame)
{
    samba_panels *p = (samba_panels *)frame;
    if (!suits(problem))
        return -1;
    p->kernels = problem->machine->kernels;
    p->half = is_pairs(problem);
    p->multiply = p->half ? samba_dense_amx_of(problem->machine) : NULL;
    p->amx = p->multiply != NULL;
    if (!p->amx)
        p->multiply = p->half ? samba_dense_pairs_of(problem->machine) : p->kernels->blocks->dense;
    p->whole_rows = problem->contract.whole_rows;
    p->batches = problem->batches;
    p->m = problem->m;
    p->n = problem->n;
    p->k = problem->k;
    p->width = p->kernels->blocks->dense_cols;
    p->strip = p->amx ? SAMBA_AMX_ROWS : p->kernels->blocks->dense_rows;
    p->row_piece = !p->amx ? 1 : p->m < problem->machine->panel.few_rows ? SAMBA_AMX_SIDE : SAMBA_AMX_ROWS;
    p->row_pieces = divide_up(p->m, p->row_piece);
    p->keep_b = problem->constant_b;
    choose_blocks(p, problem);
    p->keep_a = problem->constant_a && !p->keep_b && !p->a_in_place;
    return p->half || leads(problem) ? 0 : time_of(p, problem); /* nobody else multiplies pairs */
}

samba_status samba_panel_prepare(const samba_preparing *to, const samba_contract_problem *problem, samba_frame *frame)
{
    samba_panels *p = (samba_panels *)frame;
    SAMBA_TRY(describe(p, problem, false, p->rows, to->arena));
    SAMBA_TRY(describe(p, problem, true, at_most(p->width, p->n), to->arena));
    lay_out(p);
    count_parts(p);
    frame->apart = p->apart ? p->batches * p->m : 0;
    return SAMBA_OK;
}
