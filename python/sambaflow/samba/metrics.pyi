# SPDX-License-Identifier: Apache-2.0
# made by tools/stubs.py
from typing import Literal

import torch

KINDS: tuple[str, ...]

class Metric:
    kind: str
    name: str
    output: int
    target: int | str
    def __init__(
        self,
        kind: str,
        *,
        name: str | None = None,
        output: int = 0,
        target: int | str = -1,
        k: int | None = None,
        average: Literal["macro", "micro", "binary"] = "macro",
        threshold: float = 0.0,
        ignore_index: int | None = -100,
    ) -> None: ...
    @property
    def greater_is_better(self) -> bool: ...
    def update(self, output: torch.Tensor, target: torch.Tensor, count: int | None = None) -> None: ...
    def add(self, value: float, weight: float = 1.0) -> None: ...
    @property
    def value(self) -> float: ...
    def reset(self) -> None: ...
