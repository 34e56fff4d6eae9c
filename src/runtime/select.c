/* SPDX-License-Identifier: Apache-2.0
 *
 * Which sections a run has: the plan's schedule or a range of its calls, its sections of the types asked for, or those of the ids
 * asked for; and whether now is the moment for them.
 *
 * With gradient accumulation over N micro-batches the whole schedule leaves out ZEROGRAD but in the first of them, and GRADNORM,
 * REDUCE and OPT but in the last, and so does a range of it; the micro-batch is done with the schedule's last call. Types and ids run
 * exactly what they say, in the order given. But a section that a later one of the run computes again (redone_by) is left out, unless
 * ids name it.
 *
 * All of it is of one graph, the one that options name. Another graph's run takes the memory of activations, so what FWD has left is gone then.
 *
 * A backward section needs the activations of a forward run, and memory planning lets it overwrite them: each may run once for a
 * forward run. So the session counts forward sections, and remembers the count at which each backward section ran last. */
#include "runtime/runtime.h"

#include <string.h>
#include <strings.h>

enum { ZEROGRAD = 0, FWD = 1, BCKWD = 2, OPT = 5, PHASES = 6 };

static int32_t phase_of(const samba_session *session, int32_t section) { return session->plan.sections[section].phase; }

static int32_t end_of(const samba_plan_graph *graph) { return graph->first_section + graph->section_count; }

/* ---- what is asked for ---- */
samba_status samba_select_graph(const samba_session *session, const char *name, int32_t *graph)
{
    const samba_plan *plan = &session->plan;
    for (*graph = 0; *graph < plan->graph_count; ++*graph)
        if (name ? strcmp(plan->graphs[*graph].name, name) == 0 : plan->graph_count == 1)
            return SAMBA_OK;
    samba_words words = {.used = 0};
    for (int32_t i = 0; i < plan->graph_count; i++)
        samba_words_add(&words, plan->graphs[i].name);
    if (!name)
        return samba_fail(session->context, SAMBA_ERROR_ARGUMENT, "this PEF has %d graphs, and the run does not say which: give it a graph_name of: %s",
                          plan->graph_count, samba_words_text(&words));
    return samba_fail(session->context, SAMBA_ERROR_NAME, "there is no graph \"%.128s\"; this PEF has: %s", name, samba_words_text(&words));
}

static void list_types(const samba_session *session, const samba_plan_graph *graph, samba_words *words)
{
    for (int phase = 0; phase < PHASES; phase++)
        for (int32_t i = graph->first_section; i < end_of(graph); i++)
            if (phase_of(session, i) == phase) {
                samba_words_add(words, samba_section_type_names[phase]);
                break;
            }
}

static samba_status find_type(const samba_session *session, const samba_plan_graph *graph, const char *word, int *phase)
{
    for (*phase = 0; *phase < PHASES; ++*phase)
        if (word && strcasecmp(word, samba_section_type_names[*phase]) == 0)
            break;
    if (*phase < PHASES)
        for (int32_t i = graph->first_section; i < end_of(graph); i++)
            if (phase_of(session, i) == *phase)
                return SAMBA_OK;
    samba_words words = {.used = 0};
    list_types(session, graph, &words);
    return samba_fail(session->context, SAMBA_ERROR_NAME, "%s section type \"%.64s\"; this %s has: %s",
                      *phase < PHASES ? "there is no section of" : "there is no", word ? word : "(null)",
                      session->plan.graph_count > 1 ? "graph" : "PEF", samba_words_text(&words));
}

static samba_status select_types(samba_session *session, const samba_run_options *options, samba_selection *selection)
{
    const samba_plan *plan = &session->plan;
    const samba_plan_graph *graph = &plan->graphs[selection->graph];
    for (int i = 0; i < options->section_type_count; i++) {
        int phase;
        SAMBA_TRY(find_type(session, graph, options->section_types[i], &phase));
        for (int32_t k = graph->first_call; k < graph->first_call + graph->call_count; k++) {
            if (phase_of(session, plan->calls[k]) != phase)
                continue;
            SAMBA_TRY(samba_grow(session->context, (void **)&session->list, sizeof *session->list, &session->list_room,
                                 (int64_t)selection->count + 1));
            session->list[selection->count++] = plan->calls[k];
        }
    }
    selection->sections = session->list;
    return SAMBA_OK;
}

static samba_status select_ids(const samba_session *session, const samba_run_options *options, samba_selection *selection)
{
    const samba_plan_graph *graph = &session->plan.graphs[selection->graph];
    for (int i = 0; i < options->section_id_count; i++)
        if (options->section_ids[i] < graph->first_section || options->section_ids[i] >= end_of(graph))
            return samba_fail(session->context, SAMBA_ERROR_ARGUMENT, "there is no section %d: this %s's ids are %d to %d", options->section_ids[i],
                              session->plan.graph_count > 1 ? "graph" : "PEF", graph->first_section, end_of(graph) - 1);
    selection->sections = options->section_ids;
    selection->count = options->section_id_count;
    return SAMBA_OK;
}

/* A run of both sections leaves out what the later one computes again. It counts as run: what it gives is there afterwards. */
static void leave_out_redone(samba_session *session, samba_selection *selection)
{
    int32_t kept = 0;
    for (int32_t i = 0; i < selection->count; i++) {
        int32_t by = session->plan.sections[session->list[i]].redone_by;
        bool redone = false;
        for (int32_t k = i + 1; k < selection->count && by > 0; k++)
            redone = redone || phase_of(session, session->list[k]) == by;
        if (!redone)
            session->list[kept++] = session->list[i];
    }
    selection->count = kept;
}

static samba_status check_range(const samba_session *session, const samba_plan_graph *graph, const samba_run_options *options)
{
    int from = options->run_from_call_id, until = options->run_until_call_id, count = graph->call_count;
    if (options->section_type_count > 0 || options->section_id_count > 0)
        return samba_fail(session->context, SAMBA_ERROR_ARGUMENT,
                          "call ids are of the schedule, which section types and section ids replace: give one of them");
    if (from < -1 || from >= count)
        return samba_fail(session->context, SAMBA_ERROR_ARGUMENT, "run_from_call_id %d: this %s's calls are 0 to %d", from,
                          session->plan.graph_count > 1 ? "graph" : "PEF", count - 1);
    if (until < -1 || until == 0 || until > count)
        return samba_fail(session->context, SAMBA_ERROR_ARGUMENT,
                          "run_until_call_id %d: the call before which the run ends is 1 to %d, of a schedule of %d", until, count, count);
    if (until >= 0 && until <= from)
        return samba_fail(session->context, SAMBA_ERROR_ARGUMENT,
                          "run_from_call_id %d is not before run_until_call_id %d, where the run ends: there is nothing between them", from, until);
    return SAMBA_OK;
}

/* The calls of a range of it; -1 leaves an end open. */
static void select_schedule(const samba_session *session, int from, int until, samba_selection *selection)
{
    const samba_plan_graph *graph = &session->plan.graphs[selection->graph];
    const int32_t *calls = session->plan.calls + graph->first_call;
    const int32_t begin = from < 0 ? 0 : from, end = until < 0 ? graph->call_count : until;
    const int64_t step = session->graphs[selection->graph].micro_step;
    bool first = step == 0, last = step == graph->grad_accumulation_steps - 1;
    for (int32_t i = begin; i < end; i++) {
        int32_t phase = phase_of(session, calls[i]);
        if (phase == ZEROGRAD ? first : phase <= BCKWD || last)
            session->list[selection->count++] = calls[i];
    }
    selection->sections = session->list;
    selection->ends_schedule = end == graph->call_count;
}

/* ---- whether it can be now ---- */

static const char *why_not(const samba_session *session, const samba_selection *selection, const char *none_yet, const char *used_up)
{
    bool other = session->graph >= 0 && session->graph != selection->graph;
    return selection->forwards == 0 ? none_yet : other ? "another graph has run since" : used_up;
}

/* The rest of FWD works on what the beginning has left, once, as BCKWD does. */
static samba_status check_continues(const samba_session *session, const samba_selection *selection, int32_t section)
{
    const samba_plan_graph *graph = &session->plan.graphs[selection->graph];
    bool used = session->consumed_next[section] == selection->forwards;
    for (int32_t i = graph->first_section; i < end_of(graph); i++)
        used = used || (phase_of(session, i) == BCKWD && session->consumed_next[i] == selection->forwards);
    return used ? samba_fail(session->context, SAMBA_ERROR_STATE,
                             "section %d (FWD) goes on from the FWD sections before it, and %s: run them before it", section,
                             why_not(session, selection, "there was no run of them yet", "what the last run of them left is used up"))
                : SAMBA_OK;
}

static samba_status check_order(const samba_session *session, samba_selection *selection)
{
    const samba_plan *plan = &session->plan;
    const samba_plan_graph *graph = &plan->graphs[selection->graph];
    bool can_forward = false, can_backward = false, backward_done = session->graphs[selection->graph].backward_done;
    bool begins = false; /* some section of FWD comes before those that BCKWD computes again */
    for (int32_t i = graph->first_section; i < end_of(graph); i++) {
        can_forward |= phase_of(session, i) == FWD;
        begins |= phase_of(session, i) == FWD && plan->sections[i].redone_by == 0;
        can_backward |= phase_of(session, i) == BCKWD;
    }
    if (plan->section_count > 0)
        memcpy(session->consumed_next, session->consumed, (size_t)plan->section_count * sizeof *session->consumed);
    for (int32_t i = graph->first_section; i < end_of(graph) && session->graph >= 0 && session->graph != selection->graph; i++)
        session->consumed_next[i] = selection->forwards; /* nothing is left of this graph's forward runs */
    for (int32_t i = 0; i < selection->count; i++) {
        int32_t section = selection->sections[i], phase = phase_of(session, section);
        if (phase == FWD && plan->sections[section].redone_by > 0 && begins) {
            SAMBA_TRY(check_continues(session, selection, section));
            session->consumed_next[section] = selection->forwards;
        } else if (phase == FWD) {
            selection->forwards++;
            selection->forward = true;
        } else if (phase == BCKWD) {
            if (can_forward && session->consumed_next[section] == selection->forwards)
                return samba_fail(session->context, SAMBA_ERROR_STATE,
                                  "section %d (BCKWD) needs the activations of a forward run, and %s: run FWD before it", section,
                                  why_not(session, selection, "there was none yet", "it has used up those of the last"));
            session->consumed_next[section] = selection->forwards;
            selection->backward = backward_done = selection->gradients_wait = true;
        } else if (phase == OPT && can_backward && !backward_done) {
            return samba_fail(session->context, SAMBA_ERROR_STATE,
                              "section %d (OPT) needs gradients and no backward section has run yet: run FWD and BCKWD before it",
                              section);
        } else if (phase == OPT || phase == ZEROGRAD) {
            selection->gradients_wait = phase == ZEROGRAD;
        }
    }
    return SAMBA_OK;
}

samba_status samba_select_sections(samba_session *session, const samba_run_options *options, samba_selection *selection)
{
    *selection = (samba_selection){.forwards = session->forwards};
    SAMBA_TRY(samba_select_graph(session, options->graph_name, &selection->graph));
    selection->gradients_wait = session->graphs[selection->graph].gradients_wait;
    if (options->section_type_count < 0 || options->section_id_count < 0 ||
        (options->section_type_count > 0 && !options->section_types) || (options->section_id_count > 0 && !options->section_ids))
        return samba_fail(session->context, SAMBA_ERROR_ARGUMENT,
                          "%d section types and %d section ids: a count or its list is missing", options->section_type_count,
                          options->section_id_count);
    if (options->section_type_count > 0 && options->section_id_count > 0)
        return samba_fail(session->context, SAMBA_ERROR_ARGUMENT,
                          "both section types and section ids were given: give one of them");
    if (options->run_from_call_id != -1 || options->run_until_call_id != -1)
        SAMBA_TRY(check_range(session, &session->plan.graphs[selection->graph], options));
    if (options->section_type_count > 0)
        SAMBA_TRY(select_types(session, options, selection));
    else if (options->section_id_count > 0)
        SAMBA_TRY(select_ids(session, options, selection));
    else
        select_schedule(session, options->run_from_call_id, options->run_until_call_id, selection);
    SAMBA_TRY(check_order(session, selection));
    if (options->section_id_count == 0)
        leave_out_redone(session, selection);
    return SAMBA_OK;
}
