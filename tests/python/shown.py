# SPDX-License-Identifier: Apache-2.0
"""Tests whose docstring is an example of a document, what it prints included."""

import doctest


def shown(function):
    """A test that runs the `>>>` lines of its docstring and compares what they print, then calls the function with the names that
    the example leaves. Blanks do not count, `...` stands for anything."""
    example = doctest.DocTestParser().get_doctest(function.__doc__, {}, function.__name__, None, None)
    assert example.examples, function.__name__

    def test():
        example.globs = dict(function.__globals__)
        runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS, verbose=False)
        said = []
        result = runner.run(example, out=said.append, clear_globs=False)
        assert result.failed == 0, "".join(said)
        function(**{name: example.globs[name] for name in function.__code__.co_varnames[: function.__code__.co_argcount]})

    test.__name__ = test.__qualname__ = function.__name__
    test.__module__ = function.__module__
    return test
