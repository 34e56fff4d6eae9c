# SPDX-License-Identifier: Apache-2.0
"""ONNX models without torch: opened, compiled in memory and run on NumPy arrays. `sambaflow.onnx.Backend` is the same as an
ONNX backend (onnx.backend.base), which needs the package onnx.

A model is compiled for the shapes it is run with, and again for others; what an input says about shapes becomes a part of what is
compiled, and is compiled again when it changes."""

from sambaflow._core import ffi, lib
from sambaflow.errors import raise_status
from sambaflow.runtime import DTYPE_NAMES, Context, Tensor
from sambaflow.words import array_of, encoded, isa_of, path_of, text

_ROLES = {lib.SAMBA_ONNX_CONSTANT: "constant", lib.SAMBA_ONNX_PARAMETER: "parameter", lib.SAMBA_ONNX_BUFFER: "buffer"}


def _bytes_of(model):
    """(bytes, None) of bytes or a ModelProto; (None, path) of a path."""
    if hasattr(model, "SerializeToString"):
        return model.SerializeToString(), None
    if isinstance(model, (bytes, bytearray, memoryview)):
        return bytes(model), None
    return None, path_of(model, "model")


class Model:
    """An ONNX model (samba_onnx): a path, bytes, or an onnx.ModelProto, whose external data lies in `folder`."""

    def __init__(self, model, folder=None, context=None):
        self.context = context or Context()
        made = ffi.new("samba_onnx **")
        data, path = _bytes_of(model)
        if path is not None:
            status = lib.samba_onnx_open(self.context.c, path, made)
        else:
            folder = ffi.NULL if folder is None else path_of(folder, "folder")
            status = lib.samba_onnx_open_memory(self.context.c, data, len(data), folder, made)
        self.context.check(status)
        self.c = self.context.owned(made[0], lib.samba_onnx_free)
        self.inputs = self._told(lib.samba_onnx_input_count, lib.samba_onnx_input)
        self.outputs = self._told(lib.samba_onnx_output_count, lib.samba_onnx_output)

    def _told(self, count, tell):
        """{name: (dtype, shape)}; a size that is not said is a name or None."""
        told, info = {}, ffi.new("samba_onnx_tensor_info *")
        for i in range(count(self.c)):
            self.context.check(tell(self.c, i, info))
            shape = None
            if info.rank >= 0:
                shape = tuple(info.shape[d] if info.shape[d] >= 0 else text(info.dims[d]) or None for d in range(info.rank))
            told[text(info.name)] = (DTYPE_NAMES[info.dtype] if info.dtype < len(DTYPE_NAMES) else None, shape)
        return told

    def initializers(self):
        """(name, role, Tensor) of each: role is "constant", "parameter" or "buffer"; the Tensor, over the model's memory, is made
        for what is no constant."""
        info, made = ffi.new("samba_onnx_initializer_info *"), ffi.new("samba_tensor **")
        for i in range(lib.samba_onnx_initializer_count(self.c)):
            self.context.check(lib.samba_onnx_initializer(self.c, i, info))
            role, tensor = _ROLES[info.role], None
            if info.role != lib.SAMBA_ONNX_CONSTANT:
                self.context.check(lib.samba_onnx_initializer_value(self.c, i, made))
                tensor = Tensor._borrowed(self.context.owned(made[0], lib.samba_tensor_free), self)
            yield text(info.name), role, tensor

    def function(self, inputs=(), dims=None, threads=0, isa=None, reference=False, train=False):
        """The model as a Function, for inputs of these shapes (Tensors by name; those not given have the model's), initializers
        built in. `train`: BatchNormalization and Dropout do what they do in training."""
        return Function(self, tuple(inputs), dims or {}, threads, isa, reference, train)

    def values(self, tensors):
        """The model's outputs of these Tensors, its inputs and as many of its initializers as they name, once."""
        made = ffi.new("samba_graph **")
        self.context.check(lib.samba_graph_new(self.context.c, b"onnx", made))
        graph = self.context.owned(made[0], lib.samba_graph_free)
        names = [ffi.new("char[]", encoded(tensor.name)) for tensor in tensors]
        for tensor in tensors:
            self.context.check(lib.samba_graph_add_input(graph, tensor.c))
        bindings = ffi.new("samba_onnx_binding[]", [(name, lib.samba_input(graph, name)) for name in names])
        outputs = ffi.new("samba_value[]", max(1, len(self.outputs)))
        self.context.check(lib.samba_onnx_apply(self.c, graph, ffi.NULL, len(tensors), bindings, outputs))
        for i in range(len(self.outputs)):
            lib.samba_output(graph, b"output %d" % i, outputs[i])
        function = Function.__new__(Function)
        function.context = self.context
        function._compile(graph, ffi.NULL)
        return function.run(tensors).values()


class Function:
    """A compiled model (samba_function): inputs and outputs by name, in the model's order."""

    def __init__(self, model, examples, dims, threads, isa, reference, train):
        self.context, self.model = model.context, model
        options = ffi.new("samba_onnx_options *", lib.samba_onnx_defaults())
        pointers = ffi.new("samba_tensor *[]", [tensor.c for tensor in examples])
        names, count, kept = array_of(list(dims), "a dim")
        sizes = ffi.new("samba_onnx_dim[]", [(names[i], size) for i, size in enumerate(dims.values())])
        options.inputs, options.input_count = pointers, len(examples)
        options.dims, options.dim_count = sizes, count
        options.build_in, options.initializers, options.train = True, lib.SAMBA_ONNX_CONSTANTS, train
        made = ffi.new("samba_graph **")
        self.context.check(lib.samba_graph_new(self.context.c, b"onnx", made))
        graph = self.context.owned(made[0], lib.samba_graph_free)
        self.context.check(lib.samba_onnx_read(model.c, graph, options))
        self.built_in = [name for i, name in enumerate(model.inputs) if lib.samba_onnx_built_in(model.c, i)]
        how = ffi.new("samba_function_options *", lib.samba_function_defaults())
        kept_isa = isa_of(isa)
        how.threads, how.isa, how.reference, how.train = threads, kept_isa, reference, train
        self._compile(graph, how)

    def _compile(self, graph, how):
        new = ffi.new("samba_function **")
        self.context.check(lib.samba_function_new(self.context.c, graph, how, new))
        self.c = self.context.owned(new[0], lib.samba_function_free)
        self.inputs = self._told(lib.samba_function_input_count, lib.samba_function_input)
        self.outputs = self._told(lib.samba_function_output_count, lib.samba_function_output)

    def _told(self, count, tell):
        told, info = {}, ffi.new("samba_tensor_info *")
        for i in range(count(self.c)):
            self.context.check(tell(self.c, i, info))
            told[text(info.name)] = (DTYPE_NAMES[info.dtype], tuple(info.shape[0 : info.rank]))
        return told

    def run(self, inputs):
        """Tensors by name -> Tensors by name."""
        given = {tensor.name: tensor for tensor in inputs}
        missing = [name for name in self.inputs if name not in given]
        if missing:
            raise_status(lib.SAMBA_ERROR_NAME, f"input {missing[0]!r} is not given")
        results = {name: Tensor.zeros(name, dtype, shape) for name, (dtype, shape) in self.outputs.items()}
        takes = ffi.new("samba_tensor *[]", [given[name].c for name in self.inputs])
        gives = ffi.new("samba_tensor *[]", [tensor.c for tensor in results.values()])
        self.context.check(lib.samba_function_run(self.c, takes, gives))
        return results
