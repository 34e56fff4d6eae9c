/* SPDX-License-Identifier: Apache-2.0
 *
 * Recurrent layers (torch.nn.RNN, GRU, LSTM and their cells): by name, with PyTorch's parameter names and initial values, and
 * over weights that exist already. All values have one floating-point dtype.
 *
 * A state goes in and comes out: `state` is NULL, or values from before the first step, which become those from after the last. A
 * zeroed value starts from zeros, without their products.
 *
 *     samba_value state[2] = {{0}};
 *     x = samba_lstm(x, "lstm", 650, &(samba_recurrent_options){.num_layers = 2}, state);      state is (h_n, c_n) now
 *
 * The steps are unrolled: the inputs of all steps meet their weights in one product, each step costs one small product and one
 * fused cell, and the gradients of the weights are one product over all steps. */
#ifndef SAMBAFLOW_RECURRENT_H
#define SAMBAFLOW_RECURRENT_H

#include <sambaflow/graph.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct samba_recurrent_options { /* zero means PyTorch's default */
    int64_t num_layers;                  /* 0: 1; each takes the outputs of the one before */
    bool no_bias;
    bool batch_first;   /* input and output are (N, T, ...) instead of (T, N, ...) */
    bool bidirectional; /* a second run from the last step to the first; the outputs of both side by side */
    bool relu;          /* samba_rnn: relu instead of tanh */
    int64_t proj_size;  /* samba_lstm: h is projected to this size, smaller than hidden_size; 0: not at all */
    /* of the outputs of each layer but the last: hyperparameters "<dropout>.p", which starts at dropout_p, and */
    double dropout_p;
    const char *dropout; /* "<dropout>.seed"; NULL: none. A layer by name takes "dropout" where dropout_p > 0 */
} samba_recurrent_options;

/* Layers by name: input (T, N, input_size), or (N, T, input_size) with batch_first, or (T, input_size) without a batch. The
 * result is (T, N, D
 * * H) in the same order of dims, D directions of H = hidden_size or proj_size. `state`, (D * num_layers, N, H) or without N, is
 * one value (h); of an LSTM two (h, c), where c is (D * num_layers, N, hidden_size). Parameters "<name>.weight_ih_l0",
 * "weight_hh_l0", "bias_ih_l0", "bias_hh_l0", of a projection "weight_hr_l0", with "_reverse" behind for the other direction,
 * start uniform within 1 / sqrt(hidden_size). */
SAMBA_API samba_value samba_rnn(samba_value input, const char *name, int64_t hidden_size,
                                const samba_recurrent_options *options /* may be NULL */, samba_value *state /* may be NULL */);
SAMBA_API samba_value samba_gru(samba_value input, const char *name, int64_t hidden_size,
                                const samba_recurrent_options *options /* may be NULL */, samba_value *state /* may be NULL */);
SAMBA_API samba_value samba_lstm(samba_value input, const char *name, int64_t hidden_size,
                                 const samba_recurrent_options *options /* may be NULL */, samba_value *state /* 2 or NULL */);

/* The same over `count` weights (torch.rnn_tanh, torch.rnn_relu, torch.gru, torch.lstm): for each layer, and in it for each
 * direction, w_ih (G * H, input size), w_hh (G * H, H), unless no_bias b_ih and b_hh (G * H), with proj_size w_hr (proj_size, H);
 * G is 1, 3 (reset, update, new) and 4 (input, forget, cell, output). hidden_size is the weights'. */
SAMBA_API samba_value samba_functional_rnn(samba_value input, int count, const samba_value *weights,
                                           const samba_recurrent_options *options, samba_value *state);
SAMBA_API samba_value samba_functional_gru(samba_value input, int count, const samba_value *weights,
                                           const samba_recurrent_options *options, samba_value *state);
SAMBA_API samba_value samba_functional_lstm(samba_value input, int count, const samba_value *weights,
                                            const samba_recurrent_options *options, samba_value *state);

/* One step (torch.nn.RNNCell, GRUCell, LSTMCell): input (N, input_size) or (input_size), state (N, hidden_size) or (hidden_size).
 * The result is h after the step. Parameters "<name>.weight_ih", "weight_hh", "bias_ih", "bias_hh". */
typedef struct samba_cell_options { /* zero means PyTorch's default */
    bool no_bias;
    bool relu; /* samba_rnn_cell: relu instead of tanh */
} samba_cell_options;
SAMBA_API samba_value samba_rnn_cell(samba_value input, const char *name, int64_t hidden_size,
                                     const samba_cell_options *options /* may be NULL */, samba_value *state /* may be NULL */);
SAMBA_API samba_value samba_gru_cell(samba_value input, const char *name, int64_t hidden_size,
                                     const samba_cell_options *options /* may be NULL */, samba_value *state /* may be NULL */);
SAMBA_API samba_value samba_lstm_cell(samba_value input, const char *name, int64_t hidden_size,
                                      const samba_cell_options *options /* may be NULL */, samba_value *state /* 2 or NULL */);
/* Over weights (torch.rnn_tanh_cell, torch.rnn_relu_cell, torch.gru_cell, torch.lstm_cell): w_ih, w_hh, b_ih, b_hh; either both
 * biases or, zeroed, none. */
SAMBA_API samba_value samba_functional_rnn_cell(samba_value input, const samba_value weights[4], bool relu, samba_value *state);
SAMBA_API samba_value samba_functional_gru_cell(samba_value input, const samba_value weights[4], samba_value *state);
SAMBA_API samba_value samba_functional_lstm_cell(samba_value input, const samba_value weights[4], samba_value *state);

#ifdef __cplusplus
}
#endif
#endif
