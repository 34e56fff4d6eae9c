# SPDX-License-Identifier: Apache-2.0
"""What a session says to misuse is what messages/*.txt say, word for word; tests/unit/test_messages.c has the same of C."""

import pathlib

import misuse_session
import pytest

# what must have a rule: every error that a session states, and what stands beside it
RULES = """the model is a module|optimizers: none, one or several|loss_indices are outputs|names and folders|what a graph has no operator for|'spatial' is refused with sizes
a PEF is loaded|the first difference, with operators, shapes and names|how it was mapped|gradients of outputs|a PEF was traced before|an input of a wrong name, shape or dtype
values out of range|an output that is not there|section types that are not in the PEF list those that are|section ids|sections that cannot run now|call ids|grad_of_outputs
an unknown hyperparameter lists the known|data parallel|names of graphs|what graphs share|an unknown graph_name lists the graphs|what a graph has not|tensors by name
weights as a file|checkpoints|lazy parameters|pinned memory|profiles|how a program ends|settings
changed on the host behind trace_graph""".replace("\n", "|").split("|")  # noqa: E501


@pytest.mark.parametrize("part", misuse_session.parts())
def test_messages(part, monkeypatch):
    monkeypatch.setenv("ENABLE_RUNTIME_PERF", "")
    bad = misuse_session.wrong(part)
    assert not bad, "\n".join(bad)


def test_every_rule_has_misuses():
    rows = misuse_session.misuses("session")
    for rule in RULES:
        assert any(rule in its and message for its, _, message in rows), rule


def test_a_change_is_noticed(tmp_path, monkeypatch):
    monkeypatch.setattr(misuse_session, "FOLDER", tmp_path)
    path = pathlib.Path(tmp_path / "some.txt")
    path.write_text(
        'ids\n    run(section_ids=[3])\n        ArgumentError: another sentence\n    run(section_types=["FWD"])\n    run()\n'
    )
    other, harmless, trained = misuse_session.wrong("some")
    assert "another sentence" in other and "nothing is wrong" in harmless and "the weights changed" in trained
    path.write_text("ids\n  run(section_ids=[3])\n")
    with pytest.raises(SystemExit, match="some.txt:2"):
        misuse_session.wrong("some")
