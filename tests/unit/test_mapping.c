/* SPDX-License-Identifier: Apache-2.0
 *
 * Sections within a budget of fast memory, and forward and backward as one: names of modules, refusals with the sizes, and what
 * runs such sections may have. test_random_schedules.c has the bits of runs and the sizes of sections. */
#include "training.h"
#include "mapped_models.h"
#include "runtime/runtime.h"

static samba_tensor *inputs[2];
static void make_inputs(int model)
{
    mapped_inputs(model, inputs);
    kept(inputs[0]);
    kept(inputs[1]);
}

static samba_status run_ids(samba_session *session, int first, int second)
{
    samba_run_options r = samba_run_defaults();
    r.section_ids = (const int[]){first, second};
    r.section_id_count = second < 0 ? 1 : 2;
    return samba_run(session, &r);
}

static samba_status compile(int64_t fast_memory, samba_mapping mapping)
{
    samba_compile_options options = mapped_options(0, inputs, 1, fast_memory, mapping);
    return samba_compile(context, &options, NULL, 0);
}

TEST(test_refusals)
{
    make_inputs(0);
    int64_t least = mapped_least(0, inputs, 1);
    refuse(compile(least - 1, SAMBA_MAPPING_SECTION), SAMBA_ERROR_ARGUMENT, "bytes: model 'dense' needs");
    need(compile(least, SAMBA_MAPPING_SECTION));
    refuse(compile(least, SAMBA_MAPPING_SPATIAL), SAMBA_ERROR_ARGUMENT,
           "mapping 'spatial' keeps FWD and BCKWD in fast memory at once: that takes "); /* of which sections can do */
    int64_t takes = strtoll(strstr(samba_error_message(context), "takes ") + 6, NULL, 10);
    refuse(compile(takes - 1, SAMBA_MAPPING_SPATIAL), SAMBA_ERROR_ARGUMENT, "a smaller batch, or mapping 'section'");
    need(compile(takes, SAMBA_MAPPING_SPATIAL)); /* no more than was said; OPT is cut as ever */
}

/* Sections end between blocks where they can, and say which they have. */
TEST(test_names)
{
    make_inputs(0);
    int64_t budget = mapped_least(0, inputs, 1) * 3 / 2;
    samba_compile_options options = mapped_options(0, inputs, 1, budget, SAMBA_MAPPING_SECTION);
    char *log = compiled_log(&options), *rest;
    bool named = false;
    for (char *line = strtok_r(strstr(log, "fast memory  modules"), "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
        named |= strstr(line, "FWD") && strstr(line, "block2");
    assert_true(named);
    free(log);
    samba_session *session = open_kept(&options, 1, 1);
    assert_string_equal(samba_session_mapping(session, 0), "section");
    for (int i = 0; i < samba_session_section_count(session); i++) {
        samba_section_info info;
        need(samba_session_section_info(session, i, &info));
        assert_true(info.fast_memory > 0 && info.fast_memory <= budget && info.name[0] && info.forward_stages == 0);
    }
}

/* One section is both types, and each of them alone. */
TEST(test_spatial)
{
    for (int model = 0; model < MAPPED_MODELS; model++) {
        make_inputs(model);
        samba_compile_options options = mapped_options(model, inputs, 1, 0, SAMBA_MAPPING_SPATIAL);
        samba_session *session = open_kept(&options, 2, 7);
        samba_section_info info;
        need(samba_session_section_info(session, 0, &info));
        assert_string_equal(info.type, "FWD+BCKWD");
        assert_string_equal(samba_session_mapping(session, 0), "spatial");
        int sections = samba_session_section_count(session);
        assert_int_equal(sections, model == 1 ? 2 : 3); /* with OPT, and GRADNORM where gradients are clipped */
        refuse(samba_session_section_info(session, sections, &info), SAMBA_ERROR_ARGUMENT, "there is no section");
        refuse(run_sections(session, NULL, "BCKWD"), SAMBA_ERROR_STATE,
               "section 0 (BCKWD) needs the activations of a forward run, and there was none yet");
        refuse(run_sections(session, NULL, "REDUCED"), SAMBA_ERROR_NAME, "this PEF has: \"FWD\", \"BCKWD\"");
        for (int k = 0; k < 2; k++)
            need(samba_session_set(session, inputs[k]));
        need(samba_session_profile(session, SAMBA_PROFILE_STAGES, 1000));
        need(samba_run(session, NULL));
        samba_time time;
        need(samba_session_section_time(session, 0, &time));
        assert_true(time.runs >= 1 && time.seconds > 0);
    }
}

/* Sections that go on from each other run in their order, with nothing between that takes their memory. */
TEST(test_order)
{
    make_inputs(0);
    samba_compile_options options = mapped_options(0, inputs, 1, mapped_least(0, inputs, 1), SAMBA_MAPPING_SECTION);
    samba_session *s = open_kept(&options, 1, 7);
    int forward = 0, backward = 0, opt = samba_session_section_count(s) - 1;
    samba_section_info info;
    for (int i = 0; i <= opt; i++) {
        need(samba_session_section_info(s, i, &info));
        forward += strcmp(info.type, "FWD") == 0;
        backward += strcmp(info.type, "BCKWD") == 0;
    }
    assert_true(forward > 2 && backward > 2);
    refuse(run_ids(s, 1, -1), SAMBA_ERROR_STATE,
           "section 1 (FWD) goes on from the FWD sections before it, and there was no run of them yet");
    refuse(run_ids(s, forward, -1), SAMBA_ERROR_STATE, "there was none yet");
    refuse(run_ids(s, opt, -1), SAMBA_ERROR_STATE, "needs gradients");
    need(give_zeros(context, s));
    need(run_ids(s, 0, 1));
    refuse(run_ids(s, 1, -1), SAMBA_ERROR_STATE, "used up or not at its end");
    refuse(run_ids(s, forward, -1), SAMBA_ERROR_STATE, "that of the last is not at its end");
    need(run_sections(s, NULL, "FWD"));
    need(run_ids(s, forward, -1));
    refuse(run_ids(s, forward + 2, -1), SAMBA_ERROR_STATE, "(BCKWD)");
    refuse(run_ids(s, opt, -1), SAMBA_ERROR_STATE, "needs gradients"); /* BCKWD is not done */
    need(run_sections(s, NULL, "FWD BCKWD GRADNORM OPT FWD"));
    refuse(run_sections(s, NULL, "OPT BCKWD"), SAMBA_ERROR_STATE,
           "(OPT), which ran since, has taken that memory: run the schedule's sections in order, from FWD on");
    need(run_sections(s, NULL, "BCKWD")); /* what was refused did nothing */
    need(run_sections(s, NULL, "FWD GRADNORM OPT"));
    refuse(run_sections(s, NULL, "BCKWD"), SAMBA_ERROR_STATE, "has taken that memory");
    need(samba_session_section_info(s, opt - 1, &info));
    if (strcmp(info.type, "OPT") == 0)
        refuse(run_ids(s, opt, -1), SAMBA_ERROR_STATE, "goes on from section");
}

TEST_MAIN_WITH(NULL, drop_kept, test_refusals, test_names, test_spatial, test_order)
