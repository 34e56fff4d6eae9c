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
import time


def columns(rows):
    """Rows of words as a table: the first column to the left, the others to the right.

    >>> print(columns([("what", "n"), ("a", "10")]), end="")
    what   n
    a     10
    """
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return (
        "\n".join("  ".join([row[0].ljust(widths[0]), *(x.rjust(w) for x, w in zip(row[1:], widths[1:]))]) for row in rows) + "\n"
    )


def trace_events(rows, process, left_out=0):
    """(name, kind, begin, seconds) rows as Trace Event JSON, which Perfetto and chrome://tracing open.

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

    MOST_TIMES = 1 << 20  # single times that are kept for the timeline

    def __init__(self):
        self.enabled = False
        self.events = {}  # name -> [count, seconds, least, greatest]
        self.times = []  # (name, begin, seconds)
        self.left_out = 0

    def start(self):
        """Forgets what was, and begins."""
        self.events, self.times, self.left_out, self.enabled = {}, [], 0, True

    def stop(self):
        """No more events."""
        self.enabled = False

    @contextlib.contextmanager
    def event(self, name):
        """Times what runs inside, while on."""
        if not self.enabled:
            yield
            return
        begin = time.perf_counter()
        try:
            yield
        finally:
            seconds = time.perf_counter() - begin
            known = self.events.setdefault(name, [0, 0.0, seconds, seconds])
            known[0] += 1
            known[1] += seconds
            known[2], known[3] = min(known[2], seconds), max(known[3], seconds)
            if len(self.times) < self.MOST_TIMES:
                self.times.append((name, begin, seconds))
            else:
                self.left_out += 1

    def summary(self):
        """A table: event, count, total, mean, least and greatest ms."""
        rows = [("event", "count", "total ms", "mean ms", "least ms", "greatest ms")]
        for name, (count, seconds, least, greatest) in sorted(self.events.items(), key=lambda row: -row[1][1]):
            rows.append((name, str(count), *(f"{1e3 * x:.3f}" for x in (seconds, seconds / count, least, greatest))))
        return columns(rows)

    def _repr_html_(self):
        return f"<pre>{html.escape(self.summary())}</pre>"

    def timeline(self):
        """Trace Event JSON of the single times."""
        start = min((begin for _, begin, _ in self.times), default=0.0)
        return trace_events(
            ((name, "host", begin - start, seconds) for name, begin, seconds in self.times), "host", self.left_out
        )

    def dump(self, filename):
        """Writes the summary to a file; the timeline where its name ends in .json."""
        with open(filename, "w", encoding="utf-8") as file:
            if str(filename).endswith(".json"):
                json.dump(self.timeline(), file)
            else:
                file.write(self.summary())
