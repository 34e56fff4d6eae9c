# SPDX-License-Identifier: Apache-2.0
"""The same elements under other shapes and at other places; indexing; writing into tensors."""
import math

import torch
import torch.nn.functional as F

from sambaflow._core import lib
from sambaflow.samba.rules.common import cast, dims_of, filled, floating, in_place, mark_views, rank, sizes_of, unsupported, wrapped_dim
from sambaflow.samba.rules.elementwise import where
from sambaflow.samba.rules.values import known_masks
from sambaflow.samba.sambatensor import SambaTensor
from sambaflow.samba.trace import rule

aten = torch.ops.aten
T = torch.Tensor

# ---- shape ----


@rule(torch.reshape, T.reshape, T.view, aten.view, aten.reshape, aten._unsafe_view)
def reshape(t, input, *shape):
    if len(shape) == 1 and isinstance(shape[0], torch.dtype):
        unsupported(t, "view(dtype) reinterprets bytes, which a graph cannot: use to(dtype)")
    sizes = sizes_of(shape)
    return t.wrap(lib.samba_reshape(t.value(input), len(sizes), sizes))


@rule(T.view_as, T.reshape_as)
def view_as(t, input, other):
    return reshape(t, input, *other.shape)


@rule(torch.flatten, T.flatten)
def flatten(t, input, start_dim=0, end_dim=-1):
    return t.wrap(lib.samba_flatten(t.value(input), start_dim, end_dim))


@rule(torch.permute, T.permute, aten.permute)
def permute(t, input, *dims):
    dims = sizes_of(dims)
    if len(dims) != rank(input):
        raise TypeError(f"{len(dims)} dims for a tensor with {rank(input)}")
    return t.wrap(lib.samba_permute(t.value(input), dims))


@rule(torch.transpose, T.transpose, torch.swapaxes, T.swapaxes, aten.transpose)
def transpose(t, input, dim0, dim1):
    return t.wrap(lib.samba_transpose(t.value(input), dim0, dim1))


@rule(torch.t, T.t, T.T.__get__, aten.t, T.mT.__get__)
def t_(t, input):
    return input if rank(input) < 2 else transpose(t, input, -2, -1)


@rule(T.expand, aten.expand)
def expand(t, input, *sizes):
    sizes = sizes_of(sizes)
    return t.wrap(lib.samba_expand(t.value(input), len(sizes), sizes))


@rule(T.expand_as)
def expand_as(t, input, other):
    return expand(t, input, *other.shape)


@rule(torch.unsqueeze, T.unsqueeze, aten.unsqueeze)
def unsqueeze(t, input, dim):
    shape = list(input.shape)
    shape.insert(wrapped_dim(dim, len(shape) + 1), 1)
    return reshape(t, input, shape)


@rule(torch.squeeze, T.squeeze, aten.squeeze)
def squeeze(t, input, dim=None):
    _, dims = dims_of(dim)
    dims = {wrapped_dim(d, rank(input)) for d in dims} if dim is not None else set(range(rank(input)))
    return reshape(t, input, [size for d, size in enumerate(input.shape) if d not in dims or size != 1])


def slice_(t, input, dim=0, start=None, end=None, step=1):
    size = input.shape[dim]
    begin, stop, step = slice(start, end, step).indices(size)
    return t.wrap(lib.samba_slice(t.value(input), dim, begin, max(begin, stop), step))


@rule(torch.select, T.select, aten.select)
def select(t, input, dim, index):
    dim = wrapped_dim(dim, rank(input))
    size = input.shape[dim]
    if not -size <= index < size:
        raise IndexError(f"index {index} of dim {dim} with size {size}")
    index %= size
    return squeeze(t, slice_(t, input, dim, index, index + 1), dim)


@rule(torch.narrow, T.narrow)
def narrow(t, input, dim, start, length):
    return slice_(t, input, wrapped_dim(dim, rank(input)), start, start + length)


@rule(T.__getitem__)
def getitem(t, input, index):
    index = known_masks(t, index if isinstance(index, tuple) else (index,))
    taken = sum(1 for word in index if word is not None and word is not Ellipsis)
    if taken > rank(input):
        raise IndexError(f"{taken} indices for a tensor with {rank(input)} dims")
    if Ellipsis in [word for word in index if not isinstance(word, torch.Tensor)]:
        at = next(i for i, word in enumerate(index) if word is Ellipsis)
        index[at : at + 1] = [slice(None)] * (rank(input) - taken)
    if sum(isinstance(word, (list, torch.Tensor)) for word in index) > 1 or any(isinstance(w, torch.Tensor) and w.dim() != 1 for w in index):
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
        elif isinstance(word, (list, torch.Tensor)):
            result, dim = take(t, result, dim, word), dim + 1
        else:
            unsupported(t, f"an index of type {type(word).__name__}: expected integers, slices, None, one 1-D index tensor or a list")
    return result


def take(t, input, dim, index):
    """Rows of a dim by an index list, as an embedding looks them up."""
    index = torch.tensor(index) if isinstance(index, list) else index
    if not floating(input):  # rows are looked up as numbers: exact up to 2^53
        return cast(t, take(t, cast(t, input, torch.float64 if input.dtype is not torch.bool else torch.float32), dim, index), input.dtype)
    if index.dtype is torch.bool or index.dim() != 1:
        unsupported(t, f"an index tensor of {index.dim()} dims and {index.dtype}: expected one dim of integers")
    if floating(index):
        index = index.long()
    moved = t.value(input)
    order = [dim] + [d for d in range(rank(input)) if d != dim]
    moved = lib.samba_permute(moved, order)
    rest = [input.shape[d] for d in order[1:]]
    flat = lib.samba_reshape(moved, 2, [input.shape[dim], math.prod(rest)])
    rows = lib.samba_functional_embedding(t.value(index), flat)
    result = lib.samba_reshape(rows, len(order), [index.shape[0], *rest])
    back = [order.index(d) for d in range(rank(input))]
    return t.wrap(lib.samba_permute(result, back))


def take_many(t, input, index):
    """Several index tensors, which broadcast against each other, for neighbouring dims: one look-up in the dims made one."""
    words = [torch.tensor(word) if isinstance(word, list) else word for word in index]
    at = [i for i, word in enumerate(words) if isinstance(word, torch.Tensor)]
    plain = all(isinstance(word, slice) and word == slice(None) for i, word in enumerate(words) if i not in at)
    if not plain or at != list(range(at[0], at[-1] + 1)) or any(words[i].dtype is torch.bool or floating(words[i]) for i in at):
        unsupported(t, "index tensors that are not integers of neighbouring dims with ':' elsewhere: index in two steps")
    linear = 0
    for i in at:
        n = input.shape[i]
        linear = linear * n + torch.where(words[i] < 0, words[i] + n, words[i])
    before, inner, after = input.shape[: at[0]], math.prod(input.shape[i] for i in at), input.shape[at[-1] + 1 :]
    merged = reshape(t, input, *before, inner, *after)
    flat = take(t, merged, at[0], linear.reshape(-1))
    return reshape(t, flat, *before, *linear.shape, *after)


@rule(torch.index_select, T.index_select)
def index_select(t, input, dim, index):
    return take(t, input, wrapped_dim(dim, rank(input)), index)


@rule(torch.cat, torch.concat, torch.concatenate, aten.cat)
def cat(t, tensors, dim=0, *, axis=None):
    tensors = [x for x in tensors if x.dim() != 1 or x.shape[0] != 0] or list(tensors)
    dim = dim if axis is None else axis
    values = [t.value(x) for x in tensors]
    return t.wrap(lib.samba_concat(len(values), values, wrapped_dim(dim, rank(tensors[0]))))


@rule(torch.stack)
def stack(t, tensors, dim=0):
    dim = wrapped_dim(dim, rank(tensors[0]) + 1)
    return cat(t, [unsqueeze(t, x, dim) for x in tensors], dim)


@rule(torch.split, T.split)
def split(t, tensor, split_size_or_sections, dim=0):
    dim = wrapped_dim(dim, rank(tensor))
    size, sections = tensor.shape[dim], split_size_or_sections
    if isinstance(sections, int):
        sections = [min(sections, size - at) for at in range(0, size, sections)] if size else [0]
    if sum(sections) != size:
        raise TypeError(f"sections {list(sections)} of a dim with size {size}")
    ends = [sum(sections[: i + 1]) for i in range(len(sections))]
    return tuple(slice_(t, tensor, dim, end - length, end) for end, length in zip(ends, sections))


@rule(torch.chunk, T.chunk)
def chunk(t, input, chunks, dim=0):
    size = input.shape[wrapped_dim(dim, rank(input))]
    return split(t, input, max(1, -(-size // chunks)), dim)


@rule(torch.unbind, T.unbind)
def unbind(t, input, dim=0):
    return tuple(select(t, input, dim, i) for i in range(input.shape[dim]))


# ---- borders, writing into tensors ----


def _like(*functions):
    """Constants of a traced tensor's shape."""

    @rule(*functions)
    def traced(t, input, *args, **kwargs):
        kwargs.setdefault("dtype", input.dtype)
        return SambaTensor(functions[0](torch.empty(input.shape, dtype=input.dtype), *args, **kwargs))


_like(torch.zeros_like)
_like(torch.ones_like)
_like(torch.full_like, aten.full_like)
_like(T.new_zeros)
_like(T.new_ones)
_like(T.new_full, aten.new_full)
_like(torch.empty_like)


@rule(F.pad)
def pad(t, input, pad, mode="constant", value=None):
    if mode != "constant":
        unsupported(t, f"pad with mode={mode!r} cannot be traced yet: only 'constant'")
    result = input
    for i in range(len(pad) // 2):
        dim, (before, after) = rank(input) - 1 - i, pad[2 * i : 2 * i + 2]
        if before < 0 or after < 0:
            result = slice_(t, result, dim, max(-before, 0), result.shape[dim] + min(after, 0))
        shape = list(result.shape)
        parts = [filled(t, [*shape[:dim], n, *shape[dim + 1 :]], value or 0, input) if n > 0 else None for n in (before, after)]
        parts = [x for x in (parts[0], result, parts[1]) if x is not None]
        result = cat(t, parts, dim) if len(parts) > 1 else result
    return result


@rule(aten.constant_pad_nd)
def constant_pad(t, input, pad_, value=0):
    return pad(t, input, pad_, value=value)


@rule(T.copy_, aten.copy_)
def copy_(t, input, source, non_blocking=False):
    return in_place(t, input, expand(t, cast(t, source, input.dtype), *input.shape), True)


@rule(T.fill_, T.zero_)
def fill_(t, input, value=0):
    return in_place(t, input, filled(t, input.shape, value, input), True)


@rule(T.__setitem__)
def setitem(t, input, index, update):
    if isinstance(index, torch.Tensor) and index.dtype is torch.bool:
        if isinstance(update, torch.Tensor) and update.dim() > 0:
            unsupported(t, "writing a tensor where a mask is true, whose place depends on values: use torch.where")
        in_place(t, input, where(t, index, update, input), True)
        return
    index = list(index) if isinstance(index, tuple) else [index]
    if any(isinstance(word, torch.Tensor) for word in index):
        unsupported(t, "writing by an index tensor: use torch.where or torch.cat")
    if Ellipsis in index:
        at = index.index(Ellipsis)
        index[at : at + 1] = [slice(None)] * (rank(input) - sum(1 for word in index if word is not None and word is not Ellipsis))
    index = [word for word in index if word is not None]
    index += [slice(None)] * (rank(input) - len(index))
    part, kept = input, []
    for dim, word in enumerate(index):  # the part, with each dim that is an integer as one of size 1
        size = input.shape[dim]
        begin, stop, step = (word % size, word % size + 1, 1) if isinstance(word, int) else word.indices(size)
        if step != 1:
            unsupported(t, "writing with a step: use torch.where")
        kept.append((begin, max(begin, stop), isinstance(word, int)))
    shape = [stop - begin for begin, stop, single in kept if not single]
    update = expand(t, cast(t, update, input.dtype), *shape) if isinstance(update, torch.Tensor) else filled(t, shape, update, input)
    part = reshape(t, update, [stop - begin for begin, stop, _ in kept])
    for dim in reversed(range(rank(input))):  # wrap the part in what surrounds it, the innermost dim first
        begin, stop, _ = kept[dim]
        around = input
        for outer in range(dim):
            around = slice_(t, around, outer, *kept[outer][:2])
        pieces = [slice_(t, around, dim, 0, begin) if begin > 0 else None, part, slice_(t, around, dim, stop) if stop < input.shape[dim] else None]
        pieces = [x for x in pieces if x is not None]
        part = cat(t, pieces, dim) if len(pieces) > 1 else part
    in_place(t, input, part, True)


@rule(T.repeat)
def repeat(t, input, *sizes):
    sizes = sizes_of(sizes)
    result = reshape(t, input, [1] * (len(sizes) - rank(input)) + list(input.shape))
    for dim, n in enumerate(sizes):
        result = cat(t, [result] * n, dim) if n != 1 else result
    return result


@rule(torch.repeat_interleave, T.repeat_interleave)
def repeat_interleave(t, input, repeats, dim=None, *, output_size=None):
    if isinstance(repeats, torch.Tensor) or dim is None:
        unsupported(t, "repeat_interleave with a tensor of repeats, or without a dim")
    dim = wrapped_dim(dim, rank(input))
    shape = list(input.shape)
    spread = expand(t, unsqueeze(t, input, dim + 1), *shape[: dim + 1], repeats, *shape[dim + 1 :])
    return reshape(t, spread, [*shape[:dim], shape[dim] * repeats, *shape[dim + 1 :]])


# What shares memory with its first argument in torch: writing into it would be seen there too.
for _function in (reshape, view_as, flatten, permute, transpose, t_, expand, expand_as, unsqueeze, squeeze, select, narrow, getitem, split, chunk, unbind):
    mark_views(_function)
