# SPDX-License-Identifier: Apache-2.0
from contextlib import AbstractContextManager
from typing import Any

from sambaflow.errors import HostFallbackWarning as HostFallbackWarning
from sambaflow.errors import NoEffectWarning as NoEffectWarning
from sambaflow.samba import nn as nn
from sambaflow.samba import optim as optim
from sambaflow.samba import utils as utils
from sambaflow.samba.convert import from_named_dict as from_named_dict
from sambaflow.samba.convert import from_torch as from_torch
from sambaflow.samba.convert import from_torch_ as from_torch_
from sambaflow.samba.convert import from_torch_model as from_torch_model
from sambaflow.samba.convert import from_torch_model_ as from_torch_model_
from sambaflow.samba.convert import from_torch_tensor_ as from_torch_tensor_
from sambaflow.samba.functional import *
from sambaflow.samba.onnx_module import OnnxModule as OnnxModule
from sambaflow.samba.onnx_module import from_onnx_model as from_onnx_model
from sambaflow.samba.samba_session import SambaSession as SambaSession
from sambaflow.samba.sambatensor import SambaParameter as SambaParameter
from sambaflow.samba.sambatensor import SambaTensor as SambaTensor
from sambaflow.samba.sambatensor import from_dlpack as from_dlpack
from sambaflow.samba.sambatensor import from_numpy as from_numpy
from sambaflow.samba.sambatensor import from_torch_tensor as from_torch_tensor
from sambaflow.samba.sambatensor import to_torch as to_torch
from sambaflow.samba.training import fit as fit
from sambaflow.samba.utils import set_seed as set_seed

session: SambaSession

def lazy_param(
    seed: int | None = None,
    init_threads: int = 8,
    inverse_transform_sampling: bool = False,
    fp32_to_bf16_rounding: str = "nearest_even",
    *,
    session: SambaSession | None = None,
) -> AbstractContextManager[None]: ...

# torch's functions of these names as SambaTensors, with their arguments.
def randn(
    *args: Any, name: str | None = None, batch_dim: int | None = None, region_name: str | None = None, **kwargs: Any
) -> SambaTensor: ...
def rand(
    *args: Any, name: str | None = None, batch_dim: int | None = None, region_name: str | None = None, **kwargs: Any
) -> SambaTensor: ...
def randint(
    *args: Any, name: str | None = None, batch_dim: int | None = None, region_name: str | None = None, **kwargs: Any
) -> SambaTensor: ...
def zeros(
    *args: Any, name: str | None = None, batch_dim: int | None = None, region_name: str | None = None, **kwargs: Any
) -> SambaTensor: ...
def ones(
    *args: Any, name: str | None = None, batch_dim: int | None = None, region_name: str | None = None, **kwargs: Any
) -> SambaTensor: ...
def full(
    *args: Any, name: str | None = None, batch_dim: int | None = None, region_name: str | None = None, **kwargs: Any
) -> SambaTensor: ...
def empty(
    *args: Any, name: str | None = None, batch_dim: int | None = None, region_name: str | None = None, **kwargs: Any
) -> SambaTensor: ...
def arange(
    *args: Any, name: str | None = None, batch_dim: int | None = None, region_name: str | None = None, **kwargs: Any
) -> SambaTensor: ...
