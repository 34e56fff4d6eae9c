# SPDX-License-Identifier: Apache-2.0
# made by tools/stubs.py
from collections.abc import Sequence

import torch

from sambaflow.samba.sambatensor import SambaTensor

def sn_gather(
    x: torch.Tensor,
    start_indices: torch.Tensor,
    dims: int | Sequence[int],
    lengths: int | Sequence[int],
    batched_dims: int | Sequence[int] = (),
) -> SambaTensor: ...
def sn_scatter(
    x: torch.Tensor,
    start_indices: torch.Tensor,
    updates: torch.Tensor,
    dims: int | Sequence[int],
    lengths: int | Sequence[int] | None = None,
    batched_dims: int | Sequence[int] = (),
    reduce: str | None = None,
) -> SambaTensor: ...
