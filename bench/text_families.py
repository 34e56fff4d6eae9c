# SPDX-License-Identifier: Apache-2.0
"""Tokenizers of real families beside `tokenizers` and `sentencepiece` over mixed text: ids, and texts decoded with special tokens
and without, at once and as a stream. A line for each family: what is equal of how many, and how many times as fast encoding and
decoding are, on one thread by time of the processor.

Usage: SAMBAFLOW_BUILD=build bench/text_families.py [FOLDER] [--mb 50] [--seed 1] [--only NAME]
FOLDER has tokenizers' files (tests/python/text_families.py has the kinds); without one those that text_trained.py trains."""

import argparse
import os
import pathlib
import random
import sys
import time

os.environ["TOKENIZERS_PARALLELISM"], os.environ["RAYON_NUM_THREADS"] = "false", "1"
ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "python"))
import text_corpus  # noqa: E402
import text_families  # noqa: E402
import text_trained  # noqa: E402
from text_library import Refused, Tokenizer  # noqa: E402


def timed(call):
    begin = time.process_time()
    found = call()
    return found, time.process_time() - begin


def first_difference(a, b):
    i = next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))
    return f"at {i}: {a[max(0, i - 5) : i + 10]!r}, theirs {b[max(0, i - 5) : i + 10]!r}"


def compare(name, data, theirs, parts, rng):
    try:
        ours = Tokenizer(data)
    except Refused as error:
        print(f"| {name} | refused: {error} |", flush=True)
        return
    count = equal = texts = same = streams = streamed = 0
    seconds = [0.0] * 4
    special = [ours.token(i) for i in range(len(ours)) if (ours.token(i) or "")[:1] in ("<", "[") and 3 < len(ours.token(i)) < 20]
    told = 0
    for part in parts:
        given = part.decode("utf-8", "replace")
        if special and rng.random() < 0.3:  # special tokens within a text
            at = rng.randrange(len(given) + 1)
            given = given[:at] + rng.choice(special) + " " + rng.choice(special) + given[at:]
            part = given.encode()
        found, spent = timed(lambda: theirs.encode(given))
        seconds[0] += spent
        (ids, size), spent = timed(lambda: ours.encode_again(part))
        seconds[1] += spent
        ids = ids[:size]
        count += len(found)
        if ids == found:
            equal += len(found)
        elif told < 5:
            told += 1
            print(f"{name}: ids differ {first_difference(ids, found)}", flush=True)
        texts += 1
        skip = rng.random() < 0.5
        text, spent = timed(lambda: theirs.decode(found, skip))
        seconds[2] += spent
        decoded, spent = timed(lambda: ours.decode(found, skip))
        seconds[3] += spent
        same += decoded == text
        if decoded != text and told < 5:
            told += 1
            print(f"{name}: texts differ {first_difference(decoded, text)}", flush=True)
        some = found[: rng.randint(1, 500)] if len(found) < 1 << 18 else found[:50]
        streams += 1
        pieces, whole = ours.stream(some, True), ours.decode(some, True)
        streamed += "".join(pieces) == whole
        if "".join(pieces) != whole and told < 5:
            told += 1
            print(f"{name}: a stream differs {first_difference(''.join(pieces), whole)}", flush=True)
    cells = [name, f"{equal} of {count}", f"{same} of {texts}", f"{streamed} of {streams}"]
    cells += [f"{seconds[0] / seconds[1]:.1f}", f"{seconds[2] / seconds[3]:.1f}"]
    print(f"| {' | '.join(cells)} |", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", nargs="?")
    parser.add_argument("--mb", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="")
    arguments = parser.parse_args()
    parts = list(text_corpus.pieces(arguments.mb << 20, arguments.seed))
    print(f"{sum(map(len, parts))} bytes in {len(parts)} texts, seed {arguments.seed}", flush=True)
    rng = random.Random(arguments.seed)
    chosen = rng.sample(parts[4:], min(40, len(parts) - 4))
    lines = [line for part in chosen for line in part.decode("utf-8", "replace").split("\n")]
    some = [line[:300] for line in rng.sample(lines, min(6000, len(lines)))]
    families = text_families.load(arguments.folder) if arguments.folder else text_trained.trained(some)
    for name, data, theirs in families:
        if arguments.only in name:
            compare(name, data, theirs, parts, rng)


main()
