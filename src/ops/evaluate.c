/* SPDX-License-Identifier: Apache-2.0
 *
 * Evaluation of a whole graph by reference kernels. It defines what a graph means; compiled programs are checked against it.
 *
 * Sections run in their order, nodes of a section in the order of the graph. When a section ends its sinks are copied out, and
 * only then do its assignments take effect in their leaves: later sections read the new values, values already computed stay as
 * they are. Only nodes that a sink needs are computed. Results of nodes are blocks that are freed after their last use; values of
 * leaves are borrowed from the caller; values of sinks belong to the caller's arena. */
#include "ops/families.h"
#include <string.h>

typedef enum holding { ABSENT, BORROWED, OWNED } holding;
typedef struct value_slot { /* one per node */
    samba_array array;
    holding held;
    int64_t uses; /* still to come: by live nodes and sinks */
} value_slot;

typedef struct evaluator {
    const samba_graph *graph;
    samba_context *context;
    value_slot *slots;
    samba_arena *arena;
    samba_array *sink_values;
} evaluator;

static size_t array_size(const samba_array *array) { return (size_t)array->numel * samba_dtype_size(array->dtype); }

static samba_status shape_array(const samba_node *node, samba_context *context, samba_array *array)
{
    memset(array, 0, sizeof *array);
    array->dtype = node->dtype;
    array->rank = node->rank;
    memcpy(array->shape, node->shape, sizeof array->shape);
    if (!samba_shape_numel(array->rank, array->shape, &array->numel))
        return samba_fail(context, SAMBA_ERROR_INTERNAL, "a node has a shape that inference refuses");
    return SAMBA_OK;
}

static samba_status own(evaluator *e, samba_ref ref)
{
    value_slot *slot = &e->slots[ref];
    SAMBA_TRY(shape_array(samba_node_at(e->graph, ref), e->context, &slot->array));
    slot->array.data = samba_alloc(e->context, array_size(&slot->array));
    if (!slot->array.data)
        return SAMBA_ERROR_MEMORY;
    slot->held = OWNED;
    return SAMBA_OK;
}

static void drop(evaluator *e, value_slot *slot)
{
    if (slot->held == OWNED)
        samba_free(e->context, slot->array.data, array_size(&slot->array));
    slot->held = ABSENT;
}

static void use(evaluator *e, samba_ref ref)
{
    value_slot *slot = &e->slots[ref];
    if (--slot->uses == 0)
        drop(e, slot);
}

/* Inputs come before users, so one walk from the end finds what sinks need. */
static void count_uses(evaluator *e)
{
    const samba_graph *graph = e->graph;
    for (int64_t s = 0; s < graph->sink_count; s++)
        e->slots[graph->sinks[s].value].uses++;
    for (int64_t i = graph->node_count - 1; i >= 0; i--)
        for (int k = 0; e->slots[i].uses > 0 && k < graph->nodes[i].arity; k++)
            e->slots[graph->nodes[i].inputs[k]].uses++;
}

static samba_status borrow_leaf(evaluator *e, const char *name, const samba_array *given)
{
    samba_ref ref = samba_graph_leaf(e->graph, name);
    if (ref == SAMBA_NONE)
        return samba_fail(e->context, SAMBA_ERROR_NAME, "evaluate: graph \"%.200s\" has no leaf \"%.200s\"", e->graph->name,
                          name);
    const samba_node *node = samba_node_at(e->graph, ref);
    if (given->dtype != node->dtype)
        return samba_fail(e->context, SAMBA_ERROR_DTYPE, "evaluate: \"%.200s\" is %s, given %s", name,
                          samba_dtype_name(node->dtype), samba_dtype_name(given->dtype));
    if (!samba_shape_equal(given->rank, given->shape, node->rank, node->shape))
        return samba_fail(e->context, SAMBA_ERROR_SHAPE, "evaluate: \"%.200s\" has shape %s, given %s", name,
                          SAMBA_SHAPE_OF(node), SAMBA_SHAPE_OF(given));
    value_slot *slot = &e->slots[ref];
    if (slot->held != ABSENT)
        return samba_fail(e->context, SAMBA_ERROR_NAME, "evaluate: \"%.200s\" is given twice", name);
    SAMBA_TRY(shape_array(node, e->context, &slot->array));
    slot->array.data = given->data;
    slot->held = BORROWED;
    return SAMBA_OK;
}

/* A leaf that was not given: argins have a default, states an initial value if it is one number. */
static samba_status default_leaf(evaluator *e, samba_ref ref)
{
    const samba_node *node = samba_node_at(e->graph, ref);
    double number = 0;
    if (node->op == SAMBA_OP_argin)
        number = node->attrs->argin.value;
    else if (node->op == SAMBA_OP_state && node->attrs->state.init == SAMBA_INIT_CONSTANT)
        number = node->attrs->state.init_a;
    else if (node->op != SAMBA_OP_state || node->attrs->state.init != SAMBA_INIT_ZEROS)
        return samba_fail(e->context, SAMBA_ERROR_NAME, "evaluate: %s \"%.200s\" needs a value, none was given",
                          samba_ops[node->op].name, samba_graph_name_at(e->graph, node->attrs->leaf.name));
    SAMBA_TRY(own(e, ref));
    const samba_array *array = &e->slots[ref].array;
    for (int64_t i = 0; i < array->numel; i++)
        samba_array_set_double(array, i, number);
    return SAMBA_OK;
}

static samba_status compute(evaluator *e, samba_ref ref)
{
    const samba_node *node = samba_node_at(e->graph, ref);
    samba_reference_fn *kernel = samba_ops[node->op].reference;
    if (!kernel) /* a leaf with a name */
        return e->slots[ref].held == ABSENT ? default_leaf(e, ref) : SAMBA_OK;
    SAMBA_TRY(own(e, ref));
    size_t size = node->arity * sizeof(samba_array);
    samba_array *inputs = samba_alloc(e->context, size);
    if (!inputs)
        return SAMBA_ERROR_MEMORY;
    for (int k = 0; k < node->arity; k++)
        inputs[k] = e->slots[node->inputs[k]].array;
    samba_reference reference = {e->context, e->graph, node->attrs, node->arity, inputs, &e->slots[ref].array};
    samba_status status = kernel(&reference);
    samba_free(e->context, inputs, size);
    for (int k = 0; k < node->arity; k++)
        use(e, node->inputs[k]);
    return status;
}

static samba_status deliver(evaluator *e, int64_t index)
{
    samba_ref ref = e->graph->sinks[index].value;
    samba_array *result = &e->sink_values[index];
    *result = e->slots[ref].array;
    size_t size = array_size(result);
    result->data = samba_arena_alloc(e->arena, size ? size : 1);
    if (!result->data)
        return SAMBA_ERROR_MEMORY;
    if (size > 0)
        memcpy(result->data, e->slots[ref].array.data, size);
    return SAMBA_OK;
}

static samba_status run_phase(evaluator *e, int phase)
{
    const samba_graph *graph = e->graph;
    for (int64_t i = 0; i < graph->node_count; i++)
        if (graph->nodes[i].phase == phase && e->slots[i].uses > 0)
            SAMBA_TRY(compute(e, (samba_ref)i));
    for (int64_t s = 0; s < graph->sink_count; s++)
        if ((int)graph->sinks[s].phase == phase)
            SAMBA_TRY(deliver(e, s));
    for (int64_t s = 0; s < graph->sink_count; s++)
        if ((int)graph->sinks[s].phase == phase)
            use(e, graph->sinks[s].value);
    for (int64_t s = 0; s < graph->sink_count; s++) {
        const samba_sink *sink = &graph->sinks[s];
        value_slot *target = sink->kind == SAMBA_SINK_ASSIGN ? &e->slots[sink->target] : NULL;
        /* BCKWD is of what FWD has read */
        if (target && target->uses > 0 && phase == (sink->phase == SAMBA_FWD ? SAMBA_BCKWD : (int)sink->phase)) {
            drop(e, target);
            target->array = e->sink_values[s];
            target->held = BORROWED;
        }
    }
    return SAMBA_OK;
}

samba_status samba_graph_evaluate(const samba_graph *graph, int leaf_count, const char *const *leaf_names,
                                  const samba_array *leaves, samba_arena *arena, samba_array *sink_values)
{
    SAMBA_TRY(samba_graph_status(graph));
    evaluator e = {graph, graph->context, NULL, arena, sink_values};
    size_t size = (size_t)graph->node_count * sizeof(value_slot);
    e.slots = samba_calloc(graph->context, size);
    if (!e.slots)
        return SAMBA_ERROR_MEMORY;
    count_uses(&e);
    samba_status status = SAMBA_OK;
    for (int i = 0; i < leaf_count && status == SAMBA_OK; i++)
        status = borrow_leaf(&e, leaf_names[i], &leaves[i]);
    for (int phase = 0; phase < SAMBA_PHASE_COUNT && status == SAMBA_OK; phase++)
        status = run_phase(&e, phase);
    for (int64_t i = 0; i < graph->node_count; i++)
        drop(&e, &e.slots[i]);
    samba_free(graph->context, e.slots, size);
    return status;
}
