/* SPDX-License-Identifier: Apache-2.0
 *
 * A graph as an ONNX model: the frame. Names of inputs, weights and outputs are the graph's; others are numbered, in the order of
 * the graph, so that one graph and its weights give one sequence of bytes. */
#include "onnx/write.h"
#include "base/null.h"
#include <string.h>

#define OPSET 18
#define LARGEST ((((int64_t)1) << 31) - (1 << 20)) /* bytes of tensors inside the model: a protobuf message ends at 2^31 */
#define BESIDE_ALIGNMENT 64
#define SHOWN 900 /* bytes of refusals: a context's message is short */

samba_onnx_write_options samba_onnx_write_defaults(void)
{
    return (samba_onnx_write_options){.struct_size = sizeof(samba_onnx_write_options)};
}

/* ---- leaves ---- */

static const char *leaf_name(const samba_graph *graph, const samba_node *node)
{
    switch (node->op) {
    case SAMBA_OP_input: return samba_graph_name_at(graph, node->attrs->leaf.name);
    case SAMBA_OP_parameter: return samba_graph_name_at(graph, node->attrs->parameter.name);
    case SAMBA_OP_state: return samba_graph_name_at(graph, node->attrs->state.name);
    default: return NULL;
    }
}

static char *copy_of(samba_onnx_writer *w, const char *text) { return (char *)(uintptr_t)samba_onnx_format(w, "%s", text); }

static Samba__Onnx__ValueInfoProto *value_info(samba_onnx_writer *w, const char *name, const samba_node *node)
{
    struct {
        Samba__Onnx__ValueInfoProto info;
        Samba__Onnx__TypeProto type;
        Samba__Onnx__TypeProto__Tensor tensor;
        Samba__Onnx__TensorShapeProto shape;
        Samba__Onnx__TensorShapeProto__Dimension dims[SAMBA_MAX_RANK], *list[SAMBA_MAX_RANK];
    } *all;
    if (SAMBA_ROOM(&w->arena, all, 1) != SAMBA_OK) {
        samba_onnx_stop(w, SAMBA_ERROR_MEMORY);
        return NULL;
    }
    samba__onnx__value_info_proto__init(&all->info);
    samba__onnx__type_proto__init(&all->type);
    samba__onnx__type_proto__tensor__init(&all->tensor);
    samba__onnx__tensor_shape_proto__init(&all->shape);
    for (int i = 0; i < node->rank; i++) {
        samba__onnx__tensor_shape_proto__dimension__init(&all->dims[i]);
        all->dims[i].value_case = SAMBA__ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE;
        all->dims[i].dim_value = node->shape[i];
        all->list[i] = &all->dims[i];
    }
    all->shape.n_dim = node->rank;
    all->shape.dim = all->list;
    all->tensor.has_elem_type = 1;
    all->tensor.elem_type = samba_onnx_type_of_dtype((samba_dtype)node->dtype);
    all->tensor.shape = &all->shape;
    all->type.value_case = SAMBA__ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE;
    all->type.tensor_type = &all->tensor;
    all->info.name = copy_of(w, name);
    all->info.type = &all->type;
    return &all->info;
}

const char *samba_onnx_write_input(samba_onnx_writer *w, const samba_node *node)
{
    const char *name = leaf_name(w->graph, node);
    Samba__Onnx__ValueInfoProto *info = value_info(w, name, node);
    if (info)
        samba_onnx_push(w, &w->inputs, info);
    return info ? info->name : "";
}

const char *samba_onnx_write_weight(samba_onnx_writer *w, const samba_node *node)
{
    const char *name = copy_of(w, leaf_name(w->graph, node));
    const samba_onnx_word *word = samba_onnx_look(w, samba_onnx_format(w, "w:%s", name));
    if (!word || w->status != SAMBA_OK)
        return ""; /* check_weights tells */
    const samba_tensor *tensor = word->value;
    samba_onnx_initialize(w, name, (samba_dtype)node->dtype, node->rank, node->shape, samba_tensor_data(tensor));
    return name;
}

static samba_status take_weights(samba_onnx_writer *w)
{
    for (int i = 0; i < w->options.weight_count; i++)
        samba_onnx_keep(w, samba_onnx_format(w, "w:%s", samba_tensor_name(w->options.weights[i])), w->options.weights[i]);
    return w->status;
}

/* Every weight that the graph reads is there, as the graph has it. After the operators: without them weights are of no use. */
static samba_status check_weights(samba_onnx_writer *w)
{
    samba_text missing;
    int64_t count = 0;
    samba_text_init(&missing, w->context);
    samba_status status = SAMBA_OK;
    for (int64_t i = 0; i < w->graph->node_count && status == SAMBA_OK; i++) {
        const samba_node *node = &w->graph->nodes[i];
        const char *name = leaf_name(w->graph, node);
        if (!name || node->op == SAMBA_OP_input)
            continue;
        const samba_onnx_word *word = samba_onnx_look(w, samba_onnx_format(w, "w:%s", name));
        const samba_tensor *tensor = word ? word->value : NULL;
        if (!tensor) {
            if (count++ < 8)
                samba_text_add(&missing, "%s'%.80s'", count > 1 ? ", " : "", name);
        } else if (samba_tensor_dtype(tensor) != (samba_dtype)node->dtype) {
            status = samba_fail(w->context, SAMBA_ERROR_DTYPE, "weight '%.200s': the graph has %s, given %s", name,
                                samba_dtype_name((samba_dtype)node->dtype), samba_dtype_name(samba_tensor_dtype(tensor)));
        } else if (!samba_shape_equal(node->rank, node->shape, samba_tensor_rank(tensor), samba_tensor_shape(tensor))) {
            status = samba_fail(w->context, SAMBA_ERROR_SHAPE, "weight '%.200s': the graph has shape %s, given %s", name,
                                SAMBA_SHAPE_OF(node), SAMBA_SHAPE(samba_tensor_rank(tensor), samba_tensor_shape(tensor)));
        } else if (!samba_tensor_has_data(tensor) || !samba_tensor_is_contiguous(tensor)) {
            status =
                samba_fail(w->context, SAMBA_ERROR_ARGUMENT,
                           "weight '%.200s' has no memory, or its elements do not lie in C order: give a copy that does", name);
        }
    }
    if (status == SAMBA_OK && count)
        status = samba_fail(
            w->context, SAMBA_ERROR_NAME,
            "an ONNX model has the values of its weights, and %lld are not given: %s%s; give each a tensor of its name",
            (long long)count, missing.data ? missing.data : "", count > 8 ? " ..." : "");
    samba_text_clear(&missing);
    return status == SAMBA_OK ? w->status : status;
}

/* ---- nodes ---- */

/* The result of the nodes put since `before` gets the name of an output; where it is another's, by an Identity. */
static const char *rename_result(samba_onnx_writer *w, const char *value, int64_t before, const char *name)
{
    for (int64_t i = before; i < w->nodes.count; i++) {
        Samba__Onnx__NodeProto *node = w->nodes.at[i];
        for (size_t k = 0; k < node->n_output; k++) {
            if (node->output[k] != value)
                continue;
            for (int64_t j = i + 1; j < w->nodes.count; j++) {
                Samba__Onnx__NodeProto *reader = w->nodes.at[j];
                for (size_t r = 0; r < reader->n_input; r++)
                    if (reader->input[r] == value)
                        reader->input[r] = (char *)(uintptr_t)name;
            }
            node->output[k] = (char *)(uintptr_t)name;
            return name;
        }
    }
    return NULL;
}

/* The node that ends an operator: of those put since `before`, that with the result, or one that was there already, inside of
 * another operator, say. NULL: the result is of no node, or of one of several results. */
static Samba__Onnx__NodeProto *last_node(const samba_onnx_writer *w, const char *value, int64_t before)
{
    Samba__Onnx__NodeProto *node = w->latest;
    for (int64_t i = w->nodes.count - 1; i >= before; i--) {
        Samba__Onnx__NodeProto *put = w->nodes.at[i];
        node = put->output[0] == value ? put : node;
    }
    return node && node->output[0] == value && node->n_output == 1 ? node : NULL;
}

/* The same node a second time, with a result of its own. */
static const char *put_again(samba_onnx_writer *w, const Samba__Onnx__NodeProto *node)
{
    for (size_t i = 0; i < node->n_attribute; i++)
        samba_onnx_push(w, &w->attributes, node->attribute[i]);
    w->fresh = true;
    const char *value = samba_onnx_put(w, node->op_type, (int)node->n_input, (const char *const *)node->input);
    w->fresh = false;
    return value;
}

/* The last node of an operator says which operator that is; where it says another one already, which has the same nodes, its
 * like does. */
static const char *say_operator(samba_onnx_writer *w, const samba_node *node, const char *value, int64_t before)
{
    Samba__Onnx__NodeProto *last = last_node(w, value, before);
    if (!last || w->refusal_count || w->status != SAMBA_OK)
        return value;
    if (last->n_metadata_props) {
        value = put_again(w, last);
        last = w->latest;
    }
    if (last)
        samba_onnx_say_operator(w, last, node);
    return value;
}

static void write_node(samba_onnx_writer *w, int64_t index)
{
    const samba_node *node = &w->graph->nodes[index];
    const int64_t before = w->nodes.count, puts = w->puts;
    const char *value = samba_onnx_write_operator(w, node);
    w->attributes = (samba_onnx_list){NULL, 0, 0};
    if (w->puts > puts + !samba_onnx_write_rows[node->op]->tells)
        value = say_operator(w, node, value, before);
    if (w->results[index] && w->status == SAMBA_OK && w->refusal_count == 0) {
        const char *name = rename_result(w, value, before, w->results[index]);
        value = name ? name : value;
    }
    w->values[index] = value;
}

void samba_onnx_count_uses(const samba_graph *graph, int64_t *uses)
{
    for (int64_t i = 0; i < graph->sink_count; i++)
        uses[graph->sinks[i].value]++;
    for (int64_t i = graph->node_count - 1; i >= 0; i--)
        for (int k = 0; uses[i] && k < graph->nodes[i].arity; k++)
            uses[graph->nodes[i].inputs[k]]++;
}

static samba_status write_nodes(samba_onnx_writer *w)
{
    const samba_graph *graph = w->graph;
    SAMBA_TRY(SAMBA_ROOM(&w->arena, w->uses, graph->node_count + 1));
    SAMBA_TRY(SAMBA_ROOM(&w->arena, w->values, graph->node_count + 1));
    SAMBA_TRY(SAMBA_ROOM(&w->arena, w->results, graph->node_count + 1));
    samba_onnx_count_uses(graph, w->uses);
    for (int64_t i = 0; i < graph->node_count; i++)
        if (leaf_name(graph, &graph->nodes[i]))
            samba_onnx_keep(w, samba_onnx_format(w, "v:%s", leaf_name(graph, &graph->nodes[i])), "");
    for (int64_t i = 0; i < graph->sink_count; i++) {
        const char *name = copy_of(w, samba_graph_name_at(graph, graph->sinks[i].name));
        samba_onnx_keep(w, samba_onnx_format(w, "v:%s", name), "");
        if (!w->results[graph->sinks[i].value])
            w->results[graph->sinks[i].value] = name;
    }
    for (int64_t i = 0; i < graph->node_count && w->status == SAMBA_OK; i++)
        if (w->uses[i] || graph->nodes[i].op == SAMBA_OP_input)
            write_node(w, i);
    w->node = NULL;
    w->fresh = true;
    for (int64_t i = 0; i < graph->sink_count && w->status == SAMBA_OK && w->refusal_count == 0; i++) {
        const char *name = samba_graph_name_at(graph, graph->sinks[i].name), *value = w->values[graph->sinks[i].value];
        if (strcmp(value, name) != 0) {
            int64_t before = w->nodes.count;
            const char *same = samba_onnx_put1(w, "Identity", value);
            rename_result(w, same, before, copy_of(w, name));
        }
        Samba__Onnx__ValueInfoProto *info = value_info(w, name, &graph->nodes[graph->sinks[i].value]);
        if (info)
            samba_onnx_push(w, &w->outputs, info);
    }
    return w->status;
}

/* What no output needs goes: transposed weights that a Gemm reads as they were, numbers for them. */
static void prune(samba_onnx_writer *w)
{
    int64_t kept = w->nodes.count, initializers = 0;
    for (int64_t i = 0; i < w->outputs.count; i++)
        samba_onnx_keep(w, samba_onnx_format(w, "u:%s", ((const Samba__Onnx__ValueInfoProto *)w->outputs.at[i])->name), "");
    for (int64_t i = w->nodes.count - 1; i >= 0; i--) {
        const Samba__Onnx__NodeProto *node = w->nodes.at[i];
        bool used = false;
        for (size_t k = 0; k < node->n_output; k++)
            used = used || samba_onnx_look(w, samba_onnx_format(w, "u:%s", node->output[k]));
        for (size_t k = 0; used && k < node->n_input; k++)
            samba_onnx_keep(w, samba_onnx_format(w, "u:%s", node->input[k]), "");
        if (used)
            w->nodes.at[--kept] = w->nodes.at[i]; /* from the end: `kept` is never less than i */
    }
    w->nodes.at += kept;
    w->nodes.count -= kept;
    for (int64_t i = 0; i < w->initializers.count; i++)
        if (samba_onnx_look(w, samba_onnx_format(w, "u:%s", ((const Samba__Onnx__TensorProto *)w->initializers.at[i])->name)))
            w->initializers.at[initializers++] = w->initializers.at[i];
    w->initializers.count = initializers;
    samba_onnx_name_nodes(w);
}

static samba_status report(samba_onnx_writer *w)
{
    if (w->refusal_count == 0)
        return SAMBA_OK;
    SAMBA_TRY(w->refusals.status);
    bool more = w->refusals.length > SHOWN;
    return samba_fail(w->context, SAMBA_ERROR_UNSUPPORTED,
                      "graph \"%.80s\" has %d operator%s that ONNX cannot say in opset %d:%.*s%s", w->graph->name,
                      w->refusal_count, w->refusal_count == 1 ? "" : "s", w->options.opset, SHOWN, w->refusals.data,
                      more ? " ..." : "");
}

/* ---- the file ---- */

static int64_t ir_version(int opset)
{
    return opset < 19 ? 8 : opset < 21 ? 9 : opset < 23 ? 10 : 11;
} /* as onnx.helper has them */

static int64_t tensor_bytes(const samba_onnx_writer *w)
{
    int64_t bytes = 0;
    for (int64_t i = 0; i < w->initializers.count; i++)
        bytes += (int64_t)((const Samba__Onnx__TensorProto *)w->initializers.at[i])->raw_data.len;
    return bytes;
}

static bool add_property(samba_onnx_writer *w, Samba__Onnx__TensorProto *tensor, const char *key, const char *value)
{
    Samba__Onnx__StringStringEntryProto *entry;
    if (SAMBA_ROOM(&w->arena, entry, 1) != SAMBA_OK)
        return false;
    samba__onnx__string_string_entry_proto__init(entry);
    entry->key = (char *)(uintptr_t)key;
    entry->value = (char *)(uintptr_t)value;
    tensor->external_data[tensor->n_external_data++] = entry;
    return true;
}

/* Tensors go to a file beside the model, each from a multiple of 64 on; what is small stays, as onnx itself does it. */
static samba_status move_beside(samba_onnx_writer *w, const char *location, const void **parts, size_t *sizes, int *count)
{
    static const char zeros[BESIDE_ALIGNMENT];
    enum { SMALL = 1024 };
    int64_t offset = 0;
    for (int64_t i = 0; i < w->initializers.count; i++) {
        Samba__Onnx__TensorProto *tensor = w->initializers.at[i];
        if (tensor->raw_data.len <= SMALL)
            continue;
        SAMBA_TRY(SAMBA_ROOM(&w->arena, tensor->external_data, 3));
        const char *begin = samba_onnx_format(w, "%lld", (long long)offset),
                   *length = samba_onnx_format(w, "%zu", tensor->raw_data.len);
        if (!add_property(w, tensor, "location", location) || !add_property(w, tensor, "offset", begin) ||
            !add_property(w, tensor, "length", length))
            return SAMBA_ERROR_MEMORY;
        parts[*count] = tensor->raw_data.data;
        sizes[(*count)++] = tensor->raw_data.len;
        offset += (int64_t)tensor->raw_data.len;
        parts[*count] = zeros;
        sizes[(*count)++] = (size_t)(-offset & (BESIDE_ALIGNMENT - 1));
        offset += -offset & (BESIDE_ALIGNMENT - 1);
        tensor->has_data_location = 1;
        tensor->data_location = SAMBA__ONNX__TENSOR_PROTO__DATA_LOCATION__EXTERNAL;
        tensor->has_raw_data = 0;
        tensor->raw_data = (ProtobufCBinaryData){0, NULL};
    }
    return w->status;
}

static samba_status pack(samba_onnx_writer *w, const Samba__Onnx__ModelProto *model, const char *path, samba_file_staged *staged)
{
    const size_t size = samba__onnx__model_proto__get_packed_size(model);
    if (size > INT32_MAX)
        return samba_fail(w->context, SAMBA_ERROR_UNSUPPORTED,
                          "cannot write \"%s\": the model has %zu bytes without its tensors, and a protobuf message ends at 2^31",
                          path, size);
    uint8_t *bytes = samba_alloc(w->context, size);
    if (!bytes)
        return SAMBA_ERROR_MEMORY;
    samba__onnx__model_proto__pack(model, bytes);
    samba_status status = samba_file_stage(w->context, path, (const void *[]){bytes}, &size, 1, false, staged);
    samba_free(w->context, bytes, size);
    return status;
}

static samba_status publish(samba_onnx_writer *w, const Samba__Onnx__ModelProto *model, const char *path, bool beside)
{
    samba_file_staged data, main;
    const void **parts;
    size_t *sizes;
    int count = 0;
    const char *data_path = samba_onnx_format(w, "%s.data", path), *last = strrchr(data_path, '/');
    if (!beside) {
        SAMBA_TRY(pack(w, model, path, &main));
        return samba_file_publish(w->context, &main);
    }
    SAMBA_TRY(SAMBA_ROOM(&w->arena, parts, 2 * w->initializers.count + 1));
    SAMBA_TRY(SAMBA_ROOM(&w->arena, sizes, 2 * w->initializers.count + 1));
    SAMBA_TRY(move_beside(w, last ? last + 1 : data_path, parts, sizes, &count));
    SAMBA_TRY(samba_file_stage(w->context, data_path, parts, sizes, count, false, &data));
    samba_status status = pack(w, model, path, &main);
    if (status != SAMBA_OK) {
        samba_file_unstage(&data);
        return status;
    }
    status = samba_file_publish(w->context, &data); /* first: a model without its tensors is none */
    if (status != SAMBA_OK) {
        samba_file_unstage(&main);
        return status;
    }
    return samba_file_publish(w->context, &main);
}

static samba_status write_file(samba_onnx_writer *w, const char *path)
{
    Samba__Onnx__ModelProto model;
    Samba__Onnx__GraphProto graph;
    Samba__Onnx__OperatorSetIdProto opset, *opsets[] = {&opset};
    samba__onnx__model_proto__init(&model);
    samba__onnx__graph_proto__init(&graph);
    samba__onnx__operator_set_id_proto__init(&opset);
    opset.domain = (char *)"";
    opset.has_version = 1, opset.version = w->options.opset;
    model.has_ir_version = 1, model.ir_version = ir_version(w->options.opset);
    model.n_opset_import = 1, model.opset_import = opsets;
    model.producer_name = (char *)"sambaflow";
    model.producer_version = (char *)(uintptr_t)samba_version();
    model.graph = &graph;
    graph.name = w->graph->name && w->graph->name[0] ? w->graph->name : (char *)"graph";
    graph.n_node = (size_t)w->nodes.count, graph.node = (Samba__Onnx__NodeProto **)w->nodes.at;
    graph.n_initializer = (size_t)w->initializers.count, graph.initializer = (Samba__Onnx__TensorProto **)w->initializers.at;
    graph.n_input = (size_t)w->inputs.count, graph.input = (Samba__Onnx__ValueInfoProto **)w->inputs.at;
    graph.n_output = (size_t)w->outputs.count, graph.output = (Samba__Onnx__ValueInfoProto **)w->outputs.at;
    const int64_t most = w->options.inside_bytes > 0 ? w->options.inside_bytes : LARGEST;
    SAMBA_TRY(publish(w, &model, path, tensor_bytes(w) > most));
    return w->status;
}

static samba_status write_all(samba_onnx_writer *w, const samba_graph *graph, const char *path)
{
    samba_graph *lowered = NULL;
    samba_status status = samba_onnx_lower(w, graph, &lowered);
    if (status != SAMBA_OK)
        return status;
    w->graph = lowered;
    status = lowered->sink_count
                 ? SAMBA_OK
                 : samba_fail(w->context, SAMBA_ERROR_STATE,
                              "graph \"%.80s\" has no output and no loss of its forward pass: name one to write it", graph->name);
    if (status == SAMBA_OK)
        status = take_weights(w);
    if (status == SAMBA_OK)
        status = write_nodes(w);
    if (status == SAMBA_OK)
        status = report(w);
    if (status == SAMBA_OK)
        status = check_weights(w);
    if (status == SAMBA_OK)
        prune(w);
    if (status == SAMBA_OK)
        status = write_file(w, path);
    samba_graph_free(lowered);
    return status;
}

samba_status samba_onnx_write(samba_context *context, const samba_graph *graph, const samba_onnx_write_options *options,
                              const char *path)
{
    SAMBA_NEED(NULL, context);
    SAMBA_NEED(context, graph);
    SAMBA_NEED(context, path);
    samba_onnx_writer w = {.context = context, .options = samba_onnx_write_defaults(), .room = INT64_MAX};
    if (options)
        SAMBA_TRY(samba_options_take(context, "samba_onnx_write", options, sizeof w.options, &w.options));
    if (w.options.opset == 0)
        w.options.opset = OPSET;
    if (w.options.opset < SAMBA_ONNX_OLDEST || w.options.opset > SAMBA_ONNX_NEWEST)
        return samba_fail(context, SAMBA_ERROR_ARGUMENT, "opset must be from %d to %d, given %d", SAMBA_ONNX_OLDEST,
                          SAMBA_ONNX_NEWEST, w.options.opset);
    for (int i = 0; i < w.options.weight_count; i++)
        if (!w.options.weights || !w.options.weights[i])
            return samba_fail(context, SAMBA_ERROR_ARGUMENT, "weight %d of %d is NULL: give a tensor", i, w.options.weight_count);
    SAMBA_TRY(samba_graph_status(graph));
    samba_arena_init(&w.arena, context);
    samba_text_init(&w.refusals, context);
    samba_status status = write_all(&w, graph, path);
    samba_text_clear(&w.refusals);
    samba_arena_free(&w.arena);
    return status;
}
