# SPDX-License-Identifier: Apache-2.0
"""Recognisers with CTC loss, trained beside PyTorch as training.py says: lengths as inputs, as numbers, targets in one line."""

import pytest
import torch
from models import Taker, beside_torch
from torch import nn

import sambaflow.samba as samba

STEPS, BATCH, LETTERS = 12, 4, 6


class Recogniser(nn.Module):
    """Columns of an image to letters: a convolution, an LSTM, and the loss over all ways to say them."""

    def __init__(self, lengths=None, **options):
        super().__init__()
        self.lengths = lengths
        self.conv = nn.Conv1d(5, 8, 3, padding=1)
        self.lstm = nn.LSTM(8, 8, bidirectional=True)
        self.head = nn.Linear(16, LETTERS)
        self.loss = nn.CTCLoss(**options)

    def forward(self, x, targets, *lengths):
        steps = self.lstm(torch.tanh(self.conv(x)).permute(2, 0, 1))[0]
        return self.loss(self.head(steps).log_softmax(-1), targets, *(lengths or self.lengths))


def image():
    return torch.randn(BATCH, 5, STEPS)


def test_lengths_of_each_run(tmp_path):
    targets = torch.randint(1, LETTERS, (BATCH, 4))
    lengths = torch.tensor([12, 10, 11, 12]), torch.tensor([4, 2, 1, 3])
    losses = beside_torch(tmp_path, Recogniser(), (image(), targets, *lengths), steps=20, lr=0.1)
    assert losses[-1] < losses[0]


def test_known_lengths_and_targets_in_one_line(tmp_path):
    model = Recogniser(((12, 12, 9, 12), (3, 0, 2, 4)), blank=2, reduction="sum", zero_infinity=True)
    targets = torch.tensor([0, 1, 1, 3, 4, 5, 5, 0, 1])
    beside_torch(tmp_path, model, (image(), targets), steps=5)


@pytest.mark.parametrize(
    "lengths, words",
    [
        (((13, 12, 12, 12), (1, 1, 1, 1)), r"input_lengths must be 0 to 12, given \[13"),
        (((12, 12, 12, 12), (1, 1, 5, 1)), r"target_lengths must be 0 to 4, given \[1, 1, 5"),
        (((12, 12, 12), (1, 1, 1, 1)), r"ctc_loss: expected log probabilities \(T, N, C\)"),
    ],
)
def test_lengths_that_do_not_fit(lengths, words):
    with pytest.raises(Exception, match=words):
        samba.utils.trace_graph(
            samba.from_torch_model_(Recogniser(lengths)),
            (samba.from_torch_tensor(image(), "x"), samba.from_torch_tensor(torch.ones(BATCH, 4, dtype=torch.int64), "y")),
        )


def test_a_label_that_is_no_class(tmp_path):
    model = samba.from_torch_model_(Recogniser(((12,) * BATCH, (2,) * BATCH)))
    targets = torch.full((BATCH, 2), LETTERS)
    inputs = (samba.from_torch_tensor(image(), "x"), samba.from_torch_tensor(targets, "y"))
    pef = samba.session.compile(model, inputs, name="model", inference=True, output_folder=str(tmp_path))
    outputs = samba.session.trace_graph(model, inputs, pef=pef)
    with pytest.raises(Exception, match="met an index that is out of range"):
        samba.session.run(inputs, outputs)


def test_counts_need_a_size():
    model = Taker(lambda self, x: torch.bincount(x))
    with pytest.raises(Exception, match="bincount .* give minlength, the number of counts"):
        samba.utils.trace_graph(model, (samba.from_torch_tensor(torch.tensor([1, 2]), "x"),))
