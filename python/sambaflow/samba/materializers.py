# SPDX-License-Identifier: Apache-2.0
"""Calls of materializers, which make the values of an empty tensor when they are needed. Programs write them in three forms, told
apart by their parameters: (shape, dtype, requires_grad), by position or by these names, as many of them as they have; (tensor);
and (tensor, rng). The tensor has the empty one's shape, dtype and name, and zeros, so that it can be read, filled in place, or
given to torch.nn.init; what fills it in place need not return it.

>>> import sambaflow.samba as samba
>>> import torch
>>> def normal(tensor, rng):
...     return rng.normal_(torch.empty(tensor.shape, dtype=tensor.dtype), std=0.1)
>>> def named(*, dtype, shape, **more):
...     return torch.ones(shape, dtype=dtype)
>>> forms = (torch.ones, lambda shape: torch.ones(shape), torch.nn.init.ones_, normal, named)
>>> [samba.SambaTensor(shape=(2, 3), dtype=torch.float32, materializer=form).torch_tensor().shape == (2, 3) for form in forms]
[True, True, True, True, True]
>>> form_of(normal), isinstance(rng(), MultithreadedRNG), make(samba.SambaTensor(shape=(2,), materializer=torch.ones)).tolist()
(('rng', ()), True, [1.0, 1.0])
"""

import inspect
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import torch

from sambaflow import errors
from sambaflow._core import lib
from sambaflow.samba import _state, lazy

if TYPE_CHECKING:
    from sambaflow.samba.samba_session import SambaSession
    from sambaflow.samba.sambatensor import SambaTensor

_Tensor = TypeVar("_Tensor", bound=torch.Tensor)

FORMS: str = "(tensor), (tensor, rng) or (shape, dtype, requires_grad)"
_NAMES = ("shape", "dtype", "requires_grad")


class MultithreadedRNG:
    """Random numbers by the library's threads: fills torch tensors and SambaTensors. Each call is the next draw of the latest
    enable_lazy_param's seed, or of the session's where that was never called;
    values depend on the seed and the number of the draw alone. rng() gives the one of a session; `mode` is its lazy.Mode."""

    def __init__(self, mode: Any) -> None:
        self._mode = mode

    def _fill(self, tensor, *draw):
        from sambaflow.samba.sambatensor import values_of

        with torch.no_grad():
            lazy.Draw(self._mode, *draw)(values_of(tensor).detach())
        return tensor

    def normal_(self, tensor: _Tensor, mean: float = 0.0, std: float = 1.0) -> _Tensor:
        """Fills `tensor` with normal numbers of `mean` and standard deviation `std`; returns it."""
        return self._fill(tensor, lib.SAMBA_NORMAL, mean, std)

    def uniform_(self, tensor: _Tensor, low: float = 0.0, high: float = 1.0) -> _Tensor:
        """Fills `tensor` with uniform numbers of [low, high); returns it."""
        return self._fill(tensor, lib.SAMBA_UNIFORM, low, high)

    def trunc_normal_(self, tensor: _Tensor, mean: float = 0.0, std: float = 1.0, a: float = -2.0, b: float = 2.0) -> _Tensor:
        """Fills `tensor` with normal numbers of `mean` and `std` that are drawn again until they are in [a, b]; returns it."""
        return self._fill(tensor, lib.SAMBA_NORMAL_TRUNCATED, mean, std, a, b)

    def normal(
        self, mean: float = 0.0, std: float = 1.0, size: Sequence[int] = (), dtype: torch.dtype = torch.float32
    ) -> torch.Tensor:
        """A new torch tensor of that `size` and `dtype` with normal numbers of `mean` and standard deviation `std`."""
        return self.normal_(torch.empty(size, dtype=dtype), mean, std)

    def uniform(
        self, low: float = 0.0, high: float = 1.0, size: Sequence[int] = (), dtype: torch.dtype = torch.float32
    ) -> torch.Tensor:
        """A new torch tensor of that `size` and `dtype` with uniform numbers of [low, high)."""
        return self.uniform_(torch.empty(size, dtype=dtype), low, high)


def _parameters(materializer):
    """Its parameters by name; None where Python does not know them, of what is written in C."""
    try:
        return inspect.signature(materializer).parameters
    except (TypeError, ValueError):
        return None


def form_of(materializer: Callable[..., Any]) -> tuple[str, tuple[str, ...]]:
    """(form, names to give by keyword) of a `materializer`, a function: 'shape', 'tensor' or 'rng'. An ArgumentTypeError where it
    is none of the three."""
    if not callable(materializer):
        raise errors.ArgumentTypeError(f"a materializer is a function {FORMS}: given {materializer!r:.100}")
    parameters = _parameters(materializer)
    if parameters is None:
        return "shape", _NAMES
    kinds = list(parameters.values())
    named = [p.name for p in kinds if p.name in _NAMES and p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    needed = [p for p in kinds if p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    strange = [p.name for p in kinds if p.default is p.empty and p.kind is p.KEYWORD_ONLY and p.name not in _NAMES]
    more = any(p.kind is p.VAR_KEYWORD for p in kinds)
    if named and not strange and all(p.name in _NAMES for p in needed):
        return "shape", tuple(_NAMES if more else named)
    if not strange and any(p.kind is p.VAR_POSITIONAL for p in kinds) and not needed:
        return "shape", ()
    if not strange and more and not needed:
        return "shape", _NAMES
    if strange or len(needed) not in (1, 2, 3):
        raise errors.ArgumentTypeError(
            f"a materializer is a function {FORMS}: given "
            f"{getattr(materializer, '__name__', type(materializer).__name__)}({', '.join(parameters)})"
        )
    return ("tensor", "rng", "shape")[len(needed) - 1], ()


def rng(session: "SambaSession | None" = None) -> MultithreadedRNG:
    """The session's; samba.session's where none is given."""
    session = session or _state.session
    return MultithreadedRNG(session._lazy.latest(session.seed))


def make(tensor: "SambaTensor") -> Any:
    """What the materializer of an empty SambaTensor makes: a torch tensor, a SambaTensor, or something else."""
    from sambaflow.samba.sambatensor import SambaTensor

    form, names = form_of(tensor.materializer)
    if form == "shape":
        values = dict(zip(_NAMES, (tuple(tensor.shape), tensor.dtype, tensor.requires_grad)))
        if names:
            return (
                tensor.materializer(**{name: values[name] for name in names})
                if _parameters(tensor.materializer) is not None
                else tensor.materializer(values["shape"], dtype=values["dtype"], requires_grad=values["requires_grad"])
            )
        return tensor.materializer(*values.values())
    given = SambaTensor(
        torch.zeros(tensor.shape, dtype=tensor.dtype),
        name=tensor.sn_name,
        batch_dim=tensor.batch_dim,
        region_name=tensor._sn_region_name,
    )
    with torch.no_grad():
        made = tensor.materializer(given, rng(tensor._owner())) if form == "rng" else tensor.materializer(given)
    return given if made is None else made
