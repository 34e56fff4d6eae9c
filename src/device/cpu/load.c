/* SPDX-License-Identifier: Apache-2.0
 *
 * See load.h. Where bytes lie is followed buffer by buffer through two steps, of which the second counts: a buffer that one
 * thread wrote, or each thread its part in the order of memory, or nobody knows who. Caches are taken to be large enough. */
#include "device/cpu/load.h"

#include <string.h>

typedef enum place { UNTOUCHED, WITH_ONE, IN_ORDER, ANYWHERE } place; /* a buffer's bytes; untouched: as the host gave them */

typedef struct work {
    const samba_stages *of;
    samba_arena *arena;
    uint8_t *places; /* of buffers */
    double *busy;    /* ns of each thread; as a heap, the least first, where units are taken as they come free */
} work;

/* ---- how long threads work ---- */

static void sink(double *heap, int count)
{
    for (int at = 0, next; (next = 2 * at + 1) < count; at = next) {
        next += next + 1 < count && heap[next + 1] < heap[next];
        if (heap[at] <= heap[next])
            return;
        double least = heap[next];
        heap[next] = heap[at];
        heap[at] = least;
    }
}

/* most: work of the phase that has most so far. */
static void add_phase(const work *w, const samba_prepared *stage, int phase, bool shared, double *most, samba_stage_load *load)
{
    const int threads = w->of->threads, parts = shared ? threads : 1;
    bool free = false;
    double all = 0, slowest = 0;
    int64_t units = stage->dealing->units(stage->state, phase, parts, &free);
    memset(w->busy, 0, (size_t)parts * sizeof *w->busy);
    int thread = 0;
    for (int64_t unit = 0; unit < units; unit++) {
        double time = stage->dealing->work(stage->state, phase, parts, unit);
        while (!free && unit >= units * (thread + 1) / parts)
            thread++;
        all += time;
        w->busy[free ? 0 : thread] += time;
        if (free)
            sink(w->busy, parts);
    }
    for (int i = 0; i < parts; i++)
        slowest = w->busy[i] > slowest ? w->busy[i] : slowest;
    load->slowest += slowest;
    load->mean += all / threads;
    if (all > *most)
        load->units = units;
    *most = all > *most ? all : *most;
}

/* ---- what moves from core to core ---- */

static double others(const work *w) { return 1 - 1.0 / w->of->threads; }

/* Elements that a stage reads of an operand, once each, and whether all threads read all of them: its outermost dim is not
 * theirs to divide. */
static double operand_bytes(const samba_stage *stage, const samba_operand *operand, const samba_buffer *buffer, bool *all)
{
    double bytes = (double)samba_dtype_size((samba_dtype)operand->dtype);
    bool found = false;
    *all = false;
    for (int i = 0; i < stage->rank; i++) {
        if (stage->domain[i] == 1)
            continue;
        bytes *= operand->strides[i] ? (double)stage->domain[i] : 1;
        *all = *all || (!found && operand->strides[i] == 0);
        found = true;
    }
    return stage->rank == 0 || bytes > (double)buffer->bytes ? (double)buffer->bytes : bytes;
}

/* Of `bytes` that are read, `often` times by different threads. */
static double cross(const work *w, place at, bool shared, bool in_order, double bytes)
{
    if (at == UNTOUCHED || (at == WITH_ONE && !shared) || (at == IN_ORDER && shared && in_order))
        return 0;
    return bytes * others(w);
}

static void add_bytes(const work *w, int32_t index, samba_stage_load *load)
{
    const samba_stage *stage = &w->of->plan->stages[index];
    const samba_prepared *prepared = &w->of->stages[index];
    const samba_buffer *buffers = w->of->plan->buffers;
    bool shared = w->of->shared[index];
    samba_moved moved = {.in_order = !prepared->dealing->moved};
    if (prepared->dealing->moved && shared)
        prepared->dealing->moved(prepared->state, w->of->threads, &moved);
    load->bytes = moved.shared;
    if (stage->kind == SAMBA_STAGE_CONTRACT) {
        const samba_factor *sides[2] = {&stage->contract.a, &stage->contract.b};
        for (int i = 0; i < 2; i++)
            load->bytes += cross(w, (place)w->places[sides[i]->buffer], shared, false,
                                 shared ? moved.reads[i] : (double)buffers[sides[i]->buffer].bytes);
    }
    for (int32_t i = 0; i < stage->operand_count; i++) {
        const samba_operand *operand = &stage->operands[i];
        bool all;
        if (operand->buffer < 0 || !(samba_stage_access(stage, i) & SAMBA_READS))
            continue;
        double bytes = operand_bytes(stage, operand, &buffers[operand->buffer], &all);
        load->bytes += cross(w, (place)w->places[operand->buffer], shared, moved.in_order && !all,
                             all && shared ? bytes * w->of->threads : bytes);
    }
    for (int32_t i = 0; i < stage->operand_count; i++)
        if (stage->operands[i].buffer >= 0 && (samba_stage_access(stage, i) & SAMBA_WRITES))
            w->places[stage->operands[i].buffer] = !shared ? WITH_ONE : moved.in_order ? IN_ORDER : ANYWHERE;
}

/* ---- a step ---- */

static void add_stage(const work *w, int32_t index, samba_load *load)
{
    samba_stage_load *to = &load->stages[index];
    const samba_prepared *stage = &w->of->stages[index];
    double most = 0;
    *to = (samba_stage_load){.road = stage->road};
    for (int phase = stage->refresh_phases; phase < stage->phases; phase++)
        add_phase(w, stage, phase, w->of->shared[index], &most, to);
    if (stage->dealing->held)
        to->held_count = stage->dealing->held(stage->state, to->held);
    add_bytes(w, index, to);
    load->slowest += to->slowest;
    load->mean += to->mean;
    load->bytes += to->bytes;
}

static void add_step(const work *w, samba_load *load)
{
    const samba_plan *plan = w->of->plan;
    const samba_plan_graph *graph = &plan->graphs[0];
    samba_stage_before before = SAMBA_NOTHING;
    samba_stage_load *stages = load->stages;
    *load = (samba_load){.stages = stages};
    for (int32_t call = 0; call < graph->call_count; call++) {
        const samba_plan_section *section = &plan->sections[plan->calls[graph->first_call + call]];
        for (int32_t i = section->first_stage; i < section->first_stage + section->stage_count; i++) {
            const samba_prepared *stage = &w->of->stages[i];
            bool shared = w->of->shared[i];
            if (stage->phases == stage->refresh_phases)
                continue;
            bool meets = samba_stage_meets(before, shared, w->of->apart[i]);
            load->barriers += meets + (shared ? stage->phases - stage->refresh_phases - 1 : 0);
            before = samba_stage_after(before, shared, meets);
            add_stage(w, i, load);
        }
    }
}

samba_status samba_load_find(const samba_stages *stages, samba_arena *arena, samba_load *load)
{
    const samba_plan *plan = stages->plan;
    work w = {.of = stages, .arena = arena};
    w.places = samba_arena_alloc(arena, (size_t)plan->buffer_count);
    w.busy = samba_arena_alloc(arena, (size_t)stages->threads * sizeof *w.busy);
    load->stages = samba_arena_alloc(arena, (size_t)plan->stage_count * sizeof *load->stages);
    if (!w.places || !w.busy || !load->stages)
        return SAMBA_ERROR_MEMORY;
    memset(w.places, UNTOUCHED, (size_t)plan->buffer_count);
    memset(load->stages, 0, (size_t)plan->stage_count * sizeof *load->stages);
    add_step(&w, load); /* so that buffers lie where a step leaves them */
    add_step(&w, load);
    return SAMBA_OK;
}
