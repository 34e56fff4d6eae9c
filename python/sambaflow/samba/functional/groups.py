# SPDX-License-Identifier: Apache-2.0
"""Rows sorted into groups of a fixed size, triangles that are filled, draws by weights: what models of language and mixtures of
experts are made of, in the library's operators."""

import math
from typing import TYPE_CHECKING

import torch

from sambaflow import errors
from sambaflow.samba.functional.checks import samba, where, wrapped

if TYPE_CHECKING:
    from sambaflow.samba.sambatensor import SambaTensor


def groupby(
    input: torch.Tensor, groups: torch.Tensor, num_groups: int, capacity: int | None = None, dim: int = 0, fill: float = 0
) -> "tuple[SambaTensor, SambaTensor]":
    """What lies along a dim, sorted into groups: what goes to each expert of a mixture, with all shapes known before.

    Rows keep their order within a group. Those behind the `capacity` first of their group, and those of a group that there is not
    (-1, num_groups), are left out. Gradients go to input.

    Args:
        input: a tensor; what lies at one place of `dim` is a row.
        groups: integers, (rows,): the group of each row.
        num_groups: how many groups there are.
        capacity: places for rows in each; None: as many as there are rows.
        dim: of input.
        fill: what places have that no row came to.

    Returns:
        (num_groups, capacity, *the other dims of input in their order), and how many rows each group was sent, (num_groups,)
        int64, which may be more than its capacity.

    >>> found, counts = groupby(torch.tensor([[1.0], [2.0], [3.0]]), torch.tensor([1, 0, 1]), num_groups=2, capacity=2)
    >>> found.tolist(), counts.tolist()
    ([[[2.0], [0.0]], [[1.0], [3.0]]], [1, 2])
    """
    call = "groupby"
    x, groups = samba(call, "input", input), samba(call, "groups", groups)
    if x.dim() == 0:
        raise errors.ShapeError(f"{call}: input has no dims: expected rows along one{where()}")
    (dim,) = wrapped(call, "dim", dim, x.dim())
    rows = x.shape[dim]
    capacity = rows if capacity is None else capacity
    for name, count, least in (("num_groups", num_groups, 1), ("capacity", capacity, 0)):
        if not isinstance(count, int) or isinstance(count, bool) or count < least:
            raise errors.ArgumentError(f"{call}: {name} is {count!r:.100}: expected an integer of {least} or more{where()}")
    if groups.dtype.is_floating_point or groups.dtype is torch.bool:
        raise errors.DtypeError(f"{call}: groups must be integers, given {groups.dtype}{where()}")
    if tuple(groups.shape) != (rows,):
        raise errors.ShapeError(f"{call}: groups of shape {tuple(groups.shape)} for {rows} rows: expected ({rows},){where()}")
    x = x.movedim(dim, 0)
    shape, width = list(x.shape[1:]), math.prod(x.shape[1:])
    groups = groups.to(torch.int64)
    member = (groups.unsqueeze(1) == torch.arange(num_groups)).to(torch.int64)  # (rows, num_groups)
    place = (member.cumsum(0) * member).sum(1) - 1  # of a row among those of its group; -1 where it has none
    last = num_groups * capacity  # one more, which nobody reads
    fits = (place >= 0) & (place < capacity)
    places = torch.where(fits, groups * capacity + place, last)
    made = torch.full((last + 1, width), fill, dtype=x.dtype).index_copy(0, places, x.reshape(rows, width))
    return made[:last].reshape(num_groups, capacity, *shape), member.sum(0)


def triu_fill(input: torch.Tensor, value: float = -math.inf, diagonal: int = 1) -> "SambaTensor":
    """The upper triangle of the last two dims filled with a number; the rest as it is. With the defaults no query sees keys that
    come after it: a causal mask. Gradients go to the rest.

    Args:
        input: (..., rows, columns).
        value: the number. An integer tensor takes an integer.
        diagonal: the triangle is where column - row is this or more, as that of torch.triu.

    >>> triu_fill(torch.ones(2, 3), 0.0).tolist()
    [[1.0, 0.0, 0.0], [1.0, 1.0, 0.0]]
    """
    call = "triu_fill"
    x = samba(call, "input", input)
    if x.dim() < 2:
        raise errors.ShapeError(f"{call}: input of shape {tuple(x.shape)}: expected two dims or more{where()}")
    if not isinstance(value, (int, float)):
        raise errors.ArgumentTypeError(f"{call}: value must be a number, given {type(value).__name__}{where()}")
    if not isinstance(diagonal, int) or isinstance(diagonal, bool):
        raise errors.ArgumentTypeError(f"{call}: diagonal must be an integer, given {diagonal!r:.100}{where()}")
    if not x.dtype.is_floating_point and (isinstance(value, float) and not value.is_integer()):
        raise errors.ArgumentError(f"{call}: {value} cannot be written into a tensor of {x.dtype}{where()}")
    above = torch.arange(x.shape[-1]) - torch.arange(x.shape[-2]).unsqueeze(1) >= diagonal
    return x.masked_fill(above, value)


def sn_multinomial(
    input: torch.Tensor, num_samples: int, replacement: bool = False, *, generator: torch.Generator | None = None
) -> "SambaTensor":
    """Indices drawn by weights: torch.multinomial. While a model is traced the draws are new ones each run, by a seed among the
    hyperparameters; outside they are torch's, of its generator.

    Args:
        input: weights, which need not add up to one: (categories,) or (rows, categories), floating-point, none below 0.
        num_samples: how many are drawn of each row.
        replacement: whether an index may be drawn again; without, there must be as many categories that are not 0.
        generator: outside tracing, where the numbers come from.

    Returns:
        int64, (num_samples,) or (rows, num_samples).

    >>> sn_multinomial(torch.tensor([0.0, 2.0, 0.0]), 2, replacement=True).tolist()
    [1, 1]
    """
    return torch.multinomial(samba("sn_multinomial", "input", input), num_samples, replacement, generator=generator)
