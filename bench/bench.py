# SPDX-License-Identifier: Apache-2.0
"""make bench: whole training steps against PyTorch eager, in one run.

Each case: the example compiles its PEF; both contenders start from the same weights and inputs; their first losses must be equal before
anything is timed; then they take turns, one process each. Prints a table and appends JSON lines to build/bench.jsonl.

Usage: bench.py BUILD_FOLDER [CASE ...]"""
import json
import os
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
LR, MOMENTUM, WEIGHT_DECAY = 0.01, 0.9, 1e-4
# name, example, batch, hidden, steps a turn
CASES = [
    ("logreg b1", "logreg", 1, 0, 2000),
    ("logreg b100", "logreg", 100, 0, 1000),
    ("resffn h128 b32", "resffn", 32, 128, 300),
    ("resffn h1024 b256", "resffn", 256, 1024, 25),
    ("lenet b32", "lenet", 32, 0, 200),
    ("lenet b256", "lenet", 256, 0, 40),
]
TURNS = 7


class Contender:
    def __init__(self, command):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        if self.process.stdout.readline().strip() != "ready":
            raise SystemExit(f"bench: {command[0]} did not start; its message stands above")

    def ask(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def stop(self):
        self.process.stdin.close()
        self.process.wait()


def run_case(build, case, peak, threads):
    name, example, batch, hidden, steps = case
    with tempfile.TemporaryDirectory() as folder:
        compile_ = [f"{build}/examples/{example}", "compile", "--batch-size", str(batch), "--output-folder", folder, "--pef-name", "case", "--json",
                    "--optimizer", "sgd", "--lr", str(LR), "--momentum", str(MOMENTUM), "--weight-decay", str(WEIGHT_DECAY)]
        if hidden:
            compile_ += ["--hidden-size", str(hidden)]
        subprocess.run(compile_, check=True, stdout=subprocess.DEVNULL)
        pef, tensors = f"{folder}/case/case.pef", f"{folder}/tensors.safetensors"
        inspected = json.loads(subprocess.run([f"{build}/sambaflow", "inspect", "--json", pef], check=True, capture_output=True, text=True).stdout)
        flops = sum(section["flops"] for section in inspected["sections"])
        ours = Contender([f"{build}/bench/step", pef, tensors, "10", str(threads)])
        peer = Contender([sys.executable, f"{HERE}/torch_step.py", example, str(hidden or 128), tensors, "sgd", str(LR), str(MOMENTUM),
                          str(WEIGHT_DECAY), "0", str(threads)])
        a, b = ours.ask("losses 10"), peer.ask("losses 10")
        worst = max(abs(x - y) / max(abs(y), 1e-3) for x, y in zip(a, b))
        if worst > 1e-4:
            raise SystemExit(f"bench: {name}: losses differ by {worst:.1e} relative: {a} and {b}; nothing was timed")
        mine, theirs = [], []
        for turn in range(TURNS):
            result, other = ours.ask(f"time {steps}"), peer.ask(f"time {max(steps // 4, 5)}")
            if turn > 0:  # the first turn warms up
                mine += result["ms"]
                theirs += other["ms"]
        ours.stop()
        peer.stop()
    ms, peer_ms = statistics.median(mine), statistics.median(theirs)
    return {"case": name, "dtype": "float32", "kind": "train", "ms": ms, "best_ms": min(mine), "peer": "pytorch eager", "peer_ms": peer_ms,
            "ratio": peer_ms / ms, "mfu": flops / (ms * 1e-3) / (peak * 1e9), "peak_bytes": result["peak_bytes"], "plan_bytes": result["plan_bytes"],
            "peer_peak_bytes": other["peak_bytes"], "outside_ms": result["outside_ms"], "threads": result["threads"], "cpu": cpu_name(),
            "fma_peak_gflops": peak}


def cpu_name():
    with open("/proc/cpuinfo") as file:
        names = [line.split(":", 1)[1].strip() for line in file if line.startswith("model name")]
    return names[0] if names else "unknown"


def main():
    build, wanted = sys.argv[1], sys.argv[2:]
    threads = len(os.sched_getaffinity(0))
    peak = json.loads(subprocess.run([f"{build}/bench/peak", str(threads)], check=True, capture_output=True, text=True).stdout)["gflops"]
    print(f"{cpu_name()}, {threads} threads, FMA peak measured now: {peak:.0f} GFLOP/s")
    print(f"{'case':<20}{'ms':>10}{'best':>10}{'PyTorch':>10}{'ratio':>8}{'MFU':>8}{'outside':>10}{'memory':>11}{'plan':>11}{'PyTorch':>11}")
    slower = 0
    with open(f"{build}/bench.jsonl", "w") as out:
        for case in CASES:
            if wanted and not any(word in case[0] for word in wanted):
                continue
            r = run_case(build, case, peak, threads)
            out.write(json.dumps(r) + "\n")
            out.flush()
            mib = 1 << 20
            print(f"{r['case']:<20}{r['ms']:>10.4f}{r['best_ms']:>10.4f}{r['peer_ms']:>10.4f}{r['ratio']:>8.2f}{100 * r['mfu']:>6.1f} %"
                  f"{r['outside_ms']:>10.4f}{r['peak_bytes'] / mib:>7.0f} MiB{r['plan_bytes'] / mib:>7.1f} MiB{r['peer_peak_bytes'] / mib:>7.0f} MiB", flush=True)
            slower += r["ratio"] < 1
    print(f"times in ms a step; wrote {build}/bench.jsonl" + (f"; {slower} slower than PyTorch" if slower else ""))
    raise SystemExit(1 if slower else 0)


if __name__ == "__main__":
    main()
