# SPDX-License-Identifier: Apache-2.0
# made by tools/stubs.py
import os
from collections.abc import Iterable

from sambaflow.runtime import Session, Tensor

_Path = str | os.PathLike[str]

class Checkpoint:
    path: str
    step: int
    text: str | None
    seed: int
    skipped: str
    tensors: dict[str, Tensor]

def save(
    session: Session,
    folder: _Path,
    step: int,
    keep: int = 2,
    shard_size: int = 0,
    text: str | None = None,
    tensors: Iterable[Tensor] = (),
) -> None: ...
def prepare(folder: _Path) -> None: ...
def open_(path: _Path) -> Checkpoint: ...
def newest(folder: _Path) -> Checkpoint | None: ...
def load(session: Session, checkpoint: Checkpoint) -> None: ...
