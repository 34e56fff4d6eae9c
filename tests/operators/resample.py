# SPDX-License-Identifier: Apache-2.0
"""Images of other sizes, channels as pixels and back."""

import itertools

import torch
import torch.nn.functional as F
from table import ALL, FLOATS, HALVES, Maker, Operator, Sample

SHAPES = [(2, 3, 5, 4, 3), (1, 1, 1, 7, 2), (3, 2, 6, 3, 4), (0, 2, 3, 3, 3)]
# A factor whose size stays as it is would be 1 in torch's gradient, and itself in its values.
SIZES = [
    {"scale_factor": 2},
    {"scale_factor": 1.5},
    {"size": (7, 9, 4)},
    {"size": (3, 2, 5)},
    {"scale_factor": (3, 0.7, 1.7)},
    {"size": (5, 4, 3)},
    {"scale_factor": 1.7, "recompute_scale_factor": True},
]


def _nearest(mode):
    def samples(make):
        for spatial, shape, size in itertools.product((1, 2, 3), SHAPES, SIZES):
            size = {key: value[:spatial] if isinstance(value, tuple) else value for key, value in size.items()}
            if _leaves_some(shape[2 : 2 + spatial], size) and shape[0]:
                x, size = _sized(make, shape[: 2 + spatial], size)
                yield Sample((x,), {"mode": mode, **size}, terms=8)  # gradients are sums
        for layout in Maker.LAYOUTS[1:]:
            yield Sample((make.tensor(2, 3, 5, 6, layout=layout),), {"mode": mode, "scale_factor": 2})

    return samples


def _sized(make, shape, options):
    """An image, and the options with the size of the result that goes with it."""
    shape, size = make.sized(shape, options.get("size", ()))
    return make.tensor(*shape), {**options, **({"size": size} if size else {})}


def _leaves_some(shape, size):
    scale = size.get("scale_factor", 1)
    return all(int(n * (scale[i] if isinstance(scale, tuple) else scale)) > 0 for i, n in enumerate(shape))


def _smooth(mode, spatial, options=({},)):
    def samples(make):
        for shape, size, more in itertools.product(SHAPES, SIZES, options):
            size = {key: value[:spatial] if isinstance(value, tuple) else value for key, value in size.items()}
            if _leaves_some(shape[2 : 2 + spatial], size) and shape[0]:
                x, size = _sized(make, shape[: 2 + spatial], size)
                yield Sample((x,), {"mode": mode, **size, **more}, terms=64)
        for layout in Maker.LAYOUTS[1:]:
            yield Sample(
                (make.tensor(2, 3, *[6] * spatial, layout=layout),), {"mode": mode, "scale_factor": 2, **options[-1]}, terms=64
            )

    return samples


def _shuffle(make):
    shapes = [(2, 36, 3, 4), (36, 5, 1), (2, 2, 72, 2, 3), (1, 36, 1, 1), (3, 36, 2, 7)]  # of size 0 torch's own gradient fails
    for shape, factor in itertools.product(shapes, (1, 2, 3, 6)):
        yield Sample((make.tensor(*make.sized(shape)), factor))
    yield Sample((make.tensor(2, 8, 3, 5, layout="transposed"), 2))


def _unshuffle(make):
    for shape, factor in itertools.product(
        [(2, 3, 6, 12), (2, 12, 6), (2, 2, 1, 12, 6), (1, 3, 6, 6), (3, 2, 18, 6)], (1, 2, 3, 6)
    ):
        yield Sample((make.tensor(*make.sized(shape)), factor))
    yield Sample((make.tensor(2, 3, 8, 6, layout="transposed"), 2))


def _channels(make):
    for shape, groups in itertools.product(
        [(2, 12, 3, 4), (1, 12, 5), (2, 24, 2, 3, 2), (3, 12, 1, 1), (2, 12, 7, 2)], (1, 2, 3, 4)
    ):
        yield Sample((make.tensor(*make.sized(shape)), groups))
    yield Sample((make.tensor(2, 8, 3, 5, layout="transposed"), 2))


def _grids(mode, spatial=2):
    """Places in and beyond the image, far enough for several reflections."""

    def samples(make):
        for (n, c, size, out), padding, corners in itertools.product(
            [
                (1, 1, (1, 1, 1), (1, 1, 1)),
                (2, 3, (5, 4, 3), (3, 6, 2)),
                (1, 2, (1, 7, 2), (4, 3, 1)),
                (3, 1, (6, 6, 4), (0, 3, 2)),
                (2, 0, (3, 3, 3), (2, 2, 2)),
            ],
            ("zeros", "border", "reflection"),
            (False, True),
        ):
            (n, c, *size), out = make.sized((n, c, *size[:spatial]), out[:spatial])
            input, grid = make.tensor(n, c, *size), make.tensor(n, *out, spatial, low=-2.7, high=2.7)
            if mode == "bicubic" and not (
                input.numel() and grid.numel()
            ):  # what a place may be off by is asked of the greatest element
                continue
            alike = mode == "bicubic" and (
                padding != "zeros" or min(size) == 1
            )  # neighbours are one pixel: a gradient of 0 with rounding around it
            yield Sample(
                (input, grid), {"mode": mode, "padding_mode": padding, "align_corners": corners}, terms=64, gradient=not alike
            )
        for layout in Maker.LAYOUTS[1:]:
            grid = make.tensor(2, *[4] * spatial, spatial, low=-1.2, high=1.2, layout=layout)
            yield Sample(
                (make.tensor(2, 3, *[6] * spatial, layout=layout), grid), {"mode": mode, "align_corners": False}, terms=64
            )

    return samples


def _affine(make):
    for (n, *size), corners in itertools.product(
        [(1, 1, 1, 1), (2, 3, 5, 4), (3, 1, 1, 7), (1, 2, 6, 1), (4, 1, 33, 17)], (False, True)
    ):
        n, *size = make.sized((n, *size))
        yield Sample((make.tensor(n, 2, 3), (n, *size)), {"align_corners": corners}, terms=8)
    for (n, *size), corners in itertools.product(
        [(1, 1, 1, 1, 1), (2, 3, 5, 4, 3), (1, 1, 2, 1, 9), (3, 2, 4, 4, 4)], (False, True)
    ):
        n, *size = make.sized((n, *size))
        yield Sample((make.tensor(n, 3, 4), (n, *size)), {"align_corners": corners}, terms=8)
    for layout in Maker.LAYOUTS[1:]:
        yield Sample((make.tensor(2, 2, 3, layout=layout), (2, 1, 3, 5)), {"align_corners": False}, terms=8)


CUBIC = {
    "ulp": 256.0,
    "place": 64.0,
    # places up to 13, four taps of slope 1.5 at most; where weights cancel, the rounding of a place counts:
    # eps of it, times the slope of the weights
}
CORNERS = ({}, {"align_corners": True})
FULL = tuple(dtype for dtype in FLOATS if dtype.itemsize >= 4)
OPERATORS = [
    Operator("interpolate_nearest", F.interpolate, _nearest("nearest"), dtypes=(*FLOATS, torch.uint8)),
    Operator("interpolate_nearest_exact", F.interpolate, _nearest("nearest-exact"), dtypes=(*FLOATS, torch.uint8)),
    Operator("interpolate_linear", F.interpolate, _smooth("linear", 1, CORNERS)),
    Operator(
        "interpolate_bilinear",
        F.interpolate,
        _smooth("bilinear", 2, CORNERS),
        without={torch.uint8: "torch rounds in its own way"},
    ),
    Operator("interpolate_trilinear", F.interpolate, _smooth("trilinear", 3, CORNERS)),
    Operator("interpolate_bicubic", F.interpolate, _smooth("bicubic", 2, CORNERS), dtypes=FULL, **CUBIC),
    Operator("interpolate_bicubic", F.interpolate, _smooth("bicubic", 2, CORNERS), dtypes=HALVES),
    Operator(
        "interpolate_antialias_bilinear",
        F.interpolate,
        _smooth("bilinear", 2, ({"antialias": True}, {"antialias": True, "align_corners": True})),
        dtypes=FULL,
    ),
    Operator(
        "interpolate_antialias_bicubic",
        F.interpolate,
        _smooth("bicubic", 2, ({"antialias": True}, {"antialias": True, "align_corners": True})),
        dtypes=FULL,
        **CUBIC,
    ),
    Operator("interpolate_area", F.interpolate, _smooth("area", 2)),
    Operator("grid_sample_bilinear", F.grid_sample, _grids("bilinear"), dtypes=FULL),
    Operator("grid_sample_nearest", F.grid_sample, _grids("nearest"), dtypes=FULL),
    Operator("grid_sample_bicubic", F.grid_sample, _grids("bicubic"), dtypes=FULL, **CUBIC),
    Operator("grid_sample_trilinear", F.grid_sample, _grids("bilinear", 3), dtypes=FULL),
    Operator("affine_grid", F.affine_grid, _affine, dtypes=FULL),
    Operator("pixel_shuffle", F.pixel_shuffle, _shuffle, dtypes=ALL, exact=True),
    Operator("pixel_unshuffle", F.pixel_unshuffle, _unshuffle, dtypes=ALL, exact=True),
    Operator("channel_shuffle", torch.channel_shuffle, _channels, dtypes=ALL, exact=True),
]
