# SPDX-License-Identifier: Apache-2.0
"""Activations, with their options and at their kinks."""

import math

import torch
import torch.nn.functional as F
from elementwise import corners, one, plain
from table import FLOATS, INTEGERS, NUMBERS, Operator, Sample, shapes


def _with(*options, low=-8, high=8, terms=1, most=None, without=()):
    """Options by turns; corners with each."""

    def samples(make):
        for k, x in enumerate(shapes(make, low=low if make.dtype is not torch.uint8 else 0, high=high)):
            yield Sample((x,), dict(options[k % len(options)]), terms=terms, gradient=make.dtype not in without)
        x = corners(make)
        for each in options:
            yield Sample(
                (x[x.double().abs() <= 100],), dict(each), terms=terms, gradient=make.dtype is not torch.float64
            )  # which has central differences
            yield Sample(
                (x[x.double().abs() <= most] if most else x,), dict(each), terms=terms, gradient=False
            )  # torch's of NaN depend on the tensor's size

    return samples


def _weighted(make):
    for x in shapes(make):
        yield Sample((x, make.tensor(1)))
        if x.dim() > 1:
            yield Sample((x, make.tensor(x.shape[1])))
    yield Sample((plain(corners(make)), make.tensor(1)), gradient=make.dtype is not torch.float64)
    yield Sample((corners(make), make.tensor(1)), gradient=False)


def _tanhshrink(x):
    """(x cosh(x) - sinh(x)) / cosh(x) where they have digits in common, by the terms of the series, none of which is negative."""
    x = x.double()
    small = torch.where(x.abs() < 2, x, 0)
    series = sum(small ** (2 * k + 1) * (2 * k / math.factorial(2 * k + 1)) for k in range(14, 0, -1))
    return torch.where(x.abs() < 2, series / torch.cosh(small), x - torch.tanh(x))


def _halved(make):
    for x in shapes(make, least_rank=1):
        for dim in range(-x.dim(), x.dim()):
            if x.shape[dim] % 2 == 0:
                yield Sample((x, dim))
            elif dim == -1:
                yield Sample((torch.cat([x, x], dim),))


def _gelu(x, tanh=False):
    """Without 1 + erf and 1 + tanh, which have digits in common below 0."""
    return (
        x * torch.sigmoid(math.sqrt(8 / math.pi) * (x + 0.044715 * x**3))
        if tanh
        else x * (torch.special.erfc(x * -math.sqrt(0.5)) / 2)
    )


OPERATORS = [
    Operator("relu", F.relu, _with({}), dtypes=NUMBERS, exact=True),
    Operator("relu6", F.relu6, _with({}), dtypes=FLOATS + tuple(d for d in INTEGERS if d is not torch.uint8)),
    Operator("leaky_relu", F.leaky_relu, _with({}, {"negative_slope": 0.3})),
    Operator("prelu", F.prelu, _weighted),
    Operator("elu", F.elu, _with({}, {"alpha": 0.7})),
    Operator("selu", F.selu, _with({})),
    Operator("celu", F.celu, _with({}, {"alpha": 2.0})),
    Operator("gelu", F.gelu, one(edge=False), truth=_gelu, note="has all digits below 0, where torch's get lost"),
    Operator(
        "gelu_tanh",
        lambda x: F.gelu(x, approximate="tanh"),
        one(edge=False),
        truth=lambda x: _gelu(x, tanh=True),
        note="has all digits below 0, where torch's get lost",
    ),
    Operator("glu", F.glu, _halved),
    Operator("silu", F.silu, _with({})),
    Operator("mish", F.mish, _with({})),
    Operator("softplus", F.softplus, _with({}, {"beta": 2.0}, {"beta": 0.5, "threshold": 1.0})),
    Operator("log_sigmoid", F.logsigmoid, _with({})),
    Operator("softsign", F.softsign, _with({}, most=100), dtypes=NUMBERS),
    Operator(
        "tanhshrink",
        F.tanhshrink,
        _with({}),
        dtypes=NUMBERS,
        truth=_tanhshrink,
        note="has all digits near 0, where torch loses those that x and its tanh have in common",
    ),
    Operator("hardswish", F.hardswish, _with({}, most=1e30)),
    Operator(
        "hardsigmoid",
        F.hardsigmoid,
        _with({}, without=[torch.float64]),
        note="torch's gradient of float64 has the digits of float32, and is not compared",
    ),
    Operator("hardtanh", F.hardtanh, _with({}, {"min_val": -3.0, "max_val": 2.0}), dtypes=FLOATS),
    Operator("hardshrink", F.hardshrink, _with({}, {"lambd": 2.0})),
    Operator("softshrink", F.softshrink, _with({}, {"lambd": 2.0})),
    Operator(
        "threshold",
        lambda x, threshold=1, value=3: F.threshold(x, threshold, value),
        _with({}, {"threshold": 0, "value": -1}),
        dtypes=NUMBERS,
    ),
]
