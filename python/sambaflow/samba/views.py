# SPDX-License-Identifier: Apache-2.0
"""Views and writing into tensors. A graph has no memory to write into: a write makes the tensor stand for a new value from then on.

A view remembers its parent, how it is read from the parent's value, and how the parent's value follows from its own. Writing into a view
writes into its parent with what follows, up to the root; other views of that root notice when they are read next, and are read anew.
`reshape` gives a view where torch can, else a copy; which one it was is asked of torch, on a meta tensor, when somebody writes."""
import torch

from sambaflow._core import lib
from sambaflow.errors import UnsupportedError
from sambaflow.samba.sambatensor import SambaTensor, from_value, take_form


class View:
    """What a tensor is of another one."""

    __slots__ = ("parent", "form", "get", "put", "meta", "seen")

    def __init__(self, parent, get, put, meta):
        self.parent, self.form, self.get, self.put, self.meta = parent, parent._form, get, put, meta
        self.seen = _root(parent)._written


def _root(x):
    while x._view is not None:
        x = x._view.parent
    return x


def view(t, input, get, put, meta):
    """A view of `input`. get(parent's value) is its value; put(parent's value, its value) the parent's after a write; meta(tensor) does the
    same to a torch tensor, or raises RuntimeError where torch would copy."""
    result = t.wrap(get(t.value(input)))
    if isinstance(input, SambaTensor):
        result._view = View(input, get, put, meta)
    return result


def _strides(t, x):
    """A meta tensor with the memory layout that x has in torch; cuts what turns out to be a copy off its parent."""
    if x._view is None:
        return torch.empty(x.shape, device="meta")
    if x._view.parent._form != x._view.form:
        raise UnsupportedError(f"a view of a tensor whose shape was changed in place since: make the view anew, or use the function that returns a new tensor{t.where()}")
    parent = _strides(t, x._view.parent)
    try:
        with torch._C.DisableTorchFunctionSubclass():
            return x._view.meta(parent)
    except RuntimeError:
        x._view = None
        return torch.empty(x.shape, device="meta")


def refresh(t, x):
    """Reads a view again after its root was written into."""
    if x._view.seen == _root(x)._written:
        return
    _strides(t, x)
    if x._view is not None:
        x._value = x._view.get(t.value(x._view.parent))
        x._view.seen = _root(x)._written


def write(t, x, value):
    """From here on the tensor stands for this value."""
    if not isinstance(x, SambaTensor):
        _refuse(t)
    _strides(t, x)
    x._written += 1
    if x._view is not None:
        its = x._view
        write(t, its.parent, its.put(t.value(its.parent), value))
        x._value, its.seen = value, _root(x)._written
    elif t.is_buffer(x):
        t.assign(x, value)
    elif id(x) in t.names or (x._held is not None and x._held.untyped_storage().nbytes() > x._held.numel() * x._held.element_size()):
        _refuse(t)
    else:
        x._value = value
        if id(x) in t.kept_regions:
            t.assigned[id(x)] = (t.kept_regions[id(x)], value)
    t.check()


def _refuse(t):
    raise UnsupportedError(
        "writing in place into a parameter, a tensor from outside the model, or a view of a tensor of constants: use the operation that returns "
        f"a new tensor, and index in one step{t.where()}"
    )


def reshape_itself(t, x, change):
    """x.unsqueeze_() and the like: from here on x is a view, by `change`, of a tensor that is what x has been."""
    if id(x) in t.names or id(x) in t.kept_regions:
        raise UnsupportedError(f"a change of shape in place of a parameter, a buffer or memory that several inputs share: use the function that returns a new tensor{t.where()}")
    before = from_value(t.value(x), x.shape, x.dtype)
    before._view, before._written = x._view, x._written
    changed = change(before)
    if changed is not before:
        x._value, x._view, x._form = changed._value, changed._view, x._form + 1
        take_form(x, from_value(x._value, changed.shape, x.dtype))
    return x


def in_place(t, input, result, inplace, takes_shape=False):
    """`inplace=True` of functions, and methods that end in '_': the tensor stands for the new value from now on. As `out` it takes the shape where it
    has no elements."""
    if not inplace:
        return result
    other = input.shape != result.shape
    if other and not (takes_shape and input.numel() == 0):
        raise UnsupportedError(f"an operation in place that makes {tuple(result.shape)} of {tuple(input.shape)}{t.where()}")
    value = t.value(result)
    if not torch.can_cast(result.dtype, input.dtype):
        raise TypeError(f"a result of {result.dtype} cannot be written in place into a tensor of {input.dtype}: cast the tensor first")
    if result.dtype != input.dtype:
        value = lib.samba_cast(value, lib.samba_value_dtype(t.value(input)))
    write(t, input, value)
    if other:
        take_form(input, from_value(value, result.shape, input.dtype))
    return input
