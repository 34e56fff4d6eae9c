# SPDX-License-Identifier: Apache-2.0
"""Hints to the compiler about modules of a model."""

import weakref

import torch

FUSIONS = weakref.WeakKeyDictionary()  # module -> the name its operators are kept together under


def op_fusion(module, name):
    """Keeps the operators of `module`, and of what it calls, in one section of each type: forward in one, their gradients in one.
    Modules of one name stay together; a hint inside another is part of it. Returns the module. `sambaflow inspect --operators`
    shows the name.

    >>> import torch
    >>> import sambaflow.samba as samba
    >>> from sambaflow.samba.directives import op_fusion
    >>> block = op_fusion(torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU()), "block")
    """
    if not isinstance(module, torch.nn.Module):
        raise TypeError(f"op_fusion: expected a torch.nn.Module, given {type(module).__name__}")
    if not isinstance(name, str) or not name:
        raise ValueError(f"op_fusion: expected a name that is not empty, given {name!r}")
    FUSIONS[module] = name
    return module
