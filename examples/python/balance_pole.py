# SPDX-License-Identifier: Apache-2.0
"""Reinforcement learning: a policy learns to balance a pole on a cart, by REINFORCE with a baseline.

    python examples/python/balance_pole.py

The program simulates 32 carts at once (Barto, Sutton and Anderson, 1983). Two graphs share the weights in one PEF: `act` gives
a policy for 32 states and is run in each step, `learn` is run once for an episode, over all its states and actions. An episode
has a fixed length there, and a mask says which carts had fallen. What acts keeps no gradients: `learn` computes the log
probabilities of the actions again, by the same weights.
"""

import math

import torch

import sambaflow.samba as samba
import sambaflow.samba.utils as utils
from sambaflow.samba.graph import FwdGraph, SambaGraph

CARTS, STEPS, EPISODES, DISCOUNT = 32, 100, 25, 0.98


class Policy(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(4, 64), torch.nn.Tanh(), torch.nn.Linear(64, 2))

    def forward(self, state):
        return self.layers(state)


class Learn(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.policy = Policy()
        self.baseline = torch.nn.Sequential(torch.nn.Linear(4, 64), torch.nn.Tanh(), torch.nn.Linear(64, 1))

    def forward(self, state, action, gain, alive):
        choice = torch.distributions.Categorical(logits=self.policy(state))
        expected = self.baseline(state).squeeze(-1)
        advantage = (gain - expected).detach()
        reinforced = -choice.log_prob(action) * advantage - 0.01 * choice.entropy()
        return ((reinforced + 0.5 * (gain - expected).square()) * alive).sum() / alive.sum()


def move(state, action):
    """The states 20 ms later, and which carts still have their pole up and are on their track."""
    place, speed, angle, turn = state.unbind(1)
    force = 20.0 * action - 10.0
    push = (force + 0.05 * turn.square() * angle.sin()) / 1.1
    bend = (9.8 * angle.sin() - angle.cos() * push) / (0.5 * (4 / 3 - 0.1 * angle.cos().square() / 1.1))
    pull = push - 0.05 * bend * angle.cos() / 1.1
    state = torch.stack([place + 0.02 * speed, speed + 0.02 * pull, angle + 0.02 * turn, turn + 0.02 * bend], 1)
    return state, (state[:, 0].abs() < 2.4) & (state[:, 2].abs() < 12 * math.pi / 180)


utils.set_seed(1)
learn = samba.from_torch_model_(Learn())
optim = samba.optim.Adam(learn.parameters(), lr=0.01)
states = (samba.zeros(CARTS, 4, name="state"),)
episode = (
    samba.zeros(STEPS, CARTS, 4, name="states"),
    samba.zeros(STEPS, CARTS, dtype=torch.int64, name="action"),
    samba.zeros(STEPS, CARTS, name="gain"),
    samba.zeros(STEPS, CARTS, name="alive"),
)
samba.session.add_graph(SambaGraph(learn, episode, optim, name="learn", loss_indices=[0]))
samba.session.add_graph(FwdGraph(learn.policy, states, name="act"))
pef = samba.session.compile_multigraph("pole")
losses = utils.trace_multigraph(learn, episode, optim)
policies = utils.trace_multigraph(learn.policy, states)
samba.session.init_multigraph_runtime(pef)


def play(greedy=False):
    """An episode of all carts: states, actions and who was still alive, each for all steps."""
    state, alive = 0.1 * torch.rand(CARTS, 4) - 0.05, torch.ones(CARTS, dtype=torch.bool)
    seen = []
    for _ in range(STEPS):
        (logits,) = samba.session.run((samba.from_torch_tensor(state, name="state"),), policies, graph_name="act")
        logits = logits.torch()
        action = logits.argmax(1) if greedy else torch.distributions.Categorical(logits=logits).sample()
        seen.append((state, action, alive.float()))
        state, up = move(state, action)
        alive = alive & up
        state = state * alive.unsqueeze(1)  # who has fallen stays in the middle
    return [torch.stack(part) for part in zip(*seen)]


for number in range(EPISODES):
    state, action, alive = play()
    gain, following = torch.zeros(STEPS, CARTS), torch.zeros(CARTS)
    for step in reversed(range(STEPS)):
        following = alive[step] * (1 + DISCOUNT * following)  # a reward of 1 for each step with the pole up
        gain[step] = following
    gain = gain * (1 - DISCOUNT)  # about 1 for a pole that stays up
    given = {"states": state, "action": action, "gain": gain, "alive": alive}
    batch = [samba.from_torch_tensor(x, name=name) for name, x in given.items()]
    samba.session.run(batch, losses, graph_name="learn")
    if (number + 1) % 5 == 0:
        print(f"episode {number + 1}  steps with the pole up: {alive.sum(0).mean():.0f}")

steps = play(greedy=True)[2].sum(0).mean().item()
print(f"at last, without chance: {steps:.0f} of {STEPS}")
assert steps > 85
