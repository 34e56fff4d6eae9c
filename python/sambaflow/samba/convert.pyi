# SPDX-License-Identifier: Apache-2.0
# made by tools/stubs.py
from collections.abc import Mapping
from typing import Any, TypeVar, overload

import torch

from sambaflow.samba.sambatensor import SambaTensor

_Module = TypeVar("_Module", bound=torch.nn.Module)

def from_torch_model_(model: _Module) -> _Module: ...
def from_torch_model(model: _Module) -> _Module: ...
def from_named_dict(tensors: Mapping[str, torch.Tensor]) -> dict[str, SambaTensor]: ...
@overload
def from_torch(obj: _Module) -> _Module: ...
@overload
def from_torch(
    obj: torch.Tensor, name: str | None = None, batch_dim: int | None = None, region_name: str | None = None
) -> SambaTensor: ...
@overload
def from_torch(obj: Any, name: str | None = None, batch_dim: int | None = None, region_name: str | None = None) -> Any: ...
@overload
def from_torch_(obj: _Module) -> _Module: ...
@overload
def from_torch_(
    obj: torch.Tensor, name: str | None = None, batch_dim: int | None = None, region_name: str | None = None
) -> SambaTensor: ...
@overload
def from_torch_(obj: Any, name: str | None = None, batch_dim: int | None = None, region_name: str | None = None) -> Any: ...
def from_torch_tensor_(
    tensor: torch.Tensor,
    name: str | None = None,
    batch_dim: int | None = None,
    named_dims: Any = None,
    region_name: str | None = None,
    sized_dims: Any = None,
) -> SambaTensor: ...
