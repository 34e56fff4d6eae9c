/* SPDX-License-Identifier: Apache-2.0
 *
 * Parameters without weight decay. --no-decay has patterns of names, and the word "vectors" for parameters of one dimension,
 * which are those of norms, and biases. They become the patterns of an optimizer of their own, which comes before the one of all
 * others. The word needs the names that it stands for, so the model is traced once more. */
#include "app/app.h"
#include "graph/graph.h"

#include <string.h>

const char samba_app_undecayed_name[] = "undecayed";
static const char vectors[] = "vectors";

static samba_status add(samba_arena *arena, const char *text, int *count, const char **patterns)
{
    patterns[*count] = samba_arena_strdup(arena, text);
    return patterns[(*count)++] ? SAMBA_OK : SAMBA_ERROR_MEMORY;
}

/* Names of parameters have no '*' or '?', so each is a pattern of itself. */
static samba_status add_vectors(samba_context *context, const samba_graph *graph, samba_arena *arena, int *count,
                                const char **patterns)
{
    int before = *count;
    for (int64_t i = 0; i < graph->node_count; i++) {
        const samba_node *node = samba_node_at(graph, (samba_ref)i);
        if (node->op != SAMBA_OP_parameter || node->rank > 1)
            continue;
        const char *name = samba_graph_name_at(graph, node->attrs->parameter.name);
        SAMBA_TRY(add(arena, name, count, patterns));
    }
    return *count > before ? SAMBA_OK
                           : samba_fail(context, SAMBA_ERROR_NAME,
                                        "--no-decay: the model has no vectors: every parameter has two dims or more");
}

static samba_status collect(const samba_app_run *run, const samba_graph *graph, samba_arena *arena, int *count,
                            const char **patterns)
{
    char *words, *next;
    SAMBA_TRY(samba_arena_copy(arena, run->arguments->no_decay, &words));
    for (char *word = words; word; word = next) {
        next = strchr(word, ',');
        if (next)
            *next++ = '\0';
        if (!word[0])
            return samba_fail(run->context, SAMBA_ERROR_ARGUMENT,
                              "--no-decay: expected patterns of names, or the word vectors, with a comma between two, given '%s'",
                              run->arguments->no_decay);
        SAMBA_TRY(strcmp(word, vectors) == 0 ? add_vectors(run->context, graph, arena, count, patterns)
                                             : add(arena, word, count, patterns));
    }
    return SAMBA_OK;
}

samba_status samba_app_undecayed(const samba_app_run *run, int input_count, const samba_app_input *inputs, samba_arena *arena,
                                 int *count, const char ***patterns)
{
    samba_graph *graph;
    int64_t most = 1;
    *count = 0;
    for (const char *at = run->arguments->no_decay; *at; at++)
        most += *at == ',';
    SAMBA_TRY(samba_app_trace(run, run->arguments->app->name, input_count, inputs, &graph));
    samba_status status = SAMBA_ROOM(arena, *patterns, most + most * graph->node_count);
    if (status == SAMBA_OK)
        status = collect(run, graph, arena, count, *patterns);
    samba_graph_free(graph);
    return status;
}
