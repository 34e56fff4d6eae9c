# SPDX-License-Identifier: Apache-2.0
"""torch.autograd.Function while a model is traced: its forward is traced as autograd runs it, without gradients, then its
backward, of a value that stands for the gradient that will come in. The graph has both (samba_custom_gradient): the device's
gradient is what backward says, whatever forward does.

Backward is differentiated in its turn by torch.autograd.grad(create_graph=True). A Function inside of one is what its forward
does there.

Several outputs are one value for the graph, side by side in one line, because backward is one function of all their gradients.
Where backward cannot be traced, and differentiating forward gives what it gives, forward is traced like any function.
Checkpointing is what it wraps: what is kept is the compiler's choice."""

import inspect
import types

import torch

from sambaflow import errors
from sambaflow._core import lib
from sambaflow.errors import SambaError, UnsupportedError
from sambaflow.samba import _state
from sambaflow.samba.patches import replaced
from sambaflow.samba.views import write

_function = torch.autograd.Function
_classmethod = _function.apply.__func__  # what programs have may be bound to it since long: `gelu = GELU.apply`
_torchs_code = _classmethod.__code__
_once_code = torch.autograd.function.once_differentiable(lambda: None).__code__
_apply_torch = types.FunctionType(_torchs_code, _classmethod.__globals__, "apply", None, _classmethod.__closure__)


class _Class:
    """For code with the cell that torch's has."""

    @classmethod
    def apply(cls, *args, **kwargs):
        from sambaflow.samba.functions import apply

        return apply(cls, args, kwargs) if __class__ else None


class Context(torch.autograd.function.FunctionCtx):
    """What forward, setup_context and backward are given."""

    saved = ()
    non_differentiable = dirty_tensors = ()
    materialize_grads = True

    def __init__(self, needs):
        self.needs_input_grad = needs

    def save_for_backward(self, *tensors):
        self.saved = tensors

    def mark_non_differentiable(self, *tensors):
        self.non_differentiable = tensors

    def mark_dirty(self, *tensors):
        self.dirty_tensors = tensors

    @property
    def saved_tensors(self):
        return self.saved


def put(stack):
    """While a model is traced, Function.apply, and what was bound to it before, comes here."""
    stack.enter_context(replaced(_classmethod, "__code__", _Class.apply.__func__.__code__))


def apply(cls, args, kwargs):
    """torch.autograd.Function.apply."""
    t = _state.here.tracer
    if t is not None and cls.__module__ == "torch.utils.checkpoint":
        return args[0](*args[2:])
    if t is None or not t.is_symbolic(args, kwargs):
        return _apply_torch(cls, *args, **kwargs)
    if cls.setup_context is not _function.setup_context:  # whose inputs have the defaults, too
        args, kwargs = _in_order(cls.forward, args, kwargs)
    if kwargs:
        raise errors.ArgumentTypeError(
            f"{cls.__qualname__}.apply takes no arguments by name, given {', '.join(kwargs)}{t.where()}"
        )
    try:
        return _both(t, cls, args)
    except SambaError as error:
        if isinstance(error, UnsupportedError) and getattr(error, "_of_backward", False) and _differentiates_itself(cls, args):
            return _forward(cls, Context(()), args)
        raise


def _in_order(forward, args, kwargs):
    bound = inspect.signature(forward).bind(*args, **kwargs)
    bound.apply_defaults()
    return bound.args, bound.kwargs


def _forward(cls, context, args):
    if cls.setup_context is _function.setup_context:
        return cls.forward(context, *args)
    result = cls.forward(*args)
    cls.setup_context(context, args, result)
    return result


def _is(x, several):
    return any(x is y for y in several)


def _both(t, cls, args):
    """Forward and backward in the graph; what forward gives, with backward's gradients."""
    enabled = torch.is_grad_enabled() if t.grad is None else t.grad
    needs = tuple(isinstance(x, torch.Tensor) and enabled and x.dtype.is_floating_point and bool(x.requires_grad) for x in args)
    context = Context(needs)
    before = [t.value(x) if need else None for x, need in zip(args, needs)]  # forward may write into them
    with torch.set_grad_enabled(t.in_backward and not any(needs)):
        result = _forward(cls, context, args)
    if not any(needs):
        return result
    outputs = list(result) if isinstance(result, (tuple, list)) else [result]
    smooth = [
        isinstance(y, torch.Tensor) and y.dtype.is_floating_point and not _is(y, context.non_differentiable) for y in outputs
    ]
    if not any(smooth):
        return result
    ways = [y for y, is_smooth in zip(outputs, smooth) if is_smooth]
    whole = _joined(t, ways)
    if len(ways) > 1:  # what backward reads of them is then a part of what the custom gradient is of
        for y, part in zip(ways, _parted(t, whole, ways)):
            if not _is(y, args):
                y._value = part._value
    incoming = lib.samba_grad_output(whole)
    gradients = _backward(t, cls, context, args, outputs, iter(_parted(t, incoming, ways)), smooth)
    pairs = [(x, t.value(g)) for x, g in zip(before, gradients) if x is not None and g is not None]
    if pairs:
        whole = lib.samba_custom_gradient(whole, incoming, len(pairs), [x for x, _ in pairs], [g for _, g in pairs])
    else:
        whole = lib.samba_detach(whole)
    t.check()
    if getattr(cls.backward, "__code__", None) is _once_code:
        t.once[whole.index] = cls.__qualname__
    made = iter(_parted(t, whole, ways))
    outputs = [_result(t, y, next(made) if is_smooth else y, args, context) for y, is_smooth in zip(outputs, smooth)]
    return (
        type(result)(outputs)
        if type(result) in (tuple, list)
        else tuple(outputs)
        if isinstance(result, (tuple, list))
        else outputs[0]
    )


def _result(t, y, made, args, context):
    """What stands for an output: itself, where forward has written into an argument and gives that."""
    if made is not y and _is(y, context.dirty_tensors) and _is(y, args):
        write(t, y, t.value(made))
        return y
    return made


def _joined(t, tensors):
    """The samba_value of one tensor as it is; of several a line with all their elements."""
    if len(tensors) == 1:
        return t.value(tensors[0])
    return lib.samba_concat(len(tensors), [lib.samba_reshape(t.value(x), 1, [-1]) for x in tensors], 0)


def _parted(t, value, tensors):
    """The way back: traced tensors like those, of one value."""
    if len(tensors) == 1:
        return [t.wrap(value)]
    parts, begin = [], 0
    for x in tensors:
        shape = list(x.shape)
        part = lib.samba_reshape(lib.samba_narrow(value, 0, begin, x.numel()), len(shape), shape)
        parts.append(t.wrap(lib.samba_cast(part, lib.samba_value_dtype(t.value(x)))))
        begin += x.numel()
    return parts


def _backward(t, cls, context, args, outputs, incoming, smooth):
    """The gradients that backward gives for the arguments that want one, traced; None for others."""
    given = []
    for y, is_smooth in zip(outputs, smooth):
        nothing = not isinstance(y, torch.Tensor) or not context.materialize_grads
        given.append(
            next(incoming)
            if is_smooth
            else None
            if nothing
            else torch.zeros(tuple(y.shape), dtype=y.dtype if y.dtype.is_floating_point else torch.float32)
        )
    backward = cls.backward if cls.backward is not _function.backward else cls.vjp
    if backward in (_function.backward, _function.vjp):
        raise UnsupportedError(
            f"{cls.__qualname__} is a torch.autograd.Function without a backward: give it one, or call what it does on "
            f"x.detach(){t.where()}"
        )
    before, t.in_backward = t.in_backward, True
    try:
        with torch.enable_grad():  # a gradient inside the model differentiates backward in its turn
            gradients = backward(context, *given)
    except UnsupportedError as error:
        refused = UnsupportedError(
            f"the backward of {cls.__qualname__}, a torch.autograd.Function, cannot be traced: {error}{t.where()}"
        )
        refused._of_backward = True
        raise refused from error
    finally:
        t.in_backward = before
    gradients = list(gradients) if isinstance(gradients, (tuple, list)) else [gradients]
    if len(gradients) < len(args) or any(g is not None for g in gradients[len(args) :]):
        raise errors.ArgumentTypeError(
            f"the backward of {cls.__qualname__} returned {len(gradients)} gradients for {len(args)} arguments of forward: one "
            f"each, None where there is none{t.where()}"
        )
    return [
        _fitting(t, cls, i, x, g) if need and g is not None else None
        for i, (x, g, need) in enumerate(zip(args, gradients, context.needs_input_grad))
    ]


def _fitting(t, cls, i, x, g):
    """A gradient of its argument's shape, as autograd sums it where backward left a broadcast."""
    if not isinstance(g, torch.Tensor):
        raise errors.ArgumentTypeError(
            f"the backward of {cls.__qualname__} returned a {type(g).__name__} for argument {i}: expected a tensor "
            f"or None{t.where()}"
        )
    if not g.dtype.is_floating_point:
        raise errors.ArgumentTypeError(
            f"the backward of {cls.__qualname__} returned {g.dtype} for argument {i}: expected a floating-point "
            f"gradient{t.where()}"
        )
    if g.shape == x.shape:
        return g
    try:
        with torch.no_grad():
            return torch.Tensor.sum_to_size(g, tuple(x.shape))
    except Exception:
        raise UnsupportedError(
            f"the backward of {cls.__qualname__} returned a gradient of {tuple(g.shape)} for argument {i} of "
            f"{tuple(x.shape)}{t.where()}"
        ) from None


def _differentiates_itself(cls, args):
    """Whether a Function's backward, which cannot be traced, is what differentiating its forward gives:
    asked at random values, in float64."""

    def drawn(x):
        if not isinstance(x, torch.Tensor):
            return x
        return (
            torch.randn(x.shape, dtype=torch.float64, generator=generator).requires_grad_()
            if x.is_floating_point()
            else torch.zeros(x.shape, dtype=x.dtype)
        )

    tracer, _state.here.tracer = _state.here.tracer, None
    generator, gradients = torch.Generator().manual_seed(0), []
    try:
        with torch._C.DisableTorchFunction(), torch.enable_grad():
            values = [drawn(x) for x in args]
            inputs = [x for x in values if isinstance(x, torch.Tensor) and x.requires_grad]
            for call in (lambda: _forward(cls, Context((True,) * len(args)), values), lambda: _apply_torch(cls, *values)):
                result = call()
                weights = torch.randn(result.shape, dtype=result.dtype, generator=torch.Generator().manual_seed(1))
                gradients.append(torch.autograd.grad((result * weights).sum(), inputs))
        return all(torch.allclose(a, b, rtol=1e-4, atol=1e-6) for a, b in zip(*gradients))
    except Exception:  # whatever it is, it says that this cannot be known
        return False
    finally:
        _state.here.tracer = tracer
