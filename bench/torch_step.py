# SPDX-License-Identifier: Apache-2.0
"""The PyTorch contender of `make bench`: obeys the same lines as step.c.

Usage: torch_step.py MODEL HIDDEN TENSORS.safetensors OPTIMIZER LR MOMENTUM WEIGHT_DECAY MAX_GRAD_NORM THREADS"""
import json
import resource
import sys
import time

import torch

from models import Trainer, read_safetensors


def main():
    model, hidden, path, optimizer = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4]
    lr, momentum, weight_decay, max_grad_norm = map(float, sys.argv[5:9])
    torch.set_num_threads(int(sys.argv[9]))
    tensors = read_safetensors(path)
    trainer = Trainer(model, tensors, {"hidden": hidden} if model == "resffn" else {}, optimizer, lr, momentum, weight_decay, max_grad_norm)
    image, label = tensors["image"], tensors["label"]
    print("ready", flush=True)
    for line in sys.stdin:
        what, count = line.split()
        if what == "losses":
            print(json.dumps([trainer.step(image, label).item() for _ in range(int(count))]), flush=True)
            continue
        times = []
        for _ in range(int(count)):
            start = time.perf_counter()
            trainer.step(image, label).item()
            times.append(1e3 * (time.perf_counter() - start))
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        print(json.dumps({"ms": times, "peak_bytes": peak}), flush=True)


if __name__ == "__main__":
    main()
