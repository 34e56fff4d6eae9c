# SPDX-License-Identifier: Apache-2.0
# made by tools/stubs.py
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import torch

from sambaflow.samba.sambatensor import SambaTensor

class Operator(NamedTuple):
    name: str
    op: str
    shape: tuple[int, ...]
    dtype: str
    inputs: tuple[str, ...]
    phase: str
    module: str
    source: str
    fusion: str

def operators(graph: Any) -> list[Operator]: ...

class SambaGraph:
    model: torch.nn.Module
    inputs: Any
    optimizers: list[torch.optim.Optimizer]
    name: str
    loss_indices: Iterable[Any] | None
    inference: bool

    def __init__(
        self,
        model: torch.nn.Module,
        inputs: Any,
        optimizers: torch.optim.Optimizer | Iterable[torch.optim.Optimizer] | None = None,
        name: str = "",
        loss_indices: Iterable[Any] | None = None,
    ) -> None: ...
    def traced_as(self, outputs: Iterable[SambaTensor]) -> None: ...
    def ends(self, graphs: Iterable[SambaGraph]) -> Any: ...
    @property
    def output_tensors(self) -> tuple[SambaTensor, ...]: ...
    def __iter__(self) -> Iterator[Operator]: ...
    def __len__(self) -> int: ...

class FwdGraph(SambaGraph):
    def __init__(
        self, model: Any, inputs: Any, name: str = "", optimizers: None = None, loss_indices: Iterable[Any] | None = None
    ) -> None: ...
