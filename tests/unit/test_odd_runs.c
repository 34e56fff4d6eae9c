/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs that ask for more than there is: section types that the model does not need, which are left out, and labels that are none,
 * which are refused where a run reads them and not where they are set. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/base.h"
#include "classifier.h"

/* A loop that asks for every type in any case: those that the model does not need are left out, and told once each. */
static void test_skipped_types(void **unused)
{
    (void)unused;
    batch b = batch_new(SAMPLES);
    /* which does not clip */
    samba_compile_options options = classifier_options(&dropping, &b, (samba_optimizer[]){samba_sgd(0.1)});
    samba_session *session = compile_and_open(&options, 2, 4), *twin = compile_and_open(&options, 2, 4);
    samba_run_options r = samba_run_defaults();
    r.inputs = b.inputs, r.input_count = 2;
    r.section_types = (const char *const[]){"FWD", "BCKWD", "gradnorm", "OPT"}, r.section_type_count = 4;
    need(samba_run(session, &r));
    run(twin, &b);
    assert_same_bits(session, twin, COMPUTED);
    assert_string_equal(samba_session_warning(session),
                        "the PEF that ran has no section of type GRADNORM, which its model does not need: runs leave it out");
    r.section_types = (const char *const[]){"ZEROGRAD", "FWD", "BCKWD", "Reduce", "GRADNORM", "OPT"}, r.section_type_count = 6;
    need(samba_run(session, &r));
    run(twin, &b);
    assert_same_bits(session, twin, COMPUTED);
    assert_string_equal(
        samba_session_warning(session),
        "the PEF that ran has no section of type ZEROGRAD, REDUCE, which its model does not need: runs leave it out");
    size_t size;
    char *before = snapshot(session, ~0u, &size);
    need(run_types(session, TYPES("REDUCE"))); /* nothing runs, not the schedule */
    need(run_types(session, TYPES("ZEROGRAD", "GRADNORM")));
    char *after = snapshot(session, ~0u, &size);
    assert_memory_equal(before, after, size);
    assert_string_equal(samba_session_warning(session), "");
    refuse(run_types(session, TYPES("FWD", "REDUCES")), SAMBA_ERROR_NAME,
           "there is no section type \"REDUCES\"; this PEF has: \"FWD\", \"BCKWD\", \"OPT\"");
    free(before);
    free(after);
    samba_session_free(session);
    samba_session_free(twin);
    batch_free(&b);
}

static void test_wrong_label(void **unused)
{
    (void)unused;
    batch b = batch_new(SAMPLES), wrong = batch_new(SAMPLES);
    samba_session *session = classifier_new(&dropping, &b, 1, 2, 4), *twin = classifier_new(&dropping, &b, 1, 2, 4);
    run(session, &b);
    run(twin, &b);
    need(samba_fill_normal(wrong.inputs[0], 99, 0, 1));
    int64_t *labels = samba_tensor_data(wrong.inputs[1]);
    size_t size;
    char *before = snapshot(session, ~0u, &size), *after;
    samba_run_options r = samba_run_defaults();
    r.inputs = wrong.inputs, r.input_count = 2;
    r.hyperparameters = (samba_hyperparameter[]){{"lr", 0.5}}, r.hyperparameter_count = 1;
    static const int64_t bad[] = {CLASSES, -1, -99, INT64_MAX, INT64_MIN};
    for (int i = 0; i < (int)(sizeof bad / sizeof bad[0]); i++) {
        char part[96];
        labels[3] = bad[i];
        snprintf(part, sizeof part, "input label[3] = %lld is outside [0, 7) (cross_entropy", (long long)bad[i]);
        refuse(samba_run(session, &r), SAMBA_ERROR_ARGUMENT, part);
    }
    after = snapshot(session, ~0u, &size);
    assert_memory_equal(before, after, size);
    assert_true(get_hyper(session, "lr") == 0.01);
    run(session, &b); /* dropout's count is as it was, too */
    run(twin, &b);
    assert_same_bits(session, twin, COMPUTED);
    for (int i = 0; i < (int)(sizeof bad / sizeof bad[0]); i++) { /* set, they need mean nothing before a run reads them */
        char part[160];
        labels[3] = bad[i];
        need(samba_session_set(session, wrong.inputs[1]));
        snprintf(part, sizeof part, "input label[3] = %lld is outside [0, 7) (cross_entropy", (long long)bad[i]);
        refuse(run_types(session, TYPES("FWD")), SAMBA_ERROR_ARGUMENT, part);
        refuse(run_types(session, TYPES("FWD")), SAMBA_ERROR_ARGUMENT, "): it was set before, and this run was given no other");
        need(run_types(session, TYPES("OPT"))); /* reads none */
    }
    labels[3] = -100; /* torch's ignore_index */
    need(samba_session_set(session, wrong.inputs[1]));
    need(run_types(session, TYPES("FWD")));
    r.hyperparameter_count = 0;
    need(samba_run(session, &r));
    labels[3] = CLASSES;
    need(samba_session_set(session, wrong.inputs[1]));
    labels[3] = 0;
    need(samba_run(session, &r)); /* given others, it forgets those */
    need(run_types(session, TYPES("FWD")));
    free(before);
    free(after);
    samba_session_free(session);
    samba_session_free(twin);
    batch_free(&b);
    batch_free(&wrong);
}

/* Rows that share elements would be written twice; a struct_size may not end inside a field. */
static void test_odd_arguments(void **unused)
{
    (void)unused;
    batch b = batch_new(SAMPLES);
    samba_session *session = classifier_new(&dropping, &b, 1, 2, 4);
    samba_run_options r = samba_run_defaults();
    float memory[SAMPLES * CLASSES] = {0};
    static const int64_t apart[] = {CLASSES, 1}, columns[] = {1, SAMPLES}, shared[] = {CLASSES - 2, 1},
                         crossed[] = {1, SAMPLES - 1}, none[] = {0, 1};
    const int64_t *const strides[] = {apart, columns, shared, crossed, none};
    r.inputs = b.inputs, r.input_count = 2;
    for (int i = 0; i < 5; i++) {
        samba_tensor *logits;
        need(samba_tensor_from_memory(context, "logits", SAMBA_FLOAT32, 2, SHAPE(SAMPLES, CLASSES), strides[i], memory, NULL,
                                      NULL, &logits));
        r.outputs = &logits, r.output_count = 1;
        if (i < 2)
            need(samba_run(session, &r));
        else
            refuse(samba_run(session, &r), SAMBA_ERROR_ARGUMENT, "output \"logits\" is a view whose elements share memory");
        samba_tensor_free(logits);
    }
    r.output_count = 0;
    r.struct_size = sizeof r - 4;
    refuse(samba_run(session, &r), SAMBA_ERROR_ARGUMENT, "its options say a struct_size of");
    samba_session_free(session);
    batch_free(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_skipped_types), cmocka_unit_test(test_wrong_label),
                                       cmocka_unit_test(test_odd_arguments)};
    return training_begin() ? training_end(cmocka_run_group_tests(tests, NULL, NULL)) : 1;
}
