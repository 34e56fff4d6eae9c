/* SPDX-License-Identifier: Apache-2.0
 *
 * Nodes, attributes, initializers and names of a model that is being written. One table of words has them all: "v:" names of
 * values that are taken, "n:" names of nodes, "k:" the bytes of small initializers, "o:" nodes. */
#include "onnx/write.h"
#include <stdarg.h>
#include <string.h>

samba_status samba_onnx_stop(samba_onnx_writer *w, samba_status status)
{
    if (w->status == SAMBA_OK)
        w->status = status;
    return status;
}

void samba_onnx_cannot(samba_onnx_writer *w, const samba_node *node, const char *format, ...)
{
    char reason[300], where[SAMBA_LOCATION_TEXT];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(reason, sizeof reason, format, arguments);
    va_end(arguments);
    const char *name = samba_ops[node->op].name;
    const char *key = samba_onnx_format(w, "r:%s: %s", name, reason);
    if (samba_onnx_look(w, key)) /* once for all nodes alike */
        return;
    samba_onnx_keep(w, key, "");
    samba_text_add(&w->refusals, "%s %s, %s%s", w->refusal_count ? ";" : "", name, reason,
                   samba_location_format(w->graph, node->location, where));
    w->refusal_count++;
}

bool samba_onnx_push(samba_onnx_writer *w, samba_onnx_list *list, void *item)
{
    if (list->count == list->capacity) {
        int64_t capacity = list->capacity ? 2 * list->capacity : 16;
        void **at = samba_arena_alloc(&w->arena, (size_t)capacity * sizeof *at);
        if (!at) {
            samba_onnx_stop(w, SAMBA_ERROR_MEMORY);
            return false;
        }
        if (list->count)
            memcpy(at, list->at, (size_t)list->count * sizeof *at);
        list->at = at;
        list->capacity = capacity;
    }
    list->at[list->count++] = item;
    return true;
}

static void *room(samba_onnx_writer *w, size_t size)
{
    void *block = samba_arena_alloc(&w->arena, size ? size : 1);
    if (!block)
        samba_onnx_stop(w, SAMBA_ERROR_MEMORY);
    return block;
}

void *samba_onnx_room(samba_onnx_writer *w, int64_t count, samba_dtype dtype)
{
    const int64_t bytes = count * (int64_t)samba_dtype_size(dtype);
    if (w->room < bytes) {
        samba_onnx_stop(w, SAMBA_ERROR_MEMORY);
        return NULL;
    }
    w->room -= bytes;
    return room(w, (size_t)bytes);
}

const char *samba_onnx_format(samba_onnx_writer *w, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);
    char *text = length >= 0 ? room(w, (size_t)length + 1) : NULL;
    if (!text)
        return "";
    va_start(arguments, format);
    vsnprintf(text, (size_t)length + 1, format, arguments);
    va_end(arguments);
    return text;
}

/* ---- words ---- */

static samba_onnx_word *slot_of(samba_onnx_word *words, int64_t size, const char *text)
{
    int64_t at = (int64_t)(samba_hash(text, strlen(text), 0) & (uint64_t)(size - 1));
    while (words[at].text && strcmp(words[at].text, text) != 0)
        at = (at + 1) & (size - 1);
    return &words[at];
}

const samba_onnx_word *samba_onnx_look(const samba_onnx_writer *w, const char *text)
{
    const samba_onnx_word *slot = w->word_size ? slot_of(w->words, w->word_size, text) : NULL;
    return slot && slot->text ? slot : NULL;
}

void samba_onnx_keep(samba_onnx_writer *w, const char *text, const void *value)
{
    if (2 * (w->word_count + 1) > w->word_size) {
        int64_t size = w->word_size ? 2 * w->word_size : 256;
        samba_onnx_word *words = room(w, (size_t)size * sizeof *words);
        if (!words)
            return;
        for (int64_t i = 0; i < w->word_size; i++)
            if (w->words[i].text)
                *slot_of(words, size, w->words[i].text) = w->words[i];
        w->words = words;
        w->word_size = size;
    }
    samba_onnx_word *slot = slot_of(w->words, w->word_size, text);
    w->word_count += !slot->text;
    *slot = (samba_onnx_word){text, value};
}

/* A name that nothing has: v0, v1 ... */
static const char *new_name(samba_onnx_writer *w)
{
    for (;;) {
        const char *key = samba_onnx_format(w, "v:v%lld", (long long)w->numbered++);
        if (w->status != SAMBA_OK)
            return "";
        if (!samba_onnx_look(w, key)) {
            samba_onnx_keep(w, key, "");
            return key + 2;
        }
    }
}

/* Whether a location is a node's name already, as those of a model that was read are: encoder/MatMul_1, of a MatMul. */
static bool names_node(const char *scope, const char *op)
{
    const char *slash = strrchr(scope, '/'), *rest = slash ? slash + 1 : scope;
    const size_t length = strlen(op);
    if (strncmp(rest, op, length) != 0)
        return false;
    for (rest += length; *rest; rest += 1 + strspn(rest + 1, "0123456789"))
        if (rest[0] != '_' || strspn(rest + 1, "0123456789") == 0)
            return false;
    return true;
}

/* encoder.layers.0/MatMul, then encoder.layers.0/MatMul_1 ... */
static const char *node_name(samba_onnx_writer *w, const char *scope, const char *op)
{
    const char *first = names_node(scope, op) ? samba_onnx_format(w, "n:%s", scope)
                                              : samba_onnx_format(w, "n:%s%s%s", scope, scope[0] ? "/" : "", op);
    const char *key = first;
    if (w->status != SAMBA_OK) /* "", which is a key of something else */
        return "";
    const samba_onnx_word *before = samba_onnx_look(w, first);
    int64_t number = before ? *(const int64_t *)before->value : 0;
    while (before && w->status == SAMBA_OK) {
        number++;
        key = samba_onnx_format(w, "%s_%lld", first, (long long)number);
        if (!samba_onnx_look(w, key))
            break;
    }
    int64_t *latest = room(w, sizeof *latest);
    if (!latest || w->status != SAMBA_OK)
        return "";
    *latest = number;
    samba_onnx_keep(w, first, latest);
    if (key != first) {
        static const int64_t none;
        samba_onnx_keep(w, key, &none);
    }
    return key + 2;
}

void samba_onnx_name_nodes(samba_onnx_writer *w)
{
    for (int64_t i = 0; i < w->nodes.count; i++) {
        Samba__Onnx__NodeProto *node = w->nodes.at[i];
        node->name = (char *)(uintptr_t)node_name(w, node->name, node->op_type);
    }
}

/* ---- attributes ---- */

static Samba__Onnx__AttributeProto *new_attribute(samba_onnx_writer *w, const char *name,
                                                  Samba__Onnx__AttributeProto__AttributeType type)
{
    Samba__Onnx__AttributeProto *attribute = room(w, sizeof *attribute);
    if (!attribute)
        return NULL;
    samba__onnx__attribute_proto__init(attribute);
    attribute->name = (char *)(uintptr_t)name;
    attribute->has_type = 1;
    attribute->type = type;
    return samba_onnx_push(w, &w->attributes, attribute) ? attribute : NULL;
}

#define A(type) SAMBA__ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__##type

void samba_onnx_attr_int(samba_onnx_writer *w, const char *name, int64_t value)
{
    Samba__Onnx__AttributeProto *attribute = new_attribute(w, name, A(INT));
    if (attribute)
        attribute->has_i = 1, attribute->i = value;
}

void samba_onnx_attr_float(samba_onnx_writer *w, const char *name, double value)
{
    Samba__Onnx__AttributeProto *attribute = new_attribute(w, name, A(FLOAT));
    if (attribute)
        attribute->has_f = 1, attribute->f = (float)value;
}

void samba_onnx_attr_text(samba_onnx_writer *w, const char *name, const char *value)
{
    Samba__Onnx__AttributeProto *attribute = new_attribute(w, name, A(STRING));
    if (attribute)
        attribute->has_s = 1, attribute->s = (ProtobufCBinaryData){strlen(value), (uint8_t *)(uintptr_t)value};
}

void samba_onnx_attr_ints(samba_onnx_writer *w, const char *name, int64_t count, const int64_t *values)
{
    Samba__Onnx__AttributeProto *attribute = new_attribute(w, name, A(INTS));
    int64_t *copy = attribute ? room(w, (size_t)count * sizeof *copy) : NULL;
    if (!copy)
        return;
    memcpy(copy, values, (size_t)count * sizeof *copy);
    attribute->n_ints = (size_t)count;
    attribute->ints = copy;
}

/* ---- nodes ---- */

/* What tells a node from others: operator, inputs, attributes. */
static const char *key_of(samba_onnx_writer *w, const char *op, int count, const char *const *inputs,
                          const samba_onnx_list *attributes)
{
    samba_text text;
    char *key = NULL;
    samba_text_init(&text, w->context);
    samba_text_add(&text, "o:%s", op);
    for (int i = 0; i < count; i++)
        samba_text_add(&text, "|%zu:%s", inputs[i] ? strlen(inputs[i]) : 0, inputs[i] ? inputs[i] : "");
    for (int64_t i = 0; i < attributes->count; i++) {
        const Samba__Onnx__AttributeProto *a = attributes->at[i];
        samba_text_add(&text, "|%s=%lld,%a,%.*s", a->name, (long long)a->i, (double)a->f, (int)a->s.len, (const char *)a->s.data);
        for (size_t k = 0; k < a->n_ints; k++)
            samba_text_add(&text, ",%lld", (long long)a->ints[k]);
    }
    samba_status status = text.status == SAMBA_OK ? samba_text_keep(&text, &w->arena, &key) : text.status;
    samba_text_clear(&text);
    if (status != SAMBA_OK)
        samba_onnx_stop(w, status);
    return key ? key : "";
}

/* A node that is there already does for its like. */
const char *samba_onnx_put(samba_onnx_writer *w, const char *op, int count, const char *const *inputs)
{
    samba_onnx_list attributes = w->attributes;
    w->attributes = (samba_onnx_list){NULL, 0, 0};
    w->puts++;
    const char *key = key_of(w, op, count, inputs, &attributes);
    const samba_onnx_word *there = samba_onnx_look(w, key);
    if (there && !w->fresh && w->status == SAMBA_OK) {
        w->latest = (Samba__Onnx__NodeProto *)(uintptr_t)there->value;
        return w->latest->output[0];
    }
    Samba__Onnx__NodeProto *node = room(w, sizeof *node);
    char **given = room(w, (size_t)count * sizeof *given), **result = room(w, sizeof *result);
    if (!node || !given || !result)
        return "";
    samba__onnx__node_proto__init(node);
    for (int i = 0; i < count; i++)
        given[i] = (char *)(uintptr_t)(inputs[i] ? inputs[i] : "");
    *result = (char *)(uintptr_t)new_name(w);
    node->n_input = (size_t)count, node->input = given;
    node->n_output = 1, node->output = result;
    node->op_type = (char *)(uintptr_t)op;
    /* a copy: the graph may be that of an expansion, which ends before the model is written */
    node->name =
        (char *)(uintptr_t)(w->node ? samba_onnx_format(w, "%s", samba_graph_name_at(w->graph, w->node->location.scope)) : "");
    node->n_attribute = (size_t)attributes.count, node->attribute = (Samba__Onnx__AttributeProto **)attributes.at;
    if (w->status != SAMBA_OK || !samba_onnx_push(w, &w->nodes, node))
        return "";
    samba_onnx_keep(w, key, node);
    w->latest = node;
    return *result;
}

const char *samba_onnx_put1(samba_onnx_writer *w, const char *op, const char *a) { return samba_onnx_put(w, op, 1, &a); }
const char *samba_onnx_put2(samba_onnx_writer *w, const char *op, const char *a, const char *b)
{
    return samba_onnx_put(w, op, 2, (const char *const[]){a, b});
}
const char *samba_onnx_put3(samba_onnx_writer *w, const char *op, const char *a, const char *b, const char *c)
{
    return samba_onnx_put(w, op, 3, (const char *const[]){a, b, c});
}

const char *samba_onnx_second_result(samba_onnx_writer *w)
{
    Samba__Onnx__NodeProto *node = w->latest;
    if (w->status != SAMBA_OK || !node)
        return "";
    if (node->n_output == 2)
        return node->output[1];
    char **results = room(w, 2 * sizeof *results);
    if (!results)
        return "";
    results[0] = node->output[0];
    results[1] = (char *)(uintptr_t)new_name(w);
    node->output = results;
    node->n_output = 2;
    return results[1];
}

/* ---- initializers ---- */

int32_t samba_onnx_type_of_dtype(samba_dtype dtype)
{
    switch (dtype) {
    case SAMBA_FLOAT32: return SAMBA__ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT;
    case SAMBA_FLOAT64: return SAMBA__ONNX__TENSOR_PROTO__DATA_TYPE__DOUBLE;
    case SAMBA_FLOAT16: return SAMBA__ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT16;
    case SAMBA_BFLOAT16: return SAMBA__ONNX__TENSOR_PROTO__DATA_TYPE__BFLOAT16;
    case SAMBA_INT64: return SAMBA__ONNX__TENSOR_PROTO__DATA_TYPE__INT64;
    case SAMBA_INT32: return SAMBA__ONNX__TENSOR_PROTO__DATA_TYPE__INT32;
    case SAMBA_INT16: return SAMBA__ONNX__TENSOR_PROTO__DATA_TYPE__INT16;
    case SAMBA_INT8: return SAMBA__ONNX__TENSOR_PROTO__DATA_TYPE__INT8;
    case SAMBA_UINT8: return SAMBA__ONNX__TENSOR_PROTO__DATA_TYPE__UINT8;
    case SAMBA_BOOL: return SAMBA__ONNX__TENSOR_PROTO__DATA_TYPE__BOOL;
    default: return SAMBA__ONNX__TENSOR_PROTO__DATA_TYPE__UNDEFINED;
    }
}

void samba_onnx_initialize(samba_onnx_writer *w, const char *name, samba_dtype dtype, int rank, const int64_t *shape,
                           const void *data)
{
    Samba__Onnx__TensorProto *tensor = room(w, sizeof *tensor);
    int64_t *dims = room(w, (size_t)rank * sizeof *dims), numel;
    if (!tensor || !dims)
        return;
    samba__onnx__tensor_proto__init(tensor);
    samba_shape_numel(rank, shape, &numel);
    if (rank)
        memcpy(dims, shape, (size_t)rank * sizeof *dims);
    tensor->name = (char *)(uintptr_t)name;
    tensor->has_data_type = 1, tensor->data_type = samba_onnx_type_of_dtype(dtype);
    tensor->n_dims = (size_t)rank, tensor->dims = dims;
    tensor->has_raw_data = 1;
    tensor->raw_data = (ProtobufCBinaryData){(size_t)numel * samba_dtype_size(dtype), (uint8_t *)(uintptr_t)data};
    samba_onnx_push(w, &w->initializers, tensor);
}

const char *samba_onnx_tensor_of(samba_onnx_writer *w, samba_dtype dtype, int rank, const int64_t *shape, const void *data)
{
    enum { SMALL = 256 };
    char hex[2 * SMALL + 1], sizes[SAMBA_SHAPE_TEXT];
    int64_t numel;
    samba_shape_numel(rank, shape, &numel);
    size_t size = (size_t)numel * samba_dtype_size(dtype);
    const char *key = NULL;
    if (!data && size)
        return "";
    if (size <= SMALL) {
        samba_hex_encode(data ? data : "", size, hex);
        samba_shape_format(rank, shape, sizes, sizeof sizes);
        key = samba_onnx_format(w, "k:%s%s%s", samba_dtype_name(dtype), sizes, hex);
        const samba_onnx_word *there = samba_onnx_look(w, key);
        if (there)
            return there->value;
    }
    const char *name = new_name(w);
    samba_onnx_initialize(w, name, dtype, rank, shape, data);
    if (key)
        samba_onnx_keep(w, key, name);
    return name;
}

const char *samba_onnx_number_of(samba_onnx_writer *w, samba_dtype dtype, double value)
{
    void *data = samba_onnx_room(w, 1, dtype);
    if (!data)
        return "";
    samba_store_double(dtype, data, value);
    return samba_onnx_tensor_of(w, dtype, 0, NULL, data);
}

const char *samba_onnx_numbers(samba_onnx_writer *w, int64_t count, const int64_t *values)
{
    void *data = samba_onnx_room(w, count, SAMBA_INT64);
    if (!data)
        return "";
    if (count)
        memcpy(data, values, (size_t)count * sizeof *values);
    return samba_onnx_tensor_of(w, SAMBA_INT64, 1, &count, data);
}

/* ---- nodes of few words ---- */

const char *samba_onnx_put_cast(samba_onnx_writer *w, const char *a, samba_dtype from, samba_dtype to)
{
    if (from == to)
        return a;
    samba_onnx_attr_int(w, "to", samba_onnx_type_of_dtype(to));
    return samba_onnx_put1(w, "Cast", a);
}

const char *samba_onnx_given_wide(samba_onnx_writer *w, const samba_node *node, int input)
{
    samba_dtype dtype = (samba_dtype)samba_onnx_from(w, node, input)->dtype;
    return samba_onnx_put_cast(w, samba_onnx_given(w, node, input), dtype, samba_onnx_wide(dtype));
}

const char *samba_onnx_narrow(samba_onnx_writer *w, const samba_node *node, const char *a)
{
    return samba_onnx_put_cast(w, a, samba_onnx_wide((samba_dtype)node->dtype), (samba_dtype)node->dtype);
}

const char *samba_onnx_put_reshape(samba_onnx_writer *w, const char *a, int rank, const int64_t *shape)
{
    bool empty = false;
    for (int i = 0; i < rank; i++)
        empty = empty || shape[i] == 0;
    const char *sizes = samba_onnx_numbers(w, rank, shape);
    if (empty)
        samba_onnx_attr_int(w, "allowzero", 1);
    return samba_onnx_put2(w, "Reshape", a, sizes);
}

const char *samba_onnx_put_expand(samba_onnx_writer *w, const char *a, samba_dtype dtype, int rank, const int64_t *shape)
{
    samba_dtype wide = samba_onnx_is_float(dtype) ? samba_onnx_wide(dtype) : dtype;
    a = samba_onnx_put_cast(w, a, dtype, wide);
    const char *sizes = samba_onnx_numbers(w, rank, shape);
    a = samba_onnx_put2(w, "Expand", a, sizes);
    return samba_onnx_put_cast(w, a, wide, dtype);
}

const char *samba_onnx_put_transpose(samba_onnx_writer *w, const char *a, int rank, const int64_t *dims)
{
    if (rank == 0)
        return a;
    samba_onnx_attr_ints(w, "perm", rank, dims);
    return samba_onnx_put1(w, "Transpose", a);
}

const char *samba_onnx_put_slice(samba_onnx_writer *w, const char *a, int64_t dim, int64_t start, int64_t stop, int64_t step)
{
    const char *inputs[5] = {a};
    inputs[1] = samba_onnx_numbers(w, 1, &start);
    inputs[2] = samba_onnx_numbers(w, 1, &stop);
    inputs[3] = samba_onnx_numbers(w, 1, &dim);
    inputs[4] = samba_onnx_numbers(w, 1, &step);
    return samba_onnx_put(w, "Slice", 5, inputs);
}

const char *samba_onnx_put_where(samba_onnx_writer *w, const char *condition, const char *a, const char *b)
{
    return samba_onnx_put3(w, "Where", condition, a, b);
}

const char *samba_onnx_put_reduce(samba_onnx_writer *w, const char *op, const char *a, int64_t count, const int64_t *dims)
{
    if (w->options.opset >= 18 || strcmp(op, "ReduceSum") == 0) {
        const char *axes = samba_onnx_numbers(w, count, dims);
        samba_onnx_attr_int(w, "keepdims", 1);
        return samba_onnx_put2(w, op, a, axes);
    }
    samba_onnx_attr_ints(w, "axes", count, dims);
    samba_onnx_attr_int(w, "keepdims", 1);
    return samba_onnx_put1(w, op, a);
}

const char *samba_onnx_put_concat(samba_onnx_writer *w, int64_t dim, const char *a, const char *b)
{
    samba_onnx_attr_int(w, "axis", dim);
    return samba_onnx_put2(w, "Concat", a, b);
}

const char *samba_onnx_whole(samba_onnx_writer *w, int64_t size, int rank, int dim)
{
    int64_t shape[SAMBA_MAX_RANK];
    for (int i = 0; i < rank; i++)
        shape[i] = i == dim ? size : 1;
    const char *first = samba_onnx_number_of(w, SAMBA_INT64, 0), *stop = samba_onnx_number_of(w, SAMBA_INT64, (double)size),
               *step = samba_onnx_number_of(w, SAMBA_INT64, 1);
    const char *line = samba_onnx_put3(w, "Range", first, stop, step);
    return rank == 1 ? line : samba_onnx_put_reshape(w, line, rank, shape);
}

const char *samba_onnx_negative(samba_onnx_writer *w, const char *a, samba_dtype dtype)
{
    const char *zero = samba_onnx_number_of(w, dtype, 0), *below = samba_onnx_put2(w, "Less", a, zero);
    if (!samba_onnx_is_float(dtype))
        return below;
    const char *over = samba_onnx_put1(w, "Reciprocal", a); /* of -0: -infinity */
    over = samba_onnx_put2(w, "Less", over, zero);
    return samba_onnx_put2(w, "Or", below, over);
}

bool samba_onnx_constant_in(const samba_onnx_writer *w, const samba_node *node, int input, double *value)
{
    const samba_node *from = samba_onnx_from(w, node, input);
    while (from->op == SAMBA_OP_expand || from->op == SAMBA_OP_reshape)
        from = samba_node_at(w->graph, from->inputs[0]);
    if (from->op != SAMBA_OP_constant)
        return false;
    int64_t held; /* as the dtype has it */
    samba_store_double((samba_dtype)from->dtype, &held, from->attrs->constant.value);
    *value = samba_load_double((samba_dtype)from->dtype, &held);
    return true;
}

const char *samba_onnx_filled(samba_onnx_writer *w, const samba_node *node, double value)
{
    const char *number = samba_onnx_number_of(w, (samba_dtype)node->dtype, value);
    return node->rank ? samba_onnx_put_expand(w, number, (samba_dtype)node->dtype, node->rank, node->shape) : number;
}
