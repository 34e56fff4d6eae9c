# SPDX-License-Identifier: Apache-2.0
"""Tests of what bench.py does with its times; needs neither torch nor a measurement. Usage: test_report.py"""

import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import scaling
from cases import CASES, FIGURES, PEERS, Case, Figure

import report

PEAKS = {"fp32_gflops": 100.0, "bf16_gflops": 200.0, "read_gbytes": 10.0}
PLAN = {
    "compile_ms": 2.0,
    "sections": [
        {"type": "FWD", "flops": 300, "bytes": 1000},
        {"type": "FWD", "flops": 50, "bytes": 500, "redone_by": "BCKWD"},
        {"type": "BCKWD", "flops": 600, "bytes": 3000},
    ],
}


def row_of(case, ms, peers):
    ours = {**report.summary(ms, 9.0, 12 << 20, 2 << 20), "outside_ms": 0.001, "start_ms": 40.0, "plan_bytes": 8 << 20}
    return report.make_row(case, ours, PLAN, peers, PEAKS, 8.0)


def peer(ms, first_ms=50.0):
    return report.summary([ms] * 3, first_ms, 300 << 20, 200 << 20)


class Rows(unittest.TestCase):
    case = Case("one", "logreg", 100, {}, targets={"ratio": 2, "mfu": 0.5, "compile_ms": 1, "over_plan": 0.2})

    def test_ratio_is_to_the_fastest_peer_by_medians(self):
        row = row_of(self.case, [1.0, 2.0, 90.0], {"eager": peer(9.0), "compile": peer(5.0), "jax": {"absent": "no wheel"}})
        self.assertEqual((row["ms"], row["best_ms"], row["best_peer"], row["ratio"]), (2.0, 1.0, "compile", 2.5))
        self.assertEqual(row["peers"]["compile"]["compile_ms"], 45.0)

    def test_ratio_of_bests_takes_each_ones_best_step(self):
        peers = {"eager": report.summary([4.0, 9.0, 9.0], 50.0, 1, 1), "compile": peer(5.0)}
        self.assertEqual(row_of(self.case, [1.0, 2.0, 90.0], peers)["best_ratio"], 4.0)

    def test_rates(self):
        row = row_of(self.case, [2.0], {"eager": peer(9.0)})
        # Forward and weight gradient of 100 x 784 x 10; the images need no gradient.
        self.assertEqual(row["model_flops"], 2 * 2 * 100 * 784 * 10)
        self.assertAlmostEqual(row["mfu"], row["model_flops"] / 2e-3 / 100e9)
        self.assertEqual(report.cells(row)[8:10], ["2 %", "8"])
        self.assertEqual((row["plan_flops"], row["bytes_per_second"]), (900, 4000 / 2e-3))

    def test_inference_counts_forward_alone(self):
        row = row_of(Case("i", "logreg", 1, kind="inference"), [2.0], {"eager": peer(9.0)})
        self.assertEqual((row["model_flops"], row["plan_flops"]), (2 * 784 * 10, 300))

    def test_bf16_is_held_against_its_own_peak(self):
        case = Case("b", "resffn", 1, {}, {"hidden": 8}, dtype="bfloat16")
        self.assertEqual(row_of(case, [1.0], {})["peak_gflops"], 200.0)

    def test_every_peer_absent(self):
        row = row_of(self.case, [1.0], {"eager": {"absent": "none"}, "compile": {"absent": "none"}, "jax": {"absent": "none"}})
        self.assertIsNone(row["ratio"])
        self.assertEqual(len(report.absences(row)), 3)
        self.assertTrue(any("ratio not measured" in text for text in report.misses([self.case], [row])))


class Figures(unittest.TestCase):
    case = Figure("loading", "loader.py", targets={"share": (0.9, None), "megabytes": (None, 300)})

    def test_within(self):
        row = report.figure_row(self.case, {"share": 0.9, "megabytes": 300, "ms": 1.25})
        self.assertEqual(report.misses([self.case], [row]), [])
        self.assertEqual(
            [cells[1:] for cells in report.figure_cells(row)],
            [("share", "0.9000", "at least 0.9"), ("megabytes", "300.0 MB", "at most 300 MB"), ("ms", "1.250 ms", "")],
        )
        row = report.figure_row(
            Figure("generating", "generate.py", targets={"of_bandwidth": (0.9, None)}),
            {"of_bandwidth": 0.975, "bandwidth": 3.1e10},
        )
        self.assertEqual(
            [cells[1:] for cells in report.figure_cells(row)],
            [("of bandwidth", "97.50 %", "at least 90 %"), ("bandwidth", "31.00 GB/s", "")],
        )

    def test_a_peer_that_fails(self):
        row = report.figure_row(
            Figure("generating", "generate.py", targets={"times_pytorch": (2, None)}),
            {"times_pytorch": None, "ms": 2, "absent": {"eager": "no primitive"}},
        )
        self.assertEqual([cells[1:3] for cells in report.figure_cells(row)], [("times pytorch", "-"), ("ms", "2.000 ms")])
        self.assertEqual(report.absences(row), ["generating: PyTorch: no primitive"])
        self.assertFalse(report.wrong([row]))

    def test_page(self):
        row = report.figure_row(self.case, {"share": 0.9, "megabytes": 300})
        self.assertIn("| loading | share | 0.9000 | at least 0.9 |", report.markdown(Text.machine, [row]))

    def test_misses(self):
        row = report.figure_row(self.case, {"share": 0.89, "megabytes": 301})
        self.assertEqual([text.split(":")[1].split()[0] for text in report.misses([self.case], [row])], ["share", "megabytes"])

    def test_what_is_not_there(self):
        with self.assertRaises(report.Failed):
            report.figure_row(self.case, {"share": 1})
        row = report.absent_row(self.case, "FAILED: no loader")
        self.assertTrue(
            report.wrong([row]) and report.misses([self.case], [row]) and report.absences(row) and report.figure_cells(row)
        )


class Scaling(unittest.TestCase):
    def test_a_line_is_found(self):
        a, b, apart = scaling.fit([2, 4, 24], [7, 11, 51])
        self.assertAlmostEqual(a, 3)
        self.assertAlmostEqual(b, 2)
        self.assertLess(apart, 1e-12)

    def test_what_grows_faster_is_apart(self):
        layers = scaling.LAYERS
        self.assertGreater(scaling.fit(layers, [100 + n * n for n in layers])[2], 0.1)
        lines, apart = scaling.table(layers, [10 + 5 * n for n in layers], [1.0 * n for n in layers], 100.0)
        self.assertEqual(len(lines), 2 + len(layers) + 1)
        self.assertLess(apart, 1e-12)


class Targets(unittest.TestCase):
    def test_misses(self):
        case = Rows.case
        row = row_of(case, [2.0], {"eager": peer(3.0)})
        texts = report.misses([case], [row])
        self.assertEqual([text.split(":")[1].split()[0] for text in texts], ["ratio", "mfu", "compile_ms", "over_plan"])
        fine = {**row, "ratio": 2.0, "mfu": 0.5, "compile_ms": 1.0, "peak_bytes": 10 << 20}
        self.assertEqual(report.misses([case], [fine]), [])

    def test_an_absent_case_misses_and_one_not_asked_for_does_not(self):
        absent = report.absent_row(Rows.case, "no such option")
        self.assertEqual(report.misses([Rows.case], [absent]), ["one: not measured: no such option"])
        self.assertEqual(report.misses([Rows.case], []), [])

    def test_neighbours(self):
        near = Case("near", "logreg", 1, targets={"neighbours": ["one"]})
        row, other = row_of(Rows.case, [2.0], {}), row_of(near, [2.0], {})
        row["mfu"], other["mfu"] = 0.80, 0.71
        self.assertEqual(report.misses([near], [row, other]), [])
        other["mfu"] = 0.69
        self.assertEqual(len(report.misses([near], [row, other])), 1)

    def test_neighbours_and_names_are_cases(self):
        names = [case.name for case in [*CASES, *FIGURES]]
        self.assertEqual(len(names), len(set(names)))
        for case in CASES:
            self.assertLessEqual(set(case.targets.get("neighbours", [])), set(names))

    def test_flops(self):
        of = {case.name: case.flops() for case in CASES}
        # Six times tokens and weights, and attention up to the diagonal; the token table counts once, as the last projection.
        tokens, weights = 4 * 256, 12 * 12 * 768**2 + 50257 * 768
        self.assertAlmostEqual(of["gpt2 124M b4"], 6 * tokens * weights + 12 * 4 * 6 * 768 * 256 * 257, delta=1)
        self.assertEqual(of["lenet b32"], 32 * 2 * (2 * 6 * 784 * 25 + 3 * (1600 * 150 + 400 * 120 + 120 * 84 + 840)))
        self.assertEqual(of["resffn h4096 b512 inference"], 2 * 512 * (784 * 4096 + 4096**2 + 10 * 4096))


class Comparison(unittest.TestCase):
    def test_close_far_and_not_a_number(self):
        report.compare([1.0, 2.00001], [1.0, 2.0], [1, 2], 1e-4)
        for values in ([1.0, 2.1], [1.0, float("nan")], [1.0]):
            with self.assertRaisesRegex(report.Failed, "DIFFERS"):
                report.compare(values, [1.0, 2.0], [1, 2], 1e-4)

    def test_a_run_is_wrong_when_a_peer_differs_or_we_fail(self):
        fine = row_of(Rows.case, [1.0], {"eager": peer(2.0), "jax": {"absent": "no wheel"}})
        differs = row_of(Rows.case, [1.0], {"eager": {"absent": "DIFFERS: by 1"}})
        self.assertFalse(report.wrong([fine, report.absent_row(Rows.case, "no such option")]))
        self.assertTrue(report.wrong([fine, differs]))
        self.assertTrue(report.wrong([fine, report.absent_row(Rows.case, "FAILED: crashed")]))


class Text(unittest.TestCase):
    machine = {
        "cpu": "A CPU",
        "threads": 2,
        "caches": "L1 32K",
        "system": "Linux 6",
        "memory_gib": 24.0,
        "peaks": PEAKS,
        "versions": ["PyTorch 2"],
        "date": "2026-01-02",
        "load": 0.0,
    }

    def test_short(self):
        self.assertEqual(
            [report.short(x) for x in (None, 0.007123, 0.1634, 3.412, 28.44, 284.4, 1021.3)],
            ["-", "0.00712", "0.1634", "3.412", "28.44", "284.4", "1021"],
        )

    def test_every_row_has_the_columns_of_its_head(self):
        for group in PEERS:
            case = Case("one", "logreg", 1, kind=group[0], dtype=group[1])
            some = row_of(case, [1.0], {name: peer(2.0) for name in PEERS[group]})
            for row in (some, report.absent_row(case, "why")):
                self.assertEqual(len(report.cells(row)), len(report.header(group)))
            self.assertNotIn("-", report.cells(some))

    def test_markdown_goes_between_the_marks(self):
        row = row_of(Rows.case, [1.0], {"eager": peer(2.0), "compile": {"absent": "no compiler"}})
        figures = report.markdown(self.machine, [row])
        self.assertIn("- one: torch.compile: no compiler", figures)
        page = report.replace_figures(f"before\n{report.BEGIN}\nold\n{report.END}\nafter\n", figures)
        self.assertEqual(page, f"before\n{report.BEGIN}\n{figures}\n{report.END}\nafter\n")
        self.assertEqual(report.replace_figures(page, figures), page)
        with self.assertRaises(SystemExit):
            report.replace_figures("a page without marks", figures)


if __name__ == "__main__":
    unittest.main()
