# SPDX-License-Identifier: Apache-2.0
"""Gradients inside a traced model: torch.autograd.grad with create_graph in its loss, torch.func, torch.autograd.functional and
forward mode, through the usual layers. Losses and the gradients of those gradients are PyTorch's over some steps, whose CPU
kernels of attention have no second derivative: there its formula in parts stands beside ours."""

import copy
import os
import random

import pytest
import test_eager
import torch
import torch.nn.functional as F
from models import Taker, beside_torch
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from training import train

import sambaflow.samba as samba
from sambaflow.errors import UnsupportedError

grad = torch.autograd.grad
dual = torch.autograd.forward_ad


def asked(x):
    """A leaf of its own, as programs make one of an input."""
    return x.detach().requires_grad_()


def penalty(m, x):
    """Of WGAN-GP, of a critic m.net."""
    x = asked(x)
    y = m.net(x)
    (slope,) = grad(y.sum(), x, create_graph=True)
    return 10 * ((slope.flatten(1).norm(2, dim=1) - 1) ** 2).mean() + y.mean()


class Heads(nn.Module):
    """Attention by F.scaled_dot_product_attention, with fewer heads of keys, a trained mask, or keys of another length."""

    def __init__(self, causal=False, bias=False, cross=False, shared=False):
        super().__init__()
        self.q, self.k, self.v = nn.Linear(6, 8), nn.Linear(6, 4 if shared else 8), nn.Linear(6, 4 if shared else 8)
        self.bias = nn.Parameter(torch.randn(5, 5)) if bias else None
        self.causal, self.cross, self.shared = causal, cross, shared

    def forward(self, x):
        rows = x[:, :3] if self.cross else x
        q, k, v = (f(z).unflatten(2, (-1, 2)).transpose(1, 2) for f, z in ((self.q, x), (self.k, rows), (self.v, rows)))
        y = F.scaled_dot_product_attention(q, k, v, self.bias, is_causal=self.causal, enable_gqa=self.shared)
        return y.transpose(1, 2).flatten(1)


class Last(nn.Module):
    """The last output of a recurrent layer."""

    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def forward(self, x):
        return self.layer(x)[0][:, -1]


IMAGES, ROWS = (3, 2, 6, 6), (3, 5, 6)
NETS = {
    "leaky relu": (lambda: [nn.Conv2d(2, 4, 3, 2, 1), nn.LeakyReLU(0.2), nn.Conv2d(4, 3, 3, 1, 1), nn.LeakyReLU(0.2)], IMAGES),
    "instance norm": (lambda: [nn.Conv2d(2, 4, 3, 1, 1, dilation=1), nn.InstanceNorm2d(4, affine=True), nn.SiLU()], IMAGES),
    "batch norm": (lambda: [nn.Conv2d(2, 4, 3, 2, 1), nn.BatchNorm2d(4), nn.SiLU()], IMAGES),
    "batch norm that evaluates": (lambda: [nn.Conv2d(2, 4, 3, 2), nn.BatchNorm2d(4).eval(), nn.Mish()], IMAGES),
    "group norm": (lambda: [nn.Conv2d(2, 4, 3, 2, 2, dilation=2), nn.GroupNorm(2, 4), nn.GELU()], IMAGES),
    "layer norm": (lambda: [nn.Linear(6, 4), nn.LayerNorm(4), nn.GELU(approximate="tanh")], ROWS),
    "rms norm": (lambda: [nn.Linear(6, 4), nn.RMSNorm(4), nn.Hardswish()], ROWS),
    "transposed": (
        lambda: [nn.ConvTranspose2d(2, 4, 3, 2, 1, 1), nn.Softplus(), nn.Conv2d(4, 2, 3, groups=2), nn.Tanh()],
        IMAGES,
    ),
    "max pooling": (lambda: [nn.Conv2d(2, 4, 3, 1, 1), nn.Tanh(), nn.MaxPool2d(3, 2, 1), nn.SiLU()], IMAGES),
    "average pooling": (
        lambda: [nn.Conv2d(2, 3, 3), nn.Tanh(), nn.AvgPool2d(3, 1, 1, False, False), nn.SiLU(), nn.AdaptiveAvgPool2d(3)],
        IMAGES,
    ),
    "upsampling": (
        lambda: [nn.Conv2d(2, 3, 3, 2, 1), nn.Tanh(), nn.Upsample(scale_factor=2, mode="bilinear"), nn.SiLU()],
        IMAGES,
    ),
    "one dim": (lambda: [nn.Conv1d(5, 4, 3, 1, 1), nn.Tanh(), nn.MaxPool1d(2), nn.ConvTranspose1d(4, 3, 2), nn.SiLU()], ROWS),
    "three dims": (
        lambda: [nn.Conv3d(2, 3, 2), nn.Tanh(), nn.MaxPool3d(2, 1), nn.ConvTranspose3d(3, 2, 2, 2), nn.ELU(), nn.AvgPool3d(2)],
        (2, 2, 3, 4, 4),
    ),
    "softmax": (lambda: [nn.Linear(6, 5), nn.Softmax(-1), nn.Linear(5, 5), nn.LogSoftmax(1)], ROWS),
    "attention": (lambda: [Heads()], ROWS),
    "causal attention": (lambda: [Heads(causal=True)], ROWS),
    "attention with a bias": (lambda: [Heads(bias=True)], ROWS),
    "cross attention, shared heads": (lambda: [Heads(cross=True, shared=True)], ROWS),
    "an encoder": (lambda: [nn.TransformerEncoderLayer(6, 2, 8, dropout=0.0, batch_first=True, activation="gelu")], ROWS),
    "LSTM": (lambda: [Last(nn.LSTM(6, 4, batch_first=True))], ROWS),
    "GRU": (lambda: [Last(nn.GRU(6, 4, batch_first=True))], ROWS),
    "others": (
        lambda: [nn.Linear(6, 6), nn.PReLU(), nn.Linear(6, 6), nn.CELU(), nn.LogSigmoid(), nn.Softsign(), nn.Tanhshrink()],
        ROWS,
    ),
}


@pytest.mark.parametrize("name", NETS)
def test_a_gradient_penalty(name, tmp_path):
    layers, shape = NETS[name]
    torch.manual_seed(5)
    net = nn.Sequential(*layers(), nn.Flatten())
    with torch.no_grad():
        net.append(nn.Linear(net.eval()(torch.randn(*shape)).shape[1], 1))
    for module in net.modules():
        module.train(not (name == "batch norm that evaluates" and isinstance(module, nn.BatchNorm2d)))
    with sdpa_kernel(SDPBackend.MATH):
        beside_torch(tmp_path, Taker(penalty, net=net), (torch.randn(*shape),), steps=2)


def mlp(activation=nn.Tanh):
    return nn.Sequential(nn.Linear(4, 5), activation(), nn.Linear(5, 4))


def by_input(f):
    """The squared gradient of what f gives by the model's input."""

    def forward(m, x):
        x = asked(x)
        return grad(f(m, x).sum(), x, create_graph=True)[0].square().mean()

    return forward


def forward_mode(m, x):
    with dual.dual_level():
        y = m.a(dual.make_dual(x, torch.ones_like(x))).sin()
        return dual.unpack_dual(y).tangent.square().mean() + y.mean()


def inner_step(m, x):
    """A loss after a step of gradient descent, as MAML has it."""
    w = m.a[0].weight
    w = w - 0.1 * grad(F.linear(x, w).tanh().square().mean(), w, create_graph=True)[0]
    return F.linear(x, w).square().mean() + m.a(x).mean()


def rows_of_starts(m, x):
    x = asked(x)
    starts = torch.stack([torch.ones_like(x), x.detach()])
    return grad(m.a(x), x, starts, is_grads_batched=True, create_graph=True)[0].square().mean()


def two_of_equal_values(m, x):
    """Two leaves of the same values: each has its own gradient."""
    a, b = asked(x), asked(x)
    ga, gb = grad((m.a(a) * b.exp()).sum(), (a, b), create_graph=True)
    return (ga * gb.detach()).mean() + gb.square().mean()


def a_leaf_made_here(m, x):
    z = torch.linspace(0, 1, 8, dtype=x.dtype).reshape(2, 4).requires_grad_()
    return grad(m.a(z).sum(), z, create_graph=True)[0].square().mean() + m.a(x).mean()


def without_create_graph(m, x):
    x = asked(x)
    return (grad(m.a(x).sum(), x)[0] * m.a(x)).mean()


def nothing_leads_there(m, x):
    x, other = asked(x), asked(x * 2)
    y = m.a(x).sum()
    first, none = grad(y, (x, other), create_graph=True, allow_unused=True)
    assert none is None
    zeros = grad(y, (x, other), create_graph=True, materialize_grads=True)[1]
    return first.square().mean() + zeros.sum()


func, functional = torch.func, torch.autograd.functional
CALLS = {
    "func.grad": lambda m, x: func.grad(lambda a: m.a(a).sin().sum())(x).square().mean(),
    "func.grad_and_value": lambda m, x: sum(z.square().mean() for z in func.grad_and_value(lambda a: m.a(a).sum())(x)),
    "func.grad of parameters": lambda m, x: sum(
        g.square().mean()
        for g in func.grad(lambda p: func.functional_call(m.a, p, (x,)).square().mean())(dict(m.a.named_parameters())).values()
    ),
    "func.grad of a constant": lambda m, x: (
        func.grad(lambda a: m.a(a).sin().sum())(torch.ones(3, 4, dtype=x.dtype)).square().mean() + m.a(x).mean()
    ),
    "func.vjp": lambda m, x: func.vjp(lambda a: m.a(a).sin(), x)[1](torch.ones_like(x))[0].square().mean(),
    "func.jvp": lambda m, x: func.jvp(lambda a: m.a(a).sin(), (x,), (torch.ones_like(x),))[1].square().mean(),
    "func.jacrev": lambda m, x: func.jacrev(lambda a: m.a(a).sin())(x[0]).square().mean(),
    "func.jacfwd": lambda m, x: func.jacfwd(lambda a: m.a(a).sin())(x[0]).square().mean(),
    "func.hessian": lambda m, x: func.hessian(lambda a: m.a(a).sin().sum())(x[0]).square().mean(),
    "jacobian": lambda m, x: functional.jacobian(lambda z: m.a(z).sin(), x[0], create_graph=True).square().mean(),
    "hvp": lambda m, x: functional.hvp(lambda z: m.a(z).sin().sum(), x, torch.ones_like(x), create_graph=True)[1].square().mean(),
    "hessian": lambda m, x: functional.hessian(lambda z: m.a(z).sin().sum(), x[0], create_graph=True).square().mean(),
    "forward mode": forward_mode,
    "an inner step": inner_step,
    "is_grads_batched": rows_of_starts,
    "leaves of equal values": two_of_equal_values,
    "a leaf made in forward": a_leaf_made_here,
    "without create_graph": without_create_graph,
    "nothing leads there": nothing_leads_there,
    "a norm": by_input(lambda m, x: torch.linalg.vector_norm(m.a(x), dim=1)),
    "embedding": by_input(lambda m, x: (m.e(torch.arange(6) % 3) * m.a(x)).sin()),
    "gather and scatter": by_input(
        lambda m, x: (
            m.a(x).square().gather(1, torch.tensor([[0, 1, 1]] * 6)).scatter(1, torch.tensor([[0]] * 6), m.a(x)[:, :1].exp())
        )
    ),
    "index": by_input(lambda m, x: m.a(x)[torch.tensor([0, 0, 3])].sin()),
    "cumulative": by_input(lambda m, x: m.a(x).cumprod(1) + m.a(x).logcumsumexp(0) + m.a(x).cumsum(1).square()),
    "cross_entropy": by_input(lambda m, x: F.cross_entropy(m.a(x), torch.arange(6) % 4, label_smoothing=0.1)),
    "binary_cross_entropy": by_input(lambda m, x: F.binary_cross_entropy(m.a(x).sigmoid(), x.sigmoid().detach())),
    "with logits": by_input(lambda m, x: F.binary_cross_entropy_with_logits(m.a(x), x.sigmoid().detach())),
    "smooth_l1_loss": by_input(lambda m, x: F.smooth_l1_loss(m.a(x), x, beta=0.7)),
    "huber_loss": by_input(lambda m, x: F.huber_loss(m.a(x), x, delta=0.3)),
    "kl_div": by_input(lambda m, x: F.kl_div(m.a(x).log_softmax(1), x.softmax(1), reduction="batchmean")),
    "other losses": by_input(
        lambda m, x: (
            F.cosine_embedding_loss(m.a(x), x, torch.ones(6))
            + F.gaussian_nll_loss(m.a(x), x, m.a(x).exp())
            + F.triplet_margin_loss(m.a(x), x, x.flip(0))
            + F.poisson_nll_loss(m.a(x), x)
        )
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_every_way_to_ask(name, tmp_path):
    torch.manual_seed(7)
    beside_torch(tmp_path, Taker(CALLS[name], a=mlp(), e=nn.Embedding(3, 4)), (torch.randn(6, 4),), steps=2)


# ---- every rule, in eager programs ----

NOT_TORCHS = {
    "_weight_norm": "central differences agree with ours: torch's second derivative by v is another",
    "grid_sample": "its gradient by the grid has none",
    "cholesky_solve": "torch's has the triangle that is not read, too",
    "cholesky_inverse": "the same",
}
OF_TRIGAMMA = "digamma special_digamma special_psi psi polygamma special_polygamma".split()  # which has no derivative


def twice(function, args, kwargs, wrap):
    """The product of a drawn direction with the second derivatives of what a function gives, by each tensor."""

    def leaf(x):
        smooth = x.dtype.is_floating_point and not any(x is y for y in test_eager.STATISTICS)
        made = wrap((x.double() if x.dtype is torch.float32 else x).detach().clone())
        return made.requires_grad_() if smooth else made

    args, kwargs = test_eager._map((args, kwargs), leaf)
    leaves = [x for x in test_eager._leaves((args, kwargs)) if x.requires_grad]
    outputs = [y for y in test_eager._leaves(function(*args, **kwargs)) if y.dtype.is_floating_point and y.requires_grad]
    generator = torch.Generator().manual_seed(5)

    def drawn(x):
        return wrap(torch.randn(x.shape, generator=generator, dtype=x.dtype))

    if not outputs or not leaves:
        return []
    first = grad(outputs, leaves, [drawn(y) for y in outputs], create_graph=True, allow_unused=True)
    pairs = [(g, drawn(x)) for g, x in zip(first, leaves)]
    pairs = [(g, v) for g, v in pairs if g is not None and g.requires_grad]
    second = [None] * len(leaves)
    if pairs:
        second = grad([g for g, _ in pairs], leaves, [v for _, v in pairs], allow_unused=True)
    return [torch.zeros_like(samba.to_torch(x)) if g is None else samba.to_torch(g).detach() for g, x in zip(second, leaves)]


FUNCTIONS = [f for f in test_eager.FUNCTIONS if not isinstance(f, torch._ops.OpOverloadPacket)]


@pytest.mark.parametrize("function", FUNCTIONS, ids=test_eager._id)
def test_every_rule_twice(function):
    """Second derivatives in float64 as torch has them, of every function with a rule, but where torch has none."""
    name = function.__name__
    for args, kwargs in test_eager.METHODS.get(function) or test_eager._calls(function):
        try:
            expected = twice(function, args, kwargs, lambda x: x)
        except (RuntimeError, NotImplementedError):
            continue
        if name in OF_TRIGAMMA:
            try:
                found = twice(function, args, kwargs, samba.SambaTensor)
            except UnsupportedError as error:
                assert "this is already a gradient, and has none itself" in str(error)
                continue
            torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-8)
        elif name not in NOT_TORCHS:
            torch.testing.assert_close(twice(function, args, kwargs, samba.SambaTensor), expected, rtol=1e-6, atol=1e-8)


# ---- models that live of it ----


def burgers(m, x, t):
    """u_t + u u_x = nu u_xx at points of the inside, u = -sin(pi x) at the start."""
    x, t = asked(x), asked(t)
    u = m.net(torch.cat([x, t], 1))
    u_x, u_t = grad(u, (x, t), torch.ones_like(u), create_graph=True)
    (u_xx,) = grad(u_x, x, torch.ones_like(u_x), create_graph=True)
    at_start = m.net(torch.cat([x, torch.zeros_like(t)], 1)) + torch.sin(torch.pi * x)
    return (u_t + u * u_x - 0.01 / torch.pi * u_xx).square().mean() + at_start.square().mean()


def heat(m, x, t):
    """u_t = u_xx + u_yy, with the last two by one gradient each."""
    x, t = asked(x), asked(t)
    u = m.net(torch.cat([x, t], 1))
    (u_x,) = grad(u.sum(), x, create_graph=True)
    laplace = sum(grad(u_x[:, i].sum(), x, create_graph=True)[0][:, i : i + 1] for i in range(2))
    return (grad(u.sum(), t, create_graph=True)[0] - laplace).square().mean() + (u - x.prod(1, keepdim=True)).square().mean()


@pytest.mark.parametrize("name", ["burgers", "heat"])
def test_physics_informed(name, tmp_path):
    torch.manual_seed(11)
    dims, activation = (1, nn.Tanh) if name == "burgers" else (2, nn.SiLU)
    net = nn.Sequential(nn.Linear(dims + 1, 10), activation(), nn.Linear(10, 10), activation(), nn.Linear(10, 1))
    inputs = (torch.rand(20, dims) * 2 - 1, torch.rand(20, 1))
    losses = train(tmp_path, Taker(globals()[name], net=net), inputs, steps=30, lr=0.02)
    assert losses[-1] < losses[0]


def critic(m, real, fake, share):
    between = asked(share * real + (1 - share) * fake)
    (slope,) = grad(m.net(between).sum(), between, create_graph=True)
    gap = m.net(fake).mean() - m.net(real).mean()
    return gap + 10 * (slope.flatten(1).norm(2, 1) - 1).square().mean()


def test_wgan_gp(tmp_path):
    """Steps of the critic, with convolutions and a norm of each image."""
    torch.manual_seed(13)
    net = nn.Sequential(
        nn.Conv2d(1, 4, 3, 2, 1),
        nn.LeakyReLU(0.2),
        nn.Conv2d(4, 6, 3, 2, 1),
        nn.InstanceNorm2d(6, affine=True),
        nn.LeakyReLU(0.2),
        nn.Flatten(),
        nn.Linear(24, 1),
    )
    images = torch.randn(4, 1, 8, 8), torch.rand(4, 1, 8, 8), torch.rand(4, 1, 1, 1)
    losses = train(tmp_path, Taker(critic, net=net), images, steps=20, lr=0.002)
    assert losses[-1] < losses[0]


class Energy(nn.Module):
    """Of points in space, whose forces are the gradient by places: run without training too."""

    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(1, 8), nn.SiLU(), nn.Linear(8, 1))

    def forward(self, places):
        places = places.requires_grad_()
        apart = (places[:, None] - places[None]).square().sum(-1, keepdim=True)
        energy = self.net(apart).sum()
        return energy, -grad(energy, places, create_graph=self.training)[0]


def test_forces_of_an_evaluated_model(tmp_path):
    torch.manual_seed(17)
    model, places = Energy().eval(), torch.randn(5, 3)
    expected = [x.detach() for x in model(places.clone())]
    samba.from_torch_model_(model)
    given = (samba.from_torch_tensor(places.detach(), name="places"),)
    pef = samba.session.compile(model, given, inference=True, output_folder=str(tmp_path))
    outputs = samba.utils.trace_graph(model, given, pef=pef)
    for found, wanted in zip(samba.session.run(given, outputs), expected):
        torch.testing.assert_close(found.torch(), wanted, rtol=1e-5, atol=1e-6)


# ---- drawn ----

SMOOTH = [nn.Tanh, nn.SiLU, nn.GELU, nn.Mish, nn.Softplus, nn.Sigmoid, nn.ELU, nn.Softsign, nn.LogSigmoid, nn.CELU]


def drawn(choose):
    """Layers that fit each other, the shape that they take, and their names."""
    kind = choose.choice(["rows", "planes", "lines"])
    layers, channels = [], choose.choice([1, 2, 4])
    shape = {"rows": (3, 4, channels), "planes": (2, channels, 5, 6), "lines": (2, channels, 7)}[kind]
    after = {
        "rows": [nn.LayerNorm, nn.RMSNorm, nn.Identity],
        "planes": [nn.BatchNorm2d, lambda n: nn.GroupNorm(2, n), lambda n: nn.AvgPool2d(2, 1), lambda n: nn.MaxPool2d(2, 1)],
        "lines": [nn.BatchNorm1d, lambda n: nn.Softmax(1), nn.Identity],
    }
    for _ in range(choose.choice([1, 2, 3])):
        wider = choose.choice([2, 4])
        if kind == "rows":
            layers.append(nn.Linear(channels, wider))
        elif kind == "lines":
            layers.append(nn.Conv1d(channels, wider, 3, padding=1))
        elif choose.random() < 0.5:
            layers.append(nn.Conv2d(channels, wider, choose.choice([1, 3]), padding=1))
        else:
            layers.append(nn.ConvTranspose2d(channels, wider, choose.choice([1, 3])))
        layers += [choose.choice(after[kind])(wider), choose.choice(SMOOTH)()]
        channels = wider
    return nn.Sequential(*layers), shape


class InParts(nn.Module):
    """A norm of torch in elementary functions: the third derivatives of its own kernels are not those of their formula, as
    central differences tell."""

    def __init__(self, norm):
        super().__init__()
        self.weight, self.bias = norm.weight, getattr(norm, "bias", None)
        self.kind, self.groups = type(norm), getattr(norm, "num_groups", 1)
        self.eps = 1e-5 if norm.eps is None else norm.eps

    def forward(self, x):
        batch, group = self.kind in (nn.BatchNorm1d, nn.BatchNorm2d), self.kind is nn.GroupNorm
        y = x.unflatten(1, (self.groups, -1)) if group else x
        dims = [0, *range(2, x.dim())] if batch else [*range(2, y.dim())] if group else [-1]
        if self.kind is nn.RMSNorm:
            eps = torch.finfo(x.dtype).eps
            return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps) * self.weight
        away = y - y.mean(dims, keepdim=True)
        away = (away * torch.rsqrt(away.square().mean(dims, keepdim=True) + self.eps)).reshape(x.shape)
        shape = [1, -1] + [1] * (x.dim() - 2) if batch or group else [-1]
        return away * self.weight.reshape(shape) + self.bias.reshape(shape)


def in_parts(net):
    """A copy of the layers, with norms in parts."""
    norms = (nn.LayerNorm, nn.RMSNorm, nn.GroupNorm, nn.BatchNorm1d, nn.BatchNorm2d)
    return nn.Sequential(*(InParts(x) if isinstance(x, norms) else x for x in copy.deepcopy(net)))


def product_with_hessian(m, x, direction):
    """H v of the sum of squares by the input, then its gradient by the parameters."""
    x = asked(x)
    (first,) = grad(m.net(x).square().mean(), x, create_graph=True)
    (second,) = grad((first * direction).sum(), x, create_graph=True)
    return second.square().mean() + first.square().mean()


@pytest.mark.parametrize("number", range(4))
def test_drawn_compositions(number, tmp_path):
    """Third derivatives, in float64: up to rounding PyTorch's."""
    seed = int(os.environ.get("SAMBAFLOW_SEED") or random.randrange(2**31)) + number
    print(f"SAMBAFLOW_SEED={seed - number}")
    torch.manual_seed(seed)
    net, shape = drawn(random.Random(seed))
    print(net, shape)
    inputs = torch.randn(*shape, dtype=torch.float64), torch.randn(*shape, dtype=torch.float64)
    net = net.double()
    original = Taker(product_with_hessian, net=in_parts(net))
    train(tmp_path, Taker(product_with_hessian, net=net), inputs, steps=1, original=original)


# ---- what is refused ----


class Once(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.sin()

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, g):
        return g * ctx.saved_tensors[0].cos()


def unrequired(m, x):
    return grad(x.sum(), m.a[0].weight)[0].sum()


def unused(m, x):
    x = asked(x)
    return grad(m.a(x).sum(), (x, asked(x * 2)))[1].sum()


def no_scalar(m, x):
    x = asked(x)
    return grad(m.a(x), x)[0].sum()


def twice_through_a_grid(m, x):
    grid = asked(m.a(x)[None, :, None, :2].tanh())
    (g,) = grad(F.grid_sample(x[None, None], grid).sum(), grid, create_graph=True)
    return g.square().sum()


REFUSED = {
    "no gradient": (unrequired, RuntimeError, "element 0 of tensors does not require grad"),
    "unused": (unused, RuntimeError, "appears to not have been used in the graph. Set allow_unused=True"),
    "no scalar": (no_scalar, RuntimeError, "only for scalar outputs"),
    "once_differentiable": (by_input(lambda m, x: Once.apply(m.a(x))), UnsupportedError, "Once, .* is once_differentiable"),
    "many": (lambda m, x: func.jacrev(lambda a: m.a(a).repeat(1, 20))(x).sum(), UnsupportedError, "480 gradients.*256 at most"),
    "grid_sample": (twice_through_a_grid, UnsupportedError, "grid_sample_grid_grad: .* compose what is differentiated twice"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals(name, tmp_path):
    function, error, words = REFUSED[name]
    model = samba.from_torch_model(Taker(function, a=mlp()))
    given = (samba.randn(6, 4, name="x"),)
    with pytest.raises(error, match=words):
        samba.session.compile(
            model, given, samba.optim.SGD(model.parameters(), lr=0.1), loss_indices=[0], output_folder=str(tmp_path)
        )
