# SPDX-License-Identifier: Apache-2.0
"""Where in the user's model the call being traced stands: the line of the innermost frame that is neither torch's nor ours nor
Python's own, and the path of the module being called. A traced operator costs a walk over some ten frames, a few microseconds."""

import linecache
import os
import sys
import sysconfig

import torch

_SITE = (os.sep + "site-packages" + os.sep, os.sep + "dist-packages" + os.sep)
_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_TORCH = os.path.dirname(os.path.abspath(torch.__file__)) + os.sep
_PYTHON = sysconfig.get_paths()["stdlib"] + os.sep
_shown = {}  # a code's file name -> the name that people know it by, as bytes; None: not the user's


def _show(filename):
    path = os.path.abspath(filename) if not filename.startswith("<") else filename
    standard = path.startswith(_PYTHON) and not any(word in path for word in _SITE)
    if path.startswith((_PACKAGE, _TORCH, "<frozen")) or standard:
        return None
    return os.path.basename(path).encode(errors="replace")


def users_frame(frame):
    """(the frame, its file's name as bytes) of the user's innermost line, from `frame` outwards;
    (None, None) where there is none."""
    while frame is not None:
        filename = frame.f_code.co_filename
        try:
            name = _shown[filename]
        except KeyError:
            name = _shown[filename] = _show(filename)
        if name is not None:
            return frame, name
        frame = frame.f_back
    return None, None


def describe(module, code=False):
    """' (in module encoder.layers.0, model.py:42)' for the caller; with `code`, the line too. '' where nothing is known."""
    frame, name = users_frame(sys._getframe(1))
    parts = [f"module {module}"] if module else []
    if frame is not None:
        line = linecache.getline(frame.f_code.co_filename, frame.f_lineno).strip() if code else ""
        parts.append(f"{name.decode(errors='replace')}:{frame.f_lineno}" + (f": {line}" if line else ""))
    return f" (in {', '.join(parts)})" if parts else ""


def outside():
    """How far up the stack the user's line is."""
    frame, level = sys._getframe(), 0
    while frame is not None and frame.f_globals.get("__name__", "").startswith(("sambaflow.", "torch.")):
        frame, level = frame.f_back, level + 1
    return max(level, 1)
