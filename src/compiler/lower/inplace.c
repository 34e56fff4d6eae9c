/* SPDX-License-Identifier: Apache-2.0
 *
 * A result in the memory of its operand: a stage that reads an intermediate for the last time, each element where and when it
 * writes one of its own, may write its result over it. The two buffers become one, chains of them too, and a chain that ends in a
 * gradient or an output uses that tensor's own memory all along.
 *
 * Conditions within the stage: elements are read and written in one order (the same strides, no broadcasting), every read comes
 * before the write in the program (a row that is read again in a later loop is written in that loop or after it), and no factor
 * of a contraction lies there, which other blocks still read.
 *
 * Conditions between stages: nobody reads the old value later; memory that lasts is not touched from where the old value is made;
 * and both are made in one phase, since a caller may run phases one by one. Only the backward may overwrite a value of another
 * phase, the forward: it runs once for each. */
#include "compiler/lower/emitter.h"

/* ---- who touches which buffer, in the order stages will run:
 * a position for each group, and for each copy at the end of a phase ---- */
static samba_status add_use(samba_compiler *c, int32_t buffer)
{
    samba_uses *u = &c->lowering.uses;
    if (buffer < 0)
        return SAMBA_OK;
    SAMBA_TRY(SAMBA_GROW(c->context, u->touched, u->touched_capacity, u->touched_count + 1));
    u->touched[u->touched_count++] = buffer;
    if (u->first[buffer] < 0)
        u->first[buffer] = u->position;
    u->last[buffer] = u->position;
    return SAMBA_OK;
}

static samba_status add_group(samba_compiler *c, int32_t index)
{
    const samba_fusion *f = &c->fusion;
    const samba_group *g = &f->groups[index];
    for (int64_t m = 0; m < g->member_count; m++) {
        const samba_node *node = samba_node_at(c->graph, g->members[m]);
        for (int i = 0; i < node->arity; i++) {
            samba_ref ref = node->inputs[i];
            samba_ref read = samba_value_read(c->graph, ref);
            if (read != ref)
                SAMBA_TRY(add_use(c, c->placed.buffer_of[f->access[read].base]));
            SAMBA_TRY(add_use(c, c->placed.buffer_of[f->access[ref].base]));
        }
        SAMBA_TRY(add_use(c, c->placed.buffer_of[g->members[m]]));
        for (int64_t i = 0; i < c->placed.extra_store_count; i++)
            if (c->placed.extra_stores[i].value == g->members[m])
                SAMBA_TRY(add_use(c, c->placed.extra_stores[i].buffer));
    }
    return SAMBA_OK;
}

samba_status samba_uses_find(samba_compiler *c)
{
    samba_uses *u = &c->lowering.uses;
    const samba_fusion *f = &c->fusion;
    size_t buffers = (size_t)c->plan.buffer_count + 1, positions = (size_t)(f->order_count + c->placed.copy_count) + 1;
    u->buffer_count = c->plan.buffer_count;
    SAMBA_TRY(SAMBA_ROOM(&c->arena, u->first, buffers));
    SAMBA_TRY(SAMBA_ROOM(&c->arena, u->last, buffers));
    SAMBA_TRY(SAMBA_ROOM(&c->arena, u->same, buffers));
    SAMBA_TRY(SAMBA_ROOM(&c->arena, u->begin, positions + 1));
    SAMBA_TRY(SAMBA_ROOM(&c->arena, u->phase, positions));
    for (int32_t b = 0; b < u->buffer_count; b++) {
        u->first[b] = u->last[b] = -1;
        u->same[b] = b;
    }
    int64_t at = 0;
    for (int part = 0; part < 2 * SAMBA_PHASE_COUNT; part++) { /* as lower.c */
        samba_phase phase = (samba_phase)(part / 2);
        bool redone = part % 2 != 0;
        for (; at < f->order_count && f->groups[f->order[at]].phase == phase && f->groups[f->order[at]].redone == redone; at++) {
            u->phase[u->position] = phase;
            SAMBA_TRY(add_group(c, f->order[at]));
            u->begin[++u->position] = u->touched_count;
        }
        for (int64_t i = 0; i < c->placed.copy_count; i++) {
            if (c->placed.copies[i].phase != phase || c->placed.copies[i].redone != redone)
                continue;
            u->phase[u->position] = phase;
            SAMBA_TRY(add_use(c, c->placed.buffer_of[f->access[c->placed.copies[i].value].base]));
            SAMBA_TRY(add_use(c, c->placed.copies[i].buffer));
            u->begin[++u->position] = u->touched_count;
        }
    }
    u->position = 0;
    return SAMBA_OK;
}

static bool touched_between(const samba_uses *u, int32_t buffer, int64_t from, int64_t to)
{
    for (int64_t i = u->begin[from]; i < u->begin[to]; i++)
        if (u->touched[i] == buffer)
            return true;
    return false;
}

bool samba_share_buffer(samba_compiler *c, int32_t from, int32_t to)
{
    samba_uses *u = &c->lowering.uses;
    int64_t now = u->position;
    if (from < 0 || to < 0 || from == to || from >= u->buffer_count || to >= u->buffer_count || c->growth.persistent[from] ||
        u->last[from] != now || u->first[from] >= now || u->same[from] != from ||
        c->plan.buffers[from].bytes != c->plan.buffers[to].bytes)
        return false;
    samba_phase made = u->phase[u->first[from]], phase = u->phase[now];
    if (made != phase && (c->growth.persistent[to] || made != SAMBA_FWD || phase != SAMBA_BCKWD))
        return false;
    if (c->growth.persistent[to] ? touched_between(u, to, u->first[from], now) : u->first[to] != now)
        return false;
    u->same[from] = to;
    if (!c->growth.persistent[to])
        u->first[to] = u->first[from];
    return true;
}

/* ---- one stage ---- */

/* The operand of every load is the store's, element for element, and comes before it. */
static bool reads_before(const samba_emitter *e, const samba_draft *store, int64_t store_at, int32_t buffer)
{
    const samba_operand *to = &e->operands[store->operand];
    for (int64_t d = 0; d < e->draft_count; d++) {
        const samba_draft *draft = &e->drafts[d];
        if (draft->operand < 0 || e->operands[draft->operand].buffer != buffer)
            continue;
        const samba_operand *from = &e->operands[draft->operand];
        if (draft->op != SAMBA_TILE_load || draft->level == SAMBA_LEVEL_SETUP || draft->level > store->level ||
            (draft->level == store->level && d > store_at) || from->dtype != to->dtype || from->offset != to->offset)
            return false;
        for (int i = 0; i < e->rank; i++)
            if (e->domain[i] != 1 && from->strides[i] != to->strides[i])
                return false;
    }
    return true;
}

/* Only this store touches the buffer. */
static bool alone(const samba_emitter *e, int64_t store_at)
{
    int32_t buffer = e->operands[e->drafts[store_at].operand].buffer;
    for (int64_t d = 0; d < e->draft_count; d++)
        if (d != store_at && e->drafts[d].operand >= 0 && e->operands[e->drafts[d].operand].buffer == buffer)
            return false;
    return true;
}

static bool covers(const samba_emitter *e, const samba_operand *operand)
{
    bool every = true;
    for (int i = 0; i < e->rank; i++)
        every = every && (e->domain[i] == 1 || operand->strides[i] != 0);
    return every;
}

/* All of the buffer is stored: what other stages wrote beside it, a concat's other pieces, would be lost. */
static bool fills(const samba_emitter *e, const samba_operand *operand)
{
    int64_t count = (int64_t)samba_dtype_size(operand->dtype);
    for (int i = 0; i < e->rank; i++)
        count *= e->domain[i];
    return count == e->compiler->plan.buffers[operand->buffer].bytes;
}

/* A contraction's factors are read by blocks that are not yet computed. */
static bool is_factor(const samba_compiler *c, const samba_group *g, int32_t buffer)
{
    if (g->kind != SAMBA_GROUP_CONTRACT)
        return false;
    const samba_node *node = samba_node_at(c->graph, g->anchor);
    for (int i = 0; i < node->arity; i++)
        if (c->placed.buffer_of[c->fusion.access[node->inputs[i]].base] == buffer)
            return true;
    return false;
}

void samba_emitter_share(samba_emitter *e, const samba_group *group)
{
    samba_compiler *c = e->compiler;
    for (int64_t s = 0; s < e->draft_count; s++) {
        const samba_draft *store = &e->drafts[s];
        if (store->op != SAMBA_TILE_store || e->registers[store->a].extent != SAMBA_FULL ||
            !covers(e, &e->operands[store->operand]) || !fills(e, &e->operands[store->operand]) || !alone(e, s))
            continue;
        int32_t to = e->operands[store->operand].buffer;
        for (int64_t d = 0; d < e->draft_count && !is_factor(c, group, to); d++) {
            int32_t from = e->drafts[d].operand >= 0 ? e->operands[e->drafts[d].operand].buffer : -1;
            if (e->drafts[d].op != SAMBA_TILE_load || is_factor(c, group, from) || !reads_before(e, store, s, from) ||
                !samba_share_buffer(c, from, to))
                continue;
            for (int64_t o = 0; o < e->operand_count; o++)
                if (e->operands[o].buffer == from)
                    e->operands[o].buffer = to;
            break;
        }
    }
}

/* ---- all stages ---- */
static void settle(const samba_uses *u, int32_t *buffer)
{
    while (*buffer >= 0 && *buffer < u->buffer_count && u->same[*buffer] != *buffer)
        *buffer = u->same[*buffer];
}

void samba_uses_settle(samba_compiler *c)
{
    for (int32_t s = 0; s < c->plan.stage_count; s++) {
        samba_stage *stage = &c->plan.stages[s];
        for (int32_t o = 0; o < stage->operand_count; o++)
            settle(&c->lowering.uses, &stage->operands[o].buffer);
        if (stage->kind == SAMBA_STAGE_CONTRACT) {
            settle(&c->lowering.uses, &stage->contract.a.buffer);
            settle(&c->lowering.uses, &stage->contract.b.buffer);
        }
    }
}
