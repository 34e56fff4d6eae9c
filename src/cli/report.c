/* SPDX-License-Identifier: Apache-2.0
 *
 * sambaflow report: the HTML page of a PEF, from its plan alone or with the times of a profile beside it.
 * The roofs are measured here and now. */
#include "cli/cli.h"
#include "report/report.h"

#include <string.h>

/* "model.pef" -> "model.pef.html" beside it, unless the caller says which file. */
static samba_status name_page(const samba_cli_arguments *arguments, samba_text *path)
{
    samba_text_add(path, "%s%s", arguments->page ? arguments->page : arguments->pef, arguments->page ? "" : ".html");
    return path->status;
}

static samba_status make(samba_context *context, const samba_cli_arguments *arguments, const samba_plan *plan, samba_arena *arena,
                         samba_text *page)
{
    samba_report report = {.plan = plan, .pef = arguments->pef};
    samba_machine machine;
    if (arguments->profile)
        SAMBA_TRY(samba_trace_read(context, arguments->profile, plan, arena, &report));
    SAMBA_TRY(samba_plan_memory(context, plan, arguments->threads, samba_word_isa(arguments->isa), &report.memory,
                                &report.threads, &report.isa));
    SAMBA_TRY(samba_machine_measure(context, report.threads, &machine));
    report.machine = &machine;
    return samba_report_page(context, &report, page);
}

samba_status samba_cli_report(samba_context *context, const samba_cli_arguments *arguments)
{
    samba_plan plan;
    samba_plan_init(&plan, context);
    samba_arena arena;
    samba_arena_init(&arena, context);
    samba_text page, path;
    samba_text_init(&page, context);
    samba_text_init(&path, context);
    samba_status status = name_page(arguments, &path);
    if (status == SAMBA_OK)
        status = samba_check_output(context, "--output", path.data, arguments->pef);
    if (status == SAMBA_OK)
        status = samba_pef_read(context, arguments->pef, &plan);
    if (status == SAMBA_OK)
        status = make(context, arguments, &plan, &arena, &page);
    if (status == SAMBA_OK) {
        const void *part = page.data;
        size_t size = (size_t)page.length;
        status = samba_file_write_atomic(context, path.data, &part, &size, 1);
    }
    if (status == SAMBA_OK)
        printf("%s\n", path.data);
    samba_text_clear(&page);
    samba_text_clear(&path);
    samba_arena_free(&arena);
    samba_plan_free(&plan);
    return status;
}
