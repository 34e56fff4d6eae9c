/* SPDX-License-Identifier: Apache-2.0
 *
 * Bytes as an ONNX model, read into a graph with small sizes for the dims that it names. Memory is counted: opening takes no more
 * than the file's size allows. So is time, as the processor counts it: no input of a few KB may keep a reader busy. */
#include "../../seed.h"
#include "files.h"
#include "graph/graph.h"
#include "onnx/onnx.pb-c.h"
#include "ops/ops.h"

#include <sambaflow/onnx.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#ifdef __SANITIZE_ADDRESS__ /* three times as slow */
#define MOST_SECONDS 6
#else
#define MOST_SECONDS 2 /* of a processor, for an input */
#endif

static void read_model(samba_context *context, samba_onnx *model, bool train)
{
    enum { DIMS = 32 };
    samba_onnx_dim dims[DIMS];
    samba_onnx_options options = samba_onnx_defaults();
    samba_graph *graph;
    options.train = train;
    options.initializers = train ? SAMBA_ONNX_PARAMETERS : SAMBA_ONNX_CONSTANTS;
    options.dims = dims;
    for (int i = 0; i < samba_onnx_input_count(model); i++) {
        samba_onnx_tensor_info info;
        if (samba_onnx_input(model, i, &info) != SAMBA_OK)
            continue;
        for (int d = 0; d < info.rank; d++) {
            bool known = info.shape[d] >= 0 || !info.dims[d][0] || options.dim_count == DIMS;
            for (int k = 0; k < options.dim_count; k++)
                known |= strcmp(dims[k].name, info.dims[d]) == 0;
            if (!known)
                dims[options.dim_count++] = (samba_onnx_dim){info.dims[d], 2};
        }
    }
    if (samba_graph_new(context, "fuzz", &graph) != SAMBA_OK)
        abort();
    samba_status status = samba_onnx_read(model, graph, &options);
    if (status == SAMBA_OK && samba_graph_verify(graph) != SAMBA_OK) {
        fprintf(stderr, "a graph that was read is none: %s\n", samba_error_message(context));
        abort();
    }
    if (status != SAMBA_OK && !samba_error_message(context)[0]) {
        fprintf(stderr, "a model is refused without a word\n");
        abort();
    }
    samba_graph_free(graph);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const samba_allocator allocator = {samba_fuzz_count, NULL};
    samba_context *context;
    samba_onnx *model;
    samba_fuzz_live = samba_fuzz_most = 0;
    clock_t begin = clock();
    if (samba_context_new(&allocator, &context) != SAMBA_OK)
        abort();
    samba_status status = samba_onnx_open_memory(context, data, size, NULL, &model);
    if (samba_fuzz_most > 64 * size + (4 << 20)) {
        fprintf(stderr, "opening %zu bytes took %zu\n", size, samba_fuzz_most);
        abort();
    }
    samba_fuzz_accepted += status == SAMBA_OK;
    if (status == SAMBA_OK) {
        read_model(context, model, size % 2);
        samba_onnx_free(model);
    }
    samba_context_free(context);
    if (samba_fuzz_live != 0) {
        fprintf(stderr, "%zu bytes are left\n", samba_fuzz_live);
        abort();
    }
    double seconds = (double)(clock() - begin) / CLOCKS_PER_SEC;
    if (seconds > seconds_allowed(MOST_SECONDS)) {
        fprintf(stderr, "reading %zu bytes took %.1f s\n", size, seconds);
        abort();
    }
    if (samba_fuzz_most > (size_t)2 << 30) {
        fprintf(stderr, "reading %zu bytes took %zu\n", size, samba_fuzz_most);
        abort();
    }
    return 0;
}

/* A part of the message that is another one: a name, a number, an operator. */
static void change(Samba__Onnx__GraphProto *graph, uint64_t *state)
{
    static const int64_t numbers[] = {0,         1, -1, 2, 3, 7, 64, 1 << 20, INT32_MAX, INT64_MAX, INT64_MIN, (int64_t)1 << 32,
                                      -(1 << 20)};
    if (!graph || graph->n_node == 0)
        return;
    Samba__Onnx__NodeProto *node = graph->node[samba_fuzz_next(state) % graph->n_node];
    Samba__Onnx__NodeProto *other = graph->node[samba_fuzz_next(state) % graph->n_node];
    int64_t number = numbers[samba_fuzz_next(state) % (sizeof numbers / sizeof *numbers)];
    switch (samba_fuzz_next(state) % 8) {
    case 0: /* another value */
        if (node->n_input > 0 && other->n_input > 0)
            node->input[samba_fuzz_next(state) % node->n_input] = other->input[samba_fuzz_next(state) % other->n_input];
        break;
    case 1: /* a later one, or its own */
        if (node->n_input > 0 && other->n_output > 0)
            node->input[samba_fuzz_next(state) % node->n_input] = other->output[0];
        break;
    case 2: node->op_type = other->op_type; break;
    case 3:
        if (node->n_attribute > 0) {
            Samba__Onnx__AttributeProto *attribute = node->attribute[samba_fuzz_next(state) % node->n_attribute];
            attribute->i = number;
            attribute->f = (float)number;
            if (attribute->n_ints > 0)
                attribute->ints[samba_fuzz_next(state) % attribute->n_ints] = number;
            if (attribute->g)
                change(attribute->g, state);
        }
        break;
    case 4:
        if (node->n_input > 1)
            node->n_input--;
        break;
    case 5:
        if (graph->n_initializer > 0) {
            Samba__Onnx__TensorProto *tensor = graph->initializer[samba_fuzz_next(state) % graph->n_initializer];
            if (tensor->n_dims > 0 && samba_fuzz_next(state) % 2)
                tensor->dims[samba_fuzz_next(state) % tensor->n_dims] = number;
            else if (tensor->n_int64_data > 0)
                tensor->int64_data[samba_fuzz_next(state) % tensor->n_int64_data] = number;
            else
                tensor->data_type = (int32_t)(samba_fuzz_next(state) % 30);
        }
        break;
    case 6:
        if (graph->n_input > 0) {
            Samba__Onnx__TypeProto *type = graph->input[samba_fuzz_next(state) % graph->n_input]->type;
            bool tensor = type && type->value_case == SAMBA__ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE && type->tensor_type;
            if (tensor && type->tensor_type->shape && type->tensor_type->shape->n_dim > 0 && samba_fuzz_next(state) % 3) {
                Samba__Onnx__TensorShapeProto *shape = type->tensor_type->shape;
                Samba__Onnx__TensorShapeProto__Dimension *dim = shape->dim[samba_fuzz_next(state) % shape->n_dim];
                dim->value_case = SAMBA__ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE;
                dim->dim_value = samba_fuzz_next(state) % 2 ? (int64_t)(samba_fuzz_next(state) % 5) : number;
            } else if (tensor)
                type->tensor_type->elem_type = (int32_t)(samba_fuzz_next(state) % 18);
        }
        break;
    default:
        if (node->n_output > 0 && other->n_output > 0)
            node->output[0] = other->output[0];
    }
}

/* Memory of a message whose parts stand in several places once it is changed: all of it goes at once. */
typedef struct block {
    struct block *next;
    _Alignas(16) char data[];
} block;

static void *give(void *list, size_t size)
{
    block *fresh = malloc(sizeof *fresh + size);
    if (!fresh)
        return NULL;
    fresh->next = *(block **)list;
    *(block **)list = fresh;
    return fresh->data;
}

static void leave(void *list, void *data)
{
    (void)list;
    (void)data;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t room, unsigned seed)
{
    uint64_t state = seed;
    block *blocks = NULL;
    ProtobufCAllocator allocator = {give, leave, &blocks};
    Samba__Onnx__ModelProto *model =
        samba_fuzz_next(&state) % 3 ? samba__onnx__model_proto__unpack(&allocator, size, data) : NULL;
    size_t changed = 0;
    for (uint64_t changes = 1 + samba_fuzz_next(&state) % 3; model && changes > 0; changes--)
        change(model->graph, &state);
    if (model && samba__onnx__model_proto__get_packed_size(model) <= room)
        changed = samba__onnx__model_proto__pack(model, data); /* strings of the message are copies */
    for (block *next; blocks; blocks = next) {
        next = blocks->next;
        free(blocks);
    }
    return changed ? changed : LLVMFuzzerMutate(data, size, room);
}

/* Those of corpus/onnx are made of the ONNX package's test cases (make_corpus.sh). */
void samba_fuzz_seeds(const char *folder) { (void)folder; }
