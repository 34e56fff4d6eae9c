/* SPDX-License-Identifier: Apache-2.0
 *
 * What several graphs share they share by name, so a slip in a layer's name in one of them makes a parameter of its own, which
 * keeps its first values for ever. A graph that has trained parameters of another one beside one that nothing trains, while a
 * name much like that is trained elsewhere in the same shape and this graph does not have it, is told of.
 *
 * Needs: a linked plan and what its graphs train. Gives: a warning. Breaks nothing. */
#include "base/warn.h"
#include "compiler/compiler.h"

#include <string.h>

static bool is_trained(const samba_compiler *const *graphs, int count, const char *parameter)
{
    for (int g = 0; g < count; g++)
        for (int64_t i = 0; i < graphs[g]->trained_count; i++)
            if (strcmp(graphs[g]->trained[i].parameter, parameter) == 0)
                return true;
    return false;
}

/* The trained parameter that a graph's untrained one was perhaps meant to be; NULL: none. `names` has room for all tensors. */
static const char *meant(const samba_plan *plan, const samba_plan_graph *graph, const samba_plan_tensor *stray,
                         const bool *trained, const char **names)
{
    int count = 0;
    for (int32_t t = 0; t < plan->tensor_count; t++) {
        const samba_plan_tensor *other = &plan->tensors[t];
        if (trained[t] && other->dtype == stray->dtype &&
            samba_shape_equal(other->rank, other->shape, stray->rank, stray->shape) && !samba_plan_has_tensor(graph, t))
            names[count++] = other->name;
    }
    const char *nearest = count > 0 ? samba_nearest(stray->name, names, count) : NULL;
    return nearest && samba_ends_with(stray->name, nearest) ? NULL : nearest; /* "ema.fc.weight" is meant */
}

static samba_status warn(const samba_compiler *c, const char *stray, const char *graph, const char *nearest)
{
    samba_text text;
    samba_text_init(&text, c->context);
    samba_text_add(&text,
                   "no graph trains parameter \"%.128s\" of graph \"%.64s\", which keeps the values that it begins with: is it "
                   "meant to be \"%.128s\", which is trained? Graphs share what has one name",
                   stray, graph, nearest);
    if (text.status == SAMBA_OK)
        samba_warn(c->context, text.data);
    samba_text_clear(&text);
    return text.status;
}

samba_status samba_find_misspelt(samba_compiler *c, const samba_compiler *const *graphs, int count)
{
    const samba_plan *plan = &c->plan;
    const char **names;
    bool *trained;
    SAMBA_TRY(SAMBA_ROOM(&c->arena, names, plan->tensor_count));
    SAMBA_TRY(SAMBA_ROOM(&c->arena, trained, plan->tensor_count));
    for (int32_t t = 0; t < plan->tensor_count; t++)
        trained[t] = plan->tensors[t].kind == SAMBA_KIND_PARAMETER && is_trained(graphs, count, plan->tensors[t].name);
    for (int32_t g = 0; g < plan->graph_count; g++) {
        const samba_plan_graph *graph = &plan->graphs[g];
        bool shares = false;
        for (int32_t i = 0; i < graph->tensor_count && !shares; i++)
            shares = trained[graph->tensors[i]];
        for (int32_t i = 0; shares && i < graph->tensor_count; i++) {
            const int32_t t = graph->tensors[i];
            const samba_plan_tensor *tensor = &plan->tensors[t];
            const char *nearest =
                tensor->kind == SAMBA_KIND_PARAMETER && !trained[t] ? meant(plan, graph, tensor, trained, names) : NULL;
            if (nearest)
                return warn(c, tensor->name, graph->name, nearest);
        }
    }
    return SAMBA_OK;
}
