# SPDX-License-Identifier: Apache-2.0
"""A GAN with two optimizers: a generator learns to make points of a ring, a critic to tell them from true ones.

    python examples/python/gan_ring.py

Each side is a graph of its own in one PEF, with its own loss and its own optimizer. Both hold the same two nets, so they share
the weights: what one graph trains is what the other one reads. A graph trains what its optimizer has; `detach` keeps the critic's
loss from the generator, and the generator's graph has no optimizer for the critic.
"""

import torch

import sambaflow.samba as samba
import sambaflow.samba.utils as utils
from sambaflow.samba.graph import SambaGraph

BATCH = 128


def layers(inputs, outputs):
    return torch.nn.Sequential(
        torch.nn.Linear(inputs, 64),
        torch.nn.LeakyReLU(0.2),
        torch.nn.Linear(64, 64),
        torch.nn.LeakyReLU(0.2),
        torch.nn.Linear(64, outputs),
    )


def score(logits, true):
    """How far the critic's answers are from 'all true', or from 'all made'."""
    return torch.nn.functional.binary_cross_entropy_with_logits(logits, torch.full_like(logits, true))


class Critic(torch.nn.Module):
    def __init__(self, generator, critic):
        super().__init__()
        self.generator, self.critic = generator, critic

    def forward(self, point, noise):
        made = self.generator(noise).detach()
        return score(self.critic(point), 1.0) + score(self.critic(made), 0.0)


class Generator(torch.nn.Module):
    def __init__(self, generator, critic):
        super().__init__()
        self.generator, self.critic = generator, critic

    def forward(self, noise):
        made = self.generator(noise)
        return score(self.critic(made), 1.0), made


def ring():
    angle = torch.rand(BATCH, 1) * 2 * torch.pi
    return torch.cat([angle.cos(), angle.sin()], 1) + 0.05 * torch.randn(BATCH, 2)


utils.set_seed(1)
generator, critic = layers(4, 2), layers(2, 1)
learns_to_tell = samba.from_torch_model_(Critic(generator, critic))
learns_to_make = Generator(generator, critic)  # the same nets, so they are converted already
critic_optim = samba.optim.Adam(critic.parameters(), lr=0.002, betas=(0.5, 0.9))
generator_optim = samba.optim.Adam(generator.parameters(), lr=0.001, betas=(0.5, 0.9))

point, noise = samba.zeros(BATCH, 2, name="point"), samba.zeros(BATCH, 4, name="noise")
samba.session.add_graph(SambaGraph(learns_to_tell, (point, noise), critic_optim, name="critic", loss_indices=[0]))
samba.session.add_graph(SambaGraph(learns_to_make, (noise,), generator_optim, name="generator", loss_indices=[0]))
pef = samba.session.compile_multigraph("gan")
critic_outputs = utils.trace_multigraph(learns_to_tell, (point, noise), critic_optim)
generator_outputs = utils.trace_multigraph(learns_to_make, (noise,), generator_optim)
samba.session.init_multigraph_runtime(pef)


def fresh_noise():
    return samba.from_torch_tensor(torch.randn(BATCH, 4), name="noise")


for step in range(1500):
    batch = samba.from_torch_tensor(ring(), name="point"), fresh_noise()
    (critic_loss,) = samba.session.run(batch, critic_outputs, graph_name="critic")
    (loss,) = samba.session.run((fresh_noise(),), generator_outputs[:1], graph_name="generator")
    if (step + 1) % 500 == 0:
        print(f"step {step + 1}  critic's loss {critic_loss.item():.3f}  generator's {loss.item():.3f}")

made = torch.cat(
    [
        samba.session.run((fresh_noise(),), generator_outputs, section_types=["FWD"], graph_name="generator")[1].torch()
        for _ in range(8)
    ]
)
radius, angle = made.norm(dim=1), torch.atan2(made[:, 1], made[:, 0])
sectors = torch.histc(angle, 8, -torch.pi, torch.pi) / len(made)
near = (radius - 1).abs().lt(0.2).float().mean()
print(f"{100 * near:.0f} % are near the ring; the emptiest eighth of it has {100 * sectors.min():.1f} %")
assert near > 0.75 and sectors.min() > 0.02
