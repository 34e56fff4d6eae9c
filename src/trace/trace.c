/* SPDX-License-Identifier: Apache-2.0
 *
 * The frame of a model: inputs, parameters, hyperparameters, scopes, outputs, and the checks that every traced function begins
 * with. No function here can fail its caller: errors stick to the graph. A graph that is NULL gives values without a graph, which
 * every function takes and passes on. */
#include "base/null.h"
#include "trace/trace.h"

#include <sambaflow/session.h> /* samba_tensor_kind */
#include <math.h>
#include <string.h>

/* ---- checks ---- */

/* The function, and its layer, that was last given zeroed values alone. There is no graph to hold that error: the function that
 * its result, an index of SAMBA_NONE, reaches beside a value of a graph says it. */
static _Thread_local char given_none[128];

static void remember(const char *what, const char *layer, int count, const samba_value *values)
{
    for (int i = 0; i < count; i++)
        if (!values[i].graph && values[i].index != SAMBA_NONE)
            snprintf(given_none, sizeof given_none, "%.40s%s%.60s", what, layer ? " at " : "", layer ? layer : "");
}

/* ": linear at fc was given one, a samba_value that was never set"; "" where this is the first to be given it. */
static const char *origin_of(samba_value value, char text[256])
{
    const bool passed_on = value.index == SAMBA_NONE && given_none[0];
    snprintf(text, 256, "%s%s%s", passed_on ? ": " : "", passed_on ? given_none : "",
             passed_on ? " was given one, a samba_value that was never set" : "");
    return text;
}

bool samba_trace_enter(const char *what, int count, const samba_value *values, samba_graph **graph)
{
    char origin[256];
    *graph = NULL;
    for (int i = 0; i < count && !*graph; i++)
        *graph = values[i].graph;
    if (!*graph) {
        remember(what, NULL, count, values);
        return false;
    }
    bool usable = (*graph)->status == SAMBA_OK;
    for (int i = 0; i < count; i++) {
        samba_graph *other = values[i].graph;
        if (!other) {
            samba_graph_fail_at(*graph, SAMBA_ERROR_ARGUMENT, what, "operand %d is a value of no graph%s", i,
                                origin_of(values[i], origin));
            usable = false;
        } else if (other != *graph) {
            for (int k = 0; k < 2; k++) /* either graph may be the one that is compiled */
                samba_graph_fail_at(k ? *graph : other, SAMBA_ERROR_ARGUMENT, what,
                                    "operand %d belongs to graph \"%.200s\", another one to graph \"%.200s\"", i, other->name,
                                    (*graph)->name);
            usable = false;
        } else if (values[i].index == SAMBA_NONE) {
            usable = false;
        } else if (values[i].index >= other->node_count) {
            samba_graph_fail_at(other, SAMBA_ERROR_ARGUMENT, what, "operand %d is no value of graph \"%.200s\"", i, other->name);
            usable = false;
        }
    }
    return usable;
}

bool samba_trace_enter_optional(const char *what, int count, const samba_value *values, samba_graph **graph)
{
    samba_value given[8];
    int used = 0;
    for (int i = 0; i < count; i++)
        if (values[i].graph || i == 0)
            given[used++] = values[i];
    return samba_trace_enter(what, used, given, graph);
}

bool samba_trace_dim(samba_graph *graph, const char *what, int rank, int dim, int *result)
{
    int range = rank ? rank : 1;
    if (dim < -range || dim >= range)
        return samba_graph_refuse(graph, SAMBA_ERROR_INDEX, what,
                                  "dim %d is out of range for a value of rank %d: expected %d to %d", dim, rank, -range,
                                  range - 1);
    *result = dim < 0 ? dim + range : dim;
    return true;
}

char *samba_trace_format(const samba_node *node, char buffer[SAMBA_TYPE_TEXT])
{
    char shape[SAMBA_SHAPE_TEXT];
    snprintf(buffer, SAMBA_TYPE_TEXT, "%s%s", samba_dtype_name(node->dtype),
             samba_shape_format(node->rank, node->shape, shape, sizeof shape));
    return buffer;
}

samba_value samba_trace_fail_shape(samba_graph *graph, const char *what, const char *expected, const samba_node *input,
                                   const samba_node *weight)
{
    return samba_trace_fail(graph, SAMBA_ERROR_SHAPE, what, "expected %s, given an input %s and a weight %s", expected,
                            SAMBA_TYPE_OF(input), SAMBA_TYPE_OF(weight));
}

bool samba_trace_need_floating(samba_value value, const char *what)
{
    samba_dtype dtype = samba_node_at(value.graph, value.index)->dtype;
    if (samba_dtype_is_floating_point(dtype))
        return true;
    return samba_graph_refuse(value.graph, SAMBA_ERROR_DTYPE, what, "expected a floating-point value, given %s; cast it first",
                              samba_dtype_name(dtype));
}

/* A graph to work on, and a shape as a caller may give it. */
bool samba_trace_check_shape(samba_graph *graph, const char *what, int rank, const int64_t *shape)
{
    if (!graph || graph->status != SAMBA_OK)
        return false;
    if (rank < 0 || rank > SAMBA_MAX_RANK || (rank > 0 && !shape))
        return samba_graph_refuse(graph, SAMBA_ERROR_ARGUMENT, what, "expected a shape of 0 to %d sizes, given %s%d sizes",
                                  SAMBA_MAX_RANK, shape ? "" : "NULL for ", rank);
    return true;
}

static bool check_dtype(samba_graph *graph, const char *what, samba_dtype dtype)
{
    if ((int)dtype >= 0 && dtype < SAMBA_DTYPE_COUNT)
        return true;
    return samba_graph_refuse(graph, SAMBA_ERROR_ARGUMENT, what, "%d is no dtype", (int)dtype);
}

/* ---- inputs and constants ---- */

samba_status samba_graph_add_input(samba_graph *graph, const samba_tensor *example)
{
    if (!graph)
        return SAMBA_ERROR_ARGUMENT;
    SAMBA_TRY(samba_graph_status(graph));
    if (!example || !samba_tensor_name(example)[0]) {
        samba_graph_fail(graph, example ? SAMBA_ERROR_NAME : SAMBA_ERROR_ARGUMENT,
                         "an input needs an example tensor with a name, given %s", example ? "one without a name" : "NULL");
        return samba_graph_status(graph);
    }
    const char *name = samba_tensor_name(example);
    const samba_ref same = samba_graph_leaf(graph, name);
    if (same != SAMBA_NONE) {
        const int op = samba_node_at(graph, same)->op;
        const char *kind = op == SAMBA_OP_state ? "buffer" : samba_op_table[op].name;
        samba_graph_fail(graph, SAMBA_ERROR_NAME,
                         "input \"%.200s\": the model has another %s of that name already; give each a name of its own", name,
                         kind);
        return samba_graph_status(graph);
    }
    samba_attrs attrs = {.leaf = {.name = samba_graph_intern(graph, name),
                                  .dtype = samba_tensor_dtype(example),
                                  .shape = samba_dims_of(samba_tensor_rank(example), samba_tensor_shape(example))}};
    samba_emit(graph, SAMBA_OP_input, 0, NULL, &attrs);
    return samba_graph_status(graph);
}

static samba_ref fail_unknown_input(samba_graph *graph, const char *name)
{
    const char *inputs[32] = {NULL};
    int count = 0;
    char list[512] = "";
    size_t used = 0;
    for (int64_t i = 0; i < graph->node_count && count < SAMBA_COUNT(inputs); i++)
        if (graph->nodes[i].op == SAMBA_OP_input)
            inputs[count++] = samba_graph_name_at(graph, graph->nodes[i].attrs->leaf.name);
    for (int i = 0; i < count && used < sizeof list; i++)
        used += (size_t)snprintf(list + used, sizeof list - used, "%s\"%.100s\"", i ? ", " : "", inputs[i]);
    const char *near = samba_nearest(name, inputs, count);
    return samba_graph_fail(graph, SAMBA_ERROR_NAME, "there is no input \"%.200s\"%s%.100s%s; the inputs are: %s", name,
                            near ? ", did you mean \"" : "", near ? near : "", near ? "\"" : "", count ? list : "none");
}

samba_value samba_input(samba_graph *graph, const char *name)
{
    if (!graph)
        given_none[0] = 0; /* what an earlier model was given is not the reason */
    if (!graph || graph->status != SAMBA_OK)
        return samba_trace_value(graph, SAMBA_NONE);
    if (!name)
        return samba_trace_fail(graph, SAMBA_ERROR_ARGUMENT, "input", "a name is needed, NULL was given");
    samba_ref leaf = samba_graph_leaf(graph, name);
    if (leaf == SAMBA_NONE || samba_node_at(graph, leaf)->op != SAMBA_OP_input)
        leaf = fail_unknown_input(graph, name);
    return samba_trace_value(graph, leaf);
}

samba_value samba_constant(samba_graph *graph, double value, samba_dtype dtype, int rank, const int64_t *shape)
{
    if (!samba_trace_check_shape(graph, "constant", rank, shape) || !check_dtype(graph, "constant", dtype))
        return samba_trace_value(graph, SAMBA_NONE);
    samba_attrs attrs = {
        .constant = {.dtype = dtype, .shape = samba_dims_of(rank, shape), .value = samba_dtype_hold(dtype, value)}};
    return samba_trace_value(graph, samba_emit(graph, SAMBA_OP_constant, 0, NULL, &attrs));
}

static samba_value literal(samba_graph *graph, samba_dtype dtype, int rank, const int64_t *shape, samba_blob *blob)
{
    samba_attrs attrs = {.literal = {.dtype = dtype, .shape = samba_dims_of(rank, shape)}};
    attrs.literal.data = samba_graph_blob(graph, blob);
    samba_blob_drop(blob);
    return samba_trace_value(graph, samba_emit(graph, SAMBA_OP_literal, 0, NULL, &attrs));
}

samba_value samba_trace_literal(samba_graph *graph, samba_dtype dtype, int rank, const int64_t *shape, const void *data)
{
    int64_t numel;
    samba_shape_numel(rank, shape, &numel);
    return literal(graph, dtype, rank, shape, samba_blob_copy(graph->context, data, numel * (int64_t)samba_dtype_size(dtype)));
}

/* One element that a double holds to the bit: passes know what to do with a constant. */
static bool is_number(const samba_tensor *tensor, double *value)
{
    const samba_dtype dtype = samba_tensor_dtype(tensor);
    char again[sizeof(int64_t)];
    if (samba_tensor_numel(tensor) != 1)
        return false;
    *value = samba_load_double(dtype, samba_tensor_data(tensor));
    if (isnan(*value) || (!samba_dtype_is_floating_point(dtype) && fabs(*value) > 0x1p53))
        return false;
    samba_store_double(dtype, again, *value);
    return memcmp(again, samba_tensor_data(tensor), samba_dtype_size(dtype)) == 0;
}

samba_value samba_constant_tensor(samba_graph *graph, const samba_tensor *tensor)
{
    if (!graph || graph->status != SAMBA_OK)
        return samba_trace_value(graph, SAMBA_NONE);
    if (!tensor || !samba_tensor_has_data(tensor))
        return samba_trace_fail(graph, SAMBA_ERROR_ARGUMENT, "constant", "a tensor with values is needed, given %s",
                                tensor ? "one without" : "NULL");
    samba_dtype dtype = samba_tensor_dtype(tensor);
    int rank = samba_tensor_rank(tensor);
    if (!samba_tensor_is_contiguous(tensor))
        return samba_trace_fail(graph, SAMBA_ERROR_ARGUMENT, "constant",
                                "a contiguous tensor is needed; samba_tensor_copy makes one");
    double value = 0;
    if (is_number(tensor, &value))
        return samba_constant(graph, value, dtype, rank, samba_tensor_shape(tensor));
    return samba_trace_literal(graph, dtype, rank, samba_tensor_shape(tensor), samba_tensor_data(tensor));
}

static void nobody(void *owner) { (void)owner; }

static samba_blob *blob_over(samba_graph *graph, samba_dtype dtype, int rank, const int64_t *shape, const void *data,
                             void (*release)(void *owner), void *owner)
{
    int64_t numel, bytes;
    if (!samba_trace_check_shape(graph, "constant", rank, shape) || !check_dtype(graph, "constant", dtype))
        return NULL;
    if (!samba_shape_numel(rank, shape, &numel) || !samba_mul_checked(numel, (int64_t)samba_dtype_size(dtype), &bytes)) {
        samba_trace_fail(graph, SAMBA_ERROR_SHAPE, "constant", "a shape is needed, given %s", SAMBA_SHAPE(rank, shape));
        return NULL;
    }
    if (!data && numel > 0) {
        samba_trace_fail(graph, SAMBA_ERROR_ARGUMENT, "constant", "values are needed, given NULL");
        return NULL;
    }
    samba_blob *blob = samba_blob_over(graph->context, data ? data : "", bytes, release, owner);
    if (!blob)
        samba_graph_stick(graph, SAMBA_ERROR_MEMORY);
    return blob;
}

samba_value samba_constant_memory(samba_graph *graph, samba_dtype dtype, int rank, const int64_t *shape, const void *data,
                                  void (*release)(void *owner), void *owner)
{
    release = release ? release : nobody;
    samba_blob *blob = blob_over(graph, dtype, rank, shape, data, release, owner);
    if (blob)
        return literal(graph, dtype, rank, shape, blob);
    release(owner);
    return samba_trace_value(graph, SAMBA_NONE);
}

samba_value samba_arange(samba_graph *graph, int64_t end, samba_dtype dtype)
{
    if (!samba_trace_check_shape(graph, "arange", 1, &end) || !check_dtype(graph, "arange", dtype))
        return samba_trace_value(graph, SAMBA_NONE);
    samba_attrs attrs = {.iota = {.dtype = dtype, .shape = samba_dims_of(1, &end)}};
    return samba_trace_value(graph, samba_emit(graph, SAMBA_OP_iota, 0, NULL, &attrs));
}

/* ---- scopes and what is named in them ---- */

uint32_t samba_trace_scoped(samba_graph *graph, const char *what, const char *name)
{
    if (graph->status != SAMBA_OK)
        return 0;
    if (!name || !name[0]) {
        samba_graph_fail_at(graph, SAMBA_ERROR_NAME, what, "a name that is not empty is needed, given %s",
                            name ? "\"\"" : "NULL");
        return 0;
    }
    const char *scope = samba_graph_name_at(graph, graph->scope);
    if (!scope[0])
        return samba_graph_intern(graph, name);
    size_t size = strlen(scope) + 1 + strlen(name) + 1;
    char *scoped = samba_alloc(graph->context, size);
    if (!scoped) {
        samba_graph_stick(graph, SAMBA_ERROR_MEMORY);
        return 0;
    }
    snprintf(scoped, size, "%s.%s", scope, name);
    uint32_t index = samba_graph_intern(graph, scoped);
    samba_free(graph->context, scoped, size);
    return index;
}

void samba_scope_push(samba_graph *graph, const char *name)
{
    if (!graph)
        return;
    uint32_t scope = samba_trace_scoped(graph, "scope", name);
    if (!scope)
        return;
    samba_status status =
        samba_graph_grow(graph, &graph->scopes, sizeof(*graph->scopes), &graph->scope_capacity, graph->scope_count);
    if (status != SAMBA_OK) {
        samba_graph_stick(graph, status);
        return;
    }
    graph->scopes[graph->scope_count++] = (samba_outer_scope){graph->scope, graph->location.scope};
    graph->scope = graph->location.scope = scope;
}

void samba_scope_pop(samba_graph *graph)
{
    if (!graph || graph->status != SAMBA_OK)
        return;
    if (graph->scope_count == 0) {
        samba_graph_fail(graph, SAMBA_ERROR_STATE, "samba_scope_pop was called more often than samba_scope_push");
        return;
    }
    samba_outer_scope outer = graph->scopes[--graph->scope_count];
    graph->scope = outer.scope;
    graph->location.scope = outer.module;
}

void samba_graphamp_push(samba_graph *graph, bool enabled)
{
    if (!graph || graph->status != SAMBA_OK)
        return;
    if (graph->amp_depth == 64) {
        samba_graph_fail(graph, SAMBA_ERROR_UNSUPPORTED,
                         "samba_graphamp_push: 64 regions are open already, which is as deep as they nest");
        return;
    }
    graph->amp_stack = graph->amp_stack << 1 | graph->fp32;
    graph->amp_depth++;
    graph->fp32 = !enabled;
}

void samba_graphamp_pop(samba_graph *graph)
{
    if (!graph || graph->status != SAMBA_OK)
        return;
    if (graph->amp_depth == 0) {
        samba_graph_fail(graph, SAMBA_ERROR_STATE, "samba_graphamp_pop was called more often than samba_graphamp_push");
        return;
    }
    graph->fp32 = graph->amp_stack & 1;
    graph->amp_stack >>= 1;
    graph->amp_depth--;
}

bool samba_trace_enter_layer(const char *what, const samba_value *input, const char *name, bool floating, samba_graph **graph)
{
    if (!samba_trace_enter(what, 1, input, graph)) {
        if (!*graph)
            remember(what, name, 1, input);
        return false;
    }
    samba_scope_push(*graph, name);
    return (*graph)->status == SAMBA_OK && (!floating || samba_trace_need_floating(*input, what));
}

/* The leaf of that name if there is one like it; else `fresh`. What differs is found by samba_emit. */
static samba_ref named_leaf(samba_graph *graph, samba_op op, uint32_t name, samba_dtype dtype, int rank, const int64_t *shape)
{
    samba_ref leaf = graph->leaves[name].ref ? graph->leaves[name].ref - 1 : SAMBA_NONE;
    if (leaf == SAMBA_NONE)
        return SAMBA_NONE;
    const samba_node *first = samba_node_at(graph, leaf);
    bool same = first->op == op && first->dtype == dtype && samba_shape_equal(first->rank, first->shape, rank, shape);
    return same ? leaf : SAMBA_NONE;
}

static bool check_initializer(samba_graph *graph, const char *what, samba_dtype dtype, bool floating,
                              samba_initializer initializer)
{
    bool known = (int)initializer.kind >= SAMBA_INIT_ZEROS && initializer.kind <= SAMBA_INIT_NONE;
    const bool drawn = initializer.kind > SAMBA_INIT_CONSTANT && initializer.kind != SAMBA_INIT_NONE;
    if (known && (samba_dtype_is_floating_point(dtype) || (!floating && !drawn)))
        return true;
    return samba_graph_refuse(graph, SAMBA_ERROR_DTYPE, what, "expected %s and a known initializer, given %s and %d",
                              floating ? "a floating-point dtype" : "a floating-point dtype for random values",
                              samba_dtype_name(dtype), (int)initializer.kind);
}

/* A parameter, or a state, whose attributes begin with a parameter's. */
static samba_value make_named(samba_graph *graph, const char *what, samba_op op, const char *name, samba_dtype dtype, int rank,
                              const int64_t *shape, samba_initializer initializer)
{
    if (!samba_trace_check_shape(graph, what, rank, shape) || !check_dtype(graph, what, dtype) ||
        !check_initializer(graph, what, dtype, op == SAMBA_OP_parameter, initializer))
        return samba_trace_value(graph, SAMBA_NONE);
    if (initializer.kind == SAMBA_INIT_NORMAL_BUT_ROW && (rank != 2 || !(initializer.a >= 0 && initializer.a < (double)shape[0])))
        return samba_trace_fail(graph, SAMBA_ERROR_ARGUMENT, what,
                                "SAMBA_INIT_NORMAL_BUT_ROW is of rank 2 and one of its rows, given rank %d and row %g", rank,
                                initializer.a);
    uint32_t index = samba_trace_scoped(graph, what, name);
    if (!index)
        return samba_trace_value(graph, SAMBA_NONE);
    samba_base base = SAMBA_BASE_AS_TRACED;
    const samba_dtype traced = dtype;
    if (op == SAMBA_OP_parameter && samba_trace_is_frozen(graph, samba_graph_name_at(graph, index), &base)) {
        op = SAMBA_OP_state;
        dtype =
            base != SAMBA_BASE_AS_TRACED && rank >= 2 && dtype == SAMBA_FLOAT32 ? SAMBA_BFLOAT16 : dtype; /* the rest is small */
    }
    samba_ref leaf = named_leaf(graph, op, index, dtype, rank, shape);
    if (leaf != SAMBA_NONE) /* shared; the first use said how it starts */
        return samba_trace_value(graph, samba_emit_cast(graph, leaf, traced));
    samba_attrs attrs = {.parameter = {.name = index,
                                       .dtype = dtype,
                                       .shape = samba_dims_of(rank, shape),
                                       .init = initializer.kind,
                                       .init_a = initializer.a,
                                       .init_b = initializer.b}};
    if (op == SAMBA_OP_state)
        attrs.state.kind = SAMBA_KIND_BUFFER;
    leaf = samba_emit(graph, op, 0, NULL, &attrs);
    return samba_trace_value(graph, leaf == SAMBA_NONE ? SAMBA_NONE : samba_emit_cast(graph, leaf, traced));
}

samba_value samba_parameter(samba_graph *graph, const char *name, samba_dtype dtype, int rank, const int64_t *shape,
                            samba_initializer initializer)
{
    return make_named(graph, "parameter", SAMBA_OP_parameter, name, dtype, rank, shape, initializer);
}

samba_value samba_register_buffer(samba_graph *graph, const char *name, samba_dtype dtype, int rank, const int64_t *shape,
                                  samba_initializer initializer)
{
    return make_named(graph, "buffer", SAMBA_OP_state, name, dtype, rank, shape, initializer);
}

void samba_assign(samba_value buffer, samba_value value)
{
    samba_graph *graph;
    if (!samba_trace_enter("assign", 2, (samba_value[]){buffer, value}, &graph))
        return;
    samba_node target = samba_trace_node(buffer), source = samba_trace_node(value);
    const bool input = target.op == SAMBA_OP_input;
    if (target.op != SAMBA_OP_state && !input)
        samba_graph_fail_at(graph, SAMBA_ERROR_ARGUMENT, "assign",
                            "the target must be a buffer made by samba_register_buffer, or an input, given a value of %s",
                            samba_op_table[target.op].name);
    else if (target.dtype != source.dtype || !samba_shape_equal(target.rank, target.shape, source.rank, source.shape))
        samba_graph_fail_at(graph, SAMBA_ERROR_SHAPE, "assign", "%s \"%.200s\" is %s, the value assigned to it %s",
                            input ? "input" : "buffer",
                            samba_graph_name_at(graph, input ? target.attrs->leaf.name : target.attrs->state.name),
                            SAMBA_TYPE_OF(&target), SAMBA_TYPE_OF(&source));
    else
        samba_graph_sink(
            graph, (samba_sink){.kind = SAMBA_SINK_ASSIGN, .phase = SAMBA_FWD, .value = value.index, .target = buffer.index});
}

samba_ref samba_trace_argin(samba_graph *graph, const char *name, samba_dtype dtype, double value, int64_t role)
{
    samba_attrs attrs = {
        .argin = {.name = samba_trace_scoped(graph, "hyperparameter", name), .dtype = dtype, .value = value, .role = role}};
    return samba_emit(graph, SAMBA_OP_argin, 0, NULL, &attrs);
}

samba_value samba_training(samba_graph *graph)
{
    if (!graph || graph->status != SAMBA_OK)
        return samba_trace_none(graph);
    samba_attrs attrs = {.argin = {.name = samba_graph_intern(graph, "training"), .dtype = SAMBA_FLOAT64, .value = 1, .role = 3}};
    return samba_trace_value(graph, samba_emit(graph, SAMBA_OP_argin, 0, NULL, &attrs));
}

samba_value samba_trace_replica_count(samba_graph *graph)
{
    if (!graph || graph->status != SAMBA_OK)
        return samba_trace_none(graph);
    samba_attrs attrs = {
        .argin = {.name = samba_graph_intern(graph, "replica_count"), .dtype = SAMBA_FLOAT64, .value = 1, .role = 4}};
    return samba_trace_value(graph, samba_emit(graph, SAMBA_OP_argin, 0, NULL, &attrs));
}

static void add_output(samba_graph *graph, samba_sink_kind kind, const char *name, samba_value value)
{
    const char *what = kind == SAMBA_SINK_LOSS ? "loss" : "output";
    char origin[256];
    samba_graph *of;
    if (!graph)
        return;
    if (value.graph != graph && graph->status == SAMBA_OK) {
        samba_graph_fail_at(graph, SAMBA_ERROR_ARGUMENT, what, "the value of \"%.200s\" belongs to %s%s", name ? name : "",
                            value.graph ? "another graph" : "no graph", value.graph ? "" : origin_of(value, origin));
        return;
    }
    if (!samba_trace_enter(what, 1, &value, &of))
        return;
    samba_location here = graph->location, its = samba_node_at(graph, value.index)->location;
    if (its.source) /* what is wrong with a value was computed there */
        graph->location = its;
    if (kind != SAMBA_SINK_LOSS || samba_trace_need_floating(value, what)) {
        uint32_t index = samba_trace_scoped(graph, what, name);
        samba_graph_sink(
            graph, (samba_sink){.kind = kind, .phase = graph->phase, .name = index, .target = SAMBA_NONE, .value = value.index});
    }
    graph->location = here;
}

void samba_output(samba_graph *graph, const char *name, samba_value value) { add_output(graph, SAMBA_SINK_OUTPUT, name, value); }

void samba_loss(samba_graph *graph, const char *name, samba_value value) { add_output(graph, SAMBA_SINK_LOSS, name, value); }

/* ---- looking at values ---- */

static const samba_node *node_or_null(samba_value value)
{
    return value.graph && value.index < value.graph->node_count ? samba_node_at(value.graph, value.index) : NULL;
}

int samba_value_rank(samba_value value)
{
    const samba_node *node = node_or_null(value);
    return node ? node->rank : 0;
}

int64_t samba_value_size(samba_value value, int dim)
{
    const samba_node *node = node_or_null(value);
    int at;
    if (!node || value.graph->status != SAMBA_OK || !samba_trace_dim(value.graph, "size", node->rank, dim, &at))
        return 0;
    if (node->rank == 0) {
        samba_graph_fail_at(value.graph, SAMBA_ERROR_INDEX, "size", "a value of rank 0 has no dims");
        return 0;
    }
    return node->shape[at];
}

int samba_value_dim(samba_value value, const char *what, int dim)
{
    const samba_node *node = node_or_null(value);
    int at;
    return node && value.graph->status == SAMBA_OK && samba_trace_dim(value.graph, what ? what : "dim", node->rank, dim, &at)
               ? at
               : -1;
}

samba_dtype samba_value_dtype(samba_value value)
{
    const samba_node *node = node_or_null(value);
    return node ? node->dtype : SAMBA_FLOAT32;
}
