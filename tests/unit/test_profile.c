/* SPDX-License-Identifier: Apache-2.0
 *
 * The times of sections and stages: each is measured once a run, parts add up to no more than the whole, nothing is measured
 * while profiling is off, and what runs compute does not depend on it. As text: tables whose figures are times and arithmetic;
 * Trace Event JSON that has every single time and that the reader of such files gives back; files by their endings; what is
 * refused, memory too. What else a run takes: gradients of outputs, random numbers anew. */
#include "classifier.h"
#include "failing_allocator.h"
#include "report/report.h"
#include <jansson.h>

enum { RUNS = 3 };
static const samba_machine machine = {1, 100e9, 200e9, 10e9, 50e9, "made by hand", 0, -1};
static char pef[512];
static samba_session *session; /* of one thread */

static samba_session *open_model(int threads)
{
    samba_session *opened = kept_session(open_session(pef, threads, 3));
    batch b = batch_new(SAMPLES);
    set_inputs(opened, &b);
    return opened;
}

static int setup(void **unused)
{
    (void)unused;
    batch b = batch_new(SAMPLES);
    samba_compile_options options = classifier_options(&dropping, &b, adamw());
    need(samba_compile(context, &options, pef, sizeof pef));
    session = open_model(1);
    return 0;
}

/* ---- measuring ---- */
/* Every section and stage is there once a run; stages lie inside their section, one after the other. */
static void check_times(samba_session *of, int runs, bool with_stages)
{
    int64_t count, left_out;
    const samba_profile_event *events = samba_session_profile_events(of, &count, &left_out);
    int sections = samba_session_section_count(of), stages = samba_session_stage_count(of);
    assert_int_equal(left_out, 0);
    assert_int_equal(count, runs * (sections + (with_stages ? stages : 0)));
    double end = 0, inside = 0;
    for (int64_t i = 0; i < count; i++) {
        assert_true(events[i].begin >= 0 && events[i].seconds >= 0);
        if (events[i].stage >= 0) {
            samba_stage_info info;
            need(samba_session_stage_info(of, events[i].stage, &info));
            assert_int_equal(info.section, events[i].section);
            assert_true(events[i].begin >= end && strlen(info.operators) > 0 && strlen(info.kind) > 0);
            end = events[i].begin + events[i].seconds;
            inside += events[i].seconds;
        } else {
            assert_true(!with_stages || (inside <= events[i].seconds && end <= events[i].begin + events[i].seconds));
            inside = 0;
        }
    }
    for (int i = 0; i < sections + stages; i++) {
        samba_time t;
        need(i < sections ? samba_session_section_time(of, i, &t) : samba_session_stage_time(of, i - sections, &t));
        assert_int_equal(t.runs, i < sections || with_stages ? runs : 0);
        assert_true(t.least <= t.greatest && t.least * (double)t.runs <= t.seconds * 1.0001 && t.greatest <= t.seconds);
    }
}

TEST(test_times)
{
    for (int threads = 1; threads <= 3; threads++) {
        samba_session *profiled = open_model(threads), *plain_one = open_model(threads);
        for (int with_stages = 0; with_stages < 2; with_stages++) {
            need(samba_session_profile(profiled, with_stages ? SAMBA_PROFILE_STAGES : SAMBA_PROFILE_SECTIONS, 1000));
            for (int i = 0; i <= RUNS; i++) {
                check_times(profiled, i, with_stages);
                if (i == RUNS)
                    need(samba_session_profile(profiled, SAMBA_PROFILE_OFF, 0));
                need(samba_run(profiled, NULL));
                need(samba_run(plain_one, NULL));
            }
            check_times(profiled, RUNS, with_stages); /* stays, and goes not on */
        }
        assert_same_bits(profiled, plain_one, COMPUTED);
    }
}

TEST(test_forward_alone)
{
    samba_session *untouched = open_model(1);
    samba_section_time times[16];
    int sections = samba_session_section_count(session), forward = 0;
    assert_true(sections <= LENGTH(times));
    samba_measure_options options = samba_measure_defaults();
    options.iterations = 3;
    options.inference = true;
    need(samba_measure_sections(context, session, &options, times));
    for (int i = 0; i < sections; i++) {
        bool is_forward = strcmp(times[i].section.type, "FWD") == 0;
        forward += is_forward;
        assert_true(is_forward ? times[i].best_ms > 0 && times[i].share > 0
                               : times[i].median_ms == 0 && times[i].best_ms == 0 && times[i].share == 0);
    }
    assert_true(forward > 0 && forward < sections);
    assert_same_bits(session, untouched, LEARNED);
    options.inference = false;
    need(samba_measure_sections(context, session, &options, times));
    assert_true(times[sections - 1].best_ms > 0);
}

TEST(test_room)
{
    int64_t count, left_out;
    samba_time t;
    samba_stage_info info;
    const int sections = samba_session_section_count(session);
    assert_null(samba_session_profile_events(session, &count, &left_out));
    assert_true(count == 0 && left_out == 0);
    need(samba_session_section_time(session, 0, &t));
    assert_int_equal(t.runs, 0);
    need(samba_session_profile(session, SAMBA_PROFILE_SECTIONS, 2));
    need(samba_run(session, NULL));
    samba_session_profile_events(session, &count, &left_out);
    assert_true(count == 2 && left_out == sections - 2);
    need(samba_session_section_time(session, sections - 1, &t));
    assert_int_equal(t.runs, 1);
    refuse(samba_session_profile(session, SAMBA_PROFILE_STAGES, -1), SAMBA_ERROR_ARGUMENT, "room for -1 events");
    refuse(samba_session_profile(session, SAMBA_PROFILE_STAGES, INT64_MAX), SAMBA_ERROR_ARGUMENT, "24 bytes each");
    refuse(samba_session_stage_time(session, samba_session_stage_count(session), &t), SAMBA_ERROR_ARGUMENT, "there is no stage");
    refuse(samba_session_stage_info(session, -1, &info), SAMBA_ERROR_ARGUMENT, "there is no stage -1");
}

/* ---- what else a run takes ---- */
TEST(test_output_gradients)
{
    samba_session *other = open_model(1);
    samba_tensor *two = kept(tensor("loss.grad", SAMBA_FLOAT32, 0, NULL));
    *(float *)samba_tensor_data(two) = 2;
    samba_run_options r = samba_run_defaults();
    r.output_gradients = (samba_tensor *[]){two, two}, r.output_gradient_count = 2;
    refuse(samba_run(session, &r), SAMBA_ERROR_NAME, "gradient \"loss.grad\" was given twice");
    r.output_gradient_count = -1;
    refuse(samba_run(session, &r), SAMBA_ERROR_ARGUMENT, "a count or its list is missing");
    assert_true(get_scalar(session, "loss.grad") == 1); /* nothing was changed */
    r.output_gradient_count = 1;
    need(samba_run(session, &r));
    need(samba_session_set(other, two));
    need(samba_run(other, NULL));
    assert_same_bits(session, other, COMPUTED);
    need(samba_run(session, NULL)); /* it stays */
    need(samba_run(other, NULL));
    assert_same_bits(session, other, COMPUTED);
}

static double loss_of(const samba_hyperparameter *given)
{
    samba_run_options r = samba_run_defaults();
    r.hyperparameters = given, r.hyperparameter_count = given != NULL;
    need(run_sections(session, &r, "FWD"));
    return get_scalar(session, "loss");
}

/* Masks start over with the seed, also where a seed was given in between. */
TEST(test_reset_random)
{
    double first = loss_of(NULL), second = loss_of(NULL);
    assert_true(first != second);
    const samba_hyperparameter seed = {"seed", 11};
    double seeded = loss_of(&seed);
    assert_true(seeded != first && loss_of(NULL) == seeded);
    need(samba_session_reset_random(session, 3)); /* what open_model opened it with */
    assert_true(loss_of(NULL) == first && loss_of(NULL) == second);
    need(samba_session_reset_random(session, 4));
    assert_true(loss_of(NULL) != first);
    assert_string_equal(samba_session_graph_name(session), "classifier");
}

/* ---- as text ---- */
static void measure(samba_profile what, int64_t room)
{
    need(samba_session_profile(session, what, room));
    for (int i = 0; i < RUNS; i++)
        need(samba_run(session, NULL));
    need(samba_session_profile(session, SAMBA_PROFILE_OFF, 0));
}

/* "0.3 contract by blocks: fc1: matmul" */
static void name_stage(int section, int number, char *name, size_t size)
{
    const samba_stage *stage = &session->plan.stages[number];
    const char *road = samba_session_road(session, number);
    assert_true((road != NULL) == (stage->kind == SAMBA_STAGE_CONTRACT));
    snprintf(name, size, "%d.%d %s%s%s: %s", section, number, samba_stage_kind_names[stage->kind], road ? " by " : "",
             road ? road : "", stage->name);
}

/* The line of a table that begins with the label. */
static void check_line(const char *tables, const char *label, const samba_time *t, double all, double flops, double bytes,
                       const samba_roof *roof)
{
    const char *at = strstr(tables, label);
    if (!at || (at > tables && at[-1] != '\n'))
        fail_msg("there is no line of %s in\n%s", label, tables);
    at += strlen(label);
    double mean = t->seconds / (double)t->runs;
    char rest[64], expected[64] = "", *end;
    double exact[8] = {(double)t->runs,   1e3 * t->seconds,       1e3 * mean,          1e3 * t->least,
                       1e3 * t->greatest, 100 * t->seconds / all, 1e-9 * flops / mean, 1e-9 * bytes / mean};
    for (int i = 0; i < 8; i++, at = end) { /* half of the last digit that is printed */
        double number = strtod(at, &end);
        assert_true(end != at && fabs(number - exact[i]) <= (i == 0 ? 0 : i < 5 ? 0.5001e-4 : 0.0501));
        if (end[0] == ' ' && end[1] == '%')
            end += 2;
    }
    snprintf(rest, sizeof rest, "%.*s", (int)strcspn(at, "\n"), at);
    if (roof)
        snprintf(expected, sizeof expected, "%.0f %% %s", 100 * roof->share, roof->bound);
    assert_string_equal(rest + strspn(rest, " "), expected);
}

static void check_tables(const samba_machine *with, bool stages)
{
    char *tables;
    need(samba_session_tables(session, with, &tables));
    assert_int_equal(strncmp(tables, "sections\nwhat ", 14), 0);
    assert_true((strstr(tables, "\noperators (section.stage)") != NULL) == stages);
    const samba_plan *plan = &session->plan;
    for (int kind = 0; kind <= (int)stages; kind++) { /* sections, stages */
        const samba_time *times = kind ? session->profiler.stages : session->profiler.sections;
        const int count = kind ? plan->stage_count : plan->section_count;
        double all = 0;
        for (int i = 0; i < count; i++)
            all += times[i].seconds;
        for (int i = 0; i < count; i++) {
            char label[256];
            samba_roof roof;
            samba_stage_info info;
            need(samba_session_stage_info(session, kind ? i : 0, &info));
            if (kind)
                name_stage(info.section, i, label, sizeof label);
            else
                snprintf(label, sizeof label, "%d %s", i, samba_section_type(&plan->sections[i]));
            if (with)
                need((kind ? samba_session_stage_roof : samba_session_section_roof)(session, with, i, &roof));
            check_line(tables, label, &times[i], all, (double)(kind ? info.flops : plan->sections[i].flops),
                       (double)(kind ? info.bytes : plan->sections[i].bytes), with ? &roof : NULL);
        }
    }
    samba_text_free(context, tables);
}

TEST(test_tables)
{
    for (int stages = 0; stages < 2; stages++) {
        measure(stages ? SAMBA_PROFILE_STAGES : SAMBA_PROFILE_SECTIONS, 0);
        check_tables(&machine, stages);
        check_tables(NULL, stages);
    }
    /* what did not run is not there */
    need(samba_session_profile(session, SAMBA_PROFILE_SECTIONS, 0));
    need(run_sections(session, NULL, "FWD"));
    char *tables;
    need(samba_session_tables(session, NULL, &tables));
    assert_non_null(strstr(tables, "\n0 FWD"));
    assert_null(strstr(tables, "BCKWD"));
    samba_text_free(context, tables);
}

static double number(const json_t *event, const char *name) { return json_number_value(json_object_get(event, name)); }
static const char *word(const json_t *event, const char *name) { return json_string_value(json_object_get(event, name)); }

static void check_event(const json_t *event, const samba_profile_event *e)
{
    const samba_stage *stage = e->stage < 0 ? NULL : &session->plan.stages[e->stage];
    const json_t *arguments = json_object_get(event, "args");
    char name[256];
    if (stage)
        name_stage(e->section, e->stage, name, sizeof name);
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

TEST(test_trace)
{
    measure(SAMBA_PROFILE_STAGES, 1000);
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
        check_event(json_array_get(list, (size_t)i + 2), &events[i]);
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

    measure(SAMBA_PROFILE_SECTIONS, 2); /* no room for more */
    need(samba_session_trace(session, NULL, &trace));
    root = json_loads(trace, 0, &error);
    assert_int_equal(json_array_size(json_object_get(root, "traceEvents")), 2 + 2);
    assert_true(number(json_object_get(root, "otherData"), "events_left_out") == RUNS * session->plan.section_count - 2);
    assert_string_equal(word(json_object_get(json_array_get(json_object_get(root, "traceEvents"), 0), "args"), "name"),
                        "classifier");
    json_decref(root);
    samba_text_free(context, trace);
}

TEST(test_files)
{
    measure(SAMBA_PROFILE_STAGES, 1000);
    static const char *const endings[] = {"html", "json", "log"};
    for (int i = 0; i < 3; i++) {
        char path[128], *made;
        snprintf(path, sizeof path, "%s/report.%s", folder, endings[i]);
        need(samba_session_report_write(session, &machine, pef, path));
        need(i == 0   ? samba_session_page(session, &machine, pef, &made)
             : i == 1 ? samba_session_trace(session, pef, &made)
                      : samba_session_tables(session, &machine, &made));
        void *written;
        size_t size;
        need(samba_file_read(context, path, &written, &size));
        assert_int_equal(size, strlen(made));
        assert_memory_equal(written, made, size);
        samba_free(context, written, size);
        samba_text_free(context, made);
    }
    refuse(samba_session_report_write(session, NULL, NULL, "/nowhere/times.json"), SAMBA_ERROR_FILE, "/nowhere/times.json");
    refuse(samba_session_report_write(session, NULL, NULL, ""), SAMBA_ERROR_ARGUMENT, "the path is missing");
    session = open_model(1);
    char *none;
    refuse(samba_session_tables(session, &machine, &none), SAMBA_ERROR_STATE, "nothing was measured: turn profiling on");
    assert_null(none);
    refuse(samba_session_trace(session, NULL, &none), SAMBA_ERROR_STATE, "samba_session_trace: nothing was measured");
    refuse(samba_session_report_write(session, NULL, NULL, "times.json"), SAMBA_ERROR_STATE, "nothing was measured");
}

static samba_status measure_and_tell(samba_context *of, void *user)
{
    (void)user;
    samba_session *measured = NULL;
    samba_session_options o = samba_session_defaults();
    o.threads = 1;
    char *text[2] = {NULL, NULL};
    samba_status status = samba_session_new(of, pef, &o, &measured);
    THEN(status, give_zeros(of, measured));
    THEN(status, samba_session_profile(measured, SAMBA_PROFILE_STAGES, 100));
    THEN(status, samba_run(measured, NULL));
    THEN(status, samba_session_tables(measured, &machine, &text[0]));
    THEN(status, samba_session_trace(measured, NULL, &text[1]));
    for (int i = 0; i < 2; i++)
        if (text[i])
            samba_text_free(of, text[i]);
    samba_session_free(measured);
    return status;
}

TEST(test_no_memory) { fail_each_allocation(measure_and_tell, NULL); }

TEST_MAIN_WITH(setup, drop_kept, test_times, test_forward_alone, test_room, test_output_gradients, test_reset_random, test_tables,
               test_trace, test_files, test_no_memory)
