# SPDX-License-Identifier: Apache-2.0
"""A function of elements, written once and applied at every place of an iteration space: its shape is what the shapes of the
tensors broadcast to. Inside, sn_imm is a number, sn_iteridx the index of the place along a dim, sn_select a choice; a reduction
may follow. All of it is operators on whole tensors, which the compiler fuses.

>>> def causal(scores):
...     return sn_select(sn_iteridx(-1) > sn_iteridx(-2), sn_imm(-1.0), scores)
>>> sn_zipmapreduce(causal, [torch.ones(2, 2)]).tolist()
[[1.0, -1.0], [1.0, 1.0]]
>>> sn_zipmapreduce(lambda a, b: a * b, [torch.ones(2, 3), torch.arange(3.0)], reduce="sum", dims=-1).tolist()
[3.0, 3.0]
>>> def corner(space: Space, scores):
...     return sn_select(sn_iteridx(0, space=space) + sn_iteridx(1, space=space) == 0, 5.0, scores)
>>> sn_zipmapreduce(corner, torch.ones(2, 2)).tolist()
[[5.0, 1.0], [1.0, 1.0]]
"""

import inspect
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from sambaflow import errors
from sambaflow.samba.functional.checks import samba, where, wrapped
from sambaflow.samba.sntype import SNType

if TYPE_CHECKING:
    from sambaflow.samba.sambatensor import SambaTensor

_REDUCTIONS = ("sum", "mean", "prod", "amax", "amin", "any", "all")
_local = threading.local()


class Space(NamedTuple):
    """What a function is applied over; one that takes an argument more than there are tensors is given it first."""

    shape: tuple[int, ...]


def _spaces():
    if not hasattr(_local, "spaces"):
        _local.spaces = []
    return _local.spaces


def sn_imm(value: bool | int | float, dtype: torch.dtype | SNType | str | None = None) -> "SambaTensor":
    """A number as a tensor of no dims, of a torch dtype or an SNType; None: what torch.tensor(value) has.

    >>> sn_imm(2, SNType.INT32)
    SambaTensor(2, shape=(), dtype=torch.int32, device=cpu)
    """
    if not isinstance(value, (bool, int, float)):
        raise errors.ArgumentTypeError(f"sn_imm: expected a number, given {value!r:.100} of {type(value).__name__}{where()}")
    return samba("sn_imm", "value", torch.tensor(value, dtype=None if dtype is None else SNType.of(dtype).dtype))


def sn_iteridx(dim: int, dtype: torch.dtype | SNType | str = torch.int64, space: Space | None = None) -> "SambaTensor":
    """The index along a dim, at every place of the iteration space: 1 in each other dim, so that it broadcasts.

    Args:
        dim: of the space, also counted from its end.
        dtype: a torch dtype or an SNType.
        space: the Space that a function was given first; None: that of the sn_zipmapreduce at work.
    """
    if space is None:
        space = _spaces()[-1] if _spaces() else None
    if not isinstance(space, Space):
        raise errors.StateError(
            "sn_iteridx: there is an index in a function that sn_zipmapreduce applies, and nowhere else: use torch.arange"
            + where()
        )
    rank = len(space.shape)
    if not isinstance(dim, int) or isinstance(dim, bool) or not -rank <= dim < rank:
        raise errors.ArgumentIndexError(f"sn_iteridx: dim {dim!r:.100} of a space of {rank} dims{where()}")
    at = dim % rank
    line = torch.arange(space.shape[at], dtype=SNType.of(dtype).dtype)
    return samba("sn_iteridx", "dim", line.reshape([-1 if d == at else 1 for d in range(rank)]))


def sn_select(condition: torch.Tensor, input: torch.Tensor | float, other: torch.Tensor | float) -> "SambaTensor":
    """`input` where the condition is true, else `other`: torch.where. A condition of numbers is true where it is not 0; either
    value may be a number."""
    condition = samba("sn_select", "condition", condition)
    return torch.where(condition if condition.dtype is torch.bool else condition != 0, input, other)


def sn_zipmapreduce(
    function: Callable[..., Any],
    tensors: torch.Tensor | Iterable[torch.Tensor],
    reduce: str | None = None,
    dims: int | Sequence[int] | None = None,
    keepdim: bool = False,
) -> Any:
    """A function of elements at every place, then a reduction.

    Args:
        function: takes an element of each tensor, as tensors that broadcast to the space, and gives one or a tuple of several.
            One with an argument more is given the Space first.
        tensors: a tensor or several, whose shapes broadcast.
        reduce: None, 'sum', 'mean', 'prod', 'amax', 'amin', 'any' or 'all'.
        dims: of the space, that are reduced; None: all.
        keepdim: whether these stay, with size 1.

    Returns:
        What the function gives, of the space's shape, reduced.
    """
    call = "sn_zipmapreduce"
    if not callable(function):
        raise errors.ArgumentTypeError(f"{call}: expected a function first, given {type(function).__name__}{where()}")
    tensors = [tensors] if isinstance(tensors, torch.Tensor) else list(tensors)
    if not tensors:
        raise errors.ArgumentError(f"{call}: expected a tensor or more, whose shapes are the space{where()}")
    given = [samba(call, f"tensor {i}", x) for i, x in enumerate(tensors)]
    if reduce not in (None, *_REDUCTIONS):
        raise errors.ArgumentError(f"{call}: reduce={reduce!r}: expected None, {', '.join(map(repr, _REDUCTIONS))}{where()}")
    if reduce is None and (dims is not None or keepdim):
        raise errors.ArgumentError(f"{call}: dims and keepdim are those of a reduction, and reduce is None{where()}")
    try:
        shape = tuple(torch.broadcast_shapes(*(tuple(x.shape) for x in given)))
    except RuntimeError:
        shapes = ", ".join(str(tuple(x.shape)) for x in given)
        raise errors.ShapeError(f"{call}: the shapes {shapes} do not broadcast{where()}") from None
    over = list(range(len(shape))) if dims is None else wrapped(call, "dims", dims, len(shape))
    space = Space(shape)
    first = [space] if _parameters(function) == len(given) + 1 else []
    _spaces().append(space)
    try:
        made = function(*first, *given)
    finally:
        _spaces().pop()
    if isinstance(made, (tuple, list)):
        return tuple(_reduced(call, x, shape, reduce, over, keepdim) for x in made)
    return _reduced(call, made, shape, reduce, over, keepdim)


def _parameters(function):
    """How many arguments a function needs by position; None where Python does not know."""
    try:
        kinds = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return None
    return sum(p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) for p in kinds)


def _reduced(call, made, shape, reduce, over, keepdim):
    if isinstance(made, (bool, int, float)):
        made = sn_imm(made)
    made = samba(call, "what the function returns", made)
    try:
        fits = tuple(torch.broadcast_shapes(tuple(made.shape), shape)) == shape
    except RuntimeError:
        fits = False
    if not fits:
        raise errors.ShapeError(f"{call}: the function returned {tuple(made.shape)} for a space of {shape}{where()}")
    made = made if tuple(made.shape) == shape else made.expand(shape)
    if reduce is None or not over:
        return made
    if reduce in ("prod", "any", "all"):  # which torch has for one dim at a time
        for d in sorted(over, reverse=True):
            made = getattr(torch, reduce)(made, d, keepdim)
        return made
    return getattr(torch, reduce)(made, over, keepdim)


__all__ = ["Space", "sn_imm", "sn_iteridx", "sn_select", "sn_zipmapreduce"]
