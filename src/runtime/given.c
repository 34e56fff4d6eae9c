/* SPDX-License-Identifier: Apache-2.0
 *
 * Which inputs have values. Device memory begins as zeros, so a run over an input that nobody gave would compute something: it is
 * refused, by the input's name. An input counts as given once a run was given it, once it was set, and once the caller
 * holds its memory; it stays so, until another size of it is (sizes.c).
 *
 * An input that stages write too, such as a region's cache, is memory of graphs: it begins as zeros and need not be given. */
#include "runtime/runtime.h"

#include <string.h>

static bool touches(const samba_stage *stage, int32_t buffer, samba_access_kind how)
{
    bool contract = stage->kind == SAMBA_STAGE_CONTRACT,
         found = contract && how == SAMBA_READS && (stage->contract.a.buffer == buffer || stage->contract.b.buffer == buffer);
    for (int32_t o = 0; o < stage->operand_count && !found; o++)
        found = stage->operands[o].buffer == buffer && samba_stage_access(stage, o) & how;
    return found;
}

bool samba_section_reads(const samba_session *session, int32_t section, int32_t tensor)
{
    const samba_plan_section *its = &session->plan.sections[section];
    bool found = false;
    for (int32_t i = 0; i < its->stage_count && !found; i++)
        found = touches(&session->plan.stages[its->first_stage + i], session->plan.tensors[tensor].buffer, SAMBA_READS);
    return found;
}

samba_status samba_given_begin(samba_session *session)
{
    const samba_plan *plan = &session->plan;
    SAMBA_TRY(SAMBA_ROOM(&session->arena, session->given, plan->tensor_count));
    SAMBA_TRY(SAMBA_ROOM(&session->arena, session->needs, plan->tensor_count));
    SAMBA_TRY(SAMBA_ROOM(&session->arena, session->fed, session->run_count));
    for (int32_t t = 0; t < plan->tensor_count; t++) {
        bool read = false, written = plan->tensors[t].kind != SAMBA_KIND_INPUT || session->in_place;
        for (int32_t s = 0; s < plan->stage_count && !written; s++) {
            read = read || touches(&plan->stages[s], plan->tensors[t].buffer, SAMBA_READS);
            written = touches(&plan->stages[s], plan->tensors[t].buffer, SAMBA_WRITES);
        }
        session->needs[t] = read && !written;
        session->given[t] = !session->needs[t];
        session->missing += session->needs[t];
    }
    return SAMBA_OK;
}

void samba_given_note(samba_session *session, int32_t tensor, samba_giver giver)
{
    session->missing -= !session->given[tensor];
    session->given[tensor] = true;
    samba_reuse_given(session, tensor, giver);
    samba_sizes_take(session, tensor);
}

void samba_given_forget(samba_session *session, int32_t tensor)
{
    if (!session->needs[tensor] || !session->given[tensor])
        return;
    session->given[tensor] = false;
    session->missing++;
    samba_note_input(session, tensor, false);
    memset(session->fed, 0, (size_t)session->run_count * sizeof *session->fed);
}

static bool is_given_now(const samba_session *session, int32_t graph, int32_t tensor, const samba_run_options *options)
{
    bool found = false;
    for (int i = 0; i < options->input_count && !found; i++)
        found = samba_sizes_find(session, graph, samba_tensor_name(options->inputs[i])) == tensor;
    return found;
}

static samba_status check_section(const samba_session *session, int32_t graph, int32_t section, const samba_run_options *options)
{
    const samba_plan_section *its = &session->plan.sections[section];
    samba_words words = {.used = 0};
    int count = 0;
    bool fed = true; /* by runs before this one */
    for (int32_t t = 0; t < session->plan.tensor_count; t++) {
        if (session->given[t] || (session->plan.graph_count > 1 && !samba_plan_has_tensor(&session->plan.graphs[graph], t)))
            continue;
        const bool now = is_given_now(session, graph, t, options);
        if (!now && !samba_section_reads(session, section, t))
            continue;
        fed = false;
        if (now)
            continue;
        samba_words_add(&words, session->plan.tensors[t].name);
        count++;
    }
    session->fed[section] = fed;
    return count == 0
               ? SAMBA_OK
               : samba_fail(session->context, SAMBA_ERROR_STATE,
                            "section %d (%s) reads the input%s %s, which %s never given: give %s to this run, or set %s before",
                            its->id, samba_section_type(its), count > 1 ? "s" : "", samba_words_text(&words),
                            count > 1 ? "were" : "was", count > 1 ? "them" : "it", count > 1 ? "them" : "it");
}

samba_status samba_check_given(const samba_session *session, const samba_run_options *options, const samba_selection *selection)
{
    for (int32_t i = 0; i < selection->count && session->missing > 0; i++)
        if (!session->fed[selection->sections[i]])
            SAMBA_TRY(check_section(session, selection->graph, selection->sections[i], options));
    return SAMBA_OK;
}
