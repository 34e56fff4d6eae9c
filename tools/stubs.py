# SPDX-License-Identifier: Apache-2.0
"""The type stubs (.pyi) of Python modules, made of their sources: annotations stand there once, beside what they describe. A stub
has what a program may use: public functions, classes, their methods and attributes, constants that have an annotation, and of
imports and private names those that these need. Of a function with typing.overload the stub has the overloads. BY_HAND are
the modules whose source does not say it all: packages that offer the names of others, and functions that are made by others.

Needs Python alone: sources are read, not imported.

Usage: stubs.py [--write]   says which stubs are not as their sources have them; --write makes them, and tools/format.sh
--write lays them out"""

import ast
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1] / "python" / "sambaflow"
HEAD = "# SPDX-License-Identifier: Apache-2.0\n# made by tools/stubs.py\n"
BY_HAND = frozenset(
    """
    __init__ logging samba/__init__ samba/functional/__init__ samba/lazy_param samba/nn/__init__
    samba/nn/parameter samba/samba_session samba/sambatensor samba/utils/__init__ samba/utils/common
    samba/utils/dataset/__init__ samba/utils/dataset/mnist samba/utils/utils
    """.split()
)


def is_public(name):
    """Of a program's use: no name with an underscore before it, but for those that Python or a notebook calls."""
    return not name.startswith("_") or (name.startswith("__") and name.endswith("__")) or name.startswith("_repr_")


class _Plain(ast.NodeTransformer):
    """Annotations in quotes, for what is not there yet when Python reads them, without."""

    def visit_Constant(self, node):
        if not isinstance(node.value, str):
            return node
        return self.generic_visit(ast.parse(node.value, mode="eval").body)

    def visit_Subscript(self, node):
        if isinstance(node.value, ast.Name) and node.value.id == "Literal":
            return node  # strings are strings there
        return self.generic_visit(node)


def plain(annotation):
    """An annotation without quotes around what it names."""
    return annotation and _Plain().visit(annotation)


def is_literal(node):
    """Whether a default can be shown as it is."""
    try:
        ast.literal_eval(node)
    except ValueError:
        return False
    return True


def function(node):
    """A function's head."""
    a = node.args
    for x in (*a.posonlyargs, *a.args, *a.kwonlyargs, *(x for x in (a.vararg, a.kwarg) if x)):
        x.annotation = plain(x.annotation)
    a.defaults = [x if is_literal(x) else ast.Constant(...) for x in a.defaults]
    a.kw_defaults = [x if x is None or is_literal(x) else ast.Constant(...) for x in a.kw_defaults]
    kept = [x for x in node.decorator_list if re.match(KEPT, ast.unparse(x))]
    return ast.FunctionDef(node.name, a, [ast.Expr(ast.Constant(...))], kept, plain(node.returns))


KEPT = r"(property|staticmethod|classmethod|\w+\.setter|contextlib\.contextmanager|(typing\.)?overload|dataclasses\.dataclass.*)$"


def class_of(node):
    """A class with what is public of it."""
    body = []
    fields = any(ast.unparse(base) in ("NamedTuple", "typing.NamedTuple") for base in node.bases) or any(
        ast.unparse(x).startswith("dataclasses") for x in node.decorator_list
    )
    members = any(ast.unparse(base) == "enum.Enum" for base in node.bases)
    for x in node.body:
        if isinstance(x, ast.FunctionDef) and is_public(x.name) and x.returns is not None:
            body.append(function(x))
        elif isinstance(x, ast.AnnAssign) and is_public(x.target.id):
            value = x.value and (x.value if is_literal(x.value) else ast.Constant(...)) if fields else None
            body.append(ast.AnnAssign(x.target, plain(x.annotation), value, 1))
        elif isinstance(x, ast.Assign) and (members or isinstance(x.value, ast.Name)) and is_public(x.targets[0].id):
            body.append(x)  # a member of an enumeration, another name of a method
    kept = [x for x in node.decorator_list if re.match(KEPT, ast.unparse(x))]
    return ast.ClassDef(node.name, node.bases, node.keywords, body or [ast.Expr(ast.Constant(...))], kept)


def names(nodes):
    """Names that they use."""
    return {x.id for node in nodes for x in ast.walk(node) if isinstance(x, ast.Name) and isinstance(x.ctx, ast.Load)}


def stub(source):
    """The stub of a module's source, as Python lays it out."""
    tree, body, private, imports = ast.parse(source), [], {}, []
    for node in tree.body:
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            imports += node.body
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            imports.append(node)
        elif isinstance(node, ast.FunctionDef) and not node.name.startswith("_") and node.returns is not None:
            body.append(function(node))
        elif isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            body.append(class_of(node))
        elif isinstance(node, ast.AnnAssign) and not node.target.id.startswith("_"):
            body.append(ast.AnnAssign(node.target, plain(node.annotation), None, 1))
        elif isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__" and is_literal(node.value):
            body.append(node)
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            private[node.targets[0].id] = node  # a type's short name, if an annotation has it
    used = names(body)
    first = [node for name, node in private.items() if name in used and name.startswith("_")]
    used |= names(first)
    taken = []
    for node in imports:
        its = [x for x in node.names if (x.asname or x.name).partition(".")[0] in used]
        if its:
            taken.append(ast.Import(its) if isinstance(node, ast.Import) else ast.ImportFrom(node.module, its, 0))
    taken.sort(key=lambda node: (isinstance(node, ast.ImportFrom), getattr(node, "module", None) or node.names[0].name))
    return ast.unparse(ast.fix_missing_locations(ast.Module([*taken, *first, *body], [])))


def same(one, other):
    """Whether two stubs are one but for their layout and order."""

    def parts(text):
        nodes = ast.parse(text).body
        imports = [(getattr(x, "module", None), y.name, y.asname) for x in nodes if hasattr(x, "names") for y in x.names]
        return sorted(map(str, imports)), sorted(ast.dump(x) for x in nodes if not hasattr(x, "names"))

    return parts(one) == parts(other)


def modules():
    """Sources whose stubs are made, by their paths in the package without an ending."""
    paths = (path.relative_to(ROOT).with_suffix("").as_posix() for path in sorted(ROOT.rglob("*.pyi")))
    return [path for path in paths if path not in BY_HAND]


def wrong():
    """Stubs that are not as their sources have them."""
    for path in modules():
        made = stub((ROOT / f"{path}.py").read_text(encoding="utf-8"))
        if not same(made, (ROOT / f"{path}.pyi").read_text(encoding="utf-8")):
            yield path


def main():
    found = list(wrong())
    if "--write" in sys.argv[1:]:
        for path in found:
            (ROOT / f"{path}.pyi").write_text(
                HEAD + stub((ROOT / f"{path}.py").read_text(encoding="utf-8")) + "\n", encoding="utf-8"
            )
        return 0
    for path in found:
        print(f"stubs: python/sambaflow/{path}.pyi is not as {path}.py has it: tools/stubs.py --write", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
