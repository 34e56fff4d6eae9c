/* SPDX-License-Identifier: Apache-2.0
 *
 * A GGUF file's tensors as the parameters of its model: by name, shape and order of rows, quantized ones as float32, float16 and
 * bfloat16 as they are. What a parameter has no tensor for, and a tensor that is no parameter's, is refused by its name: the file
 * is then of another model than its metadata says. */
#include "data/data.h"
#include "graph/graph.h"
#include "lm/gguf.h"
#include "tensor/tensor.h"

/* Tensors that are part of the metadata (gguf_config.c), or that nobody needs. */
static const char *const aside[] = {"rope_freqs.weight", "rope_factors_long.weight", "rope_factors_short.weight"};

static samba_status find(const samba_lm *lm, const samba_parameter_info *parameter, samba_lm_gguf_place *place,
                         const samba_gguf_tensor **tensor)
{
    const samba_gguf *g = lm->gguf;
    if (!samba_lm_gguf_place_of(&lm->shape, lm->gguf_kind, parameter, place))
        return samba_fail(lm->context, SAMBA_ERROR_UNSUPPORTED, "%s: files of \"%s\" have no tensor for \"%s\"", g->path,
                          lm->gguf_kind->name, parameter->name);
    *tensor = samba_gguf_tensor_find(g, place->name);
    if (!*tensor)
        return samba_fail(lm->context, SAMBA_ERROR_FORMAT, "%s: the model needs a tensor \"%s\", which is not there", g->path,
                          place->name);
    if (!samba_shape_equal((*tensor)->rank, (*tensor)->shape, place->rank, place->shape))
        return samba_fail(lm->context, SAMBA_ERROR_FORMAT, "%s: tensor \"%s\" is expected to be %s, given %s", g->path,
                          place->name, SAMBA_SHAPE(place->rank, place->shape), SAMBA_SHAPE((*tensor)->rank, (*tensor)->shape));
    const bool in_blocks = samba_gguf_type_facts((*tensor)->type).elements > 1;
    if (in_blocks && place->rank == 1 && place->rows != SAMBA_LM_ROWS_ALIKE)
        return samba_fail(lm->context, SAMBA_ERROR_UNSUPPORTED,
                          "%s: tensor \"%s\" is a vector of type %s: supported is F32, F16, "
                          "BF16",
                          g->path, place->name, samba_gguf_type_facts((*tensor)->type).name);
    return SAMBA_OK;
}

/* ---- the names alone ---- */

static samba_status mark(const samba_lm *lm, const samba_graph *graph, bool *used)
{
    for (int64_t i = 0; i < samba_graph_parameter_count(graph); i++) {
        samba_parameter_info parameter;
        samba_lm_gguf_place place;
        const samba_gguf_tensor *tensor = NULL;
        SAMBA_TRY(samba_graph_parameter(graph, i, &parameter));
        SAMBA_TRY(find(lm, &parameter, &place, &tensor));
        used[tensor - lm->gguf->tensors] = true;
    }
    return SAMBA_OK;
}

static samba_status check_used(const samba_lm *lm, const bool *used)
{
    char shown[SAMBA_SHOWN];
    for (int64_t i = 0; i < lm->gguf->tensor_count; i++) {
        const char *name = lm->gguf->tensors[i].name;
        bool known = used[i];
        for (int k = 0; k < SAMBA_COUNT(aside); k++)
            known |= strcmp(aside[k], name) == 0;
        if (!known)
            return samba_fail(lm->context, SAMBA_ERROR_UNSUPPORTED,
                              "%s: tensor \"%.200s\" belongs to no part of the model \"%s\" that is known here", lm->gguf->path,
                              samba_shown(name, shown), lm->gguf_kind->name);
    }
    return SAMBA_OK;
}

samba_status samba_lm_gguf_check(samba_lm *lm)
{
    samba_graph *graph;
    bool *used;
    SAMBA_TRY(SAMBA_ROOM(&lm->arena, used, lm->gguf->tensor_count + 1));
    SAMBA_TRY(samba_lm_token_graph(lm, NULL, &graph));
    samba_status status = mark(lm, graph, used);
    samba_graph_free(graph);
    return status == SAMBA_OK ? check_used(lm, used) : status;
}

/* ---- values ---- */

static samba_dtype dtype_of(samba_gguf_type type, const samba_lm_gguf_place *place)
{
    if (place->plus_one || place->transposed)
        return SAMBA_FLOAT32;
    return type == SAMBA_GGUF_F16 ? SAMBA_FLOAT16 : type == SAMBA_GGUF_BF16 ? SAMBA_BFLOAT16 : SAMBA_FLOAT32;
}

/* A row of the file to row `to` of the parameter, or to its column; a vector's rows are its elements. */
static void move_row(const samba_gguf_tensor *t, const samba_lm_gguf_place *place, const char *bytes, int64_t size, int64_t to,
                     samba_tensor *made, float *row)
{
    const int64_t row_bytes = size / samba_gguf_type_facts(t->type).elements * samba_gguf_type_facts(t->type).bytes;
    float *values = samba_tensor_data(made);
    if (samba_tensor_dtype(made) != SAMBA_FLOAT32) {
        memcpy((char *)samba_tensor_data(made) + to * row_bytes, bytes, (size_t)row_bytes);
        return;
    }
    if (!place->transposed) {
        samba_gguf_dequantize(t->type, bytes, size, values + to * size);
        return;
    }
    samba_gguf_dequantize(t->type, bytes, size, row);
    for (int64_t k = 0; k < size; k++)
        values[k * t->shape[0] + to] = row[k];
}

static samba_status move_all(const samba_lm *lm, const samba_gguf_tensor *t, const samba_lm_gguf_place *place, const char *bytes,
                             samba_tensor *made)
{
    const bool is_vector = t->rank == 1, by_element = is_vector && place->rows != SAMBA_LM_ROWS_ALIKE;
    const int64_t size = by_element ? 1 : t->shape[t->rank - 1], rows = t->elements / size;
    const samba_gguf_facts facts = samba_gguf_type_facts(t->type);
    const int64_t row_bytes = size / facts.elements * facts.bytes;
    float *row = NULL, *values = samba_tensor_data(made);
    if (place->transposed && !(row = samba_alloc(lm->context, (size_t)size * sizeof *row)))
        return SAMBA_ERROR_MEMORY;
    for (int64_t i = 0; i < rows && place->slice < 0; i++) {
        const int64_t from = samba_lm_gguf_row(&lm->shape, place, i);
        move_row(t, place, bytes + from * row_bytes, size, i, made, row);
    }
    if (place->slice >= 0)
        move_row(t, place, bytes + place->slice * row_bytes, size, 0, made, row);
    for (int64_t i = 0; i < samba_tensor_numel(made) && place->plus_one; i++)
        values[i] -= 1;
    if (row)
        samba_free(lm->context, row, (size_t)size * sizeof *row);
    return SAMBA_OK;
}

static samba_status read_parameter(const samba_lm *lm, const samba_parameter_info *parameter, samba_tensor **made)
{
    samba_lm_gguf_place place;
    const samba_gguf_tensor *tensor = NULL;
    SAMBA_TRY(find(lm, parameter, &place, &tensor));
    char *bytes = samba_alloc(lm->context, (size_t)tensor->bytes);
    if (!bytes)
        return SAMBA_ERROR_MEMORY;
    samba_status status = samba_gguf_tensor_bytes(lm->gguf, tensor, bytes);
    if (status == SAMBA_OK)
        status = samba_tensor_new(lm->context, parameter->name, dtype_of(tensor->type, &place), parameter->rank, parameter->shape,
                                  made);
    if (status == SAMBA_OK)
        status = move_all(lm, tensor, &place, bytes, *made);
    samba_free(lm->context, bytes, (size_t)tensor->bytes);
    return status;
}

static samba_status read_at(const samba_lm *lm, const samba_graph *graph, int64_t i, samba_tensor **made)
{
    samba_parameter_info parameter;
    SAMBA_TRY(samba_graph_parameter(graph, i, &parameter));
    samba_status status = read_parameter(lm, &parameter, made);
    if (status != SAMBA_OK) {
        samba_tensor_free(*made);
        *made = NULL;
    }
    return status;
}

samba_status samba_lm_gguf_each(const samba_lm *lm, samba_tensor_visit *visit, void *user)
{
    samba_graph *graph;
    SAMBA_TRY(samba_lm_token_graph(lm, NULL, &graph));
    samba_status status = SAMBA_OK;
    for (int64_t i = 0; i < samba_graph_parameter_count(graph) && status == SAMBA_OK; i++) {
        samba_tensor *tensor = NULL;
        status = read_at(lm, graph, i, &tensor);
        if (status == SAMBA_OK)
            status = visit(user, tensor);
    }
    samba_graph_free(graph);
    return status;
}

samba_status samba_lm_gguf_read(const samba_lm *lm, samba_tensor_list *list)
{
    samba_graph *graph;
    *list = (samba_tensor_list){0};
    SAMBA_TRY(samba_lm_token_graph(lm, NULL, &graph));
    samba_status status = samba_tensor_list_new(lm->context, (int)samba_graph_parameter_count(graph), list);
    for (int i = 0; i < list->count && status == SAMBA_OK; i++)
        status = read_at(lm, graph, i, &list->tensors[i]);
    if (status != SAMBA_OK)
        samba_tensor_list_free(lm->context, list);
    samba_graph_free(graph);
    return status;
}
