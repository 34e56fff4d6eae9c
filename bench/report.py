# SPDX-License-Identifier: Apache-2.0
"""What make bench makes of its times: rows (one JSON object a case), tables for people, Markdown for docs/performance.md, and
what misses its target. Nothing here measures."""

import statistics

from cases import INFERENCE, NEIGHBOUR, PEERS, TRAIN, Figure

TITLES = {
    (TRAIN, "float32"): "Training steps, fp32",
    (TRAIN, "bfloat16"): "Training steps, bf16 contractions",
    (INFERENCE, "float32"): "Inference, fp32",
    (INFERENCE, "bfloat16"): "Inference, bf16 contractions",
}
FIGURE = "figure"  # the kind of a row of figures
LABELS = {
    "eager": "PyTorch",
    "compile": "torch.compile",
    "jax": "JAX",
    "onnxruntime": "ONNX Runtime",
    "autocast": "autocast",
    "pure bf16": "pure bf16",
}
SHORT = {"compile": "t.c.", "jax": "JAX"}  # those that compile
# How figures are shown, by the ends of their names, of which the first that fits counts: times what, in which unit.
UNITS = {
    "of_bandwidth": (100, " %"),
    "with_cache": (100, " %"),
    "mfu": (100, " %"),
    "waiting": (100, " %"),
    "working": (100, " %"),
    "ready": (100, " %"),
    "pinned": (100, " %"),
    "bandwidth": (1e-9, " GB/s"),
    "times_pytorch": (1, " times"),
    "tokens_per_second": (1, " tokens/s"),
    "after_long": (1, " tokens/s"),
    "ms": (1, " ms"),
    "us": (1, " us"),
    "over_off": (100, " %"),
    "ms_a_step": (1, " ms"),
    "seconds": (1, " s"),
    "megabytes": (1, " MB"),
    "": (1, ""),
}
BEGIN, END = "<!-- figures: written by bench/bench.py --markdown -->", "<!-- end of figures -->"


class Failed(Exception):
    """A contender does not start, does not answer, or differs."""


class Absent(Failed):
    """It is not there to be measured, which is no mistake."""


def compare(values, wanted, scales, tolerance):
    """Failed if a contender's losses or outputs are not close to SambaFlow's."""
    if len(values) != len(wanted):
        raise Failed(f"DIFFERS: {len(values)} values, SambaFlow {len(wanted)}")
    errors = [abs(x - y) / scale for x, y, scale in zip(values, wanted, scales)]
    worst = max(range(len(errors)), key=lambda i: errors[i] if errors[i] == errors[i] else float("inf"))
    if not errors[worst] <= tolerance:
        raise Failed(
            f"DIFFERS: value {worst + 1} of {len(values)} is {values[worst]:.7g}, SambaFlow's {wanted[worst]:.7g}; "
            f"{errors[worst]:.1e} apart, "
            f"{tolerance:.0e} allowed; not timed"
        )


def group_of(row):
    return row["kind"], row["dtype"]


def summary(times, first_ms, peak_bytes, base_bytes):
    """Of one contender's times. What its first step took longer than a median one went into compiling, or warming up."""
    ms = statistics.median(times)
    return {
        "ms": ms,
        "best_ms": min(times),
        "steps": len(times),
        "compile_ms": max(first_ms - ms, 0),
        "peak_bytes": peak_bytes,
        "base_bytes": base_bytes,
    }


def absent_row(case, reason):
    kind, dtype = (FIGURE, "") if isinstance(case, Figure) else (case.kind, case.dtype)
    return {"case": case.name, "kind": kind, "dtype": dtype, "absent": reason}


def figure_row(case, figures):
    missing = [name for name in case.targets if name not in figures]
    if missing:
        raise Failed(f"{case.script} gives no {', '.join(missing)}")
    peers = {name: {"absent": reason} for name, reason in figures.pop("absent", {}).items()}
    return {"case": case.name, "kind": FIGURE, "dtype": "", "figures": figures, "targets": case.targets, "peers": peers}


def make_row(case, ours, plan, peers, peaks, reading):
    """`ours` is a summary with what step.c says of load and plan, `plan` what `sambaflow inspect` says, `peers` summaries by name
    or {"absent": why}. `peaks` are the greatest of the run,
    `reading` the GB/s that reading memory gave between the turns of this case."""
    seconds = ours["ms"] * 1e-3
    timed = {name: peer["ms"] for name, peer in peers.items() if "ms" in peer}
    best = min(timed, key=timed.get, default=None)
    peak = peaks["bf16_gflops" if case.dtype == "bfloat16" and peaks["bf16_gflops"] else "fp32_gflops"]
    sections = [s for s in plan["sections"] if not s.get("redone_by") and (case.kind == TRAIN or s["type"] == "FWD")]
    moved = sum(s["bytes"] for s in sections)
    return {
        "case": case.name,
        "kind": case.kind,
        "dtype": case.dtype,
        "example": case.example,
        "batch": case.batch,
        "settings": case.settings,
        "optimizer": case.optimizer,
        **ours,
        "compile_ms": plan["compile_ms"],
        "model_flops": case.flops(),
        "plan_flops": sum(s["flops"] for s in sections),
        "plan_moved_bytes": moved,
        "bytes_per_second": moved / seconds,
        "peak_gflops": peak,
        "reading_gbytes": reading,
        "mfu": case.flops() / seconds / (peak * 1e9),
        "best_peer": best,
        "ratio": timed[best] / ours["ms"] if best else None,
        "best_ratio": min(peers[name]["best_ms"] for name in timed) / ours["best_ms"] if best else None,
        "peers": peers,
    }


# ---- numbers for people ------------------------------------------------------------------------------------------
def short(x, unit=""):
    """Three or four digits: 0.00712, 3.41, 284, 1021."""
    if x is None:
        return "-"
    digits = next((n for n, limit in ((5, 0.1), (4, 1), (3, 10), (2, 100), (1, 1000)) if abs(x) < limit), 0)
    return f"{x:.{digits}f}{unit}"


def mib(x):
    return "-" if x is None else f"{x / (1 << 20):.0f}" if x >= 10 << 20 else f"{x / (1 << 20):.1f}"


def header(group):
    """Of the table: ms of all, then what is ours unless it says whose.
    "first" is what the first step took longer than the others."""
    firsts = [f"{SHORT[peer]} first" for peer in PEERS[group] if peer in SHORT]
    return [
        "case",
        "ms",
        "best",
        *(LABELS[peer] for peer in PEERS[group]),
        "ratio",
        "of bests",
        "MFU",
        "reading then",
        "GB/s",
        "outside",
        "compile",
        "start",
        *firsts,
        "memory",
        "plan",
        f"{LABELS[PEERS[group][0]]}'s",
    ]


def cells(row):
    """One row of the table, as texts under header()."""
    peers = PEERS[group_of(row)]
    if "absent" in row:
        return [row["case"]] + ["-"] * (len(header(group_of(row))) - 1)
    of = {name: row["peers"].get(name, {}) for name in peers}
    texts = [row["case"], short(row["ms"]), short(row["best_ms"])] + [short(of[name].get("ms")) for name in peers]
    texts += [
        short(row["ratio"]),
        short(row.get("best_ratio")),
        f"{100 * row['mfu']:.0f} %",
        f"{row['reading_gbytes']:.0f}",
        short(row["bytes_per_second"] / 1e9),
        short(row["outside_ms"]),
        short(row["compile_ms"]),
        short(row["start_ms"]),
    ]
    texts += [short(of[name].get("compile_ms")) for name in peers if name in SHORT]
    return texts + [mib(row["peak_bytes"]), mib(row["plan_bytes"]), mib(of[peers[0]].get("peak_bytes"))]


def line(group, texts):
    """For a terminal: columns as wide as their heads."""
    widths = [max(len(title), 7) + 2 for title in header(group)]
    return f"{texts[0]:<27}" + "".join(f"{text:>{width}}" for text, width in zip(texts[1:], widths[1:]))


def figure_cells(row):
    """(case, figure, value, wanted) of each figure, as texts; those with a target come first."""
    if "absent" in row:
        return [(row["case"], "-", "-", "")]
    targets = row["targets"]
    names = [*targets, *(name for name in row["figures"] if name not in targets)]
    units = {name: next(unit for end, unit in UNITS.items() if name.endswith(end)) for name in names}

    def wanted(name):
        factor, unit = units[name]
        return " and ".join(
            f"{how} {factor * limit:g}{unit}"
            for how, limit in zip(("at least", "at most"), targets.get(name, ()))
            if limit is not None
        )

    def shown(name):
        value = row["figures"][name]
        return "-" if value is None else short(units[name][0] * value, units[name][1])

    return [(row["case"], name.replace("_", " "), shown(name), wanted(name)) for name in names]


def figure_line(cells):
    """For a terminal."""
    return f"{cells[0]:<27}{cells[1]:<28}{cells[2]:>16}   {cells[3]}"


def absences(row):
    """Lines that say why a cell is "-"."""
    if "absent" in row:
        return [f"{row['case']}: not measured: {row['absent']}"]
    return [f"{row['case']}: {LABELS[name]}: {peer['absent']}" for name, peer in row.get("peers", {}).items() if "absent" in peer]


def wrong(rows):
    """Whether a peer's results differ, or SambaFlow failed: then a run is no success."""
    return any(
        row.get("absent", "").startswith("FAILED")
        or any(peer.get("absent", "").startswith("DIFFERS") for peer in row.get("peers", {}).values())
        for row in rows
    )


# ---- targets -----------------------------------------------------------------------------------------------------
def misses(cases, rows):
    """What does not reach its target, a line each."""
    found, by_name = [], {row["case"]: row for row in rows if "absent" not in row}
    measured = {row["case"] for row in rows}

    def want(case, what, value, low=None, high=None):
        if value is None or (low is not None and value < low) or (high is not None and value > high):
            wanted = f"at least {low:.4g}" if low is not None else f"at most {high:.4g}"
            found.append(f"{case.name}: {what} {'not measured' if value is None else f'{value:.4g}'}, wanted {wanted}")

    for case in cases:
        row = by_name.get(case.name)
        if row is None:
            if case.name in measured:
                found.append(f"{case.name}: not measured: {next(r['absent'] for r in rows if r['case'] == case.name)}")
            continue
        if isinstance(case, Figure):
            for what, (low, high) in case.targets.items():
                want(case, what, row["figures"][what], low=low, high=high)
            continue
        for what, target in case.targets.items():
            if what in ("ratio", "mfu"):
                want(case, what, row[what], low=target)
            elif what == "eager":
                peer = row["peers"].get("eager", {})
                want(case, "ratio to PyTorch eager", peer["ms"] / row["ms"] if "ms" in peer else None, low=target)
            elif what == "over_plan":
                want(case, what, (row["peak_bytes"] - row["base_bytes"]) / row["plan_bytes"] - 1, high=target)
            elif what == "neighbours":
                for name in (name for name in target if name in by_name):
                    want(case, f"mfu beside {name}", row["mfu"], low=by_name[name]["mfu"] - NEIGHBOUR)
            else:
                want(case, what, row[what], high=target)
    return found


# ---- docs/performance.md -----------------------------------------------------------------------------------------
def describe(machine):
    peaks = machine["peaks"]
    kept = ""
    if machine.get("isa"):
        kept = f"All kept to {machine['isa']}, but for ONNX Runtime, which cannot be told. "
    bf16 = f", bf16 {peaks['bf16_gflops']:.0f} GFLOP/s" if peaks["bf16_gflops"] else ", no bf16 unit that is measured"
    return (
        f"{machine['cpu']}, {machine['threads']} threads, {machine['caches']}, {machine['memory_gib']:.0f} GiB; "
        f"{machine['system']}. "
        f"Peaks measured as the run began: fp32 {peaks['fp32_gflops']:.0f} GFLOP/s{bf16}, reading memory "
        f"{peaks['read_gbytes']:.1f} GB/s. {kept}"
        f"{', '.join(machine['versions'])}. {machine['date']}; load when the run began: {machine['load']:.2f}."
    )


def markdown(machine, rows):
    lines = [describe(machine)]
    for group, title in TITLES.items():
        group_rows = [row for row in rows if group_of(row) == group]
        if not group_rows:
            continue
        titles = header(group)
        lines += ["", f"### {title}", "", "| " + " | ".join(titles) + " |", "| --- |" + " ---: |" * (len(titles) - 1)]
        lines += ["| " + " | ".join(cells(row)) + " |" for row in group_rows]
        reasons = [reason for row in group_rows for reason in absences(row)]
        lines += [""] * bool(reasons) + [f"- {reason}" for reason in reasons]
    figures = [row for row in rows if row["kind"] == FIGURE]
    if figures:
        lines += ["", "### Beside steps", "", "| case | figure | | wanted |", "| --- | --- | ---: | --- |"]
        lines += ["| " + " | ".join(cells) + " |" for row in figures for cells in figure_cells(row)]
        reasons = [reason for row in figures for reason in absences(row)]
        lines += [""] * bool(reasons) + [f"- {reason}" for reason in reasons]
    return "\n".join(lines)


def replace_figures(text, figures):
    begin, end = text.find(BEGIN), text.find(END)
    if begin < 0 or end < begin:
        raise SystemExit(f"bench: the page lacks the lines '{BEGIN}' and '{END}' between which figures stand")
    return text[: begin + len(BEGIN)] + "\n" + figures + "\n" + text[end:]
