# SPDX-License-Identifier: Apache-2.0
"""What a session does around runs: pinned memory and loaders, profiles, how a program ends, settings, names of operators."""

import atexit
import json
import os
import re
import subprocess
import sys
import threading
import time
import types

import pytest
import torch

import sambaflow.samba as samba
import sambaflow.samba.utils as utils
from sambaflow.samba.sambaloader import SambaLoader
from sambaflow.samba.utils.argparser import parse_app_args


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = torch.nn.Linear(12, 5)

    def forward(self, x, label):
        logits = self.lin(x)
        return torch.nn.functional.cross_entropy(logits, label), logits


@pytest.fixture
def traced(tmp_path):
    model = samba.from_torch_model_(Model())
    inputs = samba.randn(8, 12, name="x"), samba.randint(5, (8,), name="label")
    optim = samba.optim.SGD(model.parameters(), lr=0.1)
    pef = samba.session.compile(model, inputs, optim, name="host", loss_indices=[0], output_folder=str(tmp_path))
    return model, inputs, utils.trace_graph(model, inputs, optim, pef=pef, loss_indices=[0]), pef


def batches(count, fail=None):
    for i in range(count):
        if i == fail:
            raise KeyError("the data ends here")
        yield torch.full((8, 12), float(i)), torch.full((8,), i % 5)


def loader_threads():
    return [thread for thread in threading.enumerate() if thread.name == "SambaLoader"]


# ---- loaders and pinned memory ----


@pytest.mark.parametrize("pinned", (False, True))
def test_loader(traced, pinned):
    """Trains as the same batches given by hand do; with pinned memory on the device's own memory."""
    model, inputs, outputs, pef = traced
    expected = [
        samba.session.run((samba.from_torch_tensor(x, name="x"), samba.from_torch_tensor(y, name="label")), outputs)[0].item()
        for x, y in batches(6)
    ]
    utils.trace_graph(model, inputs, None, pef=pef, loss_indices=[0])  # from the start again
    assert not samba.session.use_pinned_memory()
    if pinned:
        samba.session.enable_pinned_memory()
    assert samba.session.use_pinned_memory() == pinned
    found, places = [], set()
    for i, (x, label) in enumerate(SambaLoader(batches(6), ["x", "label"])):
        assert x.sn_name == "x" and label.sn_name == "label"
        assert torch.equal(x.torch(), torch.full((8, 12), float(i)))
        assert torch.equal(x.sn_data, x.torch()) or not pinned  # it is there before the run
        places.add(x.data_ptr())
        found.append(samba.session.run((x, label), outputs)[0].item())
    assert found == expected
    assert not loader_threads()
    if pinned:
        assert len(places) == 1  # the device's own memory
        x.torch().fill_(7)
        assert torch.equal(x.sn_data, torch.full((8, 12), 7.0))
        samba.session.disable_pinned_memory()
        assert not samba.session.use_pinned_memory()
        ((x, _),) = SambaLoader(batches(1), ["x", "label"])
        assert x.data_ptr() not in places


def test_pinned_memory_outlives_the_session(traced):
    samba.session.enable_pinned_memory()
    ((x, label),) = SambaLoader(batches(1), ["x", "label"])
    samba.session.reset()
    assert not samba.session.use_pinned_memory()
    assert x.torch().sum() == 0 and label.torch().sum() == 0


def test_pinned_batches_are_checked(traced):
    """What the device cannot take is refused where the batch comes, and the thread ends."""
    samba.session.enable_pinned_memory()
    for item, kind, message in (
        (
            (torch.zeros(7, 12), torch.zeros(8, dtype=torch.int64)),
            ValueError,
            r'"x" has the shape \(8, 12\) in the PEF and \(7, 12\) was given',
        ),
        ((torch.zeros(8, 12), torch.zeros(8)), TypeError, '"label" is int64'),
    ):
        with pytest.raises(kind, match=message):
            list(SambaLoader([item], ["x", "label"]))
        assert not loader_threads()
    for batch in SambaLoader(
        [(torch.zeros(8, 12), torch.full((8,), 5))], ["x", "label"]
    ):  # indices are looked up by the run that reads them
        with pytest.raises(ValueError, match="label.* = 5 is outside"):
            samba.session.run(batch)
        with pytest.raises(ValueError, match="label.* = 5 is outside.*it was set before"):
            samba.session.run()
    samba.session.reset()
    samba.session.enable_pinned_memory()
    with pytest.raises(RuntimeError, match="no PEF is loaded"):
        list(SambaLoader(batches(1), ["x", "label"]))


def test_pinned_event(traced, tmp_path):
    samba.session.enable_pinned_memory()
    with samba.session.samba_profile(tmp_path / "events.json") as profiler:
        for x, label in SambaLoader(batches(3), ["x", "label"]):
            samba.session.run((x, label), traced[2])
    assert profiler.events["PyRT_SET_PINNED_INPUT_TENSORS"][0] == 3
    events = json.loads((tmp_path / "events.json").read_text())["traceEvents"]
    assert [e["name"] for e in events if e["ph"] == "X"].count("PyRT_RUN") == 3 and all(
        e["dur"] >= 0 for e in events if e["ph"] == "X"
    )


@pytest.mark.parametrize("pinned", (False, True))
def test_loader_exceptions_and_stop(traced, pinned):
    """An exception comes where its item would have; nothing is left of a loop that was left."""
    if pinned:
        samba.session.enable_pinned_memory()
    seen = []
    with pytest.raises(KeyError, match="the data ends here") as raised:
        for x, label in SambaLoader(batches(6, fail=3), ["x", "label"], prefetch=4):
            seen.append(x.torch()[0, 0].item())
    assert seen == [0, 1, 2] and any(entry.name == "batches" for entry in raised.traceback)
    for x, label in SambaLoader(batches(1000), ["x", "label"]):
        break
    assert not loader_threads()
    iterator = iter(SambaLoader(batches(1000), ["x", "label"]))
    next(iterator)
    del iterator
    assert not loader_threads()
    made = []

    def counting():
        for item in batches(100):
            made.append(item)
            yield item

    iterator = iter(SambaLoader(counting(), ["x", "label"], prefetch=3))
    next(iterator)
    deadline = time.monotonic() + 10
    while len(made) < 4 and time.monotonic() < deadline:
        time.sleep(0.01)
    time.sleep(0.05)
    assert len(made) == 4  # one taken, three waiting
    iterator.close()
    assert not loader_threads() and len(SambaLoader([1, 2], ["x"])) == 2


def test_inputs_are_fast_access(traced):
    assert (
        samba.SambaTensor.is_fast_access("x") and traced[1][1].fast_access and not samba.SambaTensor.is_fast_access("lin.weight")
    )


# ---- profiles ----


def test_runtime_profile(traced, tmp_path, monkeypatch, capsys):
    _, inputs, outputs, _ = traced
    log = tmp_path / "profile.log"
    monkeypatch.delenv("ENABLE_RUNTIME_PERF", raising=False)
    samba.session.start_runtime_profile()
    samba.session.end_runtime_profile(log)
    assert not log.exists() and not capsys.readouterr().out  # off
    for level in ("SUMMARY", "DETAILED"):
        monkeypatch.setenv("ENABLE_RUNTIME_PERF", level)
        samba.session.start_runtime_profile(timer_enabled=level == "SUMMARY")
        with pytest.raises(RuntimeError, match="it is running"):
            samba.session.start_runtime_profile()
        for _ in range(4):
            samba.session.run(inputs, outputs)
        samba.session.run(inputs, outputs, section_types=["FWD"])
        samba.session.end_runtime_profile(log)
        assert ("s from start to end" in capsys.readouterr().out) == (level == "SUMMARY")
        text = log.read_text()
        runs = {kind: int(n) for kind, n in re.findall(r"^\d+ (FWD|BCKWD|OPT) +(\d+) ", text, re.M)}
        assert runs == {"FWD": 5, "BCKWD": 4, "OPT": 4}
        assert ("operators (section.stage)" in text) == (level == "DETAILED")
        assert "cumulative" in text and "samba_session.py" in text  # cProfile's part
        events = [e for e in json.loads((tmp_path / "profile.json").read_text())["traceEvents"] if e["ph"] == "X"]
        assert [e["name"] for e in events if e["cat"] == "section"] == 4 * ["0 FWD", "1 BCKWD", "2 OPT"] + ["0 FWD"]
        operators = [e for e in events if e["cat"] == "operator"]
        assert (len(operators) > 13) == (level == "DETAILED")
        for e in operators:  # inside their sections
            assert any(
                s["ts"] - 1 <= e["ts"] and e["ts"] + e["dur"] <= s["ts"] + s["dur"] + 1 for s in events if s["cat"] == "section"
            )
    with pytest.raises(RuntimeError, match="call start_runtime_profile first"):
        samba.session.end_runtime_profile(log)
    monkeypatch.setenv("ENABLE_RUNTIME_PERF", "ALL")
    with pytest.raises(ValueError, match="ENABLE_RUNTIME_PERF=ALL: expected SUMMARY or DETAILED"):
        samba.session.start_runtime_profile()
    monkeypatch.setenv("ENABLE_RUNTIME_PERF", "SUMMARY")
    samba.session.start_runtime_profile()
    samba.session.reset()
    with pytest.raises(RuntimeError, match="no PEF is loaded"):
        samba.session.start_runtime_profile()


# ---- how a program ends ----


HANDLERS = """
import atexit
import sambaflow.samba as samba
atexit.register(print, "normal")
samba.session.atexit_register(print, "first")
samba.session.atexit_register(print, "second", end="\\n")
print("main")
"""


def test_usual_end():
    done = subprocess.run(
        [sys.executable, "-c", HANDLERS],
        check=True,
        capture_output=True,
        text=True,
        timeout=100,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert done.stdout.split() == ["main", "second", "first", "normal"]


def ended(func, *args, handlers=(), **kwargs):
    """Exit status, words of stdout and stderr of a child process that calls use_abexit."""
    pipes = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        for stream, (_, write) in zip((1, 2), pipes):
            os.dup2(write, stream)
        sys.stdout, sys.stderr = open(1, "w", closefd=False), open(2, "w", closefd=False)
        atexit.register(print, "normal")
        for handler in (lambda: print("first"), lambda: print("second"), *handlers):
            samba.session.atexit_register(handler)
        samba.session.use_abexit(func, *args, **kwargs)
        print("never")
        os._exit(99)
    texts = []
    for read, write in pipes:
        os.close(write)
        with open(read) as file:
            texts.append(file.read())
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), texts[0].split(), texts[1]


def test_abexit():
    """Only handlers of atexit_register run, whatever func does; an exception is printed and makes the status 1."""

    def main(*args, **kwargs):
        print("main", *args, *kwargs.values())

    def failing(x):
        raise ValueError(f"no {x}")

    def leaving_a_thread():
        threading.Thread(target=threading.Event().wait).start()  # would hold up a usual end for ever

    assert ended(main, 1, key=2) == (0, ["main", "1", "2", "second", "first"], "")
    code, out, err = ended(failing, "luck")
    assert code == 1 and out == ["second", "first"] and "ValueError: no luck" in err and "Traceback" in err
    assert ended(sys.exit, 7) == (7, ["second", "first"], "") and ended(sys.exit)[0] == 0
    code, out, err = ended(sys.exit, "too bad")
    assert code == 1 and err.strip() == "too bad"
    assert ended(leaving_a_thread)[:2] == (0, ["second", "first"])
    code, out, err = ended(main, handlers=[lambda: 1 / 0])
    assert code == 0 and out == ["main", "second", "first"] and "ZeroDivisionError" in err  # the others run all the same
    with pytest.raises(TypeError, match="expected a function, given int"):
        samba.session.atexit_register(3)


# ---- settings and names ----


def test_setup(traced):
    model, inputs, _, pef = traced
    session = samba.session
    args = parse_app_args(["run", "-p", pef, "--seed", "5"])
    for given in (
        args,
        vars(args),
        types.SimpleNamespace(run=types.SimpleNamespace(pef=pef, threads=1), seed=5, epochs=3, nothing=None),
    ):
        session.reset()
        session.setup(given)
        assert session.seed == 5
        outputs = utils.trace_graph(model, inputs, None, loss_indices=[0])
        assert session.loaded().pef == pef
        session.run(inputs, outputs)
    session.setup({"data_parallel": True, "data_parallel_mode": "inorder"})
    with pytest.raises(ValueError, match="REDUCE.*compile it with data_parallel"):
        session.run(inputs, outputs)
    session.setup({"data_parallel_mode": "inorder"})
    with pytest.raises(ValueError, match="data_parallel_mode='inorder' says how data_parallel=True"):
        session.run(inputs, outputs)
    session.setup({})
    session.run(inputs, outputs)
    for given, kind, message in (
        ({"seed": "5"}, TypeError, "seed is '5': expected int"),
        ({"mapping": "free"}, ValueError, "mapping 'free'"),
        ({"data_parallel_mode": "x"}, ValueError, "data_parallel_mode 'x'"),
        (3, TypeError, "expected an object with attributes or a dict"),
    ):
        with pytest.raises(kind, match=message):
            session.setup(given)


def test_legacy_names(tmp_path):
    """Hyperparameters of dropouts are counted, not named by modules; batch normalization is refused."""
    nn = torch.nn
    model = samba.from_torch_model_(nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.1), nn.Sequential(nn.Dropout(0.2))))
    inputs, names = (samba.randn(2, 4, name="x"),), {}
    try:
        for legacy in (False, True):
            samba.session.use_legacy_names(legacy)
            pef = samba.session.compile(
                model, inputs, samba.optim.SGD(model.parameters()), name=f"m{legacy}", output_folder=str(tmp_path)
            )
            utils.trace_graph(model, inputs, None, pef=pef)
            names[legacy] = samba.session.get_dropout_rate_argin_names()
        assert names == {False: ["1.p", "2.0.p"], True: ["dropout0.p", "dropout1.p"]}
        with pytest.raises(NotImplementedError, match="batch_norm cannot be traced under legacy names"):
            samba.session.compile(samba.from_torch_model_(nn.BatchNorm1d(4)), inputs, output_folder=str(tmp_path))
    finally:
        samba.session.use_legacy_names(False)


def test_loader_of_dicts():
    """As the loaders of Hugging Face's data sets give them: names say which is which."""
    items = [{"target": torch.tensor([i]), "x": torch.full((1, 2), float(i)), "text": "left alone"} for i in range(3)]
    given = list(SambaLoader(items, ["x", "target"]))
    assert [(x.sn_name, x.tolist(), target.sn_name, target.tolist()) for x, target in given] == [
        ("x", [[i, i]], "target", [i]) for i in range(3)
    ]
    with pytest.raises(KeyError, match="an item has no 'mask'; it has target, x, text"):
        list(SambaLoader(items, ["x", "mask"]))


def test_updated_tensors_keep_their_names(tmp_path):
    model, x = samba.from_torch_model_(torch.nn.Linear(3, 2)), samba.ones(4, 3, name="x")
    utils.trace_graph(model, (x,), pef=samba.session.compile(model, (x,), inference=True, output_folder=tmp_path))
    samba.session.update_tensor("weight", samba.zeros(2, 3))
    assert samba.session.get_samba_tensor_by_name("weight").sn_name == "weight" and not model.weight.sn_data.any()
    assert [t.sn_name for t in samba.session.get_tensors_by_name("weight")] == ["weight"]
