# SPDX-License-Identifier: Apache-2.0
# made by tools/stubs.py
import contextlib
import weakref
from typing import Any, TypeVar, overload

import torch

_Module = TypeVar("_Module", bound=torch.nn.Module)
FUSIONS: weakref.WeakKeyDictionary[torch.nn.Module, str]

@overload
def op_fusion(module: _Module, name: str) -> _Module: ...
@overload
def op_fusion(module: _Module, *, func_name: str) -> _Module: ...
@overload
def op_fusion(module: str) -> contextlib.AbstractContextManager[None]: ...
@overload
def op_fusion(module: None = None, *, func_name: str) -> contextlib.AbstractContextManager[None]: ...

class sdpa_directives(contextlib.ContextDecorator):
    def __init__(self, directives: dict[str, Any] | None = None, **more: Any) -> None: ...
    def __enter__(self) -> sdpa_directives: ...
    def __exit__(self, *error: object) -> None: ...
