# SPDX-License-Identifier: Apache-2.0
"""Models through factors of matrices, trained beside torch; what torch's functions return; matrices that have no result."""

import pytest
import torch
import torch.nn as nn
from training import train

import sambaflow.samba as samba
from sambaflow.errors import UnsupportedError


class Process(nn.Module):
    """A Gaussian process: the negative log-likelihood of values at places, by a Cholesky factor."""

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.tensor([0.3]))
        self.noise = nn.Parameter(torch.tensor([-1.0]))

    def forward(self, x, y):
        near = torch.exp(-0.5 * torch.cdist(x, x) ** 2 * torch.exp(self.scale))
        lower = torch.linalg.cholesky(near + torch.exp(self.noise) * torch.eye(x.shape[-2]))
        white = torch.linalg.solve_triangular(lower, y, upper=False)
        return 0.5 * white.square().sum() + torch.log(torch.diagonal(lower, dim1=-2, dim2=-1)).sum()


class Whitened(nn.Module):
    """Features made of unit covariance by eigenvectors, then least squares by solving."""

    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(5, 3)

    def forward(self, x, y):
        h = torch.tanh(self.lin(x))
        values, vectors = torch.linalg.eigh(h.mT @ h + torch.diag(torch.tensor([1.0, 2.0, 4.0])))
        root = vectors @ torch.diag_embed(values.rsqrt()) @ vectors.mT
        h = h @ root
        weight = torch.linalg.solve(h.mT @ h + 0.1 * torch.eye(3), h.mT @ y)
        return (h @ weight - y).square().mean()


class Functions(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Parameter(torch.randn(2, 4, 4) / 4 + 3 * torch.eye(4))

    def forward(self, x):
        turned = torch.linalg.matrix_exp(self.a - self.a.mT)
        y = torch.inverse(self.a) @ turned + torch.linalg.matrix_power(self.a, 3) / 50
        q, r = torch.linalg.qr(self.a)
        sign, logarithm = torch.linalg.slogdet(self.a)
        tall = torch.linalg.pinv(self.a[..., :2])
        last = torch.lgamma(torch.linalg.det(self.a).abs()).sum() + torch.linalg.matrix_norm(self.a, "nuc").sum()
        return ((y @ x) ** 2).mean() + (q * r).sum() + (sign * logarithm).sum() + tall.sum() + last / 50


def test_process(tmp_path):
    torch.manual_seed(3)
    train(tmp_path, Process(), (torch.randn(3, 6, 2), torch.randn(3, 6, 1)), steps=4)


def test_whitened(tmp_path):
    torch.manual_seed(3)
    train(tmp_path, Whitened(), (torch.randn(12, 5), torch.randn(12, 2)), steps=4)


def test_functions(tmp_path):
    torch.manual_seed(3)
    train(tmp_path, Functions(), (torch.randn(4, 3),), steps=4)


def eager(function, *tensors):
    return function(*(samba.from_torch_tensor(x) for x in tensors))


def test_named_tuples():
    a = torch.randn(3, 3) + 4 * torch.eye(3)
    for function in (
        torch.linalg.slogdet,
        torch.slogdet,
        torch.linalg.qr,
        torch.linalg.eigh,
        lambda x: torch.linalg.svd(x, full_matrices=False),
        lambda x: torch.linalg.lstsq(x, x),
    ):
        expected, given = function(a), eager(function, a)
        assert type(given) is type(expected)
        for name in type(expected).__match_args__ if hasattr(type(expected), "__match_args__") else ():
            assert getattr(given, name).shape == getattr(expected, name).shape, name


def test_solve_takes_vectors_and_batches():
    a, b = torch.randn(2, 1, 3, 3) + 4 * torch.eye(3), torch.randn(5, 3, 2)
    for x, y in ((a, b), (a[0, 0], b[0, :, 0]), (a[:, 0], b[:2, :, 0])):
        given = samba.to_torch(eager(torch.linalg.solve, x, y))
        torch.testing.assert_close(given, torch.linalg.solve(x, y))


@pytest.mark.parametrize(
    "function, words",
    [
        (lambda a: torch.linalg.cholesky(-a @ a.mT), "matrix 0 of its batch is not positive definite"),
        (lambda a: torch.linalg.inv(a * 0), "matrix 0 of its batch is singular"),
        (lambda a: torch.linalg.eigvalsh(a / 0), "matrix 0 of its batch has NaN or infinite elements"),
    ],
)
def test_no_result(function, words):
    with pytest.raises(Exception, match=words):
        samba.to_torch(eager(function, torch.randn(2, 3, 3)))


class Alone(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


def test_refused():
    for function, words in (
        (lambda x: torch.linalg.svd(x).S, "full_matrices=False"),
        (lambda x: torch.linalg.qr(x, mode="complete").R, "mode='reduced'"),
        (lambda x: torch.polygamma(2, x), "n of 0 and 1"),
    ):
        with pytest.raises(UnsupportedError, match=words):
            samba.utils.trace_graph(Alone(function), samba.randn(4, 3, name="x"))
