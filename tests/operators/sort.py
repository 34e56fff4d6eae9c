# SPDX-License-Identifier: Apache-2.0
"""Sorting and scans: along each dim, with ties, NaN, infinities and both zeros,
of no elements and of more than are sorted one by one."""

import itertools
import math

import torch
from table import ALL, FLOATS, NUMBERS, Maker, Operator, Sample, shapes

SPECIAL = [0.0, -0.0, math.nan, math.inf, -math.inf, 1.0, -1.0, math.nan, 0.0, 1e-42]


def _special(make):
    """Each of the special values, many times, in lines long enough for each way of sorting."""
    if make.dtype.is_floating_point:
        for size in (10, 77, 1500):
            yield torch.tensor([SPECIAL[i] for i in make.index(len(SPECIAL), size)], dtype=torch.float64).to(make.dtype)


def _tensors(make):
    for x in itertools.chain(shapes(make), (make.tensor(*make.sized(shape)) for shape in ((3, 700), (700, 40), (2, 300, 3)))):
        if make.dtype is torch.float64:  # far enough apart for central differences, which may not change the order
            x.copy_(torch.randperm(x.numel(), generator=make.generator).reshape(x.shape) * 2.0**-9 - 3)
        yield x


def _along(options=({},), special=True):
    def samples(make):
        for k, x in enumerate(_tensors(make)):
            for dim in sorted({0, -1, x.dim() // 2} - ({x.dim()} if x.dim() else set())):
                yield Sample((x,), {"dim": dim, **options[k % len(options)]})
        for x in _special(make) if special else ():
            for chosen in options:
                yield Sample((x,), {"dim": 0, **chosen}, gradient=False)

    return samples


ORDERS = ({"stable": True}, {"stable": True, "descending": True})


def _some(make):
    for k, x in enumerate(_distinct(make)):
        for dim in sorted({0, -1}) if x.dim() else (0,):
            size = x.shape[dim] if x.dim() else 1
            for count in sorted({min(1, size), min(3, size), size // 9, size} - ({0} if x.dim() == 0 else set())):
                yield Sample((x, count), {"dim": dim, "largest": k % 2 == 0})


def _distinct(make):
    """No ties: which of equal elements topk and kthvalue choose is nobody's promise."""
    for shape in [
        (1,),
        (0,),
        (7,),
        (100,),
        (3, 5),
        (0, 4),
        (4, 0),
        (33, 3),
        (2, 60),
        (2, 1, 3),
        (2, 3, 4),
        (3, 2, 1, 2),
        (100, 1),
        (1, 2, 11, 2, 1),
    ]:
        shape = make.sized(shape)
        numel = math.prod(shape)
        x = torch.randperm(numel, generator=make.generator).reshape(shape) - (0 if make.dtype is torch.uint8 else numel // 2)
        yield x.to(make.dtype)
        if len(shape) == 2:
            yield x.to(make.dtype).T
            yield torch.cat([x, x], 1).to(make.dtype)[:, ::2] if shape[1] % 2 else x.to(make.dtype)[:, ::2]
    if make.dtype in (torch.float32, torch.float64, torch.int64, torch.int32):
        yield torch.randperm(5000, generator=make.generator).to(make.dtype)
        yield torch.randperm(6000, generator=make.generator).reshape(2, 3000).to(make.dtype)
        yield torch.randperm(7000, generator=make.generator).reshape(100, 70).to(make.dtype)


def _kth(make):
    for k, x in enumerate(_distinct(make)):
        for dim in (0, -1):
            size = x.shape[dim]
            for place in sorted({1, size // 2, size} - {0}) if size else ():
                yield Sample((x, place), {"dim": dim, "keepdim": k % 2 == 0})


def _medians(make):
    for k, x in enumerate(_distinct(make)):
        for dim in (0, -1):
            if x.shape[dim]:
                yield Sample((x,), {"dim": dim, "keepdim": k % 2 == 0})
    for x in _special(make):
        yield Sample((x[:3],), {"dim": 0}, gradient=False)


def _nanmedians(make):
    """Beside those of a median: NaN among numbers, in short and long lines, side by side and one behind the other."""
    yield from _medians(make)
    wide = make.dtype in (torch.float32, torch.float64)  # others have no more whole numbers than these
    for shape in ((9,), (60, 3), (3, 200), (100, 2), *(((5000,), (2, 9000), (700, 20)) if wide else ())):
        shape = make.sized(shape)
        numel = math.prod(shape)
        for part in (0.01, 0.5, 0.99) if make.dtype.is_floating_point else ():
            x = torch.randperm(numel, generator=make.generator).reshape(shape).to(make.dtype)
            missing = torch.rand(shape, generator=make.generator) < part
            for dim in {0, len(shape) - 1}:
                some = missing & ~missing.all(dim, keepdim=True)  # which of a line that is NaN alone is nobody's promise
                yield Sample((torch.where(some, math.nan, x),), {"dim": dim}, gradient=False)


def _ties(make):
    """Elements that are equal, of all; several NaN; infinities."""
    for x in shapes(make, low=0, high=3):
        if x.numel():
            yield Sample(
                (x.round() if make.floating() else x,), terms=x.numel(), gradient=make.dtype is not torch.float64
            )  # which has central differences
            yield Sample((make.tensor(*x.shape),), terms=x.numel())
    for x in _special(make):
        yield Sample((x,), terms=x.numel(), gradient=make.dtype is not torch.float64)
        yield Sample((torch.where(x.isnan(), -math.inf, x),), terms=x.numel(), gradient=make.dtype is not torch.float64)


def _extremes(make):
    """Long lines that seldom change what they have come to, and some that always do."""
    yield from _along()(make)
    for x in (make.tensor(3000), make.tensor(2, 1100), make.tensor(3000).sort().values, make.tensor(1100, 2)):
        if make.dtype.is_floating_point and x.dim() == 1:
            x[make.index(3000, 1)] = math.inf
        for dim in range(x.dim()):
            yield Sample((x, dim), gradient=False)
            yield Sample((x.flip(dim), dim), gradient=False)


def _runs(low=None, high=None):
    def samples(make):
        for x in (
            *shapes(make, low=low, high=high),
            make.tensor(2, 40, 700, low=low, high=high),
            make.tensor(3, 1500, low=low, high=high),
        ):
            for dim in sorted({0, -1, x.dim() // 2} - ({x.dim()} if x.dim() else set())):
                yield Sample((x, dim), terms=max(1, x.shape[dim]) if x.dim() else 1)

    return samples


def _sums(make):
    yield from _runs()(make)
    yield Sample((make.tensor(140000), 0), terms=140000)


def _zeros(make):
    """Products among which are zeros: one and several."""
    yield from _runs(low=-1.3, high=1.3)(make)
    for zeros in ([1], [0, 4], [6]):
        x = make.tensor(7, 3, low=-2, high=2)
        x[zeros] = 0
        yield Sample((x, 0), terms=7)


def _found(make):
    """Values below, above, between and equal to those of a sequence."""
    for k, (count, shape) in enumerate(itertools.product((0, 1, 2, 7, 64, 100), ((), (5,), (0,), (3, 4), (2, 3, 5)))):
        (count,), shape = make.sized((count,), shape)
        line = make.tensor(count, low=0, high=9).sort().values
        if count:
            line[: count // 3] = line[0]  # equal ones
        yield Sample((line, make.tensor(*shape, low=-1 if make.dtype is not torch.uint8 else 0, high=10)), {"right": k % 2 == 0})
    for layout in Maker.LAYOUTS:
        yield Sample(
            (make.tensor(3, 2, 9, low=0, high=9).sort().values, make.tensor(3, 2, 4, low=0, high=9, layout=layout)),
            {"side": "left", "out_int32": True},
        )
    if make.floating():
        yield Sample((make.tensor(9).sort().values, torch.tensor(SPECIAL, dtype=torch.float64).to(make.dtype)))


def _buckets(make):
    for sample in _found(make):
        if sample.args[0].dim() == 1:
            yield Sample((sample.args[1], sample.args[0]), {"right": sample.kwargs.get("right", False)})


def _pair(function):
    def call(*args, **kwargs):
        return tuple(function(*args, **kwargs))

    return call


OPERATORS = [
    Operator("sort", _pair(torch.sort), _along(ORDERS), dtypes=ALL, exact=True),
    Operator("argsort", torch.argsort, _along(ORDERS), dtypes=ALL, gradient=False, exact=True),
    Operator("msort", torch.msort, lambda make: (Sample((x,)) for x in _distinct(make)), dtypes=ALL, exact=True),
    Operator("topk", _pair(torch.topk), _some, dtypes=NUMBERS, exact=True),
    Operator("kthvalue", _pair(torch.kthvalue), _kth, dtypes=NUMBERS, exact=True),
    Operator("median", _pair(torch.median), _medians, dtypes=NUMBERS, exact=True),
    Operator("median_of_all", torch.median, _ties, dtypes=NUMBERS),
    Operator("nanmedian", _pair(torch.nanmedian), _nanmedians, dtypes=NUMBERS, exact=True),
    Operator("searchsorted", torch.searchsorted, _found, dtypes=NUMBERS, gradient=False, exact=True),
    Operator("bucketize", torch.bucketize, _buckets, dtypes=NUMBERS, gradient=False, exact=True),
    Operator("cumsum", torch.cumsum, _sums, dtypes=ALL),
    Operator("cumprod", torch.cumprod, _zeros, dtypes=ALL),
    Operator("logcumsumexp", torch.logcumsumexp, _runs(), dtypes=FLOATS),
    Operator("cummax", _pair(torch.cummax), _extremes, dtypes=ALL, exact=True),
    Operator("cummin", _pair(torch.cummin), _extremes, dtypes=ALL, exact=True),
]
