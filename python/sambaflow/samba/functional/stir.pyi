# SPDX-License-Identifier: Apache-2.0
# made by tools/stubs.py
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import torch

from sambaflow.samba.sambatensor import SambaTensor
from sambaflow.samba.sntype import SNType

class Space(NamedTuple):
    shape: tuple[int, ...]

def sn_imm(value: bool | int | float, dtype: torch.dtype | SNType | str | None = None) -> SambaTensor: ...
def sn_iteridx(dim: int, dtype: torch.dtype | SNType | str = ..., space: Space | None = None) -> SambaTensor: ...
def sn_select(condition: torch.Tensor, input: torch.Tensor | float, other: torch.Tensor | float) -> SambaTensor: ...
def sn_zipmapreduce(
    function: Callable[..., Any],
    tensors: torch.Tensor | Iterable[torch.Tensor],
    reduce: str | None = None,
    dims: int | Sequence[int] | None = None,
    keepdim: bool = False,
) -> Any: ...

__all__ = ["Space", "sn_imm", "sn_iteridx", "sn_select", "sn_zipmapreduce"]
