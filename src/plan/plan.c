/* SPDX-License-Identifier: Apache-2.0
 *
 * A plan's beginning and end, and the names of precisions, mappings and section types. */
#include "plan/plan.h"
#include <sambaflow/graph.h>

#include <string.h>

const char *const samba_precision_names[2] = {"fp32", "bf16"};
const char *const samba_mapping_names[2] = {"section", "spatial"};
const char *const samba_kind_names[5] = {"input", "parameter", "buffer", "gradient", "output"};
const char *const samba_section_type_names[6] = {"ZEROGRAD", "FWD", "BCKWD", "REDUCE", "GRADNORM", "OPT"};

const char *samba_section_type(const samba_plan_section *section)
{
    return section->forward_stages > 0 ? "FWD+BCKWD" : samba_section_type_names[section->phase];
}

void samba_plan_init(samba_plan *plan, samba_context *context)
{
    memset(plan, 0, sizeof *plan);
    samba_arena_init(&plan->arena, context);
}

void samba_plan_free(samba_plan *plan)
{
    samba_context *context = plan->arena.context;
    samba_arena_free(&plan->arena);
    samba_plan_init(plan, context);
}

samba_status samba_plan_own_graph(samba_plan *plan)
{
    samba_plan_graph *graph = &plan->graphs[0];
    graph->first_section = graph->first_call = 0;
    graph->section_count = plan->section_count;
    graph->call_count = plan->call_count;
    graph->tensor_count = plan->tensor_count;
    SAMBA_TRY(SAMBA_ROOM(&plan->arena, graph->tensors, plan->tensor_count));
    for (int32_t i = 0; i < plan->tensor_count; i++)
        graph->tensors[i] = i;
    return SAMBA_OK;
}

int32_t samba_plan_graph_of(const samba_plan *plan, int32_t section)
{
    int32_t graph = 0;
    while (graph < plan->graph_count - 1 && section >= plan->graphs[graph].first_section + plan->graphs[graph].section_count)
        graph++;
    return graph;
}

int32_t samba_plan_graph_named(const samba_plan *plan, const char *name)
{
    for (int32_t i = 0; i < plan->graph_count; i++)
        if (name ? strcmp(plan->graphs[i].name, name) == 0 : plan->graph_count == 1)
            return i;
    return -1;
}

bool samba_plan_has_tensor(const samba_plan_graph *graph, int32_t tensor)
{
    int32_t low = 0, high = graph->tensor_count;
    while (low < high) {
        int32_t middle = low + (high - low) / 2;
        if (graph->tensors[middle] < tensor)
            low = middle + 1;
        else
            high = middle;
    }
    return low < graph->tensor_count && graph->tensors[low] == tensor;
}

bool samba_plan_start(const samba_plan *plan, int32_t output, double *start)
{
    static const char ending[] = ".grad";
    const char *name = plan->tensors[output].name;
    const size_t length = strlen(name);
    for (int32_t i = 0; i < plan->tensor_count; i++) {
        const samba_plan_tensor *tensor = &plan->tensors[i];
        if (tensor->kind != SAMBA_KIND_GRADIENT || strncmp(tensor->name, name, length) != 0 ||
            strcmp(tensor->name + length, ending) != 0)
            continue;
        *start = tensor->init == SAMBA_INIT_CONSTANT ? tensor->init_a : 0;
        return true;
    }
    return false;
}

/* The outputs of a graph whose gradients start as 1, or as something else. */
static int add_outputs(const samba_plan *plan, const samba_plan_graph *graph, bool ones, const char *before, samba_text *text)
{
    int count = 0;
    double start;
    char name[SAMBA_SHOWN];
    for (int32_t i = 0; i < graph->tensor_count; i++) {
        const samba_plan_tensor *tensor = &plan->tensors[graph->tensors[i]];
        if (tensor->kind != SAMBA_KIND_OUTPUT || !samba_plan_start(plan, graph->tensors[i], &start) || (start == 1) != ones)
            continue;
        samba_text_add(text, "%s%s", count ? ", " : before, samba_shown(tensor->name, name));
        count++;
    }
    return count;
}

void samba_plan_add_starts(const samba_plan *plan, int32_t graph, samba_text *text)
{
    const samba_plan_graph *its = &plan->graphs[graph];
    const bool any = !its->inference && add_outputs(plan, its, true, "", text) > 0;
    if (any)
        samba_text_add(text, ", with ones");
    if (!its->inference && add_outputs(plan, its, false, any ? "; " : "", text) > 0)
        samba_text_add(text, ", from which another output is computed, with zeros");
}

void samba_plan_work(const samba_plan *plan, int32_t graph, int64_t *flops, int64_t *bytes)
{
    const int32_t end = plan->graphs[graph].first_call + plan->graphs[graph].call_count;
    *flops = *bytes = 0;
    for (int32_t i = plan->graphs[graph].first_call; i < end; i++) { /* of files anyone may have written: sums may not overflow */
        const samba_plan_section *section = &plan->sections[plan->calls[i]];
        bool left_out = false;
        for (int32_t k = i + 1; k < end && section->redone_by > 0; k++)
            left_out = left_out || plan->sections[plan->calls[k]].phase == section->redone_by;
        if (left_out)
            continue;
        if (!samba_add_checked(*flops, section->flops, flops))
            *flops = INT64_MAX;
        if (!samba_add_checked(*bytes, section->bytes, bytes))
            *bytes = INT64_MAX;
    }
}

const char *samba_plan_sources(const samba_plan *plan, const samba_stage *stage, char buffer[SAMBA_SOURCES_TEXT])
{
    int32_t shown[SAMBA_SOURCES_SHOWN];
    int count = 0;
    bool more = false;
    for (int32_t i = 0; i < stage->operator_count && !more; i++) {
        int32_t source = plan->locations[stage->operators[i].location].source;
        bool known = source == 0;
        for (int k = 0; k < count; k++)
            known = known || shown[k] == source;
        more = !known && count == SAMBA_SOURCES_SHOWN;
        if (!known && !more)
            shown[count++] = source;
    }
    char word[145];
    size_t used = 0;
    buffer[0] = 0;
    for (int k = 0; k < count; k++) {
        samba_show(plan->words[shown[k]], false, word, sizeof word);
        used += (size_t)snprintf(buffer + used, SAMBA_SOURCES_TEXT - used, "%s%s", k ? ", " : "  [", word);
    }
    if (count > 0)
        snprintf(buffer + used, SAMBA_SOURCES_TEXT - used, more ? ", ...]" : "]");
    return buffer;
}
