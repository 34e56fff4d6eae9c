# SPDX-License-Identifier: Apache-2.0
"""Compares two generated headers: the same text but for numbers, numbers equal to 1e-12 relative (they differ by CPU in the last digits)."""
import re
import sys

NUMBER = re.compile(r"-?(?:\d+\.?\d*(?:e[-+]?\d+)?|inf|nan)", re.IGNORECASE)


def close(a, b):
    x, y = float(a), float(b)
    return x == y or (x != x and y != y) or abs(x - y) <= 1e-12 * max(abs(x), abs(y), 1e-3)


def main():
    made, stored = (open(path).read() for path in sys.argv[1:3])
    a, b = NUMBER.findall(made), NUMBER.findall(stored)
    words_differ = NUMBER.sub("#", made).split() != NUMBER.sub("#", stored).split()
    wrong = [(x, y) for x, y in zip(a, b) if not close(x, y)]
    if words_differ or len(a) != len(b) or wrong:
        raise SystemExit(f"operators: {sys.argv[2]} is not what PyTorch gives now: {len(a)} and {len(b)} numbers, first differences {wrong[:3]}")
    print(f"operators: {len(a)} numbers by PyTorch equal those that make check compares with")


if __name__ == "__main__":
    main()
