# SPDX-License-Identifier: Apache-2.0
"""Methods of torch.Tensor that take more as SambaTensor's: by position or by a name what torch has by keyword or by another name.
`device` has no effect, and a NoEffectWarning tells of one that is not the CPU. And Python's operators: torch's take a TypeError,
as a DtypeError is one, for an operand they do not know, and Python then speaks of operand types; here the function of that
operator is asked again and says what is wrong."""

import inspect

import torch

from sambaflow import errors
from sambaflow.samba import nominal


def _made(make, tensor, size, more, options):
    """Sizes one by one, as torch takes them too, or as one sequence, which dtype and requires_grad may follow."""
    _tell_device(make.__name__, options.pop("device", None))
    if isinstance(size, int):
        return make(tensor, size, *more, **options)
    if len(more) > 2:
        raise errors.ArgumentTypeError(
            f"{make.__name__} takes size, dtype and requires_grad by position, given {1 + len(more)} arguments"
        )
    return make(tensor, size, **dict(zip(("dtype", "requires_grad"), more)), **options)


def _tell_device(call, device):
    """A tensor's values are on the CPU; a NoEffectWarning tells who asks for another place."""
    if device is not None and torch.device(device).type != "cpu":
        nominal.say(f"{call}: device={str(device)!r}", ", where the values of all tensors are", stacklevel=4)


def _taking(like):
    """Decorator: the signature is that of another function, but for what torch alone gives."""

    def decorated(function):
        function.__signature__ = inspect.signature(like)
        return function

    return decorated


def _new(self, size, dtype=None, requires_grad=False, *, device=None):
    """What new_empty and its like take; sizes may also stand one by one."""


def _new_full(self, size, fill_value, dtype=None, device=None, requires_grad=False):
    """What new_full takes."""


class TorchMethods:
    """What comes before torch.Tensor in SambaTensor."""

    @_taking(_new)
    def new_empty(self, size, *more, **options):
        """torch.Tensor.new_empty(size, dtype=None, requires_grad=False)."""
        return _made(torch.Tensor.new_empty, self, size, more, options)

    @_taking(_new)
    def new_ones(self, size, *more, **options):
        """torch.Tensor.new_ones(size, dtype=None, requires_grad=False)."""
        return _made(torch.Tensor.new_ones, self, size, more, options)

    @_taking(_new)
    def new_zeros(self, size, *more, **options):
        """torch.Tensor.new_zeros(size, dtype=None, requires_grad=False)."""
        return _made(torch.Tensor.new_zeros, self, size, more, options)

    @_taking(_new_full)
    def new_full(self, size, fill_value, dtype=None, device=None, requires_grad=False, **options):
        """torch.Tensor.new_full; None is this tensor's dtype."""
        _tell_device("new_full", device)
        return torch.Tensor.new_full(self, size, fill_value, dtype=dtype, requires_grad=bool(requires_grad), **options)

    def share_memory_(self):
        """Moves the values to memory that processes share."""
        self._host_values().share_memory_()
        return self

    def is_shared(self):
        """Whether they are there."""
        return self._host_values().is_shared()

    def type_as(self, tensor):
        """The tensor cast to the dtype of another; itself where that is its own."""
        return torch.Tensor.type_as(self, tensor)


_BINARY = {
    "add": torch.add,
    "sub": torch.sub,
    "mul": torch.mul,
    "truediv": torch.true_divide,
    "floordiv": torch.floor_divide,
    "mod": torch.remainder,
    "pow": torch.pow,
    "matmul": torch.matmul,
    "and": torch.bitwise_and,
    "or": torch.bitwise_or,
    "xor": torch.bitwise_xor,
    "lshift": torch.bitwise_left_shift,
    "rshift": torch.bitwise_right_shift,
}
_OPERANDS = (torch.Tensor, int, float)


def _operators(name, function):
    """Python's operator, what it is with the tensor on the right, and the one that writes."""
    plain, reflected, written = (getattr(torch.Tensor, f"__{kind}{name}__", None) for kind in ("", "r", "i"))
    writes = getattr(torch.Tensor, {"truediv": "div", "mod": "remainder"}.get(name, function.__name__) + "_", None)

    def operator(self, other):
        result = plain(self, other)
        return function(self, other) if result is NotImplemented and isinstance(other, _OPERANDS) else result

    def from_the_right(self, other):
        if isinstance(other, torch.Tensor):  # as if this were not here: a subclass on the right is asked first
            result = plain(other, self)
            return function(other, self) if result is NotImplemented else result
        result = reflected(self, other)
        if result is NotImplemented and isinstance(other, _OPERANDS):
            return torch.rsub(self, other) if name == "sub" else function(torch.as_tensor(other), self)
        return result

    def in_place(self, other):
        result = written(self, other)
        return writes(self, other) if result is NotImplemented and isinstance(other, _OPERANDS) else result

    made = {f"__{name}__": operator, f"__r{name}__": from_the_right, f"__i{name}__": written and writes and in_place}
    for word, method in made.items():
        if method:
            method.__name__ = word
            setattr(TorchMethods, word, method)


for _name, _of_torch in _BINARY.items():
    _operators(_name, _of_torch)
