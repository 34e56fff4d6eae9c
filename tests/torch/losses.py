# SPDX-License-Identifier: Apache-2.0
"""The losses of training steps in PyTorch, for bf16 under torch.autocast, from the weights steps.c saved and on the same samples, one a line.
Then every parameter's running mean of gradients (exp_avg, momentum_buffer) must be the one that steps.c has at the end, within 1e-3 of the
tensor's largest value, and every buffer; not in bf16, where a rounding may let another element of a pooling window be the greatest.

Usage: losses.py MODEL OPTIMIZER fp32|fp64|bf16 INITIAL.safetensors DATA_FOLDER STEPS FINAL.safetensors"""
import gzip
import os
import sys

import numpy as np
import torch

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "bench"))
from models import Trainer, read_safetensors  # noqa: E402

# The same settings stand in losses.sh. Hotter ones make LeNet chaotic: a rounding in one step grows a hundred-thousandfold within fifty.
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


def compare_gradients(trainer, final, allowed):
    for name, buffer in trainer.model.named_buffers():
        if name in final and not torch.allclose(final[name].to(buffer.dtype), buffer, rtol=1e-3, atol=1e-5):
            raise SystemExit(f"losses: buffer {name} differs by {(final[name] - buffer).abs().max():.1e}, its largest value is {buffer.abs().max():.1e}")
    for name, parameter in trainer.model.named_parameters():
        for key in ("exp_avg", "momentum_buffer"):
            if key not in trainer.optimizer.state[parameter]:
                continue
            expected = trainer.optimizer.state[parameter][key]
            error = ((final[f"{name}.{key}"] - expected).abs().max() / expected.abs().max()).item()
            if not error < allowed:
                raise SystemExit(f"losses: {name}.{key} differs by {error:.1e} of its largest value")


def main():
    model, optimizer, precision, initial, folder, steps, final = sys.argv[1:8]
    torch.set_num_threads(len(os.sched_getaffinity(0)))
    dtype = torch.float64 if precision == "fp64" else torch.float32
    trainer = Trainer(model, read_safetensors(initial), MODELS[model], **SETTINGS[optimizer], dtype=dtype)
    if precision == "bf16":
        trainer.model.forward = torch.autocast("cpu", torch.bfloat16)(trainer.model.forward)
    if model in ("gpt2", "lstm"):
        sample = text(folder, 4, 16)
    else:
        sample = digits(folder, BATCH.get(model, 32), model)
    for step in range(int(steps)):
        data, label = sample(step)
        print(f"{trainer.step(data.to(dtype) if data.is_floating_point() else data, label).item():.9g}")
    if precision != "bf16":
        # A U-Net's hundred thousand relus: one that opens for one of the two and not for the other is a part of a gradient.
        compare_gradients(trainer, read_safetensors(final), 0.1 if model == "unet" else 1e-3)


if __name__ == "__main__":
    main()
