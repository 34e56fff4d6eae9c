# SPDX-License-Identifier: Apache-2.0
"""Threads, collectors and memory: nothing crashes, nothing leaks."""

import copy
import gc
import io
import os
import pickle
import signal
import subprocess
import sys
import textwrap
import threading
import weakref

import numpy
import pytest
import torch
from torch import nn
from zeros import zeros_of

import sambaflow.samba as samba
from sambaflow._core import ffi, lib
from sambaflow.errors import StateError
from sambaflow.runtime import Session, Tensor
from sambaflow.samba.forward import forward_graph


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
        samba.session.run(
            (samba.from_torch_tensor(torch.randn(4, 64), "x"), inputs[1]), model.output_tensors, hyperparam_dict={"lr": 0.01}
        )

    before = resident_after(step, 2000)
    assert resident_after(step, 10000) - before < 1 << 20


def test_sessions_and_tracers_end(small):
    pef, model, inputs = small

    def again():
        session = Session(pef)
        session.run(zeros_of(session), [])
        forward_graph(model, inputs, [0], "again")

    before = resident_after(again, 30)
    assert resident_after(again, 100) - before < 4 << 20


def test_compiling_ends(small, tmp_path):
    """compile, trace_graph and reset, 100 times after a warm-up of 30."""
    pef, model, inputs = small
    optim = samba.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)

    def again():
        path = samba.session.compile(model, inputs, optim, loss_indices=[0], output_folder=str(tmp_path))
        samba.utils.trace_graph(model, inputs, optim, pef=path, loss_indices=[0])
        samba.session.reset()

    before = resident_after(again, 30)
    assert resident_after(again, 100) - before < 4 << 20


def test_transfers_operations_and_views_end(small):
    """get, set, operations outside tracing with their gradients, DLPack capsules taken and not."""
    _, model, inputs = small

    def again():
        weight = samba.session.device_get("lin.weight")
        samba.session.device_set("lin.weight", weight)
        samba.session.to_cpu(model)
        x = samba.randn(4, 64, requires_grad=True)
        (torch.relu(x) * 2).sum().backward()
        shared = Tensor.from_dlpack("x", torch.zeros(64, 64))
        torch.from_dlpack(shared)
        shared.__dlpack__()

    before = resident_after(again, 300)
    assert resident_after(again, 1000) - before < 2 << 20


def test_runs_while_collecting(small):
    """With a collection at nearly every allocation a run gives the bits that it gives without."""
    pef, model, inputs = small
    losses = []
    for stress in (False, True):
        samba.session.reset()
        outputs = samba.utils.trace_graph(model, inputs, pef=pef, loss_indices=[0])
        threshold = gc.get_threshold()
        gc.set_threshold(*((1,) if stress else threshold))
        try:
            losses.append([samba.session.run(inputs, outputs, hyperparam_dict={"lr": 0.1})[0].item() for _ in range(20)])
        finally:
            gc.set_threshold(*threshold)
    assert losses[0] == losses[1] and losses[0][-1] < losses[0][0]


def test_interrupts(small):
    """An interrupt takes effect when the run ends, which is then as whole as any; the session goes on."""
    pef, _, _ = small
    session, reference = Session(pef), Session(pef)
    x, target = (
        Tensor.wrap("x", numpy.random.default_rng(0).normal(size=(4, 64)).astype("float32")),
        Tensor("target", "int64", (4,)),
    )
    runs = 0

    def interrupt(*_):
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        for delay in (0.001, 0.0023, 0.0037, 0.005, 0.0071):
            with pytest.raises(KeyboardInterrupt):
                signal.setitimer(signal.ITIMER_REAL, delay)  # in here: on a busy machine it may end at once
                while True:
                    session.run([x, target], [])
        runs = run_count(session)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    for _ in range(runs):
        reference.run([x, target], [])
    weights = [Tensor("lin.weight", "float32", (10, 64)) for _ in range(2)]
    for each, weight in zip((session, reference), weights):
        each.get(weight)
    assert numpy.array_equal(numpy.asarray(weights[0]), numpy.asarray(weights[1])) and runs > 5


def run_count(session):
    """Runs that the library has done."""
    stats = ffi.new("samba_run_stats *")
    lib.samba_session_stats(session.c, stats)
    return stats.runs


FORKED = """
import os, signal, sys, threading
from sambaflow.runtime import Session
from zeros import zeros_of

pef = sys.argv[1]
parent = Session(pef, threads=2)
parent.run(zeros_of(parent))


def in_child(work):
    child = os.fork()
    if child == 0:
        signal.alarm(30)  # what waits for threads that are not there
        try:
            work()
        except BaseException as error:
            print(error)
            os._exit(1)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0, work


def run_new(threads):
    session = Session(pef, threads=threads)
    session.run(zeros_of(session))
    return True


def in_a_thread():
    done = []
    thread = threading.Thread(target=lambda: done.append(run_new(2)))
    thread.start()
    thread.join()
    assert done


in_child(parent.run)
in_child(lambda: run_new(2))
in_child(lambda: run_new(1))
in_child(in_a_thread)
in_child(lambda: (parent.run(), in_child(parent.run)))
parent.run()
"""


def test_forks(small):
    """A child of fork has none of OpenMP's threads: sessions get theirs anew, its parent's too, and the parent goes on."""
    pef, _, _ = small
    subprocess.run(
        [sys.executable, "-c", FORKED, pef], check=True, timeout=60, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    )


def model_again(way, model):
    return copy.deepcopy(model) if way == "deepcopy" else pickle.loads(pickle.dumps(model))


@pytest.mark.parametrize("way", ["deepcopy", "pickle"])
def test_copies_of_models(way):
    """As of torch's own parameters: equal values in other memory, names, tied parameters, buffers."""
    plain = nn.Sequential(nn.Linear(6, 6), nn.BatchNorm1d(6), nn.Linear(6, 6))
    plain[2].weight = plain[0].weight
    model = samba.from_torch_model_(plain)
    again = model_again(way, model)
    assert again[0].weight is again[2].weight and isinstance(again[0].weight, nn.Parameter)
    for (name, mine), (its_name, its) in zip(model.state_dict(keep_vars=True).items(), again.state_dict(keep_vars=True).items()):
        assert (
            name == its_name
            and type(its) is type(mine)
            and its.sn_name == mine.sn_name
            and its.requires_grad == mine.requires_grad
        )
        assert torch.equal(its.torch(), mine.torch()) and its.data_ptr() != mine.data_ptr()
    file = io.BytesIO()
    torch.save(model.state_dict(), file)
    file.seek(0)
    again.load_state_dict(torch.load(file))


def test_copies_of_tensors():
    tensor = samba.randn(2, 3, name="x", batch_dim=0, requires_grad=True)
    (tensor * 2).sum().backward()
    again = copy.deepcopy(tensor)
    assert (again.sn_name, again.batch_dim, again.requires_grad) == ("x", 0, True) and torch.equal(
        again.grad.torch(), tensor.grad.torch()
    )
    empty = pickle.loads(pickle.dumps(samba.SambaTensor(shape=(2,), dtype=torch.int64, name="e")))
    assert (empty.sn_name, empty.has_data, tuple(empty.shape), empty.dtype) == ("e", False, (2,), torch.int64)
    assert copy.copy(tensor).data_ptr() == tensor.data_ptr() and weakref.ref(tensor)() is tensor
    with pytest.raises(RuntimeError, match="detach"):
        copy.deepcopy(tensor * 2)


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
        from zeros import zeros_of
        session = Session({pef!r})
        cycle = [session, session.context, Tensor.zeros("t", "float32", (3,), session.context)]
        cycle.append(cycle)
        session.run(zeros_of(session), [])
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
    """Who finds a session in use is told, and waits for nothing."""
    pef, _, _ = small
    session, told = Session(pef), []
    x = Tensor("x", "float32", (4, 64))

    def work():
        for call in (
            session.run,
            lambda: session.get(x),
            lambda: session.set(x),
            lambda: session.save("nowhere"),
            lambda: session.load("nowhere"),
        ):
            with pytest.raises(StateError, match="is used by another thread"):
                call()
            told.append(call)

    thread = threading.Thread(target=work)
    with session._mine():  # as a run does
        thread.start()
        thread.join(30)
    assert len(told) == 5
    session.run(zeros_of(session))


def test_a_run_holds_what_it_is_given(small, monkeypatch):
    """Tensors that nobody but the call itself knows: their memory is there until the run is over."""
    pef, _, _ = small
    session, gone, seen = Session(pef), [], []
    (output,) = session.names("output")

    def passing(name, array):
        weakref.finalize(array, gone.append, name)
        return Tensor.wrap(name, array)

    run = Session._run

    def watched(self, *arguments, **more):
        gc.collect()
        seen.extend(gone)
        run(self, *arguments, **more)

    monkeypatch.setattr(Session, "_run", watched)
    session.run(
        [passing("x", numpy.ones((4, 64), "f")), passing("target", numpy.zeros(4, "int64"))],
        [passing(output, numpy.zeros((), "f"))],
    )
    assert not seen
    gc.collect()
    assert {"x", "target", output} <= set(gone)
