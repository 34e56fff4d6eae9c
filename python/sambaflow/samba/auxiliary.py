# SPDX-License-Identifier: Apache-2.0
"""Tensors that a program keeps beside those of its PEF, under names of its own: what goes from run to run, or to a checkpoint of
the program's, without being a part of a graph. They are on the device as the others are: `sn_data`, `get_tensors_by_name` and
`update_tensor` mean the device's copy, the handle has the host's.

>>> import tempfile, torch
>>> import sambaflow.samba as samba
>>> x, session = samba.ones(2, name="x"), samba.SambaSession()
>>> with tempfile.TemporaryDirectory() as folder:
...     model = torch.nn.ReLU()
...     outputs = session.trace_graph(model, (x,), pef=session.compile(model, (x,), inference=True, output_folder=folder))
>>> session.is_valid_aux_tensor_name("x"), session.is_valid_aux_tensor_name("mask")
(False, True)
>>> mask = session.add_aux_tensor("mask", torch.zeros(2))
>>> mask.sn_data = torch.ones(2)
>>> session.get_tensors_by_name(["mask"])[0].tolist(), mask.tolist()
([1.0, 1.0], [0.0, 0.0])
"""

import weakref

import torch

from sambaflow import errors
from sambaflow.samba import nominal
from sambaflow.samba.sambatensor import SambaTensor, values_of


class Auxiliary:
    """What a session does with them. A PEF that is loaded afterwards has none."""

    def _forget_auxiliary(self):
        self._auxiliary = {}  # name -> the device's copy, a torch tensor
        self._dynamic_dims = {}

    def is_valid_aux_tensor_name(self, name):
        """Whether add_aux_tensor takes the name: a word that nothing on the device, and no tensor of a trace, has."""
        taken = (self._traced, self._aliases, self._auxiliary, self._device.tensors if self._device is not None else ())
        return isinstance(name, str) and bool(name) and not any(name in names for names in taken)

    def add_aux_tensor(self, name, tensor=None):
        """Puts a tensor of the program's on the device of the loaded PEF.

        Args:
            name: see is_valid_aux_tensor_name. It may be left out where the tensor is a SambaTensor with a name.
            tensor: a torch tensor or SambaTensor, with values.

        Returns:
            The handle: a SambaTensor of that name over the tensor's memory. update_tensor(name, None) ends it.

        Raises:
            StateError: no PEF is loaded.
            UnknownNameError: the name is not valid.
        """
        self.loaded()
        if tensor is None:
            name, tensor = getattr(name, "sn_name", ""), name
        if not isinstance(tensor, torch.Tensor):
            raise errors.ArgumentTypeError(f"add_aux_tensor: expected a tensor, given {type(tensor).__name__}")
        if not self.is_valid_aux_tensor_name(name):
            raise errors.UnknownNameError(
                f"add_aux_tensor: {name!r:.100} is no name for an auxiliary tensor: expected a word that no tensor of the PEF "
                "and of the trace has"
            )
        handle = SambaTensor(values_of(tensor).detach(), name=name)
        handle._session = None if self._is_global else weakref.ref(self)
        self._auxiliary[name] = values_of(handle).clone()
        self._traced[name] = handle
        return handle

    def _set_auxiliary(self, name, tensor):
        mine, given = self._auxiliary[name], values_of(tensor)
        if given.shape != mine.shape or given.dtype != mine.dtype:
            raise errors.ShapeError(
                f"auxiliary tensor {name!r} is {tuple(mine.shape)} {mine.dtype}, given {tuple(given.shape)} {given.dtype}"
            )
        mine.copy_(given)

    @property
    def dynamic_dims(self):
        """What a program has said of dims that change from run to run. A PEF has fixed shapes: saying so has no effect, and a
        NoEffectWarning tells it; several sizes are several graphs of one PEF, see compile(dims=) and
        add_graph."""
        return self._dynamic_dims

    @dynamic_dims.setter
    def dynamic_dims(self, dims):
        if dims:
            nominal.say("session.dynamic_dims", ", whose PEFs have fixed shapes: compile a graph for each size", 2)
        self._dynamic_dims = {} if dims is None else dims
