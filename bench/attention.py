# SPDX-License-Identifier: Apache-2.0
"""PyTorch's side of bench/attention.c: the same sizes, times and output, by F.scaled_dot_product_attention.

Usage: attention.py [BATCH HEADS KEY_HEADS LENGTH DEPTH CAUSAL THREADS RUNS]"""

import json
import sys
import time

import torch
import torch.nn.functional as F


def main():
    given = [int(word) for word in sys.argv[1:]]
    batch, heads, shared, length, depth, causal, threads, runs = given + [1, 12, 12, 1024, 64, 1, 1, 20][len(given) :]
    torch.set_num_threads(threads)
    clock = time.process_time if threads == 1 else time.perf_counter
    joint = torch.randn(batch, length, heads + 2 * shared, depth, requires_grad=True)
    best = [float("inf")] * 2
    for _ in range(runs):
        joint.grad = None
        start = clock()
        q, k, v = (part.transpose(1, 2) for part in joint.split([heads, shared, shared], 2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=bool(causal), enable_gqa=heads != shared)
        loss = (y * y).sum()
        middle = clock()
        loss.backward()
        best = [min(best[0], middle - start), min(best[1], clock() - middle)]
    print(json.dumps({"forward_ms": round(1e3 * best[0], 3), "backward_ms": round(1e3 * best[1], 3)}))


if __name__ == "__main__":
    main()
