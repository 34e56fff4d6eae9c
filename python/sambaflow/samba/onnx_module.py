# SPDX-License-Identifier: Apache-2.0
"""ONNX models as torch modules: their initializers are parameters and buffers, their forward is the model, traced by the C
library. So an ONNX model is compiled, trained, saved and put into other modules as any module is."""

import fnmatch
import weakref

import torch

from sambaflow import errors
from sambaflow._core import ffi, lib
from sambaflow.errors import StateError, UnsupportedError
from sambaflow.onnx import Model
from sambaflow.runtime import Tensor
from sambaflow.samba import _state
from sambaflow.samba.convert import from_torch_model_
from sambaflow.samba.rules.common import unsupported
from sambaflow.samba.sambatensor import from_torch_tensor, to_torch
from sambaflow.samba.trace import dtype_name, rule
from sambaflow.words import encoded, text

# id of a ModelProto -> (it, its module, folder and freeze): what compile and trace_graph are given is one model
_modules = _state.until_reset({})


def _apply(source, names, *tensors):
    """What torch hands to the rule below while a model is traced. Else it is the model on values: forward alone."""
    if torch.overrides.has_torch_function(tensors):
        return torch.overrides.handle_torch_function(_apply, tensors, source, names, *tensors)
    if torch.is_grad_enabled() and any(x.requires_grad for x in tensors):
        raise UnsupportedError(
            "an ONNX model that is called eagerly has no gradients: call it in torch.no_grad(), or compile it "
            "(samba.session.compile)"
        )
    model = Model(source.model, source.folder)
    held = [_held(name, to_torch(x), model.context) for name, x in zip(names, tensors)]
    results = tuple(from_torch_tensor(torch.from_dlpack(x)) for x in model.values(held))
    return results if len(results) > 1 else results[0]


def _held(name, x, context):
    kept = x.detach().contiguous()
    return Tensor._over(name, dtype_name(kept.dtype), tuple(kept.shape), None, kept.data_ptr(), kept, context)


@rule(_apply)
def _traced(t, source, names, *tensors):
    model = Model(source.model, source.folder, t.context)
    kept = [ffi.new("char[]", encoded(name)) for name in names]
    bindings = ffi.new("samba_onnx_binding[]", [(name, t.value(x)) for name, x in zip(kept, tensors)])
    options = ffi.new("samba_onnx_options *", lib.samba_onnx_defaults())
    options.train, before = source.module().training and not t.evaluates, lib.samba_graph_node_count(t.graph)
    options.evaluate = not options.train
    outputs = ffi.new("samba_value[]", max(1, len(model.outputs)))
    t.context.check(lib.samba_onnx_apply(model.c, t.graph, options, len(tensors), bindings, outputs))
    if options.train and _has_numbers(t.graph, before):
        t.drops()
    results = [t.wrap(ffi.new("samba_value *", outputs[i])[0]) for i in range(len(model.outputs))]
    if not results:
        unsupported(t, "an ONNX model without outputs")
    return tuple(results) if len(results) > 1 else results[0]


def _has_numbers(graph, begin):
    """Whether a node from that one on is a dropout's rate, or says whether a run trains."""
    info = ffi.new("samba_node_info *")
    for i in range(begin, lib.samba_graph_node_count(graph)):
        lib.samba_graph_node(graph, i, info)
        if text(info.op) == "argin":
            return True
    return False


class _Source:
    """What a call needs besides tensors. torch looks into tuples and lists of arguments, not into this."""

    def __init__(self, module, model, folder, inputs):
        self.module, self.model, self.folder, self.inputs = weakref.ref(module), model, folder, inputs


class OnnxModule(torch.nn.Module):
    """An ONNX model (a path, bytes or an onnx.ModelProto). Parameters and buffers have the names of its initializers; a name with
    dots is a path of modules, as PyTorch's exporters write them. `freeze`: patterns with * and ? of parameters that stay as they
    are. forward takes the model's inputs in its order and gives its output, or a tuple of several."""

    def __init__(self, model, folder=None, freeze=()):
        super().__init__()
        opened = Model(model, folder)
        self.input_names, self.output_names = tuple(opened.inputs), tuple(opened.outputs)
        self._names = []  # (name in the model, module, attribute)
        hits = dict.fromkeys([freeze] if isinstance(freeze, str) else freeze, 0)
        for name, role, tensor in opened.initializers():
            if role == "constant":
                continue
            holder, attribute = self._place(name)
            value = torch.from_dlpack(tensor).clone()
            frozen = [pattern for pattern in hits if fnmatch.fnmatchcase(name, pattern)]
            for pattern in frozen:
                hits[pattern] += 1
            if role == "parameter":
                holder.register_parameter(attribute, torch.nn.Parameter(value, requires_grad=not frozen))
            else:
                holder.register_buffer(attribute, value)
            self._names.append((name, holder, attribute))
        missed = [pattern for pattern, count in hits.items() if not count]
        if missed:
            raise errors.UnknownNameError(f"freeze: no parameter of the model has a name like {missed[0]!r}")
        self._source = _Source(self, model, folder, self.input_names)
        from_torch_model_(self)

    def _place(self, name):
        """(module, attribute) of an initializer's name; modules on the way are made."""
        *path, attribute = [part for part in name.split(".") if part] or ["_"]
        holder = self
        for part in path:
            inner = holder._modules.get(part)
            if inner is None:
                if hasattr(holder, part):
                    return self, name.replace(".", "_")
                inner = torch.nn.Module()
                holder.add_module(part, inner)
            holder = inner
        if hasattr(holder, attribute):
            return self, name.replace(".", "_") + "_"
        return holder, attribute

    def forward(self, *inputs):
        if len(inputs) != len(self.input_names):
            raise errors.ArgumentTypeError(f"the model takes {', '.join(self.input_names)}: given {len(inputs)} tensors")
        stored = [getattr(holder, attribute) for _, holder, attribute in self._names]
        names = self.input_names + tuple(name for name, _, _ in self._names)
        return _apply(self._source, names, *inputs, *stored)

    def extra_repr(self):
        return f"{', '.join(self.input_names)} -> {', '.join(self.output_names)}"


def from_onnx_model(model, folder=None, freeze=()):
    """An ONNX model as a torch module (OnnxModule), with SambaTensors as parameters. The same ModelProto gives the same module
    again, so that `session.compile(proto, ...)` and `optim.SGD(samba.from_onnx_model(proto).parameters())` mean one model."""
    if hasattr(model, "SerializeToString"):
        known, given = _modules.get(id(model)), (folder, tuple([freeze] if isinstance(freeze, str) else freeze))
        if known is None:
            known = _modules[id(model)] = (model, OnnxModule(model, folder, freeze), given)
        if given not in ((None, ()), known[2]):
            raise StateError(
                f"from_onnx_model: this model is a module already, made with folder={known[2][0]!r} and freeze={known[2][1]!r}: "
                "give the same, or read the file again"
            )
        return known[1]
    return OnnxModule(model, folder, freeze)
