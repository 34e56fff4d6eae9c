# SPDX-License-Identifier: Apache-2.0
"""What docs/training.md shows runs: its Python, one block after the other, then its programs in C, in the same folder."""

import os
import pathlib
import subprocess

from page import ROOT, blocks, run

PAGE = "docs/training.md"
BUILD = pathlib.Path(os.environ.get("SAMBAFLOW_BUILD", ROOT / "build"))
FLAGS = ["-std=c11", "-Wall", "-Wextra", "-Werror", f"-I{ROOT / 'include'}", f"-I{BUILD / 'include'}"]


def built(folder, name, code):
    """The program of a block, compiled as a user would."""
    (folder / f"{name}.c").write_text(code, encoding="utf-8")
    library = [f"-L{BUILD}", "-lsambaflow", "-lm", f"-Wl,-rpath,{BUILD}"]
    subprocess.run(["gcc", *FLAGS, f"{name}.c", "-o", name, *library], cwd=folder, check=True)
    return lambda *words: subprocess.run(
        [f"./{name}", *words], cwd=folder, check=True, capture_output=True, text=True
    ).stdout.splitlines()


def test_page(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "page"}
    for code in blocks(PAGE, "python"):
        run(PAGE, code, names)
    lines = capsys.readouterr().out.splitlines()
    best = next(line for line in lines if line.startswith("best accuracy"))
    assert float(best.split()[2]) > 0.8
    assert len(names["second"].rows) == 4 and names["second"].rows[:2] == names["first"].rows
    assert (tmp_path / "python-run" / "best.safetensors").is_file()

    flowers, loop, iris = (
        built(tmp_path, name, code) for name, code in zip(("flowers", "loop", "iris"), blocks(PAGE, "c"), strict=True)
    )
    lines = flowers()
    assert lines[0].startswith("epoch 1/30  step 10  loss ") and "  f1 " in lines[0]
    assert float(lines[-1].split()[2]) > 0.8 and (tmp_path / "run" / "best.safetensors").is_file()
    lines = loop()
    assert float(lines[0].split()[-1]) > float(lines[-1].split()[-1])
    lines = iris("train", "--data", "flowers.csv", "--patience", "5", "--save-best", "best.safetensors")
    last = float(lines[-1].split()[2])
    assert lines[-1].startswith("test accuracy ") and last > 60  # by chance a third
    lines = iris("run", "-p", "out/iris/iris.pef", "--data", "flowers.csv", "--inference", "--load", "best.safetensors")
    assert float(lines[-1].split()[2]) >= max(last, 75)
