# SPDX-License-Identifier: Apache-2.0
"""Runs what a page of the book shows, from top to bottom, as a reader would, and compares what it prints with the page.

```python blocks share one namespace. ```c blocks become files: a first line `/* NAME.c ... */` names them. Of ```console blocks
the lines after `$ ` are commands, the others what they print. A ```text block behind a Python block is what that prints, or,
where it ends in `SomeError: words`, the error that it ends with. The folder is empty but for `examples`, the project's.

Printed text must be the page's word for word. Numbers may differ as far as processors do: integers below 100 not at all, others
by a tenth; a number with a unit of time behind it, or a rate, may be any. A line `...` stands for any lines, `...` at the end
of a line for any rest of it.

Usage: book.py [--build FOLDER] [--write] PAGE...   needs what the page's blocks need: pages without Python blocks need no
package. --write puts what was printed into the page, where it differs from what stands there: read it before it is committed."""

import argparse
import contextlib
import io
import linecache
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import traceback

ROOT = pathlib.Path(__file__).resolve().parents[2]
NUMBER = re.compile(r"(?<![\w.])-?\d+(?:\.\d+)?(?:e[+-]?\d+)?(?![\w])")
TIMED = re.compile(r"(?<![\w.])\d+(?:\.\d+)?(?= ?(?:ns|us|ms|s|samples/s|tokens/s|[KMGT]?B/s|[MGT]FLOP/s|%)(?!\w))")


def pages():
    """The pages whose every block runs."""
    return [ROOT / "docs" / "tutorial.md", *sorted((ROOT / "docs" / "guides").glob("*.md"))]


def needs_python(page):
    return "```python\n" in page.read_text(encoding="utf-8")


def blocks(text):
    """(language, code, line) of a page's fenced blocks."""
    for found in re.finditer(r"^```(\w*)\n(.*?)^```$", text, re.M | re.S):
        yield found.group(1), found.group(2), text.count("\n", 0, found.start()) + 2


def near(shown, printed):
    """Whether a number that was printed may stand where the page has another one."""
    a, b = float(shown), float(printed)
    whole = not set(".e") & set(shown + printed)
    return a == b or (not whole or abs(a) >= 100) and abs(a - b) <= 0.1 * abs(a) + 0.03


def same_line(shown, printed):
    shown, printed = " ".join(shown.split()), " ".join(printed.split())
    if shown.endswith("..."):
        start, all_of_it = (NUMBER.sub("N", TIMED.sub("T", x)) for x in (shown[:-3].rstrip(), printed))
        return all_of_it.startswith(start)
    shown, printed = TIMED.sub("T", shown), TIMED.sub("T", printed)
    if NUMBER.split(shown) != NUMBER.split(printed):
        return False
    return all(near(a, b) for a, b in zip(NUMBER.findall(shown), NUMBER.findall(printed)))


def same(shown, printed):
    """Whether lines are those that a page shows; `...` alone is any number of lines."""
    if not shown:
        return not printed
    if shown[0].strip() == "...":
        return any(same(shown[1:], printed[i:]) for i in range(len(printed) + 1))
    return bool(printed) and same_line(shown[0], printed[0]) and same(shown[1:], printed[1:])


def lines(text):
    return [line.rstrip() for line in text.strip("\n").split("\n")] if text.strip() else []


class Page:
    """A page that is being run: its namespace and its folder."""

    def __init__(self, path, build, write=False):
        self.path, self.build, self.names, self.failures = path, build, {"__name__": "page"}, 0
        self.count = 0
        self.text, self.write = path.read_text(encoding="utf-8"), write
        self.environment = dict(
            os.environ,
            PATH=f"{build}:{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}",
            PKG_CONFIG_PATH=str(build / "meson-uninstalled"),
            LD_LIBRARY_PATH=str(build),
        )

    def complain(self, line, words, *texts):
        self.failures += 1
        print(f"{self.path.relative_to(ROOT)}:{line}: {words}", *texts, sep="\n", file=sys.stderr)

    def compare(self, line, shown, printed, before):
        """`before`: what stands on the page in front of the text that is shown."""
        if same(lines(shown), lines(printed)):
            return
        if self.write:
            printed = "".join(f"{x}\n" for x in lines(printed))
            self.text = self.text.replace(before + shown, before + printed, 1)
        else:
            self.complain(line, "it prints something else than the page shows", "--- the page", shown, "--- printed", printed)

    def python(self, code, line, shown):
        """A block, and the text block behind it or None. What is printed unasked is no failure."""
        printed, error = io.StringIO(), ""
        self.count += 1
        file = f"example{self.count}.py"  # what messages name: lines of the page would change with every word above
        linecache.cache[file] = (len(code), None, code.splitlines(keepends=True), file)
        try:
            with contextlib.redirect_stdout(printed):
                exec(compile(code, file, "exec"), self.names)
        except Exception as raised:
            error = f"{type(raised).__name__}: {raised}"
            if shown is None or shown.strip() and not re.search(r"^\w+(Error|Warning)\w*: ", shown, re.M):
                self.complain(line, "the block raises", traceback.format_exc())
                return
        if shown is not None:
            self.compare(line, shown, printed.getvalue() + error, f"{code}```\n\n```text\n")

    def console(self, text, line):
        for part in re.split(r"^\$ ", text, flags=re.M)[1:]:
            command, shown = re.match(r"((?:[^\n]*\\\n)*[^\n]*)\n?(.*)", part, re.S).groups()
            done = subprocess.run(
                ["bash", "-o", "pipefail", "-c", command],
                env=self.environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=600,
            )
            refused = re.match(r"^sambaflow: ", shown) and done.returncode
            if done.returncode not in (0, 141) and not refused:  # 141: `head` has read enough
                self.complain(line, f"exit status {done.returncode} of: {command}", done.stderr)
            self.compare(line, shown, done.stderr if refused else done.stdout, f"$ {command}\n")

    def c(self, code, line):
        name = re.match(r"/\* (\w+\.c)\b", code)
        if not name:
            return self.complain(line, "a C block begins with the name of its file: /* NAME.c: ... */")
        pathlib.Path(name.group(1)).write_text(code, encoding="utf-8")

    def run(self):
        found = [*blocks(self.text), ("", "", 0)]
        for (language, code, line), (following, text, _) in zip(found, found[1:]):
            if language == "python":
                self.python(code, line, text if following == "text" else None)
            elif language == "console":
                self.console(code, line)
            elif language == "c":
                self.c(code, line)
        if self.write:
            self.path.write_text(self.text, encoding="utf-8")
        return self.failures


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", default=str(ROOT / "build"))
    parser.add_argument("--write", action="store_true")
    parser.add_argument("pages", nargs="+")
    options = parser.parse_args()
    build, paths = pathlib.Path(options.build).resolve(), [pathlib.Path(page).resolve() for page in options.pages]
    failures = 0
    for path in paths:
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            os.symlink(ROOT / "examples", "examples")
            failures += Page(path, build, options.write).run()
            os.chdir(ROOT)
        print(f"{path.relative_to(ROOT)}: {'fails' if failures else 'runs as it stands'}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
