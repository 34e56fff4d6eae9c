/* SPDX-License-Identifier: Apache-2.0
 *
 * Compiled models trained by their schedule and in pieces: gradient accumulation against the full batch, sections by types
 * (test_random_schedules cuts schedules into pieces), dropout and its seeds, equal bits where they are promised: same seed,
 * resumed checkpoint, initial weights whatever the threads. */
#include "classifier.h"

#define GRADIENTS (1u << SAMBA_KIND_GRADIENT)

/* ---- accumulation ---- */
TEST(test_accumulation)
{
    samba_optimizer o = samba_sgd(0.1);
    o.momentum = 0.9;
    o.max_grad_norm = 0.7;
    batch whole = batch_new(SAMPLES), first = batch_part(&whole, 0, SAMPLES / 4);
    samba_compile_options options = classifier_options(&plain, &whole, &o), of_parts = classifier_options(&plain, &first, &o);
    of_parts.grad_accumulation_steps = 4;
    for (int threads = 1; threads <= 2; threads++) {
        samba_session *full = open_kept(&options, threads, 4), *parts = open_kept(&of_parts, threads, 4);
        assert_same_bits(full, parts, 1u << SAMBA_KIND_PARAMETER);
        for (int i = 0; i < 12; i++) {
            uint64_t before = bits_of(parts, LEARNED);
            batch part = batch_part(&whole, i % 4 * SAMPLES / 4, (i % 4 + 1) * SAMPLES / 4);
            run(parts, &part);
            assert_int_equal(bits_of(parts, LEARNED) == before, i % 4 < 3); /* learns in the last of four */
            if (i % 4 == 3) {
                run(full, &whole);
                assert_near(full, parts, LEARNED | GRADIENTS, 1e-5);
            }
        }
    }
}

/* The zeros that ZEROGRAD writes are the same node as zeros that stages read: as a number within one, and in memory. */
MODEL(zeros_everywhere)
{
    const samba_initializer half = {SAMBA_INIT_CONSTANT, 0.5, 0};
    samba_value x = samba_parameter(g, "x", SAMBA_FLOAT32, 2, SHAPE(5, 3), half),
                w = samba_parameter(g, "w", SAMBA_FLOAT32, 2, SHAPE(3, 4), half);
    samba_value nothing = samba_matmul(x, samba_constant(g, 0, SAMBA_FLOAT32, 2, SHAPE(3, 4)));
    samba_value y =
        samba_relu(samba_mul(samba_add(samba_matmul(x, w), nothing), samba_parameter(g, "scale", SAMBA_FLOAT32, 0, NULL, half)));
    samba_loss(g, "loss", samba_sum(y, 0, NULL, false));
}

TEST(test_zeros)
{
    samba_optimizer o = samba_sgd(0);
    samba_compile_options options = training_of("zeros", zeros_everywhere, NULL, 0, NULL, &o);
    options.grad_accumulation_steps = 2;
    samba_session *session = open_kept(&options, 1, 0);
    for (int i = 0; i < 6; i++) {
        need(samba_run(session, NULL));
        int64_t count;
        double *grad = get_doubles(session, "w", ".grad", &count), part = i % 2 ? 1 : 0.5;
        assert_true(get_scalar(session, "loss") == 20 * 3 * 0.25 * 0.5);
        assert_true(grad[0] == part * 5 * 0.5 * 0.5 && get_scalar(session, "scale.grad") == part * 20 * 3 * 0.25);
        free(grad);
    }
}

/* ZEROGRAD zeroes, BCKWD adds, and by types nothing is counted. */
TEST(test_zerograd)
{
    batch b = batch_new(SAMPLES);
    samba_session *session = classifier_new(&plain, &b, 2, 1, 4), *overwriting = classifier_new(&plain, &b, 1, 1, 4);
    set_inputs(session, &b);
    set_inputs(overwriting, &b);
    int64_t count = 0, added = 0;
    double *grad[4];
    uint64_t once[2];
    for (int i = 0; i < 4; i++) {
        need(run_sections(session, NULL, i == 3 ? "ZEROGRAD" : "FWD BCKWD"));
        grad[i] = get_doubles(session, "fc1.weight", ".grad", &count);
    }
    for (int64_t i = 0; i < count; i++) {
        added += grad[0][i] != 0;
        assert_true(grad[1][i] == 2 * grad[0][i] && grad[3][i] == 0); /* exact: doubling rounds nothing */
    }
    assert_true(added > count / 2);
    for (int i = 0; i < 4; i++)
        free(grad[i]);
    for (int i = 0; i < 2; i++) { /* without accumulation BCKWD overwrites */
        need(run_sections(overwriting, NULL, "FWD BCKWD"));
        once[i] = bits_of(overwriting, GRADIENTS);
    }
    assert_true(once[0] == once[1]);
}

TEST(test_clipping_needs_the_norm)
{
    batch b = batch_new(SAMPLES);
    samba_session *session = classifier_new(&plain, &b, 1, 1, 4);
    uint64_t before = bits_of(session, COMPUTED);
    refuse(run_sections(session, NULL, "BCKWD"), SAMBA_ERROR_STATE, "run FWD before it");
    refuse(run_sections(session, NULL, "OPT"), SAMBA_ERROR_STATE, "run FWD and BCKWD before it");
    assert_true(bits_of(session, COMPUTED) == before);
    set_inputs(session, &b);
    need(run_sections(session, NULL, "FWD BCKWD"));
    refuse(run_sections(session, NULL, "OPT"), SAMBA_ERROR_STATE,
           "(OPT) clips gradients by their norm, and section 2 (GRADNORM) has not run since BCKWD");
    need(run_sections(session, NULL, "GRADNORM OPT"));
    need(run_sections(session, NULL, "FWD BCKWD"));
    refuse(run_sections(session, NULL, "OPT"), SAMBA_ERROR_STATE, "has not run since BCKWD");
}

/* GRADNORM and OPT take gradients from where the caller can set them. */
TEST(test_given_gradients)
{
    batch b = batch_new(SAMPLES), other = batch_new(SAMPLES);
    need(samba_fill_normal(other.inputs[0], 31, 0, 1));
    samba_session *a = classifier_new(&plain, &b, 1, 2, 4), *c = classifier_new(&plain, &b, 1, 2, 4);
    set_inputs(a, &b);
    set_inputs(c, &other);
    need(run_sections(a, NULL, "FWD BCKWD"));
    need(run_sections(c, NULL, "FWD BCKWD"));
    for (int t = 0; t < samba_session_tensor_count(a); t++) {
        samba_tensor_info info;
        need(samba_session_tensor_info(a, t, &info));
        if (info.kind == SAMBA_KIND_GRADIENT)
            need(samba_session_set(c, kept(get(a, info.name))));
    }
    need(run_sections(a, NULL, "GRADNORM OPT"));
    need(run_sections(c, NULL, "GRADNORM OPT"));
    assert_same_bits(a, c, LEARNED | GRADIENTS);
}

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

/* ---- nothing to do ---- */
static samba_value some(samba_graph *g, const char *name, int rank, const int64_t *shape)
{
    return samba_parameter(g, name, SAMBA_FLOAT32, rank, shape, (samba_initializer){SAMBA_INIT_NORMAL, 0, 1});
}

/* Stages of every kind over no elements; the loss is 3 * one. */
MODEL(empty_sizes)
{
    samba_value one = some(g, "one", 0, NULL),
                count = samba_reshape(samba_cast(samba_arange(g, 3, SAMBA_INT64), SAMBA_FLOAT32), 2, SHAPE(3, 1));
    samba_value planes = samba_relu(samba_conv2d(some(g, "x", 4, SHAPE(0, 3, 9, 9)), "conv", 4, SHAPE(3, 3), NULL));
    samba_value parts[] = {
        samba_mul(some(g, "a", 2, SHAPE(0, 3)), one),
        samba_mul(samba_add(some(g, "b", 4, SHAPE(2, 0, 3, 2)), samba_reshape(some(g, "c", 1, SHAPE(2)), 4, SHAPE(2, 1, 1, 1))),
                  count),
        samba_avg_pool2d(samba_max_pool2d(planes, SHAPE(2, 2), NULL), SHAPE(2, 2), NULL),
        samba_embedding(samba_constant(g, 0, SAMBA_INT64, 1, SHAPE(0)), "e", 5, 3),
        samba_log_softmax(samba_softmax(some(g, "j", 2, SHAPE(0, 5)), 0), 0),
        samba_tanh(samba_matmul(some(g, "d", 2, SHAPE(3, 0)), some(g, "f", 2, SHAPE(0, 4)))),
        samba_layer_norm(samba_softmax(some(g, "h", 3, SHAPE(2, 0, 7)), -1), "norm"),
        samba_dropout(samba_gelu(samba_linear(some(g, "i", 2, SHAPE(0, 5)), "fc", 4)), "drop", 0.5),
    };
    samba_value loss = samba_mul_scalar(one, 3);
    for (int i = 0; i < SAMBA_COUNT(parts); i++)
        loss = samba_add(loss, samba_sum(parts[i], 0, NULL, false));
    samba_loss(g, "loss", loss);
}

TEST(test_empty_sizes)
{
    for (int accumulation = 1; accumulation <= 2; accumulation++) {
        samba_optimizer o = samba_sgd(0.5);
        o.max_grad_norm = 10;
        samba_compile_options options = training_of("empty", empty_sizes, NULL, 0, NULL, &o);
        options.grad_accumulation_steps = accumulation;
        samba_session *session = open_kept(&options, 2, 4);
        double one = get_scalar(session, "one");
        for (int i = 0; i < 2 * accumulation; i++)
            need(samba_run(session, NULL));
        assert_true(fabs(get_scalar(session, "one") - (one - 2 * 1.5)) < 1e-5);
        assert_true(fabs(get_scalar(session, "loss") - 3 * (one - 1.5)) < 1e-5);
    }
}

/* A window of padding alone: what it is the greatest of is nothing. */
MODEL(padding_alone)
{
    const samba_pool2d_options apart = {.stride = {1, 1}, .padding = {1, 0}, .dilation = {3, 1}};
    samba_output(g, "y", samba_max_pool2d(samba_input(g, "x"), SHAPE(2, 2), &apart));
}

TEST(test_padding_alone)
{
    samba_tensor *x = kept(normal("x", SAMBA_FLOAT32, 4, SHAPE(1, 1, 2, 2), 1));
    samba_compile_options options = inference_of("padding", padding_alone, NULL, 1, &x);
    samba_session *session = open_kept(&options, 1, 0);
    samba_run_options r = giving(1, &x);
    need(samba_run(session, &r));
    assert_true(get_scalar(session, "y") == -(double)INFINITY);
}

/* An inference PEF has FWD alone, and no gradients. */
TEST(test_inference)
{
    batch b = batch_new(SAMPLES);
    samba_compile_options options = inference_of("inference", classifier, &plain, 2, b.inputs);
    samba_session *only = open_kept(&options, 2, 4), *trained = classifier_new(&plain, &b, 1, 2, 4);
    samba_section_info section;
    need(samba_session_section_info(only, 0, &section));
    assert_true(samba_session_section_count(only) == 1 && strcmp(section.type, "FWD") == 0);
    for (int t = 0; t < samba_session_tensor_count(only); t++) {
        samba_tensor_info info;
        need(samba_session_tensor_info(only, t, &info));
        assert_true(info.kind != SAMBA_KIND_GRADIENT && info.kind != SAMBA_KIND_BUFFER);
    }
    run(only, &b);
    run(trained, &b);
    assert_near(only, trained, 1u << SAMBA_KIND_OUTPUT, 1e-5);
    refuse(run_sections(only, NULL, "OPT"), SAMBA_ERROR_NAME, "there is no section of type \"OPT\"");
}

/* ---- dropout ---- */
enum { ROWS = 37, COLUMNS = 211 };
MODEL(masks)
{
    samba_value x = samba_input(g, "x");
    samba_value w = samba_parameter(g, "w", SAMBA_FLOAT32, 1, SHAPE(COLUMNS), (samba_initializer){SAMBA_INIT_CONSTANT, 1, 0});
    samba_output(g, "first", samba_dropout(samba_mul(x, w), "a", 0.25));
    samba_output(g, "again", samba_dropout(samba_mul(x, w), "a", 0.25)); /* the same layer once more: a mask of its own */
    samba_output(g, "second", samba_dropout(samba_mul(x, w), "b", 0.6));
    samba_loss(g, "loss", samba_sum(samba_dropout(samba_mul(x, w), "c", 0.5), 0, NULL, false));
}

/* A mask of ones: counts what was kept, asserts that it is 1 / (1 - p) and the count within five deviations. */
static void check_mask(const samba_tensor *mask, double p)
{
    const float *values = samba_tensor_data(mask), expected = (float)(1 / (1 - p));
    int64_t n = ROWS * COLUMNS, left = 0;
    for (int64_t i = 0; i < n; i++) {
        left += values[i] != 0;
        if (values[i] != 0 && !(fabsf(values[i] - expected) <= 1e-6f * expected))
            fail_msg("a kept 1 became %g, expected %g", (double)values[i], (double)expected);
    }
    assert_true(fabs((double)left - (double)n * (1 - p)) <= 5 * sqrt((double)n * p * (1 - p)));
}

/* Two masks of rates p and q agree where both keep or both drop, as often as chance has it. */
static void check_independent(const samba_tensor *a, double p, const samba_tensor *b, double q)
{
    const float *x = samba_tensor_data(a), *y = samba_tensor_data(b);
    int64_t same = 0;
    for (int64_t i = 0; i < ROWS * COLUMNS; i++)
        same += (x[i] != 0) == (y[i] != 0);
    assert_true(fabs((double)same / (ROWS * COLUMNS) - (p * q + (1 - p) * (1 - q))) < 0.04);
}

TEST(test_dropout)
{
    enum { STEPS = 3, MASKS = 3 };
    static const char *const names[MASKS] = {"first", "again", "second"};
    static const double rates[MASKS] = {0.25, 0.25, 0.6};
    samba_tensor *x = kept(tensor("x", SAMBA_FLOAT32, 2, SHAPE(ROWS, COLUMNS))), *seen[STEPS * MASKS];
    need(samba_fill_uniform(x, 1, 1, 1));
    samba_compile_options options = compile_of("masks", masks, NULL, 1, &x);
    samba_session *session = open_kept(&options, 1, 21), *same = open_kept(&options, 1, 21);
    samba_run_options r = giving(1, &x);
    for (int step = 0; step < STEPS; step++) {
        need(samba_run(session, &r));
        need(samba_run(same, &r));
        assert_same_bits(session, same, COMPUTED); /* one seed, one mask */
        for (int i = 0; i < MASKS; i++)
            check_mask(seen[step * MASKS + i] = kept(get(session, names[i])), rates[i]);
        /* the gradient of w counts what mask c kept in each column: forward and backward have one mask */
        int64_t count;
        double *grad = get_doubles(session, "w.grad", "", &count), total = 0;
        for (int64_t i = 0; i < count; i++)
            total += grad[i];
        assert_true(total == get_scalar(session, "loss"));
        free(grad);
    }
    for (int a = 0; a < STEPS * MASKS; a++) /* each layer and each step has a fresh one */
        for (int b = 0; b < a; b++)
            check_independent(seen[a], rates[a % MASKS], seen[b], rates[b % MASKS]);

    /* rates at both ends, and a rate given while training */
    samba_hyperparameter given[] = {{"a.p", 0}, {"b.p", 1}};
    r.hyperparameters = given, r.hyperparameter_count = 2;
    need(samba_run(session, &r));
    check_mask(kept(get(session, "first")), 0);
    const float *none = samba_tensor_data(kept(get(session, "second")));
    for (int64_t i = 0; i < ROWS * COLUMNS; i++)
        assert_true(none[i] == 0);
}

/* Rates set without a run: all of them or none. */
TEST(test_rates)
{
    batch b = batch_new(SAMPLES);
    samba_session *session = classifier_new(&dropping, &b, 1, 1, 4);
    samba_hyperparameter several[] = {{"p", 0.2}, {"p", 2}};
    refuse(samba_session_set_hyperparameters(session, 2, several), SAMBA_ERROR_ARGUMENT, "must be in [0, 1]");
    refuse(samba_session_set_hyperparameters(session, -1, several), SAMBA_ERROR_ARGUMENT, "-1 hyperparameters");
    assert_true(get_hyper(session, "drop1.p") == 0.3);
    need(samba_session_set_hyperparameters(session, 1, several));
    assert_true(get_hyper(session, "drop1.p") == 0.2 && get_hyper(session, "drop2.p") == 0.2);
}

/* ---- equal bits ---- */
MODEL(wide) /* parameters of more than one thread's share */
{
    samba_value x = samba_linear(samba_input(g, "x"), "fc", 501);
    samba_value n = samba_parameter(g, "n", SAMBA_FLOAT32, 2, SHAPE(131, 501), (samba_initializer){SAMBA_INIT_NORMAL, 1, 2});
    samba_value half = samba_parameter(g, "half", SAMBA_FLOAT32, 1, SHAPE(501), (samba_initializer){SAMBA_INIT_CONSTANT, 0.5, 0});
    samba_loss(g, "loss", samba_mean(samba_linear(samba_add(samba_add(x, n), half), "out", 3), 0, NULL, false));
}

TEST(test_initial_weights)
{
    samba_tensor *x = kept(normal("x", SAMBA_FLOAT32, 2, SHAPE(131, 203), 3));
    samba_compile_options options = compile_of("wide", wide, NULL, 1, &x);
    char path[512];
    need(samba_compile(context, &options, path, sizeof path));
    samba_session *one = kept_session(open_session(path, 1, 77)), *two = kept_session(open_session(path, 2, 77)),
                  *other = kept_session(open_session(path, 1, 78));
    assert_same_bits(one, two, LEARNED);
    assert_true(bits_of(one, LEARNED) != bits_of(other, LEARNED));
    /* torch's uniform, a normal of mean 1 and deviation 2, a constant */
    const double bound = 1 / sqrt(203);
    const struct {
        const char *name;
        double low, high, mean, deviation;
    } expected[] = {{"fc.weight", -bound, bound, 0, bound / sqrt(3)}, {"n", -12, 14, 1, 2}, {"half", 0.5, 0.5, 0.5, 0}};
    for (int k = 0; k < LENGTH(expected); k++) {
        int64_t count;
        double *w = get_doubles(one, expected[k].name, "", &count), sum = 0, squares = 0;
        const double n = (double)count, mean = expected[k].mean, deviation = expected[k].deviation;
        for (int64_t i = 0; i < count; i++) {
            assert_true(w[i] >= expected[k].low && w[i] <= expected[k].high);
            sum += w[i], squares += (w[i] - mean) * (w[i] - mean);
        }
        assert_true(fabs(sum / n - mean) <= 5 * deviation / sqrt(n));
        assert_true(fabs(sqrt(squares / n) - deviation) <= 5 * deviation / sqrt(n));
        free(w);
    }
}

/* ---- checkpoints ---- */
static void check_resume(bool with_state)
{
    samba_optimizer amsgrad = samba_adamw(0.01);
    amsgrad.amsgrad = true;
    batch b = batch_new(SAMPLES);
    samba_compile_options options = classifier_options(&dropping, &b, &amsgrad);
    char path[512], file[512];
    need(samba_compile(context, &options, path, sizeof path));
    snprintf(file, sizeof file, "%s/checkpoint.safetensors", folder);
    samba_session *straight = kept_session(open_session(path, 2, 4)), *resumed = kept_session(open_session(path, 2, 1234));
    for (int i = 0; i < 5; i++)
        run(straight, &b);
    run(resumed, &b); /* it has a life of its own before */
    need(samba_session_save(straight, file, with_state));
    need(samba_session_load(resumed, file));
    assert_same_bits(straight, resumed, with_state ? LEARNED : 1u << SAMBA_KIND_PARAMETER);
    for (int i = 0; i < 5; i++) {
        run(straight, &b);
        run(resumed, &b);
        if (with_state)
            assert_same_bits(straight, resumed, COMPUTED);
    }
}

TEST(test_resume)
{
    for (int with_state = 0; with_state < 2; with_state++)
        check_resume(with_state);
}

TEST_MAIN_WITH(NULL, drop_kept, test_accumulation, test_zerograd, test_clipping_needs_the_norm, test_inference, test_dropout,
               test_rates, test_initial_weights, test_resume, test_given_gradients, test_empty_sizes, test_padding_alone,
               test_zeros, test_skipped_types, test_odd_arguments)
