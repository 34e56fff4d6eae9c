/* SPDX-License-Identifier: Apache-2.0
 *
 * samba_compile: checks its options, runs the passes, checks the plan as the reader will, and writes the PEF and its log. Nothing
 * is written before everything else has succeeded. samba_compile_plan stops at the plan, which a function keeps. */
#include "base/null.h"
#include "compiler/compiler.h"

#include <string.h>

samba_compile_options samba_compile_defaults(void)
{
    return (samba_compile_options){.struct_size = sizeof(samba_compile_options), .grad_accumulation_steps = 1};
}

samba_status samba_plan_add_blob(samba_compiler *c, samba_blob *blob, int32_t *index)
{
    samba_plan *plan = &c->plan;
    for (*index = 0; *index < plan->blob_count; ++*index)
        if (samba_blob_equal(plan->blobs[*index], blob))
            return SAMBA_OK;
    SAMBA_TRY(SAMBA_GROW(c->context, plan->blobs, c->growth.blob_capacity, plan->blob_count + 1));
    SAMBA_TRY(samba_arena_keep(&plan->arena, blob));
    plan->blobs[plan->blob_count++] = blob;
    return SAMBA_OK;
}

/* The text of the traced graph, and what stands beside it. */
static samba_status write_text(samba_compiler *c, samba_plan_graph *graph)
{
    char *text;
    uint32_t *literals;
    SAMBA_TRY(samba_graph_print_beside(c->traced, &c->arena, &text, &graph->literal_count, &literals));
    samba_status status = samba_arena_copy(&c->plan.arena, text, &graph->text);
    samba_text_free(c->context, text);
    SAMBA_TRY(status);
    SAMBA_TRY(SAMBA_ROOM(&c->plan.arena, graph->literals, graph->literal_count));
    for (int32_t i = 0; i < graph->literal_count; i++)
        SAMBA_TRY(samba_plan_add_blob(c, samba_graph_blob_at(c->traced, literals[i]), &graph->literals[i]));
    return SAMBA_OK;
}

/* The plan's facts of the traced graph. It has its name from the first pass on, for dumps too. */
static samba_status identify(samba_compiler *c)
{
    samba_plan *plan = &c->plan;
    SAMBA_TRY(samba_arena_copy(&plan->arena, c->name, &plan->name));
    SAMBA_TRY(SAMBA_ROOM(&plan->arena, plan->graphs, 1));
    plan->ops_signature = samba_ops_signature();
    plan->graph_count = 1;
    plan->graphs[0] = (samba_plan_graph){.name = plan->name,
                                         .hash = samba_graph_hash(c->traced),
                                         .inference = c->options->inference,
                                         .grad_accumulation_steps = c->options->grad_accumulation_steps,
                                         .precision = (int32_t)c->options->precision,
                                         .mapping = (int32_t)c->options->mapping,
                                         .fast_memory = c->options->fast_memory};
    return write_text(c, &plan->graphs[0]);
}

/* A scope that is left open has named what came after it, too. */
static samba_status check_scopes(samba_context *context, const char *name, const samba_graph *graph)
{
    if (graph->scope_count == 0)
        return SAMBA_OK;
    return samba_fail(
        context, SAMBA_ERROR_STATE,
        "model '%.64s' ends inside the scope \"%.128s\": end each samba_scope_push by samba_scope_pop, or all names "
        "after it begin with the scope's",
        name, samba_graph_name_at(graph, graph->scope));
}

samba_status samba_pass_trace(samba_compiler *c)
{
    const samba_compile_options *o = c->options;
    if (o->graph) {
        SAMBA_TRY(samba_graph_status(o->graph));
        SAMBA_TRY(samba_graph_rewrite(o->graph, NULL, NULL, &c->traced));
    } else {
        SAMBA_TRY(samba_graph_new(c->context, c->name, &c->traced));
        for (int i = 0; i < o->input_count; i++)
            SAMBA_TRY(samba_graph_add_input(c->traced, o->inputs[i]));
        o->model(c->traced, o->model_options);
        SAMBA_TRY(samba_graph_status(c->traced));
    }
    c->graph = c->traced;
    SAMBA_TRY(check_scopes(c->context, c->name, o->graph ? o->graph : c->traced));
    if (c->traced->sink_count == 0)
        return samba_fail(c->context, SAMBA_ERROR_ARGUMENT,
                          "model '%s' has no output: name what it computes with samba_output or samba_loss", c->name);
    SAMBA_TRY(samba_check_grad_outputs(c->traced));
    return identify(c);
}

samba_status samba_pass_autodiff(samba_compiler *c)
{
    const samba_wanted wanted = {samba_has_gradient, c->options};
    const bool some = c->options->optimizer_count > 0;
    samba_graph *out;
    if (c->options->inference)
        return SAMBA_OK;
    SAMBA_TRY(samba_check_optimizers(c));
    SAMBA_TRY(samba_autodiff(c->graph, c->options->grad_accumulation_steps, some ? &wanted : NULL, &out));
    samba_compiler_take_graph(c, out);
    return SAMBA_OK;
}

/* A graph that was parsed may say more than tracing can. */
static samba_status check_phases(samba_context *context, const samba_graph *graph)
{
    static const char rest[] = "; a graph to compile is of FWD alone, of which the compiler makes the rest";
    for (int64_t i = 0; i < graph->node_count; i++)
        if (graph->nodes[i].phase > SAMBA_FWD)
            return samba_fail(context, SAMBA_ERROR_ARGUMENT, "compile: node %%%lld, %s, is of %s%s", (long long)i,
                              samba_ops[graph->nodes[i].op].name, samba_phase_names[graph->nodes[i].phase], rest);
    for (int64_t i = 0; i < graph->sink_count; i++)
        if (graph->sinks[i].phase != SAMBA_FWD)
            return samba_fail(context, SAMBA_ERROR_ARGUMENT, "compile: sink %lld is of %s%s", (long long)i,
                              samba_phase_names[graph->sinks[i].phase], rest);
    return SAMBA_OK;
}

samba_status samba_compile_check(samba_context *context, const samba_compile_options *o)
{
    if (!o || o->struct_size != sizeof *o)
        return samba_fail(context, SAMBA_ERROR_ARGUMENT,
                          "compile: options must start from samba_compile_defaults() of this version's header");
    if (!o->model == !o->graph)
        return samba_fail(context, SAMBA_ERROR_ARGUMENT, "compile: give either a model function or a graph, not %s",
                          o->model ? "both" : "neither");
    if (o->grad_accumulation_steps < 1)
        return samba_fail(context, SAMBA_ERROR_ARGUMENT, "compile: grad_accumulation_steps is %d, expected 1 or more",
                          o->grad_accumulation_steps);
    if (o->chunk_bytes < 0)
        return samba_fail(context, SAMBA_ERROR_ARGUMENT, "compile: chunk_bytes is %lld, expected 0 for the default, or more",
                          (long long)o->chunk_bytes);
    if (o->memory_budget < 0)
        return samba_fail(context, SAMBA_ERROR_ARGUMENT,
                          "compile: memory_budget is %lld bytes, expected 1 or more, or 0 for none", (long long)o->memory_budget);
    if (o->precision != SAMBA_FP32 && o->precision != SAMBA_BF16)
        return samba_fail(context, SAMBA_ERROR_ARGUMENT, "compile: precision is %d, expected SAMBA_FP32 (0) or SAMBA_BF16 (1)",
                          (int)o->precision);
    if (o->mapping != SAMBA_MAPPING_SECTION && o->mapping != SAMBA_MAPPING_SPATIAL)
        return samba_fail(context, SAMBA_ERROR_ARGUMENT,
                          "compile: mapping is %d, expected SAMBA_MAPPING_SECTION (0) or SAMBA_MAPPING_SPATIAL (1)",
                          (int)o->mapping);
    if (o->fast_memory < 0)
        return samba_fail(context, SAMBA_ERROR_ARGUMENT,
                          "compile: fast_memory is %lld bytes, expected 1 or more, or 0 for as much as there is",
                          (long long)o->fast_memory);
    if (o->inference && (o->optimizer_count > 0 || o->grad_accumulation_steps > 1))
        return samba_fail(context, SAMBA_ERROR_ARGUMENT,
                          "compile: inference has no gradients: leave out optimizers and grad_accumulation_steps");
    if (o->inference && o->data_parallel)
        return samba_fail(context, SAMBA_ERROR_ARGUMENT,
                          "compile: inference has no gradients for replicas to average: leave out data_parallel");
    if (o->optimizer_count < 0 || (o->optimizer_count > 0 && !o->optimizers))
        return samba_fail(context, SAMBA_ERROR_ARGUMENT, "compile: %d optimizers, and optimizers is %s", o->optimizer_count,
                          o->optimizers ? "given" : "NULL");
    if (o->optimizer_count == 0 && o->optimizers && !o->inference)
        return samba_fail(context, SAMBA_ERROR_ARGUMENT,
                          "compile: optimizers is given, and optimizer_count is 0, so nothing would train: set the count, or "
                          "optimizers to NULL where there are none");
    if (o->gradient_count < 0 || (o->gradient_count > 0 && !o->gradients))
        return samba_fail(context, SAMBA_ERROR_ARGUMENT, "compile: %d gradients, and gradients is %s", o->gradient_count,
                          o->gradients ? "given" : "NULL");
    if (o->gradient_count > 0 && o->optimizer_count == 0)
        return samba_fail(context, SAMBA_ERROR_ARGUMENT,
                          "compile: gradients is given%s, and says what optimizers leave out: without optimizers %s",
                          o->inference ? " for inference" : "", o->inference ? "there are none" : "all parameters have one");
    for (int i = 0; i < o->gradient_count; i++)
        if (!o->gradients[i])
            return samba_fail(context, SAMBA_ERROR_ARGUMENT, "compile: name %d of gradients is NULL", i);
    for (int i = 0; i < o->optimizer_count; i++)
        if (o->optimizers[i].struct_size != sizeof(samba_optimizer)) {
            const samba_optimizer_facts *kind = samba_optimizer_facts_at((int)o->optimizers[i].kind);
            return samba_fail(context, SAMBA_ERROR_ARGUMENT,
                              "compile: optimizer %d must start from samba_%s() of this version's header, which sets "
                              "struct_size and the defaults",
                              i, kind ? kind->name : "optimizer_defaults");
        }
    for (int i = 0; i < o->input_count; i++)
        if (!o->inputs || !o->inputs[i])
            return samba_fail(context, SAMBA_ERROR_ARGUMENT, "compile: input %d of %d is NULL", i, o->input_count);
    return o->graph ? check_phases(context, o->graph) : SAMBA_OK;
}

static bool plain_name(const char *name)
{
    return name[0] && strcmp(name, ".") != 0 && strcmp(name, "..") != 0 && !strchr(name, '/');
}

/* The log waits beside its name until the PEF is written, so that a failure leaves both as they were. */
static samba_status write_both(samba_compiler *c, const char *pef, const char *log_path, const samba_text *log)
{
    const void *part = log->data;
    size_t size = (size_t)log->length;
    samba_file_staged staged;
    SAMBA_TRY(samba_file_stage(c->context, log_path, &part, &size, 1, true, &staged));
    samba_status status = samba_pef_write(c->context, &c->plan, pef);
    if (status == SAMBA_OK)
        return samba_file_publish(c->context, &staged);
    samba_file_unstage(&staged);
    return status;
}

samba_status samba_compile_write(samba_compiler *c, char *path, size_t path_size)
{
    const samba_compile_options *o = c->options;
    SAMBA_TRY(samba_plan_check(c->context, &c->plan));
    const char *folder = o->output_folder ? o->output_folder : "out", *name = o->pef_name ? o->pef_name : c->name;
    if (!plain_name(name))
        return samba_fail(c->context, SAMBA_ERROR_ARGUMENT,
                          "compile: '%s' cannot name a PEF: expected a file name without '/'; output_folder says where it goes",
                          name);
    char *directory, *pef, *log_path;
    samba_text text, log;
    samba_text_begin(&text, c->context, "%s/%s", folder, name);
    SAMBA_TRY(samba_text_keep(&text, &c->arena, &directory));
    samba_text_begin(&text, c->context, "%s/%s.pef", directory, name);
    SAMBA_TRY(samba_text_keep(&text, &c->arena, &pef));
    samba_text_begin(&text, c->context, "%s.log", pef);
    SAMBA_TRY(samba_text_keep(&text, &c->arena, &log_path));
    if (path && strlen(pef) >= path_size)
        return samba_fail(c->context, SAMBA_ERROR_ARGUMENT,
                          "compile: the PEF's path has %lld bytes, more than the %zu given for it", (long long)strlen(pef),
                          path_size);
    samba_text_init(&log, c->context);
    samba_status status = samba_plan_log(c->context, &c->plan, &log);
    if (status == SAMBA_OK)
        status = samba_make_directories(c->context, directory);
    if (status == SAMBA_OK)
        status = write_both(c, pef, log_path, &log);
    if (status == SAMBA_OK && path)
        memcpy(path, pef, strlen(pef) + 1);
    samba_text_clear(&log);
    return status;
}

static samba_status compile(samba_compiler *c, char *path, size_t path_size)
{
    SAMBA_TRY(samba_run_passes(c));
    /* inference: nothing to compute again */
    if (c->options->memory_budget > 0 && c->plan.memory_bytes > c->options->memory_budget)
        return samba_fail(
            c->context, SAMBA_ERROR_ARGUMENT,
            "compile: a memory budget of %lld byte%s cannot be met: model '%s' needs %lld bytes; give that much, or "
            "a smaller batch",
            (long long)c->options->memory_budget, c->options->memory_budget == 1 ? "" : "s", c->name,
            (long long)c->plan.memory_bytes);
    return samba_compile_write(c, path, path_size);
}

void samba_compiler_release(samba_compiler *c)
{
    samba_context *x = c->context;
    samba_plan *p = &c->plan;
    samba_free(x, p->buffers, sizeof(samba_buffer) * (size_t)c->growth.buffer_capacity);
    samba_free(x, p->stages, sizeof(samba_stage) * (size_t)c->growth.stage_capacity);
    samba_free(x, p->tensors, sizeof(samba_plan_tensor) * (size_t)c->growth.tensor_capacity);
    samba_free(x, p->argins, sizeof(samba_plan_argin) * (size_t)c->growth.argin_capacity);
    samba_free(x, p->constants, sizeof(samba_plan_constant) * (size_t)c->growth.constant_capacity);
    samba_free(x, p->blobs, sizeof *p->blobs * (size_t)c->growth.blob_capacity);
    samba_free(x, p->sections, sizeof(samba_plan_section) * (size_t)c->growth.section_capacity);
    samba_free(x, p->calls, sizeof(int32_t) * (size_t)c->growth.call_capacity);
    samba_free(x, p->words, sizeof(char *) * (size_t)c->growth.word_capacity);
    samba_free(x, p->locations, sizeof(samba_plan_location) * (size_t)c->growth.location_capacity);
    samba_origins_free(c);
    samba_free(x, c->growth.persistent, (size_t)c->growth.persistent_capacity);
    samba_free(x, c->growth.made, sizeof(samba_made_stage) * (size_t)c->growth.made_capacity);
    samba_free(x, c->placed.extra_stores, sizeof(samba_extra_store) * (size_t)c->placed.extra_store_capacity);
    samba_free(x, c->lowering.uses.touched, sizeof(int32_t) * (size_t)c->lowering.uses.touched_capacity);
    samba_free(x, c->placed.copies, sizeof(samba_copy) * (size_t)c->placed.copy_capacity);
    samba_plan_free(p);
    samba_fusion_free(&c->fusion);
    if (c->graph != c->traced)
        samba_graph_free(c->graph);
    samba_graph_free(c->traced);
    samba_arena_free(&c->arena);
}

/* One of the plan's arrays, which grew in context memory, to the plan's own. */
static samba_status settle(samba_plan *plan, const void *items, size_t size, int64_t count, void *settled)
{
    void *copy;
    SAMBA_TRY(samba_arena_room(&plan->arena, size * (size_t)count, &copy));
    if (count > 0)
        memcpy(copy, items, size * (size_t)count);
    memcpy(settled, &copy, sizeof copy);
    return SAMBA_OK;
}

/* The plan leaves the compiler, which keeps the arrays to free them. */
static samba_status take_plan(samba_compiler *c, samba_plan *plan)
{
    *plan = c->plan;
    samba_arena_init(&c->plan.arena, c->context);
    SAMBA_TRY(settle(plan, plan->buffers, sizeof *plan->buffers, plan->buffer_count, &plan->buffers));
    SAMBA_TRY(settle(plan, plan->stages, sizeof *plan->stages, plan->stage_count, &plan->stages));
    SAMBA_TRY(settle(plan, plan->sections, sizeof *plan->sections, plan->section_count, &plan->sections));
    SAMBA_TRY(settle(plan, plan->tensors, sizeof *plan->tensors, plan->tensor_count, &plan->tensors));
    SAMBA_TRY(settle(plan, plan->argins, sizeof *plan->argins, plan->argin_count, &plan->argins));
    SAMBA_TRY(settle(plan, plan->constants, sizeof *plan->constants, plan->constant_count, &plan->constants));
    SAMBA_TRY(settle(plan, plan->blobs, sizeof *plan->blobs, plan->blob_count, &plan->blobs));
    return settle(plan, plan->calls, sizeof *plan->calls, plan->call_count, &plan->calls);
}

samba_status samba_compile_hand_over(samba_compiler *c, samba_status status, samba_plan *plan)
{
    if (status == SAMBA_OK && plan)
        status = take_plan(c, plan);
    samba_compiler_release(c);
    if (status != SAMBA_OK && plan)
        samba_plan_free(plan);
    return status;
}

samba_status samba_compile_kept(samba_context *context, const samba_compile_options *options, char *path, size_t path_size,
                                samba_plan *plan)
{
    SAMBA_TRY(samba_compile_check(context, options));
    samba_compiler c = {.context = context, .options = options, .train = !options->inference};
    c.name = options->name ? options->name : options->graph ? options->graph->name : "graph";
    samba_arena_init(&c.arena, context);
    samba_plan_init(&c.plan, context);
    if (plan)
        samba_plan_init(plan, context);
    samba_status status = compile(&c, path, path_size);
    return samba_compile_hand_over(&c, status, plan);
}

samba_status samba_compile(samba_context *context, const samba_compile_options *options, char *path, size_t path_size)
{
    SAMBA_NEED(NULL, context);
    return samba_compile_kept(context, options, path, path_size, NULL);
}

samba_status samba_compile_plan(samba_context *context, const samba_graph *graph, bool train, bool unfused, samba_plan *plan)
{
    samba_compile_options options = samba_compile_defaults();
    options.graph = (samba_graph *)graph; /* of options for reading: the pass copies it */
    options.inference = true;
    samba_compiler c = {.context = context, .options = &options, .name = graph->name, .train = train, .unfused = unfused};
    samba_arena_init(&c.arena, context);
    samba_plan_init(&c.plan, context);
    samba_plan_init(plan, context);
    samba_status status = samba_run_passes(&c);
    if (status == SAMBA_OK)
        status = samba_plan_check(context, &c.plan);
    return samba_compile_hand_over(&c, status, plan);
}
