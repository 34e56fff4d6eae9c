# SPDX-License-Identifier: Apache-2.0
"""One tree of exceptions: whatever the package refuses is a SambaError, and the built-in one that programs expect in its place.
Read from the sources, so that a new refusal counts too."""

import ast
import builtins
import pathlib

import sambaflow
from sambaflow import errors

ROOT = pathlib.Path(sambaflow.__file__).parent
# What Python's own protocols ask for: an attribute or a module that is not there, the end of an iterator, a key, memory that
# DLPack refuses.
PROTOCOLS = {"AttributeError", "ImportError", "StopIteration", "KeyError", "BufferError", "SystemExit"}


def raised(tree):
    """(line, name) of each class of exceptions that a raise statement names."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call) and isinstance(node.exc.func, ast.Name):
            yield node.lineno, node.exc.func.id


def is_builtin(name):
    return isinstance(getattr(builtins, name, None), type) and issubclass(getattr(builtins, name), BaseException)


def test_every_refusal_is_a_samba_error():
    bad, seen = [], 0
    for path in sorted(ROOT.rglob("*.py")):
        if path.parent.name == "rules":  # the tracer makes SambaErrors of theirs, with the operator and the line
            continue
        for line, name in raised(ast.parse(path.read_text(encoding="utf-8"))):
            seen += 1
            if is_builtin(name) and name not in PROTOCOLS:
                bad.append(f"{path.relative_to(ROOT)}:{line}: {name}")
    assert not bad and seen > 20, bad


def test_the_tree():
    classes = [
        x for x in vars(errors).values() if isinstance(x, type) and issubclass(x, Exception) and x.__module__ == errors.__name__
    ]
    refusals = [x for x in classes if not issubclass(x, Warning)]
    assert len(refusals) > 12
    for x in refusals:
        assert issubclass(x, errors.SambaError)
        # and one of Python's own, but for the root
        assert x is errors.SambaError or any(base.__module__ == "builtins" and base is not Exception for base in x.__mro__[1:-3])
        assert not x.__name__.endswith("_")
