# SPDX-License-Identifier: Apache-2.0
"""Elementwise functions, casts, booleans and reductions."""
import math

import torch
import torch.nn.functional as F

from sambaflow._core import lib
from sambaflow.samba.rules.common import binary, cast, dims_of, in_place, method_in_place, unsupported
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
        unsupported(t, f"div with rounding_mode={rounding_mode!r} cannot be traced yet: round the quotient before tracing")
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
    like = input if isinstance(input, torch.Tensor) else other if isinstance(other, torch.Tensor) else torch.empty(())
    return t.wrap(lib.samba_where(t.value(condition), t.operand(input, like), t.operand(other, like)))


@rule(T.where)
def where_method(t, input, condition, other):
    return where(t, condition, input, other)


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


@rule(T.contiguous, T.clone, torch.clone, T.detach, torch.detach, aten.clone, aten.detach, aten.alias, aten.lift_fresh, T.cpu)
def same(t, input, *_, **__):
    return t.wrap(t.value(input))


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


for _method, _rule in {T.add_: add, T.__iadd__: add, T.sub_: sub, T.__isub__: sub, T.masked_fill_: masked_fill, T.clamp_: clamp,
                       T.div_: div, T.__itruediv__: div, aten.add_: add, aten.relu_: relu}.items():  # fmt: skip
    method_in_place(_method, _rule)
for _method, _function in {T.mul_: torch.mul, T.__imul__: torch.mul, T.relu_: torch.relu, torch.relu_: torch.relu, T.tanh_: torch.tanh,
                           T.sigmoid_: torch.sigmoid, T.neg_: torch.neg, T.exp_: torch.exp, T.sqrt_: torch.sqrt}.items():  # fmt: skip
    method_in_place(_method, RULES[_function])
