/* SPDX-License-Identifier: Apache-2.0
 *
 * Groups to stages, in the order fusion found; after the last group of a phase (of what is redone, and of the rest) come the
 * copies that its sinks still need. Each kind of group has a file of its own: lower_tile.c, lower_contract.c, lower_kernel.c,
 * lower_move.c.
 *
 * Needs: groups in order, buffers. Gives: stages with their phases. Breaks nothing. */
#include "compiler/compiler.h"

#include <string.h>

#define LABEL_OPS 10 /* operators a stage's name lists before it says "..." */

samba_status samba_plan_add_stage(samba_compiler *c, samba_phase phase, samba_stage **stage)
{
    samba_plan *plan = &c->plan;
    SAMBA_TRY(SAMBA_GROW(c->context, plan->stages, c->growth.stage_capacity, plan->stage_count + 1));
    SAMBA_TRY(SAMBA_GROW(c->context, c->growth.made, c->growth.made_capacity, plan->stage_count + 1));
    c->growth.made[plan->stage_count] = (samba_made_stage){phase, plan->graph_count - 1, c->lowering.redone, false};
    *stage = &plan->stages[plan->stage_count++];
    memset(*stage, 0, sizeof **stage);
    return SAMBA_OK;
}

void samba_plan_move_stage(samba_compiler *c, int32_t from, int32_t to)
{
    c->plan.stages[to] = c->plan.stages[from];
    c->growth.made[to] = c->growth.made[from];
}

/* "conv1: conv2d add relu": the scope of the first member that has one, and what the stage computes;
 * and its operators one by one. */
samba_status samba_stage_label(samba_compiler *c, const samba_group *group, samba_stage *stage)
{
    samba_text text;
    samba_text_init(&text, c->context);
    const char *scope = "";
    for (int64_t m = 0; m < group->member_count && !scope[0]; m++)
        scope = samba_graph_name_at(c->graph, samba_node_at(c->graph, group->members[m])->location.scope);
    if (scope[0])
        samba_text_add(&text, "%s:", scope);
    for (int64_t m = 0; m < group->member_count && m < LABEL_OPS; m++)
        samba_text_add(&text, "%s%s", text.length ? " " : "", samba_ops[samba_node_at(c->graph, group->members[m])->op].name);
    if (group->member_count > LABEL_OPS)
        samba_text_add(&text, " ...");
    SAMBA_TRY(samba_text_keep(&text, &c->plan.arena, &stage->name));
    return samba_stage_operators(c, group, stage);
}

samba_status samba_plan_add_labelled(samba_compiler *c, const samba_group *group, samba_stage_kind kind, samba_stage **stage)
{
    SAMBA_TRY(samba_plan_add_stage(c, group->phase, stage));
    (*stage)->kind = (int32_t)kind;
    return samba_stage_label(c, group, *stage);
}

static samba_status lower_group(samba_compiler *c, int32_t index)
{
    const samba_group *group = &c->fusion.groups[index];
    if (group->idle)
        return SAMBA_OK;
    switch (group->kind) {
    case SAMBA_GROUP_CONTRACT: return samba_lower_contract(c, index);
    case SAMBA_GROUP_KERNEL: return samba_lower_kernel(c, index);
    case SAMBA_GROUP_MOVE: return samba_lower_move(c, index);
    case SAMBA_GROUP_TILE: break;
    }
    samba_stage *stage;
    SAMBA_TRY(samba_plan_add_labelled(c, group, SAMBA_STAGE_TILE, &stage));
    return samba_lower_program(c, index, 0, NULL, stage);
}

samba_status samba_pass_lower(samba_compiler *c)
{
    samba_fusion *f = &c->fusion;
    int64_t at = 0;
    SAMBA_TRY(samba_uses_find(c));
    for (int part = 0; part < 2 * SAMBA_PHASE_COUNT; part++) {
        samba_phase phase = (samba_phase)(part / 2);
        c->lowering.redone = part % 2 != 0;
        for (; at < f->order_count && f->groups[f->order[at]].phase == phase &&
               f->groups[f->order[at]].redone == c->lowering.redone;
             at++, c->lowering.uses.position++)
            SAMBA_TRY(lower_group(c, f->order[at]));
        for (int64_t i = 0; i < c->placed.copy_count; i++)
            if (c->placed.copies[i].phase == phase && c->placed.copies[i].redone == c->lowering.redone) {
                SAMBA_TRY(samba_lower_copy(c, &c->placed.copies[i]));
                c->lowering.uses.position++;
            }
    }
    samba_uses_settle(c);
    return SAMBA_OK;
}
