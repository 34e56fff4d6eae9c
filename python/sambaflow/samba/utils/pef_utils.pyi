# SPDX-License-Identifier: Apache-2.0
import os
from typing import Any

class PefMeta:
    path: str
    section_types: list[str]
    tensors: dict[str, dict[str, Any]]
    hyperparameters: dict[str, float]
    def __init__(self, path: str | os.PathLike[str]) -> None: ...

def get_pefmeta(path: str | os.PathLike[str]) -> PefMeta: ...
def get_pefmeta_dict(path: str | os.PathLike[str]) -> dict[str, Any]: ...
