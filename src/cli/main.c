/* SPDX-License-Identifier: Apache-2.0
 *
 * The frame around the commands: one context, and the one function where a failure becomes a message and exit status 1. */
#include "cli/cli.h"

#include <string.h>

samba_session_options samba_cli_session(const samba_cli_arguments *a)
{
    samba_session_options options = samba_word_session(a->seed, a->threads, a->isa);
    options.tune = a->no_tune ? "off" : a->tune;
    return options;
}

static samba_status measure(samba_context *context, const samba_cli_arguments *arguments)
{
    samba_measure_job job = {.program = "sambaflow",
                             .pef = arguments->pef,
                             .session = samba_cli_session(arguments),
                             .measure = samba_measure_defaults(),
                             .sections = arguments->command == SAMBA_CLI_SECTIONS,
                             .json = arguments->json,
                             .load = arguments->load,
                             .partial = arguments->partial};
    job.measure.inference = arguments->inference;
    job.measure.run_graph_only = arguments->run_graph_only;
    job.measure.graph_name = arguments->graph_name;
    if (arguments->num_iterations)
        job.measure.iterations = arguments->num_iterations;
    return samba_measure_pef(context, &job);
}

static samba_status obey(samba_context *context, const samba_cli_arguments *arguments)
{
    switch (arguments->command) {
    case SAMBA_CLI_INSPECT: return samba_cli_inspect(context, arguments);
    case SAMBA_CLI_RUN: return samba_cli_run(context, arguments);
    case SAMBA_CLI_REPORT: return samba_cli_report(context, arguments);
    case SAMBA_CLI_MACHINE: return samba_cli_machine(context, arguments);
    case SAMBA_CLI_TUNE: return samba_cli_tune(context, arguments);
    case SAMBA_CLI_SCALE: return samba_cli_scale(context, arguments);
    case SAMBA_CLI_EXPORT: return samba_cli_export(context, arguments);
    case SAMBA_CLI_PERFORMANCE:
    case SAMBA_CLI_SECTIONS: return measure(context, arguments);
    }
    return samba_fail(context, SAMBA_ERROR_INTERNAL, "a command without a function");
}

/* `sambaflow help run` is `sambaflow run --help`, and `sambaflow help` is `sambaflow --help`. A shell that completes what follows
 * `help` is told what may follow `sambaflow`. Gives how many words there are now. */
static int turn_help(int argc, char **argv)
{
    static char option[] = "--help";
    memmove(argv + 1, argv + 2, (size_t)(argc - 2) * sizeof *argv);
    argv[argc - 1] = NULL;
    for (int i = 1; i < argc - 1; i++)
        if (strcmp(argv[i], "--complete") == 0)
            return argc - 1;
    argv[argc - 1] = option;
    return argc;
}

int main(int argc, char **argv)
{
    samba_cli_arguments arguments;
    if (argc > 1 && strcmp(argv[1], "help") == 0)
        argc = turn_help(argc, argv);
    if (argc > 1 && strcmp(argv[1], "compile") == 0) /* has the options of applications */
        return samba_cli_compile(argc, argv);
    if (argc > 1 && strcmp(argv[1], "lm") == 0)
        return samba_cli_lm(argc, argv);
    if (argc > 1 && strcmp(argv[1], "prepare") == 0)
        return samba_cli_prepare(argc, argv);
    samba_cli_parse(argc, argv, &arguments);
    samba_context *context;
    if (!samba_cli_begin(&context))
        return 1;
    return samba_cli_end(context, obey(context, &arguments));
}
