# SPDX-License-Identifier: Apache-2.0
"""Operations on SambaTensors outside tracing: the library's own kernels, on the host.

A torch function that has a rule (`rules/`) is traced by it once for each signature - its options, the dtypes and shapes of its
tensors - compiled in memory (samba_function) and kept; the next call of that signature finds it. Numbers beside tensors are
inputs, so that `x * lr` compiles once. torch's autograd keeps the books: a call is one torch.autograd.Function, whose backward is
the function of the library's own gradient graph (samba_graph_gradient), and so on for further derivatives.

What moves data and computes nothing stays torch's, on the memory the tensors hold: views, copies, indexing, factories, random
numbers. torch takes apart what has no rule as a whole, and its parts come here as ATen operators (`aten`); in-place operators are
their rules written back. An operator that still has no rule is computed by torch, and a HostFallbackWarning says so once.

`with eager.reference():` has the library's plain reference kernels compute what is called inside, and its gradients: what
everything else is tested against; slow."""

import contextlib
import functools
import inspect
import threading
import weakref
from collections import OrderedDict

import torch

from sambaflow import launch
from sambaflow._core import ffi, lib
from sambaflow.errors import HostFallbackWarning, SambaError, UnsupportedError
from sambaflow.samba import _state, changed, pairs, rules  # noqa: F401  rules register themselves
from sambaflow.samba.calls import as_rule, mismatch, plain
from sambaflow.samba.locations import outside
from sambaflow.samba.pairs import REALS, complex_of, pair_of
from sambaflow.samba.sambatensor import SambaParameter, SambaTensor, from_output, from_value, make_wrapper, run_on_held
from sambaflow.samba.trace import _TORCH_DTYPES, COMPLEX, RULES, Tracer, dtype_number
from sambaflow.words import isa_of

MOST_PROGRAMS = 512
MOST_BYTES = 1 << 30  # of memory that programs hold together; the latest may be larger

_CPU = torch.device("cpu")
_DTYPES = frozenset(_TORCH_DTYPES)
_ALL_DTYPES = _DTYPES | frozenset(REALS)  # complex ones go in and come out as pairs: pairs.py
_no_functions = torch._C.DisableTorchFunctionSubclass
_grad_enabled = torch.is_grad_enabled
_default_dtype = torch.get_default_dtype


# ---- who computes what ----

# Views and copies of memory; what gives the tensor itself where nothing changes; draws from torch's generator.
_TORCHS = frozenset(
    """reshape view _unsafe_view view_as reshape_as flatten permute transpose swapaxes t __get__ expand expand_as unsqueeze
    squeeze select narrow __getitem__ __setitem__ split chunk unbind index_select to type type_as float double half bfloat16 int
    long short bool contiguous clone detach alias lift_fresh cpu zeros_like ones_like full_like empty_like new_zeros new_ones
    new_full new_empty dropout dropout1d dropout2d dropout3d alpha_dropout feature_alpha_dropout gumbel_softmax
    masked_scatter complex polar view_as_complex view_as_real rand rand_like randn randn_like randint_like bernoulli normal
    multinomial randperm poisson binomial _standard_gamma _sample_dirichlet unflatten movedim moveaxis broadcast_to unfold
    as_strided stride storage_offset is_contiguous requires_grad_
    gather take_along_dim scatter scatter_add scatter_reduce index_add index_put index_copy index_fill
    index_reduce index take put flip fliplr flipud rot90 roll tril triu diag diag_embed diagonal hstack vstack
    row_stack dstack block_diag meshgrid repeat tile pad reflection_pad1d reflection_pad2d reflection_pad3d
    replication_pad1d replication_pad2d replication_pad3d pad_sequence one_hot""".split()
)
# Functions whose numbers stand beside tensors and may change from call to call.
_OF_NUMBERS = frozenset(
    """add sub subtract rsub mul multiply div divide true_divide maximum minimum eq ne lt le gt ge clamp where masked_fill __add__
    __radd__ __sub__ __rsub__ __mul__ __rmul__ __truediv__ __rtruediv__ __div__ __rdiv__ __eq__ __ne__ __lt__ __le__
    __gt__ __ge__""".split()
)
# ATen operators that compute nothing, beside views and those that write.
_MOVES = frozenset(
    """clone detach alias lift_fresh _to_copy _reshape_copy _unsafe_view empty_like new_empty new_empty_strided new_zeros new_ones
    new_full zeros_like ones_like full_like rand_like randn_like randint_like bernoulli normal multinomial index index_select
    gather take take_along_dim scatter index_put masked_select masked_scatter nonzero slice_backward select_backward
    diagonal_backward unfold_backward slice_scatter select_scatter as_strided_scatter _unsafe_index _unsafe_index_put flip roll
    rot90 tril triu diag diag_embed repeat cat stack hstack vstack dstack scatter_add scatter_reduce index_add index_copy
    index_fill index_reduce put reflection_pad1d reflection_pad2d reflection_pad3d replication_pad1d replication_pad2d
    replication_pad3d _local_scalar_dense equal is_same_size one_hot _assert_async _is_all_true _is_any_true
    _pin_memory resize block_diag""".split()
)


def _in_place(name):
    return (name.endswith("_") and not name.endswith("__")) or name in (
        "__iadd__",
        "__isub__",
        "__imul__",
        "__itruediv__",
        "__idiv__",
        "__ifloordiv__",
        "__imod__",
        "__ipow__",
        "__iand__",
        "__ior__",
        "__ixor__",
        "__ilshift__",
        "__irshift__",
    )


_library = {}  # torch function or ATen operator -> (its rule, whether its numbers are inputs)
_complex_library = {}  # the same of complex tensors


def _read_rules():
    for function, rule in RULES.items():
        name = function.__name__
        windows = function is torch.nn.functional.unfold  # has the name of a view of a tensor
        if (name not in _TORCHS or windows) and not _in_place(name) and not hasattr(rule, "asks_values"):
            _library[function] = (rule, name in _OF_NUMBERS)
    for function, rule in COMPLEX.items():
        if function.__name__ not in _TORCHS and not _in_place(function.__name__):
            _complex_library[function] = (rule, False)


# ---- programs ----


class _Number:
    """Stands for a number while a rule is traced. Whoever asks for its value cannot have it."""

    __slots__ = ("kind", "name")

    def __init__(self, kind, name):
        self.kind, self.name = kind, name


class _Refused(Exception):
    """The rule cannot be one function of tensors: torch takes the call apart."""


class _Recorder(Tracer):
    """One call in the making: its tensors are inputs."""

    chooses = False

    def __init__(self, name, of_numbers):
        super().__init__(name)
        self.grad = True  # autograd stands outside
        self.of_numbers = of_numbers
        self.traced = []  # what stands for the tensors
        self.inputs = []  # names, in order
        self.numbers = []  # names of those that became inputs
        self.written = []  # (traced input, value it becomes): running statistics
        self._numbers = {}

    def declare(self, name, dtype, shape):
        self.inputs.append(name)
        shape = list(shape)
        made = ffi.new("samba_tensor **")
        self.context.check(lib.samba_tensor_empty(self.context.c, name.encode(), dtype_number(dtype), len(shape), shape, made))
        status = lib.samba_graph_add_input(self.graph, made[0])
        lib.samba_tensor_free(made[0])
        self.context.check(status)
        return lib.samba_input(self.graph, name.encode())

    def stand_in(self, x, name):
        """What the rule gets for an argument."""
        if isinstance(x, torch.Tensor):
            plain = x._held if isinstance(x, SambaTensor) else x
            if plain.dtype.is_complex:
                shape, dtype = (*plain.shape, 2), REALS[plain.dtype]
                self.traced.append(complex_of(self, from_value(self.declare(name, dtype, shape), shape, dtype, self.id)))
                return self.traced[-1]
            value = self.declare(name, plain.dtype, plain.shape)
            self.traced.append(from_value(value, plain.shape, plain.dtype, self.id))
            return self.traced[-1]
        if self.of_numbers and type(x) in (int, float):
            return _Number(type(x), f"{name} (number)")
        if isinstance(x, (list, tuple)) and not isinstance(x, torch.Size):
            return type(x)([self.stand_in(part, f"{name}.{i}") for i, part in enumerate(x)])
        return x

    def number(self, number):
        if not isinstance(number, _Number):
            return super().number(number)
        if number.name not in self._numbers:
            self.numbers.append(number.name)
            self._numbers[number.name] = self.declare(number.name, torch.float64 if number.kind is float else torch.int64, ())
        return lib.samba_as_number(
            self._numbers[number.name], dtype_number(_default_dtype() if number.kind is float else torch.int64)
        )

    def is_buffer(self, x):
        raise _Refused  # an operation in place: aten has it

    def assign(self, buffer, value):
        self.written.append((buffer, value))

    def where(self):
        return ""  # the traceback says it


class _Program:
    """A graph and, from the first run on, its compiled form."""

    def __init__(self, context, graph, inputs, outputs, results):
        self.context, self.graph = context, graph
        self.inputs, self.outputs = inputs, outputs  # names
        self.results = results  # (shape, dtype) of each output
        self.complexes = ()  # places of results that are pairs
        self.shown = len(results)  # how many the caller sees; the others are written to inputs
        self.writes = ()  # their places among the inputs
        self.wrap = None  # of several results: the type that holds them
        self.nothing = ()  # places among them of None: what the caller did not ask for
        self.numbers = ()  # names of inputs that are numbers
        self.lock = threading.Lock()  # the context's too
        self.c = None
        self.options = _options  # of samba_function_new
        self.first = weakref.ref(self)  # of a gradient's program: the forward's; without a circle, so that memory goes at once
        self.kept, self.bytes = False, 0  # whether the cache has it; with its gradients
        self.gradients = {}

    def compile(self):
        made = ffi.new("samba_function **")
        options, isa = self.options, isa_of()
        if not options:
            options = ffi.new("samba_function_options *", lib.samba_function_defaults())
            options.isa = isa
        self.context.check(lib.samba_function_new(self.context.c, self.graph, options, made))
        self.ins, self.outs = ffi.new("uintptr_t[]", max(len(self.inputs), 1)), ffi.new("uintptr_t[]", max(len(self.outputs), 1))
        self.in_pointers, self.out_pointers = ffi.cast("void **", self.ins), ffi.cast("void **", self.outs)
        self.c = self.context.owned(made[0], lib.samba_function_free)
        memory = ffi.new("samba_memory_info *")
        self.context.check(lib.samba_function_memory(self.c, memory))
        _programs.holds(self, memory.total)

    def run(self, given, into=None):
        """Plain contiguous tensors in, new ones (or `into`) out."""
        made = into or [torch.empty(shape, dtype=dtype, device=_CPU) for shape, dtype in self.results]
        with self.lock:
            if self.c is None:
                self.compile()
            ins, outs, i = self.ins, self.outs, 0
            for x in given:
                ins[i] = x.data_ptr()
                i += 1
            i = 0
            for x in made:
                outs[i] = x.data_ptr()
                i += 1
            status = lib.samba_function_run_memory(self.c, self.in_pointers, self.out_pointers)
            if status:
                self.context.check(status)
        global runs
        runs += 1
        return made

    def gradient(self, wanted):
        """The gradients of the inputs whose numbers are given."""
        with self.lock:
            found = self.gradients.get(wanted)
            if found is None:
                found = self.gradients[wanted] = _Gradient(self, wanted)
        return found


class _Gradient:
    """The program of a gradient graph, and what of the forward's tensors it reads."""

    def __init__(self, forward, wanted):
        names = [ffi.new("char[]", forward.inputs[k].encode()) for k in wanted]
        made = ffi.new("samba_graph **")
        forward.context.check(lib.samba_graph_gradient(forward.graph, len(names), ffi.new("char *[]", names), made))
        graph = forward.context.owned(made[0], lib.samba_graph_free)
        self.wanted = wanted
        self.reads = [k for k, name in enumerate(forward.inputs) if lib.samba_graph_has_input(graph, name.encode())]
        self.grads = [j for j, name in enumerate(forward.outputs) if lib.samba_graph_has_input(graph, f"{name}.grad".encode())]
        inputs = [forward.inputs[k] for k in self.reads] + [f"{forward.outputs[j]}.grad" for j in self.grads]
        outputs = [f"{forward.inputs[k]}.grad" for k in wanted]
        self.program = _Program(forward.context, graph, inputs, outputs, [forward.shapes[k] for k in wanted])
        self.program.shapes = [forward.shapes[k] for k in self.reads] + [forward.results[j] for j in self.grads]
        self.program.lock = forward.lock
        self.program.options = forward.options
        self.program.first = forward.first


class _Programs:
    """The latest used programs by signature: so many, and so much memory, their gradients' included."""

    def __init__(self):
        self.by_key = OrderedDict()
        self.bytes = 0
        self.lock = threading.Lock()

    def find(self, key):
        found = self.by_key.get(key)
        if found is not None:
            try:
                self.by_key.move_to_end(key)
            except KeyError:  # another thread's program took its place meanwhile
                pass
        return found

    def add(self, key, program):
        with self.lock:
            self._forget(self.by_key.pop(key, None))  # another thread made it too
            self.by_key[key] = program
            if type(program) is _Program:
                program.kept = True
            while len(self.by_key) > MOST_PROGRAMS:
                self._forget(self.by_key.popitem(last=False)[1])

    def holds(self, program, total):
        """Counts memory of a program that was compiled; older ones go where it is too much."""
        first = program.first()
        with self.lock:
            if first is not None:
                first.bytes += total
                self.bytes += total if first.kept else 0
            while len(self.by_key) > 1 and self.bytes > MOST_BYTES:
                self._forget(self.by_key.popitem(last=False)[1])

    def clear(self):
        with self.lock:
            while self.by_key:
                self._forget(self.by_key.popitem()[1])

    def _forget(self, program):
        if type(program) is _Program and program.kept:
            program.kept = False
            self.bytes -= program.bytes


_programs = _Programs()
_options = ffi.NULL  # of programs made from here on; NULL: compiled, for SAMBAFLOW_ISA
runs = 0  # of programs, for tests
_local = threading.local()


@contextlib.contextmanager
def reference():
    """Calls inside, by all threads, are evaluated by the reference kernels, operator by operator, instead of compiled; so are the
    gradients of their results, wherever `backward` is called. For tests: it is slow.

    >>> import torch
    >>> import sambaflow.samba as samba
    >>> from sambaflow.samba import eager
    >>> with eager.reference():
    ...     y = torch.exp(samba.SambaTensor(torch.zeros(2)))
    >>> samba.to_torch(y)
    tensor([1., 1.])
    """
    global _programs, _options
    outside = _programs, _options
    _programs, _options = _Programs(), ffi.new("samba_function_options *", lib.samba_function_defaults())
    _options.reference = True
    try:
        yield
    finally:
        _programs, _options = outside


# ---- signatures ----


class _Unknown(Exception):
    """An argument that no rule can take."""


class _Complex(_Unknown):
    """A complex tensor, which a rule of real ones does not take."""


_ATOMS = frozenset(
    (int, float, bool, str, type(None), torch.dtype, type(Ellipsis), torch.device, torch.memory_format, torch.layout)
)
_SAMBAS = frozenset((SambaTensor, SambaParameter))
_PLAINS = frozenset((torch.Tensor, torch.nn.Parameter))


def _describe(x, tensors, numbers, dtypes=_DTYPES):
    """What of an argument the signature has; collects tensors, and numbers where `numbers` is a list."""
    kind = type(x)
    if kind in _SAMBAS:
        held = x._held
        if held is None:
            held = x._host_values()
        tensors.append(x)
        if held.dtype not in dtypes or not held.is_cpu:
            raise _Complex if held.dtype in REALS else _Unknown
        return held.dtype, held.shape
    if kind in _ATOMS:
        if numbers is not None and (kind is float or kind is int):
            numbers.append(x)
            return kind
        return kind, x
    if kind in _PLAINS:
        tensors.append(x)
        if x.dtype in REALS and dtypes is _DTYPES:
            raise _Complex
        if x.dtype not in dtypes or not x.is_cpu or torch._C._functorch.is_functorch_wrapped_tensor(x):
            raise _Unknown
        return x.dtype, x.shape
    if kind is tuple or kind is list or kind is torch.Size:
        return kind, tuple([_describe(part, tensors, None, dtypes) for part in x])
    if kind is slice:
        return kind, x.start, x.stop, x.step
    if isinstance(x, torch.Tensor):
        raise _Unknown
    number = plain(x)
    if number is not x:
        return _describe(number, tensors, numbers, dtypes)
    try:
        hash(x)
    except TypeError:
        raise _Unknown from None
    return kind, x


def _held(x):
    if type(x) in _SAMBAS:
        changed.read(x)
    held = x._held if type(x) in _SAMBAS else x
    if held.dtype in REALS:
        held = torch.view_as_real(held.detach().resolve_conj())
    return held if held.is_contiguous() else held.contiguous()


# ---- tracing a call ----


def _names(rule, args, kwargs):
    """A name for each argument, as the rule calls it."""
    parameters = list(inspect.signature(rule).parameters.values())[1:]
    words = []
    for i in range(len(args)):
        parameter = parameters[min(i, len(parameters) - 1)]
        words.append(parameter.name if parameter.kind is parameter.POSITIONAL_OR_KEYWORD else f"argument{i}")
    return words, list(kwargs)


def _record(func, rule, of_numbers, args, kwargs):
    """The program of a call, or what the library says against it."""
    args, kwargs = as_rule(func, rule, args, kwargs)
    if mismatch(rule, args, kwargs):
        raise _Refused  # an argument that the rule does not know: out=
    recorder = _Recorder(getattr(func, "__name__", "operator"), of_numbers)
    positional, named = _names(rule, args, kwargs)
    new_args = [recorder.stand_in(x, name) for x, name in zip(args, positional)]
    new_kwargs = {name: recorder.stand_in(kwargs[name], name) for name in named}
    traced = recorder.traced
    shapes = [((*x.shape, 2), REALS[x.dtype]) if x._complex else (x.shape, x.dtype) for x in traced]
    _local.recorder = recorder
    try:
        with torch.no_grad():
            result = recorder._apply(rule, func, new_args, new_kwargs)
    finally:
        _local.recorder = None
    return _finish(recorder, traced, shapes, result)


def _finish(recorder, traced, shapes, result):
    given = list(result) if isinstance(result, (tuple, list)) else [result]
    results = [x for x in given if x is not None]
    for x in results:
        known = not isinstance(x, SambaTensor) or (x._value is None and not x._complex)
        if known or any(x is y for y in traced) or not recorder.is_symbolic((x,), {}):
            raise _Refused  # a constant, or an argument itself
    if recorder.dropouts or not results:
        raise _Refused  # masks are torch's
    complexes = tuple(i for i, x in enumerate(results) if x._complex)
    results = [pair_of(recorder, x) if x._complex else x for x in results]
    values = [recorder.value(x) if i in complexes else x._value for i, x in enumerate(results)]
    values += [value for _, value in recorder.written]
    outputs = [f"output{i}" for i in range(len(values))]
    for name, value in zip(outputs, values):
        lib.samba_output(recorder.graph, name.encode(), value)
    facts = [(x.shape, x.dtype) for x in results] + [(x.shape, x.dtype) for x, _ in recorder.written]
    recorder.check()
    program = _Program(recorder.context, recorder.graph, recorder.inputs, outputs, facts)
    program.shapes = shapes + [((), torch.float64)] * len(recorder.numbers)
    program.shown, program.complexes = len(results), complexes
    program.writes = [next(k for k, x in enumerate(traced) if x is buffer) for buffer, _ in recorder.written]
    program.numbers = tuple(recorder.numbers)
    program.wrap = None if isinstance(result, SambaTensor) else type(result)
    program.nothing = tuple(i for i, x in enumerate(given) if x is None)
    return program


# ---- calls ----


def call(func, args, kwargs):
    """A torch function of SambaTensors by the library; NotImplemented leaves it to torch."""
    if getattr(_local, "recorder", None) is not None:
        return _local.recorder.function(func, args, kwargs)
    found = _library.get(func)
    if found is None and func in _complex_library and pairs.meets(args, kwargs):
        return _of_complex(func, func, args, kwargs, True)
    if found is None or torch.is_autocast_enabled("cpu"):  # autocast casts what ATen operators are given
        return NotImplemented
    return _call(func, func, found, args, kwargs, True)


def _call(func, key, found, args, kwargs, differentiable, dtypes=_DTYPES):
    tensors, numbers = [], [] if found[1] else None
    with _no_functions():
        try:
            made = [key, _default_dtype()]
            for x in args:
                made.append(_describe(x, tensors, numbers, dtypes))
            for name in kwargs:
                made.append((name, _describe(kwargs[name], tensors, numbers, dtypes)))
        except _Complex:
            made = None
        except _Unknown:
            return NotImplemented
    if made is None:
        return _of_complex(func, key, args, kwargs, differentiable)
    with _no_functions():
        key = tuple(made)
        program = _programs.find(key)
    if program is None:
        program = _make(func, key, found, args, kwargs)
    if type(program) is _Program:
        with _no_functions():
            if numbers:
                _add_numbers(program, tensors, numbers)
            return _invoke(program, tensors, differentiable)
    return _by_torch(program, func, args, kwargs) if differentiable else NotImplemented


def _of_complex(func, key, args, kwargs, differentiable):
    """The same of complex tensors; NotImplemented where no rule takes them."""
    found = _complex_library.get(func) or _complex_library.get(getattr(func, "overloadpacket", None))
    return NotImplemented if found is None else _call(func, key, found, args, kwargs, differentiable, _ALL_DTYPES)


def _make(func, key, found, args, kwargs):
    """Makes and keeps the program, or the reason why there is none."""
    try:
        program = _record(func, *found, args, kwargs)
    except (_Refused, UnsupportedError):
        program = _Refused()
    except (SambaError, TypeError, IndexError) as error:
        if found[1]:  # perhaps the rule wants to know its numbers
            return _make(func, (*key, "numbers known"), (found[0], False), args, kwargs)
        program = error.with_traceback(None)
    _programs.add(key, program)
    return program


def _add_numbers(program, tensors, numbers):
    """The numbers of a call behind its tensors."""
    for number in numbers:
        tensors.append(torch.tensor(number, dtype=torch.float64 if type(number) is float else torch.int64))


def _by_torch(reason, func, args, kwargs):
    """What the library does not take torch may; where it does not either, the library's message counts."""
    try:
        with _no_functions():
            return func(*args, **kwargs)
    except (RuntimeError, TypeError, ValueError, IndexError) as error:
        if isinstance(reason, _Refused) or isinstance(error, (SambaError, NotImplementedError)):
            raise
        raise type(reason)(*reason.args) from None


def _invoke(program, tensors, differentiable=True):
    """Runs a program on tensors; SambaTensors come back."""
    if differentiable and _grad_enabled():
        for x in tensors:
            if x.requires_grad:
                made = _Apply.apply(program, *tensors)
                return made if program.wrap is None and program.shown == 1 else _together(program, made)
    made = _run(program, tensors)
    return made[0] if program.wrap is None and program.shown == 1 else _together(program, made)


def _together(program, made):
    made = [made] if isinstance(made, torch.Tensor) else list(made)
    for i in program.nothing:
        made.insert(i, None)
    return tuple(made) if program.wrap in (None, tuple) else program.wrap(made)


def _run(program, tensors):
    made = program.run([_held(x) for x in tensors])
    for k, value in zip(program.writes, made[program.shown :]):
        target = tensors[k]
        (target._held if type(target) in _SAMBAS else target).copy_(value)
    results = [from_output(x, shape, dtype, "") for x, (shape, dtype) in zip(made[: program.shown], program.results)]
    for i in program.complexes:
        results[i] = make_wrapper(SambaTensor, torch.view_as_complex(made[i]), None, None)
    return results


class _Apply(torch.autograd.Function):
    """A program in torch's autograd. Only what the gradient reads is saved."""

    @staticmethod
    def forward(ctx, program, *tensors):
        made = _run(program, tensors)
        fixed = [x for x in made if not (x.dtype.is_floating_point or x._complex)]
        if fixed:
            ctx.mark_non_differentiable(*fixed)
        if len(fixed) < len(made):
            try:
                ctx.gradient = program.gradient(tuple([k for k, need in enumerate(ctx.needs_input_grad[1:]) if need]))
            except UnsupportedError as error:  # a second derivative that nobody has asked for yet
                ctx.gradient = error.with_traceback(None)
                return made[0] if len(made) == 1 else tuple(made)
            ctx.save_for_backward(*[tensors[k] for k in ctx.gradient.reads])
            ctx.plain = [type(x) not in _SAMBAS for x in tensors]
            ctx.complexes = [x._complex if type(x) in _SAMBAS else x.dtype in REALS for x in tensors]
        return made[0] if len(made) == 1 else tuple(made)

    @staticmethod
    def backward(ctx, *grads):
        with _no_functions():
            gradient = ctx.gradient
            if isinstance(gradient, UnsupportedError):
                raise UnsupportedError(*gradient.args)
            given = list(ctx.saved_tensors)
            for j in gradient.grads:  # what is written to inputs has no gradient
                given.append(
                    grads[j]
                    if j < len(grads)
                    else torch.zeros(gradient.program.shapes[len(given)][0], dtype=gradient.program.shapes[len(given)][1])
                )
            made = _invoke(gradient.program, given)
            result = [None] * (1 + len(ctx.plain))
            for k, x in zip(gradient.wanted, made if isinstance(made, tuple) else (made,)):
                if ctx.complexes[k]:
                    x = torch.view_as_complex(x)
                result[1 + k] = x._held if ctx.plain[k] and not x.requires_grad else x
            return tuple(result)


# ---- ATen ----


def aten(func, args, kwargs):
    """An ATen operator of SambaTensors, below autograd:
    by the library where it has a rule, by torch on the held tensors otherwise."""
    if getattr(_local, "recorder", None) is not None:
        return _local.recorder.aten(func, args, kwargs)
    packet = func.overloadpacket
    if func._schema.is_mutable:
        name = packet.__name__
        base = _library.get(getattr(torch.ops.aten, name[:-1], None)) if _in_place(name) else None
        written = [args[i] for i in _written(func) if i < len(args)]
        if base is not None and isinstance(args[0], SambaTensor) and _write(func, base, args, kwargs):
            changed.doubt_written(written)
            return args[0]
        changed.doubt_written(written)
        changed.read_among([x for x in args if not any(x is y for y in written)])
        return run_on_held(func, args, kwargs)
    found = _library.get(packet)
    if found is not None and (packet is not torch.ops.aten._to_copy or _casts(args[0], kwargs)):
        result = _call(func, func, found, args, kwargs, False)
        if result is not NotImplemented:
            if packet is torch.ops.aten._to_copy and args[0]._keeps_name:
                result._sn_name, result._keeps_name = args[0]._sn_name, True
            return result
    if packet is torch.ops.aten._has_compatible_shallow_copy_type:  # whether one may take the other's place by `.data =`
        return isinstance(args[0], SambaTensor) and isinstance(args[1], SambaTensor)
    changed.read_among(args)
    result = run_on_held(func, args, kwargs)
    if not (func.is_view or packet.__name__ in _MOVES or packet.__name__ in _told or torch._C._current_graph_task_id() != -1):
        _tell(packet.__name__)
    return result


@functools.cache
def _written(func):
    """Which arguments an ATen operator writes into."""
    return [i for i, x in enumerate(func._schema.arguments) if x.alias_info is not None and x.alias_info.is_write]


def _casts(x, kwargs):
    dtype, device = kwargs.get("dtype"), kwargs.get("device")
    return dtype not in (None, x.dtype) and (device is None or torch.device(device).type == "cpu")


def _write(func, found, args, kwargs):
    """An in-place operator as its rule, the result in the tensor's memory; False where torch has to say what is wrong."""
    tensors, numbers = [], [] if found[1] else None
    try:
        key = (func, _default_dtype(), *[_describe(x, tensors, numbers) for x in args])
        key += tuple([(name, _describe(kwargs[name], tensors, numbers)) for name in kwargs])
    except _Unknown:
        return False
    program = _programs.find(key) or _make(func, key, found, args, kwargs)
    held = args[0]._held
    if type(program) is not _Program or program.results != [(held.shape, held.dtype)]:
        return False
    if numbers:
        _add_numbers(program, tensors, numbers)
    given = [_held(x) for x in tensors]
    if held.is_contiguous():
        program.run(given, [held])
    else:
        held.copy_(program.run(given)[0])
    return True


_told = _state.until_reset(set())


def _tell(name):
    _told.add(name)
    launch.warn(
        f"SambaFlow has no kernel for torch's operator {name}: torch computed it on the host. Apply it to tensor.torch() to say "
        "that this is meant",
        HostFallbackWarning,
        stacklevel=outside(),
    )


_read_rules()
_state.eager, _state.eager_aten = call, aten
