# SPDX-License-Identifier: Apache-2.0
"""The runtime profiler: what sections, and with DETAILED their operators, take on the device, beside Python's cProfile of the
program.

The environment says whether: ENABLE_RUNTIME_PERF=SUMMARY or DETAILED. Without it starting and ending do nothing.

Each section and stage is also held against the machine's roofs (sambaflow.report.machine), measured once a process when the first
profile ends: the share of what compute, memory or a cache allows, whichever limits it.
Tables and timeline are the library's (samba_session_tables, samba_session_trace)."""

import cProfile
import io
import os
import pstats
import time

from sambaflow import errors, launch
from sambaflow._core import ffi, lib
from sambaflow.report import machine, machine_struct
from sambaflow.words import encoded, text

LEVELS = {"SUMMARY": lib.SAMBA_PROFILE_SECTIONS, "DETAILED": lib.SAMBA_PROFILE_STAGES}
MOST_EVENTS = 1 << 20  # single times that are kept for the timeline


def level():
    """SUMMARY, DETAILED or None, as the environment says."""
    word = os.environ.get("ENABLE_RUNTIME_PERF") or None
    if word is not None and word not in LEVELS:
        raise errors.ArgumentError(f"ENABLE_RUNTIME_PERF={word}: expected SUMMARY or DETAILED, or leave it out")
    return word


class RuntimeProfile:
    """From start to end."""

    def __init__(self, device, level, timer_enabled):
        self.device, self.level, self.timer_enabled = device, level, timer_enabled
        self.python = cProfile.Profile()
        device.context.check(lib.samba_session_profile(device.c, LEVELS[level], MOST_EVENTS))
        self.begin = time.perf_counter()
        try:
            self.python.enable()
        except ValueError as error:  # from Python 3.12 on only one profiler may be active
            device.context.check(lib.samba_session_profile(device.c, lib.SAMBA_PROFILE_OFF, 0))
            raise errors.StateError(f"start_runtime_profile: another profiler of Python is active: {error}") from error

    def end(self, log_file):
        """Writes tables to `log_file` and the timeline beside it, as Trace Event JSON. A `log_file` that ends in .html becomes
        the page of the session (sambaflow.report), with the tables in a .log beside it."""
        self.python.disable()
        seconds = time.perf_counter() - self.begin
        device = self.device
        device.context.check(lib.samba_session_profile(device.c, lib.SAMBA_PROFILE_OFF, 0))
        if self.timer_enabled:
            launch.say(f"runtime profile: {seconds:.6f} s from start to end")
        threads = lib.samba_session_threads(device.c)
        stem, ending = os.path.splitext(str(log_file))
        page = ending.lower() in (".html", ".htm")
        with open(stem + ".log" if page else log_file, "w", encoding="utf-8", errors="surrogateescape") as file:
            file.write(f"{device.pef}: {seconds:.6f} s from start to end\n{machine(threads)}\n\n")
            file.write(self._made(lib.samba_session_tables, machine_struct(threads)) + "\n")
            stats = io.StringIO()
            pstats.Stats(self.python, stream=stats).sort_stats("cumulative").print_stats()
            file.write("Python (cProfile)\n" + stats.getvalue())
        with open(stem + ".json", "w", encoding="utf-8", errors="surrogateescape") as file:
            file.write(self._made(lib.samba_session_trace, encoded(f"{device.pef} on the device")))
        if page:
            device.report().save(log_file)

    def _made(self, make, argument):
        """Text that the library makes of what was measured."""
        made, context = ffi.new("char **"), self.device.context
        context.check(make(self.device.c, argument, made))
        try:
            return text(made[0])
        finally:
            lib.samba_text_free(context.c, made[0])
