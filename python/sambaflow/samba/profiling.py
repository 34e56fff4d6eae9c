# SPDX-License-Identifier: Apache-2.0
"""How long a session's work takes: events on the host (the Profiler), sections on the device (the runtime profile), and the
report of a PEF, a page with both.

>>> import os, tempfile
>>> import sambaflow.samba as samba
>>> session = samba.SambaSession()
>>> with tempfile.TemporaryDirectory() as folder:
...     with session.samba_profile(f"{folder}/events.txt") as profiler, profiler.event("mine"):
...         total = sum(range(100))
...     os.path.exists(f"{folder}/events.txt")
True
"""

import contextlib

from sambaflow import errors
from sambaflow.samba.profiler import Profiler
from sambaflow.samba.runtime_profile import RuntimeProfile, level


class Profiling:
    """Of a session."""

    def _forget_profiles(self):
        self._profiler, self._runtime_profile = Profiler(), None

    def _drop_profile(self):
        """A profile that is running ends without a file."""
        if self._runtime_profile is not None:
            self._runtime_profile.python.disable()

    @property
    def profiler(self):
        """The Profiler of this session."""
        return self._profiler

    def start_samba_profile(self):
        """Begins to time events on the host."""
        self._profiler.start()

    def end_samba_profile(self, filename=None):
        """Ends it and writes a table of the events to the file."""
        self._profiler.stop()
        if filename is not None:
            self._profiler.dump(filename)

    @contextlib.contextmanager
    def samba_profile(self, filename=None):
        """The two around what runs inside."""
        self.start_samba_profile()
        try:
            yield self._profiler
        finally:
            self.end_samba_profile(filename)

    def start_runtime_profile(self, timer_enabled=True):
        """Begins to time sections on the device (samba.runtime_profile) and, by cProfile, the program, if the environment
        variable ENABLE_RUNTIME_PERF is SUMMARY, or DETAILED for operators too; else does nothing. `timer_enabled`:
        end_runtime_profile prints the time between the two."""
        word = level()
        if word is None:
            return
        if self._runtime_profile is not None:
            raise errors.StateError("start_runtime_profile: it is running; end it first")
        self._runtime_profile = RuntimeProfile(self.loaded(), word, timer_enabled)

    def end_runtime_profile(self, log_file="cprofile_tmp.log"):
        """Ends it and writes tables of both to `log_file`, and a timeline beside it, as Trace Event JSON with the ending .json. A
        `log_file` that ends in .html becomes a page for browsers (see report), with the tables in a .log beside it."""
        profile, self._runtime_profile = self._runtime_profile, None
        if profile is not None:
            profile.end(log_file)
        elif level() is not None:
            raise errors.StateError("end_runtime_profile: call start_runtime_profile first")

    def report(self):
        """A sambaflow.report.Report of the loaded PEF: a page with sections, timeline, roofline, memory over time and stages, to
        `save(path)` or, in a notebook, to see. It has the times of the last runtime profile."""
        return self.loaded().report()
