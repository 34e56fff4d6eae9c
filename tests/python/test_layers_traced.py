# SPDX-License-Identifier: Apache-2.0
"""Layers whose module does something of its own in Python, trained beside torch: padding modes, a cumulative batch norm, images
that are read at places of a grid, unpooling, and distances that the user gives."""

import pytest
import torch
import torch.nn as nn
import torch.nn.functional as F
from training import train


class Spatial(nn.Module):
    """A spatial transformer: an affine grid from the image, read through it; pooled and put back."""

    def __init__(self):
        super().__init__()
        self.where = nn.Linear(36, 6)

    def forward(self, x):
        theta = self.where(x.flatten(1)).reshape(-1, 2, 3)
        y = F.grid_sample(x, F.affine_grid(theta, x.shape, align_corners=False), padding_mode="border", align_corners=False)
        pooled, places = F.max_pool2d(y, 2, return_indices=True)
        return F.max_unpool2d(pooled, places, 2) + y


class Triplet(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(5, 4)

    def forward(self, x):
        a, b, c = self.lin(x).unbind()
        far = F.triplet_margin_with_distance_loss(
            a, b, c, distance_function=lambda p, q: (p - q).abs().sum(-1), margin=3.0, swap=True
        )
        return far + F.triplet_margin_with_distance_loss(a, c, b, margin=4.0)


MODELS = {
    "reflect": (lambda: nn.Conv2d(1, 2, 3, padding=1, padding_mode="reflect"), (4, 1, 6, 6)),
    "circular": (lambda: nn.Conv1d(3, 2, 3, padding="same", padding_mode="circular"), (2, 3, 8)),
    "cumulative": (lambda: nn.BatchNorm1d(3, momentum=None), (8, 3)),
    "spatial": (Spatial, (4, 1, 6, 6)),
    "glu": (lambda: nn.Sequential(nn.Linear(5, 6), nn.GLU(), nn.PReLU(3), nn.Linear(3, 2)), (4, 5)),
    "softmax2d": (lambda: nn.Sequential(nn.Conv2d(1, 3, 1), nn.Softmax2d()), (2, 1, 4, 4)),
    "triplet": (Triplet, (3, 6, 5)),
}


class Loss(nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, x):
        y = self.model(x)
        return (y * y * torch.arange(1, y.shape[-1] + 1 if y.dim() else 2, dtype=y.dtype)).mean()


@pytest.mark.parametrize("name", MODELS)
def test_trains_as_torch(name, tmp_path):
    make, shape = MODELS[name]
    torch.manual_seed(3)
    train(tmp_path, Loss(make()), (torch.randn(shape),), steps=4)
