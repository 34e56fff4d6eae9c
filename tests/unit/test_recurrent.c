/* SPDX-License-Identifier: Apache-2.0
 *
 * Recurrent layers: names and shapes of what a layer makes, values against plain C, training against the reference kernels, the
 * gradients of shared weights as one product over all steps, and what is refused.
 * tests/operators/recurrent.py compares them with PyTorch. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "training.h"

#include "reference.h"

#include <sambaflow/function.h>
#include <sambaflow/functional.h>
#include <sambaflow/layers.h>
#include <sambaflow/recurrent.h>

/* ---- what a layer makes ---- */
static void parameters(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        int rank;
        int64_t shape[2];
    } expected[] = {
        {"r.weight_ih_l0", 2, {20, 4}},
        {"r.weight_hh_l0", 2, {20, 3}},
        {"r.bias_ih_l0", 1, {20}},
        {"r.bias_hh_l0", 1, {20}},
        {"r.weight_hr_l0", 2, {3, 5}},
        {"r.weight_ih_l0_reverse", 2, {20, 4}},
        {"r.weight_hh_l0_reverse", 2, {20, 3}},
        {"r.bias_ih_l0_reverse", 1, {20}},
        {"r.bias_hh_l0_reverse", 1, {20}},
        {"r.weight_hr_l0_reverse", 2, {3, 5}},
        {"r.weight_ih_l1", 2, {20, 6}},
        {"r.weight_hh_l1", 2, {20, 3}},
        {"r.bias_ih_l1", 1, {20}},
        {"r.bias_hh_l1", 1, {20}},
        {"r.weight_hr_l1", 2, {3, 5}},
        {"r.weight_ih_l1_reverse", 2, {20, 6}},
        {"r.weight_hh_l1_reverse", 2, {20, 3}},
        {"r.bias_ih_l1_reverse", 1, {20}},
        {"r.bias_hh_l1_reverse", 1, {20}},
        {"r.weight_hr_l1_reverse", 2, {3, 5}},
        {"g.weight_ih", 2, {6, 4}},
        {"g.weight_hh", 2, {6, 2}},
        {"g.bias_ih", 1, {6}},
        {"g.bias_hh", 1, {6}},
        {"n.weight_ih", 2, {2, 4}},
        {"n.weight_hh", 2, {2, 2}},
    };
    samba_graph *g;
    samba_tensor *x = tensor("x", SAMBA_FLOAT32, 3, SHAPE(7, 2, 4));
    need(samba_graph_new(context, "names", &g));
    need(samba_graph_add_input(g, x));
    samba_value last[2] = {{0}}, in = samba_input(g, "x"), step = samba_reshape(samba_slice(in, 0, 0, 1, 1), 2, SHAPE(2, 4));
    samba_value y = samba_lstm(
        in, "r", 5, &(samba_recurrent_options){.num_layers = 2, .bidirectional = true, .proj_size = 3, .dropout_p = 0.5}, last);
    samba_gru_cell(step, "g", 2, NULL, NULL);
    samba_rnn_cell(step, "n", 2, &(samba_cell_options){.no_bias = true}, NULL);
    need(samba_graph_status(g));
    const samba_value values[] = {y, last[0], last[1]};
    const int64_t sizes[][3] = {{7, 2, 6}, {4, 2, 3}, {4, 2, 5}};
    for (int i = 0; i < 3; i++)
        for (int d = 0; d < 3; d++)
            assert_int_equal(samba_value_size(values[i], d), sizes[i][d]);
    int found = 0;
    for (int64_t i = 0; i < samba_graph_node_count(g); i++) {
        samba_node_info info;
        need(samba_graph_node(g, i, &info));
        if (strcmp(info.op, "argin") == 0)
            assert_true(strcmp(info.name, "r.dropout.p") == 0 || strcmp(info.name, "r.dropout.seed") == 0);
        if (strcmp(info.op, "parameter") != 0)
            continue;
        assert_string_equal(info.name, expected[found].name);
        assert_int_equal(info.rank, expected[found].rank);
        assert_memory_equal(info.shape, expected[found].shape, sizeof(int64_t) * (size_t)info.rank);
        found++;
    }
    assert_int_equal(found, SAMBA_COUNT(expected));
    samba_graph_free(g);
    samba_tensor_free(x);
}

/* ---- values ---- */
static double logistic(double x) { return 1 / (1 + exp(-x)); }

/* One LSTM layer of one sample in plain C, float64: to rounding. */
static void lstm_in_plain_c(void **state)
{
    (void)state;
    enum { T = 4, I = 3, H = 2 };
    samba_tensor *in[6] = {normal("x", SAMBA_FLOAT64, 2, SHAPE(T, I), 1),     normal("h", SAMBA_FLOAT64, 2, SHAPE(1, H), 2),
                           normal("c", SAMBA_FLOAT64, 2, SHAPE(1, H), 3),     normal("w", SAMBA_FLOAT64, 2, SHAPE(4 * H, I), 4),
                           normal("u", SAMBA_FLOAT64, 2, SHAPE(4 * H, H), 5), normal("b", SAMBA_FLOAT64, 1, SHAPE(4 * H), 6)};
    samba_tensor *out[3] = {tensor("y", SAMBA_FLOAT64, 2, SHAPE(T, H)), tensor("hn", SAMBA_FLOAT64, 2, SHAPE(1, H)),
                            tensor("cn", SAMBA_FLOAT64, 2, SHAPE(1, H))};
    samba_graph *g;
    samba_function *f;
    samba_value v[6];
    need(samba_graph_new(context, "lstm", &g));
    for (int i = 0; i < 6; i++) {
        need(samba_graph_add_input(g, in[i]));
        v[i] = samba_input(g, samba_tensor_name(in[i]));
    }
    samba_value last[2] = {v[1], v[2]};
    samba_output(g, "y", samba_functional_lstm(v[0], 4, (samba_value[]){v[3], v[4], v[5], v[5]}, NULL, last));
    samba_output(g, "hn", last[0]);
    samba_output(g, "cn", last[1]);
    need(samba_function_new(context, g, NULL, &f));
    need(samba_function_run(f, in, out));

    const double *x = samba_tensor_data(in[0]), *w = samba_tensor_data(in[3]), *u = samba_tensor_data(in[4]),
                 *b = samba_tensor_data(in[5]);
    const double *y = samba_tensor_data(out[0]), *hn = samba_tensor_data(out[1]), *cn = samba_tensor_data(out[2]);
    double h[H], c[H];
    memcpy(h, samba_tensor_data(in[1]), sizeof h);
    memcpy(c, samba_tensor_data(in[2]), sizeof c);
    for (int t = 0; t < T; t++) {
        double gates[4 * H];
        for (int k = 0; k < 4 * H; k++) {
            gates[k] = 2 * b[k];
            for (int i = 0; i < I; i++)
                gates[k] += x[t * I + i] * w[k * I + i];
            for (int i = 0; i < H; i++)
                gates[k] += h[i] * u[k * H + i];
        }
        for (int i = 0; i < H; i++) {
            c[i] = logistic(gates[H + i]) * c[i] + logistic(gates[i]) * tanh(gates[2 * H + i]);
            h[i] = logistic(gates[3 * H + i]) * tanh(c[i]);
            assert_true(fabs(h[i] - y[t * H + i]) < 1e-12);
        }
    }
    for (int i = 0; i < H; i++)
        assert_true(fabs(h[i] - hn[i]) < 1e-12 && fabs(c[i] - cn[i]) < 1e-12);
    samba_function_free(f);
    samba_graph_free(g);
    for (int i = 0; i < 6; i++)
        samba_tensor_free(in[i]);
    for (int i = 0; i < 3; i++)
        samba_tensor_free(out[i]);
}

/* ---- training ---- */
typedef samba_value net(samba_value, const char *, int64_t, const samba_recurrent_options *, samba_value *);
typedef struct training_case {
    const char *name;
    net *layer;
    samba_recurrent_options options;
    int products; /* with a weight's gradient in BCKWD: one each, however many steps */
} training_case;
static const training_case cases[] = {
    {"lstm", samba_lstm, {.num_layers = 2}, 4},
    {"lstm, both directions", samba_lstm, {.bidirectional = true, .batch_first = true}, 4},
    {"lstm, projected", samba_lstm, {.proj_size = 9}, 3},
    {"gru", samba_gru, {.num_layers = 2}, 4},
    {"rnn, no bias", samba_rnn, {.no_bias = true, .relu = true}, 2},
};

static void model(samba_graph *g, const void *o)
{
    const training_case *c = o;
    samba_value last[2] = {{0}}, y = c->layer(samba_input(g, "x"), "r", 24, &c->options, last);
    samba_loss(g, "loss", samba_add(samba_sum(samba_mul(y, y), 0, NULL, false), samba_sum(last[0], 0, NULL, false)));
    samba_output(g, "y", y);
}

static void take(void *user, const char *pass, const char *text)
{
    (void)pass;
    *(char **)user = strdup(text);
}

/* Products whose result is neither steps by something nor something by steps: the gradients of weights. `log` is a plan's. */
static int weight_products(const char *log, long long batch, long long all)
{
    int count = 0;
    for (const char *at = strstr(log, "contract   "); at; at = strstr(at + 1, "contract   ")) {
        long long rows, columns, depth;
        if (sscanf(at, "contract %lldx%lldx%lld", &rows, &columns, &depth) == 3)
            count += rows != batch && rows != all && columns != batch && columns != all;
    }
    return count;
}

static void trains(void **state)
{
    const training_case *c = *state;
    samba_tensor *x = normal("x", SAMBA_FLOAT32, 3, SHAPE(6, 3, 10), 4);
    char *text = NULL, path[512];
    samba_compile_options options = compile_of("recurrent", model, c, 1, &x);
    options.dump_after = "section";
    options.dump = take;
    options.dump_user = &text;
    need(samba_compile(context, &options, path, sizeof path));
    int64_t batch = c->options.batch_first ? 6 : 3;
    if (weight_products(text, batch, 18) != c->products) {
        fprintf(stderr, "%s\n", text);
        fail_msg("%s: %d products with a weight's shape in BCKWD, expected %d", c->name, weight_products(text, batch, 18),
                 c->products);
    }
    free(text);
    for (int threads = 1; threads <= 2; threads++) {
        samba_session *session = open_session(path, threads, 3);
        samba_run_options r = samba_run_defaults();
        r.inputs = &x;
        r.input_count = 1;
        need(samba_run(session, &r));
        compare_with_reference(&(reference_case){c->name, model, c, 1, &x, false, 0, NULL, 0, SAMBA_FP32}, session);
        samba_session_free(session);
    }
    samba_tensor_free(x);
}

/* A sum whose terms are partly products: deep ones, and what is no product, stay beside the one that joins the others. */
static void mixed(samba_graph *g, const void *o)
{
    (void)o;
    samba_value w = samba_parameter(g, "w", SAMBA_FLOAT32, 2, SHAPE(24, 24), (samba_initializer){SAMBA_INIT_NORMAL, 0, 0.2}),
                h = samba_input(g, "h");
    samba_value deep = samba_matmul(samba_input(g, "deep"), w), y = samba_sum(samba_mul(deep, deep), 0, NULL, false);
    for (int i = 0; i < 3; i++) {
        h = samba_tanh(samba_matmul(h, w));
        y = samba_add(y, samba_sum(samba_mul(h, h), 0, NULL, false));
    }
    samba_loss(g, "loss", samba_add(y, samba_sum(samba_exp(w), 0, NULL, false)));
}

static void sums_of_several_kinds(void **state)
{
    (void)state;
    samba_tensor *inputs[] = {normal("h", SAMBA_FLOAT32, 2, SHAPE(3, 24), 4),
                              normal("deep", SAMBA_FLOAT32, 2, SHAPE(100, 24), 5)};
    samba_compile_options options = compile_of("mixed", mixed, NULL, 2, inputs);
    char *text = NULL;
    options.dump_after = "section";
    options.dump = take;
    options.dump_user = &text;
    samba_session *session = compile_and_open(&options, 2, 3);
    assert_int_equal(weight_products(text, 3, 100), 2); /* one of 3 steps, one of depth 100 */
    free(text);
    samba_run_options r = samba_run_defaults();
    r.inputs = inputs;
    r.input_count = 2;
    need(samba_run(session, &r));
    compare_with_reference(&(reference_case){"mixed", mixed, NULL, 2, inputs, false, 0, NULL, 0, SAMBA_FP32}, session);
    samba_session_free(session);
    samba_tensor_free(inputs[0]);
    samba_tensor_free(inputs[1]);
}

/* ---- what is refused ---- */
static void refusals(void **state)
{
    (void)state;
    static const struct {
        net *layer;
        int64_t hidden;
        samba_recurrent_options options;
        int input; /* 0: (3, 2, 4) float32, 1: of rank 1, 2: int64, 3: of no steps */
        samba_status status;
        const char *part;
    } wrong[] = {
        {samba_lstm,
         0,
         {0},
         0,
         SAMBA_ERROR_ARGUMENT,
         "lstm at r: hidden_size must be 1 or more; given num_layers 1, hidden_size 0"},
        {samba_lstm,
         4,
         {.proj_size = 4},
         0,
         SAMBA_ERROR_ARGUMENT,
         "proj_size is an LSTM's, and must be smaller than hidden_size"},
        {samba_gru, 4, {.proj_size = 2}, 0, SAMBA_ERROR_ARGUMENT, "proj_size is an LSTM's"},
        {samba_gru, 4, {.relu = true}, 0, SAMBA_ERROR_ARGUMENT, "relu is rnn's"},
        {samba_rnn, 4, {.num_layers = -1}, 0, SAMBA_ERROR_ARGUMENT, "num_layers must be from 1 to 1024"},
        {samba_rnn, 4, {.num_layers = 2, .dropout_p = 1.5}, 0, SAMBA_ERROR_ARGUMENT, "p must be from 0 to 1, given 1.5"},
        {samba_lstm,
         4,
         {0},
         1,
         SAMBA_ERROR_SHAPE,
         "expected an input (T, N, input_size), with batch_first (N, T, input_size), or (T, input_size), given float32(4)"},
        {samba_lstm, 4, {0}, 2, SAMBA_ERROR_DTYPE, "int64"},
        {samba_gru, 4, {0}, 3, SAMBA_ERROR_SHAPE, "expected an input of 1 or more steps, given float32(0, 2, 4)"},
    };
    samba_tensor *inputs[] = {tensor("x", SAMBA_FLOAT32, 3, SHAPE(3, 2, 4)), tensor("x", SAMBA_FLOAT32, 1, SHAPE(4)),
                              tensor("x", SAMBA_INT64, 3, SHAPE(3, 2, 4)), tensor("x", SAMBA_FLOAT32, 3, SHAPE(0, 2, 4))};
    for (int i = 0; i < SAMBA_COUNT(wrong); i++) {
        samba_graph *g;
        need(samba_graph_new(context, "wrong", &g));
        need(samba_graph_add_input(g, inputs[wrong[i].input]));
        wrong[i].layer(samba_input(g, "x"), "r", wrong[i].hidden, &wrong[i].options, NULL);
        refuse(samba_graph_status(g), wrong[i].status, wrong[i].part);
        samba_graph_free(g);
    }
    for (int i = 0; i < SAMBA_COUNT(inputs); i++)
        samba_tensor_free(inputs[i]);
}

static void refused_weights(void **state)
{
    (void)state;
    static const char *const parts[] = {
        "lstm: expected 4 weights for each of 1 layers and 1 directions, given 3",
        "lstm: expected w_hh float32(8, 2), given float32(8, 3)",
        "lstm: expected a state h float32(1, 2, 2), given float32(3, 2, 3)",
        "gru_cell: expected weights w_ih, w_hh, and both biases or none of them behind the input, given float32(2, 3)",
        "lstm_cell: expected a state (N, hidden_size), or (hidden_size) where the input has no batch, given float32(3, 2, 3)",
        "lstm: expected b_ih float32(8), given float64(8)",
    };
    static const samba_status statuses[] = {SAMBA_ERROR_ARGUMENT, SAMBA_ERROR_SHAPE, SAMBA_ERROR_SHAPE,
                                            SAMBA_ERROR_ARGUMENT, SAMBA_ERROR_SHAPE, SAMBA_ERROR_DTYPE};
    for (int i = 0; i < SAMBA_COUNT(parts); i++) {
        samba_graph *g;
        need(samba_graph_new(context, "wrong", &g));
        samba_value x = samba_constant(g, 1, SAMBA_FLOAT32, 3, SHAPE(3, 2, 3)),
                    step = samba_constant(g, 1, SAMBA_FLOAT32, 2, SHAPE(2, 3)), none = {NULL, 0, 0};
        samba_value w = samba_constant(g, 1, SAMBA_FLOAT32, 2, SHAPE(8, 3)),
                    u = samba_constant(g, 1, SAMBA_FLOAT32, 2, SHAPE(8, 2)), b = samba_constant(g, 1, SAMBA_FLOAT32, 1, SHAPE(8));
        samba_value wide = samba_constant(g, 1, SAMBA_FLOAT64, 1, SHAPE(8)), last[2] = {x, none};
        switch (i) {
        case 0: samba_functional_lstm(x, 3, (samba_value[]){w, u, b}, NULL, NULL); break;
        case 1: samba_functional_lstm(x, 4, (samba_value[]){w, w, b, b}, NULL, NULL); break;
        case 2: samba_functional_lstm(x, 4, (samba_value[]){w, u, b, b}, NULL, last); break;
        case 3: samba_functional_gru_cell(step, (samba_value[]){w, u, b, none}, NULL); break;
        case 4: samba_functional_lstm_cell(step, (samba_value[]){w, u, b, b}, last); break;
        case 5: samba_functional_lstm(x, 4, (samba_value[]){w, u, wide, b}, NULL, NULL); break;
        }
        refuse(samba_graph_status(g), statuses[i], parts[i]);
        samba_graph_free(g);
    }
}

int main(void)
{
    if (!training_begin())
        return 1;
    enum { CASES = sizeof cases / sizeof cases[0] };
    struct CMUnitTest tests[CASES + 5] = {cmocka_unit_test(parameters), cmocka_unit_test(lstm_in_plain_c),
                                          cmocka_unit_test(sums_of_several_kinds), cmocka_unit_test(refusals),
                                          cmocka_unit_test(refused_weights)};
    for (int i = 0; i < CASES; i++)
        tests[5 + i] = (struct CMUnitTest){cases[i].name, trains, NULL, NULL, (void *)(uintptr_t)&cases[i]};
    return training_end(_cmocka_run_group_tests("recurrent", tests, CASES + 5, NULL, NULL));
}
