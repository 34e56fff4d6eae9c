# SPDX-License-Identifier: Apache-2.0
"""make bench BENCH="--against FOLDER": has a change made a case slower? Another build of this project, in FOLDER, takes turns
with this one, and so does this one a second time: its distance from itself is the noise of the machine. Each version compiles
its own PEF. First losses (for inference, outputs) are compared too; they are the same bits unless a change says otherwise."""

import itertools
import statistics
import tempfile

from cases import INFERENCE

from report import Absent, Failed

HEADER = ("case", "ms", "before", "before / now", "again / now", "best before / now", "values")
TURNS = 15


def first_values(case, contender, path):
    if case.kind == INFERENCE:
        contender.ask(f"output {path}")
        with open(path, "rb") as file:
            return file.read()
    return contender.ask(f"losses {2 if case.long else case.compared}")["losses"]


def run_case(bench, before, case):
    """The cells of a line."""
    with tempfile.TemporaryDirectory() as folder:
        contenders, values = {}, {}
        try:
            for name, build in (("ours", bench), ("before", before), ("again", bench)):
                own = tempfile.mkdtemp(dir=folder)
                pef, _ = build.compile(case, own)
                contenders[name] = build.start(case, pef, own, None)
                values[name] = first_values(case, contenders[name], f"{own}/output.npy")
            times, _, _ = bench.time(contenders, {})
        except (Absent, Failed) as failure:
            return [case.name, str(failure)]
        finally:
            for contender in contenders.values():
                contender.end()
    ours, other, again = (statistics.median(times[name]) for name in ("ours", "before", "again"))
    return [
        case.name,
        f"{ours:.4g}",
        f"{other:.4g}",
        f"{other / ours:.3f}",
        f"{again / ours:.3f}",
        f"{min(times['before']) / min(times['ours'] + times['again']):.3f}",
        "same" if values["ours"] == values["before"] else "DIFFER",
    ]


def measure(bench, before, cases):
    widths = [max(len(case.name) for case in cases), 8, 8, 12, 11, 17, 6]
    for cells in itertools.chain([HEADER], (run_case(bench, before, case) for case in cases)):
        line = [cells[0].ljust(widths[0])] + [cell.rjust(width) for cell, width in zip(cells[1:], widths[1:])]
        print("  ".join(line), flush=True)
