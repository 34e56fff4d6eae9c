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
    bool known;                    /* the threads have met in this section */
    const samba_prepared *scratch; /* one that needs working memory; NULL: none does */
    samba_stage_kind scratch_kind; /* of its stage */
    bool scratch_differs;          /* others need it in other places */
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

static bool has_scratch(const samba_prepared *stage) { return stage->shared_scratch > 0 || stage->thread_scratch > 0; }

/* Does working memory of one lie where another's does? Of linear stages that give each thread as much of it, each thread keeps
 * its own. */
static bool scratch_conflicts(const gathered *g, const samba_prepared *stage, samba_stage_kind kind)
{
    const samba_prepared *other = g->scratch;
    if (!other || !has_scratch(stage))
        return false;
    return g->scratch_differs || kind != SAMBA_STAGE_LINEAR || g->scratch_kind != kind || stage->shared_scratch > 0 ||
           other->shared_scratch > 0 || stage->thread_scratch != other->thread_scratch;
}

static bool conflict(const gathered *g, const range *list, int count)
{
    if (count < 0 || g->count + count > MOST_RANGES)
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
    g->scratch = NULL;
    g->known = g->scratch_differs = false;
    for (int32_t i = section->first_stage; i < section->first_stage + section->stage_count; i++) {
        const samba_prepared *stage = &of->stages[i];
        int phases = stage->phases - stage->refresh_phases, count = list_ranges(of->plan, &of->plan->stages[i], list);
        const samba_stage_kind kind = (samba_stage_kind)of->plan->stages[i].kind;
        if (phases == 0)
            continue;
        apart[i] = g->known && !conflict(g, list, count) && !scratch_conflicts(g, stage, kind);
        bool meets = samba_stage_meets(before, of->shared[i], apart[i]);
        g->known = g->known || meets || (of->shared[i] && phases > 1);
        if (meets || (of->shared[i] && phases > 1)) {
            g->count = 0;
            g->scratch = NULL;
            g->scratch_differs = false;
        }
        if (count < 0 || g->count + count > MOST_RANGES) {
            g->known = false; /* until the threads meet again */
        } else {
            memcpy(g->list + g->count, list, (size_t)count * sizeof *list);
            g->count += count;
        }
        if (has_scratch(stage)) {
            g->scratch_differs = scratch_conflicts(g, stage, kind);
            g->scratch = stage;
            g->scratch_kind = kind;
        }
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
