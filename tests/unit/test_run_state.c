/* SPDX-License-Identifier: Apache-2.0
 *
 * What a session remembers from run to run, so that parts of a schedule that do not belong together are no step: the mode of FWD,
 * which BCKWD goes on in; a run that met bad data, whose gradients no OPT takes. Which buffers are an optimizer's, which indices
 * an input bounds, and that initial weights are drawn when they are needed. */
#include "training.h"
#include "runtime/runtime.h"

enum { BATCH = 8, WIDTH = 20, CLASSES = 5 };
static char path[256];
static samba_tensor *inputs[2];

static int setup(void **unused)
{
    inputs[0] = kept(normal("x", SAMBA_FLOAT32, 2, SHAPE(BATCH, WIDTH), 1));
    inputs[1] = kept(tensor("y", SAMBA_INT64, 1, SHAPE(BATCH)));
    need(samba_fill_integers(inputs[1], 2, 0, CLASSES - 1));
    return 0;
}

/* ---- models ---- */
static void tail(samba_graph *g, samba_value hidden)
{
    samba_loss(g, "loss", samba_cross_entropy(samba_linear(hidden, "out", CLASSES), samba_input(g, "y")));
}

static samba_value buffer_of(samba_graph *g, const char *name, int64_t size, double value)
{
    return samba_register_buffer(g, name, SAMBA_FLOAT32, 1, &size, (samba_initializer){SAMBA_INIT_CONSTANT, value, 0});
}

MODEL(dropping) { tail(g, samba_dropout(samba_relu(samba_linear(samba_input(g, "x"), "in", 16)), "drop", 0.5)); }

/* Looks labels times 2 up among 9 rows: all but label 4 are there, and label 5. */
MODEL(looking_up)
{
    samba_value index = samba_mul(samba_input(g, "y"), samba_integer(g, 2));
    tail(g, samba_add(samba_input(g, "x"), samba_embedding(index, "table", 8, WIDTH)));
}

/* Row r of `pairs` is a row of a table of 8 and one of a table of 100: neither table bounds the other's column. */
MODEL(looking_up_columns)
{
    samba_value pairs = samba_input(g, "y");
    samba_value few = samba_embedding(samba_select(pairs, 1, 0), "few", 8, WIDTH),
                many = samba_embedding(samba_select(pairs, 1, 1), "many", 100, WIDTH);
    samba_loss(g, "loss", samba_mean(samba_mul(samba_input(g, "x"), samba_mul(few, many)), 0, NULL, false));
}

/* Counts its steps under names that optimizers use as well, and one that there is not. */
static const char *const counters[] = {
    "enc.step", "enc.count", "enc.exp_avg", "tick.step", "out.weight.momentum_buffer", "out.bias.max_exp_avg_sq"};
MODEL(counting)
{
    samba_scope_push(g, "enc");
    for (int i = 0; i < LENGTH(counters); i++) {
        if (i == 3)
            samba_scope_pop(g);
        samba_value buffer = samba_register_buffer(g, counters[i] + (i < 3 ? strlen("enc.") : 0), SAMBA_FLOAT64, 0, NULL,
                                                   (samba_initializer){SAMBA_INIT_ZEROS, 0, 0});
        samba_assign(buffer, samba_add_scalar(buffer, 1));
    }
    tail(g, samba_input(g, "x"));
}

/* Two delay lines, whose buffers lie side by side in the order in which they pass on:
 * what each was goes to the one before it, and is an output. And what a buffer was beside what overwrites it, or turned. */
enum { TAPS = 5, LONG = 4096 };
static const int64_t tap_sizes[] = {20, LONG}; /* all in one tile, and for several threads */
MODEL(delaying)
{
    char name[16];
    for (int line = 0; line < 2; line++) {
        samba_value taps[TAPS];
        for (int i = 0; i < TAPS; i++) {
            snprintf(name, sizeof name, "tap%d_%d", line, i);
            taps[i] = buffer_of(g, name, tap_sizes[line], i);
        }
        for (int i = 0; i < TAPS; i++) {
            snprintf(name, sizeof name, "was%d_%d", line, i);
            samba_output(g, name, taps[i]);
            samba_assign(taps[i], i + 1 < TAPS ? taps[i + 1] : samba_add_scalar(taps[i], 1));
        }
    }
    samba_value a = buffer_of(g, "a", BATCH, 0), half = samba_mul_scalar(samba_cast(samba_input(g, "y"), SAMBA_FLOAT32), 0.5),
                square = samba_register_buffer(g, "square", SAMBA_FLOAT32, 2, SHAPE(3, 3),
                                               (samba_initializer){SAMBA_INIT_NORMAL, 0, 1});
    samba_assign(a, half);
    samba_assign(square, samba_transpose(square, 0, 1));
    samba_output(g, "both", samba_add(samba_mul_scalar(half, 2), a));
    tail(g, samba_input(g, "x"));
}

/* A loss of buffers that FWD overwrites: gradients are of what they were. */
MODEL(differentiating)
{
    samba_initializer two = {SAMBA_INIT_CONSTANT, 2, 0};
    samba_value plain = samba_parameter(g, "plain", SAMBA_FLOAT32, 1, SHAPE(BATCH), two),
                squared = samba_parameter(g, "squared", SAMBA_FLOAT32, 1, SHAPE(BATCH), two);
    samba_value buffer = buffer_of(g, "buffer", BATCH, 3);
    samba_value first = samba_reshape(samba_slice(buffer, 0, 0, 1, 1), 0, NULL);
    samba_value sum = samba_add(samba_mul(plain, buffer), samba_mul(samba_mul(squared, squared), first));
    samba_assign(buffer, samba_mul_scalar(samba_cast(samba_input(g, "y"), SAMBA_FLOAT32), 0.5));
    samba_loss(g, "loss",
               samba_sum(samba_add(sum, samba_mul_scalar(samba_mean(samba_input(g, "x"), 0, NULL, false), 0)), 0, NULL, false));
}

/* ---- sessions ---- */
/* Another one of the last model. */
static samba_session *twin(void) { return kept_session(open_session(path, 0, 0)); }

static samba_session *session_of(const char *name, samba_model model, samba_optimizer optimizer, int micro_batches)
{
    samba_compile_options o = training_of(name, model, NULL, 2, inputs, &optimizer);
    o.grad_accumulation_steps = micro_batches;
    need(samba_compile(context, &o, path, sizeof path));
    return twin();
}

static samba_status run(samba_session *session, const char *type, bool train)
{
    samba_run_options o = giving(!type || strncmp(type, "FWD", 3) == 0 ? 2 : 0, inputs);
    o.train = train;
    return type ? run_sections(session, &o, type) : samba_run(session, &o);
}

static void assert_values(samba_session *session, const char *name, const float *values, int64_t count)
{
    OWN_TENSOR *t = get(session, name);
    assert_memory_equal(samba_tensor_data(t), values, sizeof *values * (size_t)count);
}

static void assert_same(samba_session *a, samba_session *b, const char *name)
{
    OWN_TENSOR *t = get(b, name);
    assert_values(a, name, samba_tensor_data(t), samba_tensor_numel(t));
}

TEST(test_backward_has_the_mode_of_its_forward)
{
    samba_session *a = session_of("mode", dropping, samba_sgd(0.1), 1), *b = twin();
    for (int train = 0; train < 2; train++) {
        need(run(a, "FWD", train));
        need(run(b, "FWD", train));
        need(run(a, "BCKWD", train));
        need(run(b, "BCKWD", !train));
        assert_same(a, b, "in.weight.grad");
        assert_same(a, b, "out.weight.grad");
    }
    need(run(a, "FWD", false)); /* a run that goes on and begins anew has one mode */
    refuse(run(a, "BCKWD FWD", true), SAMBA_ERROR_STATE,
           "begins with train true, and sections before it go on from a forward run with train false");
    need(run(a, "BCKWD FWD", false));
}

TEST(test_bad_data_updates_nothing)
{
    samba_session *a = session_of("index", looking_up, samba_sgd(0.1), 2), *b = twin();
    int64_t *labels = samba_tensor_data(inputs[1]), good = labels[3];
    need(run(a, NULL, true)); /* the first of two micro-batches is gone with the second */
    labels[3] = 4;
    refuse(run(a, NULL, true), SAMBA_ERROR_ARGUMENT, "up to OPT, which did not run");
    refuse(run(a, "OPT", true), SAMBA_ERROR_STATE, "");
    refuse(run(a, "BCKWD", true), SAMBA_ERROR_STATE, "");
    assert_same(a, b, "table.weight");
    assert_same(a, b, "out.weight");
    labels[3] = good;
    for (int i = 0; i < 2; i++) {
        need(run(a, NULL, true));
        need(run(b, NULL, true));
    }
    assert_same(a, b, "table.weight");
    assert_same(a, b, "out.weight");
}

TEST(test_buffers_of_the_model)
{
    char file[300];
    samba_session *a = session_of("names", counting, samba_adamw(0.1), 1), *b = twin();
    for (int i = 0; i < 3; i++)
        need(run(a, NULL, true));
    snprintf(file, sizeof file, "%s/weights.safetensors", folder);
    need(samba_session_save(a, file, false));
    samba_tensor_list list;
    need(samba_safetensors_read(context, file, &list));
    assert_int_equal(list.count, 8); /* weight, bias, six counters, nothing of AdamW */
    samba_tensor_list_free(context, &list);
    need(samba_session_load(b, file));
    for (int i = 0; i < LENGTH(counters); i++)
        assert_true(get_scalar(b, counters[i]) == 3);
    assert_same(a, b, "out.weight");
}

TEST(test_columns_of_indices)
{
    inputs[1] = kept(tensor("y", SAMBA_INT64, 2, SHAPE(BATCH, 2)));
    int64_t *pairs = samba_tensor_data(inputs[1]);
    for (int i = 0; i < 2 * BATCH; i++)
        pairs[i] = i % 2 ? 99 - i : i % 8;
    samba_session *session = session_of("columns", looking_up_columns, samba_sgd(0.1), 1);
    need(run(session, NULL, true));
    pairs[4] = 8;
    refuse(run(session, NULL, true), SAMBA_ERROR_ARGUMENT, "met an index that is out of range");
}

TEST(test_buffers_pass_on_what_they_were)
{
    samba_session *session = session_of("delaying", delaying, samba_sgd(0.1), 1);
    const int64_t *labels = samba_tensor_data(inputs[1]);
    static float values[LONG];
    float turned[2][9], half[BATCH], both[BATCH];
    char name[16];
    memcpy(turned[0], samba_tensor_data(kept(get(session, "square"))), sizeof turned[0]);
    for (int k = 0; k < 9; k++)
        turned[1][k] = turned[0][k % 3 * 3 + k / 3];
    for (int done = 0; done < 20; done++) {
        need(run(session, NULL, true));
        for (int k = 0; k < BATCH; k++) {
            half[k] = 0.5f * (float)labels[k];
            both[k] = (done ? 3 : 2) * half[k];
        }
        assert_values(session, "a", half, BATCH);
        assert_values(session, "both", both, BATCH);
        assert_values(session, "square", turned[(done + 1) % 2], 9);
        for (int i = 0; i < 4 * TAPS; i++) {
            int line = i / 2 / TAPS, tap = i / 2 % TAPS, now = i % 2;
            snprintf(name, sizeof name, now ? "tap%d_%d" : "was%d_%d", line, tap);
            for (int k = 0; k < LONG; k++)
                values[k] = (float)(tap + done + now);
            assert_values(session, name, values, tap_sizes[line]);
        }
    }
}

TEST(test_gradients_of_what_buffers_were)
{
    samba_session *session = session_of("differentiating", differentiating, samba_sgd(0), 1);
    const int64_t *labels = samba_tensor_data(inputs[1]);
    float was[BATCH], of_squared[BATCH];
    for (int k = 0; k < BATCH; k++)
        was[k] = 3;
    for (int i = 0; i < 2; i++) {
        need(run(session, "FWD BCKWD", true));
        for (int k = 0; k < BATCH; k++)
            of_squared[k] = 4 * was[0];
        assert_values(session, "plain.grad", was, BATCH);
        assert_values(session, "squared.grad", of_squared, BATCH);
        for (int k = 0; k < BATCH; k++)
            was[k] = 0.5f * (float)labels[k];
        assert_values(session, "buffer", was, BATCH);
    }
}

/* Weights that are read or run are what they would have been from the start; those that were set, or loaded, are not drawn. */
TEST(test_initial_weights_wait)
{
    char weights[300];
    snprintf(weights, sizeof weights, "%s/weights.safetensors", folder);
    samba_session *session = session_of("waiting", dropping, samba_sgd(0.1), 1), *other = twin(), *loaded = twin();
    const int32_t count = session->undrawn_count;
    assert_true(count >= 4);
    samba_tensor *weight = kept(get(session, "in.weight")); /* reading draws one */
    assert_int_equal(session->undrawn_count, count - 1);
    samba_tensor *ones = kept(tensor("in.weight", SAMBA_FLOAT32, 2, SHAPE(16, WIDTH)));
    need(samba_fill_uniform(ones, 1, 1, 1));
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
}

TEST_MAIN_WITH(setup, drop_kept, test_backward_has_the_mode_of_its_forward, test_bad_data_updates_nothing,
               test_buffers_of_the_model, test_columns_of_indices, test_buffers_pass_on_what_they_were,
               test_gradients_of_what_buffers_were, test_initial_weights_wait)
