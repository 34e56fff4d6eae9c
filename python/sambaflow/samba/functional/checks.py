# SPDX-License-Identifier: Apache-2.0
"""Arguments of functions beyond torch's, and what messages about them end with."""

import torch

from sambaflow import errors
from sambaflow.samba import _state
from sambaflow.samba.sambatensor import SambaTensor


def where():
    """The place in the model that is being traced, for the end of a message."""
    return "" if _state.here.tracer is None else _state.here.tracer.where()


def samba(call, name, x):
    """An argument as a SambaTensor."""
    if not isinstance(x, torch.Tensor):
        raise errors.ArgumentTypeError(f"{call}: {name} must be a tensor, given {type(x).__name__}{where()}")
    return x if isinstance(x, SambaTensor) else SambaTensor(x)


def numbers(call, name, given):
    """An int, or several, as a list."""
    several = list(given) if isinstance(given, (list, tuple)) else [given]
    if not all(isinstance(d, int) and not isinstance(d, bool) for d in several):
        raise errors.ArgumentTypeError(f"{call}: {name} must be integers, given {given!r:.100}{where()}")
    return several


def wrapped(call, name, given, rank):
    """Dims of a tensor of that rank as 0 .. rank-1."""
    dims = numbers(call, name, given)
    for d in dims:
        if not -rank <= d < rank:
            raise errors.ArgumentIndexError(f"{call}: {name} has {d}, and x has {rank} dims{where()}")
    return [d % rank for d in dims]
