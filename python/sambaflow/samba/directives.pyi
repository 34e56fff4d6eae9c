# SPDX-License-Identifier: Apache-2.0
from collections.abc import Mapping
from contextlib import _GeneratorContextManager
from typing import Any, TypeVar, overload
from weakref import WeakKeyDictionary

import torch

_Module = TypeVar("_Module", bound=torch.nn.Module)

FUSIONS: WeakKeyDictionary[torch.nn.Module, str]

@overload
def op_fusion(module: _Module, name: str) -> _Module: ...
@overload
def op_fusion(module: _Module, *, func_name: str) -> _Module: ...
@overload
def op_fusion(module: None = None, *, func_name: str) -> _GeneratorContextManager[None]: ...
def sdpa_directives(directives: Mapping[str, Any] | None = None, **more: Any) -> _GeneratorContextManager[None]: ...
