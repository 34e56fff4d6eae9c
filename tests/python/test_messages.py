# SPDX-License-Identifier: Apache-2.0
"""What operators say to misuse is what tests/operators/messages/<family>.txt says, word for word."""

import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "operators"))
import misuse


@pytest.mark.parametrize("family", misuse.families())
def test_messages(family):
    bad = misuse.wrong(family)
    assert not bad, "\n".join(bad)


def test_every_operator_has_misuses(tmp_path, monkeypatch):
    assert not misuse.missing()
    monkeypatch.setattr(misuse, "FOLDER", tmp_path)
    assert "norm: softmin has 0 misuses, expected 3 or more" in misuse.missing()


def test_a_change_is_noticed(tmp_path, monkeypatch):
    (tmp_path / "some.txt").write_text(
        "softmax\n    F.softmax(int64(3), dim=0)\n        DtypeError: softmax: another sentence\n    "
        "F.softmax(float32(3), dim=0)\n"
    )
    monkeypatch.setattr(misuse, "FOLDER", tmp_path)
    fewer, other, harmless = misuse.wrong("some")
    assert "2 misuses" in fewer and "another sentence" in other and "nothing is wrong" in harmless
    (tmp_path / "some.txt").write_text("softmax\n  F.softmax(int64(3), dim=0)\n")
    with pytest.raises(SystemExit, match="some.txt:2"):
        misuse.wrong("some")
