/* SPDX-License-Identifier: Apache-2.0
 *
 * A buffer for every leaf, output and stored value. A value that a sink delivers is computed straight into its target's memory
 * wherever nothing could still need the target's old value. A second target is a second store. Whatever remains is copied at the
 * end of the phase.
 *
 * Needs: groups. Gives: buffers (sizes, not offsets), the tensor and argin tables, copies, the order of groups.
 * Breaks nothing. */
#include "compiler/compiler.h"

#include <string.h>

samba_status samba_plan_add_buffer(samba_compiler *c, int64_t bytes, bool persistent, int32_t *buffer)
{
    samba_plan *plan = &c->plan;
    SAMBA_TRY(SAMBA_GROW(c->context, plan->buffers, c->growth.buffer_capacity, plan->buffer_count + 1));
    SAMBA_TRY(SAMBA_GROW(c->context, c->growth.persistent, c->growth.persistent_capacity, plan->buffer_count + 1));
    plan->buffers[plan->buffer_count] = (samba_buffer){0, bytes};
    c->growth.persistent[plan->buffer_count] = persistent;
    *buffer = plan->buffer_count++;
    return SAMBA_OK;
}

static samba_status add_buffer(samba_compiler *c, const samba_node *node, bool persistent, int32_t *buffer)
{
    int64_t numel, bytes;
    if (!samba_shape_numel(node->rank, node->shape, &numel) ||
        !samba_mul_checked(numel, (int64_t)samba_dtype_size((samba_dtype)node->dtype), &bytes))
        return samba_fail(c->context, SAMBA_ERROR_SHAPE, "a value of %s has more bytes than 64 bits count",
                          samba_ops[node->op].name);
    return samba_plan_add_buffer(c, bytes, persistent, buffer);
}

static samba_status add_tensor(samba_compiler *c, const char *name, samba_tensor_kind kind, const samba_node *node,
                               int32_t *buffer)
{
    SAMBA_TRY(add_buffer(c, node, true, buffer));
    samba_plan *plan = &c->plan;
    SAMBA_TRY(SAMBA_GROW(c->context, plan->tensors, c->growth.tensor_capacity, plan->tensor_count + 1));
    samba_plan_tensor *tensor = &plan->tensors[plan->tensor_count++];
    *tensor = (samba_plan_tensor){.kind = kind, .dtype = node->dtype, .rank = node->rank, .buffer = *buffer};
    memcpy(tensor->shape, node->shape, sizeof tensor->shape);
    return samba_arena_copy(&plan->arena, name, &tensor->name);
}

/* Values that the file carries. */
static samba_status add_literal(samba_compiler *c, const samba_node *node, int32_t *buffer)
{
    samba_plan *plan = &c->plan;
    SAMBA_TRY(add_buffer(c, node, true, buffer));
    SAMBA_TRY(SAMBA_GROW(c->context, plan->constants, c->growth.constant_capacity, plan->constant_count + 1));
    samba_plan_constant *constant = &plan->constants[plan->constant_count++];
    constant->buffer = *buffer;
    return samba_plan_add_blob(c, samba_graph_blob_at(c->graph, node->attrs->literal.data), &constant->blob);
}

static samba_status add_leaf(samba_compiler *c, samba_ref ref)
{
    const samba_graph *g = c->graph;
    const samba_node *node = samba_node_at(g, ref);
    int32_t *buffer = &c->placed.buffer_of[ref];
    if (node->op == SAMBA_OP_argin) {
        SAMBA_TRY(samba_plan_add_buffer(c, 8, true, buffer));
        samba_plan *plan = &c->plan;
        SAMBA_TRY(SAMBA_GROW(c->context, plan->argins, c->growth.argin_capacity, plan->argin_count + 1));
        const samba_attrs_argin *attrs = &node->attrs->argin;
        samba_plan_argin *argin = &plan->argins[plan->argin_count++];
        *argin = (samba_plan_argin){.role = (int32_t)attrs->role, .dtype = node->dtype, .buffer = *buffer, .value = attrs->value};
        return samba_arena_copy(&plan->arena, samba_graph_name_at(g, attrs->name), &argin->name);
    }
    if (node->op == SAMBA_OP_literal)
        return add_literal(c, node, buffer);
    if (node->op == SAMBA_OP_input)
        return add_tensor(c, samba_graph_name_at(g, node->attrs->leaf.name), SAMBA_KIND_INPUT, node, buffer);
    const bool parameter = node->op == SAMBA_OP_parameter;
    const int64_t kind = parameter ? SAMBA_KIND_PARAMETER : node->attrs->state.kind;
    const bool optimizer = kind == SAMBA_STATE_OPTIMIZER;
    SAMBA_TRY(add_tensor(c, samba_graph_name_at(g, parameter ? node->attrs->parameter.name : node->attrs->state.name),
                         optimizer ? SAMBA_KIND_BUFFER : (samba_tensor_kind)kind, node, buffer));
    samba_plan_tensor *tensor = &c->plan.tensors[c->plan.tensor_count - 1];
    tensor->role = optimizer ? SAMBA_ROLE_OPTIMIZER : SAMBA_ROLE_MODEL;
    tensor->init = (int32_t)(parameter ? node->attrs->parameter.init : node->attrs->state.init);
    tensor->init_a = parameter ? node->attrs->parameter.init_a : node->attrs->state.init_a;
    tensor->init_b = parameter ? node->attrs->parameter.init_b : node->attrs->state.init_b;
    return SAMBA_OK;
}

/* ---- may a value be written over the leaf it replaces? ---- */

/* A scatter into all of the leaf, of operands that lie elsewhere, writes some elements and leaves the others alone. */
static bool scatters_into(const samba_fusion *f, const samba_group *g, samba_ref leaf)
{
    const samba_node *node = samba_node_at(f->graph, g->anchor);
    return node->op == SAMBA_OP_scatter && f->access[node->inputs[0]].base == leaf &&
           samba_access_is_whole(f->graph, f->access, node->inputs[0]) && f->access[node->inputs[1]].base != leaf &&
           f->access[node->inputs[2]].base != leaf;
}

/* Reads of `leaf` by `group` happen element by element, where and when the group writes. */
static bool reads_in_step(const samba_compiler *c, int32_t group, samba_ref leaf)
{
    const samba_fusion *f = &c->fusion;
    const samba_group *g = &f->groups[group];
    if (scatters_into(f, g, leaf) || samba_node_at(f->graph, g->anchor)->op == SAMBA_OP_replica_mean)
        return true;
    if (g->kind == SAMBA_GROUP_KERNEL || g->kind == SAMBA_GROUP_MOVE || g->cols != 0)
        return false;
    for (int64_t m = 0; m < g->member_count; m++) {
        const samba_node *node = samba_node_at(f->graph, g->members[m]);
        for (int i = 0; i < node->arity; i++) {
            samba_ref u = node->inputs[i];
            if (f->access[u].base != leaf)
                continue;
            if ((g->kind == SAMBA_GROUP_CONTRACT && g->members[m] == g->anchor) || !samba_access_is_whole(f->graph, f->access, u))
                return false;
            int64_t mine, whole;
            samba_shape_numel(samba_node_at(f->graph, u)->rank, samba_node_at(f->graph, u)->shape, &mine);
            samba_shape_numel(g->rank, g->domain, &whole);
            if (mine != whole)
                return false;
        }
    }
    return true;
}

/* For each leaf the groups that read it, in order. */
static samba_ref leaf_read(const samba_fusion *f, const samba_node *node, int i)
{
    samba_ref base = f->access[samba_value_read(f->graph, node->inputs[i])].base;
    return samba_ops[samba_node_at(f->graph, base)->op].class_ == SAMBA_LEAF ? base : SAMBA_NONE;
}

static samba_status find_readers(samba_compiler *c)
{
    const samba_fusion *f = &c->fusion;
    size_t count = (size_t)c->graph->node_count + 2;
    samba_readers *r = &c->placed.readers;
    int64_t *end, total = 0;
    SAMBA_TRY(SAMBA_ROOM(&c->arena, r->begin, count));
    SAMBA_TRY(SAMBA_ROOM(&c->arena, end, count));
    for (int fill = 0; fill < 2; fill++) { /* once to count, once to write them down */
        for (int32_t h = 0; h < f->group_count; h++)
            for (int64_t m = 0; m < f->groups[h].member_count; m++) {
                const samba_node *node = samba_node_at(f->graph, f->groups[h].members[m]);
                for (int i = 0; i < node->arity; i++) {
                    samba_ref leaf = leaf_read(f, node, i);
                    if (leaf == SAMBA_NONE || (fill && end[leaf] > r->begin[leaf] && r->groups[end[leaf] - 1] == h))
                        continue;
                    if (fill)
                        r->groups[end[leaf]] = h;
                    end[leaf]++;
                }
            }
        for (int64_t i = 0; i < c->graph->node_count && !fill; i++) {
            r->begin[i] = total;
            total += end[i];
            end[i] = r->begin[i];
        }
        if (!fill)
            SAMBA_TRY(SAMBA_ROOM(&c->arena, r->groups, total + 1));
    }
    r->end = end;
    return SAMBA_OK;
}

/* An assignment takes effect when its phase ends: other groups of the phase still read the old value, so they go before the
 * writer, if they can. Later phases read the new one. */
static samba_status in_place(samba_compiler *c, samba_ref leaf, int32_t writer, bool *can)
{
    samba_fusion *f = &c->fusion;
    *can = true;
    for (int64_t i = c->placed.readers.begin[leaf]; i < c->placed.readers.end[leaf] && *can; i++)
        *can = c->placed.readers.groups[i] != writer || reads_in_step(c, writer, leaf);
    for (int64_t i = c->placed.readers.begin[leaf]; i < c->placed.readers.end[leaf] && *can; i++) {
        int32_t h = c->placed.readers.groups[i];
        if (h != writer && f->groups[h].phase == f->groups[writer].phase)
            SAMBA_TRY(samba_fusion_order(f, h, writer, can));
    }
    return SAMBA_OK;
}

static samba_status add_copy(samba_compiler *c, const samba_sink *sink, int32_t buffer)
{
    samba_ref value = sink->value;
    SAMBA_TRY(SAMBA_GROW(c->context, c->placed.copies, c->placed.copy_capacity, c->placed.copy_count + 1));
    c->placed.copies[c->placed.copy_count++] = (samba_copy){value, buffer, sink->phase, samba_is_delivered_again(c->graph, sink)};
    samba_ref base = c->fusion.access[value].base;
    const samba_node *node = samba_node_at(c->graph, base);
    if (c->placed.buffer_of[base] >= 0 || node->op == SAMBA_OP_constant)
        return SAMBA_OK;
    return add_buffer(c, node, false, &c->placed.buffer_of[base]);
}

static samba_status deliver(samba_compiler *c, const samba_sink *sink, int32_t target)
{
    samba_fusion *f = &c->fusion;
    samba_ref base = f->access[sink->value].base;
    /* sinks fill in constants themselves: a stage that wants one in memory must not find a gradient there
     * in the next micro-batch */
    int32_t group = samba_node_at(c->graph, base)->op == SAMBA_OP_constant ? -1 : f->members[base].group;
    bool whole = group >= 0 && samba_access_is_whole(c->graph, f->access, sink->value);
    bool fits = whole && (sink->kind != SAMBA_SINK_ASSIGN || f->groups[group].phase == sink->phase);
    if (fits && sink->kind == SAMBA_SINK_ASSIGN)
        SAMBA_TRY(in_place(c, sink->target, group, &fits));
    if (fits && c->placed.buffer_of[base] < 0) {
        c->placed.buffer_of[base] = target;
        return SAMBA_OK;
    }
    bool tile = group >= 0 && (f->groups[group].kind == SAMBA_GROUP_TILE || f->groups[group].kind == SAMBA_GROUP_CONTRACT) &&
                f->members[base].role != SAMBA_MEMBER_COLLECT; /* collected values are stored once, when the stage ends */
    if (fits && tile) {
        SAMBA_TRY(
            SAMBA_GROW(c->context, c->placed.extra_stores, c->placed.extra_store_capacity, c->placed.extra_store_count + 1));
        c->placed.extra_stores[c->placed.extra_store_count++] = (samba_extra_store){base, target};
        return SAMBA_OK;
    }
    return add_copy(c, sink, target);
}

/* Indices that come straight from an input are checked before they reach the device. */
static samba_status find_ranges(samba_compiler *c)
{
    const samba_graph *g = c->traced;
    for (int64_t i = 0; i < g->node_count; i++) {
        const samba_node *node = samba_node_at(g, (samba_ref)i);
        if (!samba_ops[node->op].range)
            continue;
        const samba_index_range range = samba_ops[node->op].range(node, samba_node_at(g, node->inputs[0]));
        samba_ref index = node->inputs[1];
        bool part = false;
        int64_t count;
        if (samba_shape_numel(samba_node_at(g, index)->rank, samba_node_at(g, index)->shape, &count) && count == 0)
            continue; /* spread over no element at all: the input is never used as an index */
        while (samba_ops[samba_node_at(g, index)->op].class_ == SAMBA_VIEW || samba_node_at(g, index)->op == SAMBA_OP_cast) {
            part = part || samba_node_at(g, index)->op == SAMBA_OP_slice;
            index = samba_node_at(g, index)->inputs[0];
        }
        const samba_node *leaf = samba_node_at(g, index);
        if (part && !range.trusted) /* the rest may be anything; the kernel looks at what it takes */
            continue;
        if (leaf->op != SAMBA_OP_input || samba_dtype_is_floating_point((samba_dtype)leaf->dtype))
            continue;
        for (int t = 0; t < c->plan.tensor_count; t++) {
            samba_plan_tensor *tensor = &c->plan.tensors[t];
            if (tensor->kind != SAMBA_KIND_INPUT || strcmp(tensor->name, samba_graph_name_at(g, leaf->attrs->leaf.name)) != 0)
                continue;
            if (tensor->has_range && tensor->high <= range.high && tensor->low >= range.low)
                continue;
            tensor->low = tensor->has_range && tensor->low > range.low ? tensor->low : range.low;
            tensor->high = tensor->has_range && tensor->high < range.high ? tensor->high : range.high;
            tensor->has_range = 1;
            tensor->has_ignore = range.has_ignore;
            tensor->ignore = range.ignore;
            SAMBA_TRY(samba_arena_copy(&c->plan.arena, samba_ops[node->op].name, &tensor->range_user));
        }
    }
    return SAMBA_OK;
}

samba_status samba_pass_bufferize(samba_compiler *c)
{
    samba_fusion *f = &c->fusion;
    const samba_graph *g = c->graph;
    SAMBA_TRY(SAMBA_ROOM(&c->arena, c->placed.buffer_of, g->node_count + 1));
    for (int64_t i = 0; i < g->node_count; i++)
        c->placed.buffer_of[i] = -1;
    for (int64_t i = 0; i < g->node_count; i++) {
        const samba_node *node = samba_node_at(g, (samba_ref)i);
        if (samba_ops[node->op].class_ == SAMBA_LEAF && !samba_is_inline(g, (samba_ref)i))
            SAMBA_TRY(add_leaf(c, (samba_ref)i));
    }
    SAMBA_TRY(find_readers(c));
    for (int64_t i = 0; i < g->sink_count; i++) {
        const samba_sink *sink = &g->sinks[i];
        int32_t target = -1;
        if (sink->kind == SAMBA_SINK_ASSIGN) {
            target = c->placed.buffer_of[sink->target];
        } else if (sink->kind == SAMBA_SINK_AGAIN) {
            for (int32_t t = 0; t < c->plan.tensor_count; t++)
                if (c->plan.tensors[t].kind == SAMBA_KIND_OUTPUT &&
                    strcmp(c->plan.tensors[t].name, samba_graph_name_at(g, sink->name)) == 0)
                    target = c->plan.tensors[t].buffer;
        } else {
            SAMBA_TRY(
                add_tensor(c, samba_graph_name_at(g, sink->name), SAMBA_KIND_OUTPUT, samba_node_at(g, sink->value), &target));
            c->plan.tensors[c->plan.tensor_count - 1].is_loss = sink->kind == SAMBA_SINK_LOSS;
        }
        SAMBA_TRY(deliver(c, sink, target));
    }
    SAMBA_TRY(samba_pieces_find(c));
    for (int64_t i = 0; i < g->node_count; i++) {
        if (!f->members[i].stored || c->placed.buffer_of[i] >= 0 || f->members[i].group < 0 ||
            samba_is_piece(f->access, (samba_ref)i))
            continue;
        SAMBA_TRY(add_buffer(c, samba_node_at(g, (samba_ref)i), false, &c->placed.buffer_of[i]));
    }
    samba_pieces_bufferize(c);
    SAMBA_TRY(find_ranges(c));
    return samba_fusion_schedule(f);
}
