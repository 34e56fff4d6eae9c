# SPDX-License-Identifier: Apache-2.0
"""Elementwise functions, casts, booleans."""

import math

import torch

from sambaflow._core import ffi, lib
from sambaflow.samba import nominal
from sambaflow.samba.rules.common import NONE, binary, cast, floating, method_in_place, named, unary, unsupported
from sambaflow.samba.trace import RULES, rule
from sambaflow.samba.views import hidden, root, unseen, view

aten = torch.ops.aten
T = torch.Tensor


def _also_named(words):
    """ "name=other": the library's function samba_<name> serves torch's functions of other names too.
    Its own are known without (operators.py)."""
    for word in words.split():
        name, *others = word.split("=")
        call = getattr(lib, f"samba_{name}")
        (unary, binary)[len(ffi.typeof(call).args) - 1](call, *(f for other in others for f in named(other)))


def _reflected(call, *functions):
    @rule(*functions)
    def traced(t, input, other):
        return t.wrap(call(t.operand(other), t.value(input)))


_also_named(
    """neg=negative=__neg__ abs=absolute=__abs__ sign=sgn floor=__floor__ ceil=__ceil__ trunc=fix=__trunc__ asin=arcsin acos=arccos atan=arctan
    asinh=arcsinh acosh=arccosh atanh=arctanh bitwise_not=__invert__ mul=multiply=__mul__=__rmul__ floor_divide=__floordiv__ remainder=__mod__
    pow=__pow__ atan2=arctan2 eq=__eq__ ne=not_equal=__ne__ lt=less=__lt__ le=less_equal=__le__ gt=greater=__gt__ ge=greater_equal=__ge__
    bitwise_and=__and__=__rand__ bitwise_or=__or__=__ror__ bitwise_xor=__xor__=__rxor__ left_shift=bitwise_left_shift=__lshift__
    right_shift=bitwise_right_shift=__rshift__"""  # noqa: E501
)
_reflected(lib.samba_pow, T.__rpow__)
_reflected(lib.samba_div, T.__rtruediv__, T.__rdiv__)
_reflected(lib.samba_floor_divide, T.__rfloordiv__)
_reflected(lib.samba_remainder, T.__rmod__)
_reflected(lib.samba_left_shift, T.__rlshift__)
_reflected(lib.samba_right_shift, T.__rrshift__)

# ---- with options ----


def _sum(call, scaled, *functions):
    """A sum or difference whose second operand may be scaled."""

    @rule(*functions)
    def traced(t, input, other, *, alpha=1):
        a, b = t.operand(input), t.operand(other)
        return t.wrap(call(a, b) if alpha == 1 else scaled(a, b, t.number(alpha)))

    return traced


add = _sum(lib.samba_add, lib.samba_add_alpha, torch.add, T.add, T.__add__, T.__radd__, aten.add)
sub = _sum(lib.samba_sub, lib.samba_sub_alpha, torch.sub, T.sub, T.__sub__, torch.subtract, T.subtract, aten.sub)


@rule(torch.rsub, T.__rsub__, aten.rsub)
def rsub(t, input, other, *, alpha=1):
    return sub(t, other, input, alpha=alpha)


_ROUNDED = {None: lib.samba_div, "floor": lib.samba_floor_divide, "trunc": lib.samba_trunc_divide}


@rule(torch.div, torch.true_divide, torch.divide, T.div, T.divide, T.true_divide, T.__truediv__, T.__div__, aten.div)
def div(t, input, other, *, rounding_mode=None):
    if rounding_mode not in _ROUNDED:
        raise ValueError(f"rounding_mode must be None, 'floor' or 'trunc', given {rounding_mode!r}")
    return t.wrap(_ROUNDED[rounding_mode](t.operand(input), t.operand(other)))


@rule(torch.round, T.round, torch.special.round, aten.round)
def round_(t, input, *, decimals=0):
    return t.wrap(lib.samba_round_decimals(t.value(input), decimals))


@rule(torch.logit, T.logit, aten.logit)
def logit(t, input, eps=None):
    return t.wrap(lib.samba_logit(t.value(input), -1.0 if eps is None else eps))


@rule(torch.where, aten.where)
def where(t, condition, input=None, other=None):
    if input is None:
        unsupported(t, "torch.where(condition) alone gives indices, whose number depends on values: use where(condition, a, b)")
    return t.wrap(lib.samba_where(t.value(condition), t.operand(input), t.operand(other)))


@rule(T.where)
def where_method(t, input, condition, other):
    return where(t, condition, input, other)


@rule(T.masked_fill, torch.masked_fill, aten.masked_fill)
def masked_fill(t, input, mask, value):
    return t.wrap(lib.samba_masked_fill(t.value(input), t.value(mask), t.operand(value)))


@rule(torch.clamp, T.clamp, torch.clip, T.clip, aten.clamp)
def clamp(t, input, min=None, max=None):
    low, high = (NONE if bound is None else t.operand(bound) for bound in (min, max))
    return t.wrap(lib.samba_clamp(t.value(input), low, high))


@rule(torch.clamp_min, T.clamp_min, aten.clamp_min)
def clamp_min(t, input, min):
    return clamp(t, input, min)


@rule(torch.clamp_max, T.clamp_max, aten.clamp_max)
def clamp_max(t, input, max):
    return clamp(t, input, None, max)


@rule(torch.isclose, T.isclose, aten.isclose)
def isclose(t, input, other, rtol=1e-05, atol=1e-08, equal_nan=False):
    return t.wrap(lib.samba_isclose(t.value(input), t.value(other), rtol, atol, equal_nan))


@rule(torch.nan_to_num, T.nan_to_num, aten.nan_to_num)
def nan_to_num(t, input, nan=None, posinf=None, neginf=None):
    most, least = (ffi.NULL if x is None else ffi.new("double *", x) for x in (posinf, neginf))
    return t.wrap(lib.samba_nan_to_num(t.value(input), nan or 0.0, most, least))


def _with_value(call, *functions):
    @rule(*functions)
    def traced(t, input, tensor1, tensor2, *, value=1):
        return t.wrap(call(t.value(input), t.value(tensor1), t.value(tensor2), t.number(value)))


_with_value(lib.samba_addcmul, torch.addcmul, T.addcmul, aten.addcmul)
_with_value(lib.samba_addcdiv, torch.addcdiv, T.addcdiv, aten.addcdiv)


@rule(torch.lerp, T.lerp, aten.lerp)
def lerp(t, input, end, weight):
    return t.wrap(lib.samba_lerp(t.value(input), t.value(end), t.operand(weight)))


# ---- dtypes ----


@rule(T.to)
def to(t, input, *args, **kwargs):
    dtype = kwargs.get("dtype")
    for word in (*args, kwargs.get("other")):
        dtype = word if isinstance(word, torch.dtype) else word.dtype if isinstance(word, torch.Tensor) else dtype
    for word in (*args, kwargs.get("device")):
        if isinstance(word, (str, torch.device)) and torch.device(word).type not in ("cpu", "meta"):
            _elsewhere(f"to({str(word)!r})")
    copy = kwargs.get("copy", len(args) > 1 and args[-1] is True and args[-2] in (True, False))  # behind non_blocking
    return cast(t, clone(t, input) if copy else input, dtype)


def _elsewhere(word):
    nominal.once("to", f"{word} of a tensor in forward: without effect in a graph, all of which runs on the session's device")


@rule(T.type)
def type_(t, input, dtype):
    return cast(t, input, dtype if isinstance(dtype, torch.dtype) else torch.empty(0).type(dtype).dtype)


@rule(T.type_as)
def type_as(t, input, other):
    return cast(t, input, other.dtype)


def _cast_to(dtype, function):
    @rule(function)
    def traced(t, input, memory_format=None):
        return cast(t, input, dtype)


for _name, _dtype in {
    "float": torch.float32,
    "double": torch.float64,
    "half": torch.float16,
    "bfloat16": torch.bfloat16,
    "int": torch.int32,
    "long": torch.int64,
    "short": torch.int16,
    "char": torch.int8,
    "byte": torch.uint8,
    "bool": torch.bool,
}.items():
    _cast_to(_dtype, getattr(T, _name))


@rule(aten._to_copy)
def to_copy(t, input, *, dtype=None, **_):
    return cast(t, clone(t, input), dtype)


@rule(T.clone, torch.clone, aten.clone)
def clone(t, input, **_):
    return t.wrap(t.value(input))


@rule(aten.alias, aten.lift_fresh, T.cpu, T.requires_grad_)
def same(t, input, *_, **__):
    return input


@rule(T.contiguous)
def contiguous(t, input, memory_format=torch.contiguous_format):
    def meta(x):
        if not x.is_contiguous(memory_format=memory_format):
            raise RuntimeError
        return x

    return view(t, input, lambda value: value, lambda _, value: value, meta)


@rule(T.detach, torch.detach, aten.detach)
def detach(t, input):
    """A view. Autograd does not see what is written through it: the tensor has the new values, and the gradient it had."""

    def put(base, value):
        if not floating(input):
            return value
        owner = root(input)
        if t.is_buffer(owner) and id(owner) not in t.assigned:  # it has no gradient
            return hidden(t, value)
        return unseen(t, base, value)

    return view(t, input, lib.samba_detach, put, lambda x: x)


# ---- gamma and its like ----

unary(lib.samba_lgamma, torch.lgamma, T.lgamma, aten.lgamma, torch.special.gammaln)
unary(lib.samba_digamma, torch.digamma, T.digamma, aten.digamma, torch.special.digamma, torch.special.psi)


@rule(torch.polygamma, torch.special.polygamma, aten.polygamma)
def polygamma(t, n, input):
    if n not in (0, 1):
        unsupported(t, f"torch.polygamma is traced for n of 0 and 1, digamma and trigamma, given {n}")
    return t.wrap(lib.samba_polygamma(t.value(input), n))


@rule(T.polygamma)
def polygamma_method(t, input, n):
    return polygamma(t, n, input)


@rule(torch.mvlgamma, T.mvlgamma, aten.mvlgamma, torch.special.multigammaln)
def mvlgamma(t, input, p):
    if p < 1:
        raise ValueError(f"p is 1 or more, given {p}")
    x = input if floating(input) else input.float()
    rest = p * (p - 1) / 4 * math.log(math.pi)
    return torch.lgamma(x.unsqueeze(-1) - torch.arange(p, dtype=x.dtype) / 2).sum(-1) + rest


# ---- in place ----

_IN_PLACE = """abs absolute acos acosh add addcdiv addcmul arccos arccosh arcsin arcsinh arctan arctan2 arctanh asin asinh atan
    atan2 atanh bitwise_and bitwise_left_shift bitwise_not bitwise_or bitwise_right_shift bitwise_xor ceil clamp clamp_max
    clamp_min clip copysign cos cosh div divide eq erf erfc exp exp2 expm1 fix floor floor_divide fmod frac ge greater
    greater_equal gt heaviside hypot le lerp less less_equal log log10 log1p log2 logical_and logical_not logical_or logical_xor
    logit lt masked_fill mul multiply nan_to_num ne neg negative not_equal pow reciprocal relu remainder round rsqrt
    sgn sigmoid sign sin sinh sqrt square sub subtract tan tanh true_divide trunc xlogy"""
_OPERATORS = "add sub mul truediv pow floordiv mod and or xor lshift rshift"


def write_back():
    """The methods that end in '_' and the operators like +=. Called when every function has its rule."""
    for name in _IN_PLACE.split():
        method_in_place(getattr(T, name + "_"), RULES[getattr(T, name)])
    for name in _OPERATORS.split():
        method_in_place(getattr(T, f"__i{name}__"), RULES[getattr(T, f"__{name}__")])
    for name in "exp_ relu_ sigmoid_ tanh_ clamp_ clamp_min_ clamp_max_ sqrt_ rsqrt_ neg_ abs_ sin_ cos_ round_ floor_ ceil_ trunc_ square_ log_ erf_".split():  # noqa: E501
        method_in_place(getattr(torch, name), RULES[getattr(T, name[:-1])])
    method_in_place(aten.add_, add)
    method_in_place(aten.relu_, RULES[aten.relu])
