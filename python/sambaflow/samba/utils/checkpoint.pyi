# SPDX-License-Identifier: Apache-2.0
# made by tools/stubs.py
import os
from typing import NamedTuple

import torch

class LoadedKeys(NamedTuple):
    missing_keys: list[str]
    unexpected_keys: list[str]

def load_sharded_checkpoint(
    model: torch.nn.Module, folder: str | os.PathLike[str], strict: bool = True, prefer_safe: bool = True
) -> LoadedKeys: ...
