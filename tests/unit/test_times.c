/* SPDX-License-Identifier: Apache-2.0
 *
 * What a profile measured, as text: tables whose figures are the times and arithmetic; Trace Event JSON that has every single
 * time and that the reader of such files gives back; files by their endings; what is refused, memory too. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "failing_allocator.h"
#include "report/report.h"
#include "training.h"
#include "zeros.h"
#include <jansson.h>
#include <math.h>
#include <sambaflow/functional.h>
#include <sambaflow/layers.h>

enum { RUNS = 3 };
static const samba_machine machine = {1, 100e9, 200e9, 10e9, 50e9, "made by hand"};
static char pef[512];

static void model(samba_graph *g, const void *options)
{
    (void)options;
    samba_value logits = samba_linear(samba_relu(samba_linear(samba_input(g, "x"), "fc1", 24)), "fc2", 10);
    samba_loss(g, "loss", samba_cross_entropy(logits, samba_input(g, "label")));
}

static void compile_model(void)
{
    samba_tensor *inputs[2] = {normal("x", SAMBA_FLOAT32, 2, SHAPE(6, 30), 8), tensor("label", SAMBA_INT64, 1, SHAPE(6))};
    samba_optimizer o = samba_sgd(0.1);
    samba_compile_options options = compile_of("timed", model, NULL, 2, inputs);
    options.optimizer_count = 1, options.optimizers = &o;
    need(samba_compile(context, &options, pef, sizeof pef));
    samba_tensor_free(inputs[0]);
    samba_tensor_free(inputs[1]);
}

static samba_session *measured(samba_profile what, int64_t room)
{
    samba_session *session = open_session(pef, 1, 3);
    need(give_zeros(context, session));
    need(samba_session_profile(session, what, room));
    for (int i = 0; i < RUNS; i++)
        need(samba_run(session, NULL));
    need(samba_session_profile(session, SAMBA_PROFILE_OFF, 0));
    return session;
}

/* The line of a table that begins with the label; its words behind that. */
static int words_of(const char *tables, const char *label, double *numbers, char *rest, size_t size)
{
    const char *at = strstr(tables, label);
    if (!at || (at > tables && at[-1] != '\n'))
        fail_msg("there is no line of %s in\n%s", label, tables);
    at += strlen(label);
    int count = 0;
    for (char *end; count < 8; count++, at = end) {
        numbers[count] = strtod(at, &end);
        assert_true(end != at);
        if (end[0] == ' ' && end[1] == '%')
            end += 2;
    }
    snprintf(rest, size, "%.*s", (int)strcspn(at, "\n"), at);
    return count;
}

static void check_line(const char *tables, const char *label, const samba_time *t, double all, double flops, double bytes,
                       const samba_roof *roof)
{
    double n[8], mean = t->seconds / (double)t->runs;
    char rest[64], expected[64] = "";
    words_of(tables, label, n, rest, sizeof rest);
    double exact[8] = {(double)t->runs,   1e3 * t->seconds,       1e3 * mean,          1e3 * t->least,
                       1e3 * t->greatest, 100 * t->seconds / all, 1e-9 * flops / mean, 1e-9 * bytes / mean};
    for (int i = 0; i < 8; i++) /* half of the last digit that is printed */
        assert_true(fabs(n[i] - exact[i]) <= (i == 0 ? 0 : i < 5 ? 0.5001e-4 : 0.0501));
    if (roof)
        snprintf(expected, sizeof expected, "%.0f %% %s", 100 * roof->share, roof->bound);
    assert_string_equal(rest + strspn(rest, " "), expected);
}

static void check_tables(samba_session *session, const samba_machine *with, bool stages)
{
    char *tables;
    need(samba_session_tables(session, with, &tables));
    assert_int_equal(strncmp(tables, "sections\nwhat ", 14), 0);
    assert_true((strstr(tables, "\noperators (section.stage)") != NULL) == stages);
    const samba_plan *plan = &session->plan;
    double all = 0, inside = 0;
    for (int i = 0; i < plan->section_count; i++)
        all += session->profiler.sections[i].seconds;
    for (int i = 0; i < plan->stage_count; i++)
        inside += session->profiler.stages[i].seconds;
    for (int i = 0; i < plan->section_count; i++) {
        char label[64];
        samba_roof roof;
        snprintf(label, sizeof label, "%d %s", i, samba_section_type(&plan->sections[i]));
        if (with)
            need(samba_session_section_roof(session, with, i, &roof));
        check_line(tables, label, &session->profiler.sections[i], all, (double)plan->sections[i].flops,
                   (double)plan->sections[i].bytes, with ? &roof : NULL);
    }
    for (int i = 0; stages && i < plan->stage_count; i++) {
        char label[256];
        samba_stage_info info;
        samba_roof roof;
        need(samba_session_stage_info(session, i, &info));
        snprintf(label, sizeof label, "%d.%d %s: %s", info.section, i, info.kind, info.operators);
        if (with)
            need(samba_session_stage_roof(session, with, i, &roof));
        check_line(tables, label, &session->profiler.stages[i], inside, (double)info.flops, (double)info.bytes,
                   with ? &roof : NULL);
    }
    samba_text_free(context, tables);
}

static void test_tables(void **unused)
{
    (void)unused;
    for (int stages = 0; stages < 2; stages++) {
        samba_session *session = measured(stages ? SAMBA_PROFILE_STAGES : SAMBA_PROFILE_SECTIONS, 0);
        check_tables(session, &machine, stages);
        check_tables(session, NULL, stages);
        samba_session_free(session);
    }
    /* what did not run is not there */
    samba_session *session = open_session(pef, 1, 3);
    need(samba_session_profile(session, SAMBA_PROFILE_SECTIONS, 0));
    samba_run_options r = samba_run_defaults();
    r.section_types = (const char *[]){"FWD"}, r.section_type_count = 1;
    need(give_zeros(context, session));
    need(samba_run(session, &r));
    char *tables;
    need(samba_session_tables(session, NULL, &tables));
    assert_non_null(strstr(tables, "\n0 FWD"));
    assert_null(strstr(tables, "BCKWD"));
    samba_text_free(context, tables);
    samba_session_free(session);
}

static double number(const json_t *event, const char *name) { return json_number_value(json_object_get(event, name)); }
static const char *word(const json_t *event, const char *name) { return json_string_value(json_object_get(event, name)); }

static void check_event(const samba_session *session, const json_t *event, const samba_profile_event *e)
{
    const samba_stage *stage = e->stage < 0 ? NULL : &session->plan.stages[e->stage];
    const json_t *arguments = json_object_get(event, "args");
    char name[256];
    if (stage)
        snprintf(name, sizeof name, "%d.%d %s: %s", e->section, e->stage, samba_stage_kind_names[stage->kind], stage->name);
    else
        snprintf(name, sizeof name, "%d %s", e->section, samba_section_type(&session->plan.sections[e->section]));
    assert_string_equal(word(event, "name"), name);
    assert_string_equal(word(event, "ph"), "X");
    assert_string_equal(word(event, "cat"), stage ? "operator" : "section");
    assert_true(fabs(number(event, "ts") - 1e6 * e->begin) < 1e-4 && fabs(number(event, "dur") - 1e6 * e->seconds) < 1e-4);
    assert_true(number(arguments, "section") == e->section);
    assert_true(number(arguments, "flops") == (double)(stage ? stage->flops : session->plan.sections[e->section].flops));
    assert_true(!stage || (number(arguments, "stage") == e->stage && number(arguments, "operators") == stage->operator_count &&
                           stage->operator_count > 0));
}

static void test_trace(void **unused)
{
    (void)unused;
    samba_session *session = measured(SAMBA_PROFILE_STAGES, 1000);
    char *trace, path[128];
    need(samba_session_trace(session, "</script>\"\xff", &trace));
    json_error_t error;
    json_t *root = json_loads(trace, 0, &error);
    if (!root)
        fail_msg("line %d: %s", error.line, error.text);
    samba_text_free(context, trace);
    int64_t count, left_out;
    const samba_profile_event *events = samba_session_profile_events(session, &count, &left_out);
    json_t *list = json_object_get(root, "traceEvents");
    assert_int_equal(count, RUNS * (session->plan.section_count + session->plan.stage_count));
    assert_int_equal(json_array_size(list), count + 2); /* and what the process and its line of time are called */
    assert_string_equal(word(json_object_get(json_array_get(list, 0), "args"), "name"), "</script>\"\xef\xbf\xbd");
    for (int64_t i = 0; i < count; i++)
        check_event(session, json_array_get(list, (size_t)i + 2), &events[i]);
    json_decref(root);

    /* the file is read back to the same times */
    snprintf(path, sizeof path, "%s/times.json", folder);
    need(samba_session_report_write(session, NULL, NULL, path));
    samba_arena arena;
    samba_arena_init(&arena, context);
    samba_report r = {.plan = &session->plan};
    need(samba_trace_read(context, path, &session->plan, &arena, &r));
    for (int i = 0; i < session->plan.stage_count; i++) {
        const samba_time *given = &r.stages[i], *exact = &session->profiler.stages[i];
        assert_true(given->runs == exact->runs && fabs(given->seconds - exact->seconds) < 1e-10 * RUNS &&
                    fabs(given->least - exact->least) < 1e-10);
    }
    samba_arena_free(&arena);
    samba_session_free(session);

    session = measured(SAMBA_PROFILE_SECTIONS, 2); /* no room for more */
    need(samba_session_trace(session, NULL, &trace));
    root = json_loads(trace, 0, &error);
    assert_int_equal(json_array_size(json_object_get(root, "traceEvents")), 2 + 2);
    assert_true(number(json_object_get(root, "otherData"), "events_left_out") == RUNS * session->plan.section_count - 2);
    assert_string_equal(word(json_object_get(json_array_get(json_object_get(root, "traceEvents"), 0), "args"), "name"), "timed");
    json_decref(root);
    samba_text_free(context, trace);
    samba_session_free(session);
}

static char *file_text(const char *path)
{
    static char text[1 << 20];
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    return text;
}

static void test_files(void **unused)
{
    (void)unused;
    samba_session *session = measured(SAMBA_PROFILE_STAGES, 1000);
    static const char *const endings[] = {"html", "json", "log"};
    for (int i = 0; i < 3; i++) {
        char path[128], *made;
        snprintf(path, sizeof path, "%s/report.%s", folder, endings[i]);
        need(samba_session_report_write(session, &machine, pef, path));
        need(i == 0   ? samba_session_page(session, &machine, pef, &made)
             : i == 1 ? samba_session_trace(session, pef, &made)
                      : samba_session_tables(session, &machine, &made));
        assert_string_equal(file_text(path), made);
        samba_text_free(context, made);
    }
    refuse(samba_session_report_write(session, NULL, NULL, "/nowhere/times.json"), SAMBA_ERROR_FILE, "/nowhere/times.json");
    refuse(samba_session_report_write(session, NULL, NULL, NULL), SAMBA_ERROR_ARGUMENT, "the path is missing");
    refuse(samba_session_report_write(session, NULL, NULL, ""), SAMBA_ERROR_ARGUMENT, "the path is missing");
    samba_session_free(session);
    session = open_session(pef, 1, 3);
    char *none;
    refuse(samba_session_tables(session, &machine, &none), SAMBA_ERROR_STATE, "nothing was measured: turn profiling on");
    assert_null(none);
    refuse(samba_session_trace(session, NULL, &none), SAMBA_ERROR_STATE, "samba_session_trace: nothing was measured");
    refuse(samba_session_report_write(session, NULL, NULL, "times.json"), SAMBA_ERROR_STATE, "nothing was measured");
    samba_session_free(session);
}

static samba_status measure_and_tell(samba_context *of, void *user)
{
    (void)user;
    samba_session *session = NULL;
    samba_session_options o = samba_session_defaults();
    o.threads = 1;
    char *text[2] = {NULL, NULL};
    samba_status status = samba_session_new(of, pef, &o, &session);
    if (status == SAMBA_OK)
        status = give_zeros(of, session);
    if (status == SAMBA_OK)
        status = samba_session_profile(session, SAMBA_PROFILE_STAGES, 100);
    if (status == SAMBA_OK)
        status = samba_run(session, NULL);
    if (status == SAMBA_OK)
        status = samba_session_tables(session, &machine, &text[0]);
    if (status == SAMBA_OK)
        status = samba_session_trace(session, NULL, &text[1]);
    for (int i = 0; i < 2; i++)
        if (text[i])
            samba_text_free(of, text[i]);
    samba_session_free(session);
    return status;
}

static void test_no_memory(void **unused)
{
    (void)unused;
    fail_each_allocation(measure_and_tell, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_tables), cmocka_unit_test(test_trace), cmocka_unit_test(test_files),
                                       cmocka_unit_test(test_no_memory)};
    if (!training_begin())
        return 1;
    compile_model();
    return training_end(cmocka_run_group_tests_name("times", tests, NULL, NULL));
}
