/* SPDX-License-Identifier: Apache-2.0
 *
 * Inputs that lie in the session's memory (samba_session_input): the same bits as copied ones, also as a mixture of both; values
 * stay from run to run; other views of the memory and wrong names are refused. Inputs that nobody gave (runtime/given.c): a
 * session refuses to run over them without changing anything; what was given, set or is the caller's to fill stays given. And
 * labels that are none, refused where a run reads them and not where they are set. */
#include "classifier.h"

static samba_session *sessions[2];
static batch copied, own;

static int setup(void **unused)
{
    (void)unused;
    copied = batch_new(SAMPLES);
    for (int i = 0; i < 2; i++)
        sessions[i] = classifier_new(&plain, &copied, 1, 1, 3);
    need(samba_session_input(sessions[1], "image", &own.inputs[0]));
    need(samba_session_input(sessions[1], "label", &own.inputs[1]));
    for (int i = 0; i < 2; i++)
        kept(own.inputs[i]);
    return 0;
}

static void fill(const batch *b, uint64_t seed)
{
    need(samba_fill_normal(b->inputs[0], seed, 0, 1));
    need(samba_fill_integers(b->inputs[1], seed, 0, CLASSES));
}

TEST(test_same_bits)
{
    for (uint64_t seed = 1; seed <= 8; seed++) {
        fill(&copied, seed);
        fill(&own, seed);
        run(sessions[0], &copied);
        const batch mixed = {{seed % 3 ? own.inputs[0] : copied.inputs[0], seed % 2 ? own.inputs[1] : copied.inputs[1]}};
        run(sessions[1], &mixed);
        assert_same_bits(sessions[0], sessions[1], COMPUTED);
    }
    run(sessions[0], &copied); /* the last batch again: nobody has written over it */
    run(sessions[1], &own);
    assert_same_bits(sessions[0], sessions[1], COMPUTED);
    need(samba_session_set(sessions[1], own.inputs[0]));
    assert_memory_equal(samba_tensor_data(kept(get(sessions[1], "image"))), samba_tensor_data(copied.inputs[0]),
                        SAMPLES * PIXELS * sizeof(float));
}

TEST(test_refusals)
{
    samba_tensor *none, *memory, *turned;
    fill(&own, 1);
    samba_run_options r = giving(2, own.inputs);
    ((int64_t *)samba_tensor_data(own.inputs[1]))[2] = CLASSES;
    refuse(samba_run(sessions[1], &r), SAMBA_ERROR_ARGUMENT, "label");
    need(samba_tensor_reshape(own.inputs[0], 2, SHAPE(PIXELS, SAMPLES), &memory));
    need(samba_tensor_permute(kept(memory), (const int[]){1, 0}, &turned));
    need(samba_tensor_set_name(kept(turned), "image"));
    r.inputs = &turned, r.input_count = 1;
    refuse(samba_run(sessions[1], &r), SAMBA_ERROR_ARGUMENT, "another view of the memory");
    refuse(samba_session_input(sessions[1], "y", &none), SAMBA_ERROR_NAME, "there is no input \"y\"");
    refuse(samba_session_input(sessions[1], NULL, &none), SAMBA_ERROR_ARGUMENT, "no name");
    assert_null(none);
}

TEST(test_never_given)
{
    samba_session *session = classifier_new(&plain, &copied, 2, 1, 4);
    uint64_t before = bits_of(session, COMPUTED);
    need(run_sections(session, NULL, "ZEROGRAD")); /* reads none */
    refuse(samba_run(session, NULL), SAMBA_ERROR_STATE, "reads the inputs \"image\", \"label\", which were never given");
    samba_run_options r = giving(1, copied.inputs);
    refuse(samba_run(session, &r), SAMBA_ERROR_STATE,
           "(FWD) reads the input \"label\", which was never given: give it to this run, or set it before");
    refuse(samba_run(session, NULL), SAMBA_ERROR_STATE, "\"image\", \"label\""); /* the refused run gave nothing */
    assert_true(bits_of(session, COMPUTED) == before);
    need(samba_session_set(session, copied.inputs[1]));
    need(samba_run(session, &r));
    need(samba_run(session, NULL)); /* over what the device has */

    session = classifier_new(&plain, &copied, 1, 1, 4);
    samba_tensor *label;
    need(samba_session_input(session, "label", &label)); /* its memory is the caller's to fill */
    kept(label);
    refuse(samba_run(session, NULL), SAMBA_ERROR_STATE, "reads the input \"image\", which");
    need(samba_run(session, &r));
}

TEST(test_wrong_label)
{
    batch b = batch_new(SAMPLES), wrong = batch_new(SAMPLES);
    samba_session *session = classifier_new(&dropping, &b, 1, 2, 4), *twin = classifier_new(&dropping, &b, 1, 2, 4);
    run(session, &b);
    run(twin, &b);
    need(samba_fill_normal(wrong.inputs[0], 99, 0, 1));
    int64_t *labels = samba_tensor_data(wrong.inputs[1]);
    uint64_t before = bits_of(session, COMPUTED);
    samba_run_options r = giving(2, wrong.inputs);
    r.hyperparameters = (samba_hyperparameter[]){{"lr", 0.5}}, r.hyperparameter_count = 1;
    static const int64_t bad[] = {CLASSES, -1, -99, INT64_MAX, INT64_MIN};
    for (int i = 0; i < 2 * LENGTH(bad); i++) { /* given, then set, which they may be until a run reads them */
        char part[96];
        labels[3] = bad[i / 2];
        snprintf(part, sizeof part, "input label[3] = %lld is outside [0, 7) (cross_entropy", (long long)labels[3]);
        if (i % 2)
            need(samba_session_set(session, wrong.inputs[1]));
        refuse(i % 2 ? run_sections(session, NULL, "FWD") : samba_run(session, &r), SAMBA_ERROR_ARGUMENT, part);
        assert_int_equal(strstr(samba_error_message(context), "it was set before, and this run was given no other") != NULL,
                         i % 2);
    }
    assert_true(bits_of(session, COMPUTED) == before && get_hyper(session, "lr") == 0.01);
    need(run_sections(session, NULL, "OPT")); /* reads none */
    need(run_sections(twin, NULL, "OPT"));
    run(session, &b); /* dropout's count is as it was, too */
    run(twin, &b);
    assert_same_bits(session, twin, COMPUTED);
    labels[3] = -100; /* torch's ignore_index */
    need(samba_session_set(session, wrong.inputs[1]));
    need(run_sections(session, NULL, "FWD"));
    r.hyperparameter_count = 0;
    need(samba_run(session, &r));
    labels[3] = CLASSES;
    need(samba_session_set(session, wrong.inputs[1]));
    labels[3] = 0;
    need(samba_run(session, &r)); /* given others, it forgets those */
    need(run_sections(session, NULL, "FWD"));
}

TEST_MAIN_WITH(setup, drop_kept, test_same_bits, test_refusals, test_never_given, test_wrong_label)
