# SPDX-License-Identifier: Apache-2.0
"""The tutorial and the guides run as they stand, and print what they show (tests/docs/book.py); those without Python:
tests/e2e/book.sh."""

import os
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "docs"))
import book

BUILD = os.environ.get("SAMBAFLOW_BUILD", str(ROOT / "build"))


@pytest.mark.parametrize("page", [*filter(book.needs_python, book.pages())], ids=lambda page: page.stem)
def test_page(page):
    done = subprocess.run(
        [sys.executable, book.__file__, "--build", BUILD, str(page)], capture_output=True, text=True, timeout=900
    )
    assert done.returncode == 0, done.stderr


def test_what_counts_as_the_same():
    alike = [
        ("loss 0.26", "loss 0.28"),
        ("epoch 1/5", "epoch 1/5"),
        ("917 of 1000", "921 of 1000"),
        ("0.46 ms each ...", "1.5 ms each (2 threads)"),
        ("a  b", "a b"),
    ]
    for shown, printed in alike:
        assert book.same([shown], [printed]), (shown, printed)
    for shown, printed in [
        ("loss 0.26", "loss 0.46"),
        ("epoch 1/5", "epoch 2/5"),
        ("a", "b"),
        ("917", "617"),
        ("3 stages", "4 stages"),
    ]:
        assert not book.same([shown], [printed]), (shown, printed)
    assert book.same(["a", "...", "c"], ["a", "b", "b", "c"]) and not book.same(["a", "...", "c"], ["a", "b"])


def test_a_wrong_page_is_noticed(tmp_path, capsys):
    page = tmp_path / "page.md"
    page.write_text("```python\nprint(1)\n```\n\n```text\n2\n```\n\n```console\n$ false\n```\n\n```python\n1 / 0\n```\n")
    book.ROOT = tmp_path
    assert book.Page(page, pathlib.Path(BUILD)).run() == 3
    told = capsys.readouterr().err
    assert "page.md:2: it prints something else" in told and "exit status 1 of: false" in told and "ZeroDivisionError" in told
