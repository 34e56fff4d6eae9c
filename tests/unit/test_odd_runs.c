/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs that ask for more than there is: section types that the model does not need, which are left out, and labels that are none,
 * which are refused where a run reads them and not where they are set. */
#include "classifier.h"

/* A loop that asks for every type in any case: those that the model does not need are left out, and told once each. */
TEST(test_skipped_types)
{
    batch b = batch_new(SAMPLES);
    /* which does not clip */
    samba_compile_options options = classifier_options(&dropping, &b, (samba_optimizer[]){samba_sgd(0.1)});
    samba_session *session = open_kept(&options, 2, 4), *twin = open_kept(&options, 2, 4);
    samba_run_options r = giving(2, b.inputs);
    need(run_sections(session, &r, "FWD BCKWD gradnorm OPT"));
    run(twin, &b);
    assert_same_bits(session, twin, COMPUTED);
    assert_string_equal(samba_session_warning(session),
                        "the PEF that ran has no section of type GRADNORM, which its model does not need: runs leave it out");
    need(run_sections(session, &r, "ZEROGRAD FWD BCKWD Reduce GRADNORM OPT"));
    run(twin, &b);
    assert_same_bits(session, twin, COMPUTED);
    assert_string_equal(
        samba_session_warning(session),
        "the PEF that ran has no section of type ZEROGRAD, REDUCE, which its model does not need: runs leave it out");
    uint64_t before = bits_of(session, ~0u);
    need(run_sections(session, NULL, "REDUCE")); /* nothing runs, not the schedule */
    need(run_sections(session, NULL, "ZEROGRAD GRADNORM"));
    assert_true(bits_of(session, ~0u) == before);
    assert_string_equal(samba_session_warning(session), "");
    refuse(run_sections(session, NULL, "FWD REDUCES"), SAMBA_ERROR_NAME,
           "there is no section type \"REDUCES\"; this PEF has: \"FWD\", \"BCKWD\", \"OPT\"");
}

TEST(test_wrong_label)
{
    batch b = batch_new(SAMPLES), wrong = batch_new(SAMPLES);
    samba_session *session = classifier_new(&dropping, &b, 1, 2, 4), *twin = classifier_new(&dropping, &b, 1, 2, 4);
    run(session, &b);
    run(twin, &b);
    need(samba_fill_normal(wrong.inputs[0], 99, 0, 1));
    int64_t *labels = samba_tensor_data(wrong.inputs[1]);
    uint64_t before = bits_of(session, ~0u);
    samba_run_options r = giving(2, wrong.inputs);
    r.hyperparameters = (samba_hyperparameter[]){{"lr", 0.5}}, r.hyperparameter_count = 1;
    static const int64_t bad[] = {CLASSES, -1, -99, INT64_MAX, INT64_MIN};
    for (int i = 0; i < LENGTH(bad); i++) {
        char part[96];
        labels[3] = bad[i];
        snprintf(part, sizeof part, "input label[3] = %lld is outside [0, 7) (cross_entropy", (long long)bad[i]);
        refuse(samba_run(session, &r), SAMBA_ERROR_ARGUMENT, part);
    }
    assert_true(bits_of(session, ~0u) == before);
    assert_true(get_hyper(session, "lr") == 0.01);
    run(session, &b); /* dropout's count is as it was, too */
    run(twin, &b);
    assert_same_bits(session, twin, COMPUTED);
    for (int i = 0; i < LENGTH(bad); i++) { /* set, they need mean nothing before a run reads them */
        char part[160];
        labels[3] = bad[i];
        need(samba_session_set(session, wrong.inputs[1]));
        snprintf(part, sizeof part, "input label[3] = %lld is outside [0, 7) (cross_entropy", (long long)bad[i]);
        refuse(run_sections(session, NULL, "FWD"), SAMBA_ERROR_ARGUMENT, part);
        refuse(run_sections(session, NULL, "FWD"), SAMBA_ERROR_ARGUMENT, "): it was set before, and this run was given no other");
        need(run_sections(session, NULL, "OPT")); /* reads none */
    }
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

/* Rows that share elements would be written twice; a struct_size may not end inside a field. */
TEST(test_odd_arguments)
{
    batch b = batch_new(SAMPLES);
    samba_session *session = classifier_new(&dropping, &b, 1, 2, 4);
    samba_run_options r = giving(2, b.inputs);
    float memory[SAMPLES * CLASSES] = {0};
    static const int64_t apart[] = {CLASSES, 1}, columns[] = {1, SAMPLES}, shared[] = {CLASSES - 2, 1},
                         crossed[] = {1, SAMPLES - 1}, none[] = {0, 1};
    const int64_t *const strides[] = {apart, columns, shared, crossed, none};
    for (int i = 0; i < 5; i++) {
        samba_tensor *logits;
        need(samba_tensor_from_memory(context, "logits", SAMBA_FLOAT32, 2, SHAPE(SAMPLES, CLASSES), strides[i], memory, NULL,
                                      NULL, &logits));
        kept(logits);
        r.outputs = &logits, r.output_count = 1;
        if (i < 2)
            need(samba_run(session, &r));
        else
            refuse(samba_run(session, &r), SAMBA_ERROR_ARGUMENT, "output \"logits\" is a view whose elements share memory");
    }
    r.output_count = 0;
    r.struct_size = sizeof r - 4;
    refuse(samba_run(session, &r), SAMBA_ERROR_ARGUMENT, "its options say a struct_size of");
}

TEST_MAIN_WITH(NULL, drop_kept, test_skipped_types, test_wrong_label, test_odd_arguments)
