/* SPDX-License-Identifier: Apache-2.0
 *
 * sambaflow run --profile: times of sections, or of stages too, while the PEF runs; then tables on the terminal, or numbers in
 * the JSON report, and a file where --trace says so. The machine's roofs are measured after the runs. */
#include "cli/cli.h"
#include <sambaflow/report.h>

enum { MOST_EVENTS = 1 << 20 }; /* single times for the file */

samba_status samba_cli_profile_begin(samba_session *session, const samba_cli_arguments *arguments)
{
    return arguments->times == SAMBA_PROFILE_OFF
               ? SAMBA_OK
               : samba_session_profile(session, arguments->times, arguments->trace ? MOST_EVENTS : 0);
}

static json_t *json_time(const samba_time *t, const samba_roof *roof, int64_t flops, int64_t bytes)
{
    json_t *object = json_pack(
        "{s:I, s:o, s:o, s:o, s:o, s:I, s:I}", "runs", (json_int_t)t->runs, "total_ms", samba_json_number(1e3 * t->seconds),
        "mean_ms", samba_json_number(1e3 * t->seconds / (double)t->runs), "least_ms", samba_json_number(1e3 * t->least),
        "greatest_ms", samba_json_number(1e3 * t->greatest), "flops", (json_int_t)flops, "bytes", (json_int_t)bytes);
    if (roof->bound[0]) {
        json_object_set_new(object, "bound", json_string(roof->bound));
        json_object_set_new(object, "roofline", samba_json_number(roof->share));
    }
    return object;
}

static samba_status list_times(const samba_session *session, const samba_machine *machine, bool stages, json_t *list)
{
    const int count = stages ? samba_session_stage_count(session) : samba_session_section_count(session);
    for (int i = 0; i < count; i++) {
        samba_section_info section = {0};
        samba_stage_info stage = {0};
        samba_time time;
        samba_roof roof;
        SAMBA_TRY(stages ? samba_session_stage_info(session, i, &stage) : samba_session_section_info(session, i, &section));
        SAMBA_TRY((stages ? samba_session_stage_time : samba_session_section_time)(session, i, &time));
        SAMBA_TRY((stages ? samba_session_stage_roof : samba_session_section_roof)(session, machine, i, &roof));
        if (time.runs == 0)
            continue;
        json_t *object = json_time(&time, &roof, stages ? stage.flops : section.flops, stages ? stage.bytes : section.bytes);
        json_object_set_new(object, "section", json_integer(stages ? stage.section : section.id));
        if (stages) {
            json_object_set_new(object, "stage", json_integer(i));
            json_object_set_new(object, "kind", json_string(stage.kind));
            json_object_set_new(object, "operators", json_string(stage.operators));
            json_object_set_new(object, "road", stage.road ? json_string(stage.road) : json_null());
            json_object_set_new(object, "tuned", json_boolean(stage.tuned));
        } else {
            json_object_set_new(object, "type", json_string(section.type));
        }
        json_array_append_new(list, object);
    }
    return SAMBA_OK;
}

samba_status samba_cli_profile_end(samba_context *context, samba_session *session, const samba_cli_arguments *arguments,
                                   json_t **profile, char **tables)
{
    *profile = NULL, *tables = NULL;
    if (arguments->times == SAMBA_PROFILE_OFF)
        return SAMBA_OK;
    SAMBA_TRY(samba_session_profile(session, SAMBA_PROFILE_OFF, 0));
    samba_machine machine;
    SAMBA_TRY(samba_machine_measure(context, samba_session_threads(session), &machine));
    if (arguments->trace)
        SAMBA_TRY(samba_session_report_write(session, &machine, arguments->pef, arguments->trace));
    if (!arguments->json)
        return samba_session_tables(session, &machine, tables);
    json_t *sections = json_array(), *stages = json_array();
    *profile = json_pack("{s:o, s:o}", "sections", sections, "stages", stages);
    SAMBA_TRY(list_times(session, &machine, false, sections));
    return list_times(session, &machine, true, stages);
}
