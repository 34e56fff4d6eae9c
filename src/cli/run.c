/* SPDX-License-Identifier: Apache-2.0
 *
 * sambaflow run: runs sections of a PEF on tensors from files (random ones where none is given) and writes or sums up outputs.
 * Files of outputs are written after all runs, each whole or not at all. */
#include "cli/cli.h"
#include <sambaflow/data.h>

#include <math.h>
#include <string.h>

typedef struct runner {
    samba_context *context;
    const samba_cli_arguments *arguments;
    samba_arena arena;
    samba_plan plan;
    samba_session *session;
    int32_t graph; /* of the plan */
    samba_tensor **inputs, **outputs;
    int input_count, output_count;
    double seconds;
    json_t *warnings, *profile; /* profile and tables: what --profile measured */
    char *tables;
} runner;

/* "image, label" */
static void list_names(const samba_plan *plan, samba_tensor_kind kind, char *text, size_t size)
{
    text[0] = '\0';
    for (int i = 0; i < plan->tensor_count; i++)
        if (plan->tensors[i].kind == (int32_t)kind)
            snprintf(text + strlen(text), size - strlen(text), "%s%s", text[0] ? ", " : "", plan->tensors[i].name);
}

static samba_status check_name(const runner *r, samba_tensor_kind kind, const char *name)
{
    if (samba_plan_find(&r->plan, kind, name))
        return SAMBA_OK;
    char known[512];
    list_names(&r->plan, kind, known, sizeof known);
    return samba_fail(r->context, SAMBA_ERROR_NAME, "'%s' has no %s '%s': it has %s", r->arguments->pef,
                      kind == SAMBA_KIND_INPUT ? "input" : "output", name, known[0] ? known : "none");
}

/* The tensor of that name in a file. */
static samba_status read_input(runner *r, const char *name, const char *path, samba_tensor **tensor)
{
    samba_tensor_list list;
    SAMBA_TRY(samba_tensors_read(r->context, path, name, &list));
    samba_status status = SAMBA_ERROR_NAME;
    for (int i = 0; i < list.count && status != SAMBA_OK; i++)
        if (strcmp(samba_tensor_name(list.tensors[i]), name) == 0) {
            *tensor = list.tensors[i];
            list.tensors[i] = NULL; /* ours now: samba_tensor_free allows NULL */
            status = SAMBA_OK;
        }
    if (status != SAMBA_OK)
        samba_fail(r->context, status, "'%s' holds no tensor '%s' (it holds %d others)", path, name, list.count);
    samba_tensor_list_free(r->context, &list);
    return status;
}

static const char *given_input(const samba_cli_arguments *arguments, const char *name)
{
    for (int i = 0; i < arguments->input_count; i++)
        if (strcmp(arguments->inputs[i].name, name) == 0)
            return arguments->inputs[i].value;
    return NULL;
}

static bool output_wanted(const samba_cli_arguments *arguments, const char *name)
{
    for (int i = 0; i < arguments->output_count; i++)
        if (strcmp(arguments->outputs[i].name, name) == 0)
            return true;
    return arguments->output_count == 0;
}

static samba_status make_tensors(runner *r)
{
    const samba_cli_arguments *a = r->arguments;
    for (int i = 0; i < a->input_count; i++)
        SAMBA_TRY(check_name(r, SAMBA_KIND_INPUT, a->inputs[i].name));
    for (int i = 0; i < a->output_count; i++)
        SAMBA_TRY(check_name(r, SAMBA_KIND_OUTPUT, a->outputs[i].name));
    SAMBA_TRY(SAMBA_ROOM(&r->arena, r->inputs, (size_t)r->plan.tensor_count + 1));
    SAMBA_TRY(SAMBA_ROOM(&r->arena, r->outputs, (size_t)r->plan.tensor_count + 1));
    for (int i = 0; i < r->plan.tensor_count; i++) {
        const samba_plan_tensor *tensor = &r->plan.tensors[i];
        if (!samba_plan_has_tensor(&r->plan.graphs[r->graph], i))
            continue;
        if (tensor->kind == SAMBA_KIND_INPUT) {
            const char *path = given_input(a, tensor->name);
            samba_tensor **input = &r->inputs[r->input_count];
            SAMBA_TRY(path ? read_input(r, tensor->name, path, input) : samba_random_input(r->context, tensor, a->seed, input));
            r->input_count++;
        } else if (tensor->kind == SAMBA_KIND_OUTPUT && output_wanted(a, tensor->name)) {
            SAMBA_TRY(samba_tensor_new(r->context, tensor->name, (samba_dtype)tensor->dtype, tensor->rank, tensor->shape,
                                       &r->outputs[r->output_count]));
            r->output_count++;
        }
    }
    return SAMBA_OK;
}

static int64_t runs_of(const samba_cli_arguments *arguments) { return arguments->num_iterations ? arguments->num_iterations : 1; }

static samba_status run_all(runner *r)
{
    const samba_cli_arguments *a = r->arguments;
    samba_run_options run = samba_run_defaults();
    run.train = !a->eval;
    run.input_count = r->input_count;
    run.inputs = r->inputs;
    run.output_count = r->output_count;
    run.outputs = r->outputs;
    run.hyperparameter_count = a->hyperparameter_count;
    run.hyperparameters = a->hyperparameters;
    run.section_type_count = a->type_count;
    run.section_types = a->types;
    run.section_id_count = a->id_count;
    run.section_ids = a->ids;
    run.graph_name = a->graph_name;
    double start = samba_seconds();
    for (int64_t i = 0; i < runs_of(a); i++) {
        SAMBA_TRY(samba_run(r->session, &run));
        samba_app_warnings("sambaflow", r->session, r->warnings, NULL);
    }
    r->seconds = samba_seconds() - start;
    return SAMBA_OK;
}

static samba_status write_outputs(const runner *r)
{
    const samba_cli_arguments *a = r->arguments;
    for (int i = 0; i < a->output_count; i++)
        for (int k = 0; k < r->output_count; k++)
            if (strcmp(samba_tensor_name(r->outputs[k]), a->outputs[i].name) == 0)
                SAMBA_TRY(samba_npy_write(r->context, a->outputs[i].value, r->outputs[k]));
    return a->save ? samba_session_save(r->session, a->save, true) : SAMBA_OK;
}

typedef struct summary {
    double low, high, mean;
} summary;

/* "-nan" says nothing. */
static double unsigned_nan(double value) { return isnan(value) ? NAN : value; }

static summary sum_up(const samba_tensor *tensor)
{
    samba_dtype dtype = samba_tensor_dtype(tensor);
    int64_t count = samba_tensor_numel(tensor);
    summary s = {NAN, NAN, count > 0 ? 0 : NAN}; /* fmin and fmax pass over NaN where there is a number */
    const char *data = samba_tensor_data(tensor);
    for (int64_t i = 0; i < count; i++) {
        double value = samba_load_double(dtype, data + samba_dtype_size(dtype) * (size_t)i);
        s.low = fmin(s.low, value);
        s.high = fmax(s.high, value);
        s.mean += value / (double)count;
    }
    return (summary){unsigned_nan(s.low), unsigned_nan(s.high), unsigned_nan(s.mean)};
}

static samba_status report_json(runner *r)
{
    json_t *list = json_array();
    for (int i = 0; i < r->output_count; i++) {
        const samba_tensor *tensor = r->outputs[i];
        summary s = sum_up(tensor);
        json_array_append_new(list, json_pack("{s:s, s:s, s:o, s:o, s:o, s:o}", "name", samba_tensor_name(tensor), "dtype",
                                              samba_dtype_name(samba_tensor_dtype(tensor)), "shape",
                                              samba_json_shape(samba_tensor_rank(tensor), samba_tensor_shape(tensor)), "min",
                                              samba_json_number(s.low), "mean", samba_json_number(s.mean), "max",
                                              samba_json_number(s.high)));
    }
    json_t *object = json_pack("{s:s, s:s, s:s, s:i, s:I, s:o, s:o, s:O}", "command", "run", "pef", r->arguments->pef, "isa",
                               samba_session_isa(r->session), "threads", samba_session_threads(r->session), "iterations",
                               (json_int_t)runs_of(r->arguments), "seconds", samba_json_number(r->seconds), "outputs", list,
                               "warnings", r->warnings);
    if (object && r->profile)
        json_object_set(object, "profile", r->profile);
    samba_json_tuning(object, r->session);
    return samba_json_print(r->context, object, stdout);
}

static samba_status report(const runner *r)
{
    int64_t runs = runs_of(r->arguments);
    samba_table table;
    samba_table_init(&table, r->context, "lllrrr");
    samba_table_row(&table, "output\tdtype\tshape\tmin\tmean\tmax");
    for (int i = 0; i < r->output_count; i++) {
        const samba_tensor *tensor = r->outputs[i];
        summary s = sum_up(tensor);
        char shape[SAMBA_SHAPE_TEXT], name[SAMBA_SHOWN];
        samba_table_row(&table, "%s\t%s\t%s\t%.6g\t%.6g\t%.6g", samba_shown(samba_tensor_name(tensor), name),
                        samba_dtype_name(samba_tensor_dtype(tensor)),
                        samba_shape_format(samba_tensor_rank(tensor), samba_tensor_shape(tensor), shape, sizeof shape), s.low,
                        s.mean, s.high);
    }
    SAMBA_TRY(samba_table_print(&table, stdout, ""));
    char time[SAMBA_CELL];
    printf("\n%lld runs, %s each (%d threads, %s)\n", (long long)runs, samba_text_ms(time, 1e3 * r->seconds / (double)runs),
           samba_session_threads(r->session), samba_session_isa(r->session));
    SAMBA_TRY(samba_report_tuning(r->session, stdout));
    if (r->tables)
        printf("\n%s", r->tables);
    return SAMBA_OK;
}

static samba_status check_outputs(const runner *r)
{
    const samba_cli_arguments *a = r->arguments;
    for (int i = 0; i < a->output_count; i++)
        SAMBA_TRY(samba_check_output(r->context, "--output", a->outputs[i].value, a->pef));
    if (a->save)
        SAMBA_TRY(samba_check_output(r->context, "--save", a->save, a->pef));
    return a->trace ? samba_check_output(r->context, "--trace", a->trace, a->pef) : SAMBA_OK;
}

static samba_status work(runner *r)
{
    SAMBA_TRY(check_outputs(r));
    SAMBA_TRY(samba_pef_read(r->context, r->arguments->pef, &r->plan));
    int32_t graph = samba_plan_graph_named(&r->plan, r->arguments->graph_name);
    r->graph = graph < 0 ? 0 : graph; /* the run refuses */
    SAMBA_TRY(make_tensors(r));
    samba_session_options options = samba_cli_session(r->arguments);
    SAMBA_TRY(samba_session_new(r->context, r->arguments->pef, &options, &r->session));
    samba_load_options load = samba_load_defaults();
    load.partial = r->arguments->partial;
    if (r->arguments->load)
        SAMBA_TRY(samba_session_load_with(r->session, r->arguments->load, &load));
    SAMBA_TRY(samba_cli_profile_begin(r->session, r->arguments));
    SAMBA_TRY(run_all(r));
    SAMBA_TRY(samba_cli_profile_end(r->context, r->session, r->arguments, &r->profile, &r->tables));
    SAMBA_TRY(write_outputs(r));
    return r->arguments->json ? report_json(r) : report(r);
}

samba_status samba_cli_run(samba_context *context, const samba_cli_arguments *arguments)
{
    runner r = {.context = context, .arguments = arguments, .warnings = json_array()};
    samba_arena_init(&r.arena, context);
    samba_plan_init(&r.plan, context);
    samba_status status = work(&r);
    samba_session_free(r.session);
    samba_app_free_tensors(r.input_count, r.inputs);
    samba_app_free_tensors(r.output_count, r.outputs);
    samba_plan_free(&r.plan);
    samba_arena_free(&r.arena);
    json_decref(r.warnings);
    json_decref(r.profile);
    samba_strfree(context, r.tables);
    return status;
}
