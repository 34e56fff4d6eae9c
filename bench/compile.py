# SPDX-License-Identifier: Apache-2.0
"""Compiling a large model: GPT-2 of 1.5 billion parameters for training, as a process from fork to exit. No weight exists while
it compiles.

Usage: compile.py BUILD_FOLDER [--rounds N] [--json]"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

SHAPE = {"n-layer": 48, "n-head": 25, "n-embd": 1600, "block-size": 1024, "vocab-size": 50257, "batch-size": 1}


def once(words):
    """(seconds, most bytes resident) of a process."""
    start = time.perf_counter()
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    if status != 0:
        sys.exit(f"compile.py: {words[0]} failed")
    return time.perf_counter() - start, usage.ru_maxrss * 1024


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true", help="print the figures as one JSON object")
    a = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        shape = [word for name, value in SHAPE.items() for word in (f"--{name}", str(value))]
        rounds = [once([f"{a.build}/examples/gpt2", "compile", *shape, "--output-folder", folder]) for _ in range(a.rounds)]
    f = {"seconds": statistics.median(seconds for seconds, _ in rounds), "megabytes": max(peak for _, peak in rounds) / 1e6}
    print(json.dumps(f) if a.json else f"GPT-2 1.5B compiled in {f['seconds']:.2f} s and {f['megabytes']:.0f} MB")


if __name__ == "__main__":
    main()
