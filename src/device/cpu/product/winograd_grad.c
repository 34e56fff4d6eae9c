/* SPDX-License-Identifier: Apache-2.0
 *
 * The weight gradient of a convolution of 3 x 3 by fewer multiplications, as winograd.c does the others: F(3 x 3, 2 x 2). A tile
 * of 2 x 2 of the result's gradient and the 4 x 4 pixels that it saw give 16 points; of each the products of rows (channels of
 * the result) and channels are summed over all tiles of all images, then transformed to windows:
 *
 *   V[point][tile][channel]      of some tiles; made by vectors of tiles, then turned     a thread's own
 *   D[point][row][tile]          of the same tiles and a block of rows                    a thread's own
 *   S[point][row][channel]       += D V, by the block kernel of large products            of a unit
 *
 * A unit is a range of channels by a range of rows, one for each thread, so that nobody adds up what others summed: the same bits
 * however many threads there are. Where a row's windows are not all finite they are computed again as they are defined. */
#include "device/cpu/product/blocks.h"
#include "device/cpu/product/roads.h"
#include <string.h>

enum {
    POINTS = SAMBA_WINOGRAD_POINTS,
    WIDTH = SAMBA_PANEL_WIDTH, /* columns of a call of the block kernel */
    LANES = 16,                /* channels that are turned at once */
    ROWS = 48,                 /* most of a block */
    TAPS = 9
};

typedef struct winograd_grad {
    samba_frame frame;
    const samba_kernels *kernels;
    const samba_blocks *blocks;
    const float *image, *gradient;
    int image_dim, y_dim, x_dim;                              /* of k */
    int64_t images, channels, m, height, width, across, down; /* height, width: of the gradient; across, down: its tiles */
    samba_winograd_view seen, given;                          /* by tiles: the image, the gradient */
    int64_t channel_ranges, row_ranges, range_channels, range_rows;
    int64_t together, box, boxes, tiles, pitch; /* images of a block of tiles; rows of tiles; tiles of a block */
    int64_t channel_pitch, sums_point;          /* of a unit's sums */
    int64_t lines_at, strip_at, v_at, d_at, s_at, row_at;
    int lanes;
} winograd_grad;

/* ---- what is a weight gradient ---- */

static bool recognize(const samba_contract_problem *problem, winograd_grad *p)
{
    const samba_contract *c = &problem->contract;
    const samba_factor *a = &c->a, *b = &c->b;
    int taps[2], pixels[2];
    if (c->class_ != SAMBA_F32 || a->dtype != SAMBA_FLOAT32 || b->dtype != SAMBA_FLOAT32 || a->window_count ||
        b->window_count != 2 || problem->batches != 1 || c->m_rank != 1 || c->n_rank != 3 || c->k_rank != 3)
        return false;
    for (int w = 0; w < 2; w++) {
        const samba_window *window = &b->windows[w];
        taps[w] = pixels[w] = -1;
        for (int i = 0; i < 3; i++) {
            if (window->own[i] != 0)
                taps[w] = taps[w] < 0 && window->own[i] == 1 && b->own[i] == 0 ? i : 3;
            if (window->inner[i] != 0)
                pixels[w] = pixels[w] < 0 && window->inner[i] == 1 && b->inner[i] == 0 ? i : 3;
        }
        if (window->dilation != 1 || taps[w] != 1 + w || pixels[w] < 0 || pixels[w] > 2 || c->n[1 + w] != 3)
            return false;
    }
    p->y_dim = pixels[0];
    p->x_dim = pixels[1];
    p->image_dim = 3 - p->y_dim - p->x_dim;
    return p->y_dim != p->x_dim && a->inner[p->x_dim] == 1 && b->windows[1].stride == 1;
}

/* ---- running ---- */

typedef struct grad_unit {
    int64_t c0, c1, i0, i1; /* channels, rows */
} grad_unit;

static grad_unit unit_at(const winograd_grad *p, int64_t unit)
{
    grad_unit at = {.c0 = unit % p->channel_ranges * p->range_channels, .i0 = unit / p->channel_ranges * p->range_rows};
    at.c1 = at_most(at.c0 + p->range_channels, p->channels);
    at.i1 = at_most(at.i0 + p->range_rows, p->m);
    return at;
}

typedef struct tile_block {
    int64_t image, images, tile, tiles; /* rows of tiles */
} tile_block;

static tile_block tiles_at(const winograd_grad *p, int64_t block)
{
    tile_block t = {.image = block / p->boxes * p->together, .tile = block % p->boxes * p->box};
    t.images = at_most(p->together, p->images - t.image);
    t.tiles = at_most(p->box, p->down - t.tile);
    return t;
}

/* Some channels by tiles, then turned into channels of each tile. */
static void make_v(const winograd_grad *p, const grad_unit *at, const tile_block *t, char *own)
{
    const samba_contract *c = &p->frame.contract;
    float *strip = (float *)(own + p->strip_at), *v = (float *)(own + p->v_at);
    int64_t count = t->images * t->tiles * p->across;
    for (int64_t first = at->c0; first < at->c1; first += LANES) {
        int64_t lanes = at_most(LANES, at->c1 - first);
        for (int64_t i = 0; i < lanes; i++)
            for (int64_t j = 0; j < t->images; j++)
                samba_winograd_input(p->blocks->winograd, &p->seen,
                                     p->image + (t->image + j) * c->b.inner[p->image_dim] + (first + i) * c->b.own[0], t->tile,
                                     t->tiles, (float *)(own + p->lines_at), strip + i * p->pitch + j * t->tiles * p->across,
                                     LANES * p->pitch);
        for (int64_t point = 0; point < POINTS; point++)
            p->kernels->transpose4(v + point * p->tiles * p->channel_pitch + first - at->c0, p->channel_pitch,
                                   strip + point * LANES * p->pitch, p->pitch, lanes, count);
    }
}

/* Rows [row, row + rows) by tiles. */
static void make_d(const winograd_grad *p, const tile_block *t, int64_t row, int64_t rows, char *own)
{
    const samba_contract *c = &p->frame.contract;
    for (int64_t r = 0; r < rows; r++)
        for (int64_t j = 0; j < t->images; j++) {
            const float *from = p->gradient + (row + r) * c->a.own[0] + (t->image + j) * c->a.inner[p->image_dim];
            float *line = (float *)(own + p->lines_at), *d = (float *)(own + p->d_at) + r * p->pitch + j * t->tiles * p->across;
            samba_winograd_split(p->blocks->winograd, &p->given, from, t->tile, 2 * t->tiles, p->across, line);
            for (int64_t i = 0; i < t->tiles; i++, line += 4 * p->given.line, d += p->across) {
                const float *const even[2] = {line, line + 2 * p->given.line}, *const odd[2] = {even[0] + p->given.line,
                                                                                                even[1] + p->given.line};
                p->blocks->winograd->gradient(even, odd, p->across, d, ROWS * p->pitch);
            }
        }
}

static void add_products(const winograd_grad *p, const grad_unit *at, const tile_block *t, bool first, int64_t row, int64_t rows,
                         char *own)
{
    int64_t channels = at->c1 - at->c0, count = t->images * t->tiles * p->across;
    const float *d = (const float *)(own + p->d_at), *v = (const float *)(own + p->v_at);
    samba_fetch fetch = {0};
    for (int64_t point = 0; point < POINTS; point++)
        for (int64_t j = 0; j < channels; j += WIDTH) {
            float *s = (float *)(own + p->s_at) + point * p->sums_point + (row - at->i0) * p->channel_pitch + j;
            samba_dense block = {.rows = rows,
                                 .cols = at_most(WIDTH, channels - j),
                                 .k = count,
                                 .a = d + point * ROWS * p->pitch,
                                 .lda = p->pitch,
                                 .ska = 1,
                                 .b = v + point * p->tiles * p->channel_pitch + j,
                                 .ldb = p->channel_pitch,
                                 .from = first ? NULL : s,
                                 .from_ld = p->channel_pitch,
                                 .c = s,
                                 .ldc = p->channel_pitch};
            p->blocks->dense(&block, &fetch);
        }
}

/* A row's windows as they are defined. */
static void compute_plainly(const winograd_grad *p, int64_t row, int64_t c0, int64_t channels, float *windows)
{
    const samba_contract *c = &p->frame.contract;
    for (int64_t i = 0; i < channels * TAPS; i++) {
        int64_t dy = p->seen.y + i % TAPS / 3, dx = p->seen.x + i % 3;
        float sum = 0;
        for (int64_t image = 0; image < p->images; image++)
            for (int64_t y = 0; y < p->height; y++)
                for (int64_t x = 0; x < p->width; x++)
                    if (y + dy >= 0 && y + dy < p->seen.height && x + dx >= 0 && x + dx < p->seen.width)
                        sum += p->gradient[row * c->a.own[0] + image * c->a.inner[p->image_dim] + y * p->given.pitch + x] *
                               p->image[image * c->b.inner[p->image_dim] + (c0 + i / TAPS) * c->b.own[0] +
                                        (y + dy) * p->seen.pitch + x + dx];
        windows[i] = sum;
    }
}

static void finish_rows(const winograd_grad *p, const samba_workspace *room, const grad_unit *at)
{
    char *own = room->own;
    int64_t channels = at->c1 - at->c0;
    float *windows = (float *)(own + p->row_at);
    for (int64_t i = at->i0; i < at->i1; i++) {
        const float *s = (const float *)(own + p->s_at) + (i - at->i0) * p->channel_pitch;
        if (!p->blocks->winograd->window(s, p->sums_point, channels, windows))
            compute_plainly(p, i, at->c0, channels, windows);
        samba_frame_finish(&p->frame, room, i, 1, at->c0 * TAPS, channels * TAPS, windows, channels * TAPS);
    }
}

static void run_unit(const winograd_grad *p, const samba_workspace *room, int64_t unit)
{
    char *own = room->own;
    grad_unit at = unit_at(p, unit);
    int64_t blocks = divide_up(p->images, p->together) * p->boxes;
    for (int64_t b = 0; b < blocks; b++) {
        tile_block t = tiles_at(p, b);
        make_v(p, &at, &t, own);
        for (int64_t row = at.i0; row < at.i1; row += ROWS) {
            int64_t rows = at_most(ROWS, at.i1 - row);
            make_d(p, &t, row, rows, own);
            add_products(p, &at, &t, b == 0, row, rows, own);
        }
    }
    finish_rows(p, room, &at);
}

static void run(const samba_frame *frame, const samba_workspace *room, int64_t unit, int64_t end)
{
    for (; unit < end; unit++)
        run_unit((const winograd_grad *)frame, room, unit);
}

/* ---- how it is dealt ---- */

static double range_time(const winograd_grad *p, int64_t range_channels, int64_t range_rows);

static double work(const samba_frame *frame, samba_frame_phase phase, int64_t unit)
{
    const winograd_grad *p = (const winograd_grad *)frame;
    grad_unit at = unit_at(p, unit);
    (void)phase;
    return range_time(p, at.c1 - at.c0, at.i1 - at.i0) + (double)((at.c1 - at.c0) * (at.i1 - at.i0) * TAPS) * frame->element;
}

static void moved(const samba_frame *frame, int threads, samba_moved *moved)
{
    const winograd_grad *p = (const winograd_grad *)frame;
    (void)threads;
    moved->reads[0] = (double)(p->images * p->m * p->height * p->width) * 4 * (double)p->channel_ranges;
    moved->reads[1] = (double)(p->images * p->channels * p->seen.height * p->seen.width) * 4 * (double)p->row_ranges;
    moved->in_order = p->channel_ranges == 1;
}

static int64_t block_bytes(const winograd_grad *p)
{
    return POINTS * (p->tiles * p->channel_pitch + at_most(ROWS, p->range_rows) * p->pitch) * 4;
}

static int held(const samba_frame *frame, samba_held held[SAMBA_HELD])
{
    const winograd_grad *p = (const winograd_grad *)frame;
    (void)frame;
    held[0] = (samba_held){"winograd_grad: tiles of a block, by channels and by rows", 2, block_bytes(p)};
    return 1;
}

/* ---- preparing ---- */

/* ns, about: both transforms by rows of tiles, whose start counts, and vectors of them, that of the image turned as well; the
 * sums, which each block of tiles reads and writes, and their transform. */
static double range_time(const winograd_grad *p, int64_t range_channels, int64_t range_rows)
{
    int lanes = p->lanes;
    double channels = (double)range_channels, rows = (double)range_rows, count = (double)(p->images * p->down * p->across);
    double vectors = (double)divide_up(p->across, lanes), lines = (double)(p->images * p->down),
           blocks = (double)(divide_up(p->images, p->together) * p->boxes);
    double products = POINTS * count * rows * (double)round_up(range_channels, lanes) / (p->frame.machine->product.rate * lanes);
    double turned = POINTS * count * (double)round_up(range_channels, LANES) * p->frame.machine->winograd_grad.turn / lanes * 4.0;
    return products * p->frame.machine->winograd_grad.block +
           lines * (channels + rows) * (p->frame.machine->winograd_grad.line + p->frame.machine->winograd_grad.vector * vectors) +
           turned +
           rows * channels *
               (blocks * POINTS * p->frame.machine->winograd_grad.sum_again + p->frame.machine->winograd_grad.window) +
           p->frame.machine->winograd_grad.start;
}

/* Blocks of at most about so many tiles: images, or rows of tiles of one. */
static void cut_tiles(winograd_grad *p, int lanes, int64_t most)
{
    int64_t area = p->down * p->across;
    p->together = at_most(p->images, area < most ? most / area : 1);
    p->box = p->together > 1 ? p->down : at_most(p->down, most / p->across < 1 ? 1 : most / p->across);
    p->boxes = divide_up(p->down, p->box);
    p->tiles = p->together * p->box * p->across;
    p->pitch = round_up(p->tiles + lanes - 1, 16);
}

static double init(const samba_contract_problem *problem, winograd_grad *p)
{
    const samba_contract *c = &problem->contract;
    int lanes = problem->machine->kernels->lanes, threads = problem->threads;
    if (!recognize(problem, p))
        return -1;
    p->lanes = lanes;
    p->images = c->k[p->image_dim];
    p->height = c->k[p->y_dim];
    p->width = c->k[p->x_dim];
    p->channels = c->n[0];
    p->m = problem->m;
    p->down = divide_up(p->height, 2);
    p->across = divide_up(p->width, 2);
    if (p->channels < p->frame.machine->winograd_grad.least || p->m < p->frame.machine->winograd_grad.least ||
        p->across > p->frame.machine->winograd_grad.most_tiles || problem->k == 0 ||
        POINTS * p->m * p->channels * 4 > p->frame.machine->winograd_grad.sums)
        return -1;
    int64_t line = round_up(p->across + 1, lanes) + lanes;
    p->seen = (samba_winograd_view){c->b.windows[0].base,
                                    c->b.windows[1].base,
                                    c->b.windows[0].limit,
                                    c->b.windows[1].limit,
                                    c->b.windows[0].stride,
                                    p->across,
                                    line};
    p->given = (samba_winograd_view){
        .height = p->height, .width = p->width, .pitch = c->a.inner[p->y_dim], .across = p->across, .line = line};
    cut_tiles(p, lanes, p->frame.machine->winograd_grad.tiles);
    double cost = -1;
    winograd_grad best = *p;
    for (int64_t ranges = 1; ranges <= threads; ranges++) {
        if (threads % ranges || (ranges > 1 && c->whole_rows))
            continue;
        p->range_channels = at_most(round_up(divide_up(p->channels, ranges), LANES), p->channels);
        p->channel_ranges = divide_up(p->channels, p->range_channels);
        p->range_rows = divide_up(p->m, threads / ranges);
        p->row_ranges = divide_up(p->m, p->range_rows);
        double way = range_time(p, p->range_channels, p->range_rows);
        if (cost < 0 || way < cost) {
            cost = way;
            best = *p;
        }
    }
    *p = best;
    p->channel_pitch = round_up(p->range_channels, LANES);
    for (int64_t tiles = p->tiles / 2, most = samba_cpu_room(problem->machine, 2, threads, INT64_MAX);
         block_bytes(p) > most && tiles >= LANES; tiles /= 2)
        cut_tiles(p, lanes, tiles);
    cost = range_time(p, p->range_channels, p->range_rows);
    p->sums_point = p->range_rows * p->channel_pitch;
    return cost;
}

static double plan(const samba_contract_problem *problem, samba_frame *frame)
{
    double cost = init(problem, (winograd_grad *)frame);
    return cost < 0 ? cost : cost + samba_finish_time(problem);
}

static samba_status prepare(const samba_preparing *to, const samba_contract_problem *problem, samba_frame *frame)
{
    winograd_grad *p = (winograd_grad *)frame;
    (void)to;
    p->kernels = frame->machine->kernels;
    p->blocks = p->kernels->blocks;
    p->image = samba_factor_data(problem, &frame->contract.b);
    p->gradient = samba_factor_data(problem, &frame->contract.a);
    p->lines_at = samba_frame_room(frame, samba_winograd_lines(&p->seen, p->box) * 4);
    p->strip_at = samba_frame_room(frame, POINTS * LANES * p->pitch * 4);
    p->v_at = samba_frame_room(frame, POINTS * p->tiles * p->channel_pitch * 4);
    p->d_at = samba_frame_room(frame, POINTS * ROWS * p->pitch * 4);
    p->s_at = samba_frame_room(frame, POINTS * p->sums_point * 4);
    p->row_at = samba_frame_room(frame, p->range_channels * TAPS * 4);
    frame->units = p->channel_ranges * p->row_ranges;
    frame->in_order = true; /* one for each thread */
    return SAMBA_OK;
}

const samba_road samba_road_winograd_grad = {
    "winograd_grad", sizeof(winograd_grad), plan, prepare, NULL, run, NULL, work, moved, held};
