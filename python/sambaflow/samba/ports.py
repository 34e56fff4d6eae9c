# SPDX-License-Identifier: Apache-2.0
"""The way of a run's tensors from torch to the device and back, made once for each input and output of a PEF: a run then only
points at where the values lie. A tensor that is not as the device has it (strides, dtype, shape, name) goes the long way, where
the library copies or refuses it."""

import torch

from sambaflow import errors
from sambaflow.runtime import Tensor
from sambaflow.samba import _state, trees
from sambaflow.samba.sambatensor import SambaTensor, from_output, plain_tensor, values_of
from sambaflow.samba.trace import dtype_name


def host_tensor(tensor, name):
    """The C library's view of a torch tensor's memory."""
    held = values_of(tensor)
    if not isinstance(held, torch.Tensor):
        made = f": torch.tensor({held!r}) makes one" if isinstance(held, float) else ""
        raise errors.ArgumentTypeError(f"{name!r}: expected a tensor, given {type(held).__name__}{made}")
    if held.layout is not torch.strided or held.device.type != "cpu":
        raise errors.UnsupportedError(
            f"{name!r} is a {held.layout} tensor on {held.device}: copy it into a dense tensor on the CPU"
        )
    if held.is_neg() or held.is_conj():
        held = held.resolve_neg().resolve_conj()
    if held.is_complex():  # the device has pairs
        held = torch.view_as_real(held)
    return Tensor._over(name, dtype_name(held.dtype), held.shape, held.stride(), held.data_ptr(), held)


def inputs_of(given):
    """The tensors of what a run is given. An array would be left out in silence, as what is no tensor is."""

    def look(x):
        if type(x).__module__ == "numpy" and type(x).__name__ == "ndarray":
            raise errors.ArgumentTypeError(
                f"run: an input is a NumPy array of shape {x.shape} and dtype {x.dtype}, not a tensor: give "
                "samba.from_torch_tensor(torch.from_numpy(array), name=...)"
            )

    torch.utils._pytree.tree_map(look, given)
    return trees.tensors(given)


def name_of(x, what):
    """The name of a tensor on the device; `what` it is: "an input tensor"."""
    name = getattr(x, "sn_name", "")
    if not name and not isinstance(x, torch.Tensor):
        cure = (
            "give the tensors that trace_graph returned, for example outputs[0]"
            if "output" in what
            else "samba.from_torch_tensor(tensor, name=...) makes one, of torch.from_numpy(array) where there is an array"
        )
        raise errors.ArgumentTypeError(f"expected {what}, given {x!r:.60}, a {type(x).__name__}: {cure}")
    if not name:
        key = " (the key in a dict does not name it)" if "input" in what else ""
        raise errors.UnknownNameError(
            f"{what} of shape {tuple(x.shape)} has no name{key}: make it with samba.from_torch_tensor(tensor, name=...)"
        )
    return name


def address_of(held, port):
    """Where the values lie, as the device has them; 0 if otherwise."""
    alike = (
        held is not None
        and held.is_cpu
        and held.dtype is port.dtype
        and held.shape == port.shape
        and held.is_contiguous()
        and not held.is_neg()
    )
    return held.data_ptr() if alike else 0


_empty_like = torch.empty_like


class _Port:
    """A samba_tensor of the device's dtype and shape that can be pointed anywhere;
    for outputs also what new ones are made like."""

    __slots__ = ("tensor", "c", "name", "dtype", "shape", "like")

    def __init__(self, device, name):
        _, dtype, shape = device.tensors[name]
        self.name, self.dtype, self.like = name, getattr(torch, dtype), torch.empty(shape, dtype=getattr(torch, dtype))
        self.shape = self.like.shape
        self.tensor = Tensor._over(name, dtype, shape, None, self.like.data_ptr(), self.like, device.context)
        self.c = self.tensor.c


class Ports:
    """The inputs and outputs of a device (runtime.Session)."""

    def __init__(self, device, aliases):
        self._device, self._aliases = device, aliases
        self._inputs = {name: _Port(device, name) for name in device.names("input")}
        self._inputs.update((name, self._inputs[of]) for name, of in aliases.items() if of in self._inputs)
        self._outputs = {name: _Port(device, name) for name in device.names("output")}
        self._own = {}  # name of an input -> torch tensor over the device's memory
        self._sizes = {}  # of a PEF of several sizes: number of a graph -> (its name, inputs, outputs)
        self._graphs = {}  # (graph_name, what inputs are like) -> number of the graph

    def _own_memory(self, port):
        """A torch tensor over the device's memory of an input."""
        if port.name not in self._own:
            empty = port.like.numel() == 0
            self._own[port.name] = (
                port.like if empty else torch.frombuffer(self._device.input_memory(port.name), dtype=port.dtype).view(port.shape)
            )
        return self._own[port.name]

    def _size_of(self, inputs, graph_name):
        """(name, inputs, outputs) of the graph that a run of these inputs runs, one size of several."""
        device, named, key = self._device, [], [graph_name]
        for x in inputs:
            held = x._held if x.__class__ is SambaTensor else None
            like = x if held is None else held  # whose shape torch tells in less time
            name = name_of(x, "an input tensor")
            named.append((name, like))
            key += (name, like.dtype, like.shape)
        key = tuple(key)
        number = self._graphs.get(key)
        if number is None:
            empties = [
                Tensor.empty(self._aliases.get(name, name), dtype_name(x.dtype), tuple(x.shape), device.context)
                for name, x in named
            ]
            number = device.graph_for(empties, graph_name)
            if named:  # without inputs it is the graph that ran last
                self._graphs[key] = number
        if number not in self._sizes:
            inside = {
                kind: {name: _Port(device, its) for name in device.names(kind) if (its := device.name_in(number, name))}
                for kind in ("input", "output")
            }
            inside["input"].update((name, inside["input"][of]) for name, of in self._aliases.items() if of in inside["input"])
            self._sizes[number] = device.graph_names[number], inside["input"], inside["output"]
        return self._sizes[number]

    def device_name(self, x):
        """What the device calls a tensor."""
        name = getattr(x, "sn_name", "")
        return self._aliases.get(name, name)

    def pin(self, tensors, wanted):
        """SambaTensors over the device's memory of the inputs of those names, with their values; what is no input, and what
        `wanted`, {name: whether it may be}, has as False, as it is."""
        its_inputs = self._size_of([x for x in tensors if x._sn_name], None)[1] if self._device.is_sized else self._inputs
        ports = [its_inputs.get(x._sn_name) if wanted.get(x._sn_name, True) else None for x in tensors]
        given = []
        for x, port in zip(tensors, ports):
            if port is None:
                continue
            if address := address_of(x._held, port):
                given.append((port.c, address))
            else:
                self._device.set(host_tensor(x, port.name))
        if given:
            self._device._set_from(*zip(*given))
        return tuple(
            [
                x if port is None else plain_tensor(self._own_memory(port), x._sn_name, x.batch_dim)
                for x, port in zip(tensors, ports)
            ]
        )

    def _shared(self, output, name, graph_name):
        """Where an output of a graph lies in memory that graphs share; None where it does not."""
        if getattr(output, "_noted", None) is None or not (graph_name is None or name.startswith(f"{graph_name}.")):
            return None
        return self._inputs.get(self._aliases.get(name, name))

    def run(
        self,
        inputs,
        outputs,
        hyperparameters,
        section_types,
        section_ids,
        train,
        calls,
        gradients,
        graph_name=None,
        replicas=None,
        reuse=(),
    ):
        """Runs sections with the tensors of `inputs`; new SambaTensors for those of `outputs`, by name."""
        device, addresses, results, kept, shared = self._device, [], [], [], []
        its_inputs, its_outputs = self._inputs, self._outputs
        if device.is_sized:
            graph_name, its_inputs, its_outputs = self._size_of(inputs, graph_name)
        with device._mine():
            if len(inputs) > device._room[0] or len(outputs) > device._room[1]:
                device._make_room(len(inputs), len(outputs))
            pointers, ports, i = device._inputs, its_inputs, 0
            for x in inputs:
                port = ports.get(x._sn_name) if x.__class__ is SambaTensor else None
                held = port and x._held
                if held is not None and (address := address_of(held, port)):
                    pointers[i] = port.c
                    addresses.append(address)
                    kept.append(held)
                else:
                    name = name_of(x, "an input tensor")
                    tensor = host_tensor(x, self._aliases.get(name, name))
                    pointers[i] = tensor.c
                    addresses.append(0)
                    kept.append(tensor)
                i += 1
            pointers, ports, i = device._outputs, its_outputs, 0
            for x in outputs:
                name = x._sn_name if x.__class__ is SambaTensor else name_of(x, "an output tensor")
                port = ports.get(name)
                if port is not None:
                    held = _empty_like(port.like)
                    pointers[i] = port.c
                    addresses.append(held.data_ptr())
                    made = from_output(held, port.shape, port.dtype, name)
                    made._is_result = True
                    results.append(made)
                elif (port := self._shared(x, name, graph_name)) is not None:
                    held = _empty_like(port.like)
                    shared.append((port, held))
                    made = from_output(held, port.shape, port.dtype, name)
                    made._is_result = True
                    results.append(made)
                    continue
                else:  # which the library refuses, by its name
                    held = torch.empty(tuple(x.shape), dtype=x.dtype)
                    tensor = host_tensor(held, name)
                    pointers[i] = tensor.c
                    addresses.append(0)
                    kept.append(tensor)
                i += 1
            options = device._options(section_types, section_ids, train, calls, graph_name, replicas)
            if _state.turns:
                with _state.device_runs():
                    device._run(options, len(inputs), len(outputs) - len(shared), addresses, hyperparameters, gradients, reuse)
            else:
                device._run(options, len(inputs), len(outputs) - len(shared), addresses, hyperparameters, gradients, reuse)
        for port, held in shared:
            device.get(host_tensor(held, port.name))
        return tuple(results)
