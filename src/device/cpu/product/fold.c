/* SPDX-License-Identifier: Apache-2.0
 *
 * The input gradient of a convolution, folded: every element of dy is multiplied with the whole window once, and the products are
 * added up where the window lay.
 *
 *   products[c, tap][pixel of dy] = sum over o of w[o, c, tap] dy[o, pixel]      a dense product
 *   dx[c, pixel * stride - padding + tap * dilation] += products[c, tap][pixel]
 *
 * Seen from dx, as contract.c sees it, most of what a window meets is nothing where its stride is more than 1 (the zeros between
 * dy's pixels) or where dx is much larger than dy (the padding around it). Here nothing but dy is multiplied, and the price is
 * the adding, one addition a product for every o that went into it.
 *
 *   shared scratch   the weights, [tap of the depth][block of channels][o][channel, tap], packed by all
 *                    threads
 *   own scratch      a panel [o][pixels] of dy; products of one block of channels; the unit's part of dx
 *
 * A unit is an image, or several small ones side by side in one panel, and a range of channels whose dx stays in the second
 * cache, ends in the epilogue and is written once. Of a volume it is a slice of dx, to which each tap of the depth adds one of
 * dy, with weights of its own. Operands of 16 bits become float32 where they are packed. */
#include "device/cpu/product/blocks.h"
#include "device/cpu/product/micro_kernel.h"
#include "device/cpu/product/roads.h"
#include <math.h>
#include <string.h>

typedef struct axis {                         /* one dim of the image */
    int64_t size, own_stride;                 /* of dx */
    int64_t limit, stride, memory;            /* of dy: pixels; how many of dx's to the next; elements to the next */
    int64_t taps, tap_step, base, tap_memory; /* dx's x sees in tap t pixel (base + x + t*tap_step) / stride; taps of w */
    int64_t start;                            /* elements from where dy is said to lie to the first pixel */
} axis;

typedef struct fold {
    samba_frame frame;
    const samba_kernels *kernels;
    const samba_blocks *blocks;
    const char *w, *dy;
    int w_dtype, dy_dtype;
    axis z, y, x;
    int64_t batches, groups, m, n, k, taps;  /* groups: how many different w there are, the innermost of the batch; n, taps: of a
                                              * slice */
    int64_t o_memory[2], c_memory;           /* of dy, of w; of w */
    int64_t channels, channel_blocks;        /* of a block; of all */
    int64_t band, band_width, bands, across; /* pixels of dy in a block: rows, columns; blocks down, and across */
    int64_t images, image_blocks;            /* that small images share a panel; blocks of all with one group */
    int64_t unit_blocks, unit_ranges;
    int64_t ld, step, steps; /* of products and the panel; o at once */
    int64_t block_bytes, tap_bytes, group_bytes, image_at, panel_at, products_at;
    samba_fold_block *folds;             /* of each block of pixels */
    samba_micro_kernel made[2][2][2][2]; /* [last channels][last pixels][last o][first o] */
} fold;

/* ---- what is an input gradient ---- */

static axis describe_axis(const samba_contract_problem *problem, int dim, int window, int tap)
{
    const samba_contract *c = &problem->contract;
    axis a = {.size = dim < 0 ? 1 : c->n[dim], .stride = 1, .taps = 1};
    if (tap >= 0) {
        a.taps = c->k[tap];
        a.tap_memory = c->a.inner[tap];
    }
    if (window >= 0) {
        const samba_window *w = &c->b.windows[window];
        a.limit = w->limit;
        a.stride = w->dilation;
        a.memory = w->stride;
        a.base = w->base;
        a.tap_step = tap >= 0 ? w->inner[tap] : 0;
    } else { /* no window: wherever taps reach there are pixels */
        a.memory = dim < 0 ? 0 : c->b.own[dim];
        a.tap_step = tap >= 0 ? c->b.inner[tap] / a.memory : 0;
        int64_t reach = (a.taps - 1) * a.tap_step;
        a.limit = a.size + (reach < 0 ? -reach : reach);
        a.base = reach < 0 ? -reach : 0;
        a.start = -a.base * a.memory;
    }
    return a;
}

/* The dim of k that moves along a dim without a window by fewest pixels, fewer than there are; -1. */
static int tap_along(const samba_contract *c, int dim, const bool *is_tap)
{
    int64_t own = c->b.own[dim], fewest = c->n[dim];
    int tap = -1;
    for (int i = 0; i < c->k_rank && own > 0; i++) {
        int64_t pixels = c->b.inner[i] / own, count = pixels < 0 ? -pixels : pixels;
        if (is_tap[i] || c->b.inner[i] % own != 0 || count == 0 || count >= fewest)
            continue;
        fewest = count;
        tap = i;
    }
    return tap;
}

static bool is_narrow(const samba_factor *factor)
{
    return factor->dtype == SAMBA_FLOAT32 || factor->dtype == SAMBA_BFLOAT16 || factor->dtype == SAMBA_FLOAT16;
}

static bool recognize(const samba_contract_problem *problem, fold *f, int *o)
{
    const samba_contract *c = &problem->contract;
    const samba_factor *b = &c->b;
    int window_of[3] = {-1, -1, -1}, tap_of[3] = {-1, -1, -1};
    bool is_tap[SAMBA_CONTRACT_RANK] = {false};
    if (c->class_ != SAMBA_F32 || !is_narrow(&c->a) || !is_narrow(b) || c->a.window_count || b->window_count == 0 ||
        c->m_rank != 1 || c->n_rank > 3 || problem->k == 0 || c->batch_rank > 2 || (c->batch_rank == 2 && c->a.batch[0] != 0))
        return false;
    for (int w = 0; w < b->window_count; w++) {
        const samba_window *window = &b->windows[w];
        int dim = -1, tap = -1;
        for (int i = 0; i < c->n_rank; i++)
            if (window->own[i] != 0) {
                if (dim >= 0 || window->own[i] != 1 || b->own[i] != 0)
                    return false;
                dim = i;
            }
        for (int i = 0; i < c->k_rank; i++)
            if (window->inner[i] != 0) {
                if (tap >= 0 || is_tap[i] || b->inner[i] != 0)
                    return false;
                tap = i;
            }
        if (dim < 0 || window_of[dim] >= 0)
            return false;
        window_of[dim] = w;
        tap_of[dim] = tap;
        if (tap >= 0)
            is_tap[tap] = true;
    }
    for (int dim = c->n_rank - 1; dim >= 0; dim--) {
        if (window_of[dim] >= 0 || (tap_of[dim] = tap_along(c, dim, is_tap)) < 0)
            continue;
        is_tap[tap_of[dim]] = true;
    }
    *o = -1;
    for (int i = 0; i < c->k_rank; i++)
        if (!is_tap[i]) {
            if (*o >= 0)
                return false;
            *o = i;
        }
    axis *axes[3] = {&f->x, &f->y, &f->z};
    for (int i = 0; i < 3; i++) {
        int dim = c->n_rank - 1 - i;
        *axes[i] = describe_axis(problem, dim < 0 ? -1 : dim, dim < 0 ? -1 : window_of[dim], dim < 0 ? -1 : tap_of[dim]);
    }
    return true;
}

/* ---- running ---- */

static int64_t channels_of(const fold *f, int64_t block) { return at_most(f->channels, f->m - block * f->channels); }
static int64_t depth_of(const fold *f, int64_t step) { return at_most(f->step, f->k - step * f->step); }

/* Of a group's packed weights for a tap of the depth those of a block of channels, [o][channel, tap]. */
static void pack_weights(const fold *f, char *shared, int64_t group, int64_t tap, int64_t block)
{
    int64_t channels = channels_of(f, block), rows = channels * f->taps, last = f->frame.contract.batch_rank - 1;
    int64_t size = (int64_t)samba_dtype_size((samba_dtype)f->w_dtype);
    int64_t at =
        (last >= 0 ? group * f->frame.contract.a.batch[last] : 0) + block * f->channels * f->c_memory + tap * f->z.tap_memory;
    const char *w = f->w + at * size;
    float *d = (float *)(shared + group * f->group_bytes + tap * f->tap_bytes + block * f->block_bytes);
    bool window = f->x.tap_memory == 1 && (f->y.taps == 1 || f->y.tap_memory == f->x.taps); /* lies together */
    if (window && f->c_memory == f->taps) {
        for (int64_t o = 0; o < f->k; o++)
            f->kernels->load[f->w_dtype](d + o * rows, w + o * f->o_memory[1] * size, rows);
        return;
    }
    for (int64_t c = 0; c < channels; c++, d += f->taps)
        for (int64_t o = 0; o < f->k; o++) {
            const char *from = w + (c * f->c_memory + o * f->o_memory[1]) * size;
            for (int64_t t = 0; t < f->y.taps; t++)
                f->kernels->load_strided[f->w_dtype](d + o * rows + t * f->x.taps, from + t * f->y.tap_memory * size,
                                                     f->x.tap_memory, f->x.taps);
        }
}

typedef struct pixels { /* a block of dy's */
    int64_t y, x, rows, width;
} pixels;

static pixels block_of_pixels(const fold *f, int64_t block)
{
    pixels p = {.y = block / f->across * f->band, .x = block % f->across * f->band_width};
    p.rows = at_most(f->band, f->y.limit - p.y);
    p.width = at_most(f->band_width, f->x.limit - p.x);
    return p;
}

/* Full panels of an image, or of several: what is left over when they are dealt has fewer columns. */
static int64_t most_columns(const fold *f) { return f->images * f->band * f->band_width; }

static void pack_panel(const fold *f, const char *dy, const pixels *p, float *panel)
{
    bool together = f->x.memory == 1 && f->y.memory == p->width;
    int64_t size = (int64_t)samba_dtype_size((samba_dtype)f->dy_dtype);
    dy += (p->y * f->y.memory + p->x * f->x.memory) * size;
    for (int64_t o = 0; o < f->k; o++, dy += f->o_memory[0] * size, panel += f->ld) {
        if (together || (p->rows == 1 && f->x.memory == 1)) {
            f->kernels->load[f->dy_dtype](panel, dy, p->rows * p->width);
            continue;
        }
        for (int64_t i = 0; i < p->rows; i++)
            f->kernels->load_strided[f->dy_dtype](panel + i * p->width, dy + i * f->y.memory * size, f->x.memory, p->width);
    }
}

static void multiply(const fold *f, const float *w, const float *panel, int64_t channels, int64_t columns, float *products)
{
    int64_t rows = channels * f->taps;
    for (int64_t step = 0; step < f->steps; step++) {
        int64_t depth = depth_of(f, step);
        const float *a = w + step * f->step * rows, *b = panel + step * f->step * f->ld;
        samba_micro_kernel_run(&f->made[channels < f->channels][columns < most_columns(f)][depth < f->step][step == 0], a, b,
                               products);
    }
}

typedef struct fold_unit {
    int64_t group, image, count; /* images */
    int64_t z;                   /* slice of dx */
    int64_t first, end;          /* blocks of channels */
    int64_t row, rows;           /* channels */
} fold_unit;

static fold_unit unit_at(const fold *f, int64_t unit)
{
    int64_t slice = unit / f->unit_ranges;
    fold_unit at = {.z = slice % f->z.size,
                    .group = slice / f->z.size % f->groups,
                    .image = slice / f->z.size / f->groups * f->images,
                    .first = unit % f->unit_ranges * f->unit_blocks};
    at.count = at_most(at.image + f->images, f->batches / f->groups) - at.image;
    at.end = at_most(at.first + f->unit_blocks, f->channel_blocks);
    at.row = at.first * f->channels;
    at.rows = at_most(at.end * f->channels, f->m) - at.row;
    return at;
}

/* dy's slice, `dy_z` of it, times the weights of a tap of the depth, added to the unit's part of dx. */
static void run_slice(const fold *f, const fold_unit *u, const char *shared, char *own, int64_t dy_z)
{
    float *result = (float *)(own + f->image_at), *panel = (float *)(own + f->panel_at);
    float *products = (float *)(own + f->products_at);
    int64_t size = (int64_t)samba_dtype_size((samba_dtype)f->dy_dtype);
    for (int64_t i = 0; i < f->bands * f->across; i++) {
        pixels p = block_of_pixels(f, i);
        int64_t columns = p.rows * p.width;
        for (int64_t j = 0; j < u->count; j++) {
            int64_t at = samba_batch_offset(&f->frame.contract, &f->frame.contract.b, (u->image + j) * f->groups + u->group);
            pack_panel(f, f->dy + (at + dy_z * f->z.memory) * size, &p, panel + j * columns);
        }
        for (int64_t block = u->first; block < u->end; block++) {
            int64_t channels = channels_of(f, block);
            float *to = result + (block * f->channels - u->row) * f->n;
            multiply(f, (const float *)(shared + block * f->block_bytes), panel, channels, u->count * columns, products);
            for (int64_t j = 0; j < u->count; j++, to += u->rows * f->n)
                f->blocks->fold(&f->folds[i], products + j * columns, f->taps * f->ld, to, f->n, channels);
        }
    }
}

static void run_unit(const fold *f, const samba_workspace *room, int64_t unit)
{
    const fold_unit u = unit_at(f, unit);
    const char *shared = (const char *)room->shared + u.group * f->group_bytes;
    float *result = (float *)((char *)room->own + f->image_at);
    memset(result, 0, (size_t)(u.count * u.rows * f->n) * sizeof *result);
    for (int64_t t = 0; t < f->z.taps; t++) {
        int64_t at = f->z.base + u.z + t * f->z.tap_step;
        if (at >= 0 && at % f->z.stride == 0 && at / f->z.stride < f->z.limit)
            run_slice(f, &u, shared + t * f->tap_bytes, room->own, at / f->z.stride);
    }
    for (int64_t j = 0; j < u.count; j++, result += u.rows * f->n) {
        int64_t at = ((u.image + j) * f->groups + u.group) * f->m + u.row;
        samba_frame_finish(&f->frame, room, at, u.rows, u.z * f->n, f->n, result, f->n);
    }
}

static void pack(const samba_frame *frame, const samba_workspace *room, bool kept, int64_t part)
{
    const fold *f = (const fold *)frame;
    (void)kept;
    int64_t tap = part / f->channel_blocks;
    pack_weights(f, room->shared, tap / f->z.taps, tap % f->z.taps, part % f->channel_blocks);
}

static void run(const samba_frame *frame, const samba_workspace *room, int64_t unit, int64_t end)
{
    for (; unit < end; unit++)
        run_unit((const fold *)frame, room, unit);
}

/* ---- how it is dealt ---- */

static double rows_time(const fold *f, int64_t channels);

static double work(const samba_frame *frame, samba_frame_phase phase, int64_t unit)
{
    const fold *f = (const fold *)frame;
    if (phase != SAMBA_FRAME_UNITS)
        return (double)(channels_of(f, unit % f->channel_blocks) * f->taps * f->k) * frame->machine->fold.weight;
    fold_unit at = unit_at(f, unit);
    return (double)at.count * (rows_time(f, at.rows) + (double)(at.rows * f->n) * frame->element);
}

static void moved(const samba_frame *frame, int threads, samba_moved *moved)
{
    const fold *f = (const fold *)frame;
    double w = (double)samba_dtype_size((samba_dtype)f->w_dtype), dy = (double)samba_dtype_size((samba_dtype)f->dy_dtype);
    moved->reads[0] = (double)(f->groups * f->m * f->taps * f->k) * (double)f->z.taps * w;
    moved->reads[1] = (double)(f->batches * f->k * f->y.limit * f->x.limit) * (double)f->z.limit * dy *
                      (double)at_most(f->unit_ranges, threads);
    moved->shared = (double)frame->shared_bytes * (threads - 1);
}

static int held(const samba_frame *frame, samba_held held[SAMBA_HELD])
{
    const fold *f = (const fold *)frame;
    (void)frame;
    held[0] = (samba_held){"fold: a panel of the gradient", 2, f->k * f->ld * 4};
    held[1] = (samba_held){"fold: products of a block of channels", 2, f->channels * f->taps * f->ld * 4};
    held[2] = (samba_held){"fold: a unit's result", 2, f->images * at_most(f->unit_blocks * f->channels, f->m) * f->n * 4};
    return 3;
}

/* ---- preparing ---- */

/* Parts of at most `most`, alike in size. */
static int64_t deal(int64_t total, int64_t most, int64_t *size)
{
    int64_t parts = divide_up(total, most < 1 ? 1 : most);
    *size = divide_up(total, parts);
    return divide_up(total, *size);
}

static void choose_blocks(fold *f, int threads)
{
    int64_t most = samba_cpu_room(f->frame.machine, 2, threads, f->frame.machine->fold.panel) / 4 / f->k;
    most = most < f->frame.machine->fold.least_columns ? f->frame.machine->fold.least_columns
                                                       : at_most(most, f->frame.machine->fold.most_columns);
    f->steps = deal(f->k, f->frame.machine->product.step, &f->step);
    f->across = deal(f->x.limit, most, &f->band_width);
    f->bands = deal(f->y.limit, f->across > 1 ? 1 : most / f->band_width, &f->band);
    f->images = 1;
    int64_t all = f->batches / f->groups, area = f->y.limit * f->x.limit;
    if (f->bands * f->across == 1)
        deal(all, at_most(at_most(most, f->frame.machine->fold.most_together) / area, all / threads), &f->images);
    f->image_blocks = divide_up(all, f->images);
    f->ld = round_up(most_columns(f), 16);
    int64_t most_channels = samba_cpu_room(f->frame.machine, 2, threads, INT64_MAX) / 4 / (f->n * f->images);
    f->channel_blocks = deal(f->m, at_most(f->frame.machine->fold.products / 4 / (f->ld * f->taps), most_channels), &f->channels);
    int64_t blocks = f->frame.machine->fold.image / 4 / (f->n * f->channels * f->images),
            image_units = f->image_blocks * f->groups * f->z.size;
    int64_t wanted = divide_up(f->frame.machine->fold.units * threads, image_units);
    if (threads > SAMBA_FEW_THREADS && f->channel_blocks < wanted && image_units % threads)
        f->channel_blocks = deal(f->m, divide_up(f->m, wanted), &f->channels);
    f->unit_ranges = deal(f->channel_blocks, blocks, &f->unit_blocks);
    if (f->unit_ranges < wanted && image_units % threads)
        f->unit_ranges = deal(f->channel_blocks, f->channel_blocks / wanted, &f->unit_blocks);
    f->frame.units = image_units * f->unit_ranges;
}

static bool init(const samba_contract_problem *problem, fold *f)
{
    const samba_contract *c = &problem->contract;
    int o, last = c->batch_rank - 1;
    if (!recognize(problem, f, &o))
        return false;
    f->batches = problem->batches;
    f->groups = last >= 0 && c->a.batch[last] != 0 ? c->batch[last] : 1;
    f->m = problem->m;
    f->n = f->y.size * f->x.size;
    f->w_dtype = c->a.dtype;
    f->dy_dtype = c->b.dtype;
    f->k = o < 0 ? 1 : c->k[o];
    f->taps = f->y.taps * f->x.taps;
    f->o_memory[0] = o < 0 ? 0 : c->b.inner[o];
    f->o_memory[1] = o < 0 ? 0 : c->a.inner[o];
    f->c_memory = c->a.own[0];
    if (f->z.limit == 0 || f->y.limit == 0 || f->x.limit == 0 || f->n == 0 || f->z.size == 0)
        return false;
    if (f->z.size > 1 && c->whole_rows) /* a unit ends with a slice of them */
        return false;
    choose_blocks(f, problem->threads);
    return true;
}

/* ns of some channels of an image, about. */
static double rows_time(const fold *f, int64_t channels)
{
    const samba_cpu_machine *machine = f->frame.machine;
    int64_t vector = machine->kernels->lanes, columns = most_columns(f);
    double rate = machine->product.rate * (double)vector, area = (double)(f->y.limit * f->x.limit),
           rows = (double)(channels * f->taps);
    double waste = (double)round_up(columns, vector) / (double)columns;
    double run = (double)round_up(f->x.size, f->x.stride * vector) / (double)f->x.size;
    /* taps of the depth that meet a slice, in the mean */
    double taps = (double)f->z.taps * (double)f->z.limit / (double)f->z.size, depth = fmin((double)f->z.taps, taps);
    double image = rows * area * waste * (double)f->k / rate *
                   (machine->fold.block + machine->fold.block_rows / (double)(f->channels * f->taps));
    image += rows * area * run * machine->fold.add / rate;
    image += (double)f->k * area * machine->fold.gather + (double)f->channel_blocks * machine->fold.block_start;
    return image * depth + (double)(channels * f->n) * (f->x.stride > 1 ? machine->fold.element_strided : machine->fold.element);
}

static double plan(const samba_contract_problem *problem, samba_frame *frame)
{
    fold *f = (fold *)frame;
    if (!init(problem, f))
        return -1;
    const samba_cpu_machine *machine = problem->machine;
    double ranges = (double)f->unit_ranges, rows = (double)(f->m * f->taps) * (double)f->z.taps, start = rows_time(f, 0);
    double image = rows_time(f, f->m) - start + ranges * start;
    double turns = (double)(divide_up(f->frame.units, problem->threads) * f->images) / (double)f->unit_ranges;
    /* read anew for each panel */
    double weights = rows * (double)(f->k * f->groups),
           far = weights * 4 > (double)machine->fold.weights ? machine->fold.weight_far : 0;
    return image * turns + weights * (machine->fold.weight / problem->threads + far) + samba_finish_time(problem) +
           machine->fold.start;
}

/* What `count` pixels of dy from `first` on reach of dx: tables are as long as that, however large the image. */
static void find_reach(const axis *a, int64_t first, int64_t count, int64_t *low, int64_t *end)
{
    int64_t taps = (a->taps - 1) * a->tap_step;
    *low = first * a->stride - a->base - (taps > 0 ? taps : 0);
    *end = (first + count - 1) * a->stride - a->base - (taps < 0 ? taps : 0) + 1;
    *low = *low < 0 ? 0 : at_most(*low, a->size);
    *end = *end < *low ? *low : at_most(*end, a->size);
}

/* Rows of the image that a block's rows of dy reach, and from where in the products. */
static samba_status fold_rows(const fold *f, const pixels *p, samba_arena *arena, samba_fold_block *block)
{
    const axis *y = &f->y;
    int64_t count = 0, most = p->rows * y->taps, low, end;
    find_reach(y, p->y, p->rows, &low, &end);
    int64_t *first = samba_arena_alloc(arena, (size_t)(end - low + 1) * sizeof *first);
    int64_t *offsets = samba_arena_alloc(arena, (size_t)most * sizeof *offsets);
    if (!first || !offsets)
        return SAMBA_ERROR_MEMORY;
    block->row_begin = y->size;
    block->row_end = 0;
    for (int64_t i = low; i < end; i++) {
        first[i - low] = count;
        for (int64_t t = 0; t < y->taps; t++) {
            int64_t at = y->base + i + t * y->tap_step, row = at / y->stride - p->y;
            if (at >= 0 && at % y->stride == 0 && row >= 0 && row < p->rows)
                offsets[count++] = t * f->x.taps * f->ld + row * p->width;
        }
        if (count > first[i - low]) {
            block->row_begin = at_most(block->row_begin, i);
            block->row_end = i + 1;
        }
    }
    first[end - low] = count;
    block->first = first + (block->row_begin < block->row_end ? block->row_begin - low : 0);
    block->offsets = offsets;
    return SAMBA_OK;
}

/* A row's pieces: elements whose columns agree mod the stride, a vector of them at a time. */
static samba_status fold_columns(const fold *f, const pixels *p, int lanes, samba_arena *arena, samba_fold_block *block)
{
    const axis *x = &f->x;
    int64_t pieces = 0, addends = 0, vector = lanes * x->stride, low, end;
    find_reach(x, p->x, p->width, &low, &end);
    int64_t most = at_most(x->stride, x->size) * (divide_up(end - low, vector) + 1);
    samba_fold_piece *piece = samba_arena_alloc(arena, (size_t)most * sizeof *piece);
    samba_fold_addend *addend = samba_arena_alloc(arena, (size_t)(most * x->taps) * sizeof *addend);
    if (!piece || !addend)
        return SAMBA_ERROR_MEMORY;
    for (int64_t phase = 0; phase < x->stride && phase < x->size; phase++)
        for (int64_t i = phase + (low > phase ? (low - phase) / vector * vector : 0); i < end; i += vector) {
            int64_t begin = addends, count = at_most(lanes, divide_up(x->size - i, x->stride));
            for (int64_t t = 0; t < x->taps; t++) {
                int64_t at = x->base + i + t * x->tap_step, column;
                if (at % x->stride)
                    continue;
                column = at / x->stride - p->x;
                int64_t from = column < 0 ? -column : 0, to = at_most(count, p->width - column);
                if (from < to)
                    addend[addends++] = (samba_fold_addend){.offset = t * f->ld + column, .lanes = (1u << to) - (1u << from)};
            }
            if (addends > begin)
                piece[pieces++] = (samba_fold_piece){i, (int32_t)count, (int32_t)begin, (int32_t)addends};
        }
    block->width = x->size;
    block->step = x->stride;
    block->pieces = piece;
    block->addends = addend;
    block->piece_count = pieces;
    return SAMBA_OK;
}

static void make_kernels(fold *f)
{
    pixels last = block_of_pixels(f, f->bands * f->across - 1);
    int64_t channels[2] = {f->channels, channels_of(f, f->channel_blocks - 1)};
    int64_t left = f->batches / f->groups - (f->image_blocks - 1) * f->images;
    int64_t columns[2] = {most_columns(f), left * last.rows * last.width}, depth[2] = {f->step, depth_of(f, f->steps - 1)};
    for (int i = 0; i < 16; i++) {
        int64_t rows = channels[i >> 3 & 1] * f->taps;
        samba_micro_kernel *kernel = &f->made[i >> 3 & 1][i >> 2 & 1][i >> 1 & 1][i & 1];
        *kernel = (samba_micro_kernel){.rows = rows,
                                       .cols = columns[i >> 2 & 1],
                                       .depth = depth[i >> 1 & 1],
                                       .lda = 1,
                                       .ska = rows,
                                       .ldb = f->ld,
                                       .ldc = f->ld,
                                       .first = i & 1};
        samba_micro_kernel_make(f->frame.machine, kernel);
    }
}

static samba_status prepare(const samba_preparing *to, const samba_contract_problem *problem, samba_frame *frame)
{
    fold *f = (fold *)frame;
    f->kernels = frame->machine->kernels;
    f->blocks = f->kernels->blocks;
    f->w = samba_factor_bytes(problem, &frame->contract.a);
    f->dy = samba_factor_bytes(problem, &frame->contract.b) +
            (f->z.start + f->y.start + f->x.start) * (int64_t)samba_dtype_size((samba_dtype)f->dy_dtype);
    int64_t blocks = f->bands * f->across;
    f->folds = samba_arena_alloc(to->arena, (size_t)blocks * sizeof *f->folds);
    if (!f->folds)
        return SAMBA_ERROR_MEMORY;
    for (int64_t i = 0; i < blocks; i++) {
        pixels p = block_of_pixels(f, i);
        SAMBA_TRY(fold_rows(f, &p, to->arena, &f->folds[i]));
        samba_fold_block *block = &f->folds[i];
        if (i >= f->across) { /* columns are those of the band above */
            const samba_fold_block *above = block - f->across;
            block->width = above->width, block->step = above->step, block->piece_count = above->piece_count;
            block->pieces = above->pieces, block->addends = above->addends;
            continue;
        }
        SAMBA_TRY(fold_columns(f, &p, f->kernels->lanes, to->arena, block));
    }
    make_kernels(f);
    f->block_bytes = round_up(f->channels * f->taps * f->k * 4, 64);
    f->tap_bytes = f->channel_blocks * f->block_bytes;
    f->group_bytes = f->z.taps * f->tap_bytes;
    frame->parts = f->groups * f->z.taps * f->channel_blocks;
    frame->shared_bytes = f->groups * f->group_bytes;
    f->image_at = samba_frame_room(frame, f->images * at_most(f->unit_blocks * f->channels, f->m) * f->n * 4);
    f->panel_at = samba_frame_room(frame, f->k * f->ld * 4);
    f->products_at = samba_frame_room(frame, f->channels * f->taps * f->ld * 4);
    return SAMBA_OK;
}

const samba_road samba_road_fold = {"fold", sizeof(fold), plan, prepare, pack, run, NULL, work, moved, held};
