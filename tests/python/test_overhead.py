# SPDX-License-Identifier: Apache-2.0
"""What Python costs around the C calls: a run, an import. Counted, not timed, so that any machine at any load says the same;
bench/overhead.py has the times."""

import os
import subprocess
import sys

import pytest
from torch import nn

import sambaflow.samba as samba


class LogReg(nn.Module):
    def __init__(self, layers=1):
        super().__init__()
        self.before = nn.ModuleList(nn.Linear(64, 64) for _ in range(layers - 1))
        self.lin = nn.Linear(64, 10)

    def forward(self, image, label):
        for layer in self.before:
            image = layer(image)
        logits = self.lin(image)
        return nn.functional.cross_entropy(logits, label), logits


def counted(call):
    """(opcodes that the interpreter executes, functions that are called: Python's and C's)"""
    opcodes, calls = 0, 0

    def trace(frame, event, _):
        nonlocal opcodes
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        opcodes += event == "opcode"
        return trace

    def profile(_frame, event, _):
        nonlocal calls
        calls += event in ("call", "c_call")

    for begin, hook in ((sys.settrace, trace), (sys.setprofile, profile)):
        begin(hook)
        try:
            call()
        finally:
            begin(None)
    return opcodes, calls - 1  # that which ends the profile


def runs(folder, layers):
    """Ways of running: name -> call"""
    samba.session.reset()
    model = samba.from_torch_model_(LogReg(layers))
    inputs = (samba.randn(1, 64, name="image"), samba.randint(10, (1,), name="label"))
    optim = samba.optim.SGD(model.parameters(), lr=0.01)
    pef = samba.session.compile(model, inputs, optim, loss_indices=[0], output_folder=str(folder))
    outputs = samba.utils.trace_graph(model, inputs, optim, pef=pef, loss_indices=[0])
    return {
        "both outputs": lambda: samba.session.run(inputs, outputs),
        "the loss": lambda: samba.session.run(inputs, outputs[:1]),
        "a hyperparameter": lambda: samba.session.run(inputs, outputs, hyperparam_dict={"lr": 0.1}),
    }


# As Python 3.11 counts: 666 opcodes are 8.5 us above the C call on an idle machine.
MOST = {"both outputs": (840, 58), "the loss": (760, 49), "a hyperparameter": (910, 65)}


@pytest.mark.parametrize("name", MOST)
def test_run(tmp_path, name):
    found = []
    for layers in (1, 5):
        call = runs(tmp_path / str(layers), layers)[name]
        for _ in range(3):  # the first ones prepare what later ones use
            call()
        found += [counted(call), counted(call)]
    opcodes, calls = found[0]
    assert found == [found[0]] * 4, "a run costs as much as the one before it, and no more for a model of more parameters"
    assert 0 < opcodes <= MOST[name][0] and 0 < calls <= MOST[name][1], (
        f"{opcodes} opcodes and {calls} calls, at most {MOST[name]} wanted"
    )


IMPORT = """
import sys
before, calls = set(sys.modules), 0
def profile(frame, event, argument):
    global calls
    calls += event in ("call", "c_call") and not frame.f_code.co_filename.startswith("<frozen importlib")  # its depends on sys.path
sys.setprofile(profile)
import sambaflow
sys.setprofile(None)
print(calls, *sorted({name.partition(".")[0] for name in sys.modules.keys() - before} - sys.stdlib_module_names))
"""  # noqa: E501


def test_import_is_light():
    """Neither torch nor NumPy comes with it, and it does little: 21 calls beside what finds modules."""
    done = subprocess.run(
        [sys.executable, "-c", IMPORT],
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    calls, *modules = done.stdout.split()
    assert modules == ["_cffi_backend", "sambaflow"]
    assert 0 < int(calls) <= 30, f"importing sambaflow calls {calls} functions, at most 30 wanted"
