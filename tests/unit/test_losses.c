/* SPDX-License-Identifier: Apache-2.0
 *
 * Losses and distances as C calls them: defaults of options, values by formula, and what only C can get wrong. All arguments
 * against PyTorch: tests/operators/loss.py and distance.py. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "training.h"

#include <sambaflow/functional.h>

static const samba_value none;

static void values(samba_graph *g, const void *settings)
{
    (void)settings;
    samba_value x = samba_input(g, "x"), y = samba_input(g, "y"), label = samba_input(g, "label"),
                signs = samba_input(g, "signs");
    samba_output(g, "mse", samba_mse_loss(x, y, none, SAMBA_MEAN));
    samba_output(g, "huber", samba_huber_loss(x, y, 1, none, SAMBA_SUM));
    samba_output(g, "triplet", samba_triplet_margin_loss(x, y, samba_neg(x), NULL));
    samba_output(g, "poisson", samba_poisson_nll_loss(x, y, NULL));
    samba_output(g, "gaussian", samba_gaussian_nll_loss(x, y, samba_constant(g, 2, SAMBA_FLOAT32, 0, NULL), NULL));
    samba_output(g, "multi_margin", samba_multi_margin_loss(x, label, NULL));
    samba_output(g, "nll", samba_nll_loss(samba_log_softmax(x, 1), label, NULL));
    samba_output(g, "parts", samba_nll_loss(samba_sub(x, samba_logsumexp(x, 1, (const int[]){1}, true)), label, NULL));
    samba_output(g, "entropy", samba_cross_entropy(x, label));
    samba_output(g, "wrong",
                 samba_nll_loss(samba_log_softmax(samba_add(x, y), 1),
                                samba_add(label, samba_constant(g, 4, SAMBA_INT64, 0, NULL)), NULL));
    samba_output(g, "hinge", samba_hinge_embedding_loss(x, signs, 1, SAMBA_MEAN));
    samba_output(g, "softmin", samba_softmin(x, 1));
    samba_output(g, "distances", samba_sum(samba_cdist(x, y, 2, SAMBA_CDIST_MM), 0, NULL, false));
    samba_output(g, "lost", samba_sum(samba_cdist(samba_add_scalar(x, NAN), y, 2, SAMBA_CDIST_MM), 0, NULL, false));
}

enum { ROWS = 2, CLASSES = 3, NUMEL = ROWS * CLASSES };

static void near(samba_session *session, const char *name, double expected)
{
    double given = get_scalar(session, name);
    if (!(given == expected || fabs(given - expected) <= 1e-6 * (1 + fabs(expected)))) /* sums of 6 floats */
        fail_msg("%s is %.9g, expected %.9g", name, given, expected);
}

static void test_values(void **state)
{
    (void)state;
    static const float x[NUMEL] = {0.5f, -1, 2, 0, 3, -0.25f}, y[NUMEL] = {1, 1, 0, -2, 0.5f, 0.25f},
                       signs[NUMEL] = {1, -1, 1, -1, -1, 1};
    static const int64_t label[ROWS] = {2, 0};
    samba_tensor *inputs[] = {tensor("x", SAMBA_FLOAT32, 2, SHAPE(ROWS, CLASSES)),
                              tensor("y", SAMBA_FLOAT32, 2, SHAPE(ROWS, CLASSES)), tensor("label", SAMBA_INT64, 1, SHAPE(ROWS)),
                              tensor("signs", SAMBA_FLOAT32, 2, SHAPE(ROWS, CLASSES))};
    memcpy(samba_tensor_data(inputs[0]), x, sizeof x);
    memcpy(samba_tensor_data(inputs[1]), y, sizeof y);
    memcpy(samba_tensor_data(inputs[2]), label, sizeof label);
    memcpy(samba_tensor_data(inputs[3]), signs, sizeof signs);
    samba_compile_options options = compile_of("values", values, NULL, 4, inputs);
    options.inference = true;
    samba_session *session = compile_and_open(&options, 2, 1);
    samba_run_options run = samba_run_defaults();
    run.inputs = inputs, run.input_count = 4;
    need(samba_run(session, &run));
    double mse = 0, huber = 0, triplet = 0, poisson = 0, gaussian = 0, margin = 0, nll = 0, hinge = 0;
    for (int r = 0; r < ROWS; r++) {
        double near_by = 0, far = 0, powers = 0;
        const float *logits = &x[r * CLASSES];
        for (int i = r * CLASSES; i < (r + 1) * CLASSES; i++) {
            double d = fabs((double)x[i] - (double)y[i]), a = (double)x[i], b = (double)y[i];
            mse += d * d / NUMEL;
            huber += d < 1 ? d * d / 2 : d - 0.5;
            near_by += (a - b + 1e-6) * (a - b + 1e-6);
            far += (2 * a + 1e-6) * (2 * a + 1e-6);
            poisson += (exp(a) - b * a) / NUMEL;
            gaussian += (log(2) + d * d / 2) / 2 / NUMEL;
            powers += exp(a);
            margin += i - r * CLASSES == label[r] ? 0 : fmax(0, 1 - (double)logits[label[r]] + a) / CLASSES / ROWS;
            hinge += (signs[i] > 0 ? a : fmax(0, 1 - a)) / NUMEL;
        }
        triplet += fmax(0, 1 + sqrt(near_by) - sqrt(far)) / ROWS;
        nll += (log(powers) - (double)logits[label[r]]) / ROWS;
    }
    double distances = 0;
    for (int r = 0; r < ROWS * ROWS; r++) {
        double squared = 0;
        for (int i = 0; i < CLASSES; i++)
            squared += pow((double)x[r / ROWS * CLASSES + i] - (double)y[r % ROWS * CLASSES + i], 2);
        distances += sqrt(squared);
    }
    near(session, "distances", distances);
    assert_true(isnan(get_scalar(session, "lost")));
    near(session, "mse", mse), near(session, "huber", huber), near(session, "triplet", triplet),
        near(session, "poisson", poisson);
    near(session, "gaussian", gaussian), near(session, "multi_margin", margin), near(session, "hinge", hinge);
    near(session, "nll", nll), near(session, "parts", nll), near(session, "entropy", nll), near(session, "wrong", INFINITY);
    for (int i = 0; i < 4; i++)
        samba_tensor_free(inputs[i]);
    samba_session_free(session);
}

/* nll_loss of a log_softmax is the operator cross_entropy. */
static void test_recognized(void **state)
{
    (void)state;
    samba_tensor *x = tensor("x", SAMBA_FLOAT32, 2, SHAPE(4, 5)), *label = tensor("label", SAMBA_INT64, 1, SHAPE(4));
    samba_graph *g;
    need(samba_graph_new(context, "recognized", &g));
    need(samba_graph_add_input(g, x));
    need(samba_graph_add_input(g, label));
    samba_value loss = samba_nll_loss(samba_log_softmax(samba_input(g, "x"), -1), samba_input(g, "label"), NULL);
    samba_node_info info;
    need(samba_graph_node(g, loss.index, &info));
    assert_string_equal(info.op, "cross_entropy");
    samba_graph_free(g);
    samba_tensor_free(x);
    samba_tensor_free(label);
}

static void test_refusals(void **state)
{
    (void)state;
    for (int i = 0; i < 7; i++) {
        samba_graph *g;
        samba_tensor *x = tensor("x", SAMBA_FLOAT32, 2, SHAPE(4, 5)), *label = tensor("label", SAMBA_INT64, 1, SHAPE(4));
        need(samba_graph_new(context, "wrong", &g));
        need(samba_graph_add_input(g, x));
        need(samba_graph_add_input(g, label));
        samba_value v = samba_input(g, "x"), l = samba_input(g, "label");
        samba_cross_entropy_options smooth = samba_cross_entropy_defaults();
        smooth.label_smoothing = 0.1;
        const char *part = "";
        switch (i) {
        case 0:
            samba_mse_loss(v, v, none, (samba_reduction)7),
                part = "mse_loss: expected the reduction SAMBA_MEAN, SAMBA_SUM or SAMBA_NO_REDUCTION, given 7";
            break;
        case 1: samba_l1_loss(v, v, none, SAMBA_BATCH_MEAN), part = "l1_loss: expected the reduction"; break;
        case 2:
            samba_l1_loss(v, v, samba_input(g, "label"), SAMBA_MEAN), part = "l1_loss: expected values that broadcast together";
            break;
        case 3:
            samba_nll_loss(v, l, &smooth), part = "nll_loss: label_smoothing must be 0, given 0.1; cross_entropy has it";
            break;
        case 4: samba_kl_div(none, v, false, SAMBA_SUM), part = "kl_div: operand 0 is a value of no graph"; break;
        case 5: samba_weight_norm(v, v, 7), part = "weight_norm: dim 7 is out of range"; break;
        case 6: samba_cdist(v, v, 2, (samba_cdist_mode)3), part = "cdist: mode must be a samba_cdist_mode, given 3"; break;
        }
        if (samba_graph_status(g) == SAMBA_OK || !strstr(samba_error_message(context), part))
            fail_msg("case %d: \"%s\", expected \"%s\"", i, samba_error_message(context), part);
        samba_graph_free(g);
        samba_tensor_free(x);
        samba_tensor_free(label);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_values), cmocka_unit_test(test_recognized),
                                       cmocka_unit_test(test_refusals)};
    return training_begin() ? training_end(cmocka_run_group_tests(tests, NULL, NULL)) : 1;
}
