# SPDX-License-Identifier: Apache-2.0
"""Elements by their index: look-ups, scattering.

The C library knows what indices mean. What is Python's own: which words of a[i, :, None, ..., mask] are slices and which indices,
masks whose values are known, and writing, which is a view that becomes another value."""

import collections.abc
import math

import torch
import torch.nn.functional as F

from sambaflow._core import ffi, lib
from sambaflow.samba.rules.common import NONE, cast, filled, in_place, rank, unsupported, wrapped_dim
from sambaflow.samba.rules.elementwise import where
from sambaflow.samba.rules.shape import expand, reshape, select, slice_, unsqueeze
from sambaflow.samba.rules.values import as_mask, known_masks
from sambaflow.samba.sambatensor import values_of
from sambaflow.samba.trace import rule
from sambaflow.samba.views import view

aten = torch.ops.aten
T = torch.Tensor

# ---- a[...] ----


def _is_sequence(x):
    return isinstance(x, collections.abc.Sequence) and not isinstance(x, str)


def _listed(index):
    """An index as a list of words; as torch, a sequence with more than numbers in it is several, too."""
    several = isinstance(index, tuple) or (
        _is_sequence(index)
        and len(index) < 32
        and any(x is None or x is Ellipsis or isinstance(x, (torch.Tensor, slice)) or hasattr(x, "__len__") for x in index)
    )
    return list(index) if several else [index]


def _word(t, word):
    """Lists, ranges and arrays as index tensors, masks of no dims as bools."""
    if _is_sequence(word) or type(word).__name__ == "ndarray":
        word = torch.as_tensor(list(word) if isinstance(word, range) else word)
        word = word.long() if word.numel() == 0 else word
    word = as_mask(word)
    if isinstance(word, torch.Tensor) and word.dim() == 0 and word.dtype is torch.bool and not t.is_symbolic((word,), {}):
        word = bool(values_of(word))
    return word


def _words(t, input, index):
    """The words of an index: masks as the places where they are true, ... as slices, one for each dim."""
    words = known_masks(t, [_word(t, word) for word in _listed(index)])
    taken = sum(1 for word in words if word is not None and word is not Ellipsis and not isinstance(word, bool))
    if taken > rank(input):
        raise IndexError(f"{taken} indices for a tensor with {rank(input)} dims: expected one for each at most")
    if Ellipsis in [word for word in words if not isinstance(word, torch.Tensor)]:
        at = next(i for i, word in enumerate(words) if word is Ellipsis)
        words[at : at + 1] = [slice(None)] * (rank(input) - taken)
    return words + [slice(None)] * (rank(input) - sum(1 for word in words if word is not None and not isinstance(word, bool)))


def _is_number(word):
    """Whether it is a tensor that selects, as a number does."""
    return isinstance(word, torch.Tensor) and word.dim() == 0


def _selected(t, input, dim, index):
    """input.select(dim, index), where index is a tensor of no dims."""
    indices = _values(t, [None] * dim + [index])

    def put(base, value):
        return lib.samba_index_put(base, dim + 1, indices, value, False)

    return view(t, input, lambda value: lib.samba_index(value, dim + 1, indices), put, lambda whole: whole.select(dim, 0))


def _view(t, input, words):
    """The view that all but index tensors give, and an index for each of its dims: None where there is none."""
    result, indices = input, []
    for word in words:
        dim = len(indices)
        if _is_number(word):
            result = _selected(t, result, dim, word)
        elif isinstance(word, torch.Tensor):
            indices.append(word)
        elif word is None:
            result = unsqueeze(t, result, dim)
            indices.append(None)
        elif isinstance(word, bool):  # a new dim of size 1 or 0
            result = unsqueeze(t, result, dim)
            indices.append(torch.zeros(int(word), dtype=torch.int64))
        elif isinstance(word, int):
            result = select(t, result, dim, word)
        elif isinstance(word, slice):
            result = result if word == slice(None) else slice_(t, result, dim, word.start, word.stop, word.step)
            indices.append(None)
        else:
            unsupported(
                t, f"an index of type {type(word).__name__}: expected integers, slices, None, ..., index tensors or lists"
            )
    return result, indices


def _values(t, indices):
    """Index tensors as C takes them: zeroed where a dim has none."""
    return [NONE if x is None else t.value(x) for x in indices]


def _taken(t, input, indices):
    if all(x is None for x in indices):
        return input
    return t.wrap(lib.samba_index(t.value(input), len(indices), _values(t, indices)))


def _written(t, input, indices, update, accumulate):
    values = lib.samba_index_put(t.value(input), len(indices), _values(t, indices), t.value(update), accumulate)
    return t.wrap(values)


def _update(t, update, like):
    """What is written, in the dtype of what it is written to."""
    return cast(t, update, like.dtype) if isinstance(update, torch.Tensor) else filled(t, [], update, like)


def _narrowed(t, update, shape):
    """As torch: leading dims of size 1 do not count."""
    while rank(update) > len(shape) and update.shape[0] == 1:
        update = reshape(t, update, *update.shape[1:])
    return update


@rule(T.__getitem__)
def getitem(t, input, index):
    return _taken(t, *_view(t, input, _words(t, input, index)))


def _counts(word, size):
    """The indices that a slice or a number stands for; None where only a run knows, or where `slice_` or `select` refuses it."""
    if isinstance(word, int):
        return range(word, word + 1) if -size <= word < size else None
    if any(x is not None and type(x) is not int for x in (word.start, word.stop, word.step)) or (word.step or 1) < 1:
        return None
    return range(*word.indices(size))


def _places(t, input, words):
    """Slices beside index tensors as indices too: else what a slice names would be read, written to and put back. Gives an index
    or None for each dim up to the last that has one; None in all where that does not pay."""
    tensors = [dim for dim, word in enumerate(words) if isinstance(word, torch.Tensor)]
    if not tensors or any(not isinstance(word, (torch.Tensor, slice, int)) or isinstance(word, bool) for word in words):
        return None
    counts = {dim: _counts(word, input.shape[dim]) for dim, word in enumerate(words) if dim not in tensors}
    if None in counts.values():
        return None
    named = [dim for dim, word in enumerate(words) if dim in tensors or len(counts[dim]) < input.shape[dim]]
    sliced = [dim for dim in counts if isinstance(words[dim], slice)]
    if not set(named) & set(sliced) and not any(_is_number(words[dim]) for dim in tensors):
        return None
    lines = [dim for dim in tensors if not _is_number(words[dim])] or [len(words)]
    apart = any(lines[0] < dim < lines[-1] for dim in sliced)  # then torch puts the index tensors' dims first
    first, last = 0 if apart else named[0], named[-1]
    before = [] if apart else [dim for dim in sliced if first <= dim <= min(last, lines[0])]
    after = [dim for dim in sliced if first <= dim <= last and dim not in before]
    try:
        joint = list(torch.broadcast_shapes(*[words[dim].shape for dim in tensors]))
    except RuntimeError:
        return None  # index_put says so
    shape = [len(counts[dim]) for dim in before] + joint + [len(counts[dim]) for dim in after]
    if 0 in shape or 2 * math.prod(shape) > math.prod(input.shape[first : last + 1]):
        return None
    places, end = [None] * first, len(before) + len(joint)
    for dim in range(first, last + 1):
        sizes = [1] * len(shape)
        if dim in tensors:
            sizes[end - words[dim].dim() : end] = words[dim].shape
            places.append(reshape(t, words[dim], *sizes))
            continue
        if dim in sliced:
            sizes[before.index(dim) if dim in before else end + after.index(dim)] = len(counts[dim])
        line = lib.samba_arange(t.graph, len(counts[dim]), lib.SAMBA_INT64)
        line = lib.samba_mul(line, t.number(counts[dim].step))
        line = lib.samba_add(line, t.number(counts[dim].start))
        places.append(reshape(t, t.wrap(line), *sizes))
    return places


@rule(T.__setitem__)
def setitem(t, input, index, update):
    words = [_word(t, word) for word in _listed(index)]
    if len(words) == 1 and isinstance(words[0], torch.Tensor) and words[0].dtype is torch.bool and t.is_symbolic((words[0],), {}):
        rest = input.shape[rank(words[0]) :]  # what is written must be alike for all that the mask lets through
        if isinstance(update, torch.Tensor):
            given, update = tuple(update.shape), _narrowed(t, update, rest)
            if rank(update) > len(rest):
                unsupported(
                    t,
                    f"writing a tensor of shape {given} where a mask is true: which row goes where depends on values; "
                    f"use torch.where, or one row for all, of shape {tuple(rest)}",
                )
        mask = reshape(t, words[0], *words[0].shape, *[1] * (rank(input) - rank(words[0])))
        in_place(t, input, where(t, mask, _update(t, update, input), input), True)
        return
    words = _words(t, input, tuple(words))
    target, indices = input, _places(t, input, words)
    if indices is None:
        target, indices = _view(t, input, words)
    update = _update(t, update, input)
    if all(x is None for x in indices):
        in_place(t, target, t.wrap(lib.samba_copy_into(t.value(target), t.value(_narrowed(t, update, target.shape)))), True)
        return
    shape = _taken(t, target.detach(), indices).shape
    in_place(t, target, _written(t, target, indices, _narrowed(t, update, shape), False), True)


@rule(aten.index)
def index_(t, input, indices):
    return _taken(t, input, known_masks(t, indices))


@rule(torch.index_put, T.index_put, aten.index_put)
def index_put(t, input, indices, values, accumulate=False):
    return _written(t, input, known_masks(t, indices), values, accumulate)


@rule(T.index_put_, aten.index_put_)
def index_put_(t, input, indices, values, accumulate=False):
    return in_place(t, input, index_put(t, input, indices, values, accumulate), True)


@rule(torch.masked_scatter, T.masked_scatter, T.masked_scatter_, aten.masked_scatter)
def masked_scatter(t, input, mask, source):
    unsupported(
        t,
        "masked_scatter: which element of the source goes where depends on how many before it the mask lets through; use "
        "torch.where with a source of the "
        "input's shape",
    )


@rule(torch.take, T.take, aten.take)
def take(t, input, index):
    return t.wrap(lib.samba_take(t.value(input), t.value(index)))


@rule(T.put, aten.put)
def put(t, input, index, source, accumulate=False):
    return t.wrap(lib.samba_put(t.value(input), t.value(index), t.value(source), accumulate))


# ---- one dim ----


@rule(torch.gather, T.gather, aten.gather)
def gather(t, input, dim, index, *, sparse_grad=False):
    return t.wrap(lib.samba_gather(t.value(input), dim, t.value(index)))


@rule(torch.take_along_dim, T.take_along_dim)
def take_along_dim(t, input, indices, dim=None):
    if dim is None:
        return gather(t, reshape(t, input, -1), 0, reshape(t, indices, -1))
    return t.wrap(lib.samba_take_along_dim(t.value(input), t.value(indices), dim))


def _source(t, source, like):
    return t.value(source) if isinstance(source, torch.Tensor) else t.value(filled(t, [], source, like))


_REDUCTIONS = {"sum": 0, "mean": 1, "prod": 2, "amax": 3, "amin": 4}


def _reduction(reduce):
    if reduce not in _REDUCTIONS:
        raise ValueError(f"reduce={reduce!r}: expected one of {', '.join(_REDUCTIONS)}")
    return _REDUCTIONS[reduce]


def _scatter(t, input, dim, index, source, accumulate):
    call = lib.samba_scatter_add if accumulate else lib.samba_scatter
    return t.wrap(call(t.value(input), dim, t.value(index), _source(t, source, input)))


@rule(torch.scatter, T.scatter, aten.scatter)
def scatter(t, input, dim, index, src=None, value=None, *, reduce=None):
    src = value if src is None else src
    if reduce == "multiply":
        return t.wrap(
            lib.samba_scatter_reduce(t.value(input), dim, t.value(index), _source(t, src, input), _REDUCTIONS["prod"], False)
        )
    if reduce not in (None, "add"):
        raise ValueError(f"reduce={reduce!r}: expected 'add' or 'multiply'; scatter_reduce has others")
    return _scatter(t, input, dim, index, src, reduce == "add")


@rule(torch.scatter_add, T.scatter_add, aten.scatter_add)
def scatter_add(t, input, dim, index, src):
    return _scatter(t, input, dim, index, src, True)


@rule(torch.scatter_reduce, T.scatter_reduce, aten.scatter_reduce)
def scatter_reduce(t, input, dim, index, src, reduce, *, include_self=True):
    return t.wrap(
        lib.samba_scatter_reduce(t.value(input), dim, t.value(index), t.value(src), _reduction(reduce), not include_self)
    )


@rule(torch.index_select, T.index_select, aten.index_select)
def index_select(t, input, dim, index):
    return t.wrap(lib.samba_index_select(t.value(input), dim, t.value(index)))


@rule(torch.index_add, T.index_add, aten.index_add)
def index_add(t, input, dim, index, source, *, alpha=1):
    return t.wrap(lib.samba_index_add(t.value(input), dim, t.value(index), t.value(source), alpha))


@rule(torch.index_copy, T.index_copy, aten.index_copy)
def index_copy(t, input, dim, index, source):
    return t.wrap(lib.samba_index_copy(t.value(input), dim, t.value(index), t.value(source)))


@rule(torch.index_fill, T.index_fill, aten.index_fill)
def index_fill(t, input, dim, index, value):
    if isinstance(value, int) and float(value) != value:  # more than a double can say
        value = torch.tensor(value, dtype=input.dtype)
    if isinstance(value, torch.Tensor):
        dim = wrapped_dim(t, "index_fill", input, dim)
        wide = expand(t, cast(t, value, input.dtype), *input.shape[:dim], index.numel(), *input.shape[dim + 1 :])
        return index_copy(t, input, dim, index, wide)
    return t.wrap(lib.samba_index_fill(t.value(input), dim, t.value(index), float(value)))


@rule(torch.index_reduce, T.index_reduce, aten.index_reduce)
def index_reduce(t, input, dim, index, source, reduce, *, include_self=True):
    return t.wrap(
        lib.samba_index_reduce(t.value(input), dim, t.value(index), t.value(source), _reduction(reduce), not include_self)
    )


def _writes(method, function):
    @rule(method)
    def traced(t, input, *args, **kwargs):
        return in_place(t, input, function(t, input, *args, **kwargs), True)

    traced.__wrapped__ = function  # has its signature


_writes(T.scatter_, scatter)
_writes(T.scatter_add_, scatter_add)
_writes(T.scatter_reduce_, scatter_reduce)
_writes(T.index_add_, index_add)
_writes(T.index_copy_, index_copy)
_writes(T.index_fill_, index_fill)
_writes(T.index_reduce_, index_reduce)
_writes(T.put_, put)


# ---- tables ----


@rule(F.embedding)
def embedding(t, input, weight, padding_idx=None, max_norm=None, norm_type=2.0, scale_grad_by_freq=False, sparse=False):
    if max_norm is not None:
        unsupported(t, "embedding with max_norm, which changes the weight as it is read: normalise it between runs")
    options = ffi.new("samba_embedding_options *")
    options.struct_size = ffi.sizeof("samba_embedding_options")
    options.has_padding_idx, options.padding_idx, options.scale_grad_by_freq = (
        padding_idx is not None,
        padding_idx or 0,
        scale_grad_by_freq,
    )
    return t.wrap(lib.samba_functional_embedding(t.value(input), t.value(weight), options))


@rule(F.embedding_bag)
def embedding_bag(
    t,
    input,
    weight,
    offsets=None,
    max_norm=None,
    norm_type=2,
    scale_grad_by_freq=False,
    mode="mean",
    sparse=False,
    per_sample_weights=None,
    include_last_offset=False,
    padding_idx=None,
):
    if max_norm is not None:
        unsupported(t, "embedding_bag with max_norm, which changes the weight as it is read: normalise it between runs")
    if mode not in ("mean", "sum", "max"):
        raise ValueError(f"mode={mode!r}: expected 'sum', 'mean' or 'max'")
    options = ffi.new("samba_embedding_bag_options *")
    options.struct_size = ffi.sizeof("samba_embedding_bag_options")
    options.mode = ("mean", "sum", "max").index(mode)
    options.has_padding_idx, options.padding_idx, options.scale_grad_by_freq = (
        padding_idx is not None,
        padding_idx or 0,
        scale_grad_by_freq,
    )
    if per_sample_weights is not None:
        options.per_sample_weights = t.value(per_sample_weights)
    if offsets is not None:
        if t.is_symbolic((offsets,), {}):
            unsupported(
                t,
                "embedding_bag with offsets that depend on values: give bags of one length as a matrix, with padding_idx, or "
                "offsets known before",
            )
        begins = ffi.new("int64_t []", offsets.tolist() or [0])
        options.offsets, options.offset_count, options.include_last_offset = begins, offsets.numel(), include_last_offset
    return t.wrap(lib.samba_functional_embedding_bag(t.value(input), t.value(weight), options))


@rule(F.one_hot)
def one_hot(t, input, num_classes=-1):
    if num_classes < 0:
        unsupported(t, "one_hot without num_classes, which then depends on values: give it")
    return t.wrap(lib.samba_one_hot(t.value(input), num_classes))
