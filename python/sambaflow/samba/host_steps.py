# SPDX-License-Identifier: Apache-2.0
"""Where a loop of PyTorch goes on as before around a model that the device trains: `optim.step()` would find no gradient and do
nothing, `loss.backward()` of what a run gave has nothing to go back through. Both say what the device has in their place. A
model that was traced may still train on the host: gradients of the host's are stepped by as ever.

The device does the steps, so torch's schedulers need not be told of them by a `step` of the optimizer. What a scheduler does to
the learning rate is seen by a run that is given it as a hyperparameter; a loop that never gives it is told so, once.

`model.state_dict()` and `model(x)` have the host's values. Where the device has trained and nobody has fetched, they are those
from before.

>>> import tempfile
>>> import torch
>>> import sambaflow.samba as samba
>>> model, x = samba.from_torch_model_(torch.nn.Linear(3, 2)), samba.ones(4, 3, name="x")
>>> optim, session = samba.optim.SGD(model.parameters(), lr=0.1), samba.SambaSession()
>>> optim.step()  # nothing is traced: as in torch, without gradients it does nothing
>>> with tempfile.TemporaryDirectory() as folder:
...     outputs = session.trace_graph(model, (x,), optim, pef=session.compile(model, (x,), optim, output_folder=folder))
>>> try:
...     optim.step()
... except RuntimeError as error:
...     print(type(error).__name__)
StateError
"""

import contextlib
import weakref

from sambaflow import errors, launch
from sambaflow.samba import _state
from sambaflow.samba.changed import Loaded


class Watched:
    """A hook before each step of an optimizer whose parameters a session's device trains."""

    __torch_unserializable__ = True  # torch.save leaves it out without a word

    def __init__(self, session):
        self._session = weakref.ref(session)

    def __call__(self, optimizer, args, kwargs):
        parameters = [p for group in optimizer.param_groups for p in group["params"]]
        session = self._session()
        closure = any(x is not None for x in (*args[1:], *kwargs.values()))
        if session is None or closure or any(p.grad is not None for p in parameters):
            return
        trained = list(session._on_device(parameters))
        if trained:
            raise errors.StateError(
                f"remove optim.step() and zero_grad(): the device trains {trained[0]!r}, so the optimizer "
                f"{type(optimizer).__name__} has no gradient on the host. session.run(inputs, outputs) includes the step; "
                "session.run(section_types=['OPT']) does it alone"
            )


class Stale:
    """A hook before `state_dict` of a model that a session's device trains. A copy of the model has none."""

    def __init__(self, session=None):
        self._session = session and weakref.ref(session)
        self._owned = session and session._owned

    def __reduce__(self):
        return Stale, ()

    def __call__(self, model, prefix, keep_vars):
        session, name = self._session and self._session(), None
        if keep_vars:  # the tensors themselves, as tracing asks for
            return
        if self._owned is not None and (lost := self._owned.is_lost()):
            launch.warn(
                f"state_dict of {type(model).__name__}: the device had trained {lost!r} when the session was reset, and the host "
                "has values from before: call samba.session.to_cpu(model) before samba.session.reset()",
                UserWarning,
            )
        elif session is not None and session.is_loaded and _state.here.tracer is None:
            with contextlib.suppress(errors.StateError):  # another thread runs it meanwhile
                name = session._owned.left(session, model.parameters())
        if name:
            session._owned.told.add("state_dict")
            launch.warn(
                f"state_dict of {type(model).__name__}: the device has trained {name!r}, and the host has values from before: "
                "call samba.session.to_cpu(model) first, or samba.session.save(path) in place of torch.save",
                UserWarning,
            )


class StaleForward:
    """A hook before forward, on the host, of a model that a session's device trains: says once that it computes with weights from
    before. A copy of the model has none."""

    def __init__(self, session=None):
        self._session = session and weakref.ref(session)

    def __reduce__(self):
        return StaleForward, ()

    def __call__(self, model, args):
        session, name = self._session and self._session(), None
        if session is None or not session.is_loaded or _state.here.tracer is not None or "forward" in session._owned.told:
            return
        parameters = [p for p in model.parameters() if p.requires_grad and session._owned.has(p)]
        smallest = sorted(parameters, key=lambda p: p.numel())[:1]  # which stands for all: each call looks
        with contextlib.suppress(errors.StateError):  # another thread runs it meanwhile
            name = session._owned.left(session, smallest)
        if name:
            session._owned.told.add("forward")
            launch.warn(
                f"{type(model).__name__} is called on the host, where {name!r} has values from before the device trained it: "
                "call samba.session.to_cpu(model) first, or run it on the device, "
                "samba.session.run(inputs, outputs, section_types=['FWD'])",
                UserWarning,
            )


def watch(session, optimizers, model=None):
    """Has optimizers, and the model, that a session was traced with say so."""
    if optimizers and model is not None:
        for key in [key for key, hook in model._forward_pre_hooks.items() if isinstance(hook, StaleForward)]:
            del model._forward_pre_hooks[key]
        model.register_forward_pre_hook(StaleForward(session))
        for key in [key for key, hook in model._state_dict_pre_hooks.items() if isinstance(hook, Stale)]:
            del model._state_dict_pre_hooks[key]
        model.register_state_dict_pre_hook(Stale(session))
    for optimizer in optimizers:
        loading = optimizer._optimizer_load_state_dict_post_hooks
        for key in [key for key, hook in loading.items() if isinstance(hook, Loaded)]:
            del loading[key]
        optimizer.register_load_state_dict_post_hook(Loaded(session))
        hooks = optimizer._optimizer_step_pre_hooks
        for key in [key for key, hook in hooks.items() if isinstance(hook, Watched)]:
            del hooks[key]
        optimizer.register_step_pre_hook(Watched(session))
        optimizer._opt_called = True  # by which a scheduler knows that steps come before its own
    alone = session._optimizers is None  # several graphs: some of them have no steps
    session._rates = [(each.param_groups, [dict(group) for group in each.param_groups]) for each in optimizers] if alone else ()


def checked(rates, hyperparameters, section_types, section_ids, device):
    """What further runs have to check, (an optimizer's groups, themselves when they were traced): nothing once a run was given
    hyperparameters, by which the loop says its rates, or once it was warned of a step by other ones than the host's. `device`
    runs the PEF."""
    if hyperparameters:
        return ()
    if section_ids or (section_types and "OPT" not in map(str.upper, section_types)):
        return rates
    for groups, traced in rates:
        if groups != traced and (sentence := _difference(groups, traced, device)):
            launch.warn(f"run: {sentence}", UserWarning)
            return ()
    return rates


def _difference(groups, traced, device):
    """How an optimizer's groups differ from those that were traced; None where they do not."""
    if len(groups) != len(traced):
        return (
            f"the optimizer has {len(groups)} groups of parameters on the host, and the device trains the {len(traced)} that it "
            "had when it was traced: call add_param_group before compile"
        )
    for group, before in zip(groups, traced):
        if group.get("lr") != before.get("lr"):
            return (
                f"the optimizer's learning rate, lr, was changed to {float(group['lr']):g} on the host, but the device still "
                f"uses {float(before['lr']):g}, its value at the trace: give each run hyperparam_dict={{'lr': "
                "scheduler.get_last_lr()[0]}, after scheduler.step() too"
            )
        for name, was in before.items():
            if name != "params" and name in group and group[name] is not was and group[name] != was:
                return (
                    f"the optimizer's {name} was changed to {group[name]!r:.60} on the host, but the device still uses "
                    f"{was!r:.60}, its value at the trace: {_as_hyperparameter(name, group[name], device.hyperparameters)}"
                )
        before.update(group)  # what a scheduler notes for itself
    return None


def _as_hyperparameter(name, value, known):
    """How runs are given what the optimizer has."""
    words = dict(zip(("beta1", "beta2"), value)) if name == "betas" else {name: value}
    if all(word in known for word in words):
        return f"give run hyperparam_dict={words!r:.100}"
    full = [each for each in known if each.rpartition(".")[2] in words]
    if full:
        return f"give run hyperparam_dict with the value of each group that changed, of {', '.join(full[:4])}"
    return "a run cannot change it, so compile and trace again"


def others(optimizer):
    """The program's own hooks of an optimizer's step."""
    before = [hook for hook in optimizer._optimizer_step_pre_hooks.values() if not isinstance(hook, Watched)]
    return before + list(optimizer._optimizer_step_post_hooks.values())


def refuse_backward(tensor):
    """Of a tensor that a run gave."""
    raise errors.StateError(
        f"backward() cannot start at {tensor.sn_name!r}, which the device computed: remove the call; session.run(inputs, "
        "outputs) does backward and step. For gradients alone use section_types=['FWD', 'BCKWD'] and a parameter's sn_grad; to "
        "go on in torch from this output, samba.to_torch(x).requires_grad_(), whose gradient is grad_of_outputs of a run of BCKWD"
    )


def refuse_values(tensor):
    """Of a tensor without any: what trace_graph gave stands for results of runs."""
    if tensor._pef is not None:
        raise errors.StateError(
            f"output {tensor.sn_name!r} of trace_graph stands for results and has no values: take those that "
            "session.run(inputs, outputs) returns"
        )
    raise errors.StateError(
        f"tensor {tensor.sn_name!r} of shape {tuple(tensor.shape)} has no values and no materializer to make some: "
        f"samba.from_torch_tensor(values, name={tensor.sn_name!r}) makes a tensor with values"
    )
