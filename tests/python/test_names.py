# SPDX-License-Identifier: Apache-2.0
"""What names.py reads from the sources is what importing gives: every name is there, also those that are refused; and its list of
names is that of the documents."""

import importlib
import re

import pytest
import statements
from fragments import DOCUMENTS as FOLDER
from names import DOCUMENTS, PAGE, REFUSED, missing, page, rows


def resolve(home, name):
    path = f"{home}.{name}".split(".")
    for cut in range(len(path), 0, -1):
        try:
            found = importlib.import_module(".".join(path[:cut]))
        except ImportError:
            continue
        for part in path[cut:]:
            found = getattr(found, part)
        return found
    raise AttributeError(name)


def test_page():
    assert PAGE.read_text(encoding="utf-8") == page() and not missing()


@pytest.mark.parametrize("document", DOCUMENTS)
def test_names(document):
    for name, where, test in rows(document):
        resolve(DOCUMENTS[document][0], name)
        assert where and test, name


def test_statements_can_fail():
    """A row without a test, with one that has not its argument or word, with none in C: each is found."""
    good = statements.statements("session")[1]
    assert not statements.untested(good) and not statements.untested_in_c(good)
    for bad, said in (
        (good._replace(test="test_multigraph.py: test_nothing"), "there is no test"),
        (good._replace(what="add_graph(priority)"), "gives add_graph no priority"),
        (good._replace(what="add_graph(graph='nowhere')"), "has no 'nowhere'"),
        (good._replace(what="measure_sections(graph)"), "does not use measure_sections"),
    ):
        assert said in statements.untested(bad)
    for in_c, said in (
        ("samba_nothing: test_multigraph.c: graphs_have_an_order", "no public header has"),
        ("samba_multigraph_add: test_multigraph.c: nothing", "there is no test"),
        ("samba_fill: test_multigraph.c: graphs_have_an_order", "does not use samba_fill"),
        ("", "neither a test nor a reason"),
    ):
        assert said in statements.untested_in_c(good._replace(in_c=in_c))
    assert set(statements.wanted("session")) <= {row.what for row in statements.statements("session")}


def test_nothing_is_refused():
    assert [name for document in DOCUMENTS for name, where, _ in rows(document) if where == REFUSED] == []


@pytest.mark.skipif(not FOLDER.is_dir(), reason=f"the documents are not at {FOLDER}")
@pytest.mark.parametrize(
    "file, heading, documents",
    [
        (
            "samba-tensor.txt",
            r"^(?:static |property )?(\w+)(?:\(.*\).*|: .*)?#$",
            ["samba.sambatensor: SambaTensor", "samba.sambatensor: functions"],
        ),
        ("samba-session.txt", r"^- (?:static |classmethod |property )?(\w+)(?:\(.*|: \w+)?.*¶$", ["samba.session: SambaSession"]),
        ("samba-utils.txt", r"^(\w+)\(.*#$", ["samba.utils"]),
    ],
)
def test_list(file, heading, documents):
    found = set(re.findall(heading, (FOLDER / file).read_text(encoding="utf-8"), re.M)) - {"class"}
    assert found <= (listed := {name for document in documents for name in DOCUMENTS[document][1].split()}), found - listed
    assert listed - found <= {"SambaTensor"}, listed - found  # its heading begins with "class"
