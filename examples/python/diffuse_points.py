# SPDX-License-Identifier: Apache-2.0
"""Diffusion: a net learns to take noise out of points of two moons, and then makes such points from noise alone.

    python examples/python/diffuse_points.py

DDPM (Ho, Jain and Abbeel, 2020) with 50 steps. The schedule is a buffer of the model, which looks up the noise of each point's
step. Sampling is a graph of its own over the same weights, with 1,000 points instead of 256: one step of all points a run.
"""

import torch

import sambaflow.samba as samba
import sambaflow.samba.utils as utils
from sambaflow.samba.graph import FwdGraph, SambaGraph

BATCH, SAMPLES, STEPS = 256, 1000, 50


class Denoiser(torch.nn.Module):
    """The noise in points, by the points and their step."""

    def __init__(self, width=64):
        super().__init__()
        self.step = torch.nn.Embedding(STEPS, width)
        self.point = torch.nn.Linear(2, width)
        self.layers = torch.nn.Sequential(
            torch.nn.SiLU(),
            torch.nn.Linear(width, width),
            torch.nn.SiLU(),
            torch.nn.Linear(width, width),
            torch.nn.SiLU(),
            torch.nn.Linear(width, 2),
        )

    def forward(self, point, step):
        return self.layers(self.point(point) + self.step(step))


class Diffusion(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.denoiser = Denoiser()
        self.register_buffer("kept", torch.cumprod(1 - torch.linspace(1e-3, 0.2, STEPS), 0))

    def forward(self, point, step, noise):
        kept = self.kept[step].unsqueeze(1)
        noisy = kept.sqrt() * point + (1 - kept).sqrt() * noise
        return torch.nn.functional.mse_loss(self.denoiser(noisy, step), noise)


def moons(count):
    angle, second = torch.pi * torch.rand(count), torch.rand(count) < 0.5
    x = torch.where(second, 1 - angle.cos(), angle.cos()) - 0.5
    y = torch.where(second, 0.5 - angle.sin(), angle.sin()) - 0.25
    return torch.stack([x, y], 1) + 0.04 * torch.randn(count, 2)


utils.set_seed(1)
model = samba.from_torch_model_(Diffusion())
optim = samba.optim.Adam(model.parameters(), lr=0.003)
inputs = (
    samba.zeros(BATCH, 2, name="point"),
    samba.zeros(BATCH, dtype=torch.int64, name="step"),
    samba.zeros(BATCH, 2, name="noise"),
)
noisy = samba.zeros(SAMPLES, 2, name="noisy"), samba.zeros(SAMPLES, dtype=torch.int64, name="its_step")
samba.session.add_graph(SambaGraph(model, inputs, optim, name="train", loss_indices=[0]))
samba.session.add_graph(FwdGraph(model.denoiser, noisy, name="denoise"))
pef = samba.session.compile_multigraph("diffusion")
losses = utils.trace_multigraph(model, inputs, optim)
noises = utils.trace_multigraph(model.denoiser, noisy)
samba.session.init_multigraph_runtime(pef)

schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optim, T_max=2000)
total = 0.0
for number in range(2000):
    given = moons(BATCH), torch.randint(STEPS, (BATCH,)), torch.randn(BATCH, 2)
    batch = [samba.from_torch_tensor(x, name=name) for x, name in zip(given, ("point", "step", "noise"))]
    rate = {"lr": schedule.get_last_lr()[0]}
    (loss,) = samba.session.run(batch, losses, graph_name="train", hyperparam_dict=rate)
    schedule.step()
    total += loss.item()
    if (number + 1) % 500 == 0:
        print(f"step {number + 1}  loss {total / 500:.3f}")
        total = 0.0

kept = model.kept.torch()
alpha = kept / torch.cat([torch.ones(1), kept[:-1]])
point = torch.randn(SAMPLES, 2)
for step in reversed(range(STEPS)):
    given = point, torch.full((SAMPLES,), step)
    batch = [samba.from_torch_tensor(x, name=name) for x, name in zip(given, ("noisy", "its_step"))]
    (noise,) = samba.session.run(batch, noises, graph_name="denoise")
    point = (point - (1 - alpha[step]) / (1 - kept[step]).sqrt() * noise.torch()) / alpha[step].sqrt()
    if step > 0:
        point = point + (1 - alpha[step]).sqrt() * torch.randn(SAMPLES, 2)

true = moons(2000)
distance = torch.cdist(point, true)
near, covered = (distance.amin(1) < 0.2).float().mean().item(), (distance.amin(0) < 0.2).float().mean().item()
print(f"{100 * near:.0f} % of the points made are near the moons; {100 * covered:.0f} % of the moons are near one of them")
assert near > 0.6 and covered > 0.95
