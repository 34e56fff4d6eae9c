/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading a model into a graph: names and their scopes, inputs, initializers, the walk over nodes, functions and graphs inside
 * nodes, outputs. */
#include "base/null.h"
#include "data/data.h"
#include "onnx/onnx.h"

#include <stdlib.h>
#include <string.h>

#define DEEPEST 64            /* functions and graphs inside each other */
#define MOST_NODES (1 << 18)  /* that loops and functions unroll to, with the names that their turns and calls bind */
#define MOST_VALUES (1 << 21) /* of the graph: a node may be unrolled to many */
#define MOST_TEXTS 256        /* attributes of a node, imports of a function */
#define SHOWN_REFUSALS 900    /* bytes of them in a message: a context's message is short */

samba_onnx_options samba_onnx_defaults(void) { return (samba_onnx_options){.struct_size = sizeof(samba_onnx_options)}; }

/* What nodes cost that a loop or function unrolls to, and names that a turn or a call binds: eight of them are as a node. */
static samba_status spend(samba_onnx_reader *reader, size_t nodes, size_t names)
{
    if (names / 8 > MOST_NODES || (reader->nodes += (int64_t)(nodes + names / 8)) > MOST_NODES)
        return samba_fail(reader->context, SAMBA_ERROR_UNSUPPORTED, "%s: loops and functions unroll to more than %d nodes",
                          reader->model->path, MOST_NODES);
    return SAMBA_OK;
}

/* Of a graph inside a node: constants. */
static samba_status bind_constants(samba_onnx_reader *reader, size_t count, Samba__Onnx__TensorProto **initializers)
{
    for (size_t i = 0; i < count; i++) {
        const Samba__Onnx__TensorProto *proto = initializers[i];
        if (!proto->name || !proto->name[0])
            return samba_fail(reader->context, SAMBA_ERROR_FORMAT, "%s: an initializer has no name", reader->model->path);
        samba_onnx_item *item = samba_onnx_new_item(reader, proto->name);
        if (!item)
            return SAMBA_ERROR_MEMORY;
        item->initializer = item->origin = proto;
        if (!samba_onnx_bind(reader, proto->name, item))
            return SAMBA_ERROR_FORMAT;
    }
    return SAMBA_OK;
}

/* What the model stores, but for what the caller has a value for. */
static samba_status bind_stored(samba_onnx_reader *reader)
{
    for (int i = 0; i < reader->model->stored_count; i++) {
        const samba_onnx_stored *stored = &reader->model->stored[i];
        if (samba_onnx_find(reader, stored->name))
            continue;
        samba_onnx_item *item = samba_onnx_new_item(reader, stored->name);
        if (!item)
            return SAMBA_ERROR_MEMORY;
        item->initializer = item->origin = stored->proto;
        item->stored = reader->options.initializers == SAMBA_ONNX_PARAMETERS ? stored : NULL;
        if (!samba_onnx_bind(reader, stored->name, item))
            return SAMBA_ERROR_FORMAT;
    }
    return SAMBA_OK;
}

/* ---- nodes ---- */

static bool is_default(const char *domain) { return !domain || !domain[0] || strcmp(domain, "ai.onnx") == 0; }
static bool same_domain(const char *a, const char *b) { return is_default(a) ? is_default(b) : b && strcmp(a, b) == 0; }

static int64_t version_of(const samba_onnx_frame *frame, const char *domain)
{
    for (size_t i = 0; i < frame->import_count; i++)
        if (same_domain(frame->imports[i]->domain, domain))
            return frame->imports[i]->version;
    return 0;
}

/* By name, domain and overload, as nodes name functions. */
static int compare_functions(const void *a, const void *b)
{
    const Samba__Onnx__FunctionProto *x = *(const Samba__Onnx__FunctionProto *const *)a,
                                     *y = *(const Samba__Onnx__FunctionProto *const *)b;
    int order = strcmp(x->name, y->name);
    if (order == 0)
        order = strcmp(is_default(x->domain) ? "" : x->domain, is_default(y->domain) ? "" : y->domain);
    return order ? order : strcmp(x->overload ? x->overload : "", y->overload ? y->overload : "");
}

/* Sorted: each node looks for its own, and a file may have as many of both. */
static samba_status sort_functions(samba_onnx_reader *reader)
{
    const Samba__Onnx__ModelProto *message = reader->model->message;
    SAMBA_TRY(SAMBA_ROOM(&reader->arena, reader->functions, message->n_functions + 1));
    for (size_t i = 0; i < message->n_functions; i++)
        if (message->functions[i]->name)
            reader->functions[reader->function_count++] = message->functions[i];
    qsort(reader->functions, reader->function_count, sizeof *reader->functions, compare_functions);
    return SAMBA_OK;
}

static const Samba__Onnx__FunctionProto *find_function(const samba_onnx_reader *reader, const Samba__Onnx__NodeProto *proto)
{
    const Samba__Onnx__FunctionProto key = {.name = proto->op_type, .domain = proto->domain, .overload = proto->overload},
                                     *searched = &key, **found;
    found = bsearch(&searched, reader->functions, reader->function_count, sizeof *reader->functions, compare_functions);
    return found ? *found : NULL;
}

/* What the node says and its function did not ask for; outputs that it did not make. */
static void check_all_told(samba_onnx_node *node)
{
    const Samba__Onnx__NodeProto *proto = node->proto;
    for (size_t i = 0; i < proto->n_attribute && !node->refused; i++)
        if (!node->told[i])
            samba_onnx_refuse(node, "attribute %.100s is not supported",
                              proto->attribute[i]->name ? proto->attribute[i]->name : "without a name");
    for (int i = 0; i < node->input_count && !node->refused; i++)
        if (node->inputs[i] && !node->read[i])
            samba_onnx_refuse(node, "input %d is not supported", i);
    for (int i = 0; i < node->output_count && !node->refused; i++)
        if (node->outputs[i] && node->outputs[i]->missing)
            samba_onnx_refuse(node, "output %d is not supported", i);
}

static void perform(samba_onnx_node *node, const Samba__Onnx__FunctionProto *function)
{
    if (function) {
        samba_onnx_call(node, function);
        return;
    }
    const samba_onnx_operator *operator= samba_onnx_operator_find(node->proto->domain, node->op, node->version);
    if (node->version == 0)
        samba_onnx_refuse(node, "the model does not say which version of this domain's operators it uses (opset_import)");
    else if (!operator)
        samba_onnx_refuse(node, "there is no such operator");
    else if (!operator->function)
        samba_onnx_refuse(node, "%s", operator->reason);
    else
        operator->function(node);
    if (node->graph->status != SAMBA_OK)
        samba_onnx_refuse(node, "%s", node->graph->error);
    if (!node->refused)
        check_all_told(node);
}

/* An Identity of an initializer is stored under its own name already (roles.c). */
static bool is_stored(const samba_onnx_reader *reader, const Samba__Onnx__NodeProto *proto)
{
    return reader->depth == 0 && proto->n_input == 1 && proto->n_output == 1 && strcmp(proto->op_type, "Identity") == 0 &&
           samba_onnx_stored_as(reader->model, proto->output[0]) && samba_onnx_stored_as(reader->model, proto->input[0]);
}

static samba_status read_node(samba_onnx_reader *reader, const Samba__Onnx__NodeProto *proto);

/* The nodes that were left out so far, in their order: something needs one of them. Among them none needs a later one. */
static samba_status read_skipped(samba_onnx_reader *reader)
{
    const Samba__Onnx__GraphProto *graph = reader->model->message->graph;
    reader->filling = true;
    for (size_t i = 0; i < reader->at; i++)
        if (reader->skip[i]) {
            reader->skip[i] = 0;
            SAMBA_TRY(read_node(reader, graph->node[i]));
        }
    reader->filling = false;
    return SAMBA_OK;
}

static samba_status fail_before(const samba_onnx_node *node, int input)
{
    const Samba__Onnx__NodeProto *proto = node->proto;
    return samba_fail(node->reader->context, SAMBA_ERROR_FORMAT,
                      "%s: node '%.160s' (%.100s) needs \"%.200s\", which nothing before it gives", node->reader->model->path,
                      proto->name ? proto->name : "", proto->op_type, proto->input[input]);
}

static samba_status find_inputs(samba_onnx_node *node)
{
    const samba_onnx_reader *reader = node->reader;
    const Samba__Onnx__NodeProto *proto = node->proto;
    for (int i = 0; i < node->input_count; i++) {
        if (!proto->input[i][0])
            continue;
        node->inputs[i] = samba_onnx_find(reader, proto->input[i]);
        if (!node->inputs[i])
            return fail_before(node, i);
    }
    while (node->input_count > 0 && !node->inputs[node->input_count - 1])
        node->input_count--;
    return SAMBA_OK;
}

/* Of a node that was left out before, those that it has already. */
static samba_status make_outputs(samba_onnx_node *node)
{
    samba_onnx_reader *reader = node->reader;
    for (int i = 0; i < node->output_count; i++) {
        const char *name = node->proto->output[i];
        if (!name[0])
            continue;
        samba_onnx_item *item = samba_onnx_find(reader, name);
        if (!item || !item->skipped)
            item = samba_onnx_new_item(reader, name);
        if (!item)
            return SAMBA_ERROR_MEMORY;
        item->missing = true;
        item->maker = node->proto;
        node->outputs[i] = item;
    }
    return SAMBA_OK;
}

/* Names for them: while the node is read it does not see its own results. */
static samba_status bind_outputs(samba_onnx_node *node)
{
    for (int i = 0; i < node->output_count; i++) {
        samba_onnx_item *item = node->outputs[i];
        if (item && !item->skipped && !samba_onnx_bind(node->reader, node->proto->output[i], item))
            return SAMBA_ERROR_FORMAT;
        if (item)
            item->skipped = false;
    }
    return SAMBA_OK;
}

static samba_status skip_node(samba_onnx_reader *reader, const Samba__Onnx__NodeProto *proto)
{
    for (size_t i = 0; i < proto->n_output; i++) {
        samba_onnx_item *item = proto->output[i][0] ? samba_onnx_new_item(reader, proto->output[i]) : NULL;
        if (!proto->output[i][0])
            continue;
        if (!item)
            return SAMBA_ERROR_MEMORY;
        item->skipped = item->missing = true;
        item->maker = proto;
        if (!samba_onnx_bind(reader, proto->output[i], item))
            return SAMBA_ERROR_FORMAT;
    }
    return SAMBA_OK;
}

static samba_status read_node(samba_onnx_reader *reader, const Samba__Onnx__NodeProto *proto)
{
    if (!proto->op_type)
        return samba_fail(reader->context, SAMBA_ERROR_FORMAT, "%s: a node names no operator", reader->model->path);
    if (is_stored(reader, proto))
        return SAMBA_OK;
    if (proto->n_input > SAMBA_MAX_ARITY || proto->n_output > SAMBA_MAX_ARITY || proto->n_attribute > MOST_TEXTS)
        return samba_fail(reader->context, SAMBA_ERROR_UNSUPPORTED,
                          "%s: a node has %zu inputs, %zu outputs and %zu attributes; at most %d, %d and %d are supported",
                          reader->model->path, proto->n_input, proto->n_output, proto->n_attribute, SAMBA_MAX_ARITY,
                          SAMBA_MAX_ARITY, MOST_TEXTS);
    if (reader->depth > 0) /* nodes of the model's own graph are read once */
        SAMBA_TRY(spend(reader, 1, proto->n_input + proto->n_output + proto->n_attribute));
    if (reader->graph->node_count > MOST_VALUES)
        return samba_fail(reader->context, SAMBA_ERROR_UNSUPPORTED, "%s: its nodes unroll to more than %d operators",
                          reader->model->path, MOST_VALUES);
    samba_onnx_node node = {.reader = reader,
                            .graph = reader->graph,
                            .proto = proto,
                            .op = proto->op_type,
                            .version = version_of(reader->frame, proto->domain),
                            .input_count = (int)proto->n_input,
                            .output_count = (int)proto->n_output};
    SAMBA_TRY(SAMBA_ROOM(&reader->arena, node.inputs, proto->n_input + 1));
    SAMBA_TRY(SAMBA_ROOM(&reader->arena, node.outputs, proto->n_output + 1));
    SAMBA_TRY(SAMBA_ROOM(&reader->arena, node.read, proto->n_input + 1));
    SAMBA_TRY(SAMBA_ROOM(&reader->arena, node.told, proto->n_attribute + 1));
    SAMBA_TRY(find_inputs(&node));
    SAMBA_TRY(make_outputs(&node));
    const char *module = proto->name && proto->name[0] ? proto->name : proto->op_type;
    samba_set_module(reader->graph, module);
    if (!samba_onnx_recognize(&node)) {
        bool missing = false;
        for (int i = 0; i < node.input_count; i++) {
            if (!node.inputs[i] || !node.inputs[i]->skipped)
                continue;
            if (reader->filling)
                return fail_before(&node, i);
            SAMBA_TRY(read_skipped(reader));
            samba_set_module(reader->graph, module);
        }
        for (int i = 0; i < node.input_count; i++)
            missing |= node.inputs[i] && node.inputs[i]->missing;
        if (!missing)
            perform(&node, find_function(reader, proto));
        for (int i = 0; i < node.output_count; i++)
            if (node.outputs[i])
                node.outputs[i]->missing |= node.refused || missing;
    }
    return bind_outputs(&node);
}

static samba_status read_main_graph(samba_onnx_reader *reader)
{
    const Samba__Onnx__GraphProto *graph = reader->model->message->graph;
    SAMBA_TRY(samba_onnx_find_skippable(reader));
    for (reader->at = 0; reader->at < graph->n_node; reader->at++)
        SAMBA_TRY((reader->skip && reader->skip[reader->at] ? skip_node : read_node)(reader, graph->node[reader->at]));
    return SAMBA_OK;
}

samba_status samba_onnx_read_nodes(samba_onnx_reader *reader, size_t count, Samba__Onnx__NodeProto **nodes)
{
    for (size_t i = 0; i < count; i++)
        SAMBA_TRY(read_node(reader, nodes[i]));
    return SAMBA_OK;
}

/* ---- graphs inside nodes, and functions ---- */

static bool enter(samba_onnx_node *node)
{
    if (node->reader->depth < DEEPEST)
        return true;
    samba_onnx_refuse(node, "functions and graphs are nested more than %d deep, or call themselves", DEEPEST);
    return false;
}

/* What reading inside has said for good: it ends as a line of this node. */
static bool end_inside(samba_onnx_node *node, samba_status status, int refusals_before)
{
    if (status != SAMBA_OK)
        samba_onnx_refuse(node, "%s", samba_error_message(node->reader->context));
    else if (node->reader->refusal_count > refusals_before)
        node->refused = true; /* its nodes have said why */
    return !node->refused;
}

bool samba_onnx_run_graph(samba_onnx_node *node, const Samba__Onnx__GraphProto *graph, int count, samba_onnx_item **inputs,
                          samba_onnx_item ***outputs)
{
    samba_onnx_reader *reader = node->reader;
    if (!graph || node->refused || !enter(node))
        return false;
    if (count != (int)graph->n_input) {
        samba_onnx_refuse(node, "its graph has %zu inputs, %d are given", graph->n_input, count);
        return false;
    }
    samba_onnx_scope scope, *outer = reader->scope;
    int refusals = reader->refusal_count;
    if (!samba_onnx_open_scope(reader, &scope, outer))
        return end_inside(node, SAMBA_ERROR_MEMORY, refusals);
    reader->scope = &scope;
    reader->depth++;
    samba_status status = SAMBA_OK;
    for (int i = 0; i < count && status == SAMBA_OK; i++)
        if (!graph->input[i]->name || !samba_onnx_bind_as(reader, graph->input[i]->name, inputs[i]))
            status = SAMBA_ERROR_FORMAT;
    if (status == SAMBA_OK) /* of each turn of a loop again */
        status = spend(reader, graph->n_node ? 0 : 3, graph->n_input + graph->n_initializer + graph->n_output);
    if (status == SAMBA_OK)
        status = bind_constants(reader, graph->n_initializer, graph->initializer);
    if (status == SAMBA_OK)
        status = samba_onnx_read_nodes(reader, graph->n_node, graph->node);
    if (status == SAMBA_OK)
        status = SAMBA_ROOM(&reader->arena, *outputs, graph->n_output + 1);
    for (size_t i = 0; i < graph->n_output && status == SAMBA_OK; i++) {
        (*outputs)[i] = graph->output[i]->name ? samba_onnx_find(reader, graph->output[i]->name) : NULL;
        if (!(*outputs)[i])
            status = samba_fail(reader->context, SAMBA_ERROR_FORMAT, "its graph gives no value \"%.200s\"",
                                graph->output[i]->name ? graph->output[i]->name : "");
    }
    reader->depth--;
    reader->scope = outer;
    return end_inside(node, status, refusals);
}

/* The attributes that nodes of the body may refer to: the call's, and the function's own defaults. */
static samba_status resolve_attributes(samba_onnx_node *node, const Samba__Onnx__FunctionProto *function, samba_onnx_frame *frame)
{
    samba_onnx_reader *reader = node->reader;
    if (function->n_attribute_proto > MOST_TEXTS || function->n_opset_import > MOST_TEXTS)
        return samba_fail(reader->context, SAMBA_ERROR_UNSUPPORTED, "function %.100s has more than %d attributes or imports",
                          function->name, MOST_TEXTS);
    SAMBA_TRY(spend(reader, function->n_node ? 0 : 3, function->n_input + function->n_output + function->n_attribute_proto));
    SAMBA_TRY(SAMBA_ROOM(&reader->arena, frame->attributes, node->proto->n_attribute + function->n_attribute_proto + 1));
    for (size_t i = 0; i < node->proto->n_attribute; i++) {
        const char *name = node->proto->attribute[i]->name;
        const Samba__Onnx__AttributeProto *attribute = name ? samba_onnx_attribute(node, name) : NULL;
        if (!attribute)
            continue;
        Samba__Onnx__AttributeProto *copy;
        SAMBA_TRY(SAMBA_ROOM(&reader->arena, copy, 1));
        *copy = *attribute;
        copy->name = node->proto->attribute[i]->name;
        copy->ref_attr_name = NULL;
        frame->attributes[frame->attribute_count++] = copy;
    }
    for (size_t i = 0; i < function->n_attribute_proto; i++)
        frame->attributes[frame->attribute_count++] = function->attribute_proto[i];
    return SAMBA_OK;
}

static samba_status read_body(samba_onnx_node *node, const Samba__Onnx__FunctionProto *function)
{
    samba_onnx_reader *reader = node->reader;
    for (int i = 0; i < (int)function->n_input; i++) {
        samba_onnx_item *item = samba_onnx_item_in(node, i);
        if (item && !samba_onnx_bind_as(reader, function->input[i], item))
            return SAMBA_ERROR_FORMAT;
    }
    SAMBA_TRY(samba_onnx_read_nodes(reader, function->n_node, function->node));
    for (int i = 0; i < node->output_count && i < (int)function->n_output; i++) {
        const samba_onnx_item *item = samba_onnx_find(reader, function->output[i]);
        if (!item)
            return samba_fail(reader->context, SAMBA_ERROR_FORMAT, "function %.100s gives no value \"%.200s\"", function->name,
                              function->output[i]);
        if (node->outputs[i]) {
            const char *name = node->outputs[i]->name;
            *node->outputs[i] = *item;
            node->outputs[i]->name = name;
        }
    }
    return SAMBA_OK;
}

void samba_onnx_call(samba_onnx_node *node, const Samba__Onnx__FunctionProto *function)
{
    samba_onnx_reader *reader = node->reader;
    if (!enter(node))
        return;
    samba_onnx_frame frame = {reader->frame, function, function->n_opset_import, function->opset_import, 0, NULL};
    samba_onnx_scope scope, *outer = reader->scope;
    int refusals = reader->refusal_count;
    samba_status status = resolve_attributes(node, function, &frame);
    if (status == SAMBA_OK && !samba_onnx_open_scope(reader, &scope, NULL))
        status = SAMBA_ERROR_MEMORY;
    if (status == SAMBA_OK) {
        /* a body that is never left: its inputs are found in the caller's scope first */
        reader->scope = &scope;
        reader->frame = &frame;
        reader->depth++;
        status = read_body(node, function);
        reader->depth--;
        reader->frame = frame.caller;
        reader->scope = outer;
    }
    if (end_inside(node, status, refusals))
        check_all_told(node);
}

/* ---- inputs and outputs of the model ---- */

static const samba_tensor *example_of(const samba_onnx_reader *reader, const char *name)
{
    for (int i = 0; i < reader->options.input_count; i++)
        if (strcmp(samba_tensor_name(reader->options.inputs[i]), name) == 0)
            return reader->options.inputs[i];
    return NULL;
}

static samba_status size_of_dim(const samba_onnx_reader *reader, const samba_onnx_tensor_info *info, int dim, int64_t *size)
{
    *size = info->shape[dim];
    if (*size >= 0)
        return SAMBA_OK;
    for (int i = 0; i < reader->options.dim_count; i++)
        if (strcmp(reader->options.dims[i].name, info->dims[dim]) == 0) {
            *size = reader->options.dims[i].size;
            return *size >= 0 ? SAMBA_OK
                              : samba_fail(reader->context, SAMBA_ERROR_ARGUMENT, "the dim \"%.100s\" cannot have size %lld",
                                           info->dims[dim], (long long)*size);
        }
    if (info->dims[dim][0])
        return samba_fail(
            reader->context, SAMBA_ERROR_NAME,
            "%s: dim %d of input \"%.200s\" is \"%.100s\", whose size is not given: --dim %.100s=SIZE, or an example input",
            reader->model->path, dim, info->name, info->dims[dim], info->dims[dim]);
    return samba_fail(reader->context, SAMBA_ERROR_NAME,
                      "%s: dim %d of input \"%.200s\" has no size and no name; give an example input", reader->model->path, dim,
                      info->name);
}

static samba_status check_example(const samba_onnx_reader *reader, const samba_onnx_tensor_info *info,
                                  const samba_tensor *example)
{
    bool fits = samba_tensor_dtype(example) == info->dtype && (info->rank < 0 || samba_tensor_rank(example) == info->rank);
    for (int i = 0; fits && i < info->rank; i++)
        fits = info->shape[i] < 0 || info->shape[i] == samba_tensor_shape(example)[i];
    char declared[SAMBA_SHAPE_TEXT];
    if (fits)
        return SAMBA_OK;
    samba_shape_format(info->rank > 0 ? info->rank : 0, info->shape, declared, sizeof declared);
    return samba_fail(reader->context, SAMBA_ERROR_SHAPE, "%s: input \"%.200s\" is %s%s in the model (-1: any size), given %s%s",
                      reader->model->path, info->name, samba_dtype_name(info->dtype), info->rank < 0 ? " of any shape" : declared,
                      samba_dtype_name(samba_tensor_dtype(example)), SAMBA_SHAPE_OF(example));
}

static samba_status add_input(samba_onnx_reader *reader, int index)
{
    samba_onnx *model = reader->model;
    samba_onnx_tensor_info info;
    SAMBA_TRY(samba_onnx_input(model, index, &info));
    const Samba__Onnx__TypeProto *type = model->inputs[index]->type;
    int32_t element = type && type->value_case == SAMBA__ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE ? type->tensor_type->elem_type : 0;
    if (info.dtype == SAMBA_DTYPE_COUNT)
        return samba_fail(reader->context, SAMBA_ERROR_UNSUPPORTED,
                          "%s: input \"%.200s\" is %s; tensors of numbers are supported", model->path, info.name,
                          element ? samba_onnx_type_name(element) : "no tensor (a sequence, map or optional)");
    const samba_tensor *example = example_of(reader, info.name);
    samba_tensor *made = NULL;
    if (example)
        SAMBA_TRY(check_example(reader, &info, example));
    else {
        int64_t shape[SAMBA_MAX_RANK];
        if (info.rank < 0)
            return samba_fail(reader->context, SAMBA_ERROR_NAME, "%s: input \"%.200s\" has no shape; give an example input",
                              model->path, info.name);
        for (int i = 0; i < info.rank; i++)
            SAMBA_TRY(size_of_dim(reader, &info, i, &shape[i]));
        SAMBA_TRY(samba_tensor_empty(reader->context, info.name, info.dtype, info.rank, shape, &made));
    }
    samba_status status = samba_graph_add_input(reader->graph, example ? example : made);
    samba_tensor_free(made);
    SAMBA_TRY(status);
    samba_onnx_item *item = samba_onnx_new_item(reader, info.name);
    if (!item)
        return SAMBA_ERROR_MEMORY;
    item->value = samba_input(reader->graph, info.name);
    item->type = element;
    return samba_onnx_bind(reader, info.name, item) ? SAMBA_OK : SAMBA_ERROR_FORMAT;
}

static samba_status add_outputs(samba_onnx_reader *reader)
{
    const Samba__Onnx__GraphProto *graph = reader->model->message->graph;
    for (size_t i = 0; i < graph->n_output; i++) {
        const char *name = graph->output[i]->name;
        samba_onnx_item *item = samba_onnx_find(reader, name);
        if (!item)
            return samba_fail(reader->context, SAMBA_ERROR_FORMAT, "%s: no node gives the output \"%.200s\"", reader->model->path,
                              name);
        if (item->missing)
            continue;
        if (item->is_list)
            return samba_fail(reader->context, SAMBA_ERROR_UNSUPPORTED,
                              "%s: output \"%.200s\" is a sequence; tensors are supported", reader->model->path, name);
        samba_value value = samba_onnx_value_of(reader, item);
        if (!value.graph)
            return samba_graph_stick(reader->graph, SAMBA_ERROR_FORMAT), SAMBA_ERROR_FORMAT;
        samba_output(reader->graph, name, value);
    }
    return samba_graph_status(reader->graph);
}

/* ---- the options ---- */

static samba_status check_options(samba_onnx_reader *reader)
{
    const samba_onnx *model = reader->model;
    for (int i = 0; i < reader->options.input_count; i++) {
        const char *name = samba_tensor_name(reader->options.inputs[i]);
        bool known = false;
        for (int k = 0; k < model->input_count; k++)
            known |= strcmp(model->inputs[k]->name, name) == 0;
        if (!known)
            return samba_fail(reader->context, SAMBA_ERROR_NAME, "%s: there is no input \"%.200s\"", model->path, name);
    }
    for (int i = 0; i < reader->options.dim_count; i++) {
        bool known = false;
        for (int k = 0; k < model->input_count; k++) {
            samba_onnx_tensor_info info;
            SAMBA_TRY(samba_onnx_input(model, k, &info));
            for (int d = 0; d < info.rank; d++)
                known |= info.shape[d] < 0 && strcmp(info.dims[d], reader->options.dims[i].name) == 0;
        }
        if (!known)
            return samba_fail(reader->context, SAMBA_ERROR_NAME, "%s: no input has a dim \"%.100s\"", model->path,
                              reader->options.dims[i].name);
    }
    return SAMBA_OK;
}

static samba_status check_freezing(const samba_onnx_reader *reader)
{
    for (int i = 0; i < reader->options.freeze_count; i++)
        if (reader->freeze_hits[i] == 0)
            return samba_fail(reader->context, SAMBA_ERROR_NAME,
                              "%s: no parameter has a name like \"%.200s\", which is to be frozen", reader->model->path,
                              reader->options.freeze[i]);
    return SAMBA_OK;
}

/* ---- the whole ---- */

static samba_status refuse_all(const samba_onnx_reader *reader)
{
    const char *text = reader->refusals.data ? reader->refusals.data : "";
    int shown = (int)strlen(text);
    int sentences = 1;
    if (shown > SHOWN_REFUSALS) /* whole ones */
        for (shown = SHOWN_REFUSALS; shown > 0 && strncmp(text + shown, "; node '", 8) != 0; shown--)
            ;
    for (int i = 0; i < shown; i++)
        sentences += strncmp(text + i, "; node '", 8) == 0;
    int more = reader->refusal_count - sentences;
    return more > 0 ? samba_fail(reader->context, SAMBA_ERROR_UNSUPPORTED, "%.*s; and %d others", shown, text, more)
                    : samba_fail(reader->context, SAMBA_ERROR_UNSUPPORTED, "%.*s", shown, text);
}

typedef struct binding_list {
    int count;
    const samba_onnx_binding *bindings; /* NULL: the model's inputs are the graph's */
    samba_value *outputs;
} binding_list;

/* Inputs and initializers that are values of the caller's. */
static samba_status bind_values(samba_onnx_reader *reader, const binding_list *list)
{
    for (int i = 0; i < list->count; i++) {
        const samba_onnx_binding *binding = &list->bindings[i];
        samba_onnx_item *item = samba_onnx_new_item(reader, binding->name);
        if (!item)
            return SAMBA_ERROR_MEMORY;
        item->value = binding->value;
        if (!binding->name || binding->value.graph != reader->graph || binding->value.index == SAMBA_NONE)
            return samba_fail(reader->context, SAMBA_ERROR_ARGUMENT, "%s: binding %d has no name or no value of the graph",
                              reader->model->path, i);
        bool known = samba_onnx_stored_as(reader->model, binding->name);
        for (int k = 0; k < reader->model->input_count && !known; k++)
            known = strcmp(reader->model->inputs[k]->name, binding->name) == 0;
        if (!known)
            return samba_fail(reader->context, SAMBA_ERROR_NAME, "%s: there is no input and no initializer \"%.200s\"",
                              reader->model->path, binding->name);
        if (!samba_onnx_bind(reader, binding->name, item))
            return SAMBA_ERROR_NAME;
    }
    for (int i = 0; i < reader->model->input_count; i++)
        if (!samba_onnx_find(reader, reader->model->inputs[i]->name))
            return samba_fail(reader->context, SAMBA_ERROR_NAME, "%s: no value is given for input \"%.200s\"",
                              reader->model->path, reader->model->inputs[i]->name);
    return SAMBA_OK;
}

static samba_status give_values(samba_onnx_reader *reader, const binding_list *list)
{
    const Samba__Onnx__GraphProto *graph = reader->model->message->graph;
    for (size_t i = 0; i < graph->n_output; i++) {
        samba_onnx_item *item = samba_onnx_find(reader, graph->output[i]->name);
        if (!item || item->is_list)
            return samba_fail(reader->context, SAMBA_ERROR_FORMAT, "%s: no node gives a tensor \"%.200s\"", reader->model->path,
                              graph->output[i]->name);
        list->outputs[i] = samba_onnx_value_of(reader, item);
        if (!list->outputs[i].graph)
            return SAMBA_ERROR_FORMAT;
    }
    return SAMBA_OK;
}

static samba_status read_model(samba_onnx_reader *reader, const binding_list *list)
{
    samba_onnx *model = reader->model;
    samba_onnx_scope scope;
    samba_onnx_frame frame = {NULL, NULL, model->message->n_opset_import, model->message->opset_import, 0, NULL};
    if (model->message->n_opset_import > MOST_TEXTS)
        return samba_fail(reader->context, SAMBA_ERROR_UNSUPPORTED, "%s: it imports more than %d sets of operators", model->path,
                          MOST_TEXTS);
    SAMBA_TRY(check_options(reader));
    SAMBA_TRY(sort_functions(reader));
    SAMBA_TRY(SAMBA_ROOM(&reader->arena, reader->freeze_hits, reader->options.freeze_count + 1));
    if (!samba_onnx_open_scope(reader, &scope, NULL))
        return SAMBA_ERROR_MEMORY;
    reader->scope = &scope;
    reader->frame = &frame;
    if (list->bindings) {
        SAMBA_TRY(bind_values(reader, list));
        SAMBA_TRY(bind_stored(reader));
    } else {
        SAMBA_TRY(bind_stored(reader));
        for (int i = 0; i < model->input_count; i++)
            SAMBA_TRY(add_input(reader, i));
    }
    SAMBA_TRY(read_main_graph(reader));
    samba_set_module(reader->graph, NULL);
    if (reader->refusal_count > 0)
        return refuse_all(reader);
    SAMBA_TRY(list->bindings ? give_values(reader, list) : add_outputs(reader));
    return check_freezing(reader);
}

static samba_status read_into(samba_onnx *model, samba_graph *graph, const samba_onnx_options *given, const binding_list *list,
                              const char *call)
{
    samba_onnx_reader reader = {.model = model, .context = model->context, .graph = graph, .options = samba_onnx_defaults()};
    if (given)
        SAMBA_TRY(samba_options_take(model->context, call, given, sizeof reader.options, &reader.options));
    SAMBA_TRY(samba_graph_status(graph));
    model->built_in = 0;
    model->kept_count = 0;
    samba_arena_init(&reader.arena, model->context);
    samba_text_init(&reader.refusals, model->context);
    int64_t refused = samba_memory_refused(model->context) + samba_memory_refused(graph->context);
    samba_status status = read_model(&reader, list);
    if (samba_memory_refused(model->context) + samba_memory_refused(graph->context) > refused) /* told as whatever came of it */
        status = samba_fail(model->context, SAMBA_ERROR_MEMORY, "%s: no memory to read the model", model->path);
    samba_onnx_known_free(&reader);
    samba_text_clear(&reader.refusals);
    samba_arena_free(&reader.arena);
    if (status != SAMBA_OK) /* the graph is half a model: nobody may compile it */
        samba_graph_fail(graph, status, "%s", samba_error_message(model->context));
    return status;
}

samba_status samba_onnx_read(samba_onnx *model, samba_graph *graph, const samba_onnx_options *options)
{
    if (!model || !graph)
        return SAMBA_ERROR_ARGUMENT;
    SAMBA_TRY(samba_graph_status(graph));
    if (graph->node_count > 0)
        return samba_fail(model->context, SAMBA_ERROR_STATE, "%s: a model is read into a graph without values", model->path);
    return read_into(model, graph, options, &(binding_list){0, NULL, NULL}, "samba_onnx_read");
}

samba_status samba_onnx_apply(samba_onnx *model, samba_graph *graph, const samba_onnx_options *options, int count,
                              const samba_onnx_binding *bindings, samba_value *outputs)
{
    if (!model || !graph)
        return SAMBA_ERROR_ARGUMENT;
    SAMBA_NEED(model->context, bindings);
    SAMBA_NEED(model->context, outputs);
    return read_into(model, graph, options, &(binding_list){count, bindings, outputs}, "samba_onnx_apply");
}

samba_status samba_onnx_weights(samba_onnx *model, samba_tensor_list *list)
{
    if (!model || !list)
        return SAMBA_ERROR_ARGUMENT;
    SAMBA_TRY(samba_tensor_list_new(model->context, model->kept_count, list));
    for (int i = 0; i < model->kept_count; i++) {
        samba_status status = samba_onnx_tensor(model, model->kept[i]->proto, &list->tensors[i]);
        if (status == SAMBA_OK)
            status = samba_tensor_set_name(list->tensors[i], model->kept[i]->name);
        if (status != SAMBA_OK) {
            samba_tensor_list_free(model->context, list);
            return status;
        }
    }
    return SAMBA_OK;
}
