/* SPDX-License-Identifier: Apache-2.0
 *
 * Compiled models trained by their schedule and in pieces: gradient accumulation against the full batch, sections by types and by
 * ids against the whole schedule, dropout and its seeds, equal bits where they are promised (same seed, resumed checkpoint, two
 * compiles, initial weights whatever the threads), and what a NaN does. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/base.h"
#include "classifier.h"

static void assert_near(samba_session *a, samba_session *b, unsigned kinds, double tolerance)
{
    for (int t = 0; t < samba_session_tensor_count(a); t++) {
        samba_tensor_info info;
        need(samba_session_tensor_info(a, t, &info));
        if (!(kinds >> info.kind & 1))
            continue;
        int64_t count;
        double *x = get_doubles(a, info.name, "", &count), *y = get_doubles(b, info.name, "", &count), scale = 1e-6, worst = 0;
        for (int64_t i = 0; i < count; i++)
            scale = fmax(scale, fabs(x[i])), worst = fmax(worst, fabs(x[i] - y[i]));
        if (!(worst <= tolerance * scale))
            fail_msg("%s differs by %g of %g", info.name, worst, scale);
        free(x);
        free(y);
    }
}

/* ---- accumulation ---- */
static void sgd_accumulates(int threads)
{
    samba_optimizer o = samba_sgd(0.1);
    o.momentum = 0.9;
    o.max_grad_norm = 0.7;
    batch whole = batch_new(SAMPLES), first = batch_part(&whole, 0, SAMPLES / 4);
    samba_compile_options options = classifier_options(&plain, &whole, &o);
    samba_session *full = compile_and_open(&options, threads, 4);
    options = classifier_options(&plain, &first, &o);
    options.grad_accumulation_steps = 4;
    samba_session *parts = compile_and_open(&options, threads, 4);
    assert_same_bits(full, parts, 1u << SAMBA_KIND_PARAMETER);
    for (int step = 0; step < 3; step++) {
        size_t size, size_after;
        char *before = snapshot(parts, LEARNED, &size);
        run(full, &whole);
        for (int i = 0; i < 4; i++) {
            batch part = batch_part(&whole, i * SAMPLES / 4, (i + 1) * SAMPLES / 4);
            run(parts, &part);
            batch_free(&part);
            char *after = snapshot(parts, LEARNED, &size_after);
            assert_int_equal(memcmp(before, after, size) == 0, i < 3); /* learns in the last of four */
            free(after);
        }
        free(before);
        assert_near(full, parts, 1u << SAMBA_KIND_GRADIENT, 1e-5);
        assert_near(full, parts, LEARNED, 1e-5);
    }
    samba_session_free(full);
    samba_session_free(parts);
    batch_free(&first);
    batch_free(&whole);
}

static void test_accumulation(void **unused)
{
    (void)unused;
    sgd_accumulates(1);
    sgd_accumulates(2);
}

/* The zeros that ZEROGRAD writes are the same node as zeros that stages read: as a number within one, and in memory. */
static void zeros_everywhere(samba_graph *g, const void *options)
{
    (void)options;
    const samba_initializer half = {SAMBA_INIT_CONSTANT, 0.5, 0};
    samba_value x = samba_parameter(g, "x", SAMBA_FLOAT32, 2, SHAPE(5, 3), half),
                w = samba_parameter(g, "w", SAMBA_FLOAT32, 2, SHAPE(3, 4), half);
    samba_value nothing = samba_matmul(x, samba_constant(g, 0, SAMBA_FLOAT32, 2, SHAPE(3, 4)));
    samba_value y =
        samba_relu(samba_mul(samba_add(samba_matmul(x, w), nothing), samba_parameter(g, "scale", SAMBA_FLOAT32, 0, NULL, half)));
    samba_loss(g, "loss", samba_sum(y, 0, NULL, false));
}

static void test_zeros(void **unused)
{
    (void)unused;
    samba_optimizer o = samba_sgd(0);
    samba_compile_options options = compile_of("zeros", zeros_everywhere, NULL, 0, NULL);
    options.optimizer_count = 1;
    options.optimizers = &o;
    options.grad_accumulation_steps = 2;
    samba_session *session = compile_and_open(&options, 1, 0);
    for (int i = 0; i < 6; i++) {
        need(samba_run(session, NULL));
        int64_t count;
        double *grad = get_doubles(session, "w", ".grad", &count), part = i % 2 ? 1 : 0.5;
        assert_true(get_scalar(session, "loss") == 20 * 3 * 0.25 * 0.5);
        assert_true(grad[0] == part * 5 * 0.5 * 0.5 && get_scalar(session, "scale.grad") == part * 20 * 3 * 0.25);
        free(grad);
    }
    samba_session_free(session);
}

/* ZEROGRAD zeroes, BCKWD adds, and by types nothing is counted. */
static void test_zerograd(void **unused)
{
    (void)unused;
    batch b = batch_new(SAMPLES);
    samba_session *session = classifier_new(&plain, &b, 2, 1, 4);
    for (int i = 0; i < 2; i++)
        need(samba_session_set(session, b.inputs[i]));
    size_t size;
    float *grad[4];
    for (int i = 0; i < 4; i++) {
        if (i == 3)
            need(run_types(session, TYPES("ZEROGRAD")));
        else
            need(run_types(session, TYPES("FWD", "BCKWD")));
        grad[i] = (float *)snapshot(session, 1u << SAMBA_KIND_GRADIENT, &size);
    }
    /* the loss's own gradient is 1 and stays: skip what does not change */
    int64_t count = (int64_t)(size / sizeof(float)), still = 0, added = 0;
    for (int64_t i = 0; i < count; i++) {
        still += grad[0][i] == grad[1][i] && grad[0][i] != 0;
        added += grad[0][i] != grad[1][i];
        if (grad[0][i] == grad[1][i])
            continue;
        assert_true(grad[1][i] == grad[0][i] + grad[0][i]); /* exact: doubling rounds nothing */
        assert_true(grad[3][i] == 0);
    }
    assert_true(still <= 1 && added > count / 2);
    for (int i = 0; i < 4; i++)
        free(grad[i]);
    samba_session_free(session);

    session = classifier_new(&plain, &b, 1, 1, 4); /* N = 1: BCKWD overwrites */
    for (int i = 0; i < 2; i++)
        need(samba_session_set(session, b.inputs[i]));
    char *once, *twice;
    need(run_types(session, TYPES("FWD", "BCKWD")));
    once = snapshot(session, 1u << SAMBA_KIND_GRADIENT, &size);
    need(run_types(session, TYPES("FWD", "BCKWD")));
    twice = snapshot(session, 1u << SAMBA_KIND_GRADIENT, &size);
    assert_memory_equal(once, twice, size);
    free(once);
    free(twice);
    samba_session_free(session);
    batch_free(&b);
}

/* ---- sections ---- */
static int types_of(samba_session *session, const char *types[6])
{
    int count = 0;
    for (int i = 0; i < samba_session_section_count(session); i++) {
        samba_section_info info;
        need(samba_session_section_info(session, i, &info));
        assert_int_equal(info.id, i);
        if (count == 0 || strcmp(types[count - 1], info.type) != 0)
            types[count++] = info.type;
        assert_in_range(count, 1, 6);
    }
    return count;
}

enum { WAYS = 6 };
static void check_sections(int accumulation, int threads)
{
    batch b = batch_new(SAMPLES);
    /* whole schedule; all types at once; type by type; id by id; all ids at once; the schedule cut in two at a call */
    samba_session *s[WAYS];
    for (int i = 0; i < WAYS; i++)
        s[i] = classifier_new(&dropping, &b, accumulation, threads, 4);
    const char *types[6], *at_once[6];
    char words[6][16];
    int count = types_of(s[0], types), sections = samba_session_section_count(s[0]), ids[64];
    assert_in_range(sections, 1, 64);
    samba_run_options r = samba_run_defaults();
    for (int step = 0; step < 4 * accumulation; step++) {
        bool opens = step % accumulation == 0, closes = step % accumulation == accumulation - 1;
        int chosen = 0, chosen_ids = 0;
        for (int t = 0; t < count; t++) {
            bool zero = strcmp(types[t], "ZEROGRAD") == 0,
                 passes = strcmp(types[t], "FWD") == 0 || strcmp(types[t], "BCKWD") == 0;
            if (!(zero ? opens : passes || closes))
                continue;
            for (int i = 0; i < 16; i++) { /* upper, lower and mixed case */
                char c = types[t][i];
                words[chosen][i] = (step + i * (step % 3)) % 2 && c ? (char)(c + 'a' - 'A') : c;
                if (!c)
                    break;
            }
            at_once[chosen] = words[chosen];
            chosen++;
            for (int i = 0; i < sections; i++) {
                samba_section_info info;
                need(samba_session_section_info(s[0], i, &info));
                if (strcmp(info.type, types[t]) == 0)
                    ids[chosen_ids++] = i;
            }
        }
        for (int i = 0; i < WAYS; i++) {
            r = samba_run_defaults();
            need(samba_session_set(s[i], b.inputs[0]));
            need(samba_session_set(s[i], b.inputs[1]));
            if (i == 5) {
                r.run_until_call_id = 1 + step % (samba_session_call_count(s[i]) - 1);
                need(samba_run(s[i], &r));
                r.run_from_call_id = r.run_until_call_id;
                r.run_until_call_id = step % 2 ? -1 : samba_session_call_count(s[i]);
            }
            if (i == 1)
                r.section_type_count = chosen, r.section_types = at_once;
            if (i == 4)
                r.section_id_count = chosen_ids, r.section_ids = ids;
            if (i != 2 && i != 3)
                need(samba_run(s[i], &r));
            for (int t = 0; i == 2 && t < chosen; t++) {
                r.section_type_count = 1, r.section_types = &at_once[t];
                need(samba_run(s[i], &r));
            }
            for (int t = 0; i == 3 && t < chosen_ids; t++) {
                r.section_id_count = 1, r.section_ids = &ids[t];
                need(samba_run(s[i], &r));
            }
        }
        need(samba_fill_normal(b.inputs[0], (uint64_t)(50 + step), 0, 1));
    }
    for (int i = 1; i < WAYS; i++)
        assert_same_bits(s[0], s[i], COMPUTED);
    for (int i = 0; i < WAYS; i++)
        samba_session_free(s[i]);
    batch_free(&b);
}

static void test_sections(void **unused)
{
    (void)unused;
    check_sections(1, 1);
    check_sections(3, 2);
}

static void test_wrong_moment(void **unused)
{
    (void)unused;
    batch b = batch_new(SAMPLES);
    samba_session *session = classifier_new(&plain, &b, 1, 1, 4);
    size_t size;
    char *before = snapshot(session, COMPUTED, &size), *after;
    refuse(run_types(session, TYPES("BCKWD")), SAMBA_ERROR_STATE, "run FWD before it");
    refuse(run_types(session, TYPES("OPT")), SAMBA_ERROR_STATE, "run FWD and BCKWD before it");
    refuse(run_types(session, TYPES("FWD", "BACKWARD")), SAMBA_ERROR_NAME, "\"BACKWARD\"");
    refuse(run_types(session, TYPES("FWD", NULL)), SAMBA_ERROR_NAME, "");
    samba_run_options r = samba_run_defaults();
    r.section_id_count = 1;
    r.section_ids = (int[]){samba_session_section_count(session)};
    refuse(samba_run(session, &r), SAMBA_ERROR_ARGUMENT, "there is no section");
    after = snapshot(session, COMPUTED, &size);
    assert_memory_equal(before, after, size);
    need(samba_session_set(session, b.inputs[0]) | samba_session_set(session, b.inputs[1]));
    need(run_types(session, TYPES("FWD")));
    need(run_types(session, TYPES("BCKWD")));
    refuse(run_types(session, TYPES("BCKWD")), SAMBA_ERROR_STATE, "used up");
    refuse(run_types(session, TYPES("OPT")), SAMBA_ERROR_STATE,
           "(OPT) clips gradients by their norm, and section 2 (GRADNORM) has not run since BCKWD");
    need(run_types(session, TYPES("GRADNORM", "OPT")));
    need(run_types(session, TYPES("FWD", "BCKWD")));
    refuse(run_types(session, TYPES("OPT")), SAMBA_ERROR_STATE, "has not run since BCKWD");
    free(before);
    free(after);
    samba_session_free(session);
    batch_free(&b);
}

/* GRADNORM and OPT take gradients from where the caller can set them, and backward starts from "loss.grad". */
static void test_given_gradients(void **unused)
{
    (void)unused;
    batch b = batch_new(SAMPLES), other = batch_new(SAMPLES);
    need(samba_fill_normal(other.inputs[0], 31, 0, 1));
    samba_session *a = classifier_new(&plain, &b, 1, 2, 4), *c = classifier_new(&plain, &b, 1, 2, 4);
    for (int i = 0; i < 2; i++) {
        need(samba_session_set(a, b.inputs[i]));
        need(samba_session_set(c, other.inputs[i]));
    }
    need(run_types(a, TYPES("FWD", "BCKWD")));
    need(run_types(c, TYPES("FWD", "BCKWD")));
    for (int t = 0; t < samba_session_tensor_count(a); t++) {
        samba_tensor_info info;
        need(samba_session_tensor_info(a, t, &info));
        if (info.kind != SAMBA_KIND_GRADIENT)
            continue;
        samba_tensor *grad = get(a, info.name);
        need(samba_session_set(c, grad));
        samba_tensor_free(grad);
    }
    need(run_types(a, TYPES("GRADNORM", "OPT")));
    need(run_types(c, TYPES("GRADNORM", "OPT")));
    assert_same_bits(a, c, LEARNED | 1u << SAMBA_KIND_GRADIENT);

    samba_tensor *start = tensor("loss.grad", SAMBA_FLOAT32, 0, NULL);
    for (int i = 0; i < 2; i++) /* from the same weights and inputs */
        need(samba_session_set(c, b.inputs[i]));
    *(float *)samba_tensor_data(start) = 4;
    need(samba_session_set(c, start));
    need(run_types(a, TYPES("FWD", "BCKWD")));
    need(run_types(c, TYPES("FWD", "BCKWD")));
    int64_t count;
    double *once = get_doubles(a, "fc1.weight", ".grad", &count), *four = get_doubles(c, "fc1.weight", ".grad", &count);
    for (int64_t i = 0; i < count; i++)
        assert_true(four[i] == 4 * once[i]); /* a power of two rounds nothing */
    free(once);
    free(four);
    samba_tensor_free(start);
    samba_session_free(a);
    samba_session_free(c);
    batch_free(&b);
    batch_free(&other);
}

/* ---- nothing to do ---- */
static samba_value some(samba_graph *g, const char *name, int rank, const int64_t *shape)
{
    return samba_parameter(g, name, SAMBA_FLOAT32, rank, shape, (samba_initializer){SAMBA_INIT_NORMAL, 0, 1});
}

/* Stages of every kind over no elements; the loss is 3 * one. */
static void empty_sizes(samba_graph *g, const void *options)
{
    (void)options;
    samba_value one = some(g, "one", 0, NULL),
                count = samba_reshape(samba_cast(samba_arange(g, 3, SAMBA_INT64), SAMBA_FLOAT32), 2, SHAPE(3, 1));
    samba_value planes = samba_relu(samba_conv2d(some(g, "x", 4, SHAPE(0, 3, 9, 9)), "conv", 4, SHAPE(3, 3), NULL));
    samba_value parts[] = {
        samba_mul(some(g, "a", 2, SHAPE(0, 3)), one),
        samba_mul(samba_add(some(g, "b", 4, SHAPE(2, 0, 3, 2)), samba_reshape(some(g, "c", 1, SHAPE(2)), 4, SHAPE(2, 1, 1, 1))),
                  count),
        samba_avg_pool2d(samba_max_pool2d(planes, SHAPE(2, 2), NULL), SHAPE(2, 2), NULL),
        samba_embedding(samba_constant(g, 0, SAMBA_INT64, 1, SHAPE(0)), "e", 5, 3),
        samba_tanh(samba_matmul(some(g, "d", 2, SHAPE(3, 0)), some(g, "f", 2, SHAPE(0, 4)))),
        samba_layer_norm(samba_softmax(some(g, "h", 3, SHAPE(2, 0, 7)), -1), "norm"),
        samba_dropout(samba_gelu(samba_linear(some(g, "i", 2, SHAPE(0, 5)), "fc", 4)), "drop", 0.5),
    };
    samba_value loss = samba_mul_scalar(one, 3);
    for (int i = 0; i < SAMBA_COUNT(parts); i++)
        loss = samba_add(loss, samba_sum(parts[i], 0, NULL, false));
    samba_loss(g, "loss", loss);
}

static void test_empty_sizes(void **unused)
{
    (void)unused;
    for (int accumulation = 1; accumulation <= 2; accumulation++) {
        samba_optimizer o = samba_sgd(0.5);
        o.max_grad_norm = 10;
        samba_compile_options options = compile_of("empty", empty_sizes, NULL, 0, NULL);
        options.optimizer_count = 1;
        options.optimizers = &o;
        options.grad_accumulation_steps = accumulation;
        samba_session *session = compile_and_open(&options, 2, 4);
        double one = get_scalar(session, "one");
        for (int i = 0; i < 2 * accumulation; i++)
            need(samba_run(session, NULL));
        assert_true(fabs(get_scalar(session, "one") - (one - 2 * 1.5)) < 1e-5);
        assert_true(fabs(get_scalar(session, "loss") - 3 * (one - 1.5)) < 1e-5);
        samba_session_free(session);
    }
}

/* An inference PEF has FWD alone, and no gradients. */
static void test_inference(void **unused)
{
    (void)unused;
    batch b = batch_new(SAMPLES);
    samba_compile_options options = compile_of("inference", classifier, &plain, 2, b.inputs);
    options.inference = true;
    samba_session *only = compile_and_open(&options, 2, 4), *trained = classifier_new(&plain, &b, 1, 2, 4);
    const char *types[6];
    assert_int_equal(types_of(only, types), 1);
    assert_string_equal(types[0], "FWD");
    for (int t = 0; t < samba_session_tensor_count(only); t++) {
        samba_tensor_info info;
        need(samba_session_tensor_info(only, t, &info));
        assert_true(info.kind != SAMBA_KIND_GRADIENT && info.kind != SAMBA_KIND_BUFFER);
    }
    run(only, &b);
    run(trained, &b);
    assert_near(only, trained, 1u << SAMBA_KIND_OUTPUT, 1e-5);
    refuse(run_types(only, TYPES("OPT")), SAMBA_ERROR_NAME, "there is no section of type \"OPT\"");
    samba_session_free(only);
    samba_session_free(trained);
    batch_free(&b);
}

/* ---- dropout ---- */
enum { ROWS = 37, COLUMNS = 211 };
static void masks(samba_graph *g, const void *options)
{
    (void)options;
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
    int64_t n = ROWS * COLUMNS, kept = 0;
    for (int64_t i = 0; i < n; i++) {
        kept += values[i] != 0;
        if (values[i] != 0 && !(fabsf(values[i] - expected) <= 1e-6f * expected))
            fail_msg("a kept 1 became %g, expected %g", (double)values[i], (double)expected);
    }
    assert_true(fabs((double)kept - (double)n * (1 - p)) <= 5 * sqrt((double)n * p * (1 - p)));
}

static double agreement(const samba_tensor *a, const samba_tensor *b)
{
    const float *x = samba_tensor_data(a), *y = samba_tensor_data(b);
    int64_t same = 0;
    for (int64_t i = 0; i < ROWS * COLUMNS; i++)
        same += (x[i] != 0) == (y[i] != 0);
    return (double)same / (ROWS * COLUMNS);
}

static void test_dropout(void **unused)
{
    (void)unused;
    static const char *const names[] = {"first", "again", "second"};
    static const double rates[] = {0.25, 0.25, 0.6};
    samba_tensor *x = tensor("x", SAMBA_FLOAT32, 2, SHAPE(ROWS, COLUMNS)), *seen[2][3][3];
    for (int64_t i = 0; i < ROWS * COLUMNS; i++)
        ((float *)samba_tensor_data(x))[i] = 1;
    samba_compile_options options = compile_of("masks", masks, NULL, 1, &x);
    samba_session *s[2] = {compile_and_open(&options, 1, 21), compile_and_open(&options, 1, 21)};
    samba_run_options r = samba_run_defaults();
    r.inputs = &x, r.input_count = 1;
    for (int k = 0; k < 2; k++)
        for (int step = 0; step < 3; step++) {
            need(samba_run(s[k], &r));
            for (int i = 0; i < 3; i++)
                check_mask(seen[k][step][i] = get(s[k], names[i]), rates[i]);
            /* the gradient of w counts what mask c kept in each column: forward and backward have one mask */
            int64_t count;
            double *grad = get_doubles(s[k], "w.grad", "", &count), total = 0;
            for (int64_t i = 0; i < count; i++)
                total += grad[i];
            assert_true(total == get_scalar(s[k], "loss"));
            free(grad);
        }
    for (int step = 0; step < 3; step++)
        for (int i = 0; i < 3; i++) {
            samba_tensor *here = seen[0][step][i];
            assert_true(agreement(here, seen[1][step][i]) == 1); /* one seed, one mask */
            double p = rates[i], chance = p * p + (1 - p) * (1 - p);
            for (int other = 0; other < step; other++) /* a fresh one each step */
                assert_true(fabs(agreement(here, seen[0][other][i]) - chance) < 0.04);
        }
    assert_true(fabs(agreement(seen[0][0][0], seen[0][0][1]) - (0.75 * 0.75 + 0.25 * 0.25)) < 0.04);
    assert_true(fabs(agreement(seen[0][0][0], seen[0][0][2]) - (0.75 * 0.4 + 0.25 * 0.6)) < 0.04);
    for (int k = 0; k < 18; k++)
        samba_tensor_free((&seen[0][0][0])[k]);

    /* rates at both ends, and a rate given while training */
    samba_hyperparameter given[] = {{"a.p", 0}, {"b.p", 1}};
    r.hyperparameters = given, r.hyperparameter_count = 2;
    need(samba_run(s[0], &r));
    samba_tensor *all = get(s[0], "first"), *none = get(s[0], "second");
    check_mask(all, 0);
    for (int64_t i = 0; i < ROWS * COLUMNS; i++)
        assert_true(((float *)samba_tensor_data(none))[i] == 0);
    samba_tensor_free(all);
    samba_tensor_free(none);
    samba_tensor_free(x);
    samba_session_free(s[0]);
    samba_session_free(s[1]);
}

/* train = false is rate 0 for that run alone. */
static void test_not_training(void **unused)
{
    (void)unused;
    batch b = batch_new(SAMPLES);
    samba_session *a = classifier_new(&dropping, &b, 1, 1, 4), *c = classifier_new(&dropping, &b, 1, 1, 4);
    samba_run_options r = samba_run_defaults();
    r.inputs = b.inputs, r.input_count = 2;
    samba_run_options off = r, zero = r, back = r;
    off.train = false;
    zero.hyperparameters = (samba_hyperparameter[]){{"p", 0}}, zero.hyperparameter_count = 1;
    back.hyperparameters = (samba_hyperparameter[]){{"p", 0.3}}, back.hyperparameter_count = 1;
    for (int i = 0; i < 3; i++) {
        need(samba_run(a, &r));
        need(samba_run(c, i ? &back : &r));
        assert_same_bits(a, c, COMPUTED);
        need(samba_run(a, &off));
        need(samba_run(c, &zero));
        assert_same_bits(a, c, COMPUTED);
        assert_true(get_hyper(a, "drop1.p") == 0.3 && get_hyper(c, "drop1.p") == 0);
    }
    samba_hyperparameter several[] = {{"p", 0.3}, {"p", 2}}; /* set without a run: all of them or none */
    refuse(samba_session_set_hyperparameters(c, 2, several), SAMBA_ERROR_ARGUMENT, "must be in [0, 1]");
    refuse(samba_session_set_hyperparameters(c, 1, NULL), SAMBA_ERROR_ARGUMENT, "1 hyperparameters without values");
    refuse(samba_session_set_hyperparameters(c, -1, several), SAMBA_ERROR_ARGUMENT, "-1 hyperparameters");
    assert_true(get_hyper(c, "drop1.p") == 0);
    need(samba_session_set_hyperparameters(c, 1, several));
    need(samba_run(a, &r));
    need(samba_run(c, &r));
    assert_same_bits(a, c, COMPUTED);
    samba_session_free(a);
    samba_session_free(c);
    batch_free(&b);
}

/* ---- equal bits ---- */
static void test_repeats(void **unused)
{
    (void)unused;
    batch b = batch_new(SAMPLES);
    for (int threads = 1; threads <= 2; threads++) {
        samba_session *x = classifier_new(&dropping, &b, 1, threads, 4), *y = classifier_new(&dropping, &b, 1, threads, 4);
        samba_session *other = classifier_new(&dropping, &b, 1, threads, 5);
        double first = 0;
        for (int step = 0; step < 100; step++) {
            run(x, &b);
            run(y, &b);
            if (step == 0)
                first = get_scalar(x, "loss");
        }
        assert_same_bits(x, y, COMPUTED);
        assert_true(get_scalar(x, "loss") < first / 4); /* and it has learned */
        size_t size;
        char *with_4 = snapshot(x, 1u << SAMBA_KIND_PARAMETER, &size),
             *with_5 = snapshot(other, 1u << SAMBA_KIND_PARAMETER, &size);
        assert_memory_not_equal(with_4, with_5, size);
        free(with_4);
        free(with_5);
        samba_session_free(x);
        samba_session_free(y);
        samba_session_free(other);
    }
    batch_free(&b);
}

static void wide(samba_graph *g, const void *options) /* parameters of more than one thread's share */
{
    (void)options;
    samba_value x = samba_linear(samba_input(g, "x"), "fc", 501);
    samba_value n = samba_parameter(g, "n", SAMBA_FLOAT32, 2, SHAPE(131, 501), (samba_initializer){SAMBA_INIT_NORMAL, 1, 2});
    samba_loss(g, "loss", samba_mean(samba_linear(samba_add(x, n), "out", 3), 0, NULL, false));
}

static void test_initial_weights(void **unused)
{
    (void)unused;
    samba_tensor *x = normal("x", SAMBA_FLOAT32, 2, SHAPE(131, 203), 3);
    samba_compile_options options = compile_of("wide", wide, NULL, 1, &x);
    char path[512];
    need(samba_compile(context, &options, path, sizeof path));
    samba_session *one = open_session(path, 1, 77), *two = open_session(path, 2, 77);
    assert_same_bits(one, two, LEARNED);
    int64_t count;
    double *w = get_doubles(one, "fc.weight", "", &count), bound = 1 / sqrt(203), low = 0, high = 0, sum = 0;
    for (int64_t i = 0; i < count; i++)
        low = fmin(low, w[i]), high = fmax(high, w[i]), sum += w[i];
    assert_true(low >= -bound && high <= bound && low < -0.999 * bound && high > 0.999 * bound); /* torch's uniform */
    assert_true(fabs(sum / (double)count) < 5 * bound / sqrt(3 * (double)count));
    free(w);
    samba_session_free(one);
    samba_session_free(two);
    samba_tensor_free(x);
}

static void test_same_pef(void **unused)
{
    (void)unused;
    batch b = batch_new(SAMPLES);
    samba_compile_options options = classifier_options(&dropping, &b, adamw());
    char path[2][512], log[600], other[80];
    void *bytes[4];
    size_t sizes[4];
    snprintf(other, sizeof other, "%s/other", folder);
    for (int i = 0; i < 2; i++) {
        options.output_folder = i ? other : folder;
        options.verify = i;
        need(samba_compile(context, &options, path[i], sizeof path[i]));
        snprintf(log, sizeof log, "%.512s.log", path[i]);
        need(samba_file_read(context, path[i], &bytes[2 * i], &sizes[2 * i]));
        need(samba_file_read(context, log, &bytes[2 * i + 1], &sizes[2 * i + 1]));
    }
    for (int i = 0; i < 2; i++) {
        assert_int_equal(sizes[i], sizes[2 + i]);
        assert_memory_equal(bytes[i], bytes[2 + i], sizes[i]);
    }
    for (int i = 0; i < 4; i++)
        samba_free(context, bytes[i], sizes[i]);
    batch_free(&b);
}

/* ---- checkpoints ---- */
static void check_resume(const samba_optimizer *optimizer, bool with_state)
{
    batch b = batch_new(SAMPLES);
    samba_compile_options options = classifier_options(&dropping, &b, optimizer);
    char path[512], file[512];
    need(samba_compile(context, &options, path, sizeof path));
    snprintf(file, sizeof file, "%s/checkpoint.safetensors", folder);
    samba_session *straight = open_session(path, 2, 4), *resumed = open_session(path, 2, 1234);
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
    samba_session_free(straight);
    samba_session_free(resumed);
    batch_free(&b);
}

static void test_resume(void **unused)
{
    (void)unused;
    samba_optimizer amsgrad = samba_adamw(0.01), dampened = samba_sgd(0.1);
    amsgrad.amsgrad = true;
    dampened.momentum = 0.9, dampened.dampening = 0.5;
    check_resume(&amsgrad, true);
    check_resume(&dampened, true);
    check_resume(&amsgrad, false);
}

/* ---- NaN, wrong labels ---- */
static void test_nan(void **unused)
{
    (void)unused;
    batch b = batch_new(SAMPLES);
    samba_session *session = classifier_new(&plain, &b, 1, 2, 4);
    run(session, &b);
    assert_string_equal(samba_session_warning(session), "");
    ((float *)samba_tensor_data(b.inputs[0]))[5] = NAN;
    run(session, &b);
    run(session, &b);
    assert_true(isnan(get_scalar(session, "loss")));
    const char *warning = samba_session_warning(session);
    if (!strstr(warning, "loss 'loss' became nan in run 2"))
        fail_msg("the warning is: %s", warning);
    run(session, &b);
    assert_string_equal(samba_session_warning(session), "");
    assert_true(get_scalar(session, "optim0.step") == 4);
    samba_session_free(session);
    batch_free(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_accumulation),    cmocka_unit_test(test_zerograd),    cmocka_unit_test(test_sections),
        cmocka_unit_test(test_wrong_moment),    cmocka_unit_test(test_inference),   cmocka_unit_test(test_dropout),
        cmocka_unit_test(test_not_training),    cmocka_unit_test(test_repeats),     cmocka_unit_test(test_initial_weights),
        cmocka_unit_test(test_same_pef),        cmocka_unit_test(test_resume),      cmocka_unit_test(test_nan),
        cmocka_unit_test(test_given_gradients), cmocka_unit_test(test_empty_sizes), cmocka_unit_test(test_zeros),
    };
    return training_begin() ? training_end(cmocka_run_group_tests(tests, NULL, NULL)) : 1;
}
