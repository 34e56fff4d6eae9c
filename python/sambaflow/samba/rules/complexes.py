# SPDX-License-Identifier: Apache-2.0
"""Functions of complex tensors, as functions of their pairs (pairs.py). What only moves elements does the same to the pair, whose
last dim stays last; arithmetic is that of real and imaginary parts. Gradients are those of the parts, which is torch's convention
for complex parameters.

Rules call torch's functions on traced real tensors, so that views, writes, dtypes and promotion are theirs."""

import torch
import torch.nn.functional as F

from sambaflow.samba.pairs import complex_of, is_complex, pair_of, real_dtype
from sambaflow.samba.rules.common import unsupported
from sambaflow.samba.trace import complex_rule, rule
from sambaflow.samba.views import in_place

aten = torch.ops.aten
T = torch.Tensor


def named(name):
    """torch's function, the tensor's method and the ATen operator of a name, as many as there are."""
    return [getattr(place, name) for place in (torch, T, aten) if hasattr(place, name)]


# ---- pairs of operands ----


def parts(t, x):
    """(real, imaginary part) of an operand: tensors or numbers; the second None where there is none."""
    if isinstance(x, torch.Tensor):
        if not is_complex(x):
            return x, None
        pair = pair_of(t, x)
        return pair.select(-1, 0), pair.select(-1, 1)
    return (x.real, x.imag) if isinstance(x, complex) else (x, None)


def joined(t, real, imaginary):
    """The complex tensor of two parts, of which one may be a number."""
    if not isinstance(real, torch.Tensor):
        real = torch.full_like(imaginary, real)
    if not isinstance(imaginary, torch.Tensor):
        imaginary = torch.full_like(real, imaginary)
    if real.dtype != imaginary.dtype:
        dtype = torch.promote_types(real.dtype, imaginary.dtype)
        real, imaginary = real.to(dtype), imaginary.to(dtype)
    if not real.dtype.is_floating_point:
        real, imaginary = real.float(), imaginary.float()
    if real.shape != imaginary.shape:
        real, imaginary = torch.broadcast_tensors(real, imaginary)
    return complex_of(t, torch.stack((real, imaginary), -1))


def paired(t, x, like=None):
    """The pair of an operand: a complex tensor's own, or one with 0 as imaginary part; of the dtype of `like`, a real tensor."""
    if isinstance(x, torch.Tensor) and is_complex(x):
        pair = pair_of(t, x)
    elif isinstance(x, torch.Tensor):
        real = x if x.dtype.is_floating_point else x.to(like.dtype if like is not None else torch.float32)
        pair = torch.stack((real, torch.zeros_like(real)), -1)
    else:
        pair = torch.tensor([x.real, x.imag], dtype=like.dtype if like is not None else torch.get_default_dtype())
    return pair if like is None or pair.dtype == like.dtype else pair.to(like.dtype)


# ---- to complex numbers and from them ----


@complex_rule(torch.view_as_real, aten.view_as_real)
def view_as_real(t, input):
    return pair_of(t, input)


@rule(torch.view_as_complex, aten.view_as_complex)
def view_as_complex(t, input):
    if input.dim() == 0 or input.shape[-1] != 2:
        raise ValueError(f"expected a tensor whose last dim has size 2, given {tuple(input.shape)}")
    return complex_of(t, input)


@rule(torch.complex, aten.complex)
def complex_(t, real, imag):
    if real.dtype != imag.dtype:
        raise TypeError(f"real and imaginary part are of one dtype, given {real.dtype} and {imag.dtype}")
    return joined(t, real, imag)


@rule(torch.polar, aten.polar)
def polar(t, abs, angle):
    return joined(t, abs * angle.cos(), abs * angle.sin())


@complex_rule(torch.real, T.real.__get__, aten.real)
def real(t, input):
    return parts(t, input)[0]


@complex_rule(torch.imag, T.imag.__get__, aten.imag)
def imag(t, input):
    return parts(t, input)[1]


@complex_rule(*named("conj"), *named("conj_physical"), aten._conj, aten._conj_physical)
def conj(t, input):
    a, b = parts(t, input)
    return joined(t, a, -b)


@complex_rule(*named("resolve_conj"), *named("resolve_neg"), T.cpu, aten.lift_fresh, aten.alias, T.requires_grad_)
def same(t, input, *_, **__):
    return input


@complex_rule(*named("abs"), *named("absolute"), T.__abs__)
def abs_(t, input):
    return torch.linalg.vector_norm(pair_of(t, input), dim=-1)


@complex_rule(*named("angle"))
def angle(t, input):
    a, b = parts(t, input)
    return torch.atan2(b, a)


@complex_rule(torch.is_complex, T.is_complex)
def is_complex_(t, input):
    return is_complex(input)


@complex_rule(T.to, T.type, aten._to_copy)
def to(t, input, *args, **kwargs):
    dtype = kwargs.get("dtype")
    for word in (*args, kwargs.get("other")):
        dtype = word if isinstance(word, torch.dtype) else word.dtype if isinstance(word, torch.Tensor) else dtype
    return _cast(t, input, dtype)


def _cast(t, input, dtype):
    if dtype is None or dtype == input.dtype:
        return input
    if not dtype.is_complex:
        unsupported(t, f"a cast of complex numbers to {dtype} drops their imaginary parts: cast x.real")
    pair = paired(t, input)
    return complex_of(t, pair.to(real_dtype(dtype)))


@complex_rule(T.cfloat)
def cfloat(t, input, memory_format=None):
    return _cast(t, input, torch.complex64)


@complex_rule(T.cdouble)
def cdouble(t, input, memory_format=None):
    return _cast(t, input, torch.complex128)


@rule(T.cfloat)
def real_cfloat(t, input, memory_format=None):
    return _cast(t, input, torch.complex64)


@rule(T.cdouble)
def real_cdouble(t, input, memory_format=None):
    return _cast(t, input, torch.complex128)


# ---- what moves elements: the same of the pair ----


def _behind(dim):
    """A dim counted from the end, where the pair has one more."""
    return dim - 1 if isinstance(dim, int) and dim < 0 else dim


def _all_behind(dims):
    return tuple(map(_behind, dims)) if isinstance(dims, (tuple, list)) else _behind(dims)


def _moved(t, result):
    if isinstance(result, (tuple, list)):
        return type(result)([complex_of(t, x) for x in result])
    return complex_of(t, result)


def _of_dims(function, *names):
    """A function whose integers are dims, but for those that `names` does not have."""
    functions = [x for name in names for x in named(name)]

    @complex_rule(*functions)
    def traced(t, input, *args, **kwargs):
        kwargs = {name: _all_behind(x) for name, x in kwargs.items()}
        return _moved(t, function(pair_of(t, input), *map(_all_behind, args), **kwargs))


_of_dims(torch.transpose, "transpose", "swapaxes", "swapdims")
_of_dims(torch.movedim, "movedim", "moveaxis")
_of_dims(torch.unbind, "unbind")
_of_dims(torch.squeeze, "squeeze")
_of_dims(lambda pair, *dims: torch.flip(pair, dims[0] if isinstance(dims[0], tuple) else dims), "flip")


@complex_rule(*named("unsqueeze"))
def unsqueeze(t, input, dim):
    return complex_of(t, torch.unsqueeze(pair_of(t, input), _behind(dim)))


def _of_dim(function, *names):
    """A function of (input, how, dim=0)."""

    @complex_rule(*[x for name in names for x in named(name)])
    def traced(t, input, how, dim=0):
        return _moved(t, function(pair_of(t, input), how, _behind(dim)))


_of_dim(torch.split, "split", "split_with_sizes")
_of_dim(torch.chunk, "chunk")
_of_dim(torch.tensor_split, "tensor_split")


@complex_rule(*named("select"))
def select(t, input, dim, index):
    return complex_of(t, torch.select(pair_of(t, input), _behind(dim), index))


@complex_rule(*named("narrow"))
def narrow(t, input, dim, start, length):
    return complex_of(t, torch.narrow(pair_of(t, input), _behind(dim), start, length))


@complex_rule(*named("index_select"))
def index_select(t, input, dim, index):
    return complex_of(t, torch.index_select(pair_of(t, input), _behind(dim), index))


@complex_rule(T.T.__get__, T.mT.__get__, *named("t"))
def transposed(t, input):
    return complex_of(t, pair_of(t, input).transpose(-2, -3)) if input.dim() > 1 else input


@complex_rule(T.H.__get__, T.mH.__get__, *named("adjoint"))
def adjoint(t, input):
    return conj(t, transposed(t, input))


@complex_rule(*named("permute"))
def permute(t, input, *dims):
    dims = dims[0] if len(dims) == 1 and isinstance(dims[0], (tuple, list)) else dims
    return complex_of(t, pair_of(t, input).permute(*[_behind(d) for d in dims], -1))


def _of_sizes(method, last, *names):
    """A method whose integers are sizes; the pair's last dim has `last`."""

    @complex_rule(*[x for name in names for x in named(name)])
    def traced(t, input, *sizes):
        sizes = sizes[0] if len(sizes) == 1 and isinstance(sizes[0], (tuple, list, torch.Size)) else sizes
        if sizes and isinstance(sizes[0], torch.dtype):
            unsupported(t, "view(dtype) of a complex tensor: use torch.view_as_real(x)")
        return complex_of(t, getattr(pair_of(t, input), method)(*sizes, last))


_of_sizes("reshape", 2, "reshape")
_of_sizes("view", 2, "view", "_unsafe_view")
_of_sizes("expand", 2, "expand", "broadcast_to")
_of_sizes("repeat", 1, "repeat")
_of_sizes("tile", 1, "tile")


@complex_rule(T.expand_as, T.view_as, T.reshape_as)
def as_other(t, input, other):
    pair = pair_of(t, input)
    return complex_of(t, pair.reshape(*other.shape, 2) if input.numel() == other.numel() else pair.expand(*other.shape, 2))


@complex_rule(*named("flatten"))
def flatten(t, input, start_dim=0, end_dim=-1):
    pair = pair_of(t, input)
    if input.dim() == 0:
        return complex_of(t, pair.reshape(1, 2))
    return complex_of(t, torch.flatten(pair, _behind(start_dim), _behind(end_dim)))


@complex_rule(*named("unflatten"))
def unflatten(t, input, dim, sizes):
    return complex_of(t, pair_of(t, input).unflatten(_behind(dim), sizes))


@complex_rule(*named("roll"))
def roll(t, input, shifts, dims=None):
    pair = pair_of(t, input)
    if dims is None or dims == ():
        return complex_of(t, torch.roll(pair.reshape(-1, 2), shifts, 0).reshape(pair.shape))
    return complex_of(t, torch.roll(pair, shifts, _all_behind(dims)))


@complex_rule(T.contiguous)
def itself(t, input, **_):
    return input


def _copied(function, *functions):
    @complex_rule(*functions)
    def traced(t, input, *_, **__):
        return complex_of(t, function(pair_of(t, input)))


_copied(torch.clone, *named("clone"))
_copied(torch.detach, *named("detach"))


def _several(function, *names):
    """A function of (tensors, dim=0)."""

    @complex_rule(*[x for name in names for x in named(name)])
    def traced(t, tensors, dim=0):
        return complex_of(t, function([paired(t, x) for x in tensors], _behind(dim)))


_several(torch.cat, "cat", "concat", "concatenate")
_several(torch.stack, "stack")


@complex_rule(F.pad, aten.pad, aten.constant_pad_nd)
def pad(t, input, pad, mode="constant", value=None):
    if mode != "constant" or value not in (None, 0):
        unsupported(t, f"pad of a complex tensor by mode {mode!r} and value {value!r}: only zeros; pad x.real and x.imag")
    return complex_of(t, F.pad(pair_of(t, input), [0, 0, *pad]))


@complex_rule(*named("where"))
def where(t, condition, input, other):
    a, b = paired(t, input), paired(t, other)
    return complex_of(t, torch.where(condition.unsqueeze(-1), a, b))


@complex_rule(*named("masked_fill"))
def masked_fill(t, input, mask, value):
    pair = pair_of(t, input)
    return complex_of(t, torch.where(mask.unsqueeze(-1), paired(t, value, pair), pair))


@complex_rule(*named("tril"), *named("triu"))
def triangle(t, input, diagonal=0):
    unsupported(t, "tril and triu of a complex tensor: multiply it by a mask of ones and zeros")


@complex_rule(*named("zeros_like"), *named("ones_like"))
def like(t, input, *, dtype=None, **_):
    value = 1 if t.called in (torch.ones_like, aten.ones_like) else 0
    dtype = dtype or input.dtype
    return torch.full(input.shape, value, dtype=dtype)


# ---- elements by their index ----


def _index_of_pair(index):
    """The same of the pair, whose last dim is whole."""
    several = index if isinstance(index, tuple) else (index,)
    spread = any(x is Ellipsis for x in several if not isinstance(x, torch.Tensor))
    return (*several, slice(None)) if spread else several


@complex_rule(T.__getitem__)
def getitem(t, input, index):
    return complex_of(t, pair_of(t, input)[_index_of_pair(index)])


@complex_rule(T.__setitem__)
def setitem(t, input, index, update):
    if not is_complex(input):
        unsupported(t, "writing complex numbers into a real tensor drops their imaginary parts: write x.real")
    pair = pair_of(t, input)
    pair[_index_of_pair(index)] = paired(t, update, pair)


# ---- arithmetic ----


@complex_rule(*named("add"), T.__add__, T.__radd__)
def add(t, input, other, *, alpha=1):
    if alpha != 1:
        other = mul(t, other, alpha)
    return complex_of(t, torch.add(*_both(t, input, other)))


@complex_rule(*named("sub"), *named("subtract"), T.__sub__)
def sub(t, input, other, *, alpha=1):
    if alpha != 1:
        other = mul(t, other, alpha)
    return complex_of(t, torch.sub(*_both(t, input, other)))


@complex_rule(torch.rsub, T.__rsub__, aten.rsub)
def rsub(t, input, other, *, alpha=1):
    return sub(t, other, input, alpha=alpha)


def _both(t, a, b):
    """The pairs of two operands, of one dtype; a number takes the other's."""
    if not isinstance(a, torch.Tensor) or not isinstance(b, torch.Tensor):
        like = b if isinstance(b, torch.Tensor) else a
        like = pair_of(t, like) if is_complex(like) else like if like.dtype.is_floating_point else like.float()
        return tuple(paired(t, x) if isinstance(x, torch.Tensor) else paired(t, x, like) for x in (a, b))
    return paired(t, a), paired(t, b)


@complex_rule(*named("mul"), *named("multiply"), T.__mul__, T.__rmul__)
def mul(t, input, other):
    if not (isinstance(input, torch.Tensor) and is_complex(input)):
        input, other = other, input
    (a, b), (c, d) = parts(t, input), parts(t, other)
    if b is None or not isinstance(input, torch.Tensor):  # a complex number by a real tensor
        return joined(t, a * c, (a if b is None else c) * (d if b is None else b))
    if d is None:
        return complex_of(t, pair_of(t, input) * (c.unsqueeze(-1) if isinstance(c, torch.Tensor) else c))
    return joined(t, a * c - b * d, a * d + b * c)


@complex_rule(*named("div"), *named("divide"), *named("true_divide"), T.__truediv__, T.__div__)
def div(t, input, other, *, rounding_mode=None):
    if rounding_mode is not None:
        unsupported(t, "a rounded quotient of complex numbers")
    c, d = parts(t, other)
    if d is None:
        return complex_of(t, pair_of(t, input) / (c.unsqueeze(-1) if isinstance(c, torch.Tensor) else c))
    return mul(t, input, reciprocal(t, other))


@complex_rule(T.__rtruediv__, T.__rdiv__)
def rdiv(t, input, other):
    return div(t, other, input)


@complex_rule(*named("reciprocal"))
def reciprocal(t, input):
    if isinstance(input, complex):
        return 1 / input
    a, b = parts(t, input)
    size = a * a + b * b
    return joined(t, a / size, -b / size)


@complex_rule(*named("neg"), *named("negative"), T.__neg__)
def neg(t, input):
    return complex_of(t, -pair_of(t, input))


@complex_rule(*named("square"))
def square(t, input):
    return mul(t, input, input)


@complex_rule(*named("pow"), T.__pow__)
def pow_(t, input, exponent):
    whole = isinstance(exponent, (int, float)) and float(exponent).is_integer() and 1 <= exponent <= 16
    if not whole:
        unsupported(t, f"a power of a complex tensor by {exponent!r:.60}: only whole numbers of 1 to 16; use torch.exp and log")
    result = input
    for _ in range(int(exponent) - 1):
        result = mul(t, result, input)
    return result


@complex_rule(*named("exp"))
def exp(t, input):
    a, b = parts(t, input)
    size = torch.exp(a)
    return joined(t, size * torch.cos(b), size * torch.sin(b))


@complex_rule(*named("log"))
def log(t, input):
    return joined(t, torch.log(abs_(t, input)), angle(t, input))


@complex_rule(*named("sin"))
def sin(t, input):
    a, b = parts(t, input)
    return joined(t, torch.sin(a) * torch.cosh(b), torch.cos(a) * torch.sinh(b))


@complex_rule(*named("cos"))
def cos(t, input):
    a, b = parts(t, input)
    return joined(t, torch.cos(a) * torch.cosh(b), -(torch.sin(a) * torch.sinh(b)))


@complex_rule(*named("eq"), T.__eq__)
def eq(t, input, other):
    return torch.eq(*_both(t, input, other)).all(-1)


@complex_rule(*named("ne"), *named("not_equal"), T.__ne__)
def ne(t, input, other):
    return torch.ne(*_both(t, input, other)).any(-1)


@complex_rule(*named("isfinite"))
def isfinite(t, input):
    return torch.isfinite(pair_of(t, input)).all(-1)


@complex_rule(*named("isnan"))
def isnan(t, input):
    return torch.isnan(pair_of(t, input)).any(-1)


# ---- sums ----


def _reduced(function, *names):
    @complex_rule(*[x for name in names for x in named(name)])
    def traced(t, input, dim=None, keepdim=False, *, dtype=None):
        pair = pair_of(t, _cast(t, input, dtype))
        if dim is None or (isinstance(dim, (tuple, list)) and not dim):
            return complex_of(t, function(pair, tuple(range(input.dim())), keepdim=keepdim) if input.dim() else pair)
        return complex_of(t, function(pair, _all_behind(dim), keepdim=keepdim))


_reduced(torch.sum, "sum")
_reduced(torch.mean, "mean")


@complex_rule(*named("cumsum"))
def cumsum(t, input, dim, *, dtype=None):
    return complex_of(t, torch.cumsum(pair_of(t, _cast(t, input, dtype)), _behind(dim)))


# ---- products: of the parts ----


def _product(t, function, a, b):
    (ar, ai), (br, bi) = parts(t, a), parts(t, b)
    if bi is None:
        return joined(t, function(ar, br), function(ai, br))
    if ai is None:
        return joined(t, function(ar, br), function(ar, bi))
    return joined(t, function(ar, br) - function(ai, bi), function(ar, bi) + function(ai, br))


def _products(function, *functions):
    @complex_rule(*functions)
    def traced(t, input, other):
        return _product(t, function, input, other)


_products(torch.matmul, *named("matmul"), *named("mm"), *named("bmm"), *named("mv"), *named("dot"), T.__matmul__)
_products(lambda a, b: torch.matmul(b, a), T.__rmatmul__)
_products(torch.outer, *named("outer"), *named("ger"))


@complex_rule(*named("vdot"))
def vdot(t, input, other):
    return _product(t, torch.dot, conj(t, input), other)


@complex_rule(F.linear, aten.linear)
def linear(t, input, weight, bias=None):
    result = _product(t, F.linear, input, weight)
    return result if bias is None else add(t, result, bias)


@complex_rule(torch.einsum, aten.einsum)
def einsum(t, equation, *operands):
    operands = list(operands[0]) if len(operands) == 1 and isinstance(operands[0], (tuple, list)) else list(operands)
    terms = [((), 1, False)]  # operands so far, sign, whether the product is imaginary
    for x in operands:
        a, b = parts(t, x)
        more = [((*done, a), sign, imaginary) for done, sign, imaginary in terms]
        if b is not None:
            more += [((*done, b), -sign if imaginary else sign, not imaginary) for done, sign, imaginary in terms]
        terms = more
    sums = [None, None]
    for factors, sign, imaginary in terms:
        product, so_far = torch.einsum(equation, *factors), sums[imaginary]
        sums[imaginary] = (
            (product if sign > 0 else -product) if so_far is None else so_far + product if sign > 0 else so_far - product
        )
    return joined(t, *sums)


# ---- in place ----


def _writes(name, function):
    methods = [place for place in (getattr(T, f"{name}_", None), getattr(T, f"__i{name}__", None)) if place is not None]
    methods += [getattr(aten, f"{name}_")] if hasattr(aten, f"{name}_") else []

    @complex_rule(*methods)
    def traced(t, input, *args, **kwargs):
        if not is_complex(input):
            unsupported(t, "writing complex numbers into a real tensor drops their imaginary parts: write x.real")
        result = function(t, input, *args, **kwargs)
        in_place(t, pair_of(t, input), pair_of(t, result), True)
        return input


for _name, _function in {
    "add": add, "sub": sub, "mul": mul, "div": div, "truediv": div, "neg": neg, "exp": exp, "masked_fill": masked_fill,
}.items():  # fmt: skip
    _writes(_name, _function)


@complex_rule(T.copy_, aten.copy_)
def copy_(t, input, source, non_blocking=False):
    if not is_complex(input):
        unsupported(t, "copying complex numbers into a real tensor drops their imaginary parts: copy x.real")
    pair = pair_of(t, input)
    pair.copy_(paired(t, source, pair))
    return input


@complex_rule(T.zero_, aten.zero_)
def zero_(t, input):
    pair_of(t, input).zero_()
    return input


@complex_rule(T.fill_, aten.fill_)
def fill_(t, input, value):
    pair = pair_of(t, input)
    pair.copy_(paired(t, value, pair).expand(pair.shape))
    return input
