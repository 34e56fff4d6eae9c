# SPDX-License-Identifier: Apache-2.0
"""Memory that nobody has written yet. What torch.empty and its like give is whatever the process had there, and a constant of a
graph goes into a file: while a model is traced it is zero. A model that writes all of it before it reads is traced as ever; one
that reads what it has not written gets zeros, each time the same.

All of torch's ways lead to a few ATen operators, also those below functions and constructors (torch.Tensor(2, 3), x.new(3), out=,
resize_), so the mode stands there. What NumPy, a torch.UntypedStorage or a library makes in forward is not torch's to zero."""

import torch
from torch.utils._python_dispatch import TorchDispatchMode

aten = torch.ops.aten

_MAKE = {aten.empty, aten.empty_like, aten.empty_strided, aten.empty_permuted, aten.new_empty, aten.new_empty_strided}
_GROW = {aten.resize_, aten.resize_as_, aten.resize}


def _values(x):
    """The torch tensor with the values of a SambaTensor, or the tensor itself."""
    return getattr(x, "_held", x)


def _bytes(x):
    x = _values(x)
    return x.untyped_storage().nbytes() if isinstance(x, torch.Tensor) and x.layout is torch.strided else 0


def _zero_from(x, begin):
    """Zeros the memory of a tensor behind its first bytes."""
    x = _values(x)
    if isinstance(x, torch.Tensor) and x.is_cpu and x.layout is torch.strided and x.untyped_storage().nbytes() > begin:
        torch.empty(0, dtype=torch.uint8).set_(x.untyped_storage())[begin:].zero_()


class Zeroed(TorchDispatchMode):
    """In force while a model is traced."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        packet = func.overloadpacket
        grows = packet in _GROW or (packet in _MAKE and func._overloadname == "out")
        before = _bytes(kwargs["out"] if kwargs and "out" in kwargs else args[0]) if grows else 0
        result = func(*args, **(kwargs or {}))
        if grows or packet in _MAKE:
            with torch._C.DisableTorchFunction():
                _zero_from(result, before)
        return result
