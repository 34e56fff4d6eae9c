/* SPDX-License-Identifier: Apache-2.0
 *
 * Lists of attributes, whatever their length. */
#include "onnx/lists.h"

#include <string.h>

#define T(name) SAMBA__ONNX__TENSOR_PROTO__DATA_TYPE__##name

const float *samba_onnx_floats(samba_onnx_node *node, const char *name, int64_t *count)
{
    const Samba__Onnx__AttributeProto *attribute = samba_onnx_attribute(node, name);
    *count = attribute ? (int64_t)attribute->n_floats : 0;
    return *count ? attribute->floats : NULL;
}

const int64_t *samba_onnx_long_ints(samba_onnx_node *node, const char *name, int64_t *count)
{
    const Samba__Onnx__AttributeProto *attribute = samba_onnx_attribute(node, name);
    *count = attribute ? (int64_t)attribute->n_ints : 0;
    return *count ? attribute->ints : NULL;
}

const double *samba_onnx_tensor_doubles(samba_onnx_node *node, const char *name, int64_t *count)
{
    const Samba__Onnx__AttributeProto *attribute = samba_onnx_attribute(node, name);
    samba_onnx_reader *reader = node->reader;
    samba_tensor *tensor;
    double *values;
    *count = 0;
    if (!attribute || node->refused)
        return NULL;
    if (!attribute->t || samba_onnx_tensor(reader->model, attribute->t, &tensor) != SAMBA_OK) {
        samba_onnx_refuse(node, "attribute %s: %s", name,
                          attribute->t ? samba_error_message(reader->context) : "a tensor is expected");
        return NULL;
    }
    int64_t numel = samba_tensor_numel(tensor);
    size_t size = samba_dtype_size(samba_tensor_dtype(tensor));
    if (samba_onnx_afford(node, 8 * (double)numel, 0) && SAMBA_ROOM(&reader->arena, values, numel + 1) == SAMBA_OK) {
        for (int64_t i = 0; i < numel; i++)
            values[i] = samba_load_double(samba_tensor_dtype(tensor), (const char *)samba_tensor_data(tensor) + (size_t)i * size);
        *count = numel;
    }
    samba_tensor_free(tensor);
    return *count ? values : NULL;
}

const double *samba_onnx_doubles(samba_onnx_node *node, const char *name, int64_t *count)
{
    char longer[128];
    const float *floats = samba_onnx_floats(node, name, count);
    double *values;
    snprintf(longer, sizeof longer, "%s_as_tensor", name);
    if (!floats)
        return samba_onnx_tensor_doubles(node, longer, count);
    if (!samba_onnx_afford(node, 8 * (double)*count, 0) || SAMBA_ROOM(&node->reader->arena, values, *count) != SAMBA_OK) {
        *count = 0;
        return NULL;
    }
    for (int64_t i = 0; i < *count; i++)
        values[i] = (double)floats[i];
    return values;
}

const char *const *samba_onnx_words(samba_onnx_node *node, const char *name, int64_t *count)
{
    const Samba__Onnx__AttributeProto *attribute = samba_onnx_attribute(node, name);
    const char **words;
    *count = attribute ? (int64_t)attribute->n_strings : 0;
    double bytes = 0;
    for (int64_t i = 0; i < *count; i++)
        bytes += (double)attribute->strings[i].len + 32;
    if (*count == 0 || !samba_onnx_afford(node, bytes, 0) || SAMBA_ROOM(&node->reader->arena, words, *count) != SAMBA_OK) {
        *count = 0;
        return NULL;
    }
    for (int64_t i = 0; i < *count; i++) {
        char *word = samba_arena_alloc(&node->reader->arena, attribute->strings[i].len + 1);
        if (word && attribute->strings[i].len > 0)
            memcpy(word, attribute->strings[i].data, attribute->strings[i].len);
        words[i] = word ? word : "";
    }
    return words;
}

const samba_array *samba_onnx_data_in(samba_onnx_node *node, int index)
{
    samba_value value = samba_onnx_need(node, index);
    uint64_t inputs = 0;
    const samba_array *array = node->refused ? NULL : samba_onnx_known(node->reader, value, &inputs);
    if (!node->refused && !array)
        samba_onnx_refuse(node, "the shape of its result depends on data");
    node->reader->model->built_in |= inputs;
    return node->refused ? NULL : array;
}

samba_value samba_onnx_doubles_value(samba_onnx_node *node, samba_dtype dtype, int rank, const int64_t *shape,
                                     const double *values)
{
    samba_context *context = node->reader->context;
    samba_tensor *given, *tensor = NULL;
    samba_value value = {NULL, SAMBA_NONE, 0};
    int64_t numel;
    if (samba_shape_numel(rank, shape, &numel) && !samba_onnx_afford(node, 8 * (double)numel, 0))
        return value;
    samba_status status =
        samba_tensor_from_memory(context, NULL, SAMBA_FLOAT64, rank, shape, NULL, (void *)(uintptr_t)values, NULL, NULL, &given);
    if (status == SAMBA_OK) {
        status = samba_tensor_new(context, NULL, dtype, rank, shape, &tensor);
        if (status == SAMBA_OK)
            status = samba_tensor_copy(tensor, given);
        if (status == SAMBA_OK)
            value = samba_constant_tensor(node->graph, tensor);
        samba_tensor_free(tensor);
        samba_tensor_free(given);
    }
    return status == SAMBA_OK ? value : onnx_refused(node, "%s", samba_error_message(context));
}

int32_t samba_onnx_type_of(samba_onnx_node *node, int index, samba_value value)
{
    int32_t type = samba_onnx_type_in(node, index);
    if (type == 0 && value.graph) {
        samba_dtype dtype = samba_value_dtype(value);
        for (int32_t i = 1; i <= T(BFLOAT16) && !type; i++)
            if (samba_onnx_dtype(i) == dtype && i != T(UINT16) && i != T(UINT32) && i != T(UINT64))
                type = i;
    }
    return type;
}
