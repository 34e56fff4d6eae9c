/* SPDX-License-Identifier: Apache-2.0
 *
 * The .pef.log: what a PEF holds, as an aligned text for people. Memory and its parts, the table of sections, every section's
 * stages, the schedule. It says nothing that the plan does not, so equal plans have equal logs. */
#include "plan/plan.h"
#include "plan/optimizers.h"

#include <string.h>

#define AMOUNT_SIZE 24

/* 1234567 -> "1.23 M", for a unit to follow; numbers below 1000 stay whole. */
static const char *amount(int64_t value, char buffer[AMOUNT_SIZE])
{
    static const char *const prefixes[] = {"", "k", "M", "G", "T", "P", "E"};
    double scaled = (double)value;
    int prefix = 0;
    while (scaled >= 999.5 && prefix < SAMBA_COUNT(prefixes) - 1) {
        scaled /= 1000;
        prefix++;
    }
    int decimals = prefix == 0 || scaled >= 99.95 ? 0 : scaled >= 9.995 ? 1 : 2;
    snprintf(buffer, AMOUNT_SIZE, "%.*f %s", decimals, scaled, prefixes[prefix]);
    return buffer;
}

/* State that runs may leave alone, by a hyperparameter that is 0: there whatever it was when compiled. */
static int64_t idle_bytes(const samba_plan *plan, const samba_state_row *state)
{
    int64_t bytes = 0;
    for (int32_t i = 0; i < plan->tensor_count; i++) {
        const samba_plan_tensor *tensor = &plan->tensors[i];
        const char *dot = strrchr(tensor->name, '.');
        if (tensor->role == SAMBA_ROLE_OPTIMIZER && dot && dot != tensor->name && strcmp(dot + 1, state->name) == 0)
            bytes += plan->buffers[tensor->buffer].bytes;
    }
    return bytes;
}

static void add_memory(const samba_plan *plan, samba_text *text)
{
    const struct {
        const char *name;
        int64_t bytes;
    } parts[] = {{"parameters", plan->memory.parameters},   {"state", plan->memory.state},
                 {"gradients", plan->memory.gradients},     {"inputs, outputs", plan->memory.inputs_outputs},
                 {"activations", plan->memory.activations}, {"constants", plan->memory.constants},
                 {"scratch", plan->memory.scratch},         {"total", plan->memory.total}};
    char buffer[AMOUNT_SIZE];
    samba_text_add(text, "\ndevice memory\n");
    for (int i = 0; i < SAMBA_COUNT(parts); i++)
        samba_text_add(text, "  %-16s %9sB  (%lld bytes)\n", parts[i].name, amount(parts[i].bytes, buffer),
                       (long long)parts[i].bytes);
    for (int i = 0; i < SAMBA_STATES; i++) {
        const char *number = samba_states[i].idle;
        const int64_t bytes = number[0] ? idle_bytes(plan, &samba_states[i]) : 0;
        if (bytes > 0)
            samba_text_add(text,
                           "of the state %sB (%lld bytes) are %s, which runs may change: while it is 0 steps leave them alone\n",
                           amount(bytes, buffer), (long long)bytes, number);
    }
}

static void add_sections(const samba_plan *plan, samba_text *text)
{
    char flops[AMOUNT_SIZE], bytes[AMOUNT_SIZE];
    char fast[AMOUNT_SIZE];
    samba_text_add(text, "\nsections\n  %4s  %-9s  %6s  %12s  %10s  %11s  %s\n", "id", "type", "stages", "FLOPs", "bytes",
                   "fast memory", "modules");
    for (int32_t i = 0; i < plan->section_count; i++) {
        const samba_plan_section *section = &plan->sections[i];
        samba_text_add(text, "  %4d  %-9s  %6d  %8sFLOP  %9sB  %10sB  ", section->id, samba_section_type(section),
                       section->stage_count, amount(section->flops, flops), amount(section->bytes, bytes),
                       amount(section->fast_memory, fast));
        samba_text_show(text, section->name, false);
        samba_text_add(text, "\n");
    }
}

void samba_plan_domain(const samba_stage *stage, char *buffer, size_t size)
{
    const samba_contract *contract = &stage->contract;
    if (stage->kind == SAMBA_STAGE_TILE || stage->kind == SAMBA_STAGE_ATTENTION || stage->kind == SAMBA_STAGE_GATHER ||
        stage->kind == SAMBA_STAGE_EXCHANGE || stage->kind == SAMBA_STAGE_MATRIX) {
        char shape[SAMBA_SHAPE_TEXT];
        snprintf(buffer, size, "%s", samba_shape_format(stage->rank, stage->domain, shape, sizeof shape));
    } else if (stage->kind == SAMBA_STAGE_CONTRACT) {
        int64_t batch = 1, k = 1;
        for (int32_t i = 0; i < contract->batch_rank; i++)
            batch *= contract->batch[i];
        for (int32_t i = 0; i < contract->k_rank; i++)
            k *= contract->k[i];
        int used = batch == 1 ? 0 : snprintf(buffer, size, "%lld x ", (long long)batch);
        snprintf(buffer + used, size - (size_t)used, "%lldx%lldx%lld", (long long)stage->domain[stage->rank - 2],
                 (long long)stage->domain[stage->rank - 1], (long long)k);
    } else if (stage->kind == SAMBA_STAGE_LINEAR) {
        snprintf(buffer, size, "%lldx%lldx%lld", (long long)stage->linear.m, (long long)stage->linear.n,
                 (long long)stage->linear.k);
    } else if (stage->kind == SAMBA_STAGE_FOURIER) {
        snprintf(buffer, size, "%lld of %lld", (long long)(stage->fourier.outer * stage->fourier.inner),
                 (long long)stage->fourier.size);
    } else if (stage->kind == SAMBA_STAGE_CTC) {
        snprintf(buffer, size, "%lld of %lldx%lld", (long long)stage->ctc.batch, (long long)stage->ctc.steps,
                 (long long)stage->ctc.classes);
    } else if (stage->kind == SAMBA_STAGE_LINE) {
        snprintf(buffer, size, "%lld of %lld", (long long)(stage->line.outer * stage->line.inner), (long long)stage->line.size);
    } else {
        snprintf(buffer, size, "%lld of %lldx%lld", (long long)stage->pool.planes, (long long)stage->pool.oh,
                 (long long)stage->pool.ow);
    }
}

static void add_stage_rows(const samba_plan *plan, int32_t first, int32_t count, samba_text *text)
{
    char flops[AMOUNT_SIZE], bytes[AMOUNT_SIZE], domain[SAMBA_SHAPE_TEXT], sources[SAMBA_SOURCES_TEXT];
    samba_text_add(text, "stages\n  %5s  %-9s  %-20s  %12s  %9s  %s\n", "stage", "kind", "domain", "FLOPs", "bytes", "operators");
    for (int32_t i = first; i < first + count; i++) {
        const samba_stage *stage = &plan->stages[i];
        samba_plan_domain(stage, domain, sizeof domain);
        samba_text_add(text, "  %5d  %-9s  %-20s  %8sFLOP  %8sB  ", i, samba_stage_kind_names[stage->kind], domain,
                       amount(stage->flops, flops), amount(stage->bytes, bytes));
        samba_text_show(text, stage->name, false);
        samba_text_add(text, "%s\n", samba_plan_sources(plan, stage, sources));
    }
}

static void add_stages(const samba_plan *plan, samba_text *text)
{
    for (int32_t s = 0; s < plan->section_count; s++) {
        const samba_plan_section *section = &plan->sections[s];
        samba_text_add(text, "\nsection %d %s: ", section->id, samba_section_type(section));
        add_stage_rows(plan, section->first_stage, section->stage_count, text);
    }
    if (plan->section_count == 0) { /* a plan that the compiler is still at */
        samba_text_add(text, "\nno sections yet: ");
        add_stage_rows(plan, 0, plan->stage_count, text);
    }
}

static void add_tensors(const samba_plan *plan, samba_text *text)
{
    char shape[SAMBA_SHAPE_TEXT], name[SAMBA_SHOWN];
    samba_text_add(text, "\ntensors\n  %-9s  %-8s  %-20s  %s\n", "kind", "dtype", "shape", "name");
    for (int32_t i = 0; i < plan->tensor_count; i++) {
        const samba_plan_tensor *tensor = &plan->tensors[i];
        samba_text_add(text, "  %-9s  %-8s  %-20s  ", samba_kind_names[tensor->kind],
                       samba_dtype_name((samba_dtype)tensor->dtype),
                       samba_shape_format(tensor->rank, tensor->shape, shape, sizeof shape));
        samba_text_show(text, tensor->name, false);
        samba_text_add(text, "%s\n", tensor->is_loss ? " (loss)" : "");
    }
    if (plan->argin_count == 0)
        return;
    samba_text_add(text, "\nhyperparameters\n");
    for (int32_t i = 0; i < plan->argin_count; i++)
        samba_text_add(text, "  %-24s %.17g\n", samba_shown(plan->argins[i].name, name), plan->argins[i].value);
}

static void add_schedule(const samba_plan *plan, const samba_plan_graph *graph, samba_text *text)
{
    char name[SAMBA_SHOWN];
    samba_text_add(text, "\nschedule%s%s\n  %4s  %7s  %s\n", plan->graph_count > 1 ? " of " : "",
                   plan->graph_count > 1 ? samba_shown(graph->name, name) : "", "call", "section", "type");
    for (int32_t i = 0; i < graph->call_count; i++) {
        int32_t section = plan->calls[graph->first_call + i];
        samba_text_add(text, "  %4d  %7d  %s\n", i, section, samba_section_type(&plan->sections[section]));
    }
}

static void add_graph(const samba_plan *plan, int32_t index, samba_text *text)
{
    const samba_plan_graph *graph = &plan->graphs[index];
    int64_t flops, bytes;
    char flops_text[AMOUNT_SIZE], bytes_text[AMOUNT_SIZE], name[SAMBA_SHOWN];
    samba_plan_work(plan, index, &flops, &bytes);
    samba_text_add(text, "graph       %s%s\n", samba_shown(graph->name, name), graph->inference ? " (inference)" : "");
    samba_text_add(text, "hash        %016llx\n", (unsigned long long)graph->hash);
    samba_text_add(text, "one run     %sFLOP, %sB moved\n", amount(flops, flops_text), amount(bytes, bytes_text));
    samba_text_add(text, "precision   %s\n", samba_precision_names[graph->precision == 1]);
    samba_text_add(text, "mapping     %s\n", samba_mapping_names[graph->mapping == 1]);
    samba_text starts;
    samba_text_init(&starts, text->context);
    samba_plan_add_starts(plan, index, &starts);
    if (starts.status == SAMBA_OK && starts.length > 0)
        samba_text_add(text, "backward    from %s\n", starts.data);
    text->status = text->status == SAMBA_OK ? starts.status : text->status;
    samba_text_clear(&starts);
    if (graph->grad_accumulation_steps > 1)
        samba_text_add(text, "step        %d runs accumulate gradients\n", graph->grad_accumulation_steps);
    if (plan->graph_count > 1)
        samba_text_add(text, "sections    %d from %d on\n\n", graph->section_count, graph->first_section);
}

samba_status samba_plan_log(samba_context *context, const samba_plan *plan, samba_text *text)
{
    char name[SAMBA_SHOWN];
    (void)context;
    samba_text_add(text, "format      PEF version %d\n", SAMBA_PEF_VERSION);
    if (plan->graph_count > 1)
        samba_text_add(text, "pef         %s, %d graphs\n\n", samba_shown(plan->name, name), plan->graph_count);
    for (int32_t i = 0; i < plan->graph_count; i++)
        add_graph(plan, i, text);
    add_memory(plan, text);
    add_sections(plan, text);
    add_stages(plan, text);
    add_tensors(plan, text);
    for (int32_t i = 0; i < plan->graph_count; i++)
        add_schedule(plan, &plan->graphs[i], text);
    return text->status;
}
