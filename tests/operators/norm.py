# SPDX-License-Identifier: Apache-2.0
"""Softmax and normalizations."""

import math
import pathlib
import sys

import torch
import torch.nn.functional as F
from table import HALVES, Maker, Operator, Sample, shapes
from views import between_views

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "python"))
from steady import steady


def _along(make):
    """Every dim of every shape."""
    for x in shapes(make, least_rank=1):
        for dim in {0, -1, x.dim() // 2}:
            yield Sample((x,), {"dim": dim}, terms=max(1, x.shape[dim]))


def _images(make, least_rank=2):
    """(N, 6, ...): planes of one element, of some, and of enough that each has statistics of its own."""
    for shape in [
        (4, 6),
        (3, 6, 5),
        (2, 6, 1),
        (3, 6, 40),
        (2, 6, 3, 4),
        (3, 6, 7, 9),
        (1, 6, 6, 6),
        (2, 6, 2, 3, 4),
        (2, 6, 3, 4, 5),
    ]:
        if len(shape) >= least_rank:
            yield make.tensor(*make.sized(shape))
    for layout in Maker.LAYOUTS[1:]:
        yield make.tensor(3, 6, 7, layout=layout)
        yield make.tensor(2, 6, 5, 7, layout=layout)


def _terms(x, dims):
    return max(1, math.prod(x.shape[d] for d in dims))


def _running(make, c=6):
    return make.tensor(c, requires_grad=False), make.tensor(c, low=0.5, high=2, requires_grad=False)


def _batch_norm(make):
    for x in _images(make):
        dims, c = [0, *range(2, x.dim())], x.shape[1]
        count = _terms(x, dims)
        if count > 1:
            yield Sample((x, None, None, make.tensor(c), make.tensor(c), True), {"eps": 1e-3}, terms=count)
        yield Sample((x, *_running(make, c), make.tensor(c), make.tensor(c)), {"eps": 1e-3}, terms=4)
        yield Sample((x, *_running(make, c)), terms=4)
    yield Sample((make.tensor(2, 6, 9), None, None, None, None, True), terms=18)
    yield Sample((make.tensor(0, 6), *_running(make)))
    for nothing in [(0, 6), (2, 6, 0)]:
        yield Sample((make.tensor(*nothing), None, None, make.tensor(6), make.tensor(6), True))
    if make.dtype in HALVES:
        wide = {"dtype": torch.float32}
        yield Sample((make.tensor(3, 6, 5), None, None, make.tensor(6, **wide), make.tensor(6, **wide), True), terms=15)


def _instance_norm(make):
    for x in _images(make, 3):
        count, c = _terms(x, range(2, x.dim())), x.shape[1]
        if count > 1:
            yield Sample((x, None, None, make.tensor(c), make.tensor(c)), {"eps": 1e-3}, terms=count)
            yield Sample((x,), {"eps": 0.1}, terms=count)
        yield Sample((x, *_running(make, c), make.tensor(c), make.tensor(c), False), terms=4)


def _group_norm(make):
    for x in _images(make):
        c = x.shape[1]
        for groups in (1, 3, 6):
            count = c // groups * _terms(x, range(2, x.dim()))
            if x.shape[0] * count // (c // groups) > 1 and count > 1:
                yield Sample((x, groups, make.tensor(c), make.tensor(c)), {"eps": 1e-3}, terms=count)
        yield Sample((x, 2), {"eps": 0.1}, terms=3 * _terms(x, range(2, x.dim())))
    yield Sample((make.tensor(0, 6, 4), 2))


def _last_dims(make, factors):
    """The last dims of every shape, with all that the function has of weight and bias, and without."""
    for x in shapes(make, least_rank=1):
        for count in {1, x.dim()}:
            last = list(x.shape[x.dim() - count :])
            if math.prod(last) == 0:
                continue
            yield Sample((x, last, *(make.tensor(*last) for _ in range(factors))), {"eps": 1e-3}, terms=max(2, math.prod(last)))
        if x.shape[-1] > 0:
            yield Sample((x, [x.shape[-1]]), {"eps": 0.1}, terms=max(2, x.shape[-1]))


def _layer_norm(make):
    return _last_dims(make, 2)


def _rms_norm(make):
    yield from _last_dims(make, 1)
    yield Sample((make.tensor(3, 5), [5]), {"eps": None}, terms=5)
    yield Sample((make.tensor(3, 5, low=-1e-4, high=1e-4), [5]), {"eps": None}, terms=5)


OPERATORS = [
    Operator("softmax", F.softmax, _along),
    Operator("log_softmax", F.log_softmax, _along),
    Operator("softmin", F.softmin, _along),
    Operator("batch_norm", F.batch_norm, _batch_norm),
    Operator("instance_norm", F.instance_norm, _instance_norm),
    Operator("group_norm", F.group_norm, _group_norm),
    Operator("layer_norm", F.layer_norm, _layer_norm),
    Operator("rms_norm", F.rms_norm, _rms_norm),
]
STEADY = {"batch_norm": steady(F.batch_norm), "instance_norm": steady(F.instance_norm)}  # torch's gradient, where it is right
OPERATORS += [
    between_views(row, STEADY.get(row.name)) for row in OPERATORS if row.name in ("batch_norm", "instance_norm", "group_norm")
]
OPERATORS += [
    between_views(row, whole=True) for row in OPERATORS if row.name in ("softmax", "log_softmax", "layer_norm", "rms_norm")
]
