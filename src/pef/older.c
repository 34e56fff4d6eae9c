/* SPDX-License-Identifier: Apache-2.0
 *
 * What older files say otherwise. Up to version 5 GRADNORM came before REDUCE, which no file had.
 *
 * What files of versions 3 and 4 do not say of a buffer: whether an optimizer keeps it. They knew it by its name:
 * "<parameter>.exp_avg" and its like, and "<optimizer>.step" where nothing else of the plan has a name that begins with the
 * optimizer's. Newer files have roles. */
#include "pef/format.h"

#include <string.h>

static bool is_parameter(const samba_plan *plan, const char *name, size_t length)
{
    bool found = false;
    for (int32_t i = 0; i < plan->tensor_count && !found; i++) {
        const samba_plan_tensor *tensor = &plan->tensors[i];
        found = tensor->kind == SAMBA_KIND_PARAMETER && strncmp(tensor->name, name, length) == 0 && tensor->name[length] == '\0';
    }
    return found;
}

/* Has the name's owner other tensors? An optimizer has none by its own name, a module that counts steps has. */
static bool has_others(const samba_plan *plan, const char *name, size_t length)
{
    for (int32_t i = 0; i < plan->tensor_count; i++) {
        const char *other = plan->tensors[i].name;
        if (strncmp(other, name, length) == 0 && other[length] == '.' && strcmp(other, name) != 0)
            return true;
    }
    return false;
}

static samba_tensor_role role_of(const samba_plan *plan, const samba_plan_tensor *tensor)
{
    static const char *const states[] = {".momentum_buffer", ".exp_avg", ".exp_avg_sq", ".max_exp_avg_sq"};
    const char *name = tensor->name, *dot = strrchr(name, '.');
    if (tensor->kind != SAMBA_KIND_BUFFER || !dot || dot == name)
        return SAMBA_ROLE_MODEL;
    const size_t length = (size_t)(dot - name);
    if (strcmp(dot, ".step") == 0)
        return tensor->dtype == SAMBA_FLOAT64 && tensor->rank == 0 && !has_others(plan, name, length) ? SAMBA_ROLE_OPTIMIZER
                                                                                                      : SAMBA_ROLE_MODEL;
    for (int i = 0; i < SAMBA_COUNT(states); i++)
        if (strcmp(dot, states[i]) == 0 && is_parameter(plan, name, length))
            return SAMBA_ROLE_OPTIMIZER;
    return SAMBA_ROLE_MODEL;
}

void samba_pef_find_roles(samba_plan *plan)
{
    for (int32_t i = 0; i < plan->tensor_count; i++)
        plan->tensors[i].role = role_of(plan, &plan->tensors[i]);
}

void samba_pef_number_phases(samba_plan *plan)
{
    for (int32_t i = 0; i < plan->section_count; i++)
        if (plan->sections[i].phase == 3 || plan->sections[i].phase == 4)
            plan->sections[i].phase = 7 - plan->sections[i].phase;
}
