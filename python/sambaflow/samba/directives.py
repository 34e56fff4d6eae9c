# SPDX-License-Identifier: Apache-2.0
"""Hints to the compiler about modules of a model, and about parts of its forward pass."""

import contextlib
import weakref
from typing import Any, TypeVar, overload

import torch

from sambaflow import errors
from sambaflow._core import lib
from sambaflow.samba import _state, nominal

_Module = TypeVar("_Module", bound=torch.nn.Module)

# module -> the name its operators are kept together under
FUSIONS: weakref.WeakKeyDictionary[torch.nn.Module, str] = weakref.WeakKeyDictionary()


@overload
def op_fusion(module: _Module, name: str) -> _Module: ...


@overload
def op_fusion(module: _Module, *, func_name: str) -> _Module: ...


@overload
def op_fusion(module: str) -> contextlib.AbstractContextManager[None]: ...


@overload
def op_fusion(module: None = None, *, func_name: str) -> contextlib.AbstractContextManager[None]: ...


def op_fusion(module=None, name=None, *, func_name=None):
    """Keeps operators in one section of each type: forward in one, their gradients in one. `sambaflow inspect --operators` shows
    the name. A hint inside another is part of it, and what has one name stays together.

    op_fusion(module, name) means the operators of a module, and of what it calls, and returns the module;
    `with op_fusion(func_name=...):` in a forward pass those that are traced inside. Nothing else is different.

    Args:
        module: a torch.nn.Module; None: what is enclosed.
        name, func_name: the name, not empty; either word.

    >>> import torch
    >>> import sambaflow.samba as samba
    >>> from sambaflow.samba.directives import op_fusion
    >>> block = op_fusion(torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU()), "block")
    >>> with op_fusion(func_name="scores"):
    ...     y = torch.relu(samba.ones(2))
    """
    if isinstance(module, str) and name is None:
        module, name = None, module
    if name is not None and func_name is not None:
        raise errors.ArgumentTypeError(f"op_fusion: name is {name!r:.100} and func_name {func_name!r:.100}: give one of them")
    name = func_name if name is None else name
    if module is not None and not isinstance(module, torch.nn.Module):
        raise errors.ArgumentTypeError(f"op_fusion: expected a torch.nn.Module, given {type(module).__name__}")
    if not isinstance(name, str) or not name:
        raise errors.ArgumentError(f"op_fusion: expected a name that is not empty, given {name!r}")
    if module is None:
        return _enclosed(name)
    FUSIONS[module] = name
    return module


@contextlib.contextmanager
def _enclosed(name):
    tracer = _state.here.tracer
    if tracer is not None:
        lib.samba_op_fusion_push(tracer.graph, name.encode(errors="replace"))
    try:
        yield
    finally:
        if tracer is not None:
            lib.samba_op_fusion_pop(tracer.graph)


class sdpa_directives(contextlib.ContextDecorator):
    """Around calls of scaled_dot_product_attention, or as a decorator of a forward: hints about how another device's
    attention should be cut, as a dict `directives` or, `more` of them, by name. The device here, a CPU, has one way to
    compute it, which needs none: a NoEffectWarning says so once for each name of a hint.

    >>> import warnings
    >>> with warnings.catch_warnings(record=True) as said:
    ...     warnings.simplefilter("always")
    ...     with sdpa_directives({"block": 64}):
    ...         pass
    >>> str(said[0].message)
    'sdpa_directives: block: without effect on this device, a CPU'
    """

    def __init__(self, directives: dict[str, Any] | None = None, **more: Any) -> None:
        if directives is not None and not isinstance(directives, dict):
            raise errors.ArgumentTypeError(
                f"sdpa_directives: expected a dict of hints, or hints by name, given {type(directives).__name__}"
            )
        nominal.say_all([str(name) for name in {**(directives or {}), **more}], "sdpa_directives", stacklevel=2)

    def __enter__(self) -> "sdpa_directives":
        return self

    def __exit__(self, *error: object) -> None:
        return None
