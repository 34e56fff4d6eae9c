# SPDX-License-Identifier: Apache-2.0
"""Convolutions, plain and transposed, and windows as columns."""

import itertools
import math

import torch
import torch.nn.functional as F
from table import BOOL, FLOATS, NUMBERS, Maker, Operator, Sample
from views import between_views

# (images, groups, in and out channels of a group, size, kernel), the last two repeated or cut to the dims of space
SIZES = [
    (2, 1, 3, 4, (7, 6, 5), (3, 2, 3)),
    (1, 2, 1, 2, (5, 9, 4), (1, 3, 2)),
    (3, 1, 1, 1, (4, 3, 6), (2, 2, 2)),
    (0, 1, 2, 3, (4, 5, 6), (3, 3, 3)),
    (2, 3, 1, 1, (6, 7, 3), (3, 3, 1)),
    (1, 1, 4, 17, (3, 3, 3), (1, 1, 1)),
]
OPTIONS = [
    {},
    {"stride": 2},
    {"padding": 1},
    {"dilation": 2, "padding": 2},
    {"stride": (3, 1, 2), "padding": (1, 2, 0), "dilation": (1, 2, 1)},
]

# images, channels in and out, side, options:
# roads of many channels (src/device/cpu/product/columns.c, winograd.c, winograd_grad.c)
MANY = [
    (2, 33, 34, 9, {"padding": 1}),
    (1, 32, 65, 8, {}),
    (3, 17, 48, 7, {"padding": (1, 0, 1)}),
    (2, 32, 32, 7, {"stride": 2, "padding": 1}),
    (2, 33, 48, 23, {"padding": 1}),
    (2, 48, 65, 14, {"padding": 1}),
]


def _cut(options, spatial):
    return {key: value[:spatial] if isinstance(value, tuple) else value for key, value in options.items()}


def _terms(images, channels, size, kernel):
    """Of a result, or of the gradient of a weight, which sums over all places of all images."""
    return max(channels * math.prod(kernel) + 1, images * math.prod(s + 4 for s in size))


def _plain(spatial):
    def samples(make):
        spread = make.floating() or make.dtype == torch.int64  # torch has no dilation for narrower integers
        for (n, groups, i, o, size, kernel), options in itertools.product(SIZES, OPTIONS):
            size, kernel, options = size[:spatial], kernel[:spatial], _cut(options, spatial)
            n, i, o, *size = make.sized((n, i, o, *size), work=8)
            if not spread:
                options.pop("dilation", None)
            x = make.tensor(n, groups * i, *(s + 2 for s in size), low=-2, high=2)
            w = make.tensor(groups * o, i, *kernel, low=-2, high=2)
            bias = [make.tensor(groups * o, low=-2, high=2)] if o % 2 else []
            yield Sample((x, w, *bias), {"groups": groups, **options}, terms=_terms(n, i, size, kernel))
        for layout in Maker.LAYOUTS[1:]:
            x, w = (
                make.tensor(2, 3, *[5] * spatial, layout=layout, low=-2, high=2),
                make.tensor(2, 3, *[2] * spatial, layout=layout, low=-2, high=2),
            )
            yield Sample((x, w), {"padding": 1}, terms=3 * 2**spatial)
        for n, i, o, side, options in MANY:
            if not spread or side**spatial > 1000:
                continue
            n, i, o, side = make.sized((n, i, o, *[side] * spatial), work=8)[:4]
            x, w = make.tensor(n, i, *[side] * spatial, low=-2, high=2), make.tensor(o, i, *[3] * spatial, low=-2, high=2)
            # of ten thousands of elements some lie four deviations out
            yield Sample((x, w), _cut(options, spatial), terms=4 * _terms(n, i, (side,) * spatial, (3,) * spatial))
        for padding, size in itertools.product(("same", "valid"), (2, 3)):  # one image
            yield Sample(
                (make.tensor(3, *[6] * spatial, low=-2, high=2), make.tensor(2, 3, *[size] * spatial, low=-2, high=2)),
                {"padding": padding, "dilation": 1 + spread},
                terms=3 * size**spatial,
            )

    return samples


def _transposed(spatial):
    more = [
        {"stride": 2, "output_padding": 1},
        {"stride": (3, 1, 2), "padding": (1, 0, 1), "output_padding": (2, 0, 0), "dilation": (1, 2, 1)},
        {"dilation": 2},
    ]

    def samples(make):
        for (n, groups, i, o, size, kernel), options in itertools.product(SIZES, [{}, {"stride": 2, "padding": 1}, *more]):
            if n == 0 and make.dtype == torch.int64:
                continue
            size, kernel, options = size[:spatial], kernel[:spatial], _cut(options, spatial)
            n, i, o, *size = make.sized((n, i, o, *size), work=8)
            x, w = make.tensor(n, groups * i, *size, low=-2, high=2), make.tensor(groups * i, o, *kernel, low=-2, high=2)
            bias = [make.tensor(groups * o, low=-2, high=2)] if o % 2 else []
            yield Sample((x, w, *bias), {"groups": groups, **options}, terms=_terms(n, i, size, kernel))
        for layout in Maker.LAYOUTS[1:]:
            x, w = (
                make.tensor(2, 3, *[4] * spatial, layout=layout, low=-2, high=2),
                make.tensor(3, 2, *[2] * spatial, layout=layout, low=-2, high=2),
            )
            yield Sample((x, w), {"padding": 1}, terms=3 * 2**spatial)

    return samples


WINDOWS = [
    {},
    {"stride": 2},
    {"padding": (1, 2)},
    {"dilation": (2, 1), "padding": 1},
    {"stride": (1, 3), "padding": 1, "dilation": (1, 2)},
]


def _unfold(make):
    for shape, options in itertools.product([(2, 3, 6, 7), (1, 1, 5, 5), (3, 7, 6), (2, 1, 5, 9)], WINDOWS):
        yield Sample((make.tensor(*make.sized(shape)), (2, 3)), options)
    for layout in Maker.LAYOUTS[1:]:
        yield Sample((make.tensor(2, 3, 5, 6, layout=layout), 3), {"padding": 1})


def _fold(make):
    for shape, options in itertools.product([(2, 3, 6, 7), (1, 1, 5, 5), (3, 7, 6), (2, 1, 5, 9)], WINDOWS):
        shape = make.sized(shape)
        columns = F.unfold(torch.zeros(shape), (2, 3), **options)
        yield Sample((make.tensor(*columns.shape), shape[-2:], (2, 3)), options, terms=6)


OPERATORS = [
    *(Operator(f"conv{d}d", getattr(F, f"conv{d}d"), _plain(d), dtypes=NUMBERS) for d in (1, 2, 3)),
    *(
        Operator(f"conv_transpose{d}d", getattr(F, f"conv_transpose{d}d"), _transposed(d), dtypes=(*FLOATS, torch.int64))
        for d in (1, 2, 3)
    ),
    Operator("unfold", F.unfold, _unfold, dtypes=(*FLOATS, *BOOL)),
    Operator("fold", F.fold, _fold, dtypes=(*FLOATS, *BOOL)),
]
OPERATORS += [between_views(row) for row in OPERATORS if row.name.startswith("conv")]
