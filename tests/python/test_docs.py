# SPDX-License-Identifier: Apache-2.0
"""What the documentation shows runs: the Python of README.md and of the pages about Python, and the examples in docstrings. The
tutorial and the guides: test_book.py."""

import ast
import doctest
import importlib
import inspect
import os
import pathlib
import re
import shutil
import subprocess

import pytest
import torch
from page import ROOT, blocks, run

import sambaflow

PACKAGE = pathlib.Path(sambaflow.__file__).parent
BUILD = pathlib.Path(os.environ.get("SAMBAFLOW_BUILD", ROOT / "build"))


def test_readme(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (code,) = blocks("README.md", "python")
    names = {"__name__": "page"}
    run("README.md", code, names)
    x = torch.randn(1000, 2)
    right = ((names["model"](x).flatten() > 0) == (x.square().sum(1) < 1)).float().mean()
    assert right > 0.9  # half of the points would be right by chance


def test_readme_in_c(tmp_path):
    (code,) = blocks("README.md", "c")
    (tmp_path / "circle.c").write_text(code, encoding="utf-8")
    subprocess.run(
        [
            "gcc",
            "-std=c11",
            "-Wall",
            "-Wextra",
            "-Werror",
            f"-I{ROOT / 'include'}",
            f"-I{BUILD / 'include'}",
            "circle.c",
            "-o",
            "circle",
            f"-L{BUILD}",
            "-lsambaflow",
            f"-Wl,-rpath,{BUILD}",
        ],
        cwd=tmp_path,
        check=True,
    )
    lines = subprocess.run(["./circle"], cwd=tmp_path, check=True, capture_output=True, text=True).stdout.split("\n")
    losses = [float(line.split()[-1]) for line in lines if line.startswith("step")]
    assert len(losses) == 6 and losses[-1] < 0.2 < 0.6 < losses[0]  # ln 2 when it knows nothing


def test_pages(tmp_path, monkeypatch, capsys):
    """Their blocks one after the other, since names go on. What the C program of the first page writes,
    it writes here too (test_train_in_c.py builds that)."""
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "page"}
    for page in ("docs/python.md", "docs/runs.md", "docs/python-more.md"):
        for code in blocks(page, "python"):
            if "digits-c.safetensors" in code:
                shutil.copy("digits.safetensors", "digits-c.safetensors")
            run(page, code, names)
        if page == "docs/python.md":
            assert float(capsys.readouterr().out.split()[-1]) > 0


# Modules whose docstrings do not name all parameters yet. None comes to them.
UNSAID = set(
    """errors prepare report runtime samba/functional/__init__ samba/lazy_param samba/samba_session
    samba/sambatensor samba/training samba/utils/argparser samba/utils/utils""".split()
)


def named(path):
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


INNER = sorted(x for x in PACKAGE.rglob("*.py") if not x.with_suffix(".pyi").exists() and ">>>" in x.read_text(encoding="utf-8"))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("path", INNER, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_examples_of_inner_modules(path):
    """Those that have no stub."""
    assert doctest.testmod(importlib.import_module(named(path))).failed == 0


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.pyi")), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_parameters_are_described(path):
    """Each parameter of a public function, method or class has its name in the docstring."""
    module, source = path.relative_to(PACKAGE).with_suffix("").as_posix(), path.with_suffix(".py")
    missing = list(undescribed(ast.parse(source.read_text(encoding="utf-8")))) if source.exists() else []
    assert bool(missing) == (module in UNSAID), missing or f"{module} is described: take it out of UNSAID"


def undescribed(tree):
    """ "function: parameter" of each whose docstring does not have it."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_") and not is_overload(node):
            yield from silent(node.name, node, "")
        elif isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            for x in node.body:
                setter = isinstance(x, ast.FunctionDef) and any(getattr(y, "attr", "") == "setter" for y in x.decorator_list)
                public = isinstance(x, ast.FunctionDef) and (not x.name.startswith("_") or x.name == "__init__")
                if public and not setter and not is_overload(x) and (x.returns is not None or x.name != "__init__"):
                    more = ast.get_docstring(node) or "" if x.name == "__init__" else ""
                    yield from silent(f"{node.name}.{x.name}", x, more)


def is_overload(node):
    return any(ast.unparse(x) == "overload" for x in node.decorator_list)


def silent(name, node, more):
    a, said = node.args, (ast.get_docstring(node) or "") + more
    for x in (*a.posonlyargs, *a.args, *a.kwonlyargs, *filter(None, (a.vararg, a.kwarg))):
        if x.arg not in ("self", "cls") and not re.search(rf"\b({x.arg}|{x.arg.rstrip('s')}(s|es)?)\b", said):
            yield f"{name}: {x.arg}"


def test_what_is_undescribed_is_found():
    source = 'def f(a, *, b=1):\n    """Of `a`."""\nclass C:\n    """One."""\n    def g(self, c):\n        """Nothing."""\n'
    assert list(undescribed(ast.parse(source))) == ["f: b", "C.g: c"]


# Public, but in no example of their module:
# the house's own, what examples of others show (Session in docs/python.md), exceptions.
PLAIN = set("""main Session raise_status thread_context Context Operator operators PefMeta write_notes html DTYPES""".split())


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.pyi")), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_docstrings(path):
    """Examples run; each public function and class says what it is, and is in an example of its module."""
    module = importlib.import_module(named(path))
    found = doctest.testmod(module)
    assert found.failed == 0
    own = {
        name: x
        for name, x in vars(module).items()
        if getattr(x, "__module__", None) == module.__name__ and not name.startswith("_")
    }
    public = {
        node.name
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, (ast.FunctionDef, ast.ClassDef))
    } & set(own)
    shown = "\n".join(example.source for test in doctest.DocTestFinder().find(module) for example in test.examples)
    for name in public:
        assert vars(own[name]).get("__doc__") or own[name].__doc__, f"{module.__name__}.{name} has no docstring"
        members = vars(own[name]).items() if isinstance(own[name], type) else ()
        silent = [
            key
            for key, x in members
            if not key.startswith("_")
            and (inspect.isfunction(x) or isinstance(x, (property, classmethod, staticmethod)))
            and not inspect.getdoc(x)
        ]
        assert not silent, f"{module.__name__}.{name} has members without docstrings: {', '.join(silent)}"
        if name not in PLAIN and not (isinstance(own[name], type) and issubclass(own[name], Exception)):
            assert re.search(rf"\b{name}\b", shown), f"{module.__name__}.{name} is in no example of its module"
