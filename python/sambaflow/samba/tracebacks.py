# SPDX-License-Identifier: Apache-2.0
"""What Python prints of an error that nobody caught: where the library refuses, the lines of the program alone. Between the line
that calls `compile` and the line of the model's `forward` that cannot be traced lie dozens of this package and of torch, which
say nothing to who wrote the program. SAMBAFLOW_TRACEBACK=full shows them. An excepthook that another set, a debugger's or a
notebook's, stays.

>>> def ask():
...     from sambaflow.runtime import Session
...     Session("nowhere.pef")
>>> try:
...     ask()
... except OSError as error:
...     print(short(error)[-1].split()[:2], "raise_status" in "".join(short(error)))
['sambaflow.errors.FileError:', 'cannot'] False
"""

import os
import sys
import traceback

from sambaflow.errors import SambaError

_PACKAGE = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "")


def _hidden():
    torch = sys.modules.get("torch")
    return _PACKAGE, os.path.join(os.path.dirname(torch.__file__), "") if torch else _PACKAGE


def _filtered(told, folders):
    """Takes the frames of those folders out of a TracebackException and of those that it follows from; how many."""
    kept = [frame for frame in told.stack if not frame.filename.startswith(folders)]
    count = len(told.stack) - len(kept)
    told.stack = traceback.StackSummary.from_list(kept)
    for name in ("__cause__", "__context__"):
        before = getattr(told, name)
        if before is not None:
            count += _filtered(before, folders)
            if not before.stack:  # wholly inside
                setattr(told, name, None)
    return count


def short(error):
    """The lines to print of an error, without those of this package and of torch."""
    told = traceback.TracebackException(type(error), error, error.__traceback__)
    count = _filtered(told, _hidden())
    lines = [line for part in told.format() for line in part.splitlines()]
    if count:
        lines.insert(-1, f"  ({count} lines of sambaflow and torch are not shown; SAMBAFLOW_TRACEBACK=full shows them)")
    return lines


def _is_refusal(error, trace):
    """Whether this package raised it."""
    if isinstance(error, SambaError):
        return True
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return trace is not None and trace.tb_frame.f_code.co_filename.startswith(_PACKAGE)


def _hook(kind, error, trace):
    if os.environ.get("SAMBAFLOW_TRACEBACK") == "full" or not _is_refusal(error, trace):
        return sys.__excepthook__(kind, error, trace)
    print("\n".join(short(error)), file=sys.stderr)


def install():
    """Where nobody set a hook before."""
    if sys.excepthook is sys.__excepthook__:
        sys.excepthook = _hook
