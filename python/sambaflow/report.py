# SPDX-License-Identifier: Apache-2.0
"""The page of a session: sections, timeline, roofline, memory over time, stages with their operators, as one HTML file that needs
no network. The library makes it (samba_session_page); times are in it where they were measured."""

import functools
import html
import os
from typing import NamedTuple

from sambaflow._core import ffi, lib
from sambaflow.runtime import thread_context
from sambaflow.words import path_of, text


class Machine(NamedTuple):
    """The most that so many threads were seen to do in a second (samba_machine);
    bf16 is 0 where the processor has no such instruction. `measured_at`: seconds since 1970 (0: not known); `others`: what
    other programs had of the processors' time meanwhile, 0 to 1 (below 0: not known)."""

    threads: int
    flops_per_second: float
    bf16_flops_per_second: float
    memory_bytes_per_second: float
    cache_bytes_per_second: float
    processor: str
    measured_at: int = 0
    others: float = -1.0

    def __str__(self):
        """
        >>> str(Machine(2, 230e9, 0.0, 31e9, 150e9, "Some CPU"))
        'Some CPU, 2 threads: 230 GFLOP/s fp32, reads 31.0 GB/s from memory and 150 GB/s from cache'
        """
        bf16 = f", {self.bf16_flops_per_second / 1e9:.0f} GFLOP/s bf16" if self.bf16_flops_per_second else ""
        return (
            f"{self.processor or 'this machine'}, {self.threads} thread{'s' if self.threads > 1 else ''}: "
            f"{self.flops_per_second / 1e9:.0f} GFLOP/s fp32{bf16}, "
            f"reads {self.memory_bytes_per_second / 1e9:.1f} GB/s from memory and "
            f"{self.cache_bytes_per_second / 1e9:.0f} GB/s from cache"
        )


@functools.cache
def machine_struct(threads):
    """samba_machine for so many threads, measured the first time."""
    found, context = ffi.new("samba_machine *"), thread_context()
    context.check(lib.samba_machine_measure(context.c, threads, found))
    return found


def machine(threads: int) -> Machine:
    """What so many threads of this machine can do at most, as a Machine: measured the first time, which takes a second, then
    known.

    >>> found = machine(1)
    >>> found.flops_per_second > 0 and found.cache_bytes_per_second > 0 and machine(1) == found
    True
    """
    found = machine_struct(threads)
    return Machine(
        found.threads,
        found.flops_per_second,
        found.bf16_flops_per_second,
        found.memory_bytes_per_second,
        found.cache_bytes_per_second,
        text(found.processor),
        found.measured_at,
        found.others,
    )


class Report:
    """A page: `html` is its text, `save(path)` writes it, a notebook shows it.

    >>> Report("<p>a page</p>", "small.pef")
    Report('small.pef', 13 characters of HTML)
    """

    html: str
    name: str

    def __init__(self, page: str, name: str) -> None:
        self.html, self.name = page, name

    def __repr__(self):
        return f"Report({self.name!r}, {len(self.html)} characters of HTML)"

    def _repr_html_(self) -> str:
        """In a frame of its own: the page's style and script meet none of the notebook's."""
        return f'<iframe srcdoc="{html.escape(self.html)}" style="width: 100%; height: 900px; border: 0" title="{html.escape(self.name)}"></iframe>'  # noqa: E501

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the page."""
        with open(path_of(path), "w", encoding="utf-8") as file:
            file.write(self.html)
