/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory over time: which bytes are in use while each stage runs. Tensors with a name, constants and scratch are there all the
 * time; any other buffer from the first stage that touches it to the last. Buffers may overlap - a stage over several tensors at
 * once sees them as one - and a byte counts once: a tree over the addresses where buffers begin and end keeps how many lie over
 * each stretch, and what length is covered at all. */
#include "report/report.h"

#include <stdlib.h>

enum { UNSEEN = -1, SHARED = SAMBA_LIVE_LASTING };

typedef struct live_range {
    int32_t first, last, kind;
} live_range;

typedef struct change { /* a buffer begins or ends */
    int32_t stage, by, buffer;
} change;

typedef struct cover { /* a tree of stretches: node i has the children 2i and 2i + 1 */
    int64_t *at;       /* addresses, in order; the last ends the last stretch */
    int32_t count;
    int32_t *over;   /* per node: buffers over all of it, not counted in its children */
    int64_t *length; /* per node: what is covered of it */
} cover;

static void cover_change(cover *c, int64_t node, int32_t begin, int32_t end, int64_t from, int64_t to, int32_t by)
{
    if (from >= c->at[end] || to <= c->at[begin])
        return;
    if (from <= c->at[begin] && to >= c->at[end]) {
        c->over[node] += by;
    } else {
        int32_t middle = begin + (end - begin) / 2;
        cover_change(c, 2 * node, begin, middle, from, to, by);
        cover_change(c, 2 * node + 1, middle, end, from, to, by);
    }
    bool leaf = end - begin == 1;
    c->length[node] = c->over[node] > 0 ? c->at[end] - c->at[begin] : leaf ? 0 : c->length[2 * node] + c->length[2 * node + 1];
}

static void cover_buffer(cover *c, const samba_buffer *buffer, int32_t by)
{
    if (buffer->bytes > 0)
        cover_change(c, 1, 0, c->count - 1, buffer->offset, buffer->offset + buffer->bytes, by);
}

static int by_address(const void *left, const void *right)
{
    int64_t a = *(const int64_t *)left, b = *(const int64_t *)right;
    return (a > b) - (a < b);
}

static int by_stage(const void *left, const void *right)
{
    const change *a = left, *b = right;
    return a->stage != b->stage ? (a->stage > b->stage) - (a->stage < b->stage) : a->buffer - b->buffer;
}

static samba_status cover_begin(cover *c, const samba_plan *plan, samba_arena *arena)
{
    size_t most = 2 * (size_t)plan->buffer_count + 2;
    SAMBA_TRY(SAMBA_ROOM(arena, c->at, most));
    SAMBA_TRY(SAMBA_ROOM(arena, c->over, 4 * most));
    SAMBA_TRY(SAMBA_ROOM(arena, c->length, 4 * most));
    size_t count = 0;
    for (int32_t b = 0; b < plan->buffer_count; b++) {
        c->at[count++] = plan->buffers[b].offset;
        c->at[count++] = plan->buffers[b].offset + plan->buffers[b].bytes; /* the check saw that it is in the arena */
    }
    c->at[count++] = 0;
    c->at[count++] = plan->memory_bytes;
    qsort(c->at, count, sizeof *c->at, by_address);
    c->count = 1;
    for (size_t i = 1; i < count; i++)
        if (c->at[i] != c->at[c->count - 1])
            c->at[c->count++] = c->at[i];
    if (c->count == 1) /* nothing at all */
        c->at[c->count++] = c->at[0] + 1;
    return SAMBA_OK;
}

static void touch(live_range *ranges, int32_t buffer, int32_t stage)
{
    if (buffer < 0)
        return;
    if (ranges[buffer].first < 0)
        ranges[buffer].first = stage;
    ranges[buffer].last = stage;
}

static void find_ranges(const samba_plan *plan, live_range *ranges)
{
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

static samba_live_kind kind_of(int32_t tensor_kind)
{
    return tensor_kind == SAMBA_KIND_PARAMETER  ? SAMBA_LIVE_PARAMETERS
           : tensor_kind == SAMBA_KIND_BUFFER   ? SAMBA_LIVE_STATE
           : tensor_kind == SAMBA_KIND_GRADIENT ? SAMBA_LIVE_GRADIENTS
                                                : SAMBA_LIVE_INPUTS;
}

/* The kind of memory of each buffer; each counts once. */
static samba_status find_kinds(const samba_plan *plan, samba_arena *arena, live_range *ranges)
{
    samba_constants constants;
    SAMBA_TRY(samba_constants_find(plan, arena, &constants));
    for (int32_t i = 0; i < plan->tensor_count; i++)
        ranges[plan->tensors[i].buffer].kind = (int32_t)kind_of(plan->tensors[i].kind);
    for (int32_t i = 0; i < plan->argin_count; i++)
        if (ranges[plan->argins[i].buffer].kind == SHARED)
            ranges[plan->argins[i].buffer].kind = SAMBA_LIVE_INPUTS;
    for (int32_t i = 0; i < plan->constant_count; i++)
        ranges[plan->constants[i].buffer].kind = SAMBA_LIVE_CONSTANTS;
    for (int32_t b = 0; b < plan->buffer_count; b++)
        if (constants.buffer[b] && ranges[b].kind == SHARED && ranges[b].first >= 0)
            ranges[b].kind = SAMBA_LIVE_CONSTANTS;
    return SAMBA_OK;
}

/* Bytes that the kinds of memory that last have, in turn; what two kinds share is the earlier one's. */
static int64_t cover_lasting(const samba_plan *plan, const live_range *ranges, cover *c, samba_live *live)
{
    int64_t covered = 0;
    for (int kind = 0; kind < SAMBA_LIVE_LASTING; kind++) {
        for (int32_t b = 0; b < plan->buffer_count; b++)
            if (ranges[b].kind == kind)
                cover_buffer(c, &plan->buffers[b], 1);
        live->lasting[kind] = (double)(c->length[1] - covered);
        covered = c->length[1];
    }
    return covered;
}

samba_status samba_live_find(const samba_plan *plan, const samba_memory_info *memory, samba_arena *arena, samba_live *live)
{
    *live = (samba_live){.peak = -1};
    size_t buffers = (size_t)plan->buffer_count + 1;
    live_range *ranges;
    SAMBA_TRY(SAMBA_ROOM(arena, ranges, buffers));
    change *changes;
    SAMBA_TRY(SAMBA_ROOM(arena, changes, 2 * buffers));
    SAMBA_TRY(SAMBA_ROOM(arena, live->activations, (size_t)plan->stage_count + 1));
    cover c;
    SAMBA_TRY(cover_begin(&c, plan, arena));
    for (int32_t b = 0; b < plan->buffer_count; b++)
        ranges[b] = (live_range){UNSEEN, UNSEEN, SHARED};
    find_ranges(plan, ranges);
    SAMBA_TRY(find_kinds(plan, arena, ranges));
    int64_t lasting = cover_lasting(plan, ranges, &c, live);
    live->lasting[SAMBA_LIVE_SCRATCH] += (double)memory->scratch;
    if (memory->constants > plan->memory.constants) /* packed for this machine's kernels */
        live->lasting[SAMBA_LIVE_CONSTANTS] += (double)(memory->constants - plan->memory.constants);

    size_t count = 0, next = 0;
    for (int32_t b = 0; b < plan->buffer_count; b++)
        if (ranges[b].kind == SHARED && ranges[b].first >= 0) {
            changes[count++] = (change){ranges[b].first, 1, b};
            changes[count++] = (change){ranges[b].last + 1, -1, b};
        }
    qsort(changes, count, sizeof *changes, by_stage);
    for (int32_t s = 0; s < plan->stage_count; s++) {
        for (; next < count && changes[next].stage <= s; next++)
            cover_buffer(&c, &plan->buffers[changes[next].buffer], changes[next].by);
        live->activations[s] = (double)(c.length[1] - lasting);
        if (live->peak < 0 || live->activations[s] > live->activations[live->peak])
            live->peak = s;
    }
    return SAMBA_OK;
}
