# SPDX-License-Identifier: Apache-2.0
"""A guess of shape (N, 1) and a target of shape (N) broadcast to (N, N), and a model learns the mean of all targets. torch's losses
warn of it; so do they where they are traced, at the program's line."""

import warnings

import pytest
import torch
import torch.nn.functional as F

import sambaflow.samba as samba

LOSSES = [F.mse_loss, F.l1_loss, F.smooth_l1_loss, F.huber_loss]


class Line(torch.nn.Module):
    def __init__(self, loss, squeezed):
        super().__init__()
        self.linear, self.loss, self.squeezed = torch.nn.Linear(3, 1), loss, squeezed

    def forward(self, x, y):
        guess = self.linear(x)
        return self.loss(guess.squeeze(1) if self.squeezed else guess, y)


def compiled(loss, squeezed, folder):
    model = samba.from_torch_model_(Line(loss, squeezed))
    inputs = samba.zeros(4, 3, name="x"), samba.zeros(4, name="y")
    optim = samba.optim.SGD(model.parameters(), lr=0.1)
    samba.SambaSession().compile(model, inputs, optim, output_folder=str(folder), loss_indices=[0])


@pytest.mark.parametrize("loss", [*LOSSES, torch.nn.MSELoss()])
def test_two_shapes_are_told_of(loss, tmp_path):
    with pytest.warns(UserWarning, match="Using a target size"):
        Line(loss, squeezed=False)(torch.zeros(4, 3), torch.zeros(4))
    with pytest.warns(UserWarning, match=r"_loss: the input has the shape \(4, 1\) and the target \(4,\).* \(in .*py:\d+\)") as told:
        compiled(loss, False, tmp_path)
    assert len(told) == 1 and told[0].filename == __file__


@pytest.mark.parametrize("loss", LOSSES)
def test_one_shape_is_not(loss, tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        compiled(loss, True, tmp_path)
