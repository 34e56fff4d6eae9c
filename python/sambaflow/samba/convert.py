# SPDX-License-Identifier: Apache-2.0
"""Torch models and tensors to SambaTensors. Tied parameters stay one tensor, named by its first path.

>>> import torch
>>> model = from_torch_model_(torch.nn.Linear(3, 2))
>>> [parameter.sn_name for parameter in model.parameters()]
['weight', 'bias']
>>> twin = from_torch_model(torch.nn.Linear(3, 2))
>>> from_named_dict({"x": torch.ones(2)})["x"].sn_name
'x'
>>> from_torch([torch.ones(2), {"mask": torch.zeros(1)}])[1]["mask"].tolist()
[0.0]
>>> masked = from_torch({"mask": torch.ones(2)}, name="x")["mask"]
>>> [from_torch(torch.ones(2), name="x").sn_name, masked.sn_name, from_torch_tensor_(torch.ones(2), "y").sn_name]
['x', 'x.mask', 'y']
>>> batch = [torch.ones(2)]
>>> from_torch_(batch, name="x")[0] is batch[0], batch[0].sn_name
(True, 'x.0')
"""

from collections.abc import Mapping
from typing import Any, TypeVar, overload

import torch

from sambaflow import errors
from sambaflow.samba import trees
from sambaflow.samba.arguments import module
from sambaflow.samba.sambatensor import SambaParameter, SambaTensor, from_torch_tensor, make_wrapper

_Module = TypeVar("_Module", bound=torch.nn.Module)

_HOOKS = ("_backward_hooks", "_post_accumulate_grad_hooks")  # of register_hook and register_post_accumulate_grad_hook


def from_torch_model_(model: _Module) -> _Module:
    """Makes every parameter and buffer of a module a SambaTensor over the same memory, with the hooks it has.

    Args:
        model: a torch.nn.Module, which is changed in place. Optimizers are made behind this call: parameters are made anew.

    Returns:
        The module. A parameter's `sn_name` is its path; one of several paths is named by the first.

    Raises:
        ArgumentTypeError: it is no module.
    """
    made = {}
    for path, part in module("from_torch_model_", model).named_modules():
        for kind in (part._parameters, part._buffers):
            for key, tensor in kind.items():
                name = f"{path}.{key}" if path else key
                if isinstance(tensor, SambaTensor):
                    tensor.sn_name = tensor.sn_name or name
                if tensor is None or isinstance(tensor, SambaTensor):
                    continue
                if id(tensor) not in made:
                    fresh = (
                        SambaParameter(tensor, tensor.requires_grad, name) if kind is part._parameters else _buffer(tensor, name)
                    )
                    made[id(tensor)] = (fresh, tensor)
                    fresh._keeps_name = kind is part._buffers
                    for hooks in _HOOKS:  # the same dicts, so that handles still remove them
                        if getattr(tensor, hooks, None):
                            setattr(fresh, hooks, getattr(tensor, hooks))
                kind[key] = made[id(tensor)][0]
    return model


def _buffer(tensor, name):
    """Of a model, whose buffers may be complex, as inputs may not."""
    return make_wrapper(SambaTensor, tensor, None, None, name) if tensor.is_complex() else from_torch_tensor(tensor, name)


def from_torch_model(model: _Module) -> _Module:
    """The older name of from_torch_model_, which changes `model` in place too."""
    return from_torch_model_(model)


def from_named_dict(tensors: Mapping[str, torch.Tensor]) -> dict[str, SambaTensor]:
    """SambaTensors over the memory of `tensors`, a dict of torch tensors by name; the result is a dict of these names, which the
    SambaTensors have, too."""
    if not isinstance(tensors, dict):
        raise errors.ArgumentTypeError(f"from_named_dict: expected a dict of tensors by name: given {type(tensors).__name__}")
    return {name: from_torch_tensor(tensor, name) for name, tensor in tensors.items()}


@overload
def from_torch(obj: _Module) -> _Module: ...


@overload
def from_torch(
    obj: torch.Tensor, name: str | None = None, batch_dim: int | None = None, region_name: str | None = None
) -> SambaTensor: ...


@overload
def from_torch(obj: Any, name: str | None = None, batch_dim: int | None = None, region_name: str | None = None) -> Any: ...


def from_torch(obj, name=None, batch_dim=None, region_name=None):
    """Makes SambaTensors of torch tensors, wherever they are nested.

    Args:
        obj: a tensor, a module, or nested lists, tuples and dicts of tensors. What is no tensor stays as it is.
        name: that of a tensor; several get their places behind it: x.0, x.mask. A module takes none.
        batch_dim: the dim of the tensors' samples; a tensor without that dim has none.
        region_name: that of the device memory, see SambaTensor.sn_region_name.

    Returns:
        The same nesting, of SambaTensors over the same memory; a module itself, changed by from_torch_model_.

    Raises:
        ArgumentTypeError: a module was given a name.
    """
    if isinstance(obj, torch.nn.Module):
        if name is not None:
            raise errors.ArgumentTypeError(
                f"from_torch: name={name!r:.100} is a tensor's: a {type(obj).__name__} is a module, whose parameters are "
                "named by their paths"
            )
        return from_torch_model_(obj)
    if isinstance(obj, torch.Tensor):
        return from_torch_tensor(obj, name, batch_dim, region_name=region_name)

    def made(x, place=None):
        fits = batch_dim is None or x.dim() > (batch_dim if batch_dim >= 0 else -batch_dim - 1)  # a number beside them has none
        return from_torch_tensor(x, place, batch_dim if fits else None, region_name=region_name)

    if name is None:
        return torch.utils._pytree.tree_map(lambda x: made(x) if isinstance(x, torch.Tensor) else x, obj)
    return trees.mapped(made, obj, name)


@overload
def from_torch_(obj: _Module) -> _Module: ...


@overload
def from_torch_(
    obj: torch.Tensor, name: str | None = None, batch_dim: int | None = None, region_name: str | None = None
) -> SambaTensor: ...


@overload
def from_torch_(obj: Any, name: str | None = None, batch_dim: int | None = None, region_name: str | None = None) -> Any: ...


def from_torch_(obj, name=None, batch_dim=None, region_name=None):
    """from_torch in place, where there is a place: in modules, lists and dicts.

    Args:
        obj, name, batch_dim, region_name: as of from_torch.

    Returns:
        What from_torch does, since a tensor and a tuple stay what they are; a list or dict itself.
    """
    made = from_torch(obj, name, batch_dim, region_name)
    if isinstance(obj, dict):
        obj.update(made)
    elif isinstance(obj, list):
        obj[:] = made
    return obj if isinstance(obj, (dict, list)) else made


def from_torch_tensor_(
    tensor: torch.Tensor,
    name: str | None = None,
    batch_dim: int | None = None,
    named_dims: Any = None,
    region_name: str | None = None,
    sized_dims: Any = None,
) -> SambaTensor:
    """Another name of from_torch_tensor, which some documents have: `tensor`, `name`, `batch_dim`, `region_name`,
    and `named_dims` and `sized_dims`, which have no effect, are that one's. The result counts: a torch tensor cannot become a
    SambaTensor itself."""
    return from_torch_tensor(tensor, name, batch_dim, named_dims, region_name, sized_dims)
