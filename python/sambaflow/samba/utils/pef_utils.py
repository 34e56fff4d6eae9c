# SPDX-License-Identifier: Apache-2.0
"""What a PEF says of itself, and what the program that compiled it said: `<pef>.json` beside it keeps app_dir, config_dict and
pef_metadata of session.compile. A PEF without it runs all the same.

>>> import tempfile
>>> import torch
>>> import sambaflow.samba as samba
>>> model = samba.from_torch_model_(torch.nn.Linear(3, 2))
>>> with tempfile.TemporaryDirectory() as folder:
...     pef = samba.session.compile(model, (samba.randn(4, 3, name="x"),), inference=True, output_folder=folder)
...     get_pefmeta(pef).tensors["x"]["shape"], sorted(get_pefmeta_dict(pef)["tensors"])
([4, 3], ['bias', 'output_0', 'weight', 'x'])
"""

import argparse
import dataclasses
import json
import os
from collections.abc import Iterator, Mapping
from typing import Any, overload

import torch

from sambaflow._core import ffi, lib
from sambaflow.runtime import Session
from sambaflow.samba.utils import pef_html
from sambaflow.words import text

_NOTES = ("app_dir", "config_dict", "pef_metadata")
_MEMORY = ("parameters", "state", "gradients", "inputs_outputs", "activations", "constants", "scratch", "total")


class PefMeta(Mapping[str, Any]):
    """Sections with their work, device memory, tensors and hyperparameters of a PEF, and its program's notes: as attributes, or
    as a mapping of their names. A notebook shows it as tables. `path` is the PEF's.

    `sections`: a dict each with id, type, stage_count, flops, bytes, fast_memory (bytes its stages touch) and name (modules).
    `memory`: bytes by use, with this machine's scratch. `tensors`: kind, dtype and shape by name."""

    path: str
    section_types: list[str]
    sections: list[dict[str, Any]]
    memory: dict[str, int]
    tensors: dict[str, dict[str, Any]]
    hyperparameters: dict[str, float]
    app_dir: str | None
    config_dict: dict[str, Any] | None
    pef_metadata: Any

    def __init__(self, path: str | os.PathLike[str]) -> None:
        session = Session(path)
        self.path = str(path)
        self.section_types = session.section_types
        self.sections = self._read_sections(session)
        self.memory = self._read_memory(session)
        self.tensors = {
            name: {"kind": kind, "dtype": dtype, "shape": list(shape)} for name, (kind, dtype, shape) in session.tensors.items()
        }
        self.hyperparameters = session.hyperparameters
        notes = {}
        if os.path.exists(self.path + ".json"):
            with open(self.path + ".json", encoding="utf-8") as file:
                notes = json.load(file)
        self.app_dir, self.config_dict, self.pef_metadata = (notes.get(name) for name in _NOTES)

    @staticmethod
    def _read_sections(session):
        info, found = ffi.new("samba_section_info *"), []
        for i in range(lib.samba_session_section_count(session.c)):
            session.context.check(lib.samba_session_section_info(session.c, i, info))
            found.append(
                {
                    "id": info.id,
                    "type": text(info.type),
                    "stage_count": info.stage_count,
                    "flops": info.flops,
                    "bytes": info.bytes,
                    "fast_memory": info.fast_memory,
                    "name": text(info.name),
                }
            )
        return found

    @staticmethod
    def _read_memory(session):
        memory = ffi.new("samba_memory_info *")
        session.context.check(lib.samba_session_memory(session.c, memory))
        return {part: getattr(memory, part) for part in _MEMORY}

    def __getitem__(self, key: str) -> Any:
        if key not in self.__dict__:
            raise KeyError(key)
        return self.__dict__[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self.__dict__)

    def __len__(self) -> int:
        return len(self.__dict__)

    def __repr__(self):
        return f"PefMeta({self.path!r}: {', '.join(self.section_types)}; {pef_html.bytes_text(self.memory['total'])})"

    def _repr_html_(self) -> str:
        """Tables for a notebook: sections, memory, tensors, hyperparameters."""
        return pef_html.tables(self)


@dataclasses.dataclass(frozen=True)
class PefInfoStruct:
    """What a program asks of a PEF before it runs it. `inputs`, `outputs`, `parameters` and `buffers` (with what an
    optimizer keeps): {name: (dtype, shape)}. `memory`: bytes by use. get_pefmeta has sections and the program's notes besides."""

    path: str
    graph_names: tuple[str, ...]  # of several graphs; of one, its name
    section_types: tuple[str, ...]
    mapping: str
    inference: bool  # no graph has a backward pass
    inputs: dict[str, tuple[str, tuple[int, ...]]]
    outputs: dict[str, tuple[str, tuple[int, ...]]]
    parameters: dict[str, tuple[str, tuple[int, ...]]]
    buffers: dict[str, tuple[str, tuple[int, ...]]]
    hyperparameters: dict[str, float]  # name -> value
    memory: dict[str, int]


def get_pef_info(path: str | os.PathLike[str]) -> PefInfoStruct:
    """A PefInfoStruct of the file at `path`.

    >>> import tempfile
    >>> import torch
    >>> import sambaflow.samba as samba
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     pef = samba.session.compile(torch.nn.ReLU(), (samba.randn(4, 3, name="x"),), inference=True, output_folder=folder)
    ...     info = get_pef_info(pef)
    >>> isinstance(info, PefInfoStruct), info.inputs, info.inference, info.section_types
    (True, {'x': ('float32', (4, 3))}, True, ('FWD',))
    """
    session = Session(path)
    kinds = {"inputs": {}, "outputs": {}, "parameters": {}, "buffers": {}}
    for name, (kind, dtype, shape) in session.tensors.items():
        kinds.setdefault(f"{kind}s", {})[name] = dtype, shape
    kinds.pop("gradients", None)
    types = session.section_types
    return PefInfoStruct(
        path=str(path),
        graph_names=tuple(session.graph_names),
        section_types=tuple(types),
        mapping=session.mapping,
        inference="BCKWD" not in types,
        hyperparameters=dict(session.hyperparameters),
        memory=PefMeta._read_memory(session),
        **kinds,
    )


@overload
def get_pefmeta(source: str | os.PathLike[str]) -> PefMeta: ...


@overload
def get_pefmeta(source: argparse.Namespace | Mapping[str, Any], model: torch.nn.Module | None = None) -> dict[str, Any]: ...


def get_pefmeta(source, model=None):
    """What a PEF says of itself, or what a program may note in one.

    Args:
        source: the path of a PEF; or a program's arguments, parsed or as a dict.
        model: that of the program, with arguments alone.

    Returns:
        A PefMeta of the file; of arguments a dict, which compile takes as `pef_metadata`.
    """
    if isinstance(source, (str, os.PathLike)):
        return PefMeta(source)
    parameters = {} if model is None else {name: list(x.shape) for name, x in model.named_parameters()}
    arguments = source if isinstance(source, Mapping) else vars(source)
    return {"model": None if model is None else type(model).__name__, "parameters": parameters, "arguments": dict(arguments)}


def get_pefmeta_dict(
    source: str | os.PathLike[str] | argparse.Namespace | Mapping[str, Any], model: torch.nn.Module | None = None
) -> dict[str, Any]:
    """get_pefmeta of `source` and `model` as a dict, which json takes."""
    found = get_pefmeta(source, model)
    return found if isinstance(found, dict) else dict(found)


def write_notes(path: str, *notes: Any) -> None:
    """Writes `notes`, app_dir, config_dict and pef_metadata, beside the PEF at `path`, as far as they are given; removes
    those of an older PEF."""
    notes = {name: note for name, note in zip(_NOTES, notes) if note is not None}
    if notes:
        written = json.dumps(notes, indent=1, default=lambda x: dict(vars(x)) if hasattr(x, "__dict__") else str(x))
        with open(path + ".json", "w", encoding="utf-8") as file:
            file.write(written + "\n")
    elif os.path.exists(path + ".json"):
        os.remove(path + ".json")
