# SPDX-License-Identifier: Apache-2.0
"""How tensors print: torch's values, then what a SambaTensor has besides."""

import re
import textwrap


def shown(tensor):
    """'SambaTensor([[1., 2.]], name='x', shape=(1, 2), dtype=torch.float32, device=cpu)';
    what a gradient needs as torch shows it."""
    kind, parts = type(tensor).__name__, []
    if tensor._held is not None:
        values = repr(tensor._held.detach())[len("tensor(") : -1]
        values = re.split(r",\s+(?:size|dtype|device|layout)=", values)[0]  # these come below for every tensor
        parts.append(textwrap.indent(values, " " * (len(kind) - len("tensor"))).lstrip())
    if tensor.sn_name:
        parts.append(f"name={tensor.sn_name!r}")
    parts += [f"shape={tuple(tensor.shape)}", f"dtype={tensor.dtype}", f"device={tensor.device}"]
    if tensor._held is None:
        parts.append("no data" if tensor._value is None else "traced")
    if tensor.grad_fn is not None:
        parts.append(f"grad_fn=<{type(tensor.grad_fn).__name__}>")
    elif tensor.requires_grad:
        parts.append("requires_grad=True")
    return f"{kind}({', '.join(parts)})"
