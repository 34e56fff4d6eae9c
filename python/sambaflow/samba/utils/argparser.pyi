# SPDX-License-Identifier: Apache-2.0
# made by tools/stubs.py
import argparse
import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from sambaflow.samba.samba_session import SambaSession

COMMANDS: tuple[str, ...]
_Add = Callable[[argparse.ArgumentParser], Any] | None

def parse_app_args(
    argv: Iterable[str] | None = None,
    dev_mode: bool = False,
    common_parser_fn: _Add = None,
    compile_parser_fn: _Add = None,
    test_parser_fn: _Add = None,
    run_parser_fn: _Add = None,
    measure_performance_parser_fn: _Add = None,
    measure_sections_parser_fn: _Add = None,
    *,
    session: SambaSession | None = None,
) -> argparse.Namespace: ...
def parse_yaml_to_args(
    path: str | os.PathLike[str], argv: Sequence[str] | None = None, **parser_fns: Any
) -> argparse.Namespace: ...
