# SPDX-License-Identifier: Apache-2.0
"""Packed sequences in a traced model, with lengths that are an input of the graph or known: outputs, final states, gradients and
losses are PyTorch's, which runs each step over the sequences that still go on."""

import copy
import os
import random

import pytest
import torch
import torch.nn.functional as F
from models import Taker, beside_torch
from torch import nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence
from training import train

import sambaflow.samba as samba
from sambaflow.errors import UnsupportedError

LAYERS = {
    "LSTM": lambda: nn.LSTM(4, 3, 2, bidirectional=True, batch_first=True),
    "LSTM that projects": lambda: nn.LSTM(4, 5, proj_size=3, batch_first=True),
    "GRU": lambda: nn.GRU(4, 3, 2, batch_first=True),
    "GRU without biases": lambda: nn.GRU(4, 3, bias=False, bidirectional=True, batch_first=True),
    "RNN": lambda: nn.RNN(4, 3, 2, nonlinearity="relu", bidirectional=True, batch_first=True),
}


def over_values(m, x, lengths):
    packed = pack_padded_sequence(x, lengths.cpu(), batch_first=True, enforce_sorted=False)
    out, states = m.layer(packed)
    padded, back = pad_packed_sequence(out, batch_first=True, padding_value=0.5, total_length=x.shape[1])
    states = states if isinstance(states, tuple) else (states,)
    return padded.square().mean() + sum(s.sin().mean() for s in states) + back.sum() * 0.0


@pytest.mark.parametrize("name", LAYERS)
def test_lengths_that_are_values(name, tmp_path):
    torch.manual_seed(3)
    beside_torch(tmp_path, Taker(over_values, layer=LAYERS[name]()), (torch.randn(4, 6, 4), torch.tensor([3, 6, 1, 6])), steps=2)


def test_other_lengths_of_the_next_run(tmp_path):
    """One graph; drawn lengths, each run its own, against torch: outputs and states."""
    seed = int(os.environ.get("SAMBAFLOW_SEED") or random.randrange(2**31))
    print(f"SAMBAFLOW_SEED={seed}")
    torch.manual_seed(seed)

    def forward(m, x, lengths, h, c):
        out, (h, c) = m.layer(pack_padded_sequence(x, lengths, enforce_sorted=False), (h, c))
        return pad_packed_sequence(out, total_length=x.shape[0])[0], h, c

    theirs = nn.LSTM(4, 3, 2, bidirectional=True)
    model = samba.from_torch_model(Taker(forward, layer=copy.deepcopy(theirs)))
    shapes = (5, 3, 4), (3,), (4, 3, 3), (4, 3, 3)
    given = tuple(
        samba.from_torch_tensor(torch.ones(3, dtype=torch.int64) if i == 1 else torch.zeros(s), name=f"in{i}")
        for i, s in enumerate(shapes)
    )
    pef = samba.session.compile(model, given, inference=True, output_folder=str(tmp_path))
    outputs = samba.utils.trace_graph(model, given, pef=pef)
    for _ in range(5):
        values = [torch.randint(1, 6, s) if i == 1 else torch.randn(s) for i, s in enumerate(shapes)]
        expected = forward(Taker(forward, layer=theirs), *values)
        inputs = [samba.from_torch_tensor(v, name=f"in{i}") for i, v in enumerate(values)]
        for found, wanted in zip(samba.session.run(inputs, outputs), expected):
            torch.testing.assert_close(found.torch(), wanted.detach(), rtol=1e-5, atol=1e-6)


KNOWN = [5, 3, 3, 1]


def over_known(m, x, labels):
    """The loss of what is packed, without padding."""
    packed = pack_padded_sequence(x, KNOWN, batch_first=True)
    out, (_, c) = m.layer(packed)
    logits = PackedSequence(m.head(out.data), out.batch_sizes)
    targets = pack_padded_sequence(labels, KNOWN, batch_first=True).data
    more, _ = m.second(logits)
    return F.cross_entropy(logits.data, targets) + pad_packed_sequence(more)[0].square().mean() + c.mean()


def test_known_lengths(tmp_path):
    torch.manual_seed(4)
    model = Taker(over_known, layer=nn.LSTM(4, 3, batch_first=True), head=nn.Linear(3, 5), second=nn.GRU(5, 2))
    beside_torch(tmp_path, model, (torch.randn(4, 6, 4), torch.randint(5, (4, 6))), steps=2)


def test_known_and_unsorted(tmp_path):
    def forward(m, x):
        packed = pack_padded_sequence(x, torch.tensor(KNOWN[::-1]), enforce_sorted=False)
        out = m.layer(packed)[0]
        assert out.batch_sizes.tolist() == [4, 3, 3, 1, 1] and out.sorted_indices.tolist()[0] == 3
        weights = torch.arange(1.0, 13, dtype=x.dtype)[:, None]
        return (out.data * weights).mean() + pad_packed_sequence(out)[0].square().mean()

    torch.manual_seed(5)
    beside_torch(tmp_path, Taker(forward, layer=nn.GRU(4, 3)), (torch.randn(6, 4, 4),), steps=2)


def test_it_learns(tmp_path):
    """Sequences of several lengths that are classified by their last state, for 20 steps."""

    def forward(m, tokens, lengths, labels):
        packed = pack_padded_sequence(m.embed(tokens), lengths, batch_first=True, enforce_sorted=False)
        return F.cross_entropy(m.head(torch.cat([*m.layer(packed)[1][0]], 1)), labels)

    torch.manual_seed(6)
    layer = nn.LSTM(6, 5, bidirectional=True, batch_first=True)
    model = Taker(forward, embed=nn.Embedding(11, 6), layer=layer, head=nn.Linear(10, 3))
    inputs = torch.randint(11, (6, 7)), torch.tensor([7, 2, 5, 1, 4, 7]), torch.randint(3, (6,))
    losses = train(tmp_path, model, inputs, steps=20, lr=0.2)
    assert losses[-1] < losses[0]


REFUSED = {
    "data": (lambda m, x, n: m.layer(pack_padded_sequence(x, n))[0].data.sum(), UnsupportedError, "data of a packed sequence"),
    "unsorted": (lambda m, x, n: pack_padded_sequence(x, [1, 2, 3]).data.sum(), RuntimeError, "sorted in decreasing order"),
    "none": (lambda m, x, n: pack_padded_sequence(x, [2, 1, 0]).data.sum(), RuntimeError, "has to be greater than 0"),
    "too long": (lambda m, x, n: pack_padded_sequence(x, [7, 1, 1]).data.sum(), RuntimeError, "lengths of at most 5"),
    "total_length": (
        lambda m, x, n: pad_packed_sequence(pack_padded_sequence(x, n), total_length=3)[0].sum(),
        ValueError,
        "Expected total_length to be at least",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals(name, tmp_path):
    function, error, words = REFUSED[name]
    model = samba.from_torch_model(Taker(function, layer=nn.LSTM(4, 3)))
    given = samba.randn(5, 3, 4, name="x"), samba.from_torch_tensor(torch.tensor([3, 2, 1]), name="lengths")
    with pytest.raises(error, match=words):
        samba.session.compile(model, given, inference=True, output_folder=str(tmp_path))
