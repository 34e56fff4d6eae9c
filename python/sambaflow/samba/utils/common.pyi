# SPDX-License-Identifier: Apache-2.0
import argparse
import os
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from sambaflow.samba.samba_session import SambaSession

_Path = str | os.PathLike[str]

def common_app_driver(
    args: argparse.Namespace,
    model: torch.nn.Module,
    inputs: Any,
    optim: torch.optim.Optimizer | Sequence[torch.optim.Optimizer] | None = None,
    name: str = "",
    init_output_grads: bool = True,
    app_dir: _Path | None = None,
    loss_indices: Sequence[int | Sequence[int]] | None = None,
    *,
    session: SambaSession | None = None,
    io_host_memory: bool | None = None,
    inference: bool | None = None,
    output_folder: _Path | None = None,
    pef_name: str | None = None,
    precision: str | None = None,
    grad_accumulation_steps: int | None = None,
    memory_budget: int | None = None,
    config_dict: Any = None,
    pef_metadata: Any = None,
    squeeze_bs_dim: bool = False,
    mapping: str | None = None,
    fast_memory: int | None = None,
    data_parallel: bool | None = None,
    graph_names: None = None,
    graph_transform_hook: None = None,
    dims: Mapping[str, Sequence[int]] | None = None,
    sizes: Sequence[Any] | None = None,
) -> Any: ...
