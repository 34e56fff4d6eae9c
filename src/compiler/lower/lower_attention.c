/* SPDX-License-Identifier: Apache-2.0
 *
 * Attention: a group of attention, attention_lse or both becomes one stage with one or two results; attention_grad another, and
 * cache_attention another.
 * Operands are read where they lie, by the strides of their views:
 * heads of a joint projection need no copy, nor do their gradients. */
#include "compiler/compiler.h"

#include <string.h>

typedef struct attention_lowering {
    samba_compiler *compiler;
    samba_stage stage;
    samba_operand operands[SAMBA_ATTENTION_PARTS];
    int32_t operand_of[SAMBA_ATTENTION_PARTS];
} attention_lowering;

/* `dims`: the value's dims in the order (b, head, position, element); -1 for one that it lacks. */
static void set_operand(attention_lowering *l, samba_attention_part part, samba_ref ref, const int dims[4])
{
    const samba_node *node = samba_node_at(l->compiler->graph, ref);
    const samba_access *access = &l->compiler->fusion.access[ref];
    samba_operand *operand = &l->operands[l->operand_of[part]];
    *operand =
        (samba_operand){.buffer = l->compiler->placed.buffer_of[access->base], .dtype = node->dtype, .offset = access->offset};
    for (int i = 0; i < 4; i++)
        operand->strides[i] = dims[i] < 0 || node->shape[dims[i]] == 1 ? 0 : access->strides[dims[i]];
}

/* Gradients of q, k and v: views of the one result, as ops/attention.c describes it. */
static void set_gradients(attention_lowering *l, samba_ref ref)
{
    const samba_node *node = samba_node_at(l->compiler->graph, ref);
    int64_t first = 0;
    for (int i = 0; i < 3; i++) {
        samba_operand *operand = &l->operands[l->operand_of[SAMBA_ATTENTION_DQ + i]];
        int64_t sizes[4];
        samba_attention_sizes(&l->stage, (samba_attention_part)(SAMBA_ATTENTION_DQ + i), sizes);
        int64_t heads = node->rank == 4 ? node->shape[2] : sizes[1];
        *operand = (samba_operand){.buffer = l->compiler->placed.buffer_of[ref],
                                   .dtype = node->dtype,
                                   .offset = first,
                                   .strides = {sizes[2] * heads * sizes[3], sizes[3], heads * sizes[3], 1}};
        first += node->rank == 4 ? sizes[1] * sizes[3] : sizes[0] * sizes[1] * sizes[2] * sizes[3];
    }
}

/* Of a cache: as samba_attention describes it. */
static void describe_cache(attention_lowering *l, const samba_node *node)
{
    const samba_graph *g = l->compiler->graph;
    const samba_attrs_cache *attrs = &node->attrs->cache;
    const samba_node *q = samba_node_at(g, node->inputs[0]), *k = samba_node_at(g, node->inputs[1]),
                     *v = samba_node_at(g, node->inputs[2]);
    l->stage.kind = SAMBA_STAGE_ATTENTION;
    l->stage.rank = 4;
    memcpy(l->stage.domain, (int64_t[]){q->shape[0], q->shape[1], q->shape[2], k->shape[2]}, 4 * sizeof(int64_t));
    l->stage.attention = (samba_attention){.has_result = 1,
                                           .hkv = k->shape[1],
                                           .d = q->shape[3],
                                           .dv = v->shape[3],
                                           .scale = attrs->scale,
                                           .slots = attrs->slots,
                                           .window = attrs->window,
                                           .cap = attrs->cap};
    l->stage.operand_count = samba_attention_operands(&l->stage.attention, l->operand_of);
}

static void describe(attention_lowering *l, const samba_node *node, bool gradient, bool has_result, bool has_lse)
{
    const samba_graph *g = l->compiler->graph;
    const samba_attrs_attention *attrs = &node->attrs->attention;
    const samba_node *q = samba_node_at(g, node->inputs[0]), *k = samba_node_at(g, node->inputs[1]),
                     *v = samba_node_at(g, node->inputs[2]);
    l->stage.kind = SAMBA_STAGE_ATTENTION;
    l->stage.rank = 4;
    memcpy(l->stage.domain, (int64_t[]){q->shape[0], q->shape[1], q->shape[2], k->shape[2]}, 4 * sizeof(int64_t));
    l->stage.attention = (samba_attention){.gradient = gradient,
                                           .causal = attrs->causal != 0,
                                           .masked = attrs->masked != 0,
                                           .dropout = attrs->dropout != 0,
                                           .has_result = has_result,
                                           .has_lse = has_lse,
                                           .hkv = k->shape[1],
                                           .d = q->shape[3],
                                           .dv = v->shape[3],
                                           .scale = attrs->scale};
    l->stage.operand_count = samba_attention_operands(&l->stage.attention, l->operand_of);
}

static void set_inputs(attention_lowering *l, const samba_node *node)
{
    static const int heads_first[4] = {0, 1, 2, 3}, heads_third[4] = {0, 2, 1, 3}, one_each[4] = {0, 1, 2, -1},
                     scalar[4] = {-1, -1, -1, -1}, batch_alone[4] = {0, -1, -1, -1};
    const samba_attention *a = &l->stage.attention;
    int at = 0;
    for (; at < 3; at++)
        set_operand(l, (samba_attention_part)(SAMBA_ATTENTION_Q + at), node->inputs[at], heads_first);
    if (a->slots > 0)
        set_operand(l, SAMBA_ATTENTION_START, node->inputs[at], batch_alone);
    if (a->masked) {
        int rank = samba_node_at(l->compiler->graph, node->inputs[at])->rank, dims[4];
        for (int i = 0; i < 4; i++)
            dims[i] = i + rank - 4 < 0 ? -1 : i + rank - 4;
        set_operand(l, SAMBA_ATTENTION_MASK, node->inputs[at++], dims);
    }
    for (int i = 0; i < 2 && a->dropout; i++)
        set_operand(l, (samba_attention_part)(SAMBA_ATTENTION_P + i), node->inputs[at++], scalar);
    if (a->gradient) {
        set_operand(l, SAMBA_ATTENTION_RESULT, node->inputs[at], heads_third);
        set_operand(l, SAMBA_ATTENTION_LSE, node->inputs[at + 1], one_each);
        set_operand(l, SAMBA_ATTENTION_DOUT, node->inputs[at + 2], heads_third);
    }
}

samba_status samba_lower_attention(samba_compiler *c, int32_t index)
{
    static const int heads_third[4] = {0, 2, 1, 3}, one_each[4] = {0, 1, 2, -1};
    const samba_group *group = &c->fusion.groups[index];
    const samba_node *node = samba_node_at(c->graph, group->anchor), *sources[SAMBA_ATTENTION_PARTS];
    samba_ref result = SAMBA_NONE, lse = SAMBA_NONE;
    bool gradient = node->op == SAMBA_OP_attention_grad;
    attention_lowering l = {.compiler = c};
    for (int64_t m = 0; m < group->member_count; m++) {
        samba_ref member = group->members[m];
        *(samba_node_at(c->graph, member)->op == SAMBA_OP_attention_lse ? &lse : &result) = member;
    }
    if (node->op == SAMBA_OP_cache_attention)
        describe_cache(&l, node);
    else
        describe(&l, node, gradient, gradient || result != SAMBA_NONE, gradient || lse != SAMBA_NONE);
    set_inputs(&l, node);
    if (gradient)
        set_gradients(&l, group->anchor);
    else if (result != SAMBA_NONE)
        set_operand(&l, SAMBA_ATTENTION_RESULT, result, heads_third);
    if (lse != SAMBA_NONE)
        set_operand(&l, SAMBA_ATTENTION_LSE, lse, one_each);

    for (int i = 0; i < node->arity; i++) {
        sources[i] = samba_node_at(c->graph, node->inputs[i]);
        l.stage.bytes += samba_node_bytes(sources[i]);
    }
    for (int64_t m = 0; m < group->member_count; m++) {
        const samba_node *member = samba_node_at(c->graph, group->members[m]);
        int64_t flops = samba_ops[member->op].flops(member, sources);
        l.stage.bytes += samba_node_bytes(member);
        l.stage.flops = flops > l.stage.flops ? flops : l.stage.flops; /* the log-sum-exp falls off on the way to the result */
    }
    SAMBA_TRY(SAMBA_ROOM(&c->plan.arena, l.stage.operands, l.stage.operand_count));
    memcpy(l.stage.operands, l.operands, sizeof(samba_operand) * (size_t)l.stage.operand_count);
    SAMBA_TRY(samba_stage_label(c, group, &l.stage));
    samba_stage *stage;
    SAMBA_TRY(samba_plan_add_stage(c, group->phase, &stage));
    *stage = l.stage;
    return SAMBA_OK;
}
