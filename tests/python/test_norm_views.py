# SPDX-License-Identifier: Apache-2.0
"""Gradients of batch and instance norms behind views, at batch 1 and 2: ours, eager and compiled, are what central differences in
float64 say, and what PyTorch says where its kernel is given a contiguous gradient (steady.py says why)."""

import copy
import random

import pytest
import torch
import torch.nn.functional as F
from steady import steady, steady_norms

import sambaflow.samba as samba
from sambaflow.samba.sambatensor import SambaTensor, to_torch

STEP = 1e-5


class Model(torch.nn.Module):
    """Views, a 1 x 1 convolution, a norm, views, a loss."""

    def __init__(self, space, norm, views, channels, front=()):
        super().__init__()
        conv = {1: torch.nn.Conv1d, 2: torch.nn.Conv2d, 3: torch.nn.Conv3d}[space]
        kinds = {
            "batch": (torch.nn.BatchNorm1d, torch.nn.BatchNorm2d, torch.nn.BatchNorm3d),
            "instance": (torch.nn.InstanceNorm1d, torch.nn.InstanceNorm2d, torch.nn.InstanceNorm3d),
        }
        self.conv = conv(3, channels, 1)
        self.norm = kinds[norm][space - 1](
            channels, eps=0.1, affine=True
        )  # differences of few elements a channel want a blunt root
        self.views, self.front = views, front

    def forward(self, x, target):
        return ((through(self.views, self.norm(self.conv(through(self.front, x)))) - target) ** 2).mean()


def through(views, y):
    for view, *arguments in views:
        y = getattr(y, view)(*arguments)
    return y


def draw(seed):
    """A model in float64, its views drawn for the shape that they meet, its input and target."""
    draws = random.Random(seed)
    space, norm = draws.choice((2, 2, 3)), draws.choice(("batch", "instance"))
    batch = 1 if norm == "batch" else draws.choice((1, 2))
    channels, sizes = draws.choice((4, 8)), [draws.choice((1, 2, 3, 4)) for _ in range(space)]
    sizes[0] = max(sizes[0], 2)
    y, views = torch.zeros(batch, channels, *sizes), []
    for _ in range(draws.choice((1, 2))):
        kind = draws.choice(("permute", "transpose", "flatten"))
        if kind == "permute":
            view = (kind, draws.sample(range(y.dim()), y.dim()))
        elif kind == "transpose":
            view = (kind, *draws.sample(range(y.dim()), 2)) if y.dim() > 1 else (kind, 0, 0)
        else:
            view = (kind, draws.randrange(y.dim()))
        views.append(view)
        y = through([view], y)
    torch.manual_seed(seed)
    shape = (batch, 3, *sizes)
    order = draws.sample(range(len(shape)), len(shape)) if draws.random() < 0.5 else list(range(len(shape)))
    front = [("permute", [order.index(d) for d in range(len(shape))])]
    return (
        Model(space, norm, views, channels, front).double(),
        torch.randn([shape[d] for d in order]).double(),
        torch.randn(y.shape).double(),
    )


def found_case():
    torch.manual_seed(0)
    model = Model(2, "batch", [("flatten", 2), ("transpose", 1, 2)], 8).double()
    return model, torch.randn(1, 3, 4, 4).double(), torch.randn(1, 16, 8).double()


def by_differences(model, x, target):
    """Of each parameter, one element after the other."""
    gradients = []
    with torch.no_grad():
        for p in model.parameters():
            gradient = torch.zeros_like(p)
            for i in range(p.numel()):
                kept, sides = p.view(-1)[i].item(), []
                for step in (STEP, -STEP):
                    p.view(-1)[i] = kept + step
                    sides.append(model(x, target).item())
                p.view(-1)[i] = kept
                gradient.view(-1)[i] = (sides[0] - sides[1]) / (2 * STEP)
            gradients.append(gradient)
    return gradients


def by_torch(model, x, target):
    reference = steady_norms(copy.deepcopy(model))
    reference(x, target).backward()
    return [p.grad for p in reference.parameters()]


def by_eager(model, x, target):
    leaves = [SambaTensor(p.detach()).requires_grad_() for p in model.parameters()]
    conv = {4: F.conv2d, 5: F.conv3d}[model.conv.weight.dim()]
    norm = F.batch_norm if isinstance(model.norm, torch.nn.modules.batchnorm._BatchNorm) else F.instance_norm
    y = norm(conv(through(model.front, SambaTensor(x)), *leaves[:2]), None, None, *leaves[2:], True, eps=0.1)
    loss = ((through(model.views, y) - SambaTensor(target)) ** 2).mean()
    return [to_torch(g).detach() for g in torch.autograd.grad(loss, leaves)]


def by_compiled(model, x, target, folder):
    mine = copy.deepcopy(model)
    samba.from_torch_model_(mine)
    inputs = (samba.from_torch_tensor(x, name="x"), samba.from_torch_tensor(target, name="target"))
    optimizer = samba.optim.SGD(mine.parameters(), lr=0.1)
    pef = samba.session.compile(mine, inputs, optimizer, name="norm_views", loss_indices=[0], output_folder=str(folder))
    out = samba.utils.trace_graph(mine, inputs, optimizer, pef=pef, loss_indices=[0])
    samba.session.run(inputs, out, section_types=["FWD", "BCKWD"])
    return [samba.session.device_get(f"{p.sn_name}.grad") for p in mine.parameters()]


def assert_right(case, folder, what):
    model, x, target = case
    exact = by_differences(model, x, target)
    scale = max(g.abs().max().item() for g in exact)
    for way, gradients in (("torch", by_torch(*case)), ("eager", by_eager(*case)), ("compiled", by_compiled(*case, folder))):
        for (name, _), given, wanted in zip(model.named_parameters(), gradients, exact):
            difference = (given - wanted).abs().max().item()
            assert difference <= 1e-7 * max(scale, 1), (
                f"{what}, {model}, {model.front}, {model.views}, input {tuple(x.shape)}: {way} gradient of {name} is "
                f"{difference:.3g} off"
            )


def test_batch_norm_flatten_transpose(tmp_path):
    assert_right(found_case(), tmp_path, "batch norm")


def test_drawn_views(tmp_path):
    first = random.randrange(1 << 30)
    print(f"models of the seeds {first} to {first + 23}")
    for seed in range(first, first + 24):
        assert_right(draw(seed), tmp_path / str(seed), f"seed {seed}")
        samba.session.reset()


def test_steady():
    """What it changes: the order of input and gradient in memory, not their values, and nothing about tensors of ours."""
    seen = []

    def norm(x):
        seen.append(x)
        return x * 2

    x = torch.randn(1, 2, 3, 4).permute(0, 2, 3, 1).requires_grad_()
    seed = torch.randn(1, 2, 4, 3).permute(0, 3, 2, 1)
    assert torch.equal(torch.autograd.grad(steady(norm)(x), x, seed)[0], 2 * seed)
    assert torch.equal(seen[0], x) and seen[0].is_contiguous()
    ours = SambaTensor(torch.zeros(2))
    assert steady(lambda x: x)(ours) is ours


@pytest.mark.xfail(
    strict=False, reason="PyTorch's batch norm reads a gradient with strides near those of channels_last as if it were contiguous"
)
def test_torch_itself():
    """Passes when PyTorch's own gradient is right: then steady.py, and what docs/models.md says of it, may go."""
    model, x, target = found_case()
    model(x, target).backward()
    for p, wanted in zip(model.parameters(), by_differences(model, x, target)):
        assert (p.grad - wanted).abs().max() < 1e-7
