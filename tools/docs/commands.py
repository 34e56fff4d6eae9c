# SPDX-License-Identifier: Apache-2.0
"""The command-line reference of the book: what the program itself says of each of its commands (--help), so that no page drifts
from it. Needs the program as it is built; gives {page name: text of reStructuredText}."""

import re
import subprocess

import rst


def asked(program, *words):
    done = subprocess.run([program, *words], check=True, capture_output=True, text=True, timeout=60)
    return done.stdout


def commands(program, *path):
    """Words of every command below `path`, each behind the one that has it."""
    yield path
    for line in asked(program, *path, "--complete", "").splitlines():
        word = line.split("\t")[0]
        if word != ":files":
            yield from commands(program, *path, word)


def pages(program):
    made = {}
    for path in commands(program):
        text = asked(program, *path, "--help")
        name = " ".join(["sambaflow", *path])
        made["-".join(["sambaflow", *path])] = "\n".join(
            [*rst.title(name, "="), *rst.listing(re.sub(r"[ \t]+$", "", text, flags=re.M).rstrip().split("\n"), "text")]
        )
    return made
