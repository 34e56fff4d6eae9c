# SPDX-License-Identifier: Apache-2.0
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch

from sambaflow.samba.graph import SambaGraph
from sambaflow.samba.samba_session import SambaSession
from sambaflow.samba.sambatensor import SambaTensor
from sambaflow.samba.sambatensor import from_torch_tensor as from_torch_tensor

MAPPINGS: tuple[str, ...]
DATA_PARALLEL_MODES: tuple[str, ...]

def trace_graph(
    model: torch.nn.Module,
    inputs: Any,
    optim: torch.optim.Optimizer | Sequence[torch.optim.Optimizer] | None = None,
    init_output_grads: bool = True,
    loss_indices: Sequence[int | Sequence[int]] | None = None,
    pef: str | os.PathLike[str] = "",
    mapping: str = "section",
    data_parallel_mode: str = "normal",
    transfer_device: bool = True,
    distlearn_config: str | os.PathLike[str] | None = None,
    *,
    session: SambaSession | None = None,
) -> list[SambaTensor]: ...
def trace_multigraph(
    graph: SambaGraph | torch.nn.Module,
    inputs: Any,
    optimizers: Sequence[torch.optim.Optimizer] | None = None,
    init_output_grads: bool | None = None,
    mapping: str = "",
    trace_prefix: str | None = None,
    *,
    session: SambaSession | None = None,
) -> tuple[SambaTensor, ...]: ...
def init_output_grads(
    output_tensors: Iterable[SambaTensor | str],
    unspecified_tensor_grad: Iterable[str] = (),
    customized_tensors_dict: Mapping[str, torch.Tensor] | None = None,
    is_variable_batch_size: bool = False,
    *,
    session: SambaSession | None = None,
) -> None: ...
def set_seed(seed: int, *, session: SambaSession | None = None) -> None: ...
def get_file_dir(path: str | os.PathLike[str]) -> str: ...
def get_rank() -> int: ...
def get_world_size() -> int: ...
def get_local_rank() -> int: ...
def is_main_process() -> bool: ...
def measure_performance(
    model: torch.nn.Module | None,
    inputs: Any,
    batch_size: int | None = None,
    inference: bool = False,
    run_graph_only: bool = False,
    n_iterations: int = 100,
    graph_name: str | None = None,
    *,
    session: SambaSession | None = None,
) -> dict[str, float]: ...
def measure_sections(
    model: torch.nn.Module | None,
    inputs: Any,
    batch_size: int | None = None,
    num_sections: int | None = None,
    n_iterations: int = 100,
    inference: bool = False,
    graph_name: str | None = None,
    *,
    session: SambaSession | None = None,
) -> list[dict[str, Any]]: ...

__all__ = [
    "DATA_PARALLEL_MODES",
    "MAPPINGS",
    "from_torch_tensor",
    "get_file_dir",
    "get_local_rank",
    "get_rank",
    "get_world_size",
    "init_output_grads",
    "is_main_process",
    "measure_performance",
    "measure_sections",
    "set_seed",
    "trace_graph",
    "trace_multigraph",
]
