# SPDX-License-Identifier: Apache-2.0
"""One exception class for each status of the library. Each is also the built-in exception that Python programs expect in its
place, so ``except ValueError`` and ``except errors.ShapeError`` both work. Messages are the library's: what was expected, what
was given, what to do.

>>> from sambaflow.runtime import Session
>>> try:
...     Session("nowhere.pef")
... except OSError as error:
...     print(type(error).__name__, error)
FileError cannot read "nowhere.pef": No such file or directory; check the path, which begins in the working directory
"""

from typing import NoReturn

from sambaflow import _core


class SambaError(Exception):
    """Whatever the library refuses."""


class OutOfMemoryError(SambaError, MemoryError):
    """The allocator gave no memory."""


class ArgumentError(SambaError, ValueError):
    """An argument that makes no sense by itself."""


class ArgumentIndexError(ArgumentError, IndexError):
    """An index or a dim out of range, where Python expects an IndexError."""


class ArgumentTypeError(ArgumentError, TypeError):
    """An argument of a type or a length that makes no sense, where Python expects a TypeError."""


class UnknownNameError(SambaError, LookupError):
    """A name that is not there, or is there twice."""


class ShapeError(SambaError, ValueError):
    """Shapes that do not fit each other."""


class DtypeError(SambaError, TypeError):
    """A dtype that the operation does not take."""


class StateError(SambaError, RuntimeError):
    """The right call at the wrong moment."""


class FileError(SambaError, OSError):
    """The operating system refused a file; nothing already saved was changed."""


class FormatError(SambaError, ValueError):
    """A file's content is not what its format says."""


class UnsupportedError(SambaError, NotImplementedError):
    """Understood, but this build or machine cannot do it."""


class InternalError(SambaError, RuntimeError):
    """A mistake of the library; please report it."""


class NetworkError(SambaError, ConnectionError):
    """Another replica failed, or the way to it."""


class NoEffectWarning(UserWarning):
    """What a program asks for, and what it asks for means nothing here: it was left out."""


class HostFallbackWarning(UserWarning):
    """The library has no kernel for an operator outside tracing: torch computed it on the host."""


_BY_STATUS = {
    _core.lib.SAMBA_ERROR_MEMORY: OutOfMemoryError,
    _core.lib.SAMBA_ERROR_ARGUMENT: ArgumentError,
    _core.lib.SAMBA_ERROR_NAME: UnknownNameError,
    _core.lib.SAMBA_ERROR_SHAPE: ShapeError,
    _core.lib.SAMBA_ERROR_DTYPE: DtypeError,
    _core.lib.SAMBA_ERROR_STATE: StateError,
    _core.lib.SAMBA_ERROR_FILE: FileError,
    _core.lib.SAMBA_ERROR_FORMAT: FormatError,
    _core.lib.SAMBA_ERROR_UNSUPPORTED: UnsupportedError,
    _core.lib.SAMBA_ERROR_INTERNAL: InternalError,
    _core.lib.SAMBA_ERROR_INDEX: ArgumentIndexError,
    _core.lib.SAMBA_ERROR_NETWORK: NetworkError,
}


def raise_status(status: int, message: str | None) -> NoReturn:
    """Raises the exception of a status that is not SAMBA_OK."""
    kind = _BY_STATUS.get(status)
    if kind is None:
        raise ArgumentError(
            f"raise_status: there is no error of status {status!r:.100}; they are {min(_BY_STATUS)} to {max(_BY_STATUS)}"
        )
    raise kind(message or f"status {status}")
