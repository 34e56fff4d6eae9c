# SPDX-License-Identifier: Apache-2.0
"""What profiling LeNet's step costs by the clock, batch 32, one thread: the best of many runs without it, with sections and with
stages timed, in turns, as a percentage of the first. tests/e2e/profile_cost.sh counts instructions.

Usage: profiling.py BUILD_FOLDER [--seconds 20] [--json]"""

import argparse
import json
import os
import subprocess
import tempfile


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build")
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--json", action="store_true", help="print the figures as one JSON object")
    a = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(
            [f"{a.build}/examples/lenet", "compile", "-b", "32", "--output-folder", folder], check=True, capture_output=True
        )
        done = subprocess.run(
            [f"{a.build}/tests/e2e/profile_cost", f"{folder}/lenet/lenet.pef", "time", str(a.seconds)],
            check=True,
            capture_output=True,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )
    best = {name: times["best_ms"] for name, times in json.loads(done.stdout).items()}
    figures = {"off_ms": best["off"], **{f"{name}_over_off": best[name] / best["off"] - 1 for name in ("summary", "detailed")}}
    print(
        json.dumps(figures)
        if a.json
        else f"{best['off']:.4f} ms off, summary {figures['summary_over_off']:+.2%}, detailed {figures['detailed_over_off']:+.2%}"
    )


if __name__ == "__main__":
    main()
