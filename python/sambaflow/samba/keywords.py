# SPDX-License-Identifier: Apache-2.0
"""Keywords that a function does not have are refused by name, with the nearest one that it has; its signature shows those that it
has and no others. And defaults that can be told from the same value, given: what a call says wins over `setup`, also where it
says what the default is.

>>> @exact
... def greet(name, *, loud=UNSAID_FALSE):
...     return said(loud, True)
>>> import inspect
>>> str(inspect.signature(greet)), greet("x"), greet("x", loud=False)
('(name, *, loud=False)', True, False)
>>> try:
...     greet("x", load=True)
... except TypeError as error:
...     print(error)
greet has no keyword 'load': did you mean 'loud'?
"""

import difflib
import functools
import inspect

from sambaflow import errors


def _known(*functions):
    known = {}
    for each in functions:
        for name, its in inspect.signature(each).parameters.items():
            if its.kind is not its.VAR_KEYWORD:
                known.setdefault(name, its)
    return known


_NUMBERS = ("lr", "weight_decay", "momentum", "betas", "eps", "max_grad_norm")  # which a loop of torch gives elsewhere


_SHOWN = 8  # a longer list is left to help


def _all(function, known):
    if len(known) <= _SHOWN:
        return f"; it has {', '.join(known)}"
    owner, _, name = function.__qualname__.rpartition(".")
    where = f"samba.session.{name}" if owner == "SambaSession" else function.__qualname__
    return (
        f" and none of a similar name: help({where.replace('._', '.')}) shows all {len(known)}, among them "
        f"{', '.join(known[:_SHOWN])}"
    )


def _as_dict(word, value):
    """A hyperparameter as hyperparam_dict takes it."""
    if word != "betas":
        return f"{{{word!r}: {'...' if value is ... else repr(value)}}}"
    return "{'beta1': ..., 'beta2': ...}"


def refuse_unknown(words, function, *others):
    """Raises a TypeError where `words` has one that neither the function nor the others take."""
    known = list(_known(function, *others))
    for word in words:
        if word not in known:
            near = [name for name in known if name == f"{word[:-1]}_tensors"] or difflib.get_close_matches(word, known, 1)
            hint = f": did you mean {near[0]!r}?" if near else _all(function, [x for x in known if x != "self"])
            if word in _NUMBERS and "hyperparam_dict" in known:
                value = words.get(word, ...) if isinstance(words, dict) else ...
                hint = f": give the optimizer's hyperparameters as a dict, hyperparam_dict={_as_dict(word, value)}"
            elif word in _NUMBERS and "optimizers" in known:
                hint = ": it is the optimizer's, so give it where that is made"
            raise errors.ArgumentTypeError(f"{function.__name__.lstrip('_')} has no keyword {word!r}{hint}") from None


def exact(function, *others, without=()):
    """The function, which refuses other keywords by refuse_unknown. Where it hands on keywords that it does not name to `others`,
    its signature has theirs, too, but for `without`."""
    own = inspect.signature(function)
    names = _known(function, *others)
    if others:
        more = [
            its.replace(kind=its.KEYWORD_ONLY)
            for name, its in names.items()
            if name not in own.parameters and name not in without and its.default is not its.empty
        ]
        shown = [its for its in own.parameters.values() if its.kind is not its.VAR_KEYWORD]
        own = own.replace(parameters=[*shown, *more])
    known = frozenset(own.parameters)

    @functools.wraps(function)
    def call(*args, **kwargs):
        if kwargs and not kwargs.keys() <= known:
            refuse_unknown(kwargs, call)
        return function(*args, **kwargs)

    call.__signature__ = own
    return call


class _UnsaidFalse(int):
    """The default False."""

    def __repr__(self):
        return "False"


class _UnsaidWord(str):
    """A word that is a default."""

    __slots__ = ()


UNSAID_FALSE = _UnsaidFalse()
UNSAID_NORMAL = _UnsaidWord("normal")
UNSAID_SECTION = _UnsaidWord("section")


def is_said(value):
    """Whether a call has given the value: it is no default of the above."""
    return value.__class__ is not _UnsaidFalse and value.__class__ is not _UnsaidWord


def said(value, otherwise):
    """What a call has given, else `otherwise`."""
    return value if is_said(value) else otherwise
