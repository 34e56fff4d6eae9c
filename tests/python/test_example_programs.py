# SPDX-License-Identifier: Apache-2.0
"""The programs to copy from, listed in examples/python/README.md, learn what they say: each asserts its own figure, which plain
PyTorch reaches with the same program."""

import pathlib
import re
import runpy
import sys

import pytest
import torch

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "examples" / "python"
PROGRAMS = re.findall(r"^\| \[(\w+)\.py\]", (FOLDER / "README.md").read_text(encoding="utf-8"), re.M)


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder of its own, as somebody would run a program there, and one thread."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(FOLDER))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.delitem(sys.modules, "digits", raising=False)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def test_all_are_listed():
    with_a_command_line = {"digits", "lenet_train", "lenet_fit", "lenet_infer", "resffn"}
    assert len(PROGRAMS) >= 25 and set(PROGRAMS) | with_a_command_line == {path.stem for path in FOLDER.glob("*.py")}


@pytest.mark.parametrize("name", PROGRAMS)
def test_learns(name, place, monkeypatch):
    monkeypatch.setattr(sys, "argv", [f"{name}.py"])
    runpy.run_path(str(FOLDER / f"{name}.py"), run_name="__main__")
