# SPDX-License-Identifier: Apache-2.0
"""What prove.py --speed times: tests/operators/speed.py."""

import argparse
import pathlib
import sys

import pytest
import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "operators"))
import prove
import speed
from table import Maker


def test_shapes_grow_by_whole_numbers():
    small = Maker(torch.float32, 1)
    assert small.sized((2, 3)) == (2, 3) and small.sized((2, 3), (3,)) == ((2, 3), (3,)) and small.times(5) == 5
    for odd in (False, True):
        make = speed.Sized(torch.float32, 1, 60_000, odd, range(100))
        for _ in range(8):
            (a, b, one), other = make.sized((2, 5, 1), (5,))
            assert one == 1 and a % 2 == 0 and b % 5 == 0 and [b] == list(other)
            assert {a // 2, b // 5} <= {1, make.factor} and make.times(3) == 3 * make.factor
            assert not odd or make.factor % 2 == 1
            assert 15_000 < a * b < 240_000


def test_samples_are_drawn_from_the_seed():
    row = next(row for row in prove.rows_of("norm") if row.name == "softmax")
    shapes = [[tuple(s.args[0].shape) for s in speed.drawn(row, torch.float32, "cache", seed, 3)] for seed in (1, 1, 2)]
    assert shapes[0] == shapes[1] != shapes[2] and len(shapes[0]) == 3
    assert all(16_384 <= torch.Size(shape).numel() <= 262_144 for shape in shapes[0])


@pytest.mark.parametrize("family, name", [("norm", "softmax"), ("shape", "permute"), ("reduce", "argmax"), ("index", "gather")])
def test_a_row_is_timed(family, name, monkeypatch):
    monkeypatch.setattr(speed, "SIZES", {"cache": (4096, False)})
    options = argparse.Namespace(families=[family], operator=name, dtype="float32", part=None, seed=1, quick=1)
    found, failed = speed.measure(options, prove.family_names, prove.rows_of, prove.describe)
    assert not failed
    assert [r["way"] for r in found] == ["forward"] if name == "argmax" else ["forward", "backward"]
    assert all(r["us"] >= r["best_us"] > 0 and r["torch_us"] >= r["torch_best_us"] > 0 and r["off"] < 1e-5 for r in found)
    sizes = speed.summed(found)[f"{family}/{name}"]["float32"]["forward"]
    assert sizes == {"cache": round(found[0]["ratio"], 3)} and speed.figure(sizes) == sizes["cache"]


def test_parts_are_all_of_it():
    options = argparse.Namespace(families=["norm", "pool"], operator=None, dtype=None)

    def names(part):
        options.part = part
        return [(family, row.name, dtype) for family, row, dtype in speed.rows(options, prove.family_names, prove.rows_of)]

    parts = [names(f"{k}/3") for k in (1, 2, 3)]
    assert all(parts) and sorted(sum(parts, []), key=str) == sorted(names(None), key=str)


def test_a_view_counts_with_a_copy():
    x = torch.zeros(3, 4)
    assert speed._views([x.T, x + 1, x[1:], torch.zeros(0)], [x]) == [0, 2]
