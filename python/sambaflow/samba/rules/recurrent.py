# SPDX-License-Identifier: Apache-2.0
"""LSTM, GRU and plain recurrent nets, whole and one step of them."""

import torch

from sambaflow._core import ffi, lib
from sambaflow.samba.rules.common import optional, unsupported
from sambaflow.samba.trace import rule


def _values(t, tensors):
    return ffi.new("samba_value[]", [t.value(x) for x in tensors])


def _wrapped(t, values):
    """Each with memory of its own: an element of an array does not keep the array."""
    return [t.wrap(ffi.new("samba_value *", value)[0]) for value in values]


def _net(torch_function, call, states, relu=False):
    @rule(torch_function)
    def traced(t, input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first=False):
        if isinstance(params, bool):
            unsupported(t, "a packed sequence, whose lengths are values: pad and mask instead")
        state = _values(t, hx if states == 2 else [hx])
        options = ffi.new(
            "samba_recurrent_options *",
            {
                "num_layers": num_layers,
                "no_bias": not has_biases,
                "batch_first": batch_first,
                "bidirectional": bidirectional,
                "relu": relu,
            },
        )
        if states == 2 and hx[0].shape[-1] != hx[1].shape[-1]:
            options.proj_size = hx[0].shape[-1]
        if dropout and train and num_layers > 1 and t.drops():
            name = ffi.new("char[]", t.dropout_name().encode())
            options.dropout, options.dropout_p = name, dropout
        result = call(t.value(input), len(params), _values(t, params), options, state)
        return (t.wrap(result), *_wrapped(t, state))


_net(torch.lstm, lib.samba_functional_lstm, 2)
_net(torch.gru, lib.samba_functional_gru, 1)
_net(torch.rnn_tanh, lib.samba_functional_rnn, 1)
_net(torch.rnn_relu, lib.samba_functional_rnn, 1, relu=True)


# ---- one step ----


def _weights(t, w_ih, w_hh, b_ih, b_hh):
    return ffi.new("samba_value[4]", [t.value(w_ih), t.value(w_hh), optional(t, b_ih), optional(t, b_hh)])


@rule(torch.lstm_cell)
def lstm_cell(t, input, hx, w_ih, w_hh, b_ih=None, b_hh=None):
    state = _values(t, hx)
    lib.samba_functional_lstm_cell(t.value(input), _weights(t, w_ih, w_hh, b_ih, b_hh), state)
    return tuple(_wrapped(t, state))


@rule(torch.gru_cell)
def gru_cell(t, input, hx, w_ih, w_hh, b_ih=None, b_hh=None):
    return t.wrap(lib.samba_functional_gru_cell(t.value(input), _weights(t, w_ih, w_hh, b_ih, b_hh), _values(t, [hx])))


def _plain_cell(torch_function, relu):
    @rule(torch_function)
    def traced(t, input, hx, w_ih, w_hh, b_ih=None, b_hh=None):
        return t.wrap(lib.samba_functional_rnn_cell(t.value(input), _weights(t, w_ih, w_hh, b_ih, b_hh), relu, _values(t, [hx])))


_plain_cell(torch.rnn_tanh_cell, False)
_plain_cell(torch.rnn_relu_cell, True)
