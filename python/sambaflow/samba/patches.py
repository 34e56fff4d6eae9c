# SPDX-License-Identifier: Apache-2.0
"""What of torch is another while a model is traced. torch has one of each for all threads, and only some of them trace: so a
patch is put in place by the first that needs it and taken out by the last, and what it puts there asks which thread calls. For
one that traces nothing it is what torch had.

>>> class Torchs:
...     @staticmethod
...     def name():
...         return "torch's"
>>> patch = Patch(lambda stack: stack.enter_context(replaced(Torchs, "name", lambda: "ours")))
>>> with patch, patch:
...     Torchs.name()
'ours'
>>> Torchs.name()
"torch's"
>>> flag = Flag(False, True)
>>> bool(flag), flag == False
(False, True)
"""

import contextlib
import threading
import weakref

from sambaflow.samba import _state

_NOTHING = object()


class Patch:
    """In place while somebody needs it: `put(stack)` puts it there, and on the ExitStack what takes it out."""

    def __init__(self, put):
        self._put, self._count, self._stack = put, 0, None
        self._lock = threading.RLock()  # the collector may call in between

    def __enter__(self):
        with self._lock:
            if self._count == 0:
                with contextlib.ExitStack() as stack:
                    self._put(stack)
                    self._stack = stack.pop_all()
            self._count += 1

    def __exit__(self, *error):
        with self._lock:
            self._count -= 1
            if self._count == 0:
                stack, self._stack = self._stack, None
                stack.close()

    def while_alive(self, thing):
        """In place as long as somebody holds that."""
        self.__enter__()
        weakref.finalize(thing, self.__exit__).atexit = False


@contextlib.contextmanager
def replaced(owner, name, new):
    """Something else stands there: an attribute of a class, a module or a function, or in a dict. What a program itself puts
    there meanwhile stays."""
    old = _get(owner, name)
    _set(owner, name, new)
    try:
        yield
    finally:
        if _get(owner, name) is new:
            _set(owner, name, old)


def _get(owner, name):
    """The owner's own, as it stands there."""
    if name == "__code__":
        return owner.__code__
    return (owner if isinstance(owner, dict) else vars(owner)).get(name, _NOTHING)


def _set(owner, name, value):
    if isinstance(owner, dict):
        if value is _NOTHING:
            del owner[name]
        else:
            owner[name] = value
    elif value is _NOTHING:
        delattr(owner, name)
    else:
        setattr(owner, name, value)


class Flag:
    """A truth of torch's that is another in threads that trace."""

    __hash__ = None

    def __init__(self, otherwise, traced):
        self._otherwise, self._traced = otherwise, traced

    def __bool__(self):
        return bool(self._otherwise if _state.here.tracer is None else self._traced)

    def __eq__(self, other):
        return bool(self) == other

    def __repr__(self):
        return repr(bool(self))
