# SPDX-License-Identifier: Apache-2.0
"""Lazy parameters: placeholders without memory, the same values whatever the threads and the moment,
and a large model compiled without one."""

import copy
import math
import statistics
import subprocess
import sys

import pytest
import torch

import sambaflow.samba as samba
import sambaflow.samba.utils as utils
from sambaflow.samba.lazy import LazyParameter

nn = torch.nn


@pytest.fixture(autouse=True)
def off():
    yield
    samba.session.disable_lazy_param()


def lazily(build, **options):
    samba.session.enable_lazy_param(**{"seed": 1, **options})
    assert samba.session.use_lazy_param()
    model = build()
    samba.session.disable_lazy_param()
    assert not samba.session.use_lazy_param()
    return model


def values(model):
    return {name: x.torch_tensor().clone() for name, x in model.named_parameters()}


INITS = {
    "uniform_": (lambda w: nn.init.uniform_(w, -2, 3), 0.5, 5 / math.sqrt(12)),
    "normal_": (lambda w: nn.init.normal_(w, 1.0, 0.5), 1.0, 0.5),
    "kaiming_uniform_": (lambda w: nn.init.kaiming_uniform_(w, a=math.sqrt(5)), 0.0, 1 / math.sqrt(3 * 200)),
    "kaiming_normal_": (lambda w: nn.init.kaiming_normal_(w), 0.0, math.sqrt(2 / 200)),
    "xavier_uniform_": (lambda w: nn.init.xavier_uniform_(w), 0.0, math.sqrt(2 / 500)),
    "xavier_normal_": (lambda w: nn.init.xavier_normal_(w), 0.0, math.sqrt(2 / 500)),
    "zeros_": (lambda w: nn.init.zeros_(w), 0.0, 0.0),
    "ones_": (lambda w: nn.init.ones_(w), 1.0, 0.0),
    "constant_": (lambda w: nn.init.constant_(w, -7.0), -7.0, 0.0),
    "trunc_normal_": (
        lambda w: nn.init.trunc_normal_(w, 0.0, 1.0, -2.0, 2.0),
        0.0,
        0.8796,
    ),  # sqrt(1 - 4 phi(2) / (1 - 2 Phi(-2)))
    "data": (lambda w: w.data.normal_(mean=2.0, std=3.0).mul_(2), 4.0, 6.0),
    "mul": (lambda w: nn.init.normal_(w).detach().mul_(3).add_(1), 1.0, 3.0),
}


@pytest.mark.parametrize("name", INITS)
@pytest.mark.parametrize("inverse", (False, True))
def test_distributions(name, inverse):
    """Mean and deviation within five standard errors of 60,000 values; extremes where there are bounds."""
    init, mean, deviation = INITS[name]

    def build():
        layer = nn.Linear(200, 300, bias=False)
        with torch.no_grad():
            init(layer.weight)
        return layer

    layer = lazily(build, inverse_transform_sampling=inverse)
    assert isinstance(layer.weight, LazyParameter) and isinstance(layer.weight, nn.Parameter) and layer.weight.requires_grad
    assert not layer.weight.has_data and layer.weight.materializer_provided and layer.weight.data_ptr() == 0
    w = layer.weight.torch_tensor()
    assert layer.weight.has_data
    error = 5 * deviation / math.sqrt(60000) + 1e-7
    assert abs(w.double().mean() - mean) < error and abs(w.double().std(correction=0) - deviation) < error
    if name == "trunc_normal_":
        assert w.abs().max() <= 2
    if name == "uniform_":
        assert -2 <= w.min() < -1.99 and 2.99 < w.max() < 3


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(50, 16, padding_idx=3)
        self.cell = nn.LSTM(16, 16, batch_first=True)
        self.block = nn.TransformerEncoder(
            nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True), 2, enable_nested_tensor=False
        )
        self.norm = nn.BatchNorm1d(4)
        self.head = nn.Linear(16, 50, bias=False)
        self.head.weight = self.embed.weight
        self.scale = nn.Parameter(torch.full((16,), 2.5))

    def forward(self, x):
        return self.head(self.block(self.norm(self.cell(self.embed(x))[0])) * self.scale)


def test_values_do_not_depend_on_threads_or_moment():
    whole = values(lazily(Net))
    for threads in (1, 3, 64):
        again = lazily(Net, init_threads=threads)
        assert again.embed.weight is again.head.weight  # tied
        for name, x in reversed(list(again.named_parameters())):  # in another order
            assert torch.equal(x.torch_tensor(), whole[name]), name
    other = values(lazily(Net, seed=2))
    assert not torch.equal(other["cell.weight_ih_l0"], whole["cell.weight_ih_l0"])
    torch.manual_seed(5)
    drawn = values(lazily(Net, seed=None))
    torch.manual_seed(5)
    assert all(torch.equal(x, drawn[name]) for name, x in values(lazily(Net, seed=None)).items())
    assert (
        torch.count_nonzero(whole["embed.weight"][3]) == 0 and torch.count_nonzero(whole["embed.weight"][4]) == 16
    )  # a part was changed
    assert torch.equal(whole["scale"], torch.full((16,), 2.5))  # given values stay
    layers = [x for name, x in whole.items() if name.endswith("linear1.weight")]
    assert torch.equal(*layers)  # copies of one layer, as torch makes them
    assert whole["cell.weight_ih_l0"].abs().max() <= 0.25 and whole["block.layers.0.norm1.weight"].eq(1).all()


def test_reset_random_generator():
    samba.session.enable_lazy_param(seed=4)
    a, b = nn.Linear(8, 8), nn.Linear(8, 8)
    samba.session.reset_random_generator()
    c = nn.Linear(8, 8)
    assert torch.equal(a.weight.torch_tensor(), c.weight.torch_tensor()) and not torch.equal(
        a.weight.torch_tensor(), b.weight.torch_tensor()
    )


def test_rounding():
    """bfloat16 values are the float32 ones, cast bit by bit."""

    def build(dtype):
        return lambda: nn.Linear(64, 64, dtype=dtype)

    wide = lazily(build(torch.float32)).weight.torch_tensor()
    nearest = lazily(build(torch.bfloat16)).weight.torch_tensor()
    assert torch.equal(nearest, lazily(build(torch.bfloat16), fp32_to_bf16_rounding="nearest_even").weight.torch_tensor())
    cut = lazily(build(torch.bfloat16), fp32_to_bf16_rounding="truncation").weight.torch_tensor()
    assert torch.equal(nearest, wide.bfloat16())
    assert torch.equal(cut.view(torch.int16), (wide.detach().view(torch.int32) >> 16).to(torch.int16))
    assert not torch.equal(cut, nearest)
    with pytest.raises(ValueError, match="fp32_to_bf16_rounding 'up': expected one of nearest_even, truncation"):
        samba.session.enable_lazy_param(fp32_to_bf16_rounding="up")
    with pytest.raises(ValueError, match="init_threads is 0"):
        samba.session.enable_lazy_param(init_threads=0)
    assert not samba.session.use_lazy_param()


def test_inverse_transform():
    """By the inverse of the distribution function: against the standard library's on the uniform numbers of the same draw."""

    def build(init):
        def made():
            layer = nn.Linear(40, 40, bias=False, dtype=torch.float64)
            with torch.no_grad():
                getattr(nn.init, init)(layer.weight)
            return layer

        return made

    normal = lazily(build("normal_"), inverse_transform_sampling=True).weight.torch_tensor()
    assert not torch.equal(normal, lazily(build("normal_")).weight.torch_tensor())
    p = 0.5 * (1 + torch.erf(normal / math.sqrt(2)))  # the uniform numbers: multiples of 2^-32, and a half
    steps = p * 2**32 - 0.5
    assert (steps - steps.round()).abs().max() < 1e-4
    inverse = statistics.NormalDist().inv_cdf
    expected = torch.tensor([inverse((k + 0.5) / 2**32) for k in steps.round().flatten().tolist()], dtype=torch.float64).view(
        40, 40
    )
    torch.testing.assert_close(normal, expected, rtol=1e-12, atol=1e-13)


def test_training(tmp_path):
    """Compiled from placeholders, materialized on the way to the device: what a model with those values from the start does."""
    x, label = samba.randn(6, 12, name="x"), samba.randint(5, (6,), name="label")

    class Small(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(12, 9), nn.Linear(9, 5)

        def forward(self, x, label):
            return nn.functional.cross_entropy(self.b(self.a(x).relu()), label)

    lazy_model = samba.from_torch_model_(lazily(Small))
    optim = samba.optim.SGD(lazy_model.parameters(), lr=0.1)
    pef = samba.session.compile(lazy_model, (x, label), optim, loss_indices=[0], output_folder=str(tmp_path))
    assert not any(p.has_data for p in lazy_model.parameters())
    outputs = utils.trace_graph(lazy_model, (x, label), optim, pef=pef, loss_indices=[0])
    assert not any(p.has_data for p in lazy_model.parameters())  # on the device, not on the host
    eager = Small()
    eager.load_state_dict(values(lazily(Small)))
    for _ in range(3):
        (loss,) = samba.session.run((x, label), outputs)
        expected = eager(x.torch(), label.torch())
        eager.zero_grad()
        expected.backward()
        torch.testing.assert_close(loss.torch(), expected.detach())
        with torch.no_grad():
            for p in eager.parameters():
                p -= 0.1 * p.grad
    samba.session.to_cpu(lazy_model)
    for ours, its in zip(lazy_model.parameters(), eager.parameters()):
        assert ours.has_data
        torch.testing.assert_close(ours.torch(), its.detach())


def test_on_the_host():
    """What needs values makes them, for good."""
    model = lazily(lambda: nn.Linear(4, 3))
    before = values(lazily(lambda: nn.Linear(4, 3)))
    x = torch.randn(2, 4)
    torch.testing.assert_close(model(x).torch(), nn.functional.linear(x, before["weight"], before["bias"]).detach())
    assert model.weight.has_data
    model = lazily(lambda: nn.Linear(4, 3))
    with torch.no_grad():
        model.weight[1].copy_(torch.ones(4))  # a part, from a tensor
        model.bias.copy_(torch.arange(3.0))
        model.weight.clamp_(max=0.3)
    expected = before["weight"].clone()
    expected[1] = 1
    assert torch.equal(model.weight.torch_tensor(), expected.clamp(max=0.3)) and torch.equal(
        model.bias.torch_tensor(), torch.arange(3.0)
    )
    twin = lazily(lambda: nn.Linear(4, 3))
    copied = copy.deepcopy(twin)
    with torch.no_grad():
        copied.weight.mul_(2)
    assert not twin.weight.has_data and torch.equal(copied.weight.torch_tensor(), 2 * twin.weight.torch_tensor())
    loaded = lazily(lambda: nn.Linear(4, 3))
    loaded.load_state_dict(before)
    assert all(torch.equal(x, before[name]) for name, x in values(loaded).items())
    twin.weight.clear_data()
    assert torch.equal(twin.weight.torch_tensor(), before["weight"])  # made again
    twin.weight.clear_data()
    twin.weight.materializer = lambda shape, dtype, requires_grad: torch.full(shape, 4.0, dtype=dtype)
    assert torch.equal(twin.weight.torch_tensor(), torch.full((3, 4), 4.0))


LARGE = """
import re, sys, time
import torch
from transformers import GPT2Config, GPT2LMHeadModel
import sambaflow.samba as samba

torch.set_num_threads(1)
def resident():
    return int(open("/proc/self/statm").read().split()[1]) * 4096 / 2**20
config = GPT2Config(n_embd=1600, n_head=25, n_layer=48, n_positions=1024, use_cache=False)
before = resident()
samba.session.enable_lazy_param(seed=1)
start = time.process_time()
model = samba.from_torch_model_(GPT2LMHeadModel(config).eval())
built = time.process_time()
inputs = {"input_ids": samba.randint(50257, (1, 64), name="input_ids")}
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = model
    def forward(self, input_ids):
        return self.inner(input_ids).logits
pef = samba.session.compile(Model(), inputs, inference=True, output_folder=sys.argv[1])
end = time.process_time()
parameters = sum(p.numel() for p in model.parameters())
assert not any(p.has_data for p in model.parameters())
peak = int(re.search("VmHWM: *([0-9]+) kB", open("/proc/self/status").read().expandtabs())[1]) / 1024  # ru_maxrss begins with the parent's
print(parameters, built - start, end - built, resident() - before, peak - before)
"""  # noqa: E501


def test_large_model(tmp_path):
    """GPT-2 of 1.5 billion parameters, 6 GB: compiled with none of them made."""
    import os

    done = subprocess.run(
        [sys.executable, "-c", LARGE, str(tmp_path)],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert done.returncode == 0, done.stderr
    parameters, build, compile_, left, peak = map(float, done.stdout.split()[-5:])
    print(
        f"{parameters / 1e9:.2f} G parameters: built in {build:.2f} s, compiled in {compile_:.2f} s, {left:.0f} MiB more "
        f"resident, at most {peak:.0f}"
    )
    assert parameters > 1.5e9 and peak < 300
