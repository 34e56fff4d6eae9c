/* SPDX-License-Identifier: Apache-2.0
 *
 * Operators that only put elements elsewhere, as loads and stores of tile programs: concat (one stage an input, each into its
 * part, but for those computed there: pieces.c), pad (fill, then the input into its place, in a concat's part too),
 * and a reshape that no strides can express (read in its source's order). */
#include "compiler/lower/emitter.h"

#include <string.h>

/* Stage: the elements of `value` (any view), in its shape, to `buffer` with these strides and offset. */
static samba_status move(samba_compiler *c, const samba_group *group, samba_ref value, int64_t offset, const int64_t *strides)
{
    const samba_node *node = samba_node_at(c->graph, value);
    const samba_access *access = &c->fusion.access[value];
    samba_stage *stage;
    SAMBA_TRY(samba_plan_add_labelled(c, group, SAMBA_STAGE_TILE, &stage));
    samba_emitter e;
    samba_emitter_init(&e, c, node->rank, node->shape, 0);
    int64_t from[SAMBA_MAX_RANK], to[SAMBA_MAX_RANK];
    for (int i = 0; i < node->rank; i++) {
        from[i] = node->shape[i] == 1 ? 0 : access->strides[i];
        to[i] = node->shape[i] == 1 ? 0 : strides[i];
    }
    int reg =
        samba_emitter_load(&e, c->placed.buffer_of[access->base], (samba_dtype)node->dtype, access->offset, from, SAMBA_FULL, 0);
    samba_emitter_store(&e, reg, c->placed.buffer_of[group->anchor], (samba_dtype)node->dtype, offset, to);
    samba_status status = samba_emitter_finish(&e, 0, NULL, stage);
    samba_emitter_free(&e);
    return status;
}

/* A value with some of its dims counted from the end, to the group's memory. */
static samba_status flip(samba_compiler *c, const samba_group *group, const samba_node *node)
{
    samba_ref value = node->inputs[0];
    samba_access kept = c->fusion.access[value], *access = &c->fusion.access[value];
    const samba_access *target = &c->fusion.access[group->anchor]; /* a part of a concat, or its own memory */
    const samba_dims *dims = &node->attrs->reduce.dims;
    for (int64_t i = 0; i < dims->count; i++) {
        int64_t dim = dims->at[i], last = node->shape[dim] > 0 ? node->shape[dim] - 1 : 0;
        access->offset += last * access->strides[dim];
        access->strides[dim] = -access->strides[dim];
    }
    samba_status status = move(c, group, value, target->offset, target->strides);
    *access = kept;
    return status;
}

static samba_status fill(samba_compiler *c, const samba_group *group, double value)
{
    const samba_node *node = samba_node_at(c->graph, group->anchor);
    samba_stage *stage;
    SAMBA_TRY(samba_plan_add_labelled(c, group, SAMBA_STAGE_TILE, &stage));
    samba_emitter e;
    samba_emitter_init(&e, c, node->rank, node->shape, 0);
    const samba_access *target = &c->fusion.access[group->anchor]; /* a part of a concat, or its own memory */
    int64_t strides[SAMBA_MAX_RANK];
    for (int i = 0; i < node->rank; i++)
        strides[i] = node->shape[i] == 1 ? 0 : target->strides[i];
    int reg = samba_emitter_add(&e, SAMBA_TILE_constant, samba_class_of((samba_dtype)node->dtype), SAMBA_FULL, SAMBA_LEVEL_SETUP,
                                -1, -1, -1, -1, value);
    samba_emitter_store(&e, reg, c->placed.buffer_of[group->anchor], (samba_dtype)node->dtype, target->offset, strides);
    samba_status status = samba_emitter_finish(&e, 0, NULL, stage);
    samba_emitter_free(&e);
    return status;
}

samba_status samba_lower_move(samba_compiler *c, int32_t index)
{
    const samba_group *group = &c->fusion.groups[index];
    const samba_node *node = samba_node_at(c->graph, group->anchor);
    int64_t strides[SAMBA_MAX_RANK], at = 0;
    samba_shape_contiguous_strides(node->rank, node->shape, strides);
    switch (node->op) {
    case SAMBA_OP_reshape:
        samba_shape_contiguous_strides(samba_node_at(c->graph, node->inputs[0])->rank,
                                       samba_node_at(c->graph, node->inputs[0])->shape, strides);
        return move(c, group, node->inputs[0], 0, strides);
    case SAMBA_OP_concat: {
        int64_t dim = node->attrs->axis.dim;
        const samba_access *target = &c->fusion.access[group->anchor]; /* a part of another concat, or its own memory */
        memcpy(strides, target->strides, sizeof strides);
        at = target->offset;
        for (int i = 0; i < node->arity; i++) {
            if (!samba_is_computed_in_concat(c->fusion.access, group->anchor, node->inputs[i]))
                SAMBA_TRY(move(c, group, node->inputs[i], at, strides));
            at += samba_node_at(c->graph, node->inputs[i])->shape[dim] * strides[dim];
        }
        return SAMBA_OK;
    }
    case SAMBA_OP_flip: return flip(c, group, node);
    case SAMBA_OP_pad: {
        const samba_access *target = &c->fusion.access[group->anchor]; /* as a concat's */
        SAMBA_TRY(fill(c, group, node->attrs->pad.value));
        memcpy(strides, target->strides, sizeof strides);
        at = target->offset;
        for (int i = 0; i < node->rank; i++) {
            at += node->attrs->pad.before.at[i] * strides[i];
            strides[i] *= node->attrs->pad.interior.at[i] + 1;
        }
        return move(c, group, node->inputs[0], at, strides);
    }
    default: return samba_fail(c->context, SAMBA_ERROR_INTERNAL, "lowering: operator %s moves nothing", samba_ops[node->op].name);
    }
}
