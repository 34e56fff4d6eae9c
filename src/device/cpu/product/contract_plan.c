/* SPDX-License-Identifier: Apache-2.0
 *
 * Simplifying a contraction and choosing how it runs. All candidates are described in full and costed; nothing is special-cased
 * to a model's shapes. Costs are ns on one core; they need be right only where candidates differ much. */
#include "device/cpu/product/contract_plan.h"
#include "device/cpu/product/roads.h"
#include "device/cpu/product/skip.h"
#include <limits.h>
#include <string.h>

/* ---- simplifying ---- */

typedef struct dims { /* sizes and every array of coefficients that goes with them */
    int32_t *rank;
    int64_t *size, *steps[8];
    int count;
} dims;

static void remove_dim(dims *d, int i)
{
    for (int j = i; j + 1 < *d->rank; j++) {
        d->size[j] = d->size[j + 1];
        for (int s = 0; s < d->count; s++)
            d->steps[s][j] = d->steps[s][j + 1];
    }
    *d->rank -= 1;
}

static void simplify_dims(dims *d)
{
    for (int i = *d->rank - 1; i >= 0; i--)
        if (d->size[i] == 1)
            remove_dim(d, i);
    for (int i = *d->rank - 1; i > 0; i--) {
        bool one = true;
        for (int s = 0; s < d->count; s++)
            one = one && d->steps[s][i - 1] == d->steps[s][i] * d->size[i];
        if (one) {
            d->size[i] *= d->size[i - 1];
            remove_dim(d, i - 1);
        }
    }
    if (*d->rank == 0) {
        *d->rank = 1;
        d->size[0] = 1;
        for (int s = 0; s < d->count; s++)
            d->steps[s][0] = 0;
    }
}

static void add_reach(int rank, const int64_t *size, const int64_t *step, int64_t *low, int64_t *high)
{
    for (int i = 0; i < rank; i++)
        *(step[i] < 0 ? low : high) += step[i] * (size[i] - 1);
}

/* A window that every index keeps inside the image, with nothing between its pixels, is a stride. */
static void fold_windows(const samba_contract *contract, samba_factor *factor, int own_rank, const int64_t *own)
{
    for (int w = factor->window_count - 1; w >= 0; w--) {
        const samba_window window = factor->windows[w];
        int64_t low = window.base, high = window.base;
        add_reach(own_rank, own, window.own, &low, &high);
        add_reach(contract->k_rank, contract->k, window.inner, &low, &high);
        if (window.dilation != 1 || low < 0 || high >= window.limit)
            continue;
        factor->offset += window.base * window.stride;
        for (int i = 0; i < SAMBA_CONTRACT_RANK; i++) {
            factor->own[i] += window.own[i] * window.stride;
            factor->inner[i] += window.inner[i] * window.stride;
        }
        factor->window_count--;
        for (int i = w; i < factor->window_count; i++)
            factor->windows[i] = factor->windows[i + 1];
    }
}

void samba_contract_simplify(samba_contract *contract)
{
    samba_factor *a = &contract->a, *b = &contract->b;
    fold_windows(contract, a, contract->m_rank, contract->m);
    fold_windows(contract, b, contract->n_rank, contract->n);
    dims batch = {&contract->batch_rank, contract->batch, {a->batch, b->batch}, 2};
    dims m = {&contract->m_rank, contract->m, {a->own}, 1}, n = {&contract->n_rank, contract->n, {b->own}, 1};
    dims k = {&contract->k_rank, contract->k, {a->inner, b->inner}, 2};
    for (int w = 0; w < a->window_count; w++) {
        m.steps[m.count++] = a->windows[w].own;
        k.steps[k.count++] = a->windows[w].inner;
    }
    for (int w = 0; w < b->window_count; w++) {
        n.steps[n.count++] = b->windows[w].own;
        k.steps[k.count++] = b->windows[w].inner;
    }
    simplify_dims(&batch);
    simplify_dims(&m);
    simplify_dims(&n);
    simplify_dims(&k);
}

/* ---- describing a candidate ---- */

static int lanes_of(const samba_contract_problem *problem)
{
    return problem->contract.class_ == SAMBA_F32 ? problem->machine->kernels->lanes : problem->machine->kernels->lanes / 2;
}

static void init_source(const samba_contract_problem *problem, bool second, samba_source *source)
{
    const samba_factor *factor = second ? &problem->contract.b : &problem->contract.a;
    *source = (samba_source){.machine = problem->machine, .class_ = problem->contract.class_, .factor = *factor};
    source->memory = samba_factor_bytes(problem, factor);
    source->kept = (second ? problem->constant_b : problem->constant_a) && factor->window_count == 0;
}

/* Steps of k have at most `most`, and are shortened until the planes stay in the nearest cache. False where they are larger than
 * any memory. */
static bool describe_sources(const samba_contract_problem *problem, samba_contract_plan *plan, bool dot, bool unrolled,
                             int64_t most)
{
    const samba_contract *contract = &problem->contract;
    plan->row.unrolled = dot && unrolled;
    plan->vector.unrolled = unrolled;
    for (int64_t target = at_most((dot ? 2 : 1) * problem->machine->product.step, most);; target /= 2) {
        samba_split_init(&plan->row.inner, contract->k_rank, contract->k, target, 16);
        plan->vector.inner = plan->row.inner;
        bool possible = samba_source_describe(&plan->row, false) && samba_source_describe(&plan->vector, !dot);
        if ((possible && plan->row.plane_bytes + plan->vector.plane_bytes <= problem->machine->block.plane) || target <= 16)
            return possible;
    }
}

/* One dim, so evenly spaced: may a kernel read it in place? */
static bool is_even(const samba_axis *axis) { return axis->run >= axis->count; }

/* Short runs waste lanes at their ends. Instead the gaps between them can be computed along when their order is that of memory
 * and the gaps are not most of it. */
static bool is_viewable(const samba_source *source, int64_t *reach)
{
    const samba_axis *axis = &source->own_axis;
    const samba_split *split = &source->own;
    int64_t extent = axis->run;
    *reach = axis->count;
    if (!source->native || (axis->stride != 1 && axis->count > 1))
        return false;
    if (is_even(axis))
        return true;
    if (axis->run == 1)
        return false;
    for (int i = split->rank - 2; i >= split->cut; i--) { /* from inside: each dim must step over all of the one inside it */
        int64_t count = i == split->cut ? split->step : split->size[i], stride = samba_source_step(source, i);
        if (count > 1 && stride < extent)
            return false;
        extent += stride * (count - 1);
    }
    *reach = extent;
    return extent <= 2 * axis->count;
}

static bool describe_ways(const samba_contract_problem *problem, samba_contract_plan *plan, bool dot, bool vector_copied,
                          bool row_copied, bool along_gaps)
{
    samba_source *row = &plan->row, *vector = &plan->vector;
    int64_t reach = 0, depth = row->inner.width;
    bool integer = problem->contract.class_ == SAMBA_I64;
    if (dot) {
        int64_t a = row->inner_axis.run, b = vector->inner_axis.run;
        bool fits = row->native && vector->native && (a < b ? b % a == 0 : a % b == 0) &&
                    (depth == 1 || ((a == 1 || row->inner_axis.stride == 1) && (b == 1 || vector->inner_axis.stride == 1)));
        plan->dot_run = a < b ? a : b;
        plan->way = SAMBA_WAY_DOT;
        plan->sums_ld = vector->own.width;
        return fits && !integer;
    }
    bool row_even = is_even(&row->own_axis), vector_even = is_even(&vector->own_axis);
    bool contiguous = vector->native && (vector->own_axis.stride == 1 || vector->own_axis.run == 1);
    if (along_gaps) {
        /* blocks with gaps cannot stand side by side */
        bool beside = problem->contract.whole_rows && !plan->swapped && vector->own.blocks > 1;
        if (integer || vector_copied || vector_even || beside || !is_viewable(vector, &reach))
            return false;
        plan->view = true;
    }
    plan->vector_packed = integer || vector_copied || !contiguous || (vector->own_axis.run == 1 && !vector_even);
    plan->row_packed = integer || row_copied || !row->native;
    if (!plan->row_packed && is_even(&row->inner_axis) && row->inner_axis.stride != 1 && row->own_axis.stride != 1 && depth > 1 &&
        row->own_axis.count > 1)
        plan->row_packed = true; /* neither side contiguous: each element would fetch a cache line */
    plan->vector_pack_ld = round_up(vector->own.width, 64 / vector->element_size);
    plan->row_pack_ld = round_up(depth, 64 / row->element_size);
    plan->row_ld = plan->row_packed ? plan->row_pack_ld : row->own_axis.stride;
    plan->row_step = plan->row_packed ? 1 : row->inner_axis.stride;
    plan->vector_ld = plan->vector_packed ? plan->vector_pack_ld : vector->inner_axis.stride;
    if (integer)
        plan->way = SAMBA_WAY_INTEGER;
    else if ((plan->row_packed || (row_even && is_even(&row->inner_axis))) &&
             (plan->vector_packed || (vector_even && is_even(&vector->inner_axis))))
        plan->way = SAMBA_WAY_DENSE;
    else
        plan->way = SAMBA_WAY_OFFSETS;
    plan->sums_ld = plan->view ? reach : vector->own.width;
    plan->vector_pack_bytes = plan->vector_packed ? depth * plan->vector_pack_ld * vector->element_size : 0;
    plan->row_pack_bytes = plan->row_packed ? round_up(row->own.width, 8) * plan->row_pack_ld * row->element_size : 0;
    return true;
}

/* ---- costs ---- */

/* From the first to the last element of some dims. */
static double reach_of(int rank, const int64_t *size, const int64_t *stride)
{
    double reach = 0;
    for (int i = 0; i < rank; i++)
        reach += (double)(stride[i] < 0 ? -stride[i] : stride[i]) * (double)(size[i] - 1);
    return reach;
}

/* How much memory a block covers: windows see the same elements again and again. */
static double block_span(const samba_source *source)
{
    double span = 1;
    for (int side = 0; side < 2; side++) {
        const samba_split *split = side ? &source->inner : &source->own;
        const int64_t *stride = side ? source->factor.inner : source->factor.own;
        span += reach_of(1, &split->step, stride + split->cut) +
                reach_of(split->rank - split->cut - 1, split->size + split->cut + 1, stride + split->cut + 1);
    }
    return span;
}

static double source_cost(const samba_cpu_machine *machine, const samba_source *source, bool packed, bool rows_are_own)
{
    const samba_axis *own = &source->own_axis, *inner = &source->inner_axis;
    double pack = packed && !source->kept ? samba_pack_cost(source, rows_are_own ? own : inner, rows_are_own ? inner : own) : 0;
    double block = (double)(source->own.width * source->inner.width);
    double plane = 0;
    if (source->plane_bytes) { /* by rows */
        const samba_plane_window *last = &source->plane_windows[source->factor.window_count - 1];
        double elements = (double)(source->plane_bytes / source->element_size);
        plane = elements / (double)last->per * (last->phases > 1 ? machine->block.plane_row_sorted : machine->block.plane_row) +
                elements * (last->phases > 1 ? machine->block.plane_element_sorted : machine->block.plane_element);
    }
    double span = block_span(source), seen = source->plane_bytes ? machine->block.plane_seen : span < block ? span / block : 1.0;
    return pack + plane / block + (double)source->memory_size / machine->block.bytes_read * seen;
}

/* Rows of a block far apart in memory fall on few cache sets, each on a page of its own, and are read anew for every few rows. */
static double distance_penalty(const samba_cpu_machine *machine, int64_t bytes)
{
    return bytes < machine->block.near_rows           ? 1.0
           : bytes % machine->product.page == 0       ? machine->block.far_rows_page
           : bytes % (machine->product.page / 4) == 0 ? machine->block.far_rows_quarter
                                                      : machine->block.far_rows;
}

/* Does the thread's part of a matrix lie together in memory, as parts are dealt: the first to the first thread? */
static bool is_outer(const samba_source *source, bool inner)
{
    int64_t own = source->factor.own[0], k = source->factor.inner[0];
    own = own < 0 ? -own : own;
    k = k < 0 ? -k : k;
    return inner ? k >= own : own >= k;
}

/* Bytes that a thread reads or writes where another one works: most stages deal memory in the same order, the first part to the
 * first thread, so a product that cuts a matrix the same way, or the rows of its result, finds its part in its own cache.
 * Matrices only; what has more dims, or batch elements for all threads, counts for nothing. */
static double crossing_bytes(const samba_contract_problem *problem, const samba_contract_plan *plan)
{
    const samba_contract *contract = &problem->contract;
    const samba_source *sides[2] = {&plan->row, &plan->vector};
    double bytes = 0, parts = problem->threads, result = (double)problem->m * (double)problem->n * (double)plan->row.element_size;
    if (problem->threads == 1 || problem->batches > 1 || contract->m_rank > 1 || contract->n_rank > 1 || contract->k_rank > 1 ||
        contract->a.window_count || contract->b.window_count)
        return 0;
    bool vectors = plan->slices == 1 && plan->vector_units >= problem->threads,
         rows = plan->slices == 1 && !vectors && plan->row_units >= problem->threads;
    for (int i = 0; i < 2; i++) {
        bool cut = i == 0 ? rows : vectors, deep = plan->slices > 1;
        double all = (double)sides[i]->own.total * (double)problem->k * (double)sides[i]->memory_size;
        if (!sides[i]->kept) /* nobody writes a constant: each cache may hold it */
            bytes += !cut && !deep ? all : is_outer(sides[i], deep) ? 0 : all / parts;
    }
    if (plan->apart)
        bytes += 2 * result / parts;
    else if (!(plan->swapped ? vectors : rows))
        bytes += vectors || rows ? result / parts : result;
    return bytes * (1 - 1 / parts);
}

/* Lines of a cache that an element of an axis adds. */
static double lines_of(const samba_source *source, const samba_axis *axis)
{
    double step = (double)source->memory_size * (double)(axis->stride < 0 ? -axis->stride : axis->stride);
    return step < 64 ? step / 64 : 1;
}

/* Rows read where they lie, an element at a time:
 * what no cache holds is waited for, line by line, where steps of k are pages apart. */
static double far_cost(const samba_contract_problem *problem, const samba_source *source)
{
    const samba_factor *factor = &source->factor;
    double size = (double)source->memory_size;
    /* windows see elements again and again */
    double bytes = size * (1 + reach_of(source->own.rank, source->own.size, factor->own) +
                           reach_of(source->inner.rank, source->inner.size, factor->inner) +
                           reach_of(problem->contract.batch_rank, problem->contract.batch, factor->batch));
    return bytes > (double)problem->machine->block.unit && samba_source_is_far(source, true)
               ? problem->machine->block.line_wait * lines_of(source, &source->own_axis) * lines_of(source, &source->inner_axis)
               : 0;
}

bool samba_contract_in_place(const samba_contract_plan *plan, const samba_finish *finish)
{
    int64_t pitch = finish->used ? finish->result_strides[finish->rank - 2] : 0;
    return samba_finish_is_copy(finish) && !plan->swapped && !plan->view && !plan->apart && plan->slices == 1 &&
           plan->row.inner.blocks > 0 && pitch >= plan->vector.own.total && pitch <= INT_MAX / 8;
}

/* A sum of a result that no cache holds, whose rows are far apart and written in short pieces: each line is waited for. A product
 * of few k, as the weight gradient of a small batch, is little else. */
static double short_pieces_cost(const samba_contract_problem *problem, const samba_contract_plan *plan)
{
    const samba_cpu_machine *machine = problem->machine;
    if (!samba_contract_in_place(plan, problem->finish))
        return 0;
    int64_t size = plan->row.element_size, pitch = problem->finish->result_strides[problem->finish->rank - 2] * size;
    bool far = pitch >= machine->block.near_rows && plan->vector.own.width * size < machine->block.piece &&
               problem->m * pitch > machine->block.unit;
    return far ? machine->block.line_wait * (double)size / 64 : 0;
}

static void cost_plan(const samba_contract_problem *problem, samba_contract_plan *plan, double row_cost, double vector_cost)
{
    const samba_cpu_machine *machine = problem->machine;
    int lanes = lanes_of(problem);
    const samba_split *row = &plan->row.own, *vector = &plan->vector.own;
    double rate = machine->product.rate * lanes, rows = (double)plan->sums_rows,
           depth = (double)problem->k / (double)plan->slices;
    double steps = (double)(plan->row.inner.blocks + plan->slices - 1) / (double)plan->slices;
    bool many = problem->threads > SAMBA_FEW_THREADS;
    if (many && plan->slices > 1) /* the longest slice's */
        depth = (double)at_most(divide_up(plan->row.inner.blocks, plan->slices) * plan->row.inner.width, problem->k);
    int64_t cols = at_most(vector->total, plan->vector_group * vector->width);
    int64_t block_cols = plan->view ? plan->sums_ld : vector->width;
    double blocks = (double)cols / (double)vector->width, row_blocks = rows / (double)row->width, sums = rows * (double)cols;
    double unit, turns;
    plan->cost = 0;
    if (plan->way == SAMBA_WAY_DOT) {
        int64_t run = plan->dot_run;
        unit = sums * depth / rate * (double)round_up(run, lanes) / (double)run; /* a run's last vector is a part of one */
        unit = unit * (machine->block.dot + machine->block.dot_rows / (double)at_most(row->width, 4)) +
               sums * steps * machine->block.dot_sum;
        unit += sums / (double)at_most(row->width, 6) * depth / (double)run; /* each run of some columns has to be found */
    } else {
        int64_t run = plan->vector_packed || plan->view ? block_cols : plan->vector.own_axis.run;
        double width = (double)(round_up(run, lanes) * block_cols / run);
        unit = rows * blocks * width * depth / rate * (1.0 + machine->block.row_start / (double)row->width);
        if (plan->way == SAMBA_WAY_OFFSETS && !plan->vector_packed && !plan->view)
            unit *= samba_skip_share(&plan->vector);
        if (plan->way == SAMBA_WAY_DENSE && machine->libxsmm && !machine->masked && run % lanes)
            unit *= machine->block.partial_vector;
        if (block_cols <= lanes)
            unit *= (plan->way == SAMBA_WAY_DENSE && machine->libxsmm) || row->width >= 8 ? machine->block.one_vector
                                                                                          : machine->block.one_vector_few_rows;
        /* Many rows in work at once that lie whole pages apart fall on one cache set. */
        if (!plan->row_packed && plan->row_step == 1 && plan->row_ld * plan->row.element_size % machine->product.page == 0 &&
            block_cols <= 2 * lanes && row->width > 8)
            unit *= machine->block.same_set;
        if (plan->way == SAMBA_WAY_OFFSETS && !plan->row_packed)
            unit += rows * depth * far_cost(problem, &plan->row);
        if (plan->way == SAMBA_WAY_DENSE && !plan->row_packed &&
            plan->row_step * plan->row.element_size >= machine->block.near_rows)
            unit *= machine->block.far_steps;
        if (plan->way == SAMBA_WAY_DENSE && !plan->vector_packed && row->total > 12)
            unit *= distance_penalty(machine, plan->vector_ld * plan->vector.element_size);
    }
    if (plan->way == SAMBA_WAY_INTEGER)
        unit *= machine->block.integer;
    unit += steps * blocks * row_blocks * machine->block.start + depth * (row_cost * rows + vector_cost * (double)cols);
    unit += sums * (machine->block.sum + (plan->swapped ? machine->block.sum_swapped : 0) +
                    (plan->view ? machine->block.sum_view : 0) + short_pieces_cost(problem, plan)) +
            machine->block.unit_start;
    unit += plan->slices > 1 ? sums * machine->block.sum_sliced : 0;
    int64_t touched = plan->sums_bytes + plan->vector_pack_bytes + plan->row_pack_bytes * plan->row_group + plan->turn_bytes +
                      plan->vector.plane_bytes + plan->row.plane_bytes * (plan->row_packed ? 1 : plan->row_group);
    int64_t room = samba_cpu_room(machine, 2, problem->threads, INT64_MAX);
    if (touched + plan->sums_bytes * (plan->together - 1) > room) /* any that fits is better */
        plan->cost = machine->block.too_large * (double)touched / (double)room;
    if (steps > 1 && plan->sums_bytes > machine->block.near_sums)
        unit += sums * steps * machine->block.sum_again;
    if (touched > machine->block.unit)
        unit *= machine->block.beyond + (double)touched / (double)machine->block.unit * machine->block.beyond_more;
    turns = (double)((plan->units * plan->slices + problem->threads - 1) / problem->threads);
    double last = plan->apart ? (double)problem->batches * (double)problem->m * (double)problem->n / problem->threads
                              : sums * (double)((plan->units + problem->threads - 1) / problem->threads);
    if (many && plan->slices > 1) { /* shared by all threads, each of which reads what the others have summed */
        last = sums * (double)plan->units / problem->threads;
        plan->cost += last * (double)(plan->slices * plan->row.element_size) * machine->block.crossing;
    }
    plan->cost += unit * turns + (plan->slices > 1 || plan->apart ? machine->block.barrier : 0) + last * problem->finish_cost +
                  crossing_bytes(problem, plan) * machine->block.crossing;
}

/* ---- choosing ---- */

static void group_units(const samba_contract_problem *problem, samba_contract_plan *plan)
{
    const samba_split *row = &plan->row.own, *vector = &plan->vector.own;
    int64_t size = plan->row.element_size;
    plan->row_units = (row->blocks + plan->row_group - 1) / plan->row_group;
    plan->vector_units = (vector->blocks + plan->vector_group - 1) / plan->vector_group;
    plan->units = problem->batches * plan->row_units * plan->vector_units;
    plan->sums_rows = at_most(row->total, plan->row_group * row->width);
    if (!plan->view)
        plan->sums_ld = at_most(vector->total, plan->vector_group * vector->width);
    if (plan->apart)
        plan->sums_ld = vector->total;
    plan->sums_bytes = plan->apart ? 0 : round_up(plan->sums_rows * plan->sums_ld * size, 64);
    plan->turn_bytes = plan->swapped ? round_up((plan->apart ? row->total : plan->sums_rows) * vector->width * size, 64) : 0;
}

/* What a unit packs serves the units after it while they want the same: an operand without batch, in one piece. */
static bool packed_once(const samba_source *source, int batch_rank, int64_t units)
{
    for (int i = 0; i < batch_rank; i++)
        if (source->factor.batch[i] != 0)
            return false;
    return units == 1 && source->inner.blocks == 1 && !source->plane_bytes;
}

/* Is the operand packed in several steps of k and the same for all batch elements? Units that go through the steps
 * together pack it once. */
static bool packed_together(const samba_source *source, int batch_rank)
{
    bool same = source->inner.blocks > 1 && !source->plane_bytes;
    for (int i = 0; i < batch_rank; i++)
        same = same && source->factor.batch[i] == 0;
    return same;
}

/* All groupings and slicings of described blocks. */
static void try_groups(const samba_contract_problem *problem, samba_contract_plan *plan, samba_contract_plan *best)
{
    bool whole = problem->contract.whole_rows && !plan->apart, all_rows = whole && plan->swapped,
         all_vectors = whole && !plan->swapped;
    int64_t row_blocks = plan->row.own.blocks, vector_blocks = plan->vector.own.blocks, most = plan->view ? 1 : 8;
    double row_cost = source_cost(problem->machine, &plan->row, plan->row_packed, true);
    double vector_cost = source_cost(problem->machine, &plan->vector, plan->vector_packed, false);
    int most_slices = plan->apart ? 1 : problem->threads;
    if (all_rows && row_blocks > SAMBA_CONTRACT_GROUP)
        return;
    for (int64_t rows = 1; rows <= SAMBA_CONTRACT_GROUP && rows < 2 * row_blocks; rows *= 2)
        for (int64_t vectors = 1; vectors <= most && vectors < 2 * vector_blocks; vectors *= 2)
            for (int slices = 1; slices <= most_slices; slices += problem->threads > 1 ? problem->threads - 1 : 1) {
                plan->row_group = all_rows ? row_blocks : at_most(rows, row_blocks);
                plan->vector_group = all_vectors ? vector_blocks : at_most(vectors, vector_blocks);
                plan->slices = slices;
                group_units(problem, plan);
                double share = (double)at_most(plan->units, problem->threads) / (double)plan->units;
                bool row_once = plan->row_packed && packed_once(&plan->row, problem->contract.batch_rank, plan->row_units);
                bool vector_once = plan->vector_packed && vector_blocks == 1 &&
                                   packed_once(&plan->vector, problem->contract.batch_rank, plan->vector_units);
                if (slices > plan->row.inner.blocks && slices > 1)
                    continue;
                bool rows_shared = plan->row_packed && !row_once && packed_together(&plan->row, problem->contract.batch_rank);
                bool vectors_shared =
                    plan->vector_packed && vector_blocks == 1 && packed_together(&plan->vector, problem->contract.batch_rank);
                plan->together = 1;
                if ((rows_shared || vectors_shared) && plan->units == problem->batches && slices == 1)
                    plan->together =
                        at_most(at_most(problem->machine->block.together_sums / (plan->sums_bytes + 1), SAMBA_CONTRACT_TOGETHER),
                                problem->batches / problem->threads);
                plan->together = plan->together < 1 ? 1 : plan->together;
                if (plan->together > 1) {
                    cost_plan(problem, plan,
                              rows_shared ? row_cost / (double)plan->together
                              : row_once  ? row_cost * share
                                          : row_cost,
                              vectors_shared ? vector_cost / (double)plan->together : vector_cost);
                    if (best->cost < 0 || plan->cost < best->cost)
                        *best = *plan;
                    continue;
                }
                cost_plan(problem, plan, row_once ? row_cost * share : row_cost, vector_once ? vector_cost * share : vector_cost);
                if (best->cost < 0 || plan->cost < best->cost)
                    *best = *plan;
            }
}

/* Together, and where rows are whole and several threads could share columns, apart. */
static void try_plan(const samba_contract_problem *problem, samba_contract_plan *plan, samba_contract_plan *best)
{
    try_groups(problem, plan, best);
    int64_t size = plan->row.element_size;
    if (problem->threads == 1 || !problem->contract.whole_rows || plan->view || problem->k == 0 ||
        problem->batches * problem->m * problem->n > problem->machine->block.shared_sums / size)
        return;
    plan->apart = true;
    try_groups(problem, plan, best);
}

/* Many threads, and so few sums that only k is long enough for all of them: its steps are then as short as a thread's slice, or
 * a part of one, that slices of whole steps are alike. */
static int64_t slice_of(const samba_contract_problem *problem, int parts)
{
    enum { LEAST = 16 };
    return round_up(divide_up(problem->k, (int64_t)parts * problem->threads), LEAST);
}

static bool wants_slices(const samba_contract_problem *problem)
{
    enum { BLOCK = 64 * 64 }; /* sums */
    double sums = (double)problem->batches * (double)problem->m * (double)problem->n;
    return problem->k > 0 && problem->threads > SAMBA_FEW_THREADS && slice_of(problem, 1) < problem->machine->product.step &&
           sums < (double)BLOCK * problem->threads;
}

bool samba_contract_choose(const samba_contract_problem *problem, samba_contract_plan *best)
{
    static const int64_t row_targets[] = {64, 32, 16, 8}, vector_targets[] = {64, 128, 256, 1024};
    const samba_contract *contract = &problem->contract;
    samba_contract_plan plan;
    bool possible = false;
    enum { CANDIDATES = SAMBA_COUNT(row_targets) * SAMBA_COUNT(vector_targets), PARTS = 3 };
    const int depths = wants_slices(problem) ? 1 + PARTS : 1;
    best->cost = -1;
    /* way: bit 0 swapped; bits 1 and 2 vector side, row side packed though they might be read in place; bits 3 and 4 vector side
     * along its gaps, its plane unrolled. 32 and 33: dot, unrolled */
    for (int way = 0; way < 34; way++) {
        bool swapped = way < 32 && way % 2 == 1, dot = way >= 32, unrolled = way < 32 ? way & 16 : way == 33;
        bool windows = (dot || swapped ? contract->a.window_count : 0) + (dot || !swapped ? contract->b.window_count : 0) > 0;
        if ((unrolled && !windows) || (way & 8 && (way & 16 || way & 2)))
            continue;
        int row_rank = swapped ? contract->n_rank : contract->m_rank, vector_rank = swapped ? contract->m_rank : contract->n_rank;
        const int64_t *row_size = swapped ? contract->n : contract->m, *vector_size = swapped ? contract->m : contract->n;
        for (int i = 0; i < CANDIDATES * depths; i++) {
            int64_t row_target = row_targets[i % SAMBA_COUNT(row_targets)],
                    vector_target = vector_targets[i / SAMBA_COUNT(row_targets) % SAMBA_COUNT(vector_targets)];
            int depth = i / CANDIDATES;
            plan = (samba_contract_plan){.swapped = swapped};
            init_source(problem, swapped, &plan.row);
            init_source(problem, !swapped, &plan.vector);
            samba_split_init(&plan.row.own, row_rank, row_size, row_target, 1);
            samba_split_init(&plan.vector.own, vector_rank, vector_size, vector_target, lanes_of(problem));
            if (!describe_sources(problem, &plan, dot, unrolled,
                                  depth > 0 ? slice_of(problem, 1 << (depth - 1)) : problem->k + 1))
                continue;
            possible = true;
            if (describe_ways(problem, &plan, dot, way & 2, way & 4, !dot && way & 8))
                try_plan(problem, &plan, best);
        }
    }
    return possible;
}
