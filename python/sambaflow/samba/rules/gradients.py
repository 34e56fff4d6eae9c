# SPDX-License-Identifier: Apache-2.0
"""What a model asks of gradients while it is traced. Whether a tensor requires one is known from the graph: a trained parameter
leads to it. Gradients that the model takes itself are tensors of the graph (derivatives.py); those of its parameters, and hooks
that would see them, are not there: the device computes them when the whole graph is known. Outside tracing all of this is
torch's."""

import torch

from sambaflow._core import ffi, lib
from sambaflow.errors import UnsupportedError
from sambaflow.samba.sambatensor import SambaTensor
from sambaflow.samba.trace import _TORCH_DTYPES, rule

T = torch.Tensor


def traces(*functions):
    """rule, of what has no place in eager programs."""

    def register(f):
        f.asks_values = True
        return rule(*functions)(f)

    return register


def _is_traced(x):
    return isinstance(x, SambaTensor) and x._value is not None


def _leads(t, value):
    """Whether a gradient that reaches the value goes on to a parameter, or to what the model or its inputs asked to have one.
    What is once known of a node stays known."""
    info, stack = ffi.new("samba_node_info *"), [value.index]
    while stack:
        node = stack[-1]
        if node in t.requiring:
            stack.pop()
            continue
        lib.samba_graph_node(t.graph, node, info)
        op = ffi.string(info.op)
        inputs = info.inputs[0 : info.input_count] if op != b"detach" and _TORCH_DTYPES[info.dtype].is_floating_point else ()
        inputs = list(inputs)[2::2] if op == b"custom_gradient" else inputs
        unknown = [k for k in inputs if k not in t.requiring]
        if unknown:
            stack += unknown
        else:
            t.requiring[node] = op == b"parameter" or any(t.requiring[k] for k in inputs)
    return t.requiring[value.index]


@traces(T.requires_grad.__get__)
def requires_grad(t, input):
    if not _is_traced(input):
        with torch._C.DisableTorchFunctionSubclass():
            return input.requires_grad
    return input.dtype.is_floating_point and _leads(t, t.value(input))


def _require(t, input, wanted):
    """Sets the flag of a traced tensor as far as that means something; of others it is what it is."""
    if wanted and not input.dtype.is_floating_point:
        raise TypeError(f"only tensors of floating point can require gradients, given {input.dtype}")
    if wanted == requires_grad(t, input):
        return
    if not wanted or not _is_traced(input):
        what = (
            "frozen, or trained, from inside forward: set requires_grad before compile"
            if not _is_traced(input)
            else "cut off in place: take x.detach()"
        )
        raise UnsupportedError(f"requires_grad_({wanted}): while a model is traced a tensor cannot be {what}{t.where()}")
    value = lib.samba_variable(t.value(input))  # other tensors of the same values are no part of it
    t.check()
    t.requiring[value.index] = True
    input._value = value


@traces(T.requires_grad.__set__)
def set_requires_grad(t, input, wanted):
    _require(t, input, bool(wanted))


@traces(T.requires_grad_)
def requires_grad_(t, input, requires_grad=True):
    _require(t, input, bool(requires_grad))
    return input


# ---- what only a run has ----


def _refuse(*functions):
    """Decorator: what the function returns is why those are refused; None lets torch do it."""

    def register(f):
        def refused(t, *args, **kwargs):
            why = f(*args)
            if why is None:
                return NotImplemented
            raise UnsupportedError(f"{why}{t.where(code=True)}")

        return traces(*functions)(refused)

    return register


@_refuse(T.register_hook, T.register_post_accumulate_grad_hook)
def hook(*_):
    return (
        "register_hook while the model is traced: the device computes the gradients and cannot call Python: x * c + (x * (1 - "
        "c)).detach() is x with a gradient "
        "scaled by c, and outside tracing hooks work"
    )


@_refuse(T.retain_grad)
def retain_grad(input):
    if _is_traced(input):
        return (
            "retain_grad while the model is traced: the device keeps the gradients of parameters and outputs, as their sn_grad; "
            "of other tensors there are some outside tracing"
        )
    return None  # a parameter keeps its own


@_refuse(T.backward, torch.autograd.backward)
def backward(*_):
    return (
        "backward while the model is traced: the device computes the gradients of a loss that forward returns, and keeps no "
        ".grad of what is traced: torch.autograd.grad(outputs, inputs, create_graph=True) gives gradients as tensors of the model"
    )
