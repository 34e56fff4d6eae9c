/* SPDX-License-Identifier: Apache-2.0
 *
 * Recurrent layers: names and shapes of what a layer makes, training against the reference kernels, the gradients of shared
 * weights as one product over all steps, and what is refused. tests/operators/recurrent.py compares them with PyTorch, and
 * tests/torch/losses.sh the losses of an LSTM. */
#include "training.h"
#include "reference.h"
#include "traced.h"
#include <sambaflow/recurrent.h>

/* ---- what a layer makes: its parameters in order ---- */
TEST(parameters)
{
    static const char expected[] =
        "r.weight_ih_l0(20,4) r.weight_hh_l0(20,3) r.bias_ih_l0(20) r.bias_hh_l0(20) r.weight_hr_l0(3,5)\n"
        "r.weight_ih_l0_reverse(20,4) r.weight_hh_l0_reverse(20,3) r.bias_ih_l0_reverse(20) r.bias_hh_l0_reverse(20)\n"
        "r.weight_hr_l0_reverse(3,5) r.weight_ih_l1(20,6) r.weight_hh_l1(20,3) r.bias_ih_l1(20) r.bias_hh_l1(20)\n"
        "r.weight_hr_l1(3,5) r.weight_ih_l1_reverse(20,6) r.weight_hh_l1_reverse(20,3) r.bias_ih_l1_reverse(20)\n"
        "r.bias_hh_l1_reverse(20) r.weight_hr_l1_reverse(3,5) g.weight_ih(6,4) g.weight_hh(6,2) g.bias_ih(6) g.bias_hh(6)\n"
        "n.weight_ih(2,4) n.weight_hh(2,2)\n";
    trace("x float32[7,2,4] step float32[2,4]");
    samba_value last[2] = {{0}};
    samba_value y =
        samba_lstm(in("x"), "r", 5,
                   &(samba_recurrent_options){.num_layers = 2, .bidirectional = true, .proj_size = 3, .dropout_p = 0.5}, last);
    samba_gru_cell(in("step"), "g", 2, NULL, NULL);
    samba_rnn_cell(in("step"), "n", 2, &(samba_cell_options){.no_bias = true}, NULL);
    expect_type(y, "float32[7,2,6]"), expect_type(last[0], "float32[4,2,3]"), expect_type(last[1], "float32[4,2,5]");
    const char *next = expected;
    for (int64_t i = 0; i < samba_graph_node_count(traced); i++) {
        char made[64];
        samba_node_info info;
        need(samba_graph_node(traced, i, &info));
        if (strcmp(info.op, "argin") == 0)
            assert_true(strcmp(info.name, "r.dropout.p") == 0 || strcmp(info.name, "r.dropout.seed") == 0);
        if (strcmp(info.op, "parameter") != 0)
            continue;
        int length = snprintf(made, sizeof made, info.rank == 1 ? "%s(%lld)" : "%s(%lld,%lld)", info.name,
                              (long long)info.shape[0], (long long)info.shape[1]);
        if (strncmp(next, made, (size_t)length) != 0 || !next[length])
            fail_msg("made %s, expected %s", made, next);
        next += length + 1;
    }
    assert_string_equal(next, "");
    untrace();
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

/* A sum whose terms are partly products: deep ones, and what is no product, stay beside the one that joins the others. */
MODEL(mixed)
{
    samba_value w = samba_parameter(g, "w", SAMBA_FLOAT32, 2, SHAPE(24, 24), (samba_initializer){SAMBA_INIT_NORMAL, 0, 0.2}),
                h = samba_input(g, "h");
    samba_value deep = samba_matmul(samba_input(g, "deep"), w), y = samba_sum(samba_mul(deep, deep), 0, NULL, false);
    for (int i = 0; i < 3; i++) {
        h = samba_tanh(samba_matmul(h, w));
        y = samba_add(y, samba_sum(samba_mul(h, h), 0, NULL, false));
    }
    samba_loss(g, "loss", samba_add(y, samba_sum(samba_exp(w), 0, NULL, false)));
}

/* Products whose result is neither `batch` or `all` by something nor something by them: the gradients of weights. */
static void check_trained(const reference_case *c, int64_t batch, int64_t all, int products)
{
    char path[512];
    int count = 0;
    pass_texts texts = compile_case(c, 0, path);
    for (const char *at = strstr(texts.planned, "contract   "); at; at = strstr(at + 1, "contract   ")) {
        long long rows, columns, depth;
        if (sscanf(at, "contract %lldx%lldx%lld", &rows, &columns, &depth) == 3)
            count += rows != batch && rows != all && columns != batch && columns != all;
    }
    if (count != products)
        fail_msg("%s: %d products with a weight's shape in BCKWD, expected %d\n%s", c->name, count, products, texts.planned);
    check_teams(c, path);
    free_texts(&texts);
}

TEST(training)
{
    samba_tensor *x = kept(normal("x", SAMBA_FLOAT32, 3, SHAPE(6, 3, 10), 4));
    samba_tensor *inputs[] = {kept(normal("h", SAMBA_FLOAT32, 2, SHAPE(3, 24), 4)),
                              kept(normal("deep", SAMBA_FLOAT32, 2, SHAPE(100, 24), 5))};
    for (int i = 0; i < LENGTH(cases); i++)
        check_trained(&(reference_case){cases[i].name, model, &cases[i], 1, &x, .precision = SAMBA_FP32},
                      cases[i].options.batch_first ? 6 : 3, 18, cases[i].products);
    /* one of 3 steps, one of depth 100 */
    check_trained(&(reference_case){"mixed", mixed, NULL, 2, inputs, .precision = SAMBA_FP32}, 3, 100, 2);
}

/* ---- what is refused ---- */
TEST(refused_layers)
{
    trace("x float32[3,2,4] line float32[4] whole int64[3,2,4] nothing float32[0,2,4]");
    wrong_as(SAMBA_ERROR_ARGUMENT, samba_lstm(in("x"), "r", 0, NULL, NULL),
             "lstm at r: hidden_size must be 1 or more; given num_layers 1, hidden_size 0");
    wrong_as(SAMBA_ERROR_ARGUMENT, samba_lstm(in("x"), "r", 4, &(samba_recurrent_options){.proj_size = 4}, NULL),
             "proj_size is an LSTM's, and must be smaller than hidden_size");
    wrong_as(SAMBA_ERROR_ARGUMENT, samba_gru(in("x"), "r", 4, &(samba_recurrent_options){.proj_size = 2}, NULL),
             "proj_size is an LSTM's");
    wrong_as(SAMBA_ERROR_ARGUMENT, samba_gru(in("x"), "r", 4, &(samba_recurrent_options){.relu = true}, NULL), "relu is rnn's");
    wrong_as(SAMBA_ERROR_ARGUMENT, samba_rnn(in("x"), "r", 4, &(samba_recurrent_options){.num_layers = -1}, NULL),
             "num_layers must be from 1 to 1024");
    wrong_as(SAMBA_ERROR_ARGUMENT,
             samba_rnn(in("x"), "r", 4, &(samba_recurrent_options){.num_layers = 2, .dropout_p = 1.5}, NULL),
             "p must be from 0 to 1, given 1.5");
    wrong_as(SAMBA_ERROR_SHAPE, samba_lstm(in("line"), "r", 4, NULL, NULL),
             "expected an input (T, N, input_size), with batch_first (N, T, input_size), or (T, input_size), given float32(4)");
    wrong_as(SAMBA_ERROR_SHAPE, samba_gru(in("nothing"), "r", 4, NULL, NULL),
             "expected an input of 1 or more steps, given float32(0, 2, 4)");
    wrong_as(SAMBA_ERROR_DTYPE, samba_lstm(in("whole"), "r", 4, NULL, NULL), "int64");
    untrace();
}

#define WEIGHTS(...) ((samba_value[]){__VA_ARGS__})
TEST(refused_weights)
{
    trace("x float32[3,2,3] step float32[2,3] w float32[8,3] u float32[8,2] b float32[8] wide float64[8] h float32[1,2,2]");
    wrong_as(SAMBA_ERROR_ARGUMENT, samba_functional_lstm(in("x"), 3, WEIGHTS(in("w"), in("u"), in("b")), NULL, NULL),
             "lstm: expected 4 weights for each of 1 layers and 1 directions, given 3");
    wrong_as(SAMBA_ERROR_SHAPE, samba_functional_lstm(in("x"), 4, WEIGHTS(in("w"), in("w"), in("b"), in("b")), NULL, NULL),
             "lstm: expected w_hh float32(8, 2), given float32(8, 3)");
    wrong_as(SAMBA_ERROR_SHAPE,
             samba_functional_lstm(in("x"), 4, WEIGHTS(in("w"), in("u"), in("b"), in("b")), NULL, WEIGHTS(in("x"), none)),
             "lstm: expected a state h float32(1, 2, 2), given float32(3, 2, 3)");
    wrong_as(SAMBA_ERROR_ARGUMENT, samba_functional_gru_cell(in("step"), WEIGHTS(in("w"), in("u"), in("b"), none), NULL),
             "gru_cell: expected weights w_ih, w_hh, and both biases or none of them behind the input, given float32(2, 3)");
    wrong_as(
        SAMBA_ERROR_SHAPE,
        samba_functional_lstm_cell(in("step"), WEIGHTS(in("w"), in("u"), in("b"), in("b")), WEIGHTS(in("x"), none)),
        "lstm_cell: expected a state (N, hidden_size), or (hidden_size) where the input has no batch, given float32(3, 2, 3)");
    wrong_as(SAMBA_ERROR_DTYPE, samba_functional_lstm(in("x"), 4, WEIGHTS(in("w"), in("u"), in("wide"), in("b")), NULL, NULL),
             "lstm: expected b_ih float32(8), given float64(8)");
    expect_type(samba_functional_lstm(in("x"), 4, WEIGHTS(in("w"), in("u"), in("b"), in("b")), NULL, WEIGHTS(in("h"), in("h"))),
                "float32[3,2,2]");
    untrace();
}

TEST_MAIN_WITH(NULL, drop_kept, parameters, training, refused_layers, refused_weights)
