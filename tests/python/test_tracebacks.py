# SPDX-License-Identifier: Apache-2.0
"""What Python prints of a refusal that nobody caught: the program's own lines, or all lines where that is asked for."""

import os
import subprocess
import sys

PROGRAM = """import torch, sambaflow.samba as samba
class M(torch.nn.Module):
    def forward(self, x):
        return inner(x)
def inner(x):
    return x @ torch.ones(3, 3)
samba.session.compile(samba.from_torch_model_(M()), (samba.randn(2, 4, name="x"),))
"""
CHAINED = """import sambaflow.samba as samba
try:
    1 / 0
except ZeroDivisionError as error:
    samba.session.load("nowhere.pef")
"""
OWN = """import sambaflow.samba as samba, torch
torch.nn.Linear(3, 4)(torch.ones(2))
"""


def printed(program, tmp_path, **environment):
    (tmp_path / "program.py").write_text(program)
    done = subprocess.run(
        [sys.executable, "program.py"], cwd=tmp_path, capture_output=True, text=True, env=os.environ | environment, check=False
    )
    assert done.returncode == 1
    return done.stderr


def lines_of(said):
    return [line.strip() for line in said.splitlines() if line.startswith("  File ")]


def test_short(tmp_path):
    said = printed(PROGRAM, tmp_path)
    assert [line.rsplit(", ", 2)[1] for line in lines_of(said)] == ["line 7", "line 4", "line 6"]
    assert all("program.py" in line for line in lines_of(said))
    assert "lines of sambaflow and torch are not shown; SAMBAFLOW_TRACEBACK=full shows them)" in said
    assert said.splitlines()[-1].startswith("sambaflow.errors.ShapeError: ")


def test_full(tmp_path):
    said = printed(PROGRAM, tmp_path, SAMBAFLOW_TRACEBACK="full")
    assert len(lines_of(said)) > 5 and "are not shown" not in said


def test_what_came_before_stays(tmp_path):
    said = printed(CHAINED, tmp_path)
    assert "ZeroDivisionError" in said and "During handling of the above exception" in said
    assert len(lines_of(said)) == 2


def test_errors_of_others_stay_whole(tmp_path):
    said = printed(OWN, tmp_path)
    assert "are not shown" not in said and any("torch" in line for line in lines_of(said))


def test_anothers_hook_stays(tmp_path):
    said = printed("import sys\nsys.excepthook = lambda *of: print('mine', file=sys.stderr)\n" + PROGRAM, tmp_path)
    assert said == "mine\n"
