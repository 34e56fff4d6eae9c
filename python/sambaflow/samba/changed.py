# SPDX-License-Identifier: Apache-2.0
"""What a program changes on the host behind trace_graph. The device has the weights that it was sent and does what was compiled:
values that load_state_dict, `weight.data = ...` or torch.nn.init put on the host, requires_grad_(False), half(), a parameter that
is replaced, an optimizer's loaded state reach it by a further call alone, which PyTorch does not need. A run that goes on without
one says so, once for each kind and trace.

Looking at all parameters before each run would cost too much. So what may have changed one notes it as a doubt, and only a run
that finds doubts looks: whether the host's values are still those that were sent, fetched or set last.

>>> import tempfile, warnings
>>> import torch
>>> import sambaflow.samba as samba
>>> model, x, session = samba.from_torch_model_(torch.nn.Linear(3, 2)), samba.ones(4, 3, name="x"), samba.SambaSession()
>>> optim = samba.optim.SGD(model.parameters(), lr=0.1)
>>> with tempfile.TemporaryDirectory() as folder:
...     outputs = session.trace_graph(model, (x,), optim, pef=session.compile(model, (x,), optim, output_folder=folder))
>>> model.load_state_dict(torch.nn.Linear(3, 2).state_dict())
<All keys matched successfully>
>>> with warnings.catch_warnings(record=True) as said:
...     warnings.simplefilter("always")
...     y = session.run((x,), outputs)
>>> str(said[0].message).partition(": call")[0]
"run: 'weight' has other values on the host since it was sent to the device, which goes on with its own"
"""

import contextlib
import sys
import weakref

import torch
from torch.nn.modules.module import (
    register_module_buffer_registration_hook,
    register_module_module_registration_hook,
    register_module_parameter_registration_hook,
)

from sambaflow import launch
from sambaflow.errors import StateError
from sambaflow.samba import _state
from sambaflow.samba.locations import outside
from sambaflow.samba.patches import Patch

_sessions = weakref.WeakSet()  # that have traced something


def session_of(tensor):
    """The session that has traced a parameter last and has its device; None where none has."""
    session = _state.session if tensor._session is None else tensor._session()
    if session is None or session._device is None or _state.here.tracer is not None or not session._owned.has(tensor):
        return None
    return session


def doubt(tensor):
    """A parameter or buffer may have changed on the host."""
    session = session_of(tensor)
    if session is not None:
        session._doubts[id(tensor)] = tensor


def doubt_written(args):
    """The same of those that an ATen operator writes into."""
    for x in args:
        kind = x.__class__
        if kind is list or kind is tuple:
            doubt_written(x)
        elif hasattr(x, "_session") and (session := session_of(x)) is not None:  # a SambaTensor
            session._doubts[id(x)] = x
            session._owned.written.add(id(x))


def doubt_first(_, args, kwargs):
    """The same of the tensor that a torch function was called with."""
    doubt_written(args[:1] or list(kwargs.values())[:1])


def read(tensor):
    """A program computes on the host with a parameter or buffer, an average of weights for one, or copies it: says so where the
    device has trained it and nobody has fetched it."""
    session = session_of(tensor)
    if session is None or session._owned.is_fresh(tensor) or not _STALE.isdisjoint(session._owned.told) or not _by_program():
        return
    name = None
    with contextlib.suppress(StateError):  # another thread runs the device meanwhile
        name = session._owned.left(session, [tensor], buffers=True)
    if name:
        session._owned.told.add("read")
        launch.warn(
            f"{name!r} is read on the host, which has its values from before the device trained: call "
            "samba.session.to_cpu(model) first, in each step where each step reads weights",
            UserWarning,
            stacklevel=outside(),
        )


def read_among(args):
    """The same of what an ATen operator reads."""
    for x in args:
        kind = x.__class__
        if kind is list or kind is tuple:
            read_among(x)
        elif hasattr(x, "_session"):
            read(x)


_STALE = frozenset(("read", "forward", "state_dict"))  # of which one is said
_BETWEEN = tuple(f"sambaflow.samba.{name}" for name in ("sambatensor", "eager", "changed", "copies", "torch_methods"))


def _by_program():
    """Whether it is not this package that reads."""
    frame = sys._getframe(2)
    while frame is not None:
        name = frame.f_globals.get("__name__", "")
        if name not in _BETWEEN and name != "copy" and name.partition(".")[0] != "torch":
            return not name.startswith("sambaflow.")
        frame = frame.f_back
    return False


def handed_out(tensor):
    """Who has the memory of a parameter or buffer reads it, or writes to it."""
    doubt(tensor)
    read(tensor)


def asked_for_grad(tensor):
    """A program, or torch's clipping, reads the gradient of a parameter that has none on the host: says so if the device trains
    it, whose gradients are there."""
    session = session_of(tensor)
    if session is None or "grad" in session._owned.told:
        return
    name = sys._getframe(2).f_globals.get("__name__", "")
    if name.startswith(("sambaflow.", "torch.", "copy")) and name != "torch.nn.utils.clip_grad":
        return
    trained = None
    with contextlib.suppress(StateError):  # another thread runs the device meanwhile
        trained = session._owned.left(session, [tensor])
    if trained:
        session._owned.told.add("grad")
        launch.warn(
            f"grad of {trained!r} is None on the host, since the device trains it: weight.sn_grad is a copy of the device's, "
            "samba.session.to_cpu(model) fetches all; to clip them, give the optimizer of samba.optim a max_grad_norm",
            UserWarning,
            stacklevel=3,
        )


class Loaded:
    """A hook behind load_state_dict of an optimizer that a session was traced with."""

    __torch_unserializable__ = True  # torch.save leaves it out without a word

    def __init__(self, session):
        self._session = weakref.ref(session)

    def __call__(self, optimizer):
        session = self._session()
        if session is not None and session._device is not None and any(optimizer.state.values()):
            session._doubts[optimizer] = optimizer


def _registered(module, key, new):
    """A parameter, or a module, takes a name in a module."""
    is_parameter = isinstance(new, torch.nn.Parameter)
    old = (module._parameters if is_parameter else module._modules).get(key)
    if old is new or _state.here.tracer is not None:
        return
    for session in tuple(_sessions):
        if session._device is not None and session._owned.has_module(module):
            if is_parameter or session._owned.has_module(old):
                session._doubts[module, key] = new


def _buffered(module, key, new):
    """A tensor takes the name of a buffer. A forward pass on the host makes counts anew, so its values tell."""
    old = module._buffers.get(key)
    if old is not new and isinstance(old, torch.Tensor) and _state.here.tracer is None:
        for session in tuple(_sessions):
            if session._device is not None and session._owned.has(old):
                session._doubts[module, key, "buffer"] = old, new


def _put(stack):
    stack.callback(register_module_buffer_registration_hook(_buffered).remove)
    stack.callback(register_module_parameter_registration_hook(_registered).remove)
    stack.callback(register_module_module_registration_hook(_registered).remove)


_REGISTERING = Patch(_put)


class Watch:
    """torch's hooks are there while a session holds one."""

    def __init__(self):
        _REGISTERING.while_alive(self)


def watch(session):
    """From here on modules that a session has traced note what replaces their parameters."""
    session._doubts.clear()
    session._watch = session._watch or Watch()
    _sessions.add(session)


# ---- what a run says of them ----


def _of_tensor(session, tensor):
    """(kind, sentence) of a parameter; None where nothing is wrong with it."""
    if not session._owned.has(tensor) or not session.has(name := session._owned.name_of(tensor)):
        return None
    trained, dtype = session._owned.stood(tensor)
    if tensor.dtype != dtype:
        return "dtype", (
            f"{name!r} has become {tensor.dtype} on the host, and the device goes on in {dtype}: convert the model before "
            "compile, or give compile precision='bf16'"
        )
    if tensor.requires_grad != trained and "BCKWD" in session._device.section_types:
        return "requires_grad", (
            f"{name!r} has requires_grad={tensor.requires_grad} since it was traced, and the device "
            f"{'trains it' if trained else 'leaves it as it is'}, as it was compiled: compile and trace the model as it is now"
        )
    if session._owned.changed(tensor) or session._owned.is_written(session, tensor):
        return "values", (
            f"{name!r} has other values on the host since it was sent to the device, which goes on with its own: "
            "call samba.session.to_rdu(model) to send them, or samba.session.to_cpu(model) to fetch the device's"
        )
    return None


def _of_buffer(session, key, old, new):
    name = session._owned.name_of(old)
    if not isinstance(new, torch.Tensor) or not session.has(name) or not session._owned.differs(old, new):
        return None
    return "values", (
        f"{key[1]!r} of {type(key[0]).__name__} was given other values on the host since it was traced, and the device goes on "
        f"with its own {name!r}: call samba.session.to_rdu(model) to send them"
    )


def _of_other(key, new):
    if isinstance(new, torch.optim.Optimizer):
        return "state", (
            f"load_state_dict has given {type(new).__name__} another state on the host, and the device goes on with its own: "
            "call samba.session.to_rdu(model, optimizer) to send it"
        )
    return "replaced", (
        f"{key[1]!r} of {type(key[0]).__name__} was replaced after the trace, and the device still uses the old one: "
        "convert (samba.from_torch_model_), compile and trace the model again; to change values only, load_state_dict without "
        "assign=True and samba.session.to_rdu(model)"
    )


def tell_no_grad(session, section_types):
    """Warns of a run that trains inside torch.no_grad(), where PyTorch would not."""
    told, kinds = session._owned.told, [kind.upper() for kind in section_types or session._device.section_types]
    if "OPT" in kinds and "no_grad" not in told:
        told.add("no_grad")
        launch.warn(
            "run: it takes a step of the optimizer, which torch.no_grad() does not prevent: section_types=['FWD'] is a run that "
            "does not train",
            UserWarning,
            stacklevel=2,
        )


def _is_buffer(key):
    return isinstance(key, tuple) and len(key) == 3


def forget_buffers(session):
    """The values of a model were sent: those of buffers in others' places, too."""
    for key in [key for key in session._doubts if _is_buffer(key)]:
        del session._doubts[key]


def tell(session):
    """Warns of the doubts of a session that are right, and has none any more."""
    doubts, told = dict(session._doubts), session._owned.told
    session._doubts.clear()
    for key, x in doubts.items():
        if isinstance(key, int):
            said = _of_tensor(session, x)
        else:
            said = _of_buffer(session, key, *x) if _is_buffer(key) else _of_other(key, x)
        if said is not None and said[0] not in told:
            told.add(said[0])
            launch.warn(f"run: {said[1]}", UserWarning, stacklevel=2)
