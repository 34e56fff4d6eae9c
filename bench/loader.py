# SPDX-License-Identifier: Apache-2.0
"""How well SambaLoader hides what feeding costs: training steps of LeNet, batch 32, on batches that are there already, and on those of a generator
that takes 80 % of a step's time for each, in turn, best of several rounds. The generator waits, as for a disk, or works in Python, which
holds the interpreter's lock.

Usage: loader.py [--threads N] [--share 0.8] [--steps 400] [--rounds 5]"""
import argparse
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


def steps_per_second(batches, outputs):
    start = time.perf_counter()
    count = 0
    for inputs in batches:
        samba.session.run(inputs, outputs)
        count += 1
    return count / (time.perf_counter() - start)


def main(argv):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=0, help="of the device; 0: as many as the machine offers")
    parser.add_argument("--share", type=float, default=0.8, help="of a step's time that a batch takes to make")
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args(argv)
    samba.session.setup({"threads": args.threads} if args.threads else {})
    model = samba.from_torch_model_(LeNet())
    inputs = samba.randn(32, 1, 28, 28, name="image"), samba.randint(10, (32,), name="label")
    optim = samba.optim.SGD(model.parameters(), lr=0.01)
    with tempfile.TemporaryDirectory() as folder:
        pef = samba.session.compile(model, inputs, optim, loss_indices=[0], output_folder=folder)
        outputs = utils.trace_graph(model, inputs, optim, pef=pef, loss_indices=[0])
    batch = torch.randn(32, 1, 28, 28), torch.randint(10, (32,))

    def made(seconds, make):
        for _ in range(args.steps):
            make(seconds)
            yield batch

    ready = [inputs] * args.steps
    steps_per_second(ready, outputs)
    alone = max(steps_per_second(ready, outputs) for _ in range(args.rounds))
    found = {}
    for _ in range(args.rounds):
        alone = max(alone, steps_per_second(ready, outputs))
        for make in (waits, works):
            for pinned in (False, True):
                samba.session.enable_pinned_memory() if pinned else samba.session.disable_pinned_memory()
                speed = steps_per_second(SambaLoader(made(args.share / alone, make), ["image", "label"]), outputs)
                found[make.__name__, pinned] = max(found.get((make.__name__, pinned), 0), speed)
    print(f"LeNet, batch 32: {1e3 / alone:.3f} ms a step on batches that are there; a batch takes {args.share / alone * 1e3:.3f} ms to make")
    for (name, pinned), speed in found.items():
        print(f"a generator that {name:5}{', pinned memory' if pinned else '':15} {1e3 / speed:.3f} ms a step, {100 * speed / alone:5.1f} % of the speed without loading")


if __name__ == "__main__":
    main(sys.argv[1:])
