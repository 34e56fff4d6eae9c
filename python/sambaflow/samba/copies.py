# SPDX-License-Identifier: Apache-2.0
"""Copies and pickles of SambaTensors. torch's own would copy the wrapper's storage, which there is none;
what counts is the tensor it holds."""

import copy

import torch

from sambaflow import errors
from sambaflow.samba import _state as tracing
from sambaflow.samba import changed

_NOT_CARRIED = (
    "_held",
    "_value",
    "_trace",
    "_view",
    "_session",
    "_noted",
    "grad",
)  # nodes of a graph are nobody else's, and no session has traced a copy


def _state(tensor):
    return {key: value for key, value in tensor.__dict__.items() if key not in _NOT_CARRIED}


def rebuild(cls, held, shape, dtype, requires_grad, state):
    """The tensor again: over `held`, or of that shape and dtype without values."""
    from sambaflow.samba.sambatensor import make_wrapper

    made = make_wrapper(cls, held, shape, dtype)
    made.__dict__.update(state)
    return made.requires_grad_(requires_grad)


def reduced(tensor):
    """What pickle and copy.copy make it again of."""
    if tensor._value is not None and tracing.here.tracer is not None:
        raise errors.ArgumentTypeError("a tensor that is being traced cannot be pickled: it has no values")
    changed.read(tensor)
    parts = (
        type(tensor),
        tensor._held,
        tuple(tensor.shape),
        tensor.dtype,
        tensor.requires_grad and tensor.is_leaf,
        _state(tensor),
    )
    return rebuild, parts


def deep(tensor, memo):
    """copy.deepcopy as of a torch tensor: values, name, gradient; tensors over one memory stay so."""
    if id(tensor) in memo:
        return memo[id(tensor)]
    if tensor._value is not None and tracing.here.tracer is not None:
        return tensor.clone()
    if not tensor.is_leaf:
        raise errors.StateError(
            "a tensor that an operation made cannot be deep-copied while gradients are recorded: detach() it first"
        )
    changed.read(tensor)
    held = copy.deepcopy(tensor._held, memo)
    made = rebuild(type(tensor), held, tuple(tensor.shape), tensor.dtype, tensor.requires_grad, {})
    memo[id(tensor)] = made
    made.__dict__.update(copy.deepcopy(_state(tensor), memo))
    if tensor.grad is not None:
        made.grad = copy.deepcopy(tensor.grad, memo)
    return made


def allow_loading(*classes):
    """torch.load(weights_only=True), which is how torch loads, takes them too."""
    torch.serialization.add_safe_globals([rebuild, *classes])
