#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The book holds together: links of Markdown pages lead to files that are there and to headings that they have, each page of
docs/ is in the contents of docs/README.md or docs/decisions/README.md, no page but those of the reference has more than 2,000
words of prose, and where sources name a page of docs/ it is there. Reads files alone, no network.

Usage: check_links.py, in the root of the project"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
LINK = re.compile(r"(?<!!)\[(?:[^\[\]]|\[[^\]]*\])*\]\(([^()\s]+)\)|!\[[^\]]*\]\(([^()\s]+)\)")
MOST_WORDS = 2000
SOURCES = ["include", "src", "python", "tests", "tools", "bench", "examples"]


def prose(text):
    """A page without its listings."""
    return re.sub(r"^ *```.*?^ *```\s*?$", "", text, flags=re.M | re.S)


def words(text):
    """How many words of prose a page has: rows of tables are looked up, not read."""
    return len(re.sub(r"^\|.*$", "", prose(text), flags=re.M).split())


def anchors(text):
    """What links may name on a page: its headings in lower case, words joined by hyphens, repeated ones numbered."""
    seen, made = {}, set()
    for heading in re.findall(r"^#+ +(.*?)\s*$", prose(text), re.M):
        heading = LINK.sub(lambda found: found.group(0)[1:].partition("](")[0], heading)
        slug = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        number = seen[slug] = seen.get(slug, -1) + 1
        made.add(f"{slug}-{number}" if number else slug)
    return made


def links(path):
    """(link as written, file or folder it leads to, anchor) of a page's links into the project."""
    for found in LINK.finditer(prose(path.read_text(encoding="utf-8"))):
        link = found.group(1) or found.group(2)
        if not re.match(r"[a-z]+:", link):
            target, _, anchor = link.partition("#")
            yield link, (path.parent / target).resolve() if target else path, anchor


def listed():
    """Pages in the contents, and those among them that are reference."""
    index = ROOT / "docs" / "README.md"
    pages, reference = {index}, {index}
    for section in re.split(r"^## ", index.read_text(encoding="utf-8"), flags=re.M)[1:]:
        for link in re.findall(r"^- \[[^\]]*\]\(([^)]+)\)", section, re.M):
            pages.add((ROOT / "docs" / link).resolve())
            if section.startswith("Reference"):
                reference.add((ROOT / "docs" / link).resolve())
    decisions = ROOT / "docs" / "decisions" / "README.md"
    return pages | {target for _, target, _ in links(decisions)}, reference


def complaints():
    pages, reference = listed()
    for path in sorted(
        [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "bench").rglob("*.md"), *(ROOT / "examples").rglob("*.md")]
    ):
        name = path.relative_to(ROOT)
        for link, target, anchor in links(path):
            if not target.exists():
                yield f"{name}: {link} leads to no file"
            elif anchor and target.suffix == ".md" and anchor not in anchors(target.read_text(encoding="utf-8")):
                yield f"{name}: {link} leads to no heading of {target.relative_to(ROOT)}"
        if name.parts[0] == "docs":
            count = words(path.read_text(encoding="utf-8"))
            if path not in pages:
                yield f"{name} is not in the contents: give it a line of docs/README.md"
            if count > MOST_WORDS and path not in reference:
                yield f"{name} has {count} words; {MOST_WORDS} is the limit outside the reference: split it along its ideas"
    for folder in SOURCES:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in (".c", ".h", ".def", ".py", ".pyi", ".sh", ".build") and path.is_file():
                for page in set(re.findall(r"(?<![\w/])(?<!ggml's )docs/[\w/-]+\.md\b", path.read_text(encoding="utf-8"))):
                    if not (ROOT / page).exists():
                        yield f"{path.relative_to(ROOT)} names {page}, which is not there"


def main():
    found = list(complaints())
    for line in found:
        print(f"links: {line}", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
