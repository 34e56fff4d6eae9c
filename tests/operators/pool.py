# SPDX-License-Identifier: Apache-2.0
"""Pooling: windows of one size, and windows by the size of the result."""

import dataclasses
import itertools
import math

import torch
import torch.nn.functional as F
from table import FLOATS, NUMBERS, Maker, Operator, Sample
from views import between_views, through

SHAPES = [
    (2, 3, 9, 8, 7),
    (1, 1, 4, 6, 5),
    (5, 13, 4, 6),
    (0, 2, 4, 4, 4),
]  # the last without a batch; space is cut to the dims there are
OPTIONS = [
    (2, {}),
    (3, {"stride": 2, "padding": 1}),
    ((2, 3, 1), {"stride": (1, 2, 3)}),
    (3, {"stride": 2, "ceil_mode": True}),
    (4, {"stride": 1, "padding": 2, "ceil_mode": True}),
    (1, {}),
]


def _shape(shape, spatial):
    return shape[: spatial + (2 if len(shape) == 5 else 1)]


def _cut(value, spatial):
    if isinstance(value, dict):
        return {key: _cut(x, spatial) for key, x in value.items()}
    return value[:spatial] if isinstance(value, tuple) else value


def _special(make, spatial):
    """NaN, infinities and ties, and whether they have a gradient that is compared:
    between ties there is no central difference."""
    x = make.tensor(2, 3, *[6] * spatial)
    if make.floating():
        x.view(-1)[::5], x.view(-1)[::7], x.view(-1)[3::11] = torch.nan, -torch.inf, torch.inf
    yield x, True
    ties = make.tensor(2, 3, *[5] * spatial, low=0, high=1)
    yield ties.round() if make.floating() else ties, make.dtype is not torch.float64
    if make.floating():
        yield torch.full((1, 2, *[4] * spatial), -torch.inf, dtype=make.dtype), True


def _windows(spatial, terms=1, extra=({},), special=True, low=None):
    def samples(make):
        for shape, (kernel, options), more in itertools.product(SHAPES, OPTIONS, extra):
            if 0 in shape and make.dtype == torch.int64:
                continue
            yield Sample(
                (make.tensor(*make.sized(_shape(shape, spatial)), low=low), _cut(kernel, spatial)),
                {**_cut(options, spatial), **more},
                terms=terms,
            )
        for layout in Maker.LAYOUTS[1:]:
            yield Sample((make.tensor(2, 3, *[7] * spatial, layout=layout, low=low), 3), {"stride": 2}, terms=terms)
        for x, gradient in _special(make, spatial) if special else ():
            yield Sample((x, 3), {"stride": 2}, terms=terms, gradient=gradient)
            yield Sample((x, 2), {}, terms=terms, gradient=gradient)

    return samples


def _maximum(spatial):
    extra = [{}, {"return_indices": True}] + ([{"dilation": 2, "padding": 0, "stride": 1}] if spatial > 1 else [])

    def samples(make):
        for sample in _windows(spatial, extra=extra)(make):
            kernel = sample.args[1] if isinstance(sample.args[1], int) else max(sample.args[1])
            if "dilation" not in sample.kwargs or 2 * (kernel - 1) < min(sample.args[0].shape[-spatial:]):
                yield sample

    return samples


def _lp(spatial):
    def samples(make):
        for shape, (kernel, options), power in itertools.product(SHAPES, OPTIONS, (2.0, 3.0)):
            if 0 in shape or "padding" in options:
                continue
            x = make.tensor(*make.sized(_shape(shape, spatial)), low=0.25, high=2)
            kernel, options = _cut(kernel, spatial), _cut(options, spatial)
            if spatial == 1 and isinstance(kernel, tuple):  # torch multiplies by it
                kernel = kernel[0]
            yield Sample((x, power, kernel), options, terms=64)
        yield Sample((make.tensor(2, 3, *[6] * spatial, low=0.25, high=2), 1.0, 2), terms=64)

    return samples


OUTPUTS = [1, 2, 3, (4, 3, 5), (2, None, 3), 4, (1, 2, 1)]


def _adaptive(spatial, terms=1, maximum=False):
    def samples(make):
        for shape, size in itertools.product(SHAPES, OUTPUTS):
            if spatial == 1 and isinstance(size, tuple):
                size = size[0]
            for options in ({}, {"return_indices": True})[: 1 + maximum]:
                x = make.tensor(*make.sized(_shape(shape, spatial)))
                yield Sample((x, _cut(size, spatial)), options, terms=terms)
        for layout in Maker.LAYOUTS[1:]:
            yield Sample((make.tensor(2, 3, *[7] * spatial, layout=layout), 3), {}, terms=terms)
        for x, gradient in _special(make, spatial):
            yield Sample((x, 4), {}, terms=terms, gradient=gradient)

    return samples


def _unpooled(spatial):
    """What a pooling gave, and places of its own for each element."""

    def samples(make):
        for (n, c, *size), (kernel, stride, padding) in itertools.product(
            [(2, 3, 4, 3, 2), (1, 1, 1, 1, 1), (1, 2, 5, 1, 3), (3, 2, 2, 6, 1), (2, 4, 3, 3, 3)],
            [(2, None, 0), (3, 2, 1), (2, 3, 0), (3, 3, 1), (4, 2, 0)],
        ):
            n, c, *size = make.sized((n, c, *size[:spatial]))
            result = [(s - 1) * (stride or kernel) - 2 * padding + kernel for s in size]
            if min(result) < 1 or math.prod(result) < math.prod(size):
                continue
            places = [torch.randperm(math.prod(result), generator=make.generator)[: math.prod(size)] for _ in range(n * c)]
            index = torch.stack(places).reshape(n, c, *size) if places else torch.zeros(n, c, *size, dtype=torch.int64)
            yield Sample((make.tensor(n, c, *size), index, kernel), {"stride": stride, "padding": padding})

    return samples


FULL = tuple(dtype for dtype in FLOATS if dtype.itemsize >= 4)
OPERATORS = [
    Operator("max_pool1d", F.max_pool1d, _maximum(1), exact=True),
    *(Operator(f"max_pool{d}d", getattr(F, f"max_pool{d}d"), _maximum(d), dtypes=NUMBERS) for d in (2, 3)),
    Operator("avg_pool1d", F.avg_pool1d, _windows(1, 8, [{}, {"count_include_pad": False}]), dtypes=(*FLOATS, torch.int64)),
    Operator(
        "avg_pool2d",
        F.avg_pool2d,
        _windows(2, 16, [{}, {"count_include_pad": False}, {"divisor_override": 3}]),
        dtypes=(*FLOATS, torch.int64),
    ),
    Operator(
        "avg_pool3d", F.avg_pool3d, _windows(3, 64, [{}, {"count_include_pad": False}, {"divisor_override": 3}]), dtypes=FULL
    ),
    *(Operator(f"lp_pool{d}d", getattr(F, f"lp_pool{d}d"), _lp(d), dtypes=FULL if d == 3 else FLOATS) for d in (1, 2, 3)),
    *(Operator(f"max_unpool{d}d", getattr(F, f"max_unpool{d}d"), _unpooled(d), exact=True) for d in (1, 2, 3)),
    *(Operator(f"adaptive_avg_pool{d}d", getattr(F, f"adaptive_avg_pool{d}d"), _adaptive(d, 9**d)) for d in (1, 2, 3)),
    *(Operator(f"adaptive_max_pool{d}d", getattr(F, f"adaptive_max_pool{d}d"), _adaptive(d, maximum=True)) for d in (1, 2, 3)),
]


def _numbered(row):
    """Between views, without planes that torch refuses: for channels last, its greatest elements of integers are numbered by
    integers as narrow as they are, so a plane of int8 or uint8 may have 127 elements."""

    def samples(make):
        spatial = int(row.name[-2])
        most = math.inf if make.floating() else 2 ** (8 * make.dtype.itemsize - 1) - 1
        for sample in row.samples(make):
            before, _, given, *_ = sample.args
            x = through(before, given)
            if x.is_contiguous() or math.prod(x.shape[-spatial:]) <= most:
                yield sample

    return dataclasses.replace(row, samples=samples)


VIEWED = [between_views(row) for row in OPERATORS if "unpool" not in row.name]
OPERATORS += [_numbered(row) if row.name.startswith("max_pool") else row for row in VIEWED]
