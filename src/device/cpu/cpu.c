/* SPDX-License-Identifier: Apache-2.0
 *
 * The CPU as a device: a team of OpenMP threads that walks through the stages of all sections of a run in one parallel region.
 * Every thread takes its part of a shared stage; a stage too small to share is prepared for one thread and done by thread 0.
 * Barriers stand only where one stage may need what another thread wrote: not between two stages of thread 0. A run without a
 * shared stage enters no parallel region at all.
 *
 * Results do not depend on how many threads OpenMP really gives: a stage is always cut into `threads` parts, and a smaller team
 * takes several each.
 *
 * What runs never change is computed and packed apart from them (plan/constants.c): stages that are constant, and the first
 * phases of stages that keep packs, run before the first run and again before the run after the host has written constant memory.
 *
 * The device owns its memory, the prepared stages (in its arena) and one scratch block as large as the greediest stage needs. */
#include "base/team.h"
#include "device/cpu/machine.h"
#include "device/cpu/apart.h"
#include "device/cpu/barrier.h"
#include "device/cpu/choice.h"
#include "device/cpu/load.h"
#include "device/device.h"
#include "device/cpu/reuse.h"
#include "device/cpu/sharing.h"
#include "device/cpu/affinity.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

typedef struct cpu_device {
    samba_device base;
    samba_barrier barrier;
    samba_context *context;
    int threads;
    samba_cpu_machine machine;
    samba_host_memory memory;
    samba_arena arena, prepared; /* the latter: what stages were prepared to */
    const samba_plan *plan;
    samba_prepared *stages;
    samba_affinity *team;               /* where the threads are */
    uint8_t *shared, *far;              /* per stage: run by all threads; touches what is in no cache */
    double *held;                       /* per stage: bytes that one core holds alone when it begins */
    const samba_choice *const *choices; /* per stage, not ours; NULL: the model has all */
    bool excessive;                     /* choices asked for a road, or for memory, that they cannot have */
    uint8_t *apart;                     /* per stage: need not meet those before it */
    samba_host_memory scratch, kept;
    samba_constants constants;
    bool any_shared;        /* some stage is run by all threads */
    bool may_fault;         /* some stage may meet bad data */
    bool stale;             /* constant memory has changed since it was packed */
    volatile int32_t fault; /* stage + 1 */
    int64_t fault_element;  /* of stages of matrices: the first stage and its first matrix (kernel.h) */
} cpu_device;

/* ---- opening ---- */
static samba_status choose_isa(const samba_device_options *options, samba_isa *isa)
{
    char available[128];
    *isa = samba_isa_best();
    const char *kept = getenv("SAMBAFLOW_ISA"), *asked = options->isa ? options->isa : kept && kept[0] ? kept : NULL;
    if (!asked)
        return SAMBA_OK;
    for (int i = 0; i < SAMBA_ISA_COUNT; i++)
        if (samba_kernels_for((samba_isa)i) && strcmp(samba_isa_names[i], asked) == 0) {
            *isa = (samba_isa)i;
            return SAMBA_OK;
        }
    samba_isa_list(available, sizeof available);
    const char *family = samba_isa_elsewhere(asked);
    if (family)
        return samba_fail(
            options->context, SAMBA_ERROR_UNSUPPORTED,
            "instruction set \"%.64s\" is not available: it belongs to %s processors, and this build has no kernels "
            "for it; this processor and library have %s",
            asked, family, available);
    return samba_fail(options->context, SAMBA_ERROR_UNSUPPORTED,
                      "instruction set \"%.64s\" is not available: this processor and library have %s", asked, available);
}

static samba_status cpu_describe(const samba_device_options *options, samba_device_tell *tell, void *to)
{
    samba_isa isa;
    samba_cpu_machine machine;
    SAMBA_TRY(choose_isa(options, &isa));
    samba_cpu_machine_init(&machine, isa);
    samba_cpu_machine_survey(&machine);
    samba_cpu_machine_tell(&machine, tell, to);
    return SAMBA_OK;
}

static samba_status cpu_open(const samba_device_options *options, samba_device **device)
{
    samba_isa isa;
    SAMBA_TRY(choose_isa(options, &isa));
    cpu_device *cpu = samba_calloc(options->context, sizeof *cpu);
    if (!cpu)
        return SAMBA_ERROR_MEMORY;
    cpu->base = (samba_device){.interface = &samba_device_cpu, .isa = samba_isa_names[isa]};
    cpu->context = options->context;
    cpu->threads = options->threads;
    samba_cpu_machine_init(&cpu->machine, isa);
    samba_arena_init(&cpu->arena, options->context);
    samba_arena_init(&cpu->prepared, options->context);
    *device = &cpu->base;
    return SAMBA_OK;
}

static void cpu_close(samba_device *device)
{
    cpu_device *cpu = (cpu_device *)device;
    samba_host_memory_free(&cpu->scratch);
    samba_host_memory_free(&cpu->kept);
    samba_arena_free(&cpu->arena);
    samba_arena_free(&cpu->prepared);
    samba_host_memory_free(&cpu->memory);
    samba_free(cpu->context, cpu, sizeof *cpu);
}

/* A team that several nodes of memory may have between them settles before it touches any. */
static samba_status cpu_allocate(samba_device *device, const samba_plan *plan, int64_t bytes)
{
    cpu_device *cpu = (cpu_device *)device;
    uint16_t *owners = NULL;
    samba_nodes nodes = {.count = 1};
    if (cpu->threads >= cpu->machine.share.nodes)
        samba_cpu_machine_nodes(&nodes);
    if (nodes.count > 1) {
        samba_affinity_settle(&nodes, cpu->threads);
        SAMBA_TRY(samba_page_owners(plan, bytes, cpu->threads, &cpu->arena, &owners));
    }
    return samba_host_memory_new_for(cpu->context, bytes, cpu->threads, owners, &cpu->memory);
}

static samba_status cpu_write(samba_device *device, int64_t offset, const void *host, size_t size)
{
    cpu_device *cpu = (cpu_device *)device;
    memcpy(cpu->memory.data + offset, host, size);
    if (cpu->plan && !samba_constants_spared(&cpu->constants, offset, (int64_t)size))
        __atomic_store_n(&cpu->stale, true, __ATOMIC_RELAXED); /* threads may write at once */
    return SAMBA_OK;
}

static samba_status cpu_read(samba_device *device, int64_t offset, void *host, size_t size)
{
    memcpy(host, ((cpu_device *)device)->memory.data + offset, size);
    return SAMBA_OK;
}

static char *cpu_map(samba_device *device, int64_t offset) { return ((cpu_device *)device)->memory.data + offset; }

/* ---- building ---- */
/* What stages are prepared to, and what a thread works in, is little beside the plan's memory, or little at all. A file whose
 * numbers ask for more is refused before it gets it:
 * a window of 3e8 columns over a plane of 16 would have a table of gigabytes. */
#define TABLE_BYTES ((int64_t)64 << 20) /* of all stages */
#define TABLE_BYTES_A_STAGE (16 << 10)
/* at most, an eighth of what the plan says that it takes, which costs a file nothing to say */
#define TABLE_BYTES_OF_MEMORY ((int64_t)256 << 20)
#define SCRATCH_BYTES ((int64_t)64 << 20)
#define SCRATCH_OF_MEMORY 32 /* sorting bytes takes items of 16 bytes, twice */

static int64_t most_table_bytes(const samba_plan *plan)
{
    int64_t of_memory = plan->memory_bytes / 8;
    return TABLE_BYTES + (int64_t)plan->stage_count * TABLE_BYTES_A_STAGE +
           (of_memory < TABLE_BYTES_OF_MEMORY ? of_memory : TABLE_BYTES_OF_MEMORY);
}

static samba_status too_greedy(cpu_device *cpu, int32_t stage, const char *what, int64_t most)
{
    cpu->excessive = true;
    return samba_fail(cpu->context, SAMBA_ERROR_MEMORY,
                      "stage %d \"%.128s\": with it, %s would take more than %lld MiB, which no plan of %lld KiB needs", stage,
                      cpu->plan->stages[stage].name, what, (long long)(most >> 20), (long long)(cpu->plan->memory_bytes >> 10));
}

static samba_status prepare_one(cpu_device *cpu, const samba_preparing *prepare, samba_prepared *stage)
{
    int32_t i = prepare->stage_index;
    int64_t most = SCRATCH_BYTES + SCRATCH_OF_MEMORY * cpu->plan->memory_bytes;
    samba_status status = samba_prepare_stage(prepare, &cpu->plan->stages[i], stage);
    if (status == SAMBA_ERROR_MEMORY && prepare->arena->refused)
        return too_greedy(cpu, i, "the tables of the stages", most_table_bytes(cpu->plan));
    if (status == SAMBA_OK && (stage->thread_scratch > most || stage->shared_scratch > most))
        return too_greedy(cpu, i, "a thread's scratch", most);
    if (status == SAMBA_OK && stage->kept_bytes > most)
        return too_greedy(cpu, i, "packed constants", most);
    cpu->excessive |= status == SAMBA_ERROR_UNSUPPORTED && prepare->road;
    return status;
}

static samba_stages stages_of(const cpu_device *cpu)
{
    return (samba_stages){cpu->plan, cpu->stages, cpu->shared, cpu->apart, cpu->threads};
}

static samba_preparing preparation(cpu_device *cpu, int32_t stage, samba_arena *arena)
{
    return (samba_preparing){.context = cpu->context,
                             .machine = &cpu->machine,
                             .memory = cpu->memory.data,
                             .buffers = cpu->plan->buffers,
                             .arena = arena,
                             .fault = &cpu->fault,
                             .fault_element = &cpu->fault_element,
                             .stage_index = stage,
                             .far = cpu->far[stage],
                             /* keeps no packs where it runs too seldom for that, or where they are of what is frozen: a step
                               * has so many samples that packing once a run is little of it */
                             .constant =
                                 cpu->constants.stage[stage] || cpu->constants.trains[stage] ? NULL : cpu->constants.buffer};
}

static samba_sharing sharing_of(const cpu_device *cpu)
{
    return (samba_sharing){cpu->plan, &cpu->constants, cpu->threads, cpu->held};
}

/* By the machine that the preparation has, which says too whether threads share the stage. */
static samba_status prepare_by(cpu_device *cpu, samba_preparing *prepare, samba_prepared *stage)
{
    int32_t i = prepare->stage_index;
    const samba_sharing sharing = sharing_of(cpu);
    bool shared = samba_stage_is_shared(&sharing, prepare->machine, i, i > 0 && cpu->shared[i - 1]);
    prepare->threads = shared ? cpu->threads : 1;
    return prepare_one(cpu, prepare, stage);
}

/* A machine and a road for a stage of its own: what is chosen of one stage changes no other. */
static samba_status take_choice(cpu_device *cpu, samba_preparing *prepare, const samba_choice *choice)
{
    samba_cpu_machine *machine = samba_arena_alloc(prepare->arena, sizeof *machine);
    if (!machine)
        return prepare->arena->refused
                   ? too_greedy(cpu, prepare->stage_index, "the tables of the stages", most_table_bytes(cpu->plan))
                   : SAMBA_ERROR_MEMORY;
    *machine = cpu->machine;
    samba_cpu_choice_apply(choice, machine);
    prepare->machine = machine;
    prepare->road = choice->road;
    return SAMBA_OK;
}

static samba_status scratch_of(const cpu_device *cpu, int32_t stage, int threads, int64_t *needed)
{
    if (samba_mul_checked(cpu->stages[stage].thread_scratch, threads, needed) &&
        samba_add_checked(*needed, cpu->stages[stage].shared_scratch, needed))
        return SAMBA_OK;
    return samba_fail(cpu->context, SAMBA_ERROR_MEMORY, "stage %d \"%.128s\" needs more scratch memory than a machine can have",
                      stage, cpu->plan->stages[stage].name);
}

static samba_status prepare_stages(cpu_device *cpu, int64_t *scratch)
{
    const samba_plan *plan = cpu->plan;
    samba_arena_bound(&cpu->prepared, (size_t)most_table_bytes(plan));
    const samba_sharing sharing = sharing_of(cpu);
    SAMBA_TRY(samba_sharing_find_held(&sharing, &cpu->machine, &cpu->prepared));
    *scratch = SAMBA_ALIGNMENT;
    cpu->base.kept = 0;
    cpu->any_shared = cpu->may_fault = cpu->excessive = false;
    cpu->stale = true;
    for (int32_t i = 0; i < plan->stage_count; i++) {
        int64_t needed;
        samba_preparing prepare = preparation(cpu, i, &cpu->prepared);
        if (cpu->choices && cpu->choices[i])
            SAMBA_TRY(take_choice(cpu, &prepare, cpu->choices[i]));
        SAMBA_TRY(prepare_by(cpu, &prepare, &cpu->stages[i]));
        cpu->shared[i] = prepare.threads > 1;
        cpu->any_shared |= prepare.threads > 1;
        cpu->may_fault |= plan->stages[i].kind == SAMBA_STAGE_GATHER || plan->stages[i].kind == SAMBA_STAGE_LINE ||
                          plan->stages[i].kind == SAMBA_STAGE_CTC || plan->stages[i].kind == SAMBA_STAGE_MATRIX;
        SAMBA_TRY(scratch_of(cpu, i, prepare.threads, &needed));
        if (needed > *scratch)
            *scratch = needed;
        if (cpu->constants.stage[i])
            cpu->stages[i].refresh_phases = cpu->stages[i].phases;
        if (!samba_add_checked(cpu->base.kept, cpu->stages[i].kept_bytes, &cpu->base.kept))
            return samba_fail(cpu->context, SAMBA_ERROR_MEMORY, "packed constants need more memory than a machine can have");
    }
    const samba_stages stages = stages_of(cpu);
    return samba_apart_find(&stages, &cpu->prepared, cpu->apart);
}

/* By the choices if this plan can have them all, else by the model alone. */
static samba_status prepare_chosen(cpu_device *cpu, int64_t *scratch)
{
    samba_status status = prepare_stages(cpu, scratch);
    cpu->base.unfit[0] = '\0';
    if (status == SAMBA_OK || !cpu->choices || !cpu->excessive)
        return status;
    snprintf(cpu->base.unfit, sizeof cpu->base.unfit, "%s", samba_error_message(cpu->context));
    cpu->choices = NULL;
    samba_arena_free(&cpu->prepared);
    return prepare_stages(cpu, scratch);
}

/* One block for all packs that stages keep. */
static samba_status give_kept_memory(cpu_device *cpu)
{
    if (cpu->base.kept == 0)
        return SAMBA_OK;
    SAMBA_TRY(samba_host_memory_new(cpu->context, cpu->base.kept, cpu->threads, &cpu->kept));
    char *next = cpu->kept.data;
    for (int32_t i = 0; i < cpu->plan->stage_count; i++)
        if (cpu->stages[i].kept) {
            *cpu->stages[i].kept = next;
            next += cpu->stages[i].kept_bytes;
        }
    return SAMBA_OK;
}

static void touch_scratch(void *device, int thread, int team)
{
    const cpu_device *cpu = device;
    const size_t part = cpu->scratch.size / (size_t)cpu->threads;
    (void)team;
    memset(cpu->scratch.data + (size_t)thread * part, 0, part);
}

/* The threads come to life here, so that the first run needs no memory for them; each touches its share of the scratch. */
static void wake_team(const cpu_device *cpu) { samba_team(cpu->threads, touch_scratch, (void *)cpu); }

static samba_status prepare(cpu_device *cpu, const samba_plan *plan)
{
    SAMBA_TRY(samba_constants_find(plan, &cpu->arena, &cpu->constants));
    cpu->plan = plan;
    bool pairs = false;
    for (int32_t g = 0; g < plan->graph_count; g++)
        pairs = pairs || plan->graphs[g].precision == 1;
    if (pairs && !cpu->machine.pairs)
        cpu->base.caution =
            "this PEF has contractions in bfloat16, for which this processor, or the instruction set that was asked for, has no "
            "unit: results are right, but no faster than in float32";
    cpu->stages = samba_arena_alloc(&cpu->arena, (size_t)plan->stage_count * sizeof *cpu->stages);
    cpu->team = samba_arena_alloc(&cpu->arena, (size_t)cpu->threads * sizeof *cpu->team);
    cpu->shared = samba_arena_alloc(&cpu->arena, (size_t)plan->stage_count);
    cpu->far = samba_arena_alloc(&cpu->arena, (size_t)plan->stage_count);
    cpu->held = samba_arena_alloc(&cpu->arena, (size_t)plan->stage_count * sizeof *cpu->held);
    cpu->apart = samba_arena_alloc(&cpu->arena, (size_t)plan->stage_count);
    if (!cpu->stages || !cpu->team || !cpu->shared || !cpu->far || !cpu->held || !cpu->apart)
        return SAMBA_ERROR_MEMORY;
    memset(cpu->apart, 0, (size_t)plan->stage_count);
    SAMBA_TRY(samba_reuse_find(cpu->context, plan, cpu->machine.near, cpu->far));
    return prepare_chosen(cpu, &cpu->base.scratch);
}

static samba_status cpu_build(samba_device *device, const samba_plan *plan)
{
    cpu_device *cpu = (cpu_device *)device;
    SAMBA_TRY(prepare(cpu, plan));
    SAMBA_TRY(give_kept_memory(cpu));
    /* large pages: panels of products stand in it */
    SAMBA_TRY(samba_host_memory_new(cpu->context, cpu->base.scratch, cpu->threads, &cpu->scratch));
    if (cpu->any_shared)
        wake_team(cpu);
    return SAMBA_OK;
}

static samba_status cpu_rebuild(samba_device *device)
{
    cpu_device *cpu = (cpu_device *)device;
    int64_t scratch;
    samba_host_memory_free(&cpu->kept);
    samba_arena_free(&cpu->prepared);
    SAMBA_TRY(prepare_chosen(cpu, &scratch));
    SAMBA_TRY(give_kept_memory(cpu));
    if (scratch <= cpu->base.scratch)
        return SAMBA_OK;
    samba_host_memory_free(&cpu->scratch); /* other addresses, other kernels */
    cpu->base.scratch = scratch;
    return samba_host_memory_new(cpu->context, scratch, cpu->threads, &cpu->scratch);
}

/* Preparing stages computes addresses but touches no memory: addresses that nothing stands behind do. */
static samba_status cpu_measure(samba_device *device, const samba_plan *plan)
{
    cpu_device *cpu = (cpu_device *)device;
    size_t size = plan->memory_bytes > 0 ? (size_t)plan->memory_bytes : 1;
    void *addresses = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (addresses == MAP_FAILED)
        return samba_fail(cpu->context, SAMBA_ERROR_MEMORY, "no room for %lld bytes of addresses", (long long)plan->memory_bytes);
    cpu->memory.data = addresses;
    samba_status status = prepare(cpu, plan);
    cpu->memory.data = NULL;
    munmap(addresses, size);
    return status;
}

/* ---- choices ---- */
static samba_status cpu_choose(samba_device *device, const samba_plan *plan, const samba_choice *const *choices)
{
    cpu_device *cpu = (cpu_device *)device;
    for (int32_t i = 0; choices && i < plan->stage_count; i++)
        if (choices[i])
            SAMBA_TRY(samba_cpu_choice_check(cpu->context, &cpu->machine, &plan->stages[i], i, choices[i]));
    cpu->choices = choices;
    return SAMBA_OK;
}

/* What a way of preparing a stage comes to: two that are alike run alike. */
typedef struct outcome {
    int threads, phases;
    int64_t shared_scratch, thread_scratch, kept;
    const char *road;
    uint64_t shape;
} outcome;

static bool same_outcome(const outcome *a, const outcome *b)
{
    return a->threads == b->threads && a->phases == b->phases && a->shared_scratch == b->shared_scratch &&
           a->thread_scratch == b->thread_scratch && a->kept == b->kept && a->road == b->road && a->shape == b->shape;
}

/* In an arena that is gone afterwards. All machines that are compared stand in one place, `machine`: states hold its address. */
static samba_status try_choice(cpu_device *cpu, int32_t stage, const samba_choice *choice, samba_cpu_machine *machine,
                               outcome *found)
{
    samba_arena arena;
    samba_prepared prepared = {.road = NULL};
    samba_arena_init(&arena, cpu->context);
    samba_arena_bound(&arena, (size_t)most_table_bytes(cpu->plan));
    samba_preparing prepare = preparation(cpu, stage, &arena);
    *machine = cpu->machine;
    samba_cpu_choice_apply(choice, machine);
    prepare.machine = machine;
    prepare.road = choice->road;
    prepare.compared = true;
    cpu->excessive = false;
    samba_status status = prepare_by(cpu, &prepare, &prepared);
    *found = (outcome){.threads = prepare.threads,
                       .phases = prepared.phases,
                       .shared_scratch = prepared.shared_scratch,
                       .thread_scratch = prepared.thread_scratch,
                       .kept = prepared.kept_bytes,
                       .road = prepared.road,
                       .shape = prepared.shape};
    samba_arena_free(&arena);
    return status;
}

static samba_status cpu_alternatives(samba_device *device, int32_t stage, int32_t room, samba_choice *list, int32_t *count)
{
    enum { MOST = 128 }; /* more than the rows make of any kind of stage */
    cpu_device *cpu = (cpu_device *)device;
    samba_cpu_machine machine;
    outcome known[MOST + 1];
    samba_choice choice = {.road = NULL};
    *count = 0;
    SAMBA_TRY(try_choice(cpu, stage, &choice, &machine, &known[0]));
    for (int i = 0; *count < room && *count < MOST; i++) {
        if (!samba_cpu_choice_at(&cpu->machine, (samba_stage_kind)cpu->plan->stages[stage].kind, i, &choice))
            break;
        outcome *fresh = &known[*count + 1];
        samba_status status = try_choice(cpu, stage, &choice, &machine, fresh);
        bool is_new = status == SAMBA_OK;
        if (status != SAMBA_OK && !cpu->excessive)
            return status;
        for (int32_t k = 0; is_new && k <= *count; k++)
            is_new = !same_outcome(&known[k], fresh);
        if (is_new)
            list[(*count)++] = choice;
    }
    return SAMBA_OK;
}

static const char *cpu_road(const samba_device *device, int32_t stage)
{
    const cpu_device *cpu = (const cpu_device *)device;
    return cpu->stages && stage >= 0 && stage < cpu->plan->stage_count ? cpu->stages[stage].road : NULL;
}

samba_status samba_cpu_load(samba_context *context, const samba_cpu_machine *machine, int threads, const samba_plan *plan,
                            samba_arena *arena, samba_load *load)
{
    const samba_device_options options = {.context = context, .threads = threads};
    samba_device *device;
    SAMBA_TRY(cpu_open(&options, &device));
    cpu_device *cpu = (cpu_device *)device;
    cpu->machine = *machine;
    samba_status status = cpu_measure(device, plan);
    const samba_stages stages = stages_of(cpu);
    if (status == SAMBA_OK)
        status = samba_load_find(&stages, arena, load);
    cpu_close(device);
    return status;
}

/* ---- running ---- */
enum { OPT = 5 }; /* samba_phase's number */

static void stage_alone(const samba_prepared *stage, char *scratch, int begin, int end)
{
    for (int phase = begin; phase < end; phase++)
        stage->run(stage->state, scratch, phase, 0, 1);
}

static void stage_together(cpu_device *cpu, const samba_prepared *stage, int begin, int end, int thread, int team)
{
    for (int phase = begin; phase < end; phase++) {
        if (phase > begin)
            samba_barrier_wait(&cpu->barrier, thread, team);
        for (int part = thread; part < cpu->threads; part += team)
            stage->run(stage->state, cpu->scratch.data, phase, part, cpu->threads);
    }
}

/* What a run does of stages, or with `refresh` what comes before it. All threads of the team take the same way through it. */
static samba_stage_before run_stages(cpu_device *cpu, int32_t first, int32_t count, bool refresh, samba_stage_before before,
                                     int thread, int team)
{
    for (int32_t i = first; i < first + count; i++) {
        const samba_prepared *stage = &cpu->stages[i];
        int begin = refresh ? 0 : stage->refresh_phases, end = refresh ? stage->refresh_phases : stage->phases;
        bool shared = cpu->shared[i];
        if (begin == end)
            continue;
        bool meets = samba_stage_meets(before, shared, cpu->apart[i] && !refresh);
        if (meets)
            samba_barrier_wait(&cpu->barrier, thread, team);
        if (shared)
            stage_together(cpu, stage, begin, end, thread, team);
        else if (thread == 0)
            stage_alone(stage, cpu->scratch.data, begin, end);
        before = samba_stage_after(before, shared, meets);
    }
    return before;
}

/* A model is not updated with gradients of an index that was not there.
 * All threads meet before they look, and before one may raise another fault. */
static bool stops_before(cpu_device *cpu, const samba_plan_section *section, int thread, int team)
{
    if (section->phase != OPT || !cpu->may_fault)
        return false;
    samba_barrier_wait(&cpu->barrier, thread, team);
    bool stops = cpu->fault != 0;
    samba_barrier_wait(&cpu->barrier, thread, team);
    return stops;
}

/* What each thread of the team does. */
static void run_sections(cpu_device *cpu, const int32_t *sections, int32_t count, int thread, int team)
{
    samba_stage_before before = SAMBA_NOTHING;
    for (int32_t s = 0; s < count; s++) {
        const samba_plan_section *section = &cpu->plan->sections[sections[s]];
        if (stops_before(cpu, section, thread, team))
            break;
        before = run_stages(cpu, section->first_stage, section->stage_count, false, before, thread, team);
    }
}

/* The same with a look at the clock at each border, where all threads meet first:
 * what a stage takes ends when its last thread does. */
static void run_sections_timed(cpu_device *cpu, const int32_t *sections, int32_t count, int thread, int team)
{
    samba_profiler *profiler = cpu->base.profiler;
    for (int32_t s = 0; s < count; s++) {
        const samba_plan_section *section = &cpu->plan->sections[sections[s]];
        if (stops_before(cpu, section, thread, team))
            break;
        const double start = samba_seconds();
        const int32_t step = profiler->with_stages ? 1 : section->stage_count;
        for (int32_t i = 0; i < section->stage_count; i += step) {
            const double begin = samba_seconds();
            if (run_stages(cpu, section->first_stage + i, step, false, SAMBA_NOTHING, thread, team) != SAMBA_NOTHING)
                samba_barrier_wait(&cpu->barrier, thread, team);
            if (thread == 0 && profiler->with_stages)
                samba_profiler_note(profiler, section->id, section->first_stage + i, begin, samba_seconds());
        }
        if (thread == 0)
            samba_profiler_note(profiler, section->id, -1, start, samba_seconds());
    }
}

/* A part of a copy, cut between cache lines. */
static void copy_part(char *to, const char *from, int64_t bytes, int part, int parts)
{
    int64_t lines = (bytes + 63) / 64, begin = lines * part / parts * 64, end = lines * (part + 1) / parts * 64;
    if (begin < bytes)
        memcpy(to + begin, from + begin, (size_t)((end < bytes ? end : bytes) - begin));
}

static void copy_in(const cpu_device *cpu, const samba_device_run *run, int part, int parts)
{
    for (int32_t i = 0; i < run->in_count; i++)
        copy_part(cpu->memory.data + run->in[i].offset, run->in[i].host, run->in[i].bytes, part, parts);
}

static void copy_out(const cpu_device *cpu, const samba_device_run *run, int part, int parts)
{
    for (int32_t i = 0; i < run->out_count && cpu->fault == 0; i++)
        copy_part(run->out[i].host, cpu->memory.data + run->out[i].offset, run->out[i].bytes, part, parts);
}

static bool any_shared(const cpu_device *cpu, const int32_t *sections, int32_t count)
{
    for (int32_t s = 0; s < count; s++) {
        const samba_plan_section *section = &cpu->plan->sections[sections[s]];
        if (section->stage_count > 0 && memchr(cpu->shared + section->first_stage, 1, (size_t)section->stage_count))
            return true;
    }
    return false;
}

static void refresh_part(void *device, int thread, int team)
{
    cpu_device *cpu = device;
    run_stages(cpu, 0, cpu->plan->stage_count, true, SAMBA_NOTHING, thread, team);
}

/* Constants computed and packed anew. */
static void refresh(cpu_device *cpu)
{
    samba_team(cpu->any_shared ? cpu->threads : 1, refresh_part, cpu);
    cpu->stale = cpu->fault != 0; /* a fault is to be reported by every run */
}

static int64_t bytes_of(const samba_device_copy *copies, int32_t count)
{
    int64_t bytes = 0;
    for (int32_t i = 0; i < count; i++)
        bytes += copies[i].bytes;
    return bytes;
}

static void run_all(cpu_device *cpu, const samba_device_run *run, int thread, int team)
{
    if (cpu->base.profiler)
        run_sections_timed(cpu, run->sections, run->section_count, thread, team);
    else
        run_sections(cpu, run->sections, run->section_count, thread, team);
}

typedef struct common_run {
    cpu_device *cpu;
    const samba_device_run *run;
    bool shared_in, shared_out;
} common_run;

static void run_part(void *argument, int thread, int team)
{
    const common_run *common = argument;
    cpu_device *cpu = common->cpu;
    if (thread > 0)
        samba_affinity_enter(cpu->team, thread);
    if (common->shared_in) {
        copy_in(cpu, common->run, thread, team);
        samba_barrier_wait(&cpu->barrier, thread, team);
    }
    run_all(cpu, common->run, thread, team);
    if (common->shared_out) {
        samba_barrier_wait(&cpu->barrier, thread, team);
        copy_out(cpu, common->run, thread, team);
    }
}

static void run_together(cpu_device *cpu, const samba_device_run *run, bool shared_in, bool shared_out)
{
    common_run common = {cpu, run, shared_in, shared_out};
    samba_affinity_enter(cpu->team, 0);
    samba_team(cpu->threads, run_part, &common);
}

static samba_status cpu_run(samba_device *device, const samba_device_run *run)
{
    cpu_device *cpu = (cpu_device *)device;
    bool together = any_shared(cpu, run->sections, run->section_count);
    bool shared_in = together && bytes_of(run->in, run->in_count) >= cpu->machine.share.copy;
    bool shared_out = together && bytes_of(run->out, run->out_count) >= cpu->machine.share.copy;
    cpu->fault = 0;
    cpu->fault_element = 0;
    if (!shared_in) /* copies in are of inputs, which are never constant */
        copy_in(cpu, run, 0, 1);
    if (cpu->stale)
        refresh(cpu);
    if (together)
        run_together(cpu, run, shared_in, shared_out);
    else
        run_all(cpu, run, 0, 1);
    if (!shared_out)
        copy_out(cpu, run, 0, 1);
    return SAMBA_OK;
}

static samba_status cpu_wait(samba_device *device)
{
    const cpu_device *cpu = (const cpu_device *)device;
    if (cpu->fault == 0)
        return SAMBA_OK;
    if (cpu->fault_element != 0)
        return samba_matrix_fail(cpu->context, cpu->plan->stages, cpu->fault_element);
    int32_t stage = cpu->fault - 1;
    return samba_fail(cpu->context, SAMBA_ERROR_ARGUMENT,
                      "stage %d \"%.128s\" met an index that is out of range; the run went on with 0 in its place, up to OPT, "
                      "which did not run: check the inputs "
                      "that the index is computed from, and begin the step anew",
                      stage, cpu->plan->stages[stage].name);
}

const samba_device_interface samba_device_cpu = {"cpu",    cpu_describe, cpu_open,         cpu_close,   cpu_allocate, cpu_write,
                                                 cpu_read, cpu_map,      cpu_build,        cpu_rebuild, cpu_measure,  cpu_run,
                                                 cpu_wait, cpu_choose,   cpu_alternatives, cpu_road};
