/* SPDX-License-Identifier: Apache-2.0
 *
 * The operators of a stage, for people: its nodes with their type and their location in the user's model. Words and locations
 * stand once in the plan, however many operators share them: one table finds both, open addressing by hash. */
#include "compiler/compiler.h"

#include <string.h>

static uint32_t *slot_of(samba_origins *o, uint64_t hash, uint64_t probe)
{
    return &o->slots[(hash + probe) & (uint64_t)(o->slot_count - 1)];
}

static uint64_t hash_word(const char *word) { return samba_hash(word, strlen(word), 1); }
static uint64_t hash_location(const samba_plan_location *location) { return samba_hash(location, sizeof *location, 2); }

/* Keeps the table at most half full. A slot holds 0, or 2 * index + 2 of a word, or that + 1 of a location. */
static samba_status reserve(samba_compiler *c)
{
    samba_origins *o = &c->growth.origins;
    const samba_plan *plan = &c->plan;
    int64_t used = (int64_t)plan->word_count + plan->location_count;
    if (2 * (used + 1) <= o->slot_count)
        return SAMBA_OK;
    samba_origins next = {.slot_count = o->slot_count ? 2 * o->slot_count : 256};
    next.slots = samba_calloc(c->context, sizeof *next.slots * (size_t)next.slot_count);
    if (!next.slots)
        return SAMBA_ERROR_MEMORY;
    for (int64_t i = 0; i < used; i++) {
        bool is_location = i >= plan->word_count;
        int64_t index = is_location ? i - plan->word_count : i;
        uint64_t hash = is_location ? hash_location(&plan->locations[index]) : hash_word(plan->words[index]), probe = 0;
        while (*slot_of(&next, hash, probe))
            probe++;
        *slot_of(&next, hash, probe) = (uint32_t)(2 * index + 2 + is_location);
    }
    samba_origins_free(c);
    o->slots = next.slots;
    o->slot_count = next.slot_count;
    return SAMBA_OK;
}

static samba_status find_word(samba_compiler *c, const char *word, int32_t *index)
{
    samba_plan *plan = &c->plan;
    SAMBA_TRY(reserve(c));
    uint32_t *slot = NULL;
    uint64_t hash = hash_word(word);
    for (uint64_t probe = 0; *(slot = slot_of(&c->growth.origins, hash, probe)); probe++)
        if (*slot % 2 == 0 && strcmp(plan->words[*slot / 2 - 1], word) == 0) {
            *index = (int32_t)(*slot / 2 - 1);
            return SAMBA_OK;
        }
    SAMBA_TRY(SAMBA_GROW(c->context, plan->words, c->growth.word_capacity, plan->word_count + 1));
    SAMBA_TRY(samba_arena_copy(&plan->arena, word, &plan->words[plan->word_count]));
    *index = plan->word_count++;
    *slot = (uint32_t)(2 * *index + 2);
    return SAMBA_OK;
}

static samba_status find_location(samba_compiler *c, const char *module, const char *source, const char *fusion, int32_t *index)
{
    samba_plan *plan = &c->plan;
    samba_plan_location location;
    SAMBA_TRY(find_word(c, module, &location.module));
    SAMBA_TRY(find_word(c, source, &location.source));
    SAMBA_TRY(find_word(c, fusion, &location.fusion));
    SAMBA_TRY(reserve(c));
    uint32_t *slot = NULL;
    uint64_t hash = hash_location(&location);
    for (uint64_t probe = 0; *(slot = slot_of(&c->growth.origins, hash, probe)); probe++)
        if (*slot % 2 == 1 && memcmp(&plan->locations[*slot / 2 - 1], &location, sizeof location) == 0) {
            *index = (int32_t)(*slot / 2 - 1);
            return SAMBA_OK;
        }
    SAMBA_TRY(SAMBA_GROW(c->context, plan->locations, c->growth.location_capacity, plan->location_count + 1));
    *index = plan->location_count;
    plan->locations[plan->location_count++] = location;
    *slot = (uint32_t)(2 * *index + 3);
    return SAMBA_OK;
}

static samba_status new_operators(samba_compiler *c, int64_t count, samba_stage_operator **operators)
{
    int32_t nothing;
    SAMBA_TRY(find_word(c, "", &nothing)); /* word 0 */
    return SAMBA_ROOM(&c->plan.arena, *operators, count);
}

samba_status samba_stage_operators(samba_compiler *c, const samba_group *group, samba_stage *stage)
{
    samba_stage_operator *operators;
    SAMBA_TRY(new_operators(c, group->member_count, &operators));
    for (int64_t m = 0; m < group->member_count; m++) {
        const samba_node *node = samba_node_at(c->graph, group->members[m]);
        char shape[SAMBA_SHAPE_TEXT], type[SAMBA_SHAPE_TEXT + 16];
        snprintf(type, sizeof type, "%s%s", samba_dtype_name((samba_dtype)node->dtype),
                 samba_shape_format(node->rank, node->shape, shape, sizeof shape));
        SAMBA_TRY(find_word(c, samba_ops[node->op].name, &operators[m].op));
        SAMBA_TRY(find_word(c, type, &operators[m].type));
        SAMBA_TRY(find_location(c, samba_graph_name_at(c->graph, node->location.scope),
                                samba_graph_name_at(c->graph, node->location.source),
                                samba_graph_name_at(c->graph, node->location.fusion), &operators[m].location));
    }
    stage->operators = operators;
    stage->operator_count = (int32_t)group->member_count;
    return SAMBA_OK;
}

samba_status samba_stage_operators_link(samba_compiler *c, const samba_plan *from, samba_stage *stage)
{
    samba_stage_operator *operators;
    SAMBA_TRY(new_operators(c, stage->operator_count, &operators));
    for (int32_t i = 0; i < stage->operator_count; i++) {
        const samba_plan_location *location = &from->locations[stage->operators[i].location];
        SAMBA_TRY(find_word(c, from->words[stage->operators[i].op], &operators[i].op));
        SAMBA_TRY(find_word(c, from->words[stage->operators[i].type], &operators[i].type));
        SAMBA_TRY(find_location(c, from->words[location->module], from->words[location->source], from->words[location->fusion],
                                &operators[i].location));
    }
    stage->operators = operators;
    return SAMBA_OK;
}

samba_status samba_stage_operators_join(samba_compiler *c, samba_stage *stage, const samba_stage *stages, int32_t count)
{
    int64_t total = 0;
    for (int32_t s = 0; s < count; s++)
        total += stages[s].operator_count;
    samba_stage_operator *operators;
    SAMBA_TRY(SAMBA_ROOM(&c->plan.arena, operators, total));
    total = 0;
    for (int32_t s = 0; s < count; s++) {
        if (stages[s].operator_count > 0)
            memcpy(operators + total, stages[s].operators, sizeof *operators * (size_t)stages[s].operator_count);
        total += stages[s].operator_count;
    }
    stage->operators = operators;
    stage->operator_count = (int32_t)total;
    return SAMBA_OK;
}

void samba_origins_free(samba_compiler *c)
{
    if (c->growth.origins.slots)
        samba_free(c->context, c->growth.origins.slots, sizeof *c->growth.origins.slots * (size_t)c->growth.origins.slot_count);
    c->growth.origins = (samba_origins){0};
}
