/* SPDX-License-Identifier: Apache-2.0
 *
 * sambaflow report: the HTML page of a PEF, from its plan alone or with the times of a profile beside it.
 * The roofs are measured here and now. */
#include "cli/cli.h"
#include "report/report.h"

static samba_status make(samba_context *context, const samba_cli_arguments *arguments, samba_plan *plan, samba_arena *arena,
                         samba_text *page)
{
    samba_report report = {.plan = plan, .pef = arguments->pef};
    samba_machine machine;
    SAMBA_TRY(samba_pef_read(context, arguments->pef, plan));
    if (arguments->profile)
        SAMBA_TRY(samba_trace_read(context, arguments->profile, plan, arena, &report));
    const char *file;
    samba_plan_here here;
    const samba_session_options options = samba_cli_session(arguments);
    SAMBA_TRY(samba_tune_file(arena, arguments->pef, options.tune, &file));
    SAMBA_TRY(samba_plan_prepare(context, arena, plan, options.threads, options.isa, file, &here));
    if (here.tuned.warning[0])
        fprintf(stderr, "sambaflow: warning: %s\n", here.tuned.warning);
    report.memory = here.memory, report.threads = here.threads, report.isa = here.isa;
    report.roads = here.roads, report.choices = here.tuned.choices, report.tune = here.tuned.path;
    SAMBA_TRY(samba_machine_measure(context, report.threads, &machine));
    report.machine = &machine;
    return samba_report_page(context, &report, page);
}

static samba_status write(samba_context *context, const char *path, const samba_text *page)
{
    const void *part = page->data;
    size_t size = (size_t)page->length;
    SAMBA_TRY(samba_file_write_atomic(context, path, &part, &size, 1));
    printf("%s\n", path);
    return SAMBA_OK;
}

samba_status samba_cli_report(samba_context *context, const samba_cli_arguments *arguments)
{
    samba_plan plan;
    samba_plan_init(&plan, context);
    samba_arena arena;
    samba_arena_init(&arena, context);
    samba_text page, path; /* "model.pef" -> "model.pef.html" beside it, unless the caller says which file */
    samba_text_init(&page, context);
    samba_status status = samba_text_begin(&path, context, "%s%s", arguments->page ? arguments->page : arguments->pef,
                                           arguments->page ? "" : ".html");
    if (status == SAMBA_OK)
        status = samba_check_output(context, "--output", path.data, arguments->pef);
    if (status == SAMBA_OK)
        status = make(context, arguments, &plan, &arena, &page);
    if (status == SAMBA_OK)
        status = write(context, path.data, &page);
    samba_text_clear(&page);
    samba_text_clear(&path);
    samba_arena_free(&arena);
    samba_plan_free(&plan);
    return status;
}
