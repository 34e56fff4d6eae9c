# SPDX-License-Identifier: Apache-2.0
# made by tools/stubs.py
import argparse
import dataclasses
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

@dataclasses.dataclass(frozen=True)
class PefInfoStruct:
    path: str
    graph_names: tuple[str, ...]
    section_types: tuple[str, ...]
    mapping: str
    inference: bool
    inputs: dict[str, tuple[str, tuple[int, ...]]]
    outputs: dict[str, tuple[str, tuple[int, ...]]]
    parameters: dict[str, tuple[str, tuple[int, ...]]]
    buffers: dict[str, tuple[str, tuple[int, ...]]]
    hyperparameters: dict[str, float]
    memory: dict[str, int]

def get_pef_info(path: str | os.PathLike[str]) -> PefInfoStruct: ...
@overload
def get_pefmeta(source: str | os.PathLike[str]) -> PefMeta: ...
@overload
def get_pefmeta(source: argparse.Namespace | Mapping[str, Any], model: torch.nn.Module | None = None) -> dict[str, Any]: ...
def get_pefmeta_dict(
    source: str | os.PathLike[str] | argparse.Namespace | Mapping[str, Any], model: torch.nn.Module | None = None
) -> dict[str, Any]: ...
def write_notes(path: str, *notes: Any) -> None: ...
