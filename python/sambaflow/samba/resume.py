# SPDX-License-Identifier: Apache-2.0
"""What a checkpoint of a Python program holds beside the device's: where its loaders stand, the states of its random generators,
and its own state. Values that JSON has are the checkpoint's text, tensors are its tensors.

>>> text, tensors = packed({"epoch": 3, "best": torch.tensor([1.5])})
>>> unpacked(text, {name: torch.from_dlpack(tensor) for name, tensor in tensors.items()})
{'epoch': 3, 'best': tensor([1.5000])}
>>> states, drawn = random_states(), torch.rand(3)
>>> set_random_states(states)
>>> torch.equal(torch.rand(3), drawn)
True
>>> Resumed(step=3, state=None, path="points/checkpoint-3").step
3
"""

import json
import os
import random
import sys
import typing

import torch

from sambaflow import checkpoint, errors, launch
from sambaflow.samba.arguments import listed
from sambaflow.samba.ports import host_tensor
from sambaflow.samba.sambatensor import values_of

_TENSOR = "__tensor__"


class Resumed(typing.NamedTuple):
    """What load_checkpoint found."""

    step: int
    state: typing.Any
    path: str


class _Found(typing.NamedTuple):
    result: Resumed
    seed: int


# ---- values ----


def packed(value):
    """(JSON text, {name: Tensor}) of tensors, numbers, strings, None, and lists, tuples and dicts of them.
    A tuple comes back as a list."""
    tensors = {}

    def pack(x, path):
        if isinstance(x, torch.Tensor):
            name = path or "state"
            tensors[name] = host_tensor(values_of(x).detach(), name)
            return {_TENSOR: name}
        if isinstance(x, dict):
            for key in x:
                if not isinstance(key, str) or key == _TENSOR:
                    raise TypeError(f"save_checkpoint: {path or 'state'} has a key {key!r:.100}: give strings")
            return {key: pack(part, f"{path}.{key}" if path else key) for key, part in x.items()}
        if isinstance(x, (list, tuple)):
            return [pack(part, f"{path}.{i}" if path else str(i)) for i, part in enumerate(x)]
        if x is None or isinstance(x, (bool, int, float, str)):
            return x
        raise TypeError(
            f"save_checkpoint: {path or 'state'} is a {type(x).__name__}: give tensors, numbers, strings, and lists "
            "and dicts of them"
        )

    return json.dumps(pack(value, "")), tensors


def unpacked(text, tensors):
    """The other way, of torch tensors."""

    def unpack(x):
        if isinstance(x, dict):
            return tensors[x[_TENSOR]] if _TENSOR in x else {key: unpack(part) for key, part in x.items()}
        return [unpack(part) for part in x] if isinstance(x, list) else x

    return unpack(json.loads(text))


# ---- random generators ----


def random_states():
    """Of torch, Python and, where it is imported, NumPy."""
    version, words, gauss = random.getstate()
    states = {"torch": torch.get_rng_state(), "python": [version, list(words), gauss]}
    if "numpy" in sys.modules:
        kind, words, place, has_gauss, gauss = sys.modules["numpy"].random.get_state()
        states["numpy"] = [kind, [int(word) for word in words], place, has_gauss, gauss]
    return states


def set_random_states(states):
    """The other way."""
    torch.set_rng_state(states["torch"])
    version, words, gauss = states["python"]
    random.setstate((version, tuple(words), gauss))
    if "numpy" in states and "numpy" in sys.modules:
        kind, words, place, has_gauss, gauss = states["numpy"]
        sys.modules["numpy"].random.set_state((kind, words, place, has_gauss, gauss))


# ---- checkpoints ----


def _loaders(loaders):
    found = listed(loaders)
    for loader in found:
        if not hasattr(loader, "state_dict") or not hasattr(loader, "load_state_dict"):
            raise TypeError(f"loaders: {loader!r:.100} has no state_dict and load_state_dict: give SambaLoaders")
    return found


def save(device, folder, step, loaders, state, keep, shard_size):
    """samba.session.save_checkpoint of a runtime.Session."""
    text, tensors = packed(
        {"state": state, "random": random_states(), "loaders": [loader.state_dict() for loader in _loaders(loaders)]}
    )
    checkpoint.save(device, folder, step, keep, shard_size, text, tensors.values())
    return os.path.join(os.fsdecode(folder), f"checkpoint-{step}")


def load(device, folder, loaders):
    """samba.session.load_checkpoint."""
    loaders = _loaders(loaders)
    if os.path.isfile(os.path.join(os.fsdecode(folder), "checkpoint.json")):
        found = checkpoint.open_(folder)
    else:
        found = checkpoint.newest(folder)
    if found is None:
        return None
    if found.skipped:
        launch.warn(f"load_checkpoint passed over: {found.skipped}", RuntimeWarning, stacklevel=3)
    try:
        kept = unpacked(found.text, {name: torch.from_dlpack(tensor).clone() for name, tensor in found.tensors.items()})
        state, states, places = kept["state"], kept["random"], kept["loaders"]
    except (TypeError, KeyError, ValueError):
        raise errors.FormatError(
            f"{found.path} was not saved by save_checkpoint of a Python program; sambaflow.checkpoint.load takes it"
        ) from None
    if len(places) != len(loaders):
        raise errors.ArgumentError(
            f"load_checkpoint: {found.path} was saved with {len(places)} loaders and {len(loaders)} are given"
        )
    checkpoint.load(device, found)
    for loader, place in zip(loaders, places):
        loader.load_state_dict(place)
    set_random_states(states)
    return _Found(Resumed(found.step, state, found.path), found.seed)
