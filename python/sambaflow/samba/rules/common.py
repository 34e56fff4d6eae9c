# SPDX-License-Identifier: Apache-2.0
"""What rules share: arguments as torch takes them, casts, results in place."""

import torch

from sambaflow._core import ffi, lib
from sambaflow.errors import UnsupportedError
from sambaflow.samba.trace import dtype_number, rule
from sambaflow.samba.views import in_place

NONE = ffi.new("samba_value *")[0]  # "left out"


def unsupported(tracer, what):
    raise UnsupportedError(what + tracer.where())


def rank(x):
    return x.dim()


def wrapped_dim(t, what, input, dim):
    """A dim of a tensor as 0 .. rank-1."""
    at = lib.samba_value_dim(t.value(input), what.encode(), dim)
    t.check()
    return at


def dims_of(dim):
    """dim=None, an int or a sequence -> (count, list)."""
    dims = [] if dim is None else [dim] if isinstance(dim, int) else list(dim)
    return len(dims), dims


def sizes_of(sizes):
    """reshape(2, 3) and reshape((2, 3)) alike."""
    return list(sizes[0]) if len(sizes) == 1 and isinstance(sizes[0], (tuple, list, torch.Size)) else list(sizes)


def each(x, count):
    """A number for each of `count` dims of space, from as many, from one in a list, or from one."""
    return [x] * count if isinstance(x, int) else list(x) * (count if len(x) == 1 else 1)


def number(name, x):
    """x, which C takes as a double."""
    try:
        float(x)
    except (TypeError, ValueError):
        raise TypeError(f"{name} must be a number, given {x!r:.100}") from None
    return x


def floating(x):
    return x.dtype.is_floating_point


def method_in_place(method, out_of_place):
    @rule(method)
    def traced(t, input, *args, **kwargs):
        result = out_of_place(t, input, *args, **kwargs)
        return in_place(t, input, result, True)

    traced.__wrapped__ = out_of_place  # has its signature


def cast(t, input, dtype):
    """The tensor itself where nothing changes."""
    return input if dtype in (None, input.dtype) else t.wrap(lib.samba_cast(t.value(input), dtype_number(dtype)))


def optional(t, x):
    return NONE if x is None else t.value(x)


def filled(t, shape, value, like):
    if isinstance(value, int) and float(value) != value:  # more than a double can say
        return t.wrap(t.value(torch.full(list(shape), value, dtype=like.dtype)))
    return t.wrap(lib.samba_constant(t.graph, float(value), dtype_number(like.dtype), len(shape), list(shape)))


def named(name):
    """torch's function, the tensor's method and the ATen operator of a name, as many as there are."""
    places = (
        (torch.Tensor,) if name.startswith("__") else (torch, torch.Tensor, torch.nn.functional, torch.special, torch.ops.aten)
    )
    return [getattr(place, name) for place in places if hasattr(place, name)]


def unary(call, *functions):
    @rule(*functions)
    def traced(t, input):
        return t.wrap(call(t.value(input)))

    return traced


def binary(call, *functions):
    """A function of two operands, either of which may be a number."""

    @rule(*functions)
    def traced(t, input, other):
        return t.wrap(call(t.operand(input), t.operand(other)))

    return traced
