# SPDX-License-Identifier: Apache-2.0
"""How a program ends: handlers that `atexit_register` was given run whether the interpreter ends as usual or
`use_abexit` ends it."""

import atexit
import os
import sys
import traceback

from sambaflow import errors, launch
from sambaflow._core import lib
from sambaflow.errors import SambaError
from sambaflow.runtime import replicas

_handlers = []  # (function, args, kwargs); the last one runs first


def register(func, *args, **kwargs):
    """Has func(*args, **kwargs) called when the program ends. Returns func, as atexit.register does."""
    _check("atexit_register", func)
    if not _handlers:
        atexit.unregister(_run_handlers)
        atexit.register(_run_handlers)
    _handlers.append((func, args, kwargs))
    return func


def _check(call, func):
    if not callable(func):
        raise errors.ArgumentTypeError(f"{call}: expected a function, given {type(func).__name__}")


def _run_handlers():
    """Each runs once; what one raises is printed, and the others run."""
    while _handlers:
        func, args, kwargs = _handlers.pop()
        try:
            func(*args, **kwargs)
        except BaseException:
            traceback.print_exc()


def _exit_code(error):
    """As the interpreter has it for SystemExit."""
    if error.code is None or isinstance(error.code, int):
        return error.code or 0
    print(f"{launch.place()}{error.code}", file=sys.stderr)
    return 1


def _tell():
    """The exception, with who met it, in one piece: replicas share a terminal."""
    print(launch.place() + traceback.format_exc(), end="", file=sys.stderr)


def run(func, args, kwargs):
    """Calls func, then the handlers, and ends the process there and then: no handler of atexit, no other thread and no replica
    that waits for this one can hold it up. With a code that is not 0 it ends all replicas. Does not return."""
    _check("use_abexit", func)
    try:
        replicas()  # joined: from here on the others hear of its end, which MPICH does not tell before
    except SambaError:
        pass  # who needs them is told
    code = 0
    try:
        func(*args, **kwargs)
    except SystemExit as error:
        code = _exit_code(error)
    except KeyboardInterrupt:
        _tell()
        code = 130
    except BaseException:
        _tell()
        code = 1
    _run_handlers()
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError, AttributeError):
            pass  # nobody reads it any more
    lib.samba_replicas_end(code & 255)
    os._exit(code & 255)
