# SPDX-License-Identifier: Apache-2.0
"""The type stubs: strict in themselves, the same as the package at run time,
useful to a program that is right and to one that is wrong."""

import ast
import importlib
import inspect
import pathlib
import re
import subprocess
import sys

import pytest

import sambaflow

HERE = pathlib.Path(__file__).resolve().parent / "typing"
PACKAGE = pathlib.Path(sambaflow.__file__).parent
STUBS = sorted(PACKAGE.rglob("*.pyi"))
# Names of the house in modules that programs import: no stub.
HOUSE = set("from_output plain_tensor from_value make_wrapper run_on_held host_tensor take_form".split())


def mypy(*files):
    """What mypy says of a program that sees the package as users do. Its cache stays with the environment: torch is read once."""
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--strict",
        "--python-version",
        "3.10",
        "--no-error-summary",
        "--cache-dir",
        pathlib.Path(sys.prefix) / "mypy-cache",
        *files,
    ]
    done = subprocess.run(command, cwd=HERE, capture_output=True, text=True)
    assert not done.stderr, done.stderr
    return done.stdout.splitlines()


def name_of(stub):
    parts = stub.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def test_stubs():
    assert mypy(*(word for stub in STUBS for word in ("-m", name_of(stub)))) == []


def test_right():
    assert mypy("right.py") == []


def test_wrong():
    lines = (HERE / "wrong.py").read_text(encoding="utf-8").splitlines()
    expected = {(i, line.rsplit("# error: ", 1)[1]) for i, line in enumerate(lines, 1) if "  # error: " in line}
    found = {
        (int(m[1]), m[2])
        for m in (re.search(r"wrong\.py:(\d+): error: .*\[([a-z-]+)\]$", line) for line in mypy("wrong.py"))
        if m
    }
    assert found == expected


def members(body):
    """{name: its definitions} of a module or class of a stub."""
    found = {}
    for node in body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            found.setdefault(node.name, []).append(node)
        elif isinstance(node, ast.AnnAssign):
            found[node.target.id] = [node]
        elif isinstance(node, ast.Assign):  # of an enumeration
            found[node.targets[0].id] = [node]
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            found.update({alias.asname: [node] for alias in node.names if alias.asname})
    return {name: nodes for name, nodes in found.items() if not re.match(r"_[A-Za-z]", name)}


def parameters(node):
    """[(name, kind, default's text)] of a function in a stub."""
    a = node.args
    placed = a.posonlyargs + a.args
    defaults = [None] * (len(placed) - len(a.defaults)) + a.defaults
    result = [(x.arg, "placed", d) for x, d in zip(placed, defaults)] + ([(a.vararg.arg, "*", None)] if a.vararg else [])
    result += [(x.arg, "named", d) for x, d in zip(a.kwonlyargs, a.kw_defaults)] + (
        [(a.kwarg.arg, "**", None)] if a.kwarg else []
    )
    return [(name, kind, None if d is None else ast.literal_eval(d)) for name, kind, d in result]


KINDS = {
    inspect.Parameter.POSITIONAL_OR_KEYWORD: "placed",
    inspect.Parameter.POSITIONAL_ONLY: "placed",
    inspect.Parameter.VAR_POSITIONAL: "*",
    inspect.Parameter.KEYWORD_ONLY: "named",
    inspect.Parameter.VAR_KEYWORD: "**",
}


def compare_function(where, nodes, function):
    real = [
        (p.name, KINDS[p.kind], None if p.default is p.empty else p.default)
        for p in inspect.signature(function).parameters.values()
    ]
    if {"*", "**"} <= {kind for _, kind, _ in real}:  # takes anything: the stub is what says more
        return
    for node in nodes:
        ours = [p for p in parameters(node) if node.args.args[:1] or p]
        if ours and ours[0][0] in ("self", "cls") and not (real and real[0][0] == ours[0][0]):
            ours = ours[1:]
        if {"*", "**"} <= {kind for _, kind, _ in ours}:  # of torch, which has more or fewer by its version
            assert {p for p in ours if p[1] not in ("*", "**")} <= set(real), where
            return
        real_shown = real
        if len(nodes) == 1:
            # `...` stands for a default that no literal is: a dtype, infinity
            left = [default for _, _, default in ours]
            if len(left) == len(real_shown):
                real_shown = [(n, k, ... if mine is ... and d is not None else d) for (n, k, d), mine in zip(real_shown, left)]
            assert ours == real_shown, f"{where}: the stub has {ours}, the package {real_shown}"
        else:  # one of several cases; before what run takes a module may stand
            before = {"model"} if where.endswith(".SambaSession.run") else set()
            assert {name for name, _, _ in ours} - before <= {name for name, _, _ in real}, where


def compare(where, stub, real, own):
    """Every name of the stub is there, and every public name that is defined there (`own`) is in the stub."""
    for name, nodes in stub.items():
        if isinstance(nodes[0], ast.AnnAssign) and inspect.isclass(real):
            continue  # attributes of instances
        assert hasattr(real, name), f"{where}.{name} is in the stub only"
        found = inspect.getattr_static(real, name) if inspect.isclass(real) else getattr(real, name)
        if isinstance(nodes[0], ast.ClassDef):
            bases = {inherited for base in found.__mro__[1:] for inherited in vars(base)}
            compare(f"{where}.{name}", members(nodes[0].body), found, [x for x in vars(found) if x not in bases])
        elif isinstance(nodes[0], ast.FunctionDef) and not isinstance(found, property):
            compare_function(f"{where}.{name}", nodes, found if inspect.isfunction(found) else getattr(real, name))
    missing = [name for name in own if not name.startswith("_") and name not in stub and name not in HOUSE]
    assert not missing, f"{where}: add to the .pyi beside the module: {', '.join(missing)}"


@pytest.mark.parametrize("stub", STUBS, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_stub_is_the_package(stub):
    module, tree = importlib.import_module(name_of(stub)), ast.parse(stub.read_text(encoding="utf-8"))
    homes = "sambaflow." if hasattr(module, "__path__") else module.__name__  # a package offers what its modules have
    own = [
        name
        for name, x in vars(module).items()
        if (inspect.isclass(x) or inspect.isfunction(x))
        and x.__module__.startswith(homes)
        and not x.__module__.startswith("sambaflow.samba.functional")
    ]  # these it offers by *
    compare(module.__name__, members(tree.body), module, own)
