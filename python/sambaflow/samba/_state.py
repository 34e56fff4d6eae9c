# SPDX-License-Identifier: Apache-2.0
"""What tensors must find without importing what imports them: the tracer at work, eager execution and the global session."""

import threading


class _Here(threading.local):
    """What is at work in a thread, and in no other."""

    tracer = None  # the Tracer of the model that it traces
    unasked = None  # globals of the torch function whose body is entered, until it has asked for __torch_function__


here = _Here()
session = None
new_session = None  # SambaSession, the class
_kept = []


def until_reset(container):
    """The set or dict, which samba.session.reset empties."""
    _kept.append(container)
    return container


def reset():
    """What modules keep for a process is as in a fresh one."""
    for container in _kept:
        container.clear()


def eager(func, args, kwargs):
    """Until eager.py is there, and has put its own here, torch computes."""
    return NotImplemented


eager_aten = None
behind = {}  # torch function -> what is called behind it with (its result, args, kwargs)


# Turns of threads that prefetch. A thread that computes in Python holds the interpreter's lock; were it woken when a batch is
# taken, the program would lose the lock at its next call of torch and wait, with the device idle, until the next batch is made.
# So such threads work while the device does.
turns = []  # a lock each, held; releasing it lets the thread go on
running = 0  # runs of the device right now, of all threads
_counting = threading.Lock()


class device_runs:
    """Around a run: prefetching threads take their turn."""

    def __enter__(self):
        global running
        with _counting:
            running += 1
        for turn in turns[:]:
            try:
                turn.release()
            except RuntimeError:
                pass  # it has been told already

    def __exit__(self, *error):
        global running
        with _counting:
            running -= 1
        for turn in turns[:]:
            turn.acquire(blocking=False)  # nobody took it: it is over with the run
