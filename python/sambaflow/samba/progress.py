# SPDX-License-Identifier: Apache-2.0
"""Progress of long work, on stderr: a bar of tqdm with rate and time left on a terminal; elsewhere a line after 10 seconds, after
20, 40 and so on, so that a log stays short. Nothing of it is left on a terminal afterwards.

>>> sum(progress(range(4), "adding"))
6
>>> with Progress("reading", total=2, unit="file") as shown:
...     for _ in range(2):
...         shown.step()
>>> shown.done
2
"""

import contextlib
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from types import TracebackType
from typing import TypeVar

from sambaflow import launch

_Item = TypeVar("_Item")

FIRST_LINE: float = 10.0  # seconds


def _length(iterable):
    try:
        return len(iterable)
    except TypeError:  # a generator, or a torch loader of one
        return None


def _clock(seconds):
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"


class Progress:
    """`with Progress(what, total) as shown:` around work that calls shown.step().

    Args:
        what: what is done, in front of the bar.
        total: how many steps there are; None where nobody knows.
        unit: one step's word, such as "batch".
    """

    what: str
    total: int | None
    unit: str
    done: int

    def __init__(self, what: str, total: int | None = None, unit: str = "step") -> None:
        self.what, self.total, self.unit, self.done = what, total, unit, 0
        self._bar = None

    def __enter__(self) -> "Progress":
        self._file, self._begin, self._next = sys.stderr, time.monotonic(), FIRST_LINE
        if getattr(self._file, "closed", True):  # a program may have closed it, or have none
            self._file = None
        if not launch.speaks():  # of replicas one shows it
            self._file = None
        if self._file is not None and self._file.isatty():
            import tqdm  # here: most programs never show a bar

            self._bar = tqdm.tqdm(
                desc=self.what, total=self.total, unit=self.unit, file=self._file, leave=False, dynamic_ncols=True
            )
        return self

    def step(self, count: int = 1) -> None:
        """So many more are done, `count`."""
        self.done += count
        if self._bar is not None:
            self._bar.update(count)
        elif self._file is not None and (spent := time.monotonic() - self._begin) >= self._next:
            while self._next <= spent:
                self._next *= 2
            print(self._line(spent), file=self._file, flush=True)

    def _line(self, spent):
        rate = self.done / spent
        of, left = (f"/{self.total}", f", {_clock((self.total - self.done) / rate)} left") if self.total and rate else ("", "")
        return f"{self.what}: {self.done}{of} {self.unit}s in {_clock(spent)}, {rate:.3g} {self.unit}s/s{left}"

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        if self._bar is not None:
            self._bar.close()


def progress(iterable: Iterable[_Item], what: str, total: int | None = None, unit: str = "step") -> Iterator[_Item]:
    """The items of an iterable, a SambaLoader for one, with their progress. A loop that ends early ends the bar.

    Args:
        iterable: what gives the items.
        what, unit: as of Progress.
        total: how many items there are, where the iterable has no length.
    """
    with Progress(what, _length(iterable) if total is None else total, unit) as shown:
        for item in iterable:
            yield item
            shown.step()


@contextlib.contextmanager
def watched(what: str, total: int | None, done: Callable[[], int], unit: str = "step") -> Iterator[None]:
    """Progress of one call that counts by itself: a thread asks done() five times a second while the block runs. `what`, `total`
    and `unit` are as of Progress.

    >>> with watched("measuring", 100, lambda: 5):
    ...     pass
    """
    stop = threading.Event()

    def look():
        while not stop.wait(0.2):
            shown.step(done() - shown.done)

    with Progress(what, total, unit) as shown:
        thread = threading.Thread(target=look, name="progress", daemon=True)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()
