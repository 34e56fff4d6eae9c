/* SPDX-License-Identifier: Apache-2.0
 *
 * The graph that a session's PEF carries, with the weights that the session has, as an ONNX model. */
#include "base/null.h"
#include "graph/graph.h"

#include <sambaflow/onnx.h>
#include <sambaflow/session.h>
#include <string.h>

typedef struct session_writer {
    samba_session *session;
    samba_context *context;
    samba_graph *graph;
    samba_arena arena;
    samba_tensor **weights;
    int weight_count;
} session_writer;

static samba_status find_graph(const session_writer *w, const char *name, int *index)
{
    const int count = samba_session_graph_count(w->session);
    char names[512] = "";
    *index = 0;
    if (!name && count == 1)
        return SAMBA_OK;
    for (int i = 0; i < count; i++) {
        samba_graph_info info;
        SAMBA_TRY(samba_session_graph_info(w->session, i, &info));
        *index = i;
        if (name && strcmp(name, info.name) == 0)
            return SAMBA_OK;
        size_t used = strlen(names);
        snprintf(names + used, sizeof names - used, "%s%.100s", i ? ", " : "", info.name);
    }
    return name ? samba_fail(w->context, SAMBA_ERROR_NAME, "there is no graph \"%.128s\"; the PEF's are: %s", name, names)
                : samba_fail(w->context, SAMBA_ERROR_ARGUMENT,
                             "the PEF has %d graphs and a model is one, say which (--graph-name): %s", count, names);
}

static samba_status read_graph(session_writer *w, const char *name)
{
    int index;
    samba_graph_info info;
    samba_literal *literals;
    SAMBA_TRY(find_graph(w, name, &index));
    SAMBA_TRY(samba_session_graph_info(w->session, index, &info));
    const int64_t count = samba_session_literal_count(w->session, index);
    SAMBA_TRY(SAMBA_ROOM(&w->arena, literals, count + 1));
    for (int64_t i = 0; i < count; i++)
        SAMBA_TRY(samba_session_literal(w->session, index, i, &literals[i]));
    return samba_graph_parse_beside(w->context, info.text, count, literals, &w->graph);
}

/* Of all parameters and buffers of the graph that the device has; a buffer that its PEF has dropped nothing reads. */
static samba_status read_weights(session_writer *w)
{
    SAMBA_TRY(SAMBA_ROOM(&w->arena, w->weights, w->graph->node_count + 1));
    for (int64_t i = 0; i < w->graph->node_count; i++) {
        const samba_node *node = &w->graph->nodes[i];
        if (node->op != SAMBA_OP_parameter && node->op != SAMBA_OP_state)
            continue;
        const int64_t name = node->op == SAMBA_OP_parameter ? node->attrs->parameter.name : node->attrs->state.name;
        samba_tensor *tensor;
        samba_status status = samba_session_get_by_name(w->session, samba_graph_name_at(w->graph, name), &tensor);
        if (status == SAMBA_ERROR_NAME)
            continue; /* the writer tells, if the model needs it */
        SAMBA_TRY(status);
        w->weights[w->weight_count++] = tensor;
    }
    return SAMBA_OK;
}

static samba_status write_model(session_writer *w, const char *graph_name, int opset, const char *path)
{
    samba_onnx_write_options options = samba_onnx_write_defaults();
    SAMBA_TRY(read_graph(w, graph_name));
    SAMBA_TRY(read_weights(w));
    options.opset = opset;
    options.weight_count = w->weight_count;
    options.weights = w->weights;
    return samba_onnx_write(w->context, w->graph, &options, path);
}

samba_status samba_onnx_write_session(samba_context *context, samba_session *session, const char *graph_name, int opset,
                                      const char *path)
{
    SAMBA_NEED(NULL, context);
    SAMBA_NEED(context, session);
    SAMBA_NEED(context, path);
    session_writer w = {.session = session, .context = context};
    samba_arena_init(&w.arena, context);
    samba_status status = write_model(&w, graph_name, opset, path);
    for (int i = 0; i < w.weight_count; i++)
        samba_tensor_free(w.weights[i]);
    samba_graph_free(w.graph);
    samba_arena_free(&w.arena);
    return status;
}
