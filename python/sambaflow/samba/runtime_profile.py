# SPDX-License-Identifier: Apache-2.0
"""The runtime profiler: what sections, and with DETAILED their operators, take on the device, beside Python's cProfile of the program.

The environment says whether: ENABLE_RUNTIME_PERF=SUMMARY or DETAILED. Without it starting and ending do nothing.

Each section and stage is also held against the machine's roofs (sambaflow.report.machine), measured once a process when the first profile ends: the share of what
compute, memory or a cache allows, whichever limits it."""
import cProfile
import io
import json
import os
import pstats
import time
from typing import NamedTuple

from sambaflow import errors
from sambaflow._core import ffi, lib
from sambaflow.report import machine, machine_struct
from sambaflow.samba.profiler import columns, trace_events
from sambaflow.words import text

LEVELS = {"SUMMARY": lib.SAMBA_PROFILE_SECTIONS, "DETAILED": lib.SAMBA_PROFILE_STAGES}
MOST_EVENTS = 1 << 20  # single times that are kept for the timeline


def level():
    """SUMMARY, DETAILED or None, as the environment says."""
    word = os.environ.get("ENABLE_RUNTIME_PERF") or None
    if word is not None and word not in LEVELS:
        raise errors.ArgumentError(f"ENABLE_RUNTIME_PERF={word}: expected SUMMARY or DETAILED, or leave it out")
    return word


class Times(NamedTuple):
    """Of all runs: how many, and seconds in all, of the fastest and of the slowest; and how near that is to what the machine can do: "45 % memory"."""

    runs: int
    seconds: float
    least: float
    greatest: float
    roofline: str


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
        """Writes tables to `log_file` and the timeline beside it, as Trace Event JSON. A `log_file` that ends in .html becomes the page of the session
        (sambaflow.report), with the tables in a .log beside it."""
        self.python.disable()
        seconds = time.perf_counter() - self.begin
        device = self.device
        device.context.check(lib.samba_session_profile(device.c, lib.SAMBA_PROFILE_OFF, 0))
        if self.timer_enabled:
            print(f"runtime profile: {seconds:.6f} s from start to end")
        stem, ending = os.path.splitext(str(log_file))
        page = ending.lower() in (".html", ".htm")
        with open(stem + ".log" if page else log_file, "w", encoding="utf-8", errors="surrogateescape") as file:
            file.write(f"{device.pef}: {seconds:.6f} s from start to end\n{machine(lib.samba_session_threads(device.c))}\n\n{self.summary()}\n")
            stats = io.StringIO()
            pstats.Stats(self.python, stream=stats).sort_stats("cumulative").print_stats()
            file.write("Python (cProfile)\n" + stats.getvalue())
        with open(stem + ".json", "w", encoding="utf-8") as file:
            json.dump(self.timeline(), file)
        if page:
            device.report().save(log_file)

    def _times(self, number, time_of, roof_of):
        time_, roof, check = ffi.new("samba_time *"), ffi.new("samba_roof *"), self.device.context.check
        check(time_of(self.device.c, number, time_))
        check(roof_of(self.device.c, machine_struct(lib.samba_session_threads(self.device.c)), number, roof))
        reached = f"{roof.share:.0%} {text(roof.bound)}".replace("%", " %") if text(roof.bound) else ""
        return Times(time_.runs, time_.seconds, time_.least, time_.greatest, reached)

    def sections(self):
        """(label, flops, bytes, Times) of each section."""
        info = ffi.new("samba_section_info *")
        for i in range(lib.samba_session_section_count(self.device.c)):
            self.device.context.check(lib.samba_session_section_info(self.device.c, i, info))
            yield f"{i} {text(info.type)}", info.flops, info.bytes, self._times(i, lib.samba_session_section_time, lib.samba_session_section_roof)

    def stages(self):
        """The same of each stage: its operators."""
        info = ffi.new("samba_stage_info *")
        for i in range(lib.samba_session_stage_count(self.device.c)):
            self.device.context.check(lib.samba_session_stage_info(self.device.c, i, info))
            label = f"{info.section}.{i} {text(info.kind)}: {text(info.operators)}"
            yield label, info.flops, info.bytes, self._times(i, lib.samba_session_stage_time, lib.samba_session_stage_roof)

    def summary(self):
        """Tables of sections and, with DETAILED, of stages."""
        made = "sections\n" + _table(self.sections())
        return made + ("\noperators (section.stage)\n" + _table(self.stages()) if self.level == "DETAILED" else "")

    def timeline(self):
        """Trace Event JSON, which Perfetto and chrome://tracing open."""
        count, left_out = ffi.new("int64_t *"), ffi.new("int64_t *")
        events = lib.samba_session_profile_events(self.device.c, count, left_out)
        sections, stages = [row[0] for row in self.sections()], [row[0] for row in self.stages()]
        rows = ((sections[e.section], "section", e.begin, e.seconds, {"section": e.section}) if e.stage < 0 else
                (stages[e.stage], "operator", e.begin, e.seconds, {"section": e.section, "stage": e.stage})
                for e in (events[i] for i in range(count[0])))  # fmt: skip
        return trace_events(rows, f"{self.device.pef} on the device", left_out[0], graph=self.device.graph_name, sections=len(sections), stages=len(stages),
                            threads=lib.samba_session_threads(self.device.c), isa=text(lib.samba_session_isa(self.device.c)))  # fmt: skip


def _table(rows):
    rows = [row for row in rows if row[3].runs]
    total = sum(row[3].seconds for row in rows) or 1.0
    lines = [("what", "runs", "total ms", "mean ms", "least ms", "greatest ms", "share", "GFLOP/s", "GB/s", "roofline")]
    for label, flops, bytes_, t in rows:
        mean = t.seconds / t.runs or 1e-9
        lines.append((label, str(t.runs), *(f"{1e3 * x:.4f}" for x in (t.seconds, mean, t.least, t.greatest)), f"{t.seconds / total:.1%}",
                      f"{flops / mean / 1e9:.1f}", f"{bytes_ / mean / 1e9:.1f}", t.roofline))  # fmt: skip
    return columns(lines)
