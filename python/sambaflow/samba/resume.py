# SPDX-License-Identifier: Apache-2.0
"""What a checkpoint of a Python program holds beside the device's: where its loaders and its schedulers stand, the states of its
random generators, and its own state. Values that JSON has are the checkpoint's text, tensors are its tensors.

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
_ITEMS = "__items__"


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
                    raise errors.ArgumentTypeError(f"save_checkpoint: {path or 'state'} has a key {key!r:.100}: give strings")
            return {key: pack(part, f"{path}.{key}" if path else key) for key, part in x.items()}
        if isinstance(x, (list, tuple)):
            return [pack(part, f"{path}.{i}" if path else str(i)) for i, part in enumerate(x)]
        if x is None or isinstance(x, (bool, int, float, str)):
            return x
        raise errors.ArgumentTypeError(
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


# ---- schedulers ----


def _keyed(value):
    """With dicts whose keys are no strings, such as the milestones of a MultiStepLR, as lists of pairs."""
    if isinstance(value, dict):
        if all(isinstance(key, str) for key in value):
            return {key: _keyed(part) for key, part in value.items()}
        return {_ITEMS: [[key, _keyed(part)] for key, part in value.items()]}
    return [_keyed(part) for part in value] if isinstance(value, (list, tuple)) else value


def _unkeyed(value, like):
    """The other way, with the types of dicts and tuples that the scheduler `like` it has itself."""
    if isinstance(value, dict) and _ITEMS in value:
        made = {key: _unkeyed(part, None) for key, part in value[_ITEMS]}
        return type(like)(made) if isinstance(like, dict) else made
    if isinstance(value, dict):
        return {key: _unkeyed(part, like.get(key) if isinstance(like, dict) else None) for key, part in value.items()}
    if isinstance(value, list):
        parts = like if isinstance(like, (list, tuple)) and len(like) == len(value) else [None] * len(value)
        made = [_unkeyed(part, of) for part, of in zip(value, parts)]
        return tuple(made) if isinstance(like, tuple) else made
    return value


def _rates(optimizer):
    """What schedulers change of the groups: learning rates and their like, which no state_dict of a scheduler has."""
    return [
        {key: _keyed(value) for key, value in group.items() if key != "params" and not callable(value)}
        for group in optimizer.param_groups
    ]


def scheduler_states(schedulers):
    """Of torch's schedulers, with the rates that their optimizers have."""
    return [{"state": _keyed(x.state_dict()), "groups": _rates(x.optimizer)} for x in schedulers]


def set_scheduler_states(schedulers, states):
    """The other way."""
    for scheduler, kept in zip(schedulers, states):
        scheduler.load_state_dict(_unkeyed(kept["state"], scheduler.state_dict()))
        for group, values in zip(scheduler.optimizer.param_groups, kept["groups"]):
            group.update({key: _unkeyed(value, group.get(key)) for key, value in values.items()})


# ---- checkpoints ----


def _loaders(loaders):
    found = listed(loaders)
    for loader in found:
        if not hasattr(loader, "state_dict") or not hasattr(loader, "load_state_dict"):
            raise errors.ArgumentTypeError(f"loaders: {loader!r:.100} has no state_dict and load_state_dict: give SambaLoaders")
    return found


def _schedulers(schedulers):
    found = listed(schedulers)
    for x in found:
        if not all(hasattr(x, name) for name in ("state_dict", "load_state_dict", "optimizer")):
            raise errors.ArgumentTypeError(f"schedulers: {x!r:.100} is no scheduler of torch.optim.lr_scheduler")
    return found


def _as_many(found, what, saved, given):
    if saved != given:
        raise errors.ArgumentError(f"load_checkpoint: {found.path} was saved with {saved} {what} and {given} are given")


def save(device, folder, step, loaders, state, keep, shard_size, schedulers):
    """samba.session.save_checkpoint of a runtime.Session."""
    text, tensors = packed(
        {
            "state": state,
            "random": random_states(),
            "loaders": [loader.state_dict() for loader in _loaders(loaders)],
            "schedulers": scheduler_states(_schedulers(schedulers)),
        }
    )
    checkpoint.save(device, folder, step, keep, shard_size, text, tensors.values())
    return os.path.join(os.fsdecode(folder), f"checkpoint-{step}")


def load(device, folder, loaders, schedulers):
    """samba.session.load_checkpoint."""
    loaders, schedulers = _loaders(loaders), _schedulers(schedulers)
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
        rates = kept.get("schedulers", [])  # older ones have none
    except (TypeError, KeyError, ValueError):
        raise errors.FormatError(
            f"{found.path} was not saved by save_checkpoint of a Python program; sambaflow.checkpoint.load takes it"
        ) from None
    _as_many(found, "loaders", len(places), len(loaders))
    _as_many(found, "schedulers", len(rates), len(schedulers))
    checkpoint.load(device, found)
    set_scheduler_states(schedulers, rates)
    for loader, place in zip(loaders, places):
        loader.load_state_dict(place)
    set_random_states(states)
    return _Found(Resumed(found.step, state, found.path), found.seed)
