# SPDX-License-Identifier: Apache-2.0
"""The tables of docs/onnx.md, made of src/onnx/operators.def (what is read) and src/onnx/write.def (what is not written). The
prose around them is written by hand. Usage: onnx_page.py [--write]; without it, fails where the tables are others."""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
PAGE, READ, WRITTEN = ROOT / "docs" / "onnx.md", ROOT / "src/onnx/operators.def", ROOT / "src/onnx/write.def"
DOMAINS = {"": "ONNX's own"}


def rows(path):
    """(word, arguments) of each row of a .def file, in its order; texts joined as C joins them."""
    text = re.sub(r"/\*.*?\*/", "", path.read_text(encoding="utf-8"), flags=re.S)
    macros = dict(re.findall(r'^#define (\w+) "(.*)"$', text, flags=re.M))
    for word, inside in re.findall(r"^([A-Z]+)\((.*?)\)$", text, flags=re.M | re.S):
        first, *rest = re.split(r",\s*", inside, maxsplit=2 if word in ("ROW", "REFUSED") else 1)
        last = rest[-1] if rest else ""
        parts = [macros.get(part, part.strip('"')) for part in re.findall(r'"[^"]*"|\b[A-Z]\w+\b', last)]
        yield word, first.strip('"'), rest[0] if rest else "", "".join(parts)


def read_table():
    """A table a domain: operators that are read, by name, and those that are not, with the reason."""
    domains, refused, domain = {}, {}, ""
    for word, name, since, reason in rows(READ):
        if word == "DOMAIN":
            domain = name
        elif word == "ROW":
            domains.setdefault(domain, []).append(f"{name} {since}")
        elif word == "REFUSED":
            refused.setdefault(reason, []).append(f"{domain}.{name}".lstrip("."))
    lines = ["| domain | operators, each with the version from which it is read |", "| --- | --- |"]
    for domain, names in domains.items():
        unique = sorted({name.split()[0]: name for name in reversed(names)}.values(), key=str.lower)
        lines.append(f"| {DOMAINS.get(domain, domain)} | {', '.join(unique)} |")
    lines += ["", "| not read | why |", "| --- | --- |"]
    lines += [f"| {', '.join(sorted(names))} | {reason} |" for reason, names in refused.items()]
    return lines


def written_table():
    refused = {}
    for word, name, _, reason in rows(WRITTEN):
        if word == "REFUSE":
            refused.setdefault(reason, []).append(f"`{name}`")
    lines = [f"| {', '.join(names)} | {reason} |" for reason, names in refused.items()]
    return ["| not written | why |", "| --- | --- |", *lines]


def main():
    text = PAGE.read_text(encoding="utf-8")
    for name, lines in (("read", read_table()), ("written", written_table())):
        mark = re.compile(rf"(<!-- {name} -->\n).*?(<!-- end -->)", re.S)
        if not mark.search(text):
            sys.exit(f"house: docs/onnx.md has no place for the table '{name}'")
        found = mark.search(text)
        text = text[: found.start()] + found[1] + "\n".join(lines) + "\n" + found[2] + text[found.end() :]
    if "--write" in sys.argv:
        PAGE.write_text(text, encoding="utf-8")
    elif text != PAGE.read_text(encoding="utf-8"):
        sys.exit("house: the tables of docs/onnx.md are not those of the code: python3 tools/onnx_page.py --write")


if __name__ == "__main__":
    main()
