/* SPDX-License-Identifier: Apache-2.0
 *
 * One arena for everything: first what lasts (parameters, gradients, optimizer state, inputs, outputs, hyperparameters), then
 * intermediates, which share memory where their live ranges (first to last stage that touches them) do not meet. Parameters,
 * gradients and each kind of optimizer state lie in the same order without gaps but alignment, so that an update of many tensors
 * is one pass over memory.
 *
 * Values that are computed of constants alone (plan/constants.c) last as well: devices compute them once and not in every run.
 *
 * Values made in REDUCE or later and read in another phase last too: a caller may run sections one by one, with others between.
 * Needs: stages. Gives: offsets, the memory figures. Breaks nothing. */
#include "compiler/compiler.h"

#include <stdlib.h>
#include <string.h>

typedef struct live_range {
    int32_t buffer, first, last; /* stages; first > last: never touched */
    int64_t bytes, offset;
} live_range;

static int64_t aligned(int64_t bytes) { return (bytes + SAMBA_ALIGNMENT - 1) / SAMBA_ALIGNMENT * SAMBA_ALIGNMENT; }

static void touch(live_range *ranges, int32_t buffer, int32_t stage)
{
    if (buffer < 0)
        return;
    if (ranges[buffer].first > stage)
        ranges[buffer].first = stage;
    if (ranges[buffer].last < stage)
        ranges[buffer].last = stage;
}

static void measure_ranges(const samba_plan *plan, live_range *ranges)
{
    for (int32_t b = 0; b < plan->buffer_count; b++)
        ranges[b] = (live_range){b, INT32_MAX, -1, plan->buffers[b].bytes, -1};
    for (int32_t s = 0; s < plan->stage_count; s++) {
        const samba_stage *stage = &plan->stages[s];
        for (int32_t o = 0; o < stage->operand_count; o++)
            touch(ranges, stage->operands[o].buffer, s);
        if (stage->kind == SAMBA_STAGE_CONTRACT) {
            touch(ranges, stage->contract.a.buffer, s);
            touch(ranges, stage->contract.b.buffer, s);
        }
    }
}

/* Tensors in the order they lie in memory: by kind, state by what follows its last '.', then as they were made. */
static int tensor_order(const void *left, const void *right)
{
    const samba_plan_tensor *const *a = left, *const *b = right;
    static const int rank_of_kind[] = {[SAMBA_KIND_INPUT] = 3,
                                       [SAMBA_KIND_PARAMETER] = 0,
                                       [SAMBA_KIND_BUFFER] = 2,
                                       [SAMBA_KIND_GRADIENT] = 1,
                                       [SAMBA_KIND_OUTPUT] = 4};
    int by_kind = rank_of_kind[(*a)->kind] - rank_of_kind[(*b)->kind];
    if (by_kind != 0)
        return by_kind;
    if ((*a)->kind == SAMBA_KIND_BUFFER) {
        const char *x = strrchr((*a)->name, '.'), *y = strrchr((*b)->name, '.');
        int by_suffix = strcmp(x ? x : "", y ? y : "");
        if (by_suffix != 0)
            return by_suffix;
    }
    return *a < *b ? -1 : *a > *b;
}

static int64_t *part_of(samba_memory_info *memory, int32_t kind)
{
    return kind == SAMBA_KIND_PARAMETER  ? &memory->parameters
           : kind == SAMBA_KIND_BUFFER   ? &memory->state
           : kind == SAMBA_KIND_GRADIENT ? &memory->gradients
                                         : &memory->inputs_outputs;
}

static void settle(samba_plan *plan, int32_t buffer, int64_t *end, int64_t *part)
{
    plan->buffers[buffer].offset = *end;
    *end += aligned(plan->buffers[buffer].bytes > 0 ? plan->buffers[buffer].bytes : 1);
    *part += aligned(plan->buffers[buffer].bytes > 0 ? plan->buffers[buffer].bytes : 1);
}

static int larger_first(const void *left, const void *right)
{
    const live_range *a = left, *b = right;
    if (a->bytes != b->bytes)
        return a->bytes < b->bytes ? 1 : -1;
    return a->buffer - b->buffer;
}

/* Each at the lowest offset free during its live range; allocated ones are kept sorted by offset. */
static int64_t share(live_range *ranges, int64_t count, const live_range **allocated)
{
    int64_t allocated_count = 0, top = 0;
    qsort(ranges, (size_t)count, sizeof(live_range), larger_first);
    for (int64_t i = 0; i < count; i++) {
        live_range *l = &ranges[i];
        int64_t need = aligned(l->bytes > 0 ? l->bytes : 1), at = 0;
        for (int64_t k = 0; k < allocated_count; k++) {
            const live_range *p = allocated[k];
            if (p->last < l->first || p->first > l->last)
                continue;
            if (p->offset - at >= need)
                break;
            int64_t end = p->offset + aligned(p->bytes > 0 ? p->bytes : 1);
            if (end > at)
                at = end;
        }
        l->offset = at;
        if (at + need > top)
            top = at + need;
        int64_t k = allocated_count++;
        for (; k > 0 && allocated[k - 1]->offset > at; k--)
            allocated[k] = allocated[k - 1];
        allocated[k] = l;
    }
    return top;
}

/* Nothing overlaps in this pass's plan yet, so they are looked for where each buffer has memory of its own. */
samba_status samba_find_constant_stages(samba_compiler *c, const bool **stages)
{
    samba_plan *plan = &c->plan;
    samba_constants constants;
    int64_t end = 0;
    for (int32_t b = 0; b < plan->buffer_count; b++) {
        plan->buffers[b].offset = end;
        end += aligned(plan->buffers[b].bytes);
    }
    SAMBA_TRY(samba_constants_find(plan, &c->arena, &constants));
    *stages = constants.stage;
    return SAMBA_OK;
}

/* Buffers that constant stages write. */
static samba_status find_lasting(samba_compiler *c, bool *lasting)
{
    const samba_plan *plan = &c->plan;
    const bool *constant;
    SAMBA_TRY(samba_find_constant_stages(c, &constant));
    for (int32_t s = 0; s < plan->stage_count; s++)
        for (int32_t o = 0; constant[s] && o < plan->stages[s].operand_count; o++)
            if (plan->stages[s].operands[o].buffer >= 0 && samba_stage_access(&plan->stages[s], o) & SAMBA_WRITES)
                lasting[plan->stages[s].operands[o].buffer] = true;
    return SAMBA_OK;
}

samba_status samba_pass_memory(samba_compiler *c)
{
    samba_plan *plan = &c->plan;
    size_t buffers = (size_t)plan->buffer_count + 1;
    live_range *ranges, *shared;
    const live_range **allocated;
    samba_plan_tensor **tensors;
    bool *settled, *lasting;
    SAMBA_TRY(SAMBA_ROOM(&c->arena, ranges, buffers));
    SAMBA_TRY(SAMBA_ROOM(&c->arena, shared, buffers));
    SAMBA_TRY(SAMBA_ROOM(&c->arena, allocated, buffers));
    SAMBA_TRY(SAMBA_ROOM(&c->arena, tensors, plan->tensor_count + 1));
    SAMBA_TRY(SAMBA_ROOM(&c->arena, settled, buffers));
    SAMBA_TRY(SAMBA_ROOM(&c->arena, lasting, buffers));
    SAMBA_TRY(find_lasting(c, lasting));
    measure_ranges(plan, ranges);
    int64_t end = 0;
    for (int32_t t = 0; t < plan->tensor_count; t++)
        tensors[t] = &plan->tensors[t];
    qsort(tensors, (size_t)plan->tensor_count, sizeof(void *), tensor_order);
    for (int32_t t = 0; t < plan->tensor_count; t++) {
        if (settled[tensors[t]->buffer]) /* another size's, which has the memory too */
            continue;
        settle(plan, tensors[t]->buffer, &end, part_of(&plan->memory, tensors[t]->kind));
        settled[tensors[t]->buffer] = true;
    }
    for (int32_t i = 0; i < plan->constant_count; i++) {
        settle(plan, plan->constants[i].buffer, &end, &plan->memory.constants);
        settled[plan->constants[i].buffer] = true;
    }
    int64_t count = 0;
    for (int32_t b = 0; b < plan->buffer_count; b++) {
        bool touched = ranges[b].last >= 0;
        bool late = touched && c->growth.made[ranges[b].first].phase >= SAMBA_REDUCE &&
                    c->growth.made[ranges[b].last].phase != c->growth.made[ranges[b].first].phase;
        if (settled[b])
            continue;
        if (c->growth.persistent[b] || late || lasting[b])
            settle(plan, b, &end,
                   lasting[b]                ? &plan->memory.constants
                   : c->growth.persistent[b] ? &plan->memory.inputs_outputs
                                             : &plan->memory.activations);
        else if (touched)
            shared[count++] = ranges[b];
    }
    int64_t activations = share(shared, count, allocated);
    for (int64_t i = 0; i < count; i++)
        plan->buffers[shared[i].buffer].offset = end + shared[i].offset;
    plan->memory.activations += activations;
    plan->memory_bytes = end + activations;
    plan->memory.total = plan->memory_bytes;
    for (int32_t b = 0; b < plan->buffer_count; b++) /* made, then not needed: it has no bytes */
        if (!settled[b] && !c->growth.persistent[b] && ranges[b].last < 0)
            plan->buffers[b] = (samba_buffer){0, 0};
    return SAMBA_OK;
}
