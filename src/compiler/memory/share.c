/* SPDX-License-Identifier: Apache-2.0
 *
 * Constants that several graphs compute alike, such as bfloat16 copies of the weights that they share, are computed and kept
 * once: of two constant stages (plan/constants.c; each alone writes its buffer) that are the same but for where their results go,
 * the first one serves. A device makes the constants of all graphs before the first run, whichever graph that is of, so it does
 * not matter whose section the stage is in.
 *
 * Needs: stages of all graphs. Gives: fewer stages, and buffers that nobody touches. Breaks nothing. */
#include "compiler/compiler.h"

#include <string.h>

/* Results go to the same offsets of buffers of one size; all else is equal. */
static bool same(const samba_plan *plan, const samba_stage *a, const samba_stage *b)
{
    if (a->kind != SAMBA_STAGE_TILE || b->kind != SAMBA_STAGE_TILE || a->operand_count != b->operand_count ||
        !samba_shape_equal(a->rank, a->domain, b->rank, b->domain) || !samba_program_equal(&a->program, &b->program))
        return false;
    for (int32_t o = 0; o < a->operand_count; o++) {
        const samba_operand *x = &a->operands[o], *y = &b->operands[o];
        if (x->dtype != y->dtype || x->offset != y->offset ||
            memcmp(x->strides, y->strides, sizeof *x->strides * (size_t)a->rank) != 0)
            return false;
        bool written = x->buffer >= 0 && y->buffer >= 0 && samba_stage_access(a, o) == SAMBA_WRITES;
        if (written ? plan->buffers[x->buffer].bytes != plan->buffers[y->buffer].bytes : x->buffer != y->buffer)
            return false;
    }
    return true;
}

static void rename_buffers(samba_stage *stage, const int32_t *now)
{
    for (int32_t o = 0; o < stage->operand_count; o++)
        if (stage->operands[o].buffer >= 0)
            stage->operands[o].buffer = now[stage->operands[o].buffer];
    if (stage->kind == SAMBA_STAGE_CONTRACT) {
        stage->contract.a.buffer = now[stage->contract.a.buffer];
        stage->contract.b.buffer = now[stage->contract.b.buffer];
    }
}

samba_status samba_share_constants(samba_compiler *c)
{
    samba_plan *plan = &c->plan;
    const bool *constant;
    int32_t *now, *constants, kept = 0, count = 0; /* constants: those that are kept */
    SAMBA_TRY(SAMBA_ROOM(&c->arena, now, plan->buffer_count + 1));
    SAMBA_TRY(SAMBA_ROOM(&c->arena, constants, plan->stage_count + 1));
    SAMBA_TRY(samba_find_constant_stages(c, &constant));
    for (int32_t b = 0; b < plan->buffer_count; b++)
        now[b] = b;
    for (int32_t s = 0; s < plan->stage_count; s++) {
        samba_stage *stage = &plan->stages[s];
        int32_t twin = 0;
        rename_buffers(stage, now);
        while (constant[s] && twin < count && !same(plan, &plan->stages[constants[twin]], stage))
            twin++;
        if (constant[s] && twin < count) {
            for (int32_t o = 0; o < stage->operand_count; o++)
                if (stage->operands[o].buffer >= 0)
                    now[stage->operands[o].buffer] = plan->stages[constants[twin]].operands[o].buffer;
            continue;
        }
        if (constant[s])
            constants[count++] = kept;
        samba_plan_move_stage(c, s, kept++);
    }
    plan->stage_count = kept;
    return SAMBA_OK;
}
