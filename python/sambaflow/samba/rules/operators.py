# SPDX-License-Identifier: Apache-2.0
"""Functions that need no rule of their own: the library's function samba_<name> takes one value or two and nothing else, and
torch has a function of that name. So have the operators whose row of src/ops.def says how they are called."""

import torch

from sambaflow._core import ffi, lib
from sambaflow.samba.rules.common import binary, method_in_place, named, unary
from sambaflow.samba.trace import RULES


def _operands(call):
    """How many values a C function takes; 0 where it takes, or gives, something else."""
    kind = ffi.typeof(call) if callable(call) else None
    plain = kind and kind.result.cname == "struct samba_value" and all(x is kind.result for x in kind.args)
    return len(kind.args) if plain else 0


def register():
    """Rules for those of torch's functions that no family has, and for the methods that write in place.
    Called when the families have theirs."""
    for name in dir(lib):
        call, name = getattr(lib, name), name.removeprefix("samba_")
        count, left = _operands(call), [f for f in named(name) if f not in RULES]
        if left and count in (1, 2):
            (unary, binary)[count - 1](call, *left)
            method = getattr(torch.Tensor, name + "_", None)
            if method and method not in RULES and getattr(torch.Tensor, name) in left:
                method_in_place(method, RULES[getattr(torch.Tensor, name)])
