/* SPDX-License-Identifier: Apache-2.0
 *
 * What a model's initializers are for: parameters, buffers or constants. ONNX does not say so. Numbers that can be trained are
 * parameters, but for those that an operator takes as an argument, statistics that a normalization keeps, and what a PyTorch
 * exporter has marked as a buffer. */
#include "base/null.h"
#include "onnx/onnx.h"

#include <stdlib.h>
#include <string.h>

#define EXPORTER "pkg.torch.export.graph_signature.InputSpec.kind" /* PyTorch's: PARAMETER, BUFFER, CONSTANT_TENSOR */

/* Inputs that say something else than numbers to compute with. */
typedef struct use {
    const char *op;
    int first, last;
    samba_onnx_role role;
} use;
static const use uses[] = {
    {"BatchNormalization", 3, 4, SAMBA_ONNX_BUFFER},
    {"Resize", 1, 3, SAMBA_ONNX_CONSTANT},
    {"Upsample", 1, 1, SAMBA_ONNX_CONSTANT},
    {"Range", 0, 2, SAMBA_ONNX_CONSTANT},
    {"OneHot", 1, 2, SAMBA_ONNX_CONSTANT},
    {"Clip", 1, 2, SAMBA_ONNX_CONSTANT},
    {"Pad", 2, 2, SAMBA_ONNX_CONSTANT},
    {"Dropout", 1, 2, SAMBA_ONNX_CONSTANT},
    {"QuantizeLinear", 1, 2, SAMBA_ONNX_BUFFER},
    {"DequantizeLinear", 1, 2, SAMBA_ONNX_BUFFER},
    {"QLinearConv", 1, 7, SAMBA_ONNX_BUFFER},
    {"QLinearMatMul", 1, 7, SAMBA_ONNX_BUFFER},
};

typedef struct named {
    const char *name;
    size_t index;
} named;

static int compare_names(const void *a, const void *b)
{
    return strcmp(((const named *)a)->name, ((const named *)b)->name);
}

static samba_onnx_role own_role(const Onnx__TensorProto *proto)
{
    samba_dtype dtype = onnx_dtype(proto->data_type);
    return proto->n_dims > 0 && proto->n_dims <= SAMBA_MAX_RANK && dtype != SAMBA_DTYPE_COUNT && samba_dtype_is_floating_point(dtype)
               ? SAMBA_ONNX_PARAMETER
               : SAMBA_ONNX_CONSTANT;
}

static void mark(samba_onnx *model, const named *names, size_t count, const char *name, samba_onnx_role role)
{
    const named *found = name ? bsearch(&(named){name, 0}, names, count, sizeof *names, compare_names) : NULL;
    if (found && model->roles[found->index] != SAMBA_ONNX_CONSTANT)
        model->roles[found->index] = role;
}

static samba_onnx_role exporters_role(const Onnx__ValueInfoProto *value, samba_onnx_role role)
{
    for (size_t i = 0; i < value->n_metadata_props; i++) {
        const char *key = value->metadata_props[i]->key, *kind = value->metadata_props[i]->value;
        if (key && kind && strcmp(key, EXPORTER) == 0)
            return strcmp(kind, "PARAMETER") == 0 ? SAMBA_ONNX_PARAMETER
                   : strcmp(kind, "BUFFER") == 0  ? SAMBA_ONNX_BUFFER
                                                  : SAMBA_ONNX_CONSTANT;
    }
    return role;
}

samba_status onnx_find_roles(samba_onnx *model)
{
    const Onnx__GraphProto *graph = model->message->graph;
    size_t count = graph->n_initializer;
    named *names;
    SAMBA_TRY(SAMBA_ROOM(&model->arena, model->roles, count + 1));
    SAMBA_TRY(SAMBA_ROOM(&model->arena, names, count + 1));
    for (size_t i = 0; i < count; i++) {
        const char *name = graph->initializer[i]->name;
        names[i] = (named){name ? name : "", i};
        model->roles[i] = own_role(graph->initializer[i]);
    }
    qsort(names, count, sizeof *names, compare_names);
    for (size_t i = 0; i < graph->n_value_info; i++)
        mark(model, names, count, graph->value_info[i]->name, exporters_role(graph->value_info[i], SAMBA_ONNX_PARAMETER));
    for (size_t n = 0; n < graph->n_node; n++) {
        const Onnx__NodeProto *node = graph->node[n];
        for (int u = 0; u < SAMBA_COUNT(uses) && node->op_type; u++)
            for (int k = uses[u].first; k <= uses[u].last && k < (int)node->n_input && strcmp(node->op_type, uses[u].op) == 0; k++)
                mark(model, names, count, node->input[k], uses[u].role);
    }
    return SAMBA_OK;
}

int samba_onnx_initializer_count(const samba_onnx *model) { return model ? (int)model->message->graph->n_initializer : 0; }

samba_status samba_onnx_initializer(const samba_onnx *model, int index, samba_onnx_initializer_info *info)
{
    if (!model || !info)
        return SAMBA_ERROR_ARGUMENT;
    if (index < 0 || index >= samba_onnx_initializer_count(model))
        return ONNX_FAIL(model, SAMBA_ERROR_INDEX, "%s: there is no initializer %d; it has %d", model->path, index,
                         samba_onnx_initializer_count(model));
    const Onnx__TensorProto *proto = model->message->graph->initializer[index];
    *info = (samba_onnx_initializer_info){.name = proto->name ? proto->name : "",
                                          .role = model->roles[index],
                                          .dtype = proto->n_dims <= SAMBA_MAX_RANK ? onnx_dtype(proto->data_type) : SAMBA_DTYPE_COUNT,
                                          .rank = proto->n_dims <= SAMBA_MAX_RANK ? (int)proto->n_dims : 0};
    for (int i = 0; i < info->rank; i++)
        info->shape[i] = proto->dims[i];
    return SAMBA_OK;
}

samba_status samba_onnx_initializer_value(samba_onnx *model, int index, samba_tensor **tensor)
{
    if (!model || !tensor)
        return SAMBA_ERROR_ARGUMENT;
    samba_onnx_initializer_info info;
    SAMBA_TRY(samba_onnx_initializer(model, index, &info));
    return onnx_tensor(model, model->message->graph->initializer[index], tensor);
}
