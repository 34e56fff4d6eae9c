# SPDX-License-Identifier: Apache-2.0
"""PEFs without torch and NumPy: contexts, host tensors and sessions of the C library as Python objects.

A context belongs to one thread at a time, so every session has its own; a second thread that enters a session meanwhile gets a
StateError. Memory is shared, not copied: a Tensor over a NumPy array or a torch tensor keeps it alive and sees its changes.

>>> from sambaflow.runtime import Tensor
>>> Tensor.zeros("x", "float32", (2, 2)).tolist()
[[0.0, 0.0], [0.0, 0.0]]
"""
import threading
import warnings

from sambaflow._core import ffi, lib
from sambaflow.errors import StateError, raise_status

DTYPE_NAMES = tuple(ffi.string(lib.samba_dtype_name(i)).decode() for i in range(lib.SAMBA_DTYPE_COUNT))
DTYPES = {name: i for i, name in enumerate(DTYPE_NAMES)}
KINDS = {
    lib.SAMBA_KIND_INPUT: "input",
    lib.SAMBA_KIND_PARAMETER: "parameter",
    lib.SAMBA_KIND_BUFFER: "buffer",
    lib.SAMBA_KIND_GRADIENT: "gradient",
    lib.SAMBA_KIND_OUTPUT: "output",
}
_FORMATS = {  # struct's letters, as memoryview knows them
    "float32": "f", "float16": "e", "float64": "d", "int64": "q", "int32": "i", "int16": "h", "int8": "b", "uint8": "B", "bool": "?",
}  # fmt: skip
_FROM_FORMAT = {letter: name for name, letter in _FORMATS.items()} | {"l": "int64"}


def text(chars):
    """A C string as str; None for NULL."""
    return None if chars == ffi.NULL else ffi.string(chars).decode()


def array_of(words):
    """(char *[] , count) of Python strings, or (NULL, 0); keep the first alive while C reads it."""
    if not words:
        return ffi.NULL, 0, ()
    kept = [ffi.new("char[]", word.encode()) for word in words]
    return ffi.new("char *[]", kept), len(kept), kept


class _Holders:
    """Counts who needs a context; the last one frees it. Python's collector ends objects of a cycle in any order, so no object may
    rely on another to end later."""

    __slots__ = ("pointer", "count")

    def __init__(self, pointer):
        self.pointer, self.count = pointer, 1

    def released(self, free=lib.samba_context_free):
        self.count -= 1
        if self.count == 0:
            free(self.pointer)


class Context:
    """Memory and the last message of the calls of one thread (samba_context)."""

    def __init__(self):
        made = ffi.new("samba_context **")
        status = lib.samba_context_new(ffi.NULL, made)
        if status:
            raise_status(status, "no memory for a context")
        holders = self._holders = _Holders(made[0])
        self.c = ffi.gc(made[0], lambda _: holders.released())

    def check(self, status):
        """Raises what a failed call left as its message."""
        if status:
            raise_status(status, text(lib.samba_error_message(self.c)))

    def owned(self, pointer, free):
        """The pointer, freed with the last reference to it and before the context."""
        holders = self._holders
        holders.count += 1

        def end(pointer):
            free(pointer)
            holders.released()

        return ffi.gc(pointer, end)


_context_of_thread = threading.local()


def thread_context():
    """The context of this thread for calls that belong to no session."""
    try:
        return _context_of_thread.context
    except AttributeError:
        _context_of_thread.context = Context()
        return _context_of_thread.context


class Tensor:
    """A host tensor (samba_tensor): name, dtype, shape and strides over memory that `owner` keeps alive."""

    __slots__ = ("c", "context", "owner")

    def __init__(self, name, dtype, shape, strides=None, address=None, owner=None, context=None):
        self.context = context or thread_context()
        self.owner = owner
        made = ffi.new("samba_tensor **")
        name = ffi.NULL if name is None else name.encode()
        rank = len(shape)
        if address is None and owner is None:
            status = lib.samba_tensor_new(self.context.c, name, DTYPES[dtype], rank, list(shape), made)
        else:
            status = lib.samba_tensor_from_memory(
                self.context.c, name, DTYPES[dtype], rank, list(shape), ffi.NULL if strides is None else list(strides),
                ffi.cast("void *", address), ffi.NULL, ffi.NULL, made)  # fmt: skip
        self.context.check(status)
        self.c = self.context.owned(made[0], lib.samba_tensor_free)

    @classmethod
    def zeros(cls, name, dtype, shape, context=None):
        """New memory, zeroed."""
        return cls(name, dtype, shape, context=context)

    @classmethod
    def empty(cls, name, dtype, shape, context=None):
        """Shape and dtype without memory, enough to compile with."""
        self = cls.__new__(cls)
        self.context, self.owner = context or thread_context(), None
        made = ffi.new("samba_tensor **")
        self.context.check(lib.samba_tensor_empty(self.context.c, name.encode(), DTYPES[dtype], len(shape), list(shape), made))
        self.c = self.context.owned(made[0], lib.samba_tensor_free)
        return self

    @classmethod
    def wrap(cls, name, array, context=None):
        """Over anything with the buffer protocol (NumPy arrays, array.array, memoryview), without a copy."""
        if isinstance(array, Tensor):
            return array
        view = memoryview(array)
        if view.format not in _FROM_FORMAT:
            raise TypeError(f"a buffer of format {view.format!r}: expected one of {', '.join(sorted(_FROM_FORMAT))}")
        if any(stride < 0 or stride % view.itemsize for stride in view.strides):
            raise ValueError("a buffer with negative strides or strides that are no whole elements: pass a copy")
        if not view.c_contiguous:
            raise ValueError("a buffer that is not contiguous: pass a contiguous copy")
        strides = [stride // view.itemsize for stride in view.strides]
        buffer = ffi.from_buffer(view)
        return cls(name, _FROM_FORMAT[view.format], view.shape, strides, int(ffi.cast("uintptr_t", buffer)), (view, buffer), context)

    @property
    def name(self):
        return text(lib.samba_tensor_name(self.c))

    @property
    def dtype(self):
        return DTYPE_NAMES[lib.samba_tensor_dtype(self.c)]

    @property
    def shape(self):
        rank = lib.samba_tensor_rank(self.c)
        return tuple(lib.samba_tensor_shape(self.c)[0:rank])

    @property
    def __array_interface__(self):
        rank, size = lib.samba_tensor_rank(self.c), lib.samba_dtype_size(lib.samba_tensor_dtype(self.c))
        if self.dtype == "bfloat16":
            raise TypeError("NumPy has no bfloat16: convert to float32 first")
        letter = {"f": "f", "b": "b", "u": "u"}.get(self.dtype[0], "i")
        return {
            "version": 3, "typestr": f"<{letter}{size}", "shape": self.shape,
            "strides": tuple(stride * size for stride in lib.samba_tensor_strides(self.c)[0:rank]),
            "data": (int(ffi.cast("uintptr_t", lib.samba_tensor_data(self.c))), False),
        }  # fmt: skip

    def tolist(self):
        """Nested lists of Python numbers; a number where there is one element."""
        bytes_ = lib.samba_tensor_numel(self.c) * lib.samba_dtype_size(lib.samba_tensor_dtype(self.c))
        if self.dtype not in _FORMATS:
            raise TypeError(f"tolist of {self.dtype}: convert to float32 first")
        if not lib.samba_tensor_is_contiguous(self.c):
            raise ValueError("tolist of a tensor that is not contiguous: copy it first")
        flat = memoryview(ffi.buffer(lib.samba_tensor_data(self.c), bytes_)).cast("B").cast(_FORMATS[self.dtype])
        return flat.cast("B").cast(_FORMATS[self.dtype], self.shape).tolist() if len(flat) else []

    def __repr__(self):
        return f"Tensor(name={self.name!r}, dtype={self.dtype}, shape={self.shape})"


class Session:
    """One PEF on a device (samba_session): its weights, its state, its sections."""

    def __init__(self, pef, seed=0, threads=0, isa=None):
        self.context = Context()
        self._lock = threading.Lock()
        options = ffi.new("samba_session_options *", lib.samba_session_defaults())
        options.seed, options.threads = seed, threads
        kept = None if isa is None else ffi.new("char[]", isa.encode())
        options.isa = ffi.NULL if kept is None else kept
        made = ffi.new("samba_session **")
        self.context.check(lib.samba_session_new(self.context.c, str(pef).encode(), options, made))
        self.c = self.context.owned(made[0], lib.samba_session_free)
        self.pef = str(pef)
        self._run_options = ffi.new("samba_run_options *", lib.samba_run_defaults())
        self._read_names()

    def _read_names(self):
        info = ffi.new("samba_tensor_info *")
        self.tensors = {}
        for i in range(lib.samba_session_tensor_count(self.c)):
            self.context.check(lib.samba_session_tensor_info(self.c, i, info))
            self.tensors[text(info.name)] = (KINDS[info.kind], DTYPE_NAMES[info.dtype], tuple(info.shape[0 : info.rank]))

    def names(self, kind):
        """Names of device tensors of a kind: input, parameter, buffer, gradient, output."""
        return [name for name, (its, _, _) in self.tensors.items() if its == kind]

    @property
    def section_types(self):
        """Types of the sections, in the order of the PEF, each once."""
        info, found = ffi.new("samba_section_info *"), {}
        for i in range(lib.samba_session_section_count(self.c)):
            self.context.check(lib.samba_session_section_info(self.c, i, info))
            found[text(info.type)] = True
        return list(found)

    @property
    def hyperparameters(self):
        """Names and the values in force."""
        info, found = ffi.new("samba_hyperparameter *"), {}
        for i in range(lib.samba_session_hyperparameter_count(self.c)):
            self.context.check(lib.samba_session_hyperparameter(self.c, i, info))
            found[text(info.name)] = info.value
        return found

    def _enter(self):
        if not self._lock.acquire(blocking=False):
            raise StateError(f"the session of {self.pef} is used by another thread: give each thread a session of its own, or take turns")

    def run(self, inputs=(), outputs=(), hyperparameters=None, section_types=(), section_ids=(), train=True):
        """samba_run: `inputs` are transferred by name before, `outputs` filled after. Both are Tensors."""
        self.run_pointers([t.c for t in inputs], [t.c for t in outputs], hyperparameters, section_types, section_ids, train)

    def run_pointers(self, inputs, outputs, hyperparameters=None, section_types=(), section_ids=(), train=True):
        """The same over lists of samba_tensor pointers."""
        options, kept = self._run_options, None
        given, received = ffi.new("samba_tensor *[]", inputs), ffi.new("samba_tensor *[]", outputs)
        options.inputs, options.input_count = given, len(inputs)
        options.outputs, options.output_count = received, len(outputs)
        options.train = train
        if section_types:
            types, options.section_type_count, kept_types = array_of(section_types)
            options.section_types = types
        if section_ids:
            ids = ffi.new("int[]", list(section_ids))
            options.section_ids, options.section_id_count = ids, len(section_ids)
        if hyperparameters:
            kept = [ffi.new("char[]", name.encode()) for name in hyperparameters]
            values = ffi.new("samba_hyperparameter[]", [(name, float(value)) for name, value in zip(kept, hyperparameters.values())])
            options.hyperparameters, options.hyperparameter_count = values, len(kept)
        self._enter()
        try:
            status = lib.samba_run(self.c, options)
            if status:
                self.context.check(status)
            warning = lib.samba_session_warning(self.c)
        finally:
            self._lock.release()
            if section_types or section_ids or hyperparameters:
                self._run_options = ffi.new("samba_run_options *", lib.samba_run_defaults())
        if warning[0] != b"\0":
            warnings.warn(text(warning), RuntimeWarning, stacklevel=3)

    def set(self, tensor):
        """Host to device, by the tensor's name."""
        self._enter()
        try:
            self.context.check(lib.samba_session_set(self.c, tensor.c))
        finally:
            self._lock.release()

    def get(self, tensor):
        """Device to host, by the tensor's name."""
        self._enter()
        try:
            self.context.check(lib.samba_session_get(self.c, tensor.c))
        finally:
            self._lock.release()

    def save(self, path, with_state=True):
        """Parameters, buffers and, `with_state`, optimizer state as safetensors; atomic."""
        self.context.check(lib.samba_session_save(self.c, str(path).encode(), with_state))

    def load(self, path):
        """Parameters by name from safetensors; state if there."""
        self.context.check(lib.samba_session_load(self.c, str(path).encode()))
