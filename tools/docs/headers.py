# SPDX-License-Identifier: Apache-2.0
"""The C reference of the book: a page a public header, made of its declarations and their comments.

A header is read as it is laid out here: a comment that stands above declarations is theirs up to the next blank line or
comment; one behind a declaration is that declaration's; `/* ---- words ---- */` begins a section. What cannot be read so is an
error, and so is a function without any comment in its reach, so that each public function appears with words.

Needs the public headers, those that the build makes among them; gives {page name: text of reStructuredText}."""

import pathlib
import re

import rst

COMMENT = re.compile(r"/\*(.*?)\*/", re.S)
SECTION = re.compile(r"^/\* ---- (.*?) -{2,}")


def words(comment):
    """The text of a comment without its frame."""
    text = re.sub(r"^/\*+ ?| ?\*/$", "", comment.strip())
    return re.sub(r"^[ \t]*\* ?", "", text, flags=re.M).strip()


def statements(text):
    """(kind, text) of a header's body in order: comment, code, behind (a comment in the line where code ended), gap."""
    lines, at = text.split("\n"), 0
    while at < len(lines):
        line = lines[at]
        if not line.strip():
            yield "gap", ""
            at += 1
        elif line.lstrip().startswith("/*"):
            end = at
            while "*/" not in lines[end]:
                end += 1
            yield "comment", "\n".join(lines[at : end + 1])
            at = end + 1
        elif re.match(r"#(include|if|ifdef|ifndef|endif|else|undef)\b", line):
            at += 1
        else:
            end = at
            while not complete("\n".join(lines[at : end + 1])):
                end += 1
                if end == len(lines):
                    raise ValueError(f"no end of the declaration {line!r}")
            code = "\n".join(lines[at : end + 1])
            at = end + 1
            behind = re.search(r"(?:;|\}|^#define.*?)[ \t]*(/\*(?:(?!\*/).)*\*/)$", code, re.S)
            if behind and not code.startswith("typedef") or code.count("\n") == 0 and behind:
                yield "code", code[: behind.start(1)].rstrip()
                yield "behind", behind.group(1)
            else:
                yield "code", code


def complete(code):
    """Whether a declaration, a function with its body or a macro ends here."""
    if code.count("/*") != code.count("*/"):
        return False
    bare = COMMENT.sub("", code).rstrip()
    if code.startswith("#define"):
        return not bare.endswith("\\")
    return bare.count("{") == bare.count("}") and bare.endswith((";", "}") if "static inline" in bare else ";")


def named(code):
    """(kind, name) of a declaration: function, type or macro."""
    bare = COMMENT.sub("", code).strip()
    if bare.startswith("#define"):
        return "macro", re.match(r"#define\s+(\w+)", bare).group(1)
    if bare.startswith("typedef"):
        inner = re.search(r"\(\s*\*?\s*(\w+)\s*\)\s*\(", bare) if "{" not in bare else None
        plain = re.search(r"(\w+)\s*\([^{}]*\)\s*;$", bare) if "{" not in bare else None
        last = re.search(r"(\w+)\s*;$", bare)
        return "type", (inner or plain or last).group(1)
    if bare.startswith(("struct", "enum")) and "(" not in bare.split("{")[0]:
        return "type", re.match(r"(?:struct|enum)\s+(\w+)", bare).group(1)
    found = re.search(r"\b(\w+)\s*\(", re.sub(r"SAMBA_\w+\([^)]*\)\s*;?$", "", bare))
    if not found and bare.startswith("SAMBA_API"):  # declared by a function's type
        return "func", re.search(r"(\w+)\s*;$", bare).group(1)
    if not found:
        raise ValueError(f"neither a function nor a type: {code!r}")
    return "func", found.group(1)


def signature(code):
    """A function's declaration in one line, without comments."""
    bare = COMMENT.sub("", code).split("{")[0]
    bare = re.sub(r"\b(SAMBA_API|static|inline)\b", "", bare)
    return (
        re.sub(r"\s+", " ", re.sub(r"\bSAMBA_PRINTF\w*\([^)]*\)", "", bare))
        .strip()
        .rstrip(";")
        .replace("( ", "(")
        .replace(" )", ")")
    )


def groups(text):
    """Runs of declarations that one comment is about: (comment, [(code, comment behind it)]), sections as (title, None)."""
    comment, found = "", []
    for kind, its in [*statements(text), ("gap", "")]:
        if kind == "code":
            found.append([its, ""])
        elif kind == "behind":
            found[-1][1] = words(its)
        else:
            if found:
                yield comment, found
                found = []
                comment = "" if kind == "gap" else comment
            elif comment and kind == "gap":
                yield comment, []
                comment = ""
            if kind == "comment":
                section = SECTION.match(its)
                if section:
                    yield section.group(1).strip(" -"), None
                    comment = words(re.sub(r"^/\* ---- .*?-{2,}[ ]*", "/* ", its, count=1))
                else:
                    comment = words(its)


def parts(path):
    """(opening text, body) of a header."""
    text = path.read_text(encoding="utf-8")
    head = words(COMMENT.match(text).group(0)).split("\n", 1)
    inner = re.search(r'extern "C" \{\n#endif\n(.*)#ifdef __cplusplus\n\}', text, re.S)
    return (head[1] if len(head) > 1 else "").strip(), inner.group(1) if inner else ""


def paths(root, build):
    made = pathlib.Path(build) / "include" / "sambaflow"
    return sorted([*(pathlib.Path(root) / "include/sambaflow").glob("*.h"), *made.glob("*.h")], key=lambda path: path.name)


def said(code, behind):
    """What stands in a declaration's own comments: behind it and between its parentheses."""
    if not behind and re.search(r"\bsamba_\w+_defaults\(void\)", code):
        behind = "The defaults; begin with them."
    return [*([behind] if behind else []), *(f"`{name}`: {words(comment)}" for comment, name in inner_comments(code))]


def directive(kind, code):
    """Sphinx's name of a kind; a function that is declared by its type's name has no parentheses."""
    return {"func": "function" if "(" in signature(code) else "var"}.get(kind, kind)


def page(path, roles):
    head, inner = parts(path)
    made = [*rst.title(f"sambaflow/{path.name}", "="), *rst.body(head, roles)]
    functions = [named(code)[1] for _, found in groups(inner) for code, _ in found or [] if named(code)[0] == "func"]
    if functions:
        made += [f"Functions: {', '.join(f':c:{roles[name]}:`{name}`' for name in functions)}.", ""]
    section = ""
    for comment, found in groups(inner):
        if found is None:
            section = comment if len(comment.split()) > 3 else ""  # a heading that says more than a name
            made += rst.title(comment[0].upper() + comment[1:], "-")
            continue
        functions = [(code, behind) for code, behind in found if named(code)[0] == "func"]
        alike = [code for code, behind in functions if not said(code, behind) and "(" in signature(code)]
        if alike and not comment:
            comment = section
        if alike and not comment:
            raise ValueError(f"{path}: {named(alike[0])[1]} has no comment")
        if alike:  # one description of several functions
            made += [f"{'.. c:function::' if code is alike[0] else '                '} {signature(code)}" for code in alike]
            made += ["", *rst.indented(rst.body(comment, roles)), ""]
        else:
            made += rst.body(comment, roles)
        for code, behind in found:
            kind, name = named(code)
            if kind == "func" and code in alike:
                continue
            made += [f".. c:{directive(kind, code)}:: {signature(code) if kind == 'func' else name}", ""]
            text = said(code, behind) if kind == "func" else [behind]
            made += rst.indented(line for x in text for line in rst.body(x, roles))
            made += [*(rst.indented(rst.listing(code.split("\n"))) if kind != "func" else []), ""]
    return "\n".join(made) + "\n"


def inner_comments(code):
    """(comment, parameter) of comments between the parentheses of a declaration."""
    if "{" in code:
        code = code.split("{")[0]
    for found in COMMENT.finditer(code):
        before = re.search(r"(\w+)(?:\[\w*\])?\s*,?\s*$", code[: found.start()])
        if before:
            yield found.group(0), before.group(1)


def roles(root, build):
    """{name: role} of all public names."""
    return {
        named(code)[1]: "data" if directive(named(code)[0], code) == "var" else named(code)[0]
        for path in paths(root, build)
        for _, found in groups(parts(path)[1])
        for code, _ in found or []
    }


def pages(root, build):
    known = roles(root, build)
    return {path.name: page(path, known) for path in paths(root, build)}
