/* SPDX-License-Identifier: Apache-2.0
 *
 * The command compile, and its parts that other commands need: example inputs, compile options, a folder for a PEF that is not
 * kept.
 *
 * "--pef FILE" compiles into a temporary folder beside FILE and renames PEF and log to FILE and FILE.log, so that FILE is either
 * the old one or the whole new one. */
#include "app/app.h"
#include "compiler/compiler.h"
#include <sambaflow/parallel.h>

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void samba_app_free_tensors(int count, samba_tensor **tensors)
{
    for (int i = 0; i < count; i++) {
        samba_tensor_free(tensors[i]);
        tensors[i] = NULL;
    }
}

/* "lenet after simplify:" and the graph; a program that asked for JSON gets it on stderr. */
static void dump(void *user, const char *pass, const char *text)
{
    const samba_app_arguments *arguments = user;
    FILE *file = arguments->json ? stderr : stdout;
    fprintf(file, "# %s after %s\n%s\n", arguments->app->name, pass, text);
}

static samba_status make_inputs(const samba_app_run *run, int count, const samba_app_input *examples, samba_tensor **inputs)
{
    for (int i = 0; i < count; i++)
        SAMBA_TRY(samba_tensor_empty(run->context, examples[i].name, examples[i].dtype, examples[i].rank, examples[i].shape,
                                     &inputs[i]));
    return SAMBA_OK;
}

/* One optimizer for all parameters; before it, where some do not decay, one for those. */
static samba_status make_optimizers(const samba_app_run *run, const samba_app_input *examples, samba_app_compilation *c)
{
    const samba_app_arguments *a = run->arguments;
    c->options.optimizer_count = a->inference ? 0 : 1;
    c->options.optimizers = c->optimizers;
    for (int i = 0; i < SAMBA_COUNT(c->optimizers); i++)
        c->optimizers[i] = a->optimizer;
    if (!a->no_decay)
        return SAMBA_OK;
    samba_optimizer *first = &c->optimizers[0];
    const char **patterns;
    SAMBA_TRY(samba_app_undecayed(run, c->options.input_count, examples, &c->arena, &first->parameter_count, &patterns));
    first->parameters = patterns;
    first->name = samba_app_undecayed_name;
    first->weight_decay = 0;
    c->optimizers[1].name = "decayed";
    c->options.optimizer_count = 2;
    return SAMBA_OK;
}

samba_status samba_app_compilation_new(const samba_app_run *run, int size, int64_t rows, samba_app_compilation *compilation)
{
    const samba_app_arguments *a = run->arguments;
    samba_app_input examples[SAMBA_APP_MAX_INPUTS];
    samba_compile_options *options = &compilation->options;
    *compilation = (samba_app_compilation){.options = samba_compile_defaults()};
    samba_arena_init(&compilation->arena, run->context);
    options->name = a->app->name;
    options->model = a->app->model;
    options->model_options = a->app->settings;
    options->input_count = samba_app_inputs(a->app, size, rows, examples);
    options->inputs = compilation->inputs;
    options->inference = a->inference;
    options->precision = a->precision;
    options->grad_accumulation_steps = a->inference ? 1 : a->accumulation;
    options->chunk_bytes = a->chunk_bytes;
    options->output_folder = a->output_folder;
    options->pef_name = a->pef_name;
    options->dump_after = a->dump_after;
    options->dump = a->dump_after ? dump : NULL;
    options->dump_user = (void *)a;
    options->verify = a->verify;
    options->memory_budget = a->memory_budget;
    options->mapping = a->mapping;
    options->fast_memory = a->fast_memory;
    options->data_parallel = a->data_parallel;
    SAMBA_TRY(make_inputs(run, options->input_count, examples, compilation->inputs));
    return make_optimizers(run, examples, compilation);
}

void samba_app_compilation_free(samba_app_compilation *compilation)
{
    samba_app_free_tensors(compilation->options.input_count, compilation->inputs);
    samba_arena_free(&compilation->arena);
}

samba_status samba_app_temporary(samba_context *context, const char *beside, samba_text *folder)
{
    samba_text_init(folder, context);
    samba_text_add(folder, "%s.XXXXXX", beside);
    SAMBA_TRY(folder->status);
    if (!mkdtemp(folder->data)) {
        samba_status status = samba_fail(context, SAMBA_ERROR_FILE, "a temporary folder beside '%s' could not be made: %s",
                                         beside, strerror(errno));
        samba_text_clear(folder);
        return status;
    }
    return SAMBA_OK;
}

void samba_app_remove_temporary(const char *folder, const char *pef_name)
{
    static const char *const endings[] = {".pef", ".pef.log"};
    char path[4096]; /* no allocation: this cleans up after a lack of memory too */
    for (int i = 0; i < SAMBA_COUNT(endings); i++) {
        snprintf(path, sizeof path, "%s/%s/%s%s", folder, pef_name, pef_name, endings[i]);
        remove(path); /* not there after a failure, which has its own message */
    }
    snprintf(path, sizeof path, "%s/%s", folder, pef_name);
    rmdir(path);
    rmdir(folder);
}

/* Into the folder that the options name: one graph, or one for each size. */
static samba_status compile_in(const samba_app_run *run, const samba_compile_options *options, char *path, size_t path_size,
                               samba_plan *plan)
{
    const samba_app_arguments *a = run->arguments;
    if (samba_app_sizes(a->app) == 1 && samba_app_rest(a) == 0)
        return samba_compile_kept(run->context, options, path, path_size, plan);
    return samba_app_compile_sizes(run, options->output_folder, path, path_size, plan);
}

/* Compiles to exactly a->pef. */
static samba_status compile_to_file(const samba_app_run *run, samba_compile_options *options, char *path, size_t path_size,
                                    samba_plan *plan)
{
    const char *target = run->arguments->pef;
    samba_text folder, from, to;
    SAMBA_TRY(samba_app_temporary(run->context, target, &folder));
    options->output_folder = folder.data;
    options->pef_name = NULL;
    samba_status status = compile_in(run, options, path, path_size, plan);
    samba_text_begin(&from, run->context, "%s.log", path);
    samba_text_begin(&to, run->context, "%s.log", target);
    if (status == SAMBA_OK)
        status = from.status != SAMBA_OK ? from.status : to.status;
    if (status == SAMBA_OK) /* both or none */
        status = samba_file_check_writable(run->context, to.data);
    if (status == SAMBA_OK)
        status = samba_file_check_writable(run->context, target);
    if (status == SAMBA_OK)
        status = samba_file_move(run->context, path, target);
    if (status == SAMBA_OK)
        status = samba_file_move(run->context, from.data, to.data);
    samba_app_remove_temporary(folder.data, options->name);
    samba_text_clear(&folder);
    samba_text_clear(&from);
    samba_text_clear(&to);
    if (status == SAMBA_OK)
        snprintf(path, path_size, "%s", target);
    return status;
}

static samba_status report(const samba_app_run *run, const samba_plan *plan, const char *path, double ms)
{
    samba_status status = SAMBA_OK;
    if (run->arguments->json) {
        json_t *object = samba_describe_json(plan, SAMBA_DETAIL_SECTIONS, NULL);
        json_object_set_new(object, "command", json_string("compile"));
        json_object_set_new(object, "pef", json_string(path));
        json_object_set_new(object, "compile_ms", samba_json_number(ms));
        json_object_set_new(object, "batch_size", json_integer(run->arguments->batch_size));
        status = samba_json_print(run->context, object, stdout);
    } else {
        char time[SAMBA_CELL];
        printf("PEF            %s\ncompile time   %s\n", path, samba_text_ms(time, ms));
        status = samba_describe_backward(run->context, plan, 0, "backward      ", stdout);
        putchar('\n');
        if (status == SAMBA_OK)
            status = samba_describe_memory(run->context, plan, stdout);
        putchar('\n');
        if (status == SAMBA_OK)
            status = samba_describe_sections(run->context, plan, stdout);
    }
    return status;
}

/* What train says before it trains. */
static samba_status report_briefly(const samba_app_run *run, const samba_plan *plan, const char *path, double ms)
{
    char time[SAMBA_CELL], most[SAMBA_CELL];
    if (!run->arguments->json)
        printf("PEF            %s\ncompile time   %s\nmemory         %s\n", path, samba_text_ms(time, ms),
               samba_text_bytes(most, (double)plan->memory_bytes));
    return samba_flush_output(run->context);
}

enum { PATH = 4096 };

/* Compiles to the file that `path` names in the end; the other replicas of a machine leave it to the first. */
static samba_status compile(const samba_app_run *run, char path[PATH])
{
    const samba_app_arguments *a = run->arguments;
    const samba_app *app = a->app;
    samba_app_compilation compilation;
    samba_replicas self;
    SAMBA_TRY(samba_replicas_told(run->context, &self));
    if (a->data_parallel && self.local_rank > 0) { /* a launcher has started it with others: one a machine writes */
        const char *name = a->pef_name ? a->pef_name : app->name;
        if (a->pef)
            snprintf(path, PATH, "%s", a->pef);
        else
            snprintf(path, PATH, "%s/%s/%s.pef", a->output_folder ? a->output_folder : "out", name, name);
        return SAMBA_OK;
    }
    samba_status status = samba_app_compilation_new(run, 0, a->microbatch, &compilation);
    double start = samba_seconds();
    samba_plan plan;
    samba_plan_init(&plan, run->context);
    if (status == SAMBA_OK)
        status = a->pef ? compile_to_file(run, &compilation.options, path, PATH, &plan)
                        : compile_in(run, &compilation.options, path, PATH, &plan);
    double ms = 1e3 * (samba_seconds() - start);
    samba_app_build_warnings(run);
    samba_app_compilation_free(&compilation);
    if (status == SAMBA_OK && app->compiled)
        status = app->compiled(run->context, app->compiled_user, path, a->json ? NULL : stdout);
    if (status == SAMBA_OK && (!a->data_parallel || self.rank == 0))
        status = (a->command == SAMBA_APP_TRAIN ? report_briefly : report)(run, &plan, path, ms);
    samba_plan_free(&plan);
    return status;
}

samba_status samba_app_compile(const samba_app_run *run)
{
    char path[PATH] = "";
    return compile(run, path);
}

samba_status samba_app_compile_and_train(const samba_app_run *run)
{
    char path[PATH] = "";
    samba_app_arguments arguments = *run->arguments;
    const samba_app_run compiled = {run->context, &arguments};
    if (arguments.keep_last && !arguments.last_batch)
        SAMBA_TRY(samba_app_count_last(run, &arguments.last_batch));
    SAMBA_TRY(compile(&compiled, path));
    if (arguments.data_parallel)
        SAMBA_TRY(samba_replicas_wait(run->context));
    arguments.pef = path;
    return samba_app_train(&compiled);
}
