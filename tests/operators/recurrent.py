# SPDX-License-Identifier: Apache-2.0
"""Recurrent nets, whole and one step of them."""

import torch
from table import Operator, Sample
from views import between_views

# (steps, batch, input size, hidden size, layers, biases, directions, batch_first, projection)
NETS = [
    (1, 1, 1, 1, 1, True, 1, False, 0),
    (3, 2, 5, 6, 1, True, 1, False, 0),
    (3, 2, 5, 6, 1, False, 1, False, 0),
    (2, 2, 4, 5, 2, True, 1, False, 0),
    (2, 2, 4, 3, 1, True, 2, False, 0),
    (2, 2, 4, 3, 2, False, 2, True, 0),
    (3, 1, 3, 7, 1, False, 1, True, 0),
    (2, 0, 3, 4, 1, True, 1, False, 0),
    (4, 2, 1, 3, 1, True, 1, False, 0),
    (2, 3, 3, 17, 1, True, 1, True, 0),
]
PROJECTED = [(3, 2, 4, 6, 1, True, 1, False, 3), (3, 2, 4, 6, 2, False, 2, True, 2)]


def _weights(make, gates, net):
    _, _, inputs, hidden, layers, biases, directions, _, projection = net
    width, weights = projection or hidden, []
    bound = 1 / hidden**0.5
    for layer in range(layers):
        for _ in range(directions):
            sizes = [(gates * hidden, inputs if layer == 0 else directions * width), (gates * hidden, width)]
            sizes += [(gates * hidden,)] * 2 if biases else []
            sizes += [(projection, hidden)] if projection else []
            weights += [make.tensor(*size, low=-bound, high=bound) for size in sizes]
    return weights


def _nets(gates, states, nets):
    def samples(make):
        for net in nets:
            steps, batch, inputs, hidden, layers, biases, directions, batch_first, projection = net
            batch, inputs, hidden, *more = make.sized((batch, inputs, hidden, *[projection] * (projection > 0)), work=8)
            projection = min(more[0], hidden - 1) if more else 0
            net = steps, batch, inputs, hidden, layers, biases, directions, batch_first, projection
            for layout in ("contiguous", "transposed" if steps % 2 else "strided"):
                x = make.tensor(*((batch, steps) if batch_first else (steps, batch)), inputs, layout=layout)
                hx = [make.tensor(layers * directions, batch, size) for size in (projection or hidden, hidden)[:states]]
                yield Sample(
                    (
                        x,
                        hx if states == 2 else hx[0],
                        _weights(make, gates, net),
                        biases,
                        layers,
                        0.0,
                        False,
                        directions == 2,
                        batch_first,
                    ),
                    terms=steps * layers * (inputs + hidden),
                )

    return samples


def _cells(gates, states):
    def samples(make):
        for batch, inputs, hidden in [(1, 1, 1), (3, 5, 6), (0, 3, 4), (2, 17, 3), (5, 3, 17)]:
            batch, inputs, hidden = make.sized((batch, inputs, hidden), work=8)
            bound = 1 / hidden**0.5
            for biases in (True, False):
                for layout in ("contiguous", "transposed"):
                    x, hx = make.tensor(batch, inputs, layout=layout), [make.tensor(batch, hidden) for _ in range(states)]
                    weights = [make.tensor(gates * hidden, size, low=-bound, high=bound) for size in (inputs, hidden)]
                    weights += [make.tensor(gates * hidden, low=-bound, high=bound) for _ in range(2)] if biases else []
                    yield Sample((x, hx if states == 2 else hx[0], *weights), terms=inputs + hidden)

    return samples


OPERATORS = [
    Operator("lstm", torch.lstm, _nets(4, 2, NETS + PROJECTED)),
    Operator("gru", torch.gru, _nets(3, 1, NETS)),
    Operator("rnn_tanh", torch.rnn_tanh, _nets(1, 1, NETS)),
    Operator("rnn_relu", torch.rnn_relu, _nets(1, 1, NETS)),
    Operator("lstm_cell", torch.lstm_cell, _cells(4, 2)),
    Operator("gru_cell", torch.gru_cell, _cells(3, 1)),
    Operator("rnn_tanh_cell", torch.rnn_tanh_cell, _cells(1, 1)),
    Operator("rnn_relu_cell", torch.rnn_relu_cell, _cells(1, 1)),
]
OPERATORS += [between_views(row, whole=True) for row in OPERATORS]
