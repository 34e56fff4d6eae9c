# SPDX-License-Identifier: Apache-2.0
"""Progress is a bar on a terminal and few lines elsewhere, on stderr; results on stdout are what they are without."""

import errno
import fcntl
import importlib
import io
import os
import pty
import re
import struct
import subprocess
import sys
import termios
import time

import pytest
import torch
from fragments import ROOT

import sambaflow.samba as samba
import sambaflow.samba.utils as utils
from sambaflow.samba import progress as module
from sambaflow.samba.progress import Progress, progress, watched
from sambaflow.samba.sambaloader import SambaLoader


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def opened(monkeypatch):
    """Puts a terminal at stderr and returns it;
    pytest gives each phase of a test an stderr of its own, so the test itself has to ask."""

    def opened():
        monkeypatch.setattr(sys, "stderr", file := Terminal())
        return file

    return opened


def batches(count):
    return [(torch.full((2, 3), float(i)), torch.zeros(2)) for i in range(count)]


def traced(folder):
    model, x = samba.from_torch_model_(torch.nn.Linear(3, 2)), samba.randn(4, 3, name="x")
    optim = samba.optim.SGD(model.parameters(), lr=0.1)
    utils.trace_graph(model, (x,), optim, pef=samba.session.compile(model, (x,), optim, output_folder=folder))
    return model, (x,)


def test_tqdm_of_a_loader():
    """What people write without us: the total and the count are those of the torch loader."""
    tqdm, file = pytest.importorskip("tqdm"), io.StringIO()
    bar = tqdm.tqdm(SambaLoader(batches(7), ["x", "y"]), file=file, mininterval=0)
    assert bar.total == 7 and [x[0, 0].item() for x, _ in bar] == list(range(7)) and bar.n == 7
    assert "7/7" in file.getvalue()
    bar = tqdm.tqdm(SambaLoader((x for x in batches(3)), ["x", "y"]), file=file)
    assert bar.total is None and len(list(bar)) == 3


def test_bar(opened):
    terminal = opened()
    for i, (x, y) in enumerate(progress(SambaLoader(batches(5), ["x", "y"]), "epoch 1/2")):
        assert x[0, 0].item() == i and y.sn_name == "y"
        time.sleep(0.12)  # tqdm draws ten times a second
    drawn = terminal.getvalue()
    assert re.search(r"\repoch 1/2: +\d+%\|.*\| [1-4]/5 \[\d\d:\d\d<\d\d:\d\d, +[\d.]+(step/s|s/step)\]", drawn), drawn
    assert drawn.rsplit("\r", 2)[-2].strip() == "" and drawn.endswith("\r") and "\n" not in drawn  # the line is clean again


def test_bar_ends_with_the_loop(opened):
    terminal = opened()
    for _ in progress(iter(range(100)), "looking"):  # no length
        break
    assert terminal.getvalue().endswith("\r")
    with pytest.raises(KeyError), Progress("failing", 3) as shown:
        shown.step()
        raise KeyError
    assert terminal.getvalue().endswith("\r")


def test_lines(monkeypatch, capsys):
    """Elsewhere: at 10 s, 20 s, 40 s ..., nothing in between and nothing for what is short."""
    now = [100.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    for _ in progress(range(600), "epoch 1/2", unit="sample"):
        now[0] += 0.25  # 150 s
    out, err = capsys.readouterr()
    assert out == "" and err.splitlines() == [
        f"epoch 1/2: {4 * s}/600 samples in {s // 60}:{s % 60:02d}, 4 samples/s, {(150 - s) // 60}:{(150 - s) % 60:02d} left"
        for s in (10, 20, 40, 80)
    ]
    for _ in progress(iter(range(30)), "reading", unit="file"):
        now[0] += 0.5
    assert capsys.readouterr().err == "reading: 20 files in 0:10, 2 files/s\n"
    for _ in progress(range(30), "short"):
        now[0] += 0.3
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("stderr", [None, "closed"])
def test_no_stderr(monkeypatch, stderr):
    file = io.StringIO()
    file.close()
    monkeypatch.setattr(sys, "stderr", None if stderr is None else file)
    monkeypatch.setattr(module, "FIRST_LINE", 0.0)
    assert list(progress(range(3), "x")) == [0, 1, 2]


def test_watched(opened):
    terminal, shown = opened(), re.compile(r"measuring: +\d+%\|.*\| [1-9]\d?/40 ")
    done, begin = [0], time.monotonic()
    with watched("measuring", 40, lambda: done[0]):
        while not shown.search(terminal.getvalue()):  # when depends on who else is at work
            assert time.monotonic() - begin < 120, terminal.getvalue()
            time.sleep(0.015)
            done[0] = min(done[0] + 1, 39)


def test_measuring(tmp_path, opened, capsys):
    """The count is the library's own; what is printed and returned does not know of it."""
    model, inputs = traced(tmp_path)
    count, shown = int(800 / utils.measure_performance(model, inputs)["median_ms"]), []  # 0.8 s
    while (
        len(shown) < 2
    ):  # on a busy machine the first measurement may have been slow, and so many take too short a time to be seen
        assert count < 1e9, "nothing is shown"
        capsys.readouterr()
        terminal = opened()
        assert utils.measure_performance(model, inputs, n_iterations=count)["iterations"] == count
        assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == ["latency", "throughput"]
        shown = [int(x) for x in re.findall(rf"\| (\d+)/{count} ", terminal.getvalue())]
        assert shown == sorted(shown) and all(0 <= x <= count for x in shown)
        count *= 2
    assert shown[-1] > 0
    assert len(utils.measure_sections(model, inputs, n_iterations=3)) == 3 and terminal.getvalue().endswith("\r")


def on_a_terminal(command, folder):
    """(status, stdout, what a terminal at stderr shows) of a command."""
    leader, follower = pty.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("4H", 24, 100, 0, 0))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    process = subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=follower)
    os.close(follower)
    shown = b""
    while True:
        try:
            part = os.read(leader, 65536)
        except OSError as error:  # so Linux says that nobody has the other end any more
            assert error.errno == errno.EIO
            break
        if not part:
            break
        shown += part
    os.close(leader)
    out = process.stdout.read().decode()
    process.stdout.close()
    return process.wait(60), out, shown.decode()


def test_example_on_a_terminal(tmp_path, monkeypatch, opened, capsys):
    folder = ROOT / "examples" / "python"
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(folder))
    resffn = importlib.import_module("resffn")
    small, pef = ["-b", "40", "--hidden-size", "16"], ["-p", "out/ResFFNLogReg/ResFFNLogReg.pef"]
    resffn.main(["compile", *small])
    capsys.readouterr()
    terminal = opened()
    resffn.main(["test", *small, *pef])
    assert (
        capsys.readouterr().out.count("greatest difference") == 2
        and "testing:   0%|" in terminal.getvalue()
        and "/4 [" in terminal.getvalue()
    )
    status, out, shown = on_a_terminal(
        [sys.executable, str(folder / "resffn.py"), "run", *small, *pef, "--num-epochs", "1"], tmp_path
    )
    assert status == 0 and re.fullmatch(r"epoch 1/1  loss [\d.]+\ntest loss [\d.]+  accuracy [\d.]+%\n", out), (out, shown)
    assert re.search(r"\repoch 1/1: +\d+%\|.*\| \d+/100 \[", shown) and "testing:" in shown


def test_imported_when_a_bar_is_shown(monkeypatch):
    """Neither the part without torch nor a program whose stderr is no terminal needs tqdm."""
    code = (
        "import sys; sys.modules['tqdm'] = None; import sambaflow, sambaflow.runtime, sambaflow.logging, "
        "sambaflow.sambacollections"
    )
    subprocess.run(
        [sys.executable, "-c", code],
        check=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
    )
    monkeypatch.setitem(sys.modules, "tqdm", None)
    assert not sys.stderr.isatty() and list(progress(range(3), "x")) == [0, 1, 2]
