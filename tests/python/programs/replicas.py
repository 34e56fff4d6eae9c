# SPDX-License-Identifier: Apache-2.0
"""What test_replicas.py starts as several replicas. `train FOLDER [ddp]` trains in every mode and, with `ddp`, by PyTorch's
DistributedDataParallel too, and saves what each replica saw; `fail FOLDER`, `raise FOLDER`: replica 1 meets an exception while
the other trains, with use_abexit and without; `early FOLDER`: before it does anything; `quiet FOLDER`: what all would say
alike; `loader FOLDER`: a training whose samples workers read, which are forked; `mpi4py FOLDER before|after`: beside another user
of MPI."""

import os
import sys
import time

import pytest
import torch
import torch.nn as nn

import sambaflow.samba as samba
import sambaflow.samba.utils as utils
from sambaflow import errors, runtime
from sambaflow.samba.progress import Progress
from sambaflow.samba.sambaloader import ReplicaBatches, SambaLoader
from sambaflow.samba.utils.argparser import parse_app_args

MODES = ("normal", "inorder", "optimal")
STEPS, BATCH, WIDTH = 10, 4, 1100
KEPT = []  # modules of DistributedDataParallel: freeing one may wait for a thread of gloo that waits for Python's lock


class Model(nn.Module):
    """Some buckets of gradients."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(16, WIDTH), nn.Tanh(), nn.Linear(WIDTH, WIDTH), nn.Tanh(), nn.Linear(WIDTH, WIDTH), nn.LayerNorm(WIDTH)
        )
        self.head = nn.Linear(WIDTH, 5)

    def forward(self, x, y):
        logits = self.head(self.layers(x))
        return nn.functional.cross_entropy(logits, y), logits


def data(step, size):
    """The whole batch of a step: the same on all replicas."""
    torch.manual_seed(step)
    return torch.randn(BATCH * size, 16), torch.randint(5, (BATCH * size,))


def part(step, rank, size):
    """That of one replica."""
    return [x[rank * BATCH : (rank + 1) * BATCH] for x in data(step, size)]


def made(seed=0):
    torch.manual_seed(seed)
    return Model()


def inputs(x, y):
    return samba.from_torch_tensor(x, name="x"), samba.from_torch_tensor(y, name="y")


def loaded(pef, seed=0, **said):
    model = samba.from_torch_model_(made(seed))
    optim = samba.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, max_grad_norm=1.0)
    return model, utils.trace_graph(model, inputs(*part(0, 0, 1)), optim, loss_indices=[0], pef=pef, **said)


def trained(model, outputs, rank, size, **said):
    """(losses, parameters)"""
    losses = []
    for step in range(STEPS):
        losses.append(samba.session.run(inputs(*part(step, rank, size)), outputs[:1], **said)[0].item())
    samba.session.to_cpu(model)
    return losses, {name: x.torch().detach().clone() for name, x in model.named_parameters()}


def compiled(folder, *words):
    samba.session.reset()
    parse_app_args(["compile", *words, "--output-folder", folder])
    model = samba.from_torch_model_(made())
    optim = samba.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, max_grad_norm=1.0)
    return samba.session.compile(model, inputs(*part(0, 0, 1)), optim, name="model", loss_indices=[0])


def ddp(folder, rank, size):
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", init_method=f"file://{folder}/ddp", rank=rank, world_size=size)
    model, losses = made(), []
    several, optim = nn.parallel.DistributedDataParallel(model), torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    for step in range(STEPS):
        loss, _ = several(*part(step, rank, size))
        optim.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optim.step()
        losses.append(loss.item())
    KEPT.append(several)
    return losses


def refused(pef, alone, rank, size):
    """Wrong arguments change nothing; the run goes on."""
    _, outputs = loaded(pef, data_parallel_mode="inorder")
    for message, said in (
        ("reduce_on_rdu=True says how data_parallel=True reduces gradients: it means nothing without", {"reduce_on_rdu": True}),
        ("data_parallel_mode='optimal' says how data_parallel=True", {"data_parallel_mode": "optimal"}),
        ("data_parallel_mode 'fast': expected one of normal, inorder", {"data_parallel": True, "data_parallel_mode": "fast"}),
        ("trace_graph was told 'inorder': give both the same", {"data_parallel": True, "data_parallel_mode": "optimal"}),
        ("GRADNORM", {"data_parallel": True, "section_types": ["FWD", "BCKWD", "GRADNORM", "OPT"]}),
    ):
        with pytest.raises((errors.ArgumentError, errors.StateError), match=message):
            samba.session.run(inputs(*part(0, rank, size)), outputs, **said)
    _, outputs = loaded(alone)
    with pytest.raises(errors.ArgumentError, match="has no section of type REDUCE.*compile it with data_parallel"):
        samba.session.run(inputs(*part(0, rank, size)), outputs, data_parallel=True)
    samba.session.reset()
    samba.session.seed = rank  # and so of the session
    with pytest.raises(errors.ArgumentError, match="replica 1 has another seed than replica 0"):
        loaded(pef, distlearn_config=__file__)


def train(folder, *others):
    assert runtime.thread_context()
    rank, size = utils.get_rank(), utils.get_world_size()  # which joins the others
    assert rank == own_rank()
    assert utils.get_local_rank() == rank and utils.is_main_process() == (rank == 0)
    assert runtime.replicas().network.startswith(("Open MPI", "MPICH"))
    own = os.path.join(folder, str(rank))
    pef, alone = compiled(own, "--data-parallel"), compiled(os.path.join(own, "alone"))
    found = {}
    for mode in MODES:
        samba.session.reset()
        model, outputs = loaded(pef, seed=rank, data_parallel_mode=mode)  # weights are replica 0's
        found[mode] = trained(model, outputs, rank, size, data_parallel=True)
    samba.session.reset()
    parse_app_args(["run", "--data-parallel", "--reduce-on-rdu", "--data-parallel-mode", "optimal"])
    model, outputs = loaded(pef)
    assert samba.session.get_section_types() == {"FWD", "BCKWD", "REDUCE", "GRADNORM", "OPT"}
    found["command line"] = trained(model, outputs, rank, size)
    samba.session.reset()
    parse_app_args(["run", "--data-parallel", "--data-parallel-mode", "inorder", "--shard-optimizer"])
    model, outputs = loaded(pef)
    found["sharded"] = trained(model, outputs, rank, size)
    samba.session.reset()
    samba.session.setup({"data_parallel": True, "shard_optimizer": True, "reduce_dtype": "bfloat16"})
    model, outputs = loaded(pef)
    rounded, _ = trained(model, outputs, rank, size)
    assert rounded == pytest.approx(found["sharded"][0], rel=0.02) and rounded != found["sharded"][0]
    samba.session.reset()
    samba.session.setup({"shard_optimizer": True})
    with pytest.raises(errors.ArgumentError, match="shard_optimizer says how replicas train together: give the session data_par"):
        loaded(pef)
    samba.session.reset()
    model, outputs = loaded(pef, distlearn_config=__file__)
    found["sections"] = trained(
        model, outputs, rank, size, section_types=["zerograd", "fwd", "bckwd", "reduce", "gradnorm", "opt"]
    )
    samba.session.reset()
    refused(pef, alone, rank, size)
    if others:
        found["ddp"] = ddp(folder, rank, size)
    torch.save(found, os.path.join(folder, f"{rank}.pt"))


def quiet(folder):
    rank, size = utils.get_rank(), utils.get_world_size()
    own = os.path.join(folder, str(rank))
    parse_app_args(["run", "--o0", "--data-parallel"])
    model, outputs = loaded(compiled(own, "--data-parallel", "-b", "77"))
    samba.session.start_samba_profile()
    samba.session.run(inputs(*part(0, 0, 1)), outputs, data_parallel=True)  # the same samples
    samba.session.end_samba_profile(os.path.join(own, "profile.txt"))
    assert samba.session.profiler.events["PyRT_SET_TENSORS_BROADCAST"][0] == 1
    utils.measure_performance(model, inputs(*part(0, rank, size)), n_iterations=2)
    with Progress("waiting", total=1) as shown:
        shown._next = 1e-9
        shown.step()


class Samples(torch.utils.data.Dataset):
    """What torch's process for samples reads, forked from a replica that has trained."""

    def __init__(self, count):
        self.x, self.y = data(0, count)

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return self.x[i], self.y[i]


def loader(folder):
    rank = utils.get_rank()
    _, outputs = loaded(compiled(os.path.join(folder, str(rank)), "--data-parallel"))
    samples = Samples(7)  # of BATCH each: 28, of which 4 fill no step of both
    batches = torch.utils.data.DataLoader(
        samples, batch_sampler=ReplicaBatches(samples, BATCH), num_workers=1, multiprocessing_context="fork"
    )
    steps = 0
    for _ in range(2):
        for batch in SambaLoader(batches, ["x", "y"]):
            samba.session.run(batch, outputs, data_parallel=True, data_parallel_mode="inorder")
            steps += 1
    assert steps == 2 * (len(samples) // (2 * BATCH)) == 6
    child = os.fork()
    if child == 0:
        try:
            utils.get_rank()
        except errors.StateError as error:
            assert "MPI belongs to that one alone" in str(error)
            sys.exit(5)
        sys.exit(6)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 5
    samba.session.run(batch, outputs, data_parallel=True)


def mpi4py(folder, when):
    if when == "before":
        from mpi4py import MPI
    rank = utils.get_rank()
    _, outputs = loaded(compiled(os.path.join(folder, str(rank)), "--data-parallel"))
    samba.session.run(inputs(*part(0, rank, 2)), outputs, data_parallel=True, data_parallel_mode="inorder")
    if when == "after":
        from mpi4py import MPI
    assert MPI.COMM_WORLD.allreduce(rank) == 1 and MPI.COMM_WORLD.rank == rank
    samba.session.run(inputs(*part(1, rank, 2)), outputs, data_parallel=True)
    sys.stdout.write(f"rank {rank} is done\n")  # in one piece
    sys.stdout.flush()


def own_rank():
    """As the launcher says it."""
    return int(os.environ.get("OMPI_COMM_WORLD_RANK", os.environ.get("PMI_RANK")))


def broken(folder):
    with open(os.path.join(folder, "failed"), "w") as file:
        file.write(str(time.time()))
    raise ValueError("there is no such sample")


def early(folder):
    """The other one is about to join."""
    samba.session.atexit_register(print, f"handler of {own_rank()}", flush=True)
    if own_rank() == 1:
        broken(folder)
    fail(folder)


def fail(folder):
    rank, size = utils.get_rank(), utils.get_world_size()
    samba.session.atexit_register(print, f"handler of {rank}", flush=True)
    model, outputs = loaded(compiled(os.path.join(folder, str(rank)), "--data-parallel"))
    for step in range(100000):
        if rank == 1 and step == 3:
            broken(folder)
        samba.session.run(inputs(*part(step, rank, size)), outputs, data_parallel=True)


if __name__ == "__main__":
    what, *rest = sys.argv[1:]
    if what in ("raise", "loader", "quiet") or rest[-1] == "plainly":  # to end as programs do
        {"raise": fail, "loader": loader, "quiet": quiet, "mpi4py": mpi4py}[what](*rest[: 2 if what == "mpi4py" else 1])
        sys.exit(0)
    samba.session.use_abexit({"train": train, "fail": fail, "early": early, "mpi4py": mpi4py}[what], *rest)
