/* SPDX-License-Identifier: Apache-2.0
 *
 * Times out of a Trace Event file, as times.c writes it: each event says its section and stage in its "args", and "otherData"
 * which graph was measured and how many sections and stages it has. Nothing else of the file is believed or needed. */
#include "report/report.h"

#include <jansson.h>
#include <math.h>
#include <string.h>

static int64_t integer_of(const json_t *object, const char *name, int64_t missing)
{
    const json_t *value = json_object_get(object, name);
    return json_is_integer(value) ? (int64_t)json_integer_value(value) : missing;
}

/* The plan's graph, by name and size. */
static samba_status check_other(samba_context *context, const char *path, const samba_plan *plan, const json_t *other)
{
    const char *graph = json_string_value(json_object_get(other, "graph"));
    int64_t sections = integer_of(other, "sections", -1), stages = integer_of(other, "stages", -1);
    if (!graph || sections < 0 || stages < 0)
        return samba_fail(
            context, SAMBA_ERROR_FORMAT,
            "'%s' does not say which graph was measured: give the .json that sambaflow run --trace or end_runtime_profile wrote",
            path);
    if (strcmp(graph, plan->graphs[0].name) != 0 || sections != plan->section_count || stages != plan->stage_count)
        return samba_fail(context, SAMBA_ERROR_STATE,
                          "'%s' is of graph '%.128s' with %lld sections and %lld stages, and the PEF has '%.128s' with %d and %d",
                          path, graph, (long long)sections, (long long)stages, plan->graphs[0].name, plan->section_count,
                          plan->stage_count);
    return SAMBA_OK;
}

static samba_status take_event(samba_context *context, const char *path, const samba_plan *plan, const json_t *event,
                               size_t number, samba_time *sections, samba_time *stages)
{
    const char *phase = json_string_value(json_object_get(event, "ph"));
    if (!phase || strcmp(phase, "X") != 0)
        return SAMBA_OK;
    const json_t *args = json_object_get(event, "args"), *duration = json_object_get(event, "dur");
    int64_t section = integer_of(args, "section", -1), stage = integer_of(args, "stage", -1);
    double seconds = 1e-6 * json_number_value(duration);
    if (section < 0 || section >= plan->section_count || stage < -1 || stage >= plan->stage_count || !json_is_number(duration) ||
        !(seconds >= 0) || !isfinite(seconds))
        return samba_fail(
            context, SAMBA_ERROR_FORMAT,
            "'%s': event %zu says section %lld, stage %lld and a duration of %g us: the PEF has %d sections and %d stages", path,
            number, (long long)section, (long long)stage, 1e6 * seconds, plan->section_count, plan->stage_count);
    samba_time_note(stage < 0 ? &sections[section] : &stages[stage], seconds);
    return SAMBA_OK;
}

static samba_status read_events(samba_context *context, const char *path, const samba_plan *plan, const json_t *root,
                                samba_arena *arena, samba_report *report)
{
    const json_t *events = json_object_get(root, "traceEvents"), *other = json_object_get(root, "otherData");
    if (!json_is_array(events))
        return samba_fail(context, SAMBA_ERROR_FORMAT, "'%s' is no Trace Event file: it has no list \"traceEvents\"", path);
    SAMBA_TRY(check_other(context, path, plan, other));
    samba_time *sections;
    SAMBA_TRY(SAMBA_ROOM(arena, sections, (size_t)plan->section_count + 1));
    samba_time *stages;
    SAMBA_TRY(SAMBA_ROOM(arena, stages, (size_t)plan->stage_count + 1));
    for (size_t i = 0; i < json_array_size(events); i++)
        SAMBA_TRY(take_event(context, path, plan, json_array_get(events, i), i, sections, stages));
    report->sections = sections;
    for (int32_t i = 0; i < plan->stage_count && !report->stages; i++)
        report->stages = stages[i].runs > 0 ? stages : NULL;
    report->left_out = integer_of(other, "events_left_out", 0);
    return SAMBA_OK;
}

samba_status samba_trace_read(samba_context *context, const char *path, const samba_plan *plan, samba_arena *arena,
                              samba_report *report)
{
    void *data;
    size_t size;
    SAMBA_TRY(samba_file_read(context, path, &data, &size));
    json_error_t error;
    json_t *root = json_loadb(data, size, 0, &error);
    samba_free(context, data, size);
    if (!root)
        return samba_fail(context, SAMBA_ERROR_FORMAT, "'%s' is no JSON: line %d: %s", path, error.line, error.text);
    samba_status status = read_events(context, path, plan, root, arena, report);
    json_decref(root);
    return status;
}
