/* SPDX-License-Identifier: Apache-2.0
 *
 * Several graphs in one plan. Each comes lowered, with stages over buffers that have no offsets yet. Their stages are put one
 * behind the other, and things of one name become one: tensors (weights, buffers, inputs that graphs share: a region) and
 * hyperparameters. What sizes of a function have in shapes of their own gets names of its own, in memory that sizes share. The
 * passes behind (memory, coalesce, section) see one plan: no two graphs run at once, so their intermediates
 * share memory, as those of sections do.
 *
 * Needs: stages of both. Gives: stages, buffers, tables of all. Breaks nothing. */
#include "compiler/compiler.h"

#include <string.h>

typedef struct linker {
    samba_compiler *into;
    const samba_compiler *from;
    int32_t *buffers;  /* of from -> of into; -1: not there yet */
    const char *graph; /* name of from's */
    bool *has;         /* per tensor of into: the graph has it */
    const char *size;  /* that it is of a function; NULL: it is none */
} linker;

/* The first graph that has the tensor, for messages. */
static const char *owner(const samba_plan *plan, int32_t tensor)
{
    for (int32_t g = 0; g < plan->graph_count; g++)
        if (samba_plan_has_tensor(&plan->graphs[g], tensor))
            return plan->graphs[g].name;
    return plan->name;
}

static const char *describe(const samba_plan_tensor *tensor, char buffer[SAMBA_SHAPE_TEXT + 32])
{
    static const char *const kinds[] = {"an input", "a parameter", "a buffer", "a gradient", "an output"};
    char shape[SAMBA_SHAPE_TEXT];
    snprintf(buffer, SAMBA_SHAPE_TEXT + 32, "%s %s%s", kinds[tensor->kind], samba_dtype_name((samba_dtype)tensor->dtype),
             samba_shape_format(tensor->rank, tensor->shape, shape, sizeof shape));
    return buffer;
}

static samba_status check_same(const linker *l, int32_t index, const samba_plan_tensor *its)
{
    const samba_plan_tensor *ours = &l->into->plan.tensors[index];
    char a[SAMBA_SHAPE_TEXT + 32], b[SAMBA_SHAPE_TEXT + 32];
    if (ours->kind != its->kind || ours->dtype != its->dtype ||
        !samba_shape_equal(ours->rank, ours->shape, its->rank, its->shape))
        return samba_fail(l->into->context, SAMBA_ERROR_NAME,
                          "\"%.128s\" is %s in graph \"%.64s\" and %s in graph \"%.64s\": what graphs share by name is of one "
                          "kind, dtype and shape; give one of them another name",
                          its->name, describe(ours, a), owner(&l->into->plan, index), describe(its, b), l->graph);
    if (ours->init != its->init || ours->init_a != its->init_a || ours->init_b != its->init_b)
        return samba_fail(l->into->context, SAMBA_ERROR_ARGUMENT,
                          "\"%.128s\" is shared by graphs \"%.64s\" and \"%.64s\" and starts with other values in each: give it "
                          "one initializer",
                          its->name, owner(&l->into->plan, index), l->graph);
    return SAMBA_OK;
}

/* Indices have to be good for both. */
static void narrow(samba_plan_tensor *ours, const samba_plan_tensor *its)
{
    if (!its->has_range)
        return;
    if (!ours->has_range) {
        ours->range_user = its->range_user;
        ours->low = its->low, ours->high = its->high;
        ours->has_range = 1, ours->has_ignore = its->has_ignore, ours->ignore = its->ignore;
        return;
    }
    ours->low = its->low > ours->low ? its->low : ours->low;
    ours->high = its->high < ours->high ? its->high : ours->high;
    ours->has_ignore = ours->has_ignore && its->has_ignore && ours->ignore == its->ignore;
}

static samba_status add_buffer(linker *l, int32_t buffer)
{
    if (l->buffers[buffer] >= 0)
        return SAMBA_OK;
    return samba_plan_add_buffer(l->into, l->from->plan.buffers[buffer].bytes, l->from->growth.persistent[buffer],
                                 &l->buffers[buffer]);
}

static int32_t find_tensor(const samba_plan *plan, int32_t count, const char *name)
{
    int32_t at = 0;
    while (at < count && strcmp(plan->tensors[at].name, name) != 0)
        at++;
    return at < count ? at : -1;
}

/* "<output>.grad", which the backward starts from. */
static bool is_start(const samba_plan *plan, const samba_plan_tensor *tensor)
{
    const size_t length = strlen(tensor->name), ending = strlen(SAMBA_GRADIENT_OF);
    bool found = false;
    for (int32_t i = 0; i < plan->tensor_count && !found && length > ending; i++)
        found = plan->tensors[i].kind == SAMBA_KIND_OUTPUT && strlen(plan->tensors[i].name) == length - ending &&
                strncmp(plan->tensors[i].name, tensor->name, length - ending) == 0;
    return tensor->kind == SAMBA_KIND_GRADIENT && found && strcmp(tensor->name + length - ending, SAMBA_GRADIENT_OF) == 0;
}

/* Has a size of the same function it in another shape? Then it is a tensor of its own. */
static bool is_resized(const linker *l, int32_t index, const samba_plan_tensor *its)
{
    const samba_plan_tensor *ours = &l->into->plan.tensors[index];
    return l->size && samba_is_size_like(owner(&l->into->plan, index), l->graph) && ours->kind == its->kind &&
           ours->dtype == its->dtype && ours->rank == its->rank &&
           !samba_shape_equal(ours->rank, ours->shape, its->rank, its->shape) &&
           (its->kind == SAMBA_KIND_INPUT || its->kind == SAMBA_KIND_OUTPUT || is_start(&l->from->plan, its));
}

static bool writes(const samba_plan *plan, int32_t buffer)
{
    bool found = false;
    for (int32_t s = 0; s < plan->stage_count && !found; s++)
        for (int32_t o = 0; o < plan->stages[s].operand_count && !found; o++)
            found = plan->stages[s].operands[o].buffer == buffer && samba_stage_access(&plan->stages[s], o) & SAMBA_WRITES;
    return found;
}

/* Inputs and outputs of sizes lie in one place, since no two sizes run at once. An input that stages write is state, and the
 * gradient of an output stays as it was set: each has its own. */
static bool shares_memory(const linker *l, int32_t index, const samba_plan_tensor *its)
{
    return its->kind == SAMBA_KIND_OUTPUT || (its->kind == SAMBA_KIND_INPUT && !writes(&l->from->plan, its->buffer) &&
                                              !writes(&l->into->plan, l->into->plan.tensors[index].buffer));
}

static samba_status add_tensor(linker *l, const samba_plan_tensor *its, const char *name, int32_t *at)
{
    samba_plan *plan = &l->into->plan;
    SAMBA_TRY(add_buffer(l, its->buffer));
    SAMBA_TRY(SAMBA_GROW(l->into->context, plan->tensors, l->into->growth.tensor_capacity, plan->tensor_count + 1));
    *at = plan->tensor_count++;
    plan->tensors[*at] = *its;
    plan->tensors[*at].name = (char *)name; /* nobody writes there */
    plan->tensors[*at].buffer = l->buffers[its->buffer];
    return SAMBA_OK;
}

/* The name of a size's own tensor, and where it lies. */
static samba_status resize(linker *l, int32_t first, const samba_plan_tensor *its, char **name)
{
    samba_plan *plan = &l->into->plan;
    const int64_t bytes = l->from->plan.buffers[its->buffer].bytes;
    SAMBA_TRY(samba_sized_name(&plan->arena, its->name, l->size, name));
    if (!shares_memory(l, first, its))
        return SAMBA_OK;
    const int32_t buffer = plan->tensors[first].buffer;
    l->buffers[its->buffer] = buffer;
    plan->buffers[buffer].bytes = bytes > plan->buffers[buffer].bytes ? bytes : plan->buffers[buffer].bytes;
    return SAMBA_OK;
}

static samba_status add_tensors(linker *l)
{
    samba_plan *plan = &l->into->plan;
    const int32_t before = plan->tensor_count;
    for (int32_t i = 0; i < l->from->plan.tensor_count; i++) {
        const samba_plan_tensor *its = &l->from->plan.tensors[i];
        char *name = its->name;
        int32_t at = find_tensor(plan, before, name);
        if (at >= 0 && is_resized(l, at, its)) {
            SAMBA_TRY(resize(l, at, its, &name));
            at = find_tensor(plan, before, name);
        }
        if (at >= 0) {
            SAMBA_TRY(check_same(l, at, its));
            narrow(&plan->tensors[at], its);
            plan->tensors[at].is_loss |= its->is_loss;
            if (its->role != SAMBA_ROLE_MODEL) /* what an optimizer keeps is that also where another graph reads it as a buffer */
                plan->tensors[at].role = its->role;
            l->buffers[its->buffer] = plan->tensors[at].buffer;
        } else {
            SAMBA_TRY(add_tensor(l, its, name, &at));
        }
        l->has[at] = true;
    }
    return SAMBA_OK;
}

static samba_status add_argins(linker *l)
{
    samba_plan *plan = &l->into->plan;
    const int32_t before = plan->argin_count;
    for (int32_t i = 0; i < l->from->plan.argin_count; i++) {
        const samba_plan_argin *its = &l->from->plan.argins[i];
        int32_t at = 0;
        while (at < before && strcmp(plan->argins[at].name, its->name) != 0)
            at++;
        if (at < before) {
            const samba_plan_argin *ours = &plan->argins[at];
            if (ours->role != its->role || ours->dtype != its->dtype || ours->value != its->value)
                return samba_fail(l->into->context, SAMBA_ERROR_NAME,
                                  "hyperparameter \"%.128s\" is %g in graph \"%.64s\" and %g in one before it: graphs share "
                                  "hyperparameters by name; give the optimizer or the dropout another name",
                                  its->name, its->value, l->graph, ours->value);
            l->buffers[its->buffer] = ours->buffer;
            continue;
        }
        SAMBA_TRY(add_buffer(l, its->buffer));
        SAMBA_TRY(SAMBA_GROW(l->into->context, plan->argins, l->into->growth.argin_capacity, plan->argin_count + 1));
        plan->argins[plan->argin_count] = *its;
        plan->argins[plan->argin_count++].buffer = l->buffers[its->buffer];
    }
    return SAMBA_OK;
}

/* Values that both carry are carried once. */
static samba_status add_constants(linker *l)
{
    samba_plan *plan = &l->into->plan;
    const int32_t before = plan->constant_count;
    for (int32_t i = 0; i < l->from->plan.constant_count; i++) {
        const samba_plan_constant *its = &l->from->plan.constants[i];
        int32_t at = 0, blob;
        SAMBA_TRY(samba_plan_add_blob(l->into, l->from->plan.blobs[its->blob], &blob));
        while (at < before && plan->constants[at].blob != blob)
            at++;
        if (at < before) {
            l->buffers[its->buffer] = plan->constants[at].buffer;
            continue;
        }
        SAMBA_TRY(add_buffer(l, its->buffer));
        SAMBA_TRY(SAMBA_GROW(l->into->context, plan->constants, l->into->growth.constant_capacity, plan->constant_count + 1));
        plan->constants[plan->constant_count++] = (samba_plan_constant){l->buffers[its->buffer], blob};
    }
    return SAMBA_OK;
}

/* Everything a stage points at is shared with `from` but what says buffers and words by number. */
static samba_status add_stage(linker *l, int32_t index)
{
    const samba_stage *its = &l->from->plan.stages[index];
    samba_stage *stage;
    l->into->lowering.redone = l->from->growth.made[index].redone;
    SAMBA_TRY(samba_plan_add_stage(l->into, l->from->growth.made[index].phase, &stage));
    *stage = *its;
    SAMBA_TRY(SAMBA_ROOM(&l->into->plan.arena, stage->operands, its->operand_count));
    for (int32_t o = 0; o < its->operand_count; o++) {
        stage->operands[o] = its->operands[o];
        if (its->operands[o].buffer >= 0)
            stage->operands[o].buffer = l->buffers[its->operands[o].buffer];
    }
    if (its->kind == SAMBA_STAGE_CONTRACT) {
        stage->contract.a.buffer = l->buffers[its->contract.a.buffer];
        stage->contract.b.buffer = l->buffers[its->contract.b.buffer];
    }
    return samba_stage_operators_link(l->into, &l->from->plan, stage);
}

static samba_status add_graph(linker *l)
{
    samba_plan *plan = &l->into->plan;
    samba_plan_graph *graphs, *graph;
    SAMBA_TRY(SAMBA_ROOM(&plan->arena, graphs, plan->graph_count + 1));
    if (plan->graph_count > 0)
        memcpy(graphs, plan->graphs, sizeof *graphs * (size_t)plan->graph_count);
    plan->graphs = graphs;
    graph = &graphs[plan->graph_count++];
    *graph = l->from->plan.graphs[0];
    SAMBA_TRY(SAMBA_ROOM(&plan->arena, graph->tensors, plan->tensor_count));
    graph->tensor_count = 0;
    for (int32_t t = 0; t < plan->tensor_count; t++)
        if (l->has[t])
            graph->tensors[graph->tensor_count++] = t;
    const int32_t *literals = graph->literals;
    SAMBA_TRY(SAMBA_ROOM(&plan->arena, graph->literals, graph->literal_count));
    for (int32_t i = 0; i < graph->literal_count; i++)
        SAMBA_TRY(samba_plan_add_blob(l->into, l->from->plan.blobs[literals[i]], &graph->literals[i]));
    return SAMBA_OK;
}

samba_status samba_link(samba_compiler *into, const samba_compiler *from)
{
    const char *graph = from->plan.graphs[0].name;
    linker l = {.into = into, .from = from, .graph = graph, .size = samba_size_label(graph)};
    SAMBA_TRY(SAMBA_ROOM(&into->arena, l.buffers, from->plan.buffer_count));
    SAMBA_TRY(SAMBA_ROOM(&into->arena, l.has, into->plan.tensor_count + from->plan.tensor_count));
    for (int32_t b = 0; b < from->plan.buffer_count; b++)
        l.buffers[b] = -1;
    into->plan.ops_signature = from->plan.ops_signature;
    SAMBA_TRY(add_tensors(&l));
    SAMBA_TRY(add_argins(&l));
    SAMBA_TRY(add_constants(&l));
    for (int32_t b = 0; b < from->plan.buffer_count; b++)
        SAMBA_TRY(add_buffer(&l, b));
    SAMBA_TRY(add_graph(&l)); /* before its stages, which are the last graph's */
    for (int32_t s = 0; s < from->plan.stage_count; s++)
        SAMBA_TRY(add_stage(&l, s));
    return SAMBA_OK;
}
