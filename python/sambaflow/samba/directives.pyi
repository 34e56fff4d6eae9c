# SPDX-License-Identifier: Apache-2.0
from typing import TypeVar
from weakref import WeakKeyDictionary

import torch

_Module = TypeVar("_Module", bound=torch.nn.Module)

FUSIONS: WeakKeyDictionary[torch.nn.Module, str]

def op_fusion(module: _Module, name: str) -> _Module: ...
