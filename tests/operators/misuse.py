#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What operators say to misuse: messages/<family>.txt, for a person to read from top to bottom.

    misuse.py                 whether every sentence is as it stands there
    misuse.py norm --write    writes the sentences anew, for review in the difference

An operator's name stands alone, below it each misuse as one line of Python and, further in, the message. Names and misuses are
written by hand, the sentences by --write. A line has torch, F (torch.nn.functional), samba, and

    float32(3, 4)      a tensor of that dtype and shape, while a model is traced; so each dtype's name, `bool` as bool_
    text("%1 = softmax %0 dim=5 : float32[3] @FWD", float32(3))      nodes in the graph's text form, behind inputs %0, %1 ...

The same sentence comes from C, which traces, and from eager execution, unless torch itself has the function there: `misuse`
checks that as well. "TypeError, of torch" is what torch says before it asks the library: a number of arguments, or a type, that
its function does not have.

An operator whose row of src/ops.def says how it is called needs no section:
it has the misuses of its kind (of_kind), and --write adds them."""

import argparse
import importlib
import pathlib
import re
import sys

import torch
import torch.nn.functional as F

import sambaflow.samba as samba
from sambaflow._core import ffi, lib
from sambaflow.errors import SambaError
from sambaflow.samba.sambatensor import SambaTensor
from sambaflow.samba.trace import Tracer, at_work

HERE = pathlib.Path(__file__).resolve().parent
FOLDER = HERE / "messages"
DTYPES = (
    torch.float32,
    torch.float64,
    torch.bfloat16,
    torch.float16,
    torch.int64,
    torch.int32,
    torch.int16,
    torch.int8,
    torch.uint8,
    torch.bool,
)
HEAD = """# What the operators of this family say to misuse. Read it from top to bottom: does each sentence name the operator, the argument, what was given and
# what was expected? Names and misuses are written by hand, sentences by tests/operators/misuse.py {family} --write,
# which explains the words.
"""  # noqa: E501


class _Tracer(Tracer):
    """Without the place in the user's model: the line in the file is the place."""

    def mark(self):
        pass

    def where(self, code=False):
        return ""


def _words(make):
    words = {"torch": torch, "F": F, "samba": samba, "nan": float("nan"), "inf": float("inf")}
    for dtype in DTYPES:
        name = str(dtype).removeprefix("torch.")
        words[name if name != "bool" else "bool_"] = lambda *shape, dtype=dtype: make(dtype, shape)
    return words


def _text(lines, *inputs):
    """Parses nodes behind inputs."""
    declared = "".join(f'%{i} = input name="x{i}" dtype={d} shape=[{s}] : {d}[{s}]\n' for i, (d, s) in enumerate(inputs))
    tracer = Tracer("text")
    made = ffi.new("samba_graph **")
    tracer.context.check(lib.samba_graph_parse(tracer.context.c, f'graph "g"\n{declared}{lines}\n'.encode(), made))
    lib.samba_graph_free(made[0])


def _said(code, words):
    """The message of a line of Python, or why there is none."""
    try:
        eval(code, words)
    except SambaError as error:
        return f"{type(error).__name__}: {error}"
    except TypeError as error:  # of the arguments, which torch looks at before it asks the library
        line = str(error).partition("\n")[0].removesuffix(", but expected one of:")  # what follows is the list of its overloads
        named = re.match(r"\w+\(\)", line)
        return f"TypeError, {'of torch' if named else 'not of the library'}: {line}"
    except Exception as error:  # torch's or Python's own words
        return f"{type(error).__name__}, not of the library: {error}"
    return "nothing is wrong with it"


def traced(code):
    if code.startswith("text("):
        words = _words(lambda dtype, shape: (str(dtype).removeprefix("torch."), ",".join(map(str, shape))))
        return _said(code, {**words, "text": _text})
    tracer, count = _Tracer("misuse"), iter(range(1000))

    def make(dtype, shape):
        name = f"x{next(count)}"
        return tracer.input(SambaTensor(shape=shape, dtype=dtype, name=name), name)

    said = ""
    try:
        with at_work(tracer):
            said = _said(code, _words(make))
    except SambaError:  # the graph keeps its error and says it again at the end
        pass
    return said


def in_eager(code):
    """None where torch answers by itself."""
    made = _said(code, _words(lambda dtype, shape: SambaTensor(torch.zeros(shape, dtype=dtype)))).removesuffix(" (in <string>:1)")
    return None if ", not of the library: " in made or ", of torch: " in made or made.startswith("nothing") else made


def read(path):
    """[(operator, [(code, message)])]; lines that belong to none of these are an error."""
    found = []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        text = line.strip()
        depth = len(line) - len(line.lstrip())
        if not text or text.startswith("#"):
            continue
        if depth == 0:
            found.append((text, []))
        elif depth == 4 and found:
            found[-1][1].append((text, ""))
        elif depth == 8 and found and found[-1][1]:
            found[-1][1][-1] = (found[-1][1][-1][0], text)
        else:
            raise SystemExit(f"{path}:{number}: expected a name, 4 spaces and a misuse, or 8 spaces and its message: {line!r}")
    return found


def written(family, found):
    parts = [HEAD.format(family=family)]
    for operator, misuses in found:
        parts.append(f"\n{operator}\n" + "".join(f"    {code}\n        {traced(code)}\n" for code, _ in misuses))
    return "".join(parts)


def families():
    return sorted(path.stem for path in FOLDER.glob("*.txt"))


def of_kind(name, arity):
    """Misuses that any operator of that many operands has."""

    def line(operands, shape):
        words, given = "".join(f" %{i}" for i in range(operands)), ", ".join(["float32(3)"] * max(operands, 1))
        return f'text("%{max(operands, 1)} = {name}{words} : float32[{shape}] @FWD", {given})'

    return [line(arity + 1, 3), line(arity - 1, 3), line(arity, 5)]


def called():
    """name -> number of operands, of operators whose row says how they are called."""
    sys.path.insert(0, str(HERE.parents[1] / "tools"))
    from make_operators import functions

    return {name: arity for name, arity, _, _ in functions((HERE.parents[1] / "src" / "ops.def").read_text())}


def of_kinds(family, known=()):
    """Sections of the operators of a family that have none of their own."""
    arities = called()
    return [
        (row.name, [(code, "") for code in of_kind(row.name, arities[row.name])])
        for row in importlib.import_module(family).OPERATORS
        if row.name in arities and row.name not in known
    ]


def missing():
    """Rows of the families without a section of three misuses or more, and those of a kind that say nothing of use."""
    bad = []
    for family in sorted(path.stem for path in HERE.glob("*.py") if "\nOPERATORS = " in path.read_text()):
        path = FOLDER / f"{family}.txt"
        counts = {operator: len(misuses) for operator, misuses in read(path)} if path.exists() else {}
        for operator, misuses in of_kinds(family, counts):
            counts[operator] = len(misuses)
            bad += [
                f"{operator}: {code}: {said}"
                for code, said in ((code, traced(code)) for code, _ in misuses)
                if operator not in said.partition(": ")[2]
            ]
        bad += [
            f"{family}: {row.name} has {counts.get(row.name, 0)} misuses, expected 3 or more"
            for row in importlib.import_module(family).OPERATORS
            if counts.get(row.name, 0) < 3
        ]
    return bad


def wrong(family):
    """What is not as it stands in the file, in words."""
    bad = []
    for operator, misuses in read(FOLDER / f"{family}.txt"):
        if len(misuses) < 3:
            bad.append(f"{operator}: {len(misuses)} misuses, expected 3 or more")
        for code, message in misuses:
            said, eagerly = traced(code), in_eager(code) if not code.startswith("text(") else None
            if said != message:
                bad.append(f"{operator}: {code}\n    says     {said}\n    expected {message}")
            elif ", not of the library: " in said or said.startswith("nothing"):
                bad.append(f"{operator}: {code}: {said}")
            elif eagerly is not None and eagerly != said:
                bad.append(f"{operator}: {code}\n    eager says {eagerly}\n    traced     {said}")
    return bad


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("families", nargs="*")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    bad = missing()
    for family in options.families or families():
        path = FOLDER / f"{family}.txt"
        if options.write:
            found = read(path)
            path.write_text(written(family, found + of_kinds(family, dict(found))))
        bad += wrong(family)
    print("\n".join(bad) if bad else "every message is as it stands there")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
