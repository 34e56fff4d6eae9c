# SPDX-License-Identifier: Apache-2.0
"""The benchmark's and the comparison's models in plain PyTorch, named as the examples in C name their parameters."""
import json
import struct

import numpy as np
import torch
from torch import nn


class LogReg(nn.Module):
    def __init__(self, features=784, classes=10):
        super().__init__()
        self.lin_layer = nn.Linear(features, classes)
        self.criterion = nn.CrossEntropyLoss()

    def forward(self, image, label):
        return self.criterion(self.lin_layer(image), label)


class ResFFNLogReg(nn.Module):
    def __init__(self, hidden, features=784, classes=10):
        super().__init__()
        self.gemm1 = nn.Linear(features, hidden)
        self.gemm2 = nn.Linear(hidden, hidden)
        self.gemm3 = nn.Linear(hidden, classes)
        self.norm1 = nn.LayerNorm(hidden)
        self.norm2 = nn.LayerNorm(hidden)
        self.criterion = nn.CrossEntropyLoss()

    def forward(self, image, label):
        residual = torch.tanh(self.norm1(self.gemm1(image)))
        out = torch.sigmoid(self.norm2(self.gemm2(residual)) + residual)
        return self.criterion(self.gemm3(out), label)


class LeNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 6, 5, padding=2)
        self.conv2 = nn.Conv2d(6, 16, 5)
        self.fc1 = nn.Linear(400, 120)
        self.fc2 = nn.Linear(120, 84)
        self.fc3 = nn.Linear(84, 10)
        self.criterion = nn.CrossEntropyLoss()

    def forward(self, image, label):
        x = torch.max_pool2d(torch.relu(self.conv1(image)), 2)
        x = torch.max_pool2d(torch.relu(self.conv2(x)), 2).flatten(1)
        x = torch.relu(self.fc1(x))
        return self.criterion(self.fc3(torch.relu(self.fc2(x))), label)


def make(name, hidden=128):
    return {"logreg": LogReg, "lenet": LeNet}[name]() if name != "resffn" else ResFFNLogReg(hidden)


def read_safetensors(path):
    """Name -> tensor, by the format's description: 8 bytes of header length, JSON, data."""
    dtypes = {"F32": np.float32, "I64": np.int64, "F64": np.float64}
    with open(path, "rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(length))
        data = file.read()
    header.pop("__metadata__", None)
    tensors = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        array = np.frombuffer(data[begin:end], dtypes[entry["dtype"]]).reshape(entry["shape"])
        tensors[name] = torch.from_numpy(array.copy())
    return tensors


class Trainer:
    """A whole training step: zero_grad, forward, backward, clipping with AdamW, optimizer."""

    def __init__(self, name, tensors, hidden=128, optimizer="sgd", lr=0.01, momentum=0.9, weight_decay=1e-4, max_grad_norm=0.0):
        self.model = make(name, hidden)
        with torch.no_grad():
            for key, parameter in self.model.named_parameters():
                parameter.copy_(tensors[key])
        self.max_grad_norm = max_grad_norm
        if optimizer == "sgd":
            self.optimizer = torch.optim.SGD(self.model.parameters(), lr=lr, momentum=momentum, weight_decay=weight_decay)
        else:
            self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=lr, weight_decay=weight_decay)

    def step(self, image, label):
        self.optimizer.zero_grad(set_to_none=True)
        loss = self.model(image, label)
        loss.backward()
        if self.max_grad_norm > 0:
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.max_grad_norm)
        self.optimizer.step()
        return loss
