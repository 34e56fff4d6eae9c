/* SPDX-License-Identifier: Apache-2.0
 *
 * Which sections a run has, and whether they may run now. A run names the plan's schedule or a range of its calls, types of
 * sections, or ids.
 *
 * With gradient accumulation over N micro-batches the whole schedule leaves out ZEROGRAD but in the first of them, and GRADNORM,
 * REDUCE and OPT but in the last; so does a range of it. The micro-batch is done with the schedule's last call. Types and ids run
 * exactly the sections they name, in the order given, with one exception: a section that a later one of the run computes again
 * (redone_by) is left out, unless ids name it.
 *
 * All sections of a run are of one graph, the one that the options name. Another graph's run takes the memory of activations, so
 * the results that FWD left for BCKWD are gone then.
 *
 * Sections of FWD go on from each other, and those of BCKWD go on from them: each needs memory that the ones before it have left,
 * and may overwrite it. So they are links of a chain, numbered in the order they run. The first may run at any time and begins
 * the chain anew. Any other may run only right after the one before it, with nothing between that takes their memory. Sections of
 * another type after BCKWD go on from each other in the same way. ZEROGRAD only sets memory.
 *
 * A section that is FWD and BCKWD in one has parts, which stand behind the plan's sections:
 * a run of either type runs its part. */
#include "runtime/runtime.h"

#include <string.h>
#include <strings.h>

enum { ZEROGRAD = 0, FWD = 1, BCKWD = 2, REDUCE = 3, GRADNORM = 4, OPT = 5, PHASES = 6 };
/* by graphs that accumulate, clip, have replicas: loops ask for them in any case */
enum { NEEDED_BY_SOME = 1u << ZEROGRAD | 1u << GRADNORM | 1u << REDUCE };
enum { PART_FORWARD, PART_REDONE, PART_BACKWARD, PARTS };

static int32_t phase_of(const samba_session *session, int32_t section) { return session->plan.sections[section].phase; }

static int32_t end_of(const samba_plan_graph *graph) { return graph->first_section + graph->section_count; }

/* Of sections and of parts, which have their section's id. */
static bool in_graph(const samba_session *session, const samba_plan_graph *graph, int32_t at)
{
    int32_t id = session->plan.sections[at].id;
    return id >= graph->first_section && id < end_of(graph);
}

/* ---- what there is ---- */
static int32_t add_part(samba_session *session, int32_t section, int32_t phase, int32_t first, int32_t count, int32_t redone_by)
{
    samba_plan_section *its = &session->plan.sections[session->run_count];
    *its = session->plan.sections[section]; /* with its id */
    its->phase = phase;
    its->first_stage = first;
    its->stage_count = count;
    its->redone_by = redone_by;
    its->forward_stages = its->redone_stages = 0;
    return session->run_count++;
}

/* FWD's stages that BCKWD makes again are one part, also where nothing comes before them. */
static void add_parts(samba_session *session, int32_t at)
{
    const samba_plan_section section = session->plan.sections[at];
    int32_t *parts = session->parts + PARTS * at, kept = section.forward_stages - section.redone_stages,
            first = section.first_stage;
    for (int i = 0; i < PARTS; i++)
        parts[i] = -1;
    if (section.forward_stages == 0)
        return;
    parts[PART_FORWARD] = add_part(session, at, FWD, first, kept, 0);
    if (section.redone_stages > 0)
        parts[PART_REDONE] = add_part(session, at, FWD, first + kept, section.redone_stages, BCKWD);
    parts[PART_BACKWARD] =
        add_part(session, at, BCKWD, first + section.forward_stages, section.stage_count - section.forward_stages, 0);
}

static samba_graph_state *state_of(const samba_session *session, int32_t at)
{
    return &session->graphs[samba_plan_graph_of(&session->plan, session->plan.sections[at].id)];
}

static bool is_joint(const samba_session *session, int32_t at) { return session->plan.sections[at].forward_stages > 0; }

/* Numbers what goes on from each other in a graph: FWD, then BCKWD.
 * What BCKWD makes again is numbered from -2 down, unless FWD is nothing else. */
static void link_sections(samba_session *session)
{
    for (int32_t at = 0; at < session->run_count; at++)
        session->links[at] = -1;
    for (int32_t at = 0; at < session->plan.section_count; at++)
        state_of(session, at)->exchanges |= phase_of(session, at) != REDUCE && samba_is_exchange(session, at);
    for (int32_t at = 0; at < session->run_count; at++)
        if (phase_of(session, at) == FWD && !is_joint(session, at) && session->plan.sections[at].redone_by == 0)
            session->links[at] = state_of(session, at)->link_count++;
    for (int32_t at = 0; at < session->run_count; at++)
        state_of(session, at)->forward_links = state_of(session, at)->link_count;
    for (int32_t at = 0; at < session->run_count; at++)
        if (phase_of(session, at) == FWD && session->plan.sections[at].redone_by > 0) {
            samba_graph_state *graph = state_of(session, at);
            session->links[at] = graph->forward_links > 0 ? -2 - graph->order.redone++ : graph->link_count++;
        }
    for (int32_t i = 0; i < session->plan.graph_count; i++) {
        samba_graph_state *graph = &session->graphs[i];
        graph->forward_links = graph->link_count;
        graph->order = (samba_run_order){.spoiled = -1};
    }
    for (int32_t at = 0; at < session->run_count; at++)
        if (phase_of(session, at) == BCKWD)
            session->links[at] = state_of(session, at)->link_count++;
}

samba_status samba_select_begin(samba_session *session)
{
    samba_plan *plan = &session->plan;
    size_t count = (size_t)plan->section_count, joint = 0;
    for (int32_t i = 0; i < plan->section_count; i++)
        joint += plan->sections[i].forward_stages > 0;
    samba_plan_section *sections;
    SAMBA_TRY(SAMBA_ROOM(&session->arena, sections, count + PARTS * joint));
    SAMBA_TRY(SAMBA_ROOM(&session->arena, session->links, count + PARTS * joint));
    SAMBA_TRY(SAMBA_ROOM(&session->arena, session->parts, PARTS * count));
    if (count > 0)
        memcpy(sections, plan->sections, count * sizeof *sections);
    plan->sections = sections;
    session->run_count = plan->section_count;
    for (int32_t i = 0; i < plan->section_count; i++)
        add_parts(session, i);
    session->last = -1;
    link_sections(session);
    return SAMBA_OK;
}

/* ---- what is asked for ---- */
static void list_types(const samba_session *session, const samba_plan_graph *graph, samba_words *words)
{
    for (int phase = 0; phase < PHASES; phase++)
        for (int32_t i = 0; i < session->run_count; i++)
            if (in_graph(session, graph, i) && phase_of(session, i) == phase) {
                samba_words_add(words, samba_section_type_names[phase]);
                break;
            }
}

/* What a graph was compiled without, that has no section of a type. */
static const char *why_missing(const samba_plan_graph *graph, int phase)
{
    if (phase != BCKWD && phase != OPT)
        return "";
    if (graph->inference)
        return ". It was compiled for inference: compile it without that, with an optimizer, to train";
    return phase == OPT ? ". It was compiled without an optimizer: compile it with one to train" : "";
}

/* The phase; *there: the graph has a section of it. Where it has none, it must be one that not every graph needs. */
static samba_status find_type(const samba_session *session, const samba_plan_graph *graph, const char *word, int *phase,
                              bool *there)
{
    *there = false;
    for (*phase = 0; *phase < PHASES; ++*phase)
        if (word && strcasecmp(word, samba_section_type_names[*phase]) == 0)
            break;
    if (*phase < PHASES)
        for (int32_t i = 0; i < session->run_count; i++)
            *there = *there || (in_graph(session, graph, i) && phase_of(session, i) == *phase);
    if (*there || (*phase < PHASES && (NEEDED_BY_SOME & 1u << *phase)))
        return SAMBA_OK;
    samba_words words = {.used = 0};
    list_types(session, graph, &words);
    return samba_fail(session->context, SAMBA_ERROR_NAME, "%s \"%.64s\"; this %s has: %s%s",
                      *phase < PHASES ? "there is no section of type" : "there is no section type", word ? word : "(null)",
                      session->plan.graph_count > 1 ? "graph" : "PEF", samba_words_text(&words), why_missing(graph, *phase));
}

static samba_status list_add(samba_session *session, samba_selection *selection, int32_t at)
{
    SAMBA_TRY(SAMBA_GROW(session->context, session->list, session->list_room, (int64_t)selection->count + 1));
    session->list[selection->count++] = at;
    return SAMBA_OK;
}

/* The i-th type that runs. The documents' loop says GRADNORM, REDUCE, and a norm is that of what was reduced. */
static const char *type_at(const samba_run_options *options, int i)
{
    const char *const *types = options->section_types;
    const int count = options->section_type_count;
    const bool first = i + 1 < count && types[i] && types[i + 1] && strcasecmp(types[i], "GRADNORM") == 0 &&
                       strcasecmp(types[i + 1], "REDUCE") == 0;
    const bool second =
        i > 0 && types[i - 1] && types[i] && strcasecmp(types[i - 1], "GRADNORM") == 0 && strcasecmp(types[i], "REDUCE") == 0;
    return types[first ? i + 1 : second ? i - 1 : i];
}

static samba_status select_types(samba_session *session, const samba_run_options *options, samba_selection *selection)
{
    const samba_plan *plan = &session->plan;
    const samba_plan_graph *graph = &plan->graphs[selection->graph];
    for (int i = 0; i < options->section_type_count; i++) {
        int phase;
        bool there;
        SAMBA_TRY(find_type(session, graph, type_at(options, i), &phase, &there));
        if (!there)
            selection->skipped |= 1u << phase;
        for (int32_t k = graph->first_call; k < graph->first_call + graph->call_count; k++) {
            int32_t section = plan->calls[k];
            bool whole = plan->sections[section].forward_stages == 0;
            if (whole && phase_of(session, section) == phase)
                SAMBA_TRY(list_add(session, selection, section));
            for (int p = 0; p < PARTS && !whole; p++) {
                int32_t its = session->parts[PARTS * section + p];
                if (its >= 0 && phase_of(session, its) == phase)
                    SAMBA_TRY(list_add(session, selection, its));
            }
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
            return samba_fail(session->context, SAMBA_ERROR_ARGUMENT, "there is no section %d: this %s's ids are %d to %d",
                              options->section_ids[i], session->plan.graph_count > 1 ? "graph" : "PEF", graph->first_section,
                              end_of(graph) - 1);
    selection->sections = options->section_ids;
    selection->count = options->section_id_count;
    return SAMBA_OK;
}

/* Sections of FWD and BCKWD in one that have a part to leave out become their parts, from the list's end on,
 * so that it has room for itself. */
static samba_status part_sections(samba_session *session, samba_selection *selection)
{
    int32_t count = 0;
    if (session->run_count == session->plan.section_count)
        return SAMBA_OK;
    for (int32_t i = 0; i < selection->count; i++) {
        int32_t at = selection->sections[i];
        count += at < session->plan.section_count && session->parts[PARTS * at + PART_REDONE] >= 0 ? PARTS : 1;
    }
    bool own = selection->sections == session->list; /* else the caller's ids */
    SAMBA_TRY(SAMBA_GROW(session->context, session->list, session->list_room, count));
    if (own)
        selection->sections = session->list;
    int32_t next = count;
    for (int32_t i = selection->count - 1; i >= 0; i--) {
        int32_t at = selection->sections[i];
        if (at < session->plan.section_count && session->parts[PARTS * at + PART_REDONE] >= 0) {
            next -= PARTS;
            memcpy(session->list + next, session->parts + PARTS * at, PARTS * sizeof *session->list);
        } else {
            session->list[--next] = at;
        }
    }
    selection->sections = session->list;
    selection->count = count;
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
                          "run_until_call_id %d: the call before which the run ends is 1 to %d, of a schedule of %d; -1, "
                          "as samba_run_defaults() sets it (in Python None), runs to the end",
                          until, count, count);
    if (until >= 0 && until <= from)
        return samba_fail(
            session->context, SAMBA_ERROR_ARGUMENT,
            "run_from_call_id %d is not before run_until_call_id %d, where the run ends: there is nothing between them", from,
            until);
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
static samba_status out_of_order(const samba_session *session, int32_t at, const samba_run_order *now)
{
    const samba_plan_section *section = &session->plan.sections[at];
    const samba_graph_state *graph = state_of(session, at);
    /* all of it is gone */
    bool other = session->graph >= 0 && graph != &session->graphs[session->graph] && graph->order.done > 0;
    const char *type = samba_section_type_names[section->phase];
    bool backward = section->phase == BCKWD;
    if (now->spoiled >= 0)
        return samba_fail(session->context, SAMBA_ERROR_STATE,
                          "section %d (%s) goes on from FWD, and section %d (%s), which ran since, has taken that memory: run "
                          "the schedule's sections in order, from FWD on",
                          section->id, type, now->spoiled, samba_section_type_names[phase_of(session, now->spoiled)]);
    if (other)
        return samba_fail(
            session->context, SAMBA_ERROR_STATE,
            "section %d (%s) needs %s %s, which a run of another graph has replaced: run FWD of this graph again, and "
            "another graph only after the whole step",
            section->id, type, backward ? "the activations of" : "what is before it in", backward ? "FWD" : type);
    if (backward && now->done < graph->forward_links)
        return samba_fail(session->context, SAMBA_ERROR_STATE,
                          "section %d (BCKWD) needs the activations of a forward run, and %s: run FWD before it", section->id,
                          now->done == 0 ? "there was none yet" : "that of the last is not at its end");
    if (backward && now->done > session->links[at])
        return samba_fail(
            session->context, SAMBA_ERROR_STATE,
            "section %d (BCKWD) needs the activations of a forward run, and it has used up those of the last: run FWD before it",
            section->id);
    return samba_fail(
        session->context, SAMBA_ERROR_STATE, "section %d (%s) goes on from the %s sections before it, and %s: run them before it",
        section->id, type, type,
        now->done == 0 ? "there was no run of them yet" : "what the last run of them left is used up or not at its end");
}

/* A link goes on from the one before it; the first one begins anew. */
static samba_status check_link(const samba_session *session, int32_t at, samba_run_order *now)
{
    int32_t link = session->links[at];
    if (link > 0 && (now->done != link || now->spoiled >= 0))
        return out_of_order(session, at, now);
    now->done = link + 1;
    if (link == 0)
        now->redone = 0, now->spoiled = -1;
    return SAMBA_OK;
}

/* The rest of FWD works on what the beginning has left, once, and before BCKWD does. */
static samba_status check_rest(const samba_session *session, int32_t at, samba_run_order *now)
{
    int32_t before = -1 - session->links[at] - 1; /* of its like */
    if (now->done != state_of(session, at)->forward_links || now->redone != before || now->spoiled >= 0)
        return out_of_order(session, at, now);
    now->redone++;
    return SAMBA_OK;
}

/* Sections after BCKWD: they may take the memory of FWD and BCKWD, and what has several sections runs through. */
static samba_status check_late(const samba_session *session, int32_t at, bool backward_done, int32_t last, samba_run_order *now)
{
    const samba_graph_state *graph = state_of(session, at);
    int32_t phase = phase_of(session, at);
    if (phase == OPT && graph->link_count > graph->forward_links && !backward_done)
        return samba_fail(session->context, SAMBA_ERROR_STATE,
                          "section %d (OPT) needs gradients and no backward section has run yet: run FWD and BCKWD before it",
                          at);
    if (at > 0 && state_of(session, at - 1) == graph && phase_of(session, at - 1) == phase && last != at - 1)
        return samba_fail(session->context, SAMBA_ERROR_STATE,
                          "section %d (%s) goes on from section %d: run that right before it", at,
                          samba_section_type_names[phase], at - 1);
    if (now->done > 0 && now->done < graph->link_count)
        now->spoiled = at;
    return SAMBA_OK;
}

/* OPT multiplies gradients by a factor that GRADNORM makes of them. */
static samba_status check_norm(const samba_session *session, int32_t at)
{
    for (int32_t i = 0; i < session->run_count; i++)
        if (state_of(session, i) == state_of(session, at) && phase_of(session, i) == GRADNORM)
            return samba_fail(session->context, SAMBA_ERROR_STATE,
                              "section %d (OPT) clips gradients by their norm, and section %d (GRADNORM) has not run since "
                              "BCKWD: run it before it",
                              session->plan.sections[at].id, session->plan.sections[i].id);
    return SAMBA_OK;
}

/* Is it the first of its graph's BCKWD? Parts of sections have links as sections have. */
static bool begins_backward(const samba_session *session, int32_t at)
{
    return phase_of(session, at) == BCKWD && session->links[at] == state_of(session, at)->forward_links;
}

static int32_t reduce_count(const samba_session *session, int32_t graph, int32_t until)
{
    const samba_plan_graph *its = &session->plan.graphs[graph];
    int32_t count = 0;
    for (int32_t i = its->first_section; i < its->first_section + its->section_count && i < until; i++)
        count += phase_of(session, i) == REDUCE;
    return count;
}

bool samba_all_reduced(const samba_session *session, int32_t graph, int32_t reduced)
{
    return reduced > 0 && reduced == reduce_count(session, graph, INT32_MAX);
}

/* Sections of REDUCE run in order, so that none is forgotten and none averages twice. */
static samba_status note_reduce(const samba_session *session, int32_t at, samba_selection *selection)
{
    const int32_t before = reduce_count(session, selection->graph, at);
    if (before != selection->reduced)
        return samba_fail(
            session->context, SAMBA_ERROR_STATE,
            "section %d (REDUCE) averages gradients over the replicas %s: run the sections of REDUCE in their order, "
            "each once behind BCKWD",
            session->plan.sections[at].id, before < selection->reduced ? "for a second time" : "and leaves out one before it");
    selection->reduced++;
    return SAMBA_OK;
}

/* Replicas stay alike where what follows BCKWD has the mean of their gradients. */
static samba_status fail_reduced(const samba_session *session, int32_t at)
{
    return samba_fail(
        session->context, SAMBA_ERROR_STATE,
        "section %d (%s) reads gradients, and REDUCE has not averaged all those of the last BCKWD over the replicas: run "
        "it before it, with data_parallel",
        session->plan.sections[at].id, samba_section_type_names[phase_of(session, at)]);
}

/* A mean over replicas has the gradient of one: each exchange of a step runs, or none does. */
static samba_status check_together(const samba_session *session, int32_t at, bool data_parallel, bool together)
{
    if (data_parallel == together)
        return SAMBA_OK;
    return samba_fail(
        session->context, SAMBA_ERROR_STATE,
        "section %d (%s) goes on from a forward run with data_parallel %s, whose sync_batch_norm had the statistics "
        "of %s: run it with data_parallel %s too, or FWD again",
        session->plan.sections[at].id, samba_section_type_names[phase_of(session, at)], together ? "true" : "false",
        together ? "all replicas" : "this replica alone", together ? "true" : "false");
}

static samba_status check_order(const samba_session *session, const samba_run_options *options, samba_selection *selection)
{
    const bool train = options->train;
    const samba_graph_state *graph = &session->graphs[selection->graph];
    samba_run_order now = graph->order;
    int32_t last = session->last;
    selection->gradients_wait = graph->gradients_wait;
    selection->reduced = graph->reduced;
    selection->norm_known = graph->norm_known;
    selection->train = graph->train;
    selection->together = graph->together;
    if (session->graph >= 0 && session->graph != selection->graph)
        now = (samba_run_order){.spoiled = -1}; /* nothing is left of this graph's forward runs */
    for (int32_t i = 0; i < selection->count; i++) {
        int32_t at = selection->sections[i], phase = phase_of(session, at);
        const int32_t *parts = at < session->plan.section_count ? session->parts + PARTS * at : NULL;
        bool joint = parts && parts[PART_BACKWARD] >= 0;
        if (joint) {
            SAMBA_TRY(check_link(session, parts[PART_FORWARD], &now));
            SAMBA_TRY(check_link(session, parts[PART_BACKWARD], &now));
        } else if (phase == FWD || phase == BCKWD) {
            SAMBA_TRY(session->links[at] < -1 ? check_rest(session, at, &now) : check_link(session, at, &now));
        } else if (phase != ZEROGRAD) {
            SAMBA_TRY(check_late(session, at, graph->backward_done || selection->backward, last, &now));
        }
        if (joint || (phase == FWD && session->links[at] == 0)) {
            if (selection->computes && selection->train != train)
                return samba_fail(session->context, SAMBA_ERROR_STATE,
                                  "section %d (FWD) begins with train %s, and sections before it go on from a forward run with "
                                  "train %s: run them apart",
                                  session->plan.sections[at].id, train ? "true" : "false", train ? "false" : "true");
            selection->begins = true;
            selection->train = train;
            selection->together = options->data_parallel;
        }
        if (graph->exchanges && selection->train &&
            (phase == FWD || phase == BCKWD || (phase == REDUCE && options->data_parallel)))
            SAMBA_TRY(check_together(session, at, options->data_parallel, selection->together));
        if (options->data_parallel && (phase == GRADNORM || phase == OPT) &&
            !samba_all_reduced(session, selection->graph, selection->reduced))
            return fail_reduced(session, at);
        if (phase == REDUCE && options->data_parallel)
            SAMBA_TRY(note_reduce(session, at, selection));
        else if (phase == REDUCE || joint || begins_backward(session, at))
            selection->reduced = 0;
        if (phase == OPT && !selection->norm_known)
            SAMBA_TRY(check_norm(session, at));
        selection->norm_known = phase == GRADNORM || (selection->norm_known && !joint && (phase == OPT || phase == FWD));
        selection->computes |= phase == FWD || phase == BCKWD;
        selection->steps |= phase == OPT;
        selection->backward |= (phase == BCKWD || joint) && now.done == graph->link_count;
        if (phase == BCKWD || joint)
            selection->gradients_wait = true;
        else if (phase == OPT || phase == ZEROGRAD)
            selection->gradients_wait = phase == ZEROGRAD;
        last = at;
    }
    selection->order = now;
    selection->last = last;
    return SAMBA_OK;
}

samba_status samba_select_sections(samba_session *session, const samba_run_options *options, samba_selection *selection)
{
    *selection = (samba_selection){.count = 0};
    SAMBA_TRY(samba_select_graph(session, options->graph_name, options->input_count, options->inputs, &selection->graph));
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
    SAMBA_TRY(part_sections(session, selection));
    SAMBA_TRY(check_order(session, options, selection));
    if (options->section_id_count == 0)
        leave_out_redone(session, selection);
    return SAMBA_OK;
}
