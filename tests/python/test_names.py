# SPDX-License-Identifier: Apache-2.0
"""docs/names.md is true: every name that it says is implemented is there and used in the test it names; none that is missing has come."""
import importlib

import pytest
from names import DOCUMENTS, PAGE, ROOT, page

import sambaflow.samba  # noqa: F401


def resolve(home, name):
    path = f"{home}.{name}".split(".")
    for cut in range(len(path) - 1, 0, -1):
        try:
            found = importlib.import_module(".".join(path[:cut]))
        except ImportError:
            continue
        for part in path[cut:]:
            found = getattr(found, part)
        return found
    raise AttributeError(name)


def test_page():
    assert PAGE.read_text(encoding="utf-8") == page()


@pytest.mark.parametrize("document", DOCUMENTS)
def test_names(document):
    home, tests, missing = DOCUMENTS[document]
    for test, names in tests.items():
        text = (ROOT / "tests" / "python" / test).read_text(encoding="utf-8")
        for name in names.split():
            if home.endswith((".SambaTensor", ".session")):
                owner = resolve(*home.rsplit(".", 1))
                assert hasattr(type(owner) if home.endswith(".session") else owner, name) or hasattr(owner, name), name
            else:
                resolve(home, name)
            word = {"__getitem__": "[", "__setitem__": "] = "}.get(name, name.rsplit(".", 1)[-1])
            assert word in text, f"{name} is not used in {test}"
    for name in missing.split():
        with pytest.raises(AttributeError):
            resolve(home, name)
