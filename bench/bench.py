# SPDX-License-Identifier: Apache-2.0
"""make bench: SambaFlow against PyTorch, torch.compile, JAX and ONNX Runtime, in one run.

Each case: the example compiles its PEF; all contenders start from the same weights and inputs, one process each; their first
losses (for inference their outputs) must agree before anything is timed; then they take turns, and a contender that is not asked
is stopped, so that threads of its pool that spin for more work take nothing from the others. Prints tables, writes
BUILD_FOLDER/bench.jsonl: the machine, then one row a case. Then come cases that are no steps (generating, loading, compiling),
each a script of this folder.

Usage: bench.py BUILD_FOLDER [--quick] [--check] [--markdown] [--last] [--scaling] [--against FOLDER] [--isa ISA]
                [WORD ...]
  WORD ...    only cases with one of these words in their name
  --quick     short turns, and no case whose step takes about a second
  --check     exit 1 if a case misses its target (cases.py)
  --markdown  write the figures into docs/performance.md
  --last      measure nothing, take the rows of the last run
  --scaling   time and compile time of GPT-2 by its layers instead (scaling.py);
  with --check it fails if a step is 10 % off the line
  --against FOLDER  another build of this project takes turns with this one instead of the peers (against.py)
  --isa ISA   keep all to this instruction set (avx2): SambaFlow, PyTorch, oneDNN, MKL and XLA are told; ONNX Runtime cannot be"""

import argparse
import glob
import importlib.util
import json
import os
import platform
import select
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from importlib import metadata

import against
import scaling
from cases import CASES, FIGURES, INFERENCE, TOLERANCE, Figure

import report
from report import Absent, Failed

HERE = os.path.dirname(os.path.abspath(__file__))
PAGE = os.path.join(os.path.dirname(HERE), "docs", "performance.md")
SCRIPTS = {"jax": ("jax_step.py", ["jax"]), "onnxruntime": ("onnx_step.py", ["onnxruntime", "onnx", "onnxscript"])}
PATIENCE = 600  # seconds for one answer


class Contender:
    """A process that obeys protocol.py's lines. It runs only while it is asked something."""

    def __init__(self, command, folder):
        self.errors = tempfile.TemporaryFile(dir=folder)
        self.pending = b""
        # A group of its own, to be stopped with the children that torch.compile keeps.
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors, bufsize=0, process_group=0
        )
        try:
            self.about = self.answer()
        except BaseException:
            self.end()
            raise

    def answer(self):
        until = time.monotonic() + PATIENCE
        while b"\n" not in self.pending:
            ready, _, _ = select.select([self.process.stdout], [], [], max(until - time.monotonic(), 0))
            more = os.read(self.process.stdout.fileno(), 1 << 20) if ready else b""
            if not more:
                raise Failed(self.last_words() if ready else f"no answer within {PATIENCE} s")
            self.pending += more
        line, self.pending = self.pending.split(b"\n", 1)
        os.killpg(self.process.pid, signal.SIGSTOP)
        return json.loads(line)

    def ask(self, line):
        os.killpg(self.process.pid, signal.SIGCONT)
        try:
            self.process.stdin.write(line.encode() + b"\n")
        except BrokenPipeError:
            raise Failed(self.last_words()) from None
        return self.answer()

    def last_words(self):
        self.errors.seek(0)
        lines = [line for line in self.errors.read().decode(errors="replace").splitlines() if line.strip()]
        return lines[-1].strip()[:200] if lines else f"ended with status {self.process.wait()} and no message"

    def end(self):
        for number in (signal.SIGKILL, signal.SIGCONT):
            try:
                os.killpg(self.process.pid, number)
            except ProcessLookupError:
                pass
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()
        self.errors.close()


def run(command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise Failed((done.stderr.strip() or f"{command[0]} failed").splitlines()[-1])
    return done.stdout


class Bench:
    def __init__(self, build, quick, most_turns=7):
        self.build, self.greatest = build, {}
        self.threads = len(os.sched_getaffinity(0))
        self.turn_seconds, self.most_turns = (0.1, 3) if quick else (0.3, most_turns)
        needed = [(peer, module) for peer, (_, modules) in SCRIPTS.items() for module in modules]
        self.missing = {
            peer: f"Python package {module} is not installed"
            for peer, module in needed
            if importlib.util.find_spec(module) is None
        }

    def peaks(self):
        """What the machine gives at this moment: a clock or a neighbour changes it from minute to minute.
        `greatest` keeps the most of this run."""
        now = json.loads(run([f"{self.build}/bench/peak", str(self.threads)]))
        self.greatest = {name: max(value, self.greatest.get(name, 0)) for name, value in now.items()}
        return now

    def compile(self, case, folder):
        """The PEF and what `compile` says of it; Absent where the example cannot do this case yet."""
        program = f"{self.build}/examples/{case.example}"
        if not os.path.exists(program):
            raise Absent(f"there is no examples/{case.example}")
        words = case.options()
        usage = run([program, "--help"])
        unknown = [word for word in words if word.startswith("--") and word not in usage]
        if unknown:
            raise Absent(f"examples/{case.example} has no option {', '.join(unknown)}")
        said = json.loads(run([program, "compile", *words, "--output-folder", folder, "--pef-name", "case", "--json"]))
        return said["pef"], said

    def start_ms(self, case, folder):
        """What a user waits for a first step: the whole process that compiles and the whole process that loads the PEF and runs
        one step, from fork to exit, one after the other."""
        times = []
        for _ in range(1 if case.long else 5):
            start = time.perf_counter()
            run(
                [
                    f"{self.build}/examples/{case.example}",
                    "compile",
                    *case.options(),
                    "--output-folder",
                    folder,
                    "--pef-name",
                    "start",
                    "--json",
                ]
            )
            run([f"{self.build}/sambaflow", "run", f"{folder}/start/start.pef"])
            times.append(1e3 * (time.perf_counter() - start))
        return statistics.median(times)

    def start(self, case, pef, folder, peer):
        if peer is None:
            classes = [f"{name}={count}" for name, count in case.classes.items()]
            output = "logits" if case.kind == INFERENCE else "loss"
            return Contender([f"{self.build}/bench/step", pef, folder, str(self.threads), case.kind, output, *classes], folder)
        if peer in self.missing:
            raise Absent(self.missing[peer])
        job = {
            "peer": peer,
            "example": case.example,
            "settings": case.settings,
            "optimizer": case.optimizer,
            "kind": case.kind,
            "dtype": case.dtype,
            "threads": self.threads,
            "folder": folder,
        }
        return Contender([sys.executable, f"{HERE}/{SCRIPTS.get(peer, ('torch_step.py',))[0]}", json.dumps(job)], folder)

    def first_steps(self, case, contender, folder, name, wanted):
        """Losses or outputs of a contender, and its first step's ms.
        `wanted` are those of the first contender, which these must be close to."""
        if case.kind == INFERENCE:
            import numpy as np

            path = f"{folder}/{name.replace(' ', '_')}.npy"
            first_ms = contender.ask(f"output {path}")["first_ms"]
            values = np.load(path).reshape(-1)
            scales = [float(np.abs(values).max())] * len(values)
        else:
            # A model wholly in bfloat16 rounds small updates away: only its first losses are those of the others.
            answer = contender.ask(f"losses {2 if case.long or name == 'pure bf16' else case.compared}")
            values, first_ms = answer["losses"], answer["first_ms"]
            scales, wanted = [max(abs(x), 1) for x in values], wanted and wanted[: len(values)]
        if wanted is not None:
            report.compare(values, wanted, scales, TOLERANCE[case.dtype])
        return values, first_ms

    def calibrate(self, contender):
        """Warms up; steps in a turn of so many seconds."""
        ms = contender.ask("time 1")["ms"][0]
        if ms < 1e3 * self.turn_seconds:
            ms = min(contender.ask(f"time {min(int(100 * self.turn_seconds / ms) + 2, 200)}")["ms"])
        return ms, max(1, min(int(1e3 * self.turn_seconds / ms), 20000))

    def time(self, contenders, peers):
        """Name -> all times, and the last answer, of contenders that take turns, each time in another order; and the median of
        what reading memory gave between turns, GB/s. A peer that fails goes to `peers`."""
        times, answers, outside, steps, slowest, reading = {}, {}, {}, {}, 0, []
        turn, turns = -1, self.most_turns  # turn -1 finds out how many steps a turn has
        while turn < turns:
            names = list(contenders)
            first = turn % len(names)
            reading.append(self.peaks()["read_gbytes"])
            for name in names[first:] + names[:first]:
                try:
                    if turn < 0:
                        ms, steps[name] = self.calibrate(contenders[name])
                        slowest = max(slowest, ms)
                        times[name], outside[name] = [], []
                        continue
                    count = steps[name]
                    answers[name] = answer = contenders[name].ask(f"time {count}")
                    # What others left in the caches is not this one's: the first tenth of a turn is for warming up.
                    times[name] += answer["ms"][max(count // 10, 1) if count >= 4 else 0 :]
                    outside[name].append(answer.get("outside_ms", 0))
                except Failed as failure:
                    if name == "ours":
                        raise
                    peers[name] = {"absent": f"FAILED: {failure}"}
                    contenders.pop(name).end()
            turns = min(self.most_turns, 99 if slowest < 100 else 5 if slowest < 1000 else 3 if slowest < 3000 else 2)
            turn += 1
        for name, answer in answers.items():
            answer["outside_ms"] = statistics.median(outside[name])
        return times, answers, statistics.median(reading)

    def run_case(self, case):
        contenders = {}
        with tempfile.TemporaryDirectory() as folder:
            try:
                pef, plan = self.compile(case, folder)
                start_ms = self.start_ms(case, folder)
                contenders["ours"] = self.start(case, pef, folder, None)
                wanted, first = self.first_steps(case, contenders["ours"], folder, "ours", None)
                first_ms, peers = {"ours": first}, {}
                for peer in case.peers:
                    try:
                        contenders[peer] = self.start(case, pef, folder, peer)
                        _, first_ms[peer] = self.first_steps(case, contenders[peer], folder, peer, wanted)
                    except Failed as failure:
                        peers[peer] = {"absent": str(failure)}
                        if peer in contenders:
                            contenders.pop(peer).end()
                times, answers, reading = self.time(contenders, peers)
                for name, contender in contenders.items():
                    peers[name] = report.summary(
                        times[name], first_ms[name], answers[name]["peak_bytes"], contender.about["base_bytes"]
                    )
                ours = {
                    **peers.pop("ours"),
                    **contenders["ours"].about,
                    "first_ms": first,
                    "outside_ms": answers["ours"]["outside_ms"],
                }
                ours["start_ms"] = start_ms
                return report.make_row(case, ours, plan, {peer: peers[peer] for peer in case.peers}, self.greatest, reading)
            except Absent as reason:
                return report.absent_row(case, str(reason))
            except Failed as failure:
                return report.absent_row(case, f"FAILED: {failure}")
            finally:
                for contender in contenders.values():
                    contender.end()

    def run_figure(self, case):
        """What a script of this folder measures."""
        try:
            missing = [name for name in case.needs if importlib.util.find_spec(name) is None]
            if missing:
                raise Absent(f"Python package {', '.join(missing)} is not installed")
            return report.figure_row(
                case, json.loads(run([sys.executable, f"{HERE}/{case.script}", self.build, *case.arguments, "--json"]))
            )
        except Absent as reason:
            return report.absent_row(case, str(reason))
        except Failed as failure:
            return report.absent_row(case, f"FAILED: {failure}")


def read_text(path, default=""):
    try:
        with open(path) as file:
            return file.read().strip()
    except OSError:
        return default


def keep_to(isa):
    """From now on every process that this one starts uses no better instructions."""
    for line in run([f"{os.path.dirname(HERE)}/tools/isa-variables.sh", isa]).splitlines():
        name, _, value = line.partition("=")
        os.environ[name] = f"{os.environ[name]} {value}" if name == "XLA_FLAGS" and name in os.environ else value


def describe_machine(bench):
    info = dict(line.split(":", 1) for line in read_text("/proc/cpuinfo").split("\n\n")[0].splitlines() if ":" in line)
    info = {key.strip(): value.strip() for key, value in info.items()}
    caches = []
    for folder in sorted(glob.glob("/sys/devices/system/cpu/cpu0/cache/index*")):
        if read_text(f"{folder}/type") != "Instruction":
            caches.append(f"L{read_text(f'{folder}/level')} {read_text(f'{folder}/size')}")
    cpu = f"{info.get('model name', platform.machine())}, family {info.get('cpu family', '?')} model {info.get('model', '?')}"
    versions = [
        f"{name} {metadata.version(package)}"
        for name, package in (("PyTorch", "torch"), ("JAX", "jax"), ("ONNX Runtime", "onnxruntime"))
        if importlib.util.find_spec(package)
    ]
    return {
        "machine": {
            "cpu": cpu,
            "threads": bench.threads,
            "isa": os.environ.get("SAMBAFLOW_ISA"),
            "caches": ", ".join(caches),
            "system": f"{platform.system()} {platform.release()}",
            "memory_gib": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / (1 << 30),
            "peaks": bench.peaks(),
            "versions": versions,
            "date": time.strftime("%Y-%m-%d"),
            "load": os.getloadavg()[0],
        }
    }


def measure(bench, cases, path):
    machine = describe_machine(bench)
    print(report.describe(machine["machine"]))
    if machine["machine"]["load"] > 0.5:
        print("bench: other programs are running: these times are not the machine's")
    for reason in bench.missing.values():
        print(f"bench: absent: {reason}")
    rows, group = [], None
    with open(path, "w") as out:
        out.write(json.dumps(machine) + "\n")
        for case in cases:
            row = bench.run_figure(case) if isinstance(case, Figure) else bench.run_case(case)
            rows.append(row)
            out.write(json.dumps(row) + "\n")
            out.flush()
            if row["kind"] == report.FIGURE:
                lines = [report.figure_line(cells) for cells in report.figure_cells(row)]
            else:
                lines = [report.line(report.group_of(row), report.cells(row))]
                if group != report.group_of(row):
                    group = report.group_of(row)
                    lines = [
                        "",
                        f"{report.TITLES[group]}: times in ms, memory in MiB",
                        report.line(group, report.header(group)),
                        *lines,
                    ]
            print("\n".join(lines), flush=True)
            for reason in report.absences(row):
                print(f"    {reason}", flush=True)
    print(f"\nwrote {path}")
    return machine["machine"], rows


def read_last(path):
    lines = [json.loads(line) for line in read_text(path).splitlines()]
    if not lines:
        raise SystemExit(f"bench: {path} is not there: run without --last first")
    return lines[0]["machine"], lines[1:]


def main():
    parser = argparse.ArgumentParser(usage=__doc__[__doc__.index("Usage: ") + 7 :].replace("%", "%%"))
    parser.add_argument("build")
    parser.add_argument("words", nargs="*")
    for option in ("quick", "check", "markdown", "last", "scaling"):
        parser.add_argument("--" + option, action="store_true")
    parser.add_argument("--against", metavar="FOLDER")
    parser.add_argument("--isa", metavar="ISA")
    given = parser.parse_intermixed_args()
    others = [name for name in ("check", "markdown", "last", "scaling") if getattr(given, name)]
    if given.isa and given.last:
        parser.error("--last measures nothing: --isa would have no effect")
    if given.against and others:
        parser.error(f"--against measures alone: leave out --{', --'.join(others)}")
    if given.isa:
        try:
            keep_to(given.isa)
            run([f"{given.build}/sambaflow", "machine", "--isa", given.isa])
        except Failed as failure:
            raise SystemExit(f"bench: --isa {given.isa}: {failure}") from None
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    if given.scaling:
        apart = scaling.measure(Bench(given.build, given.quick))
        raise SystemExit(1 if given.check and apart > 0.1 else 0)
    path = f"{given.build}/bench.jsonl"
    cases = [
        case
        for case in [*CASES, *FIGURES]
        if not (given.quick and case.long) and (not given.words or any(word in case.name for word in given.words))
    ]
    if not cases:
        raise SystemExit(
            f"bench: no case has any of {' '.join(given.words)} in its name; cases: "
            f"{', '.join(case.name for case in [*CASES, *FIGURES])}"
        )
    if given.against:
        if not os.path.exists(f"{given.against}/bench/step"):
            raise SystemExit(f"bench: {given.against} is no build folder of this project: there is no bench/step in it")
        steps = [case for case in cases if not isinstance(case, Figure)]
        if not steps:
            raise SystemExit("bench: --against times steps, and none of these cases is one")
        return against.measure(Bench(given.build, given.quick, against.TURNS), Bench(given.against, given.quick), steps)
    with tempfile.TemporaryDirectory() as cache:
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = cache  # torch.compile really compiles, not finds
        machine, rows = read_last(path) if given.last else measure(Bench(given.build, given.quick), cases, path)
    if given.markdown:
        with open(PAGE) as file:
            text = report.replace_figures(file.read(), report.markdown(machine, rows))
        with open(PAGE, "w") as file:
            file.write(text)
        print(f"wrote {os.path.relpath(PAGE)}")
    wrong = report.wrong(rows)
    missed = report.misses(cases, rows) if given.check else []
    for text in missed:
        print(f"missed: {text}")
    raise SystemExit(1 if wrong or missed else 0)


if __name__ == "__main__":
    main()
