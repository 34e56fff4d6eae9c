# SPDX-License-Identifier: Apache-2.0
"""What the backward starts from: gradients of outputs, on the device.

>>> import tempfile
>>> import sambaflow.samba as samba
>>> model, x, session = samba.from_torch_model_(torch.nn.Linear(3, 2)), samba.ones(4, 3, name="x"), samba.SambaSession()
>>> optim = samba.optim.SGD(model.parameters(), lr=0.1)
>>> with tempfile.TemporaryDirectory() as folder:
...     outputs = session.trace_graph(model, (x,), optim, pef=session.compile(model, (x,), optim, output_folder=folder))
>>> start(session, outputs, given={"output_0": torch.full((4, 2), 0.5)})
>>> outputs[0].sn_grad.unique()
tensor([0.5000])
"""

import torch

from sambaflow import errors
from sambaflow.samba.sambatensor import values_of


def start(session, outputs, ones=(), given=None, fewer=False):
    """See samba.utils.init_output_grads."""
    tensors, given = session.loaded().tensors, dict(given or {})
    starts = {name: 1.0 for name in ones or ()}
    for x in outputs or ():
        name = x if isinstance(x, str) else x.sn_name
        if session.has(f"{name}.grad"):
            starts.setdefault(name, session.start_of(name))
    for name in dict.fromkeys((*starts, *given)):
        if not session.has(f"{name}.grad"):
            known = [x for x in session.loaded().names("output") if f"{x}.grad" in tensors]
            raise errors.UnknownNameError(
                f"init_output_grads: {name!r} has no gradient on the device; outputs that have one: {', '.join(known) or 'none'}"
            )
        _, dtype, shape = tensors[f"{name}.grad"]
        gradient = given.get(name)
        if gradient is None:
            gradient = torch.full(shape, starts.get(name, 1.0), dtype=getattr(torch, dtype))
        elif fewer:
            gradient = _padded(name, values_of(gradient), shape)
        session.device_set(f"{name}.grad", gradient)


def _padded(name, gradient, shape):
    if gradient.dim() != len(shape) or not shape or gradient.shape[1:] != shape[1:] or len(gradient) > shape[0]:
        raise errors.ShapeError(
            f"init_output_grads: the gradient of {name!r} has shape {tuple(gradient.shape)}, expected at most {shape}"
        )
    return torch.cat([gradient, gradient.new_zeros(shape[0] - len(gradient), *shape[1:])])
