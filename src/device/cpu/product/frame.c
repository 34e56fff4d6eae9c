/* SPDX-License-Identifier: Apache-2.0
 *
 * See frame.h: choosing a road for a contraction, and what all roads do alike while they run. */
#include "device/cpu/product/frame.h"
#include "device/cpu/product/roads.h"

#include <stddef.h>
#include <string.h>

static const samba_road *const roads[] = {
#define ROAD(name, idea) &samba_road_##name,
#include "device/cpu/product/roads.def"
};

enum { COUNTER_BYTES = 64, MOST_STATE = 16384 /* bytes of a road's state, which is on the stack while roads are compared */ };

int64_t samba_frame_room(samba_frame *frame, int64_t bytes)
{
    int64_t at = frame->own_bytes;
    frame->own_bytes += round_up(bytes, 64);
    return at;
}

void samba_frame_fetch(const samba_frame *frame, int64_t row0, int64_t rows, int64_t col0, int64_t cols, samba_fetch *fetch)
{
    if (!frame->finish.used) {
        samba_tile_fetch(frame->program, row0, rows, col0, cols, fetch);
    } else if (samba_finish_is_even(&frame->finish)) {
        samba_finish_rows some = samba_finish_at(&frame->finish, row0, col0);
        int64_t size = (int64_t)samba_dtype_size(some.dtype);
        samba_fetch_rows(fetch, some.result, cols * size, rows, some.pitch * size);
        if (some.more)
            samba_fetch_rows(fetch, some.more, cols * size, rows, some.more_pitch * size);
    }
}

/* ---- running ---- */

static bool collects(const samba_frame *f) { return samba_tile_has_collect(f->program); }
/* Partial results of an epilogue that collects are the threads', so what each does is fixed. */
static bool comes_free(const samba_frame *f) { return !f->in_order && !(collects(f) && !f->apart); }
/* Packs of this run, or a counter that somebody has to reset before it. */
static bool packs(const samba_frame *f) { return f->parts > 0 || (comes_free(f) && !f->counts_kept); }

static samba_frame_phase phase_of(const samba_frame *f, int phase)
{
    if (f->kept_parts > 0 && phase-- == 0)
        return SAMBA_FRAME_KEPT;
    if (packs(f) && phase-- == 0)
        return SAMBA_FRAME_PACK;
    if (phase-- == 0)
        return SAMBA_FRAME_UNITS;
    return f->apart > 0 && phase == 0 ? SAMBA_FRAME_APART : SAMBA_FRAME_COLLECT;
}

static int64_t share(int64_t count, int thread, int threads) { return thread * count / threads; }

static void pack_parts(const samba_frame *f, const samba_workspace *at, bool kept, int thread, int threads)
{
    int64_t parts = kept ? f->kept_parts : f->parts;
    for (int64_t part = share(parts, thread, threads); part < share(parts, thread + 1, threads); part++)
        f->road->pack(f, at, kept, part);
}

/* Units as they come free. Nobody resets a kept counter before a run: the last thread to find none left does it for the next. */
static void take_units(const samba_frame *f, const samba_workspace *at, int64_t *next, int threads)
{
    int64_t unit;
    while ((unit = __atomic_fetch_add(next, 1, __ATOMIC_RELAXED)) < f->units)
        f->road->run(f, at, unit, unit + 1);
    if (f->counts_kept && unit == f->units + threads - 1)
        __atomic_store_n(next, 0, __ATOMIC_RELAXED);
}

static void run(const void *state, char *scratch, int phase, int thread, int threads)
{
    const samba_frame *f = state;
    int64_t *next = (int64_t *)(f->counts_kept ? f->kept : scratch);
    char *own = scratch + COUNTER_BYTES + f->shared_bytes;
    const samba_workspace at = {
        .kept = f->kept ? f->kept + COUNTER_BYTES : NULL, .shared = scratch + COUNTER_BYTES, .own = own + thread * f->own_bytes};
    samba_frame_phase at_work = phase_of(f, phase);
    if (at_work == (f->apart > 0 ? SAMBA_FRAME_APART : SAMBA_FRAME_UNITS)) /* the phase of the epilogue */
        samba_tile_begin(f->program, at.own);
    switch (at_work) {
    case SAMBA_FRAME_KEPT: pack_parts(f, &at, true, thread, threads); return;
    case SAMBA_FRAME_PACK:
        if (thread == 0 && comes_free(f) && !f->counts_kept)
            __atomic_store_n(next, 0, __ATOMIC_RELAXED);
        pack_parts(f, &at, false, thread, threads);
        return;
    case SAMBA_FRAME_UNITS:
        if (f->empty_rows && thread == 0)
            samba_tile_region(f->program, at.own, 0, f->empty_rows, 0, 0, at.own, 0);
        if (comes_free(f))
            take_units(f, &at, next, threads);
        else if (share(f->units, thread, threads) < share(f->units, thread + 1, threads))
            f->road->run(f, &at, share(f->units, thread, threads), share(f->units, thread + 1, threads));
        return;
    case SAMBA_FRAME_APART:
        if (share(f->apart, thread, threads) < share(f->apart, thread + 1, threads))
            f->road->finish(f, &at, share(f->apart, thread, threads), share(f->apart, thread + 1, threads));
        return;
    case SAMBA_FRAME_COLLECT: samba_tile_finish(f->program, own, f->own_bytes, thread, threads); return;
    }
}

/* ---- how it is dealt ---- */

static int64_t dealt_units(const void *state, int phase, int threads, bool *free)
{
    const samba_frame *f = state;
    *free = false;
    switch (phase_of(f, phase)) {
    case SAMBA_FRAME_KEPT: return f->kept_parts;
    case SAMBA_FRAME_PACK: return f->parts;
    case SAMBA_FRAME_UNITS: *free = comes_free(f) && threads > 1; return f->units;
    case SAMBA_FRAME_APART: return f->apart;
    case SAMBA_FRAME_COLLECT: return threads;
    }
    return 0;
}

static double dealt_work(const void *state, int phase, int threads, int64_t unit)
{
    const samba_frame *f = state;
    samba_frame_phase at_work = phase_of(f, phase);
    return at_work == SAMBA_FRAME_COLLECT ? samba_tile_finish_work(f->program, (int)unit, threads)
                                          : f->road->work(f, at_work, unit);
}

static void dealt_moved(const void *state, int threads, samba_moved *moved)
{
    const samba_frame *f = state;
    if (f->road->moved)
        f->road->moved(f, threads, moved);
    moved->shared += samba_tile_partial_bytes(f->program) * (threads - 1);
}

static int dealt_held(const void *state, samba_held held[SAMBA_HELD])
{
    const samba_frame *f = state;
    return f->road->held ? f->road->held(f, held) : 0;
}

static const samba_dealing dealing = {dealt_units, dealt_work, dealt_moved, dealt_held};

/* ---- preparing ---- */

static int64_t product(int rank, const int64_t *size)
{
    int64_t total = 1;
    for (int i = 0; i < rank; i++)
        total *= size[i];
    return total;
}

static samba_status check_operands(const samba_preparing *prepare, const samba_stage *stage)
{
    const samba_contract *contract = &stage->contract;
    const int32_t dtypes[2] = {contract->a.dtype, contract->b.dtype};
    for (int i = 0; i < 2; i++)
        if ((int32_t)samba_class_of((samba_dtype)dtypes[i]) != contract->class_)
            return samba_fail(prepare->context, SAMBA_ERROR_INTERNAL,
                              "%s: operand %d of a contraction is %s, which its sums cannot take", stage->name, i,
                              samba_dtype_name((samba_dtype)dtypes[i]));
    return SAMBA_OK;
}

static void describe(const samba_preparing *prepare, const samba_stage *stage, const samba_finish *finish,
                     samba_contract_problem *problem)
{
    samba_contract *contract = &problem->contract;
    *problem = (samba_contract_problem){.contract = stage->contract,
                                        .machine = prepare->machine,
                                        .buffers = prepare->buffers,
                                        .memory = prepare->memory,
                                        .threads = prepare->threads,
                                        .finish = finish,
                                        .finish_cost = prepare->machine->product.finish * stage->program.instruction_count};
    problem->constant_a = prepare->constant && prepare->constant[stage->contract.a.buffer];
    problem->constant_b = prepare->constant && prepare->constant[stage->contract.b.buffer];
    problem->batches = product(contract->batch_rank, contract->batch);
    problem->m = product(contract->m_rank, contract->m);
    problem->n = product(contract->n_rank, contract->n);
    problem->k = product(contract->k_rank, contract->k);
    if (problem->k == 0) {
        contract->k_rank = 1;
        contract->k[0] = 0;
        contract->a.window_count = contract->b.window_count = 0;
    }
    if (problem->batches && problem->m && problem->n)
        samba_contract_simplify(contract);
}

static void begin(samba_frame *frame, const samba_road *road, const samba_contract_problem *problem,
                  const samba_tile_program *program)
{
    memset(frame, 0, road->size);
    frame->road = road;
    frame->machine = problem->machine;
    frame->program = program;
    frame->finish = *problem->finish;
    frame->contract = problem->contract;
    frame->multiply = 1 / (problem->machine->product.rate * problem->machine->kernels->lanes);
    frame->element = problem->finish_cost;
}

/* The state of the cheapest road, planned, in the arena. */
static samba_status choose(const samba_preparing *prepare, const samba_stage *stage, const samba_contract_problem *problem,
                           const samba_tile_program *program, samba_frame **chosen)
{
    _Alignas(max_align_t) char states[2][MOST_STATE];
    const samba_road *best = NULL;
    double least = -1;
    int at = 0;
    for (int i = 0; i < SAMBA_COUNT(roads); i++) {
        samba_frame *frame = (samba_frame *)states[at];
        if (roads[i]->size > MOST_STATE)
            return samba_fail(prepare->context, SAMBA_ERROR_INTERNAL, "the state of road %s is larger than frame.c has room for",
                              roads[i]->name);
        if (prepare->road && strcmp(prepare->road, roads[i]->name) != 0)
            continue;
        begin(frame, roads[i], problem, program);
        double cost = roads[i]->plan(problem, frame);
        if (cost < 0 || (best && cost >= least))
            continue;
        best = roads[i];
        least = cost;
        at = 1 - at;
        if (cost == 0)
            break;
    }
    if (!best && prepare->road)
        return samba_fail(prepare->context, SAMBA_ERROR_UNSUPPORTED,
                          "stage %d \"%.128s\": the road \"%.32s\" does not lead there", prepare->stage_index, stage->name,
                          prepare->road);
    if (!best)
        return samba_fail(prepare->context, SAMBA_ERROR_MEMORY,
                          "stage %d \"%.128s\": its windows reach over more elements than a machine's memory has",
                          prepare->stage_index, stage->name);
    *chosen = samba_arena_alloc(prepare->arena, best->size);
    if (!*chosen)
        return SAMBA_ERROR_MEMORY;
    memcpy(*chosen, states[1 - at], best->size);
    return SAMBA_OK;
}

/* Nothing to multiply: no units, but perhaps rows. */
static const samba_road nothing = {.name = "nothing", .size = sizeof(samba_frame)};

samba_status samba_prepare_contract(const samba_preparing *prepare, const samba_stage *stage, samba_prepared *prepared)
{
    samba_frame *f;
    samba_finish finish;
    samba_contract_problem problem;
    const samba_tile_program *program;
    SAMBA_TRY(check_operands(prepare, stage));
    SAMBA_TRY(samba_tile_program_new(prepare, stage, &program));
    samba_finish_init(&finish, prepare, stage);
    describe(prepare, stage, &finish, &problem);
    uint64_t shape = 0;
    bool empty = problem.batches == 0 || problem.m == 0 || problem.n == 0;
    if (empty) {
        f = samba_arena_alloc(prepare->arena, sizeof *f);
        if (!f)
            return SAMBA_ERROR_MEMORY;
        begin(f, &nothing, &problem, program);
        f->in_order = true;
        f->empty_rows = problem.n == 0 ? problem.batches * problem.m : 0;
    } else {
        SAMBA_TRY(choose(prepare, stage, &problem, program, &f));
        if (prepare->compared) { /* where the program happens to lie is no part of it */
            f->program = NULL;
            shape = samba_hash(f, f->road->size, 0);
            f->program = program;
        }
    }
    samba_frame_room(f, samba_tile_thread_scratch(program));
    if (!empty)
        SAMBA_TRY(f->road->prepare(prepare, &problem, f));
    f->shared_bytes = round_up(f->shared_bytes, 64);
    f->counts_kept = f->kept_parts > 0 && f->parts == 0 && comes_free(f);
    *prepared = (samba_prepared){
        .run = run, .state = f, .shared_scratch = COUNTER_BYTES + f->shared_bytes, .thread_scratch = f->own_bytes};
    prepared->road = f->road->name;
    prepared->shape = shape;
    prepared->dealing = &dealing;
    prepared->refresh_phases = f->kept_parts > 0;
    prepared->kept_bytes = f->kept_parts > 0 ? COUNTER_BYTES + round_up(f->kept_bytes, 64) : 0;
    prepared->kept = f->kept_parts > 0 ? &f->kept : NULL;
    prepared->phases = prepared->refresh_phases + packs(f) + 1 + (f->apart > 0) + collects(f);
    return SAMBA_OK;
}
