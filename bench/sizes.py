# SPDX-License-Identifier: Apache-2.0
"""A model of several sizes in one PEF beside a PEF for each size: 1,003 samples in batches of 32, of which the last has 11, and
texts of 5 to 128 tokens in batches of 8, padded to 32, 64 or 128. An epoch of each in turns, in one process: what a run takes,
inputs and loss included. Says too what the plans take of memory, where the several's may be that of the largest.
Usage: sizes.py [--turns N] [--threads N] [uneven|texts ...]"""

import argparse
import os
import statistics
import tempfile
import time

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--turns", type=int, default=9)
parser.add_argument("--threads", type=int, default=os.cpu_count())
parser.add_argument("cases", nargs="*", default=["uneven", "texts"])
arguments = parser.parse_args()
os.environ["OMP_NUM_THREADS"] = str(arguments.threads)

import models  # noqa: E402
import torch  # noqa: E402

import sambaflow.samba as samba  # noqa: E402
import sambaflow.samba.utils as utils  # noqa: E402
from sambaflow._core import ffi, lib  # noqa: E402


class Digits(torch.nn.Module):
    """28 x 28 pixels through two hidden layers."""

    def __init__(self):
        super().__init__()
        wide = [784, 512, 512, 10]
        self.layers = torch.nn.ModuleList(torch.nn.Linear(a, b) for a, b in zip(wide, wide[1:]))

    def forward(self, x, label):
        for layer in self.layers[:-1]:
            x = torch.relu(layer(x))
        return torch.nn.functional.cross_entropy(self.layers[-1](x), label)


def uneven():
    """A model, its batches and the examples of its sizes, the largest first."""
    batches = [(torch.randn(n, 784), torch.randint(10, (n,))) for n in [32] * (1003 // 32) + [1003 % 32]]
    return Digits, ("x", "label"), batches


def texts(batch=8, words=1000):
    lengths = [int(n) for n in torch.randint(5, 129, (48,))]
    padded = [min(size for size in (32, 64, 128) if size >= n) for n in lengths]
    batches = []
    for own, length in zip(lengths, padded):
        ids = torch.randint(words, (2, batch, length))
        ids[0, :, own:], ids[1, :, own:] = 0, -100
        batches.append((ids[0], ids[1]))

    def make():
        return models.GPT(n_layer=3, n_head=4, n_embd=192, block_size=128, vocab_size=words)

    return make, ("input", "label"), batches


def memory_of(session):
    found = ffi.new("samba_memory_info *")
    session.context.check(lib.samba_session_memory(session.c, found))
    return found.total


def session_of(make, names, examples, folder):
    """A session over one PEF of these sizes, the first the largest; and its memory in bytes."""
    torch.manual_seed(0)
    session, model = samba.SambaSession(), make()
    samba.from_torch_model_(model)
    optim = samba.optim.AdamW(model.parameters(), lr=1e-3)
    inputs = [tuple(samba.from_torch_tensor(x, name=name) for name, x in zip(names, example)) for example in examples]
    more = {"sizes": inputs[1:]} if inputs[1:] else {}
    pef = session.compile(
        model, inputs[0], optim, name=f"sizes{len(os.listdir(folder))}", loss_indices=[0], output_folder=folder, **more
    )
    outputs = utils.trace_graph(model, inputs[0], optim, pef=pef, loss_indices=[0], session=session)

    def run(batch):
        return session.run(tuple(samba.from_torch_tensor(x, name=name) for name, x in zip(names, batch)), outputs)[0].item()

    return run, memory_of(session.loaded()), model  # the model is kept: the session has its weights


def main(case):
    make, names, batches = {"uneven": uneven, "texts": texts}[case]()
    examples = {}
    for batch in sorted(batches, key=lambda batch: -batch[0].numel()):
        examples.setdefault(tuple(batch[0].shape), batch)
    with tempfile.TemporaryDirectory() as folder:
        several = session_of(make, names, list(examples.values()), folder)
        alone = {shape: session_of(make, names, [example], folder) for shape, example in examples.items()}

    def one_pef():
        return [several[0](batch) for batch in batches]

    def by_hand():
        return [alone[tuple(batch[0].shape)][0](batch) for batch in batches]

    times, losses = {one_pef: [], by_hand: []}, {}
    for turn in range(arguments.turns + 1):
        for epoch in (one_pef, by_hand) if turn % 2 else (by_hand, one_pef):
            begin = time.perf_counter()
            losses[epoch] = epoch()
            if turn:  # the first warms up
                times[epoch].append(1e3 * (time.perf_counter() - begin))
    ours, theirs = times[one_pef], times[by_hand]
    largest = max(memory for _, memory, _ in alone.values())
    sizes = ", ".join(" x ".join(map(str, shape)) for shape in examples)
    print(
        f"{case} ({sizes}): an epoch of {len(batches)} batches {statistics.median(ours):.1f} ms (best {min(ours):.1f}), by a PEF "
        f"for each {statistics.median(theirs):.1f} ms (best {min(theirs):.1f}): "
        f"{statistics.median(ours) / statistics.median(theirs):.3f} times as long (bests {min(ours) / min(theirs):.3f}); memory "
        f"{several[1] / 2**20:.1f} MiB, the largest alone {largest / 2**20:.1f} MiB: {several[1] / largest:.3f}",
        flush=True,
    )


for case in arguments.cases:
    main(case)
