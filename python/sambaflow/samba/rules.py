# SPDX-License-Identifier: Apache-2.0
"""How torch functions become nodes of a graph: one rule each, registered for the torch functions and ATen operators it takes.

A rule has the signature of the torch function, after the tracer. It says what is not supported itself, because what falls through to ATen
would be taken apart, or refused under a name the user never wrote. Shapes, dtypes and promotion are the library's."""
import math
import weakref

import torch
import torch.nn.functional as F

from sambaflow._core import ffi, lib
from sambaflow.errors import UnsupportedError
from sambaflow.samba.sambatensor import SambaTensor
from sambaflow.samba.trace import RULES, dtype_number, rule

aten = torch.ops.aten
T = torch.Tensor
NONE = ffi.new("samba_value *")[0]  # "left out"


def unsupported(tracer, what):
    raise UnsupportedError(what + tracer.where())


def rank(x):
    return x.dim()


def wrapped_dim(dim, count):
    """A dim as 0 .. count-1."""
    if not -max(count, 1) <= dim < max(count, 1):
        raise IndexError(f"dim {dim} of a tensor with {count} dims: expected {-max(count, 1)} to {max(count, 1) - 1}")
    return dim % max(count, 1)


def dims_of(dim):
    """dim=None, an int or a sequence -> (count, list)."""
    dims = [] if dim is None else [dim] if isinstance(dim, int) else list(dim)
    return len(dims), dims


def sizes_of(sizes):
    """reshape(2, 3) and reshape((2, 3)) alike."""
    return list(sizes[0]) if len(sizes) == 1 and isinstance(sizes[0], (tuple, list, torch.Size)) else list(sizes)


def pair(x):
    return [x, x] if isinstance(x, int) else list(x) * (2 if len(x) == 1 else 1)


def floating(x):
    return x.dtype.is_floating_point


# ---- elementwise ----


def _binary(call, *functions):
    @rule(*functions)
    def traced(t, input, other):
        like = input if isinstance(input, torch.Tensor) else other
        return t.wrap(call(t.operand(input, like), t.operand(other, like)))

    return traced


def _reflected(call, *functions):
    @rule(*functions)
    def traced(t, input, other):
        return t.wrap(call(t.operand(other, input), t.value(input)))


@rule(torch.add, T.add, T.__add__, T.__radd__, aten.add)
def add(t, input, other, *, alpha=1):
    like = input if isinstance(input, torch.Tensor) else other
    a, b = t.operand(input, like), t.operand(other, like)
    if alpha != 1:
        b = lib.samba_mul(b, t.number(alpha, other if isinstance(other, torch.Tensor) else like))
    return t.wrap(lib.samba_add(a, b))


@rule(torch.sub, T.sub, T.__sub__, torch.subtract, aten.sub)
def sub(t, input, other, *, alpha=1):
    like = input if isinstance(input, torch.Tensor) else other
    a, b = t.operand(input, like), t.operand(other, like)
    if alpha != 1:
        b = lib.samba_mul(b, t.number(alpha, other if isinstance(other, torch.Tensor) else like))
    return t.wrap(lib.samba_sub(a, b))


@rule(torch.rsub, T.__rsub__, aten.rsub)
def rsub(t, input, other, *, alpha=1):
    return sub(t, other, input, alpha=alpha)


_binary(lib.samba_mul, torch.mul, torch.multiply, T.mul, T.__mul__, T.__rmul__, aten.mul)
_binary(lib.samba_maximum, torch.maximum, T.maximum, aten.maximum)
_binary(lib.samba_minimum, torch.minimum, T.minimum, aten.minimum)
_binary(lib.samba_eq, torch.eq, T.eq, T.__eq__, aten.eq)
_binary(lib.samba_ne, torch.ne, T.ne, T.__ne__, aten.ne)
_binary(lib.samba_lt, torch.lt, T.lt, T.__lt__, aten.lt)
_binary(lib.samba_le, torch.le, T.le, T.__le__, aten.le)
_binary(lib.samba_gt, torch.gt, T.gt, T.__gt__, aten.gt)
_binary(lib.samba_ge, torch.ge, T.ge, T.__ge__, aten.ge)
_binary(lib.samba_pow, torch.pow, T.pow, T.__pow__, aten.pow)
_reflected(lib.samba_pow, T.__rpow__)
_reflected(lib.samba_div, T.__rtruediv__, T.__rdiv__)


@rule(torch.div, torch.true_divide, torch.divide, T.div, T.__truediv__, T.__div__, aten.div)
def div(t, input, other, *, rounding_mode=None):
    if rounding_mode is not None:
        unsupported(t, f"div with rounding_mode={rounding_mode!r} cannot be traced yet: round the quotient before tracing")
    like = input if isinstance(input, torch.Tensor) else other
    return t.wrap(lib.samba_div(t.operand(input, like), t.operand(other, like)))


def _unary(call, *functions):
    @rule(*functions)
    def traced(t, input):
        return t.wrap(call(t.value(input)))

    return traced


_unary(lib.samba_neg, torch.neg, T.neg, T.__neg__, aten.neg)
_unary(lib.samba_abs, torch.abs, T.abs, T.__abs__, aten.abs)
_unary(lib.samba_exp, torch.exp, T.exp, aten.exp)
_unary(lib.samba_log, torch.log, T.log, aten.log)
_unary(lib.samba_sqrt, torch.sqrt, T.sqrt, aten.sqrt)
_unary(lib.samba_rsqrt, torch.rsqrt, T.rsqrt, aten.rsqrt)
_unary(lib.samba_reciprocal, torch.reciprocal, T.reciprocal, aten.reciprocal)
_unary(lib.samba_tanh, torch.tanh, T.tanh, F.tanh, aten.tanh)
_unary(lib.samba_sigmoid, torch.sigmoid, T.sigmoid, F.sigmoid, aten.sigmoid)
_unary(lib.samba_erf, torch.erf, T.erf, aten.erf)


@rule(torch.relu, T.relu, F.relu, aten.relu)
def relu(t, input, inplace=False):
    return _inplace(t, input, t.wrap(lib.samba_relu(t.value(input))), inplace)


@rule(F.silu, aten.silu)
def silu(t, input, inplace=False):
    value = t.value(input)
    return _inplace(t, input, t.wrap(lib.samba_mul(value, lib.samba_sigmoid(value))), inplace)


@rule(F.gelu, aten.gelu)
def gelu(t, input, approximate="none"):
    return t.wrap((lib.samba_gelu_tanh if approximate == "tanh" else lib.samba_gelu)(t.value(input)))


@rule(torch.square, T.square)
def square(t, input):
    value = t.value(input)
    return t.wrap(lib.samba_mul(value, value))


@rule(torch.where, T.where, aten.where)
def where(t, condition, input=None, other=None):
    if input is None:
        unsupported(t, "torch.where(condition) alone gives indices, whose number depends on values: use where(condition, a, b)")
    like = input if isinstance(input, torch.Tensor) else other if isinstance(other, torch.Tensor) else torch.empty(())
    return t.wrap(lib.samba_where(t.value(condition), t.operand(input, like), t.operand(other, like)))


@rule(T.masked_fill, torch.masked_fill, aten.masked_fill)
def masked_fill(t, input, mask, value):
    return t.wrap(lib.samba_where(t.value(mask), t.operand(value, input), t.value(input)))


@rule(torch.clamp, T.clamp, aten.clamp)
def clamp(t, input, min=None, max=None):
    value = t.value(input)
    if min is not None:
        value = lib.samba_maximum(value, t.operand(min, input))
    if max is not None:
        value = lib.samba_minimum(value, t.operand(max, input))
    return t.wrap(value)


def _inplace(t, input, result, inplace):
    """`inplace=True` of functions, and methods that end in '_': the tensor stands for the new value from now on."""
    if not inplace:
        return result
    if input.shape != result.shape:
        unsupported(t, f"an operation in place that makes {tuple(result.shape)} of {tuple(input.shape)}")
    if t.is_buffer(input):
        t.assign(input, result._value)
        return input
    if not isinstance(input, SambaTensor) or id(input) in t.names:
        unsupported(t, "an operation in place on a parameter or on a tensor from outside the model: use the form that returns a new tensor")
    if input._view_of is not None and input._view_of() is not None:
        unsupported(t, "an operation in place on a view of a tensor that is still in use: use the form that returns a new tensor")
    input._value = result._value
    return input


def _mark_views(function):
    """Its results remember, weakly, the tensor they are views of."""

    def marked(t, input, *args, **kwargs):
        result = function(t, input, *args, **kwargs)
        if isinstance(input, SambaTensor):
            for x in result if isinstance(result, tuple) else (result,):
                if x is not input:
                    x._view_of = weakref.ref(input)
        return result

    for key in [key for key, its in RULES.items() if its is function]:
        RULES[key] = marked


def _method_in_place(method, out_of_place):
    @rule(method)
    def traced(t, input, *args, **kwargs):
        result = out_of_place(t, input, *args, **kwargs)
        if result.dtype != input.dtype:
            result = t.wrap(lib.samba_cast(result._value, dtype_number(input.dtype)))
        return _inplace(t, input, result, True)



# ---- dtypes ----


def cast(t, input, dtype):
    """The tensor itself where nothing changes."""
    return input if dtype in (None, input.dtype) else t.wrap(lib.samba_cast(t.value(input), dtype_number(dtype)))


@rule(T.to)
def to(t, input, *args, **kwargs):
    dtype = kwargs.get("dtype")
    for word in (*args, kwargs.get("other")):
        dtype = word if isinstance(word, torch.dtype) else word.dtype if isinstance(word, torch.Tensor) else dtype
    return cast(t, input, dtype)


@rule(T.type)
def type_(t, input, dtype):
    return cast(t, input, dtype if isinstance(dtype, torch.dtype) else torch.empty(0).type(dtype).dtype)


@rule(T.type_as)
def type_as(t, input, other):
    return cast(t, input, other.dtype)


for _name, _dtype in {"float": torch.float32, "double": torch.float64, "half": torch.float16, "bfloat16": torch.bfloat16, "int": torch.int32,
                      "long": torch.int64, "short": torch.int16, "bool": torch.bool}.items():  # fmt: skip
    rule(getattr(T, _name))(lambda t, input, dtype=_dtype: cast(t, input, dtype))


@rule(aten._to_copy)
def to_copy(t, input, *, dtype=None, **_):
    return cast(t, input, dtype)


@rule(T.contiguous, T.clone, torch.clone, T.detach, torch.detach, aten.clone, aten.detach, aten.alias, aten.lift_fresh, T.cpu)
def same(t, input, *_, **__):
    return t.wrap(t.value(input))


# ---- reductions ----


def _reduction(call, *functions):
    @rule(*functions)
    def traced(t, input, dim=None, keepdim=False, *, dtype=None):
        return t.wrap(call(t.value(cast(t, input, dtype)), *dims_of(dim), keepdim))

    return traced


_reduction(lib.samba_sum, torch.sum, T.sum, aten.sum)
_mean = _reduction(lib.samba_mean, torch.mean, T.mean, aten.mean)
_reduction(lib.samba_amax, torch.amax, T.amax, aten.amax)
_reduction(lib.samba_amin, torch.amin, T.amin, aten.amin)


@rule(torch.argmax, T.argmax, aten.argmax)
def argmax(t, input, dim=None, keepdim=False):
    if dim is None:
        input, dim = t.wrap(lib.samba_reshape(t.value(input), 1, [-1])), 0
    return t.wrap(lib.samba_argmax(t.value(input), dim, keepdim))


@rule(torch.var, T.var, aten.var)
def var(t, input, dim=None, unbiased=None, keepdim=False, *, correction=None):
    if isinstance(dim, bool):
        dim, unbiased = None, dim
    correction = correction if correction is not None else 1 if unbiased in (None, True) else 0
    count, dims = dims_of(dim)
    n = math.prod(input.shape[d] for d in dims) if dims else input.numel()
    value = t.value(input)
    centred = lib.samba_sub(value, lib.samba_mean(value, count, dims, True))
    total = lib.samba_sum(lib.samba_mul(centred, centred), count, dims, keepdim)
    return t.wrap(lib.samba_div(total, t.number(float(n - correction), input)))


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
    index = list(index) if isinstance(index, tuple) else [index]
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


# ---- products ----


_binary(lib.samba_matmul, torch.matmul, T.matmul, T.__matmul__, torch.mm, T.mm, torch.bmm, T.bmm, aten.mm, aten.bmm, aten.matmul)


@rule(torch.addmm, T.addmm, torch.baddbmm, T.baddbmm, aten.addmm, aten.baddbmm)
def addmm(t, input, mat1, mat2, *, beta=1, alpha=1):
    product, added = lib.samba_matmul(t.value(mat1), t.value(mat2)), t.value(input)
    product = product if alpha == 1 else lib.samba_mul(product, t.number(alpha, mat1))
    added = added if beta == 1 else lib.samba_mul(added, t.number(beta, input))
    return t.wrap(lib.samba_add(product, added))


def optional(t, x):
    return NONE if x is None else t.value(x)


@rule(F.linear, aten.linear)
def linear(t, input, weight, bias=None):
    return t.wrap(lib.samba_functional_linear(t.value(input), t.value(weight), optional(t, bias)))


@rule(torch.conv2d, F.conv2d)
def conv2d(t, input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
    if isinstance(padding, str):
        if padding == "same":
            total = [d * (k - 1) for d, k in zip(pair(dilation), weight.shape[2:])]
            if any(p % 2 for p in total):
                unsupported(t, f"padding='same' with a kernel {tuple(weight.shape[2:])} needs unequal borders: pad the input first")
            padding = [p // 2 for p in total]
        else:
            padding = 0
    options = ffi.new("samba_conv2d_options *")
    options.stride, options.padding, options.dilation, options.groups = pair(stride), pair(padding), pair(dilation), groups
    return t.wrap(lib.samba_functional_conv2d(t.value(input), t.value(weight), optional(t, bias), options))


# ---- layers ----


@rule(F.layer_norm, torch.layer_norm)
def layer_norm(t, input, normalized_shape, weight=None, bias=None, eps=1e-5):
    shape = list(normalized_shape)
    return t.wrap(lib.samba_functional_layer_norm(t.value(input), len(shape), shape, optional(t, weight), optional(t, bias), eps))


@rule(F.rms_norm, torch.rms_norm)
def rms_norm(t, input, normalized_shape, weight=None, eps=None):
    value, count = t.value(input), len(normalized_shape)
    dims = list(range(-count, 0))
    square_ = lib.samba_mean(lib.samba_mul(value, value), count, dims, True)
    eps = torch.finfo(input.dtype).eps if eps is None else eps
    result = lib.samba_mul(value, lib.samba_rsqrt(lib.samba_add(square_, t.number(eps, input))))
    return t.wrap(result if weight is None else lib.samba_mul(result, t.value(weight)))


@rule(F.embedding, torch.embedding)
def embedding(t, input, weight, padding_idx=None, max_norm=None, norm_type=2.0, scale_grad_by_freq=False, sparse=False):
    if max_norm is not None or scale_grad_by_freq:
        unsupported(t, "embedding with max_norm or scale_grad_by_freq cannot be traced: normalise the weight between runs")
    return t.wrap(lib.samba_functional_embedding(t.value(input), t.value(weight)))


@rule(F.dropout, torch.dropout)
def dropout(t, input, p=0.5, training=True, inplace=False):
    if not training or p == 0:
        return input
    name = t.stack[-1] if t.stack and t.stack[-1] else f"dropout{t.dropouts}"
    t.dropouts += 1
    return _inplace(t, input, t.wrap(lib.samba_dropout(t.value(input), name.encode(), p)), inplace)


@rule(F.softmax, torch.softmax, T.softmax)
def softmax(t, input, dim=None, _stacklevel=3, dtype=None):
    return t.wrap(lib.samba_softmax(t.value(cast(t, input, dtype)), _softmax_dim(t, input, dim)))


@rule(F.log_softmax, torch.log_softmax, T.log_softmax)
def log_softmax(t, input, dim=None, _stacklevel=3, dtype=None):
    return t.wrap(lib.samba_log_softmax(t.value(cast(t, input, dtype)), _softmax_dim(t, input, dim)))


def _softmax_dim(t, input, dim):
    if dim is None:
        unsupported(t, "softmax without a dim: say which")
    return wrapped_dim(dim, rank(input))


@rule(F.scaled_dot_product_attention)
def attention(t, query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False):
    options = ffi.new("samba_attention_options *")
    kept = None
    if attn_mask is not None:
        options.mask = t.value(attn_mask)
    options.is_causal, options.enable_gqa, options.scale = is_causal, enable_gqa, scale or 0.0
    if dropout_p > 0:
        name = t.stack[-1] if t.stack and t.stack[-1] else f"dropout{t.dropouts}"
        t.dropouts += 1
        kept = ffi.new("char[]", name.encode())
        options.dropout, options.dropout_p = kept, dropout_p
    return t.wrap(lib.samba_scaled_dot_product_attention(t.value(query), t.value(key), t.value(value), options))


def _pool(t, call, input, kernel_size, stride, padding, dilation, ceil_mode, count_include_pad=True):
    options = ffi.new("samba_pool2d_options *")
    options.stride = pair(stride) if stride not in (None, [], ()) else [0, 0]
    options.padding, options.dilation = pair(padding), pair(dilation)
    options.ceil_mode, options.no_count_include_pad = ceil_mode, not count_include_pad
    return t.wrap(call(t.value(input), pair(kernel_size), options))


@rule(F.max_pool2d, torch.max_pool2d)
def max_pool2d(t, input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False):
    if return_indices:
        unsupported(t, "max_pool2d with return_indices cannot be traced")
    return _pool(t, lib.samba_max_pool2d, input, kernel_size, stride, padding, dilation, ceil_mode)


@rule(F.avg_pool2d)
def avg_pool2d(t, input, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True, divisor_override=None):
    if divisor_override is not None:
        unsupported(t, "avg_pool2d with divisor_override: multiply the result instead")
    return _pool(t, lib.samba_avg_pool2d, input, kernel_size, stride, padding, 1, ceil_mode, count_include_pad)


@rule(F.adaptive_avg_pool2d)
def adaptive_avg_pool2d(t, input, output_size):
    size = [s if s is not None else input.shape[i - 2] for i, s in enumerate(pair(output_size))]
    if size == [1, 1]:
        return t.wrap(lib.samba_mean(t.value(input), 2, [-2, -1], True))
    if any(whole % part for whole, part in zip(input.shape[-2:], size)):
        unsupported(t, f"adaptive_avg_pool2d from {tuple(input.shape[-2:])} to {tuple(size)}: sizes must divide")
    kernel = [whole // part for whole, part in zip(input.shape[-2:], size)]
    return _pool(t, lib.samba_avg_pool2d, input, kernel, None, 0, 1, False)


@rule(F.batch_norm)
def batch_norm(t, input, running_mean, running_var, weight=None, bias=None, training=False, momentum=0.1, eps=1e-5):
    dims = [d for d in range(rank(input)) if d != 1]
    shape = [1 if d != 1 else input.shape[1] for d in range(rank(input))]

    def along(x):
        return lib.samba_reshape(t.value(x) if isinstance(x, torch.Tensor) else x, len(shape), shape)

    value = t.value(input)
    if training or running_mean is None:
        mean = lib.samba_mean(value, len(dims), dims, True)
        centred = lib.samba_sub(value, mean)
        variance = lib.samba_mean(lib.samba_mul(centred, centred), len(dims), dims, True)
        if training and running_mean is not None:
            n = math.prod(input.shape[d] for d in dims)
            _run(t, running_mean, lib.samba_reshape(mean, 1, [shape[1]]), momentum, 1.0)
            _run(t, running_var, lib.samba_reshape(variance, 1, [shape[1]]), momentum, n / max(n - 1, 1))
    else:
        centred, variance = lib.samba_sub(value, along(running_mean)), along(running_var)
    result = lib.samba_mul(centred, lib.samba_rsqrt(lib.samba_add(variance, t.number(eps, input))))
    if weight is not None:
        result = lib.samba_mul(result, along(weight))
    return t.wrap(result if bias is None else lib.samba_add(result, along(bias)))


def _run(t, running, batch, momentum, factor):
    """running = (1 - momentum) * running + momentum * factor * batch, after the run."""
    old = lib.samba_mul(t.value(running), t.number(1 - momentum, running))
    t.assign(running, lib.samba_add(old, lib.samba_mul(batch, t.number(momentum * factor, running))))


# ---- losses ----

_REDUCTIONS = {"mean": lib.SAMBA_MEAN, "sum": lib.SAMBA_SUM, "none": lib.SAMBA_NO_REDUCTION}


@rule(F.cross_entropy)
def cross_entropy(t, input, target, weight=None, size_average=None, ignore_index=-100, reduce=None, reduction="mean", label_smoothing=0.0):
    if weight is not None or floating(target):
        unsupported(t, "cross_entropy with class weights or probabilities as target cannot be traced yet: give class indices")
    options = ffi.new("samba_cross_entropy_options *", [ignore_index, label_smoothing, _REDUCTIONS[reduction]])
    return t.wrap(lib.samba_cross_entropy_with(t.value(input), t.value(target), options))


def _reduced(t, value, reduction):
    if reduction == "none":
        return t.wrap(value)
    return t.wrap((lib.samba_mean if reduction == "mean" else lib.samba_sum)(value, 0, [], False))


@rule(F.mse_loss)
def mse_loss(t, input, target, size_average=None, reduce=None, reduction="mean", weight=None):
    difference = lib.samba_sub(t.value(input), t.value(target))
    return _reduced(t, lib.samba_mul(difference, difference), reduction)


@rule(F.l1_loss)
def l1_loss(t, input, target, size_average=None, reduce=None, reduction="mean", weight=None):
    return _reduced(t, lib.samba_abs(lib.samba_sub(t.value(input), t.value(target))), reduction)


# ---- booleans ----


@rule(torch.logical_not, T.logical_not, T.__invert__, torch.bitwise_not, T.bitwise_not, aten.bitwise_not, aten.logical_not)
def logical_not(t, input):
    if input.dtype is not torch.bool:
        unsupported(t, f"not of {input.dtype}: compare with 0 instead")
    return t.wrap(lib.samba_eq(t.value(input), t.number(False, input)))


@rule(torch.logical_and, T.logical_and, T.__and__, torch.bitwise_and, aten.bitwise_and, aten.logical_and)
def logical_and(t, input, other):
    return _logical(t, "and", lambda a, b: lib.samba_where(a, b, t.number(False, input)), input, other)


@rule(torch.logical_or, T.logical_or, T.__or__, torch.bitwise_or, aten.bitwise_or, aten.logical_or)
def logical_or(t, input, other):
    return _logical(t, "or", lambda a, b: lib.samba_where(a, t.number(True, input), b), input, other)


def _logical(t, name, call, a, b):
    for x in (a, b):
        if not isinstance(x, torch.Tensor) or x.dtype is not torch.bool:
            unsupported(t, f"'{name}' of {getattr(x, 'dtype', type(x).__name__)}: expected bool tensors; compare first")
    return t.wrap(call(t.value(a), t.value(b)))


# ---- borders, writing into tensors ----


def filled(t, shape, value, like):
    return t.wrap(lib.samba_constant(t.graph, float(value), dtype_number(like.dtype), len(shape), list(shape)))


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


@rule(F.pad, aten.constant_pad_nd)
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


@rule(T.copy_, aten.copy_)
def copy_(t, input, source, non_blocking=False):
    return _inplace(t, input, expand(t, cast(t, source, input.dtype), *input.shape), True)


@rule(T.fill_, T.zero_)
def fill_(t, input, value=0):
    return _inplace(t, input, filled(t, input.shape, value, input), True)


@rule(T.__setitem__)
def setitem(t, input, index, update):
    if isinstance(index, torch.Tensor) and index.dtype is torch.bool:
        if isinstance(update, torch.Tensor) and update.dim() > 0:
            unsupported(t, "writing a tensor where a mask is true, whose place depends on values: use torch.where")
        _inplace(t, input, where(t, index, update, input), True)
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
    _inplace(t, input, part, True)


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


# ---- recurrent layers: one step after the other ----


def _layers(t, input, states, weights, has_biases, num_layers, dropout_p, train, bidirectional, batch_first, cell):
    if dropout_p and train:
        unsupported(t, "dropout between recurrent layers cannot be traced yet: make the layers one by one with nn.Dropout between")
    steps = [x for x in unbind(t, input, 1 if batch_first and rank(input) == 3 else 0)]
    per, directions = 4 if has_biases else 2, 2 if bidirectional else 1
    last = []
    for layer in range(num_layers):
        outputs = []
        for direction in range(directions):
            at = (layer * directions + direction)
            w = [t.value(x) for x in weights[at * per : at * per + per]] + ([NONE, NONE] if not has_biases else [])
            state = [t.value(select(t, s, 0, at)) for s in states]
            run = []
            for x in reversed(steps) if direction else steps:
                state = cell(t, t.value(x), state, w)
                run.append(t.wrap(state[0]))
            outputs.append(run[::-1] if direction else run)
            last.append([t.wrap(s) for s in state])
        steps = [cat(t, list(both), -1) for both in zip(*outputs)] if bidirectional else outputs[0]
    result = stack(t, steps, 1 if batch_first and rank(input) == 3 else 0)
    return (result, *(stack(t, list(s)) for s in zip(*last)))


def _gates(t, x, h, w):
    return lib.samba_functional_linear(x, w[0], w[2]), lib.samba_functional_linear(h, w[1], w[3])


def _lstm_cell(t, x, state, w):
    gates = t.wrap(lib.samba_add(*_gates(t, x, state[0], w)))
    i, f, g, o = (t.value(part) for part in chunk(t, gates, 4, -1))
    c = lib.samba_add(lib.samba_mul(lib.samba_sigmoid(f), state[1]), lib.samba_mul(lib.samba_sigmoid(i), lib.samba_tanh(g)))
    return [lib.samba_mul(lib.samba_sigmoid(o), lib.samba_tanh(c)), c]


def _gru_cell(t, x, state, w):
    from_x, from_h = (chunk(t, t.wrap(part), 3, -1) for part in _gates(t, x, state[0], w))
    r, z = (lib.samba_sigmoid(lib.samba_add(t.value(a), t.value(b))) for a, b in zip(from_x[:2], from_h[:2]))
    n = lib.samba_tanh(lib.samba_add(t.value(from_x[2]), lib.samba_mul(r, t.value(from_h[2]))))
    return [lib.samba_add(n, lib.samba_mul(z, lib.samba_sub(state[0], n)))]


@rule(torch.lstm)
def lstm(t, input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first=False):
    if isinstance(params, bool):
        unsupported(t, "a packed sequence, whose lengths are values: pad and mask instead")
    return _layers(t, input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first, _lstm_cell)


@rule(torch.gru)
def gru(t, input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first=False):
    if isinstance(params, bool):
        unsupported(t, "a packed sequence, whose lengths are values: pad and mask instead")
    return _layers(t, input, [hx], params, has_biases, num_layers, dropout, train, bidirectional, batch_first, _gru_cell)


def _plain_cell(function):
    def cell(t, x, state, w):
        return [function(lib.samba_add(*_gates(t, x, state[0], w)))]

    return cell


def _plain_rnn(torch_function, function):
    @rule(torch_function)
    def traced(t, input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first=False):
        return _layers(t, input, [hx], params, has_biases, num_layers, dropout, train, bidirectional, batch_first, _plain_cell(function))


_plain_rnn(torch.rnn_tanh, lib.samba_tanh)
_plain_rnn(torch.rnn_relu, lib.samba_relu)

for _method, _rule in {T.add_: add, T.__iadd__: add, T.sub_: sub, T.__isub__: sub, T.masked_fill_: masked_fill, T.clamp_: clamp,
                       T.div_: div, T.__itruediv__: div, aten.add_: add, aten.relu_: relu}.items():  # fmt: skip
    _method_in_place(_method, _rule)
for _method, _function in {T.mul_: torch.mul, T.__imul__: torch.mul, T.relu_: torch.relu, torch.relu_: torch.relu, T.tanh_: torch.tanh,
                           T.sigmoid_: torch.sigmoid, T.neg_: torch.neg, T.exp_: torch.exp, T.sqrt_: torch.sqrt}.items():  # fmt: skip
    _method_in_place(_method, RULES[_function])
# What shares memory with its first argument in torch: writing into it would be seen there too.
for _function in (reshape, view_as, flatten, permute, transpose, t_, expand, expand_as, unsqueeze, squeeze, select, narrow, getitem, split, chunk, unbind):
    _mark_views(_function)
