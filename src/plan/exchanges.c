/* SPDX-License-Identifier: Apache-2.0
 *
 * The order of exchanges between replicas and of what surrounds them. The file says nothing of it: it follows from the memory
 * that stages touch. A session keeps to it, and the model of scaling (report/scaling.c) reckons with it. */
#include "plan/plan.h"

static bool touches(const samba_plan *plan, const samba_plan_section *section, samba_buffer range, int access)
{
    for (int32_t s = section->first_stage; s < section->first_stage + section->stage_count; s++)
        if (samba_stage_touches(&plan->stages[s], plan->buffers, range, access))
            return true;
    return false;
}

/* Does `other` touch (`access`) the operands that `section` writes? */
static bool touches_written(const samba_plan *plan, const samba_plan_section *other, const samba_plan_section *section,
                            int access)
{
    for (int32_t s = section->first_stage; s < section->first_stage + section->stage_count; s++)
        for (int32_t o = 0; o < plan->stages[s].operand_count; o++)
            if (plan->stages[s].operands[o].buffer >= 0 && samba_stage_access(&plan->stages[s], o) & SAMBA_WRITES &&
                touches(plan, other, plan->buffers[plan->stages[s].operands[o].buffer], access))
                return true;
    return false;
}

/* Does one write what the other reads or writes? */
static bool conflict(const samba_plan *plan, int32_t a, int32_t b)
{
    const samba_plan_section *one = &plan->sections[a], *other = &plan->sections[b];
    return touches_written(plan, one, other, SAMBA_READS | SAMBA_WRITES) ||
           touches_written(plan, other, one, SAMBA_READS | SAMBA_WRITES);
}

int32_t samba_plan_completion(const samba_plan *plan, int32_t reduce)
{
    const int32_t graph = samba_plan_graph_of(plan, reduce);
    for (int32_t i = plan->section_count - 1; i >= 0; i--)
        if (plan->sections[i].phase == SAMBA_PLAN_BCKWD && samba_plan_graph_of(plan, i) == graph &&
            touches_written(plan, &plan->sections[i], &plan->sections[reduce], SAMBA_WRITES))
            return i;
    return -1;
}

static bool sums(const samba_stage *stage)
{
    const samba_program *program = &stage->program;
    if (stage->kind != SAMBA_STAGE_TILE)
        return stage->kind != SAMBA_STAGE_EXCHANGE;
    for (int32_t i = 0; i < program->instruction_count; i++) {
        const samba_tile_form form = samba_tile_table[program->instructions[i].op].form;
        if (form == SAMBA_FORM_REDUCE || form == SAMBA_FORM_COLLECT)
            return true;
    }
    return false;
}

bool samba_plan_sums_behind_reduce(const samba_plan *plan)
{
    for (int32_t i = 0; i < plan->section_count; i++) {
        const samba_plan_section *section = &plan->sections[i];
        for (int32_t k = 0; k < section->stage_count && section->phase > SAMBA_PLAN_REDUCE; k++)
            if (sums(&plan->stages[section->first_stage + k]))
                return true;
    }
    return false;
}

bool samba_plan_follows(const samba_plan *plan, int32_t update, int32_t before)
{
    return plan->sections[before].phase == SAMBA_PLAN_OPT
               ? conflict(plan, update, before)
               : touches_written(plan, &plan->sections[update], &plan->sections[before], SAMBA_READS);
}
