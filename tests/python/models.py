# SPDX-License-Identifier: Apache-2.0
"""Models of the tests."""

from typing import Tuple

import torch
from torch import nn

import sambaflow.samba as samba
import sambaflow.samba.utils as utils


def basic_weight_init(module):
    """What the slides' model applies; they leave it out."""
    if isinstance(module, nn.Linear):
        nn.init.normal_(module.weight, std=0.05)
        nn.init.zeros_(module.bias)


class ResFFNLogReg(nn.Module):
    """Feed Forward Network with two different activation functions and a residual connection"""

    def __init__(self, num_features: int, hidden_size: int, num_classes: int) -> None:
        super().__init__()
        self.gemm1 = nn.Linear(num_features, hidden_size, bias=True)
        self.gemm2 = nn.Linear(hidden_size, hidden_size, bias=True)
        self.gemm3 = nn.Linear(hidden_size, num_classes, bias=True)

        self.norm1 = nn.LayerNorm(hidden_size)
        self.norm2 = nn.LayerNorm(hidden_size)

        self.tanh1 = nn.Tanh()
        self.sigmoid1 = nn.Sigmoid()

        self.criterion = nn.CrossEntropyLoss()

        self.apply(basic_weight_init)

    def forward(self, inputs: torch.Tensor, targets: torch.Tensor) -> Tuple[torch.Tensor]:
        out = self.gemm1(inputs)
        out = self.norm1(out)
        out = self.tanh1(out)
        residual = out
        out = self.gemm2(out)
        out = self.norm2(out)
        out = out + residual
        out = self.sigmoid1(out)
        out = self.gemm3(out)
        loss = self.criterion(out, targets)
        return loss, out


class TwoLinears(nn.Module):
    """What optimizers are tried on."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(5, 7), nn.Linear(7, 3)

    def forward(self, x, y):
        return nn.functional.mse_loss(self.second(torch.tanh(self.first(x))), y)


class Loss(nn.Module):
    """A model and a function of its result and the last input."""

    def __init__(self, model, function):
        super().__init__()
        self.model, self.function = model, function

    def forward(self, *inputs):
        return self.function(self.model(*inputs[:-1]), inputs[-1])


class Block(nn.Module):
    """Of ResNet-18."""

    def __init__(self, channels_in, channels, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(channels_in, channels, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = None
        if stride != 1 or channels_in != channels:
            self.downsample = nn.Sequential(nn.Conv2d(channels_in, channels, 1, stride, bias=False), nn.BatchNorm2d(channels))

    def forward(self, x):
        out = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
        out += self.downsample(x) if self.downsample else x
        return self.relu(out)


def resnet18(classes=10, width=64):
    """He et al. 2016, as torchvision arranges it."""
    w = width
    blocks = [
        Block(a, b, s)
        for a, b, s in (
            (w, w, 1),
            (w, w, 1),
            (w, 2 * w, 2),
            (2 * w, 2 * w, 1),
            (2 * w, 4 * w, 2),
            (4 * w, 4 * w, 1),
            (4 * w, 8 * w, 2),
            (8 * w, 8 * w, 1),
        )
    ]
    return nn.Sequential(
        nn.Conv2d(3, w, 7, 2, 3, bias=False),
        nn.BatchNorm2d(w),
        nn.ReLU(True),
        nn.MaxPool2d(3, 2, 1),
        *blocks,
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(8 * w, classes),
    )


def lenet():
    """LeCun et al. 1998 with max pooling and relu."""
    return nn.Sequential(
        nn.Conv2d(1, 6, 5, padding=2),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(6, 16, 5),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(400, 120),
        nn.ReLU(),
        nn.Linear(120, 84),
        nn.ReLU(),
        nn.Linear(84, 10),
    )


class Recurrent(nn.Module):
    """nn.LSTM or nn.GRU and a classifier of each step."""

    def __init__(self, cell, **options):
        super().__init__()
        self.cell = cell(8, 16, batch_first=True, **options)
        self.head = nn.Linear(16 * (2 if options.get("bidirectional") else 1), 5)

    def forward(self, x, target):
        return nn.functional.cross_entropy(self.head(self.cell(x)[0]).transpose(1, 2), target)


def trained(tmp_path, **options):
    """ResFFNLogReg, compiled and loaded: the model, its inputs, its traced outputs."""
    model = ResFFNLogReg(20, 32, 10)
    samba.from_torch_model_(model)
    image = samba.randn(8, 20, name="image", batch_dim=0)
    label = samba.randint(10, (8,), name="label", batch_dim=0)
    inputs = (image, label)
    optim = samba.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, weight_decay=1e-4)
    pef = samba.session.compile(model, inputs, optim, name="resffn", loss_indices=[(0,)], output_folder=str(tmp_path), **options)
    outputs = utils.trace_graph(model, inputs, optim, pef=pef, loss_indices=[(0,)])
    return model, inputs, outputs


class Taker(nn.Module):
    """A model whose forward is a function of it and the arguments."""

    def __init__(self, function, **modules):
        super().__init__()
        self.function = function
        for name, module in modules.items():
            setattr(self, name, module)

    def forward(self, *args, **kwargs):
        return self.function(self, *args, **kwargs)


def beside_torch(tmp_path, model, inputs, steps=3, **options):
    """`training.train` for three steps, as the tests of single features want it."""
    from training import train

    return train(tmp_path, model, inputs, steps=steps, **options)
