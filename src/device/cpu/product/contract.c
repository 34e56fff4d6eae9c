/* SPDX-License-Identifier: Apache-2.0
 *
 * The road that leads everywhere: linear, matmul, batched matmul and convolution with both its gradients by blocks.
 * contract_plan.c has chosen them; here they are computed. For each unit: for each step of k, blocks of the operands are reached
 * in place, through a plane, or packed (pack.h), and multiplied into sums in scratch; after the last step the epilogue program
 * takes the sums while they are hot and does all that is stored. Where it only stores them, they are made in the result's memory
 * at once. Otherwise nothing but scratch is written here.
 *
 * Micro-kernels are made once, at prepare, for each width that occurs. */
#include "device/cpu/product/contract_plan.h"
#include "device/cpu/product/micro_kernel.h"
#include "device/cpu/product/roads.h"
#include "device/cpu/product/skip.h"
#include <string.h>

typedef struct contraction {
    samba_frame frame;
    bool in_place; /* sums are made where they are stored; there is nothing to finish */
    const samba_kernels *kernels;
    const samba_blocks *blocks;
    samba_contract_plan plan;
    int64_t m, size;                     /* rows of a batch element; bytes of a sum */
    int64_t down, across;                /* pieces of the sums of a unit whose k is sliced, so that all threads share its end */
    samba_micro_kernel made[2][2][2][2]; /* [narrower row block][narrower vector block][shorter k step][first step] */
    const int64_t *row_own, *row_inner, *vector_own, *vector_inner; /* of the offsets kernel */
    int64_t vector_run;                                             /* columns that lie together; 0: all of a block */
    const samba_skip *skip;                                         /* zeros of the vector side's plane, or NULL */
    bool row_kept, vector_kept; /* packs of a constant side: [batch][step of k][block], vector side first */
    int64_t row_batches, vector_batches, vector_parts, row_kept_at, row_slot, vector_slot; /* slot: bytes of a pack */
    /* in a thread's own scratch */
    int64_t sums_at, row_pack_at, vector_pack_at, row_plane_at, vector_plane_at, turn_at, needed_at;
} contraction;

/* ---- one block ---- */

static void integer_block(const int64_t *a, int64_t lda, const int64_t *b, int64_t ldb, int64_t *c, int64_t ldc, int64_t rows,
                          int64_t cols, int64_t k, bool first)
{
    for (int64_t i = 0; i < rows; i++) {
        if (first)
            memset(c + i * ldc, 0, (size_t)cols * sizeof *c);
        for (int64_t l = 0; l < k; l++)
            for (int64_t j = 0; j < cols; j++) /* wraps as PyTorch's does */
                c[i * ldc + j] = (int64_t)((uint64_t)c[i * ldc + j] + (uint64_t)a[i * lda + l] * (uint64_t)b[l * ldb + j]);
    }
}

static void multiply(const contraction *c, const char *row, int64_t rows, const char *vector, int64_t cols, int64_t depth,
                     char *sums, const samba_range *needed, bool first)
{
    const samba_contract_plan *plan = &c->plan;
    int64_t ld = plan->sums_ld;
    bool wide = c->size == 8;
    switch (plan->way) {
    case SAMBA_WAY_DENSE: {
        const samba_source *r = &plan->row, *v = &plan->vector;
        samba_micro_kernel_run(&c->made[rows < r->own.width][cols < v->own.width][depth < r->inner.width][first], row, vector,
                               sums);
        break;
    }
    case SAMBA_WAY_OFFSETS:
        c->blocks->offsets[wide](row, c->row_own, c->row_inner, vector, c->vector_own, c->vector_inner, sums, ld, rows, cols,
                                 c->vector_run ? c->vector_run : cols, depth, needed, first);
        break;
    case SAMBA_WAY_DOT:
        c->blocks->dot[wide](row, plan->row.own_axis.offset, plan->row.inner_axis.offset, vector, plan->vector.own_axis.offset,
                             plan->vector.inner_axis.offset, sums, ld, rows, cols, depth, plan->dot_run, first);
        break;
    case SAMBA_WAY_INTEGER:
        integer_block((const int64_t *)row, plan->row_ld, (const int64_t *)vector, plan->vector_ld, (int64_t *)sums, ld, rows,
                      cols, depth, first);
        break;
    }
}

/* ---- one unit ---- */

typedef struct unit_position {
    int64_t batch, row0, row1, vector0, vector1; /* blocks */
    int64_t row_first, rows, vector_first, cols; /* elements of their sides */
} unit_position;

static unit_position unit_at(const contraction *c, int64_t unit)
{
    const samba_contract_plan *plan = &c->plan;
    int64_t row = unit % plan->row_units, vector = unit / plan->row_units % plan->vector_units;
    unit_position at = {.batch = unit / plan->row_units / plan->vector_units,
                        .row0 = row * plan->row_group,
                        .vector0 = vector * plan->vector_group};
    at.row1 = at_most(at.row0 + plan->row_group, plan->row.own.blocks);
    at.vector1 = at_most(at.vector0 + plan->vector_group, plan->vector.own.blocks);
    samba_box first = samba_split_box(&plan->row.own, at.row0), last = samba_split_box(&plan->row.own, at.row1 - 1);
    at.row_first = first.first;
    at.rows = last.first + last.width - first.first;
    first = samba_split_box(&plan->vector.own, at.vector0);
    last = samba_split_box(&plan->vector.own, at.vector1 - 1);
    at.vector_first = first.first;
    at.cols = last.first + last.width - first.first;
    return at;
}

/* What the packs in a thread's scratch were made of, so that units which share an operand, as the images of a convolution share
 * its weights, pack it once. */
typedef struct pack_origin {
    const char *at;
    int64_t own, inner;
} pack_origin;
typedef struct pack_origins {
    pack_origin row[SAMBA_CONTRACT_GROUP], vector;
} pack_origins;

/* Remembers what a pack is about to be made of; true where it holds that already. */
static bool is_packed(pack_origin *origin, const samba_source *source, const char *at, int64_t own, int64_t inner)
{
    if (!source->plane_bytes && origin->at == at && origin->own == own && origin->inner == inner)
        return true;
    *origin = (pack_origin){at, own, inner};
    return false;
}

/* Where a kept pack lies: that of a batch element, or of all where they share the operand. */
static char *kept_row(const contraction *c, char *kept, int64_t batch, int64_t step, int64_t block)
{
    const samba_source *row = &c->plan.row;
    int64_t slot = ((c->row_batches > 1 ? batch : 0) * row->inner.blocks + step) * row->own.blocks + block;
    return kept + c->row_kept_at + slot * c->row_slot;
}

static char *kept_vector(const contraction *c, char *kept, int64_t batch, int64_t step, int64_t block)
{
    const samba_source *vector = &c->plan.vector;
    int64_t slot = ((c->vector_batches > 1 ? batch : 0) * vector->inner.blocks + step) * vector->own.blocks + block;
    return kept + slot * c->vector_slot;
}

/* Sums of the unit over k steps [step0, step1), added to those that are there unless `first`. Row blocks of a step are readied
 * with its first vector block and kept for the others. */
static void sum_unit(const contraction *c, const unit_position *at, int64_t step0, int64_t step1, bool first, char *sums,
                     const samba_workspace *room, pack_origins *packed)
{
    char *scratch = room->own;
    const samba_contract_plan *plan = &c->plan;
    const samba_source *row = &plan->row, *vector = &plan->vector;
    const char *ready[SAMBA_CONTRACT_GROUP];
    int64_t row_offset = samba_batch_offset(&c->frame.contract, &row->factor, at->batch);
    int64_t vector_offset = samba_batch_offset(&c->frame.contract, &vector->factor, at->batch);
    if (step0 == step1 && first)
        memset(sums, 0, (size_t)plan->sums_bytes);
    samba_range *needed = c->skip ? (samba_range *)(scratch + c->needed_at) : NULL;
    for (int64_t step = step0; step < step1; step++) {
        samba_box k = samba_split_box(&row->inner, step);
        for (int64_t j = at->vector0; j < at->vector1; j++) {
            samba_box v = samba_split_box(&vector->own, j);
            const char *b = c->vector_kept ? kept_vector(c, room->kept, at->batch, step, j)
                                           : samba_source_at(vector, vector_offset, &v, &k, scratch + c->vector_plane_at);
            if (c->skip)
                samba_skip_find(c->skip, &v, &k, needed);
            int64_t cols = plan->view ? vector->own_axis.offset[v.width - 1] + 1 : v.width;
            if (plan->vector_packed && !c->vector_kept) {
                char *pack = scratch + c->vector_pack_at;
                if (!is_packed(&packed->vector, vector, b, v.width, k.width))
                    samba_pack(vector, b, &vector->inner_axis, k.width, &vector->own_axis, v.width, pack, plan->vector_pack_ld);
                b = pack;
            }
            for (int64_t i = at->row0; i < at->row1; i++) {
                samba_box r = samba_split_box(&row->own, i);
                int64_t slot = i - at->row0;
                if (c->row_kept) {
                    ready[slot] = kept_row(c, room->kept, at->batch, step, i);
                } else if (j == at->vector0) {
                    ready[slot] = samba_source_at(row, row_offset, &r, &k,
                                                  scratch + c->row_plane_at + (plan->row_packed ? 0 : slot * row->plane_bytes));
                    if (plan->row_packed) {
                        char *pack = scratch + c->row_pack_at + slot * plan->row_pack_bytes;
                        if (!is_packed(&packed->row[slot], row, ready[slot], r.width, k.width))
                            samba_pack(row, ready[slot], &row->own_axis, r.width, &row->inner_axis, k.width, pack,
                                       plan->row_pack_ld);
                        ready[slot] = pack;
                    }
                }
                multiply(c, ready[slot], r.width, b, cols, k.width,
                         sums + ((r.first - at->row_first) * plan->sums_ld + v.first - at->vector_first) * c->size, needed,
                         first && step == step0);
            }
        }
    }
}

/* Drops the columns that lie in the gaps of a view; rows move up to each other. */
static void close_gaps(const contraction *c, const unit_position *at, char *sums)
{
    const samba_axis *axis = &c->plan.vector.own_axis;
    for (int64_t i = 0; i < at->rows; i++)
        for (int64_t j = 0; j < at->cols; j += axis->run) {
            int64_t n = at_most(at->cols - j, axis->run);
            memmove(sums + (i * at->cols + j) * c->size, sums + (i * c->plan.sums_ld + axis->offset[j]) * c->size,
                    (size_t)(n * c->size));
        }
}

static void finish_unit(const contraction *c, const unit_position *at, char *sums, const samba_workspace *room)
{
    char *turned = room->own + c->turn_at;
    const samba_contract_plan *plan = &c->plan;
    int64_t ld = plan->sums_ld;
    if (plan->view) {
        close_gaps(c, at, sums);
        ld = at->cols;
    }
    if (!plan->swapped) {
        for (int64_t i = at->row0; i < at->row1; i++) {
            samba_box r = samba_split_box(&plan->row.own, i);
            samba_frame_finish(&c->frame, room, at->batch * c->m + r.first, r.width, at->vector_first, at->cols,
                               sums + (r.first - at->row_first) * ld * c->size, ld);
        }
        return;
    }
    for (int64_t j = at->vector0; j < at->vector1; j++) {
        samba_box v = samba_split_box(&plan->vector.own, j);
        (c->size == 4 ? c->kernels->transpose4 : c->kernels->transpose8)(
            turned, at->rows, sums + (v.first - at->vector_first) * c->size, ld, at->rows, v.width);
        samba_frame_finish(&c->frame, room, at->batch * c->m + v.first, v.width, at->row_first, at->rows, turned, at->rows);
    }
}

/* Partial sums of a unit's slices, first to last, into the first: `count` of them in each of some rows. */
static void combine_slices(const contraction *c, char *sums, int64_t rows, int64_t count)
{
    const samba_kernels *kernels = c->kernels;
    int64_t pitch = c->plan.sums_ld;
    if (count == pitch) {
        count *= rows;
        rows = 1;
    }
    for (int64_t i = 0; i < rows; i++, sums += pitch * c->size)
        for (int64_t slice = 1; slice < c->plan.slices; slice++)
            kernels->map[SAMBA_TILE_add][c->frame.contract.class_](sums, sums, sums + slice * c->plan.sums_bytes, NULL, count);
}

/* A piece of the sums of a unit whose k was sliced: elements of its rows and columns. */
typedef struct sums_piece {
    unit_position at;
    int64_t unit, row0, row1, col0, col1;
} sums_piece;

static sums_piece piece_at(const contraction *c, int64_t part)
{
    int64_t pieces = c->down * c->across, down = part % pieces / c->across, across = part % c->across;
    sums_piece p = {.at = unit_at(c, part / pieces), .unit = part / pieces};
    p.row0 = p.at.rows * down / c->down;
    p.row1 = p.at.rows * (down + 1) / c->down;
    p.col0 = p.at.cols * across / c->across;
    p.col1 = p.at.cols * (across + 1) / c->across;
    return p;
}

/* Has its slices combined, and ends. Gaps of a view are combined along. */
static void finish_piece(const contraction *c, const samba_workspace *room, int64_t part)
{
    const samba_contract_plan *plan = &c->plan;
    sums_piece p = piece_at(c, part);
    int64_t ld = plan->sums_ld, rows = p.row1 - p.row0, first = p.at.batch * c->m;
    char *sums = room->shared + p.unit * plan->slices * plan->sums_bytes + (p.row0 * ld + p.col0) * c->size;
    combine_slices(c, sums, rows, plan->view ? ld : p.col1 - p.col0);
    if (plan->swapped && plan->view) { /* one piece */
        finish_unit(c, &p.at, sums, room);
        return;
    }
    if (!plan->swapped) {
        unit_position rest = p.at;
        rest.rows = rows;
        if (plan->view)
            close_gaps(c, &rest, sums);
        samba_frame_finish(&c->frame, room, first + p.at.row_first + p.row0, rows, p.at.vector_first + p.col0, p.col1 - p.col0,
                           sums, plan->view ? p.at.cols : ld);
        return;
    }
    char *turned = room->own + c->turn_at;
    for (int64_t col = p.col0, width; col < p.col1; col += width, sums += width * c->size) {
        width = at_most(p.col1 - col, plan->vector.own.width);
        (c->size == 4 ? c->kernels->transpose4 : c->kernels->transpose8)(turned, rows, sums, ld, rows, width);
        samba_frame_finish(&c->frame, room, first + p.at.vector_first + col, width, p.at.row_first + p.row0, rows, turned, rows);
    }
}

/* A part of the packs of the constant sides: of the vector side first. */
static void pack(const samba_frame *frame, const samba_workspace *room, bool kept, int64_t part)
{
    const contraction *c = (const contraction *)frame;
    bool row = part >= c->vector_parts;
    const samba_source *source = row ? &c->plan.row : &c->plan.vector;
    int64_t blocks = source->own.blocks, steps = source->inner.blocks;
    (void)kept; /* nothing is packed apart that is not */
    part -= row ? c->vector_parts : 0;
    int64_t block = part % blocks, step = part / blocks % steps, batch = part / blocks / steps;
    samba_box own = samba_split_box(&source->own, block), k = samba_split_box(&source->inner, step);
    const char *from = samba_source_at(source, samba_batch_offset(&frame->contract, &source->factor, batch), &own, &k, NULL);
    if (row)
        samba_pack(source, from, &source->own_axis, own.width, &source->inner_axis, k.width,
                   kept_row(c, room->kept, batch, step, block), c->plan.row_pack_ld);
    else
        samba_pack(source, from, &source->inner_axis, k.width, &source->own_axis, own.width,
                   kept_vector(c, room->kept, batch, step, block), c->plan.vector_pack_ld);
}

/* The epilogue of rows [row, end) of a matrix that holds all sums. */
static void finish_matrix(const contraction *c, const samba_workspace *room, int64_t row, int64_t end)
{
    const samba_contract_plan *plan = &c->plan;
    const char *sums = room->shared;
    char *turned = room->own + c->turn_at;
    int64_t ld = plan->sums_ld, n = plan->swapped ? plan->row.own.total : ld,
            most = plan->swapped ? plan->vector.own.width : c->m;
    for (int64_t rows; row < end; row += rows) {
        int64_t batch = row / c->m, first = row % c->m;
        rows = at_most(at_most(most, c->m - first), end - row);
        if (!plan->swapped) {
            samba_frame_finish(&c->frame, room, row, rows, 0, n, sums + row * ld * c->size, ld);
            continue;
        }
        (c->size == 4 ? c->kernels->transpose4 : c->kernels->transpose8)(turned, n, sums + (batch * n * ld + first) * c->size, ld,
                                                                         n, rows);
        samba_frame_finish(&c->frame, room, row, rows, 0, n, turned, n);
    }
}

/* After a barrier: rows of a matrix of sums, or units whose slices are combined first. */
static void finish(const samba_frame *frame, const samba_workspace *room, int64_t from, int64_t end)
{
    const contraction *c = (const contraction *)frame;
    if (c->plan.apart) {
        finish_matrix(c, room, from, end);
        return;
    }
    for (int64_t part = from; part < end; part++)
        finish_piece(c, room, part);
}

/* Where a job's sums are made. */
static char *place_sums(const contraction *c, const unit_position *at, const samba_workspace *room, int64_t job)
{
    const samba_contract_plan *plan = &c->plan;
    if (c->in_place)
        return samba_finish_at(&c->frame.finish, at->batch * c->m + at->row_first, at->vector_first).result;
    if (plan->apart)
        return room->shared + ((at->batch * plan->row.own.total + at->row_first) * plan->sums_ld + at->vector_first) * c->size;
    return plan->slices > 1 ? room->shared + job * plan->sums_bytes : room->own + c->sums_at;
}

/* Jobs are units by slices of k; some units go through the steps of k together. */
static void run(const samba_frame *frame, const samba_workspace *room, int64_t job, int64_t end)
{
    const contraction *c = (const contraction *)frame;
    const samba_contract_plan *plan = &c->plan;
    bool later = plan->slices > 1 || plan->apart;
    pack_origins packed = {0};
    int64_t steps = plan->row.inner.blocks, count;
    for (; job < end; job += count) {
        int64_t slice = job % plan->slices, from = slice * steps / plan->slices, to = (slice + 1) * steps / plan->slices;
        unit_position at[SAMBA_CONTRACT_TOGETHER];
        char *sums[SAMBA_CONTRACT_TOGETHER];
        count = at_most(plan->together, end - job);
        for (int64_t i = 0; i < count; i++) {
            at[i] = unit_at(c, (job + i) / plan->slices);
            sums[i] = place_sums(c, &at[i], room, job + i) + (c->in_place || later ? 0 : i * plan->sums_bytes);
        }
        if (count == 1)
            sum_unit(c, at, from, to, true, sums[0], room, &packed);
        for (int64_t step = from; count > 1 && step < to; step++)
            for (int64_t i = 0; i < count; i++)
                sum_unit(c, &at[i], step, step + 1, step == from, sums[i], room, &packed);
        for (int64_t i = 0; i < count && !later && !c->in_place; i++)
            finish_unit(c, &at[i], sums[i], room);
    }
}

/* ---- how it is dealt ---- */

typedef struct reached_side {
    const samba_source *source;
    bool packed, kept;
} reached_side;

/* ns that packs and planes of a unit's part of a side take for a part of k. */
static double reach_time(const contraction *c, const samba_source *source, bool packed, bool kept, double elements, double blocks)
{
    const samba_cpu_machine *machine = c->frame.machine;
    double plane = source->plane_bytes ? (double)(source->plane_bytes / source->element_size) * machine->block.plane_element : 0;
    return (packed && !kept ? elements * machine->pack.copy : 0) + plane * blocks;
}

static double unit_time(const contraction *c, int64_t job)
{
    const samba_contract_plan *plan = &c->plan;
    const reached_side sides[2] = {{&plan->row, plan->row_packed, c->row_kept},
                                   {&plan->vector, plan->vector_packed, c->vector_kept}};
    unit_position at = unit_at(c, job / plan->slices);
    int64_t steps = plan->row.inner.blocks, slice = job % plan->slices, from = slice * steps / plan->slices,
            to = (slice + 1) * steps / plan->slices;
    double depth = 0, sums = (double)at.rows * (double)at.cols, rate = c->size == 8 ? 2 : 1;
    for (int64_t step = from; step < to; step++)
        depth += (double)samba_split_box(&plan->row.inner, step).width;
    rate *= plan->way == SAMBA_WAY_INTEGER ? c->frame.machine->block.integer : 1;
    double time = sums * depth * c->frame.multiply * rate + c->frame.machine->block.unit_start;
    for (int i = 0; i < 2; i++)
        time += reach_time(c, sides[i].source, sides[i].packed, sides[i].kept, depth * (double)(i ? at.cols : at.rows),
                           (double)((to - from) * (i ? at.vector1 - at.vector0 : at.row1 - at.row0)));
    return time + (plan->slices > 1 || plan->apart ? 0 : sums * c->frame.element);
}

static double work(const samba_frame *frame, samba_frame_phase phase, int64_t unit)
{
    const contraction *c = (const contraction *)frame;
    const samba_contract_plan *plan = &c->plan;
    if (phase == SAMBA_FRAME_UNITS)
        return unit_time(c, unit);
    if (phase == SAMBA_FRAME_APART && plan->apart)
        return (double)(plan->swapped ? plan->row.own.total : plan->vector.own.total) * frame->element;
    if (phase == SAMBA_FRAME_APART) {
        sums_piece p = piece_at(c, unit);
        return (double)(p.row1 - p.row0) * (double)(p.col1 - p.col0) *
               (frame->element + (double)(plan->slices * c->size) * frame->machine->block.crossing);
    }
    return (double)(unit < c->vector_parts ? plan->vector_pack_bytes : plan->row_pack_bytes) / (double)c->size *
           frame->machine->pack.copy;
}

static void moved(const samba_frame *frame, int threads, samba_moved *moved)
{
    const contraction *c = (const contraction *)frame;
    const samba_contract_plan *plan = &c->plan;
    double all = (double)(frame->units / plan->row_units / plan->vector_units / plan->slices), others = 1 - 1.0 / threads;
    double rows = all * (double)plan->row.own.total * (double)plan->row.inner.total * (double)plan->row.memory_size,
           vectors = all * (double)plan->vector.own.total * (double)plan->row.inner.total * (double)plan->vector.memory_size;
    /* row units are dealt first: a thread's run of units meets all rows and few columns, or some rows of one column */
    bool whole = plan->vector_units * (int64_t)all >= threads;
    double row_reads = whole && all < threads ? (double)at_most(plan->vector_units, threads) : 1,
           vector_reads = whole || plan->slices > 1 ? 1 : (double)at_most(plan->row_units, threads);
    moved->reads[plan->swapped] = c->row_kept ? 0 : rows * row_reads;
    moved->reads[!plan->swapped] = c->vector_kept ? 0 : vectors * vector_reads;
    moved->shared = plan->slices > 1 || plan->apart ? (double)frame->shared_bytes * others : 0;
    moved->in_order = all >= threads || plan->apart || (plan->swapped ? plan->row_units == 1 : plan->vector_units == 1);
}

static int held(const samba_frame *frame, samba_held held[SAMBA_HELD])
{
    const contraction *c = (const contraction *)frame;
    const samba_contract_plan *plan = &c->plan;
    int64_t planes = plan->vector.plane_bytes + plan->row.plane_bytes * (plan->row_packed ? 1 : plan->row_group);
    held[0] = (samba_held){"blocks: what a unit works in", 2,
                           plan->sums_bytes * plan->together + plan->vector_pack_bytes + plan->row_pack_bytes * plan->row_group +
                               plan->turn_bytes + planes};
    held[1] = (samba_held){"blocks: rows of A that registers take at once", 1,
                           at_most(plan->row.own.width, c->blocks->dense_rows) * plan->row.inner.width * c->size};
    return 2;
}

/* ---- preparing ---- */

/* The width of a split's narrower blocks; 0 where all are alike. */
static int64_t narrower(const samba_split *split)
{
    int64_t left = split->step ? split->size[split->cut] % split->step : 0;
    return left * split->inner;
}

static void make_kernels(const samba_cpu_machine *machine, contraction *c)
{
    const samba_contract_plan *plan = &c->plan;
    const samba_split *row = &plan->row.own, *vector = &plan->vector.own, *inner = &plan->row.inner;
    for (int i = 0; i < 16; i++) {
        int64_t rows = i & 8 ? narrower(row) : row->width, cols = i & 4 ? narrower(vector) : vector->width;
        int64_t depth = i & 2 ? narrower(inner) : inner->width;
        samba_micro_kernel *kernel = &c->made[i >> 3 & 1][i >> 2 & 1][i >> 1 & 1][i & 1];
        *kernel = (samba_micro_kernel){.rows = rows,
                                       .cols = cols,
                                       .depth = depth,
                                       .lda = plan->row_ld,
                                       .ska = plan->row_step,
                                       .ldb = plan->vector_ld,
                                       .ldc = plan->sums_ld,
                                       .first = i & 1,
                                       .kind = c->size == 8 ? SAMBA_MICRO_F64 : SAMBA_MICRO_F32};
        if (rows && cols && depth)
            samba_micro_kernel_make(machine, kernel);
    }
}

static samba_status even_table(samba_arena *arena, int64_t count, int64_t step, const int64_t **table)
{
    int64_t *offsets = (int64_t *)samba_arena_alloc(arena, (size_t)count * sizeof(int64_t));
    if (!offsets)
        return SAMBA_ERROR_MEMORY;
    for (int64_t i = 0; i < count; i++)
        offsets[i] = i * step;
    *table = offsets;
    return SAMBA_OK;
}

static samba_status reorder(samba_arena *arena, int64_t count, const int64_t *order, const int64_t **table)
{
    int64_t *offsets = (int64_t *)samba_arena_alloc(arena, (size_t)count * sizeof(int64_t));
    if (!offsets)
        return SAMBA_ERROR_MEMORY;
    for (int64_t i = 0; i < count; i++)
        offsets[i] = (*table)[order[i]];
    *table = offsets;
    return SAMBA_OK;
}

/* Where a side's elements lie: in its axes, or even where it was packed. */
static samba_status make_tables(contraction *c, samba_arena *arena)
{
    samba_contract_plan *plan = &c->plan;
    SAMBA_TRY(samba_source_tables(&plan->row, arena));
    SAMBA_TRY(samba_source_tables(&plan->vector, arena));
    if (plan->way != SAMBA_WAY_OFFSETS)
        return SAMBA_OK;
    c->row_own = plan->row.own_axis.offset;
    c->row_inner = plan->row.inner_axis.offset;
    c->vector_own = plan->vector.own_axis.offset;
    c->vector_inner = plan->vector.inner_axis.offset;
    if (plan->row_packed) {
        SAMBA_TRY(even_table(arena, plan->row.own.width, plan->row_pack_ld, &c->row_own));
        SAMBA_TRY(even_table(arena, plan->row.inner.width, 1, &c->row_inner));
    }
    if (plan->vector_packed)
        SAMBA_TRY(even_table(arena, plan->row.inner.width, plan->vector_pack_ld, &c->vector_inner));
    else if (!plan->view)
        c->vector_run = plan->vector.own_axis.run;
    if (!c->vector_run)
        return SAMBA_OK;
    SAMBA_TRY(samba_skip_new(&plan->vector, arena, &c->skip));
    if (!c->skip)
        return SAMBA_OK;
    SAMBA_TRY(reorder(arena, plan->row.inner.width, c->skip->order, &c->row_inner));
    return reorder(arena, plan->row.inner.width, c->skip->order, &c->vector_inner);
}

/* The result's rows as where the sums are made, where its layout suits the blocks. */
static void choose_sums(contraction *c)
{
    samba_contract_plan *plan = &c->plan;
    c->in_place = samba_contract_in_place(plan, &c->frame.finish);
    if (!c->in_place)
        return;
    plan->sums_ld = c->frame.finish.result_strides[c->frame.finish.rank - 2];
    plan->sums_bytes = 0;
}

static void lay_out_scratch(contraction *c)
{
    const samba_contract_plan *plan = &c->plan;
    samba_frame *f = &c->frame;
    c->sums_at = samba_frame_room(f, plan->slices > 1 ? 0 : plan->sums_bytes * plan->together); /* 0 where they are apart */
    c->row_pack_at = samba_frame_room(f, c->row_kept ? 0 : plan->row_pack_bytes * plan->row_group);
    c->vector_pack_at = samba_frame_room(f, c->vector_kept ? 0 : plan->vector_pack_bytes);
    c->row_plane_at = samba_frame_room(f, plan->row.plane_bytes * (plan->row_packed ? 1 : plan->row_group));
    c->vector_plane_at = samba_frame_room(f, plan->vector.plane_bytes);
    c->turn_at = samba_frame_room(f, plan->turn_bytes);
    c->needed_at = samba_frame_room(f, c->skip ? c->skip->runs * (int64_t)sizeof(samba_range) : 0);
    f->shared_bytes = plan->slices > 1 ? plan->units * plan->slices * plan->sums_bytes : 0;
    if (plan->apart)
        f->shared_bytes = plan->units / plan->row_units / plan->vector_units * plan->row.own.total * plan->sums_ld * c->size;
}

/* So many pieces that threads find one each: of rows of the result, and where these are few and need not stay whole of columns as
 * well, whole vectors of them. */
static void cut_sums(contraction *c, int threads)
{
    const samba_contract_plan *plan = &c->plan;
    int64_t wanted = divide_up(threads, plan->units), lanes = c->kernels->lanes,
            cols = at_most(plan->vector.own.total, plan->sums_ld);
    bool whole = c->frame.contract.whole_rows;
    c->down = c->across = 1;
    if (plan->slices == 1)
        return;
    if (plan->swapped && !plan->view) {
        c->across = at_most(wanted, divide_up(cols, lanes));
        c->down = whole ? 1 : at_most(divide_up(wanted, c->across), plan->sums_rows);
    } else if (!plan->swapped) {
        c->down = at_most(wanted, plan->sums_rows);
        c->across = whole || plan->view ? 1 : at_most(divide_up(wanted, c->down), divide_up(cols, lanes));
    }
}

/* How often a side has to be packed: once for all batch elements that share it. */
static int64_t batches_of(const contraction *c, const samba_factor *factor, int64_t batches)
{
    for (int i = 0; i < c->frame.contract.batch_rank; i++)
        if (factor->batch[i] != 0)
            return batches;
    return 1;
}

static void lay_out_kept(contraction *c, int64_t batches)
{
    const samba_contract_plan *plan = &c->plan;
    int64_t row_parts = 0;
    c->row_kept = plan->row_packed && plan->row.kept;
    c->vector_kept = plan->vector_packed && plan->vector.kept;
    c->row_batches = batches_of(c, &plan->row.factor, batches);
    c->vector_batches = batches_of(c, &plan->vector.factor, batches);
    c->row_slot = round_up(plan->row_pack_bytes, 64);
    c->vector_slot = round_up(plan->vector_pack_bytes, 64);
    c->vector_parts = c->vector_kept ? c->vector_batches * plan->vector.inner.blocks * plan->vector.own.blocks : 0;
    row_parts = c->row_kept ? c->row_batches * plan->row.inner.blocks * plan->row.own.blocks : 0;
    c->row_kept_at = c->vector_parts * c->vector_slot;
    c->frame.kept_parts = c->vector_parts + row_parts;
    c->frame.kept_bytes = c->row_kept_at + row_parts * c->row_slot;
}

static double plan(const samba_contract_problem *problem, samba_frame *frame)
{
    contraction *c = (contraction *)frame;
    double cost = samba_contract_choose(problem, &c->plan) ? c->plan.cost : -1;
    c->plan.cost = 0; /* plans that are alike have one state, whatever they are thought to cost */
    return cost;
}

static samba_status prepare(const samba_preparing *to, const samba_contract_problem *problem, samba_frame *frame)
{
    contraction *c = (contraction *)frame;
    c->kernels = frame->machine->kernels;
    c->blocks = c->kernels->blocks;
    c->size = frame->contract.class_ == SAMBA_F32 ? 4 : 8;
    c->m = problem->m;
    lay_out_kept(c, problem->batches);
    choose_sums(c);
    SAMBA_TRY(make_tables(c, to->arena));
    if (c->plan.way == SAMBA_WAY_DENSE)
        make_kernels(frame->machine, c);
    lay_out_scratch(c);
    frame->units = c->plan.units * c->plan.slices;
    frame->in_order = true; /* what a thread has packed serves its next unit */
    cut_sums(c, problem->threads);
    frame->apart = c->plan.apart ? problem->batches * problem->m : c->plan.slices > 1 ? c->plan.units * c->down * c->across : 0;
    return SAMBA_OK;
}

const samba_road samba_road_blocks = {"blocks", sizeof(contraction), plan, prepare, pack, run, finish, work, moved, held};
