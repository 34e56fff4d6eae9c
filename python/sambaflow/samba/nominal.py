# SPDX-License-Identifier: Apache-2.0
"""Arguments and attributes that the documents have and a CPU has no use for: they are taken, and a NoEffectWarning says so, once
for each name, until samba.session.reset.

>>> import warnings
>>> with warnings.catch_warnings(record=True) as said:
...     warnings.simplefilter("always")
...     say("colour", ": a CPU has none")
...     say("colour", ": a CPU has none")
>>> [str(each.message) for each in said]
['colour: without effect on this device, a CPU: a CPU has none']
"""

from sambaflow import launch
from sambaflow.errors import NoEffectWarning
from sambaflow.samba import _state

_said = _state.until_reset(set())


def once(name, text, stacklevel=1):
    """Warns of that name, the first time. `stacklevel` is that of warnings.warn where this is called."""
    if name not in _said:
        _said.add(name)
        launch.warn(text, NoEffectWarning, stacklevel=stacklevel + 1)


def say(name, why="", stacklevel=1):
    """The same in the words that most have."""
    once(name, f"{name}: without effect on this device, a CPU{why}", stacklevel + 1)


def say_all(names, call, stacklevel=1):
    """The same for those of several names, in one sentence behind `call`."""
    fresh = [name for name in names if f"{call}: {name}" not in _said]
    _said.update(f"{call}: {name}" for name in fresh)
    if fresh:
        launch.warn(
            f"{call}: {', '.join(fresh)}: without effect on this device, a CPU", NoEffectWarning, stacklevel=stacklevel + 1
        )
