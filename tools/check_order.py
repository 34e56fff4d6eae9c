# SPDX-License-Identifier: Apache-2.0
"""C does not say in which order the arguments of a call are worked out, nor the elements of a list in braces, nor the sides of an
operator. f(x, g(&x)) therefore means one thing with one compiler and another with the next. This finds such places in C sources:
a name whose address goes to a call in one argument (element, side) and that is used in another; and values of a graph that are
made in two arguments (elements, sides), as the graph's nodes, and so a file's bytes, follow the order in which they are made.
Usage: check_order.py FOLDER... --values FOLDER...: the first is looked for in those before, the second in those behind"""

import os
import re
import sys

TOKEN = re.compile(
    r'"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])*\'|[A-Za-z_]\w*|\d[\w.]*|->|\+\+|--|<<=|>>=|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%&|^]=|.',
    re.S,
)
KEYWORDS = {"if", "while", "for", "switch", "return", "sizeof", "do", "else", "case", "_Alignof", "typeof", "__typeof__"}
SPLIT_LIST = {","}
SEQUENCED = {"&&", "||", "?", ":"}  # the left side is done before the right one begins
OPERATORS = {"+", "-", "*", "/", "%", "|", "^", "<<", ">>", "<", ">", "<=", ">=", "==", "!="}
OPEN, CLOSE = {"(": ")", "[": "]", "{": "}"}, {")", "]", "}"}
# These read what they are given the address of, and change nothing.
MAKERS = set()
READ = {"memcmp", "strcmp", "sizeof", "SAMBA_SHAPE_OF", "SAMBA_TYPE_OF"}


def tokens_of(text):
    text = re.sub(r"/\*.*?\*/", lambda m: re.sub(r"[^\n]", " ", m.group()), text, flags=re.S)
    text = re.sub(r"//[^\n]*", "", text)
    text = text.replace("\\\n", " \n")
    text = re.sub(
        r"(?m)^[ \t]*#[ \t]*(include|if|ifdef|ifndef|elif|else|endif|undef|error|pragma|define[ "
        r"\t]+\w+(\([^)]*\))?)[^\n]*?(?=\n|$)",
        lambda m: re.sub(r"[^\n]", " ", m.group()) if not m.group(1).startswith("define") else m.group(),
        text,
    )
    line, tokens = 1, []
    for match in TOKEN.finditer(text):
        word = match.group()
        if not word.isspace():
            tokens.append((word, line))
        line += word.count("\n")
    for i, (word, _) in enumerate(tokens):  # what an `if` asks is a statement of its own
        if word in ("if", "while", "for", "switch") and i + 1 < len(tokens) and tokens[i + 1][0] == "(":
            end = group(tokens, i + 1) - 1
            tokens[i + 1], tokens[end] = (";", tokens[i + 1][1]), (";", tokens[end][1])
    return tokens


def group(tokens, at):
    """The index behind the bracket that closes the one at `at`."""
    depth = 0
    while at < len(tokens):
        depth += (tokens[at][0] in OPEN) - (tokens[at][0] in CLOSE)
        at += 1
        if depth == 0:
            return at
    return at


def parts_of(tokens, separators):
    """Tokens between separators that stand in no bracket."""
    parts, part, depth = [], [], 0
    for token in tokens:
        depth += (token[0] in OPEN) - (token[0] in CLOSE)
        if depth == 0 and token[0] in separators:
            parts.append(part)
            part = []
        else:
            part.append(token)
    return parts + [part]


def is_name(word):
    return re.match(r"[A-Za-z_]\w*$", word) and word not in KEYWORDS


def changed_and_used(tokens):
    """Names whose address goes to a call in these tokens, and names whose value they use."""
    changed, used = set(), set()
    calls = []  # of each open bracket, whether it is of a call that may change what it is given
    for i, (word, _) in enumerate(tokens):
        before = tokens[i - 1][0] if i else ""
        if word in OPEN:
            calls.append(word == "(" and bool(is_name(before)) and before not in READ)
            continue
        if word in CLOSE:
            calls = calls[:-1]
            continue
        if not is_name(word) or before in (".", "->"):
            continue
        after = tokens[i + 1][0] if i + 1 < len(tokens) else ""
        unary = before == "&" and (i < 2 or not (is_name(tokens[i - 2][0]) or tokens[i - 2][0] in CLOSE))
        if unary and after not in ("(", "[", ".", "->"):
            if any(calls):
                changed.add(word)
        elif after != "(":
            used.add(word)
    return changed, used


def conflicts(parts):
    facts = [changed_and_used(part) for part in parts]
    for i, (changed, _) in enumerate(facts):
        for j, (also_changed, used) in enumerate(facts):
            if i != j:
                yield from sorted(changed & (used | (also_changed if i < j else set())))


def makers_among(parts, makers):
    """What two parts or more call to make a value of a graph; else nothing."""
    calls = []
    for part in parts:
        for i, (word, _) in enumerate(part[:-1]):
            if word in makers and part[i + 1][0] == "(":
                calls.append(word)
                break
    return [" and ".join(calls)] if len(calls) > 1 else []


def value_makers(folders):
    """Functions that give a value of a graph."""
    makers = set()
    for path in sources(folders):
        text = open(path, encoding="utf-8").read()
        makers.update(re.findall(r"(?m)^(?:samba_value|samba_ref) (samba_\w+)\((?!const )", text))
    text = open("src/ops.def", encoding="utf-8").read()  # of which functions and their header are made
    makers.update("samba_" + name for name in re.findall(r"(?m)^OP\((\w+),", text))
    for path in sources(folders):
        if path.endswith(".h"):
            text = open(path, encoding="utf-8").read()
            makers.update(own_makers(text, tokens_of(text), makers))
    return makers


def callers(text, tokens):
    """What a file's functions and macros call, by the name of each."""
    macros = re.findall(r"(?m)^[ \t]*#[ \t]*define[ \t]+(\w+)\([^)]*\)((?:.*\\\n)*.*)", text)
    return bodies(tokens) | {name: set(re.findall(r"\w+(?=\()", body)) for name, body in macros}


def own_makers(text, tokens, makers):
    """A file's own: they give a value, or call one that does, whatever they give."""
    own = set(re.findall(r"(?m)^static (?:inline )?(?:samba_value|samba_ref) (\w+)\((?!const samba_graph)", text))
    calls, before = callers(text, tokens), -1
    while before != len(own):
        before = len(own)
        own.update(name for name, called in calls.items() if called & (own | makers))
    return own


def bodies(tokens):
    """What each function of a file calls."""
    found, depth = {}, 0
    for i, (word, _) in enumerate(tokens):
        if depth == 0 and word == "(" and is_name(tokens[i - 1][0]):
            end = group(tokens, i)
            if end < len(tokens) and tokens[end][0] == "{":
                inside = tokens[end : group(tokens, end)]
                found[tokens[i - 1][0]] = {w for (w, _), (after, _) in zip(inside, inside[1:]) if after == "(" and is_name(w)}
        depth += (word in OPEN) - (word in CLOSE)
    return found


def constant_parameters(folders):
    """Functions all of whose pointers are to const: they only read."""
    reading = set()
    declaration = re.compile(r"\b(\w+)\(((?:[^()]|\n)*)\)\s*(?:;|\n?\{)")
    for path in sources(folders):
        for match in declaration.finditer(open(path, encoding="utf-8").read()):
            pointers = [p for p in match.group(2).split(",") if "*" in p]
            if pointers and all(re.match(r"\s*(const|(samba_graph|samba_context) \*(?!\*))", p) for p in pointers):
                reading.add(match.group(1))
    return reading


def sources(folders):
    for folder in folders:
        for root, _, names in os.walk(folder):
            for name in sorted(names):
                if name.endswith((".c", ".h", ".def")):
                    yield os.path.join(root, name)


def check(path, by_address):
    text = open(path, encoding="utf-8").read()
    tokens = tokens_of(text)
    makers = MAKERS | own_makers(text, tokens, MAKERS)
    found = set()
    for i, (word, line) in enumerate(tokens):
        if word not in ("(", "{"):
            continue
        inside = tokens[i + 1 : group(tokens, i) - 1]
        if word == "{" and any(w == ";" for w, _ in inside):
            continue
        parts = parts_of(inside, SPLIT_LIST)
        for name in (conflicts(parts) if by_address else makers_among(parts, makers)) if len(parts) > 1 else ():
            found.add((line, name))
    start = 0
    for i, (word, _) in enumerate(tokens + [(";", 0)]):
        if word not in (";", "{", "}"):
            continue
        statement = tokens[start:i]
        start = i + 1
        for expression in expressions(statement):
            sides = parts_of(expression, OPERATORS)
            for name in (conflicts(sides) if by_address else makers_among(sides, makers)) if len(sides) > 1 else ():
                found.add((expression[0][1], name))
    return found


def expressions(tokens):
    """What stands between sequence points and commas, in every bracket."""
    for part in parts_of(tokens, SEQUENCED | SPLIT_LIST | {"=", ";"}):
        if part:
            yield part
    at = 0
    while at < len(tokens):
        if tokens[at][0] in ("(", "["):
            end = group(tokens, at)
            yield from expressions(tokens[at + 1 : end - 1])
            at = end
        else:
            at += 1


def main():
    words = sys.argv[1:]
    folders = words[: words.index("--values")] if "--values" in words else words
    READ.update(constant_parameters(folders + ["include"]))
    MAKERS.update(value_makers(folders + ["include"]))
    bad = 0
    for by_address, where in ((True, folders), (False, words[len(folders) + 1 :])):
        for path in sources(where):
            for line, name in sorted(check(path, by_address)):
                what = "is used beside a call that is given its address" if by_address else "make values of a graph"
                print(f"{path}:{line}: '{name}' {what}; C does not say which comes first")
                bad = 1
    return bad


if __name__ == "__main__":
    sys.exit(main())
