# SPDX-License-Identifier: Apache-2.0
"""Counting: how many elements have a value or lie in a range. The size of what comes out must be known."""

import torch

from sambaflow.errors import ArgumentError, DtypeError
from sambaflow.samba.trace import rule

aten = torch.ops.aten
T = torch.Tensor


def _sums(places, weights, count):
    return torch.zeros(count, dtype=weights.dtype).scatter_add(0, places, weights)


@rule(torch.bincount, T.bincount, aten.bincount)
def bincount(t, input, weights=None, minlength=0):
    """minlength counts: a run reports a value beyond, of which torch would make a longer result."""
    if input.dim() != 1 or input.dtype.is_floating_point or input.dtype is torch.bool:
        raise ArgumentError(f"bincount: expected a line of integers, given {tuple(input.shape)} {input.dtype}{t.where()}")
    if minlength < 0:
        raise ArgumentError(f"bincount: minlength must be 0 or more, given {minlength}{t.where()}")
    if minlength == 0:
        t.refuse_values("bincount")
    if input.numel() == 0:
        return torch.zeros(minlength, dtype=torch.int64)
    if weights is None:
        weights = torch.ones(input.shape, dtype=torch.int64)
    elif weights.dtype is not torch.float32:
        weights = weights.to(torch.float64)
    return _sums(input.to(torch.int64), weights.detach(), minlength)


@rule(torch.histc, T.histc, aten.histc)
def histc(t, input, bins=100, min=0, max=0):
    if not input.dtype.is_floating_point:
        raise DtypeError(f"histc: expected floating-point, given {input.dtype}; cast it first{t.where()}")
    if bins < 1 or min > max:
        raise ArgumentError(f"histc: expected 1 bin or more and min <= max, given {bins} bins of {min} to {max}{t.where()}")
    line = input.detach().reshape(-1)
    if min == max and line.numel():
        low, high = line.amin(), line.amax()
        alike = low == high
        low, high = torch.where(alike, low - 1, low), torch.where(alike, high + 1, high)
    else:
        low, high = (min - 1, max + 1) if min == max else (min, max)
    inside = (line >= low) & (line <= high)
    places = ((line - low) / (high - low) * bins).floor()
    places = torch.where(inside, places, torch.zeros_like(places)).clamp(0, bins - 1).to(torch.int64)
    return _sums(places, inside.to(line.dtype), bins)


bincount.asks_values = histc.asks_values = True  # outside tracing they are torch's
