# SPDX-License-Identifier: Apache-2.0
"""What torch makes of functions. Derivatives of torch.func and forward mode become gradients inside the graph, and torch.vmap the
function once for each sample (rules/derivatives.py): torch's functions that wrap tensors are others while a model is traced. What
a graph cannot have, operators that take functions, such as torch.cond, is refused where it meets a tensor that only a run knows,
by the name that the user wrote. With values known while tracing, masks that torch.vmap makes and the like, they are torch's."""

import sys

import torch
import torch._functorch.apis
import torch._functorch.eager_transforms
import torch._functorch.vmap
import torch.autograd.forward_ad
import torch.autograd.functional

from sambaflow import errors
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
        "torch.func.grad, vjp and jacrev take apart what only torch.func has called while the model is traced: call it by its "
        "name in torch.func, or take torch.autograd.grad(outputs, inputs, create_graph=True)"
    ),
    "Jvp": (
        "dual tensors of torch.autograd.forward_ad that were made before the model was traced: make them in forward, by "
        "torch.func.jvp or forward_ad.make_dual"
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


class _Wrapped(UnsupportedError):
    """A function of torch.func has wrapped a tensor that the graph wants."""


def refuse_transform(t):
    """A function of torch.func has wrapped a tensor that the graph wants."""
    level = torch._C._functorch.peek_interpreter_stack()
    kind = str(level.key()).rpartition(".")[2] if level is not None else "Vmap"
    raise _Wrapped(f"{_TRANSFORMS.get(kind, _TRANSFORMS['Vmap'])}{t.where(code=True)}")


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


def _meets(*tensors):
    """The tracer where a tensor among them is one that only a run knows."""
    t = _state.here.tracer
    return t if t is not None and t.is_symbolic(tensors, {}) else None


def _either(torchs, ours, arguments):
    """Torch's function where all it meets is known, else ours: `arguments` are those that tell. A function may have tensors of
    the model beside its arguments, which torch finds when it has wrapped them."""

    def function(*args, **kwargs):
        t = _state.here.tracer
        if t is None:
            return torchs(*args, **kwargs)
        if not t.is_symbolic(arguments(*args, **kwargs), {}):
            try:
                return torchs(*args, **kwargs)
            except _Wrapped:
                pass
        return ours(t, *args, **kwargs)

    return function


def _derivatives():
    """What takes the place of torch's functions of functions: (module, name, function)."""
    from sambaflow.samba.rules import derivatives as rules

    of = torch._functorch.eager_transforms
    functional = torch.autograd.functional

    def looped(function, *args, **kwargs):
        t = _state.here.tracer
        if t is None:
            return of_vmap(function, *args, **kwargs)
        return rules.each(t, function, "torch.func.jacrev, jacfwd or hessian")

    def prepared(inputs, create_graph, need_graph):
        if (t := _meets(inputs)) is None:
            return prepare(inputs, create_graph, need_graph)
        return tuple(rules.variable(t, x) for x in inputs)

    of_vmap, prepare = of.vmap, functional._grad_preprocess

    def linearized(t, *_, **__):
        raise UnsupportedError(
            "torch.func.linearize, while the model is traced: it would fix the values that the function reads; torch.func.jvp "
            f"gives the tangent of each call{t.where(code=True)}"
        )

    yield of, "vmap", looped
    apis = torch._functorch.apis
    yield apis, "vmap_impl", _either(apis.vmap_impl, rules.vmap, lambda *args, **kwargs: (args[5:], kwargs))
    if hasattr(torch.func, "linearize"):
        yield torch.func, "linearize", _either(torch.func.linearize, linearized, lambda func, *primals: primals)
    yield functional, "_grad_preprocess", prepared
    yield (
        of,
        "grad_and_value_impl",
        _either(of.grad_and_value_impl, rules.grad_and_value, lambda func, argnums, has_aux, args, kwargs: (args, kwargs)),
    )
    yield (
        of,
        "_vjp_with_argnums",
        _either(
            of._vjp_with_argnums,
            lambda t, func, *primals, argnums=None, has_aux=False: rules.vjp(t, func, primals, argnums, has_aux),
            lambda func, *primals, **_: primals,
        ),
    )
    yield (
        of,
        "_jvp_with_argnums",
        _either(
            of._jvp_with_argnums,
            lambda t, func, primals, tangents, argnums, *, strict=False, has_aux=False: rules.jvp(
                t, func, primals, tangents, argnums, has_aux
            ),
            lambda func, primals, tangents, *_, **__: (primals, tangents),
        ),
    )


def _duals():
    """Dual tensors: what is made is a variable, whose tangent the tracer knows until its level ends."""
    from sambaflow.samba.rules import derivatives as rules

    forward = torch.autograd.forward_ad
    make, unpack, leave = forward.make_dual, forward.unpack_dual, forward.exit_dual_level

    def made(tensor, tangent, *, level=None):
        if (t := _meets(tensor, tangent)) is None:
            return make(tensor, tangent, level=level)
        level = forward._current_level if level is None else level
        if level < 0:
            raise errors.StateError(
                "make_dual: no level of forward mode exists: enter one by torch.autograd.forward_ad.dual_level()"
            )
        if tuple(tensor.shape) != tuple(tangent.shape):
            raise errors.StateError(f"make_dual: a tangent of {tuple(tangent.shape)} for a tensor of {tuple(tensor.shape)}")
        dual = rules.variable(t, tensor)
        t.duals.setdefault(level, []).append((dual, tangent))
        return dual

    def unpacked(tensor, *, level=None):
        t = _meets(tensor)
        if t is None:
            return unpack(tensor, level=level)
        pairs = t.duals.get(forward._current_level if level is None else level, [])
        tangent = rules.pushforward(t, [tensor], [x for x, _ in pairs], [v for _, v in pairs])[0] if pairs else None
        return forward.UnpackedDualTensor(tensor, tangent)

    def left(*, level=None):
        if _state.here.tracer is not None:
            _state.here.tracer.duals.pop(forward._current_level if level is None else level, None)
        return leave(level=level)

    yield forward, "make_dual", made
    yield forward, "unpack_dual", unpacked
    yield forward, "exit_dual_level", left


def put(stack):
    """In force while a model is traced: what would wrap or hide a traced tensor before a rule sees it says so."""
    vmap = torch._functorch.vmap
    batch = vmap._add_batch_dim
    flex = sys.modules.get("torch.nn.attention.flex_attention")
    validate = getattr(flex, "_validate_device", None)

    def batched(x, *where):
        if (t := _meets(x)) is not None:
            raise UnsupportedError(f"{_TRANSFORMS['Vmap']}{t.where(code=True)}")
        return batch(x, *where)

    def flexible(*tensors):
        if (t := _meets(*tensors)) is not None:
            raise UnsupportedError(
                "torch's operator flex_attention takes functions, which a graph cannot call: "
                f"{_OPERATORS['flex_attention']}{t.where(code=True)}"
            )
        return validate(*tensors)

    stack.enter_context(replaced(vmap, "_add_batch_dim", batched))
    for module, name, function in (*_derivatives(), *_duals()):
        stack.enter_context(replaced(module, name, function))
    if validate is not None:
        stack.enter_context(replaced(flex, "_validate_device", flexible))
