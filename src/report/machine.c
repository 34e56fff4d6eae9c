/* SPDX-License-Identifier: Apache-2.0
 *
 * The roofs of this machine, and the share of them that work reaches. Bandwidth is that of reading (bandwidth.c), since a stage
 * reads more than it writes. The bandwidth of a cache is that of reading a quarter MiB again and again. The best of several times
 * counts: other programs may be at work. */
#include "base/busy.h"
#include "base/team.h"
#include "report/clones.h"
#include "report/report.h"
#include <sambaflow/app.h>

#include <stdatomic.h>
#include <string.h>
#include <time.h>

#define CACHE_BYTES (256 << 10)

SAMBA_CLONES static uint64_t sum_of(const uint64_t *words, int64_t count)
{
    typedef uint64_t vector __attribute__((vector_size(64), aligned(8)));
    vector sums[4] = {{0}};
    for (int64_t i = 0; i + 32 <= count; i += 32) /* four sums, so that none waits for an addition */
        for (int k = 0; k < 4; k++)
            sums[k] += *(const vector *)(words + i + 8 * k);
    sums[0] += sums[1] + sums[2] + sums[3];
    uint64_t sum = 0;
    for (int k = 0; k < 8; k++)
        sum += sums[0][k];
    return sum;
}

enum { WORDS = CACHE_BYTES / 8 };
typedef struct cache_work {
    const uint64_t *words;
    _Atomic uint64_t sum, rate; /* of all threads; bytes a second */
} cache_work;

/* Each thread reads memory of its own again and again, and takes its own time: waking the others is no part of it. */
static void read_cache(void *argument, int thread, int team)
{
    enum { ROUNDS = 512 };
    cache_work *work = argument;
    const uint64_t *own = work->words + (int64_t)thread * WORDS;
    uint64_t sum = 0;
    double start = samba_seconds();
    (void)team;
    for (int k = 0; k < ROUNDS; k++)
        sum += sum_of(own + 8 * (sum & 1), WORDS - 8); /* 0: but the compiler may not know */
    double seconds = samba_seconds() - start;
    work->sum += sum;
    work->rate += seconds > 0 ? (uint64_t)(8.0 * (WORDS - 8) * ROUNDS / seconds) : 0;
}

static double cache_rate(const uint64_t *words, int threads)
{
    enum { REPEATS = 12 };
    uint64_t best = 0;
    for (int i = 0; i < REPEATS; i++) {
        cache_work work = {.words = words};
        samba_team(threads, read_cache, &work);
        if (work.sum == 0 && work.rate > best) /* the memory is all zeros */
            best = work.rate;
    }
    return (double)best;
}

samba_status samba_machine_measure(samba_context *context, int threads, samba_machine *machine)
{
    SAMBA_NEED(NULL, context);
    SAMBA_NEED(context, machine);
    *machine = (samba_machine){.threads = threads};
    if (threads < 1 || threads > 4096)
        return samba_fail(context, SAMBA_ERROR_ARGUMENT, "samba_machine_measure: %d threads, expected 1 to 4096", threads);
    const samba_busy_mark begin = samba_busy_begin();
    samba_host_memory memory;
    SAMBA_TRY(samba_host_memory_new(context, threads * (int64_t)CACHE_BYTES, threads, &memory));
    machine->cache_bytes_per_second = cache_rate((const uint64_t *)(const void *)memory.data, threads);
    samba_host_memory_free(&memory);
    SAMBA_TRY(samba_measure_bandwidth(context, threads, &machine->memory_bytes_per_second));
    machine->flops_per_second = samba_measure_fma_peak(threads);
    machine->bf16_flops_per_second = samba_measure_bf16_peak(threads);
    samba_processor_name(machine->processor, sizeof machine->processor);
    machine->measured_at = (int64_t)time(NULL);
    machine->others = samba_busy_others(&begin);
    return SAMBA_OK;
}

static double over(double amount, double rate) { return rate > 0 ? amount / rate : 0; }

/* Measuring memory errs by so much: what is faster by less may have come from there all the same. */
#define MEASURED 1.25

/* least seconds: with data from memory and from caches, and the parts of them in which data is what is waited for */
typedef struct need {
    double memory, cache, waits_memory, waits_cache;
} need;

static void add_need(need *sum, const samba_machine *machine, bool bf16, double flops, double bytes)
{
    double peak = bf16 && machine->bf16_flops_per_second > 0 ? machine->bf16_flops_per_second : machine->flops_per_second;
    double compute = over(flops, peak), memory = over(bytes, machine->memory_bytes_per_second),
           cache = over(bytes, machine->cache_bytes_per_second);
    sum->memory += memory > compute ? memory : compute;
    sum->cache += cache > compute ? cache : compute;
    sum->waits_memory += memory > compute ? memory : 0;
    sum->waits_cache += cache > compute ? cache : 0;
}

static samba_roof roof_of(const need *sum, double seconds)
{
    samba_roof roof = {.bound = "", .seconds = sum->memory};
    if (seconds <= 0 || sum->memory <= 0)
        return roof;
    bool cached = sum->memory > MEASURED * seconds && sum->waits_memory > 0;
    double least = cached ? sum->cache : sum->memory, waits = cached ? sum->waits_cache : sum->waits_memory;
    roof.bound = 2 * waits < least ? "compute" : cached ? "cache" : "memory";
    roof.share = least / seconds;
    return roof;
}

samba_roof samba_machine_roof(const samba_machine *machine, bool bf16, double flops, double bytes, double seconds)
{
    if (!machine)
        return (samba_roof){0};
    need sum = {0};
    add_need(&sum, machine, bf16, flops, bytes);
    return roof_of(&sum, seconds);
}

bool samba_stage_is_bf16(const samba_stage *stage)
{
    if (stage->kind == SAMBA_STAGE_CONTRACT)
        return stage->contract.a.dtype == SAMBA_BFLOAT16 && stage->contract.b.dtype == SAMBA_BFLOAT16;
    return stage->kind == SAMBA_STAGE_ATTENTION && stage->operand_count > 0 && stage->operands[0].dtype == SAMBA_BFLOAT16;
}

double samba_time_mean(const samba_time *time) { return time->runs > 0 ? time->seconds / (double)time->runs : 0; }

samba_roof samba_stage_roof(const samba_stage *stage, const samba_machine *machine, double seconds)
{
    return samba_machine_roof(machine, samba_stage_is_bf16(stage), (double)stage->flops, (double)stage->bytes, seconds);
}

samba_roof samba_section_roof(const samba_plan *plan, const samba_plan_section *section, const samba_machine *machine,
                              double seconds)
{
    need sum = {0};
    for (int32_t i = section->first_stage; i < section->first_stage + section->stage_count; i++)
        add_need(&sum, machine, samba_stage_is_bf16(&plan->stages[i]), (double)plan->stages[i].flops,
                 (double)plan->stages[i].bytes);
    return roof_of(&sum, seconds);
}

samba_status samba_session_stage_roof(const samba_session *session, const samba_machine *machine, int stage, samba_roof *roof)
{
    SAMBA_NEED(NULL, session);
    SAMBA_NEED(session->context, machine);
    SAMBA_NEED(session->context, roof);
    samba_time time;
    SAMBA_TRY(samba_session_stage_time(session, stage, &time));
    *roof = samba_stage_roof(&session->plan.stages[stage], machine, samba_time_mean(&time));
    return SAMBA_OK;
}

samba_status samba_session_section_roof(const samba_session *session, const samba_machine *machine, int section, samba_roof *roof)
{
    SAMBA_NEED(NULL, session);
    SAMBA_NEED(session->context, machine);
    SAMBA_NEED(session->context, roof);
    samba_time time;
    SAMBA_TRY(samba_session_section_time(session, section, &time));
    const samba_plan_section *its = &session->plan.sections[section];
    *roof = samba_section_roof(&session->plan, its, machine, samba_time_mean(&time));
    return SAMBA_OK;
}
