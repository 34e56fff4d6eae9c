# SPDX-License-Identifier: Apache-2.0
import argparse
from collections.abc import Sequence
from typing import Any

import torch

def common_app_driver(
    args: argparse.Namespace,
    model: torch.nn.Module,
    inputs: Any,
    optim: torch.optim.Optimizer | Sequence[torch.optim.Optimizer] | None = None,
    name: str = "",
    init_output_grads: bool = True,
    app_dir: str | None = None,
    loss_indices: Sequence[int | Sequence[int]] | None = None,
    **keywords: Any,
) -> Any: ...
