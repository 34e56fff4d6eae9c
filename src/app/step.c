/* SPDX-License-Identifier: Apache-2.0
 *
 * One step of training is one run of the whole schedule, or with gradient accumulation several: the first run zeroes the gradients, every
 * run adds to them, and the last one also updates. Section types that the PEF does not have are left out. */
#include "app/app.h"

static bool has_type(const samba_plan *plan, int phase)
{
    for (int i = 0; i < plan->section_count; i++)
        if (plan->sections[i].phase == phase)
            return true;
    return false;
}

void samba_step_plan_init(const samba_plan *plan, samba_step_plan *step)
{
    *step = (samba_step_plan){.steps = plan->grad_accumulation_steps > 1 ? plan->grad_accumulation_steps : 1};
    if (step->steps == 1)
        return;
    for (int phase = 0; phase < SAMBA_STEP_TYPES; phase++) {
        if (!has_type(plan, phase))
            continue;
        const char *type = samba_section_type_names[phase];
        bool adds = phase == 1 || phase == 2; /* FWD, BCKWD */
        if (adds || phase == 0)
            step->first[step->first_count++] = type;
        if (adds)
            step->middle[step->middle_count++] = type;
        if (adds || phase > 2)
            step->last[step->last_count++] = type;
    }
}

void samba_step_types(const samba_step_plan *step, int index, samba_run_options *run)
{
    bool first = index == 0, last = index == step->steps - 1;
    run->section_types = first ? step->first : last ? step->last : step->middle;
    run->section_type_count = first ? step->first_count : last ? step->last_count : step->middle_count;
}
