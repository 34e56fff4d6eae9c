/* SPDX-License-Identifier: Apache-2.0
 *
 * The frame around the commands: one context, one parsed command line, and the one function where a failure becomes a message and
 * an exit status. */
#include "app/app.h"
#include <sambaflow/parallel.h>
#include <sambaflow/warning.h>

#include <string.h>

static void warn(const char *program, const char *warning, json_t *list)
{
    char shown[1024];
    samba_show(warning, false, shown, sizeof shown);
    fprintf(stderr, "%s: warning: %s\n", program, shown);
    if (list)
        json_array_append_new(list, json_string(warning));
}

void samba_app_build_warnings(const samba_app_run *run)
{
    const char *warning;
    while ((warning = samba_context_warning(run->context))[0])
        if (samba_app_speaks())
            warn(run->arguments->app->name, warning, NULL);
}

void samba_app_warnings(const char *program, samba_session *session, json_t *list, samba_progress *progress)
{
    const char *warning;
    while ((warning = samba_session_warning(session))[0]) {
        if (progress)
            samba_progress_end(progress);
        warn(program, warning, list);
    }
}

samba_session_options samba_app_session(const samba_app_arguments *a)
{
    samba_session_options options = samba_word_session(a->seed, a->threads, a->isa);
    options.tune = a->no_tune ? "off" : a->tune;
    options.data_parallel = a->data_parallel && (a->command & SAMBA_APP_RUN);
    options.shard_optimizer = a->shard_optimizer;
    options.reduce_dtype = a->reduce_dtype ? "bfloat16" : NULL;
    return options;
}

samba_status samba_app_measure(const samba_app_run *run)
{
    const samba_app_arguments *a = run->arguments;
    samba_plan plan;
    samba_app_input inputs[SAMBA_APP_MAX_INPUTS];
    int count;
    samba_plan_init(&plan, run->context);
    samba_status status = samba_pef_read(run->context, a->pef, &plan);
    if (status == SAMBA_OK && plan.graph_count > 1)
        status = samba_fail(run->context, SAMBA_ERROR_UNSUPPORTED,
                            "'%s' has %d graphs, and this command measures PEFs of one: `sambaflow run` runs it", a->pef,
                            plan.graph_count);
    if (status == SAMBA_OK)
        status = samba_app_check(run, &plan, 0, &count, inputs);
    bool inference = a->inference || plan.graphs[0].inference;
    samba_plan_free(&plan);
    SAMBA_TRY(status);
    samba_measure_job job = {.pef = a->pef,
                             .session = samba_app_session(a),
                             .program = a->app->name,
                             .measure = samba_measure_defaults(),
                             .json = a->json,
                             .sections = a->command == SAMBA_APP_SECTIONS};
    job.measure.inference = inference;
    job.measure.run_graph_only = a->run_graph_only;
    if (a->num_iterations)
        job.measure.iterations = a->num_iterations;
    return samba_measure_pef(run->context, &job);
}

static samba_status obey(const samba_app_run *run)
{
    const samba_app *app = run->arguments->app;
    if (app->opened)
        SAMBA_TRY(app->opened(run->context, app->user, run->arguments->data,
                              samba_app_speaks() ? run->arguments->json ? stderr : stdout : NULL));
    switch (run->arguments->command) {
    case SAMBA_APP_COMPILE: return samba_app_compile(run);
    case SAMBA_APP_RUN: return samba_app_train(run);
    case SAMBA_APP_TRAIN: return samba_app_compile_and_train(run);
    case SAMBA_APP_TEST: return samba_app_test(run);
    case SAMBA_APP_PERFORMANCE:
    case SAMBA_APP_SECTIONS: return samba_app_measure(run);
    }
    return samba_fail(run->context, SAMBA_ERROR_INTERNAL, "a command without a function");
}

/* Replicas share a terminal: each says who it is, unless the message does. */
static void tell_failure(const char *program, samba_context *context)
{
    char message[1024], who[64] = "";
    samba_replicas self;
    snprintf(message, sizeof message, "%s", samba_error_message(context));
    if (samba_replicas_told(context, &self) == SAMBA_OK && self.size > 1 && strncmp(message, "replica ", 8) != 0)
        snprintf(who, sizeof who, "replica %d of %d: ", self.rank, self.size);
    fprintf(stderr, "%s: %s%s\n", program, who, message);
}

bool samba_app_speaks(void)
{
    samba_context *context;
    samba_replicas self = {.rank = 0};
    if (samba_context_new(NULL, &context) != SAMBA_OK)
        return true;
    if (samba_replicas_told(context, &self) != SAMBA_OK)
        self.rank = 0;
    samba_context_free(context);
    return self.rank == 0;
}

int samba_app_main(int argc, char **argv, const samba_app *app)
{
    if (!argv || !app) {
        fprintf(stderr, "samba_app_main: the arguments of main and an application are needed, NULL was given\n");
        return 1;
    }
    if (app->struct_size != sizeof *app) {
        fprintf(stderr,
                "%s: samba_app.struct_size is %zu where this library's is %zu: set it to sizeof(samba_app) and build against the "
                "header of %s\n",
                argv[0], app->struct_size, sizeof *app, samba_version());
        return 1;
    }
    samba_context *context;
    if (samba_context_new(NULL, &context) != SAMBA_OK) {
        fprintf(stderr, "%s: no memory\n", app->name);
        return 1;
    }
    samba_arena arena;
    samba_arena_init(&arena, context);
    samba_status status = SAMBA_ERROR_MEMORY;
    char **words = samba_words_normalise(&arena, &argc, argv);
    if (words) {
        words[0] = (char *)app->name; /* messages and help begin with it however the program was called; nobody writes there */
        samba_app_arguments arguments;
        samba_app_parse(argc, words, app, &arguments);
        samba_app_run run = {context, &arguments};
        status = obey(&run);
        if (status == SAMBA_OK)
            status = samba_flush_output(context);
    }
    if (status != SAMBA_OK)
        tell_failure(app->name, context);
    samba_arena_free(&arena);
    samba_context_free(context);
    return status == SAMBA_OK ? 0 : 1;
}
