/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs of a session that is one of several replicas. Sections of REDUCE are exchanges between them: a range of device memory, a
 * bucket of gradients, becomes its mean over all (parallel/exchange.c). Everything else is the device's.
 *
 * Mode 'normal' runs a section of REDUCE in its place in the schedule. 'inorder' begins its exchange as soon as the section of
 * BCKWD that completes its bucket has run, and waits for it where the first section behind REDUCE needs it; the schedule is
 * kept.
 *
 * An exchange of FWD or BCKWD is of statistics that the next section reads: it runs in its place in every mode, at once, and is
 * done when the next section begins. It passes by the gradients that travel then (samba_exchange_now). All replicas run the same
 * sections of one PEF, in the order of their schedule, so all come to the same exchanges of either kind in the same order,
 * whatever their networks and threads do meanwhile: those of statistics meet each other, and so do those of gradients. In a run
 * that does not train there are none, so that replicas may evaluate different numbers of batches.
 *
 * With shard_optimizer (shard.c) a section of OPT updates a part of the parameters; the others' parts come behind it.
 *
 * A session joins the other replicas once: all must have one PEF, one seed and one version. Weights and buffers of the model are
 * replica 0's from the first run on. */
#include "runtime/runtime.h"

#include <string.h>

struct samba_joined {
    const samba_world *world;
    samba_exchange *exchange;
    int32_t *completed_by; /* per thing that runs: of REDUCE, the section of BCKWD that completes what it exchanges; -1: none */
    bool *begun;           /* per thing that runs: its exchange was begun in this run */
    int64_t *number;       /* then the exchanges so far, itself included */
    bool *done;            /* per thing that runs: 'optimal' has run it */
    int32_t late_count;    /* sections of REDUCE and OPT */
    int32_t *late;         /* the number of each among them */
    bool *follows;         /* [a * late_count + b]: of OPT a and another, b before it: b has to have run, or come */
    bool told;             /* weights were given to all */
    float **rests;         /* per stage: what rounding has left of the gradients that it exchanges; NULL: nothing is rounded */
    float *rest;           /* of all */
    int64_t rest_bytes;
};

enum { REDUCE = SAMBA_PLAN_REDUCE, OPT = SAMBA_PLAN_OPT };

static int32_t phase_of(const samba_session *session, int32_t at) { return session->plan.sections[at].phase; }

/* Exchanges share a section with nothing else (plan/check.c). */
bool samba_is_exchange(const samba_session *session, int32_t at)
{
    const samba_plan_section *section = &session->plan.sections[at];
    return section->stage_count > 0 && session->plan.stages[section->first_stage].kind == SAMBA_STAGE_EXCHANGE;
}

/* ---- joining ---- */
typedef struct pledge { /* what all replicas have alike */
    uint64_t pef, seed, signature;
    bool shards, rounds;
    char version[24];
} pledge;

static samba_status check_pledges(const samba_session *session, const samba_world *world)
{
    const int size = world->replicas.size;
    pledge own, *all;
    memset(&own, 0, sizeof own);
    own.pef = session->plan.hash;
    own.seed = session->seed;
    own.signature = session->plan.ops_signature;
    own.shards = session->shards_optimizer;
    own.rounds = session->rounds_gradients;
    snprintf(own.version, sizeof own.version, "%s", samba_version());
    all = samba_alloc(session->context, sizeof *all * (size_t)size);
    if (!all)
        return SAMBA_ERROR_MEMORY;
    samba_status status = samba_world_gather(session->context, world, &own, sizeof own, all);
    for (int i = 1; i < size && status == SAMBA_OK; i++) {
        const char *what = strcmp(all[i].version, all[0].version) != 0 || all[i].signature != all[0].signature
                               ? "version of sambaflow"
                           : all[i].pef != all[0].pef       ? "PEF"
                           : all[i].seed != all[0].seed     ? "seed"
                           : all[i].shards != all[0].shards ? "shard_optimizer"
                           : all[i].rounds != all[0].rounds ? "reduce_dtype"
                                                            : NULL;
        if (what)
            status = samba_fail(session->context, SAMBA_ERROR_ARGUMENT,
                                "replica %d has another %s than replica 0: replicas train one model together, with one PEF, one "
                                "seed, one version of sambaflow and the same options of replicas",
                                i, what);
    }
    samba_free(session->context, all, sizeof *all * (size_t)size);
    return status;
}

/* ---- order ---- */
/* Which sections of OPT have to follow which others, and the exchanges of which of REDUCE. */
static samba_status find_order(samba_session *session, samba_joined *joined)
{
    const samba_plan *plan = &session->plan;
    int32_t count = 0;
    SAMBA_TRY(SAMBA_ROOM(&session->arena, joined->late, session->run_count + 1));
    for (int32_t i = 0; i < plan->section_count; i++)
        joined->late[i] = phase_of(session, i) == REDUCE || phase_of(session, i) == OPT ? count++ : -1;
    SAMBA_TRY(SAMBA_ROOM(&session->arena, joined->follows, (size_t)count * (size_t)count + 1));
    for (int32_t a = 0; a < plan->section_count; a++)
        for (int32_t b = 0; b < a; b++)
            if (phase_of(session, a) == OPT && joined->late[b] >= 0)
                joined->follows[joined->late[a] * count + joined->late[b]] = samba_plan_follows(plan, a, b);
    joined->late_count = count;
    return SAMBA_OK;
}

/* ---- shards and rests ---- */
static bool is_rounded(const samba_session *session, const samba_stage *stage)
{
    return session->rounds_gradients && stage->kind == SAMBA_STAGE_EXCHANGE && stage->operands[0].dtype == SAMBA_FLOAT32;
}

/* Of the sections of REDUCE: only what is summed is rounded. */
static samba_status make_rests(samba_session *session, samba_joined *joined)
{
    const samba_plan *plan = &session->plan;
    int64_t count = 0;
    SAMBA_TRY(SAMBA_ROOM(&session->arena, joined->rests, plan->stage_count + 1));
    for (int pass = 0; pass < 2; pass++) {
        for (int32_t i = 0; i < plan->section_count; i++) {
            const samba_plan_section *section = &plan->sections[i];
            for (int32_t k = section->first_stage; k < section->first_stage + section->stage_count; k++) {
                if (section->phase != REDUCE || !is_rounded(session, &plan->stages[k]))
                    continue;
                if (pass == 1)
                    joined->rests[k] = joined->rest + count;
                count += plan->stages[k].domain[0];
            }
        }
        if (pass == 0 && count > 0) {
            joined->rest_bytes = count * (int64_t)sizeof(float);
            joined->rest = samba_calloc(session->context, (size_t)joined->rest_bytes);
            if (!joined->rest)
                return SAMBA_ERROR_MEMORY;
            count = 0;
        }
    }
    return SAMBA_OK;
}

int64_t samba_session_rest_bytes(const samba_session *session) { return session->joined ? session->joined->rest_bytes : 0; }

samba_status samba_check_shards(const samba_session *session, const samba_run_options *options, const samba_selection *selection)
{
    for (int32_t i = 0; session->shards.tensors && !options->data_parallel && i < selection->count; i++)
        if (phase_of(session, selection->sections[i]) == OPT)
            return samba_fail(session->context, SAMBA_ERROR_ARGUMENT,
                              "section %d (OPT) of a session with shard_optimizer updates this replica's part alone: run it with "
                              "data_parallel",
                              session->plan.sections[selection->sections[i]].id);
    return SAMBA_OK;
}

samba_status samba_session_join(samba_session *session)
{
    const samba_world *world;
    samba_joined *joined;
    if (session->joined)
        return SAMBA_OK;
    SAMBA_TRY(samba_world_meet(session->context, &world));
    SAMBA_TRY(check_pledges(session, world));
    if (session->shards_optimizer || session->rounds_gradients)
        SAMBA_TRY(samba_check_reduces(session->context, &session->plan,
                                      session->shards_optimizer ? "shard_optimizer" : "reduce_dtype"));
    SAMBA_TRY(SAMBA_ROOM(&session->arena, joined, 1));
    session->joined = joined;
    joined->world = world;
    SAMBA_TRY(SAMBA_ROOM(&session->arena, joined->completed_by, session->run_count + 1));
    SAMBA_TRY(SAMBA_ROOM(&session->arena, joined->begun, session->run_count + 1));
    SAMBA_TRY(SAMBA_ROOM(&session->arena, joined->number, session->run_count + 1));
    SAMBA_TRY(SAMBA_ROOM(&session->arena, joined->done, session->run_count + 1));
    for (int32_t i = 0; i < session->run_count; i++)
        joined->completed_by[i] =
            i < session->plan.section_count && phase_of(session, i) == REDUCE ? samba_plan_completion(&session->plan, i) : -1;
    SAMBA_TRY(find_order(session, joined));
    if (world->replicas.size == 1)
        return SAMBA_OK;
    SAMBA_TRY(make_rests(session, joined));
    if (session->shards_optimizer)
        SAMBA_TRY(samba_shard_plan(session->context, &session->arena, &session->plan, world->replicas.rank, world->replicas.size,
                                   &session->shards));
    SAMBA_TRY(samba_exchanges_begin(session));
    return samba_exchange_new(session->context, world, joined->rest != NULL, &joined->exchange);
}

void samba_session_part(samba_session *session)
{
    if (!session->joined)
        return;
    samba_exchange_free(session->joined->exchange);
    samba_free(session->context, session->joined->rest, (size_t)session->joined->rest_bytes);
}

int samba_session_sharers(const samba_session *session) { return session->joined ? session->joined->world->sharers : 1; }

const samba_world *samba_session_world(const samba_session *session) { return session->joined->world; }

int samba_session_size(const samba_session *session) { return session->joined ? session->joined->world->replicas.size : 1; }

int samba_session_rank(const samba_session *session) { return session->joined ? session->joined->world->replicas.rank : 0; }

/* ---- checking ---- */
const char *const samba_replica_modes[SAMBA_MODE_COUNT] = {"normal", "inorder", "optimal"};

static samba_status find_mode(const samba_session *session, const char *word, samba_replica_mode *mode)
{
    for (int i = 0; i < SAMBA_MODE_COUNT; i++)
        if (!word || strcmp(word, samba_replica_modes[i]) == 0) {
            *mode = (samba_replica_mode)i;
            return SAMBA_OK;
        }
    return samba_fail(session->context, SAMBA_ERROR_NAME, "data_parallel_mode is \"%.64s\": expected normal, inorder or optimal",
                      word);
}

samba_status samba_check_replicas(const samba_session *session, int32_t graph, const samba_run_options *options,
                                  samba_replica_mode *mode)
{
    const samba_world *world;
    const samba_plan_graph *its = &session->plan.graphs[graph];
    bool reduces = false;
    SAMBA_TRY(find_mode(session, options->data_parallel_mode, mode));
    if (!options->data_parallel && (options->reduce_on_rdu || *mode != SAMBA_MODE_NORMAL))
        return samba_fail(session->context, SAMBA_ERROR_ARGUMENT,
                          "%s says how data_parallel reduces gradients: it means nothing without it",
                          options->reduce_on_rdu ? "reduce_on_rdu" : "data_parallel_mode");
    if (!options->data_parallel)
        return SAMBA_OK;
    for (int32_t i = its->first_section; i < its->first_section + its->section_count; i++)
        reduces = reduces || phase_of(session, i) == REDUCE;
    if (!reduces && !its->inference)
        return samba_fail(
            session->context, SAMBA_ERROR_ARGUMENT,
            "data_parallel: graph \"%.128s\" has no section of type REDUCE, which averages the gradients of replicas: "
            "compile it with data_parallel",
            its->name);
    SAMBA_TRY(samba_world_meet(session->context, &world));
    if (*mode != SAMBA_MODE_NORMAL && world->replicas.size > 1 && !world->any_thread)
        return samba_fail(
            session->context, SAMBA_ERROR_UNSUPPORTED,
            "data_parallel_mode \"%s\" has a thread speak with the other replicas, and this program has begun MPI for "
            "one thread: begin it by MPI_Init_thread with MPI_THREAD_SERIALIZED or more, leave MPI to sambaflow, or "
            "take mode \"normal\"",
            samba_replica_modes[*mode]);
    return SAMBA_OK;
}

/* ---- weights ---- */
/* Replica 0 cannot give others state that they alone have room for. */
static samba_status check_loads(samba_session *session)
{
    const int size = session->joined->world->replicas.size;
    int64_t *all = session->shards.tensors ? samba_alloc(session->context, sizeof *all * (size_t)size) : NULL;
    if (!session->shards.tensors)
        return SAMBA_OK;
    if (!all)
        return SAMBA_ERROR_MEMORY;
    samba_status status = samba_world_gather(session->context, session->joined->world, &session->state_loads, sizeof *all, all);
    for (int i = 1; i < size && status == SAMBA_OK; i++)
        if (all[i] != all[0])
            status = samba_fail(session->context, SAMBA_ERROR_STATE,
                                "replica %d has loaded optimizer state %lld times and replica 0 %lld times: with shard_optimizer "
                                "every replica loads the checkpoint itself",
                                i, (long long)all[i], (long long)all[0]);
    samba_free(session->context, all, sizeof *all * (size_t)size);
    return status;
}

samba_status samba_share_weights(samba_session *session)
{
    samba_joined *joined = session->joined;
    if (joined->told)
        return SAMBA_OK;
    SAMBA_TRY(check_loads(session));
    for (int32_t i = 0; i < session->plan.tensor_count; i++) {
        const samba_plan_tensor *tensor = &session->plan.tensors[i];
        const samba_buffer *buffer = &session->plan.buffers[tensor->buffer];
        if ((tensor->kind == SAMBA_KIND_PARAMETER || tensor->kind == SAMBA_KIND_BUFFER) &&
            !(session->shards.tensors && session->shards.tensors[i].is))
            SAMBA_TRY(samba_world_broadcast(session->context, joined->world,
                                            session->device->interface->map(session->device, buffer->offset),
                                            (size_t)buffer->bytes, 0));
    }
    joined->told = true;
    return SAMBA_OK;
}

samba_status samba_session_share(samba_session *session)
{
    SAMBA_NEED(NULL, session);
    SAMBA_TRY(samba_session_enter(session, "samba_session_share"));
    samba_status status = samba_session_join(session);
    if (status == SAMBA_OK)
        status = samba_weights_need_all(session);
    if (status == SAMBA_OK)
        status = samba_share_weights(session);
    return samba_session_leave(session, status);
}

/* ---- running ---- */
static samba_exchange_range range_of(const samba_session *session, int32_t stage)
{
    const samba_operand *o = &session->plan.stages[stage].operands[0];
    const int64_t size = (int64_t)samba_dtype_size((samba_dtype)o->dtype);
    char *memory = session->device->interface->map(session->device, samba_session_offset(session, o->buffer));
    return (samba_exchange_range){
        .data = memory + o->offset * size, .dtype = (samba_dtype)o->dtype, .count = session->plan.stages[stage].domain[0]};
}

/* What a section of REDUCE exchanges. */
static samba_exchange_range gradients_of(const samba_session *session, int32_t section, int32_t stage)
{
    samba_exchange_range range = range_of(session, stage);
    const bool scatters = session->shards.tensors && session->shards.scatters[samba_plan_graph_of(&session->plan, section)];
    range.way = scatters ? SAMBA_EXCHANGE_SCATTER : SAMBA_EXCHANGE_MEAN;
    range.rest = session->joined->rests[stage];
    return range;
}

/* The parts of parameters that other replicas have updated, behind a section of OPT. */
static samba_status gather_updated(samba_session *session, int32_t at, bool begin)
{
    const samba_plan_section *section = &session->plan.sections[at];
    const int64_t first = samba_exchange_count(session->joined->exchange);
    for (int32_t n = 0; n < session->shards.update_count; n++) {
        const samba_shard_update *u = &session->shards.updates[n];
        if (u->stage < section->first_stage || u->stage >= section->first_stage + section->stage_count)
            continue;
        const samba_exchange_range range = {.data = session->device->interface->map(session->device, u->offset),
                                            .dtype = u->dtype,
                                            .count = u->count,
                                            .way = SAMBA_EXCHANGE_GATHER,
                                            .first = u->first,
                                            .whole = u->whole};
        SAMBA_TRY((begin ? samba_exchange_begin : samba_exchange_run)(session->joined->exchange, &range));
    }
    samba_exchanges_note(session, at, first, samba_exchange_count(session->joined->exchange));
    return SAMBA_OK;
}

static bool gathers(const samba_session *session, int32_t at)
{
    return session->shards.update_count > 0 && phase_of(session, at) == OPT;
}

static samba_status exchange(samba_session *session, int32_t at, bool begin)
{
    const samba_plan_section *section = &session->plan.sections[at];
    const int64_t first = samba_exchange_count(session->joined->exchange);
    for (int32_t k = 0; k < section->stage_count; k++) {
        const samba_exchange_range range = gradients_of(session, at, section->first_stage + k);
        SAMBA_TRY((begin ? samba_exchange_begin : samba_exchange_run)(session->joined->exchange, &range));
    }
    session->joined->begun[at] = true;
    session->joined->number[at] = samba_exchange_count(session->joined->exchange);
    samba_exchanges_note(session, at, first, session->joined->number[at]);
    return SAMBA_OK;
}

static samba_status exchange_now(samba_session *session, int32_t at)
{
    const samba_plan_section *section = &session->plan.sections[at];
    for (int32_t k = 0; k < section->stage_count; k++) {
        const samba_exchange_range range = range_of(session, section->first_stage + k);
        SAMBA_TRY(samba_exchange_now(session->joined->exchange, &range));
    }
    return SAMBA_OK;
}

/* Exchanges that section `at` of BCKWD makes possible, of those that the run comes to. */
static samba_status begin_completed(samba_session *session, const samba_device_run *work, int32_t from, int32_t at)
{
    for (int32_t i = from; i < work->section_count; i++) {
        const int32_t reduce = work->sections[i];
        if (phase_of(session, reduce) == REDUCE && !session->joined->begun[reduce] && session->joined->completed_by[reduce] == at)
            SAMBA_TRY(exchange(session, reduce, true));
    }
    return SAMBA_OK;
}

static bool completes(const samba_session *session, const samba_device_run *work, int32_t from, int32_t at)
{
    bool any = false;
    for (int32_t i = from; i < work->section_count; i++)
        any = any || (phase_of(session, work->sections[i]) == REDUCE && session->joined->completed_by[work->sections[i]] == at);
    return any;
}

static bool follows(const samba_joined *joined, int32_t section, int32_t before)
{
    return joined->follows[joined->late[section] * joined->late_count + joined->late[before]];
}

/* What section list[i] of OPT waits for: exchanges so far at the last of those that it reads; -1: another section before it. */
static int64_t waits_for(const samba_session *session, const int32_t *list, int32_t i)
{
    const samba_joined *joined = session->joined;
    int64_t number = 0;
    for (int32_t k = 0; k < i; k++)
        if (!joined->done[list[k]] && follows(joined, list[i], list[k]))
            return -1;
    for (int32_t at = 0; at < list[i]; at++)
        if (joined->begun[at] && joined->number[at] > number && follows(joined, list[i], at))
            number = joined->number[at];
    return number;
}

/* Sections of OPT in the order in which what they read comes. */
static samba_status run_updates(samba_session *session, const int32_t *list, int32_t count)
{
    samba_joined *joined = session->joined;
    memset(joined->done, 0, (size_t)session->run_count);
    for (int32_t n = 0; n < count; n++) {
        int32_t best = -1;
        int64_t least = INT64_MAX;
        for (int32_t i = 0; i < count; i++) {
            const int64_t number = joined->done[list[i]] ? -1 : waits_for(session, list, i);
            if (number >= 0 && number < least)
                least = number, best = i;
        }
        SAMBA_TRY(samba_exchange_wait(joined->exchange, least));
        SAMBA_TRY(samba_run_device(session, &(samba_device_run){.sections = &list[best], .section_count = 1}));
        if (gathers(session, list[best]))
            SAMBA_TRY(gather_updated(session, list[best], true));
        joined->done[list[best]] = true;
    }
    return SAMBA_OK;
}

samba_status samba_run_replicas(samba_session *session, const samba_device_run *work, samba_replica_mode mode, bool train)
{
    samba_joined *joined = session->joined;
    if (!joined->exchange)
        return samba_run_device(session, work);
    const bool overlap = mode != SAMBA_MODE_NORMAL;
    samba_device_run part = {.in = work->in, .in_count = work->in_count};
    memset(joined->begun, 0, (size_t)session->run_count);
    for (int32_t i = 0; i < work->section_count; i++) {
        const int32_t at = work->sections[i], first = (int32_t)(part.sections ? part.sections - work->sections : i);
        const bool reduces = phase_of(session, at) == REDUCE, now = !reduces && train && samba_is_exchange(session, at),
                   ends = (overlap && completes(session, work, i + 1, at)) || gathers(session, at);
        if (!reduces && !now) {
            part.sections = work->sections + first;
            part.section_count = i + 1 - first;
        }
        if ((reduces || now || ends) && (part.section_count > 0 || part.in_count > 0)) {
            SAMBA_TRY(samba_run_device(session, &part));
            part = (samba_device_run){.sections = NULL};
        }
        if (now)
            SAMBA_TRY(exchange_now(session, at));
        if (gathers(session, at))
            SAMBA_TRY(gather_updated(session, at, overlap));
        else if (ends)
            SAMBA_TRY(begin_completed(session, work, i + 1, at));
        if (reduces && !joined->begun[at])
            SAMBA_TRY(exchange(session, at, overlap));
        if (!reduces || !overlap || (i + 1 < work->section_count && phase_of(session, work->sections[i + 1]) == REDUCE))
            continue;
        int32_t end = i + 1; /* the last of REDUCE: behind it, updates */
        while (mode == SAMBA_MODE_OPTIMAL && end < work->section_count && phase_of(session, work->sections[end]) == OPT)
            end++;
        if (end > i + 1)
            SAMBA_TRY(run_updates(session, work->sections + i + 1, end - i - 1));
        SAMBA_TRY(samba_exchange_wait(joined->exchange, -1));
        i = end - 1;
    }
    SAMBA_TRY(samba_exchange_wait(joined->exchange, -1)); /* parameters that others have updated */
    samba_exchanges_settle(session, joined->exchange);
    part.out = work->out;
    part.out_count = work->out_count;
    return samba_run_device(session, &part);
}
