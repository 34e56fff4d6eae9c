# SPDX-License-Identifier: Apache-2.0
"""LSTM, GRU and plain recurrent layers, one step after the other."""
import torch
import torch.nn.functional as F

from sambaflow._core import lib
from sambaflow.samba.rules.common import NONE, optional, rank, unsupported
from sambaflow.samba.rules.shape import cat, chunk, select, stack, unbind
from sambaflow.samba.trace import rule


# ---- recurrent layers: one step after the other ----


def _layers(t, input, states, weights, has_biases, num_layers, dropout_p, train, bidirectional, batch_first, cell):
    steps = [x for x in unbind(t, input, 1 if batch_first and rank(input) == 3 else 0)]
    projected = len(states) == 2 and states[0].shape[-1] != states[1].shape[-1]  # LSTM's proj_size: one weight more
    per, directions = (4 if has_biases else 2) + projected, 2 if bidirectional else 1
    last = []
    for layer in range(num_layers):
        outputs = []
        for direction in range(directions):
            at = (layer * directions + direction)
            own = [t.value(x) for x in weights[at * per : at * per + per]]
            w = own[:2] + (own[2:4] if has_biases else [NONE, NONE]) + (own[-1:] if projected else [])
            state = [t.value(select(t, s, 0, at)) for s in states]
            run = []
            for x in reversed(steps) if direction else steps:
                state = cell(t, t.value(x), state, w)
                run.append(t.wrap(state[0]))
            outputs.append(run[::-1] if direction else run)
            last.append([t.wrap(s) for s in state])
        steps = [cat(t, list(both), -1) for both in zip(*outputs)] if bidirectional else outputs[0]
        if dropout_p and train and layer + 1 < num_layers:
            steps = list(unbind(t, F.dropout(stack(t, steps), dropout_p)))
    result = stack(t, steps, 1 if batch_first and rank(input) == 3 else 0)
    return (result, *(stack(t, list(s)) for s in zip(*last)))


def _gates(t, x, h, w):
    return lib.samba_functional_linear(x, w[0], w[2]), lib.samba_functional_linear(h, w[1], w[3])


def _lstm_cell(t, x, state, w):
    gates = t.wrap(lib.samba_add(*_gates(t, x, state[0], w)))
    i, f, g, o = (t.value(part) for part in chunk(t, gates, 4, -1))
    c = lib.samba_add(lib.samba_mul(lib.samba_sigmoid(f), state[1]), lib.samba_mul(lib.samba_sigmoid(i), lib.samba_tanh(g)))
    h = lib.samba_mul(lib.samba_sigmoid(o), lib.samba_tanh(c))
    return [lib.samba_functional_linear(h, w[4], NONE) if len(w) > 4 else h, c]


def _gru_cell(t, x, state, w):
    from_x, from_h = (chunk(t, t.wrap(part), 3, -1) for part in _gates(t, x, state[0], w))
    r, z = (lib.samba_sigmoid(lib.samba_add(t.value(a), t.value(b))) for a, b in zip(from_x[:2], from_h[:2]))
    n = lib.samba_tanh(lib.samba_add(t.value(from_x[2]), lib.samba_mul(r, t.value(from_h[2]))))
    return [lib.samba_add(n, lib.samba_mul(z, lib.samba_sub(state[0], n)))]


@rule(torch.lstm)
def lstm(t, input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first=False):
    if isinstance(params, bool):
        unsupported(t, "a packed sequence, whose lengths are values: pad and mask instead")
    return _layers(t, input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first, _lstm_cell)


@rule(torch.gru)
def gru(t, input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first=False):
    if isinstance(params, bool):
        unsupported(t, "a packed sequence, whose lengths are values: pad and mask instead")
    return _layers(t, input, [hx], params, has_biases, num_layers, dropout, train, bidirectional, batch_first, _gru_cell)


# ---- one step ----


@rule(torch.lstm_cell)
def lstm_cell(t, input, hx, w_ih, w_hh, b_ih=None, b_hh=None):
    return tuple(t.wrap(x) for x in _step(t, _lstm_cell, input, hx, w_ih, w_hh, b_ih, b_hh))


@rule(torch.gru_cell)
def gru_cell(t, input, hx, w_ih, w_hh, b_ih=None, b_hh=None):
    return t.wrap(_step(t, _gru_cell, input, [hx], w_ih, w_hh, b_ih, b_hh)[0])


def _step(t, cell, input, states, w_ih, w_hh, b_ih, b_hh):
    return cell(t, t.value(input), [t.value(x) for x in states], [t.value(w_ih), t.value(w_hh), optional(t, b_ih), optional(t, b_hh)])


def _plain_cell(function):
    def cell(t, x, state, w):
        return [function(lib.samba_add(*_gates(t, x, state[0], w)))]

    return cell


def _plain_rnn(torch_function, function):
    @rule(torch_function)
    def traced(t, input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first=False):
        return _layers(t, input, [hx], params, has_biases, num_layers, dropout, train, bidirectional, batch_first, _plain_cell(function))


def _plain_rnn_cell(torch_function, function):
    @rule(torch_function)
    def traced(t, input, hx, w_ih, w_hh, b_ih=None, b_hh=None):
        return t.wrap(_step(t, _plain_cell(function), input, [hx], w_ih, w_hh, b_ih, b_hh)[0])


_plain_rnn_cell(torch.rnn_tanh_cell, lib.samba_tanh)
_plain_rnn_cell(torch.rnn_relu_cell, lib.samba_relu)
_plain_rnn(torch.rnn_tanh, lib.samba_tanh)
_plain_rnn(torch.rnn_relu, lib.samba_relu)
