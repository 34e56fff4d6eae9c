# SPDX-License-Identifier: Apache-2.0
"""Windows of a tensor, read or written where index tensors say that they start: XLA's Gather, DynamicSlice and Scatter, made of
the library's operators of one dim, so that they are traced, differentiated and computed as those are.

`start_indices` has, in its last dim, one start for each of `dims`; its other dims count windows. A window is whole in the dims
of x that are not among `dims`. The first dims of `start_indices` and the `batched_dims` of x go together: window i of the batch
lies in part i of x. One window alone is cut dim by dim, without an index for each element; several are rows of x, by the number
of their row."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch

from sambaflow import errors
from sambaflow.samba.functional.checks import numbers, samba, where, wrapped

if TYPE_CHECKING:
    from sambaflow.samba.sambatensor import SambaTensor

_REDUCTIONS = {"sum": torch.add, "prod": torch.mul, "amax": torch.maximum, "amin": torch.minimum}


class _Windows:
    """The arguments of either function, checked."""

    def __init__(self, call, x, starts, dims, batched):
        self.call, self.shape = call, list(x.shape)
        rank = len(self.shape)
        if starts.dtype.is_floating_point or starts.dtype is torch.bool:
            raise errors.DtypeError(f"{call}: start_indices must be integers, given {starts.dtype}{where()}")
        self.starts = (starts.unsqueeze(-1) if isinstance(dims, int) else starts).to(torch.int64)
        self.dims = wrapped(call, "dims", dims, rank)
        self.batched = wrapped(call, "batched_dims", batched, rank)
        taken = self.dims + self.batched
        if not self.dims or len(set(taken)) < len(taken):
            raise errors.ArgumentError(
                f"{call}: dims {self.dims} and batched_dims {self.batched}: expected one dim of x or more in dims, and each dim "
                f"once{where()}"
            )
        self.batch = list(self.starts.shape[:-1])
        if self.starts.dim() == 0 or self.starts.shape[-1] != len(self.dims):
            raise errors.ShapeError(
                f"{call}: start_indices of shape {tuple(starts.shape)}: its last dim must have {len(self.dims)}, a start for "
                f"each of dims {self.dims}{where()}"
            )
        if [self.shape[d] for d in self.batched] != self.batch[: len(self.batched)]:
            raise errors.ShapeError(
                f"{call}: batched_dims {self.batched} of x are of sizes {[self.shape[d] for d in self.batched]}, and "
                f"start_indices of shape {tuple(starts.shape)} begins with {self.batch[: len(self.batched)]}: expected the "
                f"same{where()}"
            )
        self.window = [d for d in range(rank) if d not in self.batched]  # dims of x that a window has, in order
        self.rest = [d for d in self.window if d not in self.dims]

    def take_lengths(self, lengths):
        """How long windows are in each of `dims`."""
        self.lengths = numbers(self.call, "lengths", lengths)
        if len(self.lengths) != len(self.dims):
            raise errors.ShapeError(
                f"{self.call}: {len(self.lengths)} lengths for {len(self.dims)} dims: expected one for each{where()}"
            )
        for d, length in zip(self.dims, self.lengths):
            if not 0 <= length <= self.shape[d]:
                raise errors.ShapeError(
                    f"{self.call}: a window of length {length} in dim {d} of x, which is of size {self.shape[d]}: expected 0 to "
                    f"{self.shape[d]}{where()}"
                )

    def start(self, k):
        """Those in the k-th of dims, moved to where the window lies in x."""
        return self.starts[..., k].clamp(0, self.shape[self.dims[k]] - self.lengths[k])

    def fits(self):
        """Which windows lie in x as they are."""
        ok = None
        for k, (d, length) in enumerate(zip(self.dims, self.lengths)):
            start = self.starts[..., k]
            its = (start >= 0) & (start <= self.shape[d] - length)
            ok = its if ok is None else ok & its
        return ok

    # ---- one window ----

    def places(self):
        """(dim, places along it) of the dims in which a window is not whole."""
        return [
            (d, self.start(k) + torch.arange(length))
            for k, (d, length) in enumerate(zip(self.dims, self.lengths))
            if length != self.shape[d]
        ]

    # ---- several ----

    def sizes(self, dims):
        return [self.shape[d] for d in dims]

    def rows(self, x):
        """x as (a row for each place in the batched dims and in dims, what there is at it)."""
        head = self.batched + self.dims
        return x.permute(*head, *self.rest).reshape(math.prod(self.sizes(head)), math.prod(self.sizes(self.rest)))

    def back(self, rows):
        """The way back."""
        order = self.batched + self.dims + self.rest
        return rows.reshape(self.sizes(order)).permute(*[order.index(d) for d in range(len(order))])

    def row_numbers(self):
        """The number of the row of each place of each window: (*batch, *lengths)."""
        rank, head = len(self.batch) + len(self.dims), self.batched + self.dims
        step, found = 1, 0
        for at in range(len(head) - 1, -1, -1):
            k = at - len(self.batched)
            if k < 0:
                found = found + torch.arange(self.shape[head[at]]).reshape(_along(rank, at, -1)) * step
            else:
                places = torch.arange(self.lengths[k]).reshape(_along(rank, len(self.batch) + k, -1))
                found = found + (self.start(k).reshape(*self.batch, *[1] * len(self.dims)) + places) * step
            step *= self.shape[head[at]]
        return found

    def order(self):
        """Where the dims of windows that are (*lengths, *rest) stand in windows as x has them."""
        begin, given = len(self.batch), self.dims + self.rest
        return [*range(begin), *[begin + given.index(d) for d in self.window]]


def _along(rank, at, size):
    """The shape of a line along one of `rank` dims."""
    return [size if d == at else 1 for d in range(rank)]


def sn_gather(
    x: torch.Tensor,
    start_indices: torch.Tensor,
    dims: int | Sequence[int],
    lengths: int | Sequence[int],
    batched_dims: int | Sequence[int] = (),
) -> "SambaTensor":
    """Windows of x, each of `lengths` in `dims` and whole in other dims, from where `start_indices` says: XLA's Gather, and of
    one window its DynamicSlice.

    A start that would put a window outside of x is moved to the nearest that does not (-3 is 0, as is whatever is below).
    Gradients go to x.

    Args:
        x: the tensor that is read.
        start_indices: integers, (*batch, len(dims)): where each window starts. With `dims` an int alone, (*batch,).
        dims: an int or ints: dims of x.
        lengths: as many ints: how long a window is there, 0 to the dim's size.
        batched_dims: dims of x that go with the first dims of the batch, of the same sizes.

    Returns:
        (*batch, *window): the dims of x without `batched_dims`, in their order; of those among `dims` the lengths.

    >>> x = torch.arange(12.0).reshape(3, 4)
    >>> sn_gather(x, torch.tensor([1, 2]), (0, 1), (2, 2)).tolist()
    [[6.0, 7.0], [10.0, 11.0]]
    >>> sn_gather(x, torch.tensor([0, 9, -9]), 1, 2, batched_dims=0).tolist()
    [[0.0, 1.0], [6.0, 7.0], [8.0, 9.0]]
    """
    call = "sn_gather"
    x, starts = samba(call, "x", x), samba(call, "start_indices", start_indices)
    its = _Windows(call, x, starts, dims, batched_dims)
    its.take_lengths(lengths)
    if not its.batch:
        for d, places in its.places():
            x = x.index_select(d, places)
        return x
    taken = its.rows(x).index_select(0, its.row_numbers().reshape(-1))
    return taken.reshape(*its.batch, *its.lengths, *its.sizes(its.rest)).permute(*its.order())


def sn_scatter(
    x: torch.Tensor,
    start_indices: torch.Tensor,
    updates: torch.Tensor,
    dims: int | Sequence[int],
    lengths: int | Sequence[int] | None = None,
    batched_dims: int | Sequence[int] = (),
    reduce: str | None = None,
) -> "SambaTensor":
    """x with windows replaced by, or combined with, `updates`: XLA's Scatter, whose windows are those of sn_gather.

    A window that is not in x as a whole is left out; sn_gather moves it. What several windows write to one place is combined;
    without `reduce` one of them stays, and which one is not said. Gradients go to x and to updates. One window that is written
    into a cache, `cache.copy_(sn_scatter(cache, ...))`, writes no more than the window.

    Args:
        x: the tensor; it stays as it is.
        start_indices, dims, batched_dims: as of sn_gather.
        updates: (*batch, *window), of the dtype of x. Its sizes in `dims` are how long windows are.
        lengths: these once more, to be checked; or None.
        reduce: None, 'sum', 'prod', 'amax' or 'amin': how an update and what is there are combined.

    Returns:
        A new tensor of the shape and dtype of x.

    >>> x = torch.zeros(2, 4)
    >>> sn_scatter(x, torch.tensor([[0], [3]]), torch.ones(2, 2, 2), [1]).tolist()
    [[1.0, 1.0, 0.0, 0.0], [1.0, 1.0, 0.0, 0.0]]
    """
    call = "sn_scatter"
    x, starts, updates = (
        samba(call, name, given) for name, given in (("x", x), ("start_indices", start_indices), ("updates", updates))
    )
    its = _Windows(call, x, starts, dims, batched_dims)
    if reduce not in (None, *_REDUCTIONS):
        raise errors.ArgumentError(f"{call}: reduce={reduce!r}: expected None, {', '.join(map(repr, _REDUCTIONS))}{where()}")
    if updates.dtype != x.dtype:
        raise errors.DtypeError(f"{call}: updates of {updates.dtype} for x of {x.dtype}: expected the same{where()}")
    begin = len(its.batch)
    sizes = [None if d in its.dims else its.shape[d] for d in its.window]
    given = list(updates.shape)
    if (
        given[:begin] != its.batch
        or len(given) != begin + len(sizes)
        or any(want not in (None, size) for want, size in zip(sizes, given[begin:]))
    ):
        expected = ", ".join(str(size) if size is not None else "length" for size in [*its.batch, *sizes])
        raise errors.ShapeError(f"{call}: updates of shape {tuple(given)}: expected ({expected}){where()}")
    found = [given[begin + its.window.index(d)] for d in its.dims]
    its.take_lengths(found)
    if lengths is not None and numbers(call, "lengths", lengths) != found:
        raise errors.ShapeError(f"{call}: lengths {lengths!r:.100}, and updates has {found} in dims {its.dims}{where()}")
    return _one(its, x, updates, reduce) if not its.batch else _several(its, x, updates, reduce)


def _one(its, x, updates, reduce):
    places = its.places()
    there = x
    for d, at in places:
        there = there.index_select(d, at)
    made = updates if reduce is None else _REDUCTIONS[reduce](there, updates)
    return _written(x, places, torch.where(its.fits(), made, there))


def _written(x, places, window):
    """x with a window written into it."""
    if not places:
        return window
    d, at = places[0]
    return x.index_copy(d, at, window if len(places) == 1 else _written(x.index_select(d, at), places[1:], window))


def _several(its, x, updates, reduce):
    """Rows; those of windows that do not fit go to one more, which nobody reads."""
    rows = its.rows(x)
    count, width = rows.shape
    rows = torch.cat([rows, torch.zeros(1, width, dtype=x.dtype)])
    fits = its.fits().reshape(*its.batch, *[1] * len(its.dims))
    places = torch.where(fits, its.row_numbers(), count).reshape(-1)
    order = its.order()
    given = updates.permute(*[order.index(d) for d in range(len(order))]).reshape(places.shape[0], width)
    if reduce is None:
        rows = rows.index_copy(0, places, given)
    elif reduce == "sum":
        rows = rows.index_add(0, places, given)
    else:
        rows = rows.scatter_reduce(0, places.unsqueeze(1).expand(-1, width), given, reduce)
    return its.back(rows[:count])
