# SPDX-License-Identifier: Apache-2.0
# made by tools/stubs.py
import contextlib
from collections.abc import Callable, Iterable, Iterator
from types import TracebackType
from typing import TypeVar

_Item = TypeVar("_Item")
FIRST_LINE: float

class Progress:
    what: str
    total: int | None
    unit: str
    done: int

    def __init__(self, what: str, total: int | None = None, unit: str = "step") -> None: ...
    def __enter__(self) -> Progress: ...
    def step(self, count: int = 1) -> None: ...
    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None: ...

def progress(iterable: Iterable[_Item], what: str, total: int | None = None, unit: str = "step") -> Iterator[_Item]: ...
@contextlib.contextmanager
def watched(what: str, total: int | None, done: Callable[[], int], unit: str = "step") -> Iterator[None]: ...
