/* SPDX-License-Identifier: Apache-2.0
 *
 * ONNX models for tests, made node by node of the message's own structs, in memory that the next model takes over:
 *
 *     begin(17);
 *     input("x", FLOAT, SIZES(2, 3));
 *     node("Relu", "x", "y");
 *     output("y");
 *     open_model() */
#ifndef SAMBA_TEST_ONNX_MODELS_H
#define SAMBA_TEST_ONNX_MODELS_H

#include "harness.h"
#include "onnx/onnx.pb-c.h"
#include <sambaflow/onnx.h>

#define FLOAT SAMBA__ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT
#define INT64 SAMBA__ONNX__TENSOR_PROTO__DATA_TYPE__INT64
enum { MOST_PARTS = 64 };

static _Alignas(64) char made[1 << 18]; /* what the model at hand is made of */
static size_t made_bytes;
static Samba__Onnx__ModelProto *message;
static Samba__Onnx__GraphProto *main_graph;

static inline void *make(size_t size)
{
    void *block = made + made_bytes;
    made_bytes += (size + 15) / 16 * 16;
    assert_true(made_bytes <= sizeof made);
    return memset(block, 0, size);
}

#define NEW(type) init_##type(make(sizeof(Samba__Onnx__##type)))
#define INIT(type, function)                                                                                                     \
    static inline Samba__Onnx__##type *init_##type(Samba__Onnx__##type *part)                                                    \
    {                                                                                                                            \
        function(part);                                                                                                          \
        return part;                                                                                                             \
    }
INIT(ModelProto, samba__onnx__model_proto__init)
INIT(GraphProto, samba__onnx__graph_proto__init)
INIT(NodeProto, samba__onnx__node_proto__init)
INIT(AttributeProto, samba__onnx__attribute_proto__init)
INIT(TensorProto, samba__onnx__tensor_proto__init)
INIT(ValueInfoProto, samba__onnx__value_info_proto__init)
INIT(TypeProto, samba__onnx__type_proto__init)
INIT(TypeProto__Tensor, samba__onnx__type_proto__tensor__init)
INIT(TensorShapeProto, samba__onnx__tensor_shape_proto__init)
INIT(TensorShapeProto__Dimension, samba__onnx__tensor_shape_proto__dimension__init)
INIT(OperatorSetIdProto, samba__onnx__operator_set_id_proto__init)
INIT(StringStringEntryProto, samba__onnx__string_string_entry_proto__init)
INIT(FunctionProto, samba__onnx__function_proto__init)

static inline char *word(const char *text) { return strcpy(make(strlen(text) + 1), text); }

/* "a b" as two texts; "-" is a name that is left out */
static inline char **words(const char *text, size_t *count)
{
    char **list = make(16 * sizeof *list), *copy = word(text), *rest = NULL;
    *count = 0;
    for (char *w = strtok_r(copy, " ", &rest); w; w = strtok_r(NULL, " ", &rest))
        list[(*count)++] = strcmp(w, "-") == 0 ? word("") : w;
    return list;
}

#define APPEND(graph, list, part)                                                                                                \
    ((graph)->list = (graph)->list ? (graph)->list : make(MOST_PARTS * sizeof(void *)),                                          \
     (graph)->list[(graph)->n_##list++] = (part))

static inline Samba__Onnx__OperatorSetIdProto *operator_set(const char *domain, int64_t version)
{
    Samba__Onnx__OperatorSetIdProto *set = NEW(OperatorSetIdProto);
    set->domain = word(domain);
    set->has_version = 1;
    set->version = version;
    return set;
}

static inline void begin(int64_t version)
{
    made_bytes = 0;
    message = NEW(ModelProto);
    message->has_ir_version = 1;
    message->ir_version = 8;
    main_graph = message->graph = NEW(GraphProto);
    message->graph->name = word("test");
    APPEND(message, opset_import, operator_set("", version));
}

/* A size below 0 is a dim's name: "n1" for -1 */
static inline Samba__Onnx__ValueInfoProto *value_info(const char *name, int type, int rank, const int64_t *shape)
{
    Samba__Onnx__ValueInfoProto *info = NEW(ValueInfoProto);
    info->name = word(name);
    info->type = NEW(TypeProto);
    info->type->value_case = SAMBA__ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE;
    info->type->tensor_type = NEW(TypeProto__Tensor);
    info->type->tensor_type->has_elem_type = 1;
    info->type->tensor_type->elem_type = type;
    info->type->tensor_type->shape = NEW(TensorShapeProto);
    for (int i = 0; i < rank; i++) {
        Samba__Onnx__TensorShapeProto__Dimension *dim = NEW(TensorShapeProto__Dimension);
        char text[32];
        snprintf(text, sizeof text, "n%lld", (long long)-shape[i]);
        dim->value_case = shape[i] < 0 ? SAMBA__ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_PARAM
                                       : SAMBA__ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE;
        if (shape[i] < 0)
            dim->dim_param = word(text);
        else
            dim->dim_value = shape[i];
        APPEND(info->type->tensor_type->shape, dim, dim);
    }
    return info;
}

static inline void input(const char *name, int type, int rank, const int64_t *shape)
{
    APPEND(main_graph, input, value_info(name, type, rank, shape));
}

static inline void output(const char *name) { APPEND(main_graph, output, value_info(name, FLOAT, 0, NULL)); }

static inline Samba__Onnx__NodeProto *new_node(const char *op, const char *inputs, const char *outputs)
{
    Samba__Onnx__NodeProto *part = NEW(NodeProto);
    part->op_type = word(op);
    part->input = words(inputs, &part->n_input);
    part->output = words(outputs, &part->n_output);
    part->name = word(part->n_output ? part->output[0] : op);
    return part;
}

static inline Samba__Onnx__NodeProto *node(const char *op, const char *inputs, const char *outputs)
{
    Samba__Onnx__NodeProto *part = new_node(op, inputs, outputs);
    APPEND(main_graph, node, part);
    return part;
}

static inline Samba__Onnx__AttributeProto *attribute(Samba__Onnx__NodeProto *of, const char *name, int type)
{
    Samba__Onnx__AttributeProto *part = NEW(AttributeProto);
    part->name = word(name);
    part->has_type = 1;
    part->type = (Samba__Onnx__AttributeProto__AttributeType)type;
    APPEND(of, attribute, part);
    return part;
}

static inline void integer(Samba__Onnx__NodeProto *of, const char *name, int64_t value)
{
    Samba__Onnx__AttributeProto *part = attribute(of, name, SAMBA__ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INT);
    part->has_i = 1;
    part->i = value;
}

static inline Samba__Onnx__TensorProto *tensor_of(const char *name, int type, int rank, const int64_t *shape, size_t size,
                                                  const void *data)
{
    Samba__Onnx__TensorProto *part = NEW(TensorProto);
    part->name = word(name);
    part->has_data_type = 1;
    part->data_type = type;
    part->n_dims = (size_t)rank;
    part->dims = memcpy(make((size_t)rank * 8 + 1), shape, (size_t)rank * 8);
    part->has_raw_data = 1;
    part->raw_data.len = size;
    part->raw_data.data = memcpy(make(size + 1), data, size);
    return part;
}

static inline void floats(const char *name, int rank, const int64_t *shape, int count, const float *values)
{
    APPEND(main_graph, initializer, tensor_of(name, FLOAT, rank, shape, (size_t)count * 4, values));
}

static inline void integers(const char *name, int count, const int64_t *values)
{
    APPEND(main_graph, initializer, tensor_of(name, INT64, 1, SHAPE(count), (size_t)count * 8, values));
}
#define FLOATS(...) LENGTH(((float[]){__VA_ARGS__})), ((float[]){__VA_ARGS__})
#define INTEGERS(...) LENGTH(((int64_t[]){__VA_ARGS__})), ((int64_t[]){__VA_ARGS__})

/* The message's bytes, in a block that the caller frees. */
static inline void *packed(size_t *size)
{
    *size = samba__onnx__model_proto__get_packed_size(message);
    void *bytes = malloc(*size + 1);
    assert_non_null(bytes);
    samba__onnx__model_proto__pack(message, bytes);
    return bytes;
}

static inline samba_status open_in(samba_context *owner, const char *at, samba_onnx **model)
{
    size_t size;
    void *bytes = packed(&size);
    samba_status status = samba_onnx_open_memory(owner, bytes, size, at, model);
    free(bytes);
    return status;
}

#endif
