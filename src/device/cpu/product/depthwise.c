/* SPDX-License-Identifier: Apache-2.0
 *
 * Depthwise convolutions, forward and to the input: a plane of the result is the sum of one plane, moved and weighted for each
 * tap of the filter. A product of one row by a few k pays for no block, pack or plane of zeros; here vectors run along the
 * result's rows, add what the tables (blocks.h) say reaches them, where it is in memory, and leave lanes that padding reaches
 * out.
 *
 * Where neighbours of the result see pixels that are some apart (a stride, forward), the plane is first sorted by x mod that, in
 * scratch, so that what a vector adds lies together. Pixels and weights of another dtype become floats on the way there. */
#include "device/cpu/product/blocks.h"
#include "device/cpu/product/roads.h"
#include <string.h>

typedef struct axis { /* one dim: index i of the result sees, in tap t, pixel (base + i*step + t*tap_step) / dilation */
    int64_t size, taps, tap_weight; /* of the result; of the filter; from one weight to the next */
    int64_t base, step, tap_step, dilation;
    int64_t limit, memory; /* pixels; elements from one to the next */
    bool windowed;         /* else every pixel is there, and memory is 1 */
} axis;

typedef struct depthwise {
    samba_frame frame;
    const samba_kernels *kernels;
    const samba_blocks *blocks;
    const char *w, *image;
    int64_t w_size, image_size; /* bytes of an element */
    int64_t y_weight, x_weight; /* in memory, from one to the next: weights of another dtype are gathered in scratch */
    bool gathered;
    axis y, x;
    int64_t batches, n;
    int64_t band;           /* rows of the result between two calls of the epilogue */
    int64_t together;       /* small planes before one call of it */
    int64_t per, row_pitch; /* pixels of a phase of a sorted row; elements of a row, sorted or not */
    bool sorted;
    samba_fold_block table;
    int64_t sums_at, plane_at, weights_at;
    int64_t rows; /* of the innermost dim of the epilogue's: planes of one call are of one index of the others */
} depthwise;

enum { MOST_TOGETHER = 64 };

/* ---- what is depthwise ---- */

static axis describe_axis(const samba_contract_problem *problem, int dim, int window, int tap)
{
    const samba_contract *c = &problem->contract;
    axis a = {.size = dim < 0 ? 1 : c->n[dim], .taps = 1, .dilation = 1, .limit = INT64_MAX / 4, .memory = 1};
    if (tap >= 0) {
        a.taps = c->k[tap];
        a.tap_weight = c->a.inner[tap];
        a.tap_step = window >= 0 ? c->b.windows[window].inner[tap] : c->b.inner[tap];
    }
    if (window >= 0) {
        const samba_window *w = &c->b.windows[window];
        a.windowed = true;
        a.base = w->base;
        a.step = w->own[dim];
        a.dilation = w->dilation;
        a.limit = w->limit;
        a.memory = w->stride;
    } else if (dim >= 0) {
        a.step = c->b.own[dim];
    }
    return a;
}

/* The pixels that an axis without a window reaches, as a window would say them: of a row, one beside the other. */
static bool bound(axis *a, bool row)
{
    int64_t own = a->size > 1 ? a->step : 0, tap = a->taps > 1 ? a->tap_step : 0;
    if (a->windowed)
        return true;
    if (own < 0 || tap < 0)
        return false;
    int64_t unit = row || own + tap == 0 ? 1 : samba_greatest_common_divisor(own, tap);
    a->windowed = true;
    a->memory = unit;
    a->step = a->size > 1 ? own / unit : 1;
    a->tap_step = tap / unit;
    a->limit = (a->size - 1) * a->step + (a->taps - 1) * a->tap_step + 1;
    return true;
}

/* Each dim of the result has a window, or moves in memory; each dim of k belongs to one of them. A plane that has to be sorted
 * gets bounds from what it reaches where padding gave it none; its rows must not overlap then. */
static bool recognize(const samba_contract_problem *problem, axis *y, axis *x)
{
    const samba_contract *c = &problem->contract;
    const samba_factor *b = &c->b;
    int window_of[2] = {-1, -1}, tap_of[2] = {-1, -1}, rank = c->n_rank;
    bool taken[SAMBA_CONTRACT_RANK] = {false};
    if (c->class_ != SAMBA_F32 || c->a.window_count || problem->m != 1 || rank > 2 || problem->k == 0)
        return false;
    for (int w = 0; w < b->window_count; w++) {
        int dim = -1;
        for (int i = 0; i < rank; i++)
            if (b->windows[w].own[i] != 0) {
                if (dim >= 0 || window_of[i] >= 0 || b->windows[w].own[i] < 0 || b->own[i] != 0)
                    return false;
                dim = i;
            }
        if (dim < 0)
            return false;
        window_of[dim] = w;
        for (int i = 0; i < c->k_rank; i++)
            if (b->windows[w].inner[i] != 0) {
                if (tap_of[dim] >= 0 || taken[i] || b->inner[i] != 0)
                    return false;
                tap_of[dim] = i;
                taken[i] = true;
            }
    }
    for (int i = 0; i < c->k_rank; i++) { /* taps without a window: to a dim without one, the row's if they stay within it */
        int first = rank == 2 && b->inner[i] <= (c->n[1] - 1) * b->own[1] ? 1 : 0;
        for (int j = 0; j < rank && !taken[i]; j++)
            if (window_of[first ^ j] < 0 && tap_of[first ^ j] < 0) {
                tap_of[first ^ j] = i;
                taken[i] = true;
            }
    }
    for (int i = 0; i < c->k_rank; i++)
        if (!taken[i] && c->k[i] != 1)
            return false;
    *y = describe_axis(problem, rank == 1 ? -1 : 0, rank == 1 ? -1 : window_of[0], rank == 1 ? -1 : tap_of[0]);
    *x = describe_axis(problem, rank - 1, window_of[rank - 1], tap_of[rank - 1]);
    if (x->memory != 1 || x->step < 1 || (x->step > 1 && x->dilation > 1))
        return false;
    if (x->step == 1 && b->dtype == SAMBA_FLOAT32)
        return true;
    bool given = y->windowed;
    if (!bound(x, true) || (rank == 2 && !bound(y, false)))
        return false;
    return given || rank == 1 || y->limit == 1 || y->memory >= x->limit;
}

static int64_t image_rows(const depthwise *p) { return p->y.windowed ? p->y.limit : 1; }

/* False also where rows are more than memory has, as those that are all the same may be, and a plane had to hold them. */
static bool init(const samba_contract_problem *problem, depthwise *p)
{
    int64_t plane;
    if (!recognize(problem, &p->y, &p->x) || p->x.limit == 0 || p->y.limit == 0)
        return false;
    p->frame.contract = problem->contract;
    p->batches = problem->batches;
    p->n = problem->n;
    p->w_size = (int64_t)samba_dtype_table[problem->contract.a.dtype].size;
    p->image_size = (int64_t)samba_dtype_table[problem->contract.b.dtype].size;
    p->gathered = problem->contract.a.dtype != SAMBA_FLOAT32;
    p->y_weight = p->y.tap_weight;
    p->x_weight = p->x.tap_weight;
    if (p->gathered) {
        p->y.tap_weight = p->x.taps;
        p->x.tap_weight = 1;
    }
    p->band =
        p->frame.contract.whole_rows ? p->y.size : problem->machine->depthwise.band / 4 / p->x.size / SAMBA_ALIKE * SAMBA_ALIKE;
    p->band = p->band < 1 ? 1 : p->band;
    p->together = p->band >= p->y.size && p->n > 0 ? problem->machine->depthwise.band / 4 / p->n : 1;
    p->together = p->together < 1 ? 1 : at_most(p->together, MOST_TOGETHER);
    p->sorted = p->x.step > 1 || problem->contract.b.dtype != SAMBA_FLOAT32;
    p->per = p->sorted ? (p->x.limit + p->x.step - 1) / p->x.step : 0;
    p->row_pitch = p->sorted ? p->per * p->x.step : p->y.memory;
    return !p->sorted ||
           (samba_mul_checked(image_rows(p), p->row_pitch * (int64_t)sizeof(float), &plane) && plane < INT64_MAX / 2);
}

/* ---- running ---- */

static void sort_plane(const depthwise *p, const char *image, float *plane)
{
    int64_t step = p->x.step, rows = image_rows(p);
    if (step == 1 && (rows == 1 || p->y.memory == p->row_pitch)) {
        p->kernels->load[p->frame.contract.b.dtype](plane, image, rows * p->row_pitch);
        return;
    }
    for (int64_t i = 0; i < rows; i++)
        for (int64_t phase = 0; phase < step && phase < p->x.limit; phase++)
            p->kernels->load_strided[p->frame.contract.b.dtype](plane + i * p->row_pitch + phase * p->per,
                                                                image + (i * p->y.memory + phase) * p->image_size, step,
                                                                (p->x.limit - phase + step - 1) / step);
}

static void gather_weights(const depthwise *p, const char *w, float *weights)
{
    for (int64_t t = 0; t < p->y.taps; t++, weights += p->x.taps)
        p->kernels->load_strided[p->frame.contract.a.dtype](weights, w + t * p->y_weight * p->w_size, p->x_weight, p->x.taps);
}

typedef struct source { /* the image and the filter of a plane, as they are added */
    const float *image, *w;
    const char *gathered; /* what the scratch for weights has */
} source;

static void open_plane(const depthwise *p, const samba_workspace *room, int64_t unit, source *at)
{
    const samba_contract *c = &p->frame.contract;
    const char *filter = p->w + samba_batch_offset(c, &c->a, unit) * p->w_size;
    const char *image = p->image + samba_batch_offset(c, &c->b, unit) * p->image_size;
    float *sorted = (float *)(room->own + p->plane_at), *weights = (float *)(room->own + p->weights_at);
    if (p->sorted)
        sort_plane(p, image, sorted);
    if (p->gathered && filter != at->gathered)
        gather_weights(p, filter, weights);
    at->image = p->sorted ? sorted : (const float *)image;
    at->w = p->gathered ? weights : (const float *)filter;
    at->gathered = filter;
}

static void run(const samba_frame *frame, const samba_workspace *room, int64_t unit, int64_t last)
{
    const depthwise *p = (const depthwise *)frame;
    float *sums = (float *)(room->own + p->sums_at);
    source at = {.gathered = NULL};
    for (int64_t planes; unit < last; unit += planes) {
        planes = at_most(p->together, at_most(last - unit, p->rows - unit % p->rows));
        for (int64_t i = 0; i < planes && planes > 1; i++) {
            open_plane(p, room, unit + i, &at);
            p->blocks->filter(&p->table, 0, p->y.size, at.image, at.w, sums + i * p->n);
        }
        if (planes > 1) {
            samba_frame_finish(frame, room, unit, planes, 0, p->n, sums, p->n);
            continue;
        }
        open_plane(p, room, unit, &at);
        for (int64_t y = 0, end; y < p->y.size; y = end) {
            end = at_most(y + p->band, p->y.size);
            int64_t cols = (end - y) * p->x.size;
            p->blocks->filter(&p->table, y, end, at.image, at.w, sums);
            samba_frame_finish(frame, room, unit, 1, y * p->x.size, cols, sums, cols);
        }
    }
}

/* ---- preparing ---- */

/* ns of a plane, about. */
static double plane_time(const depthwise *p)
{
    const samba_cpu_machine *machine = p->frame.machine;
    double vectors =
        (double)p->y.size * (double)(round_up(p->x.size, machine->kernels->lanes * p->x.dilation) / machine->kernels->lanes);
    double taps = (double)(p->y.taps * p->x.taps) / (double)(p->y.dilation * p->x.dilation);
    double plane = vectors * (taps * machine->depthwise.tap + machine->depthwise.vector +
                              (p->x.dilation > 1 ? machine->depthwise.vector_dilated : 0)) +
                   (double)p->n * machine->depthwise.element + machine->depthwise.plane;
    if (p->sorted)
        plane +=
            (double)(image_rows(p) * p->x.step) * ((double)p->per * machine->depthwise.sorted + machine->depthwise.sorted_row);
    return plane;
}

static double plan(const samba_contract_problem *problem, samba_frame *frame)
{
    depthwise *p = (depthwise *)frame;
    if (!init(problem, p))
        return -1;
    return plane_time(p) * (double)((p->batches + problem->threads - 1) / problem->threads) + problem->machine->depthwise.start;
}

static double work(const samba_frame *frame, samba_frame_phase phase, int64_t unit)
{
    const depthwise *p = (const depthwise *)frame;
    (void)phase, (void)unit;
    return plane_time(p) + (double)p->n * frame->element;
}

static void moved(const samba_frame *frame, int threads, samba_moved *moved)
{
    const depthwise *p = (const depthwise *)frame;
    (void)threads;
    moved->reads[0] = (double)(p->batches * p->y.taps * p->x.taps) * 4;
    moved->in_order = true; /* and so is the image: plane by plane */
}

static int64_t sums_of(const depthwise *p) { return at_most(p->band, p->y.size) * p->x.size * p->together; }

static int held(const samba_frame *frame, samba_held held[SAMBA_HELD])
{
    const depthwise *p = (const depthwise *)frame;
    (void)frame;
    held[0] = (samba_held){"depthwise: sums of a band", 1, sums_of(p) * 4};
    return p->frame.contract.whole_rows ? 0 : 1;
}

/* Which rows of the image a row of the result adds, and with which weights. */
static samba_status fill_rows(depthwise *p, samba_arena *arena)
{
    const axis *y = &p->y;
    int64_t count = 0;
    int64_t *first = samba_arena_alloc(arena, (size_t)(y->size + 1) * sizeof *first);
    int64_t *offsets = samba_arena_alloc(arena, (size_t)(y->size * y->taps) * sizeof *offsets);
    int64_t *weights = samba_arena_alloc(arena, (size_t)(y->size * y->taps) * sizeof *weights);
    int8_t *alike = samba_arena_alloc(arena, (size_t)y->size);
    if (!first || !offsets || !weights || !alike)
        return SAMBA_ERROR_MEMORY;
    for (int64_t i = 0; i < y->size; i++) {
        first[i] = count;
        for (int64_t t = 0; t < y->taps; t++) {
            int64_t at = y->base + i * y->step + t * y->tap_step, row = at / y->dilation;
            if (y->windowed && (at < 0 || at % y->dilation || row >= y->limit))
                continue;
            offsets[count] = row * (y->windowed ? p->row_pitch : 1);
            weights[count++] = t * y->tap_weight;
        }
    }
    first[y->size] = count;
    for (int64_t i = 0; i < y->size; i++) {
        int64_t own = first[i + 1] - first[i], rows = 1;
        while (rows < SAMBA_ALIKE && i + rows < y->size && first[i + rows + 1] - first[i + rows] == own &&
               memcmp(weights + first[i], weights + first[i + rows], (size_t)own * sizeof *weights) == 0)
            rows++;
        alike[i] = (int8_t)rows;
    }
    p->table.alike = alike;
    p->table.row_end = y->size;
    p->table.first = first;
    p->table.offsets = offsets;
    p->table.weights = weights;
    return SAMBA_OK;
}

static int64_t steps_to(int64_t distance, int64_t step) { return distance > 0 ? divide_up(distance, step) : 0; }

static samba_status fill_columns(depthwise *p, int lanes, samba_arena *arena)
{
    const axis *x = &p->x;
    int64_t pieces = 0, addends = 0, most = at_most(x->dilation, x->size) + (x->size + lanes - 1) / lanes;
    samba_fold_piece *piece = samba_arena_alloc(arena, (size_t)most * sizeof *piece);
    samba_fold_addend *addend = samba_arena_alloc(arena, (size_t)(most * x->taps) * sizeof *addend);
    if (!piece || !addend)
        return SAMBA_ERROR_MEMORY;
    for (int64_t phase = 0; phase < x->dilation && phase < x->size; phase++)
        for (int64_t i = phase; i < x->size; i += lanes * x->dilation) {
            int64_t begin = addends, count = at_most(lanes, steps_to(x->size - i, x->dilation));
            for (int64_t t = 0; t < x->taps; t++) {
                int64_t at = x->base + i * x->step + t * x->tap_step, pixel = at / x->dilation, low = 0, high = count;
                if (at % x->dilation)
                    continue;
                if (x->windowed) {
                    low = steps_to(-pixel, x->step);
                    high = at_most(count, steps_to(x->limit - pixel, x->step));
                }
                if (low >= high)
                    continue;
                int64_t rest = (pixel % x->step + x->step) % x->step;
                addend[addends++] = (samba_fold_addend){.offset = (pixel - rest) / x->step + rest * p->per,
                                                        .lanes = (1u << high) - (1u << low),
                                                        .weight = (int32_t)(t * x->tap_weight)};
            }
            piece[pieces++] = (samba_fold_piece){i, (int32_t)count, (int32_t)begin, (int32_t)addends};
        }
    p->table.width = x->size;
    p->table.step = x->dilation;
    p->table.pieces = piece;
    p->table.addends = addend;
    p->table.piece_count = pieces;
    return SAMBA_OK;
}

static samba_status prepare(const samba_preparing *to, const samba_contract_problem *problem, samba_frame *frame)
{
    depthwise *p = (depthwise *)frame;
    p->kernels = frame->machine->kernels;
    p->rows = frame->finish.rank > 1 ? frame->finish.sizes[frame->finish.rank - 2] : 1;
    p->blocks = p->kernels->blocks;
    p->w = samba_factor_bytes(problem, &frame->contract.a);
    p->image = samba_factor_bytes(problem, &frame->contract.b);
    SAMBA_TRY(fill_rows(p, to->arena));
    SAMBA_TRY(fill_columns(p, p->kernels->lanes, to->arena));
    p->sums_at = samba_frame_room(frame, sums_of(p) * 4);
    p->plane_at = samba_frame_room(frame, p->sorted ? image_rows(p) * p->row_pitch * 4 : 0);
    p->weights_at = samba_frame_room(frame, p->gathered ? p->y.taps * p->x.taps * 4 : 0);
    frame->units = p->batches;
    frame->in_order = true; /* planes are alike */
    return SAMBA_OK;
}

const samba_road samba_road_depthwise = {"depthwise", sizeof(depthwise), plan, prepare, NULL, run, NULL, work, moved, held};
