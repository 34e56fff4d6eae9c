/* SPDX-License-Identifier: Apache-2.0
 *
 * The plan's tables: counts, buffers, tensors, argins, constants, sections and the schedule; then every stage by check_stage.c.
 * The first broken thing is the message. Needs memory only to find names that are there twice. */
#include "plan/check.h"
#include "base/index.h"

#include <math.h>
#include <sambaflow/graph.h> /* samba_initializer_kind */
#include <string.h>

enum { FWD = 1, BCKWD = 2, REDUCE = 3 }; /* of samba_phase */

bool samba_check_numel(int count, const int64_t *sizes, int64_t *numel)
{
    /* A zero makes the product 0 but must not hide sizes that would overflow once it is left out, as kernels may do. */
    int64_t product = 1;
    bool empty = false;
    for (int i = 0; i < count; i++) {
        if (sizes[i] < 0)
            return false;
        empty |= sizes[i] == 0;
        if (sizes[i] > 0 && (!samba_mul_checked(product, sizes[i], &product) || product > SAMBA_PLAN_LARGEST_NUMEL))
            return false;
    }
    *numel = empty ? 0 : product;
    return true;
}

bool samba_check_dtype(int32_t dtype) { return dtype >= 0 && dtype < SAMBA_DTYPE_COUNT; }

bool samba_check_buffer(const samba_plan *plan, int32_t buffer) { return buffer >= 0 && buffer < plan->buffer_count; }

bool samba_check_fits(const samba_plan *plan, int32_t buffer, int32_t dtype, int64_t offset, int64_t count)
{
    int64_t end, bytes;
    return samba_check_buffer(plan, buffer) && samba_check_dtype(dtype) && samba_add_checked(offset, count, &end) &&
           samba_mul_checked(end, (int64_t)samba_dtype_size((samba_dtype)dtype), &bytes) && bytes <= plan->buffers[buffer].bytes;
}

static samba_status check_counts(samba_context *context, const samba_plan *plan)
{
    const struct {
        const char *what;
        int32_t count;
        const void *items;
    } lists[] = {{"buffers", plan->buffer_count, plan->buffers},
                 {"stages", plan->stage_count, plan->stages},
                 {"sections", plan->section_count, plan->sections},
                 {"tensors", plan->tensor_count, plan->tensors},
                 {"argins", plan->argin_count, plan->argins},
                 {"constants", plan->constant_count, plan->constants},
                 {"calls", plan->call_count, plan->calls},
                 {"words", plan->word_count, plan->words},
                 {"locations", plan->location_count, plan->locations},
                 {"graphs", plan->graph_count, plan->graphs},
                 {"blobs", plan->blob_count, plan->blobs}};
    for (int i = 0; i < SAMBA_COUNT(lists); i++)
        if (lists[i].count < 0 || (lists[i].count > 0 && !lists[i].items))
            return samba_fail(context, SAMBA_ERROR_FORMAT, "%d %s", lists[i].count, lists[i].what);
    if (!plan->name || plan->graph_count == 0)
        return samba_fail(context, SAMBA_ERROR_FORMAT, "the plan has no name or no graph");
    const int64_t parts[] = {plan->memory_bytes,     plan->memory.parameters,     plan->memory.state,
                             plan->memory.gradients, plan->memory.inputs_outputs, plan->memory.activations,
                             plan->memory.constants, plan->memory.scratch,        plan->memory.total};
    for (int i = 0; i < SAMBA_COUNT(parts); i++)
        if (parts[i] < 0 || parts[i] > SAMBA_PLAN_LARGEST_MEMORY)
            return samba_fail(context, SAMBA_ERROR_FORMAT, "device memory of %lld bytes: it must be between 0 and %lld",
                              (long long)parts[i], (long long)SAMBA_PLAN_LARGEST_MEMORY);
    return SAMBA_OK;
}

static samba_status check_buffers(samba_context *context, const samba_plan *plan)
{
    for (int32_t i = 0; i < plan->buffer_count; i++) {
        const samba_buffer *buffer = &plan->buffers[i];
        int64_t end;
        if (!samba_add_checked(buffer->offset, buffer->bytes, &end) || end > plan->memory_bytes ||
            buffer->offset % SAMBA_ALIGNMENT != 0)
            return samba_fail(
                context, SAMBA_ERROR_FORMAT, "buffer %d: %lld bytes at %lld do not lie aligned to %d in %lld bytes of memory", i,
                (long long)buffer->bytes, (long long)buffer->offset, SAMBA_ALIGNMENT, (long long)plan->memory_bytes);
    }
    return SAMBA_OK;
}

static bool is_flag(int32_t value) { return value == 0 || value == 1; }

static samba_status check_tensor(samba_context *context, const samba_plan *plan, const samba_plan_tensor *tensor)
{
    int64_t numel;
    if (tensor->kind < SAMBA_KIND_INPUT || tensor->kind > SAMBA_KIND_OUTPUT || !samba_check_dtype(tensor->dtype) ||
        tensor->rank < 0 || tensor->rank > SAMBA_MAX_RANK || !samba_check_numel(tensor->rank, tensor->shape, &numel))
        return samba_fail(context, SAMBA_ERROR_FORMAT,
                          "tensor \"%.128s\": kind %d, dtype %d, rank %d or a size of its shape is impossible", tensor->name,
                          tensor->kind, tensor->dtype, tensor->rank);
    if (!samba_check_fits(plan, tensor->buffer, tensor->dtype, 0, numel))
        return samba_fail(context, SAMBA_ERROR_FORMAT, "tensor \"%.128s\": %lld elements of %s do not fit buffer %d",
                          tensor->name, (long long)numel, samba_dtype_name((samba_dtype)tensor->dtype), tensor->buffer);
    bool floating = samba_dtype_is_floating_point((samba_dtype)tensor->dtype),
         integral = !floating && tensor->dtype != SAMBA_BOOL;
    bool no_row = tensor->init == SAMBA_INIT_NORMAL_BUT_ROW &&
                  (tensor->rank != 2 || !(tensor->init_a >= 0 && tensor->init_a < (double)tensor->shape[0]));
    if (tensor->init < SAMBA_INIT_ZEROS || tensor->init > SAMBA_INIT_NONE || no_row ||
        (tensor->init >= SAMBA_INIT_UNIFORM && tensor->init != SAMBA_INIT_NONE && !floating) ||
        (tensor->init == SAMBA_INIT_UNIFORM && !(tensor->init_a <= tensor->init_b)) || !isfinite(tensor->init_a) ||
        !isfinite(tensor->init_b))
        return samba_fail(context, SAMBA_ERROR_FORMAT, "tensor \"%.128s\": initializer %d (%g, %g) is impossible for %s",
                          tensor->name, tensor->init, tensor->init_a, tensor->init_b,
                          samba_dtype_name((samba_dtype)tensor->dtype));
    if (!is_flag(tensor->is_loss) || !is_flag(tensor->has_range) || !is_flag(tensor->has_ignore) ||
        (tensor->is_loss && tensor->kind != SAMBA_KIND_OUTPUT) ||
        (tensor->has_range &&
         (tensor->kind != SAMBA_KIND_INPUT || !integral || tensor->low > tensor->high || !tensor->range_user)))
        return samba_fail(context, SAMBA_ERROR_FORMAT, "tensor \"%.128s\": its loss or its range of indices is impossible",
                          tensor->name);
    if (tensor->role < SAMBA_ROLE_MODEL || tensor->role > SAMBA_ROLE_OPTIMIZER ||
        (tensor->role != SAMBA_ROLE_MODEL && tensor->kind != SAMBA_KIND_BUFFER))
        return samba_fail(context, SAMBA_ERROR_FORMAT, "tensor \"%.128s\": role %d is impossible for kind %d", tensor->name,
                          tensor->role, tensor->kind);
    return SAMBA_OK;
}

static samba_status check_argin(samba_context *context, const samba_plan *plan, const samba_plan_argin *argin)
{
    bool integral = argin->dtype == SAMBA_INT64;
    if (argin->role < 0 || argin->role > SAMBA_ARGIN_REPLICAS || (!integral && argin->dtype != SAMBA_FLOAT64) ||
        (argin->role != 0 && argin->role != 2 && integral) || (argin->role == 2 && !integral) ||
        !samba_check_fits(plan, argin->buffer, argin->dtype, 0, 1))
        return samba_fail(context, SAMBA_ERROR_FORMAT, "hyperparameter \"%.128s\": role %d, dtype %d or buffer %d is impossible",
                          argin->name, argin->role, argin->dtype, argin->buffer);
    if (isnan(argin->value) || (argin->role == 3 && argin->value != 0 && argin->value != 1) ||
        (argin->role == SAMBA_ARGIN_REPLICAS && argin->value != 1) ||
        (integral && (argin->value != trunc(argin->value) || fabs(argin->value) > 0x1p53)))
        return samba_fail(context, SAMBA_ERROR_FORMAT, "hyperparameter \"%.128s\": %g is no value for it", argin->name,
                          argin->value);
    return SAMBA_OK;
}

/* Names of one kind of item: there, and each once. */
static samba_status check_names(samba_context *context, const char *what, const void *items, size_t item_size, int32_t count)
{
    for (int32_t i = 0; i < count; i++) {
        const char *name;
        memcpy(&name, (const char *)items + (size_t)i * item_size, sizeof name);
        if (!name || !name[0])
            return samba_fail(context, SAMBA_ERROR_FORMAT, "%s %d has no name", what, i);
    }
    samba_names names;
    int32_t duplicate;
    SAMBA_TRY(samba_names_build(&names, context, items, item_size, count, &duplicate));
    samba_names_free(&names);
    if (duplicate < 0)
        return SAMBA_OK;
    const char *name;
    memcpy(&name, (const char *)items + (size_t)duplicate * item_size, sizeof name);
    return samba_fail(context, SAMBA_ERROR_FORMAT, "%s %d: the name \"%.128s\" is there twice", what, duplicate, name);
}

static samba_status check_constants(samba_context *context, const samba_plan *plan)
{
    for (int32_t i = 0; i < plan->constant_count; i++) {
        const samba_plan_constant *constant = &plan->constants[i];
        if (constant->blob < 0 || constant->blob >= plan->blob_count)
            return samba_fail(context, SAMBA_ERROR_FORMAT, "constant %d: its bytes are blob %d of %d", i, constant->blob,
                              plan->blob_count);
        const int64_t size = plan->blobs[constant->blob]->size;
        if (!samba_check_fits(plan, constant->buffer, SAMBA_UINT8, 0, size))
            return samba_fail(context, SAMBA_ERROR_FORMAT, "constant %d: %lld bytes do not fit buffer %d", i, (long long)size,
                              constant->buffer);
    }
    return SAMBA_OK;
}

/* Exchanges between replicas are sections of their own: all of REDUCE, any of FWD and BCKWD that runs as it is. */
static samba_status check_exchanges(samba_context *context, const samba_plan *plan, const samba_plan_section *section)
{
    int32_t count = 0;
    for (int32_t s = section->first_stage; s < section->first_stage + section->stage_count; s++)
        count += plan->stages[s].kind == SAMBA_STAGE_EXCHANGE;
    const bool all = count == section->stage_count,
               may = section->phase == REDUCE || ((section->phase == FWD || section->phase == BCKWD) && section->redone_by == 0 &&
                                                  section->forward_stages == 0);
    if (section->phase == REDUCE ? all : count == 0 || (may && all))
        return SAMBA_OK;
    return samba_fail(context, SAMBA_ERROR_FORMAT,
                      "section %d: its type is %s, and %d of its %d stages are exchanges between replicas: those of REDUCE have "
                      "to be, of other sections none, or all of one of FWD or BCKWD that no other makes again",
                      section->id, samba_section_type_names[section->phase], count, section->stage_count);
}

static samba_status check_sections(samba_context *context, const samba_plan *plan)
{
    int32_t next = 0;
    for (int32_t i = 0; i < plan->section_count; i++) {
        const samba_plan_section *section = &plan->sections[i];
        if (section->id != i || section->phase < 0 || section->phase >= SAMBA_COUNT(samba_section_type_names) || !section->name ||
            section->flops < 0 || section->bytes < 0)
            return samba_fail(context, SAMBA_ERROR_FORMAT, "section %d: id %d, phase %d, name, FLOPs or bytes are impossible", i,
                              section->id, section->phase);
        if (section->first_stage != next || section->stage_count < 0 || section->stage_count > plan->stage_count - next)
            return samba_fail(context, SAMBA_ERROR_FORMAT, "section %d: %d stages from %d on, but the next of %d stages is %d", i,
                              section->stage_count, section->first_stage, plan->stage_count, next);
        if (section->fast_memory < 0 || section->forward_stages < 0 || section->forward_stages > section->stage_count ||
            section->redone_stages < 0 || section->redone_stages > section->forward_stages ||
            (section->forward_stages > 0 && (section->phase != 1 || section->redone_by != 0)))
            return samba_fail(
                context, SAMBA_ERROR_FORMAT,
                "section %d: %d stages of FWD, %d that BCKWD makes again or %lld bytes of fast memory are impossible", i,
                section->forward_stages, section->redone_stages, (long long)section->fast_memory);
        SAMBA_TRY(check_exchanges(context, plan, section));
        next += section->stage_count;
    }
    if (next != plan->stage_count)
        return samba_fail(context, SAMBA_ERROR_FORMAT, "%d of %d stages belong to no section", plan->stage_count - next,
                          plan->stage_count);
    for (int32_t i = 0; i < plan->call_count; i++)
        if (plan->calls[i] < 0 || plan->calls[i] >= plan->section_count)
            return samba_fail(context, SAMBA_ERROR_FORMAT, "call %d: there is no section %d among %d", i, plan->calls[i],
                              plan->section_count);
    return SAMBA_OK;
}

/* What the text refers to is there. */
static samba_status check_literals(samba_context *context, const samba_plan *plan, const samba_plan_graph *graph)
{
    if (graph->literal_count < 0 || (graph->literal_count > 0 && !graph->literals))
        return samba_fail(context, SAMBA_ERROR_FORMAT, "graph \"%.128s\": %d literals", graph->name, graph->literal_count);
    for (int32_t i = 0; i < graph->literal_count; i++)
        if (graph->literals[i] < 0 || graph->literals[i] >= plan->blob_count)
            return samba_fail(context, SAMBA_ERROR_FORMAT, "graph \"%.128s\": literal %d is blob %d of %d", graph->name, i,
                              graph->literals[i], plan->blob_count);
    int64_t number;
    for (const char *at = graph->text; samba_plan_next_literal(at, &number, &at);)
        if (number < 0 || number >= graph->literal_count)
            return samba_fail(context, SAMBA_ERROR_FORMAT,
                              "graph \"%.128s\": its text refers to a literal that is none of its %d", graph->name,
                              graph->literal_count);
    return SAMBA_OK;
}

static samba_status check_graph(samba_context *context, const samba_plan *plan, const samba_plan_graph *graph, int32_t section,
                                int32_t call)
{
    if (!graph->text || !graph->name)
        return samba_fail(context, SAMBA_ERROR_FORMAT, "a graph has no name or no text");
    if (graph->inference < 0 || graph->inference > 1 || graph->grad_accumulation_steps < 1)
        return samba_fail(context, SAMBA_ERROR_FORMAT,
                          "graph \"%.128s\": inference is %d and gradient accumulation takes %d steps", graph->name,
                          graph->inference, graph->grad_accumulation_steps);
    if (graph->mapping < 0 || graph->mapping > 1 || graph->fast_memory < 0)
        return samba_fail(context, SAMBA_ERROR_FORMAT,
                          "graph \"%.128s\": mapping is %d, expected 0 (section) or 1 (spatial), for %lld bytes of fast memory",
                          graph->name, graph->mapping, (long long)graph->fast_memory);
    if (graph->precision < 0 || graph->precision > 1)
        return samba_fail(context, SAMBA_ERROR_FORMAT, "graph \"%.128s\": precision is %d, expected 0 (fp32) or 1 (bf16)",
                          graph->name, graph->precision);
    if (graph->first_section != section || graph->section_count < 0 || graph->section_count > plan->section_count - section ||
        graph->first_call != call || graph->call_count < 0 || graph->call_count > plan->call_count - call)
        return samba_fail(
            context, SAMBA_ERROR_FORMAT,
            "graph \"%.128s\": %d sections from %d and %d calls from %d on, but the next of %d and %d are %d and %d", graph->name,
            graph->section_count, graph->first_section, graph->call_count, graph->first_call, plan->section_count,
            plan->call_count, section, call);
    for (int32_t i = call; i < call + graph->call_count; i++)
        if (plan->calls[i] < section || plan->calls[i] >= section + graph->section_count)
            return samba_fail(context, SAMBA_ERROR_FORMAT,
                              "graph \"%.128s\": its call %d is of section %d, and its own are the %d from %d on", graph->name,
                              i - call, plan->calls[i], graph->section_count, section);
    if (graph->tensor_count < 0 || (graph->tensor_count > 0 && !graph->tensors))
        return samba_fail(context, SAMBA_ERROR_FORMAT, "graph \"%.128s\": %d tensors", graph->name, graph->tensor_count);
    for (int32_t i = 0; i < graph->tensor_count; i++)
        if (graph->tensors[i] < 0 || graph->tensors[i] >= plan->tensor_count ||
            (i > 0 && graph->tensors[i] <= graph->tensors[i - 1]))
            return samba_fail(context, SAMBA_ERROR_FORMAT,
                              "graph \"%.128s\": tensor %d of its list is none of %d, or out of order", graph->name, i,
                              plan->tensor_count);
    return check_literals(context, plan, graph);
}

/* Graphs have all sections and calls, in order, each once; what computes a section of one again is of that one. */
static samba_status check_graphs(samba_context *context, const samba_plan *plan)
{
    int32_t section = 0, call = 0;
    if (plan->graph_count > 1)
        SAMBA_TRY(check_names(context, "graph", plan->graphs, sizeof *plan->graphs, plan->graph_count));
    for (int32_t i = 0; i < plan->graph_count; i++) {
        SAMBA_TRY(check_graph(context, plan, &plan->graphs[i], section, call));
        section += plan->graphs[i].section_count;
        call += plan->graphs[i].call_count;
    }
    if (section != plan->section_count || call != plan->call_count)
        return samba_fail(context, SAMBA_ERROR_FORMAT, "%d sections and %d calls belong to no graph",
                          plan->section_count - section, plan->call_count - call);
    for (int32_t i = 0; i < plan->section_count; i++) {
        const samba_plan_graph *graph = &plan->graphs[samba_plan_graph_of(plan, i)];
        bool later = plan->sections[i].redone_by == 0;
        for (int32_t k = i + 1; k < graph->first_section + graph->section_count && !later; k++)
            later = plan->sections[k].phase == plan->sections[i].redone_by && plan->sections[k].phase > plan->sections[i].phase;
        if (!later)
            return samba_fail(context, SAMBA_ERROR_FORMAT,
                              "section %d: redone by phase %d, but no section of that phase comes after it", i,
                              plan->sections[i].redone_by);
    }
    return SAMBA_OK;
}

static bool is_word(const samba_plan *plan, int32_t word) { return word >= 0 && word < plan->word_count; }

/* Operators of stages, for people: their words and locations are there, and each has a name and a type. */
static samba_status check_origins(samba_context *context, const samba_plan *plan)
{
    for (int32_t i = 0; i < plan->word_count; i++)
        if (!plan->words[i] || !plan->words[i][0] != (i == 0))
            return samba_fail(context, SAMBA_ERROR_FORMAT, "word %d of %d is missing: only the first may be empty, and is", i,
                              plan->word_count);
    for (int32_t i = 0; i < plan->location_count; i++) {
        const samba_plan_location *location = &plan->locations[i];
        if (!is_word(plan, location->module) || !is_word(plan, location->source) || !is_word(plan, location->fusion))
            return samba_fail(context, SAMBA_ERROR_FORMAT, "location %d: module %d, source %d or fusion %d is none of %d words",
                              i, location->module, location->source, location->fusion, plan->word_count);
    }
    for (int32_t s = 0; s < plan->stage_count; s++) {
        const samba_stage *stage = &plan->stages[s];
        if (stage->operator_count < 0 || (stage->operator_count > 0 && !stage->operators))
            return samba_fail(context, SAMBA_ERROR_FORMAT, "stage %d: %d operators", s, stage->operator_count);
        for (int32_t i = 0; i < stage->operator_count; i++) {
            const samba_stage_operator *o = &stage->operators[i];
            if (!is_word(plan, o->op) || !o->op || !is_word(plan, o->type) || !o->type || o->location < 0 ||
                o->location >= plan->location_count)
                return samba_fail(context, SAMBA_ERROR_FORMAT,
                                  "stage %d, operator %d: name %d, type %d or location %d is none of %d words and %d locations",
                                  s, i, o->op, o->type, o->location, plan->word_count, plan->location_count);
        }
    }
    return SAMBA_OK;
}

samba_status samba_plan_check(samba_context *context, const samba_plan *plan)
{
    SAMBA_TRY(check_counts(context, plan));
    SAMBA_TRY(check_buffers(context, plan));
    SAMBA_TRY(check_names(context, "tensor", plan->tensors, sizeof *plan->tensors, plan->tensor_count));
    SAMBA_TRY(check_names(context, "hyperparameter", plan->argins, sizeof *plan->argins, plan->argin_count));
    for (int32_t i = 0; i < plan->tensor_count; i++)
        SAMBA_TRY(check_tensor(context, plan, &plan->tensors[i]));
    for (int32_t i = 0; i < plan->argin_count; i++)
        SAMBA_TRY(check_argin(context, plan, &plan->argins[i]));
    SAMBA_TRY(check_constants(context, plan));
    SAMBA_TRY(check_sections(context, plan));
    SAMBA_TRY(check_graphs(context, plan));
    SAMBA_TRY(check_origins(context, plan));
    for (int32_t i = 0; i < plan->stage_count; i++) {
        samba_check check = {context, plan, i};
        SAMBA_TRY(samba_check_stage(&check, &plan->stages[i]));
        SAMBA_TRY(samba_check_overlap(&check, &plan->stages[i]));
    }
    return SAMBA_OK;
}
