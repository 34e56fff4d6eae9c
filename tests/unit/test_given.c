/* SPDX-License-Identifier: Apache-2.0
 *
 * A session refuses to run over inputs that nobody gave, by their names (runtime/given.c): section by section, without changing
 * anything; what was given, set or is the caller's to fill stays given. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "training.h"

#include <sambaflow/elementwise.h>
#include <sambaflow/layers.h>
#include <sambaflow/loss.h>

enum { SAMPLES = 6 };

static void classifier(samba_graph *g, const void *unused)
{
    (void)unused;
    samba_loss(g, "loss", samba_cross_entropy(samba_linear(samba_input(g, "image"), "lin", 4), samba_input(g, "label")));
    samba_output(g, "unread", samba_abs(samba_parameter(g, "side", SAMBA_FLOAT32, 1, SHAPE(3), (samba_initializer){0})));
}

static samba_session *open_classifier(samba_tensor **inputs, int accumulation)
{
    samba_optimizer adamw = samba_adamw(0.01);
    samba_compile_options options = compile_of("given", classifier, NULL, 2, inputs);
    options.optimizer_count = 1, options.optimizers = &adamw;
    options.grad_accumulation_steps = accumulation;
    return compile_and_open(&options, 1, 4);
}

static samba_status run_type(samba_session *session, const char *type)
{
    samba_run_options r = samba_run_defaults();
    r.section_type_count = 1, r.section_types = &type;
    return samba_run(session, &r);
}

static void test_never_given(void **unused)
{
    (void)unused;
    samba_tensor *inputs[2] = {normal("image", SAMBA_FLOAT32, 2, SHAPE(SAMPLES, 5), 8),
                               tensor("label", SAMBA_INT64, 1, SHAPE(SAMPLES))};
    samba_session *session = open_classifier(inputs, 2);
    size_t size;
    char *before = snapshot(session, COMPUTED, &size), *after;
    need(run_type(session, "ZEROGRAD")); /* reads none */
    refuse(samba_run(session, NULL), SAMBA_ERROR_STATE, "reads the inputs \"image\", \"label\", which were never given");
    samba_run_options r = samba_run_defaults();
    r.input_count = 1, r.inputs = inputs;
    refuse(samba_run(session, &r), SAMBA_ERROR_STATE,
           "(FWD) reads the input \"label\", which was never given: give it to this run, or set it before");
    refuse(samba_run(session, NULL), SAMBA_ERROR_STATE, "\"image\", \"label\""); /* the refused run gave nothing */
    after = snapshot(session, COMPUTED, &size);
    assert_memory_equal(before, after, size);
    need(samba_session_set(session, inputs[1]));
    need(samba_run(session, &r));
    need(samba_run(session, NULL)); /* over what the device has */
    samba_session_free(session);

    session = open_classifier(inputs, 1);
    samba_tensor *own;
    need(samba_session_input(session, "label", &own)); /* its memory is the caller's to fill */
    refuse(samba_run(session, NULL), SAMBA_ERROR_STATE, "reads the input \"image\", which");
    need(samba_run(session, &r));
    samba_tensor_free(own);
    samba_session_free(session);
    free(before);
    free(after);
    samba_tensor_free(inputs[0]);
    samba_tensor_free(inputs[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_never_given)};
    if (!training_begin())
        return 1;
    return training_end(cmocka_run_group_tests(tests, NULL, NULL));
}
