# SPDX-License-Identifier: Apache-2.0
from collections.abc import Iterable, Iterator
from typing import Any

from sambaflow.samba.sambatensor import SambaTensor

class SambaLoader:
    torch_loader: Iterable[Any]
    names: list[str]
    prefetch: int
    def __init__(self, torch_loader: Iterable[Any], names: Iterable[str], prefetch: int = 2) -> None: ...
    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[tuple[SambaTensor, ...]]: ...
