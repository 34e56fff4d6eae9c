# SPDX-License-Identifier: Apache-2.0
"""How a program ends: handlers that `atexit_register` was given run whether the interpreter ends as usual or
`use_abexit` ends it."""

import atexit
import os
import sys
import traceback

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
        raise TypeError(f"{call}: expected a function, given {type(func).__name__}")


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
    print(error.code, file=sys.stderr)
    return 1


def run(func, args, kwargs):
    """Calls func, then the handlers, and ends the process there and then: no handler of atexit, no other thread and no replica
    that waits for this one can hold it up. Does not return."""
    _check("use_abexit", func)
    code = 0
    try:
        func(*args, **kwargs)
    except SystemExit as error:
        code = _exit_code(error)
    except KeyboardInterrupt:
        traceback.print_exc()
        code = 130
    except BaseException:
        traceback.print_exc()
        code = 1
    _run_handlers()
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError, AttributeError):
            pass  # nobody reads it any more
    os._exit(code & 255)
