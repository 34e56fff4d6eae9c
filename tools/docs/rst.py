# SPDX-License-Identifier: Apache-2.0
"""Text of comments and docstrings as reStructuredText, which the generated pages of the book are written in.

A comment is plain text: paragraphs, indented listings, `code` between back quotes, examples after >>>. Nothing in it is
markup by accident: what reStructuredText would read as such is escaped. Names that `roles` knows become links."""

import re

CODE = re.compile(r"``?([^`\n]+)``?|\b((?:samba|SAMBA)_\w+\b(?:\(\))?)|\bdocs/([\w/-]+)\.md")
PLAIN = re.compile(r"([\\*|`])|(?<=\w)(_)(?!\w)")


def escaped(text):
    """Text that stands for itself."""
    return PLAIN.sub(lambda found: "\\" + found.group(0), text)


def inline(text, roles=None):
    """A paragraph: code in back quotes and names of the library are code, and links where `roles` has {name: role}; a page of
    docs/ is a link to it."""
    parts, at = [], 0
    for found in CODE.finditer(text):
        name = found.group(1) or found.group(2) or ""
        role = (roles or {}).get(name.removesuffix("()"))
        mark = f":c:{role}:`{name}`" if role else f"``{name}``" if name else f":doc:`/{found.group(3)}`"
        before = text[at : found.start()]
        parts += [escaped(before), "" if not before or before[-1].isspace() else "\\ ", mark]
        parts.append("" if text[found.end() : found.end() + 1].isspace() else "\\ ")
        at = found.end()
    return "".join([*parts, escaped(text[at:])])


def listing(lines, language="c"):
    return [f".. code-block:: {language}", "    :force:", "", *("    " + line if line else "" for line in lines), ""]


def arguments(lines):
    """What a docstring lists below "Args:" and its like: a point for each `name: words`, with the lines that go on from it."""
    points = []
    for line in lines:
        if not line.startswith(" ") or not points:
            points.append([])
        points[-1].append(line.strip())
    made = []
    for point in points:
        name, colon, words = " ".join(point).partition(": ")
        made.append(f"- ``{name}``: {inline(words)}" if colon and "`" not in name else f"- {inline(name + colon + words)}")
    return [*made, ""]


def body(text, roles=None, language="c"):
    """Lines of reStructuredText for a whole comment or docstring."""
    made = []
    for block in re.split(r"\n\s*\n", text.strip("\n")):
        lines = [line.rstrip() for line in block.split("\n")]
        prose = []
        while lines:
            if lines[0].lstrip().startswith(">>> "):
                made += [inline(" ".join(prose), roles), ""] if prose else []
                margin = len(lines[0]) - len(lines[0].lstrip())
                made += listing([line[margin:] for line in lines], "pycon")
                prose, lines = [], []
            elif lines[0].startswith("    ") and (not prose or prose[-1].endswith(":")):
                shown = []
                while lines and lines[0].startswith("    "):
                    shown.append(lines.pop(0)[4:])
                made += [inline(" ".join(prose), roles), ""] if prose else []
                made += listing(shown, language) if language == "c" else arguments(shown)
                prose = []
            else:
                prose.append(lines.pop(0).strip())
        if prose:
            made += [inline(" ".join(prose), roles), ""]
    return made


def title(text, line):
    """A heading over `line` signs."""
    text = escaped(text)
    return [text, line * len(text), ""]


def indented(lines):
    return ["   " + line if line else "" for line in lines]
