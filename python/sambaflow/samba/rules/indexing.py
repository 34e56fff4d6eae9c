# SPDX-License-Identifier: Apache-2.0
"""Elements by their index: look-ups, scattering.

A look-up is an embedding of rows: indexed dims are made one, in front, and the rest is the row. Its gradient, and scattering, add rows."""
import math

import torch
import torch.nn.functional as F

from sambaflow._core import lib
from sambaflow.samba.rules.common import cast, filled, floating, in_place, rank, unsupported, wrapped_dim
from sambaflow.samba.rules.elementwise import where
from sambaflow.samba.rules.shape import expand, permute, reshape, select, slice_, unsqueeze
from sambaflow.samba.rules.values import known_masks
from sambaflow.samba.trace import rule

aten = torch.ops.aten
T = torch.Tensor


def _exact(t, input):
    """Values as floats that hold them: rows are looked up and added as floats. Integers are exact up to 2^53."""
    return input if floating(input) else cast(t, input, torch.float32 if input.dtype is torch.bool else torch.float64)


def _as_index(t, index, size):
    """Integers 0 .. size-1 of what may count from the end, or be floats or a list."""
    index = torch.tensor(index) if isinstance(index, list) else index
    index = index.long() if index.dtype not in (torch.int64, torch.int32) else index
    return index if not t.is_symbolic((index,), {}) and bool((index >= 0).all()) else torch.where(index < 0, index + size, index)


def look_up(t, table, index):
    """Rows of a (V, D) table: index.shape + (D)."""
    return cast(t, t.wrap(lib.samba_functional_embedding(t.value(index), t.value(_exact(t, table)))), table.dtype)


def take(t, input, dim, index):
    """Places of a dim by an index of any shape, whose dims stand where the dim stood."""
    order = [dim] + [d for d in range(rank(input)) if d != dim]
    rest = [input.shape[d] for d in order[1:]]
    flat = reshape(t, permute(t, input, *order), input.shape[dim], math.prod(rest))
    rows = reshape(t, look_up(t, flat, _as_index(t, index, input.shape[dim])), *index.shape, *rest)
    n = index.dim()
    return permute(t, rows, *range(n, n + dim), *range(n), *range(n + dim, rank(rows)))


def _joint(t, input, index):
    """Indices of several dims at once: (the first of these dims where their dims go, those dims, one linear index), and the input with slices done."""
    words = [torch.tensor(word) if isinstance(word, list) else word for word in index]
    result, place, at = input, 0, []
    for word in words:  # what is no index tensor is done first; `at` counts in what is left
        if isinstance(word, torch.Tensor):
            at.append((place, word))
        elif word is None:
            result = reshape(t, result, *result.shape[:place], 1, *result.shape[place:])
        elif isinstance(word, slice):
            result = result if word == slice(None) else slice_(t, result, place, word.start, word.stop, word.step)
        elif isinstance(word, int) and not isinstance(word, bool):
            at.append((place, torch.tensor(word)))
        else:
            unsupported(t, f"an index of type {type(word).__name__}")
        place += 1
    dims = [d for d, _ in at]
    linear = torch.zeros((), dtype=torch.int64)
    for d, word in at:
        linear = linear * result.shape[d] + _as_index(t, word, result.shape[d])
    together = dims == list(range(dims[0], dims[-1] + 1))
    return result, dims, linear, dims[0] if together else 0


def _merged(t, input, dims):
    """The indexed dims first and made one, the others behind."""
    rest = [d for d in range(rank(input)) if d not in dims]
    return reshape(t, permute(t, input, *dims, *rest), math.prod(input.shape[d] for d in dims), *[input.shape[d] for d in rest]), rest


def take_many(t, input, index):
    """One or several index tensors, which broadcast against each other."""
    input, dims, linear, front = _joint(t, input, index)
    merged, _ = _merged(t, input, dims)
    rows = take(t, merged, 0, linear)
    n = linear.dim()
    return permute(t, rows, *range(n, n + front), *range(n), *range(n + front, rank(rows)))


def put(t, input, index, update, accumulate=False):
    """input[index] = update, where among the index are tensors."""
    words = list(index) if isinstance(index, tuple) else [index]
    if len(words) == 1 and isinstance(words[0], torch.Tensor) and words[0].dtype is torch.bool:
        if isinstance(update, torch.Tensor) and update.dim() > 0:
            unsupported(t, "writing a tensor where a mask is true, whose place depends on values: use torch.where")
        mask = reshape(t, words[0], *words[0].shape, *[1] * (rank(input) - rank(words[0])))
        in_place(t, input, where(t, mask, update, input), True)
        return
    words = known_masks(t, words)
    words += [slice(None)] * (rank(input) - len(words))
    if Ellipsis in [word for word in words if not isinstance(word, torch.Tensor)] or any(isinstance(w, slice) and w != slice(None) or w is None for w in words):
        unsupported(t, "writing by index tensors beside slices, None or ...: index the tensor in two steps")
    _, dims, linear, front = _joint(t, input, words)
    merged, rest = _merged(t, input, dims)
    shape, n = [input.shape[d] for d in rest], linear.dim()
    update = update if isinstance(update, torch.Tensor) else filled(t, [], update, input)
    update = cast(t, update, input.dtype).expand(*shape[:front], *linear.shape, *shape[front:])
    update = permute(t, update, *range(front, front + n), *range(front), *range(front + n, rank(update)))
    width = math.prod(shape)
    table = _add_rows(t, reshape(t, merged, merged.shape[0], width), linear, reshape(t, update, *linear.shape, width), accumulate)
    back = reshape(t, table, *[input.shape[d] for d in dims], *shape)
    order = dims + rest
    in_place(t, input, permute(t, back, *[order.index(d) for d in range(rank(input))]), True)


def _add_rows(t, base, index, rows, accumulate=True):
    """base (V, D) with rows added, or put where there were others; one that is written twice gets the mean."""
    exact, more = _exact(t, base), _exact(t, rows)
    if not accumulate:
        ones = filled(t, [*index.shape, 1], 1.0, exact)
        count = t.wrap(lib.samba_index_add(t.value(filled(t, [base.shape[0], 1], 0.0, exact)), t.value(index), t.value(ones)))
        exact = torch.where(count > 0, 0.0, exact)
        more = more / look_up(t, count, index)
    return cast(t, t.wrap(lib.samba_index_add(t.value(exact), t.value(index), t.value(more))), base.dtype)


@rule(T.__getitem__)
def getitem(t, input, index):
    index = known_masks(t, index if isinstance(index, tuple) else (index,))
    taken = sum(1 for word in index if word is not None and word is not Ellipsis)
    if taken > rank(input):
        raise IndexError(f"{taken} indices for a tensor with {rank(input)} dims")
    if Ellipsis in [word for word in index if not isinstance(word, torch.Tensor)]:
        at = next(i for i, word in enumerate(index) if word is Ellipsis)
        index[at : at + 1] = [slice(None)] * (rank(input) - taken)
    index += [slice(None)] * (rank(input) - sum(1 for word in index if word is not None))
    if any(isinstance(word, (list, torch.Tensor)) for word in index):
        return take_many(t, input, index)
    result, dim = input, 0
    for word in index:
        if word is None:
            result, dim = unsqueeze(t, result, dim), dim + 1
        elif isinstance(word, bool):
            unsupported(t, "an index of type bool: use torch.where")
        elif isinstance(word, int):
            result = select(t, result, dim, word)
        elif isinstance(word, slice):
            result, dim = slice_(t, result, dim, word.start, word.stop, word.step), dim + 1
        else:
            unsupported(t, f"an index of type {type(word).__name__}: expected integers, slices, None, ..., index tensors or lists")
    return result


@rule(T.__setitem__)
def setitem(t, input, index, update):
    tensors = [word for word in (index if isinstance(index, tuple) else (index,)) if isinstance(word, (torch.Tensor, list))]
    if tensors:
        put(t, input, index, update)
        return
    target = getitem(t, input, index)
    shape = list(target.shape)
    if isinstance(update, torch.Tensor):
        update = cast(t, update, input.dtype)
        while rank(update) > len(shape) and update.shape[0] == 1:  # as torch: leading dims of size 1 do not count
            update = reshape(t, update, *update.shape[1:])
        update = expand(t, update, *shape)
    else:
        update = filled(t, shape, update, input)
    in_place(t, target, update, True)


@rule(torch.index_select, T.index_select, aten.index_select)
def index_select(t, input, dim, index):
    return take(t, input, wrapped_dim(dim, rank(input)), index.reshape(-1))


@rule(T.index_put_, aten.index_put_)
def index_put_(t, input, indices, values, accumulate=False):
    put(t, input, tuple(slice(None) if x is None else x for x in indices), values, accumulate)
    return input


@rule(aten.index)
def index_(t, input, indices):
    words = [slice(None) if x is None else x for x in indices]
    return take_many(t, input, words + [slice(None)] * (rank(input) - len(words)))


@rule(torch.index_add, T.index_add, aten.index_add)
def index_add(t, input, dim, index, source, *, alpha=1):
    dim = wrapped_dim(dim, rank(input))
    order = [dim] + [d for d in range(rank(input)) if d != dim]
    front, rows = permute(t, input, *order), permute(t, source * alpha if alpha != 1 else source, *order)
    width = math.prod(front.shape[1:])
    table = _add_rows(t, reshape(t, front, front.shape[0], width), index, reshape(t, rows, rows.shape[0], width))
    return permute(t, reshape(t, table, *front.shape), *[order.index(d) for d in range(rank(input))])


def _flat_places(input, dim, index):
    """Places in the flat input of what `gather` and `scatter` name."""
    strides = [math.prod(input.shape[d + 1 :]) for d in range(rank(input))]
    places = index * strides[dim]
    for d, size in enumerate(index.shape):
        if d != dim:
            places = places + (torch.arange(size) * strides[d]).reshape([size] + [1] * (rank(input) - d - 1))
    return places


@rule(torch.gather, T.gather, aten.gather)
def gather(t, input, dim, index, *, sparse_grad=False):
    dim = wrapped_dim(dim, rank(input))
    return reshape(t, look_up(t, reshape(t, input, -1, 1), _flat_places(input, dim, index)), *index.shape)


@rule(torch.take_along_dim, T.take_along_dim)
def take_along_dim(t, input, indices, dim=None):
    if dim is None:
        return gather(t, reshape(t, input, -1), 0, indices.reshape(-1))
    dim = wrapped_dim(dim, rank(input))
    shape = torch.broadcast_shapes([1 if d == dim else n for d, n in enumerate(input.shape)], [1 if d == dim else n for d, n in enumerate(indices.shape)])
    wide = [[n if d != dim else x.shape[dim] for d, n in enumerate(shape)] for x in (input, indices)]
    return gather(t, input.expand(wide[0]), dim, indices.expand(wide[1]))


def _scatter(t, input, dim, index, source, accumulate):
    dim = wrapped_dim(dim, rank(input))
    if isinstance(source, torch.Tensor) and source.dim() > 0:
        for d, size in enumerate(index.shape):
            source = slice_(t, source, d, 0, size)
        source = cast(t, source, input.dtype)
    else:
        source = filled(t, list(index.shape), source, input) if not isinstance(source, torch.Tensor) else source.expand(index.shape)
    rows = reshape(t, source, *index.shape, 1)
    return reshape(t, _add_rows(t, reshape(t, input, -1, 1), _flat_places(input, dim, index), rows, accumulate), *input.shape)


@rule(torch.scatter, T.scatter, aten.scatter)
def scatter(t, input, dim, index, src=None, value=None, reduce=None):
    if reduce not in (None, "add"):
        unsupported(t, f"scatter with reduce={reduce!r}: expected None or 'add'")
    return _scatter(t, input, dim, index, value if src is None else src, reduce == "add")


@rule(torch.scatter_add, T.scatter_add, aten.scatter_add)
def scatter_add(t, input, dim, index, src):
    return _scatter(t, input, dim, index, src, True)


@rule(T.scatter_)
def scatter_(t, input, dim, index, src=None, value=None, reduce=None):
    return in_place(t, input, scatter(t, input, dim, index, src, value, reduce), True)


@rule(T.scatter_add_)
def scatter_add_(t, input, dim, index, src):
    return in_place(t, input, scatter_add(t, input, dim, index, src), True)


@rule(T.index_add_)
def index_add_(t, input, dim, index, source, *, alpha=1):
    return in_place(t, input, index_add(t, input, dim, index, source, alpha=alpha), True)


@rule(torch.flip, T.flip, aten.flip)
def flip(t, input, *dims):
    for dim in dims[0] if len(dims) == 1 and not isinstance(dims[0], int) else dims:
        dim = wrapped_dim(dim, rank(input))
        input = take(t, input, dim, torch.arange(input.shape[dim] - 1, -1, -1))
    return input


@rule(torch.roll, T.roll)
def roll(t, input, shifts, dims=None):
    if dims is None or dims == ():
        return reshape(t, roll(t, reshape(t, input, -1), shifts, 0), *input.shape)
    for shift, dim in zip((shifts,) if isinstance(shifts, int) else shifts, (dims,) if isinstance(dims, int) else dims):
        size = input.shape[dim]
        if size and shift % size:
            cut = size - shift % size
            input = torch.cat([input.narrow(dim, cut, size - cut), input.narrow(dim, 0, cut)], dim)
    return input


@rule(F.one_hot)
def one_hot(t, input, num_classes=-1):
    if num_classes < 0:
        unsupported(t, "one_hot without num_classes, which then depends on values: give it")
    return cast(t, input.unsqueeze(-1) == torch.arange(num_classes), torch.int64)


@rule(aten.as_strided)
def as_strided(t, input, size, stride, storage_offset=None):
    """Places in the memory that torch thinks the tensor has, in order and without gaps."""
    places = torch.as_strided(torch.arange(input.numel()), size, stride, storage_offset or 0)
    return reshape(t, look_up(t, reshape(t, input, -1, 1), places), *size)


@rule(T.unfold)
def unfold(t, input, dimension, size, step):
    """Windows of a dim, which become the last dim."""
    dim = wrapped_dim(dimension, rank(input))
    begins = torch.arange(0, input.shape[dim] - size + 1, step)
    return take(t, input, dim, begins.unsqueeze(-1) + torch.arange(size)).movedim(dim + 1, -1)
