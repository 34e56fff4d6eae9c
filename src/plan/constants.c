/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory that no run changes. Memory is constant if no stage writes it and the host does not give it with each run: parameters of
 * inference, buffers. A stage that reads only constants makes constants too, if its results have memory of their own: bfloat16
 * copies of weights, tables of positions; but not wide copies of narrow weights. A device computes and packs constants once, and
 * again when the host has written constant memory.
 *
 * Buffers may overlap, so ranges of memory are looked at and not buffers. Ranges that overlap form an island. If one byte of an
 * island is written, all of it counts as written: so no memory is called constant that is not. */
#include "plan/plan.h"

#include <stdlib.h>

static int by_begin(const void *left, const void *right)
{
    const samba_island *a = left, *b = right;
    return a->begin < b->begin ? -1 : a->begin > b->begin;
}

static void add(const samba_plan *plan, samba_constants *constants, int32_t buffer, samba_island facts)
{
    const samba_buffer *range = &plan->buffers[buffer];
    if (range->bytes == 0)
        return;
    facts.begin = range->offset;
    facts.end = range->offset + range->bytes;
    constants->islands[constants->island_count++] = facts;
}

static void join_overlapping(samba_constants *constants)
{
    int32_t count = 0;
    qsort(constants->islands, (size_t)constants->island_count, sizeof *constants->islands, by_begin);
    for (int32_t i = 0; i < constants->island_count; i++) {
        const samba_island next = constants->islands[i];
        samba_island *last = count ? &constants->islands[count - 1] : NULL;
        if (!last || next.begin >= last->end) {
            constants->islands[count++] = next;
            continue;
        }
        last->end = next.end > last->end ? next.end : last->end;
        last->stage = next.writers ? next.stage : last->stage;
        last->writers += next.writers;
        last->named |= next.named;
        last->given |= next.given;
    }
    constants->island_count = count;
    for (int32_t i = 0; i < count; i++)
        constants->islands[i].constant = constants->islands[i].writers == 0 && !constants->islands[i].given;
}

/* The first island that ends behind the offset. */
static int32_t find(const samba_constants *constants, int64_t offset)
{
    int32_t low = 0, high = constants->island_count;
    while (low < high) {
        int32_t middle = low + (high - low) / 2;
        if (constants->islands[middle].end <= offset)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Memory between islands is never written. */
static bool is_constant(const samba_constants *constants, const samba_buffer *range)
{
    for (int32_t i = find(constants, range->offset); i < constants->island_count; i++) {
        if (constants->islands[i].begin >= range->offset + range->bytes)
            break;
        if (!constants->islands[i].constant)
            return false;
    }
    return true;
}

/* The island that the stage alone writes; NULL where it is not alone or nothing is written. */
static samba_island *own_island(const samba_constants *constants, const samba_buffer *range, int32_t stage)
{
    int32_t i = find(constants, range->offset);
    if (range->bytes == 0 || i == constants->island_count)
        return NULL;
    samba_island *island = &constants->islands[i];
    return island->writers == 1 && island->stage == stage && !island->named && !island->given ? island : NULL;
}

/* With `make`, what the stage writes becomes constant. */
static bool look_at_stage(const samba_plan *plan, const samba_constants *constants, int32_t index, bool make)
{
    const samba_stage *stage = &plan->stages[index];
    bool contract = stage->kind == SAMBA_STAGE_CONTRACT;
    if (contract && (!is_constant(constants, &plan->buffers[stage->contract.a.buffer]) ||
                     !is_constant(constants, &plan->buffers[stage->contract.b.buffer])))
        return false;
    for (int32_t o = 0; o < stage->operand_count; o++) {
        int32_t buffer = stage->operands[o].buffer;
        int access = buffer < 0 ? 0 : samba_stage_access(stage, o);
        samba_island *own = access & SAMBA_WRITES ? own_island(constants, &plan->buffers[buffer], index) : NULL;
        if (make && own)
            own->constant = true;
        else if (((access & SAMBA_READS) && !is_constant(constants, &plan->buffers[buffer])) || ((access & SAMBA_WRITES) && !own))
            return false;
    }
    return true;
}

/* Whether it makes more of weights than they are, as what widens frozen ones does: those were made narrow to save memory. */
static bool widens(const samba_plan *plan, const samba_constants *constants, const samba_stage *stage)
{
    int64_t read = 0, written = 0;
    for (int32_t o = 0; o < stage->operand_count; o++) {
        const int32_t buffer = stage->operands[o].buffer;
        const int access = buffer < 0 ? 0 : samba_stage_access(stage, o);
        const int64_t bytes = buffer < 0 ? 0 : plan->buffers[buffer].bytes;
        const int32_t island = buffer < 0 ? constants->island_count : find(constants, plan->buffers[buffer].offset);
        if (access & SAMBA_WRITES)
            written += bytes;
        else if (island < constants->island_count && constants->islands[island].named)
            read += bytes;
    }
    return read > 0 && written > read;
}

samba_status samba_constants_find(const samba_plan *plan, samba_arena *arena, samba_constants *constants)
{
    size_t most = (size_t)plan->tensor_count + (size_t)plan->argin_count;
    for (int32_t s = 0; s < plan->stage_count; s++)
        most += (size_t)plan->stages[s].operand_count;
    *constants = (samba_constants){0};
    SAMBA_TRY(SAMBA_ROOM(arena, constants->buffer, plan->buffer_count));
    SAMBA_TRY(SAMBA_ROOM(arena, constants->stage, plan->stage_count));
    SAMBA_TRY(SAMBA_ROOM(arena, constants->trains, plan->stage_count));
    SAMBA_TRY(SAMBA_ROOM(arena, constants->islands, most));
    for (int32_t i = 0; i < plan->section_count; i++)
        for (int32_t s = 0; s < plan->sections[i].stage_count; s++)
            constants->trains[plan->sections[i].first_stage + s] = !plan->graphs[samba_plan_graph_of(plan, i)].inference;
    for (int32_t t = 0; t < plan->tensor_count; t++)
        add(plan, constants, plan->tensors[t].buffer,
            (samba_island){.named = true, .given = plan->tensors[t].kind == SAMBA_KIND_INPUT});
    for (int32_t a = 0; a < plan->argin_count; a++)
        add(plan, constants, plan->argins[a].buffer, (samba_island){.given = true});
    for (int32_t s = 0; s < plan->stage_count; s++)
        for (int32_t o = 0; o < plan->stages[s].operand_count; o++)
            if (plan->stages[s].operands[o].buffer >= 0 && samba_stage_access(&plan->stages[s], o) & SAMBA_WRITES)
                add(plan, constants, plan->stages[s].operands[o].buffer, (samba_island){.writers = 1, .stage = s});
    join_overlapping(constants);
    for (int32_t s = 0; s < plan->stage_count; s++) { /* in order: what is made later is not constant when read before */
        constants->stage[s] = !widens(plan, constants, &plan->stages[s]) && look_at_stage(plan, constants, s, false);
        if (constants->stage[s])
            look_at_stage(plan, constants, s, true);
    }
    for (int32_t b = 0; b < plan->buffer_count; b++)
        constants->buffer[b] = is_constant(constants, &plan->buffers[b]);
    return SAMBA_OK;
}

bool samba_constants_spared(const samba_constants *constants, int64_t offset, int64_t bytes)
{
    int32_t i = find(constants, offset);
    const samba_island *island = &constants->islands[i];
    return i < constants->island_count && !island->constant && island->begin <= offset && offset + bytes <= island->end;
}
