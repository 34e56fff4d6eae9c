# SPDX-License-Identifier: Apache-2.0
"""Libraries that contract tensors of any kind, as opt_einsum does, find NumPy's einsum, tensordot and transpose in the package
that a tensor's type is of: with ours a model is traced, and values are torch's."""

import importlib
import os
import random
import types

import pytest
import torch
from models import Taker, beside_torch
from torch import nn

import sambaflow
import sambaflow.samba as samba

TORCH = types.SimpleNamespace(
    einsum=torch.einsum,
    tensordot=lambda x, y, axes=2: torch.tensordot(x, y, dims=axes),
    transpose=lambda x, axes: x.permute(axes),
)


def library_of(x):
    """As such a library finds it, but torch's, which they know."""
    name = type(x).__module__.partition(".")[0]
    return TORCH if name == "torch" else importlib.import_module(name)


def test_contractions_in_a_model(tmp_path):
    """Over drawn axes, in drawn orders."""
    seed = int(os.environ.get("SAMBAFLOW_SEED") or random.randrange(2**31))
    print(f"SAMBAFLOW_SEED={seed}")
    draw = random.Random(seed)
    sizes = [draw.choice((1, 2, 3, 5)) for _ in range(3)]
    mine, its = draw.sample(range(3), 2), draw.sample(range(3), 2)
    shape = [4, 4, 4]
    for a, b in zip(mine, its):
        shape[b] = sizes[a]
    order = draw.sample(range(2), 2)

    def forward(model, x):
        library = library_of(x)
        y = library.tensordot(x, model.weight, axes=(mine, its))
        y = library.transpose(y, axes=order)
        y = library.einsum("ab,ab->a", y, library.tensordot(y, model.square[order[1]], axes=1))
        return y.square().sum()

    free = sizes[3 - sum(mine)]
    square = nn.ParameterList([nn.Parameter(torch.randn(n, n)) for n in (free, 4)])
    beside_torch(tmp_path, Taker(forward, weight=nn.Parameter(torch.randn(shape)), square=square), (torch.randn(sizes),), lr=1e-4)


def test_outside_a_trace():
    x, y = torch.randn(3, 4), torch.randn(4, 2)
    library = library_of(samba.from_torch_tensor(x))
    result = library.tensordot(samba.from_torch_tensor(x), samba.from_torch_tensor(y), axes=1)
    torch.testing.assert_close(result.torch(), x @ y)
    with pytest.raises(AttributeError, match="no attribute 'kron'"):
        sambaflow.kron  # noqa: B018
