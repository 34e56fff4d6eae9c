/* SPDX-License-Identifier: Apache-2.0
 *
 * See reuse.h. Memory is looked at in pieces, not by buffers, as buffers with different live ranges share it. A stage walks
 * through its operands from one end to the other. So between two touches of a piece lie half of the first stage's bytes, those of
 * the stages between, and half of the second stage's: every piece counts as touched in the middle of a stage. */
#include "device/cpu/reuse.h"

enum { PIECE = 1 << 16, MOST_PIECES = 1 << 20 /* beyond that they are larger: a file may say any size */ };

typedef struct touching {
    int64_t piece; /* bytes */
    double *last;  /* per piece of memory: what had been moved when it was touched last */
    double moved, near;
    int64_t pieces, far; /* of the stage at hand: that it touches; those of them that were touched long ago */
} touching;

static void touch(touching *t, const samba_buffer *buffer, double now)
{
    if (buffer->bytes <= 0)
        return;
    for (int64_t i = buffer->offset / t->piece; i <= (buffer->offset + buffer->bytes - 1) / t->piece; i++) {
        if (t->last[i] == now)
            continue; /* by another operand of the stage */
        t->pieces++;
        t->far += now - t->last[i] > t->near;
        t->last[i] = now;
    }
}

/* Buffer i of those that the stage touches, product sides behind operands; NULL: none, or one that came before. */
static const samba_buffer *touched(const samba_plan *plan, const samba_stage *stage, int32_t i)
{
    const int32_t sides[2] = {stage->contract.a.buffer, stage->contract.b.buffer};
    int32_t buffer = i < stage->operand_count ? stage->operands[i].buffer : sides[i - stage->operand_count];
    for (int32_t k = 0; k < i && k < stage->operand_count; k++)
        if (stage->operands[k].buffer == buffer)
            return NULL;
    return buffer >= 0 ? &plan->buffers[buffer] : NULL;
}

static bool is_far(touching *t, const samba_plan *plan, const samba_stage *stage)
{
    int32_t count = stage->operand_count + (stage->kind == SAMBA_STAGE_CONTRACT ? 2 : 0);
    const samba_buffer *buffer;
    double bytes = 1; /* so that no two stages are alike */
    for (int32_t i = 0; i < count; i++)
        if ((buffer = touched(plan, stage, i)))
            bytes += (double)buffer->bytes;
    t->pieces = t->far = 0;
    for (int32_t i = 0; i < count; i++)
        if ((buffer = touched(plan, stage, i)))
            touch(t, buffer, t->moved + bytes / 2);
    t->moved += bytes;
    return 2 * t->far > t->pieces;
}

samba_status samba_reuse_find(samba_context *context, const samba_plan *plan, int64_t near, uint8_t *far)
{
    const int64_t piece = plan->memory_bytes / MOST_PIECES < PIECE ? PIECE : plan->memory_bytes / MOST_PIECES + 1;
    const size_t size = (size_t)(plan->memory_bytes / piece + 1) * sizeof(double);
    touching t = {.piece = piece, .last = samba_calloc(context, size), .near = (double)near};
    if (!t.last)
        return SAMBA_ERROR_MEMORY;
    for (int round = 0; round < 2; round++)
        for (int32_t i = 0; i < plan->stage_count; i++)
            far[i] = is_far(&t, plan, &plan->stages[i]);
    samba_free(context, t.last, size);
    return SAMBA_OK;
}
