# SPDX-License-Identifier: Apache-2.0
"""Times what happens on the host: how often, how long. Off unless a program turns it on.

>>> profiler = Profiler()
>>> profiler.start()
>>> with profiler.event("reading"):
...     pass
>>> profiler.stop()
>>> print(profiler.summary().splitlines()[0].split())
['event', 'count', 'total', 'ms', 'mean', 'ms', 'least', 'ms', 'greatest', 'ms']
"""

import contextlib
import html
import json
import os
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, overload

from sambaflow.errors import ArgumentError, StateError, UnknownNameError


def columns(rows: Sequence[Sequence[str]]) -> str:
    """`rows` of words as a table: the first column to the left, the others to the right.

    >>> print(columns([("what", "n"), ("a", "10")]), end="")
    what   n
    a     10
    """
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return (
        "\n".join("  ".join([row[0].ljust(widths[0]), *(x.rjust(w) for x, w in zip(row[1:], widths[1:]))]) for row in rows) + "\n"
    )


def trace_events(rows: Iterable[tuple[str, str, float, float]], process: str, left_out: int = 0) -> dict[str, Any]:
    """(name, kind, begin, seconds) rows as Trace Event JSON, which Perfetto and chrome://tracing open. `process` is the name of
    the timeline, which tells of `left_out` events besides.

    >>> trace_events([("FWD", "section", 0.5, 0.25)], "device")["traceEvents"][1]["ts"]
    500000.0
    """
    events = [{"name": "process_name", "ph": "M", "pid": 1, "tid": 1, "args": {"name": process}}]
    events += [
        {"name": name, "cat": kind, "ph": "X", "ts": 1e6 * begin, "dur": 1e6 * seconds, "pid": 1, "tid": 1}
        for name, kind, begin, seconds in rows
    ]
    return {"traceEvents": events, "displayTimeUnit": "ms", "otherData": {"events_left_out": left_out}}


class Profiler:
    """Events by name."""

    enabled: bool
    times: list[tuple[str, float, float]]
    left_out: int
    events: dict[str, list[float]]

    MOST_TIMES: int = 1 << 20  # single times that are kept for the timeline

    def __init__(self) -> None:
        self.enabled = False
        self.events = {}  # name -> [count, seconds, least, greatest]
        self.times = []  # (name, begin, seconds)
        self.left_out = 0
        self._open = {}  # name -> when it began
        self._latencies = {}  # name -> [(seconds, count) of each time]

    def start(self) -> None:
        """Forgets what was, and begins."""
        self.events, self.times, self.left_out, self.enabled = {}, [], 0, True
        self._open, self._latencies = {}, {}

    def stop(self) -> None:
        """No more events."""
        self.enabled = False

    @contextlib.contextmanager
    def event(self, name: str) -> Iterator[None]:
        """Times what runs inside, as an event `name`, while on."""
        if not self.enabled:
            yield
            return
        begin = time.perf_counter()
        try:
            yield
        finally:
            self._note(name, begin, time.perf_counter() - begin)

    # ---- events of a program's own ----

    def start_event(self, name: str) -> None:
        """Begins to time a part of a program; end_event ends it. Those of different names may overlap. They are timed whether the
        profiler is on or not; while it is on, they are among its events too."""
        if not isinstance(name, str) or not name:
            raise ArgumentError(f"start_event: expected a name that is not empty, given {name!r:.100}")
        if name in self._open:
            raise StateError(f"start_event: {name!r} has begun already: end_event({name!r}) first")
        self._open[name] = time.perf_counter()

    def end_event(self, name: str, count: float = 1) -> float:
        """Ends the part of that `name`; returns the seconds that it took. `count`: of what get_throughputs counts, samples or
        tokens, it has made."""
        end = time.perf_counter()
        if name not in self._open:
            raise StateError(f"end_event: {name!r:.100} has not begun; begun have: {', '.join(self._open) or 'none'}")
        if isinstance(count, bool) or not isinstance(count, (int, float)) or not 0 <= count < float("inf"):
            raise ArgumentError(f"end_event: count is {count!r:.100}: expected a number of 0 or more")
        begin = self._open.pop(name)
        self._latencies.setdefault(name, []).append((end - begin, count))
        if self.enabled:
            self._note(name, begin, end - begin)
        return end - begin

    def _of(self, call, name):
        if name is not None and name not in self._latencies:
            raise UnknownNameError(
                f"{call}: no event {name!r:.100} has ended; ended have: {', '.join(self._latencies) or 'none'}"
            )
        return self._latencies if name is None else {name: self._latencies[name]}

    @overload
    def get_latencies(self, name: None = None) -> dict[str, list[float]]: ...

    @overload
    def get_latencies(self, name: str) -> list[float]: ...

    def get_latencies(self, name=None):
        """{name: [seconds of each time]} of what start_event and end_event enclosed since start(); of one name its list."""
        found = {key: [seconds for seconds, _ in times] for key, times in self._of("get_latencies", name).items()}
        return found if name is None else found[name]

    @overload
    def get_throughputs(self, name: None = None) -> dict[str, float]: ...

    @overload
    def get_throughputs(self, name: str) -> float: ...

    def get_throughputs(self, name=None):
        """{name: counts a second, of all times together}; of one name its number.

        >>> profiler = Profiler()
        >>> profiler.start_event("decode")
        >>> seconds = profiler.end_event("decode", count=8)
        >>> profiler.get_throughputs("decode") == 8 / seconds, profiler.get_latencies() == {"decode": [seconds]}
        (True, True)
        """
        found = {}
        for key, times in self._of("get_throughputs", name).items():
            seconds = sum(x for x, _ in times)
            found[key] = sum(count for _, count in times) / seconds if seconds > 0 else float("inf")
        return found if name is None else found[name]

    def _note(self, name, begin, seconds):
        known = self.events.setdefault(name, [0, 0.0, seconds, seconds])
        known[0] += 1
        known[1] += seconds
        known[2], known[3] = min(known[2], seconds), max(known[3], seconds)
        if len(self.times) < self.MOST_TIMES:
            self.times.append((name, begin, seconds))
        else:
            self.left_out += 1

    def summary(self) -> str:
        """A table: event, count, total, mean, least and greatest ms."""
        rows = [("event", "count", "total ms", "mean ms", "least ms", "greatest ms")]
        for name, (count, seconds, least, greatest) in sorted(self.events.items(), key=lambda row: -row[1][1]):
            rows.append((name, str(count), *(f"{1e3 * x:.3f}" for x in (seconds, seconds / count, least, greatest))))
        return columns(rows)

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(self.summary())}</pre>"

    def timeline(self) -> dict[str, Any]:
        """Trace Event JSON of the single times."""
        start = min((begin for _, begin, _ in self.times), default=0.0)
        return trace_events(
            ((name, "host", begin - start, seconds) for name, begin, seconds in self.times), "host", self.left_out
        )

    def dump(self, filename: str | os.PathLike[str]) -> None:
        """Writes the summary to the file `filename`; the timeline where its name ends in .json."""
        with open(filename, "w", encoding="utf-8") as file:
            if str(filename).endswith(".json"):
                json.dump(self.timeline(), file)
            else:
                file.write(self.summary())
