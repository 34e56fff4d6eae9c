# SPDX-License-Identifier: Apache-2.0
"""Reductions: torch's arguments for the library's functions."""

import torch

from sambaflow._core import ffi, lib
from sambaflow.samba.rules.common import cast, dims_of, floating, rank
from sambaflow.samba.trace import rule

aten = torch.ops.aten
T = torch.Tensor


def in_dtype(t, input, dtype, call, *arguments):
    """A reduction in that dtype: the library's widens integers to int64, which ends in the same ones as torch's,
    which wraps around at each step."""
    return cast(t, t.wrap(call(t.value(cast(t, input, dtype)), *arguments)), dtype)


def _reduction(call, *functions):
    @rule(*functions)
    def traced(t, input, dim=None, keepdim=False, *, dtype=None):
        return in_dtype(t, input, dtype, call, *dims_of(dim), keepdim)

    return traced


_reduction(lib.samba_mean, torch.mean, T.mean, aten.mean)
_reduction(lib.samba_nanmean, torch.nanmean, T.nanmean)
_reduction(lib.samba_nansum, torch.nansum, T.nansum, aten.nansum)
_reduction(lib.samba_prod, torch.prod, T.prod, aten.prod)
_reduction(lib.samba_logsumexp, torch.logsumexp, T.logsumexp, aten.logsumexp)
_reduction(lib.samba_amax, torch.amax, T.amax, aten.amax)
_reduction(lib.samba_amin, torch.amin, T.amin, aten.amin)


@rule(torch.sum, T.sum, aten.sum)
def sum_(t, input, dim=None, keepdim=False, *, dtype=None):
    return in_dtype(t, input, dtype or (None if floating(input) else torch.int64), lib.samba_sum, *dims_of(dim), keepdim)


def two(t, kind, call, *arguments):
    """A function whose second result comes through a pointer: both, as `kind` takes them."""
    second = ffi.new("samba_value *")
    first = call(*arguments, second)
    return kind((t.wrap(first), t.wrap(second[0])))


# ---- variances ----


def _spread(call, is_pair, *functions):
    @rule(*functions)
    def traced(t, input, dim=None, unbiased=None, keepdim=False, *, correction=None):
        if isinstance(dim, bool):
            dim, unbiased = None, dim
        correction = correction if correction is not None else 1 if unbiased in (None, True) else 0
        arguments = (t.value(input), *dims_of(dim), float(correction), keepdim)
        return two(t, tuple, call, *arguments) if is_pair else t.wrap(call(*arguments))


_spread(lib.samba_var, False, torch.var, T.var, aten.var)
_spread(lib.samba_std, False, torch.std, T.std, aten.std)
_spread(lib.samba_var_mean, True, torch.var_mean, aten.var_mean)
_spread(lib.samba_std_mean, True, torch.std_mean, aten.std_mean)


# ---- the greatest and the least ----


def _place(call, *functions):
    @rule(*functions)
    def traced(t, input, dim=None, keepdim=False):
        if dim is not None:
            return t.wrap(call(t.value(input), dim, keepdim))
        place = call(lib.samba_reshape(t.value(input), 1, [-1]), 0, False)
        return t.wrap(lib.samba_reshape(place, rank(input), [1] * rank(input)) if keepdim else place)


_place(lib.samba_argmax, torch.argmax, T.argmax, aten.argmax)
_place(lib.samba_argmin, torch.argmin, T.argmin, aten.argmin)


def _extremum(over_all, of_two, along, kind, *functions):
    @rule(*functions)
    def traced(t, input, *args, dim=None, keepdim=False, other=None):
        if args and isinstance(args[0], torch.Tensor):
            other = args[0]
        elif args:
            dim, keepdim = args[0], args[1] if len(args) > 1 else keepdim
        if other is not None:
            return of_two(input, other)
        return t.wrap(over_all(t.value(input))) if dim is None else two(t, kind, along, t.value(input), dim, keepdim)


_extremum(lib.samba_max_of_all, torch.maximum, lib.samba_max, torch.return_types.max, torch.max, T.max)
_extremum(lib.samba_min_of_all, torch.minimum, lib.samba_min, torch.return_types.min, torch.min, T.min)


@rule(torch.aminmax, T.aminmax, aten.aminmax)
def aminmax(t, input, *, dim=None, keepdim=False):
    return two(t, torch.return_types.aminmax, lib.samba_aminmax, t.value(input), *dims_of(dim), keepdim)


# ---- truths ----


def _truth(call, *functions):
    @rule(*functions)
    def traced(t, input, dim=None, keepdim=False):
        if dim == ():  # torch: over no dim
            return cast(t, input != 0, torch.uint8 if input.dtype is torch.uint8 else torch.bool)
        return t.wrap(call(t.value(input), *dims_of(dim), keepdim))


_truth(lib.samba_any, torch.any, T.any, aten.any)
_truth(lib.samba_all, torch.all, T.all, aten.all)


@rule(torch.count_nonzero, T.count_nonzero, aten.count_nonzero)
def count_nonzero(t, input, dim=None):
    return t.wrap(lib.samba_count_nonzero(t.value(input), *dims_of(dim)))
