/* SPDX-License-Identifier: Apache-2.0
 *
 * sambaflow export: the graph that a PEF carries, with weights, as an ONNX model. Weights are those of a session: from a file, or
 * as they are drawn. */
#include "cli/cli.h"
#include "graph/graph.h"
#include <sambaflow/onnx.h>
#include <string.h>

typedef struct exporter {
    samba_context *context;
    const samba_cli_arguments *arguments;
    samba_session *session;
    samba_graph *graph;
    samba_arena arena;
    samba_tensor **weights;
    int weight_count;
} exporter;

static samba_status find_graph(const exporter *e, int *index)
{
    const char *name = e->arguments->graph_name;
    const int count = samba_session_graph_count(e->session);
    samba_words words = {.used = 0};
    *index = 0;
    if (!name && count == 1)
        return SAMBA_OK;
    for (int i = 0; i < count; i++) {
        samba_graph_info info;
        SAMBA_TRY(samba_session_graph_info(e->session, i, &info));
        if (name && strcmp(name, info.name) == 0) {
            *index = i;
            return SAMBA_OK;
        }
        samba_words_add(&words, info.name);
    }
    return name ? samba_fail(e->context, SAMBA_ERROR_NAME, "there is no graph \"%.128s\"; the PEF's are: %s", name,
                             samba_words_text(&words))
                : samba_fail(e->context, SAMBA_ERROR_ARGUMENT,
                             "the PEF has %d graphs and a model is one, say which by --graph-name: %s", count,
                             samba_words_text(&words));
}

static samba_status read_graph(exporter *e)
{
    int index;
    samba_graph_info info;
    samba_literal *literals;
    SAMBA_TRY(find_graph(e, &index));
    SAMBA_TRY(samba_session_graph_info(e->session, index, &info));
    const int64_t count = samba_session_literal_count(e->session, index);
    SAMBA_TRY(SAMBA_ROOM(&e->arena, literals, count + 1));
    for (int64_t i = 0; i < count; i++)
        SAMBA_TRY(samba_session_literal(e->session, index, i, &literals[i]));
    return samba_graph_parse_beside(e->context, info.text, count, literals, &e->graph);
}

/* Of all parameters and buffers of the graph that the device has; a buffer that its PEF has dropped nothing reads. */
static samba_status read_weights(exporter *e)
{
    SAMBA_TRY(SAMBA_ROOM(&e->arena, e->weights, e->graph->node_count + 1));
    for (int64_t i = 0; i < e->graph->node_count; i++) {
        const samba_node *node = &e->graph->nodes[i];
        if (node->op != SAMBA_OP_parameter && node->op != SAMBA_OP_state)
            continue;
        const int64_t name = node->op == SAMBA_OP_parameter ? node->attrs->parameter.name : node->attrs->state.name;
        samba_tensor *tensor;
        samba_status status = samba_session_get_by_name(e->session, samba_graph_name_at(e->graph, name), &tensor);
        if (status == SAMBA_ERROR_NAME)
            continue; /* the writer tells, if the model needs it */
        SAMBA_TRY(status);
        e->weights[e->weight_count++] = tensor;
    }
    return SAMBA_OK;
}

static samba_status work(exporter *e, const char *path)
{
    const samba_cli_arguments *a = e->arguments;
    samba_session_options session = samba_cli_session(a);
    samba_onnx_write_options options = samba_onnx_write_defaults();
    SAMBA_TRY(samba_check_output(e->context, "--output", path, a->pef));
    SAMBA_TRY(samba_session_new(e->context, a->pef, &session, &e->session));
    if (a->load)
        SAMBA_TRY(samba_session_load(e->session, a->load));
    SAMBA_TRY(read_graph(e));
    SAMBA_TRY(read_weights(e));
    options.opset = a->opset;
    options.weight_count = e->weight_count;
    options.weights = e->weights;
    SAMBA_TRY(samba_onnx_write(e->context, e->graph, &options, path));
    printf("%s\n", path);
    return SAMBA_OK;
}

samba_status samba_cli_export(samba_context *context, const samba_cli_arguments *arguments)
{
    exporter e = {.context = context, .arguments = arguments};
    samba_text path; /* "model.pef" -> "model.pef.onnx" beside it, unless the caller says which file */
    samba_arena_init(&e.arena, context);
    samba_status status = samba_text_begin(&path, context, "%s%s", arguments->page ? arguments->page : arguments->pef,
                                           arguments->page ? "" : ".onnx");
    if (status == SAMBA_OK)
        status = work(&e, path.data);
    for (int i = 0; i < e.weight_count; i++)
        samba_tensor_free(e.weights[i]);
    samba_graph_free(e.graph);
    samba_session_free(e.session);
    samba_text_clear(&path);
    samba_arena_free(&e.arena);
    return status;
}
