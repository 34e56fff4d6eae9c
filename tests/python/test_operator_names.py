# SPDX-License-Identifier: Apache-2.0
"""Lists of operators' names that stand in the sources: each name is one of torch's, in no list twice, and where two lists have to
agree they do. A misspelt name would be without effect, and nothing else would tell of it."""

import ast
import pathlib

import pytest
import torch

import sambaflow
from sambaflow.samba import eager, functional, same_value
from sambaflow.samba.trace import RULES

HOMES = (torch, torch.Tensor, torch.nn.functional, torch.nn.utils.rnn, torch.ops.aten)
PACKAGE = pathlib.Path(sambaflow.__file__).parent


def literals(module):
    """[words] of each list of a module that is written as one text."""
    tree = ast.parse(pathlib.Path(module.__file__).read_text(encoding="utf-8"))
    return [
        node.func.value.value.split()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "split"
        and isinstance(node.func.value, ast.Constant)
    ]


@pytest.mark.parametrize("module", [eager, functional, same_value], ids=lambda module: module.__name__)
def test_names_are_torchs(module):
    found = literals(module)
    assert found
    for names in found:
        assert sorted(set(names)) == sorted(names), "a name stands there twice"
        unknown = [name for name in names if not any(hasattr(home, name) for home in HOMES) and name != "__get__"]
        assert not unknown, f"{module.__name__}: torch has no {', '.join(unknown)}"


def test_names_can_be_wrong(tmp_path):
    path = tmp_path / "some.py"
    path.write_text("""NAMES = "relu rellu relu".split()""")
    assert literals(type("some", (), {"__file__": path})) == [["relu", "rellu", "relu"]]


def test_numbers_stand_beside_tensors_of_operators_with_rules():
    ruled = {function.__name__ for function in RULES}
    assert not [name for name in eager._OF_NUMBERS - ruled if hasattr(torch, name)]


def test_stub_of_functional():
    tree = ast.parse((PACKAGE / "samba" / "functional" / "__init__.pyi").read_text(encoding="utf-8"))
    imports = [alias.asname for node in tree.body if isinstance(node, ast.ImportFrom) for alias in node.names]
    stub = {name for name in imports if name is not None}
    stub |= {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    assert set(functional.__all__) <= stub
    assert not [name for name in stub if not hasattr(functional, name)]
