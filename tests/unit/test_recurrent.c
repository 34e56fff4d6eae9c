/* SPDX-License-Identifier: Apache-2.0
 *
 * Recurrent layers: names and shapes of what a layer makes, training against the reference kernels, the gradients of shared
 * weights as one product over all steps, and what is refused. tests/operators/recurrent.py compares them with PyTorch, and
 * tests/torch/losses.sh the losses of an LSTM. */
#include "training.h"

#include "reference.h"

#include <sambaflow/functional.h>
#include <sambaflow/layers.h>
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
    samba_graph *g;
    samba_tensor *x = kept(tensor("x", SAMBA_FLOAT32, 3, SHAPE(7, 2, 4)));
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
    for (int i = 0; i < 9; i++)
        assert_int_equal(samba_value_size(values[i / 3], i % 3), sizes[i / 3][i % 3]);
    const char *next = expected;
    for (int64_t i = 0; i < samba_graph_node_count(g); i++) {
        char made[64];
        samba_node_info info;
        need(samba_graph_node(g, i, &info));
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
    samba_graph_free(g);
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
    static const struct {
        net *layer;
        int64_t hidden;
        samba_recurrent_options options;
        int input; /* 0: (3, 2, 4) float32, 1: of rank 1, 2: int64, 3: of no steps */
    } wrong[] = {
        {samba_lstm, 0, {0}, 0},
        {samba_lstm, 4, {.proj_size = 4}, 0},
        {samba_gru, 4, {.proj_size = 2}, 0},
        {samba_gru, 4, {.relu = true}, 0},
        {samba_rnn, 4, {.num_layers = -1}, 0},
        {samba_rnn, 4, {.num_layers = 2, .dropout_p = 1.5}, 0},
        {samba_lstm, 4, {0}, 1},
        {samba_gru, 4, {0}, 3},
        {samba_lstm, 4, {0}, 2},
    };
    static const char *const words[] = {
        "lstm at r: hidden_size must be 1 or more; given num_layers 1, hidden_size 0",
        "proj_size is an LSTM's, and must be smaller than hidden_size",
        "proj_size is an LSTM's",
        "relu is rnn's",
        "num_layers must be from 1 to 1024",
        "p must be from 0 to 1, given 1.5",
        "expected an input (T, N, input_size), with batch_first (N, T, input_size), or (T, input_size), given float32(4)",
        "expected an input of 1 or more steps, given float32(0, 2, 4)",
        "int64",
    };
    samba_tensor *inputs[] = {tensor("x", SAMBA_FLOAT32, 3, SHAPE(3, 2, 4)), tensor("x", SAMBA_FLOAT32, 1, SHAPE(4)),
                              tensor("x", SAMBA_INT64, 3, SHAPE(3, 2, 4)), tensor("x", SAMBA_FLOAT32, 3, SHAPE(0, 2, 4))};
    for (int i = 0; i < LENGTH(wrong); i++) {
        samba_graph *g;
        need(samba_graph_new(context, "wrong", &g));
        need(samba_graph_add_input(g, inputs[wrong[i].input]));
        wrong[i].layer(samba_input(g, "x"), "r", wrong[i].hidden, &wrong[i].options, NULL);
        refuse(samba_graph_status(g), i < 6 ? SAMBA_ERROR_ARGUMENT : i < 8 ? SAMBA_ERROR_SHAPE : SAMBA_ERROR_DTYPE, words[i]);
        samba_graph_free(g);
    }
    for (int i = 0; i < LENGTH(inputs); i++)
        kept(inputs[i]);
}

TEST(refused_weights)
{
    static const struct {
        samba_status status;
        const char *words;
    } refused[] = {
        {SAMBA_ERROR_ARGUMENT, "lstm: expected 4 weights for each of 1 layers and 1 directions, given 3"},
        {SAMBA_ERROR_SHAPE, "lstm: expected w_hh float32(8, 2), given float32(8, 3)"},
        {SAMBA_ERROR_SHAPE, "lstm: expected a state h float32(1, 2, 2), given float32(3, 2, 3)"},
        {SAMBA_ERROR_ARGUMENT,
         "gru_cell: expected weights w_ih, w_hh, and both biases or none of them behind the input, given float32(2, 3)"},
        {SAMBA_ERROR_SHAPE,
         "lstm_cell: expected a state (N, hidden_size), or (hidden_size) where the input has no batch, given float32(3, 2, 3)"},
        {SAMBA_ERROR_DTYPE, "lstm: expected b_ih float32(8), given float64(8)"},
    };
    for (int i = 0; i <= LENGTH(refused); i++) { /* the last are right, with a state */
        samba_graph *g;
        need(samba_graph_new(context, "wrong", &g));
        samba_value x = samba_constant(g, 1, SAMBA_FLOAT32, 3, SHAPE(3, 2, 3)), none = {NULL, 0, 0}, last[2] = {x, none};
        samba_value step = samba_constant(g, 1, SAMBA_FLOAT32, 2, SHAPE(2, 3)),
                    w = samba_constant(g, 1, SAMBA_FLOAT32, 2, SHAPE(8, 3)),
                    u = samba_constant(g, 1, SAMBA_FLOAT32, 2, SHAPE(8, 2)), b = samba_constant(g, 1, SAMBA_FLOAT32, 1, SHAPE(8)),
                    wide = samba_constant(g, 1, SAMBA_FLOAT64, 1, SHAPE(8));
        switch (i) {
        case 0: samba_functional_lstm(x, 3, (samba_value[]){w, u, b}, NULL, NULL); break;
        case 1: samba_functional_lstm(x, 4, (samba_value[]){w, w, b, b}, NULL, NULL); break;
        case 2: samba_functional_lstm(x, 4, (samba_value[]){w, u, b, b}, NULL, last); break;
        case 3: samba_functional_gru_cell(step, (samba_value[]){w, u, b, none}, NULL); break;
        case 4: samba_functional_lstm_cell(step, (samba_value[]){w, u, b, b}, last); break;
        case 5: samba_functional_lstm(x, 4, (samba_value[]){w, u, wide, b}, NULL, NULL); break;
        }
        last[0] = last[1] = samba_constant(g, 1, SAMBA_FLOAT32, 3, SHAPE(1, 2, 2));
        if (i < LENGTH(refused)) {
            refuse(samba_graph_status(g), refused[i].status, refused[i].words);
        } else {
            assert_int_equal(samba_value_size(samba_functional_lstm(x, 4, (samba_value[]){w, u, b, b}, NULL, last), 2), 2);
            need(samba_graph_status(g));
        }
        samba_graph_free(g);
    }
}

TEST_MAIN_WITH(NULL, drop_kept, parameters, training, refused_layers, refused_weights)
