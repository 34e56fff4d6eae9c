# SPDX-License-Identifier: Apache-2.0
"""make bench BENCH=--scaling: does cost grow as the work does? GPT-2's width, 768, with 2 to 24 layers: the time of a training
step and of compiling, each held against a straight line over layers. Such a line is a constant (embedding, the projection onto
the vocabulary and its loss; reading and writing files) and so much a layer;
it is fitted by least squares of relative errors, so that each depth counts alike."""

import statistics
import tempfile

from cases import ADAMW, Case, gpt

LAYERS = [2, 4, 8, 12, 24]
BATCH, TIME = 4, 256


def case_of(layers):
    return Case(f"gpt2 L{layers}", "gpt2", BATCH, ADAMW, gpt(layers, 12, 768, TIME, 50257), long=True)


def fit(xs, ys):
    """a, b of a + b x, and the greatest relative distance of a y from it."""
    weights = [1 / y**2 for y in ys]
    total = sum(weights)
    mx, my = (sum(w * v for w, v in zip(weights, values)) / total for values in (xs, ys))
    b = sum(w * (x - mx) * (y - my) for w, x, y in zip(weights, xs, ys)) / sum(w * (x - mx) ** 2 for w, x in zip(weights, xs))
    a = my - b * mx
    return a, b, max(abs(y / (a + b * x) - 1) for x, y in zip(xs, ys))


def visit(bench, layers, steps):
    """Times of some steps after a first one, and of compiling, in ms."""
    case = case_of(layers)
    with tempfile.TemporaryDirectory() as folder:
        compiling = []
        for _ in range(5):
            pef, plan = bench.compile(case, folder)
            compiling.append(plan["compile_ms"])
        ours = bench.start(case, pef, folder, None)
        try:
            ours.ask("losses 1")
            return ours.ask(f"time {steps}")["ms"], compiling
        finally:
            ours.end()


def table(layers, steps, compiling, peak_gflops):
    """Lines of Markdown; steps and compiling: ms by layers."""
    step_fit, compile_fit = fit(layers, steps), fit(layers, compiling)
    lines = ["| layers | ms a step | us a token | line | apart | MFU | ms to compile | line | apart |", "| ---: " * 9 + "|"]
    for n, ms, c in zip(layers, steps, compiling):
        line, compile_line = step_fit[0] + step_fit[1] * n, compile_fit[0] + compile_fit[1] * n
        mfu = case_of(n).flops() / (ms * 1e-3) / (peak_gflops * 1e9)
        lines.append(
            f"| {n} | {ms:.0f} | {1e3 * ms / (BATCH * TIME):.0f} | {line:.0f} | {100 * (ms / line - 1):+.1f} % | "
            f"{100 * mfu:.0f} % | "
            f"{c:.1f} | {compile_line:.1f} | {100 * (c / compile_line - 1):+.1f} % |"
        )
    lines.append(
        f"\nA step: {step_fit[0]:.0f} ms and {step_fit[1]:.1f} ms a layer, at most {100 * step_fit[2]:.1f} % apart. "
        f"Compiling: {compile_fit[0]:.1f} ms and {compile_fit[1]:.2f} ms a layer, at most {100 * compile_fit[2]:.1f} % apart."
    )
    return lines, step_fit[2]


def measure(bench):
    """Deeper and deeper, then back, so that what drifts meanwhile tells on all alike.
    The greatest relative distance of a step from the line."""
    steps, compiling = {n: [] for n in LAYERS}, {n: [] for n in LAYERS}
    bench.peaks()
    for n in LAYERS + LAYERS[::-1]:
        ms, compile_ms = visit(bench, n, 3)
        steps[n] += ms
        compiling[n] += compile_ms
        print(f"L{n}: {statistics.median(ms):.0f} ms a step, {statistics.median(compile_ms):.1f} ms to compile", flush=True)
    lines, apart = table(
        LAYERS,
        [statistics.median(steps[n]) for n in LAYERS],
        [statistics.median(compiling[n]) for n in LAYERS],
        bench.greatest["fp32_gflops"],
    )
    print("\n" + "\n".join(lines))
    return apart
