/* SPDX-License-Identifier: Apache-2.0
 *
 * Convolutions of 3 x 3 with 4 multiplications a pixel instead of 9 (Winograd's F(2 x 2, 3 x 3); Lavin and Gray, 2015). The
 * result is cut into tiles of 2 x 2 pixels; each sees 4 x 4 of the image. With these and the weights transformed to 16 points, a
 * tile is 16 sums over channels of one product each, transformed back:
 *
 *   weights    U[point][row][channel], or [point][channel][row]    packed by all threads, kept where they are constant
 *   input      V[point][channel][tiles of the unit]                a thread's own
 *   products   M[point][rows of a block][tiles]                    = U V, by the block kernel of large products
 *   sums       [rows of a block][pixels of the unit]               a thread's own, what the epilogue takes
 *
 * The transforms are additions and halves. What rounding does grows little: errors are about twice those of plain sums. But a
 * pixel that is not finite reaches all of its tile, and so do sums that overflow. So where a unit's result is not finite its
 * block is computed again, plainly: infinities and NaN are where they belong.
 *
 * A unit is some rows of tiles of one image, or some small images. */
#include "device/cpu/product/blocks.h"
#include "device/cpu/product/image.h"
#include "device/cpu/product/roads.h"
#include <string.h>

enum {
    POINTS = SAMBA_WINOGRAD_POINTS,
    WIDTH = SAMBA_PANEL_WIDTH, /* columns of a call of the block kernel */
    REGISTERS = 6              /* rows that the block kernel takes at once */
};

typedef struct winograd {
    samba_frame frame;
    const samba_blocks *blocks;
    const float *image, *w;
    samba_image_axis y, x;
    samba_winograd_view view;
    int lanes, channel;                         /* channel: dim of k */
    int64_t batches, m, channels, across, down; /* across, down: tiles of an image */
    int64_t first_y, first_x;                   /* of the image, what the first tile sees */
    /* of weights: taps, elements from one to the next of a vector, and from one vector to the next */
    int64_t taps[9], step, others, other_step, own;
    bool rows_lie;                                                 /* vectors of weights are of rows */
    int64_t images, image_units, box, boxes, ranges, range_blocks; /* box: rows of tiles */
    int64_t rows, row_blocks, pitch, point_pitch, u_pitch, u_point, sums_pitch;
    int64_t lines_at, v_at, m_at, sums_at;
    int64_t most_products; /* bytes of a block of rows */
} winograd;

/* ---- units ---- */

typedef struct winograd_unit {
    int64_t image, images, tile, tiles; /* rows of tiles */
    int64_t y, pixels, i0, i1;          /* row of pixels, how many pixels an image has here; blocks of rows */
} winograd_unit;

static winograd_unit unit_at(const winograd *p, int64_t unit)
{
    int64_t range = unit % p->ranges, box = unit / p->ranges % p->boxes, group = unit / p->ranges / p->boxes;
    winograd_unit at = {.image = group * p->images, .tile = box * p->box, .i0 = range * p->range_blocks};
    at.images = at_most(p->images, p->batches - at.image);
    at.tiles = at_most(p->box, p->down - at.tile);
    at.y = 2 * at.tile;
    at.pixels = (at_most(at.y + 2 * at.tiles, p->y.size) - at.y) * p->x.size;
    at.i1 = at_most(at.i0 + p->range_blocks, p->row_blocks);
    return at;
}

static int64_t row_of(const winograd *p, int64_t block) { return p->m * block / p->row_blocks; }

/* ---- the three transforms ---- */

static void transform_weights(const winograd *p, float *u, int64_t other)
{
    p->blocks->winograd->weights(p->w + other * p->other_step, p->step, p->taps, p->own, u + other * p->u_pitch, p->u_point);
}

static void transform_input(const winograd *p, const winograd_unit *at, float *lines, float *v)
{
    for (int64_t image = 0; image < at->images; image++)
        for (int64_t c = 0; c < p->channels; c++)
            samba_winograd_input(
                p->blocks->winograd, &p->view,
                p->image + samba_image_offset(&p->frame.contract, at->image + image) + c * p->frame.contract.b.inner[p->channel],
                at->tile, at->tiles, lines, v + c * p->pitch + image * at->tiles * p->across, p->channels * p->pitch);
}

static bool transform_output(const winograd *p, const winograd_unit *at, int64_t rows, const float *m, float *sums)
{
    bool finite = true;
    for (int64_t r = 0; r < rows; r++)
        for (int64_t i = 0; i < at->images * at->tiles; i++) {
            int64_t image = i / at->tiles, y = 2 * (i % at->tiles);
            float *upper = sums + r * p->sums_pitch + image * at->pixels + y * p->x.size;
            finite &= p->blocks->winograd->output(m + r * p->pitch + i * p->across, p->point_pitch, p->x.size, upper,
                                                  at->y + y + 1 < p->y.size ? upper + p->x.size : NULL);
        }
    return finite;
}

/* One pixel, as it is defined. */
static float plain_sum(const winograd *p, const float *image, const float *w, int64_t y, int64_t x)
{
    const samba_contract *c = &p->frame.contract;
    float sum = 0;
    for (int64_t channel = 0; channel < p->channels; channel++)
        for (int64_t t = 0; t < 9; t++) {
            int64_t py = p->first_y + y + t / 3, px = p->first_x + x + t % 3;
            if (py >= 0 && py < p->y.limit && px >= 0 && px < p->x.limit)
                sum += w[channel * c->a.inner[p->channel] + p->taps[t]] *
                       image[channel * c->b.inner[p->channel] + py * p->y.memory + px * p->x.memory];
        }
    return sum;
}

static void compute_plainly(const winograd *p, const winograd_unit *at, int64_t row, int64_t rows, float *sums)
{
    for (int64_t r = 0; r < rows; r++)
        for (int64_t i = 0; i < at->images * at->pixels; i++) {
            int64_t image = at->image + i / at->pixels, pixel = i % at->pixels;
            sums[r * p->sums_pitch + i] =
                plain_sum(p, p->image + samba_image_offset(&p->frame.contract, image),
                          p->w + (row + r) * p->frame.contract.a.own[0], at->y + pixel / p->x.size, pixel % p->x.size);
        }
}

/* ---- running ---- */

static void finish_rows(const winograd *p, const samba_workspace *room, const winograd_unit *at, int64_t row, int64_t rows,
                        const float *sums)
{
    for (int64_t j = 0; j < at->images; j++, sums += at->pixels)
        samba_frame_finish(&p->frame, room, (at->image + j) * p->m + row, rows, at->y * p->x.size, at->pixels, sums,
                           p->sums_pitch);
}

static void run_unit(const winograd *p, const samba_workspace *room, const float *u, int64_t unit)
{
    char *own = room->own;
    winograd_unit at = unit_at(p, unit);
    int64_t tiles = at.images * at.tiles * p->across;
    float *v = (float *)(own + p->v_at), *m = (float *)(own + p->m_at), *sums = (float *)(own + p->sums_at);
    transform_input(p, &at, (float *)(own + p->lines_at), v);
    for (int64_t i = at.i0; i < at.i1; i++) {
        int64_t row = row_of(p, i), rows = row_of(p, i + 1) - row;
        samba_fetch fetch = {0};
        for (int64_t j = 0; j < at.images && !p->frame.finish.used; j++)
            samba_tile_fetch(p->frame.program, (at.image + j) * p->m + row, rows, at.y * p->x.size, at.pixels, &fetch);
        for (int64_t point = 0; point < POINTS; point++)
            for (int64_t j = 0; j < tiles; j += WIDTH) {
                samba_dense block = {.rows = rows,
                                     .cols = at_most(WIDTH, tiles - j),
                                     .k = p->channels,
                                     .a = u + point * p->u_point + row * (p->rows_lie ? 1 : p->u_pitch),
                                     .lda = p->rows_lie ? 1 : p->u_pitch,
                                     .ska = p->rows_lie ? p->u_pitch : 1,
                                     .b = v + point * p->channels * p->pitch + j,
                                     .ldb = p->pitch,
                                     .c = m + point * p->point_pitch + j,
                                     .ldc = p->pitch};
                p->blocks->dense(&block, &fetch);
            }
        if (!transform_output(p, &at, rows, m, sums))
            compute_plainly(p, &at, row, rows, sums);
        finish_rows(p, room, &at, row, rows, sums);
    }
}

static void pack(const samba_frame *frame, const samba_workspace *room, bool kept, int64_t part)
{
    transform_weights((const winograd *)frame, (float *)(kept ? room->kept : room->shared), part);
}

static void run(const samba_frame *frame, const samba_workspace *room, int64_t unit, int64_t end)
{
    for (; unit < end; unit++)
        run_unit((const winograd *)frame, room, (const float *)(frame->kept_parts ? room->kept : room->shared), unit);
}

/* ---- how it is dealt ---- */

static double tiles_time(const winograd *p, int64_t rows_of_tiles, int64_t rows);

static double work(const samba_frame *frame, samba_frame_phase phase, int64_t unit)
{
    const winograd *p = (const winograd *)frame;
    if (phase != SAMBA_FRAME_UNITS)
        return (double)p->own * (p->rows_lie ? frame->machine->winograd.weight_lying : frame->machine->winograd.weight);
    winograd_unit at = unit_at(p, unit);
    int64_t rows = row_of(p, at.i1) - row_of(p, at.i0);
    return tiles_time(p, at.images * at.tiles, rows) + (double)rows * (double)(at.images * at.pixels) * frame->element;
}

static void moved(const samba_frame *frame, int threads, samba_moved *moved)
{
    const winograd *p = (const winograd *)frame;
    moved->reads[0] = frame->kept_parts ? 0 : (double)(9 * p->m * p->channels) * 4;
    moved->reads[1] = (double)(p->batches * p->channels * p->y.limit * p->x.limit) * 4 * (double)at_most(p->ranges, threads);
    moved->shared = (double)frame->shared_bytes * (threads - 1);
}

static int held(const samba_frame *frame, samba_held held[SAMBA_HELD])
{
    const winograd *p = (const winograd *)frame;
    (void)frame;
    held[0] = (samba_held){"winograd: products of a block of rows", 2, POINTS * p->point_pitch * 4};
    held[1] = (samba_held){"winograd: rows of weights that registers take at once", 1, p->blocks->dense_rows * p->channels * 4};
    return 2;
}

/* ---- preparing ---- */

static int64_t rows_for(const winograd *p, int64_t tiles)
{
    int64_t most = p->most_products / 4 / POINTS / (tiles + p->lanes), rows = most / REGISTERS * REGISTERS;
    if (p->most_products < p->frame.machine->winograd.products && most > 0 && most < REGISTERS)
        return most; /* many threads, a small cache */
    return rows < REGISTERS ? REGISTERS : at_most(rows, p->frame.machine->winograd.rows);
}

/* ns, about. A row of tiles costs its start, and vectors that are not full where it is short. */
static double tiles_time(const winograd *p, int64_t rows_of_tiles, int64_t rows)
{
    double tiles = (double)round_up(rows_of_tiles * p->across, p->lanes), vectors = (double)divide_up(p->across, p->lanes);
    double points = POINTS * (double)p->channels * (double)rows * tiles / (p->frame.machine->product.rate * p->lanes);
    double few = (double)rows_for(p, rows_of_tiles * p->across);
    return points * (p->frame.machine->winograd.block + p->frame.machine->winograd.block_few / few +
                     p->frame.machine->winograd.block_channels / (double)p->channels) +
           (double)(rows_of_tiles * (p->channels + rows)) *
               (p->frame.machine->winograd.line + p->frame.machine->winograd.vector * vectors) +
           p->frame.machine->winograd.unit_start;
}

static double cost_of(const winograd *p, int threads)
{
    double full = tiles_time(p, p->images * p->box, divide_up(p->m, p->ranges)),
           last = tiles_time(p, p->images * (p->down - (p->boxes - 1) * p->box), divide_up(p->m, p->ranges));
    double all = (double)(p->image_units * p->ranges) * (full * (double)(p->boxes - 1) + last);
    double dealt = (double)divide_up(p->frame.units, threads) * (all / (double)p->frame.units), least = all / threads;
    /* 16 points to be written and read from afar */
    double weights = (double)(p->m * p->channels) *
                     (p->rows_lie ? p->frame.machine->winograd.weight_lying : p->frame.machine->winograd.weight);
    return (dealt > least ? dealt : least) + weights / threads;
}

static double choose_units(winograd *p, int threads)
{
    winograd best = *p;
    double cost = -1;
    int64_t area = p->down * p->across, most_images = at_most(p->batches, p->frame.machine->winograd.tiles / area),
            most_box = at_most(p->down, p->frame.machine->winograd.tiles / p->across);
    bool whole = most_images > 1 || p->frame.contract.whole_rows;
    most_images = most_images < 1 ? 1 : most_images;
    most_box = most_box < 1 ? 1 : most_box;
    for (int64_t images = 1; images <= most_images; images++)
        for (int64_t box = whole ? p->down : 1; box <= (whole ? p->down : most_box); box++)
            for (int64_t ranges = 1; ranges <= threads && ranges <= p->m; ranges++) {
                p->images = images;
                p->image_units = divide_up(p->batches, images);
                p->box = box;
                p->boxes = divide_up(p->down, box);
                p->ranges = ranges;
                p->frame.units = p->image_units * p->boxes * ranges;
                double way = cost_of(p, threads);
                if (cost < 0 || way < cost) {
                    cost = way;
                    best = *p;
                }
            }
    *p = best;
    return cost;
}

static bool is_three(const samba_image_axis *a) { return a->own == 1 && a->taps == 3 && (a->tap_step == 1 || a->tap_step == -1); }

/* What the first window sees first. A window that runs backwards has its taps turned. */
static int64_t first_of(const samba_image_axis *a) { return a->base + (a->tap_step < 0 ? 2 * a->tap_step : 0); }
static int64_t tap_offset(const samba_contract *c, const samba_image_axis *a, int64_t i)
{
    return c->a.inner[a->tap] * (a->tap_step < 0 ? 2 - i : i);
}

static void describe_weights(winograd *p)
{
    const samba_contract *c = &p->frame.contract;
    int64_t row = c->a.own[0], channel = c->a.inner[p->channel];
    for (int64_t t = 0; t < 9; t++)
        p->taps[t] = tap_offset(c, &p->y, t / 3) + tap_offset(c, &p->x, t % 3);
    p->rows_lie = (row < 0 ? -row : row) < (channel < 0 ? -channel : channel);
    p->own = p->rows_lie ? p->m : p->channels;
    p->others = p->rows_lie ? p->channels : p->m;
    p->step = p->rows_lie ? row : channel;
    p->other_step = p->rows_lie ? channel : row;
    p->u_pitch = round_up(p->own, 16);
    p->u_point = p->others * p->u_pitch;
}

static double init(const samba_contract_problem *problem, winograd *p)
{
    const samba_contract *c = &problem->contract;
    if (!samba_image_recognize(problem, &p->y, &p->x) || !is_three(&p->y) || !is_three(&p->x) || p->x.memory != 1 ||
        c->k_rank != 3)
        return -1;
    p->most_products = samba_cpu_room(problem->machine, 2, problem->threads, problem->machine->winograd.products);
    p->lanes = problem->machine->kernels->lanes;
    p->channel = 3 - p->y.tap - p->x.tap;
    p->channels = c->k[p->channel];
    p->batches = problem->batches;
    p->m = problem->m;
    p->across = divide_up(p->x.size, 2);
    p->down = divide_up(p->y.size, 2);
    p->first_y = first_of(&p->y);
    p->first_x = first_of(&p->x);
    if (p->channels < p->frame.machine->winograd.least_channels || p->m < p->frame.machine->winograd.least_channels ||
        (c->whole_rows && p->across * p->down > p->frame.machine->winograd.most_tiles) ||
        p->across > p->frame.machine->winograd.most_tiles)
        return -1;
    describe_weights(p);
    double cost = choose_units(p, problem->threads);
    int64_t tiles = p->images * p->box * p->across;
    p->pitch = round_up(tiles + p->lanes - 1, 16); /* a row of tiles may end within a vector */
    if (POINTS * p->channels * p->pitch * 4 > p->frame.machine->winograd.input)
        return -1;
    p->row_blocks = divide_up(p->m, rows_for(p, tiles));
    p->row_blocks = round_up(p->row_blocks, p->ranges);
    p->row_blocks = at_most(p->row_blocks, p->m);
    p->rows = divide_up(p->m, p->row_blocks);
    p->range_blocks = divide_up(p->row_blocks, p->ranges);
    p->point_pitch = p->rows * p->pitch;
    p->view = (samba_winograd_view){
        p->first_y, p->first_x, p->y.limit, p->x.limit, p->y.memory, p->across, round_up(p->across + 1, p->lanes) + p->lanes};
    p->sums_pitch = round_up(p->images * at_most(2 * p->box, p->y.size) * p->x.size, 16);
    return cost;
}

static double plan(const samba_contract_problem *problem, samba_frame *frame)
{
    double cost = init(problem, (winograd *)frame);
    return cost < 0 ? cost : cost + samba_finish_time(problem) + problem->machine->winograd.start;
}

static samba_status prepare(const samba_preparing *to, const samba_contract_problem *problem, samba_frame *frame)
{
    winograd *p = (winograd *)frame;
    (void)to;
    p->blocks = frame->machine->kernels->blocks;
    p->image = samba_factor_data(problem, &frame->contract.b);
    p->w = samba_factor_data(problem, &frame->contract.a);
    *(problem->constant_a ? &frame->kept_parts : &frame->parts) = p->others;
    *(problem->constant_a ? &frame->kept_bytes : &frame->shared_bytes) = POINTS * p->u_point * 4;
    p->lines_at = samba_frame_room(frame, samba_winograd_lines(&p->view, p->box) * 4);
    p->v_at = samba_frame_room(frame, POINTS * p->channels * p->pitch * 4);
    p->m_at = samba_frame_room(frame, POINTS * p->point_pitch * 4);
    p->sums_at = samba_frame_room(frame, p->rows * p->sums_pitch * 4);
    return SAMBA_OK;
}

const samba_road samba_road_winograd = {"winograd", sizeof(winograd), plan, prepare, pack, run, NULL, work, moved, held};
