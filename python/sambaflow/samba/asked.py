# SPDX-License-Identifier: Apache-2.0
"""Which modules' modes a forward pass asked for while it was traced, and where dropout or a batch's statistics came of it: those
parts follow what each run says. While a model is traced `torch.nn.Module.training` is a property that notes who reads it; modules
keep their modes where torch has them.

>>> from sambaflow.samba.trace import Tracer, at_work
>>> layer = torch.nn.Dropout(0.5)
>>> tracer = Tracer("one", [("drop", layer)])
>>> with at_work(tracer):
...     out = layer(torch.ones(2))
>>> [(path, mode.stood, mode.own) for path, mode in tracer.asked.modes.items()], "training" in vars(torch.nn.Module)
([('drop', True, False)], False)
"""

import dataclasses
import os
import sys
import typing

import torch

from sambaflow.samba import _state
from sambaflow.samba.attributes import NOTING as _NOTING
from sambaflow.samba.patches import replaced

# Layers of torch whose whole use of their mode is what rules of tracing know: dropout, and statistics.
_LAYERS = ("activation", "batchnorm", "dropout", "instancenorm", "rnn", "transformer")
_FILES = {os.path.join(os.path.dirname(os.path.abspath(torch.nn.modules.__file__)), f"{name}.py") for name in _LAYERS}
_FILES.add(os.path.join(os.path.dirname(os.path.abspath(__file__)), "trace.py"))
_FILES.add(os.path.join(os.path.dirname(os.path.abspath(__file__)), "onnx_module.py"))


@dataclasses.dataclass
class Mode:
    """That of a module."""

    module: typing.Any
    stood: bool  # in train() when it was first asked for
    own: bool  # whether code asked that is not a layer of torch


class Asked:
    """Of one trace, of modules with these paths, by their ids."""

    def __init__(self, paths):
        self.paths = paths
        self.modes = {}  # path -> Mode
        self.follows = {}  # path of a module whose dropout or statistics a run decides -> its class's name
        self.unasked = False  # whether one such module did not ask for its mode: F.dropout(x, training=True)

    def follow(self, path, kind):
        """The innermost module at work, of that path, drops or takes statistics in runs that train."""
        self.follows[path] = kind
        self.unasked = self.unasked or path not in self.modes

    def note(self, module, file):
        """Code of that file asks for the module's mode."""
        path = self.paths.get(id(module))
        if path is not None:
            own = os.path.abspath(file) not in _FILES
            mode = self.modes.setdefault(path, Mode(module, vars(module)["training"], own))
            mode.own = mode.own or own


def _get(module):
    try:
        mode = vars(module)["training"]
    except KeyError:
        raise AttributeError(f"{type(module).__name__!r} object has no attribute 'training'") from None
    if _state.here.tracer is not None:
        frame = sys._getframe(1)
        if frame.f_code is _NOTING:  # that of attributes.py, which stands between
            frame = frame.f_back
        _state.here.tracer.asked.note(module, frame.f_code.co_filename)
    return mode


def _put(module, mode):
    vars(module)["training"] = mode


def _drop(module):
    del vars(module)["training"]


def put(stack):
    """While a model is traced."""
    stack.enter_context(replaced(torch.nn.Module, "training", property(_get, _put, _drop)))
