/* SPDX-License-Identifier: Apache-2.0
 *
 * What exchanges with other replicas have taken: a row for each section that has some. A run asks for exchanges and notes their
 * numbers; when it is over, their times are added up. */
#include "runtime/runtime.h"

#include "base/null.h"
#include <sambaflow/profile.h>

static const char *const ways[] = {
    [SAMBA_EXCHANGE_MEAN] = "mean", [SAMBA_EXCHANGE_SCATTER] = "scatter", [SAMBA_EXCHANGE_GATHER] = "gather"};

/* What is sent of a range: the parts of all others, the own part to all others, or both. */
static int64_t sent(const samba_session *session, samba_exchange_way way, int64_t bytes)
{
    const int size = samba_session_world(session)->replicas.size;
    return (way == SAMBA_EXCHANGE_MEAN ? 2 : 1) * (int64_t)((double)bytes * (size - 1) / size);
}

static samba_exchange_row row_of_gradients(const samba_session *session, int32_t section)
{
    const samba_plan *plan = &session->plan;
    const samba_plan_section *its = &plan->sections[section];
    const bool scatters = session->shards.tensors && session->shards.scatters[samba_plan_graph_of(plan, section)];
    samba_exchange_row row = {.section = section, .way = scatters ? SAMBA_EXCHANGE_SCATTER : SAMBA_EXCHANGE_MEAN};
    for (int32_t k = its->first_stage; k < its->first_stage + its->stage_count; k++) {
        const int32_t dtype = plan->stages[k].operands[0].dtype;
        const bool rounded = session->rounds_gradients && dtype == SAMBA_FLOAT32;
        row.bytes += sent(session, row.way,
                          plan->stages[k].domain[0] * (int64_t)samba_dtype_size(rounded ? SAMBA_BFLOAT16 : (samba_dtype)dtype));
    }
    return row;
}

static samba_exchange_row row_of_updates(const samba_session *session, int32_t section)
{
    const samba_plan_section *its = &session->plan.sections[section];
    samba_exchange_row row = {.section = section, .way = SAMBA_EXCHANGE_GATHER};
    for (int32_t n = 0; n < session->shards.update_count; n++) {
        const samba_shard_update *u = &session->shards.updates[n];
        if (u->stage >= its->first_stage && u->stage < its->first_stage + its->stage_count)
            row.bytes += sent(session, row.way, u->count * (int64_t)samba_dtype_size(u->dtype));
    }
    return row;
}

samba_status samba_exchanges_begin(samba_session *session)
{
    const samba_plan *plan = &session->plan;
    SAMBA_TRY(SAMBA_ROOM(&session->arena, session->exchanges, plan->section_count + 1));
    for (int32_t i = 0; i < plan->section_count; i++) {
        const samba_exchange_row row =
            plan->sections[i].phase == SAMBA_PLAN_REDUCE ? row_of_gradients(session, i) : row_of_updates(session, i);
        if (row.bytes > 0)
            session->exchanges[session->exchange_count++] = row;
    }
    return SAMBA_OK;
}

void samba_exchanges_note(samba_session *session, int32_t at, int64_t first, int64_t end)
{
    for (int32_t i = 0; i < session->exchange_count; i++)
        if (session->exchanges[i].section == at) {
            session->exchanges[i].first = first;
            session->exchanges[i].count = end - first;
        }
}

/* A section that is an exchange has its time as others have theirs. */
static void profile(samba_session *session, int32_t section, double began, double ended)
{
    samba_profiler *profiler = session->device->profiler;
    if (profiler && samba_is_exchange(session, section))
        samba_profiler_note(profiler, section, -1, began, ended);
}

void samba_exchanges_settle(samba_session *session, const samba_exchange *exchange)
{
    for (int32_t i = 0; i < session->exchange_count; i++) {
        samba_exchange_row *row = &session->exchanges[i];
        if (row->count == 0 || samba_exchange_count(exchange) - row->first >= SAMBA_EXCHANGE_KNOWN) {
            row->count = 0; /* it did not run, or its times are forgotten */
            continue;
        }
        double began = 0, ended = 0;
        for (int64_t n = 0; n < row->count; n++) {
            const samba_exchange_time time = samba_exchange_took(exchange, row->first + n);
            began = n == 0 ? time.began : began;
            ended = time.began + time.seconds;
            row->seconds += time.seconds;
            row->waited += time.waited;
        }
        row->runs++;
        row->count = 0;
        profile(session, row->section, began, ended);
    }
}

/* ---- telling ---- */
int samba_session_exchange_count(const samba_session *session) { return session ? session->exchange_count : 0; }

samba_status samba_session_exchange_info(const samba_session *session, int index, samba_exchange_info *info)
{
    SAMBA_NEED(NULL, session);
    SAMBA_NEED(session->context, info);
    if (index < 0 || index >= session->exchange_count)
        return samba_fail(session->context, SAMBA_ERROR_ARGUMENT, "there is no exchange %d: the session has %d", index,
                          session->exchange_count);
    const samba_exchange_row *row = &session->exchanges[index];
    *info = (samba_exchange_info){
        session->plan.sections[row->section].id, ways[row->way], row->bytes, row->runs, row->seconds, row->waited};
    return SAMBA_OK;
}
