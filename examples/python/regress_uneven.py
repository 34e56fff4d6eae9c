# SPDX-License-Identifier: Apache-2.0
"""Regression whose last batch of an epoch is smaller: 500 samples in batches of 64 end in one of 52.

    python examples/python/regress_uneven.py

A graph has fixed shapes, so each batch size is a graph of its own in one PEF, over the same weights: `dims` names the sizes. A
run takes the graph of the batch that it is given. The 200 test samples are the third size, so they are tested in one run.
"""

import torch

import sambaflow.samba as samba
import sambaflow.samba.utils as utils
from sambaflow.samba.sambaloader import SambaLoader


class Regression(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(
            torch.nn.Linear(6, 64), torch.nn.SiLU(), torch.nn.Linear(64, 64), torch.nn.SiLU(), torch.nn.Linear(64, 1)
        )

    def forward(self, x, y):
        predicted = self.layers(x).squeeze(1)
        return torch.nn.functional.huber_loss(predicted, y), predicted


utils.set_seed(1)
x = torch.rand(700, 6) * 2 - 1
y = torch.sin(3 * x[:, 0]) + x[:, 1] * x[:, 2] + x[:, 3].square() - 0.5 * x[:, 4] + 0.05 * torch.randn(700)
data = torch.utils.data.TensorDataset(x[:500], y[:500])
loader = torch.utils.data.DataLoader(data, batch_size=64, shuffle=True)

model = samba.from_torch_model_(Regression())
optim = samba.optim.Adam(model.parameters(), lr=0.005)
inputs = samba.zeros(64, 6, name="x"), samba.zeros(64, name="y")
pef = samba.session.compile(model, inputs, optim, name="regression", loss_indices=[0], dims={"batch": (64, 52, 200)})
outputs = utils.trace_graph(model, inputs, optim, pef=pef, loss_indices=[0])

for epoch in range(60):
    total = 0.0
    for batch in SambaLoader(loader, ["x", "y"]):
        (loss,) = samba.session.run(batch, outputs[:1])
        total += loss.item() * len(batch[1])  # a mean over the samples of this batch
    if (epoch + 1) % 20 == 0:
        print(f"epoch {epoch + 1}  loss {total / 500:.4f}")

test = samba.from_torch_tensor(x[500:], name="x"), samba.from_torch_tensor(y[500:], name="y")
_, predicted = samba.session.run(test, outputs, section_types=["FWD"], train=False)
unexplained = (predicted.torch() - y[500:]).square().mean() / y[500:].var(unbiased=False)
print(f"explained variance of the test (R2): {1 - unexplained:.3f}")
assert unexplained < 0.05
