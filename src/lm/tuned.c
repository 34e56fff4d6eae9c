/* SPDX-License-Identifier: Apache-2.0
 *
 * What a session is given where a part of the model is frozen: the folder's weights in the base that the graph has them in, and
 * the norms with which the magnitudes of DoRA start. The graph is asked which: one of one token has the leaves of all graphs. */
#include "base/null.h"
#include "data/data.h"
#include "graph/graph.h"
#include "lm/gguf.h"
#include "tensor/tensor.h"

#include <math.h>
#include <string.h>

samba_status samba_lm_token_graph(const samba_lm *lm, const samba_lm_options *given, samba_graph **graph)
{
    samba_tensor *token = NULL;
    samba_lm_options options = samba_lm_defaults();
    options.lora = given ? given->lora : NULL;
    options.base = given ? given->base : SAMBA_BASE_AS_TRACED;
    *graph = NULL;
    samba_status status = samba_tensor_empty(lm->context, "input_ids", SAMBA_INT64, 2, (int64_t[]){1, 1}, &token);
    if (status == SAMBA_OK)
        status = samba_graph_new(lm->context, "lm", graph);
    if (status == SAMBA_OK)
        status = samba_graph_add_input(*graph, token);
    if (status == SAMBA_OK) {
        samba_lm_logits(lm, *graph, samba_input(*graph, "input_ids"), &options);
        status = samba_graph_status(*graph);
    }
    samba_tensor_free(token);
    if (status != SAMBA_OK) {
        samba_graph_free(*graph);
        *graph = NULL;
    }
    return status;
}

typedef struct tuning {
    const samba_lm *lm;
    samba_tensor_list read, made; /* of the folder; for the session */
} tuning;

/* `name` with another ending; the weight that it comes from. NULL: the folder has none. */
static const samba_tensor *source_of(const tuning *t, const char *name, const char *ending)
{
    const size_t length = strlen(name), tail = strlen(ending);
    for (int i = 0; i < t->read.count; i++) {
        const char *other = samba_tensor_name(t->read.tensors[i]);
        if (strncmp(other, name, length - tail) == 0 && strcmp(other + length - tail, tail ? "weight" : "") == 0)
            return t->read.tensors[i];
    }
    return NULL;
}

/* A float32 copy. */
static samba_status widen(const tuning *t, const samba_tensor *source, samba_tensor **wide)
{
    SAMBA_TRY(samba_tensor_new(t->lm->context, samba_tensor_name(source), SAMBA_FLOAT32, samba_tensor_rank(source),
                               samba_tensor_shape(source), wide));
    return samba_tensor_copy(*wide, source);
}

static void keep(tuning *t, samba_tensor *tensor)
{
    if (tensor)
        t->made.tensors[t->made.count++] = tensor;
}

/* Whether the folder has a weight as (in, out): such are linear layers of the decoder's layers alone. */
static bool is_turned(const samba_lm *lm, const samba_tensor *source)
{
    char part[300];
    snprintf(part, sizeof part, ".%.290s.", lm->shape.names.layers);
    return lm->shape.transposed && strstr(samba_tensor_name(source), part);
}

static samba_status quantized(tuning *t, const samba_tensor *source, samba_base base, samba_tensor *parts[2])
{
    samba_tensor *wide = NULL;
    samba_status status = samba_tensor_dtype(source) == SAMBA_FLOAT32 ? SAMBA_OK : widen(t, source, &wide);
    if (status == SAMBA_OK)
        status = samba_quantize(t->lm->context, wide ? wide : source, base, is_turned(t->lm, source), parts);
    samba_tensor_free(wide);
    return status;
}

static samba_status as_dtype(tuning *t, const samba_tensor *source, const samba_node *leaf)
{
    samba_tensor *tensor = NULL;
    samba_status status =
        samba_tensor_new(t->lm->context, samba_tensor_name(source), (samba_dtype)leaf->dtype, leaf->rank, leaf->shape, &tensor);
    if (status == SAMBA_OK && !samba_shape_equal(source->rank, source->shape, leaf->rank, leaf->shape))
        status = samba_fail(t->lm->context, SAMBA_ERROR_SHAPE, "\"%s\" is expected to be %s, given %s", samba_tensor_name(source),
                            SAMBA_SHAPE(leaf->rank, leaf->shape), SAMBA_SHAPE(source->rank, source->shape));
    if (status == SAMBA_OK)
        status = samba_tensor_copy(tensor, source);
    if (status == SAMBA_OK)
        keep(t, tensor);
    else
        samba_tensor_free(tensor);
    return status;
}

/* ---- magnitudes ---- */

/* What the graph reads of a weight: float32 (out, in). */
static samba_status read_weight(tuning *t, const samba_tensor *source, samba_base base, int64_t out, int64_t in, float **values)
{
    samba_tensor *parts[2] = {NULL};
    const bool turned = is_turned(t->lm, source);
    samba_tensor *wide = NULL;
    *values = samba_alloc(t->lm->context, (size_t)(out * in) * sizeof(float));
    if (!*values)
        return SAMBA_ERROR_MEMORY;
    samba_status status = base == SAMBA_BASE_AS_TRACED ? widen(t, source, &parts[0]) : quantized(t, source, base, parts);
    if (status == SAMBA_OK && base == SAMBA_BASE_BFLOAT16)
        status = widen(t, parts[0], &wide);
    for (int64_t i = 0; i < out && status == SAMBA_OK; i++)
        for (int64_t k = 0; k < in; k++)
            (*values)[i * in + k] =
                base == SAMBA_BASE_INT8 || base == SAMBA_BASE_INT4
                    ? samba_quantized_at(parts, base == SAMBA_BASE_INT4, in, i, k)
                    : ((const float *)samba_tensor_data(wide ? wide : parts[0]))[turned ? k * out + i : i * in + k];
    for (int i = 0; i < 2; i++)
        samba_tensor_free(parts[i]);
    samba_tensor_free(wide);
    return status;
}

static samba_status magnitudes(tuning *t, const samba_tensor *source, samba_base base, const char *name, int64_t out)
{
    samba_tensor *tensor = NULL;
    float *values = NULL;
    const int64_t in = out > 0 ? samba_tensor_numel(source) / out : 0;
    SAMBA_TRY(samba_tensor_new(t->lm->context, name, SAMBA_FLOAT32, 1, &out, &tensor));
    samba_status status = read_weight(t, source, base, out, in, &values);
    for (int64_t i = 0; i < out && status == SAMBA_OK; i++) {
        double sum = 0;
        for (int64_t k = 0; k < in; k++)
            sum += (double)values[i * in + k] * values[i * in + k];
        ((float *)samba_tensor_data(tensor))[i] = (float)sqrt(sum);
    }
    if (values)
        samba_free(t->lm->context, values, (size_t)(out * in) * sizeof(float));
    if (status == SAMBA_OK)
        keep(t, tensor);
    else
        samba_tensor_free(tensor);
    return status;
}

/* ---- all of them ---- */

static samba_status missing(const tuning *t, const char *name)
{
    return samba_fail(t->lm->context, SAMBA_ERROR_NAME, "the folder \"%.300s\" has no weight for \"%s\"", t->lm->folder, name);
}

/* How the graph has a module's weight. */
static samba_base base_of(const samba_graph *graph, const samba_tensor *weight)
{
    const samba_ref leaf = samba_graph_leaf(graph, samba_tensor_name(weight));
    const samba_dtype dtype = leaf == SAMBA_NONE ? SAMBA_UINT8 : (samba_dtype)samba_node_at(graph, leaf)->dtype;
    return dtype == SAMBA_UINT8      ? SAMBA_BASE_INT4
           : dtype == SAMBA_INT8     ? SAMBA_BASE_INT8
           : dtype == SAMBA_BFLOAT16 ? SAMBA_BASE_BFLOAT16
                                     : SAMBA_BASE_AS_TRACED;
}

/* Adapters, and scales, which come with their integers. */
static bool starts_itself(const char *name)
{
    return samba_ends_with(name, ".lora_A.weight") || samba_ends_with(name, ".lora_B.weight") ||
           samba_ends_with(name, ".weight_scale");
}

static samba_status give(tuning *t, const samba_graph *graph, const samba_node *leaf)
{
    const char *name = samba_graph_name_at(graph, leaf->attrs->leaf.name);
    samba_tensor *parts[2] = {NULL};
    const samba_tensor *source;
    if (starts_itself(name))
        return SAMBA_OK;
    if (samba_ends_with(name, ".lora_magnitude_vector")) {
        source = source_of(t, name, "lora_magnitude_vector");
        return source ? magnitudes(t, source, base_of(graph, source), name, leaf->shape[0]) : missing(t, name);
    }
    const bool packed = samba_ends_with(name, ".weight_packed");
    source = source_of(t, name, packed ? "weight_packed" : "");
    if (!source)
        return missing(t, name);
    if (!packed && leaf->dtype != SAMBA_INT8)
        return as_dtype(t, source, leaf);
    SAMBA_TRY(quantized(t, source, packed ? SAMBA_BASE_INT4 : SAMBA_BASE_INT8, parts));
    keep(t, parts[0]);
    keep(t, parts[1]);
    return SAMBA_OK;
}

static samba_status give_all(tuning *t, const samba_graph *graph)
{
    samba_tensor_list list;
    SAMBA_TRY(samba_tensor_list_new(t->lm->context, (int)(2 * graph->node_count), &list));
    t->made = list;
    t->made.count = 0;
    samba_status status = SAMBA_OK;
    for (int64_t i = 0; i < graph->node_count && status == SAMBA_OK; i++)
        if (graph->nodes[i].op == SAMBA_OP_parameter || graph->nodes[i].op == SAMBA_OP_state)
            status = give(t, graph, &graph->nodes[i]);
    int made = t->made.count;
    t->made.count = list.count; /* what it was made with, for its end */
    if (status == SAMBA_OK)
        status = samba_tensor_list_new(t->lm->context, made, &list);
    if (status == SAMBA_OK) {
        for (int i = 0; i < made; i++) {
            list.tensors[i] = t->made.tensors[i];
            t->made.tensors[i] = NULL;
        }
        samba_tensor_list_free(t->lm->context, &t->made);
        t->made = list;
    }
    return status;
}

samba_status samba_lm_tuned_weights(const samba_lm *lm, const samba_lm_options *options, samba_tensor_list *list)
{
    SAMBA_NEED(NULL, lm);
    SAMBA_NEED(lm->context, list);
    *list = (samba_tensor_list){0};
    if (!lm->has_weights)
        return samba_fail(lm->context, SAMBA_ERROR_STATE, "the folder \"%.300s\" has no weights", lm->folder);
    tuning t = {.lm = lm};
    samba_graph *graph = NULL;
    samba_lm_options taken = samba_lm_defaults();
    if (options)
        SAMBA_TRY(samba_options_take(lm->context, "samba_lm_tuned_weights", options, sizeof taken, &taken));
    samba_status status = samba_lm_token_graph(lm, &taken, &graph);
    if (status == SAMBA_OK)
        status = samba_lm_read_weights(lm, &t.read);
    if (status == SAMBA_OK)
        status = give_all(&t, graph);
    if (status == SAMBA_OK)
        *list = t.made;
    else
        samba_tensor_list_free(lm->context, &t.made);
    samba_tensor_list_free(lm->context, &t.read);
    samba_graph_free(graph);
    return status;
}

/* ---- a session, tensor by tensor ---- */

typedef struct giving {
    tuning tuning;
    samba_session *session;
    const samba_graph *graph;
    bool *given; /* per node */
} giving;

/* Whether a leaf of this name is made of the folder's tensor. */
static bool comes_from(const char *leaf, const char *tensor)
{
    static const char *const endings[] = {"weight_packed", "lora_magnitude_vector"};
    const size_t length = strlen(tensor), tail = strlen("weight");
    if (strcmp(leaf, tensor) == 0)
        return true;
    for (int e = 0; e < SAMBA_COUNT(endings) && samba_ends_with(tensor, ".weight"); e++)
        if (strncmp(leaf, tensor, length - tail) == 0 && strcmp(leaf + length - tail, endings[e]) == 0)
            return true;
    return false;
}

static bool is_leaf(const samba_node *node) { return node->op == SAMBA_OP_parameter || node->op == SAMBA_OP_state; }

/* What the session has of one of the folder's tensors. */
static samba_status give_one(void *user, samba_tensor *tensor)
{
    giving *g = user;
    tuning *t = &g->tuning;
    samba_tensor *made[4] = {NULL};
    samba_load_options how = samba_load_defaults();
    samba_status status = SAMBA_OK;
    t->read = (samba_tensor_list){.count = 1, .tensors = &tensor};
    t->made = (samba_tensor_list){.count = 0, .tensors = made};
    for (int64_t i = 0; i < g->graph->node_count && status == SAMBA_OK; i++) {
        const samba_node *node = &g->graph->nodes[i];
        if (!is_leaf(node) || !comes_from(samba_graph_name_at(g->graph, node->attrs->leaf.name), samba_tensor_name(tensor)))
            continue;
        if ((samba_dtype)node->dtype == samba_tensor_dtype(tensor) &&
            samba_shape_equal(node->rank, node->shape, tensor->rank, tensor->shape))
            keep(t, tensor); /* as it is */
        else
            status = give(t, g->graph, node);
        g->given[i] = true;
    }
    how.partial = true;
    if (status == SAMBA_OK && t->made.count > 0)
        status = samba_session_load_tensors(g->session, t->made.count, t->made.tensors, &how);
    for (int i = 0; i < t->made.count; i++)
        if (made[i] != tensor)
            samba_tensor_free(made[i]);
    samba_tensor_free(tensor);
    return status;
}

samba_status samba_lm_give_weights(const samba_lm *lm, samba_session *session, const samba_lm_options *options)
{
    giving g = {.tuning.lm = lm, .session = session};
    samba_graph *graph = NULL;
    samba_arena arena;
    SAMBA_TRY(samba_lm_token_graph(lm, options, &graph));
    samba_arena_init(&arena, lm->context);
    g.graph = graph;
    samba_status status = SAMBA_ROOM(&arena, g.given, graph->node_count + 1);
    if (status == SAMBA_OK)
        status = lm->gguf ? samba_lm_gguf_each(lm, give_one, &g) : samba_weights_each(lm->context, lm->folder, give_one, &g);
    for (int64_t i = 0; i < graph->node_count && status == SAMBA_OK; i++) {
        const samba_node *node = &graph->nodes[i];
        const char *name = is_leaf(node) ? samba_graph_name_at(graph, node->attrs->leaf.name) : NULL;
        if (name && !g.given[i] && !starts_itself(name))
            status = missing(&g.tuning, name);
    }
    samba_arena_free(&arena);
    samba_graph_free(graph);
    return status;
}
