#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""docs/operators.md: from the families' rows, src/ops.def and what prove.py noted in docs/operators.json.

page.py             which rows, of families and of ops.def, the page lacks, and which are no more; fails where there is one of
                    either. Needs no torch
page.py --write     writes it anew"""

import argparse
import ast
import json
import pathlib
import re
import statistics
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
PAGE, RESULTS = ROOT / "docs" / "operators.md", ROOT / "docs" / "operators.json"
NOT_FAMILIES = ("table", "compare", "modes", "differences", "misuse", "page", "prove", "speed", "views")
HEAD = """# Operators

Made by `tests/operators/page.py --write` of the rows that `make prove` runs, and of what it found: each operator against PyTorch
{torch}, evaluated by the reference kernels, eagerly, and compiled between neighbours that fuse with it; values, gradients, and
gradients in float64 against central differences. {cases} cases, {gradients} gradients, {differences} differences.

- **dtypes**: what the row is proved for. floats: float32, float64, bfloat16, float16; integers: int64, int32, int16, int8, uint8.
- **gradient**: whether the operator has one.
- **fused**: of what the compiler computes it. *yes*: tile operators alone, which share a stage with their neighbours. Else what
  it is beside them: a product (whose result tile operators continue), a kernel of its own, a view (free) or a move.
- **error**: the greatest seen, in units in the last place of the result or, where terms cancel, of the terms; values, then
  gradients. *exact*: equal to the last bit. `tests/operators/compare.py` says what is allowed and why.
- **times PyTorch**: how many times as long PyTorch eager takes on one core, forward, then forward and backward, float32 unless
  said otherwise: the median of three sizes. Below 1 PyTorch is faster; empty: not measured. `make prove PROVE="--speed"`,
  {measured};
  [performance.md](performance.md#every-operator) says how, `docs/operators.json` has each size.
"""


def families():
    return sorted(path.stem for path in HERE.glob("*.py") if path.stem not in NOT_FAMILIES)


def core():
    """(name, class, whether it has a gradient) of each row of ops.def."""
    rows = re.findall(
        r"^OP\(\s*(\w+),\s*-?\d+,\s*\w+,\s*(\w+),\s*\w+,\s*\w+,\s*(\w+),", (ROOT / "src" / "ops.def").read_text(), re.M
    )
    return [(name, kind, {"none": "no", "second": "is one"}.get(vjp, "yes")) for name, kind, vjp in rows]


# ---- without torch ----


def written_names(family):
    """Names of Operator("name", ...) in a family's file that are written out."""
    tree = ast.parse((HERE / f"{family}.py").read_text())
    calls = [n for n in ast.walk(tree) if isinstance(n, ast.Call) and getattr(n.func, "id", "") == "Operator" and n.args]
    return sorted({n.args[0].value for n in calls if isinstance(n.args[0], ast.Constant)})


def differences():
    """Rows that the page does not have yet, which the next `make prove` with --json finds,
    and those that it should no longer have."""
    proved, _, cores = PAGE.read_text().partition("## Core operators")
    named = {name for family in families() for name in written_names(family)}
    left = [f"tests/operators: {name}" for name in sorted(named) if f"| `{name}` |" not in proved]
    left += [f"src/ops.def: {name}" for name, _, _ in core() if f"| `{name}` |" not in cores]
    gone = sorted(set(re.findall(r"^\| `(\w+)` \|", cores, re.M)) - {name for name, _, _ in core()})
    return left, gone


# ---- with it ----


def dtypes_of(row):
    from table import BOOL, FLOATS, INTEGERS

    left, words = [d for d in row.dtypes if d not in row.without], []
    for group, word in ((FLOATS, "floats"), (INTEGERS, "integers"), (BOOL, "bool")):
        inside = [d for d in left if d in group]
        words += [word] if len(inside) == len(group) else [str(d).removeprefix("torch.") for d in inside]
    return ", ".join(words)


def peer_of(row):
    import torch
    import torch.nn.functional as F

    name = getattr(row.call, "__name__", "")
    for holder, prefix in ((F, "F."), (torch, "torch."), (torch.linalg, "torch.linalg."), (torch.Tensor, "Tensor.")):
        if getattr(holder, name, None) is row.call and name:
            return prefix + name
    for holder, prefix in (
        (torch.fft, "torch.fft."),
        (torch, "torch."),
        (F, "F."),
        (torch.linalg, "torch.linalg."),
        (torch.Tensor, "Tensor."),
    ):
        if hasattr(holder, row.name):
            return prefix + row.name
    return "torch"


def made_of(row):
    """The core operators of a sample's graph; None where it is not traced."""
    import modes
    import torch
    from table import Maker

    from sambaflow._core import lib
    from sambaflow.samba.graph import operators
    from sambaflow.samba.sambatensor import from_torch_tensor
    from sambaflow.samba.trace import Tracer, at_work

    if row.untraced:
        return None
    dtype = next(d for d in row.dtypes if d not in row.without)
    samples = [s for s in row.samples(Maker(dtype, 1)) if all(x.numel() > 1 for x in modes.tensors_of(s.args))] or list(
        row.samples(Maker(dtype, 1))
    )
    for sample in samples[:3]:
        tracer, count = Tracer("row"), iter(range(1000))
        try:
            with at_work(tracer):
                args, kwargs = torch.utils._pytree.tree_map(
                    lambda x: (
                        tracer.input(from_torch_tensor(x.detach().contiguous()), f"x{next(count)}")
                        if isinstance(x, torch.Tensor)
                        else x
                    ),
                    (sample.args, dict(sample.kwargs)),
                )
                for k, x in enumerate(modes.tensors_of(row.call(*args, **kwargs))):
                    lib.samba_output(tracer.graph, f"y{k}".encode(), tracer.value(x))
            tracer.prune()
            return sorted({o.op for o in operators(tracer.graph) if o.phase})
        except Exception:  # the next sample may be an easier one
            continue
    return None


def fused(row, classes):
    ops = made_of(row)
    if ops is None:
        return "not traced"
    special = sorted({op for op in ops if classes[op] in ("CONTRACT", "KERNEL", "MOVE")})
    words = {"CONTRACT": "product", "KERNEL": "kernel", "MOVE": "move"}
    if special:
        return ", ".join(f"{words[classes[op]]} {op}" for op in special)
    return "yes" if any(classes[op] in ("MAP", "REDUCE", "COMPOSITE") for op in ops) else "view"


def error_of(row, found):
    if not found:
        return "not run"
    if row.exact and not row.gradient:
        return "exact"
    value = max(found.items(), key=lambda item: item[1][3])
    gradient = max(found.items(), key=lambda item: item[1][4])
    words = "exact" if row.exact or value[1][3] == 0 else f"{value[1][3]:.1f} {value[0]}"
    return words + (f"; {gradient[1][4]:.1f} {gradient[0]}" if row.gradient and gradient[1][1] else "")


def speed_of(found):
    """The last column: the medians of the sizes, of each dtype that was timed."""
    words = []
    for dtype, ways in found.items():
        figures = ", ".join(f"{statistics.median(sizes.values()):.2f}" for sizes in ways.values() if sizes)
        words.append(f"{'' if dtype == 'float32' else dtype + ' '}{figures}")
    return "; ".join(words)


def write():
    sys.path.insert(0, str(HERE))
    import importlib

    results = json.loads(RESULTS.read_text())
    classes = {name: kind for name, kind, _ in core()}
    totals = [sum(found[i] for row in results["rows"].values() for found in row.values()) for i in range(3)]
    parts = [
        HEAD.format(
            torch=results["torch"],
            cases=f"{totals[0]:,}",
            gradients=f"{totals[1]:,}",
            differences=f"{totals[2]:,}",
            measured="{date}, {machine}, {samples}".format(**results["measured"]) if results.get("measured") else "not run yet",
        )
    ]
    for family in families():
        parts.append(
            f"\n## {family.capitalize()}\n\n| operator | dtypes | gradient | fused | error | compared with | note | times "
            "PyTorch "
            "|\n| --- | --- | --- | --- | --- | --- | --- | --- |\n"
        )
        shown = set()
        for row in importlib.import_module(family).OPERATORS:
            if getattr(row.call, "__name__", "") == "viewed" and row.name in shown:
                continue  # the same operator between views: one line of both
            shown.add(row.name)
            notes = [row.note] if row.note else []
            notes += [f"not {str(dtype).removeprefix('torch.')}: {why}" for dtype, why in row.without.items()]
            notes += [f"not traced: {row.untraced}"] if row.untraced else []
            found = results["rows"].get(f"{family}/{row.name}", {})
            cells = (
                f"`{row.name}`",
                dtypes_of(row),
                "yes" if row.gradient else "no",
                fused(row, classes),
                error_of(row, found),
                f"`{peer_of(row)}`",
                "; ".join(dict.fromkeys(notes)).replace("|", "\\|"),
                speed_of(results.get("speed", {}).get(f"{family}/{row.name}", {})),
            )
            parts.append(f"| {' | '.join(cells)} |\n")
    parts.append(
        "\n## Core operators\n\nWhat all of these are made of: the rows of `src/ops.def`, which the text form of a graph names. "
        "The random graphs of `tests/fuzz`\ntake all of them.\n\n| operator | class | gradient |\n| --- | --- | --- |\n"
    )
    parts += [f"| `{name}` | {kind} | {gradient} |\n" for name, kind, gradient in core()]
    PAGE.write_text("".join(parts))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true")
    if parser.parse_args().write:
        write()
    left, gone = differences()
    if left:
        print(
            f"not in docs/operators.md yet: {', '.join(left)}\nmake prove PROVE='FAMILY --operator NAME --json "
            "docs/operators.json' and tests/operators/page.py --write add them"
        )
    if gone:
        print(f"docs/operators.md has rows that are no more: {', '.join(gone)}: tests/operators/page.py --write makes it anew")
    if not left and not gone:
        print("docs/operators.md has every row")
    return 1 if left or gone else 0


if __name__ == "__main__":
    sys.exit(main())
