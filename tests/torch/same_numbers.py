# SPDX-License-Identifier: Apache-2.0
"""Compares the generated rows of two folders: the same text but for numbers, numbers equal to 1e-12 relative (they differ by
CPU in the last digits)."""

import pathlib
import re
import sys

NUMBER = re.compile(r"-?(?:\d+\.?\d*(?:e[-+]?\d+)?|inf|nan)", re.IGNORECASE)


def close(a, b):
    x, y = float(a), float(b)
    return x == y or (x != x and y != y) or abs(x - y) <= 1e-12 * max(abs(x), abs(y), 1e-3)


def compare(made, stored):
    a, b = NUMBER.findall(made), NUMBER.findall(stored)
    words_differ = NUMBER.sub("#", made).split() != NUMBER.sub("#", stored).split()
    wrong = [(x, y) for x, y in zip(a, b) if not close(x, y)]
    return None if words_differ or len(a) != len(b) or wrong else len(a), wrong


def main():
    made, stored = (pathlib.Path(folder) for folder in sys.argv[1:3])
    names, kept, total = (sorted(p.name for p in made.glob("torch_*.txt")), sorted(p.name for p in stored.glob("torch_*.txt")), 0)
    if not names or names != kept:
        raise SystemExit(f"operators: PyTorch gives {names}, {stored} has {kept}")
    for name in names:
        count, wrong = compare((made / name).read_text(), (stored / name).read_text())
        if count is None:
            raise SystemExit(f"operators: {stored / name} is not what PyTorch gives now; first differences {wrong[:3]}")
        total += count
    print(f"operators: {total} numbers by PyTorch equal those that make check compares with")


if __name__ == "__main__":
    main()
