/* SPDX-License-Identifier: Apache-2.0
 *
 * The times of sections and stages: each is measured once a run, parts add up to no more than the whole, nothing is measured
 * while profiling is off, and what runs compute does not depend on it. What else a run takes: gradients of outputs, ranges of
 * calls, random numbers anew. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/base.h"
#include "training.h"
#include <sambaflow/app.h>
#include <sambaflow/functional.h>
#include <sambaflow/layers.h>
#include <sambaflow/profile.h>

static void model(samba_graph *g, const void *options)
{
    (void)options;
    samba_value hidden = samba_dropout(samba_relu(samba_linear(samba_input(g, "x"), "fc1", 96)), "drop", 0.25);
    samba_value logits = samba_linear(hidden, "fc2", 10);
    samba_output(g, "logits", logits);
    samba_loss(g, "loss", samba_cross_entropy(logits, samba_input(g, "label")));
}

static samba_session *open_model(samba_tensor **inputs, int threads)
{
    static samba_optimizer o;
    o = samba_sgd(0.1);
    samba_compile_options options = compile_of("profiled", model, NULL, 2, inputs);
    options.optimizer_count = 1;
    options.optimizers = &o;
    samba_session *session = compile_and_open(&options, threads, 3);
    for (int i = 0; i < 2; i++)
        need(samba_session_set(session, inputs[i]));
    return session;
}

static void make_inputs(samba_tensor **inputs)
{
    inputs[0] = normal("x", SAMBA_FLOAT32, 2, SHAPE(64, 300), 8);
    inputs[1] = tensor("label", SAMBA_INT64, 1, SHAPE(64));
    need(samba_fill_integers(inputs[1], 9, 0, 10));
}

static void free_inputs(samba_tensor **inputs)
{
    samba_tensor_free(inputs[0]);
    samba_tensor_free(inputs[1]);
}

/* Every section and stage is there once a run; stages lie inside their section, one after the other. */
static void check_times(samba_session *session, int runs, bool with_stages)
{
    int64_t count, left_out;
    const samba_profile_event *events = samba_session_profile_events(session, &count, &left_out);
    int sections = samba_session_section_count(session), stages = samba_session_stage_count(session);
    assert_int_equal(left_out, 0);
    assert_int_equal(count, runs * (sections + (with_stages ? stages : 0)));
    double end = 0, inside = 0;
    for (int64_t i = 0; i < count; i++) {
        assert_true(events[i].begin >= 0 && events[i].seconds >= 0);
        if (events[i].stage >= 0) {
            samba_stage_info info;
            need(samba_session_stage_info(session, events[i].stage, &info));
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
        need(i < sections ? samba_session_section_time(session, i, &t) : samba_session_stage_time(session, i - sections, &t));
        assert_int_equal(t.runs, i < sections || with_stages ? runs : 0);
        assert_true(t.least <= t.greatest && t.least * (double)t.runs <= t.seconds * 1.0001 && t.greatest <= t.seconds);
    }
}

static void test_times(void **unused)
{
    (void)unused;
    samba_tensor *inputs[2];
    make_inputs(inputs);
    for (int threads = 1; threads <= 3; threads++) {
        samba_session *profiled = open_model(inputs, threads), *plain = open_model(inputs, threads);
        for (int with_stages = 0; with_stages < 2; with_stages++) {
            need(samba_session_profile(profiled, with_stages ? SAMBA_PROFILE_STAGES : SAMBA_PROFILE_SECTIONS, 1000));
            for (int run = 0; run < 3; run++) {
                check_times(profiled, run, with_stages);
                need(samba_run(profiled, NULL));
                need(samba_run(plain, NULL));
            }
            need(samba_session_profile(profiled, SAMBA_PROFILE_OFF, 0));
            need(samba_run(profiled, NULL));
            need(samba_run(plain, NULL));
            check_times(profiled, 3, with_stages); /* stays, and goes not on */
        }
        assert_same_bits(profiled, plain, COMPUTED);
        samba_session_free(profiled);
        samba_session_free(plain);
    }
    free_inputs(inputs);
}

static void test_forward_alone(void **unused)
{
    (void)unused;
    samba_tensor *inputs[2];
    make_inputs(inputs);
    samba_session *measured = open_model(inputs, 1), *untouched = open_model(inputs, 1);
    samba_section_time times[16];
    int sections = samba_session_section_count(measured), forward = 0;
    assert_true(sections <= SAMBA_COUNT(times));
    samba_measure_options options = samba_measure_defaults();
    options.iterations = 3;
    options.inference = true;
    need(samba_measure_sections(context, measured, &options, times));
    for (int i = 0; i < sections; i++) {
        bool is_forward = strcmp(times[i].section.type, "FWD") == 0;
        forward += is_forward;
        assert_true(is_forward ? times[i].best_ms > 0 && times[i].share > 0
                               : times[i].median_ms == 0 && times[i].best_ms == 0 && times[i].share == 0);
    }
    assert_true(forward > 0 && forward < sections);
    assert_same_bits(measured, untouched, LEARNED);
    options.inference = false;
    need(samba_measure_sections(context, measured, &options, times));
    assert_true(times[sections - 1].best_ms > 0);
    samba_session_free(measured);
    samba_session_free(untouched);
    free_inputs(inputs);
}

static void test_room(void **unused)
{
    (void)unused;
    samba_tensor *inputs[2];
    make_inputs(inputs);
    samba_session *session = open_model(inputs, 1);
    int64_t count, left_out;
    samba_time t;
    samba_stage_info info;
    assert_null(samba_session_profile_events(session, &count, &left_out));
    assert_true(count == 0 && left_out == 0);
    need(samba_session_section_time(session, 0, &t));
    assert_int_equal(t.runs, 0);
    need(samba_session_profile(session, SAMBA_PROFILE_SECTIONS, 2));
    need(samba_run(session, NULL));
    samba_session_profile_events(session, &count, &left_out);
    assert_true(count == 2 && left_out == samba_session_section_count(session) - 2);
    need(samba_session_section_time(session, samba_session_section_count(session) - 1, &t));
    assert_int_equal(t.runs, 1);
    refuse(samba_session_profile(session, (samba_profile)3, 0), SAMBA_ERROR_ARGUMENT, "3 is not SAMBA_PROFILE_OFF");
    refuse(samba_session_profile(session, SAMBA_PROFILE_STAGES, -1), SAMBA_ERROR_ARGUMENT, "room for -1 events");
    refuse(samba_session_profile(session, SAMBA_PROFILE_STAGES, INT64_MAX), SAMBA_ERROR_ARGUMENT, "24 bytes each");
    refuse(samba_session_section_time(session, -1, &t), SAMBA_ERROR_ARGUMENT, "there is no section -1");
    refuse(samba_session_stage_time(session, samba_session_stage_count(session), &t), SAMBA_ERROR_ARGUMENT, "there is no stage");
    refuse(samba_session_stage_info(session, -1, &info), SAMBA_ERROR_ARGUMENT, "there is no stage -1");
    samba_session_free(session);
    free_inputs(inputs);
}

static void test_output_gradients(void **unused)
{
    (void)unused;
    samba_tensor *inputs[2];
    make_inputs(inputs);
    samba_session *one = open_model(inputs, 1), *other = open_model(inputs, 1);
    samba_tensor *two = tensor("loss.grad", SAMBA_FLOAT32, 0, NULL), *wrong = tensor("fc1.weight.grad", SAMBA_FLOAT32, 0, NULL);
    samba_tensor *wide = tensor("loss.grad", SAMBA_FLOAT32, 1, SHAPE(2));
    *(float *)samba_tensor_data(two) = 2;
    samba_run_options r = samba_run_defaults();
    samba_tensor *given[2] = {two, two};
    r.output_gradients = given;
    r.output_gradient_count = 2;
    refuse(samba_run(one, &r), SAMBA_ERROR_NAME, "gradient \"loss.grad\" was given twice");
    given[1] = NULL;
    refuse(samba_run(one, &r), SAMBA_ERROR_ARGUMENT, "gradient 1 of the run is NULL");
    given[1] = wrong;
    refuse(samba_run(one, &r), SAMBA_ERROR_NAME,
           "no gradient \"fc1.weight.grad\" of an output; gradients start from: \"loss.grad\"");
    given[1] = wide, r.output_gradients = &given[1], r.output_gradient_count = 1;
    refuse(samba_run(one, &r), SAMBA_ERROR_SHAPE, "\"loss.grad\" has the shape");
    r.output_gradient_count = -1;
    refuse(samba_run(one, &r), SAMBA_ERROR_ARGUMENT, "a count or its list is missing");
    assert_true(get_scalar(one, "loss.grad") == 1); /* nothing was changed */
    r.output_gradients = given, r.output_gradient_count = 1;
    need(samba_run(one, &r));
    need(samba_session_set(other, two));
    need(samba_run(other, NULL));
    assert_same_bits(one, other, COMPUTED);
    need(samba_run(one, NULL)); /* it stays */
    need(samba_run(other, NULL));
    assert_same_bits(one, other, COMPUTED);
    samba_tensor_free(two);
    samba_tensor_free(wrong);
    samba_tensor_free(wide);
    samba_session_free(one);
    samba_session_free(other);
    free_inputs(inputs);
}

static void refuse_range(samba_session *session, int from, int until, const char *part)
{
    samba_run_options r = samba_run_defaults();
    r.run_from_call_id = from;
    r.run_until_call_id = until;
    refuse(samba_run(session, &r), SAMBA_ERROR_ARGUMENT, part);
}

static void test_wrong_calls(void **unused)
{
    (void)unused;
    samba_tensor *inputs[2];
    make_inputs(inputs);
    samba_session *session = open_model(inputs, 1);
    assert_int_equal(samba_session_call_count(session), 3); /* FWD BCKWD OPT */
    refuse_range(session, 3, -1, "run_from_call_id 3: this PEF's calls are 0 to 2");
    refuse_range(session, -2, -1, "run_from_call_id -2: this PEF's calls are 0 to 2");
    refuse_range(session, -1, 0, "run_until_call_id 0: the call before which the run ends is 1 to 3");
    refuse_range(session, -1, 4, "run_until_call_id 4: the call before which the run ends is 1 to 3");
    refuse_range(session, 2, 2, "run_from_call_id 2 is not before run_until_call_id 2");
    samba_run_options r = samba_run_defaults();
    r.run_from_call_id = 1;
    r.section_id_count = 1;
    r.section_ids = (int[]){0};
    refuse(samba_run(session, &r), SAMBA_ERROR_ARGUMENT,
           "call ids are of the schedule, which section types and section ids replace");
    samba_session_free(session);
    free_inputs(inputs);
}

static double loss_of(samba_session *session, const samba_hyperparameter *given)
{
    samba_run_options r = samba_run_defaults();
    const char *type = "FWD";
    r.section_types = &type, r.section_type_count = 1;
    r.hyperparameters = given, r.hyperparameter_count = given != NULL;
    need(samba_run(session, &r));
    return get_scalar(session, "loss");
}

/* Masks start over with the seed, also where a seed was given in between. */
static void test_reset_random(void **unused)
{
    (void)unused;
    samba_tensor *inputs[2];
    make_inputs(inputs);
    samba_session *session = open_model(inputs, 1);
    double first = loss_of(session, NULL), second = loss_of(session, NULL);
    assert_true(first != second);
    const samba_hyperparameter seed = {"seed", 11};
    double seeded = loss_of(session, &seed);
    assert_true(seeded != first && loss_of(session, NULL) == seeded);
    need(samba_session_reset_random(session, 3)); /* what open_model opened it with */
    assert_true(loss_of(session, NULL) == first && loss_of(session, NULL) == second);
    need(samba_session_reset_random(session, 4));
    assert_true(loss_of(session, NULL) != first);
    assert_string_equal(samba_session_graph_name(session), "profiled");
    samba_session_free(session);
    free_inputs(inputs);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_times),       cmocka_unit_test(test_forward_alone),
                                       cmocka_unit_test(test_room),        cmocka_unit_test(test_output_gradients),
                                       cmocka_unit_test(test_wrong_calls), cmocka_unit_test(test_reset_random)};
    return training_begin() ? training_end(cmocka_run_group_tests_name("profile", tests, NULL, NULL)) : 1;
}
