# SPDX-License-Identifier: Apache-2.0
"""What a model's modules keep beside tensors, `self.alpha`, a norm's `eps`, a function, `self.config`, is constant in the graph:
a program that sets it between runs changes nothing on the device. While a model is traced its modules note what forward reads of
them; runs look at some of them in turn, at all within sixteen runs, and tell of one that has changed. Numbers, strings and
functions are looked at, containers and configurations of these, and tensors that are no buffers; globals and closures are not.

>>> import tempfile, warnings
>>> import torch
>>> import sambaflow.samba as samba
>>> class Scaled(torch.nn.Module):
...     def __init__(self):
...         super().__init__()
...         self.beta = 0.5
...
...     def forward(self, x):
...         return 2 * x + self.beta
>>> model, x, session = samba.from_torch_model_(Scaled()), samba.ones(4, 3, name="x"), samba.SambaSession()
>>> with tempfile.TemporaryDirectory() as folder:
...     pef = session.compile(model, (x,), inference=True, output_folder=folder)
...     outputs = session.trace_graph(model, (x,), pef=pef)
>>> model.beta = 0.75
>>> with warnings.catch_warnings(record=True) as said:
...     warnings.simplefilter("always")
...     y = session.run((x,), outputs)
>>> str(said[0].message).partition(",")[0]
"run: 'beta' of the model was changed to 0.75 after the trace"
"""

import builtins
import functools
import types
import weakref

import torch

from sambaflow import launch
from sambaflow.samba import _state
from sambaflow.samba.patches import replaced

_PLAIN = frozenset((bool, int, float, str, type(None), torch.dtype))
_CALLED = (types.FunctionType, types.BuiltinFunctionType, types.MethodType, functools.partial, type)
_EACH = 16  # a run looks at that part of the modules, at one at least
_MOST = 256  # elements of a container or configuration that is looked at
_OF_TORCH = frozenset(dir(torch.nn.Module)) | frozenset(vars(torch.nn.Module()))
_OTHERS = frozenset(("torch", "sambaflow", "numpy", builtins.__name__))  # packages whose objects are no configuration
_GONE = object()


def state_of(value):
    """{what stands behind the attribute's name: what of it is compared} of a value; None of one that nobody looks at."""
    kind = value.__class__
    if kind in _PLAIN or isinstance(value, _CALLED):
        return {"": value}
    if kind is torch.Tensor:
        return {"": (value, value._version)} if not value.is_inference() else None
    if kind in (list, tuple):
        items = enumerate(value)
    elif kind is dict:
        items = value.items()
    elif isinstance(value, torch.nn.Module) or kind.__module__.partition(".")[0] in _OTHERS:
        return None
    else:
        own = getattr(value, "__dict__", None)
        return None if own is None or len(own) > _MOST else {f".{key}": x for key, x in own.items() if x.__class__ in _PLAIN}
    if len(value) > _MOST:
        return None
    return {f"[{key!r}]": x for key, x in items if x.__class__ in _PLAIN or isinstance(x, _CALLED)}


def differs(before, now):
    """(what stands behind the attribute's name, its value before and now) of the first difference of two such states; None."""
    for key in (*before, *(key for key in now if key not in before)):
        a, b = before.get(key, _GONE), now.get(key, _GONE)
        if a is b:
            continue
        if a.__class__ is tuple and a[0].__class__ is torch.Tensor:
            if b.__class__ is not tuple or a[0] is not b[0] or a[1] != b[1]:
                return key, _GONE, _GONE
        elif a.__class__ is not b.__class__ or isinstance(a, torch.Tensor) or a != b:
            return key, a, b
    return None


def _noting(module, name):
    """An attribute of a module; the tracer of this thread notes what it is."""
    value = object.__getattribute__(module, name)
    tracer = _state.here.tracer
    if tracer is not None and name not in _OF_TORCH:
        read = tracer.attributes.get(id(module))
        if read is None:
            read = tracer.attributes[id(module)] = module, {}
        if name not in read[1]:
            bound = value.__class__ is types.MethodType and value.__self__ is module
            read[1][name] = None if bound else state_of(value)
    return value


NOTING = _noting.__code__


class Attributes:
    """Of a session: what forward has read when its models were traced."""

    def __init__(self):
        self.modules = []  # (weak reference, path, {attribute: its state})
        self._next = 0
        self._told = set()

    def add(self, tracer, model):
        """What a tracer has noted. What forward itself sets, a counter, is left out."""
        paths = {id(part): path for path, part in model.named_modules()}
        for module, read in tracer.attributes.values():
            known = {}
            for name, state in read.items():
                now = state and state_of(getattr(module, name, None))
                if now and not differs(state, now):
                    known[name] = state
            if known:
                self.modules.append((weakref.ref(module), paths.get(id(module), ""), known))

    def look(self, device):
        """Warns of what has changed in the next modules. `device` runs the PEF."""
        for _ in range(1 + (len(self.modules) - 1) // _EACH):
            self._next = (self._next + 1) % len(self.modules)
            reference, path, known = self.modules[self._next]
            module = reference()
            for name, before in () if module is None else known.items():
                found = differs(before, state_of(getattr(module, name, None)) or {})
                if found is not None:
                    del known[name]
                    self._tell(path, name, *found, device.hyperparameters)
                    break

    def _tell(self, path, name, behind, before, now, hyperparameters):
        if name + behind in self._told:
            return
        self._told.add(name + behind)
        argin, whose = f"{path}.{name}" if path else name, repr(path) if path else "the model"
        cure = (
            f"give run hyperparam_dict={{{argin!r}: {now!r}}}"
            if argin in hyperparameters
            else "make it an input of the model, or compile and trace the model as it is now"
        )
        launch.warn(f"run: {name + behind!r} of {whose} {_change(before, now)}: {cure}", UserWarning, stacklevel=2)


def _change(before, now):
    """What has happened to an attribute."""
    if before.__class__ in _PLAIN and now.__class__ in _PLAIN:
        return f"was changed to {now!r:.60} after the trace, but the device still uses {before!r:.60}"
    what = "replaced" if before is not _GONE or now is not _GONE else "given other values"
    return f"was {what} after the trace, but the device still uses what it was then"


def put(stack):
    """Modules note it, while somebody traces."""
    stack.enter_context(replaced(torch.nn.Module, "__getattribute__", _noting))


# ---- graphs of one module ----


def taken(model):
    """{(id of a module, attribute): its state} of a model: what it is when a graph is made of it."""
    return {
        (id(part), name): state
        for part in model.modules()
        for name, value in vars(part).items()
        if name not in _OF_TORCH and (state := state_of(value))
    }


def unlike(tracer, graph, others):
    """(another graph, the attribute, what stands behind it, its value when this graph was made and when that was) of graphs of
    one module that were made with other values of what forward reads, and are traced with one of them; None."""
    for other in others:
        if other is graph or other.model is not graph.model:
            continue
        for module, read in tracer.attributes.values():
            for name in read:
                mine, its = graph.attributes.get((id(module), name)), other.attributes.get((id(module), name))
                found = differs(mine, its) if mine and its else None
                if found is not None:
                    return other, name, *found
    return None
