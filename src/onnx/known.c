/* SPDX-License-Identifier: Apache-2.0
 *
 * Values that are known while a model is read: the graph built so far, evaluated by the reference kernels where constants decide
 * it, and the examples of inputs that may be built in.
 *
 * A value is computed once, when somebody asks for it; what depends on a parameter, on a random number or on another input is
 * known not to be known. Large values and long computations are left to the compiled program. */
#include "onnx/onnx.h"

#include <string.h>

#define LARGEST ((int64_t)1 << 20) /* elements of a value */
#define SMALL 65536                /* steps: what takes less is computed though large ones have used up the steps */
#define MOST_BYTES 256e6           /* likewise */
#define FOLDED 4096                /* elements: smaller values that are known become constants */

enum { UNSEEN, KNOWN, UNKNOWN };
struct samba_onnx_known {
    uint8_t state;
    uint64_t inputs;    /* of the model, that it was computed from */
    samba_array *array; /* stays where it is when the list grows: operators hold it */
};

static bool is_leaf(const samba_node *node) { return samba_ops[node->op].class_ == SAMBA_LEAF; }

/* The example of an input that may be built in. */
static bool known_input(samba_onnx_reader *reader, const samba_node *node, struct samba_onnx_known *known)
{
    if (node->op != SAMBA_OP_input || !reader->options.build_in)
        return false;
    const char *name = samba_graph_name_at(reader->graph, node->attrs->leaf.name);
    for (int i = 0; i < reader->model->input_count && i < 64; i++)
        if (strcmp(reader->model->inputs[i]->name, name) == 0)
            known->inputs = (uint64_t)1 << i;
    for (int i = 0; i < reader->options.input_count; i++) {
        samba_tensor *tensor = reader->options.inputs[i];
        if (strcmp(samba_tensor_name(tensor), name) != 0 || !samba_tensor_has_data(tensor) || !samba_tensor_is_contiguous(tensor))
            continue;
        if (!(known->array = samba_arena_alloc(&reader->arena, sizeof *known->array)))
            return false;
        *known->array = (samba_array){node->dtype, node->rank, {0}, samba_tensor_numel(tensor), samba_tensor_data(tensor)};
        memcpy(known->array->shape, node->shape, sizeof node->shape);
        return known->inputs != 0;
    }
    return false;
}

/* Its own value, of a node whose inputs are known. */
static bool compute(samba_onnx_reader *reader, samba_ref ref, struct samba_onnx_known *known)
{
    const samba_node *node = samba_node_at(reader->graph, ref);
    const samba_op_facts *facts = &samba_ops[node->op];
    samba_array inputs[8], *operands = inputs;
    const samba_node *nodes[8];
    if (!facts->reference || node->arity > 8 + SAMBA_MAX_ARITY || node->op == SAMBA_OP_random)
        return false;
    samba_array *array = known->array = samba_arena_alloc(&reader->arena, sizeof *array);
    if (!array)
        return false;
    *array = (samba_array){node->dtype, node->rank, {0}, 0, NULL};
    memcpy(array->shape, node->shape, sizeof node->shape);
    if (!samba_shape_numel(array->rank, array->shape, &array->numel) || array->numel > LARGEST)
        return false;
    if (node->arity > SAMBA_COUNT(inputs) && SAMBA_ROOM(&reader->arena, operands, node->arity) != SAMBA_OK)
        return false;
    for (int i = 0; i < node->arity; i++) {
        const struct samba_onnx_known *input = &reader->known[node->inputs[i]];
        operands[i] = *input->array;
        known->inputs |= input->inputs;
        if (i < SAMBA_COUNT(nodes))
            nodes[i] = samba_node_at(reader->graph, node->inputs[i]);
    }
    double steps = (double)array->numel, bytes = (double)array->numel * (double)samba_dtype_size(array->dtype);
    if (!is_leaf(node) && node->arity <= SAMBA_COUNT(nodes))
        steps += (double)facts->flops(node, nodes);
    for (int i = 0; i < node->arity && !is_leaf(node); i++)
        steps += (double)operands[i].numel;
    if (reader->known_flops + steps > (steps > SMALL ? ONNX_MOST_STEPS : 2 * ONNX_MOST_STEPS) ||
        reader->known_bytes + bytes > (steps > SMALL ? MOST_BYTES : 2 * MOST_BYTES))
        return false;
    reader->known_flops += steps;
    reader->known_bytes += bytes;
    array->data = samba_arena_alloc(&reader->arena, (size_t)array->numel * samba_dtype_size(array->dtype) + 1);
    if (!array->data)
        return false;
    const samba_reference reference = {reader->context, reader->graph, node->attrs, node->arity, operands, array};
    return facts->reference(&reference) == SAMBA_OK;
}

/* Decides a node whose inputs are decided; false where some of them are not yet, which are pushed. */
static bool decide(samba_onnx_reader *reader, samba_ref ref, int64_t *depth)
{
    const samba_node *node = samba_node_at(reader->graph, ref);
    struct samba_onnx_known *known = &reader->known[ref];
    bool fine = SAMBA_GROW(reader->context, reader->stack, reader->stack_capacity, *depth + node->arity) == SAMBA_OK;
    int64_t before = *depth;
    for (int i = 0; i < node->arity && fine; i++) {
        uint8_t state = reader->known[node->inputs[i]].state;
        if (state == UNSEEN)
            reader->stack[(*depth)++] = node->inputs[i];
        fine &= state != UNKNOWN;
    }
    if (fine && *depth > before)
        return false;
    *depth = before; /* one that is not known is enough */
    *known = (struct samba_onnx_known){0};
    fine = fine && (known_input(reader, node, known) || compute(reader, ref, known));
    known->state = fine ? KNOWN : UNKNOWN;
    return true;
}

const samba_array *samba_onnx_known(samba_onnx_reader *reader, samba_value value, uint64_t *inputs)
{
    *inputs = 0;
    samba_graph *graph = reader->graph;
    if (!value.graph || value.index == SAMBA_NONE || graph->status != SAMBA_OK)
        return NULL;
    if (graph->node_count > reader->known_capacity &&
        SAMBA_GROW(reader->context, reader->known, reader->known_capacity, graph->node_count) != SAMBA_OK)
        return NULL;
    struct samba_onnx_known *known = &reader->known[value.index];
    if (known->state == UNSEEN) {
        int64_t depth = 1; /* inputs have smaller numbers: this ends */
        if (SAMBA_GROW(reader->context, reader->stack, reader->stack_capacity, depth) != SAMBA_OK)
            return NULL;
        reader->stack[0] = value.index;
        while (depth > 0)
            if (reader->known[reader->stack[depth - 1]].state != UNSEEN || decide(reader, reader->stack[depth - 1], &depth))
                depth--;
    }
    *inputs = known->inputs;
    return known->state == KNOWN ? known->array : NULL;
}

samba_value samba_onnx_fold(samba_onnx_reader *reader, samba_value value)
{
    uint64_t inputs;
    if (!value.graph || value.index == SAMBA_NONE || reader->graph->status != SAMBA_OK)
        return value;
    const samba_node *node = samba_node_at(reader->graph, value.index);
    int64_t numel;
    if (is_leaf(node) || !samba_shape_numel(node->rank, node->shape, &numel) || numel > FOLDED)
        return value;
    const samba_array *array = samba_onnx_known(reader, value, &inputs);
    if (!array || inputs)
        return value;
    samba_tensor *tensor;
    if (samba_tensor_from_memory(reader->context, NULL, array->dtype, array->rank, array->shape, NULL,
                                 array->numel ? array->data : (void *)(uintptr_t) "", NULL, NULL, &tensor) != SAMBA_OK)
        return value;
    samba_value constant = samba_constant_tensor(reader->graph, tensor);
    samba_tensor_free(tensor);
    return constant;
}

void samba_onnx_known_free(samba_onnx_reader *reader)
{
    if (reader->known)
        samba_free(reader->context, reader->known, (size_t)reader->known_capacity * sizeof *reader->known);
    if (reader->stack)
        samba_free(reader->context, reader->stack, (size_t)reader->stack_capacity * sizeof *reader->stack);
}
