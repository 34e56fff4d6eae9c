# SPDX-License-Identifier: Apache-2.0
"""What the documentation shows runs: the Python blocks of docs/python.md, one after the other, and the examples in docstrings."""
import doctest
import pathlib
import re

import sambaflow.runtime
import sambaflow.samba.sambatensor
import sambaflow.sambacollections

ROOT = pathlib.Path(__file__).resolve().parents[2]


def test_page(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "python.md").read_text(encoding="utf-8"), re.S)
    assert len(blocks) == 3
    names = {"__name__": "page"}
    for block in blocks:
        exec(compile(block, "docs/python.md", "exec"), names)
    assert float(capsys.readouterr().out.split()[-1]) > 0


def test_docstrings():
    for module in (sambaflow.runtime, sambaflow.samba.sambatensor, sambaflow.sambacollections):
        assert doctest.testmod(module).failed == 0
