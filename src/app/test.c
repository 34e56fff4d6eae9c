/* SPDX-License-Identifier: Apache-2.0
 *
 * The command test: one step as compiled, on the device, against the same step computed node by node with the plain reference
 * kernels.
 *
 * The reference is the graph as it is after the optimizer pass, which the compiler dumps: outputs, every gradient, every updated
 * parameter and optimizer state are sinks of it. Its leaves get the values that the session has before the step. Dropout is off
 * on both sides.
 *
 * An error is measured against the largest value of its tensor (or a thousandth of its section type's largest, for tensors that
 * are all but zero); what is allowed grows with the square root of the largest tensor in the graph,
 * as rounding errors of long sums do. */
#include "app/app.h"
#include "ops/ops.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* In bf16 a sum between two bfloat16 may round to either, here or there: what follows differs by a few times 2^-8. */
#define BF16_FLIPS 0.03

typedef struct comparison {
    const char *name;
    samba_phase phase;
    int64_t count;
    double error, scale, relative, allowed; /* relative = error / scale */
    bool ok;
} comparison;

typedef struct tester {
    const samba_app_run *run;
    samba_context *context;
    char *text; /* the graph to compare with, from the compiler */
    samba_graph *graph;
    samba_plan plan;
    samba_session *session;
    samba_arena arena;
    samba_io io;
    samba_tensor **before; /* the session's tensors before the step, by plan tensor; NULL where the leaf is none */
    const char **leaf_names;
    samba_array *leaves, *values; /* values: per sink */
    int leaf_count;
    comparison *comparisons; /* per sink */
    int comparison_count;
} tester;

static void keep(void *user, const char *pass, const char *text)
{
    tester *t = user;
    (void)pass;
    t->text = samba_strdup(t->context, text);
}

static bool gives(const tester *t, const char *hyperparameter)
{
    bool given = false;
    for (int i = 0; i < t->run->arguments->hyperparameter_count; i++)
        given = given || strcmp(t->run->arguments->hyperparameters[i].name, hyperparameter) == 0;
    return given;
}

static samba_status compile(tester *t)
{
    const char *temporary = getenv("TMPDIR");
    samba_text beside, folder;
    char path[4096] = "";
    samba_app_compilation compilation;
    samba_compile_options *options = &compilation.options;
    samba_status status = samba_text_begin(&beside, t->context, "%s/%s-test", temporary && temporary[0] ? temporary : "/tmp",
                                           t->run->arguments->app->name);
    if (status == SAMBA_OK)
        status = samba_app_temporary(t->context, beside.data, &folder);
    samba_text_clear(&beside);
    SAMBA_TRY(status);
    status = samba_app_compilation_new(t->run, 0, t->run->arguments->microbatch, &compilation);
    if (status == SAMBA_OK) {
        for (int i = 0; i < SAMBA_COUNT(compilation.optimizers) && !gives(t, "eps"); i++)
            compilation.optimizers[i].eps = 1e-3; /* the default divides rounding errors of tiny gradients by themselves */
        options->output_folder = folder.data;
        options->pef_name = NULL;
        options->dump_after = "optimizer"; /* later passes take operators apart */
        options->dump = keep;
        options->dump_user = t;
        status = samba_compile(t->context, options, path, sizeof path);
    }
    samba_app_compilation_free(&compilation);
    if (status == SAMBA_OK && !t->text)
        status = SAMBA_ERROR_MEMORY; /* of keep */
    if (status == SAMBA_OK)
        status = samba_pef_read(t->context, path, &t->plan);
    if (status == SAMBA_OK) {
        samba_session_options session = samba_app_session(t->run->arguments);
        status = samba_session_new(t->context, path, &session, &t->session);
    }
    samba_app_remove_temporary(folder.data, t->run->arguments->app->name);
    samba_text_clear(&folder);
    return status;
}

static samba_array array_of(const samba_tensor *tensor)
{
    samba_array array = {.dtype = samba_tensor_dtype(tensor),
                         .rank = samba_tensor_rank(tensor),
                         .numel = samba_tensor_numel(tensor),
                         .data = samba_tensor_data(tensor)};
    memcpy(array.shape, samba_tensor_shape(tensor), sizeof *array.shape * (size_t)array.rank);
    return array;
}

/* A leaf that is no device tensor: state from its initializer, a dropout rate 0, and `training` too of a PEF for inference.
 * False: leave it to its default. */
static bool fill_leaf(tester *t, const samba_node *node, samba_array *array)
{
    bool off = node->op == SAMBA_OP_argin &&
               (node->attrs->argin.role == 1 || (node->attrs->argin.role == 3 && t->run->arguments->inference));
    if (node->op != SAMBA_OP_state && !off)
        return false;
    *array = (samba_array){.dtype = (samba_dtype)node->dtype, .rank = node->rank};
    memcpy(array->shape, node->shape, sizeof node->shape);
    if (!samba_shape_numel(node->rank, node->shape, &array->numel))
        return false;
    size_t size = samba_dtype_size(array->dtype);
    array->data = samba_arena_alloc(&t->arena, size * (size_t)array->numel + 1);
    if (!array->data)
        return false;
    double value = !off && node->attrs->state.init == SAMBA_INIT_CONSTANT ? node->attrs->state.init_a : 0;
    for (int64_t i = 0; i < array->numel; i++)
        samba_store_double(array->dtype, (char *)array->data + size * (size_t)i, value);
    return true;
}

static const char *leaf_name(const samba_graph *graph, const samba_node *node)
{
    switch (node->op) {
    case SAMBA_OP_input: return samba_graph_name_at(graph, node->attrs->leaf.name);
    case SAMBA_OP_parameter: return samba_graph_name_at(graph, node->attrs->parameter.name);
    case SAMBA_OP_state: return samba_graph_name_at(graph, node->attrs->state.name);
    case SAMBA_OP_argin: return samba_graph_name_at(graph, node->attrs->argin.name);
    default: return NULL;
    }
}

static const samba_tensor *find_input(const tester *t, const char *name)
{
    for (int i = 0; i < t->io.input_count; i++)
        if (strcmp(samba_tensor_name(t->io.inputs[i]), name) == 0)
            return t->io.inputs[i];
    return NULL;
}

static samba_status gather_leaves(tester *t)
{
    for (int64_t i = 0; i < t->graph->node_count; i++) {
        const samba_node *node = samba_node_at(t->graph, (samba_ref)i);
        const char *name = leaf_name(t->graph, node);
        samba_array *array = &t->leaves[t->leaf_count];
        if (!name)
            continue;
        if (node->op == SAMBA_OP_input || node->op == SAMBA_OP_parameter) {
            const samba_tensor *value = find_input(t, name);
            if (node->op == SAMBA_OP_parameter) {
                SAMBA_TRY(samba_session_get_by_name(t->session, name, &t->before[i]));
                value = t->before[i];
            }
            if (!value)
                return samba_fail(t->context, SAMBA_ERROR_INTERNAL, "input '%s' of the graph is not in the PEF", name);
            *array = array_of(value);
        } else if (!fill_leaf(t, node, array)) {
            continue;
        }
        t->leaf_names[t->leaf_count++] = name;
    }
    return SAMBA_OK;
}

static double epsilon(samba_dtype dtype)
{
    switch (dtype) {
    case SAMBA_FLOAT32: return 0x1p-23;
    case SAMBA_BFLOAT16: return 0x1p-7;
    case SAMBA_FLOAT16: return 0x1p-10;
    case SAMBA_FLOAT64: return 0x1p-52;
    default: return 0; /* integers and bool: exact */
    }
}

static double largest_tensor(const samba_graph *graph)
{
    int64_t largest = 1, numel;
    for (int64_t i = 0; i < graph->node_count; i++)
        if (samba_shape_numel(graph->nodes[i].rank, graph->nodes[i].shape, &numel) && numel > largest)
            largest = numel;
    return (double)largest;
}

static void compare(comparison *c, const samba_array *expected, const samba_tensor *actual)
{
    size_t size = samba_dtype_size(expected->dtype);
    c->count = expected->numel;
    for (int64_t i = 0; i < expected->numel; i++) {
        double x = samba_load_double(expected->dtype, (const char *)expected->data + size * (size_t)i);
        double y = samba_load_double(expected->dtype, (const char *)samba_tensor_data(actual) + size * (size_t)i);
        double error = x == y || (isnan(x) && isnan(y)) ? 0 : fabs(x - y);
        if (isnan(error) || error > c->error)
            c->error = isnan(error) ? INFINITY : error;
        if (isfinite(x) && fabs(x) > c->scale)
            c->scale = fabs(x);
    }
}

/* The device's value of a sink after the step; *own when the caller must free it. */
static samba_status device_value(tester *t, const samba_sink *sink, const char *name, samba_tensor **value, bool *own)
{
    *own = sink->kind == SAMBA_SINK_ASSIGN;
    if (*own)
        return samba_session_get_by_name(t->session, name, value);
    for (int i = 0; i < t->io.output_count; i++)
        if (strcmp(samba_tensor_name(t->io.outputs[i]), name) == 0) {
            *value = t->io.outputs[i];
            return SAMBA_OK;
        }
    return samba_fail(t->context, SAMBA_ERROR_INTERNAL, "output '%s' of the graph is not in the PEF", name);
}

static samba_status compare_all(tester *t)
{
    double growth = 32 + 2 * sqrt(largest_tensor(t->graph)), scale[SAMBA_PHASE_COUNT] = {0};
    double least = t->plan.graphs[0].precision == SAMBA_BF16 ? BF16_FLIPS : 0;
    for (int64_t i = 0; i < t->graph->sink_count; i++) {
        const samba_sink *sink = &t->graph->sinks[i];
        if (sink->phase == SAMBA_ZEROGRAD)
            continue;
        bool assign = sink->kind == SAMBA_SINK_ASSIGN, own;
        const char *name =
            assign ? leaf_name(t->graph, samba_node_at(t->graph, sink->target)) : samba_graph_name_at(t->graph, sink->name);
        samba_tensor *value;
        if (assign && t->run->arguments->inference)
            continue; /* which changes no buffer, and drops those that nothing reads */
        SAMBA_TRY(device_value(t, sink, name, &value, &own));
        comparison *c = &t->comparisons[t->comparison_count++];
        *c = (comparison){.name = name, .phase = sink->phase, .allowed = fmax(least, growth * epsilon(t->values[i].dtype))};
        if (samba_tensor_dtype(value) != t->values[i].dtype || samba_tensor_numel(value) != t->values[i].numel)
            c->error = INFINITY;
        else
            compare(c, &t->values[i], value);
        if (own)
            samba_tensor_free(value);
        if (c->scale > scale[c->phase])
            scale[c->phase] = c->scale;
    }
    for (int i = 0; i < t->comparison_count; i++) {
        comparison *c = &t->comparisons[i];
        c->scale = fmax(c->scale, 1e-3 * scale[c->phase]);
        c->relative = c->error == 0 ? 0 : c->error / c->scale;
        c->ok = c->relative <= c->allowed;
    }
    return SAMBA_OK;
}

static samba_status step_and_compare(tester *t)
{
    size_t nodes = (size_t)t->graph->node_count + 1, sinks = (size_t)t->graph->sink_count + 1;
    SAMBA_TRY(SAMBA_ROOM(&t->arena, t->leaf_names, nodes));
    SAMBA_TRY(SAMBA_ROOM(&t->arena, t->leaves, nodes));
    SAMBA_TRY(SAMBA_ROOM(&t->arena, t->before, nodes));
    SAMBA_TRY(SAMBA_ROOM(&t->arena, t->values, sinks));
    SAMBA_TRY(SAMBA_ROOM(&t->arena, t->comparisons, sinks));
    SAMBA_TRY(gather_leaves(t));
    samba_run_options run = samba_run_defaults();
    const char *types[SAMBA_PHASE_COUNT];
    for (int i = 0; i < t->plan.argin_count; i++)
        if (t->plan.argins[i].role == 1) /* a dropout rate */
            SAMBA_TRY(samba_session_set_hyperparameters(t->session, 1, &(samba_hyperparameter){t->plan.argins[i].name, 0}));
    run.section_types = types; /* all by name: with gradient accumulation the schedule leaves some out of a first run */
    for (int phase = 0; phase < SAMBA_PHASE_COUNT; phase++)
        for (int i = 0; i < t->plan.section_count; i++)
            if (t->plan.sections[i].phase == phase || (t->plan.sections[i].forward_stages > 0 && phase == SAMBA_BCKWD)) {
                types[run.section_type_count++] = samba_section_type_names[phase];
                break;
            }
    run.input_count = t->io.input_count;
    run.inputs = t->io.inputs;
    run.output_count = t->io.output_count;
    run.outputs = t->io.outputs;
    SAMBA_TRY(samba_run(t->session, &run));
    SAMBA_TRY(samba_graph_evaluate(t->graph, t->leaf_count, t->leaf_names, t->leaves, &t->arena, t->values));
    return compare_all(t);
}

static samba_status report_json(tester *t, int failed)
{
    json_t *list = json_array();
    for (int i = 0; i < t->comparison_count; i++) {
        const comparison *c = &t->comparisons[i];
        json_array_append_new(list, json_pack("{s:s, s:s, s:I, s:o, s:o, s:o, s:b}", "name", c->name, "after",
                                              samba_phase_names[c->phase], "elements", (json_int_t)c->count, "max_abs_error",
                                              samba_json_number(c->error), "max_rel_error", samba_json_number(c->relative),
                                              "tolerance", samba_json_number(c->allowed), "ok", c->ok));
    }
    return samba_json_print(t->context,
                            json_pack("{s:s, s:s, s:i, s:i, s:o}", "command", "test", "isa", samba_session_isa(t->session),
                                      "threads", samba_session_threads(t->session), "failed", failed, "tensors", list),
                            stdout);
}

static samba_status report(tester *t, int failed)
{
    samba_table table;
    samba_table_init(&table, t->context, "llrrrrl");
    samba_table_row(&table, "tensor\tafter\telements\tmax abs error\tmax rel error\ttolerance\t");
    for (int i = 0; i < t->comparison_count; i++) {
        const comparison *c = &t->comparisons[i];
        samba_table_row(&table, "%s\t%s\t%lld\t%.2e\t%.2e\t%.2e\t%s", c->name, samba_phase_names[c->phase], (long long)c->count,
                        c->error, c->relative, c->allowed, c->ok ? "ok" : "FAIL");
    }
    SAMBA_TRY(samba_table_print(&table, stdout, ""));
    if (!failed)
        printf("\nall %d tensors agree with the reference kernels\n", t->comparison_count);
    return SAMBA_OK;
}

static samba_status test(tester *t)
{
    SAMBA_TRY(compile(t));
    SAMBA_TRY(samba_graph_parse(t->context, t->text, &t->graph));
    SAMBA_TRY(samba_io_new(t->context, &t->plan, 0, t->run->arguments->seed, &t->arena, &t->io));
    SAMBA_TRY(step_and_compare(t));
    int failed = 0;
    for (int i = 0; i < t->comparison_count; i++)
        failed += !t->comparisons[i].ok;
    SAMBA_TRY(t->run->arguments->json ? report_json(t, failed) : report(t, failed));
    if (failed)
        return samba_fail(t->context, SAMBA_ERROR_INTERNAL,
                          "%d of %d tensors differ from the reference kernels by more than their tolerance", failed,
                          t->comparison_count);
    return SAMBA_OK;
}

samba_status samba_app_test(const samba_app_run *run)
{
    tester t = {.run = run, .context = run->context};
    samba_plan_init(&t.plan, run->context);
    samba_arena_init(&t.arena, run->context);
    samba_status status = test(&t);
    for (int64_t i = 0; t.before && i < t.graph->node_count; i++)
        samba_tensor_free(t.before[i]);
    samba_session_free(t.session);
    samba_io_free(&t.io);
    samba_graph_free(t.graph);
    samba_plan_free(&t.plan);
    samba_strfree(run->context, t.text);
    samba_arena_free(&t.arena);
    return status;
}
