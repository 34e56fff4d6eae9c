/* SPDX-License-Identifier: Apache-2.0
 *
 * Which inputs a step may take from the one before. A run of FWD begins a step. Where it is given some inputs anew and reads
 * another as the last step had it, it would compute of two batches at once: it is refused, by that input's name, unless somebody
 * asked for it. Sections that go on from that FWD read the same inputs, and those that only they read are asked of them. A run
 * that is given no input, nor goes on from one that was, computes over what the device has: it repeats.
 *
 * Asked for are inputs that a run or the session's options name (samba_run_options.reuse_inputs), those whose memory the caller
 * holds, and those that samba_session_set has set and no run was given since. Graphs that are sizes of one function are one
 * here; of other graphs each reads for itself, so that one may go on with what another was given. */
#include "runtime/runtime.h"

#include <string.h>

enum { NEW, READ, OLD }; /* an input's age: no step has read it since it was given, the step in hand has, an earlier one has */

/* Inputs that each thing that runs reads, in one list; `reads` NULL: only how many. Sizes have theirs in one memory, so that it
 * is not the memory alone that says whose they are. */
static int32_t list_reads(const samba_session *session, int32_t *ends, int32_t *reads)
{
    const samba_plan *plan = &session->plan;
    int32_t count = 0;
    for (int32_t r = 0; r < session->run_count; r++) {
        const samba_plan_graph *graph = &plan->graphs[samba_plan_graph_of(plan, plan->sections[r].id)];
        for (int32_t t = 0; t < plan->tensor_count; t++)
            if (session->needs[t] && (plan->graph_count == 1 || samba_plan_has_tensor(graph, t)) &&
                samba_section_reads(session, r, t)) {
                if (reads)
                    reads[count] = t;
                count++;
            }
        ends[r] = count;
    }
    return count;
}

static samba_status make_functions(samba_session *session)
{
    const samba_plan *plan = &session->plan;
    samba_reuse *reuse = &session->reuse;
    SAMBA_TRY(SAMBA_ROOM(&session->arena, reuse->functions, plan->graph_count));
    SAMBA_TRY(SAMBA_ROOM(&session->arena, reuse->function_of, plan->graph_count));
    for (int32_t g = 0; g < plan->graph_count; g++) {
        int32_t first = 0;
        while (first < g && !samba_is_size_like(plan->graphs[first].name, plan->graphs[g].name))
            first++;
        reuse->function_of[g] = first;
        if (first == g)
            SAMBA_TRY(SAMBA_ROOM(&session->arena, reuse->functions[g].ages, plan->tensor_count));
    }
    return SAMBA_OK;
}

/* Of a function of several sizes an input's name is that of all of them. */
static void allow(samba_session *session, int32_t tensor)
{
    session->reuse.allowed[tensor] = true;
    for (int32_t i = 0; i < session->sized_count; i++)
        if (session->sized[i].plain == tensor)
            session->reuse.allowed[session->sized[i].tensor] = true;
}

static samba_status check_names(const samba_session *session, int count, const char *const *names)
{
    if (count < 0 || (count > 0 && !names))
        return samba_fail(session->context, SAMBA_ERROR_ARGUMENT, "reuse_inputs: %d names: the count or its list is missing",
                          count);
    for (int i = 0; i < count; i++) {
        int32_t tensor;
        if (!names[i])
            return samba_fail(session->context, SAMBA_ERROR_ARGUMENT, "reuse_inputs: name %d is NULL", i);
        SAMBA_TRY(samba_session_find(session, names[i], SAMBA_KIND_INPUT, &tensor));
    }
    return SAMBA_OK;
}

samba_status samba_reuse_begin(samba_session *session, const samba_session_options *options)
{
    samba_reuse *reuse = &session->reuse;
    SAMBA_TRY(check_names(session, options->reuse_input_count, options->reuse_inputs));
    SAMBA_TRY(SAMBA_ROOM(&session->arena, reuse->ends, session->run_count));
    SAMBA_TRY(SAMBA_ROOM(&session->arena, reuse->reads, list_reads(session, reuse->ends, NULL)));
    list_reads(session, reuse->ends, reuse->reads);
    SAMBA_TRY(SAMBA_ROOM(&session->arena, reuse->allowed, session->plan.tensor_count));
    SAMBA_TRY(SAMBA_ROOM(&session->arena, reuse->set, session->plan.tensor_count));
    SAMBA_TRY(make_functions(session));
    for (int i = 0; i < options->reuse_input_count; i++)
        allow(session, samba_names_find(&session->tensors, options->reuse_inputs[i]));
    return SAMBA_OK;
}

void samba_reuse_given(samba_session *session, int32_t tensor, samba_giver giver)
{
    samba_reuse *reuse = &session->reuse;
    for (int32_t g = 0; g < session->plan.graph_count; g++)
        if (reuse->functions[g].ages)
            reuse->functions[g].ages[tensor] = NEW;
    reuse->set[tensor] = giver == SAMBA_GIVEN_BY_SET;
    reuse->allowed[tensor] = reuse->allowed[tensor] || giver == SAMBA_GIVEN_BY_HOLDER;
}

static const samba_reuse_function *function_of(const samba_session *session, int32_t graph)
{
    return &session->reuse.functions[session->reuse.function_of[graph]];
}

static bool is_anew(const samba_session *session, const samba_run_options *options, const samba_selection *selection)
{
    return options->input_count > 0 || (!selection->begins && function_of(session, selection->graph)->anew);
}

static bool is_named(const samba_session *session, int32_t graph, int count, const char *const *names, int32_t tensor)
{
    bool found = false;
    for (int i = 0; i < count && !found; i++)
        found = samba_sizes_find(session, graph, names[i]) == tensor;
    return found;
}

static bool is_given(const samba_session *session, int32_t graph, const samba_run_options *options, int32_t tensor)
{
    bool found = false;
    for (int i = 0; i < options->input_count && !found; i++)
        found = samba_sizes_find(session, graph, samba_tensor_name(options->inputs[i])) == tensor;
    return found;
}

static bool is_stale(const samba_session *session, const samba_run_options *options, const samba_selection *selection,
                     int32_t tensor)
{
    const uint8_t age = function_of(session, selection->graph)->ages[tensor];
    return (age == OLD || (age == READ && selection->begins)) && !session->reuse.allowed[tensor] && !session->reuse.set[tensor] &&
           !is_given(session, selection->graph, options, tensor) &&
           !is_named(session, selection->graph, options->reuse_input_count, options->reuse_inputs, tensor);
}

static int32_t first_read(const samba_session *session, int32_t section)
{
    return section == 0 ? 0 : session->reuse.ends[section - 1];
}

static samba_status check_section(const samba_session *session, const samba_run_options *options,
                                  const samba_selection *selection, int32_t section)
{
    const samba_plan_section *its = &session->plan.sections[section];
    samba_words words = {.used = 0};
    int count = 0;
    for (int32_t i = first_read(session, section); i < session->reuse.ends[section]; i++)
        if (is_stale(session, options, selection, session->reuse.reads[i])) {
            samba_words_add(&words, session->plan.tensors[session->reuse.reads[i]].name);
            count++;
        }
    return count == 0
               ? SAMBA_OK
               : samba_fail(session->context, SAMBA_ERROR_STATE,
                            "section %d (%s) reads the input%s %s, which still %s the value%s of an earlier step while other "
                            "inputs are given anew: give %s to this run, or name %s in reuse_inputs, once, to keep %s",
                            its->id, samba_section_type(its), count > 1 ? "s" : "", samba_words_text(&words),
                            count > 1 ? "have" : "has", count > 1 ? "s" : "", count > 1 ? "them" : "it",
                            count > 1 ? "them" : "it", count > 1 ? "them" : "it");
}

samba_status samba_check_reuse(const samba_session *session, const samba_run_options *options, const samba_selection *selection)
{
    SAMBA_TRY(check_names(session, options->reuse_input_count, options->reuse_inputs));
    for (int i = 0; i < options->input_count; i++)
        if (is_named(session, selection->graph, options->reuse_input_count, options->reuse_inputs,
                     samba_sizes_find(session, selection->graph, samba_tensor_name(options->inputs[i]))))
            return samba_fail(session->context, SAMBA_ERROR_ARGUMENT,
                              "input \"%.128s\" is given to this run and named in reuse_inputs: do one of them",
                              samba_tensor_name(options->inputs[i]));
    if (is_anew(session, options, selection))
        for (int32_t i = 0; i < selection->count; i++)
            SAMBA_TRY(check_section(session, options, selection, selection->sections[i]));
    return SAMBA_OK;
}

void samba_reuse_note(samba_session *session, const samba_run_options *options, const samba_selection *selection)
{
    samba_reuse *reuse = &session->reuse;
    samba_reuse_function *function = &reuse->functions[reuse->function_of[selection->graph]];
    for (int i = 0; i < options->reuse_input_count; i++)
        allow(session, samba_names_find(&session->tensors, options->reuse_inputs[i]));
    function->anew = is_anew(session, options, selection);
    for (int32_t t = 0; t < session->plan.tensor_count && selection->begins; t++)
        if (function->ages[t] == READ)
            function->ages[t] = OLD;
    for (int32_t k = 0; k < selection->count; k++)
        for (int32_t i = first_read(session, selection->sections[k]); i < reuse->ends[selection->sections[k]]; i++)
            if (function->ages[reuse->reads[i]] == NEW)
                function->ages[reuse->reads[i]] = READ;
}
