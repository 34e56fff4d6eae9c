/* SPDX-License-Identifier: Apache-2.0
 *
 * The commands measure-performance and measure-sections of the sambaflow program and of every application: load, fill the inputs
 * with random values, measure, print. */
#include "app/app.h"

#include <string.h>

#define BUSY 0.1 /* less is what any machine does beside */

static void report_line(samba_table *table, const char *what, const char *value, const char *note)
{
    samba_table_row(table, "%s\t%s\t%s", what, value, note);
}

static samba_status print_performance(samba_context *context, const samba_session *session, const char *pef,
                                      const samba_performance *p)
{
    char a[SAMBA_CELL], b[SAMBA_CELL], note[128];
    samba_table table;
    samba_table_init(&table, context, "lrl");
    printf("%s: %d threads, %s, %lld steps measured\n", pef, p->threads, samba_session_isa(session), (long long)p->iterations);
    SAMBA_TRY(samba_report_tuning(session, stdout));
    snprintf(note, sizeof note, "best %s", samba_text_ms(a, p->best_ms));
    report_line(&table, "step (median)", samba_text_ms(b, p->median_ms), note);
    snprintf(a, sizeof a, "%.0f /s", p->samples_per_second);
    snprintf(note, sizeof note, "%lld in a step", (long long)p->batch_size);
    report_line(&table, "samples", a, note);
    snprintf(note, sizeof note, "%s in a step", samba_text_decimal(a, (double)p->flops, "FLOP"));
    report_line(&table, "work", samba_text_decimal(b, p->flops_per_second, "FLOP/s"), note);
    report_line(&table, "FMA peak", samba_text_decimal(b, p->peak_flops_per_second, "FLOP/s"), "fp32, measured just now");
    snprintf(a, sizeof a, "%.1f %%", 100 * p->mfu);
    report_line(&table, "MFU", a, "work over peak");
    snprintf(note, sizeof note, "%s in a step, every stage's operands once", samba_text_bytes(a, (double)p->bytes));
    report_line(&table, "bandwidth", samba_text_decimal(b, p->bytes_per_second, "B/s"), note);
    snprintf(note, sizeof note, "%.1f %% of a step", p->median_ms > 0 ? 100 * p->outside_kernels_ms / p->median_ms : 0);
    report_line(&table, "outside kernels", samba_text_ms(a, p->outside_kernels_ms), note);
    report_line(&table, "planned memory", samba_text_bytes(a, (double)p->planned_bytes), "on the device");
    report_line(&table, "peak memory", samba_text_bytes(a, (double)p->peak_resident_bytes), "of the process");
    if (p->others >= 0) {
        snprintf(a, sizeof a, "%.0f %%", 100 * p->others);
        report_line(&table, "other programs", a,
                    p->others > BUSY ? "of the processors' time meanwhile: steps take longer"
                                     : "of the processors' time meanwhile");
    }
    return samba_table_print(&table, stdout, "");
}

samba_status samba_report_tuning(const samba_session *session, FILE *file)
{
    samba_tuning tuning;
    char path[SAMBA_SHOWN];
    SAMBA_TRY(samba_session_tuning(session, &tuning));
    if (tuning.path)
        fprintf(file, "tuned by %s: %d stages\n", samba_shown(tuning.path, path), tuning.choices);
    return SAMBA_OK;
}

void samba_json_tuning(json_t *object, const samba_session *session)
{
    samba_tuning tuning;
    if (object && samba_session_tuning(session, &tuning) == SAMBA_OK)
        json_object_set_new(object, "tune",
                            tuning.path ? json_pack("{s:s, s:i}", "file", tuning.path, "choices", tuning.choices) : json_null());
}

samba_status samba_report_performance(samba_context *context, const samba_session *session, const char *pef,
                                      const samba_performance *p, bool json)
{
    if (!json)
        return print_performance(context, session, pef, p);
    json_t *object = json_pack(
        "{s:s, s:s, s:s, s:i, s:I, s:I, s:o, s:o, s:o, s:I, s:I, s:o, s:o, s:o, s:o, s:o, s:I, s:I, s:o}", "command",
        "measure-performance", "pef", pef, "isa", samba_session_isa(session), "threads", p->threads, "iterations",
        (json_int_t)p->iterations, "batch_size", (json_int_t)p->batch_size, "median_ms", samba_json_number(p->median_ms),
        "best_ms", samba_json_number(p->best_ms), "samples_per_second", samba_json_number(p->samples_per_second), "flops",
        (json_int_t)p->flops, "bytes", (json_int_t)p->bytes, "flops_per_second", samba_json_number(p->flops_per_second),
        "peak_flops_per_second", samba_json_number(p->peak_flops_per_second), "mfu", samba_json_number(p->mfu),
        "bytes_per_second", samba_json_number(p->bytes_per_second), "outside_kernels_ms",
        samba_json_number(p->outside_kernels_ms), "planned_bytes", (json_int_t)p->planned_bytes, "peak_resident_bytes",
        (json_int_t)p->peak_resident_bytes, "others", p->others < 0 ? json_null() : samba_json_number(p->others));
    samba_json_tuning(object, session);
    return samba_json_print(context, object, stdout);
}

static double per_second(int64_t amount, double ms) { return ms > 0 ? (double)amount / (ms / 1e3) : 0; }

static samba_status print_sections(samba_context *context, const samba_session *session, const char *pef, int count,
                                   const samba_section_time *times)
{
    printf("%s: %d threads, %s\n", pef, samba_session_threads(session), samba_session_isa(session));
    SAMBA_TRY(samba_report_tuning(session, stdout));
    samba_table table;
    samba_table_init(&table, context, "rlrrrrrr");
    samba_table_row(&table, "section\ttype\tstages\tmedian\tbest\twork\tbandwidth\tshare");
    double total = 0;
    for (int i = 0; i < count; i++) {
        const samba_section_time *t = &times[i];
        char median[SAMBA_CELL], best[SAMBA_CELL], work[SAMBA_CELL], moved[SAMBA_CELL];
        samba_table_row(&table, "%d\t%s%s\t%d\t%s\t%s\t%s\t%s\t%.1f %%", t->section.id, t->section.type,
                        t->section.redone_by ? " alone" : "", t->section.stage_count, samba_text_ms(median, t->median_ms),
                        samba_text_ms(best, t->best_ms),
                        samba_text_decimal(work, per_second(t->section.flops, t->median_ms), "FLOP/s"),
                        samba_text_decimal(moved, per_second(t->section.bytes, t->median_ms), "B/s"), 100 * t->share);
        total += t->section.redone_by ? 0 : t->median_ms; /* a step leaves it out */
    }
    char text[SAMBA_CELL];
    samba_table_row(&table, "\tall\t\t%s\t\t\t\t", samba_text_ms(text, total));
    return samba_table_print(&table, stdout, "");
}

samba_status samba_report_sections(samba_context *context, const samba_session *session, const char *pef, int count,
                                   const samba_section_time *times, bool json)
{
    if (!json)
        return print_sections(context, session, pef, count, times);
    json_t *list = json_array();
    for (int i = 0; i < count; i++) {
        const samba_section_time *t = &times[i];
        json_array_append_new(list, json_pack("{s:i, s:s, s:i, s:o, s:o, s:I, s:I, s:o, s:o, s:o}", "id", t->section.id, "type",
                                              t->section.type, "stage_count", t->section.stage_count, "median_ms",
                                              samba_json_number(t->median_ms), "best_ms", samba_json_number(t->best_ms), "flops",
                                              (json_int_t)t->section.flops, "bytes", (json_int_t)t->section.bytes,
                                              "flops_per_second", samba_json_number(per_second(t->section.flops, t->median_ms)),
                                              "bytes_per_second", samba_json_number(per_second(t->section.bytes, t->median_ms)),
                                              "share", samba_json_number(t->share)));
    }
    json_t *object = json_pack("{s:s, s:s, s:s, s:i, s:o}", "command", "measure-sections", "pef", pef, "isa",
                               samba_session_isa(session), "threads", samba_session_threads(session), "sections", list);
    samba_json_tuning(object, session);
    return samba_json_print(context, object, stdout);
}

static samba_status measure(samba_context *context, const samba_measure_job *job, const samba_graph_info *graph,
                            samba_session *session, const samba_io *io)
{
    samba_measure_options options = job->measure;
    options.runs = graph->grad_accumulation_steps;
    options.input_count = io->input_count;
    options.inputs = io->inputs;
    options.output_count = io->output_count;
    options.outputs = io->outputs;
    if (!job->sections) {
        samba_performance performance;
        SAMBA_TRY(samba_measure_performance(context, session, &options, &performance));
        return samba_report_performance(context, session, job->pef, &performance, job->json);
    }
    int count = samba_session_section_count(session);
    samba_section_time *times = samba_calloc(context, sizeof *times * (size_t)count);
    if (!times)
        return SAMBA_ERROR_MEMORY;
    samba_status status = samba_measure_sections(context, session, &options, times);
    int shown = 0;
    for (int i = graph->first_section; status == SAMBA_OK && i < graph->first_section + graph->section_count; i++)
        if (!options.inference || strcmp(times[i].section.type, "FWD") == 0) /* the others did not run */
            times[shown++] = times[i];
    if (status == SAMBA_OK)
        status = samba_report_sections(context, session, job->pef, shown, times, job->json);
    samba_free(context, times, sizeof *times * (size_t)count);
    return status;
}

samba_status samba_measure_pef(samba_context *context, const samba_measure_job *job)
{
    samba_plan plan;
    samba_plan_init(&plan, context);
    samba_arena arena;
    samba_arena_init(&arena, context);
    samba_session *session = NULL;
    samba_io io = {0};
    samba_status status = samba_pef_read(context, job->pef, &plan);
    int32_t graph = status == SAMBA_OK ? samba_plan_graph_named(&plan, job->measure.graph_name) : 0;
    graph = graph < 0 ? 0 : graph; /* the session refuses */
    if (status == SAMBA_OK)
        status = samba_io_new(context, &plan, graph, job->session.seed, &arena, &io);
    samba_plan_free(&plan);
    if (status == SAMBA_OK)
        status = samba_session_new(context, job->pef, &job->session, &session);
    samba_load_options load = samba_load_defaults();
    load.partial = job->partial;
    if (status == SAMBA_OK && job->load)
        status = samba_session_load_with(session, job->load, &load);
    samba_graph_info info;
    if (status == SAMBA_OK)
        samba_app_warnings(job->program, session, NULL, NULL);
    if (status == SAMBA_OK)
        status = samba_session_graph_info(session, graph, &info);
    if (status == SAMBA_OK)
        status = measure(context, job, &info, session, &io);
    samba_session_free(session);
    samba_io_free(&io);
    samba_arena_free(&arena);
    return status;
}
