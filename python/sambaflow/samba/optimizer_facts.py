# SPDX-License-Identifier: Apache-2.0
"""The library's table of optimizers (src/optimizers.def) as the library tells it:
what each takes and keeps, by its class's name."""

import dataclasses

from sambaflow._core import ffi, lib


@dataclasses.dataclass(frozen=True)
class Hyperparameter:
    name: str
    value: float  # torch's default
    run: bool  # a run may change it


@dataclasses.dataclass(frozen=True)
class State:
    name: str
    of_parameter: bool  # a tensor of its shape; else one number of the optimizer
    flag: str  # it is kept where that is true; "": always
    idle: str  # while that hyperparameter is 0 steps leave it alone; "": none does


@dataclasses.dataclass(frozen=True)
class Facts:
    kind: int
    title: str
    hyperparameters: tuple
    flags: tuple
    states: tuple


def _word(text):
    return ffi.string(text).decode()


def _facts():
    for index in range(lib.samba_optimizer_count()):
        its = lib.samba_optimizer_facts_at(index)
        numbers = (its.hyperparameters[i] for i in range(its.hyperparameter_count))
        states = (its.states[i] for i in range(its.state_count))
        yield Facts(
            its.kind,
            _word(its.title),
            tuple(Hyperparameter(_word(x.name), x.value, x.run) for x in numbers),
            tuple(_word(its.flags[i]) for i in range(its.flag_count)),
            tuple(State(_word(x.name), x.of_parameter, _word(x.flag), _word(x.idle)) for x in states),
        )


FACTS = {facts.title: facts for facts in _facts()}
