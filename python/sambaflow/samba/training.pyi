# SPDX-License-Identifier: Apache-2.0
# made by tools/stubs.py
import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal

import torch
from torch.optim.lr_scheduler import LRScheduler

from sambaflow.samba.metrics import Metric
from sambaflow.samba.samba_session import SambaSession

_Path = str | os.PathLike[str]

BEST: str

class Event:
    kind: str
    epoch: int
    step: int
    loss: float
    lr: float
    values: dict[str, float]
    improved: bool
    model: torch.nn.Module
    stop: bool
    def __init__(
        self,
        kind: str,
        epoch: int,
        step: int,
        loss: float,
        lr: float,
        values: dict[str, float],
        improved: bool,
        model: torch.nn.Module,
    ) -> None: ...

class History:
    rows: list[dict[str, Any]]
    best: float
    best_step: int
    best_epoch: int
    steps: int
    epochs: int
    stopped: bool
    def __init__(self) -> None: ...
    def column(self, name: str) -> list[Any]: ...

def fit(
    model: torch.nn.Module,
    loader: Iterable[Any],
    optimizer: torch.optim.Optimizer | Sequence[torch.optim.Optimizer],
    loss: Callable[..., torch.Tensor] | None = None,
    *,
    epochs: int | None = 1,
    steps: int | None = None,
    validation: Iterable[Any] | None = None,
    metrics: Sequence[str | Metric] = (),
    validate_every: int | None = None,
    monitor: str = "loss",
    patience: int | None = None,
    min_delta: float = 0.0,
    scheduler: LRScheduler | Sequence[LRScheduler] | None = None,
    schedule_by: Literal["epoch", "step"] = "epoch",
    folder: _Path | None = None,
    checkpoint_every: int | None = None,
    keep: int = 2,
    resume: bool = False,
    restore_best: bool = False,
    history: _Path | None = None,
    callbacks: Iterable[Callable[[Event], object]] = (),
    progress: bool = True,
    names: Sequence[str] | None = None,
    target: str | None = None,
    batch_sizes: Sequence[int] | None = None,
    precision: str | None = None,
    grad_accumulation_steps: int | None = None,
    memory_budget: int | None = None,
    session: SambaSession | None = None,
) -> History: ...
