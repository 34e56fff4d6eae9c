#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fine-tuning, batch 4 and 256 tokens: folders with random models of GPT-2's and SmolLM's shape, all of the weights or LoRA of
rank 8, a step of ours beside one of transformers (PyTorch eager) or PEFT, by turns in one run; and with --memory the greatest
memory of a process that trains adapters on a base in fewer bits, beside PEFT's in bfloat16.

    bench/lm_train.py --build build [--model gpt2|smollm] [--kind full|lora] [--precision fp32|bf16] [--turns 3] [--steps 4]
                      [--threads 2] [--memory] [--keep FOLDER] [--json FILE]

It needs NumPy, safetensors, torch, transformers and peft. A peer is a process of its own, which sleeps out of its turn."""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

from lm_generate import MODELS, write_model

BATCH, LENGTH, RANK = 4, 256, 8


def sambaflow(arguments, *words):
    command = [arguments.build / "sambaflow", *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}: {done.stderr}")
    return done.stdout


def compiled(arguments, folder, kind, *words):
    """The PEF, and the weights to start it from."""
    pef = folder.with_name(f"{folder.name}-{kind}{''.join(words)}.pef".replace("/", ""))
    adapters = ["--lora-rank", RANK, "--lora-alpha", RANK] if kind == "lora" else []
    optimizer = ["--optimizer", "adamw", "--lr", 1e-4, "--max-grad-norm", 1, "--no-dropout", "--pef", pef]
    sambaflow(arguments, "lm", "compile", "--model", folder, "-b", BATCH, "--length", LENGTH, *optimizer, *adapters, *words)
    weights = pef.with_suffix(".safetensors")
    return pef, weights if weights.exists() else folder


def ours(arguments, pef, weights):
    words = ["--load", weights, "--partial", "--num-iterations", arguments.steps, "--threads", arguments.threads, "--json"]
    return json.loads(sambaflow(arguments, "measure-performance", pef, *words))


def peer(folder, kind, precision, threads, steps):
    """A process that does as many steps for each line of its input and answers with their times and its greatest memory."""
    import resource

    import torch
    import transformers

    torch.set_num_threads(threads)
    dtype = torch.bfloat16 if precision == "pure bf16" else torch.float32
    config = json.loads((pathlib.Path(folder) / "config.json").read_text())
    zero = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0} if config["model_type"] == "gpt2" else {}
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=dtype, **zero)
    if kind == "lora":
        import peft

        model = peft.get_peft_model(
            model, peft.LoraConfig(r=RANK, lora_alpha=RANK, target_modules="all-linear", task_type="CAUSAL_LM")
        )
    model.train()
    learned = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(learned, lr=1e-4, fused=True)
    ids = torch.randint(0, config["vocab_size"], (BATCH, LENGTH), generator=torch.Generator().manual_seed(0))

    def step():
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cpu", torch.bfloat16, enabled=precision == "bf16"):
            loss = model(input_ids=ids, labels=ids, use_cache=False).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(learned, 1.0)
        optimizer.step()
        return loss.item()

    print(json.dumps([]), flush=True)
    for _ in sys.stdin:
        times = []
        for _ in range(steps):
            start = time.perf_counter()
            step()
            times.append(1000 * (time.perf_counter() - start))
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        print(json.dumps([times, memory]), flush=True)


class Peer:
    def __init__(self, arguments, folder, kind, precision, steps=None):
        words = ["--peer", folder, kind, precision, "--threads", arguments.threads, "--steps", steps or arguments.steps]
        self.process = subprocess.Popen(
            [sys.executable, __file__, *map(str, words)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self.process.stdout.readline()

    def turn(self):
        self.process.stdin.write("go\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def speed(arguments, folder, kind, precision):
    pef, weights = compiled(arguments, folder, kind, *(["--precision", "bf16"] if precision == "bf16" else []))
    other = Peer(arguments, folder, kind, precision)
    other.turn()
    mine, best, theirs, mfu = [], [], [], []
    for _ in range(arguments.turns):
        told = ours(arguments, pef, weights)
        mine.append(told["median_ms"])
        best.append(told["best_ms"])
        mfu.append(told["mfu"])
        theirs += other.turn()[0]
    other.close()
    median, peer_median = statistics.median(mine), statistics.median(theirs)
    print(
        f"{folder.name} {kind} {precision}: {median:.0f} ms (best {min(best):.0f}, MFU {100 * max(mfu):.0f} %), "
        f"{'PEFT' if kind == 'lora' else 'PyTorch'} {peer_median:.0f} ms (best {min(theirs):.0f}): "
        f"{peer_median / median:.2f} times as fast (bests {min(theirs) / min(best):.2f})",
        flush=True,
    )
    return {"ms": median, "best_ms": min(best), "peer_ms": peer_median, "peer_best_ms": min(theirs), "mfu": max(mfu)}


def memory(arguments, folder):
    """Adapters over fewer bits: the process's greatest memory, with and without a bound. The peer's step in bfloat16 takes
    minutes where the CPU has no such products."""
    other = Peer(arguments, folder, "lora", "pure bf16", steps=1)
    theirs = other.turn()[1]
    other.close()
    print(f"{folder.name} lora, PEFT in bfloat16: {theirs / 1e6:.0f} MB", flush=True)
    results = {"peft": theirs}
    bounds = {"int8": "800000000", "int4": "500000000"}
    for base, bound in [(name, words) for name in bounds for words in ([], ["--memory-budget", bounds[name]])]:
        pef, weights = compiled(arguments, folder, "lora", "--base", base, *bound)
        words = ["run", pef, "--load", weights, "--partial", "--num-iterations", "2", "--threads", arguments.threads]
        process = subprocess.Popen([str(word) for word in (arguments.build / "sambaflow", *words)], stdout=subprocess.DEVNULL)
        _, status, usage = os.wait4(process.pid, 0)
        if status:
            sys.exit(f"sambaflow {' '.join(map(str, words))}: it has failed")
        mine = usage.ru_maxrss * 1024
        print(f"{folder.name} lora, {' '.join((base, *bound))}: {mine / 1e6:.0f} MB, {mine / theirs:.2f} of it", flush=True)
        results[" ".join((base, *bound))] = mine
    return results


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default="build", type=pathlib.Path)
    parser.add_argument("--model", choices=("gpt2", "smollm"), action="append")
    parser.add_argument("--kind", choices=("full", "lora"), action="append")
    parser.add_argument("--precision", choices=("fp32", "bf16"), action="append")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--steps", type=int, default=4, help="of each in a turn")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--memory", action="store_true", help="memory alone")
    parser.add_argument("--json", type=pathlib.Path, help="a file for the numbers")
    parser.add_argument("--keep", type=pathlib.Path, help="where models are kept, and found again")
    parser.add_argument("--peer", nargs=3, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.peer:
        peer(*arguments.peer, arguments.threads, arguments.steps)
        return
    results = {}
    with tempfile.TemporaryDirectory() as temporary:
        for name in arguments.model or MODELS:
            folder = (arguments.keep or pathlib.Path(temporary)) / name
            if not (folder / "config.json").exists():
                write_model(folder, name)
            if arguments.memory:
                results[name] = memory(arguments, folder)
                continue
            for kind in arguments.kind or ("full", "lora"):
                for precision in arguments.precision or ("fp32",):
                    results[f"{name} {kind} {precision}"] = speed(arguments, folder, kind, precision)
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
