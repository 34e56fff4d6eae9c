# SPDX-License-Identifier: Apache-2.0
"""Soak of the Python package: soak.py SECONDS [SEED] [ACTIONS]. What programs do all night, in random order for so long: models
are compiled and traced, trained, evaluated, run in pieces, accumulate gradients, are fed by loaders that are left midway or fail,
save and load files and checkpoints, train and answer by several graphs, are profiled and reported, made of lazy parameters,
computed with eagerly, given mistakes, run on threads without torch, and dropped. ACTIONS, if given, ends it after so many;
without it there are 20 at least, however long they take.

Ten times or more, at least once a minute, all is dropped, Python's collector runs and the process is looked at. It fails where
  a descriptor or a thread is there that was not when everything had been done once;
  malloc, by which Python then allocates everything, holds more than it ever did in the warm-up, the first fifth of the time and
  at least 10 actions, but for 128 KiB of caches that Python and torch fill and empty as they like, and 32 bytes for each action
  since: the smallest object of Python, so what is kept each time is found;
  resident memory that is no file's has grown by more than that and 1 MiB:
  code that is made for shapes met late, and blocks that lie scattered."""

import contextlib
import ctypes
import gc
import os
import pathlib
import random
import shutil
import sys
import tempfile
import threading
import time
import warnings

EXACT = {"GLIBC_TUNABLES": "glibc.malloc.tcache_count=0:glibc.malloc.arena_max=1", "PYTHONMALLOC": "malloc"}
if __name__ == "__main__" and any(
    os.environ.get(name) != value for name, value in EXACT.items()
):  # they are read when a program starts
    os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, **EXACT})

import torch

import sambaflow.samba as samba
import sambaflow.samba.utils as utils
from sambaflow import errors, runtime
from sambaflow.samba.graph import FwdGraph, SambaGraph
from sambaflow.samba.sambaloader import SambaLoader

CACHES, OBJECT, LATE, WARM_UP = 128 << 10, 32, 1 << 20, 10


class Dense(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1, self.fc2, self.norm, self.drop = (
            torch.nn.Linear(6, 16),
            torch.nn.Linear(16, 3),
            torch.nn.BatchNorm1d(16),
            torch.nn.Dropout(0.2),
        )

    def forward(self, x, label):
        logits = self.fc2(self.drop(self.norm(torch.relu(self.fc1(x)))))
        return torch.nn.functional.cross_entropy(logits, label), logits


class Tokens(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.table, self.block = torch.nn.Embedding(3, 16), torch.nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
        self.head = torch.nn.Linear(16, 3)

    def forward(self, x, label):
        hidden = self.block((self.table(label) + x.sum(-1, keepdim=True))[None])[0]
        logits = self.head(hidden)
        return torch.nn.functional.cross_entropy(logits, label), logits


class Answer(torch.nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, question):
        return self.model.fc2(torch.relu(self.model.fc1(question)))


class Push(torch.nn.Module):
    """Takes one row more into a cache and answers of all of it."""

    def forward(self, cache, row, position):
        cache.index_copy_(0, position, row)
        return torch.softmax(cache @ row[0], 0) @ cache


class Program:
    """A model, compiled and traced; the session is the package's one."""

    def __init__(self, folder):
        self.folder = folder
        self.forget()

    def forget(self):
        samba.session.reset()
        self.model = self.inputs = self.optim = self.outputs = self.pef = None

    def compile(self):
        self.forget()
        lazy = random.random() < 0.2
        if lazy:
            samba.session.enable_lazy_param(seed=random.randrange(9))
        self.model = samba.from_torch_model_(random.choice((Dense, Tokens))())
        if lazy:
            samba.session.disable_lazy_param()
        self.inputs = samba.randn(8, 6, name="x"), samba.randint(3, (8,), name="label")
        self.optim = random.choice((samba.optim.SGD, samba.optim.AdamW))(self.model.parameters(), lr=0.01)
        self.pef = samba.session.compile(
            self.model,
            self.inputs,
            self.optim,
            name="soak",
            loss_indices=[0],
            output_folder=self.folder,
            precision=random.choice(("fp32", "bf16")),
            grad_accumulation_steps=random.choice((1, 2)),
        )
        self.trace()

    def trace(self):
        self.outputs = utils.trace_graph(self.model, self.inputs, self.optim, pef=self.pef, loss_indices=[0])

    def train(self, inputs=None):
        for _ in range(random.randint(1, 10)):
            loss, _ = samba.session.run(
                inputs or self.inputs, self.outputs, hyperparam_dict=random.choice((None, {"lr": random.random() / 100}))
            )
        assert torch.isfinite(loss.torch()), "the loss is not finite"

    def evaluate(self):
        samba.session.run(self.inputs, self.outputs, section_types=["fwd"], train=False)
        samba.session.to_cpu(self.model)

    def run_in_pieces(self):
        samba.session.run(self.inputs, self.outputs, section_types=["FWD"])
        samba.session.run(grad_of_outputs={"output_0": torch.tensor(1.0)}, section_types=["BCKWD"])
        samba.session.run(section_types=["OPT"])
        calls = samba.session.loaded().call_count
        samba.session.run(self.inputs, self.outputs, run_until_call_id=calls - 1)
        samba.session.run(run_from_call_id=calls - 1)
        samba.session.reset_random_generator()

    def feed(self):
        """From a loader that is left midway, that fails, or to its end."""
        end = random.choice(("left", "failing", "whole"))

        def batches():
            for i in range(6):
                if end == "failing" and i == 3:
                    raise KeyError("no more")
                yield torch.randn(8, 6), torch.randint(3, (8,))

        if random.random() < 0.5:
            samba.session.enable_pinned_memory()
        loader = SambaLoader(batches(), ["x", "label"], prefetch=random.randint(1, 3))
        with contextlib.suppress(KeyError):
            for i, batch in enumerate(loader):
                self.train(batch)
                if end == "left" and i == 2:
                    break
        samba.session.disable_pinned_memory()

    def save_and_load(self):
        path = os.path.join(self.folder, "weights.safetensors")
        samba.session.save(path, with_state=random.random() < 0.5)
        samba.session.load(path)
        samba.session.to_cpu(self.model, self.optim)
        samba.session.to_rdu(self.model, self.optim)
        path = os.path.join(self.folder, "weights.pt")
        torch.save(self.model.state_dict(), path)
        self.model.load_state_dict(torch.load(path, weights_only=False))

    def checkpoint(self):
        folder = os.path.join(self.folder, "points")
        for step in range(random.randint(1, 3)):
            last = samba.session.save_checkpoint(
                folder, step, state={"epoch": step, "noise": torch.rand(3)}, shard_size=random.choice((0, 2000))
            )
        if random.random() < 0.5:
            os.truncate(random.choice(list(pathlib.Path(last).iterdir())), random.randrange(40))
        with contextlib.suppress(errors.FormatError), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            samba.session.load_checkpoint(folder)
        shutil.rmtree(folder)

    def profile(self):
        os.environ["ENABLE_RUNTIME_PERF"] = random.choice(("SUMMARY", "DETAILED"))
        with samba.session.samba_profile(os.path.join(self.folder, random.choice(("host.txt", "host.json")))):
            samba.session.start_runtime_profile(timer_enabled=False)
            self.train()
            samba.session.end_runtime_profile(os.path.join(self.folder, random.choice(("profile.log", "profile.html"))))
        del os.environ["ENABLE_RUNTIME_PERF"]

    def report(self):
        samba.session.report().save(os.path.join(self.folder, "report.html"))

    def several_graphs(self):
        """Training, answering and a cache in one PEF, each in turns."""
        self.forget()
        model = samba.from_torch_model_(Dense())
        answer, push = Answer(model), Push()
        batch, question = (
            (samba.randn(8, 6, name="x"), samba.randint(3, (8,), name="label")),
            (samba.randn(2, 6, name="question"),),
        )
        row = (
            samba.zeros(4, 5, name="cache", region_name="kv"),
            samba.ones(1, 5, name="row"),
            samba.from_torch_tensor(torch.tensor([1]), name="position"),
        )
        optim = samba.optim.AdamW(model.parameters(), lr=0.01)
        training = SambaGraph(model, batch, optim, name="train", loss_indices=[0])
        for graph in (training, FwdGraph(answer, question, name="answer"), FwdGraph(push, row, name="push")):
            samba.session.add_graph(graph)
        pef = samba.session.compile_multigraph("several", output_folder=self.folder)
        outputs = [
            utils.trace_multigraph(training, batch, optim),
            utils.trace_multigraph(answer, question),
            utils.trace_multigraph(push, row),
        ]
        samba.session.init_multigraph_runtime(pef)
        for _ in range(random.randint(1, 8)):
            name, given, made = random.choice(
                (("train", batch, outputs[0]), ("answer", question, outputs[1]), ("push", row[1:], outputs[2]))
            )
            samba.session.run(given, made, graph_name=name)
        self.forget()

    def eager(self):
        x, w = samba.randn(4, 6), samba.randn(6, 2).requires_grad_()
        loss = torch.nn.functional.gelu(x @ w).sum()
        loss.backward()
        assert w.grad.shape == (6, 2)
        torch.softmax(x[:, ::2], -1).mean().item()

    def mistakes(self):
        for mistake in (
            lambda: samba.session.run((samba.randn(8, 6, name="nothing of that name"),), self.outputs),
            lambda: samba.session.run((samba.randn(3, 6, name="x"),), self.outputs),
            lambda: samba.session.run(section_types=["BACKWARD"]),
            lambda: samba.session.get_tensors_by_name(["neither this"]),
            lambda: samba.session.compile(self.model, self.inputs[:1], self.optim, output_folder=self.folder),
            lambda: samba.session.load("/no/such.safetensors"),
            lambda: torch.matmul(samba.randn(2, 3), samba.randn(2, 3)),
            lambda: runtime.Session(self.truncated()),
        ):
            try:
                mistake()
            except Exception as error:  # each says what is wrong; tests of messages say which and how
                assert str(error)
            else:
                raise AssertionError("a mistake was not refused")

    def truncated(self):
        path = os.path.join(self.folder, "part.pef")
        shutil.copy(self.pef, path)
        os.truncate(path, random.randrange(os.path.getsize(path)))
        return path

    def on_threads(self):
        """Sessions without torch, some closed, others left to the collector, and one that another thread holds."""
        failures = []

        def work(steps, closes):
            try:
                session = runtime.Session(self.pef, threads=1)
                x, label = (
                    runtime.Tensor.zeros("x", "float32", (8, 6), session.context),
                    runtime.Tensor.zeros("label", "int64", (8,), session.context),
                )
                for _ in range(steps):
                    session.run([x, label])
                if closes:
                    session.close()
            except Exception as error:
                failures.append(error)

        threads = [threading.Thread(target=work, args=(random.randint(1, 5), random.random() < 0.5)) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not failures, failures


ACTIONS = [
    Program.compile,
    Program.trace,
    Program.train,
    Program.evaluate,
    Program.run_in_pieces,
    Program.feed,
    Program.save_and_load,
    Program.checkpoint,
    Program.profile,
    Program.report,
    Program.several_graphs,
    Program.eager,
    Program.mistakes,
    Program.on_threads,
]


class Heap(ctypes.Structure):
    """glibc's struct mallinfo2."""

    _fields_ = [
        (name, ctypes.c_size_t) for name in "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost".split()
    ]


libc = ctypes.CDLL(None)
libc.mallinfo2.restype = Heap


def look():
    """What of the process must not grow: (resident bytes that are no file's, bytes that malloc holds, descriptors, threads)."""
    for _ in range(3):  # what ends objects may free others
        gc.collect()
    libc.malloc_trim(0)
    status = dict(line.split(":", 1) for line in pathlib.Path("/proc/self/status").read_text().splitlines())
    heap = libc.mallinfo2()
    return (
        int(status["RssAnon"].split()[0]) * 1024,
        heap.uordblks + heap.hblkhd,
        len(os.listdir("/proc/self/fd")),
        int(status["Threads"]),
    )


def soak(seconds, seed, most_actions):
    """Raises where something has grown."""
    print(f"seed {seed}", flush=True)
    random.seed(seed)
    torch.manual_seed(seed)
    counts = dict.fromkeys((action.__name__ for action in ACTIONS), 0)
    with tempfile.TemporaryDirectory() as folder:
        program = Program(folder)
        for i in range(
            200_000
        ):  # Python's table of interned strings is made anew, twice as large, when enough of them have come and gone
            sys.intern(f"{i} comes and goes")
        for action in ACTIONS:  # what is made once and kept has been made
            program.compile()
            action(program)
        program.forget()
        first, start, often, after, actions, warm = look(), time.monotonic(), min(60, seconds / 10), 0, 0, None
        while True:
            now = time.monotonic() - start
            end = now >= seconds and actions >= 2 * WARM_UP or actions >= most_actions
            if now >= after or end:
                program.forget()
                resident, held, descriptors, threads = look()
                print(
                    f"{now:7.1f} s {actions:7} actions: resident {resident / 1e6:.3f} MB that are no file's, "
                    f"malloc {held} bytes, "
                    f"{descriptors} descriptors, {threads} threads",
                    flush=True,
                )
                assert (descriptors, threads) == first[2:], f"descriptors and threads were {first[2:]}"
                if now <= seconds / 5 or actions <= WARM_UP:
                    warm = max(resident, warm[0] if warm else 0), max(held, warm[1] if warm else 0), actions
                grown = CACHES + OBJECT * (actions - warm[2])
                assert held <= warm[1] + grown, (
                    f"malloc holds {held - warm[1]} bytes more than in the warm-up, {actions - warm[2]} actions ago"
                )
                assert resident <= warm[0] + grown + LATE, (
                    f"resident memory has grown by {resident - warm[0]} bytes since the warm-up"
                )
                after = now + often
            if end:
                break
            action = random.choice(ACTIONS)
            if sys.stderr.isatty():
                print(f"\r{now:.0f} of {seconds:.0f} s: {action.__name__:16}", end="", file=sys.stderr)
            if program.model is None:
                program.compile()
            action(program)
            counts[action.__name__] += 1
            actions += 1
        print(", ".join(f"{name} {count}" for name, count in counts.items()))


if __name__ == "__main__":
    words = sys.argv[1:]
    soak(float(words[0]), int(words[1]) if len(words) > 1 else int(time.time()), int(words[2]) if len(words) > 2 else 1 << 62)
