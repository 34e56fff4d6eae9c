# SPDX-License-Identifier: Apache-2.0
"""Complex tensors while a model is traced: each is a pair, a real tensor with one more dim at its end, of real and imaginary
part. A graph has nothing else, so the device has complex parameters and buffers as pairs too, under their names.

A complex SambaTensor has no value of its own: `_pair` has it, and what is a view of the one is a view of the other.
rules/complexes.py says what torch functions do with pairs; any other function of a complex tensor is refused by its name."""

import torch

from sambaflow.errors import UnsupportedError
from sambaflow.samba.sambatensor import SambaTensor, from_value, make_wrapper

REALS = {torch.complex64: torch.float32, torch.complex128: torch.float64}
COMPLEXES = {real: dtype for dtype, real in REALS.items()}


def is_complex(x):
    """Asked of SambaTensors below torch, which would ask the tracer."""
    return x._complex if isinstance(x, SambaTensor) else isinstance(x, torch.Tensor) and x.dtype.is_complex


def meets(args, kwargs):
    """Whether a call has to do with complex numbers: a tensor, a number or a dtype."""
    for x in torch.utils._pytree.tree_leaves((args, kwargs)):
        if isinstance(x, torch.Tensor):
            if is_complex(x):
                return True
        elif type(x) is complex or (type(x) is torch.dtype and x.is_complex):
            return True
    return False


def is_symbolic(t, x):
    """Whether a complex tensor is known only when the graph runs."""
    if id(x) in t.names:
        return True
    if x._pair is not None:
        return t.is_symbolic((x._pair,), {})
    return bool(t.memories) and x._held is not None and x._held.untyped_storage().data_ptr() in t.memories


def real_dtype(dtype):
    if dtype not in REALS:
        raise UnsupportedError(f"{dtype} is not a dtype of SambaFlow: of complex ones there are complex64 and complex128")
    return REALS[dtype]


def pair_of(t, x):
    """The pair of a complex tensor: traced, a parameter, or a constant."""
    if not isinstance(x, SambaTensor):
        if id(x) not in t.names:
            return torch.view_as_real(x.detach().resolve_conj())
    elif x._pair is not None:
        return x._pair
    if id(x) in t.names:
        if id(x) not in t.values:
            t.values[id(x)] = t.leaf(x)
            t.kept.append(x)
        pair = from_value(t.values[id(x)], (*x.shape, 2), real_dtype(x.dtype), t.id)
        pair._fixed = True
        if isinstance(x, SambaTensor):
            return pair
        t.kept.append(pair)
        return pair
    with torch._C.DisableTorchFunctionSubclass():
        x._pair = SambaTensor(torch.view_as_real(x._host_values().resolve_conj()))
    if x._trace == t.id:
        t.made(x._pair)
    return x._pair


def complex_of(t, pair):
    """The complex tensor of a pair."""
    real_dtype_of = pair.dtype
    if real_dtype_of not in COMPLEXES:
        raise UnsupportedError(
            f"complex numbers of {real_dtype_of}: expected float32 or float64 parts; cast them first{t.where()}"
        )
    made = make_wrapper(SambaTensor, None, pair.shape[:-1], COMPLEXES[real_dtype_of])
    made._pair, made._trace = pair, t.id
    return made


def refuse(t):
    """A function that has no rule for complex tensors, by its name."""
    called = t.called
    name = (torch.overrides.resolve_name(called) or getattr(called, "__name__", str(called))) if called is not None else "this"
    raise UnsupportedError(
        f"{name} of a complex tensor has no counterpart in a graph: apply it to torch.view_as_real(x), or to x.real and x.imag"
        f"{t.where()}"
    )


def refuse_border(what, way, where=""):
    """An input or an output of a graph that is complex."""
    raise UnsupportedError(f"{what} is complex, and inputs and outputs of a graph are real: {way}{where}")
