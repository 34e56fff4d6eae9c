# SPDX-License-Identifier: Apache-2.0
"""Data parallel training: programs/replicas.py as two replicas of one thread, by each MPI that is there."""

import importlib.util
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time

import pytest
import torch
from page import blocks

import sambaflow
import sambaflow.samba as samba
import sambaflow.samba.utils as utils
from sambaflow import errors
from sambaflow.samba.sambaloader import ReplicaBatches, SambaLoader

SYNCHRONIZED = pathlib.Path(__file__).with_name("programs") / "synchronized.py"
PROGRAM = pathlib.Path(__file__).with_name("programs") / "replicas.py"
LAUNCH = pathlib.Path(__file__).parents[1] / "parallel" / "launch.sh"
PLUGINS = pathlib.Path(sambaflow.__file__).parent
SIZE = 2


def has(mpi):
    return shutil.which(f"mpirun.{mpi}") and (PLUGINS / f"libsambaflow-mpi-{mpi}.so").exists()


MPIS = ("openmpi", "mpich")


def by(mpi, *more):
    """A test's parameters; skipped where that MPI is not installed."""
    return pytest.param(mpi, *more, marks=pytest.mark.skipif(not has(mpi), reason=f"no MPI: {mpi}"))


def launched(mpi, program, *words, folder=None, environment=()):
    environment = {**os.environ, "OMP_NUM_THREADS": "1", **dict(environment)}
    command = [LAUNCH, mpi, SIZE, PLUGINS, sys.executable, program, *words]
    return subprocess.run(list(map(str, command)), env=environment, capture_output=True, text=True, timeout=100, cwd=folder)


def imported(path):
    spec = importlib.util.spec_from_file_location(f"{path.stem}_program", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def program():
    return imported(PROGRAM)


@pytest.fixture(scope="module")
def synchronized():
    return imported(SYNCHRONIZED)


def on_whole_batch(program):
    """PyTorch's losses and parameters, in one process."""
    model, losses = program.made(), []
    optim = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    for step in range(program.STEPS):
        loss, _ = model(*program.data(step, SIZE))
        optim.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optim.step()
        losses.append(loss.item())
    return losses, dict(model.named_parameters())


@pytest.mark.parametrize("mpi", [by(mpi) for mpi in MPIS])
def test_training(mpi, tmp_path, program):
    done = launched(mpi, PROGRAM, "train", tmp_path, *["ddp"][: mpi == "openmpi"])
    assert done.returncode == 0, done.stderr
    replicas = [torch.load(tmp_path / f"{rank}.pt") for rank in range(SIZE)]
    theirs = [found.pop("ddp") for found in replicas if "ddp" in found]
    losses, parameters = on_whole_batch(program)
    first = replicas[0]["normal"]
    for rank, found in enumerate(replicas):
        assert list(found) == [*program.MODES, "command line", "sharded", "sections"]
        for ours, held in found.values():
            assert ours == found["normal"][0]  # the same bits in every mode, and of parameters on every replica
            assert all(torch.equal(x, first[1][name]) for name, x in held.items()) and held.keys() == parameters.keys()
        if theirs:
            torch.testing.assert_close(torch.tensor(found["normal"][0]), torch.tensor(theirs[rank]), rtol=1e-4, atol=0)
    mean = [sum(found["normal"][0][step] for found in replicas) / SIZE for step in range(program.STEPS)]
    torch.testing.assert_close(torch.tensor(mean), torch.tensor(losses), rtol=1e-5, atol=0)
    for name, x in first[1].items():
        torch.testing.assert_close(x, parameters[name].detach(), rtol=1e-5, atol=1e-5 * x.abs().max().item())


def assert_near(given, expected, rounding=1e-5):
    """Losses, parameters and buffers; elements relative to the largest of their tensor."""
    losses, held = given
    torch.testing.assert_close(torch.tensor(losses), torch.tensor(expected[0]), rtol=rounding, atol=0)
    assert held.keys() == expected[1].keys()
    for name, x in held.items():
        wanted = expected[1][name].detach()
        torch.testing.assert_close(x, wanted, rtol=rounding, atol=rounding * wanted.abs().max().item())


@pytest.mark.parametrize("mpi", [by(mpi) for mpi in MPIS])
def test_synchronized(mpi, tmp_path, synchronized):
    """SyncBatchNorm on two replicas is PyTorch's BatchNorm on the whole batch, running statistics too, in every mode alike."""
    done = launched(mpi, SYNCHRONIZED, tmp_path)
    assert done.returncode == 0, done.stderr
    replicas = [torch.load(tmp_path / f"{rank}.pt") for rank in range(SIZE)]
    first = replicas[0]["normal"]
    for found in replicas:
        for losses, held in found.values():
            assert losses == found["normal"][0] and all(torch.equal(x, first[1][name]) for name, x in held.items())
    mean = [sum(found["normal"][0][step] for found in replicas) / SIZE for step in range(synchronized.STEPS)]
    assert_near((mean, first[1]), synchronized.on_whole_batch(SIZE))


def test_synchronized_alone(tmp_path, synchronized):
    """Of one process it is BatchNorm, compiled for replicas or not."""
    wanted = synchronized.on_whole_batch(1)
    for parallel in (True, False):
        assert_near(synchronized.trained(str(tmp_path), 0, 1, data_parallel=parallel), wanted)
    model = samba.from_torch_model_(torch.nn.SyncBatchNorm(3, process_group=object()))
    with pytest.raises(errors.UnsupportedError, match="SyncBatchNorm has a process_group, and a graph takes .* all replicas"):
        samba.session.compile(model, (samba.randn(4, 3, name="x"),), inference=True, output_folder=str(tmp_path))


@pytest.mark.parametrize("mpi, how", [*(by(mpi, "fail") for mpi in MPIS), by("openmpi", "raise"), by("mpich", "early")])
def test_exception(mpi, how, tmp_path):
    """One of one replica ends all, soon, and is told once; its handlers run."""
    done = launched(mpi, PROGRAM, how, tmp_path)
    assert done.returncode != 0
    assert time.time() - float((tmp_path / "failed").read_text()) < 60  # the other one would wait for ever
    assert done.stderr.count("ValueError: there is no such sample") == 1
    assert "handler of 1" in done.stdout
    assert "Internal error" not in done.stderr  # MPICH's, where its end is told twice
    if how != "raise":
        assert len(re.findall("replica 1 of 2: Traceback", done.stderr)) == 1


@pytest.mark.parametrize("mpi", [by(mpi) for mpi in MPIS])
def test_said_once(mpi, tmp_path):
    """What all replicas have alike."""
    done = launched(mpi, PROGRAM, "quiet", tmp_path)
    assert done.returncode == 0, done.stderr
    for words in (
        "--o0: without effect",
        "--batch-size 77 has no effect",
        "all 2 replicas begin with the same samples",
        "waiting: 1/1",
    ):
        assert done.stderr.count(words) == 1, done.stderr
    assert done.stdout.count("throughput") == 1


@pytest.mark.parametrize("mpi", [by(mpi) for mpi in MPIS])
def test_forks(mpi, tmp_path):
    """Workers of a DataLoader, and a child that asks who it is."""
    done = launched(mpi, PROGRAM, "loader", tmp_path)
    assert done.returncode == 0, done.stderr


def with_mpi4py(mpi, folder):
    """The environment in which mpi4py, as PyPI has it, is that MPI's. Debian's MPICH has another name than mpi4py looks for."""
    environment = {"MPI4PY_MPIABI": mpi}
    if mpi == "mpich":
        known = subprocess.run(["/sbin/ldconfig", "-p"], capture_output=True, text=True).stdout
        (folder / "libmpi.so.12").symlink_to(re.search(r"libmpich\.so\.12 .*=> (.*)", known)[1])
        environment["LD_LIBRARY_PATH"] = f"{folder}:{os.environ.get('LD_LIBRARY_PATH', '')}".rstrip(":")
    return environment


@pytest.mark.parametrize("how", [(), ("plainly",)])
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("mpi", [by(mpi) for mpi in MPIS])
def test_mpi4py(mpi, when, how, tmp_path):
    """In the same process, before and after sambaflow; ended by use_abexit and as usual."""
    done = launched(mpi, PROGRAM, "mpi4py", tmp_path, when, *how, environment=with_mpi4py(mpi, tmp_path))
    assert done.returncode == 0, done.stderr
    assert sorted(filter(None, done.stdout.split("\n"))) == ["rank 0 is done", "rank 1 is done"]


EXAMPLES = pathlib.Path(__file__).parents[2] / "examples" / "python"


@pytest.mark.parametrize(
    "mpi, name, words",
    [
        by("openmpi", "lenet_train", ["--data-parallel-mode", "inorder"]),
        by("mpich", "resffn", ["--reduce-on-rdu", "--data-parallel-mode", "optimal"]),
    ],
)
def test_examples(mpi, name, words, tmp_path):
    """Each replica reads its part of one shuffle; one prints, tests and saves."""
    program, pef = EXAMPLES / f"{name}.py", tmp_path / "x.pef"
    done = subprocess.run(
        [sys.executable, program, "compile", "--data-parallel", "--output-folder", tmp_path, "--pef-name", "x"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    words = ["run", "-p", tmp_path / "x" / "x.pef", "--data-parallel", "--num-epochs", "2", "--checkpoint", pef, *words]
    done = launched(mpi, program, *words, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    losses = [float(word) for word in re.findall(r"^epoch \d/2  loss ([\d.]+)$", done.stdout, flags=re.M)]
    assert len(losses) == 2 and losses[1] < losses[0] and pef.exists() and done.stderr.count("Warning") <= 1
    assert done.stdout.count("accuracy") == (name == "resffn")


FROM_TORCHRUN = {"RANK": "1", "WORLD_SIZE": "2", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1"}


def test_torchrun(tmp_path, program):
    """Its processes know who they are, and are told how to train together."""
    pef = program.compiled(str(tmp_path), "--data-parallel")
    code = f"""
import sys
sys.path.insert(0, {str(PROGRAM.parent)!r})
import replicas
from replicas import *
print(utils.get_rank(), utils.get_world_size(), utils.get_local_rank(), utils.is_main_process())
model, outputs = loaded({pef!r})
samba.session.run(inputs(*part(0, 1, 2)), outputs)
try:
    samba.session.run(inputs(*part(0, 1, 2)), outputs, data_parallel=True)
except errors.UnsupportedError as error:
    print(error)
loaded({pef!r}, distlearn_config={__file__!r})
"""

    def said(**more):
        environment = {**os.environ, **FROM_TORCHRUN, **more}
        return subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)

    done = said()
    message = (
        "torchrun has started this process as one of 2, and replicas reach each other by MPI alone: start the same program by"
    )
    assert done.stdout.startswith(f"1 2 1 False\n{message} mpirun -n 2") and done.stderr.count(message) == 1
    assert "trains a model of its own" not in done.stderr  # the first says so
    alone = "torchrun has started this process as one of 2, and each trains a model of its own"
    assert said(RANK="0", LOCAL_RANK="0").stderr.count(alone) == 1
    done = said(SAMBAFLOW_MPI="off")
    assert done.returncode == 0 and done.stdout == "0 1 0 True\n" and not done.stderr


@pytest.mark.parametrize("samples, batch", [(48, 4), (50, 4), (7, 1)])
def test_parts(samples, batch):
    """Whatever the number of replicas, a step of all has the samples that one process takes in a step of as many."""
    for replicas in (1, 2, 3):
        parts = [ReplicaBatches(range(samples), batch, seed=5, rank=rank, replicas=replicas) for rank in range(replicas)]
        whole = ReplicaBatches(samples, batch * replicas, seed=5, rank=0, replicas=1)
        assert {len(x) for x in parts} == {samples // (batch * replicas)}  # as many steps, whatever is left
        for _ in range(2):  # epochs
            steps = [sum(step, []) for step in zip(*parts, strict=True)]
            assert steps == list(whole) and len(set(sum(steps, []))) == len(whole) * batch * replicas
        assert steps != list(whole)  # another shuffle each time


def test_parts_refused():
    with pytest.raises(
        errors.ShapeError, match="a step of 2 replicas takes 8 samples and there are only 7: train with a smaller"
    ):
        ReplicaBatches(7, 4, rank=0, replicas=2)
    with pytest.raises(ValueError, match="rank is 2: expected 0 to 1"):
        ReplicaBatches(7, 1, rank=2, replicas=2)
    with pytest.raises(ValueError, match="batch_size is 0: expected the samples of one replica in a step"):
        ReplicaBatches(7, 0)
    with pytest.raises(TypeError, match="rank and replicas belong together"):
        ReplicaBatches(7, 1, rank=0)


def test_parts_resumed():
    """By as many replicas and by another number: where as many samples were seen, or a few less."""
    data = torch.utils.data.TensorDataset(torch.arange(48))

    def loader(replicas):
        batches = ReplicaBatches(data, 4, seed=3, rank=0, replicas=replicas)
        return SambaLoader(torch.utils.data.DataLoader(data, batch_sampler=batches), ["x"])

    def read(loader, count=100):
        return [x.torch().tolist() for _, (x,) in zip(range(count), loader)]

    def rest(replicas, state):
        fresh = loader(replicas)
        fresh.load_state_dict(state)
        return read(fresh)

    began = loader(2)
    for step, _ in enumerate(began):
        if step == 2:
            state = began.state_dict()  # 3 steps of 8 samples
            break
    assert rest(2, state) == read(loader(2))[3:]
    assert rest(1, state) == read(loader(1))[6:]
    assert rest(4, state) == read(loader(4))[1:]


@pytest.mark.parametrize("mpi", [by("mpich")])
def test_page(mpi, tmp_path):
    """The program of docs/python-more.md: each replica reads its part of one shuffle; the main one writes."""
    (code,) = [block for block in blocks("docs/python-more.md", "python") if "use_abexit" in block]
    (tmp_path / "train.py").write_text(code, encoding="utf-8")
    done = launched(mpi, "train.py", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert sorted(x.name for x in tmp_path.iterdir()) == ["digits.safetensors", "out", "train.py"]
    assert sorted(x.name for x in (tmp_path / "out").iterdir()) == ["0", "1"]


def test_alone(tmp_path, program):
    """A process that nothing has started is the only replica: its runs are those without data_parallel."""
    assert (utils.get_rank(), utils.get_world_size(), utils.get_local_rank(), utils.is_main_process()) == (0, 1, 0, True)
    pef, alone = program.compiled(str(tmp_path), "--data-parallel"), program.compiled(str(tmp_path / "alone"))
    found = []
    for path, said in ((pef, {"data_parallel": True, "data_parallel_mode": "optimal"}), (pef, {}), (alone, {})):
        samba.session.reset()
        model, outputs = program.loaded(path)
        found.append(program.trained(model, outputs, 0, 1, **said))
    for losses, parameters in found[1:]:
        assert losses == found[0][0] and all(torch.equal(x, found[0][1][name]) for name, x in parameters.items())


def test_words(tmp_path, program):
    with pytest.raises(TypeError, match="distlearn_config is .*: expected the path of a file.*mpirun"):
        program.loaded("x.pef", distlearn_config={"world_size": 2})
    with pytest.raises(OSError, match="distlearn_config: there is no file 'replicas.yaml'"):
        program.loaded("x.pef", distlearn_config="replicas.yaml")
    with pytest.raises(ValueError, match="inference has no gradients for replicas to average"):
        model = samba.from_torch_model_(torch.nn.Linear(2, 2))
        samba.session.compile(
            model, (samba.randn(2, 2, name="x"),), inference=True, data_parallel=True, output_folder=str(tmp_path)
        )
    with pytest.raises(TypeError, match="run: data_parallel is 'yes': expected True or False"):
        samba.session.reset()
        _, outputs = program.loaded(program.compiled(str(tmp_path)))
        samba.session.run((), outputs, data_parallel="yes")
