/* SPDX-License-Identifier: Apache-2.0
 *
 * sambaflow inspect: the plan of a PEF, read and checked as for running, printed. Scratch depends on CPU and threads and is no
 * part of a PEF: the stages are prepared as loading would, without memory, to tell what it would be here. */
#include "cli/cli.h"
#include "runtime/runtime.h"

static void print_tuning(const samba_tuned *tuned)
{
    char shown[SAMBA_SHOWN];
    if (tuned->path)
        printf("tuned by %s: %d stages\n", samba_shown(tuned->path, shown), tuned->count);
    else if (tuned->warning[0])
        printf("%s\n", tuned->warning);
}

static json_t *tuning_json(const samba_tuned *tuned)
{
    if (tuned->path)
        return json_pack("{s:s, s:i}", "file", tuned->path, "choices", tuned->count);
    return tuned->warning[0] ? json_pack("{s:n, s:s}", "file", "warning", tuned->warning) : json_null();
}

static samba_status print(samba_context *context, const samba_plan *plan, const samba_plan_here *here,
                          const samba_cli_arguments *arguments)
{
    char name[SAMBA_SHOWN];
    if (plan->graph_count > 1)
        printf("pef        %s, %d graphs\n\n", samba_shown(plan->name, name), plan->graph_count);
    for (int32_t i = 0; i < plan->graph_count; i++) {
        const samba_plan_graph *graph = &plan->graphs[i];
        int64_t flops, bytes;
        int stages = 0;
        samba_plan_work(plan, i, &flops, &bytes);
        for (int32_t s = graph->first_section; s < graph->first_section + graph->section_count; s++)
            stages += plan->sections[s].stage_count;
        char work[SAMBA_CELL], moved[SAMBA_CELL];
        printf("graph      %s (%s)\n", samba_shown(graph->name, name), graph->inference ? "inference" : "training");
        printf("precision  %s\n", graph->precision == SAMBA_BF16 ? "bf16: contractions in bfloat16 with float32 sums" : "fp32");
        SAMBA_TRY(samba_describe_backward(context, plan, i, "backward  ", stdout));
        if (graph->grad_accumulation_steps > 1)
            printf("step       %d runs, whose gradients add up\n", graph->grad_accumulation_steps);
        printf("one run    %s, %s moved, %d stages in %d sections\n\n", samba_text_decimal(work, (double)flops, "FLOP"),
               samba_text_bytes(moved, (double)bytes), stages, graph->section_count);
    }
    SAMBA_TRY(arguments->verbose ? samba_describe_stages(context, plan, here, stdout)
                                 : samba_describe_sections(context, plan, stdout));
    putchar('\n');
    SAMBA_TRY(samba_describe_memory(context, plan, stdout));
    printf("scratch, and constants packed for the kernels, are this machine's: %d threads, %s\n", here->threads, here->isa);
    print_tuning(&here->tuned);
    putchar('\n');
    return samba_describe_tensors(context, plan, arguments->verbose, stdout);
}

static samba_status print_text(samba_context *context, const samba_plan *plan, int32_t graph)
{
    samba_text whole, shown;
    samba_text_init(&whole, context);
    samba_text_init(&shown, context);
    samba_plan_add_text(plan, graph, &whole);
    if (whole.status == SAMBA_OK && whole.data)
        samba_text_show(&shown, whole.data, true);
    samba_status status = whole.status == SAMBA_OK ? shown.status : whole.status;
    if (status == SAMBA_OK && shown.data)
        fputs(shown.data, stdout);
    samba_text_clear(&whole);
    samba_text_clear(&shown);
    return status;
}

static samba_status add_texts(samba_context *context, const samba_plan *plan, json_t *object)
{
    samba_status status = SAMBA_OK;
    for (int32_t i = 0; i < plan->graph_count && status == SAMBA_OK; i++) {
        samba_text text;
        samba_text_init(&text, context);
        samba_plan_add_text(plan, i, &text);
        status = text.status;
        if (status == SAMBA_OK && i == 0)
            json_object_set_new(object, "graph_text", json_string(text.data));
        if (status == SAMBA_OK)
            json_object_set_new(json_array_get(json_object_get(object, "graphs"), (size_t)i), "graph_text",
                                json_string(text.data));
        samba_text_clear(&text);
    }
    return status;
}

static samba_status find_here(samba_context *context, samba_arena *arena, samba_plan *plan, const samba_cli_arguments *arguments,
                              samba_plan_here *here)
{
    const char *file;
    samba_shards shards;
    const samba_session_options options = samba_cli_session(arguments);
    if (arguments->shard_optimizer > 0)
        SAMBA_TRY(samba_shard_plan(context, arena, plan, 0, arguments->shard_optimizer, &shards));
    SAMBA_TRY(samba_tune_file(arena, arguments->pef, options.tune, &file));
    SAMBA_TRY(samba_plan_prepare(context, arena, plan, options.threads, options.isa, file, here));
    plan->memory = here->memory;
    return SAMBA_OK;
}

samba_status samba_cli_inspect(samba_context *context, const samba_cli_arguments *arguments)
{
    samba_plan plan;
    samba_plan_init(&plan, context);
    samba_status status = samba_pef_read(context, arguments->pef, &plan);
    samba_arena arena;
    samba_plan_here here = {.threads = 0};
    samba_arena_init(&arena, context);
    bool instead = (arguments->graph || arguments->operators) && !arguments->json;
    if (status == SAMBA_OK && !instead)
        status = find_here(context, &arena, &plan, arguments, &here);
    if (status == SAMBA_OK && instead) {
        for (int32_t i = 0; arguments->graph && status == SAMBA_OK && i < plan.graph_count; i++)
            status = print_text(context, &plan, i);
        if (arguments->operators && status == SAMBA_OK)
            status = samba_describe_operators(context, &plan, stdout);
    } else if (status == SAMBA_OK && arguments->json) {
        json_t *object = samba_describe_json(&plan,
                                             arguments->operators ? SAMBA_DETAIL_OPERATORS
                                             : arguments->verbose ? SAMBA_DETAIL_STAGES
                                                                  : SAMBA_DETAIL_SECTIONS,
                                             &here);
        json_object_set_new(object, "command", json_string("inspect"));
        json_object_set_new(object, "pef", json_string(arguments->pef));
        json_object_set_new(object, "scratch_of", json_pack("{s:i, s:s}", "threads", here.threads, "isa", here.isa));
        json_object_set_new(object, "tune", tuning_json(&here.tuned));
        status = arguments->graph ? add_texts(context, &plan, object) : SAMBA_OK;
        if (status == SAMBA_OK)
            status = samba_json_print(context, object, stdout);
        else
            json_decref(object);
    } else if (status == SAMBA_OK) {
        status = print(context, &plan, &here, arguments);
    }
    samba_plan_free(&plan);
    samba_arena_free(&arena);
    return status;
}
