# SPDX-License-Identifier: Apache-2.0
"""docs/mistakes.md: typical mistakes and the sentence each gets. Mistakes, their code and cures are written by hand in the page's
tables; the sentences are those that tests compare with what the library says (messages/session.txt, tests/operators/messages), so
that the page cannot drift from the library.

Needs Python alone. Usage: mistakes.py [--write]   says which rows are not as the tests have them;
--write puts the sentences in"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "mistakes.md"
MESSAGES = [ROOT / "tests" / "python" / "messages" / "session.txt", *sorted((ROOT / "tests/operators/messages").glob("*.txt"))]
ROW = re.compile(r"^\| (\d+) \| (.*?) \| `(.*?)` \| (.*?) \| (.*?) \|$", re.M)
LONGEST = 330


def sentences():
    """{a misuse's code: what it gets}."""
    found = {}
    for path in MESSAGES:
        code = None
        for line in path.read_text(encoding="utf-8").splitlines():
            if line.startswith("        ") and code:
                found.setdefault(code, line.strip())
                code = None
            elif line.startswith("    "):
                code = line.strip()
    return found


def shown(sentence):
    """A sentence as a cell of a table."""
    cut = sentence if len(sentence) <= LONGEST else sentence[:LONGEST].rsplit(" ", 1)[0] + " ..."
    return "`" + cut.replace("`", "'").replace("|", "\\|") + "`"


def wrong(text):
    """What is not as the tests have it, a line each."""
    known = sentences()
    rows = ROW.findall(text)
    if [int(row[0]) for row in rows] != list(range(1, len(rows) + 1)):
        yield "rows are not numbered from 1 on"
    if len(rows) < 60:
        yield f"{len(rows)} rows, expected 60 or more"
    for number, _, code, sentence, _ in rows:
        if code not in known:
            yield f"row {number}: no test has the misuse {code}"
        elif sentence != shown(known[code]):
            yield f"row {number}: it says {sentence}, and the tests have {known[code]}"


def main():
    text = PAGE.read_text(encoding="utf-8")
    if "--write" in sys.argv[1:]:
        known, numbers = sentences(), iter(range(1, 1000))

        def row(found):
            _, what, code, sentence, cure = found.groups()
            return f"| {next(numbers)} | {what} | `{code}` | {shown(known[code]) if code in known else sentence} | {cure} |"

        text = ROW.sub(row, text)
        PAGE.write_text(text, encoding="utf-8")
    found = list(wrong(text))
    for line in found:
        print(f"mistakes: {line}", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
