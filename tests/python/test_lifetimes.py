# SPDX-License-Identifier: Apache-2.0
"""Threads, collectors and memory: nothing crashes, nothing leaks."""
import gc
import os
import subprocess
import sys
import textwrap
import threading
import time
import weakref

import pytest
import torch
from torch import nn

import sambaflow.samba as samba
from sambaflow.errors import StateError
from sambaflow.runtime import Session, Tensor


class Small(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(64, 10)

    def forward(self, x, target):
        return nn.functional.cross_entropy(self.lin(x), target)


@pytest.fixture
def small(tmp_path):
    model = samba.from_torch_model_(Small())
    inputs = (samba.randn(4, 64, name="x"), samba.randint(10, (4,), name="target"))
    optim = samba.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    pef = samba.session.compile(model, inputs, optim, loss_indices=[0], output_folder=str(tmp_path))
    samba.utils.trace_graph(model, inputs, optim, pef=pef, loss_indices=[0])
    return pef, model, inputs


def resident_after(work, count):
    """Bytes of memory the process has after doing it so often."""
    for _ in range(count):
        work()
    gc.collect()
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_memory_stays_flat(small):
    pef, model, inputs = small

    def step():
        samba.session.run((samba.from_torch_tensor(torch.randn(4, 64), "x"), inputs[1]), model.output_tensors, hyperparam_dict={"lr": 0.01})

    before = resident_after(step, 2000)
    assert resident_after(step, 10000) - before < 1 << 20


def test_sessions_and_tracers_end(small):
    pef, model, inputs = small

    def again():
        session = Session(pef)
        session.run([], [])
        samba.session._trace(model, inputs, [0], "again")

    before = resident_after(again, 30)
    assert resident_after(again, 100) - before < 4 << 20


def test_collector_in_any_order(small):
    pef, _, _ = small
    threshold = gc.get_threshold()
    gc.set_threshold(1)  # a collection at nearly every allocation
    try:
        for _ in range(5):
            session = Session(pef)
            cycle = [session, Tensor.zeros("t", "float32", (3,), session.context), session.context]
            cycle.append(cycle)  # ends in whatever order the collector likes
            alive = weakref.ref(session)
            del session, cycle
            gc.collect()
            assert alive() is None
    finally:
        gc.set_threshold(*threshold)


def test_end_of_the_interpreter(small, tmp_path):
    pef, _, _ = small
    program = textwrap.dedent(f"""
        from sambaflow.runtime import Session, Tensor
        session = Session({pef!r})
        cycle = [session, session.context, Tensor.zeros("t", "float32", (3,), session.context)]
        cycle.append(cycle)
        session.run([], [])
    """)
    for _ in range(3):
        subprocess.run([sys.executable, "-c", program], check=True, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})


def test_two_threads_two_sessions(small):
    pef, _, _ = small
    results, errors = {}, []

    def work(seed):
        try:
            session = Session(pef, seed=seed)
            x = Tensor.zeros("x", "float32", (4, 64), session.context)
            target = Tensor.zeros("target", "int64", (4,), session.context)
            loss = Tensor.zeros("output_0", "float32", (), session.context)
            values = []
            for _ in range(200):
                session.run([x, target], [loss])
                values.append(loss.tolist())
            results.setdefault(seed, []).append(values)
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in (1, 2, 1, 2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert results[1][0] == results[1][1] == results[2][0] == results[2][1]  # weights of a PEF traced from Python start at 0


def test_two_threads_one_session(small):
    pef, _, _ = small
    session, refused, stop = Session(pef), [], time.monotonic() + 5

    def work():
        while not refused and time.monotonic() < stop:
            try:
                session.run([], [])
            except StateError as error:
                refused.append(str(error))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if refused:  # they may never have met
        assert "used by another thread" in refused[0]
