# SPDX-License-Identifier: Apache-2.0
"""The losses of 100 training steps in PyTorch, from the weights steps.c saved and on the same digits, one a line.

Usage: losses.py MODEL OPTIMIZER INITIAL.safetensors DIGITS_FOLDER STEPS"""
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
BATCH = 32


def main():
    model, optimizer, initial, folder, steps = sys.argv[1:6]
    torch.set_num_threads(len(os.sched_getaffinity(0)))
    with gzip.open(f"{folder}/digits-images-idx3-ubyte.gz") as file:
        pixels = np.frombuffer(file.read()[16:], np.uint8).reshape(-1, 784)
    with gzip.open(f"{folder}/digits-labels-idx1-ubyte.gz") as file:
        labels = np.frombuffer(file.read()[8:], np.uint8).astype(np.int64)
    trainer = Trainer(model, read_safetensors(initial), {"hidden": 128} if model == "resffn" else {}, **SETTINGS[optimizer])
    for step in range(int(steps)):
        rows = (np.arange(BATCH) + step * BATCH) % len(labels)
        image = torch.from_numpy((pixels[rows].astype(np.float32) / np.float32(255) - np.float32(0.1307)) / np.float32(0.3081))
        if model == "lenet":
            image = image.reshape(BATCH, 1, 28, 28)
        print(f"{trainer.step(image, torch.from_numpy(labels[rows])).item():.9g}")


if __name__ == "__main__":
    main()
