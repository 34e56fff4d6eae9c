# SPDX-License-Identifier: Apache-2.0
"""Checkpoints of a model on the host that lie in several files, as Hugging Face's libraries write them: an index file says which
tensor is in which. One file is in memory at a time.

>>> import os, tempfile, torch
>>> import sambaflow.samba as samba
>>> from sambaflow.samba.utils.checkpoint import LoadedKeys, load_sharded_checkpoint
>>> model = samba.from_torch_model_(torch.nn.Linear(2, 1))
>>> with tempfile.TemporaryDirectory() as folder:
...     torch.save({"weight": torch.ones(1, 2)}, os.path.join(folder, "a.bin"))
...     torch.save({"bias": torch.zeros(1)}, os.path.join(folder, "b.bin"))
...     with open(os.path.join(folder, "pytorch_model.bin.index.json"), "w") as file:
...         _ = file.write('{"weight_map": {"weight": "a.bin", "bias": "b.bin"}}')
...     load_sharded_checkpoint(model, folder) == LoadedKeys(missing_keys=[], unexpected_keys=[])
True
>>> model.weight.tolist()
[[1.0, 1.0]]
"""

import json
import os
from typing import NamedTuple

import torch

from sambaflow import errors
from sambaflow._core import ffi, lib
from sambaflow.runtime import Context, Tensor
from sambaflow.samba.arguments import module
from sambaflow.words import path_of

SAFE, TORCHS = "model.safetensors.index.json", "pytorch_model.bin.index.json"


class LoadedKeys(NamedTuple):
    """Names that did not find each other."""

    missing_keys: list[str]  # of the model, without a tensor in the files
    unexpected_keys: list[str]  # of the files, without a tensor in the model


def load_sharded_checkpoint(
    model: torch.nn.Module, folder: str | os.PathLike[str], strict: bool = True, prefer_safe: bool = True
) -> LoadedKeys:
    """Loads a checkpoint of several files into a model on the host; `session.to_rdu(model)`, or trace_graph, which comes after
    it in most programs, sends the values to the device. A tensor that the model has under several names counts as loaded by one.

    Args:
        model: a torch.nn.Module, converted or not.
        folder: with `model.safetensors.index.json` or `pytorch_model.bin.index.json` and the files that it names.
        strict: whether names that only the model or only the files have are an error, by which nothing is loaded.
        prefer_safe: of two indices the one of safetensors; False: the other.

    Returns:
        LoadedKeys(missing_keys, unexpected_keys).

    Raises:
        FileError: no index, or a file that it names is not there.
        FormatError: the index, or a file, is not what it should be.
        UnknownNameError: `strict`, and names differ.
        ShapeError: a tensor has another shape than the model's.
    """
    call = "load_sharded_checkpoint"
    model, folder = module(call, model), os.fsdecode(path_of(folder, f"{call}: folder"))
    places = _index(call, folder, (SAFE, TORCHS) if prefer_safe else (TORCHS, SAFE))
    known = model.state_dict(keep_vars=True)
    tied = {}
    for name, x in known.items():
        tied.setdefault(id(x), set()).add(name)
    missing = [name for name, x in known.items() if not any(other in places for other in tied[id(x)])]
    unexpected = [name for name in places if name not in known]
    if strict and (missing or unexpected):
        lacks = [f"lacks {', '.join(missing):.300}, which the model has"] if missing else []
        more = [f"has {', '.join(unexpected):.300}, which the model has not"] if unexpected else []
        raise errors.UnknownNameError(f"{call}: {folder} {' and '.join(lacks + more)}: give it another model, or strict=False")
    for file in dict.fromkeys(places.values()):
        path = os.path.join(folder, file)
        found = _read(call, path)
        with torch.no_grad():
            for name in [name for name, its in places.items() if its == file and name in known]:
                if name not in found:
                    raise errors.FormatError(f"{call}: {path} has no tensor {name!r}, which the index says is there")
                given, target = found[name], known[name]
                if given.shape != target.shape:
                    raise errors.ShapeError(
                        f"{call}: {name!r} is {tuple(given.shape)} in {path} and {tuple(target.shape)} in the model"
                    )
                target.detach().copy_(given)
    return LoadedKeys(missing, unexpected)


def _index(call, folder, names):
    """{name of a tensor: file} of the first index that is there."""
    path = next((x for x in (os.path.join(folder, name) for name in names) if os.path.exists(x)), None)
    if path is None:
        raise errors.FileError(
            f"{call}: {folder} has neither {names[0]} nor {names[1]}: a checkpoint of one file is loaded by "
            "load_state_dict, or by session.load"
        )
    try:
        with open(path, encoding="utf-8") as file:
            places = json.load(file)["weight_map"]
        fits = isinstance(places, dict) and all(isinstance(x, str) and x for x in places.values())
    except (ValueError, KeyError, TypeError, UnicodeDecodeError):
        fits = False
    if not fits:
        raise errors.FormatError(f'{call}: {path}: expected an object with "weight_map", which gives each tensor its file')
    for file in set(places.values()):
        if os.path.basename(file) != file or file in (".", ".."):
            raise errors.FormatError(f"{call}: {path} names the file {file!r}: expected one in the same folder")
        if not os.path.isfile(os.path.join(folder, file)):
            raise errors.FileError(f"{call}: {path} names the file {file!r}, which is not there")
    return places


class _Tensors:
    """Those of a file, which C owns."""

    def __init__(self, path):
        self.context, self.list = Context(), ffi.new("samba_tensor_list *")
        self.context.check(lib.samba_safetensors_read(self.context.c, path, self.list))

    def __del__(self):
        lib.samba_tensor_list_free(self.context.c, self.list)


def _read(call, path):
    """{name: torch tensor} of one file."""
    if not path.endswith(".safetensors"):
        try:
            found = torch.load(path, map_location="cpu", weights_only=True)
        except Exception as error:  # torch, pickle and zipfile have one each
            raise errors.FormatError(f"{call}: {path} is no file that torch.save has written: {error}") from None
        if not isinstance(found, dict):
            raise errors.FormatError(f"{call}: {path} has a {type(found).__name__}: expected a dict of tensors by name")
        return {name: x for name, x in found.items() if isinstance(x, torch.Tensor)}
    read = _Tensors(path_of(path, "the file"))
    tensors = [Tensor._borrowed(read.list.tensors[i], read) for i in range(read.list.count)]
    return {x.name: torch.from_dlpack(x) for x in tensors}
