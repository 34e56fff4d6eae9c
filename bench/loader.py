# SPDX-License-Identifier: Apache-2.0
"""How well SambaLoader hides what feeding costs: training steps of LeNet, batch 32, on batches of a generator that takes 80 % of
a step's time for each, against steps on a batch that is there already.

Usage: loader.py [BUILD_FOLDER] [--threads N] [--share 0.8] [--steps 100] [--rounds 12] [--json]

The generator waits, as for a disk, or works in Python, which holds the interpreter's lock and needs a core of its own: so the
device has one thread less than the machine has cores (--threads). With all cores a generator that works takes from the device
what it needs: on two cores a step of 2 T core seconds and a batch of 0.8 T cannot take less than 1.4 T together, 71 %, and what
the loader's own thread does for a batch, some 20 us, costs the device as much. "ready" is a list of batches that takes no time:
what the loader costs by itself.

Each block of steps with the loader stands between two without, as the machine's speed changes from second to second; its first
batches, which nothing hides, are not timed.
Figures are medians, over the rounds, of a block's speed over that of its neighbours."""

import argparse
import json
import os
import statistics
import sys
import tempfile
import time

import torch

import sambaflow.samba as samba
import sambaflow.samba.utils as utils
from sambaflow.samba.sambaloader import SambaLoader


class LeNet(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = torch.nn.Conv2d(1, 6, 5, padding=2), torch.nn.Conv2d(6, 16, 5)
        self.fc1, self.fc2, self.fc3 = torch.nn.Linear(400, 120), torch.nn.Linear(120, 84), torch.nn.Linear(84, 10)

    def forward(self, image, label):
        x = torch.nn.functional.max_pool2d(torch.relu(self.conv1(image)), 2)
        x = torch.nn.functional.max_pool2d(torch.relu(self.conv2(x)), 2)
        x = torch.relu(self.fc2(torch.relu(self.fc1(x.flatten(1)))))
        return torch.nn.functional.cross_entropy(self.fc3(x), label)


def lateness():
    """By how much time.sleep wakes up late, as the kernel rounds."""
    start = time.perf_counter()
    for _ in range(200):
        time.sleep(3e-4)
    return (time.perf_counter() - start) / 200 - 3e-4


LATE = lateness()


def waits(seconds):
    time.sleep(max(0, seconds - LATE))


def works(seconds):
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass


WARM = 3  # first steps of a loop that are not timed: the first batch is made before there is a step to hide it behind


def step_time(batches, outputs):
    for count, inputs in enumerate(batches):
        if count == WARM:
            start = time.perf_counter()
        samba.session.run(inputs, outputs)
    return (time.perf_counter() - start) / (count + 1 - WARM)


def main(argv):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", nargs="?", help="not looked at")
    parser.add_argument(
        "--threads",
        type=int,
        default=max(len(os.sched_getaffinity(0)) - 1, 1),
        help="of the device; one less than there are cores",
    )
    parser.add_argument("--share", type=float, default=0.8, help="of a step's time that a batch takes to make")
    parser.add_argument("--steps", type=int, default=100, help="of a block")
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--json", action="store_true", help="print the figures as one JSON object")
    args = parser.parse_args(argv)
    samba.session.setup({"threads": args.threads})
    model = samba.from_torch_model_(LeNet())
    inputs = samba.randn(32, 1, 28, 28, name="image"), samba.randint(10, (32,), name="label")
    optim = samba.optim.SGD(model.parameters(), lr=0.01)
    with tempfile.TemporaryDirectory() as folder:
        pef = samba.session.compile(model, inputs, optim, loss_indices=[0], output_folder=folder)
        outputs = utils.trace_graph(model, inputs, optim, pef=pef, loss_indices=[0])
    batch = torch.randn(32, 1, 28, 28), torch.randint(10, (32,))

    def made(seconds, make):
        for _ in range(args.steps + WARM):
            make(seconds)
            yield batch

    there = [inputs] * (args.steps + WARM)
    step_time(there, outputs)
    before, steps, found = step_time(there, outputs), [], {}
    for _ in range(args.rounds):
        for name, make in (("ready", None), ("waiting", waits), ("working", works)):
            for pinned in (False, True):
                samba.session.enable_pinned_memory() if pinned else samba.session.disable_pinned_memory()
                batches = made(args.share * before, make) if make else [batch] * (args.steps + WARM)
                loaded = step_time(SambaLoader(batches, ["image", "label"]), outputs)
                after = step_time(there, outputs)
                found.setdefault(name + "_pinned" * pinned, []).append((before + after) / 2 / loaded)
                steps.append(after)
                before = after
    figures = {**{name: statistics.median(shares) for name, shares in found.items()}, "ms_a_step": 1e3 * statistics.median(steps)}
    if args.json:
        print(json.dumps(figures))
        return
    print(
        f"LeNet, batch 32, {args.threads} device threads: {figures['ms_a_step']:.3f} ms a step on a batch that is there; a batch "
        f"takes {args.share:.0%} of it to make"
    )
    for name, shares in found.items():
        shares.sort()
        print(
            f"{name.replace('_', ', '):16} {statistics.median(shares):6.1%} of the speed without loading (half of the rounds "
            f"{shares[len(shares) // 4]:.1%} to "
            f"{shares[3 * len(shares) // 4]:.1%})"
        )


if __name__ == "__main__":
    main(sys.argv[1:])
