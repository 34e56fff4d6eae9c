# SPDX-License-Identifier: Apache-2.0
"""The same elements under other shapes and at other places; parts of them and several joined; copies written into."""

import math

import torch
import torch.nn.functional as F

from sambaflow._core import ffi, lib
from sambaflow.samba.rules.common import dims_of, filled, in_place, method_in_place, rank, sizes_of, unsupported, wrapped_dim
from sambaflow.samba.sambatensor import SambaTensor
from sambaflow.samba.trace import rule
from sambaflow.samba.views import placed, reshape_itself, strides, view

aten = torch.ops.aten
T = torch.Tensor

# ---- shape ----


def _reshaped(t, input, sizes):
    before = list(input.shape)
    return view(
        t,
        input,
        lambda value: lib.samba_reshape(value, len(sizes), sizes),
        lambda _, value: lib.samba_reshape(value, len(before), before),
        lambda x: x.view(sizes),
    )


def _shape(t, value):
    """What C makes of the arguments, or what it says against them."""
    t.check()
    return [lib.samba_value_size(value, d) for d in range(lib.samba_value_rank(value))]


@rule(torch.reshape, T.reshape, T.view, aten.view, aten.reshape, aten._unsafe_view)
def reshape(t, input, *shape):
    if len(shape) == 1 and isinstance(shape[0], torch.dtype):
        unsupported(t, "view(dtype) reinterprets bytes, which a graph cannot: use to(dtype)")
    return _reshaped(t, input, sizes_of(shape))


@rule(T.view_as, T.reshape_as)
def view_as(t, input, other):
    return _reshaped(t, input, list(other.shape))


@rule(torch.flatten, T.flatten)
def flatten(t, input, start_dim=0, end_dim=-1):
    return _reshaped(t, input, _shape(t, lib.samba_flatten(t.value(input), start_dim, end_dim)))


@rule(T.unflatten, torch.unflatten)
def unflatten(t, input, dim, sizes):
    return _reshaped(t, input, _shape(t, lib.samba_unflatten(t.value(input), dim, len(sizes), list(sizes))))


@rule(torch.permute, T.permute, aten.permute)
def permute(t, input, *dims):
    dims = sizes_of(dims)
    if len(dims) != rank(input):
        raise TypeError(f"{len(dims)} dims for a tensor with {rank(input)}: expected each once")
    back = [0] * len(dims)
    for i, dim in enumerate(dims):
        back[dim % len(dims)] = i  # what is wrong with them C says
    return view(
        t,
        input,
        lambda value: lib.samba_permute(value, dims),
        lambda _, value: lib.samba_permute(value, back),
        lambda x: x.permute(dims),
    )


@rule(torch.transpose, T.transpose, torch.swapaxes, T.swapaxes, aten.transpose)
def transpose(t, input, dim0, dim1):
    return view(
        t,
        input,
        lambda value: lib.samba_transpose(value, dim0, dim1),
        lambda _, value: lib.samba_transpose(value, dim0, dim1),
        lambda x: x.transpose(dim0, dim1),
    )


@rule(torch.movedim, T.movedim, torch.moveaxis, T.moveaxis)
def movedim(t, input, source, destination):
    (n, source), (m, destination) = dims_of(source), dims_of(destination)
    if n != m:
        raise ValueError(f"{n} dims of source and {m} of destination: expected as many")
    return view(
        t,
        input,
        lambda value: lib.samba_movedim(value, n, source, destination),
        lambda _, value: lib.samba_movedim(value, n, destination, source),
        lambda x: x.movedim(source, destination),
    )


@rule(torch.t, T.t, aten.t)
def t_(t, input):
    if rank(input) > 2:
        raise ValueError(
            f"expected a tensor of 2 dims or fewer, given one of rank {rank(input)}: use mT for matrices, permute for others"
        )
    return input if rank(input) < 2 else transpose(t, input, 0, 1)


@rule(T.T.__get__)
def reversed_(t, input):
    return t_(t, input) if rank(input) <= 2 else permute(t, input, *reversed(range(rank(input))))


@rule(T.mT.__get__)
def matrices_transposed(t, input):
    if rank(input) < 2:
        raise ValueError(f"expected a tensor of 2 dims or more, given one of rank {rank(input)}")
    return transpose(t, input, -2, -1)


@rule(T.expand, torch.broadcast_to, T.broadcast_to, aten.expand)
def expand(t, input, *size, implicit=False):
    sizes, before = sizes_of(size), list(input.shape)

    def put(base, value):
        if math.prod(_shape(t, value)) == math.prod(before):
            return lib.samba_reshape(value, len(before), before)
        unsupported(t, "writing into an expanded tensor, of which several elements are one: clone() it first")

    return view(t, input, lambda value: lib.samba_expand(value, len(sizes), sizes), put, lambda x: x.expand(sizes))


@rule(T.expand_as)
def expand_as(t, input, other):
    return expand(t, input, *other.shape)


@rule(torch.unsqueeze, T.unsqueeze, aten.unsqueeze)
def unsqueeze(t, input, dim):
    return _reshaped(t, input, _shape(t, lib.samba_unsqueeze(t.value(input), dim)))


@rule(torch.squeeze, T.squeeze, aten.squeeze)
def squeeze(t, input, dim=None):
    count, dims = dims_of(dim)
    return _reshaped(t, input, _shape(t, lib.samba_squeeze(t.value(input), count, ffi.NULL if dim is None else dims)))


def _itself(function, *methods):
    """Methods that change the shape of the tensor itself."""

    @rule(*methods)
    def traced(t, input, *args, **kwargs):
        return reshape_itself(t, input, lambda x: function(t, x, *args, **kwargs))

    traced.__wrapped__ = function  # has its signature


_itself(unsqueeze, T.unsqueeze_, aten.unsqueeze_)
_itself(squeeze, T.squeeze_, aten.squeeze_)
_itself(transpose, T.transpose_, T.swapaxes_, T.swapdims_, aten.transpose_)
_itself(t_, T.t_, aten.t_)


@rule(T.as_strided_, T.resize_, T.resize_as_, aten.as_strided_, aten.resize_)
def refused(t, input, *_, **__):
    unsupported(
        t,
        "resize_ and as_strided_ change sizes and strides of memory, which a graph has not: use reshape, pad or as_strided, "
        "which return a new tensor",
    )


def slice_(t, input, dim=0, start=None, end=None, step=1):
    size = input.shape[dim]
    begin, stop, step = slice(start, end, step).indices(size)
    stop = max(begin, stop)
    return view(
        t,
        input,
        lambda value: lib.samba_slice(value, dim, begin, stop, step),
        lambda base, value: _sliced_into(t, base, value, dim, begin, stop, step),
        lambda x: x[(slice(None),) * dim + (slice(begin, stop, step),)],
    )


def _sliced_into(t, base, value, dim, begin, stop, step):
    """`base` with that slice of a dim replaced by `value`."""
    shape = [lib.samba_value_size(base, d) for d in range(lib.samba_value_rank(base))]
    size, dtype = shape[dim], lib.samba_value_dtype(base)
    if step == 1:
        parts = [
            lib.samba_slice(base, dim, 0, begin, 1) if begin > 0 else None,
            value if stop > begin else None,
            lib.samba_slice(base, dim, stop, size, 1) if stop < size else None,
        ]
        parts = [part for part in parts if part is not None]
        return lib.samba_concat(len(parts), parts, dim) if len(parts) > 1 else parts[0] if parts else base

    def zeros(*sizes):
        return lib.samba_constant(t.graph, 0.0, dtype, len(sizes), list(sizes))

    before, after, count = shape[:dim], shape[dim + 1 :], len(range(begin, stop, step))
    if count == 0:
        return base
    apart = lib.samba_concat(
        2,
        [lib.samba_reshape(value, len(shape) + 1, [*before, count, 1, *after]), zeros(*before, count, step - 1, *after)],
        dim + 1,
    )
    apart = lib.samba_reshape(apart, len(shape), [*before, count * step, *after])
    parts = [zeros(*before, begin, *after)] if begin else []
    parts.append(lib.samba_slice(apart, dim, 0, min(count * step, size - begin), 1))
    if begin + count * step < size:
        parts.append(zeros(*before, size - begin - count * step, *after))
    spread = lib.samba_concat(len(parts), parts, dim) if len(parts) > 1 else parts[0]
    written = torch.zeros(size, dtype=torch.bool)
    written[begin:stop:step] = True
    return lib.samba_where(t.value(written.reshape([size] + [1] * len(after))), spread, base)


@rule(torch.select, T.select, aten.select)
def select(t, input, dim, index):
    _shape(t, lib.samba_select(t.value(input), dim, index))
    dim %= rank(input)
    index %= input.shape[dim]
    return squeeze(t, slice_(t, input, dim, index, index + 1), dim)


@rule(torch.narrow, T.narrow)
def narrow(t, input, dim, start, length):
    _shape(t, lib.samba_narrow(t.value(input), dim, start, length))
    dim %= rank(input)
    start += input.shape[dim] if start < 0 else 0
    return slice_(t, input, dim, start, start + length)


@rule(torch.cat, torch.concat, torch.concatenate, aten.cat)
def cat(t, tensors, dim=0):
    values = [t.value(x) for x in tensors]
    return t.wrap(lib.samba_concat(len(values), values, dim))


def _joined(call, *functions):
    @rule(*functions)
    def traced(t, tensors):
        values = [t.value(x) for x in tensors]
        return t.wrap(call(len(values), values))


_joined(lib.samba_hstack, torch.hstack, aten.hstack)
_joined(lib.samba_vstack, torch.vstack, torch.row_stack, aten.vstack)
_joined(lib.samba_dstack, torch.dstack, aten.dstack)


@rule(torch.stack, aten.stack)
def stack(t, tensors, dim=0):
    values = [t.value(x) for x in tensors]
    return t.wrap(lib.samba_stack(len(values), values, dim))


@rule(torch._C._nn.pad_sequence)
def pad_sequence(t, sequences, batch_first=False, padding_value=0.0, padding_side="right"):
    longest = max(len(x) for x in sequences)
    padded = [[0, longest - len(x)] if padding_side == "right" else [longest - len(x), 0] for x in sequences]
    return stack(
        t,
        [constant_pad_nd(t, x, [0, 0] * (rank(x) - 1) + pad, padding_value) for x, pad in zip(sequences, padded)],
        0 if batch_first else 1,
    )


@rule(torch.block_diag)
def block_diag(t, *tensors):
    values = [t.value(x) for x in tensors]
    return t.wrap(lib.samba_block_diag(len(values), values))


@rule(torch.meshgrid)
def meshgrid(t, *tensors, indexing="ij"):
    indexing = "ij" if indexing is None else indexing
    if indexing not in ("ij", "xy"):
        raise ValueError(f"indexing={indexing!r}: expected 'ij' or 'xy'")
    tensors = tensors[0] if len(tensors) == 1 and isinstance(tensors[0], (list, tuple)) else tensors
    values, grids = [t.value(x) for x in tensors], ffi.new("samba_value []", len(tensors))
    lib.samba_meshgrid(len(values), values, indexing == "xy", grids)
    return tuple(t.wrap(ffi.new("samba_value *", grid)[0]) for grid in grids)  # copies: an array's parts end with it


@rule(torch.split, T.split)
def split(t, tensor, split_size_or_sections, dim=0):
    dim = wrapped_dim(t, "split", tensor, dim)
    size, sections = tensor.shape[dim], split_size_or_sections
    if isinstance(sections, int):
        if sections < 0 or (sections == 0 and size):
            raise ValueError(f"split_size must be 1 or more, given {sections}")
        sections = [min(sections, size - at) for at in range(0, size, sections)] if size else [0]
    if sum(sections) != size or any(length < 0 for length in sections):
        raise ValueError(
            f"sections {list(sections)} of dim {dim} with size {size}: expected sizes of 0 or more that sum up to it"
        )
    ends = [sum(sections[: i + 1]) for i in range(len(sections))]
    return tuple(slice_(t, tensor, dim, end - length, end) for end, length in zip(ends, sections))


@rule(torch.chunk, T.chunk)
def chunk(t, input, chunks, dim=0):
    dim = wrapped_dim(t, "chunk", input, dim)
    if chunks < 1:
        raise ValueError(f"chunks must be 1 or more, given {chunks}")
    size = input.shape[dim]
    if size == 0:  # of nothing there are as many as asked for
        return split(t, input, [0] * chunks, dim)
    return split(t, input, max(1, -(-size // chunks)), dim)


@rule(torch.tensor_split, T.tensor_split)
def tensor_split(t, input, indices_or_sections=None, dim=0, *, indices=None, sections=None):
    at = next((x for x in (indices_or_sections, indices, sections) if x is not None), None)
    if isinstance(at, torch.Tensor):
        if t.is_symbolic((at,), {}):
            unsupported(t, "tensor_split at indices that depend on values: give numbers")
        at = at.tolist()
    if rank(input) == 0:
        raise IndexError("expected a tensor of 1 dim or more, given one of rank 0")
    dim = wrapped_dim(t, "tensor_split", input, dim)
    if isinstance(at, int):
        if at < 1:
            raise ValueError(f"sections must be 1 or more, given {at}")
        each, more = divmod(input.shape[dim], at)
        return split(t, input, [each + (i < more) for i in range(at)], dim)
    ends = [*at, None]
    return tuple(slice_(t, input, dim, begin, end) for begin, end in zip([0, *at], ends))


@rule(torch.unbind, T.unbind)
def unbind(t, input, dim=0):
    if rank(input) == 0:
        raise IndexError("expected a tensor of 1 dim or more, given one of rank 0")
    dim = wrapped_dim(t, "unbind", input, dim)
    return tuple(select(t, input, dim, i) for i in range(input.shape[dim]))


# ---- borders, writing into tensors ----


def _like(*functions):
    """Constants of a traced tensor's shape."""

    @rule(*functions)
    def traced(t, input, *args, **kwargs):
        kwargs.setdefault("dtype", input.dtype)
        return t.made(SambaTensor(functions[0](torch.empty(input.shape, dtype=input.dtype), *args, **kwargs)))


_like(torch.zeros_like)
_like(torch.ones_like)
_like(torch.full_like, aten.full_like)
_like(T.new_zeros)
_like(T.new_ones)
_like(T.new_full, aten.new_full)
_like(torch.empty_like)


_PADS = {"constant": 0, "reflect": 1, "replicate": 2, "circular": 3}


def _padded(t, input, amounts, mode, value=None):
    if len(amounts) % 2 or len(amounts) > 2 * rank(input):
        raise ValueError(f"{len(amounts)} amounts to pad {rank(input)} dims: expected two for each of the last dims")
    if mode not in _PADS:
        raise ValueError(f"mode={mode!r}: expected one of {', '.join(_PADS)}")
    return t.wrap(lib.samba_pad(t.value(input), len(amounts) // 2, list(amounts), _PADS[mode], float(value or 0)))


@rule(torch.constant_pad_nd, aten.constant_pad_nd)
def constant_pad_nd(t, input, pad, value=0):
    return _padded(t, input, pad, "constant", value)


@rule(F.pad)
def pad_(t, input, pad, mode="constant", value=None):
    if mode != "constant" and not 2 <= rank(input) - len(pad) // 2 + 1 <= 3:
        raise ValueError(
            f"mode={mode!r} pads the last 1 to 3 dims of a tensor with one or two more, given {len(pad)} amounts for "
            f"{rank(input)} dims"
        )
    return _padded(t, input, pad, mode, value)


for _mode in ("reflection", "replication"):
    for _n in (1, 2, 3):
        rule(getattr(aten, f"{_mode}_pad{_n}d"))(
            lambda t, input, padding, _mode="reflect" if _mode == "reflection" else "replicate": _padded(t, input, padding, _mode)
        )


@rule(T.copy_, aten.copy_)
def copy_(t, input, source, non_blocking=False):
    return in_place(t, input, t.wrap(lib.samba_copy_into(t.value(input), t.value(source))), True)


@rule(T.fill_, T.zero_)
def fill_(t, input, value=0):
    if isinstance(value, torch.Tensor):
        if rank(value):
            raise ValueError(f"value must be a number or a tensor of rank 0, given one of rank {rank(value)}")
        return copy_(t, input, value)
    return in_place(t, input, filled(t, input.shape, value, input), True)


@rule(T.repeat, aten.repeat)
def repeat(t, input, *repeats):
    sizes = sizes_of(repeats)
    if len(sizes) < rank(input):
        raise ValueError(f"{len(sizes)} repeats for a tensor with {rank(input)} dims: expected one for each or more")
    return t.wrap(lib.samba_repeat(t.value(input), len(sizes), sizes))


@rule(torch.tile, T.tile)
def tile(t, input, *dims):
    dims = sizes_of(dims)
    if any(times < 0 for times in dims):
        raise ValueError(f"dims must be 0 or more, given {dims}")
    return t.wrap(lib.samba_repeat(t.value(input), len(dims), dims))


@rule(torch.repeat_interleave, T.repeat_interleave)
def repeat_interleave(t, input, repeats, dim=None, *, output_size=None):
    if dim is None:
        input, dim = reshape(t, input, -1), 0
    if not isinstance(repeats, torch.Tensor):
        return t.wrap(lib.samba_repeat_interleave(t.value(input), repeats, dim))
    if t.is_symbolic((repeats,), {}):
        unsupported(
            t,
            "repeat_interleave by a tensor of repeats, on whose values the size depends: give a number, or repeats known before",
        )
    if repeats.numel() == 1:
        return t.wrap(lib.samba_repeat_interleave(t.value(input), int(repeats), dim))
    if repeats.numel() != input.shape[dim]:
        raise ValueError(f"{repeats.numel()} repeats for dim {dim} of size {input.shape[dim]}: expected one for each index")
    return t.wrap(lib.samba_repeat_interleave_each(t.value(input), repeats.tolist(), dim))


# ---- other places ----


@rule(torch.flip, T.flip, aten.flip)
def flip(t, input, *dims):
    dims = sizes_of(dims)
    return t.wrap(lib.samba_flip(t.value(input), len(dims), dims))


@rule(torch.fliplr, T.fliplr)
def fliplr(t, input):
    if rank(input) < 2:
        raise ValueError(f"expected a tensor of 2 dims or more, given one of rank {rank(input)}")
    return flip(t, input, 1)


@rule(torch.flipud, T.flipud)
def flipud(t, input):
    if rank(input) < 1:
        raise ValueError("expected a tensor of 1 dim or more, given one of rank 0")
    return flip(t, input, 0)


@rule(torch.rot90, T.rot90, aten.rot90)
def rot90(t, input, k=1, dims=(0, 1)):
    if len(dims) != 2:
        raise ValueError(f"dims must be two, given {list(dims)}")
    return t.wrap(lib.samba_rot90(t.value(input), k, *dims))


@rule(torch.roll, T.roll, aten.roll)
def roll(t, input, shifts, dims=()):
    shifts = [shifts] if isinstance(shifts, int) else list(shifts)
    dims = [dims] if isinstance(dims, int) else list(dims or ())
    if dims and len(dims) != len(shifts):
        raise ValueError(f"{len(shifts)} shifts for {len(dims)} dims: expected as many")
    return t.wrap(lib.samba_roll(t.value(input), len(shifts), shifts, dims or ffi.NULL))


def _triangle(call, *functions):
    @rule(*functions)
    def traced(t, input, diagonal=0):
        return t.wrap(call(t.value(input), diagonal))

    return traced


tril = _triangle(lib.samba_tril, torch.tril, T.tril, aten.tril)
triu = _triangle(lib.samba_triu, torch.triu, T.triu, aten.triu)


@rule(torch.diag, T.diag)
def diag(t, input, diagonal=0):
    return t.wrap(lib.samba_diag(t.value(input), diagonal))


@rule(torch.diag_embed, T.diag_embed, aten.diag_embed)
def diag_embed(t, input, offset=0, dim1=-2, dim2=-1):
    return t.wrap(lib.samba_diag_embed(t.value(input), offset, dim1, dim2))


@rule(torch.diagonal, T.diagonal, aten.diagonal)
def diagonal(t, input, offset=0, dim1=0, dim2=1):
    """A view: every (columns + 1)-th element of the matrices read as lines."""
    _shape(t, lib.samba_diagonal(t.value(input), offset, dim1, dim2))
    n = rank(input)
    dim1, dim2 = dim1 % n, dim2 % n
    rows, columns = input.shape[dim1], input.shape[dim2]

    def put(base, value):
        moved = lib.samba_movedim(base, 2, [dim1, dim2], [n - 2, n - 1])
        shape = [lib.samba_value_size(moved, d) for d in range(n)]
        line = lib.samba_reshape(moved, n - 1, [*shape[:-2], rows * columns])
        begin, length = max(offset, 0) + max(-offset, 0) * columns, lib.samba_value_size(value, -1)
        line = (
            _sliced_into(t, line, value, n - 2, begin, begin + max(length - 1, 0) * (columns + 1) + 1, columns + 1)
            if length
            else line
        )
        return lib.samba_movedim(lib.samba_reshape(line, n, shape), 2, [n - 2, n - 1], [dim1, dim2])

    return view(
        t, input, lambda value: lib.samba_diagonal(value, offset, dim1, dim2), put, lambda x: x.diagonal(offset, dim1, dim2)
    )


@rule(aten.as_strided)
def as_strided(t, input, size, stride, storage_offset=None):
    """Places in the memory that torch thinks the tensor has, in order and without gaps."""
    if len(size) != len(stride):
        raise ValueError(f"{len(size)} sizes and {len(stride)} strides: expected as many")
    size, stride, begin = list(size), list(stride), storage_offset or 0

    def put(base, value):
        return placed(t, base, torch.arange(input.numel()).as_strided(size, stride, begin), value)

    def meta(x):
        return x.as_strided(size, stride, x.storage_offset() + begin)

    return view(t, input, lambda value: lib.samba_as_strided(value, len(size), size, stride, begin), put, meta)


@rule(torch.as_strided, T.as_strided)
def as_strided_(t, input, size, stride, storage_offset=None):
    """The same where the tensor's own memory has no gaps, in any order of its dims; of a part of another one's, that begins at
    its first element."""
    own = strides(t, input)
    order = sorted(range(own.dim()), key=lambda dim: -own.stride(dim))
    if not own.is_contiguous() and own.permute(order).is_contiguous():
        input, own = permute(t, input, *order), own.permute(order)
    begin = 0 if storage_offset is None else storage_offset - own.storage_offset()
    if not own.is_contiguous() or (begin < 0 < own.storage_offset()):
        unsupported(
            t,
            f"as_strided of a view of {tuple(input.shape)} whose memory has gaps, or from a place before it: take it of "
            "contiguous()",
        )
    return as_strided(t, input, size, stride, begin)


@rule(T.stride)
def stride(t, input, *dim, **named):
    """Of the layout that torch would have: a model may compute the arguments of as_strided from it."""
    return strides(t, input).stride(*dim, **named)


@rule(T.storage_offset)
def storage_offset(t, input):
    return strides(t, input).storage_offset()


@rule(T.is_contiguous)
def is_contiguous(t, input, memory_format=torch.contiguous_format):
    return strides(t, input).is_contiguous(memory_format=memory_format)


@rule(T.fill_diagonal_)
def fill_diagonal_(t, input, fill_value, wrap=False):
    where = torch.zeros(input.shape, dtype=torch.bool).fill_diagonal_(True, wrap)
    return in_place(
        t, input, t.wrap(lib.samba_where(t.value(where), t.value(filled(t, [], fill_value, input)), t.value(input))), True
    )


@rule(T.unfold, aten.unfold)
def unfold(t, input, dimension, size, step):
    """Windows of a dim, which become the last dim."""

    def put(base, value):
        return placed(t, base, torch.arange(input.numel()).view(input.shape).unfold(dimension, size, step), value)

    return view(
        t, input, lambda value: lib.samba_windows(value, dimension, size, step), put, lambda x: x.unfold(dimension, size, step)
    )


method_in_place(T.tril_, tril)
method_in_place(T.triu_, triu)
