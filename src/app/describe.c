/* SPDX-License-Identifier: Apache-2.0
 *
 * The content of a PEF, for people and for programs: memory, sections with their stages, tensors and hyperparameters. Reads the
 * plan only. */
#include "app/app.h"
#include "runtime/runtime.h"

#include <string.h>

static const struct {
    const char *name, *label;
    size_t field;
} memory_parts[] = {
    {"parameters", "parameters", offsetof(samba_memory_info, parameters)},
    {"state", "state and buffers", offsetof(samba_memory_info, state)},
    {"gradients", "gradients", offsetof(samba_memory_info, gradients)},
    {"inputs_outputs", "inputs and outputs", offsetof(samba_memory_info, inputs_outputs)},
    {"activations", "activations", offsetof(samba_memory_info, activations)},
    {"constants", "constants", offsetof(samba_memory_info, constants)},
    {"scratch", "scratch", offsetof(samba_memory_info, scratch)},
    {"total", "total", offsetof(samba_memory_info, total)},
};

static const char *const stage_names[SAMBA_STAGE_KIND_COUNT] = {"tile",      "contract", "pool",     "gather",
                                                                "attention", "line",     "exchange", "linear"};

static int64_t memory_part(const samba_memory_info *memory, int index)
{
    return *(const int64_t *)((const char *)memory + memory_parts[index].field);
}

/* Scratch is a matter of the machine that loads: a plan as read from a file does not know. */
static bool unknown(const samba_memory_info *memory, int index)
{
    return memory_parts[index].field == offsetof(samba_memory_info, scratch) && memory->scratch == 0;
}

static const char *word(const char *const *words, int count, int index)
{
    return index >= 0 && index < count ? words[index] : "?";
}

samba_status samba_describe_memory(samba_context *context, const samba_plan *plan, FILE *file)
{
    samba_table table;
    samba_table_init(&table, context, "lr");
    samba_table_row(&table, "memory\tsize");
    for (int i = 0; i < SAMBA_COUNT(memory_parts); i++) {
        char size[SAMBA_CELL];
        samba_text_bytes(size, (double)memory_part(&plan->memory, i));
        samba_table_row(&table, "%s\t%s", memory_parts[i].label, unknown(&plan->memory, i) ? "at load" : size);
    }
    return samba_table_print(&table, file, "");
}

samba_status samba_describe_backward(samba_context *context, const samba_plan *plan, int32_t graph, const char *label, FILE *file)
{
    samba_text text;
    samba_text_init(&text, context);
    samba_plan_add_starts(plan, graph, &text);
    if (text.status == SAMBA_OK && text.length > 0)
        fprintf(file, "%s from %s\n", label, text.data);
    samba_status status = text.status;
    samba_text_clear(&text);
    return status;
}

/* "contract by panel, tuned" */
static const char *way_of(const samba_plan *plan, int32_t stage, const samba_plan_here *here, char text[SAMBA_CELL])
{
    const char *road = here->roads[stage];
    snprintf(text, SAMBA_CELL, "%s%s%.14s%s", word(stage_names, SAMBA_STAGE_KIND_COUNT, plan->stages[stage].kind),
             road ? " by " : "", road ? road : "", here->tuned.choices && here->tuned.choices[stage] ? ", tuned" : "");
    return text;
}

static samba_status describe(samba_context *context, const samba_plan *plan, const samba_plan_here *here, FILE *file)
{
    samba_table table;
    const bool several = plan->graph_count > 1;
    samba_table_init(&table, context, "rlrrrrl");
    samba_table_row(&table, "section\ttype\tstages\twork\tmoved\tfast memory\t%s",
                    here      ? "modules or stage"
                    : several ? "graph: modules"
                              : "modules");
    for (int i = 0; i < plan->section_count; i++) {
        const samba_plan_section *section = &plan->sections[i];
        char flops[SAMBA_CELL], bytes[SAMBA_CELL], fast[SAMBA_CELL], name[SAMBA_SHOWN], graph[SAMBA_SHOWN];
        const char *type = samba_section_type(section),
                   *modules = section->redone_by > 0 || strcmp(type, section->name) == 0 ? "" : section->name;
        samba_table_row(&table, "%d\t%s%s\t%d\t%s\t%s\t%s\t%s%s%s", section->id, type, section->redone_by > 0 ? " alone" : "",
                        section->stage_count, samba_text_decimal(flops, (double)section->flops, "FLOP"),
                        samba_text_bytes(bytes, (double)section->bytes), samba_text_bytes(fast, (double)section->fast_memory),
                        several ? samba_shown(plan->graphs[samba_plan_graph_of(plan, i)].name, graph) : "",
                        several && modules[0] ? ": " : "", samba_shown(modules, name));
        for (int k = 0; here && k < section->stage_count; k++) {
            const samba_stage *stage = &plan->stages[section->first_stage + k];
            char sources[SAMBA_SOURCES_TEXT], way[SAMBA_CELL];
            samba_table_row(&table, "\t\t%d\t%s\t%s\t\t%s: %s%s", section->first_stage + k,
                            samba_text_decimal(flops, (double)stage->flops, "FLOP"),
                            samba_text_bytes(bytes, (double)stage->bytes), way_of(plan, section->first_stage + k, here, way),
                            samba_shown(stage->name, name), samba_plan_sources(plan, stage, sources));
        }
    }
    return samba_table_print(&table, file, "");
}

samba_status samba_describe_sections(samba_context *context, const samba_plan *plan, FILE *file)
{
    return describe(context, plan, NULL, file);
}

samba_status samba_describe_stages(samba_context *context, const samba_plan *plan, const samba_plan_here *here, FILE *file)
{
    return describe(context, plan, here, file);
}

samba_status samba_describe_operators(samba_context *context, const samba_plan *plan, FILE *file)
{
    samba_table table;
    samba_table_init(&table, context, "rlrlllll");
    samba_table_row(&table, "section\ttype\tstage\toperator\tresult\tmodule\tsource\tfusion");
    for (int i = 0; i < plan->section_count; i++) {
        const samba_plan_section *section = &plan->sections[i];
        for (int32_t s = section->first_stage; s < section->first_stage + section->stage_count; s++)
            for (int32_t k = 0; k < plan->stages[s].operator_count; k++) {
                const samba_stage_operator *o = &plan->stages[s].operators[k];
                const samba_plan_location *location = &plan->locations[o->location];
                char op[SAMBA_SHOWN], result[SAMBA_SHOWN], module[SAMBA_SHOWN], source[SAMBA_SHOWN], fusion[SAMBA_SHOWN];
                samba_table_row(&table, "%d\t%s\t%d\t%s\t%s\t%s\t%s\t%s", section->id, samba_section_type(section), s,
                                samba_shown(plan->words[o->op], op), samba_shown(plan->words[o->type], result),
                                samba_shown(plan->words[location->module], module),
                                samba_shown(plan->words[location->source], source),
                                samba_shown(plan->words[location->fusion], fusion));
            }
    }
    return samba_table_print(&table, file, "");
}

samba_status samba_describe_tensors(samba_context *context, const samba_plan *plan, bool all, FILE *file)
{
    samba_table table;
    char name[SAMBA_SHOWN];
    samba_table_init(&table, context, "llll");
    samba_table_row(&table, "tensor\tkind\tdtype\tshape");
    for (int i = 0; i < plan->tensor_count; i++) {
        const samba_plan_tensor *tensor = &plan->tensors[i];
        if (!all && (tensor->kind == SAMBA_KIND_GRADIENT || tensor->kind == SAMBA_KIND_BUFFER))
            continue;
        char shape[SAMBA_SHAPE_TEXT], range[64] = "";
        if (tensor->has_range)
            snprintf(range, sizeof range, "  values %lld .. %lld", (long long)tensor->low, (long long)tensor->high - 1);
        samba_table_row(&table, "%s\t%s\t%s\t%s%s", samba_shown(tensor->name, name), word(samba_kind_names, 5, tensor->kind),
                        samba_dtype_name((samba_dtype)tensor->dtype),
                        samba_shape_format(tensor->rank, tensor->shape, shape, sizeof shape), range);
    }
    SAMBA_TRY(samba_table_print(&table, file, ""));
    if (plan->argin_count == 0)
        return SAMBA_OK;
    fputc('\n', file);
    samba_table_init(&table, context, "lrl");
    samba_table_row(&table, "hyperparameter\tvalue\tdtype");
    for (int i = 0; i < plan->argin_count; i++)
        samba_table_row(&table, "%s\t%g\t%s", samba_shown(plan->argins[i].name, name), plan->argins[i].value,
                        samba_dtype_name((samba_dtype)plan->argins[i].dtype));
    return samba_table_print(&table, file, "");
}

static json_t *operators_json(const samba_plan *plan, const samba_stage *stage)
{
    json_t *list = json_array();
    for (int32_t i = 0; i < stage->operator_count; i++) {
        const samba_stage_operator *o = &stage->operators[i];
        const samba_plan_location *location = &plan->locations[o->location];
        json_array_append_new(list, json_pack("{s:s, s:s, s:s, s:s, s:s}", "op", plan->words[o->op], "result",
                                              plan->words[o->type], "module", plan->words[location->module], "source",
                                              plan->words[location->source], "fusion", plan->words[location->fusion]));
    }
    return list;
}

static void add_way(json_t *object, int32_t stage, const samba_plan_here *here)
{
    json_object_set_new(object, "road", here->roads[stage] ? json_string(here->roads[stage]) : json_null());
    json_object_set_new(object, "tuned", json_boolean(here->tuned.choices && here->tuned.choices[stage]));
}

static json_t *section_json(const samba_plan *plan, const samba_plan_section *section, samba_detail detail,
                            const samba_plan_here *here)
{
    json_t *object =
        json_pack("{s:i, s:s, s:i, s:I, s:I, s:I, s:s}", "id", section->id, "type", samba_section_type(section), "stage_count",
                  section->stage_count, "flops", (json_int_t)section->flops, "bytes", (json_int_t)section->bytes, "fast_memory",
                  (json_int_t)section->fast_memory, "name", section->name);
    if (section->redone_by > 0)
        json_object_set_new(object, "redone_by", json_string(word(samba_section_type_names, 6, section->redone_by)));
    if (detail == SAMBA_DETAIL_SECTIONS)
        return object;
    json_t *list = json_array();
    for (int i = 0; i < section->stage_count; i++) {
        const samba_stage *stage = &plan->stages[section->first_stage + i];
        json_t *its =
            json_pack("{s:s, s:s, s:I, s:I}", "kind", word(stage_names, SAMBA_STAGE_KIND_COUNT, stage->kind), "name",
                      stage->name ? stage->name : "", "flops", (json_int_t)stage->flops, "bytes", (json_int_t)stage->bytes);
        if (here)
            add_way(its, section->first_stage + i, here);
        if (detail == SAMBA_DETAIL_OPERATORS)
            json_object_set_new(its, "operators", operators_json(plan, stage));
        json_array_append_new(list, its);
    }
    json_object_set_new(object, "stages", list);
    return object;
}

static json_t *tensor_json(const samba_plan_tensor *tensor)
{
    json_t *object =
        json_pack("{s:s, s:s, s:s, s:o}", "name", tensor->name, "kind", word(samba_kind_names, 5, tensor->kind), "dtype",
                  samba_dtype_name((samba_dtype)tensor->dtype), "shape", samba_json_shape(tensor->rank, tensor->shape));
    if (tensor->has_range) {
        json_object_set_new(object, "low", json_integer(tensor->low));
        json_object_set_new(object, "high", json_integer(tensor->high));
    }
    if (tensor->is_loss)
        json_object_set_new(object, "loss", json_true());
    return object;
}

/* {"loss": 1.0, "logits": 0.0}: what gradients of outputs start as. */
static json_t *backward_json(const samba_plan *plan, const samba_plan_graph *graph)
{
    json_t *object = json_object();
    double start;
    for (int i = 0; i < graph->tensor_count; i++)
        if (plan->tensors[graph->tensors[i]].kind == SAMBA_KIND_OUTPUT && samba_plan_start(plan, graph->tensors[i], &start))
            json_object_set_new(object, plan->tensors[graph->tensors[i]].name, samba_json_number(start));
    return object;
}

static json_t *calls_json(const samba_plan *plan, const samba_plan_graph *graph)
{
    json_t *calls = json_array();
    for (int i = 0; i < graph->call_count; i++)
        json_array_append_new(calls, json_integer(plan->calls[graph->first_call + i]));
    return calls;
}

static json_t *graph_json(const samba_plan *plan, int32_t index)
{
    const samba_plan_graph *graph = &plan->graphs[index];
    json_t *tensors = json_array();
    char hash[20];
    int64_t flops, bytes;
    snprintf(hash, sizeof hash, "%016llx", (unsigned long long)graph->hash);
    samba_plan_work(plan, index, &flops, &bytes);
    for (int i = 0; i < graph->tensor_count; i++)
        json_array_append_new(tensors, json_string(plan->tensors[graph->tensors[i]].name));
    return json_pack("{s:s, s:s, s:b, s:s, s:i, s:I, s:I, s:o, s:o, s:o}", "name", graph->name, "graph_hash", hash, "inference",
                     graph->inference, "precision", samba_precision_names[graph->precision], "grad_accumulation_steps",
                     graph->grad_accumulation_steps, "run_flops", (json_int_t)flops, "run_bytes", (json_int_t)bytes, "schedule",
                     calls_json(plan, graph), "tensors", tensors, "backward", backward_json(plan, graph));
}

json_t *samba_describe_json(const samba_plan *plan, samba_detail detail, const samba_plan_here *here)
{
    const samba_plan_graph *first = &plan->graphs[0];
    char hash[20];
    snprintf(hash, sizeof hash, "%016llx", (unsigned long long)first->hash);
    json_t *graphs = json_array();
    for (int i = 0; i < plan->graph_count; i++)
        json_array_append_new(graphs, graph_json(plan, i));
    json_t *memory = json_object(), *sections = json_array(), *tensors = json_array(), *argins = json_array();
    int64_t flops, bytes;
    samba_plan_work(plan, 0, &flops, &bytes);
    for (int i = 0; i < SAMBA_COUNT(memory_parts); i++)
        json_object_set_new(memory, memory_parts[i].name,
                            unknown(&plan->memory, i) ? json_null() : json_integer(memory_part(&plan->memory, i)));
    for (int i = 0; i < plan->section_count; i++)
        json_array_append_new(sections, section_json(plan, &plan->sections[i], detail, here));
    for (int i = 0; i < plan->tensor_count; i++)
        json_array_append_new(tensors, tensor_json(&plan->tensors[i]));
    for (int i = 0; i < plan->argin_count; i++)
        json_array_append_new(
            argins, json_pack("{s:s, s:o}", "name", plan->argins[i].name, "value", samba_json_number(plan->argins[i].value)));
    return json_pack("{s:s, s:s, s:b, s:s, s:s, s:i, s:I, s:I, s:o, s:o, s:o, s:o, s:o, s:o}", "graph", plan->name, "graph_hash",
                     hash, "inference", first->inference, "precision", samba_precision_names[first->precision], "mapping",
                     samba_mapping_names[first->mapping], "grad_accumulation_steps", first->grad_accumulation_steps, "run_flops",
                     (json_int_t)flops, "run_bytes", (json_int_t)bytes, "memory_bytes", memory, "sections", sections, "tensors",
                     tensors, "hyperparameters", argins, "schedule", calls_json(plan, first), "graphs", graphs);
}
