# SPDX-License-Identifier: Apache-2.0
"""The installed package where there is nothing but Python: neither torch, NumPy, pytest nor a compiler.

Usage: bare.py [FOLDER]. FOLDER: where the first example of docs/python.md ran; its last one runs there."""

import doctest
import importlib.util
import pathlib
import re
import subprocess
import sys

from page import blocks, run

import sambaflow

# Prints the libraries that come into a process with the package.
LOADED = """
import _cffi_backend
def libraries():
    with open("/proc/self/maps", encoding="utf-8") as maps:
        return {line.split()[-1] for line in maps if ".so" in line}
before = libraries()
import sambaflow
print(*libraries() - before, sep="\\n")
"""
GLIBC_AND_ZLIB = r"lib(c|m|mvec|dl|pthread|rt|z)[-.].*"  # what every Linux that has this glibc has


def taken_from_the_machine():
    """Libraries of the package that come neither with it nor with glibc."""
    loaded = subprocess.run([sys.executable, "-c", LOADED], check=True, capture_output=True, text=True).stdout.split()
    home = pathlib.Path(sys.prefix).resolve()
    return sorted(
        x for x in loaded if home not in pathlib.Path(x).parents and not re.fullmatch(GLIBC_AND_ZLIB, pathlib.Path(x).name)
    )


def modules():
    """What comes into a process with the package and is not Python's own."""
    said = (
        "import sys; before = set(sys.modules); import sambaflow, sambaflow.runtime; "
        "print(*{x.partition('.')[0] for x in sys.modules.keys() - before})"
    )
    loaded = subprocess.run([sys.executable, "-c", said], check=True, capture_output=True, text=True).stdout.split()
    return sorted(set(loaded) - sys.stdlib_module_names)


def main(folder=None):
    for name in ("torch", "numpy"):
        assert importlib.util.find_spec(name) is None, f"{name} is here: this is no bare environment"
    from sambaflow import errors, logging, runtime, sambacollections

    for module in (sambaflow, errors, logging, runtime, sambacollections):
        assert doctest.testmod(module).failed == 0, module
    assert "tqdm" not in sys.modules, "only bars need it"
    program = [sys.executable, "-m", "sambaflow"]
    assert sambaflow.__version__ in subprocess.run([*program, "--version"], check=True, capture_output=True, text=True).stdout
    command = pathlib.Path(sys.executable).parent / "sambaflow"
    assert "inspect" in subprocess.run([command, "--help"], check=True, capture_output=True, text=True).stdout
    assert subprocess.run([command, "inspect", "nowhere.pef"], capture_output=True).returncode == 1
    if folder:
        import os

        os.chdir(folder)
        (code,) = (x for x in blocks("docs/python.md", "python") if "sambaflow.runtime" in x)
        run("docs/python.md", code, {"__name__": "page"})
        assert subprocess.run([command, "inspect", "out/digits/digits.pef"], check=True, capture_output=True).stdout
    carried = importlib.util.find_spec("sambaflow").submodule_search_locations[0] + ".libs"
    if pathlib.Path(carried).is_dir():  # a wheel that brings its libraries
        assert taken_from_the_machine() == []
    assert modules() == ["_cffi_backend", "sambaflow"], modules()
    print(f"bare: Python {sys.version.split()[0]}: fine")


if __name__ == "__main__":
    main(*sys.argv[1:])
