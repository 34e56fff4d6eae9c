# SPDX-License-Identifier: Apache-2.0
"""How a model that is traced differs from the one of a PEF, in words. Of two constants of one dtype and shape, which a graph's
text has as hexadecimal digits that nobody reads: the first element, its values, and how many there are.

>>> text = '%{} = literal dtype=float32 shape=[1,2] data="{}" : float32[1,2]'
>>> of_constants(text.format(3, "0000803f00000040"), text.format(3, "0000803f00004040"))
': element [0, 1] of the constant was 2.0 and is 3.0, which is the first of 1 that differ among 2'
>>> of_constants(text.format(3, "0000803f00000040"), "%3 = iota")
''
"""

import re

import torch

_LITERAL = re.compile(r'%\d+ = literal dtype=(\w+) shape=\[([\d,]*)\] data="([0-9a-f]*)"')
_OUTPUT = re.compile(r'output_(\d+)"')
_BYTES = re.compile(r' data="[0-9a-f]*("| (?=\.\.\.))')
_NUMBER = r"%\d+ = constant (\S+ \S+) value=(\S+) : \S+( \(in .*?\))?"
_NUMBERS = re.compile(rf"compiled was  {_NUMBER}  and the model has  {_NUMBER}", re.S)
_BOTH = re.compile(r"compiled was  (%\d+) = literal .*  and the model has  (%\d+) = literal ", re.S)


def of_constants(compiled, model):
    """Of two lines of graphs; '' where they are no such constants, or equal."""
    before, now = _LITERAL.match(compiled), _LITERAL.match(model)
    if not before or not now or before.groups()[:2] != now.groups()[:2] or before[3] == now[3]:
        return ""
    dtype, shape = getattr(torch, before[1]), [int(size) for size in before[2].split(",") if size]
    (a, x), (b, y) = (_values(found[3], dtype) for found in (before, now))
    places = (a != b).any(-1).nonzero().flatten()
    at = int(places[0])
    index = [int(i) for i in torch.unravel_index(places[0], shape)] if shape else []
    return (
        f": element {index} of the constant was {x[at].item()} and is {y[at].item()}, which is the first of {len(places)} that "
        f"differ among {len(a)}"
    )


def _values(digits, dtype):
    """(bytes of each element, elements)."""
    elements = torch.frombuffer(bytearray.fromhex(digits), dtype=dtype)
    return elements.view(torch.uint8).reshape(len(elements), -1), elements


def explained(said, compiled, model):
    """The sentence about the first difference of two graphs, without digits of constants and with what they say;
    `compiled` and `model` give their texts."""
    numbers = _BOTH.search(said)
    shown, constants = _BYTES.subn("", said)
    if not constants:
        return said
    lines = [_line(text(), number) for text, number in zip((compiled, model), numbers.groups())] if numbers else ("", "")
    known = of_constants(*lines)
    return (
        f"{shown}{f'{known}:' if known else ': if it is a constant whose values differ,'} seed what makes it, or make it a "
        "buffer or an input"
    )


def _line(text, number):
    return next((line for line in text.splitlines() if line.startswith(f"{number} = ")), "")


def refusal(said, pef, hint):
    """What trace_graph says to a model that is not the one of the PEF: cause and cure first. `hint` stands behind a difference of
    operators."""
    _, first, difference = said.partition("First difference: ")
    if not first:
        indices = ", ".join(_OUTPUT.findall(said.partition("compiled with")[2]))
        return (
            f"{said.partition(': name the same')[0]}: give trace_graph the loss_indices given to compile, "
            f"{f'[{indices}], ' if indices else ''}or compile again. The PEF is {pef}"
        )
    number = _NUMBERS.search(difference)
    if number and number[1] == number[4] and number[2] != number[5]:
        return (
            f"forward has the constant {float(number[5]):.6g}, which was {float(number[2]):.6g} when it was compiled"
            f"{number[6] or ''}: if it differs in each call (random.random(), a counter), use torch.rand(()) or make it an "
            f"input; if the model was changed, compile it again. The PEF is {pef}"
        )
    if not difference.startswith(("input ", "parameter ", "buffer ")):
        return (
            "the model differs from the compiled one: compile it again, or trace the model that was compiled. First difference: "
            f"{difference}{hint}. The PEF is {pef}"
        )
    if not difference.startswith("input "):
        cure = "compile this model again, or trace the model that was compiled"
    elif ", but was " in difference:  # of another batch size, most often
        cure = "give what was compiled, or compile again, for this or for both (dims= or sizes= of compile)"
    else:
        cure = "give it the name that was compiled, or compile again"
    return f"{difference}: {cure}. The PEF is {pef}"
