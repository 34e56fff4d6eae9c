# SPDX-License-Identifier: Apache-2.0
"""Tensors inside of what models take and give: tuples, lists, dicts, dataclasses, Hugging Face's ModelOutputs, whatever torch's
pytree knows, nested in each other. What is no tensor stays as it is."""

import copy
import dataclasses

import torch


def _is_dataclass(x):
    return dataclasses.is_dataclass(x) and not isinstance(x, type)


def _named(name, key):
    return f"{name}.{key}" if name else str(key)


def mapped(function, x, name=""):
    """The same with function(tensor, its name) for each tensor, named by its path: input_0.mask, input_1.0

    >>> mapped(lambda tensor, name: name, {"mask": torch.ones(1), "rest": [None, torch.ones(1)]}, "batch")
    {'mask': 'batch.mask', 'rest': [None, 'batch.rest.1']}
    """
    if isinstance(x, torch.Tensor):
        return function(x, name)
    if isinstance(x, dict):
        made = {key: mapped(function, item, _named(name, key)) for key, item in x.items()}
        return made if type(x) is dict else type(x)(**made) if _is_dataclass(x) else _filled(x, made)
    if isinstance(x, (tuple, list)):
        made = [mapped(function, item, _named(name, i)) for i, item in enumerate(x)]
        return type(x)(*made) if hasattr(x, "_fields") else type(x)(made)
    if _is_dataclass(x):
        made = copy.copy(x)
        for field in dataclasses.fields(x):
            object.__setattr__(made, field.name, mapped(function, getattr(x, field.name), _named(name, field.name)))
        return made
    count = iter(range(1 << 30))
    return torch.utils._pytree.tree_map(
        lambda leaf: mapped(function, leaf, _named(name, next(count))) if isinstance(leaf, torch.Tensor) else leaf, x
    )


def _filled(x, items):
    made = copy.copy(x)
    made.update(items)
    return made


def tensors(x):
    """The tensors of a tree, in their order.

    >>> [len(tensor) for tensor in tensors([torch.ones(1), (None, {"b": torch.ones(2)}), "word"])]
    [1, 2]
    """
    found = []
    mapped(lambda tensor, name: found.append(tensor), x)
    return found
