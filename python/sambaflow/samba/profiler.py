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
import time


class Profiler:
    """Events by name."""

    def __init__(self):
        self.enabled = False
        self.events = {}  # name -> [count, seconds, least, greatest]

    def start(self):
        """Forgets what was, and begins."""
        self.events, self.enabled = {}, True

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

    def summary(self):
        """A table: event, count, total, mean, least and greatest ms."""
        rows = [("event", "count", "total ms", "mean ms", "least ms", "greatest ms")]
        for name, (count, seconds, least, greatest) in sorted(self.events.items(), key=lambda row: -row[1][1]):
            rows.append((name, str(count), *(f"{1e3 * x:.3f}" for x in (seconds, seconds / count, least, greatest))))
        widths = [max(len(row[i]) for row in rows) for i in range(6)]
        return "\n".join("  ".join([row[0].ljust(widths[0]), *(x.rjust(w) for x, w in zip(row[1:], widths[1:]))]) for row in rows) + "\n"

    def dump(self, filename):
        """Writes the summary to a file."""
        with open(filename, "w", encoding="utf-8") as file:
            file.write(self.summary())
