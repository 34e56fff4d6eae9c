/* SPDX-License-Identifier: Apache-2.0
 *
 * The times of sections and stages. A device that is given a samba_profiler notes in it what each took, on one thread; all room
 * was made when profiling was turned on, so a run that is profiled allocates nothing either. */
#include "runtime/runtime.h"

void samba_time_note(samba_time *time, double seconds)
{
    if (time->runs == 0 || seconds < time->least)
        time->least = seconds;
    if (seconds > time->greatest)
        time->greatest = seconds;
    time->runs++;
    time->seconds += seconds;
}

void samba_profiler_note(samba_profiler *profiler, int32_t section, int32_t stage, double begin, double end)
{
    samba_time *time = stage < 0 ? &profiler->sections[section] : &profiler->stages[stage];
    double seconds = end - begin;
    samba_time_note(time, seconds);
    if (profiler->event_count < profiler->event_room)
        profiler->events[profiler->event_count++] = (samba_profile_event){section, stage, begin - profiler->origin, seconds};
    else
        profiler->left_out++;
}

static size_t bytes_of(int64_t count, size_t size) { return (size_t)count * size; }

void samba_profiler_free(samba_session *session)
{
    samba_profiler *p = &session->profiler;
    samba_free(session->context, p->sections, bytes_of(session->plan.section_count, sizeof *p->sections));
    samba_free(session->context, p->stages, bytes_of(session->plan.stage_count, sizeof *p->stages));
    samba_free(session->context, p->events, bytes_of(p->event_room, sizeof *p->events));
    *p = (samba_profiler){.with_stages = false};
}

static samba_status turn(samba_session *session, samba_profile what, int64_t most_events)
{
    samba_profiler *p = &session->profiler;
    const samba_plan *plan = &session->plan;
    if (what != SAMBA_PROFILE_OFF && what != SAMBA_PROFILE_SECTIONS && what != SAMBA_PROFILE_STAGES)
        return samba_fail(session->context, SAMBA_ERROR_ARGUMENT,
                          "samba_session_profile: %d is not SAMBA_PROFILE_OFF, SAMBA_PROFILE_SECTIONS or SAMBA_PROFILE_STAGES",
                          (int)what);
    int64_t bytes;
    if (most_events < 0 || !samba_mul_checked(most_events, sizeof *p->events, &bytes))
        return samba_fail(session->context, SAMBA_ERROR_ARGUMENT,
                          "samba_session_profile: room for %lld events: give 0 or more, 24 bytes each", (long long)most_events);
    session->device->profiler = NULL;
    if (what == SAMBA_PROFILE_OFF)
        return SAMBA_OK;
    samba_profiler_free(session);
    p->sections = samba_calloc(session->context, bytes_of(plan->section_count, sizeof *p->sections));
    p->stages = samba_calloc(session->context, bytes_of(plan->stage_count, sizeof *p->stages));
    p->events = most_events > 0 ? samba_alloc(session->context, (size_t)bytes) : NULL;
    p->event_room = p->events ? most_events : 0;
    if ((plan->section_count > 0 && !p->sections) || (plan->stage_count > 0 && !p->stages) || (most_events > 0 && !p->events)) {
        samba_profiler_free(session);
        return SAMBA_ERROR_MEMORY;
    }
    p->with_stages = what == SAMBA_PROFILE_STAGES;
    p->origin = samba_seconds();
    session->device->profiler = p;
    return SAMBA_OK;
}

samba_status samba_session_profile(samba_session *session, samba_profile what, int64_t most_events)
{
    SAMBA_TRY(samba_session_enter(session, "samba_session_profile"));
    return samba_session_leave(session, turn(session, what, most_events));
}

/* ---- telling ---- */
static samba_status find_time(const samba_session *session, const char *what, int index, int count, const samba_time *times,
                              samba_time *time)
{
    if (!time)
        return samba_fail(session->context, SAMBA_ERROR_ARGUMENT, "samba_session_%s_time was given no place for the time", what);
    if (index < 0 || index >= count)
        return samba_fail(session->context, SAMBA_ERROR_ARGUMENT, "there is no %s %d: the PEF has %d", what, index, count);
    *time = times ? times[index] : (samba_time){.runs = 0};
    return SAMBA_OK;
}

samba_status samba_session_section_time(const samba_session *session, int section, samba_time *time)
{
    SAMBA_NEED(NULL, session);
    return find_time(session, "section", section, session->plan.section_count, session->profiler.sections, time);
}

samba_status samba_session_stage_time(const samba_session *session, int stage, samba_time *time)
{
    SAMBA_NEED(NULL, session);
    return find_time(session, "stage", stage, session->plan.stage_count, session->profiler.stages, time);
}

const char *samba_session_road(const samba_session *session, int32_t stage)
{
    const samba_device_interface *device = session->device->interface;
    return device->road ? device->road(session->device, stage) : NULL;
}

int samba_session_stage_count(const samba_session *session) { return session ? session->plan.stage_count : 0; }

samba_status samba_session_stage_info(const samba_session *session, int index, samba_stage_info *info)
{
    SAMBA_NEED(NULL, session);
    const samba_plan *plan = &session->plan;
    samba_time unused;
    if (!info)
        return samba_fail(session->context, SAMBA_ERROR_ARGUMENT,
                          "samba_session_stage_info was given no place for what it tells");
    SAMBA_TRY(find_time(session, "stage", index, plan->stage_count, NULL, &unused));
    const samba_stage *stage = &plan->stages[index];
    *info = (samba_stage_info){.kind = samba_stage_kind_names[stage->kind],
                               .operators = stage->name,
                               .flops = stage->flops,
                               .bytes = stage->bytes,
                               .road = samba_session_road(session, index),
                               .tuned = session->tuned.choices && session->tuned.choices[index]};
    for (int32_t i = 0; i < plan->section_count; i++)
        if (index >= plan->sections[i].first_stage && index < plan->sections[i].first_stage + plan->sections[i].stage_count)
            info->section = plan->sections[i].id;
    return SAMBA_OK;
}

const samba_profile_event *samba_session_profile_events(const samba_session *session, int64_t *count, int64_t *left_out)
{
    if (!session || !count || !left_out)
        return NULL;
    *count = session->profiler.event_count;
    *left_out = session->profiler.left_out;
    return session->profiler.events;
}
