/* SPDX-License-Identifier: Apache-2.0
 *
 * A profile as text: tables of sections and stages for people, Trace Event JSON for Perfetto and chrome://tracing. A stage's
 * operators run fused, in one pass over their data, so they have one time together: the time of each alone is not measured, and
 * not made up. */
#include "report/report.h"

#include <string.h>

typedef struct line {
    const samba_time *time;
    double flops, bytes;
    samba_roof roof;
    samba_text label;
} line;

static void label_section(samba_text *label, const samba_plan_section *s)
{
    const char *type = samba_section_type(s);
    bool named = s->name && s->name[0] && strcmp(s->name, type) != 0;
    samba_text_add(label, "%d %s%s", s->id, type, named ? ": " : "");
    samba_text_show(label, named ? s->name : "", false);
}

static void label_stage(samba_text *label, const samba_session *session, int32_t section, int32_t number)
{
    const samba_stage *s = &session->plan.stages[number];
    const char *road = samba_session_road(session, number);
    bool tuned = session->tuned.choices && session->tuned.choices[number];
    samba_text_add(label, "%d.%d %s%s%s%s: ", section, number, samba_stage_kind_names[s->kind], road ? " by " : "",
                   road ? road : "", tuned ? ", tuned" : "");
    samba_text_show(label, s->name, false);
}

/* ---- tables ---- */
enum { COLUMNS = 9, CELL = 48 };
static const char *const titles[COLUMNS] = {"runs",  "total ms", "mean ms", "least ms", "greatest ms",
                                            "share", "GFLOP/s",  "GB/s",    "roofline"};

static void fill_cell(char cell[CELL], int column, const line *l, double total)
{
    const samba_time *t = l->time;
    double mean = samba_time_mean(t) > 0 ? samba_time_mean(t) : 1e-9; /* less than the clock's step */
    switch (column) {
    case 0: snprintf(cell, CELL, "%lld", (long long)t->runs); break;
    case 1: snprintf(cell, CELL, "%.4f", 1e3 * t->seconds); break;
    case 2: snprintf(cell, CELL, "%.4f", 1e3 * samba_time_mean(t)); break;
    case 3: snprintf(cell, CELL, "%.4f", 1e3 * t->least); break;
    case 4: snprintf(cell, CELL, "%.4f", 1e3 * t->greatest); break;
    case 5: snprintf(cell, CELL, "%.1f %%", total > 0 ? 100 * t->seconds / total : 0); break;
    case 6: snprintf(cell, CELL, "%.1f", 1e-9 * l->flops / mean); break;
    case 7: snprintf(cell, CELL, "%.1f", 1e-9 * l->bytes / mean); break;
    default:
        cell[0] = 0;
        if (l->roof.bound[0])
            snprintf(cell, CELL, "%.0f %% %s", 100 * l->roof.share, l->roof.bound);
    }
}

/* Columns as wide as their widest cell: the first to the left, the others to the right, two spaces between. */
static samba_status add_table(samba_text *out, const line *lines, int32_t count)
{
    char cell[CELL];
    int widths[COLUMNS], first = (int)strlen("what");
    double total = 0;
    for (int32_t i = 0; i < count; i++) {
        SAMBA_TRY(lines[i].label.status);
        total += lines[i].time->seconds;
        first = lines[i].label.length > first ? (int)lines[i].label.length : first;
    }
    for (int column = 0; column < COLUMNS; column++) {
        widths[column] = (int)strlen(titles[column]);
        for (int32_t i = 0; i < count; i++) {
            fill_cell(cell, column, &lines[i], total);
            widths[column] = (int)strlen(cell) > widths[column] ? (int)strlen(cell) : widths[column];
        }
    }
    samba_text_add(out, "%-*s", first, "what");
    for (int column = 0; column < COLUMNS; column++)
        samba_text_add(out, "  %*s", widths[column], titles[column]);
    samba_text_add(out, "\n");
    for (int32_t i = 0; i < count; i++) {
        samba_text_add(out, "%-*s", first, lines[i].label.data);
        for (int column = 0; column < COLUMNS; column++) {
            fill_cell(cell, column, &lines[i], total);
            samba_text_add(out, "  %*s", widths[column], cell);
        }
        samba_text_add(out, "\n");
    }
    return out->status;
}

/* Sections, or stages, that ran while they were measured. */
static samba_status add_times(samba_text *out, const samba_session *session, const samba_machine *machine, bool stages)
{
    const samba_plan *plan = &session->plan;
    int32_t most = stages ? plan->stage_count : plan->section_count, count = 0;
    line *lines = samba_calloc(session->context, sizeof *lines * ((size_t)most + 1));
    if (!lines)
        return SAMBA_ERROR_MEMORY;
    for (int32_t i = 0, section = 0; i < most; i++) {
        const samba_time *time = stages ? &session->profiler.stages[i] : &session->profiler.sections[i];
        while (stages && i >= plan->sections[section].first_stage + plan->sections[section].stage_count)
            section++;
        if (time->runs == 0)
            continue;
        line *l = &lines[count++];
        *l = (line){.time = time, .roof = {.bound = ""}};
        samba_text_init(&l->label, session->context);
        double mean = samba_time_mean(time);
        if (stages) {
            const samba_stage *s = &plan->stages[i];
            label_stage(&l->label, session, plan->sections[section].id, i);
            l->flops = (double)s->flops, l->bytes = (double)s->bytes;
            if (machine)
                l->roof = samba_stage_roof(s, machine, mean);
        } else {
            const samba_plan_section *s = &plan->sections[i];
            label_section(&l->label, s);
            l->flops = (double)s->flops, l->bytes = (double)s->bytes;
            if (machine)
                l->roof = samba_section_roof(plan, s, machine, mean);
        }
    }
    samba_status status = add_table(out, lines, count);
    for (int32_t i = 0; i < count; i++)
        samba_text_clear(&lines[i].label);
    samba_free(session->context, lines, sizeof *lines * ((size_t)most + 1));
    return status;
}

static samba_status check_measured(const samba_session *session, const char *function)
{
    if (!session->profiler.sections)
        return samba_fail(session->context, SAMBA_ERROR_STATE,
                          "%s: nothing was measured: turn profiling on by samba_session_profile and run", function);
    return SAMBA_OK;
}

samba_status samba_session_tables(const samba_session *session, const samba_machine *machine, char **tables)
{
    SAMBA_NEED(NULL, session);
    SAMBA_NEED(session->context, tables);
    *tables = NULL;
    SAMBA_TRY(check_measured(session, "samba_session_tables"));
    samba_text text;
    samba_text_init(&text, session->context);
    samba_text_add(&text, "sections\n");
    samba_status status = add_times(&text, session, machine, false);
    if (status == SAMBA_OK && session->profiler.with_stages) {
        samba_text_add(&text,
                       "\noperators (section.stage); those of a stage run fused, and its time is of all of them together\n");
        status = add_times(&text, session, machine, true);
    }
    return samba_report_give(&text, status, tables);
}

/* ---- timeline ---- */
static void add_event(samba_text *out, const samba_session *session, const samba_profile_event *e)
{
    const samba_plan *plan = &session->plan;
    const samba_plan_section *section = &plan->sections[e->section];
    const samba_stage *stage = e->stage < 0 ? NULL : &plan->stages[e->stage];
    samba_text name;
    samba_text_init(&name, out->context);
    if (stage)
        label_stage(&name, session, section->id, e->stage);
    else
        label_section(&name, section);
    samba_text_add(out, ",\n{\"name\": ");
    samba_report_string(out, name.data);
    samba_text_add(
        out, ", \"cat\": \"%s\", \"ph\": \"X\", \"ts\": %.4f, \"dur\": %.4f, \"pid\": 1, \"tid\": 1, \"args\": {\"section\": %d",
        stage ? "operator" : "section", 1e6 * e->begin, 1e6 * e->seconds, e->section);
    if (stage) /* so many operators share the time */
        samba_text_add(out, ", \"stage\": %d, \"operators\": %d", e->stage, stage->operator_count);
    samba_text_add(out, ", \"flops\": %lld, \"bytes\": %lld}}", (long long)(stage ? stage->flops : section->flops),
                   (long long)(stage ? stage->bytes : section->bytes));
    if (name.status != SAMBA_OK && out->status == SAMBA_OK)
        out->status = name.status;
    samba_text_clear(&name);
}

samba_status samba_session_trace(const samba_session *session, const char *pef, char **trace)
{
    SAMBA_NEED(NULL, session);
    SAMBA_NEED(session->context, trace);
    const samba_plan *plan = &session->plan;
    int64_t count, left_out;
    *trace = NULL;
    SAMBA_TRY(check_measured(session, "samba_session_trace"));
    const samba_profile_event *events = samba_session_profile_events(session, &count, &left_out);
    samba_text text;
    samba_text_init(&text, session->context);
    samba_text_add(
        &text, "{\"traceEvents\": [\n{\"name\": \"process_name\", \"ph\": \"M\", \"pid\": 1, \"tid\": 1, \"args\": {\"name\": ");
    samba_report_string(&text, pef ? pef : plan->name);
    samba_text_add(&text,
                   "}},\n{\"name\": \"thread_name\", \"ph\": \"M\", \"pid\": 1, \"tid\": 1, \"args\": {\"name\": \"device\"}}");
    for (int64_t i = 0; i < count && text.status == SAMBA_OK; i++)
        add_event(&text, session, &events[i]);
    samba_text_add(&text,
                   "],\n\"displayTimeUnit\": \"ms\", \"otherData\": {\"events_left_out\": %lld, \"sections\": %d, \"stages\": "
                   "%d, \"threads\": %d, \"isa\": ",
                   (long long)left_out, plan->section_count, plan->stage_count, samba_session_threads(session));
    samba_report_string(&text, samba_session_isa(session));
    samba_text_add(&text, ", \"graph\": ");
    samba_report_string(&text, plan->graphs[0].name);
    samba_text_add(&text, "}}\n");
    return samba_report_give(&text, SAMBA_OK, trace);
}

/* ---- files ---- */
samba_status samba_session_report_write(samba_session *session, const samba_machine *machine, const char *pef, const char *path)
{
    SAMBA_NEED(NULL, session);
    if (!path || !path[0])
        return samba_fail(session->context, SAMBA_ERROR_ARGUMENT, "samba_session_report_write: the path is missing");
    char *text;
    if (samba_ends_with(path, ".html"))
        SAMBA_TRY(samba_session_page(session, machine, pef, &text));
    else if (samba_ends_with(path, ".json"))
        SAMBA_TRY(samba_session_trace(session, pef, &text));
    else
        SAMBA_TRY(samba_session_tables(session, machine, &text));
    const void *part = text;
    size_t size = strlen(text);
    samba_status status = samba_file_write_atomic(session->context, path, &part, &size, 1);
    samba_strfree(session->context, text);
    return status;
}
