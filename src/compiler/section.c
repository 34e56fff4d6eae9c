/* SPDX-License-Identifier: Apache-2.0
 *
 * Stages to sections, one a phase of a graph, or two where BCKWD computes a part of FWD again (redone.c), and the schedule that calls them in order. A call's id is its position in its graph's schedule.
 *
 * Needs: stages in order of phase. Gives: sections and calls. Breaks nothing. */
#include "compiler/compiler.h"

samba_status samba_pass_section(samba_compiler *c)
{
    samba_plan *plan = &c->plan;
    for (int32_t s = 0, g = 0; s < plan->stage_count;) {
        for (; g < c->stage_graph[s]; g++) { /* every graph has a stage: something stores its first output */
            plan->graphs[g + 1].first_section = plan->section_count;
            plan->graphs[g + 1].first_call = plan->call_count;
        }
        int32_t first = s;
        samba_plan_section section = {.id = plan->section_count, .phase = (int32_t)c->stage_phase[s], .first_stage = s};
        bool redone = c->stage_redone[s];
        section.redone_by = redone ? SAMBA_BCKWD : 0;
        for (; s < plan->stage_count && c->stage_graph[s] == g && c->stage_phase[s] == c->stage_phase[first] && c->stage_redone[s] == redone; s++) {
            section.flops += plan->stages[s].flops;
            section.bytes += plan->stages[s].bytes;
        }
        section.stage_count = s - first;
        section.name = samba_arena_strdup(&plan->arena, redone ? "FWD, left out where BCKWD follows" : samba_phase_names[section.phase]);
        if (!section.name)
            return SAMBA_ERROR_MEMORY;
        SAMBA_TRY(samba_grow(c->context, (void **)&plan->sections, sizeof section, &c->section_capacity, plan->section_count + 1));
        SAMBA_TRY(samba_grow(c->context, (void **)&plan->calls, sizeof(int32_t), &c->call_capacity, plan->call_count + 1));
        plan->calls[plan->call_count++] = section.id;
        plan->sections[plan->section_count++] = section;
        plan->graphs[g].section_count++;
        plan->graphs[g].call_count++;
    }
    return plan->graph_count == 1 ? samba_plan_own_graph(plan) : SAMBA_OK; /* link.c knows the tensors of several */
}
