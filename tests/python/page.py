# SPDX-License-Identifier: Apache-2.0
"""The code that a page shows. As a program: page.py PAGE runs the page's first Python block in the folder at hand."""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]


def blocks(page, language):
    """Texts of the blocks in that language."""
    return re.findall(rf"```{language}\n(.*?)```", (ROOT / page).read_text(encoding="utf-8"), re.S)


def run(page, code, names):
    """Runs a Python block; errors name the page."""
    exec(compile(code, page, "exec"), names)


if __name__ == "__main__":
    run(sys.argv[1], blocks(sys.argv[1], "python")[0], {"__name__": "page"})
