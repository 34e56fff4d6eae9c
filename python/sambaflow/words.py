# SPDX-License-Identifier: Apache-2.0
"""Strings to and from C. C's end at the first NUL and are UTF-8 or whatever the file had; a name that is no UTF-8 goes through
Python and back unchanged (surrogateescape), and a word that C would cut short is refused."""

import os

from sambaflow import errors
from sambaflow._core import ffi


def text(chars):
    """A C string as str; None for NULL."""
    return None if chars == ffi.NULL else ffi.string(chars).decode("utf-8", "surrogateescape")


def message(chars):
    """A C message as str, which can always be printed: C may have cut a long name in the middle of a letter."""
    return ffi.string(chars).decode("utf-8", "replace")


def encoded(word, what="a name"):
    """A str as the bytes of a C string.

    >>> encoded("lin.weight")
    b'lin.weight'
    """
    if not isinstance(word, str):
        raise errors.ArgumentTypeError(f"{what} is a str: given {word!r:.100} of {type(word).__name__}")
    if "\0" in word:
        raise errors.ArgumentError(f"{what} has a NUL in it: {word!r:.100}")
    try:
        return word.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        raise errors.ArgumentError(f"{what} is no Unicode text: {word!a:.100}") from None


def isa_of(isa=None):
    """The instruction set asked for, as a C string to be kept; NULL, where the library asks the environment variable
    SAMBAFLOW_ISA, for None."""
    return ffi.NULL if isa is None else ffi.new("char[]", encoded(isa, "isa"))


def path_of(path, what="a path"):
    """A str, bytes or os.PathLike as the bytes of a C string."""
    if not isinstance(path, (str, bytes, os.PathLike)):
        raise errors.ArgumentTypeError(f"{what} is a str, bytes or os.PathLike: given {path!r:.100} of {type(path).__name__}")
    try:
        name = os.fsencode(path)
    except UnicodeEncodeError:
        raise errors.ArgumentError(f"{what} is no Unicode text: {path!a:.100}") from None
    if b"\0" in name:
        raise errors.ArgumentError(f"{what} has a NUL in it: {name!r:.100}")
    return name


def array_of(words, what="a name"):
    """(char *[] , count, what the first points into) of Python strings, or (NULL, 0, ()); keep all while C reads it."""
    if not words:
        return ffi.NULL, 0, ()
    kept = [ffi.new("char[]", encoded(word, what)) for word in words]
    return ffi.new("char *[]", kept), len(kept), kept
