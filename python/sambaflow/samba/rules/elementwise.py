# SPDX-License-Identifier: Apache-2.0
"""Elementwise functions, casts, booleans."""
import math

import torch
import torch.nn.functional as F

from sambaflow._core import lib
from sambaflow.samba.rules.common import binary, cast, in_place, method_in_place, unsupported
from sambaflow.samba.trace import RULES, rule

aten = torch.ops.aten
T = torch.Tensor

# ---- elementwise ----


def _reflected(call, *functions):
    @rule(*functions)
    def traced(t, input, other):
        return t.wrap(call(t.operand(other, input), t.value(input)))


def _sum(call, *functions):
    """A sum or difference whose second operand may be scaled."""

    @rule(*functions)
    def traced(t, input, other, *, alpha=1):
        like = input if isinstance(input, torch.Tensor) else other
        a, b = t.operand(input, like), t.operand(other, like)
        if alpha != 1:
            b = lib.samba_mul(b, t.number(alpha, other if isinstance(other, torch.Tensor) else like))
        return t.wrap(call(a, b))

    return traced


add = _sum(lib.samba_add, torch.add, T.add, T.__add__, T.__radd__, aten.add)
sub = _sum(lib.samba_sub, torch.sub, T.sub, T.__sub__, torch.subtract, aten.sub)


@rule(torch.rsub, T.__rsub__, aten.rsub)
def rsub(t, input, other, *, alpha=1):
    return sub(t, other, input, alpha=alpha)


binary(lib.samba_mul, torch.mul, torch.multiply, T.mul, T.__mul__, T.__rmul__, aten.mul)
binary(lib.samba_maximum, torch.maximum, T.maximum, aten.maximum)
binary(lib.samba_minimum, torch.minimum, T.minimum, aten.minimum)
binary(lib.samba_eq, torch.eq, T.eq, T.__eq__, aten.eq)
binary(lib.samba_ne, torch.ne, T.ne, T.__ne__, aten.ne)
binary(lib.samba_lt, torch.lt, T.lt, T.__lt__, aten.lt)
binary(lib.samba_le, torch.le, T.le, T.__le__, aten.le)
binary(lib.samba_gt, torch.gt, T.gt, T.__gt__, aten.gt)
binary(lib.samba_ge, torch.ge, T.ge, T.__ge__, aten.ge)
binary(lib.samba_pow, torch.pow, T.pow, T.__pow__, aten.pow)
_reflected(lib.samba_pow, T.__rpow__)
_reflected(lib.samba_div, T.__rtruediv__, T.__rdiv__)


_quotient = binary(lib.samba_div)


@rule(torch.div, torch.true_divide, torch.divide, T.div, T.__truediv__, T.__div__, aten.div)
def div(t, input, other, *, rounding_mode=None):
    if rounding_mode is not None:
        return _whole_quotient(t, input, other, {"floor": _floor, "trunc": trunc}[rounding_mode])
    return _quotient(t, input, other)


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
    return in_place(t, input, t.wrap(lib.samba_relu(t.value(input))), inplace)


@rule(F.silu, aten.silu)
def silu(t, input, inplace=False):
    value = t.value(input)
    return in_place(t, input, t.wrap(lib.samba_mul(value, lib.samba_sigmoid(value))), inplace)


@rule(F.gelu, aten.gelu)
def gelu(t, input, approximate="none"):
    return t.wrap((lib.samba_gelu_tanh if approximate == "tanh" else lib.samba_gelu)(t.value(input)))


@rule(torch.square, T.square)
def square(t, input):
    value = t.value(input)
    return t.wrap(lib.samba_mul(value, value))


@rule(torch.where, aten.where)
def where(t, condition, input=None, other=None):
    if input is None:
        unsupported(t, "torch.where(condition) alone gives indices, whose number depends on values: use where(condition, a, b)")
    like = input if isinstance(input, torch.Tensor) else other if isinstance(other, torch.Tensor) else torch.tensor(input)
    return t.wrap(lib.samba_where(t.value(condition), t.operand(input, like), t.operand(other, like)))


@rule(T.where)
def where_method(t, input, condition, other):
    return where(t, condition, input, other)


@rule(T.masked_fill, torch.masked_fill, aten.masked_fill)
def masked_fill(t, input, mask, value):
    return t.wrap(lib.samba_where(t.value(mask), t.operand(value, input), t.value(input)))


@rule(torch.clamp, T.clamp, torch.clip, T.clip, aten.clamp)
def clamp(t, input, min=None, max=None):
    value = t.value(input)
    if min is not None:
        value = lib.samba_maximum(value, t.operand(min, input))
    if max is not None:
        value = lib.samba_minimum(value, t.operand(max, input))
    return t.wrap(value)


# ---- dtypes ----


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


@rule(T.contiguous, T.clone, torch.clone, aten.clone, aten.alias, aten.lift_fresh, T.cpu, T.requires_grad_)
def same(t, input, *_, **__):
    return t.wrap(t.value(input))


@rule(T.detach, torch.detach, aten.detach)
def detach(t, input):
    return t.wrap(lib.samba_detach(t.value(input)))


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


@rule(T.__xor__, torch.bitwise_xor, T.bitwise_xor, aten.bitwise_xor)
def bitwise_xor(t, input, other):
    return _logical(t, "xor", lib.samba_ne, input, other)


def _logical(t, name, call, a, b):
    for x in (a, b):
        if not isinstance(x, torch.Tensor) or x.dtype is not torch.bool:
            unsupported(t, f"'{name}' of {getattr(x, 'dtype', type(x).__name__)}: expected bool tensors; compare first")
    return t.wrap(call(t.value(a), t.value(b)))


# ---- rounding to integers, and what is left ----

_unary(lib.samba_floor, torch.floor, T.floor, aten.floor)
_unary(lib.samba_sign, torch.sign, T.sign, torch.sgn, aten.sign)


@rule(torch.round, T.round, aten.round)
def round_(t, input, *, decimals=0):
    if decimals:
        return round_(t, input * 10.0**decimals) / 10.0**decimals
    return t.wrap(lib.samba_round(t.value(input)))


@rule(torch.ceil, T.ceil, aten.ceil)
def ceil(t, input):
    return -torch.floor(-input)


@rule(torch.trunc, T.trunc, torch.fix, aten.trunc)
def trunc(t, input):
    return torch.where(input < 0, ceil(t, input), torch.floor(input))


@rule(torch.frac, T.frac)
def frac(t, input):
    return input - trunc(t, input)


def _whole_quotient(t, input, other, rounding):
    """Quotients of integers are exact in float64 up to 2^53."""
    quotient = _quotient(t, *(cast(t, x, torch.float64) if isinstance(x, torch.Tensor) and not x.dtype.is_floating_point else x for x in (input, other)))
    floats = [x for x in (input, other) if isinstance(x, float) or (isinstance(x, torch.Tensor) and x.dtype.is_floating_point)]
    return cast(t, rounding(t, quotient), None if floats else torch.result_type(*(torch.empty(x.shape, dtype=x.dtype) if isinstance(x, torch.Tensor) else x
                                                                                 for x in (input, other))))  # fmt: skip


def _floor(t, input):
    return torch.floor(input)


@rule(torch.floor_divide, T.floor_divide, T.__floordiv__, aten.floor_divide)
def floor_divide(t, input, other):
    return _whole_quotient(t, input, other, _floor)


@rule(T.__rfloordiv__)
def rfloor_divide(t, input, other):
    return _whole_quotient(t, other, input, _floor)


@rule(torch.remainder, T.remainder, T.__mod__, aten.remainder)
def remainder(t, input, other):
    return input - floor_divide(t, input, other) * other


@rule(torch.fmod, T.fmod, aten.fmod)
def fmod(t, input, other):
    return input - _whole_quotient(t, input, other, trunc) * other


# ---- composed of others ----

_unary(lib.samba_log1p, torch.log1p, T.log1p, aten.log1p)
_unary(lib.samba_expm1, torch.expm1, T.expm1, aten.expm1)
_unary(lib.samba_sin, torch.sin, T.sin, aten.sin)
_unary(lib.samba_cos, torch.cos, T.cos, aten.cos)


def _composed(*functions):
    """A function of tensors made of other torch functions."""

    def register(f):
        rule(*functions)(lambda t, *args, **kwargs: f(*args, **kwargs))
        return f

    return register


_composed(torch.tan, T.tan)(lambda x: torch.sin(x) / torch.cos(x))
_composed(torch.sinh, T.sinh)(lambda x: (torch.expm1(x) - torch.expm1(-x)) * 0.5)
_composed(torch.cosh, T.cosh)(lambda x: (torch.exp(x) + torch.exp(-x)) * 0.5)
_composed(torch.exp2, T.exp2, aten.exp2)(lambda x: torch.exp(x * math.log(2)))
_composed(torch.log2, T.log2, aten.log2)(lambda x: torch.log(x) / math.log(2))
_composed(torch.log10, T.log10, aten.log10)(lambda x: torch.log(x) / math.log(10))
_composed(torch.erfc, T.erfc, aten.erfc)(lambda x: 1 - torch.erf(x))
_composed(torch.logit, T.logit)(lambda x, eps=None: torch.log(y := x if eps is None else x.clamp(eps, 1 - eps)) - torch.log1p(-y))
_composed(torch.isnan, T.isnan, aten.isnan)(lambda x: x != x)
_composed(torch.isinf, T.isinf, aten.isinf)(lambda x: torch.abs(x) == math.inf)
_composed(torch.isfinite, T.isfinite)(lambda x: torch.abs(x) < math.inf)
_composed(torch.logaddexp, T.logaddexp, aten.logaddexp)(lambda a, b: torch.maximum(a, b) + F.softplus(-torch.abs(a - b)))
_composed(torch.hypot, T.hypot)(lambda a, b: torch.sqrt(a * a + b * b))
_composed(torch.clamp_min, T.clamp_min, aten.clamp_min)(lambda x, min: torch.clamp(x, min=min))
_composed(torch.clamp_max, T.clamp_max, aten.clamp_max)(lambda x, max: torch.clamp(x, max=max))
_composed(torch.addcmul, T.addcmul, aten.addcmul)(lambda x, a, b, value=1: x + a * b * value)
_composed(torch.addcdiv, T.addcdiv, aten.addcdiv)(lambda x, a, b, value=1: x + a / b * value)
_composed(torch.lerp, T.lerp, aten.lerp)(lambda a, b, weight: a + weight * (b - a))
_composed(torch.logical_xor, T.logical_xor, aten.logical_xor)(lambda a, b: (a != 0) != (b != 0))
_composed(torch.heaviside, T.heaviside)(lambda x, values: torch.where(x == 0, values, torch.where(x > 0, 1, torch.zeros((), dtype=x.dtype))))


@rule(torch.nan_to_num, T.nan_to_num)
def nan_to_num(t, input, nan=0.0, posinf=None, neginf=None):
    limits = torch.finfo(input.dtype)
    input = torch.where(input != input, nan or 0.0, input)
    input = torch.where(input == math.inf, limits.max if posinf is None else posinf, input)
    return torch.where(input == -math.inf, limits.min if neginf is None else neginf, input)


_IN_PLACE = """add sub mul div pow clamp clamp_min clamp_max masked_fill relu tanh sigmoid neg exp log sqrt rsqrt abs floor ceil round trunc reciprocal
    square sin cos log1p expm1 sign erf addcmul addcdiv lerp remainder floor_divide logical_and logical_or logical_not nan_to_num"""
for _name in _IN_PLACE.split():
    method_in_place(getattr(T, _name + "_"), RULES[getattr(T, _name)])
for _name in ("add", "sub", "mul", "truediv", "pow", "floordiv", "mod", "and", "or", "xor"):
    method_in_place(getattr(T, f"__i{_name}__"), RULES[getattr(T, f"__{_name}__")])
method_in_place(aten.add_, add)
method_in_place(aten.relu_, relu)
method_in_place(torch.relu_, relu)
