# SPDX-License-Identifier: Apache-2.0
"""PEFs without torch and NumPy: contexts, host tensors and sessions of the C library as Python objects.

A context belongs to one thread at a time, so every session has its own; a second thread that enters a session meanwhile gets a
StateError. Memory is shared, not copied: a Tensor over a NumPy array or a torch tensor keeps it alive and sees its changes.

>>> from sambaflow.runtime import Tensor
>>> Tensor.zeros("x", "float32", (2, 2)).tolist()
[[0.0, 0.0], [0.0, 0.0]]
"""

import operator
import os
import reprlib
import threading
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from sambaflow import dlpack, errors
from sambaflow._core import ffi, lib
from sambaflow.errors import StateError, raise_status
from sambaflow.words import array_of, encoded, isa_of, message, path_of, text

if TYPE_CHECKING:
    from sambaflow.report import Report

DTYPE_NAMES: tuple[str, ...] = tuple(ffi.string(lib.samba_dtype_name(i)).decode() for i in range(lib.SAMBA_DTYPE_COUNT))
DTYPES: dict[str, int] = {name: i for i, name in enumerate(DTYPE_NAMES)}
KINDS: dict[int, str] = {
    lib.SAMBA_KIND_INPUT: "input",
    lib.SAMBA_KIND_PARAMETER: "parameter",
    lib.SAMBA_KIND_BUFFER: "buffer",
    lib.SAMBA_KIND_GRADIENT: "gradient",
    lib.SAMBA_KIND_OUTPUT: "output",
}
_FORMATS = {  # struct's letters, as memoryview knows them
    "float32": "f",
    "float16": "e",
    "float64": "d",
    "int64": "q",
    "int32": "i",
    "int16": "h",
    "int8": "b",
    "uint8": "B",
    "bool": "?",
}
_FROM_FORMAT = {letter: name for name, letter in _FORMATS.items()} | {"l": "int64"}
_SHOWN = 1000  # elements of tensors that print with values
_short = reprlib.Repr()
_short.maxlist, _short.maxlevel = 6, 8


class _Holders:
    """Counts who needs a context besides the first; the last one frees it. Python's collector ends objects of a cycle in any
    order, so no object may rely on another to end later. A list counts, because threads may append and pop at once."""

    __slots__ = ("pointer", "others")

    def __init__(self, pointer):
        self.pointer, self.others = pointer, []

    def hold(self):
        self.others.append(None)

    def released(self, free=lib.samba_context_free):
        try:
            self.others.pop()
        except IndexError:
            free(self.pointer)


class Context:
    """Memory and the last message of the calls of one thread (samba_context)."""

    c: Any

    def __init__(self) -> None:
        made = ffi.new("samba_context **")
        status = lib.samba_context_new(ffi.NULL, made)
        if status:
            raise_status(status, "no memory for a context")
        holders = self._holders = _Holders(made[0])
        self.c = ffi.gc(made[0], lambda _: holders.released())

    def __reduce_ex__(self, protocol):
        raise errors.ArgumentTypeError("a context cannot be copied or pickled: make a new one")

    def check(self, status: int) -> None:
        """Raises what a failed call left as its message."""
        if status:
            raise_status(status, message(lib.samba_error_message(self.c)))

    def owned(self, pointer: Any, free: Callable[[Any], None]) -> Any:
        """The pointer, freed with the last reference to it and before the context."""
        holders = self._holders
        holders.hold()

        def end(pointer):
            free(pointer)
            holders.released()

        return ffi.gc(pointer, end)


_context_of_thread = threading.local()


def thread_context() -> Context:
    """The context of this thread for calls that belong to no session."""
    try:
        return _context_of_thread.context
    except AttributeError:
        _context_of_thread.context = Context()
        return _context_of_thread.context


class Replicas(NamedTuple):
    """This process among those that train one model together, of all and of those of its machine; `network`, "" of one alone."""

    rank: int
    size: int
    local_rank: int
    local_size: int
    network: str


def replicas() -> Replicas:
    """Who this process is among those that train one model together (samba_replicas_find): its rank of so many, the same among
    those of this machine, and the network, "" where there is one replica. The first call joins the others, for which MPI has
    started it.

    >>> replicas() == Replicas(rank=0, size=1, local_rank=0, local_size=1, network="")
    True
    """
    found, context = ffi.new("samba_replicas *"), thread_context()
    context.check(lib.samba_replicas_find(context.c, found))
    return Replicas(found.rank, found.size, found.local_rank, found.local_size, text(found.network))


def _dtype_number(dtype):
    if isinstance(dtype, str) and dtype in DTYPES:
        return DTYPES[dtype]
    raise errors.ArgumentTypeError(f"a dtype is one of {', '.join(DTYPE_NAMES)}: given {dtype!r:.100}")


def _nested(shape):
    """Lists of that shape, which has a 0."""
    return [_nested(shape[1:]) for _ in range(shape[0])]


class Tensor:
    """A host tensor (samba_tensor): name, dtype, shape and strides over memory that `owner` keeps alive."""

    c: Any
    context: Context
    owner: object

    __slots__ = ("c", "context", "owner", "__weakref__")

    def __init__(self, name: str | None, dtype: str, shape: Sequence[int], context: Context | None = None) -> None:
        """New memory, zeroed."""
        self._made(lib.samba_tensor_new, name, dtype, shape, (), None, context)

    def _made(self, make, name, dtype, shape, more, owner, context):
        if context is not None and not isinstance(context, Context):
            raise errors.ArgumentTypeError(f"context is a sambaflow.runtime.Context: given {type(context).__name__}")
        if isinstance(shape, (str, bytes)) or not hasattr(shape, "__iter__"):
            raise errors.ArgumentTypeError(f"a shape is a sequence of integers: given {shape!r:.100}")
        shape = [operator.index(size) for size in shape]
        self.context, self.owner = context or thread_context(), owner
        made = ffi.new("samba_tensor **")
        name = ffi.NULL if name is None else encoded(name)
        self.context.check(make(self.context.c, name, _dtype_number(dtype), len(shape), shape, *more, made))
        self.c = self.context.owned(made[0], lib.samba_tensor_free)

    @classmethod
    def zeros(cls, name: str | None, dtype: str, shape: Sequence[int], context: Context | None = None) -> "Tensor":
        """New memory, zeroed."""
        return cls(name, dtype, shape, context)

    @classmethod
    def empty(cls, name: str, dtype: str, shape: Sequence[int], context: Context | None = None) -> "Tensor":
        """Shape and dtype without memory, enough to compile with."""
        self = cls.__new__(cls)
        self._made(lib.samba_tensor_empty, name, dtype, shape, (), None, context)
        return self

    @classmethod
    def _over(cls, name, dtype, shape, strides, address, owner, context=None):
        """Over memory at an address, which `owner` keeps there. Strides count elements; None is C-contiguous."""
        self = cls.__new__(cls)
        more = (ffi.NULL if strides is None else strides, ffi.cast("void *", address), ffi.NULL, ffi.NULL)
        self._made(lib.samba_tensor_from_memory, name, dtype, shape, more, owner, context)
        return self

    @classmethod
    def wrap(cls, name: str | None, array: Any, context: Context | None = None) -> "Tensor":
        """Over anything with the buffer protocol (NumPy arrays, array.array, memoryview), without a copy. Strided arrays too,
        where they have NumPy's array interface. Read-only memory is refused, since a tensor may be written to.

        >>> import array
        >>> numbers = array.array("f", [1, 2])
        >>> tensor = Tensor.wrap("x", numbers)
        >>> numbers[0] = 5
        >>> tensor.tolist()
        [5.0, 2.0]
        """
        if isinstance(array, Tensor):
            return array
        try:
            view = memoryview(array)
        except TypeError:
            raise errors.ArgumentTypeError(
                f"wrap: {type(array).__name__} has no buffer of numbers; Tensor.from_dlpack takes what has __dlpack__"
            ) from None
        dtype = _FROM_FORMAT.get(view.format.lstrip("@=<"))
        if dtype is None or view.itemsize != lib.samba_dtype_size(DTYPES[dtype]):
            raise errors.ArgumentTypeError(
                f"a buffer of format {view.format!r}: expected one of {', '.join(sorted(_FROM_FORMAT))}"
            )
        if view.readonly:
            raise errors.ArgumentError("a read-only buffer: pass a copy")
        if any(stride < 0 or stride % view.itemsize for stride in view.strides):
            raise errors.ArgumentError("a buffer with negative strides or strides that are no whole elements: pass a copy")
        if view.c_contiguous:
            address = int(ffi.cast("uintptr_t", ffi.from_buffer(view)))
        elif hasattr(array, "__array_interface__"):
            address = array.__array_interface__["data"][0]
        else:
            raise errors.ArgumentError("a buffer that is not contiguous: pass a contiguous copy")
        strides = None if view.c_contiguous else [stride // view.itemsize for stride in view.strides]
        return cls._over(name, dtype, view.shape, strides, address, (view, array), context)

    from_numpy = wrap

    @classmethod
    def from_dlpack(cls, name: str | None, array: Any, context: Context | None = None) -> "Tensor":
        """Over the memory of anything with __dlpack__ (arrays of torch, NumPy, JAX ...), which lives until this ends."""
        capsule = dlpack.capsule_of(array)
        found, dtype = dlpack.look(capsule, DTYPE_NAMES)
        shape = found.shape[0 : found.rank] if found.rank else ()
        self = cls.__new__(cls)
        self._made(
            lib.samba_tensor_from_memory,
            name,
            dtype,
            shape,
            (found.strides, found.data, dlpack.release_of(found), found.managed),
            None,
            context,
        )
        dlpack.take(capsule)
        return self

    @classmethod
    def _borrowed(cls, pointer, owner):
        """A samba_tensor that belongs to something of C's, which `owner` keeps alive."""
        self = cls.__new__(cls)
        self.c, self.context, self.owner = pointer, owner.context, owner
        return self

    def __dlpack__(self, *, stream: Any = None, max_version: Any = None, dl_device: Any = None, copy: bool | None = None) -> Any:
        """A capsule over this memory, for from_dlpack of other libraries; `copy=True` over a copy."""
        dlpack.check_request(stream, dl_device)
        source = self._with_data("__dlpack__")
        if copy:
            source = Tensor(self.name, self.dtype, self.shape, self.context)
            self.context.check(lib.samba_tensor_copy(source.c, self.c))
        return dlpack.give(source, source.c, self.dtype, DTYPE_NAMES, max_version, bool(copy))

    def __dlpack_device__(self) -> tuple[int, int]:
        return dlpack.CPU

    def _with_data(self, what):
        if not lib.samba_tensor_has_data(self.c):
            raise StateError(f"{what} of tensor {self.name!r}: it is empty; Tensor.zeros makes one with memory")
        return self

    @property
    def name(self) -> str | None:
        """Name by which a session finds its place; None for none."""
        return text(lib.samba_tensor_name(self.c))

    @property
    def dtype(self) -> str:
        """'float32' ...: one of DTYPE_NAMES."""
        return DTYPE_NAMES[lib.samba_tensor_dtype(self.c)]

    @property
    def shape(self) -> tuple[int, ...]:
        """A tuple of sizes."""
        rank = lib.samba_tensor_rank(self.c)
        return tuple(lib.samba_tensor_shape(self.c)[0:rank])

    @property
    def strides(self) -> tuple[int, ...]:
        """In elements."""
        rank = lib.samba_tensor_rank(self.c)
        return tuple(lib.samba_tensor_strides(self.c)[0:rank])

    @property
    def __array_interface__(self) -> dict[str, Any]:
        self._with_data("__array_interface__")
        size, dtype = lib.samba_dtype_size(lib.samba_tensor_dtype(self.c)), self.dtype
        if dtype == "bfloat16":
            raise errors.ArgumentTypeError("NumPy has no bfloat16: convert to float32 first, or use __dlpack__")
        letter = {"f": "f", "b": "b", "u": "u"}.get(dtype[0], "i")
        return {
            "version": 3,
            "typestr": f"<{letter}{size}",
            "shape": self.shape,
            "strides": tuple(stride * size for stride in self.strides),
            "data": (int(ffi.cast("uintptr_t", lib.samba_tensor_data(self.c))), False),
        }

    def __buffer__(self, flags: int) -> memoryview:
        """Python 3.12's buffer protocol: memoryview(tensor), of a contiguous tensor."""
        return self._view("__buffer__")

    def _view(self, what):
        """A memoryview of a contiguous tensor's values, which keeps this alive."""
        self._with_data(what)
        dtype, count = self.dtype, lib.samba_tensor_numel(self.c)
        if dtype not in _FORMATS:
            raise errors.ArgumentTypeError(f"{what} of {dtype}: convert to float32 first, or use __dlpack__")
        if not lib.samba_tensor_is_contiguous(self.c):
            raise errors.ArgumentError(f"{what} of a tensor that is not contiguous: copy it first")
        if count == 0:
            raise errors.ArgumentError(f"{what} of a tensor of shape {self.shape}: there are no values")
        data = ffi.gc(lib.samba_tensor_data(self.c), lambda _, owner=self: None)
        flat = memoryview(ffi.buffer(data, count * lib.samba_dtype_size(DTYPES[dtype])))
        return flat.cast("B").cast(_FORMATS[dtype], self.shape)

    def tolist(self) -> Any:
        """Nested lists of Python numbers; a number where there is one element.

        >>> Tensor.zeros("x", "int64", (2, 0)).tolist()
        [[], []]
        """
        if 0 in self.shape:
            self._with_data("tolist")
            return _nested(self.shape)
        return self._view("tolist").tolist()

    def __deepcopy__(self, memo):
        fresh = Tensor(self.name or None, self.dtype, self.shape)
        fresh.context.check(lib.samba_tensor_copy(fresh.c, self._with_data("deepcopy").c))
        return fresh

    def __reduce_ex__(self, protocol):
        raise errors.ArgumentTypeError(
            "a sambaflow.runtime.Tensor cannot be pickled or copied shallowly: it is a view of memory; pickle its "
            "tolist() or NumPy array"
        )

    def __repr__(self):
        about, count = f"name={self.name!r}, dtype={self.dtype}, shape={self.shape}", lib.samba_tensor_numel(self.c)
        if not lib.samba_tensor_has_data(self.c):
            return f"Tensor({about}, no data)"
        if count > _SHOWN or self.dtype not in _FORMATS or not lib.samba_tensor_is_contiguous(self.c):
            return f"Tensor({about})"
        return f"Tensor({_short.repr(self.tolist())}, {about})"


def _pointer(tensor, what):
    if not isinstance(tensor, Tensor):
        raise errors.ArgumentTypeError(
            f"{what} is a sambaflow.runtime.Tensor: given {type(tensor).__name__}; Tensor.wrap makes one of an array"
        )
    return tensor.c


def _listed(x, what):
    if isinstance(x, (str, bytes)):
        raise errors.ArgumentTypeError(f"{what} is a list: given {x!r:.100}; write [{x!r:.100}]")
    return tuple(x)


def _each_number(hyperparameters):
    """(name, value) of hyperparameters, of which `betas`, as torch has them, are two."""
    for name, value in hyperparameters.items():
        if name.rpartition(".")[2] == "betas" and isinstance(value, (tuple, list)) and len(value) == 2:
            yield name[:-1] + "1", value[0]
            yield name[:-1] + "2", value[1]
        else:
            yield name, value


class Session:
    """One PEF on a device (samba_session): its weights, its state, its sections."""

    c: Any
    context: Context
    pef: str
    tensors: dict[str, tuple[str, str, tuple[int, ...]]]
    is_shared: bool

    def __init__(
        self,
        pef: str | os.PathLike[str],
        seed: int = 0,
        threads: int = 0,
        isa: str | None = None,
        tune: str | os.PathLike[str] | None = None,
        data_parallel: bool = False,
        shard_optimizer: bool = False,
        reduce_dtype: str | None = None,
        reuse_inputs: Sequence[str] = (),
    ) -> None:
        path = path_of(pef, "pef")
        self.context, self.pef = Context(), os.fsdecode(path)
        self._lock = threading.Lock()
        options = ffi.new("samba_session_options *", lib.samba_session_defaults())
        options.seed, options.threads = seed, threads
        options.data_parallel = data_parallel  # a replica meets the others here and shares the processors with them
        options.shard_optimizer = shard_optimizer
        dtype = ffi.NULL if reduce_dtype is None else ffi.new("char[]", encoded(reduce_dtype, "reduce_dtype"))
        options.reduce_dtype = dtype
        kept = isa_of(isa)
        options.isa = kept
        asked = ffi.NULL if tune is None else ffi.new("char[]", path_of(tune, "tune"))
        options.tune = asked
        words, options.reuse_input_count, _alive = array_of(_listed(reuse_inputs, "reuse_inputs"), "an input's name")
        options.reuse_inputs = words
        made = ffi.new("samba_session **")
        self.context.check(lib.samba_session_new(self.context.c, path, options, made))
        self.c = self.context.owned(made[0], lib.samba_session_free)
        self._read_names()
        self.is_shared, self._sized = False, None
        self._hyperparameters = {}  # names given together -> (samba_hyperparameter[], what it points into)
        self._warning = ffi.new("const char *[1]")
        self._prepared = {}  # what a run is asked for -> (samba_run_options, what they point into)
        self._make_room(len(self.names("input")), len(self.names("output")))

    def __repr__(self):
        parameters = self.names("parameter")
        return (
            f"Session({self.pef!r}, sections={' '.join(self.sections)}, inputs={', '.join(self.names('input'))}, "
            f"outputs={', '.join(self.names('output'))}, "
            f"{len(parameters)} parameters, threads={lib.samba_session_threads(self.c)}, "
            f"isa={text(lib.samba_session_isa(self.c))})"
        )

    def _read_names(self):
        info = ffi.new("samba_tensor_info *")
        self.tensors = {}
        for i in range(lib.samba_session_tensor_count(self.c)):
            self.context.check(lib.samba_session_tensor_info(self.c, i, info))
            self.tensors[text(info.name)] = (KINDS[info.kind], DTYPE_NAMES[info.dtype], tuple(info.shape[0 : info.rank]))

    def to_onnx(self, path: str | bytes | os.PathLike[str], opset: int = 0, graph_name: str | None = None) -> None:
        """Writes the PEF's graph, with the weights as they are now, as an ONNX model (samba_onnx_write_session): its forward
        pass, by ONNX's operators of that version, 18 where nothing is said. `graph_name`: which of several graphs."""
        name = ffi.NULL if graph_name is None else encoded(graph_name, "graph_name")
        self.context.check(lib.samba_onnx_write_session(self.context.c, self.c, name, operator.index(opset), path_of(path)))

    @property
    def tuning(self) -> tuple[str | None, int]:
        """The tune file in use, or None, and how many stages it chooses for: what `sambaflow tune` found for this machine. By
        default PEF.tune beside the PEF, where it is there and fits; Session(..., tune="off") takes none,
        tune="file" another."""
        told = ffi.new("samba_tuning *")
        self.context.check(lib.samba_session_tuning(self.c, told))
        return (None if told.path == ffi.NULL else os.fsdecode(ffi.string(told.path))), told.choices

    def names(self, kind: str) -> list[str]:
        """Names of device tensors of a kind: input, parameter, buffer, gradient, output."""
        return [name for name, (its, _, _) in self.tensors.items() if its == kind]

    def start(self, output: str) -> float:
        """What each element of an output's gradient started as: 1.0, or 0.0 where another output is computed from it;
        NaN where it has no gradient."""
        value = ffi.new("double *")
        self.context.check(lib.samba_session_start(self.c, encoded(output, "an output's name"), value))
        return value[0]

    @property
    def sections(self) -> list[str]:
        """The type of each section; its place is its id.
        One of forward and backward together, mapping 'spatial', is "FWD+BCKWD"."""
        info, found = ffi.new("samba_section_info *"), []
        for i in range(lib.samba_session_section_count(self.c)):
            self.context.check(lib.samba_session_section_info(self.c, i, info))
            found.append(text(info.type))
        return found

    @property
    def section_types(self) -> list[str]:
        """Types of the sections, in the order of the PEF, each once."""
        return list(dict.fromkeys(word for types in self.sections for word in types.split("+")))

    @property
    def mapping(self) -> str:
        """How the PEF, its first graph where it has several, was mapped: 'section' or 'spatial'."""
        return text(lib.samba_session_mapping(self.c, 0))

    @property
    def call_count(self) -> int:
        """Length of the schedule: its calls are 0 to one less."""
        return lib.samba_session_call_count(self.c)

    @property
    def hyperparameters(self) -> dict[str, float]:
        """Names and the values in force."""
        info, found = ffi.new("samba_hyperparameter *"), {}
        for i in range(lib.samba_session_hyperparameter_count(self.c)):
            self.context.check(lib.samba_session_hyperparameter(self.c, i, info))
            found[text(info.name)] = info.value
        return found

    @property
    def graph_name(self) -> str:
        """Name of the graph that the PEF was compiled from."""
        return text(lib.samba_session_graph_name(self.c))

    @property
    def graph_names(self) -> list[str]:
        """Names of the PEF's graphs, in their order."""
        info, found = ffi.new("samba_graph_info *"), []
        for i in range(lib.samba_session_graph_count(self.c)):
            self.context.check(lib.samba_session_graph_info(self.c, i, info))
            found.append(text(info.name))
        return found

    def is_inference(self, graph: int) -> bool:
        """Whether the graph of that number was compiled for inference."""
        info = ffi.new("samba_graph_info *")
        self.context.check(lib.samba_session_graph_info(self.c, graph, info))
        return info.inference

    @property
    def is_sized(self) -> bool:
        """Whether the PEF has one function, in several sizes: graphs `name@32`, `name@11`."""
        if self._sized is None:
            names = self.graph_names
            self._sized = len(names) > 1 and all("@" in name for name in names) and len({n.split("@")[0] for n in names}) == 1
        return self._sized

    def graph_for(self, inputs: Sequence[Tensor], graph_name: str | None = None) -> int:
        """Number of the graph that a run of these Tensors runs, which need no memory (samba_session_graph_for): of a function in
        several sizes that of their shapes, without inputs the one that ran last."""
        found, pointers = ffi.new("int *"), [tensor.c for tensor in inputs]
        name = ffi.NULL if graph_name is None else encoded(graph_name, "graph_name")
        self.context.check(lib.samba_session_graph_for(self.c, name, len(pointers), pointers, found))
        return found[0]

    def name_in(self, graph: int, name: str) -> str | None:
        """What the device calls a tensor of the graph of that number: `x@11` where a size has `x` in a shape of its own; None
        where the graph has none."""
        return text(lib.samba_session_name_in(self.c, graph, name.encode()))

    def outputs_of(self, graph_name: str | None = None) -> list[str]:
        """Names of a graph's outputs; None: of all, of sizes those of the first."""
        names, graphs = self.names("output"), self.graph_names
        if self.is_sized and graph_name not in graphs:
            graph_name = graphs[0]
        if graph_name not in graphs:
            return names
        return [name for name in names if lib.samba_session_graph_has(self.c, graphs.index(graph_name), name.encode())]

    def share(self) -> None:
        """Sends replica 0's parameters and buffers to all others, which call it too, once (samba_session_share)."""
        if not self.is_shared:
            with self._mine():
                self.context.check(lib.samba_session_share(self.c))
            self.is_shared = True

    def reset_random(self, seed: int) -> None:
        """Dropout seeds are drawn from `seed` as by a new session (samba_session_reset_random)."""
        with self._mine():
            self.context.check(lib.samba_session_reset_random(self.c, seed % 2**64))

    def __reduce_ex__(self, protocol):
        raise errors.ArgumentTypeError(
            "a session cannot be copied or pickled: it is a device's memory; save() its weights and load them into a new one"
        )

    def _mine(self):
        """The lock, to be held while the C session is used. Others wait for nothing: who finds it taken is told."""
        if self._lock.locked():
            raise StateError(
                f"the session of {self.pef} is used by another thread: give each thread a session of its own, or take turns"
            )
        return self._lock

    def close(self) -> None:
        """Frees the device's memory now. Whatever is asked of the session afterwards is a StateError;
        closing again does nothing."""
        if "c" in vars(self):
            with self._mine():
                ffi.release(vars(self).pop("c"))
                self._mine = self._closed

    def _closed(self):
        raise StateError(f"the session of {self.pef} is closed: make a new one")

    def __getattr__(self, name):  # what is not there: `c` of a closed session
        if name == "c" and "pef" in vars(self):
            self._closed()
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __enter__(self) -> "Session":
        return self

    def __exit__(self, *args: object) -> None:
        self.close()

    def _make_room(self, inputs, outputs):
        """Lists for so many tensors of a run."""
        self._prepared.clear()  # it points into the lists
        self._room = (max(inputs, 1), max(outputs, 1))
        self._inputs, self._outputs = (ffi.new("samba_tensor *[]", room) for room in self._room)

    def _options(self, section_types, section_ids, train, calls, graph_name=None, replicas=None):
        """samba_run_options for these, made once; inputs, outputs and hyperparameters come with each run. `replicas`: None, or
        (data_parallel, reduce_on_rdu, data_parallel_mode)."""
        if section_types.__class__ is not tuple or section_ids.__class__ is not tuple:
            section_types, section_ids = _listed(section_types, "section_types"), _listed(section_ids, "section_ids")
        try:
            return self._prepared[section_types, section_ids, train, calls, graph_name, replicas][0]
        except KeyError:
            pass
        if train not in (True, False):
            raise errors.ArgumentTypeError(f"run: train is {train!r:.100}: expected True or False")
        options = ffi.new("samba_run_options *", lib.samba_run_defaults())
        options.train = bool(train)
        options.inputs, options.outputs = self._inputs, self._outputs
        types, options.section_type_count, kept = array_of(section_types, "a section type")
        ids = ffi.new("int[]", section_ids)
        options.section_types = types
        options.section_ids, options.section_id_count = ids, len(section_ids)
        options.run_from_call_id, options.run_until_call_id = calls
        if len(self._prepared) == 64:
            self._prepared.clear()
        graph = ffi.NULL if graph_name is None else ffi.new("char[]", encoded(graph_name, "graph_name"))
        options.graph_name = graph
        mode = ffi.NULL
        if replicas is not None:
            options.data_parallel, options.reduce_on_rdu, word = replicas
            options.data_parallel_mode = mode = ffi.new("char[]", encoded(word, "data_parallel_mode"))
        kept = types, kept, ids, graph, mode
        self._prepared[section_types, section_ids, train, calls, graph_name, replicas] = (options, kept)
        return options

    def _values(self, hyperparameters):
        """samba_hyperparameter[] of a dict. Programs give the same names again and again."""
        if not isinstance(hyperparameters, dict):
            raise errors.ArgumentTypeError(
                f"run: hyperparameters are a dict of numbers by name: given {type(hyperparameters).__name__}"
            )
        if any(value.__class__ is tuple or value.__class__ is list for value in hyperparameters.values()):
            hyperparameters = dict(_each_number(hyperparameters))
        names = tuple(hyperparameters)
        values, words = self._hyperparameters.get(names, (None, None))
        if values is None:
            words = [ffi.new("char[]", encoded(name, "a hyperparameter's name")) for name in names]
            values = ffi.new("samba_hyperparameter[]", [(word, 0.0) for word in words])
            if len(self._hyperparameters) == 64:
                self._hyperparameters.clear()
            self._hyperparameters[names] = (values, words)
        for i, (name, value) in enumerate(hyperparameters.items()):
            try:
                values[i].value = value
            except TypeError:
                raise errors.ArgumentTypeError(
                    f"run: hyperparameter {name!r} is a number: given {value!r:.100} of {type(value).__name__}"
                ) from None
        return values

    def set_hyperparameters(self, hyperparameters: Mapping[str, float]) -> None:
        """Sets {name: value} without a run, all of them or none; they stay until given again."""
        with self._mine():
            values = self._values(hyperparameters)
            self.context.check(lib.samba_session_set_hyperparameters(self.c, len(values), values))
            self._warning[0] = lib.samba_session_warning(self.c)
            if text(self._warning[0]):
                warnings.warn(message(self._warning[0]), RuntimeWarning, stacklevel=3)

    def run(
        self,
        inputs: Iterable[Tensor] = (),
        outputs: Iterable[Tensor] = (),
        hyperparameters: Mapping[str, float] | None = None,
        section_types: Sequence[str] = (),
        section_ids: Sequence[int] = (),
        train: bool = True,
        run_from_call_id: int = -1,
        run_until_call_id: int = -1,
        graph_name: str | None = None,
        data_parallel: bool = False,
        reduce_on_rdu: bool = False,
        data_parallel_mode: str = "normal",
        reuse_inputs: Sequence[str] = (),
    ) -> None:
        """samba_run: `inputs` are transferred by name before, `outputs` filled after. Both are Tensors. `graph_name`:
        which of several graphs. With `data_parallel` this process is one of several replicas, which average their gradients.
        `reuse_inputs`: names of inputs that keep their values in this and all later runs, beside others that are given anew."""
        asked = (data_parallel, reduce_on_rdu, data_parallel_mode)
        replicas = None if asked == (False, False, "normal") else asked
        kept = _listed(reuse_inputs, "reuse_inputs")
        inputs, outputs = list(inputs), list(outputs)  # which own the memory: nobody else may hold it
        with self._mine():
            if len(inputs) > self._room[0] or len(outputs) > self._room[1]:
                self._make_room(len(inputs), len(outputs))
            self._inputs[0 : len(inputs)] = [_pointer(tensor, "an input") for tensor in inputs]
            self._outputs[0 : len(outputs)] = [_pointer(tensor, "an output") for tensor in outputs]
            addresses = [0] * (len(inputs) + len(outputs))
            calls = run_from_call_id, run_until_call_id
            options = self._options(section_types, section_ids, train, calls, graph_name, replicas)
            self._run(options, len(inputs), len(outputs), addresses, hyperparameters, reuse=kept)

    def _run(self, options, inputs, outputs, addresses, hyperparameters, gradients=(), reuse=()):
        """A run of that many tensors of the session's lists, moved to the addresses that are not 0, by who holds the lock.
        `gradients`: Tensors of outputs' gradients; `reuse`: names of inputs that keep their values."""
        if hyperparameters:
            values = self._values(hyperparameters)
            options.hyperparameters, options.hyperparameter_count = values, len(values)
        if gradients:
            starts = ffi.new("samba_tensor *[]", [tensor.c for tensor in gradients])
            options.output_gradients, options.output_gradient_count = starts, len(gradients)
        if reuse:
            names, options.reuse_input_count, _alive = array_of(reuse, "an input's name")
            options.reuse_inputs = names
        try:
            status = lib.sambaflow_run(self.c, options, inputs, outputs, addresses, self._warning)
        finally:
            # they are this run's alone
            options.hyperparameter_count = options.output_gradient_count = options.reuse_input_count = 0
        if status:
            self.context.check(status)
        if self._warning[0]:
            warnings.warn(message(self._warning[0]), RuntimeWarning, stacklevel=5)

    def set(self, tensor: Tensor) -> None:
        """Host to device, by the tensor's name."""
        pointer = _pointer(tensor, "set: the tensor")
        with self._mine():
            self.context.check(lib.samba_session_set(self.c, pointer))

    def _set_from(self, tensors, addresses):
        """Host to device of samba_tensors that are moved to the addresses before."""
        with self._mine():
            self.context.check(lib.sambaflow_set(self.c, len(tensors), tensors, addresses))

    def input_memory(self, name: str) -> Any:
        """A writable buffer that is the device's own memory of an input (samba_session_input), which a run given it does not
        copy. It keeps the session alive."""
        made = ffi.new("samba_tensor **")
        with self._mine():
            self.context.check(lib.samba_session_input(self.c, encoded(name), made))
        tensor = self.context.owned(made[0], lib.samba_tensor_free)
        data = ffi.gc(ffi.cast("char *", lib.samba_tensor_data(tensor)), lambda _, holders=(self, tensor): None)
        return ffi.buffer(data, lib.samba_tensor_numel(tensor) * lib.samba_dtype_size(lib.samba_tensor_dtype(tensor)))

    def get(self, tensor: Tensor) -> None:
        """Device to host, by the tensor's name."""
        pointer = _pointer(tensor, "get: the tensor")
        with self._mine():
            self.context.check(lib.samba_session_get(self.c, pointer))

    def report(self) -> "Report":
        """The sambaflow.report.Report of this session: a page to save or, in a notebook, to see. The first one of a process
        measures the machine, which takes a second."""
        from sambaflow.report import Report, machine_struct  # which imports this module

        made = ffi.new("char **")
        with self._mine():
            roofs = machine_struct(lib.samba_session_threads(self.c))
            self.context.check(lib.samba_session_page(self.c, roofs, encoded(self.pef), made))
        try:
            return Report(text(made[0]), self.pef)
        finally:
            lib.samba_text_free(self.context.c, made[0])

    def save(self, path: str | os.PathLike[str], with_state: bool = True) -> None:
        """Parameters, buffers and, `with_state`, optimizer state as safetensors; atomic."""
        path = path_of(path)
        with self._mine():
            self.context.check(lib.samba_session_save(self.c, path, bool(with_state)))

    def load(self, path: str | os.PathLike[str], strict: bool = True, drop_prefix: str = "") -> int:
        """Parameters by name from safetensors, one file or a folder of several with their index; state if there. Not `strict`:
        what the file lacks keeps its value. `drop_prefix`: what names in the file begin with that the PEF's do not. Returns how
        many of the PEF's tensors were loaded."""
        path, options, count = path_of(path), ffi.new("samba_load_options *", lib.samba_load_defaults()), ffi.new("int *")
        prefix = ffi.new("char[]", encoded(drop_prefix, "load: drop_prefix"))
        options.partial, options.drop_prefix, options.loaded = not strict, prefix if drop_prefix else ffi.NULL, count
        with self._mine():
            self.context.check(lib.samba_session_load_with(self.c, path, options))
        return count[0]
