# SPDX-License-Identifier: Apache-2.0
"""What a session moves of whole models: parameters, buffers and optimizers' state, from the device to the host and back.
The device counts steps once a group of an optimizer, torch once a parameter."""

import torch

from sambaflow import errors
from sambaflow.samba import changed
from sambaflow.samba.arguments import module
from sambaflow.samba.arguments import optimizers as optimizer_list
from sambaflow.samba.of_session import of_session
from sambaflow.samba.optimizers import IDLE, SHAPED, TOTALS
from sambaflow.samba.owned import KINDS
from sambaflow.samba.sambatensor import SambaTensor, make_wrapper, values_of


class Transfers:
    """Of a session."""

    @of_session
    def to_cpu(self, model, optims=None, inplace=False):
        """Copies parameters, buffers and the optimizers' state from the device to the host;
        `inplace` into the memory that is there."""
        for name, tensor in self._of_model("to_cpu", model):
            tensor._fetched(self, inplace, name)
        for parameter, state, key, name in self._optimizer_state(optims):
            held = values_of(state.get(key))
            fresh = self.device_get(name)
            if key in TOTALS:
                if set(state) - {"momentum_buffer"}:  # torch's SGD counts none
                    state[key] = fresh.float()  # as torch has it
                elif fresh == 0:  # no step had momentum yet: torch makes no buffer before
                    state.pop("momentum_buffer", None)
                continue
            if key in IDLE and held is None and not fresh.any():  # torch makes none before it is used
                continue
            fresh = parameter._as_held(fresh)
            state[key] = make_wrapper(SambaTensor, held.copy_(fresh) if inplace and held is not None else fresh, None, None, name)

    @of_session
    def to_cpu_(self, model, optims=None):
        """to_cpu in place."""
        self.to_cpu(model, optims, inplace=True)

    @of_session
    def to_rdu(self, model, optims=None):
        """Copies parameters, buffers and the optimizers' state from the host to the device."""
        self.loaded()
        for name, tensor in self._of_model("to_rdu", model):
            self.device_set(name, tensor)
            self._owned.is_alike(tensor)
        changed.forget_buffers(self)
        self._send_optimizer_state(optims)

    def _of_model(self, call, model, kinds=KINDS):
        """(name, tensor) of the parameters and buffers that the device has.
        One of which it has nothing is another model, or was traced elsewhere."""
        found = list(
            self._owned.of_model(call, self, module(f"moving its {'tensors' if kinds == KINDS else 'buffers'}", model), kinds)
        )
        if not found and self.is_loaded and kinds == KINDS and next(model.parameters(), None) is not None:
            raise errors.StateError(
                f"{call}: the device has no parameter and no buffer of this {type(model).__name__}: trace it first, or move the "
                "model that was traced"
            )
        return found

    def _on_device(self, tensors):
        """{name: tensor} of those that the device has."""
        return {self._owned.name_of(x): x for x in tensors if isinstance(x, SambaTensor) and self.has(self._owned.name_of(x))}

    def _optimizer_state(self, optims):
        """(a parameter, its state, its key, the device's name) of every state tensor that the device has.
        Steps are counted once a group there."""
        index = 0  # among groups that train something
        for optimizer in optimizer_list("moving the optimizers' state", optims):
            for number, group in enumerate(optimizer.param_groups):
                trained = {
                    name: parameter for name, parameter in self._on_device(group["params"]).items() if parameter.requires_grad
                }
                for path, parameter in trained.items():
                    names = {key: f"{path}.{key}" for key in SHAPED}
                    its = index if self._optimizers is None else self._optimizers.get((id(optimizer), number), -1)
                    for key, name in {**names, **{key: f"optim{its}.{key}" for key in TOTALS}}.items():
                        if self.has(name):
                            yield parameter, optimizer.state[parameter], key, name
                index += bool(trained)

    def _send_optimizer_state(self, optims):
        totals = {}
        for optimizer in optimizer_list("moving the optimizers' state", optims):
            self._doubts.pop(optimizer, None)
        for _, state, key, name in self._optimizer_state(optims):
            if key in TOTALS and (key in state or (key == "step" and state.get("momentum_buffer") is not None)):
                total = float(state.get(key, 1))
                if totals.setdefault(name, total) != total:
                    what = (
                        f"taken {totals[name]:g} and {total:g} steps"
                        if key == "step"
                        else f"a {key} of {totals[name]:g} and {total:g}"
                    )
                    raise errors.StateError(f"parameters of one group have {what}: the device counts once a group")
            elif key in state and key not in TOTALS and state[key] is not None:
                self.device_set(name, state[key])
        for name, total in totals.items():
            self.device_set(name, torch.tensor(total, dtype=torch.float64))

    @of_session
    def sync_buffers_to_cpu(self, model, inplace=False):
        """Copies the model's buffers from the device to the host."""
        for name, tensor in self._of_model("sync_buffers_to_cpu", model, KINDS[1:]):
            tensor._fetched(self, inplace, name)

    @of_session
    def sync_buffers_to_rdu(self, model):
        """Copies the model's buffers from the host to the device."""
        self.loaded()
        for name, tensor in self._of_model("sync_buffers_to_rdu", model, KINDS[1:]):
            self.device_set(name, tensor)

    def update_tensor(self, name, tensor):
        """Gives a traced tensor new values, on the device too; None forgets it. A parameter or buffer is the model's own."""
        self.get_samba_tensor_by_name(name)
        if tensor is None:
            del self._traced[name]
            self._auxiliary.pop(name, None)
        else:
            self.device_set(name, tensor)
            self._traced[name].take_values(values_of(tensor))
            self._owned.settle(self._traced[name])
