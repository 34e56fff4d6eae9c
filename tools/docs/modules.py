# SPDX-License-Identifier: Apache-2.0
"""The Python reference of the book: a page a public module, made of its stub (.pyi: what is public, with full signatures) and of
the docstrings beside it. Sources are read, nothing is imported, so torch need not be there.

A public function or class without a docstring is an error. Gives {page name: text of reStructuredText}."""

import ast
import functools
import pathlib

import rst


@functools.cache
def parsed(path):
    return ast.parse(path.read_text(encoding="utf-8"))


def file_of(package, module):
    """The .py of a module's name, or None."""
    path = package.parent / module.replace(".", "/")
    return next((x for x in (path.with_suffix(".py"), path / "__init__.py") if x.exists()), None)


def found(package, path, name, seen=()):
    """(path, node) of a class or function that a module's source defines or imports; None where it makes it otherwise."""
    if path is None or path in seen:
        return None
    elsewhere = []
    for node in ast.walk(parsed(path)):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and node.name == name:
            return path, node
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith(package.name):
            elsewhere += [node.module for x in node.names if x.name in (name, "*")]
    return next((x for x in (found(package, file_of(package, m), name, (*seen, path)) for m in elsewhere) if x), None)


def bases(package, path, node):
    """Classes of the package that a class inherits from."""
    for base in node.bases:
        its = found(package, path, base.attr if isinstance(base, ast.Attribute) else getattr(base, "id", ""))
        if its and isinstance(its[1], ast.ClassDef):
            yield its


def member(package, path, node, name):
    """The docstring of a class's member, its bases' where it has none."""
    for x in node.body:
        if isinstance(x, ast.FunctionDef) and x.name == name and ast.get_docstring(x):
            return ast.get_docstring(x)
    return next((x for x in (member(package, *its, name) for its in bases(package, path, node)) if x), None)


def signature(node, method=False):
    """A function's arguments and result, as the stub has them."""
    arguments = ast.unparse(node.args)
    decorated = {ast.unparse(x) for x in node.decorator_list}
    if method and "staticmethod" not in decorated:
        arguments = arguments.partition(",")[2].strip()
    result = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    return f"{node.name}({arguments.removeprefix('/, ')}){result}"


def directive(kind, text, lines, options=()):
    return [f".. py:{kind}:: {text}", *(f"   :{x}:" for x in options), "", *rst.indented(lines), ""]


def class_text(package, source, node, documented):
    """A class of a stub: its docstring, then its members that have words."""
    path, its = documented
    lines, shown = rst.body(ast.get_docstring(its) or "", language="python"), set()
    start = next((x for x in node.body if isinstance(x, ast.FunctionDef) and x.name == "__init__"), None)
    for x in node.body:
        if not isinstance(x, ast.FunctionDef) or x.name.startswith("_") or x.name in shown:
            continue
        words = member(package, path, its, x.name)
        if not words:
            continue
        shown.add(x.name)
        decorated = {ast.unparse(y) for y in x.decorator_list}
        if decorated & {"property", "functools.cached_property"}:
            kind, head, options = "attribute", x.name, [f"type: {ast.unparse(x.returns)}"] if x.returns else []
        else:
            kind, head = "method", signature(x, method=True)
            options = [word for word in ("classmethod", "staticmethod") if word in decorated]
        lines += directive(kind, head, rst.body(words, language="python"), options)
    head = node.name
    if start:
        arguments = signature(start, method=True).removeprefix("__init__").rpartition(" -> ")
        head += arguments[0] or arguments[2]
    exception = any(x.name.endswith(("Error", "Warning")) for x in (node,)) and source.stem == "errors"
    return directive("exception" if exception else "class", head, lines)


def page(package, stub):
    """The page of a stub, or None where the module has nothing of its own."""
    source = stub.with_suffix(".py")
    module = ".".join(stub.relative_to(package.parent).with_suffix("").parts).removesuffix(".__init__")
    made, seen = [], set()
    for node in parsed(stub).body:
        if not isinstance(node, (ast.FunctionDef, ast.ClassDef)) or node.name.startswith("_") or node.name in seen:
            continue
        seen.add(node.name)
        documented = found(package, source, node.name)
        words = documented and ast.get_docstring(documented[1])
        if isinstance(node, ast.ClassDef):
            if documented:
                made += class_text(package, source, node, documented)
        else:
            made += directive("function", signature(node), rst.body(words or "", language="python"))
    if not made:
        return None
    head = ast.get_docstring(parsed(source)) or ""
    return "\n".join([*rst.title(module, "="), f".. py:currentmodule:: {module}", "", *rst.body(head, language="python"), *made])


def pages(root):
    package = pathlib.Path(root) / "python" / "sambaflow"
    made = {}
    for stub in sorted(package.rglob("*.pyi")):
        text = page(package, stub)
        if text:
            name = ".".join(stub.relative_to(package.parent).with_suffix("").parts).removesuffix(".__init__")
            made[name] = text
    return made
