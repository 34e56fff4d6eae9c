# SPDX-License-Identifier: Apache-2.0
"""What the documents on samba.session and samba.utils state, with the test of it in Python and, where C has it, in C:
statements/*.txt, one row each.

`gaps` finds what is missing: a name, an argument or a word of the documents without a row, a row whose test is not there, does
not use the name, gives the argument nowhere, or has not the word. What a test does counts with the functions and tables of its
file that it reaches. test_names.py runs it; names.py puts the rows into docs/names.md. Needs Python alone."""

import ast
import functools
import pathlib
import re
from typing import NamedTuple

from signatures import DOCUMENTED, listed

ROOT = pathlib.Path(__file__).resolve().parents[2]
TESTS, UNIT, HEADERS = ROOT / "tests" / "python", ROOT / "tests" / "unit", ROOT / "include" / "sambaflow"
FILES = {"session": "samba-session.txt", "utils": "samba-utils.txt"}

# words that an argument may be, or that a name writes, of the documents
WORDS = """
run(section_types='ZEROGRAD') run(section_types='FWD') run(section_types='BCKWD') run(section_types='OPT') run(section_types='REDUCE')
run(section_types='GRADNORM') run(data_parallel_mode='normal') run(data_parallel_mode='inorder') run(data_parallel_mode='optimal')
enable_lazy_param(fp32_to_bf16_rounding='nearest_even') enable_lazy_param(fp32_to_bf16_rounding='truncation')
samba_profile(event='SAMBA_SESSION_RUN_FWD') samba_profile(event='SAMBA_SET_PEF') samba_profile(event='SAMBA_INIT_RUNTIME')
samba_profile(event='PyRT_GET_TENSORS') samba_profile(event='PyRT_GET_TENSORS_GATHER') samba_profile(event='PyRT_SET_TENSORS')
samba_profile(event='PyRT_SET_TENSORS_BROADCAST') samba_profile(event='PyRT_SET_PINNED_INPUT_TENSORS') samba_profile(event='PyRT_RUN')
start_runtime_profile(ENABLE_RUNTIME_PERF='SUMMARY') start_runtime_profile(ENABLE_RUNTIME_PERF='DETAILED')
trace_graph(mapping='section') trace_graph(mapping='spatial') trace_graph(data_parallel_mode='normal') trace_graph(data_parallel_mode='inorder')
trace_graph(data_parallel_mode='optimal') trace_graph(model='ModelProto')
""".split()  # noqa: E501
# arguments that the documents describe and their headings leave out, and properties
MORE = """compile(init_output_grads) compile(graph_names) compile(graph_transform_hook) run(graph_name) trace_graph(distlearn_config) profiler
tracing""".split()  # noqa: E501


class Statement(NamedTuple):
    """A row."""

    what: str  # "run(section_types='FWD')"
    said: str
    test: str  # "test_x.py: test_y"
    in_c: str  # "samba_run: test_x.c: test_y", or why there is nothing

    @property
    def parts(self):
        """(name, argument, word); '' for what it has not."""
        return re.fullmatch(r"(\w+)(?:\((?:(\w+)(?:='([^']*)')?)?\))?", self.what).groups("")


def statements(document):
    """The rows of a document."""
    lines = (TESTS / "statements" / f"{document}.txt").read_text(encoding="utf-8").splitlines()
    return [Statement(*(part.strip() for part in line.split("|"))) for line in lines if line and not line.startswith("#")]


def wanted(document):
    """What must have a row: every argument of every function, functions without arguments, words."""
    functions = listed(DOCUMENTED[FILES[document]])
    for name, arguments in functions.items():
        yield from (f"{name}({argument.lstrip('*')})" for argument, _ in arguments)
        if not arguments:
            yield f"{name}()"
    owners = {*functions, *(("profiler", "tracing") if document == "session" else ())}
    yield from (what for what in WORDS + MORE if re.match(r"\w+", what)[0] in owners)


# ---- tests in Python ----


@functools.lru_cache(None)
def python_file(name):
    """{what a file binds at its top: statement}."""
    found = {}
    for node in ast.parse((TESTS / name).read_text(encoding="utf-8")).body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            found[node.name] = node
        elif isinstance(node, ast.Assign):
            found.update((leaf.id, node) for target in node.targets for leaf in ast.walk(target) if isinstance(leaf, ast.Name))
    return found


@functools.lru_cache(None)
def reached(file, test):
    """AST nodes of a test and of all of its file that it reaches, fixtures too."""
    tops, seen, front = python_file(file), set(), {test}
    while front:
        seen |= front
        words = {leaf.id for each in front for leaf in ast.walk(tops[each]) if isinstance(leaf, ast.Name)}
        words |= {leaf.arg for each in front for leaf in ast.walk(tops[each]) if isinstance(leaf, ast.arg)}
        words |= {
            leaf.value
            for each in front
            for leaf in ast.walk(tops[each])
            if isinstance(leaf, ast.Constant) and isinstance(leaf.value, str)
        }
        front = (words & tops.keys()) - seen
    return [leaf for each in seen for leaf in ast.walk(tops[each])]


def gives(nodes, name, argument):
    """Whether a call of `name`, or a dict of arguments, gives the argument, by its name or its place."""
    places = [row[0].lstrip("*") for document in DOCUMENTED.values() for row in listed(document).get(name, ())]
    for node in nodes:
        if isinstance(node, ast.Call):
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            given = len(node.args)
            if (
                called == name
                and argument in places
                and (places.index(argument) < given or (argument == "kwargs" and node.keywords))
            ):
                return True
            if any(keyword.arg == argument for keyword in node.keywords) or (
                called == name and argument == "kwarg" and node.keywords
            ):
                return True
        elif isinstance(node, ast.Constant) and node.value == argument:
            return True
    return False


def untested(row):
    """What its Python test lacks; '' for nothing."""
    file, _, test = row.test.partition(": ")
    if not (TESTS / file).is_file() or test not in python_file(file):
        return f"there is no test {row.test!r}"
    (name, argument, word), nodes = row.parts, reached(file, test)
    used = {leaf.attr for leaf in nodes if isinstance(leaf, ast.Attribute)} | {
        leaf.id for leaf in nodes if isinstance(leaf, ast.Name)
    }
    texts = [leaf.value for leaf in nodes if isinstance(leaf, ast.Constant) and isinstance(leaf.value, str)]
    if name not in used and not any(re.search(rf"\b{name}\b", text) for text in texts):
        return f"{row.test} does not use {name}"
    if word and word.lower() not in {text.lower() for text in texts} and word not in python_words(nodes):
        return f"{row.test} has no {word!r}"
    whole = any(f"{argument}" in text and f"{name}(" in text for text in texts)  # a program in a string
    if argument and not word and not gives(nodes, name, argument) and not (argument in ("args", "kwargs", "func") and whole):
        return f"{row.test} gives {name} no {argument}"
    return ""


def python_words(nodes):
    """Names of classes that a test makes: stand-ins for those of packages that are not there."""
    return {leaf.name for leaf in nodes if isinstance(leaf, ast.ClassDef)}


# ---- tests in C ----


@functools.lru_cache(None)
def c_file(name):
    """{function: its text} of a test and of the helpers it includes."""
    text = (UNIT / name).read_text(encoding="utf-8")
    found = {}
    for helper in re.findall(r'#include "([^"]+\.h)"', text):
        if (UNIT / helper).is_file():
            found.update(c_file(helper))
    found.update(functions(text))
    for setup, teardown, tests in re.findall(r"TEST_MAIN_WITH\((\w+), (\w+), ([^)]*)\)", text):  # what runs around it counts
        for test in re.findall(r"\w+", tests):
            found[test] = found.get(test, "") + found.get(setup, "") + found.get(teardown, "")
    for test, setup in re.findall(r"_setup_teardown\((\w+), (\w+)", text):
        if test in found:
            found[test] += found.get(setup, "")
    return found


def functions(text):
    """{name: text} of C functions: from one that begins at the line's start to a brace there."""
    text = re.sub(r"^(?:TEST|MODEL)\((\w+)\)", r"static void \1(void)", text, flags=re.M)
    return {
        match[1]: match[0]
        for match in re.finditer(r"^(?:static |inline )*[\w *]+?(\w+)\([^;{}]*\)\s*\{(?:[^\n]*\}$|.*?^\})", text, re.M | re.S)
    }


@functools.lru_cache(None)
def headers():
    """The public headers' words."""
    return set(re.findall(r"\w+", " ".join(file.read_text(encoding="utf-8") for file in HEADERS.glob("*.h"))))


def untested_in_c(row):
    """What its C test lacks; '' for nothing, also where C has no counterpart."""
    found = re.fullmatch(r"(\w+): (test_\w+\.c): (\w+)", row.in_c)
    if not found:
        return "" if row.in_c and ".c:" not in row.in_c else f"{row.in_c!r} is neither a test nor a reason"
    symbol, file, test = found.groups()
    if symbol not in headers():
        return f"no public header has {symbol}"
    if not (UNIT / file).is_file() or test not in c_file(file):
        return f"there is no test {file}: {test}"
    tops, seen, front = c_file(file), set(), {test}
    while front:
        seen |= front
        words = {word for each in front for word in re.findall(r"\w+", tops[each])}
        if symbol in words:
            return ""
        front = (words & tops.keys()) - seen
    return f"{file}: {test} does not use {symbol}"


def gaps():
    """Sentences, one for each thing that is missing."""
    found = []
    for document in FILES:
        rows = statements(document)
        there = {row.what for row in rows}
        found += [f"{document}: no statement of {what}" for what in wanted(document) if what not in there]
        found += [f"{document}: {row.what}: {lack}" for row in rows for lack in (untested(row), untested_in_c(row)) if lack]
    return found


def page():
    """The rows as tables of docs/names.md."""
    lines = []
    for document in FILES:
        lines += [
            "",
            f"## samba.{document}: what it states",
            "",
            "| of | statement | tested in Python | in C |",
            "| --- | --- | --- | --- |",
        ]
        for row in statements(document):
            lines.append(f"| `{row.what}` | {row.said} | `{row.test}` | {f'`{row.in_c}`' if '.c:' in row.in_c else row.in_c} |")
    return lines


if __name__ == "__main__":
    print("\n".join(gaps()))
