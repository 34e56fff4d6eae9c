# SPDX-License-Identifier: Apache-2.0
from collections.abc import Callable, Sequence
from typing import Any, overload

from torch import Tensor, UntypedStorage
from torch import dtype as _dtype
from typing_extensions import Self

_Materializer = Callable[..., Tensor | None]  # (shape, dtype, requires_grad), (tensor) or (tensor, rng)

class SambaTensor(Tensor):
    batch_dim: int | None
    materializer: _Materializer | None
    sn_name: str
    sn_region_name: str
    fast_access: bool
    mem_type: str | None
    sn_data: Tensor
    sn_grad: Tensor
    def __new__(
        cls,
        torch_tensor: Tensor | None = None,
        shape: Sequence[int] | None = None,
        dtype: _dtype | None = None,
        name: str | None = None,
        batch_dim: int | None = None,
        named_dims: Any = None,
        sized_dims: Any = None,
        materializer: _Materializer | None = None,
        is_complex: bool | None = None,
        region_name: str | None = None,
    ) -> SambaTensor: ...
    @property
    def sn_grad_name(self) -> str: ...
    @property
    def has_data(self) -> bool: ...
    def torch(self) -> Tensor | None: ...
    def torch_tensor(self) -> Tensor: ...
    def materialize_(self) -> None: ...
    @property
    def materializer_provided(self) -> bool: ...
    @staticmethod
    def is_fast_access(name: str) -> bool: ...
    def clear_data(self) -> None: ...
    def take_values(self, values: Tensor) -> None: ...
    def untyped_storage(self) -> UntypedStorage: ...
    def reusable(self) -> bool: ...
    def rdu(self) -> None: ...
    def cpu(self, inplace: bool = False) -> Self: ...  # type: ignore[override]
    def cpu_(self) -> Self: ...

class SambaParameter(SambaTensor):
    def __new__(
        cls,
        torch_tensor: Tensor | None = None,
        requires_grad: bool = True,
        name: str | None = None,
        shape: Sequence[int] | None = None,
        dtype: _dtype | None = None,
        batch_dim: int | None = None,
        materializer: _Materializer | None = None,
        region_name: str | None = None,
    ) -> SambaParameter: ...

@overload
def from_torch_tensor(
    tensor: Tensor,
    name: str | None = None,
    batch_dim: int | None = None,
    named_dims: Any = None,
    region_name: str | None = None,
    sized_dims: Any = None,
) -> SambaTensor: ...
@overload
def from_torch_tensor(
    tensor: None,
    name: str | None = None,
    batch_dim: int | None = None,
    named_dims: Any = None,
    region_name: str | None = None,
    sized_dims: Any = None,
) -> None: ...
def from_numpy(
    array: Any, name: str | None = None, batch_dim: int | None = None, region_name: str | None = None
) -> SambaTensor: ...
def from_dlpack(
    array: Any, name: str | None = None, batch_dim: int | None = None, region_name: str | None = None
) -> SambaTensor: ...
def values_of(obj: Any) -> Any: ...
@overload
def to_torch(obj: Tensor) -> Tensor: ...
@overload
def to_torch(obj: None) -> None: ...
