/* SPDX-License-Identifier: Apache-2.0
 *
 * See apart.h. The stages since the threads met last are kept as ranges of memory; a stage whose own meet none of them that it or
 * they write joins them. */
#include "device/cpu/apart.h"

#include <string.h>

typedef struct range {
    int64_t begin, end;
    bool written;
} range;

enum { MOST_RANGES = 256 }; /* since the last meeting: a stage that would make more waits */

typedef struct gathered {
    int count;
    bool scratch, known; /* some need working memory; the threads have met in this section */
    range list[MOST_RANGES];
} gathered;

static range range_of(const samba_plan *plan, int32_t buffer, bool written)
{
    const samba_buffer *b = &plan->buffers[buffer];
    return (range){b->offset, b->offset + b->bytes, written};
}

/* What a stage touches, at most MOST_RANGES; -1: more. */
static int list_ranges(const samba_plan *plan, const samba_stage *stage, range *list)
{
    int count = 0;
    if (stage->operand_count + 2 > MOST_RANGES)
        return -1;
    for (int32_t i = 0; i < stage->operand_count; i++) {
        int access = stage->operands[i].buffer >= 0 ? samba_stage_access(stage, i) : 0;
        if (access)
            list[count++] = range_of(plan, stage->operands[i].buffer, access & SAMBA_WRITES);
    }
    if (stage->kind == SAMBA_STAGE_CONTRACT) {
        list[count++] = range_of(plan, stage->contract.a.buffer, false);
        list[count++] = range_of(plan, stage->contract.b.buffer, false);
    }
    return count;
}

static bool conflict(const gathered *g, const range *list, int count, bool scratch)
{
    if (count < 0 || g->count + count > MOST_RANGES || (scratch && g->scratch))
        return true;
    for (int i = 0; i < count; i++)
        for (int k = 0; k < g->count; k++)
            if ((list[i].written || g->list[k].written) && list[i].begin < g->list[k].end && g->list[k].begin < list[i].end)
                return true;
    return false;
}

static void find_in_section(const samba_stages *of, const samba_plan_section *section, gathered *g, range *list, uint8_t *apart)
{
    samba_stage_before before = SAMBA_NOTHING;
    g->count = 0;
    g->scratch = g->known = false;
    for (int32_t i = section->first_stage; i < section->first_stage + section->stage_count; i++) {
        const samba_prepared *stage = &of->stages[i];
        int phases = stage->phases - stage->refresh_phases, count = list_ranges(of->plan, &of->plan->stages[i], list);
        bool scratch = stage->shared_scratch > 0 || stage->thread_scratch > 0;
        if (phases == 0)
            continue;
        apart[i] = g->known && !conflict(g, list, count, scratch);
        bool meets = samba_stage_meets(before, of->shared[i], apart[i]);
        g->known = g->known || meets || (of->shared[i] && phases > 1);
        if (meets || (of->shared[i] && phases > 1)) {
            g->count = 0;
            g->scratch = false;
        }
        if (count < 0 || g->count + count > MOST_RANGES) {
            g->known = false; /* until the threads meet again */
        } else {
            memcpy(g->list + g->count, list, (size_t)count * sizeof *list);
            g->count += count;
        }
        g->scratch = g->scratch || scratch;
        before = samba_stage_after(before, of->shared[i], meets);
    }
}

samba_status samba_apart_find(const samba_stages *of, samba_arena *arena, uint8_t *apart)
{
    gathered *g = samba_arena_alloc(arena, sizeof *g);
    range *list = samba_arena_alloc(arena, MOST_RANGES * sizeof *list);
    if (!g || !list)
        return SAMBA_ERROR_MEMORY;
    memset(apart, 0, (size_t)of->plan->stage_count);
    for (int32_t s = 0; s < of->plan->section_count; s++)
        find_in_section(of, &of->plan->sections[s], g, list, apart);
    return SAMBA_OK;
}
