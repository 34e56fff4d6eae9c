# SPDX-License-Identifier: Apache-2.0
"""Chat templates beside jinja2, set up by transformers: templates of this subset's grammar drawn by a printed seed, over random
conversations; templates of families, stored and as packages carry them. Texts are equal, and an error of one is an error of the
other; what the subset has not may be refused by name. SAMBAFLOW_SEED draws the same again, SAMBA_TEST_TEMPLATES how many."""

import importlib.util
import json
import os
import pathlib
import random
import re

import pytest
from chat_library import Refused, Template, Unsupported
from transformers.utils.chat_template_utils import _normalize_chat_messages, render_jinja_template

SEED = int(os.environ.get("SAMBAFLOW_SEED") or random.randrange(1 << 30))
COUNT = int(os.environ.get("SAMBA_TEST_TEMPLATES", 800))
WORDS = "Hi there, naïve  ﬁne\nline two\n\n 世界 👍🏽 ΑΣ ß İ <|im_end|> </think> <think> x=1 'q' \"d\" \\n {{ }} \t end"
WORDS = WORDS.split(" ") + [""]


def words(draw, most=6):
    return draw.choice(["", " ", "\n"]) + draw.choice([" ", "", "\n"]).join(draw.choices(WORDS, k=draw.randint(0, most)))


def value(draw, depth=2):
    """Any JSON."""
    if depth == 0 or draw.random() < 0.6:
        return draw.choice([None, True, False, 0, 1, -3, 12345678901, 0.5, 1e20, 1e-7, 3.0, words(draw), words(draw, 2)])
    if draw.random() < 0.5:
        return [value(draw, depth - 1) for _ in range(draw.randint(0, 3))]
    return {draw.choice(["a", "b", "type", "name", "items", "é"]): value(draw, depth - 1) for _ in range(draw.randint(0, 3))}


def tool(draw):
    parameters = {
        "type": "object",
        "properties": {"x": {"type": draw.choice(["string", "integer"]), "description": words(draw, 3)}},
    }
    return {
        "type": "function",
        "function": {"name": "f" + str(draw.randint(0, 9)), "description": words(draw), "parameters": parameters},
    }


def message(draw, role):
    made = {"role": role, "content": words(draw)}
    if draw.random() < 0.1:
        made["content"] = [{"type": "text", "text": words(draw)}, {"type": draw.choice(["text", "image"]), "text": words(draw)}]
    if draw.random() < 0.1:
        made["content"] = None
    if role == "assistant" and draw.random() < 0.2:
        call = {"name": "f1", "arguments": {"x": value(draw, 1), "y": words(draw, 2)}}
        made["tool_calls"] = [{"id": "call12345", "type": "function", "function": call}]
    if role == "assistant" and draw.random() < 0.2:
        made[draw.choice(["reasoning_content", "thinking", "reasoning"])] = words(draw)
    if role == "tool" and draw.random() < 0.5:
        made["tool_call_id"], made["name"] = "call12345", "f1"
    return made


def conversation(draw):
    made = [message(draw, "system")] if draw.random() < 0.4 else []
    for _ in range(draw.randint(1, 4)):
        made.append(message(draw, "user" if draw.random() < 0.95 else draw.choice(["assistant", "system", "odd"])))
        if draw.random() < 0.8:
            made.append(message(draw, "assistant"))
            if "tool_calls" in made[-1] and draw.random() < 0.8:
                made += [message(draw, "tool") for _ in range(draw.randint(1, 2))]
                made.append(message(draw, "assistant"))
    return made


# ---- templates of the grammar ----
class Grammar:
    """Templates with names that are mostly there, and mistakes now and then."""

    def __init__(self, draw):
        self.draw, self.names = draw, ["messages", "tools", "add_generation_prompt", "bos_token", "missing", "data"]

    def pick(self, *options):
        return self.draw.choice(options)

    def literal(self):
        d = self.draw
        return self.pick(
            lambda: str(d.randint(-3, 12)),
            lambda: self.pick("1.5", "0.1", "2.0", "1e3", "100"),
            lambda: self.pick("true", "False", "none", "None"),
            lambda: self.text(),
            lambda: self.text(),
        )()

    def text(self):
        plain = self.pick(
            "a", "user", "role", "content", " x ", "é", "", "\\n", "a,b,c", "Σ", "it\\'s", "<|im_start|>", "Hello World"
        )
        return f"'{plain}'"

    def name(self):
        return self.draw.choice(self.names)

    def items(self, depth):
        return ", ".join(self.expression(depth - 1) for _ in range(self.draw.randint(0, 3)))

    def listed(self, depth):
        return self.pick(
            lambda: "messages",
            lambda: "messages",
            lambda: f"[{self.items(depth)}]",
            lambda: f"range({self.draw.randint(0, 5)})",
            lambda: f"{self.textual(depth)}.split({self.pick('', chr(39) + ' ' + chr(39), chr(39) + ',' + chr(39) + ', 1')})",
            lambda: f"messages[{self.pick('1:', ':-1', '::-1', '::2', '0:2', '-2:')}]",
            lambda: (
                f"messages | {self.pick('selectattr', 'rejectattr')}('role', {self.pick('', chr(39) + '==' + chr(39) + ', ')}"
                f"{self.text()}) | list"
            ),
            lambda: f"messages | selectattr('content', '{self.pick('string', 'defined', 'none')}') | list",
            lambda: f"messages | map(attribute='{self.pick('role', 'content', 'name')}') | list",
            lambda: f"{self.textual(depth)}.splitlines()",
            lambda: (
                f"({self.listed(depth - 1)} | {self.pick('reverse', 'unique', 'sort', 'list')} | list)" if depth > 0 else "[1]"
            ),
        )()

    def textual(self, depth):
        if depth <= 0:
            return self.pick(self.text(), "messages[0].content", "messages[-1]['role']", "bos_token")
        inner = self.textual(depth - 1)
        return self.pick(
            lambda: inner,
            lambda: f"({inner} ~ {self.expression(depth - 1)})",
            lambda: f"({inner} + {self.textual(depth - 1)})",
            lambda: f"({inner} | {self.pick('trim', 'upper', 'lower', 'title', 'capitalize', 'string', 'safe', 'length', 'e')})",
            lambda: f"({inner} | replace({self.text()}, {self.text()}))",
            lambda: f"({inner} | indent({self.pick('', '2', '4, true', chr(39) + '> ' + chr(39) + ', blank=true')}))",
            lambda: f"{inner}.{self.pick('strip', 'lstrip', 'rstrip', 'upper', 'lower', 'title', 'capitalize')}()",
            lambda: f"{inner}.{self.pick('strip', 'lstrip', 'rstrip', 'removeprefix', 'removesuffix')}({self.text()})",
            lambda: f"{inner}.replace({self.text()}, {self.text()})",
            lambda: f"{inner}[{self.pick('0', '-1', '1:', ':3', '::-1', '-4:-1', '2')}]",
            lambda: f"({self.listed(depth - 1)} | join({self.pick('', self.text())}))",
            lambda: f"({self.expression(depth - 1)} | tojson{self.pick('', '(indent=2)', '(indent=4, sort_keys=true)')})",
            lambda: f"({inner} if {self.condition(depth - 1)} else {self.textual(depth - 1)})",
            lambda: f"({inner} | {self.pick('e', 'safe')})",
            lambda: f"({inner} | center({self.pick('', '9', '40')}))",
            lambda: f"{inner}.{self.pick('center(9)', 'swapcase()', 'zfill(9)', 'expandtabs()', 'casefold()')}",
            lambda: f"({inner} * {self.pick('0', '2')})",
            lambda: f"({inner} | indent({self.textual(depth - 1)}, first=true))",
            lambda: f"{inner}.{self.pick('partition', 'rpartition')}({self.text()})[{self.pick('0', '1', '2')}]",
            lambda: f"{inner}.{self.pick('split', 'rsplit')}({self.text()}, 1)[-1]",
        )()

    def condition(self, depth):
        if depth <= 0:
            return self.pick("true", "false", "tools", "missing", "add_generation_prompt", "loop.first", "messages")
        one, two = self.expression(depth - 1), self.expression(depth - 1)
        return self.pick(
            lambda: f"{one} {self.pick('==', '!=')} {two}",
            lambda: f"{self.number(depth - 1)} {self.pick('<', '<=', '>', '>=')} {self.number(depth - 1)}",
            lambda: (
                f"{self.text()} {self.pick('in', 'not in')} {self.pick(self.textual(depth - 1), self.listed(depth - 1), 'data')}"
            ),
            lambda: f"not {self.condition(depth - 1)}",
            lambda: f"({self.condition(depth - 1)} {self.pick('and', 'or')} {self.condition(depth - 1)})",
            lambda: f"{one} is {self.pick('', 'not ')}{self.test()}",
            lambda: f"{self.textual(depth - 1)}.{self.pick('startswith', 'endswith')}({self.text()})",
            lambda: f"{self.name()} is {self.pick('', 'not ')}defined",
            lambda: f"{self.name()} is defined and {one}",
        )()

    def test(self):
        plain = (
            "none",
            "string",
            "mapping",
            "iterable",
            "sequence",
            "number",
            "true",
            "false",
            "boolean",
            "integer",
            "float",
            "undefined",
        )
        return self.pick(*plain, f"eq({self.text()})", f"in({self.listed(0)})", f"== {self.text()}")

    def number(self, depth):
        if depth <= 0:
            return self.pick("0", "1", "7", "2.5", "messages | length", "-2")
        one, two = self.number(depth - 1), self.number(depth - 1)
        return self.pick(
            lambda: f"({one} {self.pick('+', '-', '*')} {two})",
            lambda: f"({one} {self.pick('/', '//', '%')} {two})",
            lambda: f"({self.listed(depth - 1)} | {self.pick('length', 'count')})",
            lambda: (
                f"({one} | {self.pick('int', 'float', 'abs', 'string', 'round', 'round(1)', 'round(0, ' + repr('floor') + ')')})"
            ),
            lambda: f"{self.textual(depth - 1)}.{self.pick('find', 'rfind', 'count')}({self.text()})",
            lambda: f"({self.textual(depth - 1)} | int)",
            lambda: f"-{one}",
            lambda: f"([{one}, {two}] | {self.pick('min', 'max', 'sum')})",
            lambda: self.pick("loop.index", "loop.index0", "loop.length", "loop.revindex", "loop.revindex0"),
            lambda: f"{one} ** {self.pick('0', '2', '3')}",
        )()

    def expression(self, depth):
        if depth <= 0:
            return self.pick(self.literal(), self.name(), self.name(), "messages[0].content", "data.a")
        return self.pick(
            lambda: self.textual(depth),
            lambda: self.textual(depth),
            lambda: self.number(depth),
            lambda: self.condition(depth),
            lambda: self.listed(depth),
            lambda: f"{{{self.text()}: {self.expression(depth - 1)}, 'b': {self.expression(depth - 1)}}}",
            lambda: f"({self.expression(depth - 1)} | default({self.text()}{self.pick('', ', true')}))",
            lambda: f"({self.listed(depth - 1)} | {self.pick('first', 'last')})",
            lambda: (
                f"data.{self.pick('get(' + repr('a') + ')', 'get(' + repr('q') + ', 1)', 'items() | list', 'keys() | list', 'b')}"
            ),
            lambda: f"(data | {self.pick('items | list', 'dictsort', 'length', 'list', 'tojson')})",
            lambda: f"({self.expression(depth - 1)}, {self.expression(depth - 1)})",
            lambda: f"{self.name()}[{self.pick('0', repr('role'), repr('a'), '-1')}]",
            lambda: f"({self.condition(depth - 1)}) {self.pick('and', 'or')} {self.expression(depth - 1)}",
            lambda: f"({self.expression(depth - 1)} if {self.condition(depth - 1)}{self.pick('', ' else ' + self.literal())})",
            lambda: f"{self.textual(depth - 1)} * {self.pick('0', '2', '-1')}",
            lambda: f"{self.listed(depth - 1)} + {self.listed(depth - 1)}",
            lambda: f"raise_exception({self.text()})" if self.draw.random() < 0.1 else "none",
        )()

    def blanks(self):
        return self.pick("", "", " ", "\n", "\n  ", "  \n", "x", "\n\ty ", "é\n")

    def tag(self, inside):
        return (
            "{%" + self.pick("", "", "-", "-", "+") + " " + inside + " " + self.pick("", "", "-", "-", "+") + "%}" + self.blanks()
        )

    def body(self, depth, within_loop=False):
        return self.blanks() + "".join(self.statement(depth, within_loop) for _ in range(self.draw.randint(1, 3)))

    def scoped(self, names, make):
        """A part in which some names more are there."""
        kept, self.names = self.names, self.names + names + names
        made = make()
        self.names = kept
        return made

    def statement(self, depth, within_loop):
        printed = lambda: (  # noqa: E731
            "{{"
            + self.pick("", "", "-")
            + " "
            + self.expression(self.draw.randint(0, 3))
            + " "
            + self.pick("", "", "-")
            + "}}"
            + self.blanks()
        )
        if depth <= 0:
            return printed()
        loop = lambda: self.scoped(  # noqa: E731
            ["m", "m.role", "m['content']", "loop.first", "loop.last"],
            lambda: (
                self.tag(f"for m in {self.listed(1)}{self.pick('', '', ' if ' + self.condition(1))}")
                + self.body(depth - 1, True)
                + self.pick("", "", self.tag("else") + self.body(depth - 1))
                + self.tag("endfor")
            ),
        )
        pairs = lambda: self.scoped(  # noqa: E731
            ["k", "v"],
            lambda: (
                self.tag(f"for k, v in {self.pick('data.items()', 'data | dictsort', 'data|items', '[(1, 2)]')}")
                + self.body(depth - 1, True)
                + self.tag("endfor")
            ),
        )
        macro = lambda: (  # noqa: E731
            self.scoped(
                ["p", "q"], lambda: self.tag(f"macro f(p, q={self.literal()})") + self.body(depth - 1) + self.tag("endmacro")
            )
            + "{{ f("
            + self.pick("1", "p=2", "3, q=4", "messages[0], q='z'", "1, 2, 3" if self.draw.random() < 0.1 else "1")
            + ") }}"
        )
        space = lambda: (  # noqa: E731
            self.tag(f"set ns = namespace(n={self.literal()}, s='')")
            + self.tag("for m in messages")
            + self.tag("set ns.s = ns.s + m.role")
            + self.tag(f"set ns.n = {self.expression(1)}")
            + self.tag("endfor")
            + "{{ ns.s }}{{ ns.n }}"
        )
        return self.pick(
            printed,
            printed,
            printed,
            lambda: (
                self.tag(f"if {self.condition(2)}")
                + self.body(depth - 1, within_loop)
                + self.pick("", self.tag(f"elif {self.condition(2)}") + self.body(depth - 1, within_loop))
                + self.pick("", self.tag("else") + self.body(depth - 1, within_loop))
                + self.tag("endif")
            ),
            loop,
            loop,
            pairs,
            macro,
            space,
            lambda: self.tag(f"set {self.pick('x', 'y', 'z')} = {self.expression(2)}") + "{{ x }}{{ y }}",
            lambda: self.tag("set x") + self.body(depth - 1) + self.tag("endset") + "{{ x | length }}{{ x }}",
            lambda: self.tag("set x | upper") + self.body(depth - 1) + self.tag("endset") + "{{ x }}",
            lambda: self.tag(f"set x, y = {self.expression(1)}, {self.expression(1)}") + "{{ y }}",
            lambda: self.scoped(
                ["w"], lambda: self.tag(f"with w = {self.expression(1)}") + self.body(depth - 1) + self.tag("endwith")
            ),
            lambda: self.tag("filter " + self.pick("upper", "trim", "indent(3)")) + self.body(depth - 1) + self.tag("endfilter"),
            lambda: self.tag("generation") + self.body(depth - 1) + self.tag("endgeneration"),
            lambda: "{#" + self.pick("", "-") + " note {{ " + self.pick("", "-") + "#}" + self.blanks(),
            lambda: self.tag("raw") + "{{ raw }} {% x %}\n " + self.tag("endraw"),
            lambda: (
                self.tag(f"if {self.condition(1)}") + self.tag(self.pick("break", "continue")) + self.tag("endif")
                if within_loop
                else ""
            ),
        )()

    def template(self):
        return self.body(3)


# ---- comparing ----
def theirs(text, messages, spans=False, **given):
    """The text of transformers; its error as None."""
    messages = _normalize_chat_messages(messages)
    try:
        made, marks = render_jinja_template([messages], chat_template=text, return_assistant_tokens_mask=spans, **given)
    except RecursionError:
        raise
    except Exception as error:  # of any kind: Python's own among them
        return None, f"{type(error).__name__}: {error}"
    return (made[0], [made[0][a:b] for a, b in marks[0]]) if spans else (made[0], "")


def compare(text, messages, label, spans=False, **given):
    """Whether the subset has the template; texts and errors are compared where it has."""
    try:
        ours, said = Template(text).render(messages, spans=spans, **given), ""
        ours, marks = ours if spans else (ours, "")
    except Unsupported as error:
        assert re.search(r"not supported|too m|more than|not known|is no float", str(error)), f"{label}: {error}"
        return False
    except Refused as error:
        ours, marks, said = None, "", str(error)
    expected, why = theirs(text, messages, spans, **given)
    if expected is not None and re.search(r"0x[0-9a-f]{6,}", expected):
        return False
    shown = f"{label}\n{text}\n{json.dumps(messages, ensure_ascii=False)}\n{given}\nours: {said}\ntheirs: {why}"
    assert ours == expected, shown
    if spans and expected is not None:
        assert marks == why, shown
    return True


def test_random_templates():
    print("seed", SEED)
    had = texts = 0
    for i in range(COUNT):
        draw = random.Random(f"{SEED}-{i}")
        text, messages = Grammar(draw).template(), conversation(draw)
        given = {"add_generation_prompt": draw.random() < 0.5, "bos_token": "<s>"}
        if draw.random() < 0.5:
            given["tools"] = [tool(draw) for _ in range(draw.randint(0, 2))]
        if draw.random() < 0.7:
            given["data"] = {"a": value(draw), "b": value(draw, 1)}
        had += compare(text, messages, f"SAMBAFLOW_SEED={SEED}, template {i}", **given)
        texts += theirs(text, messages, **given)[0] is not None
    print(f"{had} of {COUNT} compared; {texts} have a text")
    assert had > COUNT * 0.7 and texts > COUNT * 0.1


# ---- templates of families ----
def families():
    """Those of chat_templates/, of trl where it is installed, and of the folders of SAMBA_TEST_CHAT_TEMPLATES."""
    folders = [pathlib.Path(__file__).parent / "chat_templates"]
    spec = importlib.util.find_spec("trl")
    if spec and spec.origin:
        folders.append(pathlib.Path(spec.origin).parent / "chat_templates")
    folders += [pathlib.Path(name) for name in os.environ.get("SAMBA_TEST_CHAT_TEMPLATES", "").split(":") if name]
    return sorted({path.name: path for folder in folders for path in folder.glob("*.jinja")}.values())


@pytest.mark.parametrize("path", families(), ids=lambda path: path.stem)
def test_family(path):
    text, had = path.read_text(encoding="utf-8"), 0
    for i in range(20):
        draw = random.Random(f"{SEED}-{i}")
        messages, given = (
            conversation(draw),
            {"add_generation_prompt": draw.random() < 0.5, "bos_token": "<s>", "eos_token": "</s>"},
        )
        if draw.random() < 0.5:
            given["tools"] = [tool(draw) for _ in range(draw.randint(0, 2))]
        spans = re.search(r"{%-?\s*generation", text) is not None
        had += compare(text, messages, f"SAMBAFLOW_SEED={SEED}, {path.name}, conversation {i}", spans=spans, **given)
    assert had > 8, f"only {had} of 20 conversations are rendered"
