/* SPDX-License-Identifier: Apache-2.0
 *
 * The graph as a container: making and freeing it, interned names and bytes, hash-consed nodes, sinks and the sticky error. It
 * knows nothing of what operators mean; samba_emit (ops/emit.c) infers and then adds here.
 *
 * Invariants: a node is never changed after it was added; no two nodes are equal; inputs come before users and are never of a
 * later phase; leaf operators are of phase ZEROGRAD; a leaf's name belongs to it alone. Inputs, attributes and names live in the
 * graph's arena; nodes, sinks and tables are blocks of their own, freed with the graph. A pointer to a node is valid until the
 * next node is added; its inputs and attributes stay. */
#include "base/null.h"
#include "base/warn.h"
#include "graph/graph.h"
#include "graph/warn.h"
#include <string.h>

#define MAX_NODES ((int64_t)1 << 31)

const char *const samba_phase_names[SAMBA_PHASE_COUNT] = {"ZEROGRAD", "FWD", "BCKWD", "REDUCE", "GRADNORM", "OPT"};

/* ---- errors ---- */

static samba_ref stick_message(samba_graph *graph, samba_status status, const char *message)
{
    if (graph->status != SAMBA_OK)
        return SAMBA_NONE;
    graph->status = status;
    snprintf(graph->error, sizeof(graph->error), "%s", message);
    samba_fail(graph->context, status, "%s", graph->error);
    return SAMBA_NONE;
}

const char *samba_location_format(const samba_graph *graph, samba_location location, char buffer[SAMBA_LOCATION_TEXT])
{
    const char *scope = graph->names[location.scope], *source = graph->names[location.source];
    buffer[0] = 0;
    if (location.scope || location.source)
        snprintf(buffer, SAMBA_LOCATION_TEXT, " (in %s%.300s%s%.150s)", location.scope ? "module " : "", scope,
                 location.scope && location.source ? ", " : "", source);
    return buffer;
}

/* A source says the line, so the location goes behind the message; else the scope goes before it. */
static void write_with_location(samba_graph *graph, char *message, size_t size, const char *what, const char *format,
                                va_list arguments)
{
    char location[SAMBA_LOCATION_TEXT];
    what = graph->speaker && what[0] ? graph->speaker : what;
    bool behind = graph->location.source, before = graph->location.scope && !behind;
    int used = snprintf(message, size, "%.300s%s%.300s%s", what, before ? what[0] ? " at " : "at " : "",
                        before ? graph->names[graph->location.scope] : "", before || what[0] ? ": " : "");
    int length = vsnprintf(message + used, size - (size_t)used, format, arguments);
    if (behind) { /* seen even where the message is too long */
        samba_location_format(graph, graph->location, location);
        size_t room = size - 1 - strlen(location), end = (size_t)used + (length > 0 ? (size_t)length : 0);
        end = end < room ? end : room;
        snprintf(message + end, size - end, "%s", location);
    }
}

static void fail_with_location(samba_graph *graph, samba_status status, const char *what, const char *format, va_list arguments)
{
    char message[sizeof(graph->error)];
    write_with_location(graph, message, sizeof(message), what, format, arguments);
    stick_message(graph, status, message);
}

void samba_graph_warn_at(samba_graph *graph, const char *what, const char *format, ...)
{
    char message[sizeof(graph->error)];
    va_list arguments;
    va_start(arguments, format);
    write_with_location(graph, message, sizeof(message), what, format, arguments);
    va_end(arguments);
    samba_warn(graph->context, message);
}

samba_ref samba_graph_fail(samba_graph *graph, samba_status status, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fail_with_location(graph, status, "", format, arguments);
    va_end(arguments);
    return SAMBA_NONE;
}

samba_ref samba_graph_fail_at(samba_graph *graph, samba_status status, const char *what, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fail_with_location(graph, status, what, format, arguments);
    va_end(arguments);
    return SAMBA_NONE;
}

samba_ref samba_graph_stick(samba_graph *graph, samba_status status)
{
    char message[sizeof(graph->error)]; /* a copy: the context's buffer is about to be written */
    snprintf(message, sizeof(message), "%s", samba_error_message(graph->context));
    return stick_message(graph, status, message);
}

samba_status samba_graph_status(const samba_graph *graph)
{
    if (!graph)
        return SAMBA_ERROR_ARGUMENT;
    /* Other calls may have failed since: give the graph's message again. */
    return graph->status == SAMBA_OK ? SAMBA_OK : samba_fail(graph->context, graph->status, "%s", graph->error);
}

/* ---- arrays and tables ---- */

samba_status samba_graph_grow(samba_graph *graph, void *array, size_t size, int64_t *capacity, int64_t count)
{
    void *items; /* samba_grow takes the address of a void pointer, which that of an array's pointer is not */
    memcpy(&items, array, sizeof(items));
    samba_status status = samba_grow(graph->context, &items, size, capacity, count + 1);
    memcpy(array, &items, sizeof(items));
    return status;
}

static samba_status grow_names(samba_graph *graph)
{
    SAMBA_TRY(samba_graph_grow(graph, &graph->names, sizeof(*graph->names), &graph->name_capacity, graph->name_count));
    return samba_graph_grow(graph, &graph->leaves, sizeof(*graph->leaves), &graph->leaf_capacity, graph->name_count);
}

static uint64_t hash_text(const char *text) { return samba_hash(text, strlen(text) + 1, 0); }

/* Phase is left out: equal nodes of different phases share a chain, so that one walk finds the earliest. */
static uint64_t hash_node(const samba_node *node)
{
    const int64_t head[5] = {node->op, node->dtype, node->rank, node->arity, node->fp32};
    uint64_t hash = samba_hash(head, sizeof(head), 0);
    if (node->rank > 0)
        hash = samba_hash(node->shape, node->rank * sizeof(int64_t), hash);
    if (node->arity > 0)
        hash = samba_hash(node->inputs, node->arity * sizeof(samba_ref), hash);
    return samba_hash(node->attrs, samba_attrs_table[samba_op_table[node->op].attrs].size, hash);
}

static bool equal_nodes(const samba_node *a, const samba_node *b)
{
    return a->op == b->op && a->dtype == b->dtype && a->arity == b->arity && a->fp32 == b->fp32 &&
           samba_shape_equal(a->rank, a->shape, b->rank, b->shape) &&
           (a->arity == 0 || memcmp(a->inputs, b->inputs, a->arity * sizeof(samba_ref)) == 0) &&
           memcmp(a->attrs, b->attrs, samba_attrs_table[samba_op_table[a->op].attrs].size) == 0;
}

static void table_put(uint32_t *table, int64_t size, uint64_t hash, int64_t index)
{
    uint64_t mask = (uint64_t)size - 1, slot = hash & mask;
    while (table[slot])
        slot = (slot + 1) & mask;
    table[slot] = (uint32_t)index + 1;
}

typedef enum table_kind { NODES, NAMES, BLOBS } table_kind;

static uint64_t hash_at(const samba_graph *graph, table_kind kind, int64_t index)
{
    return kind == NODES   ? hash_node(&graph->nodes[index])
           : kind == NAMES ? hash_text(graph->names[index])
                           : graph->blobs[index]->hash;
}

/* Doubles a table that would become more than half full. */
static samba_status reserve_table(samba_graph *graph, table_kind kind)
{
    uint32_t **table = kind == NODES ? &graph->table : kind == NAMES ? &graph->name_table : &graph->blob_table;
    int64_t *size = kind == NODES ? &graph->table_size : kind == NAMES ? &graph->name_table_size : &graph->blob_table_size;
    const int64_t count = kind == NODES ? graph->node_count : kind == NAMES ? graph->name_count : graph->blob_count;
    if (2 * (count + 1) <= *size)
        return SAMBA_OK;
    int64_t new_size = *size ? 2 * *size : 64;
    uint32_t *new_table = samba_calloc(graph->context, (size_t)new_size * sizeof(uint32_t));
    if (!new_table)
        return SAMBA_ERROR_MEMORY;
    for (int64_t i = 0; i < count; i++)
        table_put(new_table, new_size, hash_at(graph, kind, i), i);
    if (*table)
        samba_free(graph->context, *table, (size_t)*size * sizeof(uint32_t));
    *table = new_table;
    *size = new_size;
    return SAMBA_OK;
}

/* ---- the graph ---- */

samba_status samba_graph_new(samba_context *context, const char *name, samba_graph **result)
{
    SAMBA_NEED(NULL, context);
    if (!result)
        return samba_fail(context, SAMBA_ERROR_ARGUMENT, "a place for the graph is needed, NULL was given");
    *result = NULL;
    if (!name || !name[0])
        return samba_fail(context, SAMBA_ERROR_ARGUMENT, "a graph needs a name, %s was given", name ? "\"\"" : "NULL");
    samba_graph *graph = samba_calloc(context, sizeof(*graph));
    if (!graph)
        return SAMBA_ERROR_MEMORY;
    graph->context = context;
    graph->phase = SAMBA_FWD;
    samba_arena_init(&graph->arena, context);
    graph->name = samba_arena_strdup(&graph->arena, name);
    samba_graph_intern(graph, ""); /* index 0 */
    if (!graph->name || graph->status != SAMBA_OK) {
        samba_graph_free(graph);
        return SAMBA_ERROR_MEMORY;
    }
    *result = graph;
    return SAMBA_OK;
}

samba_status samba_graph_like(const samba_graph *graph, samba_graph **result)
{
    return samba_graph_new(graph->context, graph->name, result);
}

static void free_array(samba_graph *graph, void *items, int64_t capacity, size_t item_size)
{
    if (items)
        samba_free(graph->context, items, (size_t)capacity * item_size);
}

void samba_graph_free(samba_graph *graph)
{
    if (!graph)
        return;
    free_array(graph, graph->nodes, graph->node_capacity, sizeof(*graph->nodes));
    free_array(graph, graph->table, graph->table_size, sizeof(*graph->table));
    free_array(graph, graph->names, graph->name_capacity, sizeof(*graph->names));
    free_array(graph, graph->name_table, graph->name_table_size, sizeof(*graph->name_table));
    free_array(graph, graph->blobs, graph->blob_capacity, sizeof(*graph->blobs));
    free_array(graph, graph->blob_table, graph->blob_table_size, sizeof(*graph->blob_table));
    free_array(graph, graph->leaves, graph->leaf_capacity, sizeof(*graph->leaves));
    free_array(graph, graph->sinks, graph->sink_capacity, sizeof(*graph->sinks));
    free_array(graph, graph->scopes, graph->scope_capacity, sizeof(*graph->scopes));
    samba_arena_free(&graph->arena);
    samba_free(graph->context, graph, sizeof(*graph));
}

/* ---- names ---- */

/* Index of a name, or -1. */
static int64_t find_name(const samba_graph *graph, const char *name)
{
    if (graph->name_table_size == 0)
        return -1;
    uint64_t mask = (uint64_t)graph->name_table_size - 1;
    for (uint64_t slot = hash_text(name) & mask; graph->name_table[slot]; slot = (slot + 1) & mask)
        if (strcmp(graph->names[graph->name_table[slot] - 1], name) == 0)
            return graph->name_table[slot] - 1;
    return -1;
}

uint32_t samba_graph_intern(samba_graph *graph, const char *name)
{
    if (graph->status != SAMBA_OK)
        return 0;
    if (!name) {
        samba_graph_fail(graph, SAMBA_ERROR_ARGUMENT, "a name is needed, NULL was given");
        return 0;
    }
    int64_t found = find_name(graph, name);
    if (found >= 0)
        return (uint32_t)found;
    char *copy = samba_arena_strdup(&graph->arena, name);
    if (!copy || graph->name_count >= MAX_NODES || reserve_table(graph, NAMES) != SAMBA_OK || grow_names(graph) != SAMBA_OK) {
        samba_graph_stick(graph, SAMBA_ERROR_MEMORY);
        return 0;
    }
    table_put(graph->name_table, graph->name_table_size, hash_text(copy), graph->name_count);
    graph->names[graph->name_count] = copy;
    graph->leaves[graph->name_count] = (samba_named_leaf){0, 0};
    return (uint32_t)graph->name_count++;
}

/* ---- bytes ---- */

/* Index of these bytes, or -1. */
static int64_t find_blob(const samba_graph *graph, const samba_blob *blob)
{
    if (graph->blob_table_size == 0)
        return -1;
    uint64_t mask = (uint64_t)graph->blob_table_size - 1;
    for (uint64_t slot = blob->hash & mask; graph->blob_table[slot]; slot = (slot + 1) & mask)
        if (samba_blob_equal(graph->blobs[graph->blob_table[slot] - 1], blob))
            return graph->blob_table[slot] - 1;
    return -1;
}

static samba_status add_blob(samba_graph *graph, samba_blob *blob)
{
    if (graph->blob_count >= MAX_NODES)
        return samba_fail(graph->context, SAMBA_ERROR_UNSUPPORTED, "a graph has at most 2^31 literals");
    SAMBA_TRY(samba_graph_grow(graph, &graph->blobs, sizeof(*graph->blobs), &graph->blob_capacity, graph->blob_count));
    SAMBA_TRY(reserve_table(graph, BLOBS));
    if (blob->context == graph->context) {
        SAMBA_TRY(samba_arena_keep(&graph->arena, blob));
    } else { /* of a context that may go before this one */
        blob = samba_blob_copy(graph->context, blob->data, blob->size);
        if (!blob)
            return SAMBA_ERROR_MEMORY;
        samba_status status = samba_arena_keep(&graph->arena, blob);
        samba_blob_drop(blob);
        SAMBA_TRY(status);
    }
    table_put(graph->blob_table, graph->blob_table_size, blob->hash, graph->blob_count);
    graph->blobs[graph->blob_count++] = blob;
    return SAMBA_OK;
}

uint32_t samba_graph_blob(samba_graph *graph, samba_blob *blob)
{
    if (graph->status != SAMBA_OK)
        return 0;
    int64_t found = blob ? find_blob(graph, blob) : -1;
    if (found >= 0)
        return (uint32_t)found;
    samba_status status = blob ? add_blob(graph, blob) : SAMBA_ERROR_MEMORY;
    if (status == SAMBA_OK)
        return (uint32_t)(graph->blob_count - 1);
    samba_graph_stick(graph, status);
    return 0;
}

samba_location samba_graph_location(samba_graph *graph, const samba_graph *other, samba_location location)
{
    return (samba_location){location.scope ? samba_graph_intern(graph, other->names[location.scope]) : 0,
                            location.source ? samba_graph_intern(graph, other->names[location.source]) : 0,
                            location.fusion ? samba_graph_intern(graph, other->names[location.fusion]) : 0};
}

samba_ref samba_graph_leaf(const samba_graph *graph, const char *name)
{
    int64_t index = name ? find_name(graph, name) : -1;
    return index >= 0 && graph->leaves[index].ref ? graph->leaves[index].ref - 1 : SAMBA_NONE;
}

/* ---- nodes ---- */

/* The earliest equal node of a phase in [first, last]. */
static samba_ref find_node(const samba_graph *graph, const samba_node *node, int first, int last)
{
    samba_ref best = SAMBA_NONE;
    if (graph->table_size == 0)
        return best;
    uint64_t mask = (uint64_t)graph->table_size - 1;
    for (uint64_t slot = hash_node(node) & mask; graph->table[slot]; slot = (slot + 1) & mask) {
        samba_ref other = graph->table[slot] - 1;
        int phase = graph->nodes[other].phase;
        if (phase >= first && phase <= last && (best == SAMBA_NONE || phase < graph->nodes[best].phase) &&
            equal_nodes(&graph->nodes[other], node))
            best = other;
    }
    return best;
}

samba_ref samba_graph_find(const samba_graph *graph, const samba_node *node)
{
    return find_node(graph, node, node->phase, node->phase);
}

/* Name index of a named leaf, 0 for an empty name; -1 for any other node. The name is the first attribute of each such kind. */
static int64_t leaf_name(const samba_node *node)
{
    const samba_attrs_facts *facts = &samba_attrs_table[samba_op_table[node->op].attrs];
    return samba_op_table[node->op].leaf && facts->field_count > 0 && facts->fields[0].kind == SAMBA_FIELD_NAME
               ? node->attrs->leaf.name
               : -1;
}

static samba_ref fail_taken_name(samba_graph *graph, const samba_node *node, const samba_node *first)
{
    return samba_graph_fail_at(graph, SAMBA_ERROR_NAME, samba_op_table[node->op].name,
                               "the name \"%.200s\" is taken: %s %s%s was made first, %s %s%s with %s cannot share it",
                               graph->names[node->attrs->leaf.name], samba_op_table[first->op].name,
                               samba_dtype_name(first->dtype), SAMBA_SHAPE_OF(first), samba_op_table[node->op].name,
                               samba_dtype_name(node->dtype), SAMBA_SHAPE_OF(node),
                               first->op == node->op ? "other attributes" : "another operator");
}

/* The node's own copy of its inputs and attributes, in one block. */
static samba_status keep_lists(samba_graph *graph, samba_node *node)
{
    size_t attrs_size = samba_attrs_table[samba_op_table[node->op].attrs].size, inputs_size = node->arity * sizeof(samba_ref);
    char *block = samba_arena_alloc(&graph->arena, attrs_size + inputs_size);
    if (!block)
        return SAMBA_ERROR_MEMORY;
    memcpy(block, node->attrs, attrs_size);
    if (inputs_size > 0)
        memcpy(block + attrs_size, node->inputs, inputs_size);
    node->attrs = (const samba_attrs *)(const void *)block;
    node->inputs = (const samba_ref *)(const void *)(block + attrs_size);
    return SAMBA_OK;
}

samba_ref samba_graph_add(samba_graph *graph, const samba_node *proto)
{
    if (graph->status != SAMBA_OK)
        return SAMBA_NONE;
    int64_t numel, bytes;
    if (proto->rank > SAMBA_MAX_RANK || !samba_shape_numel(proto->rank, proto->shape, &numel) ||
        !samba_mul_checked(numel, (int64_t)samba_dtype_size(proto->dtype), &bytes) || bytes > (int64_t)1 << 62)
        return samba_graph_fail_at(graph, SAMBA_ERROR_SHAPE, samba_op_table[proto->op].name,
                                   "the result would have more than 8 dims, a negative size or more than 2^62 bytes");
    samba_node node = *proto;
    memset(node.shape + node.rank, 0, (SAMBA_MAX_RANK - node.rank) * sizeof(int64_t));
    int phase = samba_op_table[node.op].leaf ? SAMBA_ZEROGRAD : graph->phase;
    for (int i = 0; i < node.arity; i++)
        if (graph->nodes[node.inputs[i]].phase > phase)
            phase = graph->nodes[node.inputs[i]].phase;
    node.phase = (uint8_t)phase;
    node.location = graph->location;
    node.part = graph->part;
    node.fp32 = graph->fp32 && !samba_op_table[node.op].leaf;
    samba_ref found = find_node(graph, &node, graph->recompute ? phase : SAMBA_ZEROGRAD, phase);
    if (found != SAMBA_NONE)
        return found;

    int64_t name = leaf_name(&node);
    if (name == 0)
        return samba_graph_fail_at(graph, SAMBA_ERROR_NAME, samba_op_table[node.op].name, "needs a name that is not empty");
    if (name > 0 && graph->leaves[name].ref)
        return fail_taken_name(graph, &node, &graph->nodes[graph->leaves[name].ref - 1]);
    if (graph->node_count >= MAX_NODES)
        return samba_graph_fail(graph, SAMBA_ERROR_UNSUPPORTED, "a graph has at most 2^31 nodes");
    if (samba_graph_grow(graph, &graph->nodes, sizeof(samba_node), &graph->node_capacity, graph->node_count) != SAMBA_OK ||
        reserve_table(graph, NODES) != SAMBA_OK || keep_lists(graph, &node) != SAMBA_OK)
        return samba_graph_stick(graph, SAMBA_ERROR_MEMORY);
    samba_ref ref = (samba_ref)graph->node_count;
    table_put(graph->table, graph->table_size, hash_node(&node), ref);
    graph->nodes[graph->node_count++] = node;
    if (name > 0)
        graph->leaves[name].ref = ref + 1;
    return ref;
}

int64_t samba_graph_node_count(const samba_graph *graph) { return graph ? graph->node_count : 0; }

samba_status samba_graph_node(const samba_graph *graph, int64_t index, samba_node_info *info)
{
    if (!graph)
        return SAMBA_ERROR_ARGUMENT;
    if (!info || index < 0 || index >= graph->node_count)
        return samba_fail(graph->context, SAMBA_ERROR_ARGUMENT, "graph \"%.200s\" has nodes 0 to %lld: asked for %lld%s",
                          graph->name, (long long)graph->node_count - 1, (long long)index, info ? "" : " with no place for it");
    const samba_node *node = &graph->nodes[index];
    int64_t name = leaf_name(node);
    bool leaf = samba_op_table[node->op].leaf;
    *info = (samba_node_info){.op = samba_op_table[node->op].name,
                              .name = name > 0 ? graph->names[name] : "",
                              .dtype = node->dtype,
                              .rank = node->rank,
                              .input_count = node->arity,
                              .inputs = node->inputs,
                              .phase = leaf ? "" : samba_phase_names[node->phase],
                              .module = graph->names[node->location.scope],
                              .source = graph->names[node->location.source],
                              .fusion = graph->names[node->location.fusion]};
    memcpy(info->shape, node->shape, sizeof info->shape);
    return SAMBA_OK;
}

static bool is_parameter(const samba_node *node) { return node->op == SAMBA_OP_parameter || node->op == SAMBA_OP_state; }

int64_t samba_graph_parameter_count(const samba_graph *graph)
{
    int64_t count = 0;
    for (int64_t i = 0; graph && i < graph->node_count; i++)
        count += is_parameter(&graph->nodes[i]);
    return count;
}

samba_status samba_graph_parameter(const samba_graph *graph, int64_t index, samba_parameter_info *info)
{
    if (!graph)
        return SAMBA_ERROR_ARGUMENT;
    const samba_node *node = NULL;
    int64_t left = index;
    for (int64_t i = 0; !node && index >= 0 && i < graph->node_count; i++)
        if (is_parameter(&graph->nodes[i]) && left-- == 0)
            node = &graph->nodes[i];
    if (!node || !info)
        return samba_fail(graph->context, SAMBA_ERROR_ARGUMENT,
                          "graph \"%.200s\" has %lld parameters and buffers, numbered from 0: asked for %lld%s", graph->name,
                          (long long)samba_graph_parameter_count(graph), (long long)index, info ? "" : " with no place for it");
    *info = (samba_parameter_info){
        .name = graph->names[leaf_name(node)], .buffer = node->op == SAMBA_OP_state, .dtype = node->dtype, .rank = node->rank};
    memcpy(info->shape, node->shape, sizeof info->shape);
    return SAMBA_OK;
}

/* ---- sinks ---- */

static bool check_assignment(samba_graph *graph, const samba_sink *sink)
{
    if (sink->target >= graph->node_count)
        return samba_graph_refuse(graph, SAMBA_ERROR_INTERNAL, "", "an assignment has no target");
    const samba_node *target = samba_node_at(graph, sink->target), *value = samba_node_at(graph, sink->value);
    if (target->op != SAMBA_OP_parameter && target->op != SAMBA_OP_state && target->op != SAMBA_OP_input)
        return samba_graph_refuse(graph, SAMBA_ERROR_INTERNAL, "",
                                  "an assignment's target is %s, only a parameter, a state or an input can be assigned",
                                  samba_op_table[target->op].name);
    if (target->dtype != value->dtype || !samba_shape_equal(target->rank, target->shape, value->rank, value->shape))
        return samba_graph_refuse(graph, SAMBA_ERROR_INTERNAL, "", "\"%.200s\" is %s%s, the value assigned to it %s%s",
                                  graph->names[target->attrs->leaf.name], samba_dtype_name(target->dtype), SAMBA_SHAPE_OF(target),
                                  samba_dtype_name(value->dtype), SAMBA_SHAPE_OF(value));
    if (graph->leaves[target->attrs->leaf.name].assigned >> sink->phase & 1)
        return samba_graph_refuse(graph, SAMBA_ERROR_INTERNAL, "", "\"%.200s\" is assigned twice in %s",
                                  graph->names[target->attrs->leaf.name], samba_phase_names[sink->phase]);
    return true;
}

static bool check_named_sink(samba_graph *graph, const samba_sink *sink)
{
    const char *name = sink->name < graph->name_count ? graph->names[sink->name] : "";
    if (!name[0])
        return samba_graph_refuse(graph, SAMBA_ERROR_NAME, "", "an output needs a name that is not empty");
    if (graph->leaves[sink->name].ref)
        return samba_graph_refuse(graph, SAMBA_ERROR_NAME, "", "output \"%.200s\": %s %%%u has that name already", name,
                                  samba_op_table[graph->nodes[graph->leaves[sink->name].ref - 1].op].name,
                                  graph->leaves[sink->name].ref - 1);
    for (int64_t i = 0; i < graph->sink_count; i++)
        if (graph->sinks[i].kind != SAMBA_SINK_ASSIGN && graph->sinks[i].name == sink->name) {
            if (sink->kind == SAMBA_SINK_AGAIN && graph->sinks[i].kind != SAMBA_SINK_AGAIN && graph->sinks[i].phase < sink->phase)
                continue;
            return samba_graph_refuse(graph, SAMBA_ERROR_NAME, "", "output \"%.200s\": another output has that name already",
                                      name);
        }
    return true;
}

void samba_graph_sink(samba_graph *graph, samba_sink sink)
{
    if (graph->status != SAMBA_OK || sink.value == SAMBA_NONE)
        return;
    if (sink.value >= graph->node_count || sink.phase >= SAMBA_PHASE_COUNT || graph->nodes[sink.value].phase > sink.phase) {
        samba_graph_fail(graph, SAMBA_ERROR_INTERNAL,
                         "a sink's value is no node of the graph, or is of a later phase than the sink");
        return;
    }
    if (sink.kind == SAMBA_SINK_ASSIGN) {
        sink.name = 0;
        if (!check_assignment(graph, &sink))
            return;
    } else {
        sink.target = SAMBA_NONE;
        if (!check_named_sink(graph, &sink))
            return;
    }
    samba_status status = samba_graph_grow(graph, &graph->sinks, sizeof(samba_sink), &graph->sink_capacity, graph->sink_count);
    if (status != SAMBA_OK) {
        samba_graph_stick(graph, status);
        return;
    }
    graph->sinks[graph->sink_count++] = sink;
    if (sink.kind == SAMBA_SINK_ASSIGN)
        graph->leaves[graph->nodes[sink.target].attrs->leaf.name].assigned |= (uint8_t)(1 << sink.phase);
}
