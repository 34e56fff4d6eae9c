# SPDX-License-Identifier: Apache-2.0
"""Numbers that a model's modules keep as attributes, `self.alpha` or a norm's `eps`, are constants of the graph: a program that
sets one between runs changes nothing on the device. While a model is traced its modules note which numbers, flags and strings
forward reads of them; runs look at some of them in turn, at all within sixteen runs, and tell of one that has changed.

>>> import tempfile, warnings
>>> import torch
>>> import sambaflow.samba as samba
>>> class Scaled(torch.nn.Module):
...     alpha = 1.0
...
...     def __init__(self):
...         super().__init__()
...         self.beta = 0.5
...
...     def forward(self, x):
...         return self.alpha * x + self.beta
>>> model, x, session = samba.from_torch_model_(Scaled()), samba.ones(4, 3, name="x"), samba.SambaSession()
>>> with tempfile.TemporaryDirectory() as folder:
...     outputs = session.trace_graph(model, (x,), pef=session.compile(model, (x,), output_folder=folder))
>>> model.beta = 0.75
>>> with warnings.catch_warnings(record=True) as said:
...     warnings.simplefilter("always")
...     y = session.run((x,), outputs)
>>> str(said[0].message).partition(",")[0]
"run: 'beta' of the model was changed to 0.75 after the trace"
"""

import weakref

import torch

from sambaflow import launch
from sambaflow.samba import _state
from sambaflow.samba.patches import replaced

_PLAIN = frozenset((bool, int, float, str))
_EACH = 16  # a run looks at that part of the modules, at one at least


def _noting(module, name):
    """An attribute of a module; the tracer of this thread notes its own numbers."""
    value = object.__getattribute__(module, name)
    tracer = _state.here.tracer
    if tracer is not None and value.__class__ in _PLAIN and name != "training":
        own = object.__getattribute__(module, "__dict__")
        if name in own:
            tracer.attributes.setdefault(id(module), (module, {}))[1].setdefault(name, value)
    return value


class Attributes:
    """Of a session: what forward has read when its models were traced."""

    def __init__(self):
        self.modules = []  # (weak reference, path, {attribute: value})
        self._next = 0
        self._told = set()

    def add(self, tracer, model):
        """What a tracer has noted. What forward itself sets, a counter, is left out."""
        paths = {id(part): path for path, part in model.named_modules()}
        for module, read in tracer.attributes.values():
            own = module.__dict__
            known = {name: value for name, value in read.items() if own.get(name) is value}
            if known:
                self.modules.append((weakref.ref(module), paths.get(id(module), ""), known))

    def look(self, hyperparameters):
        """Warns of what has changed in the next modules. `hyperparameters` are names of the device's."""
        for _ in range(1 + (len(self.modules) - 1) // _EACH):
            self._next = (self._next + 1) % len(self.modules)
            reference, path, known = self.modules[self._next]
            own = getattr(reference(), "__dict__", known)
            for name, value in known.items():
                now = own.get(name, value)
                if now is not value and (now.__class__ is not value.__class__ or now != value):
                    del known[name]
                    self._tell(path, name, value, now, hyperparameters)
                    break

    def _tell(self, path, name, value, now, hyperparameters):
        if name in self._told:
            return
        self._told.add(name)
        argin = f"{path}.{name}" if path else name
        cure = (
            f"give run hyperparam_dict={{{argin!r}: {now!r}}}"
            if argin in hyperparameters
            else "make it an input of the model, or compile and trace the model as it is now"
        )
        launch.warn(
            f"run: {name!r} of {repr(path) if path else 'the model'} was changed to {now!r:.60} after the trace, but the device "
            f"still uses {value!r:.60}: {cure}",
            UserWarning,
            stacklevel=2,
        )


def put(stack):
    """Modules note it, while somebody traces."""
    stack.enter_context(replaced(torch.nn.Module, "__getattribute__", _noting))
