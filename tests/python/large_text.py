# SPDX-License-Identifier: Apache-2.0
"""Writes a file of lines for `sambaflow prepare` that is larger than memory may be: prompts and completions of mixed text, drawn
by a seed. Usage: large_text.py FILE GIGABYTES [SEED]"""

import json
import random
import sys

from text_corpus import pieces

ARTICLE, PART = 4800, 4096  # characters of an article, about; articles that are made anew, and then shuffled again and again


def main():
    path, size = sys.argv[1], float(sys.argv[2]) * 1e9
    seed = int(sys.argv[3]) if len(sys.argv) > 3 else 0
    rng = random.Random(seed)
    text = b"".join(list(pieces(16 << 20, seed))[4:]).decode("utf-8", "replace")  # without the pieces of one kind of letter
    lines = []
    for _ in range(PART):
        begin, length = rng.randrange(len(text) - 2 * ARTICLE), rng.randrange(ARTICLE // 2, ARTICLE * 3 // 2)
        cut = begin + rng.randrange(1, 200)
        pair = {"prompt": text[begin:cut], "completion": text[cut : begin + length]}
        lines.append(json.dumps(pair, ensure_ascii=False).encode("utf-8", "replace") + b"\n")
    written = 0
    with open(path, "wb") as file:
        while written < size:
            rng.shuffle(lines)
            written += file.write(b"".join(lines))
    print(f"{path}: {written / 1e9:.3f} GB")


if __name__ == "__main__":
    main()
