# SPDX-License-Identifier: Apache-2.0
"""Complex tensors and torch.fft in traced models: Fourier neural operators (Li et al., 2021) trained beside PyTorch, each
function of complex tensors against PyTorch's, values and gradients, and what is refused, by its name."""

import copy

import pytest
import torch
import torch.nn.functional as F
from models import Taker
from torch import nn

import sambaflow.samba as samba
from sambaflow.errors import UnsupportedError

STEPS = 20


# ---- Fourier neural operators ----


class Spectral1d(nn.Module):
    """R F(v) of the lowest modes, back by the inverse transform."""

    def __init__(self, width, modes, dtype):
        super().__init__()
        self.modes = modes
        self.weight = nn.Parameter(torch.randn(width, width, modes, dtype=dtype) / width)

    def forward(self, v):
        spectrum = torch.fft.rfft(v)
        out = torch.zeros(v.shape[0], self.weight.shape[1], v.shape[-1] // 2 + 1, dtype=spectrum.dtype, device=v.device)
        out[:, :, : self.modes] = torch.einsum("bix,iox->box", spectrum[:, :, : self.modes], self.weight)
        return torch.fft.irfft(out, n=v.shape[-1])


class Spectral2d(nn.Module):
    """The same of images: low modes of the last dim, low and high ones of the dim before it."""

    def __init__(self, width, modes, dtype):
        super().__init__()
        self.modes = modes
        self.low = nn.Parameter(torch.randn(width, width, modes, modes, dtype=dtype) / width)
        self.high = nn.Parameter(torch.randn(width, width, modes, modes, dtype=dtype) / width)

    def forward(self, v):
        m = self.modes
        spectrum = torch.fft.rfft2(v)
        out = torch.zeros(*v.shape[:3], v.shape[3] // 2 + 1, dtype=spectrum.dtype, device=v.device)
        out[:, :, :m, :m] = torch.einsum("bixy,ioxy->boxy", spectrum[:, :, :m, :m], self.low)
        out[:, :, -m:, :m] = torch.einsum("bixy,ioxy->boxy", spectrum[:, :, -m:, :m], self.high)
        return torch.fft.irfft2(out, s=v.shape[-2:])


class Fno(nn.Module):
    """Lifts each point's values, four layers of sigma(W v + K v), projects them."""

    def __init__(self, spectral, conv, width=8, modes=4, layers=4, dtype=torch.float32):
        super().__init__()
        kernel = torch.complex128 if dtype is torch.float64 else torch.complex64
        self.lift = conv(2, width, 1, dtype=dtype)
        self.kernels = nn.ModuleList(spectral(width, modes, kernel) for _ in range(layers))
        self.ways = nn.ModuleList(conv(width, width, 1, dtype=dtype) for _ in range(layers))
        self.project = nn.Sequential(conv(width, 16, 1, dtype=dtype), nn.GELU(), conv(16, 1, 1, dtype=dtype))

    def forward(self, x, y):
        grid = torch.linspace(0, 1, x.shape[-1], dtype=x.dtype).expand_as(x)
        v = self.lift(torch.cat([x, grid], 1))
        for kernel, way in zip(self.kernels, self.ways):
            v = F.gelu(kernel(v) + way(v))
        return F.mse_loss(self.project(v), y)


MODELS = {"fno1d": (Spectral1d, nn.Conv1d, (3, 1, 30)), "fno2d": (Spectral2d, nn.Conv2d, (2, 1, 12, 14))}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("name", MODELS)
def test_fno_trains_as_torch_does(tmp_path, name, dtype):
    spectral, conv, shape = MODELS[name]
    wide = dtype is torch.float64
    model = Fno(spectral, conv, dtype=dtype)
    x, y = torch.randn(shape, dtype=dtype), torch.randn(shape, dtype=dtype)
    host = copy.deepcopy(model)
    optimizer = torch.optim.AdamW(host.parameters(), lr=0.01)
    expected = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = host(x, y)
        loss.backward()
        optimizer.step()
        expected.append(loss.item())

    samba.from_torch_model_(model)
    optim = samba.optim.AdamW(model.parameters(), lr=0.01)
    inputs = (samba.from_torch_tensor(x, "x"), samba.from_torch_tensor(y, "y"))
    pef = samba.session.compile(model, inputs, optim, name=name, loss_indices=[0], output_folder=str(tmp_path))
    outputs = samba.utils.trace_graph(model, inputs, optim, pef=pef, loss_indices=[0])
    found = [samba.to_torch(samba.session.run(inputs, outputs)[0]).item() for _ in range(STEPS)]
    assert found == pytest.approx(expected, rel=1e-9 if wide else 2e-4)

    samba.session.to_cpu(model)
    for (path, ours), theirs in zip(model.named_parameters(), host.parameters()):
        ours = samba.to_torch(ours).detach()
        assert ours.dtype == theirs.dtype and ours.shape == theirs.shape, path
        assert (ours - theirs).abs().max() < (1e-8 if wide else 2e-3), path


# ---- each function ----


def c(*shape):
    return torch.complex(torch.randn(shape, dtype=torch.float64), torch.randn(shape, dtype=torch.float64))


def written(x, y):
    out = torch.zeros(3, 4, 5, dtype=torch.cdouble)
    out[:, 1:3] = y
    out[..., 0] = 2
    out[0] += x[0]
    view = out[:, 3]
    view.real[:, 1] = x[:, 0, 1].real
    out.mul_(1.5 - 0.5j)
    return out


FUNCTIONS = {
    "parts": lambda x, y: torch.complex(x.real * 2, y[0, 0, 0].imag + x.imag),
    "conj": lambda x, y: x.conj() * 2,
    "abs": lambda x, y: x.abs(),
    "angle": lambda x, y: x.angle(),
    "polar": lambda x, y: torch.polar(x.abs(), y[0, 0, 0].angle() + x.real),
    "view_as_real": lambda x, y: torch.view_as_real(x).square(),
    "view_as_complex": lambda x, y: torch.view_as_complex(torch.stack((x.imag, x.real), -1)),
    "add": lambda x, y: x + y[:, 0, 0, None, None] + 3 - 1j,
    "add real": lambda x, y: x.real + x - x.imag[:1] * 2,
    "sub": lambda x, y: 2 - x - torch.sub(x, y[0, 0, 0], alpha=3),
    "mul": lambda x, y: x * y[0, 0, 0] * 2 * x.real * (1 - 2j),
    "real by complex": lambda x, y: x.real * (0.5 + 1j) + y[0, 0, 0].real * x,
    "div": lambda x, y: x / y[0, 0, 0] / 2 + 1 / x + x.real / x + x / (2 + 1j) + x / y.real[0, 0, 0],
    "neg": lambda x, y: -x,
    "pow": lambda x, y: x**3 + x.square(),
    "exp": lambda x, y: torch.exp(x * 0.5) + torch.log(x),
    "sin": lambda x, y: torch.sin(x) + torch.cos(x),
    "sum": lambda x, y: x.sum(-1) + x.mean((0, -1), keepdim=True)[..., 0] + x.sum(),
    "cumsum": lambda x, y: x.cumsum(-1),
    "matmul": lambda x, y: x @ x.mT + x.real.to(torch.cdouble) @ x.mH,
    "linear": lambda x, y: F.linear(x, x[0], x[0, :, 0]),
    "einsum": lambda x, y: torch.einsum("abi,aci,bc->a", x, x, x[0, :, :4]),
    "bmm": lambda x, y: torch.bmm(x, x.transpose(1, 2).conj()),
    "index": lambda x, y: x[:, [0, 2]][..., 1] + x[1, None, 2:, 0] + x[torch.tensor([0, 2, 1]), 1, 3][:, None],
    "shape": lambda x, y: x.reshape(-1, 2).permute(1, 0).unsqueeze(-1).flatten(1).squeeze() * x.flatten()[:60].view(2, 30),
    "expand": lambda x, y: x[:, :1].expand(3, 4, 5) + x.movedim(-1, 0).movedim(0, -1),
    "split": lambda x, y: x.split(2, -1)[1] + x.chunk(2, 1)[0].unbind(0)[0].narrow(1, 0, 2).repeat(1, 2, 1),
    "cat": lambda x, y: torch.cat([x, x.real, x.conj()], -1) + torch.stack([x, x]).sum() * 0.1,
    "pad": lambda x, y: F.pad(x, (1, 2, 0, 1)).roll(1, -1).flip(0),
    "where": lambda x, y: torch.where(x.real > 0, x, 0.5j * x).masked_fill(x.imag > 1, 2),
    "write": written,
    "compare": lambda x, y: (x == x.conj()).double() + (x != y[0, 0, 0]).double() + x.abs(),
    "to": lambda x, y: (x.to(torch.complex64) * 2).to(torch.complex128) + x.real.to(torch.cdouble),
    "zeros_like": lambda x, y: torch.zeros_like(x) + torch.ones_like(x) * x,
    "fft": lambda x, y: torch.fft.ifft(torch.fft.fft(x, dim=1), n=6, norm="ortho"),
    "fft2": lambda x, y: torch.fft.fft2(x.real) + torch.fft.ifftn(x, s=(4, 5), norm="forward"),
    "rfft": lambda x, y: torch.fft.rfft(x.real, dim=0) + torch.fft.rfftn(x.imag, s=(3, 4, 8))[:2, :, :5],
    "irfft": lambda x, y: torch.fft.irfft(x) + torch.fft.irfft2(x, s=(4, 8)),
    "hfft": lambda x, y: torch.fft.hfft(x, n=9) + torch.fft.hfft2(x, s=(4, 9)),
    "ihfft": lambda x, y: torch.fft.ihfft(x.real) + torch.fft.ihfftn(x.imag),
    "fftshift": lambda x, y: torch.fft.fftshift(x, dim=(-1,)) + torch.fft.ifftshift(x) * torch.fft.fftfreq(5),
    "constants": lambda x, y: x * torch.exp(1j * torch.arange(5)) + torch.tensor([1j, 2, 3, 4, 5]),
}


def real_of(y):
    return torch.view_as_real(y.resolve_conj()) if y.is_complex() else y


def model_of(function, x, y):
    """A model whose complex parameters are the function's arguments."""

    def forward(self, one):
        result = real_of(function(self.x, self.y))
        weights = torch.linspace(0.5, 1.5, result.numel(), dtype=result.dtype).reshape(result.shape)
        return (result * weights * one).sum(), result

    model = Taker(forward)
    model.x, model.y = nn.Parameter(x), nn.Parameter(y)
    return model


def near(ours, theirs):
    scale = max(1.0, theirs.abs().max().item())
    return ours.shape == theirs.shape and (ours.double() - theirs.double()).abs().max().item() <= 1e-6 * scale


@pytest.mark.filterwarnings("ignore:backward starts from")
@pytest.mark.parametrize("name", FUNCTIONS)
def test_function(tmp_path, name):
    model = model_of(FUNCTIONS[name], c(3, 4, 5), c(3, 2, 5) if name == "write" else c(1, 1, 3, 4, 5))
    one = torch.ones((), dtype=torch.float64)
    loss, expected = model(one)
    loss.backward()
    ours = samba.from_torch_model_(copy.deepcopy(model))
    inputs, optim = (samba.from_torch_tensor(one, "one"),), samba.optim.SGD(ours.parameters(), lr=0.0)
    pef = samba.session.compile(ours, inputs, optim, name="f", loss_indices=[0], output_folder=str(tmp_path))
    outputs = samba.utils.trace_graph(ours, inputs, optim, pef=pef, loss_indices=[0])
    found = samba.session.run(inputs, outputs)
    assert near(samba.to_torch(found[1]), expected.detach())
    samba.session.to_cpu(ours)
    for path, parameter in model.named_parameters():
        if parameter.grad is not None and parameter.grad.any():
            gradient = samba.to_torch(ours.get_parameter(path).grad)
            assert gradient.is_complex() and near(torch.view_as_real(gradient), real_of(parameter.grad)), path


@pytest.mark.parametrize("name", ["mul", "abs", "fft", "rfft", "irfft", "einsum", "exp"])
def test_function_outside_of_tracing(name):
    """The library's kernels, in torch's autograd."""
    x, y = c(3, 4, 5).requires_grad_(), c(1, 1, 3, 4, 5).requires_grad_()
    expected = FUNCTIONS[name](x, y)
    real_of(expected).square().sum().backward()
    pairs = [torch.view_as_real(v.detach()).contiguous() for v in (x, y)]
    ours = [samba.from_torch_tensor(p, f"p{i}").requires_grad_() for i, p in enumerate(pairs)]
    result = FUNCTIONS[name](*[torch.view_as_complex(p) for p in ours])
    assert near(real_of(samba.to_torch(result)).detach(), real_of(expected).detach())
    real_of(result).square().sum().backward()
    for v, p in zip((x, y), ours):
        if v.grad is not None:
            assert near(samba.to_torch(p.grad), torch.view_as_real(v.grad))


# ---- buffers, refusals ----


def test_complex_buffer_turns_positions(tmp_path):
    """Rotary embeddings as products with e^(i m theta), which stand in a complex buffer."""

    def forward(self, x):
        return torch.view_as_real(torch.view_as_complex(x.reshape(2, 6, 4, 2)) * self.turns).flatten(-2)

    model = Taker(forward)
    angles = torch.outer(torch.arange(6.0), 1 / 10 ** torch.arange(4.0))
    model.register_buffer("turns", torch.polar(torch.ones_like(angles), angles))
    x = torch.randn(2, 6, 8)
    expected = model(x)
    samba.from_torch_model_(model)
    inputs = (samba.from_torch_tensor(x, "x"),)
    pef = samba.session.compile(model, inputs, name="rotary", inference=True, output_folder=str(tmp_path))
    outputs = samba.session.trace_graph(model, inputs, pef=pef)
    assert torch.allclose(samba.to_torch(samba.session.run(inputs, outputs)[0]), expected, atol=1e-6)


class Filter(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(17, dtype=torch.cfloat))

    def forward(self, x):  # (batch, 32)
        return torch.fft.irfft(torch.fft.rfft(x) * self.weight, n=32)


def test_complex_parameters_go_to_the_host_and_back(tmp_path):
    model = Filter()
    before = model.weight.detach().clone()
    samba.from_torch_model_(model)
    inputs = (samba.from_torch_tensor(torch.randn(2, 32), "x"),)
    optim = samba.optim.Adam(model.parameters(), lr=0.1)
    pef = samba.session.compile(model, inputs, optim, name="way", output_folder=str(tmp_path))
    outputs = samba.utils.trace_graph(model, inputs, optim, pef=pef)
    samba.session.run(inputs, outputs)
    samba.session.to_cpu(model, optim)
    now = samba.to_torch(model.weight).detach().clone()
    assert now.dtype == torch.complex64 and (now - before).abs().max() > 0.05
    state = optim.state[model.weight]["exp_avg"]
    assert samba.to_torch(state).is_complex() and tuple(state.shape) == (17,)
    samba.session.run(inputs, outputs)
    assert not torch.equal(samba.to_torch(samba.session.device_get("weight")), torch.view_as_real(now))
    samba.session.to_rdu(model, optim)
    assert torch.equal(samba.to_torch(samba.session.device_get("weight")), torch.view_as_real(now))


REFUSED = {
    "sort": (lambda x: torch.tanh(x), "torch.tanh of a complex tensor has no counterpart in a graph: apply it to"),
    "a cast": (lambda x: x.to(torch.float32), "a cast of complex numbers to torch.float32 drops their imaginary parts"),
    "an output": (lambda x: x * 2, "output 0 of Taker is complex, .*: return torch.view_as_real"),
    "a write": (lambda x: torch.zeros(2, 3).copy_(x), "into a real tensor drops their imaginary parts: copy x.real"),
    "rfft": (lambda x: torch.fft.rfft(x).abs(), "rfft: expected a real tensor, given torch.complex64: use its real part, or fft"),
    "n": (lambda x: torch.fft.fft(x, n=0).abs(), "fft: n must be 1 or more, given 0"),
    "norm": (lambda x: torch.fft.fft(x, norm="half").abs(), "norm must be 'backward', 'ortho' or 'forward', given 'half'"),
    "dims": (lambda x: torch.fft.fftn(x, dim=(0, 0)).abs(), "dims of a transform differ"),
    "power": (lambda x: (x**0.5).abs(), "a power of a complex tensor by 0.5: only whole numbers"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusal(name):
    function, words = REFUSED[name]
    model = Taker(lambda self, x: function(torch.view_as_complex(x)))
    with pytest.raises((UnsupportedError, ValueError, TypeError), match=words):
        samba.utils.trace_graph(model, (samba.from_torch_tensor(torch.randn(2, 3, 2), "x"),))


def test_complex_input_is_refused():
    with pytest.raises(NotImplementedError, match="give torch.view_as_real"):
        samba.from_torch_tensor(torch.zeros(2, dtype=torch.complex64), "x")
