# SPDX-License-Identifier: Apache-2.0
"""Vectors of unit length, distances and similarities: every norm, dims counted from both ends, operands that broadcast."""

import torch
import torch.nn.functional as F
from table import HALVES, Maker, Operator, Sample, shapes


def _normalize(make):
    for x in shapes(make, least_rank=1):
        for dim in {0, x.dim() - 1}:
            if x.shape[dim] > 0:
                yield Sample((x,), {"dim": dim - x.dim()}, terms=1 + x.shape[dim])
    for p in (1.0, 3.0, 0.5, float("inf")):
        yield Sample((make.tensor(3, 5, low=0.1, high=2),), {"p": p, "dim": 1}, terms=5)
    yield Sample((torch.zeros(3, 4, dtype=make.dtype),), {"eps": 0.5}, terms=4, gradient=False)


def _weight_norm(make):
    for shape in [(4, 3), (5, 2, 3), (2, 3, 2, 2), (1, 7), (33, 17)]:
        shape = make.sized(shape)
        for dim in range(len(shape)):
            one = [n if d == dim else 1 for d, n in enumerate(shape)]
            yield Sample((make.tensor(*shape), make.tensor(*one), dim), terms=make.tensor(*shape).numel())
        yield Sample((make.tensor(*shape), make.tensor(*[1] * len(shape)), -1), terms=make.tensor(*shape).numel())


OPERANDS = [
    ((5, 4), (5, 4)),
    ((5, 4), (4,)),
    ((1, 7), (3, 7)),
    ((33, 17), (33, 17)),
    ((2, 3, 4), (3, 4)),
    ((6,), (6,)),
    ((2, 1, 3, 2, 2), (2, 2)),
]


def _operands(make):
    for a, b in OPERANDS:
        a, b = make.sized(a, b)
        yield make.tensor(*a), make.tensor(*b)
    for layout in Maker.LAYOUTS[1:]:
        yield make.tensor(5, 9, layout=layout), make.tensor(5, 9)


def _cosine_similarity(make):
    for a, b in _operands(make):
        for dim in {0, -1}:
            yield Sample((a, b), {"dim": dim}, terms=3 * max(a.shape[dim], b.shape[dim] if dim else 1))
    yield Sample(
        (make.tensor(5, 4), make.tensor(5, 4)), {"dim": 1, "eps": 3.0}, terms=12, gradient=False
    )  # torch's passes through the least length


def _pairwise_distance(make):
    for a, b in _operands(make):
        for options in ({}, {"p": 1.0, "keepdim": True}, {"p": 3.0, "eps": 1e-2}):
            yield Sample((a, b), options, terms=2 * a.shape[-1])


def _cdist(make):
    for a, b in [
        ((5, 4), (3, 4)),
        ((1, 7), (2, 7)),
        ((2, 5, 3), (4, 3)),
        ((2, 1, 3, 2), (4, 5, 2)),
        ((30, 6), (28, 6)),
        ((0, 3), (2, 3)),
        ((4, 1), (3, 1)),
    ]:
        a, b = make.sized(a, b)
        for p in (2.0, 1.0, 3.0, float("inf")):
            yield Sample((make.tensor(*a), make.tensor(*b)), {"p": p}, terms=3 * a[-1] + 10)
    for a, b in [((26, 3), (2, 3)), ((2, 40, 9), (33, 9)), ((26, 0), (3, 0))]:
        yield Sample((make.tensor(*a), make.tensor(*b)), terms=3 * a[-1] + 10)
    for mode in ("use_mm_for_euclid_dist", "donot_use_mm_for_euclid_dist"):
        for rows in (5, 30):
            yield Sample((make.tensor(rows, 7), make.tensor(4, 7)), {"compute_mode": mode}, terms=3 * 7 + 10)


def _pdist(make):
    for shape in [(5, 4), (1, 3), (2, 7), (0, 3), (30, 6), (4, 1), (3, 0), (9, 2)]:
        for layout in Maker.LAYOUTS[:3]:
            for p in (2.0, 1.0, 3.0, float("inf")):
                x = make.tensor(*make.sized(shape), layout=layout)
                yield Sample((x,), {"p": p}, terms=3 * shape[-1] + 10)


NO_HALVES = dict.fromkeys(HALVES, "torch's kernel has float32 and float64 alone")

OPERATORS = [
    Operator("normalize", F.normalize, _normalize),
    Operator("weight_norm", torch._weight_norm, _weight_norm),
    Operator("cosine_similarity", F.cosine_similarity, _cosine_similarity),
    Operator("pairwise_distance", F.pairwise_distance, _pairwise_distance),
    Operator("pdist", torch.pdist, _pdist, without=NO_HALVES),
    Operator("cdist", torch.cdist, _cdist, without=NO_HALVES),
]
