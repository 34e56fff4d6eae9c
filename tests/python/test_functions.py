# SPDX-License-Identifier: Apache-2.0
"""torch.autograd.Function in a model: the device's gradient is what its backward gives, as PyTorch's is, whatever its forward
does; what cannot be traced is refused for what it did."""

import math

import pytest
import torch
from models import Taker, beside_torch
from torch import nn

import sambaflow.samba as samba

Function = torch.autograd.Function


def function(forward, backward, setup_context=None):
    """A Function of those two."""
    parts = {"forward": staticmethod(forward), "backward": staticmethod(backward)}
    if setup_context is not None:
        parts["setup_context"] = staticmethod(setup_context)
    return type("Made", (Function,), parts)


class Straight(Function):
    """Rounds; a gradient goes through as it is."""

    @staticmethod
    def forward(ctx, x):
        return torch.round(x)

    @staticmethod
    def backward(ctx, grad):
        return grad


class Reverse(Function):
    """Of domain adaptation: itself, with a gradient reversed."""

    @staticmethod
    def forward(ctx, x, scale):
        ctx.scale = scale
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad):
        return -ctx.scale * grad, None


class Gelu(Function):
    """With a backward that is not its forward's derivative by far."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.nn.functional.gelu(x)

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * torch.sigmoid(1.702 * x) * 1.5


class Clipped(Function):
    """A gradient of a greatest norm: not linear in it."""

    @staticmethod
    def forward(ctx, x, greatest):
        ctx.greatest = greatest
        return x.clone()

    @staticmethod
    def backward(ctx, grad):
        norm = grad.norm()
        return grad * (ctx.greatest / norm.clamp(min=ctx.greatest)), None


class Product(Function):
    """Two inputs; computes the gradients that are needed, as the manual writes it."""

    @staticmethod
    def forward(ctx, x, weight, bias=None):
        ctx.save_for_backward(x, weight, bias)
        return x @ weight.t() + bias if bias is not None else x @ weight.t()

    @staticmethod
    def backward(ctx, grad):
        x, weight, bias = ctx.saved_tensors
        grad_x = grad @ weight if ctx.needs_input_grad[0] else None
        grad_weight = 2 * grad.t() @ x if ctx.needs_input_grad[1] else None
        grad_bias = grad.sum(0) if bias is not None and ctx.needs_input_grad[2] else None
        return grad_x, grad_weight, grad_bias


class Parts(Function):
    """Three outputs, one an index and one of another dtype, whose gradients meet in a product;
    a list's tensors are no arguments."""

    @staticmethod
    def forward(ctx, x, others):
        values, at = x.max(-1)
        ctx.save_for_backward(x, values)
        ctx.mark_non_differentiable(at)
        return values, at, (x * others[0]).sum(0, keepdim=True).double()

    @staticmethod
    def backward(ctx, of_values, of_at, of_sum):
        x, values = ctx.saved_tensors
        of_sum = of_sum.to(x.dtype)
        return x * of_values.unsqueeze(-1) * (1 + of_sum) + values.unsqueeze(-1) * of_sum, None


class Inner(Function):
    @staticmethod
    def forward(ctx, x):
        return torch.sign(x)

    @staticmethod
    def backward(ctx, grad):
        return grad * 7


class Outer(Function):
    """Calls others in forward, and in backward of the gradient."""

    @staticmethod
    def forward(ctx, x):
        y = Inner.apply(x) + x
        ctx.save_for_backward(x, y)
        return y * 2

    @staticmethod
    def backward(ctx, grad):
        x, y = ctx.saved_tensors
        return Inner.apply(grad) * Straight.apply(3 * x) + y


class Doubled(Function):
    """Writes into its argument and gives it."""

    @staticmethod
    def forward(ctx, x):
        ctx.mark_dirty(x)
        x.mul_(2)
        return x

    @staticmethod
    def backward(ctx, grad):
        return grad * 5


class Newer(Function):
    """With setup_context, and a vjp under its other name."""

    @staticmethod
    def forward(x, power=3):
        return x**power, x.abs()

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(inputs[0], output[0])
        ctx.power = inputs[1]

    @staticmethod
    def vjp(ctx, first, second):
        x, y = ctx.saved_tensors
        return first * ctx.power * y + second * torch.cos(x), None


class Broadcast(Function):
    """Leaves a gradient wider than its argument."""

    @staticmethod
    def forward(ctx, x, y):
        return x * y

    @staticmethod
    def backward(ctx, grad):
        return grad * 2, None


class Once(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(torch.exp(x))
        return torch.exp(x)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad):
        return grad * ctx.saved_tensors[0].clamp(max=1)


class Unasked(Function):
    """Gets None for outputs that nobody used."""

    @staticmethod
    def forward(ctx, x):
        ctx.set_materialize_grads(False)
        return x * 2, x * 3

    @staticmethod
    def backward(ctx, one, other):
        return (one if one is not None else 0) + (other * 10 if other is not None else 0)


kept_since_import = Straight.apply


def lin():
    return nn.Linear(3, 3)


CASES = {
    "straight through": lambda m, x: Straight.apply(3 * m.a(x)).square().mean(),
    "bound long ago": lambda m, x: kept_since_import(3 * m.a(x)).square().mean(),
    "reversed": lambda m, x: m.b(Reverse.apply(m.a(x), 0.7)).square().mean(),
    "gelu": lambda m, x: m.b(Gelu.apply(m.a(x))).square().mean(),
    "clipped": lambda m, x: Clipped.apply(m.b(Clipped.apply(m.a(x), 0.01)), 1000.0).square().mean(),
    "product": lambda m, x: Product.apply(m.a(x), m.b.weight, m.b.bias).square().mean(),
    "product of an input": lambda m, x: Product.apply(x, m.b.weight).square().mean() + m.a(x).mean(),
    "product with a frozen one": lambda m, x: (
        Product.apply(m.a(x), m.b.weight.detach(), m.b.bias).square().mean() + m.b(x).mean()
    ),
    "one tensor twice": lambda m, x: Product.apply(m.a.weight, m.a.weight).square().mean() + m.a(x).mean(),
    "several outputs": lambda m, x: (lambda v, i, s: (v * i).mean() + m.b(s.to(x.dtype)).square().mean() + v.square().mean())(
        *Parts.apply(m.a(x), [m.b(x)])
    ),
    "one of several outputs": lambda m, x: Parts.apply(m.a(x), [x])[0].square().mean() + m.b(x).mean(),
    "nested": lambda m, x: m.b(Outer.apply(m.a(x))).square().mean(),
    "one behind the other": lambda m, x: Outer.apply(Gelu.apply(Straight.apply(m.a(x)))).mean(),
    "the same twice": lambda m, x: (Gelu.apply(m.a(x)) * Gelu.apply(m.a(x))).mean(),
    "two of one value": lambda m, x: (
        lambda h: (Straight.apply(h * 4) * 3 + function(lambda ctx, x: torch.round(x), lambda ctx, g: -g * g).apply(h * 4)).mean()
    )(m.a(x)),
    "written into": lambda m, x: (lambda h: (Doubled.apply(h) + h).square().mean())(m.a(x) * 1),
    "setup_context": lambda m, x: (lambda p, q: (p * q).mean())(*Newer.apply(m.a(x))),
    "setup_context by name": lambda m, x: Newer.apply(m.a(x), power=2)[0].mean(),
    "broadcast": lambda m, x: Broadcast.apply(m.a.bias, m.b(x)).square().mean() + m.b(x).mean(),
    "once differentiable": lambda m, x: Once.apply(m.a(x)).mean(),
    "unasked": lambda m, x: Unasked.apply(m.a(x))[1].square().mean(),
    "under no_grad": lambda m, x: under_no_grad(m, x),
    "of no gradients": lambda m, x: Gelu.apply(x).mean() + m.a(x).mean(),
    "no gradient for it": lambda m, x: (
        function(lambda ctx, x: x * 2, lambda ctx, g: None).apply(m.a(x)).mean() + m.a(x).square().mean()
    ),
    "recomputes": lambda m, x: Recomputed.apply(m.a(x)).square().mean(),
    "an output that is the argument": lambda m, x: (
        lambda h: (function(lambda ctx, x: x, lambda ctx, g: g * 11).apply(h) * h).mean()
    )(m.a(x)),
    "sizes": lambda m, x: (
        function(lambda ctx, x: setattr(ctx, "sizes", x.shape) or x.sum(0), lambda ctx, g: g.expand(ctx.sizes) * 2)
        .apply(m.a(x))
        .square()
        .mean()
    ),
    "saved for later": lambda m, x: (
        function(lambda ctx, x: setattr(ctx, "held", x.detach() + 1) or x.tanh(), lambda ctx, g: g * ctx.held)
        .apply(m.a(x))
        .square()
        .mean()
    ),
}


class Recomputed(Function):
    """Differentiates its own forward in backward, which a graph cannot: what forward gives by itself is the same."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.sin(x)

    @staticmethod
    def backward(ctx, grad):
        with torch.enable_grad():
            x = ctx.saved_tensors[0].detach().requires_grad_()
            return torch.autograd.grad(torch.sin(x), x, grad)[0]


def under_no_grad(m, x):
    with torch.no_grad():
        fixed = Gelu.apply(m.a(x))
    return (m.b(x) * fixed).mean() + m.a(x).mean()


@pytest.mark.parametrize("case", CASES)
def test_gradient_is_its_backwards(case, tmp_path):
    beside_torch(tmp_path, Taker(CASES[case], a=lin(), b=lin()), (torch.randn(6, 3),))


def test_of_many_inputs(tmp_path):
    """As a Function of a list of tensors takes them."""
    summed = function(lambda ctx, *several: torch.stack(several).sum(0), lambda ctx, g: tuple(g * i for i in range(40)))
    beside_torch(
        tmp_path,
        Taker(lambda m, x: summed.apply(*[m.a(x) * i for i in range(40)]).square().mean() / 1000, a=lin()),
        (torch.randn(6, 3),),
    )


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
def test_of_other_dtypes(dtype, tmp_path):
    model = Taker(lambda m, x: m.b(Gelu.apply(Straight.apply(m.a(x) * 4))).float().square().mean(), a=lin(), b=lin()).to(dtype)
    beside_torch(tmp_path, model, (torch.randn(6, 3).to(dtype),))


def test_mixed_precision(tmp_path):
    """Its inputs are rounded where the operators before it have rounded; the gradient is still its own."""
    torch.manual_seed(0)
    model = Taker(lambda m, x: m.b(Straight.apply(m.a(x) * 4)).square().mean(), a=nn.Linear(16, 16), b=nn.Linear(16, 16))
    x = torch.randn(32, 16)
    loss = model(x)
    loss.backward()
    wanted = model.a.weight.grad.clone()
    samba.from_torch_model_(model)
    given = (samba.from_torch_tensor(x, name="x"),)
    pef = samba.session.compile(
        model, given, samba.optim.SGD(model.parameters(), lr=0.0), loss_indices=[0], precision="bf16", output_folder=str(tmp_path)
    )
    outputs = samba.utils.trace_graph(model, given, pef=pef, loss_indices=[0])
    samba.session.run(given, outputs)
    got = samba.session.device_get("a.weight.grad")
    assert torch.nn.functional.cosine_similarity(got.flatten(), wanted.flatten(), 0) > 0.98


def test_accumulated(tmp_path):
    """Gradients of several runs add up before a step."""
    model = Taker(lambda m, x: Gelu.apply(m.a(x)).square().mean(), a=lin())
    x = torch.randn(6, 3)
    model(x).backward()
    wanted = model.a.weight.grad.clone()
    samba.from_torch_model_(model)
    given = (samba.from_torch_tensor(x, name="x"),)
    pef = samba.session.compile(
        model,
        given,
        samba.optim.SGD(model.parameters(), lr=0.0),
        loss_indices=[0],
        grad_accumulation_steps=2,
        output_folder=str(tmp_path),
    )
    outputs = samba.utils.trace_graph(model, given, pef=pef, loss_indices=[0])
    for _ in range(2):
        samba.session.run(given, outputs, section_types=["FWD", "BCKWD"])
    torch.testing.assert_close(samba.session.device_get("a.weight.grad"), wanted, rtol=1e-4, atol=1e-6)


def test_inference_is_forward_alone(tmp_path):
    model = samba.from_torch_model(Taker(lambda m, x: Outer.apply(m.a(x)), a=lin()))
    x = samba.randn(6, 3, name="x")
    wanted = torch.sign(model.a(x).torch()) * 2 + model.a(x).torch() * 2
    pef = samba.session.compile(model, (x,), inference=True, output_folder=str(tmp_path))
    (y,) = samba.session.run((x,), samba.utils.trace_graph(model, (x,), pef=pef))
    torch.testing.assert_close(y.torch(), wanted.detach())


def leaks():
    kept = []
    return lambda ctx, x: x * 2, lambda ctx, g: kept.append(g) or g, kept


class Leaky(Function):
    kept = []

    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        Leaky.kept.append(grad)
        return grad


REFUSED = {
    "decides by a value": (
        lambda m, x: function(lambda ctx, x: x * 2, lambda ctx, g: g if g.sum() > 0 else -g).apply(m.a(x)).mean(),
        "backward of Made.* bool.*test_functions.py",
    ),
    "asks for a number": (
        lambda m, x: function(lambda ctx, x: x * 2, lambda ctx, g: g * g.norm().item()).apply(m.a(x)).mean(),
        "backward of Made.*item",
    ),
    "calls NumPy": (
        lambda m, x: function(lambda ctx, x: x * 2, lambda ctx, g: torch.from_numpy(g.numpy() * 3)).apply(m.a(x)).mean(),
        "backward of Made.*numpy",
    ),
    "forward calls NumPy": (
        lambda m, x: function(lambda ctx, x: torch.from_numpy(x.numpy() * 2), lambda ctx, g: g).apply(m.a(x)).mean(),
        r"numpy\(\) asks",
    ),
    "too few": (
        lambda m, x: function(lambda ctx, x, y: x * y, lambda ctx, g: g).apply(m.a(x), x).mean(),
        "returned 1 gradients for 2 arguments",
    ),
    "too many": (
        lambda m, x: function(lambda ctx, x: x * 2, lambda ctx, g: (g, g)).apply(m.a(x)).mean(),
        "returned 2 gradients for 1 arguments",
    ),
    "another shape": (
        lambda m, x: function(lambda ctx, x: x * 2, lambda ctx, g: g[:2]).apply(m.a(x)).mean(),
        r"gradient of \(2, 3\) for argument 0 of \(6, 3\)",
    ),
    "no tensor": (
        lambda m, x: function(lambda ctx, x: x * 2, lambda ctx, g: 3.0).apply(m.a(x)).mean(),
        "returned a float for argument 0",
    ),
    "integers": (
        lambda m, x: function(lambda ctx, x: x * 2, lambda ctx, g: g.long()).apply(m.a(x)).mean(),
        "expected a floating-point gradient",
    ),
    "no backward": (
        lambda m, x: type("Bare", (Function,), {"forward": staticmethod(lambda ctx, x: x * 2)}).apply(m.a(x)).mean(),
        "Bare is a torch.autograd.Function without a backward",
    ),
    "by name": (lambda m, x: Reverse.apply(m.a(x), scale=1.0).mean(), "takes no arguments by name, given scale"),
    "a gradient as an output": (lambda m, x: (Leaky.apply(m.a(x)).mean(), Leaky.kept.pop()), "output depends on a grad_output"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refusals(case, tmp_path):
    forward, words = REFUSED[case]
    model = samba.from_torch_model(Taker(forward, a=lin()))
    with pytest.raises(Exception, match=words):
        samba.session.compile(
            model,
            (samba.randn(6, 3, name="x"),),
            samba.optim.SGD(model.parameters(), lr=0.1),
            loss_indices=[0],
            output_folder=str(tmp_path),
        )


def test_outside_tracing_it_is_torchs():
    """Also after a trace."""
    x = torch.randn(4, requires_grad=True)
    Straight.apply(x * 3).sum().backward()
    assert torch.equal(x.grad, torch.full((4,), 3.0)) and math.isfinite(kept_since_import(x).sum().item())
