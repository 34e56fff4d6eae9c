# SPDX-License-Identifier: Apache-2.0
"""What torch makes of functions, and a graph cannot have: the transforms of torch.func, forward-mode derivatives, and operators
that take functions, such as torch.cond. Each is refused where it meets a tensor that only a run knows, by the name that the user
wrote. With values known while tracing, masks that torch.vmap makes and the like, they are torch's."""

import sys

import torch
import torch._functorch.vmap
import torch.autograd.forward_ad

from sambaflow.errors import UnsupportedError
from sambaflow.samba import _state
from sambaflow.samba.patches import replaced

_TRANSFORMS = {
    "Vmap": (
        "torch.vmap, and what else torch.func makes of functions, cannot be traced where tensors of the model come in: write the "
        "batch dim out, by broadcasting, "
        "torch.bmm or torch.einsum"
    ),
    "Grad": (
        "torch.func.grad, vjp, jacrev and their like cannot be traced where the function has tensors of the model beside its "
        "arguments: the gradients are computed when the "
        "forward pass is known, so it cannot contain one; write the derivative out as a formula"
    ),
    "Jvp": (
        "torch.func.jvp, jacfwd, linearize and forward-mode derivatives (torch.autograd.forward_ad), while the model is traced: "
        "a graph differentiates backwards, when the "
        "forward pass is known; write the derivative out as a formula"
    ),
    "Functionalize": (
        "torch.func.functionalize, while the model is traced: call the function itself, tracing takes its writes as they are"
    ),
}
_OPERATORS = {
    "cond": (
        "both branches would have to be in the graph: torch.where(condition, a, b) chooses between results, and a condition that "
        "is known before needs no operator"
    ),
    "while_loop": "how often it goes round depends on values: write a loop of a fixed count, and torch.where for what has ended",
    "map_impl": "write the loop out, or the batch dim, by broadcasting, torch.bmm or torch.einsum",
    "scan": "write the loop out over the dim, which tracing unrolls, or use cumsum, cumprod and their like",
    "associative_scan": "write the loop out over the dim, which tracing unrolls, or use cumsum, cumprod and their like",
    "flex_attention": (
        "torch.nn.functional.scaled_dot_product_attention takes the mask, or what is added to the scores, as attn_mask"
    ),
}


def refuse_transform(t):
    """A function of torch.func has wrapped a tensor that the graph wants."""
    level = torch._C._functorch.peek_interpreter_stack()
    kind = str(level.key()).rpartition(".")[2] if level is not None else "Vmap"
    raise UnsupportedError(f"{_TRANSFORMS.get(kind, _TRANSFORMS['Vmap'])}{t.where(code=True)}")


def is_operator(func):
    """Whether it takes functions, as torch.cond does."""
    return isinstance(func, torch._ops.HigherOrderOperator)


def operator(t, func, args, kwargs):
    """One of those on a tensor that only a run knows. Only torch.cond has a meaning then, where its condition is known."""
    name = func.name()
    if name == "cond" and len(args) == 4 and not t.is_symbolic((args[0],), {}):
        return (args[1] if bool(args[0]) else args[2])(*args[3])
    why = _OPERATORS.get(name, "write out what it does of torch functions")
    called = {"map_impl": "map"}.get(name, name)
    raise UnsupportedError(f"torch's operator {called} takes functions, which a graph cannot call: {why}{t.where(code=True)}")


def put(stack):
    """In force while a model is traced: what would wrap or hide a traced tensor before a rule sees it says so."""
    vmap, forward = torch._functorch.vmap, torch.autograd.forward_ad
    batch, dual = vmap._add_batch_dim, forward.make_dual
    flex = sys.modules.get("torch.nn.attention.flex_attention")
    validate = getattr(flex, "_validate_device", None)

    def meets(*tensors):
        t = _state.here.tracer
        return t if t is not None and t.is_symbolic(tensors, {}) else None

    def batched(x, *where):
        if (t := meets(x)) is not None:
            raise UnsupportedError(f"{_TRANSFORMS['Vmap']}{t.where(code=True)}")
        return batch(x, *where)

    def made_dual(x, *args, **kwargs):
        if (t := meets(x, args, kwargs)) is not None:
            raise UnsupportedError(f"{_TRANSFORMS['Jvp']}{t.where(code=True)}")
        return dual(x, *args, **kwargs)

    def flexible(*tensors):
        if (t := meets(*tensors)) is not None:
            raise UnsupportedError(
                "torch's operator flex_attention takes functions, which a graph cannot call: "
                f"{_OPERATORS['flex_attention']}{t.where(code=True)}"
            )
        return validate(*tensors)

    stack.enter_context(replaced(vmap, "_add_batch_dim", batched))
    stack.enter_context(replaced(forward, "make_dual", made_dual))
    if validate is not None:
        stack.enter_context(replaced(flex, "_validate_device", flexible))
