#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every row of every family against PyTorch, by the reference, eager and compiled: values, gradients, and gradients against
central differences.

    prove.py                              everything, by two processes
    prove.py norm reduce                  these families
    prove.py norm --operator softmax --dtype float32 --sample 7 --seed 5      what a failure prints, to make it again
    prove.py --quick 40                   of each operator and dtype at most so many samples, spread over all of them
    prove.py --speed                      instead each operator's speed against PyTorch's on one core (speed.py), sorted by ratio
    prove.py --json docs/operators.json   also notes what docs/operators.md (page.py) says of each row: cases and greatest
                                          errors, or ratios

A case is one sample of one dtype in one mode. How much may differ: compare.py, differences.py.
A row says what is left out and why."""

import argparse
import collections
import concurrent.futures
import importlib
import json
import os
import pathlib
import sys
import time
import traceback
import zlib

os.environ.setdefault("OMP_NUM_THREADS", "1")
HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import differences
import modes
import torch
from compare import ROUNDS, Expected, Noise, compare, expected_around, widened
from table import Maker, Sample

MODES = ("reference", "eager", "compiled")
BATCH = 8  # samples in one graph
NOT_FAMILIES = ("table", "compare", "modes", "differences", "misuse", "page", "prove", "speed", "views")
MOST_SHOWN = 5  # failures of one operator and dtype


def family_names():
    return sorted(path.stem for path in HERE.glob("*.py") if path.stem not in NOT_FAMILIES)


def rows_of(family):
    return importlib.import_module(family).OPERATORS


def name_of(dtype):
    return str(dtype).removeprefix("torch.")


TORCHS_OWN = {  # what torch says of itself, not of the sample
    "INTERNAL ASSERT FAILED": "torch fails by an assertion of its own",
    "view size is not compatible": "torch's kernel does not take the operands' strides",
    "Unsupported memory format": "torch's kernel does not have the operands' layout",
}


class Proof:
    """One operator and dtype."""

    def __init__(self, family, row, dtype, options):
        self.family, self.row, self.dtype, self.options = family, row, dtype, options
        self.cases, self.failed = collections.Counter(), []
        self.gradients = self.differences = 0
        self.ulp = self.gradient_ulp = 0.0
        self.skipped = collections.Counter()
        self.generator = torch.Generator().manual_seed(options.seed)

    # ---- samples ----

    def samples(self):
        make = Maker(self.dtype, self.options.seed + zlib.crc32(f"{self.row.name} {self.dtype}".encode()))
        numbered = list(enumerate(self.row.samples(make)))
        if self.options.sample is not None:
            return [pair for pair in numbered if pair[0] == self.options.sample]
        if self.options.quick and len(numbered) > self.options.quick:
            step, offset = len(numbered) / self.options.quick, self.options.seed % len(numbered)
            numbered = [numbered[(int(k * step) + offset) % len(numbered)] for k in range(self.options.quick)]
        return numbered

    def fail(self, number, mode, what, sample=None):
        self.failed.append(
            {
                "family": self.family,
                "operator": self.row.name,
                "dtype": name_of(self.dtype),
                "sample": number,
                "mode": mode,
                "what": what,
                "call": describe(sample) if sample is not None else "",
                "again": (
                    f"tests/operators/prove.py {self.family} --operator {self.row.name} --dtype {name_of(self.dtype)} "
                    f"--sample {number} "
                    f"--seed {self.options.seed}"
                ),
            }
        )

    # ---- what is expected ----

    def wants(self, sample):
        return (
            self.row.gradient
            and sample.gradient
            and any(modes.wants_gradient(x) for x in modes.tensors_of((sample.args, dict(sample.kwargs))))
        )

    def expect(self, sample):
        """(expected values, expected gradients, seeds)."""
        row, gradient = self.row, self.wants(sample)
        results, _ = modes.by_torch(row.call, sample, gradient=False)
        seeds = modes.seeds_for(results, self.generator)
        gradient = gradient and any(s is not None for s in seeds)
        torchs = modes.by_torch(row.call, sample, seeds, gradient)
        wide_seeds = [None if s is None else s.double() for s in seeds]
        truth, moves = torchs, []
        if self.dtype.is_floating_point or any(x.dtype.is_floating_point for x in results):
            wide = self.like(sample, *widened((sample.args, dict(sample.kwargs))))
            call = row.truth or row.call
            truth = modes.by_torch(call, wide, wide_seeds, gradient)
            if (
                gradient or not row.exact and sample.terms > 1
            ):  # of exact values too: what was broadcast has a gradient that is a sum
                noise = Noise(self.unit(results), self.generator)
                for _ in range(ROUNDS):
                    args, kwargs, moved_seeds = noise.nudged((wide.args, dict(wide.kwargs), wide_seeds))
                    moved = self.like(wide, args, kwargs)
                    with noise:
                        moves.append(modes.by_torch(call, moved, moved_seeds, gradient))
        values = [
            self.expected(i, 0, results[i].dtype, truth, torchs, moves if sample.terms > 1 else [], sample, sample.terms)
            for i in range(len(results))
        ]
        if not gradient:
            return values, None, seeds
        leaves = [x for x in modes.tensors_of((sample.args, dict(sample.kwargs))) if modes.wants_gradient(x)]
        return (
            values,
            [
                self.expected(i, 1, x.dtype, truth, torchs, moves, sample, max(sample.terms, self.spread(results, x)))
                for i, x in enumerate(leaves)
            ],
            seeds,
        )

    @staticmethod
    def spread(results, leaf):
        """How many elements of a result one element of an input is broadcast to: its gradient is a sum of so many terms."""
        return max((x.numel() // leaf.numel() for x in results if leaf.numel()), default=1)

    def unit(self, results):
        """The coarsest dtype of the results: what inputs are nudged by."""
        floats = [x.dtype for x in results if x.dtype.is_floating_point] + ([self.dtype] if self.dtype.is_floating_point else [])
        return max(floats or [torch.float32], key=lambda dtype: torch.finfo(dtype).eps)

    @staticmethod
    def like(sample, args, kwargs):
        """The sample with other values."""
        for old, new in zip(modes.tensors_of((sample.args, dict(sample.kwargs))), modes.tensors_of((args, kwargs))):
            if getattr(old, "no_gradient", False):
                new.no_gradient = True
        return Sample(args, kwargs, sample.terms, sample.gradient)

    def expected(self, i, which, dtype, truth, torchs, moves, sample, terms):
        exact = self.row.exact and which == 0
        wide = truth[which][i]
        if exact or not dtype.is_floating_point:
            return Expected(torchs[which][i], torchs[which][i], dtype)
        around = expected_around(wide.double(), torchs[which][i], [move[which][i] for move in moves], dtype, self.row.ulp, terms)
        if self.row.place and any(isinstance(x, torch.Tensor) and x.numel() for x in sample.args):
            around.allowed += (
                self.row.place
                * torch.finfo(dtype).eps
                * max(float(x.abs().max()) for x in sample.args if isinstance(x, torch.Tensor) and x.numel())
            )
        return around

    # ---- the modes ----

    def run(self):
        numbered = self.samples()
        for at in range(0, len(numbered), BATCH):
            self.batch(numbered[at : at + BATCH])
        return self

    def batch(self, numbered):
        ready = []
        for number, sample in numbered:
            try:
                self.generator.manual_seed(self.options.seed + number)  # a sample alone is what it is among others
                ready.append((number, sample, *self.expect(sample)))
            except Exception as error:  # of torch: the row is wrong, or torch
                why = next((why for words, why in TORCHS_OWN.items() if words in str(error)), None)
                if why:
                    self.skipped[why] += 1
                    continue
                self.fail(number, "torch", f"{type(error).__name__}: {first_line(error)}", sample)
        for number, sample, values, gradients, seeds in ready:
            try:
                found = modes.by_eager(self.row.call, sample, seeds, gradients is not None)
            except Exception as error:
                self.refused(number, "eager", error, sample)
                continue
            self.judge(number, "eager", found, values, gradients, sample)
        if self.row.untraced:
            for mode in ("reference", "compiled"):
                self.skipped[f"{mode}: {self.row.untraced}"] += len(ready)
        elif ready:
            self.graph(ready)

    def refused(self, number, mode, error, sample):
        self.cases[mode] += 1
        place = traceback.extract_tb(error.__traceback__)[-1]
        self.fail(
            number,
            mode,
            f"{type(error).__name__}: {first_line(error)} ({pathlib.Path(place.filename).name}:{place.lineno})",
            sample,
        )

    def graph(self, ready):
        """Reference and compiled, of all together; one by one where that fails, so that it is known whose fault it is."""
        found = {}
        try:
            whole = modes.Whole(
                self.row.call,
                [
                    self.like(s, s.args, s.kwargs) if g is not None else Sample(s.args, s.kwargs, s.terms, False)
                    for _, s, _, g, _ in ready
                ],
                self.row.gradient,
            )
            seeds = [seed for _, _, _, _, some in ready for seed in some]
            for mode in ("reference", "compiled"):
                found[mode] = whole.run(mode == "reference", seeds)
        except Exception as error:
            if len(ready) > 1:
                for one in ready:
                    self.graph([one])
                return
            self.refused(ready[0][0], "reference" if "reference" not in found else "compiled", error, ready[0][1])
            return
        for mode in ("reference", "compiled"):
            for (number, sample, values, gradients, _), given in zip(ready, found[mode]):
                self.judge(number, mode, given, values, gradients, sample)
        if self.dtype is torch.float64 and whole.wanted:
            self.differ(ready, whole, found, seeds)

    def differ(self, ready, whole, found, seeds):
        for mode in ("reference", "compiled"):
            gradients = [g for _, some in found[mode] for g in some]
            generators = [torch.Generator().manual_seed(self.options.seed + 1 + number) for number, *_ in ready]
            wrong = differences.check(whole, mode == "reference", seeds, gradients, generators, modes._turned)
            self.differences += sum(count > 0 for count in whole.leaves)
            for k, what in wrong.items():
                self.fail(ready[k][0], mode, what, ready[k][1])

    def judge(self, number, mode, found, values, gradients, sample):
        self.cases[mode] += 1
        if len(found[0]) != len(values):
            self.fail(number, mode, f"{len(found[0])} results instead of {len(values)}", sample)
            return
        for i, (given, expected) in enumerate(zip(found[0], values)):
            difference = compare(given, expected)
            self.ulp = max(self.ulp, difference.ulp)
            if difference.wrong:
                self.fail(number, mode, f"value{f' {i}' if len(values) > 1 else ''} {difference.wrong}", sample)
                return
        for i, (given, expected) in enumerate(zip(found[1] or [], gradients or [])):
            self.gradients += 1
            difference = compare(given, expected)
            self.gradient_ulp = max(self.gradient_ulp, difference.ulp)
            if difference.wrong:
                self.fail(number, mode, f"gradient{f' {i}' if len(gradients) > 1 else ''} {difference.wrong}", sample)
                return


def first_line(error):
    return (str(error).splitlines() or [""])[0][:300]


def describe(sample):
    """The arguments, tensors by dtype and shape."""

    def word(x):
        if isinstance(x, torch.Tensor):
            strided = "" if x.is_contiguous() else f" strides {tuple(x.stride())}"
            return f"{name_of(x.dtype)}{list(x.shape)}{strided}"
        if isinstance(x, (list, tuple)):
            return f"[{', '.join(word(part) for part in x)}]"
        return repr(x)

    words = [word(x) for x in sample.args] + [f"{name}={word(x)}" for name, x in dict(sample.kwargs).items()]
    return f"({', '.join(words)})"


# ---- all of them ----


def work(task):
    """One operator and dtype, in a process of its own pool."""
    family, index, dtype, options = task
    torch.set_num_threads(1)
    began = time.perf_counter()
    row = rows_of(family)[index]
    proof = Proof(family, row, dtype, options)
    try:
        proof.run()
    except Exception as error:
        proof.fail(
            -1, "prove.py", traceback.format_exc().strip().splitlines()[-1] + f" {traceback.extract_tb(error.__traceback__)[-1]}"
        )
    return {
        "family": family,
        "operator": row.name,
        "index": index,
        "dtype": name_of(dtype),
        "cases": dict(proof.cases),
        "gradients": proof.gradients,
        "differences": proof.differences,
        "ulp": proof.ulp,
        "gradient_ulp": proof.gradient_ulp,
        "seconds": time.perf_counter() - began,
        "failed": proof.failed,
        "skipped": dict(proof.skipped),
    }


def tasks_of(options):
    for family in options.families or family_names():
        for index, row in enumerate(rows_of(family)):
            if options.operator and row.name != options.operator:
                continue
            for dtype in row.dtypes:
                if (not options.dtype or name_of(dtype) == options.dtype) and dtype not in row.without:
                    yield family, index, dtype, options


def all_results(options):
    tasks = list(tasks_of(options))
    if options.jobs == 1 or len(tasks) == 1:
        return [work(task) for task in tasks]
    with concurrent.futures.ProcessPoolExecutor(options.jobs) as pool:
        return list(pool.map(work, tasks))


def print_table(results):
    print(
        f"{'family':<14}{'operators':>10}{'cases':>9}{'gradients':>11}{'differences':>13}{'failed':>8}{'seconds':>9}  greatest "
        "error in ULP (values; gradients)"
    )
    families = collections.defaultdict(list)
    for result in results:
        families[result["family"]].append(result)
    for name, some in list(families.items()) + [("all", results)]:
        worst = max(some, key=lambda r: r["ulp"], default=None)
        worst_gradient = max(some, key=lambda r: r["gradient_ulp"], default=None)
        shown = ", ".join(
            f"{r[key]:.1f} {r['operator']} {r['dtype']}" for r, key in ((worst, "ulp"), (worst_gradient, "gradient_ulp")) if r
        )
        print(
            f"{name:<14}{len({(r['family'], r['operator']) for r in some}):>10}{sum(sum(r['cases'].values()) for r in some):>9}{sum(r['gradients'] for r in some):>11}"  # noqa: E501
            f"{sum(r['differences'] for r in some):>13}{sum(len(r['failed']) for r in some):>8}{sum(r['seconds'] for r in some):>9.1f}  {shown}"  # noqa: E501
        )


def print_left_out(options, results):
    reasons = collections.Counter()
    for family in options.families or family_names():
        for row in rows_of(family):
            for dtype, reason in row.without.items():
                reasons[f"{row.name} {name_of(dtype)}: {reason}"] += 1
    for result in results:
        for reason, count in result["skipped"].items():
            reasons[f"{result['operator']} {result['dtype']}, {reason}"] += count
    print(f"left out, with the reason in the row: {sum(reasons.values())}")
    for reason in sorted(reasons):
        print(f"  {reason}" + (f" ({reasons[reason]} cases)" if reasons[reason] > 1 else ""))


def print_failures(results):
    for result in results:
        for failure in result["failed"][:MOST_SHOWN]:
            print(
                f"FAILED {failure['operator']} {failure['dtype']} {failure['mode']}: {failure['what']}\n    {failure['call']}\n  "
                f"  again: {failure['again']}"
            )
        if len(result["failed"]) > MOST_SHOWN:
            print(f"    ... and {len(result['failed']) - MOST_SHOWN} more of {result['operator']} {result['dtype']}")


def note(path, results):
    """Rows that were run take the place of what the file says of them:
    dtype -> [cases, gradients, differences, ULP of values, of gradients]."""
    whole = noted(path)
    known = whole["rows"]
    rows = collections.defaultdict(dict)
    for r in results:
        here = rows[f"{r['family']}/{r['operator']}"].setdefault(
            r["dtype"], [0, 0, 0, 0.0, 0.0]
        )  # an operator may have several rows
        counts = [sum(r["cases"].values()), r["gradients"], r["differences"]]
        here[:] = [a + b for a, b in zip(here, counts)] + [
            round(max(a, b), 2) for a, b in zip(here[3:], (r["ulp"], r["gradient_ulp"]))
        ]
    known.update(rows)
    write_notes(path, whole)


def noted(path):
    """What the file says: of rows, and of their speed."""
    return {"rows": {}, "speed": {}, "measured": {}, **(json.loads(path.read_text()) if path.exists() else {})}


def write_notes(path, whole):
    """A row a line."""

    def lines(name):
        rows = [f"  {json.dumps(row)}: {json.dumps(facts)}" for row, facts in sorted(whole[name].items())]
        return f'"{name}": {{\n' + ",\n".join(rows) + "\n}"

    head = f'"torch": "{torch.__version__.split("+")[0]}", "measured": {json.dumps(whole["measured"])}'
    path.write_text(f"{{{head}, {lines('rows')}, {lines('speed')}}}\n")


def time_all(options):
    """prove.py --speed."""
    import speed

    found, failed = speed.measure(options, family_names, rows_of, describe)
    speed.print_tables(found, failed)
    if options.json:
        path = pathlib.Path(options.json)
        whole = noted(path)
        whole["speed"].update(speed.summed(found))
        samples = options.quick or speed.MOST
        whole["measured"] = {
            "machine": speed.machine(),
            "date": time.strftime("%Y-%m-%d"),
            "seed": options.seed,
            "samples": f"{samples} sample{'s' * (samples > 1)} of each size",
        }
        write_notes(path, whole)
    return 1 if failed or not found else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("families", nargs="*")
    parser.add_argument("--operator")
    parser.add_argument("--dtype")
    parser.add_argument("--sample", type=int)
    parser.add_argument("--speed", action="store_true")
    parser.add_argument("--part", metavar="I/N", help="of --speed: every N-th operator from the I-th on")
    parser.add_argument("--seed", type=int)
    parser.add_argument("--quick", type=int, default=0, metavar="N")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--json")
    options = parser.parse_args()
    unknown = set(options.families) - set(family_names())
    if unknown:
        parser.error(f"no family {', '.join(sorted(unknown))}: there are {', '.join(family_names())}")
    began = time.perf_counter()
    if options.seed is None:  # of speed always the same, so that two runs compare the same cases
        options.seed = 1 if options.speed else int(os.environ.get("SAMBAFLOW_SEED") or time.time()) % 1000000
    print(f"prove.py --seed {options.seed}")
    if options.speed:
        return time_all(options)
    results = all_results(options)
    print_failures(results)
    print_table(results)
    print_left_out(options, results)
    cases, failed = sum(sum(r["cases"].values()) for r in results), sum(len(r["failed"]) for r in results)
    print(
        f"{cases} cases of {len({(r['family'], r['operator']) for r in results})} operators in {time.perf_counter() - began:.0f} "
        f"s, {failed} failures"
    )
    if options.json:
        note(pathlib.Path(options.json), results)
    if cases == 0:
        print("nothing was run: is the name right?")
    return 1 if failed or cases == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
