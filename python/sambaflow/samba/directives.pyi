# SPDX-License-Identifier: Apache-2.0
from contextlib import AbstractContextManager, ContextDecorator
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
def op_fusion(module: str) -> AbstractContextManager[None]: ...
@overload
def op_fusion(module: None = None, *, func_name: str) -> AbstractContextManager[None]: ...

class sdpa_directives(ContextDecorator):
    def __init__(self, directives: dict[str, Any] | None = None, **more: Any) -> None: ...
    def __enter__(self) -> sdpa_directives: ...
    def __exit__(self, *error: object) -> None: ...
