# SPDX-License-Identifier: Apache-2.0
"""Methods of torch.Tensor that take more as SambaTensor's: by position or by a name what torch has by keyword or by another name. `device` is
taken and has no effect."""
import torch


def _made(make, tensor, size, more, options):
    """Sizes one by one, as torch takes them too, or as one sequence, which dtype and requires_grad may follow."""
    options.pop("device", None)
    if isinstance(size, int):
        return make(tensor, size, *more, **options)
    if len(more) > 2:
        raise TypeError(f"{make.__name__} takes size, dtype and requires_grad by position, given {1 + len(more)} arguments")
    return make(tensor, size, **dict(zip(("dtype", "requires_grad"), more)), **options)


class TorchMethods:
    """What comes before torch.Tensor in SambaTensor."""

    def new_empty(self, size, *more, **options):
        """torch.Tensor.new_empty(size, dtype=None, requires_grad=False)."""
        return _made(torch.Tensor.new_empty, self, size, more, options)

    def new_ones(self, size, *more, **options):
        """torch.Tensor.new_ones(size, dtype=None, requires_grad=False)."""
        return _made(torch.Tensor.new_ones, self, size, more, options)

    def new_zeros(self, size, *more, **options):
        """torch.Tensor.new_zeros(size, dtype=None, requires_grad=False)."""
        return _made(torch.Tensor.new_zeros, self, size, more, options)

    def new_full(self, size, fill_value, dtype=None, device=None, requires_grad=False, **options):
        """torch.Tensor.new_full; None is this tensor's dtype."""
        return torch.Tensor.new_full(self, size, fill_value, dtype=dtype, requires_grad=bool(requires_grad), **options)

    def share_memory_(self):
        """Moves the values to memory that processes share."""
        self.torch_tensor().share_memory_()
        return self

    def is_shared(self):
        """Whether they are there."""
        return self.torch_tensor().is_shared()

    def type_as(self, tensor):
        """The tensor cast to the dtype of another; itself where that is its own."""
        return torch.Tensor.type_as(self, tensor)
