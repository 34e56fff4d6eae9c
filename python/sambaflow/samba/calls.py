# SPDX-License-Identifier: Apache-2.0
"""A call of a torch function as its rule takes it: arguments under torch's other names, and NumPy's numbers as Python's.

A rule has one signature for a function, its method and its ATen operator, which call some arguments differently; torch's
functions in C also take NumPy's names (`axis`, `keepdims`), those that are written in Python do not.
What no name fits is a TypeError in Python's words, without the rule's."""

import functools
import inspect
import sys
import types

# torch's name -> what rules call it that do not have it
_OTHERS = {
    "axis": "dim",
    "keepdims": "keepdim",
    "x": "input",
    "a": "input",
    "x1": "input",
    "x2": "other",
    "self": "input",
    "axis0": "dim0",
    "axis1": "dim1",
    "exponent": "other",
    "mat2": "other",
    "vec": "other",
    "vec2": "other",
    "tensor": "other",
    "values": "other",
    "src": "source",
    "size": "shape",
    "dtype": "shape",
    "train": "training",
    "split_size": "split_size_or_sections",
    "tensor_indices_or_sections": "indices_or_sections",
}
_NUMPYS = ("axis", "keepdims", "x", "a", "x1", "x2")
_WITHOUT_EFFECT = ("memory_format", "cudnn_enable", "cudnn_enabled")


@functools.lru_cache(None)
def _signature(rule):
    """(the rule's signature behind the tracer, names of its arguments, its *argument or None, whether it has **arguments)."""
    _, *parameters = inspect.signature(rule).parameters.values()
    rest = next((x.name for x in parameters if x.kind is x.VAR_POSITIONAL), None)
    named = frozenset(x.name for x in parameters if x.kind in (x.POSITIONAL_OR_KEYWORD, x.KEYWORD_ONLY))
    return inspect.Signature(parameters), named, rest, any(x.kind is x.VAR_KEYWORD for x in parameters)


def as_rule(func, rule, args, kwargs):
    """(args, kwargs) of a call of `func` under the names of its rule."""
    args, kwargs = plain(args), {name: plain(x) for name, x in kwargs.items()}
    if not kwargs:
        return args, kwargs
    _, named, rest, takes_any = _signature(rule)
    words, more = {}, ()
    for name, x in kwargs.items():
        if name not in named and not (name in _NUMPYS and isinstance(func, types.FunctionType)):
            known = _OTHERS.get(name, name)
            known = known if known in named or known == rest else name
            if rest == known:
                more = (x,)
                continue
            if name in _WITHOUT_EFFECT and not takes_any:
                continue
            name = known if known not in kwargs else name
        words[name] = x
    if more and "input" in words:
        args = (words.pop("input"), *args)
    return (*args, *more), words


def plain(x):
    """NumPy's numbers, also in lists and tuples, as Python's."""
    kind = type(x)
    if kind is tuple or kind is list:
        return kind([plain(part) for part in x])
    numpy = sys.modules.get("numpy")
    return x.item() if numpy is not None and isinstance(x, (numpy.integer, numpy.floating)) else x


def mismatch(rule, args, kwargs):
    """What is wrong with the arguments as such: a sentence without the rule's name; None where it takes them."""
    try:
        _signature(rule)[0].bind(*args, **kwargs)
    except TypeError as error:
        return str(error)
    return None
