# SPDX-License-Identifier: Apache-2.0
# made by tools/stubs.py
import os
from typing import NamedTuple

class Machine(NamedTuple):
    threads: int
    flops_per_second: float
    bf16_flops_per_second: float
    memory_bytes_per_second: float
    cache_bytes_per_second: float
    processor: str
    measured_at: int = 0
    others: float = -1.0

def machine(threads: int) -> Machine: ...

class Report:
    html: str
    name: str

    def __init__(self, page: str, name: str) -> None: ...
    def _repr_html_(self) -> str: ...
    def save(self, path: str | os.PathLike[str]) -> None: ...
