# SPDX-License-Identifier: Apache-2.0
"""What torch makes of functions, conversions of modules inside forward, and nn.init there: traced as torch means them, or refused
in the library's words with the module and the line. Derivatives have tests of their own (test_derivatives.py)."""

import pytest
import torch
import torch._dynamo  # which torch.cond asks for; where it is loaded, it is told not to compile while a model is traced
from models import Taker, beside_torch
from torch import nn
from torch._higher_order_ops.associative_scan import associative_scan
from torch.nn.attention.flex_attention import flex_attention

import sambaflow.samba as samba


def looped(m, x):
    from torch._higher_order_ops.while_loop import while_loop

    return while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, a * 2), (torch.tensor(0), m.a(x)))[1]


def flexible(m, x):
    return flex_attention(*[m.a(x)[None, None]] * 3)


REFUSED = {
    "linearize": (lambda m, x: torch.func.linearize(lambda a: m.a(a).sin(), x)[1](x), "torch.func.linearize.*torch.func.jvp"),
    "functionalize": (
        lambda m, x: torch.func.functionalize(lambda a: m.a(a).sin())(x),
        "functionalize, while the model is traced: call the function itself",
    ),
    "vmap": (lambda m, x: torch.vmap(m.a)(x.repeat(300, 1)), "torch.vmap over .* samples"),
    "cond": (
        lambda m, x: torch.cond(x.sum() > 0, lambda a: m.a(a).sin(), lambda a: m.a(a).cos(), (x,)),
        r"operator cond takes functions.*torch.where",
    ),
    "while_loop": (looped, "operator while_loop takes functions"),
    "map": (lambda m, x: torch._higher_order_ops.map(lambda a: m.a(a).sin(), x), "operator map takes functions"),
    "flex_attention": (flexible, "operator flex_attention takes functions.*scaled_dot_product_attention"),
    "another shape": (lambda m, x: m.a._apply(lambda t: t[:2])(x), r"a conversion of Linear in forward .* makes \(2, 4\)"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals(name, tmp_path):
    function, words = REFUSED[name]
    model = samba.from_torch_model(Taker(function, a=nn.Linear(4, 4)))
    with pytest.raises(NotImplementedError, match=rf"{words}.* \(in .*test_transforms.py:\d+"):
        samba.session.compile(model, (samba.randn(2, 4, name="x"),), inference=True, output_folder=str(tmp_path))
    assert torch.func.jvp(torch.sin, (torch.zeros(2),), (torch.ones(2),))[1].tolist() == [
        1,
        1,
    ]  # outside tracing all of it is torch's


def converted(m, x):
    """As transformers' router of switch transformers does it."""
    m.a = m.a.to(m.a.weight.dtype)
    m.to(torch.get_default_dtype() if m.a.weight.dtype is torch.float32 else m.a.weight.dtype).cpu()
    return m.norm(m.a(x)).square().mean()


def test_a_conversion_that_changes_nothing(tmp_path):
    model = Taker(converted, a=nn.Linear(4, 4), norm=nn.BatchNorm1d(4))
    beside_torch(tmp_path, model, (torch.randn(6, 4),))
    assert type(model.a.weight) is samba.SambaParameter or isinstance(model.a.weight, nn.Parameter)


def test_a_conversion_to_another_dtype(tmp_path):
    """The rest of forward has the cast; the device, and the module when the trace is over, have what they had."""
    model = Taker(
        lambda m, x: m.a.bfloat16()(x.bfloat16()).float().square().mean() + m.norm.double()(x.double()).float().mean(),
        a=nn.Linear(4, 4),
        norm=nn.BatchNorm1d(4).eval(),
    )
    x = torch.randn(6, 4)
    weight = model.a.weight.detach().clone().requires_grad_()
    nn.functional.linear(x.bfloat16(), weight.bfloat16(), model.a.bias.detach().bfloat16()).float().square().mean().backward()
    samba.from_torch_model_(model)
    given = (samba.from_torch_tensor(x, name="x"),)
    pef = samba.session.compile(
        model, given, samba.optim.SGD(model.parameters(), lr=0.1), loss_indices=[0], output_folder=str(tmp_path)
    )
    outputs = samba.utils.trace_graph(model, given, pef=pef, loss_indices=[0])
    assert model.a.weight.dtype is torch.float32 and model.norm.running_mean.dtype is torch.float32
    samba.session.run(given, outputs)
    torch.testing.assert_close(samba.session.device_get("a.weight.grad"), weight.grad, rtol=2e-2, atol=1e-3)


CHOSEN = {
    "a known condition": lambda m, x: torch.cond(torch.tensor(True), lambda a: m.a(a).sin(), lambda a: m.a(a).cos(), (x,)).mean(),
    "init of a traced tensor": lambda m, x: (lambda h: (nn.init.constant_(h, 3.0) + m.a(x)).square().mean())(m.a(x) * 1),
    "init of memory made here": lambda m, x: (
        (nn.init.eye_(torch.empty(6, 4)) + nn.init.constant_(torch.empty(6, 4), 2.0) + m.a(x)).square().mean()
    ),
    "vmap": lambda m, x: torch.vmap(lambda row: m.a(row).square().sum())(x).mean(),
    "associative_scan": lambda m, x: associative_scan(lambda a, b: a * b, m.a(x), 0, combine_mode="generic").square().mean(),
    "functional_call": lambda m, x: torch.func.functional_call(m.a, dict(m.a.named_parameters()), (x,)).square().mean(),
}


@pytest.mark.parametrize("name", CHOSEN)
def test_traced(name, tmp_path):
    beside_torch(tmp_path, Taker(CHOSEN[name], a=nn.Linear(4, 4)), (torch.randn(6, 4),))


DRAWS = {
    "normal_": (lambda: nn.init.normal_(torch.empty(200, 200), 1.0, 2.0), 1, 2),
    "uniform_": (lambda: nn.init.uniform_(torch.empty(200, 200), 0.0, 2.0), 1, 3**-0.5),
    "xavier_normal_": (lambda: nn.init.xavier_normal_(torch.empty(200, 200)), 0, 200**-0.5),
    "kaiming_uniform_": (lambda: nn.init.kaiming_uniform_(torch.empty(200, 200)), 0, 0.1),
}


@pytest.mark.parametrize("name", DRAWS)
def test_init_draws_as_its_methods_do(name, tmp_path):
    """New numbers each run, of the mean and spread that it says, within five standard errors."""
    draw, mean, deviation = DRAWS[name]
    model = Taker(lambda m, x: draw() + x)
    given = (samba.zeros(200, 200, name="x"),)
    pef = samba.session.compile(model, given, inference=True, output_folder=str(tmp_path))
    outputs = samba.utils.trace_graph(model, given, pef=pef)
    one, other = (samba.session.run(given, outputs)[0].torch() for _ in range(2))
    assert not torch.equal(one, other)
    assert abs(one.mean() - mean) < 5 * deviation / 200 and abs(one.std() - deviation) < 5 * deviation / 200


def test_a_hidden_draw_keeps_the_gradient(tmp_path):
    """h.uniform_() under no_grad: autograd does not see it, so the gradient goes on to what h was made of, as in torch."""

    def forward(m, x):
        h = m.a(x) * 1
        with torch.no_grad():
            h.uniform_(2, 2 + 1e-6)
        return h.square().mean()

    model = Taker(forward, a=nn.Linear(4, 4))
    x = torch.randn(6, 4)
    model(x).backward()
    wanted = model.a.weight.grad.clone()
    samba.from_torch_model_(model)
    given = (samba.from_torch_tensor(x, name="x"),)
    pef = samba.session.compile(
        model, given, samba.optim.SGD(model.parameters(), lr=0.1), loss_indices=[0], output_folder=str(tmp_path)
    )
    samba.session.run(given, samba.utils.trace_graph(model, given, pef=pef, loss_indices=[0]))
    torch.testing.assert_close(samba.session.device_get("a.weight.grad"), wanted, rtol=1e-5, atol=1e-6)
