/* SPDX-License-Identifier: Apache-2.0
 *
 * A plan to that of one replica of several that shard the optimizer. A stage of OPT is sharded where it updates elements side by
 * side, each from the gradient beside it: then its domain becomes the replica's part, which is that of the exchange that its
 * gradients come by. What the other parts keep as state is cut out of the arena, and everything behind moves up.
 *
 * A stage that is not of that kind stays whole and runs on every replica, from gradients that are then the mean everywhere. */
#include "runtime/shard.h"

#include "base/null.h"
#include <stdlib.h>
#include <string.h>

enum { REDUCE = SAMBA_PLAN_REDUCE, OPT = SAMBA_PLAN_OPT };

typedef struct range { /* bytes of the arena */
    int64_t begin, end;
} range;

typedef struct sharder {
    samba_context *context;
    samba_arena *arena;
    samba_plan *plan;
    int rank, size;
    samba_shards *shards;
    range *cuts; /* state of other replicas; first as found, then in order */
    int32_t cut_count;
    bool *is; /* per stage: it is sharded */
} sharder;

static int64_t down(int64_t x) { return x / SAMBA_ALIGNMENT * SAMBA_ALIGNMENT; }
static int64_t up(int64_t x) { return down(x + SAMBA_ALIGNMENT - 1); }

static int64_t size_of(const samba_operand *o) { return (int64_t)samba_dtype_size((samba_dtype)o->dtype); }

/* What an operand with stride 1 sees. */
static range seen(const samba_plan *plan, const samba_stage *stage, const samba_operand *o)
{
    const int64_t begin = plan->buffers[o->buffer].offset + o->offset * size_of(o);
    return (range){begin, begin + stage->domain[0] * size_of(o)};
}

/* The tensor that has an address; -1: none. */
static int32_t tensor_at(const samba_plan *plan, int64_t offset)
{
    for (int32_t i = 0; i < plan->tensor_count; i++) {
        const samba_buffer *buffer = &plan->buffers[plan->tensors[i].buffer];
        if (offset >= buffer->offset && offset < buffer->offset + buffer->bytes)
            return i;
    }
    return -1;
}

static bool is_state(const samba_plan_tensor *tensor)
{
    return tensor->kind == SAMBA_KIND_BUFFER && tensor->role == SAMBA_ROLE_OPTIMIZER;
}

/* ---- which stages ---- */
typedef struct update {          /* of a stage */
    int32_t parameter, gradient; /* operands */
    int64_t first, whole;        /* elements: where it begins in the range by which its gradients come */
} update;

/* The exchange of the graph that brings all that a range of gradients has. */
static bool find_exchange(const samba_plan *plan, int32_t graph, range gradients, int64_t size, update *u)
{
    const samba_plan_graph *its = &plan->graphs[graph];
    for (int32_t i = its->first_section; i < its->first_section + its->section_count; i++) {
        const samba_plan_section *section = &plan->sections[i];
        for (int32_t s = section->first_stage; section->phase == REDUCE && s < section->first_stage + section->stage_count; s++) {
            const range all = seen(plan, &plan->stages[s], &plan->stages[s].operands[0]);
            if (gradients.begin < all.begin || gradients.end > all.end)
                continue;
            u->first = (gradients.begin - all.begin) / size;
            u->whole = plan->stages[s].domain[0];
            return true;
        }
    }
    return false;
}

/* Does it update one range of parameters from one range of gradients, and write nothing else but state as long? */
static bool is_update(const samba_plan *plan, int32_t graph, const samba_stage *stage, update *u)
{
    *u = (update){-1, -1, 0, 0};
    if (stage->kind != SAMBA_STAGE_TILE || stage->rank != 1 || stage->domain[0] < 2)
        return false;
    for (int32_t o = 0; o < stage->operand_count; o++) {
        const samba_operand *operand = &stage->operands[o];
        const bool written = operand->buffer >= 0 && samba_stage_access(stage, o) & SAMBA_WRITES;
        if (operand->buffer < 0 || (operand->strides[0] != 1 && (operand->strides[0] != 0 || written)))
            return false;
        if (operand->strides[0] == 0)
            continue;
        const range at = seen(plan, stage, operand);
        const int32_t tensor = tensor_at(plan, at.begin);
        if (tensor < 0)
            return false;
        const samba_plan_tensor *of = &plan->tensors[tensor];
        update found = *u;
        if (of->kind == SAMBA_KIND_GRADIENT && !written && find_exchange(plan, graph, at, size_of(operand), &found)) {
            if (u->gradient >= 0 && (found.first != u->first || found.whole != u->whole))
                return false;
            *u = found;
            u->gradient = o;
        } else if (of->kind == SAMBA_KIND_PARAMETER) {
            if (u->parameter >= 0 && seen(plan, stage, &stage->operands[u->parameter]).begin != at.begin)
                return false;
            u->parameter = u->parameter >= 0 && !written ? u->parameter : o;
        } else if (!is_state(of)) {
            return false;
        }
    }
    return u->gradient >= 0 && u->parameter >= 0 && samba_stage_access(stage, u->parameter) & SAMBA_WRITES;
}

/* The part of this replica, in elements of the stage. */
static range part_of(const sharder *s, const samba_shard_update *u)
{
    return (range){samba_part_begin_within(u->whole, u->first, u->count, s->rank, s->size),
                   samba_part_begin_within(u->whole, u->first, u->count, s->rank + 1, s->size)};
}

static bool is_state_of(const samba_plan *plan, const samba_stage *stage, const samba_operand *o)
{
    return o->strides[0] == 1 && is_state(&plan->tensors[tensor_at(plan, seen(plan, stage, o).begin)]);
}

static void cut(sharder *s, int64_t begin, int64_t end)
{
    if (begin < end)
        s->cuts[s->cut_count++] = (range){begin, end};
}

/* Notes the stage's update, and cuts the other parts of its states. */
static void note_update(sharder *s, int32_t index, const update *u)
{
    const samba_stage *stage = &s->plan->stages[index];
    const int64_t parameters = seen(s->plan, stage, &stage->operands[u->parameter]).begin;
    const samba_shard_update its = {index,    parameters, (samba_dtype)stage->operands[u->parameter].dtype, stage->domain[0],
                                    u->first, u->whole};
    const range part = part_of(s, &its);
    s->is[index] = true;
    s->shards->updates[s->shards->update_count++] = its;
    for (int32_t o = 0; o < stage->operand_count; o++) {
        const samba_operand *operand = &stage->operands[o];
        if (!is_state_of(s->plan, stage, operand))
            continue;
        const range all = seen(s->plan, stage, operand);
        if (part.begin == part.end) {
            cut(s, all.begin, up(all.end));
            continue;
        }
        cut(s, all.begin, down(all.begin + part.begin * size_of(operand)));
        cut(s, up(all.begin + part.end * size_of(operand)), up(all.end));
    }
}

static samba_status find_updates(sharder *s)
{
    const samba_plan *plan = s->plan;
    size_t most = 1;
    for (int32_t i = 0; i < plan->stage_count; i++)
        most += 2 * (size_t)plan->stages[i].operand_count;
    SAMBA_TRY(SAMBA_ROOM(s->arena, s->cuts, most));
    SAMBA_TRY(SAMBA_ROOM(s->arena, s->is, plan->stage_count + 1));
    SAMBA_TRY(SAMBA_ROOM(s->arena, s->shards->updates, plan->stage_count + 1));
    for (int32_t i = 0; i < plan->section_count; i++) {
        const samba_plan_section *section = &plan->sections[i];
        update u;
        for (int32_t k = section->first_stage; section->phase == OPT && k < section->first_stage + section->stage_count; k++)
            if (is_update(plan, samba_plan_graph_of(plan, i), &plan->stages[k], &u))
                note_update(s, k, &u);
    }
    return SAMBA_OK;
}

/* ---- cutting ---- */
static int by_begin(const void *left, const void *right)
{
    const range *a = left, *b = right;
    return (a->begin > b->begin) - (a->begin < b->begin);
}

static void join_cuts(sharder *s)
{
    int32_t kept = 0;
    qsort(s->cuts, (size_t)s->cut_count, sizeof *s->cuts, by_begin);
    for (int32_t i = 0; i < s->cut_count; i++)
        if (kept > 0 && s->cuts[i].begin <= s->cuts[kept - 1].end)
            s->cuts[kept - 1].end = s->cuts[i].end > s->cuts[kept - 1].end ? s->cuts[i].end : s->cuts[kept - 1].end;
        else
            s->cuts[kept++] = s->cuts[i];
    s->cut_count = kept;
}

/* Where an address is when the cuts are out. */
static int64_t moved(const sharder *s, int64_t at)
{
    int64_t out = 0;
    for (int32_t i = 0; i < s->cut_count && s->cuts[i].begin < at; i++)
        out += (s->cuts[i].end < at ? s->cuts[i].end : at) - s->cuts[i].begin;
    return at - out;
}

static samba_status fail(const sharder *s, const samba_stage *stage)
{
    return samba_fail(
        s->context, SAMBA_ERROR_UNSUPPORTED,
        "shard_optimizer: stage \"%.128s\" uses optimizer state that lies on another replica: graphs that train the "
        "same parameters have to update the same ones together, or run without shard_optimizer",
        stage->name);
}

/* Nothing but updates uses what is cut, and none what another one has cut. */
static samba_status check_uses(const sharder *s)
{
    const samba_plan *plan = s->plan;
    for (int32_t k = 0; k < plan->stage_count; k++)
        for (int32_t i = 0; i < s->cut_count && !s->is[k]; i++)
            if (samba_stage_touches(&plan->stages[k], plan->buffers,
                                    (samba_buffer){s->cuts[i].begin, s->cuts[i].end - s->cuts[i].begin},
                                    SAMBA_READS | SAMBA_WRITES))
                return fail(s, &plan->stages[k]);
    for (int32_t n = 0; n < s->shards->update_count; n++) {
        const samba_stage *stage = &plan->stages[s->shards->updates[n].stage];
        const range part = part_of(s, &s->shards->updates[n]);
        for (int32_t o = 0; o < stage->operand_count; o++) {
            if (!is_state_of(plan, stage, &stage->operands[o]))
                continue;
            const int64_t begin = seen(plan, stage, &stage->operands[o]).begin, size = size_of(&stage->operands[o]);
            if (moved(s, begin + part.end * size) - moved(s, begin + part.begin * size) != (part.end - part.begin) * size)
                return fail(s, stage);
        }
    }
    return SAMBA_OK;
}

/* ---- changing the plan ---- */
/* The operands of a sharded stage see its part. */
static samba_status shrink(sharder *s, const samba_shard_update *its, int32_t *buffers)
{
    samba_plan *plan = s->plan;
    samba_stage *stage = &plan->stages[its->stage];
    const range part = part_of(s, its);
    samba_operand *operands;
    SAMBA_TRY(SAMBA_ROOM(&plan->arena, operands, stage->operand_count + 1));
    for (int32_t o = 0; o < stage->operand_count; o++) {
        operands[o] = stage->operands[o];
        if (operands[o].strides[0] != 1)
            continue;
        if (!is_state_of(plan, stage, &stage->operands[o])) {
            operands[o].offset += part.begin;
            continue;
        }
        const int64_t size = size_of(&operands[o]), begin = seen(plan, stage, &stage->operands[o]).begin + part.begin * size,
                      at = moved(s, begin), end = at + (part.end - part.begin) * size;
        operands[o].buffer = (*buffers)++;
        operands[o].offset = (at - down(at)) / size;
        plan->buffers[operands[o].buffer] = (samba_buffer){down(at), end - down(at)};
    }
    const int64_t whole = stage->domain[0], kept = part.end - part.begin;
    stage->flops = (int64_t)((double)stage->flops * (double)kept / (double)whole);
    stage->bytes = (int64_t)((double)stage->bytes * (double)kept / (double)whole);
    stage->domain[0] = kept;
    stage->operands = operands;
    return SAMBA_OK;
}

/* What of each tensor of state is here. */
static samba_status find_shards(sharder *s)
{
    const samba_plan *plan = s->plan;
    SAMBA_TRY(SAMBA_ROOM(s->arena, s->shards->tensors, plan->tensor_count + 1));
    for (int32_t n = 0; n < s->shards->update_count; n++) {
        const samba_stage *stage = &plan->stages[s->shards->updates[n].stage];
        const range part = part_of(s, &s->shards->updates[n]);
        for (int32_t o = 0; o < stage->operand_count; o++) {
            if (!is_state_of(plan, stage, &stage->operands[o]))
                continue;
            const int64_t size = size_of(&stage->operands[o]);
            const range all = seen(plan, stage, &stage->operands[o]),
                        own = {all.begin + part.begin * size, all.begin + part.end * size};
            for (int32_t t = 0; t < plan->tensor_count; t++) {
                const samba_buffer *b = &plan->buffers[plan->tensors[t].buffer];
                if (b->offset < all.begin || b->offset >= all.end || !is_state(&plan->tensors[t]))
                    continue;
                const int64_t begin = own.begin > b->offset ? own.begin : b->offset,
                              end = own.end < b->offset + b->bytes ? own.end : b->offset + b->bytes;
                s->shards->tensors[t] =
                    end > begin ? (samba_shard){true, (begin - b->offset) / size, (end - begin) / size, moved(s, begin)}
                                : (samba_shard){.is = true};
            }
        }
    }
    return SAMBA_OK;
}

static samba_status change(sharder *s)
{
    samba_plan *plan = s->plan;
    const int32_t before = plan->buffer_count;
    int32_t more = 0, next = before;
    for (int32_t n = 0; n < s->shards->update_count; n++)
        more += plan->stages[s->shards->updates[n].stage].operand_count;
    samba_buffer *old = plan->buffers, *buffers;
    SAMBA_TRY(SAMBA_ROOM(&plan->arena, buffers, (size_t)before + (size_t)more + 1));
    memcpy(buffers, old, sizeof *buffers * (size_t)before);
    plan->buffers = buffers;
    for (int32_t n = 0; n < s->shards->update_count; n++) { /* by addresses as they were */
        SAMBA_TRY(shrink(s, &s->shards->updates[n], &next));
        s->shards->updates[n].offset = moved(s, s->shards->updates[n].offset);
    }
    for (int32_t b = 0; b < before; b++) {
        const int64_t begin = moved(s, buffers[b].offset);
        buffers[b] = (samba_buffer){begin, moved(s, buffers[b].offset + buffers[b].bytes) - begin};
    }
    plan->buffer_count = next;
    s->shards->saved_bytes = plan->memory_bytes - moved(s, plan->memory_bytes);
    plan->memory_bytes -= s->shards->saved_bytes;
    plan->memory.state -= s->shards->saved_bytes;
    plan->memory.total -= s->shards->saved_bytes;
    for (int32_t i = 0; i < plan->section_count; i++) {
        samba_plan_section *section = &plan->sections[i];
        section->flops = section->bytes = 0;
        for (int32_t k = section->first_stage; k < section->first_stage + section->stage_count; k++) {
            section->flops += plan->stages[k].flops;
            section->bytes += plan->stages[k].bytes;
        }
    }
    return SAMBA_OK;
}

/* Does anything but updates read what an exchange of the graph brings? */
static bool is_read_elsewhere(const sharder *s, int32_t graph)
{
    const samba_plan *plan = s->plan;
    const samba_plan_graph *its = &plan->graphs[graph];
    for (int32_t i = its->first_section; i < its->first_section + its->section_count; i++) {
        const samba_plan_section *reduce = &plan->sections[i];
        for (int32_t x = reduce->first_stage; reduce->phase == REDUCE && x < reduce->first_stage + reduce->stage_count; x++) {
            const range r = seen(plan, &plan->stages[x], &plan->stages[x].operands[0]);
            for (int32_t j = its->first_section; j < its->first_section + its->section_count; j++) {
                const samba_plan_section *other = &plan->sections[j];
                for (int32_t k = other->first_stage; other->phase > REDUCE && k < other->first_stage + other->stage_count; k++)
                    if (!s->is[k] && samba_stage_touches(&plan->stages[k], plan->buffers,
                                                         (samba_buffer){r.begin, r.end - r.begin}, SAMBA_READS))
                        return true;
            }
        }
    }
    return false;
}

samba_status samba_check_reduces(samba_context *context, const samba_plan *plan, const char *option)
{
    for (int32_t i = 0; i < plan->section_count; i++)
        if (plan->sections[i].phase == REDUCE)
            return SAMBA_OK;
    return samba_fail(context, SAMBA_ERROR_ARGUMENT,
                      "%s: the PEF has no section of type REDUCE, which averages the gradients of replicas: compile it with "
                      "data_parallel",
                      option);
}

/* What updates there are, and whether they may be parted; the plan stays as it is. */
static samba_status look(sharder *s)
{
    SAMBA_TRY(samba_check_reduces(s->context, s->plan, "shard_optimizer"));
    SAMBA_TRY(find_updates(s));
    join_cuts(s);
    SAMBA_TRY(check_uses(s));
    SAMBA_TRY(SAMBA_ROOM(s->arena, s->shards->scatters, s->plan->graph_count));
    for (int32_t g = 0; g < s->plan->graph_count; g++)
        s->shards->scatters[g] = !is_read_elsewhere(s, g);
    return SAMBA_OK;
}

samba_status samba_shard_scatters(samba_context *context, samba_arena *arena, samba_plan *plan, int32_t graph, bool *scatters)
{
    samba_shards shards = {.update_count = 0};
    sharder s = {.context = context, .arena = arena, .plan = plan, .size = 2, .shards = &shards};
    SAMBA_TRY(look(&s));
    *scatters = shards.scatters[graph];
    return SAMBA_OK;
}

samba_status samba_shard_plan(samba_context *context, samba_arena *arena, samba_plan *plan, int rank, int size,
                              samba_shards *shards)
{
    sharder s = {.context = context, .arena = arena, .plan = plan, .rank = rank, .size = size, .shards = shards};
    *shards = (samba_shards){.update_count = 0};
    SAMBA_TRY(look(&s));
    SAMBA_TRY(find_shards(&s));
    return change(&s);
}
