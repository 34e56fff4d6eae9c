# SPDX-License-Identifier: Apache-2.0
"""SambaFlow as an ONNX backend (onnx.backend.base), for programs that know backends by that interface, and for ONNX's own tests.
It needs the packages onnx and numpy.

>>> import sambaflow.onnx_backend as backend  # doctest: +SKIP
>>> backend.run_model(model, [x])  # doctest: +SKIP
"""

import numpy
from onnx.backend.base import Backend, BackendRep, namedtupledict

from onnx import TensorProto, helper
from sambaflow import errors
from sambaflow._core import ffi, lib
from sambaflow.errors import UnsupportedError
from sambaflow.onnx import Model
from sambaflow.runtime import DTYPE_NAMES, Tensor

_HELD = {  # src/onnx/tensor.c
    TensorProto.UINT16: "int32",
    TensorProto.UINT32: "int64",
    TensorProto.UINT64: "int64",
    TensorProto.UINT4: "uint8",
    TensorProto.INT4: "int8",
    TensorProto.UINT2: "uint8",
    TensorProto.INT2: "int8",
}


def _element_type(value):
    return value.type.tensor_type.elem_type if value.type.WhichOneof("value") == "tensor_type" else 0


def _tensor(name, array, element):
    """A Tensor of a NumPy array."""
    if isinstance(array, (list, dict)) or array is None:
        raise UnsupportedError(f"input {name!r} is a {type(array).__name__}: sequences, maps and optionals are not supported")
    array = numpy.ascontiguousarray(array) if numpy.ndim(array) else numpy.array(array)
    if element in _HELD:
        array = array.astype(_HELD[element]) if element != TensorProto.UINT64 else array.view("int64")
    shape = array.shape
    if array.dtype.name not in (*DTYPE_NAMES, "bfloat16"):
        raise UnsupportedError(f"input {name!r} is of {array.dtype}: SambaFlow has {', '.join(DTYPE_NAMES)}")
    if array.dtype.name == "bfloat16":
        tensor = Tensor.zeros(name, "bfloat16", shape)
        _bits(tensor)[...] = array.view("uint16")
        return tensor
    return Tensor.wrap(name, array if array.flags.writeable else array.copy())


def _bits(tensor):
    """The memory of a bfloat16 tensor as a uint16 array."""
    count = lib.samba_tensor_numel(tensor.c)
    return numpy.frombuffer(ffi.buffer(lib.samba_tensor_data(tensor.c), 2 * count), "uint16").reshape(tensor.shape)


def _bytes(tensor):
    """The values of a contiguous tensor, to be compared."""
    size = lib.samba_tensor_numel(tensor.c) * lib.samba_dtype_size(lib.samba_tensor_dtype(tensor.c))
    return bytes(ffi.buffer(lib.samba_tensor_data(tensor.c), size)) if size else b""


def _array(tensor, element):
    """A NumPy array of a Tensor, of the type that the model says."""
    if tensor.dtype == "bfloat16":
        return _bits(tensor).view(helper.tensor_dtype_to_np_dtype(TensorProto.BFLOAT16)).copy()
    array = numpy.array(tensor)
    if element in _HELD:
        return array.view("uint64") if element == TensorProto.UINT64 else array.astype(helper.tensor_dtype_to_np_dtype(element))
    return array


class SambaFlowRep(BackendRep):
    """A model, compiled for the shapes that it was last run with."""

    def __init__(self, model, **options):
        self.model, self.options = Model(model), options
        stored = {initializer.name for initializer in model.graph.initializer}
        self.types = {value.name: _element_type(value) for value in [*model.graph.input, *model.graph.output]}
        self.names = [value.name for value in model.graph.input if value.name not in stored]
        self.output_names = [value.name for value in model.graph.output]
        self._compiled = None  # (shapes, values built in, Function)

    def _function(self, tensors):
        shapes = [(tensor.dtype, tensor.shape) for tensor in tensors]
        if self._compiled and self._compiled[0] == shapes:
            same = all(_bytes(t) == value for t in tensors for name, value in self._compiled[1] if t.name == name)
            if same:
                return self._compiled[2]
        function = self.model.function(tensors, **self.options)
        built = [(t.name, _bytes(t)) for t in tensors if t.name in function.built_in]
        self._compiled = shapes, built, function
        return function

    def run(self, inputs, **kwargs):
        """Arrays in the model's order, or by name -> arrays in the model's order."""
        if kwargs:
            raise errors.ArgumentTypeError(f"run: {', '.join(kwargs)}: no options are known")
        given = list(inputs.items()) if hasattr(inputs, "items") else list(zip(self.names, inputs))
        tensors = [_tensor(name, array, self.types.get(name, 0)) for name, array in given]
        results = self._function(tensors).run(tensors)
        arrays = [_array(results[name], self.types[name]) for name in self.output_names]
        return namedtupledict("Outputs", self.output_names)(*arrays)


class SambaFlowBackend(Backend):
    """prepare, run_model and run_node of models."""

    @classmethod
    def prepare(cls, model, device="CPU", **kwargs):
        """The model, to be run. Options are those of sambaflow.onnx.Model.function: threads, isa, dims, train."""
        if not cls.supports_device(device):
            raise errors.ArgumentError(f"device is {device!r}: the CPU is supported")
        super().prepare(model, device)
        return SambaFlowRep(model, **kwargs)

    @classmethod
    def run_node(cls, node, inputs, device="CPU", outputs_info=None, **kwargs):
        """One node on arrays."""
        given = [name for name in node.input if name]
        values = [
            helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
            for name, array in zip(given, inputs)
        ]
        results = [helper.make_empty_tensor_value_info(name) for name in node.output if name]
        model = helper.make_model(helper.make_graph([node], "node", values, results))
        if not cls.supports_device(device):
            raise errors.ArgumentError(f"device is {device!r}: the CPU is supported")
        return SambaFlowRep(model, **kwargs).run(inputs)  # types of results are not known, so the model is not checked

    @classmethod
    def supports_device(cls, device):
        """The CPU alone."""
        return device.partition(":")[0] == "CPU"


is_compatible = SambaFlowBackend.is_compatible
prepare = SambaFlowBackend.prepare
run = run_model = SambaFlowBackend.run_model
run_node = SambaFlowBackend.run_node
supports_device = SambaFlowBackend.supports_device
