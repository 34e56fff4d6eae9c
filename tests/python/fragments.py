# SPDX-License-Identifier: Apache-2.0
"""Finds the code in the five documents, by rules that know nothing of what the code is, and looks for it in the tests and
examples.

A fragment is a run of code lines. Code is: lines after `>>>`; what stands between ``` fences; bold or back-quoted words of the
slides that are a statement; any line that is a Python statement which does something (an assignment, an import, a call with
arguments, a for, an if); and `name=[...]` within a sentence. Comments and leading and trailing blanks do not count. A name or a
call by itself is a mention, not code. What an example prints is not code either:
tests of examples with `>>>` are docstrings, so that what they print is compared."""

import ast
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[2]
DOCUMENTS = ROOT.parent / "shared" / "reference"


def code_of(line):
    """The line without blanks at its ends and without its comment."""
    return re.sub(r"(^|\s+)#.*$", "", line).strip()


def is_statement(line, calls_alone):
    """Whether a line of running text is a Python statement that does something. `calls_alone`: f() counts."""
    if line.endswith("#"):  # the heading of a function
        return False
    try:
        body = ast.parse(line).body
    except SyntaxError:
        return False
    if len(body) != 1 or isinstance(body[0], ast.AnnAssign):
        return False
    if not isinstance(body[0], ast.Expr):
        return True
    call = body[0].value
    if not isinstance(call, ast.Call) or any(isinstance(x, ast.Constant) and x.value is ... for x in call.args):
        return False
    return calls_alone or bool(call.args or call.keywords)


def in_sentences(line):
    """Fragments of `name=[...]` in a line of running text, whose spaces may be lost."""
    if line.endswith("#") or is_statement(line, False):
        return []
    return [[code.removeprefix("specify")] for code in re.findall(r"\b[a-z][a-z_]* ?= ?\[[^\]]+\]", line)]


def tensor_fragments(text):
    """Examples one statement a line: runs of lines, what they print left out."""
    fragments, printed = [[]], False
    for line in text.splitlines():
        if line.startswith((">>> ", "... ")):
            fragments[-1].append(code_of(line[4:]))
            printed = True
        elif not line.strip():
            printed = False
        elif not printed:
            if is_statement(line, True):
                fragments[-1].append(code_of(line))
            elif not line.startswith("#"):
                fragments += [*in_sentences(line), []]
    return fragments


def joined_fragments(text):
    """Pages whose examples have lost their line ends: `>>>` parts them, or the page's own comments do."""
    fragments = []
    for line in text.splitlines():
        if ">>> " in line:
            fragments.append([code_of(part) for part in line.split(">>> ")])
        elif line.startswith("# "):
            fragments.append(re.findall(r'if [\w.]+ == "\w+":|(?:\w+\.)*\w+\([^()]*\)', line))
        elif is_statement(line, False):
            fragments.append([code_of(line)])
        else:
            fragments += in_sentences(line)
    return fragments


def slides_fragments(text):
    """Fenced blocks, and statements in bold or between back quotes."""
    fragments = []
    for i, part in enumerate(re.split(r"^```.*$", text, flags=re.M)):
        if i % 2:
            fragments.append([code_of(line) for line in part.splitlines()])
        else:
            words = re.findall(r"\*\*(.+?)\*\*|`(.+?)`", part)
            fragments += [[code] for pair in words for code in pair if code and is_statement(code, False)]
    return fragments


FINDERS = {
    "samba-session.txt": joined_fragments,
    "samba-tensor.txt": tensor_fragments,
    "samba-utils.txt": tensor_fragments,
    "pytorch-to-sambaflow-slides.txt": slides_fragments,
    "model-conversion-overview.txt": joined_fragments,
}


def fragments(document):
    """The fragments of a document, each a list of lines."""
    found = FINDERS[document]((DOCUMENTS / document).read_text(encoding="utf-8"))
    return [lines for lines in ([line for line in lines if line] for lines in found) if lines]


def programs():
    """(where, lines of code) of everything that may hold a fragment: functions and classes of the tests, whole examples."""
    for file in sorted((ROOT / "tests" / "python").glob("*.py")):
        lines = file.read_text(encoding="utf-8").splitlines()
        for node in ast.parse("\n".join(lines)).body:
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                yield f"{file.name}: {node.name}", lines[node.lineno - 1 : node.end_lineno]
    for file in sorted((ROOT / "examples" / "python").glob("*.py")):
        yield f"examples/python/{file.name}", file.read_text(encoding="utf-8").splitlines()


def matches(its, line, quoted):
    """Whether a line of a program is a line of a document: the same code; behind `>>>`; what it says asserted;
    where `quoted`, in a comment."""
    its = its.strip()
    if quoted:
        return its.lstrip("# ") == line
    its = re.sub(r"^(>>>|\.\.\.) ", "", its)
    return code_of(its) == line or its.startswith(f"assert {line}")


def holds(lines, fragment, quoted):
    """Whether the lines of a fragment stand among these, in order. Those in `quoted` stand in comments."""
    wanted = iter(fragment)
    line = next(wanted)
    for its in lines:
        if matches(its, line, line in quoted):
            line = next(wanted, None)
            if line is None:
                return True
    return False
