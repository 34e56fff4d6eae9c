# SPDX-License-Identifier: Apache-2.0
"""Fourier transforms: every form and norm, lengths with small and large prime factors, cut and filled, along any dim. Complex
tensors go in and come out as pairs of real and imaginary part, so that dtypes, layouts and gradients are those of all operators.
torch has no transforms of 16-bit floats on a CPU, and fails where a tensor has no elements.

The truth is sums term by term with factors rounded from more digits: torch's own transforms in float64 (of MKL) of 62, 74 and 94
elements, twice a large prime, are off by fifty times what such sums are."""

import functools
import math

import numpy
import torch
from table import Maker, Operator, Sample

FLOATS = (torch.float32, torch.float64)
LENGTHS = (1, 2, 3, 4, 5, 6, 7, 8, 11, 12, 13, 15, 16, 17, 30, 34, 37, 49, 64, 74, 97, 121, 128, 169, 210, 243, 360)
NORMS = (None, "backward", "ortho", "forward")


def _call(function, takes_complex=True, gives_complex=True):
    def call(x, *args, **kwargs):
        y = function(torch.view_as_complex(x.contiguous()) if takes_complex else x, *args, **kwargs)
        return torch.view_as_real(y.resolve_conj()) if gives_complex else y

    return call


# ---- the truth ----


@functools.cache
def _factors(n):
    """cos and sin of 2 pi i / n."""
    angles = 2 * numpy.arccos(numpy.longdouble(-1)) * numpy.arange(n, dtype=numpy.longdouble) / n
    cos, sin = numpy.cos(angles), numpy.sin(angles)
    for quarter in range(4):
        if quarter * n % 4 == 0:
            cos[quarter * n // 4], sin[quarter * n // 4] = ((1, 0), (0, 1), (-1, 0), (0, -1))[quarter]
    return torch.from_numpy(cos.astype(numpy.float64)), torch.from_numpy(sin.astype(numpy.float64))


def _weighted(dim, x, factors):
    """Sums over `dim`, of the elements that `factors` has rows for."""
    return (x.narrow(dim, 0, len(factors)).movedim(dim, -1) @ factors).movedim(-1, dim)


def _sums(re, im, dim, n, kept, sign):
    """The first `kept` of n sums over `dim`, cut or filled to n elements, of x[j] exp(sign 2 pi i j k / n). im: None where x is
    real."""
    have = min(re.shape[dim], n)
    turns = torch.outer(torch.arange(have), torch.arange(kept)) % n
    cos, sin = (table[turns] for table in _factors(n))
    over = functools.partial(_weighted, dim)
    if im is None:
        return over(re, cos), sign * over(re, sin)
    return over(re, cos) - sign * over(im, sin), sign * over(re, sin) + over(im, cos)


def _real_sums(re, im, dim, n, sign):
    """n sums whose second half of x is the first one's mirrored conjugate: they are real."""
    have = min(re.shape[dim], n // 2 + 1)
    turns = torch.outer(torch.arange(have), torch.arange(n)) % n
    twice = torch.full((have, 1), 2.0, dtype=torch.float64)
    twice[0] = 1
    if n % 2 == 0 and have == n // 2 + 1:
        twice[-1] = 1
    cos, sin = (table[turns] * twice for table in _factors(n))
    if n % 2 == 0 and have == n // 2 + 1:
        sin[-1] = 0
    return _weighted(dim, re, cos) - sign * _weighted(dim, im, sin)


def _by_sums(name):
    """The transform torch.fft.`name` by sums, of pairs of real and imaginary part as `_call` has it."""
    core = name.rstrip("n")
    inverse = core in ("ifft", "irfft", "ihfft")  # whose sums are divided by n where norm is None
    sign = 1 if inverse else -1

    def truth(x, n=None, dim=None, norm=None, s=None):
        real = core in ("rfft", "ihfft")  # takes reals
        re, im = (x, None) if real else (x[..., 0], x[..., 1])
        if name[-1] == "n":
            dims = dim or range(-len(s) if s else -re.dim(), 0)
        else:
            dims, s = [-1 if dim is None else dim], n and [n]
        sizes = list(s or (re.shape[d] for d in dims))
        half = core in ("irfft", "hfft")  # gives reals
        if half and not s:
            sizes[-1] = 2 * (sizes[-1] - 1)
        steps = list(zip(dims, sizes))
        whole = steps[:-1] if half or real else steps
        if real:
            d, n = steps[-1]
            re, im = _sums(re, None, d, n, n // 2 + 1, sign)
        for d, n in whole:
            re, im = _sums(re, im, d, n, n, sign)
        if half:
            d, n = steps[-1]
            re = _real_sums(re, im, d, n, sign)
        count = math.prod(sizes)
        scale = {"ortho": count**-0.5, "forward": 1 if inverse else 1 / count}.get(norm, 1 / count if inverse else 1)
        return re * scale if half else torch.stack((re, im), -1) * scale

    return truth


# ---- the samples ----


def _one(takes_complex=True, half=False):
    """Samples of a transform of one dim."""
    last = (2,) if takes_complex else ()

    def samples(make):
        for i, n in enumerate(LENGTHS):
            size = n // 2 + 1 if half else n
            words = {"n": n} if half else {}
            yield Sample((make.tensor(3, size, *last),), {"norm": NORMS[i % 4], **words}, terms=n)
            if n < 40:
                yield Sample((make.tensor(2, size, 19, *last),), {"dim": 1, **words}, terms=n)
        for n in (1, 4, 9, 16):  # cut and filled
            yield Sample((make.tensor(2, 6, 3, *last),), {"n": n, "dim": -2}, terms=n)
        yield Sample((make.tensor(1030, *last),), {"n": 1030 if not half else 2058}, terms=2000)
        for layout in Maker.LAYOUTS[1:]:
            yield Sample((make.tensor(4, 6, *last, layout=layout),), {"n": 7, "dim": 0}, terms=7)

    return samples


def _many(takes_complex=True, half=False):
    last = (2,) if takes_complex else ()

    def samples(make):
        for i, (shape, words) in enumerate(
            [
                ((4, 6), {}),
                ((3, 5, 7), {}),
                ((2, 8, 9), {"dim": (1, 2)}),
                ((2, 3, 4, 5), {"dim": (0, 3)}),
                ((3, 4, 6), {"dim": (-1, -3)}),
                ((3, 4, 6), {"s": (5, 3), "dim": (1, 2)}),
                ((3, 5), {"s": (4, 9)}),
                ((2, 17, 1), {"dim": (1,)}),
            ]
        ):
            if half and "s" not in words:
                dims = words.get("dim", tuple(range(len(shape))))
                words = {**words, "s": [*(shape[d] for d in dims[:-1]), 2 * shape[dims[-1]] - 1], "dim": dims}
            yield Sample((make.tensor(*shape, *last),), {"norm": NORMS[i % 4], **words}, terms=60)

    return samples


def _shifts(make):
    for shape in [(1,), (2,), (5,), (4, 3), (2, 5, 6)]:
        yield Sample((make.tensor(*shape),))
    yield Sample((make.tensor(4, 5),), {"dim": 1})
    yield Sample((make.tensor(4, 5, 3),), {"dim": (0, 2)})


FFT = torch.fft
OPERATORS = [
    Operator("fft", _call(FFT.fft), _one(), dtypes=FLOATS, truth=_by_sums("fft")),
    Operator("ifft", _call(FFT.ifft), _one(), dtypes=FLOATS, truth=_by_sums("ifft")),
    Operator("rfft", _call(FFT.rfft, False), _one(False), dtypes=FLOATS, truth=_by_sums("rfft")),
    Operator("irfft", _call(FFT.irfft, True, False), _one(half=True), dtypes=FLOATS, truth=_by_sums("irfft")),
    Operator("hfft", _call(FFT.hfft, True, False), _one(half=True), dtypes=FLOATS, truth=_by_sums("hfft")),
    Operator("ihfft", _call(FFT.ihfft, False), _one(False), dtypes=FLOATS, truth=_by_sums("ihfft")),
    Operator("fftn", _call(FFT.fftn), _many(), dtypes=FLOATS, truth=_by_sums("fftn")),
    Operator("ifftn", _call(FFT.ifftn), _many(), dtypes=FLOATS, truth=_by_sums("ifftn")),
    Operator("rfftn", _call(FFT.rfftn, False), _many(False), dtypes=FLOATS, truth=_by_sums("rfftn")),
    Operator("irfftn", _call(FFT.irfftn, True, False), _many(half=True), dtypes=FLOATS, truth=_by_sums("irfftn")),
    Operator("hfftn", _call(FFT.hfftn, True, False), _many(half=True), dtypes=FLOATS, truth=_by_sums("hfftn")),
    Operator("ihfftn", _call(FFT.ihfftn, False), _many(False), dtypes=FLOATS, truth=_by_sums("ihfftn")),
    Operator("fftshift", FFT.fftshift, _shifts, dtypes=FLOATS, exact=True),
    Operator("ifftshift", FFT.ifftshift, _shifts, dtypes=FLOATS, exact=True),
]
