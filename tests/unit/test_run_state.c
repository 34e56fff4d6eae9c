/* SPDX-License-Identifier: Apache-2.0
 *
 * What a session remembers from run to run, so that parts of a schedule that do not belong together are no step: the mode of FWD,
 * which BCKWD goes on in; a run that met bad data, whose gradients no OPT takes. And which buffers are an optimizer's, whatever
 * the model calls its own; and which indices an input bounds.
 * And that initial weights are drawn when they are needed, those of a file never. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "runtime/runtime.h"
#include <sambaflow/data.h>
#include <sambaflow/sambaflow.h>

enum { BATCH = 8, WIDTH = 20, CLASSES = 5 };
static samba_context *context;
static char folder[] = "/tmp/sambaflow-run-state-XXXXXX", path[256];
static samba_tensor *x, *y;

static void need(samba_status status)
{
    if (status != SAMBA_OK)
        fail_msg("%s", samba_error_message(context));
}

static samba_value tail(samba_graph *g, samba_value hidden)
{
    samba_value loss = samba_cross_entropy(samba_linear(hidden, "out", CLASSES), samba_input(g, "y"));
    samba_loss(g, "loss", loss);
    return loss;
}

static void dropping(samba_graph *g, const void *unused)
{
    (void)unused;
    tail(g, samba_dropout(samba_relu(samba_linear(samba_input(g, "x"), "in", 16)), "drop", 0.5));
}

/* Looks labels times 2 up among 9 rows: all but label 4 are there, and label 5. */
static void looking_up(samba_graph *g, const void *unused)
{
    (void)unused;
    samba_value index = samba_mul(samba_input(g, "y"), samba_integer(g, 2));
    tail(g, samba_add(samba_input(g, "x"), samba_embedding(index, "table", 8, WIDTH)));
}

/* Row r of `pairs` is a row of a table of 8 and one of a table of 100: neither table bounds the other's column. */
static void looking_up_columns(samba_graph *g, const void *unused)
{
    (void)unused;
    samba_value pairs = samba_input(g, "y");
    samba_value few = samba_embedding(samba_select(pairs, 1, 0), "few", 8, WIDTH),
                many = samba_embedding(samba_select(pairs, 1, 1), "many", 100, WIDTH);
    samba_loss(g, "loss", samba_mean(samba_mul(samba_input(g, "x"), samba_mul(few, many)), 0, NULL, false));
}

/* Counts its steps under names that optimizers use as well. */
static void counting(samba_graph *g, const void *unused)
{
    (void)unused;
    samba_scope_push(g, "enc");
    for (int i = 0; i < 3; i++) {
        static const char *const names[] = {"step", "count", "exp_avg"};
        samba_value buffer =
            samba_register_buffer(g, names[i], SAMBA_FLOAT64, 0, NULL, (samba_initializer){SAMBA_INIT_ZEROS, 0, 0});
        samba_assign(buffer, samba_add_scalar(buffer, 1));
    }
    samba_scope_pop(g);
    /* of an optimizer that there is not */
    static const char *const others[] = {"tick.step", "out.weight.momentum_buffer", "out.bias.max_exp_avg_sq"};
    for (int i = 0; i < 3; i++) {
        samba_value buffer =
            samba_register_buffer(g, others[i], SAMBA_FLOAT64, 0, NULL, (samba_initializer){SAMBA_INIT_ZEROS, 0, 0});
        samba_assign(buffer, samba_add_scalar(buffer, 1));
    }
    tail(g, samba_input(g, "x"));
}

/* What buffers were goes to other buffers and to outputs, as it is or with what overwrites it. */
static void passing_on(samba_graph *g, const void *unused)
{
    (void)unused;
    samba_initializer zeros = {SAMBA_INIT_ZEROS, 0, 0}, normal = {SAMBA_INIT_NORMAL, 0, 1};
    const int64_t shape[] = {BATCH};
    samba_value a = samba_register_buffer(g, "a", SAMBA_FLOAT32, 1, shape, zeros),
                b = samba_register_buffer(g, "b", SAMBA_FLOAT32, 1, shape, zeros);
    samba_value square = samba_register_buffer(g, "square", SAMBA_FLOAT32, 2, (const int64_t[]){3, 3}, normal);
    samba_value fresh = samba_mul_scalar(samba_cast(samba_input(g, "y"), SAMBA_FLOAT32), 0.5);
    samba_assign(b, a);
    samba_assign(a, fresh);
    samba_assign(square, samba_transpose(square, 0, 1));
    samba_output(g, "old", a);
    samba_output(g, "both", samba_add(samba_mul_scalar(fresh, 2), a));
    tail(g, samba_input(g, "x"));
}

/* Two delay lines, whose buffers lie side by side in the order in which they pass on:
 * what each was goes to the one before it, and is an output. */
enum { TAPS = 5, LONG = 4096 };
static const int64_t tap_sizes[] = {20, LONG}; /* all in one tile, and for several threads */
static void delaying(samba_graph *g, const void *unused)
{
    (void)unused;
    char name[16];
    for (int line = 0; line < 2; line++) {
        samba_value taps[TAPS];
        for (int i = 0; i < TAPS; i++) {
            snprintf(name, sizeof name, "tap%d_%d", line, i);
            taps[i] = samba_register_buffer(g, name, SAMBA_FLOAT32, 1, &tap_sizes[line],
                                            (samba_initializer){SAMBA_INIT_CONSTANT, i, 0});
        }
        for (int i = 0; i < TAPS; i++) {
            snprintf(name, sizeof name, "was%d_%d", line, i);
            samba_output(g, name, taps[i]);
            samba_assign(taps[i], i + 1 < TAPS ? taps[i + 1] : samba_add_scalar(taps[i], 1));
        }
    }
    tail(g, samba_input(g, "x"));
}

/* A loss of buffers that FWD overwrites: gradients are of what they were. */
static void differentiating(samba_graph *g, const void *unused)
{
    (void)unused;
    const int64_t shape[] = {BATCH};
    samba_initializer two = {SAMBA_INIT_CONSTANT, 2, 0};
    samba_value plain = samba_parameter(g, "plain", SAMBA_FLOAT32, 1, shape, two),
                squared = samba_parameter(g, "squared", SAMBA_FLOAT32, 1, shape, two);
    samba_value buffer =
        samba_register_buffer(g, "buffer", SAMBA_FLOAT32, 1, shape, (samba_initializer){SAMBA_INIT_CONSTANT, 3, 0});
    samba_value first = samba_reshape(samba_slice(buffer, 0, 0, 1, 1), 0, NULL);
    samba_value sum = samba_add(samba_mul(plain, buffer), samba_mul(samba_mul(squared, squared), first));
    samba_assign(buffer, samba_mul_scalar(samba_cast(samba_input(g, "y"), SAMBA_FLOAT32), 0.5));
    samba_loss(g, "loss",
               samba_sum(samba_add(sum, samba_mul_scalar(samba_mean(samba_input(g, "x"), 0, NULL, false), 0)), 0, NULL, false));
}

static samba_session *session_of(const char *name, samba_model model, samba_optimizer optimizer, int micro_batches)
{
    samba_session *session;
    samba_compile_options o = samba_compile_defaults();
    o.name = name, o.model = model;
    o.output_folder = folder;
    o.inputs = (samba_tensor *[]){x, y}, o.input_count = 2;
    o.optimizers = &optimizer, o.optimizer_count = 1;
    o.grad_accumulation_steps = micro_batches;
    need(samba_compile(context, &o, path, sizeof path));
    need(samba_session_new(context, path, NULL, &session));
    return session;
}

static samba_status run(samba_session *session, const char *type, bool train)
{
    samba_run_options o = samba_run_defaults();
    o.section_types = &type, o.section_type_count = type != NULL;
    o.inputs = (samba_tensor *[]){x, y};
    o.input_count = !type || strcmp(type, "FWD") == 0 ? 2 : 0;
    o.train = train;
    return samba_run(session, &o);
}

static void assert_same(samba_session *a, samba_session *b, const char *name)
{
    samba_tensor *p, *q;
    need(samba_session_get_by_name(a, name, &p));
    need(samba_session_get_by_name(b, name, &q));
    assert_memory_equal(samba_tensor_data(p), samba_tensor_data(q),
                        (size_t)samba_tensor_numel(p) * samba_dtype_size(samba_tensor_dtype(p)));
    samba_tensor_free(p);
    samba_tensor_free(q);
}

static double item(samba_session *session, const char *name)
{
    samba_tensor *t;
    double value;
    need(samba_session_get_by_name(session, name, &t));
    need(samba_tensor_item(t, &value));
    samba_tensor_free(t);
    return value;
}

static void test_backward_has_the_mode_of_its_forward(void **state)
{
    (void)state;
    samba_session *a = session_of("mode", dropping, samba_sgd(0.1), 1), *b;
    need(samba_session_new(context, path, NULL, &b));
    for (int train = 0; train < 2; train++) {
        need(run(a, "FWD", train));
        need(run(b, "FWD", train));
        need(run(a, "BCKWD", train));
        need(run(b, "BCKWD", !train));
        assert_same(a, b, "in.weight.grad");
        assert_same(a, b, "out.weight.grad");
    }
    need(run(a, "FWD", false)); /* a run that goes on and begins anew has one mode */
    samba_run_options o = samba_run_defaults();
    o.section_types = (const char *[]){"BCKWD", "FWD"}, o.section_type_count = 2;
    assert_int_equal(samba_run(a, &o), SAMBA_ERROR_STATE);
    assert_non_null(strstr(samba_error_message(context),
                           "begins with train true, and sections before it go on from a forward run with train false"));
    o.train = false;
    need(samba_run(a, &o));
    samba_session_free(a);
    samba_session_free(b);
}

static void test_bad_data_updates_nothing(void **state)
{
    (void)state;
    samba_session *a = session_of("index", looking_up, samba_sgd(0.1), 2), *b;
    need(samba_session_new(context, path, NULL, &b));
    int64_t *labels = samba_tensor_data(y), good = labels[3];
    need(run(a, NULL, true)); /* the first of two micro-batches is gone with the second */
    labels[3] = 4;
    assert_int_equal(run(a, NULL, true), SAMBA_ERROR_ARGUMENT);
    assert_non_null(strstr(samba_error_message(context), "up to OPT, which did not run"));
    assert_int_equal(run(a, "OPT", true), SAMBA_ERROR_STATE);
    assert_int_equal(run(a, "BCKWD", true), SAMBA_ERROR_STATE);
    assert_same(a, b, "table.weight");
    assert_same(a, b, "out.weight");
    labels[3] = good;
    for (int i = 0; i < 2; i++) {
        need(run(a, NULL, true));
        need(run(b, NULL, true));
    }
    assert_same(a, b, "table.weight");
    assert_same(a, b, "out.weight");
    samba_session_free(a);
    samba_session_free(b);
}

static void test_buffers_of_the_model(void **state)
{
    (void)state;
    char file[300];
    samba_session *a = session_of("names", counting, samba_adamw(0.1), 1), *b;
    need(samba_session_new(context, path, NULL, &b));
    for (int i = 0; i < 3; i++)
        need(run(a, NULL, true));
    snprintf(file, sizeof file, "%s/weights.safetensors", folder);
    need(samba_session_save(a, file, false));
    samba_tensor_list list;
    need(samba_safetensors_read(context, file, &list));
    assert_int_equal(list.count, 8); /* weight, bias, six counters, nothing of AdamW */
    samba_tensor_list_free(context, &list);
    need(samba_session_load(b, file));
    assert_true(item(b, "enc.step") == 3 && item(b, "enc.count") == 3 && item(b, "enc.exp_avg") == 3);
    assert_true(item(b, "tick.step") == 3 && item(b, "out.weight.momentum_buffer") == 3 &&
                item(b, "out.bias.max_exp_avg_sq") == 3);
    assert_same(a, b, "out.weight");
    samba_session_free(a);
    samba_session_free(b);
}

static void test_columns_of_indices(void **state)
{
    (void)state;
    samba_tensor *labels = y;
    need(samba_tensor_new(context, "y", SAMBA_INT64, 2, (const int64_t[]){BATCH, 2}, &y));
    int64_t *pairs = samba_tensor_data(y);
    for (int i = 0; i < 2 * BATCH; i++)
        pairs[i] = i % 2 ? 99 - i : i % 8;
    samba_session *session = session_of("columns", looking_up_columns, samba_sgd(0.1), 1);
    need(run(session, NULL, true));
    pairs[4] = 8;
    assert_int_equal(run(session, NULL, true), SAMBA_ERROR_ARGUMENT);
    assert_non_null(strstr(samba_error_message(context), "met an index that is out of range"));
    samba_session_free(session);
    samba_tensor_free(y);
    y = labels;
}

static void assert_values(samba_session *session, const char *name, const float *values, int count)
{
    samba_tensor *t;
    need(samba_session_get_by_name(session, name, &t));
    assert_memory_equal(samba_tensor_data(t), values, sizeof *values * (size_t)count);
    samba_tensor_free(t);
}

static void test_buffers_are_read_before_they_are_written(void **state)
{
    (void)state;
    samba_session *session = session_of("passing", passing_on, samba_sgd(0.1), 1);
    const int64_t *labels = samba_tensor_data(y);
    float square[9], turned[9], fresh[BATCH], old[BATCH] = {0}, both[BATCH];
    samba_tensor *t;
    need(samba_session_get_by_name(session, "square", &t));
    memcpy(square, samba_tensor_data(t), sizeof square);
    samba_tensor_free(t);
    for (int k = 0; k < 9; k++)
        turned[k] = square[k % 3 * 3 + k / 3];
    for (int i = 0; i < 3; i++) {
        need(run(session, NULL, true));
        for (int k = 0; k < BATCH; k++) {
            fresh[k] = 0.5f * (float)labels[k];
            both[k] = 2 * fresh[k] + old[k];
        }
        assert_values(session, "square", i % 2 ? square : turned, 9);
        assert_values(session, "old", old, BATCH);
        assert_values(session, "both", both, BATCH);
        assert_values(session, "a", fresh, BATCH);
        assert_values(session, "b", old, BATCH);
        memcpy(old, fresh, sizeof old);
    }
    samba_session_free(session);
}

static void test_buffers_pass_on_what_they_were(void **state)
{
    (void)state;
    samba_session *session = session_of("delaying", delaying, samba_sgd(0.1), 1);
    static float values[LONG];
    char name[16];
    for (int done = 0; done < 20; done++) {
        need(run(session, NULL, true));
        for (int i = 0; i < 4 * TAPS; i++) {
            int line = i / 2 / TAPS, tap = i / 2 % TAPS, now = i % 2;
            snprintf(name, sizeof name, now ? "tap%d_%d" : "was%d_%d", line, tap);
            for (int k = 0; k < LONG; k++)
                values[k] = (float)(tap + done + now);
            assert_values(session, name, values, (int)tap_sizes[line]);
        }
    }
    samba_session_free(session);
}

static void test_gradients_of_what_buffers_were(void **state)
{
    (void)state;
    samba_session *session = session_of("differentiating", differentiating, samba_sgd(0), 1);
    const int64_t *labels = samba_tensor_data(y);
    float was[BATCH], of_squared[BATCH];
    for (int k = 0; k < BATCH; k++)
        was[k] = 3;
    for (int i = 0; i < 2; i++) {
        need(run(session, "FWD", true));
        need(run(session, "BCKWD", true));
        for (int k = 0; k < BATCH; k++)
            of_squared[k] = 4 * was[0];
        assert_values(session, "plain.grad", was, BATCH);
        assert_values(session, "squared.grad", of_squared, BATCH);
        for (int k = 0; k < BATCH; k++)
            was[k] = 0.5f * (float)labels[k];
        assert_values(session, "buffer", was, BATCH);
    }
    samba_session_free(session);
}

static int make(void **state)
{
    (void)state;
    assert_non_null(mkdtemp(folder));
    assert_int_equal(samba_context_new(NULL, &context), SAMBA_OK);
    need(samba_tensor_new(context, "x", SAMBA_FLOAT32, 2, (const int64_t[]){BATCH, WIDTH}, &x));
    need(samba_tensor_new(context, "y", SAMBA_INT64, 1, (const int64_t[]){BATCH}, &y));
    need(samba_fill_normal(x, 1, 0, 1));
    need(samba_fill_integers(y, 2, 0, CLASSES - 1));
    return 0;
}

/* Weights that are read or run are what they would have been from the start; those that were set, or loaded, are not drawn. */
static void test_initial_weights_wait(void **state)
{
    (void)state;
    char weights[300];
    snprintf(weights, sizeof weights, "%s/weights.safetensors", folder);
    samba_session *session = session_of("waiting", dropping, samba_sgd(0.1), 1), *other, *loaded;
    need(samba_session_new(context, path, NULL, &other));
    need(samba_session_new(context, path, NULL, &loaded));
    const int32_t count = session->undrawn_count;
    assert_true(count >= 4);
    samba_tensor *weight, *ones;
    need(samba_tensor_new(context, "in.weight", SAMBA_FLOAT32, 2, (const int64_t[]){16, WIDTH}, &weight));
    need(samba_session_get(session, weight)); /* reading draws one */
    assert_int_equal(session->undrawn_count, count - 1);
    need(samba_tensor_new(context, "in.weight", SAMBA_FLOAT32, 2, (const int64_t[]){16, WIDTH}, &ones));
    for (int i = 0; i < 16 * WIDTH; i++)
        ((float *)samba_tensor_data(ones))[i] = 1;
    need(samba_session_set(other, ones)); /* setting spares one, and stays */
    assert_int_equal(other->undrawn_count, count - 1);
    need(run(other, "FWD", false));
    assert_int_equal(other->undrawn_count, 0); /* a run needs all */
    need(samba_session_get(other, ones));
    for (int i = 0; i < 16 * WIDTH; i++)
        assert_true(((const float *)samba_tensor_data(ones))[i] == 1);
    need(samba_session_set(other, weight));
    assert_same(session, other, "in.weight");
    assert_same(session, other, "out.weight"); /* drawn by a get here and by a run there */
    need(samba_session_save(session, weights, false));
    need(samba_session_load(loaded, weights));
    assert_int_equal(loaded->undrawn_count, count - 4); /* all of the file; what is left are gradients, of the loss a one */
    assert_same(session, loaded, "out.weight");
    samba_tensor_free(weight), samba_tensor_free(ones);
    samba_session_free(session), samba_session_free(other), samba_session_free(loaded);
}

static int clear(void **state)
{
    (void)state;
    char command[300];
    samba_tensor_free(x);
    samba_tensor_free(y);
    samba_context_free(context);
    snprintf(command, sizeof command, "rm -r '%s'", folder);
    return system(command);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_backward_has_the_mode_of_its_forward),
                                       cmocka_unit_test(test_bad_data_updates_nothing),
                                       cmocka_unit_test(test_buffers_of_the_model),
                                       cmocka_unit_test(test_columns_of_indices),
                                       cmocka_unit_test(test_buffers_are_read_before_they_are_written),
                                       cmocka_unit_test(test_buffers_pass_on_what_they_were),
                                       cmocka_unit_test(test_gradients_of_what_buffers_were),
                                       cmocka_unit_test(test_initial_weights_wait)};
    return cmocka_run_group_tests(tests, make, clear);
}
