# SPDX-License-Identifier: Apache-2.0
"""Who this process is among those that a launcher has started, by what its environment says: nobody is joined for it. What all of
them have alike the first one says, and the others keep quiet.

>>> (told() == Replicas(rank=0, size=1, local_rank=0, local_size=1, network=""), speaks(), place())
(True, True, '')
>>> say("said once")
said once
"""

import os
import sys
import warnings

from sambaflow._core import ffi, lib
from sambaflow.runtime import Replicas, thread_context


def told():
    """runtime.Replicas (samba_replicas_told): mpirun, srun or torchrun has told so."""
    found, context = ffi.new("samba_replicas *"), thread_context()
    if lib.samba_replicas_told(context.c, found) != lib.SAMBA_OK:  # nonsense, which whoever joins is told of
        return Replicas(0, 1, 0, 1, "")
    return Replicas(found.rank, found.size, found.local_rank, found.local_size, "")


def speaks():
    """Whether this process is the first."""
    return told().rank == 0


def place():
    """ "replica 1 of 2: ", before what one of several says; "" of one."""
    of = told()
    return f"replica {of.rank} of {of.size}: " if of.size > 1 else ""


_PACKAGE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "")


def _is_torchs(frame):
    return frame.f_globals.get("__name__", "").startswith("torch.")


def warn(message, category, stacklevel=1):
    """warnings.warn of what all have alike. Where the line that `stacklevel` tells is one of this package, it is that of the
    program that has called it, by way of torch or not."""
    if speaks():
        level, frame = stacklevel + 1, sys._getframe(stacklevel)
        ours = frame.f_code.co_filename.startswith(_PACKAGE)
        while ours and frame is not None and (frame.f_code.co_filename.startswith(_PACKAGE) or _is_torchs(frame)):
            level, frame = level + 1, frame.f_back
        warnings.warn(message, category, stacklevel=level)


def say(*words):
    """print of what all have alike."""
    if speaks():
        print(*words)
