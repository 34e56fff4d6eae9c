# SPDX-License-Identifier: Apache-2.0
"""The losses of training steps in PyTorch, for bf16 under torch.autocast, from the weights steps.c saved and on the same samples,
one a line.

Then every parameter's running mean of gradients (exp_avg, momentum_buffer) and every buffer is compared with what steps.c has at
the end; not in bf16, where a rounding may let another element of a pooling window be the greatest. That happens in float32 too: a
relu opens, or another pixel of a window is the greatest, in one of two programs and not in the other, and a gradient differs from
there on by what goes through it, though nobody is wrong. Which roundings meet such a kink depends on the processor. So PyTorch
itself says how far apart two right results may be: it trains in float64, which is as good as exact, and several times in float32,
each time with weights that are moved before every step, element by element, by one unit in the last place up or down, as a
rounding may; the first time they are left as they are. Of each tensor ours may be MARGIN times as far from the float64 result as
the farthest of these is. Where float64 itself is compared, the moved ones are in float64 too, and the one that is not moved is
the exact one.

A tensor that is farther away than the first few runs allow has more of them made, up to MOST_RUNS: a kink may be met by one run
in ten.

GRADIENTS receives the greatest distance as a share of what is allowed, that relative to the tensor's greatest value, how many
runs said so, and the tensor. Exit status 3, with a line: this PyTorch lacks an implementation.

Usage: losses.py MODEL OPTIMIZER fp32|fp64|bf16 INITIAL.safetensors DATA_FOLDER STEPS FINAL.safetensors GRADIENTS"""

import gzip
import os
import sys

import numpy as np
import torch

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "bench"))
from models import Trainer, read_safetensors

# The same settings stand in losses.sh. Hotter ones make LeNet chaotic:
# a rounding in one step grows a hundred-thousandfold within fifty.
SETTINGS = {
    "sgd": dict(optimizer="sgd", lr=0.003, momentum=0.9, weight_decay=0.001),
    "adamw": dict(optimizer="adamw", lr=0.0005, weight_decay=0.01, max_grad_norm=1.0),
}
MODELS = {
    "logreg": {},
    "resffn": dict(hidden=128),
    "lenet": {},
    "gpt2": dict(n_layer=2, n_head=4, n_embd=32, block_size=16, vocab_size=128),
    "resnet": dict(width=8),
    "unet": dict(width=8, groups=2),
    "vit": dict(num_layers=2, num_heads=2, hidden_dim=32),
    "lstm": dict(num_layers=2, hidden_size=32, block_size=16, vocab_size=128),
}
BATCH = {"resnet": 16, "unet": 8}  # else 32
MEANS = ("exp_avg", "momentum_buffer")
MARGIN, LEAST_RUNS, MOST_RUNS = 4, 3, 24
LACKING = (
    "could not create a primitive",
    "not implemented for",
)  # what PyTorch says of an operator that it has not for a dtype on this processor


def digits(folder, batch, model):
    """step -> image, label"""
    shape = (batch, 784) if model in ("logreg", "resffn") else (batch, 1, 28, 28)
    with gzip.open(f"{folder}/digits-images-idx3-ubyte.gz") as file:
        pixels = np.frombuffer(file.read()[16:], np.uint8).reshape(-1, 784)
    with gzip.open(f"{folder}/digits-labels-idx1-ubyte.gz") as file:
        labels = np.frombuffer(file.read()[8:], np.uint8).astype(np.int64)

    def sample(step):
        rows = (np.arange(batch) + step * batch) % len(labels)
        image = (pixels[rows].astype(np.float32) / np.float32(255) - np.float32(0.1307)) / np.float32(0.3081)
        image, label = torch.from_numpy(image).reshape(shape), torch.from_numpy(labels[rows])
        # The class of every pixel: 1 + the digit on its line, 0 beside it.
        return image, torch.where(image[:, 0] > 1, 1 + label[:, None, None], 0) if model == "unet" else label

    return sample


def text(folder, batch, block):
    """step -> input, label"""
    with open(f"{folder}/text.txt", "rb") as file:
        tokens = np.frombuffer(file.read(), np.uint8).astype(np.int64)
    count = (len(tokens) - 1) // block

    def sample(step):
        rows = (np.arange(batch) + step * batch) % count
        places = rows[:, None] * block + np.arange(block)
        return torch.from_numpy(tokens[places]), torch.from_numpy(tokens[places + 1])

    return sample


def samples(model, folder):
    return text(folder, 4, 16) if model in ("gpt2", "lstm") else digits(folder, BATCH.get(model, 32), model)


def move(parameters, random):
    """Every element to the next number above or below."""
    with torch.no_grad():
        for x in parameters:
            up = torch.rand(x.shape, generator=random) < 0.5
            x.copy_(torch.nextafter(x, torch.where(up, torch.inf, -torch.inf).to(x.dtype)))


def trained(job, dtype, seed=None):
    """(losses, {name in FINAL: tensor}) of training in `dtype`; with a seed weights are moved before every step."""
    trainer = Trainer(job.model, job.initial, MODELS[job.model], **SETTINGS[job.optimizer], dtype=dtype)
    if job.precision == "bf16":
        trainer.model.forward = torch.autocast("cpu", torch.bfloat16)(trainer.model.forward)
    sample, losses = samples(job.model, job.folder), []
    random = None if seed is None else torch.Generator().manual_seed(seed)
    for step in range(job.steps):
        data, label = sample(step)
        if random is not None:
            move(trainer.model.parameters(), random)
        losses.append(trainer.step(data.to(dtype) if data.is_floating_point() else data, label).item())
    kept = dict(trainer.model.named_buffers())
    for name, parameter in trainer.model.named_parameters():
        kept.update({f"{name}.{key}": x for key, x in trainer.optimizer.state[parameter].items() if key in MEANS})
    return losses, {name: x.detach().double() for name, x in kept.items()}


def distance(a, b):
    return (a - b).abs().max().item() if a.numel() else 0.0


def compare(job, first):
    """The greatest share of what is allowed and its tensor's name; `first` is PyTorch's result in job's own precision."""
    dtype = torch.float64 if job.precision == "fp64" else torch.float32
    exact = first if job.precision == "fp64" else trained(job, torch.float64)[1]
    missing = [name for name in exact if name not in job.final and not name.endswith("num_batches_tracked")]
    if missing:
        raise SystemExit(f"losses: the session saved no {', '.join(missing)}")
    ours = {name: distance(job.final[name].double(), x) for name, x in exact.items() if name in job.final}
    own = {name: 0.0 for name in ours}
    for run in range(MOST_RUNS):
        result = first if run == 0 and job.precision != "fp64" else trained(job, dtype, run)[1]
        own = {name: max(far, distance(result[name], exact[name])) for name, far in own.items()}
        shares = {name: ours[name] / (MARGIN * own[name]) if ours[name] else 0.0 for name in ours if own[name] or not ours[name]}
        if len(shares) == len(ours) and run + 1 >= LEAST_RUNS and max(shares.values()) <= 1:
            break
    worst = max(ours, key=lambda name: shares.get(name, float("inf")))
    share = shares.get(worst, float("inf"))
    if not share <= 1:
        raise SystemExit(
            f"losses: {worst} is {ours[worst]:.1e} away from PyTorch's in float64, whose greatest value is "
            f"{exact[worst].abs().max():.1e}; "
            f"the farthest of {MOST_RUNS} runs of PyTorch, with weights moved by a unit in the last place, is "
            f"{own[worst]:.1e} away"
        )
    return share, worst, MARGIN * own[worst] / exact[worst].abs().max().item(), run + 1


class Job:
    def __init__(self, model, optimizer, precision, initial, folder, steps, final):
        self.model, self.optimizer, self.precision, self.folder, self.steps = model, optimizer, precision, folder, int(steps)
        self.initial, self.final = read_safetensors(initial), read_safetensors(final)


def main():
    *words, gradients = sys.argv[1:9]
    job = Job(*words)
    torch.set_num_threads(min(len(os.sched_getaffinity(0)), int(os.environ.get("OMP_NUM_THREADS") or 1 << 30)))
    try:
        losses, kept = trained(job, torch.float64 if job.precision == "fp64" else torch.float32)
    except RuntimeError as failure:
        if job.precision != "bf16" or not any(words in str(failure) for words in LACKING):
            raise
        print(f"PyTorch says: {str(failure).splitlines()[0]:.150}", file=sys.stderr)
        raise SystemExit(3) from None
    print("".join(f"{loss:.9g}\n" for loss in losses), end="")
    with open(gradients, "w") as file:
        if job.precision == "bf16":
            print("-", file=file)
        else:
            share, worst, allowed, runs = compare(job, kept)
            print(f"{share:.2f} of {allowed:.0e}, {runs} runs: {worst}", file=file)


if __name__ == "__main__":
    main()
