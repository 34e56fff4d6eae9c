# SPDX-License-Identifier: Apache-2.0
"""torch.fft: the library's transforms of pairs (pairs.py). Sizes, norms and what they mean are C's; what torch's functions take
in several dims at once, and hfft's of several dims, is put together here."""

import torch

from sambaflow._core import ffi, lib
from sambaflow.samba.pairs import complex_of, is_complex, pair_of
from sambaflow.samba.rules.complexes import paired
from sambaflow.samba.trace import complex_rule, rule

aten = torch.ops.aten

_NORMS = {None: 0, "backward": 0, "ortho": 1, "forward": 2}


def _norm(norm):
    if norm not in _NORMS:
        raise ValueError(f"norm must be 'backward', 'ortho' or 'forward', given {norm!r:.60}")
    return _NORMS[norm]


def _length(n, of="n"):
    if n is not None and n < 1:
        raise ValueError(f"{of} must be 1 or more, given {n}")
    return 0 if n is None else n


def _both(*functions):
    """Decorator: a rule of real and of complex tensors."""

    def register(f):
        return complex_rule(*functions)(rule(*functions)(f))

    return register


def _real(t, x, what):
    if is_complex(x):
        raise TypeError(f"expected a real tensor, given {x.dtype}: use its real part, or {what[1:]}")
    return t.value(x)


def _of_one(function, call, takes_complex, gives_complex):
    name = function.__name__.removeprefix("fft_")

    @_both(function)
    def traced(t, input, n=None, dim=-1, norm=None):
        value = t.value(paired(t, input)) if takes_complex else _real(t, input, name)
        result = t.wrap(call(value, _length(n), dim, _norm(norm)))
        return complex_of(t, result) if gives_complex else result

    return traced


fft = _of_one(torch.fft.fft, lib.samba_fft, True, True)
ifft = _of_one(torch.fft.ifft, lib.samba_ifft, True, True)
rfft = _of_one(torch.fft.rfft, lib.samba_rfft, False, True)
irfft = _of_one(torch.fft.irfft, lib.samba_irfft, True, False)
hfft = _of_one(torch.fft.hfft, lib.samba_hfft, True, False)
ihfft = _of_one(torch.fft.ihfft, lib.samba_ihfft, False, True)


def _check(input, dims):
    for d in dims:
        if not -input.dim() <= d < input.dim():
            raise IndexError(f"dim {d} is out of range for a tensor of {input.dim()} dims")


def _sizes_and_dims(input, s, dim):
    """(sizes with 0 for the dim's own, dims), as torch has them from s and dim."""
    sizes = None if s is None else [s] if isinstance(s, int) else list(s)
    dims = None if dim is None else [dim] if isinstance(dim, int) else list(dim)
    if dims is None:
        dims = list(range(input.dim())) if sizes is None else list(range(-len(sizes), 0))
    if sizes is None:
        sizes = [-1] * len(dims)
    if len(sizes) != len(dims):
        raise ValueError(f"s and dim have {len(sizes)} and {len(dims)} numbers: expected one of each for a dim")
    _check(input, dims)
    if len({d % input.dim() for d in dims}) < len(dims):
        raise ValueError(f"dims of a transform differ, given {dims}")
    return [0 if n == -1 else _length(n, "s") for n in sizes], dims


def _of_many(name, call, takes_complex, gives_complex):
    @_both(getattr(torch.fft, name))
    def traced(t, input, s=None, dim=None, norm=None):
        value = t.value(paired(t, input)) if takes_complex else _real(t, input, name)
        sizes, dims = _sizes_and_dims(input, s, dim)
        result = t.wrap(call(value, len(dims), sizes, dims, _norm(norm)))
        return complex_of(t, result) if gives_complex else result

    flat = name[:-1] + "2"

    @_both(getattr(torch.fft, flat))
    def of_two(t, input, s=None, dim=(-2, -1), norm=None):
        return traced(t, input, s, dim, norm)

    return traced


fftn = _of_many("fftn", lib.samba_fftn, True, True)
ifftn = _of_many("ifftn", lib.samba_ifftn, True, True)
rfftn = _of_many("rfftn", lib.samba_rfftn, False, True)
irfftn = _of_many("irfftn", lib.samba_irfftn, True, False)


@_both(torch.fft.hfftn)
def hfftn(t, input, s=None, dim=None, norm=None):
    sizes, dims = _sizes_and_dims(input, s, dim)
    value = t.value(paired(t, input))
    if len(dims) > 1:
        value = lib.samba_fftn(value, len(dims) - 1, sizes[:-1], dims[:-1], _norm(norm))
    return t.wrap(lib.samba_hfft(value, sizes[-1], dims[-1], _norm(norm)))


@_both(torch.fft.ihfftn)
def ihfftn(t, input, s=None, dim=None, norm=None):
    sizes, dims = _sizes_and_dims(input, s, dim)
    value = lib.samba_ihfft(_real(t, input, "ihfftn"), sizes[-1], dims[-1], _norm(norm))
    if len(dims) > 1:
        value = lib.samba_ifftn(value, len(dims) - 1, sizes[:-1], dims[:-1], _norm(norm))
    return complex_of(t, t.wrap(value))


@_both(torch.fft.hfft2)
def hfft2(t, input, s=None, dim=(-2, -1), norm=None):
    return hfftn(t, input, s, dim, norm)


@_both(torch.fft.ihfft2)
def ihfft2(t, input, s=None, dim=(-2, -1), norm=None):
    return ihfftn(t, input, s, dim, norm)


# ---- order of frequencies ----


def _shift(function, of):
    @_both(function)
    def traced(t, input, dim=None):
        dims = list(range(input.dim())) if dim is None else [dim] if isinstance(dim, int) else list(dim)
        _check(input, dims)
        return torch.roll(input, [of(input.shape[d]) for d in dims], dims) if dims else input


_shift(torch.fft.fftshift, lambda size: size // 2)
_shift(torch.fft.ifftshift, lambda size: -(size // 2))


# ---- ATen's operators, of which torch.stft and torch.istft are made: they leave n out, and number norms their way ----

_SCALES = (lambda n: 1.0, lambda n: n**-0.5, lambda n: 1.0 / n)  # none, by the root, by n


def _scaled(t, value, normalization, lengths):
    count = 1
    for length in lengths:
        count *= length
    return t.wrap(value) * _SCALES[normalization](count)


@rule(aten._fft_r2c)
def fft_r2c(t, input, dim, normalization, onesided):
    if not onesided:
        return fft_c2c(t, complex_of(t, paired(t, input)), dim, normalization, True)
    value = lib.samba_rfftn(t.value(input), len(dim), ffi.NULL, list(dim), 0)
    return complex_of(t, _scaled(t, value, normalization, [input.shape[d] for d in dim]))


@complex_rule(aten._fft_c2c)
def fft_c2c(t, input, dim, normalization, forward):
    call, norm = (lib.samba_fftn, 0) if forward else (lib.samba_ifftn, 2)
    value = call(t.value(pair_of(t, input)), len(dim), ffi.NULL, list(dim), norm)
    return complex_of(t, _scaled(t, value, normalization, [input.shape[d] for d in dim]))


@complex_rule(aten._fft_c2r)
def fft_c2r(t, input, dim, normalization, last_dim_size):
    sizes = [0] * (len(dim) - 1) + [last_dim_size]
    value = lib.samba_irfftn(t.value(pair_of(t, input)), len(dim), sizes, list(dim), 2)
    return _scaled(t, value, normalization, [input.shape[d] for d in dim[:-1]] + [last_dim_size])
