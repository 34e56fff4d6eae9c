# SPDX-License-Identifier: Apache-2.0
"""Fourier transforms: every form and norm, lengths with small and large prime factors, cut and filled, along any dim. Complex
tensors go in and come out as pairs of real and imaginary part, so that dtypes, layouts and gradients are those of all operators.
torch has no transforms of 16-bit floats on a CPU, and fails where a tensor has no elements."""

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
    Operator("fft", _call(FFT.fft), _one(), dtypes=FLOATS),
    Operator("ifft", _call(FFT.ifft), _one(), dtypes=FLOATS),
    Operator("rfft", _call(FFT.rfft, False), _one(False), dtypes=FLOATS),
    Operator("irfft", _call(FFT.irfft, True, False), _one(half=True), dtypes=FLOATS),
    Operator("hfft", _call(FFT.hfft, True, False), _one(half=True), dtypes=FLOATS),
    Operator("ihfft", _call(FFT.ihfft, False), _one(False), dtypes=FLOATS),
    Operator("fftn", _call(FFT.fftn), _many(), dtypes=FLOATS),
    Operator("ifftn", _call(FFT.ifftn), _many(), dtypes=FLOATS),
    Operator("rfftn", _call(FFT.rfftn, False), _many(False), dtypes=FLOATS),
    Operator("irfftn", _call(FFT.irfftn, True, False), _many(half=True), dtypes=FLOATS),
    Operator("hfftn", _call(FFT.hfftn, True, False), _many(half=True), dtypes=FLOATS),
    Operator("ihfftn", _call(FFT.ihfftn, False), _many(False), dtypes=FLOATS),
    Operator("fftshift", FFT.fftshift, _shifts, dtypes=FLOATS, exact=True),
    Operator("ifftshift", FFT.ifftshift, _shifts, dtypes=FLOATS, exact=True),
]
