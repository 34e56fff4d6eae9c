# SPDX-License-Identifier: Apache-2.0
"""Reductions, and what is made of them."""
import math

import torch

from sambaflow._core import lib
from sambaflow.samba.rules.common import cast, dims_of, floating, rank, unsupported, wrapped_dim
from sambaflow.samba.rules.indexing import gather
from sambaflow.samba.trace import rule

aten = torch.ops.aten
T = torch.Tensor


def _reduction(call, *functions):
    @rule(*functions)
    def traced(t, input, dim=None, keepdim=False, *, dtype=None):
        return t.wrap(call(t.value(cast(t, input, dtype)), *dims_of(dim), keepdim))

    return traced


_mean = _reduction(lib.samba_mean, torch.mean, T.mean, aten.mean)
_amax = _reduction(lib.samba_amax, torch.amax, T.amax, aten.amax)
_amin = _reduction(lib.samba_amin, torch.amin, T.amin, aten.amin)


@rule(torch.sum, T.sum, aten.sum)
def sum_(t, input, dim=None, keepdim=False, *, dtype=None):
    dtype = dtype or (None if floating(input) else torch.int64)
    return t.wrap(lib.samba_sum(t.value(cast(t, input, dtype)), *dims_of(dim), keepdim))


def _centre(t, input, dim, unbiased, keepdim, correction):
    """The mean, with its dims, and the variance."""
    if isinstance(dim, bool):
        dim, unbiased = None, dim
    correction = correction if correction is not None else 1 if unbiased in (None, True) else 0
    count, dims = dims_of(dim)
    n = math.prod(input.shape[d] for d in dims) if dims else input.numel()
    value = t.value(input)
    mean = lib.samba_mean(value, count, dims, True)
    centred = lib.samba_sub(value, mean)
    total = lib.samba_sum(lib.samba_mul(centred, centred), count, dims, keepdim)
    left = n - correction
    return mean, t.wrap(lib.samba_mul(total, t.number(1 / left if left > 0 else math.inf, input)))


@rule(torch.var, T.var, aten.var)
def var(t, input, dim=None, unbiased=None, keepdim=False, *, correction=None):
    return _centre(t, input, dim, unbiased, keepdim, correction)[1]


@rule(torch.std, T.std, aten.std)
def std(t, input, dim=None, unbiased=None, keepdim=False, *, correction=None):
    return torch.sqrt(_centre(t, input, dim, unbiased, keepdim, correction)[1])


@rule(torch.var_mean, aten.var_mean)
def var_mean(t, input, dim=None, unbiased=None, keepdim=False, *, correction=None):
    mean, variance = _centre(t, input, dim, unbiased, keepdim, correction)
    return variance, t.wrap(mean).reshape(variance.shape)


@rule(torch.std_mean, aten.std_mean)
def std_mean(t, input, dim=None, unbiased=None, keepdim=False, *, correction=None):
    variance, mean = var_mean(t, input, dim, unbiased, keepdim, correction=correction)
    return torch.sqrt(variance), mean


# ---- the greatest and the least ----


@rule(torch.argmax, T.argmax, aten.argmax)
def argmax(t, input, dim=None, keepdim=False):
    if dim is None:
        input, dim = input.reshape(-1), 0
    return t.wrap(lib.samba_argmax(t.value(input), dim, keepdim))


@rule(torch.argmin, T.argmin, aten.argmin)
def argmin(t, input, dim=None, keepdim=False):
    return argmax(t, -input, dim, keepdim)


def _extremum(over_all, of_two, place, kind, *functions):
    @rule(*functions)
    def traced(t, input, *args, dim=None, keepdim=False, other=None):
        if args and isinstance(args[0], torch.Tensor):
            other = args[0]
        elif args:
            dim, keepdim = args[0], args[1] if len(args) > 1 else keepdim
        if other is not None:
            return of_two(input, other)
        if dim is None:
            return over_all(t, input)
        if rank(input) == 0:
            return kind((input, torch.zeros((), dtype=torch.int64)))
        dim = wrapped_dim(dim, rank(input))
        index = place(t, input, dim, True)
        result = (gather(t, input, dim, index), index)
        return kind(result if keepdim else tuple(x.squeeze(dim) for x in result))


_extremum(_amax, torch.maximum, argmax, torch.return_types.max, torch.max, T.max)
_extremum(_amin, torch.minimum, argmin, torch.return_types.min, torch.min, T.min)


@rule(torch.aminmax, T.aminmax)
def aminmax(t, input, *, dim=None, keepdim=False):
    return torch.return_types.aminmax((_amin(t, input, dim, keepdim), _amax(t, input, dim, keepdim)))


# ---- truths ----


@rule(torch.any, T.any, aten.any)
def any_(t, input, dim=None, keepdim=False):
    return _amax(t, cast(t, input if input.dtype is torch.bool else input != 0, torch.int32), dim, keepdim) > 0


@rule(torch.all, T.all, aten.all)
def all_(t, input, dim=None, keepdim=False):
    return _amin(t, cast(t, input if input.dtype is torch.bool else input != 0, torch.int32), dim, keepdim) > 0


@rule(torch.count_nonzero, T.count_nonzero)
def count_nonzero(t, input, dim=None):
    return sum_(t, input != 0, dim)


# ---- others ----


@rule(torch.prod, T.prod, aten.prod)
def prod(t, input, dim=None, keepdim=False, *, dtype=None):
    """Halves are multiplied with halves, so that every order of magnitude is seen by few roundings."""
    input = cast(t, input, dtype or (None if floating(input) else torch.int64))
    if dim is None:
        input, dim, keepdim = input.reshape(-1), 0, False
    dim = wrapped_dim(dim, rank(input))
    if input.shape[dim] == 0:
        unsupported(t, "prod over a dim of size 0")
    while input.shape[dim] > 1:
        half = input.shape[dim] // 2
        product = input.narrow(dim, 0, half) * input.narrow(dim, half, half)
        input = torch.cat([product, input.narrow(dim, 2 * half, 1)], dim) if input.shape[dim] % 2 else product
    return input if keepdim else input.squeeze(dim)


@rule(torch.logsumexp, T.logsumexp, aten.logsumexp)
def logsumexp(t, input, dim, keepdim=False):
    """From the greatest, through which no gradient flows: it cancels."""
    greatest = _amax(t, input.detach(), dim, True)
    greatest = torch.where(torch.abs(greatest) == math.inf, 0.0, greatest)
    total = torch.log(torch.exp(input - greatest).sum(dim, True)) + greatest
    return total if keepdim else total.reshape(_amax(t, input.detach(), dim, False).shape)
