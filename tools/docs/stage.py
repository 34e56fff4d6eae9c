# SPDX-License-Identifier: Apache-2.0
"""Lays out the sources of the book for Sphinx: the pages of docs/, and the reference, made of headers, docstrings and the
program's own help.

Pages are written to be read in the repository as well. So a page called README.md becomes the folder's index; lists of links in
it are the navigation, a caption for each heading; and links that leave docs/ lead to the reference, to a page of the project
(README.md, CONTRIBUTING.md ...), or, where the book does not have the file, become its path as text.

Usage: stage.py ROOT BUILD_FOLDER OUTPUT"""

import pathlib
import posixpath
import re
import shutil
import sys

import commands
import headers
import modules

LINK = re.compile(r"(?<!!)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^()\s]+)\)")
PROJECT = {"README.md": "readme", "CHANGELOG.md": "changes", "CONTRIBUTING.md": "contributing", "SECURITY.md": "security"}
REFERENCE = {"include/sambaflow": "reference/c", "python/sambaflow": "reference/python", "src/cli": "reference/commands"}


def place(root, path):
    """Where the book has a file or folder of the repository, without suffix; None where it has not."""
    if path in PROJECT:
        return f"project/{PROJECT[path]}.md"
    if path.startswith("docs/") or path == "docs":
        inside = path.removeprefix("docs").removeprefix("/")
        if (root / path).is_dir():
            return posixpath.join(inside, "index.md") if (root / path / "README.md").exists() else None
        return posixpath.join(posixpath.dirname(inside), "index.md") if inside.endswith("README.md") else inside
    if path in REFERENCE:
        return f"{REFERENCE[path]}/index.rst"
    if path.startswith("include/sambaflow/") and path.endswith(".h"):
        return f"reference/c/{pathlib.PurePath(path).name}.rst"
    return None


def relinked(root, text, source, target):
    """A page's text with links from its place in the repository turned into those of the book."""

    def turned(found):
        words, link = found.groups()
        if re.match(r"[a-z]+:", link) or link.startswith("#"):
            return found.group(0)
        path, _, anchor = link.partition("#")
        path = posixpath.normpath(posixpath.join(posixpath.dirname(source), path))
        its = place(root, path)
        if its is None:
            return words if path.rstrip("/") in words else f"{words} (`{path}`)"
        return f"[{words}]({posixpath.relpath(its, posixpath.dirname(target) or '.')}{'#' + anchor if anchor else ''})"

    parts = re.split(r"(^```.*?^```\s*?$)", text, flags=re.M | re.S)  # listings stay as they are
    return "".join(part if i % 2 else LINK.sub(turned, part) for i, part in enumerate(parts))


def toctrees(text):
    """Navigation for the lists of links of an index: a tree a heading, not shown on the page itself."""
    made = []
    for section in re.split(r"^## ", text, flags=re.M)[1:]:
        caption, _, rest = section.partition("\n")
        links = [link for link in re.findall(r"^- \[[^\]]*\]\(([^)#]+\.(?:md|rst))\)", rest, re.M)]
        if links:
            made += ["", "```{toctree}", ":hidden:", ":maxdepth: 1", f":caption: {caption}", "", *links, "```"]
    return "\n".join(made) + "\n"


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def index(title, words, names):
    """An index of generated pages."""
    return "\n".join(
        [title, "=" * len(title), "", words, "", ".. toctree::", "   :maxdepth: 1", "", *(f"   {x}" for x in names), ""]
    )


def main():
    root, build, output = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])
    shutil.rmtree(output, ignore_errors=True)
    sources = [path.relative_to(root).as_posix() for path in sorted((root / "docs").rglob("*.md"))]
    for source in [*sources, *PROJECT]:
        target = place(root, source)
        text = relinked(root, (root / source).read_text(encoding="utf-8"), source, target)
        write(output / target, text + (toctrees(text) if target.endswith("index.md") else ""))
    for path in (root / "docs").rglob("*.svg"):
        write(output / path.relative_to(root / "docs"), path.read_text(encoding="utf-8"))
    made = {
        "c": ("C", "A page a header; `sambaflow/sambaflow.h` includes them all.", headers.pages(root, build)),
        "python": ("Python", "A page a module, made of its docstrings.", modules.pages(root)),
        "commands": ("Command line", "What ``sambaflow help COMMAND`` prints.", commands.pages(build / "sambaflow")),
    }
    for folder, (title, words, pages) in made.items():
        for name, text in pages.items():
            write(output / "reference" / folder / f"{name}.rst", text)
        write(
            output / "reference" / folder / "index.rst",
            index(title, words.replace("`sambaflow/", "``sambaflow/").replace(".h`", ".h``"), pages),
        )


if __name__ == "__main__":
    main()
