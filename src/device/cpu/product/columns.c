/* SPDX-License-Identifier: Apache-2.0
 *
 * A convolution as a large product. The columns are pixels of the result; for each k, a channel and a tap of the window, their
 * elements of the image are gathered into panels that the block kernel of large products reads:
 *
 *   gathered     [panel][k of the step][64 columns]    a thread's own, in its second cache
 *   A            [step of k][block of rows][rows][k]   packed by all threads, kept where it is constant, or read in place
 *   sums         [rows of the unit][its columns]       a thread's own
 *
 * A unit is a box of rows of one image, or several small images side by side, by a range of A's rows. No im2col is stored but for
 * one step of k of one unit. Which lanes of a gathered vector lie where in the image is the same for all channels: tables of
 * pieces, one for each tap of the window, worked out at load, with nothing where the window meets padding. Boxes that meet none
 * share them.
 *
 * Images of bfloat16, where the CPU multiplies pairs, are copied first, with their channels in pairs (paired.h): what is gathered
 * and packed are pairs, and k counts them.
 *
 * contract.c reads images in place, which costs no gathering but unaligned, shorter vectors; fold.c gathers once for all taps
 * of the window and adds up afterwards. This road wins where there are many rows to multiply a column with. */
#include "device/cpu/product/blocks.h"
#include "device/cpu/product/image.h"
#include "device/cpu/product/micro_kernel.h"
#include "device/cpu/product/paired.h"
#include "device/cpu/product/roads.h"
#include <limits.h>
#include <string.h>

enum { WIDTH = SAMBA_PANEL_WIDTH };

typedef struct columns {
    samba_frame frame;
    const samba_blocks *blocks;
    samba_dense_fn *multiply;
    samba_source a;
    const float *image; /* of pairs it is copied to shared scratch */
    samba_image_axis y, x;
    int64_t batches, m, n, k;
    int64_t k_size[SAMBA_CONTRACT_RANK], k_stride[SAMBA_CONTRACT_RANK], image_pitch; /* of the image as it is gathered */
    bool half;                                                                       /* pairs of bfloat16 */
    samba_paired paired;
    samba_paired_walk walk;
    int64_t paired_at, weight_parts;                                           /* parts of a run: the weights' come first */
    int lanes, step;                                                           /* step: from one pixel of a row to the next */
    int64_t images, image_units, box, boxes, ranges, range_blocks, row_blocks; /* box: rows of pixels */
    int64_t pitch, panels, panel_bytes;                                        /* of a unit's sums; of a step */
    bool in_place, kept_a;
    int64_t lda, block_bytes, step_bytes, sums_at, gathered_at;
    int64_t most_gathered;             /* bytes of a step */
    bool many;                         /* threads: whole panels count, as the machine's cache is what they fit */
    const samba_column_piece **pieces; /* [box][tap] */
} columns;

/* Pixels of a row lie side by side, or every second one is taken. What has no window and lies evenly is a plain product. */
static bool recognize(const samba_contract_problem *problem, samba_image_axis *y, samba_image_axis *x, int *channel)
{
    *channel = -1;
    return (samba_image_recognize(problem, y, x) || samba_image_recognize_pairs(problem, y, x, channel)) &&
           x->size <= problem->machine->columns.most_width &&
           (x->own * x->memory == 2 || (x->own * x->memory == 1 && problem->contract.b.window_count > 0));
}

/* ---- gathering ---- */

typedef struct columns_unit {
    int64_t image, images, y, rows; /* of pixels */
    int64_t cols, box, i0, i1;      /* columns of one image; blocks of A */
} columns_unit;

static columns_unit unit_at(const columns *p, int64_t unit)
{
    int64_t range = unit % p->ranges, box = unit / p->ranges % p->boxes, group = unit / p->ranges / p->boxes;
    columns_unit at = {.image = group * p->images, .y = box * p->box, .box = box, .i0 = range * p->range_blocks};
    at.images = at_most(p->images, p->batches - at.image);
    at.rows = at_most(p->box, p->y.size - at.y);
    at.cols = at.rows * p->x.size;
    at.i1 = at_most(at.i0 + p->range_blocks, p->row_blocks);
    return at;
}

/* Panels of a step of k: its rows one by one, counted up like an odometer. */
static void gather(const columns *p, const columns_unit *at, const samba_box *k, const float *image, char *to)
{
    const int rank = p->frame.contract.k_rank;
    int64_t index[SAMBA_CONTRACT_RANK], vectors = divide_up(at->images * at->cols, p->lanes);
    const float *origin =
        image + at->image * p->image_pitch + (p->y.base + at->y * p->y.own) * p->y.memory + p->x.base * p->x.memory;
    const samba_column_piece *const *tables = p->pieces + at->box * p->y.taps * p->x.taps;
    memcpy(index, k->index, sizeof index);
    for (int64_t l = 0; l < k->width; l++) {
        int64_t offset = 0, tap = (p->y.tap < 0 ? 0 : index[p->y.tap]) * p->x.taps + (p->x.tap < 0 ? 0 : index[p->x.tap]);
        for (int i = 0; i < rank; i++)
            offset += p->k_stride[i] * index[i];
        p->blocks->columns(tables[tap], p->step, origin + offset, (float *)to + l * WIDTH,
                           p->panel_bytes / (int64_t)sizeof(float), vectors);
        for (int i = rank - 1; i >= 0 && ++index[i] == p->k_size[i] && i > 0; i--)
            index[i] = 0;
    }
}

/* ---- multiplying ---- */

static char *packed_rows(const columns *p, char *packed, int64_t step, int64_t block)
{
    return packed + step * p->step_bytes + block * p->block_bytes;
}

static const char *rows_in_place(const columns *p, const samba_box *rows, const samba_box *k)
{
    return samba_source_at(&p->a, samba_batch_offset(&p->frame.contract, &p->a.factor, 0), rows, k, NULL);
}

static void pack_part(const columns *p, char *packed, int64_t part)
{
    int64_t step = part / p->row_blocks, block = part % p->row_blocks;
    samba_box rows = samba_split_box(&p->a.own, block), k = samba_split_box(&p->a.inner, step);
    for (int64_t i = 0; i < rows.width && p->half; i++)
        samba_pair_weights((const uint16_t *)p->a.memory + (rows.first + i) * p->a.factor.own[0], &p->walk, k.index, k.width,
                           (uint32_t *)packed_rows(p, packed, step, block) + i * p->lda);
    if (p->half)
        return;
    samba_pack(&p->a, rows_in_place(p, &rows, &k), &p->a.own_axis, rows.width, &p->a.inner_axis, k.width,
               packed_rows(p, packed, step, block), p->lda);
}

static void pair_part(const columns *p, const samba_workspace *room, int64_t part)
{
    int64_t pairs = p->k_size[p->walk.channel];
    samba_paired image = p->paired;
    image.from += samba_image_offset(&p->frame.contract, part / pairs);
    samba_pair_planes(p->frame.machine->kernels, &image, part % pairs,
                      (uint32_t *)(room->shared + p->paired_at) + part * p->y.limit * p->x.limit);
}

static void finish_rows(const columns *p, const samba_workspace *room, const columns_unit *at, int64_t row, int64_t rows,
                        const float *sums)
{
    for (int64_t j = 0; j < at->images; j++, sums += at->cols)
        samba_frame_finish(&p->frame, room, (at->image + j) * p->m + row, rows, at->y * p->x.size, at->cols, sums, p->pitch);
}

static void run_unit(const columns *p, const samba_workspace *room, char *packed, int64_t unit)
{
    columns_unit at = unit_at(p, unit);
    int64_t cols = at.images * at.cols, steps = p->a.inner.blocks, first = samba_split_box(&p->a.own, at.i0).first;
    float *sums = (float *)(room->own + p->sums_at);
    char *gathered = room->own + p->gathered_at;
    const float *image = p->half ? (const float *)(room->shared + p->paired_at) : p->image;
    for (int64_t step = 0; step < steps; step++) {
        samba_box k = samba_split_box(&p->a.inner, step);
        gather(p, &at, &k, image, gathered);
        for (int64_t i = at.i0; i < at.i1; i++) {
            samba_box rows = samba_split_box(&p->a.own, i);
            const char *a = p->in_place ? rows_in_place(p, &rows, &k) : packed_rows(p, packed, step, i);
            float *to = sums + (rows.first - first) * p->pitch;
            samba_fetch fetch = {0};
            for (int64_t j = 0; j < at.images && step + 1 == steps; j++)
                samba_frame_fetch(&p->frame, (at.image + j) * p->m + rows.first, rows.width, at.y * p->x.size, at.cols, &fetch);
            for (int64_t j = 0; j * WIDTH < cols; j++) {
                samba_dense block = {.rows = rows.width,
                                     .cols = at_most(WIDTH, cols - j * WIDTH),
                                     .k = k.width,
                                     .a = (const float *)a,
                                     .lda = p->lda,
                                     .ska = 1,
                                     .b = (const float *)(gathered + j * p->panel_bytes),
                                     .ldb = WIDTH,
                                     .from = step ? to + j * WIDTH : NULL,
                                     .from_ld = p->pitch,
                                     .c = to + j * WIDTH,
                                     .ldc = p->pitch};
                p->multiply(&block, &fetch);
            }
            if (step + 1 == steps)
                finish_rows(p, room, &at, rows.first, rows.width, to);
        }
    }
}

static void pack(const samba_frame *frame, const samba_workspace *room, bool kept, int64_t part)
{
    const columns *p = (const columns *)frame;
    if (kept || part < p->weight_parts)
        pack_part(p, kept ? room->kept : room->shared, part);
    else
        pair_part(p, room, part - p->weight_parts);
}

static void run(const samba_frame *frame, const samba_workspace *room, int64_t unit, int64_t end)
{
    for (; unit < end; unit++)
        run_unit((const columns *)frame, room, frame->kept_parts ? room->kept : room->shared, unit);
}

/* ---- how it is dealt ---- */

static double columns_taken(const columns *p, int64_t cols);

static double work(const samba_frame *frame, samba_frame_phase phase, int64_t unit)
{
    const columns *p = (const columns *)frame;
    double k = 0;
    if (phase == SAMBA_FRAME_PACK && unit >= p->weight_parts)
        return (double)(p->y.limit * p->x.limit) * frame->machine->pack.copy;
    if (phase != SAMBA_FRAME_UNITS) {
        samba_box rows = samba_split_box(&p->a.own, unit % p->row_blocks),
                  of = samba_split_box(&p->a.inner, unit / p->row_blocks);
        return (double)(rows.width * of.width) * frame->machine->pack.copy;
    }
    columns_unit at = unit_at(p, unit);
    samba_box first = samba_split_box(&p->a.own, at.i0), last = samba_split_box(&p->a.own, at.i1 - 1);
    double rows = (double)(last.first + last.width - first.first), cols = (double)(at.images * at.cols);
    for (int64_t step = 0; step < p->a.inner.blocks; step++)
        k += (double)samba_split_box(&p->a.inner, step).width;
    double gathered = p->images > 1 ? frame->machine->columns.gather_far : frame->machine->columns.gather;
    return k * (columns_taken(p, at.images * at.cols) * rows * frame->machine->columns.block + cols * gathered * p->step) *
               frame->multiply +
           rows * cols * frame->element + frame->machine->columns.unit_start;
}

static void moved(const samba_frame *frame, int threads, samba_moved *moved)
{
    const columns *p = (const columns *)frame;
    double k = (double)p->a.inner.total, a = (double)p->m * k * 4;
    moved->reads[0] = frame->kept_parts ? 0 : p->in_place ? a * threads : a;
    moved->shared = (double)frame->shared_bytes * (threads - 1);
    moved->reads[1] = (double)(p->batches * p->y.limit * p->x.limit) * k / (double)(p->y.taps * p->x.taps) * 4 *
                      (double)at_most(p->ranges, threads);
}

static int held(const samba_frame *frame, samba_held held[SAMBA_HELD])
{
    const columns *p = (const columns *)frame;
    int64_t depth = p->a.inner.width;
    held[0] = (samba_held){"columns: rows of A that registers take at once", 1, p->blocks->dense_rows * depth * 4};
    held[1] = (samba_held){"columns: what a unit gathers in a step", 2, p->panels * p->panel_bytes};
    return 2;
}

/* ---- preparing ---- */

/* Columns that the block kernel takes as long for: those beyond whole panels go by single vectors. */
static double columns_taken(const columns *p, int64_t cols)
{
    return (double)(cols / WIDTH * WIDTH) + (double)(round_up(cols % WIDTH, p->lanes)) * p->frame.machine->columns.narrow;
}

static int64_t step_of(const columns *p, int64_t cols)
{
    int64_t step = p->most_gathered / 4 / (p->many ? round_up(cols, WIDTH) : cols);
    return step < 16 ? 16 : at_most(step, p->frame.machine->product.step);
}

/* ns, about: multiply-adds of a unit, of which gathering an element takes as long as several, and reaching one of A as 8; sums
 * that all steps but the first read again. */
static double unit_cost(const columns *p, int64_t k, int64_t cols, int64_t rows)
{
    /* images side by side lie far apart */
    double gathered = p->images > 1 ? p->frame.machine->columns.gather_far : p->frame.machine->columns.gather;
    double multiply = columns_taken(p, cols) * (double)rows * p->frame.machine->columns.block +
                      (double)cols * gathered * p->step + (double)rows * p->frame.machine->columns.row;
    double again = (double)(rows * cols) * (double)((k - 1) / step_of(p, cols)) *
                   (rows * cols * 4 > p->frame.machine->columns.sums ? p->frame.machine->columns.sum_again_far
                                                                     : p->frame.machine->columns.sum_again);
    return (double)k * multiply / (p->frame.machine->product.rate * p->lanes) + again + p->frame.machine->columns.unit_start;
}

static double cost_of(const columns *p, int64_t k, int threads)
{
    int64_t last_rows = p->y.size - (p->boxes - 1) * p->box, rows = divide_up(p->m, p->ranges);
    double full = unit_cost(p, k, p->images * p->box * p->x.size, rows),
           last = unit_cost(p, k, p->images * last_rows * p->x.size, rows);
    double all = (double)(p->image_units * p->ranges) * (full * (double)(p->boxes - 1) + last),
           turns = (double)divide_up(p->frame.units, threads);
    double dealt = turns * (all / (double)p->frame.units), least = all / threads;
    return dealt > least ? dealt : least;
}

/* How many rows of pixels or images a unit has, and which part of A. All ways are costed. */
static double choose_units(columns *p, int64_t k, int threads)
{
    columns best = *p;
    double cost = -1;
    int64_t most_images =
                p->n < p->frame.machine->columns.least_pixels ? 1 : at_most(p->batches, p->frame.machine->columns.unit / p->n),
            most_box = at_most(p->y.size, p->frame.machine->columns.unit / p->x.size);
    bool whole = most_images > 1 || p->frame.contract.whole_rows;
    most_images = most_images < 1 ? 1 : most_images;
    most_box = most_box < 1 ? 1 : most_box;
    for (int64_t images = 1; images <= most_images; images++)
        for (int64_t box = whole ? p->y.size : 1; box <= (whole ? p->y.size : most_box); box++)
            for (int64_t ranges = 1; ranges <= threads && ranges <= p->row_blocks; ranges++) {
                p->images = images;
                p->image_units = divide_up(p->batches, images);
                p->box = box;
                p->boxes = divide_up(p->y.size, box);
                p->range_blocks = divide_up(p->row_blocks, ranges);
                p->ranges = divide_up(p->row_blocks, p->range_blocks);
                p->frame.units = p->image_units * p->boxes * p->ranges;
                double way = cost_of(p, k, threads);
                if (cost < 0 || way < cost) {
                    cost = way;
                    best = *p;
                }
            }
    *p = best;
    return cost;
}

/* Blocks of few rows, where images are too few for many threads. */
static double choose_finer(columns *p, const samba_contract_problem *problem, double cost)
{
    const double worth = 0.97;
    columns finer = *p;
    finer.row_blocks = at_most(problem->threads, divide_up(p->m, problem->machine->kernels->blocks->dense_rows));
    if (finer.row_blocks <= p->row_blocks)
        return cost;
    double cost_finer = choose_units(&finer, finer.k, problem->threads);
    if (cost_finer >= worth * cost)
        return cost;
    *p = finer;
    return cost_finer;
}

/* k as it is gathered: of pairs half as many channels, of planes that lie one after the other. */
static void describe_k(columns *p, const samba_contract *c, int channel)
{
    const int64_t plane = p->y.limit * p->x.limit;
    memcpy(p->k_size, c->k, sizeof p->k_size);
    memcpy(p->k_stride, c->b.inner, sizeof p->k_stride);
    p->half = channel >= 0;
    p->image_pitch = samba_image_offset(c, 1);
    if (p->half) {
        p->paired = (samba_paired){.channels = c->k[channel],
                                   .channel_stride = c->b.inner[channel],
                                   .rows = p->y.limit,
                                   .row_stride = p->y.memory,
                                   .width = p->x.limit};
        p->k_size[channel] = divide_up(c->k[channel], 2);
        p->k_stride[channel] = plane;
        p->image_pitch = p->k_size[channel] * plane;
        p->y.memory = p->x.limit;
        p->walk = (samba_paired_walk){.rank = c->k_rank, .channel = channel, .channels = c->k[channel]};
        memcpy(p->walk.size, p->k_size, sizeof p->walk.size);
        memcpy(p->walk.stride, c->a.inner, sizeof p->walk.stride);
    }
    p->k = 1;
    for (int i = 0; i < c->k_rank; i++)
        p->k *= p->k_size[i];
}

static double init(const samba_contract_problem *problem, columns *p)
{
    const samba_contract *c = &problem->contract;
    int channel;
    if (!recognize(problem, &p->y, &p->x, &channel))
        return -1;
    describe_k(p, c, channel);
    p->batches = problem->batches;
    p->m = problem->m;
    p->n = problem->n;
    p->lanes = problem->machine->kernels->lanes;
    p->step = (int)(p->x.own * p->x.memory);
    p->many = problem->threads > SAMBA_FEW_THREADS;
    p->most_gathered = samba_cpu_room(problem->machine, 2, problem->threads, problem->machine->columns.gathered);
    p->row_blocks = divide_up(p->m, p->frame.machine->columns.rows);
    if (p->row_blocks < problem->threads && p->m >= 16 * problem->threads)
        p->row_blocks = problem->threads;
    double cost = choose_units(p, p->k, problem->threads);
    if (p->many)
        cost = choose_finer(p, problem, cost);
    int64_t cols = p->images * p->box * p->x.size, rows = divide_up(p->m, p->row_blocks);
    if (p->images * p->image_pitch + p->y.limit * p->y.memory > INT_MAX / 2)
        return -1;
    p->a = (samba_source){.machine = problem->machine, .class_ = c->class_, .factor = c->a};
    p->a.memory = samba_factor_bytes(problem, &c->a);
    samba_split_init(&p->a.own, 1, &p->m, rows, 1);
    samba_split_init(&p->a.inner, c->k_rank, p->k_size, step_of(p, cols), 16);
    if (!p->half)
        samba_source_describe(&p->a, false);
    p->row_blocks = p->a.own.blocks;
    p->range_blocks = divide_up(p->row_blocks, p->ranges);
    p->pitch = round_up(cols, 16);
    p->pitch += p->pitch * 4 % p->frame.machine->product.page ? 0 : 16;
    p->panels = divide_up(cols, WIDTH);
    p->panel_bytes = p->a.inner.width * WIDTH * 4;
    return cost;
}

static double plan(const samba_contract_problem *problem, samba_frame *frame)
{
    double cost = init(problem, (columns *)frame);
    const columns *p = (const columns *)frame;
    double pairs = p->half ? (double)(p->batches * p->image_pitch) * problem->machine->pack.copy / problem->threads : 0;
    return cost < 0 ? cost : cost + pairs + samba_finish_time(problem) + problem->machine->columns.start;
}

/* Where column q of a unit that begins at row y of an image finds its element for a tap, from the unit's origin;
 * false: padding. */
static bool find_element(const columns *p, int64_t y, int64_t rows, int64_t tap, int64_t q, int64_t *at)
{
    int64_t cols = rows * p->x.size, image = q / cols, i = q % cols / p->x.size, j = q % p->x.size;
    int64_t dy = i * p->y.own + tap / p->x.taps * p->y.tap_step, dx = j * p->x.own + tap % p->x.taps * p->x.tap_step;
    int64_t py = p->y.base + y * p->y.own + dy, px = p->x.base + dx;
    *at = image * p->image_pitch + dy * p->y.memory + dx * p->x.memory;
    return py >= 0 && py < p->y.limit && px >= 0 && px < p->x.limit;
}

/* The pieces of one tap: each vector's, the last of them marked. */
static int64_t find_pieces(const columns *p, int64_t y, int64_t rows, int64_t tap, samba_column_piece *piece)
{
    int64_t cols = p->images * rows * p->x.size, count = 0;
    for (int64_t first = 0; first < cols; first += p->lanes) {
        int64_t begin = count, from = 0;
        for (int64_t lane = 0; lane < p->lanes && first + lane < cols; lane++) {
            int64_t at;
            if (!find_element(p, y, rows, tap, first + lane, &at))
                continue;
            if (count == begin || from != at - lane * p->step) {
                from = at - lane * p->step;
                piece[count++] = (samba_column_piece){.from = (int32_t)from, .more = true};
            }
            piece[count - 1].lanes |= (uint16_t)(1u << lane);
        }
        if (count == begin)
            piece[count++] = (samba_column_piece){0};
        piece[count - 1].more = false;
    }
    return count;
}

/* Does no window of the box's rows meet padding above or below? */
static bool is_inside(const columns *p, int64_t y, int64_t rows)
{
    int64_t low = p->y.base + y * p->y.own, high = low + (rows - 1) * p->y.own, reach = (p->y.taps - 1) * p->y.tap_step;
    return low + (reach < 0 ? reach : 0) >= 0 && high + (reach > 0 ? reach : 0) < p->y.limit;
}

static samba_status make_tables(columns *p, samba_arena *arena)
{
    int64_t taps = p->y.taps * p->x.taps, inside = -1, most = p->images * p->box * p->x.size + p->lanes;
    p->pieces = samba_arena_alloc(arena, (size_t)(p->boxes * taps) * sizeof *p->pieces);
    if (!p->pieces)
        return SAMBA_ERROR_MEMORY;
    for (int64_t box = 0; box < p->boxes; box++) {
        int64_t y = box * p->box, rows = at_most(p->box, p->y.size - y);
        const samba_column_piece **to = p->pieces + box * taps;
        bool alike = rows == p->box && is_inside(p, y, rows);
        if (alike && inside >= 0) {
            memcpy(to, p->pieces + inside * taps, (size_t)taps * sizeof *to);
            continue;
        }
        for (int64_t tap = 0; tap < taps; tap++) {
            samba_column_piece *piece = samba_arena_alloc(arena, (size_t)most * sizeof *piece);
            if (!piece)
                return SAMBA_ERROR_MEMORY;
            find_pieces(p, y, rows, tap, piece);
            to[tap] = piece;
        }
        inside = alike ? box : inside;
    }
    return SAMBA_OK;
}

static samba_status prepare(const samba_preparing *to, const samba_contract_problem *problem, samba_frame *frame)
{
    columns *p = (columns *)frame;
    p->blocks = frame->machine->kernels->blocks;
    samba_dense_fn *amx = p->half ? samba_dense_amx_of(frame->machine) : NULL;
    p->multiply = amx ? amx : p->half ? samba_dense_pairs_of(frame->machine) : p->blocks->dense;
    if (p->half)
        p->paired.from = (const uint16_t *)samba_factor_bytes(problem, &frame->contract.b);
    else
        p->image = samba_factor_data(problem, &frame->contract.b);
    if (!p->half)
        SAMBA_TRY(samba_source_tables(&p->a, to->arena));
    SAMBA_TRY(make_tables(p, to->arena));
    p->lda = p->a.own_axis.stride;
    p->in_place = !p->half && p->a.inner_axis.run >= p->a.inner_axis.count && p->a.inner_axis.stride == 1 &&
                  p->lda >= problem->k && p->lda * 4 % frame->machine->product.page;
    if (!p->in_place) {
        p->lda = round_up(p->a.inner.width, 16);
        p->lda += p->lda * 4 % frame->machine->product.page ? 0 : 16;
    }
    p->block_bytes = p->a.own.width * p->lda * 4;
    p->step_bytes = p->row_blocks * p->block_bytes;
    int64_t parts = p->in_place ? 0 : p->row_blocks * p->a.inner.blocks,
            packed = p->in_place ? 0 : p->a.inner.blocks * p->step_bytes;
    *(problem->constant_a ? &frame->kept_parts : &frame->parts) = parts;
    *(problem->constant_a ? &frame->kept_bytes : &frame->shared_bytes) = packed;
    p->weight_parts = frame->parts;
    if (p->half) {
        p->paired_at = round_up(frame->shared_bytes, 64);
        frame->parts += p->batches * p->k_size[p->walk.channel];
        frame->shared_bytes = p->paired_at + p->batches * p->image_pitch * 4;
    }
    p->sums_at = samba_frame_room(frame, at_most(p->range_blocks * p->a.own.width, p->m) * p->pitch * 4);
    p->gathered_at = samba_frame_room(frame, p->panels * p->panel_bytes);
    return SAMBA_OK;
}

const samba_road samba_road_columns = {"columns", sizeof(columns), plan, prepare, pack, run, NULL, work, moved, held};
