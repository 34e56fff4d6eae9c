# SPDX-License-Identifier: Apache-2.0
"""Tracing: a model's forward pass, run once on tensors without values, becomes a graph of the C library.

While a tracer is at work, torch hands every function of a SambaTensor to `function`, whole (torch.nn.functional.layer_norm), and
what no rule takes whole comes back in ATen's parts to `aten`. Rules stand in `rules/`; they call the C library, which alone knows
shapes, dtypes, promotion and gradients.
What no rule takes is an error that names the operator, the module and the user's line."""

import collections
import contextlib
import itertools
import sys
import types

import torch
import torch._decomp

from sambaflow import errors
from sambaflow._core import ffi, lib
from sambaflow.errors import (
    ArgumentError,
    ArgumentIndexError,
    ArgumentTypeError,
    SambaError,
    StateError,
    UnknownNameError,
    UnsupportedError,
    raise_status,
)
from sambaflow.runtime import DTYPE_NAMES, DTYPES, Context, Tensor
from sambaflow.samba import _state, asked, attributes, drawn, experts, functions, locations, packed, pairs, transforms
from sambaflow.samba.calls import as_rule, mismatch
from sambaflow.samba.differences import explained
from sambaflow.samba.directives import FUSIONS
from sambaflow.samba.left import Left
from sambaflow.samba.patches import Flag, Patch, replaced
from sambaflow.samba.regions import Regions
from sambaflow.samba.sambatensor import SambaTensor, from_torch_tensor, from_value, make_wrapper, run_on_held, values_of
from sambaflow.samba.unwritten import Zeroed
from sambaflow.samba.views import in_place, refresh, settle
from sambaflow.words import encoded, message, text

_Norm = torch.nn.modules.batchnorm._NormBase
_TORCH_DTYPES = [getattr(torch, name) for name in DTYPE_NAMES]


def dtype_name(dtype):
    """The library's name of a torch dtype."""
    name = str(dtype).removeprefix("torch.")
    if name not in DTYPES:
        raise errors.ArgumentTypeError(f"{dtype} is not a dtype of SambaFlow: those are {', '.join(DTYPE_NAMES)}")
    return name


def dtype_number(dtype):
    """samba_dtype of a torch dtype."""
    return DTYPES[dtype_name(dtype)]


class Tracer:
    """One graph in the making."""

    _ids = itertools.count(1)
    chooses = True  # a run of the graph says whether it trains

    def __init__(self, name, modules=None, scope="", prefix="", context=None, evaluates=False):
        """`scope`: of one graph of several, its name, which stands before those that are made up. `prefix` stands before modules'
        paths. `context`: where graphs that are compiled together are made. `evaluates`: the graph is that of runs that do not
        train."""
        self.id = next(self._ids)  # which tensors are its own: graphs of others may be gone
        self.context = context or Context()
        self.scope, self.prefix = scope and f"{scope}.", prefix and f"{prefix}."
        made = ffi.new("samba_graph **")
        self.context.check(lib.samba_graph_new(self.context.c, encoded(name), made))
        self.graph = self.context.owned(made[0], lib.samba_graph_free)
        self.names = {}  # id of a parameter or buffer -> (its name, itself, whether it is a parameter)
        self.known = {}  # id of a parameter or buffer -> its name in the graphs before this one
        self.values = {}  # id -> samba_value
        self.versions = {}  # id of a constant -> of the values that the graph has
        self.writes = collections.Counter()  # address of memory of SambaTensors -> times that values were written into it
        # address of memory that the model has made and that a traced tensor was written into -> the traced tensor it has become
        self.memories = {}
        self.without_gradient = set()  # indices of values that are known to have none
        self.assigned = {}  # id of a buffer -> (samba_value of the buffer, of what it becomes)
        # id of what stands for an input with a region name -> its samba_value: what is written into it stays on the device
        self.kept_regions = {}
        self.arguments = {}  # id of an argument -> what stands for it
        self.taken = set()  # names that are some tensor's own
        self.kept = []  # what has an id here stays alive
        self.regions = Regions(named=bool(scope))
        self.paths = {id(module): path for path, module in modules} if modules else {}
        self.kinds = {path: type(module).__name__ for path, module in modules} if modules else {}
        self.counters = (
            {id(x.num_batches_tracked) for _, x in modules if isinstance(x, _Norm) and x.training} if modules else set()
        )  # of batches that train
        self.asked, self.evaluates = asked.Asked(self.paths), evaluates
        self.may_train = False  # whether it is known that the graph is to be trained
        self.synchronized = False  # whether a batch norm at work is one of all replicas
        self.left = Left(modules or [])
        self.attributes, self.has_drawn = {}, False  # of attributes.py and drawn.py
        self.stack = []  # paths of the modules being called
        self.line = None  # (file, line) that the graph was told last
        self.legacy_names = False  # SambaSession.use_legacy_names
        self.dropouts = 0  # traced so far: those outside modules are numbered
        self.in_backward = False  # of a torch.autograd.Function
        self.once = {}  # node -> name of the torch.autograd.Function whose gradient has none itself
        self.duals = {}  # level of forward mode -> (variable, its tangent) of each dual tensor
        self.requiring = {}  # node -> whether it requires a gradient, as far as that was asked
        self.grad = None  # whether the model's code wants gradients of the torch function at work; None between two
        self.called = None  # that function

    # ---- leaves ----

    def add_named(self, tensors, trainable):
        """Parameters or buffers: (name, tensor) pairs. The first name of a tensor counts."""
        for path, tensor in tensors:
            name = self.known.get(id(tensor), path)
            if self.known and id(tensor) not in self.names and any(name == other for other, _, _ in self.names.values()):
                raise UnknownNameError(
                    f"two parameters or buffers of a graph would be {name!r} on the device: the one at {path!r} and one "
                    "that a graph before "
                    "has under that name; give one of them another path"
                )
            self.names.setdefault(id(tensor), (name, tensor, trainable))

    def add_input(self, tensor):
        """Declares an input; the traced tensor that stands for it."""
        shared = self.regions.shared(tensor)
        if shared is not None:
            return shared
        traced = self.wrap(self.new_input(self.regions.device_name(tensor), tensor.dtype, tensor.shape))
        traced.sn_name = tensor.sn_name
        if tensor._noted is None and tensor.requires_grad:  # what another graph gives leads to no gradient
            self.requiring[traced._value.index] = True
        if tensor.sn_region_name != tensor.sn_name:
            traced.sn_region_name = tensor.sn_region_name
            self.kept_regions[id(traced)] = traced._value
            self.kept.append(traced)
        self.regions.keep(tensor, traced)
        return traced

    def new_input(self, name, dtype, shape):
        """The samba_value of an input of that name on the device."""
        example = Tensor.empty(name, dtype_name(dtype), tuple(shape), self.context)
        self.context.check(lib.samba_graph_add_input(self.graph, example.c))
        return lib.samba_input(self.graph, encoded(name))

    def input(self, tensor, name):
        """The same for a tensor among the model's arguments, named `name` where it has no name;
        one that is given twice is one input."""
        if id(tensor) not in self.arguments:
            if pairs.is_complex(tensor):
                way = "give torch.view_as_real(tensor), and begin the model with torch.view_as_complex"
                pairs.refuse_border(f"the model's argument {name!r}", way)
            named = from_torch_tensor(tensor)
            kept = named.sn_name if not named._kept_name or named.sn_name not in self.taken else ""
            named.sn_name = kept or self.scope + name
            self.taken.add(named.sn_name)
            self.arguments[id(tensor)] = self.add_input(named)
            self.kept.append(tensor)
        return self.arguments[id(tensor)]

    def value(self, x):
        """The samba_value of a tensor: traced, a parameter, or a constant."""
        if pairs.is_complex(x):
            pairs.refuse(self)
        if isinstance(x, SambaTensor):
            if self.memories and x._held is not None and id(x) not in self.names:
                settle(self, x)
            if x._view is not None and x._trace == self.id:
                refresh(self, x)
            if x._value is not None:
                if x._trace != self.id:
                    self.left.refuse(self, x)
                return x._value
        found, version = self.values.get(id(x)), None if id(x) in self.names else self._version(x)
        if found is None or self.versions.get(id(x)) != version:
            found = self.leaf(x)
            self.values[id(x)], self.versions[id(x)] = found, version
            self.kept.append(x)
        return found

    def _version(self, x):
        """Of the values of a constant: a model may write other ones into it. Below autograd torch does not count."""
        return self.writes[_storage(x)] if isinstance(x, SambaTensor) else 0 if x.is_inference() else x._version

    def made(self, x):
        """Marks a tensor with values as one that the model has made: it may be written into."""
        x._trace = self.id
        return x

    def leaf(self, x):
        """What a tensor is in the graph that nothing of it has made."""
        shape, dtype = list(x.shape), x.dtype
        if dtype.is_complex:
            shape, dtype = [*shape, 2], pairs.real_dtype(dtype)
        if torch._C._functorch.is_functorch_wrapped_tensor(x):
            transforms.refuse_transform(self)
        if id(x) in self.names:
            name, tensor, trainable = self.names[id(x)]
            make = lib.samba_parameter if trainable and tensor.requires_grad else lib.samba_register_buffer
            return make(self.graph, name.encode(), dtype_number(dtype), len(shape), shape, ffi.new("samba_initializer *")[0])
        if getattr(x, "_draw", None) is not None:
            return drawn.value(self, x, self.writes[_storage(x)] > 0)
        if x.requires_grad and not isinstance(x, SambaTensor):
            raise UnsupportedError(
                "a parameter of the model is no SambaTensor, or something was computed from it before it met one: "
                "convert the model "
                f"with samba.from_torch_model_(model){self.where()}"
            )
        values = values_of(x)
        first = values.flatten()[0].item() if values.numel() > 0 else None
        if (
            first is not None
            and float(first) == first
            and bool((values == first).all())
            and not (first == 0 and bool(values.signbit().any()))
        ):
            # a constant is a double, which not every int64 is, and one number, which 0 and -0 are not
            return self._asked(x, lib.samba_constant(self.graph, float(first), dtype_number(x.dtype), len(shape), shape))
        kept = values.detach().contiguous()
        constant = Tensor._over(None, dtype_name(x.dtype), shape, None, kept.data_ptr(), kept, self.context)
        return self._asked(x, lib.samba_constant_tensor(self.graph, constant.c))

    def _asked(self, x, value):
        """A constant's value; one that the model made and asked to have a gradient is no other one of equal values."""
        if x._trace != self.id or not x.requires_grad if isinstance(x, SambaTensor) else True:
            return value
        value = lib.samba_variable(value)
        self.requiring[value.index] = True
        return value

    def number(self, number):
        """A Python number beside tensors: the library promotes it as torch does."""
        if isinstance(number, int) and not isinstance(number, bool):
            return lib.samba_integer(self.graph, number)
        dtype = torch.bool if isinstance(number, bool) else torch.get_default_dtype()
        held = lib.samba_constant(
            self.graph, float(number), dtype_number(torch.bool if isinstance(number, bool) else torch.float64), 0, ffi.NULL
        )
        return lib.samba_as_number(held, dtype_number(dtype))

    def operand(self, x):
        """A tensor's value, or a number's."""
        return self.value(x) if isinstance(x, torch.Tensor) else self.number(x)

    def is_buffer(self, x):
        """A buffer of the model that checkpoints have; a parameter that does not require a gradient is one to the device."""
        return id(x) in self.names and not (self.names[id(x)][2] and self.names[id(x)][1].requires_grad)

    def assign(self, buffer, value):
        """What a buffer holds from here on, and after the forward pass."""
        leaf = self.assigned[id(buffer)][0] if id(buffer) in self.assigned else self.value(buffer)
        self.assigned[id(buffer)] = (leaf, value)
        self.values[id(buffer)] = value

    def finish(self):
        """Writes down what the buffers become; the user's lines end here."""
        self.left.assign(self)
        self.line = None
        lib.samba_set_source(self.graph, ffi.NULL, 0)
        for identity, (leaf, value) in self.assigned.items():
            if not self.evaluates or identity not in self.counters:
                lib.samba_assign(leaf, lib.samba_where(self.trains(), value, leaf) if identity in self.counters else value)
        self.check()

    def drops(self):
        """Asked by what trains by itself, as dropout does: whether the graph has that. The module at work then follows each
        run."""
        if not self.evaluates:
            path = self.stack[-1] if self.stack else ""
            self.asked.follow(path, self.kinds.get(path, "function"))
        return not self.evaluates

    def trains(self):
        """A bool: whether the run trains."""
        return lib.samba_ne(lib.samba_training(self.graph), lib.samba_constant(self.graph, 0, DTYPES["float64"], 0, ffi.NULL))

    def prune(self):
        """Leaves in the graph what outputs, losses and buffers need, as a PEF carries it. Nothing can be traced from then on."""
        live = ffi.new("samba_graph **")
        self.context.check(lib.samba_graph_copy(self.graph, live))
        self.graph = self.context.owned(live[0], lib.samba_graph_free)

    def print(self, graph=None):
        """The text of the graph, or of a copy."""
        printed = ffi.new("char **")
        self.context.check(lib.samba_graph_print(graph or self.graph, printed))
        try:
            return text(printed[0])
        finally:
            lib.samba_text_free(self.context.c, printed[0])

    def difference(self, other):
        """'' where another trace, made in the same context, computes the same, else the first difference: `other` is 'the
        model'. Nothing can be traced by either from then on."""
        self.prune()
        other.prune()
        try:
            self.context.check(lib.samba_graph_compare(self.graph, other.graph))
        except StateError as error:
            return explained(str(error), self.print, other.print)
        return ""

    def compare(self, compiled, literals):
        """A StateError where the graph of that text, with the literals beside it, computes something else:
        the first difference, and where it stands in both."""
        parsed, live = ffi.new("samba_graph **"), ffi.new("samba_graph **")
        try:
            self.context.check(lib.samba_graph_parse_beside(self.context.c, compiled, len(literals), literals, parsed))
            self.context.check(lib.samba_graph_copy(self.graph, live))
            self.context.check(lib.samba_graph_compare(parsed[0], live[0]))
        except StateError as error:
            raise StateError(explained(str(error), lambda: self.print(parsed[0]), lambda: self.print(live[0]))) from None
        finally:
            lib.samba_graph_free(parsed[0])
            lib.samba_graph_free(live[0])

    def is_symbolic(self, args, kwargs):
        """Whether a tensor among them is known only when the graph runs."""
        for x in torch.utils._pytree.tree_leaves((args, kwargs)):
            if isinstance(x, SambaTensor):
                if x._complex:
                    if pairs.is_symbolic(self, x):
                        return True
                    continue
                if self.memories and x._held is not None and id(x) not in self.names:
                    settle(self, x)
                if x._value is not None or id(x) in self.names:
                    return True
        return False

    # ---- results ----

    def wrap(self, value):
        """A traced tensor of a value; raises what went wrong in the graph."""
        self.check()
        if self.grad is False and _TORCH_DTYPES[lib.samba_value_dtype(value)].is_floating_point:
            value = lib.samba_detach(value)
            self.without_gradient.add(value.index)
        shape = [lib.samba_value_size(value, d) for d in range(lib.samba_value_rank(value))]
        return from_value(value, shape, _TORCH_DTYPES[lib.samba_value_dtype(value)], self.id)

    def check(self):
        status = lib.samba_graph_status(self.graph)
        if status:
            raise_status(status, message(lib.samba_error_message(self.context.c)))  # it says the location that `mark` told

    # ---- where in the user's model ----

    def enter(self, module):
        """A module is called: what is traced from here on is of its path.
        One that the model does not have counts to its caller."""
        path = self.paths.get(id(module))
        if path is None:
            path = self.stack[-1] if self.stack else ""
        self.stack.append(path)
        lib.samba_set_module(self.graph, self._prefixed(path).encode(errors="replace"))
        if module in FUSIONS:
            lib.samba_op_fusion_push(self.graph, FUSIONS[module].encode(errors="replace"))

    def leave(self, module):
        """Its call has ended, in whatever way."""
        self.stack.pop()
        lib.samba_set_module(self.graph, self._prefixed(self.stack[-1]).encode(errors="replace") if self.stack else b"")
        if module in FUSIONS:
            lib.samba_op_fusion_pop(self.graph)

    def mark(self):
        """Tells the graph the user's line that is being traced."""
        frame, name = locations.users_frame(sys._getframe(1))
        line = (name, frame.f_lineno) if frame is not None else None
        if line != self.line:
            self.line = line
            lib.samba_set_source(self.graph, *(line or (ffi.NULL, 0)))

    def where(self, code=False):
        """' (in module a.b, model.py:12)' of the call being traced; with `code`, the line too."""
        return locations.describe(self._prefixed(self.stack[-1]) if self.stack else "", code)

    def _prefixed(self, path):
        """A module's path as people are told of it."""
        return (self.prefix + path).rstrip(".")

    def dropout_name(self):
        """What the hyperparameters of the dropout being traced begin with: its module's path; its number where it has none, or
        names are the legacy ones."""
        self.dropouts += 1
        path = "" if self.legacy_names or not self.stack else self.stack[-1]
        return path or f"dropout{self.dropouts - 1}"

    def refuse_values(self, what):
        """Tracing knows shapes, not values; rules/values.py says what to do instead."""
        instead = INSTEAD.get(what, INSTEAD["item()"])
        if what in SIZED:
            said = f"{SIZED[what]} has a size that depends on values, but tracing knows only shapes"
        else:
            said = f"{what} asks for the value of a tensor while the model is traced, when there are only shapes"
        raise UnsupportedError(f"{said}: {instead}{self.where(code=True)}")

    def _refuse_autocast(self):
        """torch casts what ATen operators are given, of which most are never called."""
        raise UnsupportedError(
            "torch.autocast is on while the model is traced: leave it out and compile with precision='bf16', which casts as "
            "it does, or call "
            f"to(torch.bfloat16) where that is meant{self.where()}"
        )

    # ---- what torch calls ----

    def function(self, func, args, kwargs):
        """A torch function: whole by a rule, else in ATen's parts. Below it autograd has nothing to do; whether the model's code
        stands in torch.no_grad() is looked at here."""
        if transforms.is_operator(func) and self.is_symbolic(args, kwargs):
            return transforms.operator(self, func, args, kwargs)
        outermost = self.grad is None
        if outermost and func.__class__ is types.FunctionType and func.__module__ == "torch.nn.init":
            with _Factories(), _inside(func):  # as the model's own code: it draws, and writes where autograd does not look
                return func(*args, **kwargs)
        if outermost:
            if torch.is_autocast_enabled("cpu") and self is _state.here.tracer:
                self._refuse_autocast()
            self.grad, self.called = torch.is_grad_enabled(), func
        try:
            with torch.no_grad():
                rule = (COMPLEX if pairs.meets(args, kwargs) else RULES).get(func)
                if rule is not None and self.is_symbolic(args, kwargs):
                    out = kwargs.pop("out", None) if kwargs else None
                    result = self._apply(rule, func, args, kwargs)
                    if result is not NotImplemented:
                        return result if out is None else self.into(out, result)
                if _is_written_in_python(func):
                    with _inside(func):
                        return func(*args, **kwargs)
                with torch._C.DisableTorchFunctionSubclass():
                    return func(*args, **kwargs)
        finally:
            if outermost:
                self.grad = self.called = None

    def draw(self, rule, args, kwargs):
        """Random numbers, by a rule that needs no traced tensor."""
        outermost = self.grad is None
        if outermost:
            self.grad = torch.is_grad_enabled()
        try:
            with torch.no_grad():
                self.mark()
                return rule(self, *args, **kwargs)
        finally:
            if outermost:
                self.grad = None

    def into(self, out, result):
        """What a function with `out` gives."""
        if isinstance(out, (tuple, list)):
            return type(result)([self.into(*pair) for pair in zip(out, result)])
        return in_place(self, out, result, True, takes_shape=True)

    def aten(self, func, args, kwargs):
        """An ATen operator: by a rule, or by torch's own decomposition."""
        if not self.is_symbolic(args, kwargs):
            return self._made_by(func, run_on_held(func, args, kwargs), args, kwargs)
        rules = COMPLEX if pairs.meets(args, kwargs) else RULES
        rule = rules.get(func) or rules.get(func.overloadpacket)
        if rule is not None:
            result = self._apply(rule, func, args, kwargs)
            if result is not NotImplemented:
                return result
        result = self._in_place(func, args, kwargs)
        if result is not NotImplemented:
            return result
        decomposed = torch._decomp.decomposition_table.get(func)
        if decomposed is not None:
            return decomposed(*args, **kwargs)
        result = func.decompose(*args, **kwargs)
        if result is NotImplemented:
            if pairs.meets(args, kwargs):
                pairs.refuse(self)
            called, part = func, ""
            if self.called is not None and not isinstance(self.called, torch._ops.OpOverloadPacket):
                called, short = torch.overrides.resolve_name(self.called) or self.called.__name__, self.called.__name__
                part = f" ({func})" if called != str(func) and not str(func).startswith(f"aten.{short}.") else ""
            raise UnsupportedError(
                f"{called}{part} has no operator here: compute it on the host, before the run, as an input, or after the run, "
                f"from an output{self.where()}"
            )
        return result

    def _made_by(self, func, result, args, kwargs):
        """Marks what an operator has made of tensors with values,
        unless it lies in the memory of one that the model has not made."""
        if func._schema.is_mutable:
            self.writes.update(
                {_storage(x) for x in torch.utils._pytree.tree_leaves((args, kwargs)) if isinstance(x, SambaTensor)}
            )
        outside = None
        for x in torch.utils._pytree.tree_leaves(result):
            if isinstance(x, SambaTensor) and x._trace is None:
                if outside is None:
                    given = [
                        y
                        for y in torch.utils._pytree.tree_leaves((args, kwargs))
                        if isinstance(y, torch.Tensor) and getattr(y, "_trace", None) != self.id
                    ]
                    outside = {_storage(y) for y in given}
                if _storage(x) not in outside:
                    self.made(x)
        drawn.follow(self, func, result, args, kwargs)
        return result

    def _in_place(self, func, args, kwargs):
        """An operator that writes into its first argument: the one that does not, then the write."""
        name = func._schema.name.removeprefix("aten::")
        if not name.endswith("_") or name.startswith("_") or not hasattr(torch.ops.aten, name[:-1]):
            return NotImplemented
        plain = getattr(torch.ops.aten, name[:-1])
        plain = getattr(plain, func._overloadname) if func._overloadname in plain.overloads() else plain
        return in_place(self, args[0], plain(*args, **kwargs), True)

    def _apply(self, rule, func, args, kwargs):
        self.mark()
        args, kwargs = as_rule(func, rule, args, kwargs)
        try:
            return rule(self, *args, **kwargs)
        except SambaError:
            raise
        except (TypeError, IndexError, ValueError) as error:
            refused = (
                ArgumentIndexError
                if isinstance(error, IndexError)
                else ArgumentTypeError
                if isinstance(error, TypeError)
                else ArgumentError
            )
            name = getattr(func, "__name__", str(func)).partition(".")[0]
            if name == "__get__":  # of a property
                name = func.__self__.__name__
            name = name if name.startswith("__") else name.removeprefix("_").removeprefix("fft_")  # torch.fft's
            raise refused(
                f"{name}: {isinstance(error, TypeError) and mismatch(rule, args, kwargs) or error}{self.where()}"
            ) from error


def _storage(x):
    """The address of the memory that values lie in; None where there is none."""
    held = getattr(x, "_held", x)
    return held.untyped_storage().data_ptr() if held is not None and held.layout is torch.strided else None


INSTEAD = {}  # what asks for values -> what to do instead
SIZED = {}  # of these, what has a size that depends on values -> how a message writes it
RANDOM = {}  # torch function of random numbers without a tensor among its arguments -> the same
RULES = {}  # torch function or ATen operator -> function(tracer, ...) with its signature
COMPLEX = {}  # the same where a complex tensor, number or dtype is among the arguments


def rule(*functions):
    """Decorator: this traces those torch functions and ATen operators."""

    def register(f):
        for function in functions:
            RULES[function] = f
        return f

    return register


def complex_rule(*functions):
    """Decorator: this traces those torch functions and ATen operators of complex numbers."""

    def register(f):
        for function in functions:
            COMPLEX[function] = f
        return f

    return register


# ---- torch functions that are written in Python ----

_CHECKS = ("has_torch_function", "has_torch_function_unary", "has_torch_function_variadic")


def _is_written_in_python(func):
    """Whether it begins by asking for __torch_function__, as those of torch.nn.functional do:
    then its body can be traced like a model's."""
    return isinstance(func, types.FunctionType) and any(
        name in _CHECKS and name in func.__globals__ for name in func.__code__.co_names
    )


_asking = {}  # id of such a function's globals -> the Patch of what it asks


def _answering(space):
    """The Patch of functions with these globals: the first question of a body that a thread has entered is answered with no."""

    def answer(real):
        def has(*args):
            if _state.here.unasked is space:
                _state.here.unasked = None
                return False
            return real(*args)

        return has

    def put(stack):
        for name in _CHECKS:
            if name in space:
                stack.enter_context(replaced(space, name, answer(space[name])))

    return _asking.setdefault(id(space), Patch(put))


@contextlib.contextmanager
def _inside(func):
    """Runs the body of a torch function on SambaTensors: its own question, the first, is answered with no."""
    space = func.__globals__ if any(name in func.__globals__ for name in _CHECKS) else vars(torch.overrides)
    before = _state.here.unasked
    with _asking.get(id(space)) or _answering(space):
        _state.here.unasked = space
        try:
            yield
        finally:
            _state.here.unasked = before


class _Factories(torch.overrides.TorchFunctionMode):
    """Tensors that a model makes become SambaTensors with values, so that it may write traced ones into them:
    of numbers alone, or copies."""

    COPIES = {
        torch.zeros_like,
        torch.ones_like,
        torch.full_like,
        torch.empty_like,
        torch.Tensor.new_zeros,
        torch.Tensor.new_ones,
        torch.Tensor.new_full,
        torch.Tensor.new_empty,
        torch.Tensor.new_tensor,
        torch.Tensor.new,
        torch.clone,
        torch.Tensor.clone,
        torch.tensor,
    }
    OVER = {torch.as_tensor, torch.asarray, torch.frombuffer, torch.from_file}  # memory that others may have

    def __torch_function__(self, func, types, args=(), kwargs=None):
        if func in RANDOM and _state.here.tracer is not None:
            result = _state.here.tracer.draw(RANDOM[func], args, kwargs or {})
            if result is not NotImplemented:
                return result
        result = func(*args, **(kwargs or {}))
        if (
            type(result) is not torch.Tensor
            or not self._makes(func, args, kwargs)
            or torch._C._functorch.peek_interpreter_stack() is not None
        ):
            return result  # inside torch.vmap everything is torch's: transformers' masks before version 5
        if not result.is_cpu or result.layout is not torch.strided:
            return result
        made = make_wrapper(SambaTensor, result, None, None) if result.is_complex() else SambaTensor(result)
        if _state.here.tracer is None:
            return made
        drawn.note(_state.here.tracer, made, func, args, kwargs or {})
        return _state.here.tracer.made(made)

    def _makes(self, func, args, kwargs):
        if func in self.OVER:
            return isinstance(args[0] if args else next(iter(kwargs.values())), (bool, int, float, list, tuple))
        return func in self.COPIES or not any(
            isinstance(x, torch.Tensor) for x in torch.utils._pytree.tree_leaves((args, kwargs or {}))
        )


# ---- what of torch is another in a thread that traces ----


def _float(x):
    """float() as torch's batch norm calls it for momentum=None, on the number of batches:
    while a model is traced that is a value."""
    tracer = _state.here.tracer
    return x.double() if tracer is not None and tracer.is_symbolic((x,), {}) else float(x)


def _synchronized(torchs):
    def forward(module, input):
        """SyncBatchNorm.forward while a model is traced: torch's own asks torch.distributed, and wants a GPU where that is begun.
        Replicas are those of a run."""
        tracer = _state.here.tracer
        if tracer is None:
            return torchs(module, input)
        group = module.process_group
        if group is not None and not (torch.distributed.is_initialized() and group == torch.distributed.group.WORLD):
            raise UnsupportedError(
                "SyncBatchNorm has a process_group, and a graph takes its statistics over all replicas: make it without one"
                f"{tracer.where()}"
            )
        module._check_non_zero_input_channels(input)
        before, tracer.synchronized = tracer.synchronized, module.training
        try:
            return torch.nn.modules.batchnorm._BatchNorm.forward(module, input)
        finally:
            tracer.synchronized = before

    return forward


def _converting(torchs):
    def _apply(module, fn, recurse=True):
        tracer = _state.here.tracer
        return torchs(module, fn, recurse) if tracer is None else tracer.left.convert(tracer, module, fn, recurse)

    return _apply


def _without_hooks(torchs):
    def _apply_on_tensors(hook, fn, tensors):  # see check_hooks
        return torchs(hook, fn, tensors) if _state.here.tracer is None else (tensors, None)

    return _apply_on_tensors


def _is_compiling():
    from sambaflow.samba import _state  # runs in torch.compiler

    return _state.here.tracer is not None or _is_compiling_flag  # noqa: F821


def _entered(module, _):
    if _state.here.tracer is not None:
        _state.here.tracer.enter(module)


def _left(module, _, __):
    if _state.here.tracer is not None:
        _state.here.tracer.leave(module)


def _uncompiled():
    """What torch.compile has made of functions and modules runs as it was written, while a model is traced:
    dynamo would trace the tracer."""
    stance = getattr(torch.compiler, "set_stance", None)
    return stance("force_eager") if stance is not None and "torch._dynamo" in sys.modules else contextlib.nullcontext()


def _put(stack):
    batch_norms, hooks = torch.nn.modules.batchnorm, torch.utils.hooks.BackwardHook
    distribution = torch.distributions.Distribution
    stack.callback(torch.nn.modules.module.register_module_forward_pre_hook(_entered).remove)
    stack.callback(torch.nn.modules.module.register_module_forward_hook(_left, always_call=True).remove)
    for owner, name, new in (
        # models then leave out shortcuts that ask for values; they may have imported it, and want a bool
        (torch.compiler.is_compiling, "__code__", _is_compiling.__code__),
        (distribution, "_validate_args", Flag(distribution._validate_args, False)),  # which looks at values
        (batch_norms, "float", _float),
        (torch.nn.SyncBatchNorm, "forward", _synchronized(torch.nn.SyncBatchNorm.forward)),
        (torch.nn.Module, "_apply", _converting(torch.nn.Module._apply)),
        (hooks, "_apply_on_tensors", _without_hooks(hooks._apply_on_tensors)),
    ):
        stack.enter_context(replaced(owner, name, new))
    for each in (transforms, functions, asked, experts, packed, attributes):
        each.put(stack)
    stack.enter_context(_uncompiled())


_OF_TORCH = Patch(_put)


@contextlib.contextmanager
def at_work(tracer):
    """Makes this the thread's tracer for what runs inside."""
    if _state.here.tracer is not None:
        raise SambaError("a model is being traced already: tracing does not nest")
    with _OF_TORCH:
        _state.here.tracer = tracer
        try:
            with torch.enable_grad(), _Factories(), Zeroed():
                yield tracer
                tracer.finish()
        finally:
            del _state.here.tracer
            tracer.left.restore(tracer)
