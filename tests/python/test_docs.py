# SPDX-License-Identifier: Apache-2.0
"""What the documentation shows runs: the Python of README.md and docs/python.md, and the examples in docstrings."""
import doctest
import os
import pathlib
import shutil
import subprocess

import torch
from page import ROOT, blocks, run

import sambaflow.runtime
import sambaflow.samba.sambatensor
import sambaflow.sambacollections

BUILD = pathlib.Path(os.environ.get("SAMBAFLOW_BUILD", ROOT / "build"))


def test_readme(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (code,) = blocks("README.md", "python")
    names = {"__name__": "page"}
    run("README.md", code, names)
    x = torch.randn(1000, 2)
    right = ((names["model"](x).flatten() > 0) == (x.square().sum(1) < 1)).float().mean()
    assert right > 0.9  # half of the points would be right by chance


def test_readme_in_c(tmp_path):
    (code,) = blocks("README.md", "c")
    (tmp_path / "circle.c").write_text(code, encoding="utf-8")
    subprocess.run(["gcc", "-std=c11", "-Wall", "-Wextra", "-Werror", f"-I{ROOT / 'include'}", "circle.c", "-o", "circle", f"-L{BUILD}", "-lsambaflow",
                    f"-Wl,-rpath,{BUILD}"], cwd=tmp_path, check=True)  # fmt: skip
    lines = subprocess.run(["./circle"], cwd=tmp_path, check=True, capture_output=True, text=True).stdout.split("\n")
    losses = [float(line.split()[-1]) for line in lines if line.startswith("step")]
    assert len(losses) == 6 and losses[-1] < 0.2 < 0.6 < losses[0]  # ln 2 when it knows nothing


def test_page(tmp_path, monkeypatch, capsys):
    """Its blocks one after the other. What the C program of the page writes, it writes here too (test_train_in_c.py builds that)."""
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "page"}
    for code in blocks("docs/python.md", "python"):
        if "digits-c.safetensors" in code:
            shutil.copy("digits.safetensors", "digits-c.safetensors")
        run("docs/python.md", code, names)
    assert float(capsys.readouterr().out.split()[-1]) > 0


def test_docstrings():
    for module in (sambaflow.runtime, sambaflow.samba.sambatensor, sambaflow.sambacollections):
        assert doctest.testmod(module).failed == 0
