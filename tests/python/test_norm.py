# SPDX-License-Identifier: Apache-2.0
"""Norms of vectors as torch has them, in eager operations and in graphs: any order, where all is 0, in narrow dtypes."""

import math
import warnings

import pytest
import torch

import sambaflow.samba as samba
import sambaflow.samba.utils as utils
from sambaflow.errors import ArgumentError, HostFallbackWarning

ORDERS = [0, 0.5, 1, 1.5, 2, 3, 2.5, -1, -2, math.inf, -math.inf]
ROWS = torch.tensor([[0.0, 1.0, -2.0, 1.0], [0.0, 0.0, 0.0, 0.0], [3.0, -3.0, 1.0, 0.5]])  # a zero, a tie, nothing but zeros


@pytest.fixture(autouse=True)
def no_fallback():
    with warnings.catch_warnings():
        warnings.simplefilter("error", HostFallbackWarning)
        yield


def differentiated(function, x):
    x = x.requires_grad_()
    y = function(x)
    y.sum().backward()
    return samba.to_torch(y).detach(), torch.zeros(x.shape, dtype=x.dtype) if x.grad is None else samba.to_torch(x.grad)


@pytest.mark.parametrize("order", ORDERS)
def test_values_and_gradients(order):
    for function in (
        lambda x: torch.norm(x, order),
        lambda x: x.norm(order, 1),
        lambda x: torch.linalg.vector_norm(x, order, (0, 1), True),
        lambda x: torch.linalg.norm(x, order, 0),
        lambda x: torch.linalg.vector_norm(x, order, dtype=torch.float64),
    ):
        for rows in (ROWS, ROWS[:1], ROWS[1:2]):
            found, expected = differentiated(function, samba.SambaTensor(rows.clone())), differentiated(function, rows.clone())
            torch.testing.assert_close(found, expected)


def test_frobenius():
    for function in (
        torch.norm,
        torch.Tensor.norm,
        torch.linalg.norm,
        torch.linalg.matrix_norm,
        lambda x: x.norm("fro", (0, 1), True),
    ):
        torch.testing.assert_close(function(samba.SambaTensor(ROWS)).torch(), function(ROWS))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64], ids=str)
def test_dtypes(dtype):
    """Narrow ones are summed in float32, so that the result is the nearest of its dtype,
    or its neighbour where the float32 sum is half way."""
    x = torch.rand(5000, generator=torch.Generator().manual_seed(1)).to(dtype)
    for order in (1, 2, 3):
        torch.testing.assert_close(
            samba.SambaTensor(x).norm(order).torch(), x.double().norm(order).to(dtype), rtol=torch.finfo(dtype).eps, atol=1e-9
        )


def test_what_torch_refuses():
    with pytest.raises((TypeError, RuntimeError), match="floating.point"):
        samba.ones(3, dtype=torch.int64).norm()
    with pytest.raises((TypeError, RuntimeError), match="dtype"):
        torch.linalg.vector_norm(samba.ones(3, dtype=torch.float64), dtype=torch.float32)
    with pytest.raises(ArgumentError, match="dim 1"):
        samba.ones(3).norm(dim=1)


def test_in_a_graph(tmp_path):
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(ROWS.clone())

        def forward(self, x):
            parts = [torch.norm(x * self.weight, order, 1).sum() for order in ORDERS]
            return torch.stack([*parts, torch.linalg.norm(self.weight), self.weight.norm(dtype=torch.float64).float()])

    model, x = Model(), torch.ones(3, 4)
    expected = model(x)
    expected.sum().backward()
    gradient = model.weight.grad
    model.weight.grad = None
    samba.from_torch_model_(model)
    inputs = (samba.from_torch_tensor(x, name="x"),)
    pef = samba.session.compile(model, inputs, output_folder=str(tmp_path), name="norms")
    outputs = utils.trace_graph(model, inputs, pef=pef)
    (found,) = samba.session.run(inputs, outputs, grad_of_outputs=[torch.ones(expected.shape)], section_types=["FWD", "BCKWD"])
    torch.testing.assert_close(found.torch(), expected.detach())
    torch.testing.assert_close(model.weight.sn_grad, gradient)
