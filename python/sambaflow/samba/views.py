# SPDX-License-Identifier: Apache-2.0
"""Views and writing into tensors. A graph has no memory to write into: a write makes the tensor stand for a new value from then
on.

A view remembers its parent, how it is read from the parent's value, and how the parent's value follows from its own. Writing into
a view writes into its parent with what follows, up to the root; other views of that root notice when they are read next, and are
read anew. What the model makes of numbers (torch.arange, torch.eye, what it computes of them) is memory with values until
something traced is written into it; from then on all tensors over that memory are views of one that is traced.
`reshape` gives a view where torch can, else a copy;
which one it was is asked of torch, on a meta tensor, when somebody writes."""

import torch

from sambaflow import errors
from sambaflow._core import lib
from sambaflow.errors import UnsupportedError
from sambaflow.samba.sambatensor import SambaTensor, from_value, take_form


class View:
    """What a tensor is of another one."""

    __slots__ = ("parent", "form", "get", "put", "meta", "seen")

    def __init__(self, parent, get, put, meta):
        self.parent, self.form, self.get, self.put, self.meta = parent, getattr(parent, "_form", 0), get, put, meta
        self.seen = getattr(root(parent), "_written", 0)


def root(x):
    """The tensor whose memory a view lies in."""
    while getattr(x, "_view", None) is not None:
        x = x._view.parent
    return x


def view(t, input, get, put, meta):
    """A view of `input`. get(parent's value) is its value; put(parent's value, its value) the parent's after a write;
    meta(tensor) does the same to a torch tensor, or raises RuntimeError where torch would copy."""
    result = t.wrap(get(t.value(input)))
    detached = t.grad is False and result.dtype.is_floating_point
    result._view = View(input, (lambda value: lib.samba_detach(get(value))) if detached else get, put, meta)
    return result


def hidden(t, value):
    """The value without its gradient."""
    if value.index not in t.without_gradient:
        value = lib.samba_detach(value)
        t.without_gradient.add(value.index)
    return value


def unseen(t, base, value):
    """What `base` becomes by a write that autograd does not see, behind detach() or in no_grad():
    the new values, and the gradient that it had."""
    if base.index in t.without_gradient:
        return hidden(t, value)
    nothing = lib.samba_where(lib.samba_isfinite(base), lib.samba_sub(base, lib.samba_detach(base)), t.number(0.0))
    return lib.samba_add(nothing, lib.samba_detach(value))


def strides(t, x):
    """A meta tensor with the memory layout that x has in torch; cuts what turns out to be a copy off its parent."""
    held = getattr(x, "_held", x)
    if held is not None:
        return torch.empty(0, device="meta").as_strided(held.shape, held.stride(), held.storage_offset())
    if x._view is None:
        return torch.empty(x.shape, device="meta")
    if getattr(x._view.parent, "_form", 0) != x._view.form:
        raise UnsupportedError(
            "a view of a tensor whose shape was changed in place since: make the view anew, or use the function that returns a "
            f"new tensor{t.where()}"
        )
    parent = strides(t, x._view.parent)
    try:
        with torch._C.DisableTorchFunctionSubclass():
            return x._view.meta(parent)
    except RuntimeError:
        x._view = None
        return torch.empty(x.shape, device="meta")


def refresh(t, x):
    """Reads a view again after its root was written into."""
    if x._view.seen == getattr(root(x), "_written", 0):
        return
    strides(t, x)
    if x._view is not None:
        x._value = x._view.get(t.value(x._view.parent))
        x._view.seen = root(x)._written


def placed(t, base, places, value):
    """`base` with those of its elements, counted in order, replaced by `value`."""
    shape, places = [lib.samba_value_size(base, d) for d in range(lib.samba_value_rank(base))], places.reshape(-1)
    if places.unique().numel() < places.numel():
        raise UnsupportedError(f"writing into a view of which several elements are one: clone() it first{t.where()}")
    line = lib.samba_index_put(lib.samba_reshape(base, 1, [-1]), 1, [t.value(places)], lib.samba_reshape(value, 1, [-1]), False)
    return lib.samba_reshape(line, len(shape), shape)


def settle(t, x):
    """Makes a tensor with values a view of the traced one that has become of its memory, if one has."""
    storage = x._held.untyped_storage()
    memory = t.memories.get(storage.data_ptr()) if storage.nbytes() > 0 else None  # memory of nothing has no place of its own
    if memory is None or x is memory:
        return
    if x.dtype != memory.dtype:
        raise UnsupportedError(
            f"a view of {x.dtype} of memory of {memory.dtype}, into which a traced tensor was written: use to(dtype){t.where()}"
        )
    shape, step, begin = list(x._held.shape), list(x._held.stride()), x._held.storage_offset()

    def get(value):
        return lib.samba_as_strided(lib.samba_reshape(value, 1, [-1]), len(shape), shape, step, begin)

    def put(base, value):
        return placed(t, base, torch.arange(memory.numel()).as_strided(shape, step, begin), value)

    x._value, x._trace, x._held = get(t.value(memory)), t.id, None
    x._view = View(memory, get, put, lambda whole: whole.as_strided(shape, step, begin))


def _trace_memory(t, x):
    """Something traced is written into a tensor with values: from here on its memory is traced."""
    if x._trace != t.id:
        _refuse(t)
    held, memory = x._held, x
    storage = held.untyped_storage()
    if x._unobserved or not held.is_contiguous() or storage.nbytes() > held.numel() * held.element_size():
        memory = SambaTensor(torch.empty(0, dtype=held.dtype).set_(storage))
    t.kept.append(storage)  # no other memory gets this place
    memory._value, memory._trace, memory._held = t.value(memory), t.id, None
    t.memories[storage.data_ptr()] = memory
    t.without_gradient.add(memory._value.index)
    if memory is not x:
        settle(t, x)


def _trace_values(t, x):
    if x._held is not None and id(x) not in t.names:
        settle(t, x)
        if x._value is None:
            _trace_memory(t, x)


def write(t, x, value):
    """From here on the tensor stands for this value."""
    if not isinstance(x, SambaTensor):
        _refuse(t)
    _trace_values(t, x)
    strides(t, x)
    x._written += 1
    unobserved = t.grad is False and x.dtype.is_floating_point
    if x._view is not None:
        its = x._view
        told = lib.samba_detach(value) if x._unobserved and x.dtype.is_floating_point else value
        write(t, its.parent, its.put(t.value(its.parent), told))
        x._value, its.seen = value, root(x)._written if t.grad is not False else None  # None: read again, as the root has it
    elif t.is_buffer(x):
        t.assign(x, unseen(t, t.value(x), value) if unobserved and id(x) in t.assigned else value)
    elif id(x) in t.names or x._fixed:
        _refuse(t)
    elif id(x) in t.kept_regions:
        x._value = unseen(t, x._value, value) if unobserved and id(x) in t.assigned else value
        t.assigned[id(x)] = (t.kept_regions[id(x)], x._value)
    else:
        x._value, x._trace = unseen(t, x._value, value) if unobserved and x._trace == t.id else value, t.id
    t.check()


def _refuse(t):
    raise UnsupportedError(
        "writing in place into a parameter, or into a tensor of constants that was not made in forward: use the operation that "
        "returns a new tensor, "
        f"or write into a clone(); what a run leaves to the next is a buffer that state_dict has{t.where()}"
    )


def reshape_itself(t, x, change):
    """x.unsqueeze_() and the like: from here on x is a view, by `change`, of a tensor that is what x has been."""
    if id(x) in t.names or id(x) in t.kept_regions:
        raise UnsupportedError(
            "a change of shape in place of a parameter, a buffer or memory that several inputs share: use the function that "
            f"returns a new tensor{t.where()}"
        )
    _trace_values(t, x)
    before = from_value(t.value(x), x.shape, x.dtype, t.id)
    before._view, before._written = x._view, x._written
    changed = change(before)
    if changed is not before:
        x._value, x._view, x._form, x._trace = changed._value, changed._view, x._form + 1, t.id
        take_form(x, from_value(x._value, changed.shape, x.dtype, t.id))
    return x


def in_place(t, input, result, inplace, takes_shape=False):
    """`inplace=True` of functions, and methods that end in '_': the tensor stands for the new value from now on. As `out` it
    takes the shape where it has no elements."""
    if not inplace:
        return result
    other = input.shape != result.shape
    if other and not (takes_shape and input.numel() == 0):
        raise UnsupportedError(f"an operation in place that makes {tuple(result.shape)} of {tuple(input.shape)}{t.where()}")
    value = t.value(result)
    if not torch.can_cast(result.dtype, input.dtype):
        raise errors.ArgumentTypeError(
            f"a result of {result.dtype} cannot be written in place into a tensor of {input.dtype}: cast the tensor first"
        )
    if result.dtype != input.dtype:
        value = lib.samba_cast(value, lib.samba_value_dtype(t.value(input)))
    write(t, input, value)
    if other:
        take_form(input, from_value(value, result.shape, input.dtype, t.id))
    return input
