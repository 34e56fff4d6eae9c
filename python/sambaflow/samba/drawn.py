# SPDX-License-Identifier: Apache-2.0
"""Single random numbers, torch.rand(()) and the like. A model that asks for the value, to decide which layers run, gets the one
that is drawn while it is traced. A graph that computes with the number, or with what was computed of it, draws a new one in each
run: so such a tensor keeps how it was made, and becomes nodes where the graph first needs it.

>>> import tempfile
>>> import torch
>>> import sambaflow.samba as samba
>>> class Scaled(torch.nn.Module):
...     def forward(self, x):
...         return x * (1 - torch.rand(()))
>>> model, x, session = samba.from_torch_model_(Scaled()), samba.ones(3, name="x"), samba.SambaSession()
>>> with tempfile.TemporaryDirectory() as folder:
...     outputs = session.trace_graph(model, (x,), pef=session.compile(model, (x,), inference=True, output_folder=folder))
>>> a, b = (samba.to_torch(session.run((x,), outputs)[0]) for _ in range(2))
>>> torch.equal(a, b)
False
"""

import torch

from sambaflow.errors import UnsupportedError
from sambaflow.samba.sambatensor import SambaTensor

SINGLE = {}  # torch function -> rule of a single number
_leaves = torch.utils._pytree.tree_leaves


def note(tracer, tensor, func, args, kwargs):
    """A tensor of a single number that a torch function has drawn on the host."""
    if func in SINGLE and tensor.dim() == 0 and kwargs.get("generator") is None:
        tracer.has_drawn, tensor._draw = True, (func, args, kwargs)


def follow(tracer, func, result, args, kwargs):
    """What an ATen operator has computed on the host of drawn numbers alone, or of them and constants."""
    if tracer.has_drawn and isinstance(result, SambaTensor) and not func._schema.is_mutable:
        if any(getattr(x, "_draw", None) is not None for x in _leaves((args, kwargs))):
            result._draw = func, args, kwargs


def value(tracer, tensor, written):
    """The samba_value of a drawn tensor."""
    func, args, kwargs = tensor._draw
    if written:
        raise UnsupportedError(
            f"a single random number is written in place: draw it with a dim, torch.rand(1), or compute a new one{tracer.where()}"
        )
    if func in SINGLE:
        return tracer.draw(SINGLE[func], args, kwargs)._value

    def traced(x):
        return tracer.wrap(tracer.value(x)) if getattr(x, "_draw", None) is not None else x

    args, kwargs = torch.utils._pytree.tree_map(traced, (args, kwargs))
    return tracer.value(tracer.aten(func, args, kwargs))
