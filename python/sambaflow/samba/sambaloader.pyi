# SPDX-License-Identifier: Apache-2.0
# made by tools/stubs.py
from collections.abc import Iterable, Iterator, Mapping, Sized
from typing import Any

import torch

from sambaflow.samba.samba_session import SambaSession
from sambaflow.samba.sambatensor import SambaTensor

class ReplicaBatches(torch.utils.data.Sampler[list[int]]):
    samples: int
    batch_size: int
    shuffle: bool
    rank: int
    replicas: int
    generator: torch.Generator

    def __init__(
        self,
        data: Sized | int,
        batch_size: int,
        shuffle: bool = True,
        seed: int = 0,
        rank: int | None = None,
        replicas: int | None = None,
    ) -> None: ...
    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[list[int]]: ...

class SambaLoader:
    torch_loader: Iterable[Any]
    names: list[str]
    prefetch: int

    def __init__(
        self, torch_loader: Iterable[Any], names: Iterable[str], prefetch: int = 2, *, session: SambaSession | None = None
    ) -> None: ...
    def __len__(self) -> int: ...
    def state_dict(self) -> dict[str, Any]: ...
    def load_state_dict(self, state: Mapping[str, Any]) -> None: ...
    def __iter__(self) -> Iterator[tuple[SambaTensor, ...]]: ...
