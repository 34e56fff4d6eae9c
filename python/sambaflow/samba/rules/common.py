# SPDX-License-Identifier: Apache-2.0
"""What rules share: arguments as torch takes them, casts, results in place, and which results are views."""
import weakref

import torch

from sambaflow._core import ffi, lib
from sambaflow.errors import UnsupportedError
from sambaflow.samba.sambatensor import SambaTensor
from sambaflow.samba.trace import RULES, dtype_number, rule

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


def in_place(t, input, result, inplace):
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


def mark_views(function):
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


def method_in_place(method, out_of_place):
    @rule(method)
    def traced(t, input, *args, **kwargs):
        result = out_of_place(t, input, *args, **kwargs)
        if result.dtype != input.dtype:
            result = t.wrap(lib.samba_cast(result._value, dtype_number(input.dtype)))
        return in_place(t, input, result, True)


def cast(t, input, dtype):
    """The tensor itself where nothing changes."""
    return input if dtype in (None, input.dtype) else t.wrap(lib.samba_cast(t.value(input), dtype_number(dtype)))


def optional(t, x):
    return NONE if x is None else t.value(x)


def filled(t, shape, value, like):
    return t.wrap(lib.samba_constant(t.graph, float(value), dtype_number(like.dtype), len(shape), list(shape)))


def binary(call, *functions):
    """A function of two operands, either of which may be a number."""

    @rule(*functions)
    def traced(t, input, other):
        like = input if isinstance(input, torch.Tensor) else other
        return t.wrap(call(t.operand(input, like), t.operand(other, like)))

    return traced
