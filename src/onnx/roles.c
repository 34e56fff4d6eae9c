/* SPDX-License-Identifier: Apache-2.0
 *
 * What a model's initializers are for: parameters, buffers or constants. ONNX does not say so. Numbers that can be trained are
 * parameters, but for those that an operator takes as an argument, statistics that a normalization keeps, and what a PyTorch
 * exporter has marked as a buffer. */
#include "base/null.h"
#include "onnx/onnx.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#define EXPORTER "pkg.torch.export.graph_signature.InputSpec.kind" /* PyTorch's: PARAMETER, BUFFER, CONSTANT_TENSOR */

#define FOLDED "pkg.onnxscript.optimizer.folded_from" /* names of what a constant was computed from */

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

static int compare_names(const void *a, const void *b)
{
    return strcmp((*(const samba_onnx_stored *const *)a)->name, (*(const samba_onnx_stored *const *)b)->name);
}

const samba_onnx_stored *samba_onnx_stored_as(const samba_onnx *model, const char *name)
{
    const samba_onnx_stored key = {name, NULL, SAMBA_ONNX_CONSTANT}, *searched = &key;
    const samba_onnx_stored **found =
        name ? bsearch(&searched, model->by_name, (size_t)model->stored_count, sizeof *model->by_name, compare_names) : NULL;
    return found ? *found : NULL;
}

static void sort(samba_onnx *model)
{
    for (int i = 0; i < model->stored_count; i++)
        model->by_name[i] = &model->stored[i];
    qsort(model->by_name, (size_t)model->stored_count, sizeof *model->by_name, compare_names);
}

/* A path of modules, encoder.scale: names that exporters make up have no dots between letters, or slashes and colons too. */
static bool is_path(const char *name)
{
    bool dots = false;
    for (const char *at = name; *at; at++) {
        const bool letter = isalnum((unsigned char)*at) || *at == '_', dot = *at == '.' && at > name && at[-1] != '.' && at[1];
        if (!letter && !dot)
            return false;
        dots |= dot;
    }
    return dots;
}

/* Single numbers are mostly arguments. */
static samba_onnx_role own_role(const Samba__Onnx__TensorProto *proto, const char *name)
{
    samba_dtype dtype = samba_onnx_dtype(proto->data_type);
    return (proto->n_dims > 0 || is_path(name)) && proto->n_dims <= SAMBA_MAX_RANK && dtype != SAMBA_DTYPE_COUNT &&
                   samba_dtype_is_floating_point(dtype)
               ? SAMBA_ONNX_PARAMETER
               : SAMBA_ONNX_CONSTANT;
}

static void mark(samba_onnx *model, const char *name, samba_onnx_role role)
{
    const samba_onnx_stored *found = samba_onnx_stored_as(model, name);
    if (found && found->role != SAMBA_ONNX_CONSTANT)
        model->stored[found - model->stored].role = role;
}

/* Whether one tensor alone, which a path of modules names, was transposed or cast: PyTorch's exporter says what it folded. */
static bool is_folded_parameter(const char *names)
{
    const char *first = strchr(names, '\'');
    const char *last = strrchr(names, '\'');
    return first && !strchr(names, ',') && memchr(first, '.', (size_t)(last - first));
}

static samba_onnx_role exporters_role(const Samba__Onnx__ValueInfoProto *value, samba_onnx_role role)
{
    for (size_t i = 0; i < value->n_metadata_props; i++) {
        const char *key = value->metadata_props[i]->key, *kind = value->metadata_props[i]->value;
        if (key && kind && strcmp(key, EXPORTER) == 0)
            return strcmp(kind, "PARAMETER") == 0 ? SAMBA_ONNX_PARAMETER
                   : strcmp(kind, "BUFFER") == 0  ? SAMBA_ONNX_BUFFER
                                                  : SAMBA_ONNX_CONSTANT;
        if (key && kind && strcmp(key, FOLDED) == 0)
            return is_folded_parameter(kind) ? SAMBA_ONNX_PARAMETER : SAMBA_ONNX_CONSTANT;
    }
    return role;
}

/* An exporter stores equal tensors once, and gives one the other's name by an Identity: they are two that may part. */
static void add_identities(samba_onnx *model)
{
    const Samba__Onnx__GraphProto *graph = model->message->graph;
    int count = model->stored_count;
    for (size_t n = 0; n < graph->n_node; n++) {
        const Samba__Onnx__NodeProto *node = graph->node[n];
        if (!node->op_type || strcmp(node->op_type, "Identity") != 0 || (node->domain && node->domain[0]) || node->n_input != 1 ||
            node->n_output != 1 || !node->output[0][0])
            continue;
        const samba_onnx_stored *source = samba_onnx_stored_as(model, node->input[0]); /* initializers alone are sorted in yet */
        if (source && !samba_onnx_stored_as(model, node->output[0]))
            model->stored[count++] =
                (samba_onnx_stored){node->output[0], source->proto, own_role(source->proto, node->output[0])};
    }
    model->stored_count = count;
    sort(model);
}

samba_status samba_onnx_find_stored(samba_onnx *model)
{
    const Samba__Onnx__GraphProto *graph = model->message->graph;
    size_t most = graph->n_initializer + graph->n_node + 1;
    SAMBA_TRY(SAMBA_ROOM(&model->arena, model->stored, most));
    SAMBA_TRY(SAMBA_ROOM(&model->arena, model->by_name, most));
    for (size_t i = 0; i < graph->n_initializer; i++) {
        const Samba__Onnx__TensorProto *proto = graph->initializer[i];
        if (!proto->name || !proto->name[0])
            return samba_fail(model->context, SAMBA_ERROR_FORMAT, "%s: an initializer has no name", model->path);
        model->stored[model->stored_count++] = (samba_onnx_stored){proto->name, proto, own_role(proto, proto->name)};
    }
    sort(model);
    for (int i = 1; i < model->stored_count; i++)
        if (strcmp(model->by_name[i - 1]->name, model->by_name[i]->name) == 0)
            return samba_fail(model->context, SAMBA_ERROR_FORMAT, "%s: two initializers have the name \"%.200s\"", model->path,
                              model->by_name[i]->name);
    add_identities(model);
    for (size_t i = 0; i < graph->n_value_info; i++)
        mark(model, graph->value_info[i]->name, exporters_role(graph->value_info[i], SAMBA_ONNX_PARAMETER));
    for (size_t n = 0; n < graph->n_node; n++) {
        const Samba__Onnx__NodeProto *node = graph->node[n];
        for (int u = 0; u < SAMBA_COUNT(uses) && node->op_type; u++)
            for (int k = uses[u].first; k <= uses[u].last && k < (int)node->n_input && strcmp(node->op_type, uses[u].op) == 0;
                 k++)
                mark(model, node->input[k], uses[u].role);
    }
    return SAMBA_OK;
}

int samba_onnx_initializer_count(const samba_onnx *model) { return model ? model->stored_count : 0; }

samba_status samba_onnx_initializer(const samba_onnx *model, int index, samba_onnx_initializer_info *info)
{
    if (!model || !info)
        return SAMBA_ERROR_ARGUMENT;
    if (index < 0 || index >= samba_onnx_initializer_count(model))
        return ONNX_FAIL(model, SAMBA_ERROR_INDEX, "%s: there is no initializer %d; it has %d", model->path, index,
                         samba_onnx_initializer_count(model));
    const Samba__Onnx__TensorProto *proto = model->stored[index].proto;
    *info = (samba_onnx_initializer_info){.name = model->stored[index].name,
                                          .role = model->stored[index].role,
                                          .dtype = proto->n_dims <= SAMBA_MAX_RANK ? samba_onnx_dtype(proto->data_type)
                                                                                   : SAMBA_DTYPE_COUNT,
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
    return samba_onnx_tensor(model, model->stored[index].proto, tensor);
}
