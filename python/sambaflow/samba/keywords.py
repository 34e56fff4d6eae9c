# SPDX-License-Identifier: Apache-2.0
"""Keywords that a function does not have are refused by name, with the nearest one that it has."""

import difflib
import inspect


def refuse_unknown(words, function, *others):
    """Raises a TypeError where `words` has one that neither the function nor the others take."""
    known = []
    for each in (function, *others):
        known += [
            name
            for name, its in inspect.signature(each).parameters.items()
            if its.kind is not its.VAR_KEYWORD and name not in known
        ]
    for word in words:
        if word not in known:
            near = difflib.get_close_matches(word, known, 1)
            hint = f": did you mean {near[0]!r}?" if near else f"; it has {', '.join(known)}"
            raise TypeError(f"{function.__name__.lstrip('_')} has no keyword {word!r}{hint}")
