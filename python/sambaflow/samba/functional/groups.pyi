# SPDX-License-Identifier: Apache-2.0
# made by tools/stubs.py
import torch

from sambaflow.samba.sambatensor import SambaTensor

def groupby(
    input: torch.Tensor, groups: torch.Tensor, num_groups: int, capacity: int | None = None, dim: int = 0, fill: float = 0
) -> tuple[SambaTensor, SambaTensor]: ...
def triu_fill(input: torch.Tensor, value: float = ..., diagonal: int = 1) -> SambaTensor: ...
def sn_multinomial(
    input: torch.Tensor, num_samples: int, replacement: bool = False, *, generator: torch.Generator | None = None
) -> SambaTensor: ...
