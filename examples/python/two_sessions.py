# SPDX-License-Identifier: Apache-2.0
"""Two trainings at once in one process, each by a session and a thread of its own: which of two learning rates is better?

    python examples/python/two_sessions.py

`samba.session` is one session of many; `session=` tells functions of `utils` which one they are for. torch's random numbers are
the process's, so each training draws its batches by a generator of its own, and gives what it gives alone.
"""

import threading

import torch

import sambaflow.samba as samba
import sambaflow.samba.utils as utils


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(4, 32), torch.nn.Tanh(), torch.nn.Linear(32, 1))

    def forward(self, x, y):
        return torch.nn.functional.mse_loss(self.layers(x), y)


def train(lr, model, losses):
    """Trains the model in a session of its own. The losses of all steps go to losses[lr]."""
    session = samba.SambaSession()
    samba.from_torch_model_(model)
    optim = samba.optim.SGD(model.parameters(), lr=lr, momentum=0.9)
    inputs = samba.zeros(32, 4, name="x"), samba.zeros(32, 1, name="y")
    pef = session.compile(model, inputs, optim, name=f"rate-{lr}", loss_indices=[0])
    outputs = utils.trace_graph(model, inputs, optim, pef=pef, loss_indices=[0], session=session)
    generator = torch.Generator().manual_seed(1)
    losses[lr] = []
    for _ in range(800):
        x = torch.randn(32, 4, generator=generator)
        y = (x[:, :1] * x[:, 1:2] + x[:, 2:3]).tanh()
        batch = samba.from_torch_tensor(x, name="x"), samba.from_torch_tensor(y, name="y")
        (loss,) = session.run(batch, outputs)
        losses[lr].append(loss.item())
    session.to_cpu(model)


def models(rates):
    torch.manual_seed(1)
    first = Net()
    return {lr: first if lr == rates[0] else Net() for lr in rates}


rates = 0.001, 0.1
together, alone = {}, {}
threads = [threading.Thread(target=train, args=(lr, model, together)) for lr, model in models(rates).items()]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
for lr, model in models(rates).items():
    train(lr, model, alone)

last = {lr: sum(together[lr][-50:]) / 50 for lr in rates}
print(", ".join(f"rate {lr}: loss {last[lr]:.4f}" for lr in rates))
assert together == alone
assert last[0.1] < 0.05 and last[0.1] < last[0.001] / 2
