# SPDX-License-Identifier: Apache-2.0
"""Along one dim: sorting, what is chosen by it, running sums. The library's order is always stable."""

import torch

from sambaflow._core import ffi, lib
from sambaflow.samba.rules.common import cast
from sambaflow.samba.rules.reduction import in_dtype, two
from sambaflow.samba.trace import rule

aten = torch.ops.aten
T = torch.Tensor


@rule(torch.sort, T.sort, aten.sort)
def sort(t, input, dim=-1, descending=False, stable=False):
    return two(t, torch.return_types.sort, lib.samba_sort, t.value(input), dim, descending)


@rule(torch.argsort, T.argsort, aten.argsort)
def argsort(t, input, dim=-1, descending=False, stable=False):
    return t.wrap(lib.samba_argsort(t.value(input), dim, descending))


@rule(torch.msort, T.msort, aten.msort)
def msort(t, input):
    return t.wrap(lib.samba_msort(t.value(input)))


@rule(torch.topk, T.topk, aten.topk)
def topk(t, input, k, dim=-1, largest=True, sorted=True):
    return two(t, torch.return_types.topk, lib.samba_topk, t.value(input), k, dim, largest)


@rule(torch.kthvalue, T.kthvalue, aten.kthvalue)
def kthvalue(t, input, k, dim=-1, keepdim=False):
    return two(t, torch.return_types.kthvalue, lib.samba_kthvalue, t.value(input), k, dim, keepdim)


@rule(torch.median, T.median, aten.median)
def median(t, input, dim=None, keepdim=False):
    if dim is None:
        return t.wrap(lib.samba_median_of_all(t.value(input)))
    return two(t, torch.return_types.median, lib.samba_median, t.value(input), dim, keepdim)


@rule(torch.nanmedian, T.nanmedian, aten.nanmedian)
def nanmedian(t, input, dim=None, keepdim=False):
    if dim is None:
        return t.wrap(lib.samba_nanmedian(lib.samba_reshape(t.value(input), 1, [-1]), 0, False, ffi.new("samba_value *")))
    return two(t, torch.return_types.nanmedian, lib.samba_nanmedian, t.value(input), dim, keepdim)


@rule(torch.searchsorted, aten.searchsorted)
def searchsorted(t, sorted_sequence, input, *, out_int32=False, right=False, side=None, sorter=None):
    if side not in (None, "left", "right") or (side == "left" and right):
        raise ValueError(f"side must be 'left' or 'right', as `right` says, given {side!r} and right={right}")
    sequence = t.value(sorted_sequence)
    if sorter is not None:
        sequence = lib.samba_gather(sequence, -1, t.value(sorter))
    values = t.value(input if isinstance(input, torch.Tensor) else torch.tensor(input, dtype=sorted_sequence.dtype))
    found = t.wrap(lib.samba_searchsorted(sequence, values, right or side == "right"))
    return cast(t, found, torch.int32 if out_int32 else torch.int64)


@rule(torch.bucketize, aten.bucketize)
def bucketize(t, input, boundaries, *, out_int32=False, right=False):
    return searchsorted(t, boundaries, input, out_int32=out_int32, right=right)


def _running(call, *functions):
    @rule(*functions)
    def traced(t, input, dim, *, dtype=None):
        if dtype is torch.bool:
            raise TypeError("dtype must be one of numbers, given torch.bool")
        return in_dtype(t, input, dtype, call, dim)

    return traced


_running(lib.samba_cumsum, torch.cumsum, T.cumsum, aten.cumsum)
_running(lib.samba_cumprod, torch.cumprod, T.cumprod, aten.cumprod)
_running(lib.samba_logcumsumexp, torch.logcumsumexp, T.logcumsumexp, aten.logcumsumexp)


@rule(torch.cummax, T.cummax, aten.cummax)
def cummax(t, input, dim):
    return two(t, torch.return_types.cummax, lib.samba_cummax, t.value(input), dim)


@rule(torch.cummin, T.cummin, aten.cummin)
def cummin(t, input, dim):
    return two(t, torch.return_types.cummin, lib.samba_cummin, t.value(input), dim)
