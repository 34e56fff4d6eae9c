/* SPDX-License-Identifier: Apache-2.0
 *
 * See sharing.h. Seconds are those of the machine's figures: of bytes and of operations, whichever takes longer. */
#include "device/cpu/sharing.h"

#include <string.h>

/* Seconds of a tile program on one element of its domain. */
static double tile_seconds(const samba_cpu_machine *machine, const samba_program *program)
{
    double seconds = 0;
    for (int32_t i = 0; i < program->instruction_count; i++) {
        bool slow = samba_tile_table[program->instructions[i].op].cost != SAMBA_COST_ARITHMETIC;
        seconds += 1 / (slow ? machine->share.slow_values : machine->share.values);
    }
    return seconds;
}

/* Bytes of a side of a product that it reads; windows read some of them more than once. */
static double side_bytes(const samba_contract *c, const samba_factor *side, int own_rank, const int64_t *own)
{
    double bytes = (double)samba_dtype_size((samba_dtype)side->dtype);
    for (int i = 0; i < c->batch_rank; i++)
        bytes *= side->batch[i] ? (double)c->batch[i] : 1;
    for (int i = 0; i < own_rank; i++)
        bytes *= side->own[i] ? (double)own[i] : 1;
    for (int i = 0; i < c->k_rank; i++)
        bytes *= side->inner[i] ? (double)c->k[i] : 1;
    return bytes;
}

/* Bytes of the stage that one core holds alone. What threads shared before, or what the host gave, lies with whoever takes it
 * next, where elements are what is divided; products read rows that another thread made, but nobody makes constants. `alone`: of
 * each buffer, whether one thread wrote it last. */
static double held_bytes(const samba_sharing *s, const samba_stage *stage, const bool *alone)
{
    const samba_buffer *buffers = s->plan->buffers;
    double bytes = 0;
    if (stage->kind == SAMBA_STAGE_CONTRACT) {
        bytes = (double)stage->bytes;
        const samba_contract *c = &stage->contract;
        bytes -= s->constants->buffer[c->a.buffer] ? side_bytes(c, &c->a, c->m_rank, c->m) : 0;
        bytes -= s->constants->buffer[c->b.buffer] ? side_bytes(c, &c->b, c->n_rank, c->n) : 0;
        return bytes > 0 ? bytes : 0;
    }
    if (stage->kind == SAMBA_STAGE_ATTENTION)
        return (double)stage->bytes;
    for (int32_t i = 0; i < stage->operand_count; i++)
        if (stage->operands[i].buffer >= 0 && (samba_stage_access(stage, i) & SAMBA_READS) && alone[stage->operands[i].buffer])
            bytes += (double)buffers[stage->operands[i].buffer].bytes;
    return bytes < (double)stage->bytes ? bytes : (double)stage->bytes;
}

/* Is it shared? Where one thread would need longer than waking and meeting the others costs. */
static bool worth_sharing(const samba_sharing *s, const samba_cpu_machine *machine, const samba_stage *stage, double held)
{
    bool cached = s->plan->memory_bytes <= machine->share.cached_plan;
    double seconds = (double)stage->bytes / (cached ? machine->share.cached : machine->share.memory), work = 0, values = 1;
    switch ((samba_stage_kind)stage->kind) {
    case SAMBA_STAGE_TILE:
        for (int32_t i = 0; i < stage->rank; i++)
            values *= (double)stage->domain[i];
        work = values * tile_seconds(machine, &stage->program);
        break;
    case SAMBA_STAGE_CONTRACT:
        for (int32_t i = 0; i < stage->contract.batch_rank; i++)
            values *= (double)stage->contract.batch[i];
        work = (double)stage->flops / machine->share.contract;
        work = values / machine->share.batches > work ? values / machine->share.batches : work;
        break;
    case SAMBA_STAGE_ATTENTION:
    case SAMBA_STAGE_LINEAR: work = (double)stage->flops / machine->share.contract; break;
    case SAMBA_STAGE_POOL: work = (double)stage->flops / machine->share.pool; break;
    case SAMBA_STAGE_FOURIER: work = (double)stage->flops / machine->share.fourier; break;
    case SAMBA_STAGE_CTC:
    case SAMBA_STAGE_LINE: work = (double)stage->flops / machine->share.line; break;
    case SAMBA_STAGE_MATRIX: work = (double)stage->flops / machine->share.matrix; break;
    case SAMBA_STAGE_GATHER:
    case SAMBA_STAGE_EXCHANGE:
    case SAMBA_STAGE_KIND_COUNT: break;
    }
    return (work > seconds ? work : seconds) > machine->share.seconds + (cached ? held / machine->share.crossing : 0);
}

/* Does a linear stage read the x of the one before it, which threads share? They take their parts of both without meeting. */
static bool joins_shared(const samba_plan *plan, int32_t i, bool before_is_shared)
{
    if (i == 0 || !before_is_shared)
        return false;
    const samba_stage *stage = &plan->stages[i], *before = stage - 1;
    return stage->kind == SAMBA_STAGE_LINEAR && before->kind == SAMBA_STAGE_LINEAR &&
           stage->operands[0].buffer == before->operands[0].buffer;
}

bool samba_stage_is_shared(const samba_sharing *s, const samba_cpu_machine *machine, int32_t i, bool before_is_shared)
{
    return s->threads > 1 &&
           (worth_sharing(s, machine, &s->plan->stages[i], s->held[i]) || joins_shared(s->plan, i, before_is_shared));
}

/* Which buffers one thread wrote last, if the model has its way: so of each stage what one core holds. */
samba_status samba_sharing_find_held(const samba_sharing *s, const samba_cpu_machine *machine, samba_arena *arena)
{
    const samba_plan *plan = s->plan;
    bool *alone = samba_arena_alloc(arena, (size_t)plan->buffer_count);
    if (!alone)
        return SAMBA_ERROR_MEMORY;
    memset(alone, 0, (size_t)plan->buffer_count);
    bool shared = false;
    for (int32_t i = 0; i < plan->stage_count; i++) {
        const samba_stage *stage = &plan->stages[i];
        s->held[i] = held_bytes(s, stage, alone);
        shared = samba_stage_is_shared(s, machine, i, shared);
        for (int32_t k = 0; k < stage->operand_count; k++)
            if (stage->operands[k].buffer >= 0 && (samba_stage_access(stage, k) & SAMBA_WRITES))
                alone[stage->operands[k].buffer] = !shared;
    }
    return SAMBA_OK;
}
