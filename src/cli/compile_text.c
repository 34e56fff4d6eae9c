/* SPDX-License-Identifier: Apache-2.0
 *
 * A graph's text (docs/graph.md) as a model that compile takes: its nodes are put into the graph that is being built, in their
 * order, where inputs are there already. */
#include "cli/cli.h"
#include "graph/graph.h"

#include <string.h>

static samba_status check(samba_context *context, const char *path, const samba_graph *text)
{
    for (int64_t i = 0; i < text->node_count; i++)
        if (text->nodes[i].phase != SAMBA_FWD && samba_op_table[text->nodes[i].op].leaf == false)
            return samba_fail(context, SAMBA_ERROR_UNSUPPORTED,
                              "'%s' has a node of another phase than FWD, %%%lld: give the forward graph alone, of which compile "
                              "makes the others",
                              path, (long long)i);
    for (int64_t i = 0; i < text->sink_count; i++)
        if (text->sinks[i].phase != SAMBA_FWD || text->sinks[i].kind == SAMBA_SINK_AGAIN)
            return samba_fail(context, SAMBA_ERROR_UNSUPPORTED,
                              "'%s' has an output, loss or assignment of another phase than FWD: give the forward graph alone",
                              path);
    return SAMBA_OK;
}

samba_status samba_cli_text_open(samba_context *context, const char *path, samba_graph **graph)
{
    void *data = NULL;
    size_t size = 0;
    SAMBA_TRY(samba_file_read(context, path, &data, &size));
    char *text = samba_alloc(context, size + 1);
    if (text) {
        memcpy(text, data, size);
        text[size] = '\0';
    }
    samba_status status = !text                  ? SAMBA_ERROR_MEMORY
                          : strlen(text) != size ? samba_fail(context, SAMBA_ERROR_FORMAT, "a text has no byte 0")
                                                 : samba_graph_parse(context, text, graph);
    samba_free(context, data, size);
    if (text)
        samba_free(context, text, size + 1);
    if (status == SAMBA_ERROR_FORMAT) {
        char message[900];
        snprintf(message, sizeof message, "%s", samba_error_message(context));
        return samba_fail(context, status, "'%s': %s", path, message);
    }
    SAMBA_TRY(status);
    status = check(context, path, *graph);
    if (status != SAMBA_OK) {
        samba_graph_free(*graph);
        *graph = NULL;
    }
    return status;
}

static samba_ref frozen(samba_graph *graph, const samba_graph *text, const samba_node *node)
{
    const samba_attrs_parameter *p = &node->attrs->parameter;
    const samba_initializer start = {(samba_initializer_kind)p->init, p->init_a, p->init_b};
    return samba_register_buffer(graph, samba_graph_name_at(text, p->name), (samba_dtype)node->dtype, node->rank, node->shape,
                                 start)
        .index;
}

static bool is_frozen(const char *name, int count, const char *const *patterns, bool *hits)
{
    bool is = false;
    for (int i = 0; i < count; i++)
        if (samba_match(patterns[i], name))
            is = hits[i] = true;
    return is;
}

samba_status samba_cli_text_apply(const samba_graph *text, samba_graph *graph, int freeze_count, const char *const *freeze,
                                  samba_value *outputs)
{
    samba_arena arena;
    samba_rewriter rewriter = {.in = text, .out = graph};
    bool *hits;
    int count = 0;
    samba_arena_init(&arena, graph->context);
    samba_status status = SAMBA_ROOM(&arena, rewriter.map, text->node_count + 1);
    if (status == SAMBA_OK)
        status = SAMBA_ROOM(&arena, hits, freeze_count + 1);
    for (int64_t i = 0; i < text->node_count && status == SAMBA_OK; i++) {
        const samba_node *node = &text->nodes[i];
        samba_ref inputs[SAMBA_MAX_ARITY];
        for (int k = 0; k < node->arity; k++)
            inputs[k] = rewriter.map[node->inputs[k]];
        graph->fp32 = node->fp32;
        graph->location = samba_graph_location(graph, text, node->location);
        if (node->op == SAMBA_OP_input)
            rewriter.map[i] = samba_graph_leaf(graph, samba_graph_name_at(text, node->attrs->leaf.name));
        else if (node->op == SAMBA_OP_parameter &&
                 is_frozen(samba_graph_name_at(text, node->attrs->parameter.name), freeze_count, freeze, hits))
            rewriter.map[i] = frozen(graph, text, node);
        else
            rewriter.map[i] = samba_rewrite_copy(&rewriter, (samba_ref)i, inputs);
        status = samba_graph_status(graph);
    }
    graph->fp32 = false;
    graph->location = (samba_location){0};
    for (int64_t i = 0; i < text->sink_count && status == SAMBA_OK; i++) {
        const samba_sink *sink = &text->sinks[i];
        const samba_value value = {graph, rewriter.map[sink->value], 0};
        if (sink->kind == SAMBA_SINK_ASSIGN)
            samba_assign((samba_value){graph, rewriter.map[sink->target], 0}, value);
        else
            outputs[count++] = value;
        status = samba_graph_status(graph);
    }
    for (int i = 0; i < freeze_count && status == SAMBA_OK; i++)
        if (!hits[i]) {
            samba_graph_fail(graph, SAMBA_ERROR_NAME, "no parameter has a name like \"%.200s\", which is to be frozen",
                             freeze[i]);
            status = samba_graph_status(graph);
        }
    samba_arena_free(&arena);
    return status;
}
