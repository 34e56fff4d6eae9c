/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes the numbers and names of a report as one JSON object into page.html. Every character of a name that could end the script
 * element, or that is no UTF-8, is escaped or replaced here, and the page's script sets names as text. */
#include "report/report.h"

#include <math.h>
#include <string.h>

#define PLACE "{\"place\": \"of the numbers\"}" /* what page.html has where the object goes */

void samba_report_string(samba_text *out, const char *text)
{
    samba_text_add(out, "\"");
    const unsigned char *at = (const unsigned char *)(text ? text : "");
    while (*at) {
        size_t plain = 0;
        for (int length; at[plain] >= 0x20 && !strchr("<>&\"\\'\x7f", at[plain]) &&
                         (length = samba_utf8_length((const char *)at + plain)) > 0;)
            plain += (size_t)length;
        if (plain > 0)
            samba_text_add(out, "%.*s", (int)plain, (const char *)at);
        else
            samba_text_add(out, at[0] < 0x80 ? "\\u%04x" : "\\ufffd", at[0]);
        at += plain > 0 ? plain : 1;
    }
    samba_text_add(out, "\"");
}

static void add_number(samba_text *out, double value)
{
    if (isfinite(value))
        samba_text_add(out, value == floor(value) && fabs(value) < 0x1p53 ? "%.0f" : "%.6g", value);
    else
        samba_text_add(out, "null");
}

static void add_named(samba_text *out, const char *name, double value)
{
    samba_text_add(out, ", \"%s\": ", name);
    add_number(out, value);
}

/* Of a section or stage: runs, mean, least and greatest seconds, share of its roof, and the least seconds by it. */
static void add_times(samba_text *out, const samba_time *time, const samba_roof *roof)
{
    if (time && time->runs > 0) {
        add_named(out, "runs", (double)time->runs);
        add_named(out, "seconds", samba_time_mean(time));
        add_named(out, "least", time->least);
        add_named(out, "greatest", time->greatest);
    }
    if (roof && roof->bound[0]) {
        add_named(out, "share", roof->share);
        samba_text_add(out, ", \"bound\": \"%s\"", roof->bound);
    }
    if (roof)
        add_named(out, "roof", roof->seconds);
}

static void add_machine(samba_text *out, const samba_report *r)
{
    samba_text_add(out, ", \"threads\": %d, \"isa\": ", r->threads);
    samba_report_string(out, r->isa);
    if (r->tune) {
        samba_text_add(out, ", \"tune\": ");
        samba_report_string(out, r->tune);
    }
    if (!r->machine)
        return;
    samba_text_add(out, ", \"machine\": {\"threads\": %d", r->machine->threads);
    add_named(out, "flops", r->machine->flops_per_second);
    add_named(out, "bf16", r->machine->bf16_flops_per_second);
    add_named(out, "memory", r->machine->memory_bytes_per_second);
    add_named(out, "cache", r->machine->cache_bytes_per_second);
    if (r->machine->measured_at > 0) {
        add_named(out, "at", (double)r->machine->measured_at);
        if (r->machine->others >= 0)
            add_named(out, "others", r->machine->others);
    }
    samba_text_add(out, ", \"processor\": ");
    samba_report_string(out, r->machine->processor);
    samba_text_add(out, "}");
}

static void add_sections(samba_text *out, const samba_report *r)
{
    samba_text_add(out, ",\n\"sections\": [");
    for (int32_t i = 0; i < r->plan->section_count; i++) {
        const samba_plan_section *s = &r->plan->sections[i];
        const samba_time *time = r->sections ? &r->sections[i] : NULL;
        samba_text_add(
            out, "%s\n{\"id\": %d, \"type\": \"%s\", \"forward\": %d, \"fast\": %lld, \"first\": %d, \"count\": %d, \"name\": ",
            i ? "," : "", s->id, samba_section_type(s), s->forward_stages, (long long)s->fast_memory, s->first_stage,
            s->stage_count);
        samba_report_string(out, s->name);
        add_named(out, "flops", (double)s->flops);
        add_named(out, "bytes", (double)s->bytes);
        if (s->redone_by > 0)
            samba_text_add(out, ", \"redone\": \"%s\"", samba_section_type_names[s->redone_by]);
        samba_roof roof = {.bound = ""};
        if (r->machine)
            roof = samba_section_roof(r->plan, s, r->machine, time ? samba_time_mean(time) : 0);
        add_times(out, time, r->machine ? &roof : NULL);
        samba_text_add(out, "}");
    }
    samba_text_add(out, "]");
}

/* Words of the stage's operators, each once, as indices into the plan's words:
 * operators, modules or lines of the user's program. */
static void add_words(samba_text *out, const samba_plan *plan, const samba_stage *stage, const char *name, int which)
{
    samba_text_add(out, ", \"%s\": [", name);
    int32_t before = -1;
    for (int32_t i = 0, count = 0; i < stage->operator_count; i++) {
        const samba_stage_operator *o = &stage->operators[i];
        const samba_plan_location *location = &plan->locations[o->location];
        int32_t word = which == 0 ? o->op : which == 1 ? location->module : location->source;
        if ((which > 0 && word == before) || (which > 0 && word == 0)) /* operators repeat; locations of neighbours are one */
            continue;
        samba_text_add(out, "%s%d", count++ ? "," : "", word);
        before = word;
    }
    samba_text_add(out, "]");
}

static void add_stages(samba_text *out, const samba_report *r)
{
    samba_text_add(out, ",\n\"stages\": [");
    for (int32_t i = 0; i < r->plan->stage_count; i++) {
        const samba_stage *s = &r->plan->stages[i];
        const samba_time *time = r->stages ? &r->stages[i] : NULL;
        samba_text_add(out, "%s\n{\"kind\": \"%s\"%s, \"name\": ", i ? "," : "", samba_stage_kind_names[s->kind],
                       samba_stage_is_bf16(s) ? ", \"bf16\": true" : "");
        samba_report_string(out, s->name);
        if (r->roads && r->roads[i])
            samba_text_add(out, ", \"road\": \"%s\"", r->roads[i]);
        if (r->choices && r->choices[i])
            samba_text_add(out, ", \"tuned\": true");
        add_named(out, "flops", (double)s->flops);
        add_named(out, "bytes", (double)s->bytes);
        add_words(out, r->plan, s, "operators", 0);
        add_words(out, r->plan, s, "modules", 1);
        add_words(out, r->plan, s, "sources", 2);
        samba_roof roof = {.bound = ""};
        if (r->machine)
            roof = samba_stage_roof(s, r->machine, time ? samba_time_mean(time) : 0);
        add_times(out, time, r->machine ? &roof : NULL);
        samba_text_add(out, "}");
    }
    samba_text_add(out, "],\n\"words\": [");
    for (int32_t i = 0; i < r->plan->word_count; i++) {
        samba_text_add(out, i ? "," : "");
        samba_report_string(out, r->plan->words[i]);
    }
    samba_text_add(out, "]");
}

static samba_status add_live(samba_text *out, const samba_report *r)
{
    static const char *const names[SAMBA_LIVE_LASTING] = {
        "parameters", "optimizer state and buffers", "gradients", "inputs and outputs", "constants", "scratch"};
    samba_arena arena;
    samba_arena_init(&arena, out->context);
    samba_live live;
    samba_status status = samba_live_find(r->plan, &r->memory, &arena, &live);
    if (status == SAMBA_OK) {
        samba_text_add(out, ",\n\"live\": {\"peak\": %d, \"planned\": ", live.peak);
        add_number(out, (double)r->memory.total);
        samba_text_add(out, ", \"lasting\": {");
        for (int i = 0; i < SAMBA_LIVE_LASTING; i++) {
            samba_text_add(out, "%s\"%s\": ", i ? ", " : "", names[i]);
            add_number(out, live.lasting[i]);
        }
        samba_text_add(out, "}, \"activations\": [");
        for (int32_t i = 0; i < r->plan->stage_count; i++) {
            samba_text_add(out, i ? "," : "");
            add_number(out, live.activations[i]);
        }
        samba_text_add(out, "]}");
    }
    samba_arena_free(&arena);
    return status;
}

static void add_graphs(samba_text *out, const samba_plan *plan)
{
    samba_text_add(out, ",\n\"graphs\": [");
    for (int32_t i = 0; i < plan->graph_count; i++) {
        const samba_plan_graph *g = &plan->graphs[i];
        int64_t flops, bytes;
        samba_plan_work(plan, i, &flops, &bytes);
        samba_text_add(out, "%s\n{\"name\": ", i ? "," : "");
        samba_report_string(out, g->name);
        samba_text_add(out,
                       ", \"hash\": \"%016llx\", \"precision\": \"%s\", \"mapping\": \"%s\", \"inference\": %s, "
                       "\"accumulation\": %d, \"first\": %d, \"count\": %d",
                       (unsigned long long)g->hash, samba_precision_names[g->precision == 1],
                       samba_mapping_names[g->mapping == 1], g->inference ? "true" : "false", g->grad_accumulation_steps,
                       g->first_section, g->section_count);
        add_named(out, "flops", (double)flops);
        add_named(out, "bytes", (double)bytes);
        add_named(out, "fast", (double)g->fast_memory);
        samba_text_add(out, "}");
    }
    samba_text_add(out, "]");
}

static samba_status add_report(samba_text *out, const samba_report *r)
{
    samba_text_add(out, "{\"name\": ");
    samba_report_string(out, r->plan->name);
    samba_text_add(out, ", \"pef\": ");
    samba_report_string(out, r->pef);
    samba_text_add(out, ", \"measured\": %s", r->sections ? "true" : "false");
    add_named(out, "left_out", (double)r->left_out);
    add_machine(out, r);
    add_graphs(out, r->plan);
    add_sections(out, r);
    add_stages(out, r);
    SAMBA_TRY(add_live(out, r));
    samba_text_add(out, "}");
    return out->status;
}

samba_status samba_report_give(samba_text *text, samba_status status, char **given)
{
    status = status == SAMBA_OK ? text->status : status;
    if (status == SAMBA_OK) {
        *given = samba_strdup(text->context, text->data); /* as long as the text: samba_text_free knows its size */
        status = *given ? SAMBA_OK : SAMBA_ERROR_MEMORY;
    }
    samba_text_clear(text);
    return status;
}

samba_status samba_report_page(samba_context *context, const samba_report *report, samba_text *page)
{
    const char *place = strstr(samba_page_template, PLACE);
    if (!place)
        return samba_fail(context, SAMBA_ERROR_INTERNAL, "page.html has no place for the numbers");
    samba_text_add(page, "%.*s", (int)(place - samba_page_template), samba_page_template);
    SAMBA_TRY(add_report(page, report));
    samba_text_add(page, "%s", place + strlen(PLACE));
    return page->status;
}

static samba_status session_page(samba_session *session, const samba_machine *machine, const char *pef, char **page)
{
    samba_report report = {.plan = &session->plan,
                           .pef = pef,
                           .machine = machine,
                           .threads = samba_session_threads(session),
                           .isa = samba_session_isa(session),
                           .choices = session->tuned.choices,
                           .tune = session->tuned.path,
                           .sections = session->profiler.sections,
                           .stages = session->profiler.with_stages ? session->profiler.stages : NULL};
    samba_text text;
    samba_arena arena;
    const char **roads = NULL;
    samba_text_init(&text, session->context);
    samba_arena_init(&arena, session->context);
    samba_status status = samba_session_memory(session, &report.memory);
    if (status == SAMBA_OK)
        status = SAMBA_ROOM(&arena, roads, session->plan.stage_count);
    for (int32_t i = 0; status == SAMBA_OK && i < session->plan.stage_count; i++)
        roads[i] = samba_session_road(session, i);
    report.roads = roads;
    if (status == SAMBA_OK)
        status = samba_report_page(session->context, &report, &text);
    samba_arena_free(&arena);
    return samba_report_give(&text, status, page);
}

samba_status samba_session_page(samba_session *session, const samba_machine *machine, const char *pef, char **page)
{
    SAMBA_NEED(NULL, session);
    SAMBA_NEED(session->context, page);
    *page = NULL;
    SAMBA_TRY(samba_session_enter(session, "samba_session_page"));
    return samba_session_leave(session, session_page(session, machine, pef, page));
}
