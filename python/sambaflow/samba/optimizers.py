# SPDX-License-Identifier: Apache-2.0
"""Optimizers of torch as the library has them: one a parameter group that trains something. Compiling fixes their kind,
Nesterov's momentum, amsgrad, maximize and whether gradients are clipped; all numbers are hyperparameters of the PEF, which take
their values from the optimizers that trace_graph is given, and from runs."""

import difflib

import torch

from sambaflow import errors
from sambaflow._core import ffi, lib
from sambaflow.samba import host_steps, optim
from sambaflow.samba.optimizer_facts import FACTS
from sambaflow.words import array_of

SHAPED = tuple(
    dict.fromkeys(state.name for facts in FACTS.values() for state in facts.states if state.of_parameter)
)  # state of a parameter's shape
TOTALS = tuple(
    dict.fromkeys(state.name for facts in FACTS.values() for state in facts.states if not state.of_parameter)
)  # one number of an optimizer
IDLE = {state.name for facts in FACTS.values() for state in facts.states if state.idle}  # steps may leave it alone


def _facts(optimizer):
    """Its row of the library's table; None where it has none."""
    for kind in type(optimizer).__mro__:  # AdamW of torch is an Adam
        facts = FACTS.get(kind.__name__)
        if facts is not None and kind in (getattr(optim, facts.title), getattr(torch.optim, facts.title, None)):
            return facts
    return None


def _value(group, name):
    """A number of a group: C has beta1 and beta2 where torch has betas."""
    return group["betas"][int(name[-1]) - 1] if name in ("beta1", "beta2") else group[name]


def _check(optimizer):
    """Refuses what the library does not do: another kind, a step or hooks of the program's own."""
    kind = type(optimizer)
    if _facts(optimizer) is None:
        raise errors.UnsupportedError(
            f"optimizer {kind.__name__}: the device has none of that kind; it has {', '.join(f.title for f in FACTS.values())}, "
            "of samba.optim or torch.optim"
        )
    if not (getattr(kind.step, "__module__", None) or "").startswith(("torch.optim.", "sambaflow.samba.optim")):
        raise errors.UnsupportedError(
            f"optimizer {kind.__name__} has a step of its own, which the device cannot call: give one of samba.optim, or "
            "the one of torch.optim that has the same name"
        )
    if host_steps.others(optimizer):
        raise errors.UnsupportedError(
            f"optimizer {kind.__name__} has a hook of register_step_pre_hook or register_step_post_hook, which the device "
            "cannot call: remove "
            "it by its handle; parameters can be changed by sn_data between runs"
        )


def check_owned(call, tracer, optimizers, others=()):
    """Refuses a parameter that is neither the model's nor of `others`, ids of those of other graphs: it would not be trained."""
    known = {name for name, _, _ in tracer.names.values()}
    for optimizer in optimizers:
        every = [p for group in optimizer.param_groups for p in group["params"]]
        if not any(id(p) in tracer.names for p in every):
            continue  # groups says so
        for number, group in enumerate(optimizer.param_groups):
            for i, p in enumerate(group["params"]):
                if id(p) in tracer.names or id(p) in others:
                    continue
                name = getattr(p, "sn_name", None)
                near = difflib.get_close_matches(name, known, 1) if name and name not in known else ()
                raise errors.UnknownNameError(
                    f"{call}: parameter {i} of group {number} of optimizer {type(optimizer).__name__}, "
                    f"{name and repr(name) + ' ' or ''}of shape {tuple(p.shape)}, is no "
                    f"parameter of the model{f' (did you mean {near[0]!r}?)' if near else ''}: give the optimizer those of the "
                    "model that is compiled, after "
                    "samba.from_torch_model_(model), which makes them anew"
                )


def _check_once(optimizers, names):
    """Refuses a parameter that two optimizers have."""
    owners = {}
    for number, optimizer in enumerate(optimizers):
        for p in (p for group in optimizer.param_groups for p in group["params"] if id(p) in names):
            first = owners.setdefault(id(p), number)
            if first != number:
                both = " and ".join(f"{type(optimizers[i]).__name__} (optimizer {i})" for i in (first, number))
                raise errors.UnknownNameError(
                    f"parameter {names[id(p)]!r} is in two optimizers, {both}, but a parameter may be in only one: leave it out "
                    "of one of them"
                )


def groups(tracer, optimizers):
    """(optimizer, group, names of what it trains) of every group that trains something.
    What forward does not use is not trained."""
    names = {identity: name for identity, (name, _, _) in tracer.names.items()}
    _check_once(optimizers, names)
    for optimizer in optimizers:
        _check(optimizer)
        if not any(id(p) in names for group in optimizer.param_groups for p in group["params"]):
            raise errors.ArgumentError(
                f"none of the parameters of optimizer {type(optimizer).__name__} is the model's: make it from "
                "model.parameters(), after "
                "samba.from_torch_model_(model), which makes them anew"
            )
        for group in optimizer.param_groups:
            trained = [names[id(p)] for p in group["params"] if id(p) in names and id(p) in tracer.values and p.requires_grad]
            if trained:
                yield optimizer, group, trained


def numbers(tracer, optimizers, known):
    """Of each group that trains something its number among those of all graphs of a PEF, where a group that several graphs have
    is one. `known`: {(id of an optimizer, number of its group): number}, which grows."""
    its = {id(group): (id(optimizer), i) for optimizer in optimizers for i, group in enumerate(optimizer.param_groups)}
    return [known.setdefault(its[id(group)], len(known)) for _, group, _ in groups(tracer, optimizers)]


def structs(tracer, optimizers, its_numbers=None):
    """samba_optimizer structs, and what they point into. A group that trains nothing is left out: no names would mean every
    parameter. `its_numbers`: of `numbers`, for names."""
    made, kept = [], []
    for i, (optimizer, group, trained) in enumerate(groups(tracer, optimizers)):
        facts = _facts(optimizer)
        its = ffi.new("samba_optimizer *", lib.samba_optimizer_defaults(facts.kind))
        words, its.parameter_count, alive = array_of(trained)
        its.parameters = ffi.cast("char *const *", words)
        for number in facts.hyperparameters:
            setattr(its, number.name, _value(group, number.name))
        for flag in facts.flags:
            setattr(its, flag, bool(group.get(flag, False)))
        its.max_grad_norm = getattr(optimizer, "max_grad_norm", None) or 0.0
        if its_numbers is not None:
            name = ffi.new("char[]", f"optim{its_numbers[i]}".encode())
            its.name = name
            kept.append(name)
        kept.append((words, alive))
        made.append(its[0])
    return ffi.new("samba_optimizer[]", made), kept


def set_optimizers(options, tracer, optimizers, its_numbers=None):
    """Into a samba_compile_options, which points into what this returns. As in torch, a parameter that no optimizer has still has
    a gradient where it requires one."""
    made, kept = structs(tracer, optimizers, its_numbers)
    options.optimizers, options.optimizer_count = made if len(made) else ffi.NULL, len(made)
    if not len(made):
        return kept
    trained = {name for _, _, its in groups(tracer, optimizers) for name in its}
    others = [
        name
        for identity, (name, parameter, own) in tracer.names.items()
        if own and parameter.requires_grad and identity in tracer.values and name not in trained
    ]
    words, options.gradient_count, alive = array_of(others)
    options.gradients = ffi.cast("char *const *", words)
    return made, kept, words, alive


def _differs(device, optimizer, trained, what):
    return errors.StateError(
        f"trace_graph: the optimizer of {trained[0]!r} is {type(optimizer).__name__}{what}: give trace_graph the optimizer given "
        f"to compile, or compile again. The PEF is {device.pef}"
    )


def _compiled_kinds(known):
    """Titles of the optimizers whose hyperparameters a PEF has; SGD's momentum may be missing."""
    names = {name.rpartition(".")[2] for name in known}
    every = {number.name for facts in FACTS.values() for number in facts.hyperparameters if number.run}
    found = []
    for facts in FACTS.values():
        its = {number.name for number in facts.hyperparameters if number.run}
        if names & every <= its and its - names <= {"momentum", "dampening"}:
            found.append(facts.title)
    return found


def _missing(device, optimizer, name, value):
    """What the PEF was compiled with, where it lacks a hyperparameter of the optimizer."""
    kinds = _compiled_kinds(device.hyperparameters)
    if kinds and _facts(optimizer).title not in kinds:
        return f", but the PEF was compiled with {' or '.join(kinds)}"
    return f" with {name} {value:g}, but the PEF has no such hyperparameter; it has {', '.join(device.hyperparameters)}"


def _check_state(device, optimizer, group, trained):
    """Whether the PEF keeps what the optimizer keeps."""
    kept = dict.fromkeys(SHAPED, False)
    for state in _facts(optimizer).states:
        kept[state.name] = bool(group.get(state.flag, False)) if state.flag else group[state.idle] != 0 if state.idle else True
    for name in trained:
        if f"{name}.grad" not in device.tensors:
            continue  # no loss reaches it
        for key in SHAPED:
            wanted = kept[key]
            has = f"{name}.{key}" in device.tensors
            if wanted and not has:
                raise _differs(device, optimizer, trained, f" with a state {key} of {name!r}, but the PEF has none")
            if has and not wanted and key not in IDLE:  # a momentum of 0 is none
                raise _differs(device, optimizer, trained, f" without a state {key} of {name!r}, but the PEF has one")


def hyperparameters(tracer, optimizers, device, its_numbers=None):
    """{name: value} of the optimizers for a PEF that has an optimizer; what it was compiled without must not be asked of it.
    `its_numbers`: of `numbers`, where the PEF has several graphs."""
    if "OPT" not in device.section_types:
        return {}
    known, found, norm = device.hyperparameters, {}, None
    all_groups = list(groups(tracer, optimizers))
    for i, (optimizer, group, trained) in enumerate(all_groups):
        values = {number.name: _value(group, number.name) for number in _facts(optimizer).hyperparameters if number.run}
        for name, value in values.items():
            full = (
                f"optim{its_numbers[i]}.{name}"
                if its_numbers is not None
                else name
                if len(all_groups) == 1 and f"optim{i}.{name}" not in known  # of a PEF of several sizes
                else f"optim{i}.{name}"
            )
            if full in known:
                found[full] = float(value)
            elif value != 0 and (name != "dampening" or group["momentum"] != 0) or name not in ("momentum", "dampening"):
                raise _differs(device, optimizer, trained, _missing(device, optimizer, name, value))
        _check_state(device, optimizer, group, trained)
        its_norm = getattr(optimizer, "max_grad_norm", None) or 0.0
        if its_norm:
            if "max_grad_norm" not in known:
                what = f" with max_grad_norm {its_norm:g}, but the PEF does not clip gradients"
                raise _differs(device, optimizer, trained, what)
            if norm not in (None, its_norm):
                raise errors.ArgumentError(
                    f"trace_graph: max_grad_norm is {norm:g} and {its_norm:g}: the norm is one over all optimizers, so those "
                    "that give one must give the same"
                )
            norm = found["max_grad_norm"] = float(its_norm)
    if its_numbers is None and all_groups:
        optimizer, _, trained = all_groups[0]
        if norm is None and "max_grad_norm" in known:
            raise _differs(device, optimizer, trained, " without max_grad_norm, but the PEF clips gradients")
        trains = {name for _, _, names in all_groups for name in names}
        for name in device.tensors:
            owner, _, key = name.rpartition(".")
            if key in SHAPED and owner in device.names("parameter") and owner not in trains:
                raise _differs(device, optimizer, trained, f", and {owner!r} has none, but the PEF trains it")
    return found


def running(session, optimizers):
    """{name: value} of what runs may change, as the optimizers have it now, of a PEF of one graph or of sizes of one."""
    known, found = session.loaded().hyperparameters, {}
    trained = [
        (optimizer, group)
        for optimizer in optimizers
        for group in optimizer.param_groups
        if any(p.requires_grad for p in session._on_device(group["params"]).values())
    ]
    for i, (optimizer, group) in enumerate(trained):
        several = len(trained) > 1 or f"optim{i}.lr" in known
        for number in _facts(optimizer).hyperparameters:
            full = f"optim{i}.{number.name}" if several else number.name
            if number.run and full in known:
                found[full] = float(_value(group, number.name))
    return found
