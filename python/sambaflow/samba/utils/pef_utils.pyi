# SPDX-License-Identifier: Apache-2.0
import argparse
import os
from collections.abc import Iterator, Mapping
from typing import Any, overload

import torch

class PefMeta(Mapping[str, Any]):
    path: str
    section_types: list[str]
    sections: list[dict[str, Any]]
    memory: dict[str, int]
    tensors: dict[str, dict[str, Any]]
    hyperparameters: dict[str, float]
    app_dir: str | None
    config_dict: dict[str, Any] | None
    pef_metadata: Any
    def __init__(self, path: str | os.PathLike[str]) -> None: ...
    def __getitem__(self, key: str) -> Any: ...
    def __iter__(self) -> Iterator[str]: ...
    def __len__(self) -> int: ...
    def _repr_html_(self) -> str: ...

@overload
def get_pefmeta(source: str | os.PathLike[str]) -> PefMeta: ...
@overload
def get_pefmeta(source: argparse.Namespace | Mapping[str, Any], model: torch.nn.Module | None = None) -> dict[str, Any]: ...
def get_pefmeta_dict(
    source: str | os.PathLike[str] | argparse.Namespace | Mapping[str, Any], model: torch.nn.Module | None = None
) -> dict[str, Any]: ...
def write_notes(path: str, *notes: Any) -> None: ...
