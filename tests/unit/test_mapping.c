/* SPDX-License-Identifier: Apache-2.0
 *
 * Sections within a budget of fast memory, and forward and backward as one: the same bits as without, sections no larger than
 * allowed, fusions never parted, names of modules, refusals with the sizes, and what runs such sections may have. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "training.h"
#include "zeros.h"

#include "mapped_models.h"
#include "runtime/runtime.h"

/* Memory that stages touch, counted by the byte. */
static int64_t bytes_touched(const samba_plan *plan, int32_t first, int32_t count)
{
    uint8_t *touched = calloc(1, (size_t)plan->memory_bytes + 1);
    assert_non_null(touched);
    int64_t bytes = 0;
    for (int32_t s = first; s < first + count; s++) {
        const samba_stage *stage = &plan->stages[s];
        for (int32_t o = -2; o < stage->operand_count; o++) {
            int32_t b = o >= 0                                ? stage->operands[o].buffer
                        : stage->kind != SAMBA_STAGE_CONTRACT ? -1
                        : o == -2                             ? stage->contract.a.buffer
                                                              : stage->contract.b.buffer;
            if (b >= 0)
                memset(touched + plan->buffers[b].offset, 1, (size_t)plan->buffers[b].bytes);
        }
    }
    for (int64_t i = 0; i < plan->memory_bytes; i++)
        bytes += touched[i];
    free(touched);
    return bytes;
}

static void check_sections(const samba_plan *plan, int64_t budget)
{
    int32_t sections_of[6] = {0}; /* with operators of the fusion, by phase */
    for (int32_t i = 0; i < plan->section_count; i++) {
        const samba_plan_section *section = &plan->sections[i];
        int64_t bytes = bytes_touched(plan, section->first_stage, section->stage_count);
        assert_int_equal(section->fast_memory, bytes);
        assert_true(budget == 0 || bytes <= budget);
        bool fused = false;
        for (int32_t s = section->first_stage; s < section->first_stage + section->stage_count; s++)
            for (int32_t k = 0; k < plan->stages[s].operator_count; k++)
                fused |= plan->locations[plan->stages[s].operators[k].location].fusion != 0;
        sections_of[section->phase] += fused;
    }
    assert_true(sections_of[1] <= 1 && sections_of[2] <= 1);
}

/* Three steps, of the whole schedule in each run. */
static void train(samba_session *session, samba_tensor **inputs)
{
    samba_run_options r = samba_run_defaults();
    r.inputs = inputs;
    r.input_count = 2;
    for (int i = 0; i < 6; i++)
        need(samba_run(session, &r));
}

static void test_same_bits(void **unused)
{
    (void)unused;
    for (int model = 0; model < MAPPED_MODELS; model++) {
        samba_tensor *inputs[2];
        mapped_inputs(model, inputs);
        for (int accumulation = 1; accumulation < 3; accumulation++) {
            int64_t least = mapped_least(model, inputs, accumulation);
            samba_compile_options options = mapped_options(model, inputs, accumulation, 0, SAMBA_MAPPING_SECTION);
            samba_session *plain = compile_and_open(&options, 2, 7);
            check_sections(&plain->plan, 0);
            train(plain, inputs);
            int before = samba_session_section_count(plain);
            for (int i = 0; i < 4; i++) {
                int64_t budget = i < 3 ? least << (2 - i) : 0;
                options =
                    mapped_options(model, inputs, accumulation, budget, i < 3 ? SAMBA_MAPPING_SECTION : SAMBA_MAPPING_SPATIAL);
                samba_session *mapped = compile_and_open(&options, 2, 7);
                check_sections(&mapped->plan, budget);
                assert_true(i == 3 || samba_session_section_count(mapped) >= before);
                before = samba_session_section_count(mapped);
                train(mapped, inputs);
                assert_same_bits(plain, mapped, COMPUTED);
                samba_session_free(mapped);
            }
            samba_session_free(plain);
        }
        samba_tensor_free(inputs[0]);
        samba_tensor_free(inputs[1]);
    }
}

static void test_refusals(void **unused)
{
    (void)unused;
    samba_tensor *inputs[2];
    mapped_inputs(0, inputs);
    char path[512];
    int64_t least = mapped_least(0, inputs, 1);
    samba_compile_options options = mapped_options(0, inputs, 1, least - 1, SAMBA_MAPPING_SECTION);
    refuse(samba_compile(context, &options, path, sizeof path), SAMBA_ERROR_ARGUMENT, "bytes: model 'dense' needs");
    options.fast_memory = least;
    need(samba_compile(context, &options, path, sizeof path)); /* no more than was said */
    options.mapping = SAMBA_MAPPING_SPATIAL;
    refuse(samba_compile(context, &options, path, sizeof path), SAMBA_ERROR_ARGUMENT,
           "mapping 'spatial' keeps FWD and BCKWD in fast memory at once: that takes ");
    int64_t takes = strtoll(strstr(samba_error_message(context), "takes ") + 6, NULL, 10);
    options.fast_memory = takes - 1;
    refuse(samba_compile(context, &options, path, sizeof path), SAMBA_ERROR_ARGUMENT,
           "give that much, a smaller batch, or mapping 'section'");
    options.fast_memory = takes; /* of FWD and BCKWD; OPT is cut as ever */
    need(samba_compile(context, &options, path, sizeof path));
    options.fast_memory = -1;
    refuse(samba_compile(context, &options, path, sizeof path), SAMBA_ERROR_ARGUMENT,
           "fast_memory is -1 bytes, expected 1 or more, or 0");
    options.fast_memory = 0;
    options.mapping = (samba_mapping)2;
    refuse(samba_compile(context, &options, path, sizeof path), SAMBA_ERROR_ARGUMENT,
           "mapping is 2, expected SAMBA_MAPPING_SECTION (0)");
    samba_tensor_free(inputs[0]);
    samba_tensor_free(inputs[1]);
}

/* Sections end between blocks where they can, and say which they have. */
static void test_names(void **unused)
{
    (void)unused;
    samba_tensor *inputs[2];
    mapped_inputs(0, inputs);
    int64_t least = mapped_least(0, inputs, 1);
    samba_compile_options options = mapped_options(0, inputs, 1, least * 3 / 2, SAMBA_MAPPING_SECTION);
    char path[512], log[600], line[512];
    need(samba_compile(context, &options, path, sizeof path));
    snprintf(log, sizeof log, "%s.log", path);
    FILE *file = fopen(log, "r");
    assert_non_null(file);
    bool head = false, named = false;
    while (fgets(line, sizeof line, file)) {
        head |= strstr(line, "fast memory  modules") != NULL;
        named |= head && strstr(line, "FWD") && strstr(line, "block2");
    }
    fclose(file);
    assert_true(head && named);
    samba_session *session = open_session(path, 1, 1);
    assert_string_equal(samba_session_mapping(session, 0), "section");
    for (int i = 0; i < samba_session_section_count(session); i++) {
        samba_section_info info;
        need(samba_session_section_info(session, i, &info));
        assert_true(info.fast_memory > 0 && info.fast_memory <= least * 3 / 2 && info.name[0] && info.forward_stages == 0);
    }
    samba_session_free(session);
    samba_tensor_free(inputs[0]);
    samba_tensor_free(inputs[1]);
}

static samba_status run_types(samba_session *session, int count, const char *const *types)
{
    samba_run_options r = samba_run_defaults();
    r.section_types = types;
    r.section_type_count = count;
    return samba_run(session, &r);
}

static samba_status run_ids(samba_session *session, int count, const int *ids)
{
    samba_run_options r = samba_run_defaults();
    r.section_ids = ids;
    r.section_id_count = count;
    return samba_run(session, &r);
}

#define TYPES(...)                                                                                                               \
    SAMBA_COUNT(((const char *const[]){__VA_ARGS__})), (const char *const[]) { __VA_ARGS__ }
#define IDS(...)                                                                                                                 \
    SAMBA_COUNT(((const int[]){__VA_ARGS__})), (const int[]) { __VA_ARGS__ }

/* One section is both types, and each of them alone. */
static void test_spatial(void **unused)
{
    (void)unused;
    for (int model = 0; model < MAPPED_MODELS; model++) {
        samba_tensor *inputs[2];
        mapped_inputs(model, inputs);
        samba_compile_options options = mapped_options(model, inputs, 1, 0, SAMBA_MAPPING_SPATIAL);
        samba_session *whole = compile_and_open(&options, 2, 7), *parts = compile_and_open(&options, 2, 7),
                      *ids = compile_and_open(&options, 2, 7);
        samba_session *const all[] = {whole, parts, ids};
        samba_section_info info;
        need(samba_session_section_info(whole, 0, &info));
        assert_string_equal(info.type, "FWD+BCKWD");
        assert_string_equal(samba_session_mapping(whole, 0), "spatial");
        int sections = samba_session_section_count(whole);
        assert_int_equal(sections, model == 1 ? 2 : 3); /* with OPT, and GRADNORM where gradients are clipped */
        refuse(samba_session_section_info(whole, sections, &info), SAMBA_ERROR_ARGUMENT, "there is no section");
        refuse(run_ids(whole, IDS(sections)), SAMBA_ERROR_ARGUMENT, "there is no section");
        refuse(run_types(parts, TYPES("BCKWD")), SAMBA_ERROR_STATE,
               "section 0 (BCKWD) needs the activations of a forward run, and there was none yet");
        refuse(run_types(parts, TYPES("REDUCED")), SAMBA_ERROR_NAME, "this PEF has: \"FWD\", \"BCKWD\"");
        for (int i = 0; i < 3; i++)
            for (int k = 0; k < 2; k++)
                need(samba_session_set(all[i], inputs[k]));
        for (int step = 0; step < 3; step++) {
            need(samba_run(whole, NULL));
            need(run_types(parts, TYPES("FWD")));
            need(run_types(parts, TYPES("BCKWD")));
            refuse(run_types(parts, TYPES("BCKWD")), SAMBA_ERROR_STATE, "used up those of the last");
            if (model != 1)
                need(run_types(parts, TYPES("gradnorm", "opt")));
            else
                need(run_types(parts, TYPES("OPT")));
            need(run_ids(ids, IDS(0)));
            need(model != 1 ? run_ids(ids, IDS(1, 2)) : run_ids(ids, IDS(1)));
            assert_same_bits(whole, parts, COMPUTED);
            assert_same_bits(whole, ids, COMPUTED);
        }
        need(samba_session_profile(whole, SAMBA_PROFILE_STAGES, 1000));
        need(samba_run(whole, NULL));
        samba_time time;
        need(samba_session_section_time(whole, 0, &time));
        assert_true(time.runs >= 1 && time.seconds > 0);
        for (int i = 0; i < 3; i++)
            samba_session_free(all[i]);
        samba_tensor_free(inputs[0]);
        samba_tensor_free(inputs[1]);
    }
}

/* Sections that go on from each other run in their order, with nothing between that takes their memory. */
static void test_order(void **unused)
{
    (void)unused;
    samba_tensor *inputs[2];
    mapped_inputs(0, inputs);
    samba_compile_options options = mapped_options(0, inputs, 1, mapped_least(0, inputs, 1), SAMBA_MAPPING_SECTION);
    samba_session *s = compile_and_open(&options, 1, 7);
    int forward = 0, backward = 0, count = samba_session_section_count(s), opt = count - 1;
    for (int i = 0; i < count; i++) {
        samba_section_info info;
        need(samba_session_section_info(s, i, &info));
        forward += strcmp(info.type, "FWD") == 0;
        backward += strcmp(info.type, "BCKWD") == 0;
    }
    assert_true(forward > 2 && backward > 2);
    refuse(run_ids(s, IDS(1)), SAMBA_ERROR_STATE,
           "section 1 (FWD) goes on from the FWD sections before it, and there was no run of them yet");
    refuse(run_ids(s, IDS(forward)), SAMBA_ERROR_STATE, "there was none yet");
    refuse(run_ids(s, IDS(opt)), SAMBA_ERROR_STATE, "needs gradients");
    need(give_zeros(context, s));
    need(run_ids(s, IDS(0, 1)));
    refuse(run_ids(s, IDS(1)), SAMBA_ERROR_STATE, "used up or not at its end");
    refuse(run_ids(s, IDS(forward)), SAMBA_ERROR_STATE, "that of the last is not at its end");
    need(run_types(s, TYPES("FWD")));
    need(run_ids(s, IDS(forward)));
    refuse(run_ids(s, IDS(forward + 2)), SAMBA_ERROR_STATE, "(BCKWD)");
    refuse(run_ids(s, IDS(opt)), SAMBA_ERROR_STATE, "needs gradients"); /* BCKWD is not done */
    need(run_types(s, TYPES("FWD", "BCKWD", "GRADNORM", "OPT", "FWD")));
    refuse(run_types(s, TYPES("OPT", "BCKWD")), SAMBA_ERROR_STATE,
           "(OPT), which ran since, has taken that memory: run the schedule's sections in order, from FWD on");
    need(run_types(s, TYPES("BCKWD"))); /* what was refused did nothing */
    need(run_types(s, TYPES("FWD", "GRADNORM", "OPT")));
    refuse(run_types(s, TYPES("BCKWD")), SAMBA_ERROR_STATE, "has taken that memory");
    samba_section_info last;
    need(samba_session_section_info(s, opt - 1, &last));
    if (strcmp(last.type, "OPT") == 0)
        refuse(run_ids(s, IDS(opt)), SAMBA_ERROR_STATE, "goes on from section");
    samba_session_free(s);
    samba_tensor_free(inputs[0]);
    samba_tensor_free(inputs[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_same_bits), cmocka_unit_test(test_refusals),
                                       cmocka_unit_test(test_names), cmocka_unit_test(test_spatial),
                                       cmocka_unit_test(test_order)};
    return training_begin() ? training_end(cmocka_run_group_tests_name("mapping", tests, NULL, NULL)) : 1;
}
