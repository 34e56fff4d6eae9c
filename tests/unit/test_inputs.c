/* SPDX-License-Identifier: Apache-2.0
 *
 * Inputs that lie in the session's memory (samba_session_input): the same bits as copied ones, batch after batch and as a mixture
 * of both; values stay from run to run; other views of the memory, other kinds of tensors and wrong names are refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "training.h"

#include <sambaflow/functional.h>
#include <sambaflow/layers.h>

enum { ROWS = 6, COLS = 6, CLASSES = 4 };

static void model(samba_graph *g, const void *options)
{
    (void)options;
    samba_value hidden = samba_relu(samba_linear(samba_input(g, "x"), "hidden", COLS));
    samba_loss(g, "loss", samba_cross_entropy(samba_linear(hidden, "last", CLASSES), samba_input(g, "label")));
}

static samba_session *sessions[2];
static samba_tensor *x, *label, *own_x, *own_label;

static int setup(void **state)
{
    (void)state;
    x = tensor("x", SAMBA_FLOAT32, 2, SHAPE(ROWS, COLS));
    label = tensor("label", SAMBA_INT64, 1, SHAPE(ROWS));
    samba_optimizer sgd = samba_sgd(0.1);
    samba_compile_options options = compile_of("inputs", model, NULL, 2, (samba_tensor *[]){x, label});
    options.optimizer_count = 1;
    options.optimizers = &sgd;
    for (int i = 0; i < 2; i++)
        sessions[i] = compile_and_open(&options, 1, 3);
    need(samba_session_input(sessions[1], "x", &own_x));
    need(samba_session_input(sessions[1], "label", &own_label));
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    samba_tensor *const tensors[] = {x, label, own_x, own_label};
    for (int i = 0; i < 4; i++)
        samba_tensor_free(tensors[i]);
    for (int i = 0; i < 2; i++)
        samba_session_free(sessions[i]);
    return 0;
}

static samba_status run(samba_session *session, samba_tensor *first, samba_tensor *second)
{
    samba_run_options options = samba_run_defaults();
    options.inputs = (samba_tensor *[]){first, second};
    options.input_count = 2;
    return samba_run(session, &options);
}

static void fill(samba_tensor *values, samba_tensor *labels, uint64_t seed)
{
    need(samba_fill_normal(values, seed, 0, 1));
    need(samba_fill_integers(labels, seed, 0, CLASSES));
}

static void test_same_bits(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 8; seed++) {
        fill(x, label, seed);
        fill(own_x, own_label, seed);
        need(run(sessions[0], x, label));
        need(run(sessions[1], seed % 3 ? own_x : x, seed % 2 ? own_label : label));
        assert_same_bits(sessions[0], sessions[1], COMPUTED);
    }
    need(run(sessions[0], x, label)); /* the last batch again: nobody has written over it */
    need(run(sessions[1], own_x, own_label));
    assert_same_bits(sessions[0], sessions[1], COMPUTED);
    need(samba_session_set(sessions[1], own_x));
    samba_tensor *copy = get(sessions[1], "x");
    assert_memory_equal(samba_tensor_data(copy), samba_tensor_data(x), ROWS * COLS * sizeof(float));
    samba_tensor_free(copy);
}

static void test_refusals(void **state)
{
    (void)state;
    samba_tensor *none, *turned;
    fill(own_x, own_label, 1);
    need(samba_tensor_permute(own_x, (const int[]){1, 0}, &turned));
    need(samba_tensor_set_name(turned, "x"));
    refuse(run(sessions[1], turned, own_label), SAMBA_ERROR_ARGUMENT, "another view of the memory");
    samba_tensor_free(turned);
    ((int64_t *)samba_tensor_data(own_label))[2] = CLASSES;
    refuse(run(sessions[1], own_x, own_label), SAMBA_ERROR_ARGUMENT, "label");
    refuse(samba_session_input(sessions[1], "y", &none), SAMBA_ERROR_NAME, "there is no input \"y\"");
    refuse(samba_session_input(sessions[1], "hidden.weight", &none), SAMBA_ERROR_NAME, "kind parameter, not input");
    refuse(samba_session_input(sessions[1], NULL, &none), SAMBA_ERROR_ARGUMENT, "no name");
    assert_null(none);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test_setup_teardown(test_same_bits, setup, teardown),
                                       cmocka_unit_test_setup_teardown(test_refusals, setup, teardown)};
    if (!training_begin())
        return 1;
    return training_end(cmocka_run_group_tests(tests, NULL, NULL));
}
